/* A plug-in with a source, `blobs`: made-up samples in classes, to have data for demos and tests without a download. */
#include <stdio.h>

#include <stoker/op.h>

enum { DIMENSIONS = 8, NAME_BYTES = 24, TAGS_MAX = 3 };

typedef struct {
    int64_t count, classes;
    int x, y, name, tags;
} blobs_state;

static stk_status blobs_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    blobs_state *s = state;
    const stk_field x = {.name = "x", .dtype = STK_FLOAT32, .ndim = 1, .shape = {DIMENSIONS}};
    const stk_field y = {.name = "y", .dtype = STK_INT64};
    const stk_field name = {.name = "name", .dtype = STK_BYTES};
    const stk_field tags = {.name = "tags", .dtype = STK_BYTES, .ndim = 1, .shape = {-1}}; /* varies */
    stk_status status = host->plan_write(plan, &x, &s->x, err);
    if (status == STK_OK)
        status = host->plan_write(plan, &y, &s->y, err);
    if (status == STK_OK)
        status = host->plan_write(plan, &name, &s->name, err);
    if (status == STK_OK)
        status = host->plan_write(plan, &tags, &s->tags, err);
    return status;
}

/* A source that knows its count can be shuffled, sharded and resumed by arithmetic. */
static int64_t blobs_count(const stk_call *call)
{
    const blobs_state *s = call->state;
    return s->count;
}

/* Where the middle of a class lies in one dimension: one of 16 places in [-2, 2), the same in each run. */
static float centre(int64_t class_number, int dimension)
{
    const uint32_t mixed = ((uint32_t)class_number * 8 + (uint32_t)dimension + 1) * 2654435761u;
    return (float)(mixed >> 28) / 4 - 2;
}

static stk_status make_numbers(const stk_call *call, stk_sample *sample, stk_random *random, stk_error *err)
{
    const blobs_state *s = call->state;
    float *x = stk_out(call, sample, s->x, NULL, err);
    int64_t *y = stk_out(call, sample, s->y, NULL, err);
    if (!x || !y)
        return err->status;
    *y = (int64_t)(stk_random_u32(random) % (uint64_t)s->classes);
    for (int d = 0; d < DIMENSIONS; d++)
        x[d] = centre(*y, d) + stk_random_float(random) - 0.5f;
    return STK_OK;
}

static stk_status make_texts(const stk_call *call, stk_sample *sample, stk_random *random, stk_error *err)
{
    static const char *const words[] = {"bright", "noisy", "rare", "large", "old"};
    static const int64_t sizes[] = {6, 5, 4, 5, 3};
    const blobs_state *s = call->state;
    char *name = stk_scratch(call, NAME_BYTES, err);
    if (!name)
        return err->status;
    const int length = snprintf(name, NAME_BYTES, "blob-%06lld", (long long)sample->index);
    stk_set_bytes(call, sample, s->name, name, length, false);
    const int64_t count = stk_random_u32(random) % (TAGS_MAX + 1);
    stk_bytes *tags = stk_out(call, sample, s->tags, &count, err);
    if (!tags)
        return err->status;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t word = stk_random_u32(random) % 5;
        tags[i] = (stk_bytes){(const uint8_t *)words[word], sizes[word]};
    }
    return STK_OK;
}

static stk_status blobs_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    stk_random random = stk_random_begin(call, sample);
    const stk_status status = make_numbers(call, sample, &random, err);
    return status == STK_OK ? make_texts(call, sample, &random, err) : status;
}

static const stk_option blobs_options[] = {
    STK_INT_REQUIRED(blobs_state, count, 0, (int64_t)1 << 40, "samples"),
    STK_INT(blobs_state, classes, 10, 1, 1000, "different values of y"),
    STK_OPTION_END,
};

static const stk_op blobs = {
    .abi = STK_OP_ABI,
    .name = "blobs",
    .group = "source",
    .since = "0.1",
    .summary = "Make samples in classes: x (float32[8]), y (int64), name (bytes) and tags (bytes[]).",
    .example = "blobs(3) | print",
    .options = blobs_options,
    .state_size = sizeof(blobs_state),
    .role = STK_ROLE_SOURCE,
    .flags = STK_OP_RANDOM,
    .schema = blobs_schema,
    .process = blobs_process,
    .count = blobs_count,
};

const stk_op *const *stk_plugin_ops(uint32_t abi)
{
    static const stk_op *const ops[] = {&blobs, NULL};
    return abi == STK_OP_ABI ? ops : NULL;
}
