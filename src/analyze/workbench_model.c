/* Tables of the trace for the workbench: slices, counters, samples and flows as they lie in memory, others by SQL. */
#include <string.h>

#include "analyze/sql_slice.h"
#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* A table under way: columns are added one by one; memory that runs out is remembered. */
typedef struct adder {
    stk_trace *trace;
    const stk__trace *model;
    stk_table *table;
    size_t at;
    bool failed;
} adder;

static stk__table_column *add(adder *a, const char *name, stk_column_kind kind, stk__layout layout, const void *data)
{
    stk__table_column *c = &a->table->columns[a->at++];
    c->name = stk__strdup(name);
    c->kind = kind;
    c->layout = layout;
    c->data = data;
    a->failed |= !c->name;
    return c;
}

static void add_int64(adder *a, const char *name, const int64_t *data)
{
    add(a, name, STK_KIND_INT64, STK__LAYOUT_INT64, data);
}

/* Numbers of rows; `none` is the one that stands for none. */
static void add_rows(adder *a, const char *name, const uint32_t *data, uint32_t none)
{
    stk__table_column *c = add(a, name, STK_KIND_INT64, STK__LAYOUT_UINT32, data);
    c->has_none = true;
    c->none = none;
}

static void add_ids(adder *a)
{
    const uint32_t *numbers = stk__workbench_numbers(a->trace);
    add(a, "id", STK_KIND_INT64, STK__LAYOUT_UINT32, numbers);
    a->failed |= !numbers;
}

static stk__table_column *add_strings(adder *a, const char *name, const stk__string *data)
{
    stk__table_column *c = add(a, name, STK_KIND_DICTIONARY, STK__LAYOUT_UINT32, data);
    c->dictionary = stk__workbench_strings(a->trace);
    c->has_none = true; /* 0 */
    a->failed |= !c->dictionary;
    return c;
}

static void add_flag(adder *a, const char *name, uint8_t flag)
{
    add(a, name, STK_KIND_INT64, STK__LAYOUT_UINT8, a->model->slices.flags)->flag = flag;
}

/* ---- what rows have from their track or flow ---- */

typedef struct picked {
    const char *name;
    stk__layout layout;
    uint64_t none;
    bool text;
    uint64_t (*of)(const stk__trace *t, uint32_t row); /* of a track, or of a flow's key */
} picked;

static const stk__trace_thread *thread_of(const stk__trace *t, uint32_t track)
{
    const uint32_t thread = t->tracks[track].thread;
    return thread == STK__NONE ? NULL : &t->threads[thread];
}

static const stk__trace_process *process_of(const stk__trace *t, uint32_t track)
{
    const uint32_t process = stk__sql_track_process(t, track);
    return process == STK__NONE ? NULL : &t->processes[process];
}

static uint64_t utid_of(const stk__trace *t, uint32_t track)
{
    return t->tracks[track].thread;
}

static uint64_t upid_of(const stk__trace *t, uint32_t track)
{
    return stk__sql_track_process(t, track);
}

static uint64_t tid_of(const stk__trace *t, uint32_t track)
{
    const stk__trace_thread *thread = thread_of(t, track);
    return (uint64_t)(thread && !thread->tid_text ? thread->tid : STK__NO_NUMBER);
}

static uint64_t pid_of(const stk__trace *t, uint32_t track)
{
    const stk__trace_process *process = process_of(t, track);
    return (uint64_t)(process && !process->pid_text ? process->pid : STK__NO_NUMBER);
}

static uint64_t thread_name_of(const stk__trace *t, uint32_t track)
{
    const stk__trace_thread *thread = thread_of(t, track);
    return thread ? thread->name : 0;
}

static uint64_t process_name_of(const stk__trace *t, uint32_t track)
{
    const stk__trace_process *process = process_of(t, track);
    return process ? process->name : 0;
}

static uint64_t file_of(const stk__trace *t, uint32_t track)
{
    return t->tracks[track].file;
}

static uint64_t track_name_of(const stk__trace *t, uint32_t track)
{
    return t->tracks[track].name;
}

static uint64_t unit_of(const stk__trace *t, uint32_t track)
{
    return STK_MIN(t->tracks[track].unit, (uint32_t)STK__UNIT_NONE);
}

static uint64_t flow_name_of(const stk__trace *t, uint32_t key)
{
    return t->flow_keys[key].name;
}

static uint64_t flow_category_of(const stk__trace *t, uint32_t key)
{
    return t->flow_keys[key].category;
}

static uint64_t flow_id_of(const stk__trace *t, uint32_t key)
{
    return t->flow_keys[key].id;
}

static uint64_t flow_file_of(const stk__trace *t, uint32_t key)
{
    return t->flow_keys[key].file;
}

