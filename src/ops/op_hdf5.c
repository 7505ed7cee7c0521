/* hdf5: read rows of HDF5 datasets, chunks decoded by the workers. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/file_look.h"
#include "formats/index_cache.h"
#include "ops/hdf5_source.h"

#include "base/banned.h"

#define HEAP_BYTES ((int64_t)4 << 20)
/* Rows without values make blocks of any size; looks ahead must stay numbers. */
#define STRIDE_MOST ((int64_t)1 << 40)
/* Sizes are added up to this each, so that sums stay numbers. */
#define SATURATED ((uint64_t)INT64_MAX / 4096)

static stk_status hdf5_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    stk__h5_source *s = state;
    for (size_t i = 0; i < s->paths.count; i++)
        STK_TRY(stk__paths_glob(&s->files, s->paths.items[i], err));
    if (s->files.count == 0)
        return host->fail(err, STK_INVALID, "paths is empty, wanted at least one file");
    STK_TRY(stk__h5_helper_new(&s->helper, err));
    STK_TRY(stk__h5_choose_fields(s, host, err));
    for (size_t i = 0; i < s->field_count; i++) {
        stk__h5_field *f = &s->fields[i];
        stk_field field = {.name = f->name, .dtype = f->dtype, .ndim = f->ndim};
        memcpy(field.shape, f->shape, sizeof field.shape);
        STK_TRY(host->plan_write(plan, &field, &f->id, err));
    }
    host->plan_describe(plan, &s->description);
    return STK_OK;
}

/* ---- opening ---- */

static stk_status lose_file(stk__h5_source *s, stk_error *error, const char *path, stk_error *err)
{
    if (!stk__grow((void **)&s->lost, &s->lost_capacity, s->lost_count + 1, sizeof *s->lost))
        return stk__nomem(sizeof *s->lost, err);
    if (!error->file[0])
        snprintf(error->file, sizeof error->file, "%s", path);
    s->lost[s->lost_count++] = *error;
    return STK_OK;
}

/*
 * Indexes one file. What is wrong with it becomes damage, so that the run's policy decides; what the user can mend
 * ends the run.
 */
static stk_status add_file(const stk_call *call, const char *path, stk_error *err)
{
    stk__h5_source *s = call->state;
    stk_error error;
    stk_error_clear(&error);
    stk__h5_file *file = NULL;
    stk__h5_part *parts = &s->parts[(size_t)s->file_count * s->dataset_count];
    stk_status status = stk__h5_index(s->helper, path, (const char *const *)s->datasets, s->dataset_count,
                                      call->host->open_info(call)->cache_dir, &file, &error);
    if (status == STK_OK)
        status = stk__h5_match_file(s, file, parts, &error);
    if (status == STK_OK &&
        __builtin_add_overflow(s->firsts[s->file_count], file->datasets[0].rows, &s->firsts[s->file_count + 1]))
        status = stk_error_set(&error, STK_INVALID, "%lld rows and %lld of the files before are more than 2^63",
                               (long long)file->datasets[0].rows, (long long)s->firsts[s->file_count]);
    if (status == STK_OK) {
        s->indexes[s->file_count] = file;
        s->file_count++;
        return STK_OK;
    }
    for (size_t i = 0; i < s->dataset_count; i++) {
        stk__free(parts[i].leaves);
        parts[i].leaves = NULL;
    }
    stk__h5_file_free(file);
    if (status == STK_IO || status == STK_CORRUPT)
        return lose_file(s, &error, path, err);
    if (err) {
        *err = error;
        snprintf(err->file, sizeof err->file, "%s", path);
    }
    return status;
}

