/* Reads Go's benchmark text: "Benchmark..." lines with iterations and values in units, file keys, Unit lines. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/go_units.h"
#include "bench/import.h"

#include "base/banned.h"

enum { KEYS = 64 }; /* file keys that are watched for changes */

typedef struct span {
    const char *text;
    size_t size;
} span;

typedef struct reader {
    stk__import *in;
    const char *at, *end;
    int line; /* of the line at hand, from 1 */
    const char *line_start;
    stk__name_table units;               /* as written */
    size_t metrics[STK__IMPORT_METRICS]; /* of each unit */
    stk__name_table better;              /* units that a Unit line says are better when higher */
    stk__name_table lower;               /* ... and lower */
    stk__name_table variants;            /* name and package, index by index those of the result */
    stk__name_table groups;
    stk__name_table keys; /* of "key: value" lines */
    span values[KEYS];    /* newest of each key */
    bool changed[KEYS];
    span package;
    size_t packages;
    bool by_variant; /* some name has a /variant= part */
    size_t skipped;
    int first_skipped;
} reader;

static stk_status bad_line(const reader *r, stk_status status, const char *what, span found)
{
    stk_error_set(r->in->err, status, "%s, found '%.*s'", what, (int)STK_MIN(found.size, 80), found.text);
    if (r->in->err) {
        r->in->err->line = r->line;
        r->in->err->column = (int)STK_MIN(found.text - r->line_start + 1, INT32_MAX);
    }
    return status;
}

