/*
 * CSV of other programs as a log. Two passes over the text: the first finds out what each column holds, the second takes
 * the rows. Line ends may stand inside quotes; lines that are empty or begin with # are passed over.
 */
#include "bench/log_foreign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/log_impl.h"

#include "base/banned.h"

enum { COLUMNS_MOST = 4096, FIELD_MOST = 1 << 16 };

/* ---- fields ---- */

typedef struct table_reader {
    const char *text, *file;
    size_t size, at, line;
    char separator;
    stk__text field;
    bool last; /* of its line */
    stk_error *err;
} table_reader;

static bool at_line_end(const table_reader *r)
{
    return r->at >= r->size || r->text[r->at] == '\n' ||
           (r->text[r->at] == '\r' && (r->at + 1 >= r->size || r->text[r->at + 1] == '\n'));
}

static stk_status read_quoted(table_reader *r)
{
    const size_t opened = r->line;
    for (r->at++; r->at < r->size; r->at++) {
        const char c = r->text[r->at];
        if (c == '"' && r->at + 1 < r->size && r->text[r->at + 1] == '"')
            r->at++;
        else if (c == '"')
            break;
        r->line += c == '\n';
        stk__text_putc(&r->field, c);
    }
    if (r->at >= r->size)
        return stk__log_damage(r->err, r->file, opened, "a quote is opened and never closed");
    r->at++;
    if (!at_line_end(r) && r->text[r->at] != r->separator)
        return stk__log_damage(r->err, r->file, r->line, "text after a closing quote, wanted '%c' or the line's end",
                               r->separator);
    return STK_OK;
}

static stk_status read_field(table_reader *r)
{
    stk__text_reset(&r->field);
    if (r->at < r->size && r->text[r->at] == '"') {
        STK_TRY(read_quoted(r));
    } else {
        const size_t start = r->at;
        while (!at_line_end(r) && r->text[r->at] != r->separator)
            r->at++;
        size_t from = start, to = r->at;
        while (from < to && r->text[from] == ' ')
            from++;
        while (to > from && r->text[to - 1] == ' ')
            to--;
        stk__text_write(&r->field, r->text + from, to - from);
    }
    stk__text_write(&r->field, "", 0);
    if (r->field.failed)
        return stk__nomem(r->field.length, r->err);
    if (r->field.length > FIELD_MOST)
        return stk__log_damage(r->err, r->file, r->line, "a field of %zu bytes, wanted at most %d", r->field.length,
                               FIELD_MOST);
    r->last = at_line_end(r);
    if (!r->last)
        r->at++;
    return STK_OK;
}

static void end_line(table_reader *r)
{
    while (r->at < r->size && r->text[r->at] != '\n')
        r->at++;
    r->at += r->at < r->size;
    r->line++;
}

/* To the next line with something in it; false: there is none. */
static bool next_line(table_reader *r)
{
    for (; r->at < r->size; end_line(r)) {
        if (!at_line_end(r) && r->text[r->at] != '#')
            return true;
    }
    return false;
}

static void rewind_to(table_reader *r, size_t at, size_t line)
{
    r->at = at;
    r->line = line;
}

/* ---- what fields say ---- */

static bool parse_number(const char *text, double *out)
{
    enum { NUMBER_MOST = 40 };
    const size_t length = strlen(text);
    if (!length || length > NUMBER_MOST || strspn(text, "0123456789+-.eE") != length)
        return false;
    char *end;
    *out = stk__strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

/* What tools write where they have no figure. */
static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "-", "nan", "null", "none", "na", "n/a", "inf", "-inf"};
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

/* Up to `most` digits; false: none. */
static bool take_digits(const char **at, size_t most, int64_t *out)
{
    size_t n = 0;
    for (*out = 0; n < most && (*at)[n] >= '0' && (*at)[n] <= '9'; n++)
        *out = *out * 10 + ((*at)[n] - '0');
    *at += n;
    return n > 0;
}

