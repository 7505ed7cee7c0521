/* From parts to batches, in order, where samples can fall out: filters, bad records, takes behind filters, streams. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/run.h"

static stk__part *front_part(const stk_pipeline *p)
{
    return p->queue_count ? p->queue[p->queue_head] : NULL;
}

static bool supply_over_locked(const stk_pipeline *p)
{
    return p->queue_count == 0 && !p->feeding && (p->supply_ended || p->next_ticket >= p->total_tickets);
}

bool stk__can_assemble_locked(const stk_pipeline *p)
{
    if (p->assembling || p->ended || p->failed)
        return false;
    const stk__part *part = front_part(p);
    if (part && !part->ready)
        return false;
    if (!part)
        return supply_over_locked(p);
    /* Room in the line for a full batch, and a slab to fill. */
    return p->flight_count < stk__ahead_locked(p) && (p->filling || stk__slab_room_locked(p));
}

/* Whether relay k lets this row pass. A relay that has had its fill ends the run, unless a repeat starts it anew. */
static bool relay_passes(stk_pipeline *p, int k, int64_t epoch, bool *out_end)
{
    const stk__relay *relay = &p->plan.relays[k];
    stk__place *place = &p->place;
    if (place->relay_epoch[k] != epoch) {
        place->relay_epoch[k] = epoch;
        place->relay_seen[k] = 0;
    }
    const stk__pass pass = relay->step->op->order->pass(relay->step->state, place->relay_seen[k]);
    place->relay_seen[k]++;
    bool repeats = false;
    for (int i = relay->chain_at; i < p->plan.chain.count; i++)
        repeats = repeats || p->plan.chain.nodes[i].order->kind == STK__ORDER_REPEAT;
    *out_end = pass == STK__PASS_END && !repeats;
    return pass == STK__PASS_KEEP;
}

/* Rows after which an endless repeat has gone over all samples; -1: not known, or the run has an end. */
static int64_t rows_of_round(const stk_pipeline *p)
{
    const stk__chain *chain = &p->plan.chain;
    int64_t n = p->plan.stream ? stk__feeder_source_count(p) : chain->source_count;
    bool endless = false;
    for (int i = 0; i < chain->batch_at && n >= 0; i++) {
        const stk__chain_node *node = &chain->nodes[i];
        const int64_t length = node->order->length(node->state, n);
        int64_t count = 1, index = 0;
        if (endless && node->order->get_shard)
            node->order->get_shard(node->state, &count, &index);
        endless = endless || length == STK__ENDLESS;
        n = endless ? stk__position_scale(n, count, 0) : length;
    }
    for (int i = chain->batch_at; i < chain->count; i++)
        endless = endless || chain->nodes[i].order->length(chain->nodes[i].state, 1) == STK__ENDLESS;
    return endless ? n : -1;
}

/* An endless repeat of samples that all fall out would never end. */
static stk_status check_barren(stk_pipeline *p, bool keep, stk_error *err)
{
    const int64_t patience = 100000; /* ops that draw random numbers may let a sample pass in a later round */
    p->left_out = keep ? 0 : p->left_out + 1;
    if (p->left_out % patience != patience - 1)
        return STK_OK;
    const int64_t round = rows_of_round(p);
    if (round < 0 || p->left_out / 2 < round)
        return STK_OK;
    return stk_error_set(err, STK_INVALID,
                         "the last %lld samples were all left out by filters or as bad records: repeat without end "
                         "would never come to one that passes",
                         (long long)p->left_out);
}

/* Whether the row goes into a batch, counting on the way. */
static stk_status row_passes(stk_pipeline *p, stk__part *part, int64_t row, bool *out_keep, bool *out_end, stk_error *err)
{
    const int32_t dropped_at = part->dropped_at[row];
    *out_keep = dropped_at == STK__ROW_KEPT;
    *out_end = false;
    STK_TRY(check_barren(p, *out_keep, err));
    for (int k = 0; k < p->plan.relay_count && !*out_end; k++) {
        if (p->plan.relays[k].segment_at > dropped_at)
            break;
        if (!relay_passes(p, k, part->epochs[row * STK__MAX_RELAYS + k], out_end)) {
            *out_keep = false;
            break;
        }
    }
    if (part->bad && part->bad->row == row) {
        stk__bad *bad = part->bad;
        STK_TRY(stk__count_bad(p, bad, &p->place, err));
        part->bad = bad->next;
        stk__free(bad);
        return STK_OK;
    }
    if (!*out_keep)
        p->place.dropped++;
    return STK_OK;
}

