/* The plan as text for people and as JSON for programs. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "engine/plan.h"

static void print_type(stk__text *t, const stk__var *var, int64_t batch)
{
    stk__text_puts(t, stk_dtype_name(var->dtype));
    if (batch == 0 && var->ndim == 0)
        return;
    stk__text_putc(t, '[');
    if (batch > 0)
        stk__text_printf(t, "%" PRId64, batch);
    for (int d = 0; d < var->ndim; d++) {
        if (d > 0 || batch > 0)
            stk__text_puts(t, ", ");
        if (var->shape[d] < 0)
            stk__text_putc(t, '?');
        else
            stk__text_printf(t, "%" PRId64, var->shape[d]);
    }
    stk__text_putc(t, ']');
}

static void print_count(stk__text *t, int64_t n, const char *what)
{
    if (n == STK__ENDLESS)
        stk__text_printf(t, "endless %s", what);
    else
        stk__text_printf(t, "%" PRId64 " %s", n, what);
}

static void line_start(stk__text *t, const char *label)
{
    stk__text_printf(t, "%-9s ", label);
}

/* The step as it was written, behind its label where it has one of its own. */
static void print_step(stk__text *t, const stk__step *step)
{
    if (step->op->label && step->label)
        stk__text_printf(t, "%s: ", step->label);
    stk__step_print(t, step, 0);
}

static void explain_order(const stk__plan *plan, stk__text *t, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (plan->order_steps[i] == plan->automatic && plan->config.world < 2)
            continue; /* it does nothing, and nobody wrote it */
        line_start(t, "order");
        stk__step_print(t, plan->order_steps[i], 0);
        if (!plan->stream && !plan->may_drop) {
            stk__text_puts(t, "  -> ");
            print_count(t, plan->chain.nodes[i].out, i < plan->chain.batch_at ? "samples" : "batches");
        }
        stk__text_putc(t, '\n');
    }
}

static void explain_segment(const stk__plan *plan, stk__text *t)
{
    for (int i = 1; i <= plan->segment_count; i++) {
        for (int k = 0; k < plan->relay_count; k++) {
            if (plan->relays[k].segment_at != i)
                continue;
            line_start(t, "count");
            stk__step_print(t, plan->relays[k].step, 0);
            stk__text_puts(t, "  counts what the filter lets pass\n");
        }
        if (plan->cache && plan->cache_at == i) {
            line_start(t, "cache");
            stk__step_print(t, plan->cache, 0);
            stk__text_putc(t, '\n');
        }
        if (i == plan->segment_count || plan->segment[i]->unused || plan->segment[i] == plan->sink)
            continue;
        line_start(t, "sample");
        print_step(t, plan->segment[i]);
        stk__text_putc(t, '\n');
    }
}

static void explain_batch(const stk__plan *plan, stk__text *t)
{
    line_start(t, "batch");
    if (plan->batch)
        stk__step_print(t, plan->batch, 0);
    else
        stk__text_printf(t, "(none given: samples come in groups of %" PRId64 ")", plan->batching.size);
    if (!plan->stream && !plan->may_drop) {
        stk__text_puts(t, "  -> ");
        print_count(t, plan->chain.batches, "batches");
    }
    stk__text_putc(t, '\n');
    for (int i = 0; i < plan->visible_count; i++) {
        const stk__var *var = &plan->vars[plan->visible[i]];
        stk__text_printf(t, "%-9s   %s: ", "", var->name);
        print_type(t, var, plan->batching.size);
        stk__text_puts(t, var->fixed ? "  written in place" : plan->batching.pad ? "  padded" : "  ragged");
        stk__text_putc(t, '\n');
    }
}

static void explain_run(const stk__plan *plan, stk__text *t, int threads, int64_t memory_bytes)
{
    line_start(t, "run");
    stk__text_printf(t, "%d thread%s, buffers of at most ", threads, threads == 1 ? "" : "s");
    stk__text_bytes(t, (uint64_t)memory_bytes);
    if (plan->stream)
        stk__text_puts(t, "; a stream: read from front to back");
    else if (plan->may_drop)
        stk__text_puts(t, "; samples can fall out, so batches are put together in order");
    else {
        stk__text_puts(t, "; ");
        print_count(t, plan->chain.total, "batches in all");
    }
    stk__text_putc(t, '\n');
}

