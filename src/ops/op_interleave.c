/* interleave: take samples from several files in turn. */
#include "base/mem.h"
#include "engine/op.h"

/*
 * The order as spans. A regular span is `rounds` rounds over its lanes, a whole block from each; where a file ends in a
 * round, the round is a span with one entry per block instead.
 */
typedef struct lane {
    int64_t first; /* sample at the start of the span */
    int64_t count; /* samples taken by the span from this lane; in a regular one rounds * block */
} lane;

typedef struct span {
    int64_t position; /* of its first sample in the output */
    int64_t rounds;   /* 0: irregular */
    size_t lanes_at, lane_count;
} span;

typedef struct {
    int64_t cycle, block;
    span *spans;
    size_t span_count, span_capacity;
    lane *lanes;
    size_t lane_count, lane_capacity;
} interleave_state;

static void interleave_close(void *state)
{
    interleave_state *s = state;
    stk__free(s->spans);
    stk__free(s->lanes);
}

/* Files that are being read: next sample and end of each. */
typedef struct open_files {
    int64_t *next, *end;
    int64_t count;
} open_files;

static bool add_span(interleave_state *s, const open_files *f, int64_t position, int64_t rounds)
{
    if (!stk__grow((void **)&s->spans, &s->span_capacity, s->span_count + 1, sizeof *s->spans) ||
        !stk__grow((void **)&s->lanes, &s->lane_capacity, s->lane_count + (size_t)f->count, sizeof *s->lanes))
        return false;
    s->spans[s->span_count++] = (span){position, rounds, s->lane_count, (size_t)f->count};
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t left = f->end[i] - f->next[i];
        s->lanes[s->lane_count++] = (lane){f->next[i], rounds ? rounds * s->block : STK_MIN(s->block, left)};
    }
    return true;
}

/* Whole rounds before any of the open files ends. */
static int64_t whole_rounds(const interleave_state *s, const open_files *f)
{
    int64_t rounds = INT64_MAX;
    for (int64_t i = 0; i < f->count; i++)
        rounds = STK_MIN(rounds, (f->end[i] - f->next[i]) / s->block);
    return rounds;
}

/* Steps behind the span just added; returns the position behind it. */
static int64_t step_over(const interleave_state *s, open_files *f, int64_t position)
{
    const span *last = &s->spans[s->span_count - 1];
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t taken = s->lanes[last->lanes_at + (size_t)i].count;
        f->next[i] += taken;
        position += taken;
    }
    return position;
}

/* Files that ended make room for the next ones, in their place. */
static void replace_ended(open_files *f, const int64_t *firsts, int64_t groups, int64_t *next_group)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < f->count; i++) {
        int64_t next = f->next[i], end = f->end[i];
        while (next == end && *next_group < groups) {
            next = firsts[*next_group];
            end = firsts[++*next_group];
        }
        if (next == end)
            continue;
        f->next[kept] = next;
        f->end[kept++] = end;
    }
    f->count = kept;
}

static stk_status interleave_prepare(void *state, const int64_t *firsts, int64_t groups, stk_error *err)
{
    interleave_state *s = state;
    const int64_t cycle = STK_MAX((int64_t)1, STK_MIN(s->cycle, groups));
    open_files f = {stk__calloc((size_t)cycle, sizeof *f.next), stk__calloc((size_t)cycle, sizeof *f.end), cycle};
    int64_t next_group = 0, position = 0;
    bool ok = f.next && f.end;
    if (ok)
        replace_ended(&f, firsts, groups, &next_group); /* all empty at first */
    while (ok && f.count > 0) {
        const int64_t rounds = whole_rounds(s, &f);
        ok = add_span(s, &f, position, rounds);
        if (!ok)
            break;
        position = step_over(s, &f, position);
        replace_ended(&f, firsts, groups, &next_group);
    }
    stk__free(f.next);
    stk__free(f.end);
    return ok ? STK_OK : stk__nomem(s->lane_count * sizeof *s->lanes, err);
}

static int64_t interleave_length(const void *state, int64_t n)
{
    return n;
}

static void interleave_map(const void *state, int64_t n, stk__position *position)
{
    const interleave_state *s = state;
    size_t low = 0, high = s->span_count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (s->spans[middle].position <= position->index)
            low = middle;
        else
            high = middle;
    }
    const span *at = &s->spans[low];
    int64_t offset = position->index - at->position;
    const lane *lanes = s->lanes + at->lanes_at;
    if (at->rounds) {
        const int64_t round = (int64_t)at->lane_count * s->block;
        const int64_t lane_number = offset % round / s->block;
        position->index = lanes[lane_number].first + offset / round * s->block + offset % s->block;
        return;
    }
    while (offset >= lanes->count)
        offset -= lanes++->count;
    position->index = lanes->first + offset;
}

static void interleave_cycle(const void *state, int64_t *out_cycle, int64_t *out_block)
{
    const interleave_state *s = state;
    *out_cycle = s->cycle;
    *out_block = s->block;
}

static const stk__order interleave_order = {
    .kind = STK__ORDER_INTERLEAVE,
    .length = interleave_length,
    .map = interleave_map,
    .prepare = interleave_prepare,
    .cycle = interleave_cycle,
};

static const stk_option interleave_options[] = {
    STK_INT(interleave_state, cycle, 16, 1, 4096, "files that are read in turn"),
    STK_INT(interleave_state, block, 1, 1, 1 << 30, "samples from one file before the next has its turn"),
    STK_OPTION_END,
};

const stk_op stk__op_interleave = {
    .abi = STK_OP_ABI,
    .name = "interleave",
    .group = "order",
    .since = "0.1",
    .summary = "Take samples from several files in turn; put it right behind the source.",
    .example = "tfrecord(\"d/*.tfrecord\") | interleave(cycle=4, block=2) | batch(32)",
    .options = interleave_options,
    .state_size = sizeof(interleave_state),
    .role = STK_ROLE_ORDER,
    .close = interleave_close,
    .order = &interleave_order,
};
