/*
 * XXH3-128 over batches, chained: each batch is hashed behind the digest of all before it. So the same data gives the same
 * digest, however its memory lies, and a checkpoint can carry it along as 16 bytes.
 */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "engine/checkpoint.h"

#include "base/banned.h"

struct stk_digest {
    XXH3_state_t *state; /* used for one batch at a time */
    XXH128_hash_t value; /* of all batches so far */
};

stk_status stk_digest_new(stk_digest **out, stk_error *err)
{
    stk_digest *d = stk__calloc(1, sizeof *d);
    if (d)
        d->state = XXH3_createState();
    if (!d || !d->state) {
        stk__free(d);
        return stk__nomem(sizeof *d, err);
    }
    d->value = XXH3_128bits("", 0);
    *out = d;
    return STK_OK;
}

static void add_int(stk_digest *d, int64_t x)
{
    XXH3_128bits_update(d->state, &x, sizeof x);
}

static void add_column(stk_digest *d, const stk_column *c)
{
    add_int(d, (int64_t)strlen(c->name));
    XXH3_128bits_update(d->state, c->name, strlen(c->name));
    add_int(d, c->dtype);
    add_int(d, c->ndim);
    XXH3_128bits_update(d->state, c->shape, sizeof *c->shape * (size_t)c->ndim);
    if (c->offsets)
        XXH3_128bits_update(d->state, c->offsets, sizeof *c->offsets * (size_t)(c->shape[0] + 1));
    if (c->row_shapes)
        XXH3_128bits_update(d->state, c->row_shapes, sizeof *c->row_shapes * (size_t)(c->shape[0] * (c->ndim - 1)));
    if (c->dtype != STK_BYTES) {
        XXH3_128bits_update(d->state, c->data, (size_t)c->size_bytes);
        return;
    }
    const stk_bytes *views = c->data;
    for (int64_t i = 0; i < c->elements; i++) {
        add_int(d, views[i].size);
        if (views[i].size)
            XXH3_128bits_update(d->state, views[i].data, (size_t)views[i].size);
    }
}

void stk_digest_add(stk_digest *digest, const stk_batch *batch)
{
    XXH128_canonical_t before;
    XXH128_canonicalFromHash(&before, digest->value);
    XXH3_128bits_reset(digest->state);
    XXH3_128bits_update(digest->state, &before, sizeof before);
    add_int(digest, batch->rows);
    for (int32_t c = 0; c < batch->column_count; c++)
        add_column(digest, &batch->columns[c]);
    digest->value = XXH3_128bits_digest(digest->state);
}

void stk__digest_get(const stk_digest *digest, uint64_t *out_high, uint64_t *out_low)
{
    *out_high = digest->value.high64;
    *out_low = digest->value.low64;
}

void stk__digest_set(stk_digest *digest, uint64_t high, uint64_t low)
{
    digest->value = (XXH128_hash_t){.high64 = high, .low64 = low};
}

void stk_digest_hex(const stk_digest *digest, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)digest->value.high64, (unsigned long long)digest->value.low64);
}

void stk_digest_free(stk_digest *digest)
{
    if (!digest)
        return;
    XXH3_freeState(digest->state);
    stk__free(digest);
}
