/*
 * Types as leaves: which numbers and strings an element holds, and where.
 *
 * libhdf5 hands out the type of a dataset as it would be in memory: values of variable length have another size there
 * than in the file, and members behind them are moved. So there are three layouts of one type, which differ in these
 * sizes alone.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

#define MAX_DEPTH 32
#define MAX_MEMBERS STK__H5_MAX_LEAVES
#define MAX_TYPE_TEXT 2000
/* A value of variable length in answers to READ. */
#define WIRE_VARIABLE 16
#define MAX_HEAP ((uint64_t)1 << 30)

typedef enum layout {
    IN_MEMORY, /* as libhdf5 has it */
    IN_FILE,   /* as stored */
    IN_ANSWER  /* as READ hands it over */
} layout;

/* Whether a leaf can be made of a type: as it is stored, only by way of libhdf5, or not at all. */
typedef enum way { AS_IT_IS, BY_LIBRARY, NO_WAY } way;

typedef struct walk {
    stk__h5_places *places;
    layout layout;
    size_t offset_size;
    way worst; /* of all leaves, but those that were left out */
    char *why; /* of the worst, and room for it */
    size_t why_size;
    stk__text *left_out;
    bool failed; /* memory is out, or the type breaks a limit: `why` says which */
    /* the place that is being looked at */
    stk__text path;
    int ndim;
    uint64_t dims[STK__H5_MAX_RANK], strides[STK__H5_MAX_RANK];
    int depth;
} walk;

/* ---- sizes ---- */

static size_t size_in(hid_t type, layout l, size_t offset_size, int depth);

/* How much bigger a member is in that layout than in memory; may be negative. */
static int64_t growth_of(hid_t type, layout l, size_t offset_size, int depth)
{
    return (int64_t)size_in(type, l, offset_size, depth) - (int64_t)H5Tget_size(type);
}

static size_t size_of_compound(hid_t type, layout l, size_t offset_size, int depth)
{
    const int count = H5Tget_nmembers(type);
    int64_t size = (int64_t)H5Tget_size(type);
    for (int i = 0; i < count && i < MAX_MEMBERS; i++) {
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        size += growth_of(member, l, offset_size, depth + 1);
        H5Tclose(member);
    }
    return size > 0 ? (size_t)size : 0;
}

static size_t size_in(hid_t type, layout l, size_t offset_size, int depth)
{
    const size_t memory = H5Tget_size(type);
    if (l == IN_MEMORY || depth > MAX_DEPTH)
        return memory;
    switch (H5Tget_class(type)) {
    case H5T_VLEN:
        return l == IN_FILE ? 8 + offset_size : WIRE_VARIABLE;
    case H5T_STRING:
        if (H5Tis_variable_str(type) > 0)
            return l == IN_FILE ? 8 + offset_size : WIRE_VARIABLE;
        return memory;
    case H5T_COMPOUND:
        return size_of_compound(type, l, offset_size, depth);
    case H5T_ARRAY: {
        const hid_t base = H5Tget_super(type);
        const size_t one = H5Tget_size(base);
        const size_t size = one ? memory / one * size_in(base, l, offset_size, depth + 1) : 0;
        H5Tclose(base);
        return size;
    }
    default:
        return memory;
    }
}

/* ---- numbers and strings ---- */

static way say(stk__text *why, way w, const char *format, ...) STK_PRINTF(3, 4);

/* The first reason stays. */
static way say(stk__text *why, way w, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (why->length == 0)
        stk__text_puts(why, text);
    return w;
}

static bool is_size_of_number(size_t size)
{
    return size == 1 || size == 2 || size == 4 || size == 8;
}

