/* What a benchmark leaves behind: report, JSON, chart, exports, a section of a page, an exit code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "bench/chart.h"
#include "bench/count.h"
#include "bench/report.h"
#include "bench/section.h"
#include "trace/input.h"

#include "base/banned.h"

enum { MOST_INPUT = 256 << 20 };

/* ---- the terminal ---- */

size_t bench_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        return STK_MIN((size_t)size.ws_col, (size_t)120);
    return 80;
}

/* Blocks only where they are drawn as such: a terminal whose locale says UTF-8. */
bool bench_unicode(void)
{
    if (!isatty(STDOUT_FILENO))
        return false;
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8");
    }
    return false;
}

/* ---- further metrics ---- */

static bool all_known(const stk__result *r, size_t metric)
{
    for (size_t v = 0; v < r->variant_count; v++) {
        for (size_t i = 0; i < r->variants[v].runs; i++) {
            if (!(r->variants[v].values[metric][i] > 0))
                return false;
        }
    }
    return true;
}

stk_status bench_others_make(const stk__result *r, const stk__rule *rule, const stk__compare_pair *pairs, size_t count,
                             bench_others *out, stk_error *err)
{
    *out = (bench_others){0};
    for (size_t m = 0; m < r->metric_count && out->count < STK_COUNT(out->items); m++) {
        const char *name = r->metrics[m].name;
        const bool told =
            m >= STK__MEASURES || strcmp(name, "wall") == 0 || strcmp(name, "cpu") == 0 || strcmp(name, "rss") == 0;
        if (m == r->primary || !told || !all_known(r, m))
            continue;
        const stk_status status = stk__compare(r, rule, pairs, count, m, &out->items[out->count], err);
        if (status != STK_OK) {
            bench_others_clear(out);
            return status;
        }
        out->count++;
    }
    return STK_OK;
}

void bench_others_clear(bench_others *o)
{
    for (size_t i = 0; i < o->count; i++)
        stk__comparisons_clear(&o->items[i]);
    o->count = 0;
}

/* ---- files ---- */

int bench_write_text(const char *path, const stk__text *text)
{
    stk_error err = {0};
    if (text->failed) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    if (strcmp(path, "-") == 0)
        return cli_out(text->data ? text->data : "", text->length) ? CLI_OK : CLI_FAILED;
    if (stk__write_file(path, text->data ? text->data : "", text->length, &err) != STK_OK)
        return bench_fail(&err);
    return CLI_OK;
}

void bench_say_lines(const stk__text *lines)
{
    for (const char *p = lines->data; p && *p;) {
        const size_t size = strcspn(p, "\n");
        cli_say("stoker: %.*s", (int)size, p);
        p += size + (p[size] == '\n');
    }
}

/* What people write for a format, where that is far from its name. */
static const cli_meaning other_names[] = {
    {"json", "stoker"},
    {"md", "markdown"},
    {"bmf", "bencher"},
    {"gbench", "google"},
    {"benchmark", "google"},
    {"benchstat", "go"},
    {"pytest-benchmark", "pytest"},
    {"github-action-benchmark", "github"},
    {NULL, NULL},
};

static const char *nearest_format(const char *name, bool write)
{
    const char *names[STK__BENCH_FORMAT_COUNT];
    size_t count = 0;
    for (int f = STK__BENCH_UNKNOWN + 1; f < STK__BENCH_FORMAT_COUNT; f++) {
        if (write ? stk__bench_format_is_written((stk__bench_format)f)
                  : stk__bench_format_is_read((stk__bench_format)f))
            names[count++] = stk__bench_format_name((stk__bench_format)f);
    }
    for (const cli_meaning *row = other_names; row->name; row++) {
        if (strcmp(row->name, name) == 0)
            name = row->meaning;
    }
    return stk__nearest(name, names, count);
}

bool bench_format(const cli_command *command, const char *option, const char *name, bool write, stk__bench_format *out)
{
    *out = stk__bench_format_find(name);
    if (*out != STK__BENCH_UNKNOWN && (write ? stk__bench_format_is_written(*out) : stk__bench_format_is_read(*out)))
        return true;
    if (*out != STK__BENCH_UNKNOWN) {
        cli_usage_error(command, "%s wants one of: %s; '%s' is only %s", option,
                        write ? STK__BENCH_WRITTEN_LIST : STK__BENCH_READ_LIST, name, write ? "read" : "written");
        return false;
    }
    const char *nearest = nearest_format(name, write);
    cli_usage_error(command, "%s wants one of: %s; found '%s'%s%s%s", option,
                    write ? STK__BENCH_WRITTEN_LIST : STK__BENCH_READ_LIST, name, nearest ? ", did you mean '" : "",
                    nearest ? nearest : "", nearest ? "'?" : "");
    return false;
}

