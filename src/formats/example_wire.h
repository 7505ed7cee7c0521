/* What the readers of Examples share: a walker over messages with exact errors, short cuts for the usual encoding. */
#ifndef STK_FORMATS_EXAMPLE_WIRE_H
#define STK_FORMATS_EXAMPLE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/wire.h"
#include "formats/example.h"

/* The usual path is one loop without calls; gcc needs to be told. */
#define STK__EXAMPLE_FAST static inline __attribute__((always_inline))

/*
 * How the bytes lie, as every writer known to us emits them (the short cuts take exactly this form):
 *
 *   0A len  Features                     Example.features
 *     0A len  entry                      once per feature
 *       0A len  key
 *       12 len  Feature
 *         0A|12|1A len  list             bytes_list, float_list, int64_list
 *           0A len  values               packed numbers, or one bytes value, repeated
 *
 * Any other valid form (unknown fields, other order, unpacked or split lists) goes through stk__example_next_field.
 */

/* A message of which all known fields are length-delimited, or of the one other wire type `scalar`. */
typedef struct stk__example_message {
    const char *name;
    uint32_t known; /* fields 1..known */
    uint32_t scalar;
    const char *fields[3];
} stk__example_message;

/* The bytes that positions in messages refer to. */
typedef struct stk__example_place {
    const uint8_t *begin, *end;
    const char *name; /* "record" */
    stk_error *err;
} stk__example_place;

typedef struct stk__example_field {
    uint32_t number;
    stk__wire value;
} stk__example_field;

static inline long long stk__example_byte_of(const stk__example_place *at, const uint8_t *p)
{
    return (long long)(p - at->begin);
}

/*
 * The next known field of a message; END after the last. Unknown ones are stepped over. A packed value and a lone one
 * (wire type `scalar`) both come as the window of their bytes, so that the caller need not tell them apart.
 */
stk_status stk__example_next_field(const stk__example_place *at, stk__wire *w, const stk__example_message *m,
                                   stk__example_field *out);
/* Adds what a Feature holds to *list and *kind: of the oneof the last kind counts. */
stk_status stk__example_merge_feature(const stk__example_place *at, stk__wire w, stk__wire *list,
                                      stk__feature_kind *kind);
/* Reads a length of any size; returns what follows it, or NULL. */
const uint8_t *stk__example_long_length(const uint8_t *p, const uint8_t *end, size_t *out);

/* Reads a length at *p of at most two bytes and moves *p behind it; SIZE_MAX for anything else. */
STK__EXAMPLE_FAST size_t stk__example_short_length(const uint8_t **p, const uint8_t *end)
{
    const uint8_t *q = *p;
    if (STK_LIKELY(end - q >= 2)) {
        if (q[0] < 0x80) {
            *p = q + 1;
            return q[0];
        }
        if (q[1] < 0x80) {
            *p = q + 2;
            return (size_t)(q[0] & 0x7f) | (size_t)q[1] << 7;
        }
    } else if (q < end && q[0] < 0x80) {
        *p = q + 1;
        return q[0];
    }
    return SIZE_MAX;
}

/* Reads any length and moves *p behind it; false when it is bad or passes `end`. */
STK__EXAMPLE_FAST bool stk__example_any_length(const uint8_t **p, const uint8_t *end, size_t *out)
{
    size_t size = stk__example_short_length(p, end);
    if (STK_UNLIKELY(size == SIZE_MAX)) {
        size_t wide;
        *p = stk__example_long_length(*p, end, &wide);
        if (!*p)
            return false;
        size = wide;
    }
    *out = size;
    return size <= (size_t)(end - *p);
}

/* Reads a field with this one-byte tag that fills [*p, end) exactly, and moves *p to its value. */
STK__EXAMPLE_FAST bool stk__example_whole_field(const uint8_t **p, const uint8_t *end, uint8_t tag)
{
    const uint8_t *q = *p;
    const size_t left = (size_t)(end - q);
    if (left < 2 || q[0] != tag)
        return false;
    /* The end is known, so a length need not be decoded, only compared with the one that fits. */
    if (q[1] == left - 2 && left < 0x80 + 2) {
        *p = q + 2;
        return true;
    }
    size_t size;
    q++;
    if (!stk__example_any_length(&q, end, &size) || size != (size_t)(end - q))
        return false;
    *p = q;
    return true;
}

/* The list of a Feature that holds one list and nothing else, or nothing at all. */
STK__EXAMPLE_FAST bool stk__example_feature_fast(const uint8_t *p, const uint8_t *end, stk__wire *list,
                                                 stk__feature_kind *kind)
{
    if (STK_UNLIKELY(p == end)) {
        *kind = STK__FEATURE_NONE;
    } else {
        const uint8_t tag = *p;
        if ((tag != 0x0a && tag != 0x12 && tag != 0x1a) || !stk__example_whole_field(&p, end, tag))
            return false;
        *kind = (stk__feature_kind)(tag >> 3);
    }
    *list = (stk__wire){p, end};
    return true;
}

static inline uint64_t stk__example_load_64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static inline uint32_t stk__example_load_32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    return x;
}

/* Up to 8 bytes as one number, the first byte lowest; never reads past them. Loads overlap, with equal bits there. */
STK__EXAMPLE_FAST uint64_t stk__example_load_few(const uint8_t *p, size_t n)
{
    if (n >= 4)
        return stk__example_load_32(p) | (uint64_t)stk__example_load_32(p + n - 4) << (8 * (n - 4));
    if (n == 0)
        return 0;
    return p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

#endif
