/* Totals per group of all slices: a second connection in which a group is one row. */
#include <string.h>

#include "analyze/sql_slice.h"
#include "base/mem.h"

#include "base/banned.h"

/*
 * Only statements that stk__sql_is_total has seen come here, so that dur is read by the functions below and by nothing
 * else. What it can not see, the plan checks: no other column is used, and the rows come group by group without a
 * sorter. Otherwise there is no plan, and the statement runs the plain way.
 */

/* More groups than this are read row by row: their totals would take more memory than they save time. */
enum { GROUPS_MAX = 1 << 20 };

static const char run_type[] = "stk__sql_run";

typedef struct runs_vtab {
    sqlite3_vtab base;
    stk__sql *sql;
} runs_vtab;

typedef struct runs_cursor {
    sqlite3_vtab_cursor base;
    stk__sql *sql;
    stk__sql_order *order;
    const stk__sql_run *runs;
    size_t group;
} runs_cursor;

/* ---- the table ---- */

static int runs_connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    const int code = stk__slice_declare(db, NULL);
    if (code != SQLITE_OK)
        return code;
    runs_vtab *vtab = stk__calloc(1, sizeof *vtab);
    if (!vtab)
        return SQLITE_NOMEM;
    vtab->sql = arg;
    *out = &vtab->base;
    return SQLITE_OK;
}

static int runs_disconnect(sqlite3_vtab *vtab)
{
    stk__free(vtab);
    return SQLITE_OK;
}

/* The columns to group by, as letters for idxStr; false when groups can not be rows. */
static bool plan_keys(stk__sql *s, const sqlite3_index_info *info, char letters[STK__SQL_KEYS + 1])
{
    uint64_t known = UINT64_C(1) << STK__SLICE_dur;
    double groups = 1;
    if (info->nConstraint || info->nOrderBy < 1 || info->nOrderBy > STK__SQL_KEYS)
        return false;
    for (int i = 0; i < info->nOrderBy; i++) {
        int column = info->aOrderBy[i].iColumn;
        if (column == STK__SLICE_cat)
            column = STK__SLICE_category;
        if (column < 0 || column == STK__SLICE_ts || !stk__slice_sortable(column))
            return false;
        const stk__sql_map *map = column == STK__SLICE_track_id ? NULL : stk__slice_map(s, column);
        if (column != STK__SLICE_track_id && !map)
            return false;
        groups *= (double)(map ? map->ranks : s->trace->track_count);
        known |= UINT64_C(1) << column;
        if (column == STK__SLICE_category)
            known |= UINT64_C(1) << STK__SLICE_cat;
        letters[i] = (char)((info->aOrderBy[i].desc ? 'A' : 'a') + column);
    }
    letters[info->nOrderBy] = 0;
    return groups <= GROUPS_MAX && (info->colUsed & ~known) == 0;
}

static int runs_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    char letters[STK__SQL_KEYS + 1];
    if (!plan_keys(((runs_vtab *)vtab)->sql, info, letters))
        return SQLITE_CONSTRAINT;
    info->idxStr = sqlite3_mprintf("%s", letters);
    info->needToFreeIdxStr = 1;
    info->orderByConsumed = 1;
    info->estimatedCost = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int runs_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    runs_cursor *c = stk__calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->sql = ((runs_vtab *)vtab)->sql;
    *out = &c->base;
    return SQLITE_OK;
}

static void runs_release(runs_cursor *c)
{
    if (c->order)
        c->order->users--;
    c->order = NULL;
    c->sql->run = NULL;
}

static int runs_close(sqlite3_vtab_cursor *cursor)
{
    runs_release((runs_cursor *)cursor);
    stk__free(cursor);
    return SQLITE_OK;
}

/* From here on to a group that has rows. */
static void find_group(runs_cursor *c)
{
    while (c->group < c->order->groups && c->runs[c->group].count == 0)
        c->group++;
    c->sql->run = c->group < c->order->groups ? &c->runs[c->group] : NULL;
}

static int runs_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc, sqlite3_value **argv)
{
    runs_cursor *c = (runs_cursor *)cursor;
    uint8_t columns[STK__SQL_KEYS];
    size_t count = 0;
    for (; text[count] && count < STK__SQL_KEYS; count++)
        columns[count] = (uint8_t)(text[count] >= 'a' ? text[count] - 'a' : (text[count] - 'A') | STK__KEY_FLIPPED);
    runs_release(c);
    c->order = stk__slice_order(c->sql, columns, count);
    c->runs = c->order && c->order->groups ? stk__slice_runs(c->sql, c->order) : NULL;
    if (!c->runs)
        return SQLITE_NOMEM;
    c->group = 0;
    find_group(c);
    return SQLITE_OK;
}

static int runs_next(sqlite3_vtab_cursor *cursor)
{
    runs_cursor *c = (runs_cursor *)cursor;
    c->group++;
    find_group(c);
    return SQLITE_OK;
}

static int runs_eof(sqlite3_vtab_cursor *cursor)
{
    const runs_cursor *c = (runs_cursor *)cursor;
    return c->group >= c->order->groups;
}

static int runs_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
    const runs_cursor *c = (runs_cursor *)cursor;
    if (column == STK__SLICE_dur) {
        sqlite3_result_pointer(out, (void *)&c->runs[c->group], run_type, NULL);
        return SQLITE_OK;
    }
    const int wanted = column == STK__SLICE_cat ? STK__SLICE_category : column;
    for (size_t i = 0; i < c->order->column_count; i++) {
        if ((c->order->columns[i] & ~STK__KEY_FLIPPED) == wanted)
            stk__slice_put(c->sql->trace, out, wanted, stk__slice_group_value(c->sql, c->order, c->group, i));
    }
    return SQLITE_OK;
}

