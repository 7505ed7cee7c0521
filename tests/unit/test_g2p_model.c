/* Models of g2p: what weights set by hand say, batches against single words, levels of vectors, and files that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../g2p_models.h"
#include <stoker/g2p.h>

#include "base/mem.h"
#include "g2p/model.h"
#include "g2p/phonemes.h"
#include "kernels/simd.h"

static const stk__precision precisions[] = {STK__PRECISION_INT8, STK__PRECISION_FP32};

static stk__g2p_model *load(const model_arrays *arrays, stk__precision precision)
{
    npz_maker file = model_file(arrays, NULL);
    stk__g2p_model *m = NULL;
    stk_error err = {0};
    if (stk__g2p_model_new(file.file.data, file.file.length, "test", precision, &m, &err) != STK_OK)
        fail_msg("%s: %s", err.field, err.message);
    npz_clear(&file);
    return m;
}

/* Loads and frees the arrays. */
static stk__g2p_model *load_once(model_arrays arrays, stk__precision precision)
{
    stk__g2p_model *m = load(&arrays, precision);
    model_clear(&arrays);
    return m;
}

static void write_answer(const stk__g2p_answer *a, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < a->count; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? " " : "", stk_g2p_symbol(a->ids[i]));
}

static stk__g2p_answer assert_says(const stk__g2p_model *m, const char *word, const char *wanted)
{
    stk__g2p_work work = {0};
    stk__g2p_answer answers[5];
    const stk_bytes one = {(const uint8_t *)word, (int64_t)strlen(word)}, same[] = {one, one, one, one, one};
    char text[1024];
    for (size_t count = 1; count <= 5; count += 2) { /* alone, one by one and as a batch */
        assert_int_equal(stk__g2p_model_predict(m, &work, same, count, answers, NULL), STK_OK);
        for (size_t i = 0; i < count; i++) {
            write_answer(&answers[i], text, sizeof text);
            assert_string_equal(text, wanted);
            assert_int_equal(answers[i].cut, answers[0].cut);
            assert_int_equal(answers[i].unknown, answers[0].unknown);
        }
    }
    stk__g2p_work_clear(&work);
    return answers[0];
}

/* ---- weights by hand: g2p_en's kind ---- */

static void seq2seq_stops_at_its_end_mark_or_is_cut(void **state)
{
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = seq2seq_arrays(0, 4, 4);
        model_floats(&a, "fc_b")[3] = 1;
        stk__g2p_model *m = load(&a, precisions[i]);
        assert_false(assert_says(m, "abc", "").cut);
        stk__g2p_model_free(m);
        model_floats(&a, "fc_b")[5] = 2;
        m = load(&a, precisions[i]);
        const char *twenty = "AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1 AA1";
        assert_true(assert_says(m, "abc", twenty).cut);
        stk__g2p_model_free(m);
        model_floats(&a, "fc_b")[1] = 3; /* no phoneme: nothing is said, but the steps go by */
        m = load(&a, precisions[i]);
        assert_true(assert_says(m, "abc", "").cut);
        stk__g2p_model_free(m);
        model_clear(&a);
    }
}

/*
 * Unit 0 of the encoder takes a or b and keeps it; the decoder keeps that and says B or F by it. What it said raises its
 * unit 1, which brings the end.
 */
static void seq2seq_hands_its_state_on_and_hears_itself(void **state)
{
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = seq2seq_arrays(0, 2, 2);
        float *letters = model_floats(&a, "enc_emb"), *phonemes = model_floats(&a, "dec_emb");
        letters[2 * 3] = 3, letters[2 * 3 + 1] = 1;  /* a: up, */
        letters[2 * 4] = -3, letters[2 * 4 + 1] = 1; /* b: down, and both are taken */
        float *encoder = model_floats(&a, "enc_w_ih"), *decoder = model_floats(&a, "dec_w_ih");
        encoder[2 * 4] = 1;                   /* unit 0 of n */
        encoder[2 * 2 + 1] = -40;             /* unit 0 of z: what comes is taken, */
        model_floats(&a, "enc_b_hh")[2] = 20; /* else the state stays */
        model_floats(&a, "dec_b_ih")[2] = 20;
        phonemes[2 * 22] = phonemes[2 * 35] = 3;
        decoder[2 * 5] = 1;                    /* unit 1 of n hears B and F */
        model_floats(&a, "dec_b_ih")[3] = -20; /* at once */
        float *w = model_floats(&a, "fc_w");
        w[2 * 22] = 2;
        w[2 * 35] = -2;
        w[2 * 3 + 1] = 9;
        stk__g2p_model *m = load(&a, precisions[i]);
        assert_says(m, "a", "B");
        assert_says(m, "b", "F");
        assert_says(m, "ccab", "F");
        assert_says(m, "bacc", "B");
        stk__g2p_model_free(m);
        model_clear(&a);
    }
}

