/* What `stoker compare-lazy` tells: a table, an object for programs, and one sentence of advice. */
#include <inttypes.h>
#include <string.h>

#include "lazy.h"

#include "base/banned.h"

/* A consumer that waits less of its time than this is fed; docs/guide/lazy-or-stored.md tells the rules. */
#define KEEPS_UP 0.05
/* Less than this is not worth the memory of a cache. */
#define WORTH_IT 1.2

static bool ran(const lazy_way *way)
{
    return !way->why_not[0] && way->round_count > 0;
}

static double rate_of(const lazy_way *way)
{
    return LAZY_MEDIAN(way, later_rate);
}

static double wait_of(const lazy_way *way)
{
    return LAZY_MEDIAN(way, later_wait);
}

/* Whether epochs differ less than without a cache: counted where that was possible. */
static bool loses(const lazy *z, const lazy_way *way)
{
    const lazy_way *plain = &z->ways[LAZY_PLAIN];
    if (!way->checked || !plain->checked)
        return way - z->ways >= LAZY_STORED;
    return way->distinct_mean < 0.999 * plain->distinct_mean;
}

static bool is_random(const lazy *z)
{
    const lazy_way *way = &z->ways[LAZY_PLAIN];
    return !way->checked || way->distinct_max > 1;
}

/* ---- advice ---- */

static void put_time(stk__text *t, double ns)
{
    if (ns >= 1e9)
        stk__text_printf(t, "%.3g s", ns / 1e9);
    else if (ns >= 1e6)
        stk__text_printf(t, "%.3g ms", ns / 1e6);
    else
        stk__text_printf(t, "%.3g us", ns / 1e3);
}

static void put_cost(const lazy *z, const lazy_way *way, stk__text *t)
{
    const bool disk = way == &z->ways[LAZY_DISK];
    stk__text_bytes(t, (uint64_t)(disk ? way->disk_bytes : way->peak_bytes));
    stk__text_puts(t, disk ? " on disk" : " of memory");
    if (way->kept >= 0 && way->kept < 0.9)
        stk__text_printf(t, " (which held %.0f %% of the samples)", 100 * way->kept);
}

static void put_fixed(const lazy_way *way, stk__text *t)
{
    if (way->checked && way->distinct_mean > 1.001)
        stk__text_printf(t, "only %.1f augmentations per sample", way->distinct_mean);
    else
        stk__text_puts(t, "one augmentation per sample");
}

static void put_name(const lazy_way *way, stk__text *t)
{
    stk__text_printf(t, "%c%s", way->name[0] - 'a' + 'A', way->name + 1);
}

/* The fastest way that fixes augmentations; NULL: none ran. */
static const lazy_way *fastest_loser(const lazy *z)
{
    const lazy_way *best = NULL;
    for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++) {
        if (ran(way) && loses(z, way) && (!best || rate_of(way) > rate_of(best)))
            best = way;
    }
    return best;
}

static void put_stored_instead(const lazy *z, const lazy_way *way, stk__text *t)
{
    const lazy_way *stored = fastest_loser(z);
    if (!stored)
        return;
    const double gain = rate_of(way) > 0 ? rate_of(stored) / rate_of(way) : 0;
    if (gain < 1.05) {
        stk__text_puts(t, "; storing would not be faster");
        return;
    }
    stk__text_printf(t, "; storing would be %.1fx as fast but fixes ", gain);
    put_fixed(stored, t);
    stk__text_puts(t, " and takes ");
    put_cost(z, stored, t);
}

