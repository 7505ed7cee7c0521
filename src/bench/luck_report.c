/* Luck as tables for the terminal and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench/luck_report.h"
#include "bench/quantity.h"
#include "bench/table.h"

#include "base/banned.h"

/* ---- text ---- */

static void put_percent(stk__text *t, double share)
{
    if (isnan(share))
        stk__text_putc(t, '-');
    else
        stk__text_printf(t, "%.*f %%", share > 0 && share < 0.0995 ? 1 : 0, 100 * share);
}

static void cell_percent(stk__table *table, double share)
{
    char cell[32];
    stk__text t;
    stk__text_fixed(&t, cell, sizeof cell);
    put_percent(&t, share);
    stk__table_cell(table, cell);
}

static void cell_number(stk__table *table, size_t value)
{
    char cell[32];
    stk__text t;
    stk__text_fixed(&t, cell, sizeof cell);
    stk__text_printf(&t, "%zu", value);
    stk__table_cell(table, cell);
}

/* "45 %", or "45 % (9.0 %)" when some were called the other way round. */
static void cell_found(stk__table *table, const stk__luck_shares *s, stk__luck_rule rule)
{
    char cell[64];
    stk__text t;
    stk__text_fixed(&t, cell, sizeof cell);
    const double right = s->rules[rule].right, wrong = s->rules[rule].called - right;
    put_percent(&t, right);
    if (wrong > 1e-9) {
        stk__text_puts(&t, " (");
        put_percent(&t, wrong);
        stk__text_putc(&t, ')');
    }
    stk__table_cell(table, cell);
}

static void put_table(stk__table *table, stk__text *out)
{
    stk__table_put(table, 2, out);
    stk__table_clear(table);
}

static void cells(stk__table *table, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stk__table_cell(table, words[i]);
}

static void put_false_alarms(const stk__luck_story *s, stk__text *out)
{
    static const stk__column columns[] = {{true, 3, 0}, {true, 3, 0}, {true, 2, 0}, {true, 2, 0},
                                          {true, 3, 0}, {true, 3, 0}, {true, 0, 0}};
    static const char *const heads[] = {
        "runs of", "in",    "hyperfine's",  "order:", "means",     "",        "smallest change",
        "each",    "turns", "Mann-Whitney", "Welch",  "5 % apart", "windows", "found (80 %)"};
    const stk__luck_effect *e = &s->l->effects[0];
    stk__table table;
    stk__text_puts(out, "\nA against itself: how often a change is called that is none\n");
    stk__table_init(&table, columns, STK_COUNT(columns));
    cells(&table, heads, STK_COUNT(heads));
    for (size_t i = 0; i < e->row_count; i++) {
        const stk__luck_row *row = &e->rows[i];
        if (!row->turns.windows)
            continue;
        cell_number(&table, row->n);
        cell_percent(&table, row->turns.rules[STK__LUCK_VERDICT].called);
        for (size_t k = STK__LUCK_MANN_WHITNEY; k < STK__LUCK_RULES; k++)
            cell_percent(&table, row->order.rules[k].called);
        cell_number(&table, row->turns.windows);
        cell_percent(&table, s->c->sizes[i].detectable);
    }
    put_table(&table, out);
}

static void put_found(const stk__luck_effect *e, stk__text *out)
{
    static const stk__column columns[] = {{true, 3, 0}, {true, 3, 0}, {true, 2, 0}, {true, 2, 0}, {true, 3, 0},
                                          {true, 2, 0}, {true, 3, 0}, {true, 2, 0}, {true, 3, 0}, {true, 0, 0}};
    static const char *const heads[] = {"runs of", "in",     "hyperfine's",  "order:",   "means",
                                        "ratio",   "off by", "interval",     "holds it", "",
                                        "each",    "turns",  "Mann-Whitney", "Welch",    "5 % apart",
                                        "turns",   "order",  "turns",        "order",    "windows"};
    stk__table table;
    stk__table_init(&table, columns, STK_COUNT(columns));
    cells(&table, heads, STK_COUNT(heads));
    for (size_t i = 0; i < e->row_count; i++) {
        const stk__luck_row *row = &e->rows[i];
        char windows[48];
        stk__text t;
        cell_number(&table, row->n);
        cell_found(&table, &row->turns, STK__LUCK_VERDICT);
        for (stk__luck_rule k = STK__LUCK_MANN_WHITNEY; k < STK__LUCK_RULES; k++)
            cell_found(&table, &row->order, k);
        cell_percent(&table, row->turns.error);
        cell_percent(&table, row->order.error);
        cell_percent(&table, row->turns.covered);
        cell_percent(&table, row->order.covered);
        stk__text_fixed(&t, windows, sizeof windows);
        stk__text_printf(&t, row->turns.windows == row->order.windows ? "%zu" : "%zu, %zu", row->turns.windows,
                         row->order.windows);
        stk__table_cell(&table, windows);
    }
    put_table(&table, out);
}

