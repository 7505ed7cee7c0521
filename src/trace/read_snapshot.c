/*
 * Reads memory snapshots of PyTorch: torch.cuda.memory._dump_snapshot(), a pickled dict.
 *
 *   segments              [{device, address, total_size, blocks: [{address, size, requested_size, state, frames}], ...}]
 *   device_traces         by device: [{action, addr, size, time_us, frames: [{filename, line, name}], ...}]
 *   external_annotations  [{stage, name, device, time_us}]
 *   allocator_settings    {name: value}
 *
 * What a dict is, is seen by its keys when it is whole; it becomes a row of a table, a list of such dicts a range of
 * rows, and a list of frames a call site. So no more than rows is ever in memory. Files of before 2023 have `history` in
 * blocks in place of frames, no times, or are the list of segments alone.
 */
#include <string.h>

#include "base/mem.h"
#include "trace/pickle.h"
#include "trace/read_snapshot_impl.h"

#include "base/banned.h"

enum { RUN_OPERATIONS = 1 << 20, DEVICES_MAX = 1024, KEY_SLOTS = 128, TAG_SHIFT = 56 };

/* What was made of a container: the tag in the highest byte of the number, a row below it. */
enum {
    MADE_OTHER,
    MADE_EMPTY, /* a list of nothing */
    MADE_FRAME, /* row, and flags of frames */
    MADE_STACK, /* call site + 1; 0: none */
    MADE_EVENT,
    MADE_BLOCK,
    MADE_SEGMENT,
    MADE_ANNOTATION,
    MADE_HISTORY,
    MADE_EVENTS, /* rows of lists */
    MADE_BLOCKS,
    MADE_SEGMENTS,
    MADE_ANNOTATIONS,
    MADE_TRACES, /* rows of lists as well: a range of `traces` */
    MADE_SNAPSHOT,
};

/* Frames of the recording itself are left out wherever they are, those of the allocator where they are innermost. */
#define FRAME_NOISE (UINT64_C(1) << 32)
#define FRAME_ALLOCATOR (UINT64_C(1) << 33)

#define KEYS(X)                                                                                                        \
    X(SEGMENTS, "segments")                                                                                            \
    X(DEVICE_TRACES, "device_traces")                                                                                  \
    X(ANNOTATIONS, "external_annotations")                                                                             \
    X(HOST_SEGMENTS, "host_segments") X(HOST_TRACES, "host_traces") X(SETTINGS, "max_split_size") X(DEVICE, "device")  \
        X(ADDRESS, "address") X(TOTAL_SIZE, "total_size") X(BLOCKS, "blocks") X(SIZE, "size")                          \
            X(REQUESTED, "requested_size") X(STATE, "state") X(FRAMES, "frames") X(HISTORY, "history")                 \
                X(REAL_SIZE, "real_size") X(ACTION, "action") X(ADDR, "addr") X(TIME_US, "time_us")                    \
                    X(DEVICE_FREE, "device_free") X(METADATA, "user_metadata") X(FILENAME, "filename") X(LINE, "line") \
                        X(NAME, "name") X(STAGE, "stage")

#define WORDS(X)                                                                                                \
    X(ALLOC, "alloc")                                                                                           \
    X(FREE_OLD, "free")                                                                                         \
    X(FREE_REQUESTED, "free_requested")                                                                         \
    X(FREE_COMPLETED, "free_completed") X(SEGMENT_ALLOC, "segment_alloc") X(SEGMENT_FREE, "segment_free")       \
        X(SEGMENT_MAP, "segment_map") X(SEGMENT_UNMAP, "segment_unmap") X(OOM, "oom") X(ANNOTATE, "annotate")   \
            X(ACTIVE, "active_allocated") X(PENDING, "active_pending_free") X(AWAITING, "active_awaiting_free") \
                X(START, "START") X(END, "END")

