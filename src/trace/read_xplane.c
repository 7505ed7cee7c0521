/* xplane.pb of TensorFlow and JAX: planes as processes, lines as threads; names stand behind the events. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/keymap.h"
#include "trace/reader.h"
#include "trace/wire_field.h"

#include "base/banned.h"

/* Field numbers of tsl/profiler/protobuf/xplane.proto. */
enum {
    SPACE_PLANE = 1,
    SPACE_ERROR = 2,
    SPACE_WARNING = 3,
    SPACE_HOSTNAME = 4,
    PLANE_ID = 1,
    PLANE_NAME = 2,
    PLANE_LINE = 3,
    PLANE_EVENT_METADATA = 4,
    PLANE_STAT_METADATA = 5,
    PLANE_STAT = 6,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    METADATA_ID = 1,
    METADATA_NAME = 2,
    METADATA_DISPLAY_NAME = 4,
    METADATA_STAT = 5,
    LINE_ID = 1,
    LINE_NAME = 2,
    LINE_TIMESTAMP_NS = 3,
    LINE_EVENT = 4,
    LINE_DURATION_PS = 9,
    LINE_DISPLAY_ID = 10,
    LINE_DISPLAY_NAME = 11,
    EVENT_METADATA_ID = 1,
    EVENT_OFFSET_PS = 2,
    EVENT_DURATION_PS = 3,
    EVENT_STAT = 4,
    EVENT_OCCURRENCES = 5,
    STAT_METADATA_ID = 1,
    STAT_DOUBLE = 2,
    STAT_UINT = 3,
    STAT_INT = 4,
    STAT_STRING = 5,
    STAT_BYTES = 6,
    STAT_REF = 7,
};

enum { KEY_EVENT = 1, KEY_STAT, KEY_PLANE_ID, KEY_LINE_ID };

enum {
    WINDOW_BYTES = 1 << 20,
    DETECT_EVENTS = 32,
    METADATA_STATS = 64, /* that every event of this metadata gets */
};

/* No time of a line is before this one when it counts from 1970: 2000-01-01. */
static const int64_t EPOCH_FROM = INT64_C(946684800000000000);
static const uint64_t SPACE_PART_MAX = (uint64_t)1 << 32; /* protobuf stops at half of it */

/* A stat whose name and strings have been looked up. */
typedef struct xp_arg {
    stk__string key;
    uint32_t type; /* number of its field */
    union {
        uint64_t number;
        stk__string string;
    };
} xp_arg;

typedef struct metadata {
    stk__string name, long_name; /* long_name: the name when there is a shorter one for display */
    stk__wire message;
    bool has_stats; /* they are looked up when the first event needs them, as the names of stats come later still */
    size_t first_arg, arg_count;
} metadata;

/* A plane, or a line of it. */
typedef struct place {
    int64_t id;
    stk__string name;
} place;

typedef struct xp_reader {
    stk__builder *b;
    uint64_t seed;
    bool nomem;
    bool cut; /* the file ends inside of this plane */
    const uint8_t *plane_start;
    int64_t plane_offset;
    uint32_t plane_number;
    stk__keymap ids; /* keys hold the number of their plane, so that it needs no clearing */
    metadata *events;
    size_t event_count, event_capacity;
    xp_arg *args; /* of the plane's event metadata */
    size_t arg_count, arg_capacity;
    int64_t free_plane_id;
    uint32_t process;
    int64_t latest_ns; /* of the lines' timestamps */
    int64_t start_ns;  /* profile_start_time; STK__NO_NUMBER */
    stk__string start_key, long_name_key;
    stk__text text;
} xp_reader;

/* ---- helpers ---- */

static int64_t offset_of(const xp_reader *x, const uint8_t *p)
{
    return x->plane_offset + (p - x->plane_start);
}

static void note(xp_reader *x, stk__trace_reason reason, const uint8_t *p)
{
    stk__builder_note(x->b, reason, offset_of(x, p));
}

