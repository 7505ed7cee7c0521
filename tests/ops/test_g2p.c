/* g2p: ids and names, lexicons, marks and spaces, what no lexicon has, bad records, places and errors. */
#include "harness.h"

#include <stoker/g2p.h>

#include "base/mem.h"

/* All that these tests compare comes from here, so that no other model can change it. */
static void write_lexicon(void)
{
    static const char text[] = "hello HH AH0 L OW1\nworld W ER1 L D\nthe DH AH0\nbig B IH1 G\n";
    static const char own[] = "world W ER1 L D Z\n";
    write_file("x.dict", text, strlen(text));
    write_file("own.dict", own, strlen(own));
}

static void write_text(const char *text)
{
    write_lexicon();
    write_file("t.txt", text, strlen(text));
}

static void g2p_makes_numbers(void **state)
{
    write_text("Hello, big world\n\nthe\n");
    /* 74 stands between words that have no mark between them. */
    assert_prints(
        "text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/x.dict\")",
        "{\"text\":[37, 10, 46, 51, 76, 22, 39, 36, 74, 70, 30, 46, 24]}\n{\"text\":[]}\n{\"text\":[25, 10]}\n");
    assert_prints("text(\"$D/t.txt\") | skip(1) | g2p(text, lexicon=\"$D/x.dict\") | batch(2, pad=true)",
                  "{\"text\":[0, 0]}\n{\"text\":[25, 10]}\n");
}

static void g2p_makes_names(void **state)
{
    write_text("Hello, big world\n\nthe\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\")",
                  "{\"text\":\"HH AH0 L OW1 , B IH1 G | W ER1 L D\"}\n{\"text\":\"\"}\n{\"text\":\"DH AH0\"}\n");
    assert_prints("text(\"$D/t.txt\") | take(1) | g2p(text, text, out=said, lexicon=[\"$D/x.dict\", \"$D/own.dict\"])",
                  "{\"text\":\"Hello, big world\", \"said\":\"HH AH0 L OW1 , B IH1 G | W ER1 L D Z\"}\n");
}

static void g2p_leaves_out_marks_and_spaces(void **state)
{
    write_text("Hello, big world\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, text, lexicon=\"$D/x.dict\", punctuation=false)",
                  "{\"text\":\"HH AH0 L OW1 | B IH1 G | W ER1 L D\"}\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, text, lexicon=\"$D/x.dict\", spaces=false)",
                  "{\"text\":\"HH AH0 L OW1 , B IH1 G W ER1 L D\"}\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, text, lexicon=\"$D/x.dict\", spaces=false, punctuation=false)",
                  "{\"text\":\"HH AH0 L OW1 B IH1 G W ER1 L D\"}\n");
}

static void g2p_counts_what_no_lexicon_has(void **state)
{
    write_text("the big world\nthe zzyx plugh!\n\nzzyx\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/x.dict\", oov=missing) | select(missing)",
                  "{\"missing\":0}\n{\"missing\":2}\n{\"missing\":0}\n{\"missing\":1}\n");
    assert_prints(
        "text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\", oov=missing) | filter(\"missing == 0\") | "
        "drop(missing)",
        "{\"text\":\"DH AH0 | B IH1 G | W ER1 L D\"}\n{\"text\":\"\"}\n");
}

static void g2p_whose_fields_nobody_needs_does_not_run(void **state)
{
    write_text("hello\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, out=p, lexicon=\"$D/x.dict\") | drop(p)", "{\"text\":\"hello\"}\n");
}

/* Whatever the model says, it is the same in every tile, batch and thread. */
static void g2p_does_not_depend_on_neighbours(void **state)
{
    stk__text text = STK__TEXT_INIT;
    seen one, three;
    for (int i = 0; i < 400; i++)
        stk__text_printf(&text, "Hello %s%s the w%.*s.%s\n", i % 3 ? "zz" : "pl", i % 7 ? "yx" : "ugh", i % 5, "aeiou",
                         i % 50 ? "" : " A longer line with QQRR, hello and words, words, words that nobody knows.");
    write_text(text.data);
    stk_config config = harness_config();
    config.threads = 1;
    run_all("text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/x.dict\", oov=n)", &config, &one);
    config.threads = 3;
    run_all("text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/x.dict\", oov=n)", &config, &three);
    assert_seen_equal(&one, 0, &three, "three threads");
    seen_clear(&three);
    run_all("text(\"$D/t.txt\") | skip(57) | g2p(text, lexicon=\"$D/x.dict\", oov=n)", &config, &three);
    assert_true(three.count > 0 && strlen(three.lines.data) < strlen(one.lines.data));
    assert_string_equal(one.lines.data + strlen(one.lines.data) - strlen(three.lines.data), three.lines.data);
    seen_clear(&three);
    seen_clear(&one);
    stk__text_clear(&text);
}

