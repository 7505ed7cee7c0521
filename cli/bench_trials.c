/* From what stands on the command line to the trials of an experiment. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench.h"
#include "bench/command.h"
#include "bench/scan.h"

#include "base/banned.h"

enum { MOST_PARAMS = 16, MOST_TRIALS = 1000 };

static int no_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

static void trial_clear(stk__trial *t)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        stk__free(t->parameters[i].name);
        stk__free(t->parameters[i].value);
    }
    stk__free(t->parameters);
    stk__free(t->name);
    stk__free(t->command);
    stk__free(t->directory);
    stk__free(t->setup);
    stk__free(t->prepare);
    stk__free(t->conclude);
    stk__free(t->cleanup);
}

void bench_trials_clear(bench_trials *t)
{
    for (size_t i = 0; i < t->count; i++)
        trial_clear(&t->items[i]);
    stk__free(t->items);
    *t = (bench_trials){0};
}

/* ---- pipelines ---- */

static bool ends_in_stoker(const char *text, size_t size)
{
    static const char suffix[] = ".stoker";
    const size_t n = sizeof suffix - 1;
    return size > n && memcmp(text + size - n, suffix, n) == 0;
}

/* "a.stoker --threads 2", or a file of that whole name. */
static bool is_pipeline(const char *command)
{
    struct stat st;
    return ends_in_stoker(command, strcspn(command, " \t")) ||
           (ends_in_stoker(command, strlen(command)) && stat(command, &st) == 0);
}

/* This very program runs it, so that both sides are measured by the same build. */
static char *pipeline_command(const char *command, bool digest)
{
    char self[4096];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    stk__text t = STK__TEXT_INIT;
    struct stat st;
    if (size > 0)
        self[size] = 0;
    stk__command_quote(&t, size > 0 ? self : "stoker");
    stk__text_puts(&t, " run ");
    if (stat(command, &st) == 0)
        stk__command_quote(&t, command);
    else
        stk__text_puts(&t, command);
    stk__text_puts(&t, digest ? " --json --quiet --digest" : " --json --quiet");
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

/* ---- parameters ---- */

typedef struct param {
    char *name;
    stk__scan scan;
    bool used;
} param;

typedef struct params {
    param items[MOST_PARAMS];
    size_t count, combinations;
} params;

static void params_clear(params *p)
{
    for (size_t i = 0; i < p->count; i++) {
        stk__scan_clear(&p->items[i].scan);
        stk__free(p->items[i].name);
    }
}

/* "threads=1,2,4", "threads=1..4" */
static int param_read(param *p, const char *text)
{
    stk_error err = {0};
    const size_t size = strcspn(text, "=");
    if (!text[size] && *text && !strpbrk(text, " .,:"))
        return cli_usage_error(&cli_command_bench,
                               "--param wants NAME=VALUES in one word, as in %s=1,2,4 or %s=1..8, found '%s'", text,
                               text, text);
    if (!size || !text[size] || !text[size + 1])
        return cli_usage_error(&cli_command_bench, "--param wants NAME=VALUES, as in n=1,2,4 or n=1..8, found '%s'",
                               text);
    p->name = stk__strndup(text, size);
    if (!p->name)
        return no_memory();
    if (strpbrk(p->name, " \t\n{}"))
        return cli_usage_error(&cli_command_bench, "--param wants a name without blanks and braces, found '%s'",
                               p->name);
    if (stk__scan_read(text + size + 1, &p->scan, &err) != STK_OK)
        return cli_usage_error(&cli_command_bench, "--param %s: %s", p->name, err.message);
    if (p->scan.doubtful)
        cli_say("stoker: --param %s: '%s' is one value; a range is written 1..8, or 1:8:2 with a step", p->name,
                p->scan.values[p->scan.doubtful - 1]);
    return CLI_OK;
}

static int params_read(params *p, const cli_list *list)
{
    p->combinations = 1;
    if (list->count > MOST_PARAMS)
        return cli_usage_error(&cli_command_bench, "at most %d parameters, found %zu", MOST_PARAMS, list->count);
    for (size_t i = 0; i < list->count; i++) {
        const int code = param_read(&p->items[p->count++], list->items[i]);
        if (code != CLI_OK)
            return code;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(p->items[k].name, p->items[i].name) == 0)
                return cli_usage_error(&cli_command_bench,
                                       "--param %s is given twice; give its values in one, as in %s=1,2",
                                       p->items[i].name, p->items[i].name);
        }
        p->combinations *= p->items[i].scan.count;
        if (p->combinations > MOST_TRIALS)
            return cli_usage_error(&cli_command_bench, "%zu combinations of parameters, wanted at most %d",
                                   p->combinations, MOST_TRIALS);
    }
    return CLI_OK;
}

