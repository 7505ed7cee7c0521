/* Lexicons: lines, comments, variants, overlays, what is wrong with a file, and many words at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/g2p.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "g2p/lexicon.h"

static stk__lexicon *parse(const char *text)
{
    stk__lexicon *x = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk__lexicon_parse(text, strlen(text), "x.dict", &x, &err) != STK_OK)
        fail_msg("line %d: %s", err.line, err.message);
    return x;
}

static void assert_names(const uint8_t *ids, size_t count, const char *names)
{
    char found[256];
    stk__text t;
    stk__text_fixed(&t, found, sizeof found);
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&t, "%s%s", i ? " " : "", stk_g2p_symbol(ids[i]));
    assert_string_equal(found, names);
}

/* Variant n of a word; "": there is none. */
static void assert_variant(const stk__lexicon *x, const char *word, size_t n, const char *names)
{
    const uint8_t *ids = NULL;
    const size_t count = stk__lexicon_variant(x, word, strlen(word), n, &ids);
    assert_names(ids, count, names);
    if (n)
        return;
    assert_int_equal(stk__lexicon_find(x, word, strlen(word), &ids), count);
    assert_names(ids, count, names);
}

static void assert_corrupt(const char *text, size_t size, int line, const char *part)
{
    stk__lexicon *x = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__lexicon_parse(text, size, "x.dict", &x, &err), STK_CORRUPT);
    assert_null(x);
    assert_string_equal(err.file, "x.dict");
    assert_int_equal(err.line, line);
    if (!strstr(err.message, part))
        fail_msg("'%s' does not hold '%s'", err.message, part);
    assert_int_equal(stk__lexicon_parse(text, size, "x.dict", &x, NULL), STK_CORRUPT);
}

static void lexicon_reads_lines_as_cmudict_has_them(void **state)
{
    stk__lexicon *x = parse(";;; a comment\n# another\n\nHELLO  HH AH0 L OW1\r\n\ta\tAH0\n'bout B AW1 T # slang\n"
                            "e-mail IY1 M EY2 L\n%percent P ER0 S EH1 N T");
    assert_int_equal(stk__lexicon_words(x), 5);
    assert_variant(x, "hello", 0, "HH AH0 L OW1");
    assert_variant(x, "hello", 1, "");
    assert_variant(x, "a", 0, "AH0");
    assert_variant(x, "'bout", 0, "B AW1 T");
    assert_variant(x, "e-mail", 0, "IY1 M EY2 L");
    assert_variant(x, "%percent", 0, "P ER0 S EH1 N T");
    assert_variant(x, "HELLO", 0, "");
    assert_variant(x, "hell", 0, "");
    assert_variant(x, "", 0, "");
    stk__lexicon_free(x);
    stk__lexicon_free(NULL);
}

static void lexicon_knows_every_phoneme_and_no_other(void **state)
{
    for (size_t id = STK_G2P_FIRST; id < STK_G2P_SPACE; id++) {
        char line[32];
        snprintf(line, sizeof line, "w %s", stk_g2p_symbol(id));
        stk__lexicon *x = parse(line);
        const uint8_t *ids;
        assert_int_equal(stk__lexicon_find(x, "w", 1, &ids), 1);
        assert_int_equal(ids[0], id);
        stk__lexicon_free(x);
    }
    static const char *const others[] = {"AA",    "AA3",  "aa1", "BB",   "HH0",        "B0",   "X",   ",",   ".",
                                         "<pad>", "</s>", "|",   "AA1B", "AA\x31\x31", "\xe4", "Ab1", "UW3", "!A1"};
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        char line[32];
        snprintf(line, sizeof line, "\nw B %s", others[i]);
        assert_corrupt(line, strlen(line), 2, others[i]);
    }
}

static void lexicon_keeps_variants_in_order(void **state)
{
    stk__lexicon *x =
        parse("the DH AH0\nthe(2) DH AH1\nof AH1 V\nthe(3) DH IY0\nthe B\nlone(2) L OW1 N\nx(2 B\n(2) T\n()) D\n");
    assert_int_equal(stk__lexicon_words(x), 6);
    assert_variant(x, "the", 0, "DH AH0");
    assert_variant(x, "the", 1, "DH AH1");
    assert_variant(x, "the", 2, "DH IY0");
    assert_variant(x, "the", 3, "B");
    assert_variant(x, "the", 4, "");
    assert_variant(x, "of", 0, "AH1 V");
    assert_variant(x, "of", 1, "");
    assert_variant(x, "lone", 0, "L OW1 N");
    assert_variant(x, "x(2", 0, "B");
    assert_variant(x, "(2)", 0, "T");
    assert_variant(x, "())", 0, "D");
    stk__lexicon_free(x);
}

static void lexicon_folds_accents_of_words(void **state)
{
    stk__lexicon *x = parse("\xef\xbb\xbf"
                            "Caf\xc3\xa9 K AH0 F EY1\n\xd0\xbc M\nCAF\xc3\x89-2 K\n");
    assert_variant(x, "cafe", 0, "K AH0 F EY1");
    assert_variant(x, "cafe-2", 0, "K");
    assert_variant(x, "\xd0\xbc", 0, "M"); /* nothing that folds: kept as it is */
    stk__lexicon_free(x);
}

