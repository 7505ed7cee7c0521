/* Packing of record offsets and sizes in blocks, and finding them again. */
#include "formats/extents.h"

#include <string.h>

#include "base/mem.h"

enum { EXPLICIT = 16, GAP_MAX = 255 }; /* EXPLICIT: two int64 per record, offset and size */

static uint64_t pack(size_t position, int64_t gap, unsigned width)
{
    return (uint64_t)position << 16 | (uint64_t)gap << 8 | width;
}

static size_t position_of(const stk__extents_block *block)
{
    return (size_t)(block->packed >> 16);
}

static int64_t gap_of(const stk__extents_block *block)
{
    return (int64_t)(block->packed >> 8 & 255);
}

static unsigned width_of(const stk__extents_block *block)
{
    return (unsigned)(block->packed & 255);
}

/* The distance between neighbours when it is the same all over the block, else -1. */
static int64_t common_gap(const stk__extents_builder *b)
{
    if (b->fill < 2)
        return 0;
    const int64_t gap = b->offsets[1] - b->offsets[0] - b->sizes[0];
    for (size_t i = 2; i < b->fill; i++) {
        if (b->offsets[i] - b->offsets[i - 1] - b->sizes[i - 1] != gap)
            return -1;
    }
    return gap >= 0 && gap <= GAP_MAX ? gap : -1;
}

static unsigned width_for(uint64_t difference)
{
    if (difference == 0)
        return 0;
    return difference <= UINT8_MAX ? 1 : difference <= UINT16_MAX ? 2 : difference <= UINT32_MAX ? 4 : 8;
}

static void store(uint8_t *p, unsigned width, uint64_t x)
{
    const uint8_t x8 = (uint8_t)x;
    const uint16_t x16 = (uint16_t)x;
    const uint32_t x32 = (uint32_t)x;
    switch (width) {
    case 1:
        memcpy(p, &x8, 1);
        break;
    case 2:
        memcpy(p, &x16, 2);
        break;
    case 4:
        memcpy(p, &x32, 4);
        break;
    case 8:
        memcpy(p, &x, 8);
        break;
    default:
        break;
    }
}

static bool flush(stk__extents_builder *b)
{
    stk__extents *e = b->to;
    int64_t smallest = b->sizes[0], largest = b->sizes[0];
    for (size_t i = 1; i < b->fill; i++) {
        smallest = STK_MIN(smallest, b->sizes[i]);
        largest = STK_MAX(largest, b->sizes[i]);
    }
    const int64_t gap = common_gap(b);
    const unsigned width = gap < 0 ? EXPLICIT : width_for((uint64_t)(largest - smallest));
    const size_t bytes = b->fill * width;
    if (!stk__grow((void **)&e->blocks, &e->block_capacity, e->block_count + 1, sizeof *e->blocks) ||
        (bytes && !stk__grow((void **)&e->data, &e->data_capacity, e->data_size + bytes, 1)))
        return false;
    e->blocks[e->block_count++] = (stk__extents_block){
        .offset = b->offsets[0], .smallest = smallest, .packed = pack(e->data_size, STK_MAX(gap, 0), width)};
    for (size_t i = 0; width && i < b->fill; i++) {
        uint8_t *p = e->data + e->data_size + i * width;
        if (width == EXPLICIT) {
            memcpy(p, &b->offsets[i], 8);
            memcpy(p + 8, &b->sizes[i], 8);
        } else {
            store(p, width, (uint64_t)(b->sizes[i] - smallest));
        }
    }
    e->data_size += bytes;
    e->count += (int64_t)b->fill;
    b->fill = 0;
    return true;
}

bool stk__extents_add(stk__extents_builder *b, int64_t offset, int64_t size)
{
    b->offsets[b->fill] = offset;
    b->sizes[b->fill] = size;
    return ++b->fill < STK__EXTENTS_BLOCK || flush(b);
}

