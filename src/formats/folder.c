/* Listing of class directories; names are kept in one text, one behind the other. */
#define _GNU_SOURCE
#include "formats/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/extension.h"

#include "base/banned.h"

enum { REPORT_STEP = 4096 };

/* A directory that has files of its own. */
typedef struct folder_dir {
    int64_t class_number, root;
    size_t path;  /* in `text`: relative to the root */
    size_t names; /* in `name_at`: its files, sorted */
    int64_t count, first;
} folder_dir;

struct stk__folder {
    /* const after open */
    const stk__paths *roots;
    char **classes;
    size_t class_count;
    int64_t *firsts; /* by class, and the total */
    folder_dir *dirs;
    size_t dir_count, dir_capacity;
    stk__text text; /* paths and names, each with its NUL */
    size_t *name_at;
    size_t name_count, name_capacity;
    uint64_t names_hash;
};

/* Names of one directory. */
typedef struct names {
    stk__text text;
    size_t count;
} names;

/* A directory that is being walked, for finding links that lead back up. */
typedef struct ancestor {
    const struct ancestor *up;
    dev_t device;
    ino_t inode;
} ancestor;

typedef struct walk {
    stk__folder *folder;
    const stk__folder_config *config;
    stk__text path; /* of the directory at hand */
    size_t root_length;
    int64_t class_number, root;
    int64_t others; /* files with other extensions */
    int64_t reported;
} walk;

