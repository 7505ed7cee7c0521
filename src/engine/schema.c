/* Field versions: which op reads and writes what, and what of it anybody needs. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/plan.h"

#include "base/banned.h"

/* What `schema` of one op sees. */
struct stk_plan {
    stk__plan *plan;
    stk__step *step;
    int step_number; /* in the segment */
};

static int find_visible(const stk__plan *plan, const char *name)
{
    for (int i = 0; i < plan->visible_count; i++)
        if (strcmp(plan->vars[plan->visible[i]].name, name) == 0)
            return i;
    return -1;
}

static void var_to_field(const stk__var *var, stk_field *out)
{
    *out = (stk_field){.name = var->name, .dtype = var->dtype, .ndim = var->ndim};
    memcpy(out->shape, var->shape, sizeof out->shape);
}

static stk_status missing_field(const stk__plan *plan, const char *name, stk_error *err)
{
    const char **names = stk__alloc(((size_t)plan->visible_count + 1) * sizeof *names);
    if (!names)
        return stk__nomem(sizeof *names, err);
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i < plan->visible_count; i++) {
        names[i] = plan->vars[plan->visible[i]].name;
        stk__text_printf(&t, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = stk__nearest(name, names, (size_t)plan->visible_count);
    if (nearest)
        stk_error_set(err, STK_INVALID, "no field '%s' here; did you mean '%s'?", name, nearest);
    else
        stk_error_set(err, STK_INVALID, "no field '%s' here; there is %.300s", name,
                      plan->visible_count ? t.data : "none");
    stk__text_clear(&t);
    stk__free(names);
    return STK_INVALID;
}

static bool push_int(int **items, size_t *count, size_t *capacity, int value)
{
    if (!stk__grow((void **)items, capacity, *count + 1, sizeof **items))
        return false;
    (*items)[(*count)++] = value;
    return true;
}

void stk__schema_describe(stk_plan *p, const void *description)
{
    p->plan->description = description;
}

const void *stk__schema_description(const stk_plan *p)
{
    return p->plan->description;
}

void stk__schema_set_classes(stk_plan *p, int id)
{
    p->plan->vars[id].classes = true;
}

bool stk__schema_has_classes(const stk_plan *p, int id)
{
    return p->plan->vars[id].classes;
}

stk_status stk__schema_read(stk_plan *p, const char *name, int *out_id, stk_field *out_field, stk_error *err)
{
    const int at = find_visible(p->plan, name);
    if (at < 0)
        return missing_field(p->plan, name, err);
    const int id = p->plan->visible[at];
    if (!push_int(&p->step->reads, &p->step->read_count, &p->step->read_capacity, id))
        return stk__nomem(sizeof id, err);
    if (out_field)
        var_to_field(&p->plan->vars[id], out_field);
    *out_id = id;
    return STK_OK;
}

static stk_status check_field(const stk_field *field, stk_error *err)
{
    if (!field->name || !*field->name)
        return stk_error_set(err, STK_INVALID, "a field has no name");
    if ((size_t)field->dtype >= STK_DTYPE_COUNT || field->ndim < 0 || field->ndim > STK_MAX_DIMS)
        return stk_error_set(err, STK_INVALID, "field '%s' has dtype %d and %d dimensions, wanted at most %d dimensions",
                             field->name, (int)field->dtype, field->ndim, STK_MAX_DIMS);
    int64_t elements = 1;
    for (int d = 0; d < field->ndim; d++) {
        if (field->shape[d] < -1)
            return stk_error_set(err, STK_INVALID, "field '%s' has dimension %lld", field->name, (long long)field->shape[d]);
        if (field->shape[d] > 0 && __builtin_mul_overflow(elements, field->shape[d], &elements))
            elements = INT64_MAX;
    }
    if (elements > (int64_t)1 << 40)
        return stk_error_set(err, STK_INVALID, "field '%s' has more than 2^40 elements", field->name);
    return STK_OK;
}

stk_status stk__schema_write(stk_plan *p, const stk_field *field, int *out_id, stk_error *err)
{
    stk__plan *plan = p->plan;
    STK_TRY(check_field(field, err));
    if (!stk__grow((void **)&plan->vars, &plan->var_capacity, (size_t)plan->var_count + 1, sizeof *plan->vars))
        return stk__nomem(sizeof *plan->vars, err);
    stk__var var = {.name = stk__strdup(field->name), .dtype = field->dtype, .ndim = field->ndim, .step = p->step_number,
                    .column = -1, .fixed = true, .elements = 1};
    if (!var.name)
        return stk__nomem(strlen(field->name), err);
    memcpy(var.shape, field->shape, sizeof(int64_t) * (size_t)field->ndim);
    for (int d = 0; d < var.ndim; d++) {
        var.fixed = var.fixed && var.shape[d] >= 0;
        var.elements *= var.shape[d];
    }
    var.element_bytes = stk_dtype_size(var.dtype);
    var.row_bytes = var.fixed ? (size_t)var.elements * var.element_bytes : 0;
    const int id = plan->var_count++;
    plan->vars[id] = var;
    if (!push_int(&p->step->writes, &p->step->write_count, &p->step->write_capacity, id))
        return stk__nomem(sizeof id, err);
    const int at = find_visible(plan, field->name);
    if (at >= 0) {
        plan->visible[at] = id;
    } else {
        size_t count = (size_t)plan->visible_count;
        if (!push_int(&plan->visible, &count, &plan->visible_capacity, id))
            return stk__nomem(sizeof id, err);
        plan->visible_count++;
    }
    *out_id = id;
    return STK_OK;
}

stk_status stk__schema_remove(stk_plan *p, const char *name, stk_error *err)
{
    stk__plan *plan = p->plan;
    const int at = find_visible(plan, name);
    if (at < 0)
        return missing_field(plan, name, err);
    memmove(plan->visible + at, plan->visible + at + 1, sizeof(int) * (size_t)(plan->visible_count - at - 1));
    plan->visible_count--;
    return STK_OK;
}

/* A rename copies no data: the version just goes by another name. */
stk_status stk__schema_rename(stk_plan *p, const char *from, const char *to, stk_error *err)
{
    stk__plan *plan = p->plan;
    const int at = find_visible(plan, from);
    if (at < 0)
        return missing_field(plan, from, err);
    if (strcmp(from, to) != 0 && find_visible(plan, to) >= 0)
        return stk_error_set(err, STK_INVALID, "a field '%s' exists already", to);
    char *copy = stk__strdup(to);
    if (!copy)
        return stk__nomem(strlen(to), err);
    stk__var *var = &plan->vars[plan->visible[at]];
    stk__free(var->name);
    var->name = copy;
    return STK_OK;
}

int stk__schema_count(const stk_plan *p)
{
    return p->plan->visible_count;
}

void stk__schema_field(const stk_plan *p, int i, stk_field *out)
{
    var_to_field(&p->plan->vars[p->plan->visible[i]], out);
}

static stk_status run_schema(stk__plan *plan, stk__step *step, int number, stk_error *err)
{
    if (!step->op->schema)
        return STK_OK;
    stk_plan view = {plan, step, number};
    const stk_status status = step->op->schema(&view, &stk__host, step->state, err);
    if (status != STK_OK && err && !err->op[0])
        snprintf(err->op, sizeof err->op, "%s", step->op->name);
    return stk__at(err, step->line, step->column, status);
}

stk_status stk__plan_schema(stk__plan *plan, stk_error *err)
{
    /* Ops that touch no field are asked too: they look at their options before any data is read. */
    for (int i = 0; i < plan->step_count; i++) {
        const stk_role role = plan->steps[i].op->role;
        if (role != STK_ROLE_SOURCE && role != STK_ROLE_SAMPLE && role != STK_ROLE_SINK &&
            role != STK_ROLE_ROWS)
            STK_TRY(run_schema(plan, &plan->steps[i], -1, err));
    }
    for (int i = 0; i < plan->segment_count; i++)
        STK_TRY(run_schema(plan, plan->segment[i], i, err));
    if (plan->visible_count == 0)
        return stk_error_set(err, STK_INVALID, "the pipeline ends with no field");
    return STK_OK;
}

/* Nothing to do with a sink, which takes what the text says. */
stk_status stk__plan_select(stk__plan *plan, stk_error *err)
{
    const size_t count = plan->config.field_count;
    if (!plan->config.fields || plan->sink)
        return STK_OK;
    int *chosen = stk__calloc(count + 1, sizeof *chosen);
    if (!chosen)
        return stk__nomem(count * sizeof *chosen, err);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const int at = find_visible(plan, plan->config.fields[i]);
        if (at < 0) {
            stk__free(chosen);
            return missing_field(plan, plan->config.fields[i], err);
        }
        bool again = false;
        for (size_t k = 0; k < kept; k++)
            again = again || chosen[k] == plan->visible[at];
        if (!again)
            chosen[kept++] = plan->visible[at];
    }
    stk__free(plan->visible);
    plan->visible = chosen;
    plan->visible_count = (int)kept;
    plan->visible_capacity = count + 1;
    return STK_OK;
}

