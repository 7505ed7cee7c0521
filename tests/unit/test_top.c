/* top: exact rows by hand, and every figure against a slow reference on random traces. */
#include "trace_models.h"

#include "analyze/top.h"
#include "analyze/top_calls.h"
#include "analyze/top_impl.h"

static stk__top make(const stk__trace *t, stk__top_source source, const stk__top_options *options)
{
    stk__top top;
    stk_error err;
    stk_error_clear(&err);
    if (stk__top_make(t, source, options, &top, &err) != STK_OK)
        fail_msg("top: %s", err.message);
    return top;
}

static const stk__top_row *find(const stk__trace *t, const stk__top *top, const char *label)
{
    const stk__top_row *found = NULL;
    for (size_t i = 0; i < top->count; i++) {
        if (strcmp(stk__top_label(t, top, &top->rows[i]), label) == 0) {
            assert_null(found);
            found = &top->rows[i];
        }
    }
    if (!found)
        fail_msg("no row '%s'", label);
    return found;
}

static void check(const stk__trace *t, const stk__top *top, const char *label, int64_t count, int64_t total,
                  int64_t self)
{
    const stk__top_row *row = find(t, top, label);
    if (row->count != count || row->total != total || row->self != self)
        fail_msg("%s: count %lld total %lld self %lld", label, (long long)row->count, (long long)row->total,
                 (long long)row->self);
}

/* ---- patterns ---- */

static void like_follows_shell_patterns(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool match;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"a", "ab", false},
        {"*", "", true},
        {"*", "any/thing", true},
        {"a*c", "abc", true},
        {"a*c", "abcd", false},
        {"*ab*ab", "abxab", true},
        {"*aab", "aaaab", true},
        {"?", "", false},
        {"?", "x", true},
        {"?", "\xc3\xa4", true},
        {"??", "\xc3\xa4", false},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]", "d", true},
        {"[^a-c]", "a", false},
        {"[]]", "]", true},
        {"[a", "[a", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"[\\]]", "]", true},
        {"A", "a", false},
        {"a\\", "a\\", true},
        {"[a-]", "-", true},
        {"Iterator::*::?ap", "Iterator::a::b::Map", true},
        {"[\xc3\xa0-\xc3\xbc]", "\xc3\xa4", true},
        {"*[0-9]", "step12", true},
        {"**a**", "bab", true},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        if (stk__like(cases[i].pattern, cases[i].text) != cases[i].match)
            fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].text);
    }
}

