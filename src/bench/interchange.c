/* Formats of benchmark files: names, detection, reading with the limits of JSON, joining results, writing. */
#include "bench/interchange.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/export.h"
#include "bench/import.h"
#include "bench/report.h"

#include "base/banned.h"

#define MAX_BYTES ((size_t)256 << 20)

/* Of a JSON text: each takes many times its bytes as a tree. */
enum { MAX_CONTAINERS = 2000000, MAX_ITEMS = 16000000 };

static stk_status write_markdown(const stk__export *ex)
{
    stk__report_markdown(ex->r, ex->c, ex->out);
    return STK_OK;
}

/* Of JSON; Go's text is read by itself. */
static stk_status (*const readers[STK__BENCH_FORMAT_COUNT])(stk__import *, const json_t *) = {
    [STK__BENCH_STOKER] = stk__read_stoker,        [STK__BENCH_HYPERFINE] = stk__read_hyperfine,
    [STK__BENCH_HYPERFINE2] = stk__read_hyperfine, [STK__BENCH_PYPERF] = stk__read_pyperf,
    [STK__BENCH_GOOGLE] = stk__read_google,        [STK__BENCH_PYTEST] = stk__read_pytest,
};

static stk_status (*const writers[STK__BENCH_FORMAT_COUNT])(const stk__export *) = {
    [STK__BENCH_STOKER] = stk__write_stoker,
    [STK__BENCH_HYPERFINE] = stk__write_hyperfine,
    [STK__BENCH_HYPERFINE2] = stk__write_hyperfine2,
    [STK__BENCH_PYPERF] = stk__write_pyperf,
    [STK__BENCH_GOOGLE] = stk__write_google,
    [STK__BENCH_GO] = stk__write_go,
    [STK__BENCH_CSV] = stk__write_csv,
    [STK__BENCH_MARKDOWN] = write_markdown,
    [STK__BENCH_GITHUB] = stk__write_github,
    [STK__BENCH_BENCHER] = stk__write_bencher,
};

#define ROW(id, name, tool) [STK__BENCH_##id] = {name, tool},
static const struct {
    const char *name, *tool;
} formats[STK__BENCH_FORMAT_COUNT] = {[STK__BENCH_UNKNOWN] = {"unknown", "nobody"},
                                      STK__BENCH_FORMATS_BOTH(ROW, ROW) STK__BENCH_FORMATS_READ(ROW)
                                          STK__BENCH_FORMATS_WRITTEN(ROW)};
#undef ROW

const char *stk__bench_format_name(stk__bench_format format)
{
    return formats[format].name;
}

stk__bench_format stk__bench_format_find(const char *name)
{
    for (size_t i = STK__BENCH_UNKNOWN + 1; i < STK__BENCH_FORMAT_COUNT; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return (stk__bench_format)i;
    }
    return STK__BENCH_UNKNOWN;
}

bool stk__bench_format_is_read(stk__bench_format format)
{
    return format == STK__BENCH_GO || readers[format];
}

bool stk__bench_format_is_written(stk__bench_format format)
{
    return writers[format];
}

/* ---- JSON ---- */

/* The length of a number that JSON does not have but Google Benchmark and Python write, or 0. */
static size_t bare_word(const char *text, size_t left)
{
    static const char *const words[] = {"-Infinity", "Infinity", "-NaN", "NaN", "-inf", "-nan", "inf", "nan"};
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if (left >= n && memcmp(text, words[i], n) == 0)
            return n;
    }
    return 0;
}

typedef struct census {
    size_t containers, items, bare;
} census;

/* Counts what a tree would hold and the bare words; copies with null in their place when `out` is not NULL. */
static void scan_json(const char *text, size_t size, census *c, stk__text *out)
{
    bool string = false;
    size_t copied = 0;
    for (size_t i = 0; i < size; i++) {
        const char at = text[i];
        if (string) {
            i += at == '\\';
            string = at != '"';
            continue;
        }
        string = at == '"';
        c->containers += at == '{' || at == '[';
        c->items += at == ',';
        const size_t n =
            at == '-' || at == 'N' || at == 'I' || at == 'n' || at == 'i' ? bare_word(text + i, size - i) : 0;
        if (!n)
            continue;
        c->bare++;
        if (out) {
            stk__text_write(out, text + copied, i - copied);
            stk__text_puts(out, "null");
            copied = i + n;
        }
        i += n - 1;
    }
    if (out)
        stk__text_write(out, text + copied, size - copied);
}

