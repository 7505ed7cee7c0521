/* Times the library's g2p through its public API, words one by one or in batches, or running text, and prints JSON. */
#include <stoker/g2p.h>

#include "limits/g2p_words.h"

typedef struct settings {
    stk_g2p_config config;
    const char *lexicon;
    const char *words, *text; /* one of the two */
    size_t count, batch;
    double seconds;
} settings;

static void must(stk_status status, const stk_error *err)
{
    if (status != STK_OK)
        give_up("failed", err->message);
}

/* ---- words ---- */

typedef struct job {
    const stk_g2p *g2p;
    word_list list;
    stk_bytes *views;
    size_t batch; /* 1: stk_g2p_predict, which gives text */
    stk_g2p_results results;
    stk_error err;
    char text[1024];
} job;

/* The answers of words i and so on; how many words that was. */
static size_t pronounce(job *j, size_t i)
{
    const size_t left = j->list.count - i, n = left < j->batch ? left : j->batch;
    if (j->batch == 1)
        must(stk_g2p_predict(j->g2p, j->list.words[i], j->text, sizeof j->text, &j->err), &j->err);
    else
        must(stk_g2p_predict_many(j->g2p, j->views + i, n, &j->results, &j->err), &j->err);
    return n;
}

static int is_wanted(const stk_g2p_token *token, const char *wanted)
{
    for (size_t i = 0; i < token->id_count; i++) {
        const char *name = stk_g2p_symbol(token->ids[i]);
        const size_t size = strlen(name);
        if (strncmp(wanted, name, size) != 0 || (wanted[size] != ' ' && wanted[size] != 0))
            return 0;
        wanted += size + (wanted[size] == ' ');
    }
    return *wanted == 0;
}

/* Warms up, too. */
static size_t count_equal(job *j)
{
    size_t equal = 0;
    for (size_t i = 0, n; i < j->list.count; i += n) {
        n = pronounce(j, i);
        for (size_t k = 0; k < n; k++)
            equal += (size_t)(j->batch == 1 ? strcmp(j->text, j->list.wanted[i]) == 0
                                            : is_wanted(&j->results.tokens[k], j->list.wanted[i + k]));
    }
    return equal;
}

static void time_words(const stk_g2p *g2p, const settings *s)
{
    job j = {.g2p = g2p, .list = read_words(s->words, s->count), .batch = s->batch};
    j.views = room(j.list.count, sizeof *j.views);
    for (size_t i = 0; i < j.list.count; i++)
        j.views[i] = (stk_bytes){.data = (const uint8_t *)j.list.words[i], .size = (int64_t)strlen(j.list.words[i])};
    stk_error_clear(&j.err);
    const size_t equal = count_equal(&j);
    size_t words = 0;
    const double start = seconds_now(), cpu = cpu_now();
    while (seconds_now() - start < s->seconds) { /* whole passes: all contestants have the same words */
        for (size_t i = 0; i < j.list.count;)
            i += pronounce(&j, i);
        words += j.list.count;
    }
    print_rate(words, seconds_now() - start, cpu_now() - cpu, equal, j.list.count);
    stk_g2p_results_clear(&j.results);
    free(j.views);
    words_free(&j.list);
}

/* ---- running text ---- */

typedef struct tally {
    size_t words, from_lexicon, marks, phonemes;
} tally;

/* Line by line, as a pipeline hands it over. */
static tally pronounce_text(const stk_g2p *g2p, const char *text, size_t size, stk_g2p_results *results)
{
    tally sum = {0};
    stk_error err;
    stk_error_clear(&err);
    for (const char *at = text, *end = text + size, *next; at < end; at = next) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        next = line_end + 1;
        must(stk_g2p_text(g2p, at, (size_t)(line_end - at), results, &err), &err);
        for (size_t i = 0; i < results->count; i++) {
            const stk_g2p_token *token = &results->tokens[i];
            const int mark = (token->flags & STK_G2P_PUNCTUATION) != 0;
            sum.marks += (size_t)mark;
            sum.words += (size_t)!mark;
            sum.from_lexicon += (token->flags & STK_G2P_FROM_LEXICON) != 0;
            sum.phonemes += mark ? 0 : token->id_count;
        }
    }
    return sum;
}

static void time_text(const stk_g2p *g2p, const settings *s)
{
    size_t size, words = 0;
    char *text = read_all(s->text, &size);
    stk_g2p_results results = {0};
    const tally sum = pronounce_text(g2p, text, size, &results);
    const double start = seconds_now(), cpu = cpu_now();
    while (seconds_now() - start < s->seconds)
        words += pronounce_text(g2p, text, size, &results).words;
    const double seconds = seconds_now() - start;
    printf("{\"words_per_s\": %.1f, \"words\": %zu, \"seconds\": %.4f, \"cpu_per_1000\": %.3g, \"text_words\": %zu, "
           "\"from_lexicon\": %zu, \"marks\": %zu, \"phonemes\": %zu}\n",
           (double)words / seconds, words, seconds, (cpu_now() - cpu) / (double)words * 1e3, sum.words,
           sum.from_lexicon, sum.marks, sum.phonemes);
    stk_g2p_results_clear(&results);
    free(text);
}

/* ---- command line ---- */

static void usage(void)
{
    fprintf(stderr, "Usage: g2p_words [--model FILE] [--fp32] [--batch N] [--count N] [--seconds S] WORDS\n"
                    "       g2p_words --lexicon FILE [--seconds S] --text FILE\n");
    exit(2);
}

static settings read_settings(int argc, char **argv)
{
    settings s = {.config = {.struct_size = sizeof s.config, .precision = STK_G2P_INT8, .no_common = 1},
                  .batch = 1,
                  .seconds = 2};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--fp32") == 0) {
            s.config.precision = STK_G2P_FP32;
            continue;
        }
        if (strncmp(name, "--", 2) != 0) {
            s.words = name;
            continue;
        }
        if (!next)
            usage();
        i++;
        if (strcmp(name, "--model") == 0)
            s.config.model = next;
        else if (strcmp(name, "--lexicon") == 0)
            s.lexicon = next;
        else if (strcmp(name, "--text") == 0)
            s.text = next;
        else if (strcmp(name, "--batch") == 0)
            s.batch = strtoul(next, NULL, 10);
        else if (strcmp(name, "--count") == 0)
            s.count = strtoul(next, NULL, 10);
        else if (strcmp(name, "--seconds") == 0)
            s.seconds = strtod(next, NULL);
        else
            usage();
    }
    if (!s.words == !s.text || !s.batch)
        usage();
    return s;
}

int main(int argc, char **argv)
{
    settings s = read_settings(argc, argv);
    if (s.lexicon) {
        s.config.lexicons = &s.lexicon;
        s.config.lexicon_count = 1;
    }
    stk_error err;
    stk_error_clear(&err);
    stk_g2p *g2p = NULL;
    must(stk_g2p_open(&s.config, &g2p, &err), &err);
    if (s.text)
        time_text(g2p, &s);
    else
        time_words(g2p, &s);
    stk_g2p_close(g2p);
    return 0;
}
