/*
 * Lanes: each reads one file at a time. Which record comes when depends on the files alone: lanes have their turns in
 * order, and a file that ended is replaced by the next one at its lane's next turn. Who decodes a block does not matter.
 */
#include "ops/record_lanes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "formats/tfrecord.h"

#include "base/banned.h"

#define BLOCK_MOST ((int64_t)256 * 1024)
#define BLOCK_LEAST ((int64_t)16 * 1024)
#define BLOCK_RECORDS 1024
#define READY_MAX 4
#define LANES_FREE 4

typedef struct entry {
    size_t at; /* in the block's data */
    int64_t size, offset;
} entry;

/* Records decoded from one file, and what ended them early. */
typedef struct block {
    struct block *next;
    char *data;
    size_t size, capacity;
    entry entries[BLOCK_RECORDS];
    int count;
    stk_status status; /* after the last entry: OK, END or an error */
    bool again;        /* the error is about one record only */
    int64_t bad_size;  /* of that record */
    stk_error error;
} block;

typedef struct file_lane {
    stk__record_stream *stream; /* touched by whoever set `filling` */
    int64_t file, record;
    block *ready[READY_MAX]; /* oldest first */
    int ready_count;
    int at; /* next entry of ready[0] */
    bool filling, stopped; /* stopped: no more blocks will come */
    const stk_call *call;  /* of whoever fills it */
    struct stk__lanes *lanes;
    size_t charged; /* for the stream itself */
} file_lane;

struct stk__lanes {
    /* const after open */
    stk__lanes_config config;
    stk_call call; /* for memory, also while closing */
    size_t block_bytes;

    pthread_mutex_t lock;
    pthread_cond_t filled;
    /* guarded by lock */
    file_lane *lanes;
    int64_t lane_count, lane_at, block_at, next_file;
    block *spare;
    int filling;
    int64_t stray, first_stray; /* tar: files that belong to no sample, in the files that ended; and the first of these */
    bool stray_told;
};

/* ---- blocks ---- */

static block *take_block_locked(stk__lanes *l, stk_error *err)
{
    block *b = l->spare;
    if (b) {
        l->spare = b->next;
        return b;
    }
    b = stk_budget_alloc(&l->call, sizeof *b, err);
    if (b) {
        b->data = NULL;
        b->capacity = 0;
    }
    return b;
}

static void give_block_locked(stk__lanes *l, block *b)
{
    b->next = l->spare;
    l->spare = b;
}

/* For what a stream takes to gather a large record. Waits for memory: the record cannot be read again. */
static stk_status charge_record(void *arg, int64_t bytes, stk_error *err)
{
    const file_lane *lane = arg;
    if (bytes > 0)
        return lane->call->host->charge_patiently(lane->call, (size_t)bytes, err);
    stk_budget_return(&lane->lanes->call, (size_t)-bytes);
    return STK_OK;
}

static stk_status reserve(stk__lanes *l, const stk_call *call, block *b, size_t extra, stk_error *err)
{
    if (b->data && extra <= b->capacity - b->size)
        return STK_OK;
    const size_t capacity = STK_MAX(b->size + extra, l->block_bytes);
    char *data = call->host->alloc_patiently(call, capacity, err);
    if (!data)
        return err->status;
    if (b->size)
        memcpy(data, b->data, b->size);
    stk_budget_free(&l->call, b->data, b->capacity);
    b->data = data;
    b->capacity = capacity;
    return STK_OK;
}

/* Decodes records until the block is full, or something else happens. The lane is marked as filling. */
static void fill_block(stk__lanes *l, const stk_call *call, file_lane *lane, block *b)
{
    const int64_t before = stk__record_stream_bytes(lane->stream);
    b->size = 0;
    b->count = 0;
    b->again = false;
    b->status = STK_OK;
    stk_error_clear(&b->error);
    /* Records are told apart by where their header starts, as in files that are read by number. */
    const int64_t header = l->config.framing == STK__FRAMING_TFRECORD ? STK__TFRECORD_HEADER : 0;
    while (b->count < BLOCK_RECORDS && b->size < l->block_bytes) {
        stk_bytes record = {NULL, -1};
        int64_t offset = -1;
        b->status = stk__record_stream_next(lane->stream, &record, &offset, &b->again, &b->error);
        if (b->status == STK_OK)
            b->status = reserve(l, call, b, (size_t)record.size, &b->error);
        b->bad_size = b->again ? record.size : -1;
        if (b->status != STK_OK)
            break;
        if (record.size)
            memcpy(b->data + b->size, record.data, (size_t)record.size);
        b->entries[b->count++] = (entry){b->size, record.size, offset - header};
        b->size += (size_t)record.size;
    }
    call->host->count_read(call, stk__record_stream_bytes(lane->stream) - before);
}

