/* What a comparison looks like: for people, as JSON, as CSV. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/diff.h"
#include "base/mem.h"

#include "base/banned.h"

/* Figures of rows in a fixed order; one list gives the fields of JSON and the columns of CSV. */
typedef struct figure {
    const char *name;
    double (*get)(const stk__diff_side *s);
} figure;

static double get_count(const stk__diff_side *s)
{
    return (double)s->count;
}
static double get_total(const stk__diff_side *s)
{
    return (double)s->total;
}
static double get_self(const stk__diff_side *s)
{
    return (double)s->self;
}
static double get_self_share(const stk__diff_side *s)
{
    return s->self_share;
}
static double get_mean(const stk__diff_side *s)
{
    return s->mean;
}
static double get_median(const stk__diff_side *s)
{
    return s->median.value;
}
static double get_per_step(const stk__diff_side *s)
{
    return s->per_step;
}
static double get_self_per_step(const stk__diff_side *s)
{
    return s->self_per_step;
}
static double get_calls_per_step(const stk__diff_side *s)
{
    return s->calls_per_step;
}

static const figure figures[] = {
    {"count", get_count},
    {"total", get_total},
    {"self", get_self},
    {"self_share", get_self_share},
    {"mean", get_mean},
    {"median", get_median},
    {"per_step", get_per_step},
    {"self_per_step", get_self_per_step},
    {"calls_per_step", get_calls_per_step},
};

#define CALLS_TOLD 0.1 /* counts that differ by less may come from the cut at both ends */

/* ---- pieces of text ---- */

static void put_ns(char *out, size_t size, double ns)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    if (isnan(ns) || ns == 0) {
        snprintf(out, size, isnan(ns) ? "-" : "0");
        return;
    }
    size_t u = 0;
    while (u + 1 < STK_COUNT(units) && fabs(ns) < units[u].ns * 0.9995)
        u++;
    const double x = ns / units[u].ns;
    snprintf(out, size, "%.*f %s",
             fabs(x) < 9.9995   ? 3
             : fabs(x) < 99.995 ? 2
             : fabs(x) < 999.95 ? 1
                                : 0,
             x, units[u].name);
}

static void put_share(char *out, size_t size, double share)
{
    if (isnan(share))
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%.2f %%", 100 * share);
}

static bool are_bytes(uint32_t unit)
{
    return unit == STK__UNIT_BYTES || unit == STK__UNIT_ALLOCATED;
}

static void put_bytes(char *out, size_t size, double x)
{
    stk__text text;
    stk__text_fixed(&text, out, size);
    stk__text_puts(&text, x < 0 ? "-" : "");
    stk__text_bytes(&text, (uint64_t)fabs(x));
}

static void put_quantity(char *out, size_t size, double x, stk__diff_basis basis, uint32_t unit)
{
    if (basis == STK__DIFF_PER_SHARE)
        put_share(out, size, x);
    else if (unit == STK__UNIT_NS || isnan(x))
        put_ns(out, size, x);
    else if (are_bytes(unit))
        put_bytes(out, size, x);
    else
        snprintf(out, size, "%.6g", x);
}

static void put_change(char *out, size_t size, double change)
{
    if (isnan(change))
        snprintf(out, size, "-");
    else if (isinf(change))
        snprintf(out, size, "from 0");
    else if (change > 9.995)
        snprintf(out, size, "x%.3g", change + 1);
    else if (fabs(change) < 0.0005)
        snprintf(out, size, "0.0 %%");
    else
        snprintf(out, size, "%+.1f %%", 100 * change);
}

static void put_p(char *out, size_t size, double p)
{
    if (isnan(p))
        snprintf(out, size, "-");
    else if (p < 1e-99)
        snprintf(out, size, "<1e-99");
    else
        snprintf(out, size, "%.2g", p);
}

/* A name from a trace: control bytes escaped, the end cut off. */
static void text_name(stk__text *out, const char *name)
{
    char line[400];
    if (stk__escape_terminal(name, line, sizeof line) >= sizeof line) {
        size_t cut = sizeof line - 4;
        while (cut && ((unsigned char)line[cut] & 0xc0) == 0x80)
            cut--; /* not inside a character */
        memcpy(line + cut, "...", 4);
    }
    stk__text_puts(out, name[0] ? line : "(no name)");
}

/* ---- for people ---- */

