/* Files that valgrind leaves: whole, cut off, of something else; and their sum over a directory. */
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

#include "base/file.h"
#include "base/mem.h"
#include "bench/grind.h"

static const char cachegrind[] = "desc: I1 cache:         32768 B, 64 B, 8-way associative\n"
                                 "cmd: sort words.txt\n"
                                 "events: Ir\n"
                                 "fl=???\n"
                                 "fn=???\n"
                                 "0 2000004\n"
                                 "summary: 2000004\n";

/* The summary before the calls and the total after them differ a little: the total is of all that is there. */
static const char callgrind[] = "# callgrind format\n"
                                "version: 1\n"
                                "cmd:  ./script.sh\n"
                                "part: 2\n\n\n"
                                "desc: Trigger: --dump-before=vfork\n\n"
                                "positions: line\n"
                                "events: Ir\n"
                                "summary: 1078\n\n\n"
                                "fn=(400) summary: 7\n"
                                "0 1087\n\n"
                                "totals: 1087\n";

static stk_status parse(const char *text, size_t size, stk__grind_file *out, stk_error *err)
{
    /* As large as what it holds, so that a sanitizer sees a byte too many. */
    char *copy = stk__alloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    const stk_status status = stk__grind_parse(copy, size, out, err);
    if (status == STK_OK)
        out->command = text + (out->command - copy);
    stk__free(copy);
    return status;
}

static void both_tools_are_read(void **state)
{
    (void)state;
    stk__grind_file f;
    assert_int_equal(parse(cachegrind, sizeof cachegrind - 1, &f, NULL), STK_OK);
    assert_int_equal(f.instructions, 2000004);
    assert_int_equal(f.command_size, strlen("sort words.txt"));
    assert_memory_equal(f.command, "sort words.txt", f.command_size);
    assert_int_equal(parse(callgrind, sizeof callgrind - 1, &f, NULL), STK_OK);
    assert_int_equal(f.instructions, 1087);
    assert_memory_equal(f.command, "./script.sh", f.command_size);
}

static void a_file_that_is_cut_off_is_not_taken(void **state)
{
    (void)state;
    stk__grind_file f;
    stk_error err = {0};
    for (size_t size = 0; size < sizeof cachegrind - 1; size++)
        assert_int_equal(parse(cachegrind, size, &f, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "cut off"));
    for (size_t size = 0; size < sizeof callgrind - 1; size++)
        assert_int_equal(parse(callgrind, size, &f, NULL), STK_CORRUPT);
}

static void numbers_and_events_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t wanted; /* 0: refused */
    } rows[] = {
        {"cmd: a\nevents: Ir I1mr ILmr\nsummary: 12 3 4\n", 12},
        {"cmd: a\nevents: Ir\nsummary: 18446744073709551615\n", UINT64_MAX},
        {"cmd: a\nevents: Ir\nsummary: 18446744073709551616\n", 0},
        {"cmd: a\nevents: Ir\nsummary: 99999999999999999999999999\n", 0},
        {"cmd: a\nevents: Ir\nsummary: -5\n", 0},
        {"cmd: a\nevents: Ir\nsummary: 1e9\n", 0},
        {"cmd: a\nevents: Irx\nsummary: 5\n", 0},
        {"cmd: a\nevents: Dr Ir\nsummary: 5\n", 0},
        {"cmd: a\nsummary: 5\n", 0},
        {"events: Ir\nsummary: 5\n", 0},
        {"\n\n\n", 0},
        {"", 0},
        {"{\"summary\": 5}\n", 0},
    };
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__grind_file f;
        stk_error err = {0};
        const stk_status status = parse(rows[i].text, strlen(rows[i].text), &f, &err);
        assert_int_equal(status, rows[i].wanted ? STK_OK : STK_CORRUPT);
        if (rows[i].wanted)
            assert_true(f.instructions == rows[i].wanted);
        else
            assert_true(err.message[0]);
    }
}

