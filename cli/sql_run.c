/* stoker sql: runs statements and writes their results. */
#include <string.h>

#include "base/mem.h"
#include "sql.h"

#include "base/banned.h"

/* Operations of SQLite between two looks at whether to stop: well under a millisecond. */
enum { STOP_EVERY = 20000 };

static int on_progress(void *arg)
{
    const cli_sql *s = arg;
    return s->stopped && s->stopped();
}

/* Bytes that are no text: x'0aff', as SQL writes them. */
static void put_blob(cli_table *table, const unsigned char *data, size_t size)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, "x'");
    for (size_t i = 0; i < size; i++)
        stk__text_printf(&text, "%02x", data[i]);
    stk__text_puts(&text, "'");
    if (!text.failed)
        cli_table_text(table, text.data, text.length);
    stk__text_clear(&text);
}

static void put_value(cli_table *table, sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        cli_table_int(table, sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        cli_table_double(table, sqlite3_column_double(statement, column));
        break;
    case SQLITE_NULL:
        cli_table_null(table);
        break;
    case SQLITE_BLOB: {
        const unsigned char *data = sqlite3_column_blob(statement, column);
        put_blob(table, data, (size_t)sqlite3_column_bytes(statement, column));
        break;
    }
    default: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        cli_table_text(table, text ? text : "", (size_t)sqlite3_column_bytes(statement, column));
        break;
    }
    }
}

static cli_table *table_for(const cli_sql *s, sqlite3_stmt *statement)
{
    const int count = sqlite3_column_count(statement);
    const char **names = stk__calloc((size_t)count, sizeof *names);
    if (!names)
        return NULL;
    for (int i = 0; i < count; i++) {
        names[i] = sqlite3_column_name(statement, i);
        if (!names[i])
            names[i] = "";
    }
    cli_table *table = cli_table_new(s->format, names, (size_t)count);
    stk__free((void *)names);
    return table;
}

/* SQLITE_DONE, or why it ended. */
static int write_rows(cli_sql *s, sqlite3_stmt *statement)
{
    const int columns = sqlite3_column_count(statement);
    /* Nothing is written for a statement that fails before its first row. */
    int code = sqlite3_step(statement);
    if (columns == 0 || (code != SQLITE_ROW && code != SQLITE_DONE))
        return code;
    if (s->results++ && s->format == CLI_TABLE)
        cli_out("\n", 1);
    cli_table *table = table_for(s, statement);
    for (; code == SQLITE_ROW && table && !cli_out_failed(); code = sqlite3_step(statement)) {
        for (int i = 0; i < columns; i++)
            put_value(table, statement, i);
    }
    s->rows = cli_table_rows(table);
    if (!cli_table_finish(table))
        return cli_out_failed() ? SQLITE_DONE : SQLITE_NOMEM;
    return code;
}

static int code_of(cli_sql *s, int code, sqlite3 *db, const char *text)
{
    if (code == SQLITE_DONE || code == SQLITE_OK)
        return CLI_OK;
    if (code == SQLITE_INTERRUPT) {
        cli_say("stoker: interrupted");
        return CLI_INTERRUPTED;
    }
    cli_sql_say_error(s, db, text);
    return code == SQLITE_NOMEM || code == SQLITE_FULL || code == SQLITE_IOERR ? CLI_FAILED : CLI_USAGE;
}

/* One statement. *text moves on to what follows it. */
static int run_statement(cli_sql *s, const char **text)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = *text;
    int code = stk__sql_prepare(s->db, *text, &statement, &rest);
    if (code == SQLITE_OK && statement)
        code = write_rows(s, statement);
    const int result = code_of(s, code, statement ? sqlite3_db_handle(statement) : s->db, *text);
    sqlite3_finalize(statement);
    *text = rest;
    return result;
}

/* A command fills its line. */
static int run_command(cli_sql *s, const char **text)
{
    const size_t size = strcspn(*text, "\n");
    char *line = stk__strndup(*text, size);
    if (!line) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    const int result = cli_sql_command(s, line);
    stk__free(line);
    *text += size;
    return result;
}

int cli_sql_run(cli_sql *s, const char *text)
{
    int result = CLI_OK;
    while (*text && result == CLI_OK && !s->quit && !cli_out_failed()) {
        sqlite3_progress_handler(s->db, STOP_EVERY, on_progress, s);
        const char *start = stk__sql_skip_space(text);
        if (*start == '.')
            result = run_command(s, &start);
        else
            result = run_statement(s, &start);
        text = start;
    }
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    return result;
}
