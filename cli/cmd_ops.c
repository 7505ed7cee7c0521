/* stoker ops: every op with its options, from the registry. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli.h"

#include "base/banned.h"

typedef struct ops_options {
    cli_list plugins;
    bool json;
} ops_options;

static const struct {
    uint32_t flag;
    const char *meaning;
} flag_meanings[] = {
    {STK_OP_RANDOM, "draws random numbers"},
    {STK_OP_DROPS, "may leave samples out"},
    {STK_OP_ELEMENTWISE, "may stand after batch"},
};

static const stk_option no_options[] = {STK_OPTION_END};

/* Plug-ins may leave these out. */
static const char *group_of(const stk_op *op)
{
    return op->group ? op->group : "other";
}

static const char *since_of(const stk_op *op)
{
    return op->since ? op->since : "ever";
}

static const stk_option *options_of(const stk_op *op)
{
    return op->options ? op->options : no_options;
}

/* ---- defaults and ranges ---- */

static void put_size(stk__text *t, int64_t bytes)
{
    static const char units[] = "KMGT";
    int u = -1;
    while (bytes >= 1024 && bytes % 1024 == 0 && u < 3) {
        bytes /= 1024;
        u++;
    }
    stk__text_printf(t, "%" PRId64, bytes);
    if (u >= 0)
        stk__text_putc(t, units[u]);
}

/* As it would be written in a pipeline; false when the option has no default. */
static bool put_default(stk__text *t, const stk_option *o)
{
    if (o->required)
        return false;
    switch (o->kind) {
    case STK_OPTION_INT:
        stk__text_printf(t, "%" PRId64, o->fallback.integer);
        return true;
    case STK_OPTION_SIZE:
        put_size(t, o->fallback.integer);
        return true;
    case STK_OPTION_FLOAT:
        stk__text_json_double(t, o->fallback.number);
        return true;
    case STK_OPTION_BOOL:
        stk__text_puts(t, o->fallback.integer ? "true" : "false");
        return true;
    case STK_OPTION_ENUM:
        stk__text_puts(t, o->choices[o->fallback.integer]);
        return true;
    case STK_OPTION_STRING:
        if (!o->fallback.text)
            return false;
        stk__text_quote(t, o->fallback.text);
        return true;
    default:
        return false;
    }
}

static bool has_min(const stk_option *o)
{
    return o->kind == STK_OPTION_FLOAT ? o->min_number > -1e300 : o->min != INT64_MIN;
}

static bool has_max(const stk_option *o)
{
    return o->kind == STK_OPTION_FLOAT ? o->max_number < 1e300 : o->max != INT64_MAX;
}

static bool has_range(const stk_option *o)
{
    return o->kind == STK_OPTION_INT || o->kind == STK_OPTION_SIZE || o->kind == STK_OPTION_FLOAT;
}

static void put_bound(stk__text *t, const stk_option *o, bool max)
{
    if (o->kind == STK_OPTION_FLOAT)
        stk__text_json_double(t, max ? o->max_number : o->min_number);
    else if (o->kind == STK_OPTION_SIZE)
        put_size(t, max ? o->max : o->min);
    else
        stk__text_printf(t, "%" PRId64, max ? o->max : o->min);
}

/* "int, 1 to 64" */
static void put_kind(stk__text *t, const stk_option *o)
{
    stk__text_puts(t, stk_option_kind_name(o->kind));
    if (o->kind == STK_OPTION_ENUM) {
        stk__text_puts(t, ": ");
        for (size_t i = 0; o->choices[i]; i++)
            stk__text_printf(t, "%s%s", i ? " | " : "", o->choices[i]);
    }
    if (!has_range(o) || (!has_min(o) && !has_max(o)))
        return;
    stk__text_puts(t, has_min(o) ? ", " : ", at most ");
    if (has_min(o))
        put_bound(t, o, false);
    if (has_min(o))
        stk__text_puts(t, has_max(o) ? " to " : " or more");
    if (has_max(o))
        put_bound(t, o, true);
    for (size_t i = 0; o->choices && o->choices[i]; i++)
        stk__text_printf(t, " or %s", o->choices[i]);
}

