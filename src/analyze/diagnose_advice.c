/* The diagnosis in words: evidence, what to do about the stage, and what that would gain. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/diagnose_impl.h"
#include "analyze/python_frames.h"
#include "base/mem.h"

#include "base/banned.h"

enum { SENTENCE = 600, SHOWN_NAME = 100 };

/* Above this, workers count as busy all the time: then they set the pace. */
static const double SATURATED = 0.8;

/* In the name of PyTorch's iterator without workers. */
static const char SINGLE_PROCESS[] = "_SingleProcess";

/* ---- sentences ---- */

typedef struct sentence {
    stk__text text;
    char bytes[SENTENCE];
} sentence;

static stk__text *sentence_start(sentence *s)
{
    stk__text_fixed(&s->text, s->bytes, sizeof s->bytes);
    return &s->text;
}

/* Text from the trace, with control bytes escaped and cut to a length that a line can hold. */
static void put_cut(stk__text *t, const char *label, size_t size)
{
    char raw[SHOWN_NAME + 1], safe[4 * SHOWN_NAME + 1];
    const size_t shown = STK_MIN(size, (size_t)SHOWN_NAME);
    memcpy(raw, label, shown);
    raw[shown] = 0;
    stk__escape_terminal(raw, safe, sizeof safe);
    stk__text_puts(t, safe);
    if (shown < size)
        stk__text_puts(t, "...");
}

static void put_name(const stk__diagnosis *d, stk__text *t, stk__string name)
{
    size_t size;
    const char *label = stk__stage_label(d, name, &size);
    put_cut(t, label, size);
}

static void put_row(const stk__diagnosis *d, stk__text *t, const stk__stage_row *row)
{
    char bytes[STK__LABEL_SIZE];
    stk__text label;
    stk__text_fixed(&label, bytes, sizeof bytes);
    stk__stage_row_label(d, row, &label);
    put_cut(t, bytes, label.length);
}

static bool add_evidence(stk__diagnosis *d, const sentence *s)
{
    if (!stk__grow((void **)&d->evidence, &d->evidence_capacity, d->evidence_count + 1, sizeof *d->evidence))
        return false;
    d->evidence[d->evidence_count] = stk__strdup(s->bytes);
    return d->evidence[d->evidence_count] && ++d->evidence_count;
}

static bool add_advice(stk__diagnosis *d, const char *format, ...) STK_PRINTF(2, 3);
static bool add_advice(stk__diagnosis *d, const char *format, ...)
{
    char text[SENTENCE];
    va_list args;
    if (d->advice_count == STK__ADVICES)
        return true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->advice[d->advice_count] = stk__strdup(text);
    return d->advice[d->advice_count] && ++d->advice_count;
}

/* ---- evidence ---- */

static bool tell_steps(stk__diagnosis *d)
{
    sentence s;
    stk__text *t = sentence_start(&s);
    char marker[4 * sizeof d->steps.marker];
    stk__escape_terminal(d->steps.marker, marker, sizeof marker);
    stk__text_printf(t, "%zu step%s, ", d->figure_count, d->figure_count == 1 ? "" : "s");
    if (d->rank_count && d->ranks[0].kind == STK__STEP_TIMELINE)
        stk__text_puts(t, "one in each timeline of TensorFlow 1");
    else if (d->steps.from == STK__STEPS_MARKERS)
        stk__text_printf(t, "from the markers \"%s\"", marker);
    else
        stk__text_printf(t, "inferred from \"%s\", which comes back at regular intervals (confidence %.0f %%)", marker,
                         100 * d->steps.confidence);
    stk__text_puts(t, "; median ");
    stk__text_duration(t, (double)d->median_ns);
    stk__text_puts(t, ", p95 ");
    stk__text_duration(t, (double)d->p95_ns);
    if (d->rank_count > 1)
        stk__text_printf(t, "; %zu ranks", d->rank_count);
    return add_evidence(d, &s);
}

static bool tell_idle_steps(stk__diagnosis *d)
{
    size_t idle = 0;
    sentence s;
    for (size_t r = 0; r < d->rank_count; r++)
        idle += d->ranks[r].idle_steps;
    if (!idle)
        return true;
    stk__text_printf(sentence_start(&s),
                     "In %zu of the steps the device computes nothing; they count, since less than half would be left "
                     "without them",
                     idle);
    return add_evidence(d, &s);
}

