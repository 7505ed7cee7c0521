/*
 * The bare limit of reading chunks on one thread: pread, libdeflate, and the unshuffle of Stoker's own kernel, into
 * one buffer: hdf5_loop FILE CHUNKS CHUNK-BYTES ELEMENT-BYTES SECONDS ROWS THREADS. CHUNKS has an offset and a size in
 * each line; element bytes 1: not shuffled. ROWS are in each chunk. samples_per_s is what so many THREADS could do at
 * best: as many times what this one does.
 */
#include <fcntl.h>
#include <libdeflate.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kernels/shuffle.h"

typedef struct place {
    long long offset, size;
} place;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static place *read_places(const char *path, size_t *out_count, size_t *out_max)
{
    FILE *f = fopen(path, "r");
    place *places = NULL, one;
    *out_count = *out_max = 0;
    while (f && fscanf(f, "%lld %lld", &one.offset, &one.size) == 2) {
        places = realloc(places, (*out_count + 1) * sizeof *places);
        if (!places)
            break;
        places[(*out_count)++] = one;
        *out_max = (size_t)one.size > *out_max ? (size_t)one.size : *out_max;
    }
    if (f)
        fclose(f);
    return places;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: hdf5_loop FILE CHUNKS CHUNK-BYTES ELEMENT-BYTES SECONDS ROWS THREADS\n");
        return 2;
    }
    size_t count, stored_max;
    place *places = read_places(argv[2], &count, &stored_max);
    const size_t bytes = strtoull(argv[3], NULL, 10), element = strtoull(argv[4], NULL, 10);
    const double seconds = strtod(argv[5], NULL);
    uint8_t *stored = malloc(stored_max + 1), *planes = malloc(bytes + 1), *out = malloc(bytes + 1);
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    const int fd = open(argv[1], O_RDONLY);
    if (!places || !stored || !planes || !out || !d || fd < 0) {
        fprintf(stderr, "hdf5_loop: cannot open %s or %s\n", argv[1], argv[2]);
        return 1;
    }
    const double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    unsigned long long done = 0;
    double end;
    do {
        for (size_t i = 0; i < count; i++, done++) {
            const ssize_t n = pread(fd, stored, (size_t)places[i].size, places[i].offset);
            if (n != places[i].size || libdeflate_zlib_decompress(d, stored, (size_t)n, element > 1 ? planes : out,
                                                                  bytes, NULL) != LIBDEFLATE_SUCCESS) {
                fprintf(stderr, "hdf5_loop: chunk %zu cannot be decoded\n", i);
                return 1;
            }
            if (element > 1)
                stk__unshuffle(out, planes, bytes / element, 0, bytes / element, element);
        }
        end = now(CLOCK_MONOTONIC);
    } while (end - start < seconds);
    const double samples = (double)done * atof(argv[6]);
    const double used = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"chunks\": %llu, \"seconds\": %.6f, \"cpu_s\": %.6f, \"samples\": %.0f, \"samples_per_s\": %.3f, "
           "\"cpu_per_1000\": %.6f}\n",
           done, end - start, used, samples, atof(argv[7]) * samples / (end - start), 1000 * used / samples);
    libdeflate_free_decompressor(d);
    close(fd);
    free(places);
    free(stored);
    free(planes);
    free(out);
    return 0;
}
