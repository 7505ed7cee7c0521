/* Numbers of every type in Examples, which know float32 and int64 alone: narrowed with a check, or raw bytes. */
#include <math.h>
#include <string.h>

#include "formats/example.h"
#include "formats/example_wire.h"
#include "kernels/convert.h"

#include "base/banned.h"

/* Values that are narrowed at a time. */
#define BLOCK 512

static bool is_real(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
}

/* ---- raw bytes ---- */

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static void copy_raw(uint8_t *out, const uint8_t *in, size_t size, int64_t count)
{
    for (int64_t i = 0; i < count; i++, out += size, in += size)
        for (size_t k = 0; k < size; k++)
            out[k] = in[size - 1 - k];
}
#else
static void copy_raw(uint8_t *out, const uint8_t *in, size_t size, int64_t count)
{
    if (count > 0)
        memcpy(out, in, size * (size_t)count);
}
#endif

/* The one bytes value of the feature; no value is an empty one. */
static stk_status sole_value(const stk__feature *feature, stk_dtype dtype, stk_bytes *out, stk_error *err)
{
    int64_t count = 0;
    *out = (stk_bytes){feature->list.p, 0};
    STK_TRY(stk__feature_count(feature, &count, err));
    if (count > 1)
        return stk_error_set(err, STK_CORRUPT, "is bytes, %lld values, wanted %s values, or one that holds them raw",
                             (long long)count, stk_dtype_name(dtype));
    return count ? stk__feature_bytes(feature, out, 1, err) : STK_OK;
}

static stk_status raw_numbers(const stk__feature *feature, stk_dtype dtype, uint8_t *out, int64_t want, stk_error *err)
{
    const size_t size = stk_dtype_size(dtype);
    stk_bytes value;
    STK_TRY(sole_value(feature, dtype, &value, err));
    if ((uint64_t)value.size % size || value.size / (int64_t)size != want)
        return stk_error_set(err, STK_CORRUPT, "is bytes, %lld of them, wanted %s values, or %lld bytes that hold them raw",
                             (long long)value.size, stk_dtype_name(dtype), (long long)want * (long long)size);
    copy_raw(out, value.data, size, want);
    for (int64_t i = 0; dtype == STK_BOOL && i < want; i++)
        if (out[i] > 1)
            return stk_error_set(err, STK_CORRUPT, "has %d as value %lld, which does not fit bool", out[i],
                                 (long long)i);
    return STK_OK;
}

void stk__example_add_raw(stk__example_writer *w, const char *name, stk_dtype dtype, const void *values, int64_t count)
{
    const size_t size = stk_dtype_size(dtype);
    const stk_bytes whole = {values, count * (int64_t)size};
    stk__example_add_bytes(w, name, &whole, 1);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    /* The value is the last thing that was written. */
    if (!w->features.failed)
        copy_raw((uint8_t *)w->features.data + w->features.length - whole.size, values, size, count);
#endif
}

/* ---- lists ---- */

/* Stores n values; false when one of them is out of range. */
#define NARROW(T)                          \
    for (int64_t i = 0; i < n; i++) {      \
        ((T *)out)[i] = (T)in[i];          \
        lost |= in[i] ^ (int64_t)(T)in[i]; \
    }                                      \
    break

static bool narrow_ints(void *out, stk_dtype dtype, const int64_t *in, int64_t n)
{
    int64_t lost = 0;
    switch (dtype) {
    case STK_BOOL:
        for (int64_t i = 0; i < n; i++) {
            ((uint8_t *)out)[i] = (uint8_t)in[i];
            lost |= in[i] & ~INT64_C(1);
        }
        break;
    case STK_UINT8:
        NARROW(uint8_t);
    case STK_INT8:
        NARROW(int8_t);
    case STK_UINT16:
        NARROW(uint16_t);
    case STK_INT16:
        NARROW(int16_t);
    case STK_UINT32:
        NARROW(uint32_t);
    case STK_INT32:
        NARROW(int32_t);
    default: /* uint64 */
        for (int64_t i = 0; i < n; i++) {
            ((uint64_t *)out)[i] = (uint64_t)in[i];
            lost |= in[i] < 0;
        }
    }
    return lost == 0;
}

/* NaNs that came from a half float go back to the same bits, signalling ones too. */
static uint16_t narrow_half(float x, stk_dtype dtype)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    if (dtype == STK_BFLOAT16)
        return nan && (bits & 0xffff) == 0 ? (uint16_t)(bits >> 16) : stk__float_to_bfloat(x);
    if (nan && (bits & 0x1fff) == 0)
        return (uint16_t)((bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff));
    return stk__float_to_half(x);
}

