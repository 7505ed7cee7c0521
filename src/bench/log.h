/*
 * The change log: a Markdown table that people read, and beside it a CSV file with one line per row for machines.
 * Rows are only ever added.
 */
#ifndef STK_BENCH_LOG_H
#define STK_BENCH_LOG_H

#include "bench/compare.h"
#include "bench/git.h"
#include "bench/result.h"

typedef struct stk__log_cell {
    double mean, sd;
    size_t n;
} stk__log_cell;

typedef struct stk__log_row {
    int64_t time_s;
    char *commit, *parent; /* hashes; "" without git */
    bool dirty;
    char *machine; /* fingerprint */
    char *limits, *description;
    stk__log_cell *cells;       /* one per benchmark */
    char *compared;             /* "stored/lazy", "HEAD~1", or "" */
    double ratio, low, high, p; /* of the comparison that this row tells of; NaN: none */
    bool paired;
    char *verdict; /* "faster" ..., or "" */
    size_t line;   /* in the CSV file */
} stk__log_row;

typedef struct stk__log {
    char **benchmarks; /* names, in the order of the columns */
    char **units;
    size_t benchmark_count;
    char *metric; /* what all of them measure: "wall" */
    stk__log_row *rows;
    size_t row_count, row_capacity;
} stk__log;

/* "PERF.md" and "PERF.csv". A file that is not there is an empty log. Damage, or a table of something else: CORRUPT with line and reason. */
stk_status stk__log_read(const char *path, stk__log *out, stk_error *err);
void stk__log_clear(stk__log *log);

typedef struct stk__log_entry {
    const stk__result *result;
    const stk__comparisons *comparisons; /* may be empty */
    const stk__commit *commit;
    const char *description; /* NULL: the commit's subject */
    const char *against;     /* the revision that was measured in the same run (ratio to the parent, paired), or NULL */
} stk__log_entry;

/* Would the log take a row of this run? For before it: the result needs its variants and metrics, but no runs. */
stk_status stk__log_fits(const char *path, const stk__log_entry *entry, stk_error *err);

/*
 * Appends a row to both files, each whole or not at all (Markdown last: it is the one that people trust). Checks them
 * first: other benchmarks, a damaged line, a row in one that the other does not have: CORRUPT or INVALID, and nothing is
 * written. Without `against`, the ratio to the parent is taken from the newest row of the commit's parent (of the commit
 * itself when tracked files were changed) on the same machine with the same limits (mean, sd and n: Welch on logs), with
 * the word "unpaired"; else "-". Two runs that append at once both end up in it (flock).
 */
stk_status stk__log_append(const char *path, const stk__log_entry *entry, stk_error *err);

#endif
