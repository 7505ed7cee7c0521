/* Shared parts of the readers: a table of names, limits, checked JSON values. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/import.h"

#include "base/banned.h"

/* ---- names ---- */

void stk__names_clear(stk__name_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        stk__free(t->items[i]);
    stk__free(t->items);
    stk__free(t->slots);
    *t = (stk__name_table){0};
}

/* FNV-1a; the address in the basis keeps a file from choosing names that collide. */
static uint64_t hash_name(const stk__name_table *t, const char *name, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)t;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* The slot of the name, or the free one where it would go. The table is never full. */
static size_t find_slot(const stk__name_table *t, const char *name, size_t size)
{
    size_t slot = (size_t)hash_name(t, name, size) & (t->slot_count - 1);
    while (t->slots[slot]) {
        const char *item = t->items[t->slots[slot] - 1];
        if (strncmp(item, name, size) == 0 && !item[size])
            break;
        slot = (slot + 1) & (t->slot_count - 1);
    }
    return slot;
}

size_t stk__names_find(const stk__name_table *t, const char *name, size_t size)
{
    if (!t->slot_count || memchr(name, 0, size))
        return SIZE_MAX;
    const size_t slot = find_slot(t, name, size);
    return t->slots[slot] ? t->slots[slot] - 1 : SIZE_MAX;
}

static bool grow_slots(stk__name_table *t)
{
    const size_t count = t->slot_count ? 2 * t->slot_count : 32;
    size_t *slots = stk__calloc(count, sizeof *slots);
    if (!slots)
        return false;
    stk__free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (size_t i = 0; i < t->count; i++)
        slots[find_slot(t, t->items[i], strlen(t->items[i]))] = i + 1;
    return true;
}

size_t stk__names_add(stk__name_table *t, const char *name, size_t size)
{
    const size_t there = stk__names_find(t, name, size);
    if (there != SIZE_MAX)
        return there;
    if (2 * (t->count + 1) > t->slot_count && !grow_slots(t))
        return SIZE_MAX;
    if (!stk__grow((void **)&t->items, &t->capacity, t->count + 1, sizeof *t->items))
        return SIZE_MAX;
    char *copy = stk__strndup(name, size);
    if (!copy)
        return SIZE_MAX;
    t->slots[find_slot(t, copy, strlen(copy))] = t->count + 1;
    t->items[t->count] = copy;
    return t->count++;
}

const char *stk__names_unique(stk__name_table *t, const char *name, const char *prefix, int digits)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, name);
    const size_t length = text.length;
    /* Doubling, then halving: the numbers of one name are used up from the least, so this finds the first free one. */
    size_t low = 1, high = 1, index = SIZE_MAX;
    while (!text.failed && stk__names_find(t, text.data, text.length) != SIZE_MAX) {
        low = high;
        high *= 2;
        text.length = length;
        stk__text_printf(&text, "%s%0*zu", prefix, digits, high);
    }
    while (!text.failed && high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        text.length = length;
        stk__text_printf(&text, "%s%0*zu", prefix, digits, middle);
        if (stk__names_find(t, text.data, text.length) != SIZE_MAX)
            low = middle;
        else
            high = middle;
    }
    if (high > 1) {
        text.length = length;
        stk__text_printf(&text, "%s%0*zu", prefix, digits, high);
    }
    if (!text.failed)
        index = stk__names_add(t, text.data, text.length);
    stk__text_clear(&text);
    return index == SIZE_MAX ? NULL : t->items[index];
}

/* ---- the result ---- */