static stk__string text_of(xp_reader *x, stk__wire text)
{
    return stk__builder_text(x->b, (const char *)text.p, stk__wire_size(text), offset_of(x, text.p));
}

static stk__key make_key(const xp_reader *x, uint32_t kind, uint64_t id, uint32_t within)
{
    return (stk__key){{id, (uint64_t)kind << 32 | within, x->seed}};
}

static uint32_t find_id(const xp_reader *x, uint32_t kind, uint64_t id, uint32_t within)
{
    return stk__keymap_find(&x->ids, make_key(x, kind, id, within), STK__NONE);
}

/* False when the id was there before; its value is replaced then. */
static bool set_id(xp_reader *x, uint32_t kind, uint64_t id, uint32_t within, uint32_t value)
{
    bool is_new;
    uint32_t *slot = stk__keymap_place(&x->ids, make_key(x, kind, id, within), value, &is_new);
    if (slot)
        *slot = value;
    else
        x->nomem = true;
    return is_new;
}

/*
 * The next field. When the file was cut off in the middle of the field `open`, this gives what is there of it, with
 * `f->bad` set: so the whole events of a line whose end is missing are still read. Other fields must be whole.
 */
static bool next_field(const xp_reader *x, stk__field *f, uint32_t open)
{
    const uint8_t *start = f->in.p;
    if (f->bad)
        return false;
    if (stk__field_next(f))
        return true;
    if (!f->bad || !x->cut || !open)
        return false;
    stk__wire w = {start, f->in.end};
    uint64_t size;
    if (!stk__wire_tag(&w, &f->number, &f->type) || f->number != open || f->type != STK__WIRE_BYTES ||
        !stk__wire_varint(&w, &size))
        return false;
    f->bytes = w;
    f->in.p = f->in.end;
    return true;
}

/* What is damaged in a file that was cut off is the cut, which is noted once. */
static void note_damage(xp_reader *x, const stk__field *f)
{
    if (!x->cut)
        note(x, STK__REASON_SYNTAX, f->in.p);
}

/* ---- metadata ---- */

static stk__wire map_entry(xp_reader *x, stk__wire entry, uint64_t *out_key)
{
    stk__wire value = {entry.p, entry.p};
    stk__field f = stk__fields(entry);
    *out_key = 0;
    while (stk__field_next(&f)) {
        if (f.number == MAP_KEY && f.type == STK__WIRE_VARINT)
            *out_key = f.value;
        else if (f.number == MAP_VALUE && f.type == STK__WIRE_BYTES)
            value = f.bytes;
    }
    if (f.bad)
        note_damage(x, &f);
    return value;
}

static void read_event_metadata(xp_reader *x, stk__wire entry)
{
    uint64_t key;
    stk__string display = 0;
    metadata m = {.message = map_entry(x, entry, &key)};
    stk__field f = stk__fields(m.message);
    while (stk__field_next(&f)) {
        if (f.type != STK__WIRE_BYTES)
            continue;
        if (f.number == METADATA_NAME)
            m.name = text_of(x, f.bytes);
        else if (f.number == METADATA_DISPLAY_NAME)
            display = text_of(x, f.bytes);
        else if (f.number == METADATA_STAT)
            m.has_stats = true;
    }
    if (f.bad)
        note_damage(x, &f);
    if (display) {
        m.long_name = display == m.name ? 0 : m.name;
        m.name = display;
    }
    if (x->event_count >= UINT32_MAX - 1 ||
        !stk__grow((void **)&x->events, &x->event_capacity, x->event_count + 1, sizeof *x->events)) {
        x->nomem = true;
        return;
    }
    set_id(x, KEY_EVENT, key, x->plane_number, (uint32_t)x->event_count);
    x->events[x->event_count++] = m;
}

