/* NDJSON: one JSON object per line, each with its "type". */
#include "trace/emit.h"
#include "trace/flat.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 1 << 20, TRIM_ROWS = 1 << 16 };

static void write_table(const stk__trace *t, const stk__flat *rows, const stk__flat_table *table, stk__text *out,
                        stk__sink *sink)
{
    const stk__json_style style = {.type = table->name, .text_doubles = true, .args = STK__ARGS_OBJECT};
    const size_t count = table->count(t);
    for (size_t i = 0; i < count && !stk__sink_failed(sink); i++) {
        stk__flat_json(rows, table, i, &style, out);
        if (out->length >= BLOCK_BYTES || out->failed)
            stk__sink_text(sink, out);
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(t);
    }
}

static stk_status ndjson_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    stk__flat *rows = NULL;
    stk__text out = STK__TEXT_INIT;
    STK_TRY(stk__flat_new(t, &rows, err));
    for (size_t i = 0; stk__flat_tables[i]; i++)
        write_table(t, rows, stk__flat_tables[i], &out, sink);
    stk__sink_text(sink, &out);
    report->slices = t->slices.count;
    report->counters = t->counters.count;
    report->flows = t->points.count;
    report->samples = t->samples.count;
    report->functions = t->function_count;
    stk__text_clear(&out);
    stk__flat_free(rows);
    return STK_OK;
}

const stk__trace_writer stk__writer_ndjson = {
    .name = "ndjson",
    .summary = "one JSON object per line: slices, counters, flows, samples, functions",
    .extensions = ".ndjson .jsonl",
    .write = ndjson_write,
};
