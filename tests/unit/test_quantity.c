/* Figures for people: units, digits, spreads that would vanish, values that are none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/quantity.h"

typedef struct figure {
    double value, spread;
    const char *unit, *text;
} figure;

typedef void show_fn(stk__text *t, const figure *f);

static void show_alone(stk__text *t, const figure *f)
{
    stk__quantity(t, f->value, f->unit);
}

static void show_spread(stk__text *t, const figure *f)
{
    stk__quantity_spread(t, f->value, f->spread, f->unit);
}

static void show_pair(stk__text *t, const figure *f)
{
    stk__quantity_pair(t, f->value, f->spread, f->unit);
}

static void show_ratio(stk__text *t, const figure *f)
{
    stk__ratio(t, f->value);
}

static void assert_figures(show_fn *show, const figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stk__text t = STK__TEXT_INIT;
        show(&t, &figures[i]);
        assert_false(t.failed);
        assert_string_equal(t.data, figures[i].text);
        stk__text_clear(&t);
    }
}

static void quantity_of_time_picks_the_unit(void **state)
{
    static const figure figures[] = {
        {15.93, 0, "s", "15.9 s"},     {0, 0, "s", "0 s"},          {1, 0, "s", "1.00 s"},
        {0.9994, 0, "s", "999 ms"},    {0.9996, 0, "s", "1.00 s"},  {1e-3, 0, "s", "1.00 ms"},
        {0.0123, 0, "s", "12.3 ms"},   {1e-6, 0, "s", "1.00 us"},   {9.9996e-7, 0, "s", "1.00 us"},
        {4.2e-8, 0, "s", "42.0 ns"},   {3e-10, 0, "s", "0.300 ns"}, {99.96, 0, "s", "100 s"},
        {9.996, 0, "s", "10.0 s"},     {917, 0, "s", "917 s"},      {1234.2, 0, "s", "1,234 s"},
        {86400, 0, "s", "86,400 s"},   {3e9, 0, "s", "3.00e+09 s"}, {-0.25, 0, "s", "-250 ms"},
        {1e-13, 0, "s", "1.00e-04 ns"}};
    assert_figures(show_alone, figures, STK_COUNT(figures));
}

static void quantity_of_bytes_shares_and_counts(void **state)
{
    static const figure figures[] = {{17, 0, "bytes", "17 B"},
                                     {0, 0, "bytes", "0 B"},
                                     {1536, 0, "bytes", "1.50 KiB"},
                                     {312.0 * 1048576, 0, "bytes", "312 MiB"},
                                     {1023.9, 0, "bytes", "1.00 KiB"},
                                     {1020, 0, "bytes", "1,020 B"},
                                     {1.5 * 1073741824, 0, "bytes", "1.50 GiB"},
                                     {0.0123, 0, "share", "1.2 %"},
                                     {0.12, 0, "share", "12 %"},
                                     {0.0996, 0, "share", "10 %"},
                                     {0, 0, "share", "0 %"},
                                     {1, 0, "share", "100 %"},
                                     {0.0004, 0, "share", "0.040 %"},
                                     {1234, 0, "", "1,234"},
                                     {12, 0, "count", "12"},
                                     {12.25, 0, "", "12.2"},
                                     {1234567.8, 0, "", "1,234,568"},
                                     {0.5, 0, "", "0.500"},
                                     {4.56e9, 0, "samples/s", "4.56e+09 samples/s"},
                                     {812.4, 0, "samples/s", "812 samples/s"},
                                     {98765, 0, "samples/s", "98,765 samples/s"},
                                     {2e-5, 0, "J", "2.00e-05 J"}};
    assert_figures(show_alone, figures, STK_COUNT(figures));
}

static void quantity_of_no_number_is_a_mark(void **state)
{
    const figure alone[] = {{NAN, 0, "s", "-"}, {INFINITY, 0, "s", "inf s"}, {-INFINITY, 0, "bytes", "-inf B"}};
    assert_figures(show_alone, alone, STK_COUNT(alone));
    const figure spread[] = {{NAN, 1, "s", "-"}, {15.9, NAN, "s", "15.9 s"}, {15.9, INFINITY, "s", "15.9 s +- inf"}};
    assert_figures(show_spread, spread, STK_COUNT(spread));
    const figure pair[] = {{NAN, 1, "s", "-"}, {15.9, NAN, "s", "(15.9, -) s"}};
    assert_figures(show_pair, pair, STK_COUNT(pair));
}

static void quantity_spread_has_the_decimals_of_the_mean(void **state)
{
    static const figure figures[] = {{15.93, 0.41, "s", "15.9 s +- 0.4"},
                                     {917.2, 12.4, "s", "917 s +- 12"},
                                     {0.9996, 0.0213, "s", "1.00 s +- 0.02"},
                                     {0.0153, 0.0021, "s", "15.3 ms +- 2.1"},
                                     {1234.2, 1500, "s", "1,234 s +- 1,500"},
                                     {312.0 * 1048576, 2.2 * 1048576, "bytes", "312 MiB +- 2"},
                                     {0.012, 0.004, "share", "1.2 % +- 0.4"},
                                     {1234, 7, "", "1,234 +- 7"},
                                     {4.56e9, 1.2e8, "samples/s", "4.56e+09 samples/s +- 1.2e+08"},
                                     {0, 0, "s", "0 s +- 0"}};
    assert_figures(show_spread, figures, STK_COUNT(figures));
}

static void quantity_spread_that_is_small_is_not_shown_as_nothing(void **state)
{
    static const figure figures[] = {
        {15.93, 0.04, "s", "15.93 s +- 0.04"},      {15.93, 0.004, "s", "15.930 s +- 0.004"},
        {15.93, 0.0004, "s", "15.930 s +- <0.001"}, {15.93, 0, "s", "15.9 s +- 0"},
        {917, 0.3, "s", "917.0 s +- 0.3"},          {12, 0.4, "", "12.0 +- 0.4"}};
    assert_figures(show_spread, figures, STK_COUNT(figures));
}

static void quantity_pair_is_for_tables(void **state)
{
    static const figure figures[] = {
        {15.93, 0.41, "s", "(15.9, 0.4) s"}, {0.0153, 0.00002, "s", "(15.30, 0.02) ms"}, {1234, 7, "", "(1,234, 7)"}};
    assert_figures(show_pair, figures, STK_COUNT(figures));
}

static void ratio_shows_three_digits(void **state)
{
    static const figure figures[] = {
        {0.9634, 0, "", "0.963"},  {1.05, 0, "", "1.050"},        {1.0044, 0, "", "1.004"}, {2.4, 0, "", "2.40"},
        {12.14, 0, "", "12.1"},    {0.01234, 0, "", "0.0123"},    {1234, 0, "", "1,234"},   {105000, 0, "", "1.05e+05"},
        {1e-5, 0, "", "1.00e-05"}, {0.000972, 0, "", "0.000972"}, {9.996, 0, "", "10.0"},   {0, 0, "", "0"},
        {99.97, 0, "", "100"},     {1.9999, 0, "", "2.00"}};
    assert_figures(show_ratio, figures, STK_COUNT(figures));
    const figure odd[] = {{NAN, 0, "", "-"}, {INFINITY, 0, "", "inf"}};
    assert_figures(show_ratio, odd, STK_COUNT(odd));
}

static void quantity_like_another_has_its_unit_and_decimals(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__quantity_like(&t, 1.2345, &(stk__quantity_style){15.9, 0.4, 15.9, "s"});
    stk__text_putc(&t, ' ');
    stk__quantity_like(&t, 0.05, &(stk__quantity_style){0.0153, 0.00002, 0.0153, "s"});
    stk__text_putc(&t, ' ');
    stk__quantity_like(&t, 2048, &(stk__quantity_style){512, NAN, 512, "bytes"});
    stk__text_putc(&t, ' ');
    stk__quantity_like(&t, NAN, &(stk__quantity_style){512, NAN, 512, "bytes"});
    stk__text_putc(&t, ' ');
    stk__quantity_style_put(&t, &(stk__quantity_style){1.5234, 0.0951, 0.976, "s"});
    assert_string_equal(t.data, "1.2 50.00 2,048 - 1,523 ms +- 95");
    stk__text_clear(&t);
}

static void quantity_factor_fits_the_value(void **state)
{
    const char *name;
    assert_true(stk__quantity_factor(0.02, "s", &name) == 1e3);
    assert_string_equal(name, "ms");
    assert_true(stk__quantity_factor(NAN, "s", &name) == 1);
    assert_string_equal(name, "s");
    assert_true(stk__quantity_factor(5, "apples", &name) == 1);
    assert_string_equal(name, "apples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantity_of_time_picks_the_unit),
        cmocka_unit_test(quantity_of_bytes_shares_and_counts),
        cmocka_unit_test(quantity_of_no_number_is_a_mark),
        cmocka_unit_test(quantity_spread_has_the_decimals_of_the_mean),
        cmocka_unit_test(quantity_spread_that_is_small_is_not_shown_as_nothing),
        cmocka_unit_test(quantity_like_another_has_its_unit_and_decimals),
        cmocka_unit_test(quantity_factor_fits_the_value),
        cmocka_unit_test(quantity_pair_is_for_tables),
        cmocka_unit_test(ratio_shows_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
