/* A diagnosis on paper: for people, and as one JSON object. */
#include <string.h>

#include "analyze/diagnose_impl.h"
#include "base/mem.h"

#include "base/banned.h"

enum { NAME_WIDTH = 44, RANKS_SHOWN = 64 };

typedef struct part {
    const char *key, *label;
    unsigned types; /* bits of stk__event_type */
} part;

#define BIT(type) (1u << (type))

/* The rows of the breakdown; each type is in one of them. */
static const part parts[] = {
    {"input_wait", "input wait", BIT(STK__HOST_WAIT_INPUT) | BIT(STK__DEVICE_WAIT_HOST)},
    {"host_to_device", "host to device", BIT(STK__HOST_TO_DEVICE)},
    {"compute", "device compute", BIT(STK__DEVICE_COMPUTE_32) | BIT(STK__DEVICE_COMPUTE_16)},
    {"collectives", "collectives", BIT(STK__DEVICE_COLLECTIVES)},
    {"device_to_device", "device to device", BIT(STK__DEVICE_TO_DEVICE) | BIT(STK__DEVICE_WAIT_DEVICE)},
    {"device_to_host", "device to host", BIT(STK__DEVICE_TO_HOST)},
    {"kernel_launch", "kernel launch", BIT(STK__HOST_PREPARE)},
    {"host_compute", "host compute", BIT(STK__HOST_COMPUTE) | BIT(STK__HOST_TO_HOST)},
    {"host_python", "host Python", BIT(STK__HOST_PYTHON) | BIT(STK__HOST_BETWEEN)},
    {"other", "other, idle", BIT(STK__UNKNOWN_TIME)},
};

static double part_ns(const stk__diagnosis *d, const part *p)
{
    double ns = 0;
    for (int type = 0; type < STK__EVENT_TYPES; type++)
        if (p->types & BIT(type))
            ns += d->type_ns[type];
    return ns;
}

static bool is_potential(const stk__diagnosis *d)
{
    return d->verdict == STK__VERDICT_NOT && d->other_percent >= STK__OTHER_PERCENT;
}

/* ---- for people ---- */

/* "34", "12.3"; two decimals where one would round across a threshold. */
static void put_percent(stk__text *t, double percent)
{
    const double thresholds[] = {STK__HIGHLY_PERCENT, STK__MODERATELY_PERCENT};
    int decimals = 1;
    for (size_t i = 0; i < STK_COUNT(thresholds); i++)
        if (percent < thresholds[i] && percent > thresholds[i] - 0.05)
            decimals = 3;
    char number[32];
    stk__text fixed;
    stk__text_fixed(&fixed, number, sizeof number);
    stk__text_printf(&fixed, "%.*f", decimals, percent);
    if (decimals == 1 && fixed.length > 2 && strcmp(number + fixed.length - 2, ".0") == 0)
        number[fixed.length - 2] = 0;
    stk__text_printf(t, "%s %%", number);
}

/* Text from the trace, with control bytes escaped and cut to a length that a line can hold. */
static void put_cut(stk__text *t, const char *text, size_t size)
{
    char raw[NAME_WIDTH + 1], safe[4 * NAME_WIDTH + 1];
    const size_t shown = STK_MIN(size, (size_t)NAME_WIDTH);
    memcpy(raw, text, shown);
    raw[shown] = 0;
    if (shown < size)
        memcpy(raw + NAME_WIDTH - 3, "...", 3);
    for (size_t i = 0; i < shown; i++)
        if (!raw[i])
            raw[i] = ' ';
    stk__escape_terminal(raw, safe, sizeof safe);
    stk__text_puts(t, safe);
}

static void put_name(const stk__diagnosis *d, stk__text *t, stk__string name, bool label)
{
    size_t size;
    const char *text = label ? stk__stage_label(d, name, &size) : stk__trace_text(d->trace, name, &size);
    put_cut(t, text, size);
}

static void put_row_name(const stk__diagnosis *d, stk__text *t, const stk__stage_row *row)
{
    char bytes[STK__LABEL_SIZE];
    stk__text label;
    stk__text_fixed(&label, bytes, sizeof bytes);
    stk__stage_row_label(d, row, &label);
    put_cut(t, bytes, label.length);
}

