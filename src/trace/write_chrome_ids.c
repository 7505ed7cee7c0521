/* Ids for Chrome JSON: pids that stay apart when files are joined, tids for tracks that are no thread. */
#include <stdlib.h>

#include "base/mem.h"
#include "trace/emit.h"
#include "trace/write_chrome.h"

#include "base/banned.h"

/* Ids of the kernel end at 2^22. */
enum { FREE_ID = 1 << 23 };

typedef struct id_key {
    stk__string text;
    int64_t number;
    uint32_t row;
} id_key;

static int compare_ids(const void *a, const void *b)
{
    const id_key *x = a, *y = b;
    if (x->text != y->text)
        return x->text < y->text ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* An integer that is above all ids of the files, where there is room above them. */
static int64_t id_above(int64_t highest)
{
    return highest < FREE_ID ? FREE_ID : highest < INT64_MAX / 2 ? highest + 1 : -FREE_ID;
}

static int64_t highest_pid(const stk__trace *t)
{
    int64_t highest = 0;
    for (size_t i = 0; i < t->process_count; i++)
        highest = STK_MAX(highest, t->processes[i].pid);
    return highest;
}

static int64_t highest_tid(const stk__trace *t)
{
    int64_t highest = 0;
    for (size_t i = 0; i < t->thread_count; i++)
        highest = STK_MAX(highest, t->threads[i].tid);
    return highest;
}

/* Marks all but the first process of each id. */
static bool mark_repeated(stk__chrome_ids *ids)
{
    const stk__trace *t = ids->t;
    id_key *keys = stk__calloc(t->process_count, sizeof *keys);
    ids->renumbered = stk__calloc(t->process_count, sizeof *ids->renumbered);
    if (!keys || !ids->renumbered) {
        stk__free(keys);
        return false;
    }
    for (uint32_t i = 0; i < t->process_count; i++)
        keys[i] = (id_key){t->processes[i].pid_text, t->processes[i].pid_text ? 0 : t->processes[i].pid, i};
    if (t->process_count)
        qsort(keys, t->process_count, sizeof *keys, compare_ids);
    for (size_t i = 1; i < t->process_count; i++) {
        if (keys[i].text == keys[i - 1].text && keys[i].number == keys[i - 1].number)
            ids->renumbered[keys[i].row] = true;
    }
    stk__free(keys);
    return true;
}

static bool find_first_processes(stk__chrome_ids *ids)
{
    const stk__trace *t = ids->t;
    ids->file_process = stk__alloc(t->file_count * sizeof *ids->file_process);
    if (!ids->file_process)
        return false;
    for (size_t i = 0; i < t->file_count; i++)
        ids->file_process[i] = STK__NONE;
    for (uint32_t i = (uint32_t)t->process_count; i-- > 0;) {
        if (t->processes[i].file < t->file_count)
            ids->file_process[t->processes[i].file] = i;
    }
    return true;
}

static void label_pid(const void *arg, uint32_t row, stk__text *out)
{
    const stk__chrome_ids *ids = arg;
    const stk__trace_process *p = &ids->t->processes[row];
    if (ids->renumbered[row])
        stk__emit_int(out, ids->free_pid + 1 + row);
    else if (p->pid_text)
        stk__emit_json_string(out, ids->t, p->pid_text);
    else
        stk__emit_int(out, p->pid);
}

uint32_t stk__chrome_root(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *k = &t->tracks[track];
    return k->lane && k->parent < t->track_count ? k->parent : track;
}

static bool has_spans(const stk__trace *t, const stk__trace_track *k)
{
    for (size_t i = k->first_slice; i - k->first_slice < k->slice_count && i < t->slices.count; i++) {
        if (!(t->slices.flags[i] & STK__SLICE_INSTANT))
            return true;
    }
    return false;
}

/* Slices of a process or of all are not known to the format, and a named track beside the threads is not either. */
static bool needs_tid(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *k = &t->tracks[track];
    switch (k->kind) {
    case STK__TRACK_THREAD:
        return k->thread >= t->thread_count || (k->name && t->threads[k->thread].track != track);
    case STK__TRACK_PROCESS:
    case STK__TRACK_GLOBAL:
        return k->name || has_spans(t, k);
    case STK__TRACK_ASYNC:
        return !stk__chrome_async(t, k);
    default:
        return false;
    }
}

static bool find_own_tids(stk__chrome_ids *ids)
{
    const stk__trace *t = ids->t;
    ids->own_tid = stk__calloc(t->track_count, sizeof *ids->own_tid);
    if (!ids->own_tid)
        return false;
    for (uint32_t i = 0; i < t->track_count; i++) {
        if (needs_tid(t, stk__chrome_root(t, i)))
            ids->own_tid[i] = true;
    }
    return true;
}

static void put_tid(const stk__trace *t, uint32_t thread, stk__text *out)
{
    STK__EMIT(out, ",\"tid\":");
    if (t->threads[thread].tid_text)
        stk__emit_json_string(out, t, t->threads[thread].tid_text);
    else
        stk__emit_int(out, t->threads[thread].tid);
}

static void label_who(const void *arg, uint32_t row, stk__text *out)
{
    const stk__chrome_ids *ids = arg;
    const stk__trace *t = ids->t;
    const uint32_t track = stk__chrome_root(t, row);
    const stk__trace_track *k = &t->tracks[track];
    const bool own_tid = ids->own_tid[track];
    const bool in_thread = k->thread < t->thread_count;
    const uint32_t process = k->process == STK__NONE && in_thread ? t->threads[k->thread].process : k->process;
    size_t size;
    if (process < t->process_count) {
        const char *pid = stk__labels_get(&ids->pids, process, &size);
        STK__EMIT(out, ",\"pid\":");
        stk__emit_bytes(out, pid, size);
    } else if (own_tid) {
        STK__EMIT(out, ",\"pid\":");
        stk__emit_int(out, ids->free_pid);
    }
    if (own_tid) {
        STK__EMIT(out, ",\"tid\":");
        stk__emit_int(out, ids->first_tid + track);
    } else if (in_thread) {
        put_tid(t, k->thread, out);
    }
}

/* Lanes of one id would pair each other's begins and ends, so each gets an id of its own. */
static void put_async_id(const stk__trace *t, uint32_t row, const stk__trace_track *k, stk__text *out)
{
    stk__text id = STK__TEXT_INIT;
    size_t size;
    const char *text = stk__trace_text(t, k->id, &size);
    if (k->id)
        stk__text_write(&id, text, size);
    else
        stk__text_printf(&id, "track %u", (unsigned)row);
    if (k->lane)
        stk__text_printf(&id, "/%u", k->lane);
    if (k->process < t->process_count && t->processes[k->process].file != k->file)
        stk__text_printf(&id, "#%u", k->file); /* joined: the id holds in its own file */
    stk__emit_json(out, id.data ? id.data : "", id.length);
    out->failed = out->failed || id.failed;
    stk__text_clear(&id);
}

static void label_async(const void *arg, uint32_t row, stk__text *out)
{
    const stk__trace *t = ((const stk__chrome_ids *)arg)->t;
    const stk__trace_track *k = &t->tracks[row];
    if (!stk__chrome_async(t, k))
        return;
    /* A local id holds in its process: two processes may use one. */
    if (k->process < t->process_count)
        STK__EMIT(out, ",\"id2\":{\"local\":");
    else
        STK__EMIT(out, ",\"id2\":{\"global\":");
    put_async_id(t, row, k, out);
    stk__emit_char(out, '}');
}

stk_status stk__chrome_ids_make(stk__chrome_ids *ids, const stk__trace *t, stk_error *err)
{
    *ids = (stk__chrome_ids){.t = t, .free_pid = id_above(highest_pid(t)), .first_tid = id_above(highest_tid(t))};
    if (mark_repeated(ids) && find_first_processes(ids) && find_own_tids(ids) &&
        stk__labels_make(&ids->pids, t->process_count, label_pid, ids) &&
        stk__labels_make(&ids->who, t->track_count, label_who, ids) &&
        stk__labels_make(&ids->async, t->track_count, label_async, ids))
        return STK_OK;
    stk__chrome_ids_clear(ids);
    return stk__nomem(t->track_count * sizeof(size_t), err);
}

void stk__chrome_ids_clear(stk__chrome_ids *ids)
{
    stk__labels_clear(&ids->pids);
    stk__labels_clear(&ids->who);
    stk__labels_clear(&ids->async);
    stk__free(ids->own_tid);
    stk__free(ids->renumbered);
    stk__free(ids->file_process);
    *ids = (stk__chrome_ids){0};
}
