/* Loads models of either kind, and brings words through them: sorted by length, in batches, answers in their order. */
#include "g2p/model.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "g2p/model_impl.h"

#include "base/banned.h"

/* More than the largest model needs: five matrices of 3 * 1024 * 1024 floats, and tables. */
#define UNPACKED_MAX ((size_t)128 << 20)

/* In the file that scripts/embed.py makes of models/g2p/en_us.npz. */
extern const unsigned char stk__g2p_en_us[];
extern const size_t stk__g2p_en_us_size;

void stk__g2p_model_builtin(const void **out_data, size_t *out_size)
{
    *out_data = stk__g2p_en_us;
    *out_size = stk__g2p_en_us_size;
}

/* ---- loading ---- */

static stk_status read_model(const stk__npz *npz, stk__g2p_model *m, stk_error *err)
{
    if (stk__npz_find(npz, "enc_w_hh")) {
        m->kind = &stk__g2p_seq2seq_kind;
        return stk__g2p_seq2seq_read(npz, m, err);
    }
    if (stk__npz_find(npz, "dec_prev")) {
        m->kind = &stk__g2p_aligned_kind;
        return stk__g2p_aligned_read(npz, m, err);
    }
    return stk_error_set(err, STK_CORRUPT,
                         "no model: %zu arrays, but neither enc_w_hh of g2p_en nor dec_prev of our own kind",
                         npz->count);
}

stk_status stk__g2p_model_new(const void *data, size_t size, const char *name, stk__precision precision,
                              stk__g2p_model **out, stk_error *err)
{
    stk__npz npz = {0};
    stk__g2p_model *m = stk__calloc(1, sizeof *m);
    stk_status status = m ? stk__npz_parse(data, size, UNPACKED_MAX, &npz, err) : stk__nomem(sizeof *m, err);
    if (status == STK_OK) {
        m->precision = precision;
        status = read_model(&npz, m, err);
    }
    stk__npz_clear(&npz);
    if (status == STK_OK) {
        *out = m;
        return STK_OK;
    }
    if (err)
        snprintf(err->file, sizeof err->file, "%s", name);
    stk__g2p_model_free(m);
    return status;
}

void stk__g2p_model_free(stk__g2p_model *m)
{
    if (m && m->kind)
        m->kind->clear(m);
    stk__free(m);
}

size_t stk__g2p_model_bytes(const stk__g2p_model *m)
{
    return sizeof *m + m->kind->bytes(m);
}

/* ---- memory of a call ---- */

typedef struct work {
    uint8_t *ids;
    size_t ids_capacity;
    char *block; /* aligned to 64 */
    size_t block_size;
} work;

void stk__g2p_work_clear(stk__g2p_work *w)
{
    work *impl = w->impl;
    if (impl) {
        stk__free(impl->ids);
        stk__free(impl->block);
    }
    stk__free(impl);
    w->impl = NULL;
}

