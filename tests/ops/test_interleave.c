/* interleave: the order of a model, the same over plain and over compressed files. */
#include "harness.h"

#include "base/mem.h"

enum { FILES_MAX = 8, TOTAL_MAX = 128 };

/* Takes `block` samples from each of `cycle` files in turn; a file that ends makes room for the next one. */
static size_t model(const int64_t *counts, size_t files, int64_t cycle, int64_t block, int64_t *out)
{
    int64_t at[FILES_MAX], end[FILES_MAX], firsts[FILES_MAX + 1] = {0};
    size_t open = 0, next = 0, n = 0;
    for (size_t i = 0; i < files; i++)
        firsts[i + 1] = firsts[i] + counts[i];
    for (; open < (size_t)cycle && next < files; next++) {
        if (counts[next] == 0)
            continue;
        at[open] = firsts[next];
        end[open++] = firsts[next + 1];
    }
    while (open > 0) {
        size_t kept = 0;
        for (size_t lane = 0; lane < open; lane++)
            for (int64_t k = 0; k < block && at[lane] < end[lane]; k++)
                out[n++] = at[lane]++;
        for (size_t lane = 0; lane < open; lane++) {
            while (at[lane] == end[lane] && next < files) {
                at[lane] = firsts[next];
                end[lane] = firsts[++next];
            }
            if (at[lane] < end[lane]) {
                at[kept] = at[lane];
                end[kept++] = end[lane];
            }
        }
        open = kept;
    }
    return n;
}

static void check(const int64_t *counts, size_t files, int64_t cycle, int64_t block)
{
    int64_t wanted[TOTAL_MAX];
    const size_t n = model(counts, files, cycle, block, wanted);
    static const char *const patterns[] = {"p-*", "z-*"};
    for (size_t i = 0; i < STK_COUNT(patterns); i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "tfrecord(\"$D/%s\") | interleave(cycle=%lld, block=%lld) | parse(value=int64) | batch(5)",
                 patterns[i], (long long)cycle, (long long)block);
        assert_values(text, wanted, n);
    }
}

static void check_set(const int64_t *counts, size_t files)
{
    int64_t first = 0;
    for (size_t i = 0; i < files; i++) {
        char name[16];
        snprintf(name, sizeof name, "p-%zu", i);
        write_examples(name, STK__PLAIN, first, counts[i]);
        snprintf(name, sizeof name, "z-%zu", i);
        write_examples(name, i % 2 ? STK__ZLIB : STK__GZIP, first, counts[i]);
        first += counts[i];
    }
    static const int64_t cycles[] = {1, 2, 3, 8}, blocks[] = {1, 2, 3, 100};
    for (size_t c = 0; c < STK_COUNT(cycles); c++)
        for (size_t b = 0; b < STK_COUNT(blocks); b++)
            check(counts, files, cycles[c], blocks[b]);
}

static void interleave_takes_files_in_turn(void **state)
{
    check_set((int64_t[]){4, 4, 4}, 3);
}

static void interleave_of_uneven_and_empty_files(void **state)
{
    check_set((int64_t[]){0, 7, 0, 5, 11, 1, 0}, 7);
}

static void interleave_of_many_short_files(void **state)
{
    check_set((int64_t[]){1, 2, 1, 3, 1, 2, 6, 1}, 8);
}

static void interleave_of_empty_files_alone(void **state)
{
    check_set((int64_t[]){0, 0}, 2);
}

static void interleave_has_defaults(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/a-*\") | interleave | take(6) | parse(value=int64)", 0, 7, 12, 1, 8, 13);
    ASSERT_VALUES("tfrecord(\"$D/b-*\") | interleave | take(6) | parse(value=int64)", 0, 7, 12, 1, 8, 13);
}

/* Right behind the source in meaning, wherever it is written before other order ops. */
static void interleave_may_follow_parse_and_goes_with_other_order_ops(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/a-*\") | parse(value=int64) | interleave(cycle=2) | skip(1) | take(3) | repeat(2)", 7,
                  1, 8, 7, 1, 8);
    ASSERT_VALUES("tfrecord(\"$D/b-*\") | parse(value=int64) | interleave(cycle=2) | skip(1) | take(3) | repeat(2)", 7,
                  1, 8, 7, 1, 8);
    write_lines("l1", false, 0, 2);
    write_lines("l2", false, 5, 2);
    assert_prints("text(\"$D/l?\") | interleave",
                  "{\"text\":\"line 0\"}\n{\"text\":\"line 5\"}\n{\"text\":\"line 1\"}\n{\"text\":\"line 6\"}\n");
}

static void interleave_refuses_bad_options_and_places(void **state)
{
    write_data();
    assert_refused("tfrecord(\"$D/a-*\") | interleave(cycle=0)", NULL, STK_INVALID,
                   "cycle must be in 1..4096, got an integer 0", 1, (int)strlen(in_dir("a-*")) + 33);
    assert_refused("range(9) | shuffle | interleave", NULL, STK_INVALID, "put it before shuffle", 1, 22);
    assert_refused("range(9) | interleave", NULL, STK_INVALID, "range has no files to interleave", 1, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(interleave_takes_files_in_turn),
        OP_TEST(interleave_of_uneven_and_empty_files),
        OP_TEST(interleave_of_many_short_files),
        OP_TEST(interleave_of_empty_files_alone),
        OP_TEST(interleave_has_defaults),
        OP_TEST(interleave_may_follow_parse_and_goes_with_other_order_ops),
        OP_TEST(interleave_refuses_bad_options_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