static void put_headline(const stk__diagnosis *d, stk__text *t)
{
    switch (d->verdict) {
    case STK__VERDICT_UNKNOWN:
        stk__text_printf(t, "Unknown: %s.\n", d->reason);
        return;
    case STK__VERDICT_HIGHLY:
    case STK__VERDICT_MODERATELY:
        stk__text_puts(t, "Input-bound: ");
        put_percent(t, d->input_percent);
        stk__text_printf(t, " of step time waits for data (%s, threshold %.0f %%).",
                         d->verdict == STK__VERDICT_HIGHLY ? "HIGHLY" : "MODERATELY",
                         d->verdict == STK__VERDICT_HIGHLY ? STK__HIGHLY_PERCENT : STK__MODERATELY_PERCENT);
        break;
    case STK__VERDICT_NOT:
        stk__text_puts(t, "Not input-bound: ");
        put_percent(t, d->input_percent);
        stk__text_printf(t, " of step time waits for data (threshold %.0f %%).", STK__MODERATELY_PERCENT);
        break;
    }
    if (is_potential(d)) {
        stk__text_puts(t, " Potentially it is: ");
        put_percent(t, d->other_percent);
        stk__text_puts(t, " of step time has no event at all.");
    }
    if (d->stage.count && !d->stage.rows[0].is_wait && d->verdict != STK__VERDICT_NOT) {
        stk__text_puts(t, " Most of it in ");
        put_row_name(d, t, &d->stage.rows[0]);
        stk__text_puts(t, ".");
    }
    stk__text_printf(t, " Confidence %.0f %%.\n", 100 * d->confidence);
}

static void put_list(stk__text *t, const char *title, char *const *lines, size_t count)
{
    if (!count)
        return;
    stk__text_printf(t, "\n%s\n", title);
    for (size_t i = 0; i < count; i++)
        stk__text_printf(t, "  - %s\n", lines[i]);
}

static void put_breakdown(const stk__diagnosis *d, stk__text *t)
{
    const double steps = (double)STK_MAX(d->figure_count, 1u);
    stk__text_puts(t, "\nWhere the step time goes\n");
    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        const double ns = part_ns(d, &parts[i]);
        if (ns <= 0 && i > 0)
            continue;
        stk__text_printf(t, "  %-18s%6.1f %%   ", parts[i].label, stk__percent_of(ns, d->step_ns));
        stk__text_duration(t, ns / steps);
        stk__text_puts(t, " a step\n");
    }
}

/* "rank 3"; where the file does not say which, the file itself. */
static void put_rank(const stk__diagnosis *d, stk__text *t, size_t i)
{
    const stk__rank *r = &d->ranks[i];
    const bool known = r->file < d->trace->file_count;
    if (known && d->trace->files[r->file].rank >= 0) {
        stk__text_printf(t, "rank %lld", (long long)d->trace->files[r->file].rank);
        return;
    }
    if (known)
        put_name(d, t, d->trace->files[r->file].path, false);
    if (r->process < d->trace->process_count)
        stk__text_printf(t, "%sprocess %lld", known ? ", " : "", (long long)d->trace->processes[r->process].pid);
}

static void put_slowest(const stk__diagnosis *d, stk__text *t)
{
    stk__text_puts(t, "\nSlowest steps\n");
    for (size_t i = 0; i < d->slowest_count; i++) {
        const stk__step_figures *f = &d->slowest[i];
        stk__text_printf(t, "  step %lld", (long long)f->number);
        if (d->rank_count > 1) {
            stk__text_puts(t, " of ");
            put_rank(d, t, f->rank);
        }
        stk__text_puts(t, ": ");
        stk__text_duration(t, (double)f->dur);
        stk__text_printf(t, ", %.1f %% input\n", stk__percent_of(f->input_ns, (double)f->dur));
    }
}

static void put_stage(const stk__diagnosis *d, stk__text *t)
{
    static const char *const titles[] = {
        [STK__STAGE_NONE] = "",
        [STK__STAGE_TF_DATA] = "Stages of tf.data, by the time that callers were blocked in them",
        [STK__STAGE_OPS] = "Ops of the pipeline, by the workers' time",
        [STK__STAGE_WORKERS] = "What the worker processes do",
        [STK__STAGE_INSIDE] = "What runs inside the wait",
        [STK__STAGE_TIMELINE] = "What ran while IteratorGetNext waited",
        [STK__STAGE_HOST] = "What loads data in the training thread",
    };
    if (!d->stage.count)
        return;
    stk__text_printf(t, "\n%s\n", titles[d->stage.kind]);
    for (size_t i = 0; i < d->stage.count && i < 6; i++) {
        stk__text_printf(t, "  %5.1f %%   ", 100 * d->stage.rows[i].share);
        put_row_name(d, t, &d->stage.rows[i]);
        stk__text_printf(t, " (%llu calls)\n", (unsigned long long)d->stage.rows[i].calls);
    }
}

