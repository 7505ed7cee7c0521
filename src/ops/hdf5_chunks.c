/* Chunks of HDF5 datasets: read, decoded alone or in pairs, also those that will be needed soon. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "ops/hdf5_reader.h"

#include "base/banned.h"

/* Chunks that lie in memory for later: at most so many bytes are decoded ahead, and so many places looked at. */
#define AHEAD_BYTES ((size_t)256 << 20)
#define AHEAD_LOOKS 4096
/* A failure of libhdf5 that took this long was a hang. */
#define HANG_NS ((int64_t)30 * 1000000000)

const stk_error *stk__h5_keep_error(const stk_error *error)
{
    stk_error *copy = stk__alloc(sizeof *copy);
    if (!copy)
        return &stk__chunk_nomem;
    *copy = *error;
    return copy;
}

void stk__h5_drop_error(const stk_error **error)
{
    stk__chunk_error_free(*error);
    *error = NULL;
}

void stk__h5_sample_failed(stk__h5_reader *r, uint32_t sample, const stk_error *error)
{
    if (!r->errors[sample])
        r->errors[sample] = stk__h5_keep_error(error);
}

void stk__h5_rows_failed(stk__h5_reader *r, size_t from, size_t to, const stk_error *error)
{
    for (size_t i = from; i < to; i++) {
        stk_error one = *error;
        one.record = r->places[i].row;
        stk__h5_sample_failed(r, r->places[i].sample, &one);
    }
}

/* ---- filling a chunk ---- */

/* "dataset '/x', chunk (3, 0): " before the message, and where the chunk lies. */
static void place_error(const stk__h5_file *file, const stk__h5_dataset *d, uint64_t number, int64_t offset,
                        stk_error *error)
{
    char place[256];
    stk__text t;
    stk__text_fixed(&t, place, sizeof place);
    uint64_t rest = number % (uint64_t)STK_MAX(d->across, 1), divisor = (uint64_t)d->across;
    for (int32_t i = 1; i < d->rank; i++) {
        divisor /= (uint64_t)STK_MAX(d->grid[i], 1);
        stk__text_printf(&t, ", %llu", (unsigned long long)(rest / STK_MAX(divisor, 1)));
        rest %= STK_MAX(divisor, 1);
    }
    stk__error_prefix(error, "dataset '%.200s', chunk (%lld%s): ", d->path,
                      (long long)((int64_t)number / STK_MAX(d->across, 1)), place);
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

stk_status stk__h5_read_bytes(const stk_call *call, int32_t file, uint8_t *out, size_t size, int64_t offset, bool look,
                              stk_error *err)
{
    const stk__h5_source *s = call->state;
    int fd;
    STK_TRY(stk__file_pool_acquire(s->pool, file, &fd, err));
    stk_status status = stk__pread_full(fd, out, size, offset, s->indexes[file]->path, err);
    stk_error changed;
    stk_error_clear(&changed);
    const stk_status same =
        look || status != STK_OK ? stk__file_pool_recheck(s->pool, file, fd, &changed) : STK_OK;
    if (same != STK_OK) { /* the better reason, when both failed */
        status = same;
        *err = changed;
    }
    stk__file_pool_release(s->pool, file);
    call->host->count_read(call, (int64_t)size);
    return status;
}

/* Reads what is stored of a chunk and sets up its decoding. False: there is nothing to decode, or it failed. */
static bool read_chunk(const stk_call *call, const stk__h5_claim *c, int slot, stk__h5_job *job, stk_status *status,
                       stk_error *err)
{
    stk__h5_reader *r = call->worker;
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
        *status = stk__h5_read_bytes(call, c->file, r->stored[slot], size, (int64_t)stored->address, true, err);
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

static stk_status ask_library(const stk_call *call, int32_t file, const stk__h5_dataset *d, stk__chunk *chunk,
                              stk_error *err)
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
    if (status == STK_OK) /* libhdf5 looks at nothing itself */
        status = stk__file_pool_check_unchanged(s->pool, file, err);
    if (status != STK_OK && stk__now_ns() - start > HANG_NS)
        atomic_store(&part->given_up, true); /* every further chunk would take as long */
    call->host->count_read(call, rows * (int64_t)d->row_bytes);
    call->host->waited(call, "libhdf5", start);
    return status;
}

/*
 * Keeps what went wrong with a chunk. A file that changed meanwhile is a better reason than what its bytes look like
 * now.
 */
static void chunk_failed(const stk_call *call, const stk__h5_claim *c, stk_error *error)
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
    c->chunk->error = stk__h5_keep_error(error);
}

