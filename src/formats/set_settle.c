/* The second half of a publication into a directory that others use too, by the writer or by whoever comes by later. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/set_impl.h"
#include "formats/shard_names.h"

#include "base/banned.h"

/* So long a reader waits for a writer that is moving its files into place. */
#define WAIT_MS 60000
#define STEP_MS 10

char *stk__set_publish_name(const char *name)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, ".%s%s", name, STK__PUBLISH_SUFFIX);
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

/* ---- moving the files ---- */

/* The directory that is published into, and the one that comes. */
typedef struct roll {
    const char *dir;
    char *from, *manifest_name;
    char *old_schema, *new_schema; /* the names that these may have */
    int dir_fd, from_fd;
    stk__manifest old, new;
} roll;

static stk_status roll_error(const roll *r, const char *name, const char *what, stk_error *err)
{
    const stk_status status = stk__io_error(err, r->dir, what);
    stk__error_prefix(err, "'%.250s': ", name);
    return status;
}

/* A manifest in one of the two directories; *out_found false: there is none. */
static stk_status load(const char *dir, const char *name, stk__manifest *out, char **out_schema, bool *out_found,
                       stk_error *err)
{
    char *path = stk__set_join(dir, name);
    if (!path)
        return stk__nomem(strlen(dir), err);
    *out_found = access(path, F_OK) == 0;
    stk_status status = *out_found ? stk__manifest_load(path, out, NULL, err) : STK_OK;
    if (status == STK_OK && *out_found && !(*out_schema = stk__set_schema_name(out->pattern)))
        status = stk__nomem(strlen(out->pattern), err);
    stk__free(path);
    return status;
}

/* What the older set has and the new one has not. */
static stk_status remove_old(const roll *r, stk_error *err)
{
    for (size_t i = 0; i < r->old.count; i++) {
        const char *name = r->old.files[i].name;
        if (stk__manifest_find(&r->new, name) || !stk__set_owns(r->old.pattern, r->old_schema, name))
            continue;
        if (unlinkat(r->dir_fd, name, 0) && errno != ENOENT)
            return roll_error(r, name, "cannot remove a file of the older set", err);
    }
    return STK_OK;
}

static stk_status move_new(const roll *r, stk_error *err)
{
    for (size_t i = 0; i < r->new.count; i++) {
        const stk__manifest_file *f = &r->new.files[i];
        struct stat st;
        if (!stk__set_owns(r->new.pattern, r->new_schema, f->name))
            return stk_error_set(err, STK_CORRUPT,
                                 "the manifest in '%.500s' lists '%.250s', which is no name of its pattern", r->from,
                                 f->name);
        if (renameat(r->from_fd, f->name, r->dir_fd, f->name) == 0)
            continue;
        /* Moved before by one who was killed then. */
        if (errno != ENOENT || fstatat(r->dir_fd, f->name, &st, AT_SYMLINK_NOFOLLOW) || st.st_size != f->bytes)
            return roll_error(r, f->name, "cannot move into place", err);
    }
    return STK_OK;
}

static stk_status sync_fd(const roll *r, stk_error *err)
{
    if (fsync(r->dir_fd) && errno != EINVAL && errno != ENOTSUP)
        return stk__io_error(err, r->dir, "cannot sync the directory");
    return STK_OK;
}

/* The order matters: each step may be the last, and all of them may be done again. The new manifest comes last, so that until then
   the old one still says what is to be removed. */
static stk_status roll_files(roll *r, stk_error *err)
{
    bool has_new, has_old;
    STK_TRY(load(r->from, r->manifest_name, &r->new, &r->new_schema, &has_new, err));
    if (has_new) {
        STK_TRY(load(r->dir, r->manifest_name, &r->old, &r->old_schema, &has_old, err));
        STK_TRY(remove_old(r, err));
        STK_TRY(move_new(r, err));
        STK_TRY(sync_fd(r, err));
        if (renameat(r->from_fd, r->manifest_name, r->dir_fd, r->manifest_name))
            return roll_error(r, r->manifest_name, "cannot move into place", err);
        STK_TRY(sync_fd(r, err));
    }
    if (rmdir(r->from) && errno != ENOENT)
        return stk__io_error(err, r->from, "cannot remove the directory that was published from");
    return sync_fd(r, err);
}

