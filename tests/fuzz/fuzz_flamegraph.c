/* Fuzzes the reader of flame graphs. */
#include "fuzz_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_profile(data, size, &stk__reader_flamegraph);
}
