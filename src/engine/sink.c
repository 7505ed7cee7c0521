/* Sinks and checkpoints: which sinks can go on after a stop, and what a checkpoint keeps of them. */
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint.h"

#include "base/banned.h"

static stk_status at_sink(const stk_pipeline *p, stk_status status, stk_error *err)
{
    if (status != STK_OK && err && !err->op[0])
        snprintf(err->op, sizeof err->op, "%s", p->plan.sink->op->name);
    return status;
}

/* What has a finish publishes something, which must be whole. */
static bool publishes(const stk_pipeline *p)
{
    return p->plan.sink && p->plan.sink->op->finish;
}

bool stk_pipeline_keeps_output(const stk_pipeline *p)
{
    return publishes(p) && p->plan.sink->op->save && p->plan.config.checkpoints;
}

stk_status stk__sink_check(const stk_pipeline *p, stk_error *err)
{
    const bool wanted = p->plan.config.checkpoints || stk__resumes(p);
    if (!wanted || !publishes(p) || p->plan.sink->op->save)
        return STK_OK;
    stk_error_set(
        err, STK_INVALID,
        "cannot go on with its output after a stop, so that a run with it takes no checkpoints; leave out --checkpoint and "
        "--resume, or convert to write_tfrecord or write_webdataset first");
    return at_sink(p, STK_INVALID, err);
}

stk_status stk__sink_save(const stk_pipeline *p, int64_t samples, char out[STK__SINK_TEXT], stk_error *err)
{
    out[0] = 0;
    if (!publishes(p))
        return STK_OK;
    const stk__step *sink = p->plan.sink;
    if (atomic_load(&p->stop_asked))
        return stk_error_set(err, STK_CANCELLED, "the run was stopped, and its sink with it");
    if (!sink->op->save || !p->plan.config.checkpoints)
        return at_sink(p,
                       stk_error_set(err, STK_INVALID,
                                     "what it wrote would be lost to a run that goes on from this checkpoint; set "
                                     "config.checkpoints before the run, with a sink that can go on"),
                       err);
    if (p->start.samples + p->sunk != samples)
        return at_sink(p,
                       stk_error_set(err, STK_INVALID,
                                     "got %lld of the %lld samples that were handed over; consume each batch before "
                                     "a checkpoint",
                                     (long long)(p->start.samples + p->sunk), (long long)samples),
                       err);
    return at_sink(p, sink->op->save(&sink->call, out, STK__SINK_TEXT, err), err);
}

stk_status stk__sink_restore(const stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    if (!publishes(p))
        return STK_OK;
    stk_status status = STK_OK;
    int64_t world, rank;
    uint64_t shards;
    stk__shard_numbers(p, &world, &rank, &shards);
    if (!c->sink[0])
        status = stk_error_set(err, STK_MISMATCH,
                               "the checkpoint is of a run that wrote no such output: its first %lld samples would "
                               "be missing",
                               (long long)c->samples);
    else if (world != c->world || rank != c->rank)
        status = stk_error_set(
            err, STK_MISMATCH,
            "a run that writes files goes on as the rank, of as many, that it was; the checkpoint is of rank "
            "%lld of %lld, this is %lld of %lld",
            (long long)c->rank, (long long)c->world, (long long)rank, (long long)world);
    else
        status = p->plan.sink->op->restore(&p->plan.sink->call, c->sink, err);
    return at_sink(p, status, err);
}