/* "hyperfine=out.json", which has been checked. */
static stk__bench_format export_format(const char *text, const char **out_path)
{
    char *name = stk__strndup(text, strcspn(text, "="));
    const stk__bench_format format = name ? stk__bench_format_find(name) : STK__BENCH_UNKNOWN;
    stk__free(name);
    *out_path = strchr(text, '=') + 1;
    return format;
}

static int export_one(const stk__result *r, const stk__comparisons *c, const char *text)
{
    const char *path = NULL;
    const stk__bench_format format = export_format(text, &path);
    stk_error err = {0};
    stk__text out = STK__TEXT_INIT, notes = STK__TEXT_INIT;
    int code = CLI_OK;
    if (stk__bench_write(r, c, format, &out, &notes, &err) != STK_OK)
        code = bench_fail(&err);
    else
        code = bench_write_text(path, &out);
    if (code == CLI_OK)
        bench_say_lines(&notes);
    stk__text_clear(&out);
    stk__text_clear(&notes);
    return code;
}

int bench_write_exports(const stk__result *r, const stk__comparisons *c, const bench_output_options *output)
{
    int code = CLI_OK;
    for (size_t i = 0; i < output->exports.count; i++) {
        const int one = export_one(r, c, output->exports.items[i]);
        code = code == CLI_OK ? one : code;
    }
    return code;
}

/* The page with the section put in. */
static int make_page(const bench_output_options *output, const char *markdown, stk__text *out)
{
    stk_error err = {0};
    char *page = NULL;
    size_t size = 0;
    int code = CLI_OK;
    if (stk__read_file(output->into, MOST_INPUT, &page, &size, &err) != STK_OK ||
        stk__section_replace(page, size, output->into, output->section ? output->section : "bench", markdown, out,
                             &err) != STK_OK)
        code = bench_fail(&err);
    stk__free(page);
    return code;
}

int bench_write_page(const bench_output_options *output, const char *markdown)
{
    if (!output->into)
        return CLI_OK;
    stk__text made = STK__TEXT_INIT;
    int code = make_page(output, markdown, &made);
    if (code == CLI_OK)
        code = bench_write_text(output->into, &made);
    stk__text_clear(&made);
    return code;
}

/* Can the file be made? Asked before an hour of runs, not after. */
static int check_target(const char *path)
{
    struct stat st;
    char *directory = stk__strdup(path);
    char *slash = directory ? strrchr(directory, '/') : NULL;
    if (slash)
        slash[slash == directory] = 0;
    const char *parent = slash ? directory : ".";
    int error = 0;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        error = EISDIR;
    else if (strcmp(path, "-") != 0 && directory && access(parent, W_OK | X_OK) != 0)
        error = errno;
    stk__free(directory);
    if (!error)
        return CLI_OK;
    cli_say("stoker: %s: cannot create: %s", path, strerror(error));
    return CLI_FAILED;
}

static int check_export(const bench_output_options *output, const cli_command *command, const char *text)
{
    stk__bench_format format;
    const size_t size = strcspn(text, "=");
    if (!size || !text[size] || !text[size + 1])
        return cli_usage_error(command, "--export wants FORMAT=FILE, as in hyperfine=runs.json, found '%s'", text);
    char *name = stk__strndup(text, size);
    const bool known = name && bench_format(command, "--export", name, true, &format);
    stk__free(name);
    if (!known)
        return CLI_USAGE;
    const char *path = text + size + 1;
    if (output->json && strcmp(path, "-") == 0)
        return cli_usage_error(command, "--json has standard output: --export wants a file there");
    return check_target(path);
}

int bench_check_output(const bench_output_options *output, const cli_command *command)
{
    if (output->section && !output->into)
        return cli_usage_error(command, "--section is for --into");
    int code = CLI_OK;
    for (size_t i = 0; i < output->exports.count && code == CLI_OK; i++)
        code = check_export(output, command, output->exports.items[i]);
    if (code == CLI_OK && output->json && output->svg && strcmp(output->svg, "-") == 0)
        return cli_usage_error(command, "--json has standard output: --svg wants a file there");
    if (code == CLI_OK && output->svg)
        code = check_target(output->svg);
    if (code != CLI_OK || !output->into)
        return code;
    stk__text made = STK__TEXT_INIT;
    code = make_page(output, "", &made);
    stk__text_clear(&made);
    return code;
}

