/* From a parsed event to the builder: what each phase means. */
#include <inttypes.h>

#include "trace/read_chrome.h"
#include "base/mem.h"

#include "base/banned.h"

/* stk__chrome_time for the usual case: up to three decimals. */
static inline bool event_time(stk__chrome *r, const stk__chrome_value *v, int64_t *out)
{
    static const int64_t factor[] = {1000, 100, 10, 1};
    const stk__json_number *n = &v->number;
    if (v->kind != STK__CHROME_NUMBER || n->exponent > 0 || n->exponent < -3 || n->cut ||
        n->digits > STK__TIME_MAX / 1000)
        return stk__chrome_time(r, v, out);
    const int64_t ns = (int64_t)n->digits * factor[-n->exponent];
    *out = n->negative ? -ns : ns;
    r->timed = true;
    if (!r->below_us && n->exponent < 0)
        r->below_us = ns % 1000 != 0;
    return true;
}

/* ---- ids of flows and async events ---- */

/* As text; 0x1f and 31 are the same id. */
static stk__string flow_id(stk__chrome *r, const stk__chrome_value *v)
{
    if (v->kind != STK__CHROME_STRING || v->size < 3 || v->size > 18 || v->text[0] != '0' || (v->text[1] | 0x20) != 'x')
        return stk__chrome_text(r, v);
    uint64_t id = 0;
    for (uint32_t i = 2; i < v->size; i++) {
        const int c = v->text[i] | 0x20;
        if (v->text[i] >= '0' && v->text[i] <= '9')
            id = id << 4 | (uint64_t)(v->text[i] - '0');
        else if (c >= 'a' && c <= 'f')
            id = id << 4 | (uint64_t)(c - 'a' + 10);
        else
            return stk__chrome_text(r, v);
    }
    char digits[24];
    stk__text text;
    stk__text_fixed(&text, digits, sizeof digits);
    stk__text_printf(&text, "%" PRIu64, id);
    return stk__chrome_intern(r, digits, text.length);
}

static stk__string joined(stk__chrome *r, stk__string a, const char *between, stk__string b, const char *after)
{
    size_t size;
    stk__text_reset(&r->text);
    const char *text = stk__builder_get(r->b, a, &size);
    stk__text_write(&r->text, text, size);
    stk__text_puts(&r->text, between);
    text = stk__builder_get(r->b, b, &size);
    stk__text_write(&r->text, text, size);
    stk__text_puts(&r->text, after);
    if (r->text.failed) {
        stk__chrome_nomem(r, r->text.length);
        return 0;
    }
    return stk__builder_string(r->b, r->text.data, r->text.length);
}

/*
 * The track of an async event. A local id holds in its process. Others hold in the whole file; their track belongs to the process of
 * the first event, also when another process ends it. The older kind is told apart by its name as well.
 */
static uint32_t async_track(stk__chrome *r, stk__string name)
{
    const stk__chrome_event *e = &r->event;
    const stk__chrome_value *local = stk__chrome_get(e, STK__CHROME_LOCAL);
    const stk__chrome_value *global = stk__chrome_get(e, STK__CHROME_GLOBAL);
    const stk__chrome_value *plain = stk__chrome_get(e, STK__CHROME_ID);
    const stk__chrome_value *id_value = local->kind ? local : global->kind ? global : plain;
    const stk__string id = flow_id(r, id_value);
    if (id_value->kind <= STK__CHROME_NULL)
        return STK__NONE;
    stk__string scope = stk__chrome_text(r, stk__chrome_get(e, STK__CHROME_CAT));
    const stk__string inner = stk__chrome_text(r, stk__chrome_get(e, STK__CHROME_SCOPE));
    if (inner)
        scope = scope ? joined(r, scope, ":", inner, "") : inner;
    uint32_t process = stk__chrome_find_process(r);
    if (!local->kind) {
        bool fresh;
        const stk__key key = {{(uint64_t)scope << 32 | id, (uint64_t)name << 1 | (global->kind != 0)}};
        const uint32_t *first = stk__keymap_place(&r->async_process, key, process, &fresh);
        if (!first)
            stk__chrome_nomem(r, r->async_process.capacity * 2 * sizeof *r->async_process.entries);
        else
            process = *first;
    }
    return stk__builder_async_track(r->b, process, scope, id, name);
}