static void seq2seq_knows_the_letters_a_to_z(void **state)
{
    stk__g2p_model *m = load_once(seq2seq_arrays(0.5f, 8, 3), STK__PRECISION_INT8);
    stk__g2p_work work = {0};
    stk__g2p_answer answer;
    for (int c = 0; c < 256; c++) {
        const uint8_t word[] = {'a', (uint8_t)c, 'b'};
        assert_int_equal(stk__g2p_model_predict(m, &work, &(stk_bytes){word, 3}, 1, &answer, NULL), STK_OK);
        assert_int_equal(answer.unknown, !(c >= 'a' && c <= 'z'));
    }
    stk__g2p_work_clear(&work);
    stk__g2p_model_free(m);
}

/* ---- weights by hand: our own kind ---- */

/* One unit for each class; units forget (z = 0), so that the state is the input's n, and the largest says its class. */
static model_arrays plain_arrays(aligned_shape shape)
{
    model_arrays a = aligned_arrays(0, shape);
    float *w = model_floats(&a, "out_w"), *dec = model_floats(&a, "dec_in");
    model_floats(&a, "out_b")[0] = 0.2f; /* and nothing is said when all are small */
    for (int i = 0; i < 6; i++) {
        w[i * shape.decoder + i] = 1;
        for (int id = 0; id < 6; id++) /* z of every unit, in the middle of the window */
            dec[((shape.window / 2) * 6 + id) * 3 * shape.decoder + shape.decoder + i] = -20;
    }
    return a;
}

/* The input of n of unit `unit` for a letter's id at a place of the window. */
static float *n_of(model_arrays *a, const char *name, int units, int place, int id, int unit)
{
    return model_floats(a, name) + (place * 6 + id) * 3 * units + 2 * units + unit;
}

static void aligned_sees_the_letters_around(void **state)
{
    const aligned_shape shape = {.window = 3, .backward = 1, .decoder = 6};
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = plain_arrays(shape);
        *n_of(&a, "dec_in", 6, 2, 2, 2) = 1;    /* a follows: B */
        *n_of(&a, "dec_in", 6, 0, 3, 3) = 0.5f; /* b before: K S */
        *n_of(&a, "dec_in", 6, 2, 0, 4) = 2;    /* the word ends: W AH1 N */
        *n_of(&a, "dec_in", 6, 0, 0, 5) = 3;    /* the word starts: ZH */
        *n_of(&a, "dec_in", 6, 1, 1, 1) = 4;    /* unknown here: AA1 */
        stk__g2p_model *m = load_once(a, precisions[i]);
        assert_says(m, "c", "ZH");
        assert_says(m, "cc", "ZH W AH1 N");
        assert_says(m, "ccac", "ZH B W AH1 N");
        assert_says(m, "cccbcc", "ZH K S W AH1 N");
        assert_false(assert_says(m, "cbacc", "ZH B K S W AH1 N").unknown);
        assert_true(assert_says(m, "cxc", "ZH AA1 W AH1 N").unknown);
        stk__g2p_model_free(m);
    }
}

static void aligned_sees_letters_at_places_of_its_own(void **state)
{
    const aligned_shape shape = {.window = 1, .backward = 1, .decoder = 6};
    const int8_t far = 4;
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = plain_arrays(shape);
        model_add_places(&a, "dec_at", 1, &far);
        *n_of(&a, "dec_in", 6, 0, 2, 2) = 1; /* a four letters on: B */
        *n_of(&a, "dec_in", 6, 0, 0, 5) = 1; /* nothing there: ZH */
        stk__g2p_model *m = load_once(a, precisions[i]);
        assert_says(m, "ccccacccc", "B ZH ZH ZH ZH");
        assert_says(m, "a", "ZH");
        stk__g2p_model_free(m);
    }
}

static void aligned_sees_pairs_of_letters(void **state)
{
    const aligned_shape shape = {.window = 1, .backward = 1, .decoder = 6};
    for (int side = -1; side <= 1; side += 2) {
        const int8_t at = (int8_t)side;
        for (size_t i = 0; i < STK_COUNT(precisions); i++) {
            model_arrays a = plain_arrays(shape);
            float *pairs = model_add(&a, "dec_pairs", 0, 6, 6, 18);
            model_add_places(&a, "dec_pairs_at", 1, &at);
            pairs[(4 * 6 + 2) * 18 + 12 + 2] = 1; /* c with a at its side: B */
            pairs[(2 * 6 + 4) * 18 + 12 + 3] = 1; /* a with c: K S */
            pairs[(5 * 6 + 0) * 18 + 12 + 5] = 1; /* d at the edge: ZH */
            stk__g2p_model *m = load_once(a, precisions[i]);
            assert_says(m, "cacc", side > 0 ? "B K S" : "K S B");
            assert_says(m, "dcd", "ZH");
            stk__g2p_model_free(m);
        }
    }
}

