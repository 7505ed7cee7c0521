/* The two halves of stk__paths_glob: braces to names, and names with wildcards to files. */
#ifndef STK_BASE_EXPAND_H
#define STK_BASE_EXPAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/str.h"

/* A text of a few bytes is not to fill the memory by itself. */
#define STK__BRACE_NAMES_MAX 1000000
#define STK__WILD_NAMES_MAX 4000000
#define STK__NAMES_BYTES_MAX ((uint64_t)256 << 20)
#define STK__BRACE_DEPTH_MAX 100

/* ---- braces ---- */

/* A pattern whose braces have been read; it must outlive this. */
typedef struct stk__braces stk__braces;

/* INVALID when they stand for too many names, or too long ones: nothing of these has been made then. */
stk_status stk__braces_open(const char *pattern, stk__braces **out, stk_error *err);
void stk__braces_close(stk__braces *b);
uint64_t stk__braces_count(const stk__braces *b);
/* Name `i`, in the order in which they are written. Freed by stk__free; NULL: out of memory. */
char *stk__braces_name(const stk__braces *b, uint64_t i);

/* ---- wildcards ---- */

/* Whether a name matches `pattern` (to `end`, without '/'). Adds what it took to *steps: at most about their product. */
bool stk__wild_match(const char *pattern, const char *end, const char *name, uint64_t *steps);

/* What the expansion of one pattern has found and done so far. */
typedef struct stk__wild {
    stk__paths *paths;   /* found ones are appended */
    const char *pattern; /* as it was written, for messages */
    uint64_t names, bytes, work;
} stk__wild;

/* Appends what matches `name`, in any order, be it nothing. A directory that cannot be read would hide files: STK_IO. */
stk_status stk__wild_expand(stk__wild *w, const char *name, stk_error *err);

/* Writes the home directory that `name` begins with ("~", "~user"), when it does; *out_used bytes of it are done. */
stk_status stk__tilde_expand(const char *name, stk__text *path, size_t *out_used, stk_error *err);

#endif
