/*
 * The trace workbench on the public API: is a training input-bound, and a question of our own.
 *
 *   trace FILE... [-q SQL]
 *
 * FILEs of any trace format, also as patterns, are one trace.
 */
#include <stdio.h>
#include <string.h>

#include <stoker/workbench.h>

static const char slowest[] =
    "SELECT name, count(*) AS count, sum(dur) / 1e6 AS ms FROM slice GROUP BY name ORDER BY ms DESC LIMIT 5";

/* Names come from outside: nothing in them may act on the terminal. */
static void print_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        putchar((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i]);
}

static void print_cell(const stk_table *table, size_t column, int64_t row)
{
    size_t size;
    const char *text;
    if (stk_table_is_null(table, column, row)) {
        printf("NULL");
        return;
    }
    switch (stk_table_kind(table, column)) {
    case STK_KIND_INT64:
        printf("%lld", (long long)stk_table_int64(table, column, row));
        break;
    case STK_KIND_DOUBLE:
        printf("%g", stk_table_double(table, column, row));
        break;
    default:
        text = stk_table_text(table, column, row, &size);
        print_text(text, size);
        break;
    }
}

/* Columns are as long as the result; <stoker/arrow.h> hands them to other libraries without a copy. */
static void print_table(const stk_table *table)
{
    for (int64_t row = -1; row < stk_table_rows(table); row++) {
        for (size_t column = 0; column < stk_table_columns(table); column++) {
            if (column)
                putchar('\t');
            if (row < 0)
                print_text(stk_table_name(table, column), strlen(stk_table_name(table, column)));
            else
                print_cell(table, column, row);
        }
        putchar('\n');
    }
}

static stk_status ask(stk_trace *trace, const char *sql, stk_error *err)
{
    char *verdict = NULL;
    stk_table *table = NULL;
    stk_status status = stk_trace_diagnose(trace, NULL, &verdict, NULL, err);
    if (status == STK_OK) {
        printf("%.*s\n\n", (int)strcspn(verdict, "\n"), verdict); /* its first line says it all */
        status = stk_trace_query(trace, sql, &table, err);
    }
    if (status == STK_OK)
        print_table(table);
    stk_table_free(table);
    stk_free(verdict);
    return status;
}

int main(int argc, char **argv)
{
    const bool own = argc > 3 && strcmp(argv[argc - 2], "-q") == 0;
    const size_t count = (size_t)argc - 1 - (own ? 2 : 0);
    stk_trace *trace = NULL;
    stk_error err;
    stk_error_clear(&err);
    stk_status status = stk_trace_open((const char *const *)argv + 1, count, NULL, &trace, &err);
    if (status == STK_OK)
        status = ask(trace, own ? argv[argc - 1] : slowest, &err);
    stk_trace_close(trace);
    if (status != STK_OK) {
        char line[2048];
        stk_error_format(&err, line, sizeof line);
        fprintf(stderr, "trace: %s\n", line);
    }
    return status == STK_OK ? 0 : 1;
}
