/* The builder: rows as they come, interned strings, and tables of processes, threads and tracks. */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include <xxhash.h>

#include "base/banned.h"

#define ROWS_MAX (UINT32_MAX - 1)

/* Bytes of a row in all its columns, about. */
enum { TRIM_BYTES = 16 << 20, SLICE_BYTES = 33, COUNTER_BYTES = 20, POINT_BYTES = 21, SAMPLE_BYTES = 28 };

static uint64_t word(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* ---- failures and room ---- */

void stk__builder_fail(stk__builder *b, const stk_error *err)
{
    if (b->status)
        return;
    b->error = *err;
    b->status = err->status ? err->status : STK_NOMEM;
    memset(b->room, 0, sizeof b->room);
}

static void fail_nomem(stk__builder *b, size_t size)
{
    stk_error err;
    stk_error_clear(&err);
    stk__nomem(size, &err);
    stk__builder_fail(b, &err);
}

bool stk__builder_room(stk__builder *b, int column, size_t rows)
{
    stk__store *s = b->trace->store;
    stk__column *c = &s->columns[column];
    const size_t bytes = rows * stk__column_infos[column].item_bytes;
    if (STK_LIKELY(bytes <= c->capacity))
        return true;
    if (b->status)
        return false;
    if (!stk__column_grow(s, c, bytes)) {
        stk__builder_fail(b, &s->error);
        return false;
    }
    *stk__column_pointer(b->trace, column) = c->data;
    return true;
}

static bool room(stk__builder *b, int first_column, int columns, size_t rows)
{
    if (STK_UNLIKELY(b->status))
        return false;
    if (STK_UNLIKELY(rows > ROWS_MAX)) {
        stk_error err;
        stk_error_clear(&err);
        stk_error_set(&err, STK_UNSUPPORTED, "more than %lu rows of %s", (unsigned long)ROWS_MAX,
                      stk__column_infos[first_column].name);
        stk__builder_fail(b, &err);
        return false;
    }
    for (int i = 0; i < columns; i++) {
        if (STK_UNLIKELY(!stk__builder_room(b, first_column + i, rows)))
            return false;
    }
    return true;
}

static STK_NOINLINE bool grow_group(stk__builder *b, int group, size_t rows)
{
    static const struct {
        int first, last, other; /* columns from first to last, and one more; -1: none */
    } groups[STK__GROW_GROUPS] = {
        [STK__GROW_SLICES] = {STK__COLUMN_slices_ts, STK__COLUMN_slices_args, STK__COLUMN_slices_flags},
        [STK__GROW_ARGS] = {STK__COLUMN_args_key, STK__COLUMN_args_value, -1},
        [STK__GROW_COUNTERS] = {STK__COLUMN_counters_ts, STK__COLUMN_counters_value, -1},
        [STK__GROW_POINTS] = {STK__COLUMN_points_ts, STK__COLUMN_points_slice, -1},
        [STK__GROW_SAMPLES] = {STK__COLUMN_samples_ts, STK__COLUMN_samples_event, -1},
    };
    const stk__column *columns = b->trace->store->columns;
    const int first = groups[group].first, last = groups[group].last, other = groups[group].other;
    if (!room(b, first, last - first + 1, rows) || (other >= 0 && !stk__builder_room(b, other, rows)))
        return false;
    size_t least = ROWS_MAX;
    for (int c = first; c <= last; c++)
        least = STK_MIN(least, columns[c].capacity / stk__column_infos[c].item_bytes);
    if (other >= 0)
        least = STK_MIN(least, columns[other].capacity / stk__column_infos[other].item_bytes);
    b->room[group] = least;
    return true;
}

/* Room for one more row behind `count` of a group. */
static inline bool more_room(stk__builder *b, int group, size_t count)
{
    return STK_LIKELY(count < b->room[group]) || grow_group(b, group, count + 1);
}

/* Behind each event: columns past the cap go back to their file once enough bytes came. */
static void count_row(stk__builder *b, size_t bytes)
{
    b->since_trim += bytes;
    if (STK_UNLIKELY(b->since_trim >= TRIM_BYTES)) {
        b->since_trim = 0;
        stk__store_trim(b->trace->store);
    }
}

/* Room for one more row of a table; the row is zeroed. NULL after a failure. */
static void *add_row(stk__builder *b, int table, size_t *count)
{
    if (!room(b, table, 1, *count + 1))
        return NULL;
    const size_t size = stk__column_infos[table].item_bytes;
    void *row = (char *)*stk__column_pointer(b->trace, table) + *count * size;
    memset(row, 0, size);
    (*count)++;
    return row;
}

/* ---- life ---- */

static void add_empty_rows(stk__builder *b)
{
    stk__trace *t = b->trace;
    /* string 0 is empty; arg 0 is unused */
    if (!room(b, STK__STRING_OFFSETS, 1, 2) || !room(b, STK__STRING_BYTES, 1, 1) ||
        !room(b, STK__COLUMN_args_key, 3, 1))
        return;
    t->string_offset[0] = 0;
    t->string_offset[1] = 1;
    t->string_bytes[0] = '\0';
    t->string_count = 1;
    t->args.key[0] = 0;
    t->args.type[0] = STK__ARG_NULL | STK__ARG_LAST;
    t->args.value[0].integer = 0;
    t->args.count = 1;
    b->first_arg = 1;
}

stk_status stk__builder_new(const stk__trace_options *options, stk__builder **out, stk_error *err)
{
    stk__builder *b = stk__calloc(1, sizeof *b);
    stk__trace *t = stk__calloc(1, sizeof *t);
    stk__store *s = stk__store_new(options ? options->memory_bytes : 0, options ? options->temp_dir : NULL);
    if (!b || !t || !s) {
        stk__free(b);
        stk__free(t);
        stk__store_free(s);
        return stk__nomem(sizeof *b, err);
    }
    t->store = s;
    b->trace = t;
    b->offset = -1;
    b->file = STK__NONE;
    stk_error_clear(&b->error);
    if (options)
        b->options = *options;
    add_empty_rows(b);
    if (b->status) {
        const stk_status status = stk__builder_status(b, err);
        stk__builder_free(b);
        return status;
    }
    *out = b;
    return STK_OK;
}

void stk__builder_free(stk__builder *b)
{
    if (!b)
        return;
    stk__trace_free(b->trace);
    for (size_t i = 0; i < STK__KEYS; i++)
        stk__rowmap_clear(&b->maps[i]);
    stk__free(b->slots);
    stk__free(b->key_row);
    stk__free(b->track_raw);
    stk__free(b->path);
    stk__free(b);
}

stk_status stk__builder_status(const stk__builder *b, stk_error *err)
{
    if (b->status && err)
        *err = b->error;
    return b->status;
}

/* ---- strings ---- */

static bool grow_slots(stk__builder *b)
{
    const size_t count = b->slot_count ? b->slot_count * 2 : 1024;
    stk__string_slot *slots = stk__calloc(count, sizeof *slots);
    if (!slots) {
        fail_nomem(b, count * sizeof *slots);
        return false;
    }
    for (size_t i = 0; i < b->slot_count; i++) {
        if (!b->slots[i].string)
            continue;
        size_t at = b->slots[i].hash & (count - 1);
        while (slots[at].string)
            at = (at + 1) & (count - 1);
        slots[at] = b->slots[i];
    }
    stk__free(b->slots);
    b->slots = slots;
    b->slot_count = count;
    return true;
}

static stk__string add_string(stk__builder *b, const char *text, size_t size)
{
    stk__trace *t = b->trace;
    const uint64_t at = t->string_offset[t->string_count];
    if (!room(b, STK__STRING_OFFSETS, 1, (size_t)t->string_count + 2))
        return 0;
    if (!stk__builder_room(b, STK__STRING_BYTES, at + size + 1))
        return 0;
    memcpy(t->string_bytes + at, text, size);
    t->string_bytes[at + size] = '\0';
    t->string_offset[t->string_count + 1] = at + size + 1;
    b->since_trim += size + sizeof *t->string_offset;
    return t->string_count++;
}

stk__string stk__builder_string(stk__builder *b, const char *text, size_t size)
{
    if (!size)
        return 0;
    if ((size_t)b->trace->string_count * 3 >= b->slot_count * 2 && (b->status || !grow_slots(b)))
        return 0;
    const stk__trace *t = b->trace;
    const uint64_t hash64 = XXH3_64bits(text, size);
    const uint32_t hash = (uint32_t)(hash64 ^ hash64 >> 32);
    size_t at = hash & (b->slot_count - 1);
    for (; b->slots[at].string; at = (at + 1) & (b->slot_count - 1)) {
        const stk__string s = b->slots[at].string;
        if (b->slots[at].hash == hash && t->string_offset[s + 1] - t->string_offset[s] == size + 1 &&
            memcmp(t->string_bytes + t->string_offset[s], text, size) == 0)
            return s;
    }
    const stk__string s = add_string(b, text, size);
    if (s)
        b->slots[at] = (stk__string_slot){hash, s};
    return s;
}

stk__string stk__builder_str(stk__builder *b, const char *text)
{
    return stk__builder_string(b, text, strlen(text));
}

static size_t valid_prefix(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        const size_t length = stk__utf8_length((const unsigned char *)text + i, size - i);
        if (!length)
            break;
        i += length;
    }
    return i;
}

