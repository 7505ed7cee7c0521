/*
 * Sets: the files that one sink writes together. They are written in a hidden directory and become visible by one step, with a
 * manifest that says which they are. docs/internals/sets.md tells how, and what a kill at any moment leaves.
 */
#ifndef STK_FORMATS_SET_H
#define STK_FORMATS_SET_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/file.h"
#include "base/str.h"
#include "formats/manifest.h"
#include "formats/set_file.h"

/* ---- writing; not thread-safe ---- */

typedef struct stk__set stk__set;

typedef struct stk__set_config {
    const char *pattern; /* "out/part-%05d"; checked, with numbers in its last part alone */
    int64_t shards;
    bool schema; /* NAME.schema.json will be added */
    bool keep;   /* checkpoints will be made: what is written outlives the run until it is published */
} stk__set_config;

/*
 * Makes the hidden directory and its files. Refuses when the output directory has files that readers would take for some of this
 * set, and when files of these names belong to another one. Removes what an earlier run kept for this target.
 */
stk_status stk__set_open(const stk__set_config *config, stk__set **out, stk_error *err);
/* Of stk__set_open: file i of `shards`. Written to by the caller. */
stk__set_file *stk__set_shard(stk__set *set, int64_t i);
/* Adds a whole file, beside the shards. */
stk_status stk__set_add(stk__set *set, const char *name, const void *data, size_t size, stk_error *err);
/*
 * Syncs everything and makes it visible in the place of an older set of this pattern. Sample i of `rows` is in file i modulo
 * shards. On failure the old set is as it was, unless the message says that the publication will be gone on with.
 */
stk_status stk__set_publish(stk__set *set, int64_t rows, stk_error *err);
/* Removes what was not published, unless it is kept for a checkpoint. NULL is fine. */
void stk__set_close(stk__set *set);

/*
 * Syncs what was written and appends, to `out`, one word or more that stk__set_resume takes; `extra` (may be empty) is handed back
 * there. After publication: that it is done.
 */
stk_status stk__set_save(stk__set *set, int64_t rows, const void *extra, size_t extra_size, stk__text *out,
                         stk_error *err);
/*
 * Goes on where `token` was made. MISMATCH when what was kept is gone, or is not what it was then. *out_done: the set has been
 * published since, so there is nothing to write; there are no shards then, and publish does nothing.
 */
stk_status stk__set_resume(const stk__set_config *config, const char *token, stk__set **out, int64_t *out_rows,
                           bool *out_done, stk__text *out_extra, stk_error *err);
/* The hidden directory, for messages. */
const char *stk__set_kept_at(const stk__set *set);

/* ---- reading ---- */

/*
 * Ends a publication in `dir` that a killed writer began, and waits for one that is under way. IO when it cannot be ended: the
 * files there are neither the old set nor the new one. A directory that is not there, or cannot be read, is fine.
 */
stk_status stk__sets_settle(const char *dir, stk_error *err);
/* The same for the directories that patterns of files look at. */
stk_status stk__sets_settle_patterns(const char *const *patterns, size_t count, stk_error *err);

/* The manifests that were looked at, as they were then. Zeroed: none. */
typedef struct stk__set_mark {
    char *path;
    stk__file_id id;
    uint64_t inode;
} stk__set_mark;

typedef struct stk__set_marks {
    stk__set_mark *items;
    size_t count, capacity;
} stk__set_marks;

void stk__set_marks_clear(stk__set_marks *marks);
/* CORRUPT when one of them is another now: files that are opened from here on would be of another set than those before. */
stk_status stk__set_marks_check(const stk__set_marks *marks, stk_error *err);

/*
 * Compares files with the manifests that lie beside them: sizes must be theirs. For those of which `wild` is set (a pattern found
 * them), the sets that they belong to must be whole, and no other file may look like one of them. CORRUPT tells file and manifest.
 * `marks` may be NULL.
 */
stk_status stk__sets_check(const stk__paths *paths, const bool *wild, stk__set_marks *marks, stk_error *err);

/* The manifests that lie in a directory. Zeroed: none. */
typedef struct stk__set_dir {
    char *dir; /* NULL: nothing was loaded */
    char **paths;
    stk__manifest *manifests;
    size_t count;
} stk__set_dir;

/* One readdir. Files that are called so and are no manifests of ours are passed over; one that is damaged is an error. */
stk_status stk__set_dir_load(const char *dir, stk__set_dir *out, stk_error *err);
void stk__set_dir_clear(stk__set_dir *d);
/* The file of that name in the first manifest that lists it, with its number; NULL: none does. */
const stk__manifest_file *stk__set_dir_find(const stk__set_dir *d, const char *name, size_t *out_manifest);
/* The directory of a path, "." where it has none; NULL: no memory. */
char *stk__set_dir_of(const char *path);

/* "has 10 bytes, but ... says 12": what is said of a file whose size is not the manifest's. */
stk_status stk__set_size_error(const char *path, int64_t found, int64_t wanted, const char *manifest, stk_error *err);

#endif
