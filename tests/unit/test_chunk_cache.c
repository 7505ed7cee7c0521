/* Chunks that workers share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ops/chunk_cache.h"

enum { BYTES = 1000, ROWS = 4 };

static stk__chunk_wish wish(uint64_t number)
{
    return (stk__chunk_wish){.key = {0, 0, number}, .bytes = BYTES, .rows = ROWS};
}

static stk__chunk_cache *new_cache(size_t chunks)
{
    stk__chunk_cache *c = NULL;
    assert_int_equal(stk__chunk_cache_new(chunks * BYTES, false, &c, NULL), STK_OK);
    return c;
}

static stk__chunk_state get(stk__chunk_cache *c, stk__chunk_wish w, stk__chunk **out)
{
    stk__chunk_state state;
    assert_int_equal(stk__chunk_cache_get(c, &w, &state, out, NULL), STK_OK);
    return state;
}

/* Fills a chunk, or reads it; `rows` of it are taken. */
static stk__chunk_state use(stk__chunk_cache *c, uint64_t number, int64_t rows)
{
    stk__chunk *chunk;
    const stk__chunk_state state = get(c, wish(number), &chunk);
    if (!chunk)
        return state;
    if (state == STK__CHUNK_MINE) {
        memset(chunk->data, (int)number, BYTES);
        stk__chunk_cache_publish(c, chunk);
    }
    assert_int_equal(chunk->data[BYTES - 1], (uint8_t)number);
    stk__chunk_cache_release(c, chunk, rows);
    return state;
}

static void chunk_that_was_filled_is_ready(void **state)
{
    stk__chunk_cache *c = new_cache(4);
    assert_int_equal(use(c, 1, 1), STK__CHUNK_MINE);
    assert_int_equal(use(c, 1, 1), STK__CHUNK_READY);
    int64_t hits, fills;
    stk__chunk_cache_stats(c, &hits, &fills);
    assert_int_equal(hits, 1);
    assert_int_equal(fills, 1);
    stk__chunk_cache_free(c);
}

static void chunk_that_is_being_filled_is_busy(void **state)
{
    stk__chunk_cache *c = new_cache(4);
    stk__chunk *mine, *other;
    assert_int_equal(get(c, wish(1), &mine), STK__CHUNK_MINE);
    assert_int_equal(get(c, wish(1), &other), STK__CHUNK_BUSY);
    assert_null(other);
    stk__chunk_cache_publish(c, mine);
    stk__chunk_cache_release(c, mine, 0);
    assert_int_equal(get(c, wish(1), &other), STK__CHUNK_READY);
    stk__chunk_cache_release(c, other, 0);
    stk__chunk_cache_free(c);
}

static void oldest_goes_first_and_used_up_ones_before(void **state)
{
    stk__chunk_cache *c = new_cache(3);
    for (uint64_t i = 0; i < 3; i++)
        use(c, i, i == 1 ? ROWS : 1);
    use(c, 3, 1); /* takes the place of 1, which was used up */
    assert_int_equal(use(c, 0, 1), STK__CHUNK_READY);
    assert_int_equal(use(c, 2, 1), STK__CHUNK_READY);
    use(c, 4, 1); /* takes the place of 3 */
    assert_int_equal(use(c, 0, 1), STK__CHUNK_READY);
    assert_int_equal(use(c, 3, 1), STK__CHUNK_MINE);
    stk__chunk_cache_free(c);
}

static void chunks_that_are_held_stay(void **state)
{
    stk__chunk_cache *c = new_cache(2);
    stk__chunk *a, *b, *none;
    assert_int_equal(get(c, wish(1), &a), STK__CHUNK_MINE);
    assert_int_equal(get(c, wish(2), &b), STK__CHUNK_MINE);
    assert_int_equal(get(c, wish(3), &none), STK__CHUNK_FULL);
    stk__chunk_cache_publish(c, a);
    stk__chunk_cache_publish(c, b);
    stk__chunk_cache_release(c, a, 0);
    assert_int_equal(use(c, 3, 0), STK__CHUNK_MINE);
    stk__chunk_cache_release(c, b, 0);
    stk__chunk_cache_free(c);
}

