/* shuffle: visit the samples of each epoch in a random order. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "ops/block_order.h"

enum { WINDOW_NONE = 0, WINDOW_AUTO = -1 };
/* What window=auto mixes: depends on the data alone, so that neither threads nor memory change the order. */
#define AUTO_BYTES ((int64_t)128 << 20)
#define AUTO_BLOCKS 16

typedef struct {
    int64_t seed;
    bool reshuffle;
    int64_t buffer;
    int64_t window;
    stk__block_order *blocks; /* NULL: a full shuffle */
    uint64_t run_seed;
} shuffle_state;

static int64_t shuffle_length(const void *state, int64_t n)
{
    return n;
}

static uint64_t shuffle_seed(const void *state, int64_t epoch)
{
    const shuffle_state *s = state;
    if (!s->reshuffle)
        return stk__mix((uint64_t)s->seed, 0); /* a split made of it must not hang on the run */
    return stk__mix(s->run_seed ? stk__mix((uint64_t)s->seed, s->run_seed) : (uint64_t)s->seed, (uint64_t)epoch);
}

static void shuffle_set_run_seed(void *state, uint64_t seed)
{
    shuffle_state *s = state;
    s->run_seed = seed;
}

static void shuffle_map(const void *state, int64_t n, stk__position *position)
{
    const shuffle_state *s = state;
    stk__permutation permutation;
    if (n == STK__ENDLESS)
        return;
    const uint64_t seed = shuffle_seed(state, position->epoch);
    if (s->blocks) {
        position->index = stk__block_order_map(s->blocks, seed, position->index);
        return;
    }
    stk__permutation_init(&permutation, (uint64_t)n, seed);
    position->index = (int64_t)stk__permute(&permutation, (uint64_t)position->index);
}

static int64_t shuffle_buffer(const void *state)
{
    const shuffle_state *s = state;
    return s->buffer;
}

static bool shuffle_wants_blocks(const void *state)
{
    const shuffle_state *s = state;
    return s->window != WINDOW_NONE;
}

static int64_t choose_window(const shuffle_state *s, int64_t blocks, int64_t block_bytes)
{
    if (s->window != WINDOW_AUTO)
        return s->window;
    return STK_MIN(blocks, STK_MAX(AUTO_BLOCKS, AUTO_BYTES / STK_MAX(block_bytes, 1)));
}

/* How far the order is from a full shuffle, in a measure that people can check: how often rows of a batch are neighbours. */
static char *describe(int64_t window, int64_t blocks, int64_t rows)
{
    const double each = (double)rows / (double)blocks;
    const double near = (each - 1) / (each * (double)window - 1), far = (each - 1) / ((double)rows - 1);
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(
        &t,
        "shuffle mixes %" PRId64 " of %" PRId64 " chunks at a time (about %.0f of %" PRId64
        " rows): two rows that it mixes come from the same chunk in %.2g %% of cases, in a full shuffle in %.2g %%",
        window, blocks, each * (double)window, rows, 100 * near, 100 * far);
    return t.data;
}

static stk_status shuffle_prepare_blocks(void *state, const int64_t *firsts, int64_t blocks, int64_t block_bytes,
                                         char **out_note, int64_t *out_bytes, stk_error *err)
{
    shuffle_state *s = state;
    const int64_t window = choose_window(s, blocks, block_bytes);
    *out_bytes = stk__position_scale(STK_MIN(window, blocks), block_bytes, 0);
    if (window >= blocks)
        return STK_OK;
    STK_TRY(stk__block_order_new(firsts, blocks, window, &s->blocks, err));
    *out_note = describe(window, blocks, firsts[blocks]);
    return STK_OK;
}

static int64_t shuffle_memory(const stk_call *call)
{
    const shuffle_state *s = call->state;
    return s->blocks ? stk__block_order_memory(s->blocks) : 0;
}

static void shuffle_close(void *state)
{
    shuffle_state *s = state;
    stk__block_order_free(s->blocks);
}

static const stk__order shuffle_order = {
    .kind = STK__ORDER_SHUFFLE,
    .length = shuffle_length,
    .map = shuffle_map,
    .buffer = shuffle_buffer,
    .seed = shuffle_seed,
    .set_run_seed = shuffle_set_run_seed,
    .wants_blocks = shuffle_wants_blocks,
    .prepare_blocks = shuffle_prepare_blocks,
};

static const char *const window_choices[] = {"auto", NULL};

static const stk_option shuffle_options[] = {
    {.name = "seed",
     .kind = STK_OPTION_INT,
     .offset = STK_FIELD_OFFSET(shuffle_state, seed, int64_t),
     .min = 0,
     .max = INT64_MAX,
     .help = "seed of the permutation; the seed of the run goes in too, where reshuffle is on",
     .named = "a number alone could be meant as a size of a buffer, which a full shuffle does not need"},
    STK_BOOL_OPTION(shuffle_state, reshuffle, true, "draw a new order each epoch"),
    STK_INT(shuffle_state, buffer, 10000, 1, 1 << 28,
            "samples held back when the source cannot be indexed (gzip, pipes)"),
    {.name = "window",
     .kind = STK_OPTION_INT,
     .offset = STK_FIELD_OFFSET(shuffle_state, window, int64_t),
     .min = 0,
     .max = 1 << 28,
     .choices = window_choices,
     .help =
         "chunks (of HDF5) whose rows are mixed at a time, chunks in random order; auto: 128 MiB of them, at least 16; "
         "0: a full shuffle"},
    STK_OPTION_END,
};

const stk_op stk__op_shuffle = {
    .abi = STK_OP_ABI,
    .name = "shuffle",
    .group = "order",
    .since = "0.1",
    .summary =
        "Visit the samples of each epoch in a random order: a full permutation that takes no memory, or chunk by chunk.",
    .example = "tfrecord(\"d/*.tfrecord\") | shuffle(seed=42) | batch(32)",
    .options = shuffle_options,
    .state_size = sizeof(shuffle_state),
    .role = STK_ROLE_ORDER,
    .close = shuffle_close,
    .memory = shuffle_memory,
    .order = &shuffle_order,
};
