/*
 * Going on from a checkpoint: exactly at the next sample, or not at all.
 *
 * What decides which samples come is compared: pipeline and data by their fingerprints, ranks, --exact where it changes the plan,
 * and how the run comes by its batches. A counted run can be taken on as a flow, since the ticket of its next sample is
 * arithmetic; a flow stays a flow, since what has fallen out of it can no longer be counted. All is compared before the run
 * changes anything outside, such as the list of bad records.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/checkpoint.h"

#include "base/banned.h"

int64_t stk__mode_of(const stk_pipeline *p)
{
    return p->plan.stream ? STK__MODE_STREAM : p->direct ? STK__MODE_COUNTED : STK__MODE_FLOW;
}

/* Batches, or tickets, of the epochs before this one, where they can be counted and have an end. */
static stk_status epochs_before(const stk_pipeline *p, int64_t epoch, int64_t *out, stk_error *err)
{
    const stk__chain *chain = &p->plan.chain;
    const int64_t each = p->direct ? chain->nodes[chain->count - 1].in : chain->samples;
    const int64_t total = p->direct ? chain->total : p->total_tickets;
    if (each == STK__ENDLESS)
        return stk_error_set(err, STK_INVALID, "the run cannot begin with epoch %" PRId64 ": an epoch has no end",
                             epoch);
    const int64_t before = stk__position_scale(epoch, each, 0);
    if (before >= STK__POSITION_MAX && total == STK__ENDLESS)
        return stk_error_set(err, STK_INVALID, "the run cannot begin with epoch %" PRId64 ": it lies behind batch 2^62",
                             epoch);
    *out = STK_MIN(before, total);
    return STK_OK;
}

stk_status stk__begin_epoch(stk_pipeline *p, int64_t epoch, stk_error *err)
{
    stk__chain *chain = &p->plan.chain;
    if (epoch < 0 || epoch > STK__FIRST_EPOCH_MAX)
        return stk_error_set(err, STK_INVALID, "first_epoch must be in 0..%" PRId64 ", got %" PRId64,
                             STK__FIRST_EPOCH_MAX, epoch);
    p->first_epoch = epoch;
    if (epoch == 0)
        return STK_OK;
    if (!stk__chain_ends_in_repeat(chain)) {
        const bool repeats_last =
            !p->plan.batch && chain->count > 0 && chain->nodes[chain->count - 1].order->kind == STK__ORDER_REPEAT;
        if (repeats_last)
            return stk_error_set(err, STK_INVALID,
                                 "the run cannot begin with epoch %" PRId64
                                 ": samples of several epochs share batches; put a "
                                 "batch before repeat",
                                 epoch);
        chain->outer_epoch = epoch;
        return STK_OK;
    }
    if (p->plan.stream) {
        stk__feeder_begin(p, epoch);
        return STK_OK;
    }
    int64_t start = 0;
    STK_TRY(epochs_before(p, epoch, &start, err));
    if (p->direct)
        p->next_batch = p->place.batches = start;
    else
        p->next_ticket = p->place.ticket = start;
    return STK_OK;
}

/* Goes on with another number of ranks, in the middle of an epoch. */
static stk_status go_on_elastic(stk_pipeline *p, const stk__checkpoint *c, int64_t world, stk_error *err)
{
    const char *why = p->direct ? stk__chain_inelastic(&p->plan.chain)
                                : "a filter, a stream or an --on-error policy makes ranks go at different paces";
    if (why)
        return stk_error_set(err, STK_MISMATCH,
                             "the checkpoint is of a run with %" PRId64 " ranks, this one has %" PRId64
                             ", and the pipeline cannot change that: %s",
                             c->world, world, why);
    const stk__chain_node *shard = &p->plan.chain.nodes[p->plan.chain.shard_at];
    if (c->consumed > shard->in)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint stands behind sample %" PRId64 ", there are %" PRId64,
                             c->consumed, shard->in);
    const bool counts_epochs = stk__chain_ends_in_repeat(&p->plan.chain);
    const int64_t began = c->elastic ? c->elastic_epoch : counts_epochs ? c->first_epoch : 0;
    if (c->elastic_base <= shard->in &&
        stk__chain_out_of_step(&p->plan.chain, c->world, began, c->elastic_base, c->epoch))
        return stk_error_set(err, STK_MISMATCH,
                             "the checkpoint is of a run with %" PRId64
                             " ranks, whose epochs differ in length, so that its "
                             "place is not that of the others; write shard(uneven=pad) or shard(uneven=drop)",
                             c->world);
    const int64_t base = c->elastic && c->epoch == c->elastic_epoch ? c->elastic_base : 0;
    if (stk__chain_evens_out(&p->plan.chain, c->world, base, c->consumed))
        return stk_error_set(
            err, STK_MISMATCH,
            "the checkpoint is of a run with %" PRId64 " ranks, before the last batch of an epoch, where "
            "not all ranks have as many samples; go on with that number of ranks, or from another batch",
            c->world);
    stk__chain_go_on(&p->plan.chain, c->epoch, c->consumed);
    p->next_batch = 0;
    p->index_base = c->batches;
    return STK_OK;
}

