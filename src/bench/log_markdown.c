/* The Markdown page of the change log: its mark, its table, and what people wrote around it. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "bench/section.h"

#include "base/banned.h"

#define MARK_START "<!-- stoker bench log "

static const char *const first_columns[] = {"date", "commit"};
static const char *const last_columns[] = {"past", "machine", "description"};
/* Of version 1. */
static const char *const old_columns[] = {"ratio", "95 % CI", "verdict", "to parent", "machine", "description"};

enum { FIRST = STK_COUNT(first_columns), LAST = STK_COUNT(last_columns), OLD_LAST = STK_COUNT(old_columns) };

/* ---- writing ---- */

static void put_page(stk__text *out)
{
    stk__text_puts(out,
                   "# Performance log\n"
                   "\n"
                   "Each row is one run of `stoker bench`: (mean, standard deviation) of every benchmark over its n "
                   "runs, and the ratio to its own past with interval and verdict; `past` tells which commit that is, "
                   "and whether both ran in the same rounds (paired) or the figures are those of two rows (unpaired: "
                   "no verdict). n=1 is a single run: no spread, no interval. Rows are only added, and the CSV file "
                   "of the same name has them for programs.\n"
                   "\n" STK__LOG_MARK "\n");
}

static void put_title(stk__text *out, const char *title)
{
    stk__text_putc(out, ' ');
    stk__markdown_cell(out, title);
    stk__text_puts(out, " |");
}

static void put_header(const stk__log *log, const char *line_end, stk__text *out)
{
    stk__text_putc(out, '|');
    for (size_t i = 0; i < FIRST; i++)
        put_title(out, first_columns[i]);
    for (size_t i = 0; i < log->benchmark_count; i++)
        put_title(out, log->benchmarks[i].name);
    for (size_t i = 0; i < log->pair_count; i++)
        put_title(out, log->pairs[i]);
    for (size_t i = 0; i < LAST; i++)
        put_title(out, last_columns[i]);
    stk__text_printf(out, "%s|", line_end);
    for (size_t i = 0; i < FIRST + log->benchmark_count + log->pair_count + LAST; i++)
        stk__text_puts(out, "---|");
    stk__text_puts(out, line_end);
}

static void put_cell(stk__text *out, stk__text *text)
{
    stk__text_putc(out, ' ');
    if (text->failed)
        out->failed = true;
    else
        stk__markdown_cell(out, text->length ? text->data : "-");
    stk__text_puts(out, " |");
    stk__text_reset(text);
}

/* "0.963 (0.941..0.985) faster"; what is not known is left out. */
static void put_ratio(double ratio, double low, double high, double confidence, const char *verdict, stk__text *out)
{
    if (isfinite(ratio))
        stk__ratio(out, ratio);
    if (isfinite(ratio) && isfinite(low) && isfinite(high)) {
        stk__text_puts(out, " (");
        stk__log_interval(low, high, confidence, out);
        stk__text_putc(out, ')');
    }
    if (verdict)
        stk__text_printf(out, "%s%s", isfinite(ratio) ? " " : "", verdict);
}

static void put_benchmark(const stk__log *log, const stk__log_row *row, size_t benchmark, stk__text *text)
{
    const stk__log_cell *cell = &row->cells[benchmark];
    const char *unit = log->benchmarks[benchmark].unit;
    if (!cell->n)
        return;
    if (isfinite(cell->sd))
        stk__quantity_pair(text, cell->mean, cell->sd, unit);
    else
        stk__quantity(text, cell->mean, unit);
    stk__text_printf(text, ", n=%zu", cell->n);
    if (cell->limits)
        stk__text_printf(text, ", %s", cell->limits);
    if (isfinite(cell->ratio) || cell->verdict) {
        stk__text_puts(text, "; ratio ");
        put_ratio(cell->ratio, cell->low, cell->high, row->confidence,
                  cell->verdict ? stk__count_word(unit, cell->verdict) : NULL, text);
    }
}

