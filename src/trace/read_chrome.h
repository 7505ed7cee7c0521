/*
 * The inside of the Chrome JSON reader. One event is parsed into stk__chrome_event, by a strict and fast parser or, when that one does
 * not like what it sees, again from its start by a tolerant one; then it is told to the builder.
 */
#ifndef STK_TRACE_READ_CHROME_H
#define STK_TRACE_READ_CHROME_H

#include "trace/json_lex.h"
#include "trace/keymap.h"
#include "trace/reader.h"

typedef enum stk__chrome_kind {
    STK__CHROME_NONE,
    STK__CHROME_NULL,
    STK__CHROME_TRUE,
    STK__CHROME_FALSE,
    STK__CHROME_NUMBER,
    STK__CHROME_STRING,
    STK__CHROME_JSON, /* an array or object, as compact JSON */
    STK__CHROME_WORD, /* NaN, N/A, ... */
} stk__chrome_kind;

typedef struct stk__chrome_value {
    const char *text;        /* NUMBER, WORD: as written; STRING: decoded */
    stk__json_number number; /* NUMBER */
    uint32_t size;           /* of text */
    uint8_t kind;            /* stk__chrome_kind */
    bool integer;            /* NUMBER: digits alone, with or without a sign */
} stk__chrome_value;

/* Keys of an event that mean something; the others join its args. */
#define STK__CHROME_FIELDS(X) \
    X(PH, "ph")               \
    X(NAME, "name")           \
    X(CAT, "cat")             \
    X(PID, "pid")             \
    X(TID, "tid")             \
    X(TS, "ts")               \
    X(DUR, "dur")             \
    X(ARGS, "args")           \
    X(ID, "id")               \
    X(ID2, "id2")             \
    X(SCOPE, "scope")         \
    X(S, "s")                 \
    X(BP, "bp")               \
    X(BIND_ID, "bind_id")     \
    X(FLOW_IN, "flow_in")     \
    X(FLOW_OUT, "flow_out")   \
    X(TTS, "tts")             \
    X(TDUR, "tdur")           \
    X(SF, "sf")               \
    X(STACK, "stack")

typedef enum stk__chrome_field {
#define STK__CHROME_ENUM(name, text) STK__CHROME_##name,
    STK__CHROME_FIELDS(STK__CHROME_ENUM)
#undef STK__CHROME_ENUM
        STK__CHROME_LOCAL, /* id2.local */
    STK__CHROME_GLOBAL,    /* id2.global */
    STK__CHROME_FIELD_COUNT
} stk__chrome_field;

typedef struct stk__chrome_arg {
    stk__chrome_value value;
    const char *key;
    uint32_t key_size;
    stk__string key_string; /* 0: not interned yet */
    bool outer;             /* stood beside "args", not in it */
} stk__chrome_arg;

typedef struct stk__chrome_event {
    int64_t offset;
    uint32_t seen; /* bit per field; the values of others are left from before */
    stk__chrome_value fields[STK__CHROME_FIELD_COUNT];
    stk__chrome_arg *args;
    size_t arg_count, arg_capacity;
} stk__chrome_event;

/* An id of a process or thread: a number, or a text. */
typedef struct stk__chrome_id {
    int64_t number;
    stk__string text;
} stk__chrome_id;

/* Where events of one pid and tid go. */
typedef struct stk__chrome_place {
    stk__chrome_id pid, tid;
    uint32_t process, thread, track;
    bool used;
} stk__chrome_place;

/* Tracks of the slices that are open in a thread of py-spy's, outermost first. */
typedef struct stk__chrome_sampled {
    uint32_t *tracks;
    size_t count, capacity;
} stk__chrome_sampled;

/* A key of args, and the one that came behind it last time. */
typedef struct stk__chrome_key {
    char text[56]; /* with the closing quote */
    uint32_t size; /* without it */
    stk__string string;
    uint32_t next; /* number of the key that followed; 0: none yet */
} stk__chrome_key;

/* A string that was interned: where its bytes lay in the builder may change, so there is a copy of short ones. */
typedef struct stk__chrome_string {
    char text[56];
    uint32_t size;
    stk__string string;
} stk__chrome_string;

enum {
    STK__CHROME_PLACES = 64,
    STK__CHROME_KEYS = 256,
    STK__CHROME_STRINGS = 4096,
    STK__CHROME_COUNTERS = 256,
    STK__CHROME_SCRATCH = 32 << 10,
    STK__CHROME_FACTS_MAX = 4096,
};

typedef struct stk__chrome_counter {
    stk__string name, series, id;
    uint32_t process, track;
    bool used;
} stk__chrome_counter;

/* "stackFrames": a tree of frames by id; and the samples that refer to it, which may come before it. */
typedef struct stk__chrome_frame {
    stk__string id, parent, name, category, file;
    int32_t line;
    uint32_t callsite, state;
} stk__chrome_frame;

typedef struct stk__chrome_sample {
    stk__chrome_id tid;
    uint32_t track;    /* STK__NONE: found by tid at the end */
    uint32_t frame_of; /* its callsite, when sf is 0 */
    stk__string sf, event;
    int64_t ts, weight, offset;
    stk__unit unit; /* of the weight; not standard, but the writer says it where it is not samples */
} stk__chrome_sample;

typedef struct stk__chrome_stacks {
    stk__keymap ids;
    stk__chrome_frame *frames;
    size_t frame_count, frame_capacity;
    stk__chrome_sample *samples;
    size_t sample_count, sample_capacity;
} stk__chrome_stacks;

