/* The change log as SVG: a small picture for each benchmark with its levels and steps, all over the same rows. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/log_impl.h"
#include "bench/quantity.h"
#include "bench/svg.h"
#include "bench/words.h"
#include "stats/describe.h"

#include "base/banned.h"

/* Points of all pictures together; older rows beyond that are left out, and the picture says so. */
enum { POINTS_MOST = 6000, ROWS_LEAST = 30, PANELS_MOST = 60 };

static const double width = 960, left = 16, plot_from = 86, plot_to = 936, panel_height = 110, panel_foot = 30;

/* Over a picture: its name, and lines for the names of steps. */
enum { LABEL_LINES = 3 };
static const double head_plain = 32, head_with_steps = 68, label_step = 13;

typedef struct history_chart {
    const stk__history *history;
    const stk__log *log;
    size_t first, rows, panels;                     /* rows first .. first + rows - 1 of the log */
    double *sorted;                                 /* room for the means of all rows */
    bool verdicts, machines, changed, ranges, wild; /* what the legend must explain */
    stk__text cell;
} history_chart;

static double x_of(const history_chart *k, size_t row)
{
    if (k->rows < 2)
        return (plot_from + plot_to) / 2;
    return plot_from + 12 + (plot_to - plot_from - 24) * (double)row / (double)(k->rows - 1);
}

/* Of a row of the log; those that are not drawn are where the picture begins. */
static double x_of_row(const history_chart *k, size_t row)
{
    return row < k->first ? plot_from : x_of(k, row - k->first);
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

/* Wild rows would press all others flat: what lies far outside the bulk of them is drawn at the edge. */
static void find_bulk(const history_chart *k, size_t benchmark, double *out_low, double *out_high)
{
    enum { CUT = 20 };
    size_t n = 0;
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (cell)
            k->sorted[n++] = cell->mean;
    }
    *out_low = -INFINITY;
    *out_high = INFINITY;
    if (n < CUT)
        return;
    stk__sort_double(k->sorted, n);
    const double low = k->sorted[n / CUT], high = k->sorted[n - 1 - n / CUT];
    const double room = fmax(1.5 * (high - low), 0.02 * fabs(high));
    *out_low = low - room;
    *out_high = high + room;
}

/* The axis of one benchmark. False: nothing is known of it. */
static bool fit_panel(const history_chart *k, size_t benchmark, double top, stk__axis *axis, double *out_factor,
                      const char **out_unit)
{
    double low = INFINITY, high = -INFINITY, bulk_low, bulk_high;
    find_bulk(k, benchmark, &bulk_low, &bulk_high);
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (!cell || cell->mean < bulk_low || cell->mean > bulk_high)
            continue;
        low = fmin(low, fmax(cell->mean - spread_of(cell), bulk_low));
        high = fmax(high, fmin(cell->mean + spread_of(cell), bulk_high));
    }
    if (!(low <= high))
        return false;
    *out_factor = stk__quantity_factor(high, k->log->benchmarks[benchmark].unit, out_unit);
    stk__axis_fit(axis, low * *out_factor, high * *out_factor, false, top + panel_height, top, 4);
    return true;
}

/* The figures of rows that are past the axis, at its edge. */
static void put_wild(history_chart *k, size_t benchmark, const stk__axis *axis, double factor, stk__text *out)
{
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        const double value = cell ? cell->mean * factor : axis->low;
        if (value >= axis->low && value <= axis->high)
            continue;
        const bool above = value > axis->high;
        k->wild = true;
        stk__text_printf(&k->cell, "%.4g", value);
        stk__svg_text(out, x_of(k, i) + 7, above ? axis->to + 10 : axis->from - 4,
                      "font-size=\"10\" fill=\"" STK__SVG_SOFT "\"", k->cell.failed ? "" : k->cell.data, 0);
        stk__text_reset(&k->cell);
        stk__svg_mark_put(out, above ? STK__MARK_UP : STK__MARK_DOWN, x_of(k, i), above ? axis->to + 5 : axis->from - 5,
                          4, "fill=\"#ffffff\" stroke=\"" STK__SVG_SOFT "\"");
    }
}

