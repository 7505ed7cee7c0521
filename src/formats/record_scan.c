/* Scanning a record file for its index: walks headers or line ends, and finds the way back after damage. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/record_index.h"
#include "formats/tar.h"
#include "formats/tfrecord.h"
#include "kernels/crc32c.h"

#include "base/banned.h"

enum {
    BLOCK_MAX = 1 << 20,
    BLOCK_MIN = 64 << 10,
    DATA_BLOCK = 256 << 10,
    SKIP_FROM = 64 << 10,  /* records of about this size and more are stepped over, not read */
    REPORT_STEP = 4 << 20, /* bytes between two calls of progress */
    FRAME = STK__TFRECORD_HEADER + STK__TFRECORD_FOOTER,
};

typedef struct scan {
    int fd;
    const char *path;
    int64_t size; /* of the file */
    stk__scan_buffers *buffers;
    stk__record_index *index;
    stk__extents_builder builder;

    int64_t block_at; /* offset in the file of what buffers->block holds */
    size_t block_size;
    size_t next_size; /* how much to read next; grows while the file is read from front to back */

    stk__scan_progress progress;
    void *arg;
    int64_t reported;
    int64_t search_budget; /* bytes that failing data checks may still read */
} scan;

stk__extents_frame stk__record_frame(stk__framing framing)
{
    if (framing == STK__FRAMING_LINES)
        return (stk__extents_frame){.between = 1};
    if (framing == STK__FRAMING_TAR)
        return (stk__extents_frame){0};
    return (stk__extents_frame){STK__TFRECORD_HEADER, FRAME, STK__TFRECORD_FOOTER};
}

void stk__scan_buffers_clear(stk__scan_buffers *buffers)
{
    stk__free(buffers->block);
    stk__free(buffers->data);
    *buffers = (stk__scan_buffers){0};
}

static stk_status ensure_buffer(uint8_t **buffer, size_t size, stk_error *err)
{
    if (!*buffer)
        *buffer = stk__alloc(size);
    return *buffer ? STK_OK : stk__nomem(size, err);
}

static stk_status report(scan *s, int64_t offset, stk_error *err)
{
    const int64_t done = offset - s->reported;
    if (done < REPORT_STEP && offset < s->size)
        return STK_OK;
    s->reported = offset;
    if (s->progress && !s->progress(s->arg, done))
        return stk_error_set(err, STK_CANCELLED, "cancelled while indexing");
    return STK_OK;
}

/* Reads `size` bytes at `offset` into the block. */
static stk_status read_block(scan *s, int64_t offset, size_t size, stk_error *err)
{
    STK_TRY(report(s, offset, err));
    s->block_size = 0;
    STK_TRY(stk__pread_full(s->fd, s->buffers->block, size, offset, s->path, err));
    s->block_at = offset;
    s->block_size = size;
    return STK_OK;
}

/* Makes at least `need` bytes at `offset` readable, more when they will be wanted soon. They must lie in the file. */
static stk_status look(scan *s, int64_t offset, size_t need, bool alone, const uint8_t **out, size_t *out_size,
                       stk_error *err)
{
    if (offset < s->block_at || offset + (int64_t)need > s->block_at + (int64_t)s->block_size) {
        const int64_t left = s->size - offset;
        const size_t want = alone ? need : STK_MAX(need, s->next_size);
        STK_TRY(read_block(s, offset, (size_t)STK_MIN((int64_t)want, left), err));
        if (!alone)
            s->next_size = STK_MIN(2 * s->next_size, (size_t)BLOCK_MAX);
    }
    *out = s->buffers->block + (offset - s->block_at);
    *out_size = s->block_size - (size_t)(offset - s->block_at);
    return STK_OK;
}

static stk_status add_record(scan *s, int64_t offset, int64_t size, stk_error *err)
{
    return stk__extents_add(&s->builder, offset, size) ? STK_OK : stk__nomem(sizeof(stk__extents_block), err);
}

static stk_status add_damage(scan *s, int64_t offset, int64_t size, const char *message, stk_error *err)
{
    stk__record_index *index = s->index;
    if (!stk__grow((void **)&index->damage, &index->damage_capacity, index->damage_count + 1, sizeof *index->damage))
        return stk__nomem((index->damage_count + 1) * sizeof *index->damage, err);
    stk__damage *d = &index->damage[index->damage_count++];
    *d = (stk__damage){.record = index->extents.count + (int64_t)s->builder.fill, .offset = offset, .size_bytes = size};
    snprintf(d->message, sizeof d->message, "%s", message);
    return STK_OK;
}

