/* Copies of pixels: views that reach beyond the border, mirror images, turns, filled rectangles. */
#include "kernels/image.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

int32_t stk__border_at(stk__border border, int32_t at, int32_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (border == STK__BORDER_EDGE || size == 1)
        return at < 0 ? 0 : size - 1;
    const int64_t period = 2 * ((int64_t)size - 1);
    int64_t place = at % period;
    if (place < 0)
        place += period;
    return (int32_t)(place < size ? place : period - place);
}

/* A row of a view is a few runs of pixels. A run takes `count` pixels from `from` on, forwards,
   backwards, or the same one again and again. */
typedef enum run_kind { RUN_FORWARD, RUN_BACKWARD, RUN_REPEAT, RUN_FILL } run_kind;

typedef struct run {
    run_kind kind;
    int32_t from, count;
} run;

/* Enough for a border on both sides, and for reflections of narrow images; others go pixel by pixel. */
#define RUNS_MAX 8

typedef struct view {
    const stk__pixels *out, *in;
    int32_t x, y;
    bool flip_x, flip_y;
    stk__border border;
    const uint8_t *fill;
    size_t pixel;
    run runs[RUNS_MAX];
    int32_t run_count;
} view;

/* The longest run that starts at column `at`, which may lie outside, and ends before `end`. */
static run run_from(stk__border border, int64_t at, int64_t end, int32_t size)
{
    const int64_t room = end - at;
    if (at >= 0 && at < size)
        return (run){RUN_FORWARD, (int32_t)at, (int32_t)STK_MIN(room, size - at)};
    const int64_t outside = at < 0 ? STK_MIN(room, -at) : room;
    if (border == STK__BORDER_CONSTANT)
        return (run){RUN_FILL, 0, (int32_t)outside};
    if (border == STK__BORDER_EDGE || size == 1)
        return (run){RUN_REPEAT, at < 0 ? 0 : size - 1, (int32_t)outside};
    const int64_t period = 2 * ((int64_t)size - 1);
    const int64_t place = (at % period + period) % period;
    if (place < size - 1) /* on a way forth; the turning point belongs to the way back */
        return (run){RUN_FORWARD, (int32_t)place, (int32_t)STK_MIN(outside, size - 1 - place)};
    return (run){RUN_BACKWARD, (int32_t)(period - place), (int32_t)STK_MIN(outside, period - place)};
}

/* Mirrors the list of runs and each run in it. A backward run starts at its highest pixel. */
static void flip_runs(view *v)
{
    for (int32_t i = 0, k = v->run_count - 1; i < k; i++, k--) {
        const run other = v->runs[i];
        v->runs[i] = v->runs[k];
        v->runs[k] = other;
    }
    for (int32_t i = 0; i < v->run_count; i++) {
        run *const r = &v->runs[i];
        if (r->kind == RUN_FORWARD) {
            r->kind = RUN_BACKWARD;
            r->from += r->count - 1;
        } else if (r->kind == RUN_BACKWARD) {
            r->kind = RUN_FORWARD;
            r->from -= r->count - 1;
        }
    }
}

/* False when there are too many. */
static bool find_runs(view *v)
{
    const int64_t end = (int64_t)v->x + v->out->width;
    for (int64_t at = v->x; at < end; at += v->runs[v->run_count++].count) {
        if (v->run_count == RUNS_MAX)
            return false;
        v->runs[v->run_count] = run_from(v->border, at, end, v->in->width);
    }
    if (v->flip_x)
        flip_runs(v);
    return true;
}

/* Pixels of the common sizes are copied without a call. */
static inline void copy_pixel(uint8_t *out, const uint8_t *in, size_t pixel)
{
    if (pixel == 3)
        memcpy(out, in, 3);
    else if (pixel == 1)
        *out = *in;
    else if (pixel == 4)
        memcpy(out, in, 4);
    else
        memcpy(out, in, pixel);
}

