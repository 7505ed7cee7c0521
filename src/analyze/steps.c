/* Training steps from markers: PyTorch's, ours, the user's, TensorFlow's, JAX', Lightning's, and rows of a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyze/python_frames.h"
#include "analyze/steps_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Less than this share of the time between markers changes no verdict. */
static const double MIN_GAPS = 0.05;

typedef struct mark {
    uint32_t slice, process, file;
    uint8_t kind; /* stk__step_kind */
    bool dropped;
    int64_t number; /* STK__NO_NUMBER: none */
    int64_t ts, end;
} mark;

typedef struct marks {
    mark *rows;
    size_t count, capacity;
} marks;

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool ends(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* XProf's rule. Python tracers call functions of a file "train.py(10): main", which is no marker. */
static bool is_xprof_marker(const char *s)
{
    return (starts(s, "train") || starts(s, "test") || starts(s, "TraceContext")) && !strchr(s, '/') &&
           !strstr(s, ".py");
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "step 12", "train_step#3", "Iter 5", "iteration3", "batch: 7": a word for a step, and its number at the end. */
static bool is_numbered_step(const char *s)
{
    static const char *const words[] = {"step", "iteration", "iter", "batch"};
    size_t size = strlen(s);
    const size_t all = size;
    while (size && s[size - 1] >= '0' && s[size - 1] <= '9')
        size--;
    if (size == all)
        return false;
    while (size && strchr(" _#:=-./", s[size - 1]))
        size--;
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if (size >= n && strncasecmp(s + size - n, words[i], n) == 0 && (size == n || !is_letter(s[size - n - 1])))
            return true;
    }
    return false;
}

static bool is_annotation(const stk__trace *t, size_t slice)
{
    return strcmp(stk__trace_str(t, t->slices.category[slice]), "user_annotation") == 0;
}

static stk__step_kind kind_of_name(const char *s)
{
    if (starts(s, "ProfilerStep#"))
        return STK__STEP_PROFILER;
    if (is_xprof_marker(s))
        return STK__STEP_XPROF;
    return ends(s, "run_training_batch") ? STK__STEP_LIGHTNING : STK__STEP_INFERRED;
}

static bool is_steps_row(const stk__trace *t, uint32_t track)
{
    size_t size;
    return starts(stk__track_own_name(t, track, &size), "Steps");
}

/* An integer among the args, or STK__NO_NUMBER. */
static int64_t arg_number(const stk__trace *t, size_t slice, stk__string key)
{
    size_t row = t->slices.args[slice];
    if (key == STK__NONE || !row)
        return STK__NO_NUMBER;
    for (; row < t->args.count; row++) {
        const unsigned type = t->args.type[row] & STK__ARG_TYPE;
        if (t->args.key[row] == key && type == STK__ARG_INT)
            return t->args.value[row].integer;
        int64_t n;
        if (t->args.key[row] == key && type == STK__ARG_STRING &&
            stk__parse_int64(stk__trace_str(t, (stk__string)t->args.value[row].string), &n))
            return n;
        if (t->args.type[row] & STK__ARG_LAST)
            break;
    }
    return STK__NO_NUMBER;
}

/* The number at the end of "ProfilerStep#12" or "train 12". */
static int64_t name_number(const char *name)
{
    const char *end = name + strlen(name), *digits = end;
    int64_t n;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    return end - digits > 0 && end - digits <= 18 && stk__parse_int64(digits, &n) ? n : STK__NO_NUMBER;
}

/* ---- collecting ---- */

static bool marks_add(const stk__trace *t, marks *m, size_t slice, stk__step_kind kind, int64_t number)
{
    if (!stk__grow((void **)&m->rows, &m->capacity, m->count + 1, sizeof *m->rows))
        return false;
    const uint32_t track = t->slices.track[slice];
    m->rows[m->count++] = (mark){
        .slice = (uint32_t)slice,
        .process = stk__track_process(t, track),
        .file = t->tracks[track].file,
        .kind = (uint8_t)kind,
        .number = number,
        .ts = t->slices.ts[slice],
        .end = t->slices.ts[slice] + t->slices.dur[slice],
    };
    return true;
}

static stk__step_kind kind_of_told(const stk__told *told, const char *name)
{
    for (size_t i = 0; i < told->step_count; i++)
        if (stk__like(told->steps[i], name))
            return STK__STEP_TOLD;
    return STK__STEP_INFERRED;
}

/*
 * Whether ranges of this track may be steps: where there is a device, its thread launches work. Workers that load data
 * number their batches as well.
 */
static bool may_count(const stk__classifier *c, uint32_t track)
{
    const stk__trace_track *k = &c->trace->tracks[track];
    if (!c->has_device)
        return true;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++)
        if (stk__classify(c, i, 0) == STK__HOST_PREPARE)
            return true;
    return false;
}

