/* What the parts that tell a diagnosis in words share. */
#ifndef STK_ANALYZE_DIAGNOSE_WORDS_H
#define STK_ANALYZE_DIAGNOSE_WORDS_H

#include "analyze/diagnose_impl.h"
#include "base/compiler.h"

/* One sentence under way; what does not fit is cut. */
typedef struct stk__words {
    stk__text text;
    char bytes[600];
} stk__words;

stk__text *stk__sentence(stk__words *s);
/* Text from the trace, with control bytes escaped and cut to a length that a line can hold. */
void stk__put_cut(stk__text *t, const char *label, size_t size);
void stk__put_name(const stk__diagnosis *d, stk__text *t, stk__string name);
void stk__put_row(const stk__diagnosis *d, stk__text *t, const stk__stage_row *row);
/* "get_batch (nano.py:6)"; of a C function its name, without the address that tracers write. */
void stk__put_function(const stk__diagnosis *d, stk__text *t, const stk__place *at);
/* False: out of memory. */
bool stk__add_evidence(stk__diagnosis *d, const stk__words *s);
bool stk__add_advice(stk__diagnosis *d, const char *format, ...) STK_PRINTF(2, 3);

/* In the name of PyTorch's iterator without workers. */
#define STK__SINGLE_PROCESS "_SingleProcess"

/* diagnose_evidence.c: what was seen, with a verdict and where most of the time may be input or not. */
bool stk__tell(stk__diagnosis *d);
bool stk__tell_open(stk__diagnosis *d);
/* Whose trace it is. */
bool stk__tell_trace(stk__diagnosis *d);

/* diagnose_unknown.c: why there is no verdict, and what would give one. */
bool stk__explain_open(stk__diagnosis *d);
bool stk__explain_unknown(stk__diagnosis *d, const stk__classifier *c);

#endif
