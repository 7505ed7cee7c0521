/* The n-bit filter of HDF5: only the bits that a type uses, one number behind the other. */
#include <stdio.h>

#include "base/compiler.h"
#include "formats/hdf5_bits.h"
#include "formats/hdf5_codec.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

/*
 * The client values: their number, whether nothing was packed, the elements of a chunk, and a type:
 *   ATOMIC, size, byte order, precision, offset
 *   ARRAY, size of it all, type of the elements
 *   COMPOUND, size, members, and for each member its offset and type
 *   NOOP, size
 */
enum { COUNT, IS_RAW, ELEMENTS, TYPE, TYPE_SIZE };
enum { ATOMIC = 1, ARRAY, COMPOUND, NOOP };
enum { DEPTH_MAX = 32, BLOCK = 256 };

/* Where a walk through the client values stands. */
typedef struct walk {
    const uint32_t *values;
    size_t count, at;
    bool lost; /* libhdf5 would read the next type from a wrong place */
    char *why;
    size_t why_size;
} walk;

static bool refuse(walk *w, const char *what)
{
    snprintf(w->why, w->why_size, "client value %zu: %s", w->at, what);
    return false;
}

static bool check_atomic(walk *w, uint32_t size, uint64_t *out_bits)
{
    if (w->count - w->at < 3)
        return refuse(w, "byte order, precision and offset are missing");
    const uint32_t order = w->values[w->at], precision = w->values[w->at + 1], offset = w->values[w->at + 2];
    if (order > 1)
        return refuse(w, "the byte order is neither little nor big");
    if (precision == 0 || (uint64_t)precision + offset > 8 * (uint64_t)size)
        return refuse(w, "precision and offset do not fit into the type");
    w->at += 3;
    *out_bits = precision;
    return true;
}

static bool check_type(walk *w, unsigned depth, uint32_t *out_size, uint64_t *out_bits);

static bool check_array(walk *w, unsigned depth, uint32_t size, uint64_t *out_bits)
{
    const uint32_t base_class = w->at < w->count ? w->values[w->at] : 0;
    uint32_t base_size;
    uint64_t base_bits;
    if (!check_type(w, depth + 1, &base_size, &base_bits))
        return false;
    if (base_class == ARRAY || base_class == COMPOUND)
        w->lost = true;
    /* Whatever does not take part is packed as it is, whole. */
    *out_bits = base_class == NOOP ? 8 * (uint64_t)size : size / base_size * base_bits;
    return true;
}

static bool check_compound(walk *w, unsigned depth, uint32_t size, uint64_t *out_bits)
{
    if (w->count - w->at < 1)
        return refuse(w, "the number of members is missing");
    const uint32_t members = w->values[w->at++];
    uint64_t used = 0;
    *out_bits = 0;
    for (uint32_t i = 0; i < members; i++) {
        if (w->count - w->at < 1)
            return refuse(w, "the offset of a member is missing");
        /*
         * After the last element of such an array, libhdf5 (1.10.8 and 2.0 alike) goes back to the first value of the
         * element's type, when writing as well as when reading, and takes what follows from there. Such data is not
         * what the type says, so it is left to libhdf5.
         */
        if (w->lost)
            return refuse(w, "a member follows an array of arrays or compounds");
        const uint32_t offset = w->values[w->at++];
        uint32_t member_size;
        uint64_t bits;
        if (!check_type(w, depth + 1, &member_size, &bits))
            return false;
        used += member_size;
        if (used > size || (uint64_t)offset + member_size > size)
            return refuse(w, "a member lies outside its compound");
        *out_bits += bits;
    }
    return true;
}

/* Size in bytes of the type at w->at, and its bits when packed, which are never more than 8 times as many. */
static bool check_type(walk *w, unsigned depth, uint32_t *out_size, uint64_t *out_bits)
{
    if (depth > DEPTH_MAX)
        return refuse(w, "types are nested too deeply");
    if (w->count - w->at < 2)
        return refuse(w, "class and size of a type are missing");
    const uint32_t class = w->values[w->at], size = w->values[w->at + 1];
    if (size == 0)
        return refuse(w, "a type has no bytes");
    w->at += 2;
    *out_size = size;
    switch (class) {
    case ATOMIC:
        return check_atomic(w, size, out_bits);
    case ARRAY:
        return check_array(w, depth, size, out_bits);
    case COMPOUND:
        return check_compound(w, depth, size, out_bits);
    case NOOP:
        *out_bits = 8 * (uint64_t)size;
        return true;
    default:
        return refuse(w, "a type has none of the four classes");
    }
}

