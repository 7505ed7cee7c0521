/* What is in an HDF5 file: datasets, how they are stored, and who will read them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/hdf5.h"
#include "inspect.h"

#include "base/banned.h"

enum { LABEL_WIDTH = 13 };

static const char *const layout_names[] = {"compact", "contiguous", "chunked", "virtual", "external"};

static const char *layout_name(const stk__h5_dataset *d)
{
    return d->layout >= 0 && d->layout <= STK__H5_LAYOUT_EXTERNAL ? layout_names[d->layout] : "unknown";
}

static double raw_bytes(const stk__h5_dataset *d)
{
    return (double)d->rows * (double)d->row_bytes;
}

static void put_dims(stk__text *t, const int64_t *dims, int32_t rank)
{
    if (rank == 0)
        stk__text_puts(t, "scalar");
    for (int32_t i = 0; i < rank; i++)
        stk__text_printf(t, "%s%" PRId64, i ? " x " : "", dims[i]);
}

/* "shuffle, gzip 4" */
static void put_filters(stk__text *t, const stk__h5_dataset *d)
{
    for (size_t i = 0; i < d->filter_count; i++) {
        const stk__h5_filter *f = &d->filters[i];
        const char *name = stk__h5_filter_name(f->id);
        stk__text_puts(t, i ? ", " : "");
        if (name)
            stk__text_puts(t, name);
        else
            stk__text_printf(t, "filter %u", f->id);
        if (f->id == STK__H5_DEFLATE && f->value_count > 0)
            stk__text_printf(t, " %u", f->values[0]);
    }
}

/* Who reads it, and why. */
static void put_way(stk__text *t, const stk__h5_dataset *d)
{
    if (d->leaf_count == 0)
        stk__text_puts(t, "nobody: ");
    else if (d->way == STK__H5_BY_LIBRARY)
        stk__text_puts(t, "libhdf5, one thread: ");
    else
        stk__text_puts(t, "parallel");
    if (d->why)
        cli_text_escaped(t, d->why);
}

