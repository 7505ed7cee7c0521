/* Perfetto's protobuf trace: packets one by one, each sequence with its own state. */
#include <zlib.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/read_perfetto_impl.h"
#include "trace/reader.h"

#include "base/banned.h"

enum {
    WINDOW_BYTES = 1 << 18,
    PACKET_MAX = 256 << 20,   /* a longer one is taken for damage */
    UNPACKED_MAX = 64 << 20,  /* of one compressed packet */
    CANDIDATE_MAX = 64 << 10, /* packets that are looked for behind damage */
    CHECKED_FIELDS = 64,
    WASTED_MAX = 16 << 20, /* bytes of damaged packets that are searched for good ones, besides a share of the file */
};

/* ---- ids ---- */

static stk__key make_key(const pf_reader *r, uint32_t kind, uint32_t epoch, uint64_t id)
{
    return (stk__key){{id, (uint64_t)kind << 32 | epoch, r->seed}};
}

uint32_t stk__pf_find(const pf_reader *r, uint32_t kind, uint32_t epoch, uint64_t id)
{
    return stk__keymap_find(&r->ids, make_key(r, kind, epoch, id), PF_MISSING);
}

void stk__pf_set(pf_reader *r, uint32_t kind, uint32_t epoch, uint64_t id, uint32_t value)
{
    bool is_new;
    uint32_t *place = stk__keymap_place(&r->ids, make_key(r, kind, epoch, id), value, &is_new);
    if (place)
        *place = value;
    else
        r->nomem = true;
}

stk__string stk__pf_text(pf_reader *r, stk__wire text)
{
    return stk__builder_text(r->b, (const char *)text.p, stk__wire_size(text), r->offset);
}

stk__string stk__pf_interned(pf_reader *r, const pf_sequence *s, uint32_t kind, uint64_t iid)
{
    const uint32_t value = stk__pf_find(r, kind, s->epoch, iid);
    if (value != PF_MISSING)
        return value;
    stk__pf_note(r, STK__REASON_BAD_REFERENCE);
    return 0;
}

void stk__pf_note(pf_reader *r, stk__trace_reason reason)
{
    stk__builder_note(r->b, reason, r->offset);
}

bool stk__pf_room(pf_reader *r, void **items, size_t *capacity, size_t count, size_t item_size)
{
    if (count < *capacity)
        return true;
    if (count < UINT32_MAX - 1 && stk__grow(items, capacity, count + 1, item_size))
        return true;
    r->nomem = true;
    return false;
}

/* ---- sequences ---- */

static pf_sequence *sequence_of(pf_reader *r, uint32_t id)
{
    const uint32_t row = stk__pf_find(r, PF_SEQUENCE, 0, id);
    if (row != PF_MISSING)
        return &r->sequences[row];
    if (!stk__pf_room(r, (void **)&r->sequences, &r->sequence_capacity, r->sequence_count, sizeof *r->sequences))
        return NULL;
    pf_sequence *s = &r->sequences[r->sequence_count];
    *s = (pf_sequence){.id = id, .epoch = ++r->epochs, .weight_follower = -1, .thread = STK__NONE};
    stk__pf_set(r, PF_SEQUENCE, 0, id, (uint32_t)r->sequence_count++);
    return s;
}

static void defaults_clear(pf_sequence *s)
{
    s->has_track = false;
    s->clock_id = 0;
    s->track_uuid = 0;
    s->extra_int_count = s->extra_double_count = 0;
    s->sample_event = 0;
    s->weight_follower = -1;
}

static void state_clear(pf_reader *r, pf_sequence *s)
{
    defaults_clear(s);
    s->epoch = ++r->epochs;
    s->valid = true;
    s->thread = STK__NONE;
    s->has_time = false;
}

