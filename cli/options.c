/* Reads the command line by the option table of a command. */
#include <string.h>

#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

size_t cli_option_count(const cli_option *options)
{
    size_t n = 0;
    while (options && options[n].name)
        n++;
    return n;
}

void cli_option_label(const cli_option *option, stk__text *out)
{
    if (option->letter)
        stk__text_printf(out, "-%c, ", option->letter);
    stk__text_printf(out, "--%s", option->name);
    if (option->kind != CLI_FLAG)
        stk__text_printf(out, " %s", option->value);
}

static const cli_option *find_long(const cli_option *options, const char *name, size_t size)
{
    for (; options->name; options++) {
        if (strlen(options->name) == size && memcmp(options->name, name, size) == 0)
            return options;
    }
    return NULL;
}

static const cli_option *find_letter(const cli_option *options, char letter)
{
    for (; options->name; options++) {
        if (options->letter == letter)
            return options;
    }
    return NULL;
}

/* An option of another program that does the same: "-L", "--runs". */
static bool say_elsewhere(const cli_command *command, const char *dashes, const char *name)
{
    for (const cli_meaning *row = command->elsewhere; row && row->name; row++) {
        if (strncmp(row->name, dashes, strlen(dashes)) == 0 && strcmp(row->name + strlen(dashes), name) == 0) {
            cli_usage_error(command, "unknown option '%s'; here: %s", row->name, row->meaning);
            return true;
        }
    }
    return false;
}

static void unknown_option(const cli_command *command, const char *name)
{
    if (say_elsewhere(command, "--", name))
        return;
    const size_t count = cli_option_count(command->options);
    const char **names = stk__calloc(count + 1, sizeof *names);
    const char *nearest = NULL;
    if (names) {
        for (size_t i = 0; i < count; i++)
            names[i] = command->options[i].name;
        names[count] = "help";
        nearest = stk__nearest(name, names, count + 1);
    }
    if (nearest)
        cli_usage_error(command, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
    else
        cli_usage_error(command, "unknown option '--%s'", name);
    stk__free((void *)names);
}

static bool set_int(const cli_command *command, const cli_option *option, const char *value, int64_t *out)
{
    int64_t x;
    if (!stk__parse_int64(value, &x)) {
        cli_usage_error(command, "--%s wants a whole number, found '%s'", option->name, value);
        return false;
    }
    if (x < option->min || x > option->max) {
        if (option->max == INT64_MAX)
            cli_usage_error(command, "--%s wants at least %lld, found %lld", option->name, (long long)option->min,
                            (long long)x);
        else
            cli_usage_error(command, "--%s wants %lld to %lld, found %lld", option->name, (long long)option->min,
                            (long long)option->max, (long long)x);
        return false;
    }
    *out = x;
    return true;
}

static double double_at(const cli_option *option, int64_t value)
{
    return option->kind == CLI_PERCENT ? (double)value / 100 : (double)value;
}

/* "0.5"; as a percentage "5", "5%" or "2.5 %", stored as a fraction. */
static bool set_double(const cli_command *command, const cli_option *option, const char *value, double *out)
{
    const char *percent = option->kind == CLI_PERCENT ? "%" : "";
    char *end;
    const double x = stk__strtod(value, &end);
    const char *rest = end;
    if (*percent) {
        rest += strspn(rest, " ");
        rest += *rest == '%';
    }
    if (end != value && !*rest && x >= (double)option->min && x <= (double)option->max) {
        *out = *percent ? x / 100 : x;
        return true;
    }
    const char *what = *percent ? "a percentage" : "a number";
    const char *example = *percent && option->min <= 5 ? ", as in 5%" : "";
    if (option->max == INT64_MAX)
        cli_usage_error(command, "--%s wants %s of at least %lld%s%s, found '%s'", option->name, what,
                        (long long)option->min, percent, example, value);
    else
        cli_usage_error(command, "--%s wants %s from %lld%s to %lld%s%s, found '%s'", option->name, what,
                        (long long)option->min, percent, (long long)option->max, percent, example, value);
    return false;
}

static bool list_add(const cli_command *command, cli_list *list, const char *value)
{
    if (!stk__grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items)) {
        cli_usage_error(command, "out of memory");
        return false;
    }
    list->items[list->count++] = value;
    return true;
}

