/* DESCRIBE and INDEX: what the datasets of a file are and where their data lies. */
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

/* libhdf5 keeps compact data in an object header, which has no more. */
#define MAX_COMPACT_BYTES 65536
/* H5Pget_filter2 refuses to be asked for more client values of a filter. */
#define MAX_VALUES 256

/* ---- views ---- */

static stk_status view_space(stk__h5_view *v, stk_error *err)
{
    v->null_space = H5Sget_simple_extent_type(v->space) == H5S_NULL;
    v->rank = v->null_space ? 0 : H5Sget_simple_extent_ndims(v->space);
    if (v->rank < 0 || v->rank > STK__H5_MAX_RANK)
        return stk__h5_fail(err, STK_CORRUPT, "%d dimensions, wanted 0 to %d", v->rank, STK__H5_MAX_RANK);
    if (v->rank && H5Sget_simple_extent_dims(v->space, v->dims, v->max_dims) != v->rank)
        return stk__h5_fail(err, STK_CORRUPT, "a shape that cannot be read");
    return STK_OK;
}

static stk_status view_layout(stk__h5_view *v, stk_error *err)
{
    switch (H5Pget_layout(v->creation)) {
    case H5D_COMPACT:
        v->layout = STK__H5_LAYOUT_COMPACT;
        return STK_OK;
    case H5D_CONTIGUOUS:
        v->layout = H5Pget_external_count(v->creation) > 0 ? STK__H5_LAYOUT_EXTERNAL : STK__H5_LAYOUT_CONTIGUOUS;
        return STK_OK;
    case H5D_VIRTUAL:
        v->layout = STK__H5_LAYOUT_VIRTUAL;
        return STK_OK;
    case H5D_CHUNKED:
        v->layout = STK__H5_LAYOUT_CHUNKED;
        break;
    default:
        return stk__h5_fail(err, STK_CORRUPT, "an unknown layout");
    }
    v->filters = H5Pget_nfilters(v->creation);
    if (v->filters < 0 || H5Pget_chunk(v->creation, STK__H5_MAX_RANK, v->chunk) != v->rank)
        return stk__h5_fail(err, STK_CORRUPT, "chunks that do not fit %d dimensions", v->rank);
    for (int d = 0; d < v->rank; d++) {
        if (v->chunk[d] == 0)
            return stk_error_set(err, STK_CORRUPT, "chunks of size 0 in dimension %d", d);
    }
    return STK_OK;
}

/* The fill value that missing data has, laid out as elements are handed over. */
static void view_fill(stk__h5_view *v)
{
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    H5D_fill_time_t when = H5D_FILL_TIME_ERROR;
    const stk__h5_plan *p = &v->plan;
    stk__text heap = STK__TEXT_INIT;
    if (p->in.count == 0 || H5Pfill_value_defined(v->creation, &defined) < 0 ||
        defined != H5D_FILL_VALUE_USER_DEFINED || H5Pget_fill_time(v->creation, &when) < 0 ||
        when == H5D_FILL_TIME_NEVER)
        return;
    uint8_t *in = stk__calloc(1, p->in.element), *out = stk__calloc(1, p->out.element);
    if (in && out && H5Pget_fill_value(v->creation, p->memory, in) >= 0) {
        const hid_t one = H5Screate(H5S_SCALAR);
        const bool ok = !stk__h5_plan_converts(p) || stk__h5_plan_convert(p, in, out, 1, &heap, NULL) == STK_OK;
        if (!stk__h5_plan_converts(p))
            memcpy(out, in, p->out.element);
        v->fill_set = true;
        v->fill_text = !ok || heap.length > 0;
        /* Places in a heap of our own mean nothing to others. */
        if (!p->variable || heap.length == 0) {
            v->fill = out;
            out = NULL;
        }
        if (p->variable)
            H5Dvlen_reclaim(p->memory, one, H5P_DEFAULT, in);
        H5Sclose(one);
    } else {
        v->fill_set = v->fill_text = true;
    }
    stk__text_clear(&heap);
    stk__free(in);
    stk__free(out);
}

