/* Compiler attributes and small macros that every file may use. */
#ifndef STK_BASE_COMPILER_H
#define STK_BASE_COMPILER_H

#include <stoker/error.h>

#define STK_LIKELY(x) __builtin_expect(!!(x), 1)
#define STK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define STK_NOINLINE __attribute__((noinline))
#define STK_UNUSED __attribute__((unused))
#define STK_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define STK_MIN(a, b) ((a) < (b) ? (a) : (b))
#define STK_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Passes a failure on to the caller; END and DROP are passed on as well. */
#define STK_TRY(call)                         \
    do {                                      \
        const stk_status try_status_ = (call); \
        if (STK_UNLIKELY(try_status_ != STK_OK)) \
            return try_status_;               \
    } while (0)

#endif
