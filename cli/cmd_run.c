/* stoker run: runs a pipeline to its end and reports how it went. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run.h"

#include "base/banned.h"

/* ---- setting up ---- */

static int read_on_error(run *r)
{
    static const char quarantine[] = "quarantine=";
    const char *text = r->options->on_error;
    const bool limited = r->options->max_errors > 0;
    if (!text || strcmp(text, "stop") == 0) {
        if (limited)
            return cli_usage_error(&cli_command_run, "--max-errors wants --on-error skip or quarantine=FILE as well");
        r->config.on_error = STK_ON_ERROR_STOP;
    } else if (strcmp(text, "skip") == 0) {
        r->config.on_error = STK_ON_ERROR_SKIP;
    } else if (strncmp(text, quarantine, strlen(quarantine)) == 0 && text[strlen(quarantine)]) {
        r->config.on_error = STK_ON_ERROR_QUARANTINE;
        r->config.quarantine_path = text + strlen(quarantine);
    } else {
        return cli_usage_error(&cli_command_run, "--on-error wants stop, skip or quarantine=FILE, found '%s'", text);
    }
    r->config.max_errors = r->options->max_errors;
    return CLI_OK;
}

static void run_log(void *arg, stk_log_level level, const char *text)
{
    const run *r = arg;
    if (level == STK_LOG_WARNING)
        cli_say("stoker: warning: %s", text);
    else if (!r->options->quiet)
        cli_say("stoker: %s", text);
}

static stk_status run_print(void *arg, const char *text, size_t size, stk_error *err)
{
    if (cli_out(text, size))
        return STK_OK;
    return stk_error_set(err, STK_IO, "cannot write to standard output");
}