/* The number of bytes of the smallest integer that holds these many bits, up to 8. */
static size_t bytes_for(size_t bits)
{
    return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

static way classify_integer(hid_t type, stk__h5_place *p, stk__text *why)
{
    const size_t size = H5Tget_size(type), precision = H5Tget_precision(type);
    const H5T_order_t order = H5Tget_order(type);
    const bool bits = H5Tget_class(type) == H5T_BITFIELD;
    p->kind = bits || H5Tget_sign(type) == H5T_SGN_NONE ? STK__H5_KIND_UINT : STK__H5_KIND_INT;
    p->size = size;
    p->swap = order == H5T_ORDER_BE && size > 1;
    if (bits && size > 8) {
        p->kind = STK__H5_KIND_OPAQUE;
        p->swap = false;
        return AS_IT_IS;
    }
    if (is_size_of_number(size) && precision == 8 * size && H5Tget_offset(type) == 0 &&
        (order == H5T_ORDER_LE || order == H5T_ORDER_BE || size == 1))
        return AS_IT_IS;
    if (precision > 64)
        return say(why, BY_LIBRARY, "integer of %zu bits, read as 64", precision);
    return say(why, BY_LIBRARY, "integer of %zu bits in odd places", precision);
}

typedef struct float_form {
    size_t size, sign, exponent, exponent_size, mantissa, mantissa_size, bias;
    int kind;
} float_form;

static const float_form float_forms[] = {
    {2, 15, 10, 5, 0, 10, 15, STK__H5_KIND_FLOAT},
    {4, 31, 23, 8, 0, 23, 127, STK__H5_KIND_FLOAT},
    {8, 63, 52, 11, 0, 52, 1023, STK__H5_KIND_FLOAT},
    {2, 15, 7, 8, 0, 7, 127, STK__H5_KIND_BFLOAT},
};

/* Float32 holds it exactly. */
static bool fits_float32(hid_t type)
{
    size_t s, e, es, m, ms;
    return H5Tget_fields(type, &s, &e, &es, &m, &ms) >= 0 && es <= 8 && ms <= 23;
}

static way classify_float(hid_t type, stk__h5_place *p, stk__text *why)
{
    const size_t size = H5Tget_size(type);
    const H5T_order_t order = H5Tget_order(type);
    float_form f = {.size = size};
    if (H5Tget_fields(type, &f.sign, &f.exponent, &f.exponent_size, &f.mantissa, &f.mantissa_size) < 0)
        return say(why, NO_WAY, "float of %zu bytes that makes no sense", size);
    f.bias = H5Tget_ebias(type);
    p->size = size;
    p->swap = order == H5T_ORDER_BE;
    p->kind = STK__H5_KIND_FLOAT;
    const bool plain = (order == H5T_ORDER_LE || order == H5T_ORDER_BE) && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
                       H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0;
    for (size_t i = 0; plain && i < STK_COUNT(float_forms); i++) {
        const float_form *g = &float_forms[i];
        if (f.size == g->size && f.sign == g->sign && f.exponent == g->exponent && f.mantissa == g->mantissa &&
            f.exponent_size == g->exponent_size && f.mantissa_size == g->mantissa_size && f.bias == g->bias) {
            p->kind = g->kind;
            return AS_IT_IS;
        }
    }
    return say(why, BY_LIBRARY, "%zu-bit float, read as %s", size * 8, fits_float32(type) ? "float32" : "float64");
}

int stk__h5_float_kind(hid_t type)
{
    stk__h5_place p = {0};
    char reason[100];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    return classify_float(type, &p, &why) == AS_IT_IS ? p.kind : 0;
}

static bool member_is(hid_t type, unsigned i, const char *name, signed char value)
{
    signed char found = -1;
    char *text = H5Tget_member_name(type, i);
    const bool same = text && strcmp(text, name) == 0 && H5Tget_member_value(type, i, &found) >= 0 && found == value;
    H5free_memory(text);
    return same;
}

bool stk__h5_is_bool(hid_t type)
{
    return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && member_is(type, 0, "FALSE", 0) &&
           member_is(type, 1, "TRUE", 1);
}

static way classify_enum(hid_t type, stk__h5_place *p, stk__text *why)
{
    if (stk__h5_is_bool(type)) {
        p->kind = STK__H5_KIND_BOOL;
        p->size = 1;
        return AS_IT_IS;
    }
    const hid_t base = H5Tget_super(type);
    const way w = base >= 0 ? classify_integer(base, p, why) : NO_WAY;
    H5Tclose(base);
    return w;
}

static way classify_string(hid_t type, const walk *w, stk__h5_place *p)
{
    const H5T_str_t pad = H5Tget_strpad(type);
    p->kind = STK__H5_KIND_STRING;
    p->utf8 = H5Tget_cset(type) == H5T_CSET_UTF8;
    p->size = size_in(type, w->layout, w->offset_size, 0);
    if (H5Tis_variable_str(type) > 0)
        p->kind = STK__H5_KIND_VLEN_STRING;
    else
        p->pad = pad == H5T_STR_SPACEPAD  ? STK__H5_PAD_SPACE
                 : pad == H5T_STR_NULLPAD ? STK__H5_PAD_NUL
                                          : STK__H5_PAD_NUL_TERMINATED;
    return AS_IT_IS;
}

static way classify(hid_t type, const walk *w, stk__h5_place *p, stk__text *why);

static way classify_sequence(hid_t type, const walk *w, stk__h5_place *p, stk__text *why)
{
    stk__h5_place base = {0};
    char reason[100];
    stk__text inner;
    stk__text_fixed(&inner, reason, sizeof reason);
    const hid_t super = H5Tget_super(type);
    const way way_of_base = super >= 0 ? classify(super, w, &base, &inner) : NO_WAY;
    H5Tclose(super);
    if (way_of_base == NO_WAY || base.kind > STK__H5_KIND_BOOL)
        return say(why, NO_WAY, "sequence of variable length of values that are no numbers");
    p->kind = STK__H5_KIND_VLEN;
    p->size = size_in(type, w->layout, w->offset_size, 0);
    p->base_kind = base.kind;
    p->base_size = base.size;
    p->base_swap = base.swap;
    return way_of_base == AS_IT_IS ? AS_IT_IS : say(why, way_of_base, "%s", reason);
}

/* References to regions have 4 bytes more than an address, so 2 and 4 bytes cannot be one. */
bool stk__h5_is_object_reference(hid_t type)
{
    const size_t size = H5Tget_size(type);
    return H5Tequal(type, H5T_STD_REF_OBJ) > 0 || size == 2 || size == 4;
}

/* Kind and sizes of a type that is neither compound nor array. */
static way classify(hid_t type, const walk *w, stk__h5_place *p, stk__text *why)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
        return classify_integer(type, p, why);
    case H5T_FLOAT:
        return classify_float(type, p, why);
    case H5T_ENUM:
        return classify_enum(type, p, why);
    case H5T_STRING:
        return classify_string(type, w, p);
    case H5T_OPAQUE:
        p->kind = STK__H5_KIND_OPAQUE;
        p->size = H5Tget_size(type);
        return AS_IT_IS;
    case H5T_REFERENCE:
        p->kind = STK__H5_KIND_UINT;
        p->size = H5Tget_size(type);
        return stk__h5_is_object_reference(type) ? AS_IT_IS : say(why, NO_WAY, "region reference");
    case H5T_VLEN:
        return classify_sequence(type, w, p, why);
    case H5T_TIME:
        return say(why, NO_WAY, "time type");
    default:
        return say(why, NO_WAY, "unknown type class");
    }
}