/* For a step of known length: the first way, in their order, that keeps up. */
static void say_keeps_up(const lazy *z, const lazy_way *way, stk__text *t)
{
    const lazy_way *plain = &z->ways[LAZY_PLAIN];
    put_name(way, t);
    stk__text_puts(t, loses(z, way) ? ": only this keeps up with a " : ": it keeps up with a ");
    put_time(t, (double)z->options->step_ns);
    stk__text_printf(t, " step (wait %.1f %%", 100 * wait_of(way));
    if (way != plain)
        stk__text_printf(t, ", against %.1f %% for lazy", 100 * wait_of(plain));
    stk__text_putc(t, ')');
    if (way == plain && !is_random(z)) {
        stk__text_puts(t, ", so a cache would gain nothing");
        return;
    }
    if (loses(z, way)) {
        stk__text_puts(t, ", at the price of ");
        put_fixed(way, t);
        stk__text_puts(t, " in all epochs and ");
        put_cost(z, way, t);
        return;
    }
    stk__text_puts(t, is_random(z) ? " and every epoch sees new augmentations" : " and changes nothing that is seen");
    if (way != plain) {
        stk__text_puts(t, ", for ");
        put_cost(z, way, t);
    }
    if (is_random(z))
        put_stored_instead(z, way, t);
}

/* The least wait; `any`: also of ways that fix augmentations. */
static const lazy_way *least_wait(const lazy *z, bool any)
{
    const lazy_way *best = NULL;
    for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++) {
        if (ran(way) && (any || !loses(z, way)) && (!best || wait_of(way) < wait_of(best)))
            best = way;
    }
    return best;
}

static const lazy_way *say_none_keeps_up(const lazy *z, stk__text *t)
{
    const lazy_way *way = least_wait(z, false), *least = least_wait(z, true);
    put_name(way, t);
    stk__text_puts(t, ": no way keeps up with a ");
    put_time(t, (double)z->options->step_ns);
    stk__text_printf(t, " step, and this one waits least %s(%.1f %%",
                     is_random(z) ? "with new augmentations in every epoch " : "", 100 * wait_of(way));
    if (way != &z->ways[LAZY_PLAIN])
        stk__text_printf(t, ", lazy %.1f %%", 100 * wait_of(&z->ways[LAZY_PLAIN]));
    stk__text_putc(t, ')');
    if (least != way) {
        stk__text_printf(t, "; '%s' would wait %.1f %% but fixes ", least->name, 100 * wait_of(least));
        put_fixed(least, t);
    }
    return way;
}

/* Without a step: the fastest way that loses nothing, if it is worth its memory. */
static const lazy_way *say_fastest(const lazy *z, stk__text *t)
{
    const lazy_way *plain = &z->ways[LAZY_PLAIN], *best = plain;
    for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++) {
        if (ran(way) && !loses(z, way) && rate_of(way) >= WORTH_IT * rate_of(best))
            best = way;
    }
    put_name(best, t);
    stk__text_puts(t, ": ");
    cli_text_rate(t, rate_of(best));
    stk__text_puts(t, " samples/s");
    if (best != plain && rate_of(plain) > 0)
        stk__text_printf(t, ", %.1fx as many as lazy,", rate_of(best) / rate_of(plain));
    if (rate_of(best) > 0) {
        stk__text_puts(t, " feed steps of ");
        put_time(t, (double)z->batch_rows * 1e9 / rate_of(best));
        stk__text_puts(t, " or more");
    }
    if (is_random(z))
        stk__text_puts(t, ", with new augmentations in every epoch");
    if (best != plain) {
        stk__text_puts(t, ", for ");
        put_cost(z, best, t);
    }
    if (is_random(z))
        put_stored_instead(z, best, t);
    return best;
}

const lazy_way *cli_lazy_recommend(const lazy *z, stk__text *why)
{
    if (!ran(&z->ways[LAZY_PLAIN]))
        return NULL;
    const lazy_way *chosen = NULL;
    if (z->options->step_ns <= 0) {
        chosen = say_fastest(z, why);
    } else {
        for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS && !chosen; way++) {
            if (ran(way) && wait_of(way) <= KEEPS_UP)
                chosen = way;
        }
        if (chosen)
            say_keeps_up(z, chosen, why);
        else
            chosen = say_none_keeps_up(z, why);
    }
    stk__text_putc(why, '.');
    return chosen;
}

/* ---- the table ---- */

/* One cell, on the right of its width. */
static void put_cell(stk__text *out, size_t width, stk__text *cell)
{
    for (size_t n = cell->length; n < width; n++)
        stk__text_putc(out, ' ');
    stk__text_puts(out, cell->data ? cell->data : "");
    stk__text_reset(cell);
}

