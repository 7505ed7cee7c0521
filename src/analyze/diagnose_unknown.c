/* No verdict: why, what can be said all the same, and what would give one. */
#include <string.h>

#include "analyze/diagnose_words.h"
#include "base/mem.h"

#include "base/banned.h"

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
    stk__words s;
    stk__text_printf(stk__sentence(&s),
                     "Waits for data cover %.1f %% of the time that the trace covers; how much of it "
                     "lies in steps is not known",
                     stk__percent_of(waited, extent));
    return stk__add_evidence(d, &s);
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
    stk__words s;
    if (!stk__stage_row_frame(d, &row, &p) || !p.own || memchr(p.function, '<', p.function_size))
        return true;
    stk__put_cut(stk__sentence(&s), p.function, p.function_size);
    return stk__add_advice(d, "if %s loads data, say so: --wait '*%s*'", s.bytes, s.bytes);
}

/* There are steps, but most of the time may be input as well as anything else. */
bool stk__explain_open(stk__diagnosis *d)
{
    const stk__framework is = stk__framework_of(d->trace);
    const stk__host_function *f = open_function(d);
    const stk__rank *rank = &d->ranks[d->worst];
    stk__words s;
    stk__text *t = stk__sentence(&s);
    stk__text_printf(
        t, "%.1f %% of step time waits for data as far as the trace shows, and %.1f %% may be a wait as well: ",
        d->input_percent, d->open_percent);
    if (f) {
        stk__text_puts(t, f->is_op ? "the host op " : "host Python: ");
        stk__put_function(d, t, &f->at);
        stk__text_printf(t, " %.0f %%", stk__percent_of(f->ns, rank->step_ns));
    } else {
        stk__text_puts(t, "it has no event that says what it was");
    }
    d->reason = stk__strdup(s.bytes);
    if (!d->reason || !stk__tell_open(d))
        return false;
    if (f && !f->is_op && !advise_naming(d, f))
        return false;
    return stk__add_advice(d, "%s", stk__how_to_show_waits(is, rank->host.has_frames)) &&
           stk__add_advice(
               d, "if a span in the trace is the fetch, name it: --wait PATTERN ('stoker top' lists the names)");
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
        stk__words s;
        stk__text *text = stk__sentence(&s);
        stk__text_puts(text, "Host Python: ");
        stk__put_function(d, text, &most->at);
        stk__text_printf(text, " %.1f %% of the trace%s", stk__percent_of(most->ns, extent),
                         most->meaning == STK__HOST_INPUT ? "; it loads data" : "");
        d->host = *most;
        d->host_percent = stk__percent_of(most->ns, extent);
        ok = stk__add_evidence(d, &s);
    }
    stk__host_clear(&h);
    return ok;
}

static const char *why_unknown(const stk__diagnosis *d)
{
    const stk__trace *t = d->trace;
    if (stk__files_are(t, "snapshot"))
        return "this is a snapshot of memory, which has no steps";
    if (t->slices.count)
        return d->steps.count               ? "the steps have no time in them"
               : d->options.told.step_count ? "no slice matches --step"
                                            : "there are no step markers, and nothing comes back at regular intervals";
    return t->samples.count || t->function_count
               ? "these are profiles without times of single events; a verdict needs a trace with steps"
               : "there are no slices in it";
}

bool stk__explain_unknown(stk__diagnosis *d, const stk__classifier *c)
{
    const stk__trace *t = d->trace;
    d->reason = stk__strdup(why_unknown(d));
    if (!d->reason)
        return false;
    if (stk__files_are(t, "snapshot"))
        return stk__add_advice(d,
                               "what held the memory: stoker top FILE; how it went: the table counter of stoker sql");
    return stk__add_advice(d, "%s", stk__how_to_mark(t)) &&
           (!t->slices.count || d->options.told.step_count ||
            stk__add_advice(d, "or name what starts a step: --step PATTERN ('stoker top' lists the names)")) &&
           stk__tell_trace(d) && tell_waits_of_trace(d, c) && tell_host_of_trace(d, c);
}
