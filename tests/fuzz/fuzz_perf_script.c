/* Fuzzes the reader of the text of perf script. */
#include "fuzz_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_profile(data, size, &stk__reader_perf_script);
}
