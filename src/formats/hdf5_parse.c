/* Reads the description of an HDF5 file (a FILE message of hdf5_wire.h) into structures, by tables of its fields. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/hdf5_index.h"

#include "base/banned.h"

/*
 * What a description may take in memory besides a small multiple of its own size: a few bytes can stand for a large
 * structure.
 */
#define MEMORY_MAX ((size_t)512 << 20)
enum { TEXT_MAX = 1 << 20, ATTRIBUTES_MAX = 1 << 20 };

/* ---- memory ---- */

/* In front of each piece of memory; a multiple of 16 bytes, so that what follows is aligned. */
typedef struct kept {
    struct kept *next;
    size_t size;
} kept;

typedef struct file_box {
    stk__h5_file file; /* first: a file is its box */
    kept *all;
    size_t limit;
    uint8_t *zeros; /* shared by datasets without a fill value */
    size_t zeros_size;
} file_box;

_Static_assert(sizeof(kept) % 16 == 0, "memory behind it is aligned");

void *stk__h5_keep(stk__h5_file *file, size_t size, stk_error *err)
{
    file_box *box = (file_box *)(void *)file;
    if (size > box->limit || file->memory > box->limit - size) {
        stk_error_set(err, STK_CORRUPT, "its description takes more than %zu bytes of memory", box->limit);
        return NULL;
    }
    kept *k = stk__calloc(1, sizeof *k + size);
    if (!k) {
        stk__nomem(sizeof *k + size, err);
        return NULL;
    }
    k->next = box->all;
    k->size = size;
    box->all = k;
    file->memory += sizeof *k + size;
    return k + 1;
}

uint8_t *stk__h5_zeros(stk__h5_file *file, size_t size, stk_error *err)
{
    file_box *box = (file_box *)(void *)file;
    if (size > box->zeros_size || !box->zeros) {
        if (!(box->zeros = stk__h5_keep(file, size, err)))
            return NULL;
        box->zeros_size = size;
    }
    return box->zeros;
}

void stk__h5_file_free(stk__h5_file *file)
{
    if (!file)
        return;
    file_box *box = (file_box *)(void *)file;
    while (box->all) {
        kept *next = box->all->next;
        stk__free(box->all);
        box->all = next;
    }
    stk__free(box);
}

stk_status stk__h5_corrupt(const char *path, stk_error *err, const char *format, ...)
{
    char what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (path)
        return stk_error_set(err, STK_CORRUPT, "dataset '%.160s': %s", path, what);
    return stk_error_set(err, STK_CORRUPT, "description of the file: %s", what);
}

/* ---- messages by table ---- */

typedef struct parser {
    stk__h5_file *file;
    int64_t size_bytes;
    const stk__h5_draft *dataset; /* being read; NULL outside of datasets */
    stk_error *err;
} parser;

/* One field of a message. */
typedef struct item {
    uint32_t field, type;
    uint64_t number; /* STK__WIRE_VARINT */
    stk__wire bytes; /* STK__WIRE_BYTES */
} item;

/* Reads one item of a list into its place in the array, which is zeroed. */
typedef stk_status read_item(parser *p, const item *it, void *to);

typedef enum rule_type {
    TEXT,   /* char *, given once, without NUL */
    WINDOW, /* stk__wire */
    INT,    /* int */
    INT64,  /* int64_t */
    SIZE,   /* size_t */
    FLAG,   /* bool */
    DIMS,   /* array of STK__H5_MAX_RANK 64-bit numbers; int32_t count */
    LIST    /* pointer to an array of items; size_t count */
} rule_type;

typedef struct rule {
    uint32_t field;
    rule_type type;
    const char *name;
    size_t offset;   /* in the structure that is filled */
    size_t count_at; /* DIMS, LIST */
    uint64_t max;    /* largest number, longest text, most items */
    size_t item_size;
    read_item *read;
} rule;

#define AT(T, member) offsetof(T, member)

static const uint8_t nothing[1];
static const stk__wire no_text = {nothing, nothing};

static stk_status bad(const parser *p, const char *what, const char *name, uint64_t found, uint64_t wanted)
{
    return stk__h5_corrupt(p->dataset ? p->dataset->d.path : NULL, p->err, "%s is %s: found %llu, wanted at most %llu",
                           name, what, (unsigned long long)found, (unsigned long long)wanted);
}