#define AS_ENUM(name, text) WORD_##name,
enum { WORD_NONE, KEYS(AS_ENUM) WORD_KEYS, WORDS(AS_ENUM) WORD_COUNT };
#undef AS_ENUM
#define AS_TEXT(name, text) [WORD_##name] = text,
static const char *const word_texts[WORD_COUNT] = {KEYS(AS_TEXT) WORDS(AS_TEXT)};
#undef AS_TEXT

typedef struct snapshot_reader {
    stk__builder *b;
    stk__memory_snapshot *s;
    struct {
        stk__string string; /* 0: free */
        uint32_t word;
    } words[KEY_SLOTS]; /* known texts, by their number */
    /* the last stack, outermost frame first: the next one often starts alike */
    uint32_t *frames, *sites;
    size_t depth, frame_capacity, site_capacity;
    bool failed; /* of the store */
    bool nomem;
} snapshot_reader;

/* ---- words ---- */

static size_t word_slot(stk__string s)
{
    return (s * UINT32_C(2654435769)) >> 25; /* 7 bits */
}

static void know_words(snapshot_reader *r)
{
    for (uint32_t word = 1; word < WORD_COUNT; word++) {
        if (!word_texts[word])
            continue;
        const stk__string s = stk__builder_str(r->b, word_texts[word]);
        size_t slot = word_slot(s);
        while (r->words[slot].string)
            slot = (slot + 1) % KEY_SLOTS;
        r->words[slot].string = s;
        r->words[slot].word = word;
    }
}

static uint32_t word_of(const snapshot_reader *r, const stk__pickle_value *v)
{
    if (v->kind != STK__PICKLE_TEXT || !v->u.text)
        return WORD_NONE;
    for (size_t slot = word_slot(v->u.text);; slot = (slot + 1) % KEY_SLOTS) {
        if (r->words[slot].string == v->u.text)
            return r->words[slot].word;
        if (!r->words[slot].string)
            return WORD_NONE;
    }
}

/* ---- values ---- */

/* Values of the known keys of a dict; NULL: it has none. */
typedef struct dict_view {
    const stk__pickle_value *of[WORD_KEYS];
} dict_view;

static void view_dict(const snapshot_reader *r, const stk__pickle_value *items, size_t count, dict_view *out)
{
    *out = (dict_view){0};
    for (size_t i = 0; i + 1 < count; i += 2) {
        const uint32_t word = word_of(r, &items[i]);
        if (word && word < WORD_KEYS)
            out->of[word] = &items[i + 1];
    }
}

static uint64_t made(uint64_t tag, uint64_t row)
{
    return tag << TAG_SHIFT | row;
}

static uint64_t tag_of(const stk__pickle_value *v)
{
    return v && v->kind == STK__PICKLE_MADE ? v->u.made >> TAG_SHIFT : MADE_OTHER;
}

static uint64_t row_of(const stk__pickle_value *v)
{
    return v->u.made & ((UINT64_C(1) << TAG_SHIFT) - 1);
}

static bool is_text(const stk__pickle_value *v)
{
    return v && v->kind == STK__PICKLE_TEXT;
}

static bool natural_of(const stk__pickle_value *v, uint64_t *out)
{
    if (!v || (v->kind != STK__PICKLE_UINT && (v->kind != STK__PICKLE_INT || v->u.integer < 0)))
        return false;
    *out = v->u.natural;
    return true;
}

/* A size that sums of many can take. */
static bool size_of(const stk__pickle_value *v, uint64_t *out)
{
    return natural_of(v, out) && *out < UINT64_C(1) << 50;
}

static int64_t time_of(const stk__pickle_value *v)
{
    return v && v->kind == STK__PICKLE_INT && v->u.integer > -STK__TIME_MAX / 1000 &&
                   v->u.integer < STK__TIME_MAX / 1000
               ? v->u.integer
               : STK__NO_NUMBER;
}

static uint32_t callsite_of(const stk__pickle_value *v)
{
    return tag_of(v) == MADE_STACK && row_of(v) ? (uint32_t)(row_of(v) - 1) : STK__NONE;
}

