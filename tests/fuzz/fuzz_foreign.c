/* The look at files that are not read: any bytes are safe, and get a sentence or none. */
#include <stddef.h>
#include <stdint.h>

#include "trace/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)stk__foreign_magic(data, size);
    (void)stk__foreign_text(data, size);
    return 0;
}
