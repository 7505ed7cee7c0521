/* The CSV file of the change log, read: fields, header, rows; version 1 as well, which had one comparison per row. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* Version 1: three columns for each benchmark, and one comparison behind them. */
static const char *const old_tail[] = {"compared", "ratio",   "ci_low", "ci_high", "p",
                                       "paired",   "verdict", "metric", "unit"};
static const char *const old_of_benchmark[] = {"", "_sd", "_n"};

enum {
    OLD_HEAD = STK__LOG_HEAD - 1, /* no confidence */
    OLD_TAIL = STK_COUNT(old_tail),
    OLD_PER_BENCHMARK = STK_COUNT(old_of_benchmark),
    OLD_PAIRS = 64, /* different ones that a file may have: each is a column now */
    NUMBER_MAX = 40
};

/* ---- fields ---- */

typedef struct csv_reader {
    const char *text, *file;
    size_t size, at;
    size_t line;     /* at `at` */
    stk__text field; /* the one that was read last */
    bool last;       /* it ended its line */
    stk_error *err;
} csv_reader;

/* "column 9 (lazy_sd)" is what people look for. */
static stk_status bad_field(csv_reader *r, const char *column, const char *wanted)
{
    char shown[80];
    stk__escape_terminal(r->field.data, shown, sizeof shown);
    return stk__log_damage(r->err, r->file, r->line, "%s is '%s', wanted %s", column, shown, wanted);
}

/* Nobody writes line ends into a field here, so that a quote left open is told where it stands. */
static stk_status read_quoted(csv_reader *r)
{
    for (r->at++; r->at < r->size && r->text[r->at] != '\n'; r->at++) {
        const char c = r->text[r->at];
        if (c == '"' && r->at + 1 < r->size && r->text[r->at + 1] == '"')
            r->at++;
        else if (c == '"')
            break;
        stk__text_putc(&r->field, c);
    }
    if (r->at == r->size || r->text[r->at] != '"')
        return stk__log_damage(r->err, r->file, r->line, "a quote is opened and not closed in the line");
    r->at++;
    const char *rest = r->text + r->at;
    const size_t left = r->size - r->at;
    if (left && *rest != ',' && *rest != '\n' && *rest != '\r')
        return stk__log_damage(r->err, r->file, r->line,
                               "text behind a closing quote, wanted a comma or the line's end");
    return STK_OK;
}

static stk_status read_plain(csv_reader *r)
{
    const size_t start = r->at;
    while (r->at < r->size && r->text[r->at] != ',' && r->text[r->at] != '\n')
        r->at++;
    size_t end = r->at;
    if (end > start && r->text[end - 1] == '\r' && (r->at == r->size || r->text[r->at] == '\n'))
        end--;
    if (memchr(r->text + start, '"', end - start))
        return stk__log_damage(r->err, r->file, r->line, "a quote within a field that has none around it");
    stk__text_write(&r->field, r->text + start, end - start);
    return STK_OK;
}

/* The next field; `last` tells whether the line ends with it. */
static stk_status read_field(csv_reader *r)
{
    stk__text_reset(&r->field);
    STK_TRY(r->at < r->size && r->text[r->at] == '"' ? read_quoted(r) : read_plain(r));
    stk__text_write(&r->field, "", 0);
    if (r->field.failed)
        return stk__nomem(r->field.length, r->err);
    if (r->at < r->size && r->text[r->at] == '\r')
        r->at++;
    r->last = r->at >= r->size || r->text[r->at] == '\n';
    if (r->at < r->size)
        r->at++;
    return STK_OK;
}

static stk_status take_text(csv_reader *r, char **out)
{
    *out = stk__strndup(r->field.data, r->field.length);
    return *out ? STK_OK : stk__nomem(r->field.length, r->err);
}

