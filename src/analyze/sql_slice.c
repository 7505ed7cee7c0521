/* slice: the virtual table over the columns of slices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/sql_slice.h"
#include "base/mem.h"

#include "base/banned.h"

/* How far ahead columns are fetched: enough rows of a query for memory to answer, few enough to stay in the cache. */
enum { FETCH_AHEAD = 16, EQUALS = 5, TRIM_ROWS = 1 << 20 };

typedef struct slice_table {
    sqlite3_vtab base;
    stk__sql *sql;
    bool thread_keys;                  /* those of thread_ts and thread_dur have been looked for */
    stk__string thread_ts, thread_dur; /* STK__NONE: no arg has them */
    stk__string keys[];                /* of the columns of args, as they were declared for this one */
} slice_table;

/* A column as the cursor sees it: the value is data[*at], where `at` is the row, the place in the order, or 0. */
typedef struct narrow {
    const uint32_t *data, *at;
} narrow;

typedef struct wide {
    const int64_t *data;
    const uint32_t *at;
} wide;

typedef struct equal {
    const narrow *column;
    uint32_t value;
} equal;

typedef struct fetched {
    const char *column;
    unsigned shift; /* of the size of a value */
} fetched;

typedef struct slice_cursor {
    sqlite3_vtab_cursor base;
    const stk__trace *trace;
    uint32_t row, place, zero;
    bool eof;
    narrow track, parent, args, name, category;
    wide ts, dur;

    /* The rows looked at: sorted[at..end), or at..end themselves; then the next track when there is one. */
    const uint32_t *sorted;
    size_t at, end;
    uint32_t next_track, track_end;
    bool reverse; /* `at` counts from the end, which stands at first + end - 1 = mirror */
    size_t mirror;

    /* In an order with groups: the current one, and what its rows have in common. */
    stk__sql_order *order;
    bool grouped, distinct;
    size_t group, group_first, group_end;
    uint32_t key_values[STK__SQL_KEYS]; /* strings and tracks */
    const uint32_t
        *known_tracks[STK__SLICE_COLUMN_COUNT]; /* columns told by a track of the group; NULL: by the row's */

    /* What rows must fulfil. */
    bool checked;
    equal equals[EQUALS];
    size_t equal_count;
    int64_t low, high; /* of ts, both included */
    bool times;
    uint8_t *names; /* by string: 0 not known yet, 1 wanted, 2 not */
    char *pattern;  /* what is not known is compared with this; NULL: it is not wanted */
    bool glob;

    fetched fetch[STK__COPY_COUNT];
    size_t fetch_count;
} slice_cursor;

int stk__slice_declare(sqlite3 *db, const stk__sql_args *args)
{
#define DECLARE(name, type) "," #name " " type
    static const char columns[] = STK__SLICE_COLUMNS(DECLARE);
#undef DECLARE
    sqlite3_str *text = sqlite3_str_new(db);
    sqlite3_str_appendf(text, "CREATE TABLE slice(%s", columns + 1);
    for (size_t i = 0; args && i < args->count; i++)
        sqlite3_str_appendf(text, ",\"%w\" BLOB HIDDEN", args->items[i].column);
    sqlite3_str_appendchar(text, 1, ')');
    char *declaration = sqlite3_str_finish(text);
    if (!declaration)
        return SQLITE_NOMEM;
    const int code = sqlite3_declare_vtab(db, declaration);
    sqlite3_free(declaration);
    return code == SQLITE_OK ? sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS) : code;
}

static int slice_connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    stk__sql *s = arg;
    const stk__sql_args *args = &s->pasted.args;
    const int code = stk__slice_declare(db, args);
    if (code != SQLITE_OK)
        return code;
    slice_table *table = stk__calloc(1, sizeof *table + args->count * sizeof *table->keys);
    if (!table)
        return SQLITE_NOMEM;
    table->sql = s;
    for (size_t i = 0; i < args->count; i++)
        table->keys[i] = args->items[i].key;
    *out = &table->base;
    return SQLITE_OK;
}

static int slice_disconnect(sqlite3_vtab *vtab)
{
    stk__free(vtab);
    return SQLITE_OK;
}

