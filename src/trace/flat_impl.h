/* What the two files of rows share. */
#ifndef STK_TRACE_FLAT_IMPL_H
#define STK_TRACE_FLAT_IMPL_H

#include "trace/labels.h"
#include "trace/flat.h"

struct stk__flat {
    const stk__trace *t;
    stk__labels tracks, frames;
    stk__text scratch; /* of CSV: a value before its quotes */
};

#endif
