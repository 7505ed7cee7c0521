/* The public g2p calls: lexicons before the model, flags, capitals, many texts at once, memory, threads, mistakes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/g2p.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "g2p/g2p_impl.h"
#include "g2p/phonemes.h"

/* What the tests of lexicons rely on; nothing here depends on what the model says, only on that it says something. */
static const char lexicon_text[] = "hello HH AH0 L OW1\nhello(2) HH EH0 L OW1\nworld W ER1 L D\nthe DH AH0\nof AH1 V\n"
                                   "a AH0\nus AH1 S\ncafe K AH0 F EY1\n3-d TH R IY1 D IY1\n% P ER0 S EH1 N T\n"
                                   "Ol\xc3\xa9-1 OW0 L EY1\n";

static char lexicon_path[64], own_path[64], bad_path[64];
static stk_g2p *plain, *with_lexicon;

static int open_both(void **state)
{
    static const char own[] = "world W ER1 L D Z\n", bad[] = "fine F AY1 N\nbroken B QQ\n";
    const char *const list[] = {lexicon_path};
    snprintf(lexicon_path, sizeof lexicon_path, "g2p-%ld.dict", (long)getpid());
    snprintf(own_path, sizeof own_path, "g2p-%ld-own.dict", (long)getpid());
    snprintf(bad_path, sizeof bad_path, "g2p-%ld-bad.dict", (long)getpid());
    const stk_g2p_config config = {.struct_size = sizeof config, .lexicons = list, .lexicon_count = 1};
    return stk__write_file(lexicon_path, lexicon_text, strlen(lexicon_text), NULL) != STK_OK ||
           stk__write_file(own_path, own, strlen(own), NULL) != STK_OK ||
           stk__write_file(bad_path, bad, strlen(bad), NULL) != STK_OK || stk_g2p_open(NULL, &plain, NULL) != STK_OK ||
           stk_g2p_open(&config, &with_lexicon, NULL) != STK_OK;
}

static int close_both(void **state)
{
    stk_g2p_close(plain);
    stk_g2p_close(with_lexicon);
    stk_g2p_close(NULL);
    unlink(lexicon_path);
    unlink(own_path);
    unlink(bad_path);
    return 0;
}

static void names_of(const stk_g2p_token *token, char *out, size_t size)
{
    stk__text t;
    stk__text_fixed(&t, out, size);
    for (size_t i = 0; i < token->id_count; i++)
        stk__text_printf(&t, "%s%s", i ? " " : "", stk_g2p_symbol(token->ids[i]));
}

static void assert_token(const stk_g2p_token *token, const char *text, const char *names, uint32_t flags)
{
    char found[512];
    names_of(token, found, sizeof found);
    assert_int_equal(token->text_size, strlen(text));
    assert_memory_equal(token->text, text, token->text_size);
    assert_string_equal(found, names);
    assert_int_equal(token->flags, flags);
}

/* What the model says cannot be known here, but it must be phonemes. */
static void assert_predicted(const stk_g2p_token *token, const char *text, uint32_t flags)
{
    assert_int_equal(token->text_size, strlen(text));
    assert_memory_equal(token->text, text, token->text_size);
    assert_int_equal(token->flags & ~(uint32_t)STK_G2P_CUT, flags | STK_G2P_PREDICTED);
    for (size_t i = 0; i < token->id_count; i++)
        assert_in_range(token->ids[i], STK_G2P_FIRST, STK_G2P_SPACE - 1);
}

static stk_bytes bytes_of(const char *text)
{
    return (stk_bytes){(const uint8_t *)text, (int64_t)strlen(text)};
}

static void run_text(const stk_g2p *g, const char *text, stk_g2p_results *results)
{
    stk_error err;
    stk_error_clear(&err);
    if (stk_g2p_text(g, text, strlen(text), results, &err) != STK_OK)
        fail_msg("'%s': %s", text, err.message);
}

/* ---- symbols ---- */

static void symbols_are_numbered_as_the_header_says(void **state)
{
    assert_string_equal(stk_g2p_symbol(STK_G2P_FIRST), "AA0");
    assert_string_equal(stk_g2p_symbol(STK_G2P_SPACE - 1), "ZH");
    assert_string_equal(stk_g2p_symbol(STK_G2P_SPACE), " ");
    const size_t count = stk_g2p_symbol_count();
    assert_true(count > STK_G2P_SPACE + 1 && count <= 96); /* as many as single ids can be pointed at */
    assert_null(stk_g2p_symbol(count));
    for (size_t i = 0; i < count; i++)
        assert_true(strlen(stk_g2p_symbol(i)) >= 1 && strlen(stk_g2p_symbol(i)) <= 5);
}