static int64_t device_of(const stk__pickle_value *v)
{
    uint64_t device;
    return !v || v->kind == STK__PICKLE_NONE                ? 0
           : natural_of(v, &device) && device < DEVICES_MAX ? (int64_t)device
                                                            : -1;
}

/* ---- tables ---- */

static void *add_row(snapshot_reader *r, stk__memory_table *t, size_t bytes)
{
    if (t->count >= STK__MEMORY_EVENTS_MAX ||
        !stk__column_grow(r->b->trace->store, &t->column, (t->count + 1) * bytes)) {
        r->failed = true;
        return NULL;
    }
    return stk__memory_row(t, t->count++, bytes);
}
#define ADD_ROW(r, table, type) ((type *)add_row(r, table, sizeof(type)))

static uint64_t note_bad(snapshot_reader *r, int64_t offset)
{
    stk__builder_note(r->b, STK__REASON_BAD_VALUE, offset);
    return made(MADE_OTHER, 0);
}

/* ---- frames and stacks ---- */

static bool has_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(text, parts[i]))
            return true;
    }
    return false;
}

/* The same list as that of PyTorch's own viewer (torch/cuda/_memory_viz.py). */
static bool is_noise(const char *name, const char *file)
{
    static const char *const names[] = {"unwind::unwind",    "CapturedTraceback::gather",
                                        "gather_with_cpp",   "_start",
                                        "__libc_start_main", "PyEval_",
                                        "PyObject_",         "PyFunction_"};
    static const char *const files[] = {"core/boxing",
                                        "/Register",
                                        "/Redispatch",
                                        "pythonrun.c",
                                        "Modules/main.c",
                                        "Objects/call.c",
                                        "Objects/methodobject.c",
                                        "pycore_ceval.h",
                                        "ceval.c",
                                        "cpython/abstract.h"};
    return has_any(name, names, STK_COUNT(names)) || has_any(file, files, STK_COUNT(files));
}

static uint64_t make_frame(snapshot_reader *r, const dict_view *d)
{
    const stk__pickle_value *line = d->of[WORD_LINE];
    stk__trace_frame frame = {
        .name = d->of[WORD_NAME]->u.text,
        .file = d->of[WORD_FILENAME]->u.text,
        .line = line && line->kind == STK__PICKLE_INT && line->u.integer > 0 && line->u.integer <= INT32_MAX
                    ? (int32_t)line->u.integer
                    : 0,
    };
    size_t size;
    const char *name = stk__builder_get(r->b, frame.name, &size);
    const char *file = stk__builder_get(r->b, frame.file, &size);
    const uint64_t flags =
        (is_noise(name, file) ? FRAME_NOISE : 0) | (strstr(name, "CachingAllocator") ? FRAME_ALLOCATOR : 0);
    if (strcmp(file, "??") == 0)
        frame.file = 0;
    return made(MADE_FRAME, flags | stk__builder_frame(r->b, &frame));
}

/* Call sites from the outermost frame on; `count` frames are in r->frames, of which `alike` have theirs already. */
static uint32_t find_callsite(snapshot_reader *r, size_t alike, size_t count)
{
    for (size_t i = alike; i < count; i++)
        r->sites[i] = stk__builder_callsite(r->b, i ? r->sites[i - 1] : STK__NONE, r->frames[i]);
    r->depth = count;
    return r->sites[count - 1];
}

/* Frames come innermost first. */
static uint64_t make_stack(snapshot_reader *r, const stk__pickle_value *items, size_t count)
{
    size_t inner = 0, depth = 0, alike = 0;
    while (inner < count && row_of(&items[inner]) & (FRAME_NOISE | FRAME_ALLOCATOR))
        inner++;
    if (!stk__grow((void **)&r->frames, &r->frame_capacity, count, sizeof *r->frames) ||
        !stk__grow((void **)&r->sites, &r->site_capacity, count, sizeof *r->sites)) {
        r->nomem = true;
        return made(MADE_STACK, 0);
    }
    for (size_t i = count; i-- > inner;) {
        if (row_of(&items[i]) & FRAME_NOISE)
            continue;
        const uint32_t frame = (uint32_t)row_of(&items[i]);
        if (alike == depth && depth < r->depth && r->frames[depth] == frame)
            alike++;
        r->frames[depth++] = frame;
    }
    return made(MADE_STACK, depth ? (uint64_t)find_callsite(r, alike, depth) + 1 : 0);
}