/* Whether `size` bytes at `offset` fit the CRC behind them. */
static stk_status data_fits(scan *s, int64_t offset, int64_t size, bool *out, stk_error *err)
{
    STK_TRY(ensure_buffer(&s->buffers->data, DATA_BLOCK, err));
    uint32_t crc = 0;
    for (int64_t done = 0; done < size;) {
        const size_t n = (size_t)STK_MIN(size - done, (int64_t)DATA_BLOCK);
        STK_TRY(stk__pread_full(s->fd, s->buffers->data, n, offset + done, s->path, err));
        crc = stk__crc32c_extend(crc, s->buffers->data, n);
        done += (int64_t)n;
    }
    uint8_t footer[STK__TFRECORD_FOOTER];
    STK_TRY(stk__pread_full(s->fd, footer, sizeof footer, offset + size, s->path, err));
    crc = stk__crc32c_mask(crc);
    const uint8_t wanted[] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};
    *out = memcmp(footer, wanted, sizeof wanted) == 0;
    return STK_OK;
}

/*
 * Turns down most places without computing a CRC. Read as a length, eight arbitrary bytes are far beyond any file; and
 * files that were made longer in advance are full of zeros, which are no header.
 */
static inline bool maybe_header(const uint8_t *p)
{
    static const uint8_t zeros[STK__TFRECORD_HEADER];
    return !p[7] && !p[6] && memcmp(p, zeros, sizeof zeros) != 0;
}

/* Whether a whole, sound record starts at `offset`, whose first 12 bytes are at p. */
static stk_status record_fits(scan *s, int64_t offset, const uint8_t *p, bool *out, stk_error *err)
{
    *out = false;
    uint64_t length;
    if (s->size - offset < FRAME || stk__tfrecord_header(p, &length, NULL) != STK_OK ||
        length > (uint64_t)(s->size - offset - FRAME))
        return STK_OK;
    /* Headers that lie are rare by chance, but a crafted file could hold one every 12 bytes. */
    if (s->search_budget < (int64_t)length)
        return STK_OK;
    STK_TRY(data_fits(s, offset + STK__TFRECORD_HEADER, (int64_t)length, out, err));
    if (!*out)
        s->search_budget -= (int64_t)length;
    return STK_OK;
}

/* The next place from `offset` on where a sound record starts; the file's size when there is none. */
static stk_status find_record(scan *s, int64_t offset, int64_t *out, stk_error *err)
{
    s->next_size = BLOCK_MAX;
    while (s->size - offset >= FRAME) {
        const uint8_t *p;
        size_t n;
        STK_TRY(look(s, offset, STK__TFRECORD_HEADER, false, &p, &n, err));
        for (size_t i = 0; i + STK__TFRECORD_HEADER <= n; i++, offset++) {
            bool fits;
            if (STK_LIKELY(!maybe_header(p + i)))
                continue;
            STK_TRY(record_fits(s, offset, p + i, &fits, err));
            if (fits) {
                *out = offset;
                return STK_OK;
            }
        }
    }
    *out = s->size;
    return STK_OK;
}

/* Tar: the next block from `offset` on that is a sound header; the file's size when there is none. */
static stk_status find_tar_header(scan *s, int64_t offset, int64_t *out, stk_error *err)
{
    s->next_size = BLOCK_MAX;
    while (s->size - offset >= STK__TAR_BLOCK) {
        const uint8_t *p;
        size_t n;
        STK_TRY(look(s, offset, STK__TAR_BLOCK, false, &p, &n, err));
        for (; n >= STK__TAR_BLOCK; n -= STK__TAR_BLOCK, p += STK__TAR_BLOCK, offset += STK__TAR_BLOCK) {
            if (stk__tar_is_header(p)) {
                *out = offset;
                return STK_OK;
            }
        }
    }
    *out = s->size;
    return STK_OK;
}