static void repeat_pixel(uint8_t *out, const uint8_t *pixel, int32_t count, size_t size)
{
    if (size == 1) {
        memset(out, *pixel, (size_t)count);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        copy_pixel(out + (size_t)i * size, pixel, size);
}

/* `last` is the pixel that comes first in the result. */
static void reverse_c(uint8_t *out, const uint8_t *last, int32_t count, size_t pixel)
{
    for (int32_t i = 0; i < count; i++)
        copy_pixel(out + (size_t)i * pixel, last - (ptrdiff_t)((size_t)i * pixel), pixel);
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Whole pixels of 16 bytes, last one first. Bytes beyond them are whatever. */
STK__SSE4 static inline __m128i reverse_index16(size_t pixel)
{
    switch (pixel) {
    case 1:
        return _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    case 2:
        return _mm_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    case 3: /* the five pixels from byte 1 on */
        return _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    default:
        return _mm_setr_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    }
}

STK__SSE4 static void reverse_sse4(uint8_t *out, const uint8_t *last, int32_t count, size_t pixel)
{
    const __m128i index = reverse_index16(pixel);
    const size_t step = 16 / pixel * pixel, least = pixel == 3 ? 18 : 16;
    const uint8_t *end = last + pixel;
    size_t left = (size_t)count * pixel;
    for (; left >= least; left -= step, end -= step, out += step)
        _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(end - 16)), index));
    reverse_c(out, end - pixel, (int32_t)(left / pixel), pixel);
}

/* Byte i of the reversed pixels of a vector's whole pixels. */
static const uint8_t reverse_index64[4][64] = {
    {63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42,
     41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
     19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9,  8,  7,  6,  5,  4,  3,  2,  1,  0},
    {62, 63, 60, 61, 58, 59, 56, 57, 54, 55, 52, 53, 50, 51, 48, 49, 46, 47, 44, 45, 42, 43,
     40, 41, 38, 39, 36, 37, 34, 35, 32, 33, 30, 31, 28, 29, 26, 27, 24, 25, 22, 23, 20, 21,
     18, 19, 16, 17, 14, 15, 12, 13, 10, 11, 8,  9,  6,  7,  4,  5,  2,  3,  0,  1},
    {60, 61, 62, 57, 58, 59, 54, 55, 56, 51, 52, 53, 48, 49, 50, 45, 46, 47, 42, 43, 44, 39,
     40, 41, 36, 37, 38, 33, 34, 35, 30, 31, 32, 27, 28, 29, 24, 25, 26, 21, 22, 23, 18, 19,
     20, 15, 16, 17, 12, 13, 14, 9,  10, 11, 6,  7,  8,  3,  4,  5,  0,  1,  2,  0},
    {60, 61, 62, 63, 56, 57, 58, 59, 52, 53, 54, 55, 48, 49, 50, 51, 44, 45, 46, 47, 40, 41,
     42, 43, 36, 37, 38, 39, 32, 33, 34, 35, 28, 29, 30, 31, 24, 25, 26, 27, 20, 21, 22, 23,
     16, 17, 18, 19, 12, 13, 14, 15, 8,  9,  10, 11, 4,  5,  6,  7,  0,  1,  2,  3},
};

/*
 * The first `size` bytes. Masked stores are slow on some CPUs, so what follows before `end` is overwritten: pixels that
 * are written later.
 */
STK__AVX512 static inline void store_front(uint8_t *out, const uint8_t *end, size_t size, __m512i x)
{
    if (STK_LIKELY(end - out >= 64))
        _mm512_storeu_si512(out, x);
    else
        _mm512_mask_storeu_epi8(out, _bzhi_u64(UINT64_MAX, (uint32_t)size), x);
}

STK__AVX512 static inline __m512i load_front(const uint8_t *in, size_t size)
{
    return _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, (uint32_t)size), in);
}

STK__AVX512 static inline void reverse_avx512(uint8_t *out, const uint8_t *end, const uint8_t *last, int32_t count,
                                              size_t pixel, __m512i index)
{
    const size_t step = 64 / pixel * pixel;
    const uint8_t *from = last + pixel;
    size_t left = (size_t)count * pixel;
    for (; left > step; left -= step, out += step) {
        from -= step;
        store_front(out, end, step, _mm512_permutexvar_epi8(index, load_front(from, step)));
    }
    /* Fewer pixels: their bytes lie as much lower. */
    const __m512i lower = _mm512_sub_epi8(index, _mm512_set1_epi8((char)(step - left)));
    store_front(out, end, left, _mm512_permutexvar_epi8(lower, load_front(from - left, left)));
}

