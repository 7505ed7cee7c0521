/* The xplane reader on messages made by hand; tests/python/test_trace_protobuf.py has the real schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/wire.h"
#include "trace/reader.h"

static void put_message(stk__text *t, uint32_t field, stk__text *message)
{
    stk__wire_put_bytes(t, field, message->data ? message->data : "", message->length);
    stk__text_clear(message);
}

static void put_str(stk__text *t, uint32_t field, const char *s)
{
    stk__wire_put_bytes(t, field, s, strlen(s));
}

static void put_event(stk__text *line, uint64_t id, int64_t offset_ps, int64_t duration_ps)
{
    stk__text event = STK__TEXT_INIT;
    stk__wire_put_uint(&event, 1, id);
    stk__wire_put_uint(&event, 2, (uint64_t)offset_ps);
    stk__wire_put_uint(&event, 3, (uint64_t)duration_ps);
    put_message(line, 4, &event);
}

static void put_metadata(stk__text *plane, uint32_t field, uint64_t id, const char *name)
{
    stk__text entry = STK__TEXT_INIT, value = STK__TEXT_INIT;
    stk__wire_put_uint(&value, 1, id);
    put_str(&value, 2, name);
    stk__wire_put_uint(&entry, 1, id);
    put_message(&entry, 2, &value);
    put_message(plane, field, &entry);
}

/* One plane with one line of events at a time; names come behind them. */
static void put_plane(stk__text *space, const int64_t spans[][2], size_t count, int64_t timestamp_ns)
{
    stk__text plane = STK__TEXT_INIT, line = STK__TEXT_INIT;
    stk__wire_put_uint(&plane, 1, 4);
    put_str(&plane, 2, "/host:CPU");
    stk__wire_put_uint(&line, 1, 9);
    put_str(&line, 2, "python");
    stk__wire_put_uint(&line, 3, (uint64_t)timestamp_ns);
    for (size_t i = 0; i < count; i++)
        put_event(&line, 1 + i % 2, spans[i][0], spans[i][1]);
    put_message(&plane, 3, &line);
    put_metadata(&plane, 4, 1, "train");
    put_metadata(&plane, 4, 2, "IteratorGetNext");
    put_message(space, 1, &plane);
}

static stk_status try_read(const void *data, size_t size, stk__trace **out)
{
    stk__builder *b;
    stk__input *in;
    stk_status status = stk__builder_new(&(stk__trace_options){0}, &b, NULL);
    if (status != STK_OK)
        return status;
    status = stk__input_open_memory(data, size, &in, NULL);
    if (status == STK_OK) {
        status = stk__trace_read(b, in, "xplane", NULL);
        stk__input_close(in);
    }
    if (status != STK_OK) {
        stk__builder_free(b);
        return status;
    }
    return stk__builder_finish(b, out, NULL);
}

static stk__trace *read_all(const void *data, size_t size)
{
    stk__trace *t;
    assert_int_equal(try_read(data, size, &t), STK_OK);
    return t;
}

static uint64_t note_count(const stk__trace *t, stk__trace_reason reason)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].reason == (uint32_t)reason ? t->notes[i].count : 0;
    return count;
}

static void xplane_rounds_picoseconds_to_the_nearest_ns(void **state)
{
    static const int64_t spans[][2] = {{0, 10499}, {1499, 1000}, {1500, 1000}, {-1500, 0}, {-499, 0}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, STK_COUNT(spans), 5000);
    stk__trace *t = read_all(space.data, space.length);
    static const int64_t wanted[][2] = {{4999, 0}, {5000, 10}, {5000, 0}, {5001, 1}, {5002, 1}};
    size_t found = 0;
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        for (size_t row = 0; row < t->slices.count; row++)
            found += t->slices.ts[row] == wanted[i][0] && t->slices.dur[row] == wanted[i][1];
    }
    assert_int_equal(t->slices.count, 5);
    assert_int_equal(found, 5);
    assert_int_equal(t->files[0].resolution_ns, 1);
    stk__trace_free(t);
    stk__text_clear(&space);
}

