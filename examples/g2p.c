/*
 * Phonemes on the public API: words, running text, and what a lexicon does not have.
 *
 *   g2p [--lexicon FILE]... TEXT...
 *
 * Nothing is downloaded: the model lies inside the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/g2p.h>

/* One word: the text goes into a buffer of ours. */
static stk_status say_word(const stk_g2p *g, const char *word, stk_error *err)
{
    char phonemes[256];
    const stk_status status = stk_g2p_predict(g, word, phonemes, sizeof phonemes, err);
    if (status == STK_OK)
        printf("%s: %s\n", word, phonemes);
    return status;
}

/* Running text: words as they are spoken, and marks; `results` keeps its memory from call to call. */
static stk_status say_text(const stk_g2p *g, const char *text, stk_g2p_results *results, stk_error *err)
{
    const stk_status status = stk_g2p_text(g, text, strlen(text), results, err);
    for (size_t i = 0; status == STK_OK && i < results->count; i++) {
        const stk_g2p_token *token = &results->tokens[i];
        printf("  %.*s:", (int)token->text_size, token->text);
        for (size_t k = 0; k < token->id_count; k++)
            printf(" %s", stk_g2p_symbol(token->ids[k])); /* a training would take the number itself */
        if (token->flags & STK_G2P_OOV)
            printf("  (not in the lexicon)");
        printf("\n");
    }
    return status;
}

int main(int argc, char **argv)
{
    const char **lexicons = calloc((size_t)argc, sizeof *lexicons);
    size_t lexicon_count = 0;
    int first = 1;
    if (!lexicons)
        return 1;
    for (; first + 1 < argc && strcmp(argv[first], "--lexicon") == 0; first += 2)
        lexicons[lexicon_count++] = argv[first + 1];
    const stk_g2p_config config = {
        .struct_size = sizeof config,
        .lexicons = lexicons, /* CMUdict, then words of our own, say: later ones hide earlier ones */
        .lexicon_count = lexicon_count,
    };
    stk_error err;
    stk_error_clear(&err);
    stk_g2p *g = NULL;
    stk_g2p_results results = {0};
    /* Opened once; any number of threads may use it, each with results of its own. */
    stk_status status = stk_g2p_open(&config, &g, &err);
    if (status == STK_OK && first == argc)
        status = say_word(g, "phoneme", &err);
    for (int i = first; status == STK_OK && i < argc; i++) {
        printf("%s\n", argv[i]);
        status = say_text(g, argv[i], &results, &err);
    }
    stk_g2p_results_clear(&results);
    stk_g2p_close(g);
    free(lexicons);
    if (status != STK_OK) {
        char line[2048];
        stk_error_format(&err, line, sizeof line);
        fprintf(stderr, "g2p: %s\n", line);
    }
    return status == STK_OK ? 0 : 1;
}
