/* What the g2p benchmarks in C share: words with the answers of the original, the clock, and the line of JSON. */
#ifndef BENCH_G2P_WORDS_H
#define BENCH_G2P_WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct word_list {
    char *text;
    const char **words, **wanted; /* wanted: "AA1 R D V AA2 R K" by the original */
    size_t count;
} word_list;

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void give_up(const char *what, const char *which)
{
    fprintf(stderr, "g2p: %s: %s\n", what, which);
    exit(1);
}

static inline void *room(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p)
        give_up("memory is out", "calloc");
    return p;
}

/* The whole file, NUL-terminated. */
static inline char *read_all(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        give_up("cannot be read", path);
    const long size = ftell(f);
    rewind(f);
    char *data = room((size_t)size + 1, 1);
    if (fread(data, 1, (size_t)size, f) != (size_t)size)
        give_up("cannot be read", path);
    fclose(f);
    *out_size = (size_t)size;
    return data;
}

/* Lines of a word, a tab and its phonemes; at most `most` of them, 0: all. */
static inline word_list read_words(const char *path, size_t most)
{
    word_list list = {0};
    size_t size, lines = 0;
    list.text = read_all(path, &size);
    for (size_t i = 0; i < size; i++)
        lines += list.text[i] == '\n';
    list.words = room(lines + 1, sizeof *list.words);
    list.wanted = room(lines + 1, sizeof *list.wanted);
    for (char *at = list.text, *end; (end = strchr(at, '\n')) && (!most || list.count < most); at = end + 1) {
        char *tab = memchr(at, '\t', (size_t)(end - at));
        if (!tab)
            give_up("a line has no tab", path);
        *tab = *end = 0;
        list.words[list.count] = at;
        list.wanted[list.count++] = tab + 1;
    }
    if (!list.count)
        give_up("has no words", path);
    return list;
}

static inline void words_free(word_list *list)
{
    free(list->text);
    free(list->words);
    free(list->wanted);
}

static inline void print_rate(size_t words, double seconds, double cpu, size_t equal, size_t checked)
{
    printf("{\"words_per_s\": %.1f, \"words\": %zu, \"seconds\": %.4f, \"cpu_per_1000\": %.3g, \"equal\": %.5f, "
           "\"checked\": %zu}\n",
           (double)words / seconds, words, seconds, cpu / (double)words * 1e3, (double)equal / (double)checked,
           checked);
}

#endif
