/* From a schema back to HDF5: which dataset a field was, and values in the type that it had. */
#ifndef STK_OPS_HDF5_RESTORE_H
#define STK_OPS_HDF5_RESTORE_H

#include "engine/op.h"
#include "formats/hdf5_writer.h"
#include "formats/schema.h"

/* A field that the schema has in another type or shape. */
typedef struct stk__h5_conversion {
    const char *name;
    int from, to; /* numbers of the fields */
    stk_dtype from_dtype, to_dtype;
    bool varies;
} stk__h5_conversion;

/*
 * Plans to turn `field`, number id, into what the entry says. When they differ, *out is filled in, *field is changed
 * and *out_differs is true. INVALID when the one cannot become the other.
 */
stk_status stk__h5_restore_type(stk_plan *plan, const stk_host *host, const stk__schema_entry *entry, stk_field *field,
                                int id, stk__h5_conversion *out, bool *out_differs, stk_error *err);
/* Converts one value. CORRUPT with the first number that does not fit. */
stk_status stk__h5_convert(const stk_call *call, const stk__h5_conversion *c, stk_sample *sample, stk_error *err);

/*
 * Sets what the entry knows: path, kind of strings, byte order, fill value and attributes; the rows of a chunk where
 * `out` has none, filters where `filters` is set. Filters that only readers have are left out. `out` points into the
 * entry afterwards, whose fill value is then in the order of the file.
 */
void stk__h5_restore_storage(stk__schema_entry *entry, bool filters, stk__h5_new *out);

#endif
