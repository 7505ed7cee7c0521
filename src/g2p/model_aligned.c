/*
 * Our own model: one chunk of up to three phonemes for each letter. Readers go over the word, always from its end and
 * perhaps from its start as well; then the decoder goes from letter to letter, knowing the letters around, what the
 * readers found, and the chunk before.
 */
#include <string.h>

#include <stoker/g2p.h>

#include "base/mem.h"
#include "g2p/model_impl.h"
#include "g2p/phonemes.h"

#include "base/banned.h"

enum {
    LETTER_OUTSIDE = 0,
    LETTER_FIRST = 2,
    MARGIN = STK__G2P_SIDE, /* ids outside of a word that a window may see */
    /* Rows of the backward reader: the states of a block and the one before, then those between blocks. */
    SAVED_ROW = STK__G2P_BLOCK + 1
};

/* ---- loading ---- */

static stk_status read_letters(const stk__npz *npz, stk__g2p_model *m, size_t *out_ids, stk_error *err)
{
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, "letters", 1, &a, err));
    if (a->type != STK__NPY_U8 || a->elements < 1 || a->elements > STK__G2P_LETTERS_MAX)
        return stk__g2p_bad(err, a->name, "has %zu items, wanted 1 to %d of uint8", a->elements, STK__G2P_LETTERS_MAX);
    memset(m->letter_ids, STK__G2P_UNKNOWN_LETTER, sizeof m->letter_ids);
    const uint8_t *letters = a->data;
    for (size_t i = 0; i < a->elements; i++) {
        if (m->letter_ids[letters[i]] != STK__G2P_UNKNOWN_LETTER)
            return stk__g2p_bad(err, a->name, "has byte %d twice", letters[i]);
        m->letter_ids[letters[i]] = (uint8_t)(LETTER_FIRST + i);
    }
    *out_ids = a->elements + LETTER_FIRST;
    return STK_OK;
}

/* Names between blanks; false for what is no phoneme, or for too many. */
static bool read_chunk(const char *line, size_t size, uint8_t *out)
{
    for (size_t at = 0; at < size;) {
        size_t end = at;
        while (end < size && line[end] != ' ')
            end++;
        const int id = stk__phoneme_find(line + at, end - at);
        if (id < STK_G2P_FIRST || id >= STK_G2P_SPACE || out[0] == STK__G2P_CHUNK_PHONEMES)
            return false;
        out[++out[0]] = (uint8_t)id;
        at = end + 1;
        if (at == size)
            return false; /* a blank at the end */
    }
    return true;
}

/* Lines with a newline between them; one at the very end may be there or not. */
static stk_status read_lines(const stk__npy *a, stk__g2p_aligned *m, stk_error *err)
{
    const char *text = a->data;
    size_t at = 0, line = 0;
    for (; line < m->classes && (at < a->elements || line == 0); line++) {
        const char *newline = a->elements ? memchr(text + at, '\n', a->elements - at) : NULL;
        const size_t size = newline ? (size_t)(newline - text) - at : a->elements - at;
        if (!read_chunk(text + at, size, m->chunks[line]))
            return stk__g2p_bad(err, a->name, "line %zu is no list of at most %d phonemes", line + 1,
                                STK__G2P_CHUNK_PHONEMES);
        at += size + (newline != NULL);
    }
    if (line != m->classes || at != a->elements)
        return stk__g2p_bad(err, a->name, "has %s lines than the %zu classes of out_b",
                            line < m->classes ? "less" : "more", m->classes);
    if (m->chunks[0][0])
        return stk__g2p_bad(err, a->name, "line 1 is not empty");
    return STK_OK;
}

static stk_status read_chunks(const stk__npz *npz, stk__g2p_aligned *m, stk_error *err)
{
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, "chunks", 1, &a, err));
    if (a->type != STK__NPY_U8)
        return stk__g2p_bad(err, a->name, "has another type than uint8");
    m->chunks = stk__calloc(m->classes, sizeof *m->chunks);
    if (!m->chunks)
        return stk__nomem(m->classes * sizeof *m->chunks, err);
    return read_lines(a, m, err);
}

static stk_status read_gru(const stk__npz *npz, const char *hh, const char *hn, int units, stk__precision precision,
                           stk__gru **out, stk_error *err)
{
    float *w = NULL, *b = NULL;
    stk_status status = stk__g2p_floats(npz, hh, 2, (int64_t[]){3 * (int64_t)units, units}, &w, err);
    if (status == STK_OK)
        status = stk__g2p_floats(npz, hn, 1, (int64_t[]){units}, &b, err);
    if (status == STK_OK)
        status = stk__gru_new(w, b, units, precision, out, err);
    stk__free(w);
    stk__free(b);
    return status;
}

