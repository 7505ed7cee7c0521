/* Fuzz target: reads any bytes as a file of cachegrind or callgrind; what it takes ends in a total, and cut off it is not taken. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/grind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    stk_error err;
    stk__grind_file f, again;
    stk_error_clear(&err);
    if (stk__grind_parse(text, size, &f, &err) != STK_OK) {
        check(err.status == STK_CORRUPT && err.message[0]);
        return 0;
    }
    check(f.command >= text && f.command + f.command_size < text + size);
    check(!memchr(f.command, '\n', f.command_size));
    check(size && text[size - 1] == '\n');
    check(stk__grind_parse(text, size - 1, &again, NULL) != STK_OK || text[size - 2] == '\n');
    return 0;
}
