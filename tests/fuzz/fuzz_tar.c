/* Fuzzes tar: the headers of members, the scan and the stream of samples; both must stay inside the archive. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/record_index.h"
#include "formats/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lies_in(stk_bytes view, const uint8_t *data, size_t size, const stk__tar_member *m)
{
    const char *joined = (const char *)view.data;
    return view.size == 0 ||
           (view.size > 0 && ((view.data >= data && view.data + view.size <= data + size) ||
                              (joined >= m->joined && joined + view.size <= m->joined + sizeof m->joined)));
}

/* Members one after the other; the views must lie where they may. */
static void read_members(const uint8_t *data, size_t size)
{
    stk__tar_reader r = {data, size};
    stk__tar_member m;
    stk_bytes bytes;
    volatile uint8_t sum = 0;
    while (stk__tar_next(&r, &m, &bytes, NULL) == STK_OK) {
        if (!lies_in(m.name, data, size, &m) || !lies_in(m.key, data, size, &m) || !lies_in(m.ext, data, size, &m) ||
            !lies_in(bytes, data, size, &m))
            abort();
        for (int64_t i = 0; i < bytes.size; i++)
            sum = (uint8_t)(sum + bytes.data[i]);
    }
}

/* Every sample that the scan finds must lie in the file, behind the one before. Returns their number. */
static int64_t scan_file(int fd, const uint8_t *data)
{
    stk__record_index index = {.framing = STK__FRAMING_TAR};
    stk__scan_buffers buffers = {0};
    int64_t count = -1, from = 0;
    if (stk__file_id_of(fd, "fuzz", &index.id, NULL) == STK_OK &&
        stk__record_scan(fd, "fuzz", &buffers, NULL, NULL, &index, NULL) == STK_OK) {
        count = index.extents.count;
        for (int64_t i = 0; i < count; i++) {
            int64_t offset, size;
            stk__extents_find(&index.extents, i, &offset, &size);
            if (offset < from || size <= 0 || size > index.id.size_bytes - offset)
                abort();
            read_members(data + offset, (size_t)size);
            from = offset + size;
        }
        if (index.damage_count)
            count = -1; /* a stream does not come behind it */
    }
    stk__record_index_clear(&index);
    stk__scan_buffers_clear(&buffers);
    return count;
}

static int64_t read_stream(const char *path)
{
    stk__record_stream *stream;
    if (stk__record_stream_open(path, STK__FRAMING_TAR, true, &stream, NULL) != STK_OK)
        return -1;
    stk__record_stream_limit(stream, 1 << 20);
    int64_t count = 0, last = -1;
    stk_status status;
    do {
        stk_bytes record;
        int64_t offset;
        bool again;
        status = stk__record_stream_next(stream, &record, &offset, &again, NULL);
        if (status != STK_OK)
            continue;
        if (offset <= last || record.size <= 0)
            abort();
        last = offset;
        count++;
        read_members(record.data, (size_t)record.size);
    } while (status == STK_OK);
    stk__record_stream_close(stream);
    return status == STK_END ? count : -1;
}

/* Flipping bits never gives a checksum that fits, so headers at whole blocks get theirs. */
static void mend(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + STK__TAR_BLOCK <= size; at += STK__TAR_BLOCK) {
        uint8_t *block = data + at;
        unsigned sum = 0;
        if (memcmp(block + 257, "ustar", 5) != 0)
            continue;
        memset(block + 148, ' ', 8);
        for (int i = 0; i < STK__TAR_BLOCK; i++)
            sum += block[i];
        char digits[8];
        snprintf(digits, sizeof digits, "%06o", sum & 0777777);
        memcpy(block + 148, digits, 7);
    }
}

static void read_archive(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, data, size) == (ssize_t)size) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const int64_t scanned = scan_file(fd, data), streamed = read_stream(path);
        const bool plain = size < 2 || !((data[0] == 0x1f && data[1] == 0x8b) || data[0] == 0x78);
        if (plain && scanned >= 0 && streamed >= 0 && scanned != streamed)
            abort();
    }
    close(fd);
    read_members(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_archive(data, size);
    uint8_t *mended = stk__alloc(size);
    if (mended && size) {
        memcpy(mended, data, size);
        mend(mended, size);
        read_archive(mended, size);
    }
    stk__free(mended);
    return 0;
}
