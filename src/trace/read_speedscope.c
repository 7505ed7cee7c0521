/*
 * Reads speedscope's JSON: profiles of begins and ends ("evented") or of stacks with weights ("sampled"); each one is a
 * thread here.
 *
 * The names of the frames are often behind the profiles that use them, and units behind the numbers, so a profile waits
 * in a compact form until both are known. Times become slices, or samples one behind the other; values in bytes or
 * without a unit become samples without a time, also those of evented profiles, as their axis is not time.
 */
#include <string.h>

#include "base/mem.h"
#include "trace/json.h"
#include "trace/reader.h"

#include "base/banned.h"

typedef struct raw_event {
    stk__json_number at;
    int64_t offset;
    uint32_t frame; /* STK__NONE: no index */
    bool opens, closes, has_at;
} raw_event;

typedef struct raw_sample {
    size_t end; /* of its frames */
    int64_t offset;
} raw_sample;

typedef struct raw_weight {
    stk__json_number number;
    bool good;
} raw_weight;

typedef struct raw_profile {
    stk__string name;
    stk__string unit;
    bool sampled, has_start;
    stk__json_number start;
    raw_event *events;
    raw_sample *samples;
    raw_weight *weights;
    uint32_t *frames; /* of all samples */
    size_t event_count, event_capacity, sample_count, sample_capacity;
    size_t weight_count, weight_capacity, frame_count, frame_capacity;
    int64_t offset;
} raw_profile;

typedef struct speedscope_reader {
    stk__builder *b;
    stk__json j;
    bool has_frames; /* "shared" has been read */
    stk__trace_frame *frames;
    size_t frame_count, frame_capacity;
    raw_profile *waiting;
    size_t waiting_count, waiting_capacity;
    uint32_t profiles; /* seen so far */
    stk__string name;
    bool nomem, has_profiles;
} speedscope_reader;

/* ---- tokens ---- */

static stk__string text_here(speedscope_reader *r)
{
    return stk__builder_string(r->b, r->j.text, r->j.size);
}

/* The value of the last key, when it is a text. */
static stk__string read_string(speedscope_reader *r)
{
    if (stk__json_next(&r->j) == STK__JSON_STRING)
        return text_here(r);
    stk__json_skip(&r->j);
    return 0;
}

static bool read_number(speedscope_reader *r, stk__json_number *out)
{
    const stk__json_kind kind = stk__json_next(&r->j);
    if (kind == STK__JSON_NUMBER) {
        *out = r->j.number;
        return true;
    }
    if (kind == STK__JSON_STRING)
        return stk__json_parse_number(r->j.text, r->j.size, out);
    stk__json_skip(&r->j);
    return false;
}

static uint32_t index_of(const stk__json_number *n)
{
    int64_t value;
    return stk__json_int64(n, &value) && value >= 0 && value < UINT32_MAX ? (uint32_t)value : STK__NONE;
}

static bool grow(speedscope_reader *r, void **items, size_t *capacity, size_t count, size_t size)
{
    if (!stk__grow(items, capacity, count + 1, size))
        r->nomem = true;
    return !r->nomem;
}

/* ---- shared.frames ---- */

static void read_frame(speedscope_reader *r)
{
    stk__trace_frame frame = {0};
    stk__json_number number;
    int64_t line;
    while (stk__json_next(&r->j) == STK__JSON_KEY) {
        if (stk__json_is(&r->j, "name"))
            frame.name = read_string(r);
        else if (stk__json_is(&r->j, "file"))
            frame.file = read_string(r);
        else if (!stk__json_is(&r->j, "line"))
            stk__json_skip(&r->j);
        else if (read_number(r, &number) && stk__json_int64(&number, &line) && line > 0 && line <= INT32_MAX)
            frame.line = (int32_t)line;
    }
    if (grow(r, (void **)&r->frames, &r->frame_capacity, r->frame_count, sizeof *r->frames))
        r->frames[r->frame_count++] = frame;
}

static void read_frames(speedscope_reader *r)
{
    if (stk__json_next(&r->j) != STK__JSON_ARRAY) {
        stk__json_skip(&r->j);
        return;
    }
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END || r->nomem)
            return;
        if (kind == STK__JSON_OBJECT) {
            read_frame(r);
            continue;
        }
        /* keeps the numbers of those behind it */
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, r->j.offset);
        stk__json_skip(&r->j);
        if (grow(r, (void **)&r->frames, &r->frame_capacity, r->frame_count, sizeof *r->frames))
            r->frames[r->frame_count++] = (stk__trace_frame){0};
    }
}