stk__string stk__builder_text(stk__builder *b, const char *text, size_t size, int64_t offset)
{
    size_t good = valid_prefix(text, size);
    if (STK_LIKELY(good == size))
        return stk__builder_string(b, text, size);
    stk__builder_note(b, STK__REASON_TEXT, offset);
    stk__text mended = STK__TEXT_INIT;
    while (size) {
        stk__text_write(&mended, text, good);
        text += good;
        size -= good;
        if (size) {
            stk__text_puts(&mended, "\xef\xbf\xbd");
            text++;
            size--;
        }
        good = valid_prefix(text, size);
    }
    if (mended.failed)
        fail_nomem(b, mended.length);
    const stk__string s = mended.failed ? 0 : stk__builder_string(b, mended.data, mended.length);
    stk__text_clear(&mended);
    return s;
}

const char *stk__builder_get(const stk__builder *b, stk__string s, size_t *out_size)
{
    return stk__trace_text(b->trace, s, out_size);
}

/* ---- files and notes ---- */

uint32_t stk__builder_start_file(stk__builder *b, const char *path, const char *format)
{
    const stk__string path_string = stk__builder_text(b, path, strlen(path), -1);
    const stk__string format_string = stk__builder_str(b, format);
    stk__trace_file *f = add_row(b, STK__TABLE_files, &b->trace->file_count);
    if (!f)
        return 0;
    f->path = path_string;
    f->format = format_string;
    f->realtime_ns = STK__NO_NUMBER;
    f->rank = -1;
    b->file = (uint32_t)(b->trace->file_count - 1);
    b->offset = -1;
    stk__free(b->path);
    b->path = stk__strdup(path);
    return b->file;
}

