/* Steps without markers: the name that comes back at the most regular intervals, over most of the trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/steps_impl.h"
#include "base/mem.h"
#include "base/rng.h"

#include "base/banned.h"

enum {
    MIN_REPEATS = 4,
    MAX_DEPTH = 12, /* Python frames stand around a loop; deeper slices are parts of a step */
    FINALISTS = 8,  /* candidates whose periods are searched for device work */
    MAX_NAME = 200,
};

static const double MAX_SPREAD = 0.3;  /* MAD / median of the intervals; noise without a period has about 0.7 */
static const double MIN_COVERED = 0.5; /* of the trace, by intervals near the median */
static const double MIN_OWN = 0.02;    /* of its periods, by the slices themselves: a heartbeat is no step */

typedef struct candidate {
    uint32_t track;
    stk__string name; /* of one of its slices */
    size_t count;
    int64_t *starts; /* kept for finalists only */
    double spread, covered, own, device, score;
    int64_t median;
    bool hint;      /* an input wait or an optimizer: what a step has once */
    bool on_device; /* a kernel that comes once a step marks it, but says less than the host's call */
} candidate;

typedef struct search {
    const stk__classifier *c;
    const uint32_t *next_lane; /* per track: the next lane of the same track; STK__NONE */
    uint32_t file;
    int64_t start, end; /* of the file's slices */
    uint32_t *repeats;  /* per string, of the track at hand: how often the name comes */
    uint32_t *rare;     /* per string: how often names that are it but for digits come, of names too rare themselves */
    uint32_t *alike;    /* per string: the first string that is the same but for digits */
    size_t *place;      /* per string: where its starts go */
    uint32_t *rank_of;  /* per string: its number among the groups of the track */
    candidate best[FINALISTS];
    size_t best_count;
} search;

/* ---- names that differ in digits only ---- */