static bool tell_left_out(stk__diagnosis *d)
{
    size_t left_out = 0;
    sentence s;
    for (size_t r = 0; r < d->rank_count; r++)
        left_out += d->ranks[r].left_out;
    if (!left_out)
        return tell_idle_steps(d);
    stk__text_printf(sentence_start(&s), "%zu step%s left out: without time, or without work on the device", left_out,
                     left_out == 1 ? "" : "s");
    return add_evidence(d, &s) && tell_idle_steps(d);
}

/* Time outside of the markers is not in the share, which follows XProf; where it is much, people must know. */
static bool tell_between(stk__diagnosis *d)
{
    const double all = d->between_ns + d->step_ns;
    const double percent = stk__percent_of(d->between_ns, all);
    sentence s;
    bool with_waits = true; /* steps that start where their batch is asked for leave no fetch outside */
    if (percent <= STK__BETWEEN_PERCENT)
        return true;
    for (size_t r = 0; r < d->rank_count; r++)
        with_waits = with_waits && d->ranks[r].kind == STK__STEP_RECORDER;
    stk__text *t = sentence_start(&s);
    stk__text_printf(t, "%.1f %% of the time lies between the steps%s and is not counted", percent,
                     with_waits ? "" : "' markers");
    if (with_waits)
        stk__text_puts(t, "; waits for batches are counted, wherever they lie");
    else
        stk__text_printf(t,
                         "; %.1f %% of it waits for data. If data is fetched there, move the fetch inside the marker",
                         stk__percent_of(d->between_wait_ns, d->between_ns));
    return add_evidence(d, &s);
}

static bool tell_waits(stk__diagnosis *d)
{
    sentence s;
    if (d->hints_only)
        stk__text_puts(sentence_start(&s),
                       "The wait is known from spans with names like \"data\" alone, so the verdict "
                       "is less certain");
    else if (!d->visible)
        stk__text_puts(sentence_start(&s),
                       "In most steps no slice shows a wait for data (DataLoader, IteratorGetNext, infeed, wait for "
                       "batch, a span called \"data\"): what the training thread does itself is looked at");
    else
        return true;
    return add_evidence(d, &s);
}

/* "get_batch (nano.py:6)"; of a C function its name, without the address that tracers write. */
static void put_function(const stk__diagnosis *d, stk__text *t, const stk__place *at)
{
    const stk__stage_row row = {.name = at->name, .file = at->file, .line = at->line};
    size_t size;
    const char *name = stk__trace_text(d->trace, at->name, &size);
    stk__python_frame p;
    if (!stk__stage_row_frame(d, &row, &p) && stk__python_frame_parse(name, size, &p))
        put_cut(t, p.function, p.function_size);
    else
        put_row(d, t, &row);
}

static bool tell_host_function(stk__diagnosis *d, const stk__host_function *f, double percent)
{
    sentence s;
    stk__text *t = sentence_start(&s);
    stk__text_puts(t, f->is_op ? "Host op without a launch: " : "Host Python: ");
    put_function(d, t, &f->at);
    if (f->self)
        stk__text_puts(t, ", the lines between its calls");
    if (f->around.name) {
        stk__text_puts(t, " in ");
        put_function(d, t, &f->around);
    }
    stk__text_printf(t, " %.1f %% of step time", percent);
    if (f->meaning == STK__HOST_INPUT && f->because.name && f->because.name != f->at.name) {
        stk__text_puts(t, "; loads data, as it calls ");
        put_function(d, t, &f->because);
    } else if (f->meaning == STK__HOST_INPUT) {
        stk__text_puts(t, "; loads data, by its name");
    } else if (f->meaning == STK__HOST_OPEN) {
        stk__text_puts(t, "; whether it loads data, the trace does not say");
    }
    return add_evidence(d, &s);
}

/* The longest ones of the worst rank that are not known to be something else. */
static bool tell_host(stk__diagnosis *d)
{
    const stk__rank *rank = &d->ranks[d->worst];
    double below = rank->step_ns + 1;
    for (int told = 0; told < 3; told++) {
        const stk__host_function *next = NULL;
        for (size_t i = 0; i < rank->host.function_count; i++) {
            const stk__host_function *f = &rank->host.functions[i];
            if (f->ns < below && f->meaning != STK__HOST_KNOWN && (!next || f->ns > next->ns))
                next = f;
        }
        if (rank->visible || !next || stk__percent_of(next->ns, rank->step_ns) < 1)
            break;
        if (!tell_host_function(d, next, stk__percent_of(next->ns, rank->step_ns)))
            return false;
        below = next->ns;
    }
    return true;
}

