/* From a pipeline to the texts of its four ways: caches, repeats and the sink taken out, one cache put in. */
#include <string.h>

#include "lazy.h"

#include "base/banned.h"

enum { CHECK_SAMPLES = 1000, BATCH_SIZE = 256 /* of pipelines without a batch, as runs of them have */ };

typedef struct layout {
    const char *text; /* the user's */
    const stk_text_op *ops;
    size_t count;
    size_t head;         /* the op that `take` goes behind: the source, or interleave, which wants to be next to it */
    size_t first_random; /* the first op on samples that draws random numbers; count: none */
    size_t last_sample;  /* the last op that works on samples; 0: the source itself */
    bool has_batch;
} layout;

static bool is_order(const stk_op *op, const char *name)
{
    return op->role == STK_ROLE_ORDER && strcmp(op->name, name) == 0;
}

static layout look_at(const lazy *z, const stk_text_op *ops, size_t count)
{
    layout l = {.text = z->setup.text, .ops = ops, .count = count, .first_random = count};
    for (size_t i = 0; i < count; i++) {
        const stk_op *op = ops[i].op;
        if (is_order(op, "interleave"))
            l.head = i;
        l.has_batch = l.has_batch || op->role == STK_ROLE_BATCH;
        if (op->role != STK_ROLE_SAMPLE)
            continue;
        l.last_sample = i;
        if ((op->flags & STK_OP_RANDOM) && l.first_random == count)
            l.first_random = i;
    }
    return l;
}

static bool left_out(const stk_op *op, bool check)
{
    return op->role == STK_ROLE_SINK || op->role == STK_ROLE_CACHE || is_order(op, "repeat") ||
           (check && is_order(op, "shuffle"));
}

static void put_cache(stk__text *t, const char *directory)
{
    stk__text_puts(t, "\n| cache");
    if (!directory)
        return;
    char path[4200];
    stk__text p;
    stk__text_fixed(&p, path, sizeof path);
    stk__text_printf(&p, "%s/samples.cache", directory);
    stk__text_puts(t, "(path=");
    stk__text_quote(t, path);
    stk__text_putc(t, ')');
}

static size_t cache_place(const layout *l, lazy_kind kind)
{
    if (kind == LAZY_PLAIN)
        return l->count;
    return kind == LAZY_CACHED ? l->first_random - 1 : l->last_sample;
}

/* One op on a line. All ways draw the same random numbers: a cache does not change them. */
static void write_text(stk__text *t, const layout *l, lazy_kind kind, const char *directory, int64_t take,
                       int64_t epochs, bool check)
{
    for (size_t i = 0; i < l->count; i++) {
        const stk_text_op *op = &l->ops[i];
        if (!left_out(op->op, check)) {
            stk__text_puts(t, i ? "\n| " : "");
            stk__text_write(t, l->text + op->begin, op->end - op->begin);
        }
        if (i == l->head && take)
            stk__text_printf(t, "\n| take(%lld)", (long long)take);
        if (i == cache_place(l, kind))
            put_cache(t, kind == LAZY_DISK ? directory : NULL);
    }
    if (!l->has_batch) /* else batches would reach over epochs */
        stk__text_printf(t, "\n| batch(%d)", BATCH_SIZE);
    stk__text_printf(t, "\n| repeat(%lld)\n", (long long)epochs);
}

static void say_why_not(lazy_way *way, const char *why)
{
    stk__text t;
    stk__text_fixed(&t, way->why_not, sizeof way->why_not);
    stk__text_puts(&t, why);
}

/* A cache before all random numbers is a way of its own only where some op on samples draws them. */
static const char *why_not_cached(const layout *l)
{
    if (l->ops[0].op->flags & STK_OP_RANDOM)
        return "the source draws random numbers itself, so there is no place before them";
    if (l->first_random == l->count)
        return "no op on samples draws random numbers, so this is 'stored, memory'";
    return NULL;
}

static bool write_all(lazy *z, const layout *l, int64_t take, bool check)
{
    bool ok = true;
    for (lazy_kind kind = LAZY_PLAIN; kind < LAZY_WAYS; kind++) {
        lazy_way *way = &z->ways[kind];
        const char *why = kind == LAZY_CACHED ? why_not_cached(l) : NULL;
        if (why)
            say_why_not(way, why);
        if (way->why_not[0])
            continue;
        stk__text *t = check ? &way->check : &way->text;
        write_text(t, l, kind, z->directory, take, z->options->epochs, check);
        ok = ok && !t->failed;
    }
    return ok;
}

bool cli_lazy_texts(lazy *z, const stk_text_op *ops, size_t count)
{
    static const char *const names[] = {[LAZY_PLAIN] = "lazy",
                                        [LAZY_CACHED] = "lazy, cached",
                                        [LAZY_STORED] = "stored, memory",
                                        [LAZY_DISK] = "stored, disk"};
    for (lazy_kind kind = LAZY_PLAIN; kind < LAZY_WAYS; kind++) {
        z->ways[kind].name = names[kind];
        z->ways[kind].kept = -1;
    }
    const layout l = look_at(z, ops, count);
    return write_all(z, &l, z->options->limit, false);
}

bool cli_lazy_check_texts(lazy *z, const stk_text_op *ops, size_t count)
{
    /* Whole batches, because what is left over may be dropped. */
    const int64_t rows = STK_MAX(z->batch_rows, (int64_t)1);
    int64_t take = (CHECK_SAMPLES + rows - 1) / rows * rows;
    if (z->options->limit)
        take = STK_MIN(take, z->options->limit);
    const layout l = look_at(z, ops, count);
    return write_all(z, &l, take, true);
}