/* Fills one block for the lane, without the lock. */
static void fill_lane_locked(stk__lanes *l, const stk_call *call, file_lane *lane, block *b)
{
    lane->filling = true;
    lane->call = call;
    lane->lanes = l;
    stk__record_stream_charge(lane->stream, charge_record, lane); /* lanes move when one is removed */
    l->filling++;
    pthread_mutex_unlock(&l->lock);
    fill_block(l, call, lane, b);
    pthread_mutex_lock(&l->lock);
    lane->filling = false;
    l->filling--;
    lane->stopped = b->status != STK_OK && !b->again;
    lane->ready[lane->ready_count++] = b;
    pthread_cond_broadcast(&l->filled);
}

/* Fills a block for the next lane that can use one; false when none can, or there is no memory to spare. */
static bool fill_some_locked(stk__lanes *l, const stk_call *call)
{
    for (int64_t i = 0; i < l->lane_count; i++) {
        file_lane *lane = &l->lanes[(l->lane_at + i) % l->lane_count];
        if (!lane->stream || lane->filling || lane->stopped || lane->ready_count >= READY_MAX)
            continue;
        stk_error ignored;
        stk_error_clear(&ignored);
        block *b = take_block_locked(l, &ignored);
        if (b)
            fill_lane_locked(l, call, lane, b);
        return b != NULL;
    }
    return false;
}

void stk__lanes_trim(stk__lanes *l)
{
    pthread_mutex_lock(&l->lock);
    for (block *b = l->spare; b; b = b->next) {
        stk_budget_free(&l->call, b->data, b->capacity);
        b->data = NULL;
        b->capacity = 0;
    }
    pthread_mutex_unlock(&l->lock);
}

stk_status stk__lanes_ahead(stk__lanes *l, const stk_call *call)
{
    pthread_mutex_lock(&l->lock);
    const bool filled = fill_some_locked(l, call);
    pthread_mutex_unlock(&l->lock);
    return filled ? STK_OK : STK_END;
}

/* ---- turns ---- */

static void next_turn_locked(stk__lanes *l)
{
    l->lane_at = (l->lane_at + 1) % l->lane_count;
    l->block_at = 0;
}

/* There is no further file for the lane whose turn it is. */
static void remove_lane_locked(stk__lanes *l)
{
    memmove(l->lanes + l->lane_at, l->lanes + l->lane_at + 1, sizeof *l->lanes * (size_t)(l->lane_count - l->lane_at - 1));
    l->lane_count--;
    if (l->lane_at >= l->lane_count)
        l->lane_at = 0;
    l->block_at = 0;
}

/* Removing a lane moves others, which must not happen while somebody fills one. */
static void wait_idle_locked(stk__lanes *l)
{
    while (l->filling)
        pthread_cond_wait(&l->filled, &l->lock);
}

static void close_file_locked(stk__lanes *l, file_lane *lane)
{
    lane->lanes = l;
    if (lane->stream)
        stk__record_stream_charge(lane->stream, charge_record, lane);
    stk__record_stream_close(lane->stream);
    stk_budget_return(&l->call, lane->charged);
    lane->stream = NULL;
    lane->charged = 0;
}

static stk_status open_file_locked(stk__lanes *l, file_lane *lane, stk_error *err)
{
    lane->file = l->next_file++;
    lane->record = 0;
    lane->stopped = false;
    /* What a few lanes take is little beside what each thread may have; an interleave may have thousands. */
    if (lane - l->lanes >= LANES_FREE) {
        STK_TRY(stk_budget_charge(&l->call, stk__record_stream_memory(), err));
        lane->charged = stk__record_stream_memory();
    }
    stk_status status = stk__record_stream_open(l->config.paths->items[lane->file], l->config.framing, l->config.verify,
                                                &lane->stream, err);
    if (status == STK_OK) {
        stk__record_stream_limit(lane->stream, l->config.memory_bytes / 4);
        status = stk__set_marks_check(l->config.marks, err);
    }
    if (status != STK_OK)
        close_file_locked(l, lane);
    return status;
}

