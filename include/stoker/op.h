/*
 * How an op describes itself, for built-in ops and for plug-ins alike.
 *
 * A plug-in is a shared object with one function `const stk_op *const *stk_plugin_ops(uint32_t abi)` that returns a
 * NULL-terminated list, or NULL when it was built for another STK_OP_ABI. It needs no library to link against:
 * everything that it calls comes through the host table in its call. examples/op_negate.c is a whole one.
 *
 * What the engine promises: state is zeroed and options are checked and filled in before `schema`; `schema` of every op
 * runs before `open` of any; `close` runs once, even if `open` failed; `worker_open`, `process` and `worker_close` of one
 * call object never overlap; `process` runs in many threads at once, each with a call object of its own; state is
 * const between `open` and `close` unless the op locks it.
 */
#ifndef STOKER_OP_H
#define STOKER_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_OP_ABI 1

/* ---- arguments as the user wrote them ---- */

typedef enum stk_arg_kind {
    STK_ARG_INT,    /* 12 */
    STK_ARG_FLOAT,  /* 0.5 */
    STK_ARG_BOOL,   /* true */
    STK_ARG_STRING, /* "d/x.tfrecord" */
    STK_ARG_NAME,   /* image, int64, reflect */
    STK_ARG_TYPE,   /* float32[8], int64[], bytes(from="image/encoded") */
    STK_ARG_LIST    /* [1, 2, 3] */
} stk_arg_kind;

typedef struct stk_arg {
    stk_arg_kind kind;
    int line, column;
    bool boolean;
    int64_t integer;   /* INT */
    double number;     /* INT and FLOAT */
    const char *text;  /* STRING, NAME, and the name of a TYPE */
    const struct stk_arg *items; /* LIST: its items; TYPE: the dimensions, INT each, -1 for an open one */
    size_t item_count;
    bool has_dims; /* TYPE: brackets were written, be they empty */
    const struct stk_named_arg *mods; /* TYPE: what stands in the parentheses, names always set */
    size_t mod_count;
} stk_arg;

typedef struct stk_named_arg {
    const char *name; /* NULL: by position */
    int line, column;
    stk_arg value;
} stk_named_arg;

/* ---- options ---- */

typedef enum stk_option_kind {
    STK_OPTION_INT,     /* int64_t; a word of `choices`, where it has some, is -1 for the first, -2 for the second, ... */
    STK_OPTION_FLOAT,   /* double */
    STK_OPTION_BOOL,    /* bool */
    STK_OPTION_STRING,  /* const char * */
    STK_OPTION_ENUM,    /* int64_t: number in `choices` */
    STK_OPTION_SIZE,    /* int64_t: bytes, also written "256M" */
    STK_OPTION_STRINGS, /* stk_strings: one string, a list, or all further positions */
    STK_OPTION_NUMBERS, /* stk_numbers: one number or a list */
    STK_OPTION_FIELD,   /* const char *: name of a field */
    STK_OPTION_FIELDS,  /* stk_strings: names of fields: a list, or all further positions */
    STK_OPTION_ARGS     /* stk_args: every named argument that is no other option */
} stk_option_kind;

typedef struct stk_strings {
    const char *const *items;
    size_t count;
    bool listed; /* written as [...], be it with one item */
} stk_strings;

typedef struct stk_numbers {
    const double *items;
    size_t count;
} stk_numbers;

typedef struct stk_args {
    const stk_named_arg *items;
    size_t count;
} stk_args;

/* One row of an option table. Rows stand in the order of positions. The table ends with STK_OPTION_END. */
typedef struct stk_option {
    const char *name;
    stk_option_kind kind;
    bool required;
    size_t offset; /* of the field in the op's state */
    struct {
        int64_t integer;
        double number;
        const char *text;
    } fallback;
    int64_t min, max;           /* INT and SIZE */
    double min_number, max_number; /* FLOAT */
    const char *const *choices; /* ENUM, NULL-terminated */
    const char *help;
    const char *named; /* it goes by name only, and this says why; NULL: also by position */
} stk_option;