stk__trace_file *stk__builder_file(stk__builder *b)
{
    return &b->trace->files[b->file];
}

void stk__builder_fact(stk__builder *b, stk__string key, stk__string value)
{
    stk__trace_fact *f = add_row(b, STK__TABLE_facts, &b->trace->fact_count);
    if (f)
        *f = (stk__trace_fact){b->file, key, value};
}

/* ---- keys of rows ---- */

static stk__key process_key(uint32_t file, int64_t pid, stk__string pid_text)
{
    return (stk__key){{file, pid_text ? 0 : (uint64_t)pid, pid_text}};
}

static stk__key thread_key(uint32_t process, int64_t tid, stk__string tid_text)
{
    return (stk__key){{process, tid_text ? 0 : (uint64_t)tid, tid_text}};
}

/* Readers may name tracks of threads and give counters a unit later; the rest of a key stays. */
static stk__key track_key(const stk__trace_track *k)
{
    stk__key key = {{word(k->kind, k->file), word(k->process, k->thread), 0, 0}};
    if (k->kind == STK__TRACK_ASYNC)
        key.word[3] = k->scope;
    if (k->kind == STK__TRACK_ASYNC || k->kind == STK__TRACK_COUNTER)
        key.word[2] = word(k->id, k->name);
    return key;
}

static stk__key flow_key(const stk__trace_flow_key *f)
{
    return (stk__key){{f->file, word(f->name, f->category), f->id}};
}

static stk__key frame_key(const stk__trace_frame *f)
{
    return (stk__key){{word(f->flags, f->name), word(f->file, f->module), (uint32_t)f->line}};
}

