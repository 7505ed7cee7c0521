/* The change log: reading both files, checking one against the other, adding a row to both. */
#define _GNU_SOURCE
#include "bench/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench/log_impl.h"

#include "base/banned.h"

#define LOCK_WAIT_NS INT64_C(30000000000)

stk_status stk__log_damage(stk_error *err, const char *file, size_t line, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    stk_error_set(err, STK_CORRUPT, "%s", message);
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", file);
        err->line = (int)STK_MIN(line, INT_MAX);
        err->column = line > 0;
    }
    return STK_CORRUPT;
}

static void paths_clear(stk__log_paths *paths)
{
    stk__free(paths->markdown);
    stk__free(paths->csv);
}

/* The files are replaced, which must not put them in the place of links to them. */
static stk_status paths_of(const char *given, stk__log_paths *out, stk_error *err)
{
    char target[PATH_MAX];
    struct stat st;
    const bool link = lstat(given, &st) == 0 && S_ISLNK(st.st_mode) && stat(given, &st) == 0 && S_ISREG(st.st_mode) &&
                      realpath(given, target);
    const char *path = link ? target : given;
    const size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 3, ".md") != 0 || path[length - 4] == '/')
        return stk_error_set(err, STK_INVALID,
                             "the log is called '%s', wanted a name that ends in .md, such as PERF.md (PERF.csv is "
                             "written beside it)",
                             path);
    stk__log_paths paths = {.markdown = stk__strdup(path), .csv = stk__alloc(length + 2)};
    if (!paths.markdown || !paths.csv) {
        paths_clear(&paths);
        return stk__nomem(length, err);
    }
    snprintf(paths.csv, length + 2, "%.*s.csv", (int)STK_MIN(length - 3, INT_MAX), path);
    *out = paths;
    return STK_OK;
}

/* ---- the lock: on the directory, since the files themselves are replaced ---- */

