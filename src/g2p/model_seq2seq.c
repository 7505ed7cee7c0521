/* g2p_en's model: a GRU reads the letters, another one says phonemes until its end mark. */
#include <string.h>

#include "base/mem.h"
#include "g2p/model_impl.h"

#include "base/banned.h"

enum {
    GRAPHEMES = 29,
    LETTER_END = 2,
    LETTER_A = 3,
    PHONEMES = 74,
    PHONEME_START = 2,
    PHONEME_END = 3,
    PHONEME_FIRST = 4, /* those before it are marks, which are never said */
    STEPS_MAX = 20,
    EMBEDDING_MAX = 1024,
    PAIRED = GRAPHEMES - 1, /* all but padding stand in pairs */
    PAIRS = PAIRED * PAIRED
};

/* ---- loading ---- */

/* What stands in the file for one of the two GRUs. */
typedef struct cell_names {
    const char *embedding, *w_ih, *w_hh, *b_ih, *b_hh;
    int ids;
} cell_names;

static const cell_names encoder_names = {"enc_emb", "enc_w_ih", "enc_w_hh", "enc_b_ih", "enc_b_hh", GRAPHEMES};
static const cell_names decoder_names = {"dec_emb", "dec_w_ih", "dec_w_hh", "dec_b_ih", "dec_b_hh", PHONEMES};

typedef struct cell_arrays {
    float *embedding, *w_ih, *w_hh, *b_ih, *b_hh;
    int width; /* of an embedding */
} cell_arrays;

static void clear_arrays(cell_arrays *a)
{
    stk__free(a->embedding);
    stk__free(a->w_ih);
    stk__free(a->w_hh);
    stk__free(a->b_ih);
    stk__free(a->b_hh);
}

static stk_status read_arrays(const stk__npz *npz, const cell_names *names, int units, cell_arrays *a, stk_error *err)
{
    const stk__npy *embedding;
    STK_TRY(stk__g2p_find(npz, names->embedding, 2, &embedding, err));
    if (embedding->shape[1] < 1 || embedding->shape[1] > EMBEDDING_MAX)
        return stk__g2p_bad(err, names->embedding, "has rows of %lld, wanted 1 to %d", (long long)embedding->shape[1],
                            EMBEDDING_MAX);
    a->width = (int)embedding->shape[1];
    const int64_t gates = 3 * (int64_t)units;
    STK_TRY(stk__g2p_floats(npz, names->embedding, 2, (int64_t[]){names->ids, a->width}, &a->embedding, err));
    STK_TRY(stk__g2p_floats(npz, names->w_ih, 2, (int64_t[]){gates, a->width}, &a->w_ih, err));
    STK_TRY(stk__g2p_floats(npz, names->w_hh, 2, (int64_t[]){gates, units}, &a->w_hh, err));
    STK_TRY(stk__g2p_floats(npz, names->b_ih, 1, &gates, &a->b_ih, err));
    return stk__g2p_floats(npz, names->b_hh, 1, &gates, &a->b_hh, err);
}