static stk_status malformed(const parser *p, const char *name)
{
    return stk__h5_corrupt(p->dataset ? p->dataset->d.path : NULL, p->err, "%s is no sound message", name);
}

/* 1: there was one. 0: the message is at its end. -1: it is broken. */
static int next_item(stk__wire *w, item *it)
{
    if (w->p >= w->end)
        return 0;
    if (!stk__wire_tag(w, &it->field, &it->type))
        return -1;
    bool ok;
    if (it->type == STK__WIRE_VARINT)
        ok = stk__wire_varint(w, &it->number);
    else if (it->type == STK__WIRE_BYTES)
        ok = stk__wire_bytes(w, &it->bytes);
    else
        ok = stk__wire_skip(w, it->type);
    return ok ? 1 : -1;
}

static const rule *find_rule(const rule *rules, uint32_t field)
{
    for (; rules->name; rules++) {
        if (rules->field == field)
            return rules;
    }
    return NULL;
}

static stk_status keep_text(parser *p, stk__wire text, const char *name, uint64_t max, char **out)
{
    const size_t length = (size_t)(text.end - text.p);
    if (length > max)
        return bad(p, "too long", name, length, max);
    if (memchr(text.p, 0, length))
        return stk__h5_corrupt(p->dataset ? p->dataset->d.path : NULL, p->err, "%s holds a NUL byte", name);
    char *copy = stk__h5_keep(p->file, length + 1, p->err);
    if (!copy)
        return STK_NOMEM;
    memcpy(copy, text.p, length);
    *out = copy;
    return STK_OK;
}

static stk_status store_number(parser *p, const rule *r, uint64_t x, char *base)
{
    void *to = base + r->offset;
    if (x > r->max)
        return bad(p, "out of range", r->name, x, r->max);
    switch (r->type) {
    case INT:
        *(int *)to = (int)x;
        return STK_OK;
    case INT64:
        *(int64_t *)to = (int64_t)x;
        return STK_OK;
    case SIZE:
        *(size_t *)to = (size_t)x;
        return STK_OK;
    case FLAG:
        *(bool *)to = x != 0;
        return STK_OK;
    default: { /* DIMS */
        int32_t *count = (int32_t *)(void *)(base + r->count_at);
        if (*count >= STK__H5_MAX_RANK)
            return bad(p, "given too often", r->name, (uint64_t)*count + 1, STK__H5_MAX_RANK);
        ((uint64_t *)to)[(*count)++] = x;
        return STK_OK;
    }
    }
}

static stk_status store(parser *p, const rule *r, const item *it, char *base)
{
    if (r->type == LIST) {
        size_t *count = (size_t *)(void *)(base + r->count_at);
        char *items = *(char **)(void *)(base + r->offset);
        return r->read(p, it, items + (*count)++ * r->item_size);
    }
    const uint32_t wanted = r->type == TEXT || r->type == WINDOW ? STK__WIRE_BYTES : STK__WIRE_VARINT;
    if (it->type != wanted)
        return malformed(p, r->name);
    if (r->type == WINDOW) {
        *(stk__wire *)(void *)(base + r->offset) = it->bytes;
        return STK_OK;
    }
    if (r->type != TEXT)
        return store_number(p, r, it->number, base);
    char **text = (char **)(void *)(base + r->offset);
    if (*text)
        return bad(p, "given too often", r->name, 2, 1);
    return keep_text(p, it->bytes, r->name, r->max, text);
}

/* Makes room for the lists of a message. Their counts are zero again afterwards. */
static stk_status make_lists(parser *p, const char *name, stk__wire w, const rule *rules, char *base)
{
    item it;
    int more;
    while ((more = next_item(&w, &it)) > 0) {
        const rule *r = find_rule(rules, it.field);
        if (r && r->type == LIST)
            ++*(size_t *)(void *)(base + r->count_at);
    }
    if (more < 0)
        return malformed(p, name);
    for (const rule *r = rules; r->name; r++) {
        if (r->type != LIST)
            continue;
        size_t *count = (size_t *)(void *)(base + r->count_at);
        if (*count > r->max)
            return bad(p, "given too often", r->name, *count, r->max);
        if (*count && !(*(void **)(void *)(base + r->offset) = stk__h5_keep(p->file, *count * r->item_size, p->err)))
            return STK_NOMEM;
        *count = 0;
    }
    return STK_OK;
}

