/* stoker bench calibrate: a command against itself, to learn what this machine can tell apart. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "bench/calibrate.h"
#include "bench/design.h"
#include "bench/machine.h"
#include "bench/quantity.h"

#include "base/banned.h"

typedef struct calibrate_options {
    bench_design_options design;
    bool json, quiet;
} calibrate_options;

enum { DEFAULT_ROUNDS = 600 };

/* About 10 ms of a shell that counts: short, so that many fit in, and busy, so that it feels its neighbours. */
static const char default_command[] = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

char *bench_calibration_path(void)
{
    char machine[9];
    stk__text t = STK__TEXT_INIT;
    char *cache = cli_cache_dir();
    if (!cache)
        return NULL;
    stk__machine_fingerprint(machine);
    stk__text_printf(&t, "%s/bench-%s.json", cache, machine);
    stk__free(cache);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

static void save(const stk__calibration *c)
{
    stk_error err = {0};
    char *path = bench_calibration_path();
    if (!path)
        return;
    if (stk__make_parents(path, &err) != STK_OK || stk__calibration_save(c, path, &err) != STK_OK)
        cli_say_error(&err, NULL, NULL);
    else
        cli_say("stoker: kept in %s", path);
    stk__free(path);
}

static void print_sizes(stk__text *t, const stk__calibration *c)
{
    stk__text_puts(t, "\nThe same command on both sides: how often it is called a change\n"
                      "  rounds   in turns   one after the other   smallest change found (80 %)\n");
    for (size_t i = 0; i < STK__CALIBRATE_SIZES; i++) {
        if (!c->sizes[i].n)
            continue;
        stk__text_printf(t, "  %6zu   %6.1f %%   %17.1f %%   %26.1f %%   (%zu windows%s)\n", c->sizes[i].n,
                         100 * c->sizes[i].paired, 100 * c->sizes[i].sequential, 100 * c->sizes[i].detectable,
                         c->sizes[i].windows, c->sizes[i].stride < c->sizes[i].n ? ", which overlap" : "");
    }
}

static void print_report(const stk__calibration *c, const stk__result *r)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s\n%zu runs of one command, median ", r->machine ? r->machine : "", c->runs);
    stk__quantity(&t, c->median_s, "s");
    stk__text_printf(&t, ", coefficient of variation %.1f %%, autocorrelation %.2f\n", 100 * c->cv, c->autocorrelation);
    stk__text_puts(&t, "starting and ending an empty process takes ");
    stk__quantity(&t, c->floor_s, "s");
    stk__text_putc(&t, '\n');
    print_sizes(&t, c);
    stk__text_puts(
        &t, "\nWith few windows the shares are rough. The smallest change is for commands as noisy as this one.\n");
    cli_out_text(&t);
}

static void print_json(const stk__calibration *c, const stk__result *r)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"machine\":");
    stk__text_json_str(&t, r->machine ? r->machine : "");
    stk__text_printf(&t, ",\"fingerprint\":\"%s\",\"runs\":%zu", c->machine, c->runs);
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"median_s", c->median_s},
                   {"cv", c->cv},
                   {"autocorrelation", c->autocorrelation},
                   {"sd_log", c->sd_log},
                   {"floor_s", c->floor_s}};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_printf(&t, ",\"%s\":", numbers[i].key);
        stk__text_json_double(&t, numbers[i].value);
    }
    stk__text_puts(&t, ",\"sizes\":[");
    for (size_t i = 0; i < STK__CALIBRATE_SIZES && c->sizes[i].n; i++) {
        stk__text_printf(&t, "%s{\"rounds\":%zu,\"windows\":%zu,\"false_positives\":", i ? "," : "", c->sizes[i].n,
                         c->sizes[i].windows);
        stk__text_json_double(&t, c->sizes[i].paired);
        stk__text_puts(&t, ",\"false_positives_sequential\":");
        stk__text_json_double(&t, c->sizes[i].sequential);
        stk__text_puts(&t, ",\"detectable\":");
        stk__text_json_double(&t, c->sizes[i].detectable);
        stk__text_putc(&t, '}');
    }
    stk__text_puts(&t, "]}\n");
    cli_out_text(&t);
}

