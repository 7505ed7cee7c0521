/* Is a command line for the shell, or can its words be run as they stand? */
#ifndef STK_BENCH_COMMAND_H
#define STK_BENCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { STK__COMMAND_MAX = 1 << 20 };

/* The words of a command, each with its NUL, one after the other. Zero: empty. */
typedef struct stk__command {
    stk__text words;
    size_t count;
    bool shell; /* a character or its first word has a meaning for the shell: no words, run the text by sh */
} stk__command;

/* INVALID when it has nothing but blanks or is longer than STK__COMMAND_MAX. */
stk_status stk__command_split(const char *command, stk__command *out, stk_error *err);
void stk__command_clear(stk__command *c);

/* A word for the shell, whatever is in it, in single quotes. */
void stk__command_quote(stk__text *t, const char *word);

#endif
