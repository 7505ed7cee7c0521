/*
 * Reading of rows: for the samples at hand, the chunks that hold them are taken from the cache or decoded, one at a time, and their
 * rows go straight into the batch. A chunk that another worker is decoding is left for later; who has nothing else
 * left decodes one that will be needed soon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/shuffle.h"
#include "ops/hdf5_source.h"

#include "base/banned.h"

/* Chunks that lie in memory for later: at most so many bytes are decoded ahead, and so many places looked at. */
#define AHEAD_BYTES ((size_t)256 << 20)
#define AHEAD_LOOKS 4096
/* A failure of libhdf5 that took this long was a hang. */
#define HANG_NS ((int64_t)30 * 1000000000)
/* Runs of rows from this size on fill the cache with what nobody reads soon. */
#define PAST_BYTES ((size_t)8 << 10)
/* Looks for a chunk to be decoded together with another one: it must be found quickly or not at all. */
#define PARTNER_LOOKS 64
#define PARTNER_ERRANDS 8
/* Consecutive rows are read together up to this size. */
#define RUN_BYTES ((int64_t)1 << 20)

/* A sample, by its row. */
typedef struct place {
    int64_t row; /* in the file */
    int32_t file;
    uint32_t sample; /* number among those at hand */
} place;

/* Rows places[from .. to) of one block of a dataset, of which chunk `across` is still to be looked at. */
typedef struct errand {
    size_t from, to;
    size_t dataset;
    int64_t across;
} errand;

typedef struct reader {
    stk__h5_decoder *decoder;
    stk__h5_heap *heap;
    uint8_t *stored[2]; /* chunks as they lie in the file, of two that are decoded together */
    size_t stored_capacity[2];

    place *places; /* sorted by file and row */
    size_t count, place_capacity;
    stk_sample *const *samples; /* during gather */
    const stk_sample **order;   /* the same, for process */
    size_t order_capacity, next;
    uint8_t **outs; /* by field and sample: where its values go, raw ones where bytes are to be made of them */
    size_t out_capacity;
    const stk_error **errors; /* by sample; NULL: none */
    size_t error_capacity;
    errand *errands;
    size_t errand_count, errand_capacity;
    /* Working ahead: how far was looked, so that the next look goes on there as long as the work at hand is the same. */
    int64_t ahead_of; /* the sample that came next; -1: none */
    int64_t look;
    size_t seen_bytes;
    int32_t looked_file;
    uint64_t *looked; /* by dataset: the first chunk of the row that was looked at last */
} reader;

/* ---- errors that are told later ---- */

/* A copy. When there is no memory for one, that is the error. */
static const stk_error *keep_error(const stk_error *error)
{
    stk_error *copy = stk__alloc(sizeof *copy);
    if (!copy)
        return &stk__chunk_nomem;
    *copy = *error;
    return copy;
}

static void drop_error(const stk_error **error)
{
    stk__chunk_error_free(*error);
    *error = NULL;
}

stk_status stk__h5_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = stk__calloc(1, sizeof *r);
    if (!r)
        return stk__nomem(sizeof *r, err);
    r->looked = stk__calloc(s->dataset_count, sizeof *r->looked);
    stk_status status = r->looked ? stk__h5_decoder_new(&r->decoder, err) : stk__nomem(s->dataset_count * sizeof *r->looked, err);
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
    reader *r = call->worker;
    for (size_t i = 0; i < r->count; i++)
        drop_error(&r->errors[i]);
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

/* ---- filling a chunk ---- */

/* "dataset '/x', chunk (3, 0): " before the message, and where the chunk lies. */
static void place_error(const stk__h5_file *file, const stk__h5_dataset *d, uint64_t number, int64_t offset, stk_error *error)
{
    char message[sizeof error->message];
    stk__text t;
    stk__text_fixed(&t, message, sizeof message);
    stk__text_printf(&t, "dataset '%.200s', chunk (%lld", d->path, (long long)((int64_t)number / STK_MAX(d->across, 1)));
    uint64_t rest = number % (uint64_t)STK_MAX(d->across, 1), divisor = (uint64_t)d->across;
    for (int32_t i = 1; i < d->rank; i++) {
        divisor /= (uint64_t)STK_MAX(d->grid[i], 1);
        stk__text_printf(&t, ", %llu", (unsigned long long)(rest / STK_MAX(divisor, 1)));
        rest %= STK_MAX(divisor, 1);
    }
    stk__text_printf(&t, "): %s", error->message);
    memcpy(error->message, message, sizeof message);
    if (!error->file[0])
        snprintf(error->file, sizeof error->file, "%s", file->path);
    if (error->offset < 0)
        error->offset = offset;
}

