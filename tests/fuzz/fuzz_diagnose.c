/* Fuzz target: any Chrome JSON is diagnosed, with and without words of the user, and what comes of it is written out. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyze/diagnose_impl.h"
#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void ask(const stk__trace *t, const stk__diagnose_options *options)
{
    stk__diagnosis *d = NULL;
    stk__text text = STK__TEXT_INIT;
    if (stk__diagnose(t, options, &d, NULL) != STK_OK)
        return;
    double all = 0;
    for (int type = 0; type < STK__EVENT_TYPES; type++) {
        check(d->type_ns[type] >= 0);
        all += d->type_ns[type];
    }
    check(fabs(all - d->step_ns) <= 1e-6 * d->step_ns + 1);
    check(d->input_percent >= 0 && d->input_percent <= 100.001);
    check(d->open_percent >= 0 && d->input_percent + d->open_percent <= 100.001);
    check(d->verdict != STK__VERDICT_NOT || d->input_percent + d->open_percent < STK__MODERATELY_PERCENT);
    stk__diagnosis_text(d, &text);
    stk__diagnosis_json(d, &text);
    stk__text_clear(&text);
    stk__diagnosis_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const waits[] = {"*l*"}, *const steps[] = {"*s*"};
    const stk__diagnose_options told = {.told = {.waits = waits, .wait_count = 1, .steps = steps, .step_count = 1}};
    const stk__diagnose_options second = {.one_rank = true, .rank = 1};
    stk__input *in;
    stk__builder *b;
    stk__trace *t;
    if (stk__input_open_memory(data, size, &in, NULL) != STK_OK)
        return 0;
    if (stk__builder_new(NULL, &b, NULL) == STK_OK) {
        if (stk__trace_read(b, in, "chrome", NULL) != STK_OK) {
            stk__builder_free(b);
        } else if (stk__builder_finish(b, &t, NULL) == STK_OK) {
            ask(t, NULL);
            ask(t, &told);
            ask(t, &second);
            stk__trace_free(t);
        }
    }
    stk__input_close(in);
    return 0;
}