stk_status stk__import_metric(stk__import *in, const char *name, const char *unit, bool higher_is_better,
                              size_t *out_index)
{
    const size_t there = stk__result_metric(in->out, name);
    if (there != SIZE_MAX) {
        const stk__metric *m = &in->out->metrics[there];
        if (strcmp(m->unit, unit) != 0 || m->higher_is_better != higher_is_better)
            return stk_error_set(in->err, STK_INVALID,
                                 "the metric '%.80s' is there in '%.40s' (%s is better) and in '%.40s' (%s is better)",
                                 name, m->unit, m->higher_is_better ? "higher" : "lower", unit,
                                 higher_is_better ? "higher" : "lower");
        *out_index = there;
        return STK_OK;
    }
    if (in->out->metric_count == STK__IMPORT_METRICS)
        return stk_error_set(in->err, STK_LIMIT, "more than %d metrics: '%.80s' is one too many", STK__IMPORT_METRICS,
                             name);
    return stk__result_add_metric(in->out, name, unit, higher_is_better, out_index, in->err);
}

stk_status stk__import_counter(stk__import *in, const char *name, const char *unit, bool higher_is_better,
                               size_t *out_index)
{
    const stk__measure m = stk__measure_find(name);
    if (m == STK__NAMED_MEASURES)
        return stk__import_metric(in, name, unit, higher_is_better, out_index);
    const stk__metric row = stk__measure_metric(m);
    return stk__import_metric(in, name, row.unit, row.higher_is_better, out_index);
}

stk_status stk__import_variant(stk__import *in, const char *name, const char *command, size_t group, size_t *out_index)
{
    if (in->out->variant_count == STK__IMPORT_VARIANTS)
        return stk_error_set(in->err, STK_LIMIT, "more than %d benchmarks", STK__IMPORT_VARIANTS);
    const char *unique = stk__names_unique(&in->names, *name ? name : "(no name)", " #", 1);
    if (!unique)
        return stk__nomem(strlen(name), in->err);
    return stk__result_add_variant(in->out, unique, command, group, out_index, in->err);
}

stk_status stk__import_run(stk__import *in, size_t variant, const double *values, int exit_code)
{
    in->cells += in->out->metric_count;
    if (in->cells > STK__IMPORT_CELLS)
        return stk_error_set(in->err, STK_LIMIT, "more than %d values of all metrics and runs", STK__IMPORT_CELLS);
    return stk__result_add_run(in->out, variant, values, exit_code, in->err);
}

stk_status stk__import_note_failures(stk__import *in)
{
    size_t failed = 0;
    for (size_t v = 0; v < in->out->variant_count; v++) {
        const stk__variant *x = &in->out->variants[v];
        for (size_t i = 0; x->exit_codes && i < x->runs; i++)
            failed += x->exit_codes[i] != 0;
    }
    return failed ? stk__result_note(in->out, in->err, "%zu runs ended with an exit code other than 0", failed)
                  : STK_OK;
}

static int put_piece(const char *piece, size_t size, void *text)
{
    stk__text_write(text, piece, size);
    return 0;
}

/* Texts as they are, {"value": x} as x, anything else as JSON. */
static void put_parameter(stk__text *t, const json_t *value)
{
    if (json_is_object(value) && json_object_get(value, "value"))
        value = json_object_get(value, "value");
    stk__text_puts(t, "");
    if (json_is_string(value))
        stk__text_puts(t, json_string_value(value));
    else if (json_is_number(value))
        stk__text_json_double(t, json_number_value(value));
    else if (json_dump_callback(value, put_piece, t, JSON_ENCODE_ANY | JSON_COMPACT) != 0)
        t->failed = true;
}

stk_status stk__import_parameters(stk__import *in, size_t variant, const json_t *object, const char *list)
{
    if (!object || json_is_null(object))
        return STK_OK;
    if (!json_is_object(object))
        return stk__import_bad(in, object, "an object", "%s[%zu].parameters", list, variant);
    if (json_object_size(object) > STK__IMPORT_PARAMETERS)
        return stk_error_set(in->err, STK_LIMIT, "%s[%zu].parameters has %zu members, wanted at most %d", list, variant,
                             json_object_size(object), STK__IMPORT_PARAMETERS);
    json_t *walk = (json_t *)(uintptr_t)object; /* iterators want one that is not const, and leave it alone */
    stk__text text = STK__TEXT_INIT;
    stk_status status = STK_OK;
    for (void *i = json_object_iter(walk); i && status == STK_OK; i = json_object_iter_next(walk, i)) {
        stk__text_reset(&text);
        put_parameter(&text, json_object_iter_value(i));
        status = text.failed ? stk__nomem(text.length, in->err)
                             : stk__result_add_parameter(in->out, variant, json_object_iter_key(i), text.data, in->err);
    }
    stk__text_clear(&text);
    return status;
}

