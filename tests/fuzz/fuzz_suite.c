/* Fuzz target: reads any bytes as a file of benchmarks; what it takes has sound names, commands and ranges. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/suite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static bool is_share(double x, double most)
{
    return isnan(x) || (x >= 0 && x <= most);
}

static void check_options(const stk__suite_options *o)
{
    check(o->rounds >= 0 && o->warmup >= -1 && o->max_rounds >= 0 && o->timeout_ns >= 0);
    check(o->higher_is_better >= -1 && o->higher_is_better <= 1);
    check(is_share(o->width, 10) && is_share(o->min_effect, 10) && is_share(o->margin, 10) && is_share(o->quiet, 1));
    check(o->limits.cpus >= 0 && o->limits.cpus <= 4096);
    check(!o->metric || *o->metric);
}

static void check_entry(const stk__suite *s, const stk__suite_entry *e)
{
    check(e->name && *e->name && e->a && *e->a && (!e->b || *e->b) && e->line >= 1);
    check(!isinf(e->at_least) && !isinf(e->at_most) && !(e->at_least > e->at_most));
    check_options(&e->options);
    const stk__suite_options merged = stk__suite_merge(&s->options, &e->options);
    check_options(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_error err;
    stk__suite s;
    stk_error_clear(&err);
    if (stk__suite_parse((const char *)data, size, "x.toml", &s, &err) != STK_OK) {
        check(err.status == STK_INVALID && err.message[0]);
        return 0;
    }
    check((s.step_count >= 2) != (s.entry_count >= 1));
    check(s.step_count <= STK__SUITE_ENTRIES && s.entry_count <= 2 * STK__SUITE_ENTRIES);
    check_options(&s.options);
    for (size_t i = 0; i < s.step_count; i++) {
        check(s.steps[i].name && *s.steps[i].name && s.steps[i].command && *s.steps[i].command);
        check(s.steps[i].options.rounds == 0 && !s.steps[i].options.metric);
        for (size_t k = 0; k < i; k++)
            check(strcmp(s.steps[k].name, s.steps[i].name) != 0);
    }
    for (size_t i = 0; i < s.entry_count; i++)
        check_entry(&s, &s.entries[i]);
    for (size_t i = 0; i < s.note_count; i++)
        check(s.notes[i] != NULL);
    stk__suite_clear(&s);
    return 0;
}
