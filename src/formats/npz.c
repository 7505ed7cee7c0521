/*
 * Reads .npz files: the central directory of the zip, its members, and the .npy header of each. What numpy.savez and
 * savez_compressed write is read, zip64 and data descriptors with it; anything that does not add up is refused.
 */
#include "formats/npz.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

enum {
    END_SIZE = 22,
    END_SIGNATURE = 0x06054b50,
    END_COMMENT_MAX = 0xffff,
    END64_SIZE = 56,
    END64_SIGNATURE = 0x06064b50,
    LOCATOR_SIZE = 20,
    LOCATOR_SIGNATURE = 0x07064b50,
    ENTRY_SIZE = 46,
    ENTRY_SIGNATURE = 0x02014b50,
    LOCAL_SIZE = 30,
    LOCAL_SIGNATURE = 0x04034b50,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    MEMBERS_MAX = 1024,
    /* Deflate makes at most 258 bytes of 2 bits. */
    RATIO_MAX = 1032,
};

/* Where the central directory lies. */
typedef struct directory {
    size_t at, size;
    uint64_t count;
} directory;

/* A member as the central directory tells it, then its data. */
typedef struct member {
    size_t entry_at; /* in the file, for messages */
    const uint8_t *name;
    size_t name_size;
    uint16_t flags, method;
    uint32_t crc;
    uint64_t packed_size, size, local_at;
    size_t data_at;
} member;

typedef struct span {
    size_t from, to;
} span;

/* A file while it is parsed. */
typedef struct parser {
    const uint8_t *data;
    size_t size;
    size_t left_bytes; /* what may still be unpacked */
    struct libdeflate_decompressor *inflater;
    span *spans; /* of the members, to see that none overlap */
    stk__npz npz;
} parser;

static uint16_t read16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t read32(const uint8_t *p)
{
    return (uint32_t)read16(p) | (uint32_t)read16(p + 2) << 16;
}

static uint64_t read64(const uint8_t *p)
{
    return (uint64_t)read32(p) | (uint64_t)read32(p + 4) << 32;
}

/* Sets an error at a byte of the file. */
static stk_status refuse(stk_error *err, stk_status status, size_t offset, const char *format, ...) STK_PRINTF(4, 5);