/* ---- the walk ---- */

static void walk_fail(walk *w, const char *why)
{
    stk__text t;
    w->failed = true;
    stk__text_fixed(&t, w->why, w->why_size);
    stk__text_puts(&t, why);
}

static void add_place(walk *w, hid_t type, size_t offset)
{
    stk__h5_place p = {.offset = offset, .ndim = w->ndim};
    char reason[200];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    const way found = classify(type, w, &p, &why);
    if (found == NO_WAY && w->left_out->length > MAX_TYPE_TEXT)
        return;
    if (found == NO_WAY) {
        stk__text_printf(w->left_out, "%s%s%s%s", w->left_out->length ? "; " : "", w->path.length ? w->path.data : "",
                         w->path.length ? ": " : "", reason);
        return;
    }
    if (found > w->worst) {
        w->worst = found;
        stk__text_fixed(&why, w->why, w->why_size);
        stk__text_puts(&why, reason);
    }
    memcpy(p.dims, w->dims, sizeof p.dims);
    memcpy(p.strides, w->strides, sizeof p.strides);
    stk__h5_places *list = w->places;
    if (list->count >= STK__H5_MAX_LEAVES) {
        walk_fail(w, "too many members");
        return;
    }
    if (!stk__grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items) ||
        !(p.path = stk__strndup(w->path.length ? w->path.data : "", w->path.length))) {
        walk_fail(w, "out of memory");
        return;
    }
    list->items[list->count++] = p;
}

