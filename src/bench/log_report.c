/* The newest row of a change log in words: every benchmark against its own past. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/log_impl.h"
#include "bench/quantity.h"
#include "bench/table.h"
#include "bench/words.h"

#include "base/banned.h"

static void put_figure(const stk__log *log, const stk__log_row *row, size_t i, stk__text *cell)
{
    stk__quantity_spread(cell, row->cells[i].mean, row->cells[i].sd, log->benchmarks[i].unit);
    stk__text_printf(cell, "  (n=%zu)", row->cells[i].n);
}

/* What the ratio is to, and what it is worth: "slower, paired with 1a2b3c4", "unpaired, ...". */
static void put_worth(const stk__log_cell *cell, const char *unit, stk__text *out)
{
    if (!cell->against) {
        stk__text_puts(out, "no past in the log");
        return;
    }
    if (cell->verdict)
        stk__text_printf(out, "%s, ", stk__count_word(unit, cell->verdict));
    stk__text_puts(out, cell->paired ? "paired with " : "unpaired, to the row of ");
    stk__text_puts(out, cell->against);
    if (cell->n == 1)
        stk__text_puts(out, "; a single run has no interval");
}

static void put_line(const stk__log *log, const stk__log_row *row, size_t i, stk__table *t, stk__text *text)
{
    const stk__log_cell *cell = &row->cells[i];
    stk__table_cell(t, log->benchmarks[i].name);
    put_figure(log, row, i, text);
    stk__table_take(t, text);
    if (isfinite(cell->ratio)) {
        stk__text_puts(text, "ratio ");
        stk__ratio(text, cell->ratio);
    }
    if (isfinite(cell->low) && isfinite(cell->high)) {
        stk__text_puts(text, " (");
        stk__log_interval(cell->low, cell->high, row->confidence, text);
        stk__text_putc(text, ')');
    }
    stk__table_take(t, text);
    put_worth(cell, log->benchmarks[i].unit, text);
    stk__table_take(t, text);
}

void stk__log_report(const stk__log *log, stk__text *out)
{
    static const stk__column columns[] = {{.gap = 2, .most = 40}, {.gap = 2}, {.gap = 2}, {0}};
    if (!log->row_count)
        return;
    const stk__log_row *row = &log->rows[log->row_count - 1];
    stk__table t;
    stk__text text = STK__TEXT_INIT;
    stk__table_init(&t, columns, STK_COUNT(columns));
    for (size_t i = 0; i < log->benchmark_count; i++) {
        if (row->cells[i].n)
            put_line(log, row, i, &t, &text);
    }
    stk__table_put(&t, 2, out);
    stk__table_clear(&t);
    out->failed |= text.failed;
    stk__text_clear(&text);
}
