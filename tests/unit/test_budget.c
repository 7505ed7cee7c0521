/* The byte budget: charges, growing buffers, arenas and chunks that come back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/budget.h"

static void budget_refuses_what_passes_the_limit(void **state)
{
    stk__budget b = {.limit = 1000};
    assert_true(stk__budget_charge(&b, 600));
    assert_false(stk__budget_charge(&b, 401));
    assert_true(stk__budget_charge(&b, 400));
    assert_false(stk__budget_charge(&b, 1));
    assert_int_equal(b.used, 1000);
    stk__budget_return(&b, 1000);
    assert_int_equal(b.used, 0);
    assert_int_equal(b.peak, 1000);
    assert_false(stk__budget_charge(&b, SIZE_MAX));
    assert_int_equal(b.used, 0);
}

static void budget_keeps_a_quarter_for_work_under_way(void **state)
{
    stk__budget b = {.limit = 1000};
    assert_true(stk__budget_has_room(&b, 750));
    assert_false(stk__budget_has_room(&b, 751));
    assert_true(stk__budget_charge(&b, 500));
    assert_false(stk__budget_has_room(&b, 251));
    assert_false(stk__budget_has_room(&b, SIZE_MAX));
}

static void budget_error_tells_what_is_needed(void **state)
{
    stk__budget b = {.limit = 4096};
    stk_error error;
    stk_error_clear(&error);
    assert_null(stk__budget_alloc(&b, 5000, &error));
    assert_int_equal(error.status, STK_BUDGET);
    assert_non_null(strstr(error.message, "4.0 KiB"));
    assert_non_null(strstr(error.message, "would do"));
    stk__alloc_fail_at(1, false);
    stk_error_clear(&error);
    assert_null(stk__budget_alloc(&b, 100, &error));
    stk__alloc_fail_at(0, false);
    assert_int_equal(error.status, STK_NOMEM);
    assert_int_equal(b.used, 0);
}

static void buffer_grows_and_keeps_its_contents(void **state)
{
    stk__budget b = {.limit = 1 << 20};
    stk__buffer buffer = {0};
    stk_error error;
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(stk__buffer_reserve(&buffer, &b, sizeof i, &error), STK_OK);
        memcpy(buffer.data + buffer.size, &i, sizeof i);
        buffer.size += sizeof i;
    }
    assert_int_equal(b.used, buffer.capacity);
    for (int i = 0; i < 5000; i++)
        assert_memory_equal(buffer.data + (size_t)i * sizeof i, &i, sizeof i);
    assert_int_equal(stk__buffer_reserve(&buffer, &b, 1 << 20, &error), STK_BUDGET);
    assert_int_equal(stk__buffer_reserve(&buffer, &b, SIZE_MAX, &error), STK_BUDGET);
    assert_int_equal(buffer.size, 5000 * sizeof(int));
    stk__buffer_clear(&buffer, &b);
    assert_int_equal(b.used, 0);
    assert_null(buffer.data);
}

static void arena_hands_out_aligned_memory(void **state)
{
    stk__budget b = {.limit = 1 << 24};
    stk__chunk_pool *pool = stk__chunk_pool_new(&b);
    stk__arena arena = {0};
    stk_error error;
    unsigned char *before = NULL;
    for (size_t i = 0; i < 3000; i++) {
        unsigned char *p = stk__arena_alloc(&arena, pool, i, &error);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, (int)i, i);
        if (before)
            assert_int_equal(before[i - 2], (unsigned char)(i - 1)); /* was not written over */
        before = i ? p : NULL;
    }
    assert_null(stk__arena_alloc(&arena, pool, (size_t)1 << 25, &error));
    assert_int_equal(error.status, STK_BUDGET);
    assert_null(stk__arena_alloc(&arena, pool, SIZE_MAX - 3, &error));
    stk__arena_release(&arena, pool);
    stk__chunk_pool_free(pool);
    assert_int_equal(b.used, 0);
}

static void arena_uses_its_chunks_again(void **state)
{
    stk__budget b = {.limit = 1 << 24};
    stk__chunk_pool *pool = stk__chunk_pool_new(&b);
    stk__arena arena = {0};
    stk_error error;
    for (int round = 0; round < 50; round++) {
        const uint64_t before = stk__alloc_count();
        for (int i = 0; i < 100; i++)
            assert_non_null(stk__arena_alloc(&arena, pool, 10000, &error));
        if (round > 1)
            assert_true(stk__alloc_count() == before);
        if (round % 2)
            stk__arena_reset(&arena, pool);
        else
            stk__arena_release(&arena, pool);
    }
    stk__arena_release(&arena, pool);
    stk__chunk_pool_free(pool);
    assert_int_equal(b.used, 0);
}