static stk_status load_json(const char *text, size_t size, json_t **out, stk_error *err)
{
    census c = {0}, again = {0};
    stk__text clean = STK__TEXT_INIT;
    json_error_t why;
    scan_json(text, size, &c, NULL);
    if (c.containers > MAX_CONTAINERS || c.items > MAX_ITEMS)
        return stk_error_set(err, STK_LIMIT, "%zu lists and objects with %zu items, wanted at most %d and %d",
                             c.containers, c.items, MAX_CONTAINERS, MAX_ITEMS);
    if (c.bare)
        scan_json(text, size, &again, &clean);
    if (clean.failed) {
        stk__text_clear(&clean);
        return stk__nomem(size, err);
    }
    json_t *root = json_loadb(c.bare ? clean.data : text, c.bare ? clean.length : size, JSON_DECODE_INT_AS_REAL, &why);
    stk__text_clear(&clean);
    if (root) {
        *out = root;
        return STK_OK;
    }
    if (json_error_code(&why) == json_error_out_of_memory)
        return stk__nomem(size, err);
    stk_error_set(err, STK_CORRUPT, "no JSON: %s", why.text);
    if (err) {
        err->line = why.line;
        err->column = why.column;
    }
    return STK_CORRUPT;
}

static stk__bench_format detect_json(const json_t *root)
{
    const json_t *benchmarks = json_object_get(root, "benchmarks"), *first = json_array_get(benchmarks, 0);
    if (json_object_get(root, "stoker"))
        return STK__BENCH_STOKER;
    if (json_is_array(json_object_get(root, "results")))
        return STK__BENCH_HYPERFINE;
    if (!json_is_array(benchmarks))
        return STK__BENCH_UNKNOWN;
    /* Before pyperf's: both have a version. */
    if (json_object_get(root, "machine_info") || json_object_get(first, "stats"))
        return STK__BENCH_PYTEST;
    if (json_object_get(first, "runs") || json_is_string(json_object_get(root, "version")))
        return STK__BENCH_PYPERF;
    if (json_object_get(root, "context") || json_object_get(first, "run_type") || json_object_get(first, "real_time"))
        return STK__BENCH_GOOGLE;
    return STK__BENCH_UNKNOWN;
}

static stk_status not_found(stk_error *err)
{
    return stk_error_set(err, STK_INVALID,
                         "no benchmark file: wanted what one of these writes: " STK__BENCH_READ_TOOLS);
}

static stk_status read_json(stk__import *in, const char *text, size_t size, stk__bench_format format)
{
    json_t *root = NULL;
    STK_TRY(load_json(text, size, &root, in->err));
    const stk__bench_format found = format == STK__BENCH_UNKNOWN ? detect_json(root) : format;
    const stk_status status = readers[found] ? readers[found](in, root) : not_found(in->err);
    json_decref(root);
    return status;
}

/* ---- reading ---- */

static bool is_json(const char *text, size_t size)
{
    while (size && memchr(" \t\r\n", *text, 4)) {
        text++;
        size--;
    }
    return size && (*text == '{' || *text == '[');
}

static stk_status read_any(stk__import *in, const char *text, size_t size, stk__bench_format format)
{
    if (size > MAX_BYTES)
        return stk_error_set(in->err, STK_LIMIT, "%zu bytes, wanted at most %zu", size, MAX_BYTES);
    if (format != STK__BENCH_UNKNOWN && !stk__bench_format_is_read(format))
        return stk_error_set(in->err, STK_UNSUPPORTED, "files of %s are only written, not read", formats[format].tool);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    if (!size)
        return stk_error_set(in->err, STK_INVALID, "the file is empty, wanted benchmark results");
    if (format == STK__BENCH_GO)
        return stk__read_go(in, text, size);
    if (format != STK__BENCH_UNKNOWN || is_json(text, size))
        return read_json(in, text, size, format);
    STK_TRY(stk__read_go(in, text, size));
    /* Any text is Go's, with lines to be passed over: without a single result it is something else. */
    return in->out->variant_count ? STK_OK : not_found(in->err);
}