static stk_status skip_damage(scan *s, int64_t *offset, const char *message, stk_error *err)
{
    int64_t next = s->size;
    if (s->index->damage_count + 1 >= STK__DAMAGE_MAX)
        message = "the file is damaged in too many places; the rest of it is given up";
    else if (s->index->framing == STK__FRAMING_TAR)
        STK_TRY(find_tar_header(s, *offset + STK__TAR_BLOCK, &next, err));
    else
        STK_TRY(find_record(s, *offset + 1, &next, err));
    STK_TRY(add_damage(s, *offset, next - *offset, message, err));
    *offset = next;
    return STK_OK;
}

/* Reads the header at `offset`. Good: a record of *out_length bytes lies there. Else `why` says what is wrong. */
static stk_status read_header(scan *s, int64_t offset, bool alone, int64_t *out_length, bool *out_good, char why[160],
                              stk_error *err)
{
    const int64_t left = s->size - offset;
    *out_good = false;
    if (left < STK__TFRECORD_HEADER) {
        snprintf(why, 160, "file ends inside a record header: %lld bytes are left, wanted %d", (long long)left,
                 STK__TFRECORD_HEADER);
        return STK_OK;
    }
    const uint8_t *p;
    size_t n;
    uint64_t length;
    STK_TRY(look(s, offset, STK__TFRECORD_HEADER, alone, &p, &n, err));
    if (STK_UNLIKELY(stk__tfrecord_header(p, &length, NULL) != STK_OK)) {
        stk_error bad;
        stk_error_clear(&bad);
        stk__tfrecord_header(p, &length, &bad);
        snprintf(why, 160, "%.150s", bad.message);
    } else if (STK_UNLIKELY(left < FRAME || length > (uint64_t)(left - FRAME))) {
        snprintf(why, 160, "file ends inside a record: its length is %llu, but %lld bytes are left after its header",
                 (unsigned long long)length, (long long)(left - STK__TFRECORD_HEADER));
    } else {
        *out_length = (int64_t)length;
        *out_good = true;
    }
    return STK_OK;
}

/* The error for a file that begins unlike a TFRecord file and holds no record anywhere. */
static stk_status no_tfrecord(scan *s, stk_error *err)
{
    uint8_t first[STK__TFRECORD_HEADER];
    STK_TRY(stk__pread_full(s->fd, first, sizeof first, 0, s->path, err));
    uint64_t length;
    if (stk__tfrecord_header(first, &length, NULL) == STK_OK)
        return STK_OK;
    stk_error_set(
        err, STK_CORRUPT,
        "is no TFRecord file: it begins with %02x %02x %02x %02x %02x %02x %02x %02x, whose %s, and no record "
        "is found behind",
        first[0], first[1], first[2], first[3], first[4], first[5], first[6], first[7], s->index->damage[0].message);
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", s->path);
        err->offset = 0;
    }
    return STK_CORRUPT;
}

static stk_status scan_tfrecord(scan *s, stk_error *err)
{
    int64_t offset = 0, length;
    int64_t typical = 0; /* a running mean: a small record among large ones changes little */
    char why[160];
    bool good;
    while (offset < s->size) {
        STK_TRY(read_header(s, offset, typical >= SKIP_FROM, &length, &good, why, err));
        if (STK_LIKELY(good)) {
            STK_TRY(add_record(s, offset + STK__TFRECORD_HEADER, length, err));
            offset += length + FRAME;
            typical += (length - typical) / 4;
        } else {
            STK_TRY(skip_damage(s, &offset, why, err));
            typical = 0;
        }
    }
    const bool none = s->index->extents.count + (int64_t)s->builder.fill == 0;
    return none && s->size >= STK__TFRECORD_HEADER ? no_tfrecord(s, err) : STK_OK;
}

/* A line that starts at `start` and whose "\n" is at `end`; `before` is the byte before that. */
static stk_status add_line(scan *s, int64_t start, int64_t end, uint8_t before, stk_error *err)
{
    return add_record(s, start, end - start - (end > start && before == '\r'), err);
}

static stk_status scan_lines(scan *s, stk_error *err)
{
    int64_t start = 0, offset = 0;
    uint8_t before = 0; /* last byte of the block before */
    while (offset < s->size) {
        const uint8_t *p;
        size_t n;
        STK_TRY(look(s, offset, 1, false, &p, &n, err));
        const uint8_t *at = p, *newline;
        while ((newline = memchr(at, '\n', n - (size_t)(at - p)))) {
            STK_TRY(add_line(s, start, offset + (newline - p), newline > p ? newline[-1] : before, err));
            at = newline + 1;
            start = offset + (at - p);
            if (at == p + n)
                break;
        }
        before = p[n - 1];
        offset += (int64_t)n;
    }
    return start < s->size ? add_record(s, start, s->size - start, err) : STK_OK;
}

