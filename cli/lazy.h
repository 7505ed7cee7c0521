/* The ways in which `stoker compare-lazy` runs a pipeline, and what it finds out about each. */
#ifndef STK_CLI_LAZY_H
#define STK_CLI_LAZY_H

#include "cli.h"

typedef struct lazy_options {
    cli_pipeline_options pipeline;
    int64_t epochs, rounds, limit, order_seed;
    int64_t step_ns;
    const char *disk;
    bool json, quiet;
} lazy_options;

/* From what keeps augmentations new to what takes the least work, so later ones are the larger concession. */
typedef enum lazy_kind { LAZY_PLAIN, LAZY_CACHED, LAZY_STORED, LAZY_DISK, LAZY_WAYS } lazy_kind;

/* One run, without a training step but for the waits. */
typedef struct lazy_round {
    double first_rate, later_rate;   /* samples/s of the first epoch and of those behind it */
    double cpu_per_1000;             /* CPU-seconds for 1,000 samples of later epochs */
    double first_wait_s, later_wait; /* with --step-time: time in the first epoch, share of later ones */
    double first_wait;               /* share of the first epoch */
} lazy_round;

typedef struct lazy_way {
    const char *name;   /* "stored, disk" */
    stk__text text;     /* the pipeline of this way */
    stk__text check;    /* the same without shuffling, over few samples */
    char why_not[1024]; /* "": it runs */
    stk_error err;      /* that stands behind why_not, else STK_OK */

    /* found out by cli_lazy_check */
    int64_t checked;      /* positions that were compared */
    double distinct_mean; /* different rows at one position over the epochs */
    int64_t distinct_min, distinct_max;
    char digest[33], first_digest[33]; /* of the check: of all epochs, of the first */

    /* found out by cli_lazy_measure */
    lazy_round *rounds;
    size_t round_count;
    int64_t peak_bytes, disk_bytes, cache_hits, cache_misses;
    double kept; /* share of samples that later epochs found in the cache; negative: there is no cache */
} lazy_way;

typedef struct lazy {
    const lazy_options *options;
    cli_setup setup;
    stk_config config;
    uint64_t order_seed;
    char directory[4096]; /* of the caches on disk; "": not made yet */
    int64_t batch_rows;   /* of the first batch */
    int64_t samples;      /* of an epoch */
    double row_bytes;     /* of one sample as it comes out */
    int threads;
    int64_t budget_bytes;
    int64_t drawn_ns; /* when progress was last shown */
    lazy_way ways[LAZY_WAYS];
} lazy;

/* Writes the texts of all ways, or why one cannot be. False: out of memory. */
bool cli_lazy_texts(lazy *z, const stk_text_op *ops, size_t count);
/* The check's text, once the size of a batch is known. */
bool cli_lazy_check_texts(lazy *z, const stk_text_op *ops, size_t count);

/* These two return CANCELLED after an interrupt, else OK: what a way fails of is kept in it. */
stk_status cli_lazy_check(lazy *z, lazy_way *way);
stk_status cli_lazy_measure(lazy *z, lazy_way *way, int64_t round);

/* Notes that the way fails; passes CANCELLED on. */
stk_status cli_lazy_failed(lazy_way *way, const stk_error *err);
/* Removes the files of the caches; the bytes that they took. */
int64_t cli_lazy_disk_bytes(const lazy *z);
void cli_lazy_disk_clear(const lazy *z);
/* Shows progress, when it is time to. */
void cli_lazy_live(lazy *z, const char *format, ...) STK_PRINTF(2, 3);

/* The median over rounds of a member of lazy_round. */
double cli_lazy_median(const lazy_way *way, size_t offset);
#define LAZY_MEDIAN(way, member) cli_lazy_median(way, offsetof(lazy_round, member))

/* The way to take, and one sentence that says why. */
const lazy_way *cli_lazy_recommend(const lazy *z, stk__text *why);
/* The table for people and the object for programs. */
void cli_lazy_table(const lazy *z, stk__text *out);
void cli_lazy_json(const lazy *z, stk__text *out);

#endif