static void read_stat_metadata(xp_reader *x, stk__wire entry)
{
    uint64_t key;
    stk__string name = 0;
    stk__field f = stk__fields(map_entry(x, entry, &key));
    while (stk__field_next(&f)) {
        if (f.number == METADATA_NAME && f.type == STK__WIRE_BYTES)
            name = text_of(x, f.bytes);
    }
    if (f.bad)
        note_damage(x, &f);
    set_id(x, KEY_STAT, key, x->plane_number, name);
}

/* ---- stats ---- */

/* The name of a stat; "stat 12" when the file does not tell. */
static stk__string stat_name(xp_reader *x, uint64_t id, const uint8_t *p)
{
    const uint32_t name = find_id(x, KEY_STAT, id, x->plane_number);
    if (name != STK__NONE && name)
        return name;
    note(x, STK__REASON_BAD_REFERENCE, p);
    stk__text_reset(&x->text);
    stk__text_printf(&x->text, "stat %lld", (long long)(int64_t)id);
    return x->text.failed ? 0 : stk__builder_string(x->b, x->text.data, x->text.length);
}

typedef struct stat {
    stk__string key;
    stk__field value; /* number 0: none */
} stat;

static bool parse_stat(xp_reader *x, stk__wire message, stat *out)
{
    uint64_t id = 0;
    *out = (stat){0};
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        const uint32_t wanted = f.number == STAT_DOUBLE                             ? STK__WIRE_FIXED64
                                : f.number == STAT_STRING || f.number == STAT_BYTES ? STK__WIRE_BYTES
                                                                                    : STK__WIRE_VARINT;
        if (f.type != wanted)
            continue;
        if (f.number == STAT_METADATA_ID)
            id = f.value;
        else if (f.number <= STAT_REF)
            out->value = f;
    }
    if (f.bad) {
        note_damage(x, &f);
        return false;
    }
    out->key = stat_name(x, id, message.p);
    return true;
}

static stk__string bytes_text(xp_reader *x, stk__wire bytes)
{
    stk__text_reset(&x->text);
    stk__text_printf(&x->text, "(%llu bytes)", (unsigned long long)stk__wire_size(bytes));
    return x->text.failed ? 0 : stk__builder_string(x->b, x->text.data, x->text.length);
}

/* False: damaged, which is noted. */
static bool resolve_stat(xp_reader *x, stk__wire message, xp_arg *out)
{
    stat s;
    if (!parse_stat(x, message, &s))
        return false;
    *out = (xp_arg){.key = s.key, .type = s.value.number, .number = s.value.value};
    if (out->type == STAT_STRING) {
        out->string = text_of(x, s.value.bytes);
    } else if (out->type == STAT_BYTES) { /* messages of other schemas, up to whole programs */
        note(x, STK__REASON_NO_PLACE, message.p);
        out->string = bytes_text(x, s.value.bytes);
    } else if (out->type == STAT_REF) {
        out->string = stat_name(x, s.value.value, message.p);
    }
    return true;
}

/* A stat as an arg of the next event. */
static void put_arg(xp_reader *x, const xp_arg *a)
{
    switch (a->type) {
    case STAT_DOUBLE:
        stk__builder_arg_double(x->b, a->key, stk__field_double(a->number));
        break;
    case STAT_UINT:
        stk__builder_arg_uint(x->b, a->key, a->number);
        break;
    case STAT_INT:
        stk__builder_arg_int(x->b, a->key, (int64_t)a->number);
        break;
    case STAT_STRING:
    case STAT_BYTES:
    case STAT_REF:
        stk__builder_arg_string(x->b, a->key, a->string);
        break;
    default:
        stk__builder_arg_null(x->b, a->key);
        break;
    }
}

static void put_event_stats(xp_reader *x, stk__wire message)
{
    xp_arg arg;
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.number == EVENT_STAT && f.type == STK__WIRE_BYTES && resolve_stat(x, f.bytes, &arg))
            put_arg(x, &arg);
    }
}

