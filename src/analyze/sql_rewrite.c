/* Statements written for BigQuery and for Perfetto, made into what SQLite knows. */
#include <string.h>

#include "analyze/sql_impl.h"
#include "analyze/sql_tokens.h"
#include "base/mem.h"

#include "base/banned.h"

/*
 * A statement is read once for words that SQLite does not know (sql_pasted.c); almost all have none and are left alone.
 * Otherwise it is taken apart into tokens, some of which are marked as standing for something else, and written anew:
 *
 *   `a.b.c` where a table stands    the events, or our table when c is the name of one
 *   T, UNNEST(T.traceEvents) AS e   the events as e, WITH OFFSET as one more column
 *   e.args.x                        e."arg_x"
 *   arg_x                           as it is, but slice gets that column
 *   key LIKE 'args.x%'              key LIKE 'x%': keys have no prefix here
 *   CAST(x AS STRING)               CAST(x AS TEXT)
 *   CREATE PERFETTO TABLE           CREATE TABLE
 *   slice, once a name is ambiguous (SELECT ...) AS slice, with the columns of Perfetto only
 *
 * Strings, comments and names in quotes are tokens, so nothing in them is touched.
 */

/* Brackets may be deeper than LEVELS; what is in there is left alone. */
enum { LEVELS = 64, OFFSETS = 4, ALIASES = 256, CAST_TOKENS = 1000 };

/* A table with fewer columns than it has here. */
typedef struct fewer {
    const char *table, *columns;
} fewer;

/* Stands for the tokens up to `end`. */
typedef struct item {
    stk__sql_token token;
    size_t end;         /* 0: stands for itself only */
    char *text;         /* what is written in their place; NULL: nothing */
    bool events;        /* the query for events is, and text is their name */
    size_t alias;       /* events: the token that is their name; 0: none */
    size_t offset;      /* events: the token that their numbers are called as; 0: "index" */
    const fewer *shape; /* this table is, and text is its name */
} item;

/* One level of brackets. */
typedef struct level {
    bool in_from;                  /* between FROM and WHERE */
    bool table_next;               /* a table's name is expected */
    size_t table_first, table_end; /* the last table with its alias; equal: none yet */
} level;

typedef struct rewriter {
    sqlite3 *db;
    stk__sql *sql;
    const char *text;
    item *items; /* the last is the end */
    size_t count, capacity;
    level levels[LEVELS];
    size_t depth;
    size_t offsets[OFFSETS]; /* tokens: names of WITH OFFSET */
    size_t offset_count;
    bool any_events, args_is_table;
    bool as_perfetto;
    stk__sql_args args;
    bool changed;
} rewriter;

/* ---- tokens ---- */

static stk__sql_token token_at(const rewriter *r, size_t i)
{
    return r->items[STK_MIN(i, r->count - 1)].token;
}

static char kind_at(const rewriter *r, size_t i)
{
    return token_at(r, i).kind;
}

static bool word_at(const rewriter *r, size_t i, const char *word)
{
    return stk__sql_token_is(r->text, token_at(r, i), word);
}

static bool any_word_at(const rewriter *r, size_t i, const char *const *words, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        if (word_at(r, i, words[k]))
            return true;
    }
    return false;
}

static bool name_at(const rewriter *r, size_t i)
{
    return stk__sql_token_names(token_at(r, i));
}

static char *name_of(const rewriter *r, size_t i)
{
    stk__text text = STK__TEXT_INIT;
    stk__sql_token_name(r->text, token_at(r, i), &text);
    if (text.failed || (!text.data && !(text.data = stk__strdup("")))) {
        stk__text_clear(&text);
        return NULL;
    }
    return text.data;
}

/* A name in any quotes, or none. */
static bool called(const rewriter *r, size_t i, const char *wanted)
{
    char *name = name_at(r, i) ? name_of(r, i) : NULL;
    const bool equal = name && sqlite3_stricmp(name, wanted) == 0;
    stk__free(name);
    return equal;
}

static int take_apart(rewriter *r)
{
    stk__sql_token token = stk__sql_token_at(r->text, 0);
    for (;; token = stk__sql_token_after(r->text, token)) {
        if (!stk__grow((void **)&r->items, &r->capacity, r->count + 1, sizeof *r->items))
            return SQLITE_NOMEM;
        r->items[r->count++] = (item){.token = token};
        if (token.kind == 0 || token.kind == ';')
            return SQLITE_OK;
    }
}