/* Whether a chunk reaches past the dataset's shape. */
static bool is_edge(const stk__h5_dataset *d, uint64_t number)
{
    for (int32_t i = d->rank - 1; i >= 0; i--) {
        const int64_t at = (int64_t)(number % (uint64_t)d->grid[i]);
        number /= (uint64_t)d->grid[i];
        if ((at + 1) * d->chunk_dims[i] > d->dims[i])
            return true;
    }
    return false;
}

/* Reads bytes of a file that must not have changed. */
static stk_status read_bytes(const stk_call *call, int32_t file, uint8_t *out, size_t size, int64_t offset, stk_error *err)
{
    const stk__h5_source *s = call->state;
    int fd;
    STK_TRY(stk__file_pool_acquire(s->pool, file, &fd, err));
    stk_status status = stk__pread_full(fd, out, size, offset, s->indexes[file]->path, err);
    if (status == STK_OK)
        status = stk__file_pool_recheck(s->pool, file, fd, stk__now_ns(), err);
    else
        stk__file_pool_recheck(s->pool, file, fd, INT64_MAX, err); /* a better reason, if there is one */
    stk__file_pool_release(s->pool, file);
    call->host->count_read(call, (int64_t)size);
    return status;
}

/* A chunk that this worker has to fill. */
typedef struct claim {
    int32_t file;
    const stk__h5_dataset *dataset;
    stk__chunk *chunk;
} claim;

/* Reads what is stored of a chunk and sets up its decoding. False: there is nothing to decode, or it failed. */
static bool read_chunk(const stk_call *call, const claim *c, int slot, stk__h5_job *job, stk_status *status, stk_error *err)
{
    reader *r = call->worker;
    const stk__h5_dataset *d = c->dataset;
    const stk__h5_chunk *stored = stk__h5_find(d, c->chunk->key.number);
    c->chunk->plain = !d->keep_shuffled || !stored;
    if (!stored) {
        stk__h5_fill(d, c->chunk->data, d->chunk_elements);
        return false;
    }
    const size_t size = (size_t)stored->size;
    *status = stk__grow((void **)&r->stored[slot], &r->stored_capacity[slot], size, 1) ? STK_OK : stk__nomem(size, err);
    if (*status == STK_OK)
        *status = read_bytes(call, c->file, r->stored[slot], size, (int64_t)stored->address, err);
    const bool raw = d->raw_edges && is_edge(d, c->chunk->key.number);
    *job = (stk__h5_job){.filters = d->filters,
                         .filter_count = raw ? 0 : d->filter_count,
                         .mask = (uint32_t)stored->mask,
                         .in = r->stored[slot],
                         .in_size = size,
                         .out = c->chunk->data,
                         .out_size = d->chunk_bytes,
                         .keep_shuffled = d->keep_shuffled};
    return *status == STK_OK;
}

static stk_status ask_library(const stk_call *call, int32_t file, const stk__h5_dataset *d, stk__chunk *chunk, stk_error *err)
{
    const stk__h5_source *s = call->state;
    const int64_t first = (int64_t)chunk->key.number * d->block_rows, rows = STK_MIN(d->block_rows, d->rows - first);
    const int64_t start = stk__now_ns();
    stk__h5_part *part = &s->parts[(size_t)file * s->dataset_count + (size_t)chunk->key.dataset];
    chunk->plain = true;
    if (atomic_load(&part->given_up))
        return stk_error_set(err, STK_CORRUPT, "not tried: libhdf5 did not answer for another chunk of this dataset");
    stk_status status = stk__file_pool_check_unchanged(s->pool, file, err);
    if (status == STK_OK)
        status = stk__h5_library_rows(s->helper, s->indexes[file]->path, d, first, rows, s->cache_limit, chunk->data,
                                      &chunk->heap, &chunk->heap_bytes, err);
    if (status != STK_OK && stk__now_ns() - start > HANG_NS)
        atomic_store(&part->given_up, true); /* every further chunk would take as long */
    call->host->count_read(call, rows * (int64_t)d->row_bytes);
    call->host->waited(call, "libhdf5", start);
    return status;
}

