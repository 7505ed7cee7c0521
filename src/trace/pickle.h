/*
 * Python's pickle format, protocols 0 to 5, for plain data. Nothing is ever imported or called: what a pickle would make
 * by a call is an opaque value with the name of what it would have called.
 *
 * Containers are not kept. When one is whole (it becomes part of another, or its last batch of items came), the client is
 * shown its items once and says by a number what it made of them; that number stands for the container from then on,
 * wherever the pickle refers to it. So what is in memory is the unfinished part, the memo, and 16 bytes for each
 * container. The tables go to a temporary file past the memory cap of their store.
 */
#ifndef STK_TRACE_PICKLE_H
#define STK_TRACE_PICKLE_H

#include "base/str.h"
#include "trace/input.h"
#include "trace/store.h"

typedef enum stk__pickle_kind {
    STK__PICKLE_NONE,
    STK__PICKLE_BOOL,   /* integer: 0 or 1 */
    STK__PICKLE_INT,    /* integer */
    STK__PICKLE_UINT,   /* natural: from 2^63 to 2^64 - 1 */
    STK__PICKLE_BIG,    /* a whole number past 64 bits; real is near it */
    STK__PICKLE_FLOAT,  /* real */
    STK__PICKLE_TEXT,   /* text: the client's number of it */
    STK__PICKLE_BYTES,  /* natural: how many; they are stepped over */
    STK__PICKLE_OPAQUE, /* module and text: the class or function that would have been taken, or made it */
    STK__PICKLE_MADE,   /* made: what the client made of a container */
    /* Containers, which a client sees as `kind` of what it is to make something of. */
    STK__PICKLE_LIST,
    STK__PICKLE_TUPLE,
    STK__PICKLE_SET,
    STK__PICKLE_DICT, /* its items are key, value, key, value */
} stk__pickle_kind;

typedef struct stk__pickle_value {
    uint32_t kind; /* stk__pickle_kind */
    union {
        int64_t integer;
        uint64_t natural, made;
        double real;
        struct {
            uint32_t text, module; /* module: of OPAQUE, the client's number as well */
        };
        uint32_t object;
    } u;
} stk__pickle_value;

typedef struct stk__pickle_client {
    void *arg;
    /* The number of a text. Bytes are as the file has them, UTF-8 as a rule. */
    uint32_t (*text)(void *arg, const char *bytes, size_t size, int64_t offset);
    /* A whole container; containers in it are MADE. What is returned stands for it. */
    uint64_t (*make)(void *arg, stk__pickle_kind kind, const stk__pickle_value *items, size_t count, int64_t offset);
    /*
     * More items of a list that has none but those that the client took; true: it takes these as well and *made, 0 at
     * first, stands for the list. So that long lists need no memory here. May be NULL.
     */
    bool (*take)(void *arg, uint64_t *made, const stk__pickle_value *items, size_t count);
} stk__pickle_client;

typedef enum stk__pickle_state {
    STK__PICKLE_MORE, /* go on */
    STK__PICKLE_DONE, /* `result` is set */
    STK__PICKLE_CUT, /* the bytes end before the pickle does; `result` is what was there, with all that was open closed */
    STK__PICKLE_BAD,    /* `message` says why; `result` likewise */
    STK__PICKLE_FAILED, /* memory or the temporary file: see the store's error */
} stk__pickle_state;

/* A container: its items while it is open, then what stands for it. */
typedef struct stk__pickle_object {
    union {
        stk__pickle_value *items;
        uint64_t made;
    } u;
    uint32_t count;
    uint8_t kind;  /* stk__pickle_kind */
    uint8_t stage; /* in pickle.c */
    uint8_t room;  /* of items: 2^room, 0: none */
} stk__pickle_object;

typedef struct stk__pickle {
    stk__input *in;
    stk__store *store;
    stk__pickle_client client;
    const uint8_t *data; /* the window */
    size_t at, size;
    int64_t base; /* place of the window in the file */
    bool ended;   /* the window has the last bytes */
    stk__pickle_value *stack;
    size_t depth, stack_capacity;
    uint32_t *marks; /* depths of the stack */
    size_t mark_count, mark_capacity;
    stk__column memo; /* stk__pickle_value */
    size_t memo_count, puts;
    stk__column objects; /* stk__pickle_object */
    size_t object_count;
    size_t kept; /* items of open containers */
    stk__pickle_state state;
    stk__pickle_value result;
    uint64_t late;       /* items that came for containers after these had been used: they are lost */
    int64_t late_offset; /* of the first */
    stk__text scratch;
    char message[160];
} stk__pickle;

void stk__pickle_init(stk__pickle *m, stk__input *in, stk__store *store, const stk__pickle_client *client);
void stk__pickle_clear(stk__pickle *m);
/* Reads on for a while: about `operations` of them. */
stk__pickle_state stk__pickle_run(stk__pickle *m, size_t operations);
int64_t stk__pickle_offset(const stk__pickle *m);

#endif
