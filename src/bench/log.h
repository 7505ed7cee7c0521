/*
 * The change log: a Markdown table that people read, and beside it a CSV file with one line per row for machines.
 * Rows are only ever added. Every benchmark is a column with a metric and a unit of its own, and is compared with its
 * own past; two benchmarks of a row are compared only where the run asked for that.
 */
#ifndef STK_BENCH_LOG_H
#define STK_BENCH_LOG_H

#include "bench/compare.h"
#include "bench/git.h"
#include "bench/result.h"

/* ---- reading ---- */

typedef struct stk__log_benchmark {
    char *name;
    char *metric, *unit; /* "wall", "s"; "" when no row has a figure */
    bool higher_is_better;
} stk__log_benchmark;

/* A benchmark in one row. */
typedef struct stk__log_cell {
    size_t n;        /* runs; 0: the row does not have this benchmark, and everything else is NaN, false and NULL */
    double mean, sd; /* sd: NaN of a single run */
    char *limits;    /* where benchmarks of the row have different ones, else NULL: those of the row */
    /* To its own past. */
    double ratio, low, high, p; /* NaN: not known; of a single run only the ratio is */
    bool paired;                /* both ran in the same rounds; else from mean, sd and n of two rows */
    char *verdict;              /* "faster", ...; NULL without one: unpaired ratios have none */
    char *against;              /* first characters of the commit that the ratio is to; NULL without a ratio */
} stk__log_cell;

/* Two benchmarks of one row, because the run compared them. */
typedef struct stk__log_beside {
    double ratio, low, high, p; /* NaN: not known */
    bool paired;
    char *verdict; /* NULL: the row does not have this comparison */
} stk__log_beside;

typedef struct stk__log_row {
    int64_t time_s;
    char *commit, *parent; /* hashes; "" without git */
    bool dirty;
    char *machine; /* fingerprint */
    char *limits;  /* that all benchmarks of the row share, or "" */
    char *description;
    double confidence;       /* of all intervals: 0.95 */
    stk__log_cell *cells;    /* one per benchmark */
    stk__log_beside *beside; /* one per pair */
    size_t line;             /* in the CSV file */
} stk__log_row;

typedef struct stk__log {
    int version;                    /* of the CSV file: 1 or 2; 0: there is none */
    stk__log_benchmark *benchmarks; /* in the order of the columns */
    size_t benchmark_count, benchmark_capacity;
    char **pairs; /* "stored/lazy": what was compared within rows */
    size_t pair_count, pair_capacity;
    stk__log_row *rows;
    size_t row_count, row_capacity;
    bool stale; /* the page lacks rows or columns that the CSV file has: a run was ended between both. stk__log_mend */
} stk__log;

/* At most this many benchmarks, and as many pairs. */
enum { STK__LOG_COLUMNS = 4096 };

/* "PERF.md" and "PERF.csv". A file that is not there is an empty log. Damage, or a table of something else: CORRUPT with line and reason. */
stk_status stk__log_read(const char *path, stk__log *out, stk_error *err);
void stk__log_clear(stk__log *log);

/* The limits under which a benchmark of a row ran; "" without any. */
const char *stk__log_limits(const stk__log_row *row, size_t benchmark);

/* ---- adding ---- */

/* One benchmark of a row to be added. */
typedef struct stk__log_figure {
    const char *name;            /* of the column */
    const stk__result *result;   /* whose primary metric ... */
    size_t variant;              /* ... of this variant are its values */
    const stk__comparison *past; /* against its own past, measured in the same rounds, or NULL */
    const char *against;         /* what `past` is against: a short hash or a revision; NULL without past */
} stk__log_figure;

/* A comparison between two of them that the run asked for. */
typedef struct stk__log_pair {
    const char *name; /* of the column: "stored/lazy" */
    const stk__comparison *comparison;
} stk__log_pair;

typedef struct stk__log_entry {
    const stk__log_figure *figures;
    size_t figure_count;
    const stk__log_pair *pairs; /* may be none */
    size_t pair_count;
    const stk__commit *commit;
    const char *description; /* NULL: the commit's subject */
    double confidence;       /* of the comparisons; 0: 0.95 */
} stk__log_entry;

/*
 * Would the log take a row of this run? For before it: results need variants and metrics, but no runs. A page that
 * lacks rows is mended. out_notes: lines to tell, may be NULL; so below.
 */
stk_status stk__log_fits(const char *path, const stk__log_entry *entry, stk__text *out_notes, stk_error *err);

/*
 * Appends a row to both files, each whole or not at all (Markdown last: it is the one that people trust, and can be
 * made from the other). Checks them first: a damaged line, a row in the page that the CSV file does not have, another
 * metric or unit of a benchmark: CORRUPT or INVALID, and nothing is written. Benchmarks that the log does not know
 * become columns; those that the run does not have stay empty.
 * A figure without `past` is compared with the newest row of the commit's parent (of the commit itself when tracked
 * files were changed) that has this benchmark, on the same machine with the same limits: mean, sd and n, Welch on logs,
 * no verdict. Files of version 1 become version 2 on the way; the old ones stay as PERF.v1.md and PERF.v1.csv.
 * Two runs that append at once both end up in it (flock). out_log: the log with the new row last, may be NULL.
 */
stk_status stk__log_append(const char *path, const stk__log_entry *entry, stk__log *out_log, stk__text *out_notes,
                           stk_error *err);

/* Gives the page the rows and columns that the CSV file has; nothing is done where none is missing. */
stk_status stk__log_mend(const char *path, stk__text *out_notes, stk_error *err);

/* The newest row for people, a line per benchmark: figure, ratio to its past, verdict. */
void stk__log_report(const stk__log *log, stk__text *out);

#endif