/* Many stars on a long text that nearly fits: backtracking over all of them would never end. */
static void like_with_many_stars_ends(void **state)
{
    char text[4001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(stk__like("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

/* ---- slices ---- */

static stk__trace *small_trace(void)
{
    stk__builder *b = model_start();
    const uint32_t one = model_track(b, 7, 1), two = model_track(b, 8, 2);
    model_slice(b, one, 0, 100, "step");
    model_slice(b, one, 10, 20, "read");
    model_slice(b, one, 12, 5, "read");
    model_slice(b, one, 40, 30, "decode");
    stk__builder_instant(b, one, 50, stk__builder_str(b, "mark"), 0);
    model_slice(b, two, 200, 7, "read");
    return model_finish(b);
}

static void slices_by_name_give_exact_rows(void **state)
{
    stk__trace *t = small_trace();
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 4);
    assert_string_equal(stk__top_label(t, &top, &top.rows[0]), "step");
    check(t, &top, "step", 1, 100, 50);
    check(t, &top, "read", 3, 27, 27); /* 5 of its 32 lie in another "read" */
    check(t, &top, "decode", 1, 30, 30);
    check(t, &top, "mark", 1, 0, 0);
    assert_int_equal(top.total, 207);
    const stk__top_row *read = find(t, &top, "read");
    assert_int_equal(read->min, 5);
    assert_int_equal(read->max, 20);
    assert_int_equal(read->p50, 7);
    assert_int_equal(read->p95, 20);
    assert_int_equal(read->primitive, 2);
    assert_int_equal(read->unit, STK__UNIT_NS);
    assert_true(read->mean > 10.66 && read->mean < 10.67);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* f calls itself and, through g, once more: its time is that of the outermost call, on each track. */
static void slices_count_recursion_once(void **state)
{
    stk__builder *b = model_start();
    for (int tid = 1; tid <= 2; tid++) {
        const uint32_t track = model_track(b, 1, tid);
        model_slice(b, track, 0, 100, "f");
        model_slice(b, track, 10, 80, "f");
        model_slice(b, track, 20, 60, "g");
        model_slice(b, track, 30, 40, "f");
        model_slice(b, track, 200, 10, "g");
        model_slice(b, track, 202, 5, "f");
    }
    stk__trace *t = model_finish(b);
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "f", 8, 210, 170);
    check(t, &top, "g", 4, 140, 50);
    const stk__top_row *f = find(t, &top, "f");
    assert_int_equal(f->primitive, 4);
    assert_true(f->mean == 225.0 / 4);
    assert_int_equal(top.total, 210); /* the run, not the sum of its tracks */
    assert_int_equal(top.tracks, 2);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* The second f overlaps g, so that it lies on a lane, and still inside the first f. */
static void recursion_counts_once_over_lanes(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 100, "f");
    model_slice(b, track, 10, 30, "g");
    model_slice(b, track, 20, 50, "f");
    model_slice(b, track, 25, 5, "f");
    model_slice(b, track, 90, 20, "f"); /* not inside: it runs beside the first */
    stk__trace *t = model_finish(b);
    stk__top top = make(t, STK__TOP_SLICES, &(stk__top_options){0});
    const stk__top_row *f = find(t, &top, "f");
    assert_int_equal(f->count, 4);
    assert_int_equal(f->total, 120);
    assert_int_equal(f->primitive, 2);
    assert_int_equal(top.tracks, 1);
    assert_true(top.lanes >= 1);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void shares_are_of_the_run_without_what_the_profiler_says_of_itself(void **state)
{
    stk__builder *b = model_start();
    const uint32_t main_track = model_track(b, 1, 1), spans = model_track(b, 2, 1), gpu = model_track(b, 3, 1);
    model_slice(b, main_track, 100, 950, "load");
    model_slice(b, main_track, 1060, 40, "train");
    model_slice(b, spans, 0, 5000, "PyTorch Profiler (0)");
    stk__builder_slice(b, gpu, 4000, 50, stk__builder_str(b, "Buffer Flush"), stk__builder_str(b, "overhead"), 0);
    stk__builder_instant(b, spans, 7000, stk__builder_str(b, "Record Window End"), 0);
    stk__trace *t = model_finish(b);
    stk__top top = make(t, STK__TOP_SLICES, &(stk__top_options){.leave_out = true});
    assert_int_equal(top.count, 2);
    assert_int_equal(top.total, 1000);
    assert_int_equal(top.tracks, 1);
    assert_int_equal(top.left_out, 3);
    stk__top_clear(&top);
    top = make(t, STK__TOP_SLICES, &(stk__top_options){.leave_out = true, .by = STK__TOP_THREAD});
    assert_int_equal(top.count, 1);
    assert_int_equal(top.left_out, 3);
    stk__top_clear(&top);
    /* What is asked for by name is shown, and the run stays the same. */
    static const char *const like[] = {"PyTorch*"};
    top = make(t, STK__TOP_SLICES, &(stk__top_options){.leave_out = true, .select = {.like = like, .like_count = 1}});
    assert_int_equal(top.count, 1);
    check(t, &top, "PyTorch Profiler (0)", 1, 5000, 5000);
    assert_int_equal(top.total, 1000);
    stk__top_clear(&top);
    top = make(t, STK__TOP_SLICES, &(stk__top_options){0});
    assert_int_equal(top.count, 5);
    assert_int_equal(top.total, 7000);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Two files that overlap, and one far away: the time between is not of the run. */
static void the_run_of_several_files_has_no_time_between_them(void **state)
{
    static const int64_t starts[] = {1000, 1500, 900000};
    stk__builder *b = model_start();
    for (int i = 0; i < 3; i++) {
        stk__builder_start_file(b, "more.json", "chrome");
        model_slice(b, model_track(b, 1, 1), starts[i], 1000, "step");
    }
    stk__trace *t = model_finish(b);
    stk__top top = make(t, STK__TOP_SLICES, &(stk__top_options){0});
    assert_int_equal(top.total, 1500 + 1000);
    assert_int_equal(top.tracks, 3);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void numbered_names_are_one_row(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        model_slice(b, track, 10 * i, 10, name);
        model_slice(b, track, 10 * i + 1, 2, "conv2d");
        model_slice(b, track, 10 * i + 4, 2, i % 2 ? "conv3" : "conv4"); /* no numbers, but names */
    }
    model_slice(b, track, 200, 5, "epoch#1");
    stk__trace *t = model_finish(b);
    stk__top top = make(t, STK__TOP_SLICES, &(stk__top_options){.fold = true});
    assert_int_equal(top.count, 5);
    check(t, &top, "ProfilerStep#*", 12, 120, 72);
    check(t, &top, "epoch#1", 1, 5, 5); /* alone, it keeps its number */
    stk__top_clear(&top);
    top = make(t, STK__TOP_SLICES, &(stk__top_options){.fold = true, .by = STK__TOP_PROCESS, .with_name = true});
    check(t, &top, "process 1  ProfilerStep#*", 12, 120, 72);
    check(t, &top, "process 1  epoch#1", 1, 5, 5);
    stk__top_clear(&top);
    top = make(t, STK__TOP_SLICES, &(stk__top_options){0});
    assert_int_equal(top.count, 16);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void rows_come_in_the_order_that_was_asked_for(void **state)
{
    static const struct {
        stk__top_sort sort;
        const char *first, *last;
    } cases[] = {
        {STK__TOP_TOTAL, "step", "mark"}, {STK__TOP_SELF, "step", "mark"}, {STK__TOP_CALLS, "read", "step"},
        {STK__TOP_MEAN, "step", "mark"},  {STK__TOP_MAX, "step", "mark"},  {STK__TOP_BY_NAME, "decode", "step"},
    };
    stk__trace *t = small_trace();
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk__top_options options = {.sort = cases[i].sort};
        stk__top top = make(t, STK__TOP_SLICES, &options);
        assert_string_equal(stk__top_label(t, &top, &top.rows[0]), cases[i].first);
        assert_string_equal(stk__top_label(t, &top, &top.rows[top.count - 1]), cases[i].last);
        stk__top_clear(&top);
    }
    stk__trace_free(t);
}

static void other_groups_have_labels(void **state)
{
    stk__trace *t = small_trace();
    stk__top_options options = {.by = STK__TOP_PROCESS};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "process 7", 5, 100, 100);
    check(t, &top, "process 8", 1, 7, 7);
    stk__top_clear(&top);

    options.by = STK__TOP_FILE;
    top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "made.json", 6, 107, 107);
    stk__top_clear(&top);

    options.by = STK__TOP_CATEGORY;
    top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "op", 5, 107, 107);
    check(t, &top, "", 1, 0, 0);
    stk__top_clear(&top);

    options.by = STK__TOP_PROCESS;
    options.with_name = true;
    top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 5);
    check(t, &top, "process 7  read", 2, 20, 20);
    check(t, &top, "process 8  read", 1, 7, 7);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void selections_leave_self_times_as_they_are(void **state)
{
    stk__trace *t = small_trace();
    static const char *const like[] = {"s*"}, *const track[] = {"*7*"}, *const none[] = {"nothing"};
    stk__top_options options = {.select = {.like = like, .like_count = 1}};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 1);
    check(t, &top, "step", 1, 100, 50);
    assert_int_equal(top.total, 207);
    stk__top_clear(&top);

    options.select = (stk__selection){.track = track, .track_count = 1};
    top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "read", 2, 20, 20);
    assert_int_equal(top.total, 100);
    stk__top_clear(&top);

    options.select = (stk__selection){.from_ns = 15, .to_ns = 40};
    top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 2);
    check(t, &top, "read", 2, 20, 20);
    check(t, &top, "step", 1, 100, 50);
    stk__top_clear(&top);

    options.select = (stk__selection){.category = none, .category_count = 1};
    top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 0);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void slices_by_step_count_where_they_start(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1), stream = model_track(b, 2, 7);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", 10 + i);
        model_slice(b, track, 1000 * i, 1000, name);
        model_slice(b, track, 1000 * i + 100, 200, "read");
        model_slice(b, stream, 1000 * i + 900, 300, "kernel");
    }
    model_slice(b, track, 5000, 10, "read");
    stk__trace *t = model_finish(b);
    const stk__top_options options = {.by = STK__TOP_STEP, .sort = STK__TOP_BY_NAME};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "step 10", 3, 1300, 1300);
    check(t, &top, "step 12", 3, 1300, 1300);
    check(t, &top, "(outside steps)", 1, 10, 10);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void one_slice_is_all_its_percentiles(void **state)
{
    stk__builder *b = model_start();
    model_slice(b, model_track(b, 1, 1), 5, 77, "only");
    stk__trace *t = model_finish(b);
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, 1);
    const stk__top_row *row = &top.rows[0];
    assert_int_equal(row->min, 77);
    assert_int_equal(row->max, 77);
    assert_int_equal(row->p50, 77);
    assert_int_equal(row->p95, 77);
    assert_int_equal(row->self, 77);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void empty_trace_has_no_rows(void **state)
{
    stk__trace *t = model_finish(model_start());
    stk__top_source sources[3];
    assert_int_equal(stk__top_sources(t, sources), 0);
    const stk__top_options options = {0};
    for (int source = 0; source < 3; source++) {
        stk__top top = make(t, (stk__top_source)source, &options);
        assert_int_equal(top.count, 0);
        assert_int_equal(top.total, 0);
        stk__top_clear(&top);
    }
    stk__trace_free(t);
}

