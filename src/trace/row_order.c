/* Orders of rows: grouped by track, sorted by time, and columns put into such an order. */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

/* Runs of this length are sorted by insertion, which is best for what is nearly in order. */
enum { RUN = 16, TRIM_ROWS = 1 << 20 };

static bool comes_before(uint32_t a, uint32_t b, stk__row_keys k)
{
    if (k.ts[a] != k.ts[b])
        return k.ts[a] < k.ts[b];
    if (k.dur && k.dur[a] != k.dur[b])
        return k.dur[a] > k.dur[b];
    return a < b;
}

static void insertion_sort(uint32_t *rows, size_t count, stk__row_keys k)
{
    for (size_t i = 1; i < count; i++) {
        const uint32_t row = rows[i];
        size_t at = i;
        for (; at && comes_before(row, rows[at - 1], k); at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

/* Merges [0, middle) and [middle, count); what is in place already at both ends is left alone. */
static void merge(uint32_t *rows, size_t middle, size_t count, stk__row_keys k, uint32_t *scratch)
{
    if (!comes_before(rows[middle], rows[middle - 1], k))
        return;
    size_t from = 0;
    while (comes_before(rows[from], rows[middle], k))
        from++;
    const size_t left = middle - from;
    memcpy(scratch, rows + from, left * sizeof *rows);
    size_t i = 0, j = middle, out = from;
    while (i < left && j < count)
        rows[out++] = comes_before(rows[j], scratch[i], k) ? rows[j++] : scratch[i++];
    memcpy(rows + out, scratch + i, (left - i) * sizeof *rows);
}

void stk__rows_sort(uint32_t *rows, size_t count, stk__row_keys keys, uint32_t *scratch)
{
    size_t sorted = 1;
    while (sorted < count && comes_before(rows[sorted - 1], rows[sorted], keys))
        sorted++;
    if (sorted >= count)
        return;
    for (size_t i = 0; i < count; i += RUN)
        insertion_sort(rows + i, STK_MIN(RUN, count - i), keys);
    for (size_t width = RUN; width < count; width *= 2) {
        for (size_t i = 0; i + width < count; i += 2 * width)
            merge(rows + i, width, STK_MIN(2 * width, count - i), keys, scratch);
    }
}

void stk__rows_group(const uint32_t *track, size_t count, size_t track_count, uint32_t *out_rows, uint32_t *out_first)
{
    memset(out_first, 0, (track_count + 1) * sizeof *out_first);
    for (size_t i = 0; i < count; i++)
        out_first[track[i] + 1]++;
    for (size_t k = 0; k < track_count; k++)
        out_first[k + 1] += out_first[k];
    for (size_t i = 0; i < count; i++)
        out_rows[out_first[track[i]]++] = (uint32_t)i;
    /* each now is where the next track starts */
    memmove(out_first + 1, out_first, track_count * sizeof *out_first);
    out_first[0] = 0;
}

static void gather(void *out, const void *in, size_t item_bytes, const uint32_t *rows, size_t count)
{
    switch (item_bytes) {
    case 8:
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)out)[i] = ((const uint64_t *)in)[rows[i]];
        break;
    case 4:
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)out)[i] = ((const uint32_t *)in)[rows[i]];
        break;
    default:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)out)[i] = ((const uint8_t *)in)[rows[i]];
        break;
    }
}

bool stk__rows_apply(stk__builder *b, int column, const uint32_t *rows, size_t count)
{
    stk__store *s = b->trace->store;
    const size_t item_bytes = stk__column_infos[column].item_bytes;
    stk__column sorted = {0};
    if (!stk__column_grow(s, &sorted, count * item_bytes)) {
        stk__builder_fail(b, &s->error);
        return false;
    }
    for (size_t i = 0; i < count; i += TRIM_ROWS) {
        gather((char *)sorted.data + i * item_bytes, s->columns[column].data, item_bytes, rows + i,
               STK_MIN(TRIM_ROWS, count - i));
        stk__store_trim(s);
    }
    memset(b->room, 0, sizeof b->room); /* the new column is just large enough */
    stk__column_clear(s, &s->columns[column]);
    s->columns[column] = sorted;
    *stk__column_pointer(b->trace, column) = sorted.data;
    return true;
}
