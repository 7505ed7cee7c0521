/*
 * The first steps of the g2p ladder, which are not in the library: g2p_en's net as one writes it down in C, one word at
 * a time. "plain" multiplies the embeddings in every step, as the original does; "tables" has these products from a
 * table. The compiler is free to vectorise (-O3 -march=native -ffast-math).
 */
#include <math.h>

#include "g2p_words.h"

enum { UNITS = 256, GATES = 3 * UNITS, LETTERS = 29, PHONEMES = 74, START = 2, END = 3, MOST_STEPS = 20 };

/* In the order of the file. */
typedef struct weights {
    float enc_emb[LETTERS][UNITS], enc_w_ih[GATES][UNITS], enc_w_hh[GATES][UNITS], enc_b_ih[GATES], enc_b_hh[GATES];
    float dec_emb[PHONEMES][UNITS], dec_w_ih[GATES][UNITS], dec_w_hh[GATES][UNITS], dec_b_ih[GATES], dec_b_hh[GATES];
    float fc_w[PHONEMES][UNITS], fc_b[PHONEMES];
} weights;

typedef struct tables {
    float enc[LETTERS][GATES], dec[PHONEMES][GATES];
} tables;

static void multiply(const float (*w)[UNITS], const float *b, int rows, const float *x, float *out)
{
    for (int i = 0; i < rows; i++) {
        float sum = 0;
        for (int k = 0; k < UNITS; k++)
            sum += w[i][k] * x[k];
        out[i] = sum + b[i];
    }
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* in: the input's part of the gates */
static void cell(const float *in, const float (*w_hh)[UNITS], const float *b_hh, float *h)
{
    float gates[GATES];
    multiply(w_hh, b_hh, GATES, h, gates);
    for (int i = 0; i < UNITS; i++) {
        const float r = sigmoid(in[i] + gates[i]), z = sigmoid(in[UNITS + i] + gates[UNITS + i]);
        const float n = tanhf(in[2 * UNITS + i] + r * gates[2 * UNITS + i]);
        h[i] = (1 - z) * n + z * h[i];
    }
}

static int letter_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 3 : c ? 1 : 2;
}

/* t: NULL in the plain form */
static int predict(const weights *w, const tables *t, const char *word, int *out)
{
    float h[UNITS] = {0}, in[GATES], logits[PHONEMES];
    for (const char *c = word;; c++) {
        const int letter = letter_of(*c);
        if (!t)
            multiply(w->enc_w_ih, w->enc_b_ih, GATES, w->enc_emb[letter], in);
        cell(t ? t->enc[letter] : in, w->enc_w_hh, w->enc_b_hh, h);
        if (!*c)
            break;
    }
    int last = START, count = 0;
    while (count < MOST_STEPS) {
        if (!t)
            multiply(w->dec_w_ih, w->dec_b_ih, GATES, w->dec_emb[last], in);
        cell(t ? t->dec[last] : in, w->dec_w_hh, w->dec_b_hh, h);
        multiply(w->fc_w, w->fc_b, PHONEMES, h, logits);
        last = 0;
        for (int i = 1; i < PHONEMES; i++)
            last = logits[i] > logits[last] ? i : last;
        if (last == END)
            break;
        out[count++] = last;
    }
    return count;
}

static tables *make_tables(const weights *w)
{
    tables *t = room(1, sizeof *t);
    for (int i = 0; i < LETTERS; i++)
        multiply(w->enc_w_ih, w->enc_b_ih, GATES, w->enc_emb[i], t->enc[i]);
    for (int i = 0; i < PHONEMES; i++)
        multiply(w->dec_w_ih, w->dec_b_ih, GATES, w->dec_emb[i], t->dec[i]);
    return t;
}

static int is_wanted(const int *ids, int count, const char *wanted)
{
    static const char names[PHONEMES][4] = {
        "",    "",    "",    "",    "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2", "AO0", "AO1",
        "AO2", "AW0", "AW1", "AW2", "AY0", "AY1", "AY2", "B",   "CH",  "D",   "DH",  "EH0", "EH1", "EH2", "ER0",
        "ER1", "ER2", "EY0", "EY1", "EY2", "F",   "G",   "HH",  "IH0", "IH1", "IH2", "IY0", "IY1", "IY2", "JH",
        "K",   "L",   "M",   "N",   "NG",  "OW0", "OW1", "OW2", "OY0", "OY1", "OY2", "P",   "R",   "S",   "SH",
        "T",   "TH",  "UH0", "UH1", "UH2", "UW",  "UW0", "UW1", "UW2", "V",   "W",   "Y",   "Z",   "ZH"};
    for (int i = 0; i < count; i++) {
        const size_t size = strlen(names[ids[i]]);
        if (strncmp(wanted, names[ids[i]], size) != 0 || (wanted[size] != ' ' && wanted[size] != 0))
            return 0;
        wanted += size + (wanted[size] == ' ');
    }
    return *wanted == 0;
}

int main(int argc, char **argv)
{
    if (argc != 6 || (strcmp(argv[1], "plain") != 0 && strcmp(argv[1], "tables") != 0)) {
        fprintf(stderr, "Usage: g2p_steps plain|tables WEIGHTS WORDS COUNT SECONDS\n");
        return 2;
    }
    size_t size;
    char *data = read_all(argv[2], &size);
    weights *w = room(1, sizeof *w);
    if (size != sizeof *w)
        give_up("is not what g2p_numpy.py prepares", argv[2]);
    memcpy(w, data, size);
    free(data);
    tables *t = argv[1][0] == 't' ? make_tables(w) : NULL;
    word_list list = read_words(argv[3], strtoul(argv[4], NULL, 10));
    int ids[MOST_STEPS];
    size_t equal = 0, words = 0;
    for (size_t i = 0; i < list.count; i++)
        equal += (size_t)is_wanted(ids, predict(w, t, list.words[i], ids), list.wanted[i]);
    const double start = seconds_now(), cpu = cpu_now(), most = strtod(argv[5], NULL);
    volatile int kept = 0;
    while (seconds_now() - start < most) {
        for (size_t i = 0; i < list.count; i++)
            kept = predict(w, t, list.words[i], ids);
        words += list.count;
    }
    (void)kept;
    print_rate(words, seconds_now() - start, cpu_now() - cpu, equal, list.count);
    words_free(&list);
    free(w);
    free(t);
    return 0;
}
