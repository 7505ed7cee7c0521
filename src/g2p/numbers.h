/* Digits as words of American English. */
#ifndef STK_G2P_NUMBERS_H
#define STK_G2P_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

/* Where words go, one by one. */
typedef struct stk__word_sink {
    void (*put)(void *to, const char *word, size_t size);
    void *to;
} stk__word_sink;

/* What the last word becomes: "five", "fifth", "fives", "fifths". */
typedef enum stk__number_form {
    STK__NUMBER_CARDINAL,
    STK__NUMBER_ORDINAL,
    STK__NUMBER_PLURAL,
    STK__NUMBER_PARTS
} stk__number_form;

/* Numbers of more digits than this have no name (10^63 is a vigintillion) and are read digit by digit. */
#define STK__NUMBER_NAMED 66

/*
 * A whole number of any length; bytes that are no digits (commas) are skipped. With a leading zero before another
 * digit, or with too many digits, it is read digit by digit.
 */
void stk__number_say(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink);
/* "one two three"; bytes that are no digits are skipped. */
void stk__number_digits(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink);
/* Two digits as after an hour or a century: "thirty", "oh five", "hundred" for 00. */
void stk__number_pair(const char digits[2], stk__number_form form, const stk__word_sink *sink);

/* Whether four digits are read as a year: 1100 to 1999 and 2010 to 2099. */
bool stk__number_is_year(const char digits[4]);
/* Four digits as two pairs: "nineteen eighty four", "nineteen hundred"; but "two thousand five". */
void stk__number_year(const char digits[4], stk__number_form form, const stk__word_sink *sink);
/* Digits that name something ("A380", "F150"): up to two as a number, three and four in pairs, more one by one. */
void stk__number_model(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink);

#endif