static void view_plan(stk__h5_view *v, const stk__h5_open *f)
{
    char why[128] = "";
    stk__text t;
    stk__text_fixed(&t, why, sizeof why);
    if (f->driver)
        stk__text_puts(&t, f->driver);
    else if (v->layout == STK__H5_LAYOUT_VIRTUAL)
        stk__text_puts(&t, "virtual dataset");
    else if (v->layout == STK__H5_LAYOUT_EXTERNAL)
        stk__text_puts(&t, "data in external files");
    stk__h5_plan_make(&v->plan, v->type, f->offset_size, why);
    view_fill(v);
    if (v->plan.why[0] || !v->plan.variable)
        return;
    /* What of variable length libhdf5 alone can read is only known now. */
    if (v->layout == STK__H5_LAYOUT_COMPACT)
        stk__text_puts(&t, "compact values of variable length");
    else if (v->fill_text)
        stk__text_puts(&t, "fill value of variable length");
    else if (v->layout == STK__H5_LAYOUT_CHUNKED && f->offset_size != 8)
        stk__text_printf(&t, "values of variable length at addresses of %d bytes", f->offset_size);
    else
        return;
    stk__h5_plan_clear(&v->plan);
    stk__h5_plan_make(&v->plan, v->type, f->offset_size, why);
    stk__free(v->fill);
    v->fill = NULL;
    view_fill(v);
}

stk_status stk__h5_view_open(stk__h5_view *v, const stk__h5_open *f, const char *path, stk_error *err)
{
    *v = (stk__h5_view){.dataset = -1, .type = -1, .space = -1, .creation = -1};
    v->plan.memory = -1;
    v->dataset = H5Dopen2(f->file, path, stk__h5_access());
    if (v->dataset < 0)
        return stk__h5_fail(err, STK_CORRUPT, "cannot open dataset '%s'", path);
    v->type = H5Dget_type(v->dataset);
    v->space = H5Dget_space(v->dataset);
    v->creation = H5Dget_create_plist(v->dataset);
    stk_status status = STK_OK;
    if (v->type < 0 || v->space < 0 || v->creation < 0)
        status = stk__h5_fail(err, STK_CORRUPT, "cannot read the header of dataset '%s'", path);
    if (status == STK_OK)
        status = view_space(v, err);
    if (status == STK_OK)
        status = view_layout(v, err);
    if (status != STK_OK) {
        stk__h5_view_close(v);
        return status;
    }
    view_plan(v, f);
    H5Eclear2(H5E_DEFAULT);
    return STK_OK;
}

void stk__h5_view_close(stk__h5_view *v)
{
    stk__h5_plan_clear(&v->plan);
    stk__free(v->fill);
    if (v->creation >= 0)
        H5Pclose(v->creation);
    if (v->space >= 0)
        H5Sclose(v->space);
    if (v->type >= 0)
        H5Tclose(v->type);
    if (v->dataset >= 0)
        H5Dclose(v->dataset);
    *v = (stk__h5_view){.dataset = -1, .type = -1, .space = -1, .creation = -1, .plan = {.memory = -1}};
}

/* ---- messages ---- */

static void put_text(stk__text *t, uint32_t field, const char *text)
{
    stk__wire_put_bytes(t, field, text, strlen(text));
}