/* A reader's only unit goes up at b, down at a, and stays there; a unit of the decoder is that of the reader. */
static void set_latch(model_arrays *a, const char *in, const char *hh, const char *projection, int unit)
{
    *n_of(a, in, 1, 0, 3, 0) = 20;
    *n_of(a, in, 1, 0, 2, 0) = -20;
    for (int id = 0; id < 6; id++)
        model_floats(a, in)[id * 3 + 1] = -20; /* z */
    model_floats(a, hh)[2] = 8;
    model_floats(a, projection)[2 * 6 + unit] = 2;
}

static void aligned_reads_from_both_ends(void **state)
{
    const aligned_shape shape = {.window = 1, .backward = 1, .forward = 1, .decoder = 6};
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = plain_arrays(shape);
        set_latch(&a, "bwd_in", "bwd_hh", "dec_bwd", 2);
        set_latch(&a, "fwd_in", "fwd_hh", "dec_fwd", 5);
        model_floats(&a, "dec_fwd")[2 * 6 + 5] = 1; /* where both are up, the backward one wins */
        stk__g2p_model *m = load_once(a, precisions[i]);
        assert_says(m, "cbc", "B B ZH");
        assert_says(m, "ccbcc", "B B B ZH ZH");
        assert_says(m, "cabcacc",
                    "B ZH"); /* up at b alone from behind, which an a then ends; two letters from the start */
        char word[257], wanted[1024];
        memset(word, 'c', 256);
        word[256] = 0;
        word[200] = 'b'; /* far into the fourth block */
        size_t at = 0;
        for (int k = 0; k < 256; k++)
            at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", k ? " " : "", k <= 200 ? "B" : "ZH");
        assert_says(m, word, wanted);
        stk__g2p_model_free(m);
    }
}

static void aligned_hears_what_it_said(void **state)
{
    const aligned_shape shape = {.window = 1, .backward = 1, .decoder = 6};
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        model_arrays a = plain_arrays(shape);
        float *previous = model_floats(&a, "dec_prev");
        previous[6 * 18 + 12 + 3] = 2; /* start: K S */
        previous[3 * 18 + 12 + 1] = 2; /* then AA1 */
        previous[1 * 18 + 12 + 5] = 2; /* then ZH */
        previous[5 * 18 + 12 + 3] = 2; /* and again */
        stk__g2p_model *m = load_once(a, precisions[i]);
        assert_says(m, "cdcdc", "K S AA1 ZH K S AA1");
        char word[131], wanted[2048];
        memset(word, 'd', 130);
        word[130] = 0;
        size_t at = 0;
        for (int k = 0; k < 130; k++)
            at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", k ? " " : "",
                                   k % 3 == 0   ? "K S"
                                   : k % 3 == 1 ? "AA1"
                                                : "ZH");
        stk__g2p_work work = {0};
        stk__g2p_answer answer;
        char text[2048];
        assert_int_equal(stk__g2p_model_predict(m, &work, &(stk_bytes){(uint8_t *)word, 130}, 1, &answer, NULL),
                         STK_OK);
        write_answer(&answer, text, sizeof text);
        assert_string_equal(text, wanted);
        stk__g2p_work_clear(&work);
        stk__g2p_model_free(m);
    }
}

/* ---- many words ---- */

enum { WORDS = 700, TEXT = 40000 };
static char text_of_words[TEXT];
static stk_bytes words[WORDS];

static model_arrays random_arrays(int which)
{
    static const aligned_shape shapes[] = {{1, 20, 0, 16}, {3, 33, 0, 40}, {5, 16, 17, 30}, {9, 48, 64, 96}};
    return which < 4 ? aligned_arrays(1, shapes[which]) : seq2seq_arrays(1, which == 4 ? 64 : 21, 5);
}

enum { MODELS = 6 };

static void assert_same(const stk__g2p_answer *a, const stk__g2p_answer *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->cut, b->cut);
    assert_int_equal(a->unknown, b->unknown);
    assert_memory_equal(a->ids, b->ids, a->count);
}

static void batches_give_what_single_words_give(void **state)
{
    static stk__g2p_answer together[WORDS];
    model_words(text_of_words, TEXT, words, WORDS);
    for (int which = 0; which < MODELS; which++) {
        stk__g2p_model *m = load_once(random_arrays(which), STK__PRECISION_INT8);
        stk__g2p_work work = {0}, single = {0};
        size_t said = 0;
        for (size_t count = 1; count <= WORDS; count = count * 3 + 1) {
            const size_t first = WORDS - count;
            assert_int_equal(stk__g2p_model_predict(m, &work, words + first, count, together, NULL), STK_OK);
            for (size_t i = 0; i < count; i++) {
                stk__g2p_answer alone;
                assert_int_equal(stk__g2p_model_predict(m, &single, words + first + i, 1, &alone, NULL), STK_OK);
                assert_same(&together[i], &alone);
                said += alone.count;
            }
        }
        assert_true(said > 0);
        stk__g2p_work_clear(&work);
        stk__g2p_work_clear(&single);
        stk__g2p_model_free(m);
    }
}

