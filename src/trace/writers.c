/* The formats that can be written: the list, and finding one by name or by the ending of a path. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "trace/keymap.h"
#include "trace/writer.h"

#include "base/banned.h"

const stk__trace_writer *const stk__trace_writers[] = {
    &stk__writer_chrome, &stk__writer_perfetto, &stk__writer_collapsed, &stk__writer_speedscope,
    &stk__writer_sqlite, &stk__writer_csv,      &stk__writer_ndjson,    NULL,
};

const stk__trace_writer *stk__trace_writer_find(const char *name)
{
    for (size_t i = 0; stk__trace_writers[i]; i++) {
        if (strcmp(stk__trace_writers[i]->name, name) == 0)
            return stk__trace_writers[i];
    }
    return NULL;
}

static bool ends_with(const char *path, size_t size, const char *ending, size_t ending_size)
{
    return size > ending_size && strncasecmp(path + size - ending_size, ending, ending_size) == 0;
}

/* Length of the longest of the writer's endings that fits; 0: none. */
static size_t match_length(const stk__trace_writer *writer, const char *path, size_t size)
{
    size_t best = 0;
    for (const char *p = writer->extensions; p && *p;) {
        const size_t length = strcspn(p, " ");
        if (length > best && ends_with(path, size, p, length))
            best = length;
        p += length;
        p += strspn(p, " ");
    }
    return best;
}

static stk__sink_compression compression_of(const char *path, size_t *out_rest)
{
    static const struct {
        const char *ending;
        stk__sink_compression compression;
    } endings[] = {{".gz", STK__SINK_GZIP}, {".zst", STK__SINK_ZSTD}, {".zstd", STK__SINK_ZSTD}};
    const size_t size = strlen(path);
    for (size_t i = 0; i < STK_COUNT(endings); i++) {
        const size_t length = strlen(endings[i].ending);
        if (ends_with(path, size, endings[i].ending, length)) {
            *out_rest = size - length;
            return endings[i].compression;
        }
    }
    *out_rest = size;
    return STK__SINK_PLAIN;
}

const stk__trace_writer *stk__trace_writer_for(const char *path, stk__sink_compression *out_compression)
{
    size_t rest;
    const stk__sink_compression compression = compression_of(path, &rest);
    if (out_compression)
        *out_compression = compression;
    const stk__trace_writer *found = NULL;
    size_t best = 0;
    for (size_t i = 0; stk__trace_writers[i]; i++) {
        const stk__trace_writer *w = stk__trace_writers[i];
        /* An ending may name the compression itself, or leave it to what follows. */
        const size_t whole = match_length(w, path, strlen(path)), inner = match_length(w, path, rest);
        const size_t length = STK_MAX(whole, inner ? inner + strlen(path) - rest : 0);
        if (length > best)
            found = w, best = length;
    }
    return found;
}

static stk_status find_for(const char *path, const stk__trace_writer **writer, stk_error *err)
{
    if (*writer)
        return STK_OK;
    *writer = stk__trace_writer_for(path, NULL);
    if (!*writer)
        return stk_error_set(err, STK_INVALID, "cannot tell the format of '%s' by its ending", path);
    return STK_OK;
}

/* A file without anything in it is worth less than a word on why. */
static stk_status check_written(const stk__trace_writer *writer, const stk__write_report *r, stk_error *err)
{
    if (!r->lost_functions || r->slices || r->counters || r->flows || r->samples || r->functions)
        return STK_OK;
    return stk_error_set(err, STK_UNSUPPORTED,
                         "format %s has no place for functions without times, and there is nothing else; write "
                         ".collapsed, .speedscope.json or .sqlite",
                         writer->name);
}

static stk_status write_beside(const stk__trace *t, const char *path, const stk__trace_writer *writer,
                               stk__sink_compression compression, stk__write_report *report, stk_error *err)
{
    if (strcmp(path, "-") == 0)
        return stk_error_set(err, STK_INVALID, "format %s needs a file, not standard output", writer->name);
    if (compression != STK__SINK_PLAIN)
        return stk_error_set(err, STK_INVALID, "format %s is not written compressed, found '%s'", writer->name, path);
    return writer->write_path(t, path, report, err);
}

stk_status stk__trace_write(const stk__trace *t, const char *path, const stk__trace_writer *writer,
                            stk__write_report *report, stk_error *err)
{
    stk__write_report unused;
    const uint64_t failures = stk__alloc_failures();
    if (!report)
        report = &unused;
    *report = (stk__write_report){0};
    STK_TRY(find_for(path, &writer, err));
    size_t rest;
    const stk__sink_compression compression = compression_of(path, &rest);
    if (!writer->write)
        return write_beside(t, path, writer, compression, report, err);
    stk__sink *sink = NULL;
    STK_TRY(stk__sink_open(path, compression, &sink, err));
    stk__sink_stop_when(sink, t->stopped);
    stk_status status = writer->write(t, sink, report, err);
    if (status == STK_OK)
        status = check_written(writer, report, err);
    if (status == STK_OK)
        status = stk__alloc_check(failures, err);
    if (status != STK_OK && !stk__sink_failed(sink)) {
        stk__sink_abort(sink);
        return status;
    }
    return stk__sink_close(sink, err);
}

/* ---- flow points ---- */

/* Ends of arrows: each has two rows, its flow and the slice there. Behind them, points that are no end of any. */
static stk__key end_key(const void *trace, uint32_t row)
{
    const stk__trace *t = trace;
    const size_t arrow = row / 2;
    if (arrow >= t->flows.count) {
        const size_t point = row - 2 * t->flows.count;
        return (stk__key){{t->points.key[point], t->points.slice[point]}};
    }
    return (stk__key){{t->flows.key[arrow], row % 2 ? t->flows.in[arrow] : t->flows.out[arrow]}};
}

stk_status stk__trace_count_joined(const stk__trace *t, stk__write_report *report, stk_error *err)
{
    const size_t ends = 2 * t->flows.count, all = ends + t->points.count;
    stk__rowmap map = {0};
    bool ok = all < UINT32_MAX;
    for (size_t i = 0; i < all && ok; i++) {
        uint32_t row;
        bool is_new;
        if (i >= ends && t->points.slice[i - ends] == STK__NONE) {
            report->lost_flows++;
            continue;
        }
        ok = stk__rowmap_place(&map, end_key(t, (uint32_t)i), end_key, t, (uint32_t)i, &row, &is_new);
        if (ok && i >= ends)
            *(row >= ends ? &report->lost_flows : &report->flows) += 1;
    }
    stk__rowmap_clear(&map);
    return ok ? STK_OK : stk__nomem(all * 16, err);
}
