/*
 * From words and text to phonemes (ARPAbet with stress), on the CPU.
 *
 * The model for American English lies inside the library: nothing is downloaded, and opening takes about a
 * millisecond. A stk_g2p is never changed once it is open: any number of threads may use it at once, each with results
 * of its own.
 */
#ifndef STOKER_G2P_H
#define STOKER_G2P_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_g2p stk_g2p;

typedef enum stk_g2p_precision {
    STK_G2P_INT8, /* 8-bit weights: the fast way; gives the same on every CPU */
    STK_G2P_FP32  /* float weights, for comparison */
} stk_g2p_precision;

typedef struct stk_g2p_config {
    size_t struct_size; /* sizeof(stk_g2p_config) */
    const char *model;  /* a .npz file: g2p_en's checkpoint20.npz or our own; NULL: the model in the library */
    stk_g2p_precision precision;
    const char *const *lexicons; /* files as CMUdict; a word of a later one hides that of an earlier one */
    size_t lexicon_count;
    int no_common; /* 1: without the library's list of common words that no model reads well; another model has none */
    int (*stopped)(void *arg); /* asked while files are read, in this thread; 1 ends that with STK_CANCELLED. May be NULL */
    void *stopped_arg;
    /* Asked before lexicons and a model take memory, with less than 0 when they give some back; what it returns in place of
       STK_OK ends the opening. NULL: nobody counts. What is held in the end is not given back by stk_g2p_close. Since 0.1. */
    stk_status (*charge)(void *charge_arg, int64_t bytes, stk_error *err);
    void *charge_arg;
} stk_g2p_config;

/* `config` may be NULL: the library's own model, int8, no lexicon. Since 0.1. */
STK_API stk_status stk_g2p_open(const stk_g2p_config *config, stk_g2p **out, stk_error *err);
STK_API void stk_g2p_close(stk_g2p *g);
/* Memory that it holds: the model and the lexicons. Since 0.1. */
STK_API size_t stk_g2p_bytes(const stk_g2p *g);
/* A number that changes when model, precision or a lexicon does, wherever the files lie. Since 0.1. */
STK_API uint64_t stk_g2p_fingerprint(const stk_g2p *g);

/*
 * Phonemes are numbered the same way whatever the model: 0 is padding, 1 stands for a word of which nothing
 * can be said, 2 and 3 are unused here, 4 to 73 are those of g2p_en in its order (AA0 AA1 AA2 AE0 ... ZH), then come the
 * space between words and the punctuation marks.
 */
enum { STK_G2P_PAD = 0, STK_G2P_UNKNOWN = 1, STK_G2P_FIRST = 4, STK_G2P_SPACE = 74 };
/* How many numbers there are, and what one stands for ("AA0", " ", ","); NULL past the last. */
STK_API size_t stk_g2p_symbol_count(void);
STK_API const char *stk_g2p_symbol(size_t id);

enum {
    STK_G2P_PUNCTUATION = 1, /* a mark, not a word; its one id stands for itself */
    STK_G2P_FROM_LEXICON = 2,
    STK_G2P_PREDICTED = 4, /* by the model */
    STK_G2P_OOV = 8,       /* lexicons were given and none of them has it */
    STK_G2P_SPELLED = 16,  /* letter by letter: "BBC" */
    STK_G2P_CUT = 32,      /* the model's limit of phonemes, or of 65,536 letters, was reached: the end is missing */
    STK_G2P_EXPANDED = 64, /* not written like this: part of a number, an amount, an abbreviation */
    STK_G2P_GUESSED = 128, /* has letters that the model does not know, which were left out: "Москва" */
    STK_G2P_COMMON = 256,  /* from the library's list of common words */
    STK_G2P_SIGN = 512     /* a sign or a picture that is not spoken, as * or an emoji: no ids, and no word */
};

/* A word as it is spoken, or a mark. */
typedef struct stk_g2p_token {
    const char *text; /* "dollars"; lower case; not terminated */
    size_t text_size;
    size_t source_at, source_size; /* the bytes of the input that it came from */
    const uint8_t *ids;
    size_t id_count;
    uint32_t flags;
} stk_g2p_token;

/*
 * Results of a call and the memory for them, which later calls use again: a warm one allocates nothing. Start with all
 * zeros. What it points at lives until the next call with it, and while the stk_g2p is open. One thread at a time.
 */
typedef struct stk_g2p_results {
    const stk_g2p_token *tokens;
    size_t count;
    void *impl;
} stk_g2p_results;

STK_API void stk_g2p_results_clear(stk_g2p_results *results);

/*
 * Pronounces one word: writes "AA1 R D V AA2 R K" and a NUL. INVALID when `size` is too small, or when the word has no
 * letter. Since 0.1.
 */
STK_API stk_status stk_g2p_predict(const stk_g2p *g, const char *word, char *out, size_t size, stk_error *err);

/*
 * Pronounces many words at once, which is faster by the word; one token each, in their order. Words are taken as they
 * are: case is ignored and accents are folded, but nothing is split or expanded, and only that is spelled of which the
 * model says nothing ("h"). "42" is STK_G2P_UNKNOWN alone and flagged GUESSED, unless a lexicon has it. Since 0.1.
 */
STK_API stk_status stk_g2p_predict_many(const stk_g2p *g, const stk_bytes *words, size_t count,
                                        stk_g2p_results *results, stk_error *err);

/*
 * Pronounces running text in UTF-8: splits it, expands numbers, amounts, ordinals and abbreviations, keeps punctuation.
 * Words in capitals that no lexicon has are spelled when they cannot be read: without a vowel or without a consonant
 * ("BBC", "AI"), or of two or three letters unless these are a short word or stand like those of "cat" ("USA", but
 * "NOT"); in a text of four words or more that are all in capitals, the last rule does not hold. Bytes that are not
 * UTF-8 are unknown letters: whatever the bytes, there is an answer. Since 0.1.
 */
STK_API stk_status stk_g2p_text(const stk_g2p *g, const char *text, size_t size, stk_g2p_results *results,
                                stk_error *err);
/*
 * The same for many texts at once: first_token, of count + 1 items, says where the tokens of each text start; it may be
 * NULL. Since 0.1.
 */
STK_API stk_status stk_g2p_texts(const stk_g2p *g, const stk_bytes *texts, size_t count, stk_g2p_results *results,
                                 size_t *first_token, stk_error *err);

/*
 * The pronunciations that the lexicons have for a word, lower case: number `n`, from 0 on. Returns how many ids; 0 past
 * the last. Since 0.1.
 */
STK_API size_t stk_g2p_variant(const stk_g2p *g, const char *word, size_t size, size_t n, const uint8_t **out_ids);

#ifdef __cplusplus
}
#endif
#endif
