/* What the parts of the text front end share: the text under the scanner, classes of bytes, ways to put out tokens. */
#ifndef STK_G2P_TOKENS_SCAN_H
#define STK_G2P_TOKENS_SCAN_H

#include "g2p/numbers.h"
#include "g2p/tokens.h"

/* Places are in folded text; they become places in the source when the whole text is done. */
typedef struct stk__scan {
    const char *text;
    size_t size;
    stk__tokens *out;
    stk__word_known known;
    const void *context;
    bool failed;        /* memory ran out: no more tokens are kept */
    size_t quote_at;    /* the single quote that is open; SIZE_MAX: none is */
    size_t web_until;   /* up to here it is known that no address starts */
    size_t whole_until; /* up to here it is known that the lexicon has no longer word */
} stk__scan;

enum {
    STK__BYTE_LOWER = 1,
    STK__BYTE_UPPER = 2,
    STK__BYTE_OTHER = 4, /* letters of other scripts */
    STK__BYTE_DIGIT = 8,
    STK__BYTE_BLANK = 16,
    STK__BYTE_PLAIN = 32, /* a mark that ends a word, with nothing more to look at */
    STK__BYTE_LETTER = STK__BYTE_LOWER | STK__BYTE_UPPER | STK__BYTE_OTHER,
    STK__BYTE_ALNUM = STK__BYTE_LETTER | STK__BYTE_DIGIT
};
extern const uint8_t stk__byte_classes[256];

/* Behind the end there are blanks. */
static inline unsigned char stk__scan_byte(const stk__scan *s, size_t at)
{
    return at < s->size ? (unsigned char)s->text[at] : ' ';
}

/* The byte before `at`. Before the start there is a new line: a blank, but not ' ', which always has a place. */
static inline unsigned char stk__scan_before(const stk__scan *s, size_t at)
{
    return at > 0 ? (unsigned char)s->text[at - 1] : '\n';
}

static inline bool stk__scan_is(const stk__scan *s, size_t at, unsigned classes)
{
    return stk__byte_classes[stk__scan_byte(s, at)] & classes;
}

static inline bool stk__scan_was(const stk__scan *s, size_t at, unsigned classes)
{
    return stk__byte_classes[stk__scan_before(s, at)] & classes;
}

static inline char stk__lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The first byte from `at` on that is no blank. */
size_t stk__scan_skip_blanks(const stk__scan *s, size_t at);
/* The end of a run of ASCII letters, or of digits; looks at `most` bytes. */
size_t stk__scan_letters(const stk__scan *s, size_t at, size_t most);
size_t stk__scan_digits(const stk__scan *s, size_t at, size_t most);
/* Whether a whole number of up to three digits stands before `at`, behind one blank: "1 1/2". */
bool stk__scan_after_whole(const stk__scan *s, size_t at);
/* Whether nothing to be said follows: the text or the paragraph ends, perhaps behind quotes and brackets. */
bool stk__scan_ends(const stk__scan *s, size_t at);
/* The same, or a word with a capital follows that often opens a sentence. */
bool stk__scan_sentence_ends(const stk__scan *s, size_t at);
/* Copies in lower case. False when it does not fit; nothing is copied then. */
bool stk__scan_copy_lower(const stk__scan *s, size_t at, size_t end, char *out, size_t size);

/* One token as it is. */
void stk__scan_put(stk__scan *s, const char *text, size_t size, size_t at, size_t end, uint32_t flags);
/* Words with blanks between, EXPANDED; those of one letter are LETTERs. */
void stk__scan_say(stk__scan *s, const char *words, size_t at, size_t end);
/* A word of the text: letters and apostrophes up to `text_end`; its source goes on to `end`. */
void stk__scan_put_word(stk__scan *s, size_t at, size_t text_end, size_t end);
/* Gives all tokens from number `first` on this source. */
void stk__scan_cover(stk__scan *s, size_t first, size_t at, size_t end);
stk__word_sink stk__scan_sink(stk__scan *s);

/* Each takes what starts at `at` and returns where it ends, past `at`. */
size_t stk__scan_word(stk__scan *s, size_t at);
size_t stk__scan_quote(stk__scan *s, size_t at);
size_t stk__scan_number(stk__scan *s, size_t at);
size_t stk__scan_sign(stk__scan *s, size_t at);

/* These return 0 when there is no such thing. */
/* A word with digits or hyphens that the lexicon has. */
size_t stk__scan_whole(stk__scan *s, size_t at);
/* An address of the web or of mail. */
size_t stk__scan_web(stk__scan *s, size_t at);
/* "U.S.", "J.", "Mr.": a word that ends at `end`, before a dot. */
size_t stk__scan_short(stk__scan *s, size_t at, size_t end);
/* "Mr" without a dot. */
size_t stk__scan_bare(stk__scan *s, size_t at, size_t end);
/* "$5", "US$5": its source starts at `at`; `country` may be NULL. */
size_t stk__scan_money(stk__scan *s, size_t at, size_t sign_at, const char *country);

#endif
