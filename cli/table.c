/* Results as a table for people, as CSV or as JSON. */
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "workbench.h"

#include "base/banned.h"

/* Widths are those of the first rows; what is written in one go. */
enum { ROWS_MEASURED = 10000, FLUSH_BYTES = 1 << 16, WIDTH_MIN = 8, SPACE = 2, NAME_WIDTH = 200 };

#define ELLIPSIS "\xe2\x80\xa6"

typedef struct cell {
    size_t offset, size; /* in `bytes` */
    size_t width;        /* characters */
    bool number, null;
} cell;

struct cli_table {
    cli_format format; /* CLI_CSV for CLI_RAW_CSV as well */
    bool raw;
    char **columns;
    size_t count;
    size_t rows, next; /* next: column of the next cell */
    bool failed;
    stk__text out;

    /* As a table: rows that wait, until there are enough to know the widths. */
    cell *cells;
    size_t cell_count, cell_capacity;
    stk__text bytes;
    size_t *widths;
    bool *numbers;      /* columns that stand on the right */
    bool laid_out, cut; /* cut: to the widths */
};

static const char *const format_names[] = {
    [CLI_TABLE] = "table", [CLI_CSV] = "csv", [CLI_JSON] = "json", [CLI_RAW_CSV] = "raw-csv"};

const char *cli_format_name(cli_format format)
{
    return format_names[format];
}

bool cli_format_named(const char *name, cli_format *out)
{
    for (size_t i = 0; i < STK_COUNT(format_names); i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *out = (cli_format)i;
            return true;
        }
    }
    return false;
}

bool cli_format_of(const cli_command *command, const cli_format_options *options, cli_format *out)
{
    *out = options->json ? CLI_JSON : CLI_TABLE;
    if (!options->name)
        return true;
    cli_format format;
    if (!cli_format_named(options->name, &format)) {
        cli_usage_error(command, "--format wants table, csv, raw-csv or json, found '%s'", options->name);
        return false;
    }
    if (options->json && format != CLI_JSON) {
        cli_usage_error(command, "--json and --format %s exclude each other", options->name);
        return false;
    }
    *out = format;
    return true;
}

static void flush(cli_table *t)
{
    if (t->out.failed || (t->out.length && !cli_out(t->out.data, t->out.length)))
        t->failed = true;
    stk__text_reset(&t->out);
}

/* ---- a table for people ---- */

static size_t width_of(const char *text, size_t size)
{
    size_t width = 0;
    for (size_t i = 0; i < size; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static void put_spaces(stk__text *out, size_t count)
{
    while (count-- > 0)
        stk__text_putc(out, ' ');
}

/* The first `width` characters; a sign at their end says that there were more. */
static void put_cut(stk__text *out, const char *text, size_t size, size_t width)
{
    size_t i = 0;
    for (size_t left = width - 1; i < size; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80 && left-- == 0)
            break;
    }
    stk__text_write(out, text, i);
    stk__text_puts(out, ELLIPSIS);
}

static void put_padded(cli_table *t, size_t column, const char *text, size_t size, size_t width, bool right)
{
    const size_t room = t->widths[column];
    const bool last = column + 1 == t->count;
    const size_t space = width < room ? room - width : 0;
    put_spaces(&t->out, column ? SPACE : 0);
    if (right)
        put_spaces(&t->out, space);
    if (t->cut && width > room)
        put_cut(&t->out, text, size, room);
    else
        stk__text_write(&t->out, text, size);
    if (!right && !last)
        put_spaces(&t->out, space);
}

/* White space at the end of a line says nothing. */
static void end_line(cli_table *t)
{
    while (t->out.length && t->out.data[t->out.length - 1] == ' ')
        t->out.length--;
    stk__text_putc(&t->out, '\n');
    if (t->out.length >= FLUSH_BYTES)
        flush(t);
}

static size_t terminal_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

/* Takes from the widest columns of text until the row fits. */
static void fit_widths(cli_table *t, size_t columns)
{
    size_t total = (t->count - 1) * SPACE;
    for (size_t i = 0; i < t->count; i++)
        total += t->widths[i];
    while (total > columns) {
        size_t widest = t->count, second = WIDTH_MIN;
        for (size_t i = 0; i < t->count; i++) {
            if (t->numbers[i] || t->widths[i] <= WIDTH_MIN)
                continue;
            if (widest == t->count || t->widths[i] > t->widths[widest]) {
                second = widest == t->count ? WIDTH_MIN : t->widths[widest];
                widest = i;
            } else if (t->widths[i] > second) {
                second = t->widths[i];
            }
        }
        if (widest == t->count)
            break; /* numbers are never cut: the row takes more than one line */
        const size_t less = STK_MAX(STK_MIN(total - columns, t->widths[widest] - second), 1);
        t->widths[widest] -= less;
        total -= less;
    }
}

static void measure(cli_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        t->widths[i] = width_of(t->columns[i], strlen(t->columns[i]));
        bool any = false, all = true;
        for (size_t j = i; j < t->cell_count; j += t->count) {
            const cell *c = &t->cells[j];
            t->widths[i] = STK_MAX(t->widths[i], c->width);
            any |= !c->null;
            all &= c->null || c->number;
        }
        t->numbers[i] = any && all;
    }
}

