/* A reader of TOML 1.0, into a tree. Debian has no C library for it. */
#ifndef STK_BENCH_TOML_H
#define STK_BENCH_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef enum stk__toml_kind {
    STK__TOML_TABLE,
    STK__TOML_ARRAY,
    STK__TOML_STRING,
    STK__TOML_INTEGER,
    STK__TOML_FLOAT,
    STK__TOML_BOOLEAN,
    STK__TOML_DATE /* date, time or both: `text` as it stands */
} stk__toml_kind;

typedef struct stk__toml stk__toml;
struct stk__toml {
    stk__toml_kind kind;
    char *key;  /* in a table */
    char *text; /* NUL-terminated; a string may hold further NULs */
    size_t text_size;
    int64_t integer;
    double number;
    bool boolean;
    stk__toml *items; /* of a table or an array, in the order of the file */
    size_t count, capacity;
    int line, column;            /* where it stands, from 1 */
    unsigned flags, section, id; /* the reader's own */
};

/* The longest text, the deepest nesting of tables and arrays, the most values. */
enum { STK__TOML_BYTES = 16 << 20, STK__TOML_DEPTH = 64, STK__TOML_VALUES = 200000 };

/*
 * Text is untrusted; the time is linear in its size. Errors (INVALID) tell line, column, found and wanted. Not taken,
 * though TOML allows it: a key with NUL in it, and what is past the limits above. Line ends within strings become "\n".
 * Free with stk__toml_free.
 */
stk_status stk__toml_parse(const char *text, size_t size, const char *file, stk__toml **out, stk_error *err);
void stk__toml_free(stk__toml *root);
/* The value of a key, or NULL; looks at one item after the other. */
const stk__toml *stk__toml_get(const stk__toml *table, const char *key);

#endif