void *stk__g2p_carve(stk__g2p_carver *c, size_t count, size_t size)
{
    enum { ALIGNMENT = 64 };
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

stk__hidden stk__g2p_carve_hidden(stk__g2p_carver *c, size_t rows, int padded, stk__precision precision)
{
    stk__hidden h = {.f = stk__g2p_carve(c, rows * (size_t)padded, sizeof *h.f)};
    if (precision == STK__PRECISION_INT8)
        h.q = stk__g2p_carve(c, rows * (size_t)padded, sizeof *h.q);
    return h;
}

static void carve(const stk__g2p_model *m, size_t longest, size_t count, stk__g2p_carver *c, stk__g2p_scratch *out)
{
    *out = (stk__g2p_scratch){0};
    if (count > 1)
        out->order = stk__g2p_carve(c, STK_MIN(count, (size_t)STK__G2P_SORTED), sizeof *out->order);
    m->kind->carve(m, longest, STK_MIN(count, (size_t)STK__G2P_BATCH), c, out);
}

/* Memory for ids, and for the longest word and the largest batch of a call. */
static stk_status reserve(const stk__g2p_model *m, work *w, size_t ids, size_t longest, size_t count,
                          stk__g2p_scratch *out, stk_error *err)
{
    if (!stk__grow((void **)&w->ids, &w->ids_capacity, ids, 1))
        return stk__nomem(ids, err);
    stk__g2p_carver c = {0};
    carve(m, longest, count, &c, out);
    if (c.used > w->block_size) {
        stk__free(w->block);
        w->block_size = 0;
        w->block = stk__alloc_aligned(c.used);
        if (!w->block)
            return stk__nomem(c.used, err);
        w->block_size = c.used;
    }
    c = (stk__g2p_carver){.base = w->block};
    carve(m, longest, count, &c, out);
    return STK_OK;
}

/* ---- prediction ---- */

/* Sorts the words that fit into a block, the longest first, and does the others. Returns how many there are to batch. */
static size_t sort_words(const stk__g2p_model *m, stk__g2p_scratch *s, const stk_bytes *words, size_t count,
                         stk__g2p_answer *answers)
{
    size_t starts[STK__G2P_BLOCK + 1] = {0}, at = 0;
    for (size_t i = 0; i < count; i++) {
        if (words[i].size > STK__G2P_BLOCK)
            m->kind->one(m, s, words[i].data, (size_t)words[i].size, &answers[i]);
        else
            starts[words[i].size]++;
    }
    for (size_t size = STK__G2P_BLOCK; size >= 1; size--) {
        const size_t here = starts[size];
        starts[size] = at;
        at += here;
    }
    for (size_t i = 0; i < count; i++)
        if (words[i].size >= 1 && words[i].size <= STK__G2P_BLOCK)
            s->order[starts[words[i].size]++] = (uint16_t)i;
    return at;
}

/* How many of the words next in order make a batch. */
static size_t batch_count(const stk_bytes *words, const uint16_t *order, size_t count)
{
    size_t n = 0, letters = 0;
    while (n < count && n < STK__G2P_BATCH) {
        letters += (size_t)words[order[n]].size;
        if (letters > STK__G2P_BATCH_LETTERS)
            break;
        n++;
    }
    return n;
}

static void predict_many(const stk__g2p_model *m, stk__g2p_scratch *s, const stk_bytes *words, size_t count,
                         stk__g2p_answer *answers)
{
    const size_t sorted = sort_words(m, s, words, count, answers);
    for (size_t at = 0; at < sorted;) {
        const size_t n = batch_count(words, s->order + at, sorted - at);
        if (n >= m->kind->batch_least)
            m->kind->batch(m, s, &(stk__g2p_batch){words, answers, s->order + at, n});
        for (size_t i = at; i < at + n && n < m->kind->batch_least; i++)
            m->kind->one(m, s, words[s->order[i]].data, (size_t)words[s->order[i]].size, &answers[s->order[i]]);
        at += n;
    }
}

/* The sum of ids that answers can have and the longest word. */
static stk_status measure(const stk__g2p_model *m, const stk_bytes *words, size_t count, size_t *out_ids,
                          size_t *out_longest, stk_error *err)
{
    size_t ids = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        if (words[i].size < 0 || words[i].size > STK__G2P_WORD_MAX) {
            stk_error_set(err, STK_INVALID, "word %zu has %lld letters, wanted at most %d", i, (long long)words[i].size,
                          STK__G2P_WORD_MAX);
            return STK_INVALID;
        }
        longest = STK_MAX(longest, (size_t)words[i].size);
        ids += m->kind->most_ids(m, (size_t)words[i].size);
    }
    *out_ids = ids;
    *out_longest = longest;
    return STK_OK;
}

stk_status stk__g2p_model_predict(const stk__g2p_model *m, stk__g2p_work *w, const stk_bytes *words, size_t count,
                                  stk__g2p_answer *answers, stk_error *err)
{
    size_t ids, longest;
    stk__g2p_scratch s;
    STK_TRY(measure(m, words, count, &ids, &longest, err));
    if (!w->impl && !(w->impl = stk__calloc(1, sizeof(work))))
        return stk__nomem(sizeof(work), err);
    work *impl = w->impl;
    STK_TRY(reserve(m, impl, ids, longest, count, &s, err));
    const uint8_t *next = impl->ids;
    for (size_t i = 0; i < count; i++) {
        answers[i] = (stk__g2p_answer){.ids = next};
        next += m->kind->most_ids(m, (size_t)words[i].size);
    }
    for (size_t i = 0; i < count; i += STK__G2P_SORTED) {
        const size_t n = STK_MIN(count - i, (size_t)STK__G2P_SORTED);
        if (n > 1)
            predict_many(m, &s, words + i, n, answers + i);
        else if (words[i].size > 0)
            m->kind->one(m, &s, words[i].data, (size_t)words[i].size, &answers[i]);
    }
    return STK_OK;
}
