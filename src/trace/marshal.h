/* Python's marshal format, versions 0 to 5, as a stream of items in memory. Nothing is trusted, nothing recurses. */
#ifndef STK_TRACE_MARSHAL_H
#define STK_TRACE_MARSHAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef enum stk__marshal_kind {
    STK__MARSHAL_CUT,  /* the bytes end inside of an item */
    STK__MARSHAL_BAD,  /* a type that cannot be read or stepped over, or a reference to nothing: the rest is lost */
    STK__MARSHAL_NULL, /* ends a dict */
    STK__MARSHAL_NONE, /* also False, True, Ellipsis and complex numbers: nothing that a profile has */
    STK__MARSHAL_INT,
    STK__MARSHAL_FLOAT,
    STK__MARSHAL_TEXT,
    STK__MARSHAL_TUPLE, /* also lists, sets and slices: `size` items follow */
    STK__MARSHAL_DICT,  /* keys and values follow, then NULL */
} stk__marshal_kind;

enum { STK__MARSHAL_NO_REF = -1, STK__MARSHAL_DEPTH = 256 };

typedef struct stk__marshal_item {
    stk__marshal_kind kind;
    bool again;   /* seen before and referred to: of containers nothing follows */
    bool inexact; /* INT past 64 bits: the nearest one */
    int32_t ref;  /* its number among the items that can be referred to, from -2 down among interned ones; or NO_REF */
    uint32_t size;
    int64_t offset;
    union {
        int64_t integer;
        double real;
        const char *text; /* size bytes, in the data; UTF-8 as Python 3 writes it, any bytes from Python 2 */
    } u;
} stk__marshal_item;

typedef struct stk__marshal_ref {
    stk__marshal_item item;
    uint32_t memo; /* the caller's, 0 at first: what it made of the item */
} stk__marshal_ref;

typedef struct stk__marshal {
    const uint8_t *data;
    size_t size, at;
    stk__marshal_ref *refs; /* flagged items, by number */
    size_t ref_count, ref_capacity;
    stk__marshal_ref *interned; /* Python 2: interned strings, which have numbers of their own */
    size_t interned_count, interned_capacity;
    bool nomem; /* memory ran out; items are BAD from then on */
} stk__marshal;

/* The data must outlive the reader. */
void stk__marshal_init(stk__marshal *m, const void *data, size_t size);
void stk__marshal_clear(stk__marshal *m);

/* After CUT and BAD it gives the same again. */
stk__marshal_item stk__marshal_next(stk__marshal *m);
/* Steps over what follows a container; false when the bytes end or are bad inside, or nest deeper than the limit. */
bool stk__marshal_skip(stk__marshal *m, const stk__marshal_item *item);
/* Place for the caller's memory of an item; NULL when nothing can refer to it. */
uint32_t *stk__marshal_memo(stk__marshal *m, const stk__marshal_item *item);

#endif
