/* Collapsed stacks, the text of perf script and flame graphs: what is read of them, and how it folds again. */
#include "profile_files.h"

#include "trace/lines.h"

/* ---- lines ---- */

static void lines_of_any_length_and_end_come_whole(void **state)
{
    const size_t long_size = 3 * (size_t)STK__LINE_WINDOW + 17;
    char *data = stk__alloc(long_size + 64);
    size_t size = 0;
    memcpy(data, "one\r\n\ntwo\n", 10);
    size = 10;
    memset(data + size, 'x', long_size);
    size += long_size;
    memcpy(data + size, "\nlast", 5);
    size += 5;
    stk__input *in;
    stk__line line;
    assert_int_equal(stk__input_open_memory(data, size, &in, NULL), STK_OK);
    stk__lines lines = {.in = in};
    const size_t wanted[] = {3, 0, 3, long_size, 4};
    const int64_t offsets[] = {0, 5, 6, 10, 11 + (int64_t)long_size};
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        assert_true(stk__lines_next(&lines, &line));
        assert_int_equal(line.size, wanted[i]);
        assert_int_equal(line.offset, offsets[i]);
        assert_false(line.cut);
    }
    assert_memory_equal(line.text, "last", 4);
    assert_false(stk__lines_next(&lines, &line));
    stk__input_close(in);
    stk__free(data);
}

static void line_past_the_limit_is_cut_and_the_next_one_is_whole(void **state)
{
    const size_t size = (size_t)STK__LINE_MAX * 2 + 100;
    char *data = stk__alloc(size + 10);
    memset(data, 'y', size);
    memcpy(data + size, "\nnext\n", 6);
    stk__input *in;
    stk__line line;
    assert_int_equal(stk__input_open_memory(data, size + 6, &in, NULL), STK_OK);
    stk__lines lines = {.in = in};
    assert_true(stk__lines_next(&lines, &line));
    assert_true(line.cut);
    assert_true(stk__lines_next(&lines, &line));
    assert_false(line.cut);
    assert_int_equal(line.size, 4);
    assert_false(stk__lines_next(&lines, &line));
    stk__input_close(in);
    stk__free(data);
}

/* ---- collapsed ---- */

static void collapsed_reads_counts_frames_and_marks(void **state)
{
    static const char text[] = "# made by hand\n"
                               "main;read file;memcpy_[k] 42\r\n"
                               "\n"
                               "main;f (lib/io.py:12);jit code_[j] 7\n"
                               "main;x (libc.so.6) 1\n"
                               "main;g(int, char) 3\n"
                               " 5\n"
                               "no count at all\n"
                               "main;h;";
    stk__trace *t = read_text(text, NULL);
    char stack[256];
    assert_string_equal(stk__trace_str(t, t->files[0].format), "collapsed");
    assert_int_equal(t->samples.count, 5);
    assert_int_equal(t->files[0].events, 7);
    assert_int_equal(notes_of(t, STK__REASON_SYNTAX), 2);
    assert_int_equal(all_notes(t), 2);
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_SAMPLES);
    stack_text(t, 0, stack, sizeof stack);
    assert_string_equal(stack, "main;read file;memcpy");
    assert_int_equal(t->samples.weight[0], 42);
    assert_int_equal(t->samples.ts[0], STK__NO_TIME);
    assert_int_equal(leaf_of(t, 0)->flags, STK__FRAME_KERNEL);
    assert_int_equal(leaf_of(t, 1)->flags, STK__FRAME_JIT);
    const stk__trace_frame *f = &t->frames[t->callsites[t->callsites[t->samples.callsite[1]].parent].frame];
    assert_string_equal(stk__trace_str(t, f->name), "f");
    assert_string_equal(stk__trace_str(t, f->file), "lib/io.py");
    assert_int_equal(f->line, 12);
    assert_string_equal(stk__trace_str(t, leaf_of(t, 2)->file), "libc.so.6");
    assert_string_equal(stk__trace_str(t, leaf_of(t, 3)->name), "g(int, char)");
    assert_int_equal(t->samples.callsite[4], STK__NONE);
    assert_int_equal(t->samples.weight[4], 5);
    stk__trace_free(t);
}