static void put_effect_title(const stk__luck_story *s, size_t effect, stk__text *out)
{
    const stk__luck_effect *e = &s->l->effects[effect];
    const bool time = strcmp(s->r->metrics[s->r->primary].unit, "s") == 0;
    stk__text_putc(out, '\n');
    if (e->scaled) {
        stk__text_printf(out, "B %s %.4g %% %s (its runs are runs of A, whose figures are counted so)",
                         time ? "takes" : "has", 100 * e->more, time ? "longer" : "more");
    } else {
        if (isnan(e->more)) {
            stk__text_puts(out, "B is '");
            stk__put_safe(out, s->r->variants[effect].command, 60);
            stk__text_putc(out, '\'');
        } else {
            stk__text_printf(out, "B has %.4g %% more work", 100 * e->more);
        }
        stk__text_puts(out, time ? ", and takes " : ", and has ");
        stk__ratio(out, e->truth);
        stk__text_printf(out, " times as %s (by all %zu rounds in turns)", time ? "long" : "much", e->truth_rounds);
    }
    stk__text_puts(out, ":\nhow often that is found (in brackets: called the other way round)\n");
}

static bool has_hyperfine(const stk__luck_effect *e)
{
    for (size_t i = 0; i < e->row_count; i++) {
        if (e->rows[i].hyperfine.windows)
            return true;
    }
    return false;
}

/* The files that hyperfine itself wrote. */
static void put_hyperfine(const stk__luck_story *s, stk__text *out)
{
    static const stk__column columns[] = {{false, 3, 0}, {true, 3, 0}, {true, 2, 0},
                                          {true, 2, 0},  {true, 3, 0}, {true, 0, 0}};
    static const char *const heads[] = {"", "runs of each", "Mann-Whitney", "Welch t", "means 5 % apart", "files"};
    stk__table table;
    stk__text_printf(out, "\nBy ");
    stk__put_safe(out, s->hyperfine, 40);
    stk__text_puts(out, " itself, all runs of A and then all of B: how often a change is called in its files\n");
    stk__table_init(&table, columns, STK_COUNT(columns));
    cells(&table, heads, STK_COUNT(heads));
    for (size_t k = 0; k < s->l->effect_count; k++) {
        const stk__luck_effect *e = &s->l->effects[k];
        for (size_t i = 0; i < e->row_count; i++) {
            if (!e->rows[i].hyperfine.windows)
                continue;
            char name[64];
            stk__text t;
            stk__text_fixed(&t, name, sizeof name);
            if (k == 0)
                stk__text_puts(&t, "A, A");
            else
                stk__text_printf(&t, "A, B (%.3f times as long)", e->truth);
            stk__table_cell(&table, name);
            cell_number(&table, e->rows[i].n);
            for (stk__luck_rule rule = STK__LUCK_MANN_WHITNEY; rule < STK__LUCK_RULES; rule++) {
                if (k == 0)
                    cell_percent(&table, e->rows[i].hyperfine.rules[rule].called);
                else
                    cell_found(&table, &e->rows[i].hyperfine, rule);
            }
            cell_number(&table, e->rows[i].hyperfine.windows);
        }
    }
    put_table(&table, out);
}