static void text_total(stk__text *out, const char *what, const char *before, const char *after, const char *rest)
{
    stk__text_printf(out, "%-22s%14s%14s  %s", what, before, after, rest);
    while (out->length && out->data[out->length - 1] == ' ')
        out->data[--out->length] = 0;
    stk__text_putc(out, '\n');
}

static void text_total_ns(stk__text *out, const char *what, double before, double after, const char *rest)
{
    char b[32], a[32];
    put_ns(b, sizeof b, before);
    put_ns(a, sizeof a, after);
    text_total(out, what, b, a, rest);
}

static void text_total_count(stk__text *out, const char *what, size_t before, size_t after)
{
    char b[32], a[32];
    snprintf(b, sizeof b, "%zu", before);
    snprintf(a, sizeof a, "%zu", after);
    text_total(out, what, b, a, "");
}

static void text_marker(stk__text *out, const char *when, const stk__diff_totals *t)
{
    if (!t->steps)
        return;
    stk__text_printf(out, "steps %s: from ", when);
    if (t->from == STK__STEPS_MARKERS)
        stk__text_puts(out, "markers '");
    else
        stk__text_printf(out, "what repeats (inferred, confidence %.0f %%) '", 100 * t->confidence);
    text_name(out, t->marker);
    stk__text_puts(out, "'\n");
}

static void text_steps(const stk__diff *d, stk__text *out)
{
    char change[32], p[32], rest[160], low[32], high[32], ranges[2][80];
    const stk__diff_totals *sides[2] = {&d->before, &d->after};
    text_total_count(out, "steps", d->before.steps, d->after.steps);
    if (!d->before.steps && !d->after.steps)
        return;
    put_change(change, sizeof change, d->step_change);
    put_p(p, sizeof p, d->step_test.p);
    snprintf(rest, sizeof rest, "%s, p %s: %s", change, p,
             d->step_verdict == STK__DIFF_TOO_FEW ? "too few steps to test" : stk__diff_verdict_text(d->step_verdict));
    text_total_ns(out, "step time, median", d->before.step.value, d->after.step.value,
                  d->basis == STK__DIFF_PER_STEP ? rest : "not comparable");
    for (int i = 0; i < 2; i++) {
        snprintf(ranges[i], sizeof ranges[i], "-");
        if (sides[i]->steps) {
            put_ns(low, sizeof low, (double)sides[i]->step.low);
            put_ns(high, sizeof high, (double)sides[i]->step.high);
            snprintf(ranges[i], sizeof ranges[i], "%s to %s", low, high);
        }
    }
    const bool few = d->before.steps < 6 || d->after.steps < 6; /* even their whole range is no 95 % */
    stk__text_printf(out, "  its %s%s before, %s after\n", few ? "range             " : "95 % interval    ", ranges[0],
                     ranges[1]);
    text_marker(out, "before", &d->before);
    text_marker(out, "after", &d->after);
}

static void text_totals(const stk__diff *d, stk__text *out)
{
    const bool profile = d->basis == STK__DIFF_PER_SHARE;
    text_total(out, "", "before", "after", "");
    if (d->before.files != 1 || d->after.files != 1)
        text_total_count(out, "files", d->before.files, d->after.files);
    if (!profile) {
        text_total_count(out, "slices", d->before.slices, d->after.slices);
        text_total_ns(out, "wall time", (double)d->before.wall_ns, (double)d->after.wall_ns, "");
        text_total_ns(out, "busy time", (double)d->before.busy, (double)d->after.busy, "self times of all tracks");
        text_steps(d, out);
    } else {
        static const char *const words[] = {"time of the profile", "samples", "bytes held", "bytes allocated",
                                            "weight"};
        char b[32], a[32];
        put_quantity(b, sizeof b, (double)d->before.busy, STK__DIFF_PER_CALL, d->unit);
        put_quantity(a, sizeof a, (double)d->after.busy, STK__DIFF_PER_CALL, d->unit);
        text_total(out, words[STK_MIN(d->unit, STK_COUNT(words) - 1)], b, a, "");
    }
}