/* Keeps what went wrong with a chunk. A file that changed meanwhile is a better reason than what its bytes look like now. */
static void chunk_failed(const stk_call *call, const claim *c, stk_error *error)
{
    const stk__h5_source *s = call->state;
    const uint64_t number = c->chunk->key.number;
    const stk__h5_chunk *stored = c->dataset->way == STK__H5_BY_CHUNK ? stk__h5_find(c->dataset, number) : NULL;
    stk_error changed;
    stk_error_clear(&changed);
    if (error->status == STK_CORRUPT && stk__file_pool_check_unchanged(s->pool, c->file, &changed) != STK_OK)
        *error = changed;
    if (c->dataset->way == STK__H5_BY_LIBRARY && c->dataset->why) {
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, " (read by libhdf5: %.200s)", c->dataset->why);
    }
    place_error(s->indexes[c->file], c->dataset, number, stored ? (int64_t)stored->address : -1, error);
    c->chunk->error = keep_error(error);
}

/* Fills one chunk or two, and publishes them. Two take less time together where their compression allows. */
static void fill_chunks(const stk_call *call, const claim *claims, int count)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    stk__h5_job jobs[2];
    stk_status status[2] = {STK_OK, STK_OK};
    stk_error errors[2];
    bool decode[2] = {false, false};
    for (int i = 0; i < count; i++) {
        stk_error_clear(&errors[i]);
        if (claims[i].dataset->way == STK__H5_BY_LIBRARY)
            status[i] = ask_library(call, claims[i].file, claims[i].dataset, claims[i].chunk, &errors[i]);
        else
            decode[i] = read_chunk(call, &claims[i], i, &jobs[i], &status[i], &errors[i]);
    }
    if (decode[0] && decode[1])
        stk__h5_decode_pair(r->decoder, (const stk__h5_job *const[2]){&jobs[0], &jobs[1]}, status,
                            (stk_error *const[2]){&errors[0], &errors[1]});
    else
        for (int i = 0; i < count; i++)
            status[i] = decode[i] ? stk__h5_decode(r->decoder, &jobs[i], &errors[i]) : status[i];
    for (int i = 0; i < count; i++) {
        if (status[i] != STK_OK)
            chunk_failed(call, &claims[i], &errors[i]);
        stk__chunk_cache_publish(s->cache, claims[i].chunk);
    }
}

/* Whether to look for a second chunk to go with this one. */
static bool wants_partner(const claim *c)
{
    const stk__h5_dataset *d = c->dataset;
    const stk__h5_chunk *stored = d->way == STK__H5_BY_CHUNK ? stk__h5_find(d, c->chunk->key.number) : NULL;
    const stk__h5_job job = {.filters = d->filters,
                             .filter_count = d->filter_count,
                             .in_size = stored ? (size_t)stored->size : 0,
                             .out_size = d->chunk_bytes};
    return stored && stk__h5_pairs_well(&job);
}

static stk__chunk_wish wish_for(int32_t file, size_t dataset, const stk__h5_dataset *d, uint64_t number, bool gently)
{
    const int64_t block = (int64_t)(number / (uint64_t)d->across);
    return (stk__chunk_wish){.key = {file, (int32_t)dataset, number},
                             .bytes = d->chunk_bytes + STK__H5_AIR,
                             .rows = STK_MIN(d->block_rows, d->rows - block * d->block_rows),
                             .gently = gently};
}

/* ---- working ahead ---- */

static bool in_chunks(const stk__h5_dataset *d)
{
    return d->way == STK__H5_BY_CHUNK || d->way == STK__H5_BY_LIBRARY;
}