static bool same_past(const stk__log_cell *a, const stk__log_cell *b)
{
    return b->against && a->paired == b->paired && strcmp(a->against, b->against) == 0;
}

/* "1a2b3c4, paired": once, whatever the number of benchmarks. */
static void put_past(const stk__log *log, const stk__log_row *row, stk__text *text)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        const stk__log_cell *cell = &row->cells[i];
        bool told = !cell->against;
        for (size_t k = 0; k < i && !told; k++)
            told = same_past(cell, &row->cells[k]);
        if (!told)
            stk__text_printf(text, "%s%s, %s", text->length ? "; " : "", cell->against,
                             cell->paired ? "paired" : "unpaired");
    }
}

/* Of the first name in "stored/lazy"; both are of one metric. */
static const char *pair_unit(const stk__log *log, const char *pair)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        const size_t n = strlen(log->benchmarks[i].name);
        if (strncmp(pair, log->benchmarks[i].name, n) == 0 && pair[n] == '/')
            return log->benchmarks[i].unit;
    }
    return "";
}

static void put_row(const stk__log *log, const stk__log_row *row, size_t brief, const char *line_end, stk__text *out)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(out, "| ");
    stk__log_time(row->time_s, true, out);
    stk__text_printf(out, " | %.*s%s |", (int)STK_MIN(brief, 64), row->commit[0] ? row->commit : "-",
                     row->dirty ? "+" : "");
    for (size_t i = 0; i < log->benchmark_count; i++) {
        put_benchmark(log, row, i, &text);
        put_cell(out, &text);
    }
    for (size_t i = 0; i < log->pair_count; i++) {
        const stk__log_beside *x = &row->beside[i];
        if (x->verdict)
            put_ratio(x->ratio, x->low, x->high, row->confidence,
                      stk__count_word(pair_unit(log, log->pairs[i]), x->verdict), &text);
        put_cell(out, &text);
    }
    put_past(log, row, &text);
    put_cell(out, &text);
    stk__text_puts(&text, row->machine);
    if (row->limits[0])
        stk__text_printf(&text, "%s%s", row->machine[0] ? "; " : "", row->limits);
    put_cell(out, &text);
    stk__text_puts(&text, row->description);
    put_cell(out, &text);
    stk__text_puts(out, line_end);
    stk__text_clear(&text);
}

/* ---- reading ---- */

typedef struct span {
    const char *text;
    size_t length;
} span;

typedef struct page_reader {
    const char *page;
    size_t size, next; /* start of the next line */
    size_t line;       /* number of the one at hand, from 1 */
    span text;         /* of it, without blanks around and without its end */
    bool crlf, open;   /* how it ends */
    const stk__log *log;
    stk__log_table table;
    const stk__log_paths *paths;
    stk_error *err;
} page_reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static span trimmed(const char *text, size_t length)
{
    while (length && is_blank(text[0]))
        text++, length--;
    while (length && is_blank(text[length - 1]))
        length--;
    return (span){text, length};
}

static bool span_is(span s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.text, text, s.length) == 0;
}

static bool span_starts(span s, const char *text)
{
    return s.length >= strlen(text) && memcmp(s.text, text, strlen(text)) == 0;
}

static bool next_line(page_reader *r)
{
    if (r->next >= r->size)
        return false;
    const char *start = r->page + r->next;
    const char *end = memchr(start, '\n', r->size - r->next);
    const size_t length = end ? (size_t)(end - start) : r->size - r->next;
    r->open = !end;
    r->crlf = end && length && start[length - 1] == '\r';
    r->text = trimmed(start, length);
    r->next += length + (end != NULL);
    r->line++;
    return true;
}

static void show(span s, char *out, size_t size)
{
    char piece[64] = "";
    memcpy(piece, s.text, STK_MIN(s.length, sizeof piece - 1));
    stk__escape_terminal(piece, out, size);
}

/* A backslash takes the meaning from the sign behind it, in Markdown only from punctuation. */
static bool is_escape(const char *text, size_t left)
{
    return left > 1 && text[0] == '\\' && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", text[1]) && text[1];
}

