/* The limit of reading: a bare loop that preads TFRecord files in blocks and checks the CRCs of lengths and data. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/crc32c.h"

typedef uint32_t (*crc_function)(uint32_t crc, const void *data, size_t size);

static crc_function crc;
static long records;
static long long bytes;

static uint32_t load32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Checks the whole records in [p, p + size); returns the bytes that they take, or -1. */
static ssize_t check_block(const uint8_t *p, size_t size)
{
    size_t at = 0;
    while (size - at >= 16) {
        uint64_t length;
        memcpy(&length, p + at, sizeof length);
        if (stk__crc32c_mask(crc(0, p + at, 8)) != load32(p + at + 8))
            return -1;
        if (length > size - at - 16)
            break;
        if (stk__crc32c_mask(crc(0, p + at + 12, length)) != load32(p + at + 12 + length))
            return -1;
        at += 16 + length;
        records++;
    }
    return (ssize_t)at;
}

static bool read_file(const char *path, uint8_t *buffer, size_t block)
{
    const int fd = open(path, O_RDONLY);
    if (fd < 0)
        return false;
    off_t at = 0;
    ssize_t got;
    bool good = true;
    /* Each block starts at a record: what was cut off is read again, which costs less than moving it. */
    while (good && (got = pread(fd, buffer, block, at)) > 0) {
        const ssize_t used = check_block(buffer, (size_t)got);
        good = used > 0;
        at += used;
    }
    bytes += at;
    close(fd);
    return good;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    if (argc < 5) {
        fprintf(stderr, "usage: read_loop WAY BLOCK_BYTES TIMES FILE...\n");
        return 2;
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            crc = kinds[i].extend;
    if (!crc) {
        fprintf(stderr, "read_loop: this CPU has no way '%s'\n", argv[1]);
        return 3;
    }
    const size_t block = strtoull(argv[2], NULL, 10);
    const int times = atoi(argv[3]);
    uint8_t *buffer = aligned_alloc(4096, (block + 4095) / 4096 * 4096);
    if (!buffer)
        return 1;
    const double start = now();
    for (int t = 0; t < times; t++) {
        for (int i = 4; i < argc; i++) {
            if (!read_file(argv[i], buffer, block)) {
                fprintf(stderr, "read_loop: '%s': %s\n", argv[i],
                        errno ? strerror(errno) : "bad record, or larger than a block");
                return 1;
            }
        }
    }
    const double seconds = now() - start;
    printf("{\"seconds\": %.9f, \"records\": %ld, \"bytes\": %lld, \"samples\": %ld, \"samples_per_s\": %.3f}\n",
           seconds, records, bytes, records, (double)records / seconds);
    free(buffer);
    return 0;
}