static void put_gaps(const stk__diagnosis *d, stk__text *t)
{
    if (!d->gap_count)
        return;
    stk__text_printf(t, "\nLongest gaps: %s\n",
                     d->ranks[d->worst].has_device ? "the device computes nothing" : "the main thread does not work");
    for (size_t i = 0; i < d->gap_count; i++) {
        const stk__idle_gap *g = &d->gaps[i];
        stk__text_puts(t, "  ");
        stk__text_duration(t, (double)g->dur);
        if (g->step != STK__NO_NUMBER)
            stk__text_printf(t, " in step %lld", (long long)g->step);
        else
            stk__text_puts(t, " between steps");
        stk__text_printf(t, ", %.0f %% waiting for data", 100 * g->wait_share);
        if (g->main) {
            stk__text_puts(t, "; main thread: ");
            put_name(d, t, g->main, true);
        }
        if (g->other) {
            stk__text_puts(t, "; meanwhile: ");
            put_name(d, t, g->other, true);
        }
        stk__text_putc(t, '\n');
    }
}

static void put_what_ifs(const stk__diagnosis *d, stk__text *t)
{
    if (!d->what_if_count)
        return;
    stk__text_puts(t, "\nWhat if");
    if (d->rank_count > 1) {
        stk__text_puts(t, ", for ");
        put_rank(d, t, d->worst);
        stk__text_puts(t, ", which waits the most");
    }
    stk__text_putc(t, '\n');
    for (size_t i = 0; i < d->what_if_count; i++) {
        const stk__what_if *w = &d->what_ifs[i];
        stk__text_printf(t, "  - %s: step %.*f %%, input %.1f %% (assuming that %s)\n", w->what,
                         w->step_percent > -9.95 ? 1 : 0, w->step_percent, w->input_percent, w->assumption);
    }
}

void stk__diagnosis_text(const stk__diagnosis *d, stk__text *t)
{
    put_headline(d, t);
    put_list(t, "Evidence", d->evidence, d->evidence_count);
    if (d->step_ns > 0) {
        put_breakdown(d, t);
        put_slowest(d, t);
        put_stage(d, t);
        put_gaps(d, t);
    }
    put_list(t, "What to do", d->advice, d->advice_count);
    put_what_ifs(d, t);
}

/* ---- JSON ---- */

/* An object or array under way: knows whether a comma is due. */
static void key(stk__text *t, const char *name)
{
    if (t->length && t->data[t->length - 1] != '{' && t->data[t->length - 1] != '[')
        stk__text_putc(t, ',');
    if (name) {
        stk__text_json_str(t, name);
        stk__text_putc(t, ':');
    }
}

static void json_double(stk__text *t, const char *name, double x)
{
    key(t, name);
    stk__text_json_double(t, x);
}

static void json_int(stk__text *t, const char *name, int64_t x)
{
    key(t, name);
    stk__text_printf(t, "%lld", (long long)x);
}

/* A sum of times. */
static int64_t whole_ns(double ns)
{
    return (int64_t)STK_MAX(-9e18, STK_MIN(9e18, ns < 0 ? ns - 0.5 : ns + 0.5));
}

static void json_string(const stk__diagnosis *d, stk__text *t, const char *name, stk__string s)
{
    size_t size;
    const char *text = stk__trace_text(d->trace, s, &size);
    key(t, name);
    if (s)
        stk__text_json(t, text, size);
    else
        stk__text_puts(t, "null");
}

static void json_open(stk__text *t, const char *name, char bracket)
{
    key(t, name);
    stk__text_putc(t, bracket);
}

static void json_list(stk__text *t, const char *name, char *const *lines, size_t count)
{
    json_open(t, name, '[');
    for (size_t i = 0; i < count; i++) {
        key(t, NULL);
        stk__text_json_str(t, lines[i]);
    }
    stk__text_putc(t, ']');
}

static const char *verdict_name(stk__verdict verdict)
{
    switch (verdict) {
    case STK__VERDICT_HIGHLY:
        return "highly_input_bound";
    case STK__VERDICT_MODERATELY:
        return "moderately_input_bound";
    case STK__VERDICT_NOT:
        return "not_input_bound";
    default:
        return "unknown";
    }
}

