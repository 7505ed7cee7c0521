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

void stk__log_clear(stk__log *log)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__free(log->benchmarks[i]);
        stk__free(log->units[i]);
    }
    for (size_t i = 0; i < log->row_count; i++)
        stk__log_row_clear(&log->rows[i]);
    stk__free(log->benchmarks);
    stk__free(log->units);
    stk__free(log->metric);
    stk__free(log->rows);
    *log = (stk__log){0};
}

stk__log_row *stk__log_add_row(stk__log *log)
{
    if (!stk__grow((void **)&log->rows, &log->row_capacity, log->row_count + 1, sizeof *log->rows))
        return NULL;
    stk__log_row *row = &log->rows[log->row_count];
    *row = (stk__log_row){.cells = stk__calloc(log->benchmark_count ? log->benchmark_count : 1, sizeof *row->cells)};
    return row->cells ? row : NULL;
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

/* Both texts say the same, or the log is damaged. An empty page is one that has yet to be written. */
static stk_status check_files(const stk__log_paths *paths, const char *csv, size_t csv_size, const char *markdown,
                              size_t markdown_size, stk__log *out_log, stk__log_table *out_table, stk_error *err)
{
    stk__log log = {0};
    stk__log_table table = {0};
    STK_TRY(stk__log_csv_parse(csv, csv_size, paths, &log, err));
    stk_status status = STK_OK;
    if (markdown_size)
        status = stk__log_markdown_check(markdown, markdown_size, paths, &log, &table, err);
    else if (log.benchmark_count)
        status = stk__log_damage(err, paths->markdown, 0, "the file is empty or not there, but %s has %zu rows",
                                 paths->csv, log.row_count);
    if (status != STK_OK) {
        stk__log_clear(&log);
        return status;
    }
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

static stk_status check_directory(int fd, const stk__log_paths *paths, stk_error *err)
{
    if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) == 0)
        return STK_OK;
    return stk_error_set(err, STK_IO, "%s cannot be written: %s", paths->markdown,
                         fd < 0 ? "there is no such directory" : strerror(errno));
}

stk_status stk__log_fits(const char *path, const stk__log_entry *entry, stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    log_files f = {0};
    stk_status status = lock_directory(&paths, LOCK_SH, &fd, err);
    if (status == STK_OK)
        status = check_directory(fd, &paths, err);
    if (status == STK_OK)
        status = files_load(&paths, &f, err);
    unlock_directory(fd);
    if (status == STK_OK)
        status = stk__log_columns_check(entry, &paths, &f.log, err);
    files_clear(&f);
    paths_clear(&paths);
    return status;
}

/* ---- adding a row ---- */

static stk_status csv_with(const log_files *f, const stk__log_row *row, stk__text *out, stk_error *err)
{
    const char *first_end = memchr(f->csv, '\n', f->csv_size);
    const char *line_end = first_end && first_end > f->csv && first_end[-1] == '\r' ? "\r\n" : "\n";
    stk__text_write(out, f->csv, f->csv_size);
    if (!f->csv_size) {
        stk__log_csv_header(&f->log, out);
        stk__text_puts(out, line_end);
    } else if (f->csv[f->csv_size - 1] != '\n') {
        stk__text_puts(out, line_end);
    }
    stk__log_csv_row(&f->log, row, out);
    stk__text_puts(out, line_end);
    return out->failed ? stk__nomem(out->length, err) : STK_OK;
}

static stk_status markdown_with(const log_files *f, const stk__log_row *row, const stk__log_words *words,
                                stk__text *out, stk_error *err)
{
    const char *line_end = f->table.crlf ? "\r\n" : "\n";
    if (!f->markdown_size)
        stk__log_markdown_page(out);
    stk__text_write(out, f->markdown, f->table.end);
    if (f->table.open)
        stk__text_puts(out, line_end);
    if (!f->table.there) {
        stk__text_puts(out, line_end);
        stk__log_markdown_header(&f->log, line_end, out);
    }
    stk__log_markdown_row(&f->log, row, words, out);
    stk__text_puts(out, line_end);
    if (!f->table.there && f->table.text_below)
        stk__text_puts(out, line_end);
    stk__text_write(out, f->markdown + f->table.end, f->markdown_size - f->table.end);
    return out->failed ? stk__nomem(out->length, err) : STK_OK;
}

/* What is written must be what can be read: rather no row than a log that the next run refuses. */
static stk_status check_new(const stk__log_paths *paths, const stk__text *csv, const stk__text *markdown,
                            stk_error *err)
{
    stk__log log;
    stk__log_table table;
    if (csv->length > STK__LOG_MAX_BYTES || markdown->length > STK__LOG_MAX_BYTES)
        return stk_error_set(err, STK_INVALID, "%s would be larger than %d bytes: use another file with --log",
                             paths->markdown, STK__LOG_MAX_BYTES);
    STK_TRY(check_files(paths, csv->data, csv->length, markdown->data, markdown->length, &log, &table, err));
    stk__log_clear(&log);
    return STK_OK;
}

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
        stk__error_prefix(err, "%s has one row more now, which must be taken away: ", paths->csv);
    return status;
}

static stk_status append_locked(const stk__log_paths *paths, const stk__log_entry *entry, stk_error *err)
{
    log_files f = {0};
    STK_TRY(files_load(paths, &f, err));
    stk__log_row row = {0};
    stk__log_words words = {0};
    stk__text csv = STK__TEXT_INIT, markdown = STK__TEXT_INIT;
    stk_status status = stk__log_row_make(entry, paths, &f.log, &row, &words, err);
    if (status == STK_OK)
        status = csv_with(&f, &row, &csv, err);
    if (status == STK_OK)
        status = markdown_with(&f, &row, &words, &markdown, err);
    if (status == STK_OK)
        status = check_new(paths, &csv, &markdown, err);
    if (status == STK_OK)
        status = write_both(paths, &f, &csv, &markdown, err);
    stk__text_clear(&csv);
    stk__text_clear(&markdown);
    stk__log_words_clear(&words);
    stk__log_row_clear(&row);
    files_clear(&f);
    return status;
}

stk_status stk__log_append(const char *path, const stk__log_entry *entry, stk_error *err)
{
    stk__log_paths paths;
    STK_TRY(paths_of(path, &paths, err));
    int fd = -1;
    stk_status status = lock_directory(&paths, LOCK_EX, &fd, err);
    if (status == STK_OK)
        status = append_locked(&paths, entry, err);
    unlock_directory(fd);
    paths_clear(&paths);
    return status;
}
