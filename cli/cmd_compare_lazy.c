/* stoker compare-lazy: augment anew in every epoch, or store it once? Runs a pipeline both ways and says which. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lazy.h"

#include "base/banned.h"

static void lazy_log(void *arg, stk_log_level level, const char *text)
{
    (void)arg;
    if (level == STK_LOG_WARNING)
        cli_say("stoker: warning: %s", text);
}

static bool lazy_progress(void *arg, const char *what, int64_t done, int64_t total)
{
    lazy *z = arg;
    if (total > 0)
        cli_lazy_live(z, "%s: %.0f %%", what, 100.0 * (double)done / (double)total);
    return !cli_interrupted();
}

/* ---- the directory of the caches ---- */

static int make_directory(lazy *z)
{
    const char *base = z->options->disk;
    if (!base || !base[0])
        base = getenv("TMPDIR");
    if (!base || !base[0])
        base = "/tmp";
    const int n = snprintf(z->directory, sizeof z->directory, "%s/stoker-lazy-XXXXXX", base);
    if (n > 0 && (size_t)n < sizeof z->directory && mkdtemp(z->directory))
        return CLI_OK;
    cli_say("stoker: cannot make a directory for caches in '%s': %s", base,
            (size_t)n < sizeof z->directory ? strerror(errno) : "the name is too long");
    z->directory[0] = 0;
    return CLI_FAILED;
}

static void remove_directory(lazy *z)
{
    if (!z->directory[0])
        return;
    cli_lazy_disk_clear(z);
    if (rmdir(z->directory))
        cli_say("stoker: warning: cannot remove %s: %s", z->directory, strerror(errno));
}

/* ---- in order ---- */

/* Opens the pipeline as it was written: mistakes are told with their place in it, and the size of a batch is seen. */
static stk_status try_original(lazy *z, stk_error *err)
{
    stk_pipeline *pipeline = NULL;
    const stk_batch *batch;
    STK_TRY(stk_pipeline_open(z->setup.text, &z->config, &pipeline, err));
    cli_interrupts_cancel(pipeline);
    const stk_status status = stk_pipeline_next(pipeline, &batch, err);
    if (status == STK_OK)
        z->batch_rows = batch->rows;
    cli_interrupts_cancel(NULL);
    stk_pipeline_close(pipeline);
    return status == STK_END
               ? stk_error_set(err, STK_INVALID, "no batch comes out of it, so there is nothing to compare")
               : status;
}

static stk_status run_rounds(lazy *z)
{
    for (int64_t round = 0; round < z->options->rounds; round++) {
        stk__permutation order;
        stk__permutation_init(&order, LAZY_WAYS, stk__mix(z->order_seed, (uint64_t)round));
        for (uint64_t i = 0; i < LAZY_WAYS; i++) {
            lazy_way *way = &z->ways[stk__permute(&order, i)];
            if (!way->why_not[0])
                STK_TRY(cli_lazy_measure(z, way, round));
        }
    }
    return STK_OK;
}

static stk_status compare(lazy *z, const stk_text_op *ops, size_t count, stk_error *err)
{
    STK_TRY(try_original(z, err));
    if (!cli_lazy_texts(z, ops, count) || !cli_lazy_check_texts(z, ops, count))
        return stk_error_set(err, STK_NOMEM, "out of memory");
    for (lazy_kind kind = LAZY_PLAIN; kind < LAZY_WAYS; kind++) {
        lazy_way *way = &z->ways[kind];
        way->rounds = stk__calloc((size_t)z->options->rounds, sizeof *way->rounds);
        if (!way->rounds)
            return stk_error_set(err, STK_NOMEM, "out of memory");
        cli_lazy_live(z, "%s: counting augmentations", way->name);
        if (!way->why_not[0])
            STK_TRY(cli_lazy_check(z, way));
    }
    return run_rounds(z);
}

static void tell(const lazy *z)
{
    stk__text text = STK__TEXT_INIT;
    const int64_t bytes = z->ways[LAZY_DISK].disk_bytes;
    if (!z->options->quiet && !z->options->json && bytes) {
        stk__text_bytes(&text, (uint64_t)bytes);
        cli_say("caches on disk took %s in %s, which is removed again", text.data ? text.data : "", z->directory);
        stk__text_reset(&text);
    }
    if (z->options->json)
        cli_lazy_json(z, &text);
    else
        cli_lazy_table(z, &text);
    cli_out_text(&text);
}

/* What went wrong with the pipeline as it was written, or with the plainest way, without which there is no comparison. */
static int finish(const lazy *z, stk_status status, const stk_error *err)
{
    const lazy_way *plain = &z->ways[LAZY_PLAIN];
    cli_live_clear();
    if (status == STK_CANCELLED || cli_interrupted()) {
        cli_say("stoker: interrupted");
        return CLI_INTERRUPTED;
    }
    if (status != STK_OK) {
        cli_say_error(err, err->line > 0 ? z->setup.text : NULL, z->setup.text_name);
        return cli_exit_code(err);
    }
    tell(z);
    if (!plain->why_not[0])
        return CLI_OK;
    cli_say("stoker: the pipeline cannot run: %s", plain->why_not);
    return cli_exit_code(&plain->err);
}

