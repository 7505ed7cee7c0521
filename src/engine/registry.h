/* The list of ops that pipelines can name. */
#ifndef STK_ENGINE_REGISTRY_H
#define STK_ENGINE_REGISTRY_H

#include <stoker/pipeline.h>

/* NULL-terminated, sorted; generated from the list in src/ops/meson.build. */
extern const stk_op *const stk__builtin_ops[];

/* A registry over another list, which must outlive it; for tests. */
stk_status stk__registry_over(const stk_op *const *ops, stk_registry **out, stk_error *err);

#endif
