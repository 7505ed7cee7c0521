/* A part of a Markdown page that a program writes, between two marks that people leave alone. */
#ifndef STK_BENCH_SECTION_H
#define STK_BENCH_SECTION_H

#include "base/str.h"

/*
 * Replaces what stands between "<!-- NAME -->" and "<!-- end NAME -->", each on a line of its own (blanks and a CR may
 * follow), in `page` (of `file`, for messages) and appends the new page to `out`: all outside the marks, and the marks
 * themselves, byte for byte. INVALID when a mark is missing, there twice, in the wrong order, or in `text`.
 */
stk_status stk__section_replace(const char *page, size_t size, const char *file, const char *name, const char *text,
                                stk__text *out, stk_error *err);

/*
 * Text from outside as one cell of a Markdown table. What comes out stays in its cell, on its line, and reads as the
 * text does: no HTML, entity, link, picture, code, emphasis, struck-out text or formula comes from it, and no control
 * character. Signs are escaped only where they could mean something (parse_op and HEAD~1 stay as they are), "|" always.
 * Line ends and tabs become blanks; control characters, and marks that turn text around, \xNN for each byte (a
 * backslash of the text is doubled, so the two differ); bytes that are not UTF-8 U+FFFD. Not stopped: a bare address,
 * which some pages turn into a link to itself.
 */
void stk__markdown_cell(stk__text *out, const char *text);

#endif
