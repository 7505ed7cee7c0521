/* The limit of running text: only splits words, folds their case and hashes them; nothing is looked up or kept. */
#include <stdint.h>

#include "g2p_words.h"

/* Lower case of letters and the apostrophe; 0 for what ends a word. */
static void make_fold(unsigned char fold[256])
{
    memset(fold, 0, 256);
    for (int c = 'a'; c <= 'z'; c++)
        fold[c] = fold[c - 'a' + 'A'] = (unsigned char)c;
    fold['\''] = '\'';
}

/* FNV-1a, a byte at a time, which is what the split does anyhow. */
static size_t split(const char *text, size_t size, const unsigned char fold[256], uint64_t *out_sum)
{
    uint64_t sum = 0;
    size_t words = 0;
    for (size_t i = 0; i < size;) {
        uint64_t hash = 14695981039346656037u;
        const size_t start = i;
        for (unsigned char c; i < size && (c = fold[(unsigned char)text[i]]) != 0; i++)
            hash = (hash ^ c) * 1099511628211u;
        if (i > start) {
            words++;
            sum += hash;
        } else {
            i++;
        }
    }
    *out_sum = sum;
    return words;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "Usage: g2p_split TEXT SECONDS\n");
        return 2;
    }
    unsigned char fold[256];
    size_t size, words = 0;
    uint64_t hash = 0;
    make_fold(fold);
    char *text = read_all(argv[1], &size);
    const size_t text_words = split(text, size, fold, &hash);
    const double start = seconds_now(), cpu = cpu_now(), most = strtod(argv[2], NULL);
    while (seconds_now() - start < most)
        words += split(text, size, fold, &hash);
    const double seconds = seconds_now() - start;
    printf("{\"words_per_s\": %.1f, \"words\": %zu, \"seconds\": %.4f, \"cpu_per_1000\": %.3g, \"text_words\": %zu, "
           "\"hash\": \"%016llx\"}\n",
           (double)words / seconds, words, seconds, (cpu_now() - cpu) / (double)words * 1e3, text_words,
           (unsigned long long)hash);
    free(text);
    return 0;
}
