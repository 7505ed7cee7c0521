/* Groups of `top`: which row a slice or a sample counts for. */
#include <string.h>

#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Ids past the table stand for "none": no process, outside of all steps. */
static uint32_t count_ids(const stk__grouping *g)
{
    const stk__trace *t = g->trace;
    switch (g->by) {
    case STK__TOP_NAME:
    case STK__TOP_CATEGORY:
        return t->string_count + 1;
    case STK__TOP_THREAD:
        return (uint32_t)t->track_count + 1;
    case STK__TOP_FILE:
        return (uint32_t)t->file_count + 1;
    case STK__TOP_STEP:
        return (uint32_t)g->steps.count + 1;
    case STK__TOP_PROCESS:
        return (uint32_t)t->process_count + 1;
    }
    return 1;
}

static bool has_profiler_names(const stk__trace *t)
{
    for (stk__string s = 1; s < t->string_count; s++) {
        if (stk__profiler_name(stk__trace_str(t, s)))
            return true;
    }
    return false;
}

stk_status stk__grouping_init(stk__grouping *g, const stk__trace *t, const stk__top_options *o, stk_error *err)
{
    *g = (stk__grouping){
        .trace = t, .by = o->by, .with_name = o->with_name && o->by != STK__TOP_NAME, .track = STK__NONE};
    pthread_mutex_init(&g->lock, NULL);
    stk_status status = stk__chosen_init(&g->chosen, t, &o->select, err);
    if (status == STK_OK && g->by == STK__TOP_STEP)
        status = stk__steps_find(t, &g->steps, err);
    if (status != STK_OK) {
        stk__grouping_clear(g);
        return status;
    }
    g->fold = o->fold;
    /* Whoever asks for names or categories gets what has them. */
    if (o->leave_out && !g->chosen.names && !g->chosen.categories) {
        g->profiler_category = stk__profiler_category(t);
        g->leave_out = g->profiler_category || has_profiler_names(t);
    }
    g->plain = g->by == STK__TOP_NAME && !g->chosen.categories && !g->chosen.timed;
    g->constant = (g->by == STK__TOP_THREAD || g->by == STK__TOP_FILE || g->by == STK__TOP_PROCESS) && !g->with_name &&
                  !g->chosen.names && !g->chosen.categories && !g->chosen.timed && !g->leave_out;
    g->id_count = count_ids(g);
    g->map = stk__alloc((size_t)g->id_count * sizeof *g->map);
    g->folded = stk__calloc((size_t)t->string_count + 1, sizeof *g->folded);
    if (!g->map || !g->folded || !stk__grow((void **)&g->groups, &g->capacity, STK__GROUP_FIRST, sizeof *g->groups)) {
        stk__grouping_clear(g);
        return stk__nomem((size_t)g->id_count * sizeof *g->map, err);
    }
    memset(g->map, 0xff, (size_t)g->id_count * sizeof *g->map);
    memset(g->groups, 0, STK__GROUP_FIRST * sizeof *g->groups);
    g->count = STK__GROUP_FIRST;
    return STK_OK;
}

void stk__grouping_clear(stk__grouping *g)
{
    if (!g->trace)
        return;
    pthread_mutex_destroy(&g->lock);
    stk__chosen_clear(&g->chosen);
    stk__steps_clear(&g->steps);
    stk__keymap_clear(&g->pairs);
    stk__diff_keys_clear(&g->stems);
    stk__free(g->stem_name);
    stk__free(g->folded);
    stk__free(g->map);
    stk__free(g->groups);
    *g = (stk__grouping){0};
}

/* ---- steps ---- */