/* Goes on with the same number of ranks where batches are counted. */
static stk_status go_on_counted(stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    if (c->elastic) {
        const char *why = stk__chain_inelastic(&p->plan.chain);
        if (why)
            return stk_error_set(err, STK_MISMATCH, "the checkpoint changed the number of ranks, but %s", why);
        const stk__chain_node *shard = &p->plan.chain.nodes[p->plan.chain.shard_at];
        if (c->elastic_base > shard->in)
            return stk_error_set(err, STK_MISMATCH,
                                 "the checkpoint stands behind sample %" PRId64 ", there are %" PRId64, c->elastic_base,
                                 shard->in);
        stk__chain_go_on(&p->plan.chain, c->elastic_epoch, c->elastic_base);
    }
    if (c->position > p->plan.chain.total)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint stands at batch %" PRId64 " of %" PRId64, c->position,
                             p->plan.chain.total);
    p->next_batch = c->position;
    p->index_base = c->batches - c->position;
    return STK_OK;
}

static stk_status go_on_flow(stk_pipeline *p, int64_t ticket, stk_error *err)
{
    p->next_ticket = p->place.ticket = ticket;
    if (p->plan.stream)
        return stk__feeder_skip(p, ticket, err);
    if (ticket > p->total_tickets || ticket >= STK__POSITION_MAX)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint stands at sample %" PRId64 " of %" PRId64, ticket,
                             p->total_tickets);
    return STK_OK;
}

/* The run was counted, and now samples may fall out: the exact next one is found by arithmetic. */
static stk_status go_on_as_flow(stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    const char *why = NULL;
    stk__place *place = &p->place;
    if (c->elastic)
        why = "the run has changed its number of ranks before";
    else if (p->plan.relay_count > 0 || c->position > p->plan.chain.total)
        why = "it does not say where that stands";
    else if (!stk__chain_flow_place(&p->plan.chain, c->position, &place->ticket, &place->round_batches,
                                    place->batch_seen))
        why = "shard behind the batch gives some batches twice, which needs a known number of them";
    if (why)
        return stk_error_set(
            err, STK_MISMATCH,
            "the checkpoint is of a run with --on-error stop, and this one may leave samples out, which "
            "cannot go on from there: %s",
            why);
    return go_on_flow(p, place->ticket, err);
}

/* ---- what is compared ---- */

static stk_status compare_mode(const stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    if ((c->mode == STK__MODE_STREAM) != p->plan.stream)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is of a run over %s, and here they are %s",
                             p->plan.stream ? "samples that could be counted" : "a stream",
                             p->plan.stream ? "a stream" : "counted");
    return STK_OK;
}

static stk_status compare_exact(const stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    const bool exact = p->plan.config.no_approximate;
    const int64_t differ = c->approximations ^ p->plan.approximations;
    if ((c->exact != 0) == exact || !differ)
        return STK_OK;
    return stk_error_set(
        err, STK_MISMATCH, "the checkpoint is of a run %s --exact, this one is %s, and here that changes %s",
        exact ? "without" : "with", exact ? "with it" : "without it",
        differ & STK__APPROXIMATE_SHARD ? "which samples come: without --exact each rank filters its own part"
                                        : "the samples: without --exact JPEGs are decoded at a smaller size");
}

/* Ranks share samples in the same way. */
static stk_status compare_sharing(const stk_pipeline *p, const stk__checkpoint *c, uint64_t shards, stk_error *err)
{
    const int64_t automatic = p->plan.automatic ? (int64_t)p->plan.config.auto_shard : 0;
    if (c->shards != shards)
        return stk_error_set(
            err, STK_MISMATCH,
            "the checkpoint is of another rank, or of another number of ranks, and the pipeline has more "
            "than one shard");
    if (c->world > 1 && c->automatic != automatic)
        return stk_error_set(
            err, STK_MISMATCH,
            "the checkpoint is of a run whose %" PRId64 " ranks shared the samples in another way: "
            "whether ranks do, and whether some samples come twice so that all have as many, must stay",
            c->world);
    return STK_OK;
}

/* After the place in the chain is known: another rank's file will do where it says the same of this one. */
static stk_status compare_rank(stk_pipeline *p, const stk__checkpoint *c, int64_t rank, stk_error *err)
{
    const char *why = NULL;
    if (c->rank == rank)
        return STK_OK;
    if (c->mode != STK__MODE_COUNTED)
        why = "a filter, a stream or an --on-error policy makes ranks go at different paces";
    else if (!stk__chain_same_pace(&p->plan.chain, c->rank, c->position))
        why = "their epochs differ in length; shard(uneven=pad) or shard(uneven=drop) makes them as long";
    if (!why)
        return STK_OK;
    return stk_error_set(err, STK_MISMATCH,
                         "the checkpoint is of rank %" PRId64 ", this is rank %" PRId64
                         ", and its place is not that of the others: %s; each rank must go on from its own",
                         c->rank, rank, why);
}

/* ---- the whole of it ---- */

