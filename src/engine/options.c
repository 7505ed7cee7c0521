/* From arguments as written to the fields of an op's state, by its option table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/plan.h"

#include "base/banned.h"

static const char *arg_kind_name(stk_arg_kind kind)
{
    static const char *const names[] = {"an integer", "a number", "true or false", "a string", "a name", "a type", "a list"};
    return (size_t)kind < STK_COUNT(names) ? names[kind] : "something";
}

static stk_status option_error(stk_error *err, const stk_arg *arg, const stk_option *option, const char *wanted)
{
    stk__text t = STK__TEXT_INIT;
    stk__arg_print(&t, arg);
    stk_error_set(err, STK_INVALID, "%s must be %s, got %s %.100s", option->name, wanted, arg_kind_name(arg->kind),
                  t.data ? t.data : "");
    stk__text_clear(&t);
    return stk__at(err, arg->line, arg->column, STK_INVALID);
}

/* Memory that lives as long as the step: each block starts with a link to the one before. */
static void *step_memory(stk__step *step, size_t size)
{
    void **block = stk__calloc(1, sizeof(void *) * 2 + size);
    if (!block)
        return NULL;
    block[0] = step->memory;
    step->memory = block;
    return block + 2;
}

static size_t list_capacity(size_t count)
{
    size_t capacity = 4;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

/* The list with room for `wanted` items. Capacities are powers of two, so that adding one by one stays cheap. */
static void *step_list(stk__step *step, const void *items, size_t count, size_t wanted, size_t item_size)
{
    if (count && list_capacity(count) >= wanted)
        return (void *)(uintptr_t)items;
    void *all = step_memory(step, list_capacity(wanted) * item_size);
    if (all && count)
        memcpy(all, items, count * item_size);
    return all;
}

void stk__options_clear(stk__step *step)
{
    while (step->memory) {
        void **block = step->memory;
        step->memory = block[0];
        stk__free(block);
    }
    stk__free(step->state);
    step->state = NULL;
}

static stk_status bind_int(int64_t *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    for (int64_t i = 0; arg->kind == STK_ARG_NAME && o->choices && o->choices[i]; i++) {
        if (strcmp(o->choices[i], arg->text) == 0) {
            *out = -1 - i;
            return STK_OK;
        }
    }
    if (arg->kind != STK_ARG_INT)
        return option_error(err, arg, o, o->choices ? "an integer or a word that stands for one" : "an integer");
    if (arg->integer < o->min || arg->integer > o->max) {
        char wanted[96];
        if (o->max == INT64_MAX)
            snprintf(wanted, sizeof wanted, "at least %" PRId64, o->min);
        else
            snprintf(wanted, sizeof wanted, "in %" PRId64 "..%" PRId64, o->min, o->max);
        return option_error(err, arg, o, wanted);
    }
    *out = arg->integer;
    return STK_OK;
}

static stk_status bind_size(int64_t *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    uint64_t size = 0;
    if (arg->kind == STK_ARG_INT && arg->integer >= 0)
        size = (uint64_t)arg->integer;
    else if (arg->kind != STK_ARG_STRING || !stk__parse_size(arg->text, &size))
        return option_error(err, arg, o, "a size like 256M");
    if (size > INT64_MAX || (int64_t)size < o->min || (int64_t)size > o->max)
        return option_error(err, arg, o, "a size in range");
    *out = (int64_t)size;
    return STK_OK;
}

static stk_status bind_float(double *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    if (arg->kind != STK_ARG_INT && arg->kind != STK_ARG_FLOAT)
        return option_error(err, arg, o, "a number");
    if (!(arg->number >= o->min_number && arg->number <= o->max_number)) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "in %g..%g", o->min_number, o->max_number);
        return option_error(err, arg, o, wanted);
    }
    *out = arg->number;
    return STK_OK;
}

static stk_status bind_enum(int64_t *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    size_t count = 0;
    const bool is_word = arg->kind == STK_ARG_NAME || arg->kind == STK_ARG_STRING;
    for (; o->choices[count]; count++) {
        if (is_word && strcmp(o->choices[count], arg->text) == 0) {
            *out = (int64_t)count;
            return STK_OK;
        }
    }
    char wanted[256];
    stk__text t;
    stk__text_fixed(&t, wanted, sizeof wanted);
    stk__text_puts(&t, "one of");
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&t, "%s %s", i ? "," : "", o->choices[i]);
    return option_error(err, arg, o, wanted);
}

