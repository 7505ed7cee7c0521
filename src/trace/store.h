/* Memory of the columns: heap while small, then pages of their own, past the cap a temporary file, or a cached file. */
#ifndef STK_TRACE_STORE_H
#define STK_TRACE_STORE_H

#include "trace/model.h"

typedef enum stk__column_place { STK__IN_HEAP, STK__IN_PAGES, STK__IN_FILE, STK__IN_CACHE } stk__column_place;

typedef struct stk__column {
    void *data;
    size_t capacity; /* bytes */
    stk__column_place place;
    int fd; /* IN_FILE */
} stk__column;

/* One number for every column and table of the model, and for the two arrays of the strings. */
enum {
#define STK__COLUMN_ENUM(group, type, name) STK__COLUMN_##group##_##name,
    STK__TRACE_COLUMNS(STK__COLUMN_ENUM)
#undef STK__COLUMN_ENUM
#define STK__TABLE_ENUM(type, name, count) STK__TABLE_##name,
        STK__TRACE_TABLES(STK__TABLE_ENUM)
#undef STK__TABLE_ENUM
            STK__STRING_OFFSETS,
    STK__STRING_BYTES,
    STK__STORE_COLUMNS
};

typedef struct stk__store {
    uint64_t cap_bytes;    /* 0: none */
    uint64_t memory_bytes; /* in heap and pages */
    uint64_t file_bytes;   /* in temporary files */
    char *temp_dir;
    stk__column columns[STK__STORE_COLUMNS];
    void *cache; /* the mapped cache file that IN_CACHE columns point into; NULL */
    size_t cache_bytes;
    bool will_change;
    stk_error error; /* why the last growth failed */
} stk__store;

stk__store *stk__store_new(uint64_t cap_bytes, const char *temp_dir);
void stk__store_free(stk__store *s);

/* Makes room for `want` bytes; keeps what is there. On failure the column is as before, and s->error tells why. */
bool stk__column_grow(stk__store *s, stk__column *c, size_t want);
void stk__column_clear(stk__store *s, stk__column *c);
/* Gives pages in files back: of all columns of the trace; of one that is not part of it. */
void stk__store_trim(stk__store *s);
void stk__column_trim(const stk__column *c);

/* Where the pointer and the number of rows of a column or table are in the trace, and the size of a row. */
typedef struct stk__column_info {
    const char *name;      /* "slices.ts" */
    size_t pointer, count; /* offsets in stk__trace */
    size_t item_bytes;
} stk__column_info;
extern const stk__column_info stk__column_infos[STK__STORE_COLUMNS];
/* Rows of a column; the strings' offsets have one more than there are strings. */
size_t stk__column_rows(const stk__trace *t, int column);
void **stk__column_pointer(stk__trace *t, int column);

/* Everything in the trace lies in its tables: numbers of rows are in range, orders hold. For files from the cache. */
bool stk__trace_is_sound(const stk__trace *t);

/* ---- the cache: cache.c ---- */

/* The file for these inputs, or NULL when they cannot be cached (a pipe, too small to be worth it). Freed by stk__free. */
char *stk__trace_cache_path(const char *const *paths, size_t count, const stk__trace_options *options);
/* NULL when there is none that fits. */
stk__trace *stk__trace_cache_load(const char *path, uint64_t memory_bytes);
/* Writes, then removes the oldest until the directory is below its cap. A failure to write is no failure of the reading. */
void stk__trace_cache_save(const stk__trace *t, const char *path, uint64_t cap_bytes);

#endif