/* One path for the line, which has a gap where a figure is missing or the machine is another one. */
static void put_curve(const history_chart *k, size_t benchmark, const stk__axis *axis, double factor, stk__text *out)
{
    stk__text_puts(out, "<path fill=\"none\" stroke=\"" STK__SVG_BLUE "\" stroke-opacity=\"0.45\" d=\"");
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
        if (cell && spread_of(cell) > 0 && cell->mean * factor >= axis->low && cell->mean * factor <= axis->high)
            stk__text_printf(out, "M%.1f %.1fV%.1f", x_of(k, i), stk__axis_at(axis, (cell->mean - cell->sd) * factor),
                             stk__axis_at(axis, (cell->mean + cell->sd) * factor));
    }
    stk__text_printf(
        out, "\"/>\n<path fill=\"none\" stroke=\"" STK__SVG_INK "\" stroke-width=\"%d\" stroke-linecap=\"round\" d=\"",
        k->rows > 150 ? 2 : 4);
    for (size_t i = 0; i < k->rows; i++) {
        const stk__log_cell *cell = cell_of(k, i, benchmark);
        if (cell && cell->mean * factor >= axis->low && cell->mean * factor <= axis->high)
            stk__text_printf(out, "M%.1f %.1fh0", x_of(k, i), stk__axis_at(axis, cell->mean * factor));
    }
    stk__text_puts(out, "\"/>\n");
}

static void put_verdicts(history_chart *k, size_t benchmark, double top, stk__text *out)
{
    for (size_t i = 0; i < k->rows; i++) {
        const stk__verdict verdict = stk__words_row_verdict(k->log, k->first + i, benchmark);
        k->verdicts = k->verdicts || stk__verdict_better(verdict) || stk__verdict_worse(verdict);
        if (stk__verdict_better(verdict))
            stk__svg_mark_put(out, STK__MARK_UP, x_of(k, i), top - 7, 5,
                              "fill=\"" STK__SVG_BLUE "\" stroke=\"" STK__SVG_INK "\"");
        else if (stk__verdict_worse(verdict))
            stk__svg_mark_put(out, STK__MARK_DOWN, x_of(k, i), top - 7, 5,
                              "fill=\"#ffffff\" stroke=\"" STK__SVG_ORANGE "\" stroke-width=\"2\"");
    }
}

static void put_machines(history_chart *k, double top, stk__text *out)
{
    for (size_t i = 1; i < k->rows; i++) {
        if (stk__words_same_machine(row_of(k, i - 1), row_of(k, i)))
            continue;
        const double x = (x_of(k, i - 1) + x_of(k, i)) / 2;
        k->machines = true;
        stk__svg_line(out, x, top, x, top + panel_height, "stroke=\"" STK__SVG_INK "\" stroke-dasharray=\"3 3\"");
    }
}

/* A level from one row to another; one that is left open at both ends reaches half way to its neighbours. */
static void put_level(const history_chart *k, size_t from, size_t to, double y, stk__text *out)
{
    const double half = k->rows > 1 ? (x_of(k, 1) - x_of(k, 0)) / 2 : 6;
    const double x1 = fmax(plot_from, x_of_row(k, from) - half), x2 = fmin(plot_to, x_of_row(k, to) + half);
    if (to >= k->first)
        stk__svg_line(out, x1, y, x2, y, "stroke=\"" STK__SVG_INK "\" stroke-width=\"2.5\" stroke-opacity=\"0.55\"");
}

/* Where a step may be, if not at one row alone. */
static void put_range(history_chart *k, const stk__log_change *c, double top, stk__text *out)
{
    const double x1 = x_of_row(k, c->after), x2 = x_of_row(k, c->up_to);
    if (c->after == c->previous && c->up_to == c->row)
        return;
    k->ranges = true;
    stk__svg_rect(out, x1, top, x2 - x1, panel_height,
                  c->worse ? "fill=\"" STK__SVG_ORANGE "\" fill-opacity=\"0.12\""
                           : "fill=\"" STK__SVG_BLUE "\" fill-opacity=\"0.12\"");
}

/* "1a2b3c4 +9.8 % slower" over the step, in the lowest line that has room; nothing where none has. */
static void put_step_label(history_chart *k, const stk__log_change *c, double x, double top, double *ends,
                           stk__text *out)
{
    const double per_letter = 6.2;
    stk__words_commit(&k->log->rows[c->row], &k->cell);
    stk__text_putc(&k->cell, ' ');
    stk__change_size(k->log, c, false, &k->cell);
    stk__text_printf(&k->cell, " %s", stk__change_word(k->log, c));
    const double length = per_letter * (double)k->cell.length;
    const double middle = fmin(fmax(x, plot_from + length / 2), plot_to - length / 2);
    size_t line = 0;
    while (line < LABEL_LINES && middle - length / 2 < ends[line])
        line++;
    if (line < LABEL_LINES && !k->cell.failed) {
        const double above = 15 + label_step * (double)line;
        stk__svg_text(out, middle, top - above,
                      c->worse
                          ? "text-anchor=\"middle\" font-size=\"11\" font-weight=\"bold\" fill=\"" STK__SVG_ORANGE "\""
                          : "text-anchor=\"middle\" font-size=\"11\" font-weight=\"bold\" fill=\"" STK__SVG_BLUE "\"",
                      k->cell.data, 0);
        ends[line] = middle + length / 2 + per_letter;
        stk__svg_line(out, x, top - above + 3, x, top,
                      c->worse ? "stroke=\"" STK__SVG_ORANGE "\"" : "stroke=\"" STK__SVG_BLUE "\"");
    }
    stk__text_reset(&k->cell);
}

