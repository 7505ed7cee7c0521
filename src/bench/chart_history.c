/* The change log as SVG: a small picture for each benchmark, all over the same rows. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/svg.h"
#include "bench/words.h"

#include "base/banned.h"

/* Points of all pictures together; older rows beyond that are left out, and the picture says so. */
enum { POINTS_MOST = 6000, ROWS_LEAST = 30, PANELS_MOST = 60 };

static const double width = 960, left = 16, plot_from = 86, plot_to = 936, panel_height = 104, panel_step = 150;

typedef struct history_chart {
    const stk__log *log;
    size_t first, rows, panels; /* rows first .. first + rows - 1 of the log */
    stk__text cell;
} history_chart;

static double x_of(const history_chart *k, size_t row)
{
    if (k->rows < 2)
        return (plot_from + plot_to) / 2;
    return plot_from + 12 + (plot_to - plot_from - 24) * (double)row / (double)(k->rows - 1);
}

static const stk__log_row *row_of(const history_chart *k, size_t row)
{
    return &k->log->rows[k->first + row];
}

static const stk__log_cell *cell_of(const history_chart *k, size_t row, size_t benchmark)
{
    const stk__log_cell *cell = &row_of(k, row)->cells[benchmark];
    return cell->n && isfinite(cell->mean) ? cell : NULL;
}

static double spread_of(const stk__log_cell *cell)
{
    return isfinite(cell->sd) ? cell->sd : 0;
}

/* The axis of one benchmark. False: nothing is known of it. */
static bool fit_panel(const history_chart *k, size_t benchmark, double top, stk__axis *axis, double *out_factor,
                      const char **out_unit)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (!cell)
            continue;
        low = fmin(low, cell->mean - spread_of(cell));
        high = fmax(high, cell->mean + spread_of(cell));
    }
    if (!(low <= high))
        return false;
    *out_factor = stk__quantity_factor(high, k->log->benchmarks[benchmark].unit, out_unit);
    stk__axis_fit(axis, low * *out_factor, high * *out_factor, false, top + panel_height, top, 4);
    return true;
}

/* One path for the line, which has a gap where a figure is missing or the machine is another one. */
static void put_curve(const history_chart *k, size_t benchmark, const stk__axis *axis, double factor, stk__text *out)
{
    stk__text_puts(out, "<path fill=\"none\" stroke=\"" STK__SVG_BLUE "\" stroke-width=\"1.5\" d=\"");
    bool joined = false;
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (i && !stk__words_same_machine(row_of(k, i - 1), row_of(k, i)))
            joined = false;
        if (cell)
            stk__text_printf(out, "%c%.1f %.1f", joined ? 'L' : 'M', x_of(k, i),
                             stk__axis_at(axis, cell->mean * factor));
        joined = cell != NULL;
    }
    stk__text_puts(out, "\"/>\n<path fill=\"none\" stroke=\"" STK__SVG_SOFT "\" d=\"");
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (cell && spread_of(cell) > 0)
            stk__text_printf(out, "M%.1f %.1fV%.1f", x_of(k, i), stk__axis_at(axis, (cell->mean - cell->sd) * factor),
                             stk__axis_at(axis, (cell->mean + cell->sd) * factor));
    }
    stk__text_printf(
        out, "\"/>\n<path fill=\"none\" stroke=\"" STK__SVG_INK "\" stroke-width=\"%d\" stroke-linecap=\"round\" d=\"",
        k->rows > 150 ? 2 : 4);
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (cell)
            stk__text_printf(out, "M%.1f %.1fh0", x_of(k, i), stk__axis_at(axis, cell->mean * factor));
    }
    stk__text_puts(out, "\"/>\n");
}

static void put_verdicts(history_chart *k, size_t benchmark, double top, stk__text *out)
{
    for (size_t i = 0; i < k->rows; i++) {
        const stk__verdict verdict = stk__words_row_verdict(k->log, k->first + i, benchmark);
        if (verdict == STK__FASTER)
            stk__svg_mark_put(out, STK__MARK_UP, x_of(k, i), top - 7, 5,
                              "fill=\"" STK__SVG_BLUE "\" stroke=\"" STK__SVG_INK "\"");
        else if (verdict == STK__SLOWER)
            stk__svg_mark_put(out, STK__MARK_DOWN, x_of(k, i), top - 7, 5,
                              "fill=\"#ffffff\" stroke=\"" STK__SVG_ORANGE "\" stroke-width=\"2\"");
    }
}

