/* Order ops in random chains, against a model that keeps lists: over an index, over a stream, and behind filters. */
#include "harness.h"

#include "base/mem.h"
#include "base/rng.h"

enum { LIST_MAX = 4096 };

/* The elements at one place of the pipeline: samples, or batches that are runs of `values`. */
typedef struct list {
    int64_t *values;
    size_t count;
    size_t *starts; /* of batches; starts[batches] is the end */
    size_t batches;
    bool batched;
} list;

static void list_init(list *l)
{
    *l = (list){.values = stk__calloc(LIST_MAX, sizeof *l->values), .starts = stk__calloc(LIST_MAX, sizeof *l->starts)};
    assert_true(l->values && l->starts);
}

static void list_clear(list *l)
{
    stk__free(l->values);
    stk__free(l->starts);
}

static size_t length(const list *l)
{
    return l->batched ? l->batches : l->count;
}

/* Appends element i of `from`. */
static void append(list *to, const list *from, size_t i)
{
    const size_t start = from->batched ? from->starts[i] : i, end = from->batched ? from->starts[i + 1] : i + 1;
    assert_true(to->count + (end - start) < LIST_MAX && to->batches + 1 < LIST_MAX);
    for (size_t k = start; k < end; k++)
        to->values[to->count++] = from->values[k];
    if (from->batched)
        to->starts[++to->batches] = to->count;
}

/* Keeps the elements for which keep(i) is true, `rounds` times over. */
typedef bool (*keep_function)(const list *l, size_t i, int64_t a, int64_t b);

static void rebuild(list *l, keep_function keep, int64_t a, int64_t b, int64_t rounds)
{
    list next;
    list_init(&next);
    next.batched = l->batched;
    for (int64_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < length(l); i++)
            if (keep(l, i, a, b))
                append(&next, l, i);
    list_clear(l);
    *l = next;
}

static bool keep_all(const list *l, size_t i, int64_t a, int64_t b)
{
    return true;
}

static bool keep_first(const list *l, size_t i, int64_t a, int64_t b)
{
    return (int64_t)i < a;
}

static bool keep_rest(const list *l, size_t i, int64_t a, int64_t b)
{
    return (int64_t)i >= a;
}

static bool keep_part(const list *l, size_t i, int64_t a, int64_t b)
{
    return (int64_t)i % a == b;
}

static bool keep_no_multiples(const list *l, size_t i, int64_t a, int64_t b)
{
    return l->values[i] % a != 0;
}

static void make_batches(list *l, int64_t size, bool drop_last)
{
    l->batched = true;
    l->batches = 0;
    size_t end = 0;
    while (end < l->count) {
        const size_t rows = STK_MIN((size_t)size, l->count - end);
        if (drop_last && rows < (size_t)size)
            break;
        end += rows;
        l->starts[++l->batches] = end;
    }
    l->count = end;
}

static uint64_t seed, draws;

static int64_t draw(int64_t below)
{
    return (int64_t)(stk__mix(seed, draws++) % (uint64_t)below);
}

/* One random order op, as text and on the model. */
static void add_order_op(stk__text *t, list *l, bool may_repeat, bool *out_repeated)
{
    const int64_t n = draw(14), parts = 1 + draw(4), index = draw(parts);
    *out_repeated = false;
    switch (draw(may_repeat ? 4 : 3)) {
    case 0:
        stk__text_printf(t, " | take(%lld)", (long long)n * 2);
        rebuild(l, keep_first, n * 2, 0, 1);
        break;
    case 1:
        stk__text_printf(t, " | skip(%lld)", (long long)n / 2);
        rebuild(l, keep_rest, n / 2, 0, 1);
        break;
    case 2:
        stk__text_printf(t, " | shard(count=%lld, index=%lld)", (long long)parts, (long long)index);
        rebuild(l, keep_part, parts, index, 1);
        break;
    default:
        stk__text_printf(t, " | repeat(%lld)", (long long)n % 3 + 1);
        rebuild(l, keep_all, 0, 0, n % 3 + 1);
        *out_repeated = true;
    }
}

