/* Opening for reading, with patience; and looking at files again. */
#define _GNU_SOURCE /* CLOCK_REALTIME_COARSE */
#include "formats/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/file_pool.h"

#include "base/banned.h"

#define SECOND_NS ((int64_t)1000000000)
/* A kernel's clock for time stamps moves at least this often. */
#define TICK_NS ((int64_t)20000000)
/* Steps of time stamps without fractions: FAT's. */
#define COARSE_NS (2 * SECOND_NS)

enum { NAPS_MAX = 1000, NAP_NS = 1000000, SETTLE_NAPS = 32 };

static void nap(int64_t ns)
{
    const struct timespec time = {.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};
    nanosleep(&time, NULL);
}

/* ---- descriptors ---- */

bool stk__data_file_is_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EAGAIN;
}

bool stk__data_file_try_again(int code, int *naps)
{
    if (!stk__data_file_is_shortage(code))
        return false;
    /* Another thread may take what was closed here: then that one gets on, and it is no try of ours. */
    if ((code == EMFILE || code == ENFILE) && stk__file_pools_close_one())
        return true;
    if (++*naps > NAPS_MAX)
        return false;
    nap(NAP_NS);
    return true;
}

stk_status stk__data_file_exhausted(int code, const char *path, const char *what, stk_error *err)
{
    struct rlimit limit;
    if (err)
        err->status = STK_OK; /* a fresh error: this says it better */
    if (code != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        stk_error_set(err, STK_NOMEM, "%s: %s", what, strerror(code));
    else
        stk_error_set(
            err, STK_NOMEM,
            "%s: too many open files: the limit is %llu, and none of them could be closed; raise it (ulimit -n)", what,
            (unsigned long long)limit.rlim_cur);
    if (err && path)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_NOMEM;
}

static stk_status open_error(int code, const char *path, const char *what, stk_error *err)
{
    if (stk__data_file_is_shortage(code))
        return stk__data_file_exhausted(code, path, what, err);
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

stk_status stk__data_file_open(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err)
{
    for (int naps = 0;;) {
        errno = 0;
        const stk_status status = stk__file_open(path, out_fd, out_id, err);
        const int code = stk__data_file_is_shortage(errno) ? errno : EMFILE;
        if (status != STK_NOMEM)
            return status;
        if (!stk__data_file_try_again(code, &naps))
            return stk__data_file_exhausted(code, path, "cannot open", err);
    }
}

/* ---- time stamps ---- */

static int64_t stamp_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* what the kernel stamps with */
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

bool stk__data_file_settle(int64_t mtime_ns)
{
    const int64_t step = mtime_ns % SECOND_NS == 0 ? COARSE_NS : 1;
    int64_t left = mtime_ns + step - stamp_clock_ns();
    /* A stamp from further ahead is of another clock, or of somebody who set it: no wait can help. */
    if (left <= 0 || left > step + TICK_NS)
        return false;
    for (int i = 0; i < SETTLE_NAPS && left > 0; i++) {
        nap(STK_MAX(left, (int64_t)NAP_NS));
        left = mtime_ns + step - stamp_clock_ns();
    }
    return true;
}

stk_status stk__data_file_open_settled(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err)
{
    struct stat st;
    STK_TRY(stk__data_file_open(path, out_fd, out_id, err));
    if (fstat(*out_fd, &st) || !S_ISREG(st.st_mode) || !stk__data_file_settle(out_id->mtime_ns))
        return STK_OK;
    /* Somebody who writes all the time is found out when the file is looked at after it was read. */
    const stk_status status = stk__file_id_of(*out_fd, path, out_id, err);
    if (status != STK_OK)
        close(*out_fd);
    return status;
}

/* Size and time stamp of an open file, after which any write changes the latter. */
static stk_status settled_id(int fd, const char *path, stk__file_id *out, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return open_error(errno, path, "cannot stat", err);
    if (!S_ISREG(st.st_mode)) {
        stk_error_set(err, STK_IO, "is no regular file any more");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", path);
        return STK_IO;
    }
    *out = (stk__file_id){st.st_size, (int64_t)st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec};
    /* Somebody who writes all the time is found out when the file is looked at after it was read. */
    return stk__data_file_settle(out->mtime_ns) ? stk__file_id_of(fd, path, out, err) : STK_OK;
}

stk_status stk__data_file_open_regular(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err)
{
    int fd;
    for (int naps = 0; (fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0;) {
        const int code = errno;
        if (!stk__data_file_try_again(code, &naps))
            return open_error(code, path, "cannot open", err);
    }
    const stk_status status = settled_id(fd, path, out_id, err);
    if (status == STK_OK)
        *out_fd = fd;
    else
        close(fd);
    return status;
}

stk_status stk__data_file_unchanged(int fd, const char *path, const stk__file_id *then, stk_error *err)
{
    stk__file_id now;
    STK_TRY(stk__file_id_of(fd, path, &now, err));
    if (now.size_bytes == then->size_bytes && now.mtime_ns == then->mtime_ns)
        return STK_OK;
    if (now.size_bytes != then->size_bytes)
        stk_error_set(err, STK_CORRUPT, "changed while it was read: it had %lld bytes, now it has %lld",
                      (long long)then->size_bytes, (long long)now.size_bytes);
    else
        stk_error_set(err, STK_CORRUPT, "changed while it was read: same size, modified %lld ns later",
                      (long long)(now.mtime_ns - then->mtime_ns));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_CORRUPT;
}

stk_status stk__data_file_look(const char *path, stk__file_id *out, stk_error *err)
{
    struct stat st;
    if (stat(path, &st))
        return open_error(errno, path, "cannot open", err);
    out->size_bytes = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec;
    out->ctime_ns = (int64_t)st.st_ctim.tv_sec * SECOND_NS + st.st_ctim.tv_nsec;
    return STK_OK;
}
