/* Opens SQL over a trace: a connection in memory with our tables, closed to files. */
#include <string.h>

#include "analyze/sql_impl.h"
#include "analyze/sql_slice.h"
#include "base/mem.h"

#include "base/banned.h"

stk__sql *stk__sql_ref(stk__sql *s)
{
    s->references++;
    return s;
}

void stk__sql_unref(void *arg)
{
    stk__sql *s = arg;
    if (!s || --s->references > 0)
        return;
    sqlite3_close(s->totals);
    stk__slice_orders_clear(s);
    stk__free(s->flows_by_out.rows);
    stk__free(s->flows_by_in.rows);
    stk__free(s->callsite_depths);
    stk__steps_clear(&s->steps);
    stk__sql_pasted_clear(&s->pasted);
    stk__free(s);
}

/*
 * SQLite has no place for a pointer of ours but the argument of a hook, which it gives back when the hook is
 * replaced.
 */
static void on_rollback(void *arg)
{
    (void)arg;
}

stk__sql *stk__sql_of(sqlite3 *db)
{
    stk__sql *s = sqlite3_rollback_hook(db, NULL, NULL);
    sqlite3_rollback_hook(db, s ? on_rollback : NULL, s);
    return s;
}

/* ---- what a query may do ---- */

static bool listed(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; word && i < count; i++) {
        if (sqlite3_stricmp(word, list[i]) == 0)
            return true;
    }
    return false;
}

/* Those that only tell something, or change how the query itself runs. */
static bool pragma_allowed(const char *name)
{
    static const char *const allowed[] = {
        "table_info",      "table_xinfo",  "table_list",          "function_list", "module_list",    "pragma_list",
        "compile_options", "data_version", "case_sensitive_like", "database_list", "collation_list",
    };
    return listed(name, allowed, STK_COUNT(allowed));
}

static bool function_allowed(const char *name)
{
    static const char *const refused[] = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"};
    return !listed(name, refused, STK_COUNT(refused));
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *database, const char *trigger)
{
    switch (action) {
    case SQLITE_ATTACH: /* also VACUUM */
    case SQLITE_DETACH:
    case SQLITE_CREATE_VTABLE:
    case SQLITE_DROP_VTABLE:
        return SQLITE_DENY;
    case SQLITE_PRAGMA:
        return pragma_allowed(a) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return function_allowed(b) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_OK;
    }
}

int stk__sql_restrict(sqlite3 *db)
{
    static const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        /* A name in double quotes that is no column would become a string. */
        {SQLITE_DBCONFIG_DQS_DML, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };
    for (size_t i = 0; i < STK_COUNT(options); i++) {
        const int code = sqlite3_db_config(db, options[i].option, options[i].value, NULL);
        if (code != SQLITE_OK)
            return code;
    }
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    return sqlite3_set_authorizer(db, authorize, NULL);
}

/* ---- views ---- */

