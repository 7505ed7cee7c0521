/* Ops that a program adds itself, and what they want to be called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"

typedef struct {
    const char *called;
    int in;
    bool planned; /* schema has run */
} named_state;

static stk_status named_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    named_state *s = state;
    stk_field field;
    s->planned = true;
    return host->plan_read(plan, "value", &s->in, &field, err);
}

static stk_status named_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    return STK_OK;
}

static const char *named_label(const void *state)
{
    const named_state *s = state;
    assert_true(s->planned);
    return s->called;
}

static const stk_option named_options[] = {
    STK_STRING(named_state, called, NULL, "a name"),
    STK_OPTION_END,
};

static const stk_op named_op = {
    .abi = STK_OP_ABI,
    .name = "named",
    .group = "samples",
    .since = "0.1",
    .summary = "Do nothing under a name.",
    .options = named_options,
    .state_size = sizeof(named_state),
    .schema = named_schema,
    .process = named_process,
    .label = named_label,
};

static stk_registry *registry;

static int setup(void **state)
{
    static const stk_op *const ops[] = {&named_op, NULL};
    return stk_registry_new(&registry, NULL) == STK_OK && stk_registry_add(registry, ops, NULL) == STK_OK ? 0 : -1;
}

static int teardown(void **state)
{
    stk__alloc_fail_at(0, false);
    stk_registry_free(registry);
    return 0;
}

static stk_pipeline *open_text(const char *text, const stk_config *config)
{
    stk_pipeline *p;
    stk_error error;
    stk_config with = config ? *config : (stk_config){.struct_size = sizeof with, .threads = 1};
    with.registry = registry;
    if (stk_pipeline_open(text, &with, &p, &error) != STK_OK)
        fail_msg("%s: %s", text, error.message);
    return p;
}

static void drain(stk_pipeline *p)
{
    const stk_batch *batch;
    while (stk_pipeline_next(p, &batch, NULL) == STK_OK)
        stk_batch_release(p, batch);
}

static void ops_that_were_added_stand_in_order_and_run(void **state)
{
    assert_ptr_equal(stk_registry_find(registry, "named"), &named_op);
    for (size_t i = 1; i < stk_registry_count(registry); i++)
        assert_true(strcmp(stk_registry_op(registry, i - 1)->name, stk_registry_op(registry, i)->name) < 0);
    assert_string_equal(stk_registry_nearest(registry, "nammed"), "named");
    stk_pipeline *p = open_text("range(10) | named | batch(3)", NULL);
    drain(p);
    stk_stats stats;
    stk_pipeline_stats(p, &stats);
    assert_int_equal(stats.samples, 10);
    stk_pipeline_close(p);
}

static void refused(const stk_op *const *ops, stk_status status, const char *reason)
{
    stk_error error;
    stk_error_clear(&error);
    const size_t before = stk_registry_count(registry);
    assert_int_equal(stk_registry_add(registry, ops, &error), status);
    if (!strstr(error.message, reason))
        fail_msg("'%s', wanted '%s'", error.message, reason);
    assert_int_equal(stk_registry_count(registry), before); /* all or none */
}

static void lists_with_mistakes_are_refused_as_a_whole(void **state)
{
    stk_op good = named_op, bad = named_op;
    good.name = "good";
    const stk_op *const list[] = {&good, &bad, NULL};
    refused(list, STK_INVALID, "'named' exists already");
    bad.name = "shuffle";
    refused(list, STK_INVALID, "'shuffle' exists already");
    bad.name = "good";
    refused(list, STK_INVALID, "two ops named 'good'");
    bad.name = "";
    refused(list, STK_INVALID, "no name");
    bad.name = "other";
    bad.abi = 77;
    refused(list, STK_INVALID, "ABI 77");
    bad.abi = STK_OP_ABI;
    bad.process = NULL;
    refused(list, STK_INVALID, "no process function");
    bad.process = named_process;
    assert_int_equal(stk_registry_add(registry, list, NULL), STK_OK);
}

static void adding_without_memory_adds_nothing(void **state)
{
    static stk_op many[64];
    static char names[64][8];
    const stk_op *list[65] = {NULL};
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "op%d", i);
        many[i] = named_op;
        many[i].name = names[i];
        list[i] = &many[i];
    }
    stk__alloc_fail_at(1, true);
    refused(list, STK_NOMEM, "out of memory");
    stk__alloc_fail_at(0, false);
    assert_int_equal(stk_registry_add(registry, list, NULL), STK_OK);
}

