/* Chains of order ops: lengths, mappings, tickets and what makes them elastic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/op.h"
#include "engine/order.h"
#include "engine/registry.h"

/* States of take, skip and repeat are one count; the others as in their ops. */
typedef struct shard_state {
    int64_t count, index, uneven;
    bool contiguous;
    int64_t block;
} shard_state;

typedef struct shuffle_state {
    int64_t seed;
    bool reshuffle;
    int64_t buffer, window;
    void *blocks;
    uint64_t run_seed;
} shuffle_state;

static const stk__order *order_of(const char *name)
{
    stk_registry *r;
    assert_int_equal(stk_registry_new(&r, NULL), STK_OK);
    const stk_op *op = stk_registry_find(r, name);
    stk_registry_free(r);
    assert_non_null(op);
    assert_non_null(op->order);
    return op->order;
}

static void add(stk__chain *c, const char *name, const void *state)
{
    c->nodes[c->count++] = (stk__chain_node){.order = order_of(name), .state = state};
}

static void add_batch(stk__chain *c, int64_t size, bool drop_last)
{
    c->batch_at = c->count;
    c->batch_size = size;
    c->drop_last = drop_last;
}

static const stk__chain nothing = {.shard_at = -1, .repeat_at = -1};

static void chain_measures_lengths(void **state)
{
    const int64_t three = 3, seven = 7;
    stk__chain c = nothing;
    c.source_count = 20;
    add(&c, "skip", &three);
    add(&c, "repeat", &three);
    add_batch(&c, 4, false);
    add(&c, "take", &seven);
    add(&c, "repeat", &three);
    stk__chain_measure(&c);
    assert_int_equal(c.nodes[0].in, 20);
    assert_int_equal(c.nodes[0].out, 17);
    assert_int_equal(c.samples, 51);
    assert_int_equal(c.batches, 13);
    assert_int_equal(c.total, 21);
    c.drop_last = true;
    stk__chain_measure(&c);
    assert_int_equal(c.batches, 12);
}

static void chain_without_end_stays_without_end(void **state)
{
    const int64_t endless = 0, five = 5, huge = (int64_t)1 << 31;
    stk__chain c = nothing;
    c.source_count = 20;
    add(&c, "repeat", &endless);
    add(&c, "skip", &five);
    add_batch(&c, 4, false);
    stk__chain_measure(&c);
    assert_true(c.samples == STK__ENDLESS);
    assert_true(c.total == STK__ENDLESS);
    add(&c, "take", &five);
    stk__chain_measure(&c);
    assert_int_equal(c.total, 5);
    stk__chain over = nothing; /* what overflows has no end either */
    over.source_count = (int64_t)1 << 40;
    add(&over, "repeat", &huge);
    add_batch(&over, 1, false);
    stk__chain_measure(&over);
    assert_true(over.total == STK__ENDLESS);
}

static void chain_finds_batches_and_samples(void **state)
{
    const int64_t two = 2;
    stk__chain c = nothing;
    stk__position p;
    int64_t rows, epochs[STK__CHAIN_MAX + 1];
    c.source_count = 10;
    add(&c, "skip", &two);
    add(&c, "repeat", &two);
    add_batch(&c, 3, false);
    add(&c, "repeat", &two);
    stk__chain_measure(&c);
    assert_int_equal(c.batches, 6);
    stk__chain_batch(&c, 5, &p, &rows);
    assert_int_equal(p.index, 15);
    assert_int_equal(rows, 1);
    stk__chain_batch(&c, 9, &p, &rows);
    assert_int_equal(p.index, 9);
    assert_int_equal(p.epoch, 1);
    assert_int_equal(rows, 3);
    stk__chain_sample(&c, &p, epochs);
    assert_int_equal(p.index, 3); /* the tenth of the repeated: the second of the second round */
    assert_int_equal(p.epoch, 1 * 2 + 1);
    assert_int_equal(epochs[2], 1);
    assert_int_equal(epochs[1], 3);
    assert_int_equal(epochs[0], 3);
}