static void all_levels_of_vectors_give_the_same(void **state)
{
    static stk__g2p_answer plain[WORDS], found[WORDS];
    model_words(text_of_words, TEXT, words, WORDS);
    for (int which = 0; which < MODELS; which++) {
        model_arrays arrays = random_arrays(which);
        stk__g2p_work a = {0}, b = {0};
        stk__simd_limit(STK__SIMD_C);
        stk__g2p_model *m = load(&arrays, STK__PRECISION_INT8);
        assert_int_equal(stk__g2p_model_predict(m, &a, words, WORDS, plain, NULL), STK_OK);
        stk__g2p_model_free(m);
        for (stk__simd level = STK__SIMD_SSE4; level <= stk__simd_highest(); level++) {
            stk__simd_limit(level);
            m = load(&arrays, STK__PRECISION_INT8);
            assert_int_equal(stk__g2p_model_predict(m, &b, words, WORDS, found, NULL), STK_OK);
            for (size_t i = 0; i < WORDS; i++)
                assert_same(&found[i], &plain[i]);
            stk__g2p_model_free(m);
        }
        stk__simd_limit(stk__simd_highest());
        stk__g2p_work_clear(&a);
        stk__g2p_work_clear(&b);
        model_clear(&arrays);
    }
}

static void warm_calls_allocate_nothing(void **state)
{
    static stk__g2p_answer answers[WORDS];
    model_words(text_of_words, TEXT, words, WORDS);
    stk__g2p_model *small = load_once(random_arrays(0), STK__PRECISION_INT8);
    stk__g2p_model *large = load_once(random_arrays(3), STK__PRECISION_FP32);
    stk__g2p_work work = {0};
    assert_int_equal(stk__g2p_model_predict(small, &work, words, WORDS, answers, NULL), STK_OK);
    assert_int_equal(stk__g2p_model_predict(large, &work, words, WORDS, answers, NULL), STK_OK);
    const uint64_t before = stk__alloc_count();
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(stk__g2p_model_predict(i % 2 ? small : large, &work, words + i, 1, answers, NULL), STK_OK);
    assert_int_equal(stk__g2p_model_predict(small, &work, words, WORDS, answers, NULL), STK_OK);
    assert_int_equal(stk__g2p_model_predict(large, &work, words, WORDS, answers, NULL), STK_OK);
    assert_int_equal(stk__alloc_count(), before);
    stk__g2p_work_clear(&work);
    stk__g2p_model_free(small);
    stk__g2p_model_free(large);
}

static void words_of_any_length_have_answers(void **state)
{
    uint8_t *longest = malloc(STK__G2P_WORD_MAX + 1);
    assert_non_null(longest);
    memset(longest, 'c', STK__G2P_WORD_MAX + 1);
    for (int which = 0; which < MODELS; which += 4) {
        stk__g2p_model *m = load_once(random_arrays(which), STK__PRECISION_INT8);
        stk__g2p_work work = {0};
        stk__g2p_answer answers[4];
        stk_error err = {0};
        stk_bytes many[] = {{longest, 0}, {longest, 3}, {longest, STK__G2P_WORD_MAX}, {longest, 64}};
        assert_int_equal(stk__g2p_model_predict(m, &work, many, 4, answers, &err), STK_OK);
        assert_int_equal(answers[0].count, 0);
        assert_false(answers[0].unknown);
        assert_true(answers[2].count <= 3 * (size_t)STK__G2P_WORD_MAX);
        assert_int_equal(stk__g2p_model_predict(m, &work, NULL, 0, NULL, &err), STK_OK);
        answers[1].count = 4711;
        many[2].size++;
        assert_int_equal(stk__g2p_model_predict(m, &work, many, 4, answers, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "65537"));
        many[2].size = -1;
        assert_int_equal(stk__g2p_model_predict(m, &work, many, 4, answers, NULL), STK_INVALID);
        assert_int_equal(answers[1].count, 4711);
        stk__g2p_work_clear(&work);
        stk__g2p_model_free(m);
    }
    free(longest);
}