bool stk__extents_finish(stk__extents_builder *b)
{
    if (b->fill && !flush(b))
        return false;
    /* Shrinking can only fail by keeping the larger memory. */
    stk__extents *e = b->to;
    void *blocks = e->block_count ? stk__realloc(e->blocks, e->block_count * sizeof *e->blocks) : NULL;
    if (blocks) {
        e->blocks = blocks;
        e->block_capacity = e->block_count;
    }
    void *data = e->data_size ? stk__realloc(e->data, e->data_size) : NULL;
    if (data) {
        e->data = data;
        e->data_capacity = e->data_size;
    }
    return true;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t load_width(const uint8_t *p, unsigned width)
{
    uint16_t x16;
    uint32_t x32;
    switch (width) {
    case 1:
        return *p;
    case 2:
        memcpy(&x16, p, 2);
        return x16;
    case 4:
        memcpy(&x32, p, 4);
        return x32;
    case 8:
        return load64(p);
    default:
        return 0;
    }
}

/* Sum of n < 256 bytes; eight at a time in four 16-bit lanes. */
static uint64_t sum_bytes(const uint8_t *p, size_t n)
{
    const uint64_t low = 0x00ff00ff00ff00ff;
    uint64_t lanes = 0, sum = 0;
    for (; n >= 8; n -= 8, p += 8) {
        const uint64_t x = load64(p);
        lanes += (x & low) + (x >> 8 & low);
    }
    for (; n; n--, p++)
        sum += *p;
    return sum + (lanes & 0xffff) + (lanes >> 16 & 0xffff) + (lanes >> 32 & 0xffff) + (lanes >> 48);
}

/* Sum of n 16-bit numbers; four at a time in two 32-bit lanes. */
static uint64_t sum_halves(const uint8_t *p, size_t n)
{
    const uint64_t low = 0x0000ffff0000ffff;
    uint64_t lanes = 0, sum = 0;
    for (; n >= 4; n -= 4, p += 8) {
        const uint64_t x = load64(p);
        lanes += (x & low) + (x >> 16 & low);
    }
    for (; n; n--, p += 2)
        sum += load_width(p, 2);
    return sum + (lanes & 0xffffffff) + (lanes >> 32);
}

static uint64_t sum_differences(const uint8_t *p, unsigned width, size_t n)
{
    uint64_t sum = 0;
    switch (width) {
    case 1:
        return sum_bytes(p, n);
    case 2:
        return sum_halves(p, n);
    case 4:
        for (size_t i = 0; i < n; i++)
            sum += load_width(p + 4 * i, 4);
        return sum;
    case 8:
        for (size_t i = 0; i < n; i++)
            sum += load64(p + 8 * i);
        return sum;
    default:
        return 0;
    }
}

void stk__extents_find(const stk__extents *e, int64_t index, int64_t *out_offset, int64_t *out_size)
{
    const stk__extents_block *block = &e->blocks[(size_t)index / STK__EXTENTS_BLOCK];
    const size_t n = (size_t)index % STK__EXTENTS_BLOCK;
    const unsigned width = width_of(block);
    const int64_t even = block->offset + (int64_t)n * (block->smallest + gap_of(block));
    if (width == 0) { /* there may be no data at all */
        *out_offset = even;
        *out_size = block->smallest;
        return;
    }
    const uint8_t *p = e->data + position_of(block);
    if (width == EXPLICIT) {
        *out_offset = (int64_t)load64(p + 16 * n);
        *out_size = (int64_t)load64(p + 16 * n + 8);
        return;
    }
    *out_offset = even + (int64_t)sum_differences(p, width, n);
    *out_size = block->smallest + (int64_t)load_width(p + n * width, width);
}

bool stk__extents_next(const stk__extents *e, int64_t index, int64_t offset, int64_t size, int64_t *out_offset,
                       int64_t *out_size)
{
    const stk__extents_block *block = &e->blocks[(size_t)index / STK__EXTENTS_BLOCK];
    const size_t n = (size_t)index % STK__EXTENTS_BLOCK;
    const unsigned width = width_of(block);
    if (n == 0 || width == EXPLICIT)
        return false;
    *out_offset = offset + size + gap_of(block);
    *out_size = block->smallest + (width ? (int64_t)load_width(e->data + position_of(block) + n * width, width) : 0);
    return true;
}

/*
 * Checks one block of n records that may start at `from`; moves `from` to where the next record may start. Each value
 * is known to lie in [0, end] before it is added to another, and end is below 2^54, so nothing overflows.
 */
static bool check_packed(const stk__extents *e, const stk__extents_block *block, size_t n, int64_t between,
                         int64_t *from, int64_t end)
{
    const unsigned width = width_of(block);
    if (block->offset < *from || block->offset > end || block->smallest < 0 || block->smallest > end ||
        (n > 1 && gap_of(block) < between))
        return false;
    const uint8_t *p = width ? e->data + position_of(block) : NULL;
    for (size_t i = 0; width == 8 && i < n; i++) {
        if (load64(p + 8 * i) > (uint64_t)end)
            return false;
    }
    /* Differences and gaps are never negative: when the last record fits, so do those before it. */
    const int64_t more = p ? (int64_t)sum_differences(p, width, n) : 0;
    const int64_t last = block->offset + (int64_t)(n - 1) * gap_of(block) + (int64_t)n * block->smallest + more;
    if (last > end)
        return false;
    *from = last + between;
    return true;
}

static bool check_explicit(const stk__extents *e, const stk__extents_block *block, size_t n, int64_t between,
                           int64_t *from, int64_t end)
{
    /* Neither field says anything here, but finding computes with them. */
    if (block->offset < 0 || block->offset > end || block->smallest < 0 || block->smallest > end)
        return false;
    const uint8_t *p = e->data + position_of(block);
    for (size_t i = 0; i < n; i++) {
        const int64_t offset = (int64_t)load64(p + 16 * i), size = (int64_t)load64(p + 16 * i + 8);
        if (offset < *from || offset > end || size < 0 || size > end - offset)
            return false;
        *from = offset + size + between;
    }
    return true;
}

bool stk__extents_check(const stk__extents *e, const stk__extents_frame *frame, int64_t file_size)
{
    const int64_t end = file_size - frame->after;
    if (file_size < 0 || file_size >= (int64_t)1 << 54)
        return false;
    if (e->count < 0 || (uint64_t)e->count > (uint64_t)e->block_count * STK__EXTENTS_BLOCK ||
        (uint64_t)e->block_count != ((uint64_t)e->count + STK__EXTENTS_BLOCK - 1) / STK__EXTENTS_BLOCK)
        return false;
    int64_t at = frame->before;
    size_t position = 0;
    for (size_t i = 0; i < e->block_count; i++) {
        const stk__extents_block *block = &e->blocks[i];
        const uint64_t left = (uint64_t)e->count - (uint64_t)i * STK__EXTENTS_BLOCK;
        const size_t n = (size_t)STK_MIN(left, (uint64_t)STK__EXTENTS_BLOCK);
        const unsigned width = width_of(block);
        if (width > 2 && width != 4 && width != 8 && width != EXPLICIT)
            return false;
        if (position_of(block) != position || n * width > e->data_size - position)
            return false;
        if (width == EXPLICIT ? !check_explicit(e, block, n, frame->between, &at, end)
                              : !check_packed(e, block, n, frame->between, &at, end))
            return false;
        position += n * width;
    }
    return position == e->data_size;
}

size_t stk__extents_memory(const stk__extents *e)
{
    return e->borrowed ? 0 : e->block_capacity * sizeof *e->blocks + e->data_capacity;
}

void stk__extents_clear(stk__extents *e)
{
    if (!e->borrowed) {
        stk__free(e->blocks);
        stk__free(e->data);
    }
    *e = (stk__extents){0};
}
