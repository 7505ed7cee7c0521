/* The events of the trace as Chrome's JSON has them: the query behind trace_events and tables of BigQuery. */
#include "analyze/sql_impl.h"

#include "base/banned.h"

/* main.: a table that the query itself makes by WITH is another one. Whole microseconds are integers, as in files. */
#define EVENTS_OF_SLICES                                                                               \
    "iif(s.is_instant, 'i', 'X') AS ph, s.category AS cat, s.name AS name, "                           \
    "coalesce(s.pid, (SELECT p.pid_text FROM main.process p WHERE p.id = s.upid)) AS pid, "            \
    "coalesce(s.tid, (SELECT t.tid_text FROM main.thread t WHERE t.id = s.utid)) AS tid, "             \
    "CASE WHEN s.ts % 1000 THEN s.ts / 1000.0 ELSE s.ts / 1000 END AS ts, "                            \
    "CASE WHEN s.is_instant THEN NULL WHEN s.dur % 1000 THEN s.dur / 1000.0 ELSE s.dur / 1000 END AS " \
    "dur, NULL AS value, s.arg_set_id AS arg_set_id"
#define EVENTS_OF_COUNTERS                                   \
    "'C', NULL, c.name, coalesce(p.pid, p.pid_text), NULL, " \
    "CASE WHEN c.ts % 1000 THEN c.ts / 1000.0 ELSE c.ts / 1000 END, NULL, c.value, NULL"

void stk__sql_put_events(const stk__sql *s, const stk__sql_args *args, const char *number, sqlite3_str *out)
{
    sqlite3_str_appendf(out, "SELECT s.id AS \"%w\", ", number);
    sqlite3_str_appendall(out, EVENTS_OF_SLICES);
    for (size_t i = 0; i < args->count; i++)
        sqlite3_str_appendf(out, ", s.\"%w\" AS \"%w\"", args->items[i].column, args->items[i].column);
    sqlite3_str_appendall(out, " FROM main.slice s");
    if (s->trace->counters.count == 0)
        return; /* one table is read faster than two */
    sqlite3_str_appendf(out, " UNION ALL SELECT c.id + %lld, ", (long long)s->trace->slices.count);
    sqlite3_str_appendall(out, EVENTS_OF_COUNTERS);
    for (size_t i = 0; i < args->count; i++)
        sqlite3_str_appendall(out, ", NULL");
    sqlite3_str_appendall(out, " FROM main.counter c LEFT JOIN main.process p ON p.id = c.upid");
}

int stk__sql_add_events(sqlite3 *db, stk__sql *s)
{
    static const stk__sql_args none;
    sqlite3_str *text = sqlite3_str_new(db);
    sqlite3_str_appendall(text, "CREATE VIEW trace_events AS ");
    stk__sql_put_events(s, &none, "index", text);
    char *statement = sqlite3_str_finish(text);
    const int code = statement ? sqlite3_exec(db, statement, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(statement);
    return code;
}
