/* Fuzzes the scan of record files and the reader of cached indexes; what they accept must lie inside the file. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/record_index.h"
#include "formats/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_places(const stk__extents *extents, stk__framing framing, int64_t file_size)
{
    const stk__extents_frame frame = stk__record_frame(framing);
    int64_t from = frame.before;
    for (int64_t i = 0; i < extents->count; i++) {
        int64_t offset, length;
        stk__extents_find(extents, i, &offset, &length);
        if (offset < from || length < 0 || length > file_size - frame.after - offset)
            abort();
        from = offset + length + frame.between;
    }
}

/* The bytes as a file of records. */
static void scan_as(const uint8_t *data, size_t size, stk__framing framing)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return;
    stk__record_index index = {.framing = framing};
    stk__scan_buffers buffers = {0};
    if (write(fd, data, size) == (ssize_t)size && stk__file_id_of(fd, "fuzz", &index.id, NULL) == STK_OK &&
        stk__record_scan(fd, "fuzz", &buffers, NULL, NULL, &index, NULL) == STK_OK) {
        check_places(&index.extents, framing, index.id.size_bytes);
        int64_t held = 0;
        for (size_t i = 0; i < index.damage_count; i++)
            held += index.damage[i].size_bytes;
        if (held > index.id.size_bytes)
            abort();
    }
    stk__record_index_clear(&index);
    stk__scan_buffers_clear(&buffers);
    close(fd);
}

/* The bytes as a cached index. The key fields are taken from them, and the checksum is made to fit. */
static void parse_as(const uint8_t *data, size_t size, stk__framing framing)
{
    uint8_t *copy = stk__alloc(size);
    if (!copy)
        return;
    memcpy(copy, data, size);
    stk__record_index_seal(copy, size);
    stk__record_index index = {.framing = framing};
    if (size >= 48) {
        memcpy(&index.id.size_bytes, data + 24, 8);
        memcpy(&index.id.mtime_ns, data + 32, 8);
        memcpy(&index.edge_hash, data + 40, 8);
    }
    if (size >= 96)
        memcpy(&index.id.ctime_ns, data + 88, 8);
    if (stk__record_index_parse(copy, size, &index)) {
        check_places(&index.extents, framing, index.id.size_bytes);
        stk__record_index_clear(&index);
    } else {
        stk__free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (stk__framing framing = STK__FRAMING_TFRECORD; framing <= STK__FRAMING_TAR; framing++) {
        scan_as(data, size, framing);
        parse_as(data, size, framing);
    }
    return 0;
}