/* Whoever holds a reference keeps a chunk from being used again. */
static void chunk_that_is_referred_to_stays(void **state)
{
    stk__budget b = {.limit = 1 << 24};
    stk__chunk_pool *pool = stk__chunk_pool_new(&b);
    stk__arena arena = {0};
    stk_error error;
    char *text = stk__arena_alloc(&arena, pool, 100, &error);
    memset(text, 'x', 100);
    stk__chunk *chunk = arena.head;
    atomic_fetch_add(&chunk->refs, 1);
    stk__arena_reset(&arena, pool);
    for (int i = 0; i < 100; i++)
        memset(stk__arena_alloc(&arena, pool, 1000, &error), 'y', 1000);
    assert_int_equal(text[99], 'x');
    stk__chunk_unref(pool, chunk);
    stk__arena_release(&arena, pool);
    stk__chunk_pool_free(pool);
    assert_int_equal(b.used, 0);
}

/* Spare chunks are given up before a request is refused. */
static void spare_chunks_make_room(void **state)
{
    stk__budget b = {.limit = 1 << 20};
    stk__chunk_pool *pool = stk__chunk_pool_new(&b);
    stk__arena arena = {0};
    stk_error error;
    for (int i = 0; i < 3; i++)
        assert_non_null(stk__arena_alloc(&arena, pool, 200000, &error));
    stk__arena_release(&arena, pool);
    assert_true(b.used > 600000);
    assert_non_null(stk__arena_alloc(&arena, pool, 900000, &error));
    stk__arena_release(&arena, pool);
    stk__chunk_pool_free(pool);
    assert_int_equal(b.used, 0);
}

static void *charge_main(void *arg)
{
    stk__budget *b = arg;
    for (int i = 0; i < 20000; i++)
        if (stk__budget_charge(b, 300))
            stk__budget_return(b, 300);
    return NULL;
}

static void budget_holds_with_many_threads(void **state)
{
    stk__budget b = {.limit = 1000};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, charge_main, &b), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(b.used, 0);
    assert_true(b.peak <= 1000);
}

static void budget_names_the_option_that_would_do(void **state)
{
    stk__budget b = {.limit = 1 << 20, .name = "--memory"};
    stk_error error;
    stk_error_clear(&error);
    assert_true(stk__budget_charge(&b, 1 << 19));
    assert_int_equal(stk__budget_take(&b, 3 << 20, &error), STK_BUDGET);
    assert_non_null(strstr(error.message, "buffers need 3.0 MiB more, 512 KiB of the budget of 1.0 MiB are in use"));
    assert_non_null(strstr(error.message, "--memory 8M would do"));
    assert_int_equal(b.used, 1 << 19);
    assert_int_equal(b.refused, 3 << 20);
}

static void arena_goes_back_to_a_place(void **state)
{
    stk__budget b = {.limit = 16 << 20};
    stk__chunk_pool *pool = stk__chunk_pool_new(&b);
    stk__arena arena = {0};
    const stk__arena_mark empty = stk__arena_here(&arena);
    char *first = stk__arena_alloc(&arena, pool, 100, NULL);
    assert_non_null(first);
    memset(first, 'x', 100);
    const stk__arena_mark mark = stk__arena_here(&arena);
    char *second = stk__arena_alloc(&arena, pool, 200, NULL);
    for (int i = 0; i < 20; i++)
        assert_non_null(stk__arena_alloc(&arena, pool, 300000, NULL));
    stk__arena_rewind(&arena, pool, mark);
    assert_int_equal(arena.bytes, 112);
    assert_ptr_equal(stk__arena_alloc(&arena, pool, 200, NULL), second);
    assert_int_equal(first[99], 'x');
    stk__arena_rewind(&arena, pool, empty);
    assert_null(arena.head);
    stk__chunk_pool_trim(pool);
    assert_int_equal(b.used, 0);
    stk__chunk_pool_free(pool);
}

static void large_memory_has_pages_of_its_own(void **state)
{
    stk__budget b = {.limit = 64 << 20};
    for (size_t size = 1000; size < (size_t)32 << 20; size *= 3) {
        char *p = stk__budget_alloc(&b, size, NULL);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, size);
        stk__budget_free(&b, p, size);
    }
    assert_int_equal(b.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_refuses_what_passes_the_limit),
        cmocka_unit_test(budget_keeps_a_quarter_for_work_under_way),
        cmocka_unit_test(budget_error_tells_what_is_needed),
        cmocka_unit_test(buffer_grows_and_keeps_its_contents),
        cmocka_unit_test(arena_hands_out_aligned_memory),
        cmocka_unit_test(arena_uses_its_chunks_again),
        cmocka_unit_test(chunk_that_is_referred_to_stays),
        cmocka_unit_test(spare_chunks_make_room),
        cmocka_unit_test(budget_holds_with_many_threads),
        cmocka_unit_test(budget_names_the_option_that_would_do),
        cmocka_unit_test(arena_goes_back_to_a_place),
        cmocka_unit_test(large_memory_has_pages_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
