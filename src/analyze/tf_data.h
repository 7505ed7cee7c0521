/* Iterators of tf.data: where a slice stands in its pipeline, by args, long name or name. */
#ifndef STK_ANALYZE_TF_DATA_H
#define STK_ANALYZE_TF_DATA_H

#include "trace/model.h"

/*
 * TensorFlow 2 calls a slice "Iterator::Map", and says in args which iterator it is (id), whose input it is (parent_id;
 * roots have none) and the path from the root (long_name; roots have none). Others write the path as the name.
 */
typedef struct stk__tf_data {
    const stk__trace *trace;
    stk__string id, parent_id, long_name; /* keys of args; STK__NONE: no slice has them */
    bool has_root; /* something is called "Iterator::Root" or, in old versions, "Iterator::Model" */
} stk__tf_data;

/* A value of `id` or `parent_id`: integers, or interned text where a file has text or more than 63 bits. */
typedef struct stk__iterator_id {
    uint64_t value;
    uint64_t kind; /* 0: none */
} stk__iterator_id;

typedef struct stk__iterator {
    stk__string path; /* "Iterator::Root::Prefetch::Map", as long as the file gives it */
    stk__iterator_id id, parent;
} stk__iterator;

stk__tf_data stk__tf_data_of(const stk__trace *t);
/* Whether the name is that of an iterator. */
bool stk__is_iterator(const char *name, size_t size);
stk__iterator stk__iterator_of(const stk__tf_data *x, size_t slice);
/*
 * Whether the slice, which is an iterator, is a call of a whole pipeline. Iterators within one run on threads of their
 * own ahead of anybody who waits, whatever their short name looks like.
 */
bool stk__iterator_is_root(const stk__tf_data *x, size_t slice);
/* A root that is called from a thread that is not one of tf.data's own. */
bool stk__iterator_is_wait(const stk__tf_data *x, size_t slice);

#endif