static stk_status index_files(const stk_call *call, stk_error *err)
{
    stk__h5_source *s = call->state;
    const size_t n = s->files.count;
    s->indexes = stk__calloc(n, sizeof(stk__h5_file *));
    s->parts = stk__calloc(n * s->dataset_count, sizeof *s->parts);
    s->firsts = stk__calloc(n + 1, sizeof *s->firsts);
    if (!s->indexes || !s->parts || !s->firsts)
        return stk__nomem(n * s->dataset_count * sizeof *s->parts, err);
    const int64_t start_s = (int64_t)time(NULL);
    for (size_t i = 0; i < n; i++) {
        if (!call->host->progress(call, "indexing", (int64_t)i, (int64_t)n))
            return call->host->fail(err, STK_CANCELLED, "the run was cancelled");
        STK_TRY(add_file(call, s->files.items[i], err));
    }
    size_t saved = 0;
    for (int32_t i = 0; i < s->file_count; i++)
        saved += !s->indexes[i]->cached;
    const char *cache_dir = call->host->open_info(call)->cache_dir;
    if (cache_dir && saved)
        stk__index_cache_trim(cache_dir, 0, start_s, saved);
    return STK_OK;
}

static stk_status open_pool(stk__h5_source *s, stk_error *err)
{
    stk__pool_file *files = stk__calloc((size_t)s->file_count + 1, sizeof *files);
    if (!files)
        return stk__nomem((size_t)s->file_count * sizeof *files, err);
    for (int32_t i = 0; i < s->file_count; i++)
        files[i] = (stk__pool_file){s->indexes[i]->path, s->indexes[i]->id};
    const stk_status status = stk__file_pool_new(files, s->file_count, &s->pool, err);
    stk__free(files);
    return status;
}

static bool has_heap(const stk__h5_dataset *d)
{
    bool any = false;
    for (size_t i = 0; i < d->leaf_count; i++)
        any = any || d->leaves[i].kind >= STK__H5_KIND_VLEN_STRING;
    return any;
}

/* Adds the sizes of one dataset of one file to what reading takes at most. Returns the bytes of all its chunks. */
static uint64_t measure_dataset(stk__h5_source *s, const stk__h5_dataset *d)
{
    const size_t bytes = d->chunk_bytes + STK__H5_AIR;
    const size_t left = d->keep_shuffled; /* filters that decoding leaves alone */
    size_t stored = d->way == STK__H5_BY_LIBRARY ? d->chunk_bytes : 0;
    for (size_t i = 0; i < d->chunk_count; i++)
        stored = STK_MAX(stored, (size_t)d->chunks[i].size);
    s->chunk_max = STK_MAX(s->chunk_max, bytes);
    s->stored_max = STK_MAX(s->stored_max, stored);
    s->scratch_max = STK_MAX(s->scratch_max,
                             stk__h5_decoder_memory(d->filters + left, d->filter_count - left, stored, d->chunk_bytes));
    uint64_t all;
    if (d->way == STK__H5_BY_LIBRARY && has_heap(d)) /* contents of any length come with the rows */
        return UINT64_MAX;
    return __builtin_mul_overflow((uint64_t)bytes, (uint64_t)d->blocks * (uint64_t)d->across, &all) ? UINT64_MAX : all;
}

/* The stored form of a field may differ from file to file: the largest counts. */
static void measure_fields(stk__h5_source *s)
{
    for (int32_t f = 0; f < s->file_count; f++) {
        for (size_t k = 0; k < s->field_count; k++) {
            const stk__h5_part *part = stk__h5_part_of(s, f, s->fields[k].dataset);
            if (part->leaves[k])
                s->fields[k].raw_bytes =
                    STK_MAX(s->fields[k].raw_bytes, stk__h5_raw_bytes(part->dataset, part->leaves[k]));
        }
    }
}

/* Heaps that workers keep, where there are values of variable length that we find ourselves. */
static size_t heap_share(const stk__h5_source *s, const stk_open_info *info)
{
    bool any = false;
    for (int32_t f = 0; f < s->file_count; f++) {
        for (size_t i = 0; i < s->dataset_count * s->field_count; i++) {
            const stk__h5_part *part = stk__h5_part_of(s, f, i / s->field_count);
            const stk__h5_leaf *leaf = part->leaves[i % s->field_count];
            any = any || (leaf && leaf->kind >= STK__H5_KIND_VLEN_STRING && part->dataset->way != STK__H5_BY_LIBRARY);
        }
    }
    return any ? (size_t)STK_MIN(HEAP_BYTES, info->memory_bytes / 16 / info->threads) : 0;
}