static bool parse_number(const char *text, double *out)
{
    const size_t length = strlen(text);
    if (!length || length > NUMBER_MAX || strspn(text, "0123456789+-.eE") != length)
        return false;
    char *end;
    *out = stk__strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

/* Empty: NaN. */
static stk_status take_number(csv_reader *r, const char *column, double min, double max, bool may_be_empty, double *out)
{
    *out = NAN;
    if (may_be_empty && !r->field.length)
        return STK_OK;
    if (!parse_number(r->field.data, out) || !(*out >= min && *out <= max))
        return bad_field(r, column, may_be_empty ? "a number that fits, or nothing" : "a number that fits");
    return STK_OK;
}

static stk_status take_hash(csv_reader *r, const char *column, char **out)
{
    if (r->field.length > 64 || strspn(r->field.data, "0123456789abcdef") != r->field.length)
        return bad_field(r, column, "a commit's hash");
    return take_text(r, out);
}

static stk_status take_flag(csv_reader *r, const char *column, bool *out)
{
    if (strcmp(r->field.data, "0") != 0 && strcmp(r->field.data, "1") != 0)
        return bad_field(r, column, "0 or 1");
    *out = r->field.data[0] == '1';
    return STK_OK;
}

/* "p of 'lazy'" is what people look for. */
static void name_column(const char *owner, const char *suffix, char *out, size_t size)
{
    char name[64];
    stk__text t;
    stk__escape_terminal(owner, name, sizeof name);
    stk__text_fixed(&t, out, size);
    stk__text_printf(&t, "%s of '%s'", suffix[0] ? suffix + 1 : "mean", name);
}

static bool is_verdict(const char *word)
{
    enum { MORE_THAN_THERE_ARE = 16 }; /* names past the last are those of the first */
    for (int v = 0; v < MORE_THAN_THERE_ARE; v++) {
        if (strcmp(word, stk__verdict_name((stk__verdict)v)) == 0)
            return true;
    }
    return false;
}

/* Empty: NULL. */
static stk_status take_optional(csv_reader *r, char **out)
{
    return r->field.length ? take_text(r, out) : STK_OK;
}

static stk_status take_verdict(csv_reader *r, const char *column, char **out)
{
    if (r->field.length && !is_verdict(r->field.data))
        return bad_field(r, column, "faster, slower, equivalent, inconclusive or nothing");
    return take_optional(r, out);
}

static stk_status take_paired(csv_reader *r, const char *column, bool *out)
{
    return r->field.length ? take_flag(r, column, out) : STK_OK;
}

static stk_status take_count(csv_reader *r, const char *column, size_t *out)
{
    int64_t n = 0;
    if (r->field.length > 18 || strspn(r->field.data, "0123456789") != r->field.length ||
        !stk__parse_int64(r->field.data, &n) || n < 1)
        return bad_field(r, column, "how many runs");
    *out = (size_t)n;
    return STK_OK;
}

/* All rows measure the same: the first one says what. */
static stk_status take_common(csv_reader *r, const char *column, char **common)
{
    if (!*common)
        return take_text(r, common);
    return strcmp(*common, r->field.data) == 0 ? STK_OK : bad_field(r, column, "the same as in the rows above");
}

/* ---- the columns of a row ---- */

static stk_status take_head(csv_reader *r, size_t column, stk__log_row *row)
{
    const char *name = stk__log_head[column];
    switch (column) {
    case 0:
        return stk__log_time_parse(r->field.data, &row->time_s) ? STK_OK
                                                                : bad_field(r, name, "one like 2026-08-18T10:00:00Z");
    case 1:
        return take_hash(r, name, &row->commit);
    case 2:
        return take_hash(r, name, &row->parent);
    case 3:
        return take_flag(r, name, &row->dirty);
    case 4:
        return take_text(r, &row->machine);
    case 5:
        return take_text(r, &row->limits);
    case 6:
        return take_text(r, &row->description);
    default:
        return take_number(r, name, 0, 1, false, &row->confidence);
    }
}

/* Mean, standard deviation, runs. A row without this benchmark has none of them. */
static stk_status take_figure(csv_reader *r, size_t part, const char *column, bool may_be_empty, stk__log_cell *cell)
{
    if (part == 0)
        return take_number(r, column, -HUGE_VAL, HUGE_VAL, may_be_empty, &cell->mean);
    if (part == 1)
        return take_number(r, column, 0, HUGE_VAL, true, &cell->sd);
    if (!r->field.length && isnan(cell->mean) && isnan(cell->sd))
        return STK_OK;
    STK_TRY(take_count(r, column, &cell->n));
    return isnan(cell->mean) ? bad_field(r, column, "nothing, as there is no mean") : STK_OK;
}

static stk_status take_direction(csv_reader *r, const char *column, stk__log_benchmark *b, bool *known)
{
    const bool higher = strcmp(r->field.data, "1") == 0;
    if (!higher && strcmp(r->field.data, "-1") != 0)
        return bad_field(r, column, "-1 (less is better) or 1");
    if (*known && higher != b->higher_is_better)
        return bad_field(r, column, "the same as in the rows above");
    b->higher_is_better = higher;
    *known = true;
    return STK_OK;
}

/* The last three places are probability, a flag and a word; those before are ratios. */
static stk_status take_comparison(csv_reader *r, const char *column, size_t part, double *const numbers[4],
                                  bool *paired, char **verdict)
{
    if (part < 4)
        return take_number(r, column, 0, part == 3 ? 1 : HUGE_VAL, true, numbers[part]);
    return part == 4 ? take_paired(r, column, paired) : take_verdict(r, column, verdict);
}

static stk_status take_cell(csv_reader *r, size_t part, stk__log_benchmark *b, bool *direction_known,
                            stk__log_cell *cell)
{
    enum { RATIO = 8 };
    double *const numbers[] = {&cell->ratio, &cell->low, &cell->high, &cell->p};
    char column[96];
    name_column(b->name, stk__log_of_benchmark[part], column, sizeof column);
    if (part < OLD_PER_BENCHMARK)
        return take_figure(r, part, column, true, cell);
    if (!cell->n)
        return r->field.length ? bad_field(r, column, "nothing, as there are no runs") : STK_OK;
    switch (part) {
    case 3:
        return take_common(r, column, &b->metric);
    case 4:
        return take_common(r, column, &b->unit);
    case 5:
        return take_direction(r, column, b, direction_known);
    case 6:
        return take_optional(r, &cell->limits);
    case 7:
        return take_optional(r, &cell->against);
    default:
        return take_comparison(r, column, part - RATIO, numbers, &cell->paired, &cell->verdict);
    }
}

static stk_status take_beside(csv_reader *r, size_t part, const char *name, stk__log_beside *x)
{
    double *const numbers[] = {&x->ratio, &x->low, &x->high, &x->p};
    char column[96];
    name_column(name, part ? stk__log_of_pair[part] : "_ratio", column, sizeof column);
    STK_TRY(take_comparison(r, column, part, numbers, &x->paired, &x->verdict));
    if (part + 1 == STK__LOG_PER_PAIR && !x->verdict && (isfinite(x->ratio) || isfinite(x->low)))
        return bad_field(r, column, "a verdict beside the ratio");
    return STK_OK;
}

/* ---- version 1 ---- */

/* The one comparison of such a row, and what all rows measure. */
typedef struct old_row {
    char *compared, *verdict;
    double ratio, low, high, p;
    bool paired;
} old_row;

static void old_row_clear(old_row *o)
{
    stk__free(o->compared);
    stk__free(o->verdict);
    *o = (old_row){.ratio = NAN, .low = NAN, .high = NAN, .p = NAN};
}

static stk_status take_old(csv_reader *r, size_t column, stk__log *log, old_row *o)
{
    double *const numbers[] = {&o->ratio, &o->low, &o->high, &o->p};
    enum { METRIC = OLD_TAIL - 2 };
    if (column == 0)
        return take_text(r, &o->compared);
    if (column < METRIC)
        return take_comparison(r, old_tail[column], column - 1, numbers, &o->paired, &o->verdict);
    stk__log_benchmark *first = &log->benchmarks[0];
    return take_common(r, old_tail[column], column == METRIC ? &first->metric : &first->unit);
}

/* "stored/lazy" is about two columns, all else was a revision. */
static bool names_pair(const stk__log *log, const char *compared)
{
    for (size_t b = 0; b < log->benchmark_count; b++) {
        const size_t n = strlen(log->benchmarks[b].name);
        if (strncmp(compared, log->benchmarks[b].name, n) == 0 && compared[n] == '/' &&
            stk__log_find(log, compared + n + 1) != SIZE_MAX)
            return true;
    }
    return false;
}

static stk_status place_pair(csv_reader *r, stk__log *log, stk__log_row *row, old_row *o)
{
    size_t i = stk__log_find_pair(log, o->compared);
    if (i == SIZE_MAX && log->pair_count >= OLD_PAIRS)
        return bad_field(r, old_tail[0], "no more than 64 different ones in a log");
    if (i == SIZE_MAX)
        STK_TRY(stk__log_add_pair(log, o->compared, &i, r->err));
    stk__log_beside *x = &row->beside[i];
    *x = (stk__log_beside){o->ratio, o->low, o->high, o->p, o->paired, o->verdict};
    o->verdict = NULL;
    if (!x->verdict && !(x->verdict = stk__strdup(stk__verdict_name(STK__INCONCLUSIVE))))
        return stk__nomem(1, r->err);
    return STK_OK;
}

/* Where it belongs today: beside two columns, or to the past of the first one. */
static stk_status place_old(csv_reader *r, stk__log *log, stk__log_row *row, old_row *o)
{
    const bool any = isfinite(o->ratio) || o->verdict;
    if (!any || !o->compared[0])
        return STK_OK;
    if (names_pair(log, o->compared))
        return place_pair(r, log, row, o);
    stk__log_cell *cell = &row->cells[0];
    cell->ratio = o->ratio;
    cell->low = o->low;
    cell->high = o->high;
    cell->p = o->p;
    cell->paired = o->paired;
    cell->verdict = o->verdict;
    cell->against = o->compared;
    o->verdict = o->compared = NULL;
    return STK_OK;
}

/* The first benchmark has what all of them measure. */
static stk_status spread_old(stk__log *log, stk_error *err)
{
    const stk__log_benchmark *first = &log->benchmarks[0];
    const char *unit = first->unit ? first->unit : "";
    const size_t n = strlen(unit);
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__log_benchmark *b = &log->benchmarks[i];
        b->higher_is_better = n > 2 && strcmp(unit + n - 2, "/s") == 0;
        if (!b->metric)
            b->metric = stk__strdup(first->metric ? first->metric : "");
        if (!b->unit)
            b->unit = stk__strdup(unit);
        if (!b->metric || !b->unit)
            return stk__nomem(1, err);
    }
    return STK_OK;
}