/* Fills a zeroed structure. Fields that no rule knows are skipped. */
static stk_status read_message(parser *p, const char *name, stk__wire w, const rule *rules, void *base)
{
    STK_TRY(make_lists(p, name, w, rules, base));
    item it;
    while (next_item(&w, &it) > 0) {
        const rule *r = find_rule(rules, it.field);
        if (r)
            STK_TRY(store(p, r, &it, base));
    }
    return STK_OK;
}

/* ---- what there is in a file ---- */

static stk_status read_text(parser *p, const item *it, void *to)
{
    return it->type == STK__WIRE_BYTES ? keep_text(p, it->bytes, "text", TEXT_MAX, to) : malformed(p, "text");
}

static stk_status read_filter_value(parser *p, const item *it, void *to)
{
    if (it->type != STK__WIRE_VARINT || it->number > UINT32_MAX)
        return malformed(p, "client value of a filter");
    *(uint32_t *)to = (uint32_t)it->number;
    return STK_OK;
}

typedef struct filter_draft {
    int64_t id;
    int64_t flags;
    uint32_t *values;
    size_t value_count;
} filter_draft;

static const rule filter_rules[] = {
    {STK__H5_FILTER_ID, INT64, "id of a filter", AT(filter_draft, id), .max = UINT32_MAX},
    {STK__H5_FILTER_FLAGS, INT64, "flags of a filter", AT(filter_draft, flags), .max = UINT32_MAX},
    {STK__H5_FILTER_VALUE, LIST, "client value of a filter", AT(filter_draft, values), AT(filter_draft, value_count),
     STK__H5_FILTER_VALUES_MAX, sizeof(uint32_t), read_filter_value},
    {0},
};

static stk_status read_filter(parser *p, const item *it, void *to)
{
    filter_draft draft = {0};
    if (it->type != STK__WIRE_BYTES)
        return malformed(p, "filter");
    STK_TRY(read_message(p, "filter", it->bytes, filter_rules, &draft));
    *(stk__h5_filter *)to = (stk__h5_filter){
        .id = (uint32_t)draft.id,
        .optional = draft.flags & 1,
        .values = draft.values,
        .value_count = draft.value_count,
    };
    return STK_OK;
}

typedef struct leaf_draft {
    stk__h5_leaf leaf;
    int base_kind;
    int32_t stride_count;
} leaf_draft;

static const rule leaf_rules[] = {
    {STK__H5_LEAF_PATH, TEXT, "path of a member", AT(leaf_draft, leaf.path), .max = STK__H5_MAX_NAME},
    {STK__H5_LEAF_KIND, INT, "kind of a value", AT(leaf_draft, leaf.kind), .max = STK__H5_KIND_VLEN},
    {STK__H5_LEAF_SIZE, SIZE, "size of a value", AT(leaf_draft, leaf.size), .max = STK__H5_MAX_ELEMENT_BYTES},
    {STK__H5_LEAF_OFFSET, SIZE, "offset of a member", AT(leaf_draft, leaf.offset), .max = STK__H5_MAX_ELEMENT_BYTES},
    {STK__H5_LEAF_SWAP, FLAG, "byte order", AT(leaf_draft, leaf.swap), .max = 1},
    {STK__H5_LEAF_PAD, INT, "padding of strings", AT(leaf_draft, leaf.pad), .max = STK__H5_PAD_SPACE},
    {STK__H5_LEAF_UTF8, FLAG, "character set", AT(leaf_draft, leaf.utf8), .max = 1},
    {STK__H5_LEAF_DIM, DIMS, "array dimension", AT(leaf_draft, leaf.dims), AT(leaf_draft, leaf.ndim),
     STK__H5_MAX_ELEMENT_BYTES},
    {STK__H5_LEAF_STRIDE, DIMS, "array stride", AT(leaf_draft, leaf.strides), AT(leaf_draft, stride_count),
     STK__H5_MAX_ELEMENT_BYTES},
    {STK__H5_LEAF_BASE_KIND, INT, "kind of values in sequences", AT(leaf_draft, base_kind), .max = STK__H5_KIND_VLEN},
    {STK__H5_LEAF_BASE_SIZE, SIZE, "size of values in sequences", AT(leaf_draft, leaf.base_size), .max = 8},
    {STK__H5_LEAF_BASE_SWAP, FLAG, "byte order in sequences", AT(leaf_draft, leaf.base_swap), .max = 1},
    {0},
};

