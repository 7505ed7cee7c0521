/* Writes TFRecord sets for the benchmarks: records of random bytes, or Examples of 20 features. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/crc32c.h"

enum { RECORD_MAX = 1 << 24, FLOATS = 10, INTS = 8, BYTES = 2 };

/* Values per feature: 1 to 16 floats, 1 to 4 integers. run.py and peers/tfdata.py say the same. */
static const int float_counts[FLOATS] = {1, 1, 2, 3, 4, 6, 8, 10, 13, 16};
static const int int_counts[INTS] = {1, 1, 1, 2, 2, 3, 4, 4};

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint8_t *put_varint(uint8_t *p, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        *p++ = (uint8_t)(x | 128);
    *p++ = (uint8_t)x;
    return p;
}

static uint8_t *put_bytes(uint8_t *p, uint8_t tag, const void *data, size_t size)
{
    *p++ = tag;
    p = put_varint(p, size);
    memcpy(p, data, size);
    return p + size;
}

/* One entry of the feature map; `kind` is the field of Feature: 1 bytes, 2 floats, 3 integers. */
static uint8_t *put_feature(uint8_t *p, const char *name, int kind, const void *values, size_t size)
{
    uint8_t list[512], feature[512], entry[512];
    uint8_t *end = put_bytes(list, 0x0a, values, size);
    end = put_bytes(feature, (uint8_t)(kind << 3 | 2), list, (size_t)(end - list));
    const size_t feature_size = (size_t)(end - feature);
    end = put_bytes(entry, 0x0a, name, strlen(name));
    end = put_bytes(end, 0x12, feature, feature_size);
    return put_bytes(p, 0x0a, entry, (size_t)(end - entry));
}

static uint8_t *put_floats(uint8_t *p, int i)
{
    char name[16];
    float values[16];
    /* Small whole numbers: their sums are exact in any order. */
    for (int k = 0; k < float_counts[i]; k++)
        values[k] = (float)(int)(next_random() % 2001) - 1000;
    snprintf(name, sizeof name, "float_%02d", i);
    return put_feature(p, name, 2, values, sizeof *values * (size_t)float_counts[i]);
}

static uint8_t *put_ints(uint8_t *p, int i)
{
    char name[16];
    uint8_t values[64], *end = values;
    /* One to five bytes each, as ids and counts have. */
    for (int k = 0; k < int_counts[i]; k++)
        end = put_varint(end, next_random() >> (64 - 7 * (1 + (unsigned)(next_random() % 5))));
    snprintf(name, sizeof name, "int_%02d", i);
    return put_feature(p, name, 3, values, (size_t)(end - values));
}

static uint8_t *put_text(uint8_t *p, int i)
{
    char name[16];
    uint64_t text[4];
    for (int k = 0; k < 4; k++)
        text[k] = next_random();
    snprintf(name, sizeof name, "bytes_%02d", i);
    return put_feature(p, name, 1, text, (size_t)(16 + next_random() % 9));
}

/* The features in an order that is not the alphabet's, the same in all records, as one writer of a real set gives. */
static size_t make_example(uint8_t *out)
{
    static uint8_t features[8192];
    uint8_t *p = features;
    for (int i = 0; i < FLOATS + INTS + BYTES; i++) {
        const int k = i * 7 % (FLOATS + INTS + BYTES);
        if (k < FLOATS)
            p = put_floats(p, k);
        else if (k < FLOATS + INTS)
            p = put_ints(p, k - FLOATS);
        else
            p = put_text(p, k - FLOATS - INTS);
    }
    return (size_t)(put_bytes(out, 0x0a, features, (size_t)(p - features)) - out);
}

static size_t make_random(uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        const uint64_t x = next_random();
        memcpy(out + i, &x, 8);
    }
    return size;
}

static bool write_record(FILE *f, const uint8_t *data, size_t size)
{
    uint8_t header[12], footer[4];
    const uint64_t length = size;
    memcpy(header, &length, 8);
    uint32_t crc = stk__crc32c_mask(stk__crc32c(header, 8));
    memcpy(header + 8, &crc, 4);
    crc = stk__crc32c_mask(stk__crc32c(data, size));
    memcpy(footer, &crc, 4);
    return fwrite(header, 12, 1, f) == 1 && fwrite(data, size, 1, f) == 1 && fwrite(footer, 4, 1, f) == 1;
}

static bool write_file(const char *path, long count, size_t size)
{
    static uint8_t record[RECORD_MAX + 8];
    FILE *f = fopen(path, "wb");
    bool good = f != NULL;
    for (long i = 0; good && i < count; i++)
        good = write_record(f, record, size ? make_random(record, size) : make_example(record));
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "make_set: cannot write '%s': %s\n", path, strerror(errno));
    return good;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: make_set DIR FILES RECORDS_PER_FILE BYTES|example\n");
        return 2;
    }
    const long files = atol(argv[2]), count = atol(argv[3]);
    const bool examples = strcmp(argv[4], "example") == 0;
    const long size = examples ? 0 : atol(argv[4]);
    if (files < 1 || count < 1 || (!examples && (size < 1 || size > RECORD_MAX))) {
        fprintf(stderr, "make_set: wants files and records of 1 or more and record sizes up to %d\n", RECORD_MAX);
        return 2;
    }
    for (long i = 0; i < files; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/set-%05ld.tfrecord", argv[1], i);
        if (!write_file(path, count, (size_t)size))
            return 1;
    }
    return 0;
}
