/* Attributes of datasets and of the root group: numbers and strings that are small. */
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

#define MAX_ATTRIBUTES 4096
/* Of one object. */
#define MAX_ALL_BYTES ((size_t)1 << 20)

typedef struct listing {
    stk__text *out;
    uint32_t field;
    size_t start;
    unsigned count;
    bool scale; /* of a dimension: its name and class belong to that, not to the data */
} listing;

/* One attribute that is being read. */
typedef struct attribute {
    hid_t id, type, space, memory;
    stk__h5_place place;
    int rank;
    hsize_t dims[STK__H5_MAX_RANK];
    size_t count;
} attribute;

static void put_strings(stk__text *m, const attribute *a, const uint8_t *data)
{
    const bool variable = a->place.kind == STK__H5_KIND_VLEN_STRING;
    for (size_t i = 0; i < a->count; i++) {
        const char *text = (const char *)data + i * a->place.size;
        size_t length = a->place.size;
        if (variable) {
            memcpy(&text, data + i * sizeof text, sizeof text);
            text = text ? text : "";
            length = strlen(text);
        } else if (a->place.pad == STK__H5_PAD_SPACE) {
            while (length && text[length - 1] == ' ')
                length--;
        } else if (a->place.pad == STK__H5_PAD_NUL) {
            while (length && text[length - 1] == 0)
                length--;
        } else {
            const char *end = memchr(text, 0, length);
            length = end ? (size_t)(end - text) : length;
        }
        stk__wire_put_bytes(m, STK__H5_ATTRIBUTE_STRING, text, length);
        if (m->length > 2 * STK__H5_MAX_ATTRIBUTE_BYTES)
            return; /* too much already: the caller drops it */
    }
}

static void put_attribute(listing *l, const attribute *a, const char *name, const uint8_t *data)
{
    const bool text = a->place.kind == STK__H5_KIND_STRING || a->place.kind == STK__H5_KIND_VLEN_STRING;
    stk__text m = STK__TEXT_INIT;
    stk__wire_put_bytes(&m, STK__H5_ATTRIBUTE_NAME, name, strlen(name));
    stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_KIND, (uint64_t)(text ? STK__H5_KIND_STRING : a->place.kind));
    if (a->place.kind != STK__H5_KIND_VLEN_STRING)
        stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_SIZE, a->place.size);
    for (int d = 0; d < a->rank; d++)
        stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_DIM, a->dims[d]);
    if (text)
        put_strings(&m, a, data);
    else
        stk__wire_put_bytes(&m, STK__H5_ATTRIBUTE_DATA, data, a->count * a->place.size);
    if (text && H5Tget_cset(a->type) == H5T_CSET_UTF8)
        stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_UTF8, 1);
    if (!text && H5Tget_size(a->type) > 1 && H5Tget_order(a->type) == H5T_ORDER_BE)
        stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_BIG, 1);
    if (!m.failed && m.length <= STK__H5_MAX_ATTRIBUTE_BYTES + STK__H5_MAX_NAME &&
        l->out->length - l->start + m.length < MAX_ALL_BYTES)
        stk__wire_put_bytes(l->out, l->field, m.data, m.length);
    stk__text_clear(&m);
}

/* Type and shape; false for what is not taken. */
static bool look_at(attribute *a)
{
    a->type = H5Aget_type(a->id);
    a->space = H5Aget_space(a->id);
    if (a->type < 0 || a->space < 0 || H5Sget_simple_extent_type(a->space) == H5S_NULL)
        return false;
    a->rank = H5Sget_simple_extent_ndims(a->space);
    if (a->rank < 0 || a->rank > STK__H5_MAX_RANK || H5Sget_simple_extent_dims(a->space, a->dims, NULL) != a->rank)
        return false;
    size_t count = 1, bytes;
    for (int d = 0; d < a->rank; d++) {
        if (__builtin_mul_overflow(count, (size_t)a->dims[d], &count))
            return false;
    }
    a->count = count;
    return stk__h5_simple_type(a->type, &a->memory, &a->place) &&
           !__builtin_mul_overflow(count, a->place.size, &bytes) && bytes <= STK__H5_MAX_ATTRIBUTE_BYTES;
}

static void attribute_close(attribute *a)
{
    if (a->memory >= 0)
        H5Tclose(a->memory);
    if (a->space >= 0)
        H5Sclose(a->space);
    if (a->type >= 0)
        H5Tclose(a->type);
    if (a->id >= 0)
        H5Aclose(a->id);
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *user)
{
    listing *l = user;
    if (++l->count > MAX_ATTRIBUTES)
        return 1;
    if (strlen(name) > STK__H5_MAX_NAME || (l->scale && (strcmp(name, "CLASS") == 0 || strcmp(name, "NAME") == 0)))
        return 0;
    attribute a = {.id = H5Aopen(object, name, H5P_DEFAULT), .type = -1, .space = -1, .memory = -1};
    if (a.id >= 0 && look_at(&a)) {
        uint8_t *data = stk__calloc(a.count + 1, a.place.size);
        if (data && H5Aread(a.id, a.memory, data) >= 0) {
            put_attribute(l, &a, name, data);
            if (a.place.kind == STK__H5_KIND_VLEN_STRING)
                H5Dvlen_reclaim(a.memory, a.space, H5P_DEFAULT, data);
        }
        stk__free(data);
    }
    attribute_close(&a);
    return 0;
}

/* Whether other datasets use this one as a scale of a dimension. */
static bool is_scale(hid_t object)
{
    char text[32] = "";
    bool scale = false;
    const hid_t id = H5Aexists(object, "CLASS") > 0 ? H5Aopen(object, "CLASS", H5P_DEFAULT) : -1;
    if (id < 0)
        return false;
    const hid_t type = H5Aget_type(id);
    if (type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
        H5Tget_size(type) < sizeof text && H5Aget_storage_size(id) < sizeof text && H5Aread(id, type, text) >= 0)
        scale = strcmp(text, "DIMENSION_SCALE") == 0;
    if (type >= 0)
        H5Tclose(type);
    H5Aclose(id);
    return scale;
}

void stk__h5_put_attributes(stk__text *t, uint32_t field, hid_t object)
{
    listing l = {.out = t, .field = field, .start = t->length, .scale = is_scale(object)};
    hsize_t next = 0;
    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &next, visit_attribute, &l);
}