int bench_read(const char *path, const char *format_name, stk__result *out)
{
    stk__bench_format format = STK__BENCH_UNKNOWN;
    if (format_name && !bench_format(&cli_command_bench_compare, "--read-as", format_name, false, &format))
        return CLI_USAGE;
    stk_error err = {0};
    stk__input *in = NULL;
    if (stk__input_open(path, &in, &err) != STK_OK)
        return bench_fail(&err);
    /* The window is as large as what is asked for: most results are small. */
    size_t size = 0, want = 1 << 20;
    const uint8_t *data = stk__input_peek(in, want, &size);
    while (size >= want && want < MOST_INPUT) {
        want = STK_MIN(2 * want, (size_t)MOST_INPUT);
        data = stk__input_peek(in, want, &size);
    }
    stk_status status = stk__input_status(in, &err);
    if (status == STK_OK && size >= MOST_INPUT)
        status =
            stk_error_set(&err, STK_LIMIT, "%s is larger than %d MiB, more than results are", path, MOST_INPUT >> 20);
    if (status == STK_OK)
        status = stk__bench_read((const char *)data, size, path, format, out, &err);
    stk__input_close(in);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

/* ---- the end ---- */

static int write_svg(const stk__result *r, const stk__comparisons *c, const char *path)
{
    stk_error err = {0};
    stk__text svg = STK__TEXT_INIT;
    int code = CLI_OK;
    if (stk__chart_comparison(r, c, "stoker bench", &svg, &err) != STK_OK)
        code = bench_fail(&err);
    else
        code = bench_write_text(path, &svg);
    stk__text_clear(&svg);
    return code;
}

static int print_json(const stk__result *r, const stk__comparisons *c)
{
    stk_error err = {0};
    stk__text json = STK__TEXT_INIT, notes = STK__TEXT_INIT;
    int code = CLI_OK;
    if (stk__bench_write(r, c, STK__BENCH_STOKER, &json, &notes, &err) != STK_OK)
        code = bench_fail(&err);
    else
        cli_out(json.data, json.length);
    stk__text_clear(&json);
    stk__text_clear(&notes);
    return code;
}

static int print_report(const stk__result *r, const stk__comparisons *c, const stk__compare_pair *pairs, size_t count)
{
    stk_error err = {0};
    bench_others others;
    if (bench_others_make(r, &c->rule, pairs, count, &others, &err) != STK_OK)
        return bench_fail(&err);
    stk__text t = STK__TEXT_INIT;
    stk__report_text(r, c, others.items, others.count, &t);
    if (r->variant_count > 1 && isatty(STDOUT_FILENO)) {
        stk__text_putc(&t, '\n');
        stk__text_comparison(r, c, bench_columns(), bench_unicode(), &t);
    }
    bench_others_clear(&others);
    cli_out_text(&t);
    return CLI_OK;
}

static int write_files(const stk__result *r, const stk__comparisons *c, const bench_output_options *output)
{
    int code = bench_write_exports(r, c, output);
    if (output->svg) {
        const int one = write_svg(r, c, output->svg);
        code = code == CLI_OK ? one : code;
    }
    if (output->into) {
        stk__text page = STK__TEXT_INIT;
        stk__report_markdown(r, c, &page);
        const int one = bench_write_page(output, page.data ? page.data : "");
        code = code == CLI_OK ? one : code;
        stk__text_clear(&page);
    }
    return code;
}

int bench_finish(const stk__result *r, const stk__comparisons *c, const stk__compare_pair *pairs, size_t pair_count,
                 const bench_output_options *output, int code)
{
    const int printed = output->json ? print_json(r, c) : print_report(r, c, pairs, pair_count);
    const int written = write_files(r, c, output);
    return code != CLI_OK ? code : printed != CLI_OK ? printed : written;
}

int bench_gate(const stk__result *r, const stk__comparisons *c, double fail_over, int code)
{
    if (fail_over < 0 || code != CLI_OK)
        return code;
    const double worst = stk__worst_regression(c, r);
    if (worst > fail_over) {
        /* %g turns to exponents: 1,900 % is not a rare figure here. */
        cli_say(worst < 1 ? "stoker: %s by %.3g %%, more than --fail-over %.4g%% allows"
                          : "stoker: %s by %.0f %%, more than --fail-over %.6g%% allows",
                stk__is_count(&r->metrics[c->items[0].metric]) ? "more instructions" : "slower", 100 * worst,
                100 * fail_over);
        return CLI_REGRESSION;
    }
    /* Silence would read as "no regression". */
    const stk__comparison *unknown = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const stk__comparison *x = &c->items[i];
        if (x->verdict == STK__INCONCLUSIVE && (!unknown || (x->withheld && !unknown->withheld)))
            unknown = x;
    }
    if (!unknown)
        return code;
    const char *a = r->variants[unknown->a].name, *b = r->variants[unknown->b].name;
    if (!unknown->withheld) {
        cli_say("stoker: --fail-over cannot tell yet: %s against %s is inconclusive", b, a);
        return code;
    }
    /* More rounds will not change that, and what computes something else is no good news. */
    cli_say("stoker: --fail-over cannot tell: %s against %s has no verdict: %s", b, a, unknown->withheld);
    return CLI_FAILED;
}