/* Looks the stats of event metadata up, once. Only so many: each event gets all of them. */
static void resolve_metadata(xp_reader *x, metadata *m)
{
    stk__field f = stk__fields(m->message);
    m->has_stats = false;
    m->first_arg = x->arg_count;
    while (stk__field_next(&f)) {
        if (f.number != METADATA_STAT || f.type != STK__WIRE_BYTES)
            continue;
        if (m->arg_count == METADATA_STATS) {
            note(x, STK__REASON_TOO_LARGE, m->message.p);
            return;
        }
        if (!stk__grow((void **)&x->args, &x->arg_capacity, x->arg_count + 1, sizeof *x->args)) {
            x->nomem = true;
            return;
        }
        if (resolve_stat(x, f.bytes, &x->args[x->arg_count])) {
            x->arg_count++;
            m->arg_count++;
        }
    }
}

/* Stats of a plane are facts of the file: the kind of device, its speed, when the profile was started. */
static void read_plane_stat(xp_reader *x, stk__wire message, stk__string plane_name)
{
    stat s;
    size_t size;
    if (!parse_stat(x, message, &s))
        return;
    const stk__field *v = &s.value;
    stk__string value = 0;
    stk__text_reset(&x->text);
    if (v->number == STAT_DOUBLE)
        stk__text_json_double(&x->text, stk__field_double(v->value));
    else if (v->number == STAT_UINT)
        stk__text_printf(&x->text, "%llu", (unsigned long long)v->value);
    else if (v->number == STAT_INT)
        stk__text_printf(&x->text, "%lld", (long long)(int64_t)v->value);
    if (v->number == STAT_STRING)
        value = text_of(x, v->bytes);
    else if (v->number == STAT_REF)
        value = stat_name(x, v->value, message.p);
    else if (v->number == STAT_BYTES)
        value = bytes_text(x, v->bytes);
    else if (x->text.length && !x->text.failed)
        value = stk__builder_string(x->b, x->text.data, x->text.length);
    if (s.key == x->start_key && (v->number == STAT_UINT || v->number == STAT_INT) && v->value <= STK__TIME_MAX)
        x->start_ns = (int64_t)v->value;
    stk__text_reset(&x->text);
    const char *part = stk__builder_get(x->b, plane_name, &size);
    stk__text_write(&x->text, part, size);
    stk__text_putc(&x->text, '.');
    part = stk__builder_get(x->b, s.key, &size);
    stk__text_write(&x->text, part, size);
    if (!x->text.failed)
        stk__builder_fact(x->b, stk__builder_string(x->b, x->text.data, x->text.length), value);
}

/* ---- events ---- */

/* The nearest ns, halves up; monotonic, so that what nests in ps nests in ns. */
static int64_t round_ps(int64_t ps)
{
    const int64_t whole = ps / 1000, rest = ps % 1000;
    return whole + (rest >= 500) - (rest < -500);
}

typedef struct line {
    stk__string name;
    int64_t timestamp_ns;
    uint32_t track;
    bool inexact;
} line;

static metadata *event_metadata(xp_reader *x, uint64_t id, const uint8_t *p, metadata *unknown)
{
    const uint32_t row = find_id(x, KEY_EVENT, id, x->plane_number);
    if (row != STK__NONE)
        return &x->events[row];
    note(x, STK__REASON_BAD_REFERENCE, p);
    stk__text_reset(&x->text);
    stk__text_printf(&x->text, "event %lld", (long long)(int64_t)id);
    *unknown = (metadata){.name = x->text.failed ? 0 : stk__builder_string(x->b, x->text.data, x->text.length)};
    return unknown;
}

/* Only how often and how long in all: a total, as our own recorder writes them for events that it did not keep. */
static void put_aggregate(xp_reader *x, const line *l, const metadata *m, int64_t count, int64_t duration_ps,
                          const uint8_t *p)
{
    if (count < 0 || duration_ps < 0) {
        note(x, STK__REASON_BAD_VALUE, p);
        return;
    }
    stk__builder_total(x->b, l->name, m->name, (uint64_t)count, (uint64_t)round_ps(duration_ps), (uint64_t)count);
    stk__builder_notes(x->b, STK__REASON_LOST_BY_RECORDER, (uint64_t)count, offset_of(x, p));
}