static void collapsed_folds_to_itself_in_order_of_bytes(void **state)
{
    assert_folds("b 1\n 9\na;b_[k] 1\na!;c 2\na;b_[k] 3\na 4\na b 5\na;f (x.py:3) 6\na;f (x.py:03) 7\na;;c 8\n",
                 "collapsed", " 9\na 4\na b 5\na!;c 2\na;;c 8\na;b_[k] 4\na;f (x.py:03) 7\na;f (x.py:3) 6\nb 1\n");
}

static void collapsed_keeps_fractions_as_thousandths(void **state)
{
    stk__trace *t = read_text("a;b 1.25\na;c 3\na;d 1e-3\na;e 2.0\n", NULL);
    const int64_t wanted[] = {1250, 3000, 1, 2000};
    assert_int_equal(t->samples.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(t->samples.weight[i], wanted[i]);
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_NONE);
    assert_int_equal(notes_of(t, STK__REASON_FRACTION), 1); /* once: that all of them are thousandths */
    assert_int_equal(all_notes(t), 1);
    assert_int_equal(t->notes[0].offset, 4);
    stk__trace_free(t);
    t = read_text("\xef\xbb\xbf# c\na;c 3\na;b 1.25\na;d 0.0004\n", "collapsed");
    assert_int_equal(notes_of(t, STK__REASON_FRACTION), 2); /* and what has more digits than that */
    assert_int_equal(t->notes[0].offset, 3 + 4 + 6 + 4);
    stk__trace_free(t);
    t = read_text("a;b 12.0\na;c -3\na;d 99999999999999999999999\n", NULL);
    assert_int_equal(t->samples.weight[0], 12);
    assert_int_equal(t->samples.weight[1], -3);
    assert_int_equal(t->samples.weight[2], INT64_MAX);
    assert_int_equal(notes_of(t, STK__REASON_FRACTION), 1);
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_SAMPLES);
    stk__trace_free(t);
}

static void collapsed_gives_fractions_back(void **state)
{
    assert_folds("a;b 1.25\na;c 3\na;d 1e-3\na;e -2.5\na;e -0.75\na;f 0.1\na;g 0\n", "collapsed",
                 "a;b 1.25\na;c 3\na;d 0.001\na;e -3.25\na;f 0.1\na;g 0\n");
    assert_folds("a;b 1250\na;c 2.0\n", "collapsed", "a;b 1250\na;c 2\n");
}

static void collapsed_replaces_text_that_is_not_utf8(void **state)
{
    stk__trace *t = read_text("a;\xff\xfe 1\n\xc3\xa4;b 2\n", "collapsed");
    assert_int_equal(notes_of(t, STK__REASON_TEXT), 1);
    assert_string_equal(stk__trace_str(t, leaf_of(t, 0)->name), "\xef\xbf\xbd\xef\xbf\xbd");
    stk__trace_free(t);
}

/* ---- perf script ---- */

#define SAMPLE_FRAMES "\tffffffff81 halt+0xb ([kernel.kallsyms])\n\t    401ab2 main+0x2 (/opt/a.out)\n\n"

