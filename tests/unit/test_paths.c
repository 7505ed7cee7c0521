/* Patterns for files: braces and wildcards by our own code, their limits, and interrupts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/expand.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/str.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-paths-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") == 0 && stk__remove_tree(dir) ? 0 : -1;
}

static void put(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* "a b c", or "STATUS: message". */
static const char *expand(const char *pattern)
{
    static char out[4096];
    stk__paths paths = {0};
    stk__text t;
    stk_error err;
    stk_error_clear(&err);
    stk__text_fixed(&t, out, sizeof out);
    if (stk__paths_glob(&paths, pattern, &err) != STK_OK)
        stk__text_printf(&t, "%s: %s", stk_status_name(err.status), err.message);
    else
        for (size_t i = 0; i < paths.count && i < 100; i++)
            stk__text_printf(&t, "%s%s", i ? " " : "", paths.items[i]);
    stk__paths_clear(&paths);
    return out;
}

static void assert_refused(const char *pattern, const char *part)
{
    const char *got = expand(pattern);
    if (strncmp(got, "INVALID", 7) != 0 || !strstr(got, part))
        fail_msg("'%.60s' gave '%.300s', wanted '%s'", pattern, got, part);
}

static char *repeated(const char *piece, size_t count)
{
    const size_t size = strlen(piece);
    char *out = malloc(size * count + 1);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * size, piece, size);
    out[size * count] = 0;
    return out;
}

static void braces_are_counted_before_they_are_made(void **state)
{
    (void)state;
    char *pairs = repeated("{a,b}", 30), *many = repeated("{a,b}", 200000), *open = repeated("{", 1000000);
    char *nested = repeated("{a,", 101), *close = repeated("}", 101), *empty = repeated("{,}", 64);
    assert_refused(pairs, "stand for more than 1000000 names");
    assert_refused(many, "stand for more than 1000000 names");
    assert_refused(empty, "stand for more than 1000000 names");
    assert_true(strncmp(expand(open), "{{{{", 4) == 0); /* no brace has a partner: it is a name */
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s%s", nested, close);
    assert_refused(t.data, "nested more than 100 deep");
    stk__text_reset(&t);
    stk__text_printf(&t, "{0..999}%s", open);
    assert_refused(t.data, "take more than 256 MiB");
    stk__text_clear(&t);
    free(pairs), free(many), free(open), free(nested), free(close), free(empty);
}

/* As the text that used to crash: 4,000 braces around one. */
static void braces_may_stand_in_braces_that_are_none(void **state)
{
    (void)state;
    char *open = repeated("{", 4000), *close = repeated("}", 4000);
    stk__braces *b = NULL;
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%sa,b%s", open, close);
    assert_int_equal(stk__braces_open(t.data, &b, NULL), STK_OK);
    assert_int_equal(stk__braces_count(b), 2);
    char *name = stk__braces_name(b, 1);
    assert_int_equal(strlen(name), 2 * 3999 + 1);
    assert_string_equal(strchr(name, 'b'), name + 3999);
    stk__free(name);
    stk__braces_close(b);
    stk__text_clear(&t);
    free(open), free(close);
    assert_string_equal(expand("{{1,2}..5}"), "{1..5} {2..5}"); /* as bash: what comes out is not read again */
}

static bool matches(const char *pattern, const char *name, uint64_t *steps)
{
    return stk__wild_match(pattern, pattern + strlen(pattern), name, steps);
}

static void stars_take_no_more_than_the_product_of_lengths(void **state)
{
    (void)state;
    char *stars = repeated("*a", 2000), *name = repeated("a", 255), *sets = repeated("[[:alpha:]b-z]*", 200);
    uint64_t steps = 0;
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%sb", stars);
    assert_false(matches(t.data, name, &steps));
    assert_true(steps < 255 * 4100);
    assert_true(matches("*a*a*a*a*a", name, &steps));
    steps = 0;
    assert_false(matches(sets, "1111111111111111111111111111111111", &steps));
    assert_true(steps < 35 * 3001);
    stk__text_clear(&t);
    free(stars), free(name), free(sets);
}

static void sets_are_those_of_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } rows[] = {{"[]]", "]", true},
                {"[!]]", "]", false},
                {"[]-a]", "^", true},
                {"[a-]", "-", true},
                {"[--0]", ".", true},
                {"[z-a]", "m", false},
                {"[\\]]", "]", true},
                {"[a\\-z]", "m", false},
                {"[[:digit:]]", "7", true},
                {"[[:nothing:]]", "n", false},
                {"[[.-.]]", "-", true},
                {"[[=a=]b]", "b", true},
                {"[a", "[a", true},
                {"[a", "a", false},
                {"a\\*", "a*", true},
                {"a\\*", "ab", false},
                {"?", "\xc3\xa9", true},
                {"??", "\xc3\xa9", false},
                {"?", "\xff", true},
                {"[\xc3\xa0-\xc3\xbc]", "\xc3\xa9", true},
                {"[!a]", "\xe6\xbc\xa2", true},
                {"*", "", true},
                {"", "a", false}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        uint64_t steps = 0;
        if (matches(rows[i].pattern, rows[i].name, &steps) != rows[i].matches)
            fail_msg("'%s' and '%s': wanted %d", rows[i].pattern, rows[i].name, rows[i].matches);
    }
}

