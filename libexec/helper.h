/* What the files of stoker-hdf5 share: requests, open files, types laid out as leaves, error texts. */
#ifndef STK_LIBEXEC_HELPER_H
#define STK_LIBEXEC_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Newer libraries map the names without a number to what they were in 1.10. */
#ifndef H5_USE_110_API
#define H5_USE_110_API 1
#endif
#include <hdf5.h>

#include "base/str.h"
#include "base/wire.h"
#include "formats/hdf5_wire.h"

/* A request as it came. Lives until it is answered. */
typedef struct stk__h5_request {
    int kind;
    char *path;
    char **datasets;
    size_t dataset_count;
    uint64_t first_row, rows;
    stk__wire body; /* the whole message, for fields that are not above */
} stk__h5_request;

/* What goes back behind the status: a message, and for READ two blocks that are too big to be copied into it. */
typedef struct stk__h5_answer {
    stk__text message; /* fields behind STATUS */
    uint8_t *data;     /* READ: freed with the answer */
    size_t data_size;
    stk__text heap;
    bool has_data;
} stk__h5_answer;

/* Sets a message of ours and behind it the most specific text that libhdf5 has. */
stk_status stk__h5_fail(stk_error *err, stk_status status, const char *format, ...) STK_PRINTF(3, 4);
/* The most specific text on the error stack of libhdf5; "" when there is none. */
void stk__h5_reason(char *out, size_t size);

/* ---- files (open.c) ---- */

/* A file opened for reading. */
typedef struct stk__h5_open {
    hid_t file;
    struct stat id; /* when it was opened */
    int offset_size, length_size;
    uint64_t base;
    const char *driver; /* not NULL: addresses mean nothing to us, for this reason */
} stk__h5_open;

/*
 * Opens with the driver that finds out where chunks lie (`probe`), or with the ordinary one. One that only another
 * driver can read is opened with that, and `driver` says so.
 */
stk_status stk__h5_open_file(stk__h5_open *f, const char *path, bool probe, stk_error *err);
void stk__h5_close_file(stk__h5_open *f);
/* For opening by path: no external link is followed. */
hid_t stk__h5_access(void);

/* ---- chunks (probe.c) ---- */

/* Sets the driver that finds out where chunks lie. */
bool stk__h5_probe_use(hid_t fapl);

/* Where the chunks of a dataset lie: entries as STK__H5_DATASET_CHUNKS wants them. */
typedef struct stk__h5_table {
    uint64_t *entries; /* four for each chunk */
    size_t count, capacity;
    char why[256]; /* not "": it cannot be told, for this reason */
} stk__h5_table;

/* `wanted` is the number of chunks that are there. The file was opened with `probe`. */
stk_status stk__h5_table_make(stk__h5_table *t, const stk__h5_open *f, hid_t dataset, int rank, const hsize_t *dims,
                              const hsize_t *chunk, uint64_t wanted, stk_error *err);
void stk__h5_table_clear(stk__h5_table *t);

/* ---- types (types.c) ---- */

/* See STK__H5_LEAF_... */
typedef struct stk__h5_place {
    char *path;
    int kind, pad;
    bool utf8; /* strings: their character set */
    size_t size, offset;
    bool swap;
    int ndim;
    uint64_t dims[STK__H5_MAX_RANK], strides[STK__H5_MAX_RANK];
    int base_kind;
    size_t base_size;
    bool base_swap;
} stk__h5_place;

typedef struct stk__h5_places {
    stk__h5_place *items;
    size_t count, capacity;
    size_t element; /* bytes */
} stk__h5_places;

/* How elements of a type are read and handed over. */
typedef struct stk__h5_plan {
    hid_t memory;       /* what H5Dread is given; -1 when there are no leaves */
    stk__h5_places in;  /* where the leaves lie in what H5Dread gives */
    stk__h5_places out; /* where they lie in what is handed over; as stored, unless `why` is set */
    bool variable;      /* some leaf is of variable length */
    char why[256];      /* not "": only libhdf5 can read it */
    stk__text left_out; /* members that no leaf could be made of, and why */
} stk__h5_plan;

/* `why` not "": the type is planned for libhdf5 in any case. */
void stk__h5_plan_make(stk__h5_plan *p, hid_t type, int offset_size, const char *why);
void stk__h5_plan_clear(stk__h5_plan *p);
/*
 * Copies elements from the layout `in` to the layout `out`; what is of variable length goes to `heap`, with a
 * descriptor in its place. `to` is zeroed first.
 */
stk_status stk__h5_plan_convert(const stk__h5_plan *p, const uint8_t *from, uint8_t *to, size_t elements,
                                stk__text *heap, stk_error *err);
/* Whether elements have to be converted at all. */
bool stk__h5_plan_converts(const stk__h5_plan *p);
/* A type for people (type_text.c). */
void stk__h5_type_text(hid_t type, stk__text *t);
/* As h5py writes numpy's bool. */
bool stk__h5_is_bool(hid_t type);
/* Not one to a region. */
bool stk__h5_is_object_reference(hid_t type);
/* KIND_FLOAT, KIND_BFLOAT, or 0 for a float that is neither as it is stored. */
int stk__h5_float_kind(hid_t type);
/* A number or string of its own, as a leaf of the memory type that is made for it; false when it is anything else. */
bool stk__h5_simple_type(hid_t type, hid_t *out_memory, stk__h5_place *out);

/* ---- datasets (describe.c, attributes.c, walk.c) ---- */

/* What both DESCRIBE and READ must know of a dataset, found in the same way. */
typedef struct stk__h5_view {
    hid_t dataset, type, space, creation;
    bool null_space;
    int rank;
    hsize_t dims[STK__H5_MAX_RANK], max_dims[STK__H5_MAX_RANK], chunk[STK__H5_MAX_RANK];
    int layout;
    int filters;
    bool fill_set;  /* by the user, and used */
    bool fill_text; /* it has values of variable length that are not empty */
    uint8_t *fill;  /* plan.out.element bytes, or NULL: zeros */
    stk__h5_plan plan;
} stk__h5_view;

/* Opens a dataset of that path. */
stk_status stk__h5_view_open(stk__h5_view *v, const stk__h5_open *f, const char *path, stk_error *err);
void stk__h5_view_close(stk__h5_view *v);

/* Paths of all datasets, sorted; each object once. What could not be looked at goes to `skipped` as SKIPPED fields. */
typedef struct stk__h5_names {
    char **items;
    size_t count, capacity;
} stk__h5_names;
stk_status stk__h5_names_find(stk__h5_names *names, hid_t file, stk__text *skipped, stk_error *err);
/* Appends a SKIPPED field. */
void stk__h5_put_skipped(stk__text *t, const char *path, const char *reason);
void stk__h5_names_clear(stk__h5_names *names);

/* Appends the small attributes of an object as messages of that field. */
void stk__h5_put_attributes(stk__text *t, uint32_t field, hid_t object);

/* ---- requests ---- */

stk_status stk__h5_describe_request(const stk__h5_request *request, stk__h5_answer *answer, stk_error *err);
stk_status stk__h5_read_request(const stk__h5_request *request, stk__h5_answer *answer, stk_error *err);
/* CREATE, CHUNK, ROWS and FINISH. Keeps the file that is being written from one request to the next. */
stk_status stk__h5_write_request(const stk__h5_request *request, stk_error *err);

#endif
