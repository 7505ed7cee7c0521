/*
 * Processes of several files that are one: their rows become one row, and so do those of their threads. Tracks stay as they are, each with
 * the file that it is from, so that clocks can still be moved file by file and a step can be told from the next file's.
 */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

typedef struct joiner {
    stk__builder *b;
    bool *files;                        /* those whose processes may be joined; NULL: all */
    stk__keymap processes, threads;     /* new rows by what they are known by */
    uint32_t *process_now, *thread_now; /* the new row of each old one */
    size_t process_count, thread_count; /* new rows */
} joiner;

static void join_nomem(joiner *j, size_t size)
{
    stk_error err;
    stk_error_clear(&err);
    stk__nomem(size, &err);
    stk__builder_fail(j->b, &err);
}

/* The files that say of themselves that they are timelines; false when fewer than two do. */
static bool find_timelines(joiner *j)
{
    const stk__trace *t = j->b->trace;
    size_t count = 0;
    j->files = stk__calloc(t->file_count, sizeof *j->files);
    if (!j->files) {
        join_nomem(j, t->file_count);
        return false;
    }
    for (size_t i = 0; i < t->fact_count; i++) {
        const stk__trace_fact *f = &t->facts[i];
        const char *value = stk__trace_str(t, f->value);
        if (f->file >= t->file_count || j->files[f->file] ||
            strcmp(stk__trace_str(t, f->key), STK__FACT_TIMELINE) != 0 ||
            (strcmp(value, STK__TIMELINE_TF1) != 0 && strcmp(value, STK__TIMELINE_TF1_JOINED) != 0))
            continue;
        j->files[f->file] = true;
        count++;
    }
    return count > 1;
}

/* The row for a key: that of an earlier one, or `next`. */
static uint32_t place(joiner *j, stk__keymap *map, stk__key key, size_t next)
{
    bool fresh;
    const uint32_t *row = stk__keymap_place(map, key, (uint32_t)next, &fresh);
    if (!row)
        join_nomem(j, map->capacity * 2 * sizeof *map->entries);
    return row ? *row : 0;
}

static void keep_text(joiner *j, uint32_t file, stk__string *kept, stk__string text)
{
    if (*kept && text && *kept != text)
        stk__builder_note_file(j->b, file, STK__REASON_REDEFINED, 1, -1);
    if (!*kept)
        *kept = text;
}

static void keep_index(int64_t *kept, int64_t index)
{
    if (*kept == STK__NO_NUMBER)
        *kept = index;
}

static void join_process_rows(joiner *j)
{
    stk__trace *t = j->b->trace;
    for (uint32_t i = 0; i < t->process_count && !j->b->status; i++) {
        const stk__trace_process p = t->processes[i];
        const bool apart = j->files && !j->files[p.file];
        const stk__key key = {{(uint64_t)p.pid, p.pid_text, p.name, apart ? (uint64_t)i + 1 : 0}};
        const uint32_t row = place(j, &j->processes, key, j->process_count);
        j->process_now[i] = row;
        if (row == j->process_count) {
            t->processes[j->process_count++] = p;
            continue;
        }
        stk__trace_process *first = &t->processes[row];
        keep_text(j, p.file, &first->labels, p.labels);
        keep_index(&first->sort_index, p.sort_index);
    }
    t->process_count = j->process_count;
}

static void join_thread_rows(joiner *j, size_t processes)
{
    stk__trace *t = j->b->trace;
    for (uint32_t i = 0; i < t->thread_count && !j->b->status; i++) {
        stk__trace_thread thread = t->threads[i];
        if (thread.process < processes)
            thread.process = j->process_now[thread.process];
        const stk__key key = {{thread.process, (uint64_t)thread.tid, thread.tid_text}};
        const uint32_t row = place(j, &j->threads, key, j->thread_count);
        j->thread_now[i] = row;
        if (row == j->thread_count) {
            t->threads[j->thread_count++] = thread;
            continue;
        }
        stk__trace_thread *first = &t->threads[row];
        const uint32_t file = thread.track < t->track_count ? t->tracks[thread.track].file : 0;
        keep_text(j, file, &first->name, thread.name);
        keep_index(&first->sort_index, thread.sort_index);
        if (first->track == STK__NONE)
            first->track = thread.track;
    }
    t->thread_count = j->thread_count;
}

static void join_rows(joiner *j)
{
    stk__trace *t = j->b->trace;
    const size_t processes = t->process_count, threads = t->thread_count;
    j->process_now = stk__alloc((processes + 1) * sizeof *j->process_now);
    j->thread_now = stk__alloc((threads + 1) * sizeof *j->thread_now);
    if (!j->process_now || !j->thread_now) {
        join_nomem(j, (processes + threads) * sizeof *j->process_now);
        return;
    }
    join_process_rows(j);
    join_thread_rows(j, processes);
    for (size_t i = 0; i < t->track_count && !j->b->status; i++) {
        stk__trace_track *k = &t->tracks[i];
        k->process = k->process < processes ? j->process_now[k->process] : STK__NONE;
        k->thread = k->thread < threads ? j->thread_now[k->thread] : STK__NONE;
    }
}

void stk__finish_join(stk__builder *b)
{
    joiner j = {.b = b};
    const stk__join_processes how = b->options.join;
    if (b->status || how == STK__JOIN_NEVER || b->trace->file_count < 2)
        return;
    if (how == STK__JOIN_ALWAYS || find_timelines(&j))
        join_rows(&j);
    stk__keymap_clear(&j.processes);
    stk__keymap_clear(&j.threads);
    stk__free(j.process_now);
    stk__free(j.thread_now);
    stk__free(j.files);
}
