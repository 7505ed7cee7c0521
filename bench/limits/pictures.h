/* What the bare image loops share: pictures of TFRecord files in memory, threads that work on them for some seconds. */
#ifndef BENCH_PICTURES_H
#define BENCH_PICTURES_H

#include <stddef.h>
#include <stdint.h>

typedef struct picture {
    const uint8_t *data; /* of the feature `image`, inside of the file, which stays in memory */
    size_t size;
} picture;

typedef struct pictures {
    picture *items;
    size_t count;
} pictures;

/* Reads the files; tells and ends the program when it cannot. CRCs are not looked at. */
pictures pictures_load(int count, char **paths);

/* What a thread does. State is made by `open` for each thread and given to `one` with each picture in turn. */
typedef struct work {
    void *(*open)(void);
    void (*one)(void *state, picture p);
    void (*close)(void *state);
} work;

/*
 * A first second that is not counted, then `seconds`; prints one JSON object: images, seconds, images_per_s,
 * samples, samples_per_s (the same by the names that all contestants have), cpu_per_1000. The threads take pictures by turns, again and again.
 */
void work_run(const work *w, const pictures *all, int threads, double seconds);

/* The main function of a loop: NAME THREADS SECONDS FILE... */
int work_main(const work *w, int argc, char **argv);

#endif