STK__AVX512 static inline void copy_avx512(uint8_t *out, const uint8_t *end, const uint8_t *in, size_t size)
{
    if (size > 256) {
        memcpy(out, in, size);
        return;
    }
    for (; size > 64; size -= 64, out += 64, in += 64)
        _mm512_storeu_si512(out, _mm512_loadu_si512(in));
    store_front(out, end, size, load_front(in, size));
}
#endif

static inline void copy_run(const view *v, const run *r, uint8_t *out, const uint8_t *from, bool sse4)
{
    if (r->kind == RUN_FORWARD)
        memcpy(out, from, (size_t)r->count * v->pixel);
    else if (r->kind == RUN_REPEAT)
        repeat_pixel(out, from, r->count, v->pixel);
    else if (r->kind == RUN_FILL)
        repeat_pixel(out, v->fill, r->count, v->pixel);
#if defined(__x86_64__)
    else if (sse4 && v->pixel <= 4)
        reverse_sse4(out, from, r->count, v->pixel);
#endif
    else
        reverse_c(out, from, r->count, v->pixel);
}

static inline void copy_row(const view *v, uint8_t *out, const uint8_t *in, bool sse4)
{
    for (int32_t i = 0; i < v->run_count; i++) {
        const run *const r = &v->runs[i];
        copy_run(v, r, out, in + (size_t)r->from * v->pixel, sse4);
        out += (size_t)r->count * v->pixel;
    }
}

/* The row of `in` from which row y of the result comes; NULL for one that is all fill. */
static inline const uint8_t *source_row(const view *v, int32_t y)
{
    const int64_t at = (int64_t)v->y + (v->flip_y ? v->out->height - 1 - y : y);
    if (at >= 0 && at < v->in->height)
        return stk__pixel_row(v->in, (int32_t)at);
    if (v->border == STK__BORDER_CONSTANT)
        return NULL;
    /* A view ends at most INT32_MAX after its start, so one period taken off keeps any reflection the same. */
    const int64_t period = STK_MAX(2 * ((int64_t)v->in->height - 1), 1);
    const int32_t near = (int32_t)(v->border == STK__BORDER_REFLECT ? at % period : STK_MIN(at, INT32_MAX));
    return stk__pixel_row(v->in, stk__border_at(v->border, near, v->in->height));
}

static void copy_rows(const view *v, bool sse4)
{
    for (int32_t y = 0; y < v->out->height; y++) {
        const uint8_t *const from = source_row(v, y);
        uint8_t *const out = stk__pixel_row(v->out, y);
        if (from)
            copy_row(v, out, from, sse4);
        else
            repeat_pixel(out, v->fill, v->out->width, v->pixel);
    }
}

#if defined(__x86_64__)
STK__AVX512 static void copy_wide_avx512(const view *v, size_t pixel)
{
    const __m512i index = _mm512_loadu_si512(reverse_index64[pixel - 1]);
    const ptrdiff_t row_bytes = (ptrdiff_t)((size_t)v->out->width * pixel);
    const uint8_t *const all = v->out->data + row_bytes * v->out->height;
    for (int32_t y = 0; y < v->out->height; y++) {
        const uint8_t *const from = source_row(v, y);
        uint8_t *out = stk__pixel_row(v->out, y);
        const uint8_t *const end = v->out->stride == row_bytes ? all : out + row_bytes;
        if (!from) {
            repeat_pixel(out, v->fill, v->out->width, pixel);
            continue;
        }
        for (const run *r = v->runs; r < v->runs + v->run_count; r++) {
            const uint8_t *const in = from + (size_t)r->from * pixel;
            const size_t size = (size_t)r->count * pixel;
            if (r->kind == RUN_FORWARD)
                copy_avx512(out, end, in, size);
            else if (r->kind == RUN_BACKWARD)
                reverse_avx512(out, end, in, r->count, pixel, index);
            else
                repeat_pixel(out, r->kind == RUN_FILL ? v->fill : in, r->count, pixel);
            out += size;
        }
    }
}

/* Rows of up to two vectors in and out, as in CIFAR: each result byte is picked from the row by one index. */
#define NARROW_BYTES 128

typedef struct narrow {
    /* Written 64 bytes at a time, in order, so that what a run writes too much is overwritten by the next one. */
    uint8_t index[NARROW_BYTES + 64]; /* byte of the input row */
    uint8_t fill[NARROW_BYTES];       /* whole row of the fill pixel */
    uint8_t is_fill[NARROW_BYTES];
} narrow;

