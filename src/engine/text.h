/* Pipeline text: `op(args) | op(args)`, read into calls with places. */
#ifndef STK_ENGINE_TEXT_H
#define STK_ENGINE_TEXT_H

#include <stoker/op.h>

#include "base/str.h"

typedef struct stk__op_text {
    const char *name;
    int line, column;
    size_t begin, end; /* bytes of the text: from the name to behind the closing parenthesis */
    const stk_named_arg *args;
    size_t arg_count;
} stk__op_text;

/* All strings and arrays belong to it. */
typedef struct stk__pipeline_text {
    const stk__op_text *ops;
    size_t op_count;
    void *memory; /* the chunks that hold everything */
} stk__pipeline_text;

/*
 * Reads a pipeline. '#' starts a comment to the end of the line. Untrusted input: bounded depth (16), bounded number of
 * ops (1,024) and arguments (65,536 in all). Errors set line and column and say what was found and wanted.
 */
stk_status stk__pipeline_parse(const char *text, size_t size, stk__pipeline_text *out, stk_error *err);
void stk__pipeline_text_clear(stk__pipeline_text *p);

/* Appends an argument as it would be written; parsing it again gives the same. */
void stk__arg_print(stk__text *t, const stk_arg *arg);

#endif