/* Which side ran first in each round, from the seed. */
static uint8_t *sides_of(const stk__result *r)
{
    const size_t n = r->variants[0].runs;
    uint8_t *first = stk__calloc(n ? n : 1, 1);
    for (size_t i = 0; first && i < n; i++) {
        size_t order[2];
        stk__design_order(r->seed, i, 2, order);
        first[i] = order[0] == 1;
    }
    return first;
}

static int evaluate(const calibrate_options *o, const stk__result *r)
{
    stk_error err = {0};
    stk__calibration c = {0};
    uint8_t *first = sides_of(r);
    if (!first) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    const stk_status status =
        stk__calibration_from(r->variants[0].values[r->primary], r->variants[1].values[r->primary], first,
                              r->variants[0].runs, 0.95, r->seed, &c, &err);
    stk__free(first);
    if (status != STK_OK)
        return bench_fail(&err);
    c.floor_s = r->floor_s;
    c.time_s = r->time_s;
    stk__machine_fingerprint(c.machine);
    if (o->json)
        print_json(&c, r);
    else
        print_report(&c, r);
    save(&c);
    return r->interrupted ? CLI_INTERRUPTED : CLI_OK;
}

static int measure(const calibrate_options *o, const char *command, stk__launcher *l, stk__result *r)
{
    static const char *const sides[] = {"A", "A again"};
    const cli_list names = {.items = (const char **)(uintptr_t)sides, .count = 2}, none = {0};
    bench_rule_options rule = {.confidence = 0.95, .min_effect = -1, .margin = -1, .fail_over = -1};
    bench_design_options design = o->design;
    bench_trials trials = {0};
    char *twice[2] = {stk__strdup(command), stk__strdup(command)};
    int code = CLI_FAILED;
    design.rounds = design.rounds < 0 ? DEFAULT_ROUNDS : design.rounds;
    if (twice[0] && twice[1])
        code = bench_trials_make(&trials, twice, 2, &names, &none, &design, NULL, 0);
    else
        cli_say("stoker: out of memory");
    if (code == CLI_OK)
        code = bench_metrics(r, &design, false);
    if (code == CLI_OK) {
        const stk__experiment e = bench_experiment(&trials, &design, &rule, o->quiet);
        code = bench_run(&e, l, r);
    }
    stk__free(twice[0]);
    stk__free(twice[1]);
    bench_trials_clear(&trials);
    return code;
}

static int calibrate_run(const void *options, const cli_arguments *arguments)
{
    const calibrate_options *o = options;
    stk__launcher *l = NULL;
    stk__result r = {0};
    if (o->design.rounds > 0 && o->design.rounds < STK__LEAST_ROUNDS)
        return cli_usage_error(&cli_command_bench_calibrate, "--rounds wants at least %d here, found %lld",
                               STK__LEAST_ROUNDS, (long long)o->design.rounds);
    int code = bench_launcher_open(&l);
    if (code != CLI_OK)
        return code;
    code = measure(o, arguments->count ? arguments->items[0] : default_command, l, &r);
    if (code == CLI_OK && r.variant_count == 2 && r.variants[0].runs)
        code = evaluate(o, &r);
    else if (code == CLI_OK)
        code = CLI_INTERRUPTED;
    stk__result_clear(&r);
    bench_launcher_close(l);
    return code;
}

static const cli_option calibrate_options_table[] = {
    BENCH_DESIGN_ROWS(calibrate_options, design),
    CLI_ROW(calibrate_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "the figures as JSON"),
    CLI_ROW(calibrate_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "no progress line"),
    CLI_OPTION_END,
};

static const cli_example calibrate_examples[] = {
    {"how noisy is this machine?", "stoker bench calibrate"},
    {"for a command of one's own, on one core", "stoker bench calibrate --cpus 1 --rounds 100 'python step.py'"},
    {NULL, NULL},
};

const cli_command cli_command_bench_calibrate = {
    .name = "bench calibrate",
    .summary = "what this machine can tell apart: A against A",
    .usage = "[OPTION]... [COMMAND]",
    .about =
        "Runs one command against itself. From the same runs it tells how often the paired design and the usual one (all of "
        "one, then all of the other) call that a change, and the smallest change that a number of rounds finds.\n"
        "600 rounds of a short busy loop unless told otherwise. The figures are kept in the cache directory.",
    .options = calibrate_options_table,
    .examples = calibrate_examples,
    .options_size = sizeof(calibrate_options),
    .max_arguments = 1,
    .run = calibrate_run,
};
