/* stoker inspect: records, sizes, damage and contents of TFRecord, tar, text and HDF5 files, and folders of pictures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/hdf5.h"
#include "formats/schema.h"
#include "inspect.h"

#include "base/banned.h"

typedef struct inspect_options {
    bool verify, json;
    int64_t records, limit;
} inspect_options;

enum { LABEL_WIDTH = 13 };

static const struct {
    const char *format;  /* in JSON */
    const char *records; /* what there are so many of */
    const char *good;    /* what was checked */
} framing_names[] = {
    [STK__FRAMING_TFRECORD] = {"tfrecord", "records", "; every CRC fits"},
    [STK__FRAMING_TAR] = {"tar", "samples", "; every header fits"},
    [STK__FRAMING_LINES] = {"text", "lines", "; every line could be read"},
};

/* ---- how to read it ---- */

/* What lies behind the records that were looked at is not known. */
static void say_looked_at(const inspect_file *f, int64_t looked, inspect_proposal *p)
{
    if (!looked || looked >= f->records || !p->count)
        return;
    const bool tar = f->framing == STK__FRAMING_TAR;
    stk__text line = STK__TEXT_INIT;
    stk__text_puts(&line, "made from the first ");
    cli_text_count(&line, looked);
    stk__text_puts(&line, " of ");
    cli_text_count(&line, f->records);
    stk__text_printf(&line, " %s: where a %s is missing or of another size further on, reading fails; "
                            "--records 0 looks at all", framing_names[f->framing].records, tar ? "member" : "feature");
    cli_proposal_say(p, &p->notes, &line);
}

static void propose(const inspect_file *f, inspect_proposal *p)
{
    switch (f->framing) {
    case STK__FRAMING_TFRECORD:
        cli_proposal_init(p, "parse", NULL);
        cli_features_propose(&f->features, p);
        say_looked_at(f, f->features.records, p);
        break;
    case STK__FRAMING_TAR:
        cli_proposal_init(p, "webdataset", f->members.samples ? f->path : NULL);
        cli_members_propose(&f->members, p);
        say_looked_at(f, f->members.samples, p);
        break;
    case STK__FRAMING_LINES:
        cli_proposal_init(p, "text", f->path);
        break;
    }
}

/* ---- for people ---- */

static void put_label(stk__text *t, const char *label)
{
    stk__text_printf(t, "  %-*s", LABEL_WIDTH, label);
}

static void put_range(stk__text *t, int64_t min, int64_t max)
{
    stk__text_printf(t, "%" PRId64, min);
    if (max != min)
        stk__text_printf(t, "..%" PRId64, max);
}

static void put_sizes(stk__text *t, const inspect_file *f)
{
    put_label(t, "compression");
    stk__text_printf(t, "%s\n", f->compression);
    if (f->file_bytes >= 0) {
        put_label(t, "size");
        stk__text_bytes(t, (uint64_t)f->file_bytes);
        stk__text_putc(t, '\n');
    }
    put_label(t, framing_names[f->framing].records);
    cli_text_count(t, f->records);
    if (f->records) {
        stk__text_puts(t, " of ");
        put_range(t, f->min_bytes, f->max_bytes);
        stk__text_printf(t, " bytes, mean %.1f, in all ", (double)f->total_bytes / (double)f->records);
        stk__text_bytes(t, (uint64_t)f->total_bytes);
    }
    stk__text_putc(t, '\n');
    if (f->stray) {
        put_label(t, "in none");
        cli_text_count(t, f->stray);
        stk__text_puts(t, f->stray == 1 ? " file: its name begins with a dot or has no extension\n"
                                        : " files: their names begin with a dot or have no extension\n");
    }
}

static void put_bad(stk__text *t, const inspect_file *f, bool verified)
{
    if (!f->bad_count && !verified)
        return;
    put_label(t, "bad");
    stk__text_printf(t, "%" PRId64 "%s\n", f->bad_count, f->bad_count ? "" : framing_names[f->framing].good);
    for (size_t i = 0; i < f->bad_kept; i++) {
        const inspect_bad *b = &f->bad[i];
        stk__text_printf(t, "    record %" PRId64 " at offset %" PRId64, b->record, b->offset);
        if (b->size_bytes >= 0)
            stk__text_printf(t, ", %" PRId64 " bytes", b->size_bytes);
        stk__text_puts(t, ": ");
        cli_text_escaped(t, b->message);
        stk__text_putc(t, '\n');
    }
    if ((int64_t)f->bad_kept < f->bad_count)
        stk__text_printf(t, "    and %" PRId64 " more; --limit 0 lists all\n", f->bad_count - (int64_t)f->bad_kept);
}

