/*
 * A training loop on the public API: it can be interrupted and resumed, and it can record itself.
 *
 *   train_loop PIPELINE.stoker [--trace FILE] [--checkpoint FILE] [--every N] [--steps N] [--plugin FILE.so]
 *
 * When the file of --checkpoint is there, the run goes on from it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

typedef struct {
    const char *pipeline, *trace, *checkpoint, *plugin;
    int64_t every, steps;
} arguments;

/* What stands for the model: sums over all numbers that it was shown. */
typedef struct {
    int64_t steps, rows;
    double sum;
} model;

/* ---- Ctrl-C: makes a waiting or later stk_pipeline_next return STK_CANCELLED ---- */

static _Atomic(stk_pipeline *) running; /* a signal handler has no argument */

static void on_interrupt(int number)
{
    (void)number;
    stk_pipeline *pipeline = atomic_load(&running);
    if (pipeline)
        stk_pipeline_cancel(pipeline);
}

static void catch_interrupts(stk_pipeline *pipeline)
{
    struct sigaction action = {.sa_handler = pipeline ? on_interrupt : SIG_DFL, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    atomic_store(&running, pipeline);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- one step ---- */

static double sum_of(const stk_column *column)
{
    double sum = 0;
    for (int64_t i = 0; i < column->elements; i++) {
        if (column->dtype == STK_FLOAT32)
            sum += ((const float *)column->data)[i];
        else if (column->dtype == STK_INT64)
            sum += (double)((const int64_t *)column->data)[i];
    }
    return sum;
}

/* A real program would copy the columns to its device here and run the model on them. */
static void train_on(model *m, const stk_batch *batch)
{
    for (int32_t c = 0; c < batch->column_count; c++)
        m->sum += sum_of(&batch->columns[c]);
    m->rows += batch->rows;
    m->steps++;
}

/* ---- the loop ---- */

static stk_status save(stk_pipeline *pipeline, const arguments *args, stk_recorder *recorder, stk_error *err)
{
    if (!args->checkpoint)
        return STK_OK;
    /* A real program would save its weights at the same moment, so that both are of the same step. */
    stk_span_begin(recorder, "checkpoint");
    const stk_status status = stk_pipeline_checkpoint(pipeline, args->checkpoint, err);
    stk_span_end(recorder);
    return status;
}

static stk_status train(stk_pipeline *pipeline, const arguments *args, stk_recorder *recorder, model *m, stk_error *err)
{
    stk_status status = STK_OK;
    while (args->steps == 0 || m->steps < args->steps) {
        const stk_batch *batch;
        stk_step(recorder, m->steps); /* a step lasts until the next one, the wait for its batch included */
        status = stk_pipeline_next(pipeline, &batch, err);
        if (status == STK_END || status == STK_CANCELLED)
            break;
        if (status != STK_OK)
            return status;
        stk_span_begin(recorder, "train");
        train_on(m, batch);
        stk_span_end(recorder);
        stk_batch_release(pipeline, batch); /* its memory is used again; do not look at it any more */
        if (args->every > 0 && m->steps % args->every == 0 && (status = save(pipeline, args, recorder, err)) != STK_OK)
            return status;
    }
    stk_step_end(recorder);
    if (status == STK_END && (status = stk_pipeline_finish(pipeline, err)) != STK_OK) /* publishes a cache on disk */
        return status;
    return save(pipeline, args, recorder, err);
}

static stk_status run(const char *text, const arguments *args, const stk_registry *registry, stk_recorder *recorder,
                      model *m, stk_error *err)
{
    const bool resume = args->checkpoint && access(args->checkpoint, R_OK) == 0;
    const stk_config config = {
        .struct_size = sizeof config,
        .registry = registry,
        .recorder = recorder,
        .resume_path = resume ? args->checkpoint : NULL,
    };
    stk_pipeline *pipeline;
    stk_status status = stk_pipeline_open(text, &config, &pipeline, err);
    if (status != STK_OK)
        return status;
    if (stk_pipeline_has_sink(pipeline)) {
        status = stk_error_set(err, STK_INVALID, "the pipeline ends with a sink, but the batches are for training");
    } else {
        catch_interrupts(pipeline);
        status = train(pipeline, args, recorder, m, err);
        catch_interrupts(NULL);
    }
    stk_pipeline_close(pipeline);
    if (status == STK_OK)
        printf("%s: %" PRId64 " steps, %" PRId64 " rows, sum %.6g\n", resume ? "resumed" : "started", m->steps, m->rows,
               m->sum);
    return status;
}

/* ---- around it ---- */

static char *read_text(const char *path)
{
    enum { MOST = 64 * 1024 };
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, MOST) : NULL;
    const bool whole = text && fread(text, 1, MOST - 1, f) < MOST - 1 && !ferror(f);
    if (f)
        fclose(f);
    if (whole)
        return text;
    free(text);
    return NULL;
}

static bool read_arguments(int argc, char **argv, arguments *out)
{
    *out = (arguments){.every = 100};
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--trace") == 0 && has_value)
            out->trace = argv[++i];
        else if (strcmp(argv[i], "--checkpoint") == 0 && has_value)
            out->checkpoint = argv[++i];
        else if (strcmp(argv[i], "--plugin") == 0 && has_value)
            out->plugin = argv[++i];
        else if (strcmp(argv[i], "--every") == 0 && has_value)
            out->every = strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0 && has_value)
            out->steps = strtoll(argv[++i], NULL, 10);
        else if (argv[i][0] != '-' && !out->pipeline)
            out->pipeline = argv[i];
        else
            return false;
    }
    return out->pipeline != NULL;
}

int main(int argc, char **argv)
{
    arguments args;
    if (!read_arguments(argc, argv, &args)) {
        fprintf(stderr, "usage: train_loop PIPELINE.stoker [--trace FILE] [--checkpoint FILE] [--every N] [--steps N] "
                        "[--plugin FILE.so]\n");
        return 2;
    }
    stk_error err;
    stk_error_clear(&err);
    model m = {0};
    stk_registry *registry = NULL;
    stk_recorder *recorder = NULL;
    char *text = read_text(args.pipeline);
    stk_status status = text ? STK_OK : stk_error_set(&err, STK_IO, "cannot read %s", args.pipeline);
    if (status == STK_OK)
        status = stk_registry_new(&registry, &err);
    if (status == STK_OK && args.plugin)
        status = stk_registry_load(registry, args.plugin, &err);
    if (status == STK_OK && args.trace)
        status = stk_recorder_open(args.trace, NULL, &recorder, &err);
    if (status == STK_OK)
        status = run(text, &args, registry, recorder, &m, &err);
    if (recorder) { /* also after a failure: the trace may tell why */
        const stk_status closed = stk_recorder_close(recorder, NULL, status == STK_OK ? &err : NULL);
        status = status == STK_OK ? closed : status;
    }
    stk_registry_free(registry); /* after the pipeline that used its ops */
    free(text);
    if (status != STK_OK) {
        char line[2048];
        stk_error_format(&err, line, sizeof line);
        fprintf(stderr, "train_loop: %s\n", line);
    }
    return status == STK_OK ? 0 : 1;
}
