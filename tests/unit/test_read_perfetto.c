/* The Perfetto reader and writer on packets made by hand; tests/python/test_trace_protobuf.py has the real schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/wire.h"
#include "trace/perfetto.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { THREAD_UUID = 7 };

static void put_message(stk__text *t, uint32_t field, stk__text *message)
{
    stk__wire_put_bytes(t, field, message->data ? message->data : "", message->length);
    stk__text_clear(message);
}

static void put_str(stk__text *t, uint32_t field, const char *s)
{
    stk__wire_put_bytes(t, field, s, strlen(s));
}

static void put_packet(stk__text *file, stk__text *body)
{
    put_message(file, TRACE_PACKET, body);
}

static void put_thread(stk__text *file)
{
    stk__text thread = STK__TEXT_INIT, track = STK__TEXT_INIT, packet = STK__TEXT_INIT;
    stk__wire_put_uint(&thread, THREAD_PID, 10);
    stk__wire_put_uint(&thread, THREAD_TID, 11);
    put_str(&thread, THREAD_NAME, "main");
    stk__wire_put_uint(&track, TRACK_UUID, THREAD_UUID);
    put_message(&track, TRACK_THREAD, &thread);
    put_message(&packet, PACKET_TRACK_DESCRIPTOR, &track);
    put_packet(file, &packet);
}

static void put_event(stk__text *file, uint64_t ts, uint32_t type, const char *name)
{
    stk__text event = STK__TEXT_INIT, packet = STK__TEXT_INIT;
    stk__wire_put_uint(&event, EVENT_TYPE, type);
    stk__wire_put_uint(&event, EVENT_TRACK_UUID, THREAD_UUID);
    if (name)
        put_str(&event, EVENT_NAME_TEXT, name);
    stk__wire_put_uint(&packet, PACKET_TIMESTAMP, ts);
    stk__wire_put_uint(&packet, PACKET_SEQUENCE_ID, 1);
    put_message(&packet, PACKET_TRACK_EVENT, &event);
    put_packet(file, &packet);
}

static void put_slices(stk__text *file, unsigned count)
{
    char name[32];
    put_thread(file);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "slice %u", i);
        put_event(file, 100 * i + 100, EVENT_SLICE_BEGIN, name);
        put_event(file, 100 * i + 150, EVENT_SLICE_END, NULL);
    }
}

static stk_status try_read(const void *data, size_t size, const char *format, stk__trace **out)
{
    stk__builder *b;
    stk__input *in;
    stk_status status = stk__builder_new(&(stk__trace_options){0}, &b, NULL);
    if (status != STK_OK)
        return status;
    status = stk__input_open_memory(data, size, &in, NULL);
    if (status == STK_OK) {
        status = stk__trace_read(b, in, format, NULL);
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
    assert_int_equal(try_read(data, size, "perfetto", &t), STK_OK);
    return t;
}

static uint64_t note_count(const stk__trace *t, stk__trace_reason reason)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].reason == (uint32_t)reason ? t->notes[i].count : 0;
    return count;
}

static uint64_t all_notes(const stk__trace *t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].count;
    return count;
}

static void perfetto_begin_and_end_give_a_slice(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 3);
    stk__trace *t = read_all(file.data, file.length);
    assert_int_equal(t->slices.count, 3);
    assert_int_equal(t->slices.ts[1], 200);
    assert_int_equal(t->slices.dur[1], 50);
    assert_string_equal(stk__trace_str(t, t->slices.name[2]), "slice 2");
    assert_string_equal(stk__trace_str(t, t->threads[0].name), "main");
    assert_int_equal(t->processes[0].pid, 10);
    assert_int_equal(t->files[0].events, 6);
    assert_int_equal(all_notes(t), 0);
    stk__trace_free(t);
    stk__text_clear(&file);
}

static void perfetto_cut_off_anywhere_keeps_whole_packets(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 5);
    size_t last = 0;
    for (size_t cut = 1; cut < file.length; cut++) {
        stk__trace *t = read_all(file.data, cut);
        assert_true(note_count(t, STK__REASON_TRUNCATED) <= 1);
        assert_int_equal(note_count(t, STK__REASON_SYNTAX), 0);
        assert_true(t->slices.count >= last);
        last = t->slices.count;
        stk__trace_free(t);
    }
    assert_int_equal(last, 5);
    stk__text_clear(&file);
}

static void perfetto_reader_goes_on_behind_damage(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 10);
    for (size_t at = 20; at < file.length; at += 3) {
        char *damaged = stk__alloc(file.length);
        memcpy(damaged, file.data, file.length);
        damaged[at] = (char)(damaged[at] ^ 0xff);
        stk__trace *t = read_all(damaged, file.length);
        assert_true(t->slices.count >= 8);
        assert_true(t->files[0].text_bytes == file.length);
        stk__trace_free(t);
        stk__free(damaged);
    }
    stk__text_clear(&file);
}

static void perfetto_packet_of_a_huge_length_is_damage(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 3);
    stk__wire_put_tag(&file, TRACE_PACKET, STK__WIRE_BYTES);
    stk__wire_put_varint(&file, (uint64_t)1 << 40);
    put_event(&file, 900, EVENT_INSTANT, "behind");
    put_event(&file, 910, EVENT_INSTANT, "behind");
    stk__trace *t = read_all(file.data, file.length);
    assert_int_equal(t->slices.count, 5);
    assert_int_equal(note_count(t, STK__REASON_SYNTAX), 1);
    stk__trace_free(t);
    stk__text_clear(&file);
}

static void perfetto_state_is_needed_before_interned_names(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 1);
    for (int cleared = 0; cleared < 2; cleared++) {
        stk__text event = STK__TEXT_INIT, packet = STK__TEXT_INIT, name = STK__TEXT_INIT, data = STK__TEXT_INIT;
        stk__wire_put_uint(&name, INTERNED_IID, 5);
        put_str(&name, INTERNED_TEXT, "interned");
        put_message(&data, INTERNED_EVENT_NAME, &name);
        stk__wire_put_uint(&event, EVENT_TYPE, EVENT_INSTANT);
        stk__wire_put_uint(&event, EVENT_TRACK_UUID, THREAD_UUID);
        stk__wire_put_uint(&event, EVENT_NAME_IID, 5);
        stk__wire_put_uint(&packet, PACKET_TIMESTAMP, 900);
        stk__wire_put_uint(&packet, PACKET_SEQUENCE_FLAGS,
                           SEQUENCE_NEEDS_STATE | (cleared ? SEQUENCE_STATE_CLEARED : 0));
        put_message(&packet, PACKET_INTERNED_DATA, &data);
        put_message(&packet, PACKET_TRACK_EVENT, &event);
        put_packet(&file, &packet);
    }
    stk__trace *t = read_all(file.data, file.length);
    assert_int_equal(t->slices.count, 2);
    assert_string_equal(stk__trace_str(t, t->slices.name[1]), "interned");
    assert_int_equal(note_count(t, STK__REASON_BAD_REFERENCE), 1);
    assert_int_equal(t->files[0].events, 4);
    stk__trace_free(t);
    stk__text_clear(&file);
}

/* Writes to a file of its own and reads that; *out_report may be NULL. */
static stk__trace *write_and_read(const stk__trace *t, stk__write_report *report)
{
    char path[] = "/tmp/stoker-test-XXXXXX";
    char *data;
    size_t size;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(stk__trace_write(t, path, &stk__writer_perfetto, report, NULL), STK_OK);
    assert_int_equal(stk__read_file(path, 1 << 24, &data, &size, NULL), STK_OK);
    remove(path);
    stk__trace *copy = read_all(data, size);
    stk__free(data);
    return copy;
}

