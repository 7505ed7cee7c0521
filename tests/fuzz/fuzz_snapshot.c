/* Fuzzes the reader of memory snapshots, and the pickle machine under it. */
#include "fuzz_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_profile(data, size, &stk__reader_snapshot);
}
