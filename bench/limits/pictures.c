/* Loads pictures and runs threads for the bare image loops. */
#include "pictures.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { THREADS_MAX = 64, CHUNK = 16 };

static void die(const char *path, const char *why)
{
    fprintf(stderr, "'%s': %s\n", path, why);
    exit(1);
}

/* ---- loading ---- */

static uint8_t *read_whole(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die(path, "cannot read it");
    const long size = ftell(f);
    uint8_t *data = size > 0 ? malloc((size_t)size) : NULL;
    rewind(f);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size)
        die(path, "cannot read it");
    fclose(f);
    *out_size = (size_t)size;
    return data;
}

typedef struct span {
    const uint8_t *at, *end;
} span;

static uint64_t take_varint(span *s)
{
    uint64_t x = 0;
    for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
        const uint8_t byte = *s->at++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return x;
    }
    return x;
}

/* The next length-delimited field of a message; false at its end, or when it is none. */
static bool take_field(span *s, unsigned *number, span *content)
{
    if (s->at >= s->end)
        return false;
    const uint64_t tag = take_varint(s);
    const uint64_t size = take_varint(s);
    if ((tag & 7) != 2 || size > (uint64_t)(s->end - s->at))
        return false;
    *number = (unsigned)(tag >> 3);
    *content = (span){s->at, s->at + size};
    s->at += size;
    return true;
}

/* The bytes of the feature `image` of an Example. */
static bool find_image(span record, span *image)
{
    unsigned number;
    span features, entry, key, feature, list;
    if (!take_field(&record, &number, &features))
        return false;
    while (take_field(&features, &number, &entry))
        if (take_field(&entry, &number, &key) && key.end - key.at == 5 && memcmp(key.at, "image", 5) == 0)
            return take_field(&entry, &number, &feature) && take_field(&feature, &number, &list) && number == 1 &&
                   take_field(&list, &number, image);
    return false;
}

static void load_file(const char *path, pictures *out, size_t *room)
{
    size_t size;
    const uint8_t *data = read_whole(path, &size);
    for (size_t at = 0; at + 16 <= size;) {
        uint64_t length;
        span image;
        memcpy(&length, data + at, sizeof length);
        if (length > size - at - 16 || !find_image((span){data + at + 12, data + at + 12 + length}, &image))
            die(path, "wanted records with a feature 'image'");
        if (out->count == *room) {
            *room = *room ? 2 * *room : 1024;
            out->items = realloc(out->items, *room * sizeof *out->items);
            if (!out->items)
                die(path, "no memory");
        }
        out->items[out->count++] = (picture){image.at, (size_t)(image.end - image.at)};
        at += 16 + length;
    }
}

pictures pictures_load(int count, char **paths)
{
    pictures out = {0};
    size_t room = 0;
    for (int i = 0; i < count; i++)
        load_file(paths[i], &out, &room);
    if (out.count == 0)
        die("the files", "no pictures in them");
    return out;
}

/* ---- running ---- */

typedef struct run {
    const work *work;
    const pictures *all;
    atomic_size_t next; /* picture that nobody took yet */
    atomic_size_t done; /* pictures finished */
    atomic_bool stop;
} run;

static void *thread_main(void *arg)
{
    run *r = arg;
    void *state = r->work->open();
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        const size_t first = atomic_fetch_add(&r->next, CHUNK);
        for (size_t i = 0; i < CHUNK; i++) {
            r->work->one(state, r->all->items[(first + i) % r->all->count]);
            atomic_fetch_add_explicit(&r->done, 1, memory_order_relaxed);
        }
    }
    r->work->close(state);
    return NULL;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void sleep_seconds(double s)
{
    const struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

void work_run(const work *w, const pictures *all, int threads, double seconds)
{
    run r = {.work = w, .all = all};
    pthread_t ids[THREADS_MAX];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, thread_main, &r) != 0)
            die("thread", "cannot start it");
    sleep_seconds(1);
    const double start = seconds_now(), cpu = cpu_now();
    const size_t before = atomic_load(&r.done);
    sleep_seconds(seconds);
    const size_t images = atomic_load(&r.done) - before;
    const double took = seconds_now() - start, used = cpu_now() - cpu;
    atomic_store(&r.stop, true);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    const double rate = (double)images / took;
    printf("{\"images\": %zu, \"seconds\": %.9f, \"images_per_s\": %.3f, \"samples\": %zu, \"samples_per_s\": %.3f, "
           "\"cpu_per_1000\": %.6f}\n",
           images, took, rate, images, rate, 1000 * used / (double)(images ? images : 1));
}

int work_main(const work *w, int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 0;
    const double seconds = argc > 2 ? atof(argv[2]) : 0;
    if (argc < 4 || threads < 1 || threads > THREADS_MAX || seconds <= 0) {
        fprintf(stderr, "usage: %s THREADS SECONDS FILE...\n", argv[0]);
        return 2;
    }
    const pictures all = pictures_load(argc - 3, argv + 3);
    work_run(w, &all, threads, seconds);
    return 0;
}
