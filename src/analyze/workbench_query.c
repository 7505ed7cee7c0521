/* SQL for the workbench: one SELECT, its rows in a table. */
#include <string.h>

#include <sqlite3.h>

#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Operations of SQLite between two looks at whether to stop: well under a millisecond. */
enum { STOP_EVERY = 20000 };

/* ---- connections: each belongs to one question at a time ---- */

static stk_status connection_take(stk_trace *trace, sqlite3 **out, stk_error *err)
{
    sqlite3 *db = NULL;
    pthread_mutex_lock(&trace->lock);
    if (trace->idle_count)
        db = trace->idle[--trace->idle_count];
    pthread_mutex_unlock(&trace->lock);
    if (!db)
        return stk__sql_open(trace->model, out, err);
    *out = db;
    return STK_OK;
}

/* What a connection has sorted serves the next question too. `clean`: the question has changed nothing in it. */
static void connection_give(stk_trace *trace, sqlite3 *db, bool clean)
{
    pthread_mutex_lock(&trace->lock);
    if (clean && trace->idle_count < STK_COUNT(trace->idle)) {
        trace->idle[trace->idle_count++] = db;
        db = NULL;
    }
    pthread_mutex_unlock(&trace->lock);
    if (db)
        sqlite3_close(db);
}

static int on_progress(void *arg)
{
    stk_trace *trace = arg;
    return atomic_load_explicit(&trace->cancelled, memory_order_acquire);
}

/* ---- mistakes ---- */

static void set_place(stk_error *err, const char *sql, size_t offset)
{
    int line = 1, column = 1;
    for (size_t i = 0; i < offset && sql[i]; i++) {
        if (sql[i] == '\n') {
            line++;
            column = 1;
        } else {
            column += ((unsigned char)sql[i] & 0xc0) != 0x80; /* characters, not bytes */
        }
    }
    err->line = line;
    err->column = column;
}

static stk_status sql_failed(sqlite3 *db, int code, const char *sql, stk_error *err)
{
    int offset;
    const char *message = stk__sql_message(db, sql, &offset);
    if (code == SQLITE_INTERRUPT)
        return stk_error_set(err, STK_CANCELLED, "the query was cancelled");
    if (code == SQLITE_NOMEM)
        return stk_error_set(err, STK_NOMEM, "out of memory while the query ran");
    const bool denied = code == SQLITE_AUTH;
    const stk_status status =
        stk_error_set(err, code == SQLITE_IOERR || code == SQLITE_FULL ? STK_IO : STK_INVALID, "SQL: %.400s%s", message,
                      denied ? "; a query can read the trace and nothing else" : "");
    if (err && offset >= 0)
        set_place(err, sql, (size_t)offset);
    return status;
}

static stk_status wanted_select(const char *found, stk_error *err)
{
    return stk_error_set(err, STK_INVALID, "SQL: %s, wanted one SELECT", found);
}

/* Only space, comments and ';' may follow. */
static stk_status check_rest(sqlite3 *db, const char *sql, const char *rest, stk_error *err)
{
    while (rest && *rest) {
        sqlite3_stmt *more = NULL;
        const char *next = rest;
        const bool good = sqlite3_prepare_v2(db, rest, -1, &more, &next) == SQLITE_OK;
        const bool another = !good || more;
        sqlite3_finalize(more);
        if (another) {
            rest += strspn(rest, " \t\r\n;");
            const stk_status status = wanted_select("found another statement behind the first", err);
            if (err)
                set_place(err, sql, (size_t)(rest - sql));
            return status;
        }
        if (next == rest)
            break;
        rest = next;
    }
    return STK_OK;
}

/* ---- rows ---- */

static stk_column_kind declared_kind(const char *type)
{
    if (!type)
        return STK_KIND_NULL;
    if (strncmp(type, "INTEGER", 7) == 0)
        return STK_KIND_INT64;
    if (strncmp(type, "REAL", 4) == 0)
        return STK_KIND_DOUBLE;
    return strncmp(type, "TEXT", 4) == 0 ? STK_KIND_TEXT : STK_KIND_NULL;
}

static void put_cell(stk__table_maker *m, sqlite3_stmt *statement, int i)
{
    switch (sqlite3_column_type(statement, i)) {
    case SQLITE_INTEGER:
        stk__maker_int(m, sqlite3_column_int64(statement, i));
        break;
    case SQLITE_FLOAT:
        stk__maker_double(m, sqlite3_column_double(statement, i));
        break;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, i);
        if (text)
            stk__maker_text(m, text, (size_t)sqlite3_column_bytes(statement, i));
        else
            m->failed = true;
        break;
    }
    case SQLITE_BLOB: {
        const void *data = sqlite3_column_blob(statement, i); /* NULL when it is empty */
        stk__maker_bytes(m, data, data ? (size_t)sqlite3_column_bytes(statement, i) : 0);
        break;
    }
    default:
        stk__maker_null(m);
        break;
    }
}

static stk_status read_rows(sqlite3_stmt *statement, const char *sql, stk_table **out, stk_error *err)
{
    const int columns = sqlite3_column_count(statement);
    stk__table_maker m;
    STK_TRY(stk__maker_init(&m, (size_t)columns, err));
    for (int i = 0; i < columns; i++) {
        const char *name = sqlite3_column_name(statement, i);
        stk__maker_name(&m, (size_t)i, name ? name : "");
        m.columns[i].declared = declared_kind(sqlite3_column_decltype(statement, i));
    }
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && !m.failed) {
        for (int i = 0; i < columns; i++)
            put_cell(&m, statement, i);
    }
    if (code == SQLITE_DONE || m.failed)
        return stk__maker_finish(&m, out, err);
    stk__maker_clear(&m);
    return sql_failed(sqlite3_db_handle(statement), code, sql, err);
}

static stk_status ask(stk_trace *trace, sqlite3 *db, const char *sql, bool *out_clean, stk_table **out, stk_error *err)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = sql;
    const int code = stk__sql_prepare(db, sql, &statement, &rest);
    *out_clean = true;
    if (code != SQLITE_OK)
        return sql_failed(db, code, sql, err);
    if (!statement)
        return wanted_select("found no statement", err);
    stk_status status = STK_OK;
    if (!sqlite3_stmt_readonly(statement) || !sqlite3_column_count(statement))
        status = wanted_select("found a statement that gives no rows, or changes something", err);
    if (status == STK_OK)
        status = check_rest(db, sql, rest, err);
    *out_clean = status == STK_OK; /* some pragmas act as soon as they are prepared */
    if (status == STK_OK) {
        sqlite3 *runs_in = sqlite3_db_handle(statement); /* totals have a connection of their own */
        sqlite3_progress_handler(runs_in, STOP_EVERY, on_progress, trace);
        status = read_rows(statement, sql, out, err);
        sqlite3_progress_handler(runs_in, 0, NULL, NULL);
    }
    sqlite3_finalize(statement);
    return status;
}

stk_status stk_trace_query(stk_trace *trace, const char *sql, stk_table **out, stk_error *err)
{
    sqlite3 *db;
    bool clean = false;
    STK_TRY(stk__workbench_stopped(trace, err));
    STK_TRY(connection_take(trace, &db, err));
    const stk_status status = ask(trace, db, sql, &clean, out, err);
    connection_give(trace, db, clean);
    return status;
}

stk_status stk__query_table(stk_trace *trace, const char *name, stk_table **out, stk_error *err)
{
    char sql[96];
    stk__text text;
    stk__text_fixed(&text, sql, sizeof sql);
    stk__text_printf(&text, "SELECT * FROM %s", name);
    return stk_trace_query(trace, sql, out, err);
}
