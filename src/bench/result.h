/* What a benchmark measured, whoever ran it: variants, metrics, one value per run. Comparisons are made from it. */
#ifndef STK_BENCH_RESULT_H
#define STK_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* The metrics that every run of a command has, in this order. More may follow, from what a command prints as JSON. */
typedef enum stk__measure {
    STK__WALL,         /* "wall", s */
    STK__USER,         /* "user", s */
    STK__SYSTEM,       /* "system", s */
    STK__CPU,          /* "cpu": user + system, s */
    STK__RSS,          /* "rss": peak resident set of the largest process of the run, bytes */
    STK__MINOR_FAULTS, /* "minor_faults" */
    STK__MAJOR_FAULTS, /* "major_faults" */
    STK__SWITCHES,     /* "switches": voluntary context switches */
    STK__PREEMPTIONS,  /* "preemptions": involuntary ones */
    STK__STEAL,        /* "steal": share of all CPU time during the run that the hypervisor took */
    STK__PRESSURE_CPU, /* "pressure_cpu", _io, _memory: share of the run in which some task waited (PSI) */
    STK__PRESSURE_IO,
    STK__PRESSURE_MEMORY,
    STK__MEASURES,
    /* "instructions" in user space, of all processes of the run: only where it is asked for, right after the others. */
    STK__INSTRUCTIONS = STK__MEASURES,
    STK__NAMED_MEASURES
} stk__measure;

typedef struct stk__metric {
    char *name, *unit; /* unit as in quantity.h */
    bool higher_is_better;
} stk__metric;

/* Name, unit and direction of a stk__measure; the strings are constants. */
stk__metric stk__measure_metric(stk__measure measure);
/* The measure of that name; STK__NAMED_MEASURES: there is none. */
stk__measure stk__measure_find(const char *name);

typedef struct stk__parameter {
    char *name, *value;
} stk__parameter;

typedef struct stk__variant {
    char *name;    /* unique in the result: "lazy" */
    char *command; /* what ran, parameters filled in; or what the file said */
    stk__parameter *parameters;
    size_t parameter_count;
    size_t group;    /* compared within it, against its first variant */
    size_t runs;     /* values of each metric */
    double **values; /* [metric][run], NaN: not known. Paired results: run i belongs to round i */
    int *exit_codes; /* [run], or NULL: all 0 */
    char *withheld;  /* why there is no verdict about it ("its output differs from A's in round 3"), or NULL */
    size_t metric;   /* which one decides about it, from 1; 0: the result's primary. Benchmarks of a suite differ there */
    size_t capacity; /* of values and exit_codes */
} stk__variant;

typedef struct stk__result {
    stk__metric *metrics;
    size_t metric_count;
    size_t primary; /* the metric that decides */
    stk__variant *variants;
    size_t variant_count;
    bool paired;      /* the variants took turns, round by round: the i-th values belong together */
    bool interrupted; /* Ctrl-C: only the finished rounds are here */
    uint64_t seed;    /* of the order */
    size_t dropped;   /* rounds left out because a run of them failed */
    size_t retaken;   /* rounds taken again because others used the machine */
    size_t disturbed; /* rounds that are kept though others used the machine: the tries had run out */
    size_t warmup;    /* runs of each variant before the first round */
    double floor_s;   /* what starting and ending an empty process takes here; NaN: not measured */
    int64_t time_s;   /* when it began, seconds since 1970; 0: not known */
    char *machine;    /* fingerprint: "AMD EPYC, 2 cores, 24 GiB, Linux 6.18"; NULL: not known */
    char *limits;     /* "1 CPU (affinity), 4.0 GiB (cgroup v1)"; NULL: none */
    char *counted;    /* how instructions were counted: "hardware counter", "cachegrind 3.19.0"; NULL: not counted */
    char **notes;     /* what a reader should know, in order */
    size_t note_count, note_capacity;
} stk__result;

void stk__result_clear(stk__result *r);
/* Copies the strings. All return NOMEM or INVALID (a name that is there already). */
stk_status stk__result_add_metric(stk__result *r, const char *name, const char *unit, bool higher_is_better,
                                  size_t *out_index, stk_error *err);
/* The STK__MEASURES metrics, which must be the first. */
stk_status stk__result_add_measures(stk__result *r, stk_error *err);
/* Metrics first: a variant holds a row for each metric that is there when it is added. */
stk_status stk__result_add_variant(stk__result *r, const char *name, const char *command, size_t group,
                                   size_t *out_index, stk_error *err);
stk_status stk__result_add_parameter(stk__result *r, size_t variant, const char *name, const char *value,
                                     stk_error *err);
/* values[metric_count]; NaN: not known. */
stk_status stk__result_add_run(stk__result *r, size_t variant, const double *values, int exit_code, stk_error *err);
stk_status stk__result_note(stk__result *r, stk_error *err, const char *format, ...) STK_PRINTF(3, 4);
/* Index, or SIZE_MAX. */
size_t stk__result_metric(const stk__result *r, const char *name);
size_t stk__result_variant(const stk__result *r, const char *name);

/* The metric that decides about a variant. */
size_t stk__variant_metric(const stk__result *r, size_t variant);

/* "A", "B", ..., "Z", "AA", ... */
void stk__variant_letters(size_t index, char out[8]);

/*
 * Short names for commands: the words in which they differ, without leading dashes ("python t.py --lazy" and "python
 * t.py --stored": "lazy", "stored"); the whole command where that does not tell them apart. Each freed by stk__free.
 */
stk_status stk__variant_names(const char *const *commands, size_t count, char **out_names, stk_error *err);
/* Copies; a name that is there already becomes "NAME (2)". Each freed by stk__free. */
stk_status stk__variant_names_unique(const char *const *names, size_t count, char **out_names, stk_error *err);

#endif