/* Four sums side by side, in an order of our own: what they are added to is as far off from the exact sum. */
static float dot(const float *a, const float *b, int n)
{
    float sums[4] = {0};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* All that depends on the input alone; the bias of n that is multiplied by r stays in the GRU. */
static stk_status fold(const cell_arrays *a, int ids, int units, stk__g2p_table *out, stk_error *err)
{
    const int gates = 3 * units;
    const size_t size = (size_t)ids * (size_t)gates * sizeof(float);
    float *rows = stk__alloc(size);
    if (!rows)
        return stk__nomem(size, err);
    for (int j = 0; j < gates; j++) {
        const float bias = a->b_ih[j] + (j < 2 * units ? a->b_hh[j] : 0);
        const float *weights = a->w_ih + (size_t)j * (size_t)a->width;
        for (int i = 0; i < ids; i++)
            rows[(size_t)i * (size_t)gates + (size_t)j] =
                dot(weights, a->embedding + (size_t)i * (size_t)a->width, a->width) + bias;
    }
    const stk_status status = stk__g2p_make_table(rows, (size_t)ids, units, out, err);
    stk__free(rows);
    return status;
}

static stk_status read_cell(const stk__npz *npz, const cell_names *names, int units, stk__precision precision,
                            stk__g2p_table *out_table, stk__gru **out_gru, stk_error *err)
{
    cell_arrays a = {0};
    stk_status status = read_arrays(npz, names, units, &a, err);
    if (status == STK_OK)
        status = fold(&a, names->ids, units, out_table, err);
    if (status == STK_OK)
        status = stk__gru_new(a.w_hh, a.b_hh + 2 * (size_t)units, units, precision, out_gru, err);
    clear_arrays(&a);
    return status;
}

static stk_status read_output(const stk__npz *npz, int units, stk__precision precision, stk__dense **out,
                              stk_error *err)
{
    float *w = NULL, *b = NULL;
    const int64_t rows = PHONEMES;
    stk_status status = stk__g2p_floats(npz, "fc_w", 2, (int64_t[]){rows, units}, &w, err);
    if (status == STK_OK)
        status = stk__g2p_floats(npz, "fc_b", 1, &rows, &b, err);
    if (status == STK_OK)
        status = stk__dense_new(w, b, PHONEMES, units, precision, out, err);
    stk__free(w);
    stk__free(b);
    return status;
}

static size_t pair_row(uint8_t first, uint8_t second)
{
    return (size_t)(first - 1) * PAIRED + (size_t)(second - 1);
}

/* Every word starts with one of so few pairs that two steps of each are better done once: the same to the last bit. */
static stk_status make_pairs(stk__g2p_seq2seq *s, stk__precision precision, stk_error *err)
{
    const size_t cells = PAIRS * (size_t)stk__gru_padded(s->units);
    const float *rows[PAIRS];
    s->pairs.f = stk__alloc_aligned(cells * sizeof *s->pairs.f);
    if (precision == STK__PRECISION_INT8)
        s->pairs.q = stk__alloc_aligned(cells * sizeof *s->pairs.q);
    if (!s->pairs.f || (precision == STK__PRECISION_INT8 && !s->pairs.q))
        return stk__nomem(cells * (sizeof *s->pairs.f + sizeof *s->pairs.q), err);
    stk__hidden_zero(s->encoder, &s->pairs, 0, PAIRED);
    for (size_t i = 0; i < PAIRED; i++)
        rows[i] = stk__g2p_table_row(&s->letters, 1 + i);
    stk__gru_step(s->encoder, rows, NULL, PAIRED, &s->pairs);
    for (size_t i = PAIRS; i-- > 0;) { /* from the end: what is copied still stands */
        stk__hidden_move(s->encoder, &s->pairs, i / PAIRED, i);
        rows[i] = stk__g2p_table_row(&s->letters, 1 + i % PAIRED);
    }
    stk__gru_step(s->encoder, rows, NULL, PAIRS, &s->pairs);
    return STK_OK;
}

stk_status stk__g2p_seq2seq_read(const stk__npz *npz, stk__g2p_model *m, stk_error *err)
{
    stk__g2p_seq2seq *s = &m->of.seq2seq;
    const stk__npy *w;
    STK_TRY(stk__g2p_find(npz, "enc_w_hh", 2, &w, err));
    if (w->shape[1] < 1 || w->shape[1] > STK__G2P_UNITS_MAX)
        return stk__g2p_bad(err, w->name, "has %lld units, wanted 1 to %d", (long long)w->shape[1], STK__G2P_UNITS_MAX);
    s->units = (int)w->shape[1];
    memset(m->letter_ids, STK__G2P_UNKNOWN_LETTER, sizeof m->letter_ids);
    for (int i = 0; i < 26; i++)
        m->letter_ids['a' + i] = (uint8_t)(LETTER_A + i);
    STK_TRY(read_cell(npz, &encoder_names, s->units, m->precision, &s->letters, &s->encoder, err));
    STK_TRY(make_pairs(s, m->precision, err));
    STK_TRY(read_cell(npz, &decoder_names, s->units, m->precision, &s->phonemes, &s->decoder, err));
    return read_output(npz, s->units, m->precision, &s->output, err);
}

static void seq2seq_clear(stk__g2p_model *m)
{
    stk__g2p_seq2seq *s = &m->of.seq2seq;
    stk__gru_free(s->encoder);
    stk__gru_free(s->decoder);
    stk__dense_free(s->output);
    stk__g2p_table_clear(&s->letters);
    stk__g2p_table_clear(&s->phonemes);
    stk__free(s->pairs.f);
    stk__free(s->pairs.q);
}

static size_t seq2seq_bytes(const stk__g2p_model *m)
{
    const stk__g2p_seq2seq *s = &m->of.seq2seq;
    return stk__gru_bytes(s->encoder) + stk__gru_bytes(s->decoder) + stk__dense_bytes(s->output) +
           stk__g2p_table_bytes(&s->letters) + stk__g2p_table_bytes(&s->phonemes) +
           PAIRS * (size_t)stk__gru_padded(s->units) * (sizeof(float) + (m->precision == STK__PRECISION_INT8));
}

/* ---- memory ---- */

static size_t seq2seq_most_ids(const stk__g2p_model *m, size_t letters)
{
    return STEPS_MAX;
}

static void seq2seq_carve(const stk__g2p_model *m, size_t longest, size_t count, stk__g2p_carver *c,
                          stk__g2p_scratch *out)
{
    out->rows = stk__g2p_carve(c, STK_MAX(count, (size_t)STK__G2P_BLOCK), sizeof *out->rows);
    out->best = stk__g2p_carve(c, STK_MAX(count, (size_t)STEPS_MAX), sizeof *out->best);
    out->slots = stk__g2p_carve(c, count, sizeof *out->slots);
    out->decoder = stk__g2p_carve_hidden(c, count, stk__gru_padded(m->of.seq2seq.units), m->precision);
}

/* ---- one word ---- */

static void say(stk__g2p_answer *answer, int32_t phoneme)
{
    if (phoneme >= PHONEME_FIRST)
        ((uint8_t *)answer->ids)[answer->count++] = (uint8_t)phoneme;
}

/* The letters of a word with the end mark as the last. */
static uint8_t letter_at(const stk__g2p_model *m, const uint8_t *word, size_t size, size_t at)
{
    return at < size ? m->letter_ids[word[at]] : LETTER_END;
}

/* Sets row `to` to the state after the first two letters. Returns whether one of them is unknown. */
static bool start_word(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size, size_t to)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    const size_t padded = (size_t)stk__gru_padded(model->units);
    const uint8_t first = letter_at(m, word, size, 0), second = letter_at(m, word, size, 1);
    const size_t from = pair_row(first, second) * padded;
    memcpy(s->decoder.f + to * padded, model->pairs.f + from, padded * sizeof *model->pairs.f);
    if (model->pairs.q)
        memcpy(s->decoder.q + to * padded, model->pairs.q + from, padded);
    return first == STK__G2P_UNKNOWN_LETTER || second == STK__G2P_UNKNOWN_LETTER;
}

