/* Clocks of a Perfetto trace: snapshots that relate them, and times brought to one of them. */
#include "base/mem.h"
#include "trace/read_perfetto_impl.h"

#include "base/banned.h"

enum { SNAPSHOT_CLOCKS = 64 };

typedef struct reading {
    uint32_t id;
    bool incremental;
    int64_t multiplier, at;
} reading;

static bool is_builtin(uint32_t id)
{
    return id < CLOCK_FIRST_OF_SEQUENCE;
}

static uint64_t clock_key(const pf_sequence *s, uint32_t id)
{
    const bool scoped = id >= CLOCK_FIRST_OF_SEQUENCE && id < CLOCK_FIRST_GLOBAL;
    return scoped ? (uint64_t)s->id << 32 | id : id;
}

static pf_clock *clock_find(const pf_reader *r, const pf_sequence *s, uint32_t id)
{
    const uint32_t row = stk__pf_find(r, PF_CLOCK, 0, clock_key(s, id));
    return row == PF_MISSING ? NULL : &r->clocks[row];
}

static pf_clock *clock_place(pf_reader *r, const pf_sequence *s, uint32_t id)
{
    pf_clock *c = clock_find(r, s, id);
    if (c)
        return c;
    if (!stk__pf_room(r, (void **)&r->clocks, &r->clock_capacity, r->clock_count, sizeof *r->clocks))
        return NULL;
    stk__pf_set(r, PF_CLOCK, 0, clock_key(s, id), (uint32_t)r->clock_count);
    r->clocks[r->clock_count] = (pf_clock){.id = id, .multiplier = 1};
    return &r->clocks[r->clock_count++];
}

/* a + b, when it stays in the range of times. */
static bool add_times(int64_t a, int64_t b, int64_t *out)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum) || sum < -STK__TIME_MAX || sum > STK__TIME_MAX)
        return false;
    *out = sum;
    return true;
}

static bool scale(uint64_t value, int64_t factor, int64_t base, int64_t *out)
{
    int64_t product;
    return value <= STK__TIME_MAX && !__builtin_mul_overflow((int64_t)value, factor, &product) &&
           add_times(product, base, out);
}