static void walk_type(walk *w, hid_t type, size_t offset);

static void walk_array(walk *w, hid_t type, size_t offset)
{
    const int rank = H5Tget_array_ndims(type);
    hsize_t dims[STK__H5_MAX_RANK];
    const hid_t base = H5Tget_super(type);
    if (rank <= 0 || rank > STK__H5_MAX_RANK - w->ndim || base < 0 || H5Tget_array_dims2(type, dims) != rank) {
        H5Tclose(base);
        walk_fail(w, "array of too many dimensions");
        return;
    }
    size_t stride = size_in(base, w->layout, w->offset_size, 0);
    for (int d = rank - 1; d >= 0; d--) {
        w->dims[w->ndim + d] = dims[d];
        w->strides[w->ndim + d] = stride;
        if (dims[d] == 0 || __builtin_mul_overflow(stride, (size_t)dims[d], &stride)) {
            H5Tclose(base);
            walk_fail(w, "array of a size that makes no sense");
            return;
        }
    }
    w->ndim += rank;
    walk_type(w, base, offset);
    w->ndim -= rank;
    H5Tclose(base);
}

typedef struct part {
    hid_t type;
    char *name;
    size_t offset; /* in memory */
    int64_t growth;
} part;

static void walk_member(walk *w, const part *members, int count, int i, size_t offset)
{
    int64_t moved = 0;
    for (int j = 0; j < count; j++) {
        if (members[j].growth && members[j].offset < members[i].offset)
            moved += members[j].growth;
    }
    const size_t length = w->path.length;
    if (length)
        stk__text_putc(&w->path, '/');
    stk__text_puts(&w->path, members[i].name ? members[i].name : "?");
    if (w->path.length > STK__H5_MAX_NAME || w->path.failed)
        walk_fail(w, "name of a member that is too long");
    else
        walk_type(w, members[i].type, offset + (size_t)((int64_t)members[i].offset + moved));
    w->path.length = length;
    if (w->path.data)
        w->path.data[length] = 0;
}

static void walk_compound(walk *w, hid_t type, size_t offset)
{
    const int count = H5Tget_nmembers(type);
    part *members = count > 0 && count <= MAX_MEMBERS ? stk__calloc((size_t)count, sizeof *members) : NULL;
    if (!members) {
        walk_fail(w, "too many members");
        return;
    }
    for (int i = 0; i < count; i++) {
        part *m = &members[i];
        m->type = H5Tget_member_type(type, (unsigned)i);
        m->name = H5Tget_member_name(type, (unsigned)i);
        m->offset = H5Tget_member_offset(type, (unsigned)i);
        m->growth = growth_of(m->type, w->layout, w->offset_size, 0);
    }
    for (int i = 0; i < count && !w->failed; i++)
        walk_member(w, members, count, i, offset);
    for (int i = 0; i < count; i++) {
        H5Tclose(members[i].type);
        H5free_memory(members[i].name);
    }
    stk__free(members);
}

static void walk_type(walk *w, hid_t type, size_t offset)
{
    const H5T_class_t class = H5Tget_class(type);
    if (w->failed)
        return;
    if (++w->depth > MAX_DEPTH)
        walk_fail(w, "types inside types, too deep");
    else if (class == H5T_COMPOUND)
        walk_compound(w, type, offset);
    else if (class == H5T_ARRAY)
        walk_array(w, type, offset);
    else
        add_place(w, type, offset);
    w->depth--;
}

/* Whether all values lie inside the element: what is copied later relies on it. */
static bool is_sound(const stk__h5_places *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const stk__h5_place *p = &list->items[i];
        size_t end = p->offset;
        bool over = __builtin_add_overflow(end, p->size, &end) || p->size == 0;
        for (int d = 0; d < p->ndim; d++) {
            size_t last;
            over = over || __builtin_mul_overflow((size_t)(p->dims[d] - 1), (size_t)p->strides[d], &last) ||
                   __builtin_add_overflow(end, last, &end);
        }
        if (over || end > list->element)
            return false;
    }
    return true;
}

