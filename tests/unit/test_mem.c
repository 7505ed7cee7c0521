/* The allocator: counting, faults on demand, growth, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void alloc_of_zero_bytes_gives_a_pointer(void **state)
{
    (void)state;
    void *a = stk__alloc(0), *b = stk__calloc(0, 8), *c = stk__alloc_aligned(0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    stk__free(a);
    stk__free(b);
    stk__free(c);
    stk__free(NULL);
}

static void alloc_that_overflows_gives_null(void **state)
{
    (void)state;
    volatile size_t huge = SIZE_MAX; /* hides the value from the compiler's own check */
    assert_null(stk__calloc(huge / 2, 4));
    assert_null(stk__alloc_aligned(huge));
    void *items = NULL;
    size_t capacity = 0;
    assert_false(stk__grow(&items, &capacity, huge, 1));
    assert_false(stk__grow(&items, &capacity, huge / 4, 16));
    assert_null(items);
    assert_int_equal(capacity, 0);
}

static void alloc_aligned_is_aligned(void **state)
{
    (void)state;
    for (size_t size = 1; size < 300; size += 37) {
        char *p = stk__alloc_aligned(size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, size);
        stk__free(p);
    }
}

static void alloc_count_counts_every_kind(void **state)
{
    (void)state;
    const uint64_t before = stk__alloc_count();
    void *a = stk__alloc(1), *b = stk__calloc(1, 1), *c = stk__alloc_aligned(1);
    a = stk__realloc(a, 100);
    char *d = stk__strdup("x");
    assert_true(stk__alloc_count() == before + 5);
    stk__free(a);
    stk__free(b);
    stk__free(c);
    stk__free(d);
    assert_true(stk__alloc_count() == before + 5);
}

static void alloc_fail_at_fails_once_or_for_good(void **state)
{
    (void)state;
    stk__alloc_fail_at(2, false);
    void *a = stk__alloc(1), *b = stk__alloc(1), *c = stk__alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    stk__alloc_fail_at(1, true);
    assert_null(stk__alloc(1));
    assert_null(stk__calloc(1, 1));
    assert_null(stk__alloc_aligned(1));
    assert_null(stk__realloc(a, 2));
    assert_null(stk__strdup("x"));
    stk__alloc_fail_at(0, false);
    stk__free(a);
    a = stk__alloc(1);
    assert_non_null(a);
    stk__free(a);
    stk__free(c);
}

static void grow_keeps_the_items(void **state)
{
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    for (size_t n = 0; n < 1000; n++) {
        assert_true(stk__grow((void **)&items, &capacity, n + 1, sizeof *items));
        assert_true(capacity > n);
        items[n] = (int)n;
    }
    for (int n = 0; n < 1000; n++)
        assert_int_equal(items[n], n);
    stk__alloc_fail_at(1, false);
    const size_t before = capacity;
    assert_false(stk__grow((void **)&items, &capacity, capacity + 1, sizeof *items));
    stk__alloc_fail_at(0, false);
    assert_int_equal(capacity, before);
    assert_int_equal(items[999], 999);
    stk__free(items);
}

static void strndup_takes_a_part(void **state)
{
    (void)state;
    char *s = stk__strndup("pipeline", 4);
    assert_string_equal(s, "pipe");
    stk__free(s);
}

static void nomem_names_the_size(void **state)
{
    (void)state;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__nomem(12345, &err), STK_NOMEM);
    assert_non_null(strstr(err.message, "12345"));
    assert_int_equal(stk__nomem(1, NULL), STK_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_of_zero_bytes_gives_a_pointer),
        cmocka_unit_test(alloc_that_overflows_gives_null),
        cmocka_unit_test(alloc_aligned_is_aligned),
        cmocka_unit_test(alloc_count_counts_every_kind),
        cmocka_unit_test(alloc_fail_at_fails_once_or_for_good),
        cmocka_unit_test(grow_keeps_the_items),
        cmocka_unit_test(strndup_takes_a_part),
        cmocka_unit_test(nomem_names_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