/* ---- phases ---- */

typedef struct names {
    stk__string name, category;
} names;

static names names_of(stk__chrome *r)
{
    names n;
    n.name = stk__chrome_text(r, stk__chrome_get(&r->event, STK__CHROME_NAME));
    n.category = stk__chrome_text(r, stk__chrome_get(&r->event, STK__CHROME_CAT));
    return n;
}

static bool is_key(const stk__chrome_arg *arg, const char *key)
{
    return arg->key_size == strlen(key) && memcmp(arg->key, key, arg->key_size) == 0;
}

/*
 * TensorFlow 1 calls an op "unknown" when its label is not "name = op(inputs)", as _parse_op_label of its timeline.py wants it. What ran
 * then stands in the args alone.
 */
static STK_NOINLINE void name_unknown_op(stk__chrome *r, names *n)
{
    for (size_t i = r->event.arg_count; i-- > 0;) {
        const stk__chrome_arg *arg = &r->event.args[i];
        if (!arg->outer && is_key(arg, "name") && arg->value.kind == STK__CHROME_STRING && arg->value.size) {
            n->name = stk__chrome_text(r, &arg->value);
            return;
        }
    }
}

static bool has_arg(const stk__chrome *r, const char *key)
{
    size_t i = 0;
    while (i < r->event.arg_count && !is_key(&r->event.args[i], key))
        i++;
    return i < r->event.arg_count;
}

static bool says_flow(const stk__chrome_value *v)
{
    return v->kind > STK__CHROME_NULL && v->kind != STK__CHROME_FALSE;
}

static bool is_bound(const stk__chrome_event *e)
{
    return e->seen >> STK__CHROME_BIND_ID & 1 &&
           (says_flow(stk__chrome_get(e, STK__CHROME_FLOW_IN)) || says_flow(stk__chrome_get(e, STK__CHROME_FLOW_OUT)));
}

/* Ids that mean nothing on a slice of a thread are kept beside its args. */
static void put_odd_fields(stk__chrome *r)
{
    stk__chrome_put_field(r, STK__CHROME_ID, has_arg(r, "id") ? "event_id" : "id");
    stk__chrome_put_field(r, STK__CHROME_LOCAL, "id2.local");
    stk__chrome_put_field(r, STK__CHROME_GLOBAL, "id2.global");
    stk__chrome_put_field(r, STK__CHROME_SCOPE, has_arg(r, "scope") ? "event_scope" : "scope");
    if (!is_bound(&r->event))
        stk__chrome_put_field(r, STK__CHROME_BIND_ID, "bind_id");
}

static void put_slice_args(stk__chrome *r)
{
    const uint32_t odd = 1u << STK__CHROME_ID | 1u << STK__CHROME_LOCAL | 1u << STK__CHROME_GLOBAL |
                         1u << STK__CHROME_SCOPE | 1u << STK__CHROME_BIND_ID;
    stk__chrome_put_args(r);
    if (STK_UNLIKELY(r->event.seen & odd))
        put_odd_fields(r);
}

/* The model has no place for args of flows and samples, which are kept without them. `outer`: only those beside "args". */
static void note_args(stk__chrome *r, bool outer)
{
    uint64_t left = 0;
    for (size_t i = 0; i < r->event.arg_count; i++) {
        const stk__chrome_arg *arg = &r->event.args[i];
        left += (arg->outer || !outer) && !(arg->outer && (is_key(arg, "weight") || is_key(arg, "unit")));
    }
    if (left)
        stk__builder_notes(r->b, STK__REASON_NO_PLACE, left, r->event.offset);
}

/* bind_id with flow_in and flow_out: an arrow that starts or ends at the slice itself. */
static void emit_bound_flow(stk__chrome *r, uint32_t track, int64_t ts)
{
    const stk__chrome_event *e = &r->event;
    const bool comes = says_flow(stk__chrome_get(e, STK__CHROME_FLOW_IN));
    const bool goes = says_flow(stk__chrome_get(e, STK__CHROME_FLOW_OUT));
    const stk__string id = flow_id(r, stk__chrome_get(e, STK__CHROME_BIND_ID));
    if (!comes && !goes)
        return;
    const unsigned phase = comes && goes ? STK__FLOW_STEP : comes ? STK__FLOW_END : STK__FLOW_START;
    stk__builder_flow(r->b, track, ts, phase | STK__FLOW_ENCLOSING, 0, 0, id);
}

