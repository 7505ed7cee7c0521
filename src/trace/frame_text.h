/* Frames of stacks as people's tools write them in one text: "name (file:12)", "name (libc.so.6)". */
#ifndef STK_TRACE_FRAME_TEXT_H
#define STK_TRACE_FRAME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parts as places in the text; file_size is 0 when it names no file. */
typedef struct stk__frame_text {
    size_t name_size, file, file_size;
    int32_t line; /* 0: none */
} stk__frame_text;

/* Without a line it must look like a file: a name with a dot or a slash, and no blanks, commas or brackets. */
static inline bool stk__frame_names_file(const char *text, size_t start, size_t end)
{
    bool file_like = false;
    for (size_t i = start; i < end; i++) {
        if (text[i] == ' ' || text[i] == '\t' || text[i] == ',' || text[i] == '(')
            return false;
        file_like = file_like || text[i] == '.' || text[i] == '/';
    }
    return file_like;
}

/* Only what would be written again in the same way is taken apart: "f (a.py:007)" is a name. */
static inline stk__frame_text stk__frame_split(const char *text, size_t size)
{
    stk__frame_text whole = {.name_size = size};
    if (size < 5 || text[size - 1] != ')')
        return whole;
    const size_t end = size - 1;
    size_t open = end;
    while (open > 1 && !(text[open] == '(' && text[open - 1] == ' '))
        open--;
    if (open < 2)
        return whole;
    size_t digits = end;
    while (digits > open + 1 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    stk__frame_text parts = {.name_size = open - 1, .file = open + 1};
    if (digits < end && end - digits <= 9 && text[digits] != '0' && digits > open + 2 && text[digits - 1] == ':') {
        for (size_t i = digits; i < end; i++)
            parts.line = parts.line * 10 + (text[i] - '0');
        parts.file_size = digits - 1 - parts.file;
        return parts;
    }
    parts.file_size = end - parts.file;
    return stk__frame_names_file(text, parts.file, end) ? parts : whole;
}

#endif