/* Puts the rows into the order of the decoder's inputs, so that the result can be added to them. */
static stk_status make_projection(const float *w, int units, int columns, stk__precision precision, stk__dense **out,
                                  stk_error *err)
{
    const size_t rows = 3 * (size_t)stk__gru_padded(units), row_size = (size_t)columns * sizeof(float);
    float *ordered = stk__calloc(rows, row_size);
    if (!ordered)
        return stk__nomem(rows * row_size, err);
    for (int gate = 0; gate < 3; gate++)
        for (int u = 0; u < units; u++)
            memcpy(ordered + (size_t)stk__gru_input_at(gate, u) * (size_t)columns,
                   w + ((size_t)gate * (size_t)units + (size_t)u) * (size_t)columns, row_size);
    const stk_status status = stk__dense_new(ordered, NULL, (int)rows, columns, precision, out, err);
    stk__free(ordered);
    return status;
}

typedef struct reader_names {
    const char *prefix, *hh, *hn, *projection;
} reader_names;

static const reader_names backward_names = {"bwd", "bwd_hh", "bwd_hn", "dec_bwd"};
static const reader_names forward_names = {"fwd", "fwd_hh", "fwd_hn", "dec_fwd"};

static stk_status read_reader(const stk__npz *npz, const reader_names *names, size_t ids, int decoder_units,
                              stk__precision precision, stk__g2p_reader *out, stk_error *err)
{
    float *w;
    STK_TRY(stk__g2p_length(npz, names->hn, STK__G2P_UNITS_MAX, &out->units, err));
    out->padded = stk__gru_padded(out->units);
    STK_TRY(read_gru(npz, names->hh, names->hn, out->units, precision, &out->gru, err));
    STK_TRY(stk__g2p_read_window(npz, names->prefix, ids, out->units, &out->letters, err));
    STK_TRY(stk__g2p_floats(npz, names->projection, 2, (int64_t[]){3 * (int64_t)decoder_units, out->units}, &w, err));
    const stk_status status = make_projection(w, decoder_units, out->units, precision, &out->projection, err);
    stk__free(w);
    return status;
}

static stk_status read_decoder(const stk__npz *npz, size_t ids, int classes, stk__precision precision,
                               stk__g2p_aligned *m, stk_error *err)
{
    float *w = NULL, *b = NULL;
    STK_TRY(read_gru(npz, "dec_hh", "dec_hn", m->units, precision, &m->decoder, err));
    STK_TRY(stk__g2p_read_window(npz, "dec", ids, m->units, &m->letters, err));
    STK_TRY(stk__g2p_read_rows(npz, "dec_prev", m->classes + 1, m->units, &m->previous, err));
    stk_status status = stk__g2p_floats(npz, "out_w", 2, (int64_t[]){classes, m->units}, &w, err);
    if (status == STK_OK)
        status = stk__g2p_floats(npz, "out_b", 1, (int64_t[]){classes}, &b, err);
    if (status == STK_OK)
        status = stk__dense_new(w, b, classes, m->units, precision, &m->output, err);
    stk__free(w);
    stk__free(b);
    return status;
}

stk_status stk__g2p_aligned_read(const stk__npz *npz, stk__g2p_model *m, stk_error *err)
{
    stk__g2p_aligned *a = &m->of.aligned;
    size_t ids = 0;
    int classes = 0;
    STK_TRY(read_letters(npz, m, &ids, err));
    STK_TRY(stk__g2p_length(npz, "out_b", STK__G2P_CHUNKS_MAX, &classes, err));
    a->classes = (size_t)classes;
    STK_TRY(read_chunks(npz, a, err));
    STK_TRY(stk__g2p_length(npz, "dec_hn", STK__G2P_UNITS_MAX, &a->units, err));
    a->padded = stk__gru_padded(a->units);
    STK_TRY(read_decoder(npz, ids, classes, m->precision, a, err));
    STK_TRY(read_reader(npz, &backward_names, ids, a->units, m->precision, &a->backward, err));
    if (stk__npz_find(npz, forward_names.hh) || stk__npz_find(npz, forward_names.projection))
        STK_TRY(read_reader(npz, &forward_names, ids, a->units, m->precision, &a->forward, err));
    return STK_OK;
}

static void clear_reader(stk__g2p_reader *r)
{
    stk__gru_free(r->gru);
    stk__g2p_window_clear(&r->letters);
    stk__dense_free(r->projection);
}

