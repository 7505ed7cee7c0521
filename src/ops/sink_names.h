/* What sinks call the things they write: shards, samples, and their members; and numbers as text. */
#ifndef STK_OPS_SINK_NAMES_H
#define STK_OPS_SINK_NAMES_H

#include "base/str.h"
#include "engine/op.h"

/* INVALID unless a sink can write to a path of that name: a URL, or `~` that no shell has seen, would make
   odd directories, and a wildcard hide what patterns mean. */
stk_status stk__sink_path_check(const stk_host *host, const char *path, stk_error *err);
/* Whether the pattern is good for so many shards, and as stk__sink_path_check. */
stk_status stk__shard_path_check(const stk_host *host, const char *pattern, int64_t shards, stk_error *err);

/* "jpg", "png", "webp", "gif" or "bmp" by the first bytes; NULL for anything else. */
const char *stk__picture_extension(stk_bytes data);

/* The column of that name; the plan made sure that there is one. */
const stk_column *stk__batch_column(const stk_batch *batch, const char *name);

/*
 * Appends element `row` of a column: bytes as they are, numbers so that they read back the same. `field` may be of any type.
 */
void stk__text_element(stk__text *t, const stk_column *column, int64_t row);

/* INVALID unless it can be (part of) a file name: relative, nothing hidden, empty or ".." in it, no control characters. */
stk_status stk__check_name(const char *name, size_t size, const char *what, stk_error *err);

#endif