static int replace(rewriter *r, size_t first, size_t end, char *text)
{
    for (size_t i = first; i < end; i++) {
        stk__free(r->items[i].text);
        r->items[i] = (item){.token = r->items[i].token};
    }
    r->items[first].end = end;
    r->items[first].text = text;
    r->changed = true;
    return SQLITE_OK;
}

/* With the text of sqlite3_mprintf. */
static int replace_printf(rewriter *r, size_t first, size_t end, const char *format, const char *name)
{
    char *text = sqlite3_mprintf(format, name);
    char *copy = text ? stk__strdup(text) : NULL;
    sqlite3_free(text);
    return copy ? replace(r, first, end, copy) : SQLITE_NOMEM;
}

/* ---- tables ---- */

/* Words that follow a table and are not its alias. */
static bool ends_table(const rewriter *r, size_t i)
{
    static const char *const words[] = {"where",   "group",     "order",   "having", "limit",    "window",
                                        "union",   "intersect", "except",  "join",   "left",     "right",
                                        "full",    "inner",     "cross",   "outer",  "on",       "using",
                                        "natural", "with",      "indexed", "not",    "returning"};
    return any_word_at(r, i, words, STK_COUNT(words));
}

/* [AS] name: where it stands, and 0 for none. *end: after it. */
static size_t alias_at(const rewriter *r, size_t i, size_t *end)
{
    const bool as = word_at(r, i, "as");
    const size_t alias = i + as;
    *end = i;
    if (!name_at(r, alias) || (!as && ends_table(r, alias)))
        return 0;
    *end = alias + 1;
    return alias;
}

/* a, a.b or a.b.c: after it. */
static size_t path_end(const rewriter *r, size_t i)
{
    size_t end = i + 1;
    while (kind_at(r, end) == '.' && name_at(r, end + 1))
        end += 2;
    return end;
}

/* A table that BigQuery knows and SQLite does not: several parts, in backquotes. */
static bool is_foreign(const rewriter *r, size_t i, size_t end)
{
    bool quoted = false;
    for (size_t k = i; k < end; k += 2) {
        const stk__sql_token token = token_at(r, k);
        if (token.kind != STK__SQL_QUOTED || r->text[token.at] != '`')
            continue;
        quoted = true;
        if (memchr(r->text + token.at, '.', token.size))
            return true;
    }
    return quoted && end > i + 1 && !called(r, i, "main") && !called(r, i, "temp");
}

static const char *own_table(const char *name)
{
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        const stk__sql_table *t = &stk__sql_tables[i];
        if (sqlite3_stricmp(t->name, name) == 0 && strcmp(t->kind, "function") != 0)
            return t->name;
    }
    return NULL;
}

static int put_events(rewriter *r, size_t first, size_t end, const char *name, size_t alias, size_t offset)
{
    const int code = name ? replace_printf(r, first, end, "\"%w\"", name) : replace(r, first, end, NULL);
    if (code != SQLITE_OK)
        return code;
    r->items[first].events = true;
    r->items[first].alias = alias;
    r->items[first].offset = offset;
    r->any_events = true;
    return SQLITE_OK;
}

/* The table at [i, end) is BigQuery's: ours of that name, or the events. An alias stays where it is. */
static int take_foreign(rewriter *r, size_t i, size_t end, bool has_alias)
{
    char *name = name_of(r, end - 1);
    if (!name)
        return SQLITE_NOMEM;
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name, *own = own_table(last);
    int code;
    if (own && strcmp(own, "trace_events") != 0)
        code = replace_printf(r, i, end, "%s", own);
    else
        code = put_events(r, i, end, has_alias ? NULL : last, 0, 0);
    stk__free(name);
    return code;
}

/* WITH name AS (...), anywhere in the statement. */
static bool made_by_with(const rewriter *r, const char *name)
{
    for (size_t i = 1; i + 2 < r->count; i++) {
        const bool starts = word_at(r, i - 1, "with") || word_at(r, i - 1, "recursive") || kind_at(r, i - 1) == ',';
        const bool body = kind_at(r, i + 2) == '(' || word_at(r, i + 2, "not") || word_at(r, i + 2, "materialized");
        if (starts && (kind_at(r, i + 1) == '(' || (word_at(r, i + 1, "as") && body)) && called(r, i, name))
            return true;
    }
    return false;
}