/* Takes the next cell from what stands behind a bar; false when no bar ends it. */
static bool next_cell(span *rest, span *out)
{
    size_t n = 0;
    while (n < rest->length && rest->text[n] != '|')
        n += is_escape(rest->text + n, rest->length - n) ? 2 : 1;
    if (n >= rest->length)
        return false;
    *out = trimmed(rest->text, n);
    *rest = (span){rest->text + n + 1, rest->length - n - 1};
    return true;
}

static stk_status check_shape(page_reader *r, size_t wanted)
{
    if (!r->text.length || r->text.text[0] != '|')
        return stk__log_damage(r->err, r->paths->markdown, r->line,
                               "the line does not begin with '|', wanted a row, or an empty line below the table");
    span rest = {r->text.text + 1, r->text.length - 1}, cell;
    size_t found = 0;
    while (next_cell(&rest, &cell))
        found++;
    if (rest.length)
        return stk__log_damage(r->err, r->paths->markdown, r->line, "the line of the table does not end with '|'");
    if (found != wanted)
        return stk__log_damage(r->err, r->paths->markdown, r->line, "%zu cells, wanted %zu", found, wanted);
    return STK_OK;
}

static size_t columns_of(const page_reader *r)
{
    const stk__log_table *t = &r->table;
    return FIRST + t->benchmarks + (t->old ? OLD_LAST : t->pairs + LAST);
}

static bool is_title(span cell, const char *title, stk__text *scratch)
{
    stk__text_reset(scratch);
    stk__markdown_cell(scratch, title);
    stk__text_write(scratch, "", 0);
    if (scratch->failed)
        return false;
    const span wanted = trimmed(scratch->data, scratch->length);
    return wanted.length == cell.length && memcmp(wanted.text, cell.text, cell.length) == 0;
}

static stk_status bad_title(page_reader *r, size_t column, span cell, const char *wanted)
{
    char found_text[160], wanted_text[160];
    show(cell, found_text, sizeof found_text);
    stk__escape_terminal(wanted, wanted_text, sizeof wanted_text);
    return stk__log_damage(r->err, r->paths->markdown, r->line, "column %zu is '%s', wanted '%s'", column + 1,
                           found_text, wanted_text);
}

/* The columns at the ends; `count` cells stand before them. */
static stk_status check_titles(page_reader *r, span *rest, size_t count, const char *const *wanted, size_t wanted_count,
                               stk__text *scratch)
{
    span cell = {"", 0};
    for (size_t i = 0; i < wanted_count; i++) {
        if (!next_cell(rest, &cell))
            return stk__log_damage(r->err, r->paths->markdown, r->line, "%zu cells, wanted a column '%s'", count + i,
                                   wanted[i]);
        if (!is_title(cell, wanted[i], scratch))
            return scratch->failed ? stk__nomem(scratch->length, r->err) : bad_title(r, count + i, cell, wanted[i]);
    }
    return STK_OK;
}

/* Columns as far as they are those of the CSV file, in its order: it may have got more since. */
static void match_titles(page_reader *r, span *rest, stk__text *scratch)
{
    const stk__log *log = r->log;
    stk__log_table *t = &r->table;
    span ahead = *rest, cell;
    while (t->benchmarks < log->benchmark_count && next_cell(&ahead, &cell) &&
           is_title(cell, log->benchmarks[t->benchmarks].name, scratch)) {
        t->benchmarks++;
        *rest = ahead;
    }
    ahead = *rest;
    while (!t->old && t->pairs < log->pair_count && next_cell(&ahead, &cell) &&
           is_title(cell, log->pairs[t->pairs], scratch)) {
        t->pairs++;
        *rest = ahead;
    }
}