static void take_over(stk_pipeline *p, const stk__checkpoint *c, bool same_rank)
{
    p->place = (stk__place){.batches = c->batches,
                            .samples = c->samples,
                            .round_batches = c->round_batches,
                            .ticket = c->ticket,
                            .skipped = c->skipped,
                            .quarantined = c->quarantined,
                            .dropped = c->dropped,
                            .lost_bytes = c->lost_bytes,
                            .listed_bytes = c->listed_bytes,
                            .listed_check = c->listed_check};
    memcpy(p->place.relay_seen, c->relay_seen, sizeof c->relay_seen);
    memcpy(p->place.relay_epoch, c->relay_epoch, sizeof c->relay_epoch);
    memcpy(p->place.batch_seen, c->batch_seen, sizeof c->batch_seen);
    p->resumed_digest = c->has_digest != 0 && same_rank; /* another rank's digest is of other batches */
    p->digest_high = c->digest_high;
    p->digest_low = c->digest_low;
}

/* A change that left names, sizes and edges of files as they were; or a copy, or a touch, which are no harm. */
static void tell_stamp(stk_pipeline *p, const stk__checkpoint *c)
{
    if (c->stamp != stk__data_stamp(p, p->plan.segment_count) && p->plan.config.log)
        p->plan.config.log(p->plan.config.log_arg, STK_LOG_WARNING,
                           "files were changed, touched or copied since the checkpoint; names, sizes and samples of their "
                           "contents are the same, so the run goes on");
}

static stk_status go_there(stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    int64_t world, rank;
    uint64_t shards;
    stk__shard_numbers(p, &world, &rank, &shards);
    if (c->data != stk__data_fingerprint(p, p->plan.segment_count))
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is of other data: files, sizes or contents differ");
    tell_stamp(p, c);
    STK_TRY(compare_mode(p, c, err));
    STK_TRY(compare_sharing(p, c, shards, err));
    STK_TRY(compare_exact(p, c, err));
    if (stk__begin_epoch(p, c->first_epoch, err) != STK_OK) {
        if (err)
            err->status = STK_MISMATCH; /* the checkpoint says so, not the caller */
        return STK_MISMATCH;
    }
    take_over(p, c, world == c->world && rank == c->rank);
    if (world != c->world)
        return go_on_elastic(p, c, world, err);
    if (p->direct) {
        STK_TRY(go_on_counted(p, c, err));
        return compare_rank(p, c, rank, err);
    }
    STK_TRY(compare_rank(p, c, rank, err));
    return c->mode == STK__MODE_COUNTED ? go_on_as_flow(p, c, err) : go_on_flow(p, c->ticket, err);
}

/* Names the file in a refusal. */
static stk_status named(const stk_pipeline *p, stk_status status, stk_error *err)
{
    const char *path = p->plan.config.resume_path;
    if (status == STK_MISMATCH && path && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

static stk_status parse(stk_pipeline *p, char *text, size_t size, stk_error *err)
{
    p->resumed = stk__calloc(1, sizeof *p->resumed);
    return p->resumed ? stk__checkpoint_parse(text, size, p->resumed, err) : stk__nomem(sizeof *p->resumed, err);
}

static stk_status read_file(stk_pipeline *p, stk_error *err)
{
    char *text;
    size_t size;
    STK_TRY(stk__read_file(p->plan.config.resume_path, STK__CHECKPOINT_MAX, &text, &size, err));
    const stk_status status = parse(p, text, size, err);
    stk__free(text);
    return status;
}

static stk_status read_state(stk_pipeline *p, stk_error *err)
{
    const char *state = p->plan.config.resume_state;
    const size_t size = strnlen(state, STK__CHECKPOINT_MAX + 1);
    if (size > STK__CHECKPOINT_MAX)
        return stk_error_set(err, STK_MISMATCH, "resume_state has more than %d bytes: it is no state of a run",
                             STK__CHECKPOINT_MAX);
    char *text = stk__strndup(state, size);
    if (!text)
        return stk__nomem(size, err);
    const stk_status status = parse(p, text, size, err);
    stk__free(text);
    return status;
}

stk_status stk__resume_read(stk_pipeline *p, stk_error *err)
{
    STK_TRY(named(p, p->plan.config.resume_path ? read_file(p, err) : read_state(p, err), err));
    const stk__checkpoint *c = p->resumed;
    if (c->pipeline != p->plan.fingerprint)
        return named(p,
                     stk_error_set(err, STK_MISMATCH,
                                   "the checkpoint is of another pipeline: ops, options or seed differ%s",
                                   c->batch_size != p->plan.batching.size ? " (its batch size does)" : ""),
                     err);
    /* Samples have fallen out before, or could have: those that are left cannot be counted whatever the policy is now. */
    if (c->mode == STK__MODE_FLOW)
        p->plan.may_drop = true;
    return STK_OK;
}

stk_status stk__resume_apply(stk_pipeline *p, stk_error *err)
{
    stk_status status = go_there(p, p->resumed, err);
    if (status == STK_OK)
        status = stk__sink_restore(p, p->resumed, err);
    return named(p, status, err);
}