/* Perfetto's names for parts of our tables. What no trace has here is empty, with its columns. */
static const char views[] =
    "CREATE VIEW thread_track AS SELECT id, name, label, type, parent_id, lane, utid, upid, file_id FROM track "
    "WHERE type = 'thread_track';"
    "CREATE VIEW process_track AS SELECT id, name, label, type, parent_id, lane, upid, file_id FROM track "
    "WHERE type IN ('process_track', 'async_track') AND upid IS NOT NULL;"
    "CREATE VIEW counter_track AS SELECT id, name, label, type, parent_id, unit, utid, upid, file_id FROM track "
    "WHERE type = 'counter_track';"
    "CREATE VIEW process_counter_track AS SELECT * FROM counter_track WHERE upid IS NOT NULL AND utid IS NULL;"
    "CREATE VIEW thread_counter_track AS SELECT * FROM counter_track WHERE utid IS NOT NULL;"
    "CREATE VIEW counters AS SELECT counter.id, ts, track_id, value, counter.name, unit FROM counter "
    "JOIN track ON track.id = track_id;"
    "CREATE VIEW slices AS SELECT * FROM slice;"
    "CREATE VIEW thread_slice AS SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, utid, "
    "tid, thread_name, upid, pid, process_name, thread_ts, thread_dur, "
    "(SELECT is_main_thread FROM thread WHERE thread.id = slice.utid) AS is_main_thread, "
    "(SELECT track.name FROM track WHERE track.id = track_id) AS track_name FROM slice WHERE utid IS NOT NULL;"
    "CREATE VIEW process_slice AS SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, upid, "
    "pid, process_name, (SELECT track.name FROM track WHERE track.id = track_id) AS track_name FROM slice "
    "WHERE utid IS NULL AND upid IS NOT NULL;"
    "CREATE VIEW thread_or_process_slice AS SELECT id, ts, dur, category, name, track_id, "
    "(SELECT track.name FROM track WHERE track.id = track_id) AS track_name, thread_name, utid, tid, process_name, "
    "upid, pid, depth, parent_id, arg_set_id, thread_ts, thread_dur FROM slice WHERE upid IS NOT NULL;"
    "CREATE VIEW trace_bounds AS SELECT trace_start() AS start_ts, trace_end() AS end_ts;"
    "CREATE VIEW metadata AS SELECT key AS name, 'single' AS key_type, "
    "CASE WHEN value = CAST(CAST(value AS INTEGER) AS TEXT) THEN CAST(value AS INTEGER) END AS int_value, "
    "CASE WHEN value = CAST(CAST(value AS INTEGER) AS TEXT) THEN NULL ELSE value END AS str_value, file_id FROM fact "
    "UNION ALL SELECT 'trace_size_bytes', 'single', size_bytes, NULL, id FROM file;"
    "CREATE VIEW stats AS SELECT reason AS name, file_id AS key, file_id AS idx, "
    "CASE lost WHEN 1 THEN 'data_loss' ELSE 'info' END AS severity, 'analysis' AS source, count AS value, "
    "text AS description FROM note;"
    "CREATE VIEW thread_state AS SELECT NULL AS id, NULL AS ts, NULL AS dur, NULL AS cpu, NULL AS utid, "
    "NULL AS state, NULL AS io_wait, NULL AS blocked_function, NULL AS waker_utid, NULL AS waker_id, "
    "NULL AS irq_context, NULL AS ucpu WHERE 0;"
    "CREATE VIEW sched AS SELECT NULL AS id, NULL AS ts, NULL AS dur, NULL AS cpu, NULL AS utid, "
    "NULL AS end_state, NULL AS priority, NULL AS ucpu, NULL AS ts_end WHERE 0;"
    "CREATE VIEW sched_slice AS SELECT * FROM sched;"
    "CREATE VIEW stack_profile_frame AS SELECT id, name, module AS mapping, source_file, line_number FROM frame;"
    "CREATE VIEW stack_profile_callsite AS SELECT id, depth, parent_id, frame_id FROM callsite;"
    "CREATE VIEW cpu_profile_stack_sample AS SELECT id, ts, callsite_id, utid, weight FROM sample;";

static int add_everything(sqlite3 *db, stk__sql *s)
{
    int code = stk__sql_add_slice(db, s);
    if (code == SQLITE_OK)
        code = stk__sql_add_tables(db, s);
    if (code == SQLITE_OK)
        code = stk__sql_add_functions(db, s);
    if (code == SQLITE_OK)
        code = stk__sql_add_scalars(db, s);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, views, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = stk__sql_add_events(db, s);
    return code == SQLITE_OK ? stk__sql_restrict(db) : code;
}

stk_status stk__sql_open(const stk__trace *t, sqlite3 **out, stk_error *err)
{
    sqlite3 *db = NULL;
    stk__sql *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    s->trace = t;
    s->references = 1;
    int code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = add_everything(db, s);
    if (code == SQLITE_OK)
        sqlite3_rollback_hook(db, on_rollback, s);
    stk__sql_unref(s); /* the modules hold it now */
    if (code == SQLITE_OK) {
        *out = db;
        return STK_OK;
    }
    const stk_status status = stk_error_set(err, code == SQLITE_NOMEM ? STK_NOMEM : STK_UNSUPPORTED, "SQLite: %s",
                                            db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    sqlite3_close(db);
    return status;
}
