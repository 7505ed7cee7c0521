/*
 * Change points in two steps, as Hunter finds them: splits that may be changes (divisive.c), then the weakest of
 * them is taken away again and again until all that are left convince. What convinces is stricter here than Student's t,
 * which is blind to the search, to a single wild row, to neighbours that resemble each other and to slow drift. The
 * constants are those of the simulations in tests/unit/test_change_points.c.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "stats/change_points.h"
#include "stats/describe.h"
#include "stats/distributions.h"
#include "stats/divisive.h"
#include "base/mem.h"

/* Looking at n - 1 places that lie side by side is worth about that share of as many looks. */
#define SHARE_OF_PLACES 0.3
/* A correlation of neighbours below this many standard errors is taken for chance, and one past the other is cut. */
#define CORRELATION_ERRORS 1.5
#define CORRELATION_MOST 0.9
/* By how much twice the log-likelihood of two levels must exceed that of a slope. */
#define BETTER_THAN_SLOPE 4

const stk__change_rule stk__change_rule_default = {
    .window = 50, .weak_p = 0.01, .max_p = 0.05, .min_effect = 0, .confidence = 0.95};
const stk__change_rule stk__change_rule_hunter = {
    .window = 50, .weak_p = 0.01, .max_p = 0.001, .min_effect = 0, .confidence = 0.95, .as_hunter = true};

/* ---- how much speaks for a step between two stretches ---- */

/* `errors`: the mean of the variances that rows are known to have. */
static double pooled_variance(stk__moments a, stk__moments b, double errors)
{
    const double df = (double)(a.n + b.n) - 2;
    /* Rows that agree better than they were measured agree by luck. */
    return df > 0 ? fmax((a.squares + b.squares) / df, errors) : INFINITY;
}

static stk__moments moments_of(const stk__stretch *a)
{
    return (stk__moments){a->n, a->mean, a->squares};
}

static double mean_error(const stk__stretch *a, const stk__stretch *b)
{
    return (a->errors + b->errors) / (double)(a->n + b->n);
}

/* How many rows one row is worth less than it seems: (1 + r) / (1 - r) for the correlation r of neighbours. */
static double sameness(const stk__stretch *a, const stk__stretch *b)
{
    const double n = (double)(a->n + b->n), squares = a->squares + b->squares;
    if (!(squares > 0) || n < 6)
        return 1;
    /* Correlations about a mean that was estimated come out too low. */
    const double found = (a->neighbours + b->neighbours) / squares, r = (found * n + 2) / (n - 4);
    if (r < CORRELATION_ERRORS / sqrt(n))
        return 1;
    const double most = fmin(r, CORRELATION_MOST);
    return (1 + most) / (1 - most);
}

/* What rounding leaves of a step is none. */
static bool is_rounding(double a, double b)
{
    return fabs(b - a) <= 1e-12 * fmax(fabs(a), fabs(b));
}

static double student_p(stk__moments a, stk__moments b, double errors, double less)
{
    const double na = (double)a.n, nb = (double)b.n;
    if (a.n + b.n < 3 || is_rounding(a.mean, b.mean))
        return 1;
    const double error = sqrt(pooled_variance(a, b, errors) * (1 / na + 1 / nb) * less);
    return error > 0 ? stk__student_p((b.mean - a.mean) / error, fmax(1, (na + nb - 2) / less)) : 0;
}

static bool is_slope(const stk__stretch *a, const stk__stretch *b)
{
    stk__stretch both;
    stk__stretch_join(a, b, &both);
    const double levels = a->squares + b->squares, line = stk__stretch_off_line(&both);
    return levels > 0 && !((double)both.n * log(line / levels) > BETTER_THAN_SLOPE);
}

/* Also without the row of either side that speaks most for the step. */
static double convincing_p(const stk__stretch *a, const stk__stretch *b, size_t places)
{
    if (a->n < 2 || b->n < 2 || is_slope(a, b))
        return 1;
    const bool up = b->mean > a->mean;
    const double less = sameness(a, b), errors = mean_error(a, b);
    const stk__moments of_a = moments_of(a), of_b = moments_of(b);
    double p = student_p(of_a, of_b, errors, less);
    p = fmax(p, student_p(up ? a->without_least : a->without_most, of_b, errors, less));
    p = fmax(p, student_p(of_a, up ? b->without_most : b->without_least, errors, less));
    return fmin(1, p * fmax(1, SHARE_OF_PLACES * (double)places));
}

