/* Table-valued functions: questions that C answers faster than SQL can. */
#include <string.h>

#include "analyze/intervals.h"
#include "analyze/sql_table.h"
#include "analyze/stacks.h"
#include "analyze/top.h"
#include "base/mem.h"

#include "base/banned.h"

enum { ARGUMENTS = 2 };

/* Slices around or inside one: those that are listed, or all from `first` on. */
typedef struct nested {
    uint32_t *slices, first;
} nested;

typedef struct call {
    sqlite3_vtab_cursor base;
    const stk__trace *trace;
    const struct function *function;
    size_t row, count;
    char *text[ARGUMENTS]; /* as given, for the hidden columns */
    union {
        stk__top top;
        stk__gaps gaps;
        stk__stacks stacks;
        stk__overlap overlap;
        nested nested;
    } of;
} call;

typedef struct function {
    const char *name;
    const char *columns; /* the last `arguments` of them are hidden and take the arguments */
    int column_count, arguments, required;
    stk_status (*run)(call *c, stk_error *err);
    void (*value)(const call *c, sqlite3_context *out, int column);
    void (*clear)(call *c);
} function;

typedef struct module_state {
    stk__sql *sql;
    const function *function;
} module_state;

typedef struct function_vtab {
    sqlite3_vtab base;
    stk__sql *sql;
    const function *function;
} function_vtab;

static void put_text(sqlite3_context *out, const char *text)
{
    sqlite3_result_text(out, text, -1, SQLITE_TRANSIENT);
}

/* Names that match the pattern; everything without one. The array is the caller's. */
static stk__selection select_like(const char *const *pattern)
{
    return (stk__selection){.like = pattern, .like_count = *pattern ? 1 : 0};
}

static void put_slice_name(const stk__trace *t, sqlite3_context *out, uint32_t slice)
{
    if (slice < t->slices.count)
        stk__sql_string(out, t, t->slices.name[slice]);
}

/* ---- top([pattern [, grouping]]) ---- */

static bool grouping_of(const char *text, stk__top_by *out)
{
    static const struct {
        const char *name;
        stk__top_by by;
    } names[] = {
        {"name", STK__TOP_NAME},       {"thread", STK__TOP_THREAD}, {"category", STK__TOP_CATEGORY},
        {"cat", STK__TOP_CATEGORY},    {"file", STK__TOP_FILE},     {"step", STK__TOP_STEP},
        {"process", STK__TOP_PROCESS},
    };
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (!text || strcmp(text, names[i].name) == 0) {
            *out = names[i].by;
            return true;
        }
    }
    return false;
}

static stk_status top_run(call *c, stk_error *err)
{
    const char *pattern = c->text[0];
    stk__top_options options = {.select = select_like(&pattern)};
    stk__top_source sources[3];
    if (!grouping_of(c->text[1], &options.by))
        return stk_error_set(err, STK_INVALID,
                             "top: grouping is '%s', wanted name, thread, category, file, step or process", c->text[1]);
    if (stk__top_sources(c->trace, sources) == 0)
        return STK_OK;
    STK_TRY(stk__top_make(c->trace, sources[0], &options, &c->of.top, err));
    c->count = c->of.top.count;
    return STK_OK;
}

static void top_value(const call *c, sqlite3_context *out, int column)
{
    const stk__top_row *r = &c->of.top.rows[c->row];
    const int64_t numbers[] = {r->min, r->max, r->p50, r->p95, r->self};
    switch (column) {
    case 0:
        put_text(out, stk__top_label(c->trace, &c->of.top, r));
        break;
    case 1:
        sqlite3_result_int64(out, r->count);
        break;
    case 2:
        sqlite3_result_int64(out, r->total);
        break;
    case 3:
        sqlite3_result_double(out, r->mean);
        break;
    case 9:
        stk__sql_unit(out, r->unit);
        break;
    default:
        stk__sql_number(out, numbers[column - 4]);
        break;
    }
}

static void top_clear(call *c)
{
    stk__top_clear(&c->of.top);
}

/* ---- gaps([min_ns [, pattern]]) ---- */

static stk_status gaps_run(call *c, stk_error *err)
{
    const char *pattern = c->text[1];
    const stk__selection select = select_like(&pattern);
    int64_t min_ns = 0;
    if (c->text[0] && !stk__parse_int64(c->text[0], &min_ns))
        return stk_error_set(err, STK_INVALID, "gaps: min_ns is '%s', wanted a whole number of nanoseconds",
                             c->text[0]);
    STK_TRY(stk__gaps_find(c->trace, &select, min_ns, 0, &c->of.gaps, err));
    c->count = c->of.gaps.count;
    return STK_OK;
}

