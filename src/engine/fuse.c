/* Ops that run as one over each sample. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/plan.h"

#include "base/banned.h"

#define GROUP_MAX 32
#define LABEL_SIZE 128

/* The one step that reads this version of a field and nothing else; -1 when there is none, or others want it too. */
static int only_reader(const stk__plan *plan, int var)
{
    int reader = -1;
    if (plan->vars[var].column >= 0)
        return -1;
    for (int i = 0; i < plan->segment_count; i++) {
        const stk__step *step = plan->segment[i];
        for (size_t k = 0; k < step->read_count && !step->unused; k++) {
            if (step->reads[k] != var)
                continue;
            if (reader >= 0 || step->read_count != 1)
                return -1;
            reader = i;
        }
    }
    return reader;
}

/* The step that can follow `last` in a group, or -1. */
static int next_member(const stk__plan *plan, int last)
{
    const stk__step *step = plan->segment[last];
    if (step->write_count != 1)
        return -1;
    const int next = only_reader(plan, step->writes[0]);
    if (next < 0 || plan->segment[next]->op->fuse != step->op->fuse || plan->segment[next]->write_count != 1)
        return -1;
    if (plan->cache_at > last && plan->cache_at <= next)
        return -1;
    /* A take that counts samples must not count one that fails in an op before it. */
    for (int k = 0; k < plan->relay_count; k++)
        if (plan->relays[k].segment_at > last && plan->relays[k].segment_at <= next)
            return -1;
    return next;
}

static stk_status set_group(stk__plan *plan, const int *members, int count, stk_error *err)
{
    stk__step *last = plan->segment[members[count - 1]];
    stk__text label = STK__TEXT_INIT;
    for (int i = 0; i < count; i++)
        stk__text_printf(&label, "%s%s", i ? "+" : "", stk__step_label(plan->segment[members[i]]));
    stk__free(last->label);
    last->label = label.data ? stk__strdup(label.data) : NULL;
    stk__text_clear(&label);
    last->group = stk__alloc(sizeof *members * (size_t)count);
    if (!last->group || !last->label)
        return stk__nomem(sizeof *members * (size_t)count, err);
    memcpy(last->group, members, sizeof *members * (size_t)count);
    last->group_count = count;
    for (int i = 0; i < count - 1; i++)
        plan->segment[members[i]]->absorbed = true;
    stk__plan_note(plan, "exact", "%s run as one: each sample goes through all of them at once", last->label);
    return STK_OK;
}

static void note_approximation(stk__plan *plan, const stk__fuse *fuse, const void *const *states, int count)
{
    const char *what = fuse->approximates ? fuse->approximates(states, (size_t)count, plan->config.no_approximate) : NULL;
    if (!what)
        return;
    plan->approximations |= STK__APPROXIMATE_FUSED;
    stk__plan_note(plan, "approximate", "%s", what);
}

stk_status stk__plan_fuse(stk__plan *plan, stk_error *err)
{
    for (int i = 1; i < plan->segment_count; i++) {
        const stk__step *first = plan->segment[i];
        const stk__fuse *fuse = first->op->fuse;
        if (!fuse || !first->op->worker_open || first->unused || first->absorbed || first->group)
            continue;
        int members[GROUP_MAX] = {i}, count = 1;
        const void *states[GROUP_MAX] = {first->state};
        while (count < GROUP_MAX) {
            const int next = next_member(plan, members[count - 1]);
            if (next < 0 || !fuse->joins(states, (size_t)count, plan->segment[next]->state))
                break;
            states[count] = plan->segment[next]->state;
            members[count++] = next;
        }
        if (count > 1)
            STK_TRY(set_group(plan, members, count, err));
        note_approximation(plan, fuse, states, count);
    }
    return STK_OK;
}

/* Copied, since statistics name ops after these are closed; escaped, since it is shown to people. */
stk_status stk__plan_label(stk__plan *plan, stk_error *err)
{
    for (int i = 0; i < plan->step_count; i++) {
        stk__step *step = &plan->steps[i];
        const char *label = step->op->label ? step->op->label(step->state) : NULL;
        if (!label || !label[0])
            continue;
        char text[LABEL_SIZE];
        stk__escape_terminal(label, text, sizeof text);
        step->label = stk__strdup(text);
        if (!step->label)
            return stk__nomem(strlen(text) + 1, err);
    }
    return STK_OK;
}

const char *stk__step_label(const stk__step *step)
{
    return step->label ? step->label : step->op->name;
}
