/* Small models of both kinds for tests, with random weights or with weights set by hand. */
#ifndef TESTS_G2P_MODELS_H
#define TESTS_G2P_MODELS_H

#include <math.h>
#include <stdlib.h>

#include <stoker/types.h>

#include "base/rng.h"
#include "npz_files.h"

typedef struct model_array {
    const char *name, *descr;
    int shape[5]; /* ends with -1 */
    void *data;
} model_array;

typedef struct model_arrays {
    model_array items[24];
    size_t count;
} model_arrays;

/* Numbers of about that size; 0 gives zeros. */
static inline float *model_add(model_arrays *m, const char *name, float size, int a, int b, int c)
{
    size_t elements = 1;
    model_array *array = &m->items[m->count];
    *array = (model_array){name, "<f4", {a, b, c, -1, -1}, NULL};
    for (int i = 0; array->shape[i] >= 0; i++)
        elements *= (size_t)array->shape[i];
    float *data = calloc(elements, sizeof *data);
    for (size_t i = 0; data && i < elements; i++)
        data[i] = size * ((float)(stk__mix(m->count, i) >> 40) / (float)(1 << 23) - 1);
    array->data = data;
    m->count++;
    return data;
}

static inline void model_add_text(model_arrays *m, const char *name, const char *text)
{
    m->items[m->count++] = (model_array){name, "|u1", {(int)strlen(text), -1, -1, -1, -1}, strdup(text)};
}

/* Places of letters: 8-bit numbers. */
static inline void model_add_places(model_arrays *m, const char *name, int count, const int8_t *places)
{
    m->items[m->count] = (model_array){name, "|i1", {count, -1, -1, -1, -1}, malloc((size_t)count + 1)};
    if (m->items[m->count].data)
        memcpy(m->items[m->count].data, places, (size_t)count);
    m->count++;
}

static inline model_array *model_find(model_arrays *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->items[i].name, name) == 0)
            return &m->items[i];
    return NULL;
}

static inline float *model_floats(model_arrays *m, const char *name)
{
    return model_find(m, name)->data;
}

static inline void model_replace_text(model_arrays *m, const char *name, const char *text)
{
    model_array *array = model_find(m, name);
    free(array->data);
    array->data = strdup(text);
    array->shape[0] = (int)strlen(text);
}

/* The file; `skip` is left out where it is not NULL. Clear it with npz_clear. */
static inline npz_maker model_file(const model_arrays *m, const char *skip)
{
    npz_maker file = {0};
    for (size_t i = 0; i < m->count; i++)
        if (!skip || strcmp(m->items[i].name, skip) != 0)
            npz_add(&file, m->items[i].name, m->items[i].descr, m->items[i].shape, m->items[i].data,
                    i % 2 ? NPZ_ZIP64 : NPZ_DEFLATED);
    npz_finish(&file);
    return file;
}

static inline void model_clear(model_arrays *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->items[i].data);
    *m = (model_arrays){0};
}

/* g2p_en's kind. */
static inline model_arrays seq2seq_arrays(float size, int units, int embedding)
{
    model_arrays m = {0};
    const float around = size * 3 / sqrtf((float)units);
    model_add(&m, "enc_emb", size, 29, embedding, -1);
    model_add(&m, "enc_w_ih", size, 3 * units, embedding, -1);
    model_add(&m, "enc_w_hh", around, 3 * units, units, -1);
    model_add(&m, "enc_b_ih", size, 3 * units, -1, -1);
    model_add(&m, "enc_b_hh", size, 3 * units, -1, -1);
    model_add(&m, "dec_emb", size, 74, embedding, -1);
    model_add(&m, "dec_w_ih", size, 3 * units, embedding, -1);
    model_add(&m, "dec_w_hh", around, 3 * units, units, -1);
    model_add(&m, "dec_b_ih", size, 3 * units, -1, -1);
    model_add(&m, "dec_b_hh", size, 3 * units, -1, -1);
    model_add(&m, "fc_w", size * 3, 74, units, -1);
    model_add(&m, "fc_b", size, 74, -1, -1);
    return m;
}

typedef struct aligned_shape {
    int window, backward, forward, decoder;
} aligned_shape;

/* Our own kind: letters a to d, six classes. */
static inline model_arrays aligned_arrays(float size, aligned_shape s)
{
    enum { IDS = 6, CLASSES = 6 };
    model_arrays m = {0};
    model_add_text(&m, "letters", "abcd");
    model_add_text(&m, "chunks", "\nAA1\nB\nK S\nW AH1 N\nZH");
    model_add(&m, "bwd_in", size, s.window, IDS, 3 * s.backward);
    model_add(&m, "bwd_hh", size * 3 / sqrtf((float)s.backward), 3 * s.backward, s.backward, -1);
    model_add(&m, "bwd_hn", size, s.backward, -1, -1);
    model_add(&m, "dec_bwd", size, 3 * s.decoder, s.backward, -1);
    if (s.forward) {
        model_add(&m, "fwd_in", size, s.window, IDS, 3 * s.forward);
        model_add(&m, "fwd_hh", size * 3 / sqrtf((float)s.forward), 3 * s.forward, s.forward, -1);
        model_add(&m, "fwd_hn", size, s.forward, -1, -1);
        model_add(&m, "dec_fwd", size, 3 * s.decoder, s.forward, -1);
    }
    model_add(&m, "dec_in", size, s.window, IDS, 3 * s.decoder);
    model_add(&m, "dec_prev", size, CLASSES + 1, 3 * s.decoder, -1);
    model_add(&m, "dec_hh", size * 3 / sqrtf((float)s.decoder), 3 * s.decoder, s.decoder, -1);
    model_add(&m, "dec_hn", size, s.decoder, -1, -1);
    model_add(&m, "out_w", size, CLASSES, s.decoder, -1);
    model_add(&m, "out_b", size, CLASSES, -1, -1);
    return m;
}

/* Words of letters a to e, of which the small models do not know the last; lengths are mixed, some 0 and some long. */
static inline void model_words(char *text, size_t text_size, stk_bytes *words, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < text_size; i++)
        text[i] = (char)('a' + stk__mix(5, i) % (i % 7 ? 4 : 5));
    for (size_t i = 0; i < count; i++) {
        const uint64_t draw = stk__mix(6, i);
        const size_t size = draw % 50 == 0 ? 300 : draw % 20 == 0 ? 0 : draw % 11 == 0 ? 60 : 1 + draw / 64 % 12;
        if (at + size > text_size)
            at = 0;
        words[i] = (stk_bytes){(const uint8_t *)text + at, (int64_t)size};
        at += size;
    }
}

#endif