/* Claims a chunk of this row that is not there yet; *seen adds up those that are. */
static bool claim_of_row(const stk_call *call, int32_t file, int64_t row, size_t *seen, claim *out)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    for (size_t i = 0; i < s->dataset_count; i++) {
        const stk__h5_part *part = stk__h5_part_of(s, file, i);
        const stk__h5_dataset *d = part->dataset;
        bool needed = false;
        for (size_t k = 0; k < s->field_count; k++)
            needed = needed || part->leaves[k];
        for (int64_t j = 0; needed && in_chunks(d) && j < d->across; j++) {
            const uint64_t number = (uint64_t)(row / d->block_rows * d->across + j);
            const stk__chunk_wish wish = wish_for(file, i, d, number, true);
            stk__chunk_state state;
            if (j == 0 && r->looked[i] == number)
                break; /* the row before lies in the same chunks */
            if (j == 0)
                r->looked[i] = number;
            *seen += wish.bytes;
            if (stk__chunk_cache_has(s->cache, &wish.key))
                continue;
            *out = (claim){file, d, NULL};
            if (stk__chunk_cache_get(s->cache, &wish, &state, &out->chunk, NULL) != STK_OK || state == STK__CHUNK_FULL) {
                *seen = AHEAD_BYTES; /* nothing more to be done */
                return false;
            }
            if (state == STK__CHUNK_MINE)
                return true;
            if (state == STK__CHUNK_READY)
                stk__chunk_cache_release(s->cache, out->chunk, 0);
        }
    }
    return false;
}

/* Claims the next chunk that will be needed within so many looks, if there is one that nobody has. */
static bool claim_ahead(const stk_call *call, int64_t end, claim *out)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    int64_t index;
    if (!call->host->peek(call, 0, &index))
        return false;
    if (index != r->ahead_of) {
        r->ahead_of = index;
        r->look = 0;
        r->seen_bytes = 0;
        r->looked_file = -1;
    }
    for (; r->look < end && r->seen_bytes < AHEAD_BYTES; r->look++) {
        if (!call->host->peek(call, r->look * s->stride, &index))
            return false;
        const int32_t file = stk__h5_file_of(s, index);
        size_t seen = 0;
        if (file != r->looked_file) /* chunks of another file have the same numbers */
            memset(r->looked, 0xff, s->dataset_count * sizeof *r->looked);
        r->looked_file = file;
        const bool found = claim_of_row(call, file, index - s->firsts[file], &seen, out);
        if (found || seen >= AHEAD_BYTES) {
            r->looked_file = -1; /* this row is looked at once more: it may need others, too */
            return found;
        }
        r->seen_bytes += seen;
    }
    return false;
}

stk_status stk__h5_ahead(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    claim claims[2];
    if (!s->cache || !claim_ahead(call, AHEAD_LOOKS, &claims[0]))
        return STK_END;
    const int64_t end = STK_MIN(((const reader *)call->worker)->look + PARTNER_LOOKS, (int64_t)AHEAD_LOOKS);
    const int count = wants_partner(&claims[0]) && claim_ahead(call, end, &claims[1]) ? 2 : 1;
    fill_chunks(call, claims, count);
    bool failed = false;
    for (int i = 0; i < count; i++) {
        failed = failed || claims[i].chunk->error;
        stk__chunk_cache_release(s->cache, claims[i].chunk, 0);
    }
    /* Chunks without data are the first to go: two such would make room for each other, and be tried again, for ever. */
    return failed ? STK_END : STK_OK;
}

/* ---- values ---- */

static bool is_number(const stk__h5_leaf *leaf)
{
    return leaf->kind <= STK__H5_KIND_BOOL;
}

static size_t raw_bytes(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    return (size_t)d->row_elements * (size_t)leaf->count * leaf->size;
}

static uint8_t **outs_of(const reader *r, size_t field)
{
    return r->outs + field * r->count;
}

static void sample_failed(reader *r, uint32_t sample, const stk_error *error)
{
    if (!r->errors[sample])
        r->errors[sample] = keep_error(error);
}

static void rows_failed(reader *r, size_t from, size_t to, const stk_error *error)
{
    for (size_t i = from; i < to; i++) {
        stk_error one = *error;
        one.record = r->places[i].row;
        sample_failed(r, r->places[i].sample, &one);
    }
}

/* How many places from `at` on are consecutive rows whose values go behind each other. */
static size_t run_of(const reader *r, uint8_t *const *outs, size_t stride, size_t at, size_t to)
{
    size_t n = 1;
    while (at + n < to && r->places[at + n].row == r->places[at + n - 1].row + 1 &&
           outs[r->places[at + n].sample] == outs[r->places[at + n - 1].sample] + stride)
        n++;
    return n;
}

