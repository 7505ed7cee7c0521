/* Two traces compared: steps, names, stages and stacks, with a test where there is a distribution to test. */
#ifndef STK_ANALYZE_DIFF_H
#define STK_ANALYZE_DIFF_H

#include "stats/ranks.h"
#include "analyze/steps.h"
#include "base/str.h"
#include "trace/model.h"

typedef enum stk__diff_by { STK__DIFF_NAME, STK__DIFF_CATEGORY, STK__DIFF_THREAD, STK__DIFF_PROCESS } stk__diff_by;

typedef struct stk__diff_options {
    stk__diff_by by;
    double min_change;   /* smallest change that is called one, as a fraction */
    double min_share;    /* groups with less of the busy time on both sides are not tested */
    double fail_over;    /* a slowdown past this fraction is a regression; negative: no rule */
    size_t sample_limit; /* durations per group and side that are tested; 0: 100,000 */
} stk__diff_options;

#define STK__DIFF_DEFAULTS                                      \
    {                                                           \
        .min_change = 0.01, .min_share = 0.001, .fail_over = -1 \
    }

/* One list gives enum, name and text. */
#define STK__DIFF_VERDICTS(X)                                             \
    X(SLOWER, "slower", "slower")                                         \
    X(FASTER, "faster", "faster")                                         \
    X(MORE_CALLS, "more_calls", "called more often")                      \
    X(FEWER_CALLS, "fewer_calls", "called less often")                    \
    X(COSTS_MORE, "costs_more", "costs more")                             \
    X(COSTS_LESS, "costs_less", "costs less")                             \
    X(APPEARED, "appeared", "appeared")                                   \
    X(VANISHED, "vanished", "vanished")                                   \
    X(SAME, "not_significant", "not significant")                         \
    X(NEGLIGIBLE, "negligible", "differs, but by less than --min-change") \
    X(TOO_FEW, "too_few", "too few calls to test")                        \
    X(SMALL, "small", "under --min-share, not tested")                    \
    X(NO_TEST, "no_test", "not tested")

typedef enum stk__diff_verdict {
#define STK__DIFF_ENUM(name, word, text) STK__DIFF_##name,
    STK__DIFF_VERDICTS(STK__DIFF_ENUM)
#undef STK__DIFF_ENUM
        STK__DIFF_VERDICT_COUNT
} stk__diff_verdict;

const char *stk__diff_verdict_name(stk__diff_verdict v); /* "not_significant" */
const char *stk__diff_verdict_text(stk__diff_verdict v);

/* One group in one trace. What is not known or has no meaning is NaN. */
typedef struct stk__diff_side {
    int64_t count, total, self;                     /* of the whole trace, in the unit of the row; saturating */
    double mean, self_share;                        /* self_share: of all self time */
    stk__median median;                             /* of the durations that were tested; NaN: none */
    double per_step, self_per_step, calls_per_step; /* of what starts within the steps; NaN without steps */
    size_t tested;
} stk__diff_side;

typedef struct stk__diff_row {
    const char *label;
    uint32_t unit; /* stk__unit */
    bool stage;    /* of an input pipeline: tf.data iterators, DataLoader, our ops and waits */
    stk__diff_side before, after;
    double median_change; /* after / before - 1; infinite from 0 */
    /* The same of time per step, without steps of the mean, of profiles of the share of self time. */
    double load_change;
    double calls_change; /* of calls per step, without steps of all calls; NaN for profiles */
    double impact; /* what the change adds: per step, without steps over all calls of before; of profiles in shares */
    stk__mwu test;
    double p, p_holm; /* NaN: not tested */
    stk__diff_verdict verdict;
} stk__diff_row;

/* A path of names, matched by equality. */
typedef struct stk__diff_stack {
    char *path; /* "a;b;c" */
    uint32_t unit;
    double before, after; /* self: per step, else of the whole trace, or the share of a profile; NaN: not there */
    int64_t before_count, after_count;
} stk__diff_stack;

typedef struct stk__diff_totals {
    size_t files, slices;
    int64_t wall_ns;
    int64_t busy; /* self times of all groups */
    size_t steps;
    stk__steps_from from;
    double confidence;
    char marker[128];
    stk__median step; /* NaN: no steps */
    double step_mean;
} stk__diff_totals;

typedef enum stk__diff_basis {
    STK__DIFF_PER_STEP,
    STK__DIFF_PER_CALL,
    STK__DIFF_PER_SHARE, /* profiles */
} stk__diff_basis;

typedef enum stk__diff_rule {
    STK__DIFF_NO_RULE,    /* none was asked for, or nothing can be tested */
    STK__DIFF_STEP_TIME,  /* median step time: when both have enough steps from markers */
    STK__DIFF_NAMES_TIME, /* busy time of the groups that changed significantly, summed: otherwise */
    STK__DIFF_BUSY_TIME,  /* busy time of all groups: when some appeared, and those that changed are no regression */
} stk__diff_rule;

typedef struct stk__diff {
    stk__diff_options options;
    stk__diff_basis basis;
    const char *basis_reason; /* why not per step; NULL */
    stk__diff_totals before, after;
    uint32_t unit; /* stk__unit of what is compared: ns of slices; of samples one of their units */
    stk__mwu step_test;
    double step_change;
    stk__diff_verdict step_verdict;
    stk__diff_row *rows; /* changed ones first, then by impact */
    size_t count, tested, changed;
    size_t left_out;         /* slices of both that a profiler wrote about itself */
    bool sampled;            /* some group had more durations than sample_limit */
    stk__diff_stack *stacks; /* by size of the change; both sides equal: left out */
    size_t stack_count;
    /* of --fail-over */
    stk__diff_rule rule;
    double rule_before, rule_after, rule_change; /* a change from 0 is infinite */
    bool regression;
    char *label_bytes;
} stk__diff;

/* Fails with STK_UNSUPPORTED when the two have nothing in common to compare: slices here, a profile there. */
stk_status stk__diff_make(const stk__trace *before, const stk__trace *after, const stk__diff_options *options,
                          stk__diff *out, stk_error *err);
void stk__diff_clear(stk__diff *d);

/* ---- diff_report.c ---- */

typedef enum stk__diff_section {
    STK__DIFF_ALL,
    STK__DIFF_ONLY_STEP,
    STK__DIFF_ONLY_STAGE,
    STK__DIFF_ONLY_STACK
} stk__diff_section;

const char *stk__diff_rule_text(stk__diff_rule rule); /* "median step time" */
/* How calls changed where their number did, by a tenth or more: "10x as often, each 14.8 % faster: +752 %"; else "". */
void stk__diff_calls_text(const stk__diff *d, const stk__diff_row *r, stk__text *out);
/* For people; `limit` rows per section (0: all). Names are safe for a terminal. */
void stk__diff_text(const stk__diff *d, stk__diff_section section, size_t limit, stk__text *out);
/* One object. */
void stk__diff_json(const stk__diff *d, stk__diff_section section, size_t limit, stk__text *out);
/* One line per row of any section, which the first column names; `raw`: with names that look like formulas as they are. */
void stk__diff_csv(const stk__diff *d, stk__diff_section section, size_t limit, bool raw, stk__text *out);

#endif
