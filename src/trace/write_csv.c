/* CSV: one table, the most telling one that the trace has. */
#include "trace/emit.h"
#include "trace/flat.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 1 << 20, TRIM_ROWS = 1 << 16 };

/* A CSV file has one set of columns, so it holds one table. */
static const stk__flat_table *table_of(const stk__trace *t)
{
    static const stk__flat_table *const order[] = {&stk__flat_slice, &stk__flat_sample, &stk__flat_function,
                                                   &stk__flat_counter};
    for (size_t i = 0; i < STK_COUNT(order); i++) {
        if (order[i]->count(t))
            return order[i];
    }
    return &stk__flat_slice;
}

static void count_rows(const stk__trace *t, const stk__flat_table *table, stk__write_report *report)
{
    const struct {
        const stk__flat_table *table;
        uint64_t *written, *lost;
    } kinds[] = {
        {&stk__flat_slice, &report->slices, &report->lost_slices},
        {&stk__flat_counter, &report->counters, &report->lost_counters},
        {&stk__flat_flow, &report->flows, &report->lost_flows},
        {&stk__flat_sample, &report->samples, &report->lost_samples},
        {&stk__flat_function, &report->functions, &report->lost_functions},
    };
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const uint64_t count = kinds[i].table->count(t);
        *(kinds[i].table == table ? kinds[i].written : kinds[i].lost) = count;
    }
}

static stk_status csv_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    const stk__flat_table *table = table_of(t);
    stk__flat *rows = NULL;
    stk__text out = STK__TEXT_INIT;
    STK_TRY(stk__flat_new(t, &rows, err));
    stk__flat_csv_head(table, &out);
    const size_t count = table->count(t);
    for (size_t i = 0; i < count && !stk__sink_failed(sink); i++) {
        stk__flat_csv(rows, table, i, &out);
        if (out.length >= BLOCK_BYTES || out.failed)
            stk__sink_text(sink, &out);
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(t);
    }
    stk__sink_text(sink, &out);
    count_rows(t, table, report);
    stk__text_clear(&out);
    stk__flat_free(rows);
    return STK_OK;
}

const stk__trace_writer stk__writer_csv = {
    .name = "csv",
    .summary = "CSV with a heading: the slices; samples, functions or counters where there are none",
    .extensions = ".csv",
    .write = csv_write,
};