static int slice_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    return stk__slice_plan(((slice_table *)vtab)->sql->trace, info);
}

static int slice_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    slice_cursor *c = stk__calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->trace = ((slice_table *)vtab)->sql->trace;
    *out = &c->base;
    return SQLITE_OK;
}

static void cursor_reset(slice_cursor *c)
{
    if (c->order)
        c->order->users--;
    stk__free(c->names);
    stk__free(c->pattern);
    const stk__slices *s = &c->trace->slices;
    *c = (slice_cursor){
        .base = c->base,
        .trace = c->trace,
        .low = INT64_MIN,
        .high = INT64_MAX,
        .track = {s->track, &c->row},
        .parent = {s->parent, &c->row},
        .args = {s->args, &c->row},
        .name = {s->name, &c->row},
        .category = {s->category, &c->row},
        .ts = {s->ts, &c->row},
        .dur = {s->dur, &c->row},
    };
}

static int slice_close(sqlite3_vtab_cursor *cursor)
{
    slice_cursor *c = (slice_cursor *)cursor;
    cursor_reset(c);
    stk__free(c);
    return SQLITE_OK;
}

/* ---- moving ---- */

static bool name_wanted(slice_cursor *c, stk__string name)
{
    if (c->names[name] == 0) {
        const char *text = stk__trace_str(c->trace, name);
        const bool wanted = c->pattern && name != 0 &&
                            (c->glob ? sqlite3_strglob(c->pattern, text) : sqlite3_strlike(c->pattern, text, 0)) == 0;
        c->names[name] = wanted ? 1 : 2;
    }
    return c->names[name] == 1;
}

static inline uint32_t narrow_value(narrow column)
{
    return column.data[*column.at];
}

static inline int64_t wide_value(wide column)
{
    return column.data[*column.at];
}

static bool row_wanted(slice_cursor *c)
{
    for (size_t i = 0; i < c->equal_count; i++) {
        if (narrow_value(*c->equals[i].column) != c->equals[i].value)
            return false;
    }
    if (c->times && (wide_value(c->ts) < c->low || wide_value(c->ts) > c->high))
        return false;
    return !c->names || name_wanted(c, narrow_value(c->name));
}

