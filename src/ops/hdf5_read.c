/*
 * Reading of rows: for the samples at hand, the chunks that hold them are taken from the cache or decoded, one at a
 * time, and their rows go straight into the batch. A chunk that another worker is decoding is left for later; who has
 * nothing else left decodes one that will be needed soon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kernels/shuffle.h"
#include "ops/hdf5_reader.h"

#include "base/banned.h"

/* Runs of rows from this size on fill the cache with what nobody reads soon. */
#define PAST_BYTES ((size_t)8 << 10)
/* Errands that are looked at for a chunk to be decoded together with another one. */
#define PARTNER_ERRANDS 8
/* Consecutive rows are read together up to this size. */
#define RUN_BYTES ((int64_t)1 << 20)

stk_status stk__h5_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = stk__calloc(1, sizeof *r);
    if (!r)
        return stk__nomem(sizeof *r, err);
    r->looked = stk__calloc(s->dataset_count, sizeof *r->looked);
    stk_status status =
        r->looked ? stk__h5_decoder_new(&r->decoder, err) : stk__nomem(s->dataset_count * sizeof *r->looked, err);
    if (status == STK_OK)
        status = stk__h5_heap_new(s->heap_bytes, &r->heap, err);
    if (status != STK_OK) {
        stk__h5_decoder_free(r->decoder);
        stk__free(r->looked);
        stk__free(r);
        return status;
    }
    r->ahead_of = -1;
    *out_worker = r;
    return STK_OK;
}

void stk__h5_worker_close(const stk_call *call)
{
    stk__h5_reader *r = call->worker;
    for (size_t i = 0; i < r->count; i++)
        stk__h5_drop_error(&r->errors[i]);
    stk__h5_decoder_free(r->decoder);
    stk__h5_heap_free(r->heap);
    stk__free(r->stored[0]);
    stk__free(r->stored[1]);
    stk__free(r->places);
    stk__free(r->order);
    stk__free(r->outs);
    stk__free(r->errors);
    stk__free(r->errands);
    stk__free(r->looked);
    stk__free(r);
}

size_t stk__h5_worker_memory(const stk__h5_source *s)
{
    return 2 * s->stored_max + s->scratch_max + s->heap_bytes;
}

/* ---- from a chunk, or from rows as they lie in the file ---- */

/* Whether a chunk holds whole rows, one behind the other, as they go into the batch. */
static bool has_plain_rows(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    bool whole = d->way == STK__H5_BY_CHUNK && leaf->whole && stk__h5_is_number(leaf) && !leaf->swap && d->across == 1;
    for (int32_t i = 1; i < d->rank; i++)
        whole = whole && d->chunk_dims[i] == d->dims[i];
    return whole;
}

/* Rows of which there are many, and that nobody reads before the batch is handed over, go past the caches. */
static void take_past(const stk__h5_dataset *d, const stk__h5_leaf *leaf, const stk__chunk *chunk, int64_t row,
                      size_t n, uint8_t *out)
{
    const size_t first = (size_t)(row % d->block_rows) * (size_t)d->row_elements, count = n * (size_t)d->row_elements;
    if (chunk->plain)
        stk__copy_past(out, chunk->data + first * d->element_bytes, count * d->element_bytes);
    else
        stk__unshuffle_past(out, chunk->data, d->chunk_elements, first, count, leaf->size);
}

