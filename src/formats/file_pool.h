/* Descriptors of many files, opened on demand and shared by threads; a file that changes is noticed. */
#ifndef STK_FORMATS_FILE_POOL_H
#define STK_FORMATS_FILE_POOL_H

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
 * the file vanished, or when its size or mtime differ from what was indexed ("changed since it was indexed"). Any
 * thread.
 */
stk_status stk__file_pool_acquire(stk__file_pool *pool, int32_t file, int *out_fd, stk_error *err);
void stk__file_pool_release(stk__file_pool *pool, int32_t file);
/*
 * CORRUPT with "changed since it was indexed" when size or mtime of an open file differ; from then on always. Looks
 * every 10 ms at most; now_ns INT64_MAX: looks in any case. For every read, since fresh bytes may well look sound.
 */
stk_status stk__file_pool_recheck(stk__file_pool *pool, int32_t file, int fd, int64_t now_ns, stk_error *err);
/* CORRUPT with "changed since it was indexed" when size or mtime differ now, else OK. For a bad read's second look. */
stk_status stk__file_pool_check_unchanged(stk__file_pool *pool, int32_t file, stk_error *err);

#endif
