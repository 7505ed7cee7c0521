/* Writing: a new file with all its datasets, filled by chunks that come compressed and by rows of variable length. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

/* ---- requests ---- */

/* One field of a message. */
typedef struct item {
    uint32_t number;
    bool is_bytes;
    uint64_t value;
    stk__wire data;
} item;

/* END behind the last one. */
static stk_status next_item(stk__wire *w, item *out, stk_error *err)
{
    uint32_t type;
    *out = (item){0};
    if (w->p >= w->end)
        return STK_END;
    bool good = stk__wire_tag(w, &out->number, &type);
    if (good && type == STK__WIRE_VARINT)
        good = stk__wire_varint(w, &out->value);
    else if (good && type == STK__WIRE_BYTES)
        good = out->is_bytes = stk__wire_bytes(w, &out->data);
    else if (good)
        good = stk__wire_skip(w, type);
    return good ? STK_OK : stk_error_set(err, STK_INVALID, "the request is damaged");
}

static size_t window_size(stk__wire w)
{
    return (size_t)(w.end - w.p);
}

/* A text of the request, copied; INVALID when it is too long or has a NUL in it. */
static stk_status copy_text(stk__wire w, const char *what, char **out, stk_error *err)
{
    const size_t n = window_size(w);
    if (n == 0 || n > STK__H5_MAX_NAME || memchr(w.p, 0, n))
        return stk_error_set(err, STK_INVALID, "%s of %zu bytes is no name", what, n);
    char *copy = stk__strndup((const char *)w.p, n);
    if (!copy)
        return stk__nomem(n, err);
    stk__free(*out);
    *out = copy;
    return STK_OK;
}

/* What a CHUNK or ROWS has besides the fields that every request may have. */
typedef struct ask {
    const char *dataset; /* NULL: none */
    uint64_t first_row, rows, mask;
    hsize_t offset[STK__H5_MAX_RANK];
    int rank;
    stk__wire data;
} ask;

static stk_status read_ask(const stk__h5_request *request, ask *a, stk_error *err)
{
    *a = (ask){.dataset = request->dataset_count ? request->datasets[0] : NULL,
               .first_row = request->first_row,
               .rows = request->rows};
    stk__wire body = request->body;
    item it;
    stk_status status;
    while ((status = next_item(&body, &it, err)) == STK_OK) {
        if (it.number == STK__H5_REQUEST_MASK)
            a->mask = it.value;
        else if (it.number == STK__H5_REQUEST_DATA && it.is_bytes)
            a->data = it.data;
        else if (it.number == STK__H5_REQUEST_CHUNK_OFFSET && a->rank < STK__H5_MAX_RANK)
            a->offset[a->rank++] = it.value;
    }
    return status == STK_END ? STK_OK : status;
}

/* ---- errors of the library ---- */

typedef struct reason {
    char first[256], system[128];
} reason;

/* Keeps what the innermost function says, and what the system said when it was the system. */
static herr_t look_at_error(unsigned n, const H5E_error2_t *e, void *arg)
{
    static const char mark[] = "error message = '";
    reason *r = arg;
    const char *desc = e->desc ? e->desc : "";
    if (!r->first[0])
        stk__escape_terminal(desc, r->first, sizeof r->first);
    const char *text = strstr(desc, mark);
    if (text && !r->system[0]) {
        text += sizeof mark - 1;
        snprintf(r->system, sizeof r->system, "%.*s", (int)strcspn(text, "'"), text);
    }
    return 0;
}

/* "cannot write dataset '/x': No space left on device" */
static stk_status library_error(stk_error *err, const char *what, const char *name)
{
    reason r = {"", ""};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look_at_error, &r);
    H5Eclear2(H5E_DEFAULT);
    const char *why = r.system[0] ? r.system : r.first[0] ? r.first : "libhdf5 does not say why";
    if (!name)
        return stk_error_set(err, STK_IO, "cannot %s: %s", what, why);
    return stk_error_set(err, STK_IO, "cannot %s '%.120s': %s", what, name, why);
}

/* ---- the file being written ---- */

typedef struct dataset {
    char *path;
    hid_t id;
    hid_t memory_type; /* of ROWS; else 0 */
    size_t value_size; /* ROWS: bytes of one value of a sequence; 0: strings */
    int rank;
    hsize_t dims[STK__H5_MAX_RANK]; /* as it is now: the first one grows */
    hsize_t chunk_rows;
} dataset;

