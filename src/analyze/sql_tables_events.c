/* Tables of what happened besides slices: counter, flow, args and step. */
#include "analyze/sql_slice.h"
#include "analyze/sql_table.h"

#include "base/banned.h"

/* ---- counter ---- */

static size_t counter_count(const stk__sql *s)
{
    return s->trace->counters.count;
}

static bool counter_of_track(stk__sql *s, int64_t value, stk__sql_found *out)
{
    if (value >= 0 && (uint64_t)value < s->trace->track_count) {
        const stk__trace_track *track = &s->trace->tracks[value];
        *out =
            (stk__sql_found){.first = track->first_counter, .end = (size_t)track->first_counter + track->counter_count};
    }
    return true;
}

static void counter_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const uint32_t track = t->counters.track[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        sqlite3_result_int64(out, t->counters.ts[row]);
        break;
    case 2:
        sqlite3_result_int64(out, track);
        break;
    case 3:
        sqlite3_result_double(out, t->counters.value[row]);
        break;
    case 4:
        stk__sql_string(out, t, t->tracks[track].name);
        break;
    case 5:
        stk__sql_row(out, stk__sql_track_process(t, track));
        break;
    }
}

/* ---- flow ---- */

static size_t flow_count(const stk__sql *s)
{
    return s->trace->flows.count;
}

static bool flow_by(stk__sql *s, stk__sql_index *index, const uint32_t *column, int64_t value, stk__sql_found *out)
{
    const stk__trace *t = s->trace;
    if (!stk__sql_index_make(t, index, column, t->flows.count, STK__NONE, t->slices.count))
        return false;
    if (value >= 0 && (uint64_t)value < t->slices.count) {
        out->rows = index->rows;
        stk__sql_index_find(index, column, (uint32_t)value, &out->first, &out->end);
    }
    return true;
}

static bool flow_by_out(stk__sql *s, int64_t value, stk__sql_found *out)
{
    return flow_by(s, &s->flows_by_out, s->trace->flows.out, value, out);
}

static bool flow_by_in(stk__sql *s, int64_t value, stk__sql_found *out)
{
    return flow_by(s, &s->flows_by_in, s->trace->flows.in, value, out);
}

static void flow_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    const stk__trace_flow_key *key = &t->flow_keys[t->flows.key[row]];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        stk__sql_row(out, t->flows.out[row]);
        break;
    case 2:
        stk__sql_row(out, t->flows.in[row]);
        break;
    case 3:
        stk__sql_string(out, t, key->name);
        break;
    case 4:
        stk__sql_string(out, t, key->category);
        break;
    case 5:
        stk__sql_string(out, t, key->id);
        break;
    case 6:
        sqlite3_result_int64(out, key->file);
        break;
    }
}

/* ---- args ---- */

static size_t args_count(const stk__sql *s)
{
    return s->trace->args.count;
}

static bool args_of_set(stk__sql *s, int64_t value, stk__sql_found *out)
{
    const stk__args *args = &s->trace->args;
    if (value < 1 || (uint64_t)value >= args->count || (value > 1 && !(args->type[value - 1] & STK__ARG_LAST)))
        return true;
    size_t end = (size_t)value;
    while (end + 1 < args->count && !(args->type[end] & STK__ARG_LAST))
        end++;
    *out = (stk__sql_found){.first = (size_t)value, .end = end + 1};
    return true;
}

/* The first row of the set; reading in order, the one before tells. */
static size_t args_set(stk__sql_cursor *c, size_t row)
{
    const uint8_t *type = c->trace->args.type;
    if (c->known_row != SIZE_MAX && row >= c->known_value && row <= c->known_row)
        return c->known_value;
    size_t first = row;
    while (first > 1 && !(type[first - 1] & STK__ARG_LAST)) {
        first--;
        if (first == c->known_row) {
            first = c->known_value;
            break;
        }
    }
    c->known_row = row;
    c->known_value = first;
    return first;
}

static void put_arg(const stk__trace *t, sqlite3_context *out, size_t row, unsigned types)
{
    if (types >> (t->args.type[row] & STK__ARG_TYPE) & 1)
        stk__sql_put_arg(out, t, row);
}

static const char *arg_type(unsigned type)
{
    static const char *const names[] = {
        [STK__ARG_NULL] = "null",   [STK__ARG_BOOL] = "bool",     [STK__ARG_INT] = "int",
        [STK__ARG_DOUBLE] = "real", [STK__ARG_STRING] = "string", [STK__ARG_JSON] = "json",
    };
    return type < STK_COUNT(names) ? names[type] : "null";
}