/* ---- dicts ---- */

static uint32_t action_of(uint32_t word)
{
    switch (word) {
    case WORD_ALLOC:
        return STK__MEMORY_ALLOC;
    case WORD_FREE_REQUESTED:
        return STK__MEMORY_FREE_REQUESTED;
    case WORD_FREE_OLD:
    case WORD_FREE_COMPLETED:
        return STK__MEMORY_FREE;
    case WORD_SEGMENT_ALLOC:
    case WORD_SEGMENT_MAP:
        return STK__MEMORY_RESERVE;
    case WORD_SEGMENT_FREE:
    case WORD_SEGMENT_UNMAP:
        return STK__MEMORY_RELEASE;
    case WORD_OOM:
        return STK__MEMORY_OOM;
    default:
        return STK__MEMORY_OTHER;
    }
}

static uint64_t make_event(snapshot_reader *r, const dict_view *d, int64_t offset)
{
    const uint32_t word = word_of(r, d->of[WORD_ACTION]);
    const uint32_t action = action_of(word);
    const stk__pickle_value *address = d->of[WORD_ADDR] ? d->of[WORD_ADDR] : d->of[WORD_DEVICE_FREE];
    const stk__pickle_value *text = d->of[WORD_METADATA];
    uint64_t at = 0, size = 0;
    const bool has_address = natural_of(address, &at), has_size = size_of(d->of[WORD_SIZE], &size);
    stk__builder_saw(r->b, 1);
    if (action != STK__MEMORY_OTHER && (!has_size || (!has_address && action != STK__MEMORY_OOM)))
        return note_bad(r, offset);
    stk__memory_event *e = ADD_ROW(r, &r->s->events, stk__memory_event);
    if (!e)
        return made(MADE_OTHER, 0);
    *e = (stk__memory_event){
        .address = at,
        .size = size,
        .action = action,
        .time_us = time_of(d->of[WORD_TIME_US]),
        .callsite = callsite_of(d->of[WORD_FRAMES]),
        .other = word == WORD_ANNOTATE && is_text(text) ? text->u.text : d->of[WORD_ACTION]->u.text,
    };
    return made(MADE_EVENT, r->s->events.count - 1);
}

/* Of old files the first entry of the history has the size and the stack. */
static uint64_t make_block(snapshot_reader *r, const dict_view *d, int64_t offset)
{
    const uint32_t state = word_of(r, d->of[WORD_STATE]);
    const stk__pickle_value *address = d->of[WORD_ADDRESS] ? d->of[WORD_ADDRESS] : d->of[WORD_ADDR];
    stk__memory_block block = {.callsite = callsite_of(d->of[WORD_FRAMES]),
                               .active = state == WORD_ACTIVE || state == WORD_PENDING || state == WORD_AWAITING};
    const bool has_size = size_of(d->of[WORD_REQUESTED], &block.size) || size_of(d->of[WORD_SIZE], &block.size);
    if (tag_of(d->of[WORD_HISTORY]) == MADE_HISTORY) {
        const stk__memory_block *h = STK__MEMORY_ROW(&r->s->histories, stk__memory_block, row_of(d->of[WORD_HISTORY]));
        block.size = h->size;
        block.callsite = h->callsite;
    }
    natural_of(address, &block.address);
    if (!has_size)
        return note_bad(r, offset);
    stk__memory_block *row = ADD_ROW(r, &r->s->blocks, stk__memory_block);
    if (!row)
        return made(MADE_OTHER, 0);
    *row = block;
    stk__builder_saw(r->b, 1);
    return made(MADE_BLOCK, r->s->blocks.count - 1);
}