/* Order ops behind the batch, by counting. */
static bool batch_passes(stk_pipeline *p, bool *out_end)
{
    const stk__chain *chain = &p->plan.chain;
    *out_end = false;
    if (p->skip_epoch)
        return false;
    for (int i = chain->batch_at; i < chain->count; i++) {
        const stk__order *order = chain->nodes[i].order;
        if (order->kind != STK__ORDER_SELECT)
            continue;
        const stk__pass pass = order->pass(chain->nodes[i].state, p->place.batch_seen[i]++);
        if (pass == STK__PASS_DROP)
            return false;
        if (pass == STK__PASS_END) {
            bool repeats = false;
            for (int k = i; k < chain->count; k++)
                repeats = repeats || chain->nodes[k].order->kind == STK__ORDER_REPEAT;
            p->skip_epoch = repeats;
            *out_end = !repeats;
            return false;
        }
    }
    return true;
}

/* A new round of the repeat behind the batch: counters of order ops before it start anew. */
static void new_round(stk_pipeline *p)
{
    const stk__chain *chain = &p->plan.chain;
    p->skip_epoch = false;
    p->place.round_batches = 0;
    for (int i = chain->batch_at; i < chain->count; i++) {
        if (chain->nodes[i].order->kind == STK__ORDER_REPEAT)
            break;
        p->place.batch_seen[i] = 0;
    }
}

/* The batch being filled is done: hand it over, or drop it. */
static stk_status emit(stk_pipeline *p, int64_t next_ticket, bool *out_end, stk_error *err)
{
    stk__slab *slab = p->filling;
    const bool partial = slab->batch.rows < p->plan.batching.size;
    *out_end = false;
    const bool keep = !(partial && p->plan.batching.drop_last) && slab->batch.rows > 0 && batch_passes(p, out_end);
    if (!keep) {
        p->place.dropped += slab->batch.rows;
        stk__slab_reset(p, slab);
        return STK_OK;
    }
    STK_TRY(stk__slab_finish(p, slab, err));
    slab->batch.index = p->place.batches++;
    const int64_t in_round = p->place.round_batches++;
    slab->number = stk__chain_ends_in_repeat(&p->plan.chain) ? in_round : slab->batch.index;
    STK_TRY(stk__worker_rows(p->assembler, &slab->batch, slab->number, err));
    p->place.samples += slab->batch.rows;
    p->place.ticket = next_ticket;
    slab->after = p->place;
    pthread_mutex_lock(&p->lock);
    p->filling = NULL; /* the consumer looks at it when it holds batches */
    stk__push_ready_locked(p, slab);
    pthread_mutex_unlock(&p->lock);
    return STK_OK;
}

/* A slab to fill; false when there is none now. */
static bool have_slab(stk_pipeline *p)
{
    if (p->filling)
        return true;
    pthread_mutex_lock(&p->lock);
    if (p->flight_count < stk__ahead_locked(p) && stk__slab_room_locked(p))
        p->filling = stk__take_slab_locked(p);
    pthread_mutex_unlock(&p->lock);
    return p->filling != NULL;
}

/* The longest run of kept rows from `row` on that fits into the batch; sets *out_next to the first row not looked at. */
static stk_status kept_run(stk_pipeline *p, stk__part *part, int64_t row, int64_t limit, int64_t room, int64_t *out_from,
                           int64_t *out_to, int64_t *out_next, bool *out_end, stk_error *err)
{
    const int64_t round = part->epoch_behind_batch[row];
    int64_t from = row, to = row;
    *out_end = false;
    while (row < limit && to - from < room && part->epoch_behind_batch[row] == round && !*out_end) {
        bool keep;
        if (to > from && part->dropped_at[row] != STK__ROW_KEPT)
            break; /* the run is broken; this row is counted next time */
        STK_TRY(row_passes(p, part, row, &keep, out_end, err));
        row++;
        if (keep) {
            if (to == from)
                from = row - 1;
            to = row;
        } else if (to > from) {
            break;
        } else {
            from = to = row;
        }
    }
    *out_from = from;
    *out_to = to;
    *out_next = row;
    return STK_OK;
}

