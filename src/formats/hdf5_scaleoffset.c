/* The scale-offset filter of HDF5: numbers less their minimum, in as few bits as the largest needs. */
#include <math.h>
#include <stdio.h>

#include "base/compiler.h"
#include "formats/hdf5_bits.h"
#include "formats/hdf5_codec.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

enum { SCALE_TYPE, SCALE_FACTOR, ELEMENTS, CLASS, SIZE, SIGN, ORDER, HAS_FILL, FILL, VALUES = 20 };
enum { SCALE_DECIMAL = 0, SCALE_INTEGER = 2 };
enum { CLASS_INTEGER = 0, CLASS_FLOAT = 1 };
/* Bits of a number in 4 bytes, the size of the minimum in one, the minimum in 8, and 8 that are never used. */
enum { HEADER = 21 };
/* Numbers unpacked at a time: they stay in the first cache. */
enum { BLOCK = 256 };

/* A chunk as its header and the client values describe it. */
typedef struct packed {
    stk__h5_bits bits;
    unsigned width; /* bits of a number; less than those of an element */
    size_t size;    /* bytes of an element */
    uint64_t minimum;
    bool has_fill; /* a number of ones only stands for `fill` */
    uint64_t fill;
    int factor;
} packed;

static bool refuse(char *why, size_t why_size, const char *what, uint64_t found, uint64_t wanted)
{
    snprintf(why, why_size, "%s is %llu, wanted %llu", what, (unsigned long long)found, (unsigned long long)wanted);
    return false;
}

bool stk__h5_scaleoffset_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    const uint32_t *v = filter->values;
    if (filter->value_count != VALUES)
        return refuse(why, why_size, "the number of client values", filter->value_count, VALUES);
    const uint32_t size = v[SIZE];
    if (v[CLASS] > CLASS_FLOAT || v[SIGN] > 1 || v[ORDER] > 1) {
        snprintf(why, why_size, "type class %u, sign %u and byte order %u are not all 0 or 1", v[CLASS], v[SIGN],
                 v[ORDER]);
        return false;
    }
    const bool is_float = v[CLASS] == CLASS_FLOAT;
    if (!(size == 4 || size == 8 || (!is_float && (size == 1 || size == 2)))) {
        snprintf(why, why_size, "%s of %u bytes cannot be scaled", is_float ? "a float" : "an integer", size);
        return false;
    }
    if (v[SCALE_TYPE] != (is_float ? SCALE_DECIMAL : SCALE_INTEGER))
        return refuse(why, why_size, "the type of scale", v[SCALE_TYPE], is_float ? SCALE_DECIMAL : SCALE_INTEGER);
    if (!is_float && (int32_t)v[SCALE_FACTOR] > (int32_t)(8 * size)) {
        snprintf(why, why_size, "%u bits were asked for integers of %u", v[SCALE_FACTOR], 8 * size);
        return false;
    }
    if ((uint64_t)v[ELEMENTS] * size != chunk_bytes)
        return refuse(why, why_size, "the size of a chunk", (uint64_t)v[ELEMENTS] * size, chunk_bytes);
    return true;
}

static void restore_integers(packed *p, uint8_t *out, size_t n)
{
    const uint64_t ones = ((uint64_t)1 << p->width) - 1, minimum = p->minimum, fill = p->fill;
    uint64_t block[BLOCK] = {0};
    for (size_t done = 0; done < n;) {
        const size_t count = STK_MIN(n - done, (size_t)BLOCK);
        /* No bits: all are the minimum, or the fill value where there is one, for then 0 is all ones. */
        if (p->width)
            stk__h5_bits_read(&p->bits, p->width, block, count);
        else
            memset(block, 0, sizeof block);
        if (p->has_fill)
            for (size_t i = 0; i < count; i++)
                block[i] = block[i] == ones ? fill : block[i] + minimum;
        else
            for (size_t i = 0; i < count; i++)
                block[i] += minimum;
        stk__h5_bits_store(out + done * p->size, block, count, p->size);
        done += count;
    }
}

