/* What to do about the slow stage, and what that would gain. */
#include <string.h>

#include "analyze/diagnose_words.h"
#include "base/mem.h"

#include "base/banned.h"

/* Above this, workers count as busy all the time: then they set the pace. */
static const double SATURATED = 0.8;

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
    if (strstr(name, STK__SINGLE_PROCESS))
        return stk__add_advice(d, "num_workers=0 loads data in the training process: DataLoader(num_workers=N, "
                                  "persistent_workers=True) with N about the number of CPU cores");
    return stk__add_advice(
               d, "more DataLoader workers (num_workers), a larger prefetch_factor, persistent_workers=True") &&
           stk__add_advice(
               d, "workers are other processes, which this trace does not show: give traces of theirs as further "
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
               stk__add_advice(d, "the trace does not say what the wait is for: record what loads the data as well");
    stk__words s;
    stk__put_row(d, stk__sentence(&s), &stage->rows[0]);
    return stk__add_advice(d, "%s: do less of it while training (prepare data ahead, cache), or do it in workers",
                           s.bytes);
}

static bool advise_ops(stk__diagnosis *d)
{
    const stk__stage *stage = &d->stage;
    size_t size;
    const char *name = stk__stage_label(d, stage->rows[0].name, &size);
    stk__words s;
    stk__put_row(d, stk__sentence(&s), &stage->rows[0]);
    if (!stk__add_advice(d, "%s: %s", s.bytes, find_remedy(op_remedies, name, size)))
        return false;
    if (stage->utilisation >= SATURATED)
        return stk__add_advice(d,
                               "the %zu worker%s busy %.0f %% of the time: more threads (--threads) help if there are "
                               "cores",
                               stage->workers, stage->workers == 1 ? " is" : "s are", 100 * stage->utilisation);
    return stage->room_share > 0.5 ||
           stk__add_advice(
               d,
               "the workers are busy only %.0f %% of the time: they wait for storage or for a stream; several "
               "files with interleave, or uncompressed ones",
               100 * stage->utilisation);
}

static bool advise_host(stk__diagnosis *d)
{
    stk__words s;
    stk__put_row(d, stk__sentence(&s), &d->stage.rows[0]);
    return stk__add_advice(
        d,
        "%s loads data in the training thread: load the next batch meanwhile, in workers or threads, or "
        "do less of it (prepare data ahead, cache)",
        s.bytes);
}

static bool advise_stage(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__stage *stage = &d->stage;
    size_t size;
    stk__words s;
    if (!stage->count)
        return stk__add_advice(d, "the trace does not say what the wait is for: record the input pipeline as well");
    const char *name = stk__stage_label(d, stage->rows[0].name, &size);
    stk__put_row(d, stk__sentence(&s), &stage->rows[0]);
    switch (stage->kind) {
    case STK__STAGE_TIMELINE:
    case STK__STAGE_TF_DATA: {
        bool prefetches = false;
        for (size_t i = 0; i < stage->count; i++)
            prefetches = prefetches || strstr(stk__trace_str(d->trace, stage->rows[i].name), "Prefetch");
        return stk__add_advice(d, "%s: %s", s.bytes, find_remedy(tf_data_remedies, name, size)) &&
               (prefetches ||
                stk__add_advice(d, "end the pipeline with prefetch(tf.data.AUTOTUNE), so that it runs ahead"));
    }
    case STK__STAGE_OPS:
        return advise_ops(d);
    case STK__STAGE_WORKERS:
        return stk__add_advice(d, "%s takes most of the workers' time: make it cheaper, or cache its result",
                               s.bytes) &&
               (stage->utilisation < SATURATED ||
                stk__add_advice(d, "the workers are busy %.0f %% of the time: more of them", 100 * stage->utilisation));
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
    const stk__framework is = stk__framework_of(d->trace);
    bool ok = true;
    if (d->verdict == STK__VERDICT_HIGHLY || d->verdict == STK__VERDICT_MODERATELY)
        ok = advise_stage(d, c);
    if (ok && copies >= STK__MODERATELY_PERCENT)
        ok = stk__add_advice(
            d,
            "copies to the device take %.1f %%: pinned memory and non_blocking copies, or prefetch to the "
            "device; uint8 in place of float32",
            copies);
    if (ok && launches >= STK__LAUNCH_PERCENT)
        ok = stk__add_advice(d, "kernel launches take %.1f %%: larger batches, compiled or captured graphs%s", launches,
                             is == STK__TENSORFLOW ? "; TF_GPU_THREAD_MODE=gpu_private" : "");
    if (ok && d->other_percent >= STK__OTHER_PERCENT && d->verdict == STK__VERDICT_NOT && is == STK__TORCH)
        ok = stk__add_advice(
            d, "record what the loop does in the time without events: with_stack=True, or spans of your own");
    if (ok && !d->advice_count)
        ok = stk__add_advice(d, "nothing about the input: look at compute, with stoker top");
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
    stk__words s, why;
    stk__put_row(d, stk__sentence(&s), row);
    stk__text_putc(&s.text, ' ');
    put_speed(d, &s.text);
    stk__text *t = stk__sentence(&why);
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
    stk__words s;
    bool ok = true;
    if (rank->input_percent < 0.5)
        return true;
    if (!d->stage.count || d->stage.rows[0].is_wait) {
        stk__text_puts(stk__sentence(&s), "all of the input ");
        put_speed(d, &s.text);
        ok = add_what_if(d, s.bytes, wait_percent * (1 - 1 / d->options.speedup), "the wait shrinks in proportion");
    }
    for (size_t i = 0; ok && i < d->stage.count && i < STK__WHAT_IFS; i++)
        if (d->stage.rows[i].share >= 0.05 && !d->stage.rows[i].is_wait)
            ok = stage_what_if(d, &d->stage.rows[i], wait_percent);
    return ok && add_what_if(d, "no wait for data at all", rank->input_percent, "everything else takes as long as now");
}

bool stk__diagnosis_explain(stk__diagnosis *d, const stk__classifier *c)
{
    if (d->verdict == STK__VERDICT_UNKNOWN)
        return d->step_ns > 0 ? stk__explain_open(d) : stk__explain_unknown(d, c);
    return stk__tell(d) && advise(d, c) && what_if(d);
}