/* " +01:00", "+0100", "Z", "UTC" or nothing, at the end. */
static bool take_zone(const char *at, int64_t *out_seconds)
{
    int64_t hours = 0, minutes = 0;
    *out_seconds = 0;
    while (*at == ' ')
        at++;
    if (!*at || !strcmp(at, "Z") || !strcmp(at, "UTC") || !strcmp(at, "GMT"))
        return true;
    if (*at != '+' && *at != '-')
        return false;
    const int sign = *at++ == '-' ? -1 : 1;
    if (!take_digits(&at, 2, &hours))
        return false;
    at += *at == ':';
    if (*at && !take_digits(&at, 2, &minutes))
        return false;
    *out_seconds = sign * (hours * 3600 + minutes * 60);
    return !*at && hours < 24 && minutes < 60;
}

/* The year first, with any of - . / between; then perhaps T or a blank and a time of day, and a zone. */
static bool parse_calendar(const char *at, int64_t *out)
{
    int64_t part[6] = {0}, zone = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!take_digits(&at, i ? 2 : 4, &part[i]))
            return false;
        if (i < 2 && (!*at || !strchr("-./", *at++)))
            return false;
    }
    if (*at == 'T' || *at == ' ') {
        at++;
        for (size_t i = 3; i < 6 && (i == 3 || *at == ':'); i++) {
            at += i > 3;
            if (!take_digits(&at, 2, &part[i]))
                return false;
        }
        if (*at == '.' || *at == ',')
            at += 1 + strspn(at + 1, "0123456789");
    }
    char text[32];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    stk__text_printf(&t, "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)part[0], (int)part[1], (int)part[2], (int)part[3],
                     (int)part[4], (int)part[5]);
    if (!take_zone(at, &zone) || !stk__log_time_parse(text, out))
        return false;
    *out -= zone;
    return true;
}

bool stk__log_when(const char *text, int64_t *out)
{
    double number;
    if (!parse_number(text, &number) || strlen(text) < 8)
        return parse_calendar(text, out);
    /* Seconds since 1970 until the year 5138, milliseconds past that, then micro- and nanoseconds. */
    while (number >= 1e11)
        number /= 1000;
    *out = (int64_t)number;
    return number >= 0;
}

/* ---- what columns are ---- */

typedef enum column_kind { IGNORED, TIME, COMMIT, MACHINE, DESCRIPTION, FIGURE, SPREAD, RUNS } column_kind;

typedef struct column {
    char *name;
    column_kind kind;
    bool text;        /* a field of it is neither a number nor missing */
    bool numbers;     /* a field of it is a number */
    size_t of;        /* SPREAD, RUNS: the column they belong to */
    size_t benchmark; /* FIGURE */
} column;

typedef struct columns {
    column *items;
    size_t count, capacity;
    size_t rows;
} columns;

static void columns_clear(columns *c)
{
    for (size_t i = 0; i < c->count; i++)
        stk__free(c->items[i].name);
    stk__free(c->items);
}

static column_kind kind_of_name(const char *name)
{
    static const struct {
        const char *name;
        column_kind kind;
    } known[] = {{"time", TIME},           {"timestamp", TIME},     {"date", TIME},      {"datetime", TIME},
                 {"commit", COMMIT},       {"commit_hash", COMMIT}, {"hash", COMMIT},    {"sha", COMMIT},
                 {"revision", COMMIT},     {"rev", COMMIT},         {"version", COMMIT}, {"machine", MACHINE},
                 {"host", MACHINE},        {"hostname", MACHINE},   {"runner", MACHINE}, {"description", DESCRIPTION},
                 {"message", DESCRIPTION}, {"subject", DESCRIPTION}};
    for (size_t i = 0; i < STK_COUNT(known); i++) {
        if (strcasecmp(name, known[i].name) == 0)
            return known[i].kind;
    }
    return FIGURE;
}

