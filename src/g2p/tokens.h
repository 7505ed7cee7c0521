/* Running text into words as they are spoken, and marks. */
#ifndef STK_G2P_TOKENS_H
#define STK_G2P_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "g2p/accents.h"

enum {
    STK__TOKEN_MARK = 1,     /* punctuation: text is one of . , ? ! ; : - ( ) " and the ellipsis as "..." */
    STK__TOKEN_EXPANDED = 2, /* from a number, an amount, an abbreviation */
    /*
     * Was written in capitals only, two letters or more, but perhaps for an s at its end ("NASA's"; "TVs" is "tv's"
     * here): spelled when no lexicon knows it and it cannot be read.
     */
    STK__TOKEN_CAPITALS = 4,
    STK__TOKEN_UNKNOWN = 8,  /* letters of other scripts were left out; the text may be empty */
    STK__TOKEN_LETTER = 16,  /* a letter by its name: "B" in "vitamin B", or of a spelled abbreviation */
    STK__TOKEN_DROPPED = 32, /* of a word as it is: other letters or blanks were left out; then UNKNOWN as well */
    STK__TOKEN_SIGN = 64     /* a sign or a picture that is not spoken; UNKNOWN, without text */
};

typedef struct stk__token {
    /*
     * In stk__tokens.text: a to z and ', lower case; a word that `known` was asked about and has may also hold digits
     * and hyphens ("x-ray", "mp3").
     */
    size_t text_at, text_size;
    size_t source_at, source_size; /* in the input */
    uint32_t flags;
} stk__token;

/* Tokens of one or many texts; memory is kept from call to call. Start with all zeros. */
typedef struct stk__tokens {
    stk__token *items;
    size_t count, capacity;
    char *text;
    size_t text_size, text_capacity;
    stk__folded folded; /* of the text at hand, when that is not ASCII */
} stk__tokens;

void stk__tokens_clear(stk__tokens *tokens); /* frees */
void stk__tokens_reset(stk__tokens *tokens); /* empties */

/*
 * Appends the tokens of a text in UTF-8 (bytes that are not are taken as unknown letters). Linear in its size, and so
 * is what comes out. `known`, when not NULL, says whether a lexicon has a word, lower case: such words are not split
 * ("x-ray", "mp3") and not expanded ("mrs"), but for short forms with two readings ("Dr", "St", "vs", "No. 5").
 *
 * Every byte that is no blank, control or invisible character lies in the source of some token, and sources never go
 * back. Amounts, dates and the like: all words have the source of the whole.
 *
 * How it reads what has several readings: four digits alone from 1100 to 1999 and 2010 to 2099 as a year; "12:00"
 * twelve o'clock, "15:00" fifteen hundred; "12/17/2024" and "2024-12-17" as month, day, year; digits in three groups
 * with hyphens, and 555-1234, one by one; "10-20" ten to twenty; "/" slash. Roman numbers stay letters.
 */
typedef bool (*stk__word_known)(const void *context, const char *word, size_t size);
stk_status stk__tokens_add(stk__tokens *tokens, const char *text, size_t size, stk__word_known known,
                           const void *context, stk_error *err);
/*
 * One word as it is: case and accents folded, nothing split; always exactly one token. Digits, hyphens and other signs
 * of ASCII stay in its text, for a lexicon that has them; then it is flagged UNKNOWN.
 */
stk_status stk__tokens_add_word(stk__tokens *tokens, const char *word, size_t size, stk_error *err);

#endif
