/* Reads the values of a parameter. Ranges are counted in whole units of their last decimal, so that 0.3 stays 0.3. */
#include "bench/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* Together they keep every sum within 64 bits. */
enum { MOST_DIGITS = 12, MOST_DECIMALS = 6 };

void stk__scan_clear(stk__scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        stk__free(s->values[i]);
    stk__free(s->values);
    *s = (stk__scan){0};
}

static stk_status add(stk__scan *s, const char *text, size_t size, stk_error *err)
{
    if (s->count == STK__SCAN_MOST)
        return stk_error_set(err, STK_LIMIT, "more than %d values", STK__SCAN_MOST);
    if (!stk__grow((void **)&s->values, &s->capacity, s->count + 1, sizeof *s->values))
        return stk__nomem(s->count * sizeof *s->values, err);
    char *copy = stk__strndup(text, size);
    if (!copy)
        return stk__nomem(size, err);
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->values[i], copy) == 0) {
            stk_error_set(err, STK_INVALID, "the value '%.60s' is there twice", copy);
            stk__free(copy);
            return STK_INVALID;
        }
    }
    s->values[s->count++] = copy;
    return STK_OK;
}

/* ---- ranges ---- */

typedef struct decimal {
    int64_t units; /* value * 10^decimals */
    int decimals;
    int width; /* digits to keep when it was written with zeros before it ("08"); 0: none */
} decimal;

/* The length of "-12.5" at `text`, or 0. */
static size_t decimal_length(const char *text)
{
    const size_t sign = *text == '-' || *text == '+';
    const size_t whole = strspn(text + sign, "0123456789");
    if (!whole)
        return 0;
    const char *point = text + sign + whole;
    const size_t after = *point == '.' && point[1] != '.' ? strspn(point + 1, "0123456789") : 0;
    return sign + whole + (after ? after + 1 : 0);
}

static bool decimal_read(const char *text, size_t size, decimal *out)
{
    int digits = 0, after = -1;
    *out = (decimal){0};
    for (size_t i = *text == '-' || *text == '+'; i < size; i++) {
        if (text[i] == '.') {
            after = 0;
            continue;
        }
        out->units = 10 * out->units + (text[i] - '0');
        after += after >= 0;
        if (++digits > MOST_DIGITS)
            return false;
    }
    out->decimals = after > 0 ? after : 0;
    out->width = after < 0 && digits > 1 && text[*text == '-' || *text == '+'] == '0' ? digits : 0;
    out->units *= *text == '-' ? -1 : 1;
    return out->decimals <= MOST_DECIMALS;
}

static int64_t scaled(const decimal *d, int decimals)
{
    int64_t units = d->units;
    for (int i = d->decimals; i < decimals; i++)
        units *= 10;
    return units;
}

static void put_units(stk__text *t, int64_t units, int decimals, int width)
{
    int64_t one = 1;
    for (int i = 0; i < decimals; i++)
        one *= 10;
    const long long size = llabs((long long)units);
    stk__text_printf(t, "%s%0*lld", units < 0 ? "-" : "", width, size / one);
    long long rest = size % one;
    if (!rest)
        return;
    while (rest % 10 == 0) {
        rest /= 10;
        decimals--;
    }
    stk__text_printf(t, ".%0*lld", decimals, rest);
}

typedef struct range {
    const char *text; /* as it was written */
    size_t size;
    decimal parts[3]; /* start, stop, step */
    size_t count;
    size_t starts[3], sizes[3]; /* of the parts in the text */
} range;

/* The parts of "1..10..3" or "1:10:3"; false when the text is something else. */
static bool split(const char *text, size_t size, const char *between, range *out)
{
    *out = (range){.text = text, .size = size};
    size_t at = 0;
    while (out->count < STK_COUNT(out->parts)) {
        const size_t length = decimal_length(text + at);
        if (!length || at + length > size)
            return false;
        out->starts[out->count] = at;
        out->sizes[out->count++] = length;
        at += length;
        if (at == size)
            return out->count > 1;
        if (strncmp(text + at, between, strlen(between)) != 0)
            return false;
        at += strlen(between);
    }
    return false;
}