static stk_status read_header(table_reader *r, columns *c)
{
    bool taken[FIGURE] = {0};
    size_t numbers = 0;
    do {
        STK_TRY(read_field(r));
        if (c->count == COLUMNS_MOST)
            return stk__log_damage(r->err, r->file, r->line, "more than %d columns", COLUMNS_MOST);
        if (!stk__grow((void **)&c->items, &c->capacity, c->count + 1, sizeof *c->items))
            return stk__nomem(c->count * sizeof *c->items, r->err);
        column *x = &c->items[c->count];
        *x = (column){.name = stk__log_clean(r->field.data), .kind = kind_of_name(r->field.data)};
        if (!x->name)
            return stk__nomem(r->field.length, r->err);
        c->count++;
        /* The first of two that could be the time is. */
        if (x->kind != FIGURE && taken[x->kind])
            x->kind = IGNORED;
        else if (x->kind != FIGURE)
            taken[x->kind] = true;
        numbers += parse_number(r->field.data, &(double){0});
    } while (!r->last);
    if (numbers == c->count)
        return stk__log_damage(r->err, r->file, r->line, "the first line has numbers alone, wanted names of columns");
    end_line(r);
    return STK_OK;
}

static size_t find_column(const columns *c, const char *name, size_t length)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strlen(c->items[i].name) == length && strncmp(c->items[i].name, name, length) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* "lazy_sd" is the spread of "lazy", where there is one. */
static void attach(columns *c, size_t index, const char *suffix, column_kind kind)
{
    column *x = &c->items[index];
    const size_t n = strlen(x->name), k = strlen(suffix);
    if (x->kind != FIGURE || n <= k || strcmp(x->name + n - k, suffix) != 0)
        return;
    const size_t of = find_column(c, x->name, n - k);
    if (of != SIZE_MAX && c->items[of].kind == FIGURE && c->items[of].numbers && !c->items[of].text) {
        x->kind = kind;
        x->of = of;
    }
}

/* The first pass: which columns hold numbers alone. */
static stk_status survey(table_reader *r, columns *c)
{
    while (next_line(r)) {
        const size_t line = r->line;
        for (size_t i = 0; i < c->count; i++) {
            STK_TRY(read_field(r));
            if (r->last != (i + 1 == c->count))
                return stk__log_damage(r->err, r->file, line, "%s than %zu fields, wanted as many as the header has",
                                       r->last ? "fewer" : "more", c->count);
            double number;
            const bool is_number = parse_number(r->field.data, &number);
            c->items[i].numbers = c->items[i].numbers || is_number;
            c->items[i].text = c->items[i].text || !(is_number || is_missing(r->field.data));
        }
        end_line(r);
        c->rows++;
    }
    return STK_OK;
}

/* ---- the log ---- */

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcasecmp(name + n - k, end) == 0;
}

/* A unit that the name tells, so that figures read as such: "open_s", "parse (ms)", "rows/s". */
static const char *unit_of(const char *name)
{
    static const struct {
        const char *end, *unit;
    } known[] = {{"_per_s", "/s"}, {"/s", "/s"},  {"_ns", "ns"},       {" (ns)", "ns"},      {"_us", "us"},
                 {" (us)", "us"},  {"_ms", "ms"}, {" (ms)", "ms"},     {"_s", "s"},          {" (s)", "s"},
                 {"seconds", "s"}, {"_sec", "s"}, {"_bytes", "bytes"}, {" (bytes)", "bytes"}};
    for (size_t i = 0; i < STK_COUNT(known); i++) {
        if (ends_in(name, known[i].end))
            return known[i].unit;
    }
    return "";
}

static stk_status add_benchmark(stk__log *log, column *x, bool higher, stk_error *err)
{
    STK_TRY(stk__log_add_benchmark(log, x->name[0] ? x->name : "(no name)", &x->benchmark, err));
    stk__log_benchmark *b = &log->benchmarks[x->benchmark];
    const char *unit = unit_of(x->name);
    b->unit = stk__strdup(unit);
    b->metric = stk__strdup("");
    b->higher_is_better = higher || strcmp(unit, "/s") == 0;
    return b->unit && b->metric ? STK_OK : stk__nomem(1, err);
}

