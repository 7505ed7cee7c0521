/* What slices mean for a training step: waits for input, work of a device, launches; by name, category and track. */
#ifndef STK_ANALYZE_CLASSIFY_H
#define STK_ANALYZE_CLASSIFY_H

#include "analyze/select.h"
#include "analyze/tf_data.h"

/*
 * XProf's event types in the order of their priority: where several are active at once, the highest one counts. So an
 * input wait behind device compute does not count, and one under an all-reduce does.
 */
typedef enum stk__event_type {
    STK__UNKNOWN_TIME,
    STK__HOST_BETWEEN, /* Python between its calls, and calls of libraries that say nothing: no rule knows them */
    STK__HOST_COMPUTE,
    STK__HOST_PYTHON, /* functions of the user that launch nothing and may load data as well as anything else */
    STK__HOST_TO_HOST,
    STK__HOST_TO_DEVICE,
    STK__HOST_PREPARE, /* launches of kernels */
    STK__DEVICE_COLLECTIVES,
    STK__HOST_WAIT_INPUT,
    STK__DEVICE_TO_DEVICE,
    STK__DEVICE_TO_HOST,
    STK__DEVICE_COMPUTE_32,
    STK__DEVICE_COMPUTE_16,
    STK__DEVICE_WAIT_DEVICE,
    STK__DEVICE_WAIT_HOST, /* infeed of a TPU */
    STK__EVENT_TYPES,
    STK__NO_EVENT = 255 /* tells nothing about the step: markers, containers, derived rows */
} stk__event_type;

/*
 * Ways to see in a trace that a training loop waits for data; the later ones count only where the earlier are not
 * seen.
 */
typedef enum stk__wait_kind {
    STK__WAIT_NONE,
    STK__WAIT_HINT,     /* a span that a user called "data" or "get_batch": likely, not certain */
    STK__WAIT_ITERATOR, /* a root iterator of tf.data; XProf's IteratorGetNext stands around it on the waiting thread */
    STK__WAIT_DATALOADER, /* PyTorch, Lightning */
    STK__WAIT_RECORDER,   /* ours: "wait for batch" */
    STK__WAIT_GET_NEXT,   /* IteratorGetNext* */
    STK__WAIT_TOLD,       /* the user said so: then nothing else counts */
} stk__wait_kind;

/* What the user says about a trace. */
typedef struct stk__told {
    const char *const *waits; /* shell patterns: names of slices that wait for data */
    size_t wait_count;
    const char *const *steps; /* names of slices that start a step */
    size_t step_count;
} stk__told;

stk__wait_kind stk__wait_kind_of(const char *name, size_t size);

typedef enum stk__track_role {
    STK__ROLE_HOST,
    STK__ROLE_DEVICE,  /* a stream, or XLA ops of a device */
    STK__ROLE_DERIVED, /* rows of a device that repeat what others say: steps, modules, name scopes */
    STK__ROLE_STEPS,   /* our recorder's steps */
    STK__ROLE_WORKER,  /* our recorder's workers */
    STK__ROLE_OTHER,   /* the producer's own notes */
} stk__track_role;

/* Roles of all tracks (free with stk__free), or NULL when memory is out. */
uint8_t *stk__track_roles(const stk__trace *t);
/* Name of the track itself, else of its thread; "" when it has none. Lanes are called like their track. */
const char *stk__track_own_name(const stk__trace *t, uint32_t track, size_t *out_size);
/* "/host:CPU", "/device:GPU:0": parts of one process that TensorFlow and XLA write as processes. */
bool stk__process_is_plane(const stk__trace *t, uint32_t process);
uint32_t stk__track_process(const stk__trace *t, uint32_t track);

/* ---- per trace: tables from names and categories to meanings ---- */

typedef struct stk__classifier {
    const stk__trace *trace;
    uint8_t *host, *device; /* stk__event_type per string, as the name of a slice there; set for all strings */
    uint8_t *wait;          /* stk__wait_kind per string */
    uint8_t *category;      /* what a string means as a category */
    uint8_t *roles;         /* per track */
    stk__string
        correlation; /* key of the arg that says that a slice launched device work; STK__NONE: no slice has it */
    stk__string input_stage; /* key of the arg that marks stages of an input pipeline; STK__NONE */
    stk__tf_data tf_data;
    bool has_device; /* some slice is work of a device */
} stk__classifier;

/* `told` may be NULL. */
stk_status stk__classifier_init(stk__classifier *c, const stk__trace *t, const stk__told *told, stk_error *err);
void stk__classifier_clear(stk__classifier *c);
/* The type of a slice; waits of kinds not in `waits` (bits 1 << kind) are no waits. */
stk__event_type stk__classify(const stk__classifier *c, size_t slice, unsigned waits);
/* The kind of wait that a slice is: by its name, and for tf.data by its place in the pipeline. */
stk__wait_kind stk__slice_wait(const stk__classifier *c, size_t slice);
/* Bits of the kinds of waits that count: the hints and root iterators only where nothing better is seen. */
unsigned stk__waits_that_count(unsigned seen);
/* Whether a name is that of work on a model: backward passes, optimizers, layers, compiled functions. */
bool stk__is_model_work(const char *name, size_t size);
/* Whether a name is that of a call that gives work to a device. */
bool stk__is_launch(const char *name, size_t size);
/* Whether the slice is work on a device, whatever kind. */
bool stk__is_device_work(const stk__classifier *c, size_t slice);
/* Says nothing of a step: the producer's notes on its own work, calls of the OS, and what repeats other slices. */
bool stk__is_ignored(const stk__classifier *c, size_t slice);
/* Stands around the work and says nothing itself: Python functions, annotations. */
bool stk__is_container(const stk__classifier *c, size_t slice);
/* A call into CUDA and its like. */
bool stk__is_runtime(const stk__classifier *c, size_t slice);
/* Categories that our recorder gives to ops and waits. */
bool stk__is_op(const stk__classifier *c, size_t slice);
bool stk__is_wait(const stk__classifier *c, size_t slice);

static inline bool stk__slice_is_instant(const stk__trace *t, size_t slice)
{
    return t->slices.flags[slice] & STK__SLICE_INSTANT;
}

/* For passes over many slices: --memory holds when it is called for each of them. */
static inline void stk__trim_at(const stk__trace *t, size_t slice)
{
    if ((slice & 0xfffff) == 0)
        stk__trace_trim(t);
}

/* b - a, at most INT64_MAX: times from files may lie further apart. */
static inline int64_t stk__time_between(int64_t a, int64_t b)
{
    if (b <= a)
        return 0;
    const uint64_t d = (uint64_t)b - (uint64_t)a;
    return d > INT64_MAX ? INT64_MAX : (int64_t)d;
}

#endif
