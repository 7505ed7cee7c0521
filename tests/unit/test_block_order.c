/* Orders that mix rows over a window of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ops/block_order.h"

enum { ROWS_MAX = 5000 };

/* Blocks of uneven sizes; returns their number. */
static int64_t make_blocks(int64_t *firsts, int64_t rows, uint64_t seed)
{
    int64_t blocks = 0;
    for (int64_t at = 0; at < rows; at += 1 + (int64_t)(stk__mix(seed, (uint64_t)at) % 40))
        firsts[blocks++] = at;
    firsts[blocks] = rows;
    return blocks;
}

static void block_order_visits_every_row_once(void **state)
{
    int64_t firsts[ROWS_MAX + 1];
    for (uint64_t seed = 0; seed < 20; seed++) {
        const int64_t rows = 1 + (int64_t)(stk__mix(seed, 99) % (ROWS_MAX - 1));
        const int64_t blocks = make_blocks(firsts, rows, seed);
        for (int64_t window = 1; window <= blocks; window += 1 + blocks / 5) {
            uint8_t seen[ROWS_MAX] = {0};
            stk__block_order *order = NULL;
            assert_int_equal(stk__block_order_new(firsts, blocks, window, &order, NULL), STK_OK);
            for (int64_t p = 0; p < rows; p++) {
                const int64_t index = stk__block_order_map(order, seed, p);
                assert_in_range(index, 0, rows - 1);
                assert_int_equal(seen[index]++, 0);
            }
            stk__block_order_free(order);
        }
    }
}

static int64_t block_of(const int64_t *firsts, int64_t index)
{
    int64_t b = 0;
    while (firsts[b + 1] <= index)
        b++;
    return b;
}

static void block_order_touches_window_blocks_at_a_time(void **state)
{
    enum { BLOCKS = 60, WINDOW = 6, EACH = 10 };
    int64_t firsts[BLOCKS + 1];
    stk__block_order *order = NULL;
    for (int i = 0; i <= BLOCKS; i++)
        firsts[i] = i * EACH;
    assert_int_equal(stk__block_order_new(firsts, BLOCKS, WINDOW, &order, NULL), STK_OK);
    int moved = 0;
    for (int64_t start = 0; start < BLOCKS * EACH; start += WINDOW * EACH) {
        bool touched[BLOCKS] = {false};
        int count = 0, together = 0;
        int64_t before = -1;
        for (int64_t p = start; p < start + WINDOW * EACH; p++) {
            const int64_t b = block_of(firsts, stk__block_order_map(order, 7, p));
            count += !touched[b];
            touched[b] = true;
            together += b == before;
            before = b;
            moved += b != p / EACH;
        }
        assert_int_equal(count, WINDOW);
        assert_in_range(together, 0, WINDOW * EACH / 2); /* rows are mixed, not block after block */
    }
    assert_in_range(moved, BLOCKS * EACH / 2, BLOCKS * EACH);
    stk__block_order_free(order);
}

static void block_order_depends_on_the_seed_alone(void **state)
{
    int64_t firsts[ROWS_MAX + 1], first[8][200];
    const int64_t blocks = make_blocks(firsts, 1000, 3);
    stk__block_order *order = NULL;
    assert_int_equal(stk__block_order_new(firsts, blocks, 5, &order, NULL), STK_OK);
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int64_t p = 0; p < 200; p++)
            first[seed][p] = stk__block_order_map(order, seed, p);
    int same = 0;
    for (int64_t p = 199; p >= 0; p--) { /* more seeds at once than it keeps tables for */
        for (uint64_t seed = 0; seed < 8; seed++)
            assert_int_equal(stk__block_order_map(order, seed, p), first[seed][p]);
        same += first[0][p] == first[1][p];
    }
    assert_in_range(same, 0, 20);
    stk__block_order_free(order);
}

static void *ask_many(void *arg)
{
    stk__block_order *order = arg;
    int64_t sum = 0;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int64_t p = 0; p < 1000; p += 7)
            sum += stk__block_order_map(order, seed % 5, p);
    return (void *)(uintptr_t)sum;
}

static void block_order_gives_threads_the_same(void **state)
{
    int64_t firsts[ROWS_MAX + 1];
    const int64_t blocks = make_blocks(firsts, 1000, 4);
    stk__block_order *order = NULL;
    pthread_t threads[4];
    void *sums[4];
    assert_int_equal(stk__block_order_new(firsts, blocks, 3, &order, NULL), STK_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, order), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &sums[i]);
    for (int i = 1; i < 4; i++)
        assert_ptr_equal(sums[i], sums[0]);
    stk__block_order_free(order);
}

static void block_order_without_memory_fails_cleanly(void **state)
{
    const int64_t firsts[] = {0, 5, 10};
    for (uint64_t n = 1; n <= 5; n++) {
        stk__block_order *order = NULL;
        stk__alloc_fail_at(n, false);
        assert_int_equal(stk__block_order_new(firsts, 2, 1, &order, NULL), STK_NOMEM);
        stk__alloc_fail_at(0, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_order_visits_every_row_once),
        cmocka_unit_test(block_order_touches_window_blocks_at_a_time),
        cmocka_unit_test(block_order_depends_on_the_seed_alone),
        cmocka_unit_test(block_order_gives_threads_the_same),
        cmocka_unit_test(block_order_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
