/* Stacks of samples: "stackFrames", "samples", and events with "sf" or "stack". */
#include "base/mem.h"
#include "trace/flat.h"
#include "trace/read_chrome.h"

#include "base/banned.h"

enum { NEW, OPEN, DONE };

/* Room for one more item of an array of `r`; false after a failure. */
static bool add_room(stk__chrome *r, void **items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity || stk__grow(items, capacity, count + 1, size))
        return true;
    stk__chrome_nomem(r, (count + 1) * size);
    return false;
}

static void add_sample(stk__chrome *r, const stk__chrome_sample *sample)
{
    stk__chrome_stacks *s = &r->stacks;
    if (add_room(r, (void **)&s->samples, &s->sample_capacity, s->sample_count, sizeof *s->samples))
        s->samples[s->sample_count++] = *sample;
}

/* "stack": names, innermost first. The text is JSON that has been read before. */
static uint32_t stack_callsite(stk__chrome *r, const stk__chrome_value *v)
{
    stk__lexer x;
    stk__string *names = NULL;
    size_t count = 0, capacity = 0;
    uint32_t callsite = STK__NONE;
    stk__lexer_init(&x);
    x.start = x.p = (const uint8_t *)v->text;
    x.end = x.p + v->size;
    x.last = true;
    while (x.p < x.end) {
        const char *text = NULL;
        size_t size = 0;
        if (*x.p != '"') {
            x.p++;
            continue;
        }
        if (stk__json_lex_string(&x, STK__LEX_IN_ARRAY, &text, &size) != STK__LEX_OK)
            break;
        if (!add_room(r, (void **)&names, &capacity, count, sizeof *names))
            break;
        names[count++] = stk__builder_string(r->b, text, size);
    }
    while (count) {
        const stk__trace_frame frame = {.name = names[--count]};
        callsite = stk__builder_callsite(r->b, callsite, stk__builder_frame(r->b, &frame));
    }
    stk__free(names);
    stk__lexer_clear(&x);
    return callsite;
}

static stk__unit unit_of(const char *text, size_t size)
{
    for (int unit = 0; unit <= STK__UNIT_NONE; unit++) {
        const char *name = stk__unit_name((uint32_t)unit);
        if (strlen(name) == size && memcmp(name, text, size) == 0)
            return (stk__unit)unit;
    }
    return STK__UNIT_SAMPLES;
}

static void take_weight(const stk__chrome *r, stk__chrome_sample *sample)
{
    sample->weight = 1;
    sample->unit = STK__UNIT_SAMPLES;
    for (size_t i = 0; i < r->event.arg_count; i++) {
        const stk__chrome_arg *arg = &r->event.args[i];
        const stk__chrome_value *v = &arg->value;
        if (!arg->outer)
            continue;
        if (arg->key_size == 6 && memcmp(arg->key, "weight", 6) == 0 && v->kind == STK__CHROME_NUMBER &&
            !stk__json_scaled(&v->number, 0, &sample->weight, NULL))
            sample->weight = 1;
        else if (arg->key_size == 4 && memcmp(arg->key, "unit", 4) == 0 && v->kind == STK__CHROME_STRING)
            sample->unit = unit_of(v->text, v->size);
    }
}

void stk__chrome_sample_event(stk__chrome *r, int64_t ts, const stk__chrome_place *place)
{
    const stk__chrome_value *sf = stk__chrome_get(&r->event, STK__CHROME_SF);
    const stk__chrome_value *stack = stk__chrome_get(&r->event, STK__CHROME_STACK);
    stk__chrome_sample sample = {.track = place->track, .frame_of = STK__NONE, .ts = ts, .offset = r->event.offset};
    sample.event = stk__chrome_text(r, stk__chrome_get(&r->event, STK__CHROME_NAME));
    take_weight(r, &sample);
    if (sf->kind > STK__CHROME_NULL)
        sample.sf = stk__chrome_text(r, sf);
    else if (stack->kind == STK__CHROME_JSON)
        sample.frame_of = stack_callsite(r, stack);
    if (sample.sf || sample.frame_of != STK__NONE)
        add_sample(r, &sample);
    else
        stk__chrome_note(r, STK__REASON_BAD_VALUE);
}

/* ---- the sections of the outer object ---- */

static stk__string token_text(stk__chrome *r, const stk__json *j)
{
    return j->kind == STK__JSON_STRING || j->kind == STK__JSON_NUMBER ? stk__builder_string(r->b, j->text, j->size) : 0;
}

