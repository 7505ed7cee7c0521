/* HDF5 files as datasets of rows: where their chunks lie, and how bytes of chunks become values. */
#ifndef STK_FORMATS_HDF5_H
#define STK_FORMATS_HDF5_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/file.h"
#include "formats/hdf5_filter.h"
#include "formats/hdf5_helper.h"
#include "formats/hdf5_wire.h"

/* One chunk that is there. */
typedef struct stk__h5_chunk {
    uint64_t number; /* in the grid, row-major */
    uint64_t address, size;
    uint64_t mask;
} stk__h5_chunk;

/* See STK__H5_LEAF_... */
typedef struct stk__h5_leaf {
    char *path;
    int kind;
    stk_dtype
        dtype; /* of the values handed out: STK_BYTES for strings and opaque ones; of the elements of a KIND_VLEN */
    size_t size, offset; /* as stored */
    bool swap;
    int pad;
    bool utf8; /* strings: their character set is UTF-8 */
    int32_t ndim;
    int64_t dims[STK__H5_MAX_RANK], strides[STK__H5_MAX_RANK];
    int64_t count;    /* values in an element: the product of dims */
    size_t base_size; /* KIND_VLEN: bytes of one value, and whether they are swapped */
    bool base_swap;
    bool whole; /* it is all of the element, packed: no gaps, no other leaves */
} stk__h5_leaf;

typedef struct stk__h5_attribute {
    char *name;
    int kind;
    size_t size;
    int32_t ndim;
    int64_t dims[STK__H5_MAX_RANK];
    int64_t count;
    uint8_t *data;      /* numbers, little-endian */
    stk_bytes *strings; /* KIND_STRING; NUL-terminated copies */
    bool utf8, big;
} stk__h5_attribute;

/* How the rows of a dataset are reached. */
typedef enum stk__h5_way {
    STK__H5_BY_CHUNK,  /* read a chunk, undo its filters, take rows out of it */
    STK__H5_BY_PLACE,  /* rows lie in the file as they are: contiguous, or chunks of whole rows without filters */
    STK__H5_BY_MEMORY, /* compact: in `compact` */
    STK__H5_BY_LIBRARY /* the helper reads blocks of rows */
} stk__h5_way;

typedef struct stk__h5_dataset {
    char *path, *type;
    char *why;        /* BY_LIBRARY, or no leaves: the reason */
    char *index_kind; /* for people; may be NULL */
    int32_t rank;
    int64_t dims[STK__H5_MAX_RANK];
    uint64_t max_dims[STK__H5_MAX_RANK];
    int64_t rows; /* dims[0]; 1 for a scalar */
    size_t element_bytes;
    int64_t row_elements;
    size_t row_bytes; /* row_elements * element_bytes */
    int layout;
    stk__h5_leaf *leaves;
    size_t leaf_count;
    stk__h5_filter *filters;
    size_t filter_count;
    uint8_t *fill; /* one element, never NULL */
    bool has_fill; /* the user set it */
    bool raw_edges;
    int64_t address; /* contiguous; -1: never written */
    uint8_t *compact;
    int64_t stored_bytes, stored_chunks;
    stk__h5_attribute *attributes;
    size_t attribute_count;
    char **sources; /* files that the data of a virtual or external one lies in, as they are written there */
    size_t source_count;

    /* derived, for every layout: rows come in blocks of `block_rows`, each `across` chunks wide */
    stk__h5_way way;
    int64_t chunk_dims[STK__H5_MAX_RANK]; /* not chunked: block_rows and the whole of the other dimensions */
    int64_t grid[STK__H5_MAX_RANK];       /* chunks along each dimension */
    int64_t block_rows, blocks, across;
    size_t chunk_elements, chunk_bytes; /* of a decoded chunk */
    /* BY_CHUNK: filter 0 is a shuffle of whole elements of the only leaf, undone while rows are taken */
    bool keep_shuffled;
    stk__h5_chunk *chunks; /* sorted by number; NULL after describe */
    size_t chunk_count;
} stk__h5_dataset;

typedef struct stk__h5_file {
    char *path;
    stk__file_id id; /* when it was indexed */
    char *library;   /* version of libhdf5 that told all this */
    int offset_size, length_size;
    int64_t base;
    stk__h5_dataset *datasets; /* in the order asked for; all: sorted by path */
    size_t dataset_count;
    char **skipped; /* what could not be looked at, and why */
    size_t skipped_count;
    stk__h5_attribute *attributes;
    size_t attribute_count;
    bool cached;   /* the index came from the cache */
    size_t memory; /* bytes that all this takes */
} stk__h5_file;