STK__AVX512 static void narrow_run(uint8_t *out, const run *r, size_t pixel)
{
    const __m512i back = _mm512_loadu_si512(reverse_index64[pixel - 1]);
    const __m512i forth = _mm512_sub_epi8(_mm512_set1_epi8(63), _mm512_loadu_si512(reverse_index64[0]));
    const size_t size = (size_t)r->count * pixel, step = 64 / pixel * pixel;
    const size_t first = (size_t)r->from * pixel;
    if (r->kind == RUN_FORWARD) {
        for (size_t done = 0; done < size; done += 64)
            _mm512_storeu_si512(out + done, _mm512_add_epi8(forth, _mm512_set1_epi8((char)(first + done))));
    } else if (r->kind == RUN_BACKWARD) {
        for (size_t done = 0; done < size; done += step) /* modulo 256 */
            _mm512_storeu_si512(out + done,
                                _mm512_add_epi8(back, _mm512_set1_epi8((char)(first + pixel - step - done))));
    } else {
        for (size_t done = 0; done < size; done++)
            out[done] = (uint8_t)(first + done % pixel);
    }
}

STK__AVX512 static void narrow_plan(const view *v, narrow *n)
{
    const size_t pixel = v->pixel;
    const bool constant = v->border == STK__BORDER_CONSTANT;
    if (constant) {
        memset(n->is_fill, 0, sizeof n->is_fill);
        repeat_pixel(n->fill, v->fill, v->out->width, pixel);
    }
    size_t at = 0;
    for (const run *r = v->runs; r < v->runs + v->run_count; at += (size_t)r->count * pixel, r++) {
        narrow_run(n->index + at, r, pixel);
        if (r->kind == RUN_FILL)
            memset(n->is_fill + at, 1, (size_t)r->count * pixel);
    }
}

STK__AVX512 static void copy_narrow_avx512(const view *v)
{
    narrow n;
    narrow_plan(v, &n);
    const size_t in_size = (size_t)v->in->width * v->pixel, size = (size_t)v->out->width * v->pixel;
    const size_t in_low = STK_MIN(in_size, 64), low = STK_MIN(size, 64), high = size - low;
    const bool constant = v->border == STK__BORDER_CONSTANT, packed = v->out->stride == (ptrdiff_t)size;
    const uint8_t *const all = v->out->data + (ptrdiff_t)size * v->out->height;
    const __m512i index0 = load_front(n.index, low), index1 = load_front(n.index + 64, high);
    __m512i fill0 = _mm512_setzero_si512(), fill1 = fill0;
    __mmask64 is_fill0 = 0, is_fill1 = 0;
    if (constant) {
        fill0 = load_front(n.fill, low);
        fill1 = load_front(n.fill + 64, high);
        is_fill0 = _mm512_test_epi8_mask(_mm512_loadu_si512(n.is_fill), _mm512_loadu_si512(n.is_fill));
        is_fill1 = _mm512_test_epi8_mask(_mm512_loadu_si512(n.is_fill + 64), _mm512_loadu_si512(n.is_fill + 64));
    }
    for (int32_t y = 0; y < v->out->height; y++) {
        const uint8_t *const from = source_row(v, y);
        uint8_t *const out = stk__pixel_row(v->out, y);
        const uint8_t *const end = packed ? all : out + size;
        __m512i out0 = fill0, out1 = fill1;
        if (from) {
            const __m512i in0 = load_front(from, in_low), in1 = load_front(from + in_low, in_size - in_low);
            out0 = _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(in0, index0, in1), is_fill0, fill0);
            out1 = _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(in0, index1, in1), is_fill1, fill1);
        }
        store_front(out, end, low, out0);
        if (high)
            store_front(out + 64, end, high, out1);
    }
}

STK__AVX512 static void copy_rows_avx512(const view *v)
{
    if ((size_t)STK_MAX(v->in->width, v->out->width) * v->pixel <= NARROW_BYTES)
        copy_narrow_avx512(v);
    else
        copy_wide_avx512(v, v->pixel);
}
#endif