stk_dtype stk__h5_dtype(int kind, size_t size)
{
    static const struct {
        uint8_t kind, size;
        stk_dtype dtype;
    } table[] = {
        {STK__H5_KIND_INT, 1, STK_INT8},        {STK__H5_KIND_INT, 2, STK_INT16},
        {STK__H5_KIND_INT, 4, STK_INT32},       {STK__H5_KIND_INT, 8, STK_INT64},
        {STK__H5_KIND_UINT, 1, STK_UINT8},      {STK__H5_KIND_UINT, 2, STK_UINT16},
        {STK__H5_KIND_UINT, 4, STK_UINT32},     {STK__H5_KIND_UINT, 8, STK_UINT64},
        {STK__H5_KIND_FLOAT, 2, STK_FLOAT16},   {STK__H5_KIND_FLOAT, 4, STK_FLOAT32},
        {STK__H5_KIND_FLOAT, 8, STK_FLOAT64},   {STK__H5_KIND_BOOL, 1, STK_BOOL},
        {STK__H5_KIND_BFLOAT, 2, STK_BFLOAT16},
    };
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        if (table[i].kind == kind && table[i].size == size)
            return table[i].dtype;
    }
    const bool bytes = kind == STK__H5_KIND_STRING || kind == STK__H5_KIND_OPAQUE || kind == STK__H5_KIND_VLEN_STRING;
    return bytes && size ? STK_BYTES : STK_DTYPE_COUNT;
}

static stk_status read_leaf(parser *p, const item *it, void *to)
{
    leaf_draft draft = {0};
    stk__h5_leaf *leaf = &draft.leaf;
    if (it->type != STK__WIRE_BYTES)
        return malformed(p, "member");
    STK_TRY(read_message(p, "member", it->bytes, leaf_rules, &draft));
    const char *path = p->dataset->d.path;
    if (draft.stride_count != leaf->ndim)
        return stk__h5_corrupt(path, p->err, "a member has %d dimensions and %d strides", leaf->ndim,
                               draft.stride_count);
    const bool sequence = leaf->kind == STK__H5_KIND_VLEN;
    leaf->dtype = sequence ? stk__h5_dtype(draft.base_kind, leaf->base_size) : stk__h5_dtype(leaf->kind, leaf->size);
    if (leaf->dtype == STK_DTYPE_COUNT || (sequence && leaf->dtype == STK_BYTES))
        return stk__h5_corrupt(path, p->err, "there are no values of kind %d with %zu bytes",
                               sequence ? draft.base_kind : leaf->kind, sequence ? leaf->base_size : leaf->size);
    if (!leaf->path)
        STK_TRY(keep_text(p, no_text, "path", 0, &leaf->path));
    *(stk__h5_leaf *)to = *leaf;
    return STK_OK;
}

typedef struct attribute_draft {
    stk__h5_attribute a;
    stk__wire data;
    size_t string_count;
} attribute_draft;

static stk_status read_string(parser *p, const item *it, void *to)
{
    if (it->type != STK__WIRE_BYTES)
        return malformed(p, "string of an attribute");
    const size_t size = (size_t)(it->bytes.end - it->bytes.p);
    uint8_t *copy = stk__h5_keep(p->file, size + 1, p->err);
    if (!copy)
        return STK_NOMEM;
    memcpy(copy, it->bytes.p, size);
    *(stk_bytes *)to = (stk_bytes){copy, (int64_t)size};
    return STK_OK;
}