static void gentle_wish_pushes_nothing_out(void **state)
{
    stk__chunk_cache *c = new_cache(2);
    stk__chunk_wish gentle = wish(9);
    stk__chunk *chunk;
    gentle.gently = true;
    use(c, 1, 1);
    use(c, 2, 1);
    assert_int_equal(get(c, gentle, &chunk), STK__CHUNK_FULL);
    use(c, 2, ROWS);
    assert_int_equal(get(c, gentle, &chunk), STK__CHUNK_MINE);
    stk__chunk_cache_publish(c, chunk);
    stk__chunk_cache_release(c, chunk, 0);
    assert_int_equal(use(c, 1, 1), STK__CHUNK_READY);
    stk__chunk_cache_free(c);
}

static void chunk_larger_than_the_limit_goes_alone(void **state)
{
    stk__chunk_cache *c = NULL;
    stk__chunk *chunk, *none;
    assert_int_equal(stk__chunk_cache_new(10, false, &c, NULL), STK_OK);
    assert_int_equal(get(c, wish(1), &chunk), STK__CHUNK_MINE);
    assert_int_equal(get(c, wish(2), &none), STK__CHUNK_FULL);
    stk__chunk_cache_publish(c, chunk);
    stk__chunk_cache_release(c, chunk, ROWS);
    assert_int_equal(use(c, 2, 1), STK__CHUNK_MINE);
    stk__chunk_cache_free(c);
}

static void chunks_that_all_fit_stay(void **state)
{
    for (int keep = 0; keep < 2; keep++) {
        stk__chunk_cache *c = NULL;
        assert_int_equal(stk__chunk_cache_new(5 * BYTES, keep, &c, NULL), STK_OK);
        for (int epoch = 0; epoch < 3; epoch++)
            for (uint64_t i = 0; i < 5; i++)
                assert_int_equal(use(c, i, ROWS), keep && epoch ? STK__CHUNK_READY : STK__CHUNK_MINE);
        stk__chunk_cache_free(c);
    }
}

static void sizes_may_differ(void **state)
{
    stk__chunk_cache *c = new_cache(10);
    for (uint64_t i = 0; i < 2000; i++) {
        stk__chunk_wish w = wish(stk__mix(i, 5) % 50);
        stk__chunk *chunk;
        w.key.dataset = (int32_t)(w.key.number % 3);
        w.bytes = 500 * (1 + w.key.number % 3);
        const stk__chunk_state s = get(c, w, &chunk);
        assert_true(s == STK__CHUNK_MINE || s == STK__CHUNK_READY);
        if (s == STK__CHUNK_MINE) {
            memset(chunk->data, (int)w.key.number, w.bytes);
            stk__chunk_cache_publish(c, chunk);
        }
        assert_int_equal(chunk->data[w.bytes - 1], w.key.number);
        stk__chunk_cache_release(c, chunk, 1);
    }
    stk__chunk_cache_free(c);
}

static void *use_many(void *arg)
{
    stk__chunk_cache *c = arg;
    for (uint64_t i = 0; i < 3000; i++) {
        const uint64_t number = stk__mix(i, (uint64_t)(uintptr_t)&i) % 40;
        for (;;) {
            const uint64_t moves = stk__chunk_cache_moves(c);
            const stk__chunk_state s = use(c, number, 1);
            if (s == STK__CHUNK_MINE || s == STK__CHUNK_READY)
                break;
            stk__chunk_cache_wait(c, moves);
        }
    }
    return NULL;
}

/* Every thread holds one chunk at a time, so that few places do for many threads. */
static void threads_share_few_places(void **state)
{
    for (size_t places = 1; places <= 6; places += 5) {
        stk__chunk_cache *c = new_cache(places);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, use_many, c), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        stk__chunk_cache_free(c);
    }
}

static void out_of_memory_is_told(void **state)
{
    stk__chunk_cache *c = new_cache(2);
    const stk__chunk_wish w = wish(1);
    for (uint64_t n = 1; n <= 2; n++) {
        stk__chunk_state s;
        stk__chunk *chunk;
        stk__alloc_fail_at(n, false);
        assert_int_equal(stk__chunk_cache_get(c, &w, &s, &chunk, NULL), STK_NOMEM);
        stk__alloc_fail_at(0, false);
    }
    assert_int_equal(use(c, 1, 1), STK__CHUNK_MINE);
    stk__chunk_cache_free(c);
}

/* ---- failures ---- */