static double magnitude(double a, double b)
{
    if (a == 0 || b == 0)
        return a == b ? 0 : INFINITY;
    return fmax(fabs(b / a - 1), fabs(a / b - 1));
}

/* ---- taking the weakest away ---- */

/* Border i is between stretch i and the one after it. */
typedef struct border {
    size_t next, before; /* stretches that are left; the count of stretches: none */
    double p, size, step;
} border;

typedef struct judge {
    const stk__change_rule *rule;
    size_t n;
    stk__stretch *stretches;
    border *borders; /* one per stretch; the last one has none after it */
    size_t count;    /* stretches at first */
    size_t *weaker;  /* a tournament: node k holds the weaker of nodes 2k and 2k + 1, the borders are its leaves */
    size_t leaves;
} judge;

/* What is to go: a p that is too large before a step that is too small; NONE is stronger than all. */
static int grade_of(const judge *j, const border *x)
{
    if (!(x->p < j->rule->max_p))
        return 2;
    return x->size > j->rule->min_effect ? 0 : 1;
}

static bool is_weaker(const judge *j, size_t a, size_t b)
{
    if (a == SIZE_MAX || b == SIZE_MAX)
        return a != SIZE_MAX;
    const border *x = &j->borders[a], *y = &j->borders[b];
    const int of_x = grade_of(j, x), of_y = grade_of(j, y);
    if (of_x != of_y)
        return of_x > of_y;
    if (of_x == 2 && x->p != y->p)
        return x->p > y->p;
    if (of_x == 1 && x->size != y->size)
        return x->size < y->size;
    return !(x->step > y->step);
}

static void play(judge *j, size_t leaf)
{
    for (size_t k = leaf / 2; k >= 1; k /= 2) {
        const size_t a = j->weaker[2 * k], b = j->weaker[2 * k + 1];
        j->weaker[k] = is_weaker(j, a, b) ? a : b;
    }
}

static void measure(judge *j, size_t i)
{
    border *x = &j->borders[i];
    if (x->next == j->count)
        return;
    const stk__stretch *a = &j->stretches[i], *b = &j->stretches[x->next];
    x->p = j->rule->as_hunter ? stk__divisive_p(a, b) : convincing_p(a, b, j->n - 1);
    x->size = magnitude(a->mean, b->mean);
    x->step = fabs(b->mean - a->mean);
    play(j, j->leaves + i);
}

/* Stretch i takes the next one in. */
static void join(judge *j, size_t i)
{
    const size_t gone = j->borders[i].next, next = j->borders[gone].next;
    stk__stretch_join(&j->stretches[i], &j->stretches[gone], &j->stretches[i]);
    j->borders[i].next = next;
    if (next < j->count)
        j->borders[next].before = i;
    else
        j->weaker[j->leaves + i] = SIZE_MAX;
    j->weaker[j->leaves + gone] = SIZE_MAX;
    play(j, j->leaves + gone);
    play(j, j->leaves + i);
    measure(j, i);
    if (j->borders[i].before < j->count)
        measure(j, j->borders[i].before);
}

static void take_weak_away(judge *j)
{
    for (size_t i = 0; i < j->leaves; i++)
        j->weaker[j->leaves + i] = i + 1 < j->count ? i : SIZE_MAX;
    for (size_t k = j->leaves; k-- > 1;)
        j->weaker[k] = SIZE_MAX;
    for (size_t i = 0; i + 1 < j->count; i++)
        measure(j, i);
    while (j->weaker[1] != SIZE_MAX && grade_of(j, &j->borders[j->weaker[1]]) > 0)
        join(j, j->weaker[1]);
}

static stk_status judge_init(judge *j, const double *values, const double *errors, const size_t *splits, size_t count,
                             stk_error *err)
{
    j->count = count + 1;
    for (j->leaves = 2; j->leaves < j->count;)
        j->leaves *= 2;
    j->stretches = stk__calloc(j->count, sizeof *j->stretches);
    j->borders = stk__calloc(j->count, sizeof *j->borders);
    j->weaker = stk__calloc(2 * j->leaves, sizeof *j->weaker);
    if (!j->stretches || !j->borders || !j->weaker)
        return stk__nomem(j->count * sizeof *j->stretches, err);
    for (size_t i = 0; i < j->count; i++) {
        const size_t begin = i ? splits[i - 1] : 0, end = i < count ? splits[i] : j->n;
        stk__stretch_of(values, errors, begin, end, &j->stretches[i]);
        j->borders[i] = (border){.next = i + 1, .before = i ? i - 1 : j->count};
    }
    return STK_OK;
}