static bool tell_device(stk__diagnosis *d)
{
    sentence s;
    if (d->has_device)
        return true;
    stk__text_puts(sentence_start(&s), "No device is in the trace, so the host's compute counts as work");
    return add_evidence(d, &s);
}

static bool tell_other(stk__diagnosis *d)
{
    sentence s;
    if (d->other_percent < STK__OTHER_PERCENT)
        return true;
    stk__text_printf(sentence_start(&s),
                     "%.1f %% of the step time has no event at all (threshold %.0f %%): Python or I/O that nothing "
                     "recorded, and potentially input as well",
                     d->other_percent, STK__OTHER_PERCENT);
    return add_evidence(d, &s);
}

static bool tell_ranks(stk__diagnosis *d)
{
    const stk__rank *worst = &d->ranks[d->worst];
    sentence s;
    if (d->rank_count < 2)
        return true;
    stk__text *t = sentence_start(&s);
    stk__text_puts(t, "Worst rank: ");
    const int64_t rank = worst->file < d->trace->file_count ? d->trace->files[worst->file].rank : -1;
    if (rank >= 0)
        stk__text_printf(t, "%lld, ", (long long)rank);
    if (worst->file < d->trace->file_count)
        put_name(d, t, d->trace->files[worst->file].path);
    if (worst->process < d->trace->process_count)
        stk__text_printf(t, ", process %lld", (long long)d->trace->processes[worst->process].pid);
    stk__text_printf(t, ": %.1f %% input; stage and gaps are its own", worst->input_percent);
    return add_evidence(d, &s);
}

static bool tell_stage(stk__diagnosis *d)
{
    static const char *const of[] = {
        [STK__STAGE_NONE] = "",
        [STK__STAGE_TF_DATA] = "of the time that the iterators' callers were blocked",
        [STK__STAGE_OPS] = "of the workers' busy time",
        [STK__STAGE_WORKERS] = "of the worker processes' busy time",
        [STK__STAGE_INSIDE] = "of the time inside the wait",
        [STK__STAGE_TIMELINE] = "of the time that IteratorGetNext waited",
        [STK__STAGE_HOST] = "of the time in which the training thread loads data",
    };
    const stk__stage *stage = &d->stage;
    sentence s;
    if (!stage->count || stage->kind == STK__STAGE_HOST)
        return true; /* told as a function of the host */
    stk__text *t = sentence_start(&s);
    if (stage->rows[0].is_wait) {
        const bool here = strstr(stk__trace_str(d->trace, stage->rows[0].name), SINGLE_PROCESS);
        stk__text_printf(t, "%.0f %% of the wait has nothing inside that says why: %s", 100 * stage->rows[0].share,
                         here ? "data is loaded in the training process, by code that was not recorded"
                              : "it is for other processes, or for code that was not recorded");
        return add_evidence(d, &s);
    }
    stk__text_puts(t, "Slowest stage: ");
    put_row(d, t, &stage->rows[0]);
    stk__text_printf(t, ", %.1f %% %s; %llu call%s, median ", 100 * stage->rows[0].share, of[stage->kind],
                     (unsigned long long)stage->rows[0].calls, stage->rows[0].calls == 1 ? "" : "s");
    stk__text_duration(t, (double)stage->rows[0].p50);
    stk__text_puts(t, ", p95 ");
    stk__text_duration(t, (double)stage->rows[0].p95);
    if (stage->workers)
        stk__text_printf(t, "; %zu worker%s, busy %.0f %% of the time", stage->workers, stage->workers == 1 ? "" : "s",
                         100 * stage->utilisation);
    return add_evidence(d, &s);
}

/* ---- frameworks ---- */

typedef enum framework { FRAMEWORK_NONE, FRAMEWORK_TORCH, FRAMEWORK_TENSORFLOW, FRAMEWORK_JAX } framework;