static void emit_sides(stk__chrome *r, const stk__chrome_place *place, int64_t ts)
{
    const uint32_t seen = r->event.seen;
    if (STK_UNLIKELY(seen >> STK__CHROME_BIND_ID & 1))
        emit_bound_flow(r, place->track, ts);
    if (STK_UNLIKELY(seen & (1u << STK__CHROME_SF | 1u << STK__CHROME_STACK)))
        stk__chrome_sample_event(r, ts, place);
}

/* What stands for a duration that cannot be read: its sign, the CPU time, or 0. */
static STK_NOINLINE int64_t odd_duration(stk__chrome *r)
{
    stk__json_number n;
    int64_t dur;
    if (stk__chrome_number(stk__chrome_get(&r->event, STK__CHROME_DUR), &n))
        return n.negative ? -1 : INT64_MAX; /* past int64; the builder notes it */
    if (stk__chrome_time(r, stk__chrome_get(&r->event, STK__CHROME_TDUR), &dur)) {
        stk__chrome_note(r, STK__REASON_CPU_DURATION);
        return dur;
    }
    stk__chrome_note(r, STK__REASON_NO_DURATION);
    return 0;
}

static void emit_complete(stk__chrome *r, int64_t ts)
{
    int64_t dur = 0;
    if (STK_UNLIKELY(!event_time(r, stk__chrome_get(&r->event, STK__CHROME_DUR), &dur)))
        dur = odd_duration(r);
    const stk__chrome_place *place = stk__chrome_find_place(r);
    names n = names_of(r);
    if (STK_UNLIKELY(stk__chrome_is(stk__chrome_get(&r->event, STK__CHROME_CAT), "Op", 2)) &&
        stk__chrome_is(stk__chrome_get(&r->event, STK__CHROME_NAME), "unknown", 7))
        name_unknown_op(r, &n);
    put_slice_args(r);
    stk__builder_slice(r->b, place->track, ts, dur, n.name, n.category, r->event.offset);
    emit_sides(r, place, ts);
}

/*
 * py-spy tells threads apart by their tid alone. Forked processes have the same ones, so that an end may carry the pid
 * of whichever process was sampled next: it belongs to the last begin of its tid that is open.
 */
static uint32_t sampled_track(stk__chrome *r, const stk__chrome_place *place, char phase)
{
    const stk__key key = {{(uint64_t)place->tid.number, place->tid.text}};
    bool fresh = false;
    const uint32_t *row = stk__keymap_place(&r->sampled_rows, key, (uint32_t)r->sampled_count, &fresh);
    if (!row || !stk__grow((void **)&r->sampled, &r->sampled_capacity, (size_t)*row + 1, sizeof *r->sampled)) {
        stk__chrome_nomem(r, r->sampled_count * sizeof *r->sampled);
        return place->track;
    }
    stk__chrome_sampled *s = &r->sampled[*row];
    if (fresh) {
        *s = (stk__chrome_sampled){0};
        r->sampled_count++;
    }
    if (phase == 'E')
        return s->count ? s->tracks[--s->count] : place->track;
    if (stk__grow((void **)&s->tracks, &s->capacity, s->count + 1, sizeof *s->tracks))
        s->tracks[s->count++] = place->track;
    else
        stk__chrome_nomem(r, s->count * sizeof *s->tracks);
    return place->track;
}

static void emit_begin_end(stk__chrome *r, char phase, int64_t ts)
{
    const stk__chrome_place *place = stk__chrome_find_place(r);
    const names n = names_of(r);
    uint32_t track = place->track;
    if (STK_UNLIKELY(stk__chrome_is(stk__chrome_get(&r->event, STK__CHROME_CAT), "py-spy", strlen("py-spy"))))
        track = sampled_track(r, place, phase);
    put_slice_args(r);
    if (phase == 'B')
        stk__builder_begin(r->b, track, ts, n.name, n.category);
    else
        stk__builder_end(r->b, track, ts, n.name);
    emit_sides(r, place, ts);
}