static void perf_reads_every_form_of_header(void **state)
{
    static const struct {
        const char *header;
        int64_t pid, tid, ts, weight;
        const char *command, *event;
        stk__unit unit;
    } forms[] = {
        {"java 25607 4794564.109216: 1 cycles:", -1, 25607, 4794564109216000, 1, "java", "cycles", STK__UNIT_NONE},
        {"java 12688 [002] 6544038.708352: 235 cpu-clock:", -1, 12688, 6544038708352000, 235, "java", "cpu-clock",
         STK__UNIT_NS},
        {"V8 WorkerThread 25607 4794564.109216: 104345 cycles:u:", -1, 25607, 4794564109216000, 104345,
         "V8 WorkerThread", "cycles:u", STK__UNIT_NONE},
        {"V8 WorkerThread 24636/25607 [000] 94564.109216789: 100 cycles:", 24636, 25607, 94564109216789, 100,
         "V8 WorkerThread", "cycles", STK__UNIT_NONE},
        {"Thread 1 24636/25607   [000] 94564.109216:     sched:sched_switch: prev_comm=a b next=3", 24636, 25607,
         94564109216000, 1, "Thread 1", "sched:sched_switch", STK__UNIT_SAMPLES},
        {"sh  7232 cpu-clock: ", -1, 7232, STK__NO_TIME, 1, "sh", "cpu-clock", STK__UNIT_SAMPLES},
        {"sh  7232/7233 [001] 250000 cpu-clock:", 7232, 7233, STK__NO_TIME, 250000, "sh", "cpu-clock", STK__UNIT_NS},
        {"python3 12/13 [001] U 5.000001: 10 task-clock:ppp:", 12, 13, 5000001000, 10, "python3", "task-clock:ppp",
         STK__UNIT_NS},
        {":-1    -1/-1    [001] 5.000001: 10 cycles:", -1, -1, 5000001000, 10, ":-1", "cycles", STK__UNIT_NONE},
        {"swapper 5.000001: cycles:", -2, -2, 5000001000, 1, "swapper", "cycles", STK__UNIT_SAMPLES},
    };
    for (size_t i = 0; i < STK_COUNT(forms); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s\n" SAMPLE_FRAMES, forms[i].header);
        stk__trace *t = read_text(text, i == 5 || i == 6 ? "perf_script" : NULL);
        assert_string_equal(stk__trace_str(t, t->files[0].format), "perf_script");
        assert_int_equal(t->samples.count, 1);
        assert_int_equal(all_notes(t), 0);
        const stk__trace_track *track = &t->tracks[t->samples.track[0]];
        const stk__trace_thread *thread = &t->threads[track->thread];
        assert_string_equal(stk__trace_str(t, thread->name), forms[i].command);
        assert_string_equal(stk__trace_str(t, t->samples.event[0]), forms[i].event);
        assert_int_equal(t->samples.ts[0], forms[i].ts);
        assert_int_equal(t->samples.weight[0], forms[i].weight);
        assert_int_equal(track->unit, forms[i].unit);
        if (forms[i].tid != -2)
            assert_int_equal(thread->tid, forms[i].tid);
        if (forms[i].pid >= 0)
            assert_int_equal(t->processes[thread->process].pid, forms[i].pid);
        assert_int_equal(leaf_of(t, 0)->flags, STK__FRAME_KERNEL);
        assert_string_equal(stk__trace_str(t, leaf_of(t, 0)->name), "halt");
        stk__trace_free(t);
    }
}

#define PERF_HEADER "a.out 1/1 [000] 5.000001: 10 cycles:\n"

static void perf_folds_names_as_flamegraph_does(void **state)
{
    static const struct {
        const char *frame, *wanted;
    } frames[] = {
        {"7d8 conntrack+0x7f8f80b8 ([nf_conntrack_ipv4])", "conntrack"},
        {"7f [unknown] (/usr/lib/libc-2.31.so)", "[libc-2.31.so]"},
        {"7f [unknown] ([unknown])", "[unknown]"},
        {"7f [unknown] ([kernel.kallsyms])", "[[kernel.kallsyms]]"},
        {"7f RegExp:[&<>\\\"\\'] (/tmp/perf-7539.map)", "RegExp:[&<>\\\\]"},
        {"7f std::map<int, int>::at(int const&) const+0x1 (/a)", "std::map<int, int>::at"},
        {"7f a::(anonymous namespace)::b(int) (/a)", "a::(anonymous namespace)::b"},
        {"7f net/http.(*Client).Do (/a)", "net/http.(*Client).Do"},
        {"7f Lorg/a/B;.call(Lx;)V (/tmp/perf-1.map)", "Lorg/a/B:.call"},
        {"7f a->b->c (/tmp/perf-1.map)", "a;b_[i];c_[i]"},
        {"7f inner (inlined)", "inner"},
        {"7f mmap (/dev/zero (deleted))", "mmap"},
        {"7f [unknown] (/opt/x.so (deleted))", "[x.so (deleted)]"},
        {"7f symbol_without_module", "symbol_without_module"},
    };
    for (size_t i = 0; i < STK_COUNT(frames); i++) {
        char text[256], wanted[256];
        snprintf(text, sizeof text, PERF_HEADER "\t%s\n\n", frames[i].frame);
        snprintf(wanted, sizeof wanted, "a.out;%s 10\n", frames[i].wanted);
        assert_folds(text, "perf_script", wanted);
    }
    assert_folds("java 1/1 [000] 5.000001: 10 cycles:\n\t7f Lorg/a/B;.call(Lx;)V (/tmp/perf-1.map)\n\n", "perf_script",
                 "java;org/a/B:.call 10\n");
}