static void lexicon_tells_what_is_wrong_and_where(void **state)
{
    assert_corrupt("a AH0\nhello\n", 12, 2, "'hello' has no phonemes");
    assert_corrupt("a # only a comment", 18, 1, "'a' has no phonemes");
    assert_corrupt("a AH0\n\n#\nb B Q\n", 16, 4, "'Q' is no phoneme");
    assert_corrupt("x B\na\0b B", 9, 2, "control bytes");
    char *text = stk__alloc(200000);
    memset(text, 'x', 200000);
    memcpy(text + 65536, " B\n", 3);
    assert_corrupt(text, 65539, 1, "word of 65536, wanted at most 65535");
    for (size_t i = 2; i < 200000; i += 2)
        memcpy(text + i, "B ", 2);
    text[1] = ' ';
    assert_corrupt(text, 200000, 1, "pronunciation of 99999, wanted at most 65535");
    stk__text many = STK__TEXT_INIT;
    for (int i = 0; i < 65; i++)
        stk__text_puts(&many, "a AH0\n");
    assert_corrupt(many.data, many.length, 65, "more than 64 pronunciations");
    stk__text_clear(&many);
    stk__free(text);
}

static void lexicon_of_nothing_has_no_word(void **state)
{
    stk__lexicon *x = parse("");
    const uint8_t *ids;
    assert_int_equal(stk__lexicon_words(x), 0);
    assert_int_equal(stk__lexicon_find(x, "a", 1, &ids), 0);
    stk__lexicon_free(x);
}

static void make_word(int i, char out[16])
{
    snprintf(out, 16, "w%d", i * 7919);
}

static void lexicon_of_many_words_finds_all_at_once(void **state)
{
    enum { WORDS = 50000 };
    stk__text text = STK__TEXT_INIT;
    char word[16];
    for (int i = 0; i < WORDS; i++) {
        make_word(i, word);
        stk__text_printf(&text, "%s %s %s\n", word, stk_g2p_symbol((size_t)(4 + i % 70)), i % 3 ? "B" : "B T");
    }
    stk__lexicon *x = parse(text.data);
    assert_int_equal(stk__lexicon_words(x), WORDS);
    assert_true(stk__lexicon_bytes(x) < 4 * text.length);
    stk__lexicon_query *queries = stk__calloc(2 * WORDS, sizeof *queries);
    char(*words)[16] = stk__calloc(2 * WORDS, 16);
    for (int i = 0; i < 2 * WORDS; i++) {
        make_word(i, words[i]);
        queries[i] = (stk__lexicon_query){.word = words[i], .size = strlen(words[i]), .count = 99};
    }
    const uint64_t before = stk__alloc_count();
    stk__lexicon_find_many(x, queries, 2 * WORDS - 5); /* no whole number of blocks */
    assert_int_equal(stk__alloc_count(), before);
    for (int i = 0; i < 2 * WORDS - 5; i++) {
        const uint8_t *ids;
        assert_int_equal(queries[i].count, i < WORDS ? (i % 3 ? 2 : 3) : 0);
        assert_int_equal(stk__lexicon_find(x, queries[i].word, queries[i].size, &ids), queries[i].count);
        if (i < WORDS) {
            assert_int_equal(queries[i].ids[0], 4 + i % 70);
            assert_ptr_equal(queries[i].ids, ids);
        }
    }
    assert_int_equal(queries[2 * WORDS - 1].count, 99);
    stk__free(words);
    stk__free(queries);
    stk__lexicon_free(x);
    stk__text_clear(&text);
}

/* ---- files ---- */

static char paths[4][64];

static int write_files(void **state)
{
    static const char *const texts[] = {"a AH0\na(2) EY1\nb B IY1\nc S IY1\n", "# own\nA EY1 EY1\nd D IY1\n",
                                        "d(2) D\n"};
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "lexicon-%ld-%d.dict", (long)getpid(), i);
        if (stk__write_file(paths[i], texts[i], strlen(texts[i]), NULL) != STK_OK)
            return -1;
    }
    snprintf(paths[3], sizeof paths[3], "lexicon-%ld-long.dict", (long)getpid());
    return 0;
}

static int remove_files(void **state)
{
    for (int i = 0; i < 4; i++)
        unlink(paths[i]);
    return 0;
}

static void later_file_hides_words_with_all_their_variants(void **state)
{
    const char *const list[] = {paths[0], paths[1], paths[2]};
    stk__lexicon *x = NULL, *other = NULL;
    assert_int_equal(stk__lexicon_read(list, 3, NULL, &x, NULL), STK_OK);
    assert_int_equal(stk__lexicon_words(x), 4);
    assert_variant(x, "a", 0, "EY1 EY1");
    assert_variant(x, "a", 1, "");
    assert_variant(x, "b", 0, "B IY1");
    assert_variant(x, "c", 0, "S IY1");
    assert_variant(x, "d", 0, "D"); /* a second pronunciation alone is all that the last file has */
    assert_variant(x, "d", 1, "");
    assert_int_equal(stk__lexicon_read(list, 2, NULL, &other, NULL), STK_OK);
    assert_variant(other, "d", 0, "D IY1");
    assert_true(stk__lexicon_fingerprint(x) != stk__lexicon_fingerprint(other));
    stk__lexicon_free(other);
    stk__lexicon_free(x);
}

