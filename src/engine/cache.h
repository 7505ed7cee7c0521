/*
 * The parts of the cache: entries (where each sample is), the file, and the table of files that runs of this process share.
 *
 * Runs with the same file and the same fingerprint have one store. Whoever is about to make a sample claims it, so that others
 * wait for it in place of making it again; nobody waits while it has claims of its own, so nobody waits for ever.
 */
#ifndef STK_ENGINE_CACHE_H
#define STK_ENGINE_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "engine/budget.h"

#define STK__CACHE_PAGE_ENTRIES 1024
#define STK__CACHE_PAGE_COUNT ((size_t)1 << 22)

/* Where a packed sample lies in a file. */
typedef struct stk__cache_place {
    int64_t offset, size;
    int32_t dropped_at; /* the step that dropped it, and there are no bytes; or STK__ROW_KEPT */
    uint32_t check;
    uint8_t file; /* number in `fds` of the store */
} stk__cache_place;

typedef enum stk__cache_entry_state {
    STK__CACHE_EMPTY,
    STK__CACHE_STORED, /* at `place`, or in memory */
    STK__CACHE_BAD,    /* its bytes failed their check; to be made again */
    STK__CACHE_MENDED, /* made again, at `mended` */
    STK__CACHE_LOST    /* failed once more: made each time from here on */
} stk__cache_entry_state;

/* `place` is written once, before `state` leaves EMPTY, and `mended` before it becomes MENDED; both under the store's lock. */
typedef struct stk__cache_entry {
    union {
        _Atomic(struct stk__cache_blob *) in_memory; /* without a file */
        _Atomic(stk__cache_place *) mended;          /* with one */
    };
    stk__cache_place place;
    _Atomic uint8_t state; /* changes under the store's lock; looked at without it */
    atomic_bool claimed;   /* somebody is making it */
} stk__cache_entry;

/* By which a file at the path is known again. */
typedef struct stk__cache_file_id {
    dev_t device;
    ino_t inode;
    int64_t size_bytes, mtime_ns;
} stk__cache_file_id;

enum { STK__CACHE_FILES = 8 };

typedef struct stk__cache_store {
    /* set before it is shared, then const */
    char *path; /* NULL: in memory, never shared */
    uint64_t fingerprint;
    pid_t pid;

    _Atomic(stk__cache_entry *) *pages;
    _Atomic size_t page_end; /* no page in use lies behind it, so that small caches need not look at all */
    _Atomic int64_t page_bytes;
    _Atomic int64_t stored;    /* samples that can be had */
    _Atomic int64_t looked_ns; /* when somebody last looked for a file that another process published */
    atomic_bool cramped;       /* the budget had no room for some entries */

    pthread_mutex_t lock;
    pthread_cond_t unclaimed;
    /* guarded by lock */
    bool opened;
    stk__new_file temp;        /* what is being written; stream NULL: nothing */
    int64_t end;               /* of it */
    uint8_t temp_number;       /* its number in fds */
    int fds[STK__CACHE_FILES]; /* to read from; an entry that names one was stored after it was set */
    int fd_count;
    stk__cache_file_id known; /* the file at the path, as far as it was looked at */
    int64_t published;        /* samples in the fitting file at the path; -1: there is none */
    int64_t mended;           /* samples made again since it was published */
    bool no_temp;             /* none can be written, and none must be */

    /* guarded by the table's lock */
    int users;
    struct stk__cache_store *next;
} stk__cache_store;

/* ---- cache_store.c ---- */

/* A store of its own; the path is copied and may be NULL. */
stk_status stk__cache_store_new(const char *path, uint64_t fingerprint, stk__cache_store **out, stk_error *err);
/*
 * The store that this process has for that file and fingerprint, or a new one, with one more user. Whoever finds it not `opened`
 * opens it.
 */
stk_status stk__cache_store_join(const char *path, uint64_t fingerprint, stk__cache_store **out, stk_error *err);
/* One user less; the last one frees it. */
void stk__cache_store_leave(stk__cache_store *s);

/* The entry of a sample; NULL: there is no page for it. */
stk__cache_entry *stk__cache_find(const stk__cache_store *s, int64_t index);
/*
 * The same, with a new page where there is none. The page is charged to `budget`, and *charged counts what is; NULL when there
 * is no room.
 */
stk__cache_entry *stk__cache_make(stk__cache_store *s, int64_t index, stk__budget *budget, _Atomic int64_t *charged);
/* Where its bytes are, for an entry that is STORED or MENDED; false: it is neither. */
bool stk__cache_place_of(const stk__cache_entry *e, stk__cache_place *out);
/* Notes that its bytes failed their check. */
void stk__cache_spoil_locked(stk__cache_store *s, stk__cache_entry *e);
/* The same for those at `place`, where nobody did so before: then it returns true. Takes the lock. */
bool stk__cache_spoil(stk__cache_store *s, stk__cache_entry *e, const stk__cache_place *place);

/* ---- cache_file.c: all but read with the store's lock held ---- */

/* Reads a sample's bytes and checks them; false when they are not what was stored. Any thread. */
bool stk__cache_read(const stk__cache_store *s, const stk__cache_place *place, void *out);
/*
 * Looks at the path. A fitting file that was not known is taken in: what the store lacks is read from there. INVALID when there is
 * something that is no cache file, which must not be overwritten. *out_unfit: there is a cache file of something else.
 */
stk_status stk__cache_adopt_locked(stk__cache_store *s, stk__budget *budget, _Atomic int64_t *charged, bool *out_unfit,
                                   stk_error *err);
/* Begins a new file, hidden until it is published. */
stk_status stk__cache_temp_locked(stk__cache_store *s, stk_error *err);
/* Puts a sample into the new file; the entry must be EMPTY or BAD. */
stk_status stk__cache_append_locked(stk__cache_store *s, stk__cache_entry *e, const void *data, size_t size,
                                    int32_t dropped_at, stk_error *err);
/* Makes the new file whole, with what lies in other files copied and checked, and puts it at the path. */
stk_status stk__cache_publish_locked(stk__cache_store *s, stk_error *err);

#endif