/* Better now than after an hour. */
static int check_checkpoint_place(const char *path)
{
    char directory[4096] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(directory, sizeof directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (access(directory, W_OK) == 0)
        return CLI_OK;
    cli_say("stoker: %s: cannot write checkpoints in '%s': %s", path, directory, strerror(errno));
    return CLI_FAILED;
}

static int run_configure(run *r, const cli_arguments *arguments)
{
    const run_options *o = r->options;
    int code = read_on_error(r);
    if (code != CLI_OK)
        return code;
    if (o->checkpoint_every > 0 && !o->checkpoint)
        return cli_usage_error(&cli_command_run, "--checkpoint-every wants --checkpoint FILE as well");
    if (!o->trace && (o->trace_limit || o->trace_last))
        return cli_usage_error(&cli_command_run, "--trace-%s wants --trace FILE as well",
                               o->trace_limit ? "limit" : "last");
    if (o->trace_limit && o->trace_last)
        return cli_usage_error(&cli_command_run, "--trace-limit keeps the first part and --trace-last the last; give one");
    if (o->checkpoint)
        code = check_checkpoint_place(o->checkpoint);
    if (code != CLI_OK)
        return code;
    code = cli_setup_open(&r->setup, &cli_command_run, &o->pipeline, arguments, o->quiet, &r->config);
    if (code != CLI_OK)
        return code;
    r->config.resume_path = o->resume;
    r->config.checkpoints = o->checkpoint != NULL;
    r->config.stall_ns = o->stall_ns;
    r->config.on_demand = o->on_demand;
    r->config.log = run_log;
    r->config.log_arg = r;
    r->config.progress = cli_run_progress;
    r->config.progress_arg = r;
    r->config.print = run_print;
    r->config.print_arg = r;
    return CLI_OK;
}

/* Checkpoints tell what the data was, and looking at a million pictures takes a while: not first when the run is interrupted. */
static stk_status look_at_data(run *r, stk_error *err)
{
    char *state = NULL;
    STK_TRY(stk_pipeline_state(r->pipeline, &state, err));
    stk_free(state);
    return STK_OK;
}

static stk_status run_open(run *r)
{
    stk_error *err = &r->err;
    if (r->options->trace) {
        const stk_recorder_options wanted = {.struct_size = sizeof wanted,
                                             .limit_bytes = r->options->trace_limit,
                                             .last_bytes = r->options->trace_last};
        STK_TRY(stk_recorder_open(r->options->trace, &wanted, &r->recorder, err));
        r->config.recorder = r->recorder;
    }
    if (r->options->digest)
        STK_TRY(stk_digest_new(&r->digest, err));
    STK_TRY(stk_pipeline_open(r->setup.text, &r->config, &r->pipeline, err));
    if (r->digest && !stk_pipeline_carry_digest(r->pipeline, r->digest))
        run_log(r, STK_LOG_INFO, "the checkpoint has no digest, so the digest covers what follows it alone");
    if (r->options->checkpoint)
        STK_TRY(look_at_data(r, err));
    r->opened_ns = stk__now_ns();
    return STK_OK;
}

/* ---- the loop ---- */

/* Endless runs over little data have millions of epochs: those behind the first so many are not told apart. */
enum { EPOCHS_MAX = 1 << 16 };

static void note_wait(run_epochs *e, int64_t epoch, int64_t ns)
{
    if (!e->count)
        e->first = epoch;
    const int64_t at = epoch - e->first;
    if (at < 0 || at >= EPOCHS_MAX ||
        !stk__grow((void **)&e->wait_ns, &e->capacity, (size_t)at + 1, sizeof *e->wait_ns))
        return;
    while (e->count <= (size_t)at)
        e->wait_ns[e->count++] = 0;
    e->wait_ns[at] += ns;
}

static stk_status take_batch(run *r, const stk_batch *batch, int64_t asked_ns)
{
    const int64_t taken_ns = stk__now_ns();
    note_wait(&r->epochs, batch->epoch, taken_ns - asked_ns);
    if (!r->first_batch_ns)
        r->first_batch_ns = taken_ns;
    const bool plays_step = r->options->step_ns > 0;
    if (plays_step)
        stk_step(r->recorder, batch->index);
    if (r->digest)
        stk_digest_add(r->digest, batch);
    STK_TRY(stk_pipeline_consume(r->pipeline, batch, &r->err));
    if (plays_step) {
        cli_play_step(taken_ns + r->options->step_ns);
        stk_step_end(r->recorder);
    }
    r->batches_taken++;
    atomic_store(&r->next_index, batch->index + 1);
    return STK_OK;
}

static stk_status save_checkpoint(run *r)
{
    /* What the checkpoint passes over has been printed, whatever happens next. */
    cli_out_flush();
    if (cli_out_failed())
        return stk_error_set(&r->err, STK_IO, "cannot write to standard output");
    STK_TRY(stk_pipeline_checkpoint(r->pipeline, r->options->checkpoint, &r->err));
    r->saved_batches = r->batches_taken;
    return STK_OK;
}

static bool checkpoint_due(const run *r)
{
    const int64_t every = r->options->checkpoint_every ? r->options->checkpoint_every : 100;
    return r->options->checkpoint && r->batches_taken % every == 0;
}

/* Fails when a batch could not be used: a checkpoint made then would pass over it. */
static stk_status run_batches(run *r)
{
    for (;;) {
        if (r->options->steps && r->batches_taken >= r->options->steps) {
            r->end = RUN_STEPS_DONE;
            return STK_OK;
        }
        const stk_batch *batch;
        const int64_t asked_ns = stk__now_ns();
        const stk_status status = stk_pipeline_next(r->pipeline, &batch, &r->err);
        if (status == STK_END)
            return STK_OK;
        if (status != STK_OK) {
            r->end = status == STK_CANCELLED ? RUN_INTERRUPTED : RUN_FAILED;
            return STK_OK;
        }
        const stk_status taken = take_batch(r, batch, asked_ns);
        stk_batch_release(r->pipeline, batch);
        STK_TRY(taken);
        if (checkpoint_due(r))
            STK_TRY(save_checkpoint(r));
    }
}

/* Output that is whole gets published, what is not is kept with the checkpoint where there is one; then the place is kept, also after
   a failure to read on. */
static stk_status run_close_outputs(run *r)
{
    const bool keeps = stk_pipeline_keeps_output(r->pipeline);
    const bool whole = r->end == RUN_COMPLETE || (r->end == RUN_STEPS_DONE && !keeps);
    if (whole)
        STK_TRY(stk_pipeline_finish(r->pipeline, &r->err));
    /* Once it is published, a checkpoint from before that would want what was kept. */
    if (!r->options->checkpoint || (r->saved_batches == r->batches_taken && !(whole && keeps)))
        return STK_OK;
    const stk_error before = r->err;
    const stk_status status = save_checkpoint(r);
    if (keeps && !whole && status == STK_OK)
        run_log(r, STK_LOG_INFO, "what was written so far is kept, hidden; --resume goes on with it");
    if (r->end != RUN_FAILED)
        return status;
    if (status != STK_OK)
        cli_say_error(&r->err, NULL, NULL);
    r->err = before; /* the first failure is the one that counts */
    return STK_OK;
}

static void run_loop(run *r)
{
    cli_interrupts_cancel(r->pipeline);
    cli_run_live_start(r);
    stk_status status = run_batches(r);
    r->end_ns = stk__now_ns();
    cli_interrupts_grace(CLI_GRACE_SAVING_S);
    if (status == STK_OK)
        status = run_close_outputs(r);
    cli_interrupts_grace(CLI_GRACE_S);
    if (status != STK_OK)
        r->end = cli_out_closed() ? RUN_OUTPUT_CLOSED : RUN_FAILED;
    cli_run_live_stop(r);
    cli_interrupts_cancel(NULL);
    cli_run_collect(r);
}

/* ---- the end ---- */

/* Workers record until the pipeline is closed, so that comes first. */
static void close_pipeline(run *r)
{
    stk_pipeline_close(r->pipeline);
    r->pipeline = NULL;
    if (!r->recorder)
        return;
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk_recorder_close(r->recorder, &r->trace_stats, &err);
    r->recorder = NULL;
    if (status != STK_OK && r->end != RUN_FAILED) {
        r->end = RUN_FAILED;
        r->err = err;
    }
}

static void print_results(const run *r)
{
    stk__text text = STK__TEXT_INIT;
    if (r->options->json) {
        cli_run_json(r, &text);
    } else if (r->digest && (r->end == RUN_COMPLETE || r->end == RUN_STEPS_DONE)) {
        char hex[33];
        stk_digest_hex(r->digest, hex);
        stk__text_printf(&text, "digest %s\n", hex);
    }
    cli_out_text(&text);
}

static int run_exit_code(const run *r)
{
    if (r->end == RUN_INTERRUPTED)
        return CLI_INTERRUPTED;
    return r->end == RUN_FAILED ? cli_exit_code(&r->err) : CLI_OK;
}

/* Nothing ran: say why, and leave no empty trace behind. */
static int run_not_opened(run *r)
{
    if (r->recorder) {
        stk_recorder_close(r->recorder, NULL, NULL);
        unlink(r->options->trace);
    }
    if (r->err.status == STK_CANCELLED || cli_interrupted()) {
        cli_say("stoker: interrupted");
        return CLI_INTERRUPTED;
    }
    cli_live_clear();
    cli_say_error(&r->err, r->setup.text, r->setup.text_name);
    return cli_exit_code(&r->err);
}

static int run_run(const void *options, const cli_arguments *arguments)
{
    run r = {.options = options, .begin_ns = stk__now_ns(), .saved_batches = -1};
    stk_error_clear(&r.err);
    int code = run_configure(&r, arguments);
    if (code != CLI_OK)
        return code;
    cli_interrupts_catch();
    if (run_open(&r) == STK_OK) {
        run_loop(&r);
        close_pipeline(&r);
        print_results(&r);
        if (r.end == RUN_FAILED && !cli_out_failed()) /* else the end of the program tells */
            cli_say_error(&r.err, r.setup.text, r.setup.text_name);
        cli_run_warn_of_limit(&r);
        if (!r.options->quiet && r.end != RUN_OUTPUT_CLOSED)
            cli_run_summary(&r);
        code = run_exit_code(&r);
    } else {
        code = run_not_opened(&r);
    }
    cli_run_collect_clear(&r);
    stk_digest_free(r.digest);
    cli_setup_close(&r.setup);
    return code;
}

static const cli_option run_options_table[] = {
    CLI_PIPELINE_ROWS(run_options, pipeline),
    CLI_ROW(run_options, steps, int64_t, CLI_INT, .name = "steps", .value = "N", .min = 1, .max = INT64_MAX,
            .group = "Run", .help = "stop after N batches"),
    CLI_ROW(run_options, step_ns, int64_t, CLI_DURATION, .name = "step-time", .value = "TIME", .group = "Run",
            .help = "play a training step of this length for each batch, as in 5ms"),
    CLI_ROW(run_options, on_demand, bool, CLI_FLAG, .name = "on-demand", .group = "Run",
            .help = "make a batch only when it is asked for, as loops without prefetch do; for comparison"),
    CLI_ROW(run_options, checkpoint, const char *, CLI_TEXT, .name = "checkpoint", .value = "FILE", .group = "Run",
            .complete = CLI_FILES, .help = "keep the place of the run in FILE, at times and at the end"),
    CLI_ROW(run_options, checkpoint_every, int64_t, CLI_INT, .name = "checkpoint-every", .value = "N", .min = 1,
            .max = INT64_MAX, .group = "Run", .help = "batches between checkpoints (default 100)"),
    CLI_ROW(run_options, resume, const char *, CLI_TEXT, .name = "resume", .value = "FILE", .complete = CLI_FILES,
            .group = "Run", .help = "go on with the sample after the checkpoint in FILE"),
    CLI_ROW(run_options, on_error, const char *, CLI_TEXT, .name = "on-error", .value = "WHAT", .complete = CLI_WORDS,
            .words = "stop skip quarantine=", .group = "Bad records",
            .help = "stop, skip, or quarantine=FILE, which skips and lists them in FILE (default stop)"),
    CLI_ROW(run_options, max_errors, int64_t, CLI_INT, .name = "max-errors", .value = "N", .min = 0, .max = INT64_MAX,
            .group = "Bad records", .help = "stop after more bad records than this (default 0: no limit)"),
    CLI_ROW(run_options, stall_ns, int64_t, CLI_DURATION, .name = "stall-after", .value = "TIME",
            .group = "Bad records", .help = "warn about a worker that is this long on one op (default 30s)"),
    CLI_ROW(run_options, digest, bool, CLI_FLAG, .name = "digest", .group = "Output",
            .help = "print 'digest HEX': XXH3-128 over every batch in order"),
    CLI_ROW(run_options, json, bool, CLI_FLAG, .name = "json", .group = "Output",
            .help = "print the figures of the run as one JSON object"),
    CLI_ROW(run_options, trace, const char *, CLI_TEXT, .name = "trace", .value = "FILE", .complete = CLI_FILES,
            .group = "Output", .help = "record the run: .pftrace for Perfetto, .json or .json.gz for Chrome"),
    CLI_ROW(run_options, trace_limit, uint64_t, CLI_SIZE, .name = "trace-limit", .value = "SIZE", .group = "Output",
            .help = "from this size of the trace on, events are counted only (default 1G)"),
    CLI_ROW(run_options, trace_last, uint64_t, CLI_SIZE, .name = "trace-last", .value = "SIZE", .group = "Output",
            .help = "keep the last part of the trace instead, in a file of at most this size"),
    CLI_ROW(run_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "no live line, notes or summary; warnings and errors stay"),
    CLI_OPTION_END,
};

static const cli_example run_examples[] = {
    {"run a pipeline, watch it, read the summary", "stoker run train.stoker"},
    {"one line of text, and a number that stands for all of its output",
     "stoker run -e 'range(10) | shuffle(seed=1) | batch(4)' --digest"},
    {"is the input fast enough for steps of 5 ms?", "stoker run train.stoker --step-time 5ms --trace out.pftrace"},
    {"keep the place", "stoker run train.stoker --checkpoint run.ck"},
    {"go on from there", "stoker run train.stoker --checkpoint run.ck --resume run.ck"},
    {NULL, NULL},
};

const cli_command cli_command_run = {
    .name = "run",
    .summary = "run a pipeline and report how it went",
    .usage = "[OPTION]... FILE\n[OPTION]... -e TEXT",
    .about = "Runs a pipeline to its end. Without a sink the batches are made, counted and thrown away. Results go to "
             "standard output; the live line, notes and the summary go to standard error. FILE may be '-' for standard "
             "input.\n"
             "Ctrl-C and SIGTERM end cleanly: the checkpoint is written, files of a sink do not appear. What does not "
             "end by itself is left after 2 s; a second one ends at once. With --checkpoint, what write_tfrecord and "
             "write_webdataset have written by then, or by --steps N, is kept in a hidden directory, and --resume goes on "
             "with it; other sinks of files take no checkpoints.",
    .options = run_options_table,
    .examples = run_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(run_options),
    .max_arguments = 1,
    .run = run_run,
};
