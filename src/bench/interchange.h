/* Results in the formats of other tools, read and written. */
#ifndef STK_BENCH_INTERCHANGE_H
#define STK_BENCH_INTERCHANGE_H

#include "bench/compare.h"
#include "bench/result.h"

typedef enum stk__bench_format {
    STK__BENCH_UNKNOWN,
    STK__BENCH_STOKER,    /* "stoker": what `stoker bench --json` prints; keeps the pairing */
    STK__BENCH_HYPERFINE, /* "hyperfine" */
    STK__BENCH_PYPERF,    /* "pyperf" */
    STK__BENCH_GOOGLE,    /* "google": Google Benchmark */
    STK__BENCH_GO,        /* "go": Go benchmark text, as benchstat reads it */
    STK__BENCH_GITHUB     /* "github": github-action-benchmark (customSmallerIsBetter); written only */
} stk__bench_format;

/* Name for options, and back (UNKNOWN when there is none such). */
const char *stk__bench_format_name(stk__bench_format format);
stk__bench_format stk__bench_format_find(const char *name);

/*
 * Reads `data` (untrusted, at most 256 MiB) into an empty result. UNKNOWN: the format is found from the content. Metrics
 * keep the names of stk__measure where they mean the same ("wall", "user", "rss"); others their own. A variant per
 * benchmark; several metrics of one Go line become metrics. gzip for pyperf is undone by the caller. What is left out
 * is told in notes, counted. Not paired, but for STOKER files that say so. Errors tell line or JSON place.
 */
stk_status stk__bench_read(const char *data, size_t size, const char *file, stk__bench_format format, stk__result *out,
                           stk_error *err);

/*
 * Adds the variants of `from` to `to`, for comparing files; a name that is there already becomes "NAME @SUFFIX".
 * Benchmarks of one name become a group, the first file's first. Where no name is in both, a single benchmark joins the
 * group of what is there. Afterwards nothing is paired. INVALID when a metric has another unit or direction, or when
 * `from` lacks the primary metric of `to`; `to` is as before then.
 */
stk_status stk__bench_join(stk__result *to, const stk__result *from, const char *suffix, stk_error *err);

/*
 * Writes the result; comparisons may be NULL (STOKER and GITHUB use them). What the format cannot carry goes into
 * out_notes, a line each; it may be NULL.
 */
stk_status stk__bench_write(const stk__result *r, const stk__comparisons *c, stk__bench_format format, stk__text *out,
                            stk__text *out_notes, stk_error *err);

#endif