static void read_shared(speedscope_reader *r)
{
    if (stk__json_next(&r->j) != STK__JSON_OBJECT) {
        stk__json_skip(&r->j);
        return;
    }
    while (stk__json_next(&r->j) == STK__JSON_KEY) {
        if (stk__json_is(&r->j, "frames"))
            read_frames(r);
        else
            stk__json_skip(&r->j);
    }
    r->has_frames = true;
}

/* ---- profiles, as they lie in the file ---- */

static void read_event(speedscope_reader *r, raw_profile *p)
{
    raw_event event = {.frame = STK__NONE, .offset = r->j.offset};
    stk__json_number number;
    while (stk__json_next(&r->j) == STK__JSON_KEY) {
        if (stk__json_is(&r->j, "type")) {
            const bool text = stk__json_next(&r->j) == STK__JSON_STRING;
            event.opens = text && stk__json_is(&r->j, "O");
            event.closes = text && stk__json_is(&r->j, "C");
            stk__json_skip(&r->j);
        } else if (stk__json_is(&r->j, "frame")) {
            event.frame = read_number(r, &number) ? index_of(&number) : STK__NONE;
        } else if (stk__json_is(&r->j, "at")) {
            event.has_at = read_number(r, &event.at);
        } else {
            stk__json_skip(&r->j);
        }
    }
    stk__builder_saw(r->b, 1);
    if (grow(r, (void **)&p->events, &p->event_capacity, p->event_count, sizeof *p->events))
        p->events[p->event_count++] = event;
}

static void read_events(speedscope_reader *r, raw_profile *p)
{
    if (stk__json_next(&r->j) != STK__JSON_ARRAY) {
        stk__json_skip(&r->j);
        return;
    }
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END || r->nomem)
            return;
        if (kind == STK__JSON_OBJECT) {
            read_event(r, p);
            continue;
        }
        stk__builder_saw(r->b, 1);
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, r->j.offset);
        stk__json_skip(&r->j);
    }
}

/* One stack: an array of numbers of frames. */
static void read_stack(speedscope_reader *r, raw_profile *p)
{
    const int64_t offset = r->j.offset;
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END)
            break;
        const uint32_t frame = kind == STK__JSON_NUMBER ? index_of(&r->j.number) : STK__NONE;
        stk__json_skip(&r->j);
        if (!grow(r, (void **)&p->frames, &p->frame_capacity, p->frame_count, sizeof *p->frames))
            return;
        p->frames[p->frame_count++] = frame;
    }
    if (grow(r, (void **)&p->samples, &p->sample_capacity, p->sample_count, sizeof *p->samples))
        p->samples[p->sample_count++] = (raw_sample){p->frame_count, offset};
}

static void read_samples(speedscope_reader *r, raw_profile *p)
{
    if (stk__json_next(&r->j) != STK__JSON_ARRAY) {
        stk__json_skip(&r->j);
        return;
    }
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END || r->nomem)
            return;
        stk__builder_saw(r->b, 1);
        if (kind == STK__JSON_ARRAY) {
            read_stack(r, p);
            continue;
        }
        /* an empty stack keeps those behind it beside their weights */
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, r->j.offset);
        stk__json_skip(&r->j);
        if (grow(r, (void **)&p->samples, &p->sample_capacity, p->sample_count, sizeof *p->samples))
            p->samples[p->sample_count++] = (raw_sample){p->frame_count, r->j.offset};
    }
}

static void read_weights(speedscope_reader *r, raw_profile *p)
{
    if (stk__json_next(&r->j) != STK__JSON_ARRAY) {
        stk__json_skip(&r->j);
        return;
    }
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END || r->nomem)
            return;
        const raw_weight weight = {r->j.number, kind == STK__JSON_NUMBER};
        stk__json_skip(&r->j);
        if (grow(r, (void **)&p->weights, &p->weight_capacity, p->weight_count, sizeof *p->weights))
            p->weights[p->weight_count++] = weight;
    }
}