static int runs_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((runs_cursor *)cursor)->group;
    return SQLITE_OK;
}

/* ---- the functions ---- */

/* A group of SQL is one group of ours, so the last run that a function was given is all there is. */
static void run_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const stk__sql_run **run = sqlite3_aggregate_context(context, sizeof *run);
    if (run)
        *run = argc ? sqlite3_value_pointer(argv[0], run_type) : ((stk__sql *)sqlite3_user_data(context))->run;
}

static const stk__sql_run *run_of(sqlite3_context *context)
{
    const stk__sql_run **run = sqlite3_aggregate_context(context, 0);
    return run ? *run : NULL;
}

static void final_sum(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    if (run && run->overflow)
        sqlite3_result_error(context, "integer overflow", -1);
    else if (run)
        sqlite3_result_int64(context, run->sum);
}

static double run_total(const stk__sql_run *run)
{
    return run->overflow ? run->total : (double)run->sum;
}

static void final_total(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    sqlite3_result_double(context, run ? run_total(run) : 0);
}

static void final_avg(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    if (run)
        sqlite3_result_double(context, run_total(run) / (double)run->count);
}

static void final_min(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    if (run)
        sqlite3_result_int64(context, run->min);
}

static void final_max(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    if (run)
        sqlite3_result_int64(context, run->max);
}

static void final_count(sqlite3_context *context)
{
    const stk__sql_run *run = run_of(context);
    sqlite3_result_int64(context, run ? (sqlite3_int64)run->count : 0);
}

/* ---- the connection ---- */

static int add_everything(sqlite3 *db, stk__sql *s)
{
    static const sqlite3_module module = {
        .xConnect = runs_connect,
        .xBestIndex = runs_best_index,
        .xDisconnect = runs_disconnect,
        .xOpen = runs_open,
        .xClose = runs_close,
        .xFilter = runs_filter,
        .xNext = runs_next,
        .xEof = runs_eof,
        .xColumn = runs_column,
        .xRowid = runs_rowid,
    };
    static const struct {
        const char *name;
        int arguments;
        void (*final)(sqlite3_context *);
    } functions[] = {
        {"sum", 1, final_sum}, {"total", 1, final_total}, {"avg", 1, final_avg},     {"min", 1, final_min},
        {"max", 1, final_max}, {"count", 1, final_count}, {"count", 0, final_count},
    };
    int code = sqlite3_create_module_v2(db, "slice", &module, s, NULL);
    for (size_t i = 0; i < STK_COUNT(functions) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(db, functions[i].name, functions[i].arguments, SQLITE_UTF8, s, NULL, run_step,
                                          functions[i].final, NULL);
    return code == SQLITE_OK ? stk__sql_restrict(db) : code;
}

static sqlite3 *totals_of(stk__sql *s)
{
    sqlite3 *db = NULL;
    if (s->totals)
        return s->totals;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        add_everything(db, s) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    return s->totals = db;
}

/* A table of the user's own that is called as ours hides it. */
static bool slice_is_hidden(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    const char *query = "SELECT 1 FROM (SELECT name FROM sqlite_schema UNION ALL SELECT name FROM sqlite_temp_schema) "
                        "WHERE lower(name) = 'slice'";
    const bool hidden =
        sqlite3_prepare_v2(db, query, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_DONE;
    sqlite3_finalize(statement);
    return hidden;
}

/* Prepares what the statement is rewritten to, or the statement itself. */
static int prepare_rewritten(sqlite3 *db, stk__sql *s, const char *text, bool as_perfetto, sqlite3_stmt **out,
                             const char **out_rest)
{
    char *rewritten = NULL;
    size_t end = 0;
    int code = stk__sql_rewrite(db, s, text, as_perfetto, &rewritten, &end);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db, rewritten ? rewritten : text, -1, out, rewritten ? NULL : out_rest);
    if (out_rest && (rewritten || code != SQLITE_OK))
        *out_rest = text + end;
    stk__free(rewritten);
    return code;
}

static bool is_ambiguous(sqlite3 *db, const stk__sql *s, int code)
{
    static const char message[] = "ambiguous column name: ";
    return code == SQLITE_ERROR && !s->pasted.refused && strncmp(sqlite3_errmsg(db), message, strlen(message)) == 0;
}

int stk__sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **out, const char **out_rest)
{
    stk__sql *s = stk__sql_of(db);
    if (!s)
        return sqlite3_prepare_v2(db, text, -1, out, out_rest);
    text = stk__sql_start(s, text);
    if (stk__sql_is_total(text) && !slice_is_hidden(db)) {
        sqlite3 *totals = totals_of(s);
        /* One statement at a time: count(*) has no argument that says which row it is about. */
        if (totals && !sqlite3_next_stmt(totals, NULL) &&
            sqlite3_prepare_v2(totals, text, -1, out, out_rest) == SQLITE_OK)
            return SQLITE_OK;
    }
    *out = NULL;
    int code = prepare_rewritten(db, s, text, false, out, out_rest);
    if (is_ambiguous(db, s, code)) {
        code = prepare_rewritten(db, s, text, true, out, out_rest);
        if (code != SQLITE_OK) /* the first mistake is the one to tell */
            code = prepare_rewritten(db, s, text, false, out, out_rest);
    }
    return code;
}