/* How much memory chunks need, and which dataset's chunks are the ones to go by: those of the largest rows. */
static stk_status measure(const stk_call *call, stk_error *err)
{
    stk__h5_source *s = call->state;
    const stk_open_info *info = call->host->open_info(call);
    const int64_t budget = info->memory_bytes;
    uint64_t all = 0, row_max = 0;
    size_t lead_bytes = 0;
    s->lead = SIZE_MAX;
    s->stride = INT64_MAX;
    s->heap_bytes = heap_share(s, info);
    for (int32_t f = 0; f < s->file_count; f++) {
        uint64_t row_chunks = 0; /* bytes of the chunks that hold one row */
        for (size_t i = 0; i < s->dataset_count; i++) {
            const stk__h5_dataset *d = stk__h5_part_of(s, f, i)->dataset;
            if (!stk__h5_in_chunks(d) || !s->is_read[i])
                continue;
            row_chunks +=
                STK_MIN((uint64_t)d->chunk_bytes * (uint64_t)STK_MIN(d->across, STRIDE_MOST >> 10), SATURATED);
            row_max = STK_MAX(row_max, row_chunks);
            all += STK_MIN(measure_dataset(s, d), SATURATED);
            s->stride = STK_MIN(s->stride, STK_MAX(STK_MIN(d->block_rows, STRIDE_MOST) / 4, (int64_t)1));
            if (d->block_rows > 1 && d->row_bytes >= lead_bytes) {
                lead_bytes = d->row_bytes;
                s->lead = i;
            }
        }
    }
    uint64_t limit = s->cache_bytes ? (uint64_t)s->cache_bytes : (uint64_t)budget / 2;
    /*
     * Workers that need much leave less to the cache, and both leave a quarter to batches. With less than the chunks
     * of two rows they would push each other out and be decoded for every row: better to ask for more memory.
     */
    const uint64_t most = (uint64_t)budget / 4 * 3, workers = (uint64_t)info->threads * stk__h5_worker_memory(s);
    if (!s->cache_bytes && workers < most && most - workers >= 2 * row_max)
        limit = STK_MIN(limit, most - workers);
    s->cache_limit = (size_t)STK_MIN(limit, all);
    if (s->chunk_max > limit && s->cache_bytes)
        return call->host->fail(err, STK_BUDGET,
                                "a chunk takes %zu bytes when it is decoded, and chunks may take %llu in all; "
                                "cache_bytes=%zu would do",
                                s->chunk_max, (unsigned long long)limit, s->chunk_max);
    if (s->chunk_max > limit) { /* half of the budget, and what workers need beside them */
        char what[64];
        snprintf(what, sizeof what, "a cache for chunks of %zu bytes", s->chunk_max);
        return call->host->no_room(call, what, 3 * (uint64_t)s->chunk_max + 2 * workers, 0, err);
    }
    s->all_fit = all <= limit;
    return s->chunk_max ? stk__chunk_cache_new(s->cache_limit, s->all_fit && info->repeats, &s->cache, err) : STK_OK;
}

/* Adds up the blocks of the lead, so that they can be counted over all files. */
static stk_status count_blocks(stk__h5_source *s, stk_error *err)
{
    if (s->lead == SIZE_MAX)
        return STK_OK;
    s->block_firsts = stk__calloc((size_t)s->file_count + 1, sizeof *s->block_firsts);
    if (!s->block_firsts)
        return stk__nomem((size_t)s->file_count * sizeof *s->block_firsts, err);
    for (int32_t f = 0; f < s->file_count; f++)
        s->block_firsts[f + 1] = s->block_firsts[f] + stk__h5_part_of(s, f, s->lead)->dataset->blocks;
    return STK_OK;
}