/* The row of which there are enough windows, in a sentence. */
static void put_short(const stk__luck_effect *e, stk__text *out)
{
    size_t at = 0;
    while (at + 1 < e->row_count && e->rows[at + 1].turns.apart >= 20)
        at++;
    if (at >= e->row_count)
        return;
    const stk__luck_row *row = &e->rows[at];
    const double windows = (double)row->turns.windows;
    stk__text_printf(
        out, "\nIn short: %zu comparisons of A with itself, by %zu runs of each. Called a change: %.0f in turns, ",
        row->turns.windows, row->n, windows * row->turns.rules[STK__LUCK_VERDICT].called);
    stk__text_printf(out, "%.0f in\nhyperfine's order (Mann-Whitney).\n",
                     windows * row->order.rules[STK__LUCK_MANN_WHITNEY].called);
}

static size_t all_runs(const stk__luck *l)
{
    size_t sum = 0;
    for (size_t i = 0; i < l->series_count; i++)
        sum += l->series[i].count;
    return sum;
}

void stk__luck_text(const stk__luck_story *s, stk__text *out)
{
    const stk__metric *metric = &s->r->metrics[s->r->primary];
    if (s->r->machine)
        stk__put_safe(out, s->r->machine, 0);
    stk__text_printf(out, "\n%zu runs in %.0f s%s; A: %s ", all_runs(s->l), s->took_s,
                     s->r->interrupted ? ", interrupted" : "", metric->name);
    stk__quantity(out, s->c->median_s, metric->unit);
    stk__text_printf(out, " (median of %zu), coefficient of variation %.1f %%, autocorrelation %.2f\n", s->c->runs,
                     100 * s->c->cv, s->c->autocorrelation);
    if (isfinite(s->c->floor_s)) {
        stk__text_puts(out, "starting and ending an empty process takes ");
        stk__quantity(out, s->c->floor_s, "s");
        stk__text_putc(out, '\n');
    }
    put_false_alarms(s, out);
    for (size_t k = 1; k < s->l->effect_count; k++) {
        if (!s->l->effects[k].row_count || isnan(s->l->effects[k].truth))
            continue;
        put_effect_title(s, k, out);
        put_found(&s->l->effects[k], out);
    }
    if (s->hyperfine && has_hyperfine(&s->l->effects[0]))
        put_hyperfine(s, out);
    put_short(&s->l->effects[0], out);
    stk__text_puts(out, "A share of few windows is rough. The smallest change is for commands as noisy as this one.\n");
    for (size_t i = 0; i < s->r->note_count; i++) {
        stk__text_puts(out, "note: ");
        stk__put_safe(out, s->r->notes[i], 0);
        stk__text_putc(out, '\n');
    }
}

/* ---- JSON ---- */

static void put_key(stk__text *t, const char *key, double value)
{
    stk__text_printf(t, ",\"%s\":", key);
    stk__text_json_double(t, value);
}

static void json_shares(stk__text *t, const char *key, const stk__luck_shares *s)
{
    if (!s->windows) {
        stk__text_printf(t, ",\"%s\":null", key);
        return;
    }
    stk__text_printf(t, ",\"%s\":{\"windows\":%zu,\"apart\":%zu", key, s->windows, s->apart);
    put_key(t, "error", s->error);
    put_key(t, "covered", s->covered);
    for (stk__luck_rule k = 0; k < STK__LUCK_RULES; k++) {
        if (isnan(s->rules[k].called))
            continue;
        stk__text_printf(t, ",\"%s\":{\"called\":", stk__luck_rule_name(k));
        stk__text_json_double(t, s->rules[k].called);
        put_key(t, "right", s->rules[k].right);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, '}');
}

