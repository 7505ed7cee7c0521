/* Exports: the directory, the shards, and moving all of it into place at the end. */
#define _GNU_SOURCE
#include "analyze/export.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/export_impl.h"
#include "base/mem.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 1 << 20, PROGRESS_ROWS = 1 << 14, TRIM_ROWS = 1 << 16, NAME_BYTES = 64 };

const stk__export_target *const stk__export_targets[] = {
    &stk__export_bigquery, &stk__export_clickhouse, &stk__export_spark, &stk__export_sqlite, &stk__export_csv, NULL,
};

const stk__export_target *stk__export_find(const char *name)
{
    for (size_t i = 0; stk__export_targets[i]; i++) {
        if (strcmp(stk__export_targets[i]->name, name) == 0)
            return stk__export_targets[i];
    }
    return NULL;
}

const char *stk__export_name(const stk__export_target *target)
{
    return target->name;
}

const char *stk__export_summary(const stk__export_target *target)
{
    return target->summary;
}

static stk_status system_error(const char *path, const char *what, stk_error *err)
{
    const int code = errno;
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

/* ---- what targets call ---- */

size_t stk__export_tables(const stk__trace *t, const stk__flat_table *out[STK__EXPORT_TABLES])
{
    size_t count = 0;
    for (size_t i = 0; stk__flat_tables[i] && count < STK__EXPORT_TABLES; i++) {
        if (stk__flat_tables[i]->count(t))
            out[count++] = stk__flat_tables[i];
    }
    return count;
}

static char *join(const char *dir, const char *name)
{
    const size_t room = strlen(dir) + strlen(name) + 2;
    char *path = stk__alloc(room);
    if (path)
        snprintf(path, room, "%s/%s", dir, name);
    return path;
}

char *stk__export_path(stk__exporter *e, const char *name, stk_error *err)
{
    char *path = join(e->dir.temp, name), *copy = stk__strdup(name);
    if (!path || !copy || !stk__grow((void **)&e->files.items, &e->files.capacity, e->files.count + 1, sizeof copy)) {
        stk__nomem(strlen(e->dir.temp) + strlen(name), err);
        stk__free(path);
        stk__free(copy);
        return NULL;
    }
    e->files.items[e->files.count++] = copy;
    return path;
}

stk_status stk__export_text(stk__exporter *e, const char *name, stk__text *text, bool runnable, stk_error *err)
{
    char *path = text->failed ? NULL : stk__export_path(e, name, err);
    stk_status status = text->failed ? stk__nomem(text->length, err) : STK_NOMEM;
    if (path)
        status = stk__write_file(path, text->data ? text->data : "", text->length, err);
    struct stat st;
    /* Runnable by whoever may read it. */
    if (status == STK_OK && runnable && stat(path, &st) == 0 && chmod(path, st.st_mode | (st.st_mode & 0444) >> 2))
        status = system_error(path, "cannot make runnable", err);
    stk__free(path);
    stk__text_clear(text);
    return status;
}

void stk__export_columns(stk__exporter *e, stk__text *out)
{
    static const char *const types[] = {"integer", "double", "boolean", "text", "args", "stack"};
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    for (size_t i = 0; i < count; i++) {
        stk__text_printf(out, "\n## %s: %s\n%zu rows\n\n| column | type | what |\n|---|---|---|\n", tables[i]->name,
                         tables[i]->about, tables[i]->count(e->t));
        for (size_t k = 0; k < tables[i]->column_count; k++) {
            const stk__flat_column *column = &tables[i]->columns[k];
            stk__text_printf(out, "| %s | %s | %s |\n", column->name, types[column->type], column->about);
        }
    }
}

/* ---- shards ---- */

typedef struct shards {
    stk__exporter *e;
    const stk__flat_table *table;
    stk__sink *sink;
    stk__text out;
    size_t count;   /* shards so far */
    uint64_t bytes; /* of the current one */
} shards;

static stk_status shard_open(shards *s, stk_error *err)
{
    char name[NAME_BYTES];
    if (s->e->target->csv)
        snprintf(name, sizeof name, "%s.csv", s->table->name);
    else
        snprintf(name, sizeof name, "%s-%05zu.ndjson", s->table->name, s->count);
    char *path = stk__export_path(s->e, name, err);
    if (!path)
        return STK_NOMEM;
    const stk_status status = stk__sink_open(path, STK__SINK_PLAIN, &s->sink, err);
    stk__free(path);
    s->count++;
    s->bytes = 0;
    return status;
}

static stk_status shard_close(shards *s, stk_error *err)
{
    if (!s->sink)
        return STK_OK;
    if (s->out.length || s->out.failed)
        stk__sink_text(s->sink, &s->out);
    s->e->report->data_bytes += stk__sink_bytes(s->sink);
    s->e->report->data_files++;
    stk__sink *sink = s->sink;
    s->sink = NULL;
    return stk__sink_close(sink, err);
}

static stk_status tell_progress(stk__exporter *e, stk_error *err)
{
    if (!e->options.progress || e->options.progress(e->options.progress_arg, e->rows_done, e->rows_total))
        return STK_OK;
    return stk_error_set(err, STK_CANCELLED, "export was cancelled");
}

/* The row was just put at the end of `out`; it starts a new shard when this one would grow past its size. */
static stk_status shard_row(shards *s, size_t row_start, stk_error *err)
{
    const size_t row_bytes = s->out.length - row_start;
    if (!s->e->target->csv && s->bytes && s->bytes + row_bytes > s->e->options.shard_bytes) {
        stk__sink_write(s->sink, s->out.data, row_start);
        memmove(s->out.data, s->out.data + row_start, row_bytes);
        s->out.length = 0; /* the row waits for the next shard */
        STK_TRY(shard_close(s, err));
        STK_TRY(shard_open(s, err));
        s->out.length = row_bytes;
    }
    s->bytes += row_bytes;
    if (s->out.length >= BLOCK_BYTES || s->out.failed)
        stk__sink_text(s->sink, &s->out);
    return STK_OK;
}

static stk_status shard_rows(shards *s, stk_error *err)
{
    stk__exporter *e = s->e;
    const size_t count = s->table->count(e->t);
    STK_TRY(shard_open(s, err));
    if (e->target->csv)
        stk__flat_csv_head(s->table, &s->out);
    for (size_t i = 0; i < count && !stk__sink_failed(s->sink); i++) {
        const size_t start = s->out.length;
        if (e->target->csv)
            stk__flat_csv(e->rows, s->table, i, &s->out);
        else
            stk__flat_json(e->rows, s->table, i, e->target->json, &s->out);
        STK_TRY(shard_row(s, start, err));
        if (++e->rows_done % PROGRESS_ROWS == 0)
            STK_TRY(tell_progress(e, err));
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(e->t);
    }
    return shard_close(s, err);
}

static void count_table(stk__exporter *e, const stk__flat_table *table)
{
    stk__export_report *r = e->report;
    uint64_t *const counts[] = {&r->slices, &r->counters, &r->flows, &r->samples, &r->functions};
    for (size_t i = 0; i < STK_COUNT(counts) && stk__flat_tables[i]; i++) {
        if (stk__flat_tables[i] == table)
            *counts[i] = table->count(e->t);
    }
}

static stk_status write_tables(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    for (size_t i = 0; i < count; i++)
        e->rows_total += tables[i]->count(e->t);
    for (size_t i = 0; i < count; i++) {
        shards s = {.e = e, .table = tables[i]};
        const stk_status status = shard_rows(&s, err);
        stk__sink_abort(s.sink);
        stk__text_clear(&s.out);
        if (status != STK_OK)
            return status;
        count_table(e, tables[i]);
    }
    return STK_OK;
}

/* ---- the directory ---- */

/* "slice-00012.ndjson": what an earlier export may have left. */
static bool is_shard(const char *name)
{
    for (size_t i = 0; stk__flat_tables[i]; i++) {
        const size_t size = strlen(stk__flat_tables[i]->name);
        if (strncmp(name, stk__flat_tables[i]->name, size) || name[size] != '-')
            continue;
        const size_t digits = strspn(name + size + 1, "0123456789");
        return digits >= 5 && strcmp(name + size + 1 + digits, ".ndjson") == 0;
    }
    return false;
}

/* Whether the directory is there, and whether anything is in it; with `remove_shards`, old shards are removed. */
static stk_status look_at(const char *dir, bool remove_shards, bool *out_exists, bool *out_empty, stk_error *err)
{
    *out_exists = *out_empty = true;
    DIR *d = opendir(dir);
    if (!d) {
        *out_exists = errno != ENOENT;
        return errno == ENOENT ? STK_OK : system_error(dir, "cannot use as the directory of the export", err);
    }
    for (struct dirent *item = readdir(d); item; item = readdir(d)) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        *out_empty = false;
        if (remove_shards && is_shard(item->d_name))
            unlinkat(dirfd(d), item->d_name, 0);
    }
    closedir(d);
    return STK_OK;
}