/* Says what is left out; a file without any figures is not a log. */
static stk_status choose_columns(table_reader *r, columns *c, bool higher, stk__log *log, stk__text *notes)
{
    size_t left_out = 0;
    for (size_t i = 0; i < c->count; i++) {
        attach(c, i, "_sd", SPREAD);
        attach(c, i, "_n", RUNS);
    }
    for (size_t i = 0; i < c->count; i++) {
        column *x = &c->items[i];
        if (x->kind == FIGURE && (x->text || !x->numbers))
            x->kind = IGNORED;
        if (x->kind == FIGURE)
            STK_TRY(add_benchmark(log, x, higher, r->err));
        else if (x->kind == IGNORED)
            left_out++;
    }
    if (!log->benchmark_count)
        return stk__log_damage(r->err, r->file, 1, "no column has numbers alone, wanted a benchmark in each");
    if (c->rows > STK__FOREIGN_CELLS / log->benchmark_count)
        return stk_error_set(r->err, STK_LIMIT, "%zu rows of %zu benchmarks, wanted at most %d figures", c->rows,
                             log->benchmark_count, STK__FOREIGN_CELLS);
    if (left_out && notes)
        stk__text_printf(notes, "%zu column%s left out: not numbers alone\n", left_out,
                         left_out == 1 ? " is" : "s are");
    return STK_OK;
}

static stk_status take_runs(table_reader *r, const char *name, stk__log_cell *cell)
{
    double number;
    char shown[80];
    if (is_missing(r->field.data))
        return STK_OK;
    if (!parse_number(r->field.data, &number) || number < 1 || number > 1e15) {
        stk__escape_terminal(r->field.data, shown, sizeof shown);
        return stk__log_damage(r->err, r->file, r->line, "%s is '%s', wanted how many runs", name, shown);
    }
    cell->n = (size_t)number;
    return STK_OK;
}

static stk_status take_text(table_reader *r, char **out)
{
    char *clean = stk__log_clean(r->field.data);
    if (!clean)
        return stk__nomem(r->field.length, r->err);
    stk__free(*out);
    *out = clean;
    return STK_OK;
}

static stk_status take_time(table_reader *r, stk__log_row *row)
{
    char shown[80];
    if (stk__log_when(r->field.data, &row->time_s))
        return STK_OK;
    stk__escape_terminal(r->field.data, shown, sizeof shown);
    return stk__log_damage(r->err, r->file, r->line,
                           "the time is '%s', wanted one like 2026-08-18T10:00:00Z, 2026-08-18 or seconds since 1970",
                           shown);
}

static stk_status take_field(table_reader *r, const columns *c, size_t i, stk__log_row *row)
{
    const column *x = &c->items[i];
    double number = NAN;
    switch (x->kind) {
    case TIME:
        return take_time(r, row);
    case COMMIT:
        return take_text(r, &row->commit);
    case MACHINE:
        return take_text(r, &row->machine);
    case DESCRIPTION:
        return take_text(r, &row->description);
    case FIGURE:
        if (parse_number(r->field.data, &number))
            row->cells[x->benchmark].mean = number;
        return STK_OK;
    case SPREAD:
        if (parse_number(r->field.data, &number) && number >= 0)
            row->cells[c->items[x->of].benchmark].sd = number;
        return STK_OK;
    case RUNS:
        return take_runs(r, x->name, &row->cells[c->items[x->of].benchmark]);
    case IGNORED:
        break;
    }
    return STK_OK;
}

/* A figure without a count is of one run; without a figure there is nothing. */
static void settle(stk__log_cell *cell)
{
    if (isnan(cell->mean)) {
        cell->n = 0;
        cell->sd = NAN;
    } else if (!cell->n) {
        cell->n = 1;
    }
}