/* Contents of variable length: found while the chunk that holds them, if one does, is held. */
typedef struct contents {
    const stk_call *call;
    const stk__h5_dataset *dataset;
    int32_t file;
    int fd;                 /* -1: in memory */
    const uint8_t *heap;
    size_t heap_bytes;
} contents;

static stk_status get_contents(const contents *c, const uint8_t *descriptor, size_t unit, const uint8_t **out, size_t *out_size,
                               stk_error *err)
{
    const stk__h5_source *s = c->call->state;
    const reader *r = c->call->worker;
    if (c->fd < 0)
        return stk__h5_inline_get(c->heap, c->heap_bytes, descriptor, unit, out, out_size, err);
    return stk__h5_heap_get(r->heap, s->indexes[c->file], c->fd, descriptor, unit, out, out_size, err);
}

/* One string or opaque value, as a view into `data` or on a copy of its contents. */
static stk_status string_value(const contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf, const uint8_t *data,
                               stk_bytes *out, stk_error *err)
{
    const uint8_t *from = data;
    size_t size = leaf->size;
    if (leaf->kind == STK__H5_KIND_VLEN_STRING)
        STK_TRY(get_contents(c, data, 1, &from, &size, err));
    else if (leaf->kind == STK__H5_KIND_STRING)
        size = stk__h5_string_length(leaf, data);
    uint8_t *copy = f->ndim == 0 ? stk_bytes_block(c->call, f->id, size, err) : stk_scratch(c->call, size, err);
    if (!copy)
        return err->status;
    if (size)
        memcpy(copy, from, size);
    *out = (stk_bytes){copy, (int64_t)size};
    return STK_OK;
}

static stk_status make_strings(const contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf, const uint8_t *raw,
                               stk_sample *sample, stk_error *err)
{
    if (f->ndim == 0) {
        stk_bytes one;
        STK_TRY(string_value(c, f, leaf, raw, &one, err));
        stk_set_bytes(c->call, sample, f->id, one.data, one.size, true);
        return STK_OK;
    }
    stk_bytes *views = stk_out(c->call, sample, f->id, NULL, err);
    if (!views)
        return err->status;
    const int64_t count = c->dataset->row_elements * leaf->count;
    for (int64_t i = 0; i < count; i++)
        STK_TRY(string_value(c, f, leaf, raw + (size_t)i * leaf->size, &views[i], err));
    return STK_OK;
}

static stk_status make_sequence(const contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf, const uint8_t *raw,
                                stk_sample *sample, stk_error *err)
{
    const uint8_t *from;
    size_t size;
    STK_TRY(get_contents(c, raw, leaf->base_size, &from, &size, err));
    int64_t shape[STK_MAX_DIMS];
    memcpy(shape, f->shape, sizeof shape);
    shape[f->ndim - 1] = (int64_t)(size / leaf->base_size);
    uint8_t *out = stk_out(c->call, sample, f->id, shape, err);
    if (!out)
        return err->status;
    if (size)
        memcpy(out, from, size);
    if (leaf->base_swap)
        stk__swap_bytes(out, out, size / leaf->base_size, leaf->base_size);
    return STK_OK;
}

static void name_dataset(const stk__h5_dataset *d, stk_error *error)
{
    char message[sizeof error->message];
    stk__text t;
    stk__text_fixed(&t, message, sizeof message);
    stk__text_printf(&t, "dataset '%.200s': %s", d->path, error->message);
    memcpy(error->message, message, sizeof message);
}

/* Values of variable length and strings for places [from, to), out of their raw form. */
static void make_values(const contents *c, size_t field, const stk__h5_leaf *leaf, size_t from, size_t to)
{
    const stk__h5_source *s = c->call->state;
    reader *r = c->call->worker;
    const stk__h5_field *f = &s->fields[field];
    for (size_t i = from; i < to; i++) {
        const place *p = &r->places[i];
        const uint8_t *raw = outs_of(r, field)[p->sample];
        stk_error error;
        stk_error_clear(&error);
        if (r->errors[p->sample])
            continue;
        const stk_status status = leaf->kind == STK__H5_KIND_VLEN
                                      ? make_sequence(c, f, leaf, raw, r->samples[p->sample], &error)
                                      : make_strings(c, f, leaf, raw, r->samples[p->sample], &error);
        if (status == STK_OK)
            continue;
        snprintf(error.file, sizeof error.file, "%s", s->indexes[p->file]->path);
        snprintf(error.field, sizeof error.field, "%s", f->name);
        error.record = p->row;
        name_dataset(c->dataset, &error);
        sample_failed(r, p->sample, &error);
    }
}