static void add_batch(stk__text *t, list *l)
{
    const int64_t size = 1 + draw(6);
    const bool drop_last = draw(3) == 0;
    stk__text_printf(t, " | batch(%lld, drop_last=%s)", (long long)size, drop_last ? "true" : "false");
    make_batches(l, size, drop_last);
}

/* Behind a filter at most four ops count; behind a batch of unknown number at most one may repeat. */
static void make_pipeline(stk__text *t, list *l, bool filters, bool counted)
{
    const int64_t before = draw(4);
    int64_t behind_filter = 0;
    bool filtered = false, repeated;
    for (int64_t i = 0; i < before; i++) {
        if (filters && (i == 0 || draw(3) == 0)) {
            const int64_t a = 2 + draw(3);
            stk__text_printf(t, " | filter(\"value %% %lld != 0\")", (long long)a);
            rebuild(l, keep_no_multiples, a, 0, 1);
            filtered = true;
        }
        if (!filtered || behind_filter++ < 4)
            add_order_op(t, l, l->count < 200, &repeated);
    }
    add_batch(t, l);
    bool has_repeat = false;
    for (int64_t i = draw(4); i > 0; i--) {
        add_order_op(t, l, l->count < 200 && (counted || !has_repeat), &repeated);
        has_repeat = has_repeat || repeated;
    }
}

static void assert_like_model(const char *text, const list *l, int threads)
{
    stk_config config = harness_config();
    config.threads = threads;
    config.no_approximate = true;
    seen s;
    run_all(text, &config, &s);
    if (s.count != l->batches || s.value_count != l->count)
        fail_msg("'%s' gave %zu batches with %zu values, wanted %zu with %zu", text, s.count, s.value_count, l->batches,
                 l->count);
    for (size_t i = 0; i < s.count; i++)
        if ((size_t)s.batches[i].rows != l->starts[i + 1] - l->starts[i] || s.batches[i].index != (int64_t)i)
            fail_msg("'%s': batch %zu has %lld rows, wanted %zu", text, i, (long long)s.batches[i].rows,
                     l->starts[i + 1] - l->starts[i]);
    for (size_t i = 0; i < s.value_count; i++)
        if (s.values[i] != l->values[i])
            fail_msg("'%s': value %zu is %lld, wanted %lld", text, i, (long long)s.values[i], (long long)l->values[i]);
    seen_clear(&s);
}

static void check_random_pipelines(const char *source, int64_t count, bool filters, bool counted, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        list l;
        list_init(&l);
        const int64_t n = counted ? draw(30) : count;
        for (int64_t i = 0; i < n; i++)
            l.values[l.count++] = i;
        stk__text t = STK__TEXT_INIT;
        if (counted)
            stk__text_printf(&t, "range(%lld)", (long long)n);
        else
            stk__text_puts(&t, source);
        make_pipeline(&t, &l, filters, counted && !filters);
        assert_like_model(t.data, &l, 1 + round % 3);
        stk__text_clear(&t);
        list_clear(&l);
    }
}

static void order_ops_over_an_index_follow_the_model(void **state)
{
    seed = 1, draws = 0;
    check_random_pipelines(NULL, 0, false, true, 400);
}

static void order_ops_with_filters_follow_the_model(void **state)
{
    seed = 2, draws = 0;
    check_random_pipelines(NULL, 0, true, true, 400);
}

static void order_ops_over_a_stream_follow_the_model(void **state)
{
    write_data();
    seed = 3, draws = 0;
    check_random_pipelines("tfrecord(\"$D/b-*.gz\") | parse(value=int64)", 23, false, false, 200);
}

static void order_ops_over_a_stream_with_filters_follow_the_model(void **state)
{
    write_data();
    seed = 4, draws = 0;
    check_random_pipelines("tfrecord(\"$D/b-*.gz\") | parse(value=int64)", 23, true, false, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(order_ops_over_an_index_follow_the_model),
        OP_TEST(order_ops_with_filters_follow_the_model),
        OP_TEST(order_ops_over_a_stream_follow_the_model),
        OP_TEST(order_ops_over_a_stream_with_filters_follow_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
