/* Reads lists of records, trusting nothing in them. */
#include "formats/record_list.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

/* No object of a list is longer. */
enum { OBJECT_MAX = 1 << 20 };

/* What is being read. */
typedef struct reading {
    const char *at, *end, *start;
    const char *name;
    json_t *numbers; /* an object: name of a file in its JSON form, to its number */
    stk__record_list *list;
    stk_error *err;
} reading;

static long long line_of(const reading *r, const char *at)
{
    long long line = 1;
    for (const char *p = r->start; p < at; p++)
        line += *p == '\n';
    return line;
}

static stk_status refuse(const reading *r, const char *at, const char *what)
{
    return stk_error_set(r->err, STK_INVALID, "'%.200s' is no quarantine list: line %lld: %.200s", r->name,
                         line_of(r, at), what);
}

/* A name as JSON has it: bytes that are not UTF-8 are marks. NULL: no memory. */
static json_t *json_name(const char *path)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_json_str(&t, path);
    json_t *name = t.failed ? NULL : json_loadb(t.data, t.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    stk__text_clear(&t);
    return name;
}

static bool number_files(reading *r, const stk__paths *paths)
{
    bool ok = (r->numbers = json_object()) != NULL;
    for (size_t i = 0; ok && i < paths->count; i++) {
        json_t *name = json_name(paths->items[i]);
        ok = name != NULL;
        if (ok && !json_object_get(r->numbers, json_string_value(name)))
            ok = json_object_set_new(r->numbers, json_string_value(name), json_integer((json_int_t)i)) == 0;
        json_decref(name);
    }
    return ok;
}

/* A whole number, be it written as 7.0: tables with gaps in them make that of 7. */
static bool whole_number(const json_t *value, int64_t *out)
{
    const double x = json_real_value(value);
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value) || fabs(x) > 9007199254740992.0 || x != floor(x))
        return false;
    *out = (int64_t)x;
    return true;
}

static stk_status take_object(reading *r, const json_t *object, const char *at)
{
    const json_t *file = json_object_get(object, "file"), *bytes = json_object_get(object, "bytes");
    int64_t record, size = 0;
    if (!json_is_object(object))
        return refuse(r, at, "found a value that is no object");
    if (!json_is_string(file))
        return refuse(r, at, "found an object whose \"file\" is not there or no text");
    if (!whole_number(json_object_get(object, "record"), &record))
        return refuse(r, at, "found an object whose \"record\" is not there or no whole number");
    if (bytes && !json_is_null(bytes) && !whole_number(bytes, &size))
        return refuse(r, at, "found an object whose \"bytes\" is no whole number");
    const json_t *number = json_object_get(r->numbers, json_string_value(file));
    r->list->known = r->list->known || number;
    if (!number || size < 0)
        return STK_OK;
    if (!stk__grow((void **)&r->list->items, &r->list->capacity, r->list->count + 1, sizeof *r->list->items))
        return stk__nomem(sizeof *r->list->items, r->err);
    r->list->items[r->list->count++] = (stk__listed_record){(int32_t)json_integer_value(number), record};
    return STK_OK;
}

/* One object, and steps behind it. */
static stk_status read_object(reading *r)
{
    const size_t left = (size_t)(r->end - r->at), size = STK_MIN(left, (size_t)OBJECT_MAX);
    json_error_t error;
    json_t *object = json_loadb(r->at, size, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory)
        return stk__nomem(size, r->err);
    if (!object && size < left && json_error_code(&error) == json_error_premature_end_of_input)
        return refuse(r, r->at, "found an object of more than 1 MiB");
    if (!object) {
        char what[sizeof error.text + 32];
        snprintf(what, sizeof what, "is no JSON: %s", error.text);
        return refuse(r, r->at + STK_MIN((size_t)STK_MAX(error.position, 0), size), what);
    }
    const stk_status status = take_object(r, object, r->at);
    json_decref(object);
    r->at += error.position;
    return status;
}

static char skip_space(reading *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
    return r->at < r->end ? *r->at : 0;
}

/* The items of an array, whose bracket is at hand; one by one, so that a long one takes no more memory than a list of lines. */
static stk_status read_array(reading *r)
{
    r->at++;
    if (skip_space(r) == ']') {
        r->at++;
        return STK_OK;
    }
    for (;;) {
        if (skip_space(r) != '{')
            return refuse(r, r->at, "an array ends or goes on without an object");
        STK_TRY(read_object(r));
        const char next = skip_space(r);
        if (next != ',' && next != ']')
            return refuse(r, r->at, "is no JSON: ',' or ']' is missing after an object");
        r->at++;
        if (next == ']')
            return STK_OK;
    }
}

static stk_status read_all(reading *r)
{
    for (;;) {
        const char next = skip_space(r);
        if (r->at == r->end)
            return STK_OK;
        if (next == '[')
            STK_TRY(read_array(r));
        else if (next == '{')
            STK_TRY(read_object(r));
        else
            return refuse(r, r->at, "is no JSON object");
    }
}

stk_status stk__record_list_parse(const char *text, size_t size, const char *name, const stk__paths *paths,
                                  stk__record_list *out, stk_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* Windows begins texts with it */
    reading r = {.at = text, .end = text + size, .start = text, .name = name, .list = out, .err = err};
    if (size >= 3 && memcmp(text, mark, 3) == 0)
        r.at += 3;
    const stk_status status = number_files(&r, paths) ? read_all(&r) : stk__nomem(paths->count * 64, err);
    json_decref(r.numbers);
    return status;
}

void stk__record_list_clear(stk__record_list *list)
{
    stk__free(list->items);
    *list = (stk__record_list){0};
}