/* Reads the members of one frame, behind its opening brace. */
static void read_frame(stk__chrome *r, stk__json *j, stk__chrome_frame *frame)
{
    while (stk__json_next(j) == STK__JSON_KEY) {
        const bool line = stk__json_is(j, "line");
        stk__string *place = stk__json_is(j, "name")       ? &frame->name
                             : stk__json_is(j, "category") ? &frame->category
                             : stk__json_is(j, "parent")   ? &frame->parent
                             : stk__json_is(j, "file")     ? &frame->file
                                                           : NULL;
        int64_t number;
        if (!place && !line) {
            stk__json_skip(j);
            continue;
        }
        stk__json_next(j);
        if (place)
            *place = token_text(r, j);
        else if (j->kind == STK__JSON_NUMBER && stk__json_int64(&j->number, &number) && number > 0 && number <= INT32_MAX)
            frame->line = (int32_t)number;
        stk__json_skip(j);
    }
}

static void add_frame(stk__chrome *r, const stk__chrome_frame *frame, int64_t offset)
{
    stk__chrome_stacks *s = &r->stacks;
    bool fresh;
    uint32_t *place = stk__keymap_place(&s->ids, (stk__key){{frame->id}}, (uint32_t)s->frame_count, &fresh);
    if (!place)
        stk__chrome_nomem(r, s->ids.capacity * 2 * sizeof *s->ids.entries);
    else if (!fresh)
        stk__builder_note(r->b, STK__REASON_DUPLICATE, offset);
    else if (add_room(r, (void **)&s->frames, &s->frame_capacity, s->frame_count, sizeof *s->frames))
        s->frames[s->frame_count++] = *frame;
}

/* {"1": {"name": "main", "category": "a.out"}, "2": {"name": "run", "parent": 1}} */
void stk__chrome_stack_frames(stk__chrome *r, stk__json *j)
{
    if (stk__json_next(j) != STK__JSON_OBJECT) {
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, j->offset);
        stk__json_skip(j);
        return;
    }
    while (stk__json_next(j) == STK__JSON_KEY) {
        const int64_t offset = j->offset;
        stk__chrome_frame frame = {.id = stk__builder_string(r->b, j->text, j->size), .callsite = STK__NONE};
        if (stk__json_next(j) == STK__JSON_OBJECT) {
            read_frame(r, j, &frame);
            add_frame(r, &frame, offset);
        } else {
            stk__json_skip(j);
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, offset);
        }
    }
}

/* A number, also one in a string. */
static bool token_number(const stk__json *j, stk__json_number *out)
{
    *out = j->number;
    return j->kind == STK__JSON_NUMBER ||
           (j->kind == STK__JSON_STRING && stk__json_parse_number(j->text, j->size, out));
}

static void read_sample_member(stk__chrome *r, stk__json *j, stk__chrome_sample *sample)
{
    enum {
        SF,
        TS,
        TID,
        EVENT,
        WEIGHT,
        UNIT,
        OTHER
    } what = stk__json_is(j, "sf")       ? SF
             : stk__json_is(j, "ts")     ? TS
             : stk__json_is(j, "tid")    ? TID
             : stk__json_is(j, "name")   ? EVENT
             : stk__json_is(j, "weight") ? WEIGHT
             : stk__json_is(j, "unit")   ? UNIT
                                         : OTHER;
    stk__json_number n;
    if (what == OTHER) {
        stk__json_skip(j);
        return;
    }
    stk__json_next(j);
    if (what == SF) {
        sample->sf = token_text(r, j);
    } else if (what == UNIT) {
        sample->unit = j->kind == STK__JSON_STRING ? unit_of(j->text, j->size) : STK__UNIT_SAMPLES;
    } else if (what == EVENT) {
        sample->event = token_text(r, j);
    } else if (what == TS) {
        stk__chrome_value v = {.kind = STK__CHROME_NUMBER};
        if (!token_number(j, &v.number) || !stk__chrome_time(r, &v, &sample->ts))
            sample->ts = STK__NO_TIME;
    } else if (token_number(j, &n)) {
        int64_t value;
        if (stk__json_scaled(&n, 0, &value, NULL))
            *(what == TID ? &sample->tid.number : &sample->weight) = value;
    } else if (what == TID) {
        sample->tid.text = token_text(r, j);
    }
    stk__json_skip(j);
}

