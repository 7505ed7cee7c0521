/* Headers of tar archives, read without copies and written the same each time. */
#include "formats/tar.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    NAME_AT = 0,
    NAME_SIZE = 100,
    MODE_AT = 100,
    UID_AT = 108,
    GID_AT = 116,
    SIZE_AT = 124,
    SIZE_SIZE = 12,
    MTIME_AT = 136,
    SUM_AT = 148,
    SUM_SIZE = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_SIZE = 155,
    STREAM_BUFFER = 64 << 10,
};

/* What stands before a member's own header and tells more about it. */
typedef struct pending {
    stk_bytes name; /* data NULL: not told */
    int64_t size;   /* -1: not told */
} pending;

/* ---- fields ---- */

static bool is_zero(const uint8_t *block)
{
    static const uint8_t zeros[STK__TAR_BLOCK];
    return memcmp(block, zeros, sizeof zeros) == 0;
}

/* Digits in octal with spaces before and a space or NUL behind. Empty is 0. */
static bool read_octal(const uint8_t *p, size_t n, int64_t *out)
{
    size_t i = 0;
    int64_t x = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        x = x << 3 | (p[i] - '0'); /* 12 digits at most */
    *out = x;
    return i == n || p[i] == ' ' || p[i] == 0;
}

/* Sizes beyond octal: the top bit is set and the rest is a big-endian number. Negative ones have all top bits set. */
static bool read_number(const uint8_t *p, size_t n, int64_t *out)
{
    if (!(p[0] & 0x80))
        return read_octal(p, n, out);
    int64_t x = p[0] & 0x7f;
    for (size_t i = 1; i < n; i++) {
        if (x >> 46)
            return false; /* no file is that large */
        x = x << 8 | p[i];
    }
    *out = x;
    return true;
}

/* Checksums count the field itself as spaces. Some old programs took bytes as signed. */
static bool checksum_fits(const uint8_t *block, int64_t *out_found, int64_t *out_wanted)
{
    int64_t total = 0, high = 0;
    for (int i = 0; i < STK__TAR_BLOCK; i++) {
        total += block[i];
        high += block[i] >> 7;
    }
    for (int i = SUM_AT; i < SUM_AT + SUM_SIZE; i++) {
        total -= block[i] - ' ';
        high -= block[i] >> 7;
    }
    *out_wanted = total;
    return read_octal(block + SUM_AT, SUM_SIZE, out_found) && (*out_found == total || *out_found == total - 256 * high);
}

bool stk__tar_is_header(const uint8_t block[STK__TAR_BLOCK])
{
    int64_t found, wanted;
    return memcmp(block + MAGIC_AT, "ustar", 5) == 0 && checksum_fits(block, &found, &wanted);
}

static stk_bytes text_in(const uint8_t *p, size_t size)
{
    const uint8_t *end = memchr(p, 0, size);
    return (stk_bytes){p, end ? end - p : (int64_t)size};
}

/* The name in the header itself, which may be in two parts. */
static stk_bytes own_name(const uint8_t *block, stk__tar_member *out)
{
    const stk_bytes name = text_in(block + NAME_AT, NAME_SIZE);
    const stk_bytes prefix = text_in(block + PREFIX_AT, PREFIX_SIZE);
    /* GNU tar writes "ustar  " and keeps other things where the prefix would be. */
    if (memcmp(block + MAGIC_AT, "ustar", 6) != 0 || prefix.size == 0)
        return name;
    char *p = out->joined;
    memcpy(p, prefix.data, (size_t)prefix.size);
    p[prefix.size] = '/';
    memcpy(p + prefix.size + 1, name.data, (size_t)name.size);
    return (stk_bytes){(const uint8_t *)out->joined, prefix.size + 1 + name.size};
}

/* ---- pax ---- */

/* Decimal digits that fill the bytes; fewer than 17. */
static bool read_decimal(const uint8_t *p, int64_t n, int64_t *out)
{
    int64_t x = 0;
    if (n <= 0 || n > 16)
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        x = x * 10 + (p[i] - '0');
    }
    *out = x;
    return true;
}

static bool is_word(stk_bytes bytes, const char *word)
{
    return (size_t)bytes.size == strlen(word) && memcmp(bytes.data, word, (size_t)bytes.size) == 0;
}

static bool starts_with(stk_bytes bytes, const char *word)
{
    return (size_t)bytes.size >= strlen(word) && memcmp(bytes.data, word, strlen(word)) == 0;
}

