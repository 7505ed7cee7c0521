/* Record files read from front to back, compressed or not, in bounded memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/data_file.h"
#include "formats/record_index.h"
#include "formats/tar.h"
#include "formats/tfrecord.h"
#include "formats/zlib_memory.h"

#include "base/banned.h"

enum { WINDOW = 256 << 10, GATHER_STEP = 1 << 20 };

struct stk__record_stream {
    char *path;
    int fd;
    bool is_stdin;
    bool is_file;    /* a regular file by name: it can be looked at again */
    stk__file_id id; /* of such a one, when it was opened */
    stk__framing framing;
    bool verify;
    bool started;  /* the first bytes were read and the compression is known */
    bool finished; /* END, or an error that cannot be passed */
    bool file_end; /* read() said so */
    int64_t stored_bytes;
    stk__compression compression;

    uint8_t *stored; /* compressed bytes; NULL for plain files */
    z_stream z;      /* its input lies in `stored` */
    bool inflating;  /* z is to be ended */
    bool between;    /* before a member of a compressed file, or behind the last one */
    int64_t members; /* members read to their end */

    /* Uncompressed bytes not yet given out are window[begin..end); `offset` is where window[begin] lies. */
    uint8_t *window;
    size_t begin, end;
    int64_t offset;

    int64_t record;    /* number of the next one */
    uint8_t *gathered; /* a record that does not fit in the window */
    size_t gathered_capacity;
    size_t gathered_max;
    uint64_t wanted;    /* bytes of the record being gathered, where its header says so */
    uint64_t too_large; /* of the one that was refused; 0: nobody knows before a line ends */
    bool refused;
    stk__record_charge charge; /* NULL: nobody counts */
    void *charge_arg;
    stk__text key; /* tar: of the sample being gathered */
    int64_t stray; /* tar: files that belong to no sample */
};

/* Completes an error with the place of the record that starts at `offset`. */
static stk_status at_record(const stk__record_stream *s, int64_t offset, stk_status status, stk_error *err)
{
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", s->path);
        err->offset = offset;
        err->record = s->record;
    }
    return status;
}

static stk_status open_file(stk__record_stream *s, stk_error *err)
{
    struct stat st;
    STK_TRY(stk__data_file_open_settled(s->path, &s->fd, &s->id, err));
    /* Files of /proc and the like claim to be empty, and have a new time stamp each time. */
    s->is_file = fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && s->id.size_bytes > 0;
    return STK_OK;
}

stk_status stk__record_stream_open(const char *path, stk__framing framing, bool verify, stk__record_stream **out,
                                   stk_error *err)
{
    stk__record_stream *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    s->framing = framing;
    s->verify = verify;
    s->gathered_max = SIZE_MAX;
    s->is_stdin = strcmp(path, "-") == 0;
    s->fd = s->is_stdin ? STDIN_FILENO : -1;
    s->path = stk__strdup(path);
    s->window = stk__alloc(WINDOW);
    stk_status status = STK_OK;
    if (!s->path || !s->window)
        status = stk__nomem(WINDOW, err);
    else if (!s->is_stdin)
        status = open_file(s, err);
    if (status != STK_OK) {
        stk__record_stream_close(s);
        return status;
    }
    *out = s;
    return STK_OK;
}

void stk__record_stream_close(stk__record_stream *s)
{
    if (!s)
        return;
    if (s->inflating)
        inflateEnd(&s->z);
    if (s->fd >= 0 && !s->is_stdin)
        close(s->fd);
    stk__free(s->path);
    stk__free(s->window);
    stk__free(s->stored);
    stk__free(s->gathered);
    if (s->charge)
        s->charge(s->charge_arg, -(int64_t)s->gathered_capacity, NULL);
    stk__text_clear(&s->key);
    stk__free(s);
}

void stk__record_stream_limit(stk__record_stream *s, int64_t max_bytes)
{
    s->gathered_max = (size_t)max_bytes;
}