static void hostile_durations_stop_at_the_end_of_the_range(void **state)
{
    stk__builder *b = model_start();
    for (int i = 0; i < 5; i++)
        model_slice(b, model_track(b, 1, i), 0, 5, "long");
    stk__trace *t = model_finish(b);
    for (size_t i = 0; i < t->slices.count; i++) {
        t->slices.ts[i] = INT64_MIN;
        t->slices.dur[i] = INT64_MAX - (int64_t)i;
    }
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    const stk__top_row *row = find(t, &top, "long");
    assert_true(row->total == INT64_MAX && row->self == INT64_MAX && row->max == INT64_MAX);
    assert_true(row->p50 == INT64_MAX - 2 && row->p95 == INT64_MAX && row->min == INT64_MAX - 4);
    assert_true(row->mean > 9.2e18 && row->mean < 9.3e18);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Deeper than the column of depths can say. */
static void deep_nesting_keeps_self_times_exact(void **state)
{
    enum { DEPTH = 66000 };
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < DEPTH; i++)
            model_slice(b, track, (int64_t)round * 1000000 + i, 2 * DEPTH - 2 * i, i % 2 ? "odd" : "even");
    }
    stk__trace *t = model_finish(b);
    assert_int_equal(t->slices.depth[DEPTH - 1], UINT16_MAX);
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(find(t, &top, "odd")->self, 2 * DEPTH);
    assert_int_equal(find(t, &top, "even")->self, 2 * DEPTH);
    assert_int_equal(find(t, &top, "even")->count, DEPTH);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Rounding to microseconds can make a child longer than its parent. */
static void self_time_is_never_below_zero(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 10, "parent");
    model_slice(b, track, 0, 9, "child");
    model_slice(b, track, 20, 10, "parent");
    stk__trace *t = model_finish(b);
    t->slices.dur[1] = 14;
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    check(t, &top, "parent", 2, 20, 10);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* ---- against a slow reference ---- */

typedef bool (*in_group)(const stk__trace *t, const stk__top_row *row, size_t slice);

static bool has_name(const stk__trace *t, const stk__top_row *row, size_t slice)
{
    return t->slices.name[slice] == row->key;
}

static bool has_category(const stk__trace *t, const stk__top_row *row, size_t slice)
{
    return t->slices.category[slice] == row->key;
}

static bool on_track(const stk__trace *t, const stk__top_row *row, size_t slice)
{
    return stk__track_root(t, t->slices.track[slice]) == row->row;
}

static bool in_process_with_name(const stk__trace *t, const stk__top_row *row, size_t slice)
{
    return t->tracks[t->slices.track[slice]].process == row->row && t->slices.name[slice] == row->name;
}

static int compare_int64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t slow_self(const stk__trace *t, size_t slice)
{
    int64_t self = t->slices.dur[slice];
    for (size_t i = slice + 1; i < t->slices.count; i++) {
        if (t->slices.parent[i] == slice)
            self -= t->slices.dur[i];
    }
    return STK_MAX(self, 0);
}

static bool counts(const stk__trace *t, const stk__top_row *row, size_t i, in_group belongs,
                   const stk__selection *select)
{
    const int64_t ts = t->slices.ts[i], end = ts + t->slices.dur[i];
    if (!belongs(t, row, i))
        return false;
    if (select->like_count && !stk__like(select->like[0], stk__trace_str(t, t->slices.name[i])))
        return false;
    if (select->category_count && !strstr(stk__trace_str(t, t->slices.category[i]), select->category[0]))
        return false;
    return !select->to_ns || (ts < select->to_ns && (end > select->from_ns || ts >= select->from_ns));
}