static const rule attribute_rules[] = {
    {STK__H5_ATTRIBUTE_NAME, TEXT, "name of an attribute", AT(attribute_draft, a.name), .max = TEXT_MAX},
    {STK__H5_ATTRIBUTE_KIND, INT, "kind of an attribute", AT(attribute_draft, a.kind), .max = STK__H5_KIND_VLEN},
    {STK__H5_ATTRIBUTE_SIZE, SIZE, "size of an attribute's value", AT(attribute_draft, a.size), .max = TEXT_MAX},
    {STK__H5_ATTRIBUTE_DIM, DIMS, "dimension of an attribute", AT(attribute_draft, a.dims), AT(attribute_draft, a.ndim),
     STK__H5_MAX_ATTRIBUTE_BYTES},
    {STK__H5_ATTRIBUTE_DATA, WINDOW, "data of an attribute", AT(attribute_draft, data)},
    {STK__H5_ATTRIBUTE_STRING, LIST, "string of an attribute", AT(attribute_draft, a.strings),
     AT(attribute_draft, string_count), STK__H5_MAX_ATTRIBUTE_BYTES, sizeof(stk_bytes), read_string},
    {STK__H5_ATTRIBUTE_UTF8, FLAG, "character set of an attribute", AT(attribute_draft, a.utf8), .max = 1},
    {STK__H5_ATTRIBUTE_BIG, FLAG, "byte order of an attribute", AT(attribute_draft, a.big), .max = 1},
    {0},
};

/* Numbers are copied; strings are there already. Counts must fit the dimensions. */
static stk_status read_values(parser *p, attribute_draft *draft)
{
    stk__h5_attribute *a = &draft->a;
    const char *path = p->dataset ? p->dataset->d.path : NULL;
    const size_t found =
        a->kind == STK__H5_KIND_STRING ? draft->string_count : (size_t)(draft->data.end - draft->data.p);
    uint64_t wanted = a->kind == STK__H5_KIND_STRING ? 1 : a->size;
    for (int32_t i = 0; i < a->ndim; i++) {
        if (a->dims[i] && wanted > STK__H5_MAX_ATTRIBUTE_BYTES / (uint64_t)a->dims[i])
            return stk__h5_corrupt(path, p->err, "attribute '%.100s' has more than %d values", a->name,
                                   STK__H5_MAX_ATTRIBUTE_BYTES);
        wanted *= (uint64_t)a->dims[i];
    }
    if (found != wanted)
        return stk__h5_corrupt(path, p->err, "attribute '%.100s' has %zu %s, wanted %llu", a->name, found,
                               a->kind == STK__H5_KIND_STRING ? "strings" : "bytes", (unsigned long long)wanted);
    a->count = (int64_t)(a->kind == STK__H5_KIND_STRING ? wanted : wanted / a->size);
    if (a->kind == STK__H5_KIND_STRING)
        return STK_OK;
    if (!(a->data = stk__h5_keep(p->file, found, p->err)))
        return STK_NOMEM;
    if (found)
        memcpy(a->data, draft->data.p, found);
    return STK_OK;
}

static stk_status read_attribute(parser *p, const item *it, void *to)
{
    attribute_draft draft = {0};
    stk__h5_attribute *a = &draft.a;
    if (it->type != STK__WIRE_BYTES)
        return malformed(p, "attribute");
    STK_TRY(read_message(p, "attribute", it->bytes, attribute_rules, &draft));
    if (!a->name)
        return malformed(p, "attribute");
    const stk_dtype dtype = stk__h5_dtype(a->kind, a->size);
    const bool string = a->kind == STK__H5_KIND_STRING;
    if (!string && (dtype == STK_DTYPE_COUNT || dtype == STK_BYTES))
        return stk__h5_corrupt(p->dataset ? p->dataset->d.path : NULL, p->err,
                               "attribute '%.100s' has values of kind %d with %zu bytes", a->name, a->kind, a->size);
    STK_TRY(read_values(p, &draft));
    *(stk__h5_attribute *)to = *a;
    return STK_OK;
}

#define DATASET(member) AT(stk__h5_draft, d.member)

