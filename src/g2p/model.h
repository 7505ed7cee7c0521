/* A trained model, read from an .npz file: words of letters in, phonemes out. */
#ifndef STK_G2P_MODEL_H
#define STK_G2P_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/compiler.h"
#include "kernels/gru.h"

typedef struct stk__g2p_model stk__g2p_model;

/* Everything is copied out of `data`. Which of the two kinds it is, the names of its arrays say. `name` is for errors. */
stk_status stk__g2p_model_new(const void *data, size_t size, const char *name, stk__precision precision,
                              stk__g2p_model **out, stk_error *err);
void stk__g2p_model_free(stk__g2p_model *m);
size_t stk__g2p_model_bytes(const stk__g2p_model *m);
/* The model inside the library. */
void stk__g2p_model_builtin(const void **out_data, size_t *out_size);

/* What one thread needs while it predicts; grows to the largest call and stays. Start with all zeros. */
typedef struct stk__g2p_work {
    void *impl;
} stk__g2p_work;

void stk__g2p_work_clear(stk__g2p_work *w);

/* Ids lie in the work until the next call. */
typedef struct stk__g2p_answer {
    const uint8_t *ids;
    size_t count;
    bool cut;     /* the model's own limit of phonemes was reached before its end mark */
    bool unknown; /* had bytes that the model does not know */
} stk__g2p_answer;

/* Words of bytes, lower case; any count, any length up to STK__G2P_WORD_MAX, else INVALID. Batches inside are sorted by length. */
#define STK__G2P_WORD_MAX 65536
stk_status stk__g2p_model_predict(const stk__g2p_model *m, stk__g2p_work *w, const stk_bytes *words, size_t count,
                                  stk__g2p_answer *answers, stk_error *err);

#endif