static void put_dataset(stk__text *t, const stk__h5_dataset *d)
{
    stk__text_puts(t, "    ");
    cli_text_escaped(t, d->path);
    stk__text_puts(t, "\n      type     ");
    cli_text_escaped(t, d->type);
    stk__text_puts(t, "\n      shape    ");
    put_dims(t, d->dims, d->rank);
    for (int32_t i = 0, any = 0; i < d->rank; i++)
        if (d->max_dims[i] != (uint64_t)d->dims[i])
            stk__text_printf(t, "%s%d", any++ ? ", " : ", may grow along ", i);
    stk__text_printf(t, "\n      layout   %s", layout_name(d));
    if (d->layout == STK__H5_LAYOUT_CHUNKED) {
        stk__text_puts(t, ", chunks of ");
        put_dims(t, d->chunk_dims, d->rank);
        stk__text_puts(t, ", ");
        cli_text_count(t, d->stored_chunks);
        stk__text_puts(t, " stored");
    }
    if (d->filter_count) {
        stk__text_puts(t, "\n      filters  ");
        put_filters(t, d);
    }
    stk__text_puts(t, "\n      size     ");
    stk__text_bytes(t, (uint64_t)d->stored_bytes);
    if (d->stored_bytes > 0 && d->filter_count) {
        stk__text_puts(t, " for ");
        stk__text_bytes(t, (uint64_t)raw_bytes(d));
        stk__text_printf(t, ", ratio %.2f", raw_bytes(d) / (double)d->stored_bytes);
    }
    stk__text_puts(t, "\n      read by  ");
    put_way(t, d);
    stk__text_putc(t, '\n');
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A name that pipelines take: the last part of a path, or all of it when another dataset has the same last part. */
static void put_name(stk__text *t, const stk__h5_file *file, const char *path, const inspect_proposal *p)
{
    static const char *const taken[] = {"paths", "cache_bytes", "fields", "true", "false"};
    const char *name = last_part(path);
    for (size_t i = 0; i < file->dataset_count; i++)
        if (strcmp(file->datasets[i].path, path) != 0 &&
            strcmp(last_part(file->datasets[i].path), last_part(path)) == 0)
            name = path + (path[0] == '/');
    if (!*name || (*name >= '0' && *name <= '9'))
        stk__text_putc(t, '_');
    for (; *name; name++) {
        const bool word =
            (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9');
        stk__text_putc(t, word ? *name : '_');
    }
    for (size_t i = 0; !t->failed && i < STK_COUNT(taken); i++)
        if (strcmp(t->data, taken[i]) == 0)
            stk__text_putc(t, '_');
    while (!t->failed && cli_proposal_has(p, t->data))
        stk__text_putc(t, '_');
}

static void say_left_out(const stk__h5_dataset *d, int64_t rows, inspect_proposal *p)
{
    stk__text line = STK__TEXT_INIT;
    if (d->leaf_count == 0)
        stk__text_printf(&line, "%s: nobody can read it", d->path);
    else if (d->rank == 0)
        stk__text_printf(&line, "%s: is a single value, without rows", d->path);
    else
        stk__text_printf(&line, "%s: has %" PRId64 " rows, those of one line must have as many (%" PRId64 ")", d->path,
                         d->rows, rows);
    cli_proposal_say(p, &p->left_out, &line);
}

/* The datasets that have as many rows as the largest one. */
static void propose(const stk__h5_file *file, inspect_proposal *p)
{
    const stk__h5_dataset *largest = NULL;
    for (size_t i = 0; i < file->dataset_count; i++) {
        const stk__h5_dataset *d = &file->datasets[i];
        if (d->leaf_count > 0 && d->rank > 0 && (!largest || raw_bytes(d) > raw_bytes(largest)))
            largest = d;
    }
    cli_proposal_init(p, "hdf5", largest ? file->path : NULL);
    p->strings = true;
    for (size_t i = 0; i < file->dataset_count; i++) {
        const stk__h5_dataset *d = &file->datasets[i];
        if (d->leaf_count == 0 || d->rank == 0 || d->rows != largest->rows) {
            say_left_out(d, largest ? largest->rows : 0, p);
            continue;
        }
        stk__text name = STK__TEXT_INIT;
        put_name(&name, file, d->path, p);
        if (name.failed)
            p->failed = true;
        else
            cli_proposal_add(p, name.data, d->path);
        stk__text_clear(&name);
    }
    for (size_t i = 0; i < file->skipped_count; i++) {
        stk__text line = STK__TEXT_INIT;
        stk__text_puts(&line, file->skipped[i]);
        cli_proposal_say(p, &p->left_out, &line);
    }
}

static void put_file(stk__text *t, const stk__h5_file *file, const hdf5_checked *checked, int64_t limit)
{
    const size_t shown = limit && (uint64_t)limit < file->dataset_count ? (size_t)limit : file->dataset_count;
    cli_text_escaped(t, file->path);
    stk__text_printf(t, "\n  %-*sHDF5, as libhdf5 %s sees it", LABEL_WIDTH, "format",
                     file->library ? file->library : "?");
    if (file->base)
        stk__text_printf(t, "; a user block of %" PRId64 " bytes", file->base);
    stk__text_printf(t, "\n  %-*s", LABEL_WIDTH, "size");
    stk__text_bytes(t, (uint64_t)file->id.size_bytes);
    stk__text_printf(t, "\n  %-*s%zu\n", LABEL_WIDTH, "datasets", file->dataset_count);
    for (size_t i = 0; i < shown; i++)
        put_dataset(t, &file->datasets[i]);
    if (shown < file->dataset_count)
        stk__text_printf(t, "    and %zu more; --limit 0 lists all\n", file->dataset_count - shown);
    if (checked->done) {
        stk__text_printf(t, "  %-*s%" PRId64 "%s\n", LABEL_WIDTH, "bad", checked->bad,
                         checked->bad ? " rows" : "; every chunk could be decoded");
        if (checked->bad) {
            stk__text_puts(t, "    ");
            cli_text_escaped(t, checked->message);
            stk__text_putc(t, '\n');
        }
    }
    inspect_proposal p;
    propose(file, &p);
    cli_proposal_put(t, &p, limit);
    cli_proposal_clear(&p);
}

/* ---- for programs ---- */

static void json_dims(stk__text *t, const char *name, const int64_t *dims, int32_t rank)
{
    stk__text_printf(t, ",\"%s\":[", name);
    for (int32_t i = 0; i < rank; i++)
        stk__text_printf(t, "%s%" PRId64, i ? "," : "", dims[i]);
    stk__text_putc(t, ']');
}

static void json_dataset(stk__text *t, const stk__h5_dataset *d)
{
    stk__text_puts(t, "{\"path\":");
    stk__text_json_str(t, d->path);
    stk__text_puts(t, ",\"type\":");
    stk__text_json_str(t, d->type);
    json_dims(t, "shape", d->dims, d->rank);
    stk__text_puts(t, ",\"max_shape\":[");
    for (int32_t i = 0; i < d->rank; i++) {
        stk__text_puts(t, i ? "," : "");
        if (d->max_dims[i] == UINT64_MAX)
            stk__text_puts(t, "null");
        else
            stk__text_printf(t, "%" PRIu64, d->max_dims[i]);
    }
    stk__text_printf(t, "],\"layout\":\"%s\"", layout_name(d));
    if (d->layout == STK__H5_LAYOUT_CHUNKED)
        json_dims(t, "chunk", d->chunk_dims, d->rank);
    stk__text_printf(t, ",\"chunks\":%" PRId64 ",\"filters\":[", d->stored_chunks);
    for (size_t i = 0; i < d->filter_count; i++) {
        const char *name = stk__h5_filter_name(d->filters[i].id);
        stk__text_printf(t, "%s{\"id\":%u,\"name\":", i ? "," : "", d->filters[i].id);
        stk__text_json_str(t, name ? name : "");
        stk__text_putc(t, '}');
    }
    stk__text_printf(t,
                     "],\"stored_bytes\":%" PRId64 ",\"raw_bytes\":%.0f,\"read_by\":\"%s\",\"why\":", d->stored_bytes,
                     raw_bytes(d),
                     d->leaf_count == 0             ? "nobody"
                     : d->way == STK__H5_BY_LIBRARY ? "library"
                                                    : "parallel");
    stk__text_json_str(t, d->why ? d->why : "");
    stk__text_putc(t, '}');
}

static void json_file(stk__text *t, const stk__h5_file *file, const hdf5_checked *checked, int64_t limit)
{
    stk__text_puts(t, "{\"file\":");
    stk__text_json_str(t, file->path);
    stk__text_printf(t, ",\"format\":\"hdf5\",\"size_bytes\":%" PRId64 ",\"user_block\":%" PRId64 ",\"datasets\":[",
                     file->id.size_bytes, file->base);
    for (size_t i = 0; i < file->dataset_count; i++) {
        stk__text_puts(t, i ? ",\n  " : "");
        json_dataset(t, &file->datasets[i]);
    }
    stk__text_puts(t, "],\"bad\":");
    if (checked->done)
        stk__text_printf(t, "%" PRId64, checked->bad);
    else
        stk__text_puts(t, "null");
    inspect_proposal p;
    propose(file, &p);
    cli_proposal_json(t, &p);
    cli_proposal_clear(&p);
    stk__text page = STK__TEXT_INIT;
    put_file(&page, file, checked, limit);
    cli_proposal_json_page(t, &page);
    stk__text_putc(t, '}');
}

/* ---- reading everything ---- */

/* Runs all rows of one dataset through the engine; STOP tells the first error, SKIP counts the bad rows. */
static stk_status run_dataset(const char *path, const stk__h5_dataset *d, stk_on_error policy, int64_t *out_skipped,
                              stk_error *err)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, "hdf5(");
    stk__text_quote(&text, path);
    stk__text_puts(&text, ", x=");
    stk__text_quote(&text, d->path);
    stk__text_puts(&text, ") | batch(64)");
    const stk_config config = {.struct_size = sizeof config, .on_error = policy};
    stk_pipeline *p = NULL;
    stk_status status = stk_pipeline_open(text.data ? text.data : "", &config, &p, err);
    while (status == STK_OK) {
        const stk_batch *batch;
        status = stk_pipeline_next(p, &batch, err);
        if (status == STK_OK)
            stk_batch_release(p, batch);
    }
    if (p) {
        stk_stats stats;
        stk_pipeline_stats(p, &stats);
        *out_skipped += stats.skipped;
    }
    stk_pipeline_close(p);
    stk__text_clear(&text);
    return status == STK_END ? STK_OK : status;
}

