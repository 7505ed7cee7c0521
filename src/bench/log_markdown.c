/* The Markdown page of the change log: its mark, its table, and what people wrote around it. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/quantity.h"
#include "bench/section.h"

#include "base/banned.h"

#define MARK_START "<!-- stoker bench log "

static const char *const first_columns[] = {"date", "commit"};
static const char *const last_columns[] = {"ratio", "95 % CI", "verdict", "to parent", "machine", "description"};

enum { FIRST = STK_COUNT(first_columns), LAST = STK_COUNT(last_columns) };

/* ---- writing ---- */

void stk__log_markdown_page(stk__text *out)
{
    stk__text_puts(out,
                   "# Performance log\n"
                   "\n"
                   "Each row is one run of `stoker bench`: (mean, standard deviation) of every benchmark over its n "
                   "runs, the ratio of what was compared with its confidence interval and verdict, and the ratio to "
                   "the parent commit; rows are only added, and the CSV file of the same name has them for "
                   "programs.\n"
                   "\n" STK__LOG_MARK "\n");
}

void stk__log_markdown_header(const stk__log *log, const char *line_end, stk__text *out)
{
    stk__text_putc(out, '|');
    for (size_t i = 0; i < FIRST; i++)
        stk__text_printf(out, " %s |", first_columns[i]);
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__text_putc(out, ' ');
        stk__markdown_cell(out, log->benchmarks[i]);
        stk__text_puts(out, " |");
    }
    for (size_t i = 0; i < LAST; i++)
        stk__text_printf(out, " %s |", last_columns[i]);
    stk__text_printf(out, "%s|", line_end);
    for (size_t i = 0; i < FIRST + log->benchmark_count + LAST; i++)
        stk__text_puts(out, "---|");
    stk__text_puts(out, line_end);
}

static void put_cell(stk__text *out, const stk__text *text)
{
    stk__text_putc(out, ' ');
    if (text->failed)
        out->failed = true;
    else
        stk__markdown_cell(out, text->length ? text->data : "-");
    stk__text_puts(out, " |");
}

static void put_benchmark(stk__text *out, const stk__log_cell *cell, const char *unit)
{
    stk__text text = STK__TEXT_INIT;
    stk__quantity_pair(&text, cell->mean, cell->sd, unit);
    stk__text_printf(&text, ", n=%zu", cell->n);
    put_cell(out, &text);
    stk__text_clear(&text);
}

void stk__log_markdown_row(const stk__log *log, const stk__log_row *row, const stk__log_words *words, stk__text *out)
{
    stk__text_puts(out, "| ");
    stk__log_time(row->time_s, true, out);
    stk__text_printf(out, " | %s%s |", row->commit[0] ? words->brief : "-", row->dirty ? "+" : "");
    for (size_t i = 0; i < log->benchmark_count; i++)
        put_benchmark(out, &row->cells[i], log->units[i]);
    put_cell(out, &words->ratio);
    put_cell(out, &words->interval);
    put_cell(out, &words->verdict);
    put_cell(out, &words->to_parent);
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, row->machine);
    if (row->limits[0])
        stk__text_printf(&text, "%s%s", row->machine[0] ? "; " : "", row->limits);
    put_cell(out, &text);
    stk__text_reset(&text);
    stk__text_puts(&text, row->description);
    put_cell(out, &text);
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

static size_t columns_of(const stk__log *log)
{
    return FIRST + log->benchmark_count + LAST;
}

static stk_status check_title(page_reader *r, const stk__log *log, size_t column, span cell, stk__text *scratch)
{
    stk__text_reset(scratch);
    if (column < FIRST)
        stk__text_puts(scratch, first_columns[column]);
    else if (column < FIRST + log->benchmark_count)
        stk__markdown_cell(scratch, log->benchmarks[column - FIRST]);
    else
        stk__text_puts(scratch, last_columns[column - FIRST - log->benchmark_count]);
    stk__text_write(scratch, "", 0);
    if (scratch->failed)
        return stk__nomem(scratch->length, r->err);
    const span wanted = trimmed(scratch->data, scratch->length);
    if (wanted.length == cell.length && memcmp(wanted.text, cell.text, cell.length) == 0)
        return STK_OK;
    char found_text[160], wanted_text[160];
    show(cell, found_text, sizeof found_text);
    show(wanted, wanted_text, sizeof wanted_text);
    return stk__log_damage(r->err, r->paths->markdown, r->line, "column %zu is '%s', wanted '%s'", column + 1,
                           found_text, wanted_text);
}