void stk__diff_calls_text(const stk__diff *d, const stk__diff_row *r, stk__text *out)
{
    char change[32];
    const double calls = r->calls_change, each = r->median_change;
    if (d->basis == STK__DIFF_PER_SHARE || !isfinite(calls) || fabs(calls) < CALLS_TOLD)
        return;
    if (calls >= 0.95)
        stk__text_printf(out, "%.3gx as often", calls + 1);
    else
        stk__text_printf(out, "%.3g %% %s often", 100 * fabs(calls), calls > 0 ? "more" : "less");
    if (isfinite(each) && fabs(each) >= 0.0005)
        stk__text_printf(out, ", each %.1f %% %s", 100 * fabs(each), each > 0 ? "slower" : "faster");
    else if (each == 0 || fabs(each) < 0.0005)
        stk__text_puts(out, ", each as long as before");
    if (d->basis != STK__DIFF_PER_STEP || isnan(r->load_change))
        return;
    put_change(change, sizeof change, r->load_change);
    stk__text_printf(out, ": %s", change);
}

/* Without steps a name is judged by its calls alone: it may still cost more, if it is called more often. */
static const char *verdict_words(const stk__diff *d, stk__diff_verdict v)
{
    if (d->basis == STK__DIFF_PER_CALL && (v == STK__DIFF_SLOWER || v == STK__DIFF_FASTER))
        return v == STK__DIFF_SLOWER ? "slower calls" : "faster calls";
    return stk__diff_verdict_text(v);
}

/* So that no verdict of the rows shown is cut. */
static int verdict_width(const stk__diff *d, bool stages, size_t limit)
{
    size_t width = 15, count = 0;
    for (size_t i = 0; i < d->count && (!limit || count < limit); i++) {
        if (stages && !d->rows[i].stage)
            continue;
        width = STK_MAX(width, strlen(verdict_words(d, d->rows[i].verdict)));
        count++;
    }
    return (int)width + 2;
}

static void text_row_slices(const stk__diff *d, const stk__diff_row *r, bool stage, int width, stk__text *out)
{
    char change[32], p[32], medians[2][32], loads[2][32];
    const bool per_step = d->basis == STK__DIFF_PER_STEP;
    const stk__diff_side *sides[2] = {&r->before, &r->after};
    for (int i = 0; i < 2; i++) {
        put_ns(medians[i], sizeof medians[i], sides[i]->median.value);
        put_ns(loads[i], sizeof loads[i],
               !per_step ? sides[i]->mean
               : stage   ? sides[i]->self_per_step
                         : sides[i]->per_step);
    }
    put_change(change, sizeof change, per_step ? r->load_change : r->median_change);
    put_p(p, sizeof p, r->p_holm);
    stk__text_printf(out, "%-*s%10s%9s%11s%11s%11s%11s", width, verdict_words(d, r->verdict), change, p, medians[0],
                     medians[1], loads[0], loads[1]);
    if (per_step)
        stk__text_printf(out, "%9.4g%9.4g  ", r->before.calls_per_step, r->after.calls_per_step);
    else
        stk__text_printf(out, "%9lld%9lld  ", (long long)r->before.count, (long long)r->after.count);
    text_name(out, r->label);
    stk__text calls = STK__TEXT_INIT;
    if (r->verdict <= STK__DIFF_COSTS_LESS)
        stk__diff_calls_text(d, r, &calls);
    if (calls.length)
        stk__text_printf(out, "  (%s)", calls.data);
    out->failed = out->failed || calls.failed;
    stk__text_clear(&calls);
    stk__text_putc(out, '\n');
}

static void text_row_profile(const stk__diff_row *r, stk__text *out)
{
    char change[32], shares[2][32], selves[2][32];
    const stk__diff_side *sides[2] = {&r->before, &r->after};
    for (int i = 0; i < 2; i++) {
        put_share(shares[i], sizeof shares[i], sides[i]->self_share);
        put_quantity(selves[i], sizeof selves[i], (double)sides[i]->self, STK__DIFF_PER_CALL, r->unit);
    }
    snprintf(change, sizeof change, "%+.2f", 100 * r->impact);
    stk__text_printf(out, "%-11s%10s%11s%11s%11s%11s%9lld%9lld  ",
                     r->verdict == STK__DIFF_NO_TEST ? "" : stk__diff_verdict_text(r->verdict), change, shares[0],
                     shares[1], selves[0], selves[1], (long long)r->before.count, (long long)r->after.count);
    text_name(out, r->label);
    stk__text_putc(out, '\n');
}

static void text_left_out(const stk__diff *d, size_t shown, size_t count, stk__text *out)
{
    size_t kinds[STK__DIFF_VERDICT_COUNT] = {0};
    if (shown >= count)
        return;
    for (size_t i = shown; i < count; i++)
        kinds[d->rows[i].verdict]++;
    stk__text_printf(out, "... and %zu more", count - shown);
    const char *separator = ": ";
    for (size_t v = 0; v < STK__DIFF_VERDICT_COUNT; v++) {
        if (kinds[v] && v != STK__DIFF_NO_TEST) {
            stk__text_printf(out, "%s%zu %s", separator, kinds[v], stk__diff_verdict_text((stk__diff_verdict)v));
            separator = ", ";
        }
    }
    stk__text_puts(out, "; --limit 0 shows all\n");
}

