/* Files of Chrome JSON whose times are plainly those of the day, since 1970: no other clock has counted so far. */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

/* From 2005 to 2100. A clock that starts with the machine gets there after 35 years. */
#define DAY_FIRST_NS (INT64_C(1104537600) * 1000000000)
#define DAY_LAST_NS (INT64_C(4102444800) * 1000000000)

/* Per file: whether all of the slices that were looked at so far have such a time. */
enum { NOTHING_SEEN, TIME_OF_DAY, OTHER_TIME };

static bool is_time_of_day(int64_t ts)
{
    return ts >= DAY_FIRST_NS && ts <= DAY_LAST_NS;
}

/* Slices of a track are in order, so its first and its last speak for all. */
static void look_at_tracks(const stk__trace *t, uint8_t *seen)
{
    for (size_t i = 0; i < t->track_count; i++) {
        const stk__trace_track *k = &t->tracks[i];
        if (!k->slice_count || k->file >= t->file_count)
            continue;
        const int64_t first = t->slices.ts[k->first_slice];
        const int64_t last = t->slices.ts[k->first_slice + k->slice_count - 1];
        if (seen[k->file] != OTHER_TIME)
            seen[k->file] = is_time_of_day(first) && is_time_of_day(last) ? TIME_OF_DAY : OTHER_TIME;
    }
}

void stk__finish_clocks(stk__builder *b)
{
    const stk__trace *t = b->trace;
    if (b->status)
        return;
    uint8_t *seen = stk__calloc(t->file_count + 1, sizeof *seen);
    if (!seen) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem(t->file_count, &err);
        stk__builder_fail(b, &err);
        return;
    }
    look_at_tracks(t, seen);
    for (size_t i = 0; i < t->file_count; i++) {
        stk__trace_file *f = &t->files[i];
        if (seen[i] == TIME_OF_DAY && f->clock == STK__CLOCK_UNKNOWN && f->realtime_ns == STK__NO_NUMBER &&
            strcmp(stk__trace_str(t, f->format), "chrome") == 0) {
            f->clock = STK__CLOCK_REALTIME;
            f->realtime_ns = 0;
        }
    }
    stk__free(seen);
}
