/* Fuzzes the record streams: TFRecord and lines, plain and compressed. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads everything; each record must be readable memory, and the stream must come to an end. */
static void read_all(const char *path, stk__framing framing, bool verify)
{
    stk__record_stream *stream;
    if (stk__record_stream_open(path, framing, verify, &stream, NULL) != STK_OK)
        return;
    volatile uint8_t sum = 0;
    int64_t last = -1;
    stk_error err;
    stk_error_clear(&err);
    for (;;) {
        stk_bytes bytes;
        int64_t offset;
        bool again;
        const stk_status status = stk__record_stream_next(stream, &bytes, &offset, &again, &err);
        if (status != STK_OK) {
            if (again)
                continue;
            break;
        }
        if (offset <= last || bytes.size < 0)
            abort();
        last = offset;
        for (int64_t i = 0; i < bytes.size; i++)
            sum = (uint8_t)(sum + bytes.data[i]);
    }
    stk__record_stream_close(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        read_all(path, STK__FRAMING_TFRECORD, true);
        read_all(path, STK__FRAMING_TFRECORD, false);
        read_all(path, STK__FRAMING_LINES, true);
    }
    close(fd);
    return 0;
}
