/* Tables of what was read: file, fact, note and recorded_total. */
#include "analyze/sql_table.h"

#include "base/banned.h"

/* ---- file, fact and note ---- */

static size_t file_count(const stk__sql *s)
{
    return s->trace->file_count;
}

static const char *clock_name(uint32_t clock)
{
    static const char *const names[] = {
        [STK__CLOCK_UNKNOWN] = "unknown",
        [STK__CLOCK_MONOTONIC] = "monotonic",
        [STK__CLOCK_BOOT] = "boot",
        [STK__CLOCK_REALTIME] = "realtime",
    };
    return clock < STK_COUNT(names) ? names[clock] : "unknown";
}

static void file_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_file *x = &c->trace->files[row];
    const stk__string strings[] = {x->path, x->format, x->compression};
    const int64_t numbers[] = {(int64_t)x->size_bytes, (int64_t)x->text_bytes, (int64_t)x->events, x->resolution_ns,
                               x->realtime_ns};
    if (column == 0)
        sqlite3_result_int64(out, (sqlite3_int64)row);
    else if (column < 4)
        stk__sql_string(out, c->trace, strings[column - 1]);
    else if (column == 4)
        stk__sql_constant(out, clock_name(x->clock));
    else if (column < 10)
        stk__sql_number(out, numbers[column - 5]);
    else if (column == 10 && x->rank >= 0)
        sqlite3_result_int64(out, x->rank);
    else if (column == 11)
        sqlite3_result_int64(out, x->shift_ns);
}

static size_t fact_count(const stk__sql *s)
{
    return s->trace->fact_count;
}

static void fact_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_fact *x = &c->trace->facts[row];
    if (column == 0)
        sqlite3_result_int64(out, x->file);
    else
        stk__sql_string(out, c->trace, column == 1 ? x->key : x->value);
}

static size_t note_count(const stk__sql *s)
{
    return s->trace->note_count;
}

static void note_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_note *x = &c->trace->notes[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, x->file);
        break;
    case 1:
        stk__sql_constant(out, stk__trace_reason_name(x->reason));
        break;
    case 2:
        sqlite3_result_int64(out, (sqlite3_int64)x->count);
        break;
    case 3:
        if (x->offset >= 0)
            sqlite3_result_int64(out, x->offset);
        break;
    case 4:
        stk__sql_constant(out, stk__trace_reason_text(x->reason));
        break;
    case 5:
        sqlite3_result_int(out, stk__trace_reason_loses(x->reason));
        break;
    }
}

static size_t total_count(const stk__sql *s)
{
    return s->trace->total_count;
}

static void total_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace_total *x = &c->trace->totals[row];
    const uint64_t numbers[] = {x->count, x->total_ns, x->lost};
    if (column == 0)
        sqlite3_result_int64(out, x->file);
    else if (column < 3)
        stk__sql_string(out, c->trace, column == 1 ? x->track : x->name);
    else
        sqlite3_result_int64(out, (sqlite3_int64)numbers[column - 3]);
}

const stk__sql_plain stk__sql_tables_of_files[] = {
    {"file",
     "id INTEGER, path TEXT, format TEXT, compression TEXT, clock TEXT, size_bytes INTEGER, text_bytes INTEGER, "
     "events INTEGER, resolution_ns INTEGER, realtime_ns INTEGER, rank INTEGER, shift_ns INTEGER",
     file_count, file_value},
    {"fact", "file_id INTEGER, key TEXT, value TEXT", fact_count, fact_value, .no_id = true},
    {"note", "file_id INTEGER, reason TEXT, count INTEGER, \"offset\" INTEGER, text TEXT, lost INTEGER", note_count,
     note_value, .no_id = true},
    {"recorded_total", "file_id INTEGER, track TEXT, name TEXT, count INTEGER, total_ns INTEGER, lost INTEGER",
     total_count, total_value, .no_id = true},
    {NULL},
};
