/* Sees whether a statement is a total per group of all slices, so that groups need not be read row by row. */
#include <string.h>

#include "analyze/sql_impl.h"

#include "base/banned.h"

/*
 * What is seen as such:
 *
 *   SELECT expression [AS alias], ... FROM slice GROUP BY key, ...
 *   [ORDER BY expression [ASC|DESC], ...] [LIMIT n [OFFSET n]]
 *
 * where expressions are made of numbers, keys, + - * / ( ), round(), count(*), and sum, avg, total, min and max of
 * dur. Everything else, quotes and comments included, is left to the plain way, which gives the same. SQLite still
 * parses the statement: this only has to be sure that dur stands nowhere but in those functions.
 */
enum { ALIASES = 32, WORD_MAX = 64 };

typedef struct token {
    char kind;           /* 'w' word, 'n' number, else the character itself; 0: the end; '?': not seen as a total */
    char text[WORD_MAX]; /* of words, in small letters */
} token;

typedef struct scan {
    const char *at;
    token now;
    char aliases[ALIASES][WORD_MAX];
    size_t alias_count;
} scan;

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static void scan_word(scan *s)
{
    size_t size = 0;
    s->now.kind = 'w';
    for (; letter(*s->at) || digit(*s->at); s->at++) {
        if (size + 1 >= WORD_MAX) {
            s->now.kind = '?';
            return;
        }
        s->now.text[size++] = (char)(*s->at >= 'A' && *s->at <= 'Z' ? *s->at - 'A' + 'a' : *s->at);
    }
    s->now.text[size] = 0;
}

/* 12, 1.5, 1e6 */
static void scan_number(scan *s)
{
    s->now.kind = 'n';
    while (digit(*s->at) || *s->at == '.')
        s->at++;
    if (*s->at == 'e' || *s->at == 'E') {
        s->at++;
        while (digit(*s->at))
            s->at++;
    }
    if (letter(*s->at))
        s->now.kind = '?';
}

static void next(scan *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r')
        s->at++;
    s->now.text[0] = 0;
    if (*s->at == 0 || *s->at == ';')
        s->now.kind = 0;
    else if (letter(*s->at))
        scan_word(s);
    else if (digit(*s->at))
        scan_number(s);
    else if ((s->at[0] == '-' && s->at[1] == '-') || (s->at[0] == '/' && s->at[1] == '*'))
        s->now.kind = '?';
    else
        s->now.kind = strchr(",()*+-/", *s->at) ? *s->at++ : '?';
}

static bool is_word(const scan *s, const char *word)
{
    return s->now.kind == 'w' && strcmp(s->now.text, word) == 0;
}

static bool take_word(scan *s, const char *word)
{
    if (!is_word(s, word))
        return false;
    next(s);
    return true;
}

static bool take_kind(scan *s, char kind)
{
    if (s->now.kind != kind)
        return false;
    next(s);
    return true;
}

static bool listed(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, list[i]) == 0)
            return true;
    }
    return false;
}

/* Columns that all rows of a group share when they are grouped by; the table refuses those that are not. */
static bool is_key(const char *word)
{
    static const char *const keys[] = {"name", "category", "cat",         "track_id",     "utid",   "upid",
                                       "tid",  "pid",      "thread_name", "process_name", "file_id"};
    return listed(word, keys, STK_COUNT(keys));
}

/* count(*), sum(dur) and the like; the word has been read. */
static bool take_call(scan *s, const char *word)
{
    static const char *const functions[] = {"sum", "avg", "total", "min", "max", "count"};
    if (strcmp(word, "count") == 0 && s->now.kind == '(' && s->at[strspn(s->at, " ")] == '*') {
        next(s);
        next(s);
        return take_kind(s, ')');
    }
    if (!listed(word, functions, STK_COUNT(functions)))
        return false;
    return take_kind(s, '(') && take_word(s, "dur") && take_kind(s, ')');
}

static bool is_alias(const scan *s, const char *word)
{
    for (size_t i = 0; i < s->alias_count; i++) {
        if (strcmp(s->aliases[i], word) == 0)
            return true;
    }
    return false;
}

static bool ends_expression(const scan *s)
{
    return s->now.kind == 0 || is_word(s, "as") || is_word(s, "from") || is_word(s, "asc") || is_word(s, "desc") ||
           is_word(s, "limit");
}

/* Tokens up to a comma outside of brackets, or a word that ends it. That they make sense is for SQLite to check. */
static bool take_expression(scan *s, bool aliases)
{
    int depth = 0;
    size_t tokens = 0;
    for (; depth || (s->now.kind != ',' && !ends_expression(s)); tokens++) {
        char word[WORD_MAX];
        if (s->now.kind == '?' || s->now.kind == 0)
            return false;
        depth += (s->now.kind == '(') - (s->now.kind == ')');
        if (depth < 0)
            return false;
        if (s->now.kind != 'w') {
            next(s);
            continue;
        }
        memcpy(word, s->now.text, sizeof word);
        next(s);
        /* Within an expression, a column counts before an alias of the same name. */
        const bool alone = tokens == 0 && (s->now.kind == ',' || ends_expression(s));
        if (strcmp(word, "round") == 0 || (s->now.kind != '(' && is_key(word)) ||
            (aliases && alone && is_alias(s, word)))
            continue;
        if (!take_call(s, word))
            return false;
    }
    return tokens > 0;
}

static bool take_items(scan *s)
{
    do {
        if (!take_expression(s, false))
            return false;
        if (take_word(s, "as")) {
            if (s->now.kind != 'w' || s->alias_count == ALIASES)
                return false;
            memcpy(s->aliases[s->alias_count++], s->now.text, WORD_MAX);
            next(s);
        }
    } while (take_kind(s, ','));
    return true;
}

static bool take_keys(scan *s)
{
    do {
        if (s->now.kind != 'w' || !is_key(s->now.text))
            return false;
        next(s);
    } while (take_kind(s, ','));
    return true;
}

static bool take_order(scan *s)
{
    if (!take_word(s, "order"))
        return true;
    if (!take_word(s, "by"))
        return false;
    do {
        if (!take_expression(s, true))
            return false;
        if (is_word(s, "asc") || is_word(s, "desc"))
            next(s);
    } while (take_kind(s, ','));
    return true;
}

static bool take_limit(scan *s)
{
    if (!take_word(s, "limit"))
        return true;
    if (!take_kind(s, 'n'))
        return false;
    return !take_word(s, "offset") || take_kind(s, 'n');
}

bool stk__sql_is_total(const char *text)
{
    scan s = {.at = text};
    next(&s);
    return take_word(&s, "select") && take_items(&s) && take_word(&s, "from") && take_word(&s, "slice") &&
           take_word(&s, "group") && take_word(&s, "by") && take_keys(&s) && take_order(&s) && take_limit(&s) &&
           s.now.kind == 0;
}
