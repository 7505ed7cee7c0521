/* Fuzz target: reads any bytes as Example and SequenceExample, every way there is. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/example.h"

#define MAX_VALUES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* Decodes as every kind; only the feature's own kind and count may succeed. */
static void read_feature(const stk__feature *feature)
{
    float floats[MAX_VALUES];
    int64_t ints[MAX_VALUES], count = -1;
    stk_bytes bytes[MAX_VALUES];
    stk_error err;
    stk_error_clear(&err);
    const bool counted = stk__feature_count(feature, &count, &err) == STK_OK;
    check(counted == (count >= 0));
    const int64_t want = counted && count <= MAX_VALUES ? count : MAX_VALUES;
    const bool none = feature->kind == STK__FEATURE_NONE && want == 0, exact = counted && want == count;
    const bool is_float = stk__feature_floats(feature, floats, want, &err) == STK_OK;
    check(is_float == (none || (exact && feature->kind == STK__FEATURE_FLOAT)));
    const bool is_bytes = stk__feature_bytes(feature, bytes, want, &err) == STK_OK;
    check(is_bytes == (none || (exact && feature->kind == STK__FEATURE_BYTES)));
    /* A varint can be longer than 64 bits, which counting does not see. */
    const bool is_int = stk__feature_ints(feature, ints, want, &err) == STK_OK;
    check(!is_int || none || (exact && feature->kind == STK__FEATURE_INT64));
    uint64_t sum = 0;
    for (int64_t i = 0; is_bytes && i < want; i++) {
        for (int64_t j = 0; j < bytes[i].size; j++)
            sum += bytes[i].data[j];
    }
    check(sum != UINT64_MAX);
    check(stk__feature_ints(feature, ints, 1, &err) != STK_OK || want == 1);
    check(stk__feature_floats(feature, floats, 0, NULL) != STK_OK || want == 0);
}

static void read_feature_list(stk__feature_list list)
{
    stk__feature feature;
    stk_error err;
    int64_t count = -1, seen = 0;
    stk_error_clear(&err);
    const bool counted = stk__feature_list_count(&list, &count, &err) == STK_OK;
    stk_status status;
    while ((status = stk__feature_list_next(&list, &feature, &err)) == STK_OK) {
        read_feature(&feature);
        seen++;
    }
    check(status == STK_CORRUPT || (status == STK_END && counted && seen == count));
}

static bool visit(void *arg, stk_bytes name, bool sequence, const stk__found *found)
{
    check(name.size >= 0);
    if (sequence)
        read_feature_list(found->list);
    else
        read_feature(&found->feature);
    return ++*(int *)arg < 1000;
}

static void find(const stk__wanted *wanted, size_t count, stk_bytes record, bool sequence)
{
    stk__example_layout *layout;
    stk__example_guess guess = {{2, 1, 5, 65535, 3}};
    stk__found found[8], again[8];
    stk_error err;
    stk_error_clear(&err);
    if (stk__example_layout_new(wanted, count, &layout, &err) != STK_OK)
        return;
    const stk_status status = stk__example_find(layout, &guess, record, sequence, found, &err);
    /* With the guess of the first pass the result is the same. */
    check(stk__example_find(layout, &guess, record, sequence, again, NULL) == status);
    for (size_t i = 0; status == STK_OK && i < count; i++) {
        if (wanted[i].sequence) {
            check(found[i].list.present == again[i].list.present &&
                  found[i].list.features.p == again[i].list.features.p);
            read_feature_list(found[i].list);
        } else {
            check(found[i].feature.kind == again[i].feature.kind && found[i].feature.list.p == again[i].feature.list.p);
            read_feature(&found[i].feature);
        }
    }
    stk__example_layout_free(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const stk__wanted wanted[] = {
        {"x", false}, {"label", false}, {"name", false}, {"", false}, {"x", true}, {"frames", true},
    };
    const stk_bytes record = {data, (int64_t)size};
    int visits = 0;
    stk_error err;
    stk_error_clear(&err);
    find(wanted, 4, record, false);
    find(wanted, 4, record, true);
    find(wanted, 6, record, true);
    const stk_status plain = stk__example_each(record, false, visit, &visits, &err);
    const stk_status sequence = stk__example_each(record, true, visit, &visits, &err);
    const int kind = stk__example_guess_kind(record);
    check(kind == -1 || (kind == 0 ? plain : sequence) == STK_OK);
    return 0;
}
