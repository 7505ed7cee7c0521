/* Whose trace it is, on which devices, and what to tell its users: each framework has its own way to mark things. */
#include <string.h>

#include "analyze/diagnose_impl.h"

#include "base/banned.h"

/* Whose trace it is, by names that only one of them writes. */
stk__framework stk__framework_of(const stk__trace *t)
{
    static const struct {
        const char *prefix;
        stk__framework is;
    } signs[] = {{"aten::", STK__TORCH},          {"ProfilerStep#", STK__TORCH},
                 {"PjitFunction(", STK__JAX},     {"IteratorGetNext", STK__TENSORFLOW},
                 {"Iterator::", STK__TENSORFLOW}, {"TFE_Py_", STK__TENSORFLOW}};
    stk__framework found = STK__NO_FRAMEWORK;
    for (uint32_t s = 0; s < t->string_count; s++) {
        const char *text = stk__trace_str(t, s);
        for (size_t i = 0; i < STK_COUNT(signs); i++)
            if (text[0] == signs[i].prefix[0] && strncmp(text, signs[i].prefix, strlen(signs[i].prefix)) == 0) {
                if (signs[i].is != STK__TENSORFLOW)
                    return signs[i].is;
                found = signs[i].is; /* programs of JAX may read by tf.data */
            }
    }
    return found;
}

const char *stk__how_to_mark(const stk__trace *t)
{
    const stk__framework is = stk__framework_of(t);
    for (size_t i = 0; i < t->file_count; i++)
        if (strcmp(stk__trace_str(t, t->files[i].format), "nsys") == 0)
            return "mark the steps with ranges of NVTX: torch.cuda.nvtx.range_push(f\"step {n}\") and range_pop(), the "
                   "fetch inside";
    switch (is) {
    case STK__TORCH:
        return "mark the steps: prof.step() at the end of each, with torch.profiler.profile(schedule=...)";
    case STK__TENSORFLOW:
        return "mark the steps: with tf.profiler.experimental.Trace('train', step_num=n, _r=1) around the fetch and "
               "the step";
    case STK__JAX:
        return "mark the steps: with jax.profiler.StepTraceAnnotation('train', step_num=n) around the fetch and the "
               "step";
    default:
        return "mark the steps: prof.step() with torch.profiler, tf.profiler.experimental.Trace('train', step_num=n, "
               "_r=1), jax.profiler.StepTraceAnnotation('train', step_num=n), or stk_step(recorder, n)";
    }
}

const char *stk__how_to_show_waits(stk__framework is, bool has_stacks)
{
    switch (is) {
    case STK__TORCH:
        return has_stacks ? "put what fetches a batch into with torch.profiler.record_function(\"data\")"
                          : "put what fetches a batch into with torch.profiler.record_function(\"data\"), or record "
                            "Python's functions: torch.profiler.profile(with_stack=True)";
    case STK__TENSORFLOW:
        return has_stacks ? "put what fetches a batch into with tf.profiler.experimental.Trace(\"data\")"
                          : "put what fetches a batch into with tf.profiler.experimental.Trace(\"data\"), or record "
                            "Python's functions: ProfilerOptions(python_tracer_level=1)";
    case STK__JAX:
        return "put what fetches a batch into with jax.profiler.TraceAnnotation(\"data\")";
    default:
        return "give what fetches a batch a span of its own, called \"data\"";
    }
}

const char *stk__framework_name(stk__framework is)
{
    static const char *const names[] = {NULL, "PyTorch", "TensorFlow", "JAX"};
    return names[is];
}

/* ---- devices ---- */

/* "deviceProperties.0.name" of Kineto, "gpu.0.name" of Nsight Systems. */
static bool names_device(const char *key)
{
    const size_t size = strlen(key);
    const bool name = size > 5 && strcmp(key + size - 5, ".name") == 0;
    return name && (strncmp(key, "deviceProperties.", 17) == 0 || strncmp(key, "gpu.", 4) == 0);
}

size_t stk__device_names(const stk__trace *t, stk__string *out)
{
    size_t count = 0;
    for (size_t i = 0; i < t->fact_count && count < STK__DEVICES; i++) {
        bool known = !t->facts[i].value || !names_device(stk__trace_str(t, t->facts[i].key));
        for (size_t k = 0; !known && k < count; k++)
            known = out[k] == t->facts[i].value;
        if (!known)
            out[count++] = t->facts[i].value;
    }
    return count;
}
