/* Looks at files: edges for contents, times for changes that edges do not show. */
#define _GNU_SOURCE
#include "formats/file_look.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/rng.h"

#include "base/banned.h"

uint64_t stk__look_edges(int fd, int64_t size_bytes)
{
    uint8_t bytes[2 * STK__LOOK_EDGE];
    const size_t room = sizeof bytes;
    const size_t first = (size_t)STK_MIN(size_bytes, (int64_t)room);
    bool ok;
    if ((int64_t)first == size_bytes)
        ok = stk__pread_full(fd, bytes, first, 0, "", NULL) == STK_OK;
    else
        ok = stk__pread_full(fd, bytes, STK__LOOK_EDGE, 0, "", NULL) == STK_OK &&
             stk__pread_full(fd, bytes + STK__LOOK_EDGE, STK__LOOK_EDGE, size_bytes - STK__LOOK_EDGE, "", NULL) ==
                 STK_OK;
    return XXH3_64bits_withSeed(bytes, ok ? first : 0, (uint64_t)size_bytes + (ok ? 0 : UINT64_C(1) << 63));
}

uint64_t stk__look_contents(uint64_t h, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    stk__file_id id;
    struct stat st;
    int fd;
    h = stk__mix(h, XXH3_64bits(name, strlen(name)));
    if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISREG(st.st_mode) ||
        stk__file_open(path, &fd, &id, NULL) != STK_OK)
        return h;
    h = stk__mix(h, stk__look_edges(fd, id.size_bytes));
    close(fd);
    return h;
}

static int64_t to_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t stk__look_times(uint64_t h, const struct stat *st, int64_t *newest_ns)
{
    const int64_t mtime_ns = to_ns(st->st_mtim), ctime_ns = to_ns(st->st_ctim);
    *newest_ns = STK_MAX(*newest_ns, STK_MAX(mtime_ns, ctime_ns));
    return stk__mix(stk__mix(stk__mix(h, (uint64_t)st->st_size), (uint64_t)mtime_ns), (uint64_t)ctime_ns);
}

uint64_t stk__look_stamp(uint64_t h, const char *path, int64_t *newest_ns)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISREG(st.st_mode))
        return stk__mix(h, 0);
    return stk__look_times(h, &st, newest_ns);
}