static void perf_puts_the_command_of_the_time_first(void **state)
{
    assert_folds("my sh 1/1 [000] 5.000001: 10 cycles:\n\t7f a (/a)\n\n"
                 "python 1/1 [000] 5.000002: 20 cycles:\n\t7f a (/a)\n\n"
                 "my sh 1/1 [000] 5.000003: 1 cycles:\n\t7f a (/a)\n\n"
                 "python 1/1 [000] 5.000004: 2 cycles:\n",
                 "perf_script", "my_sh;a 11\npython 2\npython;a 20\n");
}

static void perf_folds_only_the_first_kind_of_event_but_reads_all(void **state)
{
    stk__trace *t = read_text("a 1/1 [000] 5.000001: 10 cycles:\n\t7f a (/a)\n\n"
                              "a 1/1 [000] 5.000001: 20 instructions:\n\t7f a (/a)\n\n"
                              "a 1/1 [000] 5.000002: 10 cycles:\n\t7f a (/a)\n\n",
                              NULL);
    stk__write_report report;
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_int_equal(t->samples.count, 3);
    assert_string_equal(found, "a;a 20\n");
    assert_int_equal(report.samples, 2);
    assert_int_equal(report.lost_samples, 1);
    stk__free(found);
    stk__trace_free(t);
}

static void perf_reads_samples_on_one_line(void **state)
{
    stk__trace *t = read_text(
        "            bash 19 33.916602:    2000000 cpu-clock:      7f2b __mbrtowc+0x133 (/usr/lib/libc.so.6)\n"
        "       perf-exec     0     0.000000: PERF_RECORD_COMM: perf-exec:19/19\n"
        "     Web Content 20 33.918604:    2000000 cpu-clock:  558b [unknown] (/usr/bin/bash)\n",
        NULL);
    stk__write_report report;
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_string_equal(found, "Web_Content;[bash] 2000000\nbash;__mbrtowc 2000000\n");
    assert_int_equal(t->samples.count, 2);
    assert_int_equal(notes_of(t, STK__REASON_UNKNOWN_KIND), 1);
    stk__free(found);
    stk__trace_free(t);
}

static void perf_takes_lines_of_source_and_skips_comments(void **state)
{
    stk__trace *t =
        read_text("# cmdline: perf record\n" PERF_HEADER "\t408ebb some+0x8b (/full/a.out)\n"
                  "  dist.h:300\n\t7f6d __libc_start (/lib64/libc.so)\n  libc.so[27b25]\n\nthis is nothing\n",
                  NULL);
    assert_int_equal(t->samples.count, 1);
    assert_int_equal(leaf_of(t, 0)->line, 300);
    assert_string_equal(stk__trace_str(t, leaf_of(t, 0)->file), "dist.h");
    assert_int_equal(notes_of(t, STK__REASON_SYNTAX), 1);
    char stack[128];
    stack_text(t, 0, stack, sizeof stack);
    assert_string_equal(stack, "__libc_start;some");
    stk__trace_free(t);
}

/* ---- flame graphs ---- */

