/* Packed samples: values of every kind come back, and no damage is taken for a sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/run.h"

enum { VARS = 4 };

typedef struct fixture {
    stk__plan plan;
    stk__var vars[VARS];
    stk_value values[VARS], back[VARS];
    int ids[VARS];
    stk__budget budget;
    stk__chunk_pool *pool;
    stk__arena scratch;
    stk__buffer packed;
} fixture;

static const float floats[] = {1.5f, -2, 3, 4, 5, 6};
static const int64_t one = 77;

/* A float32[, 2] of three rows, a scalar int64, a bytes[] of three, an empty bytes[]. */
static void set_up(fixture *f)
{
    static const stk_bytes views[] = {
        {(const uint8_t *)"abc", 3}, {NULL, 0}, {(const uint8_t *)"seventeen letters", 17}};
    memset(f, 0, sizeof *f);
    f->vars[0] = (stk__var){.needed = true, .dtype = STK_FLOAT32, .ndim = 2, .shape = {-1, 2}};
    f->vars[1] = (stk__var){.needed = true, .dtype = STK_INT64, .fixed = true, .elements = 1};
    f->vars[2] = f->vars[3] = (stk__var){.needed = true, .dtype = STK_BYTES, .ndim = 1, .shape = {-1}};
    f->values[0] = (stk_value){.data = (void *)(uintptr_t)floats, .elements = 6, .shape = {3, 2}};
    f->values[1] = (stk_value){.data = (void *)(uintptr_t)&one, .elements = 1};
    f->values[2] = (stk_value){.data = (void *)(uintptr_t)views, .elements = 3, .shape = {3}};
    f->values[3] = (stk_value){.data = (void *)(uintptr_t)views, .elements = 0, .shape = {0}};
    f->plan.vars = f->vars;
    f->plan.var_count = VARS;
    for (int i = 0; i < VARS; i++)
        f->ids[i] = i;
    f->budget.limit = 1 << 20;
    f->pool = stk__chunk_pool_new(&f->budget);
    assert_non_null(f->pool);
    assert_int_equal(stk__pack(&f->plan, f->ids, VARS, f->values, &f->packed, &f->budget, NULL), STK_OK);
}

static void tear_down(fixture *f)
{
    stk__arena_release(&f->scratch, f->pool);
    stk__chunk_pool_free(f->pool);
    stk__buffer_clear(&f->packed, &f->budget);
    assert_int_equal(f->budget.used, 0);
}

static stk_status unpack(fixture *f, const char *data, size_t size, stk_error *err)
{
    stk_error_clear(err);
    return stk__unpack(&f->plan, f->ids, VARS, data, size, f->back, &f->scratch, f->pool, err);
}

static void pack_comes_back(void **state)
{
    fixture f;
    stk_error error;
    set_up(&f);
    assert_int_equal(unpack(&f, f.packed.data, f.packed.size, &error), STK_OK);
    assert_int_equal(f.back[0].elements, 6);
    assert_int_equal(f.back[0].shape[0], 3);
    assert_memory_equal(f.back[0].data, floats, sizeof floats);
    assert_int_equal((uintptr_t)f.back[0].data % 16, 0);
    assert_int_equal(*(int64_t *)f.back[1].data, 77);
    const stk_bytes *views = f.back[2].data;
    assert_int_equal(f.back[2].elements, 3);
    assert_memory_equal(views[0].data, "abc", 3);
    assert_int_equal(views[1].size, 0);
    assert_memory_equal(views[2].data, "seventeen letters", 17);
    assert_int_equal(f.back[3].elements, 0);
    tear_down(&f);
}

/* Some of the vars, in another order than they are numbered. */
static void pack_of_some_vars(void **state)
{
    fixture f;
    stk_error error;
    const int ids[] = {2, 1};
    set_up(&f);
    assert_int_equal(stk__pack(&f.plan, ids, 2, f.values, &f.packed, &f.budget, NULL), STK_OK);
    stk_error_clear(&error);
    assert_int_equal(stk__unpack(&f.plan, ids, 2, f.packed.data, f.packed.size, f.back, &f.scratch, f.pool, &error),
                     STK_OK);
    assert_int_equal(*(int64_t *)f.back[1].data, 77);
    assert_int_equal(f.back[2].elements, 3);
    tear_down(&f);
}

static void pack_that_is_cut_off_is_refused(void **state)
{
    fixture f;
    stk_error error;
    set_up(&f);
    for (size_t size = 0; size < f.packed.size; size++) {
        char *copy = stk__alloc(size); /* so that a read behind it is noticed */
        memcpy(copy, f.packed.data, size);
        assert_int_equal(unpack(&f, copy, size, &error), STK_CORRUPT);
        stk__free(copy);
    }
    tear_down(&f);
}

/* Whatever the bytes are: an error, or values that lie within them. */
static void pack_of_garbage_stays_within_bounds(void **state)
{
    fixture f;
    stk_error error;
    set_up(&f);
    char *copy = stk__alloc_aligned(f.packed.size);
    int refused = 0;
    for (uint64_t round = 0; round < 20000; round++) {
        memcpy(copy, f.packed.data, f.packed.size);
        for (uint64_t k = 0; k <= round % 3; k++) {
            const uint64_t draw = stk__mix(round, k);
            copy[draw % f.packed.size] = (char)(draw >> 40);
        }
        if (unpack(&f, copy, f.packed.size, &error) != STK_OK) {
            assert_int_equal(error.status, STK_CORRUPT);
            refused++;
            continue;
        }
        const stk_bytes *views = f.back[2].data;
        for (int64_t i = 0; i < f.back[2].elements; i++)
            assert_true(views[i].size == 0 || ((const char *)views[i].data >= copy &&
                                               (const char *)views[i].data + views[i].size <= copy + f.packed.size));
        stk__arena_reset(&f.scratch, f.pool);
    }
    assert_true(refused > 1000);
    stk__free(copy);
    tear_down(&f);
}

static void pack_without_room_is_told(void **state)
{
    fixture f;
    stk_error error;
    stk__buffer out = {0};
    stk__budget tiny = {.limit = 64};
    set_up(&f);
    stk_error_clear(&error);
    assert_int_equal(stk__pack(&f.plan, f.ids, VARS, f.values, &out, &tiny, &error), STK_BUDGET);
    stk__buffer_clear(&out, &tiny);
    assert_int_equal(tiny.used, 0);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_comes_back),
        cmocka_unit_test(pack_of_some_vars),
        cmocka_unit_test(pack_that_is_cut_off_is_refused),
        cmocka_unit_test(pack_of_garbage_stays_within_bounds),
        cmocka_unit_test(pack_without_room_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
