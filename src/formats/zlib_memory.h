/* Lets zlib take its memory from the counted allocator. */
#ifndef STK_FORMATS_ZLIB_MEMORY_H
#define STK_FORMATS_ZLIB_MEMORY_H

#include "base/mem.h"

static inline void *stk__zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    return stk__calloc(count, size);
}

static inline void stk__zlib_free(void *opaque, void *p)
{
    stk__free(p);
}

#endif