/* Whether it is as it was published. */
static void put_set(stk__text *t, const inspect_file *f)
{
    if (!f->manifest)
        return;
    put_label(t, "manifest");
    cli_text_escaped(t, f->manifest);
    stk__text_printf(t, "%s%s\n", f->set_trouble.length ? ": " : ": bytes, rows and digest fit",
                     f->set_trouble.length ? f->set_trouble.data : "");
}

static void put_content(stk__text *t, const inspect_features *f)
{
    const struct {
        int64_t count;
        const char *name;
    } kinds[] = {{f->examples, "Example"}, {f->sequences, "SequenceExample"}, {f->others, "other bytes"}};
    if (!f->records)
        return;
    put_label(t, "content");
    const char *before = "";
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        if (!kinds[i].count)
            continue;
        stk__text_printf(t, "%s%s", before, kinds[i].name);
        if (kinds[i].count != f->records)
            stk__text_printf(t, " (%" PRId64 ")", kinds[i].count);
        before = ", ";
    }
    stk__text_puts(t, "; looked at ");
    cli_text_count(t, f->records);
    stk__text_puts(t, f->records == 1 ? " record\n" : " records\n");
}

static void put_kinds(stk__text *t, const inspect_feature *x)
{
    bool any = false;
    for (int k = STK__FEATURE_BYTES; k <= STK__FEATURE_INT64 + 1; k++) {
        const int kind = k <= STK__FEATURE_INT64 ? k : STK__FEATURE_NONE; /* empty ones come last */
        if (!x->kinds[kind])
            continue;
        stk__text_printf(t, "%s%s", any ? "|" : "", cli_feature_kind_name(kind));
        any = true;
    }
    if (!any)
        stk__text_puts(t, "empty");
}

/* "8", "0..3", "3..10 steps of 1" */
static void put_counts(stk__text *t, const inspect_feature *x)
{
    if (x->sequence) {
        put_range(t, x->min_steps, x->max_steps);
        stk__text_puts(t, x->max_steps == 1 ? " step" : " steps");
        if (x->min_values <= x->max_values)
            stk__text_puts(t, " of ");
    }
    if (x->min_values <= x->max_values)
        put_range(t, x->min_values, x->max_values);
}

/* Spaces after what was written since `from`, up to `width` characters. */
static void pad(stk__text *t, size_t from, size_t width)
{
    for (size_t i = from; i < t->length && width; i++)
        width -= ((unsigned char)t->data[i] & 0xc0) != 0x80; /* bytes that go on with a character do not count */
    while (width--)
        stk__text_putc(t, ' ');
}

static void put_feature(stk__text *t, const inspect_feature *x, size_t name_width, size_t kinds_width)
{
    stk__text_puts(t, "    ");
    size_t from = t->length;
    cli_text_escaped(t, x->name_size ? x->name : "\"\"");
    pad(t, from, name_width);
    stk__text_puts(t, "  ");
    from = t->length;
    put_kinds(t, x);
    pad(t, from, kinds_width);
    stk__text_printf(t, " %8" PRId64 "  ", x->present);
    put_counts(t, x);
    stk__text_putc(t, '\n');
}

/* Widths of the columns; very long names may stick out. */
static void column_widths(const inspect_feature *items, size_t count, size_t *out_name, size_t *out_kinds)
{
    for (size_t i = 0; i < count; i++) {
        char buffer[64];
        stk__text kinds;
        stk__text_fixed(&kinds, buffer, sizeof buffer);
        put_kinds(&kinds, &items[i]);
        *out_kinds = STK_MAX(*out_kinds, kinds.length);
        *out_name = STK_MAX(*out_name, STK_MIN(stk__escape_terminal(items[i].name, NULL, 0), (size_t)40));
    }
}

