/* The finished trace: its columns by name, texts, labels, release. */
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "trace/store.h"

#include "base/banned.h"

const stk__column_info stk__column_infos[STK__STORE_COLUMNS] = {
#define COLUMN_INFO(group, type, name) \
    {#group "." #name, offsetof(stk__trace, group.name), offsetof(stk__trace, group.count), sizeof(type)},
    STK__TRACE_COLUMNS(COLUMN_INFO)
#undef COLUMN_INFO
#define TABLE_INFO(type, name, count) {#name, offsetof(stk__trace, name), offsetof(stk__trace, count), sizeof(type)},
        STK__TRACE_TABLES(TABLE_INFO)
#undef TABLE_INFO
            {"strings.offset", offsetof(stk__trace, string_offset), 0, sizeof(uint64_t)},
    {"strings.bytes", offsetof(stk__trace, string_bytes), 0, 1},
};

size_t stk__column_rows(const stk__trace *t, int column)
{
    if (column == STK__STRING_OFFSETS)
        return (size_t)t->string_count + 1;
    if (column == STK__STRING_BYTES)
        return t->string_offset ? t->string_offset[t->string_count] : 0;
    return *(const size_t *)((const char *)t + stk__column_infos[column].count);
}

void **stk__column_pointer(stk__trace *t, int column)
{
    return (void **)((char *)t + stk__column_infos[column].pointer);
}

const char *stk__trace_text(const stk__trace *t, stk__string s, size_t *out_size)
{
    if (s >= t->string_count) {
        *out_size = 0;
        return "";
    }
    *out_size = (size_t)(t->string_offset[s + 1] - t->string_offset[s] - 1);
    return t->string_bytes + t->string_offset[s];
}

stk__string stk__trace_find(const stk__trace *t, const char *text, size_t size)
{
    for (stk__string s = 0; s < t->string_count; s++) {
        if (t->string_offset[s + 1] - t->string_offset[s] == size + 1 &&
            memcmp(t->string_bytes + t->string_offset[s], text, size) == 0)
            return s;
    }
    return STK__NONE;
}

const char *stk__trace_reason_name(stk__trace_reason reason)
{
    static const char *const names[] = {
#define REASON_NAME(name, lower, kind, text) #lower,
        STK__TRACE_REASONS(REASON_NAME)
#undef REASON_NAME
    };
    return reason < STK__REASON_COUNT ? names[reason] : "";
}

const char *stk__trace_reason_text(stk__trace_reason reason)
{
    static const char *const texts[] = {
#define REASON_TEXT(name, lower, kind, text) text,
        STK__TRACE_REASONS(REASON_TEXT)
#undef REASON_TEXT
    };
    return reason < STK__REASON_COUNT ? texts[reason] : "";
}

static char reason_kind(stk__trace_reason reason)
{
    enum { L = 'L', T = 'T', K = 'K' };
    static const char kinds[] = {
#define REASON_KIND(name, lower, kind, text) kind,
        STK__TRACE_REASONS(REASON_KIND)
#undef REASON_KIND
    };
    return reason < STK__REASON_COUNT ? kinds[reason] : (char)K;
}

bool stk__trace_reason_loses(stk__trace_reason reason)
{
    return reason_kind(reason) == 'L';
}

bool stk__trace_reason_matters(stk__trace_reason reason)
{
    return reason_kind(reason) != 'K';
}

/* "python (12)", "12", "Spans" */
static void label_process(const stk__trace *t, const stk__trace_process *p, stk__text *out)
{
    if (p->name && p->pid_text)
        stk__text_printf(out, "%s (%s)", stk__trace_str(t, p->name), stk__trace_str(t, p->pid_text));
    else if (p->name)
        stk__text_printf(out, "%s (%lld)", stk__trace_str(t, p->name), (long long)p->pid);
    else if (p->pid_text)
        stk__text_puts(out, stk__trace_str(t, p->pid_text));
    else
        stk__text_printf(out, "process %lld", (long long)p->pid);
}

static void label_thread(const stk__trace *t, const stk__trace_thread *thread, stk__text *out)
{
    if (thread->name)
        stk__text_puts(out, stk__trace_str(t, thread->name));
    else if (thread->tid_text)
        stk__text_puts(out, stk__trace_str(t, thread->tid_text));
    else
        stk__text_printf(out, "thread %lld", (long long)thread->tid);
}

stk__string stk__trace_track_name(const stk__trace *t, const stk__trace_track *track)
{
    if (track->name || track->kind != STK__TRACK_ASYNC || track->slice_count == 0)
        return track->name;
    return t->slices.name[track->first_slice];
}

void stk__trace_track_label(const stk__trace *t, uint32_t track, stk__text *out)
{
    if (track >= t->track_count)
        return;
    const stk__trace_track *k = &t->tracks[track];
    const bool in_process = k->process < t->process_count;
    if (in_process)
        label_process(t, &t->processes[k->process], out);
    const bool in_thread = k->thread < t->thread_count;
    if (k->name || in_thread)
        stk__text_puts(out, in_process ? ": " : "");
    if (k->name)
        stk__text_puts(out, stk__trace_str(t, k->name));
    else if (in_thread)
        label_thread(t, &t->threads[k->thread], out);
    else if (!in_process)
        stk__text_puts(out, "(global)");
    if (k->lane)
        stk__text_printf(out, " (lane %u)", k->lane + 1);
}

uint64_t stk__trace_bytes(const stk__trace *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < STK__STORE_COLUMNS; i++)
        bytes += (uint64_t)stk__column_rows(t, i) * stk__column_infos[i].item_bytes;
    return bytes;
}

bool stk__trace_spilled(const stk__trace *t)
{
    return t->store->file_bytes > 0;
}

void stk__trace_trim(const stk__trace *t)
{
    if (t->store) /* traces made by hand in tests have none */
        stk__store_trim(t->store);
}

void stk__trace_will_change(stk__trace *t)
{
    if (t->store)
        t->store->will_change = true;
}

void stk__trace_free(stk__trace *t)
{
    if (!t)
        return;
    stk__store_free(t->store);
    stk__free(t);
}