static void json_effect(const stk__luck_story *s, size_t effect, stk__text *t)
{
    const stk__luck_effect *e = &s->l->effects[effect];
    const size_t variant = e->scaled ? 0 : effect;
    stk__text_printf(t, "%s{\"command\":", effect ? "," : "");
    stk__text_json_str(t, variant < s->r->variant_count ? s->r->variants[variant].command : "");
    put_key(t, "more", e->more);
    stk__text_printf(t, ",\"scaled\":%s", e->scaled ? "true" : "false");
    put_key(t, "truth", e->truth);
    stk__text_printf(t, ",\"truth_rounds\":%zu,\"sizes\":[", e->truth_rounds);
    for (size_t i = 0; i < e->row_count; i++) {
        stk__text_printf(t, "%s{\"runs\":%zu", i ? "," : "", e->rows[i].n);
        json_shares(t, "turns", &e->rows[i].turns);
        json_shares(t, "order", &e->rows[i].order);
        json_shares(t, "hyperfine", &e->rows[i].hyperfine);
        stk__text_putc(t, '}');
    }
    stk__text_puts(t, "]}");
}

/* All runs, so that anyone can judge them again. */
static void json_series(const stk__luck_series *s, bool first, stk__text *t)
{
    static const char *const kinds[] = {"same", "turns", "order", "hyperfine"};
    stk__text_printf(t, "%s{\"kind\":\"%s\",\"effect\":%zu,\"sides\":\"", first ? "" : ",", kinds[s->kind], s->effect);
    for (size_t i = 0; i < s->count; i++)
        stk__text_putc(t, s->sides[i] ? 'B' : 'A');
    stk__text_puts(t, "\",\"values\":[");
    for (size_t i = 0; i < s->count; i++) {
        stk__text_puts(t, i ? "," : "");
        stk__text_json_double(t, s->values[i]);
    }
    stk__text_puts(t, "]}");
}

static void json_sizes(const stk__calibration *c, stk__text *t)
{
    stk__text_puts(t, ",\"sizes\":[");
    for (size_t i = 0; i < STK__CALIBRATE_SIZES && c->sizes[i].n; i++) {
        stk__text_printf(t, "%s{\"rounds\":%zu,\"windows\":%zu", i ? "," : "", c->sizes[i].n, c->sizes[i].windows);
        put_key(t, "false_positives", c->sizes[i].paired);
        put_key(t, "false_positives_sequential", c->sizes[i].sequential);
        put_key(t, "detectable", c->sizes[i].detectable);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_text(stk__text *t, const char *key, const char *text)
{
    stk__text_printf(t, ",\"%s\":", key);
    if (text)
        stk__text_json_str(t, text);
    else
        stk__text_puts(t, "null");
}

void stk__luck_json(const stk__luck_story *s, stk__text *out)
{
    stk__text_puts(out, "{\"stoker\":\"calibrate\",\"version\":1");
    json_text(out, "machine", s->r->machine);
    json_text(out, "fingerprint", s->c->machine);
    json_text(out, "limits", s->r->limits);
    json_text(out, "hyperfine", s->hyperfine);
    json_text(out, "metric", s->r->metrics[s->r->primary].name);
    const char *quote = s->r->seed > (uint64_t)1 << 53 ? "\"" : "";
    stk__text_printf(out, ",\"interrupted\":%s,\"seed\":%s%" PRIu64 "%s", s->r->interrupted ? "true" : "false", quote,
                     s->r->seed, quote);
    put_key(out, "took_s", s->took_s);
    stk__text_printf(out, ",\"all_runs\":%zu,\"runs\":%zu", all_runs(s->l), s->c->runs);
    put_key(out, "median_s", s->c->median_s);
    put_key(out, "cv", s->c->cv);
    put_key(out, "autocorrelation", s->c->autocorrelation);
    put_key(out, "sd_log", s->c->sd_log);
    put_key(out, "noise", s->c->noise);
    put_key(out, "floor_s", s->c->floor_s);
    json_sizes(s->c, out);
    stk__text_puts(out, ",\"effects\":[");
    for (size_t k = 0; k < s->l->effect_count; k++)
        json_effect(s, k, out);
    stk__text_puts(out, "],\"series\":[");
    for (size_t i = 0; i < s->l->series_count; i++)
        json_series(&s->l->series[i], i == 0, out);
    stk__text_puts(out, "],\"notes\":[");
    for (size_t i = 0; i < s->r->note_count; i++) {
        stk__text_puts(out, i ? "," : "");
        stk__text_json_str(out, s->r->notes[i]);
    }
    stk__text_puts(out, "]}\n");
}
