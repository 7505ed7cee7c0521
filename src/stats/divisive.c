/*
 * E-divisive (Matteson and James 2014) with the windows and the t-test of Hunter (Fleming et al. 2023). A place is as
 * good a split as the mean distance between rows of both sides exceeds the mean distances within each, times
 * n m / (n + m). The right side may end before the interval does, so that a later change does not hide this one.
 */
#include <math.h>
#include <string.h>

#include "stats/distributions.h"
#include "stats/divisive.h"
#include "base/mem.h"

/* Rows begin .. end - 1 of a window that hold no change yet, and the best place for one; gain 0: there is none. */
typedef struct interval {
    size_t begin, end, best;
    double gain;
} interval;

typedef struct search {
    const double *values; /* of the whole series */
    size_t window, step;
    double max_p;
    interval *intervals; /* of the window at hand, in order */
    size_t interval_count;
    double *within; /* of the rows from each place on: sums of distances */
    double *before; /* the same of the rows up to each place */
    size_t *found;
    size_t count, capacity;
} search;

static double gain_at(double between, double left, double right, double n, double m)
{
    const double of_left = n > 1 ? left * (m / (n - 1)) : 0, of_right = m > 1 ? right * (n / (m - 1)) : 0;
    return 2 / (n + m) * (between - of_left - of_right);
}

/*
 * All splits in O(length^2) time and O(length) memory: when a row joins the right side, walking back from it sums its
 * distances to the rows from each place on, which is what the sums within those rows grow by.
 */
static void find_best(search *s, interval *x)
{
    const double *values = s->values + x->begin;
    const size_t length = x->end - x->begin;
    x->gain = 0;
    for (size_t last = 0; last < length; last++) {
        double distance = 0;
        for (size_t i = last; i-- > 0;) {
            distance += fabs(values[i] - values[last]);
            s->within[i] += distance;
        }
        s->within[last] = 0;
        s->before[last] = last ? s->within[0] : 0; /* rows 0 .. last */
        for (size_t i = 1; i <= last; i++) {
            const double left = s->before[i - 1], right = s->within[i];
            const double gain = gain_at(s->within[0] - left - right, left, right, (double)i, (double)(last + 1 - i));
            if (gain > x->gain || (gain == x->gain && gain > 0 && x->begin + i < x->best)) {
                x->gain = gain;
                x->best = x->begin + i;
            }
        }
    }
}

double stk__divisive_p(const stk__stretch *a, const stk__stretch *b)
{
    const double na = (double)a->n, nb = (double)b->n, df = na + nb - 2;
    if (df <= 0 || a->mean == b->mean)
        return 1;
    const double variance = (a->squares * ((na - 1) / na) + b->squares * ((nb - 1) / nb)) / df;
    const double error = sqrt(variance * (1 / na + 1 / nb));
    return error > 0 ? stk__student_p((b->mean - a->mean) / error, df) : 0;
}

static bool is_likely(const search *s, const interval *x)
{
    stk__stretch left, right;
    stk__stretch_of(s->values, NULL, x->begin, x->best, &left);
    stk__stretch_of(s->values, NULL, x->best, x->end, &right);
    return stk__divisive_p(&left, &right) <= s->max_p;
}

/* The interval becomes two; both are searched. */
static void split(search *s, size_t index)
{
    interval *x = &s->intervals[index];
    memmove(x + 2, x + 1, (s->interval_count - index - 1) * sizeof *x);
    s->interval_count++;
    x[1] = (interval){.begin = x->best, .end = x->end};
    x[0].end = x[1].begin;
    find_best(s, &x[0]);
    find_best(s, &x[1]);
}

/* Splits where the gain is greatest, until that one is not likely. */
static void divide_window(search *s, size_t begin, size_t end)
{
    s->intervals[0] = (interval){.begin = begin, .end = end};
    s->interval_count = 1;
    find_best(s, &s->intervals[0]);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < s->interval_count; i++)
            if (s->intervals[i].gain > s->intervals[best].gain)
                best = i;
        if (!(s->intervals[best].gain > 0) || !is_likely(s, &s->intervals[best]))
            return;
        split(s, best);
    }
}

/* The changes of the window at hand; some may be known from the window before, which reaches into this one. */
static bool keep_found(search *s)
{
    for (size_t i = 1; i < s->interval_count; i++) {
        const size_t at = s->intervals[i].begin;
        size_t place = s->count;
        while (place > 0 && s->found[place - 1] > at)
            place--;
        if (place > 0 && s->found[place - 1] == at)
            continue;
        if (!stk__grow((void **)&s->found, &s->capacity, s->count + 1, sizeof *s->found))
            return false;
        memmove(s->found + place + 1, s->found + place, (s->count - place) * sizeof *s->found);
        s->found[place] = at;
        s->count++;
    }
    return true;
}

static bool slide(search *s, size_t n)
{
    for (size_t begin = 0; begin < n;) {
        divide_window(s, begin, STK_MIN(begin + s->window, n));
        if (!keep_found(s))
            return false;
        const size_t newest = s->interval_count > 1 ? s->intervals[s->interval_count - 1].begin : 0;
        begin = STK_MAX(newest, begin + s->step);
    }
    return true;
}

stk_status stk__divisive(const double *values, size_t n, size_t window, double max_p, size_t **out, size_t *out_count,
                         stk_error *err)
{
    search s = {.values = values, .window = STK_MIN(window, n), .step = window / 2, .max_p = max_p};
    if (!n) {
        *out = NULL;
        *out_count = 0;
        return STK_OK;
    }
    s.intervals = stk__calloc(s.window, sizeof *s.intervals);
    s.within = stk__calloc(s.window, sizeof *s.within);
    s.before = stk__calloc(s.window, sizeof *s.before);
    const bool done = s.intervals && s.within && s.before && slide(&s, n);
    stk__free(s.intervals);
    stk__free(s.within);
    stk__free(s.before);
    if (!done) {
        stk__free(s.found);
        return stk__nomem(n * sizeof *s.found, err);
    }
    *out = s.found;
    *out_count = s.count;
    return STK_OK;
}