static stk_status check_runs(const stk__result *r, stk_error *err)
{
    size_t runs = 0;
    for (size_t i = 0; i < r->variant_count; i++)
        runs += r->variants[i].runs;
    if (runs)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "the file has no values of single runs%s%.200s", r->note_count ? ": " : "",
                         r->note_count ? r->notes[0] : "");
}

stk_status stk__bench_read(const char *data, size_t size, const char *file, stk__bench_format format, stk__result *out,
                           stk_error *err)
{
    stk__result r = {.floor_s = NAN};
    stk__import in = {.out = &r, .err = err};
    stk_status status = read_any(&in, data, size, format);
    stk__names_clear(&in.names);
    if (status == STK_OK)
        status = check_runs(&r, err);
    if (status == STK_OK) {
        *out = r;
        return STK_OK;
    }
    stk__result_clear(&r);
    if (err && file && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", file);
    return status;
}

/* ---- joining ---- */

/* Whether an earlier join made the name from that of the first variant of its group. */
static bool is_joined_name(const char *name, const char *first)
{
    const size_t n = strlen(first);
    return strncmp(name, first, n) == 0 && strncmp(name + n, " @", 2) == 0;
}

/* Every variant of `to` is a group, but for those that an earlier join put beside the variant they are named after. */
static void split_groups(const stk__result *to, size_t *groups)
{
    for (size_t i = 0; i < to->variant_count; i++) {
        size_t first = 0;
        while (to->variants[first].group != to->variants[i].group)
            first++;
        groups[i] = is_joined_name(to->variants[i].name, to->variants[first].name) ? groups[first] : i;
    }
}

static bool is_one_group(const stk__result *r)
{
    for (size_t i = 1; i < r->variant_count; i++) {
        if (r->variants[i].group != r->variants[0].group)
            return false;
    }
    return r->variant_count > 0;
}

/*
 * Fills the groups of the variants of `to`, then those of `from`, and tells how many of the latter have a counterpart.
 * Where no name is in both, a single benchmark is compared with what is there, and anything else stays by itself.
 */
static size_t join_groups(const stk__result *to, const stk__result *from, const stk__name_table *names, size_t *groups)
{
    const size_t a = to->variant_count, b = from->variant_count;
    size_t matches = 0, highest = 0;
    for (size_t i = 0; i < b; i++)
        matches += stk__names_find(names, from->variants[i].name, strlen(from->variants[i].name)) != SIZE_MAX;
    if (matches) {
        split_groups(to, groups);
        for (size_t i = 0; i < b; i++) {
            const size_t there = stk__names_find(names, from->variants[i].name, strlen(from->variants[i].name));
            groups[a + i] = there == SIZE_MAX ? a + i : groups[there];
        }
        return matches;
    }
    for (size_t i = 0; i < a; i++) {
        groups[i] = to->variants[i].group;
        highest = STK_MAX(highest, groups[i] + 1);
    }
    const bool single = b == 1 && is_one_group(to);
    for (size_t i = 0; i < b; i++)
        groups[a + i] = single ? groups[0] : highest + from->variants[i].group;
    return single ? 1 : 0;
}

static stk_status unite_metrics(stk__result *made, const stk__result *from, stk_error *err)
{
    for (size_t i = 0; i < from->metric_count; i++) {
        const stk__metric *m = &from->metrics[i];
        const size_t there = stk__result_metric(made, m->name);
        if (there == SIZE_MAX) {
            STK_TRY(stk__result_add_metric(made, m->name, m->unit, m->higher_is_better, NULL, err));
            continue;
        }
        const stk__metric *other = &made->metrics[there];
        if (strcmp(other->unit, m->unit) != 0 || other->higher_is_better != m->higher_is_better)
            return stk_error_set(err, STK_INVALID,
                                 "the metric '%.80s' is in '%.40s' (%s is better) in one file and in '%.40s' (%s is "
                                 "better) in another",
                                 m->name, other->unit, other->higher_is_better ? "higher" : "lower", m->unit,
                                 m->higher_is_better ? "higher" : "lower");
    }
    return STK_OK;
}

/* Counts of two tools do not compare: one counts each repetition of a string instruction, one the instruction. */
static bool counted_otherwise(const stk__result *made, const stk__result *from, size_t metric)
{
    if (!stk__is_count(&made->metrics[metric]) || !made->counted || !from->counted)
        return false;
    const size_t n = strcspn(made->counted, " ");
    return n != strcspn(from->counted, " ") || memcmp(made->counted, from->counted, n) != 0;
}

static stk_status copy_runs(stk__result *made, size_t variant, const stk__result *from, const stk__variant *v,
                            stk_error *err)
{
    double *row = stk__calloc(made->metric_count + 1, sizeof *row);
    size_t *source = stk__calloc(made->metric_count + 1, sizeof *source);
    stk_status status = row && source ? STK_OK : stk__nomem(made->metric_count * sizeof *row, err);
    for (size_t m = 0; status == STK_OK && m < made->metric_count; m++)
        source[m] = counted_otherwise(made, from, m) ? SIZE_MAX : stk__result_metric(from, made->metrics[m].name);
    for (size_t i = 0; status == STK_OK && i < v->runs; i++) {
        for (size_t m = 0; m < made->metric_count; m++)
            row[m] = source[m] == SIZE_MAX ? NAN : v->values[source[m]][i];
        status = stk__result_add_run(made, variant, row, v->exit_codes ? v->exit_codes[i] : 0, err);
    }
    stk__free(row);
    stk__free(source);
    return status;
}

static stk_status copy_variant(stk__result *made, const stk__result *from, const stk__variant *v, const char *name,
                               size_t group, stk_error *err)
{
    size_t variant;
    STK_TRY(stk__result_add_variant(made, name, v->command, group, &variant, err));
    for (size_t i = 0; i < v->parameter_count; i++)
        STK_TRY(stk__result_add_parameter(made, variant, v->parameters[i].name, v->parameters[i].value, err));
    if (v->withheld && !(made->variants[variant].withheld = stk__strdup(v->withheld)))
        return stk__nomem(strlen(v->withheld), err);
    return copy_runs(made, variant, from, v, err);
}

/* Names of `from` that are there already get " @SUFFIX". */
static stk_status copy_variants(stk__result *made, const stk__result *from, const char *suffix, const size_t *groups,
                                stk__name_table *names, stk_error *err)
{
    for (size_t i = 0; i < from->variant_count; i++) {
        const char *name = from->variants[i].name;
        if (suffix) {
            stk__text t = STK__TEXT_INIT;
            stk__text_puts(&t, name);
            if (stk__names_find(names, name, strlen(name)) != SIZE_MAX)
                stk__text_printf(&t, " @%s", suffix);
            name = t.failed ? NULL : stk__names_unique(names, t.data, " #", 1);
            stk__text_clear(&t);
            if (!name)
                return stk__nomem(strlen(suffix), err);
        }
        STK_TRY(copy_variant(made, from, &from->variants[i], name, groups[i], err));
    }
    return STK_OK;
}

static stk_status note_difference(stk__result *made, const char *what, const char *a, const char *b, const char *suffix,
                                  stk_error *err)
{
    if (!a || !b || strcmp(a, b) == 0)
        return STK_OK;
    return stk__result_note(made, err, "another %s in %.80s: '%.200s', in the files before it '%.200s'", what, suffix,
                            b, a);
}

static stk_status join_notes(stk__result *made, const stk__result *to, const stk__result *from, const char *suffix,
                             size_t matches, stk_error *err)
{
    for (size_t i = 0; i < to->note_count; i++)
        STK_TRY(stk__result_note(made, err, "%s", to->notes[i]));
    for (size_t i = 0; i < from->note_count; i++)
        STK_TRY(stk__result_note(made, err, "%.80s: %s", suffix, from->notes[i]));
    if (!matches)
        STK_TRY(
            stk__result_note(made, err, "no benchmark of %.80s has the name of one in the files before it", suffix));
    else if (matches < from->variant_count)
        STK_TRY(stk__result_note(made, err,
                                 "%zu of the %zu benchmarks of %.80s have no counterpart in the files before it",
                                 from->variant_count - matches, from->variant_count, suffix));
    STK_TRY(note_difference(made, "way of counting instructions", to->counted, from->counted, suffix, err));
    STK_TRY(note_difference(made, "machine", to->machine, from->machine, suffix, err));
    return note_difference(made, "set of limits", to->limits ? to->limits : "none",
                           from->limits ? from->limits : "none", suffix, err);
}

static stk_status join_head(stk__result *made, const stk__result *to, const stk__result *from, stk_error *err)
{
    *made = (stk__result){.interrupted = to->interrupted || from->interrupted,
                          .seed = to->seed,
                          .dropped = to->dropped + from->dropped,
                          .retaken = to->retaken + from->retaken,
                          .warmup = STK_MIN(to->warmup, from->warmup),
                          .floor_s = to->floor_s,
                          .time_s = to->time_s,
                          .primary = to->primary};
    if (to->machine && !(made->machine = stk__strdup(to->machine)))
        return stk__nomem(strlen(to->machine), err);
    if (to->limits && !(made->limits = stk__strdup(to->limits)))
        return stk__nomem(strlen(to->limits), err);
    const char *counted = to->counted ? to->counted : from->counted;
    if (counted && !(made->counted = stk__strdup(counted)))
        return stk__nomem(strlen(counted), err);
    STK_TRY(unite_metrics(made, to, err));
    return unite_metrics(made, from, err);
}

static stk_status join(stk__result *made, const stk__result *to, const stk__result *from, const char *suffix,
                       stk__name_table *names, size_t *groups, stk_error *err)
{
    for (size_t i = 0; i < to->variant_count; i++) {
        if (stk__names_add(names, to->variants[i].name, strlen(to->variants[i].name)) == SIZE_MAX)
            return stk__nomem(strlen(to->variants[i].name), err);
    }
    const size_t matches = join_groups(to, from, names, groups);
    STK_TRY(join_head(made, to, from, err));
    STK_TRY(copy_variants(made, to, NULL, groups, NULL, err));
    STK_TRY(copy_variants(made, from, suffix, groups + to->variant_count, names, err));
    return join_notes(made, to, from, suffix, matches, err);
}

stk_status stk__bench_join(stk__result *to, const stk__result *from, const char *suffix, stk_error *err)
{
    const size_t count = to->variant_count + from->variant_count;
    if (count > STK__IMPORT_VARIANTS)
        return stk_error_set(err, STK_LIMIT, "%zu benchmarks together, wanted at most %d", count, STK__IMPORT_VARIANTS);
    if (to->metric_count && from->metric_count && stk__result_metric(from, to->metrics[to->primary].name) == SIZE_MAX)
        return stk_error_set(err, STK_INVALID,
                             "%.80s has no '%.80s', by which the file before is compared, but '%.80s'", suffix,
                             to->metrics[to->primary].name, from->metrics[from->primary].name);
    stk__result made = {0};
    stk__name_table names = {0};
    size_t *groups = stk__calloc(count + 1, sizeof *groups);
    stk_status status = groups ? join(&made, to, from, suffix, &names, groups, err) : stk__nomem(count, err);
    stk__free(groups);
    stk__names_clear(&names);
    if (status != STK_OK) {
        stk__result_clear(&made);
        return status;
    }
    stk__result_clear(to);
    *to = made;
    return STK_OK;
}

/* ---- writing ---- */

stk_status stk__bench_write(const stk__result *r, const stk__comparisons *c, stk__bench_format format, stk__text *out,
                            stk__text *out_notes, stk_error *err)
{
    const stk__export ex = {r, c, out, out_notes, err};
    if ((size_t)format >= STK_COUNT(writers) || !writers[format])
        return stk_error_set(err, STK_INVALID, "there is no format %d to write", (int)format);
    if (!r->metric_count)
        return stk_error_set(err, STK_INVALID, "the result has no metric");
    STK_TRY(writers[format](&ex));
    if (out->failed || (out_notes && out_notes->failed))
        return stk__nomem(out->length, err);
    return STK_OK;
}