static void places_clear(stk__h5_places *list)
{
    for (size_t i = 0; i < list->count; i++)
        stk__free(list->items[i].path);
    stk__free(list->items);
    *list = (stk__h5_places){0};
}

/* Lists the leaves of a type in one layout. NO_WAY, with the reason, when the type cannot be used at all. */
static way list_places(stk__h5_places *list, hid_t type, layout l, int offset_size, char *why, size_t why_size,
                       stk__text *left_out)
{
    walk w = {.places = list,
              .layout = l,
              .offset_size = (size_t)offset_size,
              .why = why,
              .why_size = why_size,
              .left_out = left_out};
    list->element = size_in(type, l, (size_t)offset_size, 0);
    if (list->element == 0 || list->element > STK__H5_MAX_ELEMENT_BYTES)
        walk_fail(&w, "elements of too many bytes");
    else
        walk_type(&w, type, 0);
    if (!w.failed && !is_sound(list))
        walk_fail(&w, "members that lie outside of their element");
    stk__text_clear(&w.path);
    if (w.failed)
        places_clear(list);
    return w.failed ? NO_WAY : w.worst;
}

/* ---- types in memory ---- */

static hid_t make_memory(hid_t type, int depth);

static hid_t memory_of_integer(hid_t type)
{
    const size_t size = bytes_for(H5Tget_precision(type));
    const bool wide = H5Tget_precision(type) == 8 * H5Tget_size(type) && is_size_of_number(H5Tget_size(type));
    const size_t bytes = wide ? H5Tget_size(type) : size;
    if (H5Tget_class(type) == H5T_BITFIELD) {
        if (H5Tget_size(type) > 8)
            return H5Tcopy(type);
        return H5Tcopy(bytes == 1   ? H5T_STD_B8LE
                       : bytes == 2 ? H5T_STD_B16LE
                       : bytes == 4 ? H5T_STD_B32LE
                                    : H5T_STD_B64LE);
    }
    if (H5Tget_sign(type) == H5T_SGN_NONE)
        return H5Tcopy(bytes == 1   ? H5T_STD_U8LE
                       : bytes == 2 ? H5T_STD_U16LE
                       : bytes == 4 ? H5T_STD_U32LE
                                    : H5T_STD_U64LE);
    return H5Tcopy(bytes == 1 ? H5T_STD_I8LE : bytes == 2 ? H5T_STD_I16LE : bytes == 4 ? H5T_STD_I32LE : H5T_STD_I64LE);
}

static hid_t memory_of_float(hid_t type)
{
    stk__h5_place p = {0};
    char reason[100];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    const way w = classify_float(type, &p, &why);
    if (w == NO_WAY)
        return -1;
    if (w == BY_LIBRARY)
        return H5Tcopy(fits_float32(type) ? H5T_IEEE_F32LE : H5T_IEEE_F64LE);
    const hid_t memory = H5Tcopy(type);
    if (memory >= 0 && p.swap)
        H5Tset_order(memory, H5T_ORDER_LE);
    return memory;
}

/* Members one behind the other, without those that nothing can be made of. */
static hid_t memory_of_compound(hid_t type, int depth)
{
    const int count = H5Tget_nmembers(type);
    hid_t *types = count > 0 && count <= MAX_MEMBERS ? stk__calloc((size_t)count, sizeof *types) : NULL;
    size_t total = 0;
    if (!types)
        return -1;
    for (int i = 0; i < count; i++) {
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        types[i] = make_memory(member, depth + 1);
        H5Tclose(member);
        if (types[i] >= 0)
            total += H5Tget_size(types[i]);
    }
    const hid_t memory = total ? H5Tcreate(H5T_COMPOUND, total) : -1;
    bool ok = memory >= 0;
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        if (types[i] < 0)
            continue;
        char *name = H5Tget_member_name(type, (unsigned)i);
        ok = ok && name && H5Tinsert(memory, name, offset, types[i]) >= 0;
        offset += H5Tget_size(types[i]);
        H5free_memory(name);
        H5Tclose(types[i]);
    }
    stk__free(types);
    if (!ok && memory >= 0)
        H5Tclose(memory);
    return ok ? memory : -1;
}