/* Takes the rows of an errand out of a chunk that is held. */
static void deliver(const stk_call *call, const stk__h5_errand *e, const stk__chunk *chunk)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    const int32_t file = r->places[e->from].file;
    const stk__h5_part *part = stk__h5_part_of(s, file, e->dataset);
    const stk__h5_dataset *d = part->dataset;
    for (size_t k = 0; k < s->field_count; k++) {
        const stk__h5_leaf *leaf = part->leaves[k];
        if (!leaf)
            continue;
        uint8_t *const *outs = stk__h5_outs(r, k);
        const size_t stride = stk__h5_raw_bytes(d, leaf);
        const bool past = call->slots[s->fields[k].id].unread && has_plain_rows(d, leaf);
        for (size_t i = e->from, n; i < e->to; i += n) {
            n = stk__h5_run_of(r, outs, stride, i, e->to);
            uint8_t *out = outs[r->places[i].sample];
            const int64_t row = r->places[i].row;
            if (past && n * stride >= PAST_BYTES)
                take_past(d, leaf, chunk, row, n, out);
            else if (d->way == STK__H5_BY_LIBRARY)
                stk__h5_take_rows(d, leaf, chunk->data + (size_t)(row % d->block_rows) * d->row_bytes, (int64_t)n, out,
                                  stride);
            else
                stk__h5_take(d, leaf, chunk->key.number, chunk->data, chunk->plain, row, (int64_t)n, out, stride);
        }
        if (d->way == STK__H5_BY_LIBRARY && !stk__h5_is_number(leaf)) {
            const stk__h5_contents c = {call, d, file, -1, chunk->heap, chunk->heap_bytes};
            stk__h5_make_values(&c, k, leaf, e->from, e->to);
        }
    }
}

/* Where a row of a dataset lies in the file; -1: it was never written. */
static int64_t row_offset(const stk__h5_dataset *d, int64_t row)
{
    if (d->layout != STK__H5_LAYOUT_CHUNKED)
        return d->address < 0 ? -1 : d->address + row * (int64_t)d->row_bytes;
    const stk__h5_chunk *chunk = stk__h5_find(d, (uint64_t)(row / d->block_rows));
    return chunk ? (int64_t)chunk->address + row % d->block_rows * (int64_t)d->row_bytes : -1;
}

/* The only field that is taken out of a part when its values lie in the file as they go into the batch; else -1. */
static int plain_field(const stk__h5_source *s, const stk__h5_part *part)
{
    int found = -1;
    for (size_t k = 0; k < s->field_count; k++) {
        if (!part->leaves[k])
            continue;
        if (found >= 0 || !part->leaves[k]->whole || !stk__h5_is_number(part->leaves[k]) || part->leaves[k]->swap)
            return -1;
        found = (int)k;
    }
    return found;
}

/* Rows places[from, from + n), one behind the other in the file, through scratch memory. */
static stk_status read_run(const stk_call *call, const stk__h5_part *part, size_t from, size_t n, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    const stk__h5_dataset *d = part->dataset;
    const stk__h5_row_place *p = &r->places[from];
    const size_t bytes = n * d->row_bytes;
    const int64_t offset = d->way == STK__H5_BY_MEMORY ? 0 : row_offset(d, p->row);
    const int direct = d->way == STK__H5_BY_PLACE && offset >= 0 ? plain_field(s, part) : -1;
    if (direct >= 0 && stk__h5_run_of(r, stk__h5_outs(r, (size_t)direct), d->row_bytes, from, from + n) == n)
        return stk__h5_read_bytes(call, p->file, stk__h5_outs(r, (size_t)direct)[p->sample], bytes, offset, false, err);
    uint8_t *data = d->compact + (d->way == STK__H5_BY_MEMORY ? (size_t)p->row * d->row_bytes : 0);
    if (d->way == STK__H5_BY_PLACE) {
        data = stk_scratch(call, bytes, err);
        if (!data)
            return err->status;
        if (offset < 0)
            stk__h5_fill(d, data, n * (size_t)d->row_elements);
        else
            STK_TRY(stk__h5_read_bytes(call, p->file, data, bytes, offset, false, err));
    }
    for (size_t k = 0; k < s->field_count; k++) {
        if (!part->leaves[k])
            continue;
        const size_t stride = stk__h5_raw_bytes(d, part->leaves[k]);
        for (size_t i = from, m; i < from + n; i += m) {
            m = stk__h5_run_of(r, stk__h5_outs(r, k), stride, i, from + n);
            stk__h5_take_rows(d, part->leaves[k], data + (i - from) * d->row_bytes, (int64_t)m,
                              stk__h5_outs(r, k)[r->places[i].sample], stride);
        }
    }
    return STK_OK;
}

