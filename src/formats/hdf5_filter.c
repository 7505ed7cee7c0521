/* The filter pipeline of HDF5 chunks: undone for reading, applied for writing. */
#include "formats/hdf5_filter.h"

#include <stdio.h>
#include <string.h>

#include <libdeflate.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/hdf5_codec.h"
#include "formats/hdf5_deflate.h"
#include "kernels/fletcher32.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

/* Larger chunks are refused, so that sizes derived from theirs never overflow. */
#define CHUNK_MAX (SIZE_MAX / 16)
#define CHECKSUM_BYTES ((size_t)4)

static bool shuffle_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    /* Values of variable length have none; then libhdf5 leaves the filter out of every chunk. */
    if (filter->optional || (filter->value_count >= 1 && filter->values[0] > 0))
        return true;
    snprintf(why, why_size, "its elements have no size");
    return false;
}

/* Those without `undo` are undone here. */
typedef struct codec {
    uint32_t id;
    const char *name;
    stk__h5_undo *undo;
    stk__h5_values_ok *values_ok;
} codec;

static const codec codecs[] = {
    {STK__H5_DEFLATE, "gzip", NULL, NULL},
    {STK__H5_SHUFFLE, "shuffle", NULL, shuffle_ok},
    {STK__H5_FLETCHER32, "fletcher32", NULL, NULL},
    {STK__H5_SZIP, "szip", stk__h5_undo_szip, stk__h5_szip_ok},
    {STK__H5_NBIT, "nbit", stk__h5_undo_nbit, stk__h5_nbit_ok},
    {STK__H5_SCALEOFFSET, "scaleoffset", stk__h5_undo_scaleoffset, stk__h5_scaleoffset_ok},
    {STK__H5_LZF, "lzf", stk__h5_undo_lzf, stk__h5_lzf_ok},
    {STK__H5_BLOSC, "blosc", stk__h5_undo_blosc, stk__h5_blosc_ok},
    {STK__H5_LZ4, "lz4", stk__h5_undo_lz4, NULL},
    {STK__H5_BITSHUFFLE, "bitshuffle", stk__h5_undo_bitshuffle, stk__h5_bitshuffle_ok},
    {STK__H5_ZSTD, "zstd", stk__h5_undo_zstd, NULL},
};

static const codec *find_codec(uint32_t id)
{
    for (size_t i = 0; i < STK_COUNT(codecs); i++)
        if (codecs[i].id == id)
            return &codecs[i];
    return NULL;
}

const char *stk__h5_filter_name(uint32_t id)
{
    const codec *c = find_codec(id);
    return c ? c->name : NULL;
}

