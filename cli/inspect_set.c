/* Sets of files and their manifests for `stoker inspect`: is everything as it was published? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "formats/shard_names.h"
#include "inspect.h"

#include "base/banned.h"

enum { LABEL_WIDTH = 13 };

/* ---- one file ---- */

/* What is told while files are read. */
typedef struct set_progress {
    const char *path;
    int64_t before, total; /* bytes of the files that are done, and of all */
    int64_t last_ns;
} set_progress;

static bool on_progress(void *arg, int64_t bytes)
{
    set_progress *p = arg;
    const int64_t now = stk__now_ns();
    if (!cli_live_possible() || now - p->last_ns < 250000000)
        return true;
    p->last_ns = now;
    char line[256];
    snprintf(line, sizeof line, "%.200s: reading %.0f %%", p->path,
             p->total > 0 ? 100.0 * (double)(p->before + bytes) / (double)p->total : 100.0);
    cli_live(line);
    return true;
}

/* What differs from the manifest goes into `trouble`; rows < 0 are not compared. */
static void compare(const stk__manifest_file *f, int64_t bytes, int64_t rows, stk__file_digest digest,
                    stk__text *trouble)
{
    if (bytes != f->bytes)
        stk__text_printf(trouble, "has %" PRId64 " bytes, wanted %" PRId64, bytes, f->bytes);
    if (rows >= 0 && rows != f->rows)
        stk__text_printf(trouble, "%shas %" PRId64 " rows, wanted %" PRId64, trouble->length ? "; " : "", rows,
                         f->rows);
    if (digest.high != f->digest.high || digest.low != f->digest.low) {
        char found[33], wanted[33];
        stk__file_digest_print(digest, found);
        stk__file_digest_print(f->digest, wanted);
        stk__text_printf(trouble, "%sdigest is %s, wanted %s", trouble->length ? "; " : "", found, wanted);
    }
}

static stk_status find_manifest(const char *path, inspect_sets *sets, size_t *out_manifest,
                                const stk__manifest_file **out, stk_error *err)
{
    char *dir = stk__set_dir_of(path);
    stk_status status = dir ? STK_OK : stk__nomem(strlen(path), err);
    if (status == STK_OK && (!sets->dir.dir || strcmp(sets->dir.dir, dir) != 0)) {
        stk__set_dir_clear(&sets->dir);
        status = stk__set_dir_load(dir, &sets->dir, err);
    }
    stk__free(dir);
    *out = status == STK_OK ? stk__set_dir_find(&sets->dir, stk__base_name(path), out_manifest) : NULL;
    return status;
}

stk_status cli_compare_with_set(inspect_file *file, inspect_sets *sets, stk_error *err)
{
    size_t at;
    const stk__manifest_file *listed;
    if (strcmp(file->path, "-") == 0)
        return STK_OK;
    STK_TRY(find_manifest(file->path, sets, &at, &listed, err));
    if (!listed)
        return STK_OK;
    set_progress progress = {.path = file->path, .total = listed->bytes, .last_ns = stk__now_ns()};
    int64_t bytes;
    stk__file_digest digest;
    STK_TRY(stk__digest_of_file(file->path, on_progress, &progress, &bytes, &digest, err));
    file->manifest = stk__strdup(sets->dir.paths[at]);
    compare(listed, bytes, file->records, digest, &file->set_trouble);
    return file->manifest && !file->set_trouble.failed ? STK_OK : stk__nomem(strlen(sets->dir.paths[at]), err);
}

/* ---- all files of a set ---- */

/* A schema has no rows; of a shard, the records are counted. */
static stk_status count_rows(const stk__manifest *m, const stk__manifest_file *f, const char *path, int64_t *out,
                             stk_error *err)
{
    *out = -1;
    if (!stk__shard_fits(m->pattern, f->name, NULL))
        return STK_OK;
    const inspect_how how = {.look = 1, .bad_limit = 1};
    inspect_file file;
    const stk_status status = cli_inspect_file(path, &how, &file, err);
    *out = file.records;
    cli_inspect_clear(&file);
    return status;
}

static void look_at_file(const stk__manifest *m, const stk__manifest_file *f, const char *dir, set_progress *progress,
                         stk__text *trouble)
{
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s/%s", dir, f->name);
    int64_t bytes, rows;
    stk__file_digest digest;
    stk_error err;
    stk_error_clear(&err);
    stk_status status = path.failed ? stk__nomem(path.length, &err)
                                    : stk__digest_of_file(path.data, on_progress, progress, &bytes, &digest, &err);
    if (status == STK_OK)
        status = count_rows(m, f, path.data, &rows, &err);
    if (status == STK_OK)
        compare(f, bytes, rows, digest, trouble);
    else
        stk__text_puts(trouble, err.message);
    stk__text_clear(&path);
}