/* The offset of field f of T, and a compile error when it is not of `type`. */
#define STK_FIELD_OFFSET(T, f, type) _Generic(((T *)0)->f, type : offsetof(T, f))

#define STK_INT(T, f, value, low, high, text)                                                              \
    {.name = #f, .kind = STK_OPTION_INT, .offset = STK_FIELD_OFFSET(T, f, int64_t), .fallback = {.integer = (value)}, \
     .min = (low), .max = (high), .help = (text)}
#define STK_INT_REQUIRED(T, f, low, high, text)                                                             \
    {.name = #f, .kind = STK_OPTION_INT, .required = true, .offset = STK_FIELD_OFFSET(T, f, int64_t),         \
     .min = (low), .max = (high), .help = (text)}
#define STK_SIZE(T, f, value, low, high, text)                                                              \
    {.name = #f, .kind = STK_OPTION_SIZE, .offset = STK_FIELD_OFFSET(T, f, int64_t), .fallback = {.integer = (value)}, \
     .min = (low), .max = (high), .help = (text)}
#define STK_NUMBER(T, f, value, low, high, text)                                                            \
    {.name = #f, .kind = STK_OPTION_FLOAT, .offset = STK_FIELD_OFFSET(T, f, double), .fallback = {.number = (value)}, \
     .min_number = (low), .max_number = (high), .help = (text)}
#define STK_BOOL_OPTION(T, f, value, text)                                                                  \
    {.name = #f, .kind = STK_OPTION_BOOL, .offset = STK_FIELD_OFFSET(T, f, bool), .fallback = {.integer = (value)},  \
     .help = (text)}
#define STK_STRING(T, f, value, about)                                                                      \
    {.name = #f, .kind = STK_OPTION_STRING, .offset = STK_FIELD_OFFSET(T, f, const char *),                   \
     .fallback = {.text = (value)}, .help = (about)}