static stk_status hdf5_open(const stk_call *call, stk_error *err)
{
    stk__h5_source *s = call->state;
    s->is_read = stk__calloc(s->dataset_count, sizeof *s->is_read);
    if (!s->is_read)
        return stk__nomem(s->dataset_count, err);
    for (size_t i = 0; i < s->field_count; i++) {
        s->fields[i].needed = stk_needed(call, s->fields[i].id);
        s->is_read[s->fields[i].dataset] |= s->fields[i].needed;
    }
    STK_TRY(index_files(call, err));
    measure_fields(s);
    STK_TRY(measure(call, err));
    STK_TRY(count_blocks(s, err));
    return open_pool(s, err);
}

static void hdf5_close(void *state)
{
    stk__h5_source *s = state;
    stk__chunk_cache_free(s->cache);
    stk__file_pool_free(s->pool);
    for (size_t i = 0; s->parts && i < (size_t)s->file_count * s->dataset_count; i++)
        stk__free(s->parts[i].leaves);
    for (int32_t i = 0; i < s->file_count; i++)
        stk__h5_file_free(s->indexes[i]);
    stk__free(s->indexes);
    stk__free(s->parts);
    stk__free(s->firsts);
    stk__free(s->block_firsts);
    stk__free(s->is_read);
    stk__free(s->lost);
    stk__h5_fields_clear(s);
    stk__paths_clear(&s->files);
    stk__h5_helper_free(s->helper);
}

/* ---- what the engine asks ---- */

static int64_t hdf5_count(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    return s->firsts[s->file_count];
}

static int64_t hdf5_group_count(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    return s->file_count;
}

static int64_t hdf5_group_first(const stk_call *call, int64_t group)
{
    const stk__h5_source *s = call->state;
    return s->firsts[group];
}

static int64_t hdf5_block_count(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    return s->block_firsts ? s->block_firsts[s->file_count] : 0;
}

static int64_t hdf5_block_first(const stk_call *call, int64_t block)
{
    const stk__h5_source *s = call->state;
    const int32_t file = stk__h5_last_at(s->block_firsts, s->file_count, block);
    const int64_t rows = stk__h5_part_of(s, file, s->lead)->dataset->block_rows;
    return STK_MIN(s->firsts[file] + (block - s->block_firsts[file]) * rows, s->firsts[file + 1]);
}

/* Of a block of the lead, with what goes with it. */
static int64_t hdf5_block_bytes(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    double row_bytes = 0;
    for (size_t i = 0; i < s->dataset_count; i++)
        row_bytes += s->is_read[i] ? (double)stk__h5_part_of(s, 0, i)->dataset->row_bytes : 0;
    return (int64_t)STK_MIN(row_bytes * (double)stk__h5_part_of(s, 0, s->lead)->dataset->block_rows, 1e15);
}

static int64_t hdf5_block_room(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    return s->all_fit ? INT64_MAX : (int64_t)s->cache_limit;
}

static int64_t hdf5_memory(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    const size_t workers = (size_t)call->host->open_info(call)->threads * stk__h5_worker_memory(s);
    const size_t cache = s->cache ? stk__chunk_cache_memory(s->cache_limit) : 0;
    size_t sum = cache + workers + stk__file_pool_memory(s->pool) + (s->model ? s->model->memory : 0);
    for (int32_t i = 0; i < s->file_count; i++)
        sum += s->indexes[i]->memory;
    return (int64_t)sum;
}

/* Names without directories, sizes, first and last bytes, shapes and where chunks lie. */
static uint64_t hdf5_fingerprint(const stk_call *call)
{
    const stk__h5_source *s = call->state;
    uint64_t h = 0;
    for (int32_t f = 0; f < s->file_count; f++) {
        const stk__h5_file *file = s->indexes[f];
        h = stk__look_contents(h, file->path);
        for (size_t i = 0; i < s->dataset_count; i++) {
            const stk__h5_dataset *d = &file->datasets[i];
            h = stk__mix(h, XXH3_64bits(d->dims, sizeof *d->dims * (size_t)d->rank));
            /* A shuffle with a window goes by it, also where no chunk is stored. */
            h = stk__mix(h, (uint64_t)d->block_rows);
            h = stk__mix(h, XXH3_64bits(d->chunks, sizeof *d->chunks * d->chunk_count));
        }
    }
    return h;
}