typedef struct set_page {
    const char *path;
    const stk__manifest *m;
    stk__text *troubles; /* by file; NULL: not looked for */
    int64_t bytes, bad, good_rows;
} set_page;

static stk_status verify_set(set_page *page, stk_error *err)
{
    const stk__manifest *m = page->m;
    char *dir = stk__set_dir_of(page->path);
    page->troubles = stk__calloc(m->count + 1, sizeof *page->troubles);
    if (!dir || !page->troubles) {
        stk__free(dir);
        return stk__nomem(m->count * sizeof *page->troubles, err);
    }
    set_progress progress = {.path = page->path, .total = page->bytes, .last_ns = stk__now_ns()};
    for (size_t i = 0; i < m->count; i++) {
        look_at_file(m, &m->files[i], dir, &progress, &page->troubles[i]);
        const bool bad = page->troubles[i].length > 0;
        page->bad += bad;
        page->good_rows += bad ? 0 : m->files[i].rows;
        progress.before += m->files[i].bytes;
    }
    cli_live_clear();
    stk__free(dir);
    return STK_OK;
}

static void put_label(stk__text *t, const char *label)
{
    stk__text_printf(t, "  %-*s", LABEL_WIDTH, label);
}

static void put_page(stk__text *t, const set_page *page)
{
    const stk__manifest *m = page->m;
    cli_text_escaped(t, page->path);
    stk__text_putc(t, '\n');
    put_label(t, "set");
    cli_text_escaped(t, m->pattern);
    stk__text_putc(t, '\n');
    put_label(t, "files");
    cli_text_count(t, (int64_t)m->count);
    stk__text_puts(t, " of ");
    stk__text_bytes(t, (uint64_t)page->bytes);
    stk__text_puts(t, " in all\n");
    put_label(t, "rows");
    cli_text_count(t, m->rows);
    stk__text_putc(t, '\n');
    if (!page->troubles)
        return;
    put_label(t, "bad");
    stk__text_printf(t, "%" PRId64 "%s\n", page->bad, page->bad ? "" : "; every file is as it was published");
    for (size_t i = 0; i < m->count; i++) {
        if (!page->troubles[i].length)
            continue;
        stk__text_puts(t, "    ");
        cli_text_escaped(t, m->files[i].name);
        stk__text_puts(t, ": ");
        cli_text_escaped(t, page->troubles[i].data);
        stk__text_putc(t, '\n');
    }
}

static void put_json(stk__text *t, const set_page *page)
{
    const stk__manifest *m = page->m;
    stk__text_puts(t, "{\"file\":");
    stk__text_json_str(t, page->path);
    stk__text_puts(t, ",\"format\":\"manifest\",\"pattern\":");
    stk__text_json_str(t, m->pattern);
    stk__text_printf(t, ",\"records\":%" PRId64 ",\"size_bytes\":%" PRId64 ",\"files\":[", m->rows, page->bytes);
    for (size_t i = 0; i < m->count; i++) {
        const stk__manifest_file *f = &m->files[i];
        stk__text_puts(t, i ? ",{\"name\":" : "{\"name\":");
        stk__text_json_str(t, f->name);
        stk__text_printf(t, ",\"bytes\":%" PRId64 ",\"rows\":%" PRId64, f->bytes, f->rows);
        if (page->troubles && page->troubles[i].length) {
            stk__text_puts(t, ",\"bad\":");
            stk__text_json_str(t, page->troubles[i].data);
        }
        stk__text_putc(t, '}');
    }
    stk__text_puts(t, "],\"bad\":");
    if (page->troubles)
        stk__text_printf(t, "%" PRId64, page->bad);
    else
        stk__text_puts(t, "null");
    stk__text people = STK__TEXT_INIT;
    put_page(&people, page);
    cli_proposal_json_page(t, &people);
    stk__text_putc(t, '}');
}

stk_status cli_inspect_set(const char *path, bool verify, bool json, stk__text *out, int64_t *out_rows,
                           int64_t *out_bad, stk_error *err)
{
    stk__manifest m;
    STK_TRY(stk__manifest_load(path, &m, NULL, err));
    set_page page = {.path = path, .m = &m};
    for (size_t i = 0; i < m.count; i++)
        if (__builtin_add_overflow(page.bytes, m.files[i].bytes, &page.bytes))
            page.bytes = INT64_MAX;
    const stk_status status = verify ? verify_set(&page, err) : STK_OK;
    if (status == STK_OK) {
        (json ? put_json : put_page)(out, &page);
        *out_rows = page.good_rows;
        *out_bad = page.bad;
    }
    for (size_t i = 0; page.troubles && i < m.count; i++)
        stk__text_clear(&page.troubles[i]);
    stk__free(page.troubles);
    stk__manifest_clear(&m);
    return status;
}