static void lexicon_that_is_not_there_is_named(void **state)
{
    const char *const list[] = {paths[0], "no/such/file.dict"};
    stk__lexicon *x = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__lexicon_read(list, 2, NULL, &x, &err), STK_IO);
    assert_string_equal(err.file, "no/such/file.dict");
    assert_null(x);
}

static void lexicon_survives_failed_allocations(void **state)
{
    const char *const list[] = {paths[0], paths[1]};
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        stk__lexicon *x = NULL;
        assert_true(n < 1000);
        stk__alloc_fail_at(n, false);
        status = stk__lexicon_read(list, 2, NULL, &x, NULL);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        assert_true((status == STK_OK) == (x != NULL));
        stk__lexicon_free(x);
    }
}

/* Many lines that the pieces, in which files are read, cut anywhere; the last without an end. */
static char *long_text(size_t *out_size)
{
    enum { LINES = 60000 };
    char *text = stk__alloc(LINES * 32);
    size_t size = 0;
    assert_non_null(text);
    for (int i = 0; i < LINES; i++)
        size += (size_t)snprintf(text + size, 32, "word%dx  W ER1 D%s", i, i + 1 < LINES ? "\n" : "");
    *out_size = size;
    return text;
}

static void file_that_is_read_in_pieces_is_the_text(void **state)
{
    const char *const list[] = {paths[3]};
    size_t size;
    char *text = long_text(&size);
    stk__lexicon *read = NULL, *parsed = NULL;
    assert_int_equal(stk__write_file(paths[3], text, size, NULL), STK_OK);
    assert_int_equal(stk__lexicon_read(list, 1, NULL, &read, NULL), STK_OK);
    assert_int_equal(stk__lexicon_parse(text, size, "x", &parsed, NULL), STK_OK);
    assert_int_equal(stk__lexicon_words(read), 60000);
    assert_int_equal(stk__lexicon_fingerprint(read), stk__lexicon_fingerprint(parsed));
    assert_variant(read, "word0x", 0, "W ER1 D");
    assert_variant(read, "word59999x", 0, "W ER1 D");
    stk__lexicon_free(read);
    stk__lexicon_free(parsed);
    stk__free(text);
}

typedef struct account {
    int64_t held, most, limit;
} account;

static stk_status account_charge(void *arg, int64_t bytes, stk_error *err)
{
    account *a = arg;
    if (a->held + bytes > a->limit)
        return stk_error_set(err, STK_BUDGET, "no room");
    a->held += bytes;
    a->most = STK_MAX(a->most, a->held);
    return STK_OK;
}

static void lexicon_asks_before_it_takes_memory(void **state)
{
    const char *const list[] = {paths[3]};
    size_t size;
    char *text = long_text(&size);
    account a = {.limit = INT64_MAX};
    const stk__g2p_memory memory = {account_charge, &a};
    stk__lexicon *x = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__write_file(paths[3], text, size, NULL), STK_OK);
    assert_int_equal(stk__lexicon_read(list, 1, &memory, &x, &err), STK_OK);
    assert_in_range(stk__lexicon_bytes(x) - (size_t)a.held, 0, 256); /* all but the struct itself */
    stk__lexicon_free(x);
    /* Refused anywhere: all is given back, and the file is named. */
    const int64_t most = a.most;
    for (int64_t limit = 0; limit < most; limit += most / 20) {
        x = NULL;
        a = (account){.limit = limit};
        assert_int_equal(stk__lexicon_read(list, 1, &memory, &x, &err), STK_BUDGET);
        assert_null(x);
        assert_int_equal(a.held, 0);
        assert_true(a.most <= limit);
    }
    assert_string_equal(err.file, paths[3]);
    stk__free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lexicon_reads_lines_as_cmudict_has_them),
        cmocka_unit_test(lexicon_knows_every_phoneme_and_no_other),
        cmocka_unit_test(lexicon_keeps_variants_in_order),
        cmocka_unit_test(lexicon_folds_accents_of_words),
        cmocka_unit_test(lexicon_tells_what_is_wrong_and_where),
        cmocka_unit_test(lexicon_of_nothing_has_no_word),
        cmocka_unit_test(lexicon_of_many_words_finds_all_at_once),
        cmocka_unit_test(later_file_hides_words_with_all_their_variants),
        cmocka_unit_test(lexicon_that_is_not_there_is_named),
        cmocka_unit_test(lexicon_survives_failed_allocations),
        cmocka_unit_test(file_that_is_read_in_pieces_is_the_text),
        cmocka_unit_test(lexicon_asks_before_it_takes_memory),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
