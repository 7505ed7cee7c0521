/* Trimming of cache directories; a file's mtime says when it was last used. */
#define _GNU_SOURCE
#include "base/cache_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

enum { HASH_DIGITS = 32, NAME_BYTES = 48, DISK_UNIT = 512, LEFT_OVER_S = 3600 };

typedef struct kept_file {
    char name[NAME_BYTES];
    int64_t used_ns;
    uint64_t bytes;
} kept_file;

typedef struct kept_files {
    kept_file *items;
    size_t count, capacity;
    uint64_t bytes;
} kept_files;

/* Length of a name up to and with its ending, when it begins with a hash and one of these; 0: it is not ours. */
static size_t own_length(const char *name, const char *const *endings)
{
    if (strspn(name, "0123456789abcdef") != HASH_DIGITS)
        return 0;
    for (; *endings; endings++) {
        const size_t length = strlen(*endings);
        if (strncmp(name + HASH_DIGITS, *endings, length) == 0)
            return HASH_DIGITS + length;
    }
    return 0;
}

/* Halves that a killed writer left before temporary files had hidden names. */
static bool is_left_over(const char *tail, const struct stat *info)
{
    return strncmp(tail, ".tmp-", 5) == 0 && time(NULL) - info->st_mtim.tv_sec > LEFT_OVER_S;
}

static void look_at(int dir, const char *name, const stk__cache_bounds *bounds, kept_files *out)
{
    const size_t length = own_length(name, bounds->endings);
    struct stat info;
    if (!length || fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode))
        return;
    if (name[length]) {
        if (is_left_over(name + length, &info))
            unlinkat(dir, name, 0);
        return;
    }
    if (length >= NAME_BYTES || !stk__grow((void **)&out->items, &out->capacity, out->count + 1, sizeof *out->items))
        return;
    kept_file *file = &out->items[out->count++];
    memcpy(file->name, name, length + 1);
    file->used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    file->bytes = (uint64_t)info.st_blocks * DISK_UNIT;
    out->bytes += file->bytes;
}

static int by_use(const void *a, const void *b)
{
    const kept_file *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

void stk__cache_dir_trim(const char *dir, const stk__cache_bounds *bounds)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    kept_files files = {0};
    if (!d)
        return;
    while ((entry = readdir(d)))
        look_at(dirfd(d), entry->d_name, bounds, &files);
    if (files.count)
        qsort(files.items, files.count, sizeof *files.items, by_use);
    const int64_t now = (int64_t)time(NULL);
    const size_t most = bounds->most_removed ? STK_MIN(bounds->most_removed, files.count) : files.count;
    for (size_t i = 0; i < most; i++) {
        const kept_file *file = &files.items[i];
        const int64_t used = file->used_ns / 1000000000;
        const bool old = bounds->most_age_s > 0 && now - used > bounds->most_age_s;
        if (used >= bounds->used_since_s || (!old && files.bytes <= bounds->most_bytes))
            break; /* so are all that follow */
        if (unlinkat(dirfd(d), file->name, 0) == 0)
            files.bytes -= file->bytes;
    }
    stk__free(files.items);
    closedir(d);
}

void stk__cache_dir_used(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && time(NULL) - info.st_mtim.tv_sec > STK__CACHE_MARK_S)
        utimensat(AT_FDCWD, path, NULL, 0);
}
