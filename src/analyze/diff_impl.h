/* What the files of diff share: one numbering for the names of two traces. */
#ifndef STK_ANALYZE_DIFF_IMPL_H
#define STK_ANALYZE_DIFF_IMPL_H

#include "analyze/diff.h"

/* Texts, each with one number; texts lie behind each other in `bytes`, with a NUL after each. */
typedef struct stk__diff_keys {
    char *bytes;
    size_t used, bytes_capacity;
    size_t *offset; /* count + 1 */
    size_t count, offset_capacity;
    uint32_t *slots; /* number + 1; 0: free */
    size_t slot_count;
    bool failed;
} stk__diff_keys;

/* STK__NONE when memory is out, which is also kept in `failed`. */
uint32_t stk__diff_key(stk__diff_keys *keys, const char *text, size_t size);
const char *stk__diff_key_text(const stk__diff_keys *keys, uint32_t key, size_t *out_size);
void stk__diff_keys_clear(stk__diff_keys *keys);

/* Length of a name without the digits at its end, where these only count: after '#', or after the step marker. Else 0. */
size_t stk__diff_stem(const char *marker, const char *name, size_t size);
/* A name whose end only counts ("ProfilerStep#12", or a step marker and its number) as "ProfilerStep#*". */
uint32_t stk__diff_name_key(stk__diff_keys *keys, const char *marker, const char *name, size_t size);

/* The steps of one trace, and for each file from when to when they run. */
typedef struct stk__diff_steps {
    stk__steps steps;
    int64_t *from, *to; /* by file */
    double per;         /* number of steps to divide by; 0: none that count */
} stk__diff_steps;

/* Fills d->stacks. */
stk_status stk__diff_stacks(stk__diff *d, const stk__trace *before, const stk__trace *after,
                            const stk__diff_steps steps[2], stk_error *err);

static inline int64_t stk__saturating_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline int64_t stk__saturating_sub(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}

#endif