static void add_extra(pf_reader *r, uint64_t **items, size_t *capacity, size_t *count, stk__field *f)
{
    uint64_t uuid;
    if (f->type == STK__WIRE_VARINT) {
        if (stk__pf_room(r, (void **)items, capacity, *count, sizeof **items))
            (*items)[(*count)++] = f->value;
        return;
    }
    while (f->type == STK__WIRE_BYTES && stk__packed_varint(&f->bytes, &uuid)) {
        if (stk__pf_room(r, (void **)items, capacity, *count, sizeof **items))
            (*items)[(*count)++] = uuid;
    }
}

static void read_event_defaults(pf_reader *r, pf_sequence *s, stk__wire defaults)
{
    stk__field f = stk__fields(defaults);
    while (stk__field_next(&f)) {
        if (f.number == EVENT_TRACK_UUID) {
            s->has_track = true;
            s->track_uuid = f.value;
        } else if (f.number == EVENT_EXTRA_TRACK) {
            add_extra(r, &s->extra_int, &s->extra_int_capacity, &s->extra_int_count, &f);
        } else if (f.number == EVENT_EXTRA_DOUBLE_TRACK) {
            add_extra(r, &s->extra_double, &s->extra_double_capacity, &s->extra_double_count, &f);
        }
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

static stk__wire field_bytes(stk__wire message, uint32_t number)
{
    stk__wire found = {message.p, message.p};
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.number == number && f.type == STK__WIRE_BYTES)
            found = f.bytes;
    }
    return found;
}