static const char *group_name(const stk__diff *d)
{
    static const char *const names[] = {[STK__DIFF_NAME] = "name",
                                        [STK__DIFF_CATEGORY] = "category",
                                        [STK__DIFF_THREAD] = "thread",
                                        [STK__DIFF_PROCESS] = "process"};
    return names[d->options.by];
}

static void text_rows_heading(const stk__diff *d, bool stage, int width, stk__text *out)
{
    const bool per_step = d->basis == STK__DIFF_PER_STEP;
    const char *load = !per_step ? "mean" : stage ? "self/step" : "time/step";
    if (d->basis == STK__DIFF_PER_SHARE) {
        stk__text_printf(out, "%-11s%10s%22s%22s%18s  %s\n", "", "points", "share before, after", "self before, after",
                         "calls", "function");
        return;
    }
    stk__text_printf(out, "%-*s%10s%9s%22s%22s%18s  %s\n", width, "", "change", "p", "median before, after", load,
                     per_step ? "calls/step" : "calls", stage ? "stage" : group_name(d));
}

static void text_rows(const stk__diff *d, size_t limit, stk__text *out)
{
    if (d->basis == STK__DIFF_PER_SHARE)
        stk__text_puts(out, "\nfunctions, by share of self time (a profile has no durations to test):\n");
    else
        stk__text_printf(out, "\nby %s: %zu of %zu changed; %zu tested, p corrected for all of them (Holm):\n",
                         group_name(d), d->changed, d->count, d->tested);
    const int width = verdict_width(d, false, limit);
    text_rows_heading(d, false, width, out);
    const size_t shown = limit && limit < d->count ? limit : d->count;
    for (size_t i = 0; i < shown; i++) {
        if (d->basis == STK__DIFF_PER_SHARE)
            text_row_profile(&d->rows[i], out);
        else
            text_row_slices(d, &d->rows[i], false, width, out);
    }
    text_left_out(d, shown, d->count, out);
}

static void text_stages(const stk__diff *d, bool asked, size_t limit, stk__text *out)
{
    size_t count = 0;
    const int width = verdict_width(d, true, limit);
    for (size_t i = 0; i < d->count; i++) {
        if (!d->rows[i].stage)
            continue;
        if (!count++) {
            stk__text_puts(out, "\nstages of the input pipeline:\n");
            text_rows_heading(d, true, width, out);
        }
        if (!limit || count <= limit)
            text_row_slices(d, &d->rows[i], true, width, out);
    }
    if (limit && count > limit)
        stk__text_printf(out, "... and %zu more; --limit 0 shows all\n", count - limit);
    if (asked && !count)
        stk__text_puts(out,
                       "\nno stages of an input pipeline: wanted tf.data iterators, a DataLoader or Stoker's ops\n");
}

/* The first `limit` names that only one side has. */
static void text_only(const stk__diff *d, stk__diff_verdict verdict, size_t limit, stk__text *out)
{
    size_t count = 0;
    for (size_t i = 0; i < d->count && count < limit; i++) {
        if (d->rows[i].verdict != verdict)
            continue;
        stk__text_puts(out, count++ ? ", " : "");
        text_name(out, d->rows[i].label);
    }
}

static void text_stacks(const stk__diff *d, bool asked, size_t limit, stk__text *out)
{
    static const char *const per[] = {[STK__DIFF_PER_STEP] = "self time per step",
                                      [STK__DIFF_PER_CALL] = "self time of the whole trace",
                                      [STK__DIFF_PER_SHARE] = "share of self time"};
    if (!d->stack_count && !asked)
        return;
    stk__text_printf(out, "\nstacks, by change of %s (not tested):\n", per[d->basis]);
    stk__text_printf(out, "%12s%12s%12s  %s\n", "difference", "before", "after", "stack");
    const size_t shown = limit && limit < d->stack_count ? limit : d->stack_count;
    for (size_t i = 0; i < shown; i++) {
        const stk__diff_stack *s = &d->stacks[i];
        const double before = isnan(s->before) ? 0 : s->before, after = isnan(s->after) ? 0 : s->after;
        char cells[3][32];
        put_quantity(cells[0], sizeof cells[0], after - before, d->basis, s->unit);
        put_quantity(cells[1], sizeof cells[1], s->before, d->basis, s->unit);
        put_quantity(cells[2], sizeof cells[2], s->after, d->basis, s->unit);
        stk__text_printf(out, "%12s%12s%12s  ", cells[0], cells[1], cells[2]);
        text_name(out, s->path);
        stk__text_putc(out, '\n');
    }
    if (shown < d->stack_count)
        stk__text_printf(out, "... and %zu more; --limit 0 shows all\n", d->stack_count - shown);
}

