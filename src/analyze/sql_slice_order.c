/* slice: orders of its rows by name, category, or what their tracks belong to. */
#include "analyze/sql_slice.h"
#include "base/mem.h"

uint32_t stk__sql_track_process(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *x = &t->tracks[track];
    if (x->process != STK__NONE)
        return x->process;
    return x->thread != STK__NONE ? t->threads[x->thread].process : STK__NONE;
}

bool stk__slice_sortable(int column)
{
    switch (column) {
    case STK__SLICE_ts:
    case STK__SLICE_track_id:
    case STK__SLICE_category:
    case STK__SLICE_name:
    case STK__SLICE_utid:
    case STK__SLICE_upid:
    case STK__SLICE_tid:
    case STK__SLICE_pid:
    case STK__SLICE_thread_name:
    case STK__SLICE_process_name:
    case STK__SLICE_file_id:
        return true;
    default:
        return false;
    }
}

static int64_t row_number(uint32_t row)
{
    return row == STK__NONE ? STK__NO_NUMBER : (int64_t)row;
}

/* What xColumn gives for slices of a track; STK__NO_NUMBER is NULL. */
static int64_t track_number(const stk__trace *t, uint32_t track, int column)
{
    const uint32_t thread = t->tracks[track].thread, process = stk__sql_track_process(t, track);
    switch (column) {
    case STK__SLICE_utid:
        return row_number(thread);
    case STK__SLICE_upid:
        return row_number(process);
    case STK__SLICE_tid:
        return thread == STK__NONE || t->threads[thread].tid_text ? STK__NO_NUMBER : t->threads[thread].tid;
    case STK__SLICE_pid:
        return process == STK__NONE || t->processes[process].pid_text ? STK__NO_NUMBER : t->processes[process].pid;
    default:
        return row_number(t->tracks[track].file);
    }
}

static stk__string track_text(const stk__trace *t, uint32_t track, int column)
{
    const uint32_t thread = t->tracks[track].thread, process = stk__sql_track_process(t, track);
    if (column == STK__SLICE_thread_name)
        return thread == STK__NONE ? 0 : t->threads[thread].name;
    return process == STK__NONE ? 0 : t->processes[process].name;
}

static bool rank_tracks(const stk__trace *t, int column, stk__sql_map *out)
{
    const bool text = column == STK__SLICE_thread_name || column == STK__SLICE_process_name;
    int64_t *numbers = stk__calloc(t->track_count, sizeof *numbers);
    stk__string *strings = stk__calloc(t->track_count, sizeof *strings);
    bool ok = numbers && strings;
    for (uint32_t i = 0; ok && i < t->track_count; i++) {
        if (text)
            strings[i] = track_text(t, i, column);
        else
            numbers[i] = track_number(t, i, column);
    }
    ok = ok && (text ? stk__sql_rank_texts(t, strings, t->track_count, out)
                     : stk__sql_rank_numbers(numbers, t->track_count, out));
    stk__free(numbers);
    stk__free(strings);
    return ok;
}

const stk__sql_map *stk__slice_map(stk__sql *s, int column)
{
    const stk__trace *t = s->trace;
    stk__sql_map *map = &s->maps[column];
    if (map->rank)
        return map;
    bool ok;
    if (column == STK__SLICE_name)
        ok = stk__sql_rank_strings(t, t->slices.name, t->slices.count, map);
    else if (column == STK__SLICE_category)
        ok = stk__sql_rank_strings(t, t->slices.category, t->slices.count, map);
    else
        ok = rank_tracks(t, column, map);
    return ok ? map : NULL;
}

static bool key_of(stk__sql *s, uint8_t key, stk__sql_key *out)
{
    const stk__slices *slices = &s->trace->slices;
    const int column = key & ~STK__KEY_FLIPPED;
    const bool flipped = (key & STK__KEY_FLIPPED) != 0;
    if (column == STK__SLICE_ts) {
        *out = (stk__sql_key){.wide = slices->ts, .flipped = flipped};
        return true;
    }
    if (column == STK__SLICE_track_id) {
        *out = (stk__sql_key){.value = slices->track, .ranks = s->trace->track_count, .flipped = flipped};
        return true;
    }
    const stk__sql_map *map = stk__slice_map(s, column);
    if (!map)
        return false;
    *out = (stk__sql_key){.value = slices->track, .rank = map->rank, .ranks = map->ranks, .flipped = flipped};
    if (column == STK__SLICE_name)
        out->value = slices->name;
    if (column == STK__SLICE_category)
        out->value = slices->category;
    return true;
}

static bool keys_of(stk__sql *s, const uint8_t *columns, size_t count, stk__sql_key *keys)
{
    for (size_t i = 0; i < count; i++) {
        if (!key_of(s, columns[i], &keys[i]))
            return false;
    }
    return true;
}

static bool same_columns(const stk__sql_order *order, const uint8_t *columns, size_t count)
{
    if (order->column_count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (order->columns[i] != columns[i])
            return false;
    }
    return true;
}

static void order_clear(stk__sql_order *order)
{
    for (size_t i = 0; i < STK__COPY_COUNT; i++)
        stk__free(order->copies[i]);
    stk__free(order->first);
    stk__free(order->runs);
    *order = (stk__sql_order){0};
}

/*
 * The order that was not used for the longest time, of those that nobody reads; with `filled` only ones that take
 * memory.
 */
static stk__sql_order *oldest_order(stk__sql *s, bool filled)
{
    stk__sql_order *oldest = NULL;
    for (size_t i = 0; i < STK__SQL_ORDERS; i++) {
        stk__sql_order *order = &s->orders[i];
        if (order->users == 0 && (order->column_count || !filled) && (!oldest || order->last_used < oldest->last_used))
            oldest = order;
    }
    return oldest;
}