/* ---- opening ---- */

static void assert_no_open(const stk_g2p_config *config, stk_status status, const char *file, const char *part)
{
    stk_g2p *g = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk_g2p_open(config, &g, &err), status);
    assert_null(g);
    assert_string_equal(err.file, file);
    if (!strstr(err.message, part))
        fail_msg("'%s' does not hold '%s'", err.message, part);
    assert_int_equal(stk_g2p_open(config, &g, NULL), status);
}

static void open_tells_what_is_wrong(void **state)
{
    const char *const missing[] = {"no/such.dict"}, *const bad[] = {lexicon_path, bad_path};
    stk_g2p_config c = {.struct_size = 1};
    assert_no_open(&c, STK_INVALID, "", "struct_size of the g2p config is 1");
    c = (stk_g2p_config){.struct_size = sizeof c, .precision = (stk_g2p_precision)7};
    assert_no_open(&c, STK_INVALID, "", "precision is 7");
    c = (stk_g2p_config){.struct_size = sizeof c, .lexicon_count = 2};
    assert_no_open(&c, STK_INVALID, "", "lexicons is NULL, lexicon_count is 2");
    c = (stk_g2p_config){.struct_size = sizeof c, .lexicons = missing, .lexicon_count = 1};
    assert_no_open(&c, STK_IO, "no/such.dict", "cannot open");
    c = (stk_g2p_config){.struct_size = sizeof c, .lexicons = bad, .lexicon_count = 2};
    assert_no_open(&c, STK_CORRUPT, bad_path, "'QQ' is no phoneme");
    c = (stk_g2p_config){.struct_size = sizeof c, .model = "no/such.npz"};
    assert_no_open(&c, STK_IO, "no/such.npz", "cannot open");
    c = (stk_g2p_config){.struct_size = sizeof c, .model = lexicon_path};
    assert_no_open(&c, STK_CORRUPT, lexicon_path, "");
    /* A caller that was built before the lexicons: they are not looked at. */
    stk_g2p *g = NULL;
    c = (stk_g2p_config){.struct_size = offsetof(stk_g2p_config, lexicons), .lexicon_count = 9};
    assert_int_equal(stk_g2p_open(&c, &g, NULL), STK_OK);
    stk_g2p_close(g);
}

static void fingerprint_changes_with_precision_and_lexicons(void **state)
{
    const char *const list[] = {lexicon_path, own_path};
    const stk_g2p_config configs[] = {
        {.struct_size = sizeof *configs},
        {.struct_size = sizeof *configs, .precision = STK_G2P_FP32},
        {.struct_size = sizeof *configs, .lexicons = list, .lexicon_count = 1},
        {.struct_size = sizeof *configs, .lexicons = list, .lexicon_count = 2},
        {.struct_size = sizeof *configs, .lexicons = list + 1, .lexicon_count = 1},
    };
    uint64_t seen[STK_COUNT(configs)];
    for (size_t i = 0; i < STK_COUNT(configs); i++) {
        stk_g2p *g = NULL;
        assert_int_equal(stk_g2p_open(&configs[i], &g, NULL), STK_OK);
        seen[i] = stk_g2p_fingerprint(g);
        assert_true(stk_g2p_bytes(g) >= (i >= 2 ? strlen("world") : 1));
        for (size_t k = 0; k < i; k++)
            assert_true(seen[k] != seen[i]);
        stk_g2p_close(g);
    }
    assert_true(stk_g2p_fingerprint(plain) == seen[0] && stk_g2p_fingerprint(with_lexicon) == seen[2]);
    assert_true(stk_g2p_bytes(with_lexicon) > stk_g2p_bytes(plain));
}

/* ---- one word ---- */