/* The counter that samples are taken by, and whether our writer has put their weight beside it. */
static void read_sample_defaults(pf_reader *r, pf_sequence *s, stk__wire defaults)
{
    static const char *const units[] = {STK__WEIGHT_FOLLOWER "ns", STK__WEIGHT_FOLLOWER "samples",
                                        STK__WEIGHT_FOLLOWER "bytes", STK__WEIGHT_FOLLOWER "bytes allocated",
                                        STK__WEIGHT_FOLLOWER "none"};
    int follower = 0;
    stk__field f = stk__fields(defaults);
    while (stk__field_next(&f)) {
        if (f.type != STK__WIRE_BYTES)
            continue;
        if (f.number == PERF_DEFAULTS_TIMEBASE)
            s->sample_event = stk__pf_text(r, field_bytes(f.bytes, TIMEBASE_NAME));
        if (f.number != PERF_DEFAULTS_FOLLOWER || follower == INT32_MAX)
            continue;
        const stk__wire name = field_bytes(f.bytes, FOLLOWER_NAME);
        for (uint32_t unit = 0; unit < STK_COUNT(units); unit++) {
            if (stk__wire_is(name, units[unit])) {
                s->weight_follower = follower;
                s->weight_unit = unit;
            }
        }
        follower++;
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

static void read_defaults(pf_reader *r, pf_sequence *s, stk__wire defaults)
{
    defaults_clear(s);
    stk__field f = stk__fields(defaults);
    while (stk__field_next(&f)) {
        if (f.number == DEFAULTS_CLOCK_ID)
            s->clock_id = (uint32_t)f.value;
        else if (f.number == DEFAULTS_TRACK_EVENT && f.type == STK__WIRE_BYTES)
            read_event_defaults(r, s, f.bytes);
        else if (f.number == DEFAULTS_PERF_SAMPLE && f.type == STK__WIRE_BYTES)
            read_sample_defaults(r, s, f.bytes);
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

/* ---- packets ---- */

static void packet_number(pf_packet *p, const stk__field *f)
{
    switch (f->number) {
    case PACKET_TIMESTAMP:
        p->timestamp = f->value;
        p->has_timestamp = true;
        break;
    case PACKET_SEQUENCE_ID:
        p->sequence_id = (uint32_t)f->value;
        break;
    case PACKET_SEQUENCE_FLAGS:
        p->flags = (uint32_t)f->value;
        break;
    case PACKET_STATE_CLEARED:
        p->cleared = f->value != 0;
        break;
    case PACKET_PREVIOUS_DROPPED:
        p->dropped = f->value != 0;
        break;
    case PACKET_CLOCK_ID:
        p->clock_id = (uint32_t)f->value;
        p->has_clock_id = true;
        break;
    case PACKET_FIRST_ON_SEQUENCE:
        p->first = f->value != 0;
        break;
    default:
        break;
    }
}

static bool parse_packet(stk__wire message, pf_packet *p)
{
    stk__field f = stk__fields(message);
    while (stk__field_next(&f)) {
        if (f.type != STK__WIRE_BYTES) {
            packet_number(p, &f);
            continue;
        }
        switch (f.number) {
        case PACKET_INTERNED_DATA:
            p->interned = f.bytes;
            break;
        case PACKET_DEFAULTS:
            p->defaults = f.bytes;
            break;
        case PACKET_CLOCK_SNAPSHOT:
            p->snapshot = f.bytes;
            break;
        case PACKET_TRACK_DESCRIPTOR:
            p->descriptor = f.bytes;
            break;
        case PACKET_TRACK_EVENT:
            p->event = f.bytes;
            break;
        case PACKET_SYNC_MARKER:
        case PACKET_TRACE_UUID:
            break;
        default:
            p->data = f.number;
            p->body = f.bytes;
            break;
        }
    }
    return !f.bad;
}

/* Kernel events come many in a packet; none of them is read, all are counted. */
static void count_unknown(pf_reader *r, const pf_packet *p)
{
    uint64_t count = 0;
    stk__field f = stk__fields(p->body);
    while (p->data == PACKET_FTRACE_EVENTS && stk__field_next(&f))
        count += f.number == FTRACE_EVENT;
    if (!count)
        count = 1;
    stk__builder_saw(r->b, count);
    stk__builder_notes(r->b, STK__REASON_UNKNOWN_KIND, count, r->offset);
}

static void read_legacy_thread(pf_reader *r, pf_sequence *s, stk__wire descriptor)
{
    int64_t reference_us = 0, ns;
    s->thread = stk__pf_thread(r, descriptor, &reference_us);
    s->has_time = !__builtin_mul_overflow(reference_us, 1000, &ns) && ns >= -STK__TIME_MAX && ns <= STK__TIME_MAX;
    s->time_ns = s->has_time ? ns : 0;
}

/* Whether it is an event, which is left out when its sequence's state is not known. */
static bool is_event(const pf_packet *p)
{
    return p->event.p || p->data == PACKET_STREAMING_PROFILE || p->data == PACKET_PERF_SAMPLE;
}

static void dispatch(pf_reader *r, pf_sequence *s, const pf_packet *p)
{
    int64_t time = 0;
    bool has_time = false;
    if (p->has_timestamp) {
        has_time = stk__pf_time(r, s, p->has_clock_id ? p->clock_id : s->clock_id, p->timestamp, &time);
        if (!has_time && is_event(p)) {
            stk__builder_saw(r->b, 1);
            stk__pf_note(r, STK__REASON_NO_TIME);
            return;
        }
    }
    if (p->descriptor.p)
        stk__pf_descriptor(r, p->descriptor);
    if (p->event.p)
        stk__pf_event(r, s, p->event, has_time, time);
    switch (p->data) {
    case 0:
        break;
    case PACKET_PROCESS_TREE:
        stk__pf_process_tree(r, p->body);
        break;
    case PACKET_PROCESS:
        stk__pf_process(r, p->body);
        break;
    case PACKET_THREAD:
        read_legacy_thread(r, s, p->body);
        break;
    case PACKET_STREAMING_PROFILE:
        stk__pf_streaming_profile(r, s, p->body, has_time, time);
        break;
    case PACKET_PERF_SAMPLE:
        stk__pf_perf_sample(r, s, p->body, has_time, time);
        break;
    default:
        count_unknown(r, p);
        break;
    }
}

static void read_compressed(pf_reader *r, stk__wire data, bool zstd);

/* False: the packet is damaged, and nothing of it was used. */
static bool read_packet(pf_reader *r, stk__wire message)
{
    pf_packet p = {0};
    if (!parse_packet(message, &p))
        return false;
    stk__builder_at(r->b, r->offset);
    if (p.data == PACKET_COMPRESSED || p.data == PACKET_ZSTD) {
        read_compressed(r, p.body, p.data == PACKET_ZSTD);
        return true;
    }
    pf_sequence *s = sequence_of(r, p.sequence_id);
    if (!s)
        return true;
    if (p.cleared || p.flags & SEQUENCE_STATE_CLEARED)
        state_clear(r, s);
    else if (p.dropped)
        s->valid = false;
    if (p.dropped && !p.first)
        stk__pf_note(r, STK__REASON_LOST_BY_RECORDER);
    if (p.defaults.p)
        read_defaults(r, s, p.defaults);
    if (p.interned.p)
        stk__pf_intern(r, s, p.interned);
    if (p.snapshot.p)
        stk__pf_snapshot(r, s, p.snapshot);
    if (p.flags & SEQUENCE_NEEDS_STATE && !s->valid) {
        if (is_event(&p)) {
            stk__builder_saw(r->b, 1);
            stk__pf_note(r, STK__REASON_BAD_REFERENCE);
        }
        return true;
    }
    dispatch(r, s, &p);
    return true;
}

/* ---- compressed packets ---- */

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    return stk__calloc(count, size);
}

static void zlib_free(void *opaque, void *p)
{
    stk__free(p);
}

/*
 * Both give what they could: *out_size bytes of a block of UNPACKED_MAX at most. False: damaged, cut off or too large.
 */
static bool unpack_zlib(pf_reader *r, stk__wire data, uint8_t **out, size_t *out_size)
{
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    size_t capacity = 0;
    int result = Z_OK;
    if (inflateInit2(&z, 15 + 32) != Z_OK) {
        r->nomem = true;
        return false;
    }
    z.next_in = (Bytef *)(uintptr_t)data.p;
    z.avail_in = (uInt)stk__wire_size(data);
    while (result == Z_OK && *out_size < UNPACKED_MAX) {
        if (!stk__grow((void **)out, &capacity, STK_MAX(*out_size + 1, 4 * stk__wire_size(data) + 1024), 1)) {
            r->nomem = true;
            break;
        }
        z.next_out = *out + *out_size;
        z.avail_out = (uInt)STK_MIN(capacity - *out_size, UNPACKED_MAX);
        const uInt room = z.avail_out;
        result = inflate(&z, Z_NO_FLUSH);
        *out_size += room - z.avail_out;
        if (result == Z_OK && z.avail_out)
            result = Z_BUF_ERROR; /* all was read, and the end did not come */
    }
    inflateEnd(&z);
    return result == Z_STREAM_END;
}

static bool unpack_zstd(pf_reader *r, stk__wire data, uint8_t **out, size_t *out_size)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {data.p, stk__wire_size(data), 0};
    size_t capacity = 0, result = 1;
    if (!z) {
        r->nomem = true;
        return false;
    }
    while (result && !ZSTD_isError(result) && *out_size < UNPACKED_MAX) {
        if (!stk__grow((void **)out, &capacity, STK_MAX(*out_size + 1, 4 * stk__wire_size(data) + 1024), 1)) {
            r->nomem = true;
            break;
        }
        const size_t read_before = in.pos, before = *out_size;
        ZSTD_outBuffer to = {*out, capacity, *out_size};
        result = ZSTD_decompressStream(z, &to, &in);
        *out_size = to.pos;
        if (result && in.pos == read_before && *out_size == before)
            break;
    }
    ZSTD_freeDStream(z);
    return result == 0;
}

/* Top-level tag and length of a packet. Returns the size of the head; 0: more bytes are needed; -1: not a packet. */
static int packet_head(const uint8_t *p, size_t size, uint64_t *out_size)
{
    if (size == 0)
        return 0;
    if (*p != (TRACE_PACKET << 3 | STK__WIRE_BYTES))
        return -1;
    stk__wire w = {p + 1, p + size};
    if (!stk__wire_varint(&w, out_size))
        return size >= 11 ? -1 : 0;
    return *out_size > PACKET_MAX ? -1 : (int)(w.p - p);
}

static void read_compressed(pf_reader *r, stk__wire data, bool zstd)
{
    uint8_t *bytes = NULL;
    size_t size = 0, at = 0;
    if (r->unpacking) { /* Perfetto never nests them; a file could do so without end */
        stk__pf_note(r, STK__REASON_TOO_DEEP);
        return;
    }
    const bool good = zstd ? unpack_zstd(r, data, &bytes, &size) : unpack_zlib(r, data, &bytes, &size);
    if (!good && !r->nomem)
        stk__pf_note(r, size >= UNPACKED_MAX ? STK__REASON_TOO_LARGE : STK__REASON_COMPRESSION);
    r->unpacking = true;
    while (at < size && !r->nomem) {
        uint64_t packet_size;
        const int head = packet_head(bytes + at, size - at, &packet_size);
        if (head <= 0 || packet_size > size - at - (size_t)head) {
            if (good)
                stk__pf_note(r, STK__REASON_SYNTAX);
            break;
        }
        const uint8_t *p = bytes + at + head;
        if (!read_packet(r, (stk__wire){p, p + packet_size}))
            stk__pf_note(r, STK__REASON_SYNTAX);
        at += (size_t)head + packet_size;
    }
    r->unpacking = false;
    stk__free(bytes);
}

/* ---- damage ---- */

static bool field_plausible(uint32_t number, uint32_t type)
{
    switch (number) {
    case PACKET_TRUSTED_UID:
    case PACKET_TIMESTAMP:
    case PACKET_SEQUENCE_ID:
    case PACKET_SEQUENCE_FLAGS:
    case PACKET_STATE_CLEARED:
    case PACKET_PREVIOUS_DROPPED:
    case PACKET_CLOCK_ID:
    case PACKET_TRUSTED_PID:
    case PACKET_FIRST_ON_SEQUENCE:
    case PACKET_MACHINE_ID:
        return type == STK__WIRE_VARINT;
    default:
        return number <= PACKET_LAST && type == STK__WIRE_BYTES;
    }
}

/* A text there would be a plane of xplane.pb, whose messages look alike from the outside. */
static bool is_tree(const stk__field *f)
{
    return f->number == PACKET_PROCESS_TREE && f->bytes.p < f->bytes.end &&
           (*f->bytes.p == (TREE_PROCESS << 3 | STK__WIRE_BYTES) ||
            *f->bytes.p == (TREE_THREAD << 3 | STK__WIRE_BYTES));
}

/*
 * Whether these bytes could be the fields of a packet: numbers where numbers belong. `size` of `claimed` bytes are
 * there. Only so many fields are looked at, so that a search stays linear; *out_all tells whether these were all.
 */
static bool packet_plausible(const uint8_t *p, size_t size, size_t claimed, int *out_known, bool *out_all)
{
    stk__field f = stk__fields((stk__wire){p, p + size});
    *out_known = 0;
    int count = 0;
    while (count < CHECKED_FIELDS && stk__field_next(&f)) {
        if (!field_plausible(f.number, f.type))
            return false;
        *out_known += f.number == PACKET_TIMESTAMP || f.number == PACKET_SEQUENCE_ID ||
                      f.number == PACKET_TRACK_EVENT || f.number == PACKET_CLOCK_SNAPSHOT ||
                      f.number == PACKET_TRACK_DESCRIPTOR || f.number == PACKET_FTRACE_EVENTS || is_tree(&f) ||
                      f.number == PACKET_COMPRESSED || f.number == PACKET_ZSTD || f.number == PACKET_SYNC_MARKER;
        count++;
    }
    *out_all = f.in.p >= f.in.end;
    return !f.bad || size < claimed;
}

/* Whether a packet may start here that is whole, and is followed by another one or by the end. */
static bool packet_starts(const uint8_t *p, size_t size, bool at_end)
{
    uint64_t packet_size, next_size;
    int known;
    bool all;
    const int head = packet_head(p, size, &packet_size);
    if (head <= 0 || packet_size < 2 || packet_size > size - (size_t)head ||
        !packet_plausible(p + head, packet_size, packet_size, &known, &all) || !known || !all)
        return false;
    const size_t next = (size_t)head + packet_size;
    if (next == size)
        return at_end;
    const int next_head = packet_head(p + next, size - next, &next_size);
    if (next_head <= 0)
        return next_head == 0 && at_end;
    const size_t there = STK_MIN(size - next - (size_t)next_head, next_size);
    return packet_plausible(p + next + next_head, there, next_size, &known, &all);
}

/* Moves the input to the next place where a packet may start, at least `from` bytes on; or to the end. */
static bool resync(stk__input *in, size_t from)
{
    for (;;) {
        size_t size;
        const uint8_t *p = stk__input_peek(in, WINDOW_BYTES, &size);
        const bool at_end = size < WINDOW_BYTES;
        if (from >= size) {
            stk__input_advance(in, size);
            return false;
        }
        /* near the end of the window a packet may be cut off by it, so those are looked at in the next one */
        const size_t last = at_end ? size : size - 2 * CANDIDATE_MAX;
        size_t at = from;
        while (at < last) {
            const uint8_t *found = memchr(p + at, TRACE_PACKET << 3 | STK__WIRE_BYTES, last - at);
            if (!found) {
                at = last;
                break;
            }
            at = (size_t)(found - p);
            if (packet_starts(found, STK_MIN(size - at, 2 * CANDIDATE_MAX), at_end && size - at <= 2 * CANDIDATE_MAX)) {
                stk__input_advance(in, at);
                return true;
            }
            at++;
        }
        stk__input_advance(in, at);
        from = 0;
        if (at_end)
            return false;
    }
}

/* ---- the file ---- */

/* Not a whole good packet where one should be; `size` bytes are there. Notes it and goes on behind the damage. */
static void skip_damage(pf_reader *r, stk__input *in, size_t size, int head, uint64_t packet_size)
{
    const bool cut = head == 0 || (head > 0 && packet_size > size - (size_t)head);
    const int64_t offset = stk__input_offset(in);
    size_t from = 1;
    if (head > 0 && !cut) { /* its length may be right all the same */
        const size_t next = (size_t)head + packet_size;
        r->wasted += next;
        size_t there;
        const uint8_t *p = stk__input_peek(in, next + 2 * CANDIDATE_MAX, &there);
        const bool at_end = there < next + 2 * CANDIDATE_MAX;
        /* bytes are read twice only so often: a file of packets inside damaged packets would take for ever */
        if (next >= there || r->wasted > WASTED_MAX + 4 * (uint64_t)offset ||
            packet_starts(p + next, there - next, at_end))
            from = next;
    }
    const bool found = resync(in, from);
    stk__builder_note(r->b, cut && !found ? STK__REASON_TRUNCATED : STK__REASON_SYNTAX, offset);
}

/* The packets that lie whole in the window; returns their bytes. *out_want: what the next one needs. */
static size_t read_window(pf_reader *r, const uint8_t *p, size_t size, int64_t offset, size_t *out_want, bool *out_bad)
{
    size_t at = 0;
    *out_want = 0;
    while (at < size && !r->nomem) {
        uint64_t packet_size = 0;
        const int head = packet_head(p + at, size - at, &packet_size);
        if (head < 0) {
            *out_bad = true;
            break;
        }
        if (head == 0 || packet_size > size - at - (size_t)head) {
            *out_want = head ? (size_t)head + packet_size : 11;
            break;
        }
        r->offset = offset + (int64_t)at;
        const uint8_t *body = p + at + head;
        if (!read_packet(r, (stk__wire){body, body + packet_size})) {
            *out_bad = true;
            break;
        }
        at += (size_t)head + packet_size;
    }
    return at;
}

static stk_status read_packets(pf_reader *r, stk__input *in, stk_error *err)
{
    size_t want = WINDOW_BYTES;
    for (;;) {
        size_t size, next;
        bool bad = false;
        const uint8_t *p = stk__input_peek(in, want, &size);
        if (size == 0)
            return STK_OK;
        const size_t used = read_window(r, p, size, stk__input_offset(in), &next, &bad);
        stk__input_advance(in, used);
        STK_TRY(stk__reader_progress(r->b, in, err));
        if (r->nomem)
            return stk__nomem(r->ids.capacity * sizeof *r->ids.entries, err);
        uint64_t packet_size = 0;
        /* a damaged length would ask for much: the window grows only as far as bytes come */
        const bool end = used == 0 && size < want;
        if (bad || (end && next > size)) {
            p = stk__input_peek(in, 1, &size);
            const int head = packet_head(p, size, &packet_size);
            skip_damage(r, in, size, head, packet_size);
            want = WINDOW_BYTES;
        } else if (used == 0 && next > want) {
            want = STK_MIN(next, 2 * want);
        } else {
            want = WINDOW_BYTES;
        }
    }
}

static void reader_clear(pf_reader *r)
{
    for (size_t i = 0; i < r->sequence_count; i++) {
        stk__free(r->sequences[i].extra_int);
        stk__free(r->sequences[i].extra_double);
    }
    for (size_t i = 0; i < r->clock_count; i++)
        stk__free(r->clocks[i].points);
    stk__free(r->sequences);
    stk__free(r->tracks);
    stk__free(r->clocks);
    stk__free(r->flows);
    stk__keymap_clear(&r->ids);
    stk__text_clear(&r->json);
    stk__text_clear(&r->category);
}

static stk_status perfetto_read(stk__builder *b, stk__input *in, stk_error *err)
{
    pf_reader r = {.b = b, .json = STK__TEXT_INIT, .category = STK__TEXT_INIT};
    r.seed = stk__mix((uint64_t)stk__now_ns(), (uint64_t)(uintptr_t)b);
    const stk_status status = read_packets(&r, in, err);
    if (status == STK_OK) {
        stk__pf_flows_finish(&r);
        stk__pf_tracks_finish(&r);
        stk__pf_clock_finish(&r);
        if (r.lost)
            stk__builder_notes(b, STK__REASON_LOST_BY_RECORDER, r.lost, -1);
    }
    reader_clear(&r);
    return status;
}

/* Text has no bytes like these; every trace has some. */
static bool is_binary(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((data[i] < 0x20 && data[i] != '\t' && data[i] != '\n' && data[i] != '\r' && data[i] != '\f' &&
             data[i] != 0x1b) ||
            (data[i] >= 0x80 && !stk__utf8_length(data + i, size - i) && size - i >= 4))
            return true;
        if (data[i] >= 0x80)
            i += STK_MAX(stk__utf8_length(data + i, size - i), 1) - 1;
    }
    return false;
}

static int perfetto_detect(const uint8_t *data, size_t size, bool whole)
{
    size_t at = 0;
    int packets = 0, evidence = 0;
    if (!is_binary(data, size))
        return 0;
    while (at < size && packets < 100) {
        uint64_t packet_size;
        int known;
        bool all;
        const int head = packet_head(data + at, size - at, &packet_size);
        if (head == 0 || (head < 0 && packets >= 2))
            break;
        if (head < 0)
            return 0;
        const size_t there = STK_MIN(size - at - (size_t)head, packet_size);
        if (!packet_plausible(data + at + head, there, packet_size, &known, &all)) {
            if (packets < 2)
                return 0;
            break;
        }
        packets++;
        evidence += known;
        at += (size_t)head + there;
    }
    return evidence ? (packets > 1 ? 90 : 60) : 0;
}

const stk__reader stk__reader_perfetto = {
    .name = "perfetto",
    .summary = "Perfetto protobuf: Stoker's own recorder, Chrome, Android, the Perfetto SDK",
    .detect = perfetto_detect,
    .read = perfetto_read,
};
