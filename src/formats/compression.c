/* Telling plain, gzip and zlib record files apart by their first bytes. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "formats/data_file.h"
#include "formats/record_index.h"
#include "formats/tar.h"
#include "formats/tfrecord.h"
#include "formats/zlib_memory.h"

#include "base/banned.h"

/*
 * Whether the bytes inflate. Text may begin with "x^", and a damaged TFRecord header with 78 01; neither inflates.
 * `complete` asks for the end of the deflated data as well.
 */
static bool inflates(const uint8_t *data, size_t size, bool complete)
{
    z_stream z = {.zalloc = stk__zlib_alloc, .zfree = stk__zlib_free};
    if (inflateInit(&z) != Z_OK)
        return true; /* no memory to look closer: opening it will say so */
    uint8_t out[1024];
    z.next_in = (z_const Bytef *)data;
    z.avail_in = (uInt)size;
    int rc;
    do {
        z.next_out = out;
        z.avail_out = sizeof out;
        rc = inflate(&z, Z_NO_FLUSH);
    } while (rc == Z_OK && (z.avail_in || z.avail_out == 0));
    inflateEnd(&z);
    return rc == Z_STREAM_END || ((rc == Z_OK || rc == Z_BUF_ERROR) && !complete);
}

stk__compression stk__record_sniff(const uint8_t *data, size_t size, bool whole, stk__framing framing)
{
    if (size < 2)
        return STK__PLAIN;
    uint64_t length;
    if (framing == STK__FRAMING_TFRECORD && size >= STK__TFRECORD_HEADER &&
        stk__tfrecord_header(data, &length, NULL) == STK_OK)
        return STK__PLAIN;
    if (framing == STK__FRAMING_TAR && size >= STK__TAR_BLOCK && stk__tar_is_header(data))
        return STK__PLAIN;
    if (data[0] == 0x1f && data[1] == 0x8b)
        return STK__GZIP;
    /* Deflate with a window of 32 KiB, no preset dictionary, and a header that is a multiple of 31. */
    const unsigned header = (unsigned)data[0] << 8 | data[1];
    const bool complete = whole && framing == STK__FRAMING_LINES; /* a few bytes of text might inflate by chance */
    if (data[0] == 0x78 && header % 31 == 0 && !(data[1] & 0x20) && inflates(data, size, complete))
        return STK__ZLIB;
    return STK__PLAIN;
}

const char *stk__compression_name(stk__compression compression)
{
    return compression == STK__GZIP ? "gzip" : compression == STK__ZLIB ? "zlib" : "plain";
}

stk_status stk__compression_of(const char *path, stk__framing framing, stk__compression *out, stk_error *err)
{
    struct stat st;
    const bool is_stdin = strcmp(path, "-") == 0;
    const bool known = !is_stdin && stat(path, &st) == 0;
    if (is_stdin || (known && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        stk_error_set(err, STK_UNSUPPORTED, "%s can only be read from front to back",
                      is_stdin ? "standard input" : "what is no regular file");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", path);
        return STK_UNSUPPORTED;
    }
    int fd;
    stk__file_id id;
    STK_TRY(stk__data_file_open(path, &fd, &id, err));
    uint8_t first[STK__SNIFF_BYTES];
    const size_t n = (size_t)STK_MIN(id.size_bytes, (int64_t)sizeof first);
    stk_status status = stk__pread_full(fd, first, n, 0, path, err);
    /* Files of /proc and the like claim to be empty. */
    if (status == STK_OK && n == 0 && pread(fd, first, 1, 0) > 0)
        status = stk_error_set(err, STK_UNSUPPORTED, "has no size of its own: it can only be read from front to back");
    close(fd);
    if (status == STK_OK)
        *out = stk__record_sniff(first, n, n == (uint64_t)id.size_bytes, framing);
    return status;
}
