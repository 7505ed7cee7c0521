/* TrackEvents of a Perfetto trace: slices, instants, counters, flows, and those that were Chrome events once. */
#include <stdlib.h>

#include "base/mem.h"
#include "trace/read_perfetto_impl.h"

#include "base/banned.h"

enum { CATEGORIES_MAX = 4096 };

typedef struct legacy {
    bool given, has_id, local, enclosing, has_bind, has_duration;
    uint32_t phase, scope, flow;
    int64_t duration_us;
    uint64_t id, bind;
    stk__string id_scope;
    int32_t pid, tid;
    bool has_pid, has_tid;
    uint64_t name_iid;
} legacy;

typedef struct event {
    uint32_t type;
    stk__string name, category;
    bool has_track, has_int, has_double, has_flow, has_extra;
    uint64_t track_uuid;
    int64_t int_value;
    double double_value;
    bool has_time;
    int64_t time;
    legacy legacy;
    uint32_t track; /* number of the reader, PF_MISSING: of a thread descriptor */
    uint32_t row;   /* of the model */
} event;

/* ---- parsing ---- */

static void add_category(pf_reader *r, event *e, stk__string category)
{
    size_t size;
    if (!category)
        return;
    if (!e->category) {
        e->category = category;
        return;
    }
    const char *text = stk__builder_get(r->b, e->category, &size);
    stk__text_reset(&r->category);
    stk__text_write(&r->category, text, size);
    text = stk__builder_get(r->b, category, &size);
    if (r->category.length + size > CATEGORIES_MAX) {
        stk__pf_note(r, STK__REASON_TOO_LARGE);
        return;
    }
    stk__text_putc(&r->category, ',');
    stk__text_write(&r->category, text, size);
    if (r->category.failed)
        r->nomem = true;
    else
        e->category = stk__builder_string(r->b, r->category.data, r->category.length);
}

static void add_categories(pf_reader *r, const pf_sequence *s, event *e, stk__field *f)
{
    uint64_t iid;
    if (f->type == STK__WIRE_VARINT)
        add_category(r, e, stk__pf_interned(r, s, INTERNED_CATEGORY, f->value));
    else if (f->type == STK__WIRE_BYTES)
        while (stk__packed_varint(&f->bytes, &iid))
            add_category(r, e, stk__pf_interned(r, s, INTERNED_CATEGORY, iid));
}

