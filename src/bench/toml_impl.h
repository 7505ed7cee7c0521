/* What the files of the TOML reader share: the text, the place in it, messages. */
#ifndef STK_BENCH_TOML_IMPL_H
#define STK_BENCH_TOML_IMPL_H

#include "base/str.h"
#include "bench/toml.h"

/* A place and its line and column; moving on from it costs no more than the way. */
typedef struct stk__toml_place {
    size_t at;
    int line, column;
} stk__toml_place;

/* Where a key of a table stands among its items; key is NULL in a free slot. */
typedef struct stk__toml_slot {
    const char *key;
    uint64_t hash;
    uint32_t table, item;
} stk__toml_slot;

typedef struct stk__toml_reader {
    const char *text; /* valid UTF-8; its only control characters are tabs and line ends (LF, CR LF) */
    size_t size, at;
    const char *file;
    stk_error *err;
    stk__toml_place mark;
    stk__text key, scratch; /* the key at hand; a string or number while it is read */
    size_t values;
    unsigned tables, sections; /* numbers given so far */
    /* All keys of all tables, by hash; the number of slots is a power of two. */
    stk__toml_slot *slots;
    size_t slot_count, slots_used;
    uint64_t seed;
} stk__toml_reader;

/* The byte at `at` + ahead; -1 past the end. */
static inline int stk__toml_peek(const stk__toml_reader *r, size_t ahead)
{
    return r->size - r->at > ahead ? (unsigned char)r->text[r->at + ahead] : -1;
}

/* Length of the line end at `at` + ahead: 0 (none), 1 or 2. */
static inline size_t stk__toml_line_end(const stk__toml_reader *r, size_t ahead)
{
    const int c = stk__toml_peek(r, ahead);
    return c == '\n' ? 1 : c == '\r' ? 2 : 0;
}

/* INVALID with the line and column of byte `at`. */
stk_status stk__toml_fail(stk__toml_reader *r, size_t at, const char *format, ...) STK_PRINTF(3, 4);

/* What stands at `at`, for messages: a word in quotes, "the end of the line", "the end of the file". */
typedef struct stk__toml_found {
    char text[64];
} stk__toml_found;
stk__toml_found stk__toml_found_at(const stk__toml_reader *r, size_t at);

/* A string in quotes, at its first one, into `out`; with `lines`, also the kinds in three quotes. */
stk_status stk__toml_read_string(stk__toml_reader *r, bool lines, stk__text *out);
/* A string, number, date or boolean into a node that is empty but for its place. */
stk_status stk__toml_read_scalar(stk__toml_reader *r, stk__toml *out);

#endif
