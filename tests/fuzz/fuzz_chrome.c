/* Fuzz target: reads any bytes as Chrome JSON; the fast parser and the tolerant one must agree, and the scanner must keep its word. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read_chrome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static bool same_text(const char *a, size_t a_size, const char *b, size_t b_size)
{
    return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

static void check_value(const stk__chrome_value *a, const stk__chrome_value *b)
{
    check(a->kind == b->kind);
    if (a->kind == STK__CHROME_NUMBER) {
        check(a->integer == b->integer && a->number.digits == b->number.digits && a->number.cut == b->number.cut);
        check(a->number.exponent == b->number.exponent && a->number.negative == b->number.negative);
    }
    if (a->kind >= STK__CHROME_NUMBER)
        check(same_text(a->text, a->size, b->text, b->size));
}

/* Parses the object at p both ways. What the fast one takes, the other one takes as well and without any note. */
static void check_object(stk__chrome *fast, stk__chrome *slow, const uint8_t *p)
{
    const uint8_t *stop;
    const uint8_t *end = stk__chrome_parse_fast(fast, p, fast->end);
    const stk__chrome_result result = stk__chrome_parse(slow, p, false, &stop);
    if (!end)
        return;
    const stk__chrome_event *a = &fast->event, *b = &slow->event;
    check(result == STK__CHROME_OK && stop == end && a->seen == b->seen && a->arg_count == b->arg_count);
    check(!slow->lexer.noted);
    for (int i = 0; i < STK__CHROME_FIELD_COUNT; i++) {
        if (a->seen >> i & 1 && i != STK__CHROME_ARGS && i != STK__CHROME_ID2)
            check_value(&a->fields[i], &b->fields[i]);
    }
    for (size_t i = 0; i < a->arg_count; i++) {
        check(same_text(a->args[i].key, a->args[i].key_size, b->args[i].key, b->args[i].key_size));
        check_value(&a->args[i].value, &b->args[i].value);
    }
}

static void set_window(stk__chrome *r, const uint8_t *data, size_t size)
{
    r->window = r->p = data;
    r->end = data + size;
    r->last = true;
}

static void compare_parsers(const uint8_t *data, size_t size)
{
    stk__builder *b;
    if (stk__builder_new(NULL, &b, NULL) != STK_OK)
        return;
    stk__builder_start_file(b, "fuzz", "chrome");
    stk__chrome *fast = stk__chrome_new(b, NULL, NULL), *slow = stk__chrome_new(b, NULL, NULL);
    uint8_t *copy = calloc(1, size + 8); /* exactly what an input promises */
    check(fast && slow && copy);
    memcpy(copy, data, size);
    memset(copy + size, size % 2 ? ']' : '7', 8);
    set_window(fast, copy, size);
    set_window(slow, copy, size);
    int objects = 0;
    for (size_t i = 0; i < size && objects < 16; i++) {
        if (copy[i] == '{') {
            check_object(fast, slow, copy + i);
            objects++;
        }
    }
    free(copy);
    stk__chrome_free(fast);
    stk__chrome_free(slow);
    stk__builder_free(b);
}

/* Every container is closed, keys and values alternate, and the end stays the end. */
static void scan(const uint8_t *data, size_t size)
{
    stk__builder *b;
    stk__input *in;
    if (stk__builder_new(NULL, &b, NULL) != STK_OK)
        return;
    stk__builder_start_file(b, "fuzz", "chrome");
    check(stk__input_open_memory(data, size, &in, NULL) == STK_OK);
    stk__json j;
    stk__json_init(&j, b, in);
    uint8_t stack[STK__JSON_DEPTH + 1] = {0}; /* 1: object, 2: object behind a key */
    unsigned depth = 0;
    stk__json_kind kind;
    while ((kind = stk__json_next(&j)) != STK__JSON_END) {
        if (kind == STK__JSON_KEY) {
            check(stack[depth] == 1);
            stack[depth] = 2;
            continue;
        }
        if (kind == STK__JSON_OBJECT_END || kind == STK__JSON_ARRAY_END) {
            check(depth > 0 && stack[depth] == (kind == STK__JSON_OBJECT_END));
            depth--;
        } else {
            check(stack[depth] != 1);
            stack[depth] = stack[depth] ? 1 : 0;
            if (kind == STK__JSON_OBJECT || kind == STK__JSON_ARRAY)
                stack[++depth] = kind == STK__JSON_OBJECT;
        }
        check(j.depth == depth);
    }
    check(depth == 0 && stk__json_next(&j) == STK__JSON_END && stk__json_status(&j, NULL) == STK_OK);
    stk__json_clear(&j);
    stk__input_close(in);
    stk__builder_free(b);
}

static void read_all(const uint8_t *data, size_t size)
{
    stk__builder *b;
    stk__input *in;
    stk__trace *t;
    stk_error err;
    stk_error_clear(&err);
    if (stk__builder_new(NULL, &b, &err) != STK_OK)
        return;
    check(stk__input_open_memory(data, size, &in, &err) == STK_OK);
    check(stk__trace_read(b, in, "chrome", &err) == STK_OK);
    stk__input_close(in);
    check(stk__builder_finish(b, &t, &err) == STK_OK);
    stk__trace_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__reader_chrome.detect(data, size, true);
    compare_parsers(data, size);
    scan(data, size);
    read_all(data, size);
    return 0;
}
