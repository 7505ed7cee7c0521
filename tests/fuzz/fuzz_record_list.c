/* Lists of records: any bytes are read or refused, and what is read is of the files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "formats/record_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "d/\xc3\xa9.txt", "\xff"};
    const stk__paths paths = {.items = (char **)(uintptr_t)names, .count = 3};
    stk__record_list list = {0};
    stk_error err;
    stk_error_clear(&err);
    char *text = malloc(size + 1); /* exactly as long, so that a read behind its end shows */
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    const stk_status status = stk__record_list_parse(text, size, "list", &paths, &list, &err);
    if (status != STK_OK && status != STK_INVALID)
        abort();
    if (status == STK_INVALID && !err.message[0])
        abort();
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].file < 0 || list.items[i].file >= 3)
            abort();
    stk__record_list_clear(&list);
    free(text);
    return 0;
}
