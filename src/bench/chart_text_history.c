/* The change log for the terminal: a sparkline for each benchmark, then the newest rows. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/table.h"
#include "bench/words.h"

#include "base/banned.h"

enum {
    ROWS_SHOWN = 10,
    SPARK_MOST = 60,
    SPARK_LEAST = 8,
    NAME_MOST = 24,
    CELL_MOST = 40,
    CELLS_SHOWN = 4,
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

/* A mark for each row, and one between two machines: the first row of those that fit into `columns`. */
static size_t spark_first(const stk__log *log, size_t columns)
{
    size_t first = log->row_count;
    for (size_t used = 0; first > 0; first--) {
        const bool last = first == log->row_count;
        used += last || stk__words_same_machine(&log->rows[first - 1], &log->rows[first]) ? 1 : 2;
        if (used > columns)
            break;
    }
    return first;
}

/* The newest rows, a mark each; a space where a figure is missing, a bar where the machine changes. */
static void put_spark(const stk__log *log, size_t benchmark, size_t columns, bool unicode, stk__text *out)
{
    const size_t first = spark_first(log, columns);
    double low = INFINITY, high = -INFINITY;
    for (size_t i = first; i < log->row_count; i++) {
        const stk__log_cell *cell = &log->rows[i].cells[benchmark];
        if (is_known(cell)) {
            low = fmin(low, cell->mean);
            high = fmax(high, cell->mean);
        }
    }
    for (size_t i = first; i < log->row_count; i++) {
        const stk__log_cell *cell = &log->rows[i].cells[benchmark];
        if (i > first && !stk__words_same_machine(&log->rows[i - 1], &log->rows[i]))
            stk__text_puts(out, unicode ? "│" : "|");
        if (!is_known(cell))
            stk__text_putc(out, ' ');
        else
            stk__text_puts(out, spark_mark(high > low ? (cell->mean - low) / (high - low) : 0.5, unicode));
    }
}

/* First and last row with a figure, or SIZE_MAX. */
static size_t known_row(const stk__log *log, size_t benchmark, bool newest)
{
    for (size_t k = 0; k < log->row_count; k++) {
        const size_t i = newest ? log->row_count - 1 - k : k;
        if (is_known(&log->rows[i].cells[benchmark]))
            return i;
    }
    return SIZE_MAX;
}

static void put_change(const stk__log *log, size_t benchmark, stk__text *first, stk__text *last, stk__text *change)
{
    const size_t a = known_row(log, benchmark, false), b = known_row(log, benchmark, true);
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

static void fill_sparks(const stk__log *log, size_t spark, bool unicode, stk__table *t)
{
    static const stk__column columns[] = {{.gap = 2, .most = NAME_MOST}, {.gap = 2},
                                          {.right = true, .gap = 1},     {.gap = 1},
                                          {.right = true, .gap = 2},     {0}};
    stk__table_init(t, columns, STK_COUNT(columns));
    stk__text texts[4] = {STK__TEXT_INIT, STK__TEXT_INIT, STK__TEXT_INIT, STK__TEXT_INIT};
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__table_cell(t, log->benchmarks[i].name);
        put_spark(log, i, spark, unicode, &texts[0]);
        put_change(log, i, &texts[1], &texts[2], &texts[3]);
        stk__table_take(t, &texts[0]);
        stk__table_take(t, &texts[1]);
        stk__table_cell(t, "->");
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

/* Made twice: first without the sparklines, which get what the rest leaves. */
static void put_sparks(const stk__log *log, size_t width, bool unicode, stk__text *out)
{
    stk__table t;
    fill_sparks(log, 0, unicode, &t);
    const size_t used = table_width(&t) + 2 + strlen(OTHER_MACHINE);
    stk__table_clear(&t);
    const size_t room = width > used ? width - used : 0;
    fill_sparks(log, STK_MIN(STK_MAX(room, (size_t)SPARK_LEAST), (size_t)SPARK_MOST), unicode, &t);
    stk__table_put(&t, 2, out);
    stk__table_clear(&t);
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
        stk__text_printf(cell, " %s", x->verdict);
}

static void add_row(const stk__log *log, size_t row, const rows_shape *shape, stk__table *t, stk__text *cell)
{
    const stk__log_row *x = &log->rows[row];
    if (shape->dates)
        put_day(x->time_s, cell);
    stk__table_take(t, cell);
    stk__words_commit(x, cell);
    stk__table_take(t, cell);
    for (size_t i = 0; i < shape->benchmarks; i++) {
        put_figure(&x->cells[i], log->benchmarks[i].unit, shape->intervals, cell);
        stk__table_take(t, cell);
    }
    stk__table_cell(t, x->description ? x->description : "");
}

static void init_rows(const stk__log *log, const rows_shape *shape, stk__table *t)
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
        stk__put_safe(&cell, log->benchmarks[i].name, 16);
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

static void put_rows(const stk__log *log, size_t width, stk__text *out)
{
    const size_t shown = STK_MIN(log->row_count, (size_t)ROWS_SHOWN);
    rows_shape shape = {STK_MIN(log->benchmark_count, (size_t)CELLS_SHOWN), 60, true, true};
    stk__text cell = STK__TEXT_INIT;
    stk__table t;
    for (bool again = true; again;) {
        init_rows(log, &shape, &t);
        for (size_t i = 0; i < shown; i++)
            add_row(log, log->row_count - 1 - i, &shape, &t, &cell);
        again = !t.failed && shrink(&shape, table_width(&t), width);
        if (again)
            stk__table_clear(&t);
    }
    stk__table_put(&t, 2, out);
    const size_t older = log->row_count - shown, others = log->benchmark_count - shape.benchmarks;
    if (older)
        stk__text_printf(out, "  and %zu older row%s\n", older, older == 1 ? "" : "s");
    if (others)
        stk__text_printf(out, "  and %zu more benchmark%s\n", others, others == 1 ? "" : "s");
    stk__text_clear(&cell);
    stk__table_clear(&t);
}

void stk__text_history(const stk__log *log, size_t width, bool unicode, stk__text *out)
{
    if (log->row_count == 0 || log->benchmark_count == 0) {
        stk__text_puts(out, "  the log is empty\n");
        return;
    }
    put_sparks(log, width, unicode, out);
    stk__text_putc(out, '\n');
    put_rows(log, width, out);
}