/* What one record "LENGTH KEY=VALUE\n" says. */
static bool take_pax(stk_bytes key, stk_bytes value, bool global, pending *p, char why[STK__TAR_WHY])
{
    const bool path = is_word(key, "path"), size = is_word(key, "size");
    if (global && (path || size)) {
        snprintf(why, STK__TAR_WHY, "a global pax header sets '%s' for all members, which is not supported",
                 path ? "path" : "size");
        return false;
    }
    if (starts_with(key, "GNU.sparse.")) {
        snprintf(why, STK__TAR_WHY, "member is a sparse file, which is not supported");
        return false;
    }
    if (path)
        p->name = value;
    if (size && !read_decimal(value.data, value.size, &p->size)) {
        snprintf(why, STK__TAR_WHY, "pax header has the size '%.*s', wanted a number below 10^16",
                 (int)STK_MIN(value.size, (int64_t)40), (const char *)value.data);
        return false;
    }
    return true;
}

static bool read_pax(stk_bytes records, bool global, pending *p, char why[STK__TAR_WHY])
{
    while (records.size > 0 && records.data[0] != 0) {
        const uint8_t *space = memchr(records.data, ' ', (size_t)STK_MIN(records.size, (int64_t)17));
        int64_t length = 0;
        if (!space || !read_decimal(records.data, space - records.data, &length) || length > records.size ||
            length < space - records.data + 3 || records.data[length - 1] != '\n') {
            snprintf(why, STK__TAR_WHY, "pax header is broken, %lld bytes before its end", (long long)records.size);
            return false;
        }
        const uint8_t *end = records.data + length - 1;
        const uint8_t *equals = memchr(space + 1, '=', (size_t)(end - space - 1));
        if (!equals) {
            snprintf(why, STK__TAR_WHY, "pax header has a record without '='");
            return false;
        }
        if (!take_pax((stk_bytes){space + 1, equals - space - 1}, (stk_bytes){equals + 1, end - equals - 1}, global, p,
                      why))
            return false;
        records.data += length;
        records.size -= length;
    }
    return true;
}

/* ---- members ---- */

/* Key and extension of a file. */
static void split_name(stk__tar_member *m)
{
    const uint8_t *p = m->name.data, *end = p + m->name.size, *base = end;
    while (base > p && base[-1] != '/')
        base--;
    /* Notes about the whole archive, as WebDataset writes them. */
    if (base == p && m->name.size >= 4 && p[0] == '_' && p[1] == '_' && end[-1] == '_' && end[-2] == '_')
        return;
    const uint8_t *dot = memchr(base, '.', (size_t)(end - base));
    m->stray = !dot || dot == base || memchr(p, 0, (size_t)m->name.size);
    if (m->stray)
        return;
    m->key = (stk_bytes){p, dot - p};
    m->ext = (stk_bytes){dot + 1, end - dot - 1};
}

static bool bad_header(const uint8_t *block, int64_t *out_size, char why[STK__TAR_WHY])
{
    int64_t found, wanted;
    if (!checksum_fits(block, &found, &wanted)) {
        snprintf(why, STK__TAR_WHY, "header checksum is %lld, wanted %lld", (long long)found, (long long)wanted);
        return true;
    }
    if (!read_number(block + SIZE_AT, SIZE_SIZE, out_size)) {
        snprintf(why, STK__TAR_WHY, "size in the header is %02x %02x %02x %02x..., wanted an octal number",
                 block[SIZE_AT], block[SIZE_AT + 1], block[SIZE_AT + 2], block[SIZE_AT + 3]);
        return true;
    }
    return false;
}

/* The header that ends the head of a member. */
static stk__tar_found finish_head(const uint8_t *block, int64_t size, const pending *p, stk__tar_member *out,
                                  char why[STK__TAR_WHY])
{
    const uint8_t type = block[TYPE_AT];
    if (type == 'S') {
        snprintf(why, STK__TAR_WHY, "member is a sparse file, which is not supported");
        return STK__TAR_BAD;
    }
    out->name = p->name.data ? p->name : own_name(block, out);
    while (out->name.size > 2 && memcmp(out->name.data, "./", 2) == 0) /* as `tar -c .` writes them */
        out->name = (stk_bytes){out->name.data + 2, out->name.size - 2};
    /* Links, devices and directories have no data, whatever their size says. */
    out->data_size = type >= '1' && type <= '6' ? 0 : p->size >= 0 ? p->size : size;
    const bool slash = out->name.size > 0 && out->name.data[out->name.size - 1] == '/';
    if ((type == '0' || type == 0 || type == '7') && !slash)
        split_name(out);
    return STK__TAR_MEMBER;
}