static void parse_legacy(pf_reader *r, stk__wire message, legacy *out)
{
    stk__field f = stk__fields(message);
    *out = (legacy){.given = true};
    while (stk__field_next(&f)) {
        switch (f.number) {
        case LEGACY_NAME_IID:
            out->name_iid = f.value;
            break;
        case LEGACY_PHASE:
            out->phase = (uint32_t)f.value;
            break;
        case LEGACY_DURATION_US:
            out->duration_us = (int64_t)f.value;
            out->has_duration = true;
            break;
        case LEGACY_UNSCOPED_ID:
        case LEGACY_LOCAL_ID:
        case LEGACY_GLOBAL_ID:
            out->id = f.value;
            out->has_id = true;
            out->local = f.number == LEGACY_LOCAL_ID;
            break;
        case LEGACY_ID_SCOPE:
            if (f.type == STK__WIRE_BYTES)
                out->id_scope = stk__pf_text(r, f.bytes);
            break;
        case LEGACY_BIND_ID:
            out->bind = f.value;
            out->has_bind = true;
            break;
        case LEGACY_BIND_TO_ENCLOSING:
            out->enclosing = f.value != 0;
            break;
        case LEGACY_FLOW_DIRECTION:
            out->flow = (uint32_t)f.value;
            break;
        case LEGACY_SCOPE:
            out->scope = (uint32_t)f.value;
            break;
        case LEGACY_PID:
            out->pid = (int32_t)f.value;
            out->has_pid = true;
            break;
        case LEGACY_TID:
            out->tid = (int32_t)f.value;
            out->has_tid = true;
            break;
        default:
            break;
        }
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

static void put_text_arg(pf_reader *r, const char *key, stk__string value)
{
    if (value)
        stk__builder_arg_string(r->b, stk__builder_str(r->b, key), value);
}

/* Where in the program's source the event stands. */
static void put_source(pf_reader *r, const pf_sequence *s, uint64_t iid)
{
    const stk__string file = stk__pf_interned(r, s, INTERNED_SOURCE_LOCATION, iid);
    const uint32_t function = stk__pf_find(r, PF_SOURCE_FUNCTION, s->epoch, iid);
    const uint32_t line = stk__pf_find(r, PF_SOURCE_LINE, s->epoch, iid);
    put_text_arg(r, "source.file_name", file);
    put_text_arg(r, "source.function_name", function == PF_MISSING ? 0 : function);
    if (line != PF_MISSING && line)
        stk__builder_arg_int(r->b, stk__builder_str(r->b, "source.line_number"), line);
}

static void put_inline_source(pf_reader *r, stk__wire source)
{
    stk__field f = stk__fields(source);
    while (stk__field_next(&f)) {
        if (f.number == SOURCE_FILE && f.type == STK__WIRE_BYTES)
            put_text_arg(r, "source.file_name", stk__pf_text(r, f.bytes));
        else if (f.number == SOURCE_FUNCTION && f.type == STK__WIRE_BYTES)
            put_text_arg(r, "source.function_name", stk__pf_text(r, f.bytes));
        else if (f.number == SOURCE_LINE)
            stk__builder_arg_int(r->b, stk__builder_str(r->b, "source.line_number"), (int64_t)(f.value & UINT32_MAX));
    }
}

static void put_log(pf_reader *r, const pf_sequence *s, stk__wire message)
{
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.number == LOG_BODY_IID)
            put_text_arg(r, "message", stk__pf_interned(r, s, INTERNED_LOG_BODY, f.value));
        else if (f.number == LOG_SOURCE_IID)
            put_source(r, s, f.value);
    }
}

static void put_task(pf_reader *r, const pf_sequence *s, stk__wire message)
{
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.number == TASK_POSTED_FROM)
            put_source(r, s, f.value);
    }
}

/* A time of before packets had them: microseconds of the monotonic clock, as a step or as such. */
static void set_legacy_time(pf_reader *r, pf_sequence *s, event *e, uint64_t us, bool step)
{
    int64_t ns;
    if (__builtin_mul_overflow((int64_t)us, 1000, &ns) || (step && !s->has_time) ||
        (step && __builtin_add_overflow(s->time_ns, ns, &ns)) || ns < -STK__TIME_MAX || ns > STK__TIME_MAX)
        return;
    if (step)
        s->time_ns = ns;
    if (e->has_time)
        return; /* the packet's is better */
    e->has_time = true;
    if (ns < 0 || !stk__pf_time(r, s, CLOCK_MONOTONIC_ID, (uint64_t)ns, &e->time))
        e->time = ns;
}

static void parse_detail(pf_reader *r, const pf_sequence *s, stk__field *f)
{
    switch (f->number) {
    case EVENT_ARG:
        stk__pf_arg(r, s, f->bytes);
        break;
    case EVENT_SOURCE:
        put_inline_source(r, f->bytes);
        break;
    case EVENT_TASK_EXECUTION:
        put_task(r, s, f->bytes);
        break;
    case EVENT_LOG_MESSAGE:
        put_log(r, s, f->bytes);
        break;
    default: /* typed args of Chrome and others */
        stk__pf_note(r, STK__REASON_NO_PLACE);
        break;
    }
}

