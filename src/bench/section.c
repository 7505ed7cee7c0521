/* Parts of Markdown pages that a program writes, and text from outside as a cell of a table. */
#include "bench/section.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* A line of the page: its bytes without the line end, where the next one starts, and its number from 1. */
typedef struct {
    const char *text;
    size_t length, next;
    int number;
} page_line;

typedef struct {
    size_t start, next; /* of its line, and of the line below */
    int line;           /* 0: not there */
} mark_place;

static bool next_line(const char *page, size_t size, page_line *line)
{
    if (line->next >= size)
        return false;
    line->text = page + line->next;
    const char *end = memchr(line->text, '\n', size - line->next);
    line->length = end ? (size_t)(end - line->text) : size - line->next;
    line->next += line->length + (end != NULL);
    line->number++;
    return true;
}

static bool is_mark(const page_line *line, const char *mark, size_t mark_length)
{
    size_t n = line->length;
    while (n > 0 && (line->text[n - 1] == ' ' || line->text[n - 1] == '\t' || line->text[n - 1] == '\r'))
        n--;
    return n == mark_length && memcmp(line->text, mark, n) == 0;
}

static stk_status refuse(stk_error *err, const char *file, int line, const char *message)
{
    stk_error_set(err, STK_INVALID, "%s", message);
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", file ? file : "");
        err->line = line;
        err->column = line > 0;
    }
    return STK_INVALID;
}

/* The one line that is the mark. */
static stk_status find_mark(const char *page, size_t size, const char *file, const char *mark, mark_place *out,
                            stk_error *err)
{
    const size_t length = strlen(mark);
    mark_place place = {0};
    char message[400];
    for (page_line line = {0}; next_line(page, size, &line);) {
        if (!is_mark(&line, mark, length))
            continue;
        if (place.line) {
            snprintf(message, sizeof message, "a second '%s' (the first is in line %d), wanted one", mark, place.line);
            return refuse(err, file, line.number, message);
        }
        place = (mark_place){(size_t)(line.text - page), line.next, line.number};
    }
    if (!place.line) {
        snprintf(message, sizeof message, "found no line '%s', wanted one", mark);
        return refuse(err, file, 0, message);
    }
    *out = place;
    return STK_OK;
}

/* A name that a comment can hold on one line, and not too long for messages. */
static bool is_good_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '<' || *c == '>')
            return false;
    const size_t length = strlen(name);
    return length > 0 && length <= 200 && !strstr(name, "--") && name[0] != ' ' && name[length - 1] != ' ';
}

static bool holds_mark(const char *text, const char *begin, const char *end)
{
    const size_t size = strlen(text), begin_length = strlen(begin), end_length = strlen(end);
    for (page_line line = {0}; next_line(text, size, &line);)
        if (is_mark(&line, begin, begin_length) || is_mark(&line, end, end_length))
            return true;
    return false;
}

stk_status stk__section_replace(const char *page, size_t size, const char *file, const char *name, const char *text,
                                stk__text *out, stk_error *err)
{
    char begin[240], end[240], message[600];
    if (!is_good_name(name))
        return refuse(err, file, 0,
                      "found a bad name of a section, wanted 1 to 200 characters without '<', '>', '--' and line ends");
    snprintf(begin, sizeof begin, "<!-- %s -->", name);
    snprintf(end, sizeof end, "<!-- end %s -->", name);
    mark_place from, to;
    STK_TRY(find_mark(page, size, file, begin, &from, err));
    STK_TRY(find_mark(page, size, file, end, &to, err));
    if (from.line > to.line) {
        snprintf(message, sizeof message, "found '%s' above '%s' (line %d), wanted it below", end, begin, from.line);
        return refuse(err, file, to.line, message);
    }
    /* The page that comes out must be one that can be written again. */
    if (holds_mark(text, begin, end))
        return refuse(err, file, from.line, "the new text holds a line that marks the section itself, wanted none");

    stk__text_write(out, page, from.next);
    const size_t length = strlen(text);
    stk__text_write(out, text, length);
    if (length > 0 && text[length - 1] != '\n')
        stk__text_putc(out, '\n');
    stk__text_write(out, page + to.start, size - to.start);
    return out->failed ? stk__nomem(size + length, err) : STK_OK;
}

static bool is_word(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* 0 is the edge of the cell, which Markdown takes as a blank. */
static bool is_blank(unsigned char c)
{
    return c == 0 || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t count_of(const char *text, char wanted)
{
    size_t n = 0;
    for (; (text = strchr(text, wanted)); text++)
        n++;
    return n;
}

/* A run of '*' or '_'. With blanks on both sides it marks nothing; nor does '_' within a word, such as parse_op. */
static size_t put_emphasis(stk__text *out, const char *at, unsigned char before)
{
    size_t n = 1;
    while (at[n] == at[0])
        n++;
    const unsigned char after = (unsigned char)at[n];
    const bool plain = (is_blank(before) && is_blank(after)) || (at[0] == '_' && is_word(before) && is_word(after));
    for (size_t i = 0; i < n; i++) {
        if (!plain)
            stk__text_putc(out, '\\');
        stk__text_putc(out, at[0]);
    }
    return n;
}

/* One character that is not ASCII, or a control character; stk__escape_terminal knows which of them are not shown. */
static size_t put_character(stk__text *out, const char *at, size_t left)
{
    const size_t n = stk__utf8_length((const unsigned char *)at, left);
    if (n == 0) {
        stk__text_puts(out, "\xef\xbf\xbd");
        return 1;
    }
    char one[8] = "", shown[40];
    memcpy(one, at, n);
    stk__escape_terminal(one, shown, sizeof shown);
    stk__text_puts(out, shown);
    return n;
}

static size_t put_line_end(stk__text *out, const char *at)
{
    stk__text_putc(out, ' ');
    return at[0] == '\r' && at[1] == '\n' ? 2 : 1;
}

/* Signs that mark something only in pairs: a lone one, as in HEAD~1, stays as it is. */
static void put_paired(stk__text *out, char c, bool alone)
{
    if (!alone)
        stk__text_putc(out, '\\');
    stk__text_putc(out, c);
}

/* '&' starts an entity only before a letter or '#'. */
static void put_ampersand(stk__text *out, unsigned char after)
{
    stk__text_puts(out, is_word(after) || after == '#' ? "&amp;" : "&");
}

void stk__markdown_cell(stk__text *out, const char *text)
{
    const char *const end = text + strlen(text);
    const bool one_tilde = count_of(text, '~') < 2, one_dollar = count_of(text, '$') < 2;
    unsigned char before = 0;
    for (const char *at = text; at < end;) {
        const unsigned char c = (unsigned char)*at;
        size_t used = 1;
        if (c == '\n' || c == '\r')
            used = put_line_end(out, at);
        else if (c == '\t')
            stk__text_putc(out, ' ');
        else if (c == '<')
            stk__text_puts(out, "&lt;");
        else if (c == '>')
            stk__text_puts(out, "&gt;");
        else if (c == '&')
            put_ampersand(out, (unsigned char)at[1]);
        else if (c == '*' || c == '_')
            used = put_emphasis(out, at, before);
        else if (c == '~')
            put_paired(out, '~', one_tilde);
        else if (c == '$')
            put_paired(out, '$', one_dollar);
        else if (strchr("|\\`[]", c))
            stk__text_printf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            used = put_character(out, at, (size_t)(end - at));
        else
            stk__text_putc(out, (char)c);
        before = c;
        at += used;
    }
}