static stk_status dir_error(const char *path, int code, stk_error *err)
{
    stk_error_set(err, STK_IO, "cannot list the directory: %s", strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

/* ---- one directory ---- */

static bool add_name(names *to, const char *name)
{
    stk__text_write(&to->text, name, strlen(name) + 1);
    to->count++;
    return !to->text.failed;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Pointers to the names, sorted; NULL when out of memory. Free it with stk__free. */
static char **sorted(const names *from)
{
    char **items = stk__calloc(from->count + 1, sizeof *items);
    char *p = from->text.data;
    for (size_t i = 0; items && i < from->count; i++, p += strlen(p) + 1)
        items[i] = p;
    if (items && from->count)
        qsort(items, from->count, sizeof *items, compare_names);
    return items;
}

static bool has_extension(const char *list, const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && stk__extension_rank(list, dot + 1, strlen(dot + 1)) >= 0;
}

typedef enum entry_kind { ENTRY_FILE, ENTRY_DIRECTORY, ENTRY_OTHER } entry_kind;

/* Links count as what they lead to; one that leads nowhere is a file, which then cannot be read. */
static entry_kind kind_of(DIR *dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type == DT_REG)
        return ENTRY_FILE;
    if (entry->d_type == DT_DIR)
        return ENTRY_DIRECTORY;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return ENTRY_OTHER;
    if (fstatat(dirfd(dir), entry->d_name, &st, 0) != 0)
        return ENTRY_FILE;
    return S_ISDIR(st.st_mode) ? ENTRY_DIRECTORY : S_ISREG(st.st_mode) ? ENTRY_FILE : ENTRY_OTHER;
}

/* Names of files and directories, but for hidden ones. */
static stk_status read_names(DIR *dir, const char *path, const char *extensions, names *files, names *dirs,
                             int64_t *others, stk_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? dir_error(path, errno, err) : STK_OK;
        if (entry->d_name[0] == '.')
            continue;
        const entry_kind kind = kind_of(dir, entry);
        bool ok = true;
        if (kind == ENTRY_DIRECTORY)
            ok = add_name(dirs, entry->d_name);
        else if (kind == ENTRY_FILE && files && has_extension(extensions, entry->d_name))
            ok = add_name(files, entry->d_name);
        else
            ++*others;
        if (!ok)
            return stk__nomem(strlen(entry->d_name), err);
    }
}

/* ---- the walk ---- */

static stk_status report(walk *w, stk_error *err)
{
    const int64_t done = (int64_t)w->folder->name_count;
    if (done - w->reported < REPORT_STEP)
        return STK_OK;
    w->reported = done;
    if (w->config->progress && !w->config->progress(w->config->progress_arg, done))
        return stk_error_set(err, STK_CANCELLED, "cancelled while listing");
    return STK_OK;
}

/* Takes the files of the directory at hand into the folder. */
static stk_status keep_files(walk *w, const names *files, stk_error *err)
{
    stk__folder *f = w->folder;
    if (!files->count)
        return STK_OK;
    char **items = sorted(files);
    if (!items || !stk__grow((void **)&f->dirs, &f->dir_capacity, f->dir_count + 1, sizeof *f->dirs) ||
        !stk__grow((void **)&f->name_at, &f->name_capacity, f->name_count + files->count, sizeof *f->name_at)) {
        stk__free(items);
        return stk__nomem(files->count * sizeof *items, err);
    }
    f->dirs[f->dir_count++] = (folder_dir){.class_number = w->class_number,
                                           .root = w->root,
                                           .path = f->text.length,
                                           .names = f->name_count,
                                           .count = (int64_t)files->count};
    const char *path = w->path.data + w->root_length;
    path += *path == '/'; /* below a root without classes */
    stk__text_write(&f->text, path, strlen(path) + 1);
    for (size_t i = 0; i < files->count; i++) {
        f->name_at[f->name_count++] = f->text.length;
        stk__text_write(&f->text, items[i], strlen(items[i]) + 1);
    }
    stk__free(items);
    return f->text.failed ? stk__nomem(f->text.length, err) : report(w, err);
}

static stk_status walk_dir(walk *w, const ancestor *up, stk_error *err);

static stk_status walk_below(walk *w, const names *dirs, const ancestor *self, stk_error *err)
{
    const size_t length = w->path.length;
    const char *name = dirs->text.data;
    for (size_t i = 0; i < dirs->count; i++, name += strlen(name) + 1) {
        stk__text_printf(&w->path, "/%s", name);
        if (w->path.failed)
            return stk__nomem(length + strlen(name), err);
        STK_TRY(walk_dir(w, self, err));
        w->path.length = length;
        w->path.data[length] = 0;
    }
    return STK_OK;
}

static bool leads_back(const ancestor *self)
{
    for (const ancestor *a = self->up; a; a = a->up)
        if (a->device == self->device && a->inode == self->inode)
            return true;
    return false;
}

/* The files in w->path and below. */
static stk_status walk_dir(walk *w, const ancestor *up, stk_error *err)
{
    DIR *dir = opendir(w->path.data);
    struct stat st;
    if (!dir || fstat(dirfd(dir), &st) != 0) {
        const int code = errno;
        if (dir)
            closedir(dir);
        return dir_error(w->path.data, code, err);
    }
    const ancestor self = {up, st.st_dev, st.st_ino};
    if (leads_back(&self)) { /* its files are listed already */
        closedir(dir);
        return STK_OK;
    }
    names files = {0}, dirs = {0};
    stk_status status = read_names(dir, w->path.data, w->config->extensions, &files, &dirs, &w->others, err);
    closedir(dir);
    if (status == STK_OK)
        status = keep_files(w, &files, err);
    if (status == STK_OK)
        status = walk_below(w, &dirs, &self, err);
    stk__text_clear(&files.text);
    stk__text_clear(&dirs.text);
    return status;
}

/* ---- classes ---- */

/* All directories in the roots, sorted and once each. */
static stk_status find_classes(stk__folder *f, const names *found, stk_error *err)
{
    char **items = sorted(found);
    f->classes = items ? stk__calloc(found->count + 1, sizeof *f->classes) : NULL;
    bool ok = f->classes != NULL;
    for (size_t i = 0; ok && i < found->count; i++) {
        if (i > 0 && strcmp(items[i], items[i - 1]) == 0)
            continue;
        f->classes[f->class_count] = stk__strdup(items[i]);
        ok = f->classes[f->class_count] != NULL;
        f->class_count += ok;
    }
    stk__free(items);
    return ok ? STK_OK : stk__nomem(found->count * sizeof *items, err);
}

/* The user's own, in the user's order. */
static stk_status take_classes(stk__folder *f, const stk__folder_config *config, stk_error *err)
{
    names given = {0};
    f->classes = stk__calloc(config->class_count, sizeof *f->classes);
    for (size_t i = 0; f->classes && i < config->class_count; i++, f->class_count++)
        if (!add_name(&given, config->classes[i]) || !(f->classes[i] = stk__strdup(config->classes[i])))
            break;
    char **items = f->class_count == config->class_count ? sorted(&given) : NULL;
    stk_status status = items ? STK_OK : stk__nomem(config->class_count * sizeof *items, err);
    for (size_t i = 1; items && i < given.count && status == STK_OK; i++)
        if (strcmp(items[i], items[i - 1]) == 0)
            status = stk_error_set(err, STK_INVALID, "class '%.100s' is given twice", items[i]);
    stk__free(items);
    stk__text_clear(&given.text);
    return status;
}

static stk_status no_classes(const stk__folder *f, int64_t others, stk_error *err)
{
    stk_error_set(err, STK_IO, "has no directory in it, but %lld other entries; wanted a directory for each class "
                  "(labels=false takes pictures without classes)",
                  (long long)others);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", f->roots->count ? f->roots->items[0] : "");
    return STK_IO;
}

/* One class without a name, so that all the rest is the same. */
static stk_status take_no_class(stk__folder *f, stk_error *err)
{
    f->classes = stk__calloc(1, sizeof *f->classes);
    if (!f->classes || !(f->classes[0] = stk__strdup("")))
        return stk__nomem(sizeof *f->classes, err);
    f->class_count = 1;
    return STK_OK;
}

static stk_status list_classes(stk__folder *f, const stk__folder_config *config, stk_error *err)
{
    names found = {0};
    int64_t others = 0;
    stk_status status = STK_OK;
    for (size_t i = 0; i < f->roots->count && status == STK_OK; i++) {
        DIR *dir = opendir(f->roots->items[i]);
        if (!dir) {
            status = dir_error(f->roots->items[i], errno, err);
            break;
        }
        status = read_names(dir, f->roots->items[i], NULL, NULL, &found, &others, err);
        closedir(dir);
    }
    if (status == STK_OK && found.count == 0 && !config->class_count)
        status = no_classes(f, others, err);
    if (status == STK_OK)
        status = config->class_count ? take_classes(f, config, err) : find_classes(f, &found, err);
    stk__text_clear(&found.text);
    return status;
}

/* ".jpg, .png" */
static void put_extensions(stk__text *t, const char *list)
{
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, ";");
        stk__text_printf(t, "%s.%.*s", t->length ? ", " : "", (int)n, p);
        p += n + (p[n] == ';');
    }
}