static void aligned_clear(stk__g2p_model *m)
{
    stk__g2p_aligned *a = &m->of.aligned;
    clear_reader(&a->backward);
    clear_reader(&a->forward);
    stk__gru_free(a->decoder);
    stk__dense_free(a->output);
    stk__g2p_window_clear(&a->letters);
    stk__g2p_table_clear(&a->previous);
    stk__free(a->chunks);
}

static size_t reader_bytes(const stk__g2p_reader *r)
{
    return r->units ? stk__gru_bytes(r->gru) + stk__g2p_window_bytes(&r->letters) + stk__dense_bytes(r->projection) : 0;
}

static size_t aligned_bytes(const stk__g2p_model *m)
{
    const stk__g2p_aligned *a = &m->of.aligned;
    return reader_bytes(&a->backward) + reader_bytes(&a->forward) + stk__gru_bytes(a->decoder) +
           stk__dense_bytes(a->output) + stk__g2p_window_bytes(&a->letters) + stk__g2p_table_bytes(&a->previous) +
           a->classes * sizeof *a->chunks;
}

/* ---- memory ---- */

static size_t aligned_most_ids(const stk__g2p_model *m, size_t letters)
{
    return letters * STK__G2P_CHUNK_PHONEMES;
}

/* States that are only projected need the form that the model's precision takes. */
static stk__hidden carve_kept(stk__g2p_carver *c, size_t rows, int padded, stk__precision precision)
{
    stk__hidden h = {0};
    if (precision == STK__PRECISION_INT8)
        h.q = stk__g2p_carve(c, rows * (size_t)padded, sizeof *h.q);
    else
        h.f = stk__g2p_carve(c, rows * (size_t)padded, sizeof *h.f);
    return h;
}

static void aligned_carve(const stk__g2p_model *m, size_t longest, size_t count, stk__g2p_carver *c,
                          stk__g2p_scratch *out)
{
    const stk__g2p_aligned *a = &m->of.aligned;
    const size_t blocks = longest / STK__G2P_BLOCK + 1, rows = STK_MAX(count, (size_t)STK__G2P_BLOCK);
    out->rows = stk__g2p_carve(c, rows, sizeof *out->rows);
    out->others = stk__g2p_carve(c, count, sizeof *out->others);
    out->best = stk__g2p_carve(c, rows, sizeof *out->best);
    out->decoder = stk__g2p_carve_hidden(c, count, a->padded, m->precision);
    out->decoder_inputs = stk__g2p_carve(c, rows * a->letters.width, sizeof(float));
    out->reader_inputs =
        stk__g2p_carve(c, rows * STK_MAX(a->backward.letters.width, a->forward.letters.width), sizeof(float));
    out->backward = stk__g2p_carve_hidden(c, STK_MAX(rows, SAVED_ROW + blocks), a->backward.padded, m->precision);
    out->forward = stk__g2p_carve_hidden(c, rows + 1, a->forward.padded, m->precision);
    const size_t letters = count < 2 ? STK__G2P_BLOCK : STK__G2P_BATCH_LETTERS;
    out->letters = stk__g2p_carve(c, letters + 2 * MARGIN * count, 1);
    if (count < 2)
        return;
    out->text = stk__g2p_carve(c, count, sizeof *out->text);
    out->kept_backward = carve_kept(c, letters, a->backward.padded, m->precision);
    out->kept_forward = carve_kept(c, letters, a->forward.padded, m->precision);
}

/* ---- steps ---- */

/* The ids of `count` letters from `from` on, and of those around them; out[MARGIN] is the first. */
static bool take_letters(const stk__g2p_model *m, const uint8_t *word, size_t size, size_t from, size_t count,
                         uint8_t *out)
{
    bool unknown = false;
    for (size_t i = 0; i < MARGIN; i++) {
        const size_t behind = from + count + i;
        out[i] = from + i < MARGIN ? LETTER_OUTSIDE : m->letter_ids[word[from + i - MARGIN]];
        out[MARGIN + count + i] = behind < size ? m->letter_ids[word[behind]] : LETTER_OUTSIDE;
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t id = m->letter_ids[word[from + i]];
        unknown = unknown || id == STK__G2P_UNKNOWN_LETTER;
        out[MARGIN + i] = id;
    }
    return unknown;
}

static void say(const stk__g2p_aligned *a, int32_t chunk, stk__g2p_answer *answer)
{
    memcpy((uint8_t *)answer->ids + answer->count, a->chunks[chunk] + 1, STK__G2P_CHUNK_PHONEMES);
    answer->count += a->chunks[chunk][0];
}

