/*
 * paths_tool: reads patterns from standard input, a NUL behind each, and writes what stk__paths_glob makes of them, for
 * test_paths.py: for each pattern its paths, or "!" and the message of the error, a NUL behind each, then one more NUL.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static void put(const char *text)
{
    fwrite(text, 1, strlen(text) + 1, stdout);
}

static void expand(const char *pattern)
{
    stk_error err;
    stk__paths paths = {0};
    stk_error_clear(&err);
    if (stk__paths_glob(&paths, pattern, &err) == STK_OK) {
        for (size_t i = 0; i < paths.count; i++)
            put(paths.items[i]);
    } else {
        putchar('!');
        put(err.message);
    }
    putchar(0);
    stk__paths_clear(&paths);
}

int main(void)
{
    stk_error err;
    char *data = NULL;
    size_t size = 0;
    stk_error_clear(&err);
    if (stk__read_file("-", (size_t)64 << 20, &data, &size, &err) != STK_OK) {
        fprintf(stderr, "paths_tool: %s\n", err.message);
        return 1;
    }
    for (size_t at = 0; at < size; at += strlen(data + at) + 1)
        expand(data + at);
    stk__free(data);
    return fflush(stdout) ? 1 : 0;
}