static uint64_t make_history(snapshot_reader *r, const dict_view *d, int64_t offset)
{
    stk__memory_block block = {.callsite = callsite_of(d->of[WORD_FRAMES])};
    if (!size_of(d->of[WORD_REAL_SIZE], &block.size))
        return note_bad(r, offset);
    stk__memory_block *row = ADD_ROW(r, &r->s->histories, stk__memory_block);
    if (!row)
        return made(MADE_OTHER, 0);
    *row = block;
    return made(MADE_HISTORY, r->s->histories.count - 1);
}

/* The rows that a value stands for; none when it is something else. */
static stk__memory_rows rows_of(const snapshot_reader *r, const stk__pickle_value *v, uint64_t tag)
{
    if (tag_of(v) != tag)
        return (stk__memory_rows){0};
    return *STK__MEMORY_ROW(&r->s->lists, stk__memory_rows, row_of(v));
}

static uint64_t make_segment(snapshot_reader *r, const dict_view *d, int64_t offset)
{
    const stk__memory_rows blocks = rows_of(r, d->of[WORD_BLOCKS], MADE_BLOCKS);
    stk__memory_segment segment = {
        .device = device_of(d->of[WORD_DEVICE]), .first_block = blocks.first, .block_count = blocks.count};
    stk__builder_saw(r->b, 1);
    if (segment.device < 0 || !size_of(d->of[WORD_TOTAL_SIZE], &segment.total_size))
        return note_bad(r, offset);
    stk__memory_segment *row = ADD_ROW(r, &r->s->segments, stk__memory_segment);
    if (!row)
        return made(MADE_OTHER, 0);
    *row = segment;
    return made(MADE_SEGMENT, r->s->segments.count - 1);
}

static uint64_t make_annotation(snapshot_reader *r, const dict_view *d, int64_t offset)
{
    const uint32_t stage = word_of(r, d->of[WORD_STAGE]);
    const stk__memory_annotation a = {
        .device = device_of(d->of[WORD_DEVICE]),
        .time_us = time_of(d->of[WORD_TIME_US]),
        .name = is_text(d->of[WORD_NAME]) ? d->of[WORD_NAME]->u.text : 0,
        .is_end = stage == WORD_END,
    };
    stk__builder_saw(r->b, 1);
    if (a.device < 0 || a.time_us == STK__NO_NUMBER || !a.name || (stage != WORD_START && stage != WORD_END))
        return note_bad(r, offset);
    stk__memory_annotation *row = ADD_ROW(r, &r->s->annotations, stk__memory_annotation);
    if (!row)
        return made(MADE_OTHER, 0);
    *row = a;
    return made(MADE_ANNOTATION, r->s->annotations.count - 1);
}

/* "allocator_settings.NAME" of the values that are no containers. */
static uint64_t make_settings(snapshot_reader *r, const stk__pickle_value *items, size_t count)
{
    stk__text key = STK__TEXT_INIT, value = STK__TEXT_INIT;
    for (size_t i = 0; i + 1 < count; i += 2) {
        const stk__pickle_value *v = &items[i + 1];
        size_t size;
        if (!is_text(&items[i]) || v->kind > STK__PICKLE_TEXT || v->kind == STK__PICKLE_BIG)
            continue;
        stk__text_reset(&key);
        stk__text_reset(&value);
        stk__text_printf(&key, "allocator_settings.%s", stk__builder_get(r->b, items[i].u.text, &size));
        if (v->kind == STK__PICKLE_TEXT)
            stk__text_puts(&value, stk__builder_get(r->b, v->u.text, &size));
        else if (v->kind == STK__PICKLE_FLOAT)
            stk__text_printf(&value, "%g", v->u.real);
        else if (v->kind == STK__PICKLE_BOOL)
            stk__text_puts(&value, v->u.integer ? "true" : "false");
        else if (v->kind == STK__PICKLE_INT)
            stk__text_printf(&value, "%lld", (long long)v->u.integer);
        if (!key.failed && !value.failed && value.length)
            stk__builder_fact(r->b, stk__builder_str(r->b, key.data), stk__builder_str(r->b, value.data));
    }
    r->nomem = r->nomem || key.failed || value.failed;
    stk__text_clear(&key);
    stk__text_clear(&value);
    return made(MADE_OTHER, 0);
}