/* Half floats may round, but nothing finite may become infinite. */
static bool narrow_floats(void *out, stk_dtype dtype, const float *in, int64_t n)
{
    if (dtype == STK_FLOAT64)
        return stk__convert(out, dtype, in, STK_FLOAT32, (size_t)n);
    uint16_t *halves = out;
    const uint16_t infinity = dtype == STK_FLOAT16 ? 0x7c00 : 0x7f80;
    bool lost = false;
    for (int64_t i = 0; i < n; i++) {
        halves[i] = narrow_half(in[i], dtype);
        lost |= (halves[i] & 0x7fff) == infinity && isfinite(in[i]);
    }
    return !lost;
}

/* A piece of the values, and what becomes of it. */
typedef union piece {
    int64_t ints[BLOCK];
    float floats[BLOCK];
} piece;

static bool narrow(void *out, stk_dtype dtype, const piece *in, int64_t n)
{
    return is_real(dtype) ? narrow_floats(out, dtype, in->floats, n) : narrow_ints(out, dtype, in->ints, n);
}

static STK_NOINLINE stk_status out_of_range(uint8_t *out, stk_dtype dtype, const piece *in, int64_t first,
                                            stk_error *err)
{
    int64_t i = 0;
    while (is_real(dtype) ? narrow_floats(out, dtype, &in->floats[i], 1) : narrow_ints(out, dtype, &in->ints[i], 1))
        i++;
    if (is_real(dtype))
        return stk_error_set(err, STK_CORRUPT, "has %g as value %lld, which does not fit %s", (double)in->floats[i],
                             (long long)(first + i), stk_dtype_name(dtype));
    return stk_error_set(err, STK_CORRUPT, "has %lld as value %lld, which does not fit %s", (long long)in->ints[i],
                         (long long)(first + i), stk_dtype_name(dtype));
}

static STK_NOINLINE stk_status wrong_count(const stk__feature *feature, int64_t want, stk_error *err)
{
    int64_t count = 0;
    STK_TRY(stk__feature_count(feature, &count, err));
    return stk_error_set(err, STK_CORRUPT, "has %lld value%s, wanted %lld", (long long)count, count == 1 ? "" : "s",
                         (long long)want);
}

static stk_status narrow_list(const stk__feature *feature, stk_dtype dtype, uint8_t *out, int64_t want, stk_error *err)
{
    const size_t size = stk_dtype_size(dtype);
    stk__feature_rest rest = {.list = feature->list};
    piece values;
    int64_t have = 0, count = 0;
    do {
        /* One more than wanted, to see whether it ends there. */
        const int64_t room = STK_MIN(want - have + 1, (int64_t)BLOCK);
        STK_TRY(stk__feature_some(feature, &rest, &values, room, &count, err));
        if (count > want - have)
            return wrong_count(feature, want, err);
        uint8_t *at = out + size * (size_t)have;
        if (STK_UNLIKELY(!narrow(at, dtype, &values, count)))
            return out_of_range(at, dtype, &values, have, err);
        have += count;
    } while (count > 0);
    return have == want ? STK_OK : wrong_count(feature, want, err);
}

static STK_NOINLINE stk_status wrong_kind(const stk__feature *feature, stk_dtype dtype, int64_t want, stk_error *err)
{
    const char *list = is_real(dtype) ? "float" : "int64";
    if (feature->kind != STK__FEATURE_NONE)
        return stk_error_set(err, STK_CORRUPT, "is %s, wanted %s or raw bytes to make %s",
                             stk__example_kind_names[feature->kind], list, stk_dtype_name(dtype));
    return stk_error_set(err, STK_CORRUPT, "%s, wanted %lld %s value%s",
                         feature->present ? "has no list of values" : "is missing", (long long)want,
                         stk_dtype_name(dtype), want == 1 ? "" : "s");
}

stk_status stk__feature_numbers(const stk__feature *feature, stk_dtype dtype, void *out, int64_t want, stk_error *err)
{
    if (feature->kind == STK__FEATURE_BYTES)
        return raw_numbers(feature, dtype, out, want, err);
    if (feature->kind == STK__FEATURE_NONE && want == 0)
        return STK_OK;
    if (feature->kind != (is_real(dtype) ? STK__FEATURE_FLOAT : STK__FEATURE_INT64))
        return wrong_kind(feature, dtype, want, err);
    if (dtype == STK_FLOAT32)
        return stk__feature_floats(feature, out, want, err);
    if (dtype == STK_INT64)
        return stk__feature_ints(feature, out, want, err);
    return narrow_list(feature, dtype, out, want, err);
}

stk_status stk__feature_number_count(const stk__feature *feature, stk_dtype dtype, int64_t *out, stk_error *err)
{
    stk_bytes value;
    if (feature->kind != STK__FEATURE_BYTES)
        return stk__feature_count(feature, out, err);
    STK_TRY(sole_value(feature, dtype, &value, err));
    const int64_t size = (int64_t)stk_dtype_size(dtype);
    if (value.size % size)
        return stk_error_set(err, STK_CORRUPT, "is bytes, %lld of them, wanted %s values, or a multiple of %lld bytes that hold them raw",
                             (long long)value.size, stk_dtype_name(dtype), (long long)size);
    *out = value.size / size;
    return STK_OK;
}
