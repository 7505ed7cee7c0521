/* Names of shards: made from a pattern, and compared with it. */
#include "formats/shard_names.h"

#include <string.h>

#include "base/banned.h"

/* As wide as a number may be asked for, and as long as one of a shard that was written so can be. */
enum { WIDTH_MAX = 20, DIGITS_MAX = 18 };

/* Reads the digits and the d of "%05d" behind its percent sign; NULL when it is none. */
static const char *read_width(const char *p, int *out_width)
{
    int width = 0;
    for (; *p >= '0' && *p <= '9' && width < 100; p++)
        width = width * 10 + (*p - '0');
    *out_width = width;
    return *p == 'd' && width <= WIDTH_MAX ? p + 1 : NULL;
}

bool stk__shard_format(stk__text *t, const char *pattern, int64_t shard, int64_t shards, int *out_numbers)
{
    *out_numbers = 0;
    for (const char *p = pattern; *p;) {
        if (*p != '%' || p[1] == '%') {
            p += *p == '%';
            stk__text_putc(t, *p++);
            continue;
        }
        int width;
        p = read_width(p + 1, &width);
        if (!p)
            return false;
        stk__text_printf(t, "%0*lld", width, (long long)(*out_numbers ? shards : shard));
        ++*out_numbers;
    }
    return *out_numbers <= 2;
}

void stk__shard_path(stk__text *t, const char *pattern, int64_t shard, int64_t shards)
{
    int numbers;
    stk__shard_format(t, pattern, shard, shards, &numbers);
}

/* Whether so many digits are what "%0*d" prints for some number. */
static bool is_number(const char *s, int n, int width)
{
    return n == 1 ? width <= 1 : n == width || (n > width && s[0] != '0');
}

bool stk__shard_fits(const char *pattern, const char *name, int64_t *out_number)
{
    if (out_number)
        *out_number = 0;
    for (; *pattern && !(pattern[0] == '%' && pattern[1] != '%'); pattern++, name++) {
        pattern += *pattern == '%';
        if (*pattern != *name)
            return false;
    }
    if (!*pattern)
        return !*name;
    int width;
    const char *rest = read_width(pattern + 1, &width);
    if (!rest)
        return false;
    int64_t number = 0;
    for (int n = 1; n <= DIGITS_MAX && name[n - 1] >= '0' && name[n - 1] <= '9'; n++) {
        number = number * 10 + (name[n - 1] - '0');
        if (is_number(name, n, width) && stk__shard_fits(rest, name + n, NULL)) {
            if (out_number)
                *out_number = number;
            return true;
        }
    }
    return false;
}

const char *stk__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The first number behind p, or the end. */
static const char *find_number(const char *p)
{
    while (*p && !(p[0] == '%' && p[1] != '%'))
        p += *p == '%' ? 2 : 1;
    return p;
}

/* From p to end, with "%%" as a percent sign. */
static void put_literal(stk__text *t, const char *p, const char *end)
{
    for (; p < end; p++) {
        p += *p == '%';
        stk__text_putc(t, *p);
    }
}

void stk__set_name(stk__text *t, const char *pattern)
{
    stk__text stem = STK__TEXT_INIT;
    const char *number = find_number(pattern), *tail = number;
    put_literal(&stem, pattern, number);
    while (*number && stem.length > 0 && strchr("-_.", stem.data[stem.length - 1]))
        stem.length--;
    stk__text_write(t, stem.data, stem.length);
    /* Files that are numbers alone leave no name. */
    if (*number && (stem.length == 0 || stem.data[stem.length - 1] == '/'))
        stk__text_puts(t, "data");
    for (int width; *number; number = find_number(tail)) {
        tail = read_width(number + 1, &width);
        if (!tail)
            break;
    }
    if (tail)
        put_literal(t, tail, tail + strlen(tail));
    t->failed = t->failed || stem.failed;
    stk__text_clear(&stem);
}