/* False: damaged. Args have been given to the builder. */
static bool parse_event(pf_reader *r, pf_sequence *s, stk__wire message, event *e)
{
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        switch (f.number) {
        case EVENT_TYPE:
            e->type = (uint32_t)f.value;
            break;
        case EVENT_NAME_IID:
            e->name = f.value ? stk__pf_interned(r, s, INTERNED_EVENT_NAME, f.value) : 0;
            break;
        case EVENT_NAME_TEXT:
            e->name = f.type == STK__WIRE_BYTES ? stk__pf_text(r, f.bytes) : 0;
            break;
        case EVENT_CATEGORY_IID:
            add_categories(r, s, e, &f);
            break;
        case EVENT_CATEGORY_TEXT:
            if (f.type == STK__WIRE_BYTES)
                add_category(r, e, stk__pf_text(r, f.bytes));
            break;
        case EVENT_TRACK_UUID:
            e->has_track = true;
            e->track_uuid = f.value;
            break;
        case EVENT_INT_VALUE:
            e->has_int = true;
            e->int_value = (int64_t)f.value;
            break;
        case EVENT_DOUBLE_VALUE:
            e->has_double = true;
            e->double_value = stk__field_double(f.value);
            break;
        case EVENT_FLOW:
        case EVENT_FLOW_OLD:
        case EVENT_FLOW_END:
        case EVENT_FLOW_END_OLD:
            e->has_flow = true;
            break;
        case EVENT_EXTRA_VALUE:
        case EVENT_EXTRA_DOUBLE_VALUE:
            e->has_extra = true;
            break;
        case EVENT_LEGACY:
            if (f.type == STK__WIRE_BYTES)
                parse_legacy(r, f.bytes, &e->legacy);
            break;
        case EVENT_DELTA_US:
        case EVENT_ABSOLUTE_US:
            set_legacy_time(r, s, e, f.value, f.number == EVENT_DELTA_US);
            break;
        case EVENT_SOURCE_IID:
            put_source(r, s, f.value);
            break;
        default:
            if (f.type == STK__WIRE_BYTES && f.number != EVENT_EXTRA_TRACK && f.number != EVENT_EXTRA_DOUBLE_TRACK)
                parse_detail(r, s, &f);
            break;
        }
    }
    return !f.bad;
}

/* ---- counters ---- */

static void put_counter(pf_reader *r, const pf_sequence *s, uint64_t uuid, int64_t time, double value)
{
    const uint32_t track = stk__pf_track(r, uuid);
    const uint32_t row = stk__pf_track_row(r, track, true);
    if (track == PF_MISSING)
        return;
    pf_track *k = &r->tracks[track];
    value *= (double)k->multiplier;
    if (k->incremental) {
        if (k->epoch == s->epoch)
            value += k->last;
        k->epoch = s->epoch;
        k->last = value;
    }
    stk__builder_counter(r->b, row, time, value);
}

/* Values of one kind, in the order of the tracks that the event or the defaults name. */
static void put_extra(pf_reader *r, const pf_sequence *s, stk__wire message, int64_t time, bool doubles)
{
    const uint32_t track_field = doubles ? EVENT_EXTRA_DOUBLE_TRACK : EVENT_EXTRA_TRACK;
    const uint32_t value_field = doubles ? EVENT_EXTRA_DOUBLE_VALUE : EVENT_EXTRA_VALUE;
    const uint64_t *defaults = doubles ? s->extra_double : s->extra_int;
    const size_t default_count = doubles ? s->extra_double_count : s->extra_int_count;
    stk__field tracks = stk__fields(message), values = tracks;
    stk__wire more_tracks = {0}, more = {0};
    bool own = false;
    for (size_t i = 0;; i++) {
        uint64_t value = 0, uuid = 0;
        while (!(doubles ? stk__packed_fixed64(&more, &value) : stk__packed_varint(&more, &value))) {
            if (!stk__field_next(&values))
                return;
            if (values.number != value_field)
                continue;
            if (values.type != STK__WIRE_BYTES) {
                value = values.value;
                break;
            }
            more = values.bytes;
        }
        bool found = stk__packed_varint(&more_tracks, &uuid);
        while (!found && stk__field_next(&tracks)) {
            if (tracks.number != track_field)
                continue;
            own = true;
            if (tracks.type == STK__WIRE_BYTES) {
                more_tracks = tracks.bytes;
                found = stk__packed_varint(&more_tracks, &uuid);
            } else {
                uuid = tracks.value;
                found = true;
            }
        }
        if (!found && (own || i >= default_count)) {
            stk__pf_note(r, STK__REASON_BAD_REFERENCE);
            continue;
        }
        put_counter(r, s, found ? uuid : defaults[i], time,
                    doubles ? stk__field_double(value) : (double)(int64_t)value);
    }
}

/* ---- flows ---- */