enum { NUMBERED = 0x80 }; /* in the table: a name that counts steps, if it is an annotation */

/* A table of what names say, so that the pass over the slices is one look-up each. */
static uint8_t *name_kinds(const stk__trace *t, const stk__told *told)
{
    uint8_t *kinds = stk__alloc((size_t)t->string_count + 1);
    for (uint32_t s = 0; kinds && s < t->string_count; s++) {
        const char *name = stk__trace_str(t, s);
        kinds[s] =
            (uint8_t)(told ? kind_of_told(told, name) : kind_of_name(name) | (is_numbered_step(name) ? NUMBERED : 0));
    }
    return kinds;
}

/* The user's word goes for threads and devices alike. */
static bool collect_told(const stk__classifier *c, const uint8_t *kinds, uint32_t track, marks *m)
{
    const stk__trace *t = c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        stk__trim_at(t, i);
        if (kinds[t->slices.name[i]] == STK__STEP_TOLD && !stk__is_ignored(c, i) &&
            !marks_add(t, m, i, STK__STEP_TOLD, name_number(stk__trace_str(t, t->slices.name[i]))))
            return false;
    }
    return true;
}

/* Texts that are looked for in every slice, as numbers. */
typedef struct step_keys {
    const uint8_t *kinds; /* of names */
    stk__string step_num, step;
    stk__string device_side; /* Kineto repeats markers for the device, also on rows that are not called streams */
    stk__python_keys python;
} step_keys;

/* What a slice of a thread is by its name, its category and its track; `counts` is the track's answer, -1: not asked. */
static stk__step_kind kind_on_thread(const stk__classifier *c, const step_keys *x, size_t i, int *counts)
{
    const stk__trace *t = c->trace;
    const uint8_t name = x->kinds[t->slices.name[i]];
    const stk__step_kind kind = (stk__step_kind)(name & ~NUMBERED);
    stk__python_frame function;
    if (kind == STK__STEP_PROFILER)
        return t->slices.category[i] == x->device_side ? STK__STEP_INFERRED : kind;
    if (name & NUMBERED && is_annotation(t, i)) {
        *counts = *counts < 0 ? may_count(c, t->slices.track[i]) : *counts;
        return *counts ? STK__STEP_RANGE : kind;
    }
    /* py-spy calls a function "train" by that name alone */
    return kind == STK__STEP_XPROF && stk__python_frame_of(t, &x->python, i, &function) ? STK__STEP_INFERRED : kind;
}

static bool collect_slice(const stk__trace *t, const step_keys *x, size_t i, stk__step_kind kind, marks *m)
{
    const char *name = stk__trace_str(t, t->slices.name[i]);
    int64_t number = arg_number(t, i, kind == STK__STEP_RECORDER ? x->step : x->step_num);
    if (kind == STK__STEP_INFERRED && number != STK__NO_NUMBER && !strchr(name, '/'))
        kind = STK__STEP_XPROF;
    if (number == STK__NO_NUMBER)
        number = name_number(name);
    return kind == STK__STEP_INFERRED || marks_add(t, m, i, kind, number);
}

