/* Directories of files that can be made again: how much they may take, and which go first. */
#ifndef STK_BASE_CACHE_DIR_H
#define STK_BASE_CACHE_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct stk__cache_bounds {
    const char *const *endings; /* NULL-terminated; only files HASH + ending are touched, HASH being 32 hex digits */
    uint64_t most_bytes;        /* on the disk, all of them together */
    int64_t most_age_s;         /* not used for longer: removed in any case; 0: no matter */
    size_t most_removed;        /* at a time, so that nobody waits long for what others left; 0: any number */
    int64_t used_since_s; /* used since then (seconds of the epoch): stays, whatever the bounds; INT64_MAX: none */
} stk__cache_bounds;

/*
 * Removes what was not used for longest until the bounds hold. Reads the whole directory: once for many new files, not for
 * each. Whoever reads a file that goes has it to the end. Failures are no matter.
 */
void stk__cache_dir_trim(const char *dir, const stk__cache_bounds *bounds);
/* Marks a file as used now; cheap where that was said lately. */
void stk__cache_dir_used(const char *path);
/* How long such a mark may lag behind. */
#define STK__CACHE_MARK_S 600

#endif