/* A slice of a lane inside one of its name on the track itself; of groups by name only. */
static bool inside_on_track(const stk__trace *t, size_t row)
{
    const stk__slices *s = &t->slices;
    for (size_t i = 0; i < s->count; i++) {
        if (t->tracks[s->track[row]].lane && s->track[i] == stk__track_root(t, s->track[row]) &&
            s->name[i] == s->name[row] && s->category[i] == s->category[row] && s->ts[i] <= s->ts[row] &&
            s->ts[i] + s->dur[i] > s->ts[row] && s->ts[i] + s->dur[i] >= s->ts[row] + s->dur[row])
            return true;
    }
    return false;
}

static size_t check_row(const stk__trace *t, const stk__top_row *row, in_group belongs, const stk__selection *select)
{
    int64_t *durations = malloc((t->slices.count + 1) * sizeof *durations), total = 0, self = 0, outer = 0;
    size_t count = 0;
    for (size_t i = 0; i < t->slices.count; i++) {
        if (!counts(t, row, i, belongs, select))
            continue;
        durations[count++] = t->slices.dur[i];
        self += slow_self(t, i);
        uint32_t around = t->slices.parent[i];
        while (around != STK__NONE && !counts(t, row, around, belongs, select))
            around = t->slices.parent[around];
        const bool named = belongs == has_name || belongs == in_process_with_name;
        if (around == STK__NONE && !(named && inside_on_track(t, i))) {
            total += t->slices.dur[i];
            outer++;
        }
    }
    assert_int_equal(row->count, count);
    assert_int_equal(row->primitive, outer);
    assert_int_equal(row->total, total);
    assert_int_equal(row->self, self);
    qsort(durations, count, sizeof *durations, compare_int64);
    assert_int_equal(row->min, durations[0]);
    assert_int_equal(row->max, durations[count - 1]);
    assert_int_equal(row->p50, durations[(count * 50 + 99) / 100 - 1]);
    assert_int_equal(row->p95, durations[(count * 95 + 99) / 100 - 1]);
    free(durations);
    return count;
}

static void random_slices_equal_the_slow_reference(void **state)
{
    static const struct {
        stk__top_by by;
        bool with_name;
        in_group belongs;
    } groups[] = {{STK__TOP_NAME, false, has_name},
                  {STK__TOP_CATEGORY, false, has_category},
                  {STK__TOP_THREAD, false, on_track},
                  {STK__TOP_PROCESS, true, in_process_with_name}};
    static const char *const like[] = {"name[1-3]"}, *const category[] = {"cat1"};
    const stk__selection selections[] = {{0},
                                         {.like = like, .like_count = 1},
                                         {.category = category, .category_count = 1},
                                         {.from_ns = 300, .to_ns = 700}};
    for (uint64_t seed = 0; seed < 12; seed++) {
        stk__trace *t = model_random_slices(seed, 50 + seed * 40, 6, 1000);
        for (size_t k = 0; k < STK_COUNT(groups); k++) {
            for (size_t i = 0; i < STK_COUNT(selections); i++) {
                const stk__top_options options = {
                    .by = groups[k].by, .with_name = groups[k].with_name, .select = selections[i]};
                stk__top top = make(t, STK__TOP_SLICES, &options);
                size_t slices = 0;
                for (size_t row = 0; row < top.count; row++)
                    slices += check_row(t, &top.rows[row], groups[k].belongs, &selections[i]);
                if (i == 0)
                    assert_int_equal(slices, t->slices.count);
                stk__top_clear(&top);
            }
        }
        stk__trace_free(t);
    }
}

/* More names than the first pass counts buckets for. */
static void thousands_of_names_equal_the_slow_reference(void **state)
{
    enum { NAMES = 6000 };
    model_random r = {.seed = 5};
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    int64_t at = 0;
    for (int i = 0; i < 3 * NAMES; i++) {
        char name[32];
        /* The last name is a large group that comes late. */
        snprintf(name, sizeof name, "n%d", i < 2 * NAMES ? i % NAMES : NAMES - 1);
        const int64_t dur = (int64_t)(model_draw(&r, UINT64_MAX) >> (24 + model_draw(&r, 38)));
        model_slice(b, track, at, dur, name);
        at += dur + 1;
    }
    stk__trace *t = model_finish(b);
    assert_int_equal(t->slices.count, 3 * NAMES);
    const stk__top_options options = {0};
    const stk__selection all = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, NAMES);
    /* The slow reference on some of them. */
    char last[32];
    snprintf(last, sizeof last, "n%d", NAMES - 1);
    check_row(t, find(t, &top, last), has_name, &all);
    check_row(t, find(t, &top, "n0"), has_name, &all);
    check_row(t, find(t, &top, "n5000"), has_name, &all);
    assert_int_equal(find(t, &top, last)->count, NAMES + 2);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Enough slices for a second thread, where there is a core for it. */