/*
 * A file that a dataset has its data in. Its name may count from the directory of the HDF5 file or from that of the process: both are
 * looked at. One that stands for many, by a pattern, cannot be followed, so nothing is known to be the same then.
 */
static uint64_t stamp_source(const stk_call *call, uint64_t h, const char *file, const char *source, int64_t *newest_ns)
{
    if (strchr(source, '%')) {
        if (!call->host->open_info(call)->cache_file)
            return h;
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        return stk__mix(stk__mix(h, (uint64_t)now.tv_sec), (uint64_t)now.tv_nsec);
    }
    h = stk__look_stamp(h, source, newest_ns);
    const char *slash = strrchr(file, '/');
    if (source[0] == '/' || !slash)
        return h;
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%.*s/%s", (int)(slash - file), file, source);
    h = stk__look_stamp(h, path.failed ? "-" : path.data, newest_ns);
    stk__text_clear(&path);
    return h;
}

static uint64_t hdf5_stamp(const stk_call *call, int64_t *newest_ns)
{
    const stk__h5_source *s = call->state;
    uint64_t h = 0;
    for (size_t i = 0; i < s->files.count; i++)
        h = stk__look_stamp(h, s->files.items[i], newest_ns);
    for (int32_t f = 0; f < s->file_count; f++)
        for (size_t i = 0; i < s->dataset_count; i++)
            for (size_t k = 0; s->is_read[i] && k < s->indexes[f]->datasets[i].source_count; k++)
                h = stamp_source(call, h, s->indexes[f]->path, s->indexes[f]->datasets[i].sources[k], newest_ns);
    return h;
}

static bool hdf5_damage(const stk_call *call, size_t i, stk_error *out, int64_t *out_bytes)
{
    const stk__h5_source *s = call->state;
    if (i >= s->lost_count)
        return false;
    *out = s->lost[i];
    *out_bytes = 0;
    return true;
}

static const stk_option hdf5_options[] = {
    STK_STRINGS_REQUIRED(stk__h5_source, paths, "files or patterns; all of them are one set of rows"),
    {.name = "fields",
     .kind = STK_OPTION_ARGS,
     .offset = STK_FIELD_OFFSET(stk__h5_source, args, stk_args),
     .help =
         "x=\"/path\": field x is that dataset, rows along its first dimension; a compound one gives a field for each "
         "member, \"/path/member\" one of them; none at all: every dataset"},
    STK_SIZE(stk__h5_source, cache_bytes, 0, 0, INT64_MAX, "memory for decoded chunks; 0: half of the budget"),
    STK_OPTION_END,
};

const stk_op stk__op_hdf5 = {
    .abi = STK_OP_ABI,
    .name = "hdf5",
    .group = "source",
    .since = "0.1",
    .summary = "Read rows of HDF5 datasets; chunks are read and decoded in parallel, past the lock of libhdf5.",
    .example = "hdf5(\"d/train.h5\", x=\"/features\", y=\"/labels\") | shuffle(seed=1, window=auto) | batch(32)",
    .options = hdf5_options,
    .state_size = sizeof(stk__h5_source),
    .role = STK_ROLE_SOURCE,
    .schema = hdf5_schema,
    .open = hdf5_open,
    .close = hdf5_close,
    .worker_open = stk__h5_worker_open,
    .worker_close = stk__h5_worker_close,
    .process = stk__h5_process,
    .count = hdf5_count,
    .gather = stk__h5_gather,
    .ahead = stk__h5_ahead,
    .group_count = hdf5_group_count,
    .group_first = hdf5_group_first,
    .block_count = hdf5_block_count,
    .block_first = hdf5_block_first,
    .block_bytes = hdf5_block_bytes,
    .block_room = hdf5_block_room,
    .memory = hdf5_memory,
    .fingerprint = hdf5_fingerprint,
    .damage = hdf5_damage,
    .stamp = hdf5_stamp,
};