static void g2p_of_long_texts_works_in_groups(void **state)
{
    enum { REPEATS = 9000 };
    stk__text text = STK__TEXT_INIT, wanted = STK__TEXT_INIT;
    for (int line = 0; line < 3; line++) {
        stk__text_puts(&wanted, "{\"text\":\"");
        for (int i = 0; i < REPEATS; i++) {
            stk__text_puts(&text, "big ");
            stk__text_puts(&wanted, i ? " | B IH1 G" : "B IH1 G");
        }
        stk__text_putc(&text, '\n');
        stk__text_puts(&wanted, "\"}\n");
    }
    write_text(text.data);
    assert_prints("text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\")", wanted.data);
    stk__text_clear(&text);
    stk__text_clear(&wanted);
}

static void g2p_behind_a_filter_and_in_a_stream(void **state)
{
    write_text("hello\nthe\nbig\nworld\nthe\nbig\n");
    compress_file("t.txt");
    assert_prints("text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\") | skip(3)",
                  "{\"text\":\"W ER1 L D\"}\n{\"text\":\"DH AH0\"}\n{\"text\":\"B IH1 G\"}\n");
    write_text("hello\nzzyx\nbig\nthe zzyx\nxyzzy\nworld\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, out=p, lexicon=\"$D/x.dict\", oov=n) | filter(\"n == 0\") | "
                  "g2p(text, to=text, lexicon=\"$D/x.dict\") | select(text)",
                  "{\"text\":\"HH AH0 L OW1\"}\n{\"text\":\"B IH1 G\"}\n{\"text\":\"W ER1 L D\"}\n");
}

static void g2p_of_unknown_letters_is_kept_or_a_bad_record(void **state)
{
    write_text("the world\nthe \xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0\nbig\n");
    assert_prints("text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\", oov=n)",
                  "{\"text\":\"DH AH0 | W ER1 L D\", \"n\":0}\n{\"text\":\"DH AH0 | <unk>\", \"n\":1}\n"
                  "{\"text\":\"B IH1 G\", \"n\":0}\n");
    assert_fails(
        "text(\"$D/t.txt\") | g2p(text, unknown=fail)", NULL, STK_CORRUPT,
        "field 'text': '\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0' has letters that the model does not know");
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all("text(\"$D/t.txt\") | g2p(text, to=text, lexicon=\"$D/x.dict\", unknown=fail)", &config, &s);
    assert_string_equal(s.lines.data, "{\"text\":\"DH AH0 | W ER1 L D\"}\n{\"text\":\"B IH1 G\"}\n");
    assert_int_equal(s.stats.skipped, 1);
    seen_clear(&s);
}

static void g2p_refuses(void **state)
{
    write_text("hello\n");
    write_file("bad.dict", "fine F AY1 N\nbroken B QQ\n", 26);
    assert_refused("range(5) | g2p(value)", NULL, STK_INVALID, "field 'value' is int64 with 0 dimensions, wanted bytes",
                   1, 12);
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, oov=n)", NULL, STK_INVALID, "oov counts words that no lexicon has",
                   2, 3);
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, lexicon=\"$D/x.dict\", oov=text)", NULL, STK_INVALID,
                   "both to be field 'text'", 2, 3);
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, lexicon=\"$D/none.dict\")", NULL, STK_IO, "cannot open", 2, 3);
    /* The line of the lexicon is told in the message: the place is that of the op. */
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, lexicon=\"$D/bad.dict\")", NULL, STK_CORRUPT,
                   "line 2: 'QQ' is no phoneme", 2, 3);
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, model=\"$D/bad.dict\")", NULL, STK_CORRUPT, "", 2, 3);
    assert_refused("text(\"$D/t.txt\")\n| g2p(text, precision=int4)", NULL, STK_INVALID, "int4", 2, 23);
}