static void emit_instant(stk__chrome *r, int64_t ts)
{
    const stk__chrome_value *scope = stk__chrome_get(&r->event, STK__CHROME_S);
    const names n = names_of(r);
    uint32_t track;
    if (stk__chrome_is(scope, "g", 1)) {
        track = stk__builder_global_track(r->b);
    } else if (stk__chrome_is(scope, "p", 1)) {
        track = stk__builder_process_track(r->b, stk__chrome_find_process(r));
    } else {
        const stk__chrome_place *place = stk__chrome_find_place(r);
        track = place->track;
        emit_sides(r, place, ts);
    }
    put_slice_args(r);
    stk__builder_instant(r->b, track, ts, n.name, n.category);
}

static void emit_async(stk__chrome *r, char phase, int64_t ts)
{
    const bool old = strchr("STpF", phase) != NULL;
    const names n = names_of(r);
    const uint32_t track = async_track(r, old ? n.name : 0);
    if (track == STK__NONE) {
        stk__chrome_note(r, STK__REASON_BAD_REFERENCE);
        return;
    }
    if (is_bound(&r->event))
        stk__chrome_note(r, STK__REASON_NO_PLACE); /* arrows go between threads */
    stk__chrome_put_args(r);
    if (phase == 'b' || phase == 'S')
        stk__builder_begin(r->b, track, ts, n.name, n.category);
    else if (phase == 'e' || phase == 'F')
        stk__builder_end(r->b, track, ts, n.name);
    else
        stk__builder_instant(r->b, track, ts, n.name, n.category);
}

/* A local id holds in its process: "12:7". */
static stk__string local_id(stk__chrome *r, uint32_t process, stk__string id)
{
    const stk__trace_process *p = stk__builder_process_at(r->b, process);
    char digits[24];
    stk__text text;
    stk__text_fixed(&text, digits, sizeof digits);
    stk__text_printf(&text, "%" PRId64, p->pid);
    const stk__string pid = p->pid_text ? p->pid_text : stk__chrome_intern(r, digits, text.length);
    return joined(r, pid, ":", id, "");
}

static void emit_flow(stk__chrome *r, char phase, int64_t ts)
{
    const stk__chrome_event *e = &r->event;
    const stk__chrome_value *v = stk__chrome_get(e, STK__CHROME_ID);
    const bool local = v->kind <= STK__CHROME_NULL && e->seen >> STK__CHROME_LOCAL & 1;
    if (v->kind <= STK__CHROME_NULL)
        v = stk__chrome_get(e, local ? STK__CHROME_LOCAL : STK__CHROME_GLOBAL);
    if (v->kind <= STK__CHROME_NULL) {
        stk__chrome_note(r, STK__REASON_BAD_REFERENCE);
        return;
    }
    const stk__chrome_place *place = stk__chrome_find_place(r);
    const names n = names_of(r);
    const stk__string id = local ? local_id(r, place->process, flow_id(r, v)) : flow_id(r, v);
    unsigned kind = phase == 's' ? STK__FLOW_START : phase == 't' ? STK__FLOW_STEP : STK__FLOW_END;
    /* starts and steps always stand in their slice, ends only when they say so */
    if (phase != 'f' || stk__chrome_is(stk__chrome_get(e, STK__CHROME_BP), "e", 1))
        kind |= STK__FLOW_ENCLOSING;
    note_args(r, false);
    stk__builder_flow(r->b, place->track, ts, kind, n.name, n.category, id);
}

/* One track per series: "name:series", or the name alone where the series says nothing more. */
static uint32_t counter_track(stk__chrome *r, uint32_t process, stk__string name, stk__string id, stk__string series)
{
    const uint32_t mixed = (name * 31u + series * 7u + id * 131u + process) % STK__CHROME_COUNTERS;
    stk__chrome_counter *c = &r->counters[mixed];
    if (c->used && c->name == name && c->series == series && c->id == id && c->process == process)
        return c->track;
    size_t size;
    stk__string full = name;
    if (id)
        full = joined(r, name, "[", id, "]");
    const char *text = stk__builder_get(r->b, series, &size);
    if (series && series != name && !(size == 5 && memcmp(text, "value", 5) == 0))
        full = joined(r, full, ":", series, "");
    *c = (stk__chrome_counter){.name = name, .series = series, .id = id, .process = process, .used = true};
    c->track = stk__builder_counter_track(r->b, process, STK__NONE, full);
    return c->track;
}