static void put_features(stk__text *t, const inspect_features *f, int64_t limit)
{
    if (!f->count)
        return;
    const size_t shown = limit && (uint64_t)limit < f->count ? (size_t)limit : f->count;
    size_t name_width = strlen("name"), kinds_width = strlen("type");
    column_widths(f->items, shown, &name_width, &kinds_width);
    put_label(t, "features");
    stk__text_printf(t, "%zu%s\n", f->count, f->too_many ? ", and more that were not kept" : "");
    stk__text_printf(t, "    %-*s  %-*s %8s  %s\n", (int)name_width, "name", (int)kinds_width, "type", "present",
                     "values");
    for (size_t i = 0; i < shown; i++)
        put_feature(t, &f->items[i], name_width, kinds_width);
    if (shown < f->count)
        stk__text_printf(t, "    and %zu more; --limit 0 lists all\n", f->count - shown);
}

/* "    jpg  bytes      40  120..3000 bytes" */
static void put_members(stk__text *t, const inspect_file *f, int64_t limit)
{
    const inspect_members *m = &f->members;
    if (!m->samples)
        return;
    const size_t shown = limit && (uint64_t)limit < m->count ? (size_t)limit : m->count;
    size_t width = strlen("extension");
    for (size_t i = 0; i < shown; i++)
        width = STK_MAX(width, STK_MIN(stk__escape_terminal(m->items[i].ext, NULL, 0), (size_t)40));
    put_label(t, "content");
    stk__text_puts(t, "tar; looked at ");
    cli_text_count(t, m->samples);
    stk__text_puts(t, m->samples == 1 ? " sample\n" : " samples\n");
    put_label(t, "members");
    stk__text_printf(t, "%zu%s\n", m->count, m->too_many ? ", and more that were not kept" : "");
    stk__text_printf(t, "    %-*s  %-7s %8s  %s\n", (int)width, "extension", "as", "present", "bytes");
    for (size_t i = 0; i < shown; i++) {
        const inspect_member *x = &m->items[i];
        stk__text_puts(t, "    ");
        const size_t from = t->length;
        cli_text_escaped(t, x->ext_size ? x->ext : "\"\"");
        pad(t, from, width);
        stk__text_printf(t, "  %-7s %8" PRId64 "  ", cli_member_type(x), x->present);
        put_range(t, x->min_bytes, x->max_bytes);
        stk__text_putc(t, '\n');
    }
    if (shown < m->count)
        stk__text_printf(t, "    and %zu more; --limit 0 lists all\n", m->count - shown);
}

static void put_file(stk__text *t, const inspect_file *f, const inspect_options *o)
{
    cli_text_escaped(t, f->path);
    stk__text_putc(t, '\n');
    put_sizes(t, f);
    put_bad(t, f, o->verify);
    put_set(t, f);
    put_content(t, &f->features);
    put_features(t, &f->features, o->limit);
    put_members(t, f, o->limit);
    inspect_proposal p;
    propose(f, &p);
    cli_proposal_put(t, &p, o->limit);
    cli_proposal_clear(&p);
}

/* ---- for programs ---- */

