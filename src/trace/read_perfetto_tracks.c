/* Processes, threads and tracks of a Perfetto trace: by uuid, and before their descriptor has come. */
#include "base/mem.h"
#include "trace/read_perfetto_impl.h"

#include "base/banned.h"

enum { PARENTS_MAX = 64 };

/* ---- processes and threads ---- */

static void set_name(pf_reader *r, stk__string *place, stk__string name)
{
    if (name && *place && *place != name)
        stk__pf_note(r, STK__REASON_REDEFINED);
    if (name)
        *place = name;
}

/* Labels are one text in the model, with commas between them. */
static void add_label(pf_reader *r, stk__string *place, stk__wire label)
{
    size_t size;
    if (!*place) {
        *place = stk__pf_text(r, label);
        return;
    }
    const char *before = stk__builder_get(r->b, *place, &size);
    if (size > 4096)
        return;
    stk__text_reset(&r->json);
    stk__text_write(&r->json, before, size);
    stk__text_putc(&r->json, ',');
    stk__text_write(&r->json, label.p, STK_MIN(stk__wire_size(label), 4096));
    if (!r->json.failed)
        *place = stk__builder_text(r->b, r->json.data, r->json.length, r->offset);
}

uint32_t stk__pf_process(pf_reader *r, stk__wire descriptor)
{
    int32_t pid = 0;
    stk__string name = 0, cmdline = 0, labels = 0;
    int64_t sort_index = STK__NO_NUMBER;
    stk__field f = stk__fields(descriptor);
    while (stk__field_next(&f)) {
        if (f.number == PROCESS_PID)
            pid = (int32_t)f.value;
        else if (f.number == PROCESS_SORT_INDEX)
            sort_index = (int32_t)f.value;
        else if (f.type != STK__WIRE_BYTES)
            continue;
        else if (f.number == PROCESS_NAME)
            name = stk__pf_text(r, f.bytes);
        else if (f.number == PROCESS_CMDLINE && !cmdline)
            cmdline = stk__pf_text(r, f.bytes);
        else if (f.number == PROCESS_LABEL)
            add_label(r, &labels, f.bytes);
    }
    if (f.bad) {
        stk__pf_note(r, STK__REASON_SYNTAX);
        return STK__NONE;
    }
    const uint32_t row = stk__builder_process(r->b, pid, 0);
    stk__trace_process *process = stk__builder_process_at(r->b, row);
    set_name(r, &process->name, name ? name : process->name ? 0 : cmdline);
    if (labels)
        process->labels = labels;
    if (sort_index != STK__NO_NUMBER)
        process->sort_index = sort_index;
    return row;
}

uint32_t stk__pf_thread(pf_reader *r, stk__wire descriptor, int64_t *out_reference_us)
{
    int32_t pid = 0;
    int64_t tid = 0, sort_index = STK__NO_NUMBER, reference = 0;
    stk__string name = 0;
    stk__field f = stk__fields(descriptor);
    while (stk__field_next(&f)) {
        if (f.number == THREAD_PID)
            pid = (int32_t)f.value;
        else if (f.number == THREAD_TID)
            tid = (int64_t)f.value;
        else if (f.number == THREAD_SORT_INDEX)
            sort_index = (int32_t)f.value;
        else if (f.number == THREAD_REFERENCE_US)
            reference = (int64_t)f.value;
        else if (f.number == THREAD_NAME && f.type == STK__WIRE_BYTES)
            name = stk__pf_text(r, f.bytes);
    }
    if (f.bad) {
        stk__pf_note(r, STK__REASON_SYNTAX);
        return STK__NONE;
    }
    if (out_reference_us)
        *out_reference_us = reference;
    const uint32_t row = stk__builder_thread(r->b, stk__builder_process(r->b, pid, 0), tid, 0);
    stk__trace_thread *thread = stk__builder_thread_at(r->b, row);
    set_name(r, &thread->name, name);
    if (sort_index != STK__NO_NUMBER)
        thread->sort_index = sort_index;
    return row;
}

static void tree_process(pf_reader *r, stk__wire process)
{
    int32_t pid = 0;
    stk__string name = 0;
    stk__field f = stk__fields(process);
    while (stk__field_next(&f)) {
        if (f.number == TREE_PROCESS_PID)
            pid = (int32_t)f.value;
        else if (f.number == TREE_PROCESS_CMDLINE && f.type == STK__WIRE_BYTES && !name)
            name = stk__pf_text(r, f.bytes);
    }
    stk__trace_process *row = stk__builder_process_at(r->b, stk__builder_process(r->b, pid, 0));
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else if (!row->name)
        row->name = name;
}