static stk__hidden hidden_from(const stk__hidden *h, size_t row, int padded)
{
    const size_t at = row * (size_t)padded;
    return (stk__hidden){.f = h->f ? h->f + at : NULL, .q = h->q ? h->q + at : NULL};
}

/* ---- one word, block by block ---- */

static void set_reader_rows(const stk__g2p_reader *r, stk__g2p_scratch *s, size_t count, bool backward)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *letter = s->letters + MARGIN + (backward ? count - 1 - i : i);
        float *input = s->reader_inputs + i * r->letters.width;
        stk__g2p_window_sum(&r->letters, letter, input);
        s->rows[i] = input;
    }
}

/* Reads what lies behind the first block and keeps only the states between blocks: those of a block are made again. */
static void read_ahead(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size, size_t blocks)
{
    const stk__g2p_reader *r = &m->of.aligned.backward;
    stk__hidden_zero(r->gru, &s->backward, SAVED_ROW + blocks - 1, 1);
    for (size_t b = blocks - 1; b > 0; b--) {
        const size_t from = b * STK__G2P_BLOCK, count = STK_MIN(size - from, (size_t)STK__G2P_BLOCK);
        take_letters(m, word, size, from, count, s->letters);
        set_reader_rows(r, s, count, true);
        stk__hidden_move(r->gru, &s->backward, SAVED_ROW + b, SAVED_ROW + b - 1);
        stk__gru_run(r->gru, s->rows, count, &s->backward, (ptrdiff_t)(SAVED_ROW + b - 1), 0);
    }
}

/* Both readers over a block, and from their states the inputs of the decoder. */
static void read_block(const stk__g2p_aligned *a, stk__g2p_scratch *s, size_t block, size_t count)
{
    const stk__g2p_reader *r = &a->backward;
    set_reader_rows(r, s, count, true);
    stk__hidden_move(r->gru, &s->backward, SAVED_ROW + block, count);
    stk__gru_run(r->gru, s->rows, count, &s->backward, (ptrdiff_t)count, -1);
    for (size_t i = 0; i < count; i++)
        stk__g2p_window_sum(&a->letters, s->letters + MARGIN + i, s->decoder_inputs + i * a->letters.width);
    stk__dense_run(r->projection, &s->backward, count, s->decoder_inputs, a->letters.width, 1);
    r = &a->forward;
    if (!r->units)
        return;
    set_reader_rows(r, s, count, false);
    stk__gru_run(r->gru, s->rows, count, &s->forward, 0, 1);
    const stk__hidden after = hidden_from(&s->forward, 1, r->padded);
    stk__dense_run(r->projection, &after, count, s->decoder_inputs, a->letters.width, 1);
    stk__hidden_move(r->gru, &s->forward, count, 0);
}

/* Returns the last chunk that was said. */
static int32_t decode_block(const stk__g2p_aligned *a, stk__g2p_scratch *s, size_t count, int32_t previous,
                            stk__g2p_answer *answer)
{
    for (size_t i = 0; i < count; i++)
        s->rows[i] = s->decoder_inputs + i * a->letters.width;
    const stk__feedback in = {.x = s->rows, .table = a->previous.rows, .first = previous, .stop = -1, .steps = count};
    stk__gru_decode(a->decoder, a->output, &in, &s->decoder, s->best);
    for (size_t i = 0; i < count; i++)
        say(a, s->best[i], answer);
    return s->best[count - 1];
}

static void aligned_one(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size,
                        stk__g2p_answer *answer)
{
    const stk__g2p_aligned *a = &m->of.aligned;
    const size_t blocks = (size + STK__G2P_BLOCK - 1) / STK__G2P_BLOCK;
    int32_t chunk = (int32_t)a->classes; /* the row for the start */
    read_ahead(m, s, word, size, blocks);
    if (a->forward.units)
        stk__hidden_zero(a->forward.gru, &s->forward, 0, 1);
    stk__hidden_zero(a->decoder, &s->decoder, 0, 1);
    for (size_t b = 0; b < blocks; b++) {
        const size_t from = b * STK__G2P_BLOCK, count = STK_MIN(size - from, (size_t)STK__G2P_BLOCK);
        answer->unknown |= take_letters(m, word, size, from, count, s->letters);
        read_block(a, s, b, count);
        chunk = decode_block(a, s, count, chunk, answer);
    }
}

/* ---- a batch: letter by letter over all words, those with so many letters being the first ones ---- */