static const rule dataset_rules[] = {
    {STK__H5_DATASET_PATH, TEXT, "path", DATASET(path), .max = STK__H5_MAX_NAME},
    {STK__H5_DATASET_TYPE, TEXT, "type", DATASET(type), .max = TEXT_MAX},
    {STK__H5_DATASET_DIM, DIMS, "dimension", DATASET(dims), DATASET(rank), INT64_MAX},
    {STK__H5_DATASET_MAX_DIM, DIMS, "largest dimension", DATASET(max_dims), AT(stk__h5_draft, max_rank), UINT64_MAX},
    {STK__H5_DATASET_ELEMENT, SIZE, "size of an element", DATASET(element_bytes), .max = STK__H5_MAX_ELEMENT_BYTES},
    {STK__H5_DATASET_LAYOUT, INT, "layout", DATASET(layout), .max = STK__H5_LAYOUT_EXTERNAL},
    {STK__H5_DATASET_WHY, TEXT, "reason", DATASET(why), .max = TEXT_MAX},
    {STK__H5_DATASET_LEAF, LIST, "member", DATASET(leaves), DATASET(leaf_count), STK__H5_MAX_LEAVES,
     sizeof(stk__h5_leaf), read_leaf},
    {STK__H5_DATASET_CHUNK_DIM, DIMS, "chunk dimension", DATASET(chunk_dims), AT(stk__h5_draft, chunk_rank), INT64_MAX},
    {STK__H5_DATASET_FILTER, LIST, "filter", DATASET(filters), DATASET(filter_count), STK__H5_FILTERS_MAX,
     sizeof(stk__h5_filter), read_filter},
    {STK__H5_DATASET_FILL, WINDOW, "fill value", AT(stk__h5_draft, fill)},
    {STK__H5_DATASET_RAW_EDGES, FLAG, "raw edges", DATASET(raw_edges), .max = 1},
    {STK__H5_DATASET_ADDRESS, INT64, "address", DATASET(address), .max = INT64_MAX},
    {STK__H5_DATASET_COMPACT, WINDOW, "compact data", AT(stk__h5_draft, compact)},
    {STK__H5_DATASET_STORED, INT64, "stored size", DATASET(stored_bytes), .max = INT64_MAX},
    {STK__H5_DATASET_CHUNK_COUNT, INT64, "number of chunks", DATASET(stored_chunks), .max = INT64_MAX},
    {STK__H5_DATASET_CHUNKS, WINDOW, "chunk table", AT(stk__h5_draft, chunks)},
    {STK__H5_DATASET_ATTRIBUTE, LIST, "attribute", DATASET(attributes), DATASET(attribute_count), ATTRIBUTES_MAX,
     sizeof(stk__h5_attribute), read_attribute},
    {STK__H5_DATASET_INDEX, TEXT, "kind of index", DATASET(index_kind), .max = TEXT_MAX},
    {STK__H5_DATASET_HAS_FILL, FLAG, "fill value set", DATASET(has_fill), .max = 1},
    {STK__H5_DATASET_SOURCE, LIST, "file of a dataset", DATASET(sources), DATASET(source_count), STK__H5_MAX_SOURCES,
     sizeof(char *), read_text},
    {0},
};

static stk_status read_dataset(parser *p, const item *it, void *to)
{
    stk__h5_draft draft = {.d.address = -1};
    if (it->type != STK__WIRE_BYTES)
        return malformed(p, "dataset");
    p->dataset = &draft;
    stk_status status = read_message(p, "dataset", it->bytes, dataset_rules, &draft);
    p->dataset = NULL;
    if (status == STK_OK && (!draft.d.path || draft.d.path[0] != '/'))
        status = stk__h5_corrupt(NULL, p->err, "a dataset has the path '%.100s', wanted one from the root",
                                 draft.d.path ? draft.d.path : "");
    if (status == STK_OK && !draft.d.type)
        status = keep_text(p, no_text, "type", 0, &draft.d.type);
    STK_TRY(status);
    STK_TRY(stk__h5_derive(p->file, &draft, p->size_bytes, p->err));
    *(stk__h5_dataset *)to = draft.d;
    return STK_OK;
}

/* What a file's message says besides what is kept in stk__h5_file. */
typedef struct file_draft {
    stk__h5_file f;
    int version;
} file_draft;

#define FILE_AT(member) AT(file_draft, f.member)