/* Whose trace it is, by names that only one of them writes. */
static framework framework_of(const stk__trace *t)
{
    static const struct {
        const char *prefix;
        framework is;
    } signs[] = {{"aten::", FRAMEWORK_TORCH},         {"ProfilerStep#", FRAMEWORK_TORCH},
                 {"PjitFunction(", FRAMEWORK_JAX},    {"IteratorGetNext", FRAMEWORK_TENSORFLOW},
                 {"Iterator::", FRAMEWORK_TENSORFLOW}, {"TFE_Py_", FRAMEWORK_TENSORFLOW}};
    framework found = FRAMEWORK_NONE;
    for (uint32_t s = 0; s < t->string_count; s++) {
        const char *text = stk__trace_str(t, s);
        for (size_t i = 0; i < STK_COUNT(signs); i++)
            if (text[0] == signs[i].prefix[0] && strncmp(text, signs[i].prefix, strlen(signs[i].prefix)) == 0) {
                if (signs[i].is != FRAMEWORK_TENSORFLOW)
                    return signs[i].is;
                found = signs[i].is; /* programs of JAX may read by tf.data */
            }
    }
    return found;
}

static const char *how_to_mark(framework is)
{
    switch (is) {
    case FRAMEWORK_TORCH:
        return "mark the steps: prof.step() at the end of each, with torch.profiler.profile(schedule=...)";
    case FRAMEWORK_TENSORFLOW:
        return "mark the steps: with tf.profiler.experimental.Trace('train', step_num=n, _r=1) around the fetch and "
               "the step";
    case FRAMEWORK_JAX:
        return "mark the steps: with jax.profiler.StepTraceAnnotation('train', step_num=n) around the fetch and the "
               "step";
    default:
        return "mark the steps: prof.step() with torch.profiler, tf.profiler.experimental.Trace('train', step_num=n, "
               "_r=1), jax.profiler.StepTraceAnnotation('train', step_num=n), or stk_step(recorder, n)";
    }
}

static const char *how_to_show_waits(framework is, bool has_stacks)
{
    switch (is) {
    case FRAMEWORK_TORCH:
        return has_stacks ? "put what fetches a batch into with torch.profiler.record_function(\"data\")"
                          : "put what fetches a batch into with torch.profiler.record_function(\"data\"), or record "
                            "Python's functions: torch.profiler.profile(with_stack=True)";
    case FRAMEWORK_TENSORFLOW:
        return has_stacks ? "put what fetches a batch into with tf.profiler.experimental.Trace(\"data\")"
                          : "put what fetches a batch into with tf.profiler.experimental.Trace(\"data\"), or record "
                            "Python's functions: ProfilerOptions(python_tracer_level=1)";
    case FRAMEWORK_JAX:
        return "put what fetches a batch into with jax.profiler.TraceAnnotation(\"data\")";
    default:
        return "give what fetches a batch a span of its own, called \"data\"";
    }
}

/* ---- what to do ---- */

typedef struct remedy {
    const char *stage; /* what the stage's name starts with */
    const char *text;
} remedy;

/* After XProf's map of suggestions: sources, then what has a parallel version, then what has none. */
static const remedy tf_data_remedies[] = {
    {"TFRecord", "read several files at once: interleave(TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)"},
    {"TextLine", "read several files at once (interleave with num_parallel_calls), or store records instead of text"},
    {"FixedLengthRecord", "read several files at once: interleave with num_parallel_calls=tf.data.AUTOTUNE"},
    {"ArrayRecord", "read with more threads, from faster or local storage"},
    {"SSTable", "read several files at once: interleave with num_parallel_calls"},
    {"Generator",
     "a Python generator gives one element at a time under Python's lock: replace it with tf.data ops or files"},
    {"MatchingFiles", "listing files takes the time: list them once and pass the names"},
    {"DataService", "the data service is too slow: more workers, or faster ones"},
    {"ParallelMap",
     "the mapped function itself is slow: do less in it, map whole batches, or cache() what does not change"},
    {"MapAndBatch", "the mapped function itself is slow: do less in it, or cache() what does not change"},
    {"Map", "map(..., num_parallel_calls=tf.data.AUTOTUNE); cache() what does not change"},
    {"ParallelInterleave", "more parallel calls, or fewer and larger files"},
    {"Interleave", "interleave(..., num_parallel_calls=tf.data.AUTOTUNE)"},
    {"FlatMap", "use interleave with num_parallel_calls in place of flat_map"},
    {"ParallelBatch", "batches are copied slowly: smaller fields (uint8, not float32) before the batch"},
    {"Batch", "batch(..., num_parallel_calls=tf.data.AUTOTUNE), and smaller fields (uint8, not float32) before it"},
    {"ParseExample", "parse whole batches (parse_example after batch), and only the features that are used"},
    {"Filter", "filter has no parallel version: filter once ahead of training, or before costly stages"},
    {"Unbatch", "unbatch copies every element: keep batches, or store single elements"},
    {"Shuffle", "the shuffle buffer is being filled: a smaller one, or cheaper elements (shuffle records, not images)"},
    {"Cache", "the cache is being written or read: use memory, or a faster disk"},
    {"Prefetch",
     "what the prefetch waits for is not in the trace: profile with host_tracer_level=3, or use a larger buffer"},
    {NULL, "move work out of this stage, run it in parallel, or cache() what does not change"},
};