/* "step 12" and "step 13" both give "step #". */
static uint64_t hash_alike(const char *s, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        char c = s[i];
        if (c >= '0' && c <= '9') {
            if (i && s[i - 1] >= '0' && s[i - 1] <= '9')
                continue;
            c = '#';
        }
        h = (h ^ (unsigned char)c) * 0x100000001b3u;
    }
    return h ^ h >> 29;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool are_alike(const char *a, const char *b)
{
    while (*a && *b) {
        if (is_digit(*a) && is_digit(*b)) {
            while (is_digit(*a))
                a++;
            while (is_digit(*b))
                b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static bool alike_make(const stk__trace *t, uint32_t *alike)
{
    size_t room = 64;
    while (room < (size_t)t->string_count * 2)
        room *= 2;
    uint32_t *table = stk__alloc(room * sizeof *table);
    if (!table)
        return false;
    memset(table, 0xff, room * sizeof *table);
    for (uint32_t s = 0; s < t->string_count; s++) {
        size_t size;
        const char *text = stk__trace_text(t, s, &size);
        alike[s] = s;
        if (!size || size > MAX_NAME)
            continue;
        /* A few probes are enough: what finds no place stands for itself. */
        size_t at = hash_alike(text, size) & (room - 1);
        for (int probe = 0; probe < 32; probe++, at = (at + 1) & (room - 1)) {
            if (table[at] == STK__NONE)
                table[at] = s;
            if (table[at] == s || are_alike(stk__trace_str(t, table[at]), text)) {
                alike[s] = table[at];
                break;
            }
        }
    }
    stk__free(table);
    return true;
}

/* ---- statistics ---- */

/* Puts the k-th smallest at its place (Hoare's selection). */
static int64_t select_kth(int64_t *x, size_t count, size_t k)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        /* No order of the file's makes this slow. */
        const int64_t pivot = x[low + stk__mix(low, high) % (high - low + 1)];
        size_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i > j)
                break;
            const int64_t swap = x[i];
            x[i++] = x[j];
            x[j] = swap;
            if (!j)
                break;
            j--;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return x[k];
}

static bool is_once_a_step(const stk__classifier *c, stk__string name)
{
    const char *s = stk__trace_str(c->trace, name);
    return c->wait[name] != STK__WAIT_NONE || strncmp(s, "Optimizer.step", 14) == 0 || strstr(s, "train_step") ||
           strstr(s, "training_step") || strncmp(s, "Optimizer.zero_grad", 19) == 0;
}

/* Fills in the figures from the starts (sorted) and the slices' own time. Scratch has room for `count`. */
static void judge(const search *s, candidate *k, const int64_t *starts, double own_ns, int64_t *scratch)
{
    const size_t gaps = k->count - 1;
    for (size_t i = 0; i < gaps; i++)
        scratch[i] = stk__time_between(starts[i], starts[i + 1]);
    k->median = select_kth(scratch, gaps, gaps / 2);
    double near = 0;
    for (size_t i = 0; i < gaps; i++) {
        const int64_t d = stk__time_between(starts[i], starts[i + 1]);
        if (d >= k->median / 2 && d / 2 <= k->median - k->median / 4)
            near += (double)d;
        scratch[i] = d > k->median ? d - k->median : k->median - d;
    }
    const double extent = (double)stk__time_between(s->start, s->end);
    const double all = (double)stk__time_between(starts[0], starts[gaps]);
    k->spread = k->median > 0 ? (double)select_kth(scratch, gaps, gaps / 2) / (double)k->median : 1;
    k->covered = extent > 0 ? near / extent : 0;
    k->own = all > 0 ? STK_MIN(own_ns / all, 1.0) : 0;
    k->hint = is_once_a_step(s->c, k->name);
    k->device = 1;
}

static void rate(candidate *k)
{
    const double regular = STK_MAX(0.0, 1 - 2 * k->spread);
    k->score = regular * k->covered * (0.6 + 0.4 * k->own) * (0.5 + 0.5 * k->device) * (k->hint ? 1.2 : 1) *
               (k->on_device ? 0.7 : 1);
}

static bool is_good(const candidate *k)
{
    return k->median > 0 && k->spread <= MAX_SPREAD && k->covered >= MIN_COVERED && (k->hint || k->own >= MIN_OWN);
}

/* Keeps the best ones, best first. A tie goes to the one found first. */
static bool offer(search *s, candidate k, const int64_t *starts)
{
    size_t at = s->best_count;
    while (at && s->best[at - 1].score < k.score)
        at--;
    if (at == FINALISTS)
        return true;
    k.starts = stk__alloc(k.count * sizeof *k.starts);
    if (!k.starts)
        return false;
    memcpy(k.starts, starts, k.count * sizeof *k.starts);
    if (s->best_count == FINALISTS)
        stk__free(s->best[--s->best_count].starts);
    memmove(&s->best[at + 1], &s->best[at], (s->best_count - at) * sizeof k);
    s->best[at] = k;
    s->best_count++;
    return true;
}

/* ---- one track ---- */

/* A thread that polls is regular as well, and no step. */
static bool counts(const stk__classifier *c, size_t i)
{
    return c->trace->slices.depth[i] <= MAX_DEPTH && !stk__slice_is_instant(c->trace, i) && !stk__is_ignored(c, i);
}

/* The group of a slice: its own name when that repeats, else all names like it; STK__NONE when it is too rare. */
static stk__string group_of(const search *s, size_t i)
{
    const stk__string name = s->c->trace->slices.name[i];
    if (s->repeats[name] >= MIN_REPEATS)
        return name;
    const stk__string alike = s->alike[name];
    return s->rare[alike] >= MIN_REPEATS && s->repeats[alike] < MIN_REPEATS ? alike : STK__NONE;
}

typedef struct track_work {
    int64_t *starts, *scratch;
    stk__string *groups; /* those of this track */
    size_t *first;       /* per group: its run in starts */
    double *own;         /* per group: time of its slices */
    size_t group_count, group_capacity, slices;
    bool has_lanes;
} track_work;

static void work_clear(track_work *w)
{
    stk__free(w->starts);
    stk__free(w->scratch);
    stk__free(w->groups);
    stk__free(w->first);
    stk__free(w->own);
}

static bool work_make(track_work *w)
{
    w->first = stk__alloc(w->group_count * sizeof *w->first);
    w->starts = stk__alloc(w->slices * sizeof *w->starts);
    w->scratch = stk__alloc(w->slices * sizeof *w->scratch);
    w->own = stk__calloc(w->group_count, sizeof *w->own);
    return w->first && w->starts && w->scratch && w->own;
}

static size_t group_size(const search *s, stk__string group)
{
    return s->repeats[group] >= MIN_REPEATS ? s->repeats[group] : s->rare[group];
}

static void place_groups(search *s, track_work *w)
{
    size_t total = 0;
    for (size_t g = 0; g < w->group_count; g++) {
        w->first[g] = s->place[w->groups[g]] = total;
        s->rank_of[w->groups[g]] = (uint32_t)g;
        total += group_size(s, w->groups[g]);
    }
}

/* Sorts the starts of each group into a run of its own: a counting sort, which keeps them by time. */
static void gather(search *s, uint32_t track, track_work *w)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const stk__string group = counts(s->c, i) ? group_of(s, i) : STK__NONE;
        if (group == STK__NONE)
            continue;
        w->starts[s->place[group]++] = t->slices.ts[i];
        w->own[s->rank_of[group]] += (double)t->slices.dur[i];
    }
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool judge_groups(search *s, uint32_t track, track_work *w)
{
    for (size_t g = 0; g < w->group_count; g++) {
        candidate k = {.track = track, .name = w->groups[g]};
        k.count = s->place[w->groups[g]] - w->first[g];
        int64_t *starts = w->starts + w->first[g];
        if (k.count < MIN_REPEATS)
            continue;
        if (w->has_lanes)
            qsort(starts, k.count, sizeof *starts, by_time);
        /* Names that come in a part of the trace only are quick to refuse. */
        if ((double)stk__time_between(starts[0], starts[k.count - 1]) <
            MIN_COVERED * (double)stk__time_between(s->start, s->end))
            continue;
        judge(s, &k, starts, w->own[g], w->scratch);
        k.on_device = s->c->roles[track] == STK__ROLE_DEVICE;
        rate(&k);
        if (is_good(&k) && !offer(s, k, starts))
            return false;
    }
    return true;
}