/* The roundings are those of libhdf5: each step in the type of the data. */
static void scale_floats(const packed *p, const uint64_t *numbers, uint8_t *out, size_t n)
{
    const uint64_t ones = ((uint64_t)1 << p->width) - 1;
    const float power = powf(10.0f, (float)p->factor);
    const uint32_t low = (uint32_t)p->minimum, low_fill = (uint32_t)p->fill;
    float minimum, fill;
    memcpy(&minimum, &low, 4);
    memcpy(&fill, &low_fill, 4);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)(int32_t)numbers[i] / power + minimum;
        memcpy(out + 4 * i, p->has_fill && numbers[i] == ones ? &fill : &x, 4);
    }
}

static void scale_doubles(const packed *p, const uint64_t *numbers, uint8_t *out, size_t n)
{
    const uint64_t ones = ((uint64_t)1 << p->width) - 1;
    const double power = pow(10.0, (double)p->factor);
    double minimum, fill;
    memcpy(&minimum, &p->minimum, 8);
    memcpy(&fill, &p->fill, 8);
    for (size_t i = 0; i < n; i++) {
        const double x = (double)(int64_t)numbers[i] / power + minimum;
        memcpy(out + 8 * i, p->has_fill && numbers[i] == ones ? &fill : &x, 8);
    }
}

static void restore_floats(packed *p, uint8_t *out, size_t n)
{
    uint64_t block[BLOCK] = {0};
    for (size_t done = 0; done < n;) {
        const size_t count = STK_MIN(n - done, (size_t)BLOCK);
        if (p->width)
            stk__h5_bits_read(&p->bits, p->width, block, count);
        if (p->size == 4)
            scale_floats(p, block, out + 4 * done, count);
        else
            scale_doubles(p, block, out + 8 * done, count);
        done += count;
    }
}

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The minimum has as many bytes as a long long had where it was written. */
static uint64_t read_minimum(const uint8_t *in)
{
    const unsigned size = STK_MIN(in[4], 8u);
    uint64_t x = 0;
    for (unsigned i = 0; i < size; i++)
        x |= (uint64_t)in[5 + i] << 8 * i;
    return x;
}

static stk_status read_header(const stk__h5_filter *filter, const uint8_t *in, size_t in_size, packed *out,
                              stk_error *err)
{
    const uint32_t *v = filter->values;
    if (in_size < HEADER)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted at least %d", in_size, HEADER);
    const uint32_t width = read_u32(in);
    if (width > 8 * v[SIZE])
        return stk_error_set(err, STK_CORRUPT, "its numbers have %u bits, wanted at most %u", width, 8 * v[SIZE]);
    const uint64_t wanted = ((uint64_t)v[ELEMENTS] * width + 7) / 8;
    if (in_size - HEADER < wanted)
        return stk_error_set(err, STK_CORRUPT, "%u numbers of %u bits take %llu bytes, found %zu", v[ELEMENTS], width,
                             (unsigned long long)wanted, in_size - HEADER);
    *out = (packed){
        .bits = {.data = in + HEADER, .size = in_size - HEADER},
        .width = width,
        .size = v[SIZE],
        .minimum = read_minimum(in),
        .has_fill = v[HAS_FILL] == 1,
        .fill = v[FILL] | (uint64_t)v[FILL + 1] << 32,
        .factor = (int32_t)v[SCALE_FACTOR],
    };
    return STK_OK;
}

stk_status stk__h5_undo_scaleoffset(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in,
                                    size_t in_size, uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    const uint32_t *v = filter->values;
    if (v[CLASS] == CLASS_INTEGER && v[SCALE_FACTOR] == 8 * v[SIZE]) {
        /* As many bits were asked for as there are: libhdf5 leaves such data alone, without a header. */
        *out_written = STK_MIN(in_size, out_size);
        memcpy(out, in, *out_written);
        return STK_OK;
    }
    packed p = {0};
    STK_TRY(read_header(filter, in, in_size, &p, err));
    const size_t n = STK_MIN(v[ELEMENTS], out_size / p.size);
    if (p.width == 8 * p.size)
        memcpy(out, p.bits.data, n * p.size);
    else if (v[CLASS] == CLASS_INTEGER)
        restore_integers(&p, out, n);
    else
        restore_floats(&p, out, n);
    if (v[ORDER] && p.size > 1)
        stk__swap_bytes(out, out, n, p.size);
    *out_written = n * p.size;
    return STK_OK;
}
