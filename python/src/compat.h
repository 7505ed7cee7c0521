/*
 * The buffer protocol for the limited API of CPython 3.10. It is part of the stable ABI from 3.11, with the layout and
 * the slot numbers that 3.10 has already, so a module that declares them itself works on all of them.
 */
#ifndef STKPY_COMPAT_H
#define STKPY_COMPAT_H

#include "core.h"

#if Py_LIMITED_API + 0 < 0x030b0000

typedef struct {
    void *buf;
    PyObject *obj; /* owned reference */
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *obj);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *obj, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);

#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#define PyBUF_F_CONTIGUOUS (0x0040 | PyBUF_STRIDES)
#define PyBUF_ANY_CONTIGUOUS (0x0080 | PyBUF_STRIDES)

#undef Py_bf_getbuffer
#undef Py_bf_releasebuffer
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2

#endif

_Static_assert(sizeof(Py_buffer) == 2 * sizeof(int) + 9 * sizeof(void *), "Py_buffer as CPython has it");

#endif