static void json_head(const stk__diagnosis *d, stk__text *t)
{
    static const char *const from[] = {
        [STK__STEPS_NONE] = "none",
        [STK__STEPS_MARKERS] = "markers",
        [STK__STEPS_INFERRED] = "inferred",
    };
    key(t, "verdict");
    stk__text_json_str(t, verdict_name(d->verdict));
    key(t, "input_percent");
    if (d->verdict == STK__VERDICT_UNKNOWN)
        stk__text_puts(t, "null");
    else
        stk__text_json_double(t, d->input_percent);
    key(t, "potentially_input_bound");
    stk__text_puts(t, is_potential(d) ? "true" : "false");
    json_double(t, "unexplained_percent", d->open_percent);
    json_double(t, "confidence", d->confidence);
    json_int(t, "steps", (int64_t)d->figure_count);
    key(t, "steps_from");
    stk__text_json_str(t, from[d->steps.from]);
    key(t, "marker");
    stk__text_json_str(t, d->steps.marker);
    json_double(t, "steps_confidence", d->steps.confidence);
    json_int(t, "median_step_ns", d->median_ns);
    json_int(t, "p95_step_ns", d->p95_ns);
    json_double(t, "between_percent", stk__percent_of(d->between_ns, d->between_ns + d->step_ns));
    key(t, "reason");
    if (d->reason)
        stk__text_json_str(t, d->reason);
    else
        stk__text_puts(t, "null");
}

static void json_breakdown(const stk__diagnosis *d, stk__text *t)
{
    json_open(t, "breakdown", '{');
    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        json_open(t, parts[i].key, '{');
        json_double(t, "percent", stk__percent_of(part_ns(d, &parts[i]), d->step_ns));
        json_int(t, "ns", whole_ns(part_ns(d, &parts[i])));
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, '}');
}