static bool writes_needed(const stk__plan *plan, const stk__step *step)
{
    for (size_t i = 0; i < step->write_count; i++)
        if (plan->vars[step->writes[i]].needed)
            return true;
    return false;
}

void stk__plan_liveness(stk__plan *plan)
{
    for (int i = 0; i < plan->visible_count; i++) {
        stk__var *var = &plan->vars[plan->visible[i]];
        var->needed = true;
        var->column = i;
    }
    for (int i = plan->segment_count - 1; i >= 0; i--) {
        stk__step *step = plan->segment[i];
        const bool acts = step->write_count == 0 || (step->op->flags & STK_OP_DROPS) || i == 0;
        if (!acts && !writes_needed(plan, step)) {
            step->unused = true;
            stk__plan_note(plan, "exact", "%s is left out: nothing uses what it makes", stk__step_label(step));
            continue;
        }
        for (size_t k = 0; k < step->read_count; k++)
            plan->vars[step->reads[k]].needed = plan->vars[step->reads[k]].read = true;
    }
    for (int i = 0; i < plan->segment_count; i++) {
        const stk__step *step = plan->segment[i];
        for (size_t k = 0; !step->unused && i > 0 && k < step->write_count; k++) {
            const stk__var *var = &plan->vars[step->writes[k]];
            if (!var->needed)
                stk__plan_note(plan, "exact", "%s does not make field '%s': nothing uses it", stk__step_label(step),
                               var->name);
        }
    }
}