static void put_slice(xp_reader *x, line *l, const metadata *m, int64_t offset_ps, int64_t duration_ps,
                      const uint8_t *p)
{
    int64_t end_ps, start_ns, end_ns;
    if (__builtin_add_overflow(offset_ps, duration_ps, &end_ps) ||
        __builtin_add_overflow(l->timestamp_ns, round_ps(offset_ps), &start_ns) ||
        __builtin_add_overflow(l->timestamp_ns, round_ps(end_ps), &end_ns) || start_ns < -STK__TIME_MAX ||
        start_ns > STK__TIME_MAX) {
        note(x, STK__REASON_NO_TIME, p);
        stk__builder_drop_args(x->b);
        return;
    }
    l->inexact |= offset_ps % 1000 != 0 || duration_ps % 1000 != 0;
    /* a negative duration stays one, also where it rounds to 0 */
    const int64_t dur = duration_ps < 0 ? -1 : end_ns - start_ns;
    stk__builder_slice(x->b, l->track, start_ns, dur, m->name, 0, offset_of(x, p));
}

static void read_event(xp_reader *x, line *l, stk__wire message)
{
    uint64_t id = 0;
    int64_t offset_ps = 0, duration_ps = 0, occurrences = 0;
    bool aggregate = false, stats = false;
    stk__field f = stk__fields(message);
    stk__builder_saw(x->b, 1);
    while (stk__field_next(&f)) {
        if (f.number == EVENT_STAT && f.type == STK__WIRE_BYTES) {
            stats = true;
        } else if (f.type != STK__WIRE_VARINT) {
            continue;
        } else if (f.number == EVENT_METADATA_ID) {
            id = f.value;
        } else if (f.number == EVENT_OFFSET_PS) {
            offset_ps = (int64_t)f.value;
            aggregate = false; /* one of the two: the last counts */
        } else if (f.number == EVENT_DURATION_PS) {
            duration_ps = (int64_t)f.value;
        } else if (f.number == EVENT_OCCURRENCES) {
            occurrences = (int64_t)f.value;
            aggregate = true;
        }
    }
    if (f.bad) { /* at a cut it is this event that the note of it counts */
        note_damage(x, &f);
        return;
    }
    metadata unknown;
    metadata *m = event_metadata(x, id, message.p, &unknown);
    if (aggregate) {
        put_aggregate(x, l, m, occurrences, duration_ps, message.p);
        return;
    }
    if (m->long_name)
        stk__builder_arg_string(x->b, x->long_name_key, m->long_name);
    if (m->has_stats)
        resolve_metadata(x, m);
    for (size_t i = 0; i < m->arg_count; i++)
        put_arg(x, &x->args[m->first_arg + i]);
    if (stats)
        put_event_stats(x, message);
    put_slice(x, l, m, offset_ps, duration_ps, message.p);
}

/* ---- lines and planes ---- */

/* An id that is not used yet: its own, or else the next free one. */
static int64_t claim_id(xp_reader *x, uint32_t kind, int64_t id, uint32_t within, int64_t *free_id)
{
    while (!set_id(x, kind, (uint64_t)id, within, 1) && !x->nomem)
        id = (*free_id)++;
    return id;
}

