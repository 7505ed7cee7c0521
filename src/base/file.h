/* Files: whole reads, atomic writes, globs, identity. */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

/* Size and mtime: enough to notice that a file changed. */
typedef struct stk__file_id {
    int64_t size_bytes;
    int64_t mtime_ns;
} stk__file_id;

/* Opens for reading; refuses directories. err gets file and the system's reason. */
stk_status stk__file_open(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err);
stk_status stk__file_id_of(int fd, const char *path, stk__file_id *out, stk_error *err);

/* Reads exactly size bytes at offset, riding out EINTR and short reads; a file that ends early is CORRUPT. */
stk_status stk__pread_full(int fd, void *data, size_t size, int64_t offset, const char *path, stk_error *err);

/* The start of a small file, NUL-terminated, without the heap: for what lies in /proc and /sys. False: it cannot be opened. */
bool stk__read_start(const char *path, char *out, size_t size);

/* Reads a whole file of at most max bytes, NUL-terminated. Free *out_data with stk__free. "-" reads standard input. */
stk_status stk__read_file(const char *path, size_t max, char **out_data, size_t *out_size, stk_error *err);

/*
 * A file that appears whole or not at all: written as PATH.tmp-PID-N in the same directory, then renamed.
 * Use: open, write to `fd` or `stream`, then commit or abort. Both free everything; commit fsyncs.
 */
typedef struct stk__new_file {
    char *path, *temp;
    FILE *stream;
} stk__new_file;

stk_status stk__new_file_open(stk__new_file *f, const char *path, stk_error *err);
stk_status stk__new_file_write(stk__new_file *f, const void *data, size_t size, stk_error *err);
/* Everything so far to the disk. */
stk_status stk__new_file_sync(stk__new_file *f, stk_error *err);
stk_status stk__new_file_commit(stk__new_file *f, stk_error *err);
void stk__new_file_abort(stk__new_file *f);

/* Writes data atomically. */
stk_status stk__write_file(const char *path, const void *data, size_t size, stk_error *err);

/* mkdir -p for the directories above `path`. */
stk_status stk__make_parents(const char *path, stk_error *err);

/* Sorted paths that match; a pattern without wildcard stands for itself. Free with stk__paths_clear. */
typedef struct stk__paths {
    char **items;
    size_t count, capacity;
} stk__paths;

/*
 * Appends what `pattern` matches: in byte order, or as written where there are only braces, whose names need not exist
 * ({000..099}, {0..9..3}, {a,b}, nested; numbers keep leading zeros). `~` at its start is the home directory. A file of just
 * that name is taken as it is. A pattern with wildcards that matches nothing is an error, as is a URL.
 */
stk_status stk__paths_glob(stk__paths *paths, const char *pattern, stk_error *err);
void stk__paths_clear(stk__paths *paths);
/* Length of "gs://", "https://" or "pipe:" at the start of what is no path; 0: it is one. */
size_t stk__path_scheme(const char *path);

#endif
