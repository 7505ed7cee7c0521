/* Whether a trace from a file of the cache keeps the promises of model.h, so that nobody has to check numbers of rows. */
#include "trace/store.h"

#include "base/banned.h"

enum { TRIM_ROWS = 1 << 18 };

/* So that --memory holds. */
static void trim_at(const stk__trace *t, size_t row)
{
    if (row % TRIM_ROWS == TRIM_ROWS - 1)
        stk__trace_trim(t);
}

static bool below(const uint32_t *rows, size_t count, size_t limit)
{
    uint32_t highest = 0;
    for (size_t i = 0; i < count; i++)
        highest = rows[i] > highest ? rows[i] : highest;
    return count == 0 || highest < limit;
}

static bool below_or_none(const uint32_t *rows, size_t count, size_t limit)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i] >= limit && rows[i] != STK__NONE)
            return false;
    }
    return true;
}

static bool one_below_or_none(uint32_t row, size_t limit)
{
    return row < limit || row == STK__NONE;
}

static bool time_fits(int64_t ts)
{
    return ts >= -STK__TIME_MAX && ts <= STK__TIME_MAX;
}

static bool strings_are_sound(const stk__trace *t)
{
    if (t->string_offset[0] != 0)
        return false;
    for (uint32_t i = 0; i < t->string_count; i++) {
        if (t->string_offset[i + 1] <= t->string_offset[i])
            return false;
    }
    for (uint32_t i = 0; i < t->string_count; i++) {
        if (t->string_bytes[t->string_offset[i + 1] - 1] != '\0')
            return false;
    }
    return t->string_offset[1] == 1;
}

/* Rows of a track lie together, in the order of tracks. */
static bool tracks_are_sound(const stk__trace *t)
{
    uint64_t slices = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (track->kind > STK__TRACK_COUNTER || track->file >= t->file_count || track->unit > STK__UNIT_NONE ||
            !one_below_or_none(track->process, t->process_count) ||
            !one_below_or_none(track->thread, t->thread_count) || !one_below_or_none(track->parent, t->track_count) ||
            track->first_slice != slices || (uint64_t)track->first_counter + track->counter_count > t->counters.count ||
            (uint64_t)track->first_sample + track->sample_count > t->samples.count)
            return false;
        slices += track->slice_count;
        if (slices > t->slices.count)
            return false;
        for (uint32_t i = 0; i < track->slice_count; i++) {
            if (t->slices.track[track->first_slice + i] != k)
                return false;
        }
    }
    return slices == t->slices.count;
}

static bool slices_are_sound(const stk__trace *t)
{
    const stk__slices *s = &t->slices;
    if (!below(s->name, s->count, t->string_count) || !below(s->category, s->count, t->string_count) ||
        !below(s->args, s->count, t->args.count ? t->args.count : 1))
        return false;
    for (size_t i = 0; i < s->count; i++) {
        const bool in_order = i == 0 || s->track[i] != s->track[i - 1] || s->ts[i] >= s->ts[i - 1];
        const uint32_t parent = s->parent[i];
        trim_at(t, i);
        if (!in_order || !time_fits(s->ts[i]) || s->dur[i] < 0 || s->dur[i] > STK__TIME_MAX - s->ts[i] ||
            (parent != STK__NONE && (parent >= i || s->track[parent] != s->track[i])))
            return false;
    }
    return true;
}

static bool args_are_sound(const stk__trace *t)
{
    const stk__args *a = &t->args;
    if (a->count && !(a->type[a->count - 1] & STK__ARG_LAST))
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const unsigned type = a->type[i] & STK__ARG_TYPE;
        trim_at(t, i);
        if (type > STK__ARG_JSON || a->key[i] >= t->string_count ||
            ((type == STK__ARG_STRING || type == STK__ARG_JSON) && a->value[i].string >= t->string_count))
            return false;
    }
    return true;
}

static bool points_are_sound(const stk__trace *t)
{
    for (size_t i = 0; i < t->counters.count; i++) {
        if (!time_fits(t->counters.ts[i]))
            return false;
    }
    for (size_t i = 0; i < t->points.count; i++) {
        if (!time_fits(t->points.ts[i]))
            return false;
    }
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.ts[i] != STK__NO_TIME && !time_fits(t->samples.ts[i]))
            return false;
    }
    return below(t->counters.track, t->counters.count, t->track_count) &&
           below(t->points.track, t->points.count, t->track_count) &&
           below(t->points.key, t->points.count, t->flow_key_count) &&
           below_or_none(t->points.slice, t->points.count, t->slices.count) &&
           below(t->flows.out, t->flows.count, t->slices.count) &&
           below(t->flows.in, t->flows.count, t->slices.count) &&
           below(t->flows.key, t->flows.count, t->flow_key_count) &&
           below(t->samples.track, t->samples.count, t->track_count) &&
           below(t->samples.event, t->samples.count, t->string_count) &&
           below_or_none(t->samples.callsite, t->samples.count, t->callsite_count);
}

static bool profiles_are_sound(const stk__trace *t)
{
    for (size_t i = 0; i < t->callsite_count; i++) {
        if (t->callsites[i].frame >= t->frame_count ||
            (t->callsites[i].parent != STK__NONE && t->callsites[i].parent >= i))
            return false;
    }
    for (size_t i = 0; i < t->function_count; i++) {
        if (t->functions[i].frame >= t->frame_count || t->functions[i].file >= t->file_count)
            return false;
    }
    for (size_t i = 0; i < t->call_count; i++) {
        if (t->calls[i].caller >= t->function_count || t->calls[i].callee >= t->function_count)
            return false;
    }
    return true;
}

/* Numbers of strings in small tables need no check: stk__trace_str takes any. */
static bool tables_are_sound(const stk__trace *t)
{
    for (size_t i = 0; i < t->process_count; i++) {
        if (t->processes[i].file >= t->file_count)
            return false;
    }
    for (size_t i = 0; i < t->thread_count; i++) {
        if (t->threads[i].process >= t->process_count || !one_below_or_none(t->threads[i].track, t->track_count))
            return false;
    }
    for (size_t i = 0; i < t->note_count; i++) {
        if (t->notes[i].file >= t->file_count || t->notes[i].reason >= STK__REASON_COUNT)
            return false;
    }
    for (size_t i = 0; i < t->total_count; i++) {
        if (t->totals[i].file >= t->file_count)
            return false;
    }
    for (size_t i = 0; i < t->fact_count; i++) {
        if (t->facts[i].file >= t->file_count)
            return false;
    }
    return true;
}

bool stk__trace_is_sound(const stk__trace *t)
{
    static bool (*const checks[])(const stk__trace *) = {strings_are_sound, tables_are_sound, tracks_are_sound,
                                                         slices_are_sound,  args_are_sound,   points_are_sound,
                                                         profiles_are_sound};
    bool sound = true;
    for (size_t i = 0; i < STK_COUNT(checks) && sound; i++) {
        sound = checks[i](t);
        stk__trace_trim(t);
    }
    return sound;
}