/* Whether a word names our table, not one that the query or an earlier statement has made. */
static bool is_ours(const rewriter *r, size_t i, const char *name)
{
    static const char query[] = "SELECT 1 FROM sqlite_temp_schema WHERE lower(name) = ?1 UNION ALL "
                                "SELECT 1 FROM sqlite_schema WHERE lower(name) = ?1 AND type = 'table'";
    sqlite3_stmt *statement = NULL;
    if (!word_at(r, i, name) || made_by_with(r, name))
        return false;
    bool found = true;
    if (sqlite3_prepare_v2(r->db, query, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC) == SQLITE_OK)
        found = sqlite3_step(statement) != SQLITE_DONE;
    sqlite3_finalize(statement);
    return !found;
}

/* In Perfetto slice has no utid, so SELECT utid FROM slice JOIN thread_track ... means that of thread_track. */
static const fewer *perfetto_shape(const rewriter *r, size_t i)
{
    static const fewer shapes[] = {
        {"slice", "id, id AS slice_id, ts, dur, track_id, category, category AS cat, name, depth, parent_id, "
                  "arg_set_id, thread_ts, thread_dur"},
        {"counter", "id, ts, track_id, value"},
        {"thread", "id, utid, tid, name, upid, is_main_thread"},
        {"process", "id, upid, pid, name"},
        {"track", "id, name, type, parent_id"},
        {"thread_track", "id, name, type, parent_id, utid"},
        {"process_track", "id, name, type, parent_id, upid"},
        {"counter_track", "id, name, type, parent_id, unit"},
        {"process_counter_track", "id, name, type, parent_id, unit, upid"},
        {"thread_counter_track", "id, name, type, parent_id, unit, utid"},
    };
    for (size_t k = 0; r->as_perfetto && k < STK_COUNT(shapes); k++) {
        if (is_ours(r, i, shapes[k].table) || (k == 0 && is_ours(r, i, "slices")))
            return &shapes[k];
    }
    return NULL;
}

static int put_shape(rewriter *r, size_t i, const fewer *shape, bool has_alias)
{
    char *name = name_of(r, i);
    int code = name ? SQLITE_OK : SQLITE_NOMEM;
    if (name)
        code = has_alias ? replace(r, i, i + 1, NULL) : replace_printf(r, i, i + 1, "%s", name);
    if (code == SQLITE_OK)
        r->items[i].shape = shape;
    stk__free(name);
    return code;
}

/* ---- UNNEST ---- */

static int refuse_unnest(rewriter *r, size_t i, size_t last)
{
    if (called(r, last, "args"))
        return stk__sql_refuse(r->sql, token_at(r, i).at,
                               "UNNEST(args) is not known here; write JOIN args USING (arg_set_id), or arg_KEY for the "
                               "arg of one key: SELECT name, arg_KEY, dur FROM slice");
    return stk__sql_refuse(r->sql, token_at(r, i).at,
                           "UNNEST is not known here, and not needed: the events are already flat; write SELECT name, "
                           "ts, dur, arg_KEY FROM slice, or FROM trace_events for ph, cat and microseconds");
}

/* Whether only a comma or a JOIN stands between the last table and this one. */
static bool next_to_table(const rewriter *r, const level *l, size_t i)
{
    static const char *const words[] = {"cross", "inner", "left", "outer", "join"};
    if (l->table_first == l->table_end || i == l->table_end)
        return false;
    if (kind_at(r, l->table_end) == ',')
        return i == l->table_end + 1;
    for (size_t k = l->table_end; k < i; k++) {
        if (!any_word_at(r, k, words, STK_COUNT(words)))
            return false;
    }
    return true;
}

/* Whether [path, end) is traceEvents or t.traceEvents, and t the table just before the token i. */
static bool is_events_of(const rewriter *r, const level *l, size_t i, size_t path, size_t end)
{
    if (end <= path || end > path + 3 || !called(r, end - 1, "traceEvents") || !next_to_table(r, l, i))
        return false;
    if (end == path + 1)
        return true;
    char *table = name_of(r, l->table_end - 1); /* its alias, or the last part of its name */
    const char *dot = table ? strrchr(table, '.') : NULL;
    const bool same = table && called(r, path, dot ? dot + 1 : table);
    stk__free(table);
    return same;
}

