/* Sections of Markdown pages, and text from outside in cells of tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/section.h"
#include "base/mem.h"

/* ---- sections ---- */

static void replace_gives(const char *page, const char *text, const char *wanted)
{
    stk__text out = STK__TEXT_INIT;
    stk_error err = {0};
    assert_int_equal(stk__section_replace(page, strlen(page), "p.md", "perf", text, &out, &err), STK_OK);
    assert_string_equal(out.data, wanted);
    stk__text_clear(&out);
}

static void replace_fails(const char *page, const char *name, const char *text, int line, const char *part)
{
    stk__text out = STK__TEXT_INIT;
    stk_error err = {0};
    assert_int_equal(stk__section_replace(page, strlen(page), "p.md", name, text, &out, &err), STK_INVALID);
    assert_non_null(strstr(err.message, part));
    assert_string_equal(err.file, "p.md");
    assert_int_equal(err.line, line);
    assert_null(out.data);
    assert_int_equal(stk__section_replace(page, strlen(page), "p.md", name, text, &out, NULL), STK_INVALID);
}

static void section_replace_changes_only_what_stands_between_the_marks(void **state)
{
    replace_gives("a\n<!-- perf -->\nold\n\nold\n<!-- end perf -->\nb\n", "new\n",
                  "a\n<!-- perf -->\nnew\n<!-- end perf -->\nb\n");
    replace_gives("<!-- perf -->\n<!-- end perf -->", "x", "<!-- perf -->\nx\n<!-- end perf -->");
    replace_gives("<!-- perf -->\nold\n<!-- end perf -->\n", "", "<!-- perf -->\n<!-- end perf -->\n");
}

static void section_replace_keeps_other_bytes_as_they_are(void **state)
{
    static const char page[] = "\xff\0\r\n <!-- perf -->\n<!-- perf --> \t\r\nold\n<!-- end perf -->\r\n\x01 no end";
    static const char wanted[] = "\xff\0\r\n <!-- perf -->\n<!-- perf --> \t\r\nnew\n<!-- end perf -->\r\n\x01 no end";
    stk__text out = STK__TEXT_INIT;
    assert_int_equal(stk__section_replace(page, sizeof page - 1, "p.md", "perf", "new", &out, NULL), STK_OK);
    assert_int_equal(out.length, sizeof wanted - 1);
    assert_memory_equal(out.data, wanted, sizeof wanted);
    stk__text_clear(&out);
}

static void section_replace_twice_gives_the_same_page(void **state)
{
    stk__text one = STK__TEXT_INIT, two = STK__TEXT_INIT;
    static const char page[] = "# x\n<!-- perf -->\n<!-- end perf -->\n";
    assert_int_equal(stk__section_replace(page, strlen(page), "p.md", "perf", "| a |\n|---|", &one, NULL), STK_OK);
    assert_int_equal(stk__section_replace(one.data, one.length, "p.md", "perf", "| a |\n|---|", &two, NULL), STK_OK);
    assert_string_equal(one.data, two.data);
    stk__text_clear(&one);
    stk__text_clear(&two);
}

static void section_replace_refuses_pages_with_other_marks(void **state)
{
    replace_fails("", "perf", "", 0, "<!-- perf -->");
    replace_fails("<!-- perf -->\n", "perf", "", 0, "<!-- end perf -->");
    replace_fails("<!-- end perf -->\n", "perf", "", 0, "'<!-- perf -->'");
    replace_fails("x\n<!-- end perf -->\n<!-- perf -->\n", "perf", "", 2, "line 3");
    replace_fails("<!-- perf -->\n<!-- end perf -->\n<!-- perf -->\n", "perf", "", 3, "line 1");
    replace_fails("<!-- perf -->\n<!-- end perf -->\n<!-- end perf -->\n", "perf", "", 3, "second");
    replace_fails("<!-- perf --> x\n<!-- end perf -->\n", "perf", "", 0, "found no line");
    replace_fails("<!--perf-->\n<!-- end perf -->\n", "perf", "", 0, "found no line");
}

static void section_replace_refuses_what_could_not_be_replaced_again(void **state)
{
    static const char page[] = "<!-- perf -->\n<!-- end perf -->\n";
    replace_fails(page, "perf", "a\n<!-- end perf -->\nb", 1, "new text");
    replace_fails(page, "perf", "<!-- perf -->", 1, "new text");
    replace_fails(page, "", "", 0, "bad name");
    replace_fails(page, "a-->", "", 0, "bad name");
    replace_fails(page, "a\nb", "", 0, "bad name");
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    replace_fails(page, longest, "", 0, "bad name");
}

