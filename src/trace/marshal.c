/*
 * Items of Python's marshal format. A type byte with its high bit set makes an item that later ones refer to by number;
 * numbers are given when an item starts, so a container has a lower one than what it holds. Python 2 numbers interned
 * strings by themselves.
 */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "trace/marshal.h"

#include "base/banned.h"

enum { FLAG_REF = 0x80, LONG_SHIFT = 15 };

void stk__marshal_init(stk__marshal *m, const void *data, size_t size)
{
    *m = (stk__marshal){.data = data, .size = size};
}

void stk__marshal_clear(stk__marshal *m)
{
    stk__free(m->refs);
    stk__free(m->interned);
    *m = (stk__marshal){0};
}

uint32_t *stk__marshal_memo(stk__marshal *m, const stk__marshal_item *item)
{
    if (item->ref >= 0)
        return (size_t)item->ref < m->ref_count ? &m->refs[item->ref].memo : NULL;
    const size_t interned = (size_t)(-2 - (int64_t)item->ref);
    return item->ref < STK__MARSHAL_NO_REF && interned < m->interned_count ? &m->interned[interned].memo : NULL;
}

/* `size` bytes from the current place, or NULL when there are fewer. */
static const uint8_t *take(stk__marshal *m, size_t size)
{
    if (size > m->size - m->at)
        return NULL;
    const uint8_t *p = m->data + m->at;
    m->at += size;
    return p;
}

static uint32_t read32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t read64(const uint8_t *p)
{
    return (uint64_t)read32(p) | (uint64_t)read32(p + 4) << 32;
}

/* A length of 1 or 4 bytes; false when it is cut off. Negative ones are past every end. */
static bool take_length(stk__marshal *m, size_t bytes, uint32_t *out)
{
    const uint8_t *p = take(m, bytes);
    if (!p)
        return false;
    *out = bytes == 1 ? *p : read32(p);
    return true;
}

static stk__marshal_kind read_text(stk__marshal *m, size_t length_bytes, stk__marshal_item *item)
{
    if (!take_length(m, length_bytes, &item->size))
        return STK__MARSHAL_CUT;
    item->u.text = (const char *)take(m, item->size);
    return item->u.text ? STK__MARSHAL_TEXT : STK__MARSHAL_CUT;
}

/* Digits of 15 bits, the lowest first; the sign of the length is that of the number. */
static stk__marshal_kind read_long(stk__marshal *m, stk__marshal_item *item)
{
    uint32_t length, value_bits = 0;
    if (!take_length(m, 4, &length))
        return STK__MARSHAL_CUT;
    const bool negative = length >> 31;
    const size_t digits = negative ? 0u - length : length;
    const uint8_t *p = digits <= (m->size - m->at) / 2 ? take(m, digits * 2) : NULL;
    if (!p)
        return STK__MARSHAL_CUT;
    uint64_t value = 0;
    for (size_t i = digits; i-- > 0;) {
        const unsigned digit = p[2 * i] | (unsigned)p[2 * i + 1] << 8;
        if (digit >> LONG_SHIFT)
            return STK__MARSHAL_BAD;
        if (value >> (63 - LONG_SHIFT))
            value_bits = 64;
        value = value << LONG_SHIFT | digit;
    }
    item->inexact = value_bits == 64;
    if (item->inexact)
        value = INT64_MAX;
    item->u.integer = negative ? -(int64_t)value : (int64_t)value;
    return STK__MARSHAL_INT;
}

/* One length byte, then the number as repr() writes it. */
static stk__marshal_kind read_text_float(stk__marshal *m, stk__marshal_item *item)
{
    uint32_t length;
    char copy[256];
    if (!take_length(m, 1, &length))
        return STK__MARSHAL_CUT;
    const uint8_t *p = take(m, length);
    if (!p)
        return STK__MARSHAL_CUT;
    memcpy(copy, p, length);
    copy[length] = '\0';
    char *end;
    item->u.real = stk__strtod(copy, &end);
    return length && *end == '\0' ? STK__MARSHAL_FLOAT : STK__MARSHAL_BAD;
}

static stk__marshal_kind read_float(stk__marshal *m, stk__marshal_item *item)
{
    const uint8_t *p = take(m, 8);
    if (!p)
        return STK__MARSHAL_CUT;
    const uint64_t bits = read64(p);
    memcpy(&item->u.real, &bits, sizeof bits);
    return STK__MARSHAL_FLOAT;
}

static stk__marshal_kind read_int(stk__marshal *m, size_t bytes, stk__marshal_item *item)
{
    const uint8_t *p = take(m, bytes);
    if (!p)
        return STK__MARSHAL_CUT;
    item->u.integer = bytes == 4 ? (int32_t)read32(p) : (int64_t)read64(p);
    return STK__MARSHAL_INT;
}

static stk__marshal_kind read_complex(stk__marshal *m, bool as_text)
{
    stk__marshal_item part;
    for (int i = 0; i < 2; i++) {
        const stk__marshal_kind kind = as_text ? read_text_float(m, &part) : read_float(m, &part);
        if (kind != STK__MARSHAL_FLOAT)
            return kind;
    }
    return STK__MARSHAL_NONE;
}

static stk__marshal_kind read_tuple(stk__marshal *m, size_t length_bytes, stk__marshal_item *item)
{
    if (!take_length(m, length_bytes, &item->size))
        return STK__MARSHAL_CUT;
    /* every item takes a byte, so a larger size can only be cut off or broken */
    return item->size > m->size - m->at ? STK__MARSHAL_CUT : STK__MARSHAL_TUPLE;
}