static void put_leaf(stk__text *t, const stk__h5_place *p)
{
    stk__text m = STK__TEXT_INIT;
    put_text(&m, STK__H5_LEAF_PATH, p->path);
    stk__wire_put_uint(&m, STK__H5_LEAF_KIND, (uint64_t)p->kind);
    stk__wire_put_uint(&m, STK__H5_LEAF_SIZE, p->size);
    stk__wire_put_uint(&m, STK__H5_LEAF_OFFSET, p->offset);
    if (p->swap)
        stk__wire_put_uint(&m, STK__H5_LEAF_SWAP, 1);
    if (p->kind == STK__H5_KIND_STRING)
        stk__wire_put_uint(&m, STK__H5_LEAF_PAD, (uint64_t)p->pad);
    if (p->utf8)
        stk__wire_put_uint(&m, STK__H5_LEAF_UTF8, 1);
    for (int d = 0; d < p->ndim; d++)
        stk__wire_put_uint(&m, STK__H5_LEAF_DIM, p->dims[d]);
    for (int d = 0; d < p->ndim; d++)
        stk__wire_put_uint(&m, STK__H5_LEAF_STRIDE, p->strides[d]);
    if (p->kind == STK__H5_KIND_VLEN) {
        stk__wire_put_uint(&m, STK__H5_LEAF_BASE_KIND, (uint64_t)p->base_kind);
        stk__wire_put_uint(&m, STK__H5_LEAF_BASE_SIZE, p->base_size);
        if (p->base_swap)
            stk__wire_put_uint(&m, STK__H5_LEAF_BASE_SWAP, 1);
    }
    t->failed = t->failed || m.failed;
    stk__wire_put_bytes(t, STK__H5_DATASET_LEAF, m.data, m.length);
    stk__text_clear(&m);
}

static stk_status put_filters(stk__text *t, const stk__h5_view *v, stk__text *why, stk_error *err)
{
    unsigned values[MAX_VALUES];
    for (int i = 0; i < v->filters; i++) {
        unsigned flags = 0;
        size_t count = MAX_VALUES;
        char name[256] = "";
        stk__text m = STK__TEXT_INIT;
        const H5Z_filter_t id =
            H5Pget_filter2(v->creation, (unsigned)i, &flags, &count, values, sizeof name, name, NULL);
        if (id < 0)
            return stk__h5_fail(err, STK_CORRUPT, "filter %d cannot be read", i);
        if (count > MAX_VALUES && why->length == 0)
            stk__text_printf(why, "filter %d has %zu values", (int)id, count);
        stk__wire_put_uint(&m, STK__H5_FILTER_ID, (uint64_t)id);
        stk__wire_put_uint(&m, STK__H5_FILTER_FLAGS, flags & H5Z_FLAG_OPTIONAL ? 1 : 0);
        for (size_t k = 0; k < count && k < MAX_VALUES; k++)
            stk__wire_put_uint(&m, STK__H5_FILTER_VALUE, values[k]);
        name[sizeof name - 1] = 0;
        put_text(&m, STK__H5_FILTER_NAME, name);
        t->failed = t->failed || m.failed;
        stk__wire_put_bytes(t, STK__H5_DATASET_FILTER, m.data, m.length);
        stk__text_clear(&m);
    }
    return STK_OK;
}

static const char *index_name(hid_t dataset)
{
    static const char *const names[] = {"v1 B-tree",   "single chunk",     "implicit",
                                        "fixed array", "extensible array", "v2 B-tree"};
    H5D_chunk_index_t type = H5D_CHUNK_IDX_BTREE;
    if (H5Dget_chunk_index_type(dataset, &type) < 0 || (size_t)type >= STK_COUNT(names))
        return NULL;
    return names[type];
}