static void judge_clear(judge *j)
{
    stk__free(j->stretches);
    stk__free(j->borders);
    stk__free(j->weaker);
}

/* ---- what is told of a step ---- */

/* The error of the logarithm of the ratio is that of the means, each by its mean. */
static void fill_ratio(const stk__stretch *a, const stk__stretch *b, double confidence, stk__change *out)
{
    out->ratio = out->low = out->high = NAN;
    if (!(a->mean > 0 && b->mean > 0) || !isfinite(b->mean / a->mean) || !(b->mean / a->mean > 0))
        return;
    const double na = (double)a->n, nb = (double)b->n, less = sameness(a, b);
    const double error = sqrt(pooled_variance(moments_of(a), moments_of(b), mean_error(a, b)) * less);
    /* No hypot(), which would ask for glibc 2.35. */
    const double of_a = error / sqrt(na) / a->mean, of_b = error / sqrt(nb) / b->mean;
    const double of_log = sqrt(of_a * of_a + of_b * of_b);
    const double width = of_log > 0 ? of_log * stk__student_quantile(1 - confidence, fmax(1, (na + nb - 2) / less)) : 0;
    out->ratio = b->mean / a->mean;
    out->low = out->ratio * exp(-width);
    out->high = out->ratio * exp(width);
}

/*
 * All places whose two levels fit nearly as well as the best ones do: twice the log-likelihood is less by no more than
 * what Hansen (2000) gives for a threshold.
 */
static void fill_range(const double *values, const stk__stretch *a, const stk__stretch *b, double confidence,
                       double *squares, stk__change *out)
{
    const size_t begin = a->begin, end = b->begin + b->n;
    stk__stretch grown, one;
    for (size_t i = begin; i < end; i++) {
        stk__stretch_of(values, NULL, i, i + 1, &one);
        if (i == begin)
            grown = one;
        else
            stk__stretch_join(&grown, &one, &grown);
        squares[i] = grown.squares;
    }
    double least = INFINITY;
    for (size_t i = end - 1; i > begin; i--) {
        stk__stretch_of(values, NULL, i, i + 1, &one);
        if (i == end - 1)
            grown = one;
        else
            stk__stretch_join(&one, &grown, &grown);
        squares[i] = squares[i - 1] + grown.squares; /* `squares[i - 1]` is still that of the rows before i */
        least = fmin(least, squares[i]);
    }
    const double variance = pooled_variance(moments_of(a), moments_of(b), mean_error(a, b));
    const double room = -2 * log(1 - sqrt(confidence)) * sameness(a, b) * variance;
    out->earliest = out->latest = b->begin;
    for (size_t i = begin + 1; i < end; i++) {
        if (!(squares[i] <= least + room))
            continue;
        out->earliest = STK_MIN(out->earliest, i);
        out->latest = STK_MAX(out->latest, i);
    }
}

static stk_status tell(const judge *j, const double *values, stk__change **out, size_t *out_count, stk_error *err)
{
    size_t count = 0;
    for (size_t i = 0; j->borders[i].next < j->count; i = j->borders[i].next)
        count++;
    stk__change *changes = count ? stk__calloc(count, sizeof *changes) : NULL;
    double *squares = count ? stk__calloc(j->n, sizeof *squares) : NULL;
    if (count && (!changes || !squares)) {
        stk__free(changes);
        stk__free(squares);
        return stk__nomem(j->n * sizeof *squares, err);
    }
    for (size_t i = 0, k = 0; k < count; i = j->borders[i].next, k++) {
        const stk__stretch *a = &j->stretches[i], *b = &j->stretches[j->borders[i].next];
        changes[k] = (stk__change){.begin = a->begin,
                                   .at = b->begin,
                                   .end = b->begin + b->n,
                                   .before = a->mean,
                                   .after = b->mean,
                                   .p = j->borders[i].p};
        fill_ratio(a, b, j->rule->confidence, &changes[k]);
        fill_range(values, a, b, j->rule->confidence, squares, &changes[k]);
    }
    stk__free(squares);
    *out = changes;
    *out_count = count;
    return STK_OK;
}

/* ---- rows that stand alone ---- */