static void lack_of_memory_is_told_at_every_allocation(void **state)
{
    for (int which = 2; which < MODELS; which += 2) {
        model_arrays arrays = random_arrays(which);
        npz_maker file = model_file(&arrays, NULL);
        stk__g2p_model *m = NULL;
        stk__g2p_answer answers[3];
        model_words(text_of_words, TEXT, words, 3);
        uint64_t n = 0;
        do {
            stk__alloc_fail_at(++n, false);
            const stk_status status = stk__g2p_model_new(file.file.data, file.file.length, "", precisions[0], &m, NULL);
            stk__alloc_fail_at(0, false);
            assert_true(status == STK_NOMEM || (status == STK_OK && m));
        } while (!m && n < 500);
        assert_true(n > 20 && m);
        stk__g2p_work work = {0};
        stk_status status = STK_NOMEM;
        for (n = 1; status != STK_OK && n < 50; n++) {
            stk__alloc_fail_at(n, false);
            status = stk__g2p_model_predict(m, &work, words, 3, answers, NULL);
            stk__alloc_fail_at(0, false);
            assert_true(status == STK_NOMEM || status == STK_OK);
            stk__g2p_work_clear(&work);
        }
        assert_in_range(n, 4, 49);
        stk__g2p_model_free(m);
        npz_clear(&file);
        model_clear(&arrays);
    }
}

/* ---- files that lie ---- */

static void assert_refused(const model_arrays *arrays, const char *skip, const char *field, const char *part)
{
    npz_maker file = model_file(arrays, skip);
    stk__g2p_model *m = (stk__g2p_model *)&file;
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        stk_error err = {0};
        assert_int_equal(stk__g2p_model_new(file.file.data, file.file.length, "a file", precisions[i], &m, &err),
                         STK_CORRUPT);
        assert_ptr_equal(m, &file);
        assert_string_equal(err.file, "a file");
        assert_string_equal(err.field, field);
        if (!strstr(err.message, part))
            fail_msg("%s: \"%s\", wanted \"%s\" in it", field, err.message, part);
    }
    npz_clear(&file);
}

static void models_without_an_array_are_refused_by_its_name(void **state)
{
    for (int which = 2; which < MODELS; which += 2) {
        model_arrays a = random_arrays(which);
        for (size_t i = 0; i < a.count; i++) {
            const char *name = a.items[i].name;
            if (strcmp(name, "dec_prev") == 0 || strcmp(name, "enc_w_hh") == 0)
                assert_refused(&a, name, "", "no model");
            else
                assert_refused(&a, name, name, "no such array");
        }
        model_clear(&a);
    }
}

static void arrays_of_other_shapes_and_types_are_refused_by_name(void **state)
{
    for (int which = 2; which < MODELS; which += 2) {
        model_arrays a = random_arrays(which);
        for (size_t i = 0; i < a.count; i++) {
            model_array *array = &a.items[i];
            const model_array saved = *array;
            if (strcmp(saved.descr, "<f4") != 0)
                continue;
            int last = 0;
            while (array->shape[last + 1] >= 0)
                last++;
            /* Lengths from which others follow make others wrong instead. */
            const bool leads = strstr("dec_hn bwd_hn fwd_hn out_b enc_w_hh enc_emb dec_emb", saved.name) != NULL;
            array->shape[last]--;
            if (!leads)
                assert_refused(&a, NULL, saved.name, "wanted");
            *array = saved;
            array->shape[last] = 0;
            assert_refused(&a, NULL, saved.name, "wanted");
            *array = saved;
            array->shape[last + 1] = 1;
            assert_refused(&a, NULL, saved.name, "dimensions");
            *array = saved;
            array->descr = "<i4";
            assert_refused(&a, NULL, saved.name, "type");
            *array = saved;
        }
        model_clear(&a);
    }
}

static void numbers_that_are_none_are_refused_by_name(void **state)
{
    const float bad[] = {NAN, INFINITY, -INFINITY, 2e6f, -1e30f};
    for (int which = 2; which < MODELS; which += 2) {
        model_arrays a = random_arrays(which);
        for (size_t i = 0; i < a.count * STK_COUNT(bad); i++) {
            model_array *array = &a.items[i / STK_COUNT(bad)];
            if (strcmp(array->descr, "<f4") != 0)
                continue;
            float *data = array->data, saved = data[1];
            data[1] = bad[i % STK_COUNT(bad)];
            assert_refused(&a, NULL, array->name, "item 1 is");
            data[1] = saved;
        }
        model_clear(&a);
    }
}