bool stk__h5_nbit_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    const uint32_t *v = filter->values;
    walk w = {.values = v, .count = filter->value_count, .at = TYPE, .why = why, .why_size = why_size};
    if (filter->value_count < TYPE || v[COUNT] != filter->value_count) {
        snprintf(why, why_size, "%zu client values are there, wanted %u and at least %d", filter->value_count,
                 filter->value_count ? v[COUNT] : 0, TYPE);
        return false;
    }
    if (v[IS_RAW])
        return true;
    uint32_t size;
    uint64_t bits;
    if (!check_type(&w, 0, &size, &bits))
        return false;
    if (v[TYPE] == NOOP) {
        w.at = TYPE;
        return refuse(&w, "the type cannot be packed");
    }
    if ((uint64_t)v[ELEMENTS] * size != chunk_bytes) {
        snprintf(why, why_size, "the size of a chunk is %llu, wanted %zu", (unsigned long long)v[ELEMENTS] * size,
                 chunk_bytes);
        return false;
    }
    return true;
}

static void unpack_bytes(stk__h5_bits *in, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)stk__h5_bits_get(in, 8);
}

/* One number of any size, byte by byte from the highest; `out` is zero. */
static void unpack_wide(stk__h5_bits *in, uint8_t *out, size_t size, bool big, size_t precision, size_t offset)
{
    for (size_t byte = (offset + precision - 1) / 8 + 1; byte-- > offset / 8;) {
        const size_t low = STK_MAX(offset, 8 * byte), high = STK_MIN(offset + precision, 8 * byte + 8);
        const uint64_t bits = stk__h5_bits_get(in, (unsigned)(high - low));
        out[big ? size - 1 - byte : byte] = (uint8_t)(bits << (low - 8 * byte));
    }
}

/* `n` numbers one behind the other; v is at the byte order. `out` is zero. */
static void unpack_atomic(stk__h5_bits *in, const uint32_t *v, size_t size, uint8_t *out, size_t n)
{
    const bool big = v[0];
    const uint32_t precision = v[1], offset = v[2];
    if (size != 1 && size != 2 && size != 4 && size != 8) {
        for (size_t i = 0; i < n; i++)
            unpack_wide(in, out + i * size, size, big, precision, offset);
        return;
    }
    uint64_t block[BLOCK];
    for (size_t done = 0; done < n;) {
        const size_t count = STK_MIN(n - done, (size_t)BLOCK);
        stk__h5_bits_read(in, precision, block, count);
        for (size_t i = 0; i < count; i++)
            block[i] <<= offset;
        stk__h5_bits_store(out + done * size, block, count, size);
        done += count;
    }
    if (big && size > 1)
        stk__swap_bytes(out, out, n, size);
}

/* One value of the type at *at, which is moved behind the type. The values have been checked. */
static void unpack_type(stk__h5_bits *in, const uint32_t *v, size_t *at, uint8_t *out)
{
    const uint32_t class = v[*at], size = v[*at + 1];
    *at += 2;
    if (class == ATOMIC) {
        unpack_atomic(in, v + *at, size, out, 1);
        *at += 3;
    } else if (class == NOOP) {
        unpack_bytes(in, out, size);
    } else if (class == ARRAY) {
        const size_t base = *at;
        const uint32_t base_size = v[base + 1];
        if (v[base] == ATOMIC) {
            unpack_atomic(in, v + base + 2, base_size, out, size / base_size);
            *at += 5;
        } else if (v[base] == NOOP) {
            unpack_bytes(in, out, size);
            *at += 2;
        } else {
            for (uint32_t i = 0; i < size / base_size; i++) {
                *at = base;
                unpack_type(in, v, at, out + (size_t)i * base_size);
            }
        }
    } else {
        const uint32_t members = v[(*at)++];
        for (uint32_t i = 0; i < members; i++) {
            const uint32_t offset = v[(*at)++];
            unpack_type(in, v, at, out + offset);
        }
    }
}

stk_status stk__h5_undo_nbit(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                             uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    const uint32_t *v = filter->values;
    if (v[IS_RAW]) {
        *out_written = STK_MIN(in_size, out_size);
        memcpy(out, in, *out_written);
        return STK_OK;
    }
    walk w = {.values = v, .count = filter->value_count, .at = TYPE};
    uint32_t size;
    uint64_t bits;
    check_type(&w, 0, &size, &bits);
    if ((v[ELEMENTS] * bits + 7) / 8 > in_size)
        return stk_error_set(err, STK_CORRUPT, "%u elements of %llu bits take %llu bytes, found %zu", v[ELEMENTS],
                             (unsigned long long)bits, (unsigned long long)((v[ELEMENTS] * bits + 7) / 8), in_size);
    const size_t n = STK_MIN(v[ELEMENTS], out_size / size);
    stk__h5_bits packed = {.data = in, .size = in_size};
    /* Bits and bytes that no number has are zero in libhdf5 as well. */
    memset(out, 0, n * size);
    if (v[TYPE] == ATOMIC)
        unpack_atomic(&packed, v + TYPE + 2, size, out, n);
    else
        for (size_t i = 0; i < n; i++) {
            size_t at = TYPE;
            unpack_type(&packed, v, &at, out + i * size);
        }
    *out_written = n * size;
    return STK_OK;
}