static bool set_option(const cli_command *command, const cli_option *option, const char *value, void *options)
{
    void *field = (char *)options + option->offset;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)field = true;
        return true;
    case CLI_INT:
        return set_int(command, option, value, field);
    case CLI_SIZE:
        if (!stk__parse_size(value, field) || *(uint64_t *)field == 0) {
            cli_usage_error(command, "--%s wants a size as in 64K, 256M or 1.5G, found '%s'", option->name, value);
            return false;
        }
        return true;
    case CLI_DURATION:
        if (!stk__parse_duration(value, field)) {
            cli_usage_error(command, "--%s wants a time as in 200us, 5ms or 1.5s, found '%s'", option->name, value);
            return false;
        }
        return true;
    case CLI_DOUBLE:
    case CLI_PERCENT:
        return set_double(command, option, value, field);
    case CLI_TEXT:
        *(const char **)field = value;
        return true;
    case CLI_LIST:
        return list_add(command, field, value);
    }
    return false;
}

typedef struct reader {
    const cli_command *command;
    char **argv;
    int argc, next;
    void *options;
    bool help;
} reader;

/* --name, --name=value, --name value */
static bool read_long(reader *r, const char *arg)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    const size_t size = equals ? (size_t)(equals - name) : strlen(name);
    if (size == 4 && memcmp(name, "help", 4) == 0)
        return r->help = true;
    const cli_option *option = find_long(r->command->options, name, size);
    if (!option) {
        char *copy = stk__strndup(name, size);
        unknown_option(r->command, copy ? copy : name);
        stk__free(copy);
        return false;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (option->kind == CLI_FLAG && value) {
        cli_usage_error(r->command, "--%s takes no value, found '%s'", option->name, value);
        return false;
    }
    if (option->kind != CLI_FLAG && !value) {
        if (r->next >= r->argc) {
            cli_usage_error(r->command, "--%s wants a value: --%s %s", option->name, option->name, option->value);
            return false;
        }
        value = r->argv[r->next++];
    }
    return set_option(r->command, option, value, r->options);
}

/* -q, -qh, -e TEXT, -eTEXT */
static bool read_letters(reader *r, const char *arg)
{
    for (const char *p = arg + 1; *p; p++) {
        if (*p == 'h') {
            r->help = true;
            continue;
        }
        const cli_option *option = find_letter(r->command->options, *p);
        if (!option) {
            if (!say_elsewhere(r->command, "-", (const char[]){*p, 0}))
                cli_usage_error(r->command, "unknown option '-%c' in '%s'", *p, arg);
            return false;
        }
        if (option->kind == CLI_FLAG) {
            set_option(r->command, option, NULL, r->options);
            continue;
        }
        if (!p[1] && r->next >= r->argc) {
            cli_usage_error(r->command, "-%c wants a value: -%c %s", *p, *p, option->value);
            return false;
        }
        return set_option(r->command, option, p[1] ? p + 1 : r->argv[r->next++], r->options);
    }
    return true;
}

bool cli_options_parse(const cli_command *command, int argc, char **argv, void *options, cli_arguments *out,
                       bool *out_help)
{
    for (const cli_option *o = command->options; o->name; o++) {
        void *field = (char *)options + o->offset;
        if (o->kind == CLI_INT)
            *(int64_t *)field = o->fallback;
        else if (o->kind == CLI_DOUBLE || o->kind == CLI_PERCENT)
            *(double *)field = double_at(o, o->fallback);
    }
    reader r = {.command = command, .argv = argv, .argc = argc, .options = options};
    *out = (cli_arguments){.items = argv};
    bool only_arguments = false;
    while (r.next < argc) {
        char *arg = argv[r.next++];
        if (only_arguments || arg[0] != '-' || !arg[1])
            out->items[out->count++] = arg; /* never passes r.next, so nothing unread is overwritten */
        else if (strcmp(arg, "--") == 0)
            only_arguments = true;
        else if (!(arg[1] == '-' ? read_long(&r, arg) : read_letters(&r, arg)))
            return false;
    }
    *out_help = r.help;
    if (!r.help && out->count > command->max_arguments) {
        cli_usage_error(command, "unexpected argument '%s'", out->items[command->max_arguments]);
        return false;
    }
    return true;
}

void cli_options_clear(const cli_command *command, void *options)
{
    for (const cli_option *o = command->options; o->name; o++) {
        if (o->kind == CLI_LIST) {
            cli_list *list = (cli_list *)((char *)options + o->offset);
            stk__free((void *)list->items);
            *list = (cli_list){0};
        }
    }
}