static void put_head(cli_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const size_t size = strlen(t->columns[i]);
        put_padded(t, i, t->columns[i], size, width_of(t->columns[i], size), t->numbers[i]);
    }
    end_line(t);
    for (size_t i = 0; i < t->count; i++) {
        put_spaces(&t->out, i ? SPACE : 0);
        for (size_t j = 0; j < t->widths[i]; j++)
            stk__text_putc(&t->out, '-');
    }
    end_line(t);
}

/* Writes the rows that wait, after the heading when it is the first time. */
static void put_rows(cli_table *t)
{
    if (t->bytes.failed)
        t->failed = true;
    if (t->failed)
        return;
    if (!t->laid_out) {
        const size_t columns = terminal_columns();
        measure(t);
        t->cut = columns > 0;
        if (t->cut)
            fit_widths(t, columns);
        put_head(t);
        t->laid_out = true;
    }
    for (size_t i = 0; i < t->cell_count; i++) {
        const cell *c = &t->cells[i];
        put_padded(t, i % t->count, c->size ? t->bytes.data + c->offset : "", c->size, c->width, c->number);
        if (i % t->count + 1 == t->count)
            end_line(t);
    }
    t->cell_count = 0;
    stk__text_reset(&t->bytes);
}

/* Takes what was written to `bytes` since `offset` as a cell. */
static void add_cell(cli_table *t, size_t offset, bool number, bool null)
{
    if (!stk__grow((void **)&t->cells, &t->cell_capacity, t->cell_count + 1, sizeof *t->cells)) {
        t->failed = true;
        return;
    }
    const size_t size = t->bytes.length - offset;
    t->cells[t->cell_count++] = (cell){.offset = offset,
                                       .size = size,
                                       .width = size ? width_of(t->bytes.data + offset, size) : 0,
                                       .number = number,
                                       .null = null};
}

/* ---- cells ---- */

/* An empty text is in quotes, so that it is no NULL. */
static void put_csv(cli_table *t, const char *text, size_t size)
{
    if (size == 0)
        stk__text_puts(&t->out, "\"\"");
    else if (t->raw)
        stk__text_csv(&t->out, text, size);
    else
        stk__text_csv_safe(&t->out, text, size);
}

/* What stands before a cell. */
static void start_cell(cli_table *t)
{
    if (t->format == CLI_CSV) {
        if (t->next)
            stk__text_putc(&t->out, ',');
    } else if (t->format == CLI_JSON) {
        stk__text_puts(&t->out, t->next ? "," : t->rows ? ",\n{" : "[\n{");
        stk__text_json_str(&t->out, t->columns[t->next]);
        stk__text_putc(&t->out, ':');
    }
}

static void end_cell(cli_table *t)
{
    if (++t->next < t->count)
        return;
    t->next = 0;
    t->rows++;
    if (t->format == CLI_TABLE) {
        if (t->laid_out || t->rows == ROWS_MEASURED)
            put_rows(t);
        return;
    }
    stk__text_putc(&t->out, t->format == CLI_CSV ? '\n' : '}');
    if (t->out.length >= FLUSH_BYTES)
        flush(t);
}

/* Control bytes as \xNN, also NUL, where cli_text_escaped would stop. */
static void put_escaped(stk__text *out, const char *text, size_t size)
{
    while (size) {
        const char *nul = memchr(text, 0, size);
        const size_t length = nul ? (size_t)(nul - text) : size;
        char *piece = stk__strndup(text, length);
        if (!piece) {
            out->failed = true;
            return;
        }
        cli_text_escaped(out, piece);
        stk__free(piece);
        if (nul)
            stk__text_puts(out, "\\x00");
        text += length + (nul != NULL);
        size -= length + (nul != NULL);
    }
}

static bool plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f)
            return false;
    }
    return true;
}

void cli_table_text(cli_table *t, const char *text, size_t size)
{
    if (!t || t->failed)
        return;
    start_cell(t);
    if (t->format == CLI_JSON) {
        stk__text_json(&t->out, text, size);
    } else if (t->format == CLI_CSV) {
        put_csv(t, text, size);
    } else {
        const size_t offset = t->bytes.length;
        if (plain(text, size))
            stk__text_write(&t->bytes, text, size);
        else
            put_escaped(&t->bytes, text, size);
        add_cell(t, offset, false, false);
    }
    end_cell(t);
}

void cli_text_name(stk__text *out, const char *name)
{
    size_t size = 0;
    for (size_t width = 0; name[size]; size++) {
        if (((unsigned char)name[size] & 0xc0) != 0x80 && ++width > NAME_WIDTH)
            break;
    }
    if (!name[size]) {
        cli_text_escaped(out, name);
        return;
    }
    put_escaped(out, name, size);
    stk__text_puts(out, ELLIPSIS);
}

void cli_table_str(cli_table *t, const char *text)
{
    cli_table_text(t, text, strlen(text));
}