/* Rows of the part into batches until the part is used up or there is no slab. */
static stk_status assemble_part(stk_pipeline *p, stk__part *part, bool *out_end, stk_error *err)
{
    const int64_t limit = part->error_row >= 0 ? part->error_row : part->rows;
    *out_end = false;
    while (part->cursor < limit && !*out_end) {
        const int64_t row = part->cursor;
        if (!have_slab(p))
            return STK_OK;
        stk__slab *slab = p->filling;
        const int64_t round = part->epoch_behind_batch[row];
        if (round != p->last_epoch_behind_batch) {
            if (slab->batch.rows > 0) {
                STK_TRY(emit(p, part->ticket + row, out_end, err));
                p->last_epoch_behind_batch = round;
                new_round(p);
                continue;
            }
            p->last_epoch_behind_batch = round;
            new_round(p);
        }
        int64_t from, to;
        bool relay_end;
        STK_TRY(kept_run(p, part, row, limit, p->plan.batching.size - slab->batch.rows, &from, &to, &part->cursor,
                         &relay_end, err));
        if (to > from && slab->batch.rows == 0)
            slab->batch.epoch = part->row_epoch[from];
        if (to > from)
            STK_TRY(stk__slab_append(p, slab, part, from, to, err));
        if (slab->batch.rows == p->plan.batching.size)
            STK_TRY(emit(p, part->ticket + part->cursor, out_end, err));
        *out_end = *out_end || relay_end;
    }
    if (part->cursor == limit && part->error_row >= 0 && !*out_end) {
        *err = part->error;
        return part->error.status;
    }
    return STK_OK;
}

static void publish_counts(stk_pipeline *p)
{
    atomic_store(&p->skipped, p->place.skipped);
    atomic_store(&p->quarantined, p->place.quarantined);
    atomic_store(&p->dropped, p->place.dropped);
    atomic_store(&p->lost_bytes, p->place.lost_bytes);
}

/* The last batch, when nothing more comes behind `ticket`. */
static stk_status flush(stk_pipeline *p, int64_t ticket, stk_error *err)
{
    bool end;
    if (p->filling && p->filling->batch.rows > 0)
        STK_TRY(emit(p, ticket, &end, err));
    return STK_OK;
}

void stk__assemble_locked(stk_pipeline *p, stk__worker *w)
{
    stk_error error;
    stk_error_clear(&error);
    bool end = false;
    stk__part *part = front_part(p);
    const bool over = !part;
    const int64_t next_ticket = p->next_ticket; /* others may still be reading on when `part` ends the run */
    p->assembling = true;
    p->assembler = w;
    pthread_mutex_unlock(&p->lock);
    const int64_t start = w->track ? stk__now_ns() : 0;
    stk_status status = part ? assemble_part(p, part, &end, &error) : STK_OK;
    if (status == STK_OK && (over || end))
        status = flush(p, part ? part->ticket + part->cursor : next_ticket, &error);
    publish_counts(p);
    if (w->track)
        stk__track_slice(w->track, p->names.assemble, start, stk__now_ns(), NULL);
    pthread_mutex_lock(&p->lock);
    p->assembling = false;
    if (status != STK_OK)
        stk__fail_locked(p, &error);
    else if (over || end)
        p->ended = true;
    if (part && part->cursor >= part->rows) {
        p->queue_head = (p->queue_head + 1) % (int)STK_COUNT(p->queue);
        p->queue_count--;
        if (p->plan.stream)
            stk__feeder_return(p, part);
        stk__part_reset(p, part);
        part->next = p->free_parts;
        p->free_parts = part;
    }
    if (p->ended)
        pthread_cond_broadcast(&p->ready);
}