/* The whole sentence, for who points at the step. */
static void put_tooltip(const stk__log *log, const stk__log_change *c, stk__text *cell, stk__text *out)
{
    stk__words_commit(&log->rows[c->row], cell);
    stk__text_puts(cell, ": ");
    stk__change_size(log, c, true, cell);
    stk__text_printf(cell, " %s, ", stk__change_word(log, c));
    stk__change_sureness(c, cell);
    if (log->rows[c->row].description && log->rows[c->row].description[0])
        stk__text_printf(cell, ". %s", log->rows[c->row].description);
    stk__text_puts(out, "<title>");
    stk__svg_escape(out, cell->failed ? "" : cell->data, 0);
    stk__text_puts(out, "</title>");
    stk__text_reset(cell);
}

/* Whether an earlier step drew the level before this one. */
static bool has_earlier(const history_chart *k, const stk__history *h, size_t begin, size_t index)
{
    for (size_t i = index; i-- > begin && h->changes[i].row > k->first;) {
        if (h->changes[i].series == h->changes[index].series)
            return true;
    }
    return false;
}

/* Levels on both sides of each step, a line where it is, and what it is. */
static void put_steps(history_chart *k, size_t panel, const stk__axis *axis, double factor, double top, stk__text *out)
{
    const stk__history *h = k->history;
    double ends[LABEL_LINES] = {0};
    for (size_t i = h->begins[panel]; i < h->begins[panel + 1]; i++) {
        const stk__log_change *c = &h->changes[i];
        if (c->row <= k->first)
            continue;
        const double x = (x_of_row(k, c->row) + x_of_row(k, c->row - 1)) / 2;
        stk__text_puts(out, "<g>");
        put_tooltip(k->log, c, &k->cell, out);
        put_range(k, c, top, out);
        if (!has_earlier(k, h, h->begins[panel], i))
            put_level(k, c->first, c->previous, stk__axis_at(axis, c->was * factor), out);
        put_level(k, c->row, c->last, stk__axis_at(axis, c->is * factor), out);
        stk__svg_line(out, x, top, x, top + panel_height,
                      c->worse ? "stroke=\"" STK__SVG_ORANGE "\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\""
                               : "stroke=\"" STK__SVG_BLUE "\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\"");
        put_step_label(k, c, x, top, ends, out);
        stk__text_puts(out, "</g>\n");
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
        k->changed = k->changed || row_of(k, i)->dirty;
        stk__svg_text(out, x_of(k, i), y + 16, "text-anchor=\"middle\" font-size=\"10\" font-family=\"monospace\"",
                      k->cell.failed ? "" : k->cell.data, 0);
        stk__text_reset(&k->cell);
    }
}

/* The days of the first and the last row, where they are known. */
static void put_days(history_chart *k, double y, stk__text *out)
{
    enum { DAY = 10 };
    for (size_t end = 0; end < 2; end++) {
        const size_t row = end ? k->rows - 1 : 0;
        if (row_of(k, row)->time_s <= 0 || (end && k->rows < 3))
            continue;
        stk__log_time(row_of(k, row)->time_s, true, &k->cell);
        if (!k->cell.failed && k->cell.length > DAY)
            k->cell.data[DAY] = 0;
        stk__svg_text(out, end ? plot_to : plot_from, y,
                      end ? "text-anchor=\"end\" font-size=\"10\" fill=\"" STK__SVG_SOFT "\""
                          : "font-size=\"10\" fill=\"" STK__SVG_SOFT "\"",
                      k->cell.failed ? "" : k->cell.data, 0);
        stk__text_reset(&k->cell);
    }
}

static bool has_steps(const history_chart *k, size_t panel)
{
    const stk__history *h = k->history;
    return h->begins[panel + 1] > h->begins[panel] && h->changes[h->begins[panel + 1] - 1].row > k->first;
}

static double head_of(const history_chart *k, size_t panel)
{
    return has_steps(k, panel) ? head_with_steps : head_plain;
}