static stk__key row_key(const stk__trace *t, int kind, uint32_t row)
{
    switch (kind) {
    case STK__KEY_PROCESS:
        return process_key(t->processes[row].file, t->processes[row].pid, t->processes[row].pid_text);
    case STK__KEY_THREAD:
        return thread_key(t->threads[row].process, t->threads[row].tid, t->threads[row].tid_text);
    case STK__KEY_TRACK:
        return track_key(&t->tracks[row]);
    case STK__KEY_FLOW:
        return flow_key(&t->flow_keys[row]);
    case STK__KEY_FRAME:
        return frame_key(&t->frames[row]);
    case STK__KEY_CALLSITE:
        return (stk__key){{t->callsites[row].parent, t->callsites[row].frame, 0}};
    default:
        return (stk__key){{t->notes[row].file, t->notes[row].reason, 0}};
    }
}

typedef struct keyed_table {
    const stk__trace *trace;
    int kind;
} keyed_table;

static stk__key keyed_row(const void *table, uint32_t row)
{
    const keyed_table *k = table;
    return row_key(k->trace, k->kind, row);
}

/* The row of a key in a table, made by add_row when it is new; STK__NONE after a failure. */
static uint32_t find_or_add(stk__builder *b, int kind, stk__key key, int table, size_t *count, void **out_new)
{
    bool is_new;
    uint32_t row;
    *out_new = NULL;
    if (b->status)
        return STK__NONE;
    const keyed_table keyed = {b->trace, kind};
    if (!room(b, table, 1, *count + 1)) /* first, so that a row in the map is one in the table */
        return STK__NONE;
    if (!stk__rowmap_place(&b->maps[kind], key, keyed_row, &keyed, (uint32_t)*count, &row, &is_new)) {
        fail_nomem(b, b->maps[kind].capacity * 2 * sizeof *b->maps[kind].entries);
        return STK__NONE;
    }
    if (is_new)
        *out_new = add_row(b, table, count);
    return row;
}

void stk__builder_note_file(stk__builder *b, uint32_t file, stk__trace_reason reason, uint64_t count, int64_t offset)
{
    const stk__key key = {{file, reason, 0}};
    void *fresh;
    const uint32_t row = find_or_add(b, STK__KEY_NOTE, key, STK__TABLE_notes, &b->trace->note_count, &fresh);
    if (row == STK__NONE)
        return;
    stk__trace_note *n = &b->trace->notes[row];
    if (fresh)
        *n = (stk__trace_note){file, reason, 0, offset};
    n->count += count;
    if (n->offset < 0 || (offset >= 0 && offset < n->offset))
        n->offset = offset;
}

void stk__builder_notes(stk__builder *b, stk__trace_reason reason, uint64_t count, int64_t offset)
{
    stk__builder_note_file(b, b->file, reason, count, offset);
}

void stk__builder_note(stk__builder *b, stk__trace_reason reason, int64_t offset)
{
    stk__builder_note_file(b, b->file, reason, 1, offset);
}

void stk__builder_at(stk__builder *b, int64_t offset)
{
    b->offset = offset;
}

void stk__builder_saw(stk__builder *b, uint64_t events)
{
    if (b->file < b->trace->file_count)
        b->trace->files[b->file].events += events;
}

/* ---- processes, threads, tracks ---- */

uint32_t stk__builder_process(stk__builder *b, int64_t pid, stk__string pid_text)
{
    void *fresh;
    const uint32_t row = find_or_add(b, STK__KEY_PROCESS, process_key(b->file, pid, pid_text), STK__TABLE_processes,
                                     &b->trace->process_count, &fresh);
    if (fresh)
        *(stk__trace_process *)fresh = (stk__trace_process){
            .file = b->file, .pid = pid_text ? 0 : pid, .pid_text = pid_text, .sort_index = STK__NO_NUMBER};
    return row;
}

uint32_t stk__builder_thread(stk__builder *b, uint32_t process, int64_t tid, stk__string tid_text)
{
    void *fresh;
    const uint32_t row = find_or_add(b, STK__KEY_THREAD, thread_key(process, tid, tid_text), STK__TABLE_threads,
                                     &b->trace->thread_count, &fresh);
    if (fresh)
        *(stk__trace_thread *)fresh = (stk__trace_thread){.process = process,
                                                          .tid = tid_text ? 0 : tid,
                                                          .tid_text = tid_text,
                                                          .track = STK__NONE,
                                                          .sort_index = STK__NO_NUMBER};
    return row;
}

/* Rows for calls after a failure, so that readers need no check of their own. */
stk__trace_process *stk__builder_process_at(stk__builder *b, uint32_t process)
{
    static _Thread_local stk__trace_process nowhere;
    return process < b->trace->process_count ? &b->trace->processes[process] : &nowhere;
}

