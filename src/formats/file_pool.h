/* Descriptors of many files, opened on demand and shared by threads; a file that changes is noticed. */
#ifndef STK_FORMATS_FILE_POOL_H
#define STK_FORMATS_FILE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

/* A file of a pool, and what it was when it was indexed. */
typedef struct stk__pool_file {
    const char *path;
    stk__file_id id;
} stk__pool_file;

typedef struct stk__file_pool stk__file_pool;

/* Opens nothing yet. The array is copied; the paths stay the caller's and must outlive the pool. */
stk_status stk__file_pool_new(const stk__pool_file *files, int32_t count, stk__file_pool **out, stk_error *err);
/* Closes all descriptors; nobody may hold one. NULL is fine. */
void stk__file_pool_free(stk__file_pool *pool);
/* Bytes of memory that it takes. */
size_t stk__file_pool_memory(const stk__file_pool *pool);

/*
 * A descriptor of a file, opened on demand; at most a few hundred stay open. Every acquire needs a release. Fails when
 * the file vanished, or when its size or mtime differ from what was indexed ("changed since it was indexed"). Where the
 * process has no descriptor left, an idle one is closed, or one that is in use waited for; NOMEM only after a second of
 * that. Any thread.
 */
stk_status stk__file_pool_acquire(stk__file_pool *pool, int32_t file, int *out_fd, stk_error *err);
void stk__file_pool_release(stk__file_pool *pool, int32_t file);
/*
 * CORRUPT with "changed since it was indexed" when size or mtime of an open file differ; from then on always, whatever
 * becomes of the file. Kernels move the time stamp before they let the new bytes be seen: when this says OK after bytes
 * were read, they are those that were indexed. Fresh bytes may well look sound, so it is for every read.
 */
stk_status stk__file_pool_recheck(stk__file_pool *pool, int32_t file, int fd, stk_error *err);
/*
 * The same, but it looks every 10 ms only. For records that carry a check sum, and a length that the index knows: these
 * are whole whatever happens, and asking the kernel costs as much as reading a small one.
 */
stk_status stk__file_pool_recheck_lately(stk__file_pool *pool, int32_t file, int fd, int64_t now_ns, stk_error *err);
/* The same by the file's path, for what somebody else read from there and for a bad read's second look. */
stk_status stk__file_pool_check_unchanged(stk__file_pool *pool, int32_t file, stk_error *err);

/* Closes one descriptor that nobody uses, of any pool of this process; false: there is none. Any thread. */
bool stk__file_pools_close_one(void);

#endif
