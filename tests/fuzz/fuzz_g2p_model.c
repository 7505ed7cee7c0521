/* Fuzzes model files: whatever loads must answer any word, with phonemes only, alone as in a batch. */
#include "fuzz_npz.h"

#include <stdbool.h>

#include <stoker/g2p.h>

#include "base/compiler.h"
#include "g2p/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char long_word[] = "abcdefghijklmnopqrstuvwxyz'abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz";

static const stk_bytes words[] = {
    {(const uint8_t *)"stoker", 6}, {(const uint8_t *)"", 0},        {(const uint8_t *)long_word, sizeof long_word - 1},
    {(const uint8_t *)"a", 1},      {(const uint8_t *)"\xff\0z", 3}, {(const uint8_t *)"it's", 4},
    {(const uint8_t *)"zzzz", 4},
};

static void check_answer(const stk__g2p_answer *a, const stk_bytes *word)
{
    if (a->count > 3 * (size_t)word->size + 20 || (word->size == 0 && a->count))
        abort();
    for (size_t i = 0; i < a->count; i++)
        if (a->ids[i] < STK_G2P_FIRST || a->ids[i] >= STK_G2P_SPACE)
            abort();
}

static void use(const stk__g2p_model *m, bool equal)
{
    stk__g2p_work work = {0}, single = {0};
    stk__g2p_answer answers[STK_COUNT(words)], alone;
    if (stk__g2p_model_predict(m, &work, words, STK_COUNT(words), answers, NULL) == STK_OK) {
        for (size_t i = 0; i < STK_COUNT(words); i++) {
            check_answer(&answers[i], &words[i]);
            if (equal && stk__g2p_model_predict(m, &single, &words[i], 1, &alone, NULL) == STK_OK &&
                (alone.count != answers[i].count || memcmp(alone.ids, answers[i].ids, alone.count) != 0))
                abort();
        }
    }
    stk__g2p_work_clear(&work);
    stk__g2p_work_clear(&single);
}

static void load(const uint8_t *data, size_t size, stk__precision precision)
{
    stk__g2p_model *m;
    stk_error err = {0};
    if (stk__g2p_model_new(data, size, "fuzz", precision, &m, &err) != STK_OK) {
        if (!err.message[0] || strcmp(err.file, "fuzz") != 0)
            abort();
        return;
    }
    use(m, precision == STK__PRECISION_INT8);
    stk__g2p_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(data, size, STK__PRECISION_INT8);
    uint8_t *mended = fuzz_npz_mend(data, size);
    if (mended) {
        load(mended, size, STK__PRECISION_INT8);
        load(mended, size, STK__PRECISION_FP32);
    }
    free(mended);
    return 0;
}