static void xplane_names_come_behind_the_events(void **state)
{
    static const int64_t spans[][2] = {{0, 5000}, {1000, 1000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 2, INT64_C(1700000000000000000));
    stk__trace *t = read_all(space.data, space.length);
    assert_int_equal(t->slices.count, 2);
    assert_string_equal(stk__trace_str(t, t->slices.name[0]), "train");
    assert_string_equal(stk__trace_str(t, t->slices.name[1]), "IteratorGetNext");
    assert_int_equal(t->slices.parent[1], 0);
    assert_string_equal(stk__trace_str(t, t->processes[0].name), "/host:CPU");
    assert_int_equal(t->threads[0].tid, 9);
    assert_int_equal(t->files[0].clock, STK__CLOCK_REALTIME);
    assert_int_equal(t->files[0].realtime_ns, 0);
    assert_int_equal(t->files[0].resolution_ns, 0);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
    stk__text_clear(&space);
}

static void xplane_planes_of_one_id_stay_apart(void **state)
{
    static const int64_t spans[][2] = {{0, 5000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 1, 0);
    put_plane(&space, spans, 1, 0);
    stk__trace *t = read_all(space.data, space.length);
    assert_int_equal(t->process_count, 2);
    assert_int_not_equal(t->processes[0].pid, t->processes[1].pid);
    assert_int_equal(t->slices.count, 2);
    assert_int_not_equal(t->slices.track[0], t->slices.track[1]);
    stk__trace_free(t);
    stk__text_clear(&space);
}

static void xplane_cut_off_anywhere_is_noted_once(void **state)
{
    static const int64_t spans[][2] = {{0, 1000}, {2000, 1000}, {4000, 1000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 3, 100);
    size_t last = 0;
    for (size_t cut = 1; cut < space.length; cut++) {
        stk__trace *t = read_all(space.data, cut);
        assert_int_equal(note_count(t, STK__REASON_TRUNCATED), 1);
        assert_int_equal(note_count(t, STK__REASON_SYNTAX), 0);
        assert_true(t->slices.count >= last);
        last = t->slices.count;
        stk__trace_free(t);
    }
    assert_int_equal(last, 3);
    stk__text_clear(&space);
}

static void xplane_without_metadata_still_gives_the_events(void **state)
{
    stk__text space = STK__TEXT_INIT, plane = STK__TEXT_INIT, line = STK__TEXT_INIT;
    put_event(&line, 42, 0, 1000);
    put_message(&plane, 3, &line);
    put_message(&space, 1, &plane);
    stk__trace *t = read_all(space.data, space.length);
    assert_int_equal(t->slices.count, 1);
    assert_string_equal(stk__trace_str(t, t->slices.name[0]), "event 42");
    assert_int_equal(note_count(t, STK__REASON_BAD_REFERENCE), 1);
    stk__trace_free(t);
    stk__text_clear(&space);
}

static void xplane_times_past_the_range_are_left_out(void **state)
{
    static const int64_t spans[][2] = {{INT64_MAX, INT64_MAX}, {INT64_MIN, -5}, {0, -1000}, {0, 1000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 4, INT64_MAX - 10);
    put_plane(&space, spans, 4, 10);
    stk__trace *t = read_all(space.data, space.length);
    assert_int_equal(t->slices.count, 2);
    assert_int_equal(note_count(t, STK__REASON_NO_TIME), 6);
    assert_int_equal(note_count(t, STK__REASON_NEGATIVE_DURATION), 1);
    assert_int_equal(t->files[0].events, 8);
    stk__trace_free(t);
    stk__text_clear(&space);
}

static void xplane_survives_every_failed_allocation(void **state)
{
    static const int64_t spans[][2] = {{0, 1000}, {2000, 1000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 2, 100);
    unsigned failures = 0;
    for (uint64_t n = 1; n < 2000; n++) {
        stk__trace *t = NULL;
        stk__alloc_fail_at(n, true);
        const stk_status status = try_read(space.data, space.length, &t);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_int_equal(t->slices.count, 2);
            stk__trace_free(t);
            break;
        }
        assert_int_equal(status, STK_NOMEM);
        failures++;
    }
    assert_true(failures > 5 && failures < 1999);
    stk__text_clear(&space);
}

static void xplane_is_not_seen_in_text_and_other_bytes(void **state)
{
    static const char *const others[] = {
        "{\"traceEvents\":[]}", "\n{\"traceEvents\":[{\"name\":\"a\"}]}", "\n\n\n", "main;a 1\n", "", "\n\x02hi"};
    static const int64_t spans[][2] = {{0, 1000}, {2000, 1000}};
    stk__text space = STK__TEXT_INIT;
    put_plane(&space, spans, 2, 100);
    const uint8_t *data = (const uint8_t *)space.data;
    assert_true(stk__reader_xplane.detect(data, space.length, true) >= 90);
    assert_true(stk__reader_xplane.detect(data, space.length - 20, false) >= 90);
    assert_int_equal(stk__reader_perfetto.detect(data, space.length, true), 0);
    for (size_t i = 0; i < STK_COUNT(others); i++)
        assert_int_equal(stk__reader_xplane.detect((const uint8_t *)others[i], strlen(others[i]), true), 0);
    stk__text_clear(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xplane_rounds_picoseconds_to_the_nearest_ns),
        cmocka_unit_test(xplane_names_come_behind_the_events),
        cmocka_unit_test(xplane_planes_of_one_id_stay_apart),
        cmocka_unit_test(xplane_cut_off_anywhere_is_noted_once),
        cmocka_unit_test(xplane_without_metadata_still_gives_the_events),
        cmocka_unit_test(xplane_times_past_the_range_are_left_out),
        cmocka_unit_test(xplane_survives_every_failed_allocation),
        cmocka_unit_test(xplane_is_not_seen_in_text_and_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