/* Pixel by pixel: for images so narrow that their reflections fill a row many times. */
static void copy_pixels(const view *v)
{
    for (int32_t y = 0; y < v->out->height; y++) {
        const uint8_t *const from = source_row(v, y);
        uint8_t *out = stk__pixel_row(v->out, y);
        for (int32_t x = 0; x < v->out->width; x++, out += v->pixel) {
            const int64_t at = (int64_t)v->x + (v->flip_x ? v->out->width - 1 - x : x);
            const run one = run_from(v->border, at, at + 1, v->in->width);
            const bool fill = !from || one.kind == RUN_FILL;
            copy_pixel(out, fill ? v->fill : from + (size_t)one.from * v->pixel, v->pixel);
        }
    }
}

void stk__copy_view(const stk__pixels *out, const stk__pixels *in, int32_t x, int32_t y, bool flip_x, bool flip_y,
                    stk__border border, const uint8_t *fill)
{
    view v = {.out = out, .in = in, .x = x, .y = y, .flip_x = flip_x, .flip_y = flip_y, .border = border, .fill = fill};
    v.pixel = stk__pixel_bytes(in);
    if (!find_runs(&v)) {
        copy_pixels(&v);
        return;
    }
    const stk__simd level = stk__simd_level();
#if defined(__x86_64__)
    if (level >= STK__SIMD_AVX512 && v.pixel <= 4) {
        copy_rows_avx512(&v);
        return;
    }
#endif
    copy_rows(&v, level >= STK__SIMD_SSE4);
}

/* Turns for which rows become columns: pixel (x, y) of the result is (y, x) of the input, each mirrored where wished. */
static inline void transpose(const stk__pixels *out, const stk__pixels *in, bool mirror_x, bool mirror_y, size_t pixel)
{
    enum { TILE = 16 }; /* a tile's rows and columns stay in the first cache */
    for (int32_t y0 = 0; y0 < out->height; y0 += TILE) {
        for (int32_t x0 = 0; x0 < out->width; x0 += TILE) {
            const int32_t y1 = STK_MIN(y0 + TILE, out->height), x1 = STK_MIN(x0 + TILE, out->width);
            for (int32_t y = y0; y < y1; y++) {
                const size_t column = (size_t)(mirror_x ? in->width - 1 - y : y) * pixel;
                uint8_t *to = stk__pixel_row(out, y) + (size_t)x0 * pixel;
                for (int32_t x = x0; x < x1; x++, to += pixel)
                    copy_pixel(to, stk__pixel_row(in, mirror_y ? in->height - 1 - x : x) + column, pixel);
            }
        }
    }
}

void stk__orient(const stk__pixels *out, const stk__pixels *in, int orientation)
{
    if (orientation < 5) {
        const bool flip_x = orientation == 2 || orientation == 3, flip_y = orientation == 3 || orientation == 4;
        stk__copy_view(out, in, 0, 0, flip_x, flip_y, STK__BORDER_EDGE, NULL);
        return;
    }
    /* 5: transposed, 6: to be turned right, 7: transposed along the other diagonal, 8: to be turned left */
    const bool mirror_x = orientation == 7 || orientation == 8, mirror_y = orientation == 6 || orientation == 7;
    const size_t pixel = stk__pixel_bytes(in);
    if (pixel == 3)
        transpose(out, in, mirror_x, mirror_y, 3);
    else if (pixel == 1)
        transpose(out, in, mirror_x, mirror_y, 1);
    else
        transpose(out, in, mirror_x, mirror_y, pixel);
}

void stk__fill_rect(const stk__pixels *image, int32_t x, int32_t y, int32_t width, int32_t height, const uint8_t *pixel)
{
    const int64_t x0 = STK_MAX(x, 0), x1 = STK_MIN((int64_t)x + width, image->width);
    const int64_t y0 = STK_MAX(y, 0), y1 = STK_MIN((int64_t)y + height, image->height);
    if (x0 >= x1 || y0 >= y1)
        return;
    const size_t size = stk__pixel_bytes(image), offset = (size_t)x0 * size, bytes = (size_t)(x1 - x0) * size;
    uint8_t *const first = stk__pixel_row(image, (int32_t)y0) + offset;
    repeat_pixel(first, pixel, (int32_t)(x1 - x0), size);
    for (int64_t row = y0 + 1; row < y1; row++)
        memcpy(stk__pixel_row(image, (int32_t)row) + offset, first, bytes);
}