/* Where the text of a number goes, after what stands before it; *offset is for end_number. */
static stk__text *start_number(cli_table *t, size_t *offset)
{
    start_cell(t);
    *offset = t->bytes.length;
    return t->format == CLI_TABLE ? &t->bytes : &t->out;
}

static void end_number(cli_table *t, size_t offset)
{
    if (t->format == CLI_TABLE)
        add_cell(t, offset, true, false);
    end_cell(t);
}

void cli_table_int(cli_table *t, int64_t value)
{
    size_t offset;
    if (!t || t->failed)
        return;
    stk__text_printf(start_number(t, &offset), "%lld", (long long)value);
    end_number(t, offset);
}

/* Six digits, and no exponent for numbers that people can read without one. */
static void put_double(stk__text *out, double value)
{
    const double size = fabs(value);
    if (size >= 1e5 && size < 1e15)
        stk__text_printf(out, value == floor(value) ? "%.0f" : "%.1f", value);
    else
        stk__text_printf(out, "%.6g", value);
}

void cli_table_double(cli_table *t, double value)
{
    size_t offset;
    if (!t || t->failed)
        return;
    stk__text *out = start_number(t, &offset);
    if (t->format == CLI_TABLE)
        put_double(out, value);
    else if (t->format == CLI_JSON || isfinite(value))
        stk__text_json_double(out, value);
    end_number(t, offset);
}

void cli_text_ns(stk__text *out, int64_t ns)
{
    static const struct {
        double above, divisor;
        const char *unit;
    } units[] = {{999.5e6, 1e9, "s"}, {999.5e3, 1e6, "ms"}, {999.5, 1e3, "us"}};
    const double size = fabs((double)ns);
    size_t i = 0;
    while (i < STK_COUNT(units) && size < units[i].above)
        i++;
    if (i < STK_COUNT(units))
        stk__text_printf(out, "%.3f %s", (double)ns / units[i].divisor, units[i].unit);
    else
        stk__text_printf(out, "%lld ns", (long long)ns);
}

void cli_table_ns(cli_table *t, int64_t ns)
{
    if (!t || t->failed)
        return;
    if (t->format != CLI_TABLE) {
        cli_table_int(t, ns);
        return;
    }
    const size_t offset = t->bytes.length;
    cli_text_ns(&t->bytes, ns);
    add_cell(t, offset, true, false);
    end_cell(t);
}

void cli_table_null(cli_table *t)
{
    if (!t || t->failed)
        return;
    start_cell(t);
    if (t->format == CLI_JSON)
        stk__text_puts(&t->out, "null");
    else if (t->format == CLI_TABLE)
        add_cell(t, t->bytes.length, false, true);
    end_cell(t);
}

void cli_table_fail(cli_table *t)
{
    if (t)
        t->failed = true;
}

size_t cli_table_rows(const cli_table *t)
{
    return t ? t->rows : 0;
}

/* ---- from beginning to end ---- */

static void table_free(cli_table *t)
{
    for (size_t i = 0; t->columns && i < t->count; i++)
        stk__free(t->columns[i]);
    stk__free(t->columns);
    stk__free(t->cells);
    stk__free(t->widths);
    stk__free(t->numbers);
    stk__text_clear(&t->bytes);
    stk__text_clear(&t->out);
    stk__free(t);
}

/* Headings come from queries, so they are as little to be trusted as cells. */
static char *column_name(cli_format format, const char *name)
{
    if (format != CLI_TABLE)
        return stk__strdup(name);
    stk__text text = STK__TEXT_INIT;
    cli_text_escaped(&text, name);
    char *copy = text.failed ? NULL : stk__strdup(text.data ? text.data : "");
    stk__text_clear(&text);
    return copy;
}

cli_table *cli_table_new(cli_format format, const char *const *columns, size_t count)
{
    cli_table *t = stk__calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->format = format == CLI_RAW_CSV ? CLI_CSV : format;
    t->raw = format == CLI_RAW_CSV;
    t->count = count;
    t->columns = stk__calloc(count, sizeof *t->columns);
    t->widths = stk__calloc(count, sizeof *t->widths);
    t->numbers = stk__calloc(count, sizeof *t->numbers);
    bool ok = t->columns && t->widths && t->numbers;
    for (size_t i = 0; ok && i < count; i++) {
        t->columns[i] = column_name(format, columns[i]);
        ok = t->columns[i] != NULL;
    }
    if (!ok) {
        table_free(t);
        return NULL;
    }
    for (size_t i = 0; t->format == CLI_CSV && i < count; i++) {
        stk__text_puts(&t->out, i ? "," : "");
        put_csv(t, columns[i], strlen(columns[i]));
    }
    if (t->format == CLI_CSV)
        stk__text_putc(&t->out, '\n');
    return t;
}

bool cli_table_finish(cli_table *t)
{
    if (!t)
        return false;
    if (t->format == CLI_TABLE && (t->cell_count || !t->laid_out))
        put_rows(t);
    else if (t->format == CLI_JSON)
        stk__text_puts(&t->out, t->rows ? "\n]\n" : "[]\n");
    flush(t);
    const bool ok = !t->failed;
    table_free(t);
    return ok;
}