static bool collect_track(const stk__classifier *c, const step_keys *x, uint32_t track, marks *m)
{
    const stk__trace *t = c->trace;
    const stk__trace_track *k = &t->tracks[track];
    const unsigned role = c->roles[track];
    const bool row = role == STK__ROLE_STEPS || (role == STK__ROLE_DERIVED && is_steps_row(t, track));
    int counts = -1;
    if (role != STK__ROLE_HOST && !row)
        return true;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        stk__trim_at(t, i);
        if (stk__slice_is_instant(t, i))
            continue;
        const stk__step_kind kind = role == STK__ROLE_STEPS ? STK__STEP_RECORDER
                                    : row                   ? STK__STEP_DEVICE
                                                            : kind_on_thread(c, x, i, &counts);
        const bool could = kind != STK__STEP_INFERRED || (x->step_num != STK__NONE && t->slices.args[i]);
        if (could && !collect_slice(t, x, i, kind, m))
            return false;
    }
    return true;
}

static stk_status collect(const stk__classifier *c, const stk__told *told, marks *m, stk_error *err)
{
    const stk__trace *t = c->trace;
    uint8_t *kinds = name_kinds(t, told);
    const step_keys keys = {
        .kinds = kinds,
        .step_num = stk__trace_find(t, "step_num", strlen("step_num")),
        .step = stk__trace_find(t, "step", strlen("step")),
        .device_side = stk__trace_find(t, "gpu_user_annotation", strlen("gpu_user_annotation")),
        .python = stk__python_keys_of(t),
    };
    bool ok = kinds != NULL;
    for (size_t i = 0; ok && i < t->track_count; i++)
        ok = told ? collect_told(c, kinds, (uint32_t)i, m) : collect_track(c, &keys, (uint32_t)i, m);
    stk__free(kinds);
    return ok ? STK_OK : stk__nomem(m->count * sizeof *m->rows + t->string_count, err);
}

/* ---- choosing ---- */

