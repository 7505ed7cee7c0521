/* The one file that sees both the engine and the list of ops. */
#include <stoker/stoker.h>

#include "engine/registry.h"

stk_status stk_registry_new(stk_registry **out, stk_error *err)
{
    stk_error_clear(err);
    return stk__registry_over(stk__builtin_ops, out, err);
}

const char *stk_version(void)
{
    return STK_VERSION;
}