static void texts_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *array, *text, *part;
    } cases[] = {
        {"chunks", "\nAA1\nB\nK S\nW AH1 N\nXX", "line 6"},
        {"chunks", "\nAA1\nB\nK S\nW AH1 N B\nZH", "line 5"},
        {"chunks", "\nAA1\nB\nK  S\nW AH1 N\nZH", "line 4"},
        {"chunks", "\nAA1\nB\nK S \nW AH1 N\nZH", "line 4"},
        {"chunks", "\nAA1\n B\nK S\nW AH1 N\nZH", "line 3"},
        {"chunks", "\nAA1\n,\nK S\nW AH1 N\nZH", "line 3"},
        {"chunks", "\nAA1\n<s>\nK S\nW AH1 N\nZH", "line 3"},
        {"chunks", "B\nAA1\nB\nK S\nW AH1 N\nZH", "line 1"},
        {"chunks", "\nAA1\nB\nK S\nW AH1 N", "less lines"},
        {"chunks", "\nAA1\nB\nK S\nW AH1 N\nZH\nZ", "more lines"},
        {"chunks", "", "less lines"},
        {"letters", "", "0 items"},
        {"letters", "abca", "97 twice"},
        {"letters", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!?,", "65 items"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        model_arrays a = random_arrays(0);
        model_replace_text(&a, cases[i].array, cases[i].text);
        assert_refused(&a, NULL, cases[i].array, cases[i].part);
        model_clear(&a);
    }
    model_arrays a = random_arrays(0);
    model_replace_text(&a, "chunks", "\nAA1\nB\nK S\nW AH1 N\nZH\n"); /* a newline at the end is fine */
    stk__g2p_model_free(load(&a, STK__PRECISION_INT8));
    model_clear(&a);
}

static void windows_that_cannot_be_are_refused(void **state)
{
    static const struct {
        int places;
        const char *field, *part;
    } cases[] = {{0, "dec_in", "0 letters"}, {2, "dec_at", "even number"}, {10, "dec_in", "10 letters"}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        model_arrays a = aligned_arrays(1, (aligned_shape){.window = 11, .backward = 4, .decoder = 4});
        model_find(&a, "dec_in")->shape[0] = cases[i].places;
        model_find(&a, "bwd_in")->shape[0] = 1;
        assert_refused(&a, NULL, cases[i].field, cases[i].part);
        model_clear(&a);
    }
}

static void places_that_cannot_be_are_refused(void **state)
{
    const aligned_shape shape = {.window = 3, .backward = 4, .decoder = 4};
    static const struct {
        int count;
        int8_t places[3];
        const char *part;
    } cases[] = {
        {2, {0, 1}, "2 items"}, {3, {0, 5, 1}, "place 5"}, {3, {-5, 0, 1}, "place -5"}, {3, {0, 0, -128}, "-128"}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        model_arrays a = aligned_arrays(1, shape);
        model_add_places(&a, "dec_at", cases[i].count, cases[i].places);
        assert_refused(&a, NULL, "dec_at", cases[i].part);
        model_clear(&a);
    }
    const int8_t bad[] = {5, -5, 127};
    for (size_t i = 0; i <= STK_COUNT(bad); i++) {
        model_arrays a = aligned_arrays(1, shape);
        model_add(&a, "bwd_pairs", 1, 6, 6, 12);
        if (i < STK_COUNT(bad))
            model_add_places(&a, "bwd_pairs_at", 1, &bad[i]);
        assert_refused(&a, NULL, "bwd_pairs_at", i < STK_COUNT(bad) ? "is not one place" : "no such array");
        model_clear(&a);
    }
}

static void pairs_that_do_not_fit_are_refused(void **state)
{
    const int8_t next = 1;
    model_arrays a = aligned_arrays(1, (aligned_shape){.window = 3, .backward = 4, .decoder = 4});
    model_add(&a, "dec_pairs", 1, 6, 6, 12);
    model_add_places(&a, "dec_pairs_at", 1, &next);
    stk__g2p_model_free(load(&a, STK__PRECISION_INT8));
    model_array *pairs = model_find(&a, "dec_pairs");
    pairs->shape[1] = 5;
    assert_refused(&a, NULL, "dec_pairs", "wanted 6x6x12");
    pairs->shape[1] = 6;
    pairs->descr = "|i1";
    model_add(&a, "dec_pairs_scale", 1, 6, 6, -1);
    assert_refused(&a, NULL, "dec_pairs", "another type");
    model_clear(&a);
}