/* How many times as far as neighbours usually are a row must be from all that are near it; one in how many may be. */
#define ALONE_DISTANCE 6
#define ALONE_SHARE 20
enum { NEAR = 2 };

static double median_of(double *values, size_t n)
{
    stk__sort_double(values, n);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Its value as the rows near it would have it, at the edge of the usual. False when one of them is not far. */
static bool stands_alone(const double *values, size_t n, size_t i, double usual, double *out)
{
    double near[2 * NEAR];
    size_t count = 0;
    for (size_t k = i - STK_MIN(i, NEAR); k < n && k <= i + NEAR; k++) {
        if (k == i)
            continue;
        if (!(fabs(values[i] - values[k]) > ALONE_DISTANCE * usual))
            return false;
        near[count++] = values[k];
    }
    if (!count)
        return false;
    const double middle = median_of(near, count);
    *out = middle + copysign(usual, values[i] - middle);
    return true;
}

/*
 * One wild row hides the steps around it: it is many times their size. Rows that stand alone take the level of
 * those near them, unless there are so many that wild rows are what the series is made of. `room`: n values.
 */
static void tame(double *values, size_t n, double *room)
{
    for (size_t i = 0; i + 1 < n; i++)
        room[i] = fabs(values[i + 1] - values[i]);
    const double usual = median_of(room, n - 1);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        room[i] = values[i];
        count += stands_alone(values, n, i, usual, &room[i]);
    }
    if (count <= STK_MAX(1, n / ALONE_SHARE))
        memcpy(values, room, n * sizeof *values);
}

/* ---- all of it ---- */

/* By a power of two, so that the largest value is about 1 and no square overflows. */
static int scale(double *values, size_t n)
{
    double most = 0;
    int exponent = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(values[i]));
    if (most > 0)
        frexp(most, &exponent);
    for (size_t i = 0; i < n; i++)
        values[i] = ldexp(values[i], -exponent);
    return exponent;
}

static double variance_of(double error, int exponent)
{
    const double scaled = error > 0 ? fmin(ldexp(error, -exponent), 1e50) : 0;
    return scaled * scaled;
}

/* The values to judge, and variances where errors are known. Returns the exponent that they are scaled by. */
static int prepare(const double *values, const double *errors, size_t n, bool as_they_are, double *out,
                   double *variances)
{
    memcpy(out, values, n * sizeof *out);
    int exponent = scale(out, n);
    if (!as_they_are) {
        tame(out, n, variances);
        exponent += scale(out, n);
    }
    for (size_t i = 0; i < n; i++)
        variances[i] = errors ? variance_of(errors[i], exponent) : 0;
    return exponent;
}

static stk_status find(const double *values, const double *errors, size_t n, const stk__change_rule *rule,
                       stk__change **out, size_t *out_count, stk_error *err)
{
    size_t *splits = NULL, count = 0;
    STK_TRY(stk__divisive(values, n, rule->window, rule->weak_p, &splits, &count, err));
    judge j = {.rule = rule, .n = n};
    stk_status status = judge_init(&j, values, errors, splits, count, err);
    stk__free(splits);
    if (status == STK_OK) {
        take_weak_away(&j);
        status = tell(&j, values, out, out_count, err);
    }
    judge_clear(&j);
    return status;
}

stk_status stk__change_points(const double *values, const double *errors, size_t n, const stk__change_rule *rule,
                              stk__change **out, size_t *out_count, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return stk_error_set(err, STK_INVALID, "value %zu of %zu is %g, wanted a finite number", i + 1, n,
                                 values[i]);
    }
    if (rule->window < 2)
        return stk_error_set(err, STK_INVALID, "a window of %zu rows, wanted at least 2", rule->window);
    if (n < 2) {
        *out = NULL;
        *out_count = 0;
        return STK_OK;
    }
    double *scaled = stk__calloc(n, sizeof *scaled), *variances = stk__calloc(n, sizeof *variances);
    stk_status status = scaled && variances ? STK_OK : stk__nomem(n * sizeof *scaled, err);
    if (status == STK_OK) {
        const int exponent = prepare(values, errors, n, rule->as_hunter, scaled, variances);
        status = find(scaled, variances, n, rule, out, out_count, err);
        for (size_t i = 0; status == STK_OK && i < *out_count; i++) {
            (*out)[i].before = ldexp((*out)[i].before, exponent);
            (*out)[i].after = ldexp((*out)[i].after, exponent);
        }
    }
    stk__free(scaled);
    stk__free(variances);
    return status;
}
