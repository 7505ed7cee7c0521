/* The change log for the terminal: a sparkline for each benchmark with its steps, then the newest rows. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/table.h"
#include "bench/words.h"
#include "stats/describe.h"

#include "base/banned.h"

enum {
    ROWS_SHOWN = 10,
    SPARK_MOST = 60,
    SPARK_LEAST = 8,
    NAME_MOST = 24,
    CELL_MOST = 40,
    CELLS_SHOWN = 4,
    CHANGES_SHOWN = 6,
    DESCRIPTION_LEAST = 12
};

#define OTHER_MACHINE "other machine"

static bool is_known(const stk__log_cell *cell)
{
    return cell->n && isfinite(cell->mean);
}

/* Steps of a sparkline, lowest first. */
static const char *spark_mark(double share, bool unicode)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", "-", "^"};
    const size_t count = unicode ? STK_COUNT(blocks) : STK_COUNT(plain);
    const size_t step = STK_MIN((size_t)(share * (double)count), count - 1);
    return unicode ? blocks[step] : plain[step];
}

/*
 * A mark of the sparkline: rows of one machine. A space where figures are missing, a bar between two machines. Where there
 * are more rows than columns, several rows share a mark.
 */
typedef struct spark {
    size_t first; /* row */
    size_t each;  /* rows of a mark */
} spark;

static bool begins_mark(const stk__log *log, const spark *s, size_t row, size_t in_mark, bool *out_bar)
{
    *out_bar = row > s->first && !stk__words_same_machine(&log->rows[row - 1], &log->rows[row]);
    return row == s->first || *out_bar || in_mark == s->each;
}

static size_t spark_columns(const stk__log *log, const spark *s)
{
    size_t columns = 0, in_mark = 0;
    for (size_t i = s->first; i < log->row_count; i++, in_mark++) {
        bool bar;
        if (begins_mark(log, s, i, in_mark, &bar)) {
            columns += bar ? 2 : 1;
            in_mark = 0;
        }
    }
    return columns;
}

/* All rows, more and more of them in a mark, until they fit; where machines take turns, the newest rows. */
static spark spark_fit(const stk__history *h, size_t columns)
{
    const size_t rows = h->log->row_count - h->first;
    spark s = {.first = h->first, .each = columns && rows > columns ? (rows + columns - 1) / columns : 1};
    for (size_t used = spark_columns(h->log, &s); used > columns && s.each < rows; used = spark_columns(h->log, &s))
        s.each *= 2;
    while (spark_columns(h->log, &s) > columns && s.first + 1 < h->log->row_count)
        s.first += STK_MAX(1, (h->log->row_count - s.first) / 4);
    return s;
}

/* The bulk of the figures, so that one wild row does not press the others flat. */
static void spark_range(double *values, size_t n, double *out_low, double *out_high)
{
    enum { CUT = 20 };
    stk__sort_double(values, n);
    *out_low = n ? values[n / CUT] : 0;
    *out_high = n ? values[n - 1 - n / CUT] : 0;
}

/* `room`: as many values as the log has rows. */
static void put_spark(const stk__history *h, size_t benchmark, size_t columns, bool unicode, double *room,
                      stk__text *out)
{
    const stk__log *log = h->log;
    const spark s = spark_fit(h, columns);
    size_t n = 0;
    for (size_t i = s.first; i < log->row_count; i++) {
        if (is_known(&log->rows[i].cells[benchmark]))
            room[n++] = log->rows[i].cells[benchmark].mean;
    }
    double low, high, sum = 0;
    spark_range(room, n, &low, &high);
    for (size_t i = s.first, known = 0, in_mark = 0; columns && i <= log->row_count; i++, in_mark++) {
        bool bar = false;
        if (i == log->row_count || (begins_mark(log, &s, i, in_mark, &bar) && i > s.first)) {
            const double share = high > low && known ? (sum / (double)known - low) / (high - low) : 0.5;
            stk__text_puts(out, known ? spark_mark(fmin(fmax(share, 0), 1), unicode) : " ");
            stk__text_puts(out, !bar ? "" : unicode ? "│" : "|");
            sum = 0;
            known = in_mark = 0;
        }
        if (i < log->row_count && is_known(&log->rows[i].cells[benchmark])) {
            sum += log->rows[i].cells[benchmark].mean;
            known++;
        }
    }
}

/* First and last row with a figure, or SIZE_MAX. */
static size_t known_row(const stk__history *h, size_t benchmark, bool newest)
{
    for (size_t k = h->first; k < h->log->row_count; k++) {
        const size_t i = newest ? h->log->row_count - 1 - (k - h->first) : k;
        if (is_known(&h->log->rows[i].cells[benchmark]))
            return i;
    }
    return SIZE_MAX;
}

