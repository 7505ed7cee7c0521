/* The index of one record file: how it is scanned, and its form on disk. Only for the record formats themselves. */
#ifndef STK_FORMATS_RECORD_INDEX_H
#define STK_FORMATS_RECORD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/extents.h"
#include "formats/records.h"

/* Zeroed: empty. */
typedef struct stk__record_index {
    stk__framing framing;
    stk__file_id id;
    uint64_t edge_hash; /* of the file's first and last 4 KiB */
    stk__extents extents;
    int64_t stray;       /* tar: files that belong to no sample */
    stk__damage *damage; /* `file` is left 0 */
    size_t damage_count, damage_capacity;
    void *loaded; /* the index file that extents point into, or NULL */
    size_t loaded_size;
} stk__record_index;

/* Damaged stretches of one file, after which a scan gives up the rest of it. */
enum { STK__DAMAGE_MAX = 1 << 16 };

void stk__record_index_clear(stk__record_index *index);
size_t stk__record_index_memory(const stk__record_index *index);

/* Compression of a file or stream that begins with these bytes; `whole` when nothing follows them. */
enum { STK__SNIFF_BYTES = 512 };
stk__compression stk__record_sniff(const uint8_t *data, size_t size, bool whole, stk__framing framing);
const char *stk__compression_name(stk__compression compression);

/* Memory that one scanning thread uses for file after file. Zeroed: empty. */
typedef struct stk__scan_buffers {
    uint8_t *block; /* what the scan walks in */
    uint8_t *data;  /* data of a record that is checked while searching for the next good place */
} stk__scan_buffers;

void stk__scan_buffers_clear(stk__scan_buffers *buffers);

/* Called with the bytes done since the last call; returning false ends the scan with CANCELLED. */
typedef bool (*stk__scan_progress)(void *arg, int64_t bytes);

/*
 * Fills extents and damage of an index whose framing and id are set. A file that changes its size meanwhile is CORRUPT.
 * On failure the index is to be cleared.
 */
stk_status stk__record_scan(int fd, const char *path, stk__scan_buffers *buffers, stk__scan_progress progress,
                            void *arg, stk__record_index *index, stk_error *err);

/* What must surround records of a framing. */
stk__extents_frame stk__record_frame(stk__framing framing);

/*
 * Takes the index that `cache_dir` keeps for this file into `index`, whose framing, id and edge_hash say what it must
 * fit. False when there is none or anything about it is odd.
 */
bool stk__record_index_load(const char *cache_dir, const char *path, stk__record_index *index);
/* Keeps it there. False is no matter: the next open scans again. */
bool stk__record_index_save(const char *cache_dir, const char *path, const stk__record_index *index);

/* The same on bytes. Parsing takes over `bytes` (from stk__alloc) when it returns true, else they stay the caller's. */
bool stk__record_index_parse(void *bytes, size_t size, stk__record_index *index);
bool stk__record_index_format(const stk__record_index *index, void **out_bytes, size_t *out_size);
/* Writes the checksum that the bytes should have; so that a fuzzer gets past it. */
void stk__record_index_seal(void *bytes, size_t size);

#endif