stk_status stk__export_check(const char *dir, bool force, stk_error *err)
{
    bool exists, empty;
    STK_TRY(look_at(dir, false, &exists, &empty, err));
    if (empty || force)
        return STK_OK;
    stk_error_set(err, STK_INVALID, "the directory is not empty, wanted a new or empty one, or --force");
    if (err)
        snprintf(err->file, sizeof err->file, "%s", dir);
    return STK_INVALID;
}

static stk_status move_files(stk__exporter *e, stk_error *err)
{
    for (size_t i = 0; i < e->files.count; i++) {
        char *from = join(e->dir.temp, e->files.items[i]), *to = join(e->dir.path, e->files.items[i]);
        stk_status status = from && to ? STK_OK : stk__nomem(strlen(e->dir.path), err);
        if (status == STK_OK && rename(from, to))
            status = system_error(to, "cannot move into place", err);
        stk__free(from);
        stk__free(to);
        if (status != STK_OK)
            return status;
    }
    return STK_OK;
}

static stk_status publish(stk__exporter *e, stk_error *err)
{
    bool exists, empty;
    STK_TRY(look_at(e->dir.path, true, &exists, &empty, err));
    return exists ? move_files(e, err) : stk__new_dir_commit(&e->dir, err);
}

/* ---- all of it ---- */