/* Host memory has one trace; newer files may give it as one list or as a list of lists. */
static stk__memory_rows host_traces(snapshot_reader *r, const stk__pickle_value *v)
{
    if (tag_of(v) != MADE_EVENTS)
        return rows_of(r, v, MADE_TRACES);
    stk__memory_rows *row = ADD_ROW(r, &r->s->traces, stk__memory_rows);
    if (!row)
        return (stk__memory_rows){0};
    *row = rows_of(r, v, MADE_EVENTS);
    return (stk__memory_rows){(uint32_t)r->s->traces.count - 1, 1};
}

static uint64_t make_snapshot(snapshot_reader *r, const dict_view *d)
{
    stk__memory_snapshot *s = r->s;
    s->device_segments = rows_of(r, d->of[WORD_SEGMENTS], MADE_SEGMENTS);
    s->host_segments = rows_of(r, d->of[WORD_HOST_SEGMENTS], MADE_SEGMENTS);
    s->device_traces = rows_of(r, d->of[WORD_DEVICE_TRACES], MADE_TRACES);
    s->host_traces = host_traces(r, d->of[WORD_HOST_TRACES]);
    s->external_annotations = rows_of(r, d->of[WORD_ANNOTATIONS], MADE_ANNOTATIONS);
    return made(MADE_SNAPSHOT, 0);
}

static uint64_t make_dict(snapshot_reader *r, const stk__pickle_value *items, size_t count, int64_t offset)
{
    dict_view d;
    view_dict(r, items, count, &d);
    if (is_text(d.of[WORD_ACTION]))
        return make_event(r, &d, offset);
    if (is_text(d.of[WORD_FILENAME]) && is_text(d.of[WORD_NAME]))
        return make_frame(r, &d);
    if (d.of[WORD_STATE])
        return make_block(r, &d, offset);
    if (d.of[WORD_BLOCKS])
        return make_segment(r, &d, offset);
    if (d.of[WORD_REAL_SIZE])
        return make_history(r, &d, offset);
    if (d.of[WORD_STAGE])
        return make_annotation(r, &d, offset);
    if (d.of[WORD_SEGMENTS] || d.of[WORD_DEVICE_TRACES])
        return make_snapshot(r, &d);
    return d.of[WORD_SETTINGS] ? make_settings(r, items, count) : made(MADE_OTHER, 0);
}

/* ---- lists ---- */

/* Traces of devices: events, or nothing. */
static uint64_t make_traces(snapshot_reader *r, const stk__pickle_value *items, size_t count)
{
    const size_t first = r->s->traces.count;
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        stk__memory_rows *row = ADD_ROW(r, &r->s->traces, stk__memory_rows);
        if (row)
            *row = rows_of(r, &items[i], MADE_EVENTS);
    }
    stk__memory_rows *list = ADD_ROW(r, &r->s->lists, stk__memory_rows);
    if (!list)
        return made(MADE_OTHER, 0);
    *list = (stk__memory_rows){(uint32_t)first, (uint32_t)(r->s->traces.count - first)};
    return made(MADE_TRACES, r->s->lists.count - 1);
}

static bool all_frames(const stk__pickle_value *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tag_of(&items[i]) != MADE_FRAME)
            return false;
    }
    return true;
}