/* ---- tar ---- */

/* The sample whose members are being walked over. */
typedef struct tar_sample {
    int64_t start, end;
    stk__text key;
    bool open;
} tar_sample;

/* Headers of the member at `offset`. A file that ends inside them is bad. */
static stk_status look_head(scan *s, int64_t offset, bool alone, stk__tar_member *m, stk__tar_found *out,
                            char why[STK__TAR_WHY], stk_error *err)
{
    const int64_t left = s->size - offset;
    size_t need = STK__TAR_BLOCK;
    do {
        if ((int64_t)need > left) {
            snprintf(why, STK__TAR_WHY, "file ends inside a header: %lld bytes are left, wanted %zu", (long long)left,
                     need);
            *out = STK__TAR_BAD;
            return STK_OK;
        }
        const uint8_t *p;
        size_t n;
        STK_TRY(look(s, offset, need, alone, &p, &n, err));
        *out = stk__tar_head(p, n, m, &need, why);
    } while (*out == STK__TAR_MORE);
    return STK_OK;
}

static stk_status end_sample(scan *s, tar_sample *sample, stk_error *err)
{
    if (!sample->open)
        return STK_OK;
    sample->open = false;
    return add_record(s, sample->start, sample->end - sample->start, err);
}

/* A file of a sample, from `offset` to `end`: of the one at hand, or of the next one. */
static stk_status add_member(scan *s, tar_sample *sample, const stk__tar_member *m, int64_t offset, int64_t end,
                             stk_error *err)
{
    if (sample->open && (size_t)m->key.size == sample->key.length &&
        memcmp(m->key.data, sample->key.data, sample->key.length) == 0) {
        sample->end = end;
        return STK_OK;
    }
    STK_TRY(end_sample(s, sample, err));
    stk__text_reset(&sample->key);
    stk__text_write(&sample->key, m->key.data, (size_t)m->key.size);
    if (sample->key.failed)
        return stk__nomem((size_t)m->key.size, err);
    sample->open = true;
    sample->start = offset;
    sample->end = end;
    return STK_OK;
}

/* The last bytes of the file, too few for a header: nothing is lost when they are zeros. */
static stk_status is_filling(scan *s, int64_t offset, bool *out, stk_error *err)
{
    static const uint8_t zeros[STK__TAR_BLOCK];
    const int64_t left = s->size - offset;
    const uint8_t *p;
    size_t n;
    *out = false;
    if (left >= STK__TAR_BLOCK)
        return STK_OK;
    STK_TRY(look(s, offset, (size_t)left, true, &p, &n, err));
    *out = memcmp(p, zeros, (size_t)left) == 0;
    return STK_OK;
}

static stk_status tar_damage(scan *s, tar_sample *sample, int64_t *offset, const char *why, stk_error *err)
{
    bool filling;
    STK_TRY(end_sample(s, sample, err));
    STK_TRY(is_filling(s, *offset, &filling, err));
    if (!filling)
        return skip_damage(s, offset, why, err);
    *offset = s->size;
    return STK_OK;
}

/* A member whose headers are sound. Steps behind it. */
static stk_status walk_member(scan *s, tar_sample *sample, const stk__tar_member *m, int64_t *offset, stk_error *err)
{
    const int64_t data = *offset + m->head_size, left = s->size - data;
    if (m->data_size > left) {
        char why[STK__TAR_WHY];
        snprintf(why, sizeof why, "file ends inside member '%.*s': its size is %lld, but %lld bytes are left",
                 (int)STK_MIN(m->name.size, (int64_t)60), (const char *)m->name.data, (long long)m->data_size,
                 (long long)left);
        STK_TRY(end_sample(s, sample, err));
        /* The size is covered by the checksum: all that is left is data of this member. */
        STK_TRY(add_damage(s, *offset, s->size - *offset, why, err));
        *offset = s->size;
        return STK_OK;
    }
    const int64_t end = data + STK_MIN(stk__tar_padded(m->data_size), left);
    if (m->key.size)
        STK_TRY(add_member(s, sample, m, *offset, end, err));
    s->index->stray += m->stray;
    *offset = end;
    return STK_OK;
}