static const remedy op_remedies[] = {
    {"tfrecord", "reading takes the time: faster or local storage, uncompressed files, or several with interleave"},
    {"hdf5",
     "reading takes the time: write the data anew with lighter compression or as records (a pipeline that ends with "
     "write_hdf5 or write_tfrecord), or put cache behind hdf5"},
    {"image_folder", "reading takes the time: pack small files into records or a tar, or faster storage"},
    {"webdataset", "reading takes the time: more shards with interleave, or faster storage"},
    {"decode_image",
     "put cache behind decode_image, store smaller images, or crop right behind it so that only the region is decoded"},
    {"parse", "leave out fields that nothing uses, and put cache behind parse"},
    {"resize", "store images near their final size, or resize once and cache"},
    {"cache", "the cache is being written or read: a larger --memory, or a faster disk"},
    {"batch", "smaller fields (uint8, not float32) and normalize on the device"},
    {"encode_", "encoding is costly: write once, ahead of training"},
    {"unit", "the time goes between ops: larger batches, fewer fields"},
    {NULL, "put cache behind ops that are not random, or leave the op's fields out where they are not needed"},
};

static const char *find_remedy(const remedy *remedies, const char *name, size_t size)
{
    for (;; remedies++)
        if (!remedies->stage ||
            (size >= strlen(remedies->stage) && memcmp(name, remedies->stage, strlen(remedies->stage)) == 0))
            return remedies->text;
}

static bool advise_dataloader(stk__diagnosis *d, const char *name)
{
    if (strstr(name, SINGLE_PROCESS))
        return add_advice(d, "num_workers=0 loads data in the training process: DataLoader(num_workers=N, "
                             "persistent_workers=True) with N about the number of CPU cores");
    return add_advice(d, "more DataLoader workers (num_workers), a larger prefetch_factor, persistent_workers=True") &&
           add_advice(d,
                      "workers are other processes, which this trace does not show: give traces of theirs as further "
                      "files, and the slow stage is named");
}

static bool advise_inside(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__stage *stage = &d->stage;
    for (size_t i = 0; i < stage->count; i++)
        if (c->wait[stage->rows[i].name] == STK__WAIT_DATALOADER)
            if (!advise_dataloader(d, stk__trace_str(d->trace, stage->rows[i].name)))
                return false;
    if (stage->rows[0].is_wait)
        return d->advice_count ||
               add_advice(d, "the trace does not say what the wait is for: record what loads the data as well");
    sentence s;
    put_row(d, sentence_start(&s), &stage->rows[0]);
    return add_advice(d, "%s: do less of it while training (prepare data ahead, cache), or do it in workers", s.bytes);
}

static bool advise_ops(stk__diagnosis *d)
{
    const stk__stage *stage = &d->stage;
    size_t size;
    const char *name = stk__stage_label(d, stage->rows[0].name, &size);
    sentence s;
    put_row(d, sentence_start(&s), &stage->rows[0]);
    if (!add_advice(d, "%s: %s", s.bytes, find_remedy(op_remedies, name, size)))
        return false;
    if (stage->utilisation >= SATURATED)
        return add_advice(d,
                          "the %zu worker%s busy %.0f %% of the time: more threads (--threads) help if there are "
                          "cores",
                          stage->workers, stage->workers == 1 ? " is" : "s are", 100 * stage->utilisation);
    return stage->room_share > 0.5 ||
           add_advice(d,
                      "the workers are busy only %.0f %% of the time: they wait for storage or for a stream; several "
                      "files with interleave, or uncompressed ones",
                      100 * stage->utilisation);
}

static bool advise_host(stk__diagnosis *d)
{
    sentence s;
    put_row(d, sentence_start(&s), &d->stage.rows[0]);
    return add_advice(d, "%s loads data in the training thread: load the next batch meanwhile, in workers or threads, or "
                         "do less of it (prepare data ahead, cache)",
                      s.bytes);
}

