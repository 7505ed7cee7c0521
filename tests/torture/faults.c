/*
 * Makes calls of the C library fail, for tests: a library to preload.
 *
 *   LD_PRELOAD=libfaults.so STOKER_FAULT="write:EIO:path=out:after=3" stoker ...
 *
 * STOKER_FAULT is a list of faults, separated by ';'. A fault is the name of a call, what becomes of it, and where:
 *
 *   CALL:WHAT[:path=TEXT][:after=N][:count=N]
 *
 *   CALL   malloc (with calloc, realloc, aligned_alloc), read, pread, write, pwrite, fsync, rename, open, close
 *   WHAT   EIO, EINTR, ENOSPC, EMFILE, ENFILE, ENOMEM, EDQUOT, EACCES; short: half of the bytes, at least one
 *   path   only for files whose path has TEXT in it; not for malloc
 *   after  so many such calls go well first
 *   count  so many then fail (1 unless told; 0: all of them)
 *
 * STOKER_FAULT_LOG=FILE gets a line at the end of the process: "faults N", the number of calls that failed, after "calls N",
 * the number of those that the first fault looked at.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* glibc's own, so that no dlsym (which allocates) stands before the first malloc. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

enum call { MALLOC, READ, PREAD, WRITE, PWRITE, FSYNC, RENAME, OPEN, CLOSE, CALLS };

static const char *const call_names[CALLS] = {"malloc", "read",   "pread", "write", "pwrite",
                                              "fsync",  "rename", "open",  "close"};

enum { SHORT = -1, FAULTS_MAX = 8, PATH_SIZE = 256 };

typedef struct fault {
    enum call call;
    int error; /* errno, or SHORT */
    char path[PATH_SIZE];
    uint64_t after, count;
    atomic_uint_fast64_t seen, failed;
} fault;

/* Set by `read_faults` before main, then const but for the counts. */
static fault faults[FAULTS_MAX];
static size_t fault_count;
static bool armed;
static char log_path[PATH_SIZE];
/* Threads that are inside of this library already: what it calls itself must not fail. */
static _Thread_local bool inside;

static void die(const char *what, const char *text)
{
    char line[512];
    const int n = snprintf(line, sizeof line, "faults: %s '%s'\n", what, text);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(98);
    _exit(99);
}

static int error_of(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } known[] = {{"EIO", EIO},       {"EINTR", EINTR},   {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE}, {"ENFILE", ENFILE},
                 {"ENOMEM", ENOMEM}, {"EDQUOT", EDQUOT}, {"EACCES", EACCES}, {"short", SHORT}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].error;
    die("unknown error", name);
    return 0;
}

static enum call call_of(const char *name)
{
    for (int i = 0; i < CALLS; i++)
        if (strcmp(call_names[i], name) == 0)
            return (enum call)i;
    die("unknown call", name);
    return CALLS;
}

static void read_fault(char *text)
{
    char *rest = NULL;
    fault *f = &faults[fault_count];
    const char *call = strtok_r(text, ":", &rest), *what = strtok_r(NULL, ":", &rest);
    if (!call || !what || fault_count == FAULTS_MAX)
        die("wanted CALL:WHAT, found", text);
    f->call = call_of(call);
    f->error = error_of(what);
    f->count = 1;
    for (const char *word; (word = strtok_r(NULL, ":", &rest));) {
        if (strncmp(word, "path=", 5) == 0)
            snprintf(f->path, sizeof f->path, "%s", word + 5);
        else if (strncmp(word, "after=", 6) == 0)
            f->after = strtoull(word + 6, NULL, 10);
        else if (strncmp(word, "count=", 6) == 0)
            f->count = strtoull(word + 6, NULL, 10);
        else
            die("unknown word", word);
    }
    fault_count++;
}

__attribute__((constructor)) static void read_faults(void)
{
    static char copy[2048];
    const char *text = getenv("STOKER_FAULT"), *path = getenv("STOKER_FAULT_LOG");
    inside = true;
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    snprintf(log_path, sizeof log_path, "%s", path ? path : "");
    char *rest = NULL;
    for (char *one = strtok_r(copy, ";", &rest); one; one = strtok_r(NULL, ";", &rest))
        read_fault(one);
    inside = false;
    armed = true;
}

__attribute__((destructor)) static void write_log(void)
{
    uint64_t failed = 0;
    armed = false;
    for (size_t i = 0; i < fault_count; i++)
        failed += atomic_load(&faults[i].failed);
    char line[96];
    const int n =
        snprintf(line, sizeof line, "calls %llu\nfaults %llu\n",
                 (unsigned long long)(fault_count ? atomic_load(&faults[0].seen) : 0), (unsigned long long)failed);
    const int fd = log_path[0] ? open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        _exit(97);
}

