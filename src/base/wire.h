/* Protobuf wire format: a reader that never passes its end, and a writer on stk__text. */
#ifndef STK_BASE_WIRE_H
#define STK_BASE_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

enum { STK__WIRE_VARINT = 0, STK__WIRE_FIXED64 = 1, STK__WIRE_BYTES = 2, STK__WIRE_FIXED32 = 5 };

/* A window on the bytes of one message. Plain data; reading moves `p`. */
typedef struct stk__wire {
    const uint8_t *p, *end;
} stk__wire;

bool stk__wire_varint_slow(stk__wire *w, uint64_t *out);

/* False on a varint that is cut off or longer than 10 bytes. */
static inline bool stk__wire_varint(stk__wire *w, uint64_t *out)
{
    if (STK_LIKELY(w->p < w->end && *w->p < 0x80)) {
        *out = *w->p++;
        return true;
    }
    return stk__wire_varint_slow(w, out);
}

/* Field number and wire type; false on a cut varint, field number 0 or one past 2^29 - 1. */
static inline bool stk__wire_tag(stk__wire *w, uint32_t *field, uint32_t *type)
{
    uint64_t tag;
    if (!stk__wire_varint(w, &tag) || tag >> 32 || tag < 8)
        return false;
    *field = (uint32_t)tag >> 3;
    *type = (uint32_t)tag & 7;
    return true;
}

/* A length-delimited value as a window; false when its length passes the end. */
static inline bool stk__wire_bytes(stk__wire *w, stk__wire *out)
{
    uint64_t size;
    if (!stk__wire_varint(w, &size) || size > (uint64_t)(w->end - w->p))
        return false;
    out->p = w->p;
    out->end = w->p += size;
    return true;
}

/* Steps over a value of any wire type; groups are refused. */
bool stk__wire_skip(stk__wire *w, uint32_t type);

void stk__wire_put_varint(stk__text *t, uint64_t x);
void stk__wire_put_tag(stk__text *t, uint32_t field, uint32_t type);
void stk__wire_put_uint(stk__text *t, uint32_t field, uint64_t x);
void stk__wire_put_bytes(stk__text *t, uint32_t field, const void *data, size_t size);
/* Bytes that a varint takes. */
size_t stk__wire_varint_size(uint64_t x);

#endif