/* ---- rows ---- */

typedef struct csv_shape {
    stk__log *log;
    size_t columns;
    bool *directions; /* known of each benchmark */
    old_row old;
} csv_shape;

static stk_status take_column(csv_reader *r, size_t column, csv_shape *s, stk__log_row *row)
{
    stk__log *log = s->log;
    const bool old = log->version == 1;
    const size_t head = old ? OLD_HEAD : STK__LOG_HEAD, each = old ? OLD_PER_BENCHMARK : STK__LOG_PER_BENCHMARK;
    if (column < head)
        return take_head(r, column, row);
    column -= head;
    const size_t benchmark = column / each, part = column % each;
    if (benchmark < log->benchmark_count && old) {
        char name[96];
        name_column(log->benchmarks[benchmark].name, old_of_benchmark[part], name, sizeof name);
        return take_figure(r, part, name, false, &row->cells[benchmark]);
    }
    if (benchmark < log->benchmark_count)
        return take_cell(r, part, &log->benchmarks[benchmark], &s->directions[benchmark], &row->cells[benchmark]);
    column -= log->benchmark_count * each;
    if (old)
        return take_old(r, column, log, &s->old);
    const size_t pair = column / STK__LOG_PER_PAIR;
    return take_beside(r, column % STK__LOG_PER_PAIR, log->pairs[pair], &row->beside[pair]);
}

