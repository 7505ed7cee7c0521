/* Names of the files of a set: "part-%05d-of-%05d" has the number of the file, then how many there are. */
#ifndef STK_FORMATS_SHARD_NAMES_H
#define STK_FORMATS_SHARD_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Appends the name of one file. False on anything but %d, %05d and %% after a percent sign, and on a third number. */
bool stk__shard_format(stk__text *t, const char *pattern, int64_t shard, int64_t shards, int *out_numbers);
/* The same for a pattern that has been checked. */
void stk__shard_path(stk__text *t, const char *pattern, int64_t shard, int64_t shards);
/* Whether a name is one that the pattern can give, for some numbers. *out_number (may be NULL): the first of them, else 0. */
bool stk__shard_fits(const char *pattern, const char *name, int64_t *out_number);

/* The last part of a path or pattern, behind its last slash. */
const char *stk__base_name(const char *path);

/*
 * Appends what a set is called: the pattern without its numbers and what joins them. "out/part-%05d" is out/part,
 * "out/x-%03d.tar" is out/x.tar, "out/%d" is out/data, and "out/a.tfrecord", which has no number, is itself.
 */
void stk__set_name(stk__text *t, const char *pattern);

#endif