static hid_t memory_of_others(hid_t type, hid_t base, int depth)
{
    const hid_t inner = base >= 0 ? make_memory(base, depth + 1) : -1;
    hid_t memory = -1;
    if (inner >= 0 && H5Tget_class(type) == H5T_ARRAY) {
        hsize_t dims[STK__H5_MAX_RANK];
        const int rank = H5Tget_array_ndims(type);
        if (rank > 0 && rank <= STK__H5_MAX_RANK && H5Tget_array_dims2(type, dims) == rank)
            memory = H5Tarray_create2(inner, (unsigned)rank, dims);
    } else if (inner >= 0) {
        const H5T_class_t class = H5Tget_class(base);
        if (class == H5T_INTEGER || class == H5T_BITFIELD || class == H5T_FLOAT || class == H5T_ENUM)
            memory = H5Tvlen_create(inner);
    }
    H5Tclose(inner);
    return memory;
}

/* The little-endian, packed form that libhdf5 is told to give; -1 when there is none. */
static hid_t make_memory(hid_t type, int depth)
{
    if (depth > MAX_DEPTH)
        return -1;
    hid_t base = -1, memory = -1;
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
        return memory_of_integer(type);
    case H5T_FLOAT:
        return memory_of_float(type);
    case H5T_ENUM:
        if (stk__h5_is_bool(type))
            return H5Tcopy(type);
        base = H5Tget_super(type);
        memory = memory_of_integer(base);
        break;
    case H5T_STRING:
    case H5T_OPAQUE:
        return H5Tcopy(type);
    case H5T_REFERENCE:
        return stk__h5_is_object_reference(type) ? H5Tcopy(type) : -1;
    case H5T_COMPOUND:
        return memory_of_compound(type, depth);
    case H5T_VLEN:
    case H5T_ARRAY:
        base = H5Tget_super(type);
        memory = memory_of_others(type, base, depth);
        break;
    default:
        return -1;
    }
    H5Tclose(base);
    return memory;
}

/* ---- plans ---- */

static bool is_variable(const stk__h5_place *p)
{
    return p->kind == STK__H5_KIND_VLEN || p->kind == STK__H5_KIND_VLEN_STRING;
}

static bool has_variable(const stk__h5_places *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (is_variable(&list->items[i]))
            return true;
    }
    return false;
}

static void copy_text(char *out, size_t size, const char *text)
{
    stk__text t;
    stk__text_fixed(&t, out, size);
    stk__text_puts(&t, text);
}

/* By way of libhdf5: a type of our own for memory, and the same with descriptors for what is of variable length. */
static way plan_for_library(stk__h5_plan *p, hid_t type, int offset_size)
{
    char unused[256] = "";
    stk__text none = STK__TEXT_INIT;
    p->memory = make_memory(type, 0);
    way w = NO_WAY;
    if (p->memory >= 0) {
        w = list_places(&p->in, p->memory, IN_MEMORY, offset_size, unused, sizeof unused, &none);
        if (w != NO_WAY)
            w = list_places(&p->out, p->memory, IN_ANSWER, offset_size, unused, sizeof unused, &none);
    }
    stk__text_clear(&none);
    return w;
}

void stk__h5_plan_make(stk__h5_plan *p, hid_t type, int offset_size, const char *why)
{
    *p = (stk__h5_plan){.memory = -1};
    stk__text again = STK__TEXT_INIT;
    char found[256] = "";
    way w = list_places(&p->out, type, IN_FILE, offset_size, found, sizeof found, &p->left_out);
    const bool none = w == NO_WAY || p->out.count == 0;
    if (none)
        copy_text(p->why, sizeof p->why, found[0] ? found : p->left_out.length ? p->left_out.data : "no values");
    else if (why[0] || w == BY_LIBRARY)
        copy_text(p->why, sizeof p->why, why[0] ? why : found);
    if (!none && p->why[0]) {
        places_clear(&p->out);
        w = plan_for_library(p, type, offset_size);
    } else if (!none) {
        p->memory = H5Tcopy(type);
        w = list_places(&p->in, type, IN_MEMORY, offset_size, found, sizeof found, &again);
    }
    stk__text_clear(&again);
    if (w == NO_WAY || p->in.count != p->out.count || p->memory < 0) {
        places_clear(&p->in);
        places_clear(&p->out);
    }
    if (p->in.count == 0 && !p->why[0])
        copy_text(p->why, sizeof p->why, "a type that libhdf5 cannot convert");
    p->variable = has_variable(&p->out);
}