static void g2p_counts_towards_the_budget(void **state)
{
    stk__text text = STK__TEXT_INIT;
    for (int i = 0; i < 200000; i++)
        stk__text_printf(&text, "word%d B IH1 G\n", i);
    write_text("hello\n");
    write_file("large.dict", text.data, text.length);
    stk_config config = harness_config();
    config.memory_bytes = 4 << 20;
    assert_fails("text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/large.dict\")", &config, STK_BUDGET, "");
    config.memory_bytes = 64 << 20;
    seen s;
    run_all("text(\"$D/t.txt\") | g2p(text, lexicon=\"$D/large.dict\")", &config, &s);
    seen_clear(&s);
    stk__text_clear(&text);
}

static void g2p_of_a_large_text_counts_towards_the_budget(void **state)
{
    enum { SIZE = 400000 };
    char *digits = stk__alloc(SIZE);
    memset(digits, '7', SIZE);
    write_file("t.txt", digits, SIZE);
    stk__free(digits);
    stk_config config = harness_config();
    config.memory_bytes = (uint64_t)32 << 20;
    assert_fails("text(\"$D/t.txt\") | g2p(text) | discard", &config, STK_BUDGET, "budget");
    config.memory_bytes = (uint64_t)256 << 20;
    seen s;
    run_all("text(\"$D/t.txt\") | g2p(text) | discard", &config, &s);
    assert_true(s.stats.peak_buffer_bytes > (int64_t)SIZE * 100);
    seen_clear(&s);
}

static void g2p_goes_on_from_any_batch(void **state)
{
    static const char *const pipelines[] = {
        "text(\"$D/lines.txt\") | g2p(text, out=said) | shuffle(seed=2) | batch(4, pad=true) | repeat(2)",
        "text(\"$D/lines.txt.gz\") | g2p(text, to=text) | cache | g2p(text, out=again) | batch(3) | repeat(2)",
    };
    write_data();
    for (size_t i = 0; i < STK_COUNT(pipelines); i++) {
        seen all;
        run_all(pipelines[i], NULL, &all);
        for (size_t k = 0; k <= all.count; k++) {
            stk_config config = harness_config();
            seen head, tail;
            config.threads = 1 + (int)k % 3;
            run_some(pipelines[i], &config, (int64_t)k, in_dir("place"), &head);
            config.threads = 3 - (int)k % 3;
            config.resume_path = in_dir("place");
            run_all(pipelines[i], &config, &tail);
            assert_seen_equal(&all, k, &tail, pipelines[i]);
            seen_clear(&head);
            seen_clear(&tail);
        }
        seen_clear(&all);
    }
}

static void g2p_with_another_lexicon_uses_no_old_cache_and_no_old_checkpoint(void **state)
{
    static const char pipeline[] =
        "text(\"$D/t.txt\") | g2p(text, text, lexicon=\"$D/own.dict\") | cache(\"$D/kept\") | batch(1)";
    write_text("world\nworld\n");
    seen first = {0}, second = {0};
    run_all(pipeline, NULL, &first);
    assert_string_equal(first.lines.data, "{\"text\":\"W ER1 L D Z\"}\n{\"text\":\"W ER1 L D Z\"}\n");
    run_some(pipeline, NULL, 1, in_dir("place"), &second);
    seen_clear(&second);
    static const char other[] = "world W ER1 L D S\n";
    write_file("own.dict", other, strlen(other));
    run_all(pipeline, NULL, &second);
    assert_string_equal(second.lines.data, "{\"text\":\"W ER1 L D S\"}\n{\"text\":\"W ER1 L D S\"}\n");
    stk_config config = harness_config();
    config.resume_path = in_dir("place");
    assert_fails(pipeline, &config, STK_MISMATCH, "other data");
    seen_clear(&first);
    seen_clear(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(g2p_makes_numbers),
        OP_TEST(g2p_makes_names),
        OP_TEST(g2p_leaves_out_marks_and_spaces),
        OP_TEST(g2p_counts_what_no_lexicon_has),
        OP_TEST(g2p_whose_fields_nobody_needs_does_not_run),
        OP_TEST(g2p_does_not_depend_on_neighbours),
        OP_TEST(g2p_of_long_texts_works_in_groups),
        OP_TEST(g2p_behind_a_filter_and_in_a_stream),
        OP_TEST(g2p_of_unknown_letters_is_kept_or_a_bad_record),
        OP_TEST(g2p_refuses),
        OP_TEST(g2p_counts_towards_the_budget),
        OP_TEST(g2p_of_a_large_text_counts_towards_the_budget),
        OP_TEST(g2p_goes_on_from_any_batch),
        OP_TEST(g2p_with_another_lexicon_uses_no_old_cache_and_no_old_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