static void json_bad(stk__text *t, const inspect_file *f)
{
    stk__text_printf(t, ",\"bad\":%" PRId64 ",\"bad_places\":[", f->bad_count);
    for (size_t i = 0; i < f->bad_kept; i++) {
        const inspect_bad *b = &f->bad[i];
        stk__text_printf(t, "%s{\"record\":%" PRId64 ",\"offset\":%" PRId64, i ? "," : "", b->record, b->offset);
        if (b->size_bytes >= 0)
            stk__text_printf(t, ",\"size_bytes\":%" PRId64, b->size_bytes);
        stk__text_puts(t, ",\"message\":");
        stk__text_json_str(t, b->message);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_feature(stk__text *t, const inspect_feature *x)
{
    stk__text_puts(t, "{\"name\":");
    stk__text_json(t, x->name, x->name_size);
    stk__text_printf(t, ",\"sequence\":%s,\"types\":[", x->sequence ? "true" : "false");
    bool any = false;
    for (int k = STK__FEATURE_NONE; k <= STK__FEATURE_INT64; k++) {
        if (x->kinds[k]) {
            stk__text_printf(t, "%s\"%s\"", any ? "," : "", cli_feature_kind_name(k));
            any = true;
        }
    }
    stk__text_printf(t, "],\"present\":%" PRId64, x->present);
    if (x->min_values <= x->max_values)
        stk__text_printf(t, ",\"min_values\":%" PRId64 ",\"max_values\":%" PRId64, x->min_values, x->max_values);
    if (x->sequence)
        stk__text_printf(t, ",\"min_steps\":%" PRId64 ",\"max_steps\":%" PRId64, x->min_steps, x->max_steps);
    stk__text_putc(t, '}');
}

static void json_features(stk__text *t, const inspect_features *f)
{
    stk__text_printf(t,
                     ",\"looked_at\":%" PRId64 ",\"examples\":%" PRId64 ",\"sequence_examples\":%" PRId64
                     ",\"others\":%" PRId64 ",\"features\":[",
                     f->records, f->examples, f->sequences, f->others);
    for (size_t i = 0; i < f->count; i++) {
        stk__text_puts(t, i ? "," : "");
        json_feature(t, &f->items[i]);
    }
    stk__text_putc(t, ']');
}

static void json_members(stk__text *t, const inspect_file *f)
{
    const inspect_members *m = &f->members;
    stk__text_printf(t, ",\"looked_at\":%" PRId64 ",\"members\":[", m->samples);
    for (size_t i = 0; i < m->count; i++) {
        const inspect_member *x = &m->items[i];
        stk__text_printf(t, "%s{\"extension\":", i ? "," : "");
        stk__text_json(t, x->ext, x->ext_size);
        stk__text_printf(
            t, ",\"type\":\"%s\",\"present\":%" PRId64 ",\"min_bytes\":%" PRId64 ",\"max_bytes\":%" PRId64 "}",
            cli_member_type(x), x->present, x->min_bytes, x->max_bytes);
    }
    stk__text_putc(t, ']');
}

static void json_file(stk__text *t, const inspect_file *f, const inspect_options *o)
{
    stk__text_puts(t, "{\"file\":");
    stk__text_json_str(t, f->path);
    stk__text_printf(t, ",\"format\":\"%s\",\"compression\":\"%s\",\"size_bytes\":", framing_names[f->framing].format,
                     f->compression);
    if (f->file_bytes >= 0)
        stk__text_printf(t, "%" PRId64, f->file_bytes);
    else
        stk__text_puts(t, "null");
    stk__text_printf(t,
                     ",\"records\":%" PRId64 ",\"checked\":%" PRId64 ",\"record_bytes\":{\"min\":%" PRId64
                     ",\"max\":%" PRId64 ",\"total\":%" PRId64 ",\"mean\":",
                     f->records, f->checked, f->min_bytes, f->max_bytes, f->total_bytes);
    stk__text_json_double(t, f->records ? (double)f->total_bytes / (double)f->records : 0);
    stk__text_putc(t, '}');
    if (f->framing == STK__FRAMING_TAR)
        stk__text_printf(t, ",\"in_no_sample\":%" PRId64, f->stray);
    json_bad(t, f);
    if (f->manifest) {
        stk__text_puts(t, ",\"manifest\":");
        stk__text_json_str(t, f->manifest);
        stk__text_puts(t, ",\"differs\":");
        if (f->set_trouble.length)
            stk__text_json_str(t, f->set_trouble.data);
        else
            stk__text_puts(t, "null");
    }
    if (f->framing == STK__FRAMING_TAR)
        json_members(t, f);
    else if (f->framing == STK__FRAMING_TFRECORD)
        json_features(t, &f->features);
    inspect_proposal p;
    propose(f, &p);
    cli_proposal_json(t, &p);
    cli_proposal_clear(&p);
    stk__text page = STK__TEXT_INIT;
    put_file(&page, f, o);
    cli_proposal_json_page(t, &page);
    stk__text_putc(t, '}');
}

/* ---- the command ---- */

typedef struct totals {
    int64_t files, failed, checked, bad;
} totals;

/* Ends what is told of the file before this one. */
static void put_separator(stk__text *t, const inspect_options *o, const totals *sum)
{
    if (o->json)
        stk__text_puts(t, sum->files + sum->failed ? ",\n " : "");
    else
        stk__text_puts(t, sum->files ? "\n" : "");
}

/* A file that cannot be read: for people a message, for programs an object in place of what is in it. */
static void tell_failure(const char *path, const inspect_options *o, const stk_error *err, totals *sum)
{
    cli_say_error(err, NULL, NULL);
    if (o->json) {
        stk__text t = STK__TEXT_INIT;
        char line[2600];
        stk_error_format(err, line, sizeof line);
        put_separator(&t, o, sum);
        stk__text_puts(&t, "{\"file\":");
        stk__text_json_str(&t, path);
        stk__text_printf(&t, ",\"error\":{\"status\":\"%s\",\"message\":", stk_status_name(err->status));
        stk__text_json_str(&t, line);
        stk__text_puts(&t, "}}");
        cli_out_text(&t);
    }
    sum->failed++;
}

/* HDF5 files, folders and manifests are no records: they have pages of their own. */
static stk_status put_page(const char *path, const inspect_options *o, stk__text *t, totals *found, stk_error *err)
{
    if (stk__manifest_is_path(path))
        return cli_inspect_set(path, o->verify, o->json, t, &found->checked, &found->bad, err);
    if (cli_is_folder(path))
        return cli_inspect_folder(path, o->verify, o->json, o->limit, t, err);
    hdf5_checked checked = {0};
    const stk_status status = cli_inspect_hdf5(path, o->verify, o->json, o->limit, t, &checked, err);
    *found = (totals){.checked = checked.rows, .bad = checked.bad};
    return status;
}

static stk_status put_records(const char *path, const inspect_options *o, inspect_sets *sets, stk__text *t, totals *found,
                              stk_error *err)
{
    const inspect_how how = {.verify = o->verify, .look = o->records, .bad_limit = o->limit};
    inspect_file file;
    stk_status status = cli_inspect_file(path, &how, &file, err);
    if (status == STK_OK && o->verify)
        status = cli_compare_with_set(&file, sets, err);
    cli_live_clear();
    if (status == STK_OK && o->json)
        json_file(t, &file, o);
    else if (status == STK_OK)
        put_file(t, &file, o);
    *found = (totals){.checked = file.checked, .bad = file.bad_count + (file.set_trouble.length > 0)};
    cli_inspect_clear(&file);
    return status;
}

static void inspect_one(const char *path, const inspect_options *o, inspect_sets *sets, totals *sum)
{
    stk__text t = STK__TEXT_INIT;
    totals found = {0};
    stk_error err;
    stk_error_clear(&err);
    put_separator(&t, o, sum);
    const bool page = cli_is_folder(path) || stk__h5_is_file(path) || stk__manifest_is_path(path);
    const stk_status status =
        page ? put_page(path, o, &t, &found, &err) : put_records(path, o, sets, &t, &found, &err);
    if (status != STK_OK) {
        stk__text_clear(&t);
        tell_failure(path, o, &err, sum);
        return;
    }
    cli_out_text(&t);
    sum->files++;
    sum->checked += found.checked;
    sum->bad += found.bad;
}

static void put_totals(const totals *sum)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "\nchecked ");
    cli_text_count(&t, sum->checked);
    stk__text_puts(&t, sum->checked == 1 ? " good record in " : " good records in ");
    cli_text_count(&t, sum->files);
    stk__text_puts(&t, sum->files == 1 ? " file; bad: " : " files; bad: ");
    cli_text_count(&t, sum->bad);
    if (sum->failed) {
        stk__text_puts(&t, "; files that could not be read: ");
        cli_text_count(&t, sum->failed);
    }
    stk__text_putc(&t, '\n');
    cli_out_text(&t);
}