/* ---- from a chunk, or from rows as they lie in the file ---- */

/* Whether a chunk holds whole rows, one behind the other, as they go into the batch. */
static bool has_plain_rows(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    bool whole = d->way == STK__H5_BY_CHUNK && leaf->whole && is_number(leaf) && !leaf->swap && d->across == 1;
    for (int32_t i = 1; i < d->rank; i++)
        whole = whole && d->chunk_dims[i] == d->dims[i];
    return whole;
}

/* Rows of which there are many, and that nobody reads before the batch is handed over, go past the caches. */
static void take_past(const stk__h5_dataset *d, const stk__h5_leaf *leaf, const stk__chunk *chunk, int64_t row, size_t n, uint8_t *out)
{
    const size_t first = (size_t)(row % d->block_rows) * (size_t)d->row_elements, count = n * (size_t)d->row_elements;
    if (chunk->plain)
        stk__copy_past(out, chunk->data + first * d->element_bytes, count * d->element_bytes);
    else
        stk__unshuffle_past(out, chunk->data, d->chunk_elements, first, count, leaf->size);
}

/* Takes the rows of an errand out of a chunk that is held. */
static void deliver(const stk_call *call, const errand *e, const stk__chunk *chunk)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    const int32_t file = r->places[e->from].file;
    const stk__h5_part *part = stk__h5_part_of(s, file, e->dataset);
    const stk__h5_dataset *d = part->dataset;
    for (size_t k = 0; k < s->field_count; k++) {
        const stk__h5_leaf *leaf = part->leaves[k];
        if (!leaf)
            continue;
        uint8_t *const *outs = outs_of(r, k);
        const size_t stride = raw_bytes(d, leaf);
        const bool past = call->slots[s->fields[k].id].unread && has_plain_rows(d, leaf);
        for (size_t i = e->from, n; i < e->to; i += n) {
            n = run_of(r, outs, stride, i, e->to);
            uint8_t *out = outs[r->places[i].sample];
            const int64_t row = r->places[i].row;
            if (past && n * stride >= PAST_BYTES)
                take_past(d, leaf, chunk, row, n, out);
            else if (d->way == STK__H5_BY_LIBRARY)
                stk__h5_take_rows(d, leaf, chunk->data + (size_t)(row % d->block_rows) * d->row_bytes, (int64_t)n, out, stride);
            else
                stk__h5_take(d, leaf, chunk->key.number, chunk->data, chunk->plain, row, (int64_t)n, out, stride);
        }
        if (d->way == STK__H5_BY_LIBRARY && !is_number(leaf)) {
            const contents c = {call, d, file, -1, chunk->heap, chunk->heap_bytes};
            make_values(&c, k, leaf, e->from, e->to);
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
        if (found >= 0 || !part->leaves[k]->whole || !is_number(part->leaves[k]) || part->leaves[k]->swap)
            return -1;
        found = (int)k;
    }
    return found;
}

