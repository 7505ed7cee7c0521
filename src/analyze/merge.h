/* Several files on one timeline: how their clocks differ, from what they share, and the shift that makes them agree. */
#ifndef STK_ANALYZE_MERGE_H
#define STK_ANALYZE_MERGE_H

#include "trace/model.h"

typedef enum stk__align {
    STK__ALIGN_AUTO, /* a clock known to be the same, then collectives, steps, realtime, a clock that may be the same */
    STK__ALIGN_COLLECTIVES,
    STK__ALIGN_STEPS,
    STK__ALIGN_REALTIME,
    STK__ALIGN_NONE,
} stk__align;

/* One list gives enum, name and text. */
#define STK__ALIGNMENTS(X)                                                            \
    X(NOT, "not_aligned", "not aligned")                                              \
    X(REFERENCE, "reference", "reference, the others are aligned to it")              \
    X(GIVEN, "given", "given offset")                                                 \
    X(SAME_CLOCK, "same_clock", "the same clock of the same host")                    \
    X(COLLECTIVES, "collectives", "collectives and barriers")                         \
    X(STEPS, "steps", "step starts")                                                  \
    X(REALTIME, "realtime", "real time of the hosts")                                 \
    X(LIKELY_CLOCK, "likely_same_clock", "monotonic clocks, taken to be of one host") \
    X(KEPT, "kept", "times kept as they are")

typedef enum stk__aligned {
#define STK__ALIGNED_ENUM(name, word, text) STK__ALIGNED_##name,
    STK__ALIGNMENTS(STK__ALIGNED_ENUM)
#undef STK__ALIGNED_ENUM
} stk__aligned;

const char *stk__aligned_name(stk__aligned by);
const char *stk__aligned_text(stk__aligned by);

/* What becomes of a file's times: t + shift_ns + drift * (t - origin_ns). */
typedef struct stk__retime {
    int64_t shift_ns, origin_ns;
    double drift; /* ns per ns */
} stk__retime;

typedef struct stk__merge_file {
    stk__aligned by;
    uint32_t to; /* the file that it was compared with; STK__NONE */
    stk__retime retime;
    size_t shared;  /* events of this kind that both could have had: the fewer of the two */
    size_t matched; /* those that the estimate rests on */
    int64_t
        error_ns; /* half-width: 3 standard deviations of single events by their MAD, and the resolution; -1: unknown */
    int64_t low_ns, high_ns; /* where matched events lie around the other file's after alignment */
    bool ambiguous;          /* another shift explains the events about as well: what repeats evenly fits itself */
    int64_t other_shift_ns;  /* that one, as a shift of this file */
    const char *why;         /* NOT: what was missing */
} stk__merge_file;

typedef struct stk__merge {
    stk__merge_file *files; /* one for each of the trace's */
    size_t count;
} stk__merge;

typedef struct stk__given_offset {
    uint32_t file;
    int64_t shift_ns;
} stk__given_offset;

typedef struct stk__merge_options {
    stk__align align;
    const stk__given_offset *offsets;
    size_t offset_count;
} stk__merge_options;

/*
 * Works out how the clocks differ; changes nothing. The first file is the reference. A file that shares nothing with
 * the others is NOT aligned and keeps its times: that is no failure.
 */
stk_status stk__merge_find(const stk__trace *t, const stk__merge_options *options, stk__merge *out, stk_error *err);
/*
 * Does it: new times in all columns, start_ns and end_ns, shift_ns, realtime_ns and clock of the files. All or nothing.
 */
stk_status stk__merge_apply(stk__trace *t, const stk__merge *m, stk_error *err);
void stk__merge_clear(stk__merge *m);

/* Adds shift_ns to all times of a file. Fails, and changes nothing, when a time would leave int64. */
stk_status stk__trace_shift(stk__trace *t, uint32_t file, int64_t shift_ns, stk_error *err);

/* Is it the name of something that all ranks leave together: an all-reduce, a barrier, a kernel of NCCL? */
bool stk__is_collective(const char *name);

#endif