void stk__h5_plan_clear(stk__h5_plan *p)
{
    if (p->memory >= 0)
        H5Tclose(p->memory);
    places_clear(&p->in);
    places_clear(&p->out);
    stk__text_clear(&p->left_out);
    p->memory = -1;
}

bool stk__h5_plan_converts(const stk__h5_plan *p)
{
    return p->variable || p->in.element != p->out.element;
}

/* ---- conversion ---- */

static void put_le(uint8_t *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

/* A string or sequence as libhdf5 has it in memory becomes a descriptor, and its bytes go to the heap. */
static bool convert_variable(const stk__h5_place *in, const uint8_t *from, uint8_t *to, stk__text *heap)
{
    const void *data;
    uint64_t length, size;
    if (in->kind == STK__H5_KIND_VLEN_STRING) {
        const char *text;
        memcpy(&text, from, sizeof text);
        data = text;
        size = length = text ? strlen(text) : 0;
    } else {
        hvl_t sequence;
        memcpy(&sequence, from, sizeof sequence);
        data = sequence.p;
        length = sequence.p ? sequence.len : 0;
        if (__builtin_mul_overflow(length, (uint64_t)in->base_size, &size))
            return false;
    }
    if (length > UINT32_MAX || size > MAX_HEAP || heap->length > MAX_HEAP - size)
        return false;
    put_le(to, length, 4);
    put_le(to + 4, heap->length, 8);
    put_le(to + 12, 0, 4);
    stk__text_write(heap, data ? data : "", (size_t)size);
    return !heap->failed;
}

/* All values of one leaf of one element, along its array dimensions from `d` on. */
static bool convert_leaf(const stk__h5_place *in, const stk__h5_place *out, int d, const uint8_t *from, uint8_t *to,
                         stk__text *heap)
{
    if (d == in->ndim) {
        if (is_variable(in))
            return convert_variable(in, from, to, heap);
        memcpy(to, from, STK_MIN(in->size, out->size));
        return true;
    }
    for (uint64_t i = 0; i < in->dims[d]; i++) {
        if (!convert_leaf(in, out, d + 1, from + i * in->strides[d], to + i * out->strides[d], heap))
            return false;
    }
    return true;
}

stk_status stk__h5_plan_convert(const stk__h5_plan *p, const uint8_t *from, uint8_t *to, size_t elements,
                                stk__text *heap, stk_error *err)
{
    for (size_t i = 0; p->variable && i < p->out.count; i++) {
        const stk__h5_place *out = &p->out.items[i];
        if (is_variable(out) && out->size != WIRE_VARIABLE)
            return stk_error_set(err, STK_UNSUPPORTED,
                                 "values of variable length in a file with addresses of %zu bytes", out->size - 8);
    }
    memset(to, 0, elements * p->out.element);
    for (size_t e = 0; e < elements; e++) {
        for (size_t i = 0; i < p->in.count; i++) {
            const stk__h5_place *in = &p->in.items[i], *out = &p->out.items[i];
            if (!convert_leaf(in, out, 0, from + e * p->in.element + in->offset, to + e * p->out.element + out->offset,
                              heap))
                return stk_error_set(err, STK_INVALID, "values of variable length of more than 1 GiB in one request");
        }
    }
    return STK_OK;
}

bool stk__h5_simple_type(hid_t type, hid_t *out_memory, stk__h5_place *out)
{
    const walk w = {.layout = IN_MEMORY};
    char reason[100];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    const H5T_class_t class = H5Tget_class(type);
    if (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM && class != H5T_STRING && class != H5T_BITFIELD)
        return false;
    const hid_t memory = make_memory(type, 0);
    *out = (stk__h5_place){0};
    if (memory >= 0 && classify(memory, &w, out, &why) == AS_IT_IS && out->kind != STK__H5_KIND_OPAQUE) {
        *out_memory = memory;
        return true;
    }
    H5Tclose(memory);
    return false;
}
