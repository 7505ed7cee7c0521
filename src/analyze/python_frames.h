/* Python functions by the names that tracers and samplers give them, and whether they are code of the user. */
#ifndef STK_ANALYZE_PYTHON_FRAMES_H
#define STK_ANALYZE_PYTHON_FRAMES_H

#include "trace/model.h"

/* Points into the text it was parsed from. */
typedef struct stk__python_frame {
    const char *function;
    size_t function_size;
    const char *file; /* path as far as the tracer gives it; of C functions nothing, or their module */
    size_t file_size;
    int64_t line; /* 0: not known */
    bool own;     /* not of the standard library, an installed package, or C */
} stk__python_frame;

/*
 * "dir/train.py(12): load" (PyTorch), "$train.py:8 load" (JAX, TensorFlow), "load (dir/train.py:12)" (py-spy), and
 * their spellings of C functions. False: not the name of a Python function; then out is not touched.
 */
bool stk__python_frame_parse(const char *name, size_t size, stk__python_frame *out);

/* Whether a source file is the user's, by its path alone. Short paths are told apart by lists of well-known names. */
bool stk__python_file_is_own(const char *file, size_t size);

/* For slices that have file and line in args, as py-spy writes them. */
typedef struct stk__python_keys {
    stk__string filename, line; /* keys of the args; STK__NONE: no slice has them */
} stk__python_keys;

stk__python_keys stk__python_keys_of(const stk__trace *t);
/* The file and line that args give, where the name does not; 0: none. */
stk__string stk__python_file_of(const stk__trace *t, const stk__python_keys *keys, size_t slice, int64_t *out_line);
/* By the slice's name, else by its args. */
bool stk__python_frame_of(const stk__trace *t, const stk__python_keys *keys, size_t slice, stk__python_frame *out);

#endif