/* Rows places[from, from + n), one behind the other in the file, through scratch memory. */
static stk_status read_run(const stk_call *call, const stk__h5_part *part, size_t from, size_t n, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    const stk__h5_dataset *d = part->dataset;
    const place *p = &r->places[from];
    const size_t bytes = n * d->row_bytes;
    const int64_t offset = d->way == STK__H5_BY_MEMORY ? 0 : row_offset(d, p->row);
    const int direct = d->way == STK__H5_BY_PLACE && offset >= 0 ? plain_field(s, part) : -1;
    if (direct >= 0 && run_of(r, outs_of(r, (size_t)direct), d->row_bytes, from, from + n) == n)
        return read_bytes(call, p->file, outs_of(r, (size_t)direct)[p->sample], bytes, offset, err);
    uint8_t *data = d->compact + (d->way == STK__H5_BY_MEMORY ? (size_t)p->row * d->row_bytes : 0);
    if (d->way == STK__H5_BY_PLACE) {
        data = stk_scratch(call, bytes, err);
        if (!data)
            return err->status;
        if (offset < 0)
            stk__h5_fill(d, data, n * (size_t)d->row_elements);
        else
            STK_TRY(read_bytes(call, p->file, data, bytes, offset, err));
    }
    for (size_t k = 0; k < s->field_count; k++) {
        if (!part->leaves[k])
            continue;
        const size_t stride = raw_bytes(d, part->leaves[k]);
        for (size_t i = from, m; i < from + n; i += m) {
            m = run_of(r, outs_of(r, k), stride, i, from + n);
            stk__h5_take_rows(d, part->leaves[k], data + (i - from) * d->row_bytes, (int64_t)m,
                              outs_of(r, k)[r->places[i].sample], stride);
        }
    }
    return STK_OK;
}

/* Datasets whose rows can be read where they lie. */
static void read_places(const stk_call *call, size_t dataset)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    for (size_t i = 0, n; i < r->count; i += n) {
        const place *p = &r->places[i];
        const stk__h5_part *part = stk__h5_part_of(s, p->file, dataset);
        const stk__h5_dataset *d = part->dataset;
        n = 1;
        if (in_chunks(d))
            continue;
        const int64_t most = STK_MAX(RUN_BYTES / (int64_t)STK_MAX(d->row_bytes, 1), 1);
        while (i + n < r->count && p[n].file == p->file && p[n].row == p->row + (int64_t)n && (int64_t)n < most &&
               p[n].row / d->block_rows == p->row / d->block_rows)
            n++;
        stk_error error;
        stk_error_clear(&error);
        if (read_run(call, part, i, n, &error) == STK_OK)
            continue;
        snprintf(error.file, sizeof error.file, "%s", s->indexes[p->file]->path);
        rows_failed(r, i, i + n, &error);
    }
}

/* ---- what has to be done for the samples at hand ---- */

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->sample < y->sample ? -1 : 1;
}

static stk_status find_places(reader *r, const stk__h5_source *s, stk_sample *const *samples, size_t n, stk_error *err)
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
        place *p = &r->places[i];
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

/* Memory for the values of one field: in the batch where numbers are to be stored as they are, else for their raw form. */
static stk_status place_field(const stk_call *call, size_t field, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    const stk__h5_field *f = &s->fields[field];
    uint8_t **outs = outs_of(r, field);
    const stk__h5_part *part = stk__h5_part_of(s, 0, f->dataset);
    if (is_number(part->leaves[field])) {
        for (size_t i = 0; i < r->count; i++) {
            outs[i] = stk_out(call, r->samples[i], f->id, NULL, err);
            if (!outs[i])
                return err->status;
        }
        return STK_OK;
    }
    /* The stored form may differ from file to file: the largest will do. */
    size_t each = 0;
    for (int32_t file = 0; file < s->file_count; file++) {
        const stk__h5_part *other = stk__h5_part_of(s, file, f->dataset);
        each = STK_MAX(each, raw_bytes(other->dataset, other->leaves[field]));
    }
    uint8_t *raw = stk_scratch(call, each * r->count, err);
    if (!raw)
        return err->status;
    for (size_t i = 0; i < r->count; i++)
        outs[i] = raw + i * each;
    return STK_OK;
}

/* One errand for each chunk that the samples need of a dataset. */
static stk_status plan_errands(const stk_call *call, size_t dataset, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    for (size_t i = 0, n; i < r->count; i += n) {
        const place *p = &r->places[i];
        const stk__h5_dataset *d = stk__h5_part_of(s, p->file, dataset)->dataset;
        n = 1;
        if (!in_chunks(d))
            continue;
        while (i + n < r->count && p[n].file == p->file && p[n].row / d->block_rows == p->row / d->block_rows)
            n++;
        if (!stk__grow((void **)&r->errands, &r->errand_capacity, r->errand_count + (size_t)d->across, sizeof *r->errands))
            return stk__nomem(r->errand_count * sizeof *r->errands, err);
        for (int64_t j = 0; j < d->across; j++)
            r->errands[r->errand_count++] = (errand){i, i + n, dataset, j};
    }
    return STK_OK;
}