/* T [AS] t, UNNEST(t.traceEvents) [[AS] e] [WITH OFFSET [[AS] o]]; `end` is after UNNEST(...) or t.traceEvents. */
static int take_unnest(rewriter *r, level *l, size_t end, size_t *next)
{
    size_t offset = 0;
    const size_t first = l->table_first, alias = alias_at(r, end, &end);
    if (word_at(r, end, "with") && word_at(r, end + 1, "offset")) {
        const size_t word = end + 1;
        offset = alias_at(r, word + 1, &end);
        offset = offset ? offset : word;
        if (r->offset_count == OFFSETS)
            return stk__sql_refuse(r->sql, token_at(r, word).at, "more than %d times WITH OFFSET", OFFSETS);
        r->offsets[r->offset_count++] = offset;
    }
    l->table_end = end;
    l->table_next = false;
    *next = end;
    return put_events(r, first, end, NULL, alias, offset);
}

static int take_unnest_call(rewriter *r, level *l, size_t i, size_t *next)
{
    size_t end = i + 2, last = i + 2;
    if (name_at(r, end)) {
        end = path_end(r, end);
        last = end - 1;
    }
    if (kind_at(r, end) != ')' || !l->table_next || !is_events_of(r, l, i, i + 2, end))
        return refuse_unnest(r, i, last);
    return take_unnest(r, l, end + 1, next);
}

/* ---- the clause FROM ---- */

static int take_table(rewriter *r, level *l, size_t i, size_t *next)
{
    const size_t end = path_end(r, i);
    size_t table_end;
    if (end > i + 1 && is_events_of(r, l, i, i, end))
        return take_unnest(r, l, end, next);
    const size_t alias = alias_at(r, end, &table_end);
    l->table_first = i;
    l->table_end = table_end;
    l->table_next = false;
    *next = table_end;
    if (is_foreign(r, i, end))
        return take_foreign(r, i, end, alias != 0);
    if (called(r, end - 1, "args"))
        r->args_is_table = true;
    if (end == i + 1 && is_ours(r, i, "trace_events"))
        return put_events(r, i, end, alias ? NULL : "trace_events", 0, 0);
    const fewer *shape = end == i + 1 ? perfetto_shape(r, i) : NULL;
    if (shape)
        return put_shape(r, i, shape, alias != 0);
    if (end == i + 1 && is_ours(r, i, "slices")) /* a view would hide the columns of args */
        return replace_printf(r, i, end, alias ? "%s" : "%s AS slices", "slice");
    return SQLITE_OK;
}

static void take_word(const rewriter *r, level *l, size_t i)
{
    static const char *const ends[] = {"select", "where", "group",  "order",     "having", "limit",
                                       "window", "union", "except", "intersect", "set",    "values"};
    if (word_at(r, i, "from"))
        *l = (level){.in_from = true, .table_next = true};
    else if (word_at(r, i, "join"))
        l->table_next = l->in_from;
    else if (word_at(r, i, "on") || word_at(r, i, "using"))
        l->table_next = false;
    else if (any_word_at(r, i, ends, STK_COUNT(ends)))
        *l = (level){0};
}

/* FROM (a JOIN b): tables may stand in brackets too. */
static void open_bracket(rewriter *r)
{
    level inner = {0};
    if (r->depth < LEVELS) {
        level *l = &r->levels[r->depth];
        inner = (level){.in_from = l->table_next, .table_next = l->table_next};
        l->table_next = false;
    }
    if (++r->depth < LEVELS)
        r->levels[r->depth] = inner;
}

static int take_token(rewriter *r, level *l, size_t i, size_t *next)
{
    static const char *const not_tables[] = {"select", "values", "with", "join", "left", "inner", "cross", "outer"};
    *next = i + 1;
    if (kind_at(r, i) == '(') {
        open_bracket(r);
        return SQLITE_OK;
    }
    if (word_at(r, i, "unnest") && kind_at(r, i + 1) == '(')
        return take_unnest_call(r, l, i, next);
    if (kind_at(r, i) == ',')
        l->table_next = l->in_from;
    else if (l->table_next && name_at(r, i) && !any_word_at(r, i, not_tables, STK_COUNT(not_tables)))
        return take_table(r, l, i, next);
    else if (kind_at(r, i) == STK__SQL_WORD)
        take_word(r, l, i);
    return SQLITE_OK;
}

