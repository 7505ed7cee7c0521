/* A new HDF5 file, filled with the rows of batches: one dataset for each field. It appears whole or not at all. */
#ifndef STK_FORMATS_HDF5_WRITER_H
#define STK_FORMATS_HDF5_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "formats/hdf5.h"

/* Bytes of a chunk whose size nobody chose, and the most rows that it has; the most bytes that any chunk may have. */
#define STK__H5_CHUNK_BYTES ((size_t)1 << 20)
#define STK__H5_CHUNK_ROWS 65536
#define STK__H5_CHUNK_MAX ((size_t)1 << 30)

/*
 * How a field becomes a dataset. Rows of numbers, and of bytes as KIND_STRING or KIND_OPAQUE, go into chunks that are
 * compressed here. Values of variable length (KIND_VLEN_STRING, KIND_VLEN) are written by libhdf5, into heaps that no
 * filter reaches, so their filters are not used. Plain data; what it points to lives as long as the writer.
 */
typedef struct stk__h5_new {
    const char *name; /* of the column */
    const char *path; /* of the dataset; NULL: "/" and the name */
    stk_dtype dtype;  /* of the column */
    int kind;     /* STK__H5_KIND_..., how a value is stored. VLEN: a sequence of `dtype`, or of uint8 for STK_BYTES */
    size_t size;  /* STRING, OPAQUE: bytes of a value; of numbers it is that of the dtype */
    int pad;      /* STRING: STK__H5_PAD_... */
    bool utf8;    /* STRING, VLEN_STRING: values must be UTF-8, and the dataset says so; else only NULs are refused */
    bool swap;    /* big-endian in the file */
    int32_t ndim; /* of a row; 0 for a sequence of numbers */
    int64_t shape[STK_MAX_DIMS];
    int64_t chunk_rows;            /* 0: about STK__H5_CHUNK_BYTES */
    const stk__h5_filter *filters; /* values of shuffle and lzf are filled in by the writer */
    size_t filter_count;
    const stk__h5_attribute *attributes;
    size_t attribute_count;
    const uint8_t *fill; /* one value as stored, not for values of variable length; NULL: none */
    size_t fill_size;
} stk__h5_new;

typedef struct stk__h5_writer_config {
    const char *path;
    const stk__h5_new *fields;
    size_t field_count;
    const stk__h5_attribute *attributes; /* of the root group */
    size_t attribute_count;
    int threads;          /* that compress; the file is the same for any number */
    size_t memory_wanted; /* fewer chunks are under way at once when more than this would be needed */
} stk__h5_writer_config;

/* The kind that suits a type: numbers as they are, bytes as strings of variable length. */
int stk__h5_kind_of(stk_dtype dtype);

/*
 * Checks the fields, and tells the bytes that a writer of them takes. INVALID with the field and what is wrong with
 * it.
 */
stk_status stk__h5_writer_measure(const stk__h5_writer_config *config, size_t *out_bytes, stk_error *err);

/*
 * Parents are made. `memory` has as many bytes as measured, on a 64-byte boundary, and lives as long as the writer;
 * chunks lie in its front, and the rest of it is not touched: it stands for what compressors allocate themselves.
 */
typedef struct stk__h5_writer stk__h5_writer;
stk_status stk__h5_writer_open(const stk__h5_writer_config *config, void *memory, stk__h5_writer **out, stk_error *err);

/*
 * The rows of a batch, which has a column for each field. One thread at a time. What goes wrong may be told by a
 * later call. The file does not depend on how rows are dealt to batches.
 */
stk_status stk__h5_writer_add(stk__h5_writer *w, const stk_batch *batch, stk_error *err);
/* Everything to the disk, then the file gets its name. Without it, close leaves nothing behind. */
stk_status stk__h5_writer_finish(stk__h5_writer *w, stk_error *err);
/* NULL is fine. */
void stk__h5_writer_close(stk__h5_writer *w);

#endif