/* The value of parameter i in a combination: the last parameter runs fastest. */
static const char *param_value(const params *p, size_t combination, size_t i)
{
    for (size_t k = p->count; k-- > i + 1;)
        combination /= p->items[k].scan.count;
    return p->items[i].scan.values[combination % p->items[i].scan.count];
}

/* The parameter whose "{name}" stands at `text`, or p->count. */
static size_t param_at(const params *p, const char *text)
{
    for (size_t i = 0; text[0] == '{' && i < p->count; i++) {
        const size_t size = strlen(p->items[i].name);
        if (strncmp(text + 1, p->items[i].name, size) == 0 && text[size + 1] == '}')
            return i;
    }
    return p->count;
}

/* Fills in "{threads}". NULL stays NULL; false when memory is out. */
static bool fill_in(params *p, size_t combination, const char *text, char **out)
{
    *out = NULL;
    if (!text)
        return true;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "");
    while (*text) {
        const size_t i = param_at(p, text);
        if (i < p->count) {
            p->items[i].used = true;
            stk__text_puts(&t, param_value(p, combination, i));
            text += strlen(p->items[i].name) + 2;
        } else {
            stk__text_putc(&t, *text++);
        }
    }
    if (t.failed) {
        stk__text_clear(&t);
        return false;
    }
    *out = t.data;
    return true;
}

