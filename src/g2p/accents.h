/* Text in UTF-8 into ASCII: accents, ligatures and typographic signs are folded, what is left gets a one-byte code. */
#ifndef STK_G2P_ACCENTS_H
#define STK_G2P_ACCENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes from 0x80 on in folded text; a run of characters with the same of the first two codes is one byte. */
enum {
    STK__FOLD_OTHER = 0x80, /* letters of other scripts, bytes that are not UTF-8 */
    STK__FOLD_SYMBOL,       /* signs and pictures without words */
    STK__FOLD_EN_DASH,
    STK__FOLD_EM_DASH,
    STK__FOLD_MINUS,
    STK__FOLD_DEGREE,
    STK__FOLD_DEGREE_C,
    STK__FOLD_DEGREE_F,
    STK__FOLD_EURO,
    STK__FOLD_POUND,
    STK__FOLD_YEN,
    STK__FOLD_CENT,
    STK__FOLD_RUPEE,
    STK__FOLD_WON,
    STK__FOLD_RUBLE,
    STK__FOLD_SQUARED,
    STK__FOLD_CUBED,
    STK__FOLD_MICRO,
    STK__FOLD_TIMES,
    STK__FOLD_DIVIDED,
    STK__FOLD_PLUS_MINUS,
    STK__FOLD_HALF, /* from here to SEVEN_EIGHTHS: parts of one */
    STK__FOLD_THIRD,
    STK__FOLD_TWO_THIRDS,
    STK__FOLD_QUARTER,
    STK__FOLD_THREE_QUARTERS,
    STK__FOLD_EIGHTH,
    STK__FOLD_THREE_EIGHTHS,
    STK__FOLD_FIVE_EIGHTHS,
    STK__FOLD_SEVEN_EIGHTHS,
    STK__FOLD_SECTION,
    STK__FOLD_PARAGRAPH,
    STK__FOLD_COPYRIGHT,
    STK__FOLD_REGISTERED,
    STK__FOLD_TRADEMARK,
    STK__FOLD_NUMERO,
    STK__FOLD_LESS_EQUAL,
    STK__FOLD_GREATER_EQUAL,
    STK__FOLD_NOT_EQUAL,
    STK__FOLD_ABOUT,
    STK__FOLD_INFINITY,
    STK__FOLD_END
};

/* From folded byte `folded` on, bytes stand for those from `source` on, one for one until the next break. */
typedef struct stk__fold_break {
    size_t folded, source;
} stk__fold_break;

/* Start with all zeros; memory is kept from text to text. */
typedef struct stk__folded {
    char *text;
    size_t size, capacity;
    stk__fold_break *breaks;
    size_t break_count, break_capacity;
} stk__folded;

void stk__folded_clear(stk__folded *folded); /* frees */

/* Whether the text has a byte that is not ASCII. */
bool stk__fold_needed(const char *text, size_t size);
/* Never longer than the text. false: out of memory. */
bool stk__fold(stk__folded *folded, const char *text, size_t size);
/* The byte of the source that a folded byte stands for. `cursor` starts at 0 and serves places that never go back. */
size_t stk__fold_source(const stk__folded *folded, size_t at, size_t *cursor);

#endif