static bool advise_stage(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__stage *stage = &d->stage;
    size_t size;
    sentence s;
    if (!stage->count)
        return add_advice(d, "the trace does not say what the wait is for: record the input pipeline as well");
    const char *name = stk__stage_label(d, stage->rows[0].name, &size);
    put_row(d, sentence_start(&s), &stage->rows[0]);
    switch (stage->kind) {
    case STK__STAGE_TIMELINE:
    case STK__STAGE_TF_DATA: {
        bool prefetches = false;
        for (size_t i = 0; i < stage->count; i++)
            prefetches = prefetches || strstr(stk__trace_str(d->trace, stage->rows[i].name), "Prefetch");
        return add_advice(d, "%s: %s", s.bytes, find_remedy(tf_data_remedies, name, size)) &&
               (prefetches || add_advice(d, "end the pipeline with prefetch(tf.data.AUTOTUNE), so that it runs ahead"));
    }
    case STK__STAGE_OPS:
        return advise_ops(d);
    case STK__STAGE_WORKERS:
        return add_advice(d, "%s takes most of the workers' time: make it cheaper, or cache its result", s.bytes) &&
               (stage->utilisation < SATURATED ||
                add_advice(d, "the workers are busy %.0f %% of the time: more of them", 100 * stage->utilisation));
    case STK__STAGE_HOST:
        return advise_host(d);
    default:
        return advise_inside(d, c);
    }
}

static bool advise(stk__diagnosis *d, const stk__classifier *c)
{
    const double copies = stk__percent_of(d->type_ns[STK__HOST_TO_DEVICE], d->step_ns);
    const double launches = stk__percent_of(d->type_ns[STK__HOST_PREPARE], d->step_ns);
    const framework is = framework_of(d->trace);
    bool ok = true;
    if (d->verdict == STK__VERDICT_HIGHLY || d->verdict == STK__VERDICT_MODERATELY)
        ok = advise_stage(d, c);
    if (ok && copies >= STK__MODERATELY_PERCENT)
        ok = add_advice(d,
                        "copies to the device take %.1f %%: pinned memory and non_blocking copies, or prefetch to the "
                        "device; uint8 in place of float32",
                        copies);
    if (ok && launches >= STK__LAUNCH_PERCENT)
        ok = add_advice(d,
                        "kernel launches take %.1f %%: larger batches, compiled or captured graphs%s",
                        launches, is == FRAMEWORK_TENSORFLOW ? "; TF_GPU_THREAD_MODE=gpu_private" : "");
    if (ok && d->other_percent >= STK__OTHER_PERCENT && d->verdict == STK__VERDICT_NOT && is == FRAMEWORK_TORCH)
        ok = add_advice(d, "record what the loop does in the time without events: with_stack=True, or spans of your own");
    if (ok && !d->advice_count)
        ok = add_advice(d, "nothing about the input: look at compute, with stoker top");
    return ok;
}

/* ---- what if ---- */

static void put_speed(const stk__diagnosis *d, stk__text *t)
{
    if (d->options.speedup == 2)
        stk__text_puts(t, "twice as fast");
    else
        stk__text_printf(t, "%g times as fast", d->options.speedup);
}

/* Of the worst rank, whose stage it is: the others wait for it. */
static bool add_what_if(stk__diagnosis *d, const char *what, double gain, const char *assumption)
{
    stk__what_if *w = &d->what_ifs[d->what_if_count];
    const double input_percent = d->ranks[d->worst].input_percent;
    gain = STK_MAX(0.0, STK_MIN(gain, input_percent));
    *w = (stk__what_if){
        .what = stk__strdup(what),
        .assumption = stk__strdup(assumption),
        .step_percent = -gain,
        .input_percent = gain < 100 ? stk__percent_of(input_percent - gain, 100 - gain) : 0,
    };
    d->what_if_count++;
    return w->what && w->assumption;
}

/*
 * Two models. Workers that are busy all the time set the pace: a batch takes their work divided by their number, so
 * that the whole step shrinks with the work, until nothing is waited for. Else only the wait shrinks, by the stage's
 * share of it.
 */