static stk_status empty_class(const walk *w, const char *name, stk_error *err)
{
    char list[256];
    stk__text t;
    stk__text_fixed(&t, list, sizeof list);
    put_extensions(&t, w->config->extensions);
    if (w->config->flat)
        stk_error_set(err, STK_IO, "has no file, wanted at least one that ends in %s; %lld others are there", list,
                      (long long)w->others);
    else
        stk_error_set(err, STK_IO,
                      "class '%.100s' has no file, wanted at least one that ends in %s; %lld others are there", name, list,
                      (long long)w->others);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", w->folder->roots->items[0]);
    return STK_IO;
}

/* The files of one class in all roots; a root need not have each class. */
static stk_status walk_class(walk *w, const char *name, stk_error *err)
{
    stk__folder *f = w->folder;
    const size_t before = f->name_count;
    w->others = 0;
    for (size_t i = 0; i < f->roots->count; i++) {
        struct stat st;
        w->root = (int64_t)i;
        stk__text_reset(&w->path);
        stk__text_printf(&w->path, w->config->flat ? "%s" : "%s/", f->roots->items[i]);
        w->root_length = w->path.length;
        stk__text_puts(&w->path, name);
        if (w->path.failed)
            return stk__nomem(strlen(name), err);
        if (!w->config->flat && stat(w->path.data, &st) != 0 && errno == ENOENT)
            continue;
        STK_TRY(walk_dir(w, NULL, err));
    }
    return f->name_count > before ? STK_OK : empty_class(w, name, err);
}

