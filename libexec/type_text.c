/* Types as text for people. */
#include "helper.h"

#include "base/banned.h"

#define MAX_DEPTH 32
#define MAX_TYPE_TEXT 2000

static void text_of(hid_t type, stk__text *t, int depth);

static void text_of_order(hid_t type, stk__text *t)
{
    if (H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE)
        stk__text_puts(t, " big-endian");
}

static void text_of_number(hid_t type, const char *name, stk__text *t)
{
    const size_t bits = 8 * H5Tget_size(type), precision = H5Tget_precision(type);
    stk__text_printf(t, "%s%zu", name, precision);
    if (precision != bits)
        stk__text_printf(t, " in %zu bits", bits);
    text_of_order(type, t);
}

static void text_of_float(hid_t type, stk__text *t)
{
    const int kind = stk__h5_float_kind(type);
    text_of_number(type,
                   kind == STK__H5_KIND_BFLOAT  ? "bfloat"
                   : kind == STK__H5_KIND_FLOAT ? "float"
                                                : "odd float",
                   t);
}

static void text_of_compound(hid_t type, stk__text *t, int depth)
{
    const int count = H5Tget_nmembers(type);
    stk__text_puts(t, "compound {");
    for (int i = 0; i < count; i++) {
        char *name = H5Tget_member_name(type, (unsigned)i);
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        stk__text_printf(t, "%s%s: ", i ? ", " : "", name ? name : "?");
        text_of(member, t, depth + 1);
        H5Tclose(member);
        H5free_memory(name);
        if (t->length > MAX_TYPE_TEXT && i + 1 < count) {
            stk__text_puts(t, ", ...");
            break;
        }
    }
    stk__text_putc(t, '}');
}

static void text_of_array(hid_t type, stk__text *t, int depth)
{
    hsize_t dims[STK__H5_MAX_RANK];
    const int rank = H5Tget_array_ndims(type);
    const hid_t base = H5Tget_super(type);
    text_of(base, t, depth + 1);
    H5Tclose(base);
    if (rank <= 0 || rank > STK__H5_MAX_RANK || H5Tget_array_dims2(type, dims) != rank)
        return;
    for (int d = 0; d < rank; d++)
        stk__text_printf(t, "%s%llu", d ? ", " : "[", (unsigned long long)dims[d]);
    stk__text_putc(t, ']');
}

static void text_around(const char *before, hid_t type, const char *behind, stk__text *t, int depth)
{
    const hid_t base = H5Tget_super(type);
    stk__text_puts(t, before);
    text_of(base, t, depth + 1);
    stk__text_puts(t, behind);
    H5Tclose(base);
}

static void text_of(hid_t type, stk__text *t, int depth)
{
    if (depth > MAX_DEPTH) {
        stk__text_puts(t, "...");
        return;
    }
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        text_of_number(type, H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int", t);
        break;
    case H5T_BITFIELD:
        text_of_number(type, "bits", t);
        break;
    case H5T_FLOAT:
        text_of_float(type, t);
        break;
    case H5T_STRING:
        if (H5Tis_variable_str(type) > 0)
            stk__text_puts(t, "string");
        else
            stk__text_printf(t, "string of %zu bytes", H5Tget_size(type));
        break;
    case H5T_OPAQUE:
        stk__text_printf(t, "opaque of %zu bytes", H5Tget_size(type));
        break;
    case H5T_REFERENCE:
        stk__text_puts(t, stk__h5_is_object_reference(type) ? "object reference" : "region reference");
        break;
    case H5T_ENUM:
        if (stk__h5_is_bool(type))
            stk__text_puts(t, "bool");
        else
            text_around("enum of ", type, "", t, depth);
        break;
    case H5T_COMPOUND:
        text_of_compound(type, t, depth);
        break;
    case H5T_ARRAY:
        text_of_array(type, t, depth);
        break;
    case H5T_VLEN:
        text_around("sequence of ", type, "", t, depth);
        break;
    case H5T_TIME:
        text_of_number(type, "time", t);
        break;
    default:
        stk__text_puts(t, "unknown type");
    }
}

void stk__h5_type_text(hid_t type, stk__text *t)
{
    text_of(type, t, 0);
    if (t->length > STK__H5_MAX_NAME) {
        t->length = STK__H5_MAX_NAME - 4;
        stk__text_puts(t, " ...");
    }
}
