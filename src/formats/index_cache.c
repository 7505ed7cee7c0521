/* How many indexes are kept. */
#include "formats/index_cache.h"

#include "base/cache_dir.h"

#define MOST_BYTES ((uint64_t)512 << 20)
enum { FEW = 100 };
#define MOST_AGE_S ((int64_t)90 * 24 * 3600)

void stk__index_cache_trim(const char *cache_dir, uint64_t most_bytes, int64_t start_s, size_t written)
{
    static const char *const endings[] = {STK__RECORD_INDEX_ENDING, STK__H5_INDEX_ENDING, 0};
    const stk__cache_bounds bounds = {.endings = endings,
                                      .most_bytes = most_bytes ? most_bytes : MOST_BYTES,
                                      .most_age_s = MOST_AGE_S,
                                      .most_removed = 2 * written + FEW,
                                      .used_since_s = start_s - STK__CACHE_MARK_S};
    stk__cache_dir_trim(cache_dir, &bounds);
}