static void put_bytes_cell(stk__text *out, size_t width, int64_t bytes, stk__text *cell)
{
    if (bytes > 0)
        stk__text_bytes(cell, (uint64_t)bytes);
    else
        stk__text_putc(cell, '-');
    put_cell(out, width, cell);
}

static void put_percent_cell(stk__text *out, size_t width, double value, stk__text *cell)
{
    if (value >= 0)
        stk__text_printf(cell, "%.1f %%", 100 * value);
    else
        stk__text_putc(cell, '-');
    put_cell(out, width, cell);
}

static void put_row(const lazy *z, const lazy_way *way, stk__text *out, stk__text *cell)
{
    stk__text_printf(out, "%-14s", way->name);
    if (!ran(way)) {
        stk__text_puts(out, "  cannot run: ");
        cli_text_escaped(out, way->why_not);
        stk__text_putc(out, '\n');
        return;
    }
    cli_text_rate(cell, LAZY_MEDIAN(way, first_rate));
    put_cell(out, 12, cell);
    cli_text_rate(cell, rate_of(way));
    put_cell(out, 12, cell);
    if (z->options->step_ns > 0) {
        put_percent_cell(out, 10, LAZY_MEDIAN(way, first_wait), cell);
        put_percent_cell(out, 10, wait_of(way), cell);
    }
    stk__text_printf(cell, "%.4f", LAZY_MEDIAN(way, cpu_per_1000));
    put_cell(out, 11, cell);
    put_bytes_cell(out, 10, way->peak_bytes, cell);
    put_bytes_cell(out, 10, way->disk_bytes, cell);
    put_percent_cell(out, 9, way->kept, cell);
    if (way->checked)
        stk__text_printf(cell, "%.1f of %" PRId64, way->distinct_mean, z->options->epochs);
    else
        stk__text_puts(cell, "unknown");
    put_cell(out, 12, cell);
    stk__text_putc(out, '\n');
}

static void put_head(const lazy *z, stk__text *out)
{
    cli_text_count(out, z->samples);
    stk__text_puts(out, " samples in batches of ");
    cli_text_count(out, z->batch_rows);
    stk__text_printf(out, ", %" PRId64 " epochs, %" PRId64 " round%s in random order (--order-seed %" PRIu64 "), ",
                     z->options->epochs, z->options->rounds, z->options->rounds == 1 ? "" : "s", z->order_seed);
    stk__text_printf(out, "%d thread%s, ", z->threads, z->threads == 1 ? "" : "s");
    stk__text_bytes(out, (uint64_t)z->budget_bytes);
    stk__text_puts(out, " for buffers\n\n");
    const bool steps = z->options->step_ns > 0;
    char wait[64] = "";
    stk__text w;
    stk__text_fixed(&w, wait, sizeof wait);
    if (steps) {
        stk__text_puts(&w, "wait, ");
        put_time(&w, (double)z->options->step_ns);
        stk__text_puts(&w, " step");
    }
    stk__text_printf(out, "%14s%24s", "", "samples/s");
    if (steps)
        stk__text_printf(out, "%20s", wait);
    stk__text_printf(out, "%11s%10s%10s%9s%12s\n", "CPU s per", "memory", "disk", "found in", "versions");
    stk__text_printf(out, "%14s%12s%12s", "", "1st epoch", "later");
    if (steps)
        stk__text_printf(out, "%10s%10s", "1st", "later");
    stk__text_printf(out, "%11s%10s%10s%9s%12s\n", "1,000", "peak", "", "cache", "per sample");
}

void cli_lazy_table(const lazy *z, stk__text *out)
{
    stk__text cell = STK__TEXT_INIT, why = STK__TEXT_INIT;
    put_head(z, out);
    for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++)
        put_row(z, way, out, &cell);
    if (cli_lazy_recommend(z, &why)) {
        stk__text_putc(out, '\n');
        stk__text_puts(out, why.data ? why.data : "");
        stk__text_putc(out, '\n');
    }
    out->failed = out->failed || cell.failed || why.failed;
    stk__text_clear(&cell);
    stk__text_clear(&why);
}