bool stk__h5_filters_known(const stk__h5_filter *filters, size_t count, size_t chunk_bytes, char *why, size_t why_size)
{
    if (count > STK__H5_FILTERS_MAX || chunk_bytes > CHUNK_MAX) {
        snprintf(why, why_size, "%zu filters for chunks of %zu bytes, wanted at most %d for %zu", count, chunk_bytes,
                 STK__H5_FILTERS_MAX, CHUNK_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const codec *c = find_codec(filters[i].id);
        if (!c) {
            snprintf(why, why_size, "filter %u is not built in", filters[i].id);
            return false;
        }
        char reason[256] = "";
        if (c->values_ok && !c->values_ok(&filters[i], chunk_bytes, reason, sizeof reason)) {
            snprintf(why, why_size, "%s: %s", c->name, reason);
            return false;
        }
    }
    return true;
}

/* ---- decoders ---- */

/* What one chunk goes through on its way. */
typedef struct lane {
    uint8_t *buffers[2];
    size_t capacities[2];
    stk__h5_scratch scratch;
} lane;

struct stk__h5_decoder {
    stk__h5_inflater *inflater;
    lane lanes[2]; /* the second for pairs */
};

uint8_t *stk__h5_scratch_get(stk__h5_scratch *s, size_t size)
{
    if (size > s->capacity || !s->data) {
        stk__free(s->data);
        s->data = stk__alloc(size);
        s->capacity = s->data ? size : 0;
    }
    return s->data;
}

stk_status stk__h5_decoder_new(stk__h5_decoder **out, stk_error *err)
{
    stk__h5_decoder *d = stk__calloc(1, sizeof *d);
    if (!d)
        return stk__nomem(sizeof *d, err);
    const stk_status status = stk__h5_inflater_new(&d->inflater, err);
    if (status != STK_OK) {
        stk__free(d);
        return status;
    }
    *out = d;
    return STK_OK;
}

void stk__h5_decoder_free(stk__h5_decoder *d)
{
    if (!d)
        return;
    stk__h5_inflater_free(d->inflater);
    for (size_t i = 0; i < STK_COUNT(d->lanes); i++) {
        stk__free(d->lanes[i].buffers[0]);
        stk__free(d->lanes[i].buffers[1]);
        stk__free(d->lanes[i].scratch.data);
        stk__h5_zstd_free(d->lanes[i].scratch.zstd);
    }
    stk__free(d);
}

/*
 * The most that a stage may give other than the last: checksums, headers, and data that an inner compressor made
 * longer.
 */
static size_t stage_limit(size_t chunk_bytes)
{
    return chunk_bytes + chunk_bytes / 8 + 65536;
}

/* What the scratch memory of codecs may keep for the next chunk. */
static size_t scratch_limit(size_t chunk_bytes)
{
    return 2 * stage_limit(chunk_bytes);
}

size_t stk__h5_decoder_memory(const stk__h5_filter *filters, size_t count, size_t stored_bytes, size_t chunk_bytes)
{
    enum { ZSTD_CONTEXT = 200 << 10 };
    size_t lane_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const codec *c = find_codec(filters[i].id);
        if (c && c->undo)
            lane_bytes = scratch_limit(chunk_bytes) + ZSTD_CONTEXT;
    }
    if (count > 1)
        lane_bytes += STK_MIN(count - 1, (size_t)2) * (stage_limit(chunk_bytes) + STK__H5_AIR);
    return sizeof(stk__h5_decoder) + stk__h5_inflater_memory() + 2 * lane_bytes;
}

/* ---- one chunk on its way ---- */

typedef struct run {
    const stk__h5_job *job;
    lane *lane;
    size_t left;         /* filters that are not undone yet */
    size_t stay;         /* of these, how many stay as they are */
    const uint8_t *data; /* what there is by now */
    size_t size;         /* of it; more than out_size when the last stage was cut */
    unsigned buffer;     /* that the next stage may write to */
    stk_status status;
    stk_error *err;
} run;

static bool is_applied(const stk__h5_job *job, size_t i)
{
    return !(job->mask >> i & 1);
}

/* The filter to be undone next, or NULL. */
static const stk__h5_filter *next_filter(run *r)
{
    while (r->left > r->stay && !is_applied(r->job, r->left - 1))
        r->left--;
    return r->left > r->stay ? &r->job->filters[r->left - 1] : NULL;
}

static bool is_last(const run *r)
{
    for (size_t i = r->stay; i + 1 < r->left; i++)
        if (is_applied(r->job, i))
            return false;
    return true;
}

static bool run_open(run *r, const stk__h5_job *job, lane *l, stk_error *err)
{
    *r = (run){.job = job, .lane = l, .left = job->filter_count, .size = job->in_size, .err = err};
    r->data = job->in_size ? job->in : (const uint8_t *)""; /* codecs need no thought of NULL */
    if (job->filter_count > STK__H5_FILTERS_MAX || job->out_size > CHUNK_MAX || job->in_size > CHUNK_MAX) {
        r->status = stk_error_set(err, STK_CORRUPT, "%zu filters, %zu bytes stored for a chunk of %zu bytes",
                                  job->filter_count, job->in_size, job->out_size);
        return false;
    }
    if (job->keep_shuffled && job->filter_count && job->filters[0].id == STK__H5_SHUFFLE && is_applied(job, 0))
        r->stay = 1;
    return true;
}

/*
 * Where a stage writes to, and how much at most: the chunk itself in the end, else a buffer. NULL when memory is out.
 */