static void perfetto_round_trip_keeps_equal_times_and_unfinished_slices(void **state)
{
    stk__builder *b;
    stk__trace *t;
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made", "test");
    const uint32_t track = stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), 2, 0));
    static const int64_t spans[][2] = {{0, 100}, {0, 100}, {0, 50},   {50, 50}, {50, 0},
                                       {99, 1},  {100, 0}, {100, 10}, {110, 0}};
    for (size_t i = 0; i < STK_COUNT(spans); i++) {
        stk__builder_arg_int(b, stk__builder_str(b, "i"), (int64_t)i);
        stk__builder_slice(b, track, spans[i][0], spans[i][1], stk__builder_str(b, i % 2 ? "a" : "b"), 0, -1);
    }
    stk__builder_begin(b, track, 120, stk__builder_str(b, "open"), 0);
    stk__builder_begin(b, track, 130, stk__builder_str(b, "open too"), 0);
    stk__builder_instant(b, track, 140, stk__builder_str(b, "now"), stk__builder_str(b, "c"));
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    stk__write_report report = {0};
    stk__trace *copy = write_and_read(t, &report);
    assert_int_equal(report.slices, t->slices.count);
    assert_int_equal(copy->slices.count, t->slices.count);
    for (size_t i = 0; i < t->slices.count; i++) {
        assert_int_equal(copy->slices.ts[i], t->slices.ts[i]);
        assert_int_equal(copy->slices.dur[i], t->slices.dur[i]);
        assert_int_equal(copy->slices.depth[i], t->slices.depth[i]);
        assert_int_equal(copy->slices.flags[i], t->slices.flags[i]);
        assert_string_equal(stk__trace_str(copy, copy->slices.name[i]), stk__trace_str(t, t->slices.name[i]));
        if (t->slices.args[i])
            assert_int_equal(copy->args.value[copy->slices.args[i]].integer, t->args.value[t->slices.args[i]].integer);
    }
    stk__trace_free(copy);
    stk__trace_free(t);
}