#define STK_STRING_REQUIRED(T, f, text)                                                                     \
    {.name = #f, .kind = STK_OPTION_STRING, .required = true, .offset = STK_FIELD_OFFSET(T, f, const char *), .help = (text)}
#define STK_ENUM(T, f, value, names, text)                                                                  \
    {.name = #f, .kind = STK_OPTION_ENUM, .offset = STK_FIELD_OFFSET(T, f, int64_t), .fallback = {.integer = (value)}, \
     .choices = (names), .help = (text)}
#define STK_STRINGS_REQUIRED(T, f, text)                                                                    \
    {.name = #f, .kind = STK_OPTION_STRINGS, .required = true, .offset = STK_FIELD_OFFSET(T, f, stk_strings), .help = (text)}
#define STK_NUMBERS(T, f, text)                                                                             \
    {.name = #f, .kind = STK_OPTION_NUMBERS, .offset = STK_FIELD_OFFSET(T, f, stk_numbers), .help = (text)}
#define STK_FIELD(T, f, text)                                                                               \
    {.name = #f, .kind = STK_OPTION_FIELD, .required = true, .offset = STK_FIELD_OFFSET(T, f, const char *), .help = (text)}
#define STK_FIELDS(T, f, text)                                                                              \
    {.name = #f, .kind = STK_OPTION_FIELDS, .required = true, .offset = STK_FIELD_OFFSET(T, f, stk_strings), .help = (text)}
#define STK_ARGS(T, f, text)                                                                                \
    {.name = #f, .kind = STK_OPTION_ARGS, .required = true, .offset = STK_FIELD_OFFSET(T, f, stk_args), .help = (text)}
#define STK_OPTION_END {.name = NULL}

/* ---- what an op plans with ---- */

/* A named tensor of a sample. Dimensions that vary from sample to sample are -1. */
typedef struct stk_field {
    const char *name;
    stk_dtype dtype;
    int32_t ndim;
    int64_t shape[STK_MAX_DIMS];
} stk_field;

/* The value of a field in one sample. STK_BYTES: data is an array of stk_bytes. */
typedef struct stk_value {
    void *data;
    int64_t elements;
    int64_t shape[STK_MAX_DIMS];
} stk_value;

/* Where a sample came from; goes into every error about it. Unknown: NULL and -1. */
typedef struct stk_origin {
    const char *file;
    int64_t offset, record, size_bytes;
} stk_origin;

typedef struct stk_sample {
    stk_value *values; /* by field number */
    int64_t row;       /* place among the rows of the work unit */
    int64_t index;     /* number in the order of the source */
    int64_t epoch;
    stk_origin origin; /* filled by the source */
    void *impl;        /* the engine's */
} stk_sample;

typedef struct stk_plan stk_plan; /* the engine's view of an op while planning */

/* Where the values of a field go that lie in the batch at once: rows of equal size. `rows` NULL: they do not. */
typedef struct stk_slot {
    char *rows;
    size_t row_bytes;
    bool unread; /* nothing reads the value again before the batch is handed over */
} stk_slot;

/* The run of one op in one worker. */
typedef struct stk_call {
    const struct stk_host *host;
    void *state;
    void *worker; /* what worker_open made */
    void *impl;   /* the engine's */
    const stk_slot *slots; /* by field number; only while running */
} stk_call;

/* What `open` may want to know. Strings live as long as the pipeline. */
typedef struct stk_open_info {
    int threads;
    int64_t rank, world;   /* of this process; 0 and 1 when it is alone */
    const char *cache_dir; /* for indexes; NULL: keep none */
    int64_t memory_bytes;  /* the whole budget */
    uint64_t seed;
    bool exact;            /* nothing may be approximated */
    bool repeats;          /* samples are visited more than once */
    bool checkpoints;      /* sinks: `save` will be called, and what was written is to outlive a run that does not end well */
    bool resumes;          /* sinks: `restore` comes before the first batch; what was written lies there already */
    bool cache_file;       /* `stamp` guards a cache file */
} stk_open_info;

/* Functions of the engine. Use the stk_... wrappers below. */
typedef struct stk_host {
    size_t struct_size;
    /* while planning */
    stk_status (*plan_read)(stk_plan *plan, const char *name, int *out_id, stk_field *out_field, stk_error *err);
    stk_status (*plan_write)(stk_plan *plan, const stk_field *field, int *out_id, stk_error *err);
    stk_status (*plan_remove)(stk_plan *plan, const char *name, stk_error *err);
    stk_status (*plan_rename)(stk_plan *plan, const char *from, const char *to, stk_error *err);
    int (*plan_field_count)(const stk_plan *plan);
    void (*plan_field)(const stk_plan *plan, int i, stk_field *out);
    /* while opening */
    const stk_open_info *(*open_info)(const stk_call *call);
    bool (*needed)(const stk_call *call, int id);
    bool (*progress)(const stk_call *call, const char *what, int64_t done, int64_t total);
    /* while running */
    void *(*out)(const stk_call *call, stk_sample *sample, int id, const int64_t *shape, stk_error *err);
    void *(*bytes_block)(const stk_call *call, int id, size_t size, stk_error *err);
    void (*set_bytes)(const stk_call *call, stk_sample *sample, int id, const void *data, int64_t size, bool in_block);
    void *(*scratch)(const stk_call *call, size_t size, stk_error *err);
    void (*random)(const stk_call *call, const stk_sample *sample, uint32_t block, uint32_t out[4]);
    void (*count_read)(const stk_call *call, int64_t bytes);
    void (*waited)(const stk_call *call, const char *what, int64_t since_ns);
    void *(*alloc)(const stk_call *call, size_t size, stk_error *err);
    void (*free)(const stk_call *call, void *p, size_t size);
    stk_status (*print)(const stk_call *call, const char *text, size_t size, stk_error *err);
    stk_status (*fail)(stk_error *err, stk_status status, const char *format, ...) STK_PRINTF(3, 4);
    /* Sources, while running: the number of the sample that comes `ahead` samples behind the work at hand; false: none does. */
    bool (*peek)(const stk_call *call, int64_t ahead, int64_t *out_index);
    /* What a source knows of its fields beyond their types, from its `schema` to the ops behind it; built-in ops only. */
    void (*plan_describe)(stk_plan *plan, const void *description);
    const void *(*plan_description)(const stk_plan *plan);
    /* While planning: the numbers of a field that was read or written name classes, so no op may mix them. */
    void (*plan_set_classes)(stk_plan *plan, int id);
    bool (*plan_has_classes)(const stk_plan *plan, int id);
    /* While running, any thread: a line for the log of the run. Who calls it sees to it that it is not told too often. */
    void (*warn)(const stk_call *call, const char *text);
    /* Memory that the op, or a library that it calls, takes by itself: charged before, returned after. Any thread. */
    stk_status (*charge)(const stk_call *call, size_t size, stk_error *err);
    void (*give_back)(const stk_call *call, size_t size);
    /* Streams, from `pull` and `ahead` alone: the same, but waits for the others to give memory back. Who holds a lock, or work that
       `pull` may wait for, must see to it that `pull` says so: between pause and resume it counts as idle. */
    stk_status (*charge_patiently)(const stk_call *call, size_t size, stk_error *err);
    void *(*alloc_patiently)(const stk_call *call, size_t size, stk_error *err);
    void (*pause)(const stk_call *call);
    void (*resume)(const stk_call *call);
    /* The message of a STK_BUDGET that an op got and whose size it knows: `what` takes `size` bytes, `kept` of which stay in the batch. */
    stk_status (*no_room)(const stk_call *call, const char *what, uint64_t size, uint64_t kept, stk_error *err);
} stk_host;

/* ---- the descriptor ---- */

typedef enum stk_role {
    STK_ROLE_SAMPLE, /* works on one sample at a time */
    STK_ROLE_SOURCE, /* first op: makes samples */
    STK_ROLE_SINK,   /* last op: takes batches in order */
    STK_ROLE_ORDER,  /* says which sample comes when; built-in only */
    STK_ROLE_BATCH,  /* built-in only, like all that follow */
    STK_ROLE_CACHE,
    STK_ROLE_PREFETCH,
    STK_ROLE_ROWS    /* works on the rows of finished batches; comes after `batch` */
} stk_role;

enum {
    STK_OP_RANDOM = 1,      /* draws random numbers */
    STK_OP_DROPS = 2,       /* may return STK_DROP */
    STK_OP_ELEMENTWISE = 4, /* gives the same on a stacked batch, so it may be written after `batch` */
    STK_OP_LOOKS_LONG = 8   /* `fingerprint` and `stamp` take long, so they are asked only where somebody wants them */
};

typedef struct stk_op {
    uint32_t abi;    /* STK_OP_ABI */
    const char *name;
    const char *group; /* source, order, fields, sink, ... */
    const char *since;
    const char *summary; /* one sentence */
    const char *example; /* a pipeline that uses it; may be NULL */
    const stk_option *options;
    size_t state_size;
    stk_role role;
    uint32_t flags;

    /* Tells which fields are read, made and removed. NULL: none. No sample may be touched
       yet; a source may look at what its files say of themselves. */
    stk_status (*schema)(stk_plan *plan, const stk_host *host, void *state, stk_error *err);
    /* Opens files, builds tables. Optional. */
    stk_status (*open)(const stk_call *call, stk_error *err);
    /* Optional. */
    void (*close)(void *state);
    /* Makes and frees what one worker needs; optional. */
    stk_status (*worker_open)(const stk_call *call, void **out_worker, stk_error *err);
    void (*worker_close)(const stk_call *call);
    /* One sample: reads values, writes values through stk_out. STK_DROP leaves the sample out. */
    stk_status (*process)(const stk_call *call, stk_sample *sample, stk_error *err);

    /* Sources. An indexable one knows its count; a stream has -1 and is pulled from front to back. */
    int64_t (*count)(const stk_call *call);
    /* Optional, sources and sample ops: sees n samples together, then `process` sees them one by one in the same order, in the
       same worker (sources: reads for them; index is set). What is wrong with one sample belongs in process; a failure here
       ends the run. */
    stk_status (*gather)(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err);
    /* Streams: start an epoch; the next sample. CORRUPT, UNFIT or IO from pull: this record is bad, pull again for the next (or
       END, in the end); any other failure ends the run. One thread at a time. The values live until the next pull. */
    stk_status (*rewind)(const stk_call *call, stk_error *err);
    stk_status (*pull)(const stk_call *call, stk_sample *sample, stk_error *err);
    /* Optional: does a piece of work that pull, or gather, would have to do later (decompressing, say); called when there is
       nothing else to do. Any number of threads, also while pull runs. END: there is nothing to do now. Failures belong in pull and
       gather. */
    stk_status (*ahead)(const stk_call *call);
    /* Optional: files or other groups, in order. group_first(count) is the number of samples. Streams: cycle over groups. */
    int64_t (*group_count)(const stk_call *call);
    int64_t (*group_first)(const stk_call *call, int64_t group);
    void (*set_interleave)(const stk_call *call, int64_t cycle, int64_t block);
    /* Optional: samples that are cheap to read together (a compressed chunk), in order. block_first(count) is the number of samples;
       block_bytes: what one takes in memory, about; block_room: how much there is for all of them. */
    int64_t (*block_count)(const stk_call *call);
    int64_t (*block_first)(const stk_call *call, int64_t block);
    int64_t (*block_bytes)(const stk_call *call);
    int64_t (*block_room)(const stk_call *call);
    /* Optional: bytes that it holds for the whole run (an index, say); they count towards the budget. */
    int64_t (*memory)(const stk_call *call);
    /* Optional: a number that changes when the data does (names, sizes, contents), but not when files are moved or touched; guards
       checkpoints and caches. Any time between open and close, one thread at a time together with `stamp`. */
    uint64_t (*fingerprint)(const stk_call *call);
    /* Optional: stretches of input that hold no readable record, found while indexing. False past the last. */
    bool (*damage)(const stk_call *call, size_t i, stk_error *out, int64_t *out_bytes);

    /* Sinks: batches in order, from one thread; finish after the last one, not after a failure. */
    stk_status (*consume)(const stk_call *call, const stk_batch *batch, stk_error *err);
    stk_status (*finish)(const stk_call *call, stk_error *err);

    /* Built-in order ops only, else NULL. */
    const struct stk__order *order;
    /* Built-in ops that can run as one with their neighbours, else NULL. */
    const struct stk__fuse *fuse;
    /* STK_ROLE_ROWS: changes the columns of a finished batch in place. `at` has the batch's number, for random numbers. */
    stk_status (*process_rows)(const stk_call *call, const stk_batch *batch, const stk_sample *at, stk_error *err);
    /* Optional: what traces, plans and statistics call this one in place of `name`; asked after `schema`, lives as long as the state. */
    const char *(*label)(const void *state);
    /* Optional, sources: what label i stands for, the name of a class; NULL past the last. Lives until close. */
    const char *(*class_name)(const stk_call *call, int64_t i);
    /* Optional, sinks that can go on after a stop. save: all that was consumed is on the disk, and `out`, of `size` bytes, gets a line
       of text that tells `restore`, in another process, where that is; it goes into the checkpoint. A sink with finish and without
       these is refused where checkpoints are made. */
    stk_status (*save)(const stk_call *call, char *out, size_t size, stk_error *err);
    stk_status (*restore)(const stk_call *call, const char *text, stk_error *err);
    /* Optional: a number that changes when anything it reads was written to or touched (times, and what `fingerprint` does not
       see); guards cache files, which only cost time to make anew. *newest_ns: raised to the last change of a file, in ns since
       1970. */
    uint64_t (*stamp)(const stk_call *call, int64_t *newest_ns);
    /* Optional: frees what one worker keeps from sample to sample and can make anew. Called when memory is short, while that worker
       is in no op; perhaps by another thread. A sample whose ops found no memory comes again afterwards, from its source on. */
    void (*trim)(const stk_call *call);
} stk_op;

typedef const stk_op *const *(*stk_plugin_function)(uint32_t abi);
STK_API const stk_op *const *stk_plugin_ops(uint32_t abi);

/* ---- wrappers that read better ---- */

/* The memory for the value of field `id`: in the batch itself where it can be, else scratch. `shape` may be NULL when the
   field's shape is fixed. NULL when memory is out, with err set. */
static inline void *stk_out(const stk_call *call, stk_sample *sample, int id, const int64_t *shape, stk_error *err)
{
    const stk_slot *slot = &call->slots[id];
    /* A field of fixed shape: its shape stands in the value already. */
    if (slot->rows && !shape) {
        char *out = slot->rows + (size_t)sample->row * slot->row_bytes;
        if (!slot->unread)
            sample->values[id].data = out;
        return out;
    }
    return call->host->out(call, sample, id, shape, err);
}

/* Memory for the contents of scalar STK_BYTES values of field `id`, placed so that they need no copy into the batch. One
   block may hold the contents of many samples, with gaps between them. NULL when memory is out, with err set. */
static inline void *stk_bytes_block(const stk_call *call, int id, size_t size, stk_error *err)
{
    return call->host->bytes_block(call, id, size, err);
}

/* Sets a scalar STK_BYTES value to a view. `in_block`: data lies in a block of stk_bytes_block of the same field, or of
   another one when the slots of both have rows; else it must live as long as scratch does and is copied where needed. */
static inline void stk_set_bytes(const stk_call *call, stk_sample *sample, int id, const void *data, int64_t size, bool in_block)
{
    call->host->set_bytes(call, sample, id, data, size, in_block);
}

/* Memory that lives as long as the values of the samples being worked on. */
static inline void *stk_scratch(const stk_call *call, size_t size, stk_error *err)
{
    return call->host->scratch(call, size, err);
}

/* Memory for longer than one sample, from open to close; it counts towards the budget. NULL with err set when there is none
   left. Any thread. Freeing NULL is fine. */
static inline void *stk_budget_alloc(const stk_call *call, size_t size, stk_error *err)
{
    return call->host->alloc(call, size, err);
}

static inline void stk_budget_free(const stk_call *call, void *p, size_t size)
{
    call->host->free(call, p, size);
}

/* For memory that comes from elsewhere, a library's say: it counts towards the budget until it is returned. STK_BUDGET when there is
   too little left; the op returns that as it is, and the sample comes again when there is room. Any thread. */
static inline stk_status stk_budget_charge(const stk_call *call, size_t size, stk_error *err)
{
    return call->host->charge(call, size, err);
}

static inline void stk_budget_return(const stk_call *call, size_t size)
{
    call->host->give_back(call, size);
}

/* Whether anything later uses field `id`; ops need not make those that nothing uses. */
static inline bool stk_needed(const stk_call *call, int id)
{
    return call->host->needed(call, id);
}

/* Random numbers that depend on seed, epoch, sample and op alone. */
typedef struct stk_random {
    const stk_call *call;
    const stk_sample *sample;
    uint32_t block, left, words[4];
} stk_random;

static inline stk_random stk_random_begin(const stk_call *call, const stk_sample *sample)
{
    stk_random r = {call, sample, 0, 0, {0, 0, 0, 0}};
    return r;
}

static inline uint32_t stk_random_u32(stk_random *r)
{
    if (r->left == 0) {
        r->call->host->random(r->call, r->sample, r->block++, r->words);
        r->left = 4;
    }
    return r->words[--r->left];
}

/* In [0, 1). */
static inline float stk_random_float(stk_random *r)
{
    return (float)(stk_random_u32(r) >> 8) * (1.0f / 16777216.0f);
}

#ifdef __cplusplus
}
#endif
#endif