static uint8_t *stage_target(run *r, size_t *out_size)
{
    if (is_last(r)) {
        *out_size = r->job->out_size;
        return r->job->out;
    }
    *out_size = stage_limit(r->job->out_size);
    const unsigned i = r->buffer;
    const size_t wanted = *out_size + STK__H5_AIR;
    if (r->lane->capacities[i] < wanted) {
        stk__free(r->lane->buffers[i]);
        r->lane->buffers[i] = stk__alloc(wanted);
        r->lane->capacities[i] = r->lane->buffers[i] ? wanted : 0;
    }
    if (!r->lane->buffers[i])
        r->status = stk__nomem(wanted, r->err);
    return r->lane->buffers[i];
}

/* A stage wrote `size` bytes to `out`. */
static void stage_done(run *r, const uint8_t *out, size_t size)
{
    r->data = out;
    r->size = size;
    r->left--;
    if (out != r->job->out)
        r->buffer ^= 1;
}

/* Puts the name of the filter before the message. */
static void stage_failed(run *r, const stk__h5_filter *filter, stk_status status)
{
    r->status = status;
    if (status == STK_CORRUPT)
        stk__error_prefix(r->err, "%s: ", stk__h5_filter_name(filter->id));
}

/* ---- the filters that are undone here ---- */

static stk_status check_fletcher32(run *r)
{
    if (r->size < CHECKSUM_BYTES)
        return stk_error_set(r->err, STK_CORRUPT, "%zu bytes, wanted a checksum of 4", r->size);
    const size_t size = r->size - CHECKSUM_BYTES;
    const uint8_t *p = r->data + size;
    const uint32_t stored = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    const uint32_t found = stk__fletcher32(r->data, size);
    /* libhdf5 before 1.6.3 wrote each half with its bytes swapped. */
    const uint32_t swapped = (stored & 0xff00ff) << 8 | (stored >> 8 & 0xff00ff);
    if (found != stored && found != swapped)
        return stk_error_set(r->err, STK_CORRUPT, "stored checksum is 0x%08x, the %zu bytes have 0x%08x", stored, size,
                             found);
    r->size = size;
    r->left--;
    return STK_OK;
}

/* Undoes a shuffle of in_size bytes as far as out_size goes; bytes behind the last whole element are as they are. */
static size_t unshuffle_part(uint8_t *out, size_t out_size, const uint8_t *in, size_t in_size, size_t size)
{
    const size_t count = in_size / size, wanted = STK_MIN(in_size, out_size);
    if (size == 1 || count < 2) {
        if (wanted)
            memcpy(out, in, wanted);
        return wanted;
    }
    const size_t whole = STK_MIN(count, wanted / size);
    stk__unshuffle(out, in, count, 0, whole, size);
    for (size_t i = whole * size; i < wanted; i++)
        out[i] = whole < count ? in[(i - whole * size) * count + whole] : in[i];
    return wanted;
}

static stk_status undo_shuffle(run *r, const stk__h5_filter *filter)
{
    size_t room;
    uint8_t *out = stage_target(r, &room);
    if (!out)
        return r->status;
    if (filter->value_count < 1 || filter->values[0] == 0)
        return stk_error_set(r->err, STK_CORRUPT, "its elements have no size");
    stage_done(r, out, unshuffle_part(out, room, r->data, r->size, filter->values[0]));
    return STK_OK;
}

/* False when memory is out. */
static bool stream_open(run *r, stk__h5_stream *s)
{
    *s = (stk__h5_stream){.in = r->data, .in_size = r->size, .longest = stage_limit(r->job->out_size)};
    s->out = stage_target(r, &s->out_size);
    return s->out;
}

static stk_status undo_deflate(run *r, stk__h5_inflater *inflater)
{
    stk__h5_stream s;
    if (!stream_open(r, &s))
        return r->status;
    STK_TRY(stk__h5_inflate(inflater, &s, r->err));
    stage_done(r, s.out, s.size);
    return STK_OK;
}

/* ---- all stages ---- */

