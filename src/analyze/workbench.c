/* The public workbench: traces that are opened, counted and closed, and the verdict on them. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include <stoker/workbench.h>

#include <sqlite3.h>

#include "analyze/diagnose.h"
#include "analyze/workbench.h"
#include "analyze/workbench_impl.h"
#include "base/interrupt.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- which files ---- */

/* The path among the first `count` that is the same file; NULL. Pipes and what is not there are never the same. */
static const char *same_file(const stk__paths *paths, size_t count, const char *path)
{
    struct stat a, b;
    if (!count || stat(path, &a) != 0 || !S_ISREG(a.st_mode))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (stat(paths->items[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return paths->items[i];
    }
    return NULL;
}

stk_status stk__trace_paths(const char *const *patterns, size_t count, stk__paths *out,
                            void (*repeated)(void *arg, const char *path, const char *before), void *arg,
                            stk_error *err)
{
    for (size_t i = 0; i < count; i++)
        STK_TRY(stk__paths_glob(out, patterns[i], err));
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        const char *before = same_file(out, kept, out->items[i]);
        if (!before) {
            out->items[kept++] = out->items[i];
            continue;
        }
        if (repeated)
            repeated(arg, out->items[i], before);
        stk__free(out->items[i]);
    }
    out->count = kept;
    return STK_OK;
}

/* ---- open and close ---- */

static stk_status read_options(const stk_trace_options *in, stk__trace_options *out, stk_error *err)
{
    stk_trace_options o = {.struct_size = sizeof o};
    if (in && in->struct_size < sizeof in->struct_size)
        return stk_error_set(err, STK_INVALID, "struct_size of the trace options is %zu, wanted %zu", in->struct_size,
                             sizeof o);
    if (in)
        memcpy(&o, in, STK_MIN(in->struct_size, sizeof o));
    stk__join_processes join;
    if (!stk__join_find(o.join_processes, &join))
        return stk_error_set(err, STK_INVALID, "join_processes is '%s', wanted auto, always or never",
                             o.join_processes);
    *out = (stk__trace_options){
        .memory_bytes = o.memory_bytes,
        .temp_dir = o.temp_dir,
        .cache_dir = o.cache_dir,
        .format = o.format,
        .join = join,
        .progress = o.progress,
        .progress_arg = o.progress_arg,
    };
    return STK_OK;
}

static stk_status check_paths(const char *const *paths, size_t count, stk_error *err)
{
    size_t pipes = 0;
    if (!count)
        return stk_error_set(err, STK_INVALID, "found no path of a trace, wanted one or more");
    for (size_t i = 0; i < count; i++) {
        if (!paths[i] || !paths[i][0])
            return stk_error_set(err, STK_INVALID, "path %zu of %zu is empty, wanted that of a trace", i + 1, count);
        pipes += strcmp(paths[i], "-") == 0;
    }
    if (pipes > 1)
        return stk_error_set(err, STK_INVALID, "'-' given %zu times; standard input can be read once", pipes);
    return STK_OK;
}

typedef struct expanding {
    const stk__trace_options *how;
    const char *first;
} expanding;

/* A pattern may take long to expand: whoever is told of progress may stop it. */
static bool is_stopped(void *arg)
{
    const expanding *e = arg;
    return e->how->progress && !e->how->progress(e->how->progress_arg, e->first, 0, 0);
}

static stk_status read_model(const char *const *paths, size_t count, const stk_trace_options *options, stk__trace **out,
                             stk_error *err)
{
    stk__trace_options how;
    stk__paths expanded = {0};
    STK_TRY(read_options(options, &how, err));
    STK_TRY(check_paths(paths, count, err));
    expanding e = {&how, count ? paths[0] : ""};
    const stk__interrupt before = stk__interrupt_set((stk__interrupt){is_stopped, &e});
    stk_status status = stk__trace_paths(paths, count, &expanded, NULL, NULL, err);
    stk__interrupt_set(before);
    if (status == STK_OK)
        status = stk__trace_open((const char *const *)expanded.items, expanded.count, &how, out, err);
    stk__paths_clear(&expanded);
    return status;
}

stk_status stk_trace_open(const char *const *paths, size_t count, const stk_trace_options *options, stk_trace **out,
                          stk_error *err)
{
    stk_trace *trace = stk__calloc(1, sizeof *trace);
    if (!trace)
        return stk__nomem(sizeof *trace, err);
    atomic_init(&trace->references, 1);
    atomic_init(&trace->cancelled, false);
    const stk_status status = read_model(paths, count, options, &trace->model, err);
    if (status != STK_OK) {
        stk__free(trace);
        return status;
    }
    pthread_mutex_init(&trace->lock, NULL);
    *out = trace;
    return STK_OK;
}

stk_trace *stk__workbench_ref(stk_trace *trace)
{
    atomic_fetch_add_explicit(&trace->references, 1, memory_order_relaxed);
    return trace;
}

void stk__workbench_unref(stk_trace *trace)
{
    if (!trace || atomic_fetch_sub_explicit(&trace->references, 1, memory_order_acq_rel) > 1)
        return;
    if (trace->strings) {
        stk__free((void *)trace->strings->offsets);
        stk__free((void *)trace->strings->bytes);
    }
    stk__free(trace->strings);
    stk__free(trace->numbers);
    stk__trace_free(trace->model);
    pthread_mutex_destroy(&trace->lock);
    stk__free(trace);
}

void stk_trace_close(stk_trace *trace)
{
    if (!trace)
        return;
    /* Tables that live on ask no more questions. */
    for (size_t i = 0; i < trace->idle_count; i++)
        sqlite3_close(trace->idle[i]);
    trace->idle_count = 0;
    stk__workbench_unref(trace);
}

void stk_trace_cancel(stk_trace *trace, bool cancel)
{
    atomic_store_explicit(&trace->cancelled, cancel, memory_order_release);
}

stk_status stk__workbench_stopped(stk_trace *trace, stk_error *err)
{
    if (!atomic_load_explicit(&trace->cancelled, memory_order_acquire))
        return STK_OK;
    return stk_error_set(err, STK_CANCELLED, "the question was cancelled");
}

/* ---- what all tables share ---- */

static stk__dictionary *make_strings(const stk__trace *t)
{
    stk__dictionary *d = stk__calloc(1, sizeof *d);
    int64_t *offsets = stk__calloc((size_t)t->string_count + 1, sizeof *offsets);
    char *bytes = NULL;
    size_t size = 0, capacity = 0;
    bool good = d && offsets;
    /* Once, in one piece: doubling would take twice the room of what is known beforehand. */
    if (good && t->string_count) {
        capacity = (size_t)t->string_offset[t->string_count];
        good = (bytes = stk__alloc(capacity)) != NULL;
    }
    for (uint32_t i = 0; good && i < t->string_count; i++) {
        size_t length;
        const char *text = stk__trace_text(t, i, &length);
        good = stk__append_utf8(&bytes, &size, &capacity, text, length);
        offsets[i + 1] = (int64_t)size;
    }
    if (!good) {
        stk__free(d);
        stk__free(offsets);
        stk__free(bytes);
        return NULL;
    }
    *d = (stk__dictionary){t->string_count, offsets, bytes, size > INT32_MAX};
    if (!d->large) {
        int32_t *narrow = (int32_t *)offsets;
        for (size_t i = 0; i <= t->string_count; i++)
            narrow[i] = (int32_t)offsets[i];
        void *less = stk__realloc(narrow, ((size_t)t->string_count + 1) * sizeof *narrow);
        d->offsets = less ? less : narrow;
    }
    return d;
}

const stk__dictionary *stk__workbench_strings(stk_trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    if (!trace->strings)
        trace->strings = make_strings(trace->model);
    const stk__dictionary *d = trace->strings;
    pthread_mutex_unlock(&trace->lock);
    return d;
}

const uint32_t *stk__workbench_numbers(stk_trace *trace)
{
    const stk__trace *t = trace->model;
    const size_t rows = STK_MAX(STK_MAX(t->slices.count, t->counters.count), STK_MAX(t->samples.count, t->flows.count));
    pthread_mutex_lock(&trace->lock);
    if (!trace->numbers && (trace->numbers = stk__calloc(rows + 1, sizeof *trace->numbers))) {
        for (size_t i = 0; i < rows; i++)
            trace->numbers[i] = (uint32_t)i;
    }
    const uint32_t *numbers = trace->numbers;
    pthread_mutex_unlock(&trace->lock);
    return numbers;
}

/* ---- the verdict ---- */

/* The text's memory becomes the caller's. */
static stk_status hand_over(stk__text *text, char **out, stk_error *err)
{
    if (!text->failed && !text->data)
        text->data = stk__strdup("");
    if (!text->failed && text->data) {
        *out = text->data;
        return STK_OK;
    }
    const size_t wanted = text->length + 1;
    stk__text_clear(text);
    return stk__nomem(wanted, err);
}

stk_status stk_trace_diagnose(stk_trace *trace, const stk_diagnose_options *options, char **out_text, char **out_json,
                              stk_error *err)
{
    stk_diagnose_options o = {0};
    if (options)
        memcpy(&o, options, STK_MIN(options->struct_size, sizeof o));
    const double what_if = o.what_if;
    if (what_if != 0 && !(what_if > 1 && isfinite(what_if)))
        return stk_error_set(err, STK_INVALID, "what_if is %g, wanted how many times faster: a number above 1, or 0",
                             what_if);
    STK_TRY(stk__workbench_stopped(trace, err));
    const stk__diagnose_options how = {
        .speedup = what_if,
        .told = {.waits = o.waits, .wait_count = o.wait_count, .steps = o.steps, .step_count = o.step_count},
        .one_rank = o.one_rank,
        .rank = o.rank,
    };
    stk__diagnosis *d = NULL;
    STK_TRY(stk__diagnose(trace->model, &how, &d, err));
    stk__text text = STK__TEXT_INIT, json = STK__TEXT_INIT;
    char *made_text = NULL, *made_json = NULL;
    stk__diagnosis_text(d, &text);
    stk__diagnosis_json(d, &json);
    stk__diagnosis_free(d);
    stk_status status = hand_over(&text, &made_text, err);
    if (status == STK_OK)
        status = hand_over(&json, &made_json, err);
    else
        stk__text_clear(&json);
    if (status == STK_OK)
        status = stk__workbench_stopped(trace, err);
    if (status == STK_OK && out_text) {
        *out_text = made_text;
        made_text = NULL;
    }
    if (status == STK_OK && out_json) {
        *out_json = made_json;
        made_json = NULL;
    }
    stk__free(made_text);
    stk__free(made_json);
    return status;
}