static void predict_writes_names_with_blanks_between_them(void **state)
{
    char out[256];
    assert_int_equal(stk_g2p_predict(with_lexicon, "Hello", out, sizeof out, NULL), STK_OK);
    assert_string_equal(out, "HH AH0 L OW1");
    assert_int_equal(stk_g2p_predict(with_lexicon, "caf\xc3\xa9", out, sizeof out, NULL), STK_OK);
    assert_string_equal(out, "K AH0 F EY1");
    assert_int_equal(stk_g2p_predict(plain, "hello", out, sizeof out, NULL), STK_OK);
    for (char *save = NULL, *name = strtok_r(out, " ", &save); name; name = strtok_r(NULL, " ", &save))
        assert_in_range(stk__phoneme_find(name, strlen(name)), STK_G2P_FIRST, STK_G2P_SPACE - 1);
}

static void predict_needs_room_and_a_letter(void **state)
{
    char out[16];
    stk_error err;
    stk_error_clear(&err);
    memset(out, 'x', sizeof out);
    assert_int_equal(stk_g2p_predict(with_lexicon, "hello", out, 12, &err), STK_INVALID);
    assert_string_equal(err.message, "the pronunciation takes 13 bytes, there are 12");
    assert_int_equal(out[0], 'x');
    assert_int_equal(stk_g2p_predict(with_lexicon, "hello", out, 13, NULL), STK_OK);
    assert_string_equal(out, "HH AH0 L OW1");
    static const char *const words[] = {"", "42", "--", "\xd0\x9c\xd0\xbe", "'", "'''''"};
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        err.status = STK_OK;
        assert_int_equal(stk_g2p_predict(plain, words[i], out, sizeof out, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "has no letter"));
    }
}

/* Our model has nothing to say about "h", so its name is said. */
static void every_letter_alone_is_said(void **state)
{
    char out[64];
    for (char letter = 'a'; letter <= 'z'; letter++)
        assert_int_equal(stk_g2p_predict(plain, (char[]){letter, 0}, out, sizeof out, NULL), STK_OK);
    const stk_bytes h = bytes_of("h");
    stk_g2p_results results = {0};
    assert_int_equal(stk_g2p_predict_many(plain, &h, 1, &results, NULL), STK_OK);
    assert_true(results.tokens[0].flags == STK_G2P_SPELLED || results.tokens[0].flags == STK_G2P_PREDICTED);
    assert_in_range(results.tokens[0].ids[0], STK_G2P_FIRST, STK_G2P_SPACE - 1);
    stk_g2p_results_clear(&results);
}

/* ---- many words ---- */

static void predict_many_gives_a_token_for_each_word(void **state)
{
    const stk_bytes words[] = {bytes_of("Hello"), bytes_of("zzyx"), bytes_of("42"), bytes_of("WORLD"), bytes_of(""),
                               bytes_of("Zzyx"),  bytes_of("3-D"),  bytes_of("%"),  bytes_of("BBC")};
    stk_g2p_results results = {0};
    assert_int_equal(stk_g2p_predict_many(with_lexicon, words, STK_COUNT(words), &results, NULL), STK_OK);
    assert_int_equal(results.count, STK_COUNT(words));
    assert_token(&results.tokens[0], "hello", "HH AH0 L OW1", STK_G2P_FROM_LEXICON);
    assert_predicted(&results.tokens[1], "zzyx", STK_G2P_OOV);
    assert_int_equal(results.tokens[2].id_count, 1);
    assert_int_equal(results.tokens[2].ids[0], STK_G2P_UNKNOWN);
    assert_int_equal(results.tokens[2].flags, STK_G2P_OOV | STK_G2P_GUESSED);
    assert_token(&results.tokens[3], "world", "W ER1 L D", STK_G2P_FROM_LEXICON);
    assert_int_equal(results.tokens[4].ids[0], STK_G2P_UNKNOWN);
    assert_int_equal(results.tokens[5].id_count, results.tokens[1].id_count);
    assert_ptr_equal(results.tokens[5].ids, results.tokens[1].ids); /* equal words are predicted once */
    /* Words with more than letters, as the lexicon has them. */
    assert_token(&results.tokens[6], "3-d", "TH R IY1 D IY1", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[7], "%", "P ER0 S EH1 N T", STK_G2P_FROM_LEXICON);
    assert_predicted(&results.tokens[8], "bbc", STK_G2P_OOV); /* taken as it is: not spelled */
    assert_int_equal(stk_g2p_predict_many(plain, words + 6, 1, &results, NULL), STK_OK);
    assert_predicted(&results.tokens[0], "d", STK_G2P_GUESSED); /* without one, what can be read is */
    assert_int_equal(stk_g2p_predict_many(plain, words, 0, &results, NULL), STK_OK);
    assert_int_equal(results.count, 0);
    stk_g2p_results_clear(&results);
    stk_g2p_results_clear(&results);
}