static void read_profile(speedscope_reader *r, raw_profile *p)
{
    p->offset = r->j.offset;
    while (stk__json_next(&r->j) == STK__JSON_KEY) {
        if (stk__json_is(&r->j, "name"))
            p->name = read_string(r);
        else if (stk__json_is(&r->j, "unit"))
            p->unit = read_string(r);
        else if (stk__json_is(&r->j, "startValue"))
            p->has_start = read_number(r, &p->start);
        else if (stk__json_is(&r->j, "events"))
            read_events(r, p);
        else if (stk__json_is(&r->j, "samples"))
            read_samples(r, p);
        else if (stk__json_is(&r->j, "weights"))
            read_weights(r, p);
        else
            stk__json_skip(&r->j); /* the type shows by what it has; endValue follows from the events */
    }
    p->sampled = p->sample_count > 0;
}

static void clear_profile(raw_profile *p)
{
    stk__free(p->events);
    stk__free(p->samples);
    stk__free(p->weights);
    stk__free(p->frames);
    *p = (raw_profile){0};
}

/* ---- into the model ---- */

typedef struct unit_scale {
    int power; /* of ten, to ns */
    uint32_t unit;
} unit_scale;

static unit_scale scale_of(const speedscope_reader *r, const raw_profile *p)
{
    static const struct {
        const char *name;
        unit_scale scale;
    } units[] = {
        {"nanoseconds", {0, STK__UNIT_NS}}, {"microseconds", {3, STK__UNIT_NS}}, {"milliseconds", {6, STK__UNIT_NS}},
        {"seconds", {9, STK__UNIT_NS}},     {"bytes", {0, STK__UNIT_BYTES}},
    };
    const char *name = stk__builder_get(r->b, p->unit, &(size_t){0});
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        if (strcmp(name, units[i].name) == 0)
            return units[i].scale;
    }
    return (unit_scale){0, STK__UNIT_NONE};
}

static uint32_t track_of(speedscope_reader *r, const raw_profile *p, uint32_t number, uint32_t unit)
{
    const uint32_t process = stk__builder_process(r->b, 0, 0);
    const uint32_t thread = stk__builder_thread(r->b, process, number, 0);
    stk__trace_process *process_row = stk__builder_process_at(r->b, process);
    stk__trace_thread *thread_row = stk__builder_thread_at(r->b, thread);
    if (process_row && r->name)
        process_row->name = r->name;
    if (thread_row)
        thread_row->name = p->name;
    const uint32_t track = stk__builder_thread_track(r->b, thread);
    stk__trace_track *row = stk__builder_track_at(r->b, track);
    if (row)
        row->unit = unit;
    return track;
}

/* An event that can be used; notes why not. */
static bool check_event(speedscope_reader *r, const raw_event *e, int power, int64_t *out_at)
{
    stk__trace_reason reason;
    if (!e->opens && !e->closes)
        reason = STK__REASON_NO_PHASE;
    else if (e->frame >= r->frame_count)
        reason = STK__REASON_BAD_REFERENCE;
    else if (!e->has_at || !stk__json_scaled(&e->at, power, out_at, NULL))
        reason = STK__REASON_NO_TIME;
    else
        return true;
    stk__builder_note(r->b, reason, e->offset);
    return false;
}

static void add_place(speedscope_reader *r, const stk__trace_frame *frame)
{
    if (frame->file)
        stk__builder_arg_string(r->b, stk__builder_str(r->b, "file"), frame->file);
    if (frame->line)
        stk__builder_arg_int(r->b, stk__builder_str(r->b, "line"), frame->line);
}

static void add_slices(speedscope_reader *r, const raw_profile *p, uint32_t track, int power)
{
    for (size_t i = 0; i < p->event_count; i++) {
        const raw_event *e = &p->events[i];
        int64_t at;
        if (!check_event(r, e, power, &at))
            continue;
        const stk__trace_frame *frame = &r->frames[e->frame];
        stk__builder_at(r->b, e->offset);
        if (e->opens) {
            add_place(r, frame);
            stk__builder_begin(r->b, track, at, frame->name, 0);
        } else {
            stk__builder_end(r->b, track, at, frame->name);
        }
    }
}

/* The open frames of an evented profile whose axis is not time. */
typedef struct open_frame {
    uint32_t frame, callsite;
} open_frame;

typedef struct open_frames {
    open_frame *items;
    size_t count, capacity;
    uint32_t *open; /* by frame: how often it is open */
} open_frames;