static stk__string hex_id(pf_reader *r, uint64_t id)
{
    char hex[24];
    stk__text text;
    stk__text_fixed(&text, hex, sizeof hex);
    stk__text_printf(&text, "0x%llx", (unsigned long long)id);
    return stk__builder_string(r->b, hex, text.length);
}

static void put_flow(pf_reader *r, const event *e, uint64_t id, bool end)
{
    if (stk__pf_room(r, (void **)&r->flows, &r->flow_capacity, r->flow_count, sizeof *r->flows)) {
        r->flows[r->flow_count] = (pf_flow){id, e->time, e->row, (uint32_t)r->flow_count, end};
        r->flow_count++;
    }
}

static void put_flows(pf_reader *r, const event *e, stk__wire message)
{
    uint64_t id;
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        const bool end = f.number == EVENT_FLOW_END || f.number == EVENT_FLOW_END_OLD;
        const bool old = f.number == EVENT_FLOW_OLD || f.number == EVENT_FLOW_END_OLD;
        if (!end && !old && f.number != EVENT_FLOW)
            continue;
        if (f.type != STK__WIRE_BYTES)
            put_flow(r, e, f.value, end);
        else
            while (old ? stk__packed_varint(&f.bytes, &id) : stk__packed_fixed64(&f.bytes, &id))
                put_flow(r, e, id, end);
    }
}

static int compare_flows(const void *a, const void *b)
{
    const pf_flow *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The first event of an id starts its flow; one that terminates it lets the id start anew. */
void stk__pf_flows_finish(pf_reader *r)
{
    bool started = false;
    stk__string id = 0;
    if (r->flow_count)
        qsort(r->flows, r->flow_count, sizeof *r->flows, compare_flows);
    for (size_t i = 0; i < r->flow_count; i++) {
        const pf_flow *f = &r->flows[i];
        if (i == 0 || f->id != r->flows[i - 1].id) {
            started = false;
            id = hex_id(r, f->id);
        }
        const unsigned phase = f->end ? STK__FLOW_END : started ? STK__FLOW_STEP : STK__FLOW_START;
        started = !f->end;
        stk__builder_flow(r->b, f->track, f->ts, phase | STK__FLOW_ENCLOSING, 0, 0, id);
    }
}

/* ---- tracks ---- */

static uint32_t legacy_thread(pf_reader *r, const pf_sequence *s, const legacy *l)
{
    if (!l->has_pid && !l->has_tid)
        return s->thread;
    uint32_t process = s->thread == STK__NONE ? STK__NONE : stk__builder_thread_at(r->b, s->thread)->process;
    int64_t tid = s->thread == STK__NONE ? 0 : stk__builder_thread_at(r->b, s->thread)->tid;
    if (l->has_pid || process == STK__NONE)
        process = stk__builder_process(r->b, l->pid, 0);
    if (l->has_tid)
        tid = l->tid;
    return stk__builder_thread(r->b, process, tid, 0);
}

static void find_track(pf_reader *r, const pf_sequence *s, event *e)
{
    e->track = PF_MISSING;
    if (!e->has_track && s->has_track) {
        e->has_track = true;
        e->track_uuid = s->track_uuid;
    }
    if (!e->has_track || e->legacy.has_pid || e->legacy.has_tid) {
        const uint32_t thread = legacy_thread(r, s, &e->legacy);
        if (thread != STK__NONE) {
            e->row = stk__builder_thread_track(r->b, thread);
            return;
        }
    }
    e->track = stk__pf_track(r, e->track_uuid);
}

/* ---- our recorder's totals ---- */

static void read_total(pf_reader *r, stk__wire message, bool summary)
{
    stk__string track = 0, name = 0;
    uint64_t count = 0, total_ns = 0, lost = 0, dropped = 0;
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.number != EVENT_ARG || f.type != STK__WIRE_BYTES)
            continue;
        stk__wire key = {0}, text = {0};
        uint64_t number = 0;
        stk__field arg = stk__fields(f.bytes);
        while (stk__field_next(&arg)) {
            if (arg.number == ARG_NAME_TEXT && arg.type == STK__WIRE_BYTES)
                key = arg.bytes;
            else if (arg.number == ARG_STRING && arg.type == STK__WIRE_BYTES)
                text = arg.bytes;
            else if (arg.number == ARG_UINT || arg.number == ARG_INT)
                number = arg.value;
        }
        if (!key.p)
            continue;
        if (stk__wire_is(key, "track") && text.p)
            track = stk__pf_text(r, text);
        else if (stk__wire_is(key, "name") && text.p)
            name = stk__pf_text(r, text);
        else if (stk__wire_is(key, "count"))
            count = number;
        else if (stk__wire_is(key, "total_ns"))
            total_ns = number;
        else if (stk__wire_is(key, "lost") || stk__wire_is(key, "events_lost"))
            lost = number;
        else if (stk__wire_is(key, "events_dropped"))
            dropped = number;
    }
    if (!summary) {
        r->lost = r->lost + lost < lost ? UINT64_MAX : r->lost + lost;
        stk__builder_total(r->b, track, name, count, total_ns, lost);
        return;
    }
    /* the summary counts all, also what has no total */
    lost = STK_MAX(lost, r->lost);
    r->lost = 0;
    if (lost)
        stk__builder_notes(r->b, STK__REASON_LOST_BY_RECORDER, lost, r->offset);
    if (dropped)
        stk__builder_notes(r->b, STK__REASON_PAST_LIMIT, dropped, r->offset);
}