static void section_replace_tells_of_missing_memory(void **state)
{
    static const char page[] = "<!-- perf -->\n<!-- end perf -->\n";
    stk__text out = STK__TEXT_INIT;
    stk_error err = {0};
    stk__alloc_fail_at(1, true);
    assert_int_equal(stk__section_replace(page, strlen(page), "p.md", "perf", "x", &out, &err), STK_NOMEM);
    stk__alloc_fail_at(0, false);
    stk__text_clear(&out);
}

/* ---- cells ---- */

static void cell_gives(const char *text, const char *wanted)
{
    stk__text out = STK__TEXT_INIT;
    stk__markdown_cell(&out, text);
    stk__text_putc(&out, '.');
    stk__text_putc(&out, 0);
    assert_int_equal(out.data[out.length - 2], '.');
    out.data[out.length - 2] = 0;
    assert_string_equal(out.data, wanted);
    stk__text_clear(&out);
}

static void cell_keeps_plain_names_readable(void **state)
{
    cell_gives("", "");
    cell_gives("parse_op", "parse_op");
    cell_gives("a__b_c1", "a__b_c1");
    cell_gives("HEAD~1", "HEAD~1");
    cell_gives("make && ./app", "make && ./app");
    cell_gives("2 * 3 - 1 (50 %)", "2 * 3 - 1 (50 %)");
    cell_gives("$HOME/x", "$HOME/x");
    cell_gives("\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", "\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
}

static void cell_stays_in_its_table(void **state)
{
    cell_gives("a|b", "a\\|b");
    cell_gives("a\\|b", "a\\\\\\|b");
    cell_gives("end\\", "end\\\\");
    cell_gives("a\nb\r\nc\rd\te", "a b c d e");
    cell_gives("\n\n", "  ");
}

static void cell_holds_no_markup(void **state)
{
    cell_gives("<b>&lt;&#60;</b>", "&lt;b&gt;&amp;lt;&amp;#60;&lt;/b&gt;");
    cell_gives("`x` [a](b) ![c]", "\\`x\\` \\[a\\](b) !\\[c\\]");
    cell_gives("**x** *y*", "\\*\\*x\\*\\* \\*y\\*");
    cell_gives("__init__ _x_", "\\_\\_init\\_\\_ \\_x\\_");
    cell_gives("~~x~~ a~b", "\\~\\~x\\~\\~ a\\~b");
    cell_gives("$a$", "\\$a\\$");
    cell_gives("\xc3\xa9_\xc3\xa9", "\xc3\xa9\\_\xc3\xa9");
    cell_gives("a *", "a *");
    cell_gives("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
}

static void cell_shows_control_characters_and_bad_bytes(void **state)
{
    cell_gives("\x1b[31m", "\\x1b\\[31m");
    cell_gives("\\x1b", "\\\\x1b");
    cell_gives("a\x7f", "a\\x7f");
    cell_gives("\xc2\x85", "\\xc2\\x85");
    cell_gives("\xe2\x80\xae"
               "abc",
               "\\xe2\\x80\\xae"
               "abc");
    cell_gives("a\xff\xc3", "a\xef\xbf\xbd\xef\xbf\xbd");
    cell_gives("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* Whatever two bytes stand between letters: no bar, angle or line end that is not escaped comes out. */
static void cell_of_any_two_bytes_is_safe(void **state)
{
    for (int a = 1; a < 256; a++) {
        for (int b = 1; b < 256; b++) {
            const char text[] = {'x', (char)a, (char)b, 'y', 0};
            stk__text out = STK__TEXT_INIT;
            stk__markdown_cell(&out, text);
            for (size_t i = 0, n; i < out.length; i += n) {
                const unsigned char *p = (const unsigned char *)out.data + i;
                n = stk__utf8_length(p, out.length - i);
                assert_true(n > 0 && *p >= 0x20 && *p != 0x7f && *p != '<' && *p != '>' && *p != '|' && *p != '`');
                if (*p == '\\')
                    n = p[1] == 'x' ? 1 : 2; /* a sign that is escaped, or a byte as \xNN */
            }
            assert_int_equal(out.data[0], 'x');
            assert_int_equal(out.data[out.length - 1], 'y');
            stk__text_clear(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(section_replace_changes_only_what_stands_between_the_marks),
        cmocka_unit_test(section_replace_keeps_other_bytes_as_they_are),
        cmocka_unit_test(section_replace_twice_gives_the_same_page),
        cmocka_unit_test(section_replace_refuses_pages_with_other_marks),
        cmocka_unit_test(section_replace_refuses_what_could_not_be_replaced_again),
        cmocka_unit_test(section_replace_tells_of_missing_memory),
        cmocka_unit_test(cell_keeps_plain_names_readable),
        cmocka_unit_test(cell_stays_in_its_table),
        cmocka_unit_test(cell_holds_no_markup),
        cmocka_unit_test(cell_shows_control_characters_and_bad_bytes),
        cmocka_unit_test(cell_of_any_two_bytes_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