/* What only chunked datasets have; why is set when their chunks cannot be found. */
static stk_status put_chunks(stk__text *t, const stk__h5_view *v, const stk__h5_open *f, bool index, char *why,
                             size_t why_size, stk_error *err)
{
    unsigned options = 0;
    hsize_t count = 0;
    const char *name = index_name(v->dataset);
    for (int d = 0; d < v->rank; d++)
        stk__wire_put_uint(t, STK__H5_DATASET_CHUNK_DIM, v->chunk[d]);
    stk__text reason;
    stk__text_fixed(&reason, why, why_size);
    STK_TRY(put_filters(t, v, &reason, err));
    if (H5Pget_chunk_opts(v->creation, &options) >= 0 && options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS)
        stk__wire_put_uint(t, STK__H5_DATASET_RAW_EDGES, 1);
    if (name)
        put_text(t, STK__H5_DATASET_INDEX, name);
    if (H5Dget_num_chunks(v->dataset, v->space, &count) < 0) {
        char text[200];
        stk__h5_reason(text, sizeof text);
        stk__text_printf(&reason, "its chunk index cannot be read: %s", text);
        return STK_OK;
    }
    stk__wire_put_uint(t, STK__H5_DATASET_CHUNK_COUNT, count);
    if (!index || v->plan.why[0] || why[0])
        return STK_OK;
    stk__h5_table table;
    const stk_status status = stk__h5_table_make(&table, f, v->dataset, v->rank, v->dims, v->chunk, count, err);
    stk__text_puts(&reason, table.why);
    if (status == STK_OK && !table.why[0])
        stk__wire_put_bytes(t, STK__H5_DATASET_CHUNKS, table.entries ? (void *)table.entries : "", 32 * table.count);
    stk__h5_table_clear(&table);
    return status;
}

static stk_status put_compact(stk__text *t, const stk__h5_view *v, stk_error *err)
{
    const stk__h5_plan *p = &v->plan;
    size_t elements = 1, bytes, out_bytes;
    for (int d = 0; d < v->rank; d++) {
        if (__builtin_mul_overflow(elements, (size_t)v->dims[d], &elements))
            elements = SIZE_MAX;
    }
    if (__builtin_mul_overflow(elements, p->in.element, &bytes) ||
        __builtin_mul_overflow(elements, p->out.element, &out_bytes) || bytes > 2 * MAX_COMPACT_BYTES)
        return stk_error_set(err, STK_CORRUPT, "compact data of more than %d bytes", MAX_COMPACT_BYTES);
    /* libhdf5 does not look, and would read on behind it. */
    if (H5Dget_storage_size(v->dataset) < out_bytes)
        return stk_error_set(err, STK_CORRUPT, "compact data of %llu bytes, wanted %zu",
                             (unsigned long long)H5Dget_storage_size(v->dataset), out_bytes);
    uint8_t *in = stk__calloc(1, bytes + 1), *out = stk__calloc(1, out_bytes + 1);
    stk_status status = STK_OK;
    if (!in || !out)
        status = stk__nomem(bytes + out_bytes, err);
    else if (H5Dread(v->dataset, p->memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, in) < 0)
        status = stk__h5_fail(err, STK_CORRUPT, "compact data cannot be read");
    else if (stk__h5_plan_converts(p))
        status = stk__h5_plan_convert(p, in, out, elements, NULL, err);
    if (status == STK_OK)
        stk__wire_put_bytes(t, STK__H5_DATASET_COMPACT, stk__h5_plan_converts(p) ? out : in, out_bytes);
    stk__free(in);
    stk__free(out);
    return status;
}

/* The name of file i that a virtual or external dataset has its data in; false: it cannot be told. */
static bool source_name(const stk__h5_view *v, size_t i, char *out, size_t room)
{
    if (v->layout == STK__H5_LAYOUT_VIRTUAL) {
        const ssize_t size = H5Pget_virtual_filename(v->creation, i, out, room);
        return size >= 0 && (size_t)size < room;
    }
    out[room - 1] = 0;
    return H5Pget_external(v->creation, (unsigned)i, room - 1, out, NULL, NULL) >= 0;
}

/* Once each where they follow each other. "." is the file itself. What cannot be told becomes "%", a pattern for anything. */
static void put_sources(stk__text *t, const stk__h5_view *v, const stk__h5_open *f)
{
    char name[STK__H5_MAX_NAME], before[STK__H5_MAX_NAME] = ".";
    size_t count = 0;
    if (f->driver) /* the file itself lies in several */
        put_text(t, STK__H5_DATASET_SOURCE, "%");
    if (v->layout == STK__H5_LAYOUT_VIRTUAL && H5Pget_virtual_count(v->creation, &count) < 0)
        count = 0;
    if (v->layout == STK__H5_LAYOUT_EXTERNAL)
        count = (size_t)STK_MAX(H5Pget_external_count(v->creation), 0);
    for (size_t i = 0, put = 0; i < count && put < STK__H5_MAX_SOURCES; i++) {
        if (!source_name(v, i, name, sizeof name) || put + 1 == STK__H5_MAX_SOURCES)
            snprintf(name, sizeof name, "%%");
        if (strcmp(name, ".") == 0 || strcmp(name, before) == 0)
            continue;
        put_text(t, STK__H5_DATASET_SOURCE, name);
        memcpy(before, name, sizeof before);
        put++;
    }
}