/* Looks once at a file of which rows places[from, to) were read: bytes of another version of it go nowhere. */
static void look_at_file(const stk_call *call, size_t from, size_t to)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    const int32_t file = r->places[from].file;
    stk_error error;
    int fd;
    stk_error_clear(&error);
    stk_status status = stk__file_pool_acquire(s->pool, file, &fd, &error);
    if (status == STK_OK) {
        status = stk__file_pool_recheck(s->pool, file, fd, &error);
        stk__file_pool_release(s->pool, file);
    }
    if (status != STK_OK)
        stk__h5_rows_failed(r, from, to, &error);
}

/* How many rows from places[i] on lie one behind the other, in one block. */
static size_t rows_together(const stk__h5_reader *r, const stk__h5_dataset *d, size_t i)
{
    const stk__h5_row_place *p = &r->places[i];
    const int64_t most = STK_MAX(RUN_BYTES / (int64_t)STK_MAX(d->row_bytes, 1), 1);
    size_t n = 1;
    while (i + n < r->count && p[n].file == p->file && p[n].row == p->row + (int64_t)n && (int64_t)n < most &&
           p[n].row / d->block_rows == p->row / d->block_rows)
        n++;
    return n;
}

/* Datasets whose rows can be read where they lie. */
static void read_places(const stk_call *call, size_t dataset)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    for (size_t i = 0, first = 0, n; i < r->count; i += n) {
        const stk__h5_row_place *p = &r->places[i];
        const stk__h5_part *part = stk__h5_part_of(s, p->file, dataset);
        const stk__h5_dataset *d = part->dataset;
        if (p->file != r->places[first].file)
            first = i;
        n = 1;
        if (stk__h5_in_chunks(d))
            continue;
        n = rows_together(r, d, i);
        stk_error error;
        stk_error_clear(&error);
        if (read_run(call, part, i, n, &error) != STK_OK) {
            snprintf(error.file, sizeof error.file, "%s", s->indexes[p->file]->path);
            stk__h5_rows_failed(r, i, i + n, &error);
        }
        const bool last = i + n == r->count || r->places[i + n].file != p->file;
        if (last && d->way == STK__H5_BY_PLACE)
            look_at_file(call, first, i + n);
    }
}

/* ---- what has to be done for the samples at hand ---- */

static int compare_places(const void *a, const void *b)
{
    const stk__h5_row_place *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->sample < y->sample ? -1 : 1;
}

static stk_status find_places(stk__h5_reader *r, const stk__h5_source *s, stk_sample *const *samples, size_t n,
                              stk_error *err)
{
    if (!stk__grow((void **)&r->places, &r->place_capacity, n, sizeof *r->places) ||
        !stk__grow((void **)&r->order, &r->order_capacity, n, sizeof *r->order) ||
        !stk__grow((void **)&r->errors, &r->error_capacity, n, sizeof *r->errors) ||
        !stk__grow((void **)&r->outs, &r->out_capacity, n * s->field_count, sizeof *r->outs))
        return stk__nomem(n * s->field_count * sizeof *r->outs, err);
    r->samples = samples;
    r->count = n;
    r->next = 0;
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        const int64_t index = samples[i]->index;
        stk__h5_row_place *p = &r->places[i];
        const bool same_file = i > 0 && index >= s->firsts[p[-1].file] && index < s->firsts[p[-1].file + 1];
        p->file = same_file ? p[-1].file : stk__h5_file_of(s, index);
        p->row = index - s->firsts[p->file];
        p->sample = (uint32_t)i;
        sorted = sorted && (i == 0 || compare_places(p - 1, p) < 0);
        r->order[i] = samples[i];
        r->errors[i] = NULL;
    }
    if (!sorted)
        qsort(r->places, n, sizeof *r->places, compare_places);
    return STK_OK;
}

/*
 * Memory for the values of one field: in the batch where numbers are to be stored as they are, else for their raw
 * form.
 */
