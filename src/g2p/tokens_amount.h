/* A number as written: whole part, with commas perhaps, and decimals. */
#ifndef STK_G2P_TOKENS_AMOUNT_H
#define STK_G2P_TOKENS_AMOUNT_H

#include "g2p/tokens_scan.h"

typedef struct stk__amount {
    size_t whole_at, whole_end;       /* empty for ".5" */
    size_t fraction_at, fraction_end; /* empty when there are no decimals */
    size_t end;
    bool commas;
} stk__amount;

/* `at` is at a digit, or at a dot before one. */
stk__amount stk__amount_read(const stk__scan *s, size_t at);
bool stk__amount_starts(const stk__scan *s, size_t at);
/* Exactly "1". */
bool stk__amount_is_one(const stk__scan *s, const stk__amount *a);
/* "three point one four"; sources are not set. */
void stk__amount_say(stk__scan *s, const stk__amount *a);
static inline bool stk__amount_has_fraction(const stk__amount *a)
{
    return a->fraction_end > a->fraction_at;
}

/* Dates, times, phone numbers, fractions, versions: say their words and return their end, or 0. */
size_t stk__amount_date(stk__scan *s, size_t at);
size_t stk__amount_time(stk__scan *s, size_t at);
size_t stk__amount_phone(stk__scan *s, size_t at);
size_t stk__amount_ratio(stk__scan *s, size_t at);
size_t stk__amount_version(stk__scan *s, size_t at);
/* "am", "p.m." behind a number that ends at `at`: says it and returns its end, or 0. With `dry` nothing is said. */
size_t stk__amount_meridiem(stk__scan *s, size_t at, bool dry);
/* Behind a number from `at` to `end`: says what joins it to the next one ("to" in "10-20"); returns where it starts. */
size_t stk__amount_join(stk__scan *s, size_t at, size_t end);

#endif
