/* Joins metrics, variants, runs and comparisons of several results. */
#include "bench/merge.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

static bool same_kind(const stk__metric *a, const stk__metric *b)
{
    return strcmp(a->unit, b->unit) == 0 && a->higher_is_better == b->higher_is_better;
}

/* Where a metric of a part stands in the whole; it is added when there is none such. */
static stk_status place_metric(stk__result *to, const stk__metric *m, size_t *out_index, stk_error *err)
{
    size_t index = stk__result_metric(to, m->name);
    if (index != SIZE_MAX && same_kind(&to->metrics[index], m)) {
        *out_index = index;
        return STK_OK;
    }
    if (index == SIZE_MAX)
        return stk__result_add_metric(to, m->name, m->unit, m->higher_is_better, out_index, err);
    stk__text name = STK__TEXT_INIT;
    stk__text_printf(&name, "%s (%s%s)", m->name, m->unit, m->higher_is_better ? ", more is better" : "");
    stk_status status = name.failed ? stk__nomem(name.length, err) : STK_OK;
    if (status == STK_OK && (index = stk__result_metric(to, name.data)) != SIZE_MAX)
        *out_index = index;
    else if (status == STK_OK)
        status = stk__result_add_metric(to, name.data, m->unit, m->higher_is_better, out_index, err);
    stk__text_clear(&name);
    return status;
}

static stk_status copy_runs(stk__result *to, size_t variant, const stk__variant *v, const size_t *places, size_t count,
                            stk_error *err)
{
    double *values = stk__calloc(to->metric_count, sizeof *values);
    if (!values)
        return stk__nomem(to->metric_count * sizeof *values, err);
    stk_status status = STK_OK;
    for (size_t i = 0; i < v->runs && status == STK_OK; i++) {
        for (size_t m = 0; m < to->metric_count; m++)
            values[m] = NAN;
        for (size_t m = 0; m < count; m++)
            values[places[m]] = v->values[m][i];
        status = stk__result_add_run(to, variant, values, v->exit_codes ? v->exit_codes[i] : 0, err);
    }
    stk__free(values);
    return status;
}

static stk_status copy_variant(stk__result *to, const stk__merge_part *p, size_t index, size_t group,
                               const size_t *places, stk_error *err)
{
    const stk__result *r = p->result;
    const stk__variant *v = &r->variants[index];
    size_t variant;
    STK_TRY(stk__result_add_variant(to, p->names[index], v->command, group, &variant, err));
    to->variants[variant].metric = places[r->primary] + 1;
    for (size_t i = 0; i < v->parameter_count; i++)
        STK_TRY(stk__result_add_parameter(to, variant, v->parameters[i].name, v->parameters[i].value, err));
    if (v->withheld && !(to->variants[variant].withheld = stk__strdup(v->withheld)))
        return stk__nomem(strlen(v->withheld), err);
    return copy_runs(to, variant, v, places, r->metric_count, err);
}

static stk_status copy_comparisons(const stk__merge_part *p, size_t first, const size_t *places, stk__comparisons *out,
                                   stk_error *err)
{
    for (size_t i = 0; p->comparisons && i < p->comparisons->count; i++) {
        if (!stk__grow((void **)&out->items, &out->capacity, out->count + 1, sizeof *out->items))
            return stk__nomem((out->count + 1) * sizeof *out->items, err);
        stk__comparison *c = &out->items[out->count];
        *c = p->comparisons->items[i];
        c->a += first;
        c->b += first;
        c->metric = places[c->metric];
        c->withheld = c->withheld ? stk__strdup(c->withheld) : NULL;
        out->count++;
        if (p->comparisons->items[i].withheld && !c->withheld)
            return stk__nomem(strlen(p->comparisons->items[i].withheld), err);
    }
    return STK_OK;
}

static stk_status copy_notes(stk__result *to, const stk__merge_part *p, stk_error *err)
{
    for (size_t i = 0; i < p->result->note_count; i++)
        STK_TRY(stk__result_note(to, err, "%s: %s", p->names[0], p->result->notes[i]));
    return STK_OK;
}

static stk_status copy_part(stk__result *to, const stk__merge_part *p, stk__comparisons *out, stk_error *err)
{
    const stk__result *r = p->result;
    const size_t first = to->variant_count, group = first ? to->variants[first - 1].group + 1 : 0;
    size_t *places = stk__calloc(r->metric_count, sizeof *places);
    if (!places)
        return stk__nomem(r->metric_count * sizeof *places, err);
    stk_status status = STK_OK;
    for (size_t i = 0; i < r->metric_count && status == STK_OK; i++)
        status = place_metric(to, &r->metrics[i], &places[i], err);
    for (size_t i = 0; i < r->variant_count && status == STK_OK; i++)
        status = copy_variant(to, p, i, group + (p->group_size ? i / p->group_size : 0), places, err);
    if (status == STK_OK)
        status = copy_comparisons(p, first, places, out, err);
    stk__free(places);
    return status == STK_OK ? copy_notes(to, p, err) : status;
}

/* Limits are told where all parts share them. */
static stk_status copy_facts(stk__result *to, const stk__merge_part *parts, size_t count, stk_error *err)
{
    const stk__result *first = parts[0].result;
    const char *limits = first->limits;
    to->paired = true;
    to->seed = first->seed;
    to->time_s = first->time_s;
    to->warmup = first->warmup;
    to->floor_s = first->floor_s;
    for (size_t i = 0; i < count; i++) {
        const stk__result *r = parts[i].result;
        to->paired = to->paired && r->paired;
        to->interrupted |= r->interrupted;
        to->dropped += r->dropped;
        to->retaken += r->retaken;
        to->disturbed += r->disturbed;
        limits = limits && r->limits && strcmp(limits, r->limits) == 0 ? limits : NULL;
    }
    to->machine = first->machine ? stk__strdup(first->machine) : NULL;
    to->limits = limits ? stk__strdup(limits) : NULL;
    return (!first->machine || to->machine) && (!limits || to->limits) ? STK_OK : stk__nomem(1, err);
}

/* What all of them are about, else the time, which every run has. */
static size_t common_metric(const stk__result *r)
{
    const size_t first = stk__variant_metric(r, 0), wall = stk__result_metric(r, "wall");
    for (size_t i = 1; i < r->variant_count; i++) {
        if (stk__variant_metric(r, i) != first)
            return wall != SIZE_MAX ? wall : first;
    }
    return first;
}

stk_status stk__result_merge(const stk__merge_part *parts, size_t count, stk__result *out,
                             stk__comparisons *out_comparisons, stk_error *err)
{
    stk__result r = {0};
    stk__comparisons c = {0};
    size_t ignored;
    if (!count)
        return stk_error_set(err, STK_INVALID, "no benchmark to write, wanted one");
    /* All metrics first: variants have a row for each that is there when they are added. */
    stk_status status = STK_OK;
    for (size_t i = 0; i < count && status == STK_OK; i++) {
        for (size_t m = 0; m < parts[i].result->metric_count && status == STK_OK; m++)
            status = place_metric(&r, &parts[i].result->metrics[m], &ignored, err);
    }
    for (size_t i = 0; i < count && status == STK_OK; i++)
        status = copy_part(&r, &parts[i], &c, err);
    if (status == STK_OK)
        status = copy_facts(&r, parts, count, err);
    if (status != STK_OK) {
        stk__result_clear(&r);
        stk__comparisons_clear(&c);
        return status;
    }
    r.primary = common_metric(&r);
    if (parts[0].comparisons)
        c.rule = parts[0].comparisons->rule;
    *out = r;
    *out_comparisons = c;
    return STK_OK;
}