/* What becomes of this call: 0 (nothing), errno, or SHORT. `path` may be NULL: not known. */
static int fate(enum call call, const char *path)
{
    for (size_t i = 0; i < fault_count; i++) {
        fault *f = &faults[i];
        if (f->call != call || (f->path[0] && (!path || !strstr(path, f->path))))
            continue;
        const uint64_t n = atomic_fetch_add(&f->seen, 1);
        if (n < f->after || (f->count && n >= f->after + f->count))
            continue;
        atomic_fetch_add(&f->failed, 1);
        return f->error;
    }
    return 0;
}

static bool has(enum call call)
{
    for (size_t i = 0; i < fault_count; i++)
        if (faults[i].call == call)
            return true;
    return false;
}

static int fate_of_path(enum call call, const char *path)
{
    return armed && !inside && has(call) ? fate(call, path) : 0;
}

static int fate_of_fd(enum call call, int fd)
{
    if (!armed || inside || !has(call))
        return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return fate(call, path);
}

/* Half of what was asked for, when that is the fault. */
static size_t shorter(int what, size_t size)
{
    return what == SHORT && size > 1 ? size / 2 : size;
}

#define REAL(name)                                   \
    static __typeof__(&name) real;                   \
    if (!real) {                                     \
        inside = true;                               \
        *(void **)(&real) = dlsym(RTLD_NEXT, #name); \
        inside = false;                              \
    }

#define FAIL_IF(what, value) \
    if ((what) > 0) {        \
        errno = (what);      \
        return (value);      \
    }

/* ---- memory ---- */

static bool no_memory(void)
{
    if (!armed || inside || !has(MALLOC) || !fate(MALLOC, NULL))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return no_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    return size && no_memory() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return no_memory() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (no_memory())
        return ENOMEM;
    void *p = __libc_memalign(alignment, size);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

/* ---- files ---- */

ssize_t read(int fd, void *data, size_t size)
{
    REAL(read)
    const int what = fate_of_fd(READ, fd);
    FAIL_IF(what, -1)
    return real(fd, data, shorter(what, size));
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    REAL(pread)
    const int what = fate_of_fd(PREAD, fd);
    FAIL_IF(what, -1)
    return real(fd, data, shorter(what, size), offset);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
{
    return pread(fd, data, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    REAL(preadv)
    const int what = fate_of_fd(PREAD, fd);
    FAIL_IF(what, -1)
    return real(fd, parts, what == SHORT && count > 1 ? count / 2 : count, offset);
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write)
    const int what = fate_of_fd(WRITE, fd);
    FAIL_IF(what, -1)
    return real(fd, data, shorter(what, size));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    REAL(pwrite)
    const int what = fate_of_fd(PWRITE, fd);
    FAIL_IF(what, -1)
    return real(fd, data, shorter(what, size), offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    return pwrite(fd, data, size, offset);
}

/* stdio writes without the name `write`, so that its streams are looked at here. */
size_t fwrite(const void *data, size_t size, size_t count, FILE *stream)
{
    REAL(fwrite)
    const int what = fate_of_fd(WRITE, fileno(stream));
    FAIL_IF(what, 0)
    return real(data, size, count, stream);
}

int fflush(FILE *stream)
{
    REAL(fflush)
    const int what = stream ? fate_of_fd(WRITE, fileno(stream)) : 0;
    FAIL_IF(what, EOF)
    return real(stream);
}

int fsync(int fd)
{
    REAL(fsync)
    const int what = fate_of_fd(FSYNC, fd);
    FAIL_IF(what, -1)
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync)
    const int what = fate_of_fd(FSYNC, fd);
    FAIL_IF(what, -1)
    return real(fd);
}

int close(int fd)
{
    REAL(close)
    const int what = fate_of_fd(CLOSE, fd);
    const int code = real(fd); /* the descriptor is gone in any case, as Linux does it */
    FAIL_IF(what, -1)
    return code;
}

int rename(const char *from, const char *to)
{
    REAL(rename)
    const int what = fate_of_path(RENAME, to);
    FAIL_IF(what, -1)
    return real(from, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    REAL(renameat2)
    const int what = fate_of_path(RENAME, to);
    FAIL_IF(what, -1)
    return real(from_fd, from, to_fd, to, flags);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    REAL(open)
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    const int what = fate_of_path(OPEN, path);
    FAIL_IF(what, -1)
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return open(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    REAL(openat)
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    const int what = fate_of_path(OPEN, path);
    FAIL_IF(what, -1)
    return real(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(fopen)
    const int what = fate_of_path(OPEN, path);
    FAIL_IF(what, NULL)
    return real(path, mode);
}
