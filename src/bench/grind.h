/*
 * Instructions counted by valgrind, where there are no hardware counters. Cachegrind is exact and the faster of its two
 * tools, but what a process did before a fork it counts twice, and what it did before an exec not at all. Callgrind can
 * write its figures down before both. So commands of one process get cachegrind, others callgrind.
 */
#ifndef STK_BENCH_GRIND_H
#define STK_BENCH_GRIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef enum stk__grind_tool { STK__CACHEGRIND, STK__CALLGRIND } stk__grind_tool;

/* "cachegrind" */
const char *stk__grind_name(stk__grind_tool tool);

enum { STK__GRIND_WORDS = 32, STK__GRIND_FILES = 200000, STK__GRIND_FILE_BYTES = 256 << 20 };

/* One run under valgrind: the words before the command, and the directory to which its processes write. */
typedef struct stk__grind {
    char directory[64], out_option[128], log_option[128];
    const char *words[STK__GRIND_WORDS]; /* NULL-terminated; they point into this struct, which must not move */
} stk__grind;

stk_status stk__grind_open(stk__grind *g, stk__grind_tool tool, stk_error *err);
/* Removes the directory. A zeroed one is fine. */
void stk__grind_close(stk__grind *g);

typedef struct stk__grind_total {
    uint64_t instructions;
    size_t files; /* one for each process, and for each part that callgrind writes down before forks */
    bool alone;   /* one process did it all: one file, and it is of `command` */
} stk__grind_total;

/* All that was written to the directory. `command`: the words that were started, with blanks between them. */
stk_status stk__grind_sum(const char *directory, const char *command, stk__grind_total *out, stk_error *err);

/* One file of either tool. */
typedef struct stk__grind_file {
    uint64_t instructions;
    const char *command; /* in the text; not terminated */
    size_t command_size;
} stk__grind_file;

/* CORRUPT with what was found and wanted: it is cut off, counts other events, or is something else. */
stk_status stk__grind_parse(const char *text, size_t size, stk__grind_file *out, stk_error *err);

#endif
