/* The digest of batches: what it depends on, and on what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

static const int64_t numbers[] = {1, 2, 3, 4};

static stk_column dense(const char *name)
{
    return (stk_column){
        .name = name, .dtype = STK_INT64, .ndim = 1, .shape = {4}, .data = numbers, .elements = 4, .size_bytes = 32};
}

static void digest_of(const stk_column *columns, int32_t count, int64_t rows, int times, char out[33])
{
    const stk_batch batch = {.rows = rows, .column_count = count, .columns = columns};
    stk_digest *d;
    assert_int_equal(stk_digest_new(&d, NULL), STK_OK);
    for (int i = 0; i < times; i++)
        stk_digest_add(d, &batch);
    stk_digest_hex(d, out);
    stk_digest_free(d);
}

static void differs(const stk_column *a, const stk_column *b)
{
    char x[33], y[33];
    digest_of(a, 1, 4, 1, x);
    digest_of(b, 1, 4, 1, y);
    assert_string_not_equal(x, y);
}

static void digest_is_hex_and_stable(void **state)
{
    const stk_column c = dense("x");
    char a[33], b[33];
    digest_of(&c, 1, 4, 1, a);
    digest_of(&c, 1, 4, 1, b);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_equal(a, b);
    digest_of(&c, 1, 4, 2, b);
    assert_string_not_equal(a, b);
    digest_of(&c, 1, 4, 0, b); /* of nothing: XXH3-128 of no bytes */
    assert_string_equal(b, "99aa06d3014798d86001c324468d497f");
}

static void digest_sees_names_types_shapes_and_bytes(void **state)
{
    const stk_column base = dense("x");
    stk_column other = dense("y");
    differs(&base, &other);
    other = base;
    other.dtype = STK_UINT64;
    differs(&base, &other);
    other = base;
    other.ndim = 2;
    other.shape[0] = 4;
    other.shape[1] = 1;
    differs(&base, &other);
    static const int64_t changed[] = {1, 2, 3, 5};
    other = base;
    other.data = changed;
    differs(&base, &other);
}

static void digest_sees_where_ragged_rows_end(void **state)
{
    static const int64_t a[] = {0, 1, 2, 3, 4}, b[] = {0, 2, 2, 3, 4};
    stk_column x = dense("x"), y;
    x.ndim = 2;
    x.shape[1] = -1;
    y = x;
    x.offsets = a;
    y.offsets = b;
    differs(&x, &y);
}

/* "ab", "c" is not "a", "bc"; and where the bytes lie does not matter. */
static void digest_sees_bytes_by_element(void **state)
{
    char elsewhere[] = "abc";
    const stk_bytes one[] = {{(const uint8_t *)"ab", 2}, {(const uint8_t *)"c", 1}},
                    two[] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"bc", 2}},
                    same[] = {{(const uint8_t *)elsewhere, 2}, {(const uint8_t *)elsewhere + 2, 1}};
    stk_column
        x = {.name = "x", .dtype = STK_BYTES, .ndim = 1, .shape = {2}, .data = one, .elements = 2, .size_bytes = 3},
        y = x;
    char a[33], b[33];
    y.data = two;
    differs(&x, &y);
    y.data = same;
    digest_of(&x, 1, 2, 1, a);
    digest_of(&y, 1, 2, 1, b);
    assert_string_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_is_hex_and_stable),
        cmocka_unit_test(digest_sees_names_types_shapes_and_bytes),
        cmocka_unit_test(digest_sees_where_ragged_rows_end),
        cmocka_unit_test(digest_sees_bytes_by_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