/* The files that an argument stands for; where it is a pattern, sets that it finds must be whole. */
static void find_files(const char *pattern, const inspect_options *o, stk__paths *paths, totals *sum)
{
    stk_error err;
    stk_error_clear(&err);
    const size_t first = paths->count;
    stk_status status = stk__paths_glob(paths, pattern, &err);
    const stk__paths found = {.items = paths->items + first, .count = paths->count - first};
    bool *wild = stk__calloc(found.count + 1, sizeof *wild);
    for (size_t i = 0; wild && i < found.count; i++)
        wild[i] = strpbrk(pattern, "*?[") && strcmp(found.items[i], pattern) != 0;
    if (status == STK_OK && found.count && wild && wild[0])
        status = stk__sets_check(&found, wild, NULL, &err);
    stk__free(wild);
    if (status != STK_OK)
        tell_failure(pattern, o, &err, sum);
}

/* A manifest among many files stands for all of its own. */
static void check_all(const stk__paths *paths, const inspect_options *o, totals *sum)
{
    stk_error err;
    stk_error_clear(&err);
    bool *wild = stk__calloc(paths->count + 1, sizeof *wild), manifest = false;
    for (size_t i = 0; wild && i < paths->count; i++) {
        wild[i] = true;
        manifest = manifest || stk__manifest_is_path(paths->items[i]);
    }
    if (wild && manifest && paths->count > 1 && o->verify && stk__sets_check(paths, wild, NULL, &err) != STK_OK)
        tell_failure(err.file, o, &err, sum);
    stk__free(wild);
}

