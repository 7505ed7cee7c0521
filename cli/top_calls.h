/* stoker top --callers and --callees. */
#ifndef STK_CLI_TOP_CALLS_H
#define STK_CLI_TOP_CALLS_H

#include "workbench.h"

/* Puts the edges to (or with `callees` from) what is like one of the names and selected; returns an exit code. */
int cli_top_calls(const stk__trace *t, const stk__selection *select, const cli_list *like, bool callees, int64_t limit,
                  cli_format format);

#endif
