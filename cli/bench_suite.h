/* What the parts of --suite share: its rows, in words, as JSON, in the log and in files of other tools. */
#ifndef STK_CLI_BENCH_SUITE_H
#define STK_CLI_BENCH_SUITE_H

#include "bench.h"

/* One entry of the file. */
typedef struct suite_row {
    const stk__suite_entry *entry;
    stk__result result;      /* a, b; with --against both of each: a before, a after, b before, b after */
    stk__variant sides[2];   /* a and b of the newer commit, shallow ... */
    stk__result view;        /* ... and the result with these alone: what the row is about */
    stk__comparisons beside; /* [[compare]]: b over a, in `view` */
    stk__comparisons past;   /* --against: each side over the older commit, in `result` */
    double value, low, high; /* compare: how many times as good a is as b; measure: median, least, greatest */
    size_t n;
    bool covered;            /* low and high are at the confidence that was asked for */
    bool judged, met, clear; /* clear: the whole interval, or every run, lies on that side of the target */
    bool whole;              /* it was measured as asked for, or up to an interrupt: fit for the log and for files */
    char *failure;           /* why there are no figures, or NULL */
} suite_row;

typedef struct suite_table {
    const bench_context *x;
    stk__suite suite;
    suite_row *rows;
    size_t count;
    bool interrupted;
} suite_table;

static inline size_t suite_sides(const stk__suite_entry *e)
{
    return e->b ? 2 : 1;
}

/* Of --against: 2, else 1. */
static inline size_t suite_places(const suite_table *z)
{
    return z->x->place_count ? z->x->place_count : 1;
}

static inline bool suite_measured(const suite_row *w)
{
    return w->result.variant_count && w->result.variants[0].runs;
}

/* "theirs", or "b"; the entry's name where it has one side. */
const char *suite_side_name(const stk__suite_entry *e, size_t side);
/* The name of a side among all benchmarks: "level 1 against level 6 theirs"; with a place " @ 1a2b3c4" behind it. */
void suite_column(const stk__suite_entry *e, size_t side, const bench_place *place, stk__text *out);
/* The checkout, or the directory in it that the file names. Freed by stk__free. */
char *suite_directory(const bench_place *place, const char *directory);

/* ---- words ---- */

void suite_print_row(const suite_row *w);
/* Every benchmark against the older commit, once all of them are known. */
void suite_print_past(const suite_table *z);
/* Seed and limits. */
void suite_circumstances(const suite_table *z, const char *before, stk__text *t);
int suite_page(const suite_table *z);

/* ---- for programs ---- */

int suite_json(const suite_table *z);
int suite_exports(const suite_table *z);
/* Would the log take a row of this suite? And adding it. */
int suite_log_fits(const suite_table *z);
int suite_log_append(const suite_table *z);

#endif
