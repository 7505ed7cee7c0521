/* Values of HDF5 datasets: out of decoded chunks and stored rows into the rows of a field. */
#include <assert.h>
#include <string.h>

#include "formats/hdf5.h"
#include "kernels/shuffle.h"

enum {
    LOOPS_MAX = 2 * STK__H5_MAX_RANK + 1, /* dimensions of the dataset, of arrays inside an element, and rows */
    BLOCK = 8192                          /* bytes that stay in the nearest cache between two passes */
};

typedef struct loop {
    int64_t count;
    size_t from, to; /* bytes from one step to the next on either side */
} loop;

/* A copy as loops around runs of bytes that lie together on both sides. Merged, so that runs are long. */
typedef struct copy {
    size_t run;
    size_t value;          /* bytes of values that are turned round; 0: none are */
    size_t element;        /* shuffled chunks: bytes of an element */
    size_t elements;       /* shuffled chunks: elements of the chunk */
    int depth;             /* of loops */
    loop loops[LOOPS_MAX]; /* innermost first */
} copy;

/* ---- plans ---- */

static void copy_init(copy *c, size_t run)
{
    c->run = run;
    c->value = 0;
    c->element = c->elements = 0;
    c->depth = 0;
}

/* Puts a loop around what there is. */
static void copy_repeat(copy *c, int64_t count, size_t from, size_t to)
{
    if (count == 1)
        return;
    if (c->depth == 0) {
        if (from == c->run && to == c->run) {
            c->run *= (size_t)count;
            return;
        }
    } else {
        loop *inner = &c->loops[c->depth - 1];
        if (from == inner->from * (size_t)inner->count && to == inner->to * (size_t)inner->count) {
            inner->count *= count;
            return;
        }
    }
    c->loops[c->depth++] = (loop){count, from, to};
}

/* The values of one element: one behind the other in the end, wherever they lie now. */
static void copy_init_leaf(copy *c, const stk__h5_leaf *leaf)
{
    size_t to = leaf->size;
    copy_init(c, leaf->size);
    for (int32_t i = leaf->ndim - 1; i >= 0; i--) {
        copy_repeat(c, leaf->dims[i], (size_t)leaf->strides[i], to);
        to *= (size_t)leaf->dims[i];
    }
}

/* Whole elements of a shuffled chunk: no value lies anywhere as it is. */
static void copy_init_shuffled(copy *c, const stk__h5_dataset *d)
{
    copy_init(c, d->element_bytes);
    c->element = d->element_bytes;
    c->elements = d->chunk_elements;
}

static void copy_set_swap(copy *c, const stk__h5_leaf *leaf)
{
    const bool number = leaf->kind >= STK__H5_KIND_INT && leaf->kind <= STK__H5_KIND_BOOL;
    if (number && leaf->swap && leaf->size > 1)
        c->value = leaf->size;
}

/* ---- runs ---- */

/* n runs of `run` bytes. Short ones are worth a loop each: a call of memcpy costs more than what it copies. */
#define COPY_STEPS(bytes)          \
    for (size_t i = 0; i < n; i++) \
    memcpy(to + i * to_step, from + i * from_step, bytes)

static void copy_steps(uint8_t *restrict to, size_t to_step, const uint8_t *restrict from, size_t from_step, size_t n,
                       size_t run)
{
    switch (run) {
    case 1:
        COPY_STEPS(1);
        break;
    case 2:
        COPY_STEPS(2);
        break;
    case 3:
        COPY_STEPS(3);
        break;
    case 4:
        COPY_STEPS(4);
        break;
    case 6:
        COPY_STEPS(6);
        break;
    case 8:
        COPY_STEPS(8);
        break;
    case 12:
        COPY_STEPS(12);
        break;
    case 16:
        COPY_STEPS(16);
        break;
    case 24:
        COPY_STEPS(24);
        break;
    case 32:
        COPY_STEPS(32);
        break;
    default:
        COPY_STEPS(run);
    }
}