/* True: it was one of the totals. */
static bool take_total(pf_reader *r, const event *e, stk__wire message)
{
    if (e->type != EVENT_INSTANT || e->track == PF_MISSING || !r->tracks[e->track].totals)
        return false;
    const bool total = e->name == stk__builder_str(r->b, STK__TOTALS_TOTAL);
    if (e->category != stk__builder_str(r->b, STK__TOTALS_CATEGORY) ||
        (!total && e->name != stk__builder_str(r->b, STK__TOTALS_SUMMARY)))
        return false;
    stk__builder_drop_args(r->b);
    read_total(r, message, !total);
    return true;
}

/* ---- events ---- */

static void put_slice_us(pf_reader *r, const event *e)
{
    int64_t ns = 0;
    if (!e->legacy.has_duration)
        stk__pf_note(r, STK__REASON_NO_DURATION);
    else if (__builtin_mul_overflow(e->legacy.duration_us, 1000, &ns))
        ns = e->legacy.duration_us < 0 ? -1 : INT64_MAX;
    stk__builder_slice(r->b, e->row, e->time, ns, e->name, e->category, r->offset);
}

/* Async events of Chrome have an id of their own, in a process or everywhere. */
static void put_async(pf_reader *r, const pf_sequence *s, event *e)
{
    const legacy *l = &e->legacy;
    const uint32_t thread = legacy_thread(r, s, l);
    const uint32_t process =
        l->local && thread != STK__NONE ? stk__builder_thread_at(r->b, thread)->process : STK__NONE;
    const stk__string scope = l->id_scope ? l->id_scope : e->category;
    e->row = stk__builder_async_track(r->b, process, scope, hex_id(r, l->id), 0);
    if (l->phase == 'b' || l->phase == 'S')
        stk__builder_begin(r->b, e->row, e->time, e->name, e->category);
    else if (l->phase == 'e' || l->phase == 'F')
        stk__builder_end(r->b, e->row, e->time, e->name);
    else
        stk__builder_instant(r->b, e->row, e->time, e->name, e->category);
}

static void put_legacy_flow(pf_reader *r, const event *e)
{
    const legacy *l = &e->legacy;
    const unsigned phase = l->phase == 's' ? STK__FLOW_START : l->phase == 't' ? STK__FLOW_STEP : STK__FLOW_END;
    stk__builder_flow(r->b, e->row, e->time, phase | (l->enclosing || l->phase == 's' ? STK__FLOW_ENCLOSING : 0),
                      e->name, e->category, hex_id(r, l->has_id ? l->id : l->bind));
}