static void close_all(lazy *z, stk_text_op *ops)
{
    for (lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++) {
        stk__text_clear(&way->text);
        stk__text_clear(&way->check);
        stk__free(way->rounds);
    }
    stk_text_ops_free(ops);
    remove_directory(z);
    cli_setup_close(&z->setup);
}

static stk_status start(lazy *z, stk_text_op **ops, size_t *count, stk_error *err)
{
    STK_TRY(stk_text_ops(z->setup.text, z->setup.registry, ops, count, err));
    for (size_t i = 0; i < *count; i++) {
        if (!(*ops)[i].op) /* open tells which, with the nearest name */
            return try_original(z, err);
    }
    return compare(z, *ops, *count, err);
}

static int compare_lazy_run(const void *options, const cli_arguments *arguments)
{
    lazy *z = stk__calloc(1, sizeof *z); /* large, because of its error texts */
    if (!z) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    z->options = options;
    const lazy_options *o = options;
    z->order_seed = o->order_seed >= 0 ? (uint64_t)o->order_seed : stk__mix((uint64_t)stk__now_ns(), 1) % 1000000;
    z->config = (stk_config){.log = lazy_log, .progress = lazy_progress, .progress_arg = z};
    int code = cli_setup_open(&z->setup, &cli_command_compare_lazy, &o->pipeline, arguments, o->quiet, &z->config);
    if (code == CLI_OK) {
        cli_interrupts_catch();
        stk_text_op *ops = NULL;
        size_t count = 0;
        stk_error err;
        stk_error_clear(&err);
        code = make_directory(z);
        if (code == CLI_OK)
            code = finish(z, start(z, &ops, &count, &err), &err);
        close_all(z, ops);
    }
    stk__free(z);
    return code;
}

static const cli_option compare_lazy_options[] = {
    CLI_PIPELINE_ROWS(lazy_options, pipeline),
    CLI_ROW(lazy_options, epochs, int64_t, CLI_INT, .name = "epochs", .value = "N", .min = 2, .max = 10000,
            .fallback = 3, .group = "Comparison", .help = "epochs of each run (default 3)"),
    CLI_ROW(lazy_options, rounds, int64_t, CLI_INT, .name = "rounds", .value = "N", .min = 1, .max = 1000,
            .fallback = 3, .group = "Comparison", .help = "runs of each way; medians count (default 3)"),
    CLI_ROW(lazy_options, limit, int64_t, CLI_INT, .name = "limit", .value = "SAMPLES", .min = 1, .max = INT64_MAX,
            .group = "Comparison", .help = "only the first samples of the source, for a quick look"),
    CLI_ROW(lazy_options, step_ns, int64_t, CLI_DURATION, .name = "step-time", .value = "TIME", .group = "Comparison",
            .help = "measure also how long a trainer waits whose steps take this long, as in 5ms"),
    CLI_ROW(lazy_options, disk, const char *, CLI_TEXT, .name = "disk", .value = "DIR", .complete = CLI_DIRECTORIES,
            .group = "Comparison",
            .help = "make the directory for caches on disk in DIR (default $TMPDIR or /tmp); it is removed afterwards"),
    CLI_ROW(lazy_options, order_seed, int64_t, CLI_INT, .name = "order-seed", .value = "N", .max = INT64_MAX,
            .fallback = -1, .group = "Comparison", .help = "seed of the order of runs (default: from the clock)"),
    CLI_ROW(lazy_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "one JSON object"),
    CLI_ROW(lazy_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "no live line and no notes on standard error"),
    CLI_OPTION_END,
};

static const cli_example compare_lazy_examples[] = {
    {"augment in every epoch, or once?", "stoker compare-lazy train.stoker --step-time 10ms"},
    {"a quick look, with the caches on another disk",
     "stoker compare-lazy train.stoker --limit 10000 --rounds 1 --disk /data"},
    {NULL, NULL},
};

const cli_command cli_command_compare_lazy = {
    .name = "compare-lazy",
    .summary = "compare augmenting in every epoch with storing it once",
    .usage = "[OPTION]... FILE\n[OPTION]... -e TEXT",
    .about =
        "Runs a pipeline in four ways and recommends one. 'lazy': no cache, every epoch is made anew. 'lazy, cached': "
        "a cache in memory before the first op that draws random numbers, so that reading and decoding are done once "
        "and augmentations stay new. 'stored, memory' and 'stored, disk': a cache behind the last op on samples, so "
        "that each sample is augmented once for all epochs.\n"
        "For each way: samples per second of the first epoch and of later ones, CPU time, peak memory of buffers, "
        "bytes on disk, the share of samples that later epochs found in the cache (which --memory limits), and how many different versions of "
        "a sample came over the epochs, counted on up to 1,000 samples without shuffling. A way that cannot run is "
        "listed with the reason.\n"
        "A cache in the pipeline is replaced. Every repeat is left out and repeat(EPOCHS) put at the end, so take and "
        "skip count within an epoch. A sink is left out.",
    .options = compare_lazy_options,
    .examples = compare_lazy_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(lazy_options),
    .max_arguments = 1,
    .run = compare_lazy_run,
};
