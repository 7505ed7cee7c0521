/* A file of a set while it is written: its bytes are counted and digested on the way. */
#ifndef STK_FORMATS_SET_FILE_H
#define STK_FORMATS_SET_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/compiler.h"
#include "formats/manifest.h"

typedef struct stk__set_file stk__set_file;

/* Bytes of memory that one takes. */
int64_t stk__set_file_memory(void);
/* Makes a new file; one that is there is an error. Messages call it `target`, as it will be. Not thread-safe, as all of it. */
stk_status stk__set_file_create(const char *path, const char *target, stk__set_file **out, stk_error *err);
/* Goes on with a file: cuts it to `bytes`, and reads these for the digest. CORRUPT when it has fewer. */
stk_status stk__set_file_reopen(const char *path, const char *target, int64_t bytes, stk__set_file **out,
                                stk_error *err);
/* After a failure every later write and sync fails. */
stk_status stk__set_file_write(stk__set_file *f, const void *data, size_t size, stk_error *err);
/* Everything so far to the disk. */
stk_status stk__set_file_sync(stk__set_file *f, stk_error *err);
/* Of what was written so far. */
int64_t stk__set_file_bytes(const stk__set_file *f);
stk__file_digest stk__set_file_digest(const stk__set_file *f);
/* The target. */
const char *stk__set_file_path(const stk__set_file *f);
/* Closes it, without a sync; what was not synced may be lost. NULL is fine. */
void stk__set_file_close(stk__set_file *f);

/* Size and digest of a file that is there. `progress` (may be NULL) is told how many bytes were read; false cancels. */
stk_status stk__digest_of_file(const char *path, bool (*progress)(void *arg, int64_t bytes), void *arg,
                               int64_t *out_bytes, stk__file_digest *out, stk_error *err);

#endif