/* Flows that slices carry: bind_id with a direction. */
static void put_bound_flow(pf_reader *r, const event *e)
{
    const legacy *l = &e->legacy;
    const unsigned phase = l->flow == LEGACY_FLOW_OUT  ? STK__FLOW_START
                           : l->flow == LEGACY_FLOW_IN ? STK__FLOW_END
                                                       : STK__FLOW_STEP;
    if (l->has_bind && l->flow)
        stk__builder_flow(r->b, e->row, e->time, phase | STK__FLOW_ENCLOSING, e->name, e->category, hex_id(r, l->bind));
}

static void put_legacy_instant(pf_reader *r, const pf_sequence *s, event *e)
{
    const uint32_t thread = legacy_thread(r, s, &e->legacy);
    if (e->legacy.scope == LEGACY_SCOPE_GLOBAL)
        e->row = stk__builder_global_track(r->b);
    else if (e->legacy.scope == LEGACY_SCOPE_PROCESS && thread != STK__NONE)
        e->row = stk__builder_process_track(r->b, stk__builder_thread_at(r->b, thread)->process);
    stk__builder_instant(r->b, e->row, e->time, e->name, e->category);
}

static void put_legacy(pf_reader *r, const pf_sequence *s, event *e)
{
    switch (e->legacy.phase) {
    case 'B':
        stk__builder_begin(r->b, e->row, e->time, e->name, e->category);
        break;
    case 'E':
        stk__builder_end(r->b, e->row, e->time, 0);
        break;
    case 'X':
        put_slice_us(r, e);
        break;
    case 'i':
    case 'I':
    case 'R':
        put_legacy_instant(r, s, e);
        break;
    case 'b':
    case 'e':
    case 'n':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
        put_async(r, s, e);
        break;
    case 's':
    case 't':
    case 'f':
        put_legacy_flow(r, e);
        break;
    default:
        stk__pf_note(r, STK__REASON_NO_PHASE);
        break;
    }
}

static void put_event(pf_reader *r, const pf_sequence *s, event *e)
{
    switch (e->type) {
    case EVENT_SLICE_BEGIN:
        stk__builder_begin(r->b, e->row, e->time, e->name, e->category);
        break;
    case EVENT_SLICE_END:
        stk__builder_end(r->b, e->row, e->time, 0);
        break;
    case EVENT_INSTANT:
        stk__builder_instant(r->b, e->row, e->time, e->name, e->category);
        break;
    case EVENT_COUNTER:
        if (e->track == PF_MISSING || !(e->has_int || e->has_double))
            stk__pf_note(r, STK__REASON_BAD_VALUE);
        else
            put_counter(r, s, e->track_uuid, e->time, e->has_double ? e->double_value : (double)e->int_value);
        break;
    case 0:
        if (e->legacy.given) {
            put_legacy(r, s, e);
            break;
        }
        stk__pf_note(r, STK__REASON_NO_PHASE);
        break;
    default:
        stk__pf_note(r, STK__REASON_UNKNOWN_KIND);
        break;
    }
}

void stk__pf_event(pf_reader *r, pf_sequence *s, stk__wire message, bool has_time, int64_t time)
{
    event e = {.has_time = has_time, .time = time, .row = STK__NONE};
    const bool good = parse_event(r, s, message, &e);
    if (e.legacy.name_iid && !e.name)
        e.name = stk__pf_interned(r, s, INTERNED_EVENT_NAME, e.legacy.name_iid);
    if (!good || !e.has_time) {
        stk__builder_saw(r->b, 1);
        stk__builder_drop_args(r->b);
        stk__pf_note(r, good ? STK__REASON_NO_TIME : STK__REASON_SYNTAX);
        return;
    }
    find_track(r, s, &e);
    if (take_total(r, &e, message))
        return;
    stk__builder_saw(r->b, 1);
    if (e.track != PF_MISSING && e.type != EVENT_COUNTER)
        e.row = stk__pf_track_row(r, e.track, false);
    put_event(r, s, &e);
    stk__builder_drop_args(r->b);
    put_bound_flow(r, &e);
    if (e.has_flow && e.type != EVENT_COUNTER)
        put_flows(r, &e, message);
    if (e.has_extra) {
        put_extra(r, s, message, e.time, false);
        put_extra(r, s, message, e.time, true);
    }
}