static bool has_row(stk_pipeline *p, const char *wanted)
{
    const char *name;
    int64_t busy_ns, samples;
    for (size_t i = 0; stk_pipeline_op_stats(p, i, &name, &busy_ns, &samples); i++)
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

static void label_is_what_statistics_plans_and_traces_say(void **state)
{
    char path[64], *text;
    size_t size;
    snprintf(path, sizeof path, "/tmp/stoker-label-%ld.json", (long)getpid());
    stk_config config = {.struct_size = sizeof config, .threads = 1};
    assert_int_equal(stk_recorder_open(path, NULL, &config.recorder, NULL), STK_OK);
    stk_pipeline *p = open_text("range(10) | named(\"augment\") | named | batch(3)", &config);
    drain(p);
    assert_true(has_row(p, "augment"));
    assert_true(has_row(p, "named")); /* one without a label */
    assert_non_null(strstr(stk_pipeline_explain(p), "sample    augment: named("));
    assert_non_null(strstr(stk_pipeline_explain_json(p), "\"label\":\"augment\""));
    stk_pipeline_stop(p);
    assert_true(has_row(p, "augment"));
    stk_pipeline_close(p);
    assert_int_equal(stk_recorder_close(config.recorder, NULL, NULL), STK_OK);
    assert_int_equal(stk__read_file(path, 1 << 24, &text, &size, NULL), STK_OK);
    assert_non_null(strstr(text, "\"augment\""));
    stk__free(text);
    unlink(path);
}

static void label_with_odd_characters_is_escaped(void **state)
{
    stk_pipeline *p = open_text("range(10) | named(\"a\\tb\\nc\") | batch(3)", NULL);
    assert_true(has_row(p, "a\\x09b\\x0ac"));
    assert_null(strchr(strstr(stk_pipeline_explain(p), "sample"), '\t'));
    stk_pipeline_close(p);
}

static void op_tells_itself_as_json(void **state)
{
    stk_registry *all = NULL;
    char *json = NULL;
    assert_int_equal(stk_registry_new(&all, NULL), STK_OK);
    assert_int_equal(stk_op_json(stk_registry_find(all, "repeat"), &json, NULL), STK_OK);
    assert_string_equal(json, "{\"name\":\"repeat\",\"group\":\"order\",\"since\":\"0.1\","
                              "\"summary\":\"Go over the samples several times: each time is an epoch.\","
                              "\"example\":\"range(10) | shuffle(seed=1) | batch(5) | repeat(3)\",\"role\":\"order\","
                              "\"flags\":[],\"options\":[{\"name\":\"count\",\"kind\":\"int\",\"required\":false,"
                              "\"default\":0,\"min\":0,\"max\":2147483648,\"choices\":[],"
                              "\"help\":\"epochs; 0: without end\",\"named\":null}]}");
    stk_free(json);
    stk_registry_free(all);
    /* A plug-in may leave most of it out. */
    const stk_op bare = {.abi = STK_OP_ABI, .name = "a\"b", .flags = STK_OP_RANDOM | STK_OP_DROPS};
    assert_int_equal(stk_op_json(&bare, &json, NULL), STK_OK);
    assert_string_equal(json, "{\"name\":\"a\\\"b\",\"group\":\"other\",\"since\":null,\"summary\":null,"
                              "\"example\":null,\"role\":\"sample\",\"flags\":[\"random\",\"drops\"],"
                              "\"options\":[]}");
    stk_free(json);
    assert_null(stk_role_name((stk_role)99));
    assert_null(stk_option_kind_name((stk_option_kind)99));
}

static void freeing_nothing_is_fine(void **state)
{
    stk_free(NULL);
    assert_string_equal(stk_status_name(STK_TIMEOUT), "TIMEOUT");
    assert_string_equal(stk_status_text(STK_TIMEOUT), "not ready in time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ops_that_were_added_stand_in_order_and_run, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_with_mistakes_are_refused_as_a_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(adding_without_memory_adds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(label_is_what_statistics_plans_and_traces_say, setup, teardown),
        cmocka_unit_test_setup_teardown(label_with_odd_characters_is_escaped, setup, teardown),
        cmocka_unit_test(op_tells_itself_as_json),
        cmocka_unit_test(freeing_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