/* The first step that comes after all of the file's processes below `process`. */
static size_t first_step(const stk__steps *steps, uint32_t file, uint64_t process)
{
    size_t low = 0, high = steps->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const stk__step *step = &steps->rows[middle];
        if (step->file < file || (step->file == file && step->process < process))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The steps that hold on a track: of its process; else, as for a GPU's streams, which are a process of their own, those
 * of its file, when one process has them all.
 */
static void steps_of_track(stk__grouping *g, const stk__trace_track *track)
{
    g->step_first = first_step(&g->steps, track->file, track->process);
    g->step_end = first_step(&g->steps, track->file, (uint64_t)track->process + 1);
    if (g->step_first == g->step_end) {
        g->step_first = first_step(&g->steps, track->file, 0);
        g->step_end = first_step(&g->steps, track->file, (uint64_t)UINT32_MAX + 1);
        if (g->step_first < g->step_end &&
            g->steps.rows[g->step_first].process != g->steps.rows[g->step_end - 1].process)
            g->step_end = g->step_first;
    }
    g->step_last = g->step_first;
}

static bool step_holds(const stk__step *step, int64_t ts)
{
    return ts >= step->ts && ts < step->ts + step->dur;
}

static uint32_t step_at(stk__grouping *g, int64_t ts)
{
    const stk__step *steps = g->steps.rows;
    if (g->step_last < g->step_end && step_holds(&steps[g->step_last], ts))
        return (uint32_t)g->step_last;
    size_t low = g->step_first, high = g->step_end;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (steps[middle].ts <= ts)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == g->step_first || !step_holds(&steps[low - 1], ts))
        return g->id_count - 1;
    g->step_last = low - 1;
    return (uint32_t)g->step_last;
}

/* ---- ids and groups ---- */

static uint32_t id_of_track(const stk__grouping *g, uint32_t track)
{
    const stk__trace *t = g->trace;
    const stk__trace_track *row = &t->tracks[track];
    if (g->by == STK__TOP_THREAD)
        return stk__track_of_thread(t, track);
    if (g->by == STK__TOP_FILE)
        return STK_MIN(row->file, (uint32_t)t->file_count);
    return STK_MIN(row->process, (uint32_t)t->process_count);
}

void stk__grouping_track(stk__grouping *g, uint32_t track)
{
    if (track == g->track)
        return;
    g->track = track;
    if (g->by == STK__TOP_STEP)
        steps_of_track(g, &g->trace->tracks[track]);
    else if (g->by != STK__TOP_NAME && g->by != STK__TOP_CATEGORY)
        g->track_id = id_of_track(g, track);
}

uint32_t stk__grouping_id(stk__grouping *g, int64_t ts, stk__string name, stk__string category)
{
    switch (g->by) {
    case STK__TOP_NAME:
        return name;
    case STK__TOP_CATEGORY:
        return category;
    case STK__TOP_STEP:
        return step_at(g, ts);
    case STK__TOP_THREAD:
    case STK__TOP_FILE:
    case STK__TOP_PROCESS:
        break;
    }
    return g->track_id;
}

static uint32_t add_group(stk__grouping *g, uint32_t id, stk__string name)
{
    if (g->failed || !stk__grow((void **)&g->groups, &g->capacity, g->count + 1, sizeof *g->groups)) {
        g->failed = true;
        return STK__GROUP_OTHER;
    }
    const size_t group = g->count;
    g->groups[group] = (stk__top_group){.id = id, .name = name};
    __atomic_store_n(&g->count, group + 1, __ATOMIC_RELAXED);
    return (uint32_t)group;
}

uint32_t stk__grouping_find(stk__grouping *g, uint32_t id, stk__string name)
{
    if (!g->with_name) {
        uint32_t group = g->map[id];
        if (group == STK__NONE) {
            group = add_group(g, id, 0);
            __atomic_store_n(&g->map[id], group, __ATOMIC_RELEASE);
        }
        return group;
    }
    bool is_new;
    uint32_t *place = stk__keymap_place(&g->pairs, (stk__key){{id, name, 0}}, STK__GROUP_OTHER, &is_new);
    if (!place) {
        g->failed = true;
        return STK__GROUP_OTHER;
    }
    if (is_new)
        *place = add_group(g, id, name);
    return *place;
}

/* ---- numbered names ---- */

