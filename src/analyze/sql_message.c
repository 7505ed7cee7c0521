/* What is said of a statement that failed: SQLite's words, the place in the text as it was given, what to write. */
#include <string.h>

#include "analyze/sql_impl.h"
#include "analyze/sql_tokens.h"
#include "base/mem.h"

#include "base/banned.h"

/* From a place in what SQLite read to the text that was given. */
static int place_of(const stk__sql_pasted *p, int offset)
{
    size_t place = (size_t)offset, first = 0, end = p->piece_count;
    if (offset < 0)
        return offset;
    while (first + 1 < end) {
        const size_t middle = first + (end - first) / 2;
        if (p->pieces[middle].to <= place)
            first = middle;
        else
            end = middle;
    }
    if (p->piece_count)
        place = p->pieces[first].from + (p->pieces[first].same ? place - p->pieces[first].to : 0);
    return (int)(p->start + place);
}

/* What follows `prefix`; NULL when the message does not start so. */
static const char *behind(const char *message, const char *prefix)
{
    const size_t size = strlen(prefix);
    return strncmp(message, prefix, size) == 0 ? message + size : NULL;
}

/* Letters, digits, underscores and dots: what a column is called, and strings often are not. */
static bool plain_name(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] == 0;
}

static void add_column_hint(stk__sql *s, const char *column, bool quoted, stk__text *out)
{
    const char *dot = strrchr(column, '.'), *name = dot ? dot + 1 : column;
    if (quoted || !plain_name(column)) /* a view is not looked at before it is used, and its text is not here */
        stk__text_printf(out, "; strings are in single quotes: '%.100s'", column);
    else if (sqlite3_strnicmp(name, "arg_", 4) == 0 && stk__sql_args_known(s, name + 4))
        stk__text_printf(out, "; slice and trace_events have it");
    else if (sqlite3_stricmp(name, "args") == 0)
        stk__text_puts(out, "; write arg_KEY for the arg of one key, or JOIN args USING (arg_set_id)");
    else if (sqlite3_strnicmp(name, "arg_", 4) == 0)
        stk__text_printf(out, "; no slice has an arg '%.100s'", name + 4);
}

static void add_table_hint(const stk__sql *s, const char *table, stk__text *out)
{
    if (s->pasted.modules.length)
        stk__text_printf(out, " (stoker does not have Perfetto's module %.200s)", s->pasted.modules.data);
    else if (strchr(table, '.') && !behind(table, "main.") && !behind(table, "temp."))
        stk__text_printf(out, "; a table of BigQuery is in backquotes, and stands for the events: `%.100s`", table);
}

/* Newer versions of SQLite ask a question behind the name, and quote it. */
static char *column_in(const char *rest, bool *out_quoted)
{
    *out_quoted = rest[0] == '"';
    const char *name = rest + *out_quoted;
    return stk__strndup(name, *out_quoted ? strcspn(name, "\"") : strlen(name));
}

static void compose(stk__sql *s, const char *message, bool quoted, stk__text *out)
{
    const char *rest;
    bool by_message = false;
    char *column = (rest = behind(message, "no such column: ")) ? column_in(rest, &by_message) : NULL;
    if (column) {
        stk__text_printf(out, "no such column: %s", column);
        add_column_hint(s, column, quoted || by_message, out);
    } else {
        stk__text_puts(out, message);
    }
    if ((rest = behind(message, "no such table: ")))
        add_table_hint(s, rest, out);
    else if (behind(message, "no such function: ") && s->pasted.modules.length)
        add_table_hint(s, "", out);
    else if (strcmp(message, "unrecognized token: \"!\"") == 0)
        stk__text_puts(out, "; stoker does not have Perfetto's macros");
    stk__free(column);
}

const char *stk__sql_message(sqlite3 *db, const char *text, int *out_offset)
{
    stk__sql *s = stk__sql_of(db);
    const int offset = sqlite3_error_offset(db);
    if (!s) {
        *out_offset = offset;
        return sqlite3_errmsg(db);
    }
    stk__sql_pasted *p = &s->pasted;
    *out_offset = p->refused ? (int)(p->start + p->refused_at) : place_of(p, offset);
    if (*out_offset >= 0 && (size_t)*out_offset > strlen(text))
        *out_offset = -1;
    if (!p->refused) {
        char *message = stk__strdup(sqlite3_errmsg(db));
        stk__text_reset(&p->message);
        if (message)
            compose(s, message, *out_offset >= 0 && text[*out_offset] == '"', &p->message);
        stk__free(message);
    }
    return p->message.data && !p->message.failed ? p->message.data : "out of memory";
}
