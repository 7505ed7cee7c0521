/* Keeps builds of commits in a folder: looked up by key, made once, locked while in use, the oldest removed. */
#define _GNU_SOURCE
#include "bench/builds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/git_impl.h"
#include "bench/tree.h"

#include "base/banned.h"

#define MARK "stoker build 1\n"

enum { KEY_LENGTH = 32, NOTE_MAX = 2048, WAIT_NS = 50000000 };

/* ---- the folder ---- */

stk_status stk__builds_open(stk__launcher *l, const char *folder, const char *command, stk__builds *out, stk_error *err)
{
    stk__builds b = {.folder = stk__strdup(folder), .command = command ? stk__strdup(command) : NULL};
    stk_status status = b.folder && (b.command || !command) ? STK_OK : stk__nomem(strlen(folder), err);
    stk__text script = STK__TEXT_INIT;
    stk__text_puts(&script, "c=$(git rev-parse --git-common-dir) && CDPATH= cd -- \"$c\" && pwd -P");
    if (status == STK_OK)
        status = stk__git_checked(l, NULL, &script, STK_INVALID, "cannot find the repository", &b.repository, err);
    stk__text_clear(&script);
    if (status == STK_OK)
        status = stk__git_prefix(l, &b.prefix, err);
    /* Without any, git says nothing and ends with 1. */
    stk__text_puts(&script, "git config --get-regexp '^submodule\\..*\\.(url|active)$' | sort");
    if (status == STK_OK)
        status = stk__git_checked(l, NULL, &script, STK_IO, "cannot list the submodules", &b.submodules, err);
    stk__text_clear(&script);
    if (status == STK_OK)
        *out = b;
    else
        stk__builds_close(&b);
    return status;
}

void stk__builds_close(stk__builds *b)
{
    stk__free(b->folder);
    stk__free(b->repository);
    stk__free(b->prefix);
    stk__free(b->submodules);
    stk__free(b->command);
    *b = (stk__builds){0};
}

/* ---- one entry ---- */

typedef struct entry {
    char *path, *tree, *git, *note;
    int fd; /* of the directory, locked; -1: not yet */
} entry;

static void entry_clear(entry *e)
{
    stk__free(e->path);
    stk__free(e->tree);
    stk__free(e->git);
    stk__free(e->note);
    if (e->fd >= 0)
        close(e->fd);
}

static char *join(const char *folder, const char *name)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s/%s", folder, name);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

static stk_status entry_name(const char *folder, const char *key, entry *out, stk_error *err)
{
    entry e = {.path = join(folder, key), .fd = -1};
    if (e.path) {
        e.tree = join(e.path, "tree");
        e.git = join(e.path, "git");
        e.note = join(e.path, "build");
    }
    if (!e.tree || !e.git || !e.note) {
        entry_clear(&e);
        return stk__nomem(strlen(folder), err);
    }
    *out = e;
    return STK_OK;
}

