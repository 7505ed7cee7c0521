/* Files that people have and that are not read here, told by their content: what they are, and what makes something readable of them. */
#ifndef STK_TRACE_FOREIGN_H
#define STK_TRACE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One sentence about the file whose first bytes (after decompression) these are, or NULL when they are of no known kind. `*out_certain`:
 * a magic number says so, and no reader needs to be asked; else the words of a text do, and a reader that is sure knows better.
 */
const char *stk__foreign_find(const uint8_t *data, size_t size, bool *out_certain);

#endif