/* A column that neither the CSV file nor the table of all logs has is told as what should stand in its place. */
static stk_status check_middle(page_reader *r, span rest)
{
    const stk__log *log = r->log;
    const stk__log_table *t = &r->table;
    span cell;
    if (!next_cell(&rest, &cell) || span_is(cell, t->old ? old_columns[0] : last_columns[0]))
        return t->benchmarks ? STK_OK
                             : stk__log_damage(r->err, r->paths->markdown, r->line, "no column of a benchmark");
    const char *wanted = t->old ? old_columns[0] : last_columns[0];
    if (t->benchmarks < log->benchmark_count)
        wanted = log->benchmarks[t->benchmarks].name;
    else if (!t->old && t->pairs < log->pair_count)
        wanted = log->pairs[t->pairs];
    return bad_title(r, FIRST + t->benchmarks + t->pairs, cell, wanted);
}

static stk_status check_header(page_reader *r)
{
    stk__text scratch = STK__TEXT_INIT;
    stk__log_table *t = &r->table;
    if (!r->text.length || r->text.text[0] != '|')
        return check_shape(r, 0);
    span rest = {r->text.text + 1, r->text.length - 1};
    stk_status status = check_titles(r, &rest, 0, first_columns, FIRST, &scratch);
    if (status == STK_OK) {
        match_titles(r, &rest, &scratch);
        status = scratch.failed ? stk__nomem(scratch.length, r->err) : check_middle(r, rest);
    }
    if (status == STK_OK)
        status = check_titles(r, &rest, FIRST + t->benchmarks + t->pairs, t->old ? old_columns : last_columns,
                              t->old ? OLD_LAST : LAST, &scratch);
    stk__text_clear(&scratch);
    return status == STK_OK ? check_shape(r, columns_of(r)) : status;
}

/* |---|:--:|: what makes the line above a header. */
static stk_status check_rule(page_reader *r)
{
    if (!next_line(r))
        return stk__log_damage(r->err, r->paths->markdown, r->line, "the page ends below the header of the table");
    STK_TRY(check_shape(r, columns_of(r)));
    for (size_t i = 0; i < r->text.length; i++)
        if (!r->text.text[i] || !strchr("|-: \t", r->text.text[i]))
            return stk__log_damage(r->err, r->paths->markdown, r->line, "wanted a line of |---| below the header");
    return STK_OK;
}

static bool commit_fits(span cell, const stk__log_row *row)
{
    const bool dirty = cell.length && cell.text[cell.length - 1] == '+';
    cell.length -= dirty;
    if (dirty != row->dirty)
        return false;
    if (!row->commit[0])
        return span_is(cell, "-");
    return cell.length && cell.length <= strlen(row->commit) && memcmp(cell.text, row->commit, cell.length) == 0;
}

static stk_status check_row(page_reader *r, size_t index)
{
    const stk__log *log = r->log;
    STK_TRY(check_shape(r, columns_of(r)));
    if (index >= log->row_count)
        return stk__log_damage(r->err, r->paths->markdown, r->line, "row %zu of the table is not in %s, which has %zu",
                               index + 1, r->paths->csv, log->row_count);
    const stk__log_row *row = &log->rows[index];
    span rest = {r->text.text + 1, r->text.length - 1}, date = {"", 0}, commit = {"", 0};
    next_cell(&rest, &date);
    next_cell(&rest, &commit);
    char wanted[32], found[160];
    stk__text t;
    stk__text_fixed(&t, wanted, sizeof wanted);
    stk__log_time(row->time_s, true, &t);
    show(date, found, sizeof found);
    if (!span_is(date, wanted))
        return stk__log_damage(r->err, r->paths->markdown, r->line, "the date is '%s', line %zu of %s has '%s'", found,
                               row->line, r->paths->csv, wanted);
    show(commit, found, sizeof found);
    if (!commit_fits(commit, row))
        return stk__log_damage(r->err, r->paths->markdown, r->line, "the commit is '%s', line %zu of %s has '%.12s%s'",
                               found, row->line, r->paths->csv, row->commit[0] ? row->commit : "-",
                               row->dirty ? "+" : "");
    return STK_OK;
}

