/* What is kept of an unfinished set at a checkpoint: how far each file was, and what its bytes were. */
#ifndef STK_FORMATS_SET_STATE_H
#define STK_FORMATS_SET_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/str.h"
#include "formats/manifest.h"

typedef struct stk__set_state_file {
    int64_t bytes;
    stk__file_digest digest;
} stk__set_state_file;

/* Zeroed: empty. Owns all it points to. */
typedef struct stk__set_state {
    char *pattern;
    int64_t rows;
    stk__set_state_file *files;
    size_t count;
    char *extra; /* of whoever writes the files */
    size_t extra_size;
} stk__set_state;

void stk__set_state_clear(stk__set_state *s);
void stk__set_state_print(const stk__set_state *s, stk__text *out);
/* Reads a text, which is untrusted and NUL-terminated. *out is overwritten; on failure it is empty. MISMATCH on nonsense. */
stk_status stk__set_state_parse(const char *text, size_t size, stk__set_state *out, stk_error *err);

#endif
