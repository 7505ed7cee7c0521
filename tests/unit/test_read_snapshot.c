/*
 * Memory snapshots: levels, what is held at the peak, what was there before, and running out of memory. Figures of many
 * more are compared with Python's in test_snapshot.py.
 */
#include "profile_files.h"

/* The seeds of the fuzz target are snapshots in every protocol. */
static char *seed(const char *name, size_t *out_size)
{
    char path[PATH_MAX], *data;
    const char *here = __FILE__, *end = strstr(here, "unit/test_read_snapshot.c");
    assert_non_null(end);
    snprintf(path, sizeof path, "%.*sfuzz/corpus/fuzz_snapshot/%s", (int)(end - here), here, name);
    assert_int_equal(stk__read_file(path, SIZE_MAX / 2, &data, out_size, NULL), STK_OK);
    return data;
}

static stk__trace *read_seed(const char *name)
{
    size_t size;
    char *data = seed(name, &size);
    stk__trace *t = read_bytes(data, size, NULL);
    stk__free(data);
    return t;
}

/* Weights of all samples of a unit. */
static int64_t weight_of(const stk__trace *t, stk__unit unit)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->samples.count; i++)
        sum += t->tracks[t->samples.track[i]].unit == (uint32_t)unit ? t->samples.weight[i] : 0;
    return sum;
}

static const stk__trace_track *counter_named(const stk__trace *t, const char *name)
{
    for (size_t i = 0; i < t->track_count; i++) {
        if (t->tracks[i].kind == STK__TRACK_COUNTER && strcmp(stk__trace_str(t, t->tracks[i].name), name) == 0)
            return &t->tracks[i];
    }
    fail_msg("no counter %s", name);
    return NULL;
}

static void check_levels(const stk__trace *t, const char *name, const double *levels, size_t count)
{
    const stk__trace_track *track = counter_named(t, name);
    assert_int_equal(track->counter_count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(t->counters.value[track->first_counter + i] == levels[i]);
}

static void snapshot_of_every_protocol_has_the_same_levels(void **state)
{
    /* 100 bytes that the history frees and 40 of a block that waits for its free were there before it */
    static const double allocated[] = {140, 40, 340, 540, 240}, reserved[] = {0, 8192, 4096, 4096};
    for (int protocol = 0; protocol <= 5; protocol++) {
        char name[32];
        snprintf(name, sizeof name, "protocol-%d.pickle", protocol);
        stk__trace *t = read_seed(name);
        assert_string_equal(stk__trace_str(t, t->files[0].format), "snapshot");
        assert_int_equal(all_notes(t), 0);
        check_levels(t, "allocated", allocated, STK_COUNT(allocated));
        check_levels(t, "reserved", reserved, STK_COUNT(reserved));
        assert_int_equal(weight_of(t, STK__UNIT_BYTES), 540);
        assert_int_equal(weight_of(t, STK__UNIT_ALLOCATED), 500);
        assert_int_equal(t->slices.count, 3);
        stk__trace_free(t);
    }
}

static void snapshot_leaves_frames_of_the_allocator_out(void **state)
{
    stk__trace *t = read_seed("protocol-4.pickle");
    char stack[256];
    size_t known = 0;
    for (size_t i = 0; i < t->samples.count; i++) {
        stack_text(t, i, stack, sizeof stack);
        known += strcmp(stack, "main;step") == 0;
        assert_null(strstr(stack, "unwind"));
        assert_null(strstr(stack, "CachingAllocator"));
    }
    assert_int_equal(known, 4);
    stk__trace_free(t);
}

static void snapshot_without_history_is_its_blocks(void **state)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } files[] = {{"no-history.pickle", 240}, {"segments-only.pickle", 240}, {"old-history.pickle", 500}};
    for (size_t i = 0; i < STK_COUNT(files); i++) {
        stk__trace *t = read_seed(files[i].name);
        assert_int_equal(t->counters.count, 0);
        assert_int_equal(weight_of(t, STK__UNIT_BYTES), files[i].bytes);
        assert_int_equal(weight_of(t, STK__UNIT_ALLOCATED), 0);
        assert_true(t->samples.ts[0] == STK__NO_TIME);
        stk__trace_free(t);
    }
}

static stk_status try_read(const char *data, size_t size, stk__trace **out, stk_error *err)
{
    stk__input *in;
    stk__builder *b;
    STK_TRY(stk__input_open_memory(data, size, &in, err));
    stk_status status = stk__builder_new(NULL, &b, err);
    if (status == STK_OK) {
        status = stk__trace_read(b, in, "snapshot", err);
        if (status == STK_OK)
            status = stk__builder_finish(b, out, err);
        else
            stk__builder_free(b);
    }
    stk__input_close(in);
    return status;
}

static void snapshot_that_is_none_is_refused_by_name(void **state)
{
    static const struct {
        const char *data, *says;
    } files[] = {
        {"cos\nsystem\n(S'x'\ntR.",
         "a pickle that makes something by calling os.system, not a memory snapshot of PyTorch; "
         "nothing of it was run"},
        {"](K\1e.", "a pickle, but not a memory snapshot of PyTorch: wanted a dict with segments and device_traces"},
        {"}(K\1", "a pickle that is cut off before anything of a memory snapshot"},
        {"\377", "a pickle that cannot be read: byte 1: found byte 0xff, wanted an operation of a pickle"},
    };
    for (size_t i = 0; i < STK_COUNT(files); i++) {
        stk__trace *t;
        stk_error err;
        stk_error_clear(&err);
        assert_int_not_equal(try_read(files[i].data, strlen(files[i].data), &t, &err), STK_OK);
        assert_string_equal(err.message, files[i].says);
    }
}

static void snapshot_survives_every_failed_allocation(void **state)
{
    size_t size;
    char *data = seed("protocol-2.pickle", &size);
    unsigned failures = 0;
    bool done = false;
    for (uint64_t n = 1; n < 4000 && !done; n++) {
        stk__trace *t = NULL;
        stk__alloc_fail_at(n, true);
        const stk_status status = try_read(data, size, &t, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_int_equal(weight_of(t, STK__UNIT_BYTES), 540);
            stk__trace_free(t);
            done = true;
        } else {
            assert_int_equal(status, STK_NOMEM);
            failures++;
        }
    }
    assert_true(done && failures > 20);
    stk__free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshot_of_every_protocol_has_the_same_levels),
        cmocka_unit_test(snapshot_leaves_frames_of_the_allocator_out),
        cmocka_unit_test(snapshot_without_history_is_its_blocks),
        cmocka_unit_test(snapshot_that_is_none_is_refused_by_name),
        cmocka_unit_test(snapshot_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