typedef struct column {
    size_t count; /* words that have this letter */
    size_t first; /* their row among the kept states */
} column;

static size_t set_columns(const stk__g2p_batch *batch, column *columns)
{
    const size_t longest = (size_t)batch->words[batch->order[0]].size;
    size_t count = batch->count, first = 0;
    for (size_t at = 0; at < longest; at++) {
        while ((size_t)batch->words[batch->order[count - 1]].size <= at)
            count--;
        columns[at] = (column){count, first};
        first += count;
    }
    return longest;
}

static void take_words(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch)
{
    uint8_t *out = s->letters;
    for (size_t i = 0; i < batch->count; i++) {
        const stk_bytes *word = &batch->words[batch->order[i]];
        const size_t size = (size_t)word->size;
        batch->answers[batch->order[i]].unknown = take_letters(m, word->data, size, 0, size, out);
        s->text[i] = out + MARGIN;
        out += size + 2 * MARGIN;
    }
}

/* One letter of all words through a reader; the states are kept. */
static void read_column(const stk__g2p_model *m, const stk__g2p_reader *r, stk__g2p_scratch *s, const column *c,
                        size_t at, const stk__hidden *h, const stk__hidden *kept)
{
    const size_t size = c->count * (size_t)r->padded, to = c->first * (size_t)r->padded;
    for (size_t i = 0; i < c->count; i++) {
        float *input = s->reader_inputs + i * r->letters.width;
        stk__g2p_window_sum(&r->letters, s->text[i] + at, input);
        s->rows[i] = input;
    }
    stk__gru_step(r->gru, s->rows, NULL, c->count, h);
    if (m->precision == STK__PRECISION_INT8)
        memcpy(kept->q + to, h->q, size);
    else
        memcpy(kept->f + to, h->f, size * sizeof *h->f);
}

static void read_words(const stk__g2p_model *m, stk__g2p_scratch *s, const column *columns, size_t longest)
{
    const stk__g2p_reader *backward = &m->of.aligned.backward, *forward = &m->of.aligned.forward;
    stk__hidden_zero(backward->gru, &s->backward, 0, columns[0].count);
    for (size_t at = longest; at-- > 0;)
        read_column(m, backward, s, &columns[at], at, &s->backward, &s->kept_backward);
    if (!forward->units)
        return;
    stk__hidden_zero(forward->gru, &s->forward, 0, columns[0].count);
    for (size_t at = 0; at < longest; at++)
        read_column(m, forward, s, &columns[at], at, &s->forward, &s->kept_forward);
}

static void project_column(const stk__g2p_reader *r, const stk__hidden *kept, const column *c, float *out, size_t width)
{
    if (!r->units)
        return;
    const stk__hidden h = hidden_from(kept, c->first, r->padded);
    stk__dense_run(r->projection, &h, c->count, out, width, 1);
}

static void decode_column(const stk__g2p_aligned *a, stk__g2p_scratch *s, const column *c, size_t at)
{
    const size_t width = a->letters.width;
    for (size_t i = 0; i < c->count; i++) {
        float *input = s->decoder_inputs + i * width;
        stk__g2p_window_sum(&a->letters, s->text[i] + at, input);
        s->rows[i] = input;
        s->others[i] = stk__g2p_table_row(&a->previous, (size_t)s->best[i]);
    }
    project_column(&a->backward, &s->kept_backward, c, s->decoder_inputs, width);
    project_column(&a->forward, &s->kept_forward, c, s->decoder_inputs, width);
    stk__gru_step(a->decoder, s->rows, s->others, c->count, &s->decoder);
    stk__dense_argmax(a->output, &s->decoder, c->count, s->best);
}

static void aligned_batch(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch)
{
    const stk__g2p_aligned *a = &m->of.aligned;
    column columns[STK__G2P_BLOCK];
    const size_t longest = set_columns(batch, columns);
    take_words(m, s, batch);
    read_words(m, s, columns, longest);
    stk__hidden_zero(a->decoder, &s->decoder, 0, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        s->best[i] = (int32_t)a->classes;
    for (size_t at = 0; at < longest; at++) {
        decode_column(a, s, &columns[at], at);
        for (size_t i = 0; i < columns[at].count; i++)
            say(a, s->best[i], &batch->answers[batch->order[i]]);
    }
}

const stk__g2p_kind stk__g2p_aligned_kind = {
    .batch_least = 4,
    .most_ids = aligned_most_ids,
    .carve = aligned_carve,
    .one = aligned_one,
    .batch = aligned_batch,
    .bytes = aligned_bytes,
    .clear = aligned_clear,
};