static void text_notes(const stk__diff *d, stk__text *out)
{
    stk__text_putc(out, '\n');
    if (d->basis_reason)
        stk__text_printf(out, "compared per call: %s.\n", d->basis_reason);
    if (d->basis == STK__DIFF_PER_STEP)
        stk__text_puts(out, "compared per step: time/step counts what starts during the steps.\n");
    if (d->left_out)
        stk__text_printf(out, "left out: %zu slice%s of the profiler itself.\n", d->left_out,
                         d->left_out == 1 ? "" : "s");
    if (d->sampled)
        stk__text_puts(out, "names with very many calls were tested on an even draw of them.\n");
    if (d->tested || !isnan(d->step_test.p))
        stk__text_puts(out, "slices of one run are not independent: p says whether these two runs differ, not whether "
                            "the next one would.\n");
}

const char *stk__diff_rule_text(stk__diff_rule rule)
{
    static const char *const texts[] = {
        [STK__DIFF_NO_RULE] = "nothing",
        [STK__DIFF_STEP_TIME] = "median step time",
        [STK__DIFF_NAMES_TIME] = "busy time of the names that changed significantly",
        [STK__DIFF_BUSY_TIME] = "busy time of all names, with those that appeared",
    };
    return texts[rule];
}

static void text_rule(const stk__diff *d, stk__text *out)
{
    char before[32], after[32], change[32];
    if (d->options.fail_over < 0)
        return;
    if (d->rule == STK__DIFF_NO_RULE) {
        stk__text_printf(out, "--fail-over %g%%: nothing here can be tested, no verdict\n", 100 * d->options.fail_over);
        return;
    }
    put_ns(before, sizeof before, d->rule_before);
    put_ns(after, sizeof after, d->rule_after);
    put_change(change, sizeof change, d->rule_change);
    stk__text_printf(out, "%s: %s %s (%s to %s", d->regression ? "REGRESSION" : "no regression",
                     stk__diff_rule_text(d->rule), change, before, after);
    if (d->rule == STK__DIFF_STEP_TIME) {
        char p[32];
        put_p(p, sizeof p, d->step_test.p);
        stk__text_printf(out, ", p %s", p);
    }
    stk__text_printf(out, "), limit +%g %%\n", 100 * d->options.fail_over);
}

static void text_appeared(const stk__diff *d, size_t limit, stk__text *out)
{
    static const stk__diff_verdict kinds[] = {STK__DIFF_APPEARED, STK__DIFF_VANISHED};
    for (size_t k = 0; k < STK_COUNT(kinds); k++) {
        size_t count = 0;
        for (size_t i = 0; i < d->count; i++)
            count += d->rows[i].verdict == kinds[k];
        if (!count)
            continue;
        stk__text_printf(out, "%s (%zu): ", stk__diff_verdict_text(kinds[k]), count);
        text_only(d, kinds[k], limit ? limit : count, out);
        stk__text_puts(out, limit && count > limit ? ", ...\n" : "\n");
    }
}

void stk__diff_text(const stk__diff *d, stk__diff_section section, size_t limit, stk__text *out)
{
    text_totals(d, out);
    if (section == STK__DIFF_ALL) {
        text_rows(d, limit, out);
        text_appeared(d, limit, out);
    }
    if (section == STK__DIFF_ALL || section == STK__DIFF_ONLY_STAGE)
        text_stages(d, section == STK__DIFF_ONLY_STAGE, limit, out);
    if (section == STK__DIFF_ALL || section == STK__DIFF_ONLY_STACK)
        text_stacks(d, section == STK__DIFF_ONLY_STACK, limit, out);
    text_notes(d, out);
    text_rule(d, out);
}

/* ---- JSON ---- */