/* Three passes: names that repeat; then, of the others, names alike; then which groups there are. */
static void count_names(search *s, uint32_t track)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++)
        if (counts(s->c, i))
            s->repeats[t->slices.name[i]]++;
}

static void count_alike(search *s, uint32_t track)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++)
        if (counts(s->c, i) && s->repeats[t->slices.name[i]] < MIN_REPEATS)
            s->rare[s->alike[t->slices.name[i]]]++;
}

static bool list_groups(search *s, uint32_t track, track_work *w)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const stk__string group = counts(s->c, i) ? group_of(s, i) : STK__NONE;
        if (group == STK__NONE || s->place[group] != SIZE_MAX)
            continue;
        if (!stk__grow((void **)&w->groups, &w->group_capacity, w->group_count + 1, sizeof *w->groups))
            return false;
        s->place[group] = 0;
        w->groups[w->group_count++] = group;
    }
    return true;
}

static void forget_names(search *s, uint32_t track)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const stk__string name = t->slices.name[i], alike = s->alike[name];
        s->repeats[name] = s->rare[name] = s->repeats[alike] = s->rare[alike] = 0;
        s->place[name] = s->place[alike] = SIZE_MAX;
    }
}

/* A track with its lanes: rounded times put every other step of some files on a second one. */
static bool search_track(search *s, uint32_t track)
{
    track_work w = {.has_lanes = s->next_lane[track] != STK__NONE};
    bool ok = true;
    for (uint32_t k = track; k != STK__NONE; k = s->next_lane[k]) {
        w.slices += s->c->trace->tracks[k].slice_count;
        count_names(s, k);
    }
    for (uint32_t k = track; k != STK__NONE; k = s->next_lane[k])
        count_alike(s, k);
    for (uint32_t k = track; ok && k != STK__NONE; k = s->next_lane[k])
        ok = list_groups(s, k, &w);
    if (ok && w.group_count) {
        ok = work_make(&w);
        if (ok)
            place_groups(s, &w);
        for (uint32_t k = track; ok && k != STK__NONE; k = s->next_lane[k])
            gather(s, k, &w);
        ok = ok && judge_groups(s, track, &w);
    }
    for (uint32_t k = track; k != STK__NONE; k = s->next_lane[k])
        forget_names(s, k);
    stk__trace_trim(s->c->trace);
    work_clear(&w);
    return ok;
}