static stk_status refuse(stk_error *err, stk_status status, size_t offset, const char *format, ...)
{
    if (!err)
        return status;
    char text[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stk_error_set(err, status, "%s", text);
    err->offset = (int64_t)offset;
    return status;
}

/* ---- the central directory ---- */

/* The last end record whose comment reaches exactly to the end of the file. */
static bool find_end(const parser *p, size_t *out_at)
{
    if (p->size < END_SIZE)
        return false;
    const size_t last = p->size - END_SIZE, first = last > END_COMMENT_MAX ? last - END_COMMENT_MAX : 0;
    for (size_t at = last + 1; at-- > first;) {
        const uint8_t *end = p->data + at;
        if (read32(end) == END_SIGNATURE && read16(end + 20) == last - at) {
            *out_at = at;
            return true;
        }
    }
    return false;
}

static stk_status check_directory(const directory *d, size_t end_at, uint64_t offset, uint64_t size, stk_error *err)
{
    if (offset > end_at || size > end_at - offset)
        return refuse(err, STK_CORRUPT, end_at, "central directory of %llu bytes at %llu passes the end record at %zu",
                      (unsigned long long)size, (unsigned long long)offset, end_at);
    if (d->count > MEMBERS_MAX)
        return refuse(err, STK_UNSUPPORTED, end_at, "%llu members, wanted at most %d", (unsigned long long)d->count,
                      MEMBERS_MAX);
    return STK_OK;
}

/* The zip64 end record, which a locator before the plain one points at. */
static stk_status read_end64(const parser *p, size_t end_at, directory *d, stk_error *err)
{
    const uint8_t *locator = p->data + end_at - LOCATOR_SIZE;
    const uint64_t at = read64(locator + 8);
    if (at > end_at - LOCATOR_SIZE || end_at - LOCATOR_SIZE - at < END64_SIZE ||
        read32(p->data + at) != END64_SIGNATURE)
        return refuse(err, STK_CORRUPT, end_at - LOCATOR_SIZE, "no zip64 end record at %llu, where its locator points",
                      (unsigned long long)at);
    const uint8_t *end = p->data + at;
    *d = (directory){.count = read64(end + 32)};
    const uint64_t size = read64(end + 40), offset = read64(end + 48);
    STK_TRY(check_directory(d, (size_t)at, offset, size, err));
    d->at = (size_t)offset;
    d->size = (size_t)size;
    return STK_OK;
}

static stk_status find_directory(const parser *p, directory *d, stk_error *err)
{
    size_t at;
    if (!find_end(p, &at))
        return stk_error_set(err, STK_CORRUPT, "no .npz file: %zu bytes without the end record of a zip", p->size);
    if (at >= LOCATOR_SIZE && read32(p->data + at - LOCATOR_SIZE) == LOCATOR_SIGNATURE)
        return read_end64(p, at, d, err);
    const uint8_t *end = p->data + at;
    if (read16(end + 4) || read16(end + 6))
        return refuse(err, STK_UNSUPPORTED, at, "part of a zip in several files");
    *d = (directory){.count = read16(end + 10)};
    const uint32_t size = read32(end + 12), offset = read32(end + 16);
    STK_TRY(check_directory(d, at, offset, size, err));
    d->at = offset;
    d->size = size;
    return STK_OK;
}

/* Sizes of 0xffffffff stand in the extra field, in this order, only those that are needed. */
static bool read_zip64(const uint8_t *extra, size_t size, member *m)
{
    uint64_t *const fields[] = {&m->size, &m->packed_size, &m->local_at};
    while (size >= 4) {
        const size_t id = read16(extra), length = read16(extra + 2);
        if (length > size - 4)
            return false;
        const uint8_t *at = extra + 4;
        size_t left = length;
        for (size_t i = 0; id == EXTRA_ZIP64 && i < STK_COUNT(fields); i++) {
            if (*fields[i] != UINT32_MAX)
                continue;
            if (left < 8)
                return false;
            *fields[i] = read64(at);
            at += 8;
            left -= 8;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return true;
}

/* Reads the entry at *at and steps over it. */
static stk_status read_entry(const parser *p, size_t *at, size_t end, member *m, stk_error *err)
{
    const uint8_t *e = p->data + *at;
    if (end - *at < ENTRY_SIZE || read32(e) != ENTRY_SIGNATURE)
        return refuse(err, STK_CORRUPT, *at, "no entry of the central directory, %zu bytes before its end", end - *at);
    const size_t name_size = read16(e + 28), extra_size = read16(e + 30), comment_size = read16(e + 32);
    *m = (member){.entry_at = *at,
                  .name = e + ENTRY_SIZE,
                  .name_size = name_size,
                  .flags = read16(e + 8),
                  .method = read16(e + 10),
                  .crc = read32(e + 16),
                  .packed_size = read32(e + 20),
                  .size = read32(e + 24),
                  .local_at = read32(e + 42)};
    const size_t whole = ENTRY_SIZE + name_size + extra_size + comment_size;
    if (whole > end - *at || !read_zip64(m->name + name_size, extra_size, m))
        return refuse(err, STK_CORRUPT, *at, "entry of %zu bytes passes the end of the central directory", whole);
    *at += whole;
    return STK_OK;
}

/* ---- members ---- */

/* "NAME.npy". A name that will not do is kept as far as it fits, for the message. */
static stk_status take_name(const member *m, stk__npy *array, stk_error *err)
{
    static const char ending[] = ".npy";
    const size_t ending_size = sizeof ending - 1;
    const bool ends =
        m->name_size > ending_size && memcmp(m->name + m->name_size - ending_size, ending, ending_size) == 0;
    const size_t size = m->name_size - (ends ? ending_size : 0);
    snprintf(array->name, sizeof array->name, "%.*s", (int)STK_MIN(size, sizeof array->name - 1),
             (const char *)m->name);
    if (ends && size < sizeof array->name && memchr(m->name, 0, m->name_size) == NULL)
        return STK_OK;
    const char *why =
        !ends ? "no array: the name does not end in .npy" : "the name of the array is too long or has a zero";
    return refuse(err, STK_UNSUPPORTED, m->entry_at, "%s (%zu bytes)", why, m->name_size);
}

/* The local header must be that of the entry; sizes and CRC may stand behind the data, so the entry's count. */
static stk_status find_data(const parser *p, const directory *d, member *m, stk_error *err)
{
    const char *why = NULL;
    if (m->flags & FLAG_ENCRYPTED || (m->method != METHOD_STORED && m->method != METHOD_DEFLATED))
        return refuse(err, STK_UNSUPPORTED, m->entry_at, "%s by method %d, wanted stored (0) or deflated (8)",
                      m->flags & FLAG_ENCRYPTED ? "encrypted" : "packed", m->method);
    if (m->local_at > d->at || d->at - m->local_at < LOCAL_SIZE)
        return refuse(err, STK_CORRUPT, m->entry_at, "its data at %llu lies behind the members, which end at %zu",
                      (unsigned long long)m->local_at, d->at);
    const size_t at = (size_t)m->local_at, left = d->at - at;
    const uint8_t *local = p->data + at;
    const size_t name_size = read16(local + 26), head = LOCAL_SIZE + name_size + read16(local + 28);
    if (read32(local) != LOCAL_SIGNATURE)
        why = "no member's header";
    else if (head > left || m->packed_size > left - head)
        why = "passes the end of the members";
    else if (read16(local + 8) != m->method || name_size != m->name_size ||
             memcmp(local + LOCAL_SIZE, m->name, name_size) != 0)
        why = "header and central directory differ";
    if (why)
        return refuse(err, STK_CORRUPT, at, "%s (%llu bytes, members end at %zu)", why,
                      (unsigned long long)m->packed_size, d->at);
    m->data_at = at + head;
    p->spans[p->npz.count] = (span){at, m->data_at + (size_t)m->packed_size};
    return STK_OK;
}

static stk_status inflate_member(parser *p, const member *m, const uint8_t **out, stk_error *err)
{
    if (m->size > p->left_bytes || m->size / RATIO_MAX > m->packed_size)
        return refuse(err, m->size > p->left_bytes ? STK_UNSUPPORTED : STK_CORRUPT, m->entry_at,
                      "unpacks %llu bytes to %llu, wanted at most %zu", (unsigned long long)m->packed_size,
                      (unsigned long long)m->size, p->left_bytes);
    const size_t size = (size_t)m->size;
    if (!p->inflater && !(p->inflater = libdeflate_alloc_decompressor()))
        return stk_error_set(err, STK_NOMEM, "out of memory for the tables of deflate");
    uint8_t *data = stk__alloc(size);
    if (!data)
        return stk__nomem(size, err);
    p->npz.owned[p->npz.owned_count++] = data;
    p->left_bytes -= size;
    if (libdeflate_deflate_decompress(p->inflater, p->data + m->data_at, (size_t)m->packed_size, data, size, NULL) !=
        LIBDEFLATE_SUCCESS)
        return refuse(err, STK_CORRUPT, m->data_at, "does not unpack to %zu bytes", size);
    *out = data;
    return STK_OK;
}

static stk_status unpack(parser *p, const member *m, const uint8_t **out, stk_error *err)
{
    const uint8_t *data = p->data + m->data_at;
    if (m->method == METHOD_DEFLATED)
        STK_TRY(inflate_member(p, m, &data, err));
    else if (m->size != m->packed_size)
        return refuse(err, STK_CORRUPT, m->entry_at, "stored in %llu bytes, wanted %llu",
                      (unsigned long long)m->packed_size, (unsigned long long)m->size);
    const uint32_t crc = libdeflate_crc32(0, data, (size_t)m->size);
    if (crc != m->crc)
        return refuse(err, STK_CORRUPT, m->data_at, "CRC is %08lx, wanted %08lx", (unsigned long)crc,
                      (unsigned long)m->crc);
    *out = data;
    return STK_OK;
}

/* ---- the header of an array: {'descr': '<f4', 'fortran_order': False, 'shape': (29, 256), } ---- */

static const struct {
    const char *descr;
    stk__npy_type type;
    size_t size;
} types[] = {
    {"<f4", STK__NPY_F32, 4}, {"<f2", STK__NPY_F16, 2}, {"|i1", STK__NPY_I8, 1},
    {"|u1", STK__NPY_U8, 1},  {"<i4", STK__NPY_I32, 4}, {"<i8", STK__NPY_I64, 8},
};

/* The text of a header while it is read. */
typedef struct header {
    const char *p, *end;
    char descr[16];
    bool fortran;
    unsigned seen; /* bits: descr, fortran_order, shape */
    stk__npy *array;
} header;

static void skip_blanks(header *h)
{
    while (h->p < h->end && (*h->p == ' ' || *h->p == '\n'))
        h->p++;
}

static bool take(header *h, char c)
{
    skip_blanks(h);
    if (h->p == h->end || *h->p != c)
        return false;
    h->p++;
    return true;
}

/* A string in quotes of either kind, without escapes; longer ones are cut. */
static bool take_string(header *h, char *out, size_t size)
{
    skip_blanks(h);
    if (h->p == h->end || (*h->p != '\'' && *h->p != '"'))
        return false;
    const char quote = *h->p++, *start = h->p;
    while (h->p < h->end && *h->p != quote && *h->p != '\\')
        h->p++;
    if (h->p == h->end || *h->p != quote)
        return false;
    snprintf(out, size, "%.*s", (int)STK_MIN((size_t)(h->p - start), size - 1), start);
    h->p++;
    return true;
}

static bool take_word(header *h, const char *word)
{
    skip_blanks(h);
    const size_t size = strlen(word);
    if ((size_t)(h->end - h->p) < size || memcmp(h->p, word, size) != 0)
        return false;
    h->p += size;
    return true;
}

static bool take_number(header *h, int64_t *out)
{
    skip_blanks(h);
    int64_t x = 0;
    const char *start = h->p;
    for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++) {
        if (x > (INT64_MAX - 9) / 10)
            return false;
        x = x * 10 + (*h->p - '0');
    }
    *out = x;
    return h->p > start;
}

/* "(29, 256)", "(3,)", "()" */
static bool take_shape(header *h)
{
    stk__npy *a = h->array;
    if (!take(h, '('))
        return false;
    while (!take(h, ')')) {
        if (a->ndim == STK__NPZ_DIMS || !take_number(h, &a->shape[a->ndim]))
            return false;
        a->ndim++;
        if (!take(h, ','))
            return take(h, ')');
    }
    return true;
}

static bool take_pair(header *h)
{
    char key[16];
    unsigned bit = 0;
    bool ok = take_string(h, key, sizeof key) && take(h, ':');
    if (ok && strcmp(key, "descr") == 0) {
        bit = 1;
        ok = take_string(h, h->descr, sizeof h->descr);
    } else if (ok && strcmp(key, "fortran_order") == 0) {
        bit = 2;
        h->fortran = take_word(h, "True");
        ok = h->fortran || take_word(h, "False");
    } else if (ok && strcmp(key, "shape") == 0) {
        bit = 4;
        ok = !(h->seen & 4) && take_shape(h);
    }
    ok = ok && bit && !(h->seen & bit);
    h->seen |= bit;
    return ok;
}

static bool take_header(header *h)
{
    if (!take(h, '{'))
        return false;
    while (!take(h, '}')) {
        if (!take_pair(h))
            return false;
        if (!take(h, ',')) {
            if (!take(h, '}'))
                return false;
            break;
        }
    }
    skip_blanks(h);
    return h->p == h->end && h->seen == 7;
}

/* Magic, version and length of the header before its text. */
static bool find_header(const uint8_t *data, size_t size, size_t *out_at, size_t *out_size)
{
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return false;
    const bool wide = data[6] == 2 || data[6] == 3;
    *out_at = wide ? 12 : 10;
    if ((!wide && data[6] != 1) || size < *out_at)
        return false;
    *out_size = wide ? read32(data + 8) : read16(data + 8);
    return *out_size <= size - *out_at;
}

/* Type, order and size must fit what was told and what is there. */
static stk_status check_array(const header *h, size_t data_size, size_t at, stk_error *err)
{
    stk__npy *a = h->array;
    size_t i = 0, elements = 1;
    while (i < STK_COUNT(types) && strcmp(types[i].descr, h->descr) != 0)
        i++;
    if (i == STK_COUNT(types))
        return refuse(err, STK_UNSUPPORTED, at, "type '%s', wanted <f4, <f2, |i1, |u1, <i4 or <i8", h->descr);
    if (h->fortran && a->ndim > 1)
        return refuse(err, STK_UNSUPPORTED, at, "array in Fortran's order, wanted C's (numpy.ascontiguousarray)");
    bool fits = true;
    for (int k = 0; k < a->ndim; k++)
        fits = fits && !__builtin_mul_overflow(elements, (uint64_t)a->shape[k], &elements);
    if (!fits || elements > data_size / types[i].size || elements * types[i].size != data_size)
        return refuse(err, STK_CORRUPT, at, "shape and type (%s) do not fit its %zu bytes", h->descr, data_size);
    a->type = types[i].type;
    a->elements = elements;
    return STK_OK;
}

static stk_status read_array(const uint8_t *data, size_t size, const member *m, stk__npy *array, stk_error *err)
{
    size_t at, length;
    if (!find_header(data, size, &at, &length))
        return refuse(err, STK_CORRUPT, m->data_at, "no .npy array: magic, version or length of its header");
    header h = {.p = (const char *)data + at, .end = (const char *)data + at + length, .array = array};
    if (!take_header(&h))
        return refuse(err, STK_CORRUPT, m->data_at, "header of the array cannot be read, at its byte %zu",
                      (size_t)(h.p - (const char *)data));
    array->data = data + at + length;
    return check_array(&h, size - at - length, m->data_at, err);
}

/* ---- the file ---- */

static stk_status read_member(parser *p, const directory *d, member *m, stk__npy *array, stk_error *err)
{
    const uint8_t *data = NULL;
    STK_TRY(take_name(m, array, err));
    if (stk__npz_find(&p->npz, array->name))
        return refuse(err, STK_CORRUPT, m->entry_at, "two arrays have this name");
    STK_TRY(find_data(p, d, m, err));
    STK_TRY(unpack(p, m, &data, err));
    return read_array(data, (size_t)m->size, m, array, err);
}

static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static stk_status check_overlap(parser *p, stk_error *err)
{
    qsort(p->spans, p->npz.count, sizeof *p->spans, compare_spans);
    for (size_t i = 1; i < p->npz.count; i++)
        if (p->spans[i].from < p->spans[i - 1].to)
            return refuse(err, STK_CORRUPT, p->spans[i].from, "members overlap: one ends at %zu", p->spans[i - 1].to);
    return STK_OK;
}

/* Packed sizes together may not pass the file, so that members which overlap cost no more than it has bytes. */
static stk_status read_members(parser *p, const directory *d, stk_error *err)
{
    size_t at = d->at, packed = 0;
    const size_t end = d->at + d->size;
    for (uint64_t i = 0; i < d->count; i++) {
        member m;
        STK_TRY(read_entry(p, &at, end, &m, err));
        if (m.packed_size > p->size - packed)
            return refuse(err, STK_CORRUPT, m.entry_at, "members have more bytes than the file, which has %zu",
                          p->size);
        packed += (size_t)m.packed_size;
        stk__npy *array = &p->npz.arrays[p->npz.count];
        const stk_status status = read_member(p, d, &m, array, err);
        if (status != STK_OK) {
            if (err)
                snprintf(err->field, sizeof err->field, "%s", array->name);
            return status;
        }
        p->npz.count++;
    }
    if (at != end)
        return refuse(err, STK_CORRUPT, at, "%zu bytes behind the last entry of the central directory", end - at);
    return check_overlap(p, err);
}

static stk_status make_room(parser *p, size_t count, stk_error *err)
{
    p->npz.arrays = stk__calloc(count, sizeof *p->npz.arrays);
    p->npz.owned = stk__calloc(count, sizeof *p->npz.owned);
    p->spans = stk__calloc(count, sizeof *p->spans);
    if (p->npz.arrays && p->npz.owned && p->spans)
        return STK_OK;
    return stk__nomem(count * (sizeof *p->npz.arrays + sizeof *p->npz.owned + sizeof *p->spans), err);
}

stk_status stk__npz_parse(const void *data, size_t size, size_t max_bytes, stk__npz *out, stk_error *err)
{
    parser p = {.data = data, .size = size, .left_bytes = max_bytes};
    directory d = {0};
    STK_TRY(find_directory(&p, &d, err));
    stk_status status = make_room(&p, (size_t)d.count, err);
    if (status == STK_OK)
        status = read_members(&p, &d, err);
    libdeflate_free_decompressor(p.inflater);
    stk__free(p.spans);
    if (status != STK_OK) {
        stk__npz_clear(&p.npz);
        return status;
    }
    *out = p.npz;
    return STK_OK;
}

void stk__npz_clear(stk__npz *npz)
{
    for (size_t i = 0; i < npz->owned_count; i++)
        stk__free(npz->owned[i]);
    stk__free(npz->owned);
    stk__free(npz->arrays);
    *npz = (stk__npz){0};
}

const stk__npy *stk__npz_find(const stk__npz *npz, const char *name)
{
    for (size_t i = 0; i < npz->count; i++)
        if (strcmp(npz->arrays[i].name, name) == 0)
            return &npz->arrays[i];
    return NULL;
}
