/* text: lines of plain and of compressed files. */
#include "harness.h"

static void text_reads_lines(void **state)
{
    write_file("t", "one\ntwo\n\nfour", 13);
    assert_prints("text(\"$D/t\")", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"text\":\"\"}\n{\"text\":\"four\"}\n");
    write_file("crlf", "a\r\nb\r\n", 6);
    write_lines("e.gz", true, 0, 0);
    write_file("empty", "", 0);
    assert_prints("text(\"$D/empty\")", "");
    assert_prints("text(\"$D/e.gz\")", "");
}

static void text_is_the_same_from_plain_and_gzip(void **state)
{
    seen plain, packed;
    write_data();
    run_all("text(\"$D/lines.txt\") | batch(6) | repeat(2)", NULL, &plain);
    run_all("text(\"$D/lines.txt.gz\") | batch(6) | repeat(2)", NULL, &packed);
    assert_seen_equal(&plain, 0, &packed, "gzip");
    assert_int_equal(plain.count, 8);
    seen_clear(&plain);
    seen_clear(&packed);
}

static void text_goes_over_several_files(void **state)
{
    write_file("x1", "a\nb", 3); /* no newline at the end: still two files */
    write_file("x2", "c\n", 2);
    assert_prints("text(\"$D/x*\")", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n");
    assert_prints("text(\"$D/x2\", \"$D/x1\") | take(2)", "{\"text\":\"c\"}\n{\"text\":\"a\"}\n");
    assert_prints("text(paths=[\"$D/x2\", \"$D/x1\"]) | skip(2)", "{\"text\":\"b\"}\n");
}

static void text_is_found_by_number(void **state)
{
    seen s;
    write_lines("long", false, 0, 1000);
    run_all("text(\"$D/long\") | shuffle(seed=1) | batch(100)", NULL, &s);
    assert_int_equal(s.stats.samples, 1000);
    assert_non_null(strstr(s.lines.data, "{\"text\":\"line 999\"}\n"));
    assert_null(strstr(s.lines.data, "{\"text\":\"line 0\"}\n{\"text\":\"line 1\"}\n"));
    seen_clear(&s);
}

static void text_counts_bytes_read(void **state)
{
    seen s;
    write_data();
    run_all("text(\"$D/lines.txt\")", NULL, &s);
    assert_true(s.stats.bytes_read >= 130 && s.stats.bytes_read <= 170);
    seen_clear(&s);
}

static void text_refuses_missing_files(void **state)
{
    assert_fails("text(\"$D/nothing\")", NULL, STK_IO, "No such file");
    assert_fails("text(\"$D/nothing-*\")", NULL, STK_IO, "match");
    assert_refused("text()", NULL, STK_INVALID, "paths is missing", 1, 1);
    assert_refused("text(3)", NULL, STK_INVALID, "paths must be strings, got an integer 3", 1, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(text_reads_lines),
        OP_TEST(text_is_the_same_from_plain_and_gzip),
        OP_TEST(text_goes_over_several_files),
        OP_TEST(text_is_found_by_number),
        OP_TEST(text_counts_bytes_read),
        OP_TEST(text_refuses_missing_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