static void put_change(const stk__history *h, size_t benchmark, stk__text *first, stk__text *last, stk__text *change)
{
    const stk__log *log = h->log;
    const size_t a = known_row(h, benchmark, false), b = known_row(h, benchmark, true);
    if (a == SIZE_MAX)
        return;
    const double x = log->rows[a].cells[benchmark].mean, y = log->rows[b].cells[benchmark].mean;
    stk__quantity(first, x, log->benchmarks[benchmark].unit);
    stk__quantity(last, y, log->benchmarks[benchmark].unit);
    if (!stk__words_same_machine(&log->rows[a], &log->rows[b]))
        stk__text_puts(change, OTHER_MACHINE);
    else if (x > 0 && isfinite(y / x))
        stk__text_printf(change, "%+.1f %%", 100 * (y / x - 1));
}

static void fill_sparks(const stk__history *h, size_t columns_of_spark, bool unicode, double *room, stk__table *t)
{
    static const stk__column columns[] = {{.gap = 2, .most = NAME_MOST}, {.gap = 2},
                                          {.right = true, .gap = 1},     {.gap = 1},
                                          {.right = true, .gap = 2},     {0}};
    stk__table_init(t, columns, STK_COUNT(columns));
    stk__text texts[4] = {STK__TEXT_INIT, STK__TEXT_INIT, STK__TEXT_INIT, STK__TEXT_INIT};
    for (size_t i = 0; i < h->benchmark_count; i++) {
        stk__table_cell(t, h->log->benchmarks[h->benchmarks[i]].name);
        put_spark(h, h->benchmarks[i], columns_of_spark, unicode, room, &texts[0]);
        put_change(h, h->benchmarks[i], &texts[1], &texts[2], &texts[3]);
        const bool known = texts[1].length > 0;
        stk__table_take(t, &texts[0]);
        stk__table_take(t, &texts[1]);
        stk__table_cell(t, known ? "->" : "");
        stk__table_take(t, &texts[2]);
        stk__table_take(t, &texts[3]);
    }
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        stk__text_clear(&texts[i]);
}

static size_t table_width(const stk__table *t)
{
    size_t width = 2;
    for (size_t i = 0; i + 1 < t->column_count; i++)
        width += t->widths[i] + (t->widths[i] ? t->columns[i].gap : 0);
    return width;
}

