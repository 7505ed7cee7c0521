/* Reads pytest-benchmark's JSON, where it holds the rounds themselves and not only statistics of them. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/import.h"

#include "base/banned.h"

typedef struct counts {
    size_t without, extra, other_timer;
} counts;

static bool has_data(const json_t *bench)
{
    return json_array_size(json_object_get(json_object_get(bench, "stats"), "data")) > 0;
}

/* The rounds of one benchmark; pytest-benchmark has divided them by the iterations. */
static stk_status read_rounds(stk__import *in, const json_t *bench, size_t index, size_t variant)
{
    const json_t *data = json_object_get(json_object_get(bench, "stats"), "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        double seconds;
        if (!stk__import_value(json_array_get(data, i), &seconds))
            return stk__import_bad(in, json_array_get(data, i), "a time of at least 0",
                                   "benchmarks[%zu].stats.data[%zu]", index, i);
        STK_TRY(stk__import_run(in, variant, &seconds, 0));
    }
    return STK_OK;
}

static stk_status read_bench(stk__import *in, stk__name_table *groups, const json_t *bench, size_t index, counts *c)
{
    const json_t *data = json_object_get(json_object_get(bench, "stats"), "data");
    /* It compares by fullname itself: names such as test_sum may be there in two classes. */
    const char *fullname = stk__import_string(bench, "fullname"), *name = stk__import_string(bench, "name");
    const char *group = stk__import_string(bench, "group");
    const char *timer = stk__import_string(json_object_get(bench, "options"), "timer");
    name = fullname ? fullname : name;
    if (!name)
        return stk__import_bad(in, json_object_get(bench, "fullname"), "a string", "benchmarks[%zu].fullname", index);
    if (data && !json_is_null(data) && !json_is_array(data))
        return stk__import_bad(in, data, "a list of times", "benchmarks[%zu].stats.data", index);
    if (!has_data(bench)) {
        c->without++;
        return STK_OK;
    }
    size_t variant;
    const size_t in_group = stk__names_add(groups, group ? group : "", group ? strlen(group) : 0);
    if (in_group == SIZE_MAX)
        return stk__nomem(strlen(name), in->err);
    c->extra += json_object_size(json_object_get(bench, "extra_info")) > 0;
    c->other_timer += timer && (strstr(timer, "process") || strstr(timer, "thread"));
    STK_TRY(stk__import_variant(in, name, name, in_group, &variant));
    STK_TRY(stk__import_parameters(in, variant, json_object_get(bench, "params"), "benchmarks"));
    return read_rounds(in, bench, index, variant);
}

/* "Intel Xeon, 2 cores, Linux 6.18, CPython 3.11.7" */
static stk_status read_machine(stk__import *in, const json_t *root)
{
    const json_t *info = json_object_get(root, "machine_info"), *cpu = json_object_get(info, "cpu");
    const char *const pairs[][2] = {
        {stk__import_string(cpu, "brand_raw"), NULL},
        {stk__import_string(info, "system"), stk__import_string(info, "release")},
        {stk__import_string(info, "python_implementation"), stk__import_string(info, "python_version")}};
    stk__text t = STK__TEXT_INIT;
    double cores;
    for (size_t i = 0; i < STK_COUNT(pairs); i++) {
        if (pairs[i][0])
            stk__text_printf(&t, "%s%.200s%s%.100s", t.length ? ", " : "", pairs[i][0], pairs[i][1] ? " " : "",
                             pairs[i][1] ? pairs[i][1] : "");
        if (i == 0 && stk__import_count(json_object_get(cpu, "count"), 1e6, &cores))
            stk__text_printf(&t, "%s%.0f core%s", t.length ? ", " : "", cores, cores == 1 ? "" : "s");
    }
    if (t.failed) {
        stk__text_clear(&t);
        return stk__nomem(200, in->err);
    }
    in->out->machine = t.data;
    return STK_OK;
}

static stk_status write_notes(stk__import *in, size_t all, const counts *c)
{
    if (c->without)
        STK_TRY(stk__result_note(in->out, in->err,
                                 "%zu of %zu benchmarks have statistics only and were left out: run pytest with "
                                 "--benchmark-json=FILE, or with --benchmark-save-data beside --benchmark-save",
                                 c->without, all));
    if (in->out->variant_count)
        STK_TRY(stk__result_note(in->out, in->err,
                                 "the rounds of a benchmark ran in one process, one after the other: they are not "
                                 "independent, and p is too small"));
    if (c->other_timer)
        STK_TRY(stk__result_note(in->out, in->err, "the timer of %zu benchmarks counts CPU time, not wall time",
                                 c->other_timer));
    if (c->extra)
        STK_TRY(stk__result_note(in->out, in->err, "extra_info of %zu benchmarks was left out", c->extra));
    return STK_OK;
}

stk_status stk__read_pytest(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "benchmarks");
    counts c = {0};
    size_t metric;
    if (!json_is_array(list))
        return stk__import_bad(in, list, "pytest-benchmark's list", "benchmarks");
    STK_TRY(stk__import_counter(in, "wall", "s", false, &metric));
    stk__name_table groups = {0};
    stk_status status = STK_OK;
    for (size_t i = 0; i < json_array_size(list) && status == STK_OK; i++)
        status = read_bench(in, &groups, json_array_get(list, i), i, &c);
    stk__names_clear(&groups);
    STK_TRY(status);
    in->out->time_s = stk__import_time(stk__import_string(root, "datetime"));
    STK_TRY(write_notes(in, json_array_size(list), &c));
    return read_machine(in, root);
}
