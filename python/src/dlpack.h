/* The part of DLPack's ABI that is used here (https://dmlc.github.io/dlpack): tensors in memory of the CPU. */
#ifndef STKPY_DLPACK_H
#define STKPY_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };

enum { DLPACK_CPU = 1 }; /* device type */

enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 }; /* type codes */

enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 }; /* flags */

typedef struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dlpack_tensor;

/* In a capsule "dltensor"; whoever takes it renames the capsule and calls the deleter. */
typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

/* The same in a capsule "dltensor_versioned". */
typedef struct dlpack_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_versioned;

#endif
