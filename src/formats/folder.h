/* Directories with a directory for each class, and pictures in these: the files in order, by number. */
#ifndef STK_FORMATS_FOLDER_H
#define STK_FORMATS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

typedef struct stk__folder stk__folder;

typedef struct stk__folder_config {
    const char *extensions;     /* of the files that count: "jpg;png" */
    const char *const *classes; /* names of the directories, in order */
    size_t class_count;         /* 0: all directories, sorted by name */
    bool flat;                  /* there are no classes: all files of the roots and below them, as class 0 */
    /* Called now and then while listing; may be NULL. Returning false cancels. */
    bool (*progress)(void *arg, int64_t files);
    void *progress_arg;
} stk__folder_config;

/* The file is root/directory/name. */
typedef struct stk__folder_place {
    int64_t class_number;
    const char *root;
    const char *directory; /* the class, and what lies below it; empty: the root itself */
    const char *name;
} stk__folder_place;

/*
 * Lists the files of every class, also in directories further down. They come by class, then in the order of `roots`, then
 * by directory, then by name, all in byte order. Hidden files and directories are left out; links are followed. Fails
 * when there is no class, or a class without a file. `roots` must live as long as the folder.
 */
stk_status stk__folder_open(const stk__paths *roots, const stk__folder_config *config, stk__folder **out,
                            stk_error *err);
void stk__folder_close(stk__folder *folder);

/* All const after open: any thread. */
int64_t stk__folder_count(const stk__folder *folder);
int64_t stk__folder_class_count(const stk__folder *folder);
const char *stk__folder_class(const stk__folder *folder, int64_t i);
/* Number of the class's first file. i == class_count gives the total. */
int64_t stk__folder_first(const stk__folder *folder, int64_t i);
void stk__folder_find(const stk__folder *folder, int64_t index, stk__folder_place *out);
/* Depends on the names of classes, directories and files; not on sizes, times, or where the roots lie. */
uint64_t stk__folder_names(const stk__folder *folder);

/* What a look at the files gives. */
typedef struct stk__folder_seen {
    uint64_t contents; /* names, sizes, and the edges of the files that are sampled */
    uint64_t times;    /* sizes, mtime and ctime of all files */
    int64_t newest_ns; /* the last of these times */
} stk__folder_seen;

/* Edges are read of so many files at most, evenly chosen: of all of them where there are not more. */
enum { STK__FOLDER_SAMPLES = 10000 };
bool stk__folder_sampled(int64_t index, int64_t count);

/* Looks at every file: a stat for each, and with `inside` at most STK__FOLDER_SAMPLES reads; else contents are unknown. */
void stk__folder_look(const stk__folder *folder, int threads, bool inside, stk__folder_seen *out);
/* Bytes of memory that it takes. */
size_t stk__folder_memory(const stk__folder *folder);

#endif