static int find_tables(rewriter *r)
{
    int code = SQLITE_OK;
    for (size_t i = 0, next; i + 1 < r->count && code == SQLITE_OK; i = next) {
        next = i + 1;
        if (kind_at(r, i) == ')')
            r->depth -= r->depth > 0;
        else if (r->depth < LEVELS)
            code = take_token(r, &r->levels[r->depth], i, &next);
        else
            r->depth += kind_at(r, i) == '(';
    }
    return code;
}

/* ---- columns ---- */

static bool starts_with_arg(const rewriter *r, size_t i)
{
    const stk__sql_token token = token_at(r, i);
    const size_t quote = token.kind == STK__SQL_QUOTED;
    return name_at(r, i) && token.size > 4 + quote && sqlite3_strnicmp(r->text + token.at + quote, "arg_", 4) == 0;
}

/* Whether this token names what stands before it: AS x, or an expression's end without AS. */
static bool is_alias(const rewriter *r, size_t i)
{
    if (i == 0)
        return false;
    const stk__sql_token before = token_at(r, i - 1);
    switch (before.kind) {
    case STK__SQL_WORD:
        return stk__sql_token_is(r->text, before, "as") || stk__sql_token_is(r->text, before, "end") ||
               !sqlite3_keyword_check(r->text + before.at, (int)STK_MIN(before.size, 64));
    case STK__SQL_NUMBER:
    case STK__SQL_STRING:
    case STK__SQL_QUOTED:
    case ')':
        return true;
    default:
        return false;
    }
}

/* Whether an earlier token that gives a name to an expression has the same text. */
static bool made_before(const rewriter *r, const size_t *aliases, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (called(r, aliases[i], name))
            return true;
    }
    return false;
}

/* [e.]args.x becomes [e.]"arg_x". i is at args. */
static int take_member(rewriter *r, size_t i)
{
    char *key = name_of(r, i + 2), *column = key ? sqlite3_mprintf("arg_%s", key) : NULL;
    int code = column ? stk__sql_args_add(r->sql, &r->args, column, token_at(r, i).at) : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = replace_printf(r, i, i + 3, "\"%w\"", column);
    stk__free(key);
    sqlite3_free(column);
    return code;
}

static bool is_member(const rewriter *r, size_t i)
{
    if (!word_at(r, i, "args") || kind_at(r, i + 1) != '.' || !name_at(r, i + 2))
        return false;
    if (i > 0 && kind_at(r, i - 1) == '.') /* main.args.key is a column of a table */
        return i > 1 && name_at(r, i - 2) && !called(r, i - 2, "main") && !called(r, i - 2, "temp");
    return r->any_events && !r->args_is_table;
}

/* The number of an event: by the name that the query gives it, or "index", which is a keyword. */
static int take_offset(rewriter *r, size_t i)
{
    if (word_at(r, i, "index") && !(i && (word_at(r, i - 1, "create") || word_at(r, i - 1, "unique"))))
        return replace_printf(r, i, i + 1, "\"%w\"", "index");
    for (size_t k = 0; k < r->offset_count; k++) {
        char *name = name_of(r, r->offsets[k]);
        int code = name ? SQLITE_OK : SQLITE_NOMEM;
        if (name && word_at(r, i, name) && kind_at(r, i + 1) != '(')
            code = replace_printf(r, i, i + 1, "\"%w\"", name);
        stk__free(name);
        if (code != SQLITE_OK || r->items[i].end)
            return code;
    }
    return SQLITE_OK;
}

/* = and IN know the prefix by the collation of the column, patterns do not. */
static int take_pattern(rewriter *r, size_t i)
{
    const stk__sql_token token = token_at(r, i);
    const size_t prefix = stk__sql_key_prefix(r->text, token);
    if (!prefix || i < 2 || !(word_at(r, i - 1, "like") || word_at(r, i - 1, "glob")))
        return SQLITE_OK;
    const size_t key = word_at(r, i - 2, "not") && i > 2 ? i - 3 : i - 2;
    if (!called(r, key, "key") && !called(r, key, "flat_key"))
        return SQLITE_OK;
    char *text = stk__strndup(r->text + token.at + prefix, token.size - prefix);
    if (!text)
        return SQLITE_NOMEM;
    text[0] = '\'';
    return replace(r, i, i + 1, text);
}

