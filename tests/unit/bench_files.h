/* What tests of benchmark formats share: writing a result, and looking for a note. */
#ifndef STK_TESTS_BENCH_FILES_H
#define STK_TESTS_BENCH_FILES_H

#include <string.h>

#include "bench/interchange.h"

static inline stk__text write_as(const stk__result *r, const stk__comparisons *c, stk__bench_format format,
                                 stk__text *notes)
{
    stk__text t = STK__TEXT_INIT;
    stk_error err;
    stk_error_clear(&err);
    if (stk__bench_write(r, c, format, &t, notes, &err) != STK_OK)
        fail_msg("%s", err.message);
    return t;
}

static inline bool has_note(const stk__result *r, const char *part)
{
    for (size_t i = 0; i < r->note_count; i++) {
        if (strstr(r->notes[i], part))
            return true;
    }
    return false;
}

#endif