static stk_status read_row(csv_reader *r, csv_shape *s)
{
    const size_t line = r->line;
    stk__log_row *row;
    STK_TRY(stk__log_add_row(s->log, &row, r->err));
    row->line = line;
    old_row_clear(&s->old);
    for (size_t i = 0; i < s->columns; i++) {
        STK_TRY(read_field(r));
        if (r->last != (i + 1 == s->columns))
            return stk__log_damage(r->err, r->file, line, "%s than %zu fields, wanted as many as the header has",
                                   r->last ? "fewer" : "more", s->columns);
        STK_TRY(take_column(r, i, s, row));
    }
    if (s->log->version == 1)
        STK_TRY(place_old(r, s->log, row, &s->old));
    r->line++;
    return STK_OK;
}

/* ---- the header ---- */

typedef struct csv_names {
    char **items;
    size_t count, capacity;
} csv_names;

static void names_clear(csv_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        stk__free(names->items[i]);
    stk__free(names->items);
}

static stk_status read_names(csv_reader *r, csv_names *names)
{
    do {
        STK_TRY(read_field(r));
        if (!stk__grow((void **)&names->items, &names->capacity, names->count + 1, sizeof *names->items))
            return stk__nomem(names->count * sizeof *names->items, r->err);
        STK_TRY(take_text(r, &names->items[names->count]));
        names->count++;
    } while (!r->last);
    return STK_OK;
}

