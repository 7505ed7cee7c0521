/* The part of a GRU's input that comes from the letters around a place: read from a model file, added up row by row. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "g2p/model_impl.h"
#include "kernels/row_sum.h"

#include "base/banned.h"

/* Rows of a file, gates r z n one after the other, in the kernels' order: runs of 16 units stay together. */
static void order_row(const void *in, size_t item, int units, size_t width, void *out)
{
    memset(out, 0, width * item);
    for (int gate = 0; gate < 3; gate++)
        for (int u = 0; u < units; u += STK__GRU_LANES) {
            const size_t run = (size_t)STK_MIN(STK__GRU_LANES, units - u) * item;
            memcpy((char *)out + (size_t)stk__gru_input_at(gate, u) * item,
                   (const char *)in + ((size_t)gate * (size_t)units + (size_t)u) * item, run);
        }
}

/* Rows `first` and on of the window, of an array of floats or of 8-bit numbers with NAME_scale. */
static stk_status read_rows(const stk__npz *npz, const char *name, const int64_t shape[3], int units, size_t first,
                            stk__g2p_window *w, stk_error *err)
{
    const stk__npy *a;
    float *values;
    const size_t rows = (size_t)shape[0] * (size_t)shape[1], row = (size_t)shape[2];
    STK_TRY(stk__g2p_find(npz, name, 3, &a, err));
    if ((a->type == STK__NPY_I8) != (w->bytes != NULL))
        return stk__g2p_bad(err, name, "is of another type than the other letters of its GRU");
    if (w->bytes) {
        const int8_t *bytes;
        STK_TRY(stk__g2p_int8(npz, name, 3, shape, &bytes, &values, err));
        for (size_t r = 0; r < rows; r++)
            order_row(bytes + r * row, 1, units, w->width, w->bytes + (first + r) * w->width);
        memcpy(w->scales + first, values, rows * sizeof *values);
    } else {
        STK_TRY(stk__g2p_floats(npz, name, 3, shape, &values, err));
        for (size_t r = 0; r < rows; r++)
            order_row(values + r * row, sizeof *values, units, w->width, w->floats + (first + r) * w->width);
    }
    stk__free(values);
    return STK_OK;
}

/* The places of the tables: NAME_at, else a window around the letter. */
static stk_status read_places(const stk__npz *npz, const char *prefix, stk__g2p_window *w, stk_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "%s_at", prefix);
    for (size_t i = 0; i < w->places; i++)
        w->at[i] = (int8_t)((int)i - (int)(w->places / 2));
    if (!stk__npz_find(npz, name))
        return w->places % 2 ? STK_OK : stk__g2p_bad(err, name, "is missing: an even number of letters has no middle");
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, name, 1, &a, err));
    if (a->type != STK__NPY_I8 || a->elements != w->places)
        return stk__g2p_bad(err, name, "has %zu items, wanted %zu of int8", a->elements, w->places);
    memcpy(w->at, a->data, w->places);
    for (size_t i = 0; i < w->places; i++)
        if (w->at[i] < -STK__G2P_SIDE || w->at[i] > STK__G2P_SIDE)
            return stk__g2p_bad(err, name, "has place %d, wanted %d to %d", w->at[i], -STK__G2P_SIDE, STK__G2P_SIDE);
    return STK_OK;
}

static stk_status read_pair_place(const stk__npz *npz, const char *prefix, stk__g2p_window *w, stk_error *err)
{
    char name[64];
    const stk__npy *a;
    snprintf(name, sizeof name, "%s_pairs_at", prefix);
    STK_TRY(stk__g2p_find(npz, name, 1, &a, err));
    const int8_t *at = a->data;
    if (a->type != STK__NPY_I8 || a->elements != 1 || at[0] < -STK__G2P_SIDE || at[0] > STK__G2P_SIDE)
        return stk__g2p_bad(err, name, "is not one place from %d to %d", -STK__G2P_SIDE, STK__G2P_SIDE);
    w->pair_at = at[0];
    return STK_OK;
}

static stk_status make_room(stk__g2p_window *w, size_t rows, bool int8, stk_error *err)
{
    const size_t size = rows * w->width * (int8 ? 1 : sizeof(float));
    w->rows = rows;
    if (!int8) {
        w->floats = stk__alloc_aligned(size);
        return w->floats ? STK_OK : stk__nomem(size, err);
    }
    w->bytes = stk__alloc_aligned(size);
    w->scales = stk__alloc(rows * sizeof *w->scales);
    return w->bytes && w->scales ? STK_OK : stk__nomem(size, err);
}

stk_status stk__g2p_read_window(const stk__npz *npz, const char *prefix, size_t ids, int units, stk__g2p_window *w,
                                stk_error *err)
{
    char in[64], pairs[64];
    const stk__npy *a;
    snprintf(in, sizeof in, "%s_in", prefix);
    snprintf(pairs, sizeof pairs, "%s_pairs", prefix);
    STK_TRY(stk__g2p_find(npz, in, 3, &a, err));
    if (a->shape[0] < 1 || a->shape[0] > STK__G2P_WINDOW_MAX)
        return stk__g2p_bad(err, in, "is for %lld letters, wanted 1 to %d", (long long)a->shape[0],
                            STK__G2P_WINDOW_MAX);
    w->ids = ids;
    w->width = 3 * (size_t)stk__gru_padded(units);
    w->places = (size_t)a->shape[0];
    w->pairs = stk__npz_find(npz, pairs) != NULL;
    STK_TRY(read_places(npz, prefix, w, err));
    if (w->pairs)
        STK_TRY(read_pair_place(npz, prefix, w, err));
    const int64_t wide = 3 * (int64_t)units, letters = (int64_t)ids;
    const size_t single = w->places * ids;
    STK_TRY(make_room(w, single + (w->pairs ? ids * ids : 0), a->type == STK__NPY_I8, err));
    STK_TRY(read_rows(npz, in, (int64_t[]){a->shape[0], letters, wide}, units, 0, w, err));
    if (w->pairs)
        STK_TRY(read_rows(npz, pairs, (int64_t[]){letters, letters, wide}, units, single, w, err));
    return STK_OK;
}

void stk__g2p_window_clear(stk__g2p_window *w)
{
    stk__free(w->floats);
    stk__free(w->bytes);
    stk__free(w->scales);
    *w = (stk__g2p_window){0};
}

size_t stk__g2p_window_bytes(const stk__g2p_window *w)
{
    return w->rows * (w->bytes ? w->width + sizeof *w->scales : w->width * sizeof *w->floats);
}

void stk__g2p_window_sum(const stk__g2p_window *w, const uint8_t *letter, float *out)
{
    size_t row[STK__G2P_WINDOW_MAX + 1], count = w->places;
    for (size_t i = 0; i < count; i++)
        row[i] = i * w->ids + letter[w->at[i]];
    if (w->pairs)
        row[count++] = (w->places + letter[0]) * w->ids + letter[w->pair_at];
    if (w->bytes) {
        const int8_t *rows[STK__G2P_WINDOW_MAX + 1];
        float scales[STK__G2P_WINDOW_MAX + 1];
        for (size_t i = 0; i < count; i++) {
            rows[i] = w->bytes + row[i] * w->width;
            scales[i] = w->scales[row[i]];
        }
        stk__row_sum_int8(rows, scales, count, w->width, out);
        return;
    }
    const float *rows[STK__G2P_WINDOW_MAX + 1];
    for (size_t i = 0; i < count; i++)
        rows[i] = w->floats + row[i] * w->width;
    stk__row_sum_float(rows, count, w->width, out);
}
