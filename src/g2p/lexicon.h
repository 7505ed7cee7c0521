/* Pronunciations by word, from files in the format of CMUdict: read once, then looked up from any thread. */
#ifndef STK_G2P_LEXICON_H
#define STK_G2P_LEXICON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct stk__lexicon stk__lexicon;

/* Who is asked for memory before it is taken, as in stk_g2p_config; charge NULL: nobody. */
typedef struct stk__g2p_memory {
    stk_status (*charge)(void *arg, int64_t bytes, stk_error *err);
    void *arg;
} stk__g2p_memory;

static inline stk_status stk__g2p_charge(const stk__g2p_memory *memory, int64_t bytes, stk_error *err)
{
    return memory && memory->charge && bytes ? memory->charge(memory->arg, bytes, err) : STK_OK;
}

/*
 * Later files hide the words of earlier ones, whole: with all their variants. A line is WORD or WORD(2), blanks,
 * phonemes; "#" starts a comment at the start of a line or behind a blank, ";;;" one at the start of a line. A word
 * that comes again in one file is a variant, whatever its number. Case of words is folded (ASCII), and so are accents
 * where only ASCII remains. A phoneme that is none, or a line without any, is CORRUPT with file and line.
 */
stk_status stk__lexicon_read(const char *const *paths, size_t count, const stk__g2p_memory *memory, stk__lexicon **out,
                             stk_error *err);
/* One file's text from memory, for tests and fuzzing. */
stk_status stk__lexicon_parse(const char *text, size_t size, const char *name, stk__lexicon **out, stk_error *err);
void stk__lexicon_free(stk__lexicon *lexicon);
size_t stk__lexicon_words(const stk__lexicon *lexicon);
size_t stk__lexicon_bytes(const stk__lexicon *lexicon);
/* Of the texts that it was read from. */
uint64_t stk__lexicon_fingerprint(const stk__lexicon *lexicon);

/* The first pronunciation of a lower-case word: ids and their count; 0 when it is not there. */
size_t stk__lexicon_find(const stk__lexicon *lexicon, const char *word, size_t size, const uint8_t **out_ids);
/* Variant `n` from 0 on; 0 ids past the last. */
size_t stk__lexicon_variant(const stk__lexicon *lexicon, const char *word, size_t size, size_t n,
                            const uint8_t **out_ids);

/* One of many words: what is asked and, behind it, the answer. */
typedef struct stk__lexicon_query {
    const char *word; /* lower case */
    size_t size;
    const uint8_t *ids;
    size_t count; /* 0: it is not there */
} stk__lexicon_query;

/* The first pronunciations of many words: faster by the word, for the memory is asked for all of them at once. */
void stk__lexicon_find_many(const stk__lexicon *lexicon, stk__lexicon_query *queries, size_t count);

#endif