static void chain_counts_tickets(void **state)
{
    const int64_t three = 3, endless = 0;
    stk__chain c = nothing;
    stk__position p;
    c.source_count = 10;
    add_batch(&c, 4, false);
    stk__chain_measure(&c);
    assert_int_equal(stk__chain_tickets(&c), 10);
    add(&c, "repeat", &three);
    stk__chain_measure(&c);
    assert_int_equal(stk__chain_tickets(&c), 30);
    stk__chain_ticket(&c, 23, &p);
    assert_int_equal(p.index, 3);
    assert_int_equal(p.epoch, 2);
    c.nodes[0].state = &endless;
    stk__chain_measure(&c);
    assert_true(stk__chain_tickets(&c) == STK__ENDLESS);
}

static void chain_tells_why_ranks_cannot_change(void **state)
{
    const shard_state shard = {2, 0, 0, .block = 1};
    const shuffle_state shuffle = {1, true, 10};
    const int64_t two = 2;
    stk__chain c = nothing;
    c.source_count = 10;
    add(&c, "shuffle", &shuffle);
    add_batch(&c, 2, false);
    assert_string_equal(stk__chain_inelastic(&c), "the pipeline has no shard");
    add(&c, "shard", &shard);
    assert_null(stk__chain_inelastic(&c));
    assert_int_equal(c.shard_at, 1);
    add(&c, "repeat", &two);
    assert_null(stk__chain_inelastic(&c));
    assert_int_equal(c.repeat_at, 2);
    add(&c, "repeat", &two);
    assert_non_null(stk__chain_inelastic(&c));
    c.nodes[3] = (stk__chain_node){.order = order_of("take"), .state = &two};
    assert_non_null(stk__chain_inelastic(&c));
    c.nodes[3] = (stk__chain_node){.order = order_of("shard"), .state = &shard};
    assert_string_equal(stk__chain_inelastic(&c), "the pipeline has more than one shard");
}

static void chain_goes_on_in_the_middle_of_an_epoch(void **state)
{
    shard_state shard = {2, 1, 0, .block = 1};
    const int64_t three = 3;
    stk__chain c = nothing;
    stk__position p;
    int64_t rows, epoch, consumed;
    c.source_count = 12;
    add(&c, "shard", &shard);
    add_batch(&c, 2, false);
    add(&c, "repeat", &three);
    assert_null(stk__chain_inelastic(&c));
    stk__chain_measure(&c);
    assert_int_equal(c.total, 9);
    stk__chain_progress(&c, 4, &epoch, &consumed); /* one whole epoch and a batch of each rank */
    assert_int_equal(epoch, 1);
    assert_int_equal(consumed, 4);
    stk__chain_progress(&c, 9, &epoch, &consumed); /* all */
    assert_int_equal(epoch, 2);
    assert_int_equal(consumed, 12);
    shard = (shard_state){4, 1, 0, .block = 1};
    stk__chain_go_on(&c, 1,
                     4); /* eight are left of the epoch: two of each rank, in one batch; then an epoch of two batches */
    assert_int_equal(c.total, 3);
    stk__chain_batch(&c, 0, &p, &rows);
    assert_int_equal(rows, 2);
    assert_int_equal(p.epoch, 1);
    stk__chain_sample(&c, &p, NULL);
    assert_int_equal(p.index, 5);
    stk__chain_batch(&c, 1, &p, &rows);
    assert_int_equal(p.epoch, 2);
    stk__chain_sample(&c, &p, NULL);
    assert_int_equal(p.index, 1);
    stk__chain_progress(&c, 1, &epoch, &consumed);
    assert_int_equal(epoch, 2);
    assert_int_equal(consumed, 0);
}

static void epochs_of_nested_repeats_are_all_different(void **state)
{
    assert_int_equal(stk__epoch_join(0, 3, 2), 2);
    assert_int_equal(stk__epoch_join(1, 3, 0), 3);
    assert_int_equal(stk__epoch_join(1, 3, 2), 5);
    assert_true(stk__epoch_join(1, STK__ENDLESS, 0) > stk__epoch_join(0, STK__ENDLESS, 1000000));
    assert_true(stk__epoch_join(INT64_MAX, STK__ENDLESS, 5) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_measures_lengths),
        cmocka_unit_test(chain_without_end_stays_without_end),
        cmocka_unit_test(chain_finds_batches_and_samples),
        cmocka_unit_test(chain_counts_tickets),
        cmocka_unit_test(chain_tells_why_ranks_cannot_change),
        cmocka_unit_test(chain_goes_on_in_the_middle_of_an_epoch),
        cmocka_unit_test(epochs_of_nested_repeats_are_all_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
