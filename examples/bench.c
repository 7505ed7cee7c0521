/*
 * Two functions compared on the public API: in turns, in random order, with an interval and a verdict.
 *
 *   bench [--rounds N] [--json FILE]
 *
 * The sum of a table along its rows, and along its columns, which uses each cache line for one number only. Ctrl-C ends
 * it with the rounds that are done. `stoker bench compare FILE` reads the JSON.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stoker/bench.h>
#include <stoker/error.h>

enum { SIDE = 1024, VARIANTS = 2 };

static const char *const names[VARIANTS] = {"by rows", "by columns"};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static float sum_by_rows(const float *table)
{
    float sum = 0;
    for (size_t row = 0; row < SIDE; row++)
        for (size_t column = 0; column < SIDE; column++)
            sum += table[row * SIDE + column];
    return sum;
}

static float sum_by_columns(const float *table)
{
    float sum = 0;
    for (size_t column = 0; column < SIDE; column++)
        for (size_t row = 0; row < SIDE; row++)
            sum += table[row * SIDE + column];
    return sum;
}

/* One measured run. What it computes must be used, or the compiler leaves it out. */
static stk_status run(void *arg, size_t variant, double *out_seconds, stk_error *err)
{
    const float *table = arg;
    const double start = seconds_now();
    const float sum = variant == 0 ? sum_by_rows(table) : sum_by_columns(table);
    *out_seconds = seconds_now() - start;
    if (sum != (float)SIDE * SIDE)
        return stk_error_set(err, STK_CORRUPT, "%s: the sum is %g, wanted %g", names[variant], sum,
                             (double)SIDE * SIDE);
    return STK_OK;
}

/* Before each run; `rounds` is 0 during the warm-up, which decides how many there will be. */
static bool go_on(void *arg, size_t round, size_t rounds, double left_s)
{
    (void)arg;
    (void)left_s;
    if (rounds)
        fprintf(stderr, "\rround %zu of %zu ", round + 1, rounds);
    return !interrupted;
}

static int write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    const int failed = fputs(text, file) < 0;
    return fclose(file) || failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    stk_bench_options options = {.struct_size = sizeof options, .progress = go_on};
    const char *path = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            options.rounds = strtoul(argv[i + 1], NULL, 10); /* without it: as many as fit in about 10 s, 12 to 50 */
        else if (strcmp(argv[i], "--json") == 0)
            path = argv[i + 1];
    }
    float *table = malloc(sizeof *table * SIDE * SIDE);
    if (!table)
        return 1;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        table[i] = 1;
    signal(SIGINT, on_interrupt);

    stk_error err;
    stk_error_clear(&err);
    char *text = NULL, *json = NULL;
    const stk_status status = stk_bench_compare(names, VARIANTS, run, table, &options, &text, &json, &err);
    fprintf(stderr, "\r                      \r");
    int code = status == STK_OK ? 0 : 1;
    if (status == STK_OK) {
        printf("%s", text);
        if (path && write_file(path, json) != 0) {
            fprintf(stderr, "bench: cannot write %s\n", path);
            code = 1;
        }
    } else {
        char line[2048];
        stk_error_format(&err, line, sizeof line);
        fprintf(stderr, "bench: %s\n", line);
    }
    stk_free(text);
    stk_free(json);
    free(table);
    return code;
}
