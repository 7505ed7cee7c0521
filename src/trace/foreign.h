/* Files that people have and that are not read here, told by their content: what they are, and what makes something readable of them. */
#ifndef STK_TRACE_FOREIGN_H
#define STK_TRACE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One sentence about the file whose first bytes (after decompression) these are, or NULL when they are of no known kind. A magic number, or
 * the shape of the first bytes, leaves no doubt. The words of a text may: a reader that is sure of it knows better.
 */
const char *stk__foreign_magic(const uint8_t *data, size_t size);
const char *stk__foreign_text(const uint8_t *data, size_t size);

#endif
