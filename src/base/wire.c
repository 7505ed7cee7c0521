/* The slow paths of the wire reader, and the writer. */
#include "base/wire.h"

bool stk__wire_varint_slow(stk__wire *w, uint64_t *out)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->p >= w->end)
            return false;
        const uint8_t byte = *w->p++;
        if (shift == 63 && byte > 1)
            return false;
        x |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = x;
            return true;
        }
    }
    return false;
}

bool stk__wire_skip(stk__wire *w, uint32_t type)
{
    uint64_t x;
    stk__wire sub;
    size_t size;
    switch (type) {
    case STK__WIRE_VARINT:
        return stk__wire_varint(w, &x);
    case STK__WIRE_BYTES:
        return stk__wire_bytes(w, &sub);
    case STK__WIRE_FIXED64:
        size = 8;
        break;
    case STK__WIRE_FIXED32:
        size = 4;
        break;
    default:
        return false;
    }
    if ((size_t)(w->end - w->p) < size)
        return false;
    w->p += size;
    return true;
}

size_t stk__wire_varint_size(uint64_t x)
{
    size_t n = 1;
    for (; x >= 0x80; x >>= 7)
        n++;
    return n;
}

void stk__wire_put_varint(stk__text *t, uint64_t x)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; x >= 0x80; x >>= 7)
        bytes[n++] = (uint8_t)(x | 0x80);
    bytes[n++] = (uint8_t)x;
    stk__text_write(t, bytes, n);
}

void stk__wire_put_tag(stk__text *t, uint32_t field, uint32_t type)
{
    stk__wire_put_varint(t, (uint64_t)field << 3 | type);
}

void stk__wire_put_uint(stk__text *t, uint32_t field, uint64_t x)
{
    stk__wire_put_tag(t, field, STK__WIRE_VARINT);
    stk__wire_put_varint(t, x);
}

void stk__wire_put_bytes(stk__text *t, uint32_t field, const void *data, size_t size)
{
    stk__wire_put_tag(t, field, STK__WIRE_BYTES);
    stk__wire_put_varint(t, size);
    stk__text_write(t, data, size);
}
