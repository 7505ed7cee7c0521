/* What the kinds of models share: their parts, the reading of their arrays, the memory of a call. */
#ifndef STK_G2P_MODEL_IMPL_H
#define STK_G2P_MODEL_IMPL_H

#include "formats/npz.h"
#include "g2p/model.h"

enum {
    STK__G2P_UNITS_MAX = 1024,
    STK__G2P_CHUNKS_MAX = 1024,
    STK__G2P_WINDOW_MAX = 9, /* letters that add to an input, and how far away they may be */
    STK__G2P_SIDE = 4,
    STK__G2P_LETTERS_MAX = 64,
    STK__G2P_CHUNK_PHONEMES = 3,
    STK__G2P_BATCH = 64, /* words that go through a model together */
    STK__G2P_BLOCK = 64, /* letters of one word that are worked on together; longer words are no part of a batch */
    STK__G2P_BATCH_LETTERS = 1024, /* at most in a batch; no less than a block */
    STK__G2P_SORTED = 8192         /* words that are sorted by length together */
};

/* ---- input tables ---- */

/* Rows of inputs of a GRU, in the order of the kernels. */
typedef struct stk__g2p_table {
    float *rows; /* [ids][width] */
    size_t ids;
    size_t width; /* floats of a row: 3 * padded units */
} stk__g2p_table;

static inline const float *stk__g2p_table_row(const stk__g2p_table *t, size_t id)
{
    return t->rows + id * t->width;
}

/* Its parts are freed on failure too. */
void stk__g2p_table_clear(stk__g2p_table *t);
size_t stk__g2p_table_bytes(const stk__g2p_table *t);

/* What the letters around a place add to a GRU's input: a row for each letter at each of some places, perhaps one for a
   letter and its neighbour together. 8-bit rows stay so, to stay in the cache. */
typedef struct stk__g2p_window {
    int8_t *bytes; /* [places][ids][width], then [ids][ids][width] for pairs; NULL: floats has them */
    float *scales; /* of the rows of bytes */
    float *floats;
    size_t rows, ids, width, places;
    int8_t at[STK__G2P_WINDOW_MAX]; /* how far from the letter */
    bool pairs;
    int pair_at;
} stk__g2p_window;

/* The sum for a letter; ids of others lie before and behind it, STK__G2P_SIDE of them. */
void stk__g2p_window_sum(const stk__g2p_window *w, const uint8_t *letter, float *out);
void stk__g2p_window_clear(stk__g2p_window *w);
size_t stk__g2p_window_bytes(const stk__g2p_window *w);

/* ---- arrays of a file; errors name the array ---- */

/* Sets CORRUPT at an array. */
stk_status stk__g2p_bad(stk_error *err, const char *array, const char *format, ...) STK_PRINTF(3, 4);
/* The array of that name, of so many dimensions. */
stk_status stk__g2p_find(const stk__npz *npz, const char *name, int ndim, const stk__npy **out, stk_error *err);
/* The length of a float32 vector, in [1, max]. */
stk_status stk__g2p_length(const stk__npz *npz, const char *name, int64_t max, int *out, stk_error *err);
/* All of an array of the shape wanted as floats, which are finite and of sensible size; free with stk__free. */
stk_status stk__g2p_floats(const stk__npz *npz, const char *name, int ndim, const int64_t *shape, float **out,
                           stk_error *err);
/* An array of 8-bit numbers as it is, and the factors of its rows, which stk__free frees. */
stk_status stk__g2p_int8(const stk__npz *npz, const char *name, int ndim, const int64_t *shape, const int8_t **out,
                         float **out_scale, stk_error *err);
/* [ids][3 * units] in the order of training, with the kernels' order made of it. */
stk_status stk__g2p_read_rows(const stk__npz *npz, const char *name, size_t ids, int units, stk__g2p_table *out,
                              stk_error *err);
/* The same from floats. */
stk_status stk__g2p_make_table(const float *rows, size_t ids, int units, stk__g2p_table *out, stk_error *err);
/* PREFIX_in with PREFIX_at, PREFIX_pairs with PREFIX_pairs_at. What was read is left in `out` on failure. */
stk_status stk__g2p_read_window(const stk__npz *npz, const char *prefix, size_t ids, int units, stk__g2p_window *out,
                                stk_error *err);

