/* The words of a statement, as SQLite takes them apart: strings, names in quotes, comments, numbers. */
#include "analyze/sql_tokens.h"

#include <string.h>

#include "base/banned.h"

static bool starts_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool in_word(char c)
{
    return starts_word(c) || digit(c) || c == '$';
}

static size_t skip_comment(const char *text, size_t at)
{
    if (text[at] == '-' && text[at + 1] == '-')
        return at + strcspn(text + at, "\n");
    if (text[at] != '/' || text[at + 1] != '*')
        return at;
    const char *end = strstr(text + at + 2, "*/");
    return end ? (size_t)(end - text) + 2 : at + strlen(text + at);
}

static size_t skip_space(const char *text, size_t at)
{
    for (;;) {
        const size_t start = at;
        at += strspn(text + at, " \t\n\f\r");
        at = skip_comment(text, at);
        if (at == start)
            return at;
    }
}

/* From the opening quote to after the closing one; twice the quote stands for one of them. */
static size_t quoted_size(const char *text, char close, bool doubles)
{
    size_t size = 1;
    for (; text[size]; size++) {
        if (text[size] != close)
            continue;
        if (!doubles || text[size + 1] != close)
            return size + 1;
        size++;
    }
    return size;
}

/* 12, 1.5, .5, 1e-6, 0xff; what SQLite refuses, such as 12abc, is one token too. */
static size_t number_size(const char *text)
{
    size_t size = 0;
    const bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    for (; in_word(text[size]) || text[size] == '.'; size++) {
        const bool exponent = !hexadecimal && (text[size] == 'e' || text[size] == 'E');
        if (exponent && (text[size + 1] == '+' || text[size + 1] == '-'))
            size++;
    }
    return size;
}

static size_t word_size(const char *text)
{
    size_t size = 0;
    while (in_word(text[size]))
        size++;
    return size;
}

stk__sql_token stk__sql_token_at(const char *text, size_t at)
{
    at = skip_space(text, at);
    const char *p = text + at;
    switch (*p) {
    case 0:
        return (stk__sql_token){0, at, 0};
    case '\'':
        return (stk__sql_token){STK__SQL_STRING, at, quoted_size(p, '\'', true)};
    case '"':
    case '`':
        return (stk__sql_token){STK__SQL_QUOTED, at, quoted_size(p, *p, true)};
    case '[':
        return (stk__sql_token){STK__SQL_QUOTED, at, quoted_size(p, ']', false)};
    case '?':
    case ':':
    case '@':
    case '$':
        return (stk__sql_token){STK__SQL_PARAMETER, at, 1 + word_size(p + 1)};
    default:
        break;
    }
    if ((*p == 'x' || *p == 'X') && p[1] == '\'')
        return (stk__sql_token){STK__SQL_STRING, at, 1 + quoted_size(p + 1, '\'', true)};
    if (starts_word(*p))
        return (stk__sql_token){STK__SQL_WORD, at, word_size(p)};
    if (digit(*p) || (*p == '.' && digit(p[1])))
        return (stk__sql_token){STK__SQL_NUMBER, at, number_size(p)};
    return (stk__sql_token){*p, at, 1};
}

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool stk__sql_token_is(const char *text, stk__sql_token token, const char *word)
{
    if (token.kind != STK__SQL_WORD || strlen(word) != token.size)
        return false;
    for (size_t i = 0; i < token.size; i++) {
        if (small(text[token.at + i]) != small(word[i]))
            return false;
    }
    return true;
}

void stk__sql_token_name(const char *text, stk__sql_token token, stk__text *out)
{
    if (token.kind != STK__SQL_QUOTED) {
        stk__text_write(out, text + token.at, token.size);
        return;
    }
    const char close = (char)(text[token.at] == '[' ? ']' : text[token.at]);
    const size_t end = token.at + token.size;
    for (size_t i = token.at + 1; i < end; i++) {
        if (text[i] == close && (i + 1 == end || text[token.at] == '['))
            break;
        stk__text_putc(out, text[i]);
        i += text[i] == close; /* the second of two */
    }
}