static void end_file_locked(stk__lanes *l, file_lane *lane)
{
    const int64_t stray = stk__record_stream_stray(lane->stream);
    if (stray && (!l->stray || lane->file < l->first_stray))
        l->first_stray = lane->file;
    l->stray += stray;
    close_file_locked(l, lane);
    /* In the middle of its turn the lane gives it up; the next file starts at its next turn. */
    if (l->block_at > 0)
        next_turn_locked(l);
}

static void drop_front_locked(stk__lanes *l, file_lane *lane)
{
    give_block_locked(l, lane->ready[0]);
    memmove(lane->ready, lane->ready + 1, sizeof lane->ready[0] * (READY_MAX - 1));
    lane->ready_count--;
    lane->at = 0;
}

/* The next block of a lane that has none ready: somebody fills it already, or we do. */
static stk_status need_block_locked(stk__lanes *l, const stk_call *call, file_lane *lane, stk_error *err)
{
    if (!lane->filling) {
        block *b = take_block_locked(l, err);
        if (!b)
            return err->status;
        fill_lane_locked(l, call, lane, b);
        return STK_OK;
    }
    /* Somebody is at it: better to fill another lane than to wait. The caller looks again. */
    if (fill_some_locked(l, call))
        return STK_OK;
    const int64_t since = stk__now_ns();
    pthread_mutex_unlock(&l->lock); /* the engine's is never taken under ours */
    call->host->pause(call);
    pthread_mutex_lock(&l->lock);
    while (lane->filling)
        pthread_cond_wait(&l->filled, &l->lock);
    pthread_mutex_unlock(&l->lock);
    call->host->resume(call);
    pthread_mutex_lock(&l->lock);
    call->host->waited(call, "wait: block is being decoded", since);
    return STK_OK;
}

static void set_origin(const stk__lanes *l, const file_lane *lane, int64_t offset, int64_t size, stk_sample *sample)
{
    sample->origin = (stk_origin){l->config.paths->items[lane->file], offset, lane->record, size};
}

static void give_record_locked(stk__lanes *l, const stk_call *call, file_lane *lane, stk_sample *sample)
{
    const block *b = lane->ready[0];
    const entry *e = &b->entries[lane->at++];
    set_origin(l, lane, e->offset, e->size, sample);
    lane->record++;
    stk_set_bytes(call, sample, l->config.field, b->data + e->at, e->size, false);
    if (++l->block_at >= l->config.block)
        next_turn_locked(l);
}

/* A record may take a quarter of the budget, and lies in a few places at once. */
static void tell_demand(const stk_call *call, const stk__record_stream *stream, stk_error *err)
{
    const uint64_t most = (uint64_t)call->host->open_info(call)->memory_bytes / 4;
    uint64_t size;
    char what[96];
    if (!stk__record_stream_refused(stream, &size))
        return; /* there was no room for another reason, which is told already */
    if (size)
        snprintf(what, sizeof what, "a record of %llu bytes", (unsigned long long)size);
    else
        snprintf(what, sizeof what, "a record twice as long as the %llu bytes so far", (unsigned long long)most);
    call->host->no_room(call, what, 6 * (size ? size : 2 * most), 0, err);
}

/* What stopped a block comes behind its records. */
static stk_status give_end_locked(stk__lanes *l, const stk_call *call, file_lane *lane, stk_sample *sample, bool *out_done,
                                  stk_error *err)
{
    const block *b = lane->ready[0];
    const stk_status status = b->status;
    const bool again = b->again;
    if (status != STK_OK && status != STK_END) {
        *out_done = true;
        if (err)
            *err = b->error;
        if (err && status == STK_BUDGET && lane->stream)
            tell_demand(call, lane->stream, err);
        set_origin(l, lane, b->error.offset, b->bad_size, sample);
    }
    drop_front_locked(l, lane);
    if (status == STK_OK || status == STK_END || !again) {
        if (status != STK_OK)
            end_file_locked(l, lane);
    } else {
        lane->record++;
        if (++l->block_at >= l->config.block)
            next_turn_locked(l);
    }
    return *out_done ? status : STK_OK;
}

