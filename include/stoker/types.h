/* Element types, columns and batches: the data that a pipeline hands over. */
#ifndef STOKER_TYPES_H
#define STOKER_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_MAX_DIMS 6

/* name, size in bytes, text as written in pipelines */
#define STK_DTYPE_LIST(X)    \
    X(BOOL, 1, "bool")       \
    X(UINT8, 1, "uint8")     \
    X(INT8, 1, "int8")       \
    X(UINT16, 2, "uint16")   \
    X(INT16, 2, "int16")     \
    X(UINT32, 4, "uint32")   \
    X(INT32, 4, "int32")     \
    X(UINT64, 8, "uint64")   \
    X(INT64, 8, "int64")     \
    X(FLOAT16, 2, "float16") \
    X(BFLOAT16, 2, "bfloat16") \
    X(FLOAT32, 4, "float32") \
    X(FLOAT64, 8, "float64") \
    X(BYTES, 16, "bytes")

typedef enum stk_dtype {
#define STK_DTYPE_ENUM(name, size, text) STK_##name,
    STK_DTYPE_LIST(STK_DTYPE_ENUM)
#undef STK_DTYPE_ENUM
    STK_DTYPE_COUNT
} stk_dtype;

/* One element of a STK_BYTES tensor: a view, owned by whoever owns the tensor. */
typedef struct stk_bytes {
    const uint8_t *data;
    int64_t size;
} stk_bytes;

/* Name and element size of a type; NULL and 0 for an unknown one. Since 0.1. */
STK_API const char *stk_dtype_name(stk_dtype dtype);
STK_API size_t stk_dtype_size(stk_dtype dtype);

/*
 * One field of a batch.
 *
 * Dense (`offsets` NULL): `data` holds `rows` stacked tensors of shape `shape[1..ndim-1]`; `shape[0] == rows`.
 * Ragged (`offsets` set): row r holds elements offsets[r] .. offsets[r+1]; dimensions that vary are -1 in `shape`, and
 * `row_shapes[r * (ndim - 1) + d]` is dimension d + 1 of row r (NULL when there is one such dimension only).
 * Padded: dense, with `row_shapes` telling the extent of each row before it was padded.
 * STK_BYTES: `data` is an array of stk_bytes, one per element, in the same element order; the bytes themselves lie in
 * memory of the batch, elements of one row next to each other in order.
 */
typedef struct stk_column {
    const char *name;
    stk_dtype dtype;
    int32_t ndim; /* batch dimension included: a scalar field has 1 */
    int64_t shape[STK_MAX_DIMS + 1];
    const void *data;
    int64_t elements;          /* elements in `data` */
    int64_t size_bytes;        /* bytes in `data`; for STK_BYTES the sum of the sizes */
    const int64_t *offsets;    /* rows + 1 values in elements, or NULL */
    const int64_t *row_shapes; /* see above, or NULL */
} stk_column;

/* Samples stacked per field, in order. Valid until stk_batch_release; its memory may be read by any thread. */
typedef struct stk_batch {
    int64_t rows;
    int32_t column_count;
    const stk_column *columns;
    int64_t index;  /* number of this batch in the run, from 0; goes on after resume */
    int64_t epoch;  /* epoch of its first row */
} stk_batch;

#ifdef __cplusplus
}
#endif
#endif