/* [{"tid": 1, "ts": 1000.0, "name": "cycles", "sf": 3, "weight": 1}] */
void stk__chrome_samples(stk__chrome *r, stk__json *j)
{
    if (stk__json_next(j) != STK__JSON_ARRAY) {
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, j->offset);
        stk__json_skip(j);
        return;
    }
    stk__json_kind kind;
    while ((kind = stk__json_next(j)) != STK__JSON_ARRAY_END && kind != STK__JSON_END) {
        stk__chrome_sample sample = {
            .track = STK__NONE, .frame_of = STK__NONE, .ts = STK__NO_TIME, .weight = 1, .offset = j->offset,
            .unit = STK__UNIT_SAMPLES};
        r->saw++;
        if (kind != STK__JSON_OBJECT) {
            stk__json_skip(j);
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, sample.offset);
            continue;
        }
        while (stk__json_next(j) == STK__JSON_KEY)
            read_sample_member(r, j, &sample);
        add_sample(r, &sample);
    }
}

/* ---- joining ---- */

static uint32_t frame_row(const stk__chrome_stacks *s, stk__string id)
{
    return stk__keymap_find(&s->ids, (stk__key){{id}}, STK__NONE);
}

/*
 * The callsite of a frame. Its parents are opened one by one up to one that is done, or has none, or is open already (a circle, which is
 * cut there); then they are made from the outermost on. `chain` has room for all frames.
 */
static uint32_t resolve(stk__chrome *r, uint32_t row, uint32_t *chain)
{
    stk__chrome_stacks *s = &r->stacks;
    size_t count = 0;
    uint32_t parent = STK__NONE;
    while (row != STK__NONE && s->frames[row].state == NEW) {
        s->frames[row].state = OPEN;
        chain[count++] = row;
        const stk__string up = s->frames[row].parent;
        row = up ? frame_row(s, up) : STK__NONE;
        if (up && row == STK__NONE)
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, -1);
    }
    if (row != STK__NONE) {
        if (s->frames[row].state == OPEN)
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, -1);
        parent = s->frames[row].callsite;
    }
    while (count) {
        stk__chrome_frame *f = &s->frames[chain[--count]];
        const stk__trace_frame frame = {.name = f->name, .module = f->category, .file = f->file, .line = f->line};
        f->callsite = parent = stk__builder_callsite(r->b, parent, stk__builder_frame(r->b, &frame));
        f->state = DONE;
    }
    return parent;
}

static uint32_t sample_track(stk__chrome *r, const stk__chrome_sample *sample)
{
    if (sample->track != STK__NONE)
        return sample->track;
    const stk__key key = {{(uint64_t)sample->tid.number, sample->tid.text}};
    uint32_t thread = stk__keymap_find(&r->tids, key, STK__NONE);
    if (thread == STK__NONE)
        thread = stk__builder_thread(r->b, stk__builder_process(r->b, 0, 0), sample->tid.number, sample->tid.text);
    return stk__builder_thread_track(r->b, thread);
}

void stk__chrome_stacks_finish(stk__chrome *r)
{
    stk__chrome_stacks *s = &r->stacks;
    uint32_t *chain = s->sample_count ? stk__alloc((s->frame_count + 1) * sizeof *chain) : NULL;
    if (s->sample_count && !chain)
        stk__chrome_nomem(r, (s->frame_count + 1) * sizeof *chain);
    for (size_t i = 0; chain && i < s->sample_count; i++) {
        const stk__chrome_sample *sample = &s->samples[i];
        uint32_t callsite = sample->frame_of;
        stk__builder_at(r->b, sample->offset);
        if (sample->sf) {
            const uint32_t row = frame_row(s, sample->sf);
            if (row == STK__NONE)
                stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, sample->offset);
            callsite = row == STK__NONE ? STK__NONE : resolve(r, row, chain);
        }
        const uint32_t track = sample_track(r, sample);
        stk__builder_track_at(r->b, track)->unit = sample->unit;
        stk__builder_sample(r->b, track, sample->ts, callsite, sample->weight, sample->event);
    }
    stk__free(chain);
}

void stk__chrome_stacks_clear(stk__chrome_stacks *s)
{
    stk__keymap_clear(&s->ids);
    stk__free(s->frames);
    stk__free(s->samples);
    *s = (stk__chrome_stacks){0};
}
