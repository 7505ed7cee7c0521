/* What the readers of foreign benchmark files share: names, limits, JSON values with their places. */
#ifndef STK_BENCH_IMPORT_H
#define STK_BENCH_IMPORT_H

#include <jansson.h>

#include "bench/result.h"

enum {
    STK__IMPORT_VARIANTS = 10000,
    STK__IMPORT_METRICS = 64,
    STK__IMPORT_PARAMETERS = 1000,
    STK__IMPORT_CELLS = 1 << 26 /* values, all metrics of all runs together */
};

/* Names in the order of their coming, found by hash. */
typedef struct stk__name_table {
    char **items;
    size_t count, capacity;
    size_t *slots; /* index + 1; 0: free */
    size_t slot_count;
} stk__name_table;

void stk__names_clear(stk__name_table *t);
/* Index, or SIZE_MAX. */
size_t stk__names_find(const stk__name_table *t, const char *name, size_t size);
/* The index of the name, which is added when it is new; SIZE_MAX when memory is out. */
size_t stk__names_add(stk__name_table *t, const char *name, size_t size);
/*
 * Adds `name`, or when it is there `name` with prefix and a number from 2 (of at least so many digits). The string is
 * the table's; NULL when memory is out.
 */
const char *stk__names_unique(stk__name_table *t, const char *name, const char *prefix, int digits);

typedef struct stk__import {
    stk__result *out;
    stk_error *err;
    stk__name_table names; /* of the variants, index by index */
    size_t cells;
} stk__import;

/* Adds a metric unless one of that name is there; INVALID when it has another unit or direction. */
stk_status stk__import_metric(stk__import *in, const char *name, const char *unit, bool higher_is_better,
                              size_t *out_index);
/* The same for a name that may be that of a stk__measure, whose unit it then has. */
stk_status stk__import_counter(stk__import *in, const char *name, const char *unit, bool higher_is_better,
                               size_t *out_index);
/* A name that is there already gets a number: "decode #2". */
stk_status stk__import_variant(stk__import *in, const char *name, const char *command, size_t group, size_t *out_index);
stk_status stk__import_run(stk__import *in, size_t variant, const double *values, int exit_code);
/* Counts the runs that failed in a note. */
stk_status stk__import_note_failures(stk__import *in);
/* An object of strings, numbers or anything else, which is kept as JSON; {"value": x} is x. NULL and null are none. */
stk_status stk__import_parameters(stk__import *in, size_t variant, const json_t *object, const char *list);

/* CORRUPT: "PLACE is FOUND, wanted WANTED". */
stk_status stk__import_bad(const stk__import *in, const json_t *found, const char *wanted, const char *place, ...)
    STK_PRINTF(4, 5);

/* A finite number of at least 0. */
bool stk__import_value(const json_t *json, double *out);
/* A whole number in 0..most. */
bool stk__import_count(const json_t *json, double most, double *out);
/* Exit codes: whole numbers, null for a run that a signal ended (-1). */
bool stk__import_exit_code(const json_t *json, int *out);
/* The member when it is a string, else NULL. */
const char *stk__import_string(const json_t *object, const char *key);

/* "2026-11-15T16:00:00Z", with a blank for the T, with "+01:00" for the Z, with a fraction. 0 when it is no such text or has no zone. */
int64_t stk__import_time(const char *text);

/* The root of a JSON file, parsed (whole numbers as reals). Each fills an empty result. */
stk_status stk__read_stoker(stk__import *in, const json_t *root);
stk_status stk__read_hyperfine(stk__import *in, const json_t *root);
stk_status stk__read_hyperfine2(stk__import *in, const json_t *root);
stk_status stk__read_pytest(stk__import *in, const json_t *root);
stk_status stk__read_pyperf(stk__import *in, const json_t *root);
stk_status stk__read_google(stk__import *in, const json_t *root);
stk_status stk__read_go(stk__import *in, const char *text, size_t size);

#endif
