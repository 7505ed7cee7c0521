/*
 * Is a change called where there is none, and is a real one found? Runs in the order of their running, judged in two
 * ways: in turns by our verdict, and in hyperfine's order (all runs of A, then all of B) by what people do with that.
 */
#ifndef STK_BENCH_LUCK_H
#define STK_BENCH_LUCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef enum stk__luck_kind {
    STK__LUCK_SAME,     /* one command: it is the same program whatever a run is called, so any labels are fair */
    STK__LUCK_TURNS,    /* A and B in turns */
    STK__LUCK_ORDER,    /* A some times, then B as often, then A again ... */
    STK__LUCK_HYPERFINE /* A some times, then B as often, by hyperfine itself; A and B may be one command */
} stk__luck_kind;

/* Runs that followed each other. */
typedef struct stk__luck_series {
    stk__luck_kind kind;
    size_t effect;
    double *values; /* in the order of their running */
    uint8_t *sides; /* 0: A, 1: B; in SAME as if they had taken turns. SAME, TURNS: each two are a round */
    size_t count, capacity;
} stk__luck_series;

/* What makes a change of two samples. */
typedef enum stk__luck_rule {
    STK__LUCK_VERDICT,      /* ours, with no minimum effect: in turns only */
    STK__LUCK_MANN_WHITNEY, /* p below alpha; these three in hyperfine's order only */
    STK__LUCK_WELCH,        /* p below alpha, as hyperfine's scripts/welch_ttest.py */
    STK__LUCK_MEANS,        /* the larger mean is more than 5 % above the smaller */
    STK__LUCK_RULES
} stk__luck_rule;

/* "verdict", "mann_whitney", "welch", "means" */
const char *stk__luck_rule_name(stk__luck_rule rule);

/* Shares of the windows of n runs of each side. Without windows, and for rules of the other design, NaN. */
typedef struct stk__luck_shares {
    size_t windows;
    size_t apart;  /* how many of them share no run */
    size_t stride; /* windows of rounds: from one to the next; below n: they overlap. Else 0 */
    struct {
        double called; /* a change was called */
        double right;  /* ... with the right sign; of equals, NaN */
    } rules[STK__LUCK_RULES];
    double error;   /* median of |ratio / truth - 1|; in hyperfine's order the ratio of the means, as it prints */
    double covered; /* share of the intervals that hold the truth; in hyperfine's order those of bench compare */
} stk__luck_shares;

enum { STK__LUCK_SIZES = 4 };

typedef struct stk__luck_row {
    size_t n; /* rounds, so runs of each side */
    stk__luck_shares turns, order, hyperfine;
    double detectable; /* of A against itself: what B must take longer to be found in 80 % of the windows in turns; else
                          NaN */
} stk__luck_row;

/* B against A. The first of all is A against itself. */
typedef struct stk__luck_effect {
    double more;         /* work that B has more: 0 for A itself, 0.05 for 5 %; NaN: not known */
    bool scaled;         /* no B ran: those runs of A that stand for it count `more` longer */
    double truth;        /* ratio of their times: 1, 1 + more, or what all rounds in turns together show; NaN: none */
    size_t truth_rounds; /* so many; 0: truth is exact */
    stk__luck_row rows[STK__LUCK_SIZES];
    size_t row_count;
} stk__luck_effect;

enum { STK__LUCK_EFFECTS = 8 };

/* Zero is empty. */
typedef struct stk__luck {
    stk__luck_series *series;
    size_t series_count, series_capacity;
    stk__luck_effect effects[STK__LUCK_EFFECTS];
    size_t effect_count;
} stk__luck;

void stk__luck_clear(stk__luck *l);
/* One more effect; INVALID past STK__LUCK_EFFECTS. The first is A itself: more 0, not scaled. */
stk_status stk__luck_add_effect(stk__luck *l, double more, bool scaled, stk_error *err);
/* Begins a series, and adds a run to the one that was begun last. INVALID for a value that is not a time above 0. */
stk_status stk__luck_begin(stk__luck *l, stk__luck_kind kind, size_t effect, stk_error *err);
stk_status stk__luck_add(stk__luck *l, bool b, double value, stk_error *err);

/* Whole rounds of all series of A against itself. */
size_t stk__luck_rounds(const stk__luck *l);

/*
 * The windows: at most four sizes of 6 to 50 rounds, the largest of which there are 20 windows of one command, else the
 * smallest. Windows lie within a series and share no runs, unless there would be fewer than 20; then they share at most
 * three quarters. INVALID under 6 rounds of one command.
 */
stk_status stk__luck_judge(stk__luck *l, double confidence, uint64_t seed, stk_error *err);

/* Where a share of n independent windows may really lie, with 95 % (Wilson). */
void stk__luck_interval(double share, size_t n, double *out_low, double *out_high);

#endif
