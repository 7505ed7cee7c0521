/* Hidden names of what is being written, and the removal of what killed writers left. */
#define _GNU_SOURCE
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#include "base/banned.h"

/* Where files cannot be locked, a leftover is what nobody wrote to for so long. */
#define STALE_S (24 * 60 * 60)
/* Directories that were swept lately; a run writes to few. */
#define SWEPT_MAX 32
/* Directories that a removal has open at a time, however deep it goes. */
#define REMOVE_OPEN_MAX 16

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

bool stk__is_temporary(const char *name)
{
    return name[0] == '.' && (ends_with(name, STK__TEMP_SUFFIX) || ends_with(name, STK__KEPT_SUFFIX) ||
                              ends_with(name, STK__PUBLISH_SUFFIX));
}

/* Process numbers repeat between containers, so names are drawn. */
static uint64_t draw(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (uint64_t)stk__now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
    return number;
}

char *stk__hidden_name(const char *path, const char *suffix)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t dir = length;
    while (dir > 0 && path[dir - 1] != '/')
        dir--;
    const size_t most = NAME_MAX - 18 - strlen(suffix); /* two dots and the digits */
    const size_t name = STK_MIN(length - dir, most), room = dir + name + 19 + strlen(suffix);
    char *hidden = stk__alloc(room);
    if (hidden)
        snprintf(hidden, room, "%.*s.%.*s.%016" PRIx64 "%s", (int)dir, path, (int)name, path + dir, draw(), suffix);
    return hidden;
}

bool stk__lock_alive(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) || st.st_nlink > 0; /* a sweeper may have come between the making and the lock */
}

/* Each file comes before the directory that it is in. */
static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    return remove(path) && errno != ENOENT;
}

bool stk__remove_tree(const char *path)
{
    return nftw(path, remove_one, REMOVE_OPEN_MAX, FTW_DEPTH | FTW_PHYS) == 0;
}

/* ---- leftovers ---- */

/* Of a file that lies there under a temporary name: nobody writes it any more. The lock stays until the descriptor is closed. */
static bool is_left_over(int fd)
{
    struct stat st;
    if (fstat(fd, &st) || st.st_uid != geteuid() || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return false;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    return errno != EWOULDBLOCK && time(NULL) - st.st_mtim.tv_sec > STALE_S;
}

static void sweep_entry(const char *dir, const char *name)
{
    const size_t room = strlen(dir) + strlen(name) + 2;
    char *path = stk__alloc(room);
    if (!path)
        return;
    snprintf(path, room, "%s/%s", dir, name);
    /* A pipe of that name must not hold us up. */
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && is_left_over(fd))
        stk__remove_tree(path);
    if (fd >= 0)
        close(fd);
    stk__free(path);
}

/* Whether this process has been in the directory already; if not, it has now. */
static bool swept_before(const struct stat *st)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        dev_t device;
        ino_t inode;
    } swept[SWEPT_MAX];
    static unsigned next;
    pthread_mutex_lock(&lock);
    bool found = false;
    for (unsigned i = 0; i < SWEPT_MAX && !found; i++)
        found = swept[i].inode == st->st_ino && swept[i].device == st->st_dev;
    if (!found) {
        swept[next].device = st->st_dev;
        swept[next].inode = st->st_ino;
        next = (next + 1) % SWEPT_MAX;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void stk__sweep(const char *dir)
{
    DIR *d = opendir(dir);
    struct stat st;
    if (!d)
        return;
    const struct dirent *entry;
    if (fstat(dirfd(d), &st) == 0 && !swept_before(&st))
        while ((entry = readdir(d)))
            if (entry->d_name[0] == '.' && ends_with(entry->d_name, STK__TEMP_SUFFIX))
                sweep_entry(dir, entry->d_name);
    closedir(d);
}