static stk_status lock_directory(const stk__log_paths *paths, int mode, int *out_fd, stk_error *err)
{
    const char *slash = strrchr(paths->markdown, '/');
    char *directory = !slash                     ? stk__strdup(".")
                      : slash == paths->markdown ? stk__strdup("/")
                                                 : stk__strndup(paths->markdown, (size_t)(slash - paths->markdown));
    if (!directory)
        return stk__nomem(strlen(paths->markdown), err);
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int64_t give_up = stk__now_ns() + LOCK_WAIT_NS;
    stk_status status = STK_OK;
    /* Where locks are not supported, as on some network file systems, two runs at once are rarer than runs. */
    while (fd >= 0 && flock(fd, mode | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
        if (stk__now_ns() > give_up) {
            status = stk_error_set(err, STK_IO, "another process has locked the directory for %d s",
                                   (int)(LOCK_WAIT_NS / 1000000000));
            if (err)
                snprintf(err->file, sizeof err->file, "%s", directory);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    stk__free(directory);
    if (status == STK_OK)
        *out_fd = fd;
    else
        close(fd);
    return status;
}

/* Closing ends the lock. */
static void unlock_directory(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* ---- both files together ---- */

typedef struct log_files {
    char *markdown, *csv; /* never NULL once loaded */
    size_t markdown_size, csv_size;
    bool csv_there;
    stk__log log;
    stk__log_table table;
} log_files;

static void files_clear(log_files *f)
{
    stk__free(f->markdown);
    stk__free(f->csv);
    stk__log_clear(&f->log);
}

/* A file that is not there reads as empty. */
static stk_status load(const char *path, char **out_data, size_t *out_size, bool *out_there, stk_error *err)
{
    struct stat st;
    *out_there = stat(path, &st) == 0 || errno != ENOENT;
    if (*out_there)
        return stk__read_file(path, STK__LOG_MAX_BYTES, out_data, out_size, err);
    *out_size = 0;
    *out_data = stk__strdup("");
    return *out_data ? STK_OK : stk__nomem(1, err);
}

/* Both texts say the same, as far as the page goes, or the log is damaged. An empty page has yet to be written. */
static stk_status check_files(const stk__log_paths *paths, const char *csv, size_t csv_size, const char *markdown,
                              size_t markdown_size, stk__log *out_log, stk__log_table *out_table, stk_error *err)
{
    stk__log log = {0};
    stk__log_table table = {0};
    STK_TRY(stk__log_csv_parse(csv, csv_size, paths, &log, err));
    const stk_status status =
        markdown_size ? stk__log_markdown_check(markdown, markdown_size, paths, &log, &table, err) : STK_OK;
    if (status != STK_OK) {
        stk__log_clear(&log);
        return status;
    }
    log.stale = log.benchmark_count && !stk__log_markdown_whole(&table, &log);
    *out_log = log;
    *out_table = table;
    return STK_OK;
}

static stk_status files_load(const stk__log_paths *paths, log_files *out, stk_error *err)
{
    log_files f = {0};
    bool page_there;
    stk_status status = load(paths->csv, &f.csv, &f.csv_size, &f.csv_there, err);
    if (status == STK_OK)
        status = load(paths->markdown, &f.markdown, &f.markdown_size, &page_there, err);
    if (status == STK_OK)
        status = check_files(paths, f.csv, f.csv_size, f.markdown, f.markdown_size, &f.log, &f.table, err);
    if (status == STK_OK)
        *out = f;
    else
        files_clear(&f);
    return status;
}

stk_status stk__log_read(const char *path, stk__log *out, stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    log_files f = {0};
    /* Another run may be between its two files. */
    stk_status status = lock_directory(&paths, LOCK_SH, &fd, err);
    if (status == STK_OK)
        status = files_load(&paths, &f, err);
    unlock_directory(fd);
    if (status == STK_OK) {
        *out = f.log;
        f.log = (stk__log){0};
    }
    files_clear(&f);
    paths_clear(&paths);
    return status;
}

/* ---- writing ---- */

static void note(stk__text *notes, const char *format, ...) STK_PRINTF(2, 3);

static void note(stk__text *notes, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (notes)
        stk__text_printf(notes, "%s\n", line);
}

/* The CSV file for a log that grew: lines that are there stay as they are, unless the columns are others. */
static stk_status csv_text(const log_files *f, size_t rows, size_t columns, stk__text *out, stk_error *err)
{
    const stk__log *log = &f->log;
    const char *first_end = memchr(f->csv, '\n', f->csv_size);
    const char *line_end = first_end && first_end > f->csv && first_end[-1] == '\r' ? "\r\n" : "\n";
    const bool anew = !f->csv_size || log->version == 1 || columns != log->benchmark_count + log->pair_count;
    if (anew) {
        stk__log_csv_header(log, out);
        stk__text_puts(out, line_end);
    } else {
        stk__text_write(out, f->csv, f->csv_size);
        if (f->csv[f->csv_size - 1] != '\n')
            stk__text_puts(out, line_end);
    }
    for (size_t i = anew ? 0 : rows; i < log->row_count; i++) {
        stk__log_csv_row(log, &log->rows[i], out);
        stk__text_puts(out, line_end);
    }
    return out->failed ? stk__nomem(out->length, err) : STK_OK;
}

/* What is written must be what can be read, and whole: rather no row than a log that the next run refuses. */
static stk_status check_new(const stk__log_paths *paths, const stk__text *csv, const stk__text *markdown,
                            stk_error *err)
{
    stk__log log;
    stk__log_table table;
    if (csv->length > STK__LOG_MAX_BYTES || markdown->length > STK__LOG_MAX_BYTES)
        return stk_error_set(err, STK_INVALID, "%s would be larger than %d bytes: use another file with --log",
                             paths->markdown, STK__LOG_MAX_BYTES);
    STK_TRY(check_files(paths, csv->data, csv->length, markdown->data, markdown->length, &log, &table, err));
    const bool whole = !log.stale;
    stk__log_clear(&log);
    return whole ? STK_OK : stk__log_damage(err, paths->markdown, 0, "the new row cannot be read back");
}

/* PERF.v1.md, PERF.v1.csv: the old files under names that can be read as a log still. */
static stk_status keep_one(const char *path, const char *data, size_t size, stk_error *err)
{
    const char *dot = strrchr(path, '.');
    stk__text kept = STK__TEXT_INIT;
    stk__text_printf(&kept, "%.*s.v1%s", (int)STK_MIN(dot - path, INT_MAX), path, dot);
    stk_status status = kept.failed ? stk__nomem(kept.length, err) : STK_OK;
    if (status == STK_OK && access(kept.data, F_OK) != 0)
        status = stk__write_file(kept.data, data, size, err);
    stk__text_clear(&kept);
    return status;
}

static stk_status keep_old(const stk__log_paths *paths, const log_files *f, stk__text *notes, stk_error *err)
{
    if (f->log.version != 1)
        return STK_OK;
    STK_TRY(keep_one(paths->csv, f->csv, f->csv_size, err));
    if (f->markdown_size)
        STK_TRY(keep_one(paths->markdown, f->markdown, f->markdown_size, err));
    note(notes, "%s has the columns of version 2 now; the old files are kept with .v1 in their names", paths->markdown);
    return STK_OK;
}

/* The page comes last: what it lacks after a kill is in the CSV file. */
static stk_status write_both(const stk__log_paths *paths, const log_files *old, const stk__text *csv,
                             const stk__text *markdown, stk_error *err)
{
    STK_TRY(stk__write_file(paths->csv, csv->data, csv->length, err));
    const stk_status status = stk__write_file(paths->markdown, markdown->data, markdown->length, err);
    if (status == STK_OK)
        return STK_OK;
    if (!old->csv_there)
        unlink(paths->csv);
    else if (stk__write_file(paths->csv, old->csv, old->csv_size, NULL) != STK_OK)
        stk__error_prefix(err, "%s has one row more now: ", paths->csv);
    return status;
}

/* Writes f->log, which had `rows` rows and `columns` columns when it was read, into both files. */
static stk_status files_save(const stk__log_paths *paths, log_files *f, size_t rows, size_t columns, size_t brief,
                             stk__text *notes, stk_error *err)
{
    stk__text csv = STK__TEXT_INIT, markdown = STK__TEXT_INIT;
    stk_status status = csv_text(f, rows, columns, &csv, err);
    if (status == STK_OK) {
        stk__log_markdown_update(f->markdown, f->markdown_size, &f->table, &f->log, brief, &markdown);
        status = markdown.failed ? stk__nomem(markdown.length, err) : check_new(paths, &csv, &markdown, err);
    }
    if (status == STK_OK)
        status = keep_old(paths, f, notes, err);
    if (status == STK_OK)
        status = write_both(paths, f, &csv, &markdown, err);
    stk__text_clear(&csv);
    stk__text_clear(&markdown);
    return status;
}

static void note_mended(const stk__log_paths *paths, const log_files *f, stk__text *notes)
{
    const size_t missing = f->log.row_count - f->table.rows;
    if (missing)
        note(notes, "%s lacked %zu row%s of %s (a run was ended between the two files): added", paths->markdown,
             missing, missing == 1 ? "" : "s", paths->csv);
    else
        note(notes, "%s lacked columns of %s (a run was ended between the two files): added", paths->markdown,
             paths->csv);
}

static stk_status mend_locked(const stk__log_paths *paths, stk__text *notes, stk_error *err)
{
    log_files f = {0};
    STK_TRY(files_load(paths, &f, err));
    stk_status status = STK_OK;
    if (f.log.stale) {
        const size_t columns = f.log.benchmark_count + f.log.pair_count;
        status = files_save(paths, &f, f.log.row_count, columns, 0, notes, err);
        if (status == STK_OK)
            note_mended(paths, &f, notes);
    }
    files_clear(&f);
    return status;
}

static stk_status append_locked(const stk__log_paths *paths, const stk__log_entry *entry, stk__log *out_log,
                                stk__text *notes, stk_error *err)
{
    log_files f = {0};
    STK_TRY(files_load(paths, &f, err));
    const size_t rows = f.log.row_count, columns = f.log.benchmark_count + f.log.pair_count;
    const size_t brief = entry->commit ? strlen(entry->commit->brief) : 0;
    if (f.log.stale)
        note_mended(paths, &f, notes);
    stk_status status = stk__log_row_add(entry, paths, &f.log, err);
    if (status == STK_OK)
        status = files_save(paths, &f, rows, columns, brief, notes, err);
    if (status == STK_OK && out_log) {
        f.log.stale = false;
        f.log.version = 2;
        *out_log = f.log;
        f.log = (stk__log){0};
    }
    files_clear(&f);
    return status;
}

static stk_status check_directory(int fd, const stk__log_paths *paths, stk_error *err)
{
    if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) == 0)
        return STK_OK;
    return stk_error_set(err, STK_IO, "%s cannot be written: %s", paths->markdown,
                         fd < 0 ? "there is no such directory" : strerror(errno));
}

static stk_status fits_locked(int fd, const stk__log_paths *paths, const stk__log_entry *entry, stk__text *notes,
                              stk_error *err)
{
    log_files f = {0};
    STK_TRY(check_directory(fd, paths, err));
    STK_TRY(mend_locked(paths, notes, err));
    STK_TRY(files_load(paths, &f, err));
    const stk_status status = stk__log_columns_add(entry, paths, &f.log, err);
    files_clear(&f);
    return status;
}

stk_status stk__log_fits(const char *path, const stk__log_entry *entry, stk__text *out_notes, stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    stk_status status = lock_directory(&paths, LOCK_EX, &fd, err);
    if (status == STK_OK)
        status = fits_locked(fd, &paths, entry, out_notes, err);
    unlock_directory(fd);
    paths_clear(&paths);
    return status;
}

stk_status stk__log_mend(const char *path, stk__text *out_notes, stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    stk_status status = lock_directory(&paths, LOCK_EX, &fd, err);
    if (status == STK_OK)
        status = mend_locked(&paths, out_notes, err);
    unlock_directory(fd);
    paths_clear(&paths);
    return status;
}

stk_status stk__log_append(const char *path, const stk__log_entry *entry, stk__log *out_log, stk__text *out_notes,
                           stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    stk_status status = lock_directory(&paths, LOCK_EX, &fd, err);
    if (status == STK_OK)
        status = append_locked(&paths, entry, out_log, out_notes, err);
    unlock_directory(fd);
    paths_clear(&paths);
    return status;
}