/* One step at the lane whose turn it is; *out_done: there is a record or an error. */
static stk_status step_locked(stk__lanes *l, const stk_call *call, stk_sample *sample, bool *out_done, stk_error *err)
{
    file_lane *lane = &l->lanes[l->lane_at];
    if (!lane->stream && l->next_file >= (int64_t)l->config.paths->count) {
        wait_idle_locked(l);
        remove_lane_locked(l);
        return STK_OK;
    }
    if (!lane->stream) {
        const stk_status status = open_file_locked(l, lane, err);
        if (status != STK_OK) {
            *out_done = true;
            set_origin(l, lane, -1, -1, sample);
        }
        return status;
    }
    if (lane->ready_count == 0)
        return need_block_locked(l, call, lane, err);
    if (lane->at < lane->ready[0]->count) {
        give_record_locked(l, call, lane, sample);
        *out_done = true;
        return STK_OK;
    }
    return give_end_locked(l, call, lane, sample, out_done, err);
}

stk_status stk__lanes_pull(stk__lanes *l, const stk_call *call, stk_sample *sample, stk_error *err)
{
    stk_status status = STK_OK;
    bool done = false;
    pthread_mutex_lock(&l->lock);
    while (status == STK_OK && !done && l->lane_count > 0)
        status = step_locked(l, call, sample, &done, err);
    const bool ended = status == STK_OK && !done;
    const int64_t stray = ended && !l->stray_told ? l->stray : 0;
    const char *first = l->config.paths->items[l->first_stray];
    l->stray_told = l->stray_told || ended; /* once, not in each epoch */
    pthread_mutex_unlock(&l->lock);
    stk__lanes_tell_stray(call, stray, first);
    return ended ? STK_END : status;
}

void stk__lanes_tell_stray(const stk_call *call, int64_t count, const char *first)
{
    char text[512];
    if (count == 0)
        return;
    snprintf(text, sizeof text,
             count == 1 ? "%lld file in '%.300s' belongs to no sample and is passed over: its name begins with a dot or has no "
                          "extension"
                        : "%lld files in the archives (first in '%.300s') belong to no sample and are passed over: their names "
                          "begin with a dot or have no extension",
             (long long)count, first);
    call->host->warn(call, text);
}

/* ---- start and end ---- */

static void clear_lanes_locked(stk__lanes *l, int64_t count)
{
    wait_idle_locked(l);
    for (int64_t i = 0; i < count; i++) {
        file_lane *lane = &l->lanes[i];
        close_file_locked(l, lane);
        while (lane->ready_count > 0)
            drop_front_locked(l, lane);
        memset(lane, 0, sizeof *lane);
    }
}

static int64_t lanes_wanted(const stk__lanes *l)
{
    return STK_MAX((int64_t)1, STK_MIN(l->config.cycle, (int64_t)l->config.paths->count));
}

stk_status stk__lanes_rewind(stk__lanes *l, stk_error *err)
{
    pthread_mutex_lock(&l->lock);
    clear_lanes_locked(l, l->lane_count);
    l->lane_count = lanes_wanted(l);
    memset(l->lanes, 0, sizeof *l->lanes * (size_t)l->lane_count);
    l->lane_at = l->block_at = l->next_file = 0;
    pthread_mutex_unlock(&l->lock);
    return STK_OK;
}

stk_status stk__lanes_open(const stk_call *call, const stk__lanes_config *config, stk__lanes *_Atomic *out, stk_error *err)
{
    stk__lanes *l = stk__calloc(1, sizeof *l);
    if (!l)
        return stk__nomem(sizeof *l, err);
    l->config = *config;
    l->call = (stk_call){.host = call->host, .impl = call->impl};
    l->lane_count = lanes_wanted(l);
    l->lanes = stk__calloc((size_t)l->lane_count, sizeof *l->lanes);
    if (!l->lanes) {
        stk__free(l);
        return stk__nomem(sizeof *l->lanes, err);
    }
    const int64_t share = config->memory_bytes / (8 * READY_MAX * l->lane_count);
    l->block_bytes = (size_t)STK_MAX(BLOCK_LEAST, STK_MIN(share, BLOCK_MOST));
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    *out = l;
    return STK_OK;
}

void stk__lanes_close(stk__lanes *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    clear_lanes_locked(l, l->lane_count);
    pthread_mutex_unlock(&l->lock);
    while (l->spare) {
        block *next = l->spare->next;
        stk_budget_free(&l->call, l->spare->data, l->spare->capacity);
        stk_budget_free(&l->call, l->spare, sizeof *l->spare);
        l->spare = next;
    }
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
    stk__free(l->lanes);
    stk__free(l);
}