static bool next_line(reader *r, span *out)
{
    if (r->at == r->end)
        return false;
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *after = stop ? stop + 1 : r->end;
    stop = stop ? stop : r->end;
    if (stop > r->at && stop[-1] == '\r')
        stop--;
    *out = (span){r->at, (size_t)(stop - r->at)};
    r->line_start = r->at;
    r->at = after;
    r->line++;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/* Takes the first word off the line; empty when there is none. */
static span next_word(span *line)
{
    while (line->size && is_blank(*line->text)) {
        line->text++;
        line->size--;
    }
    span word = {line->text, 0};
    while (word.size < line->size && !is_blank(line->text[word.size]))
        word.size++;
    line->text += word.size;
    line->size -= word.size;
    return word;
}

static bool starts_with(span s, const char *head)
{
    const size_t n = strlen(head);
    return s.size >= n && memcmp(s.text, head, n) == 0;
}

static bool same(span a, span b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* A whole word as a number; strtod's words and hexadecimal forms are not numbers here. */
static bool read_number(span word, double *out)
{
    char copy[64], *end;
    if (!word.size || word.size >= sizeof copy)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        if (!strchr("0123456789+-.eE", word.text[i]) || !word.text[i])
            return false;
    }
    memcpy(copy, word.text, word.size);
    copy[word.size] = 0;
    *out = stk__strtod(copy, &end);
    return end == copy + word.size && isfinite(*out);
}

/* "Benchmark", not followed by a small letter, then a count: else it is a line of something else. */
static bool is_result(span line)
{
    double iterations, value;
    const span name = next_word(&line), count = next_word(&line), first = next_word(&line);
    if (!starts_with(name, "Benchmark") || (name.size > 9 && name.text[9] >= 'a' && name.text[9] <= 'z'))
        return false;
    if (!first.size || !read_number(count, &iterations) || iterations < 0)
        return false;
    return read_number(first, &value) || strchr("+-NI0123456789", first.text[0]); /* NaN and the like: told as wrong */
}

static bool is_text(span s)
{
    for (size_t i = 0, n; i < s.size; i += n) {
        n = stk__utf8_length((const unsigned char *)s.text + i, s.size - i);
        if (n == 0 || !s.text[i])
            return false;
    }
    return true;
}

/* ---- keys ---- */

/* "key: value", where the key begins with a small letter and has no blank and no capital. */
static bool split_key(span line, span *out_key, span *out_value)
{
    size_t n = 0;
    while (n < line.size && line.text[n] != ':' && !is_blank(line.text[n]) &&
           !(line.text[n] >= 'A' && line.text[n] <= 'Z'))
        n++;
    if (!n || n == line.size || line.text[n] != ':' || line.text[0] < 'a' || line.text[0] > 'z')
        return false;
    if ((n + 1 < line.size && !is_blank(line.text[n + 1])) || !is_text(line))
        return false;
    *out_key = (span){line.text, n};
    *out_value = (span){line.text + n + 1, line.size - n - 1};
    while (out_value->size && is_blank(*out_value->text)) {
        out_value->text++;
        out_value->size--;
    }
    return true;
}

static stk_status take_key(reader *r, span key, span value)
{
    if (key.size == 3 && memcmp(key.text, "pkg", 3) == 0) {
        r->packages += !same(r->package, value);
        r->package = value;
        return STK_OK;
    }
    if (stk__names_find(&r->keys, key.text, key.size) == SIZE_MAX && r->keys.count == KEYS)
        return STK_OK;
    const size_t before = r->keys.count, index = stk__names_add(&r->keys, key.text, key.size);
    if (index == SIZE_MAX)
        return stk_error_set(r->in->err, STK_NOMEM, "out of memory for the keys of the file");
    if (index < before && !same(r->values[index], value))
        r->changed[index] = true;
    r->values[index] = value;
    return STK_OK;
}

/* ---- first pass: units, packages, whether there are variants ---- */

static stk_status take_unit_line(reader *r, span line)
{
    const span unit = next_word(&line);
    for (span word = next_word(&line); word.size; word = next_word(&line)) {
        const bool higher = word.size == 13 && memcmp(word.text, "better=higher", 13) == 0;
        const bool lower = word.size == 12 && memcmp(word.text, "better=lower", 12) == 0;
        if ((higher || lower) && unit.size && is_text(unit) &&
            stk__names_add(higher ? &r->better : &r->lower, unit.text, unit.size) == SIZE_MAX)
            return stk_error_set(r->in->err, STK_NOMEM, "out of memory for a unit");
        if (r->better.count + r->lower.count > STK__IMPORT_METRICS * 2)
            return bad_line(r, STK_LIMIT, "too many Unit lines", unit);
    }
    return STK_OK;
}

static stk_status take_units(reader *r, span line)
{
    next_word(&line);
    next_word(&line);
    for (;;) {
        next_word(&line);
        const span unit = next_word(&line);
        if (!unit.size)
            return STK_OK;
        if (unit.size > 100)
            return bad_line(r, STK_CORRUPT, "a unit of more than 100 bytes", unit);
        if (stk__names_find(&r->units, unit.text, unit.size) != SIZE_MAX)
            continue;
        if (r->units.count == STK__IMPORT_METRICS)
            return bad_line(r, STK_LIMIT, "more than 64 units", unit);
        if (stk__names_add(&r->units, unit.text, unit.size) == SIZE_MAX)
            return stk_error_set(r->in->err, STK_NOMEM, "out of memory for a unit");
    }
}

static bool contains(span s, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= s.size; i++) {
        if (memcmp(s.text + i, part, n) == 0)
            return true;
    }
    return false;
}

static stk_status scan(reader *r)
{
    span line, key, value;
    while (next_line(r, &line)) {
        span rest = line;
        const span word = next_word(&rest);
        if (is_result(line)) {
            if (!is_text(line))
                return bad_line(r, STK_CORRUPT, "wanted a line of UTF-8 without zero bytes", line);
            r->by_variant |= contains(word, "/variant=");
            STK_TRY(take_units(r, line));
        } else if (word.size == 4 && line.text == word.text && memcmp(word.text, "Unit", 4) == 0) {
            STK_TRY(take_unit_line(r, rest));
        } else if (split_key(line, &key, &value)) {
            STK_TRY(take_key(r, key, value));
        } else if (starts_with(line, "Benchmark")) {
            r->skipped++;
            if (!r->first_skipped)
                r->first_skipped = r->line;
        }
    }
    return STK_OK;
}

