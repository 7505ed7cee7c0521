/* Single lexemes of JSON in memory, tolerant: what the streaming scanner and the reader of Chrome's events are made of. */
#ifndef STK_TRACE_JSON_LEX_H
#define STK_TRACE_JSON_LEX_H

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "trace/json.h"

typedef enum stk__lex {
    STK__LEX_OK,
    STK__LEX_MORE, /* the window ends inside it, and more may come */
    STK__LEX_BAD,  /* broken, or cut off by the end of the file */
} stk__lex;

/* Where a string stands decides which quote ends it, when quotes inside were not escaped. */
typedef enum stk__json_lex_place { STK__LEX_KEY, STK__LEX_IN_OBJECT, STK__LEX_IN_ARRAY, STK__LEX_ALONE } stk__json_lex_place;

/* Memory for decoded strings, all freed at once; pointers stay valid until then. */
typedef struct stk__json_lex_block {
    struct stk__json_lex_block *next;
    size_t used, size;
    char data[];
} stk__json_lex_block;

typedef struct stk__lexer {
    const uint8_t *p, *end; /* where it stands; end of the window, behind which 8 bytes can be read */
    const uint8_t *start;   /* of the window */
    int64_t offset;         /* of start */
    bool last;              /* nothing comes behind the window */
    bool failed;            /* out of memory; all results are STK__LEX_BAD then */
    bool cut;               /* STK__LEX_BAD because the file ends */
    const uint8_t *far;     /* how far a BAD lexeme was looked at, when that is beyond p */

    /* Changes made since the last stk__lexer_start, per reason; the caller tells the builder when it keeps the result. */
    uint32_t note_count[STK__REASON_COUNT];
    int64_t note_offset[STK__REASON_COUNT];
    bool noted;

    stk__json_lex_block *blocks;
    stk__text json; /* what stk__json_lex_nested made last */
} stk__lexer;

void stk__lexer_init(stk__lexer *x);
void stk__lexer_clear(stk__lexer *x);
/* Forgets notes and decoded strings. */
void stk__lexer_start(stk__lexer *x);
void stk__lexer_note(stk__lexer *x, stk__trace_reason reason, const uint8_t *at);
/* Gives the notes to the builder. */
void stk__lexer_flush(stk__lexer *x, stk__builder *b);
char *stk__lexer_alloc(stk__lexer *x, size_t size);
/* At the end of the window: MORE is wanted, or the file is cut off and the lexeme BAD. */
stk__lex stk__json_lex_end(stk__lexer *x);

static inline bool stk__json_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline const uint8_t *stk__json_skip_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && stk__json_space(*p))
        p++;
    return p;
}

/* The first byte that is a quote, a backslash, a control byte or not ASCII; or end. */
static inline const uint8_t *stk__json_plain(const uint8_t *p, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);
    while (end - p >= 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* signed: less than a space is also what has the top bit */
        const __m128i odd = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
                                         _mm_cmplt_epi8(v, space));
        const unsigned mask = (unsigned)_mm_movemask_epi8(odd);
        if (mask)
            return p + __builtin_ctz(mask);
        p += 16;
    }
#endif
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

static inline void stk__json_lex_space(stk__lexer *x)
{
    while (x->p < x->end && stk__json_space(*x->p))
        x->p++;
}

/* At the opening quote. The text is valid UTF-8, in the window or in the lexer's memory. */
stk__lex stk__json_lex_string(stk__lexer *x, stk__json_lex_place place, const char **out_text, size_t *out_size);
/* At a digit, sign or point. BAD when it is no number (then try a word). Does not look at what follows. */
stk__lex stk__json_lex_number(stk__lexer *x, stk__json_number *out);
/* A run of letters, digits and _ . / + - #. */
stk__lex stk__json_lex_word(stk__lexer *x, const char **out_text, size_t *out_size);
/* At an opening bracket or brace: leaves compact, valid JSON in x->json. Nested too deep it is "null", and noted. */
stk__lex stk__json_lex_nested(stk__lexer *x);

/* The number at p; behind it, or NULL when there is none. No look at what follows it, nothing past end. */
const uint8_t *stk__json_number_at(const uint8_t *p, const uint8_t *end, stk__json_number *out);

#endif