static stk_status check_fixed(csv_reader *r, char **names, const char *const *wanted, size_t count, size_t first)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], wanted[i]) == 0)
            continue;
        char shown[80];
        stk__escape_terminal(names[i], shown, sizeof shown);
        return stk__log_damage(r->err, r->file, 1, "written by something else: column %zu is '%s', wanted '%s'",
                               first + i + 1, shown, wanted[i]);
    }
    return STK_OK;
}

static bool has_suffix(const char *name, const char *base, const char *suffix)
{
    const size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && strcmp(name + n, suffix) == 0;
}

/* Do the next columns belong to what the first of them names? Else `out_wrong` is the first that does not. */
static bool is_block(const csv_names *names, size_t at, const char *const *suffixes, size_t count, size_t *out_wrong)
{
    for (size_t i = 1; i < count; i++) {
        *out_wrong = i;
        if (at + i >= names->count || !has_suffix(names->items[at + i], names->items[at], suffixes[i]))
            return false;
    }
    return true;
}

static stk_status bad_block(csv_reader *r, const csv_names *names, size_t at, const char *suffix)
{
    char shown[80];
    stk__escape_terminal(names->items[at], shown, sizeof shown);
    return stk__log_damage(r->err, r->file, 1, "of column %zu ('%s') wanted the same with %s behind it", at + 1, shown,
                           suffix);
}

static stk_status add_column(csv_reader *r, stk__log *log, const char *name, bool pair)
{
    size_t index;
    char shown[80];
    stk__escape_terminal(name, shown, sizeof shown);
    if ((pair ? stk__log_find_pair(log, name) : stk__log_find(log, name)) != SIZE_MAX)
        return stk__log_damage(r->err, r->file, 1, "the column '%s' is there twice", shown);
    if ((pair ? log->pair_count : log->benchmark_count) >= STK__LOG_COLUMNS)
        return stk__log_damage(r->err, r->file, 1, "more than %d columns", STK__LOG_COLUMNS);
    return pair ? stk__log_add_pair(log, name, &index, r->err) : stk__log_add_benchmark(log, name, &index, r->err);
}