static stk_status put_layout(stk__text *t, const stk__h5_view *v, const stk__h5_open *f, bool index, char *why,
                             size_t why_size, stk_error *err)
{
    stk__wire_put_uint(t, STK__H5_DATASET_LAYOUT, (uint64_t)v->layout);
    put_sources(t, v, f);
    stk__wire_put_uint(t, STK__H5_DATASET_STORED, H5Dget_storage_size(v->dataset));
    if (v->layout == STK__H5_LAYOUT_CHUNKED)
        return put_chunks(t, v, f, index, why, why_size, err);
    if (v->plan.why[0] || v->plan.out.count == 0 || v->null_space)
        return STK_OK;
    if (v->layout == STK__H5_LAYOUT_COMPACT)
        return put_compact(t, v, err);
    /* Data that was never written has no address; 1.10.8 adds the user block to that all the same. */
    const haddr_t address = H5Dget_storage_size(v->dataset) > 0 ? H5Dget_offset(v->dataset) : HADDR_UNDEF;
    if (address != HADDR_UNDEF)
        stk__wire_put_uint(t, STK__H5_DATASET_ADDRESS, address);
    return STK_OK;
}

static stk_status put_view(stk__text *t, const stk__h5_view *v, const char *path, const stk__h5_open *f, bool index,
                           stk_error *err)
{
    const stk__h5_plan *p = &v->plan;
    char why[256] = "";
    stk__text type = STK__TEXT_INIT;
    stk__h5_type_text(v->type, &type);
    put_text(t, STK__H5_DATASET_PATH, path);
    stk__wire_put_bytes(t, STK__H5_DATASET_TYPE, type.data, type.length);
    stk__text_clear(&type);
    for (int d = 0; d < v->rank; d++)
        stk__wire_put_uint(t, STK__H5_DATASET_DIM, v->dims[d]);
    for (int d = 0; d < v->rank; d++)
        stk__wire_put_uint(t, STK__H5_DATASET_MAX_DIM, v->max_dims[d] == H5S_UNLIMITED ? UINT64_MAX : v->max_dims[d]);
    stk__wire_put_uint(t, STK__H5_DATASET_ELEMENT, p->out.element ? p->out.element : H5Tget_size(v->type));
    for (size_t i = 0; i < p->out.count && !v->null_space; i++)
        put_leaf(t, &p->out.items[i]);
    if (v->fill)
        stk__wire_put_bytes(t, STK__H5_DATASET_FILL, v->fill, p->out.element);
    if (v->fill_set)
        stk__wire_put_uint(t, STK__H5_DATASET_HAS_FILL, 1);
    STK_TRY(put_layout(t, v, f, index, why, sizeof why, err));
    const char *reason = v->null_space ? "no data: its shape is null" : p->why[0] ? p->why : why;
    if (reason[0])
        put_text(t, STK__H5_DATASET_WHY, reason);
    stk__h5_put_attributes(t, STK__H5_DATASET_ATTRIBUTE, v->dataset);
    return STK_OK;
}