static void emit_counter(stk__chrome *r, int64_t ts)
{
    const stk__chrome_event *e = &r->event;
    const stk__string name = stk__chrome_text(r, stk__chrome_get(e, STK__CHROME_NAME));
    const stk__chrome_value *id_value = stk__chrome_get(e, STK__CHROME_ID);
    const stk__string id = flow_id(r, id_value->kind ? id_value : stk__chrome_get(e, STK__CHROME_LOCAL));
    const uint32_t process = stk__chrome_find_process(r);
    size_t count = 0;
    for (size_t i = 0; i < e->arg_count; i++) {
        const stk__chrome_arg *arg = &e->args[i];
        stk__json_number n;
        double value;
        if (arg->outer)
            continue;
        count++;
        if (stk__chrome_number(&arg->value, &n)) {
            value = stk__json_double(&n, arg->value.text, arg->value.size);
        } else if (arg->value.kind == STK__CHROME_TRUE || arg->value.kind == STK__CHROME_FALSE) {
            value = arg->value.kind == STK__CHROME_TRUE;
        } else if ((arg->value.kind != STK__CHROME_WORD && arg->value.kind != STK__CHROME_STRING) ||
                   !stk__json_word_double(arg->value.text, arg->value.size, &value)) {
            stk__chrome_note(r, STK__REASON_BAD_VALUE);
            continue;
        }
        const stk__string series = arg->key_string ? arg->key_string : stk__chrome_intern(r, arg->key, arg->key_size);
        stk__builder_counter(r->b, counter_track(r, process, name, id, series), ts, value);
    }
    if (!count)
        stk__chrome_note(r, STK__REASON_BAD_VALUE);
    note_args(r, true);
}

static void emit_sample(stk__chrome *r, int64_t ts)
{
    if (!(r->event.seen & (1u << STK__CHROME_SF | 1u << STK__CHROME_STACK))) {
        emit_instant(r, ts);
        return;
    }
    stk__chrome_sample_event(r, ts, stk__chrome_find_place(r));
    note_args(r, false);
}

static void emit_timed(stk__chrome *r, char phase)
{
    int64_t ts;
    if (!event_time(r, stk__chrome_get(&r->event, STK__CHROME_TS), &ts)) {
        stk__chrome_note(r, STK__REASON_NO_TIME);
        return;
    }
    switch (phase) {
    case 'X':
        emit_complete(r, ts);
        break;
    case 'B':
    case 'E':
        emit_begin_end(r, phase, ts);
        break;
    case 's':
    case 't':
    case 'f':
        emit_flow(r, phase, ts);
        break;
    case 'C':
        emit_counter(r, ts);
        break;
    case 'P':
        emit_sample(r, ts);
        break;
    case 'i':
    case 'I':
    case 'R':
        emit_instant(r, ts);
        break;
    default:
        emit_async(r, phase, ts);
    }
}

void stk__chrome_emit(stk__chrome *r)
{
    const stk__chrome_value *ph = stk__chrome_get(&r->event, STK__CHROME_PH);
    const char phase = ph->kind == STK__CHROME_STRING && ph->size == 1 ? ph->text[0] : 0;
    stk__builder_at(r->b, r->event.offset);
    switch (phase) {
    case 'X':
    case 'B':
    case 'E':
    case 'i':
    case 'I':
    case 'R':
    case 'C':
    case 'b':
    case 'n':
    case 'e':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
    case 's':
    case 't':
    case 'f':
    case 'P':
        emit_timed(r, phase);
        break;
    case 'M':
        stk__chrome_metadata(r);
        break;
    case 'N': /* objects */
    case 'O':
    case 'D':
    case 'v': /* memory dumps */
    case 'V':
    case 'c': /* clock marks */
    case '(': /* contexts */
    case ')':
    case '=':
    case 'a':
        stk__chrome_note(r, STK__REASON_UNKNOWN_KIND);
        break;
    default:
        stk__chrome_note(r, STK__REASON_NO_PHASE);
    }
}