#define SVG_START                                                                                          \
    "<?xml version=\"1.0\"?>\n<svg version=\"1.1\" width=\"1200\">\n<!-- FlameGraph <title>no</title> -->" \
    "<script><![CDATA[ if (a < b) \"<title>x (1 samples, 1%)</title><rect/>\" ]]></script>\n"
#define BOX(title, x, y, w) \
    "<g>\n<title>" title "</title><rect x=\"" x "\" y=\"" y "\" width=\"" w "\" height=\"15\" />\n</g>\n"

static void flamegraph_in_pixels_becomes_stacks(void **state)
{
    assert_folds(SVG_START BOX("all (1,100 samples, 100%)", "10.0", "100", "1100.0")
                     BOX("main (1,000 samples, 90.91%)", "10.0", "84", "1000.0")
                         BOX("idle (100 samples, 9%)", "1010.0", "84", "100.0")
                             BOX("a&lt;T&gt; (1) (600 samples, 55%)", "10.0", "68", "600.0")
                                 BOX("b &amp;&#39;&#x263a; (x.py:7) (300 samples, 5%)", "610.0", "68", "300.0")
                                     BOX("c (200 samples, 5%)", "110.0", "52", "200.0") "</svg>",
                 "flamegraph",
                 "idle 100\nmain 100\nmain;a<T> (1) 400\nmain;a<T> (1);c 200\nmain;b &'\xe2\x98\xba (x.py:7) 300\n");
}

static void flamegraph_of_inferno_counts_in_samples(void **state)
{
    static const char text[] =
        "<svg xmlns:fg=\"http://github.com/jonhoo/inferno\"><svg id=\"frames\">"
        "<g><title>f (w.py:3) (4 samples, 26%)</title><rect x=\"0%\" y=\"68\" width=\"26%\" fg:x=\"0\" fg:w=\"4\"/></g>"
        "<g><title>all (15 samples, 100%)</title><rect x=\"0%\" y=\"52\" width=\"100%\" fg:x=\"0\" fg:w=\"15\"/></g>"
        "<g><title>g (libc.so.6) (10 samples, 66%)</title>"
        "<rect x=\"26%\" y=\"68\" width=\"66%\" fg:x=\"4\" fg:w=\"10\"/></g>"
        "<g><title>h (9 samples, 66%)</title>"
        "<rect x=\"26%\" y=\"84\" width=\"66%\" fg:x=\"4\" fg:w=\"9\"/></g></svg></svg>";
    stk__trace *t = read_text(text, NULL);
    assert_string_equal(stk__trace_str(t, t->files[0].format), "flamegraph");
    assert_int_equal(all_notes(t), 0);
    stk__trace_free(t);
    assert_folds(text, NULL, " 1\nf (w.py:3) 4\ng (libc.so.6) 1\ng (libc.so.6);h 9\n");
}

static void flamegraph_notes_what_it_cannot_use(void **state)
{
    stk__trace *t =
        read_text(SVG_START BOX("all (10 samples, 100%)", "10", "100", "100") BOX("no count", "10", "84", "5")
                      BOX("far (3 samples, 1%)", "500", "84", "5") "<title>no box (1 samples, 1%)</title>" BOX(
                          "odd (3 samples, 1%)", "x", "84", "5") "<title>cut (3 samp",
                  "flamegraph");
    assert_int_equal(notes_of(t, STK__REASON_SYNTAX), 2);
    assert_int_equal(notes_of(t, STK__REASON_BAD_REFERENCE), 1);
    assert_int_equal(notes_of(t, STK__REASON_BAD_VALUE), 1);
    assert_int_equal(notes_of(t, STK__REASON_TRUNCATED), 1);
    assert_int_equal(t->samples.count, 2);
    stk__trace_free(t);
}

/* ---- telling them apart ---- */