/* The same for single values that are turned round. */
#define SWAP_STEPS(type, turn)                      \
    for (size_t i = 0; i < n; i++) {                \
        type x;                                     \
        memcpy(&x, from + i * from_step, sizeof x); \
        x = turn(x);                                \
        memcpy(to + i * to_step, &x, sizeof x);     \
    }

static void swap_steps(uint8_t *restrict to, size_t to_step, const uint8_t *restrict from, size_t from_step, size_t n,
                       size_t value)
{
    if (value == 2) {
        SWAP_STEPS(uint16_t, __builtin_bswap16)
    } else if (value == 4) {
        SWAP_STEPS(uint32_t, __builtin_bswap32)
    } else {
        SWAP_STEPS(uint64_t, __builtin_bswap64)
    }
}

static void plain_steps(const copy *c, uint8_t *to, size_t to_step, const uint8_t *from, size_t from_step, size_t n)
{
    if (!c->value) {
        copy_steps(to, to_step, from, from_step, n, c->run);
    } else if (c->run == c->value) {
        swap_steps(to, to_step, from, from_step, n, c->value);
    } else {
        for (size_t i = 0; i < n; i++)
            stk__swap_bytes(to + i * to_step, from + i * from_step, c->run / c->value, c->value);
    }
}

/* Elements that lie together on both sides. */
static void shuffled_run(const copy *c, uint8_t *to, const uint8_t *chunk, size_t first, size_t count)
{
    if (!c->value) {
        stk__unshuffle(to, chunk, c->elements, first, count, c->element);
        return;
    }
    const size_t most = STK_MAX(BLOCK / c->element, (size_t)1);
    while (count) {
        const size_t n = STK_MIN(count, most), bytes = n * c->element;
        stk__unshuffle(to, chunk, c->elements, first, n, c->element);
        stk__swap_bytes(to, to, bytes / c->value, c->value);
        to += bytes, first += n, count -= n;
    }
}

/* Runs that lie together in the chunk alone: restored many at a time when short, then moved to their places. */
static void shuffled_steps(const copy *c, uint8_t *to, const uint8_t *chunk, size_t first, const loop *steps)
{
    const size_t run = c->run / c->element, count = (size_t)steps->count;
    if (steps->from == c->run && c->run <= BLOCK / 8) {
        uint8_t block[BLOCK];
        const size_t most = BLOCK / c->run;
        for (size_t i = 0; i < count; i += most) {
            const size_t n = STK_MIN(count - i, most);
            stk__unshuffle(block, chunk, c->elements, first + i * run, n * run, c->element);
            plain_steps(c, to + i * steps->to, steps->to, block, c->run, n);
        }
        return;
    }
    for (size_t i = 0; i < count; i++)
        shuffled_run(c, to + i * steps->to, chunk, first + i * (steps->from / c->element), run);
}

/* ---- loops ---- */

/* The innermost loop, from `at` bytes behind the start of the data. */
static void copy_inner(const copy *c, uint8_t *to, const uint8_t *data, size_t at)
{
    static const loop once = {.count = 1};
    const loop *steps = c->depth ? &c->loops[0] : &once;
    if (!c->element)
        plain_steps(c, to, steps->to, data + at, steps->from, (size_t)steps->count);
    else if (c->depth)
        shuffled_steps(c, to, data, at / c->element, steps);
    else
        shuffled_run(c, to, data, at / c->element, c->run / c->element);
}

static void copy_all(const copy *c, uint8_t *to, const uint8_t *data, size_t at)
{
    int64_t done[LOOPS_MAX];
    for (int k = 1; k < c->depth; k++)
        done[k] = 0;
    for (;;) {
        int k = 1;
        copy_inner(c, to, data, at);
        for (; k < c->depth && ++done[k] == c->loops[k].count; k++) {
            done[k] = 0;
            at -= c->loops[k].from * (size_t)(c->loops[k].count - 1);
            to -= c->loops[k].to * (size_t)(c->loops[k].count - 1);
        }
        if (k >= c->depth)
            return;
        at += c->loops[k].from;
        to += c->loops[k].to;
    }
}

