/* NumPy's .npz files: a zip of arrays, each a .npy; parsed in memory, every size checked. */
#ifndef STK_FORMATS_NPZ_H
#define STK_FORMATS_NPZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define STK__NPZ_DIMS 4

/* Only little-endian arrays in C order of these types are read; others are UNSUPPORTED, by name. */
typedef enum stk__npy_type {
    STK__NPY_F32,
    STK__NPY_F16,
    STK__NPY_I8,
    STK__NPY_U8,
    STK__NPY_I32,
    STK__NPY_I64
} stk__npy_type;

typedef struct stk__npy {
    char name[64]; /* without ".npy" */
    stk__npy_type type;
    int ndim;
    int64_t shape[STK__NPZ_DIMS];
    size_t elements;
    const void *data; /* not aligned: copy out of it */
} stk__npy;

typedef struct stk__npz {
    stk__npy *arrays;
    size_t count;
    void **owned; /* what was unpacked */
    size_t owned_count;
} stk__npz;

/*
 * Stored members are views of `data`, which must outlive `out`; deflated ones are unpacked, all together at most `max_bytes`.
 * CRCs are checked. On failure err names the member and the offset in the file.
 */
stk_status stk__npz_parse(const void *data, size_t size, size_t max_bytes, stk__npz *out, stk_error *err);
void stk__npz_clear(stk__npz *npz);
const stk__npy *stk__npz_find(const stk__npz *npz, const char *name);

#endif