static stk_status check_header(page_reader *r, const stk__log *log)
{
    STK_TRY(check_shape(r, columns_of(log)));
    stk__text scratch = STK__TEXT_INIT;
    span rest = {r->text.text + 1, r->text.length - 1}, cell;
    stk_status status = STK_OK;
    for (size_t i = 0; status == STK_OK && next_cell(&rest, &cell); i++)
        status = check_title(r, log, i, cell, &scratch);
    stk__text_clear(&scratch);
    return status;
}

/* |---|:--:|: what makes the line above a header. */
static stk_status check_rule(page_reader *r, const stk__log *log)
{
    if (!next_line(r))
        return stk__log_damage(r->err, r->paths->markdown, r->line, "the page ends below the header of the table");
    STK_TRY(check_shape(r, columns_of(log)));
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

static stk_status check_row(page_reader *r, const stk__log *log, size_t index)
{
    STK_TRY(check_shape(r, columns_of(log)));
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

/* Goes behind the line with the mark. */
static stk_status find_mark(page_reader *r)
{
    page_reader found = {0};
    while (next_line(r)) {
        if (!span_starts(r->text, MARK_START))
            continue;
        if (!span_is(r->text, STK__LOG_MARK)) {
            char shown[160];
            show(r->text, shown, sizeof shown);
            return stk__log_damage(r->err, r->paths->markdown, r->line, "the mark is '%s', wanted '%s'", shown,
                                   STK__LOG_MARK);
        }
        if (found.page)
            return stk__log_damage(r->err, r->paths->markdown, r->line, "a second mark '%s'; the first is in line %zu",
                                   STK__LOG_MARK, found.line);
        found = *r;
    }
    if (!found.page)
        return stk__log_damage(r->err, r->paths->markdown, 0,
                               "written by something else: no line '%s'; use another file with --log", STK__LOG_MARK);
    *r = found;
    return STK_OK;
}

static stk_status check_rows(page_reader *r, const stk__log *log, stk__log_table *table)
{
    size_t rows = 0;
    STK_TRY(check_header(r, log));
    STK_TRY(check_rule(r, log));
    for (;;) {
        table->end = r->next;
        table->open = r->open;
        if (!next_line(r) || !r->text.length)
            break;
        STK_TRY(check_row(r, log, rows));
        rows++;
    }
    if (rows != log->row_count)
        return stk__log_damage(
            r->err, r->paths->markdown, r->line,
            "the table has %zu rows, %s has %zu: take the last rows away there, or restore this file", rows,
            r->paths->csv, log->row_count);
    return STK_OK;
}

stk_status stk__log_markdown_check(const char *page, size_t size, const stk__log_paths *paths, const stk__log *log,
                                   stk__log_table *out, stk_error *err)
{
    page_reader r = {.page = page, .size = size, .paths = paths, .err = err};
    STK_TRY(find_mark(&r));
    stk__log_table table = {.end = r.next, .open = r.open, .crlf = r.crlf};
    size_t empty_lines = 0;
    bool more;
    while ((more = next_line(&r)) && !r.text.length)
        empty_lines++;
    table.there = more && r.text.text[0] == '|';
    table.text_below = more && !empty_lines;
    if (table.there && !log->benchmark_count)
        return stk__log_damage(err, paths->markdown, r.line, "here is a table, but %s is empty or not there",
                               paths->csv);
    if (!table.there && log->benchmark_count)
        return stk__log_damage(err, paths->markdown, r.line, "no table below the mark, but %s has %zu rows", paths->csv,
                               log->row_count);
    if (table.there)
        STK_TRY(check_rows(&r, log, &table));
    *out = table;
    return STK_OK;
}