static void tree_thread(pf_reader *r, stk__wire thread)
{
    int32_t pid = 0, tid = 0;
    stk__string name = 0;
    stk__field f = stk__fields(thread);
    while (stk__field_next(&f)) {
        if (f.number == TREE_THREAD_PID)
            pid = (int32_t)f.value;
        else if (f.number == TREE_THREAD_TID)
            tid = (int32_t)f.value;
        else if (f.number == TREE_THREAD_NAME && f.type == STK__WIRE_BYTES)
            name = stk__pf_text(r, f.bytes);
    }
    const uint32_t process = stk__builder_process(r->b, pid, 0);
    stk__trace_thread *row = stk__builder_thread_at(r->b, stk__builder_thread(r->b, process, tid, 0));
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else if (!row->name)
        row->name = name;
}

void stk__pf_process_tree(pf_reader *r, stk__wire tree)
{
    stk__field f = stk__fields(tree);
    while (stk__field_next(&f)) {
        if (f.number == TREE_PROCESS && f.type == STK__WIRE_BYTES)
            tree_process(r, f.bytes);
        else if (f.number == TREE_THREAD && f.type == STK__WIRE_BYTES)
            tree_thread(r, f.bytes);
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

/* ---- tracks ---- */

uint32_t stk__pf_track(pf_reader *r, uint64_t uuid)
{
    uint32_t track = stk__pf_find(r, PF_TRACK, 0, uuid);
    if (track != PF_MISSING)
        return track;
    if (!stk__pf_room(r, (void **)&r->tracks, &r->track_capacity, r->track_count, sizeof *r->tracks))
        return PF_MISSING;
    track = (uint32_t)r->track_count++;
    r->tracks[track] =
        (pf_track){.uuid = uuid, .process = STK__NONE, .thread = STK__NONE, .row = STK__NONE, .multiplier = 1};
    stk__pf_set(r, PF_TRACK, 0, uuid, track);
    return track;
}

static void read_counter(pf_reader *r, pf_track *k, stk__wire counter)
{
    static const char *const units[] = {"", "ns", "count", "bytes"};
    k->counter = true;
    stk__field f = stk__fields(counter);
    while (stk__field_next(&f)) {
        if (f.number == COUNTER_UNIT && f.value > 0 && f.value < STK_COUNT(units) && !k->unit)
            k->unit = stk__builder_str(r->b, units[f.value]);
        else if (f.number == COUNTER_UNIT_NAME && f.type == STK__WIRE_BYTES)
            k->unit = stk__pf_text(r, f.bytes);
        else if (f.number == COUNTER_MULTIPLIER && f.value)
            k->multiplier = (int64_t)f.value;
        else if (f.number == COUNTER_INCREMENTAL)
            k->incremental = f.value != 0;
        else if (f.number == COUNTER_TYPE && f.value && !k->name)
            k->name = stk__builder_str(r->b, f.value == 1 ? "thread time" : "thread instructions");
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
}

void stk__pf_descriptor(pf_reader *r, stk__wire descriptor)
{
    pf_track new = {.process = STK__NONE, .thread = STK__NONE, .multiplier = 1};
    stk__field f = stk__fields(descriptor);
    while (stk__field_next(&f)) {
        if (f.number == TRACK_UUID) {
            new.uuid = f.value;
        } else if (f.number == TRACK_PARENT) {
            new.parent = f.value;
            new.has_parent = f.value != 0;
        } else if (f.type != STK__WIRE_BYTES) {
            continue;
        } else if (f.number == TRACK_NAME || f.number == TRACK_STATIC_NAME || f.number == TRACK_ATRACE_NAME) {
            new.name = stk__pf_text(r, f.bytes);
            new.totals = stk__wire_is(f.bytes, STK__TOTALS_TRACK);
        } else if (f.number == TRACK_PROCESS) {
            new.process = stk__pf_process(r, f.bytes);
        } else if (f.number == TRACK_THREAD) {
            new.thread = stk__pf_thread(r, f.bytes, NULL);
        } else if (f.number == TRACK_COUNTER) {
            read_counter(r, &new, f.bytes);
        }
    }
    const uint32_t track = f.bad ? PF_MISSING : stk__pf_track(r, new.uuid);
    if (track == PF_MISSING) {
        stk__pf_note(r, STK__REASON_SYNTAX);
        return;
    }
    pf_track *k = &r->tracks[track];
    new.row = k->row;
    new.epoch = k->epoch;
    new.last = k->last;
    new.described = true;
    *k = new;
}

uint32_t stk__pf_track_row(pf_reader *r, uint32_t track, bool counter)
{
    if (track == PF_MISSING)
        return STK__NONE;
    pf_track *k = &r->tracks[track];
    if (k->row != STK__NONE)
        return k->row;
    if (k->counter || counter)
        k->row = stk__builder_new_track(
            r->b, &(stk__trace_track){
                      .kind = STK__TRACK_COUNTER, .process = STK__NONE, .thread = STK__NONE, .parent = STK__NONE});
    else if (k->thread != STK__NONE)
        k->row = stk__builder_thread_track(r->b, k->thread);
    else if (k->process != STK__NONE)
        k->row = stk__builder_process_track(r->b, k->process);
    else if (!k->uuid)
        k->row = stk__builder_global_track(r->b);
    else
        k->row = stk__builder_new_track(
            r->b, &(stk__trace_track){
                      .kind = STK__TRACK_ASYNC, .process = STK__NONE, .thread = STK__NONE, .parent = STK__NONE});
    return k->row;
}

/* "worker 0 (overlap 1)" beside "worker 0" is a second lane of that thread; 0: a track of its own. */
static uint32_t overlap_lane(const pf_reader *r, stk__string name, stk__string thread_name)
{
    const size_t suffix = sizeof STK__OVERLAP_SUFFIX - 1;
    size_t size, prefix;
    const char *text = stk__builder_get(r->b, name, &size), *thread = stk__builder_get(r->b, thread_name, &prefix);
    if (size < prefix + suffix + 2 || memcmp(text, thread, prefix) != 0 ||
        memcmp(text + prefix, STK__OVERLAP_SUFFIX, suffix) != 0 || text[size - 1] != ')')
        return 0;
    uint32_t lane = 0;
    for (size_t i = prefix + suffix; i < size - 1; i++) {
        if (text[i] < '0' || text[i] > '9' || lane > 100000)
            return 0;
        lane = lane * 10 + (uint32_t)(text[i] - '0');
    }
    return lane;
}

/* The nearest thread and process around a track, and the row of its parent. A chain may be damaged and never end. */
static void find_owner(const pf_reader *r, const pf_track *k, uint32_t *thread, uint32_t *process, uint32_t *parent)
{
    *thread = k->thread;
    *process = k->process;
    *parent = STK__NONE;
    for (int i = 0; i < PARENTS_MAX && k->has_parent && *thread == STK__NONE && *process == STK__NONE; i++) {
        const uint32_t next = stk__pf_find(r, PF_TRACK, 0, k->parent);
        if (next == PF_MISSING)
            return;
        k = &r->tracks[next];
        if (i == 0)
            *parent = k->row;
        *thread = k->thread;
        *process = k->process;
    }
    if (*thread != STK__NONE)
        *process = stk__builder_thread_at(r->b, *thread)->process;
}

/* A track that is not a thread's, a process's or the global one from the start. */
static void finish_track(pf_reader *r, const pf_track *k)
{
    uint32_t thread, process, parent;
    find_owner(r, k, &thread, &process, &parent);
    stk__trace_track *row = stk__builder_track_at(r->b, k->row);
    row->process = process;
    row->thread = thread;
    row->parent = parent;
    row->name = k->name;
    if (row->kind == STK__TRACK_COUNTER) {
        row->scope = k->unit;
        return;
    }
    const bool own = k->thread != STK__NONE || k->process != STK__NONE;
    stk__trace_thread *around = thread == STK__NONE ? NULL : stk__builder_thread_at(r->b, thread);
    if (own) { /* its descriptor came after its first event */
        row->kind = k->thread != STK__NONE ? STK__TRACK_THREAD : STK__TRACK_PROCESS;
        if (around && around->track == STK__NONE)
            around->track = k->row;
        return;
    }
    const uint32_t lane = around ? overlap_lane(r, k->name, around->name) : 0;
    if (lane && around->track != STK__NONE) {
        row->kind = STK__TRACK_THREAD;
        row->parent = around->track;
        row->lane = lane;
        return;
    }
    char id[24];
    stk__text text;
    stk__text_fixed(&text, id, sizeof id);
    stk__text_printf(&text, "0x%llx", (unsigned long long)k->uuid);
    stk__builder_track_at(r->b, k->row)->id = stk__builder_string(r->b, id, text.length);
}

void stk__pf_tracks_finish(pf_reader *r)
{
    for (size_t i = 0; i < r->track_count; i++) {
        const pf_track *k = &r->tracks[i];
        if (k->row == STK__NONE)
            continue;
        const uint32_t kind = stk__builder_track_at(r->b, k->row)->kind;
        if (kind == STK__TRACK_ASYNC || kind == STK__TRACK_COUNTER)
            finish_track(r, k);
    }
}