static void put_day(int64_t time_s, stk__text *cell)
{
    const time_t at = (time_t)time_s;
    struct tm tm;
    if (time_s > 0 && gmtime_r(&at, &tm))
        stk__text_printf(cell, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
    else
        stk__text_putc(cell, '-');
}

/* A line, cut where the terminal ends. */
static void put_line(stk__text *line, size_t indent, size_t width, stk__text *out)
{
    if (line->length && !line->failed) {
        stk__put_spaces(out, indent);
        stk__put_safe(out, line->data, width > indent + DESCRIPTION_LEAST ? width - indent : DESCRIPTION_LEAST);
        stk__text_putc(out, '\n');
    }
    out->failed = out->failed || line->failed;
    stk__text_reset(line);
}

/* "+9.8 % (8.1..11.6) slower since 1a2b3c4 of 2026-10-03: fused normalise", and below it how sure, and which commits. */
static void put_step(const stk__log *log, const stk__log_change *c, size_t width, stk__text *out)
{
    const stk__log_row *row = &log->rows[c->row];
    stk__text line = STK__TEXT_INIT;
    stk__change_size(log, c, true, &line);
    stk__text_printf(&line, " %s since ", stk__change_word(log, c));
    if (row->commit && row->commit[0]) {
        stk__words_commit(row, &line);
        stk__text_puts(&line, row->time_s > 0 ? " of " : "");
    }
    if (row->time_s > 0)
        put_day(row->time_s, &line);
    else if (!row->commit || !row->commit[0])
        stk__text_printf(&line, "row %zu", c->row + 1);
    if (row->description && row->description[0])
        stk__text_printf(&line, ": %s", row->description);
    put_line(&line, 4, width, out);
    stk__text range = STK__TEXT_INIT;
    stk__change_sureness(c, &line);
    stk__change_range(log, c, &range);
    if (range.length)
        stk__text_printf(&line, "; %s", range.data);
    line.failed = line.failed || range.failed;
    put_line(&line, 6, width, out);
    stk__text_clear(&range);
    stk__text_clear(&line);
}

static void put_steps(const stk__history *h, size_t shown, size_t width, stk__text *out)
{
    const size_t begin = h->begins[shown], end = h->begins[shown + 1];
    const size_t from = end - begin > CHANGES_SHOWN ? end - CHANGES_SHOWN : begin;
    if (from > begin)
        stk__text_printf(out, "    %zu older change%s; then\n", from - begin, from - begin == 1 ? "" : "s");
    for (size_t i = from; i < end; i++)
        put_step(h->log, &h->changes[i], width, out);
}

/* Made twice: first without the sparklines, which get what the rest leaves. */
static void put_sparks(const stk__history *h, size_t width, bool unicode, stk__text *out)
{
    double *room = stk__calloc(h->log->row_count, sizeof *room);
    if (!room) {
        out->failed = true;
        return;
    }
    stk__table t;
    fill_sparks(h, 0, unicode, room, &t);
    const size_t used = table_width(&t) + 2 + strlen(OTHER_MACHINE), left = width > used ? width - used : 0;
    stk__table_clear(&t);
    fill_sparks(h, STK_MIN(STK_MAX(left, (size_t)SPARK_LEAST), (size_t)SPARK_MOST), unicode, room, &t);
    stk__free(room);
    for (size_t i = 0; i < stk__table_rows(&t); i++) {
        stk__table_put_row(&t, i, 2, out);
        put_steps(h, i, width, out);
    }
    stk__table_clear(&t);
}

/* What a table of rows shows; narrow terminals get less. */
typedef struct rows_shape {
    size_t benchmarks, description; /* columns of cells; characters of text */
    bool intervals, dates;
} rows_shape;

/* "(1.90, 0.02) s 0.950 slower": the figure and what became of it. */
static void put_figure(const stk__log_cell *x, const char *unit, bool ratio, stk__text *cell)
{
    if (!is_known(x))
        stk__text_putc(cell, '-');
    else if (isfinite(x->sd))
        stk__quantity_pair(cell, x->mean, x->sd, unit);
    else
        stk__quantity(cell, x->mean, unit);
    if (ratio && is_known(x) && isfinite(x->ratio)) {
        stk__text_putc(cell, ' ');
        stk__ratio(cell, x->ratio);
    }
    if (is_known(x) && x->verdict)
        stk__text_printf(cell, " %s", stk__count_word(unit, x->verdict));
}

static void add_row(const stk__history *h, size_t row, const rows_shape *shape, stk__table *t, stk__text *cell)
{
    const stk__log_row *x = &h->log->rows[row];
    if (shape->dates)
        put_day(x->time_s, cell);
    stk__table_take(t, cell);
    stk__words_commit(x, cell);
    stk__table_take(t, cell);
    for (size_t i = 0; i < shape->benchmarks; i++) {
        const size_t b = h->benchmarks[i];
        put_figure(&x->cells[b], h->log->benchmarks[b].unit, shape->intervals, cell);
        stk__table_take(t, cell);
    }
    stk__table_cell(t, x->description ? x->description : "");
}

static void init_rows(const stk__history *h, const rows_shape *shape, stk__table *t)
{
    stk__column columns[3 + CELLS_SHOWN];
    size_t n = 0;
    columns[n++] = (stk__column){.gap = 2};
    columns[n++] = (stk__column){.gap = 2};
    for (size_t i = 0; i < shape->benchmarks; i++)
        columns[n++] = (stk__column){.gap = 2, .most = CELL_MOST};
    columns[n++] = (stk__column){.most = shape->description};
    stk__table_init(t, columns, n);
    stk__table_cell(t, shape->dates ? "date" : "");
    stk__table_cell(t, "commit");
    for (size_t i = 0; i < shape->benchmarks; i++) {
        stk__text cell = STK__TEXT_INIT;
        stk__put_safe(&cell, h->log->benchmarks[h->benchmarks[i]].name, 16);
        stk__table_take(t, &cell);
        stk__text_clear(&cell);
    }
    stk__table_cell(t, "description");
}

/* Takes away what can best be missed until `used` columns and some words fit; false when nothing is left to take. */
static bool shrink(rows_shape *shape, size_t used, size_t width)
{
    if (used + shape->description <= width)
        return false;
    if (used + DESCRIPTION_LEAST <= width)
        shape->description = width - used;
    else if (shape->benchmarks > 1)
        shape->benchmarks--;
    else if (shape->intervals)
        shape->intervals = false;
    else if (shape->dates)
        shape->dates = false;
    else if (shape->description > DESCRIPTION_LEAST)
        shape->description = DESCRIPTION_LEAST;
    else
        return false;
    return true;
}

static void put_rows(const stk__history *h, size_t width, stk__text *out)
{
    const size_t rows = h->log->row_count - h->first, shown = STK_MIN(rows, (size_t)ROWS_SHOWN);
    rows_shape shape = {STK_MIN(h->benchmark_count, (size_t)CELLS_SHOWN), 60, true, true};
    stk__text cell = STK__TEXT_INIT;
    stk__table t;
    for (bool again = true; again;) {
        init_rows(h, &shape, &t);
        for (size_t i = 0; i < shown; i++)
            add_row(h, h->log->row_count - 1 - i, &shape, &t, &cell);
        again = !t.failed && shrink(&shape, table_width(&t), width);
        if (again)
            stk__table_clear(&t);
    }
    stk__table_put(&t, 2, out);
    const size_t older = h->log->row_count - shown, others = h->benchmark_count - shape.benchmarks;
    if (older)
        stk__text_printf(out, "  and %zu older row%s\n", older, older == 1 ? "" : "s");
    if (others)
        stk__text_printf(out, "  and %zu more benchmark%s\n", others, others == 1 ? "" : "s");
    stk__text_clear(&cell);
    stk__table_clear(&t);
}

void stk__text_history(const stk__history *h, size_t width, bool unicode, stk__text *out)
{
    if (h->log->row_count <= h->first || h->benchmark_count == 0) {
        stk__text_puts(out, "  the log is empty\n");
        return;
    }
    put_sparks(h, width, unicode, out);
    stk__text_putc(out, '\n');
    put_rows(h, width, out);
}
