/* Small traces for the tests of analyses: made by hand, or at random. */
#ifndef STK_TESTS_TRACE_MODELS_H
#define STK_TESTS_TRACE_MODELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

static inline stk__builder *model_start(void)
{
    stk__builder *b = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made.json", "chrome");
    return b;
}

static inline stk__trace *model_finish(stk__builder *b)
{
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk__builder_finish(b, &t, &err) != STK_OK)
        fail_msg("finish: %s", err.message);
    return t;
}

/* The track of thread `tid` of process `pid`. */
static inline uint32_t model_track(stk__builder *b, int64_t pid, int64_t tid)
{
    return stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, pid, 0), tid, 0));
}

static inline void model_slice(stk__builder *b, uint32_t track, int64_t ts, int64_t dur, const char *name)
{
    stk__builder_slice(b, track, ts, dur, stk__builder_str(b, name), stk__builder_str(b, "op"), -1);
}

/* Numbers that are the same in every run. */
typedef struct model_random {
    uint64_t seed, drawn;
} model_random;

static inline uint64_t model_draw(model_random *r, uint64_t below)
{
    return stk__mix(r->seed, r->drawn++) % below;
}

/* Slices anywhere, so that some overlap and get lanes; a few instants and slices without duration. */
static inline stk__trace *model_random_slices(uint64_t seed, uint64_t count, uint64_t names, uint64_t time)
{
    model_random r = {.seed = seed};
    stk__builder *b = model_start();
    for (uint64_t i = 0; i < count; i++) {
        char name[32], category[32];
        snprintf(name, sizeof name, "name%d", (int)model_draw(&r, names));
        snprintf(category, sizeof category, "cat%d,all", (int)model_draw(&r, 3));
        const uint32_t track = model_track(b, 1 + (int64_t)model_draw(&r, 2), 10 + (int64_t)model_draw(&r, 3));
        const stk__string s = stk__builder_str(b, name), c = stk__builder_str(b, category);
        const int64_t ts = (int64_t)model_draw(&r, time),
                      dur = (int64_t)model_draw(&r, model_draw(&r, 4) ? 20 : time / 4);
        if (model_draw(&r, 10) == 0)
            stk__builder_instant(b, track, ts, s, c);
        else
            stk__builder_slice(b, track, ts, dur, s, c, -1);
    }
    return model_finish(b);
}

#endif