static uint64_t make_list(snapshot_reader *r, const stk__pickle_value *items, size_t count)
{
    if (!count)
        return made(MADE_EMPTY, 0);
    const uint64_t tag = tag_of(&items[0]);
    if (tag == MADE_FRAME && all_frames(items, count))
        return make_stack(r, items, count);
    if (tag == MADE_EVENTS || tag == MADE_EMPTY)
        return make_traces(r, items, count);
    return tag == MADE_HISTORY ? items[0].u.made : made(MADE_OTHER, 0);
}

static uint64_t make_any(void *arg, stk__pickle_kind kind, const stk__pickle_value *items, size_t count, int64_t offset)
{
    snapshot_reader *r = arg;
    if (kind == STK__PICKLE_DICT)
        return make_dict(r, items, count, offset);
    return kind == STK__PICKLE_LIST || kind == STK__PICKLE_TUPLE ? make_list(r, items, count) : made(MADE_OTHER, 0);
}

/* Which lists of rows there are. */
static uint64_t list_tag(uint64_t tag)
{
    static const uint8_t lists[MADE_SNAPSHOT + 1] = {[MADE_EVENT] = MADE_EVENTS,
                                                     [MADE_BLOCK] = MADE_BLOCKS,
                                                     [MADE_SEGMENT] = MADE_SEGMENTS,
                                                     [MADE_ANNOTATION] = MADE_ANNOTATIONS};
    return tag <= MADE_SNAPSHOT ? lists[tag] : MADE_OTHER;
}

/*
 * Dicts became rows in the order in which they stand in their list. One that is in two lists, or twice in one, breaks
 * that; PyTorch writes no such thing, and it is left out. So is what could not be read.
 */
static bool take_rows(void *arg, uint64_t *list, const stk__pickle_value *items, size_t count)
{
    snapshot_reader *r = arg;
    size_t skip = 0;
    while (!*list && skip < count && tag_of(&items[skip]) == MADE_OTHER && items[skip].kind == STK__PICKLE_MADE)
        skip++;
    const uint64_t tag = *list ? *list >> TAG_SHIFT : skip < count ? list_tag(tag_of(&items[skip])) : MADE_OTHER;
    if (!tag)
        return false;
    if (!*list) {
        stk__memory_rows *fresh = ADD_ROW(r, &r->s->lists, stk__memory_rows);
        if (!fresh)
            return false;
        *fresh = (stk__memory_rows){(uint32_t)row_of(&items[skip]), 0};
        *list = made(tag, r->s->lists.count - 1);
    }
    const size_t number = (size_t)(*list & ((UINT64_C(1) << TAG_SHIFT) - 1));
    stk__memory_rows *rows = STK__MEMORY_ROW(&r->s->lists, stk__memory_rows, number);
    for (size_t i = skip; i < count; i++) {
        if (list_tag(tag_of(&items[i])) == tag && row_of(&items[i]) == (uint64_t)rows->first + rows->count)
            rows->count++;
        else if (tag_of(&items[i]) != MADE_OTHER)
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, -1);
    }
    return true;
}

static uint32_t keep_text(void *arg, const char *bytes, size_t size, int64_t offset)
{
    const snapshot_reader *r = arg;
    return stk__builder_text(r->b, bytes, size, offset);
}

/* ---- the file ---- */

static stk_status not_a_snapshot(const snapshot_reader *r, const stk__pickle *m, stk_error *err)
{
    const stk__pickle_value *v = &m->result;
    size_t size;
    if (m->state == STK__PICKLE_BAD)
        return stk_error_set(err, STK_CORRUPT, "a pickle that cannot be read: byte %lld: %s",
                             (long long)stk__pickle_offset(m), m->message);
    if (v->kind == STK__PICKLE_OPAQUE && v->u.module)
        return stk_error_set(
            err, STK_UNSUPPORTED,
            "a pickle that makes something by calling %.200s.%.200s, not a memory snapshot of PyTorch; "
            "nothing of it was run",
            stk__builder_get(r->b, v->u.module, &size), stk__builder_get(r->b, v->u.text, &size));
    if (m->state == STK__PICKLE_CUT)
        return stk_error_set(err, STK_CORRUPT, "a pickle that is cut off before anything of a memory snapshot");
    return stk_error_set(
        err, STK_UNSUPPORTED,
        "a pickle, but not a memory snapshot of PyTorch: wanted a dict with segments and device_traces");
}