static void open_or_close(speedscope_reader *r, open_frames *o, const raw_event *e)
{
    if (e->opens) {
        const uint32_t parent = o->count ? o->items[o->count - 1].callsite : STK__NONE;
        const uint32_t callsite = stk__builder_callsite(r->b, parent, stk__builder_frame(r->b, &r->frames[e->frame]));
        if (!grow(r, (void **)&o->items, &o->capacity, o->count, sizeof *o->items))
            return;
        o->items[o->count++] = (open_frame){e->frame, callsite};
        o->open[e->frame]++;
        return;
    }
    if (o->open[e->frame] == 0) {
        stk__builder_note(r->b, STK__REASON_END_WITHOUT_BEGIN, e->offset);
        return;
    }
    uint32_t closed;
    do {
        closed = o->items[--o->count].frame;
        o->open[closed]--;
        if (closed != e->frame)
            stk__builder_note(r->b, STK__REASON_NO_END, e->offset);
    } while (closed != e->frame);
}

/* What lies between two events belongs to the frames that are open. */
static void add_amounts(speedscope_reader *r, const raw_profile *p, uint32_t track)
{
    open_frames o = {.open = stk__calloc(r->frame_count, sizeof *o.open)};
    int64_t last = 0;
    r->nomem = r->nomem || !o.open;
    for (size_t i = 0; i < p->event_count && !r->nomem; i++) {
        const raw_event *e = &p->events[i];
        int64_t at;
        if (!check_event(r, e, 0, &at))
            continue;
        int64_t amount;
        stk__builder_at(r->b, e->offset);
        if (o.count && !__builtin_sub_overflow(at, last, &amount) && amount > 0)
            stk__builder_sample(r->b, track, STK__NO_TIME, o.items[o.count - 1].callsite, amount, 0);
        last = at;
        open_or_close(r, &o, e);
    }
    if (o.count)
        stk__builder_notes(r->b, STK__REASON_NO_END, o.count, p->offset);
    stk__free(o.items);
    stk__free(o.open);
}

static uint32_t stack_of(speedscope_reader *r, const raw_profile *p, size_t first, const raw_sample *sample)
{
    uint32_t callsite = STK__NONE;
    for (size_t i = first; i < sample->end; i++) {
        if (p->frames[i] < r->frame_count)
            callsite = stk__builder_callsite(r->b, callsite, stk__builder_frame(r->b, &r->frames[p->frames[i]]));
        else
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, sample->offset);
    }
    return callsite;
}

static void add_samples(speedscope_reader *r, const raw_profile *p, uint32_t track, unit_scale scale)
{
    const bool timed = scale.unit == STK__UNIT_NS;
    const bool each_counts_one = p->weight_count == 0 && !timed;
    int64_t ts = 0;
    size_t first = 0;
    if (p->has_start)
        stk__json_scaled(&p->start, scale.power, &ts, NULL);
    for (size_t i = 0; i < p->sample_count; first = p->samples[i++].end) {
        const raw_sample *sample = &p->samples[i];
        int64_t weight = 1;
        if (!each_counts_one && !(i < p->weight_count && p->weights[i].good &&
                                  stk__json_scaled(&p->weights[i].number, scale.power, &weight, NULL))) {
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, sample->offset);
            continue;
        }
        stk__builder_at(r->b, sample->offset);
        stk__builder_sample(r->b, track, timed ? ts : STK__NO_TIME, stack_of(r, p, first, sample), weight, 0);
        if (weight > 0 && __builtin_add_overflow(ts, weight, &ts))
            ts = INT64_MAX;
    }
    if (p->weight_count > p->sample_count)
        stk__builder_notes(r->b, STK__REASON_BAD_VALUE, p->weight_count - p->sample_count, p->offset);
}

static void add_profile(speedscope_reader *r, const raw_profile *p, uint32_t number)
{
    const unit_scale scale = scale_of(r, p);
    const uint32_t track = track_of(r, p, number, scale.unit);
    if (p->sampled)
        add_samples(r, p, track, scale);
    if (p->event_count && scale.unit == STK__UNIT_NS)
        add_slices(r, p, track, scale.power);
    else if (p->event_count)
        add_amounts(r, p, track);
}

/* ---- the file ---- */

