/* What the files of the change log share: the CSV lines, the Markdown table, and the row of a run. */
#ifndef STK_BENCH_LOG_IMPL_H
#define STK_BENCH_LOG_IMPL_H

#include "bench/log.h"

#define STK__LOG_MARK "<!-- stoker bench log 1 -->"

enum { STK__LOG_MAX_BYTES = 64 << 20 };

typedef struct stk__log_paths {
    char *markdown, *csv;
} stk__log_paths;

/* CORRUPT with file and line (from 1; 0: no line). */
stk_status stk__log_damage(stk_error *err, const char *file, size_t line, const char *format, ...) STK_PRINTF(4, 5);

/* As it stands in both files: line ends and tabs as blanks, control characters made visible. Freed by stk__free. */
char *stk__log_clean(const char *text);

/* "2026-08-18T10:00:00Z", and "2026-08-18 10:00" for people. */
void stk__log_time(int64_t time_s, bool for_people, stk__text *out);

/* Text of the CSV file (untrusted) into an empty log. An empty text is an empty log. */
stk_status stk__log_csv_parse(const char *text, size_t size, const stk__log_paths *paths, stk__log *out,
                              stk_error *err);
/* Both without a line end. */
/* Text as one field (RFC 4180), in quotes where it needs them. */
void stk__log_csv_field(stk__text *out, const char *text);
void stk__log_csv_header(const stk__log *log, stk__text *out);
void stk__log_csv_row(const stk__log *log, const stk__log_row *row, stk__text *out);

/* Where the table ends in the page, so that a row can be added. */
typedef struct stk__log_table {
    size_t end;      /* byte behind the last row, or behind the mark when there is no table yet */
    bool there;      /* the table has its header */
    bool open;       /* the line before `end` has no line end */
    bool crlf;       /* lines end in CR LF */
    bool text_below; /* what follows needs an empty line to stay apart from a new table */
} stk__log_table;

/* Checks the page (untrusted) against the rows of the CSV file. */
stk_status stk__log_markdown_check(const char *page, size_t size, const stk__log_paths *paths, const stk__log *log,
                                   stk__log_table *out, stk_error *err);
/* A new page up to its table. */
void stk__log_markdown_page(stk__text *out);
/* Header and line below it; each line with `line_end`. */
void stk__log_markdown_header(const stk__log *log, const char *line_end, stk__text *out);

/* A row in words, for people. */
typedef struct stk__log_words {
    const char *brief; /* the commit's */
    stk__text ratio, interval, verdict, to_parent;
} stk__log_words;

/* Without a line end. */
void stk__log_markdown_row(const stk__log *log, const stk__log_row *row, const stk__log_words *words, stk__text *out);

/*
 * The row of a run, for a log that has its benchmarks, or none yet: then it gets those of the run. INVALID when they
 * are others. The log's rows are what the ratio to the parent is looked up in.
 */
stk_status stk__log_row_make(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log,
                             stk__log_row *out_row, stk__log_words *out_words, stk_error *err);
/* INVALID when the log has other benchmarks or another metric. */
stk_status stk__log_columns_check(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log,
                                  stk_error *err);
void stk__log_row_clear(stk__log_row *row);
void stk__log_words_clear(stk__log_words *words);

/* A zeroed row with cells behind the last one; counted by the caller once it is filled. NULL: out of memory. */
stk__log_row *stk__log_add_row(stk__log *log);

#endif
