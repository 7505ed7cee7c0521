/* Conversions through a wide type in blocks: integers through int64, floats through double, so every pair is exact. */
#include "kernels/convert.h"

#include <math.h>
#include <string.h>

float stk__half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    uint32_t bits;
    if (magnitude >= 0x7c00) { /* infinity and NaN */
        bits = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
    } else if (magnitude >= 0x400) {
        bits = sign | ((magnitude << 13) + ((127 - 15) << 23));
    } else { /* subnormal: a multiple of 2^-24 */
        const float x = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
        bits |= sign;
    }
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint16_t stk__float_to_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (bits >= 0x38800000) { /* normal: round the lower 13 bits to even */
        const uint32_t rounded = bits + 0xfff + (bits >> 13 & 1);
        return (uint16_t)(sign | (rounded - ((127 - 15) << 23)) >> 13);
    }
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return (uint16_t)(sign | (uint16_t)nearbyintf(magnitude * 0x1p24f));
}

float stk__bfloat_to_float(uint16_t bfloat)
{
    const uint32_t bits = (uint32_t)bfloat << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint16_t stk__float_to_bfloat(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define BLOCK 256

/* A block in its wide form. */
typedef union wide {
    int64_t integers[BLOCK];
    uint64_t unsigneds[BLOCK];
    double numbers[BLOCK];
} wide;

typedef enum family { SIGNED, UNSIGNED, REAL, NONE } family;

static family family_of(stk_dtype dtype)
{
    switch (dtype) {
    case STK_INT8:
    case STK_INT16:
    case STK_INT32:
    case STK_INT64:
        return SIGNED;
    case STK_BOOL:
    case STK_UINT8:
    case STK_UINT16:
    case STK_UINT32:
    case STK_UINT64:
        return UNSIGNED;
    case STK_FLOAT16:
    case STK_BFLOAT16:
    case STK_FLOAT32:
    case STK_FLOAT64:
        return REAL;
    default:
        return NONE;
    }
}

#define LOAD(dtype_name, T, member)               \
    case dtype_name:                              \
        for (size_t i = 0; i < n; i++) {          \
            T x;                                  \
            memcpy(&x, p + i * sizeof x, sizeof x); \
            w->member[i] = x;                     \
        }                                         \
        return;
#define LOAD_HALF(dtype_name, convert)            \
    case dtype_name:                              \
        for (size_t i = 0; i < n; i++) {          \
            uint16_t x;                           \
            memcpy(&x, p + i * sizeof x, sizeof x); \
            w->numbers[i] = (double)convert(x);   \
        }                                         \
        return;

static void load(wide *w, const char *p, stk_dtype from, size_t n)
{
    switch (from) {
        LOAD(STK_BOOL, uint8_t, unsigneds)
        LOAD(STK_UINT8, uint8_t, unsigneds)
        LOAD(STK_UINT16, uint16_t, unsigneds)
        LOAD(STK_UINT32, uint32_t, unsigneds)
        LOAD(STK_UINT64, uint64_t, unsigneds)
        LOAD(STK_INT8, int8_t, integers)
        LOAD(STK_INT16, int16_t, integers)
        LOAD(STK_INT32, int32_t, integers)
        LOAD(STK_INT64, int64_t, integers)
        LOAD(STK_FLOAT32, float, numbers)
        LOAD(STK_FLOAT64, double, numbers)
        LOAD_HALF(STK_FLOAT16, stk__half_to_float)
        LOAD_HALF(STK_BFLOAT16, stk__bfloat_to_float)
    default:
        return;
    }
}

/* 2^63 and 2^64 are exact doubles; their predecessors in range are not all integers' limits, hence the comparisons. */
static int64_t signed_from_real(double x)
{
    if (isnan(x))
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    if (x <= -0x1p63)
        return INT64_MIN;
    return (int64_t)x;
}

static uint64_t unsigned_from_real(double x)
{
    if (!(x > 0))
        return 0;
    return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* From the wide form of one family to that of another. */
static void cross(wide *w, family from, family to, size_t n)
{
    if (from == to)
        return;
    for (size_t i = 0; i < n; i++) {
        if (from == SIGNED && to == UNSIGNED)
            w->unsigneds[i] = w->integers[i] < 0 ? 0 : (uint64_t)w->integers[i];
        else if (from == SIGNED)
            w->numbers[i] = (double)w->integers[i];
        else if (from == UNSIGNED && to == SIGNED)
            w->integers[i] = w->unsigneds[i] > INT64_MAX ? INT64_MAX : (int64_t)w->unsigneds[i];
        else if (from == UNSIGNED)
            w->numbers[i] = (double)w->unsigneds[i];
        else if (to == SIGNED)
            w->integers[i] = signed_from_real(w->numbers[i]);
        else
            w->unsigneds[i] = unsigned_from_real(w->numbers[i]);
    }
}

#define STORE_SIGNED(dtype_name, T, low, high)                                       \
    case dtype_name:                                                                 \
        for (size_t i = 0; i < n; i++) {                                             \
            const int64_t v = w->integers[i];                                        \
            const T x = (T)(v < (low) ? (low) : v > (high) ? (high) : v);            \
            memcpy(p + i * sizeof x, &x, sizeof x);                                  \
        }                                                                            \
        return;
#define STORE_UNSIGNED(dtype_name, T, high)                          \
    case dtype_name:                                                 \
        for (size_t i = 0; i < n; i++) {                             \
            const uint64_t v = w->unsigneds[i];                      \
            const T x = (T)(v > (high) ? (high) : v);                \
            memcpy(p + i * sizeof x, &x, sizeof x);                  \
        }                                                            \
        return;
#define STORE_REAL(dtype_name, T, convert)             \
    case dtype_name:                                   \
        for (size_t i = 0; i < n; i++) {               \
            const T x = convert(w->numbers[i]);        \
            memcpy(p + i * sizeof x, &x, sizeof x);    \
        }                                              \
        return;
#define TO_FLOAT(x) ((float)(x))
#define TO_DOUBLE(x) (x)
#define TO_HALF(x) stk__float_to_half((float)(x))
#define TO_BFLOAT(x) stk__float_to_bfloat((float)(x))

static void store(char *p, const wide *w, stk_dtype to, size_t n)
{
    switch (to) {
        STORE_UNSIGNED(STK_UINT8, uint8_t, UINT8_MAX)
        STORE_UNSIGNED(STK_UINT16, uint16_t, UINT16_MAX)
        STORE_UNSIGNED(STK_UINT32, uint32_t, UINT32_MAX)
        STORE_UNSIGNED(STK_UINT64, uint64_t, UINT64_MAX)
        STORE_SIGNED(STK_INT8, int8_t, INT8_MIN, INT8_MAX)
        STORE_SIGNED(STK_INT16, int16_t, INT16_MIN, INT16_MAX)
        STORE_SIGNED(STK_INT32, int32_t, INT32_MIN, INT32_MAX)
        STORE_SIGNED(STK_INT64, int64_t, INT64_MIN, INT64_MAX)
        STORE_REAL(STK_FLOAT32, float, TO_FLOAT)
        STORE_REAL(STK_FLOAT64, double, TO_DOUBLE)
        STORE_REAL(STK_FLOAT16, uint16_t, TO_HALF)
        STORE_REAL(STK_BFLOAT16, uint16_t, TO_BFLOAT)
    default:
        return;
    }
}

/* Anything but zero; NaN counts as true, as in C. */
static void store_bool(char *p, const wide *w, family from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = from == REAL ? w->numbers[i] != 0 : w->unsigneds[i] != 0;
}

bool stk__convert(void *out, stk_dtype to, const void *in, stk_dtype from, size_t count)
{
    const family from_family = family_of(from), to_family = family_of(to);
    if (from_family == NONE || to_family == NONE)
        return false;
    const size_t from_size = stk_dtype_size(from), to_size = stk_dtype_size(to);
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        wide w;
        load(&w, (const char *)in + done * from_size, from, n);
        char *p = (char *)out + done * to_size;
        if (to == STK_BOOL) {
            store_bool(p, &w, from_family, n);
            continue;
        }
        cross(&w, from_family, to_family, n);
        store(p, &w, to, n);
    }
    return true;
}
