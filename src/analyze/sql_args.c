/* Columns arg_KEY of slice: one for each that a statement names, declared when it is prepared. */
#include <string.h>

#include "analyze/sql_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* SQLite takes 2,000 columns. */
enum { ARGS_MAX = 1000, PREFIX = 4 };

/* ---- values ---- */

void stk__sql_put_arg(sqlite3_context *out, const stk__trace *t, size_t row)
{
    size_t size;
    const char *text;
    switch (t->args.type[row] & STK__ARG_TYPE) {
    case STK__ARG_BOOL:
    case STK__ARG_INT:
        sqlite3_result_int64(out, t->args.value[row].integer);
        break;
    case STK__ARG_DOUBLE:
        sqlite3_result_double(out, t->args.value[row].real);
        break;
    case STK__ARG_STRING:
    case STK__ARG_JSON:
        text = stk__trace_text(t, (stk__string)t->args.value[row].string, &size);
        sqlite3_result_text64(out, text, size, SQLITE_STATIC, SQLITE_UTF8); /* an empty string is one */
        break;
    default:
        break;
    }
}

size_t stk__sql_find_arg(const stk__trace *t, size_t row, stk__string key)
{
    for (; row < t->args.count; row++) {
        if (t->args.key[row] == key)
            return row;
        if (t->args.type[row] & STK__ARG_LAST)
            break;
    }
    return 0;
}

/* ---- keys ---- */

/* Each string that is a key, once. */
static bool find_keys(stk__sql *s)
{
    const stk__trace *t = s->trace;
    stk__sql_pasted *p = &s->pasted;
    if (p->keys)
        return true;
    size_t count = 0;
    uint8_t *seen = stk__calloc(t->string_count + 1, 1);
    for (size_t i = 1; seen && i < t->args.count; i++) {
        count += !seen[t->args.key[i]];
        seen[t->args.key[i]] = 1;
    }
    p->keys = seen ? stk__calloc(count + 1, sizeof *p->keys) : NULL;
    p->key_count = 0;
    for (size_t i = 0; p->keys && i < t->string_count; i++) {
        if (seen[i])
            p->keys[p->key_count++] = (uint32_t)i;
    }
    stk__free(seen);
    return p->keys != NULL;
}

static char plain(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80 ? c : '_');
}

/* Whether a name of a column can stand for this key: "Input_Dims" for "Input Dims". */
static bool stands_for(const char *name, const char *key, size_t key_size)
{
    if (strlen(name) != key_size)
        return false;
    for (size_t i = 0; i < key_size; i++) {
        if (plain(name[i]) != plain(key[i]))
            return false;
    }
    return true;
}

static bool is_key(const stk__sql_pasted *p, stk__string string)
{
    for (size_t i = 0; i < p->key_count; i++) {
        if (p->keys[i] == string)
            return true;
    }
    return false;
}

/* The key itself, else the only one that the name can stand for; STK__NONE. */
static stk__string key_of(const stk__sql *s, const char *name)
{
    const stk__sql_pasted *p = &s->pasted;
    const stk__string exact = stk__trace_find(s->trace, name, strlen(name));
    stk__string found = STK__NONE;
    if (exact != STK__NONE && is_key(p, exact))
        return exact;
    for (size_t i = 0; i < p->key_count; i++) {
        size_t size;
        const char *key = stk__trace_text(s->trace, p->keys[i], &size);
        if (!stands_for(name, key, size))
            continue;
        if (found != STK__NONE)
            return STK__NONE;
        found = p->keys[i];
    }
    return found;
}

bool stk__sql_args_known(stk__sql *s, const char *name)
{
    return find_keys(s) && key_of(s, name) != STK__NONE;
}

/* ---- columns ---- */

void stk__sql_args_clear(stk__sql_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        stk__free(args->items[i].column);
    stk__free(args->items);
    *args = (stk__sql_args){0};
}

static const stk__sql_arg *find_column(const stk__sql_args *args, size_t count, const char *column)
{
    for (size_t i = 0; i < count; i++) {
        if (sqlite3_stricmp(args->items[i].column, column) == 0)
            return &args->items[i];
    }
    return NULL;
}

static int append(stk__sql_args *args, const char *column, stk__string key)
{
    if (!stk__grow((void **)&args->items, &args->capacity, args->count + 1, sizeof *args->items))
        return SQLITE_NOMEM;
    char *copy = stk__strdup(column);
    if (!copy)
        return SQLITE_NOMEM;
    args->items[args->count++] = (stk__sql_arg){copy, key};
    return SQLITE_OK;
}

int stk__sql_args_add(stk__sql *s, stk__sql_args *args, const char *column, size_t at)
{
    if (!find_keys(s))
        return SQLITE_NOMEM;
    const stk__string key = key_of(s, column + PREFIX);
    if (key == STK__NONE)
        return SQLITE_OK; /* SQLite says that there is no such column, unless the query makes it */
    const stk__sql_arg *known = find_column(args, args->count, column);
    const stk__sql_arg *kept = find_column(&s->pasted.args, s->pasted.kept_args, column);
    if ((known && known->key != key) || (kept && kept->key != key))
        return stk__sql_refuse(s, at, "%s and %s are one column in SQL; write extract_arg(arg_set_id, '%s')", column,
                               known ? known->column : kept->column, column + PREFIX);
    if (known)
        return SQLITE_OK;
    if (args->count + s->pasted.kept_args >= ARGS_MAX)
        return stk__sql_refuse(s, at, "more than %d columns arg_KEY; write extract_arg(arg_set_id, '%s')", ARGS_MAX,
                               column + PREFIX);
    return append(args, column, key);
}

/* Whether these, beside those of views, are what is declared. */
static bool declared(const stk__sql_pasted *p, const stk__sql_args *args)
{
    size_t next = p->kept_args;
    for (size_t i = 0; i < args->count; i++) {
        if (find_column(&p->args, p->kept_args, args->items[i].column))
            continue;
        if (next == p->args.count || p->args.items[next].key != args->items[i].key ||
            strcmp(p->args.items[next].column, args->items[i].column) != 0)
            return false;
        next++;
    }
    return next == p->args.count;
}

int stk__sql_args_declare(sqlite3 *db, stk__sql *s, const stk__sql_args *args, bool keep)
{
    stk__sql_pasted *p = &s->pasted;
    int code = SQLITE_OK;
    if (!declared(p, args)) {
        while (p->args.count > p->kept_args)
            stk__free(p->args.items[--p->args.count].column);
        for (size_t i = 0; i < args->count && code == SQLITE_OK; i++) {
            if (!find_column(&p->args, p->kept_args, args->items[i].column))
                code = append(&p->args, args->items[i].column, args->items[i].key);
        }
        /* The module is registered anew, so that its table is declared anew. */
        if (code == SQLITE_OK)
            code = stk__sql_add_slice(db, s);
    }
    if (code != SQLITE_OK) { /* nothing is sure now: the next statement with args declares them again */
        stk__sql_args_clear(&p->args);
        p->kept_args = 0;
    }
    if (keep)
        p->kept_args = p->args.count;
    return code;
}
