/* Results in the formats of other tools, read and written. */
#ifndef STK_BENCH_INTERCHANGE_H
#define STK_BENCH_INTERCHANGE_H

#include "bench/compare.h"
#include "bench/result.h"

/*
 * All formats: this is the only list, of which options, help, completion and messages are made. Name for options, and
 * whose it is. Of those that are both read and written, "stoker" is what `stoker bench --json` prints; it alone keeps the
 * pairs. Either name of hyperfine reads both of its schemas.
 */
#define STK__BENCH_FORMATS_BOTH(first, next)                                           \
    first(STOKER, "stoker", "stoker bench") next(HYPERFINE, "hyperfine", "hyperfine")  \
        next(HYPERFINE2, "hyperfine2", "hyperfine 2") next(PYPERF, "pyperf", "pyperf") \
            next(GOOGLE, "google", "Google Benchmark") next(GO, "go", "Go")
#define STK__BENCH_FORMATS_READ(next) next(PYTEST, "pytest", "pytest-benchmark")
#define STK__BENCH_FORMATS_WRITTEN(next)                                                                             \
    next(CSV, "csv", "CSV") next(MARKDOWN, "markdown", "Markdown") next(GITHUB, "github", "github-action-benchmark") \
        next(BENCHER, "bencher", "Bencher")

#define STK__BENCH_ENUM(id, name, tool) STK__BENCH_##id,
typedef enum stk__bench_format {
    STK__BENCH_UNKNOWN,
    STK__BENCH_FORMATS_BOTH(STK__BENCH_ENUM, STK__BENCH_ENUM) STK__BENCH_FORMATS_READ(STK__BENCH_ENUM)
        STK__BENCH_FORMATS_WRITTEN(STK__BENCH_ENUM) STK__BENCH_FORMAT_COUNT
} stk__bench_format;
#undef STK__BENCH_ENUM

/* As literals: separated by blanks for completion, by commas for people. */
#define STK__BENCH_FIRST(id, name, tool) name
#define STK__BENCH_BLANK(id, name, tool) " " name
#define STK__BENCH_COMMA(id, name, tool) ", " name
#define STK__BENCH_FIRST_TOOL(id, name, tool) tool
#define STK__BENCH_COMMA_TOOL(id, name, tool) ", " tool
#define STK__BENCH_READ_WORDS \
    STK__BENCH_FORMATS_BOTH(STK__BENCH_FIRST, STK__BENCH_BLANK) STK__BENCH_FORMATS_READ(STK__BENCH_BLANK)
#define STK__BENCH_READ_LIST \
    STK__BENCH_FORMATS_BOTH(STK__BENCH_FIRST, STK__BENCH_COMMA) STK__BENCH_FORMATS_READ(STK__BENCH_COMMA)
#define STK__BENCH_READ_TOOLS \
    STK__BENCH_FORMATS_BOTH(STK__BENCH_FIRST_TOOL, STK__BENCH_COMMA_TOOL) STK__BENCH_FORMATS_READ(STK__BENCH_COMMA_TOOL)
#define STK__BENCH_WRITTEN_WORDS \
    STK__BENCH_FORMATS_BOTH(STK__BENCH_FIRST, STK__BENCH_BLANK) STK__BENCH_FORMATS_WRITTEN(STK__BENCH_BLANK)
#define STK__BENCH_WRITTEN_LIST \
    STK__BENCH_FORMATS_BOTH(STK__BENCH_FIRST, STK__BENCH_COMMA) STK__BENCH_FORMATS_WRITTEN(STK__BENCH_COMMA)

/* Name for options, and back (UNKNOWN when there is none such). */
const char *stk__bench_format_name(stk__bench_format format);
stk__bench_format stk__bench_format_find(const char *name);
bool stk__bench_format_is_read(stk__bench_format format);
bool stk__bench_format_is_written(stk__bench_format format);

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
 * Writes the result; comparisons may be NULL (STOKER, MARKDOWN and GITHUB use them). What the format cannot carry goes into
 * out_notes, a line each; it may be NULL.
 */
stk_status stk__bench_write(const stk__result *r, const stk__comparisons *c, stk__bench_format format, stk__text *out,
                            stk__text *out_notes, stk_error *err);

#endif