static bool is_word(const stk_arg *arg, stk_option_kind kind)
{
    const bool field = kind == STK_OPTION_FIELD || kind == STK_OPTION_FIELDS;
    return arg->kind == STK_ARG_STRING || (field && arg->kind == STK_ARG_NAME);
}

static stk_status bind_text(const char **out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    if (!is_word(arg, o->kind))
        return option_error(err, arg, o, o->kind == STK_OPTION_FIELD ? "the name of a field" : "a string");
    *out = arg->text;
    return STK_OK;
}

/* Appends to a list of strings: one string, or each item of a list. */
static stk_status bind_strings(stk__step *step, stk_strings *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    const stk_arg *items = arg->kind == STK_ARG_LIST ? arg->items : arg;
    const size_t count = arg->kind == STK_ARG_LIST ? arg->item_count : 1;
    const char **all = step_list(step, out->items, out->count, out->count + count, sizeof *all);
    if (!all)
        return stk__nomem((out->count + count) * sizeof *all, err);
    for (size_t i = 0; i < count; i++) {
        if (!is_word(&items[i], o->kind))
            return option_error(err, &items[i], o, o->kind == STK_OPTION_FIELDS ? "names of fields" : "strings");
        all[out->count + i] = items[i].text;
    }
    out->items = all;
    out->count += count;
    out->listed = out->listed || arg->kind == STK_ARG_LIST;
    return STK_OK;
}

static stk_status bind_numbers(stk__step *step, stk_numbers *out, const stk_option *o, const stk_arg *arg, stk_error *err)
{
    const stk_arg *items = arg->kind == STK_ARG_LIST ? arg->items : arg;
    const size_t count = arg->kind == STK_ARG_LIST ? arg->item_count : 1;
    double *all = step_memory(step, count * sizeof *all);
    if (!all)
        return stk__nomem(count * sizeof *all, err);
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind != STK_ARG_INT && items[i].kind != STK_ARG_FLOAT)
            return option_error(err, &items[i], o, "numbers");
        all[i] = items[i].number;
    }
    out->items = all;
    out->count = count;
    return STK_OK;
}

static stk_status bind_args(stk__step *step, stk_args *out, const stk_named_arg *arg, stk_error *err)
{
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].name, arg->name) == 0)
            return stk_error_set(err, STK_INVALID, "'%s' is given twice", arg->name);
    }
    stk_named_arg *all = step_list(step, out->items, out->count, out->count + 1, sizeof *all);
    if (!all)
        return stk__nomem((out->count + 1) * sizeof *all, err);
    all[out->count] = *arg;
    out->items = all;
    out->count++;
    return STK_OK;
}

static stk_status bind_one(stk__step *step, const stk_option *o, const stk_named_arg *arg, stk_error *err)
{
    char *at = (char *)step->state + o->offset;
    const stk_arg *value = &arg->value;
    switch (o->kind) {
    case STK_OPTION_INT:
        return bind_int((int64_t *)at, o, value, err);
    case STK_OPTION_SIZE:
        return bind_size((int64_t *)at, o, value, err);
    case STK_OPTION_FLOAT:
        return bind_float((double *)at, o, value, err);
    case STK_OPTION_BOOL:
        if (value->kind != STK_ARG_BOOL)
            return option_error(err, value, o, "true or false");
        *(bool *)at = value->boolean;
        return STK_OK;
    case STK_OPTION_ENUM:
        return bind_enum((int64_t *)at, o, value, err);
    case STK_OPTION_STRING:
    case STK_OPTION_FIELD:
        return bind_text((const char **)at, o, value, err);
    case STK_OPTION_STRINGS:
    case STK_OPTION_FIELDS:
        return bind_strings(step, (stk_strings *)at, o, value, err);
    case STK_OPTION_NUMBERS:
        return bind_numbers(step, (stk_numbers *)at, o, value, err);
    case STK_OPTION_ARGS:
        return bind_args(step, (stk_args *)at, arg, err);
    }
    return STK_OK;
}

static void set_fallback(stk__step *step, const stk_option *o)
{
    char *at = (char *)step->state + o->offset;
    switch (o->kind) {
    case STK_OPTION_INT:
    case STK_OPTION_SIZE:
    case STK_OPTION_ENUM:
        *(int64_t *)at = o->fallback.integer;
        break;
    case STK_OPTION_FLOAT:
        *(double *)at = o->fallback.number;
        break;
    case STK_OPTION_BOOL:
        *(bool *)at = o->fallback.integer != 0;
        break;
    case STK_OPTION_STRING:
    case STK_OPTION_FIELD:
        *(const char **)at = o->fallback.text;
        break;
    default:
        break; /* lists start empty: state is zeroed */
    }
}