static stk_status exporter_init(stk__exporter *e, stk_error *err)
{
    if (!e->options.dir[0])
        return stk_error_set(err, STK_INVALID, "the name of the directory is empty");
    if (!e->options.shard_bytes)
        e->options.shard_bytes = STK__SHARD_BYTES;
    if (e->options.shard_bytes > STK__SHARD_BYTES_MAX || e->options.shard_bytes < STK__SHARD_BYTES_MIN)
        return stk_error_set(err, STK_INVALID, "shards of %llu bytes, wanted %llu to %llu",
                             (unsigned long long)e->options.shard_bytes, (unsigned long long)STK__SHARD_BYTES_MIN,
                             (unsigned long long)STK__SHARD_BYTES_MAX);
    STK_TRY(stk__export_check(e->options.dir, e->options.force, err));
    return stk__flat_new(e->t, &e->rows, err);
}

static stk_status exporter_run(stk__exporter *e, stk_error *err)
{
    const uint64_t failures = stk__alloc_failures();
    STK_TRY(stk__new_dir_open(&e->dir, e->options.dir, err));
    stk_status status = e->target->data ? e->target->data(e, err) : write_tables(e, err);
    if (status == STK_OK)
        status = e->target->beside(e, err);
    if (status == STK_OK)
        status = stk__alloc_check(failures, err);
    if (status == STK_OK)
        status = publish(e, err);
    stk__new_dir_abort(&e->dir); /* what was moved is there no more */
    return status;
}

stk_status stk__export_write(const stk__trace *t, const stk__export_target *target, const stk__export_options *options,
                             stk__export_report *report, stk_error *err)
{
    stk__export_report unused;
    stk__exporter e = {.t = t, .target = target, .options = *options, .report = report ? report : &unused};
    *e.report = (stk__export_report){0};
    stk_status status = exporter_init(&e, err);
    if (status == STK_OK)
        status = exporter_run(&e, err);
    stk__flat_free(e.rows);
    stk__paths_clear(&e.files);
    return status;
}

const char stk__export_function_queries[] = "-- Functions by their own time.\n"
                                            "SELECT name, source, line, calls, primitive_calls, self_ns, total_ns\n"
                                            "FROM `function` ORDER BY self_ns DESC LIMIT 20;\n";

stk_status stk__export_write_queries(stk__exporter *e, const char *head, const stk__export_queries *queries,
                                     stk_error *err)
{
    const struct {
        const stk__flat_table *table;
        const char *text;
    } parts[] = {{&stk__flat_slice, queries->slice},
                 {&stk__flat_counter, queries->counter},
                 {&stk__flat_sample, queries->sample},
                 {&stk__flat_function, queries->function}};
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, head);
    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        if (parts[i].table->count(e->t))
            stk__text_printf(&out, "\n%s", parts[i].text);
    }
    return stk__export_text(e, "queries.sql", &out, false, err);
}