#define NO_ROW .layout = STK__LAYOUT_UINT32, .none = STK__NONE
#define NO_NUMBER .layout = STK__LAYOUT_INT64, .none = (uint64_t)STK__NO_NUMBER
#define TEXT .layout = STK__LAYOUT_UINT32, .text = true

static const picked utid = {"utid", NO_ROW, .of = utid_of}, upid = {"upid", NO_ROW, .of = upid_of},
                    tid = {"tid", NO_NUMBER, .of = tid_of}, pid = {"pid", NO_NUMBER, .of = pid_of},
                    thread_name = {"thread_name", TEXT, .of = thread_name_of},
                    process_name = {"process_name", TEXT, .of = process_name_of},
                    file_id = {"file_id", NO_ROW, .of = file_of}, counter_name = {"name", TEXT, .of = track_name_of},
                    unit = {"unit", .layout = STK__LAYOUT_UINT32, .none = STK__UNIT_NONE, .of = unit_of},
                    flow_name = {"name", TEXT, .of = flow_name_of},
                    flow_category = {"category", TEXT, .of = flow_category_of},
                    flow_id = {"flow_id", TEXT, .of = flow_id_of}, flow_file = {"file_id", NO_ROW, .of = flow_file_of};

/* Values of a small table with `count` rows, which `place` refers to. */
static stk__table_column *add_picked(adder *a, const picked *p, const uint32_t *place, size_t count)
{
    const bool wide = p->layout == STK__LAYOUT_INT64;
    void *data = stk__calloc(count + 1, wide ? 8 : 4);
    stk__table_column *c = p->text ? add_strings(a, p->name, data) : add(a, p->name, STK_KIND_INT64, p->layout, data);
    c->owned[0] = data;
    c->place = place;
    c->has_none = true;
    c->none = p->none;
    if (!data) {
        a->failed = true;
        return c;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t x = p->of(a->model, (uint32_t)i);
        if (wide)
            ((int64_t *)data)[i] = (int64_t)x;
        else
            ((uint32_t *)data)[i] = (uint32_t)x;
    }
    return c;
}

static void add_of_track(adder *a, const picked *p, const uint32_t *tracks)
{
    add_picked(a, p, tracks, a->model->track_count);
}

/* ---- the tables ---- */

static void slice_columns(adder *a)
{
    const stk__slices *s = &a->model->slices;
    static const picked *const of_track[] = {&utid, &upid, &tid, &pid, &thread_name, &process_name, &file_id};
    add_ids(a);
    add_int64(a, "ts", s->ts);
    add_int64(a, "dur", s->dur);
    add(a, "track_id", STK_KIND_INT64, STK__LAYOUT_UINT32, s->track);
    add_strings(a, "category", s->category);
    add_strings(a, "name", s->name);
    add(a, "depth", STK_KIND_INT64, STK__LAYOUT_UINT16, s->depth);
    add_rows(a, "parent_id", s->parent, STK__NONE);
    add_rows(a, "arg_set_id", s->args, 0);
    for (size_t i = 0; i < STK_COUNT(of_track); i++)
        add_of_track(a, of_track[i], s->track);
    add_flag(a, "is_instant", STK__SLICE_INSTANT);
    add_flag(a, "is_unfinished", STK__SLICE_UNFINISHED);
}

static void counter_columns(adder *a)
{
    const stk__counters *s = &a->model->counters;
    add_ids(a);
    add_int64(a, "ts", s->ts);
    add(a, "track_id", STK_KIND_INT64, STK__LAYOUT_UINT32, s->track);
    add(a, "value", STK_KIND_DOUBLE, STK__LAYOUT_DOUBLE, s->value);
    add_of_track(a, &counter_name, s->track);
    add_of_track(a, &upid, s->track);
}

static void sample_columns(adder *a)
{
    static const int32_t offsets[] = {0, 2, 9, 14, 29};
    static const stk__dictionary units = {STK__UNIT_NONE, offsets, "nssamplesbytesbytes allocated", false};
    const stk__samples *s = &a->model->samples;
    add_ids(a);
    stk__table_column *ts = add(a, "ts", STK_KIND_INT64, STK__LAYOUT_INT64, s->ts);
    ts->has_none = true;
    ts->none = (uint64_t)STK__NO_TIME;
    add(a, "track_id", STK_KIND_INT64, STK__LAYOUT_UINT32, s->track);
    add_rows(a, "callsite_id", s->callsite, STK__NONE);
    add_int64(a, "weight", s->weight);
    stk__table_column *of_unit = add_picked(a, &unit, s->track, a->model->track_count);
    of_unit->kind = STK_KIND_DICTIONARY;
    of_unit->dictionary = &units;
    add_strings(a, "event", s->event);
    add_of_track(a, &utid, s->track);
}