static uint32_t *lanes_new(const stk__trace *t)
{
    uint32_t *next = stk__alloc((t->track_count + 1) * sizeof *next);
    for (size_t i = 0; next && i < t->track_count; i++)
        next[i] = STK__NONE;
    for (size_t i = t->track_count; next && i-- > 0;) {
        const uint32_t root = stk__track_root(t, (uint32_t)i);
        if (root == i)
            continue;
        next[i] = next[root];
        next[root] = (uint32_t)i;
    }
    return next;
}

/* ---- one file ---- */

static bool may_hold_steps(const stk__classifier *c, uint32_t track)
{
    const unsigned role = c->roles[track];
    size_t size;
    return role == STK__ROLE_HOST || role == STK__ROLE_DEVICE ||
           (role == STK__ROLE_DERIVED && strcmp(stk__track_own_name(c->trace, track, &size), "XLA Modules") == 0);
}

static void file_extent(search *s)
{
    const stk__trace *t = s->c->trace;
    s->start = INT64_MAX;
    s->end = INT64_MIN;
    for (size_t k = 0; k < t->track_count; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (track->file != s->file || !may_hold_steps(s->c, (uint32_t)k))
            continue;
        for (size_t i = track->first_slice, end = i + track->slice_count; i < end; i++) {
            stk__trim_at(t, i);
            if (t->slices.depth[i] || stk__is_ignored(s->c, i))
                continue;
            s->start = STK_MIN(s->start, t->slices.ts[i]);
            s->end = STK_MAX(s->end, t->slices.ts[i] + t->slices.dur[i]);
        }
    }
}

static bool works_between(const search *s, const uint32_t *tracks, size_t count, int64_t from, int64_t to)
{
    const stk__trace *t = s->c->trace;
    for (size_t i = 0; i < count; i++) {
        const stk__trace_track *k = &t->tracks[tracks[i]];
        const size_t at = stk__first_from(t, k, from);
        if (at < (size_t)k->first_slice + k->slice_count && t->slices.ts[at] < to)
            return true;
    }
    return false;
}

/* Share of the periods in which a device starts something; 1 where the file has no device. */
static bool weigh_devices(search *s)
{
    const stk__trace *t = s->c->trace;
    uint32_t *tracks = stk__alloc((t->track_count + 1) * sizeof *tracks);
    size_t count = 0;
    if (!tracks)
        return false;
    for (size_t i = 0; i < t->track_count; i++)
        if (t->tracks[i].file == s->file && t->tracks[i].slice_count &&
            stk__is_device_work(s->c, t->tracks[i].first_slice))
            tracks[count++] = (uint32_t)i;
    for (size_t b = 0; count && b < s->best_count; b++) {
        candidate *k = &s->best[b];
        size_t with = 0;
        for (size_t i = 0; i + 1 < k->count; i++)
            with += works_between(s, tracks, count, k->starts[i], k->starts[i + 1]);
        k->device = (double)with / (double)(k->count - 1);
        rate(k);
    }
    stk__free(tracks);
    return true;
}

static const candidate *pick(const search *s)
{
    const candidate *best = NULL;
    for (size_t i = 0; i < s->best_count; i++)
        if (!best || s->best[i].score > best->score)
            best = &s->best[i];
    return best;
}

/*
 * A step lasts from one start to the next. Intervals far from the median are no steps: the compilation before the
 * first, an evaluation, a pause. The last one has no next: it lasts as long as the median says, if the file does.
 */
static bool add_steps(const search *s, const candidate *k, stk__steps *out, size_t *capacity)
{
    const uint32_t process = stk__track_process(s->c->trace, k->track);
    int64_t number = 0;
    for (size_t i = 0; i < k->count; i++) {
        int64_t dur = i + 1 < k->count ? stk__time_between(k->starts[i], k->starts[i + 1])
                                       : STK_MIN(stk__time_between(k->starts[i], s->end), k->median);
        if (dur < k->median / 4 || dur / 4 > k->median || (i + 1 == k->count && dur < k->median - k->median / 4))
            continue;
        if (!stk__grow((void **)&out->rows, capacity, out->count + 1, sizeof *out->rows))
            return false;
        out->rows[out->count++] = (stk__step){s->file, process, number++, k->starts[i], dur, STK__NONE};
    }
    return true;
}

