/*
 * Looks at the pictures of a folder: sizes and times of all of them, the edges of some.
 *
 * Files are taken in runs of neighbours, relative to their directory, by as many threads as there are; each run gives one
 * number, and these are put together in order, so that threads do not show.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "formats/file_look.h"
#include "formats/folder.h"

#include "base/banned.h"

enum { RUN_FILES = 1024, THREADS_MAX = 64 };

typedef struct looking {
    const stk__folder *folder;
    bool inside;
    int64_t count, runs;
    stk__folder_seen *seen; /* one for each run, each written by one thread */
    atomic_llong next;
} looking;

/* The directory that a thread has open. */
typedef struct open_directory {
    const char *root, *directory; /* of the folder, so that pointers tell them apart */
    int fd;
    stk__text path;
} open_directory;

static void enter_directory(open_directory *d, const stk__folder_place *place)
{
    if (d->fd >= 0 && d->root == place->root && d->directory == place->directory)
        return;
    if (d->fd >= 0)
        close(d->fd);
    d->root = place->root;
    d->directory = place->directory;
    stk__text_reset(&d->path);
    stk__text_printf(&d->path, "%s/%s", place->root, place->directory);
    d->fd = d->path.failed ? -1 : open(d->path.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool stk__folder_sampled(int64_t index, int64_t count)
{
    /* The products fit: there are fewer than 2^40 files. */
    return count <= STK__FOLDER_SAMPLES || index == 0 ||
           index * STK__FOLDER_SAMPLES / count != (index - 1) * STK__FOLDER_SAMPLES / count;
}

/* Size and edges of a file that is there to be read; its times come with them. */
static bool look_inside(const open_directory *d, const char *name, struct stat *st, uint64_t *out_edges)
{
    const int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return false;
    const bool ok = fstat(fd, st) == 0;
    if (ok && S_ISREG(st->st_mode))
        *out_edges = stk__look_edges(fd, st->st_size);
    close(fd);
    return ok;
}

static void look_at(open_directory *d, const stk__folder_place *place, bool sampled, stk__folder_seen *seen)
{
    struct stat st = {0};
    uint64_t edges = 0;
    enter_directory(d, place);
    const bool there =
        d->fd >= 0 && (sampled ? look_inside(d, place->name, &st, &edges) : fstatat(d->fd, place->name, &st, 0) == 0);
    /* What cannot be looked at is known by that. */
    seen->contents = stk__mix(seen->contents, there ? (uint64_t)st.st_size : UINT64_MAX);
    if (sampled)
        seen->contents = stk__mix(seen->contents, edges);
    if (there)
        seen->times = stk__look_times(seen->times, &st, &seen->newest_ns);
    else
        seen->times = stk__mix(seen->times, UINT64_MAX);
}

static void look_at_run(const looking *l, int64_t run, open_directory *d, stk__folder_seen *seen)
{
    const int64_t end = STK_MIN((run + 1) * RUN_FILES, l->count);
    *seen = (stk__folder_seen){0};
    for (int64_t i = run * RUN_FILES; i < end; i++) {
        stk__folder_place place;
        stk__folder_find(l->folder, i, &place);
        look_at(d, &place, l->inside && stk__folder_sampled(i, l->count), seen);
    }
}

static void *look_at_runs(void *arg)
{
    looking *l = arg;
    open_directory d = {.fd = -1};
    for (int64_t run; (run = atomic_fetch_add(&l->next, 1)) < l->runs;)
        look_at_run(l, run, &d, &l->seen[run]);
    if (d.fd >= 0)
        close(d.fd);
    stk__text_clear(&d.path);
    return NULL;
}

static void put_together(stk__folder_seen *all, const stk__folder_seen *one)
{
    all->contents = stk__mix(all->contents, one->contents);
    all->times = stk__mix(all->times, one->times);
    all->newest_ns = STK_MAX(all->newest_ns, one->newest_ns);
}

/* The calling thread works too, so that it goes on even if no thread can be started. */
static void look_in_threads(looking *l, int threads)
{
    pthread_t started[THREADS_MAX];
    const int64_t wanted = STK_MIN(STK_MIN((int64_t)threads, l->runs), (int64_t)THREADS_MAX);
    int n = 0;
    while (n + 1 < wanted && pthread_create(&started[n], NULL, look_at_runs, l) == 0)
        n++;
    look_at_runs(l);
    for (int i = 0; i < n; i++)
        pthread_join(started[i], NULL);
}

void stk__folder_look(const stk__folder *folder, int threads, bool inside, stk__folder_seen *out)
{
    looking l = {.folder = folder, .inside = inside, .count = stk__folder_count(folder)};
    l.runs = (l.count + RUN_FILES - 1) / RUN_FILES;
    l.seen = stk__calloc((size_t)l.runs, sizeof *l.seen);
    *out = (stk__folder_seen){.contents = stk__folder_names(folder)};
    if (l.seen)
        look_in_threads(&l, threads);
    open_directory d = {.fd = -1};
    for (int64_t run = 0; run < l.runs; run++) {
        stk__folder_seen one;
        if (!l.seen)
            look_at_run(&l, run, &d, &one); /* without memory: one by one */
        put_together(out, l.seen ? &l.seen[run] : &one);
    }
    if (d.fd >= 0)
        close(d.fd);
    stk__text_clear(&d.path);
    stk__free(l.seen);
}