static stk_status undo_other(run *r, const stk__h5_filter *filter)
{
    const codec *c = find_codec(filter->id);
    if (!c)
        return stk_error_set(r->err, STK_UNSUPPORTED, "filter %u is not built in", filter->id);
    size_t room, written = 0;
    uint8_t *out = stage_target(r, &room);
    if (!out)
        return r->status;
    STK_TRY(c->undo(filter, &r->lane->scratch, r->data, r->size, out, room, &written, r->err));
    if (out != r->job->out && written >= room)
        return stk_error_set(r->err, STK_CORRUPT, "the data gives at least %zu bytes, wanted about %zu", room,
                             r->job->out_size);
    stage_done(r, out, written);
    return STK_OK;
}

static stk_status undo_filter(run *r, stk__h5_inflater *inflater, const stk__h5_filter *filter)
{
    switch (filter->id) {
    case STK__H5_DEFLATE:
        return undo_deflate(r, inflater);
    case STK__H5_SHUFFLE:
        return undo_shuffle(r, filter);
    case STK__H5_FLETCHER32:
        return check_fletcher32(r);
    default:
        return undo_other(r, filter);
    }
}

/* Undoes filters until one of them is a deflate (when that is asked for), none is left or one fails. */
static const stk__h5_filter *run_on(run *r, stk__h5_inflater *inflater, bool to_deflate)
{
    const stk__h5_filter *filter;
    while (r->status == STK_OK && (filter = next_filter(r))) {
        if (to_deflate && filter->id == STK__H5_DEFLATE)
            return filter;
        const stk_status status = undo_filter(r, inflater, filter);
        if (status != STK_OK)
            stage_failed(r, filter, status);
    }
    return NULL;
}

/* ---- the end ---- */

/*
 * Planes of another number of elements than the chunk has cannot be left as they are: the shuffle is undone, the data
 * cut or filled up, and shuffled anew. No sane file has such chunks.
 */
static stk_status shuffle_anew(stk__h5_decoder *d, run *r)
{
    stk__h5_job job = *r->job;
    uint8_t *plain = stk__alloc(job.out_size + STK__H5_AIR);
    if (!plain)
        return stk__nomem(job.out_size + STK__H5_AIR, r->err);
    job.keep_shuffled = false;
    job.out = plain;
    const stk_status status = stk__h5_decode(d, &job, r->err);
    if (status == STK_OK) {
        const size_t size = job.filters[0].values[0], count = job.out_size / size;
        const size_t whole = count < 2 ? 0 : count * size;
        if (whole)
            stk__shuffle(r->job->out, plain, count, size);
        memcpy(r->job->out + whole, plain + whole, job.out_size - whole);
    }
    stk__free(plain);
    return status;
}

static stk_status run_close(stk__h5_decoder *d, run *r)
{
    const stk__h5_job *job = r->job;
    if (r->lane->scratch.capacity > scratch_limit(job->out_size)) {
        stk__free(r->lane->scratch.data);
        r->lane->scratch.data = NULL;
        r->lane->scratch.capacity = 0;
    }
    if (r->status != STK_OK)
        return r->status;
    if (r->stay && r->size != job->out_size)
        return shuffle_anew(d, r);
    const size_t size = STK_MIN(r->size, job->out_size);
    if (r->data != job->out && size)
        memcpy(job->out, r->data, size);
    memset(job->out + size, 0, job->out_size - size);
    return STK_OK;
}

stk_status stk__h5_decode(stk__h5_decoder *d, const stk__h5_job *job, stk_error *err)
{
    run r;
    if (!run_open(&r, job, &d->lanes[0], err))
        return r.status;
    run_on(&r, d->inflater, false);
    return run_close(d, &r);
}

/* Both have come to a deflate: undoes them together where that is faster. */
static void undo_deflate_pair(stk__h5_decoder *d, run runs[2], const stk__h5_filter *const filters[2])
{
    stk__h5_stream streams[2];
    stk_status status[2] = {STK_OK, STK_OK};
    bool open[2];
    for (int i = 0; i < 2; i++)
        open[i] = stream_open(&runs[i], &streams[i]);
    if (open[0] && open[1] && stk__h5_inflate_pairs(runs[0].size, runs[0].job->out_size) &&
        stk__h5_inflate_pairs(runs[1].size, runs[1].job->out_size))
        stk__h5_inflate_pair(d->inflater, (stk__h5_stream *const[2]){&streams[0], &streams[1]}, status,
                             (stk_error *const[2]){runs[0].err, runs[1].err});
    else
        for (int i = 0; i < 2; i++)
            status[i] = open[i] ? stk__h5_inflate(d->inflater, &streams[i], runs[i].err) : runs[i].status;
    for (int i = 0; i < 2; i++) {
        if (status[i] == STK_OK)
            stage_done(&runs[i], streams[i].out, streams[i].size);
        else
            stage_failed(&runs[i], filters[i], status[i]);
    }
}