/* ---- for programs ---- */

static void json_name(stk__text *t, const char *name)
{
    stk__text_printf(t, ",\"%s\":", name);
}

static void json_int(stk__text *t, const char *name, int64_t value)
{
    json_name(t, name);
    stk__text_printf(t, "%" PRId64, value);
}

static void json_double(stk__text *t, const char *name, double value)
{
    json_name(t, name);
    stk__text_json_double(t, value);
}

static void json_text(stk__text *t, const char *name, const char *value)
{
    json_name(t, name);
    stk__text_json_str(t, value);
}

static void json_figures(const lazy *z, const lazy_way *way, stk__text *t)
{
    json_double(t, "first_epoch_samples_per_s", LAZY_MEDIAN(way, first_rate));
    json_double(t, "later_samples_per_s", rate_of(way));
    stk__text_puts(t, ",\"later_samples_per_s_of_rounds\":[");
    for (size_t i = 0; i < way->round_count; i++) {
        stk__text_puts(t, i ? "," : "");
        stk__text_json_double(t, way->rounds[i].later_rate);
    }
    stk__text_putc(t, ']');
    if (z->options->step_ns > 0) {
        json_double(t, "first_epoch_wait_s", LAZY_MEDIAN(way, first_wait_s));
        json_double(t, "first_epoch_wait_share", LAZY_MEDIAN(way, first_wait));
        json_double(t, "later_wait_share", wait_of(way));
    }
    json_double(t, "cpu_s_per_1000_samples", LAZY_MEDIAN(way, cpu_per_1000));
    json_int(t, "peak_buffer_bytes", way->peak_bytes);
    json_int(t, "disk_bytes", way->disk_bytes);
    json_int(t, "cache_hits", way->cache_hits);
    json_int(t, "cache_misses", way->cache_misses);
    if (way->kept >= 0)
        json_double(t, "cache_kept", way->kept);
    else
        stk__text_puts(t, ",\"cache_kept\":null");
    json_int(t, "checked_samples", way->checked);
    if (way->checked) {
        json_double(t, "distinct_mean", way->distinct_mean);
        json_int(t, "distinct_min", way->distinct_min);
        json_int(t, "distinct_max", way->distinct_max);
    }
    json_text(t, "digest", way->digest);
    json_text(t, "first_epoch_digest", way->first_digest);
}

static void json_way(const lazy *z, const lazy_way *way, stk__text *t)
{
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, way->name);
    stk__text_printf(t, ",\"ran\":%s", ran(way) ? "true" : "false");
    if (way->text.data)
        json_text(t, "pipeline", way->text.data);
    if (ran(way))
        json_figures(z, way, t);
    else
        json_text(t, "why_not", way->why_not);
    stk__text_putc(t, '}');
}

void cli_lazy_json(const lazy *z, stk__text *out)
{
    stk__text_printf(out, "{\"samples\":%" PRId64, z->samples);
    json_int(out, "batch_rows", z->batch_rows);
    json_int(out, "epochs", z->options->epochs);
    json_int(out, "rounds", z->options->rounds);
    json_int(out, "order_seed", (int64_t)z->order_seed);
    json_int(out, "threads", z->threads);
    json_int(out, "budget_bytes", z->budget_bytes);
    if (z->options->step_ns > 0)
        json_double(out, "step_s", (double)z->options->step_ns / 1e9);
    stk__text_puts(out, ",\"ways\":[");
    for (const lazy_way *way = z->ways; way < z->ways + LAZY_WAYS; way++) {
        stk__text_puts(out, way > z->ways ? "," : "");
        json_way(z, way, out);
    }
    stk__text_putc(out, ']');
    stk__text why = STK__TEXT_INIT;
    const lazy_way *chosen = cli_lazy_recommend(z, &why);
    if (chosen) {
        json_text(out, "recommended", chosen->name);
        json_text(out, "recommendation", why.data ? why.data : "");
    }
    out->failed = out->failed || why.failed;
    stk__text_clear(&why);
    stk__text_puts(out, "}\n");
}