static bool is_mark(span text)
{
    return span_is(text, STK__LOG_MARK) || span_is(text, STK__LOG_MARK_OLD);
}

/* Goes behind the line with the mark. */
static stk_status find_mark(page_reader *r)
{
    page_reader found = {0};
    while (next_line(r)) {
        if (!span_starts(r->text, MARK_START))
            continue;
        char shown[160];
        show(r->text, shown, sizeof shown);
        if (!is_mark(r->text))
            return stk__log_damage(r->err, r->paths->markdown, r->line, "the mark is '%s', wanted '%s'", shown,
                                   STK__LOG_MARK);
        if (found.page)
            return stk__log_damage(r->err, r->paths->markdown, r->line, "a second mark '%s'; the first is in line %zu",
                                   shown, found.line);
        found = *r;
    }
    if (!found.page)
        return stk__log_damage(r->err, r->paths->markdown, 0,
                               "written by something else: no line '%s'; use another file with --log", STK__LOG_MARK);
    *r = found;
    r->table.mark = (size_t)(r->text.text - r->page);
    r->table.mark_end = r->table.mark + r->text.length;
    r->table.old = span_is(r->text, STK__LOG_MARK_OLD);
    return STK_OK;
}

/* Rows that the page lacks are written at its end: not when they stand below, behind an empty line. */
static stk_status check_parted(const page_reader *r)
{
    page_reader ahead = *r;
    ahead.err = NULL;
    const size_t line = r->line;
    bool more = true;
    while (more && !ahead.text.length)
        more = next_line(&ahead);
    if (!more || r->table.rows >= r->log->row_count || check_row(&ahead, r->table.rows) != STK_OK)
        return STK_OK;
    return stk__log_damage(r->err, r->paths->markdown, line, "an empty line within the table, which goes on below it");
}

/* Rows that the CSV file has and the page has not may only be its last ones. */
static stk_status check_rows(page_reader *r)
{
    STK_TRY(check_header(r));
    STK_TRY(check_rule(r));
    for (;;) {
        r->table.end = r->next;
        r->table.open = r->open;
        if (!next_line(r))
            return STK_OK;
        if (!r->text.length)
            return check_parted(r);
        STK_TRY(check_row(r, r->table.rows));
        r->table.rows++;
    }
}

static stk_status check_versions(const page_reader *r)
{
    if (r->log->version == 1 && !r->table.old && r->table.there)
        return stk__log_damage(r->err, r->paths->markdown, r->line,
                               "the table is of version 2, but %s of version 1: restore the files together",
                               r->paths->csv);
    return STK_OK;
}

stk_status stk__log_markdown_check(const char *page, size_t size, const stk__log_paths *paths, const stk__log *log,
                                   stk__log_table *out, stk_error *err)
{
    page_reader r = {.page = page, .size = size, .log = log, .paths = paths, .err = err};
    STK_TRY(find_mark(&r));
    stk__log_table *table = &r.table;
    table->start = table->end = r.next;
    table->open = r.open;
    table->crlf = r.crlf;
    size_t empty_lines = 0, start = r.next;
    bool more;
    while ((more = next_line(&r)) && !r.text.length) {
        empty_lines++;
        start = r.next;
    }
    table->there = more && r.text.text[0] == '|';
    table->text_below = more && !empty_lines;
    if (table->there && !log->benchmark_count)
        return stk__log_damage(err, paths->markdown, r.line, "here is a table, but %s is empty or not there",
                               paths->csv);
    /* The first row may be missing; a table that is gone, or has text above it, was not our doing. */
    if (!table->there && log->row_count > 1)
        return stk__log_damage(err, paths->markdown, r.line,
                               "no table below the mark, but %s has %zu rows: restore it, or remove the whole page to "
                               "have it written anew",
                               paths->csv, log->row_count);
    STK_TRY(check_versions(&r));
    if (table->there) {
        table->start = start;
        STK_TRY(check_rows(&r));
    }
    *out = *table;
    return STK_OK;
}