/* The error for a file that begins unlike an archive and holds no header anywhere. */
static stk_status no_tar(scan *s, stk_error *err)
{
    const stk__damage *d = s->index->damage;
    uint8_t first[STK__TAR_BLOCK] = {0};
    const size_t n = (size_t)STK_MIN(s->size, (int64_t)sizeof first);
    if (!s->index->damage_count || d->offset != 0 || d->size_bytes != s->size)
        return STK_OK;
    STK_TRY(stk__pread_full(s->fd, first, n, 0, s->path, err));
    if (stk__tar_is_header(first))
        return STK_OK;
    stk_error_set(err, STK_CORRUPT,
                  "is no tar file: it begins with %02x %02x %02x %02x %02x %02x %02x %02x, where %s, and no header is "
                  "found behind",
                  first[0], first[1], first[2], first[3], first[4], first[5], first[6], first[7], d->message);
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", s->path);
        err->offset = 0;
    }
    return STK_CORRUPT;
}

static stk_status walk_tar(scan *s, tar_sample *sample, stk_error *err)
{
    int64_t offset = 0, typical = 0; /* typical: a running mean of sizes, as above */
    while (offset < s->size) {
        stk__tar_member m;
        stk__tar_found found;
        char why[STK__TAR_WHY];
        STK_TRY(look_head(s, offset, typical >= SKIP_FROM, &m, &found, why, err));
        if (found == STK__TAR_MEMBER) {
            STK_TRY(walk_member(s, sample, &m, &offset, err));
            typical += (m.data_size - typical) / 4;
        } else if (found == STK__TAR_ZERO) { /* archives may have been joined, so what follows is looked at too */
            STK_TRY(end_sample(s, sample, err));
            offset += STK__TAR_BLOCK;
            typical = 0;
        } else {
            STK_TRY(tar_damage(s, sample, &offset, why, err));
            typical = 0;
        }
    }
    STK_TRY(end_sample(s, sample, err));
    const bool none = s->index->extents.count + (int64_t)s->builder.fill == 0;
    return none ? no_tar(s, err) : STK_OK;
}

static stk_status scan_tar(scan *s, stk_error *err)
{
    tar_sample sample = {0};
    const stk_status status = walk_tar(s, &sample, err);
    stk__text_clear(&sample.key);
    return status;
}

static stk_status scan_records(scan *s, stk_error *err)
{
    switch (s->index->framing) {
    case STK__FRAMING_LINES:
        return scan_lines(s, err);
    case STK__FRAMING_TAR:
        return scan_tar(s, err);
    case STK__FRAMING_TFRECORD:
        break;
    }
    return scan_tfrecord(s, err);
}

static stk_status check_same(int fd, const char *path, const stk__file_id *before, stk_error *err)
{
    stk__file_id now;
    STK_TRY(stk__file_id_of(fd, path, &now, err));
    if (now.size_bytes == before->size_bytes && now.mtime_ns == before->mtime_ns)
        return STK_OK;
    stk_error_set(err, STK_CORRUPT, "changed while it was being indexed: it had %lld bytes, now it has %lld",
                  (long long)before->size_bytes, (long long)now.size_bytes);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_CORRUPT;
}

stk_status stk__record_scan(int fd, const char *path, stk__scan_buffers *buffers, stk__scan_progress progress,
                            void *arg, stk__record_index *index, stk_error *err)
{
    STK_TRY(ensure_buffer(&buffers->block, BLOCK_MAX, err));
    const int64_t size = index->id.size_bytes;
    scan s = {
        .fd = fd,
        .path = path,
        .size = size,
        .buffers = buffers,
        .index = index,
        .builder.to = &index->extents,
        .next_size = BLOCK_MIN,
        .progress = progress,
        .arg = arg,
        /* In an honest file, records with sound headers and bad data do not overlap. */
        .search_budget = size > INT64_MAX / 4 ? INT64_MAX / 2 : 2 * size + BLOCK_MAX,
    };
    stk_status status = scan_records(&s, err);
    if (status == STK_OK && !stk__extents_finish(&s.builder))
        status = stk__nomem(sizeof(stk__extents_block), err);
    if (status == STK_OK)
        status = report(&s, size, err);
    if (status == STK_OK || status == STK_CORRUPT) {
        const stk_status same = check_same(fd, path, &index->id, err);
        if (same != STK_OK)
            return same;
    }
    return status;
}