/* What a header says about the member that follows it. False: bad. */
static bool take_extra(uint8_t type, const uint8_t *data, int64_t size, pending *p, char why[STK__TAR_WHY])
{
    if (type == 'L')
        p->name = text_in(data, (size_t)size);
    if (type == 'x' || type == 'g')
        return read_pax((stk_bytes){data, size}, type == 'g', p, why);
    return true;
}

stk__tar_found stk__tar_head(const uint8_t *p, size_t n, stk__tar_member *out, size_t *out_need, char why[STK__TAR_WHY])
{
    pending extra = {{NULL, 0}, -1};
    size_t at = 0;
    out->name = out->key = out->ext = (stk_bytes){NULL, 0};
    out->stray = false;
    for (;;) {
        int64_t size;
        *out_need = at + STK__TAR_BLOCK;
        if (n < *out_need)
            return STK__TAR_MORE;
        const uint8_t *block = p + at;
        if (at == 0 && is_zero(block))
            return STK__TAR_ZERO;
        if (bad_header(block, &size, why))
            return STK__TAR_BAD;
        at += STK__TAR_BLOCK;
        const uint8_t type = block[TYPE_AT];
        if (type != 'L' && type != 'K' && type != 'x' && type != 'g') {
            out->head_size = (int64_t)at;
            return finish_head(block, size, &extra, out, why);
        }
        if (size > STK__TAR_HEAD_MAX - 2 * STK__TAR_BLOCK - (int64_t)at) {
            snprintf(why, STK__TAR_WHY, "headers of a member have more than %d bytes", STK__TAR_HEAD_MAX);
            return STK__TAR_BAD;
        }
        *out_need = at + (size_t)stk__tar_padded(size);
        if (n < *out_need)
            return STK__TAR_MORE;
        if (!take_extra(type, p + at, size, &extra, why))
            return STK__TAR_BAD;
        at = *out_need;
        if (type == 'g' && at == STK__TAR_BLOCK + (size_t)stk__tar_padded(size)) {
            /* About the archive: a member of its own. */
            out->head_size = (int64_t)at;
            out->data_size = 0;
            return STK__TAR_MEMBER;
        }
    }
}

stk_status stk__tar_next(stk__tar_reader *r, stk__tar_member *out, stk_bytes *out_data, stk_error *err)
{
    char why[STK__TAR_WHY];
    size_t need;
    if (r->left == 0)
        return STK_END;
    const stk__tar_found found = stk__tar_head(r->at, r->left, out, &need, why);
    if (found == STK__TAR_ZERO)
        return STK_END;
    if (found == STK__TAR_BAD)
        return stk_error_set(err, STK_CORRUPT, "%s", why);
    if (found == STK__TAR_MORE)
        return stk_error_set(err, STK_CORRUPT, "sample ends inside a header: found %zu bytes, wanted %zu", r->left,
                             need);
    const size_t left = r->left - (size_t)out->head_size;
    if (out->data_size > (int64_t)left)
        return stk_error_set(err, STK_CORRUPT, "sample ends inside member '%.*s': found %zu bytes, wanted %lld",
                             (int)STK_MIN(out->name.size, (int64_t)100), (const char *)out->name.data, left,
                             (long long)out->data_size);
    *out_data = (stk_bytes){r->at + out->head_size, out->data_size};
    const size_t whole = (size_t)(out->head_size + stk__tar_padded(out->data_size));
    const size_t step = STK_MIN(whole, r->left); /* the end of a file may lack its padding */
    r->at += step;
    r->left -= step;
    return STK_OK;
}

/* ---- the writer ---- */

struct stk__tar_writer {
    stk__set_file *part; /* a file of a set, which is its owner; NULL: `file` */
    stk__new_file file;
    char *buffer;
    bool ended, failed;
};

int64_t stk__tar_writer_memory(void)
{
    return (int64_t)sizeof(stk__tar_writer) + STREAM_BUFFER;
}

static void writer_free(stk__tar_writer *w)
{
    stk__free(w->buffer);
    stk__free(w);
}

stk_status stk__tar_writer_open(const char *path, stk__tar_writer **out, stk_error *err)
{
    stk__tar_writer *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    w->buffer = stk__alloc(STREAM_BUFFER);
    const stk_status status = w->buffer ? stk__new_file_open(&w->file, path, err) : stk__nomem(STREAM_BUFFER, err);
    if (status != STK_OK) {
        writer_free(w);
        return status;
    }
    setvbuf(w->file.stream, w->buffer, _IOFBF, STREAM_BUFFER);
    *out = w;
    return STK_OK;
}