static void json_slowest(const stk__diagnosis *d, stk__text *t)
{
    json_open(t, "slowest_steps", '[');
    for (size_t i = 0; i < d->slowest_count; i++) {
        const stk__step_figures *f = &d->slowest[i];
        json_open(t, NULL, '{');
        json_int(t, "number", f->number);
        json_int(t, "rank", f->rank);
        json_int(t, "ts", f->ts);
        json_int(t, "dur", f->dur);
        json_double(t, "input_percent", stk__percent_of(f->input_ns, (double)f->dur));
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_stage_row(const stk__diagnosis *d, stk__text *t, const stk__stage_row *row)
{
    size_t size;
    const char *label = stk__stage_label(d, row->name, &size);
    stk__python_frame p;
    const bool python = stk__stage_row_frame(d, row, &p);
    key(t, "name");
    stk__text_json(t, python ? p.function : label, python ? p.function_size : size);
    json_string(d, t, "path", row->name);
    if (python) {
        key(t, "file");
        stk__text_json(t, p.file, p.file_size);
        json_int(t, "line", p.line);
    }
    json_double(t, "share", row->share);
    json_int(t, "self_ns", whole_ns(row->ns));
    json_int(t, "calls", (int64_t)row->calls);
}

static void json_stage(const stk__diagnosis *d, stk__text *t)
{
    static const char *const kinds[] = {"none",        "tf_data",  "ops", "worker_processes",
                                        "inside_wait", "timeline", "host"};
    const stk__stage *stage = &d->stage;
    if (!stage->count) {
        key(t, "stage");
        stk__text_puts(t, "null");
        return;
    }
    json_open(t, "stage", '{');
    key(t, "kind");
    stk__text_json_str(t, kinds[stage->kind]);
    json_stage_row(d, t, &stage->rows[0]);
    json_int(t, "p50_ns", stage->rows[0].p50);
    json_int(t, "p95_ns", stage->rows[0].p95);
    json_int(t, "max_ns", stage->rows[0].max);
    json_int(t, "workers", (int64_t)stage->workers);
    json_double(t, "utilisation", stage->utilisation);
    json_open(t, "all", '[');
    for (size_t i = 0; i < stage->count; i++) {
        json_open(t, NULL, '{');
        json_stage_row(d, t, &stage->rows[i]);
        stk__text_putc(t, '}');
    }
    stk__text_puts(t, "]}");
}

static void json_trace(const stk__diagnosis *d, stk__text *t)
{
    const char *framework = stk__framework_name(stk__framework_of(d->trace));
    stk__string devices[STK__DEVICES];
    const size_t count = stk__device_names(d->trace, devices);
    key(t, "framework");
    if (framework)
        stk__text_json_str(t, framework);
    else
        stk__text_puts(t, "null");
    json_open(t, "devices", '[');
    for (size_t i = 0; i < count; i++)
        json_string(d, t, NULL, devices[i]);
    stk__text_putc(t, ']');
    json_int(t, "trace_ns", stk__time_between(d->trace->start_ns, d->trace->end_ns));
}

static void json_host(const stk__diagnosis *d, stk__text *t)
{
    static const char *const meanings[] = {"unknown", "input", "other"};
    stk__python_frame p;
    if (!d->host.at.name) {
        key(t, "host");
        stk__text_puts(t, "null");
        return;
    }
    json_open(t, "host", '{');
    const stk__stage_row row = {.name = d->host.at.name, .file = d->host.at.file, .line = d->host.at.line};
    if (stk__stage_row_frame(d, &row, &p)) {
        key(t, "name");
        stk__text_json(t, p.function, p.function_size);
        key(t, "file");
        stk__text_json(t, p.file, p.file_size);
        json_int(t, "line", p.line);
    } else {
        json_string(d, t, "name", d->host.at.name);
    }
    json_string(d, t, "path", d->host.at.name);
    json_double(t, "percent", d->host_percent);
    key(t, "meaning");
    stk__text_json_str(t, meanings[d->host.meaning]);
    json_string(d, t, "because", d->host.because.name);
    stk__text_putc(t, '}');
}

static void json_gaps(const stk__diagnosis *d, stk__text *t)
{
    json_open(t, "gaps", '[');
    for (size_t i = 0; i < d->gap_count; i++) {
        const stk__idle_gap *g = &d->gaps[i];
        json_open(t, NULL, '{');
        key(t, "of");
        stk__text_json_str(t, d->ranks[d->worst].has_device ? "device" : "main_thread");
        json_int(t, "ts", g->ts);
        json_int(t, "dur", g->dur);
        key(t, "step");
        if (g->step != STK__NO_NUMBER)
            stk__text_printf(t, "%lld", (long long)g->step);
        else
            stk__text_puts(t, "null");
        json_double(t, "wait_share", g->wait_share);
        json_string(d, t, "main", g->main);
        json_int(t, "main_ns", g->main_ns);
        json_string(d, t, "meanwhile", g->other);
        json_int(t, "meanwhile_ns", g->other_ns);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_what_ifs(const stk__diagnosis *d, stk__text *t)
{
    json_open(t, "what_if", '[');
    for (size_t i = 0; i < d->what_if_count; i++) {
        json_open(t, NULL, '{');
        key(t, "what");
        stk__text_json_str(t, d->what_ifs[i].what);
        json_double(t, "step_percent", d->what_ifs[i].step_percent);
        json_double(t, "input_percent", d->what_ifs[i].input_percent);
        key(t, "assumption");
        stk__text_json_str(t, d->what_ifs[i].assumption);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_ranks(const stk__diagnosis *d, stk__text *t)
{
    json_open(t, "ranks", '[');
    for (size_t i = 0; i < d->rank_count; i++) {
        const stk__rank *r = &d->ranks[i];
        json_open(t, NULL, '{');
        if (r->file < d->trace->file_count) {
            json_string(d, t, "file", d->trace->files[r->file].path);
            json_int(t, "rank", d->trace->files[r->file].rank);
        }
        if (r->process < d->trace->process_count)
            json_int(t, "pid", d->trace->processes[r->process].pid);
        json_int(t, "steps", (int64_t)(r->step_count - r->left_out));
        json_double(t, "input_percent", r->input_percent);
        key(t, "worst");
        stk__text_puts(t, i == d->worst ? "true" : "false");
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

void stk__diagnosis_json(const stk__diagnosis *d, stk__text *t)
{
    stk__text_putc(t, '{');
    json_head(d, t);
    json_breakdown(d, t);
    json_slowest(d, t);
    json_stage(d, t);
    json_host(d, t);
    json_trace(d, t);
    json_gaps(d, t);
    json_list(t, "what_to_do", d->advice, d->advice_count);
    json_what_ifs(d, t);
    json_ranks(d, t);
    json_list(t, "evidence", d->evidence, d->evidence_count);
    stk__text_putc(t, '}');
}