static size_t copy_bytes(int copy)
{
    return copy == STK__COPY_TS || copy == STK__COPY_DUR ? sizeof(int64_t) : sizeof(uint32_t);
}

/* Bytes per row of all copies. */
static size_t copies_bytes(const stk__sql *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < STK__SQL_ORDERS; i++) {
        for (int copy = 0; copy < STK__COPY_COUNT; copy++)
            bytes += s->orders[i].copies[copy] ? copy_bytes(copy) : 0;
    }
    return bytes;
}

/* Copies may take about half of what the columns of slices do. */
enum { COPIES_BYTES_PER_ROW = 20 };

static const void *copied_column(const stk__trace *t, int copy)
{
    const void *const columns[STK__COPY_COUNT] = {
        [STK__COPY_TRACK] = t->slices.track,
        [STK__COPY_NAME] = t->slices.name,
        [STK__COPY_CATEGORY] = t->slices.category,
        [STK__COPY_ARGS] = t->slices.args,
        [STK__COPY_TS] = t->slices.ts,
        [STK__COPY_DUR] = t->slices.dur,
    };
    return columns[copy];
}

const void *stk__slice_copy(stk__sql *s, stk__sql_order *order, int copy)
{
    const size_t rows = s->trace->slices.count;
    stk__sql_key keys[STK__SQL_KEYS];
    if (order->copies[copy] || order->groups == 0)
        return order->copies[copy];
    while (copies_bytes(s) + copy_bytes(copy) > COPIES_BYTES_PER_ROW) {
        stk__sql_order *old = oldest_order(s, true);
        if (old)
            order_clear(old);
        else if (copy == STK__COPY_ROW)
            break;
        else
            return NULL;
    }
    void *data = stk__calloc(rows, copy_bytes(copy));
    if (data && keys_of(s, order->columns, order->column_count, keys) &&
        stk__sql_scatter(s->trace, keys, order->strides, order->column_count, order->first, order->groups, rows,
                         copied_column(s->trace, copy), copy_bytes(copy), data))
        order->copies[copy] = data;
    else
        stk__free(data);
    return order->copies[copy];
}

const stk__sql_run *stk__slice_runs(stk__sql *s, stk__sql_order *order)
{
    stk__sql_key keys[STK__SQL_KEYS];
    if (!order->runs && keys_of(s, order->columns, order->column_count, keys))
        order->runs = stk__sql_runs(s->trace, keys, order->strides, order->column_count, order->groups,
                                    s->trace->slices.dur, s->trace->slices.count);
    return order->runs;
}

uint32_t stk__slice_group_value(const stk__sql *s, const stk__sql_order *order, size_t group, size_t key)
{
    const int column = order->columns[key] & ~STK__KEY_FLIPPED;
    const uint32_t *values = s->maps[column].values;
    const size_t ranks = values ? s->maps[column].ranks : s->trace->track_count;
    size_t rank = group / order->strides[key] % ranks;
    if (order->columns[key] & STK__KEY_FLIPPED)
        rank = ranks - 1 - rank;
    return values ? values[rank] : (uint32_t)rank;
}

/* Few enough groups get places of their own, so that columns can be copied in one pass. */
enum { GROUPS_MAX = 1 << 22 };

static bool group_order(stk__sql *s, stk__sql_order *order, const stk__sql_key *keys)
{
    size_t groups = 1;
    for (size_t i = order->column_count; i-- > 0;) {
        if (keys[i].wide || (order->column_count > 1 && keys[i].ranks && groups > GROUPS_MAX / keys[i].ranks))
            return true;
        order->strides[i] = groups;
        groups *= STK_MAX(keys[i].ranks, 1);
    }
    order->first = stk__sql_groups(s->trace, keys, order->strides, order->column_count, groups, s->trace->slices.count);
    order->groups = order->first ? groups : 0;
    return order->first != NULL;
}

static stk__sql_order *make_order(stk__sql *s, const uint8_t *columns, size_t count)
{
    stk__sql_key keys[STK__SQL_KEYS];
    stk__sql_order *order = oldest_order(s, false);
    if (!order || !keys_of(s, columns, count, keys))
        return NULL;
    order_clear(order);
    order->column_count = count;
    for (size_t i = 0; i < count; i++)
        order->columns[i] = columns[i];
    bool ok = group_order(s, order, keys);
    if (ok && order->groups == 0) {
        order->copies[STK__COPY_ROW] = stk__sql_sort(s->trace, keys, count, s->trace->slices.count);
        ok = order->copies[STK__COPY_ROW] != NULL;
    }
    if (ok)
        return order;
    order_clear(order);
    return NULL;
}

stk__sql_order *stk__slice_order(stk__sql *s, const uint8_t *columns, size_t count)
{
    stk__sql_order *order = NULL;
    for (size_t i = 0; i < STK__SQL_ORDERS && !order; i++) {
        if (same_columns(&s->orders[i], columns, count))
            order = &s->orders[i];
    }
    if (!order)
        order = make_order(s, columns, count);
    if (order) {
        order->last_used = ++s->clock;
        order->users++;
    }
    return order;
}

void stk__slice_orders_clear(stk__sql *s)
{
    for (size_t i = 0; i < STK__SQL_ORDERS; i++)
        order_clear(&s->orders[i]);
    for (size_t i = 0; i < STK__SQL_MAPS; i++) {
        stk__free(s->maps[i].rank);
        stk__free(s->maps[i].values);
    }
    stk__free(s->slices_by_args.rows);
}