/* One DATASET message into the FILE message. */
static stk_status put_dataset(stk__text *file, const stk__h5_open *f, const char *path, bool index, stk_error *err)
{
    stk__h5_view v;
    stk__text t = STK__TEXT_INIT;
    H5Eclear2(H5E_DEFAULT);
    STK_TRY(stk__h5_view_open(&v, f, path, err));
    const stk_status status = put_view(&t, &v, path, f, index, err);
    if (status == STK_OK && t.failed)
        file->failed = true;
    if (status == STK_OK)
        stk__wire_put_bytes(file, STK__H5_FILE_DATASET, t.data, t.length);
    if (status == STK_OK && v.plan.out.count && v.plan.left_out.length)
        stk__h5_put_skipped(file, path, v.plan.left_out.data);
    stk__text_clear(&t);
    stk__h5_view_close(&v);
    return status;
}

/* ---- paths ---- */

/* From the root, with one slash between names. */
static char *clean_path(const char *path)
{
    stk__text t = STK__TEXT_INIT;
    while (*path) {
        while (*path == '/')
            path++;
        const size_t length = strcspn(path, "/");
        if (length) {
            stk__text_putc(&t, '/');
            stk__text_write(&t, path, length);
        }
        path += length;
    }
    if (t.length == 0)
        stk__text_putc(&t, '/');
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

typedef enum found { NOTHING, GROUP, DATASET, TABLE, OTHER } found;

static found look_at(hid_t file, const char *path)
{
    const hid_t object = H5Oopen(file, path, stk__h5_access());
    if (object < 0)
        return NOTHING;
    const H5I_type_t kind = H5Iget_type(object);
    found what = kind == H5I_GROUP ? GROUP : kind == H5I_DATASET ? DATASET : OTHER;
    if (what == DATASET) {
        const hid_t type = H5Dget_type(object);
        if (type >= 0 && H5Tget_class(type) == H5T_COMPOUND)
            what = TABLE;
        if (type >= 0)
            H5Tclose(type);
    }
    H5Oclose(object);
    return what;
}

/* Names that are like it, or some that there are. */
static stk_status not_there(hid_t file, const char *path, stk_error *err)
{
    H5L_info_t link;
    if (H5Lget_info(file, path, &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_EXTERNAL)
        return stk_error_set(err, STK_UNSUPPORTED, "'%s' is an external link, which is not followed", path);
    stk__h5_names names = {0};
    stk__text skipped = STK__TEXT_INIT, list = STK__TEXT_INIT;
    stk_status status = stk__h5_names_find(&names, file, &skipped, err);
    if (status == STK_OK) {
        const char *near = stk__nearest(path, (const char *const *)names.items, names.count);
        for (size_t i = 0; !near && i < names.count && i < 8; i++)
            stk__text_printf(&list, "%s%s", i ? ", " : "", names.items[i]);
        if (names.count > 8)
            stk__text_puts(&list, ", ...");
        if (near)
            status = stk_error_set(err, STK_INVALID, "no dataset '%s'; did you mean '%s'?", path, near);
        else if (names.count)
            status = stk_error_set(err, STK_INVALID, "no dataset '%s'; there are %s", path, list.data ? list.data : "");
        else
            status = stk_error_set(err, STK_INVALID, "no dataset '%s', nor any other", path);
    }
    stk__text_clear(&list);
    stk__text_clear(&skipped);
    stk__h5_names_clear(&names);
    return status;
}

/* Cuts names of members off the end of a path, so that it names their dataset. */
static stk_status resolve(hid_t file, char *path, stk_error *err)
{
    found what = look_at(file, path);
    if (what == DATASET || what == TABLE)
        return STK_OK;
    if (what != NOTHING)
        return stk_error_set(err, STK_INVALID, "'%s' is a %s, wanted a dataset", path,
                             what == GROUP ? "group" : "type");
    char *whole = stk__strdup(path);
    stk_status status = whole ? STK_END : stk__nomem(strlen(path), err);
    while (status == STK_END) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            status = not_there(file, whole, err);
            break;
        }
        *slash = 0;
        what = look_at(file, path);
        if (what == TABLE)
            status = STK_OK;
        else if (what == DATASET)
            status = stk_error_set(err, STK_INVALID, "no dataset '%s': '%s' has no members", whole, path);
        else if (what != NOTHING)
            status = not_there(file, whole, err);
    }
    stk__free(whole);
    return status;
}

