/* What the files of the change log share: the log in memory, the CSV lines, the Markdown table, and the row of a run. */
#ifndef STK_BENCH_LOG_IMPL_H
#define STK_BENCH_LOG_IMPL_H

#include "bench/log.h"

#define STK__LOG_MARK "<!-- stoker bench log 2 -->"
#define STK__LOG_MARK_OLD "<!-- stoker bench log 1 -->"

enum { STK__LOG_MAX_BYTES = 64 << 20, STK__LOG_BRIEF = 7 };

typedef struct stk__log_paths {
    char *markdown, *csv;
} stk__log_paths;

/* CORRUPT with file and line (from 1; 0: no line). */
stk_status stk__log_damage(stk_error *err, const char *file, size_t line, const char *format, ...) STK_PRINTF(4, 5);

/* As it stands in both files: line ends and tabs as blanks, control characters made visible. Freed by stk__free. */
char *stk__log_clean(const char *text);

/* "2026-08-18T10:00:00Z", and "2026-08-18 10:00" for people. */
void stk__log_time(int64_t time_s, bool for_people, stk__text *out);
/* Only what the former writes: whatever else would read back as another text. */
bool stk__log_time_parse(const char *text, int64_t *out);

/* ---- in memory ---- */

/* Index, or SIZE_MAX. */
size_t stk__log_find(const stk__log *log, const char *name);
size_t stk__log_find_pair(const stk__log *log, const char *name);
/* A column for all rows, empty in those that are there. LIMIT past STK__LOG_COLUMNS. */
stk_status stk__log_add_benchmark(stk__log *log, const char *name, size_t *out_index, stk_error *err);
stk_status stk__log_add_pair(stk__log *log, const char *name, size_t *out_index, stk_error *err);
/* An empty row behind the last one, counted. */
stk_status stk__log_add_row(stk__log *log, stk__log_row **out, stk_error *err);

/* ---- CSV ---- */

/* Text of the CSV file (untrusted), of either version, into an empty log. An empty text is an empty log. */
stk_status stk__log_csv_parse(const char *text, size_t size, const stk__log_paths *paths, stk__log *out,
                              stk_error *err);
/* Both without a line end. */
/* Text as one field (RFC 4180), in quotes where it needs them. */
void stk__log_csv_field(stk__text *out, const char *text);
void stk__log_csv_header(const stk__log *log, stk__text *out);
void stk__log_csv_row(const stk__log *log, const stk__log_row *row, stk__text *out);

/* The columns of a file: fixed ones, then those of each benchmark, then those of each pair. */
enum { STK__LOG_HEAD = 8, STK__LOG_PER_BENCHMARK = 14, STK__LOG_PER_PAIR = 6 };
extern const char *const stk__log_head[STK__LOG_HEAD];
/* What stands behind the name: "", "_sd", "_n", ... */
extern const char *const stk__log_of_benchmark[STK__LOG_PER_BENCHMARK];
extern const char *const stk__log_of_pair[STK__LOG_PER_PAIR];

/* ---- Markdown ---- */

/* The table in the page. */
typedef struct stk__log_table {
    size_t mark, mark_end; /* bytes of the mark */
    size_t start, end; /* header line to behind the last row; both behind the mark's line when there is no table yet */
    bool there;        /* the table has its header */
    bool open;         /* the line before `end` has no line end */
    bool crlf;         /* lines end in CR LF */
    bool text_below;   /* what follows needs an empty line to stay apart from a new table */
    bool old;          /* written by version 1 */
    size_t benchmarks, pairs, rows; /* columns and rows that it has: the first ones of the CSV file */
} stk__log_table;

/* Checks the page (untrusted) against the CSV file. It may have less: fewer rows, fewer columns, or the old ones. */
stk_status stk__log_markdown_check(const char *page, size_t size, const stk__log_paths *paths, const stk__log *log,
                                   stk__log_table *out, stk_error *err);
bool stk__log_markdown_whole(const stk__log_table *table, const stk__log *log);
/*
 * The page with all that the log has: rows that are there get cells for new columns and stay as they are otherwise.
 * Commits of new rows have `brief` characters. An empty page becomes a new one.
 */
void stk__log_markdown_update(const char *page, size_t size, const stk__log_table *table, const stk__log *log,
                              size_t brief, stk__text *out);

/* ---- the row of a run ---- */

/* Adds it to the log, with columns for what is new in it. INVALID when a benchmark has another metric or unit there. */
stk_status stk__log_row_add(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log, stk_error *err);
/* The columns alone, for before a run. */
stk_status stk__log_columns_add(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log,
                                stk_error *err);
/* "0.941..0.985", with the confidence where it is not 95 %. */
void stk__log_interval(double low, double high, double confidence, stk__text *out);

#endif