static void gaps_value(const call *c, sqlite3_context *out, int column)
{
    const stk__gap *g = &c->of.gaps.rows[c->row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, g->track);
        break;
    case 1: {
        stk__text label = STK__TEXT_INIT;
        stk__trace_track_label(c->trace, g->track, &label);
        put_text(out, label.data ? label.data : "");
        stk__text_clear(&label);
        break;
    }
    case 2:
        sqlite3_result_int64(out, g->ts);
        break;
    case 3:
        sqlite3_result_int64(out, g->dur);
        break;
    case 4:
        stk__sql_row(out, g->before);
        break;
    case 5:
        stk__sql_row(out, g->after);
        break;
    case 6:
        put_slice_name(c->trace, out, g->before);
        break;
    case 7:
        put_slice_name(c->trace, out, g->after);
        break;
    }
}

static void gaps_clear(call *c)
{
    stk__gaps_clear(&c->of.gaps);
}

/* ---- stacks([pattern]) ---- */

static stk_status stacks_run(call *c, stk_error *err)
{
    const char *pattern = c->text[0];
    const stk__selection select = select_like(&pattern);
    STK_TRY(stk__stacks_make(c->trace, &select, false, &c->of.stacks, err));
    c->count = c->of.stacks.count;
    return STK_OK;
}

static void stacks_value(const call *c, sqlite3_context *out, int column)
{
    const stk__stack *s = &c->of.stacks.rows[c->row];
    switch (column) {
    case 0:
        sqlite3_result_int64(out, (sqlite3_int64)c->row);
        break;
    case 1:
        stk__sql_row(out, s->parent);
        break;
    case 2:
        sqlite3_result_int64(out, s->depth);
        break;
    case 3:
        stk__sql_string(out, c->trace, s->name);
        break;
    case 4: {
        stk__text path = STK__TEXT_INIT;
        stk__stacks_path(c->trace, &c->of.stacks, (uint32_t)c->row, &path);
        put_text(out, path.data ? path.data : "");
        stk__text_clear(&path);
        break;
    }
    case 5:
        sqlite3_result_int64(out, s->count);
        break;
    case 6:
        sqlite3_result_int64(out, s->total);
        break;
    case 7:
        sqlite3_result_int64(out, s->self);
        break;
    case 8:
        stk__sql_unit(out, s->unit);
        break;
    }
}

static void stacks_clear(call *c)
{
    stk__stacks_clear(&c->of.stacks);
}

/* ---- overlap(a, b) ---- */

static stk_status overlap_run(call *c, stk_error *err)
{
    const char *a = c->text[0], *b = c->text[1];
    const stk__selection select_a = select_like(&a), select_b = select_like(&b);
    if (!a || !b)
        return stk_error_set(err, STK_INVALID,
                             "overlap: a pattern is NULL, wanted overlap(a, b) with two patterns of names");
    STK_TRY(stk__overlap_of(c->trace, &select_a, &select_b, &c->of.overlap, err));
    c->count = 1;
    return STK_OK;
}

static void overlap_value(const call *c, sqlite3_context *out, int column)
{
    const int64_t numbers[] = {c->of.overlap.a_ns, c->of.overlap.b_ns, c->of.overlap.both_ns};
    sqlite3_result_int64(out, numbers[column]);
}

/* ---- ancestor_slice(id) and descendant_slice(id), as Perfetto has them ---- */

static bool slice_of(const call *c, uint32_t *out)
{
    int64_t id;
    if (!c->text[0] || !stk__parse_int64(c->text[0], &id) || id < 0 || (uint64_t)id >= c->trace->slices.count)
        return false; /* no such slice has none around it, nor inside */
    *out = (uint32_t)id;
    return true;
}