/* ---- for people ---- */

static void put_signature(stk__text *t, const stk_op *op)
{
    stk__text_printf(t, "%s(", op->name);
    for (const stk_option *o = options_of(op); o->name; o++) {
        if (o != op->options)
            stk__text_puts(t, ", ");
        if (o->kind == STK_OPTION_ARGS) {
            stk__text_puts(t, "NAME=VALUE...");
            continue;
        }
        const bool many = o->kind == STK_OPTION_STRINGS || o->kind == STK_OPTION_FIELDS;
        char buffer[160];
        stk__text value;
        stk__text_fixed(&value, buffer, sizeof buffer);
        if (o->required)
            stk__text_printf(t, "%s%s", o->name, many ? "..." : "");
        else if (put_default(&value, o))
            stk__text_printf(t, "%s=%s", o->name, buffer);
        else
            stk__text_printf(t, "[%s]", o->name);
    }
    stk__text_putc(t, ')');
}

static void put_option(stk__text *t, const stk_option *o)
{
    stk__text_printf(t, "\n  %s (", o->kind == STK_OPTION_ARGS ? "NAME=VALUE..." : o->name);
    put_kind(t, o);
    char buffer[160];
    stk__text value;
    stk__text_fixed(&value, buffer, sizeof buffer);
    if (o->required)
        stk__text_puts(t, "; required)\n");
    else if (put_default(&value, o))
        stk__text_printf(t, "; default %s)\n", buffer);
    else
        stk__text_puts(t, "; optional)\n");
    stk__text_puts(t, "      ");
    cli_wrap(t, o->help ? o->help : "", 6, 6);
}

static void put_op(stk__text *t, const stk_op *op)
{
    stk__text signature = STK__TEXT_INIT;
    put_signature(&signature, op);
    t->failed = t->failed || signature.failed;
    cli_wrap(t, signature.data ? signature.data : op->name, 0, strlen(op->name) + 1);
    stk__text_clear(&signature);
    stk__text_putc(t, '\n');
    cli_wrap(t, op->summary, 0, 0);
    stk__text_printf(t, "Group %s, role %s, since %s.", group_of(op), stk_role_name(op->role), since_of(op));
    for (size_t i = 0; i < STK_COUNT(flag_meanings); i++) {
        if (op->flags & flag_meanings[i].flag)
            stk__text_printf(t, " It %s.", flag_meanings[i].meaning);
    }
    stk__text_putc(t, '\n');
    if (options_of(op)->name)
        stk__text_puts(t, "\nOptions:");
    for (const stk_option *o = options_of(op); o->name; o++)
        put_option(t, o);
    if (op->example)
        stk__text_printf(t, "\nExample:\n  %s\n", op->example);
}

static bool group_seen_before(const stk_registry *registry, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(group_of(stk_registry_op(registry, j)), group_of(stk_registry_op(registry, i))) == 0)
            return true;
    }
    return false;
}

static void put_group(stk__text *t, const stk_registry *registry, const char *group)
{
    enum { COLUMN = 20 };
    stk__text_printf(t, "%s%s:\n", t->length ? "\n" : "", group);
    for (size_t i = 0; i < stk_registry_count(registry); i++) {
        const stk_op *op = stk_registry_op(registry, i);
        if (strcmp(group_of(op), group) != 0)
            continue;
        stk__text_printf(t, "  %-*s ", COLUMN - 3, op->name);
        cli_wrap(t, op->summary, STK_MAX((size_t)COLUMN, strlen(op->name) + 3), COLUMN);
    }
}

