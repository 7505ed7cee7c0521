/* CSV files that other programs wrote, read as a log: a time, a commit, and columns of numbers. */
#ifndef STK_BENCH_LOG_FOREIGN_H
#define STK_BENCH_LOG_FOREIGN_H

#include "base/str.h"
#include "bench/log.h"

/* At most this many figures; a file of 64 MiB could have more than memory. */
enum { STK__FOREIGN_CELLS = 1 << 20 };

/*
 * A file whose name ends in .csv: ours beside a PERF.md, or any other with a header line. Fields are separated by commas,
 * semicolons or tabs. Columns are known by their names: time (or timestamp, date), commit (revision, hash, sha, ...),
 * machine (host, ...), description (message, ...); NAME_sd and NAME_n belong to NAME; every other column that has
 * numbers alone is a benchmark, and the rest is left out and told in out_notes. Rows are sorted by time.
 * higher_is_better: what to think of columns whose names do not tell. CORRUPT with line, found and wanted.
 */
stk_status stk__log_read_csv(const char *path, bool higher_is_better, stk__log *out, stk__text *out_notes,
                             stk_error *err);
/* The same of a text (untrusted) that is not ours. */
stk_status stk__log_foreign_parse(const char *text, size_t size, const char *file, bool higher_is_better, stk__log *out,
                                  stk__text *out_notes, stk_error *err);

/* A time as people and tools write it: 2026-08-18, 2026-08-18T10:00:00+02:00, seconds since 1970. False: it is not one. */
bool stk__log_when(const char *text, int64_t *out);

#endif
