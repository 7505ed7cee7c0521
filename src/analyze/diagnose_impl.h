/* What the parts of a diagnosis share: ranks, stages, gaps, and the record that the report is written from. */
#ifndef STK_ANALYZE_DIAGNOSE_IMPL_H
#define STK_ANALYZE_DIAGNOSE_IMPL_H

#include "analyze/diagnose.h"
#include "analyze/python_frames.h"
#include "analyze/steps_impl.h"

/* XProf's thresholds, in percent of the step time. */
#define STK__HIGHLY_PERCENT 20.0
#define STK__MODERATELY_PERCENT 5.0
#define STK__OTHER_PERCENT 3.0   /* time without any event: "potentially input-bound" */
#define STK__LAUNCH_PERCENT 3.0  /* kernel launches worth a word */
#define STK__BETWEEN_PERCENT 5.0 /* time between markers worth a word */

enum { STK__STAGE_ROWS = 12, STK__SLOWEST = 3, STK__WHAT_IFS = 3, STK__ADVICES = 8, STK__LABEL_SIZE = 256 };

typedef enum stk__host_meaning {
    STK__HOST_OPEN,  /* may load data as well as anything else */
    STK__HOST_INPUT, /* by what it calls, or by its name */
    STK__HOST_KNOWN, /* something else */
} stk__host_meaning;

/* A slice's name; of a Python function whose name does not hold it, also the place. */
typedef struct stk__place {
    stk__string name, file;
    int64_t line;
} stk__place;

/* Code of the training thread that launches nothing. */
typedef struct stk__host_function {
    stk__place at;
    stk__place around;  /* of a library's call: the own function that makes it; name 0 */
    stk__place because; /* the call in it that says what it does; name 0: its own name does, or nothing */
    stk__host_meaning meaning;
    bool own;   /* of the user */
    bool self;  /* only the lines between the calls that it makes */
    bool is_op; /* an op of a framework that launches nothing, without a function around it */
    bool known;
    double ns; /* within steps, where nothing of the device runs */
    double total_ns, reads_ns, writes_ns;
    uint64_t calls;
    uint32_t next; /* of the same name, + 1 */
} stk__host_function;

typedef struct stk__host_span {
    int64_t start, end;
    uint32_t function;
} stk__host_span;

typedef struct stk__host {
    stk__host_function *functions;
    size_t function_count;
    stk__host_span *spans; /* by start */
    size_t span_count;
    bool has_frames; /* the trace has Python's functions */
} stk__host;

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
    bool own_hints_only;        /* likewise, of waits known by their names alone */
    bool has_device, fills; /* fills: what is no wait is work, since the recorder writes down every wait of the loop */
    double type_ns[STK__EVENT_TYPES];   /* exclusive, within steps */
    double step_ns;                     /* of all steps that count */
    double between_ns, between_wait_ns; /* between the first and last step, outside all of them */
    double input_ns, input_percent;
    bool visible;   /* most steps have a slice that shows the wait for their data */
    double open_ns; /* of the steps: nothing says what it was, so it may be input */
    stk__host host;
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
    STK__STAGE_TF_DATA,  /* iterators, by the time that the root was blocked in them */
    STK__STAGE_OPS,      /* ours, by the time of the workers */
    STK__STAGE_WORKERS,  /* other processes among the files */
    STK__STAGE_INSIDE,   /* slices within the waits, on the waiting thread */
    STK__STAGE_TIMELINE, /* ops that ran while IteratorGetNext waited */
    STK__STAGE_HOST,     /* functions of the training thread that load data */
} stk__stage_kind;

typedef struct stk__stage_row {
    stk__string name;
    stk__string file; /* of a Python function whose name does not hold it; 0 */
    int64_t line;     /* 0: not known */
    double ns;        /* self time */
    double share;     /* of all rows' time, 0 to 1 */
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
    double input_percent, other_percent, open_percent;
    int64_t median_ns, p95_ns;
    stk__step_figures slowest[STK__SLOWEST];
    size_t slowest_count;
    bool has_device, hints_only;
    bool visible; /* of all ranks: most steps have a slice that shows the wait */
    stk__verdict verdict;
    double confidence;
    char *reason; /* of unknown: why, and what would give a verdict */
    stk__stage stage;
    stk__host_function host; /* the one that the report names; at.name 0: none */
    double host_percent;     /* its share of step time, without steps of the trace */
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

/*
 * diagnose_host.c: what a thread does during the steps, or in the whole trace where there are none, without launching
 * anything. False: out of memory.
 */
bool stk__host_find(const stk__classifier *c, uint32_t main_track, const stk__step *steps, size_t step_count,
                    stk__host *out);
/* The type of event that a function's time is; `count_input`: what loads data is a wait for it. */
unsigned stk__host_type(const stk__host_function *f, bool count_input);
void stk__host_clear(stk__host *h);
/* Chooses the function of the worst rank that the report names. */
void stk__host_name(stk__diagnosis *d);

/* diagnose_stage.c: which stage of the input takes the time. */
stk_status stk__stage_find(stk__diagnosis *d, const stk__classifier *c, const uint32_t *owners, stk_error *err);

/* diagnose_advice.c: evidence, what to do and what it would gain, in words. False: out of memory. */
bool stk__diagnosis_explain(stk__diagnosis *d, const stk__classifier *c);

/* diagnose_framework.c: whose trace it is, by names that only one of them writes. */
typedef enum stk__framework { STK__NO_FRAMEWORK, STK__TORCH, STK__TENSORFLOW, STK__JAX } stk__framework;
enum { STK__DEVICES = 4 };
stk__framework stk__framework_of(const stk__trace *t);
const char *stk__framework_name(stk__framework is); /* NULL: none */
const char *stk__how_to_mark(const stk__trace *t);
const char *stk__how_to_show_waits(stk__framework is, bool has_stacks);
/* Names of the devices, each once; `out` has room for STK__DEVICES. */
size_t stk__device_names(const stk__trace *t, stk__string *out);

/* "Iterator::Root::Prefetch::ParallelMapV2[0]" -> "ParallelMapV2"; other names as they are. */
const char *stk__stage_label(const stk__diagnosis *d, stk__string name, size_t *out_size);
/* The Python function that a row is about; false: it is something else. */
bool stk__stage_row_frame(const stk__diagnosis *d, const stk__stage_row *row, stk__python_frame *out);
/*
 * How people call a row: as above, and "load (train.py:12)" for functions of Python. Raw text of the trace, which fits
 * into STK__LABEL_SIZE.
 */
void stk__stage_row_label(const stk__diagnosis *d, const stk__stage_row *row, stk__text *out);
/* "12.3 ms" */
void stk__text_duration(stk__text *t, double ns);
double stk__percent_of(double part, double whole);

#endif
