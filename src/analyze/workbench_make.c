/* Fills tables of the workbench cell by cell: columns take the type that fits all of their values. */
#include <string.h>

#include <sqlite3.h>

#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

#define SEEN(type) (1u << (type))
#define NUMBERS (SEEN(SQLITE_INTEGER) | SEEN(SQLITE_FLOAT))
#define TEXTS (SEEN(SQLITE_TEXT) | SEEN(SQLITE_BLOB))

stk_status stk__maker_init(stk__table_maker *m, size_t columns, stk_error *err)
{
    *m = (stk__table_maker){.count = columns};
    m->names = stk__calloc(columns + 1, sizeof *m->names);
    m->columns = stk__calloc(columns + 1, sizeof *m->columns);
    if (m->names && m->columns)
        return STK_OK;
    stk__maker_clear(m);
    return stk__nomem((columns + 1) * sizeof *m->columns, err);
}

static void column_clear(stk__column_maker *c)
{
    stk__free(c->types);
    stk__free(c->values);
    stk__free(c->bytes);
    *c = (stk__column_maker){0};
}

void stk__maker_clear(stk__table_maker *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->names)
            stk__free(m->names[i]);
        if (m->columns)
            column_clear(&m->columns[i]);
    }
    stk__free(m->names);
    stk__free(m->columns);
    *m = (stk__table_maker){0};
}

/* ---- text ---- */

static bool append(char **bytes, size_t *size, size_t *capacity, const void *data, size_t length)
{
    if (length > SIZE_MAX / 2 - *size || !stk__grow((void **)bytes, capacity, *size + length, 1))
        return false;
    if (length)
        memcpy(*bytes + *size, data, length);
    *size += length;
    return true;
}

/* How much of a text is UTF-8. */
static size_t good_length(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        const size_t n =
            (unsigned char)text[at] < 0x80 ? 1 : stk__utf8_length((const unsigned char *)text + at, length - at);
        if (!n)
            break;
        at += n;
    }
    return at;
}

bool stk__append_utf8(char **bytes, size_t *size, size_t *capacity, const char *text, size_t length)
{
    for (;;) {
        const size_t good = good_length(text, length);
        if (!append(bytes, size, capacity, text, good))
            return false;
        if (good == length)
            return true;
        if (!append(bytes, size, capacity, "\xef\xbf\xbd", 3))
            return false;
        text += good + 1;
        length -= good + 1;
    }
}

static bool name_taken(const stk__table_maker *m, size_t column, const char *name)
{
    for (size_t i = 0; i < m->count; i++) {
        if (i != column && m->names[i] && strcmp(m->names[i], name) == 0)
            return true;
    }
    return false;
}

void stk__maker_name(stk__table_maker *m, size_t column, const char *name)
{
    char *bytes = NULL;
    size_t size = 0, capacity = 0;
    stk__text unique = STK__TEXT_INIT;
    bool good =
        stk__append_utf8(&bytes, &size, &capacity, name, strlen(name)) && append(&bytes, &size, &capacity, "", 1);
    if (good)
        stk__text_puts(&unique, bytes);
    for (unsigned again = 1; good && !unique.failed && name_taken(m, column, unique.data ? unique.data : ""); again++) {
        stk__text_reset(&unique);
        stk__text_printf(&unique, "%s:%u", bytes, again);
    }
    stk__free(bytes);
    if (good && !unique.failed && !unique.data)
        unique.data = stk__strdup("");
    if (!good || unique.failed || !unique.data) {
        stk__text_clear(&unique);
        m->failed = true;
        return;
    }
    m->names[column] = unique.data;
}

/* ---- cells ---- */

static bool cell(stk__table_maker *m, stk__column_maker *c, int type, int64_t value)
{
    if (m->rows >= SIZE_MAX / 16 || !stk__grow((void **)&c->types, &c->type_capacity, m->rows + 1, 1) ||
        !stk__grow((void **)&c->values, &c->value_capacity, m->rows + 2, sizeof *c->values))
        return false;
    c->types[m->rows] = (uint8_t)type;
    c->values[m->rows] = value;
    if (type != SQLITE_NULL)
        c->seen |= SEEN(type);
    return true;
}

static stk__column_maker *next_cell(stk__table_maker *m)
{
    return m->failed ? NULL : &m->columns[m->at];
}

static void end_cell(stk__table_maker *m, bool good)
{
    if (!good) {
        m->failed = true;
        return;
    }
    if (++m->at == m->count) {
        m->at = 0;
        m->rows++;
    }
}

/* A number as SQLite writes it. */
static bool append_number(stk__column_maker *c, int type, int64_t value)
{
    char text[64];
    if (type == SQLITE_INTEGER) {
        sqlite3_snprintf(sizeof text, text, "%lld", (long long)value);
    } else {
        double x;
        memcpy(&x, &value, sizeof x);
        sqlite3_snprintf(sizeof text, text, "%!.15g", x);
    }
    return append(&c->bytes, &c->size, &c->capacity, text, strlen(text));
}

/* The first text of a column: what came before becomes text too, so that no value is changed on the way. */
static bool write_numbers(stk__column_maker *c, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        const size_t from = c->size;
        if (c->types[i] != SQLITE_NULL && !append_number(c, c->types[i], c->values[i]))
            return false;
        c->values[i] = (int64_t)from;
    }
    return true;
}

void stk__maker_null(stk__table_maker *m)
{
    stk__column_maker *c = next_cell(m);
    if (c)
        end_cell(m, cell(m, c, SQLITE_NULL, c->seen & TEXTS ? (int64_t)c->size : 0));
}

