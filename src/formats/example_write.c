/* Writing tf.train.Example: packed lists, map entries in the order of the calls. */
#include "formats/example.h"

#include <limits.h>
#include <string.h>

#include "base/banned.h"

/* Bytes of a field with a one-byte tag and a value of this size. */
static size_t field_size(size_t value)
{
    return 1 + stk__wire_varint_size(value) + value;
}

/* Tag and length; the caller writes the value. */
static void put_head(stk__text *t, uint32_t number, size_t size)
{
    stk__wire_put_tag(t, number, STK__WIRE_BYTES);
    stk__wire_put_varint(t, size);
}

/* Everything of a map entry up to the inside of its list, which has list_size bytes. */
static void put_entry(stk__text *t, const char *name, stk__feature_kind kind, size_t list_size)
{
    const size_t name_size = strlen(name), feature_size = field_size(list_size);
    put_head(t, 1, field_size(name_size) + field_size(feature_size));
    stk__wire_put_bytes(t, 1, name, name_size);
    put_head(t, 2, feature_size);
    put_head(t, kind, list_size);
}

void stk__example_begin(stk__example_writer *w)
{
    stk__text_reset(&w->features);
}

void stk__example_add_floats(stk__example_writer *w, const char *name, const float *values, int64_t count)
{
    stk__text *t = &w->features;
    const size_t size = count > 0 ? (size_t)count * sizeof *values : 0;
    put_entry(t, name, STK__FEATURE_FLOAT, size ? field_size(size) : 0);
    if (size == 0)
        return;
    put_head(t, 1, size);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = __builtin_bswap32(bits);
        stk__text_write(t, &bits, sizeof bits);
    }
#else
    stk__text_write(t, values, size);
#endif
}

/* Varints go through a small buffer: one call into the text per value would cost more than the encoding. */
static void put_ints(stk__text *t, const int64_t *values, int64_t count)
{
    uint8_t buffer[256];
    size_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        if (used > sizeof buffer - 10) {
            stk__text_write(t, buffer, used);
            used = 0;
        }
        uint64_t x = (uint64_t)values[i];
        for (; x >= 0x80; x >>= 7)
            buffer[used++] = (uint8_t)(x | 0x80);
        buffer[used++] = (uint8_t)x;
    }
    stk__text_write(t, buffer, used);
}

void stk__example_add_ints(stk__example_writer *w, const char *name, const int64_t *values, int64_t count)
{
    stk__text *t = &w->features;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++)
        size += stk__wire_varint_size((uint64_t)values[i]);
    put_entry(t, name, STK__FEATURE_INT64, size ? field_size(size) : 0);
    if (size == 0)
        return;
    put_head(t, 1, size);
    put_ints(t, values, count);
}

void stk__example_add_bytes(stk__example_writer *w, const char *name, const stk_bytes *values, int64_t count)
{
    stk__text *t = &w->features;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++)
        size += field_size((size_t)values[i].size);
    put_entry(t, name, STK__FEATURE_BYTES, size);
    for (int64_t i = 0; i < count; i++)
        stk__wire_put_bytes(t, 1, values[i].data, (size_t)values[i].size);
}

stk_status stk__example_end(stk__example_writer *w, stk__text *out, stk_error *err)
{
    const stk__text *features = &w->features;
    if (features->failed)
        return stk_error_set(err, STK_NOMEM, "out of memory: an Example could not grow past %zu bytes",
                             features->length);
    if (features->length > INT_MAX - 16)
        return stk_error_set(err, STK_INVALID, "the Example has %zu bytes, protobuf takes at most %d", features->length,
                             INT_MAX - 16);
    put_head(out, 1, features->length);
    stk__text_write(out, features->data, features->length);
    if (out->failed)
        return stk_error_set(err, STK_NOMEM, "out of memory: could not append an Example of %zu bytes to %zu bytes",
                             features->length, out->length);
    return STK_OK;
}

void stk__example_writer_clear(stk__example_writer *w)
{
    stk__text_clear(&w->features);
}
