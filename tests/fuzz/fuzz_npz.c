/* Fuzzes .npz files: arrays must lie in the file or in what was unpacked, and be as large as their shape says. */
#include "fuzz_npz.h"

#include "base/mem.h"
#include "formats/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_array(const stk__npy *a)
{
    static const size_t sizes[] = {4, 2, 1, 1, 4, 8};
    size_t elements = 1;
    volatile uint8_t sum = 0;
    if (a->ndim < 0 || a->ndim > STK__NPZ_DIMS || strlen(a->name) >= sizeof a->name)
        abort();
    for (int i = 0; i < a->ndim; i++)
        elements *= (size_t)a->shape[i];
    if (elements != a->elements)
        abort();
    for (size_t i = 0; i < a->elements * sizes[a->type]; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)a->data)[i]);
}

static void read_file(const uint8_t *data, size_t size)
{
    stk__npz npz;
    stk_error err = {0};
    if (stk__npz_parse(data, size, 1 << 20, &npz, &err) != STK_OK) {
        if (!err.message[0] || err.offset >= (int64_t)size + 1)
            abort();
        return;
    }
    for (size_t i = 0; i < npz.count; i++) {
        check_array(&npz.arrays[i]);
        if (stk__npz_find(&npz, npz.arrays[i].name) != &npz.arrays[i])
            abort();
    }
    stk__npz_clear(&npz);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size);
    uint8_t *mended = fuzz_npz_mend(data, size);
    if (mended)
        read_file(mended, size);
    free(mended);
    return 0;
}
