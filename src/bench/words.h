/* Pieces of sentences and figures that reports and charts share. */
#ifndef STK_BENCH_WORDS_H
#define STK_BENCH_WORDS_H

#include "bench/compare.h"
#include "bench/log.h"

/* A variant's values of one metric: those that are known, with the exact interval of their median. */
typedef struct stk__sample {
    stk__summary summary; /* n == 0: none is known, the rest is NaN */
    double low, high;     /* of the median */
    bool covered;         /* at the confidence that was asked for, else least to greatest */
    double *sorted;       /* n values, the sample's own */
} stk__sample;

stk_status stk__sample_take(const stk__result *r, size_t variant, size_t metric, double confidence, stk__sample *out,
                            stk_error *err);
void stk__sample_clear(stk__sample *s);
/* All variants; freed by stk__samples_free. */
stk_status stk__samples_take(const stk__result *r, size_t metric, double confidence, stk__sample **out, stk_error *err);
void stk__samples_free(stk__sample *samples, size_t count);

/* The mean that picks one unit for all, so that they compare at a glance; NaN when they lie too far apart for one. */
double stk__words_common(const stk__sample *samples, size_t count);

/* The metric that the comparisons are about, or the primary one without any. */
size_t stk__words_metric(const stk__result *r, const stk__comparisons *c);
/* Comparisons with figures: those that share the level. */
size_t stk__words_valid(const stk__comparisons *c);
/* "B/A" */
void stk__words_pair(const stk__comparison *c, stk__text *out);
/* "2 %", "0.5 %" */
void stk__words_percent(double fraction, stk__text *out);
/* "p=0.003", "p<0.001" */
void stk__words_p(double p, stk__text *out);
/* "0.941..0.985" */
void stk__words_interval(double low, double high, stk__text *out);
/* "+24 % (+12..+37 %)" */
void stk__words_change(double ratio, double low, double high, stk__text *out);
/*
 * "B is faster", "B is smaller", "A and B are equivalent within 2 %", "inconclusive"; of a tail "same median, but B is
 * slower in 30 % of its runs: mean +24 % (+12..+37 %)".
 */
void stk__words_verdict(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out);
/* The same for where room is short: of a tail "B is slower in 30 % of its runs". */
void stk__words_brief(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out);
/* "faster", "slower", "smaller", "larger", "better", "worse" */
const char *stk__words_direction(char *unit, bool higher_is_better, bool better);
/* Why there is no clearer verdict: "about 30 more rounds would tell"; nothing where there is one. Not escaped. */
void stk__words_reason(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out);
/* How many times as good b is as a, with its interval: 1/ratio for times. */
void stk__words_gain(const stk__result *r, const stk__comparison *c, double *out_gain, double *out_low,
                     double *out_high);
/* "x1.84", "x12.1" */
void stk__words_times(double gain, stk__text *out);
/* "3.04 times as fast as", "1.20 times as small as", "0.900 times as good as": of a gain, for what the metric measures. */
void stk__words_times_as(const stk__metric *metric, double gain, stk__text *out);
/* "1.75..1.88" */
void stk__words_times_interval(double low, double high, stk__text *out);

/* The verdict of a row about a benchmark and its past; inconclusive where there is none. */
stk__verdict stk__words_row_verdict(const stk__log *log, size_t row, size_t benchmark);
/* How much of a row's machine tells it apart from others: what stands before the kernel. */
size_t stk__words_machine_length(const stk__log_row *row);
/* Rows of one machine compare; an update of the kernel does not make it another one. */
bool stk__words_same_machine(const stk__log_row *a, const stk__log_row *b);
/* "1a2b3c4", with "+" when tracked files were changed; "-" without git. Not escaped. */
void stk__words_commit(const stk__log_row *row, stk__text *out);

#endif