static bool stage_what_if(stk__diagnosis *d, const stk__stage_row *row, double wait_percent)
{
    const stk__stage *stage = &d->stage;
    const double saved = row->share * (1 - 1 / d->options.speedup);
    const bool paced =
        (stage->kind == STK__STAGE_OPS || stage->kind == STK__STAGE_WORKERS) && stage->utilisation >= SATURATED;
    sentence s, why;
    put_row(d, sentence_start(&s), row);
    stk__text_putc(&s.text, ' ');
    put_speed(d, &s.text);
    stk__text *t = sentence_start(&why);
    if (paced)
        stk__text_printf(
            t,
            "the workers are busy %.0f %% of the time and so set the pace: the step shrinks with their work, "
            "until nothing is waited for",
            100 * stage->utilisation);
    else if (stage->kind == STK__STAGE_TF_DATA)
        stk__text_puts(t, "the wait shrinks by what the stage had blocked; the other stages stay as they are");
    else
        stk__text_puts(t, "the wait shrinks in proportion to the stage's share of the time; it cannot go below 0");
    return add_what_if(d, s.bytes, paced ? STK_MIN(100 * saved, wait_percent) : saved * wait_percent, why.bytes);
}

static bool what_if(stk__diagnosis *d)
{
    const stk__rank *rank = &d->ranks[d->worst];
    const double wait_percent =
        stk__percent_of(rank->type_ns[STK__HOST_WAIT_INPUT] + rank->type_ns[STK__DEVICE_WAIT_HOST], rank->step_ns);
    sentence s;
    bool ok = true;
    if (rank->input_percent < 0.5)
        return true;
    if (!d->stage.count || d->stage.rows[0].is_wait) {
        stk__text_puts(sentence_start(&s), "all of the input ");
        put_speed(d, &s.text);
        ok = add_what_if(d, s.bytes, wait_percent * (1 - 1 / d->options.speedup), "the wait shrinks in proportion");
    }
    for (size_t i = 0; ok && i < d->stage.count && i < STK__WHAT_IFS; i++)
        if (d->stage.rows[i].share >= 0.05 && !d->stage.rows[i].is_wait)
            ok = stage_what_if(d, &d->stage.rows[i], wait_percent);
    return ok && add_what_if(d, "no wait for data at all", rank->input_percent, "everything else takes as long as now");
}

/* ---- no verdict ---- */

/*
 * Without steps, the share of the whole trace is better than nothing: a TensorFlow timeline of one step has no marker.
 */
static bool tell_waits_of_trace(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__trace *t = d->trace;
    const double extent = (double)stk__time_between(t->start_ns, t->end_ns);
    const unsigned kinds = stk__waits_that_count(0);
    stk__spans waits = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < t->slices.count; i++)
        if (c->wait[t->slices.name[i]] != STK__WAIT_NONE && stk__classify(c, i, kinds) == STK__HOST_WAIT_INPUT)
            ok = stk__spans_add(&waits, t->slices.ts[i], t->slices.ts[i] + t->slices.dur[i]);
    stk__spans_normalize(&waits);
    const double waited = (double)stk__spans_total(&waits);
    stk__spans_clear(&waits);
    if (!ok || waited <= 0 || extent <= 0)
        return ok;
    sentence s;
    stk__text_printf(sentence_start(&s),
                     "Waits for data cover %.1f %% of the time that the trace covers; how much of it "
                     "lies in steps is not known",
                     stk__percent_of(waited, extent));
    return add_evidence(d, &s);
}

/* The own function with the most time of which nothing is known, over all ranks' worst. */
static const stk__host_function *open_function(const stk__diagnosis *d)
{
    const stk__host_function *found = NULL;
    const stk__rank *rank = &d->ranks[d->worst];
    for (size_t i = 0; i < rank->host.function_count; i++) {
        const stk__host_function *f = &rank->host.functions[i];
        if (f->meaning == STK__HOST_OPEN && (!found || f->ns > found->ns))
            found = f;
    }
    return found && stk__percent_of(found->ns, rank->step_ns) >= STK__OTHER_PERCENT ? found : NULL;
}

static bool advise_naming(stk__diagnosis *d, const stk__host_function *f)
{
    const stk__stage_row row = {.name = f->at.name, .file = f->at.file, .line = f->at.line};
    stk__python_frame p;
    sentence s;
    if (!stk__stage_row_frame(d, &row, &p) || !p.own || memchr(p.function, '<', p.function_size))
        return true;
    put_cut(sentence_start(&s), p.function, p.function_size);
    return add_advice(d, "if %s loads data, say so: --wait '*%s*'", s.bytes, s.bytes);
}