/* What is left of a word may be another one, which is not asked for. */
static void words_that_lost_letters_or_blanks_are_not_those_of_the_lexicon(void **state)
{
    const stk_bytes words[] = {bytes_of("hel lo"),
                               bytes_of("\xd0\xbc"
                                        "hello"),
                               bytes_of("OL\xc3\x89-1"), bytes_of(" hello ")};
    stk_g2p_results results = {0};
    assert_int_equal(stk_g2p_predict_many(with_lexicon, words, STK_COUNT(words), &results, NULL), STK_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(results.tokens[i].flags & ~(uint32_t)(STK_G2P_COMMON | STK_G2P_PREDICTED),
                         STK_G2P_OOV | STK_G2P_GUESSED);
    assert_token(&results.tokens[2], "ole-1", "OW0 L EY1", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[3], "hello", "HH AH0 L OW1", STK_G2P_FROM_LEXICON);
    run_text(with_lexicon, "Ol\xc3\xa9-1", &results);
    assert_token(&results.tokens[0], "ole-1", "OW0 L EY1", STK_G2P_FROM_LEXICON);
    stk_g2p_results_clear(&results);
}

/* ---- text ---- */

static void text_keeps_marks_and_tells_where_words_come_from(void **state)
{
    stk_g2p_results results = {0};
    const char *text = "Hello, zzyx world!";
    run_text(with_lexicon, text, &results);
    assert_int_equal(results.count, 5);
    assert_token(&results.tokens[0], "hello", "HH AH0 L OW1", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[1], ",", ",", STK_G2P_PUNCTUATION);
    assert_predicted(&results.tokens[2], "zzyx", STK_G2P_OOV);
    assert_token(&results.tokens[3], "world", "W ER1 L D", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[4], "!", "!", STK_G2P_PUNCTUATION);
    for (size_t i = 0; i < results.count; i++) {
        const stk_g2p_token *token = &results.tokens[i];
        assert_true(token->source_at + token->source_size <= strlen(text));
        assert_int_equal(strncasecmp(text + token->source_at, token->text, token->text_size), 0);
    }
    run_text(plain, "word", &results); /* without a lexicon nothing is out of it */
    assert_int_equal(results.count, 1);
    assert_predicted(&results.tokens[0], "word", 0);
    run_text(plain, "", &results);
    assert_int_equal(results.count, 0);
    stk_g2p_results_clear(&results);
}

static void common_words_come_before_the_model_and_behind_lexicons(void **state)
{
    stk_g2p_results results = {0};
    run_text(plain, "One said ONE", &results);
    assert_int_equal(results.count, 3);
    assert_token(&results.tokens[0], "one", "W AH1 N", STK_G2P_COMMON);
    assert_token(&results.tokens[1], "said", "S EH1 D", STK_G2P_COMMON);
    assert_token(&results.tokens[2], "one", "W AH1 N", STK_G2P_COMMON);
    run_text(with_lexicon, "hello one", &results);
    assert_token(&results.tokens[0], "hello", "HH AH0 L OW1", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[1], "one", "W AH1 N", STK_G2P_COMMON | STK_G2P_OOV);
    const stk_g2p_config config = {.struct_size = sizeof config, .no_common = 1};
    stk_error err;
    stk_g2p *alone;
    assert_int_equal(stk_g2p_open(&config, &alone, &err), STK_OK);
    run_text(alone, "one", &results);
    assert_predicted(&results.tokens[0], "one", 0);
    assert_int_not_equal(stk_g2p_fingerprint(alone), stk_g2p_fingerprint(plain));
    stk_g2p_close(alone);
    stk_g2p_results_clear(&results);
}

static void text_with_unknown_letters_is_flagged_and_kept(void **state)
{
    stk_g2p_results results = {0};
    run_text(with_lexicon, "the \xd0\x9c\xd0\xbe\xd1\x81 of", &results);
    assert_int_equal(results.count, 3);
    assert_int_equal(results.tokens[1].id_count, 1);
    assert_int_equal(results.tokens[1].ids[0], STK_G2P_UNKNOWN);
    assert_int_equal(results.tokens[1].flags, STK_G2P_OOV | STK_G2P_GUESSED);
    assert_int_equal(results.tokens[1].source_at, 4);
    assert_int_equal(results.tokens[1].source_size, 6);
    stk_g2p_results_clear(&results);
}

static void later_lexicon_hides_words_of_an_earlier_one(void **state)
{
    const char *const list[] = {lexicon_path, own_path};
    const stk_g2p_config config = {.struct_size = sizeof config, .lexicons = list, .lexicon_count = 2};
    stk_g2p *g = NULL;
    stk_g2p_results results = {0};
    assert_int_equal(stk_g2p_open(&config, &g, NULL), STK_OK);
    run_text(g, "hello world", &results);
    assert_token(&results.tokens[0], "hello", "HH AH0 L OW1", STK_G2P_FROM_LEXICON);
    assert_token(&results.tokens[1], "world", "W ER1 L D Z", STK_G2P_FROM_LEXICON);
    stk_g2p_results_clear(&results);
    stk_g2p_close(g);
}

static void variants_are_those_of_the_lexicon(void **state)
{
    const uint8_t *ids;
    assert_int_equal(stk_g2p_variant(with_lexicon, "hello", 5, 0, &ids), 4);
    assert_int_equal(stk_g2p_variant(with_lexicon, "hello", 5, 1, &ids), 4);
    assert_string_equal(stk_g2p_symbol(ids[1]), "EH0");
    assert_int_equal(stk_g2p_variant(with_lexicon, "hello", 5, 2, &ids), 0);
    assert_int_equal(stk_g2p_variant(with_lexicon, "zzyx", 4, 0, &ids), 0);
    assert_int_equal(stk_g2p_variant(plain, "hello", 5, 0, &ids), 0);
}

/* ---- capitals ---- */

static bool is_spelled(const stk_g2p *g, const char *text, size_t at)
{
    stk_g2p_results results = {0};
    run_text(g, text, &results);
    assert_true(at < results.count);
    const bool spelled = results.tokens[at].flags & STK_G2P_SPELLED;
    stk_g2p_results_clear(&results);
    return spelled;
}

static void capitals_are_spelled_when_they_cannot_be_read(void **state)
{
    static const char *const spelled[] = {"BBC", "HTML", "AI", "TV", "USA", "IBM", "FBI", "CIA", "US", "IEEE"};
    static const char *const read[] = {"NASA", "THE", "AND", "NOT", "IT", "UNESCO", "DAY", "YOU", "GYM", "CAT"};
    for (size_t i = 0; i < STK_COUNT(spelled); i++)
        if (!is_spelled(plain, spelled[i], 0))
            fail_msg("%s is not spelled", spelled[i]);
    for (size_t i = 0; i < STK_COUNT(read); i++)
        if (is_spelled(plain, read[i], 0))
            fail_msg("%s is spelled", read[i]);
    assert_false(is_spelled(plain, "bbc", 0));
    assert_false(is_spelled(with_lexicon, "US", 0)); /* the lexicon has it */
}

static void capitals_of_a_text_in_capitals_are_mostly_read(void **state)
{
    assert_true(is_spelled(plain, "give us the USA", 3));
    assert_false(is_spelled(plain, "GIVE US THE BREAD", 1));
    assert_true(is_spelled(plain, "GIVE US THE BBC", 3));
    assert_true(is_spelled(plain, "GIVE US", 1)); /* too short to tell */
}

static void spelled_words_are_names_of_letters(void **state)
{
    uint8_t out[64];
    char found[128];
    stk_g2p_token token = {.ids = out};
    token.id_count = stk__g2p_spell("bbc", 3, out);
    names_of(&token, found, sizeof found);
    assert_string_equal(found, "B IY1 B IY1 S IY1");
    static const struct {
        const char *word, *end;
    } owned[] = {{"bbc's", "S IY1 Z"}, {"pdf's", "EH1 F S"}, {"gps's", "EH1 S IH0 Z"}, {"mh's", "EY1 CH IH0 Z"}};
    for (size_t i = 0; i < STK_COUNT(owned); i++) {
        const size_t size = strlen(owned[i].word);
        token.id_count = stk__g2p_spell(owned[i].word, size, out);
        assert_true(token.id_count <= stk__g2p_spell_max(size));
        names_of(&token, found, sizeof found);
        assert_true(strlen(found) >= strlen(owned[i].end));
        assert_string_equal(found + strlen(found) - strlen(owned[i].end), owned[i].end);
    }
    stk_g2p_results results = {0};
    run_text(with_lexicon, "XML", &results);
    assert_token(&results.tokens[0], "xml", "EH1 K S EH1 M EH1 L", STK_G2P_OOV | STK_G2P_SPELLED);
    stk_g2p_results_clear(&results);
}

/* ---- many texts, long words ---- */

static void texts_together_give_what_each_gives_alone(void **state)
{
    static const char *const lines[] = {
        "Hello world.", "", "zzyx, QQRR and zzyx!", "   ", "The cost of \xff is $5.", "plugh the zzyx of xyzzy"};
    enum { N = STK_COUNT(lines) };
    stk_bytes texts[N];
    size_t firsts[N + 1];
    for (size_t i = 0; i < N; i++)
        texts[i] = bytes_of(lines[i]);
    stk_g2p_results all = {0}, one = {0};
    assert_int_equal(stk_g2p_texts(with_lexicon, texts, N, &all, firsts, NULL), STK_OK);
    assert_int_equal(firsts[0], 0);
    assert_int_equal(firsts[N], all.count);
    for (size_t i = 0; i < N; i++) {
        run_text(with_lexicon, lines[i], &one);
        assert_int_equal(one.count, firsts[i + 1] - firsts[i]);
        for (size_t k = 0; k < one.count; k++) {
            const stk_g2p_token *a = &all.tokens[firsts[i] + k], *b = &one.tokens[k];
            assert_int_equal(a->flags, b->flags);
            assert_int_equal(a->source_at, b->source_at);
            assert_int_equal(a->source_size, b->source_size);
            assert_int_equal(a->text_size, b->text_size);
            assert_memory_equal(a->text, b->text, a->text_size);
            assert_int_equal(a->id_count, b->id_count);
            if (a->id_count)
                assert_memory_equal(a->ids, b->ids, a->id_count);
        }
    }
    const stk_bytes negative = {(const uint8_t *)"x", -1};
    assert_int_equal(stk_g2p_texts(with_lexicon, &negative, 1, &all, firsts, NULL), STK_INVALID);
    assert_int_equal(all.count, 0);
    stk_g2p_results_clear(&all);
    stk_g2p_results_clear(&one);
}

static void word_without_end_is_cut_and_flagged(void **state)
{
    enum { SIZE = 150000 };
    char *text = stk__alloc(SIZE + 1);
    memset(text, 'n', SIZE);
    for (size_t i = 0; i < SIZE; i += 2)
        text[i] = 'a';
    text[SIZE] = 0;
    stk_g2p_results results = {0};
    run_text(plain, text, &results);
    assert_int_equal(results.count, 1);
    assert_int_equal(results.tokens[0].text_size, SIZE);
    assert_true(results.tokens[0].flags & STK_G2P_CUT);
    memset(text, 'B', SIZE); /* spelled, which has no end either */
    run_text(plain, text, &results);
    assert_int_equal(results.count, 1);
    assert_int_equal(results.tokens[0].flags, STK_G2P_SPELLED);
    assert_int_equal(results.tokens[0].id_count, 2 * SIZE);
    stk_g2p_results_clear(&results);
    stk__free(text);
}

/* ---- memory and threads ---- */

static void warm_calls_allocate_nothing(void **state)
{
    static const char *const lines[] = {"Hello world, zzyx QQRR!", "xyzzy plugh of the world 42", "BBC"};
    stk_bytes texts[3];
    size_t firsts[4];
    char out[256];
    stk_g2p_results results = {0};
    for (size_t i = 0; i < 3; i++)
        texts[i] = bytes_of(lines[i]);
    uint64_t before = 0;
    for (int round = 0; round < 5; round++) {
        if (round == 2)
            before = stk__alloc_count();
        assert_int_equal(stk_g2p_texts(with_lexicon, texts, 3, &results, firsts, NULL), STK_OK);
        assert_int_equal(stk_g2p_predict_many(with_lexicon, texts, 3, &results, NULL), STK_OK);
        assert_int_equal(stk_g2p_predict(with_lexicon, "zzyx", out, sizeof out, NULL), STK_OK);
    }
    assert_int_equal(stk__alloc_count(), before);
    stk_g2p_results_clear(&results);
}

static void failed_allocations_leave_results_usable(void **state)
{
    const char *const list[] = {lexicon_path};
    const stk_g2p_config config = {.struct_size = sizeof config, .lexicons = list, .lexicon_count = 1};
    const stk_bytes text = bytes_of("Hello QQRR zzyx!");
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        stk_g2p *g = NULL;
        stk_g2p_results results = {0};
        size_t firsts[2];
        char out[256];
        assert_true(n < 10000);
        stk__alloc_fail_at(n, false);
        status = stk_g2p_open(&config, &g, NULL);
        if (status == STK_OK)
            status = stk_g2p_texts(g, &text, 1, &results, firsts, NULL);
        if (status == STK_OK)
            status = stk_g2p_predict(g, "zzyx", out, sizeof out, NULL);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        if (g) { /* the same again, without a failure */
            assert_int_equal(stk_g2p_texts(g, &text, 1, &results, firsts, NULL), STK_OK);
            assert_int_equal(results.count, 4);
        }
        stk_g2p_results_clear(&results);
        stk_g2p_close(g);
    }
}