static void a_long_line_is_no_trouble(void **state)
{
    (void)state;
    const size_t size = 8 << 20;
    char *text = stk__alloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    memcpy(text, "cmd: ", 5);
    stk__grind_file f;
    stk_error err = {0};
    assert_int_equal(stk__grind_parse(text, size, &f, &err), STK_CORRUPT);
    static const char end[] = "\nevents: Ir\nsummary: 7\n";
    memcpy(text + size - (sizeof end - 1), end, sizeof end - 1);
    assert_int_equal(stk__grind_parse(text, size, &f, NULL), STK_OK);
    assert_int_equal(f.instructions, 7);
    stk__free(text);
}

/* ---- a directory ---- */

static void put(const stk__grind *g, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", g->directory, name);
    assert_int_equal(stk__write_file(path, text, strlen(text), NULL), STK_OK);
}

static void all_processes_and_parts_are_summed(void **state)
{
    (void)state;
    stk__grind g;
    stk__grind_total total;
    stk_error err = {0};
    assert_int_equal(stk__grind_open(&g, STK__CACHEGRIND, &err), STK_OK);
    assert_int_equal(stk__grind_sum(g.directory, "sort words.txt", &total, &err), STK_IO); /* none */
    put(&g, "log.12", "==12== nothing\n");
    put(&g, "out.12", cachegrind);
    assert_int_equal(stk__grind_sum(g.directory, "sort words.txt", &total, &err), STK_OK);
    assert_true(total.alone && total.files == 1 && total.instructions == 2000004);
    /* It called exec: what was before is lost. */
    assert_int_equal(stk__grind_sum(g.directory, "env sort words.txt", &total, &err), STK_OK);
    assert_false(total.alone);
    put(&g, "out.13.1", callgrind);
    assert_int_equal(stk__grind_sum(g.directory, "sort words.txt", &total, &err), STK_OK);
    assert_true(!total.alone && total.files == 2 && total.instructions == 2000004 + 1087);
    put(&g, "out.14", "cmd: x\nevents: Ir\nsummary: 18446744073709551615\n");
    assert_int_equal(stk__grind_sum(g.directory, "x", &total, &err), STK_CORRUPT);
    put(&g, "out.14", "cmd: x\nevents: Ir\nsummary: 18");
    assert_int_equal(stk__grind_sum(g.directory, "x", &total, &err), STK_CORRUPT);
    struct stat st;
    char directory[64];
    snprintf(directory, sizeof directory, "%s", g.directory);
    stk__grind_close(&g);
    assert_int_equal(stat(directory, &st), -1);
    stk__grind_close(&g);
    assert_int_equal(stk__grind_sum(directory, "x", &total, &err), STK_IO);
}

static void the_words_name_tool_and_directory(void **state)
{
    (void)state;
    static const stk__grind_tool tools[] = {STK__CACHEGRIND, STK__CALLGRIND};
    for (size_t i = 0; i < STK_COUNT(tools); i++) {
        stk__grind g;
        char tool[32], out[128];
        bool named = false, told = false;
        assert_int_equal(stk__grind_open(&g, tools[i], NULL), STK_OK);
        snprintf(tool, sizeof tool, "--tool=%s", stk__grind_name(tools[i]));
        snprintf(out, sizeof out, "--%s-out-file=%s/out.%%p", stk__grind_name(tools[i]), g.directory);
        assert_string_equal(g.words[0], "valgrind");
        for (size_t k = 0; g.words[k]; k++) {
            named = named || strcmp(g.words[k], tool) == 0;
            told = told || strcmp(g.words[k], out) == 0;
        }
        assert_true(named && told);
        stk__grind_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_tools_are_read),
        cmocka_unit_test(a_file_that_is_cut_off_is_not_taken),
        cmocka_unit_test(numbers_and_events_are_checked),
        cmocka_unit_test(a_long_line_is_no_trouble),
        cmocka_unit_test(all_processes_and_parts_are_summed),
        cmocka_unit_test(the_words_name_tool_and_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