/* ---- kinds ---- */

/* g2p_en's encoder and decoder. */
typedef struct stk__g2p_seq2seq {
    int units;
    stk__gru *encoder, *decoder;
    stk__dense *output;
    stk__g2p_table letters, phonemes;
    stk__hidden pairs; /* the encoder's state after any two letters, or a letter and the end */
} stk__g2p_seq2seq;

/* An encoder of our own model, which reads the word in one direction, and its way into the decoder. */
typedef struct stk__g2p_reader {
    int units, padded; /* 0: the model has no such reader */
    stk__gru *gru;
    stk__g2p_window letters;
    stk__dense *projection;
} stk__g2p_reader;

/* Our own: one chunk of phonemes for each letter. */
typedef struct stk__g2p_aligned {
    int units, padded; /* of the decoder */
    stk__g2p_reader backward, forward;
    stk__gru *decoder;
    stk__dense *output;
    stk__g2p_window letters;
    stk__g2p_table previous;
    size_t classes;
    uint8_t (*chunks)[1 + STK__G2P_CHUNK_PHONEMES]; /* how many phonemes, then these */
} stk__g2p_aligned;

/* Words of one batch, the longest first; none is longer than a block. */
typedef struct stk__g2p_batch {
    const stk_bytes *words;
    stk__g2p_answer *answers; /* ids points at memory for as many as there can be */
    const uint16_t *order;    /* of both arrays, count items */
    size_t count;
} stk__g2p_batch;

/* The memory of a call, cut up for the model. */
typedef struct stk__g2p_scratch {
    uint16_t *order;      /* STK__G2P_SORTED */
    const float **rows;   /* inputs of one step, or of one block: as many as either has */
    const float **others; /* second inputs of one step */
    int32_t *best;
    uint16_t *slots;      /* which word of the batch a row is */
    const uint8_t **text; /* ids of the letters of each word of the batch */
    stk__hidden backward, forward, decoder;
    stk__hidden kept_backward, kept_forward; /* a batch's states of all letters */
    uint8_t *letters;                        /* ids with a margin for the window around each word */
    float *reader_inputs, *decoder_inputs;   /* sums of rows */
} stk__g2p_scratch;

/* Hands out pieces of one block of memory; with base NULL it only adds up. */
typedef struct stk__g2p_carver {
    char *base;
    size_t used;
} stk__g2p_carver;

void *stk__g2p_carve(stk__g2p_carver *c, size_t count, size_t size);
/* The 8-bit form is there for INT8 alone. */
stk__hidden stk__g2p_carve_hidden(stk__g2p_carver *c, size_t rows, int padded, stk__precision precision);

typedef struct stk__g2p_kind {
    size_t batch_least;                                          /* fewer words are done one by one, which is faster */
    size_t (*most_ids)(const stk__g2p_model *m, size_t letters); /* that an answer can have */
    void (*carve)(const stk__g2p_model *m, size_t longest, size_t count, stk__g2p_carver *c, stk__g2p_scratch *out);
    void (*one)(const stk__g2p_model *m, stk__g2p_scratch *s, const uint8_t *word, size_t size,
                stk__g2p_answer *answer);
    void (*batch)(const stk__g2p_model *m, stk__g2p_scratch *s, const stk__g2p_batch *batch);
    size_t (*bytes)(const stk__g2p_model *m);
    void (*clear)(stk__g2p_model *m);
} stk__g2p_kind;

extern const stk__g2p_kind stk__g2p_seq2seq_kind, stk__g2p_aligned_kind;

/* What was read is left in the model on failure, for `clear`. */
stk_status stk__g2p_seq2seq_read(const stk__npz *npz, stk__g2p_model *m, stk_error *err);
stk_status stk__g2p_aligned_read(const stk__npz *npz, stk__g2p_model *m, stk_error *err);

struct stk__g2p_model {
    const stk__g2p_kind *kind;
    stk__precision precision;
    uint8_t letter_ids[256];
    union {
        stk__g2p_seq2seq seq2seq;
        stk__g2p_aligned aligned;
    } of;
};

enum { STK__G2P_UNKNOWN_LETTER = 1 }; /* the same in both kinds */

#endif