/* What is known of a name: not looked at yet; stands for itself; stands for others as well. */
enum { FOLDED_NEW, FOLDED_ALONE, FOLDED_MANY };

stk__string stk__grouping_fold(stk__grouping *g, stk__string name)
{
    size_t size;
    if (!g->fold || g->folded[name])
        return name; /* a name that counts as another one stays new */
    const char *text = stk__trace_text(g->trace, name, &size);
    const size_t stem = stk__diff_stem("", text, size);
    g->folded[name] = stem ? FOLDED_NEW : FOLDED_ALONE;
    if (!stem)
        return name;
    const size_t before = g->stems.count;
    const uint32_t key = stk__diff_key(&g->stems, text, stem);
    if (key == STK__NONE ||
        !stk__grow((void **)&g->stem_name, &g->stem_capacity, (size_t)key + 1, sizeof *g->stem_name)) {
        g->failed = true;
        return name;
    }
    if (g->stems.count > before) {
        g->stem_name[key] = name;
        g->folded[name] = FOLDED_ALONE;
    } else {
        g->folded[g->stem_name[key]] = FOLDED_MANY;
    }
    return g->stem_name[key];
}

void stk__grouping_name(const stk__grouping *g, stk__string name, stk__text *out)
{
    size_t size;
    const char *text = stk__trace_text(g->trace, name, &size);
    const size_t stem = g->folded[name] == FOLDED_MANY ? stk__diff_stem("", text, size) : 0;
    stk__text_write(out, text, stem ? stem : size);
    if (stem)
        stk__text_putc(out, '*');
}

/* ---- slices ---- */

/* The group of a name. Whoever calls holds the lock, or is alone. */
static uint32_t find_name(stk__grouping *g, stk__string name)
{
    if (!stk__chosen_name(&g->chosen, name))
        return STK__GROUP_OTHER;
    if (g->leave_out && stk__profiler_name(stk__trace_str(g->trace, name)))
        return STK__GROUP_PROFILER;
    return stk__grouping_find(g, stk__grouping_fold(g, name), 0);
}

/* A name or the id of a track that is met for the first time, or is being met by another thread. */
static STK_NOINLINE uint32_t meet_id(stk__grouping *g, uint32_t id)
{
    pthread_mutex_lock(&g->lock);
    uint32_t group = g->map[id];
    if (group == STK__NONE && g->plain) {
        group = find_name(g, id);
        __atomic_store_n(&g->map[id], group, __ATOMIC_RELEASE);
    } else if (group == STK__NONE) {
        group = stk__grouping_find(g, id, 0);
    }
    pthread_mutex_unlock(&g->lock);
    return group;
}

static inline uint32_t group_of_id(stk__grouping *g, uint32_t id)
{
    const uint32_t group = __atomic_load_n(&g->map[id], __ATOMIC_ACQUIRE);
    return STK_LIKELY(group != STK__NONE) ? group : meet_id(g, id);
}

static void group_plain(stk__grouping *g, const stk__string *name, size_t count, uint32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = group_of_id(g, name[i]);
}

static void group_constant(stk__grouping *g, uint32_t track, size_t count, uint32_t *out)
{
    const uint32_t group = group_of_id(g, id_of_track(g, track));
    for (size_t i = 0; i < count; i++)
        out[i] = group;
}

static void leave_out_category(const stk__grouping *g, const stk__string *category, size_t count, uint32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (STK_UNLIKELY(category[i] == g->profiler_category))
            out[i] = STK__GROUP_PROFILER;
    }
}

static uint32_t group_of_slice(stk__grouping *g, size_t i)
{
    const stk__slices *s = &g->trace->slices;
    const bool named = g->by == STK__TOP_NAME || g->with_name;
    const stk__string name = named ? stk__grouping_fold(g, s->name[i]) : s->name[i];
    return stk__grouping_find(g, stk__grouping_id(g, s->ts[i], name, s->category[i]), name);
}