/* All that changes what a build is; the parts are kept apart by their ends. */
static stk_status make_key(const stk__builds *b, const stk__commit *commit, char out[KEY_LENGTH + 1], stk_error *err)
{
    const char *parts[] = {MARK, b->repository, b->prefix, commit->hash, b->submodules, b->command ? b->command : ""};
    stk__text t = STK__TEXT_INIT;
    for (size_t i = 0; i < STK_COUNT(parts); i++)
        stk__text_write(&t, parts[i], strlen(parts[i]) + 1);
    const stk_status status = t.failed ? stk__nomem(t.length, err) : STK_OK;
    if (status == STK_OK) {
        const XXH128_hash_t hash = XXH3_128bits(t.data, t.length);
        snprintf(out, KEY_LENGTH + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
    }
    stk__text_clear(&t);
    return status;
}

static bool same_directory(int fd, const char *path)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* EWOULDBLOCK when others have it. Where locks are not supported, as on some network file systems, there are none. */
static int try_lock(int fd, int mode)
{
    while (flock(fd, mode | LOCK_NB)) {
        if (errno != EINTR)
            return errno == EWOULDBLOCK ? EWOULDBLOCK : 0;
    }
    return 0;
}

/* The directory is made when it is not there. Another run may remove it between our open and our lock: then again. */
static stk_status lock_once(entry *e, int mode, bool *out_done, stk_error *err)
{
    *out_done = false;
    if (stk__make_parents(e->note, err) != STK_OK)
        return STK_IO;
    const int fd = open(e->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return stk_error_set(err, STK_IO, "cannot open the directory '%s': %s", e->path, strerror(errno));
    if (fd >= 0 && try_lock(fd, mode) == 0 && same_directory(fd, e->path)) {
        e->fd = fd;
        *out_done = true;
    } else if (fd >= 0) {
        close(fd);
    }
    return STK_OK;
}

static stk_status entry_lock(const stk__builds *b, entry *e, int mode, stk_error *err)
{
    for (;;) {
        bool done;
        STK_TRY(lock_once(e, mode, &done, err));
        if (done)
            return STK_OK;
        if (b->wait && !b->wait(b->context))
            return STK_CANCELLED;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

/* ---- the note about a build ---- */

typedef struct note {
    bool built;
    uint64_t bytes;
    char failure[NOTE_MAX];
} note;

/* False: there is none, or it is not ours. The texts after the second line are for people. */
static bool note_read(const entry *e, note *out)
{
    char text[sizeof MARK + NOTE_MAX];
    *out = (note){0};
    if (!stk__read_start(e->note, text, sizeof text) || strncmp(text, MARK, sizeof MARK - 1) != 0)
        return false;
    char *line = text + sizeof MARK - 1;
    line[strcspn(line, "\n")] = 0;
    int64_t bytes;
    if (strncmp(line, "built ", 6) == 0 && stk__parse_int64(line + 6, &bytes) && bytes >= 0) {
        out->built = true;
        out->bytes = (uint64_t)bytes;
        return true;
    }
    if (strncmp(line, "failed ", 7) != 0)
        return false;
    snprintf(out->failure, sizeof out->failure, "%s", line + 7);
    return true;
}

static void put_line(stk__text *t, const char *text)
{
    for (; *text; text++)
        stk__text_putc(t, (unsigned char)*text < ' ' ? ' ' : *text);
    stk__text_putc(t, '\n');
}

static stk_status note_write(const stk__builds *b, const entry *e, const stk__commit *commit, const char *failure,
                             stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, MARK);
    if (failure) {
        stk__text_puts(&t, "failed ");
        put_line(&t, failure);
    } else {
        stk__text_printf(&t, "built %" PRIu64 "\n", stk__tree_bytes(e->path));
    }
    stk__text_printf(&t, "commit %s\nrepository ", commit->hash);
    put_line(&t, b->repository);
    stk__text_puts(&t, "command ");
    put_line(&t, b->command ? b->command : "");
    const stk_status status = t.failed ? stk__nomem(t.length, err) : stk__write_file(e->note, t.data, t.length, err);
    stk__text_clear(&t);
    return status;
}

/* ---- making ---- */

static void empty(const entry *e)
{
    unlink(e->note);
    stk__tree_remove(e->tree);
    stk__tree_remove(e->git);
}

static stk_status try_build(stk__launcher *l, const stk__builds *b, const stk__commit *commit, const entry *e,
                            stk__text *out_failure, stk_error *err)
{
    char *directory = NULL;
    STK_TRY(stk__git_check_out(l, commit, NULL, e->tree, e->git, err));
    STK_TRY(stk__git_enter(e->tree, b->prefix, commit, &directory, err));
    const stk_status status = b->command ? stk__git_build_one(l, directory, b->command, 0, out_failure, err) : STK_OK;
    stk__free(directory);
    return status;
}

static stk_status make(stk__launcher *l, const stk__builds *b, const stk__commit *commit, const entry *e,
                       stk_error *err)
{
    stk__text failure = STK__TEXT_INIT;
    empty(e);
    stk_status status = try_build(l, b, commit, e, &failure, err);
    if (status != STK_OK || failure.length)
        empty(e);
    if (status == STK_OK)
        status = note_write(b, e, commit, failure.length ? failure.data : NULL, err);
    stk__text_clear(&failure);
    return status;
}

/* Locked as one of many who use it. */
static stk_status hand_over(entry *e, const stk__builds *b, const stk__commit *commit, const note *n, bool made,
                            stk__build *out, stk_error *err)
{
    stk__build build = {.made = made, .lock = -1};
    stk_status status = STK_OK;
    if (n->built)
        status = stk__git_enter(e->tree, b->prefix, commit, &build.directory, err);
    else if (!(build.failure = stk__strdup(n->failure)))
        status = stk__nomem(strlen(n->failure), err);
    if (status != STK_OK)
        return status;
    utimensat(AT_FDCWD, e->note, NULL, 0); /* used now: trimming goes by that */
    try_lock(e->fd, LOCK_SH);
    build.lock = e->fd;
    e->fd = -1;
    *out = build;
    return STK_OK;
}

/* Locked in either case: as one of many when it is there, else alone, for making it. */
static stk_status find(const stk__builds *b, bool again, entry *e, note *out, bool *out_there, stk_error *err)
{
    *out_there = false;
    if (!again) {
        STK_TRY(entry_lock(b, e, LOCK_SH, err));
        *out_there = note_read(e, out);
        if (*out_there)
            return STK_OK;
        close(e->fd);
        e->fd = -1;
    }
    STK_TRY(entry_lock(b, e, LOCK_EX, err));
    *out_there = !again && note_read(e, out); /* somebody else has made it by now */
    return STK_OK;
}

stk_status stk__build_take(stk__launcher *l, const stk__builds *b, const stk__commit *commit, bool again,
                           stk__build *out, stk_error *err)
{
    char key[KEY_LENGTH + 1];
    bool there = false;
    entry e;
    note n;
    STK_TRY(make_key(b, commit, key, err));
    STK_TRY(entry_name(b->folder, key, &e, err));
    stk_status status = find(b, again, &e, &n, &there, err);
    if (status == STK_OK && !there)
        status = make(l, b, commit, &e, err);
    if (status == STK_OK && !there && !note_read(&e, &n))
        status = stk_error_set(err, STK_IO, "cannot read '%s', which was just written", e.note);
    if (status == STK_OK)
        status = hand_over(&e, b, commit, &n, !there, out, err);
    entry_clear(&e);
    return status;
}

void stk__build_release(stk__build *build)
{
    stk__free(build->directory);
    stk__free(build->failure);
    if (build->lock >= 0)
        close(build->lock);
    *build = (stk__build){.lock = -1};
}

/* ---- trimming ---- */

typedef struct kept {
    char key[KEY_LENGTH + 1];
    struct timespec used;
    uint64_t bytes;
} kept;

typedef struct kept_list {
    kept *items;
    size_t count, capacity;
    uint64_t bytes;
} kept_list;

static int newer_first(const void *a, const void *b)
{
    const struct timespec *x = &((const kept *)a)->used, *y = &((const kept *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static void remove_unused(const char *folder, const char *key, bool half_made_only)
{
    entry e;
    note n;
    if (entry_name(folder, key, &e, NULL) != STK_OK)
        return;
    e.fd = open(e.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Under the lock nobody makes it whole any more. */
    if (e.fd >= 0 && try_lock(e.fd, LOCK_EX) == 0 && same_directory(e.fd, e.path) &&
        !(half_made_only && note_read(&e, &n))) {
        unlink(e.note);
        stk__tree_remove(e.path);
    }
    entry_clear(&e);
}

static void look_at(const char *folder, const char *key, kept_list *list)
{
    entry e;
    note n;
    struct stat st;
    if (entry_name(folder, key, &e, NULL) != STK_OK)
        return;
    if (!note_read(&e, &n) || stat(e.note, &st)) {
        remove_unused(folder, key, true);
    } else if (stk__grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items)) {
        kept *k = &list->items[list->count++];
        *k = (kept){.used = st.st_mtim, .bytes = n.bytes};
        snprintf(k->key, sizeof k->key, "%s", key);
    }
    entry_clear(&e);
}

static bool is_key(const char *name)
{
    return strlen(name) == KEY_LENGTH && strspn(name, "0123456789abcdef") == KEY_LENGTH;
}

void stk__builds_trim(const char *folder, size_t most, uint64_t bytes)
{
    DIR *d = opendir(folder);
    kept_list list = {0};
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        if (is_key(e->d_name))
            look_at(folder, e->d_name, &list);
    }
    closedir(d);
    if (list.count)
        qsort(list.items, list.count, sizeof *list.items, newer_first);
    for (size_t i = 0; i < list.count; i++) {
        list.bytes += STK_MIN(list.items[i].bytes, UINT64_MAX / 2 - list.bytes);
        if (i >= most || list.bytes > bytes)
            remove_unused(folder, list.items[i].key, false);
    }
    stk__free(list.items);
}