/* ---- requests ---- */

static void put_file(stk__text *t, const stk__h5_open *f)
{
    unsigned major = 0, minor = 0, release = 0;
    stk__text version = STK__TEXT_INIT;
    H5get_libversion(&major, &minor, &release);
    stk__text_printf(&version, "%u.%u.%u", major, minor, release);
    stk__wire_put_uint(t, STK__H5_FILE_VERSION, STK__H5_WIRE_VERSION);
    stk__wire_put_bytes(t, STK__H5_FILE_LIBRARY, version.data, version.length);
    stk__text_clear(&version);
    stk__wire_put_uint(t, STK__H5_FILE_OFFSET_SIZE, (uint64_t)f->offset_size);
    stk__wire_put_uint(t, STK__H5_FILE_LENGTH_SIZE, (uint64_t)f->length_size);
    stk__wire_put_uint(t, STK__H5_FILE_BASE, f->base);
    stk__wire_put_uint(t, STK__H5_FILE_SIZE, (uint64_t)f->id.st_size);
    stk__wire_put_uint(t, STK__H5_FILE_MTIME,
                       (uint64_t)f->id.st_mtim.tv_sec * 1000000000u + (uint64_t)f->id.st_mtim.tv_nsec);
    stk__wire_put_uint(t, STK__H5_FILE_INODE, (uint64_t)f->id.st_ino);
    stk__wire_put_uint(t, STK__H5_FILE_DEVICE, (uint64_t)f->id.st_dev);
    const hid_t root = H5Gopen2(f->file, "/", H5P_DEFAULT);
    if (root >= 0) {
        stk__h5_put_attributes(t, STK__H5_FILE_ATTRIBUTE, root);
        H5Gclose(root);
    }
}

static stk_status describe_all(stk__text *t, const stk__h5_open *f, bool index, stk_error *err)
{
    stk__h5_names names = {0};
    stk_status status = stk__h5_names_find(&names, f->file, t, err);
    for (size_t i = 0; i < names.count && status == STK_OK; i++) {
        stk_error bad;
        stk_error_clear(&bad);
        status = put_dataset(t, f, names.items[i], index, &bad);
        if (status == STK_NOMEM) {
            stk_error_set(err, status, "%s", bad.message);
        } else if (status != STK_OK) {
            stk__h5_put_skipped(t, names.items[i], bad.message);
            status = STK_OK;
        }
    }
    stk__h5_names_clear(&names);
    return status;
}

static stk_status describe_some(stk__text *t, const stk__h5_open *f, const stk__h5_request *r, stk_error *err)
{
    stk_status status = STK_OK;
    for (size_t i = 0; i < r->dataset_count && status == STK_OK; i++) {
        char *path = clean_path(r->datasets[i]);
        status = path ? resolve(f->file, path, err) : stk__nomem(0, err);
        if (status == STK_OK)
            status = put_dataset(t, f, path, r->kind == STK__H5_ASK_INDEX, err);
        stk__free(path);
    }
    return status;
}

stk_status stk__h5_describe_request(const stk__h5_request *r, stk__h5_answer *answer, stk_error *err)
{
    stk__h5_open f;
    stk__text t = STK__TEXT_INIT;
    if (!r->path)
        return stk_error_set(err, STK_INVALID, "a request without a file");
    STK_TRY(stk__h5_open_file(&f, r->path, true, err));
    put_file(&t, &f);
    stk_status status =
        r->dataset_count ? describe_some(&t, &f, r, err) : describe_all(&t, &f, r->kind == STK__H5_ASK_INDEX, err);
    if (status == STK_OK && t.failed)
        status = stk__nomem(t.length, err);
    if (status == STK_OK)
        stk__wire_put_bytes(&answer->message, STK__H5_ANSWER_FILE, t.data, t.length);
    stk__text_clear(&t);
    stk__h5_close_file(&f);
    return status;
}