static void read_line(xp_reader *x, stk__wire message, int64_t *free_id)
{
    place own = {0}, display = {0};
    line l = {0};
    bool any = false;
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.type == STK__WIRE_VARINT) {
            if (f.number == LINE_ID)
                own.id = (int64_t)f.value;
            else if (f.number == LINE_DISPLAY_ID)
                display.id = (int64_t)f.value;
            else if (f.number == LINE_TIMESTAMP_NS)
                l.timestamp_ns = (int64_t)f.value;
        } else if (f.type == STK__WIRE_BYTES) {
            if (f.number == LINE_NAME)
                own.name = text_of(x, f.bytes);
            else if (f.number == LINE_DISPLAY_NAME)
                display.name = text_of(x, f.bytes);
            any |= f.number == LINE_EVENT;
        }
    }
    if (f.bad)
        note_damage(x, &f);
    l.name = display.name ? display.name : own.name;
    const int64_t tid = claim_id(x, KEY_LINE_ID, display.id ? display.id : own.id, x->plane_number, free_id);
    const uint32_t thread = stk__builder_thread(x->b, x->process, tid, 0);
    stk__builder_thread_at(x->b, thread)->name = l.name;
    if (!any)
        return;
    x->latest_ns = STK_MAX(x->latest_ns, l.timestamp_ns);
    l.track = stk__builder_thread_track(x->b, thread);
    f = stk__fields(message);
    while (stk__field_next(&f) && !x->nomem) {
        if (f.number == LINE_EVENT && f.type == STK__WIRE_BYTES)
            read_event(x, &l, f.bytes);
    }
    if (l.inexact)
        stk__builder_file(x->b)->resolution_ns = 1;
}

static void read_lines(xp_reader *x, stk__wire message)
{
    int64_t free_id = 1;
    stk__field f = stk__fields(message);
    while (next_field(x, &f, PLANE_LINE) && !x->nomem) {
        if (f.number == PLANE_LINE && f.type == STK__WIRE_BYTES)
            read_line(x, f.bytes, &free_id);
    }
}

static void read_plane(xp_reader *x, stk__wire message)
{
    place plane = {0};
    stk__field f = stk__fields(message);
    x->plane_number++;
    x->event_count = x->arg_count = 0;
    while (next_field(x, &f, PLANE_LINE) && !x->nomem) {
        if (f.number == PLANE_ID && f.type == STK__WIRE_VARINT)
            plane.id = (int64_t)f.value;
        else if (f.type != STK__WIRE_BYTES)
            continue;
        else if (f.number == PLANE_NAME)
            plane.name = text_of(x, f.bytes);
        else if (f.number == PLANE_EVENT_METADATA)
            read_event_metadata(x, f.bytes);
        else if (f.number == PLANE_STAT_METADATA)
            read_stat_metadata(x, f.bytes);
    }
    if (f.bad)
        note_damage(x, &f);
    plane.id = claim_id(x, KEY_PLANE_ID, plane.id, 0, &x->free_plane_id);
    x->process = stk__builder_process(x->b, plane.id, 0);
    stk__builder_process_at(x->b, x->process)->name = plane.name;
    f = stk__fields(message);
    while (next_field(x, &f, PLANE_LINE) && !x->nomem) {
        if (f.number == PLANE_STAT && f.type == STK__WIRE_BYTES)
            read_plane_stat(x, f.bytes, plane.name);
    }
    read_lines(x, message);
}

/* ---- the file ---- */

/* At least `want` bytes, or all that come. The window grows only with the bytes: a damaged length costs nothing. */
static const uint8_t *peek_grown(stk__input *in, uint64_t want, size_t *out_size)
{
    size_t ask = WINDOW_BYTES;
    const uint8_t *p = stk__input_peek(in, STK_MIN(ask, want), out_size);
    while (*out_size < want && *out_size >= STK_MIN(ask, want)) {
        ask = ask > SIZE_MAX / 4 ? SIZE_MAX / 2 : 2 * ask;
        p = stk__input_peek(in, STK_MIN(ask, want), out_size);
    }
    return p;
}

static void read_space_text(xp_reader *x, uint32_t number, stk__wire text)
{
    static const char *const keys[] = {
        [SPACE_ERROR] = "error", [SPACE_WARNING] = "warning", [SPACE_HOSTNAME] = "hostname"};
    if (number >= SPACE_ERROR && number <= SPACE_HOSTNAME)
        stk__builder_fact(x->b, stk__builder_str(x->b, keys[number]), text_of(x, text));
}