int64_t stk__record_stream_stray(const stk__record_stream *s)
{
    return s->stray;
}

void stk__record_stream_charge(stk__record_stream *s, stk__record_charge charge, void *arg)
{
    s->charge = charge;
    s->charge_arg = arg;
}

bool stk__record_stream_refused(const stk__record_stream *s, uint64_t *out_size)
{
    *out_size = s->too_large;
    return s->refused;
}

size_t stk__record_stream_memory(void)
{
    return sizeof(stk__record_stream) + 2 * WINDOW + 64 * 1024; /* zlib's */
}

int64_t stk__record_stream_bytes(const stk__record_stream *s)
{
    return s->stored_bytes;
}

/* Reads at most `room` bytes of the file; 0 at its end. */
static stk_status read_stored(stk__record_stream *s, uint8_t *to, size_t room, size_t *out, stk_error *err)
{
    ssize_t n = 0;
    while (!s->file_end) {
        if (!s->is_file)
            STK_TRY(stk__await_input(s->fd, err));
        if ((n = read(s->fd, to, room)) >= 0)
            break;
        if (errno == ENOMEM)
            return stk__data_file_exhausted(errno, s->path, "cannot read", err);
        if (errno != EINTR)
            return stk_error_set(err, STK_IO, "cannot read: %s", strerror(errno));
    }
    /* Before anything is made of these bytes: a file that is written to meanwhile has another time stamp by now. */
    if (s->is_file)
        STK_TRY(stk__data_file_unchanged(s->fd, s->path, &s->id, err));
    s->file_end |= n == 0;
    s->stored_bytes += n;
    *out = (size_t)n;
    return STK_OK;
}

/* Says what inflate did not like, and at which stored byte. */
static stk_status inflate_error(const stk__record_stream *s, int rc, stk_error *err)
{
    const char *name = stk__compression_name(s->compression);
    const long long at = (long long)(s->stored_bytes - s->z.avail_in);
    if (rc == Z_MEM_ERROR)
        return stk__nomem((size_t)64 << 10, err);
    if (rc == Z_NEED_DICT)
        return stk_error_set(err, STK_CORRUPT, "%s data at stored byte %lld wants a preset dictionary", name, at);
    return stk_error_set(err, STK_CORRUPT, "%s data is corrupt at stored byte %lld, member %lld: %s", name, at,
                         (long long)s->members, s->z.msg ? s->z.msg : "inflate failed");
}

/* Between two members: at the end of the file this is the end of data, else the next member must start here. */
static stk_status next_member(stk__record_stream *s, stk_error *err)
{
    if (s->z.avail_in == 0 && s->file_end)
        return STK_END;
    const long long at = (long long)(s->stored_bytes - s->z.avail_in);
    if (s->members && (s->compression == STK__ZLIB || s->z.next_in[0] != 0x1f))
        return stk_error_set(err, STK_CORRUPT, "garbage after the %s data, from stored byte %lld: found 0x%02x%s",
                             stk__compression_name(s->compression), at, s->z.next_in[0],
                             s->compression == STK__GZIP ? ", wanted 0x1f or the end of the file" : "");
    inflateReset(&s->z);
    s->between = false;
    return STK_OK;
}

/* Adds inflated bytes behind the window's end, at least one; END when the data is complete. */
static stk_status fill_inflated(stk__record_stream *s, stk_error *err)
{
    const size_t before = s->end;
    while (s->end == before) {
        if (s->z.avail_in == 0 && !s->file_end) {
            size_t n;
            STK_TRY(read_stored(s, s->stored, WINDOW, &n, err));
            s->z.next_in = s->stored;
            s->z.avail_in = (uInt)n;
        }
        if (s->between)
            STK_TRY(next_member(s, err));
        s->z.next_out = s->window + s->end;
        s->z.avail_out = (uInt)(WINDOW - s->end);
        const int rc = inflate(&s->z, Z_NO_FLUSH);
        s->end = WINDOW - s->z.avail_out;
        if (rc == Z_STREAM_END) {
            s->between = true;
            s->members++;
        } else if (rc == Z_BUF_ERROR && s->z.avail_in == 0 && s->file_end) {
            return stk_error_set(err, STK_CORRUPT, "%s data ends early: the file has only %lld bytes",
                                 stk__compression_name(s->compression), (long long)s->stored_bytes);
        } else if (rc != Z_OK && rc != Z_BUF_ERROR && s->end == before) {
            /* With bytes before the bad place: those first. inflate says the same again at the next call. */
            return inflate_error(s, rc, err);
        }
    }
    return STK_OK;
}