stk__trace_thread *stk__builder_thread_at(stk__builder *b, uint32_t thread)
{
    static _Thread_local stk__trace_thread nowhere;
    return thread < b->trace->thread_count ? &b->trace->threads[thread] : &nowhere;
}

stk__trace_track *stk__builder_track_at(stk__builder *b, uint32_t track)
{
    static _Thread_local stk__trace_track nowhere;
    return track < b->trace->track_count ? &b->trace->tracks[track] : &nowhere;
}

/* A track of the current file by all that `track` says of it. */
static uint32_t find_track(stk__builder *b, stk__trace_track track)
{
    track.file = b->file;
    track.parent = STK__NONE;
    void *fresh;
    const uint32_t row =
        find_or_add(b, STK__KEY_TRACK, track_key(&track), STK__TABLE_tracks, &b->trace->track_count, &fresh);
    if (fresh)
        *(stk__trace_track *)fresh = track;
    return row;
}

uint32_t stk__builder_thread_track(stk__builder *b, uint32_t thread)
{
    const stk__trace_thread *row = stk__builder_thread_at(b, thread);
    if (thread < b->trace->thread_count && row->track != STK__NONE)
        return row->track;
    const uint32_t track =
        find_track(b, (stk__trace_track){.kind = STK__TRACK_THREAD, .process = row->process, .thread = thread});
    stk__builder_thread_at(b, thread)->track = track;
    return track;
}

uint32_t stk__builder_process_track(stk__builder *b, uint32_t process)
{
    return find_track(b, (stk__trace_track){.kind = STK__TRACK_PROCESS, .process = process, .thread = STK__NONE});
}

uint32_t stk__builder_global_track(stk__builder *b)
{
    return find_track(b, (stk__trace_track){.kind = STK__TRACK_GLOBAL, .process = STK__NONE, .thread = STK__NONE});
}

uint32_t stk__builder_async_track(stk__builder *b, uint32_t process, stk__string scope, stk__string id,
                                  stk__string name)
{
    return find_track(
        b,
        (stk__trace_track){
            .kind = STK__TRACK_ASYNC, .process = process, .thread = STK__NONE, .scope = scope, .id = id, .name = name});
}

uint32_t stk__builder_counter_track(stk__builder *b, uint32_t process, uint32_t thread, stk__string name)
{
    return find_track(
        b, (stk__trace_track){.kind = STK__TRACK_COUNTER, .process = process, .thread = thread, .name = name});
}

uint32_t stk__builder_new_track(stk__builder *b, const stk__trace_track *track)
{
    stk__trace_track *k = add_row(b, STK__TABLE_tracks, &b->trace->track_count);
    if (!k)
        return STK__NONE;
    *k = *track;
    k->file = b->file;
    return (uint32_t)(b->trace->track_count - 1);
}

uint32_t stk__builder_lane(stk__builder *b, uint32_t track, uint32_t lane)
{
    stk__trace_track *k = add_row(b, STK__TABLE_tracks, &b->trace->track_count);
    if (!k)
        return STK__NONE;
    *k = b->trace->tracks[track];
    k->parent = track;
    k->lane = lane;
    return (uint32_t)(b->trace->track_count - 1);
}

/* ---- args ---- */

static uint32_t *key_place(stk__builder *b, stk__string key)
{
    if (STK_UNLIKELY(key >= b->key_rows)) {
        const size_t before = b->key_rows;
        if (!stk__grow((void **)&b->key_row, &b->key_rows, (size_t)b->trace->string_count + 1, sizeof *b->key_row)) {
            fail_nomem(b, (size_t)b->trace->string_count * sizeof *b->key_row);
            return NULL;
        }
        memset(b->key_row + before, 0, (b->key_rows - before) * sizeof *b->key_row);
    }
    return &b->key_row[key];
}

/* Adds to the args that wait, or changes the one with this key; true: it was there. */
static bool put_arg(stk__builder *b, stk__string key, unsigned type, stk__arg_value value)
{
    stk__args *a = &b->trace->args;
    if (STK_UNLIKELY(key >= b->trace->string_count) || !more_room(b, STK__GROW_ARGS, a->count))
        return false;
    uint32_t *place = key_place(b, key);
    if (!place)
        return false;
    const bool there = *place >= b->first_arg && *place < a->count && a->key[*place] == key;
    if (!there)
        *place = (uint32_t)a->count++;
    a->key[*place] = key;
    a->type[*place] = (uint8_t)type;
    a->value[*place] = value;
    b->since_trim += sizeof *a->key + sizeof *a->type + sizeof *a->value;
    return there;
}