stk_status stk__set_roll(const char *dir, const char *name, stk_error *err)
{
    roll r = {.dir = dir, .dir_fd = -1, .from_fd = -1};
    char *publish = stk__set_publish_name(name);
    stk__text manifest = STK__TEXT_INIT;
    stk__text_printf(&manifest, "%s%s", name, STK__MANIFEST_ENDING);
    r.manifest_name = manifest.data;
    r.from = publish ? stk__set_join(dir, publish) : NULL;
    stk_status status = STK_OK;
    if (!r.from || manifest.failed) {
        status = stk__nomem(strlen(dir), err);
    } else {
        r.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r.from_fd = open(r.from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        status = r.dir_fd < 0 || r.from_fd < 0 ? stk__io_error(err, r.from, "cannot open") : roll_files(&r, err);
    }
    if (r.dir_fd >= 0)
        close(r.dir_fd);
    if (r.from_fd >= 0)
        close(r.from_fd);
    stk__manifest_clear(&r.old);
    stk__manifest_clear(&r.new);
    stk__free(r.old_schema);
    stk__free(r.new_schema);
    stk__text_clear(&manifest);
    stk__free(publish);
    stk__free(r.from);
    return status;
}

/* ---- for whoever comes by ---- */

/* The name of the set whose publication an entry of a directory is; 0 bytes: it is none. */
static size_t set_of(const char *entry)
{
    const size_t n = strlen(entry), ending = strlen(STK__PUBLISH_SUFFIX);
    return entry[0] == '.' && n > ending + 1 && strcmp(entry + n - ending, STK__PUBLISH_SUFFIX) == 0 ? n - ending - 1
                                                                                                     : 0;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
}

/* Locked: its writer is gone. *out_gone: the publication has ended meanwhile. */
static stk_status take_over(int fd, const char *path, bool *out_gone, stk_error *err)
{
    for (int waited = 0; waited < WAIT_MS; waited += STEP_MS) {
        struct stat now, ours;
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        *out_gone = lstat(path, &now) || fstat(fd, &ours) || now.st_ino != ours.st_ino || now.st_dev != ours.st_dev;
        if (*out_gone || locked)
            return STK_OK;
        wait_a_little();
    }
    return stk_error_set(err, STK_IO, "a set is being published here, for more than %d s; try again later",
                         WAIT_MS / 1000);
}

/* Only what we, or for root the owner of the directory, left there: a stranger must not have us move files. */
static bool is_ours(int fd, const char *dir)
{
    struct stat st, above;
    if (fstat(fd, &st) || stat(dir, &above))
        return false;
    return st.st_uid == geteuid() || (geteuid() == 0 && st.st_uid == above.st_uid);
}

/* In a directory such as /tmp anybody can leave something that looks like a publication: it must not keep others from reading. */
static bool is_strangers(int fd, const char *dir)
{
    struct stat st, above;
    if (fd < 0 || fstat(fd, &st) || stat(dir, &above) || !(above.st_mode & S_ISVTX) || !(above.st_mode & S_IWOTH))
        return false;
    return st.st_uid != geteuid() && st.st_uid != above.st_uid;
}

static stk_status settle_one(const char *dir, const char *entry, size_t name_size, stk_error *err)
{
    char *path = stk__set_join(dir, entry), *name = stk__strndup(entry + 1, name_size);
    stk_status status = path && name ? STK_OK : stk__nomem(strlen(dir), err);
    const int fd = status == STK_OK ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    bool gone = (status == STK_OK && fd < 0 && errno == ENOENT) || is_strangers(fd, dir);
    if (status == STK_OK && fd < 0 && !gone)
        status = stk__io_error(err, path, "cannot open");
    if (status == STK_OK && !gone)
        status = take_over(fd, path, &gone, err);
    if (status == STK_OK && !gone)
        status = is_ours(fd, dir) ? stk__set_roll(dir, name, err) : stk_error_set(err, STK_IO, "it is of another user");
    if (status != STK_OK) {
        stk__error_prefix(
            err, "a set was being published here when its writer was killed, and cannot be brought to its end; run "
                 "`stoker inspect` on the files as a user who may write there: ");
        if (err && path)
            snprintf(err->file, sizeof err->file, "%s", path);
    }
    if (fd >= 0)
        close(fd);
    stk__free(path);
    stk__free(name);
    return status;
}

stk_status stk__sets_settle(const char *dir, stk_error *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return STK_OK;
    stk_status status = STK_OK;
    const struct dirent *entry;
    while (status == STK_OK && (entry = readdir(d))) {
        const size_t name_size = entry->d_name[0] == '.' ? set_of(entry->d_name) : 0;
        if (name_size)
            status = settle_one(dir, entry->d_name, name_size, err);
    }
    closedir(d);
    return status;
}

/* ---- from patterns to directories ---- */

static stk_status settle_pattern(const char *pattern, stk_error *err)
{
    if (strcmp(pattern, "-") == 0 || stk__path_scheme(pattern))
        return STK_OK;
    char *dir = stk__set_dir_of(pattern);
    if (!dir)
        return stk__nomem(strlen(pattern), err);
    stk__paths dirs = {0};
    stk_status status = STK_OK;
    if (!strpbrk(dir, "*?[{~") || access(dir, F_OK) == 0)
        status = stk__sets_settle(dir, err);
    else if (stk__paths_glob(&dirs, dir, NULL) != STK_OK)
        stk__paths_clear(&dirs); /* who expands the pattern itself tells why */
    for (size_t i = 0; i < dirs.count && status == STK_OK; i++)
        status = stk__sets_settle(dirs.items[i], err);
    stk__paths_clear(&dirs);
    stk__free(dir);
    return status;
}

/* Lists of names have one directory many times in a row. */
stk_status stk__sets_settle_patterns(const char *const *patterns, size_t count, stk_error *err)
{
    const char *before = NULL;
    size_t before_size = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t size = (size_t)(stk__base_name(patterns[i]) - patterns[i]);
        if (!before || size != before_size || memcmp(patterns[i], before, size) != 0)
            STK_TRY(settle_pattern(patterns[i], err));
        before = patterns[i];
        before_size = size;
    }
    return STK_OK;
}
