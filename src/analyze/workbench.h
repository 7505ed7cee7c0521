/* What the public workbench and the program share: which files are meant, the words and figures of totals. */
#ifndef STK_ANALYZE_WORKBENCH_H
#define STK_ANALYZE_WORKBENCH_H

#include "analyze/top.h"
#include "base/file.h"

/*
 * Expands patterns, in their order, and drops a file that was given before: it would be counted twice. `repeated` is
 * told of those and may be NULL.
 */
stk_status stk__trace_paths(const char *const *patterns, size_t count, stk__paths *out,
                            void (*repeated)(void *arg, const char *path, const char *before), void *arg,
                            stk_error *err);

/* Words for one of several values; the list ends with NULL, and its first word is the default. */
typedef struct stk__word {
    const char *name;
    int value;
} stk__word;

extern const stk__word stk__top_by_words[], stk__top_sort_words[];

/* False when the list has no such word; *out_nearest is then the one that may be meant, or NULL. `text` may be NULL. */
bool stk__word_find(const stk__word *words, const char *text, int *out, const char **out_nearest);

/* Rows of totals for programs: their columns, and the words of stk__top_source and stk__unit in them. */
enum { STK__TOP_COLUMNS = 16 };
extern const char *const stk__top_columns[STK__TOP_COLUMNS];
extern const char *const stk__top_source_names[], *const stk__unit_names[];

/*
 * The share of a row in all there is. Of a name, with all that runs inside; of a thread or step, what is inside is in
 * the same row and counts once.
 */
double stk__top_percent(const stk__top_options *options, const stk__top *top, const stk__top_row *row);

#endif