static void a_million_slices_equal_the_slow_reference(void **state)
{
    enum { ROWS = (1 << 20) + 50000, NAMES = 5 };
    model_random r = {.seed = 8};
    stk__builder *b = model_start();
    stk__string names[NAMES];
    for (int i = 0; i < NAMES; i++) {
        const char name[2] = {(char)('a' + i), 0};
        names[i] = stk__builder_str(b, name);
    }
    int64_t total[NAMES] = {0}, self[NAMES] = {0}, count[NAMES] = {0}, max[NAMES] = {0};
    int64_t *durations[NAMES];
    for (int i = 0; i < NAMES; i++)
        durations[i] = malloc(ROWS * sizeof *durations[i]);
    for (int k = 0; k < ROWS / 2; k++) {
        /* An outer slice and one inside, now on one track, now on the other. */
        const uint32_t track = model_track(b, 1, k < ROWS / 8 ? 1 : 2);
        const size_t outer = model_draw(&r, NAMES), inner = model_draw(&r, NAMES);
        const int64_t dur = 100 + (int64_t)model_draw(&r, 100000), part = (int64_t)model_draw(&r, 90);
        stk__builder_slice(b, track, (int64_t)k * 200000, dur, names[outer], 0, -1);
        stk__builder_slice(b, track, (int64_t)k * 200000 + 5, part, names[inner], 0, -1);
        durations[outer][count[outer]++] = dur;
        durations[inner][count[inner]++] = part;
        total[outer] += dur;
        total[inner] += inner == outer ? 0 : part;
        self[outer] += dur - part;
        self[inner] += part;
        max[outer] = STK_MAX(max[outer], dur);
        max[inner] = STK_MAX(max[inner], part);
    }
    stk__trace *t = model_finish(b);
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SLICES, &options);
    assert_int_equal(top.count, NAMES);
    for (int i = 0; i < NAMES; i++) {
        const char name[2] = {(char)('a' + i), 0};
        check(t, &top, name, count[i], total[i], self[i]);
        const stk__top_row *row = find(t, &top, name);
        qsort(durations[i], (size_t)count[i], sizeof *durations[i], compare_int64);
        assert_int_equal(row->max, max[i]);
        assert_int_equal(row->p50, durations[i][(count[i] * 50 + 99) / 100 - 1]);
        assert_int_equal(row->p95, durations[i][(count[i] * 95 + 99) / 100 - 1]);
        free(durations[i]);
    }
    stk__top_clear(&top);
    const stk__top_options by_thread = {.by = STK__TOP_THREAD};
    top = make(t, STK__TOP_SLICES, &by_thread);
    assert_int_equal(top.count, 2);
    assert_int_equal(top.rows[0].count + top.rows[1].count, ROWS);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* ---- ranks in passes ---- */

enum { MANY = (1 << 23) + 5000, PIECE = 1 << 12 };

static int64_t nth_value(uint64_t i, int shift)
{
    return (int64_t)(stk__mix(i, 99) >> shift);
}

/* More values than one pass keeps: the range must be counted first. */
static void ranks_of_many_values_are_exact(void **state)
{
    static const int shifts[] = {1, 40};
    static uint32_t group[PIECE];
    static int64_t values[PIECE];
    for (size_t k = 0; k < STK_COUNT(shifts); k++) {
        stk__ranks ranks;
        assert_int_equal(stk__ranks_init(&ranks, 1, NULL), STK_OK);
        stk__ranks_want(&ranks, 0, MANY, 0, INT64_MAX >> (shifts[k] - 1));
        bool more = true;
        int passes = 0;
        for (;; passes++) {
            assert_int_equal(stk__ranks_plan(&ranks, &more, NULL), STK_OK);
            if (!more)
                break;
            for (uint64_t i = 0; i < MANY;) {
                size_t count = 0;
                for (; count < PIECE && i < MANY; i++)
                    values[count++] = nth_value(i, shifts[k]);
                stk__ranks_take(&ranks, group, values, count);
            }
            stk__ranks_settle(&ranks);
        }
        assert_int_equal(passes, 2);
        static const uint64_t percent[] = {50, 95};
        for (size_t which = 0; which < STK__RANKS; which++) {
            const int64_t value = stk__ranks_get(&ranks, 0, which);
            uint64_t below = 0, equal = 0;
            for (uint64_t i = 0; i < MANY; i++) {
                below += nth_value(i, shifts[k]) < value;
                equal += nth_value(i, shifts[k]) == value;
            }
            const uint64_t rank = (MANY * percent[which] + 99) / 100;
            assert_true(below < rank && rank <= below + equal);
        }
        stk__ranks_clear(&ranks);
    }
}

static void rank_buckets_are_in_order_of_values(void **state)
{
    uint32_t last = 0;
    for (int64_t value = 0; value < 100000; value++) {
        const uint32_t bucket = stk__rank_bucket((uint64_t)value);
        assert_true(bucket == last || bucket == last + 1);
        last = bucket;
    }
    assert_int_equal(stk__rank_bucket(INT64_MAX), STK__RANK_BUCKETS - 1);
}

/* ---- samples ---- */

static uint32_t site(stk__builder *b, uint32_t parent, const char *name, const char *file, int line)
{
    const stk__trace_frame frame = {.name = stk__builder_str(b, name), .file = stk__builder_str(b, file), .line = line};
    return stk__builder_callsite(b, parent, stk__builder_frame(b, &frame));
}

/* main > train > read > zlib; train > train (recursion); libc alone. */
static stk__trace *sampled_trace(void)
{
    stk__builder *b = model_start();
    const uint32_t one = model_track(b, 1, 1), two = model_track(b, 1, 2);
    stk__builder_track_at(b, one)->unit = STK__UNIT_SAMPLES;
    stk__builder_track_at(b, two)->unit = STK__UNIT_SAMPLES;
    const uint32_t start = site(b, STK__NONE, "main", "/home/u/src/main.py", 3);
    const uint32_t train = site(b, start, "train", "/home/u/src/train.py", 10);
    const uint32_t again = site(b, train, "train", "/home/u/src/train.py", 12);
    const uint32_t read = site(b, again, "read", "/usr/lib/io.py", 5),
                   zlib = site(b, read, "inflate", "/usr/lib/z.c", 0);
    const uint32_t alone = site(b, STK__NONE, "clone", "/usr/lib/c.c", 0);
    const stk__string cycles = stk__builder_str(b, "cycles");
    stk__builder_sample(b, one, 10, zlib, 5, cycles);
    stk__builder_sample(b, one, 20, again, 2, cycles);
    stk__builder_sample(b, one, 30, train, 1, cycles);
    stk__builder_sample(b, two, STK__NO_TIME, alone, 4, 0);
    stk__builder_sample(b, two, STK__NO_TIME, STK__NONE, 1, 0);
    return model_finish(b);
}

