/* The words of a statement, as SQLite takes them apart. */
#ifndef STK_ANALYZE_SQL_TOKENS_H
#define STK_ANALYZE_SQL_TOKENS_H

#include "base/str.h"

/*
 * kind is STK__SQL_WORD and the like, or the character itself, such as '(' or ';'. Space and comments are skipped. The
 * last token has kind 0 and lies at the end of the text, where it may be asked for again. What has an opening quote and
 * no closing one reaches to the end.
 */
enum {
    STK__SQL_WORD = 'w',
    STK__SQL_NUMBER = 'n',
    STK__SQL_STRING = 's',
    STK__SQL_QUOTED = 'q',
    STK__SQL_PARAMETER = '?',
};

typedef struct stk__sql_token {
    char kind;
    size_t at, size; /* in the text, with quotes */
} stk__sql_token;

/* The first token at or after `at`, which is not past the end of the text. */
stk__sql_token stk__sql_token_at(const char *text, size_t at);

static inline stk__sql_token stk__sql_token_after(const char *text, stk__sql_token token)
{
    return stk__sql_token_at(text, token.at + token.size);
}

/* Whether it is this word, in small or large letters and without quotes. */
bool stk__sql_token_is(const char *text, stk__sql_token token, const char *word);
/* A word, or a name in quotes. */
static inline bool stk__sql_token_names(stk__sql_token token)
{
    return token.kind == STK__SQL_WORD || token.kind == STK__SQL_QUOTED;
}

/* Adds the name without its quotes. */
void stk__sql_token_name(const char *text, stk__sql_token token, stk__text *out);

/* The size of the prefix that Perfetto has before keys of args, in a string that starts so; else 0. */
size_t stk__sql_key_prefix(const char *text, stk__sql_token token);

#endif
