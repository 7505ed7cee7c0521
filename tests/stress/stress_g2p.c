/* Threads hammer one model, with single words and batches of every size: all hear the same, and nothing races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../g2p_models.h"

#include "base/rng.h"
#include "g2p/model.h"

enum { THREADS = 8, ROUNDS = 60, WORDS = 400, TEXT = 20000 };

static char text[TEXT];
static stk_bytes words[WORDS];

/* set before the threads start, then const */
typedef struct shared {
    const stk__g2p_model *model;
    const stk__g2p_answer *wanted;
} shared;

typedef struct hammer {
    const shared *of;
    uint64_t seed;
    size_t wrong, done; /* read once the thread has ended: cmocka's assertions are for the main thread alone */
} hammer;

static bool is_same(const stk__g2p_answer *a, const stk__g2p_answer *b)
{
    return a->count == b->count && a->cut == b->cut && a->unknown == b->unknown &&
           memcmp(a->ids, b->ids, a->count) == 0;
}

static void *hammer_main(void *arg)
{
    hammer *h = arg;
    stk__g2p_work work = {0};
    stk__g2p_answer answers[WORDS];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t draw = stk__mix(h->seed, round);
        const size_t first = draw % WORDS, left = WORDS - first;
        const size_t count = draw >> 32 & 1 ? 1 : 1 + (draw >> 33) % left;
        if (stk__g2p_model_predict(h->of->model, &work, words + first, count, answers, NULL) != STK_OK) {
            h->wrong++;
            continue;
        }
        for (size_t i = 0; i < count; i++)
            h->wrong += !is_same(&answers[i], &h->of->wanted[first + i]);
        h->done += count;
        if (round % 16 == 15)
            stk__g2p_work_clear(&work);
    }
    stk__g2p_work_clear(&work);
    return NULL;
}

static void hammer_model(model_arrays arrays)
{
    npz_maker file = model_file(&arrays, NULL);
    stk__g2p_model *m = NULL;
    stk__g2p_work work = {0};
    static stk__g2p_answer wanted[WORDS];
    assert_int_equal(stk__g2p_model_new(file.file.data, file.file.length, "", STK__PRECISION_INT8, &m, NULL), STK_OK);
    npz_clear(&file);
    model_clear(&arrays);
    model_words(text, TEXT, words, WORDS);
    assert_int_equal(stk__g2p_model_predict(m, &work, words, WORDS, wanted, NULL), STK_OK);
    const shared of = {m, wanted};
    hammer hammers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hammers[i] = (hammer){.of = &of, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer_main, &hammers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(hammers[i].wrong, 0);
        assert_true(hammers[i].done > ROUNDS);
    }
    stk__g2p_work_clear(&work);
    stk__g2p_model_free(m);
}

static void seq2seq_models_are_shared_without_harm(void **state)
{
    hammer_model(seq2seq_arrays(1, 32, 4));
}

static void aligned_models_are_shared_without_harm(void **state)
{
    hammer_model(aligned_arrays(1, (aligned_shape){.window = 3, .backward = 32, .forward = 16, .decoder = 48}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seq2seq_models_are_shared_without_harm),
        cmocka_unit_test(aligned_models_are_shared_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