static stk_status take_rows(table_reader *r, const columns *c, stk__log *log)
{
    while (next_line(r)) {
        stk__log_row *row;
        STK_TRY(stk__log_add_row(log, &row, r->err));
        row->line = r->line;
        for (size_t i = 0; i < c->count; i++) {
            STK_TRY(read_field(r));
            STK_TRY(take_field(r, c, i, row));
        }
        end_line(r);
        for (size_t i = 0; i < log->benchmark_count; i++)
            settle(&row->cells[i]);
        char **const texts[] = {&row->commit, &row->parent, &row->machine, &row->limits, &row->description};
        for (size_t i = 0; i < STK_COUNT(texts); i++) {
            if (!*texts[i] && !(*texts[i] = stk__strdup("")))
                return stk__nomem(1, r->err);
        }
    }
    return STK_OK;
}

static int compare_times(const void *a, const void *b)
{
    const stk__log_row *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s > y->time_s ? 1 : -1;
    return (x->line > y->line) - (x->line < y->line);
}

static char separator_of(const char *text, size_t size)
{
    static const char candidates[] = {',', ';', '\t'};
    size_t best = 0, counts[STK_COUNT(candidates)] = {0};
    for (size_t i = 0; i < size && text[i] != '\n'; i++) {
        for (size_t k = 0; k < STK_COUNT(candidates); k++)
            counts[k] += text[i] == candidates[k];
    }
    for (size_t k = 1; k < STK_COUNT(candidates); k++)
        best = counts[k] > counts[best] ? k : best;
    return candidates[best];
}

static stk_status parse(table_reader *r, columns *c, bool higher, stk__log *log, stk__text *notes)
{
    if (r->size >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0)
        r->at = 3;
    if (memchr(r->text, 0, r->size))
        return stk__log_damage(r->err, r->file, 0, "a NUL byte, wanted text");
    if (!next_line(r))
        return stk__log_damage(r->err, r->file, 0, "no lines, wanted a header and rows");
    r->separator = separator_of(r->text + r->at, r->size - r->at);
    STK_TRY(read_header(r, c));
    const size_t at = r->at, line = r->line;
    STK_TRY(survey(r, c));
    if (!c->rows)
        return stk__log_damage(r->err, r->file, line, "no rows after the header");
    STK_TRY(choose_columns(r, c, higher, log, notes));
    rewind_to(r, at, line);
    STK_TRY(take_rows(r, c, log));
    qsort(log->rows, log->row_count, sizeof *log->rows, compare_times);
    return STK_OK;
}

stk_status stk__log_foreign_parse(const char *text, size_t size, const char *file, bool higher_is_better, stk__log *out,
                                  stk__text *out_notes, stk_error *err)
{
    table_reader r = {.text = text, .file = file, .size = size, .line = 1, .err = err};
    columns c = {0};
    stk__log log = {0};
    const stk_status status = parse(&r, &c, higher_is_better, &log, out_notes);
    columns_clear(&c);
    stk__text_clear(&r.field);
    if (status == STK_OK)
        *out = log;
    else
        stk__log_clear(&log);
    return status;
}

static bool is_ours(const char *text, size_t size)
{
    static const char head[] = "time,commit,parent,dirty,machine,limits,description";
    return size > sizeof head - 1 && memcmp(text, head, sizeof head - 1) == 0;
}

stk_status stk__log_read_csv(const char *path, bool higher_is_better, stk__log *out, stk__text *out_notes,
                             stk_error *err)
{
    char *text = NULL;
    size_t size = 0;
    STK_TRY(stk__read_file(path, STK__LOG_MAX_BYTES, &text, &size, err));
    char *name = stk__strdup(path);
    const stk__log_paths paths = {.markdown = name, .csv = name};
    const stk_status status = !name ? stk__nomem(strlen(path), err)
                              : is_ours(text, size)
                                  ? stk__log_csv_parse(text, size, &paths, out, err)
                                  : stk__log_foreign_parse(text, size, path, higher_is_better, out, out_notes, err);
    stk__free(name);
    stk__free(text);
    return status;
}