/* It lies beside the records that it is about. */
static bool is_beside(const char *path)
{
    return stk__schema_is_path(path) || stk__manifest_is_path(path);
}

static int inspect_run(const void *options, const cli_arguments *arguments)
{
    const inspect_options *o = options;
    if (!arguments->count)
        return cli_usage_error(&cli_command_inspect, "no file; give at least one FILE");
    stk__paths paths = {0};
    totals sum = {0};
    inspect_sets sets = {0};
    if (o->json)
        cli_out("[", 1);
    stk_error err;
    stk_error_clear(&err);
    if (stk__sets_settle_patterns((const char *const *)arguments->items, arguments->count, &err) != STK_OK)
        tell_failure(err.file, o, &err, &sum);
    for (size_t i = 0; i < arguments->count; i++)
        find_files(arguments->items[i], o, &paths, &sum);
    check_all(&paths, o, &sum);
    for (size_t i = 0; i < paths.count; i++)
        if (paths.count == 1 || !is_beside(paths.items[i]))
            inspect_one(paths.items[i], o, &sets, &sum);
    if (o->json)
        cli_out("]\n", 2);
    else if (o->verify)
        put_totals(&sum);
    stk__paths_clear(&paths);
    stk__set_dir_clear(&sets.dir);
    return sum.failed || sum.bad ? CLI_FAILED : CLI_OK;
}

static const cli_option inspect_options_table[] = {
    CLI_ROW(inspect_options, verify, bool, CLI_FLAG, .name = "verify", .group = "What to read",
            .help = "read everything and check every CRC, header and chunk; and compare with the manifest of the set"),
    CLI_ROW(inspect_options, records, int64_t, CLI_INT, .name = "records", .value = "N", .min = 0, .max = INT64_MAX,
            .fallback = 1000, .group = "What to read",
            .help = "look at the features or members of the first N records of a file (default 1000; 0: of all)"),
    CLI_ROW(inspect_options, json, bool, CLI_FLAG, .name = "json", .group = "Output",
            .help = "a JSON array with one object for each file; one that cannot be read has an error in it"),
    CLI_ROW(inspect_options, limit, int64_t, CLI_INT, .name = "limit", .value = "N", .min = 0, .max = INT64_MAX,
            .fallback = 100, .group = "Output",
            .help = "list at most N features and N bad places of a file (default 100; 0: all)"),
    CLI_OPTION_END,
};

static const cli_example inspect_examples[] = {
    {"what is in these files, and how to parse it", "stoker inspect 'data/*.tfrecord'"},
    {"which members do the samples of these archives have?", "stoker inspect 'data/*.tar'"},
    {"which datasets does this file have, and who reads them?", "stoker inspect train.h5"},
    {"is every record whole?", "stoker inspect --verify data/train-00000.tfrecord.gz"},
    {"is every file of this set as it was published?", "stoker inspect --verify out/part.manifest.json"},
    {NULL, NULL},
};

const cli_command cli_command_inspect = {
    .name = "inspect",
    .summary = "show what is in TFRecord, tar and HDF5 files, and check them",
    .usage = "[OPTION]... FILE...",
    .about = "Tells for each TFRecord file, plain, gzip or zlib, how many records it has and of which sizes, whether "
             "they are Examples or SequenceExamples, which features they hold, and how to parse them; and for each tar "
             "file how many samples it has, which members they have, and how to read them. For each HDF5 file it tells "
             "the datasets, their types, shapes, chunks and filters, and whether they will be read in parallel or by "
             "libhdf5, and why; for each text file, known by its name (.txt, .csv, .jsonl, ...), its lines; and for a "
             "directory of pictures its classes; for the manifest of a set, its files. What the proposed line leaves out, and what may go wrong with it, is told "
             "below it. FILE may be a "
             "glob, or '-' for standard input. The exit code is 1 when anything bad was found.",
    .options = inspect_options_table,
    .examples = inspect_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(inspect_options),
    .max_arguments = SIZE_MAX,
    .run = inspect_run,
};
