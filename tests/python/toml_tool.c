/*
 * toml_tool [--many]: reads TOML from standard input and prints its tree as one line of JSON, for test_toml.py. An
 * error is an object with "error", "line" and "column", and exit status 1. With --many: documents with NUL between
 * them, a line for each.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "bench/toml.h"

/* As {"type", "value"} with the value as text, so that nothing is lost; tables are {"table": [[key, value], ...]}. */
static void put_scalar(stk__text *t, const stk__toml *node)
{
    static const char *const types[] = {"table", "array", "string", "integer", "float", "boolean", "date"};
    stk__text_printf(t, "{\"type\":\"%s\",\"value\":", types[node->kind]);
    if (node->kind == STK__TOML_INTEGER)
        stk__text_printf(t, "\"%" PRId64 "\"", node->integer);
    else if (node->kind == STK__TOML_FLOAT)
        stk__text_printf(t, "\"%.17g\"", node->number);
    else if (node->kind == STK__TOML_BOOLEAN)
        stk__text_puts(t, node->boolean ? "\"true\"" : "\"false\"");
    else
        stk__text_json(t, node->text, node->text_size);
    stk__text_putc(t, '}');
}

static void put_node(stk__text *t, const stk__toml *node)
{
    if (node->kind != STK__TOML_TABLE && node->kind != STK__TOML_ARRAY) {
        put_scalar(t, node);
        return;
    }
    stk__text_puts(t, node->kind == STK__TOML_TABLE ? "{\"table\":[" : "[");
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0)
            stk__text_putc(t, ',');
        if (node->kind == STK__TOML_TABLE) {
            stk__text_putc(t, '[');
            stk__text_json_str(t, node->items[i].key);
            stk__text_putc(t, ',');
        }
        put_node(t, &node->items[i]);
        if (node->kind == STK__TOML_TABLE)
            stk__text_putc(t, ']');
    }
    stk__text_puts(t, node->kind == STK__TOML_TABLE ? "]}" : "]");
}

static bool convert(const char *text, size_t size)
{
    stk_error err;
    stk__toml *root = NULL;
    stk__text t = STK__TEXT_INIT;
    stk_error_clear(&err);
    const stk_status status = stk__toml_parse(text, size, "standard input", &root, &err);
    if (status == STK_OK) {
        put_node(&t, root);
    } else {
        stk__text_puts(&t, "{\"error\":");
        stk__text_json_str(&t, err.message);
        stk__text_printf(&t, ",\"line\":%d,\"column\":%d}", err.line, err.column);
    }
    printf("%s\n", t.failed ? "out of memory" : t.data);
    stk__text_clear(&t);
    stk__toml_free(root);
    return status == STK_OK;
}

int main(int argc, char **argv)
{
    stk_error err;
    char *text;
    size_t size;
    stk_error_clear(&err);
    if (stk__read_file("-", 256u << 20, &text, &size, &err) != STK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    bool good = true;
    if (argc > 1 && strcmp(argv[1], "--many") == 0) {
        for (size_t at = 0; at <= size;) {
            const char *end = memchr(text + at, 0, size - at);
            const size_t length = end ? (size_t)(end - text) - at : size - at;
            good = convert(text + at, length) && good;
            at += length + 1;
        }
    } else {
        good = convert(text, size);
    }
    stk__free(text);
    return good ? 0 : 1;
}