static void check_file(const stk__h5_file *file, hdf5_checked *out)
{
    out->done = true;
    for (size_t i = 0; i < file->dataset_count; i++) {
        const stk__h5_dataset *d = &file->datasets[i];
        stk_error err;
        stk_error_clear(&err);
        if (d->leaf_count == 0)
            continue;
        int64_t bad = 0;
        const stk_status status = run_dataset(file->path, d, STK_ON_ERROR_SKIP, &bad, &err);
        if (status == STK_OK && bad > 0 && out->bad == 0) {
            int64_t ignored = 0;
            run_dataset(file->path, d, STK_ON_ERROR_STOP, &ignored, &err);
        }
        bad = status == STK_OK ? bad : d->rows;
        if (bad > 0 && out->bad == 0)
            stk_error_format(&err, out->message, sizeof out->message);
        out->bad += bad;
        out->rows += d->rows - bad;
    }
}

stk_status cli_inspect_hdf5(const char *path, bool verify, bool json, int64_t limit, stk__text *out,
                            hdf5_checked *checked, stk_error *err)
{
    stk__h5_helper *helper = NULL;
    stk__h5_file *file = NULL;
    stk_status status = stk__h5_helper_new(&helper, err);
    if (status == STK_OK)
        status = stk__h5_describe(helper, path, NULL, 0, &file, err);
    if (status == STK_OK && verify)
        check_file(file, checked);
    if (status == STK_OK && json)
        json_file(out, file, checked, limit);
    else if (status == STK_OK)
        put_file(out, file, checked, limit);
    stk__h5_file_free(file);
    stk__h5_helper_free(helper);
    return status;
}