/* There are steps, but most of the time may be input as well as anything else. */
static bool explain_open(stk__diagnosis *d)
{
    const framework is = framework_of(d->trace);
    const stk__host_function *f = open_function(d);
    const stk__rank *rank = &d->ranks[d->worst];
    sentence s;
    stk__text *t = sentence_start(&s);
    stk__text_printf(t,
                     "%.1f %% of step time waits for data as far as the trace shows, and %.1f %% may be a wait as well: ",
                     d->input_percent, d->open_percent);
    if (f) {
        stk__text_puts(t, f->is_op ? "the host op " : "host Python: ");
        put_function(d, t, &f->at);
        stk__text_printf(t, " %.0f %%", stk__percent_of(f->ns, rank->step_ns));
    } else {
        stk__text_puts(t, "it has no event that says what it was");
    }
    d->reason = stk__strdup(s.bytes);
    if (!d->reason || !tell_steps(d) || !tell_left_out(d) || !tell_between(d) || !tell_waits(d) || !tell_device(d) ||
        !tell_other(d) || !tell_ranks(d) || !tell_host(d))
        return false;
    if (f && !f->is_op && !advise_naming(d, f))
        return false;
    return add_advice(d, "%s", how_to_show_waits(is, rank->host.has_frames)) &&
           add_advice(d, "if a span in the trace is the fetch, name it: --wait PATTERN ('stoker top' lists the names)");
}

/* The thread in which a script runs: the one with its outermost function, else the busiest. */
static uint32_t script_track(const stk__classifier *c)
{
    const stk__trace *t = c->trace;
    uint32_t best = STK__NONE;
    double most = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        double busy = 0;
        if (c->roles[k] != STK__ROLE_HOST || t->tracks[k].lane)
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            stk__trim_at(t, i);
            if (strstr(stk__trace_str(t, t->slices.name[i]), "<module>"))
                busy += 1e3 * (double)t->slices.dur[i];
            else if (!t->slices.depth[i])
                busy += (double)t->slices.dur[i];
        }
        if (busy > most) {
            most = busy;
            best = (uint32_t)k;
        }
    }
    return best;
}

/* Without steps, what a sampler or a tracer of Python shows of the whole run is better than nothing. */
static bool tell_host_of_trace(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__trace *t = d->trace;
    const uint32_t track = script_track(c);
    const double extent = (double)stk__time_between(t->start_ns, t->end_ns);
    stk__host h = {0};
    if (track == STK__NONE || extent <= 0)
        return true;
    bool ok = stk__host_find(c, track, NULL, 0, &h);
    const stk__host_function *most = NULL;
    for (size_t i = 0; ok && i < h.span_count; i++)
        h.functions[h.spans[i].function].ns += (double)stk__time_between(h.spans[i].start, h.spans[i].end);
    for (size_t i = 0; ok && i < h.function_count; i++)
        if (h.functions[i].meaning != STK__HOST_KNOWN && (!most || h.functions[i].ns > most->ns))
            most = &h.functions[i];
    if (most && h.has_frames && 100 * most->ns >= extent) {
        sentence s;
        stk__text *text = sentence_start(&s);
        stk__text_puts(text, "Host Python: ");
        put_function(d, text, &most->at);
        stk__text_printf(text, " %.1f %% of the trace%s", stk__percent_of(most->ns, extent),
                         most->meaning == STK__HOST_INPUT ? "; it loads data" : "");
        d->host = *most;
        d->host_percent = stk__percent_of(most->ns, extent);
        ok = add_evidence(d, &s);
    }
    stk__host_clear(&h);
    return ok;
}

static bool explain_unknown(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__trace *t = d->trace;
    const char *why = "there are no step markers, and nothing comes back at regular intervals";
    if (!t->slices.count)
        why = t->samples.count || t->function_count
                  ? "these are profiles without times of single events; a verdict needs a trace with steps"
                  : "there are no slices in it";
    else if (d->steps.count)
        why = "the steps have no time in them";
    d->reason = stk__strdup(why);
    return d->reason && add_advice(d, "%s", how_to_mark(framework_of(t))) &&
           (!t->slices.count || add_advice(d, "or name what starts a step: --step PATTERN ('stoker top' lists the "
                                              "names)")) &&
           tell_waits_of_trace(d, c) && tell_host_of_trace(d, c);
}

bool stk__diagnosis_explain(stk__diagnosis *d, const stk__classifier *c)
{
    if (d->verdict == STK__VERDICT_UNKNOWN)
        return d->step_ns > 0 ? explain_open(d) : explain_unknown(d, c);
    return tell_steps(d) && tell_left_out(d) && tell_between(d) && tell_waits(d) && tell_device(d) && tell_other(d) &&
           tell_ranks(d) && tell_stage(d) && tell_host(d) && advise(d, c) && what_if(d);
}
