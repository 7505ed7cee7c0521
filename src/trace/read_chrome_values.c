/* Values of events in the builder's terms: strings, times, processes and threads, args. */
#include <math.h>

#include "trace/read_chrome.h"

#include "base/banned.h"

void stk__chrome_note(stk__chrome *r, stk__trace_reason reason)
{
    stk__builder_note(r->b, reason, r->event.offset);
}

/* ---- strings ---- */

/* Mixes the size and the ends of a text; equal texts give equal numbers. */
static inline uint32_t text_slot(const char *text, size_t size)
{
    uint64_t head = 0, tail = 0;
    if (size >= 8) {
        memcpy(&head, text, 8);
        memcpy(&tail, text + size - 8, 8);
        uint64_t middle;
        memcpy(&middle, text + (size - 8) / 2, 8);
        head ^= middle * 0x9e3779b97f4a7c15u;
    } else {
        memcpy(&head, text, size);
    }
    const uint64_t mixed = (head ^ size) * 0xff51afd7ed558ccdu ^ (tail ^ tail >> 29) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(mixed >> 40) & (STK__CHROME_STRINGS - 1);
}

stk__string stk__chrome_intern(stk__chrome *r, const char *text, size_t size)
{
    if (size > sizeof r->strings->text)
        return stk__builder_string(r->b, text, size);
    if (!size)
        return 0;
    stk__chrome_string *s = &r->strings[text_slot(text, size)];
    if (s->size == size && memcmp(s->text, text, size) == 0)
        return s->string;
    s->string = stk__builder_string(r->b, text, size);
    s->size = (uint32_t)size;
    memcpy(s->text, text, size);
    return s->string;
}

stk__string stk__chrome_text(stk__chrome *r, const stk__chrome_value *v)
{
    switch (v->kind) {
    case STK__CHROME_NONE:
    case STK__CHROME_NULL:
        return 0;
    case STK__CHROME_TRUE:
        return stk__builder_str(r->b, "true");
    case STK__CHROME_FALSE:
        return stk__builder_str(r->b, "false");
    default:
        return stk__chrome_intern(r, v->text, v->size);
    }
}

/* ---- times ---- */

bool stk__chrome_number(const stk__chrome_value *v, stk__json_number *out)
{
    *out = v->number;
    return v->kind == STK__CHROME_NUMBER ||
           (v->kind == STK__CHROME_STRING && stk__json_parse_number(v->text, v->size, out));
}

bool stk__chrome_time(stk__chrome *r, const stk__chrome_value *v, int64_t *out)
{
    stk__json_number n;
    bool rounded;
    if (!stk__chrome_number(v, &n) || !stk__json_scaled(&n, 3, out, &rounded))
        return false;
    r->timed = true;
    if (n.exponent < 0 && !r->below_us)
        r->below_us = rounded || *out % 1000 != 0;
    return true;
}

/* ---- processes and threads ---- */