/* ---- values ---- */

static void describe_json(const json_t *json, char *out, size_t size)
{
    if (!json)
        snprintf(out, size, "not there");
    else if (json_is_number(json))
        snprintf(out, size, "%.6g", json_number_value(json));
    else if (json_is_string(json))
        snprintf(out, size, "\"%.60s\"", json_string_value(json));
    else if (json_is_array(json))
        snprintf(out, size, "a list of %zu", json_array_size(json));
    else
        snprintf(out, size, "%s", json_is_object(json) ? "an object" : json_is_null(json) ? "null" : "true or false");
}

stk_status stk__import_bad(const stk__import *in, const json_t *found, const char *wanted, const char *place, ...)
{
    char where[200], what[100];
    va_list args;
    va_start(args, place);
    vsnprintf(where, sizeof where, place, args);
    va_end(args);
    describe_json(found, what, sizeof what);
    return stk_error_set(in->err, STK_CORRUPT, "%s is %s, wanted %s", where, what, wanted);
}

bool stk__import_value(const json_t *json, double *out)
{
    const double x = json_number_value(json);
    if (!json_is_number(json) || !isfinite(x) || x < 0)
        return false;
    *out = x;
    return true;
}

bool stk__import_count(const json_t *json, double most, double *out)
{
    const double x = json_number_value(json);
    if (!json_is_number(json) || !(x >= 0 && x <= most) || x != floor(x))
        return false;
    *out = x;
    return true;
}

bool stk__import_exit_code(const json_t *json, int *out)
{
    const double x = json_number_value(json);
    if (json_is_null(json)) {
        *out = -1;
        return true;
    }
    if (!json_is_number(json) || !(x >= INT32_MIN && x <= INT32_MAX) || x != floor(x))
        return false;
    *out = (int)x;
    return true;
}

const char *stk__import_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- time ---- */

/* `count` digits; -1 when they are none. */
static int digits_of(const char *text, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        n = 10 * n + (text[i] - '0');
    }
    return n;
}

/* Days since 1970 in the Gregorian calendar; the year begins in March, so that the leap day is its last. */
static int64_t days_since_epoch(int year, int month, int day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = y / 400, of_era = y % 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Seconds east of Greenwich. */
static bool read_zone(const char *text, int *out)
{
    if (strcmp(text, "Z") == 0) {
        *out = 0;
        return true;
    }
    if (strlen(text) != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':')
        return false;
    const int hours = digits_of(text + 1, 2), minutes = digits_of(text + 4, 2);
    *out = (text[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return hours >= 0 && minutes >= 0;
}

int64_t stk__import_time(const char *text)
{
    int zone;
    if (!text || strlen(text) < 20 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != ' ') ||
        text[13] != ':' || text[16] != ':')
        return 0;
    const int year = digits_of(text, 4), month = digits_of(text + 5, 2), day = digits_of(text + 8, 2);
    const int hour = digits_of(text + 11, 2), minute = digits_of(text + 14, 2), second = digits_of(text + 17, 2);
    const char *zone_text = text + 19;
    if (*zone_text == '.')
        zone_text += 1 + strspn(zone_text + 1, "0123456789");
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
        minute > 59 || second < 0 || second > 60 || !read_zone(zone_text, &zone))
        return 0;
    const int64_t t = days_since_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone;
    return t > 0 && t <= 253402300799 ? t : 0; /* the last second of the year 9999 */
}