/* Read first: datasets are checked against it. */
static const rule header_rules[] = {
    {STK__H5_FILE_VERSION, INT, "version", AT(file_draft, version), .max = INT32_MAX},
    {STK__H5_FILE_LIBRARY, TEXT, "version of libhdf5", FILE_AT(library), .max = TEXT_MAX},
    {STK__H5_FILE_OFFSET_SIZE, INT, "size of addresses", FILE_AT(offset_size), .max = 32},
    {STK__H5_FILE_LENGTH_SIZE, INT, "size of lengths", FILE_AT(length_size), .max = 32},
    {STK__H5_FILE_BASE, INT64, "size of the user block", FILE_AT(base), .max = INT64_MAX},
    {STK__H5_FILE_SIZE, INT64, "size of the file", FILE_AT(id.size_bytes), .max = INT64_MAX},
    {STK__H5_FILE_MTIME, INT64, "mtime of the file", FILE_AT(id.mtime_ns), .max = UINT64_MAX},
    {0},
};

static const rule file_rules[] = {
    {STK__H5_FILE_DATASET, LIST, "dataset", AT(stk__h5_file, datasets), AT(stk__h5_file, dataset_count),
     STK__H5_MAX_DATASETS, sizeof(stk__h5_dataset), read_dataset},
    {STK__H5_FILE_SKIPPED, LIST, "skipped object", AT(stk__h5_file, skipped), AT(stk__h5_file, skipped_count), TEXT_MAX,
     sizeof(char *), read_text},
    {STK__H5_FILE_ATTRIBUTE, LIST, "attribute", AT(stk__h5_file, attributes), AT(stk__h5_file, attribute_count),
     ATTRIBUTES_MAX, sizeof(stk__h5_attribute), read_attribute},
    {0},
};

static stk_status check_header(const parser *p, const file_draft *draft)
{
    const stk__h5_file *f = &draft->f;
    if (draft->version != STK__H5_WIRE_VERSION)
        return stk__h5_corrupt(NULL, p->err, "it has version %d, wanted %d", draft->version, STK__H5_WIRE_VERSION);
    const int sizes[] = {f->offset_size, f->length_size};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        if (sizes[i] < 2 || (sizes[i] & (sizes[i] - 1)))
            return stk__h5_corrupt(NULL, p->err, "addresses or lengths of %d bytes, wanted 2, 4, 8, 16 or 32",
                                   sizes[i]);
    }
    if (f->base > p->size_bytes)
        return stk__h5_corrupt(NULL, p->err, "a user block of %lld bytes in a file of %lld", (long long)f->base,
                               (long long)p->size_bytes);
    if (f->id.size_bytes != p->size_bytes)
        return stk__h5_corrupt(NULL, p->err, "it is about a file of %lld bytes, this one has %lld",
                               (long long)f->id.size_bytes, (long long)p->size_bytes);
    return STK_OK;
}

static stk_status read_file(parser *p, stk__wire w)
{
    file_draft draft = {0};
    stk__h5_file *f = p->file;
    STK_TRY(read_message(p, "file", w, header_rules, &draft));
    STK_TRY(check_header(p, &draft));
    if (!draft.f.library)
        STK_TRY(keep_text(p, no_text, "version", 0, &draft.f.library));
    f->library = draft.f.library;
    f->offset_size = draft.f.offset_size;
    f->length_size = draft.f.length_size;
    f->base = draft.f.base;
    f->id = draft.f.id;
    return read_message(p, "file", w, file_rules, f);
}

stk_status stk__h5_parse(const uint8_t *data, size_t size, int64_t size_bytes, stk__h5_file **out, stk_error *err)
{
    file_box *box = stk__calloc(1, sizeof *box);
    if (!box)
        return stk__nomem(sizeof *box, err);
    box->limit = size > SIZE_MAX / 4 ? SIZE_MAX : MEMORY_MAX + 2 * size;
    box->file.memory = sizeof *box;
    stk_error local;
    stk_error_clear(&local);
    parser p = {.file = &box->file, .size_bytes = size_bytes, .err = &local};
    stk_status status = read_file(&p, (stk__wire){data, data + size});
    if (status == STK_OK) {
        *out = &box->file;
        return STK_OK;
    }
    stk__h5_file_free(&box->file);
    return stk_error_set(err, local.status, "%s", local.message);
}