static stk_status ancestors_run(call *c, stk_error *err)
{
    const uint32_t *parent = c->trace->slices.parent;
    uint32_t slice;
    if (!slice_of(c, &slice))
        return STK_OK;
    for (uint32_t i = parent[slice]; i != STK__NONE; i = parent[i])
        c->count++;
    if (c->count == 0)
        return STK_OK;
    c->of.nested.slices = stk__calloc(c->count, sizeof *c->of.nested.slices);
    if (!c->of.nested.slices) {
        const size_t size = c->count * sizeof *c->of.nested.slices;
        c->count = 0;
        return stk__nomem(size, err);
    }
    uint32_t *next = c->of.nested.slices;
    for (uint32_t i = parent[slice]; i != STK__NONE; i = parent[i])
        *next++ = i;
    return STK_OK;
}

static stk_status descendants_run(call *c, stk_error *err)
{
    const stk__slices *s = &c->trace->slices;
    uint32_t slice;
    if (!slice_of(c, &slice))
        return STK_OK;
    const stk__trace_track *track = &c->trace->tracks[s->track[slice]];
    const size_t end = (size_t)track->first_slice + track->slice_count;
    c->of.nested.first = slice + 1;
    for (size_t i = (size_t)slice + 1; i < end && s->depth[i] > s->depth[slice]; i++)
        c->count++;
    return STK_OK;
}

static void nested_value(const call *c, sqlite3_context *out, int column)
{
    const stk__slices *s = &c->trace->slices;
    const uint32_t slice = c->of.nested.slices ? c->of.nested.slices[c->row] : c->of.nested.first + (uint32_t)c->row;
    switch (column) {
    case 0:
        sqlite3_result_int64(out, slice);
        break;
    case 1:
        sqlite3_result_int64(out, s->ts[slice]);
        break;
    case 2:
        sqlite3_result_int64(out, s->dur[slice]);
        break;
    case 3:
        sqlite3_result_int64(out, s->track[slice]);
        break;
    case 4:
        stk__sql_string(out, c->trace, s->category[slice]);
        break;
    case 5:
        stk__sql_string(out, c->trace, s->name[slice]);
        break;
    case 6:
        sqlite3_result_int(out, s->depth[slice]);
        break;
    case 7:
        stk__sql_row(out, s->parent[slice]);
        break;
    case 8:
        if (s->args[slice])
            sqlite3_result_int64(out, s->args[slice]);
        break;
    }
}

static void nested_clear(call *c)
{
    stk__free(c->of.nested.slices);
}

#define NESTED_COLUMNS                                                                                           \
    "id INTEGER, ts INTEGER, dur INTEGER, track_id INTEGER, category TEXT, name TEXT, depth INTEGER, parent_id " \
    "INTEGER, arg_set_id INTEGER, start_id INTEGER HIDDEN"

static const function functions[] = {
    {"top",
     "name TEXT, count INTEGER, total_ns INTEGER, mean_ns REAL, min_ns INTEGER, max_ns INTEGER, p50_ns INTEGER, "
     "p95_ns INTEGER, self_ns INTEGER, unit TEXT, pattern TEXT HIDDEN, grouping TEXT HIDDEN",
     10, 2, 0, top_run, top_value, top_clear},
    {"gaps",
     "track_id INTEGER, track TEXT, ts INTEGER, dur INTEGER, before_id INTEGER, after_id INTEGER, before_name TEXT, "
     "after_name TEXT, min_ns INTEGER HIDDEN, pattern TEXT HIDDEN",
     8, 2, 0, gaps_run, gaps_value, gaps_clear},
    {"stacks",
     "id INTEGER, parent_id INTEGER, depth INTEGER, name TEXT, path TEXT, count INTEGER, total INTEGER, self INTEGER, "
     "unit TEXT, pattern TEXT HIDDEN",
     9, 1, 0, stacks_run, stacks_value, stacks_clear},
    {"overlap", "a_ns INTEGER, b_ns INTEGER, both_ns INTEGER, a TEXT HIDDEN, b TEXT HIDDEN", 3, 2, 2, overlap_run,
     overlap_value, NULL},
    {"ancestor_slice", NESTED_COLUMNS, 9, 1, 1, ancestors_run, nested_value, nested_clear},
    {"descendant_slice", NESTED_COLUMNS, 9, 1, 1, descendants_run, nested_value, nested_clear},
};

/* ---- the module ---- */

static int function_connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    const module_state *state = arg;
    const int code = stk__sql_declare(db, state->function->columns);
    if (code != SQLITE_OK)
        return code;
    function_vtab *vtab = stk__calloc(1, sizeof *vtab);
    if (!vtab)
        return SQLITE_NOMEM;
    vtab->sql = state->sql;
    vtab->function = state->function;
    *out = &vtab->base;
    return SQLITE_OK;
}

