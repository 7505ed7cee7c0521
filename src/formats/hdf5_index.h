/* How the description of an HDF5 file is read, checked and kept. Only for the HDF5 format itself and its tests. */
#ifndef STK_FORMATS_HDF5_INDEX_H
#define STK_FORMATS_HDF5_INDEX_H

#include "base/wire.h"
#include "formats/hdf5.h"

/* A dataset as its message tells it, with what is not kept afterwards. The windows lie in the message. */
typedef struct stk__h5_draft {
    stk__h5_dataset d;
    int32_t max_rank, chunk_rank; /* dimensions that were given; d.rank is that of DIM */
    stk__wire fill, compact, chunks;
} stk__h5_draft;

/*
 * Zeroed memory that goes with the file, counted in file->memory. NULL with err set: out of memory, or over the file's
 * limit.
 */
void *stk__h5_keep(stk__h5_file *file, size_t size, stk_error *err);

/* At least `size` zeros that nobody writes to. */
uint8_t *stk__h5_zeros(stk__h5_file *file, size_t size, stk_error *err);

/* CORRUPT with the dataset's path (NULL: not known) before the message. */
stk_status stk__h5_corrupt(const char *path, stk_error *err, const char *format, ...) STK_PRINTF(3, 4);

/* Type of the values of a leaf or attribute; STK_DTYPE_COUNT when no such kind has that size. */
stk_dtype stk__h5_dtype(int kind, size_t size);

/* Checks a dataset that has been read from its message, and works out everything under "derived". */
stk_status stk__h5_derive(stk__h5_file *file, stk__h5_draft *draft, int64_t size_bytes, stk_error *err);

/* What a cached index must fit. */
typedef struct stk__h5_identity {
    uint64_t key[2]; /* hash of the file's real path and the datasets asked for */
    int64_t size_bytes, mtime_ns, ctime_ns;
    uint64_t inode, device;
} stk__h5_identity;

/* The bytes of an index file around a FILE message; false when memory is out. */
bool stk__h5_cached_format(const stk__h5_identity *id, const void *message, size_t size, stk__text *out);
/* Reads them again; false when anything is odd. */
bool stk__h5_cached_parse(const stk__h5_identity *id, const void *bytes, size_t size, stk__h5_file **out);
/* Writes the checksum that the bytes should have; so that a fuzzer gets past it. */
void stk__h5_cached_seal(void *bytes, size_t size);

#endif
