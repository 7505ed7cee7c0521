/* The checkpoint file: everything comes back, and nothing odd is taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/checkpoint.h"

static stk__checkpoint sample(void)
{
    stk__checkpoint c = {.pipeline = 0x123456789abcdef0,
                         .data = UINT64_MAX,
                         .batches = 7,
                         .samples = 1000,
                         .ticket = 1003,
                         .position = 5,
                         .skipped = 3,
                         .quarantined = 2,
                         .dropped = 3,
                         .lost_bytes = 4,
                         .world = 8,
                         .rank = 7,
                         .epoch = 9,
                         .consumed = 10,
                         .elastic = 1,
                         .elastic_epoch = 2,
                         .elastic_base = 6,
                         .batch_size = 32,
                         .first_epoch = 11,
                         .round_batches = 12,
                         .shards = 13,
                         .mode = STK__MODE_FLOW,
                         .exact = 1,
                         .approximations = 3,
                         .automatic = 2,
                         .listed_bytes = 14,
                         .listed_check = 15};
    for (int i = 0; i < STK__MAX_RELAYS; i++) {
        c.relay_seen[i] = 100 + i;
        c.relay_epoch[i] = 200 + i;
    }
    for (int i = 0; i < STK__CHAIN_MAX; i++)
        c.batch_seen[i] = 300 + i;
    return c;
}

static stk_status parse(const char *text, size_t size, stk__checkpoint *out, stk_error *err)
{
    char *copy = stk__strndup(text, size);
    assert_non_null(copy);
    stk_error_clear(err);
    const stk_status status = stk__checkpoint_parse(copy, size, out, err);
    stk__free(copy);
    return status;
}

static void checkpoint_comes_back(void **state)
{
    const stk__checkpoint c = sample();
    stk__checkpoint back;
    stk__text t = STK__TEXT_INIT;
    stk_error error;
    stk__checkpoint_print(&c, &t);
    assert_false(t.failed);
    assert_int_equal(parse(t.data, t.length, &back, &error), STK_OK);
    assert_memory_equal(&back, &c, sizeof c);
    stk__text again = STK__TEXT_INIT;
    stk__checkpoint_print(&back, &again);
    assert_string_equal(t.data, again.data);
    stk__text_clear(&again);
    stk__text_clear(&t);
}

static void checkpoint_with_any_byte_changed_is_refused(void **state)
{
    const stk__checkpoint c = sample();
    stk__checkpoint back;
    stk__text t = STK__TEXT_INIT;
    stk_error error;
    stk__checkpoint_print(&c, &t);
    for (size_t i = 0; i < t.length; i++) {
        t.data[i] ^= 1;
        assert_int_equal(parse(t.data, t.length, &back, &error), STK_MISMATCH);
        t.data[i] ^= 1;
        if (i > 0)
            assert_int_equal(parse(t.data, i, &back, &error), STK_MISMATCH);
    }
    stk__text_clear(&t);
}

/* A body with a check sum that fits, as somebody with a hash function can make it. */
static void refuses(const char *body, const char *reason)
{
    stk__checkpoint back;
    stk__text t = STK__TEXT_INIT;
    stk_error error;
    stk__text_puts(&t, "stoker-checkpoint 2\n");
    stk__text_puts(&t, body);
    stk__text_printf(&t, "check %016llx\n", (unsigned long long)XXH3_64bits(t.data, t.length));
    const stk_status status = parse(t.data, t.length, &back, &error);
    if (status != STK_MISMATCH || !strstr(error.message, reason))
        fail_msg("'%s' gave %s (%s), wanted '%s'", body, stk_status_name(status), error.message, reason);
    stk__text_clear(&t);
}

static void checkpoint_of_nonsense_is_refused(void **state)
{
    refuses("world 1\nbatches -1\n", "cannot be");
    refuses("world 0\n", "cannot be");
    refuses("", "cannot be");
    refuses("world 2\nrank 2\n", "cannot be");
    refuses("world 1\nticket -5\n", "cannot be");
    refuses("world 1\nmode 3\n", "cannot be");
    refuses("world 1\nskipped 1\nquarantined 2\n", "cannot be");
    refuses("world 1\nrelay_seen 0 0 0 -1\n", "cannot be");
    refuses("world 1\nbatches 99999999999999999999999\n", "cannot be");
    refuses("world 1\nfuture 3\n", "not understood: 'future 3'");
    refuses("world 1\nbatches\n", "not understood");
    refuses("world 1\nbatches x\n", "not understood");
    refuses("world 1\nbatches 1 2\n", "not understood");
    refuses("world 1\nrelay_seen 1 2\n", "not understood");
    refuses("world 1\npipeline xyz\n", "not understood");
}

/* Lines that were added later count as 0 where they are not there. */
static void checkpoint_without_later_lines_is_read(void **state)
{
    stk__checkpoint back;
    stk__text t = STK__TEXT_INIT;
    stk_error error;
    stk__text_puts(&t, "stoker-checkpoint 2\nbatches 7\nworld 1\n");
    stk__text_printf(&t, "check %016llx\n", (unsigned long long)XXH3_64bits(t.data, t.length));
    assert_int_equal(parse(t.data, t.length, &back, &error), STK_OK);
    assert_int_equal(back.batches, 7);
    assert_int_equal(back.first_epoch, 0);
    assert_int_equal(back.round_batches, 0);
    stk__text_clear(&t);
}

static void checkpoint_of_another_version_is_refused(void **state)
{
    stk__checkpoint back;
    stk_error error;
    static const char *const texts[] = {"x",
                                        "stoker-checkpoint 3\nworld 1\n",
                                        "stoker-checkpoint 2\n",
                                        "stoker-checkpoint 1\nworld 1\n",
                                        "stoker-checkpoint 1",
                                        "PNG\n"};
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_int_equal(parse(texts[i], strlen(texts[i]), &back, &error), STK_MISMATCH);
    assert_int_equal(parse(texts[3], strlen(texts[3]), &back, &error), STK_MISMATCH);
    assert_non_null(strstr(error.message, "older version"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_comes_back),
        cmocka_unit_test(checkpoint_with_any_byte_changed_is_refused),
        cmocka_unit_test(checkpoint_of_nonsense_is_refused),
        cmocka_unit_test(checkpoint_without_later_lines_is_read),
        cmocka_unit_test(checkpoint_of_another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