static int function_disconnect(sqlite3_vtab *vtab)
{
    stk__free(vtab);
    return SQLITE_OK;
}

/* Arguments are equalities on the hidden columns; idxNum has a bit for each that was given. */
static int function_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const function *f = ((function_vtab *)vtab)->function;
    int constraint[ARGUMENTS] = {-1, -1};
    for (int i = 0; i < info->nConstraint; i++) {
        const int argument = info->aConstraint[i].iColumn - f->column_count;
        if (argument < 0 || argument >= f->arguments || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT; /* needs a table that comes later in this plan */
        constraint[argument] = i;
    }
    int given = 0, next = 0;
    for (int i = 0; i < f->arguments; i++) {
        if (constraint[i] < 0)
            continue;
        info->aConstraintUsage[constraint[i]].argvIndex = ++next;
        info->aConstraintUsage[constraint[i]].omit = 1;
        given |= 1 << i;
    }
    if (next < f->required) {
        sqlite3_free(vtab->zErrMsg);
        vtab->zErrMsg = sqlite3_mprintf("%s: found %d arguments, wanted %d", f->name, next, f->required);
        return SQLITE_ERROR;
    }
    info->idxNum = given;
    info->estimatedCost = 1e6;
    info->estimatedRows = f->required ? 1 : 1000;
    return SQLITE_OK;
}

static int function_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    const function_vtab *v = (function_vtab *)vtab;
    call *c = stk__calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->trace = v->sql->trace;
    c->function = v->function;
    *out = &c->base;
    return SQLITE_OK;
}

static void call_clear(call *c)
{
    if (c->function->clear)
        c->function->clear(c);
    memset(&c->of, 0, sizeof c->of);
    for (int i = 0; i < ARGUMENTS; i++) {
        stk__free(c->text[i]);
        c->text[i] = NULL;
    }
    c->row = c->count = 0;
}

static int function_close(sqlite3_vtab_cursor *cursor)
{
    call_clear((call *)cursor);
    stk__free(cursor);
    return SQLITE_OK;
}

static int function_filter(sqlite3_vtab_cursor *cursor, int given, const char *text, int argc, sqlite3_value **argv)
{
    call *c = (call *)cursor;
    call_clear(c);
    int next = 0;
    for (int i = 0; i < c->function->arguments; i++) {
        const char *value = given >> i & 1 ? (const char *)sqlite3_value_text(argv[next++]) : NULL;
        c->text[i] = value ? stk__strdup(value) : NULL;
        if (value && !c->text[i])
            return SQLITE_NOMEM;
    }
    stk_error err;
    stk_error_clear(&err);
    return c->function->run(c, &err) == STK_OK ? SQLITE_OK : stk__sql_failed(cursor->pVtab, &err);
}

static int function_next(sqlite3_vtab_cursor *cursor)
{
    ((call *)cursor)->row++;
    return SQLITE_OK;
}

static int function_eof(sqlite3_vtab_cursor *cursor)
{
    const call *c = (call *)cursor;
    return c->row >= c->count;
}

static int function_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
    const call *c = (call *)cursor;
    if (column < c->function->column_count)
        c->function->value(c, out, column);
    else if (c->text[column - c->function->column_count])
        put_text(out, c->text[column - c->function->column_count]);
    return SQLITE_OK;
}

static int function_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((call *)cursor)->row;
    return SQLITE_OK;
}

static void state_free(void *arg)
{
    module_state *state = arg;
    stk__sql_unref(state->sql);
    stk__free(state);
}

int stk__sql_add_functions(sqlite3 *db, stk__sql *s)
{
    static const sqlite3_module module = {
        .xConnect = function_connect,
        .xBestIndex = function_best_index,
        .xDisconnect = function_disconnect,
        .xOpen = function_open,
        .xClose = function_close,
        .xFilter = function_filter,
        .xNext = function_next,
        .xEof = function_eof,
        .xColumn = function_column,
        .xRowid = function_rowid,
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < STK_COUNT(functions) && code == SQLITE_OK; i++) {
        module_state *state = stk__calloc(1, sizeof *state);
        if (!state)
            return SQLITE_NOMEM;
        *state = (module_state){stk__sql_ref(s), &functions[i]};
        code = sqlite3_create_module_v2(db, functions[i].name, &module, state, state_free);
    }
    return code;
}
