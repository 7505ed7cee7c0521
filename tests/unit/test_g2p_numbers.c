/* Digits as words: names, forms, and every number read back by a second, independent way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "g2p/abbreviations.h"
#include "g2p/numbers.h"

static void put(void *to, const char *word, size_t size)
{
    stk__text *t = to;
    if (t->length)
        stk__text_putc(t, ' ');
    stk__text_write(t, word, size);
}

static void check_say(const char *digits, stk__number_form form, const char *want)
{
    stk__text got = STK__TEXT_INIT;
    const stk__word_sink sink = {put, &got};
    stk__number_say(digits, strlen(digits), form, &sink);
    assert_string_equal(got.data, want);
    stk__text_clear(&got);
}

static void number_say_names_whole_numbers(void **state)
{
    check_say("0", STK__NUMBER_CARDINAL, "zero");
    check_say("13", STK__NUMBER_CARDINAL, "thirteen");
    check_say("40", STK__NUMBER_CARDINAL, "forty");
    check_say("99", STK__NUMBER_CARDINAL, "ninety nine");
    check_say("1001", STK__NUMBER_CARDINAL, "one thousand one");
    check_say("12,345", STK__NUMBER_CARDINAL, "twelve thousand three hundred forty five");
    check_say("1000000", STK__NUMBER_CARDINAL, "one million");
    check_say("1000001000", STK__NUMBER_CARDINAL, "one billion one thousand");
    check_say("01", STK__NUMBER_CARDINAL, "zero one");
}

static void number_say_names_up_to_66_digits_and_spells_more(void **state)
{
    char digits[STK__NUMBER_NAMED + 2] = "1";
    memset(digits + 1, '0', STK__NUMBER_NAMED);
    digits[64] = 0;
    check_say(digits, STK__NUMBER_CARDINAL, "one vigintillion");
    digits[64] = '0';
    digits[66] = 0;
    check_say(digits, STK__NUMBER_CARDINAL, "one hundred vigintillion");
    digits[66] = '0';
    stk__text got = STK__TEXT_INIT;
    const stk__word_sink sink = {put, &got};
    stk__number_say(digits, 67, STK__NUMBER_ORDINAL, &sink);
    assert_int_equal(got.length, 3 + 66 * 5 + 2);
    assert_memory_equal(got.data, "one zero zero ", 14);
    assert_string_equal(got.data + got.length - 7, " zeroth");
    stk__text_clear(&got);
}

static void number_say_takes_forms(void **state)
{
    static const char *const rows[][4] = {
        {"1", "first", "ones", "firsts"},
        {"2", "second", "twos", "seconds"},
        {"3", "third", "threes", "thirds"},
        {"5", "fifth", "fives", "fifths"},
        {"6", "sixth", "sixes", "sixths"},
        {"8", "eighth", "eights", "eighths"},
        {"9", "ninth", "nines", "ninths"},
        {"12", "twelfth", "twelves", "twelfths"},
        {"20", "twentieth", "twenties", "twentieths"},
        {"21", "twenty first", "twenty ones", "twenty firsts"},
        {"100", "one hundredth", "one hundreds", "one hundredths"},
    };
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        check_say(rows[i][0], STK__NUMBER_ORDINAL, rows[i][1]);
        check_say(rows[i][0], STK__NUMBER_PLURAL, rows[i][2]);
        check_say(rows[i][0], STK__NUMBER_PARTS, rows[i][3]);
    }
}

static void check_year(const char *digits, const char *want)
{
    stk__text got = STK__TEXT_INIT;
    const stk__word_sink sink = {put, &got};
    stk__number_year(digits, STK__NUMBER_CARDINAL, &sink);
    assert_string_equal(got.data, want);
    stk__text_clear(&got);
}

static void number_year_is_read_in_pairs(void **state)
{
    check_year("1984", "nineteen eighty four");
    check_year("1900", "nineteen hundred");
    check_year("1905", "nineteen oh five");
    check_year("2000", "two thousand");
    check_year("2009", "two thousand nine");
    check_year("2024", "twenty twenty four");
    check_year("1001", "one thousand one");
    int years = 0;
    for (int n = 1000; n < 10000; n++) {
        char digits[16];
        snprintf(digits, sizeof digits, "%d", n);
        years += stk__number_is_year(digits);
        assert_int_equal(stk__number_is_year(digits), (n >= 1100 && n <= 1999) || (n >= 2010 && n <= 2099));
    }
    assert_int_equal(years, 900 + 90);
}

static void check_model(const char *digits, const char *want)
{
    stk__text got = STK__TEXT_INIT;
    const stk__word_sink sink = {put, &got};
    stk__number_model(digits, strlen(digits), STK__NUMBER_CARDINAL, &sink);
    assert_string_equal(got.data, want);
    stk__text_clear(&got);
}

static void number_model_reads_pairs(void **state)
{
    check_model("3", "three");
    check_model("52", "fifty two");
    check_model("380", "three eighty");
    check_model("101", "one oh one");
    check_model("100", "one hundred");
    check_model("7800", "seventy eight hundred");
    check_model("05", "zero five");
    check_model("12345", "one two three four five");
}

/* The value of number words, by the rules of reading: names add up, "hundred" and the rest multiply. */
static uint64_t read_words(const char *words)
{
    static const char *const small[] = {
        "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
        "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static const char *const ten[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
    static const char *const big[] = {"thousand", "million", "billion", "trillion", "quadrillion", "quintillion"};
    uint64_t total = 0, group = 0;
    while (*words) {
        char word[16] = "";
        const size_t size = strcspn(words, " ");
        assert_in_range(size, 1, sizeof word - 1);
        memcpy(word, words, size);
        words += size + (words[size] == ' ');
        bool found = strcmp(word, "hundred") == 0;
        if (found)
            group *= 100;
        for (size_t i = 0; i < STK_COUNT(small) && !found; i++) {
            found = strcmp(word, small[i]) == 0;
            group += found ? i : 0;
        }
        for (size_t i = 0; i < STK_COUNT(ten) && !found; i++) {
            found = strcmp(word, ten[i]) == 0;
            group += found ? 10 * (i + 2) : 0;
        }
        uint64_t factor = 1;
        for (size_t i = 0; i < STK_COUNT(big) && !found; i++) {
            factor *= 1000;
            found = strcmp(word, big[i]) == 0;
            total += found ? group * factor : 0;
            group = found ? 0 : group;
        }
        assert_true(found);
    }
    return total + group;
}

static void check_back(uint64_t n, stk__text *got)
{
    char digits[32];
    const stk__word_sink sink = {put, got};
    const int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    stk__text_reset(got);
    stk__number_say(digits, (size_t)size, STK__NUMBER_CARDINAL, &sink);
    assert_true(read_words(got->data) == n);
}

static void number_say_reads_back_as_the_same_number(void **state)
{
    stk__text got = STK__TEXT_INIT;
    for (uint64_t n = 0; n < 20000; n++)
        check_back(n, &got);
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        check_back(x >> (i % 60), &got);
    }
    stk__text_clear(&got);
}