/* Weights as 8 bits with a factor for each row, and as 16-bit floats, are the same numbers. */
static void weights_of_every_type_are_read(void **state)
{
    model_arrays plain = aligned_arrays(1, (aligned_shape){.window = 3, .backward = 16, .decoder = 20}), other = plain;
    float *values = model_floats(&plain, "dec_bwd"), scale[60];
    int8_t small[60 * 16];
    uint16_t half[7 * 60];
    for (int i = 0; i < 60 * 16; i++) {
        small[i] = (int8_t)(stk__mix(1, (uint64_t)i) % 255 - 127);
        scale[i / 16] = 0.01f * (float)(1 + i / 16 % 5);
        values[i] = (float)small[i] * scale[i / 16];
    }
    for (int i = 0; i < 7 * 60; i++) { /* 1.x times 2^-3 .. 2^3, or tiny, with a sign */
        const int exponent = i % 8 ? 12 + i % 7 : 0, fraction = (int)(stk__mix(2, (uint64_t)i) % 1024);
        half[i] = (uint16_t)(i % 2 << 15 | exponent << 10 | fraction);
        const float value = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
        model_floats(&plain, "dec_prev")[i] = i % 2 ? -value : value;
    }
    model_array *projection = model_find(&other, "dec_bwd"), *previous = model_find(&other, "dec_prev");
    model_array *letters = model_find(&other, "dec_in");
    int8_t rows[3 * 6 * 60];
    float factors[3 * 6];
    for (int i = 0; i < 3 * 6 * 60; i++) {
        rows[i] = (int8_t)(stk__mix(3, (uint64_t)i) % 255 - 127);
        factors[i / 60] = ldexpf(1, -6 - i / 60 % 3); /* powers of 2: sums are exact, in whatever way they are made */
        model_floats(&plain, "dec_in")[i] = (float)rows[i] * factors[i / 60];
    }
    letters->descr = "|i1";
    letters->data = rows;
    other.items[other.count++] = (model_array){"dec_in_scale", "<f4", {3, 6, -1}, factors};
    projection->descr = "|i1";
    projection->data = small;
    previous->descr = "<f2";
    previous->data = half;
    other.items[other.count++] = (model_array){"dec_bwd_scale", "<f4", {60, -1}, scale};
    stk__g2p_model *a = load(&plain, STK__PRECISION_FP32), *b = load(&other, STK__PRECISION_FP32);
    static stk__g2p_answer first[WORDS], second[WORDS];
    stk__g2p_work x = {0}, y = {0};
    model_words(text_of_words, TEXT, words, WORDS);
    assert_int_equal(stk__g2p_model_predict(a, &x, words, WORDS, first, NULL), STK_OK);
    assert_int_equal(stk__g2p_model_predict(b, &y, words, WORDS, second, NULL), STK_OK);
    for (size_t i = 0; i < WORDS; i++)
        assert_same(&first[i], &second[i]);
    assert_true(stk__g2p_model_bytes(a) > stk__g2p_model_bytes(b)); /* letters stay 8-bit */
    assert_refused(&other, "dec_bwd_scale", "dec_bwd_scale", "no such array");
    other.items[other.count - 1].shape[0] = 59;
    assert_refused(&other, NULL, "dec_bwd_scale", "wanted 60");
    other.items[other.count - 1].shape[0] = 60;
    other.items[other.count - 1].descr = "<f2";
    assert_refused(&other, NULL, "dec_bwd_scale", "float32");
    other.items[other.count - 1].descr = "<f4";
    scale[7] = 7813; /* 128 times that is more than a weight may be */
    assert_refused(&other, NULL, "dec_bwd_scale", "item 7 is 7813");
    scale[7] = NAN;
    assert_refused(&other, NULL, "dec_bwd_scale", "item 7 is");
    scale[7] = 1;
    half[5] = 0x7c00; /* infinity */
    assert_refused(&other, NULL, "dec_prev", "item 5 is");
    stk__g2p_work_clear(&x);
    stk__g2p_work_clear(&y);
    stk__g2p_model_free(a);
    stk__g2p_model_free(b);
    model_clear(&plain);
}

static void other_files_are_no_models(void **state)
{
    stk__g2p_model *m = NULL;
    stk_error err = {0};
    assert_int_equal(stk__g2p_model_new("hello", 5, "h.txt", precisions[0], &m, &err), STK_CORRUPT);
    assert_string_equal(err.file, "h.txt");
    assert_null(m);
    model_arrays a = {0};
    model_add(&a, "something", 1, 3, -1, -1);
    assert_refused(&a, NULL, "", "1 arrays");
    model_clear(&a);
    stk__g2p_model_free(NULL);
}

static void the_model_inside_answers(void **state)
{
    const void *data;
    size_t size;
    stk__g2p_model_builtin(&data, &size);
    for (size_t i = 0; i < STK_COUNT(precisions); i++) {
        stk__g2p_model *m = NULL;
        stk__g2p_work work = {0};
        stk__g2p_answer answer;
        stk_error err = {0};
        if (stk__g2p_model_new(data, size, "built in", precisions[i], &m, &err) != STK_OK)
            fail_msg("%s: %s", err.field, err.message);
        const char *word = "pronunciation's";
        const stk_bytes bytes = {(const uint8_t *)word, (int64_t)strlen(word)};
        assert_int_equal(stk__g2p_model_predict(m, &work, &bytes, 1, &answer, NULL), STK_OK);
        assert_in_range(answer.count, 1, 45);
        assert_false(answer.unknown);
        for (size_t k = 0; k < answer.count; k++)
            assert_in_range(answer.ids[k], STK_G2P_FIRST, STK_G2P_SPACE - 1);
        stk__g2p_work_clear(&work);
        stk__g2p_model_free(m);
    }
}