void stk__h5_take(const stk__h5_dataset *d, const stk__h5_leaf *leaf, uint64_t number, const uint8_t *chunk, bool plain,
                  int64_t row, int64_t rows, uint8_t *out, size_t out_stride)
{
    const bool shuffled = d->keep_shuffled && !plain;
    copy c;
    if (rows <= 0 || d->row_elements <= 0 || leaf->count <= 0)
        return;
    assert(leaf->whole || !shuffled);
    if (shuffled)
        copy_init_shuffled(&c, d);
    else
        copy_init_leaf(&c, leaf);
    copy_set_swap(&c, leaf);

    const int64_t block = (int64_t)(number / (uint64_t)d->across);
    uint64_t place = number % (uint64_t)d->across;
    size_t from_step = d->element_bytes, to_step = (size_t)leaf->count * leaf->size, to = 0;
    for (int32_t i = d->rank - 1; i >= 1; i--) {
        const int64_t start = (int64_t)(place % (uint64_t)d->grid[i]) * d->chunk_dims[i];
        /* Chunks are stored whole, also where they reach past the end. */
        copy_repeat(&c, STK_MIN(d->chunk_dims[i], d->dims[i] - start), from_step, to_step);
        to += (size_t)start * to_step;
        place /= (uint64_t)d->grid[i];
        from_step *= (size_t)d->chunk_dims[i];
        to_step *= (size_t)d->dims[i];
    }
    const int64_t first = row - block * d->block_rows;
    assert(first >= 0 && rows <= d->block_rows - first && out_stride >= to_step);
    copy_repeat(&c, rows, from_step, out_stride);
    copy_all(&c, out + to, chunk, (size_t)first * from_step + (shuffled ? 0 : leaf->offset));
}

void stk__h5_take_rows(const stk__h5_dataset *d, const stk__h5_leaf *leaf, const uint8_t *data, int64_t rows,
                       uint8_t *out, size_t out_stride)
{
    copy c;
    if (rows <= 0 || d->row_elements <= 0 || leaf->count <= 0)
        return;
    copy_init_leaf(&c, leaf);
    copy_set_swap(&c, leaf);
    copy_repeat(&c, d->row_elements, d->element_bytes, (size_t)leaf->count * leaf->size);
    copy_repeat(&c, rows, d->row_bytes, out_stride);
    copy_all(&c, out, data, leaf->offset);
}

/* ---- others ---- */

static bool all_equal(const uint8_t *data, size_t size)
{
    return size < 2 || memcmp(data, data + 1, size - 1) == 0;
}

void stk__h5_fill(const stk__h5_dataset *d, uint8_t *out, size_t elements)
{
    const size_t total = elements * d->element_bytes;
    if (total == 0)
        return;
    if (all_equal(d->fill, d->element_bytes)) {
        memset(out, d->fill[0], total);
        return;
    }
    /* Copies what is there already, which doubles until it is a good piece to copy from. */
    size_t done = d->element_bytes, piece = done;
    memcpy(out, d->fill, done);
    while (done < total) {
        const size_t n = STK_MIN(piece, total - done);
        memcpy(out + done, out, n);
        done += n;
        if (piece < BLOCK)
            piece = done;
    }
}

size_t stk__h5_string_length(const stk__h5_leaf *leaf, const uint8_t *data)
{
    size_t n = leaf->size;
    if (leaf->kind != STK__H5_KIND_STRING)
        return n;
    if (leaf->pad == STK__H5_PAD_NUL_TERMINATED) {
        const uint8_t *end = memchr(data, 0, n);
        return end ? (size_t)(end - data) : n;
    }
    const uint8_t pad = leaf->pad == STK__H5_PAD_SPACE ? ' ' : 0;
    while (n && data[n - 1] == pad)
        n--;
    return n;
}