/* The length of the name in "{name}" at `text`, or 0: no such thing, or a statement of awk. */
static size_t placeholder(const char *text)
{
    static const char *const awk[] = {"print", "next", "exit", "getline", "delete"};
    const size_t size = strspn(text + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (text[size + 1] != '}' || strspn(text + 1, "0123456789-") >= size)
        return 0;
    for (size_t i = 0; i < STK_COUNT(awk); i++) {
        if (strlen(awk[i]) == size && memcmp(awk[i], text + 1, size) == 0)
            return 0;
    }
    return size;
}

/* Said, not refused: braces mean something to shells and other languages, too. */
static void warn_about_braces(const params *p, const char *text)
{
    const char *names[MOST_PARAMS];
    for (size_t i = 0; i < p->count; i++)
        names[i] = p->items[i].name;
    for (const char *at = text; p->count && at && (at = strchr(at, '{')); at++) {
        const size_t size = at > text && at[-1] == '$' ? 0 : placeholder(at);
        if (!size || param_at(p, at) < p->count)
            continue;
        char *name = stk__strndup(at + 1, size);
        const char *nearest = name ? stk__nearest(name, names, p->count) : NULL;
        cli_say("stoker: {%.*s} in '%.200s' is no --param and stays as it is%s%s%s", (int)STK_MIN(size, (size_t)60),
                at + 1, text, nearest ? "; did you mean {" : "", nearest ? nearest : "", nearest ? "}?" : "");
        stk__free(name);
    }
}

/* ---- trials ---- */

/* What one call of bench_trials_make works on. */
typedef struct maker {
    bench_trials *trials;
    params params;
    const bench_design_options *design;
    char *const *commands;
    size_t count;
    char **names;
    bool named; /* by --name */
} maker;

static bool trial_parameters(stk__trial *t, const params *p, size_t combination)
{
    t->parameters = stk__calloc(p->count ? p->count : 1, sizeof *t->parameters);
    if (!t->parameters)
        return false;
    for (size_t i = 0; i < p->count; i++) {
        t->parameters[i] = (stk__parameter){stk__strdup(p->items[i].name), stk__strdup(param_value(p, combination, i))};
        t->parameter_count++;
        if (!t->parameters[i].name || !t->parameters[i].value)
            return false;
    }
    return true;
}

/* "stored", "stored threads=2", "threads=2" (one command), "app @ 1a2b3c4" */
static char *trial_name(const maker *m, size_t command, size_t combination, const bench_place *place)
{
    stk__text t = STK__TEXT_INIT;
    const bool alone = m->count == 1 && m->params.count && !place && !m->named;
    if (!alone)
        stk__text_puts(&t, m->names[command]);
    for (size_t i = 0; i < m->params.count; i++)
        stk__text_printf(&t, "%s%s=%s", t.length ? " " : "", m->params.items[i].name,
                         param_value(&m->params, combination, i));
    if (place)
        stk__text_printf(&t, " @ %s", place->label);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

/* One command, or one parameter at a time: everything against the first. Else commands are compared per combination. */
static size_t trial_group(const maker *m, size_t command, size_t combination, const bench_place *place)
{
    if (place)
        return command * m->params.combinations + combination;
    return m->count == 1 ? 0 : combination;
}

static int make_trial(maker *m, size_t command, size_t combination, const bench_place *place)
{
    bench_trials *all = m->trials;
    if (!stk__grow((void **)&all->items, &all->capacity, all->count + 1, sizeof *all->items))
        return no_memory();
    const bench_design_options *d = m->design;
    stk__trial t = {.group = trial_group(m, command, combination, place)};
    t.name = trial_name(m, command, combination, place);
    t.directory = place ? stk__strdup(place->directory) : NULL;
    bool ok = t.name && (!place || t.directory) && fill_in(&m->params, combination, m->commands[command], &t.command) &&
              fill_in(&m->params, combination, d->setup, &t.setup) &&
              fill_in(&m->params, combination, d->prepare, &t.prepare) &&
              fill_in(&m->params, combination, d->conclude, &t.conclude) &&
              fill_in(&m->params, combination, d->cleanup, &t.cleanup) && trial_parameters(&t, &m->params, combination);
    if (ok && is_pipeline(t.command)) {
        char *made = pipeline_command(t.command, d->same_output);
        t.digest = true;
        stk__free(t.command);
        t.command = made;
        all->pipelines = true;
        ok = made != NULL;
    }
    all->items[all->count++] = t;
    return ok ? CLI_OK : no_memory();
}

static int make_names(maker *m, const cli_list *names)
{
    stk_error err = {0};
    m->named = names->count > 0;
    if (names->count && names->count != m->count)
        return cli_usage_error(&cli_command_bench, "--name is given %zu times for %zu commands", names->count,
                               m->count);
    m->names = stk__calloc(m->count ? m->count : 1, sizeof *m->names);
    if (!m->names)
        return no_memory();
    const stk_status status = names->count
                                  ? stk__variant_names_unique(names->items, m->count, m->names, &err)
                                  : stk__variant_names((const char *const *)m->commands, m->count, m->names, &err);
    return status == STK_OK ? CLI_OK : no_memory();
}

static void warn_about_all(const maker *m)
{
    const bench_design_options *d = m->design;
    const char *const others[] = {d->setup, d->prepare, d->conclude, d->cleanup};
    for (size_t i = 0; i < m->count; i++)
        warn_about_braces(&m->params, m->commands[i]);
    for (size_t i = 0; i < STK_COUNT(others); i++)
        warn_about_braces(&m->params, others[i]);
}

static int make_all(maker *m, const bench_place *places, size_t place_count)
{
    int code = CLI_OK;
    if (m->count * m->params.combinations * STK_MAX(place_count, 1) > MOST_TRIALS)
        return cli_usage_error(&cli_command_bench, "%zu variants, wanted at most %d",
                               m->count * m->params.combinations * STK_MAX(place_count, 1), MOST_TRIALS);
    for (size_t k = 0; k < m->params.combinations; k++) {
        for (size_t i = 0; i < m->count; i++) {
            if (!place_count)
                code = make_trial(m, i, k, NULL);
            for (size_t p = 0; p < place_count && code == CLI_OK; p++)
                code = make_trial(m, i, k, &places[p]);
            if (code != CLI_OK)
                return code;
        }
    }
    for (size_t i = 0; i < m->params.count; i++) {
        if (!m->params.items[i].used)
            return cli_usage_error(&cli_command_bench, "no command has {%s} in it, which --param %s is for",
                                   m->params.items[i].name, m->params.items[i].name);
    }
    warn_about_all(m);
    return CLI_OK;
}

int bench_trials_make(bench_trials *t, char *const *commands, size_t count, const cli_list *names,
                      const cli_list *params_list, const bench_design_options *design, const bench_place *places,
                      size_t place_count)
{
    maker m = {.trials = t, .design = design, .commands = commands, .count = count};
    int code = params_read(&m.params, params_list);
    if (code == CLI_OK)
        code = make_names(&m, names);
    if (code == CLI_OK)
        code = make_all(&m, places, place_count);
    for (size_t i = 0; m.names && i < count; i++)
        stk__free(m.names[i]);
    stk__free(m.names);
    params_clear(&m.params);
    return code;
}

int bench_trials_add(bench_trials *t, const char *name, const char *command, const stk__suite_options *o,
                     const bench_design_options *design)
{
    const cli_list names = {.items = &name, .count = 1}, none = {0};
    bench_design_options merged = *design;
    merged.setup = o->setup ? o->setup : design->setup;
    merged.prepare = o->prepare ? o->prepare : design->prepare;
    merged.conclude = o->conclude ? o->conclude : design->conclude;
    merged.cleanup = o->cleanup ? o->cleanup : design->cleanup;
    char *text = stk__strdup(command);
    if (!text)
        return no_memory();
    const int code = bench_trials_make(t, &text, 1, &names, &none, &merged, NULL, 0);
    stk__free(text);
    if (code == CLI_OK && o->directory) {
        t->items[t->count - 1].directory = stk__strdup(o->directory);
        return t->items[t->count - 1].directory ? CLI_OK : no_memory();
    }
    return code;
}

/* ---- subcommands ---- */

static bool is_in_path(const char *word)
{
    const char *path = getenv("PATH");
    stk__text t = STK__TEXT_INIT;
    bool found = false;
    for (path = path ? path : ""; *path && !found; path += *path == ':') {
        const size_t size = strcspn(path, ":");
        stk__text_reset(&t);
        stk__text_write(&t, path, size);
        stk__text_printf(&t, "/%s", word);
        found = t.failed || access(t.data, X_OK) == 0;
        path += size;
    }
    stk__text_clear(&t);
    return found;
}

/* "hystory" is more likely a subcommand than a program that is not there. */
int bench_check_subcommand(const cli_arguments *arguments)
{
    const char *names[16];
    size_t count = 0;
    for (const cli_command *const *c = cli_commands; *c && count < STK_COUNT(names); c++) {
        if (cli_is_below(*c, "bench"))
            names[count++] = cli_second_word(*c);
    }
    const char *word = arguments->count ? arguments->items[0] : "";
    const char *nearest = strpbrk(word, "/ \t\n.") ? NULL : stk__nearest(word, names, count);
    if (!nearest || is_in_path(word))
        return CLI_OK;
    return cli_usage_error(&cli_command_bench, "there is no command '%s'; did you mean 'stoker bench %s'?", word,
                           nearest);
}
