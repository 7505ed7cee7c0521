/* Tables of profiles: sample, callsite, frame, function and function_call. */
#include "analyze/sql_table.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- sample, callsite and frame ---- */

static size_t sample_count(const stk__sql *s)
{
    return s->trace->samples.count;
}

static bool sample_of_track(stk__sql *s, int64_t value, stk__sql_found *out)
{
    if (value >= 0 && (uint64_t)value < s->trace->track_count) {
        const stk__trace_track *track = &s->trace->tracks[value];
        *out = (stk__sql_found){.first = track->first_sample, .end = (size_t)track->first_sample + track->sample_count};
    }
    return true;
}

static void sample_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_track *track = &t->tracks[t->samples.track[row]];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        stk__sql_number(out, t->samples.ts[row]);
        break;
    case 2:
        sqlite3_result_int64(out, t->samples.track[row]);
        break;
    case 3:
        stk__sql_row(out, t->samples.callsite[row]);
        break;
    case 4:
        sqlite3_result_int64(out, t->samples.weight[row]);
        break;
    case 5:
        stk__sql_unit(out, track->unit);
        break;
    case 6:
        stk__sql_string(out, t, t->samples.event[row]);
        break;
    case 7:
        stk__sql_row(out, track->thread);
        break;
    }
}

static size_t callsite_count(const stk__sql *s)
{
    return s->trace->callsite_count;
}

/* Frames above each call site; parents come before their children. */
static const uint32_t *callsite_depths(stk__sql *s)
{
    const stk__trace *t = s->trace;
    if (!s->callsite_depths) {
        s->callsite_depths = stk__calloc(t->callsite_count, sizeof *s->callsite_depths);
        for (size_t i = 0; s->callsite_depths && i < t->callsite_count; i++) {
            const uint32_t parent = t->callsites[i].parent;
            s->callsite_depths[i] = parent == STK__NONE ? 0 : s->callsite_depths[parent] + 1;
        }
    }
    return s->callsite_depths;
}

static void callsite_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_callsite *x = &t->callsites[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        stk__sql_row(out, x->parent);
        break;
    case 2:
        stk__sql_row(out, x->frame);
        break;
    case 3:
        stk__sql_string(out, t, t->frames[x->frame].name);
        break;
    case 4: {
        const uint32_t *depths = callsite_depths(c->sql);
        if (depths)
            sqlite3_result_int64(out, depths[row]);
        else
            sqlite3_result_error_nomem(out);
        break;
    }
    }
}

static size_t frame_count(const stk__sql *s)
{
    return s->trace->frame_count;
}

static void frame_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_frame *x = &c->trace->frames[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        stk__sql_string(out, c->trace, x->name);
        break;
    case 2:
        stk__sql_string(out, c->trace, x->file);
        break;
    case 3:
        if (x->line)
            sqlite3_result_int64(out, x->line);
        break;
    case 4:
        stk__sql_string(out, c->trace, x->module);
        break;
    case 5:
        sqlite3_result_int(out, x->flags & STK__FRAME_KERNEL);
        break;
    case 6:
        sqlite3_result_int(out, (x->flags & STK__FRAME_INLINED) != 0);
        break;
    }
}

/* ---- function and function_call ---- */

static size_t function_count(const stk__sql *s)
{
    return s->trace->function_count;
}

static void function_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_function *x = &t->functions[row];
    const stk__trace_frame *frame = &t->frames[x->frame];
    const int64_t numbers[] = {x->calls, x->primitive_calls, x->self_ns, x->total_ns};
    if (column == 0)
        sqlite3_result_int64(out, (sqlite3_int64)row);
    else if (column == 1)
        stk__sql_string(out, t, frame->name);
    else if (column == 2)
        stk__sql_string(out, t, frame->file);
    else if (column == 3 && frame->line)
        sqlite3_result_int64(out, frame->line);
    else if (column >= 4 && column < 8)
        stk__sql_number(out, numbers[column - 4]);
    else if (column == 8)
        sqlite3_result_int64(out, x->frame);
    else if (column == 9)
        sqlite3_result_int64(out, x->file);
}

static size_t call_count(const stk__sql *s)
{
    return s->trace->call_count;
}

static void call_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_call *x = &c->trace->calls[row];
    const int64_t numbers[] = {x->calls, x->primitive_calls, x->self_ns, x->total_ns};
    if (column == 0)
        stk__sql_row(out, x->caller);
    else if (column == 1)
        stk__sql_row(out, x->callee);
    else
        stk__sql_number(out, numbers[column - 2]);
}

const stk__sql_plain stk__sql_tables_of_stacks[] = {
    {"sample",
     "id INTEGER, ts INTEGER, track_id INTEGER, callsite_id INTEGER, weight INTEGER, unit TEXT, event TEXT, "
     "utid INTEGER",
     sample_count,
     sample_value,
     {{2, sample_of_track}}},
    {"callsite", "id INTEGER, parent_id INTEGER, frame_id INTEGER, name TEXT, depth INTEGER", callsite_count,
     callsite_value},
    {"frame",
     "id INTEGER, name TEXT, source_file TEXT, line_number INTEGER, module TEXT, is_kernel INTEGER, is_inlined INTEGER",
     frame_count, frame_value},
    {"function",
     "id INTEGER, name TEXT, source_file TEXT, line_number INTEGER, calls INTEGER, primitive_calls INTEGER, "
     "self_ns INTEGER, total_ns INTEGER, frame_id INTEGER, file_id INTEGER",
     function_count, function_value},
    {"function_call",
     "caller_id INTEGER, callee_id INTEGER, calls INTEGER, primitive_calls INTEGER, self_ns INTEGER, total_ns INTEGER",
     call_count, call_value, .no_id = true},
    {NULL},
};