static void samples_count_recursion_once(void **state)
{
    stk__trace *t = sampled_trace();
    stk__top_source sources[3];
    assert_int_equal(stk__top_sources(t, sources), 1);
    assert_int_equal(sources[0], STK__TOP_SAMPLES);
    const stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_SAMPLES, &options);
    assert_int_equal(top.count, 6);
    check(t, &top, "main (/home/u/src/main.py:3)", 3, 8, 0);
    /* Two lines of one function: it has none of its own. */
    check(t, &top, "train (/home/u/src/train.py)", 3, 8, 3);
    check(t, &top, "read (/usr/lib/io.py:5)", 1, 5, 0);
    check(t, &top, "inflate (/usr/lib/z.c)", 1, 5, 5);
    check(t, &top, "clone (/usr/lib/c.c)", 1, 4, 4);
    check(t, &top, "(empty stack)", 1, 1, 1);
    assert_int_equal(top.total, 13);
    assert_int_equal(top.rows[0].unit, STK__UNIT_SAMPLES);
    assert_true(top.rows[0].p50 == STK__NO_NUMBER && top.rows[0].min == STK__NO_NUMBER);
    stk__top_clear(&top);
    stk__trace_free(t);
}

static void own_code_gets_the_time_of_what_it_calls(void **state)
{
    static const char *const patterns[][1] = {{"src/*"}, {"/home/u/src/*"}, {"*/src/*"}};
    stk__trace *t = sampled_trace();
    for (size_t i = 0; i < STK_COUNT(patterns); i++) {
        const stk__top_options options = {.own = patterns[i], .own_count = 1, .sort = STK__TOP_SELF};
        stk__top top = make(t, STK__TOP_SAMPLES, &options);
        assert_int_equal(top.count, 3);
        check(t, &top, "main (/home/u/src/main.py:3)", 3, 8, 0);
        check(t, &top, "train (/home/u/src/train.py)", 3, 8, 8);
        check(t, &top, STK__TOP_NOT_OWN, 2, 5, 5);
        assert_false(top.rows[0].estimate);
        stk__top_clear(&top);
    }
    stk__trace_free(t);
}

static void samples_by_other_groups(void **state)
{
    stk__trace *t = sampled_trace();
    stk__top_options options = {.by = STK__TOP_CATEGORY};
    stk__top top = make(t, STK__TOP_SAMPLES, &options);
    check(t, &top, "cycles", 3, 8, 8);
    check(t, &top, "", 2, 5, 5);
    stk__top_clear(&top);

    options.with_name = true;
    top = make(t, STK__TOP_SAMPLES, &options);
    assert_int_equal(top.count, 6);
    check(t, &top, "cycles  train (/home/u/src/train.py)", 3, 8, 3);
    check(t, &top, "  clone (/usr/lib/c.c)", 1, 4, 4);
    stk__top_clear(&top);

    options = (stk__top_options){.select = {.from_ns = 15, .to_ns = 25}};
    top = make(t, STK__TOP_SAMPLES, &options);
    assert_int_equal(top.count, 2);
    check(t, &top, "train (/home/u/src/train.py)", 1, 2, 2);
    stk__top_clear(&top);

    static const char *const like[] = {"re*"};
    options = (stk__top_options){.select = {.like = like, .like_count = 1}};
    top = make(t, STK__TOP_SAMPLES, &options);
    assert_int_equal(top.count, 1);
    check(t, &top, "read (/usr/lib/io.py:5)", 1, 5, 0);
    assert_int_equal(top.total, 13);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Each sample walked by hand: which functions are in it. */
static void random_samples_equal_walking_each_stack(void **state)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        model_random r = {.seed = seed};
        stk__builder *b = model_start();
        const uint32_t track = model_track(b, 1, 1);
        uint32_t sites[200];
        for (uint32_t i = 0; i < STK_COUNT(sites); i++) {
            const char name[2] = {(char)('a' + model_draw(&r, 8)), 0};
            sites[i] = site(b, i && model_draw(&r, 8) ? sites[model_draw(&r, i)] : STK__NONE, name, "f.py", 1);
        }
        for (int i = 0; i < 300; i++)
            stk__builder_sample(b, track, i, sites[model_draw(&r, STK_COUNT(sites))], 1 + (int64_t)model_draw(&r, 9),
                                0);
        stk__trace *t = model_finish(b);
        const stk__top_options options = {0};
        stk__top top = make(t, STK__TOP_SAMPLES, &options);
        for (size_t k = 0; k < top.count; k++) {
            int64_t count = 0, total = 0, self = 0;
            for (size_t i = 0; i < t->samples.count; i++) {
                bool in = false;
                for (uint32_t at = t->samples.callsite[i]; at != STK__NONE; at = t->callsites[at].parent)
                    in |= t->frames[t->callsites[at].frame].name == top.rows[k].key;
                count += in;
                total += in ? t->samples.weight[i] : 0;
                if (t->frames[t->callsites[t->samples.callsite[i]].frame].name == top.rows[k].key)
                    self += t->samples.weight[i];
            }
            assert_int_equal(top.rows[k].count, count);
            assert_int_equal(top.rows[k].total, total);
            assert_int_equal(top.rows[k].self, self);
        }
        stk__top_clear(&top);
        stk__trace_free(t);
    }
}

/* ---- functions ---- */

static uint32_t function(stk__builder *b, const char *name, const char *file, int64_t calls, int64_t self,
                         int64_t total)
{
    const stk__trace_frame frame = {.name = stk__builder_str(b, name), .file = stk__builder_str(b, file), .line = 1};
    const stk__trace_function f = {.frame = stk__builder_frame(b, &frame),
                                   .calls = calls,
                                   .primitive_calls = calls - 1,
                                   .self_ns = self,
                                   .total_ns = total};
    return stk__builder_function(b, &f);
}