static bool is_left_out(const stk__grouping *g, size_t slice)
{
    const stk__slices *s = &g->trace->slices;
    return g->leave_out && ((g->profiler_category && s->category[slice] == g->profiler_category) ||
                            stk__profiler_name(stk__trace_str(g->trace, s->name[slice])));
}

void stk__grouping_slices(stk__grouping *g, uint32_t track, size_t first, size_t count, uint32_t *out)
{
    if (g->plain) {
        group_plain(g, g->trace->slices.name + first, count, out);
        if (g->profiler_category)
            leave_out_category(g, g->trace->slices.category + first, count, out);
        return;
    }
    if (g->constant) {
        group_constant(g, track, count, out);
        return;
    }
    stk__grouping_track(g, track);
    const stk__slices *s = &g->trace->slices;
    for (size_t k = 0; k < count; k++) {
        const size_t i = first + k;
        if (!stk__chosen_time(&g->chosen, s->ts[i], s->dur[i]))
            out[k] = STK__GROUP_OUTSIDE;
        else if (!stk__chosen_name(&g->chosen, s->name[i]) || !stk__chosen_category(&g->chosen, s->category[i]))
            out[k] = STK__GROUP_OTHER;
        else if (is_left_out(g, i))
            out[k] = STK__GROUP_PROFILER;
        else
            out[k] = group_of_slice(g, i);
    }
}

/* ---- what groups are called ---- */

void stk__grouping_row(const stk__grouping *g, uint32_t group, stk__top_row *out)
{
    const stk__top_group *row = &g->groups[group];
    out->name = row->name;
    out->key = out->row = STK__NONE;
    if (g->by == STK__TOP_NAME || g->by == STK__TOP_CATEGORY)
        out->key = row->id;
    else if (row->id + 1 < g->id_count)
        out->row = row->id;
    if (g->by == STK__TOP_FILE && out->row != STK__NONE)
        out->key = g->trace->files[row->id].path;
}

bool stk__grouping_labelled(const stk__grouping *g)
{
    return g->with_name || g->stems.count || (g->by != STK__TOP_NAME && g->by != STK__TOP_CATEGORY);
}

static void label_process(const stk__trace *t, uint32_t process, stk__text *out)
{
    const stk__trace_process *p = &t->processes[process];
    if (p->name)
        stk__text_printf(out, "%s (", stk__trace_str(t, p->name));
    if (p->pid_text)
        stk__text_puts(out, stk__trace_str(t, p->pid_text));
    else
        stk__text_printf(out, "%s%lld", p->name ? "" : "process ", (long long)p->pid);
    if (p->name)
        stk__text_putc(out, ')');
}

static void label_step(const stk__grouping *g, uint32_t row, stk__text *out)
{
    const stk__step *step = &g->steps.rows[row];
    stk__text_printf(out, "step %lld", (long long)step->number);
    /* Numbers alone do not tell the steps of several processes apart. */
    const bool alone = g->steps.rows[0].process == g->steps.rows[g->steps.count - 1].process;
    if (!alone && step->process < g->trace->process_count) {
        stk__text_puts(out, " of ");
        label_process(g->trace, step->process, out);
    }
}

void stk__grouping_label(const stk__grouping *g, const stk__top_row *row, stk__text *out)
{
    const stk__trace *t = g->trace;
    if (row->key != STK__NONE && g->by == STK__TOP_NAME)
        stk__grouping_name(g, row->key, out);
    else if (row->key != STK__NONE)
        stk__text_puts(out, stk__trace_str(t, row->key));
    else if (g->by == STK__TOP_STEP && row->row == STK__NONE)
        stk__text_puts(out, "(outside steps)");
    else if (row->row == STK__NONE)
        stk__text_puts(out, g->by == STK__TOP_PROCESS ? "(no process)" : "(none)");
    else if (g->by == STK__TOP_THREAD)
        stk__trace_track_label(t, row->row, out);
    else if (g->by == STK__TOP_PROCESS)
        label_process(t, row->row, out);
    else if (g->by == STK__TOP_STEP)
        label_step(g, row->row, out);
}
