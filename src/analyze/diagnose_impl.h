/* What the parts of a diagnosis share: ranks, stages, gaps, and the record that the report is written from. */
#ifndef STK_ANALYZE_DIAGNOSE_IMPL_H
#define STK_ANALYZE_DIAGNOSE_IMPL_H

#include "analyze/diagnose.h"
#include "analyze/steps_impl.h"

/* XProf's thresholds, in percent of the step time. */
#define STK__HIGHLY_PERCENT 20.0
#define STK__MODERATELY_PERCENT 5.0
#define STK__OTHER_PERCENT 3.0   /* time without any event: "potentially input-bound" */
#define STK__LAUNCH_PERCENT 3.0  /* kernel launches worth a word */
#define STK__BETWEEN_PERCENT 5.0 /* time between markers worth a word */

enum { STK__STAGE_ROWS = 12, STK__SLOWEST = 3, STK__WHAT_IFS = 3, STK__ADVICES = 8 };

/* One trainer: a process with steps. */
typedef struct stk__rank {
    uint32_t file, process;
    size_t first_step, step_count; /* in steps */
    size_t left_out;               /* steps without time, or without device work as XProf does */
    size_t idle_steps;             /* without device work; they count where else less than half would be left */
    stk__step_kind kind;
    uint32_t main_track;        /* where the training loop runs; STK__NONE */
    unsigned waits_seen, waits; /* bits of stk__wait_kind: that its slices have, and that count */
    bool own_waits_only;        /* only waits on the main track count */
    bool has_device, fills; /* fills: what is no wait is work, since the recorder writes down every wait of the loop */
    double type_ns[STK__EVENT_TYPES];   /* exclusive, within steps */
    double step_ns;                     /* of all steps that count */
    double between_ns, between_wait_ns; /* between the first and last step, outside all of them */
    double input_ns, input_percent;
} stk__rank;

typedef struct stk__idle_gap {
    int64_t ts, dur;
    int64_t step;     /* number of the step that holds most of it; STK__NO_NUMBER: between steps */
    stk__string main; /* what the main thread was in for most of it; 0 */
    int64_t main_ns;
    stk__string other; /* what ran on other host threads; 0 */
    uint32_t other_track;
    int64_t other_ns;
    double wait_share; /* of the gap: the loop waited for input */
} stk__idle_gap;

typedef enum stk__stage_kind {
    STK__STAGE_NONE,
    STK__STAGE_TF_DATA, /* iterators, by the time that the root was blocked in them */
    STK__STAGE_OPS,     /* ours, by the time of the workers */
    STK__STAGE_WORKERS, /* other processes among the files */
    STK__STAGE_INSIDE,  /* slices within the waits, on the waiting thread */
} stk__stage_kind;

typedef struct stk__stage_row {
    stk__string name;
    double ns;    /* self time */
    double share; /* of all rows' time, 0 to 1 */
    uint64_t calls;
    int64_t p50, p95, max; /* of one call */
    bool is_wait;          /* INSIDE: the wait itself, with nothing in it that says why */
} stk__stage_row;

typedef struct stk__stage {
    stk__stage_kind kind;
    stk__stage_row rows[STK__STAGE_ROWS]; /* most time first */
    size_t count;
    double total_ns;
    size_t workers;     /* tracks that work; 0: not known */
    double utilisation; /* share of their time that they work; OPS and WORKERS */
    double room_share;  /* OPS: share of the workers' time spent waiting for room: the input is fast enough then */
} stk__stage;

typedef struct stk__what_if {
    char *what, *assumption;
    double step_percent;  /* change of the step time, negative */
    double input_percent; /* afterwards */
} stk__what_if;

typedef struct stk__step_figures {
    int64_t number, ts, dur;
    uint32_t rank;
    double input_ns;
    bool idle; /* the device computes nothing in it */
} stk__step_figures;

struct stk__diagnosis {
    const stk__trace *trace;
    stk__diagnose_options options;
    stk__steps steps;
    stk__rank *ranks;
    size_t rank_count, worst;   /* rank with the highest input share */
    stk__step_figures *figures; /* one per step that counts, by rank and time */
    size_t figure_count;
    double type_ns[STK__EVENT_TYPES], step_ns, between_ns, between_wait_ns;
    double input_percent, other_percent;
    int64_t median_ns, p95_ns;
    stk__step_figures slowest[STK__SLOWEST];
    size_t slowest_count;
    bool has_device, hints_only, no_waits;
    stk__verdict verdict;
    double confidence;
    char *reason; /* of unknown: why, and what would give a verdict */
    stk__stage stage;
    stk__idle_gap *gaps;
    size_t gap_count;
    stk__what_if what_ifs[STK__WHAT_IFS + 1];
    size_t what_if_count;
    char *advice[STK__ADVICES];
    size_t advice_count;
    char **evidence;
    size_t evidence_count, evidence_capacity;
};

/* diagnose_ranks.c: who trains, and which tracks belong to whom. owners: per track, the rank or STK__NONE. */
stk_status stk__ranks_make(stk__diagnosis *d, const stk__classifier *c, uint32_t **out_owners, stk_error *err);

/* diagnose_sweep.c: where the time of a rank's steps goes, and its longest idle gaps. */
stk_status stk__rank_sweep(stk__diagnosis *d, const stk__classifier *c, const uint32_t *tracks, size_t track_count,
                           stk__rank *rank, stk__idle_gap *gaps, size_t *gap_count, size_t gap_room, stk_error *err);
/* What ran in a gap. `sums` has a zero for each string, and has again afterwards. */
void stk__gap_explain(const stk__classifier *c, const uint32_t *tracks, size_t track_count, const stk__rank *rank,
                      double *sums, stk__idle_gap *gap);

/* diagnose_stage.c: which stage of the input takes the time. */
stk_status stk__stage_find(stk__diagnosis *d, const stk__classifier *c, const uint32_t *owners, stk_error *err);

/* diagnose_advice.c: evidence, what to do and what it would gain, in words. False: out of memory. */
bool stk__diagnosis_explain(stk__diagnosis *d, const stk__classifier *c);

/* "Iterator::Root::Prefetch::ParallelMapV2[0]" -> "ParallelMapV2"; other names as they are. */
const char *stk__stage_label(const stk__diagnosis *d, stk__string name, size_t *out_size);
/* "12.3 ms" */
void stk__text_duration(stk__text *t, double ns);
double stk__percent_of(double part, double whole);

#endif