typedef struct stk__chrome {
    stk__builder *b;
    stk__input *in;
    stk_status status; /* the first failure */
    stk_error error;

    /* the window */
    const uint8_t *p, *end, *window;
    int64_t window_offset;
    bool held, last;
    bool cut; /* that the file is cut off has been noted */

    stk__lexer lexer;
    stk__chrome_event event;
    uint64_t saw;        /* events not yet told to the builder */
    uint64_t rescan;     /* bytes that may be read a second time after broken events */
    unsigned containers; /* open ones */
    size_t facts;

    /* of all times */
    bool timed, below_us;

    /* caches */
    stk__chrome_place places[STK__CHROME_PLACES];
    stk__chrome_key *keys; /* STK__CHROME_KEYS; 0 is the start of args */
    uint32_t last_key;
    stk__chrome_string *strings; /* STK__CHROME_STRINGS */
    stk__chrome_counter counters[STK__CHROME_COUNTERS];
    char *scratch; /* STK__CHROME_SCRATCH: compact JSON made by the fast parser */
    size_t scratch_used;
    stk__text text;

    uint32_t process_rows, thread_rows; /* of this file, so far */
    uint32_t first_process;             /* rows before this one are of other files */
    bool repeats, merged;               /* names of processes are given again; the file says that it holds several */
    stk__keymap async_process;          /* process of an id that holds in the whole file: that of its first event */
    stk__keymap tids;                   /* first thread of a tid */
    stk__chrome_sampled *sampled;       /* threads that py-spy saw, and their rows by tid */
    size_t sampled_count, sampled_capacity;
    stk__keymap sampled_rows;
    stk__chrome_stacks stacks;
} stk__chrome;

typedef enum stk__chrome_result {
    STK__CHROME_OK,
    STK__CHROME_MORE,
    STK__CHROME_BAD,
    STK__CHROME_CONTAINER, /* no event: the object that holds them */
} stk__chrome_result;

static inline const stk__chrome_value *stk__chrome_get(const stk__chrome_event *e, stk__chrome_field field)
{
    static const stk__chrome_value none;
    return e->seen >> field & 1 ? &e->fields[field] : &none;
}

static inline bool stk__chrome_is(const stk__chrome_value *v, const char *text, size_t size)
{
    return v->kind == STK__CHROME_STRING && v->size == size && memcmp(v->text, text, size) == 0;
}

/* NULL when memory is out. */
stk__chrome *stk__chrome_new(stk__builder *b, stk__input *in, stk_error *err);
void stk__chrome_free(stk__chrome *r);
void stk__chrome_nomem(stk__chrome *r, size_t size);

/* read_chrome_event.c: the object at p, tolerant. `*out_end`: behind it, or where it is broken. `outermost`: not in an array. */
stk__chrome_result stk__chrome_parse(stk__chrome *r, const uint8_t *p, bool outermost, const uint8_t **out_end);
stk__chrome_arg *stk__chrome_add_arg(stk__chrome *r);
/* The field of a key, or -1. */
int stk__chrome_field_of(const char *key, size_t size);
/* Whether a key says that its object is the one around the events. */
bool stk__chrome_container_key(const char *key, size_t size);

/* read_chrome_fast.c: the same for what is strictly JSON and whole in the window; NULL: cannot tell. */
const uint8_t *stk__chrome_parse_fast(stk__chrome *r, const uint8_t *p, const uint8_t *end);

/* read_chrome_emit.c: tells the builder about the event. */
void stk__chrome_emit(stk__chrome *r);

/* read_chrome_values.c */
void stk__chrome_note(stk__chrome *r, stk__trace_reason reason);
stk__string stk__chrome_intern(stk__chrome *r, const char *text, size_t size);
stk__string stk__chrome_text(stk__chrome *r, const stk__chrome_value *v);
/* A number, also one in a string. */
bool stk__chrome_number(const stk__chrome_value *v, stk__json_number *out);
/* Microseconds as ns. */
bool stk__chrome_time(stk__chrome *r, const stk__chrome_value *v, int64_t *out);
const stk__chrome_place *stk__chrome_find_place(stk__chrome *r);
uint32_t stk__chrome_find_process(stk__chrome *r);
/* Without a track of its own, if it has none: metadata alone makes none. */
uint32_t stk__chrome_find_thread(stk__chrome *r);
/* Gives the args to the builder. */
void stk__chrome_put_args(stk__chrome *r);
/* A field that has no meaning for its phase is kept as an arg. */
void stk__chrome_put_field(stk__chrome *r, stk__chrome_field field, const char *key);

/* read_chrome_meta.c: what is no event. */
void stk__chrome_metadata(stk__chrome *r);
/* One value of the outer object, behind its key, becomes facts. */
void stk__chrome_fact(stk__chrome *r, stk__json *j);
/* At the end of the file: a fact for what its processes show it to be. */
void stk__chrome_timeline(stk__chrome *r);

/* read_chrome_stacks.c */
void stk__chrome_sample_event(stk__chrome *r, int64_t ts, const stk__chrome_place *place);
void stk__chrome_stack_frames(stk__chrome *r, stk__json *j);
void stk__chrome_samples(stk__chrome *r, stk__json *j);
/* Joins samples and frames, at the end of the file. */
void stk__chrome_stacks_finish(stk__chrome *r);
void stk__chrome_stacks_clear(stk__chrome_stacks *s);

#endif