static stk_status bad_range(const range *r, const char *why, stk_error *err)
{
    return stk_error_set(err, STK_INVALID, "the range '%.*s' %s (for that text itself, write \\%.*s)",
                         (int)STK_MIN(r->size, (size_t)60), r->text, why, (int)STK_MIN(r->size, (size_t)60), r->text);
}

static stk_status expand(stk__scan *s, range *r, stk_error *err)
{
    int decimals = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (!decimal_read(r->text + r->starts[i], r->sizes[i], &r->parts[i]))
            return bad_range(r, "has a number of more than 12 digits, or 6 behind the point", err);
        decimals = STK_MAX(decimals, r->parts[i].decimals);
    }
    if (r->count == 2)
        r->parts[r->count++] = (decimal){.units = 1};
    const int64_t start = scaled(&r->parts[0], decimals), stop = scaled(&r->parts[1], decimals);
    int64_t step = scaled(&r->parts[2], decimals);
    if (!step)
        return bad_range(r, "has a step of 0", err);
    if (step < 0 && stop > start)
        return bad_range(r, "goes up, and its step down", err);
    step = llabs((long long)step);
    const int64_t length = llabs((long long)(stop - start));
    if (step > length && length)
        return bad_range(r, "has a step that is wider than itself; wanted START:STOP:STEP", err);
    const int64_t count = length / step + 1;
    if (count > STK__SCAN_MOST)
        return stk_error_set(err, STK_LIMIT, "the range '%.*s' has %lld values, wanted at most %d", (int)r->size,
                             r->text, (long long)count, STK__SCAN_MOST);
    stk__text value = STK__TEXT_INIT;
    stk_status status = STK_OK;
    for (int64_t i = 0; i < count && status == STK_OK; i++) {
        stk__text_reset(&value);
        put_units(&value, start + (stop < start ? -i : i) * step, decimals, r->parts[0].width);
        status = value.failed ? stk__nomem(32, err) : add(s, value.data, value.length, err);
    }
    stk__text_clear(&value);
    return status;
}

/* ---- lists ---- */

static bool is_range(const char *text, size_t size, range *out)
{
    return split(text, size, "..", out) || (split(text, size, ":", out) && out->count == 3);
}

/* One value between commas, which are undone in it: as it stands, a range, or a text that looks like one. */
static stk_status add_element(stk__scan *s, const char *text, size_t size, stk_error *err)
{
    range r;
    if (size == 2 && (memcmp(text, "''", 2) == 0 || memcmp(text, "\"\"", 2) == 0))
        return add(s, "", 0, err);
    if (!size)
        return stk_error_set(err, STK_INVALID, "value %zu is empty; write '' in its place if that is meant",
                             s->count + 1);
    if (is_range(text, size, &r))
        return expand(s, &r, err);
    if (*text == '\\' && is_range(text + 1, size - 1, &r))
        return add(s, text + 1, size - 1, err);
    STK_TRY(add(s, text, size, err));
    if (split(text, size, ":", &r))
        s->doubtful = s->count;
    return STK_OK;
}

static stk_status read_list(const char *text, stk__scan *s, stk__text *element, stk_error *err)
{
    for (;; text++) {
        stk__text_reset(element);
        stk__text_puts(element, "");
        for (; *text && *text != ','; text++) {
            text += *text == '\\' && text[1] == ',';
            stk__text_putc(element, *text);
        }
        if (element->failed)
            return stk__nomem(element->length, err);
        STK_TRY(add_element(s, element->data, element->length, err));
        if (!*text)
            return STK_OK;
    }
}

stk_status stk__scan_read(const char *text, stk__scan *out, stk_error *err)
{
    stk__scan s = {0};
    stk__text element = STK__TEXT_INIT;
    const stk_status status = read_list(text, &s, &element, err);
    stk__text_clear(&element);
    if (status == STK_OK)
        *out = s;
    else
        stk__scan_clear(&s);
    return status;
}
