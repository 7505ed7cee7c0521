/* The plain tables: rows by number, some also found by a column that refers to another table. */
#include <string.h>

#include "analyze/sql_table.h"
#include "base/mem.h"

#include "base/banned.h"

enum { TRIM_ROWS = 1 << 20 };

typedef struct module_state {
    stk__sql *sql;
    const stk__sql_plain *table;
} module_state;

typedef struct table_vtab {
    sqlite3_vtab base;
    stk__sql *sql;
    const stk__sql_plain *table;
} table_vtab;

/* Terms of idxNum, in the order of their values. */
enum { TERM_ID = 1, TERM_LOW = 2, TERM_HIGH = 4, TERM_KEY = 8, PLAN_REVERSE = 1 << 8 };

void stk__sql_constant(sqlite3_context *out, const char *text)
{
    sqlite3_result_text(out, text, -1, SQLITE_STATIC);
}

void stk__sql_unit(sqlite3_context *out, uint32_t unit)
{
    static const char *const names[] = {[STK__UNIT_NS] = "ns",
                                        [STK__UNIT_SAMPLES] = "samples",
                                        [STK__UNIT_BYTES] = "bytes",
                                        [STK__UNIT_ALLOCATED] = "bytes allocated"};
    if (unit < STK_COUNT(names))
        stk__sql_constant(out, names[unit]);
}

static int table_connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    const module_state *state = arg;
    const int code = stk__sql_declare(db, state->table->columns);
    if (code != SQLITE_OK)
        return code;
    table_vtab *vtab = stk__calloc(1, sizeof *vtab);
    if (!vtab)
        return SQLITE_NOMEM;
    vtab->sql = state->sql;
    vtab->table = state->table;
    *out = &vtab->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *vtab)
{
    stk__free(vtab);
    return SQLITE_OK;
}

static int table_term(const stk__sql_plain *t, int column, int op)
{
    const bool id = column < 0 || (column == 0 && !t->no_id);
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        if (id)
            return TERM_ID;
        for (int i = 0; i < STK__TABLE_KEYS && t->keys[i].find; i++) {
            if (t->keys[i].column == column)
                return TERM_KEY << i;
        }
        return 0;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return id ? TERM_LOW : 0;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return id ? TERM_HIGH : 0;
    default:
        return 0;
    }
}

/* One way only: by id, else by a key, else a range of ids. */
static int table_choose(int found_terms)
{
    if (found_terms & TERM_ID)
        return TERM_ID;
    for (int i = 0; i < STK__TABLE_KEYS; i++) {
        if (found_terms & TERM_KEY << i)
            return TERM_KEY << i;
    }
    return found_terms & (TERM_LOW | TERM_HIGH);
}

static bool table_ordered(const table_vtab *v, const sqlite3_index_info *info)
{
    return info->nOrderBy >= 1 &&
           (info->aOrderBy[0].iColumn < 0 || (info->aOrderBy[0].iColumn == 0 && !v->table->no_id));
}

static int table_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const table_vtab *v = (table_vtab *)vtab;
    int constraint[8] = {0}, terms = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const int term = table_term(v->table, info->aConstraint[i].iColumn, info->aConstraint[i].op);
        if (!term || !info->aConstraint[i].usable || terms & term)
            continue;
        terms |= term;
        constraint[term == TERM_ID ? 0 : term == TERM_LOW ? 1 : term == TERM_HIGH ? 2 : term == TERM_KEY ? 3 : 4] = i;
    }
    terms = table_choose(terms);
    int next = 0;
    for (int i = 0; i < 3 + STK__TABLE_KEYS; i++) {
        if (terms >> i & 1) {
            info->aConstraintUsage[constraint[i]].argvIndex = ++next;
            info->aConstraintUsage[constraint[i]].omit = terms >> i & 1 && (1 << i & ~(TERM_LOW | TERM_HIGH));
        }
    }
    const size_t count = v->table->count(v->sql);
    const double rows = (double)count + 1;
    info->idxNum = terms;
    info->estimatedRows = terms == TERM_ID    ? 1
                          : terms >= TERM_KEY ? 8
                          : terms             ? (sqlite3_int64)rows / 4 + 1
                                              : (sqlite3_int64)rows;
    info->estimatedCost = terms == TERM_ID ? 1 : terms >= TERM_KEY ? 10 : terms ? rows / 4 + 2 : rows;
    if (terms == TERM_ID)
        info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
    if (table_ordered(v, info)) {
        info->orderByConsumed = 1;
        info->idxNum |= info->aOrderBy[0].desc ? PLAN_REVERSE : 0;
    }
    return SQLITE_OK;
}