static stk__chunk_wish errand_wish(const stk_call *call, const errand *e)
{
    const stk__h5_source *s = call->state;
    const reader *r = call->worker;
    const place *p = &r->places[e->from];
    const stk__h5_dataset *d = stk__h5_part_of(s, p->file, e->dataset)->dataset;
    return wish_for(p->file, e->dataset, d, (uint64_t)(p->row / d->block_rows * d->across + e->across), false);
}

/* Claims a chunk of one of the next errands. */
static bool claim_later(const stk_call *call, size_t from, claim *out)
{
    const stk__h5_source *s = call->state;
    const reader *r = call->worker;
    for (size_t i = from; i < r->errand_count && i < from + PARTNER_ERRANDS; i++) {
        const stk__chunk_wish wish = errand_wish(call, &r->errands[i]);
        stk__chunk_state state;
        *out = (claim){wish.key.file, stk__h5_part_of(s, wish.key.file, r->errands[i].dataset)->dataset, NULL};
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
static void fill_errand(const stk_call *call, size_t number, claim mine)
{
    const stk__h5_source *s = call->state;
    claim claims[2] = {mine};
    int count = 1;
    if (wants_partner(&mine))
        count += claim_later(call, number + 1, &claims[1]) || claim_ahead(call, PARTNER_LOOKS, &claims[1]);
    fill_chunks(call, claims, count);
    if (count == 2)
        stk__chunk_cache_release(s->cache, claims[1].chunk, 0);
}

/* Does one errand when its chunk can be had now. */
static stk_status run_errand(const stk_call *call, size_t number, bool *out_done, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    const errand *e = &r->errands[number];
    const stk__chunk_wish wish = errand_wish(call, e);
    stk__chunk_state state;
    stk__chunk *chunk;
    *out_done = false;
    STK_TRY(stk__chunk_cache_get(s->cache, &wish, &state, &chunk, err));
    if (!chunk)
        return STK_OK;
    if (state == STK__CHUNK_MINE)
        fill_errand(call, number, (claim){wish.key.file, stk__h5_part_of(s, wish.key.file, e->dataset)->dataset, chunk});
    if (chunk->error)
        rows_failed(r, e->from, e->to, chunk->error);
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
    reader *r = call->worker;
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
    reader *r = call->worker;
    for (size_t i = 0, n; i < r->count; i += n) {
        const int32_t file = r->places[i].file;
        const stk__h5_part *part = stk__h5_part_of(s, file, s->fields[field].dataset);
        const stk__h5_leaf *leaf = part->leaves[field];
        for (n = 1; i + n < r->count && r->places[i + n].file == file; n++)
            ;
        if (is_number(leaf) || part->dataset->way == STK__H5_BY_LIBRARY)
            continue;
        contents c = {call, part->dataset, file, -1, NULL, 0};
        const bool heap = leaf->kind == STK__H5_KIND_VLEN || leaf->kind == STK__H5_KIND_VLEN_STRING;
        stk_error error;
        stk_error_clear(&error);
        if (heap && stk__file_pool_acquire(s->pool, file, &c.fd, &error) != STK_OK) {
            rows_failed(r, i, i + n, &error);
            continue;
        }
        make_values(&c, field, leaf, i, i + n);
        if (heap)
            stk__file_pool_release(s->pool, file);
    }
}

stk_status stk__h5_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const stk__h5_source *s = call->state;
    reader *r = call->worker;
    for (size_t i = 0; i < r->count; i++) /* of samples that were not processed */
        drop_error(&r->errors[i]);
    r->count = 0;
    r->errand_count = 0;
    STK_TRY(find_places(r, s, samples, n, err));
    for (size_t k = 0; k < s->field_count; k++)
        if (s->fields[k].needed)
            STK_TRY(place_field(call, k, err));
    for (size_t i = 0; i < s->dataset_count; i++) {
        bool needed = false;
        for (size_t k = 0; k < s->field_count; k++)
            needed = needed || (s->fields[k].needed && s->fields[k].dataset == i);
        if (!needed)
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
    reader *r = call->worker;
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
    drop_error(&r->errors[i]);
    return status;
}