/* Fills one chunk or two, and publishes them. Two take less time together where their compression allows. */
void stk__h5_fill_chunks(const stk_call *call, const stk__h5_claim *claims, int count)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
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
bool stk__h5_wants_partner(const stk__h5_claim *c)
{
    const stk__h5_dataset *d = c->dataset;
    const stk__h5_chunk *stored = d->way == STK__H5_BY_CHUNK ? stk__h5_find(d, c->chunk->key.number) : NULL;
    const stk__h5_job job = {.filters = d->filters,
                             .filter_count = d->filter_count,
                             .in_size = stored ? (size_t)stored->size : 0,
                             .out_size = d->chunk_bytes};
    return stored && stk__h5_pairs_well(&job);
}

stk__chunk_wish stk__h5_wish(int32_t file, size_t dataset, const stk__h5_dataset *d, uint64_t number, bool gently)
{
    const int64_t block = (int64_t)(number / (uint64_t)d->across);
    return (stk__chunk_wish){.key = {file, (int32_t)dataset, number},
                             .bytes = d->chunk_bytes + STK__H5_AIR,
                             .rows = STK_MIN(d->block_rows, d->rows - block * d->block_rows),
                             .gently = gently};
}

/* ---- working ahead ---- */

/* Claims a chunk of this row that is not there yet; *seen adds up those that are. */
static bool claim_of_row(const stk_call *call, int32_t file, int64_t row, size_t *seen, stk__h5_claim *out)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
    for (size_t i = 0; i < s->dataset_count; i++) {
        const stk__h5_dataset *d = stk__h5_part_of(s, file, i)->dataset;
        for (int64_t j = 0; s->is_read[i] && stk__h5_in_chunks(d) && j < d->across; j++) {
            const uint64_t number = (uint64_t)(row / d->block_rows * d->across + j);
            const stk__chunk_wish wish = stk__h5_wish(file, i, d, number, true);
            stk__chunk_state state;
            if (j == 0 && r->looked[i] == number)
                break; /* the row before lies in the same chunks */
            if (j == 0)
                r->looked[i] = number;
            *seen += wish.bytes;
            if (stk__chunk_cache_has(s->cache, &wish.key))
                continue;
            *out = (stk__h5_claim){file, d, NULL};
            if (stk__chunk_cache_get(s->cache, &wish, &state, &out->chunk, NULL) != STK_OK ||
                state == STK__CHUNK_FULL) {
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
bool stk__h5_claim_ahead(const stk_call *call, int64_t end, stk__h5_claim *out)
{
    const stk__h5_source *s = call->state;
    stk__h5_reader *r = call->worker;
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
    stk__h5_claim claims[2];
    if (!s->cache || !stk__h5_claim_ahead(call, AHEAD_LOOKS, &claims[0]))
        return STK_END;
    const int64_t end =
        STK_MIN(((const stk__h5_reader *)call->worker)->look + STK__H5_PARTNER_LOOKS, (int64_t)AHEAD_LOOKS);
    const int count = stk__h5_wants_partner(&claims[0]) && stk__h5_claim_ahead(call, end, &claims[1]) ? 2 : 1;
    stk__h5_fill_chunks(call, claims, count);
    bool failed = false;
    for (int i = 0; i < count; i++) {
        failed = failed || claims[i].chunk->error;
        stk__chunk_cache_release(s->cache, claims[i].chunk, 0);
    }
    /*
     * Chunks without data are the first to go: two such would make room for each other, and be tried again, for ever.
     */
    return failed ? STK_END : STK_OK;
}