typedef struct hammer {
    int number;
    bool good;
    char wanted[8][256];
} hammer;

static const char *const hammer_words[8] = {"hello", "zzyx", "xyzzy", "world", "plugh", "frobnicate", "of", "quux"};

static void *swing(void *arg)
{
    hammer *h = arg;
    stk_g2p_results results = {0};
    h->good = true;
    for (int round = 0; round < 200; round++) {
        char out[256];
        const int i = (round + h->number) % 8;
        h->good = h->good && stk_g2p_predict(with_lexicon, hammer_words[i], out, sizeof out, NULL) == STK_OK &&
                  strcmp(out, h->wanted[i]) == 0;
        stk_bytes words[8];
        for (int k = 0; k < 8; k++)
            words[k] = bytes_of(hammer_words[(i + k) % 8]);
        h->good = h->good && stk_g2p_predict_many(with_lexicon, words, 8, &results, NULL) == STK_OK;
        for (int k = 0; k < 8 && h->good; k++) {
            names_of(&results.tokens[k], out, sizeof out);
            h->good = strcmp(out, h->wanted[(i + k) % 8]) == 0;
        }
    }
    stk_g2p_results_clear(&results);
    return NULL;
}

static void threads_share_one_model(void **state)
{
    static hammer hammers[4];
    pthread_t threads[4];
    for (int i = 0; i < 8; i++)
        assert_int_equal(stk_g2p_predict(with_lexicon, hammer_words[i], hammers[0].wanted[i], 256, NULL), STK_OK);
    for (int t = 0; t < 4; t++) {
        memcpy(hammers[t].wanted, hammers[0].wanted, sizeof hammers[0].wanted);
        hammers[t].number = t;
        assert_int_equal(pthread_create(&threads[t], NULL, swing, &hammers[t]), 0);
    }
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    for (int t = 0; t < 4; t++)
        assert_true(hammers[t].good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_numbered_as_the_header_says),
        cmocka_unit_test(open_tells_what_is_wrong),
        cmocka_unit_test(fingerprint_changes_with_precision_and_lexicons),
        cmocka_unit_test(predict_writes_names_with_blanks_between_them),
        cmocka_unit_test(predict_needs_room_and_a_letter),
        cmocka_unit_test(every_letter_alone_is_said),
        cmocka_unit_test(predict_many_gives_a_token_for_each_word),
        cmocka_unit_test(words_that_lost_letters_or_blanks_are_not_those_of_the_lexicon),
        cmocka_unit_test(text_keeps_marks_and_tells_where_words_come_from),
        cmocka_unit_test(common_words_come_before_the_model_and_behind_lexicons),
        cmocka_unit_test(text_with_unknown_letters_is_flagged_and_kept),
        cmocka_unit_test(later_lexicon_hides_words_of_an_earlier_one),
        cmocka_unit_test(variants_are_those_of_the_lexicon),
        cmocka_unit_test(capitals_are_spelled_when_they_cannot_be_read),
        cmocka_unit_test(capitals_of_a_text_in_capitals_are_mostly_read),
        cmocka_unit_test(spelled_words_are_names_of_letters),
        cmocka_unit_test(texts_together_give_what_each_gives_alone),
        cmocka_unit_test(word_without_end_is_cut_and_flagged),
        cmocka_unit_test(warm_calls_allocate_nothing),
        cmocka_unit_test(failed_allocations_leave_results_usable),
        cmocka_unit_test(threads_share_one_model),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
