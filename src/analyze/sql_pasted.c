/* What stands in pasted statements: modules of Perfetto, words that must be rewritten, strings in the wrong quotes. */
#include <stdarg.h>
#include <string.h>

#include "analyze/sql_impl.h"
#include "analyze/sql_tokens.h"
#include "base/mem.h"

#include "base/banned.h"

/* Bytes of the names of modules; arguments are looked at up to so many tokens after the name of the function. */
enum { MODULES_SHOWN = 200, CALL_TOKENS = 1000 };

int stk__sql_refuse(stk__sql *s, size_t at, const char *format, ...)
{
    va_list arguments;
    char text[512];
    va_start(arguments, format);
    sqlite3_vsnprintf(sizeof text, text, format, arguments);
    va_end(arguments);
    stk__text_reset(&s->pasted.message);
    stk__text_puts(&s->pasted.message, text);
    s->pasted.refused = true;
    s->pasted.refused_at = at;
    return SQLITE_ERROR;
}

void stk__sql_pasted_clear(stk__sql_pasted *p)
{
    stk__sql_args_clear(&p->args);
    stk__free(p->keys);
    stk__free(p->pieces);
    stk__text_clear(&p->modules);
    stk__text_clear(&p->message);
}

/* ---- Perfetto ---- */

/* "android.startup.startups"; returns what follows. */
static stk__sql_token skip_module(const char *text, stk__sql_token token, stk__text *out)
{
    while (stk__sql_token_names(token) || token.kind == '.' || token.kind == '*') {
        stk__sql_token_name(text, token, out);
        token = stk__sql_token_after(text, token);
    }
    return token;
}

/* Whether its tables are here: those of slices with their threads, and what needs no INCLUDE in Perfetto. */
static bool has_module(const char *module)
{
    return strcmp(module, "slices.with_context") == 0 || strncmp(module, "prelude.", 8) == 0;
}

const char *stk__sql_skip_space(const char *text)
{
    return text + stk__sql_token_at(text, 0).at;
}

const char *stk__sql_start(stk__sql *s, const char *text)
{
    stk__sql_pasted *p = &s->pasted;
    const char *start = text;
    p->refused = false;
    p->piece_count = 0;
    for (;;) {
        const char *line = stk__sql_skip_space(start);
        if (*line == '#') { /* a comment in BigQuery, such as #standardSQL */
            start = line + strcspn(line, "\n");
            continue;
        }
        const stk__sql_token first = stk__sql_token_at(start, 0), second = stk__sql_token_after(start, first),
                             third = stk__sql_token_after(start, second);
        if (!stk__sql_token_is(start, first, "include") || !stk__sql_token_is(start, second, "perfetto") ||
            !stk__sql_token_is(start, third, "module"))
            break;
        stk__text module = STK__TEXT_INIT;
        const stk__sql_token end = skip_module(start, stk__sql_token_after(start, third), &module);
        const bool whole = module.length && (end.kind == ';' || end.kind == 0);
        if (whole && !has_module(module.data) && p->modules.length < MODULES_SHOWN &&
            (!p->modules.data || !strstr(p->modules.data, module.data)))
            stk__text_printf(&p->modules, "%s%s", p->modules.length ? ", " : "", module.data);
        stk__text_clear(&module);
        if (!whole)
            break; /* SQLite says what is wrong */
        start += end.at + end.size;
    }
    p->start = (size_t)(start - text);
    return start;
}

/* ---- words ---- */

size_t stk__sql_key_prefix(const char *text, stk__sql_token token)
{
    if (token.kind != STK__SQL_STRING || text[token.at] != '\'')
        return 0;
    return strncmp(text + token.at + 1, "args.", 5) == 0 ? 5 : strncmp(text + token.at + 1, "debug.", 6) == 0 ? 6 : 0;
}

/*
 * A name in double quotes as an argument of ours: there a column is hardly ever meant, and extract_arg(x, "name") would
 * give nothing and no error. `token` is the function's name.
 */
static int check_call(stk__sql *s, const char *text, stk__sql_token token)
{
    const stk__sql_token function = token;
    size_t depth = 0, argument = 0;
    const size_t first = stk__sql_token_is(text, token, "extract_arg"); /* the set may be any column */
    stk__sql_token before = token;
    token = stk__sql_token_after(text, token);
    if (token.kind != '(')
        return SQLITE_OK;
    for (size_t i = 0; i < CALL_TOKENS; i++, before = token, token = stk__sql_token_after(text, token)) {
        const bool alone = depth == 1 && (before.kind == '(' || before.kind == ',');
        if (token.kind == 0 || token.kind == ';' || (token.kind == ')' && depth == 1))
            return SQLITE_OK;
        const char after = stk__sql_token_after(text, token).kind;
        if (alone && argument >= first && token.kind == STK__SQL_QUOTED && text[token.at] == '"' &&
            (after == ',' || after == ')'))
            return stk__sql_refuse(s, token.at,
                                   "%.*s: %.*s in double quotes is a column; strings are in single quotes: '%.*s'",
                                   (int)function.size, text + function.at, (int)STK_MIN(token.size, 100),
                                   text + token.at, (int)STK_MIN(token.size - 2, 100), text + token.at + 1);
        depth += token.kind == '(';
        depth -= token.kind == ')';
        argument += token.kind == ',' && depth == 1;
    }
    return SQLITE_OK;
}

static bool is_function(const char *text, stk__sql_token token)
{
    static const char *const names[] = {"extract_arg", "top", "gaps", "stacks", "overlap"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (stk__sql_token_is(text, token, names[i]))
            return true;
    }
    return false;
}

/* Whether a token may have to be rewritten, alone or with those around it. */
static bool is_foreign_word(const char *text, stk__sql_token token)
{
    static const char *const names[] = {"unnest", "perfetto", "trace_events", "traceevents", "string"};
    if (token.kind == STK__SQL_QUOTED)
        return text[token.at] == '`' || sqlite3_strnicmp(text + token.at + 1, "arg_", 4) == 0;
    if (token.kind != STK__SQL_WORD)
        return stk__sql_key_prefix(text, token) > 0;
    if (sqlite3_strnicmp(text + token.at, "arg_", 4) == 0)
        return !stk__sql_token_is(text, token, "arg_set_id");
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (stk__sql_token_is(text, token, names[i]))
            return true;
    }
    return false;
}

static bool is_span_join(const char *text, stk__sql_token token)
{
    return stk__sql_token_is(text, token, "span_join") || stk__sql_token_is(text, token, "span_left_join") ||
           stk__sql_token_is(text, token, "span_outer_join");
}

int stk__sql_look(stk__sql *s, const char *text, bool *out_foreign)
{
    int code = SQLITE_OK;
    *out_foreign = false;
    for (stk__sql_token token = stk__sql_token_at(text, 0); token.kind && token.kind != ';' && code == SQLITE_OK;
         token = stk__sql_token_after(text, token)) {
        if (is_foreign_word(text, token))
            *out_foreign = true;
        else if (is_span_join(text, token))
            code = stk__sql_refuse(s, token.at,
                                   "Perfetto's %.*s is not here; overlap(a, b) gives how long names ran at once, and a "
                                   "join on ts and dur does the rest",
                                   (int)token.size, text + token.at);
        else if (is_function(text, token))
            code = check_call(s, text, token);
    }
    return code;
}
