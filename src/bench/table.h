/* Text for a terminal in aligned columns. */
#ifndef STK_BENCH_TABLE_H
#define STK_BENCH_TABLE_H

#include "base/str.h"

/* Columns that a terminal gives to `text`: wide characters count twice, marks that combine not at all. */
size_t stk__columns(const char *text);
/* Puts untrusted text: escaped for the terminal, cut at `most` columns with "..." (0: at 2,000). */
void stk__put_safe(stk__text *out, const char *text, size_t most);
void stk__put_spaces(stk__text *out, size_t count);

typedef struct stk__column {
    bool right;  /* aligned to the right */
    size_t gap;  /* spaces behind it */
    size_t most; /* longer text is cut; 0: it is not */
} stk__column;

enum { STK__TABLE_COLUMNS = 24 };

typedef struct stk__table {
    stk__column columns[STK__TABLE_COLUMNS];
    size_t widths[STK__TABLE_COLUMNS];
    size_t column_count;
    stk__text text; /* the cells, each with its NUL */
    size_t cell_count;
    size_t *starts; /* of the cells in `text` */
    size_t capacity;
    bool failed;
} stk__table;

/* At most STK__TABLE_COLUMNS. */
void stk__table_init(stk__table *t, const stk__column *columns, size_t count);
/* The next cell, row by row; untrusted text is fine. A row may have a last cell that is wider than its column. */
void stk__table_cell(stk__table *t, const char *text);
/* The same from a text that was built for it, which is emptied. */
void stk__table_take(stk__table *t, stk__text *text);
size_t stk__table_rows(const stk__table *t);
/* One row with its line end, `indent` spaces before it and none at its end. Sets out->failed when a cell was lost. */
void stk__table_put_row(const stk__table *t, size_t row, size_t indent, stk__text *out);
void stk__table_put(const stk__table *t, size_t indent, stk__text *out);
void stk__table_clear(stk__table *t);

#endif
