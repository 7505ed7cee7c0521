/* Fuzz target: reads any bytes as TOML; what it takes is a sound tree, and reads the same a second time. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "bench/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void walk(const stk__toml *node, int depth)
{
    const bool holds = node->kind == STK__TOML_TABLE || node->kind == STK__TOML_ARRAY;
    const bool text = node->kind == STK__TOML_STRING || node->kind == STK__TOML_DATE;
    check(depth <= STK__TOML_DEPTH && node->line >= 1 && node->column >= 1);
    check(holds || node->count == 0);
    check(text ? node->text && node->text[node->text_size] == 0 : !node->text);
    for (size_t i = 0; text && i < node->text_size;) {
        const size_t n = stk__utf8_length((const unsigned char *)node->text + i, node->text_size - i);
        check(n > 0);
        i += n;
    }
    for (size_t i = 0; i < node->count; i++) {
        const stk__toml *item = &node->items[i];
        if (node->kind == STK__TOML_TABLE)
            check(item->key && stk__toml_get(node, item->key) == item); /* no key is there twice */
        else
            check(!item->key);
        walk(item, depth + 1);
    }
}

static void compare(const stk__toml *a, const stk__toml *b)
{
    check(a->kind == b->kind && a->count == b->count && a->line == b->line && a->column == b->column);
    check(a->text_size == b->text_size && (!a->text || memcmp(a->text, b->text, a->text_size) == 0));
    check(a->integer == b->integer && a->boolean == b->boolean);
    check(a->number == b->number || (isnan(a->number) && isnan(b->number)));
    for (size_t i = 0; i < a->count; i++)
        compare(&a->items[i], &b->items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_error err;
    stk__toml *root = NULL, *again = NULL;
    stk_error_clear(&err);
    if (stk__toml_parse((const char *)data, size, "x.toml", &root, &err) != STK_OK) {
        check(!root && err.status == STK_INVALID && err.message[0] && err.line >= 1 && err.column >= 1);
        return 0;
    }
    walk(root, 0);
    check(stk__toml_parse((const char *)data, size, NULL, &again, NULL) == STK_OK);
    compare(root, again);
    stk__toml_free(root);
    stk__toml_free(again);
    return 0;
}
