/* Plans: what is refused before data is touched, what is rewritten, what identifies a pipeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan.h"

static stk_registry *registry;

static int make_registry(void **state)
{
    return stk_registry_new(&registry, NULL) == STK_OK ? 0 : -1;
}

static int free_registry(void **state)
{
    stk_registry_free(registry);
    return 0;
}

static stk_status plan(const char *text, uint64_t seed, bool no_approximate, stk__plan *out, stk_error *err)
{
    const stk_config config = {
        .struct_size = sizeof config, .registry = registry, .seed = seed, .no_approximate = no_approximate};
    memset(out, 0, sizeof *out);
    stk_error_clear(err);
    return stk__plan_make(out, text, &config, err);
}

static void planned(const char *text, stk__plan *out)
{
    stk_error error;
    if (plan(text, 0, false, out, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
}

/* Nothing here exists, and nothing is looked for. */
static void plan_touches_no_data(void **state)
{
    stk__plan p;
    planned(
        "tfrecord(\"/no/such/*\") | parse(x=float32[8]) | cache(\"/no/such\") | batch(4) | write_tfrecord(\"/no/such\")",
        &p);
    assert_int_equal(p.step_count, 5);
    assert_non_null(p.sink);
    stk__plan_clear(&p);
}

static void refuses(const char *text, const char *op, const char *message, int line, int column)
{
    stk__plan p;
    stk_error error;
    const stk_status status = plan(text, 0, false, &p, &error);
    stk__plan_clear(&p);
    if (status == STK_OK || !strstr(error.message, message))
        fail_msg("'%s' gave %s (%s), wanted '%s'", text, stk_status_name(status), error.message, message);
    if (error.line != line || error.column != column)
        fail_msg("'%s' was refused at %d:%d, wanted %d:%d", text, error.line, error.column, line, column);
    assert_string_equal(error.op, op);
}

static void plan_refuses_with_the_place(void **state)
{
    refuses("rnage(3)", "", "unknown op 'rnage'; did you mean 'range'?", 1, 1);
    refuses("range(3) |\n  quux", "", "unknown op 'quux'; 'stoker ops' lists them", 2, 3);
    refuses("shuffle", "shuffle", "a pipeline starts with a source", 1, 1);
    refuses("range(3) | range(3)", "range", "it can only come first", 1, 12);
    refuses("range(3) | print | batch(2)", "print", "it can only come last", 1, 12);
    refuses("range(3) | batch(2) | test", "", "unknown op 'test'", 1, 23);
    refuses("range(3)\n| batch(2)\n| filter(\"value > 1\")", "filter", "works on single samples: put it before batch",
            3, 3);
    refuses("range(3) | drop(value)", "", "the pipeline ends with no field", 0, 0);
    refuses("range(3) | cast(x=int8)", "cast", "no field 'x' here", 1, 12);
    refuses("range(9) | filter(\"value > 1\") | take(1) | take(1) | take(1) | take(1) | take(1)", "take",
            "more than 4 takes, skips and shards behind a filter", 1, 74);
}

static void plan_has_a_limit_of_order_ops(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__plan p;
    stk_error error;
    stk__text_puts(&t, "range(3)");
    for (int i = 0; i < STK__CHAIN_MAX; i++)
        stk__text_puts(&t, " | take(5)");
    planned(t.data, &p);
    stk__plan_clear(&p);
    stk__text_puts(&t, " | take(5)");
    assert_int_equal(plan(t.data, 0, false, &p, &error), STK_INVALID);
    stk__plan_clear(&p);
    assert_non_null(strstr(error.message, "more than 32 order ops"));
    stk__text_clear(&t);
}

static void plan_lifts_order_ops(void **state)
{
    stk__plan p;
    planned("range(9) | cast(value=int8) | shuffle | batch(2) | take(3) | cast(value=float32)", &p);
    assert_int_equal(p.chain.count, 2);
    assert_int_equal(p.chain.batch_at, 1);
    assert_int_equal(p.segment_count, 3); /* source and casts */
    assert_int_equal(p.relay_count, 0);
    assert_non_null(strstr(p.rewrites.data, "exact\tshuffle lifted to the index plane"));
    assert_non_null(strstr(p.rewrites.data, "exact\tcast moved before batch"));
    stk__plan_clear(&p);
}