static stk_status place_field(const stk_call *call, size_t field, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    const stk__h5_field *f = &s->fields[field];
    uint8_t **outs = stk__h5_outs(r, field);
    const stk__h5_part *part = stk__h5_part_of(s, 0, f->dataset);
    if (stk__h5_is_number(part->leaves[field])) {
        for (size_t i = 0; i < r->count; i++) {
            outs[i] = stk_out(call, r->samples[i], f->id, NULL, err);
            if (!outs[i])
                return err->status;
        }
        return STK_OK;
    }
    uint8_t *raw = stk_scratch(call, f->raw_bytes * r->count, err);
    if (!raw)
        return err->status;
    for (size_t i = 0; i < r->count; i++)
        outs[i] = raw + i * f->raw_bytes;
    return STK_OK;
}

/* One errand for each chunk that the samples need of a dataset. */
static stk_status plan_errands(const stk_call *call, size_t dataset, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    for (size_t i = 0, n; i < r->count; i += n) {
        const stk__h5_row_place *p = &r->places[i];
        const stk__h5_dataset *d = stk__h5_part_of(s, p->file, dataset)->dataset;
        n = 1;
        if (!stk__h5_in_chunks(d))
            continue;
        while (i + n < r->count && p[n].file == p->file && p[n].row / d->block_rows == p->row / d->block_rows)
            n++;
        if (!stk__grow((void **)&r->errands, &r->errand_capacity, r->errand_count + (size_t)d->across,
                       sizeof *r->errands))
            return stk__nomem(r->errand_count * sizeof *r->errands, err);
        for (int64_t j = 0; j < d->across; j++)
            r->errands[r->errand_count++] = (stk__h5_errand){i, i + n, dataset, j};
    }
    return STK_OK;
}

static stk__chunk_wish errand_wish(const stk_call *call, const stk__h5_errand *e)
{
    const stk__h5_source *s = call->state;
    const stk__h5_reader *r = call->worker;
    const stk__h5_row_place *p = &r->places[e->from];
    const stk__h5_dataset *d = stk__h5_part_of(s, p->file, e->dataset)->dataset;
    return stk__h5_wish(p->file, e->dataset, d, (uint64_t)(p->row / d->block_rows * d->across + e->across), false);
}

/* Claims a chunk of one of the next errands. */
static bool claim_later(const stk_call *call, size_t from, stk__h5_claim *out)
{
    const stk__h5_source *s = call->state;
    const stk__h5_reader *r = call->worker;
    for (size_t i = from; i < r->errand_count && i < from + PARTNER_ERRANDS; i++) {
        const stk__chunk_wish wish = errand_wish(call, &r->errands[i]);
        stk__chunk_state state;
        *out = (stk__h5_claim){wish.key.file, stk__h5_part_of(s, wish.key.file, r->errands[i].dataset)->dataset, NULL};
        if (stk__chunk_cache_has(s->cache, &wish.key) ||
            stk__chunk_cache_get(s->cache, &wish, &state, &out->chunk, NULL) != STK_OK)
            continue;
        if (state == STK__CHUNK_MINE)
            return true;
        if (state == STK__CHUNK_READY)
            stk__chunk_cache_release(s->cache, out->chunk, 0);
    }
    return false;
}

/* Fills a chunk that is ours to fill, and another one with it where that saves time. */
static void fill_errand(const stk_call *call, size_t number, stk__h5_claim mine)
{
    const stk__h5_source *s = call->state;
    stk__h5_claim claims[2] = {mine};
    int count = 1;
    if (stk__h5_wants_partner(&mine))
        count +=
            claim_later(call, number + 1, &claims[1]) || stk__h5_claim_ahead(call, STK__H5_PARTNER_LOOKS, &claims[1]);
    stk__h5_fill_chunks(call, claims, count);
    if (count == 2)
        stk__chunk_cache_release(s->cache, claims[1].chunk, 0);
}

/* Does one errand when its chunk can be had now. */
static stk_status run_errand(const stk_call *call, size_t number, bool *out_done, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    const stk__h5_errand *e = &r->errands[number];
    const stk__chunk_wish wish = errand_wish(call, e);
    stk__chunk_state state;
    stk__chunk *chunk;
    *out_done = false;
    STK_TRY(stk__chunk_cache_get(s->cache, &wish, &state, &chunk, err));
    if (!chunk)
        return STK_OK;
    if (state == STK__CHUNK_MINE)
        fill_errand(call, number,
                    (stk__h5_claim){wish.key.file, stk__h5_part_of(s, wish.key.file, e->dataset)->dataset, chunk});
    if (chunk->error)
        stk__h5_rows_failed(r, e->from, e->to, chunk->error);
    else
        deliver(call, e, chunk);
    stk__chunk_cache_release(s->cache, chunk, (int64_t)(e->to - e->from));
    *out_done = true;
    return STK_OK;
}