static stk_status add_metrics(reader *r)
{
    for (size_t i = 0; i < r->units.count; i++) {
        const char *written = r->units.items[i];
        stk__go_unit unit;
        stk__go_unit_parse(written, &unit);
        if (stk__names_find(&r->better, written, strlen(written)) != SIZE_MAX)
            unit.higher_is_better = true;
        else if (stk__names_find(&r->lower, written, strlen(written)) != SIZE_MAX)
            unit.higher_is_better = false;
        const size_t before = r->in->out->metric_count;
        STK_TRY(stk__import_metric(r->in, unit.name, unit.unit, unit.higher_is_better, &r->metrics[i]));
        if (r->metrics[i] < before)
            return stk_error_set(r->in->err, STK_INVALID, "two units of the file stand for the metric '%.80s'",
                                 unit.name);
    }
    const size_t wall = stk__result_metric(r->in->out, "wall");
    r->in->out->primary = wall == SIZE_MAX ? 0 : wall;
    return STK_OK;
}

/* ---- second pass: values ---- */

/* Name without /variant=..., and package: those that share it are compared. Empty when no name has such a part. */
static void group_key(const reader *r, span name, stk__text *out)
{
    for (size_t i = 0; r->by_variant && i < name.size; i++) {
        const span rest = {name.text + i, name.size - i};
        if (starts_with(rest, "/variant=")) {
            for (i += 9; i < name.size && name.text[i] != '/'; i++)
                ;
            if (i == name.size)
                break;
        }
        stk__text_putc(out, name.text[i]);
    }
    if (r->by_variant && r->packages > 1)
        stk__text_printf(out, " %.*s", (int)STK_MIN(r->package.size, 1000), r->package.text);
    stk__text_puts(out, "");
}

/* What a reader sees: without "Benchmark", and the plain name of a variant that we wrote. */
static void display_name(const reader *r, span name, stk__text *out)
{
    static const char ours[] = "BenchmarkStoker/variant=";
    const size_t head = strlen(ours);
    if (starts_with(name, ours) && name.size > head && !memchr(name.text + head, '/', name.size - head))
        stk__text_write(out, name.text + head, name.size - head);
    else
        stk__text_write(out, name.text + 9, name.size - 9);
    if (r->packages > 1 && r->package.size)
        stk__text_printf(out, " (%.*s)", (int)STK_MIN(r->package.size, 200), r->package.text);
}

static stk_status add_variant(reader *r, span name, const stk__text *key, size_t *out_index)
{
    stk__text shown = STK__TEXT_INIT, group = STK__TEXT_INIT, command = STK__TEXT_INIT;
    stk_status status = STK_OK;
    display_name(r, name, &shown);
    group_key(r, name, &group);
    stk__text_write(&command, name.text, name.size);
    const size_t index = shown.failed || group.failed || command.failed
                             ? SIZE_MAX
                             : stk__names_add(&r->groups, group.data, group.length);
    if (index == SIZE_MAX)
        status = stk__nomem(name.size, r->in->err);
    if (status == STK_OK)
        status = stk__import_variant(r->in, shown.data, command.data, index, out_index);
    if (status == STK_OK && stk__names_add(&r->variants, key->data, key->length) == SIZE_MAX)
        status = stk__nomem(key->length, r->in->err);
    stk__text_clear(&shown);
    stk__text_clear(&group);
    stk__text_clear(&command);
    return status;
}