#define MAX_OPTIONS 64

static stk_status unknown_option(const stk_op *op, const stk_named_arg *arg, stk_error *err)
{
    const char *names[MAX_OPTIONS];
    size_t count = 0;
    for (const stk_option *o = op->options; o && o->name && count < MAX_OPTIONS; o++)
        names[count++] = o->name;
    const char *nearest = stk__nearest(arg->name, names, count);
    if (nearest)
        return stk_error_set(err, STK_INVALID, "no option '%s'; did you mean '%s'?", arg->name, nearest);
    stk__text t = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&t, "%s%s", i ? ", " : "", names[i]);
    stk_error_set(err, STK_INVALID, "no option '%s'; it takes %s", arg->name, count ? t.data : "none");
    stk__text_clear(&t);
    return STK_INVALID;
}

static bool takes_rest(const stk_option *o)
{
    return o->kind == STK_OPTION_STRINGS || o->kind == STK_OPTION_FIELDS;
}

/* The option that an argument is for: by name, else the free one; by position in table order. */
static const stk_option *option_for(const stk_op *op, const stk_named_arg *arg, int position)
{
    const stk_option *rest = NULL;
    int i = 0;
    for (const stk_option *o = op->options; o && o->name; o++, i++) {
        if (arg->name && o->kind != STK_OPTION_ARGS && strcmp(o->name, arg->name) == 0)
            return o;
        if (arg->name && o->kind == STK_OPTION_ARGS)
            rest = o;
        if (!arg->name && o->kind != STK_OPTION_ARGS && (i == position || (takes_rest(o) && i < position)))
            return o;
    }
    return rest;
}

static stk_status check_required(const stk__step *step, const bool *given, stk_error *err)
{
    int i = 0;
    for (const stk_option *o = step->op->options; o && o->name; o++, i++) {
        if (o->required && !given[i])
            return stk_error_set(err, STK_INVALID, "%s is missing: %s", o->name, o->help);
    }
    return STK_OK;
}

/* Gives one argument to its option; `given` tells which options have one. */
static stk_status bind_arg(stk__step *step, const stk_named_arg *arg, int position, bool *given, stk_error *err)
{
    const stk_option *o = option_for(step->op, arg, position);
    if (!o && arg->name)
        return unknown_option(step->op, arg, err);
    if (!o)
        return stk_error_set(err, STK_INVALID, "too many arguments: number %d is not expected", position + 1);
    if (o->named && !arg->name)
        return stk_error_set(err, STK_INVALID, "write %s=...: %s", o->name, o->named);
    const size_t number = (size_t)(o - step->op->options);
    if (number < MAX_OPTIONS) {
        if (given[number] && !takes_rest(o) && o->kind != STK_OPTION_ARGS)
            return stk_error_set(err, STK_INVALID, "%s is given twice", o->name);
        given[number] = true;
    }
    return bind_one(step, o, arg, err);
}

stk_status stk__options_bind(stk__step *step, stk_error *err)
{
    bool given[MAX_OPTIONS] = {false};
    step->state = stk__calloc(1, STK_MAX(step->op->state_size, (size_t)1));
    if (!step->state)
        return stk__nomem(step->op->state_size, err);
    for (const stk_option *o = step->op->options; o && o->name; o++)
        set_fallback(step, o);
    for (size_t i = 0; i < step->arg_count; i++) {
        const stk_named_arg *arg = &step->args[i];
        STK_TRY(stk__at(err, arg->line, arg->column, bind_arg(step, arg, (int)i, given, err)));
    }
    return stk__at(err, step->line, step->column, check_required(step, given, err));
}

/* Whether an argument, the i-th as written, is one of the first `skip` options of its op. */
static bool is_skipped(const stk__step *step, size_t i, int skip)
{
    const stk_named_arg *arg = &step->args[i];
    const stk_option *o = option_for(step->op, arg, (int)i);
    return o && o - step->op->options < skip;
}

void stk__step_print(stk__text *t, const stk__step *step, int skip)
{
    bool first = true;
    stk__text_printf(t, "%s(", step->op->name);
    for (size_t i = 0; i < step->arg_count; i++) {
        if (is_skipped(step, i, skip))
            continue;
        if (!first)
            stk__text_puts(t, ", ");
        first = false;
        if (step->args[i].name)
            stk__text_printf(t, "%s=", step->args[i].name);
        stk__arg_print(t, &step->args[i].value);
    }
    stk__text_putc(t, ')');
}
