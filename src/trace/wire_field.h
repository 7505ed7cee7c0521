/* Walks the fields of a protobuf message one by one; for readers that look at most of them. */
#ifndef STK_TRACE_WIRE_FIELD_H
#define STK_TRACE_WIRE_FIELD_H

#include "base/wire.h"

typedef struct stk__field {
    stk__wire in; /* what is left of the message */
    uint32_t number, type;
    uint64_t value;  /* varints and fixed numbers */
    stk__wire bytes; /* length-delimited ones */
    bool bad;        /* the message is damaged here; next() has returned false */
} stk__field;

static inline stk__field stk__fields(stk__wire message)
{
    return (stk__field){.in = message};
}

static inline uint64_t stk__little_endian(const uint8_t *p, unsigned bytes)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

/* The next field; false at the end of the message and where it is damaged. */
static inline bool stk__field_next(stk__field *f)
{
    if (f->in.p >= f->in.end)
        return false;
    bool good = stk__wire_tag(&f->in, &f->number, &f->type);
    if (good && f->type == STK__WIRE_VARINT) {
        good = stk__wire_varint(&f->in, &f->value);
    } else if (good && f->type == STK__WIRE_BYTES) {
        good = stk__wire_bytes(&f->in, &f->bytes);
    } else if (good && (f->type == STK__WIRE_FIXED64 || f->type == STK__WIRE_FIXED32)) {
        const unsigned size = f->type == STK__WIRE_FIXED64 ? 8 : 4;
        good = (size_t)(f->in.end - f->in.p) >= size;
        if (good) {
            f->value = stk__little_endian(f->in.p, size);
            f->in.p += size;
        }
    } else {
        good = false;
    }
    f->bad = !good;
    return good;
}

/* The next number of a repeated field that may be packed: `rest` starts as the field's bytes. */
static inline bool stk__packed_varint(stk__wire *rest, uint64_t *out)
{
    return rest->p < rest->end && stk__wire_varint(rest, out);
}

static inline bool stk__packed_fixed64(stk__wire *rest, uint64_t *out)
{
    if (rest->end - rest->p < 8)
        return false;
    *out = stk__little_endian(rest->p, 8);
    rest->p += 8;
    return true;
}

static inline double stk__field_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline size_t stk__wire_size(stk__wire w)
{
    return (size_t)(w.end - w.p);
}

static inline bool stk__wire_is(stk__wire w, const char *text)
{
    const size_t size = strlen(text);
    return stk__wire_size(w) == size && memcmp(w.p, text, size) == 0;
}

#endif