/* Adds bytes behind the window's end, at least one; END when there are none. The window must have room. */
static stk_status fill(stk__record_stream *s, stk_error *err)
{
    if (s->compression != STK__PLAIN)
        return fill_inflated(s, err);
    size_t n;
    STK_TRY(read_stored(s, s->window + s->end, WINDOW - s->end, &n, err));
    s->end += n;
    return n ? STK_OK : STK_END;
}

static void drop(stk__record_stream *s, size_t size)
{
    s->begin += size;
    s->offset += (int64_t)size;
}

/* Makes `size` bytes readable at window[begin]; END when the data ends before. size <= WINDOW. */
static stk_status need(stk__record_stream *s, size_t size, stk_error *err)
{
    if (STK_LIKELY(s->end - s->begin >= size))
        return STK_OK;
    if (s->begin) {
        memmove(s->window, s->window + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
    }
    while (s->end < size)
        STK_TRY(fill(s, err));
    return STK_OK;
}

/* Reads the first bytes, which tell the compression. Done by the first `next`: opening never waits for a pipe. */
static stk_status start(stk__record_stream *s, stk_error *err)
{
    s->started = true;
    while (s->end < STK__SNIFF_BYTES && !s->file_end) {
        size_t n;
        STK_TRY(read_stored(s, s->window + s->end, WINDOW - s->end, &n, err));
        s->end += n;
    }
    s->compression = stk__record_sniff(s->window, STK_MIN(s->end, (size_t)STK__SNIFF_BYTES),
                                       s->end <= STK__SNIFF_BYTES && s->file_end, s->framing);
    if (s->compression == STK__PLAIN)
        return STK_OK;
    s->stored = s->window;
    s->window = stk__alloc(WINDOW);
    s->z =
        (z_stream){.zalloc = stk__zlib_alloc, .zfree = stk__zlib_free, .next_in = s->stored, .avail_in = (uInt)s->end};
    s->end = 0;
    if (!s->window || inflateInit2(&s->z, s->compression == STK__GZIP ? 15 + 16 : 15) != Z_OK)
        return stk__nomem(WINDOW, err);
    s->inflating = true;
    s->between = true;
    return STK_OK;
}

static stk_status grow_gathered(stk__record_stream *s, size_t size, stk_error *err)
{
    if (size > s->gathered_max) {
        s->too_large = s->framing == STK__FRAMING_LINES ? 0 : STK_MAX(s->wanted, (uint64_t)size);
        s->refused = true;
        return stk_error_set(err, STK_BUDGET,
                             "record has more than %zu bytes, which is all that it may take of the memory budget",
                             s->gathered_max);
    }
    if (size <= s->gathered_capacity)
        return STK_OK;
    /* Old and new exist at once where the allocator has to move them. */
    const size_t before = s->gathered_capacity, capacity = STK_MAX(size, STK_MIN(2 * before, s->gathered_max));
    if (s->charge)
        STK_TRY(s->charge(s->charge_arg, (int64_t)capacity, err));
    uint8_t *gathered = stk__realloc(s->gathered, capacity);
    if (s->charge)
        s->charge(s->charge_arg, -(int64_t)(gathered ? before : capacity), NULL);
    if (!gathered)
        return stk__nomem(capacity, err);
    s->gathered = gathered;
    s->gathered_capacity = capacity;
    return STK_OK;
}

/* Moves `size` bytes to `gathered`, behind `have`. Memory grows with the data that arrives, whatever a header claims. */
static stk_status gather(stk__record_stream *s, uint64_t have, uint64_t size, stk_error *err)
{
    s->wanted = have + size;
    for (uint64_t done = have, end = have + size; done < end;) {
        if (s->begin == s->end) {
            s->begin = s->end = 0;
            STK_TRY(fill(s, err));
        }
        const size_t n = (size_t)STK_MIN(end - done, (uint64_t)(s->end - s->begin));
        const uint64_t room = STK_MIN(end, STK_MAX(done + n, (uint64_t)GATHER_STEP));
        STK_TRY(grow_gathered(s, (size_t)STK_MIN(room, (uint64_t)SIZE_MAX), err));
        memcpy(s->gathered + done, s->window + s->begin, n);
        drop(s, n);
        done += n;
    }
    return STK_OK;
}

/* A file that ends inside a record. */
static stk_status cut_off(const stk__record_stream *s, int64_t from, const char *what, uint64_t wanted, stk_error *err)
{
    const long long found = (long long)(s->offset - from) + (long long)(s->end - s->begin);
    return stk_error_set(err, STK_CORRUPT, "file ends inside a record%s: found %lld bytes, wanted %llu", what, found,
                         (unsigned long long)wanted);
}

static stk_status read_header(stk__record_stream *s, uint64_t *out_size, stk_error *err)
{
    const stk_status status = need(s, STK__TFRECORD_HEADER, err);
    if (status == STK_END)
        return s->end == s->begin ? STK_END : cut_off(s, s->offset, " header", STK__TFRECORD_HEADER, err);
    STK_TRY(status);
    const uint8_t *p = s->window + s->begin;
    if (STK_LIKELY(stk__tfrecord_header(p, out_size, NULL) == STK_OK)) {
        /* Offsets are int64. No file is that long, but a header may say so. */
        if (*out_size > (uint64_t)(INT64_MAX - s->offset - 64))
            return stk_error_set(err, STK_CORRUPT, "record length is %llu, wanted less than 2^63",
                                 (unsigned long long)*out_size);
        return STK_OK;
    }
    stk_error bad;
    stk_error_clear(&bad);
    stk__tfrecord_header(p, out_size, &bad);
    if (s->record == 0 && s->offset == 0)
        return stk_error_set(
            err, STK_CORRUPT,
            "is no TFRecord file: it begins with %02x %02x %02x %02x %02x %02x %02x %02x, whose %.150s", p[0], p[1],
            p[2], p[3], p[4], p[5], p[6], p[7], bad.message);
    return stk_error_set(err, STK_CORRUPT, "%.150s; nothing after it can be read", bad.message);
}

/* Reads one record and steps behind it. CORRUPT with *out_again: only its data is bad. */
static stk_status next_tfrecord(stk__record_stream *s, stk_bytes *out, bool *out_again, stk_error *err)
{
    uint64_t size;
    STK_TRY(read_header(s, &size, err));
    drop(s, STK__TFRECORD_HEADER);
    const int64_t from = s->offset;
    const uint64_t whole = size + STK__TFRECORD_FOOTER;
    const uint8_t *p;
    const stk_status status = whole <= WINDOW ? need(s, (size_t)whole, err) : gather(s, 0, whole, err);
    if (status == STK_END)
        return cut_off(s, from, "", whole, err);
    STK_TRY(status);
    if (whole <= WINDOW) {
        p = s->window + s->begin;
        drop(s, (size_t)whole);
    } else {
        p = s->gathered;
    }
    *out = (stk_bytes){p, (int64_t)size};
    if (s->verify && stk__tfrecord_data(p, (size_t)size, p + size, err) != STK_OK) {
        *out_again = true;
        return STK_CORRUPT;
    }
    return STK_OK;
}

/* Appends the window's first n bytes to the line that is gathered. */
static stk_status gather_line(stk__record_stream *s, size_t *size, size_t n, stk_error *err)
{
    STK_TRY(grow_gathered(s, n > SIZE_MAX - *size - 1 ? SIZE_MAX : *size + n + 1, err));
    memcpy(s->gathered + *size, s->window + s->begin, n);
    *size += n;
    drop(s, n);
    return STK_OK;
}

static void give_line(stk_bytes *out, const uint8_t *p, size_t size, bool newline)
{
    *out = (stk_bytes){p, (int64_t)(size - (newline && size && p[size - 1] == '\r'))};
}

static stk_status next_line(stk__record_stream *s, stk_bytes *out, stk_error *err)
{
    size_t gathered = 0, searched = 0;
    bool gathering = false;
    for (;;) {
        const uint8_t *p = s->window + s->begin;
        const uint8_t *newline = memchr(p + searched, '\n', s->end - s->begin - searched);
        if (newline) {
            const size_t n = (size_t)(newline - p);
            if (gathering) {
                STK_TRY(gather_line(s, &gathered, n, err));
                give_line(out, s->gathered, gathered, true);
                drop(s, 1);
            } else {
                give_line(out, p, n, true);
                drop(s, n + 1);
            }
            return STK_OK;
        }
        searched = s->end - s->begin;
        if (searched == WINDOW) { /* longer than the window: gather it piece by piece */
            STK_TRY(gather_line(s, &gathered, searched, err));
            gathering = true;
            s->begin = s->end = searched = 0;
        }
        const stk_status status = need(s, searched + 1, err);
        if (status == STK_END)
            break;
        STK_TRY(status);
    }
    /* The last line, without "\n". */
    if (!gathering && s->begin == s->end)
        return STK_END;
    const size_t n = s->end - s->begin;
    if (gathering) {
        STK_TRY(gather_line(s, &gathered, n, err));
        give_line(out, s->gathered, gathered, false);
    } else {
        give_line(out, s->window + s->begin, n, false);
        drop(s, n);
    }
    return STK_OK;
}

/* ---- tar ---- */

/* The headers of the next member, without stepping over them. END: nothing is left but perhaps some zeros. */
static stk_status peek_head(stk__record_stream *s, stk__tar_member *m, bool *out_zero, stk_error *err)
{
    char why[STK__TAR_WHY];
    size_t wanted = STK__TAR_BLOCK;
    stk__tar_found found;
    do {
        const stk_status status = need(s, wanted, err);
        if (status == STK_END) {
            bool zeros = wanted == STK__TAR_BLOCK;
            for (size_t i = s->begin; zeros && i < s->end; i++)
                zeros = s->window[i] == 0;
            return zeros ? STK_END : cut_off(s, s->offset, " header", wanted, err);
        }
        STK_TRY(status);
        found = stk__tar_head(s->window + s->begin, s->end - s->begin, m, &wanted, why);
    } while (found == STK__TAR_MORE);
    *out_zero = found == STK__TAR_ZERO;
    if (found != STK__TAR_BAD)
        return STK_OK;
    if (s->record == 0 && s->offset == 0 && !stk__tar_is_header(s->window + s->begin)) {
        const uint8_t *p = s->window + s->begin;
        return stk_error_set(err, STK_CORRUPT,
                             "is no tar file: it begins with %02x %02x %02x %02x %02x %02x %02x %02x, where %s", p[0],
                             p[1], p[2], p[3], p[4], p[5], p[6], p[7], why);
    }
    return stk_error_set(err, STK_CORRUPT, "%s; nothing after it can be read", why);
}

/* Steps over `size` bytes; the end of the data may cut off `padding` more. */
static stk_status skip(stk__record_stream *s, uint64_t size, uint64_t padding, stk_error *err)
{
    const int64_t from = s->offset;
    for (uint64_t left = size + padding; left > 0;) {
        if (s->begin == s->end) {
            s->begin = s->end = 0;
            const stk_status status = fill(s, err);
            if (status == STK_END)
                return left <= padding ? STK_OK : cut_off(s, from, "", size, err);
            STK_TRY(status);
        }
        const size_t n = (size_t)STK_MIN(left, (uint64_t)(s->end - s->begin));
        drop(s, n);
        left -= n;
    }
    return STK_OK;
}

/* Appends a member to the sample. */
static stk_status gather_member(stk__record_stream *s, const stk__tar_member *m, uint64_t *have, stk_error *err)
{
    const int64_t from = s->offset;
    const uint64_t whole = (uint64_t)(m->head_size + m->data_size);
    const uint64_t padding = (uint64_t)(stk__tar_padded(m->data_size) - m->data_size);
    const stk_status status = gather(s, *have, whole, err);
    if (status == STK_END)
        return cut_off(s, from, "", whole, err);
    STK_TRY(status);
    /* Padding counts in the record, so that what follows lies at whole blocks. */
    STK_TRY(grow_gathered(s, (size_t)(*have + whole + padding), err));
    memset(s->gathered + *have + whole, 0, (size_t)padding);
    *have += whole + padding;
    s->stray += m->stray;
    return skip(s, 0, padding, err);
}

/* Steps to the first file of a sample. */
static stk_status find_sample(stk__record_stream *s, stk__tar_member *m, stk_error *err)
{
    for (;;) {
        bool zero;
        STK_TRY(peek_head(s, m, &zero, err));
        if (zero) {
            drop(s, STK__TAR_BLOCK);
        } else if (m->key.size) {
            return STK_OK;
        } else {
            const int64_t padded = stk__tar_padded(m->data_size);
            s->stray += m->stray;
            STK_TRY(skip(s, (uint64_t)(m->head_size + m->data_size), (uint64_t)(padded - m->data_size), err));
        }
    }
}

/* Members up to the first file of another sample. Other members between them are taken along. */
static stk_status next_tar(stk__record_stream *s, stk_bytes *out, int64_t *out_from, stk_error *err)
{
    stk__tar_member m;
    stk_status status = find_sample(s, &m, err);
    *out_from = s->offset;
    STK_TRY(status);
    stk__text_reset(&s->key);
    stk__text_write(&s->key, m.key.data, (size_t)m.key.size);
    if (s->key.failed)
        return stk__nomem((size_t)m.key.size, err);
    uint64_t have = 0;
    for (;;) {
        bool zero;
        STK_TRY(gather_member(s, &m, &have, err));
        /* What is wrong behind the sample is told by the next call, which meets it again. */
        status = peek_head(s, &m, &zero, NULL);
        if (status != STK_OK || zero)
            break;
        if (m.key.size && ((size_t)m.key.size != s->key.length || memcmp(m.key.data, s->key.data, s->key.length) != 0))
            break;
    }
    *out = (stk_bytes){s->gathered, (int64_t)have};
    return STK_OK;
}

static stk_status next_record(stk__record_stream *s, stk_bytes *out, int64_t *from, bool *out_again, stk_error *err)
{
    switch (s->framing) {
    case STK__FRAMING_LINES:
        return next_line(s, out, err);
    case STK__FRAMING_TAR:
        return next_tar(s, out, from, err);
    case STK__FRAMING_TFRECORD:
        break;
    }
    return next_tfrecord(s, out, out_again, err);
}

stk_status stk__record_stream_next(stk__record_stream *s, stk_bytes *out, int64_t *out_offset, bool *out_again,
                                   stk_error *err)
{
    *out_again = false;
    if (s->finished)
        return STK_END;
    stk_status status = s->started ? STK_OK : start(s, err);
    int64_t from = s->offset; /* a tar sample may start behind other members */
    if (status == STK_OK)
        status = next_record(s, out, &from, out_again, err);
    if (status == STK_OK)
        *out_offset = from + (s->framing == STK__FRAMING_TFRECORD ? STK__TFRECORD_HEADER : 0);
    else if (status != STK_END)
        at_record(s, from, status, err);
    if (status == STK_OK || *out_again)
        s->record++;
    else
        s->finished = true;
    return status;
}
