/* An op as JSON: what the program prints, and what the Python package and the reference are made from. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/op.h"
#include <stoker/pipeline.h>

#include "base/banned.h"

static const char *const kind_names[] = {
    [STK_OPTION_INT] = "int",         [STK_OPTION_FLOAT] = "float",     [STK_OPTION_BOOL] = "bool",
    [STK_OPTION_STRING] = "string",   [STK_OPTION_ENUM] = "enum",       [STK_OPTION_SIZE] = "size",
    [STK_OPTION_STRINGS] = "strings", [STK_OPTION_NUMBERS] = "numbers", [STK_OPTION_FIELD] = "field",
    [STK_OPTION_FIELDS] = "fields",   [STK_OPTION_ARGS] = "args",
};

static const char *const role_names[] = {
    [STK_ROLE_SAMPLE] = "sample",     [STK_ROLE_SOURCE] = "source", [STK_ROLE_SINK] = "sink",
    [STK_ROLE_ORDER] = "order",       [STK_ROLE_BATCH] = "batch",   [STK_ROLE_CACHE] = "cache",
    [STK_ROLE_PREFETCH] = "prefetch", [STK_ROLE_ROWS] = "rows",
};

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = {
    {STK_OP_RANDOM, "random"},
    {STK_OP_DROPS, "drops"},
    {STK_OP_ELEMENTWISE, "elementwise"},
};

const char *stk_role_name(stk_role role)
{
    return (size_t)role < STK_COUNT(role_names) ? role_names[role] : NULL;
}

const char *stk_option_kind_name(stk_option_kind kind)
{
    return (size_t)kind < STK_COUNT(kind_names) ? kind_names[kind] : NULL;
}

static void put_str(stk__text *t, const char *text)
{
    if (text)
        stk__text_json_str(t, text);
    else
        stk__text_puts(t, "null");
}

static void put_member(stk__text *t, const char *name, const char *value)
{
    stk__text_printf(t, "\"%s\":", name);
    put_str(t, value);
    stk__text_putc(t, ',');
}

static void put_default(stk__text *t, const stk_option *o)
{
    if (o->required) {
        stk__text_puts(t, "null");
        return;
    }
    switch (o->kind) {
    case STK_OPTION_INT:
    case STK_OPTION_SIZE:
        stk__text_printf(t, "%" PRId64, o->fallback.integer);
        return;
    case STK_OPTION_FLOAT:
        stk__text_json_double(t, o->fallback.number);
        return;
    case STK_OPTION_BOOL:
        stk__text_puts(t, o->fallback.integer ? "true" : "false");
        return;
    case STK_OPTION_ENUM:
        put_str(t, o->choices[o->fallback.integer]);
        return;
    case STK_OPTION_STRING:
        put_str(t, o->fallback.text);
        return;
    default:
        stk__text_puts(t, "null");
    }
}

static void put_bound(stk__text *t, const stk_option *o, bool max)
{
    const double number = max ? o->max_number : o->min_number;
    const int64_t integer = max ? o->max : o->min;
    if (o->kind == STK_OPTION_FLOAT && number > -1e300 && number < 1e300)
        stk__text_json_double(t, number);
    else if ((o->kind == STK_OPTION_INT || o->kind == STK_OPTION_SIZE) && integer != (max ? INT64_MAX : INT64_MIN))
        stk__text_printf(t, "%" PRId64, integer);
    else
        stk__text_puts(t, "null");
}

static void put_option(stk__text *t, const stk_option *o)
{
    stk__text_putc(t, '{');
    put_member(t, "name", o->name);
    put_member(t, "kind", stk_option_kind_name(o->kind));
    stk__text_printf(t, "\"required\":%s,\"default\":", o->required ? "true" : "false");
    put_default(t, o);
    stk__text_puts(t, ",\"min\":");
    put_bound(t, o, false);
    stk__text_puts(t, ",\"max\":");
    put_bound(t, o, true);
    stk__text_puts(t, ",\"choices\":[");
    for (size_t i = 0; o->choices && o->choices[i]; i++) {
        stk__text_puts(t, i ? "," : "");
        stk__text_json_str(t, o->choices[i]);
    }
    stk__text_puts(t, "],\"help\":");
    stk__text_json_str(t, o->help ? o->help : "");
    stk__text_puts(t, ",\"named\":");
    put_str(t, o->named);
    stk__text_putc(t, '}');
}

/* Plug-ins may leave group, since and example out. */
static void put_op(stk__text *t, const stk_op *op)
{
    stk__text_putc(t, '{');
    put_member(t, "name", op->name);
    put_member(t, "group", op->group ? op->group : "other");
    put_member(t, "since", op->since);
    put_member(t, "summary", op->summary);
    put_member(t, "example", op->example);
    put_member(t, "role", stk_role_name(op->role));
    stk__text_puts(t, "\"flags\":[");
    bool first = true;
    for (size_t i = 0; i < STK_COUNT(flag_names); i++) {
        if (op->flags & flag_names[i].flag) {
            stk__text_printf(t, "%s\"%s\"", first ? "" : ",", flag_names[i].name);
            first = false;
        }
    }
    stk__text_puts(t, "],\"options\":[");
    for (const stk_option *o = op->options; o && o->name; o++) {
        stk__text_puts(t, o == op->options ? "" : ",");
        put_option(t, o);
    }
    stk__text_puts(t, "]}");
}

stk_status stk_op_json(const stk_op *op, char **out_text, stk_error *err)
{
    stk_error_clear(err);
    stk__text t = STK__TEXT_INIT;
    put_op(&t, op);
    if (t.failed) {
        const size_t size = t.length;
        stk__text_clear(&t);
        return stk__nomem(size, err);
    }
    *out_text = t.data;
    return STK_OK;
}