static void put_panel(history_chart *k, size_t panel, double top, bool last, stk__text *out)
{
    const size_t benchmark = k->history->benchmarks[panel];
    stk__axis axis;
    double factor = 1;
    const char *unit = "";
    const bool known = fit_panel(k, benchmark, top, &axis, &factor, &unit);
    stk__text_puts(&k->cell, k->log->benchmarks[benchmark].name);
    /* Names of columns of other programs may end in it. */
    const size_t length = k->cell.length, unit_length = strlen(unit);
    if (known && unit_length &&
        (length < unit_length || strncmp(k->cell.data + length - unit_length, unit, unit_length) != 0))
        stk__text_printf(&k->cell, " (%s)", unit);
    stk__svg_text(out, plot_from, top - head_of(k, panel) + 14, "font-weight=\"bold\"",
                  k->cell.failed ? "" : k->cell.data, 90);
    stk__text_reset(&k->cell);
    if (!known) {
        stk__svg_text(out, plot_from, top + 20, "fill=\"" STK__SVG_SOFT "\"", "no figures", 0);
        return;
    }
    stk__axis_put_y(&axis, plot_from, plot_to, out);
    put_machines(k, top, out);
    put_curve(k, benchmark, &axis, factor, out);
    put_steps(k, panel, &axis, factor, top, out);
    put_wild(k, benchmark, &axis, factor, out);
    put_verdicts(k, benchmark, top, out);
    put_commits(k, top + panel_height, last, out);
    if (last)
        put_days(k, top + panel_height + 29, out);
}

static void put_legend(history_chart *k, double y, stk__text *out)
{
    const char *style = "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"";
    stk__text_puts(&k->cell, "Dot: mean. Whisker: standard deviation.");
    if (k->history->change_count)
        stk__text_printf(&k->cell, " Thick line: level. Dashed line: a step, at its first commit%s.",
                         k->ranges ? "; shaded where it may be" : "");
    if (k->wild)
        stk__text_puts(&k->cell, " Grey triangle: past the axis.");
    if (k->machines)
        stk__text_puts(&k->cell, " Short dashes: another machine.");
    if (k->changed)
        stk__text_puts(&k->cell, " +: tracked files were changed.");
    stk__svg_text(out, left, y, style, k->cell.failed ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
    if (k->verdicts)
        stk__text_puts(&k->cell,
                       "Triangle, by the run of that commit: filled and up, faster; empty and down, slower. ");
    if (k->first)
        stk__text_printf(&k->cell, "The %zu oldest rows are not drawn. ", k->first);
    if (k->history->benchmark_count > k->panels)
        stk__text_printf(&k->cell, "%zu more benchmarks are not drawn.", k->history->benchmark_count - k->panels);
    if (k->cell.length)
        stk__svg_text(out, left, y + 15, style, k->cell.data, 0);
}

static void put_chart(history_chart *k, const char *title, stk__text *out)
{
    double height = 44;
    for (size_t i = 0; i < k->panels && k->rows; i++)
        height += head_of(k, i) + panel_height + panel_foot;
    if (!k->panels || !k->rows)
        height += panel_height;
    stk__svg_open(out, width, height + 46, title,
                  "Mean and spread of each benchmark over the rows of the change log, and where its level steps.");
    stk__svg_text(out, left, 28, "font-size=\"16\" font-weight=\"bold\"", title, 100);
    if (k->rows == 0 || k->panels == 0)
        stk__svg_text(out, plot_from, 76, "fill=\"" STK__SVG_SOFT "\"", "The log is empty.", 0);
    double y = 44;
    for (size_t i = 0; i < k->panels && k->rows; i++) {
        put_panel(k, i, y + head_of(k, i), i + 1 == k->panels, out);
        y += head_of(k, i) + panel_height + panel_foot;
    }
    put_legend(k, height + 22, out);
    stk__svg_close(out);
}

stk_status stk__chart_history(const stk__history *h, const char *title, stk__text *out, stk_error *err)
{
    const stk__log *log = h->log;
    history_chart k = {.history = h, .log = log, .panels = STK_MIN(h->benchmark_count, (size_t)PANELS_MOST)};
    const size_t most = STK_MAX((size_t)POINTS_MOST / (k.panels ? k.panels : 1), (size_t)ROWS_LEAST);
    const size_t shown = log->row_count > h->first ? log->row_count - h->first : 0;
    k.rows = STK_MIN(shown, most);
    k.first = log->row_count - k.rows;
    k.sorted = stk__calloc(k.rows ? k.rows : 1, sizeof *k.sorted);
    if (!k.sorted)
        return stk__nomem(k.rows * sizeof *k.sorted, err);
    put_chart(&k, title, out);
    stk__free(k.sorted);
    const bool failed = out->failed || k.cell.failed;
    stk__text_clear(&k.cell);
    return failed ? stk__nomem(out->length, err) : STK_OK;
}
