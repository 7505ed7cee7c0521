/* Tables of who did something: thread, process and track. */
#include "analyze/sql_slice.h"
#include "analyze/sql_table.h"

#include "base/banned.h"

/* ---- thread and process ---- */

static size_t thread_count(const stk__sql *s)
{
    return s->trace->thread_count;
}

static void thread_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_thread *x = &t->threads[row];
    switch (column) {
    case 0:
    case 1:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 2:
        if (!x->tid_text)
            sqlite3_result_int64(out, x->tid);
        break;
    case 3:
        stk__sql_string(out, t, x->name);
        break;
    case 4:
        stk__sql_row(out, x->process);
        break;
    case 5:
        if (x->process != STK__NONE && !x->tid_text && !t->processes[x->process].pid_text)
            sqlite3_result_int(out, x->tid == t->processes[x->process].pid);
        break;
    case 6:
        stk__sql_string(out, t, x->tid_text);
        break;
    case 7:
        stk__sql_row(out, x->track);
        break;
    case 8:
        stk__sql_number(out, x->sort_index);
        break;
    }
}

static size_t process_count(const stk__sql *s)
{
    return s->trace->process_count;
}

static void process_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_process *x = &c->trace->processes[row];
    switch (column) {
    case 0:
    case 1:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 2:
        if (!x->pid_text)
            sqlite3_result_int64(out, x->pid);
        break;
    case 3:
        stk__sql_string(out, c->trace, x->name);
        break;
    case 4:
        stk__sql_string(out, c->trace, x->labels);
        break;
    case 5:
        stk__sql_string(out, c->trace, x->pid_text);
        break;
    case 6:
        stk__sql_row(out, x->file);
        break;
    case 7:
        stk__sql_number(out, x->sort_index);
        break;
    }
}

/* ---- track ---- */

static size_t track_count(const stk__sql *s)
{
    return s->trace->track_count;
}

static const char *track_type(uint32_t kind)
{
    static const char *const names[] = {
        [STK__TRACK_THREAD] = "thread_track",   [STK__TRACK_PROCESS] = "process_track",
        [STK__TRACK_GLOBAL] = "global_track",   [STK__TRACK_ASYNC] = "async_track",
        [STK__TRACK_COUNTER] = "counter_track",
    };
    return kind < STK_COUNT(names) ? names[kind] : "track";
}

static void put_label(const stk__trace *t, sqlite3_context *out, uint32_t track)
{
    stk__text text = STK__TEXT_INIT;
    stk__trace_track_label(t, track, &text);
    if (text.failed)
        sqlite3_result_error_nomem(out);
    else
        sqlite3_result_text64(out, text.data ? text.data : "", text.length, SQLITE_TRANSIENT, SQLITE_UTF8);
    stk__text_clear(&text);
}

static void track_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_track *x = &t->tracks[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        stk__sql_string(out, t, stk__trace_track_name(t, x));
        break;
    case 2:
        put_label(t, out, (uint32_t)row);
        break;
    case 3:
        stk__sql_constant(out, track_type(x->kind));
        break;
    case 4:
        stk__sql_row(out, x->parent);
        break;
    case 5:
        stk__sql_row(out, x->thread);
        break;
    case 6:
        stk__sql_row(out, stk__sql_track_process(t, (uint32_t)row));
        break;
    case 7:
        sqlite3_result_int64(out, x->lane);
        break;
    case 8:
        stk__sql_row(out, x->file);
        break;
    case 9:
        stk__sql_string(out, t, x->scope);
        break;
    case 10:
        stk__sql_string(out, t, x->id);
        break;
    case 11: {
        const bool counter = x->kind == STK__TRACK_COUNTER;
        if (counter)
            stk__sql_string(out, t, x->scope);
        else
            stk__sql_unit(out, x->sample_count ? x->unit : STK__UNIT_NONE);
        break;
    }
    case 12:
        sqlite3_result_int64(out, x->slice_count);
        break;
    }
}

const stk__sql_plain stk__sql_tables_of_tracks[] = {
    {"thread",
     "id INTEGER, utid INTEGER, tid INTEGER, name TEXT, upid INTEGER, is_main_thread INTEGER, tid_text TEXT, "
     "track_id INTEGER, sort_index INTEGER",
     thread_count, thread_value},
    {"process",
     "id INTEGER, upid INTEGER, pid INTEGER, name TEXT, labels TEXT, pid_text TEXT, file_id INTEGER, "
     "sort_index INTEGER",
     process_count, process_value},
    {"track",
     "id INTEGER, name TEXT, label TEXT, type TEXT, parent_id INTEGER, utid INTEGER, upid INTEGER, lane INTEGER, "
     "file_id INTEGER, scope TEXT, async_id TEXT, unit TEXT, slices INTEGER",
     track_count, track_value},
    {NULL},
};
