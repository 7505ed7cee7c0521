/* What a diagnosis rests on, in sentences: the steps, the waits, the device, the ranks, the stage, the host. */
#include <string.h>

#include "analyze/diagnose_words.h"

#include "base/banned.h"

static bool tell_steps(stk__diagnosis *d)
{
    stk__words s;
    stk__text *t = stk__sentence(&s);
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
    return stk__add_evidence(d, &s);
}

static bool tell_idle_steps(stk__diagnosis *d)
{
    size_t idle = 0;
    stk__words s;
    for (size_t r = 0; r < d->rank_count; r++)
        idle += d->ranks[r].idle_steps;
    if (!idle)
        return true;
    stk__text_printf(stk__sentence(&s),
                     "In %zu of the steps the device computes nothing; they count, since less than half would be left "
                     "without them",
                     idle);
    return stk__add_evidence(d, &s);
}

static bool tell_left_out(stk__diagnosis *d)
{
    size_t left_out = 0;
    stk__words s;
    for (size_t r = 0; r < d->rank_count; r++)
        left_out += d->ranks[r].left_out;
    if (!left_out)
        return tell_idle_steps(d);
    stk__text_printf(stk__sentence(&s), "%zu step%s left out: without time, or without work on the device", left_out,
                     left_out == 1 ? "" : "s");
    return stk__add_evidence(d, &s) && tell_idle_steps(d);
}

/* Time outside of the markers is not in the share, which follows XProf; where it is much, people must know. */
static bool tell_between(stk__diagnosis *d)
{
    const double all = d->between_ns + d->step_ns;
    const double percent = stk__percent_of(d->between_ns, all);
    stk__words s;
    bool with_waits = true; /* steps that start where their batch is asked for leave no fetch outside */
    if (percent <= STK__BETWEEN_PERCENT)
        return true;
    for (size_t r = 0; r < d->rank_count; r++)
        with_waits = with_waits && d->ranks[r].kind == STK__STEP_RECORDER;
    stk__text *t = stk__sentence(&s);
    stk__text_printf(t, "%.1f %% of the time lies between the steps%s and is not counted", percent,
                     with_waits ? "" : "' markers");
    if (with_waits)
        stk__text_puts(t, "; waits for batches are counted, wherever they lie");
    else
        stk__text_printf(t,
                         "; %.1f %% of it waits for data. If data is fetched there, move the fetch inside the marker",
                         stk__percent_of(d->between_wait_ns, d->between_ns));
    return stk__add_evidence(d, &s);
}

/* A pattern that matches nothing changes nothing, which must not look as if it had. */
static bool tell_unmatched(stk__diagnosis *d)
{
    stk__words s;
    bool seen = !d->options.told.wait_count;
    for (size_t r = 0; r < d->rank_count; r++)
        seen = seen || d->ranks[r].waits_seen & 1u << STK__WAIT_TOLD;
    if (seen)
        return true;
    stk__text_puts(stk__sentence(&s), "No slice of the training process matches --wait: waits are those that the trace "
                                      "shows by itself");
    return stk__add_evidence(d, &s);
}

static bool tell_waits(stk__diagnosis *d)
{
    stk__words s;
    if (!tell_unmatched(d))
        return false;
    if (d->hints_only)
        stk__text_puts(stk__sentence(&s), "The wait is known from spans with names like \"data\" alone, so the verdict "
                                          "is less certain");
    else if (!d->visible)
        stk__text_puts(stk__sentence(&s),
                       "In most steps no slice shows a wait for data (DataLoader, IteratorGetNext, infeed, wait for "
                       "batch, a span called \"data\"): what the training thread does itself is looked at");
    else
        return true;
    return stk__add_evidence(d, &s);
}

static bool tell_host_function(stk__diagnosis *d, const stk__host_function *f, double percent)
{
    stk__words s;
    stk__text *t = stk__sentence(&s);
    stk__text_puts(t, f->is_op ? "Host op without a launch: " : "Host Python: ");
    stk__put_function(d, t, &f->at);
    if (f->self)
        stk__text_puts(t, ", the lines between its calls");
    if (f->around.name) {
        stk__text_puts(t, " in ");
        stk__put_function(d, t, &f->around);
    }
    stk__text_printf(t, " %.1f %% of step time", percent);
    if (f->meaning == STK__HOST_INPUT && f->because.name && f->because.name != f->at.name) {
        stk__text_puts(t, "; loads data, as it calls ");
        stk__put_function(d, t, &f->because);
    } else if (f->meaning == STK__HOST_INPUT) {
        stk__text_puts(t, "; loads data, by its name");
    } else if (f->meaning == STK__HOST_OPEN) {
        stk__text_puts(t, "; whether it loads data, the trace does not say");
    }
    return stk__add_evidence(d, &s);
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
    stk__words s;
    if (d->has_device)
        return true;
    stk__text_puts(stk__sentence(&s), "No device is in the trace, so the host's compute counts as work");
    return stk__add_evidence(d, &s);
}