/* One field of the XSpace. False: the rest of the file cannot be read, which is noted. */
static bool read_part(xp_reader *x, stk__input *in)
{
    size_t size;
    uint64_t value;
    uint32_t number, type;
    const uint8_t *p = stk__input_peek(in, 20, &size);
    const int64_t offset = stk__input_offset(in);
    stk__wire head = {p, p + size};
    if (!stk__wire_tag(&head, &number, &type) || !stk__wire_varint(&head, &value) ||
        (type != STK__WIRE_BYTES && type != STK__WIRE_VARINT)) {
        stk__builder_note(x->b, size < 20 && head.p == head.end ? STK__REASON_TRUNCATED : STK__REASON_SYNTAX, offset);
        return false;
    }
    const size_t head_size = (size_t)(head.p - p);
    if (type == STK__WIRE_VARINT) {
        stk__input_advance(in, head_size);
        return true;
    }
    if (value > SPACE_PART_MAX) {
        stk__builder_note(x->b, STK__REASON_TOO_LARGE, offset);
        return false;
    }
    p = peek_grown(in, head_size + value, &size);
    x->cut = size < head_size + value;
    x->plane_start = p;
    x->plane_offset = offset;
    const stk__wire body = {p + head_size, x->cut ? p + size : p + head_size + value};
    if (x->cut)
        stk__builder_note(x->b, STK__REASON_TRUNCATED, offset);
    if (number == SPACE_PLANE)
        read_plane(x, body);
    else
        read_space_text(x, number, body);
    stk__input_advance(in, (size_t)(body.end - p));
    return !x->cut;
}

/* Times of the lines count from 1970, or from the start of the profile, which one plane may tell. */
static void set_clock(const xp_reader *x)
{
    stk__trace_file *file = stk__builder_file(x->b);
    if (x->latest_ns >= EPOCH_FROM) {
        file->clock = STK__CLOCK_REALTIME;
        file->realtime_ns = 0;
    } else if (x->start_ns != STK__NO_NUMBER) {
        file->realtime_ns = x->start_ns;
    }
}

static stk_status xplane_read(stk__builder *b, stk__input *in, stk_error *err)
{
    xp_reader x = {.b = b, .start_ns = STK__NO_NUMBER, .free_plane_id = 1, .text = STK__TEXT_INIT};
    stk_status status = STK_OK;
    x.seed = stk__mix((uint64_t)stk__now_ns(), (uint64_t)(uintptr_t)b);
    x.start_key = stk__builder_str(b, "profile_start_time");
    x.long_name_key = stk__builder_str(b, "long_name");
    while (status == STK_OK && !stk__input_at_end(in)) {
        if (!read_part(&x, in)) {
            size_t rest;
            while (stk__input_peek(in, 1, &rest), rest)
                stk__input_advance(in, rest);
        }
        status = stk__reader_progress(b, in, err);
        if (x.nomem)
            status = stk__nomem(x.ids.capacity * sizeof *x.ids.entries, err);
    }
    if (status == STK_OK)
        set_clock(&x);
    stk__keymap_clear(&x.ids);
    stk__free(x.events);
    stk__free(x.args);
    stk__text_clear(&x.text);
    return status;
}

/* ---- detection ---- */

static bool is_name(stk__wire text)
{
    for (const uint8_t *p = text.p; p < text.end;) {
        const size_t length = *p < 0x20 ? 0 : stk__utf8_length(p, (size_t)(text.end - p));
        if (!length)
            return false;
        p += length;
    }
    return true;
}

