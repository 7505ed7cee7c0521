/* Fuzz target: reads any bytes as a list of a feature, and its values as numbers of every type. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* As many as are there read or one of them does not fit; one more or one less never do. */
static void read_as(const stk__feature *feature, stk_dtype dtype)
{
    int64_t count = -1;
    stk_error err;
    stk_error_clear(&err);
    if (stk__feature_number_count(feature, dtype, &count, &err) != STK_OK) {
        check(err.message[0]);
        return;
    }
    check(count >= 0 && count <= INT32_MAX);
    uint8_t *out = malloc((size_t)count * stk_dtype_size(dtype) + 1); /* exact, for the address sanitizer */
    if (!out)
        return;
    const stk_status status = stk__feature_numbers(feature, dtype, out, count, &err);
    check(status == STK_OK || status == STK_CORRUPT);
    if (count > 0)
        check(stk__feature_numbers(feature, dtype, out, count - 1, NULL) == STK_CORRUPT);
    free(out);
}

/* Pieces of any size give the values that a whole read gives. */
static void read_in_pieces(const stk__feature *feature, int64_t room)
{
    int64_t count = 0, piece = 0, total = 0, values[8];
    stk__feature_rest rest = {.list = feature->list};
    stk_status status;
    const bool counted = stk__feature_count(feature, &count, NULL) == STK_OK;
    do {
        status = stk__feature_some(feature, &rest, values, room, &piece, NULL);
        check(status != STK_OK || (piece >= 0 && piece <= room));
        total += status == STK_OK ? piece : 0;
    } while (status == STK_OK && piece > 0);
    check(status == STK_CORRUPT || (counted && total == count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    stk__feature feature = {.list = {data + 1, data + size}, .present = true};
    feature.kind = (stk__feature_kind)(data[0] & 3);
    for (int dtype = 0; dtype < STK_BYTES; dtype++)
        read_as(&feature, (stk_dtype)dtype);
    if (feature.kind == STK__FEATURE_INT64 || feature.kind == STK__FEATURE_FLOAT)
        read_in_pieces(&feature, 1 + (data[0] >> 2) % 8);
    return 0;
}