static void plan_counts_behind_filters(void **state)
{
    stk__plan p;
    stk_error error;
    planned("range(9) | filter(\"value > 1\") | take(3) | shard(count=2) | repeat(2)", &p);
    assert_int_equal(p.relay_count, 2);
    assert_int_equal(p.chain.count, 1);
    assert_true(p.may_drop);
    stk__plan_clear(&p);
    planned("range(9) | filter(\"value > 1\") | shard(count=2)", &p);
    assert_int_equal(p.relay_count, 0);
    assert_non_null(strstr(p.rewrites.data, "approximate\tshard moved before the filter"));
    stk__plan_clear(&p);
    assert_int_equal(plan("range(9) | filter(\"value > 1\") | shard(count=2)", 0, true, &p, &error), STK_OK);
    assert_int_equal(p.relay_count, 1);
    stk__plan_clear(&p);
}

/* A version of a field that nothing reads is not made; an op that makes nothing is left out. */
static void plan_leaves_out_what_nothing_uses(void **state)
{
    stk__plan p;
    planned("tfrecord(\"x\") | parse(a=int64, b=bytes, c=float32) | cast(c=float16) | filter(\"a > 0\") | select(b)",
            &p);
    assert_int_equal(p.visible_count, 1);
    bool cast_unused = false;
    for (int i = 0; i < p.segment_count; i++)
        cast_unused = cast_unused || (strcmp(p.segment[i]->op->name, "cast") == 0 && p.segment[i]->unused);
    assert_true(cast_unused);
    int needed = 0;
    for (int i = 0; i < p.var_count; i++)
        needed += p.vars[i].needed;
    assert_int_equal(needed, 3); /* record, a and b */
    stk__plan_clear(&p);
}

static uint64_t fingerprint(const char *text, uint64_t seed)
{
    stk__plan p;
    stk_error error;
    if (plan(text, seed, false, &p, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    const uint64_t f = p.fingerprint;
    stk__plan_clear(&p);
    return f;
}

static void plan_is_identified_by_what_it_makes(void **state)
{
    const uint64_t f = fingerprint("range(9) | shuffle(seed=1) | shard(count=2) | batch(3)", 0);
    assert_true(f == fingerprint("range( 9 )|shuffle(seed=1) # x\n|shard(count=3, index=1)|batch(3)", 0));
    assert_true(f == fingerprint("range(9) | shuffle(seed=1) | shard(count=2) | batch(3) | prefetch(3) | print", 0));
    assert_true(f != fingerprint("range(9) | shuffle(seed=1) | shard(count=2) | batch(3)", 1));
    assert_true(f != fingerprint("range(9) | shuffle(seed=2) | shard(count=2) | batch(3)", 0));
    assert_true(f != fingerprint("range(9) | shuffle(seed=1) | batch(3)", 0));
    assert_true(f != fingerprint("range(9) | shard(count=2) | shuffle(seed=1) | batch(3)", 0));
}

static void plan_keeps_in_a_cache_what_is_used_behind_it(void **state)
{
    stk__plan p;
    planned(
        "tfrecord(\"x\") | parse(a=int64, b=bytes, c=float32) | filter(\"a > 0\") | cache | cast(c=float16) | drop(a)",
        &p);
    assert_int_equal(p.cache_var_count, 2); /* b, and c before the cast */
    assert_int_equal(p.cache_at, 3);
    stk__plan_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_touches_no_data),
        cmocka_unit_test(plan_refuses_with_the_place),
        cmocka_unit_test(plan_has_a_limit_of_order_ops),
        cmocka_unit_test(plan_lifts_order_ops),
        cmocka_unit_test(plan_counts_behind_filters),
        cmocka_unit_test(plan_leaves_out_what_nothing_uses),
        cmocka_unit_test(plan_is_identified_by_what_it_makes),
        cmocka_unit_test(plan_keeps_in_a_cache_what_is_used_behind_it),
    };
    return cmocka_run_group_tests(tests, make_registry, free_registry);
}