static void add_arg(stk__builder *b, stk__string key, stk__arg_type type, stk__arg_value value)
{
    if (STK_UNLIKELY(put_arg(b, key, type, value)))
        stk__builder_note(b, STK__REASON_DUPLICATE_KEY, b->offset);
}

void stk__builder_arg_int(stk__builder *b, stk__string key, int64_t value)
{
    add_arg(b, key, STK__ARG_INT, (stk__arg_value){.integer = value});
}

void stk__builder_arg_uint(stk__builder *b, stk__string key, uint64_t value)
{
    if (value <= INT64_MAX) {
        stk__builder_arg_int(b, key, (int64_t)value);
        return;
    }
    char digits[24];
    stk__text text;
    stk__text_fixed(&text, digits, sizeof digits);
    stk__text_printf(&text, "%llu", (unsigned long long)value);
    stk__builder_arg_json(b, key, stk__builder_string(b, digits, text.length));
}

void stk__builder_arg_double(stk__builder *b, stk__string key, double value)
{
    add_arg(b, key, STK__ARG_DOUBLE, (stk__arg_value){.real = value});
}

void stk__builder_arg_bool(stk__builder *b, stk__string key, bool value)
{
    add_arg(b, key, STK__ARG_BOOL, (stk__arg_value){.integer = value});
}

void stk__builder_arg_null(stk__builder *b, stk__string key)
{
    add_arg(b, key, STK__ARG_NULL, (stk__arg_value){.integer = 0});
}

void stk__builder_arg_string(stk__builder *b, stk__string key, stk__string value)
{
    add_arg(b, key, STK__ARG_STRING, (stk__arg_value){.string = value});
}

void stk__builder_arg_json(stk__builder *b, stk__string key, stk__string value)
{
    add_arg(b, key, STK__ARG_JSON, (stk__arg_value){.string = value});
}

void stk__builder_drop_args(stk__builder *b)
{
    b->trace->args.count = b->first_arg;
}

/* The args that wait, as a set; 0: none. */
static uint32_t take_args(stk__builder *b)
{
    stk__args *a = &b->trace->args;
    if (a->count == b->first_arg)
        return 0;
    const uint32_t first = b->first_arg;
    a->type[a->count - 1] |= STK__ARG_LAST;
    b->first_arg = (uint32_t)a->count;
    return first;
}

/* Whether a waiting arg has this key and another value than the one in `row`. */
static bool differs(const stk__builder *b, uint32_t row)
{
    const stk__args *a = &b->trace->args;
    const stk__string key = a->key[row];
    const uint32_t there = key < b->key_rows ? b->key_row[key] : 0;
    if (there < b->first_arg || there >= a->count || a->key[there] != key)
        return false;
    return ((a->type[there] ^ a->type[row]) & STK__ARG_TYPE) != 0 || a->value[there].string != a->value[row].string;
}

uint32_t stk__builder_join_args(stk__builder *b, uint32_t first, uint32_t second, uint32_t file, int64_t offset)
{
    b->loose_args |= second != 0;
    if (!first || !second)
        return first | second;
    const uint32_t sets[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        const stk__args *a = &b->trace->args;
        uint32_t row = sets[i];
        unsigned type;
        do {
            type = a->type[row];
            if (i && differs(b, row))
                stk__builder_note_file(b, file, STK__REASON_DUPLICATE_KEY, 1, offset);
            put_arg(b, a->key[row], type & STK__ARG_TYPE, a->value[row]);
            row++;
        } while (!(type & STK__ARG_LAST) && !b->status);
    }
    return take_args(b);
}

/* ---- events ---- */

static bool time_fits(int64_t ts)
{
    return ts >= -STK__TIME_MAX && ts <= STK__TIME_MAX;
}

/* A time that is out of range, or a track that could not be made: the event is left out. */
static bool refuse(stk__builder *b, uint32_t track, int64_t ts)
{
    if (STK_LIKELY(time_fits(ts) && track < b->trace->track_count))
        return false;
    stk__builder_drop_args(b);
    if (!b->status)
        stk__builder_note(b, time_fits(ts) ? STK__REASON_BAD_REFERENCE : STK__REASON_NO_TIME, b->offset);
    return true;
}