static void put_machines(const history_chart *k, double top, stk__text *out)
{
    for (size_t i = 1; i < k->rows; i++) {
        if (stk__words_same_machine(row_of(k, i - 1), row_of(k, i)))
            continue;
        const double x = (x_of(k, i - 1) + x_of(k, i)) / 2;
        stk__svg_line(out, x, top, x, top + panel_height, "stroke=\"" STK__SVG_INK "\" stroke-dasharray=\"3 3\"");
    }
}

static void put_commits(history_chart *k, double y, bool named, stk__text *out)
{
    /* One label for each 62 pixels at most; the newest row always has one. */
    const size_t room = (size_t)((plot_to - plot_from) / 62);
    const size_t each = k->rows > room ? (k->rows + room - 1) / room : 1;
    for (size_t i = 0; i < k->rows; i++) {
        if ((k->rows - 1 - i) % each)
            continue;
        stk__svg_line(out, x_of(k, i), y, x_of(k, i), y + 4, "stroke=\"" STK__SVG_SOFT "\"");
        if (!named)
            continue;
        stk__words_commit(row_of(k, i), &k->cell);
        stk__svg_text(out, x_of(k, i), y + 16, "text-anchor=\"middle\" font-size=\"10\" font-family=\"monospace\"",
                      k->cell.failed ? "" : k->cell.data, 0);
        stk__text_reset(&k->cell);
    }
}

static void put_panel(history_chart *k, size_t benchmark, double top, bool last, stk__text *out)
{
    stk__axis axis;
    double factor;
    const char *unit = "";
    const bool known = fit_panel(k, benchmark, top, &axis, &factor, &unit);
    stk__text_puts(&k->cell, k->log->benchmarks[benchmark].name);
    if (known && unit[0])
        stk__text_printf(&k->cell, " (%s)", unit);
    stk__svg_text(out, plot_from, top - 17, "font-weight=\"bold\"", k->cell.failed ? "" : k->cell.data, 90);
    stk__text_reset(&k->cell);
    if (!known) {
        stk__svg_text(out, plot_from, top + 20, "fill=\"" STK__SVG_SOFT "\"", "no figures", 0);
        return;
    }
    stk__axis_put_y(&axis, plot_from, plot_to, out);
    put_machines(k, top, out);
    put_curve(k, benchmark, &axis, factor, out);
    put_verdicts(k, benchmark, top, out);
    put_commits(k, top + panel_height, last, out);
}

static void put_legend(history_chart *k, double y, stk__text *out)
{
    const char *style = "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"";
    stk__svg_text(out, left, y, style,
                  "Dot: mean. Whisker: standard deviation. Filled triangle up: faster by verdict. Empty triangle down: "
                  "slower. Dashed line: another machine. *: tracked files were changed.",
                  0);
    if (k->first)
        stk__text_printf(&k->cell, "The %zu oldest rows are not drawn. ", k->first);
    if (k->log->benchmark_count > k->panels)
        stk__text_printf(&k->cell, "%zu more benchmarks are not drawn.", k->log->benchmark_count - k->panels);
    if (k->cell.length)
        stk__svg_text(out, left, y + 15, style, k->cell.data, 0);
}

stk_status stk__chart_history(const stk__log *log, const char *title, stk__text *out, stk_error *err)
{
    history_chart k = {.log = log, .panels = STK_MIN(log->benchmark_count, (size_t)PANELS_MOST)};
    const size_t most = STK_MAX((size_t)POINTS_MOST / (k.panels ? k.panels : 1), (size_t)ROWS_LEAST);
    k.rows = STK_MIN(log->row_count, most);
    k.first = log->row_count - k.rows;
    const double top = 76, bottom = top + panel_step * (double)(k.panels ? k.panels : 1);
    stk__svg_open(out, width, bottom + 30, title, "Mean and spread of each benchmark over the rows of the change log.");
    stk__svg_text(out, left, 28, "font-size=\"16\" font-weight=\"bold\"", title, 100);
    if (k.rows == 0 || k.panels == 0)
        stk__svg_text(out, plot_from, top + 20, "fill=\"" STK__SVG_SOFT "\"", "The log is empty.", 0);
    for (size_t i = 0; i < k.panels && k.rows; i++)
        put_panel(&k, i, top + panel_step * (double)i, i + 1 == k.panels, out);
    put_legend(&k, bottom, out);
    stk__svg_close(out);
    const bool failed = out->failed || k.cell.failed;
    stk__text_clear(&k.cell);
    return failed ? stk__nomem(out->length, err) : STK_OK;
}