/* CAST(x AS STRING): SQLite would make numbers of it, of texts 0. */
static bool is_cast(const rewriter *r, size_t i)
{
    size_t depth = 0;
    if (!i || !word_at(r, i, "string") || !word_at(r, i - 1, "as") || kind_at(r, i + 1) != ')')
        return false;
    for (size_t k = i; k-- > 1 && i - k < CAST_TOKENS;) {
        if (kind_at(r, k) == '(' && depth == 0)
            return word_at(r, k - 1, "cast") || word_at(r, k - 1, "safe_cast");
        depth += kind_at(r, k) == ')';
        depth -= kind_at(r, k) == '(';
    }
    return false;
}

/* A column unless the statement makes one of that name itself, before it is used. */
static int take_arg(rewriter *r, size_t i, size_t *aliases, size_t *alias_count)
{
    char *name = name_of(r, i);
    int code = name ? SQLITE_OK : SQLITE_NOMEM;
    if (name && is_alias(r, i) && *alias_count < ALIASES)
        aliases[(*alias_count)++] = i;
    else if (name && !made_before(r, aliases, *alias_count, name))
        code = stk__sql_args_add(r->sql, &r->args, name, token_at(r, i).at);
    stk__free(name);
    return code;
}

static int find_columns(rewriter *r)
{
    size_t alias_count = 0, aliases[ALIASES];
    int code = SQLITE_OK;
    for (size_t i = 0; i + 1 < r->count && code == SQLITE_OK; i = r->items[i].end ? r->items[i].end : i + 1) {
        if (r->items[i].end)
            continue;
        if (kind_at(r, i) == STK__SQL_STRING)
            code = take_pattern(r, i);
        else if (is_cast(r, i))
            code = replace_printf(r, i, i + 1, "%s", "TEXT");
        else if (is_member(r, i))
            code = take_member(r, i);
        else if (starts_with_arg(r, i) && !word_at(r, i, "arg_set_id") && kind_at(r, i + 1) != '(')
            code = take_arg(r, i, aliases, &alias_count);
        else if (r->any_events)
            code = take_offset(r, i);
    }
    return code;
}

/* ---- Perfetto ---- */

/* CREATE [OR REPLACE] PERFETTO TABLE name [(columns with types)] AS ...: SQLite's, without the list. */
static int take_create(rewriter *r)
{
    const bool replaces = word_at(r, 1, "or") && word_at(r, 2, "replace");
    const size_t perfetto = replaces ? 3 : 1;
    if (!word_at(r, 0, "create") || !word_at(r, perfetto, "perfetto"))
        return SQLITE_OK;
    if (!word_at(r, perfetto + 1, "table") && !word_at(r, perfetto + 1, "view"))
        return stk__sql_refuse(r->sql, token_at(r, perfetto).at,
                               "of Perfetto's statements there are CREATE PERFETTO TABLE and VIEW; write out what a "
                               "function or macro stands for");
    replace(r, 1, perfetto + 1, NULL);
    const size_t list = perfetto + 3;
    size_t end = list;
    if (kind_at(r, list) == '(') {
        while (end + 1 < r->count && kind_at(r, end) != ')')
            end++;
        if (kind_at(r, end) == ')')
            replace(r, list, end + 1, NULL);
    }
    return SQLITE_OK;
}

/* ---- writing ---- */

static int put_events_item(rewriter *r, const item *x, sqlite3_str *out)
{
    char *offset = x->offset ? name_of(r, x->offset) : NULL;
    if (x->offset && !offset)
        return SQLITE_NOMEM;
    sqlite3_str_appendchar(out, 1, '(');
    stk__sql_put_events(r->sql, &r->args, offset ? offset : "index", out);
    sqlite3_str_appendchar(out, 1, ')');
    stk__free(offset);
    return SQLITE_OK;
}