enum {
    INTS = 1 << STK__ARG_BOOL | 1 << STK__ARG_INT,
    REALS = 1 << STK__ARG_DOUBLE,
    TEXTS = 1 << STK__ARG_STRING | 1 << STK__ARG_JSON,
};

/* The value as a text, whatever its type. */
static void put_display(const stk__trace *t, sqlite3_context *out, size_t row)
{
    const unsigned type = t->args.type[row] & STK__ARG_TYPE;
    char text[64];
    if (type == STK__ARG_BOOL)
        stk__sql_constant(out, t->args.value[row].integer ? "true" : "false");
    else if (type == STK__ARG_INT)
        sqlite3_snprintf(sizeof text, text, "%lld", (long long)t->args.value[row].integer);
    else if (type == STK__ARG_DOUBLE)
        sqlite3_snprintf(sizeof text, text, "%!.15g", t->args.value[row].real);
    else
        put_arg(t, out, row, TEXTS);
    if (type == STK__ARG_INT || type == STK__ARG_DOUBLE)
        sqlite3_result_text(out, text, -1, SQLITE_TRANSIENT);
}

static void args_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__trace *t = c->trace;
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        sqlite3_result_int64(out, (sqlite3_int64)args_set(c, row));
        break;
    case 2:
    case 3:
        stk__sql_string(out, t, t->args.key[row]);
        break;
    case 4:
        put_arg(t, out, row, INTS);
        break;
    case 5:
        put_arg(t, out, row, TEXTS);
        break;
    case 6:
        put_arg(t, out, row, REALS);
        break;
    case 7:
        stk__sql_constant(out, arg_type(t->args.type[row] & STK__ARG_TYPE));
        break;
    case 8:
        put_arg(t, out, row, INTS | REALS | TEXTS);
        break;
    case 9:
        put_display(t, out, row);
        break;
    }
}

/* ---- step ---- */

static stk_status find_steps(stk__sql *s, stk_error *err)
{
    if (s->have_steps)
        return STK_OK;
    STK_TRY(stk__steps_find(s->trace, &s->steps, err));
    s->have_steps = true;
    return STK_OK;
}

static size_t step_count(const stk__sql *s)
{
    return s->steps.count;
}

static void step_value(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row)
{
    const stk__step *x = &c->sql->steps.rows[row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)row);
        break;
    case 1:
        sqlite3_result_int64(out, x->number);
        break;
    case 2:
        sqlite3_result_int64(out, x->ts);
        break;
    case 3:
        sqlite3_result_int64(out, x->dur);
        break;
    case 4:
        stk__sql_row(out, x->file);
        break;
    case 5:
        stk__sql_row(out, x->process);
        break;
    case 6:
        stk__sql_row(out, x->slice);
        break;
    case 7:
        stk__sql_constant(out, c->sql->steps.from == STK__STEPS_MARKERS ? "markers" : "inferred");
        break;
    case 8:
        sqlite3_result_double(out, c->sql->steps.confidence);
        break;
    case 9:
        stk__sql_constant(out, c->sql->steps.marker);
        break;
    }
}

const stk__sql_plain stk__sql_tables_of_events[] = {
    {"counter",
     "id INTEGER, ts INTEGER, track_id INTEGER, value REAL, name TEXT, upid INTEGER",
     counter_count,
     counter_value,
     {{2, counter_of_track}}},
    {"flow",
     "id INTEGER, slice_out INTEGER, slice_in INTEGER, name TEXT, category TEXT, flow_id TEXT, file_id INTEGER",
     flow_count,
     flow_value,
     {{1, flow_by_out}, {2, flow_by_in}}},
    {"args",
     "id INTEGER, arg_set_id INTEGER, flat_key TEXT COLLATE arg_key, key TEXT COLLATE arg_key, int_value INTEGER, "
     "string_value TEXT, real_value REAL, value_type TEXT, value, display_value TEXT HIDDEN",
     args_count,
     args_value,
     {{1, args_of_set}},
     .first_row = 1},
    {"step",
     "id INTEGER, number INTEGER, ts INTEGER, dur INTEGER, file_id INTEGER, upid INTEGER, slice_id INTEGER, "
     "source TEXT, confidence REAL, marker TEXT",
     step_count, step_value, .open = find_steps},
    {NULL},
};
