/* Makes .npz files in memory, as numpy.savez does and in ways that it never would. */
#ifndef TESTS_NPZ_FILES_H
#define TESTS_NPZ_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/compiler.h"
#include "base/str.h"

/* Ways to write a member. */
enum {
    NPZ_PLAIN = 0,
    NPZ_DEFLATED = 1,
    NPZ_ZIP64 = 2,      /* sizes in the extra field, of both headers */
    NPZ_DESCRIPTOR = 4, /* sizes and CRC behind the data */
    NPZ_BAD_CRC = 8,
};

typedef struct npz_maker {
    stk__text file, directory;
    unsigned count;
} npz_maker;

static inline void npz_put(stk__text *t, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        stk__text_putc(t, (char)(x >> 8 * i));
}

static inline uint32_t npz_crc(const void *data, size_t size)
{
    return (uint32_t)crc32(0, data, (uInt)size);
}

/* Bytes of a raw deflate stream. */
static inline size_t npz_deflate(const void *data, size_t size, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)room};
    if (deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    const bool done = deflate(&z, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&z);
    return done ? z.total_out : 0;
}

/* What both headers have from the flags to the length of the name. */
static inline void npz_put_common(stk__text *t, int how, uint32_t crc, uint64_t packed, uint64_t size, size_t name_size)
{
    const bool wide = how & NPZ_ZIP64;
    npz_put(t, how & NPZ_DESCRIPTOR ? 8 : 0, 2);
    npz_put(t, how & NPZ_DEFLATED ? 8 : 0, 2);
    npz_put(t, 0x00210000, 4); /* 1980-01-01 */
    npz_put(t, crc, 4);
    npz_put(t, wide ? UINT32_MAX : packed, 4);
    npz_put(t, wide ? UINT32_MAX : size, 4);
    npz_put(t, name_size, 2);
}

static inline void npz_put_extra(stk__text *t, int how, uint64_t packed, uint64_t size)
{
    if (!(how & NPZ_ZIP64))
        return;
    npz_put(t, 1, 2);
    npz_put(t, 16, 2);
    npz_put(t, size, 8);
    npz_put(t, packed, 8);
}

/* A member of any content; `name` is the whole one. */
static inline void npz_add_member(npz_maker *m, const char *name, const void *data, size_t size, int how)
{
    static uint8_t packed_data[1 << 20];
    const uint32_t crc = npz_crc(data, size) ^ (how & NPZ_BAD_CRC ? 1 : 0);
    const size_t at = m->file.length, name_size = strlen(name);
    const bool behind = how & NPZ_DESCRIPTOR;
    const size_t packed = how & NPZ_DEFLATED ? npz_deflate(data, size, packed_data, sizeof packed_data) : size;
    npz_put(&m->file, 0x04034b50, 4);
    npz_put(&m->file, 45, 2);
    npz_put_common(&m->file, how, behind ? 0 : crc, behind ? 0 : packed, behind ? 0 : size, name_size);
    npz_put(&m->file, how & NPZ_ZIP64 ? 20 : 0, 2);
    stk__text_puts(&m->file, name);
    npz_put_extra(&m->file, how, packed, size);
    stk__text_write(&m->file, how & NPZ_DEFLATED ? packed_data : data, packed);
    if (behind) {
        npz_put(&m->file, 0x08074b50, 4);
        npz_put(&m->file, crc, 4);
        npz_put(&m->file, packed, 4);
        npz_put(&m->file, size, 4);
    }
    npz_put(&m->directory, 0x02014b50, 4);
    npz_put(&m->directory, 45, 2);
    npz_put(&m->directory, 45, 2);
    npz_put_common(&m->directory, how, crc, packed, size, name_size);
    npz_put(&m->directory, how & NPZ_ZIP64 ? 20 : 0, 2);
    npz_put(&m->directory, 0, 6); /* no comment, the first disk, no attributes */
    npz_put(&m->directory, 0, 4);
    npz_put(&m->directory, at, 4);
    stk__text_puts(&m->directory, name);
    npz_put_extra(&m->directory, how, packed, size);
    m->count++;
}

/* An array under the header that is given. */
static inline void npz_add_with_header(npz_maker *m, const char *name, const char *header, const void *data,
                                       size_t size, int how)
{
    stk__text t = STK__TEXT_INIT;
    char full[256];
    stk__text_write(&t, "\x93NUMPY\x01\x00", 8);
    npz_put(&t, strlen(header), 2);
    stk__text_puts(&t, header);
    stk__text_write(&t, data, size);
    snprintf(full, sizeof full, "%s.npy", name);
    npz_add_member(m, full, t.data, t.length, how);
    stk__text_clear(&t);
}

/* `shape` ends with -1. */
static inline void npz_add(npz_maker *m, const char *name, const char *descr, const int *shape, const void *data,
                           int how)
{
    char header[256];
    size_t elements = 1, at = 0;
    at += (size_t)snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; shape[i] >= 0; i++) {
        elements *= (size_t)shape[i];
        at += (size_t)snprintf(header + at, sizeof header - at, "%d,%s", shape[i], shape[i + 1] >= 0 ? " " : "");
    }
    snprintf(header + at, sizeof header - at, "), }          \n");
    npz_add_with_header(m, name, header, data, elements * (size_t)(descr[2] - '0'), how);
}

static inline void npz_put_end(npz_maker *m, size_t at, size_t size)
{
    npz_put(&m->file, 0x06054b50, 4);
    npz_put(&m->file, 0, 4);
    npz_put(&m->file, m->count, 2);
    npz_put(&m->file, m->count, 2);
    npz_put(&m->file, size, 4);
    npz_put(&m->file, at, 4);
    npz_put(&m->file, 0, 2);
}

/* The directory and the end behind the members: the file is m->file. */
static inline void npz_finish(npz_maker *m)
{
    const size_t at = m->file.length;
    stk__text_write(&m->file, m->directory.data, m->directory.length);
    npz_put_end(m, at, m->directory.length);
}

static inline void npz_clear(npz_maker *m)
{
    stk__text_clear(&m->file);
    stk__text_clear(&m->directory);
    m->count = 0;
}

#endif
