/* Files that are opened to be read: with patience where descriptors run out, and so that a later change shows. */
#ifndef STK_FORMATS_DATA_FILE_H
#define STK_FORMATS_DATA_FILE_H

#include "base/file.h"

/*
 * As stk__file_open. Where no descriptor is left it closes an idle one of a pool, of whichever there are in the
 * process, or waits up to a second for others to close theirs; only then it is NOMEM, and the message says what to
 * raise.
 */
stk_status stk__data_file_open(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err);

/*
 * For a call that failed with `code`: whether to try again now, since a descriptor was given back or others had a
 * moment to do so. `naps` starts at 0 and counts these moments.
 */
bool stk__data_file_try_again(int code, int *naps);
/* NOMEM with what failed, how many descriptors there may be, and what to raise. `path` may be NULL. */
stk_status stk__data_file_exhausted(int code, const char *path, const char *what, stk_error *err);
/* EMFILE, ENFILE, ENOMEM, EAGAIN: the machine's state, never a property of the data. */
bool stk__data_file_is_shortage(int code);

/*
 * Waits until every later write is sure to give a file of this time stamp another one. Kernels stamp by a clock that
 * moves every few ms (every 2 s on some file systems, whose stamps have no fractions): what is written twice in one step
 * of it looks the same. So this sleeps only just after a write. True: it did, look at the file again.
 */
bool stk__data_file_settle(int64_t mtime_ns);
/* Opens, and settles: out_id is one that differs from that of the file after any later write. Pipes are not waited for. */
stk_status stk__data_file_open_settled(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err);
/* The same for a regular file, which alone has a size; a pipe that lies at `path` does not hold it up. IO: it is none. */
stk_status stk__data_file_open_regular(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err);
/* CORRUPT with "changed while it was read" when an open file is not what it was. For after the bytes were read. */
stk_status stk__data_file_unchanged(int fd, const char *path, const stk__file_id *then, stk_error *err);

/* Size and mtime of what lies at `path` now, without a descriptor; IO when there is nothing. */
stk_status stk__data_file_look(const char *path, stk__file_id *out, stk_error *err);

#endif