static void add_slice(stk__builder *b, uint32_t track, int64_t ts, int64_t dur, stk__string name, stk__string category,
                      unsigned flags)
{
    stk__slices *s = &b->trace->slices;
    const size_t row = s->count;
    if (!more_room(b, STK__GROW_SLICES, row))
        return;
    s->ts[row] = ts;
    s->dur[row] = dur;
    s->track[row] = track;
    s->name[row] = name;
    s->category[row] = category;
    s->args[row] = take_args(b);
    s->flags[row] = (uint8_t)flags;
    s->count = row + 1;
    count_row(b, SLICE_BYTES);
}

void stk__builder_slice(stk__builder *b, uint32_t track, int64_t ts, int64_t dur, stk__string name,
                        stk__string category, int64_t offset)
{
    b->offset = offset;
    if (STK_UNLIKELY(refuse(b, track, ts)))
        return;
    unsigned flags = 0;
    if (STK_UNLIKELY(dur < 0)) {
        stk__builder_note(b, STK__REASON_NEGATIVE_DURATION, offset);
        dur = 0;
        flags = STK__SLICE_CLAMPED;
    } else if (STK_UNLIKELY(dur > STK__TIME_MAX || ts + dur > STK__TIME_MAX)) {
        stk__builder_note(b, STK__REASON_LONG_DURATION, offset);
        dur = ts > 0 ? STK__TIME_MAX - ts : STK__TIME_MAX;
        flags = STK__SLICE_CLAMPED;
    }
    add_slice(b, track, ts, dur, name, category, flags);
}

/* Notes which tracks have begins and ends, so that the others need no pairing. */
static bool mark_raw(stk__builder *b, uint32_t track)
{
    if (STK_UNLIKELY(track >= b->track_raw_capacity)) {
        const size_t before = b->track_raw_capacity;
        if (!stk__grow((void **)&b->track_raw, &b->track_raw_capacity, b->trace->track_count, 1)) {
            fail_nomem(b, b->trace->track_count);
            return false;
        }
        memset(b->track_raw + before, 0, b->track_raw_capacity - before);
    }
    b->track_raw[track] = 1;
    return true;
}

void stk__builder_begin(stk__builder *b, uint32_t track, int64_t ts, stk__string name, stk__string category)
{
    if (!refuse(b, track, ts) && mark_raw(b, track))
        add_slice(b, track, ts, b->offset, name, category, STK__RAW_BEGIN);
}

void stk__builder_end(stk__builder *b, uint32_t track, int64_t ts, stk__string name)
{
    if (!refuse(b, track, ts) && mark_raw(b, track))
        add_slice(b, track, ts, b->offset, name, 0, STK__RAW_END);
}

void stk__builder_instant(stk__builder *b, uint32_t track, int64_t ts, stk__string name, stk__string category)
{
    if (!refuse(b, track, ts))
        add_slice(b, track, ts, 0, name, category, STK__SLICE_INSTANT);
}

void stk__builder_counter(stk__builder *b, uint32_t track, int64_t ts, double value)
{
    stk__counters *c = &b->trace->counters;
    const size_t row = c->count;
    stk__builder_drop_args(b);
    if (refuse(b, track, ts) || !more_room(b, STK__GROW_COUNTERS, row))
        return;
    c->ts[row] = ts;
    c->track[row] = track;
    c->value[row] = value;
    c->count = row + 1;
    count_row(b, COUNTER_BYTES);
}

void stk__builder_flow(stk__builder *b, uint32_t track, int64_t ts, unsigned phase, stk__string name,
                       stk__string category, stk__string id)
{
    stk__flow_points *p = &b->trace->points;
    const size_t row = p->count;
    stk__builder_drop_args(b);
    if (refuse(b, track, ts) || !more_room(b, STK__GROW_POINTS, row))
        return;
    const stk__trace_flow_key flow_row = {b->file, name, category, id};
    void *fresh;
    const uint32_t flow =
        find_or_add(b, STK__KEY_FLOW, flow_key(&flow_row), STK__TABLE_flow_keys, &b->trace->flow_key_count, &fresh);
    if (flow == STK__NONE)
        return;
    if (fresh)
        *(stk__trace_flow_key *)fresh = flow_row;
    p->ts[row] = ts;
    p->track[row] = track;
    p->key[row] = flow;
    p->phase[row] = (uint8_t)phase;
    p->slice[row] = STK__NONE;
    p->count = row + 1;
    count_row(b, POINT_BYTES);
}

