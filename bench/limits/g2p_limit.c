/*
 * What the chip allows with g2p_en's net: reads its weights as often as one word after the other must (read8, read32), or
 * does the multiplications of a batch with nothing to fetch (multiply8). Prints JSON; words/s is the limit.
 */
#include <stdint.h>

#include "g2p_words.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

enum { UNITS = 256, PHONEMES = 74, PREFIX = 2 /* letters whose state the library looks up */ };

typedef long long lanes __attribute__((vector_size(64)));

typedef struct steps {
    double encoder, decoder; /* of all words */
} steps;

static steps count_steps(const word_list *list)
{
    steps s = {0};
    for (size_t i = 0; i < list->count; i++) {
        const size_t letters = strlen(list->words[i]);
        s.encoder += (double)(letters + 1) - (letters < PREFIX ? 0 : PREFIX);
        s.decoder += 1 + (list->wanted[i][0] != 0);
        for (const char *p = list->wanted[i]; *p; p++)
            s.decoder += *p == ' ';
    }
    return s;
}

/* ---- bytes ---- */

static lanes read_through(const char *data, size_t size, lanes sum)
{
    const lanes *p = (const lanes *)(const void *)data;
    lanes a = sum, b = sum, c = sum, d = sum;
    for (size_t i = 0; i < size / sizeof *p; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    return a ^ b ^ c ^ d;
}

/* Every word has the mean number of steps; the rest of a step is carried on to the next word. */
static double run_reads(const steps *s, size_t words, size_t width, double limit)
{
    const size_t cell = (size_t)3 * UNITS * UNITS * width, output = (size_t)PHONEMES * UNITS * width / 256 * 256;
    char *data = aligned_alloc(4096, 2 * cell + (output + 4095) / 4096 * 4096);
    if (!data)
        give_up("memory is out", "aligned_alloc");
    memset(data, 1, 2 * cell + output);
    lanes sum = {0};
    double encode = 0, decode = 0, done = 0;
    const double start = seconds_now();
    for (; seconds_now() - start < limit; done++) {
        for (encode += s->encoder / (double)words; encode >= 1; encode--)
            sum = read_through(data, cell, sum);
        for (decode += s->decoder / (double)words; decode >= 1; decode--)
            sum = read_through(data + cell, cell + output, sum);
    }
    const double seconds = seconds_now() - start;
    volatile long long keep = sum[0];
    (void)keep;
    free(data);
    return done / seconds;
}

/* ---- products ---- */

#if defined(__AVX512VNNI__)
static double run_products(const steps *s, size_t words, double limit)
{
    const double per_word =
        (s->encoder * 3 * UNITS * UNITS + s->decoder * (3 * UNITS + PHONEMES) * UNITS) / (double)words;
    enum { SUMS = 12, TURNS = 4096 };
    __m512i sums[SUMS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
    for (int k = 0; k < SUMS; k++)
        sums[k] = _mm512_setzero_si512();
    double products = 0;
    const double start = seconds_now();
    while (seconds_now() - start < limit) {
        for (int i = 0; i < TURNS; i++) {
            for (int k = 0; k < SUMS; k++)
                sums[k] = _mm512_dpbusd_epi32(sums[k], a, b);
            __asm__ volatile("" : "+v"(a), "+v"(b));
        }
        products += (double)SUMS * TURNS * 64;
    }
    const double seconds = seconds_now() - start;
    for (int k = 1; k < SUMS; k++)
        sums[0] = _mm512_add_epi32(sums[0], sums[k]);
    volatile int keep = _mm512_reduce_add_epi32(sums[0]);
    (void)keep;
    return products / per_word / seconds;
}
#else
static double run_products(const steps *s, size_t words, double limit)
{
    give_up("this CPU has no AVX-512 VNNI", "multiply8");
    return 0;
}
#endif

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "Usage: g2p_limit read8|read32|multiply8 WORDS SECONDS\n");
        return 2;
    }
    const word_list list = read_words(argv[2], 0);
    const steps s = count_steps(&list);
    const double limit = strtod(argv[3], NULL);
    double rate;
    if (strcmp(argv[1], "multiply8") == 0)
        rate = run_products(&s, list.count, limit);
    else
        rate = run_reads(&s, list.count, strcmp(argv[1], "read32") == 0 ? 4 : 1, limit);
    printf("{\"words_per_s\": %.1f, \"encoder_steps\": %.3f, \"decoder_steps\": %.3f}\n", rate,
           s.encoder / (double)list.count, s.decoder / (double)list.count);
    return 0;
}