/* Whether a text is an integer and nothing else. */
static bool plain_integer(const char *text, size_t size)
{
    size_t i = size && text[0] == '-';
    if (i == size)
        return false;
    for (; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return true;
}

static stk__chrome_id id_of(stk__chrome *r, const stk__chrome_value *v)
{
    stk__chrome_id id = {0};
    stk__json_number n;
    switch (v->kind) {
    case STK__CHROME_NONE:
    case STK__CHROME_NULL:
        break;
    case STK__CHROME_NUMBER:
        if (!stk__json_int64(&v->number, &id.number))
            id.text = stk__chrome_intern(r, v->text, v->size);
        break;
    case STK__CHROME_STRING:
        if (!plain_integer(v->text, v->size) || !stk__json_parse_number(v->text, v->size, &n) ||
            !stk__json_int64(&n, &id.number)) {
            id.number = 0;
            id.text = v->size ? stk__chrome_intern(r, v->text, v->size) : stk__builder_str(r->b, "\"\"");
        }
        break;
    default:
        id.text = stk__chrome_text(r, v);
    }
    return id;
}

static uint32_t process_of(stk__chrome *r, stk__chrome_id pid)
{
    const uint32_t process = stk__builder_process(r->b, pid.number, pid.text);
    if (process == STK__NONE)
        return process;
    if (process >= r->process_rows) {
        if (!r->process_rows)
            r->first_process = process;
        r->process_rows = process + 1;
        if (pid.text)
            stk__chrome_note(r, STK__REASON_TEXT_ID);
    }
    return process;
}

static uint32_t thread_of(stk__chrome *r, uint32_t process, stk__chrome_id tid)
{
    const uint32_t thread = stk__builder_thread(r->b, process, tid.number, tid.text);
    if (thread == STK__NONE || thread < r->thread_rows)
        return thread;
    r->thread_rows = thread + 1;
    if (tid.text)
        stk__chrome_note(r, STK__REASON_TEXT_ID);
    bool fresh;
    if (!stk__keymap_place(&r->tids, (stk__key){{(uint64_t)tid.number, tid.text}}, thread, &fresh))
        stk__chrome_nomem(r, r->tids.capacity * 2 * sizeof *r->tids.entries);
    return thread;
}

uint32_t stk__chrome_find_process(stk__chrome *r)
{
    return process_of(r, id_of(r, stk__chrome_get(&r->event, STK__CHROME_PID)));
}

/* An event without a tid is of its process's first thread, which has the same id, as Perfetto has it. */
static stk__chrome_id missing_tid(stk__chrome_id pid)
{
    return (stk__chrome_id){.number = pid.number};
}

uint32_t stk__chrome_find_thread(stk__chrome *r)
{
    const stk__chrome_id pid = id_of(r, stk__chrome_get(&r->event, STK__CHROME_PID));
    const stk__chrome_value *tid = stk__chrome_get(&r->event, STK__CHROME_TID);
    return thread_of(r, process_of(r, pid), tid->kind > STK__CHROME_NULL ? id_of(r, tid) : missing_tid(pid));
}

static bool same_id(stk__chrome_id a, stk__chrome_id b)
{
    return a.number == b.number && a.text == b.text;
}

static inline stk__chrome_id event_id(stk__chrome *r, const stk__chrome_value *v)
{
    if (STK_LIKELY(v->kind == STK__CHROME_NUMBER && !v->number.exponent && !v->number.cut && !v->number.negative &&
                   v->number.digits <= INT64_MAX))
        return (stk__chrome_id){(int64_t)v->number.digits, 0};
    return id_of(r, v);
}

const stk__chrome_place *stk__chrome_find_place(stk__chrome *r)
{
    const stk__chrome_id pid = event_id(r, stk__chrome_get(&r->event, STK__CHROME_PID));
    const stk__chrome_value *given = stk__chrome_get(&r->event, STK__CHROME_TID);
    const stk__chrome_id tid = STK_LIKELY(given->kind > STK__CHROME_NULL) ? event_id(r, given) : missing_tid(pid);
    const uint64_t mixed = (uint64_t)pid.number * 0x9e3779b97f4a7c15u + (uint64_t)tid.number * 0xc4ceb9fe1a85ec53u +
                           pid.text * 31u + tid.text * 7u;
    stk__chrome_place *place = &r->places[mixed >> 32 & (STK__CHROME_PLACES - 1)];
    if (place->used && same_id(place->pid, pid) && same_id(place->tid, tid))
        return place;
    *place = (stk__chrome_place){.pid = pid, .tid = tid, .used = true};
    place->process = process_of(r, pid);
    place->thread = thread_of(r, place->process, tid);
    place->track = stk__builder_thread_track(r->b, place->thread);
    return place;
}

/* ---- args ---- */

/* An integer past 64 bits stays as it was written. */
static void put_big(stk__chrome *r, stk__string key, const stk__chrome_value *v)
{
    const char *text = v->text;
    size_t size = v->size;
    const bool negative = size && text[0] == '-';
    if (size && (text[0] == '-' || text[0] == '+')) {
        text++;
        size--;
    }
    while (size > 1 && text[0] == '0') {
        text++;
        size--;
    }
    stk__text_reset(&r->text);
    if (negative)
        stk__text_putc(&r->text, '-');
    stk__text_write(&r->text, text, size);
    stk__chrome_note(r, STK__REASON_NUMBER);
    if (r->text.failed)
        stk__chrome_nomem(r, size);
    else
        stk__builder_arg_json(r->b, key, stk__builder_string(r->b, r->text.data, r->text.length));
}

static void put_number(stk__chrome *r, stk__string key, const stk__chrome_value *v)
{
    const stk__json_number *n = &v->number;
    if (n->exponent == 0 && !n->cut && v->integer) {
        if (n->digits <= INT64_MAX) {
            stk__builder_arg_int(r->b, key, n->negative ? -(int64_t)n->digits : (int64_t)n->digits);
            return;
        }
        if (!n->negative) {
            stk__builder_arg_uint(r->b, key, n->digits);
            return;
        }
        if (n->digits == (uint64_t)INT64_MAX + 1) {
            stk__builder_arg_int(r->b, key, INT64_MIN);
            return;
        }
    }
    if (v->integer) {
        put_big(r, key, v);
        return;
    }
    const double value = stk__json_double(n, v->text, v->size);
    if (!isfinite(value))
        stk__chrome_note(r, STK__REASON_NUMBER);
    stk__builder_arg_double(r->b, key, value);
}

static void put_value(stk__chrome *r, stk__string key, const stk__chrome_value *v)
{
    double word;
    switch (v->kind) {
    case STK__CHROME_NUMBER:
        if (STK_LIKELY(v->number.exponent == 0 && !v->number.cut && !v->number.negative &&
                       v->number.digits <= INT64_MAX && v->integer))
            stk__builder_arg_int(r->b, key, (int64_t)v->number.digits);
        else
            put_number(r, key, v);
        break;
    case STK__CHROME_STRING:
        stk__builder_arg_string(r->b, key, stk__chrome_intern(r, v->text, v->size));
        break;
    case STK__CHROME_JSON:
        stk__builder_arg_json(r->b, key, stk__chrome_intern(r, v->text, v->size));
        break;
    case STK__CHROME_TRUE:
    case STK__CHROME_FALSE:
        stk__builder_arg_bool(r->b, key, v->kind == STK__CHROME_TRUE);
        break;
    case STK__CHROME_WORD:
        if (stk__json_word_double(v->text, v->size, &word))
            stk__builder_arg_double(r->b, key, word);
        else
            stk__builder_arg_string(r->b, key, stk__chrome_intern(r, v->text, v->size));
        break;
    default:
        stk__builder_arg_null(r->b, key);
    }
}

void stk__chrome_put_field(stk__chrome *r, stk__chrome_field field, const char *key)
{
    const stk__chrome_value *v = stk__chrome_get(&r->event, field);
    if (v->kind)
        put_value(r, stk__builder_str(r->b, key), v);
}

void stk__chrome_put_args(stk__chrome *r)
{
    const stk__chrome_event *e = &r->event;
    for (size_t i = 0; i < e->arg_count; i++) {
        const stk__chrome_arg *arg = &e->args[i];
        put_value(r, arg->key_string ? arg->key_string : stk__chrome_intern(r, arg->key, arg->key_size), &arg->value);
    }
    if (e->seen & (1u << STK__CHROME_TTS | 1u << STK__CHROME_TDUR)) {
        stk__chrome_put_field(r, STK__CHROME_TTS, "tts");
        stk__chrome_put_field(r, STK__CHROME_TDUR, "tdur");
    }
}