/* Whole numbers are written as such, not as 1.5e+08. */
static void number(stk__text *out, double x)
{
    if (isfinite(x) && x == trunc(x) && fabs(x) < 9e15)
        stk__text_printf(out, "%.0f", x + 0.0);
    else
        stk__text_json_double(out, x);
}

static void json_number(stk__text *out, const char *key, double x)
{
    stk__text_printf(out, ",\"%s\":", key);
    number(out, x);
}

static void json_text(stk__text *out, const char *key, const char *value)
{
    stk__text_printf(out, ",\"%s\":", key);
    stk__text_json_str(out, value);
}

static const char *from_name(stk__steps_from from)
{
    return from == STK__STEPS_MARKERS ? "markers" : from == STK__STEPS_INFERRED ? "inferred" : "none";
}

static void json_totals(stk__text *out, const char *key, const stk__diff_totals *t)
{
    stk__text_printf(out, ",\n\"%s\":{\"files\":%zu,\"slices\":%zu,\"wall_ns\":%lld,\"busy\":%lld,\"steps\":%zu", key,
                     t->files, t->slices, (long long)t->wall_ns, (long long)t->busy, t->steps);
    json_text(out, "steps_from", from_name(t->from));
    json_text(out, "marker", t->marker);
    json_number(out, "confidence", t->confidence);
    json_number(out, "step_median_ns", t->step.value);
    json_number(out, "step_low_ns", t->steps ? (double)t->step.low : NAN);
    json_number(out, "step_high_ns", t->steps ? (double)t->step.high : NAN);
    json_number(out, "step_mean_ns", t->step_mean);
    stk__text_putc(out, '}');
}

static const char *unit_name(uint32_t unit)
{
    return unit == STK__UNIT_NS          ? "ns"
           : unit == STK__UNIT_SAMPLES   ? "samples"
           : unit == STK__UNIT_BYTES     ? "bytes"
           : unit == STK__UNIT_ALLOCATED ? "bytes allocated"
                                         : "none";
}

static void json_side(stk__text *out, const char *key, const stk__diff_side *s)
{
    stk__text_printf(out, ",\"%s\":{\"count\":%lld,\"total\":%lld,\"self\":%lld", key, (long long)s->count,
                     (long long)s->total, (long long)s->self);
    for (size_t i = 3; i < STK_COUNT(figures); i++)
        json_number(out, figures[i].name, figures[i].get(s));
    json_number(out, "median_low", s->tested ? (double)s->median.low : NAN);
    json_number(out, "median_high", s->tested ? (double)s->median.high : NAN);
    stk__text_printf(out, ",\"tested\":%zu}", s->tested);
}

static void json_row(const stk__diff *d, stk__text *out, const stk__diff_row *r)
{
    stk__text_puts(out, "{\"name\":");
    stk__text_json_str(out, r->label);
    json_text(out, "verdict", stk__diff_verdict_name(r->verdict));
    json_text(out, "unit", unit_name(r->unit));
    stk__text_printf(out, ",\"stage\":%s", r->stage ? "true" : "false");
    json_number(out, "median_change", r->median_change);
    json_number(out, "load_change", r->load_change);
    json_number(out, "impact", r->impact);
    json_number(out, "p", r->p);
    json_number(out, "p_corrected", r->p_holm);
    json_number(out, "superiority", isnan(r->p) ? NAN : r->test.superiority);
    stk__text_printf(out, ",\"exact\":%s", r->test.exact ? "true" : "false");
    json_side(out, "before", &r->before);
    json_side(out, "after", &r->after);
    json_number(out, "calls_change", r->calls_change);
    stk__text calls = STK__TEXT_INIT;
    stk__diff_calls_text(d, r, &calls);
    json_text(out, "calls_text", calls.data ? calls.data : "");
    out->failed = out->failed || calls.failed;
    stk__text_clear(&calls);
    stk__text_putc(out, '}');
}

static bool wanted(const stk__diff_row *r, stk__diff_section section)
{
    return section == STK__DIFF_ONLY_STAGE ? r->stage : section == STK__DIFF_ALL;
}

static void json_rows(const stk__diff *d, const char *key, stk__diff_section section, size_t limit, stk__text *out)
{
    stk__text_printf(out, ",\n\"%s\":[", key);
    size_t count = 0;
    for (size_t i = 0; i < d->count && (!limit || count < limit); i++) {
        if (!wanted(&d->rows[i], section))
            continue;
        stk__text_puts(out, count++ ? ",\n" : "\n");
        json_row(d, out, &d->rows[i]);
    }
    stk__text_putc(out, ']');
}