/* The offset at a time of the clock: of the last point before it, or of the first one. */
static bool clock_offset(const pf_clock *c, int64_t at, int64_t *out)
{
    if (!c->count)
        return false;
    size_t low = 0, high = c->count;
    if (at >= c->points[c->count - 1].at)
        low = c->count - 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (c->points[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    *out = c->points[low].offset;
    return true;
}

static void clock_relate(pf_reader *r, pf_clock *c, int64_t at, int64_t offset)
{
    const pf_clock_point *last = c->count ? &c->points[c->count - 1] : NULL;
    if (last && (last->offset == offset || at <= last->at))
        return;
    if (stk__pf_room(r, (void **)&c->points, &c->capacity, c->count, sizeof *c->points))
        c->points[c->count++] = (pf_clock_point){at, offset};
}

static bool reading_parse(stk__wire clock, reading *out)
{
    uint64_t value = 0;
    *out = (reading){.multiplier = 1};
    stk__field f = stk__fields(clock);
    while (stk__field_next(&f)) {
        if (f.number == CLOCK_ID)
            out->id = (uint32_t)f.value;
        else if (f.number == CLOCK_TIMESTAMP)
            value = f.value;
        else if (f.number == CLOCK_INCREMENTAL)
            out->incremental = f.value != 0;
        else if (f.number == CLOCK_MULTIPLIER && f.value > 0 && f.value <= INT32_MAX)
            out->multiplier = (int64_t)f.value;
    }
    if (is_builtin(out->id))
        out->multiplier = 1;
    return !f.bad && out->id && scale(value, out->multiplier, 0, &out->at);
}

/* Which clock the model's times are in: what the file says, else the best that it has. */
static uint32_t choose_clock(const reading *readings, size_t count, uint32_t primary)
{
    static const uint32_t wanted[] = {CLOCK_BOOTTIME_ID, CLOCK_MONOTONIC_ID, CLOCK_REALTIME_ID};
    if (primary)
        return primary;
    for (size_t w = 0; w < STK_COUNT(wanted); w++) {
        for (size_t i = 0; i < count; i++) {
            if (readings[i].id == wanted[w])
                return wanted[w];
        }
    }
    return CLOCK_BOOTTIME_ID;
}

/* When the snapshot was taken, as a time of the trace: directly, or over a clock that is known already. */
static bool snapshot_time(const pf_reader *r, const pf_sequence *s, const reading *readings, size_t count, int64_t *out)
{
    int64_t offset;
    for (size_t i = 0; i < count; i++) {
        if (readings[i].id == r->trace_clock) {
            *out = readings[i].at;
            return true;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const pf_clock *c = clock_find(r, s, readings[i].id);
        if (c && clock_offset(c, readings[i].at, &offset)) {
            return add_times(readings[i].at, offset, out);
        }
    }
    return false;
}

static void take_reading(pf_reader *r, const pf_sequence *s, const reading *read, int64_t now)
{
    pf_clock *c = clock_place(r, s, read->id);
    if (!c)
        return;
    c->multiplier = read->multiplier;
    c->incremental = !is_builtin(read->id) && read->incremental;
    c->last = read->at;
    clock_relate(r, c, read->at, now - read->at);
    stk__trace_file *file = stk__builder_file(r->b);
    if (read->id == CLOCK_REALTIME_ID && file->realtime_ns == STK__NO_NUMBER)
        file->realtime_ns = read->at - now;
}

void stk__pf_snapshot(pf_reader *r, const pf_sequence *s, stk__wire snapshot)
{
    reading readings[SNAPSHOT_CLOCKS];
    size_t count = 0;
    uint32_t primary = 0;
    int64_t now;
    stk__field f = stk__fields(snapshot);
    while (stk__field_next(&f)) {
        if (f.number == SNAPSHOT_PRIMARY)
            primary = (uint32_t)f.value;
        else if (f.number == SNAPSHOT_CLOCK && f.type == STK__WIRE_BYTES && count < SNAPSHOT_CLOCKS)
            count += reading_parse(f.bytes, &readings[count]);
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    if (!r->trace_clock && count)
        r->trace_clock = choose_clock(readings, count, primary);
    if (!count || !snapshot_time(r, s, readings, count, &now)) {
        stk__pf_note(r, STK__REASON_BAD_REFERENCE);
        return;
    }
    for (size_t i = 0; i < count; i++)
        take_reading(r, s, &readings[i], now);
}

bool stk__pf_time(pf_reader *r, const pf_sequence *s, uint32_t clock_id, uint64_t value, int64_t *out)
{
    int64_t at, offset;
    pf_clock *c = clock_id ? clock_find(r, s, clock_id) : NULL;
    if (clock_id && !is_builtin(clock_id)) {
        if (!c || !scale(value, c->multiplier, c->incremental ? c->last : 0, &at))
            return false;
        c->last = at;
    } else if (!scale(value, 1, 0, &at)) {
        return false;
    }
    if (clock_id && is_builtin(clock_id) && !r->trace_clock)
        r->trace_clock = clock_id; /* no snapshot yet: the first clock is as good as any */
    if (clock_id && clock_id != r->trace_clock) {
        if (!c || !clock_offset(c, at, &offset) || !add_times(at, offset, &at))
            return false;
    }
    *out = at;
    return true;
}

void stk__pf_clock_finish(pf_reader *r)
{
    stk__trace_file *file = stk__builder_file(r->b);
    switch (r->trace_clock) {
    case CLOCK_REALTIME_ID:
    case CLOCK_REALTIME_COARSE_ID:
        file->clock = STK__CLOCK_REALTIME;
        file->realtime_ns = 0;
        break;
    case CLOCK_MONOTONIC_ID:
    case CLOCK_MONOTONIC_COARSE_ID:
        file->clock = STK__CLOCK_MONOTONIC;
        break;
    case CLOCK_BOOTTIME_ID:
        file->clock = STK__CLOCK_BOOT;
        break;
    default:
        break;
    }
}
