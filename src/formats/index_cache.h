/* The bound of the directory that indexes of record files and of HDF5 files are kept in. */
#ifndef STK_FORMATS_INDEX_CACHE_H
#define STK_FORMATS_INDEX_CACHE_H

#include <stddef.h>
#include <stdint.h>

#define STK__RECORD_INDEX_ENDING ".stkidx"
#define STK__H5_INDEX_ENDING ".stkh5"

/*
 * Removes indexes that nobody used for 90 days, and the ones not used for longest while all together take more than
 * `most_bytes` (0: 512 MiB) of the disk. Those used since `start_s`, and a little before, stay: a set of files never pushes
 * its own indexes out. For who has written `written` of them; once for all of these, since it reads the directory. Removes
 * no more than twice as many and a few: who opens one new file does not pay for the 50,000 that somebody left.
 */
void stk__index_cache_trim(const char *cache_dir, uint64_t most_bytes, int64_t start_s, size_t written);

#endif
