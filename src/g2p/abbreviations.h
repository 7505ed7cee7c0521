/* Tables of short forms: abbreviations, units, currencies, endings of addresses, words that open with an apostrophe. */
#ifndef STK_G2P_ABBREVIATIONS_H
#define STK_G2P_ABBREVIATIONS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    STK__ABBREVIATION_TITLE = 1,   /* only with a capital, and before a word with a capital: "Gen. Lee" */
    STK__ABBREVIATION_CAPITAL = 2, /* only with a capital: "Jan." */
    STK__ABBREVIATION_DIGIT = 4,   /* only before a digit: "No. 5" */
    STK__ABBREVIATION_DATE = 8,    /* only before a digit or a comma: "Sun., May 5" */
    STK__ABBREVIATION_BARE = 16,   /* also without its dot: "Mr Smith" */
    STK__ABBREVIATION_KNOWN = 32,  /* stays as it is when a lexicon has it: "mrs" */
    STK__ABBREVIATION_LAST = 64,   /* the dot ends the sentence too where a capital follows: "etc. The" */
    STK__ABBREVIATION_PLACE = 128, /* `words` before a name, `after` behind one: "St." */
    STK__ABBREVIATION_LOWER = 256  /* only without a capital: "al." */
};

typedef struct stk__abbreviation {
    const char *name; /* lower case, without its dot */
    const char *words;
    const char *after;
    unsigned flags;
} stk__abbreviation;

/* NULL when there is none. The word is in lower case. */
const stk__abbreviation *stk__abbreviation_find(const char *word, size_t size);
/* May answer true for others too: a quick look before the search. */
bool stk__abbreviation_maybe_bare(const char *word, size_t size);

enum {
    STK__UNIT_GLUED = 1, /* only directly behind the number: "5V" */
    STK__UNIT_DEGREES = 2
};

typedef struct stk__unit {
    const char *name; /* as written; case matters */
    const char *one, *many;
    unsigned flags;
} stk__unit;

const stk__unit *stk__unit_find(const char *name, size_t size);

typedef struct stk__currency {
    unsigned char sign; /* as in folded text */
    const char *one, *many;
    const char *cent, *cents; /* NULL: amounts are read as decimals */
} stk__currency;

const stk__currency *stk__currency_find(unsigned char sign);
/* "US" before "$": "u s"; NULL when it is none. */
const char *stk__currency_country(const char *word, size_t size);
/* "million" for that word and for "M", "m", "bn" directly behind an amount (`glued`); NULL when it is none. */
const char *stk__magnitude_find(const char *word, size_t size, bool glued);

/* "january" for 1. */
const char *stk__month_name(int month);
/* Whether it is the name of a month or its abbreviation; lower case. */
bool stk__month_known(const char *word, size_t size);

/* Last parts of names in the web and of files: "com", "pdf"; lower case. */
bool stk__web_ending(const char *word, size_t size);
/* Words that open with an apostrophe, without it: "tis", "em"; lower case. */
bool stk__elided(const char *word, size_t size);
/* Words that often open a sentence: "the", "he"; lower case. */
bool stk__opens_sentence(const char *word, size_t size);

#endif