static void describe(const search *s, const candidate *k, stk__steps *out)
{
    const double regular = 1 - k->spread / MAX_SPREAD * 0.5;
    const double confidence = STK_MIN(0.95, regular * k->covered * (0.7 + 0.3 * k->device));
    out->confidence = out->from == STK__STEPS_INFERRED ? STK_MIN(out->confidence, confidence) : confidence;
    out->from = STK__STEPS_INFERRED;
    if (!out->marker[0])
        snprintf(out->marker, sizeof out->marker, "%s", stk__trace_str(s->c->trace, k->name));
}

/*
 * Files of worker processes repeat things as well: with several files, those count that have a device or an input
 * wait.
 */
static bool is_trainer(const search *s)
{
    const stk__trace *t = s->c->trace;
    for (size_t k = 0; k < t->track_count; k++) {
        if (t->tracks[k].file != s->file)
            continue;
        if (s->c->roles[k] == STK__ROLE_DEVICE && t->tracks[k].slice_count)
            return true;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++)
            if (stk__slice_wait(s->c, i) > STK__WAIT_HINT || stk__is_device_work(s->c, i))
                return true;
    }
    return false;
}

static void search_clear(search *s)
{
    for (size_t i = 0; i < s->best_count; i++)
        stk__free(s->best[i].starts);
    s->best_count = 0;
}

static bool search_file(search *s, stk__steps *out, size_t *capacity)
{
    const stk__trace *t = s->c->trace;
    bool ok = true;
    file_extent(s);
    for (size_t k = 0; ok && s->start < s->end && k < t->track_count; k++)
        if (t->tracks[k].file == s->file && stk__track_root(t, (uint32_t)k) == k && may_hold_steps(s->c, (uint32_t)k))
            ok = search_track(s, (uint32_t)k);
    ok = ok && weigh_devices(s);
    const candidate *best = ok ? pick(s) : NULL;
    if (best) {
        ok = add_steps(s, best, out, capacity);
        describe(s, best, out);
    }
    search_clear(s);
    return ok;
}

static bool search_make(search *s, uint32_t **lanes)
{
    const stk__trace *t = s->c->trace;
    const size_t strings = (size_t)t->string_count + 1;
    s->repeats = stk__calloc(strings, sizeof *s->repeats);
    s->rare = stk__calloc(strings, sizeof *s->rare);
    s->alike = stk__calloc(strings, sizeof *s->alike);
    s->rank_of = stk__calloc(strings, sizeof *s->rank_of);
    s->place = stk__alloc(strings * sizeof *s->place);
    s->next_lane = *lanes = lanes_new(t);
    if (!s->repeats || !s->rare || !s->alike || !s->rank_of || !s->place || !s->next_lane)
        return false;
    memset(s->place, 0xff, strings * sizeof *s->place);
    return alike_make(t, s->alike);
}

stk_status stk__steps_infer(const stk__classifier *c, stk__steps *out, stk_error *err)
{
    const stk__trace *t = c->trace;
    search s = {.c = c};
    uint32_t *lanes = NULL;
    bool *trainer = stk__calloc(t->file_count + 1, sizeof *trainer);
    size_t capacity = 0, trainers = 0;
    bool ok = trainer && search_make(&s, &lanes);
    for (s.file = 0; ok && s.file < t->file_count; s.file++)
        trainers += trainer[s.file] = is_trainer(&s);
    for (s.file = 0; ok && s.file < t->file_count; s.file++)
        if (!trainers || trainer[s.file])
            ok = search_file(&s, out, &capacity);
    stk__free(s.repeats);
    stk__free(s.rare);
    stk__free(s.alike);
    stk__free(s.rank_of);
    stk__free(s.place);
    stk__free(lanes);
    stk__free(trainer);
    if (ok && out->count)
        return STK_OK;
    stk__steps_clear(out);
    return ok ? STK_OK : stk__nomem((size_t)t->string_count * 28, err);
}