/* Benchmarks, then pairs; `end` is behind the last of them. */
static stk_status read_blocks(csv_reader *r, const csv_names *names, size_t at, size_t end, stk__log *log)
{
    const bool old = log->version == 1;
    const char *const *suffixes = old ? old_of_benchmark : stk__log_of_benchmark;
    const size_t each = old ? OLD_PER_BENCHMARK : STK__LOG_PER_BENCHMARK;
    size_t wrong = 0, ignored;
    while (at < end && is_block(names, at, suffixes, each, &wrong)) {
        STK_TRY(add_column(r, log, names->items[at], false));
        at += each;
    }
    if (!log->benchmark_count && at < end)
        return bad_block(r, names, at, suffixes[wrong]);
    while (!old && at < end && is_block(names, at, stk__log_of_pair, STK__LOG_PER_PAIR, &ignored)) {
        STK_TRY(add_column(r, log, names->items[at], true));
        at += STK__LOG_PER_PAIR;
    }
    if (at != end)
        return bad_block(r, names, at, suffixes[wrong]);
    return log->benchmark_count ? STK_OK
                                : stk__log_damage(r->err, r->file, 1, "%zu columns and no benchmark", names->count);
}

static stk_status check_names(csv_reader *r, const csv_names *names, stk__log *log)
{
    const size_t n = names->count;
    STK_TRY(check_fixed(r, names->items, stk__log_head, STK_MIN(n, OLD_HEAD), 0));
    log->version = n && strcmp(names->items[n - 1], old_tail[OLD_TAIL - 1]) == 0 ? 1 : 2;
    const size_t head = log->version == 1 ? OLD_HEAD : STK__LOG_HEAD, tail = log->version == 1 ? OLD_TAIL : 0;
    if (n <= head + tail)
        return stk__log_damage(r->err, r->file, 1, "%zu columns, wanted %zu and those of each benchmark", n,
                               head + tail);
    STK_TRY(log->version == 1 ? check_fixed(r, names->items + n - tail, old_tail, OLD_TAIL, n - tail)
                              : check_fixed(r, names->items, stk__log_head, STK__LOG_HEAD, 0));
    return read_blocks(r, names, head, n - tail, log);
}

static stk_status read_header(csv_reader *r, csv_shape *s)
{
    csv_names names = {0};
    stk_status status = read_names(r, &names);
    if (status == STK_OK)
        status = check_names(r, &names, s->log);
    s->columns = names.count;
    names_clear(&names);
    r->line++;
    if (status != STK_OK)
        return status;
    s->directions = stk__calloc(s->log->benchmark_count, sizeof *s->directions);
    return s->directions ? STK_OK : stk__nomem(s->log->benchmark_count, r->err);
}

static stk_status check_bytes(const char *text, size_t size, const char *file, stk_error *err)
{
    size_t line = 1;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        line += c == '\n';
        if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t' && !(c == '\r' && (i + 1 == size || text[i + 1] == '\n'))))
            return stk__log_damage(err, file, line, "byte %zu is 0x%02x, wanted text", i, c);
    }
    return STK_OK;
}

/* A benchmark without figures measures nothing yet. */
static stk_status fill_unknown(stk__log *log, stk_error *err)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__log_benchmark *b = &log->benchmarks[i];
        if (!b->metric)
            b->metric = stk__strdup("");
        if (!b->unit)
            b->unit = stk__strdup("");
        if (!b->metric || !b->unit)
            return stk__nomem(1, err);
    }
    return STK_OK;
}

stk_status stk__log_csv_parse(const char *text, size_t size, const stk__log_paths *paths, stk__log *out, stk_error *err)
{
    if (!size)
        return STK_OK;
    csv_reader r = {.text = text, .file = paths->csv, .size = size, .line = 1, .err = err};
    stk__log log = {0};
    csv_shape s = {.log = &log};
    stk_status status = check_bytes(text, size, r.file, err);
    if (status == STK_OK)
        status = read_header(&r, &s);
    while (status == STK_OK && r.at < r.size)
        status = read_row(&r, &s);
    if (status == STK_OK)
        status = log.version == 1 ? spread_old(&log, err) : fill_unknown(&log, err);
    old_row_clear(&s.old);
    stk__free(s.directions);
    stk__text_clear(&r.field);
    if (status == STK_OK)
        *out = log;
    else
        stk__log_clear(&log);
    return status;
}