static void json_stacks(const stk__diff *d, size_t limit, stk__text *out)
{
    stk__text_puts(out, ",\n\"stacks\":[");
    for (size_t i = 0; i < d->stack_count && (!limit || i < limit); i++) {
        const stk__diff_stack *s = &d->stacks[i];
        stk__text_puts(out, i ? ",\n{\"stack\":" : "\n{\"stack\":");
        stk__text_json_str(out, s->path);
        json_text(out, "unit", d->basis == STK__DIFF_PER_SHARE ? "share" : unit_name(s->unit));
        json_number(out, "before", s->before);
        json_number(out, "after", s->after);
        stk__text_printf(out, ",\"before_count\":%lld,\"after_count\":%lld}", (long long)s->before_count,
                         (long long)s->after_count);
    }
    stk__text_putc(out, ']');
}

static void json_names(const stk__diff *d, const char *key, stk__diff_verdict verdict, stk__text *out)
{
    stk__text_printf(out, ",\n\"%s\":[", key);
    const char *separator = "";
    for (size_t i = 0; i < d->count; i++) {
        if (d->rows[i].verdict != verdict)
            continue;
        stk__text_puts(out, separator);
        stk__text_json_str(out, d->rows[i].label);
        separator = ",";
    }
    stk__text_putc(out, ']');
}

static void json_rule(const stk__diff *d, stk__text *out)
{
    static const char *const rules[] = {
        [STK__DIFF_NO_RULE] = "none",
        [STK__DIFF_STEP_TIME] = "step_time",
        [STK__DIFF_NAMES_TIME] = "names_time",
        [STK__DIFF_BUSY_TIME] = "busy_time",
    };
    stk__text_printf(out, ",\n\"regression\":{\"found\":%s", d->regression ? "true" : "false");
    json_text(out, "rule", rules[d->rule]);
    json_number(out, "limit", d->options.fail_over < 0 ? NAN : d->options.fail_over);
    json_number(out, "before_ns", d->rule ? d->rule_before : NAN);
    json_number(out, "after_ns", d->rule ? d->rule_after : NAN);
    json_number(out, "change", d->rule ? d->rule_change : NAN);
    stk__text_putc(out, '}');
}

void stk__diff_json(const stk__diff *d, stk__diff_section section, size_t limit, stk__text *out)
{
    static const char *const bases[] = {
        [STK__DIFF_PER_STEP] = "step", [STK__DIFF_PER_CALL] = "call", [STK__DIFF_PER_SHARE] = "share"};
    stk__text_printf(out, "{\"basis\":\"%s\"", bases[d->basis]);
    json_text(out, "basis_reason", d->basis_reason ? d->basis_reason : "");
    json_text(out, "by", d->basis == STK__DIFF_PER_SHARE ? "function" : group_name(d));
    stk__text_printf(out, ",\"groups\":%zu,\"tested\":%zu,\"changed\":%zu,\"sampled\":%s,\"left_out\":%zu", d->count,
                     d->tested, d->changed, d->sampled ? "true" : "false", d->left_out);
    json_totals(out, "before", &d->before);
    json_totals(out, "after", &d->after);
    stk__text_puts(out, ",\n\"step\":{\"verdict\":");
    stk__text_json_str(out, stk__diff_verdict_name(d->step_verdict));
    json_number(out, "change", d->step_change);
    json_number(out, "p", d->step_test.p);
    stk__text_putc(out, '}');
    if (section == STK__DIFF_ALL) {
        json_rows(d, "rows", STK__DIFF_ALL, limit, out);
        json_names(d, "appeared", STK__DIFF_APPEARED, out);
        json_names(d, "vanished", STK__DIFF_VANISHED, out);
    }
    if (section == STK__DIFF_ALL || section == STK__DIFF_ONLY_STAGE)
        json_rows(d, "stages", STK__DIFF_ONLY_STAGE, limit, out);
    if (section == STK__DIFF_ALL || section == STK__DIFF_ONLY_STACK)
        json_stacks(d, limit, out);
    json_rule(d, out);
    stk__text_puts(out, "}\n");
}

/* ---- CSV ---- */

static void csv_number(stk__text *out, double x)
{
    stk__text_putc(out, ',');
    if (isfinite(x))
        number(out, x);
}

static void csv_head(bool raw, stk__text *out, const char *section, const char *name, const char *verdict, const char *unit)
{
    stk__text_printf(out, "%s,", section);
    if (raw)
        stk__text_csv(out, name, strlen(name));
    else
        stk__text_csv_safe(out, name, strlen(name));
    stk__text_printf(out, ",%s,%s", verdict, unit);
}

