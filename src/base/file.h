/* Files: whole reads, atomic writes, globs, identity. */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

/* Size and mtime are enough to notice that a file changes while it is read. What is kept of it goes by ctime too, which nobody
   can set back. */
typedef struct stk__file_id {
    int64_t size_bytes;
    int64_t mtime_ns, ctime_ns;
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

/* STK_IO, or STK_NOMEM where the machine ran out of descriptors or memory: that says nothing about the file. */
stk_status stk__errno_status(int code);
/* "WHAT: the system's reason" with the file, from errno; returns its status. */
stk_status stk__io_error(stk_error *err, const char *path, const char *what);

/*
 * What is being written has a hidden name, `.NAME.<16 random digits>.stk-tmp`, beside the one that it will get. It is locked
 * (flock) while its writer lives, so that others know a leftover of a killed one and remove it: the first of a process that
 * writes in a directory sweeps that. Sweeping leaves `.stk-kept` and `.stk-publish` alone, whose owners look after them.
 */
#define STK__TEMP_SUFFIX ".stk-tmp"
#define STK__KEPT_SUFFIX ".stk-kept"
#define STK__PUBLISH_SUFFIX ".stk-publish"
/* Whether this name, without directories, is one of those: never data. */
bool stk__is_temporary(const char *name);
/* `.NAME.<random><suffix>` beside `path`, with NAME its last part, shortened where the whole were too long. NULL: no memory. */
char *stk__hidden_name(const char *path, const char *suffix);
/* Takes the lock that says "its writer lives"; false: somebody else has it, or removed the file. Where there are no locks: true. */
bool stk__lock_alive(int fd);
/* Removes leftovers of killed writers in a directory; those of other users stay. */
void stk__sweep(const char *dir);

/*
 * A file that appears whole or not at all: written under a hidden name in the same directory, then renamed.
 * Use: open, write to `stream`, then commit or abort. Both free everything; commit syncs the file and its directory.
 */
typedef struct stk__new_file {
    char *path, *temp;
    FILE *stream; /* its descriptor can be read from, too */
} stk__new_file;

stk_status stk__new_file_open(stk__new_file *f, const char *path, stk_error *err);
stk_status stk__new_file_write(stk__new_file *f, const void *data, size_t size, stk_error *err);
/* Everything so far to the disk. */
stk_status stk__new_file_sync(stk__new_file *f, stk_error *err);
stk_status stk__new_file_commit(stk__new_file *f, stk_error *err);
/* Without waiting for the disk, for what can be made again and has a check sum that is looked at. */
stk_status stk__new_file_commit_unsynced(stk__new_file *f, stk_error *err);
void stk__new_file_abort(stk__new_file *f);

/* Writes data atomically. */
stk_status stk__write_file(const char *path, const void *data, size_t size, stk_error *err);

/* The same for a whole directory: files go to `temp`, a directory that is there already. */
typedef struct stk__new_dir {
    char *path, *temp;
    int fd; /* of the directory */
} stk__new_dir;

/* `path` may end in slashes. Makes the directories above it. */
stk_status stk__new_dir_open(stk__new_dir *d, const char *path, stk_error *err);
/* Syncs all of it and gives it its name, which must be free or that of an empty directory. */
stk_status stk__new_dir_commit(stk__new_dir *d, stk_error *err);
/* Removes it with all that is in it. Nothing to do after a commit, or when it was never opened. */
void stk__new_dir_abort(stk__new_dir *d);

/* rm -r; links are removed, not followed. False: something is left. */
bool stk__remove_tree(const char *path);
/* Syncs the directory that `path` lies in, so that a rename there outlives a power cut. */
stk_status stk__sync_parent(const char *path, stk_error *err);

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
