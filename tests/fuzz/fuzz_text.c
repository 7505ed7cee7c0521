/* Fuzz target: any bytes as pipeline text; what parses must print and parse again to the same, and so must its ops. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void require_same(const stk_arg *a, const stk_arg *b)
{
    require(a->kind == b->kind && a->boolean == b->boolean && a->integer == b->integer && a->number == b->number);
    require(a->has_dims == b->has_dims && a->item_count == b->item_count && a->mod_count == b->mod_count);
    require(!a->text == !b->text && (!a->text || strcmp(a->text, b->text) == 0));
    for (size_t i = 0; i < a->item_count; i++)
        require_same(&a->items[i], &b->items[i]);
    for (size_t i = 0; i < a->mod_count; i++) {
        require(strcmp(a->mods[i].name, b->mods[i].name) == 0);
        require_same(&a->mods[i].value, &b->mods[i].value);
    }
}

static void print_again(const stk__op_text *op)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s(", op->name);
    for (size_t i = 0; i < op->arg_count; i++) {
        stk__arg_print(&t, &op->args[i].value);
        stk__text_putc(&t, ',');
    }
    stk__text_putc(&t, ')');
    stk__pipeline_text again;
    require(stk__pipeline_parse(t.data, t.length, &again, NULL) == STK_OK);
    require(again.op_count == 1 && again.ops[0].arg_count == op->arg_count);
    for (size_t i = 0; i < op->arg_count; i++)
        require_same(&op->args[i].value, &again.ops[0].args[i].value);
    stk__pipeline_text_clear(&again);
    stk__text_clear(&t);
}

/* The bytes of an op, alone, are the same op. */
static void read_slice(const char *text, size_t size, const stk__op_text *op)
{
    require(op->begin < op->end && op->end <= size);
    stk__pipeline_text again;
    require(stk__pipeline_parse(text + op->begin, op->end - op->begin, &again, NULL) == STK_OK);
    require(again.op_count == 1 && again.ops[0].arg_count == op->arg_count && strcmp(again.ops[0].name, op->name) == 0);
    require(again.ops[0].begin == 0 && again.ops[0].end == op->end - op->begin);
    stk__pipeline_text_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__pipeline_text p;
    stk_error err;
    stk_error_clear(&err);
    if (stk__pipeline_parse((const char *)data, size, &p, &err) != STK_OK) {
        require(err.line >= 1 && err.column >= 1 && err.message[0]);
        return 0;
    }
    for (size_t i = 0; i < p.op_count; i++) {
        print_again(&p.ops[i]);
        read_slice((const char *)data, size, &p.ops[i]);
    }
    stk__pipeline_text_clear(&p);
    return 0;
}