/* ---- phonemes ---- */

static void symbols_are_numbered_as_g2p_en_does(void **state)
{
    static const struct {
        size_t id;
        const char *name;
    } known[] = {{4, "AA0"}, {5, "AA1"},  {21, "AY2"}, {22, "B"},  {23, "CH"}, {37, "HH"}, {49, "NG"}, {61, "TH"},
                 {65, "UW"}, {66, "UW0"}, {69, "V"},   {73, "ZH"}, {74, " "},  {75, "."},  {76, ","},  {77, "?"},
                 {78, "!"},  {79, ";"},   {80, ":"},   {81, "-"},  {82, "("},  {83, ")"},  {84, "\""}, {85, "..."}};
    for (size_t i = 0; i < STK_COUNT(known); i++)
        assert_string_equal(stk_g2p_symbol(known[i].id), known[i].name);
    assert_int_equal(stk_g2p_symbol_count(), 86);
    assert_null(stk_g2p_symbol(86));
    assert_null(stk_g2p_symbol(SIZE_MAX));
    for (size_t id = STK_G2P_FIRST; id < stk_g2p_symbol_count(); id++) {
        const char *name = stk_g2p_symbol(id);
        assert_non_null(name);
        assert_int_equal(stk__phoneme_find(name, strlen(name)), (int)id);
    }
}

static void names_of_nothing_are_not_found(void **state)
{
    const char *none[] = {"",     "<pad>", "<s>", "AA",   "AA3",  "aa1", "X", "Q",
                          "UW11", "BB",    "..",  "....", "\x80", "@",   "["};
    for (size_t i = 0; i < STK_COUNT(none); i++)
        assert_int_equal(stk__phoneme_find(none[i], strlen(none[i])), -1);
    assert_int_equal(stk__phoneme_find("B\0", 2), -1);
    assert_int_equal(stk__phoneme_find("AA1 B", 3), stk__phoneme_find("AA1", 3));
}

static void letters_have_names(void **state)
{
    const uint8_t *ids;
    char text[64];
    for (char c = 'a'; c <= 'z'; c++)
        assert_in_range(stk__letter_name(c, &ids), 1, 7);
    size_t count = stk__letter_name('W', &ids);
    write_answer(&(stk__g2p_answer){.ids = ids, .count = count}, text, sizeof text);
    assert_string_equal(text, "D AH1 B AH0 L Y UW0");
    count = stk__letter_name('a', &ids);
    write_answer(&(stk__g2p_answer){.ids = ids, .count = count}, text, sizeof text);
    assert_string_equal(text, "EY1");
    count = stk__letter_name('x', &ids);
    write_answer(&(stk__g2p_answer){.ids = ids, .count = count}, text, sizeof text);
    assert_string_equal(text, "EH1 K S");
    const char none[] = {'@', '[', '`', '{', '\'', '0', 0, (char)0xc1};
    for (size_t i = 0; i < sizeof none; i++)
        assert_int_equal(stk__letter_name(none[i], &ids), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seq2seq_stops_at_its_end_mark_or_is_cut),
        cmocka_unit_test(seq2seq_hands_its_state_on_and_hears_itself),
        cmocka_unit_test(seq2seq_knows_the_letters_a_to_z),
        cmocka_unit_test(aligned_sees_the_letters_around),
        cmocka_unit_test(aligned_sees_letters_at_places_of_its_own),
        cmocka_unit_test(aligned_sees_pairs_of_letters),
        cmocka_unit_test(aligned_reads_from_both_ends),
        cmocka_unit_test(aligned_hears_what_it_said),
        cmocka_unit_test(batches_give_what_single_words_give),
        cmocka_unit_test(all_levels_of_vectors_give_the_same),
        cmocka_unit_test(warm_calls_allocate_nothing),
        cmocka_unit_test(words_of_any_length_have_answers),
        cmocka_unit_test(lack_of_memory_is_told_at_every_allocation),
        cmocka_unit_test(models_without_an_array_are_refused_by_its_name),
        cmocka_unit_test(arrays_of_other_shapes_and_types_are_refused_by_name),
        cmocka_unit_test(numbers_that_are_none_are_refused_by_name),
        cmocka_unit_test(texts_that_are_none_are_refused),
        cmocka_unit_test(windows_that_cannot_be_are_refused),
        cmocka_unit_test(places_that_cannot_be_are_refused),
        cmocka_unit_test(pairs_that_do_not_fit_are_refused),
        cmocka_unit_test(weights_of_every_type_are_read),
        cmocka_unit_test(other_files_are_no_models),
        cmocka_unit_test(the_model_inside_answers),
        cmocka_unit_test(symbols_are_numbered_as_g2p_en_does),
        cmocka_unit_test(names_of_nothing_are_not_found),
        cmocka_unit_test(letters_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