/* Groups stand in the order in which data passes through them; those that are not known here come in between. */
static const char *const group_order[] = {"source", "order", "samples", "fields", "", "batch", "cache", "sink"};

static size_t group_rank(const char *group)
{
    size_t other = 0;
    for (size_t i = 0; i < STK_COUNT(group_order); i++) {
        if (strcmp(group_order[i], group) == 0)
            return i;
        if (!*group_order[i])
            other = i;
    }
    return other;
}

static void put_table(stk__text *t, const stk_registry *registry)
{
    for (size_t rank = 0; rank < STK_COUNT(group_order); rank++) {
        for (size_t i = 0; i < stk_registry_count(registry); i++) {
            const char *group = group_of(stk_registry_op(registry, i));
            if (group_rank(group) == rank && !group_seen_before(registry, i))
                put_group(t, registry, group);
        }
    }
}

/* ---- for programs ---- */

static void json_op(stk__text *t, const stk_op *op)
{
    char *json = NULL;
    if (stk_op_json(op, &json, NULL) == STK_OK)
        stk__text_puts(t, json);
    else
        t->failed = true;
    stk_free(json);
}

static void json_table(stk__text *t, const stk_registry *registry)
{
    stk__text_puts(t, "[");
    for (size_t i = 0; i < stk_registry_count(registry); i++) {
        stk__text_puts(t, i ? ",\n " : "");
        json_op(t, stk_registry_op(registry, i));
    }
    stk__text_puts(t, "]\n");
}

/* ---- the command ---- */

static int ops_one(const ops_options *o, const stk_registry *registry, const char *name)
{
    const stk_op *op = stk_registry_find(registry, name);
    if (!op) {
        const char *nearest = stk_registry_nearest(registry, name);
        if (nearest)
            cli_say("stoker: unknown op '%s'; did you mean '%s'?", name, nearest);
        else
            cli_say("stoker: unknown op '%s'; 'stoker ops' lists them all", name);
        return CLI_USAGE;
    }
    stk__text text = STK__TEXT_INIT;
    if (o->json) {
        json_op(&text, op);
        stk__text_putc(&text, '\n');
    } else {
        put_op(&text, op);
    }
    cli_out_text(&text);
    return CLI_OK;
}

static int ops_run(const void *options, const cli_arguments *arguments)
{
    const ops_options *o = options;
    stk_registry *registry = NULL;
    int code = cli_registry_open(&o->plugins, &registry);
    if (code != CLI_OK)
        return code;
    if (arguments->count) {
        code = ops_one(o, registry, arguments->items[0]);
    } else {
        stk__text text = STK__TEXT_INIT;
        if (o->json)
            json_table(&text, registry);
        else
            put_table(&text, registry);
        cli_out_text(&text);
    }
    stk_registry_free(registry);
    return code;
}

static const cli_option ops_options_table[] = {
    CLI_ROW(ops_options, plugins, cli_list, CLI_LIST, .name = "plugin", .value = "FILE", .complete = CLI_FILES,
            .group = "Pipeline", .help = "load more ops from a shared object; may be given again"),
    CLI_ROW(ops_options, json, bool, CLI_FLAG, .name = "json", .group = "Output",
            .help = "JSON: an array of all ops, or one object for NAME"),
    CLI_OPTION_END,
};

static const cli_example ops_examples[] = {
    {"every op in one line each", "stoker ops"},
    {"one op with its options", "stoker ops shuffle"},
    {NULL, NULL},
};

const cli_command cli_command_ops = {
    .name = "ops",
    .summary = "list the ops that pipelines are made of",
    .usage = "[OPTION]... [NAME]",
    .about = "Lists every op by group, or tells all about the op NAME: its options with types, ranges and defaults, "
             "and an example.",
    .options = ops_options_table,
    .examples = ops_examples,
    .complete = CLI_OPS,
    .options_size = sizeof(ops_options),
    .max_arguments = 1,
    .run = ops_run,
};
