/* What a benchmark leaves behind: report, JSON, chart, exports, a section of a page, an exit code. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* "hyperfine=out.json"; UNKNOWN when it is not of that form. */
static stk__bench_format export_format(const char *text, const char **out_path)
{
    char name[32];
    const size_t size = strcspn(text, "=");
    stk__text t;
    stk__text_fixed(&t, name, sizeof name);
    stk__text_write(&t, text, STK_MIN(size, sizeof name - 1));
    if (!text[size] || !text[size + 1])
        return STK__BENCH_UNKNOWN;
    *out_path = text + size + 1;
    return stk__bench_format_find(name);
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

int bench_check_output(const bench_output_options *output, const cli_command *command)
{
    if (output->section && !output->into)
        return cli_usage_error(command, "--section is for --into");
    for (size_t i = 0; i < output->exports.count; i++) {
        const char *text = output->exports.items[i], *path;
        if (export_format(text, &path) == STK__BENCH_UNKNOWN)
            return cli_usage_error(
                command, "--export wants FORMAT=FILE with stoker, hyperfine, pyperf, google, go or github, found '%s'",
                text);
    }
    for (size_t i = 0; i < output->exports.count && output->json; i++) {
        const char *path = NULL;
        export_format(output->exports.items[i], &path);
        if (strcmp(path, "-") == 0)
            return cli_usage_error(command, "--json has standard output: --export wants a file there");
    }
    if (output->json && output->svg && strcmp(output->svg, "-") == 0)
        return cli_usage_error(command, "--json has standard output: --svg wants a file there");
    if (!output->into)
        return CLI_OK;
    stk__text made = STK__TEXT_INIT;
    const int code = make_page(output, "", &made);
    stk__text_clear(&made);
    return code;
}

int bench_read(const char *path, const char *format_name, stk__result *out)
{
    const stk__bench_format format = format_name ? stk__bench_format_find(format_name) : STK__BENCH_UNKNOWN;
    if (format_name && (format == STK__BENCH_UNKNOWN || format == STK__BENCH_GITHUB))
        return cli_usage_error(&cli_command_bench_compare,
                               "--read-as wants stoker, hyperfine, pyperf, google or go, found '%s'", format_name);
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
