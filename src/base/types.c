/* Names and sizes of element types. */
#include <stoker/types.h>

#include "base/compiler.h"

const char *stk_dtype_name(stk_dtype dtype)
{
    static const char *const names[] = {
#define NAME(name, size, text) text,
        STK_DTYPE_LIST(NAME)
#undef NAME
    };
    return (size_t)dtype < STK_COUNT(names) ? names[dtype] : NULL;
}

size_t stk_dtype_size(stk_dtype dtype)
{
    static const unsigned char sizes[] = {
#define SIZE(name, size, text) size,
        STK_DTYPE_LIST(SIZE)
#undef SIZE
    };
    return (size_t)dtype < STK_COUNT(sizes) ? sizes[dtype] : 0;
}