static void call(stk__builder *b, uint32_t caller, uint32_t callee, int64_t calls, int64_t self, int64_t total)
{
    const stk__trace_call c = {caller, callee, calls, calls, self, total};
    stk__builder_call(b, &c);
}

static void functions_have_the_figures_of_the_file(void **state)
{
    stk__builder *b = model_start();
    const uint32_t start = function(b, "main", "src/a.py", 1, 10, 100),
                   read = function(b, "read", "lib/io.py", 5, 90, 90);
    call(b, start, read, 5, 90, 90);
    stk__trace *t = model_finish(b);
    stk__top_options options = {0};
    stk__top top = make(t, STK__TOP_FUNCTIONS, &options);
    assert_int_equal(top.count, 2);
    check(t, &top, "main (src/a.py:1)", 1, 100, 10);
    check(t, &top, "read (lib/io.py:1)", 5, 90, 90);
    assert_int_equal(find(t, &top, "read (lib/io.py:1)")->primitive, 4);
    assert_int_equal(top.total, 100);
    stk__top_clear(&top);

    options.by = STK__TOP_FILE;
    top = make(t, STK__TOP_FUNCTIONS, &options);
    check(t, &top, "made.json", 6, 100, 100);
    stk__top_clear(&top);

    stk_error err;
    stk_error_clear(&err);
    options.by = STK__TOP_THREAD;
    assert_int_equal(stk__top_make(t, STK__TOP_FUNCTIONS, &options, &top, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no threads"));
    stk__trace_free(t);
}

/*
 * own main calls glue and own work; both glue and work call read, whose edges say how much is whose; glue has one
 * caller, so all of it is exact. exec calls main and is nobody's.
 */
static void own_functions_get_what_edges_say(void **state)
{
    stk__builder *b = model_start();
    const uint32_t exec = function(b, "exec", "~", 1, 3, 203), start = function(b, "main", "src/a.py", 1, 10, 200);
    const uint32_t work = function(b, "work", "src/b.py", 2, 20, 80), glue = function(b, "glue", "lib/g.py", 1, 5, 110);
    const uint32_t read = function(b, "read", "lib/io.py", 9, 165, 165);
    call(b, exec, start, 1, 10, 200);
    call(b, start, work, 2, 20, 80);
    call(b, start, glue, 1, 5, 110);
    call(b, work, read, 4, 60, 60);
    call(b, glue, read, 5, 105, 105);
    stk__trace *t = model_finish(b);
    static const char *const own[] = {"src/*"};
    const stk__top_options options = {.own = own, .own_count = 1};
    stk__top top = make(t, STK__TOP_FUNCTIONS, &options);
    assert_int_equal(top.count, 3);
    check(t, &top, "main (src/a.py:1)", 1, 200, 10 + 5 + 105);
    check(t, &top, "work (src/b.py:1)", 2, 80, 20 + 60);
    check(t, &top, STK__TOP_NOT_OWN, 0, 3, 3);
    for (size_t i = 0; i < top.count; i++)
        assert_false(top.rows[i].estimate);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* glue has two callers, and what it calls can only be shared out by what ran below them. */
static void own_functions_behind_shared_glue_are_an_estimate(void **state)
{
    stk__builder *b = model_start();
    const uint32_t one = function(b, "one", "src/a.py", 1, 10, 45), two = function(b, "two", "src/a.py", 1, 10, 95);
    const uint32_t glue = function(b, "glue", "lib/g.py", 2, 20, 120),
                   read = function(b, "read", "lib/io.py", 9, 100, 100);
    call(b, one, glue, 1, 10, 35);
    call(b, two, glue, 1, 10, 85);
    call(b, glue, read, 9, 100, 100);
    stk__trace *t = model_finish(b);
    static const char *const own[] = {"src/*"};
    const stk__top_options options = {.own = own, .own_count = 1};
    stk__top top = make(t, STK__TOP_FUNCTIONS, &options);
    check(t, &top, "one (src/a.py:1)", 1, 45, 10 + 10 + 25);
    check(t, &top, "two (src/a.py:1)", 1, 95, 10 + 10 + 75);
    assert_int_equal(top.count, 2);
    assert_true(top.rows[0].estimate && top.rows[1].estimate);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Foreign functions that call each other: nothing is lost, nothing is counted twice. */
static void cycles_of_foreign_functions_keep_the_sum(void **state)
{
    stk__builder *b = model_start();
    const uint32_t start = function(b, "main", "src/a.py", 1, 10, 1010);
    const uint32_t ping = function(b, "ping", "lib/p.py", 50, 400, 1000),
                   pong = function(b, "pong", "lib/p.py", 49, 600, 990);
    call(b, start, ping, 1, 8, 1000);
    call(b, pong, ping, 49, 392, 980);
    call(b, ping, pong, 49, 600, 990);
    call(b, ping, ping, 3, 1, 1);
    /* And two that only call each other. */
    const uint32_t lost = function(b, "lost", "lib/p.py", 1, 30, 30),
                   found = function(b, "found", "lib/p.py", 1, 40, 40);
    call(b, lost, found, 1, 40, 40);
    call(b, found, lost, 1, 30, 30);
    stk__trace *t = model_finish(b);
    static const char *const own[] = {"src/*"};
    const stk__top_options options = {.own = own, .own_count = 1};
    stk__top top = make(t, STK__TOP_FUNCTIONS, &options);
    assert_int_equal(top.count, 2);
    const int64_t mine = find(t, &top, "main (src/a.py:1)")->self, others = find(t, &top, STK__TOP_NOT_OWN)->self;
    assert_true(mine + others >= 1079 && mine + others <= 1081);
    assert_true(mine >= 1005 && mine <= 1010);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* Callers of the profile module are numbers of calls alone. */
static void edges_without_times_are_shared_by_calls(void **state)
{
    stk__builder *b = model_start();
    const uint32_t one = function(b, "one", "src/a.py", 1, 0, 25), two = function(b, "two", "src/a.py", 1, 0, 75);
    const uint32_t read = function(b, "read", "lib/io.py", 4, 100, 100);
    call(b, one, read, 1, STK__NO_NUMBER, STK__NO_NUMBER);
    call(b, two, read, 3, STK__NO_NUMBER, STK__NO_NUMBER);
    stk__trace *t = model_finish(b);
    static const char *const own[] = {"src/*"};
    const stk__top_options options = {.own = own, .own_count = 1};
    stk__top top = make(t, STK__TOP_FUNCTIONS, &options);
    check(t, &top, "one (src/a.py:1)", 1, 25, 25);
    check(t, &top, "two (src/a.py:1)", 1, 75, 75);
    assert_true(top.rows[0].estimate);
    stk__top_clear(&top);
    stk__trace_free(t);
}

/* ---- memory ---- */

static void fail_all(const stk__trace *t, stk__top_source source, const stk__top_options *options)
{
    for (uint64_t n = 1;; n++) {
        stk__top top;
        stk__alloc_fail_at(n, true);
        const stk_status status = stk__top_make(t, source, options, &top, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_true(n > 5);
            stk__top_clear(&top);
            return;
        }
        assert_int_equal(status, STK_NOMEM);
    }
}

static void fail_edges(const stk__trace *t, const char *like)
{
    const stk__selection select = {.leave_out = true};
    for (uint64_t n = 1;; n++) {
        stk__top_edges edges;
        stk__alloc_fail_at(n, true);
        const stk_status status = stk__top_edges_make(t, &select, &like, 1, false, &edges, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_true(n > 3);
            assert_int_equal(edges.count, 1);
            stk__top_edges_clear(&edges);
            return;
        }
        assert_int_equal(status, STK_NOMEM);
    }
}

static void every_failed_allocation_is_reported(void **state)
{
    static const char *const own[] = {"src/*"}, *const like[] = {"*"};
    const stk__top_options plain = {0}, folded = {.own = own, .own_count = 1};
    const stk__top_options full = {.by = STK__TOP_THREAD,
                                   .with_name = true,
                                   .select = {.like = like, .like_count = 1, .track = like, .track_count = 1}};
    stk__trace *t = model_random_slices(2, 60, 6, 500);
    fail_all(t, STK__TOP_SLICES, &plain);
    fail_all(t, STK__TOP_SLICES, &full);
    stk__trace_free(t);
    t = sampled_trace();
    fail_all(t, STK__TOP_SAMPLES, &folded);
    fail_all(t, STK__TOP_SAMPLES, &full);
    stk__trace_free(t);
    stk__builder *b = model_start();
    const uint32_t start = function(b, "main", "src/a.py", 1, 10, 100),
                   read = function(b, "read", "lib/io.py", 5, 90, 90);
    call(b, start, read, 5, 90, 90);
    t = model_finish(b);
    fail_all(t, STK__TOP_FUNCTIONS, &folded);
    fail_all(t, STK__TOP_FUNCTIONS, &(stk__top_options){.own = own, .own_count = 1, .own_only = true});
    fail_edges(t, "read");
    stk__trace_free(t);
    b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 10, "ProfilerStep#1");
    model_slice(b, track, 10, 10, "ProfilerStep#2");
    model_slice(b, track, 12, 5, "read");
    model_slice(b, model_track(b, 2, 1), 0, 90, "PyTorch Profiler (0)");
    t = model_finish(b);
    fail_all(t, STK__TOP_SLICES, &(stk__top_options){.fold = true, .leave_out = true});
    fail_edges(t, "read");
    stk__trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_follows_shell_patterns),
        cmocka_unit_test(like_with_many_stars_ends),
        cmocka_unit_test(slices_by_name_give_exact_rows),
        cmocka_unit_test(slices_count_recursion_once),
        cmocka_unit_test(recursion_counts_once_over_lanes),
        cmocka_unit_test(shares_are_of_the_run_without_what_the_profiler_says_of_itself),
        cmocka_unit_test(the_run_of_several_files_has_no_time_between_them),
        cmocka_unit_test(numbered_names_are_one_row),
        cmocka_unit_test(rows_come_in_the_order_that_was_asked_for),
        cmocka_unit_test(other_groups_have_labels),
        cmocka_unit_test(selections_leave_self_times_as_they_are),
        cmocka_unit_test(slices_by_step_count_where_they_start),
        cmocka_unit_test(one_slice_is_all_its_percentiles),
        cmocka_unit_test(empty_trace_has_no_rows),
        cmocka_unit_test(hostile_durations_stop_at_the_end_of_the_range),
        cmocka_unit_test(deep_nesting_keeps_self_times_exact),
        cmocka_unit_test(self_time_is_never_below_zero),
        cmocka_unit_test(random_slices_equal_the_slow_reference),
        cmocka_unit_test(thousands_of_names_equal_the_slow_reference),
        cmocka_unit_test(a_million_slices_equal_the_slow_reference),
        cmocka_unit_test(ranks_of_many_values_are_exact),
        cmocka_unit_test(rank_buckets_are_in_order_of_values),
        cmocka_unit_test(samples_count_recursion_once),
        cmocka_unit_test(own_code_gets_the_time_of_what_it_calls),
        cmocka_unit_test(samples_by_other_groups),
        cmocka_unit_test(random_samples_equal_walking_each_stack),
        cmocka_unit_test(functions_have_the_figures_of_the_file),
        cmocka_unit_test(own_functions_get_what_edges_say),
        cmocka_unit_test(own_functions_behind_shared_glue_are_an_estimate),
        cmocka_unit_test(cycles_of_foreign_functions_keep_the_sum),
        cmocka_unit_test(edges_without_times_are_shared_by_calls),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