static void perfetto_writer_moves_negative_times(void **state)
{
    stk__builder *b;
    stk__trace *t;
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made", "test");
    const uint32_t track = stk__builder_global_track(b);
    stk__builder_slice(b, track, -500, 100, stk__builder_str(b, "early"), 0, -1);
    stk__builder_slice(b, track, 200, 10, stk__builder_str(b, "late"), 0, -1);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    stk__trace *copy = write_and_read(t, &(stk__write_report){0});
    assert_int_equal(copy->slices.count, 2);
    assert_int_equal(copy->slices.ts[0], 0);
    assert_int_equal(copy->slices.ts[1], 700);
    assert_int_equal(copy->slices.dur[0], 100);
    stk__trace_free(copy);
    stk__trace_free(t);
}

static void perfetto_writer_counts_functions_that_it_cannot_carry(void **state)
{
    stk__builder *b;
    stk__trace *t;
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made", "test");
    const uint32_t frame = stk__builder_frame(b, &(stk__trace_frame){.name = stk__builder_str(b, "f")});
    stk__builder_function(b, &(stk__trace_function){.frame = frame, .calls = 3});
    stk__builder_instant(b, stk__builder_global_track(b), 5, stk__builder_str(b, "i"), 0);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    stk__write_report report = {0};
    stk__trace *copy = write_and_read(t, &report);
    assert_int_equal(report.lost_functions, 1);
    stk__trace_free(copy);
    stk__trace_free(t);
}

static void perfetto_survives_every_failed_allocation(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 3);
    unsigned failures = 0;
    for (uint64_t n = 1; n < 2000; n++) {
        stk__trace *t = NULL;
        stk__alloc_fail_at(n, true);
        const stk_status status = try_read(file.data, file.length, "perfetto", &t);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_int_equal(t->slices.count, 3);
            stk__trace_free(t);
            break;
        }
        assert_int_equal(status, STK_NOMEM);
        failures++;
    }
    assert_true(failures > 5 && failures < 1999);
    stk__text_clear(&file);
}

