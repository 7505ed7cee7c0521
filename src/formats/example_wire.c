/* The walker over the messages of an Example, in any valid form. */
#include "formats/example_wire.h"

#include "base/banned.h"

static const stk__example_message feature_message = {
    "Feature", 3, STK__WIRE_BYTES, {"bytes_list", "float_list", "int64_list"}};

const char *const stk__example_kind_names[4] = {"none", "bytes", "float", "int64"};

static STK_NOINLINE stk_status bad_length(const stk__example_place *at, const stk__wire *w, const uint8_t *start,
                                          const char *what)
{
    stk__wire again = *w;
    uint64_t size;
    if (!stk__wire_varint(&again, &size))
        return stk_error_set(at->err, STK_CORRUPT, "%s at byte %lld: its length is cut off or longer than 10 bytes",
                             what, stk__example_byte_of(at, start));
    if (size > (uint64_t)(at->end - again.p))
        return stk_error_set(at->err, STK_CORRUPT, "%s at byte %lld: length %llu passes the end of the %s (%lld bytes)",
                             what, stk__example_byte_of(at, start), (unsigned long long)size, at->name,
                             stk__example_byte_of(at, at->end));
    return stk_error_set(at->err, STK_CORRUPT,
                         "%s at byte %lld: length %llu passes the end of the enclosing message at byte %lld", what,
                         stk__example_byte_of(at, start), (unsigned long long)size, stk__example_byte_of(at, w->end));
}

static STK_NOINLINE stk_status bad_skip(const stk__example_place *at, const uint8_t *start,
                                        const stk__example_message *m, uint32_t number, uint32_t type)
{
    if (type == STK__WIRE_VARINT || type == STK__WIRE_FIXED64 || type == STK__WIRE_BYTES || type == STK__WIRE_FIXED32)
        return stk_error_set(at->err, STK_CORRUPT, "%s: unknown field %u at byte %lld is cut off", m->name, number,
                             stk__example_byte_of(at, start));
    return stk_error_set(at->err, STK_CORRUPT, "%s: field %u at byte %lld has wire type %u (%s), wanted 0, 1, 2 or 5",
                         m->name, number, stk__example_byte_of(at, start), type, type < 5 ? "a group" : "undefined");
}

stk_status stk__example_next_field(const stk__example_place *at, stk__wire *w, const stk__example_message *m,
                                   stk__example_field *out)
{
    while (w->p < w->end) {
        const uint8_t *start = w->p;
        uint32_t number, type;
        if (!stk__wire_tag(w, &number, &type))
            return stk_error_set(at->err, STK_CORRUPT,
                                 "%s: the field tag at byte %lld (first byte 0x%02x) is cut off or out of range",
                                 m->name, stk__example_byte_of(at, start), *start);
        if (number > m->known) {
            if (!stk__wire_skip(w, type))
                return bad_skip(at, start, m, number, type);
            continue;
        }
        const char *what = m->fields[number - 1];
        const uint8_t *value = w->p;
        out->number = number;
        if (type == STK__WIRE_BYTES) {
            stk__wire ahead = *w;
            if (!stk__wire_bytes(&ahead, &out->value))
                return bad_length(at, w, start, what);
            *w = ahead;
            return STK_OK;
        }
        if (type != m->scalar)
            return stk_error_set(at->err, STK_CORRUPT, "%s: %s at byte %lld has wire type %u, wanted 2%s", m->name,
                                 what, stk__example_byte_of(at, start), type,
                                 m->scalar == STK__WIRE_VARINT    ? " or 0"
                                 : m->scalar == STK__WIRE_FIXED32 ? " or 5"
                                                                  : "");
        if (!stk__wire_skip(w, type))
            return stk_error_set(at->err, STK_CORRUPT, "%s: %s at byte %lld is cut off or longer than 10 bytes",
                                 m->name, what, stk__example_byte_of(at, start));
        out->value = (stk__wire){value, w->p};
        return STK_OK;
    }
    return STK_END;
}

stk_status stk__example_merge_feature(const stk__example_place *at, stk__wire w, stk__wire *list,
                                      stk__feature_kind *kind)
{
    stk__example_field f;
    stk_status status;
    while ((status = stk__example_next_field(at, &w, &feature_message, &f)) == STK_OK) {
        const bool same = f.number == *kind;
        if (same && f.value.p == f.value.end)
            continue;
        /* Protobuf would concatenate the two; a window on the record cannot, and no writer splits a list. */
        if (same && list->p != list->end)
            return stk_error_set(at->err, STK_CORRUPT,
                                 "Feature has two lists of kind %s, the second one at byte %lld, wanted one",
                                 stk__example_kind_names[*kind], stk__example_byte_of(at, f.value.p));
        *kind = (stk__feature_kind)f.number;
        *list = f.value;
    }
    return status == STK_END ? STK_OK : status;
}

const uint8_t *stk__example_long_length(const uint8_t *p, const uint8_t *end, size_t *out)
{
    stk__wire w = {p, end};
    uint64_t size;
    if (!stk__wire_varint(&w, &size) || size > (uint64_t)(end - w.p))
        return NULL;
    *out = (size_t)size;
    return w.p;
}