bool stk__h5_pairs_well(const stk__h5_job *job)
{
    bool deflate = false;
    for (size_t i = 0; i < job->filter_count; i++)
        deflate = deflate || job->filters[i].id == STK__H5_DEFLATE;
    return deflate && stk__h5_inflate_pairs(job->in_size, job->out_size);
}

void stk__h5_decode_pair(stk__h5_decoder *d, const stk__h5_job *const jobs[2], stk_status status[2],
                         stk_error *const err[2])
{
    run runs[2];
    bool open[2];
    for (int i = 0; i < 2; i++)
        open[i] = run_open(&runs[i], jobs[i], &d->lanes[i], err[i]);
    for (;;) {
        const stk__h5_filter *filters[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++)
            filters[i] = open[i] ? run_on(&runs[i], d->inflater, true) : NULL;
        if (!filters[0] || !filters[1])
            break;
        undo_deflate_pair(d, runs, filters);
    }
    for (int i = 0; i < 2; i++) {
        if (open[i])
            run_on(&runs[i], d->inflater, false);
        status[i] = open[i] ? run_close(d, &runs[i]) : runs[i].status;
    }
}

/* ---- encoders ---- */

enum { DEFLATE_LEVEL_MAX = 12, DEFLATE_LEVEL = 6, ZSTD_LEVEL = 3, ZSTD_LEVEL_MAX = 22 };

struct stk__h5_encoder {
    struct libdeflate_compressor *deflate[DEFLATE_LEVEL_MAX + 1];
    uint8_t *buffers[2];
    size_t capacities[2];
};

stk_status stk__h5_encoder_new(stk__h5_encoder **out, stk_error *err)
{
    stk__h5_encoder *e = stk__calloc(1, sizeof *e);
    if (!e)
        return stk__nomem(sizeof *e, err);
    *out = e;
    return STK_OK;
}

void stk__h5_encoder_free(stk__h5_encoder *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < STK_COUNT(e->deflate); i++)
        libdeflate_free_compressor(e->deflate[i]);
    stk__free(e->buffers[0]);
    stk__free(e->buffers[1]);
    stk__free(e);
}

static size_t copy_with_checksum(uint8_t *out, const uint8_t *in, size_t size)
{
    const uint32_t sum = stk__fletcher32(in, size);
    if (size)
        memcpy(out, in, size);
    for (size_t i = 0; i < CHECKSUM_BYTES; i++)
        out[size + i] = (uint8_t)(sum >> 8 * i);
    return size + CHECKSUM_BYTES;
}

static void shuffle_all(uint8_t *out, const uint8_t *in, size_t bytes, size_t size)
{
    const size_t count = size ? bytes / size : 0, whole = count < 2 ? 0 : count * size;
    if (whole)
        stk__shuffle(out, in, count, size);
    if (bytes > whole)
        memcpy(out + whole, in + whole, bytes - whole);
}

static stk_status compress_deflate(stk__h5_encoder *e, const stk__h5_filter *filter, const uint8_t *in, size_t in_size,
                                   uint8_t *out, size_t room, size_t *out_size, stk_error *err)
{
    const uint32_t level = filter->value_count ? filter->values[0] : DEFLATE_LEVEL;
    if (level > DEFLATE_LEVEL_MAX)
        return stk_error_set(err, STK_INVALID, "gzip: level %u, wanted 0 to %d", level, DEFLATE_LEVEL_MAX);
    if (!e->deflate[level] && !(e->deflate[level] = libdeflate_alloc_compressor((int)level)))
        return stk_error_set(err, STK_NOMEM, "out of memory for the tables of deflate at level %u", level);
    *out_size = libdeflate_zlib_compress(e->deflate[level], in, in_size, out, room);
    return STK_OK;
}