static void formats_are_told_apart_by_content(void **state)
{
    static const struct {
        const char *text, *format;
    } cases[] = {
        {"a;b 1\n", "collapsed"},
        {"main (a.py:1) 12\nother (b.py) 3\n", "collapsed"},
        {"idle 50\nmain;other 3\n[unknown] 2\n", "collapsed"},
        {"[unknown];main 3\n", "collapsed"},
        {"# only a comment\na;b 1\r\nbroken\na;c 2\r\n", "collapsed"},
        {PERF_HEADER "\t7f a (/a)\n\n", "perf_script"},
        {"# ========\n# cmdline : perf\n#\n" PERF_HEADER SAMPLE_FRAMES, "perf_script"},
        {SVG_START "</svg>", "flamegraph"},
        {"1 2 3\n4 5 6\n", "none"},
        {"main 12\nother 3\n", "none"}, /* as all counters of the kernel: nr_free_pages 12 */
        {"Epoch 1 loss 0.5\nEpoch 2 loss 0.4\n", "none"},
        {"Epoch 1; loss 0.5\nEpoch 2; loss 0.4\n", "none"},
        {"index, utilization.gpu [%], memory.used [MiB]\n0, 95 %, 12345\n0, 97 %, 12345\n", "none"},
        {"cpu  2255 34 2290 22625563\ncpu0 1132 34 1441 11311718\nctxt 1990473\nbtime 1062191376\n", "none"},
        {"  <idle>-0     (-----) [001] d..2  1234.567890: sched_switch: prev_comm=swapper\n"
         "  foo-12  ( 12) [000] d..3 1234.600000: sched_wakeup: comm=x\n",
         "none"},
        {"just some words\nand more of them\n", "none"},
        {"<svg><rect/></svg>", "none"},
        {"name,count\na,1\nb,2\n", "none"},
        {"", "none"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_string_equal(format_of(cases[i].text, strlen(cases[i].text)), cases[i].format);
    }
}

static void every_failed_allocation_is_told(void **state)
{
    static const struct {
        const char *text, *format;
    } cases[] = {
        {"a;b 1\nc;d 2\n", "collapsed"},
        {PERF_HEADER SAMPLE_FRAMES, "perf_script"},
        {SVG_START BOX("all (10 samples, 100%)", "10", "100", "100") BOX("b (3 samples, 1%)", "10", "84", "5"),
         "flamegraph"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        for (uint64_t n = 1; n < 200; n++) {
            stk__input *in;
            stk__builder *b;
            assert_int_equal(stk__input_open_memory(cases[i].text, strlen(cases[i].text), &in, NULL), STK_OK);
            assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
            const uint64_t before = stk__alloc_count();
            stk__alloc_fail_at(n, true);
            const stk_status status = stk__trace_read(b, in, cases[i].format, NULL);
            stk__alloc_fail_at(0, false);
            const bool failed = stk__alloc_count() - before >= n;
            stk__input_close(in);
            stk__builder_free(b);
            if (!failed) {
                assert_int_equal(status, STK_OK);
                break;
            }
            assert_int_equal(status, STK_NOMEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_any_length_and_end_come_whole),
        cmocka_unit_test(line_past_the_limit_is_cut_and_the_next_one_is_whole),
        cmocka_unit_test(collapsed_reads_counts_frames_and_marks),
        cmocka_unit_test(collapsed_folds_to_itself_in_order_of_bytes),
        cmocka_unit_test(collapsed_keeps_fractions_as_thousandths),
        cmocka_unit_test(collapsed_gives_fractions_back),
        cmocka_unit_test(collapsed_replaces_text_that_is_not_utf8),
        cmocka_unit_test(perf_reads_every_form_of_header),
        cmocka_unit_test(perf_folds_names_as_flamegraph_does),
        cmocka_unit_test(perf_puts_the_command_of_the_time_first),
        cmocka_unit_test(perf_folds_only_the_first_kind_of_event_but_reads_all),
        cmocka_unit_test(perf_reads_samples_on_one_line),
        cmocka_unit_test(perf_takes_lines_of_source_and_skips_comments),
        cmocka_unit_test(flamegraph_in_pixels_becomes_stacks),
        cmocka_unit_test(flamegraph_of_inferno_counts_in_samples),
        cmocka_unit_test(flamegraph_notes_what_it_cannot_use),
        cmocka_unit_test(formats_are_told_apart_by_content),
        cmocka_unit_test(every_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