static void put_number(stk__table_maker *m, int type, int64_t value)
{
    stk__column_maker *c = next_cell(m);
    if (!c)
        return;
    if (!(c->seen & TEXTS)) {
        end_cell(m, cell(m, c, type, value));
        return;
    }
    const size_t from = c->size;
    end_cell(m, append_number(c, type, value) && cell(m, c, type, (int64_t)from));
}

void stk__maker_int(stk__table_maker *m, int64_t x)
{
    put_number(m, SQLITE_INTEGER, x);
}

void stk__maker_double(stk__table_maker *m, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_number(m, SQLITE_FLOAT, bits);
}

static void put_bytes(stk__table_maker *m, int type, const char *data, size_t size)
{
    stk__column_maker *c = next_cell(m);
    if (!c)
        return;
    bool good = c->seen & TEXTS || write_numbers(c, m->rows);
    const size_t from = c->size;
    if (good && type == SQLITE_TEXT)
        good = stk__append_utf8(&c->bytes, &c->size, &c->capacity, data, size);
    else if (good)
        good = append(&c->bytes, &c->size, &c->capacity, data, size);
    end_cell(m, good && cell(m, c, type, (int64_t)from));
}

void stk__maker_text(stk__table_maker *m, const char *text, size_t size)
{
    put_bytes(m, SQLITE_TEXT, text, size);
}

void stk__maker_str(stk__table_maker *m, const char *text)
{
    put_bytes(m, SQLITE_TEXT, text, strlen(text));
}

void stk__maker_bytes(stk__table_maker *m, const void *data, size_t size)
{
    put_bytes(m, SQLITE_BLOB, data, size);
}

/* ---- the finish ---- */

static stk_column_kind kind_of(const stk__column_maker *c)
{
    if (c->seen & SEEN(SQLITE_BLOB))
        return STK_KIND_BYTES;
    if (c->seen & SEEN(SQLITE_TEXT))
        return STK_KIND_TEXT;
    if (c->seen & SEEN(SQLITE_FLOAT))
        return STK_KIND_DOUBLE;
    return c->seen ? STK_KIND_INT64 : c->declared;
}

static void widen(stk__column_maker *c, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        if (c->types[i] == SQLITE_INTEGER) {
            const double x = (double)c->values[i];
            memcpy(&c->values[i], &x, sizeof x);
        }
    }
}

/* Gives back what growth took too much; when that fails, it stays as it is. */
static void *shrink(void *p, size_t size)
{
    void *less = p ? stk__realloc(p, size ? size : 1) : NULL;
    return less ? less : p;
}

/* Offsets of 4 bytes where they suffice, in the place of those of 8. */
static stk__layout finish_offsets(stk__column_maker *c, size_t rows)
{
    c->values[rows] = (int64_t)c->size;
    if (c->size > INT32_MAX)
        return STK__LAYOUT_LARGE;
    int32_t *narrow = (int32_t *)c->values;
    for (size_t i = 0; i <= rows; i++)
        narrow[i] = (int32_t)c->values[i];
    return STK__LAYOUT_TEXT;
}

static bool finish_validity(const stk__column_maker *c, size_t rows, stk__table_column *out)
{
    if (!rows || !memchr(c->types, SQLITE_NULL, rows))
        return true;
    uint8_t *bits = stk__calloc(rows / 8 + 1, 1);
    if (!bits)
        return false;
    for (size_t i = 0; i < rows; i++)
        bits[i / 8] |= (uint8_t)((c->types[i] != SQLITE_NULL) << (i % 8));
    out->owned[2] = bits;
    out->validity = bits;
    return true;
}

static bool finish_column(stk__column_maker *c, size_t rows, stk__table_column *out)
{
    out->kind = kind_of(c);
    if (out->kind == STK_KIND_NULL)
        return true;
    if (!finish_validity(c, rows, out) ||
        !stk__grow((void **)&c->values, &c->value_capacity, rows + 2, sizeof *c->values))
        return false;
    if ((c->seen & NUMBERS) == NUMBERS && out->kind == STK_KIND_DOUBLE)
        widen(c, rows);
    if (!rows)
        c->values[0] = 0;
    if (out->kind == STK_KIND_TEXT || out->kind == STK_KIND_BYTES)
        out->layout = finish_offsets(c, rows);
    else
        out->layout = out->kind == STK_KIND_DOUBLE ? STK__LAYOUT_DOUBLE : STK__LAYOUT_INT64;
    out->data = out->owned[0] = shrink(c->values, (rows + 1) * stk__layout_bytes(out->layout));
    out->bytes = out->owned[1] = shrink(c->bytes, c->size);
    c->values = NULL;
    c->bytes = NULL;
    stk__free(c->types);
    c->types = NULL;
    return true;
}

stk_status stk__maker_finish(stk__table_maker *m, stk_table **out, stk_error *err)
{
    const size_t rows = m->rows;
    stk_table *table = m->failed ? NULL : stk__table_new(NULL, m->count);
    bool good = table != NULL;
    for (size_t i = 0; good && i < m->count; i++) {
        table->columns[i].name = m->names[i];
        m->names[i] = NULL;
        good = finish_column(&m->columns[i], rows, &table->columns[i]);
    }
    stk__maker_clear(m);
    if (!good) {
        stk_table_free(table);
        return stk_error_set(err, STK_NOMEM, "out of memory: the result had %zu rows so far", rows);
    }
    table->rows = (int64_t)rows;
    *out = table;
    return STK_OK;
}
