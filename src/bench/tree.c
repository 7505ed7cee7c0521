/* Whole directories: removed, or their sizes added up. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/tree.h"

#include "base/banned.h"

/* ---- removing ---- */

static void remove_entry(int parent, const char *name, dev_t device);

/* Takes over the descriptor. */
static void remove_below(int fd, dev_t device)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(dirfd(d), e->d_name, device);
    closedir(d);
}

/* Links are removed, never followed; other file systems are left alone. What cannot be removed stays. */
static void remove_entry(int parent, const char *name, dev_t device)
{
    struct stat st;
    if (unlinkat(parent, name, 0) == 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
        st.st_dev != device)
        return;
    /* Builds leave directories that nobody may write to, such as caches of modules. */
    const bool writable = (st.st_mode & S_IRWXU) == S_IRWXU || fchmodat(parent, name, S_IRWXU, 0) == 0;
    const int fd = writable ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd >= 0)
        remove_below(fd, device);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void stk__tree_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        remove_entry(AT_FDCWD, path, st.st_dev);
}

/* ---- sizes ---- */

static uint64_t bytes_below(int fd, dev_t device)
{
    uint64_t bytes = 0;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || st.st_dev != device)
            continue;
        bytes += (uint64_t)st.st_blocks * 512;
        const int below =
            S_ISDIR(st.st_mode) ? openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (below >= 0)
            bytes += bytes_below(below, device);
    }
    closedir(d);
    return bytes;
}

uint64_t stk__tree_bytes(const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    return bytes_below(fd, st.st_dev);
}