/* Gives the item that is being read its number. */
static bool reserve(stk__marshal *m, int32_t *out)
{
    if (m->ref_count >= INT32_MAX ||
        !stk__grow((void **)&m->refs, &m->ref_capacity, m->ref_count + 1, sizeof *m->refs)) {
        m->nomem = true;
        return false;
    }
    m->refs[m->ref_count] = (stk__marshal_ref){.item = {.kind = STK__MARSHAL_BAD}};
    *out = (int32_t)m->ref_count++;
    return true;
}

/* Gives the item behind a reference into a table. */
static stk__marshal_kind refer(stk__marshal *m, const stk__marshal_ref *refs, size_t count, stk__marshal_item *item)
{
    uint32_t ref;
    if (!take_length(m, 4, &ref))
        return STK__MARSHAL_CUT;
    if (ref >= count || refs[ref].item.kind == STK__MARSHAL_BAD)
        return STK__MARSHAL_BAD;
    const int64_t offset = item->offset;
    *item = refs[ref].item;
    item->offset = offset;
    item->again = true;
    return item->kind;
}

/* Strings of Python 2 get a number when they are interned; those of Python 3 when the flag says so. */
static stk__marshal_kind read_interned(stk__marshal *m, stk__marshal_item *item, bool flagged)
{
    item->kind = read_text(m, 4, item);
    if (item->kind != STK__MARSHAL_TEXT || flagged)
        return item->kind;
    if (m->interned_count >= INT32_MAX - 2 ||
        !stk__grow((void **)&m->interned, &m->interned_capacity, m->interned_count + 1, sizeof *m->interned)) {
        m->nomem = true;
        return STK__MARSHAL_BAD;
    }
    item->ref = -2 - (int32_t)m->interned_count;
    m->interned[m->interned_count++] = (stk__marshal_ref){.item = *item};
    return item->kind;
}

static stk__marshal_kind read_body(stk__marshal *m, unsigned type, bool flagged, stk__marshal_item *item)
{
    switch (type) {
    case '0':
        return STK__MARSHAL_NULL;
    case 'N':
    case 'T':
    case 'F':
    case 'S':
    case '.':
        return STK__MARSHAL_NONE;
    case 'i':
        return read_int(m, 4, item);
    case 'I':
        return read_int(m, 8, item);
    case 'l':
        return read_long(m, item);
    case 'f':
        return read_text_float(m, item);
    case 'g':
        return read_float(m, item);
    case 'x':
        return read_complex(m, true);
    case 'y':
        return read_complex(m, false);
    case 's':
    case 'u':
    case 'a':
    case 'A':
        return read_text(m, 4, item);
    case 'z':
    case 'Z':
        return read_text(m, 1, item);
    case 't':
        return read_interned(m, item, flagged);
    case 'R':
        return refer(m, m->interned, m->interned_count, item);
    case 'r':
        return refer(m, m->refs, m->ref_count, item);
    case ')':
        return read_tuple(m, 1, item);
    case '(':
    case '[':
    case '<':
    case '>':
        return read_tuple(m, 4, item);
    case ':': /* slice */
        item->size = 3;
        return STK__MARSHAL_TUPLE;
    case '{':
        return STK__MARSHAL_DICT;
    default:
        return STK__MARSHAL_BAD;
    }
}

stk__marshal_item stk__marshal_next(stk__marshal *m)
{
    stk__marshal_item item = {.ref = STK__MARSHAL_NO_REF, .offset = (int64_t)m->at};
    const size_t start = m->at;
    const uint8_t *type = m->nomem ? NULL : take(m, 1);
    const bool flagged = type && (*type & FLAG_REF) && !strchr("0NTFS.rR", *type & 0x7f);
    if (flagged && !reserve(m, &item.ref))
        item.kind = STK__MARSHAL_BAD;
    else
        item.kind = type ? read_body(m, *type & 0x7fu, flagged, &item) : m->nomem ? STK__MARSHAL_BAD : STK__MARSHAL_CUT;
    if (item.kind == STK__MARSHAL_CUT || item.kind == STK__MARSHAL_BAD)
        m->at = start;
    else if (item.ref >= 0 && !item.again)
        m->refs[item.ref].item = item;
    return item;
}

/* Steps over one container; what it holds is counted down on a stack of fixed depth. */
bool stk__marshal_skip(stk__marshal *m, const stk__marshal_item *item)
{
    enum { UNTIL_NULL = -1 };
    int64_t left[STK__MARSHAL_DEPTH];
    size_t depth = 0;
    if ((item->kind != STK__MARSHAL_TUPLE && item->kind != STK__MARSHAL_DICT) || item->again)
        return true;
    left[depth++] = item->kind == STK__MARSHAL_DICT ? UNTIL_NULL : (int64_t)item->size;
    while (depth > 0) {
        if (left[depth - 1] == 0) {
            depth--;
            continue;
        }
        const stk__marshal_item inner = stk__marshal_next(m);
        if (inner.kind == STK__MARSHAL_CUT || inner.kind == STK__MARSHAL_BAD)
            return false;
        if (left[depth - 1] > 0)
            left[depth - 1]--;
        else if (inner.kind == STK__MARSHAL_NULL)
            left[depth - 1] = 0;
        if (inner.again || (inner.kind != STK__MARSHAL_TUPLE && inner.kind != STK__MARSHAL_DICT))
            continue;
        if (depth == STK__MARSHAL_DEPTH)
            return false;
        left[depth++] = inner.kind == STK__MARSHAL_DICT ? UNTIL_NULL : (int64_t)inner.size;
    }
    return true;
}