static stk_status find_variant(reader *r, span name, size_t *out_index)
{
    stk__text key = STK__TEXT_INIT;
    stk_status status = STK_OK;
    stk__text_write(&key, name.text, name.size);
    if (r->package.size) {
        stk__text_putc(&key, ' ');
        stk__text_write(&key, r->package.text, r->package.size);
    }
    if (key.failed)
        status = stk__nomem(name.size, r->in->err);
    else if ((*out_index = stk__names_find(&r->variants, key.data, key.length)) == SIZE_MAX)
        status = add_variant(r, name, &key, out_index);
    stk__text_clear(&key);
    return status;
}

static stk_status read_result(reader *r, span line)
{
    double values[STK__IMPORT_METRICS];
    bool given[STK__IMPORT_METRICS] = {false};
    size_t variant;
    const span name = next_word(&line);
    for (size_t m = 0; m < r->in->out->metric_count; m++)
        values[m] = NAN;
    next_word(&line); /* iterations */
    for (span word = next_word(&line); word.size; word = next_word(&line)) {
        double x;
        stk__go_unit unit;
        const span unit_word = next_word(&line);
        if (!unit_word.size)
            return bad_line(r, STK_CORRUPT, "a value without its unit", word);
        const size_t i = stk__names_find(&r->units, unit_word.text, unit_word.size);
        stk__go_unit_parse(r->units.items[i], &unit);
        if (!read_number(word, &x) || (x < 0 && unit.not_negative))
            return bad_line(r, STK_CORRUPT, "wanted a finite number, not negative for times and sizes", word);
        if (!given[i])
            values[r->metrics[i]] = x / unit.divisor;
        given[i] = true;
    }
    STK_TRY(find_variant(r, name, &variant));
    return stk__import_run(r->in, variant, values, 0);
}

static stk_status read_results(reader *r, const char *text)
{
    span line, key, value;
    r->at = text;
    r->line = 0;
    r->package = (span){"", 0};
    while (next_line(r, &line)) {
        if (is_result(line))
            STK_TRY(read_result(r, line));
        else if (split_key(line, &key, &value) && key.size == 3 && memcmp(key.text, "pkg", 3) == 0)
            r->package = value;
    }
    return STK_OK;
}

static stk_status take_machine(reader *r)
{
    const size_t index = stk__names_find(&r->keys, "cpu", 3);
    if (index == SIZE_MAX || r->changed[index] || !r->values[index].size)
        return STK_OK;
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%.*s", (int)STK_MIN(r->values[index].size, 200), r->values[index].text);
    if (t.failed) {
        stk__text_clear(&t);
        return stk_error_set(r->in->err, STK_NOMEM, "out of memory for the machine's name");
    }
    r->in->out->machine = t.data;
    return STK_OK;
}

static stk_status add_notes(const reader *r)
{
    for (size_t i = 0; i < r->keys.count; i++) {
        if (r->changed[i])
            STK_TRY(stk__result_note(r->in->out, r->in->err,
                                     "the key '%.60s' has several values: runs of one name were taken together",
                                     r->keys.items[i]));
    }
    if (r->skipped)
        STK_TRY(
            stk__result_note(r->in->out, r->in->err,
                             "%zu lines begin with Benchmark but hold no result and were left out (the first: line %d)",
                             r->skipped, r->first_skipped));
    return STK_OK;
}

stk_status stk__read_go(stk__import *in, const char *text, size_t size)
{
    reader r = {.in = in, .at = text, .end = text + size, .package = {"", 0}};
    stk_status status = scan(&r);
    if (status == STK_OK && r.units.count)
        status = add_metrics(&r);
    if (status == STK_OK && r.units.count)
        status = read_results(&r, text);
    if (status == STK_OK)
        status = take_machine(&r);
    if (status == STK_OK)
        status = add_notes(&r);
    stk__names_clear(&r.units);
    stk__names_clear(&r.better);
    stk__names_clear(&r.lower);
    stk__names_clear(&r.variants);
    stk__names_clear(&r.groups);
    stk__names_clear(&r.keys);
    return status;
}
