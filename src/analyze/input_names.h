/* What the names of spans and functions say about loading data: words that people use for it, and words against it. */
#ifndef STK_ANALYZE_INPUT_NAMES_H
#define STK_ANALYZE_INPUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum stk__name_says {
    STK__SAYS_NOTHING,
    STK__SAYS_INPUT, /* "get_batch", "Data fetch", "loader.next", "DS.__getitem__" */
    STK__SAYS_OTHER, /* "save_checkpoint", "compute_metrics", "log_batch" */
} stk__name_says;

/* The name of a function, or of a span that a user marked. Long texts and names of C++ ("aten::cat") say nothing. */
stk__name_says stk__name_says_of(const char *name, size_t size);

/* What a call does, by function and file: reads, unpacks, decodes, waits in a queue; or writes, prints, synchronizes. */
stk__name_says stk__call_says(const char *function, size_t function_size, const char *file, size_t file_size);

#endif
