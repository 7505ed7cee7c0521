/* Where the records of one file lie: offsets and sizes, packed to a byte or two per record. */
#ifndef STK_FORMATS_EXTENTS_H
#define STK_FORMATS_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STK__EXTENTS_BLOCK = 128 };

/*
 * 128 records (fewer in the last block). Sizes are kept as differences to the smallest one. Records almost always
 * follow each other at the same distance, so one gap per block is enough; a block where it varies (damage, mixed line ends)
 * spells out offset and size of each record.
 */
typedef struct stk__extents_block {
    int64_t offset;   /* of its first record */
    int64_t smallest; /* size */
    uint64_t packed;  /* position in `data` << 16 | gap between records << 8 | bytes per record in `data` */
} stk__extents_block;

/* Zeroed: empty. Const once built: any thread may read it. */
typedef struct stk__extents {
    int64_t count;
    stk__extents_block *blocks;
    size_t block_count, block_capacity;
    uint8_t *data;
    size_t data_size, data_capacity;
    bool borrowed; /* blocks and data lie in memory of somebody else */
} stk__extents;

/* What must lie before the first record, between two and after the last one. */
typedef struct stk__extents_frame {
    int64_t before, between, after;
} stk__extents_frame;

/* Collects records in order of offset until a block is full. Holds no memory of its own. */
typedef struct stk__extents_builder {
    stk__extents *to;
    size_t fill;
    int64_t offsets[STK__EXTENTS_BLOCK], sizes[STK__EXTENTS_BLOCK];
} stk__extents_builder;

/* All false when out of memory; the extents are then still safe to clear. `finish` packs what is left. */
bool stk__extents_add(stk__extents_builder *b, int64_t offset, int64_t size);
bool stk__extents_finish(stk__extents_builder *b);

/* index in [0, count). Some tens of nanoseconds. */
void stk__extents_find(const stk__extents *e, int64_t index, int64_t *out_offset, int64_t *out_size);

/* The same for the record that follows one at `offset` of `size`, without adding up; false when that does not do. */
bool stk__extents_next(const stk__extents *e, int64_t index, int64_t offset, int64_t size, int64_t *out_offset,
                       int64_t *out_size);

/* Whether extents from an untrusted place hold together: every record in order, apart, inside a file of that size. */
bool stk__extents_check(const stk__extents *e, const stk__extents_frame *frame, int64_t file_size);

size_t stk__extents_memory(const stk__extents *e);
void stk__extents_clear(stk__extents *e);

#endif