/*
 * Reads an answer of the helper or a cached index (a FILE message), and checks everything: sizes multiply without
 * overflow, chunks and contiguous data lie inside a file of size_bytes and are sorted, leaves lie inside their
 * elements, filters are sound. A dataset that only breaks what our own path needs (an unknown filter) becomes
 * BY_LIBRARY with a reason. CORRUPT with the dataset and what is wrong.
 */
stk_status stk__h5_parse(const uint8_t *data, size_t size, int64_t size_bytes, stk__h5_file **out, stk_error *err);
void stk__h5_file_free(stk__h5_file *file);

/* Whether a file begins like HDF5: the signature at 0, 512, 1024, 2048, ... */
bool stk__h5_is_file(const char *path);

/*
 * Datasets by path (count 0: all) without their chunk tables. UNSUPPORTED or INVALID with near names when one is not
 * there.
 */
stk_status stk__h5_describe(stk__h5_helper *helper, const char *path, const char *const *datasets, size_t count,
                            stk__h5_file **out, stk_error *err);
/*
 * The same with chunk tables. With a cache_dir it is kept there, keyed by path, file identity (size, mtime, ctime,
 * inode, device), the datasets asked for and STK__H5_WIRE_VERSION; a damaged or stale one is made anew, one that cannot be
 * written is no error. The file must not change meanwhile: CORRUPT.
 */
stk_status stk__h5_index(stk__h5_helper *helper, const char *path, const char *const *datasets, size_t count,
                         const char *cache_dir, stk__h5_file **out, stk_error *err);

/* The chunk of that number, or NULL when it was never written. */
const stk__h5_chunk *stk__h5_find(const stk__h5_dataset *d, uint64_t number);

/*
 * Rows [first, first + rows) of a dataset as libhdf5 gives them, rows * row_bytes into `out`. Values of variable
 * length point into *out_heap, of at most max_heap bytes, to be freed with stk__free; NULL: there are none. Any
 * thread, one at a time.
 */
stk_status stk__h5_library_rows(stk__h5_helper *helper, const char *path, const stk__h5_dataset *d, int64_t first,
                                int64_t rows, size_t max_heap, uint8_t *out, uint8_t **out_heap, size_t *out_heap_bytes,
                                stk_error *err);

/* ---- values ---- */

/*
 * Takes values of `leaf` out of a decoded chunk (chunk `number`; still shuffled when d->keep_shuffled, unless
 * `plain`) for rows [row, row + rows), which all lie in that chunk's block. Row r goes to out + (r - row) *
 * out_stride, in the field's own order: row_elements of the dataset times leaf->count values of leaf->size bytes,
 * little-endian; of these the part that this chunk has is written. out_stride >= row_elements * leaf->count *
 * leaf->size.
 */
void stk__h5_take(const stk__h5_dataset *d, const stk__h5_leaf *leaf, uint64_t number, const uint8_t *chunk, bool plain,
                  int64_t row, int64_t rows, uint8_t *out, size_t out_stride);
/*
 * The same from rows that lie one behind the other as stored (BY_PLACE, BY_MEMORY, BY_LIBRARY): `data` starts with
 * row `row`.
 */
void stk__h5_take_rows(const stk__h5_dataset *d, const stk__h5_leaf *leaf, const uint8_t *data, int64_t rows,
                       uint8_t *out, size_t out_stride);
/* Fills a chunk-sized buffer (or n elements) with the fill value. */
void stk__h5_fill(const stk__h5_dataset *d, uint8_t *out, size_t elements);

/* The length of a fixed string of leaf->size bytes at `data` without its padding. */
size_t stk__h5_string_length(const stk__h5_leaf *leaf, const uint8_t *data);

/*
 * Global heaps of one file, for values of variable length; one for each thread. Keeps the collections it read last,
 * up to a limit of bytes.
 */
typedef struct stk__h5_heap stk__h5_heap;
stk_status stk__h5_heap_new(size_t max_bytes, stk__h5_heap **out, stk_error *err);
void stk__h5_heap_free(stk__h5_heap *heap);
/*
 * The value that a stored descriptor (leaf->size bytes: length, address, index) points to: a view that lives until
 * the next call. `unit` is the size of one value (1 for strings): *out_size is length * unit. CORRUPT with what does
 * not fit: no GCOL at that address, an index that is not there, an object shorter than the descriptor says.
 */
stk_status stk__h5_heap_get(stk__h5_heap *heap, const stk__h5_file *file, int fd, const uint8_t *descriptor,
                            size_t unit, const uint8_t **out_data, size_t *out_size, stk_error *err);
/* The same for an answer of READ: its heap lies in memory. */
stk_status stk__h5_inline_get(const uint8_t *heap, size_t heap_size, const uint8_t *descriptor, size_t unit,
                              const uint8_t **out_data, size_t *out_size, stk_error *err);

#endif