static int table_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    const table_vtab *v = (table_vtab *)vtab;
    stk__sql_cursor *c = stk__calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->sql = v->sql;
    c->trace = v->sql->trace;
    c->table = v->table;
    *out = &c->base;
    return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *c)
{
    stk__free(c);
    return SQLITE_OK;
}

static void range_of(int terms, sqlite3_value **argv, size_t first, size_t count, stk__sql_found *out)
{
    int64_t low = (int64_t)first, high = (int64_t)count - 1, id;
    int next = 0;
    if (terms & TERM_ID) {
        if (!stk__sql_equal(argv[next++], &id))
            return;
        low = STK_MAX(low, id);
        high = STK_MIN(high, id);
    }
    if (terms & TERM_LOW)
        stk__sql_bound(argv[next++], SQLITE_INDEX_CONSTRAINT_GE, &low, &high);
    if (terms & TERM_HIGH)
        stk__sql_bound(argv[next++], SQLITE_INDEX_CONSTRAINT_LE, &low, &high);
    if (low <= high)
        *out = (stk__sql_found){.first = (size_t)low, .end = (size_t)high + 1};
}

static int table_filter(sqlite3_vtab_cursor *vtab_cursor, int number, const char *text, int argc, sqlite3_value **argv)
{
    stk__sql_cursor *c = (stk__sql_cursor *)vtab_cursor;
    const stk__sql_plain *t = c->table;
    const int terms = number & ~PLAN_REVERSE;
    stk__sql_found rows = {0};
    stk_error err;
    stk_error_clear(&err);
    if (t->open && t->open(c->sql, &err) != STK_OK)
        return stk__sql_failed(c->base.pVtab, &err);
    if (terms >= TERM_KEY) {
        int64_t value;
        const int key = terms == TERM_KEY ? 0 : 1;
        if (stk__sql_equal(argv[0], &value) && !t->keys[key].find(c->sql, value, &rows))
            return SQLITE_NOMEM;
    } else {
        range_of(terms, argv, t->first_row, t->count(c->sql), &rows);
    }
    c->rows = rows.rows;
    c->at = rows.first;
    c->end = rows.end;
    c->reverse = (number & PLAN_REVERSE) != 0;
    c->mirror = rows.first + rows.end - 1;
    c->known_row = SIZE_MAX;
    return SQLITE_OK;
}

static size_t table_row(const stk__sql_cursor *c)
{
    const size_t place = c->reverse ? c->mirror - c->at : c->at;
    return c->rows ? c->rows[place] : place;
}

static int table_next(sqlite3_vtab_cursor *vtab_cursor)
{
    stk__sql_cursor *c = (stk__sql_cursor *)vtab_cursor;
    if (++c->at % TRIM_ROWS == 0)
        stk__trace_trim(c->trace);
    return SQLITE_OK;
}

static int table_eof(sqlite3_vtab_cursor *c)
{
    return ((stk__sql_cursor *)c)->at >= ((stk__sql_cursor *)c)->end;
}

static int table_column(sqlite3_vtab_cursor *vtab_cursor, sqlite3_context *out, int column)
{
    stk__sql_cursor *c = (stk__sql_cursor *)vtab_cursor;
    c->table->value(c, out, column, table_row(c));
    return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)table_row((stk__sql_cursor *)c);
    return SQLITE_OK;
}

static void state_free(void *arg)
{
    module_state *state = arg;
    stk__sql_unref(state->sql);
    stk__free(state);
}

static int add_table(sqlite3 *db, stk__sql *s, const char *name, const stk__sql_plain *t)
{
    static const sqlite3_module module = {
        .xConnect = table_connect,
        .xBestIndex = table_best_index,
        .xDisconnect = table_disconnect,
        .xOpen = table_open,
        .xClose = table_close,
        .xFilter = table_filter,
        .xNext = table_next,
        .xEof = table_eof,
        .xColumn = table_column,
        .xRowid = table_rowid,
    };
    module_state *state = stk__calloc(1, sizeof *state);
    if (!state)
        return SQLITE_NOMEM;
    *state = (module_state){stk__sql_ref(s), t};
    return sqlite3_create_module_v2(db, name, &module, state, state_free); /* frees the state also when it fails */
}

int stk__sql_add_tables(sqlite3 *db, stk__sql *s)
{
    static const stk__sql_plain *const groups[] = {stk__sql_tables_of_tracks, stk__sql_tables_of_events,
                                                   stk__sql_tables_of_files, stk__sql_tables_of_stacks};
    int code = SQLITE_OK;
    for (size_t i = 0; i < STK_COUNT(groups); i++) {
        for (const stk__sql_plain *t = groups[i]; t->name && code == SQLITE_OK; t++) {
            code = add_table(db, s, t->name, t);
            if (code == SQLITE_OK && strcmp(t->name, "step") == 0)
                code = add_table(db, s, "steps", t); /* the same, called as a function */
        }
    }
    return code;
}