static void take_profile(speedscope_reader *r, raw_profile *p)
{
    if (r->has_frames) {
        add_profile(r, p, r->profiles++);
        clear_profile(p);
    } else if (grow(r, (void **)&r->waiting, &r->waiting_capacity, r->waiting_count, sizeof *r->waiting)) {
        r->waiting[r->waiting_count++] = *p;
        *p = (raw_profile){0};
    }
}

static void add_waiting(speedscope_reader *r)
{
    for (size_t i = 0; i < r->waiting_count; i++) {
        if (!r->nomem)
            add_profile(r, &r->waiting[i], r->profiles++);
        clear_profile(&r->waiting[i]);
    }
    r->waiting_count = 0;
}

static void read_profiles(speedscope_reader *r)
{
    if (stk__json_next(&r->j) != STK__JSON_ARRAY) {
        stk__json_skip(&r->j);
        return;
    }
    r->has_profiles = true;
    for (;;) {
        const stk__json_kind kind = stk__json_next(&r->j);
        if (kind == STK__JSON_ARRAY_END || kind == STK__JSON_END || r->nomem)
            return;
        if (kind != STK__JSON_OBJECT) {
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, r->j.offset);
            stk__json_skip(&r->j);
            continue;
        }
        raw_profile p = {0};
        read_profile(r, &p);
        take_profile(r, &p);
        clear_profile(&p);
    }
}

static void read_fact(speedscope_reader *r, const char *key)
{
    const stk__json_kind kind = stk__json_next(&r->j);
    if (kind == STK__JSON_STRING || kind == STK__JSON_NUMBER) {
        const stk__string value = text_here(r);
        stk__builder_fact(r->b, stk__builder_str(r->b, key), value);
        if (strcmp(key, "name") == 0)
            r->name = value;
    }
    stk__json_skip(&r->j);
}

static void read_file(speedscope_reader *r)
{
    static const char *const facts[] = {"exporter", "name", "activeProfileIndex"};
    while (stk__json_next(&r->j) == STK__JSON_KEY) {
        size_t fact = 0;
        while (fact < STK_COUNT(facts) && !stk__json_is(&r->j, facts[fact]))
            fact++;
        if (fact < STK_COUNT(facts))
            read_fact(r, facts[fact]);
        else if (stk__json_is(&r->j, "shared"))
            read_shared(r);
        else if (stk__json_is(&r->j, "profiles"))
            read_profiles(r);
        else
            stk__json_skip(&r->j);
    }
}

static stk_status speedscope_read(stk__builder *b, stk__input *in, stk_error *err)
{
    speedscope_reader r = {.b = b};
    stk_status status = STK_OK;
    stk__json_init(&r.j, b, in);
    const stk__json_kind first = stk__json_next(&r.j);
    if (first == STK__JSON_OBJECT)
        read_file(&r);
    status = stk__json_status(&r.j, err);
    if (status == STK_OK && !r.has_profiles)
        status = stk_error_set(err, STK_CORRUPT, "found no list of profiles, wanted \"profiles\": [...] of speedscope");
    if (status != STK_OK)
        r.nomem = true; /* what waits is only freed */
    add_waiting(&r);
    if (r.nomem && status == STK_OK)
        status = stk__nomem(r.frame_capacity * sizeof *r.frames, err);
    stk__json_clear(&r.j);
    stk__free(r.frames);
    stk__free(r.waiting);
    return status;
}

/* The schema says it. Files without it have profiles with a start, which no other format has. */
static int speedscope_detect(const uint8_t *data, size_t size, bool whole)
{
    const size_t at = stk__bytes_start(data, size);
    if (at == size || data[at] != '{')
        return 0;
    if (stk__bytes_contain(data, size, "speedscope.app/file-format-schema.json") &&
        !stk__bytes_contain(data, size, "\"traceEvents\""))
        return 100;
    const bool shared = stk__bytes_contain(data, size, "\"shared\"") && stk__bytes_contain(data, size, "\"frames\"");
    const bool profiles =
        stk__bytes_contain(data, size, "\"profiles\"") && stk__bytes_contain(data, size, "\"startValue\"");
    return shared && profiles ? 80 : shared || profiles ? 30 : 0;
}

const stk__reader stk__reader_speedscope = {
    .name = "speedscope",
    .summary = "speedscope JSON, also from py-spy",
    .detect = speedscope_detect,
    .read = speedscope_read,
};