static void put_total(stk__text *file, uint64_t ts)
{
    stk__text arg = STK__TEXT_INIT, event = STK__TEXT_INIT, packet = STK__TEXT_INIT;
    stk__wire_put_uint(&event, EVENT_TYPE, EVENT_INSTANT);
    stk__wire_put_uint(&event, EVENT_TRACK_UUID, THREAD_UUID + 1);
    put_str(&event, EVENT_CATEGORY_TEXT, STK__TOTALS_CATEGORY);
    put_str(&event, EVENT_NAME_TEXT, STK__TOTALS_TOTAL);
    put_str(&arg, ARG_NAME_TEXT, "count");
    stk__wire_put_uint(&arg, ARG_UINT, 5);
    put_message(&event, EVENT_ARG, &arg);
    stk__wire_put_uint(&packet, PACKET_TIMESTAMP, ts);
    stk__wire_put_uint(&packet, PACKET_SEQUENCE_ID, 1);
    put_message(&packet, PACKET_TRACK_EVENT, &event);
    put_packet(file, &packet);
}

/* The track could be anything until its descriptor comes; in the copy, descriptors come first. */
static void perfetto_total_before_its_track_is_an_instant_until_written_again(void **state)
{
    (void)state;
    stk__text file = STK__TEXT_INIT, track = STK__TEXT_INIT, packet = STK__TEXT_INIT;
    put_slices(&file, 1);
    put_total(&file, 300);
    stk__wire_put_uint(&track, TRACK_UUID, THREAD_UUID + 1);
    put_str(&track, TRACK_NAME, STK__TOTALS_TRACK);
    put_message(&packet, PACKET_TRACK_DESCRIPTOR, &track);
    put_packet(&file, &packet);
    put_total(&file, 400);
    stk__trace *t = read_all(file.data, file.length);
    assert_int_equal(t->slices.count, 2);
    assert_int_equal(t->total_count, 1);
    assert_int_equal(t->totals[0].count, 5);
    stk__write_report report;
    stk__trace *copy = write_and_read(t, &report);
    assert_int_equal(report.slices, 2);
    assert_int_equal(copy->slices.count, 1);
    assert_int_equal(copy->total_count, 2);
    stk__trace_free(copy);
    stk__trace_free(t);
    stk__text_clear(&file);
}

static void perfetto_is_not_seen_in_text_and_other_bytes(void **state)
{
    static const char *const others[] = {"{\"traceEvents\":[]}",
                                         "\n{\"traceEvents\":[{\"name\":\"a\"}]}",
                                         "\n\n\n",
                                         "main;a 1\n",
                                         "",
                                         "\n\x02hi",
                                         "\n@PPPP"};
    stk__text file = STK__TEXT_INIT;
    put_slices(&file, 3);
    assert_true(stk__reader_perfetto.detect((const uint8_t *)file.data, file.length, true) >= 90);
    assert_int_equal(stk__reader_xplane.detect((const uint8_t *)file.data, file.length, true), 0);
    for (size_t i = 0; i < STK_COUNT(others); i++)
        assert_int_equal(stk__reader_perfetto.detect((const uint8_t *)others[i], strlen(others[i]), true), 0);
    stk__text_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perfetto_begin_and_end_give_a_slice),
        cmocka_unit_test(perfetto_cut_off_anywhere_keeps_whole_packets),
        cmocka_unit_test(perfetto_reader_goes_on_behind_damage),
        cmocka_unit_test(perfetto_packet_of_a_huge_length_is_damage),
        cmocka_unit_test(perfetto_state_is_needed_before_interned_names),
        cmocka_unit_test(perfetto_round_trip_keeps_equal_times_and_unfinished_slices),
        cmocka_unit_test(perfetto_writer_moves_negative_times),
        cmocka_unit_test(perfetto_writer_counts_functions_that_it_cannot_carry),
        cmocka_unit_test(perfetto_survives_every_failed_allocation),
        cmocka_unit_test(perfetto_total_before_its_track_is_an_instant_until_written_again),
        cmocka_unit_test(perfetto_is_not_seen_in_text_and_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