/* First slice of [first, end) that starts at `ts` or later. */
static size_t first_at(const int64_t *column, size_t first, size_t end, int64_t ts)
{
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (column[middle] < ts)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* The slices of a track that start between the two times. */
static void take_track(slice_cursor *c, const stk__trace_track *track)
{
    const int64_t *ts = c->trace->slices.ts;
    c->at = track->first_slice;
    c->end = c->at + track->slice_count;
    if (!c->times)
        return;
    c->at = first_at(ts, c->at, c->end, c->low);
    if (c->high < INT64_MAX)
        c->end = first_at(ts, c->at, c->end, c->high + 1);
}

/* To the group that has the place: the next one with rows, in either direction. */
static void move_group(slice_cursor *c)
{
    const stk__sql_order *order = c->order;
    const stk__sql *s = ((slice_table *)c->base.pVtab)->sql;
    while (c->place >= order->first[c->group + 1])
        c->group++;
    while (c->place < order->first[c->group])
        c->group--;
    c->group_first = order->first[c->group];
    c->group_end = order->first[c->group + 1];
    for (size_t i = 0; i < order->column_count; i++)
        c->key_values[i] = stk__slice_group_value(s, order, c->group, i);
}

static inline size_t place_of(const slice_cursor *c, size_t at)
{
    return c->reverse ? c->mirror - at : at;
}

static inline void move_to(slice_cursor *c)
{
    c->place = (uint32_t)place_of(c, c->at);
    c->row = c->sorted ? c->sorted[c->place] : c->place;
    if (c->grouped && (c->place < c->group_first || c->place >= c->group_end))
        move_group(c);
    if (c->at % TRIM_ROWS == 0)
        stk__trace_trim(c->trace);
}

static void find_row(slice_cursor *c)
{
    for (;;) {
        for (; c->at < c->end; c->at++) {
            move_to(c);
            if (!c->checked || row_wanted(c))
                return;
        }
        if (c->next_track == c->track_end)
            break;
        const uint32_t next = c->next_track++;
        take_track(c, &c->trace->tracks[c->reverse ? c->track_end - 1 - next : next]);
        c->mirror = c->at + c->end - 1;
    }
    c->eof = true;
}

static void fetch_ahead(const slice_cursor *c)
{
    if (c->at + FETCH_AHEAD >= c->end)
        return;
    const size_t row = c->sorted[place_of(c, c->at + FETCH_AHEAD)];
    for (size_t i = 0; i < c->fetch_count; i++)
        __builtin_prefetch(c->fetch[i].column + (row << c->fetch[i].shift));
}

static int slice_next(sqlite3_vtab_cursor *cursor)
{
    slice_cursor *c = (slice_cursor *)cursor;
    if (c->distinct) /* to the last row of the group */
        c->at = place_of(c, c->reverse ? c->group_first : c->group_end - 1);
    c->at++;
    if (c->fetch_count)
        fetch_ahead(c);
    find_row(c);
    return SQLITE_OK;
}

static int slice_eof(sqlite3_vtab_cursor *cursor)
{
    return ((slice_cursor *)cursor)->eof;
}

/* ---- starting ---- */

/* The values that xFilter was given, by term. */
typedef struct given {
    sqlite3_value *term[STK__TERM_COUNT];
    int path;
    const char *plan;
} given;

/* A row of another table that a column must refer to; false when there is none. */
static bool reference(sqlite3_value *value, size_t rows, uint32_t *out)
{
    int64_t number;
    if (!stk__sql_equal(value, &number) || number < 0 || (uint64_t)number >= rows)
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool want_reference(slice_cursor *c, sqlite3_value *value, const narrow *column, size_t rows, uint32_t none)
{
    uint32_t row;
    if (!value)
        return true;
    if (!reference(value, rows, &row) || row == none)
        return false;
    c->equals[c->equal_count++] = (equal){column, row};
    return true;
}

/* The same as stk__sql_text, by the sorted names once there are any: a join looks for many. */
static stk__string name_of(const stk__sql *s, sqlite3_value *value)
{
    const stk__sql_map *map = &s->maps[STK__SLICE_name];
    const int type = sqlite3_value_type(value);
    if (!map->rank || type == SQLITE_NULL || type == SQLITE_BLOB)
        return stk__sql_text(s, value);
    const char *text = (const char *)sqlite3_value_text(value);
    const size_t size = (size_t)sqlite3_value_bytes(value);
    size_t low = 0, high = map->ranks;
    while (text && low < high) {
        const size_t middle = low + (high - low) / 2;
        size_t length;
        const char *name = stk__trace_text(s->trace, map->values[middle], &length);
        int order = memcmp(name, text, STK_MIN(length, size));
        if (order == 0)
            order = (length > size) - (length < size);
        if (order == 0)
            return map->values[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return STK__NONE;
}

static bool want_text(slice_cursor *c, const stk__sql *s, sqlite3_value *value, const narrow *column)
{
    if (!value)
        return true;
    const stk__string string = column == &c->name ? name_of(s, value) : stk__sql_text(s, value);
    if (string == 0 || string == STK__NONE)
        return false;
    c->equals[c->equal_count++] = (equal){column, string};
    return true;
}

static int want_names(slice_cursor *c, const stk__sql *s, const given *g)
{
    sqlite3_value *pattern = g->term[STK__TERM_NAME_LIKE];
    c->glob = !pattern && g->term[STK__TERM_NAME_GLOB];
    if (c->glob)
        pattern = g->term[STK__TERM_NAME_GLOB];
    sqlite3_value *list = g->term[STK__TERM_NAME_IN], *value;
    if (!pattern && !list)
        return SQLITE_OK;
    c->names = stk__calloc(s->trace->string_count, 1);
    if (!c->names)
        return SQLITE_NOMEM;
    if (!list) {
        const char *text = (const char *)sqlite3_value_text(pattern);
        c->pattern = text ? stk__strdup(text) : NULL;
        return text && !c->pattern ? SQLITE_NOMEM : SQLITE_OK;
    }
    int code = sqlite3_vtab_in_first(list, &value);
    for (; code == SQLITE_OK && value; code = sqlite3_vtab_in_next(list, &value)) {
        const stk__string string = name_of(s, value);
        if (string != 0 && string != STK__NONE)
            c->names[string] = 1;
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void want_times(slice_cursor *c, const given *g)
{
    sqlite3_value *low = g->term[STK__TERM_TS_LOW], *high = g->term[STK__TERM_TS_HIGH];
    if (low)
        stk__sql_bound(low, SQLITE_INDEX_CONSTRAINT_GE, &c->low, &c->high);
    if (high)
        stk__sql_bound(high, SQLITE_INDEX_CONSTRAINT_LE, &c->low, &c->high);
    c->times = low || high;
}

/* Sets *any to false when no row can fulfil the terms. */
static int want_terms(slice_cursor *c, const stk__sql *s, const given *g, bool *any)
{
    *any = want_reference(c, g->term[STK__TERM_TRACK], &c->track, s->trace->track_count, STK__NONE) &&
           want_reference(c, g->term[STK__TERM_PARENT], &c->parent, s->trace->slices.count, STK__NONE) &&
           want_reference(c, g->term[STK__TERM_ARGS], &c->args, s->trace->args.count, 0) &&
           want_text(c, s, g->term[STK__TERM_NAME], &c->name) &&
           want_text(c, s, g->term[STK__TERM_CATEGORY], &c->category);
    if (!*any)
        return SQLITE_OK;
    want_times(c, g);
    const int code = want_names(c, s, g);
    c->checked = c->equal_count || c->times || c->names;
    return code;
}

static void take_rows(slice_cursor *c, const given *g)
{
    int64_t low = 0, high = (int64_t)c->trace->slices.count - 1, id;
    if (g->term[STK__TERM_ID]) {
        if (!stk__sql_equal(g->term[STK__TERM_ID], &id))
            return;
        low = STK_MAX(low, id);
        high = STK_MIN(high, id);
    }
    if (g->term[STK__TERM_ID_LOW])
        stk__sql_bound(g->term[STK__TERM_ID_LOW], SQLITE_INDEX_CONSTRAINT_GE, &low, &high);
    if (g->term[STK__TERM_ID_HIGH])
        stk__sql_bound(g->term[STK__TERM_ID_HIGH], SQLITE_INDEX_CONSTRAINT_LE, &low, &high);
    low = STK_MAX(low, 0);
    high = STK_MIN(high, (int64_t)c->trace->slices.count - 1);
    if (low <= high) {
        c->at = (size_t)low;
        c->end = (size_t)high + 1;
    }
}

/* What is inside a slice follows it directly, deeper than itself. */
static void take_children(slice_cursor *c, uint32_t parent)
{
    const stk__slices *slices = &c->trace->slices;
    const stk__trace_track *track = &c->trace->tracks[slices->track[parent]];
    const size_t last = (size_t)track->first_slice + track->slice_count;
    const uint16_t depth = slices->depth[parent];
    c->at = (size_t)parent + 1;
    for (c->end = c->at; c->end < last && (slices->depth[c->end] > depth || depth == UINT16_MAX); c->end++)
        continue;
}

/* The first lookups read the whole column, which is fast; who asks more often gets an order or an index. */
enum { LOOKUPS_BY_SCAN = 3 };

static int take_order(slice_cursor *c, stk__sql *s, const uint8_t *columns, size_t count)
{
    c->order = stk__slice_order(s, columns, count);
    c->end = c->trace->slices.count;
    return c->order ? SQLITE_OK : SQLITE_NOMEM;
}

static int take_order_rows(slice_cursor *c, stk__sql *s)
{
    c->sorted = stk__slice_copy(s, c->order, STK__COPY_ROW);
    return c->sorted ? SQLITE_OK : SQLITE_NOMEM;
}

static int take_name(slice_cursor *c, stk__sql *s, const given *g)
{
    static const uint8_t by_name[] = {STK__SLICE_name};
    if (s->name_lookups++ < LOOKUPS_BY_SCAN && !s->maps[STK__SLICE_name].rank) {
        take_rows(c, g);
        return SQLITE_OK;
    }
    int code = take_order(c, s, by_name, 1);
    if (code == SQLITE_OK)
        code = take_order_rows(c, s);
    if (code != SQLITE_OK)
        return code;
    const uint32_t *rank = s->maps[STK__SLICE_name].rank;
    stk__string name = 0;
    for (size_t i = 0; i < c->equal_count; i++) {
        if (c->equals[i].column == &c->name)
            name = c->equals[i].value;
    }
    c->end = 0;
    if (rank[name] != STK__NONE) {
        c->at = c->order->first[rank[name]];
        c->end = c->order->first[rank[name] + 1];
    }
    return SQLITE_OK;
}

static int take_args(slice_cursor *c, stk__sql *s, const given *g)
{
    const stk__trace *t = s->trace;
    if (s->args_lookups++ < LOOKUPS_BY_SCAN) {
        take_rows(c, g);
        return SQLITE_OK;
    }
    uint32_t set;
    if (!stk__sql_index_make(t, &s->slices_by_args, t->slices.args, t->slices.count, 0, t->args.count))
        return SQLITE_NOMEM;
    if (reference(g->term[STK__TERM_ARGS], t->args.count, &set)) {
        c->sorted = s->slices_by_args.rows;
        stk__sql_index_find(&s->slices_by_args, t->slices.args, set, &c->at, &c->end);
    }
    return SQLITE_OK;
}

/* A column of the order when it has or gets one, else that of the trace, fetched ahead. */
static bool take_copy(slice_cursor *c, stk__sql *s, int copy)
{
    const stk__slices *slices = &c->trace->slices;
    narrow *const narrows[STK__COPY_COUNT] = {
        [STK__COPY_TRACK] = &c->track,
        [STK__COPY_NAME] = &c->name,
        [STK__COPY_CATEGORY] = &c->category,
        [STK__COPY_ARGS] = &c->args,
    };
    const void *data = stk__slice_copy(s, c->order, copy);
    if (narrows[copy]) {
        if (!data)
            c->fetch[c->fetch_count++] = (fetched){(const char *)narrows[copy]->data, 2};
        else
            *narrows[copy] = (narrow){data, &c->place};
    } else {
        wide *column = copy == STK__COPY_TS ? &c->ts : &c->dur;
        if (!data)
            c->fetch[c->fetch_count++] = (fetched){(const char *)(copy == STK__COPY_TS ? slices->ts : slices->dur), 3};
        else
            *column = (wide){data, &c->place};
    }
    return data != NULL;
}

/* What all rows of a group have in common needs no column. */
static void take_keys(slice_cursor *c)
{
    for (size_t i = 0; i < c->order->column_count; i++) {
        const int column = c->order->columns[i] & ~STK__KEY_FLIPPED;
        const narrow value = {&c->key_values[i], &c->zero};
        if (column == STK__SLICE_name)
            c->name = value;
        else if (column == STK__SLICE_category)
            c->category = value;
        else if (column == STK__SLICE_track_id)
            c->track = value;
        else
            c->known_tracks[column] = &c->key_values[i];
    }
}

static int take_sorted(slice_cursor *c, stk__sql *s, const given *g)
{
    uint8_t columns[STK__SQL_KEYS];
    size_t count = 0;
    const char *p = g->plan;
    for (; *p != '/' && count < STK__SQL_KEYS; p++)
        columns[count++] = (uint8_t)(*p >= 'a' ? *p - 'a' : (*p - 'A') | STK__KEY_FLIPPED);
    const unsigned used = (unsigned)strtoul(p + 1, NULL, 16);
    const int code = take_order(c, s, columns, count);
    if (code != SQLITE_OK)
        return code;
    bool by_row = c->order->groups == 0 || used & 1U << STK__COPY_ROW;
    for (int copy = STK__COPY_DUR; copy > STK__COPY_ROW; copy--) {
        if (used >> copy & 1)
            by_row |= !take_copy(c, s, copy);
    }
    c->grouped = c->order->groups > 0;
    if (c->grouped)
        take_keys(c);
    return by_row ? take_order_rows(c, s) : SQLITE_OK;
}

static int take_path(slice_cursor *c, stk__sql *s, const given *g)
{
    uint32_t row;
    switch (g->path) {
    case STK__PATH_TRACK:
        if (reference(g->term[STK__TERM_TRACK], s->trace->track_count, &row))
            take_track(c, &s->trace->tracks[row]);
        return SQLITE_OK;
    case STK__PATH_PARENT:
        if (reference(g->term[STK__TERM_PARENT], s->trace->slices.count, &row))
            take_children(c, row);
        return SQLITE_OK;
    case STK__PATH_ARGS:
        return take_args(c, s, g);
    case STK__PATH_NAME:
        return take_name(c, s, g);
    case STK__PATH_TRACKS:
        c->track_end = (uint32_t)s->trace->track_count;
        return SQLITE_OK;
    case STK__PATH_SORTED:
        return take_sorted(c, s, g);
    default:
        take_rows(c, g);
        return SQLITE_OK;
    }
}

static int slice_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc, sqlite3_value **argv)
{
    slice_cursor *c = (slice_cursor *)cursor;
    stk__sql *s = ((slice_table *)cursor->pVtab)->sql;
    given g = {.path = number >> STK__PATH_SHIFT & 0x7f, .plan = text};
    int next = 0;
    for (int i = 0; i < STK__TERM_COUNT && next < argc; i++) {
        if (number >> i & 1)
            g.term[i] = argv[next++];
    }
    cursor_reset(c);
    bool any;
    int code = want_terms(c, s, &g, &any);
    if (code == SQLITE_OK && any)
        code = take_path(c, s, &g);
    if (code != SQLITE_OK)
        return code;
    c->reverse = (number & STK__PATH_REVERSE) != 0;
    c->mirror = c->at + c->end - 1;
    c->distinct = (number & STK__PATH_DISTINCT) != 0 && c->grouped;
    find_row(c);
    return SQLITE_OK;
}

/* ---- values ---- */

static void put_thread(const stk__trace *t, sqlite3_context *out, int column, uint32_t track)
{
    const uint32_t thread = t->tracks[track].thread;
    if (thread == STK__NONE)
        return;
    if (column == STK__SLICE_utid)
        sqlite3_result_int64(out, thread);
    else if (column == STK__SLICE_thread_name)
        stk__sql_string(out, t, t->threads[thread].name);
    else if (!t->threads[thread].tid_text)
        sqlite3_result_int64(out, t->threads[thread].tid);
}

static void put_process(const stk__trace *t, sqlite3_context *out, int column, uint32_t track)
{
    const uint32_t process = stk__sql_track_process(t, track);
    if (process == STK__NONE)
        return;
    if (column == STK__SLICE_upid)
        sqlite3_result_int64(out, process);
    else if (column == STK__SLICE_process_name)
        stk__sql_string(out, t, t->processes[process].name);
    else if (!t->processes[process].pid_text)
        sqlite3_result_int64(out, t->processes[process].pid);
}

void stk__slice_put(const stk__trace *t, sqlite3_context *out, int column, uint32_t value)
{
    switch (column) {
    case STK__SLICE_name:
    case STK__SLICE_category:
    case STK__SLICE_cat:
        stk__sql_string(out, t, value);
        break;
    case STK__SLICE_track_id:
        sqlite3_result_int64(out, value);
        break;
    case STK__SLICE_utid:
    case STK__SLICE_tid:
    case STK__SLICE_thread_name:
        put_thread(t, out, column, value);
        break;
    case STK__SLICE_upid:
    case STK__SLICE_pid:
    case STK__SLICE_process_name:
        put_process(t, out, column, value);
        break;
    case STK__SLICE_file_id:
        stk__sql_row(out, t->tracks[value].file);
        break;
    }
}

static void put_arg(const slice_cursor *c, sqlite3_context *out, stk__string key)
{
    const size_t row = narrow_value(c->args) ? stk__sql_find_arg(c->trace, narrow_value(c->args), key) : 0;
    if (row)
        stk__sql_put_arg(out, c->trace, row);
}

/* The thread's own clock: Chrome's files have it as args, in us. */
static void put_thread_time(const slice_cursor *c, sqlite3_context *out, int column)
{
    const stk__trace *t = c->trace;
    slice_table *table = (slice_table *)c->base.pVtab;
    if (!table->thread_keys) {
        table->thread_ts = stk__trace_find(t, "tts", 3);
        table->thread_dur = stk__trace_find(t, "tdur", 4);
        table->thread_keys = true;
    }
    const stk__string key = column == STK__SLICE_thread_ts ? table->thread_ts : table->thread_dur;
    const bool any = narrow_value(c->args) && key != STK__NONE;
    const size_t row = any ? stk__sql_find_arg(t, narrow_value(c->args), key) : 0;
    const unsigned type = row ? t->args.type[row] & STK__ARG_TYPE : STK__ARG_NULL;
    const double us = type == STK__ARG_INT      ? (double)t->args.value[row].integer
                      : type == STK__ARG_DOUBLE ? t->args.value[row].real
                                                : NAN;
    if (fabs(us) < 9e15)
        sqlite3_result_int64(out, llround(us * 1000));
}

static int slice_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
    const slice_cursor *c = (const slice_cursor *)cursor;
    const stk__slices *s = &c->trace->slices;
    switch (column) {
    case STK__SLICE_id:
    case STK__SLICE_slice_id:
        sqlite3_result_int64(out, c->row);
        break;
    case STK__SLICE_thread_ts:
    case STK__SLICE_thread_dur:
        put_thread_time(c, out, column);
        break;
    case STK__SLICE_ts:
        sqlite3_result_int64(out, wide_value(c->ts));
        break;
    case STK__SLICE_dur:
        sqlite3_result_int64(out, wide_value(c->dur));
        break;
    case STK__SLICE_track_id:
        sqlite3_result_int64(out, narrow_value(c->track));
        break;
    case STK__SLICE_category:
    case STK__SLICE_cat:
        stk__sql_string(out, c->trace, narrow_value(c->category));
        break;
    case STK__SLICE_name:
        stk__sql_string(out, c->trace, narrow_value(c->name));
        break;
    case STK__SLICE_depth:
        sqlite3_result_int(out, s->depth[c->row]);
        break;
    case STK__SLICE_parent_id:
        stk__sql_row(out, s->parent[c->row]);
        break;
    case STK__SLICE_arg_set_id:
        if (narrow_value(c->args))
            sqlite3_result_int64(out, narrow_value(c->args));
        break;
    case STK__SLICE_is_instant:
        sqlite3_result_int(out, (s->flags[c->row] & STK__SLICE_INSTANT) != 0);
        break;
    case STK__SLICE_is_unfinished:
        sqlite3_result_int(out, (s->flags[c->row] & STK__SLICE_UNFINISHED) != 0);
        break;
    default:
        if (column >= STK__SLICE_COLUMN_COUNT) {
            put_arg(c, out, ((slice_table *)cursor->pVtab)->keys[column - STK__SLICE_COLUMN_COUNT]);
            break;
        }
        stk__slice_put(c->trace, out, column,
                       c->known_tracks[column] ? *c->known_tracks[column] : narrow_value(c->track));
        break;
    }
    return SQLITE_OK;
}

static int slice_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    slice_cursor *c = (slice_cursor *)cursor;
    if (c->grouped && !c->sorted) { /* no column of the query needed the number of the row */
        const int code = take_order_rows(c, ((slice_table *)cursor->pVtab)->sql);
        if (code != SQLITE_OK)
            return code;
        c->row = c->sorted[c->place];
    }
    *out = c->row;
    return SQLITE_OK;
}

int stk__sql_add_slice(sqlite3 *db, stk__sql *s)
{
    static const sqlite3_module module = {
        .xConnect = slice_connect,
        .xBestIndex = slice_best_index,
        .xDisconnect = slice_disconnect,
        .xOpen = slice_open,
        .xClose = slice_close,
        .xFilter = slice_filter,
        .xNext = slice_next,
        .xEof = slice_eof,
        .xColumn = slice_column,
        .xRowid = slice_rowid,
    };
    return sqlite3_create_module_v2(db, "slice", &module, stk__sql_ref(s), stk__sql_unref);
}