static void csv_row(bool raw, stk__text *out, const char *section, const stk__diff_row *r)
{
    csv_head(raw, out, section, r->label, stk__diff_verdict_name(r->verdict), unit_name(r->unit));
    for (size_t i = 0; i < STK_COUNT(figures); i++) {
        csv_number(out, figures[i].get(&r->before));
        csv_number(out, figures[i].get(&r->after));
    }
    csv_number(out, r->median_change);
    csv_number(out, r->load_change);
    csv_number(out, r->p);
    csv_number(out, r->p_holm);
    csv_number(out, r->calls_change);
    stk__text_puts(out, "\r\n");
}

static void csv_rows(const stk__diff *d, const char *name, stk__diff_section section, size_t limit, bool raw, stk__text *out)
{
    size_t count = 0;
    for (size_t i = 0; i < d->count && (!limit || count < limit); i++) {
        if (wanted(&d->rows[i], section)) {
            csv_row(raw, out, name, &d->rows[i]);
            count++;
        }
    }
}

static void csv_step(const stk__diff *d, bool raw, stk__text *out)
{
    const stk__diff_side empty = {.self_share = NAN, .per_step = NAN, .self_per_step = NAN, .calls_per_step = NAN};
    stk__diff_row r = {.label = d->after.marker, .unit = STK__UNIT_NS, .before = empty, .after = empty};
    const stk__diff_totals *totals[2] = {&d->before, &d->after};
    stk__diff_side *sides[2] = {&r.before, &r.after};
    for (int i = 0; i < 2; i++) {
        sides[i]->count = (int64_t)totals[i]->steps;
        sides[i]->total = totals[i]->steps ? (int64_t)fmin(totals[i]->step_mean * (double)totals[i]->steps, 9e18) : 0;
        sides[i]->self = sides[i]->total;
        sides[i]->mean = totals[i]->step_mean;
        sides[i]->median = totals[i]->step;
    }
    r.median_change = d->step_change;
    r.load_change = r.calls_change = NAN;
    r.p = d->step_test.p;
    r.p_holm = NAN;
    r.verdict = d->step_verdict;
    csv_row(raw, out, "step", &r);
}

/* Before and after stand in the columns of self time per step, of the share, or of the whole trace. */
static void csv_stack(const stk__diff *d, const stk__diff_stack *s, bool raw, stk__text *out)
{
    csv_head(raw, out, "stack", s->path, stk__diff_verdict_name(STK__DIFF_NO_TEST), unit_name(s->unit));
    const char *field = d->basis == STK__DIFF_PER_STEP    ? "self_per_step"
                        : d->basis == STK__DIFF_PER_SHARE ? "self_share"
                                                          : "self";
    for (size_t i = 0; i < STK_COUNT(figures); i++) {
        const bool is_count = i == 0, is_value = strcmp(figures[i].name, field) == 0;
        csv_number(out, is_count ? (double)s->before_count : is_value ? s->before : NAN);
        csv_number(out, is_count ? (double)s->after_count : is_value ? s->after : NAN);
    }
    stk__text_puts(out, ",,,,,\r\n");
}

void stk__diff_csv(const stk__diff *d, stk__diff_section section, size_t limit, bool raw, stk__text *out)
{
    stk__text_puts(out, "section,name,verdict,unit");
    for (size_t i = 0; i < STK_COUNT(figures); i++)
        stk__text_printf(out, ",before_%s,after_%s", figures[i].name, figures[i].name);
    stk__text_puts(out, ",median_change,load_change,p,p_corrected,calls_change\r\n");
    if (d->before.steps || d->after.steps)
        csv_step(d, raw, out);
    if (section == STK__DIFF_ALL)
        csv_rows(d, d->basis == STK__DIFF_PER_SHARE ? "function" : group_name(d), STK__DIFF_ALL, limit, raw, out);
    if (section == STK__DIFF_ALL || section == STK__DIFF_ONLY_STAGE)
        csv_rows(d, "stage", STK__DIFF_ONLY_STAGE, limit, raw, out);
    for (size_t i = 0; section != STK__DIFF_ONLY_STEP && section != STK__DIFF_ONLY_STAGE && i < d->stack_count; i++) {
        if (!limit || i < limit)
            csv_stack(d, &d->stacks[i], raw, out);
    }
}