/* One file at a time, as the protocol has it. */
static struct {
    hid_t file; /* 0: none */
    dataset *datasets;
    size_t count, capacity;
    size_t last; /* the one of the last request; the next is most often it or its neighbour */
} out;

static void forget_file(void)
{
    for (size_t i = 0; i < out.count; i++) {
        if (out.datasets[i].memory_type > 0)
            H5Tclose(out.datasets[i].memory_type);
        if (out.datasets[i].id > 0)
            H5Dclose(out.datasets[i].id);
        stk__free(out.datasets[i].path);
    }
    stk__free(out.datasets);
    if (out.file > 0)
        H5Fclose(out.file);
    memset(&out, 0, sizeof out);
}

static stk_status find_dataset(const char *path, dataset **found, stk_error *err)
{
    if (out.file <= 0)
        return stk_error_set(err, STK_INVALID, "no file is being written");
    for (size_t i = 0; path && i < out.count; i++) {
        const size_t k = (out.last + i) % out.count;
        if (strcmp(out.datasets[k].path, path) == 0) {
            out.last = k;
            *found = &out.datasets[k];
            return STK_OK;
        }
    }
    return stk_error_set(err, STK_INVALID, "no dataset '%.200s' in the file being written", path ? path : "");
}

/* ---- types ---- */

static hid_t number_type(bool is_signed, uint64_t size, bool big)
{
    switch (size) {
    case 1:
        return is_signed ? H5T_STD_I8LE : H5T_STD_U8LE;
    case 2:
        return is_signed ? (big ? H5T_STD_I16BE : H5T_STD_I16LE) : (big ? H5T_STD_U16BE : H5T_STD_U16LE);
    case 4:
        return is_signed ? (big ? H5T_STD_I32BE : H5T_STD_I32LE) : (big ? H5T_STD_U32BE : H5T_STD_U32LE);
    case 8:
        return is_signed ? (big ? H5T_STD_I64BE : H5T_STD_I64LE) : (big ? H5T_STD_U64BE : H5T_STD_U64LE);
    default:
        return -1;
    }
}