/* Applies one filter; *out_size is 0 when the result has no room. */
static stk_status apply_filter(stk__h5_encoder *e, const stk__h5_filter *filter, const uint8_t *in, size_t in_size,
                               uint8_t *out, size_t room, size_t *out_size, stk_error *err)
{
    switch (filter->id) {
    case STK__H5_DEFLATE:
        return compress_deflate(e, filter, in, in_size, out, room, out_size, err);
    case STK__H5_SHUFFLE:
        shuffle_all(out, in, in_size, filter->value_count ? filter->values[0] : 0);
        *out_size = in_size;
        return STK_OK;
    case STK__H5_FLETCHER32:
        *out_size = copy_with_checksum(out, in, in_size);
        return STK_OK;
    case STK__H5_LZF:
        *out_size = stk__h5_lzf_compress(in, in_size, out, room);
        return STK_OK;
    case STK__H5_LZ4:
        *out_size = stk__h5_lz4_compress(in, in_size, out, room);
        return STK_OK;
    case STK__H5_ZSTD: {
        const uint32_t level = filter->value_count && filter->values[0] ? filter->values[0] : ZSTD_LEVEL;
        if (level > ZSTD_LEVEL_MAX)
            return stk_error_set(err, STK_INVALID, "zstd: level %u, wanted 1 to %d", level, ZSTD_LEVEL_MAX);
        *out_size = stk__h5_zstd_compress(in, in_size, out, room, (int)level);
        return STK_OK;
    }
    default:
        return stk_error_set(err, STK_UNSUPPORTED, "filter %u can be read but not written", filter->id);
    }
}

static bool is_compressor(uint32_t id)
{
    return id != STK__H5_SHUFFLE && id != STK__H5_FLETCHER32;
}

/* What the chunk is by now; moves to the other buffer with each filter. */
typedef struct encoding {
    const uint8_t *data;
    size_t size;
    unsigned buffer;
    uint32_t mask;
} encoding;

static stk_status encode_stage(stk__h5_encoder *e, encoding *now, const stk__h5_filter *filter, uint32_t bit,
                               stk_error *err)
{
    const unsigned b = now->buffer;
    const bool must_gain = filter->optional && is_compressor(filter->id);
    const size_t most = stage_limit(now->size);
    if (must_gain && now->size < 2) {
        now->mask |= bit;
        return STK_OK;
    }
    if (!stk__grow((void **)&e->buffers[b], &e->capacities[b], most, 1))
        return stk__nomem(most, err);
    size_t size = 0;
    STK_TRY(apply_filter(e, filter, now->data, now->size, e->buffers[b], must_gain ? now->size - 1 : most, &size, err));
    if (size == 0 && must_gain) {
        now->mask |= bit;
        return STK_OK;
    }
    if (size == 0 && is_compressor(filter->id))
        return stk_error_set(err, STK_UNSUPPORTED, "%s takes more than %zu bytes for %zu, and may not be left out",
                             stk__h5_filter_name(filter->id), most, now->size);
    now->data = e->buffers[b];
    now->size = size;
    now->buffer ^= 1;
    return STK_OK;
}

stk_status stk__h5_encode(stk__h5_encoder *e, const stk__h5_filter *filters, size_t count, const uint8_t *in,
                          size_t in_size, uint8_t **out, size_t *capacity, size_t *out_size, uint32_t *out_mask,
                          stk_error *err)
{
    if (count > STK__H5_FILTERS_MAX || in_size > CHUNK_MAX)
        return stk_error_set(err, STK_INVALID, "%zu filters for a chunk of %zu bytes, wanted at most %d for %zu", count,
                             in_size, STK__H5_FILTERS_MAX, CHUNK_MAX);
    encoding now = {.data = in, .size = in_size};
    for (size_t i = 0; i < count; i++)
        STK_TRY(encode_stage(e, &now, &filters[i], 1u << i, err));
    if (!stk__grow((void **)out, capacity, now.size, 1))
        return stk__nomem(now.size, err);
    if (now.size)
        memcpy(*out, now.data, now.size);
    *out_size = now.size;
    *out_mask = now.mask;
    return STK_OK;
}