static void flow_columns(adder *a)
{
    static const picked *const of_key[] = {&flow_name, &flow_category, &flow_id, &flow_file};
    const stk__flows *s = &a->model->flows;
    add_ids(a);
    add_rows(a, "slice_out", s->out, STK__NONE);
    add_rows(a, "slice_in", s->in, STK__NONE);
    for (size_t i = 0; i < STK_COUNT(of_key); i++)
        add_picked(a, of_key[i], s->key, a->model->flow_key_count);
}

static stk_status make_own(stk_trace *trace, size_t columns, size_t rows, void (*put)(adder *a), stk_table **out,
                           stk_error *err)
{
    adder a = {.trace = trace, .model = trace->model, .table = stk__table_new(trace, columns)};
    if (a.table) {
        a.table->rows = (int64_t)rows;
        put(&a);
    }
    if (!a.table || a.failed) {
        stk_table_free(a.table);
        return stk_error_set(err, STK_NOMEM, "out of memory: could not make a table of %zu rows", rows);
    }
    *out = a.table;
    return STK_OK;
}

/* ---- two that SQL does not have ---- */

static stk_status make_trace(const stk__trace *t, stk_table **out, stk_error *err)
{
    const struct {
        const char *name;
        uint64_t value;
    } cells[] = {
        {"start_ns", (uint64_t)t->start_ns}, {"end_ns", (uint64_t)t->end_ns}, {"files", t->file_count},
        {"slices", t->slices.count},         {"counters", t->counters.count}, {"samples", t->samples.count},
        {"functions", t->function_count},    {"flows", t->flows.count},       {"processes", t->process_count},
        {"threads", t->thread_count},        {"tracks", t->track_count},      {"strings", t->string_count},
        {"bytes", stk__trace_bytes(t)},
    };
    stk__table_maker m;
    STK_TRY(stk__maker_init(&m, STK_COUNT(cells), err));
    for (size_t i = 0; i < STK_COUNT(cells); i++) {
        stk__maker_name(&m, i, cells[i].name);
        stk__maker_int(&m, (int64_t)cells[i].value);
    }
    return stk__maker_finish(&m, out, err);
}

static stk_status make_tables(stk_table **out, stk_error *err)
{
    static const char *const names[] = {"name", "kind", "summary", "usage"};
    stk__table_maker m;
    STK_TRY(stk__maker_init(&m, STK_COUNT(names), err));
    for (size_t i = 0; i < STK_COUNT(names); i++)
        stk__maker_name(&m, i, names[i]);
    for (const stk__sql_table *x = stk__sql_tables; x->name; x++) {
        stk__maker_str(&m, x->name);
        stk__maker_str(&m, x->kind);
        stk__maker_str(&m, x->summary);
        if (x->usage)
            stk__maker_str(&m, x->usage);
        else
            stk__maker_null(&m);
    }
    return stk__maker_finish(&m, out, err);
}

/* ---- by name ---- */

static stk_status no_such_table(const char *name, stk_error *err)
{
    char list[400];
    const char *names[64];
    size_t count = 0;
    stk__text text;
    stk__text_fixed(&text, list, sizeof list);
    for (const stk__sql_table *x = stk__sql_tables; x->name && count < STK_COUNT(names); x++) {
        if (strcmp(x->kind, "table") == 0) /* views are many, and most are other names of these */
            stk__text_printf(&text, "%s%s", count ? ", " : "", x->name);
        if (strcmp(x->kind, "function") != 0)
            names[count++] = x->name;
    }
    const char *nearest = stk__nearest(name, names, count);
    if (nearest)
        return stk_error_set(err, STK_INVALID, "there is no table '%.40s'; did you mean '%s'? There are: %s", name,
                             nearest, list);
    return stk_error_set(err, STK_INVALID, "there is no table '%.40s'; there are: %s", name, list);
}

stk_status stk_trace_table(stk_trace *trace, const char *name, stk_table **out, stk_error *err)
{
    const stk__trace *t = trace->model;
    STK_TRY(stk__workbench_stopped(trace, err));
    if (strcmp(name, "slice") == 0)
        return make_own(trace, 18, t->slices.count, slice_columns, out, err);
    if (strcmp(name, "counter") == 0)
        return make_own(trace, 6, t->counters.count, counter_columns, out, err);
    if (strcmp(name, "sample") == 0)
        return make_own(trace, 8, t->samples.count, sample_columns, out, err);
    if (strcmp(name, "flow") == 0)
        return make_own(trace, 7, t->flows.count, flow_columns, out, err);
    if (strcmp(name, "trace") == 0)
        return make_trace(t, out, err);
    if (strcmp(name, "tables") == 0)
        return make_tables(out, err);
    for (const stk__sql_table *x = stk__sql_tables; x->name; x++) {
        if (strcmp(x->kind, "function") != 0 && strcmp(x->name, name) == 0)
            return stk__query_table(trace, x->name, out, err);
    }
    return no_such_table(name, err);
}
