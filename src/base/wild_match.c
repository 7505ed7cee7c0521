/* One name against one pattern: '*', '?', [sets] and backslashes, as glob(3) has them, without its exponential cases. */
#include <string.h>

#include "base/expand.h"
#include "base/str.h"

#include "base/banned.h"

/* A byte that is not part of valid UTF-8 equals nothing but itself. */
#define NOT_UTF8 0x110000u

static inline uint32_t next_char(const char **p, const char *end)
{
    const unsigned char *s = (const unsigned char *)*p;
    if (s[0] < 0x80) {
        ++*p;
        return s[0];
    }
    const size_t n = stk__utf8_length(s, (size_t)(end - *p));
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *p += n ? n : 1;
    if (!n)
        return NOT_UTF8 + s[0];
    uint32_t c = s[0] & masks[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

/* ---- sets ---- */

static bool is_between(uint32_t c, char first, char last)
{
    return c >= (uint32_t)first && c <= (uint32_t)last;
}

/* Classes of ASCII, whatever the locale. */
static bool in_class(const char *name, size_t size, uint32_t c)
{
    const bool digit = is_between(c, '0', '9'), upper = is_between(c, 'A', 'Z'), lower = is_between(c, 'a', 'z');
    const bool graph = is_between(c, '!', '~'), alnum = digit || upper || lower;
    const struct {
        const char *name;
        bool in;
    } classes[] = {{"alpha", upper || lower},
                   {"digit", digit},
                   {"alnum", alnum},
                   {"upper", upper},
                   {"lower", lower},
                   {"xdigit", digit || is_between(c, 'a', 'f') || is_between(c, 'A', 'F')},
                   {"space", c == ' ' || is_between(c, '\t', '\r')},
                   {"blank", c == ' ' || c == '\t'},
                   {"punct", graph && !alnum},
                   {"graph", graph},
                   {"print", graph || c == ' '},
                   {"cntrl", c < ' ' || c == 127}};
    for (size_t i = 0; i < STK_COUNT(classes); i++)
        if (strlen(classes[i].name) == size && memcmp(classes[i].name, name, size) == 0)
            return classes[i].in;
    return false;
}

/* "[:alpha:]", "[.x.]" or "[=x=]" at p: its end, or NULL. */
static const char *inner_end(const char *p, const char *end)
{
    if (end - p < 5 || !strchr(":.=", p[1]))
        return NULL;
    for (const char *q = p + 2; q + 1 < end && *q != '['; q++)
        if (q[0] == p[1] && q[1] == ']' && q > p + 2)
            return q + 2;
    return NULL;
}

/* One end of a range, or a character by itself. */
static uint32_t set_char(const char **p, const char *end)
{
    const char *inner = **p == '[' ? inner_end(*p, end) : NULL;
    if (inner) {
        const char *q = *p + 2;
        *p = inner;
        const uint32_t c = next_char(&q, end);
        return q == inner - 2 ? c : UINT32_MAX; /* there are no characters of several */
    }
    if (**p == '\\' && *p + 1 < end)
        ++*p;
    return next_char(p, end);
}

/* A class, a character or a range at *p, which is moved behind it. */
static bool set_item(const char **p, const char *end, uint32_t c)
{
    const char *inner = **p == '[' ? inner_end(*p, end) : NULL;
    if (inner && (*p)[1] == ':') {
        const char *name = *p + 2;
        *p = inner;
        return in_class(name, (size_t)(inner - 2 - name), c);
    }
    const uint32_t first = set_char(p, end);
    if (end - *p < 2 || **p != '-' || (*p)[1] == ']')
        return c == first;
    ++*p;
    const uint32_t last = set_char(p, end);
    return first <= c && c <= last && last != UINT32_MAX;
}

/* The set at *p, which is moved behind it; false in *out_is: it has no end, so the bracket is a character. */
static bool match_set(const char **p, const char *end, uint32_t c, bool *out_is)
{
    const char *q = *p + 1;
    const bool negated = q < end && (*q == '!' || *q == '^');
    bool found = false;
    q += negated;
    for (const char *first = q; q < end && (*q != ']' || q == first);)
        found = set_item(&q, end, c) || found;
    *out_is = q < end;
    if (*out_is)
        *p = q + 1;
    return found != negated;
}

/* ---- names ---- */

/* One character of the name against what the pattern has for one; moves both when they match. */
static bool match_one(const char **p, const char *end, const char **name, const char *name_end)
{
    if (*p == end)
        return false;
    const char *pattern = *p, *at = *name;
    const uint32_t c = next_char(&at, name_end);
    bool is_set = false, matches = *pattern == '?';
    if (*pattern == '[')
        matches = match_set(&pattern, end, c, &is_set);
    if (*pattern == '?' && !is_set) {
        pattern++;
    } else if (!is_set) {
        if (*pattern == '\\' && pattern + 1 < end)
            pattern++;
        matches = next_char(&pattern, end) == c;
    }
    if (matches) {
        *p = pattern;
        *name = at;
    }
    return matches;
}

/* A byte that stands for itself: ASCII and no sign. */
static inline bool is_plain(char c)
{
    return (unsigned char)c < 0x80 && c != '*' && c != '?' && c != '[' && c != '\\';
}

/* Only the last '*' is ever tried again: what those before it took need not change. */
bool stk__wild_match(const char *pattern, const char *end, const char *name, uint64_t *steps)
{
    const char *name_end = name + strlen(name), *p = pattern;
    const char *star = NULL, *star_name = NULL;
    while (name < name_end) {
        *steps += p < end && *p == '[' ? (uint64_t)(end - p) : 1; /* a set is read anew each time */
        if (p < end && is_plain(*p) && *p == *name) {
            p++;
            name++;
        } else if (p < end && *p == '*') {
            star = ++p;
            star_name = name;
        } else if (!match_one(&p, end, &name, name_end)) {
            if (!star)
                return false;
            next_char(&star_name, name_end);
            p = star;
            name = star_name;
        }
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}