static void encode_one(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size,
                       stk__g2p_answer *answer)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    bool unknown = start_word(m, s, word, size, 0);
    for (size_t at = 2; at <= size;) {
        size_t n = 0;
        for (; n < STK__G2P_BLOCK && at <= size; n++, at++) {
            const uint8_t id = letter_at(m, word, size, at);
            unknown = unknown || id == STK__G2P_UNKNOWN_LETTER;
            s->rows[n] = stk__g2p_table_row(&model->letters, id);
        }
        stk__gru_run(model->encoder, s->rows, n, &s->decoder, 0, 0);
    }
    answer->unknown = unknown;
}

static void seq2seq_one(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size,
                        stk__g2p_answer *answer)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    const stk__feedback in = {
        .table = model->phonemes.rows, .first = PHONEME_START, .stop = PHONEME_END, .steps = STEPS_MAX};
    encode_one(m, s, word, size, answer);
    const size_t steps = stk__gru_decode(model->decoder, model->output, &in, &s->decoder, s->best);
    for (size_t i = 0; i < steps; i++)
        say(answer, s->best[i]);
    answer->cut = s->best[steps - 1] != PHONEME_END;
}

/* ---- a batch ---- */

/* Words are sorted, so those that still have letters are always the first ones. */
static void encode_batch(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    const size_t longest = (size_t)batch->words[batch->order[0]].size;
    size_t active = batch->count;
    for (size_t i = 0; i < batch->count; i++) {
        const stk_bytes *word = &batch->words[batch->order[i]];
        batch->answers[batch->order[i]].unknown = start_word(m, s, word->data, (size_t)word->size, i);
    }
    for (size_t at = 2; at <= longest; at++) {
        while ((size_t)batch->words[batch->order[active - 1]].size < at)
            active--;
        for (size_t i = 0; i < active; i++) {
            const stk_bytes *word = &batch->words[batch->order[i]];
            const uint8_t id = letter_at(m, word->data, (size_t)word->size, at);
            if (id == STK__G2P_UNKNOWN_LETTER)
                batch->answers[batch->order[i]].unknown = true;
            s->rows[i] = stk__g2p_table_row(&model->letters, id);
        }
        stk__gru_step(model->encoder, s->rows, NULL, active, &s->decoder);
    }
}

/* Words that are done make place for the last ones. Returns how many go on. */
static size_t take_phonemes(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch, size_t active)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    for (size_t i = 0; i < active;) {
        if (s->best[i] == PHONEME_END) {
            active--;
            stk__hidden_move(model->decoder, &s->decoder, active, i);
            s->best[i] = s->best[active];
            s->slots[i] = s->slots[active];
            continue;
        }
        say(&batch->answers[s->slots[i]], s->best[i]);
        s->rows[i] = stk__g2p_table_row(&model->phonemes, (size_t)s->best[i]);
        i++;
    }
    return active;
}

static void seq2seq_batch(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch)
{
    const stk__g2p_seq2seq *model = &m->of.seq2seq;
    size_t active = batch->count;
    encode_batch(m, s, batch);
    for (size_t i = 0; i < active; i++) {
        s->slots[i] = batch->order[i];
        s->rows[i] = stk__g2p_table_row(&model->phonemes, PHONEME_START);
    }
    for (int step = 0; step < STEPS_MAX && active; step++) {
        stk__gru_step(model->decoder, s->rows, NULL, active, &s->decoder);
        stk__dense_argmax(model->output, &s->decoder, active, s->best);
        active = take_phonemes(m, s, batch, active);
    }
    for (size_t i = 0; i < active; i++)
        batch->answers[s->slots[i]].cut = true;
}

const stk__g2p_kind stk__g2p_seq2seq_kind = {
    .batch_least = 2,
    .most_ids = seq2seq_most_ids,
    .carve = seq2seq_carve,
    .one = seq2seq_one,
    .batch = seq2seq_batch,
    .bytes = seq2seq_bytes,
    .clear = seq2seq_clear,
};