static void explain_rewrites(const stk__plan *plan, stk__text *t)
{
    if (!plan->rewrites.length)
        return;
    stk__text_puts(t, "rewrites\n");
    for (const char *p = plan->rewrites.data; *p;) {
        const char *tab = strchr(p, '\t'), *end = strchr(p, '\n');
        stk__text_printf(t, "  %-12.*s %.*s\n", (int)(tab - p), p, (int)(end - tab - 1), tab + 1);
        p = end + 1;
    }
}

static void json_steps(const stk__plan *plan, stk__text *t)
{
    stk__text_puts(t, "\"ops\":[");
    for (int i = 0; i < (int)plan->text.op_count; i++) {
        const stk__step *step = &plan->steps[i];
        stk__text one = STK__TEXT_INIT;
        stk__step_print(&one, step, 0);
        stk__text_printf(t, "%s{\"name\":\"%s\",\"unused\":%s,\"text\":", i ? "," : "", step->op->name,
                         step->unused ? "true" : "false");
        stk__text_json_str(t, one.data ? one.data : "");
        if (step->op->label && step->label) {
            stk__text_puts(t, ",\"label\":");
            stk__text_json_str(t, step->label);
        }
        stk__text_putc(t, '}');
        t->failed = t->failed || one.failed;
        stk__text_clear(&one);
    }
    stk__text_puts(t, "],\"fields\":[");
    for (int i = 0; i < plan->visible_count; i++) {
        const stk__var *var = &plan->vars[plan->visible[i]];
        stk__text_printf(t, "%s{\"name\":", i ? "," : "");
        stk__text_json_str(t, var->name);
        stk__text_printf(t, ",\"dtype\":\"%s\",\"shape\":[", stk_dtype_name(var->dtype));
        for (int d = 0; d < var->ndim; d++)
            stk__text_printf(t, "%s%" PRId64, d ? "," : "", var->shape[d]);
        stk__text_puts(t, "]}");
    }
    stk__text_putc(t, ']');
}

static void json_rewrites(const stk__plan *plan, stk__text *t)
{
    stk__text_puts(t, "\"rewrites\":[");
    const char *p = plan->rewrites.length ? plan->rewrites.data : "";
    for (bool first = true; *p; first = false) {
        const char *tab = strchr(p, '\t'), *end = strchr(p, '\n');
        stk__text_printf(t, "%s{\"kind\":\"%.*s\",\"what\":", first ? "" : ",", (int)(tab - p), p);
        stk__text_json(t, tab + 1, (size_t)(end - tab - 1));
        stk__text_putc(t, '}');
        p = end + 1;
    }
    stk__text_putc(t, ']');
}

static void json_count(stk__text *t, const char *name, int64_t n, bool known)
{
    stk__text_printf(t, ",\"%s\":", name);
    if (known && n != STK__ENDLESS)
        stk__text_printf(t, "%" PRId64, n);
    else
        stk__text_puts(t, "null");
}

stk_status stk__plan_explain(stk__plan *plan, int threads, int64_t memory_bytes, stk_error *err)
{
    stk__text *t = &plan->explain;
    line_start(t, "source");
    print_step(t, plan->source);
    if (!plan->stream) {
        stk__text_puts(t, "  -> ");
        print_count(t, plan->chain.source_count, "samples");
    }
    stk__text_putc(t, '\n');
    explain_order(plan, t, 0, plan->chain.batch_at);
    explain_segment(plan, t);
    explain_batch(plan, t);
    explain_order(plan, t, plan->chain.batch_at, plan->chain.count);
    if (plan->sink) {
        line_start(t, "sink");
        print_step(t, plan->sink);
        stk__text_putc(t, '\n');
    }
    explain_run(plan, t, threads, memory_bytes);
    explain_rewrites(plan, t);

    const bool counted = !plan->stream && !plan->may_drop;
    t = &plan->explain_json;
    stk__text_putc(t, '{');
    json_steps(plan, t);
    stk__text_putc(t, ',');
    json_rewrites(plan, t);
    stk__text_printf(t, ",\"stream\":%s,\"batch_size\":%" PRId64 ",\"threads\":%d,\"memory_bytes\":%" PRId64,
                     plan->stream ? "true" : "false", plan->batching.size, threads, memory_bytes);
    json_count(t, "source_samples", plan->chain.source_count, !plan->stream);
    json_count(t, "batches", plan->chain.total, counted);
    stk__text_printf(t, ",\"fingerprint\":\"%016" PRIx64 "\"}", plan->fingerprint);
    if (plan->explain.failed || plan->explain_json.failed)
        return stk__nomem(plan->explain.length + plan->explain_json.length, err);
    return STK_OK;
}