/* Of two bytes: the library has none ready made. `exponent` bits of it are the exponent. */
static hid_t short_float_type(size_t exponent, bool big)
{
    const size_t mantissa = 15 - exponent;
    const hid_t type = H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
    if (type < 0)
        return -1;
    if (H5Tset_fields(type, 15, mantissa, exponent, 0, mantissa) < 0 || H5Tset_size(type, 2) < 0 ||
        H5Tset_ebias(type, ((size_t)1 << (exponent - 1)) - 1) < 0) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

/* As h5py has it. */
static hid_t bool_type(void)
{
    const hid_t type = H5Tenum_create(H5T_STD_I8LE);
    const int8_t no = 0, yes = 1;
    if (type >= 0 && (H5Tenum_insert(type, "FALSE", &no) < 0 || H5Tenum_insert(type, "TRUE", &yes) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

static hid_t string_type(size_t size, uint64_t pad, bool utf8)
{
    static const H5T_str_t pads[] = {H5T_STR_NULLTERM, H5T_STR_NULLPAD, H5T_STR_SPACEPAD};
    const hid_t type = pad < STK_COUNT(pads) ? H5Tcopy(H5T_C_S1) : -1;
    if (type >= 0 && (H5Tset_size(type, size) < 0 || H5Tset_strpad(type, pads[pad]) < 0 ||
                      H5Tset_cset(type, utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

/* A type of numbers; negative when there is none. */
static hid_t plain_type(uint64_t kind, uint64_t size, bool big)
{
    switch (kind) {
    case STK__H5_KIND_INT:
    case STK__H5_KIND_UINT: {
        const hid_t type = number_type(kind == STK__H5_KIND_INT, size, big);
        return type < 0 ? -1 : H5Tcopy(type);
    }
    case STK__H5_KIND_FLOAT:
        if (size == 2)
            return short_float_type(5, big);
        if (size == 4)
            return H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
        return size == 8 ? H5Tcopy(big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE) : -1;
    case STK__H5_KIND_BFLOAT:
        return size == 2 ? short_float_type(8, big) : -1;
    case STK__H5_KIND_BOOL:
        return size == 1 ? bool_type() : -1;
    default:
        return -1;
    }
}

/* ---- attributes ---- */

typedef struct attribute {
    char *name;
    uint64_t kind, size;
    hsize_t dims[STK__H5_MAX_RANK];
    int rank;
    stk__wire data;
    bool utf8, big;
    char **strings; /* copies that end in NUL */
    size_t string_count, string_capacity;
} attribute;

static void attribute_clear(attribute *a)
{
    for (size_t i = 0; i < a->string_count; i++)
        stk__free(a->strings[i]);
    stk__free(a->strings);
    stk__free(a->name);
}

static stk_status add_string(attribute *a, stk__wire w, stk_error *err)
{
    if (!stk__grow((void **)&a->strings, &a->string_capacity, a->string_count + 1, sizeof *a->strings))
        return stk__nomem(sizeof *a->strings, err);
    char *copy = stk__strndup((const char *)w.p, window_size(w));
    if (!copy)
        return stk__nomem(window_size(w), err);
    a->strings[a->string_count++] = copy;
    return STK_OK;
}

static stk_status read_attribute(stk__wire w, attribute *a, stk_error *err)
{
    item it;
    stk_status status;
    while ((status = next_item(&w, &it, err)) == STK_OK) {
        if (it.number == STK__H5_ATTRIBUTE_NAME && it.is_bytes)
            STK_TRY(copy_text(it.data, "the name of an attribute", &a->name, err));
        else if (it.number == STK__H5_ATTRIBUTE_KIND)
            a->kind = it.value;
        else if (it.number == STK__H5_ATTRIBUTE_SIZE)
            a->size = it.value;
        else if (it.number == STK__H5_ATTRIBUTE_DIM && a->rank < STK__H5_MAX_RANK)
            a->dims[a->rank++] = it.value;
        else if (it.number == STK__H5_ATTRIBUTE_DATA && it.is_bytes)
            a->data = it.data;
        else if (it.number == STK__H5_ATTRIBUTE_STRING && it.is_bytes)
            STK_TRY(add_string(a, it.data, err));
        else if (it.number == STK__H5_ATTRIBUTE_UTF8)
            a->utf8 = it.value != 0;
        else if (it.number == STK__H5_ATTRIBUTE_BIG)
            a->big = it.value != 0;
    }
    if (status != STK_END)
        return status;
    return a->name ? STK_OK : stk_error_set(err, STK_INVALID, "an attribute has no name");
}

/* The values must be as many as the dimensions say. */
static stk_status check_attribute(const attribute *a, stk_error *err)
{
    const bool strings = a->kind == STK__H5_KIND_STRING;
    const uint64_t has = strings ? a->string_count : window_size(a->data);
    uint64_t wants = strings ? 1 : a->size;
    for (int d = 0; d < a->rank; d++)
        if (__builtin_mul_overflow(wants, a->dims[d], &wants))
            wants = UINT64_MAX;
    if (has == wants)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "attribute '%.120s' has %llu %s, wanted %llu", a->name,
                         (unsigned long long)has, strings ? "strings" : "bytes", (unsigned long long)wants);
}

static stk_status write_attribute(hid_t owner, const attribute *a, stk_error *err)
{
    const bool strings = a->kind == STK__H5_KIND_STRING;
    STK_TRY(check_attribute(a, err));
    const hid_t type =
        strings ? string_type(H5T_VARIABLE, STK__H5_PAD_NUL_TERMINATED, a->utf8) : plain_type(a->kind, a->size, a->big);
    const hid_t memory = strings ? H5Tcopy(type) : plain_type(a->kind, a->size, false);
    const hid_t space = a->rank ? H5Screate_simple(a->rank, a->dims, NULL) : H5Screate(H5S_SCALAR);
    const hid_t id =
        type >= 0 && memory >= 0 && space >= 0 ? H5Acreate2(owner, a->name, type, space, H5P_DEFAULT, H5P_DEFAULT) : -1;
    const bool empty = strings ? a->string_count == 0 : window_size(a->data) == 0;
    bool good = id >= 0;
    if (good && !empty)
        good = H5Awrite(id, memory, strings ? (const void *)a->strings : a->data.p) >= 0;
    const stk_status status = good ? STK_OK : library_error(err, "write attribute", a->name);
    if (id >= 0)
        H5Aclose(id);
    if (space >= 0)
        H5Sclose(space);
    if (memory >= 0)
        H5Tclose(memory);
    if (type >= 0)
        H5Tclose(type);
    return status;
}

/* All fields of that number in the message. */
static stk_status put_attributes(hid_t owner, stk__wire message, uint32_t number, stk_error *err)
{
    item it;
    stk_status status;
    while ((status = next_item(&message, &it, err)) == STK_OK) {
        if (it.number != number || !it.is_bytes)
            continue;
        attribute a = {0};
        status = read_attribute(it.data, &a, err);
        if (status == STK_OK)
            status = write_attribute(owner, &a, err);
        attribute_clear(&a);
        STK_TRY(status);
    }
    return status == STK_END ? STK_OK : status;
}

/* ---- CREATE ---- */

typedef struct plan {
    char *path;
    uint64_t kind, size, base_kind, base_size, chunk_rows, pad;
    hsize_t dims[STK__H5_MAX_RANK]; /* with the rows, of which there are none yet */
    int rank;
    bool swap, utf8;
    stk__wire fill;
    bool has_fill;
} plan;

static stk_status read_plan(stk__wire w, plan *p, stk_error *err)
{
    item it;
    stk_status status;
    p->rank = 1;
    while ((status = next_item(&w, &it, err)) == STK_OK) {
        if (it.number == STK__H5_NEW_PATH && it.is_bytes)
            STK_TRY(copy_text(it.data, "the path of a dataset", &p->path, err));
        else if (it.number == STK__H5_NEW_KIND)
            p->kind = it.value;
        else if (it.number == STK__H5_NEW_SIZE)
            p->size = it.value;
        else if (it.number == STK__H5_NEW_BASE_KIND)
            p->base_kind = it.value;
        else if (it.number == STK__H5_NEW_BASE_SIZE)
            p->base_size = it.value;
        else if (it.number == STK__H5_NEW_DIM && p->rank < STK__H5_MAX_RANK)
            p->dims[p->rank++] = it.value;
        else if (it.number == STK__H5_NEW_CHUNK_ROWS)
            p->chunk_rows = it.value;
        else if (it.number == STK__H5_NEW_PAD)
            p->pad = it.value;
        else if (it.number == STK__H5_NEW_SWAP)
            p->swap = it.value != 0;
        else if (it.number == STK__H5_NEW_UTF8)
            p->utf8 = it.value != 0;
        else if (it.number == STK__H5_NEW_FILL && it.is_bytes) {
            p->fill = it.data;
            p->has_fill = true;
        }
    }
    if (status != STK_END)
        return status;
    if (!p->path || !p->chunk_rows)
        return stk_error_set(err, STK_INVALID, "a dataset has no path, or chunks of 0 rows");
    return STK_OK;
}

/* The type in the file, or in our memory. */
static hid_t dataset_type(const plan *p, bool in_memory)
{
    const bool big = p->swap && !in_memory;
    switch (p->kind) {
    case STK__H5_KIND_STRING:
        return p->size > 0 && p->size <= STK__H5_MAX_ELEMENT_BYTES ? string_type(p->size, p->pad, p->utf8) : -1;
    case STK__H5_KIND_VLEN_STRING:
        return string_type(H5T_VARIABLE, STK__H5_PAD_NUL_TERMINATED, p->utf8);
    case STK__H5_KIND_OPAQUE:
        return p->size > 0 && p->size <= STK__H5_MAX_ELEMENT_BYTES ? H5Tcreate(H5T_OPAQUE, p->size) : -1;
    case STK__H5_KIND_VLEN: {
        const hid_t base = plain_type(p->base_kind, p->base_size, big);
        const hid_t type = base >= 0 ? H5Tvlen_create(base) : -1;
        if (base >= 0)
            H5Tclose(base);
        return type;
    }
    default:
        return plain_type(p->kind, p->size, big);
    }
}

static stk_status set_filter(hid_t list, stk__wire w, stk_error *err)
{
    unsigned values[64];
    size_t count = 0;
    uint64_t id = 0, flags = 0;
    item it;
    stk_status status;
    while ((status = next_item(&w, &it, err)) == STK_OK) {
        if (it.number == STK__H5_FILTER_ID)
            id = it.value;
        else if (it.number == STK__H5_FILTER_FLAGS)
            flags = it.value;
        else if (it.number == STK__H5_FILTER_VALUE && count < STK_COUNT(values))
            values[count++] = (unsigned)it.value;
    }
    if (status != STK_END)
        return status;
    char name[32];
    snprintf(name, sizeof name, "%llu", (unsigned long long)id);
    /* Chunks come filtered already: optional ones are good enough for the library, which may not have them. */
    const unsigned flag =
        (flags & 1) || H5Zfilter_avail((H5Z_filter_t)id) <= 0 ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY;
    if (id > H5Z_FILTER_MAX || H5Pset_filter(list, (H5Z_filter_t)id, flag, count, values) < 0)
        return library_error(err, "set filter", name);
    return STK_OK;
}

static stk_status set_filters(hid_t list, stk__wire message, stk_error *err)
{
    item it;
    stk_status status;
    while ((status = next_item(&message, &it, err)) == STK_OK)
        if (it.number == STK__H5_NEW_FILTER && it.is_bytes)
            STK_TRY(set_filter(list, it.data, err));
    return status == STK_END ? STK_OK : status;
}

/* Chunks hold whole rows. A dimension of 0 has no data, but its chunks must have some size. */
static stk_status fill_list(hid_t list, stk__wire message, const plan *p, hid_t type, stk_error *err)
{
    hsize_t chunk[STK__H5_MAX_RANK] = {p->chunk_rows};
    for (int d = 1; d < p->rank; d++)
        chunk[d] = p->dims[d] ? p->dims[d] : 1;
    /* Without times the same data gives the same file. */
    if (H5Pset_chunk(list, p->rank, chunk) < 0 || H5Pset_obj_track_times(list, false) < 0)
        return library_error(err, "choose the chunks of", p->path);
    if (p->has_fill) {
        if (window_size(p->fill) != H5Tget_size(type))
            return stk_error_set(err, STK_INVALID, "the fill value of '%.120s' has %zu bytes, wanted %zu", p->path,
                                 window_size(p->fill), H5Tget_size(type));
        if (H5Pset_fill_value(list, type, p->fill.p) < 0)
            return library_error(err, "set the fill value of", p->path);
    }
    return set_filters(list, message, err);
}

static stk_status make_dataset(const plan *p, hid_t type, hid_t list, dataset *d, stk_error *err)
{
    hsize_t most[STK__H5_MAX_RANK];
    memcpy(most, p->dims, sizeof most);
    most[0] = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(p->rank, p->dims, most);
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    if (space >= 0 && links >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0 &&
        H5Pset_char_encoding(links, H5T_CSET_UTF8) >= 0)
        d->id = H5Dcreate2(out.file, p->path, type, space, links, list, H5P_DEFAULT);
    const stk_status status = d->id > 0 ? STK_OK : library_error(err, "make dataset", p->path);
    if (links >= 0)
        H5Pclose(links);
    if (space >= 0)
        H5Sclose(space);
    return status;
}

static stk_status create_dataset(stk__wire message, const plan *p, dataset *d, stk_error *err)
{
    const hid_t type = dataset_type(p, false);
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    stk_status status = STK_OK;
    if (type < 0 || list < 0)
        status = stk_error_set(err, STK_INVALID, "dataset '%.120s' is of kind %llu with %llu bytes, which is no type",
                               p->path, (unsigned long long)p->kind, (unsigned long long)p->size);
    if (status == STK_OK)
        status = fill_list(list, message, p, type, err);
    if (status == STK_OK)
        status = make_dataset(p, type, list, d, err);
    if (status == STK_OK)
        status = put_attributes(d->id, message, STK__H5_NEW_ATTRIBUTE, err);
    if (list >= 0)
        H5Pclose(list);
    if (type >= 0)
        H5Tclose(type);
    return status;
}

static stk_status add_dataset(stk__wire message, stk_error *err)
{
    if (out.count >= STK__H5_MAX_DATASETS)
        return stk_error_set(err, STK_INVALID, "more than %d datasets", STK__H5_MAX_DATASETS);
    if (!stk__grow((void **)&out.datasets, &out.capacity, out.count + 1, sizeof *out.datasets))
        return stk__nomem(sizeof *out.datasets, err);
    plan p = {0};
    stk_status status = read_plan(message, &p, err);
    if (status != STK_OK) {
        stk__free(p.path);
        return status;
    }
    dataset *d = &out.datasets[out.count++];
    *d = (dataset){.path = p.path, .rank = p.rank, .chunk_rows = p.chunk_rows};
    memcpy(d->dims, p.dims, sizeof d->dims);
    STK_TRY(create_dataset(message, &p, d, err));
    if (p.kind == STK__H5_KIND_VLEN || p.kind == STK__H5_KIND_VLEN_STRING) {
        d->memory_type = dataset_type(&p, true);
        d->value_size = p.kind == STK__H5_KIND_VLEN ? p.base_size : 0;
        if (d->memory_type < 0)
            return library_error(err, "make a type for", p.path);
    }
    return STK_OK;
}

static stk_status create_file(const char *path, stk_error *err)
{
    /* A file that may not grow further is an error to be told, not the end of us. */
    signal(SIGXFSZ, SIG_IGN);
    /* The oldest form that can hold it, so that every reader opens it. */
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list >= 0 && H5Pset_libver_bounds(list, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) >= 0)
        out.file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    const stk_status status = out.file > 0 ? STK_OK : library_error(err, "create the file", NULL);
    if (list >= 0)
        H5Pclose(list);
    return status;
}

static stk_status write_create(const stk__h5_request *request, stk_error *err)
{
    forget_file();
    if (!request->path)
        return stk_error_set(err, STK_INVALID, "CREATE without a path");
    STK_TRY(create_file(request->path, err));
    item it;
    stk_status status;
    stk__wire w = request->body;
    while ((status = next_item(&w, &it, err)) == STK_OK)
        if (it.number == STK__H5_REQUEST_NEW && it.is_bytes)
            STK_TRY(add_dataset(it.data, err));
    if (status != STK_END)
        return status;
    return put_attributes(out.file, request->body, STK__H5_REQUEST_ATTRIBUTE, err);
}

/* ---- CHUNK and ROWS ---- */

static stk_status set_rows(dataset *d, hsize_t rows, stk_error *err)
{
    if (d->dims[0] == rows)
        return STK_OK;
    d->dims[0] = rows;
    return H5Dset_extent(d->id, d->dims) >= 0 ? STK_OK : library_error(err, "set the size of", d->path);
}

/*
 * In large steps, for each costs something. They end where chunks end: cutting through a chunk that is there would
 * make the library read it and write it again, and it may not have the filters for that.
 */
static stk_status make_room(dataset *d, hsize_t rows, stk_error *err)
{
    if (rows <= d->dims[0])
        return STK_OK;
    hsize_t wanted = rows;
    if (d->dims[0] <= UINT64_MAX / 4 && wanted < d->dims[0] * 2)
        wanted = d->dims[0] * 2;
    const hsize_t over = wanted % d->chunk_rows;
    if (over)
        wanted += d->chunk_rows - over;
    return set_rows(d, wanted, err);
}

static stk_status write_chunk(const ask *a, stk_error *err)
{
    dataset *d;
    STK_TRY(find_dataset(a->dataset, &d, err));
    if (a->rank != d->rank || a->offset[0] % d->chunk_rows || a->offset[0] > INT64_MAX / 2 || a->rows > d->chunk_rows)
        return stk_error_set(err, STK_INVALID, "no chunk of '%.120s' begins at row %llu", d->path,
                             (unsigned long long)a->offset[0]);
    /* The last one ends the dataset before it is there, see make_room. */
    if (a->rows && a->rows < d->chunk_rows)
        STK_TRY(set_rows(d, a->offset[0] + a->rows, err));
    else
        STK_TRY(make_room(d, a->offset[0] + d->chunk_rows, err));
    if (H5Dwrite_chunk(d->id, H5P_DEFAULT, (uint32_t)a->mask, a->offset, window_size(a->data), a->data.p) < 0)
        return library_error(err, "write dataset", d->path);
    return STK_OK;
}

/* Values of ROWS as the library wants them. */
typedef struct values {
    void *items; /* char * or hvl_t */
    char *text;  /* strings that end in NUL */
    size_t count;
} values;

static bool next_value(stk__wire *w, stk__wire *value)
{
    if (window_size(*w) < 4)
        return false;
    const uint32_t size =
        (uint32_t)w->p[0] | (uint32_t)w->p[1] << 8 | (uint32_t)w->p[2] << 16 | (uint32_t)w->p[3] << 24;
    w->p += 4;
    if (size > window_size(*w))
        return false;
    *value = (stk__wire){w->p, w->p + size};
    w->p += size;
    return true;
}

static stk_status count_values(const dataset *d, stk__wire w, size_t *count, stk_error *err)
{
    stk__wire value;
    for (*count = 0; w.p < w.end; ++*count)
        if (!next_value(&w, &value) || (d->value_size && window_size(value) % d->value_size))
            return stk_error_set(err, STK_INVALID, "value %zu of '%.120s' is damaged", *count, d->path);
    return STK_OK;
}

static stk_status unpack_values(const dataset *d, stk__wire w, values *v, stk_error *err)
{
    STK_TRY(count_values(d, w, &v->count, err));
    v->items = stk__calloc(v->count, STK_MAX(sizeof(char *), sizeof(hvl_t)));
    v->text = stk__alloc(window_size(w) + 1);
    if (!v->items || !v->text)
        return stk__nomem(window_size(w), err);
    char *text = v->text;
    stk__wire value;
    for (size_t i = 0; i < v->count && next_value(&w, &value); i++) {
        const size_t n = window_size(value);
        if (d->value_size) {
            ((hvl_t *)v->items)[i] = (hvl_t){n / d->value_size, (void *)(uintptr_t)value.p};
            continue;
        }
        memcpy(text, value.p, n);
        text[n] = 0;
        ((char **)v->items)[i] = text;
        text += n + 1; /* the four bytes of each size are more than its NUL */
    }
    return STK_OK;
}

static stk_status write_values(const dataset *d, hsize_t first, hsize_t rows, const void *items, stk_error *err)
{
    hsize_t start[STK__H5_MAX_RANK] = {first}, count[STK__H5_MAX_RANK];
    memcpy(count, d->dims, sizeof count);
    count[0] = rows;
    const hid_t file = H5Dget_space(d->id);
    const hid_t memory = H5Screate_simple(d->rank, count, NULL);
    const bool good = file >= 0 && memory >= 0 &&
                      H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                      H5Dwrite(d->id, d->memory_type, memory, file, H5P_DEFAULT, items) >= 0;
    const stk_status status = good ? STK_OK : library_error(err, "write dataset", d->path);
    if (memory >= 0)
        H5Sclose(memory);
    if (file >= 0)
        H5Sclose(file);
    return status;
}

static stk_status write_rows(const ask *a, stk_error *err)
{
    dataset *d;
    STK_TRY(find_dataset(a->dataset, &d, err));
    if (d->memory_type <= 0)
        return stk_error_set(err, STK_INVALID, "'%.120s' has no values of variable length", d->path);
    hsize_t each = 1;
    for (int i = 1; i < d->rank; i++)
        if (__builtin_mul_overflow(each, d->dims[i], &each))
            each = 0;
    values v = {0};
    stk_status status = unpack_values(d, a->data, &v, err);
    if (status == STK_OK && (!each || v.count % each || a->first_row > INT64_MAX / 2))
        status = stk_error_set(err, STK_INVALID, "%zu values for '%.120s', wanted rows of %llu", v.count, d->path,
                               (unsigned long long)each);
    const hsize_t rows = each ? v.count / each : 0;
    if (status == STK_OK && a->first_row + rows > d->dims[0])
        status = set_rows(d, a->first_row + rows, err);
    if (status == STK_OK && rows)
        status = write_values(d, a->first_row, rows, v.items, err);
    stk__free(v.items);
    stk__free(v.text);
    return status;
}

/* ---- FINISH ---- */

static stk_status write_finish(uint64_t rows, stk_error *err)
{
    if (out.file <= 0)
        return stk_error_set(err, STK_INVALID, "no file is being written");
    for (size_t i = 0; i < out.count; i++) {
        dataset *d = &out.datasets[i];
        STK_TRY(set_rows(d, rows, err));
        if (d->memory_type > 0)
            H5Tclose(d->memory_type);
        d->memory_type = 0;
        const hid_t id = d->id;
        d->id = 0;
        if (H5Dclose(id) < 0)
            return library_error(err, "close dataset", d->path);
    }
    const hid_t file = out.file;
    if (H5Fflush(file, H5F_SCOPE_LOCAL) < 0)
        return library_error(err, "write the file", NULL);
    out.file = 0;
    if (H5Fclose(file) < 0)
        return library_error(err, "close the file", NULL);
    forget_file();
    return STK_OK;
}

stk_status stk__h5_write_request(const stk__h5_request *request, stk_error *err)
{
    ask a;
    STK_TRY(read_ask(request, &a, err));
    switch (request->kind) {
    case STK__H5_ASK_CREATE:
        return write_create(request, err);
    case STK__H5_ASK_CHUNK:
        return write_chunk(&a, err);
    case STK__H5_ASK_ROWS:
        return write_rows(&a, err);
    default:
        return write_finish(a.rows, err);
    }
}
