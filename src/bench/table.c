/* Columns of text, measured as a terminal shows them. */
#include "bench/table.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* What is escaped comes out at most this long, whatever came in. */
enum { SAFE_BYTES = 2000 };

static uint32_t decode(const unsigned char *s, size_t length)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & masks[length];
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

static size_t columns_of(uint32_t c)
{
    static const struct {
        uint32_t from, to;
        size_t columns;
    } ranges[] = {{0x300, 0x36f, 0},   {0x1100, 0x115f, 2}, {0x200b, 0x200d, 0},   {0x2e80, 0xa4cf, 2},
                  {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < STK_COUNT(ranges) && ranges[i].from <= c; i++) {
        if (c <= ranges[i].to)
            return ranges[i].columns;
    }
    return 1;
}

/* Bytes of `text` that fit into `most` columns; *out_columns: how many they take. */
static size_t fitting(const char *text, size_t most, size_t *out_columns)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t size = strlen(text);
    size_t used = 0, i = 0;
    while (i < size) {
        const size_t n = stk__utf8_length(p + i, size - i);
        const size_t width = n ? columns_of(decode(p + i, n)) : 1;
        if (used + width > most)
            break;
        used += width;
        i += n ? n : 1;
    }
    *out_columns = used;
    return i;
}

size_t stk__columns(const char *text)
{
    size_t columns;
    fitting(text, SIZE_MAX, &columns);
    return columns;
}

void stk__put_safe(stk__text *out, const char *text, size_t most)
{
    char safe[SAFE_BYTES];
    const bool cut = stk__escape_terminal(text, safe, sizeof safe) >= sizeof safe;
    if (most == 0)
        most = SAFE_BYTES;
    size_t columns;
    if (!cut && fitting(safe, most, &columns) == strlen(safe)) {
        stk__text_puts(out, safe);
        return;
    }
    stk__text_write(out, safe, fitting(safe, most > 3 ? most - 3 : 0, &columns));
    stk__text_puts(out, "...");
}

void stk__put_spaces(stk__text *out, size_t count)
{
    while (count--)
        stk__text_putc(out, ' ');
}

void stk__table_init(stk__table *t, const stk__column *columns, size_t count)
{
    *t = (stk__table){.column_count = STK_MIN(count, (size_t)STK__TABLE_COLUMNS)};
    for (size_t i = 0; i < t->column_count; i++)
        t->columns[i] = columns[i];
}

void stk__table_cell(stk__table *t, const char *text)
{
    const size_t column = t->cell_count % t->column_count, start = t->text.length;
    if (!stk__grow((void **)&t->starts, &t->capacity, t->cell_count + 1, sizeof *t->starts)) {
        t->failed = true;
        return;
    }
    stk__put_safe(&t->text, text, t->columns[column].most);
    stk__text_putc(&t->text, 0);
    if (t->text.failed) {
        t->failed = true;
        return;
    }
    t->starts[t->cell_count++] = start;
    /* Nothing stands behind the last column, so that its width does not matter. */
    if (column + 1 < t->column_count)
        t->widths[column] = STK_MAX(t->widths[column], stk__columns(t->text.data + start));
}

void stk__table_take(stk__table *t, stk__text *text)
{
    if (text->failed)
        t->failed = true;
    stk__table_cell(t, text->data ? text->data : "");
    stk__text_reset(text);
}

size_t stk__table_rows(const stk__table *t)
{
    return t->cell_count / t->column_count;
}

void stk__table_put_row(const stk__table *t, size_t row, size_t indent, stk__text *out)
{
    if (t->failed) {
        out->failed = true;
        return;
    }
    size_t owed = indent;
    for (size_t i = 0; i < t->column_count; i++) {
        const char *cell = t->text.data + t->starts[row * t->column_count + i];
        const size_t width = stk__columns(cell), room = STK_MAX(t->widths[i], width) - width;
        if (t->columns[i].right)
            owed += room;
        if (cell[0]) {
            stk__put_spaces(out, owed);
            stk__text_puts(out, cell);
            owed = 0;
        }
        /* A column that is empty in every row takes no gap either. */
        owed += (t->columns[i].right ? 0 : room) + (t->widths[i] ? t->columns[i].gap : 0);
    }
    stk__text_putc(out, '\n');
}

void stk__table_put(const stk__table *t, size_t indent, stk__text *out)
{
    if (t->failed)
        out->failed = true;
    for (size_t row = 0; row < stk__table_rows(t); row++)
        stk__table_put_row(t, row, indent, out);
}

void stk__table_clear(stk__table *t)
{
    stk__text_clear(&t->text);
    stk__free(t->starts);
    *t = (stk__table){0};
}