/* All errands: those whose chunk is there or can be decoded now first, then those that others are at. */
static stk_status run_errands(const stk_call *call, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    bool look_ahead = true;
    while (r->errand_count > 0) {
        const uint64_t moves = stk__chunk_cache_moves(s->cache);
        size_t left = 0;
        for (size_t i = 0; i < r->errand_count; i++) {
            bool done;
            STK_TRY(run_errand(call, i, &done, err));
            if (!done)
                r->errands[left++] = r->errands[i];
        }
        const bool stuck = left == r->errand_count;
        r->errand_count = left;
        /* When there was nothing to be done ahead, the next thing is to wait: others are at work. */
        look_ahead = !stuck || (look_ahead && stk__h5_ahead(call) == STK_OK);
        if (look_ahead)
            continue;
        const int64_t start = stk__now_ns();
        stk__chunk_cache_wait(s->cache, moves);
        call->host->waited(call, "wait for a chunk", start);
    }
    return STK_OK;
}

/* Strings and sequences of datasets that we read ourselves: their descriptors, or contents, are there now. */
static void finish_field(const stk_call *call, size_t field)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    for (size_t i = 0, n; i < r->count; i += n) {
        const int32_t file = r->places[i].file;
        const stk__h5_part *part = stk__h5_part_of(s, file, s->fields[field].dataset);
        const stk__h5_leaf *leaf = part->leaves[field];
        for (n = 1; i + n < r->count && r->places[i + n].file == file; n++)
            ;
        if (stk__h5_is_number(leaf) || part->dataset->way == STK__H5_BY_LIBRARY)
            continue;
        stk__h5_contents c = {call, part->dataset, file, -1, NULL, 0};
        const bool heap = leaf->kind == STK__H5_KIND_VLEN || leaf->kind == STK__H5_KIND_VLEN_STRING;
        stk_error error;
        stk_error_clear(&error);
        if (heap && stk__file_pool_acquire(s->pool, file, &c.fd, &error) != STK_OK) {
            stk__h5_rows_failed(r, i, i + n, &error);
            continue;
        }
        stk__h5_make_values(&c, field, leaf, i, i + n);
        if (heap && stk__file_pool_recheck(s->pool, file, c.fd, &error) != STK_OK)
            stk__h5_rows_failed(r, i, i + n, &error);
        if (heap)
            stk__file_pool_release(s->pool, file);
    }
}

stk_status stk__h5_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    for (size_t i = 0; i < r->count; i++) /* of samples that were not processed */
        stk__h5_drop_error(&r->errors[i]);
    r->count = 0;
    r->errand_count = 0;
    STK_TRY(find_places(r, s, samples, n, err));
    for (size_t k = 0; k < s->field_count; k++)
        if (s->fields[k].needed)
            STK_TRY(place_field(call, k, err));
    for (size_t i = 0; i < s->dataset_count; i++) {
        if (!s->is_read[i])
            continue;
        read_places(call, i);
        STK_TRY(plan_errands(call, i, err));
    }
    STK_TRY(run_errands(call, err));
    for (size_t k = 0; k < s->field_count; k++)
        if (s->fields[k].needed)
            finish_field(call, k);
    return STK_OK;
}

stk_status stk__h5_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    while (r->next < r->count && r->order[r->next] != sample)
        r->next++;
    const size_t i = r->next++;
    const int32_t file = stk__h5_file_of(s, sample->index);
    sample->origin = (stk_origin){s->indexes[file]->path, -1, sample->index - s->firsts[file], -1};
    if (!r->errors[i])
        return STK_OK;
    const stk_status status = r->errors[i]->status;
    if (err)
        *err = *r->errors[i];
    stk__h5_drop_error(&r->errors[i]);
    return status;
}
