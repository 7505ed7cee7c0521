/* Totals per name: count, total, self, min, max, percentiles. */
#ifndef STK_ANALYZE_TOP_H
#define STK_ANALYZE_TOP_H

#include "analyze/select.h"

typedef enum stk__top_by {
    STK__TOP_NAME,
    STK__TOP_THREAD, /* label of the track */
    STK__TOP_CATEGORY,
    STK__TOP_FILE,
    STK__TOP_STEP, /* the step that the slice starts in; "(outside steps)" */
    STK__TOP_PROCESS,
} stk__top_by;

typedef enum stk__top_sort {
    STK__TOP_TOTAL,
    STK__TOP_SELF,
    STK__TOP_CALLS,
    STK__TOP_MEAN,
    STK__TOP_MAX,
    STK__TOP_BY_NAME
} stk__top_sort;

typedef struct stk__top_options {
    stk__selection select;
    stk__top_by by;
    bool with_name; /* group by `by` and the name: rows "GROUP  NAME" */
    stk__top_sort sort;
    bool fold;      /* names of slices that differ in the number after their '#' are one: "ProfilerStep#*" */
    bool leave_out; /* what the profiler writes about itself, unless names or categories were asked for */
    /*
     * Profiles: frames whose file, module or name matches one of these are the user's own; others fold into their
     * nearest own caller.
     */
    const char *const *own;
    size_t own_count;
    bool own_only; /* only those, with the self times that they have: nothing folds */
} stk__top_options;

typedef struct stk__top_row {
    stk__string key;   /* name, category, path; STK__NONE: see label */
    stk__string name;  /* of with_name; else 0 */
    uint32_t row;      /* of the group: track, file, step, process, frame; STK__NONE */
    uint32_t unit;     /* stk__unit of all figures: ns for slices, that of the samples for profiles */
    int64_t count;     /* slices, or samples, or calls */
    int64_t primitive; /* calls that are not recursive; of samples all */
    /*
     * Inclusive; without what ran inside. What runs inside a slice, function or frame of its own row counts once in
     * total.
     */
    int64_t total, self;
    int64_t min, max; /* of slices; profiles: STK__NO_NUMBER, as p50 and p95 */
    double mean;      /* of all calls, recursive ones too */
    int64_t p50, p95; /* nearest rank: the smallest value with at least that share at or below it; exact */
    bool estimate;    /* self has a part that `own` could only share out by the call edges of a profile */
} stk__top_row;

/* What the rows come from. */
typedef enum stk__top_source { STK__TOP_SLICES, STK__TOP_SAMPLES, STK__TOP_FUNCTIONS } stk__top_source;

typedef struct stk__top {
    stk__top_row *rows;
    size_t count;
    stk__top_source source;
    /* For groups that are no string (tracks, steps, frames): label of each row, in their order; NULL else. */
    char **labels;
    size_t label_count;
    /*
     * What a row's share is of: for slices the time of the run, from the first start to the last end in each file, where
     * files overlap once; for samples the sum of weights; both of the selected tracks and time, whatever their names.
     * For functions the sum of self times. By unit; `total` is that of the first row's.
     */
    int64_t totals[STK__UNIT_NONE + 1];
    int64_t total;
    size_t tracks;    /* slices: how many ran in that time, lanes counted as their track */
    size_t lanes;     /* and the lanes among them */
    int64_t left_out; /* slices of the profiler itself that are in no row */
} stk__top;

/* The row for profiles that collects what no own frame called. */
#define STK__TOP_NOT_OWN "(not own)"

/* Which sources the trace has, most telling first; returns how many (0 to 3). */
size_t stk__top_sources(const stk__trace *t, stk__top_source out[3]);
stk_status stk__top_make(const stk__trace *t, stk__top_source source, const stk__top_options *options, stk__top *out,
                         stk_error *err);
void stk__top_clear(stk__top *top);
/*
 * Whether the frame's name, module, path or a part of the path from a '/' on matches. A pattern without * ? [ and \ may
 * also be a folder of the path: "src" is all of .../src/.
 */
bool stk__frame_own(const stk__trace *t, const stk__trace_frame *frame, const char *const *own, size_t own_count);
/* Whether the frame's name, its path, or both as rows have them match; no patterns: all do. */
bool stk__frame_like(const stk__trace *t, const stk__trace_frame *frame, const stk__selection *select);
/* What a row is called; valid as long as both live. For frames "function (file:line)". */
const char *stk__top_label(const stk__trace *t, const stk__top *top, const stk__top_row *row);

#endif