/* Next field of a message that may be cut off by the end of what is looked at. False at the end; *bad on damage. */
static bool probe_next(stk__field *f, bool cut)
{
    const uint8_t *start = f->in.p;
    if (stk__field_next(f))
        return true;
    if (!f->bad || !cut)
        return false;
    stk__wire w = {start, f->in.end};
    uint64_t size;
    f->bad = false;
    if (!stk__wire_tag(&w, &f->number, &f->type)) {
        f->bad = w.p < w.end;
        return false;
    }
    if (f->type != STK__WIRE_BYTES || !stk__wire_varint(&w, &size))
        return false;
    f->bytes = w;
    f->in.p = f->in.end;
    return true;
}

static bool event_plausible(stk__wire message, bool cut)
{
    stk__field f = stk__fields(message);
    while (probe_next(&f, cut)) {
        const uint32_t wanted = f.number == EVENT_STAT ? STK__WIRE_BYTES : STK__WIRE_VARINT;
        if (f.number > 15 || (f.number <= EVENT_OCCURRENCES && f.type != wanted))
            return false;
    }
    return !f.bad;
}

static bool line_plausible(stk__wire message, bool cut)
{
    int events = 0;
    stk__field f = stk__fields(message);
    while (probe_next(&f, cut)) {
        const bool last = f.in.p == f.in.end;
        const bool text = f.number == LINE_NAME || f.number == LINE_DISPLAY_NAME || f.number == LINE_EVENT;
        if (f.number > 20 || (f.number <= LINE_EVENT && f.type != (text ? STK__WIRE_BYTES : STK__WIRE_VARINT)))
            return false;
        if (f.number == LINE_NAME && !(cut && last) && !is_name(f.bytes))
            return false;
        if (f.number == LINE_EVENT && events++ < DETECT_EVENTS && !event_plausible(f.bytes, cut && last))
            return false;
    }
    return !f.bad;
}

/* Points for a plane that looks like one; -1: it does not. */
static int plane_plausible(stk__wire message, bool cut)
{
    int points = 0;
    stk__field f = stk__fields(message);
    while (probe_next(&f, cut)) {
        const bool last = f.in.p == f.in.end;
        if (f.number > 20 ||
            (f.number <= PLANE_STAT && f.type != (f.number == PLANE_ID ? STK__WIRE_VARINT : STK__WIRE_BYTES)))
            return -1;
        if (f.number == PLANE_NAME) {
            if (!(cut && last) && !is_name(f.bytes))
                return -1;
            points += 1 + (stk__wire_size(f.bytes) && (*f.bytes.p == '/' || *f.bytes.p == '#'));
        } else if (f.number == PLANE_LINE) {
            if (!line_plausible(f.bytes, cut && last))
                return -1;
            points++;
        } else if (f.number == PLANE_EVENT_METADATA || f.number == PLANE_STAT_METADATA) {
            if (stk__wire_size(f.bytes) && *f.bytes.p != (MAP_KEY << 3) &&
                *f.bytes.p != (MAP_VALUE << 3 | STK__WIRE_BYTES))
                return -1;
            points++;
        }
    }
    return f.bad ? -1 : points;
}

static int xplane_detect(const uint8_t *data, size_t size, bool whole)
{
    int points = 0, planes = 0;
    stk__field f = stk__fields((stk__wire){data, data + size});
    while (probe_next(&f, true)) {
        const bool cut = f.in.p == f.in.end;
        if (f.number > SPACE_HOSTNAME || f.type != STK__WIRE_BYTES)
            return 0;
        if (f.number != SPACE_PLANE) {
            if (!cut && !is_name(f.bytes))
                return 0;
            continue;
        }
        const int more = plane_plausible(f.bytes, cut);
        if (more < 0)
            return planes ? 40 : 0;
        points += more;
        planes++;
    }
    if (f.bad)
        return 0;
    return points >= 3 ? 95 : points >= 2 ? 70 : points ? 30 : 0;
}

const stk__reader stk__reader_xplane = {
    .name = "xplane",
    .summary = "xplane.pb of TensorFlow and JAX profilers",
    .detect = xplane_detect,
    .read = xplane_read,
};