bool stk__log_markdown_whole(const stk__log_table *table, const stk__log *log)
{
    return table->there == (log->benchmark_count > 0) && table->old == (log->version == 1) &&
           table->benchmarks == log->benchmark_count && (table->old || table->pairs == log->pair_count) &&
           table->rows == log->row_count;
}

/* ---- giving it what it lacks ---- */

typedef struct page_writer {
    const stk__log *log;
    const stk__log_table *table;
    size_t brief;
    const char *line_end;
    stk__text *out;
} page_writer;

/* The first bytes of a table's line, up to behind that many cells. */
static size_t behind_cells(span line, size_t cells)
{
    span rest = {line.text + 1, line.length - 1}, cell;
    for (size_t i = 0; i < cells && next_cell(&rest, &cell); i++)
        ;
    return (size_t)(rest.text - line.text);
}

/* Cells for new columns are put where they belong; the rest of the line stays as it is. `which`: header, rule, row. */
static void put_wider(const page_writer *w, span line, size_t which)
{
    const stk__log_table *t = w->table;
    const size_t benchmarks = behind_cells(line, FIRST + t->benchmarks);
    const size_t pairs = behind_cells(line, FIRST + t->benchmarks + t->pairs);
    stk__text_write(w->out, line.text, benchmarks);
    for (size_t i = t->benchmarks; i < w->log->benchmark_count; i++) {
        if (which == 0)
            put_title(w->out, w->log->benchmarks[i].name);
        else
            stk__text_puts(w->out, which == 1 ? "---|" : " - |");
    }
    stk__text_write(w->out, line.text + benchmarks, pairs - benchmarks);
    for (size_t i = t->pairs; i < w->log->pair_count; i++) {
        if (which == 0)
            put_title(w->out, w->log->pairs[i]);
        else
            stk__text_puts(w->out, which == 1 ? "---|" : " - |");
    }
    stk__text_write(w->out, line.text + pairs, line.length - pairs);
}

static void put_lines(const page_writer *w, const char *page)
{
    page_reader r = {.page = page, .size = w->table->end, .next = w->table->start};
    for (size_t i = 0; next_line(&r); i++) {
        put_wider(w, r.text, i);
        stk__text_puts(w->out, w->line_end);
    }
}

static void put_rows(const page_writer *w, size_t first)
{
    for (size_t i = first; i < w->log->row_count; i++)
        put_row(w->log, &w->log->rows[i], i >= w->table->rows ? w->brief : STK__LOG_BRIEF, w->line_end, w->out);
}

static void put_table(const page_writer *w, const char *page)
{
    const stk__log_table *t = w->table;
    const bool wider = t->benchmarks < w->log->benchmark_count || t->pairs < w->log->pair_count;
    if (!t->there || t->old) {
        if (!t->there)
            stk__text_puts(w->out, w->line_end);
        put_header(w->log, w->line_end, w->out);
        put_rows(w, 0);
        if (!t->there && t->text_below)
            stk__text_puts(w->out, w->line_end);
        return;
    }
    if (wider) {
        put_lines(w, page);
    } else {
        stk__text_write(w->out, page + t->start, t->end - t->start);
        if (t->open)
            stk__text_puts(w->out, w->line_end);
    }
    put_rows(w, t->rows);
}

void stk__log_markdown_update(const char *page, size_t size, const stk__log_table *table, const stk__log *log,
                              size_t brief, stk__text *out)
{
    const page_writer w = {log, table, brief ? brief : STK__LOG_BRIEF, table->crlf ? "\r\n" : "\n", out};
    if (!size) {
        put_page(out);
        put_table(&w, page);
        return;
    }
    stk__text_write(out, page, table->mark);
    stk__text_puts(out, STK__LOG_MARK);
    stk__text_write(out, page + table->mark_end, table->start - table->mark_end);
    if (!table->there && table->open)
        stk__text_puts(out, w.line_end);
    put_table(&w, page);
    stk__text_write(out, page + table->end, size - table->end);
}