static int by_slice(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

static mark *mark_of_slice(marks *m, uint32_t slice)
{
    const mark key = {.slice = slice};
    return m->count ? bsearch(&key, m->rows, m->count, sizeof key, by_slice) : NULL;
}

/*
 * Markers inside markers: one that holds two or more of its kind is a loop ("train_epoch"), no step; else the inner
 * one goes. `inside` counts the markers right within each.
 */
static void drop_nested(const stk__trace *t, marks *m, uint32_t *inside, uint32_t *outer)
{
    for (size_t i = 0; i < m->count; i++) {
        outer[i] = STK__NONE;
        uint32_t up = t->slices.parent[m->rows[i].slice];
        for (int climbed = 0; up != STK__NONE && climbed < 64; climbed++, up = t->slices.parent[up]) {
            const mark *o = mark_of_slice(m, up);
            if (!o || o->kind != m->rows[i].kind)
                continue;
            outer[i] = (uint32_t)(o - m->rows);
            inside[outer[i]]++;
            break;
        }
    }
    for (size_t i = 0; i < m->count; i++) { /* outer ones stand before their inner ones */
        if (inside[i] >= 2)
            m->rows[i].dropped = true;
        else if (outer[i] != STK__NONE && inside[outer[i]] < 2)
            m->rows[i].dropped = true;
    }
}

static int by_place(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

/* The most telling kind of each process stays: the enum has them in that order. */
static void keep_best_kind(marks *m, size_t process_count, uint8_t *best_of_process)
{
    for (size_t i = 0; i < m->count; i++) {
        uint8_t *best = &best_of_process[STK_MIN(m->rows[i].process, process_count)];
        if (!*best || m->rows[i].kind < *best)
            *best = m->rows[i].kind;
    }
    for (size_t i = 0; i < m->count; i++)
        m->rows[i].dropped = m->rows[i].kind != best_of_process[STK_MIN(m->rows[i].process, process_count)];
}

static void compact(marks *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!m->rows[i].dropped)
            m->rows[kept++] = m->rows[i];
    m->count = kept;
}

/* Marks of one file and process follow each other by time: one past the last of the run that starts at i. */
static size_t run_end(const marks *m, size_t i)
{
    size_t end = i;
    while (end < m->count && m->rows[end].file == m->rows[i].file && m->rows[end].process == m->rows[i].process)
        end++;
    return end;
}

/* How many of the device's steps lie within a marker of the host, and how many do not. */
static void count_held(const marks *m, size_t host, size_t device, uint32_t *held, uint32_t *loose)
{
    const size_t host_end = run_end(m, host), device_end = run_end(m, device);
    for (size_t h = host; device < device_end; device++) {
        while (h + 1 < host_end && m->rows[h + 1].ts <= m->rows[device].ts)
            h++;
        const bool holds = m->rows[h].ts <= m->rows[device].ts && m->rows[h].end >= m->rows[device].end;
        ++*(holds ? held : loose);
    }
}

/* XProf takes the device's steps where the host's markers do not hold them. Decided per file, by most of them. */
static void choose_device_rows(marks *m)
{
    for (size_t file = 0, file_end; file < m->count; file = file_end) {
        uint32_t held = 0, loose = 0;
        size_t host = file;
        for (file_end = file; file_end < m->count && m->rows[file_end].file == m->rows[file].file;)
            file_end++;
        while (host < file_end && m->rows[host].kind == STK__STEP_DEVICE)
            host++;
        if (host == file_end)
            continue; /* the device's are all there is */
        for (size_t i = file; i < file_end; i = run_end(m, i))
            if (m->rows[i].kind == STK__STEP_DEVICE)
                count_held(m, host, i, &held, &loose);
        for (size_t i = file; i < file_end; i++)
            m->rows[i].dropped = (m->rows[i].kind == STK__STEP_DEVICE) == (loose <= held);
    }
}

static stk_status choose(const stk__trace *t, marks *m, stk_error *err)
{
    uint32_t *inside = stk__calloc(m->count + 1, 2 * sizeof *inside);
    uint8_t *best = stk__calloc(t->process_count + 1, 1);
    const bool ok = inside && best;
    if (ok) {
        qsort(m->rows, m->count, sizeof *m->rows, by_slice);
        drop_nested(t, m, inside, inside + m->count);
        compact(m);
        keep_best_kind(m, t->process_count, best);
        compact(m);
        qsort(m->rows, m->count, sizeof *m->rows, by_place);
        choose_device_rows(m);
        compact(m);
    }
    stk__free(inside);
    stk__free(best);
    return ok ? STK_OK : stk__nomem(m->count * 8 + t->process_count, err);
}

/* ---- from markers to steps ---- */

static int by_start(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/*
 * The tracks of each process as linked lists: first[process], then next[track], until STK__NONE. One block; NULL: no
 * memory.
 */
static uint32_t *tracks_by_process(const stk__trace *t)
{
    uint32_t *first = stk__alloc((t->process_count + t->track_count + 1) * sizeof *first);
    uint32_t *next = first ? first + t->process_count : NULL;
    for (size_t i = 0; first && i < t->process_count; i++)
        first[i] = STK__NONE;
    for (size_t i = t->track_count; next && i-- > 0;) {
        const uint32_t process = stk__track_process(t, (uint32_t)i);
        if (process >= t->process_count)
            continue;
        next[i] = first[process];
        first[process] = (uint32_t)i;
    }
    return first;
}

/* Starts of the input waits of a process, sorted. */
static bool wait_starts(const stk__classifier *c, const uint32_t *lists, uint32_t process, int64_t **out,
                        size_t *out_count)
{
    const stk__trace *t = c->trace;
    size_t capacity = 0;
    *out = NULL;
    *out_count = 0;
    if (process >= t->process_count)
        return true;
    for (uint32_t k = lists[process]; k != STK__NONE; k = lists[t->process_count + k]) {
        if (c->roles[k] != STK__ROLE_HOST)
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            const unsigned wait = c->wait[t->slices.name[i]];
            if (wait != STK__WAIT_RECORDER && wait != STK__WAIT_DATALOADER)
                continue;
            if (!stk__grow((void **)out, &capacity, *out_count + 1, sizeof **out))
                return false;
            (*out)[(*out_count)++] = t->slices.ts[i];
        }
    }
    if (*out_count)
        qsort(*out, *out_count, sizeof **out, by_start);
    return true;
}

/*
 * Moves starts back to the first wait since the step before. The first step's wait holds the start of the pipeline:
 * left out.
 */
static bool start_at_waits(const stk__classifier *c, const uint32_t *lists, stk__step *steps, size_t count)
{
    int64_t *waits;
    size_t wait_count, w = 0;
    bool ok = wait_starts(c, lists, steps[0].process, &waits, &wait_count);
    for (size_t i = 1; ok && i < count; i++) {
        const int64_t before = steps[i - 1].ts + steps[i - 1].dur;
        while (w < wait_count && waits[w] < before)
            w++;
        if (w < wait_count && waits[w] < steps[i].ts) {
            steps[i].dur = stk__time_between(waits[w], steps[i].ts + steps[i].dur);
            steps[i].ts = waits[w];
        }
    }
    stk__free(waits);
    return ok;
}

/*
 * One step per mark, disjoint within a process: times rounded in the file may make neighbours overlap by a little,
 * which moves the later start; marks that lie in others (of other threads) go, and so do those of the same number.
 */
static void make_rows(const marks *m, stk__steps *out)
{
    int64_t counted = 0, last_number = STK__NO_NUMBER;
    for (size_t i = 0; i < m->count; i++) {
        const mark *r = &m->rows[i];
        stk__step *last = out->count ? &out->rows[out->count - 1] : NULL;
        int64_t start = r->ts;
        if (!last || last->file != r->file || last->process != r->process) {
            counted = 0;
        } else if (start < last->ts + last->dur) {
            const int64_t covered = stk__time_between(start, last->ts + last->dur);
            const bool again = r->number != STK__NO_NUMBER && r->number == last_number;
            if (again || covered > stk__time_between(start, r->end) / 10)
                continue;
            start = last->ts + last->dur;
        }
        out->rows[out->count++] = (stk__step){
            .file = r->file,
            .process = r->process,
            .number = r->number != STK__NO_NUMBER ? r->number : counted,
            .ts = start,
            .dur = stk__time_between(start, r->end),
            .slice = r->slice,
            .kind = r->kind,
        };
        last_number = r->number;
        counted++;
    }
}

/* "ProfilerStep#12" -> "ProfilerStep#", "train 12" -> "train" */
static void name_marker(const stk__trace *t, const mark *m, stk__steps *out)
{
    const char *name = m->kind == STK__STEP_DEVICE ? "Steps" : stk__trace_str(t, t->slices.name[m->slice]);
    size_t size = strlen(name);
    while (size > 1 && name[size - 1] >= '0' && name[size - 1] <= '9')
        size--;
    while (size > 1 && name[size - 1] == ' ')
        size--;
    snprintf(out->marker, sizeof out->marker, "%.*s", (int)STK_MIN(size, sizeof out->marker - 1), name);
}

/*
 * From one start to the next. Whether the fetch of the last one lies before it or behind is not known: it gets no time,
 * and is left out. So are pauses, which are far longer than the others.
 */
static bool last_until_next(stk__step *steps, size_t count)
{
    int64_t *scratch = stk__alloc((count + 1) * sizeof *scratch);
    for (size_t i = 0; scratch && i + 1 < count; i++)
        scratch[i] = steps[i].dur = stk__time_between(steps[i].ts, steps[i + 1].ts);
    if (scratch && count > 2) {
        qsort(scratch, count - 1, sizeof *scratch, by_start);
        for (size_t i = 0; i + 1 < count; i++)
            if (steps[i].dur / 4 > scratch[(count - 1) / 2])
                steps[i].dur = 0;
        steps[count - 1].dur = 0;
    }
    const bool ok = scratch != NULL;
    stk__free(scratch);
    return ok;
}

/* Steps whose wait for data lies before the marker get it. */
static bool take_waits_in(const stk__classifier *c, stk__steps *out)
{
    uint32_t *lists = tracks_by_process(c->trace);
    bool ok = lists != NULL;
    for (size_t i = 0, end; ok && i < out->count; i = end) {
        for (end = i; end < out->count && out->rows[end].process == out->rows[i].process &&
                      out->rows[end].file == out->rows[i].file;)
            end++;
        const unsigned kind = out->rows[i].kind;
        if (kind == STK__STEP_RECORDER || kind == STK__STEP_LIGHTNING || kind == STK__STEP_RANGE)
            ok = start_at_waits(c, lists, &out->rows[i], end - i);
        else if (kind == STK__STEP_TOLD)
            ok = last_until_next(&out->rows[i], end - i);
    }
    stk__free(lists);
    return ok;
}

static stk_status steps_from_marks(const stk__classifier *c, const marks *m, stk__steps *out, stk_error *err)
{
    out->rows = stk__calloc(m->count, sizeof *out->rows);
    if (!out->rows)
        return stk__nomem(m->count * sizeof *out->rows, err);
    make_rows(m, out);
    if (!take_waits_in(c, out)) {
        stk__steps_clear(out);
        return stk__nomem(c->trace->track_count * sizeof(uint32_t), err);
    }
    out->from = STK__STEPS_MARKERS;
    out->confidence = 1;
    name_marker(c->trace, &m->rows[0], out);
    return STK_OK;
}

/*
 * Gaps between the markers of one process, from the end of each to the start of the next; the median, or 0 where they
 * are none to speak of. `scratch` has room for `count`.
 */
static int64_t usual_gap(const stk__step *steps, size_t count, int64_t *scratch)
{
    double gaps = 0, all = 0;
    for (size_t i = 1; i < count; i++) {
        scratch[i - 1] = stk__time_between(steps[i - 1].ts + steps[i - 1].dur, steps[i].ts);
        gaps += (double)scratch[i - 1];
        all += (double)stk__time_between(steps[i - 1].ts, steps[i].ts);
    }
    if (count < 3 || gaps <= MIN_GAPS * all)
        return 0;
    qsort(scratch, count - 1, sizeof *scratch, by_start);
    return scratch[(count - 1) / 2];
}

/*
 * A loop may fetch outside of its markers. Each step but the first then starts where the one before ends, unless the
 * time between is far from usual: an evaluation, a pause.
 */
static bool close_gaps(stk__step *steps, size_t count)
{
    int64_t *scratch = stk__alloc((count + 1) * sizeof *scratch);
    const int64_t usual = scratch ? usual_gap(steps, count, scratch) : 0;
    for (size_t i = count; usual > 0 && i-- > 1;) {
        const int64_t before = steps[i - 1].ts + steps[i - 1].dur, gap = stk__time_between(before, steps[i].ts);
        if (gap / 4 > usual)
            continue;
        steps[i].ts = before;
        steps[i].dur += gap;
    }
    const bool ok = scratch != NULL;
    stk__free(scratch);
    return ok;
}

bool stk__steps_close_gaps(stk__steps *steps)
{
    bool ok = true;
    for (size_t i = 0, end; ok && i < steps->count; i = end) {
        const stk__step *first = &steps->rows[i];
        for (end = i;
             end < steps->count && steps->rows[end].process == first->process && steps->rows[end].file == first->file;)
            end++;
        if (first->kind == STK__STEP_XPROF || first->kind == STK__STEP_RANGE)
            ok = close_gaps(&steps->rows[i], end - i);
    }
    return ok;
}

stk_status stk__steps_find_told(const stk__trace *t, const stk__told *told, stk__steps *out, stk_error *err)
{
    stk__classifier c;
    const stk__told *steps = told && told->step_count ? told : NULL;
    STK_TRY(stk__classifier_init(&c, t, told, err));
    marks m = {0};
    stk__steps found = {0};
    stk_status status = steps ? STK_OK : stk__steps_of_timelines(&c, &found, err);
    if (status == STK_OK && !found.count)
        status = collect(&c, steps, &m, err);
    if (status == STK_OK && m.count)
        status = choose(t, &m, err);
    if (status == STK_OK && m.count)
        status = steps_from_marks(&c, &m, &found, err);
    else if (status == STK_OK && !steps && !found.count)
        status = stk__steps_infer(&c, &found, err);
    stk__free(m.rows);
    stk__classifier_clear(&c);
    if (status == STK_OK)
        *out = found;
    return status;
}

stk_status stk__steps_find(const stk__trace *t, stk__steps *out, stk_error *err)
{
    return stk__steps_find_told(t, NULL, out, err);
}

void stk__steps_clear(stk__steps *steps)
{
    stk__free(steps->rows);
    *steps = (stk__steps){0};
}