static void abbreviations_are_found_by_their_names(void **state)
{
    static const char *const names[] = {"adm", "al",  "ave", "capt", "dr",     "etc",    "ft",  "hon",
                                        "jan", "jr",  "mr",  "mrs",  "no",     "p",      "pp",  "sept",
                                        "st",  "sun", "vs",  "wed",  "approx", "messrs", "univ"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const stk__abbreviation *a = stk__abbreviation_find(names[i], strlen(names[i]));
        assert_non_null(a);
        assert_string_equal(a->name, names[i]);
        if (a->flags & STK__ABBREVIATION_BARE)
            assert_true(stk__abbreviation_maybe_bare(names[i], strlen(names[i])));
    }
    assert_null(stk__abbreviation_find("m", 1));
    assert_null(stk__abbreviation_find("mrsx", 4));
    assert_null(stk__abbreviation_find("zzz", 3));
    assert_false(stk__abbreviation_maybe_bare("the", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_say_names_whole_numbers),
        cmocka_unit_test(number_say_names_up_to_66_digits_and_spells_more),
        cmocka_unit_test(number_say_takes_forms),
        cmocka_unit_test(number_year_is_read_in_pairs),
        cmocka_unit_test(number_model_reads_pairs),
        cmocka_unit_test(number_say_reads_back_as_the_same_number),
        cmocka_unit_test(abbreviations_are_found_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