/* ---- stacks and profiles ---- */

uint32_t stk__builder_frame(stk__builder *b, const stk__trace_frame *frame)
{
    void *fresh;
    const uint32_t row =
        find_or_add(b, STK__KEY_FRAME, frame_key(frame), STK__TABLE_frames, &b->trace->frame_count, &fresh);
    if (fresh)
        *(stk__trace_frame *)fresh = *frame;
    return row;
}

uint32_t stk__builder_callsite(stk__builder *b, uint32_t parent, uint32_t frame)
{
    if (frame >= b->trace->frame_count || (parent != STK__NONE && parent >= b->trace->callsite_count))
        return STK__NONE;
    const stk__key key = {{parent, frame, 0}};
    void *fresh;
    const uint32_t row =
        find_or_add(b, STK__KEY_CALLSITE, key, STK__TABLE_callsites, &b->trace->callsite_count, &fresh);
    if (fresh)
        *(stk__trace_callsite *)fresh = (stk__trace_callsite){parent, frame};
    return row;
}

void stk__builder_sample(stk__builder *b, uint32_t track, int64_t ts, uint32_t callsite, int64_t weight,
                         stk__string event)
{
    stk__samples *s = &b->trace->samples;
    const size_t row = s->count;
    stk__builder_drop_args(b);
    if (refuse(b, track, ts == STK__NO_TIME ? 0 : ts) || !more_room(b, STK__GROW_SAMPLES, row))
        return;
    s->ts[row] = ts;
    s->track[row] = track;
    s->callsite[row] = callsite < b->trace->callsite_count ? callsite : STK__NONE;
    s->weight[row] = weight;
    s->event[row] = event;
    s->count = row + 1;
    count_row(b, SAMPLE_BYTES);
}

uint32_t stk__builder_function(stk__builder *b, const stk__trace_function *function)
{
    if (function->frame >= b->trace->frame_count)
        return STK__NONE;
    stk__trace_function *f = add_row(b, STK__TABLE_functions, &b->trace->function_count);
    if (!f)
        return STK__NONE;
    *f = *function;
    f->file = b->file;
    return (uint32_t)(b->trace->function_count - 1);
}

void stk__builder_call(stk__builder *b, const stk__trace_call *call)
{
    if (call->caller >= b->trace->function_count || call->callee >= b->trace->function_count)
        return;
    stk__trace_call *c = add_row(b, STK__TABLE_calls, &b->trace->call_count);
    if (c)
        *c = *call;
}

void stk__builder_total(stk__builder *b, stk__string track, stk__string name, uint64_t count, uint64_t total_ns,
                        uint64_t lost)
{
    stk__trace_total *t = add_row(b, STK__TABLE_totals, &b->trace->total_count);
    if (t)
        *t = (stk__trace_total){b->file, track, name, count, total_ns, lost};
}

/* ---- the end ---- */

static void bound(int64_t start, int64_t end, bool *any, int64_t *low, int64_t *high)
{
    *low = *any ? STK_MIN(*low, start) : start;
    *high = *any ? STK_MAX(*high, end) : end;
    *any = true;
}

static void find_bounds(stk__trace *t)
{
    bool any = false;
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < t->slices.count; i++)
        bound(t->slices.ts[i], t->slices.ts[i] + t->slices.dur[i], &any, &low, &high);
    for (size_t i = 0; i < t->counters.count; i++)
        bound(t->counters.ts[i], t->counters.ts[i], &any, &low, &high);
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.ts[i] != STK__NO_TIME)
            bound(t->samples.ts[i], t->samples.ts[i], &any, &low, &high);
    }
    t->start_ns = low;
    t->end_ns = high;
}

stk_status stk__builder_finish(stk__builder *b, stk__trace **out, stk_error *err)
{
    stk__builder_drop_args(b);
    stk__finish_join(b);
    stk__finish_slices(b);
    stk__finish_clocks(b);
    stk__finish_args(b);
    stk__finish_points(b);
    stk__finish_flows(b);
    const stk_status status = stk__builder_status(b, err);
    if (status == STK_OK) {
        find_bounds(b->trace);
        stk__store_trim(b->trace->store);
        *out = b->trace;
        b->trace = NULL;
    }
    stk__builder_free(b);
    return status;
}
