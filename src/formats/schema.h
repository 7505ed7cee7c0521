/*
 * The schema of a set of samples: what their fields are beyond what TFRecords can hold, as a small JSON file beside
 * them. docs/reference/schema.md tells how the file looks.
 */
#ifndef STK_FORMATS_SCHEMA_H
#define STK_FORMATS_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/str.h"
#include "formats/hdf5.h"

#define STK__SCHEMA_VERSION 1
#define STK__SCHEMA_ENDING ".schema.json"
/* A file that is larger is refused, and none is written. */
#define STK__SCHEMA_MAX_BYTES ((size_t)8 << 20)
#define STK__SCHEMA_MAX_FIELDS 16384

/* One field: of a sample, and how HDF5 stores it, as far as that is known. Owns all it points to. */
typedef struct stk__schema_entry {
    char *name;
    stk_dtype dtype;
    int32_t ndim;                /* of a sample */
    int64_t shape[STK_MAX_DIMS]; /* -1: varies */

    char *dataset; /* "/group/x"; NULL: not known. A member of a compound has its name as one more part */
    int kind;      /* STK__H5_KIND_STRING, OPAQUE, VLEN_STRING or VLEN; 0: as the dtype says */
    size_t size;   /* STRING and OPAQUE: bytes of a value */
    int pad;       /* STRING */
    bool utf8;     /* STRING and VLEN_STRING: the dataset says that it is */
    bool big_endian;
    uint8_t *fill; /* one value, little-endian; NULL: the user set none */
    size_t fill_size;
    int32_t chunk_ndim; /* 0: not chunked */
    int64_t chunk[STK__H5_MAX_RANK];
    stk__h5_filter *filters;
    size_t filter_count;
    stk__h5_attribute *attributes;
    size_t attribute_count;
} stk__schema_entry;

/* Zeroed: empty, with rows not known. */
typedef struct stk__schema {
    int64_t rows; /* 0 when not known */
    stk__schema_entry *entries;
    size_t count, capacity;
    stk__h5_attribute *attributes; /* of the root group */
    size_t attribute_count;
} stk__schema;

void stk__schema_clear(stk__schema *s);
/* NULL when there is none of that name. */
const stk__schema_entry *stk__schema_find(const stk__schema *s, const char *name);

/*
 * Adds a field. What `origin` (may be NULL) knows of one of that name goes along: all of it when dtype and shape are
 * the same, else its dataset and its attributes alone. Nothing is borrowed.
 */
stk_status stk__schema_add(stk__schema *s, const char *name, stk_dtype dtype, int32_t ndim, const int64_t *shape,
                           const stk__schema *origin, stk_error *err);
/* Adds a field that `leaf` of a dataset gives, with everything that is known of it. Its dtype is the leaf's. */
stk_status stk__schema_add_leaf(stk__schema *s, const char *name, int32_t ndim, const int64_t *shape,
                                const stk__h5_dataset *d, const stk__h5_leaf *leaf, stk_error *err);
/* Sets the attributes of the root group to copies of these. */
stk_status stk__schema_set_attributes(stk__schema *s, const stk__h5_attribute *attributes, size_t count,
                                      stk_error *err);

/* The type of an attribute's numbers; STK_BYTES for strings; STK_DTYPE_COUNT for anything else. */
stk_dtype stk__schema_attribute_dtype(int kind, size_t size);
/* The other way: STK__H5_KIND_... of numbers of that type. */
int stk__schema_kind(stk_dtype dtype);

/* Appends the file's text. INVALID when it would be too large to be read. */
stk_status stk__schema_print(const stk__schema *s, stk__text *out, stk_error *err);
/* Reads a text, which is untrusted. *out is overwritten; on failure it is empty. CORRUPT tells the place. */
stk_status stk__schema_parse(const char *text, size_t size, stk__schema *out, stk_error *err);
stk_status stk__schema_load(const char *path, stk__schema *out, stk_error *err);

/* Appends where the schema of shards of this pattern lies: "out/part-%05d" has out/part.schema.json. */
void stk__schema_path(stk__text *t, const char *pattern);
/* Whether a path is that of a schema, by its name. */
bool stk__schema_is_path(const char *path);

#endif
