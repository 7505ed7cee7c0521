/* Fuzz target: any text as the CSV file and, behind a byte 0x1e, as the Markdown page of a change log. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/log_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char markdown_name[] = "PERF.md", csv_name[] = "PERF.csv";
static const stk__log_paths paths = {markdown_name, csv_name};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void print_lines(const stk__log *log, stk__text *out)
{
    stk__log_csv_header(log, out);
    stk__text_putc(out, '\n');
    for (size_t i = 0; i < log->row_count; i++) {
        stk__log_csv_row(log, &log->rows[i], out);
        stk__text_putc(out, '\n');
    }
    require(!out->failed);
}

/* What was accepted prints, is accepted again, and prints the same; so does the page that it makes. */
static void round_trip(const stk__log *log)
{
    stk__text first = STK__TEXT_INIT, second = STK__TEXT_INIT, page = STK__TEXT_INIT;
    stk__log again = {0};
    print_lines(log, &first);
    require(stk__log_csv_parse(first.data, first.length, &paths, &again, NULL) == STK_OK);
    require(again.row_count == log->row_count);
    print_lines(&again, &second);
    require(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    const stk__log_table none = {0};
    stk__log_table table = {0};
    again.version = 2;
    stk__log_markdown_update("", 0, &none, &again, 0, &page);
    require(!page.failed);
    require(stk__log_markdown_check(page.data, page.length, &paths, &again, &table, NULL) == STK_OK);
    require(stk__log_markdown_whole(&table, &again) && table.end == page.length && !table.open);
    stk__log_clear(&again);
    stk__text_clear(&first);
    stk__text_clear(&second);
    stk__text_clear(&page);
}

/* A page that lacks rows or columns gets them, and is whole then. */
static void mended(stk__log *log, const char *page, size_t size, const stk__log_table *table)
{
    stk__text out = STK__TEXT_INIT;
    stk__log_table again = {0};
    require(table->mark <= table->mark_end && table->mark_end <= table->start && table->start <= table->end &&
            table->end <= size);
    if (log->benchmark_count) {
        stk__log_markdown_update(page, size, table, log, 0, &out);
        require(!out.failed);
        log->version = 2;
        require(stk__log_markdown_check(out.data, out.length, &paths, log, &again, NULL) == STK_OK);
        require(stk__log_markdown_whole(&again, log));
    }
    stk__text_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *mark = size ? memchr(data, 0x1e, size) : NULL;
    const size_t csv_size = mark ? (size_t)(mark - data) : size;
    /* As files are read: with a NUL behind them. */
    char *csv = stk__alloc(csv_size + 1);
    if (!csv)
        return 0;
    if (csv_size)
        memcpy(csv, data, csv_size);
    csv[csv_size] = 0;
    stk__log log = {0};
    stk_error err = {0};
    const stk_status status = stk__log_csv_parse(csv, csv_size, &paths, &log, &err);
    require(status == STK_OK || (status == STK_CORRUPT && err.message[0] && err.line > 0));
    if (log.benchmark_count)
        round_trip(&log);
    if (mark) {
        const size_t page_size = size - csv_size - 1;
        char *page = stk__alloc(page_size + 1);
        require(page != NULL);
        if (page_size)
            memcpy(page, mark + 1, page_size);
        page[page_size] = 0;
        stk__log_table table = {0};
        err = (stk_error){0};
        if (stk__log_markdown_check(page, page_size, &paths, &log, &table, &err) == STK_OK)
            mended(&log, page, page_size, &table);
        else
            require(err.message[0] != 0);
        stk__free(page);
    }
    stk__log_clear(&log);
    stk__free(csv);
    return 0;
}