static void hidden_and_unfinished_files_are_not_meant(void **state)
{
    (void)state;
    static const char *const names[] = {"h/a", "h/.b", "h/.a.0123456789abcdef.stk-tmp",
                                        "h/.a.0123456789abcdef.stk-kept", "h/.a.0123456789abcdef.stk-publish"};
    assert_int_equal(mkdir("h", 0777), 0);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        put(names[i]);
    assert_string_equal(expand("h/*"), "h/a");
    assert_string_equal(expand("h/.*"), "h/.b"); /* neither "." nor ".." nor what is being written */
    assert_string_equal(expand("h/[.]*"), "IO: no file matches 'h/[.]*'");
    assert_string_equal(expand("h/\\.?"), "h/.b");
}

static void components_are_looked_up_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(stk__make_parents("c/1/x/f", NULL), STK_OK);
    assert_int_equal(stk__make_parents("c/2/x/f", NULL), STK_OK);
    put("c/1/x/f1");
    put("c/2/x/f2");
    put("c/3");
    assert_int_equal(symlink("nowhere", "c/lost"), 0);
    assert_int_equal(symlink("loop", "c/loop"), 0);
    assert_string_equal(expand("c/*/x/f?"), "c/1/x/f1 c/2/x/f2");
    assert_string_equal(expand("c/[12]/x/f1"), "c/1/x/f1");
    assert_string_equal(expand("c/*/../3"), "c/1/../3 c/2/../3");
    assert_string_equal(expand("c/*/"), "c/1/ c/2/");
    assert_string_equal(expand("c/l*"), "c/loop c/lost"); /* whoever opens them tells what is wrong */
    assert_string_equal(expand("c/l*/x"), "IO: no file matches 'c/l*/x'");
    assert_string_equal(expand("c/**/f*"), "IO: no file matches 'c/**/f*'"); /* one level, as '*' */
    assert_string_equal(expand("{c/2/x/*,c/1/x/*}"), "c/1/x/f1 c/2/x/f2");
}

static void walks_without_end_are_refused(void **state)
{
    (void)state;
    char name[32];
    assert_int_equal(mkdir("w", 0777), 0);
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "w/%d", i);
        assert_int_equal(mkdir(name, 0777), 0);
    }
    char *up = repeated("*/../", 5), *deep = repeated("*/../", 2000);
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "w/%s*/x", up);
    assert_refused(t.data, "takes too long to expand: more than 32 million directory entries were looked at");
    if (getenv("STOKER_TORTURE")) {
        stk__text_reset(&t);
        stk__text_printf(&t, "w/%s*", deep); /* longer than any name that the system takes */
        assert_refused(t.data, "takes too long");
    }
    stk__text_clear(&t);
    free(up), free(deep);
}

static bool count_down(void *arg)
{
    int *left = arg;
    return --*left < 0;
}

static void an_interrupt_ends_an_expansion(void **state)
{
    (void)state;
    int left = 100;
    const stk__interrupt before = stk__interrupt_set((stk__interrupt){count_down, &left});
    assert_string_equal(expand("w/*/../*/../*/../*/../*/../*/x"), "CANCELLED: interrupted");
    assert_string_equal(expand("{0..999999}"), "CANCELLED: interrupted");
    stk__interrupt_set(before);
    assert_false(stk__interrupted());
}

static void an_interrupt_ends_the_wait_for_a_pipe(void **state)
{
    (void)state;
    int left = 2, fd;
    char *data;
    size_t size;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    const stk__interrupt before = stk__interrupt_set((stk__interrupt){count_down, &left});
    assert_int_equal(stk__file_open("pipe", &fd, NULL, NULL), STK_CANCELLED);
    assert_int_equal(stk__read_file("pipe", 100, &data, &size, NULL), STK_CANCELLED);
    assert_int_equal(stk__open_output("pipe", 0, &fd, NULL), STK_CANCELLED);
    stk__interrupt_set(before);
}

static void expansion_survives_every_failed_allocation(void **state)
{
    (void)state;
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        stk__paths paths = {0};
        assert_true(n < 200);
        stk__alloc_fail_at(n, true);
        status = stk__paths_glob(&paths, "{c/*/x/*,h/{a,{1..3}}}", NULL);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        stk__paths_clear(&paths);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_are_counted_before_they_are_made),
        cmocka_unit_test(braces_may_stand_in_braces_that_are_none),
        cmocka_unit_test(stars_take_no_more_than_the_product_of_lengths),
        cmocka_unit_test(sets_are_those_of_glob),
        cmocka_unit_test(hidden_and_unfinished_files_are_not_meant),
        cmocka_unit_test(components_are_looked_up_one_by_one),
        cmocka_unit_test(walks_without_end_are_refused),
        cmocka_unit_test(an_interrupt_ends_an_expansion),
        cmocka_unit_test(an_interrupt_ends_the_wait_for_a_pipe),
        cmocka_unit_test(expansion_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