static void put_shape_item(const rewriter *r, const item *x, sqlite3_str *out)
{
    sqlite3_str_appendf(out, "(SELECT %s", x->shape->columns);
    for (size_t i = 0; strcmp(x->shape->table, "slice") == 0 && i < r->args.count; i++)
        sqlite3_str_appendf(out, ", \"%w\"", r->args.items[i].column);
    sqlite3_str_appendf(out, " FROM main.%s)", x->shape->table);
}

static int put_item(rewriter *r, size_t i, sqlite3_str *out)
{
    const item *x = &r->items[i];
    int code = SQLITE_OK;
    if (x->events)
        code = put_events_item(r, x, out);
    else if (x->shape)
        put_shape_item(r, x, out);
    if (x->text)
        sqlite3_str_appendf(out, x->events || x->shape ? " AS %s" : "%s", x->text);
    else if (x->alias)
        sqlite3_str_appendf(out, " AS %.*s", (int)token_at(r, x->alias).size, r->text + token_at(r, x->alias).at);
    return code;
}

static int add_piece(stk__sql_pasted *p, size_t to, size_t from, bool same)
{
    if (!stk__grow((void **)&p->pieces, &p->piece_capacity, p->piece_count + 1, sizeof *p->pieces))
        return SQLITE_NOMEM;
    p->pieces[p->piece_count++] = (stk__sql_piece){to, from, same};
    return SQLITE_OK;
}

/* Everything up to the next token that stands for something else, then that. */
static int write_items(rewriter *r, sqlite3_str *out)
{
    stk__sql_pasted *p = &r->sql->pasted;
    size_t from = 0;
    int code = SQLITE_OK;
    for (size_t i = 0; i < r->count && code == SQLITE_OK; i++) {
        const size_t end = r->items[i].end, at = r->items[i].token.at;
        if (!end && i + 1 < r->count)
            continue;
        code = add_piece(p, (size_t)sqlite3_str_length(out), from, true);
        sqlite3_str_append(out, r->text + from, (int)(at - from));
        if (!end || code != SQLITE_OK)
            break;
        code = add_piece(p, (size_t)sqlite3_str_length(out), at, false);
        if (code == SQLITE_OK)
            code = put_item(r, i, out);
        const stk__sql_token last = r->items[end - 1].token;
        from = last.at + last.size;
        i = end - 1;
    }
    return code == SQLITE_OK ? sqlite3_str_errcode(out) : code;
}

static int write_statement(rewriter *r, char **out_text)
{
    sqlite3_str *out = sqlite3_str_new(r->db);
    int code = write_items(r, out);
    char *text = sqlite3_str_finish(out);
    *out_text = code == SQLITE_OK && text ? stk__strdup(text) : NULL;
    if (code == SQLITE_OK && !*out_text)
        code = SQLITE_NOMEM;
    sqlite3_free(text);
    return code;
}

/* ---- all of it ---- */

static int rewrite(rewriter *r, char **out_text)
{
    int code = take_apart(r);
    const bool creates = code == SQLITE_OK && word_at(r, 0, "create");
    if (code == SQLITE_OK)
        code = take_create(r);
    if (code == SQLITE_OK)
        code = find_tables(r);
    if (code == SQLITE_OK)
        code = find_columns(r);
    if (code == SQLITE_OK && r->changed)
        code = write_statement(r, out_text);
    return code == SQLITE_OK ? stk__sql_args_declare(r->db, r->sql, &r->args, creates) : code;
}

int stk__sql_rewrite(sqlite3 *db, stk__sql *s, const char *text, bool as_perfetto, char **out_text, size_t *out_end)
{
    bool foreign;
    int code = stk__sql_look(s, text, &foreign);
    *out_text = NULL;
    *out_end = 0;
    s->pasted.piece_count = 0;
    if (code != SQLITE_OK || !(foreign || as_perfetto))
        return code;
    rewriter r = {.db = db, .sql = s, .text = text, .as_perfetto = as_perfetto};
    code = rewrite(&r, out_text);
    if (code == SQLITE_OK && r.count)
        *out_end = r.items[r.count - 1].token.at + r.items[r.count - 1].token.size;
    for (size_t i = 0; i < r.count; i++)
        stk__free(r.items[i].text);
    stk__free(r.items);
    stk__sql_args_clear(&r.args);
    if (code != SQLITE_OK) {
        stk__free(*out_text);
        *out_text = NULL;
    }
    return code;
}