static bool tell_other(stk__diagnosis *d)
{
    stk__words s;
    if (d->other_percent < STK__OTHER_PERCENT)
        return true;
    stk__text_printf(stk__sentence(&s),
                     "%.1f %% of the step time has no event at all (threshold %.0f %%): Python or I/O that nothing "
                     "recorded, and potentially input as well",
                     d->other_percent, STK__OTHER_PERCENT);
    return stk__add_evidence(d, &s);
}

static bool tell_ranks(stk__diagnosis *d)
{
    const stk__rank *worst = &d->ranks[d->worst];
    stk__words s;
    if (d->rank_count < 2)
        return true;
    stk__text *t = stk__sentence(&s);
    stk__text_puts(t, "Worst rank: ");
    const int64_t rank = worst->file < d->trace->file_count ? d->trace->files[worst->file].rank : -1;
    if (rank >= 0)
        stk__text_printf(t, "%lld, ", (long long)rank);
    if (worst->file < d->trace->file_count)
        stk__put_name(d, t, d->trace->files[worst->file].path);
    if (worst->process < d->trace->process_count)
        stk__text_printf(t, ", process %lld", (long long)d->trace->processes[worst->process].pid);
    stk__text_printf(t, ": %.1f %% input; stage and gaps are its own", worst->input_percent);
    return stk__add_evidence(d, &s);
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
    stk__words s;
    if (!stage->count || stage->kind == STK__STAGE_HOST)
        return true; /* told as a function of the host */
    stk__text *t = stk__sentence(&s);
    if (stage->rows[0].is_wait) {
        const bool here = strstr(stk__trace_str(d->trace, stage->rows[0].name), STK__SINGLE_PROCESS);
        stk__text_printf(t, "%.0f %% of the wait has nothing inside that says why: %s", 100 * stage->rows[0].share,
                         here ? "data is loaded in the training process, by code that was not recorded"
                              : "it is for other processes, or for code that was not recorded");
        return stk__add_evidence(d, &s);
    }
    stk__text_puts(t, "Slowest stage: ");
    stk__put_row(d, t, &stage->rows[0]);
    stk__text_printf(t, ", %.1f %% %s; %llu call%s, median ", 100 * stage->rows[0].share, of[stage->kind],
                     (unsigned long long)stage->rows[0].calls, stage->rows[0].calls == 1 ? "" : "s");
    stk__text_duration(t, (double)stage->rows[0].p50);
    stk__text_puts(t, ", p95 ");
    stk__text_duration(t, (double)stage->rows[0].p95);
    if (stage->workers)
        stk__text_printf(t, "; %zu worker%s, busy %.0f %% of the time", stage->workers, stage->workers == 1 ? "" : "s",
                         100 * stage->utilisation);
    return stk__add_evidence(d, &s);
}

/* Whose trace it is, of which device, and how long: what one wants to see first of a file that somebody sent. */
bool stk__tell_trace(stk__diagnosis *d)
{
    const stk__trace *t = d->trace;
    const char *framework = stk__framework_name(stk__framework_of(t));
    stk__words s;
    stk__text *text = stk__sentence(&s);
    stk__string devices[STK__DEVICES];
    const size_t count = stk__device_names(t, devices);
    if (!framework && !count)
        return true;
    stk__text_printf(text, "A trace of %s", framework ? framework : "an unknown framework");
    for (size_t i = 0; i < count; i++) {
        stk__text_puts(text, ", ");
        stk__put_name(d, text, devices[i]);
    }
    if (t->file_count == 1) { /* several may have clocks of their own */
        stk__text_puts(text, ", ");
        stk__text_duration(text, (double)stk__time_between(t->start_ns, t->end_ns));
        stk__text_puts(text, " long");
    }
    return stk__add_evidence(d, &s);
}

bool stk__tell_open(stk__diagnosis *d)
{
    return stk__tell_trace(d) && tell_steps(d) && tell_left_out(d) && tell_between(d) && tell_waits(d) &&
           tell_device(d) && tell_other(d) && tell_ranks(d) && tell_host(d);
}

bool stk__tell(stk__diagnosis *d)
{
    return stk__tell_trace(d) && tell_steps(d) && tell_left_out(d) && tell_between(d) && tell_waits(d) &&
           tell_device(d) && tell_other(d) && tell_ranks(d) && tell_stage(d) && tell_host(d);
}
