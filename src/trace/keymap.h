/* A hash map from four words to a row number; for the tables that a builder fills. */
#ifndef STK_TRACE_KEYMAP_H
#define STK_TRACE_KEYMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct stk__key {
    uint64_t word[4]; /* those that are not used are 0 */
} stk__key;

typedef struct stk__keymap_entry {
    stk__key key;
    uint32_t value, used;
} stk__keymap_entry;

/* Zeroed is empty. */
typedef struct stk__keymap {
    stk__keymap_entry *entries;
    size_t count, capacity; /* a power of two */
} stk__keymap;

/*
 * The place of the key's value, made with `fallback` when it is new; NULL when memory is out. Valid until the next call. *out_new may not
 * be NULL.
 */
uint32_t *stk__keymap_place(stk__keymap *m, stk__key key, uint32_t fallback, bool *out_new);
/* The value, or `fallback`. */
uint32_t stk__keymap_find(const stk__keymap *m, stk__key key, uint32_t fallback);
void stk__keymap_clear(stk__keymap *m);

/* A smaller map for keys that can be told from the rows themselves: 8 bytes for an entry in place of 40. Zeroed is empty. */
typedef struct stk__rowmap {
    uint32_t (*entries)[2]; /* hash, row + 1; 0: free */
    size_t count, capacity;
} stk__rowmap;

/* The key of a row that is in the map. */
typedef stk__key (*stk__row_key)(const void *table, uint32_t row);

/*
 * The row with this key; a new key gets `next`, and *out_new is true: the caller must then make that row. False when memory is out.
 */
bool stk__rowmap_place(stk__rowmap *m, stk__key key, stk__row_key key_of, const void *table, uint32_t next,
                       uint32_t *out_row, bool *out_new);
/* The row with this key; UINT32_MAX: none. */
uint32_t stk__rowmap_find(const stk__rowmap *m, stk__key key, stk__row_key key_of, const void *table);
void stk__rowmap_clear(stk__rowmap *m);

#endif
