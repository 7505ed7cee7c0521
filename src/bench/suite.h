/* Benchmarks described in a TOML file: a ladder of steps, or a suite of comparisons and limits. */
#ifndef STK_BENCH_SUITE_H
#define STK_BENCH_SUITE_H

#include "bench/launch.h"
#include "bench/result.h"

/* Options that a file may set, at its top or for one entry; an entry's own win. Unset: NULL, 0 or NaN; warmup: -1. */
typedef struct stk__suite_options {
    char *setup, *prepare, *conclude, *cleanup, *input, *directory;
    char *metric;         /* a measure's name, or a key of the JSON that commands print */
    char *unit;           /* of a metric from JSON */
    int higher_is_better; /* -1: not said */
    int count;            /* instructions too; -1: not said */
    int64_t rounds, max_rounds;
    int64_t warmup;                          /* -1: not said */
    double width, min_effect, margin, quiet; /* fractions; in the file "5%" or 0.05 */
    int64_t timeout_ns;                      /* "30s" or seconds */
    stk__limits limits;                      /* cpus = 1, memory = "4G" */
} stk__suite_options;

typedef struct stk__suite_step {
    char *name, *command, *note;
    stk__suite_options options;
    int line;
} stk__suite_step;

/*
 * [[compare]] name, a, b (commands), a_name, b_name, at_least, at_most; [[measure]] name, command, at_least, at_most.
 * The bounds of a measure may be texts where its unit is known: "20ms" (s), "256M" (bytes), "5%" (share).
 */
typedef struct stk__suite_entry {
    char *name;
    char *a, *b, *a_name, *b_name; /* measure: b is NULL */
    double at_least, at_most;      /* of "how many times as good is a as b" (compare), of the median (measure) */
    char *note;
    stk__suite_options options;
    int line;
} stk__suite_entry;

typedef struct stk__suite {
    char *title;
    stk__suite_options options;
    stk__suite_step *steps; /* [[step]]: a ladder */
    size_t step_count;
    stk__suite_entry *entries; /* in the order of the file */
    size_t entry_count;
    char **notes; /* notes = ["..."]: printed under the table */
    size_t note_count;
} stk__suite;

/* At most this many steps, or comparisons and measures. */
enum { STK__SUITE_ENTRIES = 1000 };

/*
 * INVALID with line, column, found and wanted: no TOML, an unknown key (with the nearest name), a wrong type or range,
 * a missing or empty name or command, a name that is there twice, a ladder without a second step, steps beside
 * comparisons, nothing at all.
 */
stk_status stk__suite_parse(const char *text, size_t size, const char *file, stk__suite *out, stk_error *err);
void stk__suite_clear(stk__suite *s);
/*
 * The entry's options over those of the file. The strings stay the suite's. Unit and direction go with the metric: an
 * entry with a metric of its own takes none of the file's. So do rounds and width, which both say when to stop.
 */
stk__suite_options stk__suite_merge(const stk__suite_options *file, const stk__suite_options *entry);

#endif
