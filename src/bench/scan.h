/* The values of a parameter, as a command line writes them: lists, ranges, both. */
#ifndef STK_BENCH_SCAN_H
#define STK_BENCH_SCAN_H

#include "base/str.h"

enum { STK__SCAN_MOST = 1000 };

typedef struct stk__scan {
    char **values;
    size_t count, capacity;
    size_t
        doubtful; /* 1 + the index of a value such as "1:3", which is one text though it looks like a range; 0: none */
} stk__scan;

/*
 * "1,2,4"; "1..3" is 1, 2, 3; "1..10..3" and "1:10:3" go in steps, as does "0.1:0.5:0.1", exactly; "3..1" goes down; "08..10"
 * keeps its zeros. The end is included where a step meets it. "''" is the empty text, "\," a comma, "\1..3" the text
 * "1..3". INVALID: no value or an empty one, a value that is there twice, a range that is none; LIMIT: too many values.
 */
stk_status stk__scan_read(const char *text, stk__scan *out, stk_error *err);
void stk__scan_clear(stk__scan *s);

#endif