/* Takes a chunk, and fails to fill it where it has to be filled. */
static stk__chunk_state use_failing(stk__chunk_cache *c, uint64_t number, stk_status status)
{
    stk__chunk *chunk;
    const stk__chunk_state state = get(c, wish(number), &chunk);
    if (state == STK__CHUNK_MINE) {
        stk_error *error = stk__calloc(1, sizeof *error);
        error->status = status;
        error->offset = (int64_t)number;
        chunk->error = error;
        stk__chunk_cache_publish(c, chunk);
    }
    assert_int_equal(chunk->error->status, status);
    assert_int_equal(chunk->error->offset, number);
    stk__chunk_cache_release(c, chunk, 1);
    return state;
}

static void failure_is_remembered_without_its_memory(void **state)
{
    stk__chunk_cache *c = new_cache(2);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(use_failing(c, i, STK_CORRUPT), STK__CHUNK_MINE);
    for (uint64_t i = 10; i < 30; i++)
        assert_int_equal(use(c, i, 1), STK__CHUNK_MINE);
    assert_int_equal(use(c, 28, 1), STK__CHUNK_READY); /* two have memory, as without any failure */
    for (uint64_t i = 0; i < 5; i++) {
        stk__chunk *chunk;
        assert_int_equal(use_failing(c, i, STK_CORRUPT), STK__CHUNK_READY);
        assert_int_equal(get(c, wish(i), &chunk), STK__CHUNK_READY);
        assert_null(chunk->data);
        stk__chunk_cache_release(c, chunk, 0);
    }
    int64_t hits, fills;
    stk__chunk_cache_stats(c, &hits, &fills);
    assert_int_equal(fills, 5 + 20);
    stk__chunk_cache_free(c);
}

static void failure_of_memory_or_disk_is_tried_again(void **state)
{
    static const stk_status passing[] = {STK_NOMEM, STK_IO, STK_CANCELLED};
    for (size_t i = 0; i < STK_COUNT(passing); i++) {
        stk__chunk_cache *c = new_cache(1);
        assert_int_equal(use_failing(c, 1, passing[i]), STK__CHUNK_MINE);
        assert_int_equal(use(c, 2, 1), STK__CHUNK_MINE);
        assert_int_equal(use(c, 1, 1), STK__CHUNK_MINE);
        stk__chunk_cache_free(c);
    }
}

static void failures_are_bounded(void **state)
{
    enum { MANY = 5000 };
    const size_t room = stk__chunk_cache_memory(BYTES) - BYTES;
    stk__chunk_cache *c = new_cache(1);
    stk__chunk *held;
    size_t remembered = 0;
    use_failing(c, 0, STK_CORRUPT);
    assert_int_equal(get(c, wish(0), &held), STK__CHUNK_READY);
    for (uint64_t i = 1; i < MANY; i++) {
        assert_int_equal(use_failing(c, i, STK_CORRUPT), STK__CHUNK_MINE);
        assert_int_equal(use_failing(c, i, STK_CORRUPT), STK__CHUNK_READY);
    }
    assert_int_equal(held->error->offset, 0); /* who holds it may read it */
    stk__chunk_cache_release(c, held, 1);
    for (uint64_t i = 0; i < MANY; i++)
        remembered += stk__chunk_cache_has(c, &(stk__chunk_key){0, 0, i});
    assert_in_range(remembered, 1, room / (sizeof(stk__chunk) + sizeof(stk_error)));
    assert_int_equal(use_failing(c, 1, STK_CORRUPT), STK__CHUNK_MINE); /* the oldest is forgotten */
    assert_int_equal(use_failing(c, MANY - 1, STK_CORRUPT), STK__CHUNK_READY);
    stk__chunk_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_that_was_filled_is_ready),
        cmocka_unit_test(chunk_that_is_being_filled_is_busy),
        cmocka_unit_test(oldest_goes_first_and_used_up_ones_before),
        cmocka_unit_test(chunks_that_are_held_stay),
        cmocka_unit_test(gentle_wish_pushes_nothing_out),
        cmocka_unit_test(chunk_larger_than_the_limit_goes_alone),
        cmocka_unit_test(chunks_that_all_fit_stay),
        cmocka_unit_test(sizes_may_differ),
        cmocka_unit_test(threads_share_few_places),
        cmocka_unit_test(out_of_memory_is_told),
        cmocka_unit_test(failure_is_remembered_without_its_memory),
        cmocka_unit_test(failure_of_memory_or_disk_is_tried_again),
        cmocka_unit_test(failures_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