static stk_status read_pickle(snapshot_reader *r, stk__pickle *m, stk__input *in, stk_error *err)
{
    while (stk__pickle_run(m, RUN_OPERATIONS) == STK__PICKLE_MORE && !r->failed && !r->nomem) {
        stk__memory_trim(r->s);
        STK_TRY(stk__reader_progress(r->b, in, err));
    }
    STK_TRY(stk__builder_status(r->b, err));
    if (m->state == STK__PICKLE_FAILED || r->failed) {
        const stk_error *failure = &r->b->trace->store->error;
        if (failure->status == STK_OK)
            return stk_error_set(err, STK_UNSUPPORTED, "more than 4,294,967,293 entries or blocks");
        if (err)
            *err = *failure;
        return failure->status;
    }
    if (r->nomem)
        return stk__nomem(r->frame_capacity * sizeof *r->frames, err);
    if (tag_of(&m->result) == MADE_SEGMENTS) {
        r->s->is_list = true;
        r->s->device_segments = rows_of(r, &m->result, MADE_SEGMENTS);
    } else if (tag_of(&m->result) != MADE_SNAPSHOT) {
        return not_a_snapshot(r, m, err);
    }
    if (m->state != STK__PICKLE_DONE)
        stk__builder_note(r->b, m->state == STK__PICKLE_CUT ? STK__REASON_TRUNCATED : STK__REASON_SYNTAX,
                          stk__pickle_offset(m));
    if (m->late)
        stk__builder_notes(r->b, STK__REASON_BAD_REFERENCE, m->late, m->late_offset);
    return STK_OK;
}

static stk_status snapshot_read(stk__builder *b, stk__input *in, stk_error *err)
{
    stk__memory_snapshot s = {0};
    snapshot_reader r = {.b = b, .s = &s};
    stk__store *store = b->trace->store;
    const stk__pickle_client client = {&r, keep_text, make_any, take_rows};
    stk__pickle m;
    know_words(&r);
    stk__pickle_init(&m, in, store, &client);
    stk_status status = read_pickle(&r, &m, in, err);
    stk__pickle_clear(&m);
    if (status == STK_OK)
        status = stk__memory_emit(b, in, &s, err);
    stk__memory_table *const tables[] = {&s.events,    &s.blocks, &s.segments, &s.annotations,
                                         &s.histories, &s.lists,  &s.traces};
    for (size_t i = 0; i < STK_COUNT(tables); i++)
        stk__column_clear(store, &tables[i]->column);
    stk__free(r.frames);
    stk__free(r.sites);
    return status;
}

/* Any pickle of a protocol with a number is for this reader to answer; older ones only when the keys are there. */
static int snapshot_detect(const uint8_t *data, size_t size, bool whole)
{
    if (size < 2)
        return 0;
    const bool numbered = data[0] == 0x80 && data[1] >= 2 && data[1] <= 5;
    const bool old = ((data[0] == '}' || data[0] == ']') && memchr("q(", data[1], 2)) ||
                     (size > 2 && (memcmp(data, "(dp", 3) == 0 || memcmp(data, "(lp", 3) == 0)) ||
                     (size > 12 && memcmp(data, "ccollections\n", 13) == 0);
    if (!numbered && !old)
        return 0;
    if (stk__bytes_contain(data, size, "device_traces") || stk__bytes_contain(data, size, "total_size"))
        return 100;
    return numbered ? 60 : 0;
}

const stk__reader stk__reader_snapshot = {
    .name = "snapshot",
    .summary = "PyTorch memory snapshots (pickle)",
    .detect = snapshot_detect,
    .read = snapshot_read,
};
