/* Interned data of a Perfetto trace, and the samples that refer to interned stacks. */
#include "base/mem.h"
#include "trace/read_perfetto_impl.h"

#include "base/banned.h"

static void intern_text(pf_reader *r, const pf_sequence *s, uint32_t kind, stk__wire entry)
{
    uint64_t iid = 0;
    stk__wire text = {0};
    stk__field f = stk__fields(entry);
    while (stk__field_next(&f)) {
        if (f.number == INTERNED_IID)
            iid = f.value;
        else if (f.number == INTERNED_TEXT && f.type == STK__WIRE_BYTES)
            text = f.bytes;
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else
        stk__pf_set(r, kind, s->epoch, iid, text.p ? stk__pf_text(r, text) : 0);
}

/* Three values under one id. */
static void intern_source(pf_reader *r, const pf_sequence *s, stk__wire entry)
{
    uint64_t iid = 0;
    stk__string file = 0, function = 0;
    uint32_t line = 0;
    stk__field f = stk__fields(entry);
    while (stk__field_next(&f)) {
        if (f.number == INTERNED_IID)
            iid = f.value;
        else if (f.number == SOURCE_FILE && f.type == STK__WIRE_BYTES)
            file = stk__pf_text(r, f.bytes);
        else if (f.number == SOURCE_FUNCTION && f.type == STK__WIRE_BYTES)
            function = stk__pf_text(r, f.bytes);
        else if (f.number == SOURCE_LINE)
            line = (uint32_t)(f.value & INT32_MAX);
    }
    if (f.bad) {
        stk__pf_note(r, STK__REASON_SYNTAX);
        return;
    }
    stk__pf_set(r, INTERNED_SOURCE_LOCATION, s->epoch, iid, file);
    stk__pf_set(r, PF_SOURCE_FUNCTION, s->epoch, iid, function);
    stk__pf_set(r, PF_SOURCE_LINE, s->epoch, iid, line);
}

/* Only the last part of the path, which is what the model calls a module. */
static void intern_mapping(pf_reader *r, const pf_sequence *s, stk__wire entry)
{
    uint64_t iid = 0, path = 0, next;
    stk__field f = stk__fields(entry);
    while (stk__field_next(&f)) {
        if (f.number == INTERNED_IID)
            iid = f.value;
        else if (f.number == MAPPING_PATH && f.type == STK__WIRE_VARINT)
            path = f.value;
        else if (f.number == MAPPING_PATH && f.type == STK__WIRE_BYTES)
            while (stk__packed_varint(&f.bytes, &next))
                path = next;
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else
        stk__pf_set(r, INTERNED_MAPPING, s->epoch, iid, path ? stk__pf_interned(r, s, INTERNED_MAPPING_PATH, path) : 0);
}

static stk__string address_name(pf_reader *r, uint64_t pc)
{
    char hex[24];
    stk__text text;
    stk__text_fixed(&text, hex, sizeof hex);
    stk__text_printf(&text, "0x%llx", (unsigned long long)pc);
    return stk__builder_string(r->b, hex, text.length);
}

static void intern_frame(pf_reader *r, const pf_sequence *s, stk__wire entry)
{
    uint64_t iid = 0, pc = 0;
    stk__trace_frame frame = {0};
    stk__field f = stk__fields(entry);
    while (stk__field_next(&f)) {
        if (f.type != STK__WIRE_VARINT)
            continue;
        if (f.number == INTERNED_IID)
            iid = f.value;
        else if (f.number == FRAME_FUNCTION && f.value)
            frame.name = stk__pf_interned(r, s, INTERNED_FUNCTION, f.value);
        else if (f.number == FRAME_MAPPING && f.value)
            frame.module = stk__pf_interned(r, s, INTERNED_MAPPING, f.value);
        else if (f.number == FRAME_PC)
            pc = f.value;
        else if (f.number == FRAME_SOURCE_PATH && f.value)
            frame.file = stk__pf_interned(r, s, INTERNED_SOURCE_PATH, f.value);
        else if (f.number == FRAME_LINE)
            frame.line = (int32_t)(f.value & INT32_MAX);
    }
    if (f.bad) {
        stk__pf_note(r, STK__REASON_SYNTAX);
        return;
    }
    if (!frame.name)
        frame.name = address_name(r, pc);
    stk__pf_set(r, INTERNED_FRAME, s->epoch, iid, stk__builder_frame(r->b, &frame));
}

static uint32_t push_frame(pf_reader *r, const pf_sequence *s, uint32_t callsite, uint64_t iid)
{
    const uint32_t frame = stk__pf_find(r, INTERNED_FRAME, s->epoch, iid);
    if (frame == PF_MISSING) {
        stk__pf_note(r, STK__REASON_BAD_REFERENCE);
        return callsite;
    }
    return stk__builder_callsite(r->b, callsite, frame);
}

/* Frames come outermost first. */
static void intern_callstack(pf_reader *r, const pf_sequence *s, stk__wire entry)
{
    uint64_t iid = 0, frame;
    uint32_t callsite = STK__NONE;
    stk__field f = stk__fields(entry);
    while (stk__field_next(&f)) {
        if (f.number == INTERNED_IID)
            iid = f.value;
        else if (f.number == CALLSTACK_FRAME && f.type == STK__WIRE_VARINT)
            callsite = push_frame(r, s, callsite, f.value);
        else if (f.number == CALLSTACK_FRAME && f.type == STK__WIRE_BYTES)
            while (stk__packed_varint(&f.bytes, &frame))
                callsite = push_frame(r, s, callsite, frame);
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else
        stk__pf_set(r, INTERNED_CALLSTACK, s->epoch, iid, callsite);
}

/* Entries of one kind, when something of it was seen. */
static void intern_kind(pf_reader *r, const pf_sequence *s, stk__wire interned, uint32_t kind,
                        void (*take)(pf_reader *r, const pf_sequence *s, stk__wire entry))
{
    stk__field f = stk__fields(interned);
    while (stk__field_next(&f)) {
        if (f.number == kind && f.type == STK__WIRE_BYTES)
            take(r, s, f.bytes);
    }
}

void stk__pf_intern(pf_reader *r, const pf_sequence *s, stk__wire interned)
{
    bool mappings = false, frames = false, callstacks = false;
    stk__field f = stk__fields(interned);
    while (stk__field_next(&f)) {
        if (f.type != STK__WIRE_BYTES)
            continue;
        switch (f.number) {
        case INTERNED_CATEGORY:
        case INTERNED_EVENT_NAME:
        case INTERNED_ARG_NAME:
        case INTERNED_FUNCTION:
        case INTERNED_MAPPING_PATH:
        case INTERNED_SOURCE_PATH:
        case INTERNED_LOG_BODY:
        case INTERNED_ARG_STRING:
            intern_text(r, s, f.number, f.bytes);
            break;
        case INTERNED_SOURCE_LOCATION:
            intern_source(r, s, f.bytes);
            break;
        default:
            mappings |= f.number == INTERNED_MAPPING;
            frames |= f.number == INTERNED_FRAME;
            callstacks |= f.number == INTERNED_CALLSTACK;
            break;
        }
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    /* each refers to the one before, whose entries may come later in the message */
    if (mappings)
        intern_kind(r, s, interned, INTERNED_MAPPING, intern_mapping);
    if (frames)
        intern_kind(r, s, interned, INTERNED_FRAME, intern_frame);
    if (callstacks)
        intern_kind(r, s, interned, INTERNED_CALLSTACK, intern_callstack);
}

/* ---- samples ---- */

static void put_sample(pf_reader *r, const pf_sequence *s, uint32_t track, int64_t time, uint64_t callstack,
                       int64_t weight, uint32_t unit)
{
    uint32_t callsite = STK__NONE;
    stk__builder_saw(r->b, 1);
    if (callstack) {
        callsite = stk__pf_find(r, INTERNED_CALLSTACK, s->epoch, callstack);
        if (callsite == PF_MISSING)
            stk__pf_note(r, STK__REASON_BAD_REFERENCE);
    }
    stk__builder_track_at(r->b, track)->unit = unit;
    stk__builder_sample(r->b, track, time, callsite, weight, s->sample_event);
}

/* Each callstack has a step of time to it, from the thread descriptor's on, or else from the packet's. */
void stk__pf_streaming_profile(pf_reader *r, pf_sequence *s, stk__wire packet, bool has_time, int64_t time)
{
    stk__field stacks = stk__fields(packet), deltas = stacks;
    stk__wire more_stacks = {0}, more_deltas = {0};
    int64_t now = s->has_time ? s->time_ns : time;
    const bool known = s->has_time || has_time;
    const uint32_t track =
        s->thread == STK__NONE ? stk__builder_global_track(r->b) : stk__builder_thread_track(r->b, s->thread);
    uint64_t stack, delta;
    for (;;) {
        while (!stk__packed_varint(&more_stacks, &stack)) {
            if (!stk__field_next(&stacks))
                goto done;
            if (stacks.number != PROFILE_CALLSTACK)
                continue;
            if (stacks.type == STK__WIRE_BYTES) {
                more_stacks = stacks.bytes;
            } else {
                stack = stacks.value;
                break;
            }
        }
        delta = 0;
        while (!stk__packed_varint(&more_deltas, &delta)) {
            if (!stk__field_next(&deltas))
                break;
            if (deltas.number != PROFILE_DELTA_US)
                continue;
            if (deltas.type == STK__WIRE_BYTES) {
                more_deltas = deltas.bytes;
            } else {
                delta = deltas.value;
                break;
            }
        }
        int64_t step;
        if (__builtin_mul_overflow((int64_t)delta, 1000, &step) || __builtin_add_overflow(now, step, &now))
            stk__pf_note(r, STK__REASON_NO_TIME);
        else
            put_sample(r, s, track, known ? now : STK__NO_TIME, stack, 1, STK__UNIT_SAMPLES);
    }
done:
    if (s->has_time)
        s->time_ns = now;
    if (stacks.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

void stk__pf_perf_sample(pf_reader *r, const pf_sequence *s, stk__wire sample, bool has_time, int64_t time)
{
    uint64_t callstack = 0, count;
    int64_t pid = 0, tid = 0, weight = 1;
    int follower = 0;
    bool owned = false;
    stk__field f = stk__fields(sample);
    while (stk__field_next(&f)) {
        owned |= f.number == SAMPLE_PID || f.number == SAMPLE_TID;
        if (f.number == SAMPLE_PID) {
            pid = (int64_t)(f.value & UINT32_MAX);
        } else if (f.number == SAMPLE_TID) {
            tid = (int64_t)(f.value & UINT32_MAX);
        } else if (f.number == SAMPLE_CALLSTACK) {
            callstack = f.value;
        } else if (f.number == SAMPLE_FOLLOWER_COUNT && f.type == STK__WIRE_VARINT) {
            if (follower++ == s->weight_follower)
                weight = (int64_t)f.value;
        } else if (f.number == SAMPLE_FOLLOWER_COUNT && f.type == STK__WIRE_BYTES) {
            while (stk__packed_varint(&f.bytes, &count)) {
                if (follower++ == s->weight_follower)
                    weight = (int64_t)count;
            }
        }
    }
    if (f.bad) {
        stk__builder_saw(r->b, 1);
        stk__pf_note(r, STK__REASON_SYNTAX);
        return;
    }
    uint32_t track;
    if (owned)
        track = stk__builder_thread_track(r->b, stk__builder_thread(r->b, stk__builder_process(r->b, pid, 0), tid, 0));
    else
        track = stk__builder_global_track(r->b);
    put_sample(r, s, track, has_time ? time : STK__NO_TIME, callstack, weight,
               s->weight_follower < 0 ? STK__UNIT_SAMPLES : s->weight_unit);
}