/* ---- the whole ---- */

/* As os.walk sorted by directory gives them: "a" before "a-b" before "a/b". */
static int compare_dirs(const void *x, const void *y, void *text)
{
    const folder_dir *a = x, *b = y;
    if (a->class_number != b->class_number)
        return a->class_number < b->class_number ? -1 : 1;
    if (a->root != b->root)
        return a->root < b->root ? -1 : 1;
    return strcmp((const char *)text + a->path, (const char *)text + b->path);
}

/* Puts directories in order and numbers their files. */
static stk_status number_files(stk__folder *f, stk_error *err)
{
    f->firsts = stk__calloc(f->class_count + 1, sizeof *f->firsts);
    if (!f->firsts)
        return stk__nomem((f->class_count + 1) * sizeof *f->firsts, err);
    qsort_r(f->dirs, f->dir_count, sizeof *f->dirs, compare_dirs, f->text.data);
    int64_t first = 0;
    for (size_t i = 0; i < f->dir_count; i++) {
        folder_dir *d = &f->dirs[i];
        /* Path and names of a directory lie behind each other. */
        const size_t last = f->name_at[d->names + (size_t)d->count - 1];
        const size_t end = last + strlen(f->text.data + last) + 1;
        f->names_hash = XXH3_64bits_withSeed(f->text.data + d->path, end - d->path,
                                             f->names_hash ^ (uint64_t)d->class_number << 32 ^ (uint64_t)d->root);
        d->first = first;
        first += d->count;
        f->firsts[d->class_number + 1] = first;
    }
    return STK_OK;
}

stk_status stk__folder_open(const stk__paths *roots, const stk__folder_config *config, stk__folder **out,
                            stk_error *err)
{
    stk__folder *f = stk__calloc(1, sizeof *f);
    if (!f)
        return stk__nomem(sizeof *f, err);
    f->roots = roots;
    walk w = {.folder = f, .config = config};
    stk_status status = config->flat ? take_no_class(f, err) : list_classes(f, config, err);
    for (size_t i = 0; i < f->class_count && status == STK_OK; i++) {
        w.class_number = (int64_t)i;
        status = walk_class(&w, f->classes[i], err);
    }
    stk__text_clear(&w.path);
    if (status == STK_OK)
        status = number_files(f, err);
    if (status != STK_OK) {
        stk__folder_close(f);
        return status;
    }
    *out = f;
    return STK_OK;
}

void stk__folder_close(stk__folder *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->class_count; i++)
        stk__free(f->classes[i]);
    stk__free(f->classes);
    stk__free(f->firsts);
    stk__free(f->dirs);
    stk__free(f->name_at);
    stk__text_clear(&f->text);
    stk__free(f);
}

int64_t stk__folder_count(const stk__folder *f)
{
    return f->firsts[f->class_count];
}

int64_t stk__folder_class_count(const stk__folder *f)
{
    return (int64_t)f->class_count;
}

const char *stk__folder_class(const stk__folder *f, int64_t i)
{
    return f->classes[i];
}

int64_t stk__folder_first(const stk__folder *f, int64_t i)
{
    return f->firsts[i];
}

void stk__folder_find(const stk__folder *f, int64_t index, stk__folder_place *out)
{
    /* The last directory that starts at or before `index`. */
    const folder_dir *d = f->dirs;
    for (size_t n = f->dir_count; n > 1;) {
        const size_t half = n / 2;
        d += d[half].first <= index ? half : 0;
        n -= half;
    }
    *out = (stk__folder_place){.class_number = d->class_number,
                               .root = f->roots->items[d->root],
                               .directory = f->text.data + d->path,
                               .name = f->text.data + f->name_at[d->names + (size_t)(index - d->first)]};
}

uint64_t stk__folder_names(const stk__folder *f)
{
    return f->names_hash;
}

size_t stk__folder_memory(const stk__folder *f)
{
    return sizeof *f + f->text.capacity + f->name_capacity * sizeof *f->name_at + f->dir_capacity * sizeof *f->dirs +
           f->class_count * (sizeof *f->classes + sizeof *f->firsts);
}