stk_status stk__tar_writer_part(stk__set_file *part, stk__tar_writer **out, stk_error *err)
{
    stk__tar_writer *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    w->part = part;
    *out = w;
    return STK_OK;
}

/* Octal where it fits, else base 256. */
static void put_size(uint8_t *field, uint64_t size)
{
    if (size < (uint64_t)1 << 33) {
        for (int i = SIZE_SIZE - 2; i >= 0; i--, size >>= 3)
            field[i] = (uint8_t)('0' + (size & 7));
        return;
    }
    for (int i = SIZE_SIZE - 1; i > 0; i--, size >>= 8)
        field[i] = (uint8_t)size;
    field[0] = 0x80;
}

/* The same bytes for the same member: no times, no owner. */
static void make_header(uint8_t block[STK__TAR_BLOCK], const char *name, size_t name_size, char type, uint64_t size)
{
    memset(block, 0, STK__TAR_BLOCK);
    memcpy(block + NAME_AT, name, STK_MIN(name_size, (size_t)NAME_SIZE));
    memcpy(block + MODE_AT, "0000644", 8);
    memcpy(block + UID_AT, "0000000", 8);
    memcpy(block + GID_AT, "0000000", 8);
    put_size(block + SIZE_AT, size);
    memcpy(block + MTIME_AT, "00000000000", 12);
    block[TYPE_AT] = (uint8_t)type;
    memcpy(block + MAGIC_AT, "ustar  ", 8);
    memset(block + SUM_AT, ' ', SUM_SIZE);
    unsigned sum = 0;
    for (int i = 0; i < STK__TAR_BLOCK; i++)
        sum += block[i];
    char digits[SUM_SIZE];
    snprintf(digits, sizeof digits, "%06o", sum & 0777777); /* six digits, NUL; the space behind them stays */
    memcpy(block + SUM_AT, digits, 7);
}

static stk_status put(stk__tar_writer *w, const void *data, size_t size, stk_error *err)
{
    const stk_status status =
        w->part ? stk__set_file_write(w->part, data, size, err) : stk__new_file_write(&w->file, data, size, err);
    w->failed |= status != STK_OK;
    return status;
}

static stk_status put_padded(stk__tar_writer *w, const void *data, size_t size, stk_error *err)
{
    static const uint8_t zeros[STK__TAR_BLOCK];
    STK_TRY(put(w, data, size, err));
    return put(w, zeros, (STK__TAR_BLOCK - size % STK__TAR_BLOCK) % STK__TAR_BLOCK, err);
}

stk_status stk__tar_writer_add(stk__tar_writer *w, const char *name, const void *data, size_t size, stk_error *err)
{
    uint8_t block[STK__TAR_BLOCK];
    const size_t name_size = strlen(name);
    if (name_size > NAME_SIZE) {
        static const char long_name[] = "././@LongLink";
        make_header(block, long_name, sizeof long_name - 1, 'L', name_size + 1);
        STK_TRY(put(w, block, sizeof block, err));
        STK_TRY(put_padded(w, name, name_size + 1, err));
    }
    make_header(block, name, name_size, '0', size);
    STK_TRY(put(w, block, sizeof block, err));
    return put_padded(w, data, size, err);
}

stk_status stk__tar_writer_end(stk__tar_writer *w, stk_error *err)
{
    static const uint8_t zeros[2 * STK__TAR_BLOCK];
    if (w->ended)
        return STK_OK;
    stk_status status;
    if (w->failed) {
        status = stk_error_set(err, STK_IO, "an earlier write failed, so the file is not published");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", w->part ? stk__set_file_path(w->part) : w->file.path);
    } else {
        status = put(w, zeros, sizeof zeros, err);
    }
    if (status == STK_OK)
        status = w->part ? stk__set_file_sync(w->part, err) : stk__new_file_sync(&w->file, err);
    w->ended = status == STK_OK;
    w->failed |= status != STK_OK;
    return status;
}

stk_status stk__tar_writer_commit(stk__tar_writer *w, stk_error *err)
{
    stk_status status = stk__tar_writer_end(w, err);
    if (status != STK_OK)
        stk__new_file_abort(&w->file);
    else
        status = stk__new_file_commit(&w->file, err);
    writer_free(w);
    return status;
}

void stk__tar_writer_abort(stk__tar_writer *w)
{
    if (!w)
        return;
    stk__new_file_abort(&w->file);
    writer_free(w);
}
