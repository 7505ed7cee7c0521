/* Hand-made Chrome JSON files, one per corner case: what each of them must give, and what must be noted about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trace/reader.h"

typedef struct expected {
    const char *file;
    uint64_t events;
    size_t slices, instants, counters, flow_points, samples, args;
    const char *notes; /* in the order of STK__TRACE_REASONS */
} expected;

/* The number is the group of corner cases. clang-format off */
static const expected cases[] = {
    {"01_array_never_closed.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"01_array_trailing_comma.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"01_array_trailing_empty_object.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"01_object_array_not_closed.json", 2, 2, 0, 0, 0, 0, 0, "syntax 1"},
    {"01_object_cut_behind_head.json", 0, 0, 0, 0, 0, 0, 0, "truncated 1"},
    {"01_object_cut_between_events.json", 2, 2, 0, 0, 0, 0, 0, "truncated 1"},
    {"01_object_cut_in_args.json", 2, 1, 0, 0, 0, 0, 0, "truncated 1"},
    {"01_object_cut_in_event.json", 2, 1, 0, 0, 0, 0, 0, "truncated 1"},
    {"01_object_cut_in_head.json", 0, 0, 0, 0, 0, 0, 0, "truncated 1"},
    {"01_object_cut_in_string.json", 2, 1, 0, 0, 0, 0, 0, "truncated 1"},
    {"02_dftracer.pfw", 3, 3, 0, 0, 0, 0, 9, ""},
    {"02_dftracer_joined.pfw", 2, 2, 0, 0, 0, 0, 2, ""},
    {"02_missing_commas.json", 3, 3, 0, 0, 0, 0, 0, ""},
    {"02_ndjson.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"03_events_last_behind_huge_value.json", 1, 1, 0, 0, 0, 0, 0, "no_place 3"},
    {"03_keys_around_events.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"03_stack_frames_and_samples.json", 4, 1, 0, 0, 0, 4, 0, "bad_reference 1"},
    {"03_stack_frames_in_a_circle.json", 2, 0, 0, 0, 0, 2, 0, "bad_reference 1"},
    {"03_stack_in_event.json", 1, 0, 0, 0, 0, 1, 0, ""},
    {"03_system_trace_skipped.json", 1, 1, 0, 0, 0, 0, 0, "unknown_kind 1"},
    {"04_byte_order_mark.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"04_gzip_named_json.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"04_gzip_two_members.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"04_leading_newline.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"04_plain_named_gz.json.gz", 1, 1, 0, 0, 0, 0, 0, ""},
    {"05_concatenated_after_cut.json", 3, 2, 0, 0, 0, 0, 0, "syntax 1, truncated 1"},
    {"05_concatenated_arrays.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"05_concatenated_objects.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"05_empty.json", 0, 0, 0, 0, 0, 0, 0, "truncated 1"},
    {"05_empty_array.json", 0, 0, 0, 0, 0, 0, 0, ""},
    {"05_empty_object.json", 0, 0, 0, 0, 0, 0, 0, ""},
    {"05_nested_arrays.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"05_no_json_before.json", 2, 2, 0, 0, 0, 0, 0, "syntax 1"},
    {"05_only_space.json", 0, 0, 0, 0, 0, 0, 0, "truncated 1"},
    {"06_more_than_three_decimals.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"06_time_at_the_limits.json", 4, 2, 0, 0, 0, 0, 0, "no_time 2, long_duration 2"},
    {"06_time_missing.json", 2, 0, 0, 0, 0, 0, 0, "no_time 1"},
    {"06_time_unusable.json", 6, 0, 0, 0, 0, 0, 0, "no_time 6"},
    {"06_times_of_all_kinds.json", 7, 7, 0, 0, 0, 0, 0, ""},
    {"06_whole_microseconds.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"07_display_unit_is_no_scale.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"08_bare_words_as_times.json", 3, 2, 0, 0, 0, 0, 0, "no_time 1, no_duration 2, number 3"},
    {"08_bare_words_in_args.json", 1, 1, 0, 0, 0, 0, 7, "number 7"},
    {"08_large_integers.json", 1, 1, 0, 0, 0, 0, 6, "number 2"},
    {"08_missing_values.json", 1, 1, 0, 0, 0, 0, 2, "number 2"},
    {"09_array_in_args_cut.json", 4, 3, 0, 0, 0, 0, 0, "syntax 1"},
    {"09_bad_utf8.json", 2, 2, 0, 0, 0, 0, 0, "text 2"},
    {"09_brace_missing.json", 4, 3, 0, 0, 0, 0, 0, "syntax 1"},
    {"09_control_bytes.json", 2, 2, 0, 0, 0, 0, 0, "text 2"},
    {"09_garbage_between_events.json", 3, 3, 0, 0, 0, 0, 0, "syntax 2"},
    {"09_good_utf8.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"09_lone_surrogates.json", 3, 3, 0, 0, 0, 0, 0, "escape 3"},
    {"09_null_bytes.json", 2, 2, 0, 0, 0, 0, 0, "syntax 1"},
    {"09_string_cut_by_next_line.json", 4, 3, 0, 0, 0, 0, 0, "syntax 1"},
    {"09_string_never_closed.json", 4, 3, 0, 0, 0, 0, 0, "syntax 1"},
    {"09_surrogate_pair.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"09_unescaped_backslash.json", 2, 2, 0, 0, 0, 0, 0, "escape 2"},
    {"09_unescaped_quotes.json", 3, 3, 0, 0, 0, 0, 0, "escape 6"},
    {"10_ids_missing.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"10_numbers_as_text_ids.json", 3, 3, 0, 0, 0, 0, 0, ""},
    {"10_odd_ids.json", 4, 4, 0, 0, 0, 0, 0, "text_id 5"},
    {"10_text_ids.json", 3, 3, 0, 0, 0, 0, 0, "text_id 4"},
    {"10_tid_reused_across_pids.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"11_args_given_twice.json", 1, 1, 0, 0, 0, 0, 1, "duplicate_key 1"},
    {"11_args_of_all_kinds.json", 6, 6, 0, 0, 0, 0, 7, ""},
    {"11_duplicate_keys.json", 1, 1, 0, 0, 0, 0, 2, "duplicate_key 3"},
    {"11_keys_beside_args.json", 1, 1, 0, 0, 0, 0, 5, ""},
    {"11_keys_differ_by_case.json", 1, 1, 0, 0, 0, 0, 4, ""},
    {"11_names.json", 4, 4, 0, 0, 0, 0, 0, ""},
    {"11_phase_unknown.json", 5, 0, 0, 0, 0, 0, 0, "no_phase 5"},
    {"12_unsorted.json", 5, 5, 0, 0, 0, 0, 0, ""},
    {"13_begin_end.json", 4, 2, 0, 0, 0, 0, 2, ""},
    {"13_begin_without_end.json", 4, 3, 0, 0, 0, 0, 0, "no_end 1"},
    {"13_end_of_another_name.json", 4, 2, 0, 0, 0, 0, 0, "rounded 1"},
    {"13_end_without_begin.json", 4, 1, 0, 0, 0, 0, 0, "end_without_begin 2"},
    {"13_mixed_with_complete.json", 3, 2, 0, 0, 0, 0, 0, ""},
    {"13_zero_length.json", 2, 1, 0, 0, 0, 0, 0, ""},
    {"14_overlap.json", 3, 3, 0, 0, 0, 0, 0, "overlap 1"},
    {"14_overlap_of_rounding.json", 2, 2, 0, 0, 0, 0, 0, "rounded 1"},
    {"15_async_ends_elsewhere.json", 2, 1, 0, 0, 0, 0, 0, ""},
    {"15_async_hex_and_number.json", 4, 2, 0, 0, 0, 0, 0, ""},
    {"15_async_id2.json", 6, 3, 0, 0, 0, 0, 0, ""},
    {"15_async_nested.json", 5, 2, 1, 0, 0, 0, 0, ""},
    {"15_async_old.json", 4, 1, 2, 0, 0, 0, 1, ""},
    {"15_async_scopes.json", 6, 3, 0, 0, 0, 0, 0, ""},
    {"15_async_without_id.json", 2, 0, 0, 0, 0, 0, 0, "bad_reference 2"},
    {"16_flow.json", 4, 2, 0, 0, 2, 0, 0, ""},
    {"16_flow_bound_to_slices.json", 3, 3, 0, 0, 3, 0, 0, ""},
    {"16_flow_end_without_start.json", 2, 1, 0, 0, 1, 0, 0, "no_flow_start 1"},
    {"16_flow_hex_id.json", 4, 2, 0, 0, 2, 0, 0, ""},
    {"16_flow_same_id_other_name.json", 6, 2, 0, 0, 4, 0, 0, ""},
    {"16_flow_steps_only.json", 4, 2, 0, 0, 2, 0, 0, ""},
    {"16_flow_to_next_slice.json", 4, 2, 0, 0, 2, 0, 0, ""},
    {"16_flow_without_id.json", 1, 0, 0, 0, 0, 0, 0, "bad_reference 1"},
    {"17_counter_ids.json", 3, 0, 0, 3, 0, 0, 0, "text_id 1"},
    {"17_counter_series.json", 4, 0, 0, 5, 0, 0, 0, ""},
    {"17_counter_values.json", 8, 0, 0, 3, 0, 0, 0, "bad_value 5, number 1"},
    {"18_metadata_after_use.json", 6, 1, 0, 0, 0, 0, 0, ""},
    {"18_metadata_given_again.json", 3, 0, 0, 0, 0, 0, 0, "redefined 1"},
    {"18_metadata_many.json", 300, 0, 0, 0, 0, 0, 0, ""},
    {"18_metadata_of_other_kinds.json", 4, 0, 0, 0, 0, 0, 0, "unknown_kind 1, bad_value 2"},
    {"18_our_recorder.json", 6, 1, 0, 1, 0, 0, 1, "lost_by_recorder 9"},
    {"19_durations.json", 5, 5, 0, 0, 0, 0, 0, "negative_duration 1, no_duration 3"},
    {"19_instants.json", 7, 0, 7, 0, 0, 0, 0, ""},
    {"19_other_phases.json", 8, 0, 0, 0, 0, 0, 0, "unknown_kind 8"},
    {"19_sample_without_stack.json", 1, 0, 1, 0, 0, 0, 1, ""},
    {"20_rank_and_base.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"20_time_goes_back.json", 3, 3, 0, 0, 0, 0, 0, ""},
    {"21_containers_in_containers.json", 0, 0, 0, 0, 0, 0, 0, "truncated 1, too_deep 1"},
    {"21_deep_key_objects.json", 1, 1, 0, 0, 0, 0, 0, "no_place 1"},
    {"21_depth_bomb.json", 2, 2, 0, 0, 0, 0, 2, "too_deep 1"},
    {"21_depth_bomb_open.json", 2, 1, 0, 0, 0, 0, 0, "truncated 1"},
    {"21_depth_of_arrays.json", 1, 1, 0, 0, 0, 0, 0, ""},
    {"21_long_name.json", 2, 2, 0, 0, 0, 0, 0, ""},
    {"21_many_args.json", 1, 1, 0, 0, 0, 0, 1000, ""},
};
/* clang-format on */

/* The files stand beside this one; the build runs tests in its own directory, from which __FILE__ is right. */
static void path_of(const char *file, char *out, size_t size)
{
    const char *here = __FILE__, *end = strstr(here, "unit/test_chrome_corpus.c");
    assert_non_null(end);
    snprintf(out, size, "%.*sdata/traces/chrome/%s", (int)(end - here), here, file);
}

static stk__input *open_case(const char *file)
{
    char path[512];
    stk__input *in = NULL;
    stk_error err;
    stk_error_clear(&err);
    path_of(file, path, sizeof path);
    if (stk__input_open(path, &in, &err) != STK_OK)
        fail_msg("%s: %s", path, err.message);
    return in;
}

static stk__trace *read_case(const char *file)
{
    stk__builder *b;
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    stk__input *in = open_case(file);
    assert_int_equal(stk__builder_new(NULL, &b, &err), STK_OK);
    if (stk__trace_read(b, in, "chrome", &err) != STK_OK)
        fail_msg("%s: %s", file, err.message);
    stk__input_close(in);
    assert_int_equal(stk__builder_finish(b, &t, &err), STK_OK);
    return t;
}

static void list_notes(const stk__trace *t, stk__text *out)
{
    static const char *const names[] = {
#define NAME(name, lower, kind, text) #name,
        STK__TRACE_REASONS(NAME)
#undef NAME
    };
    for (uint32_t reason = 0; reason < STK__REASON_COUNT; reason++) {
        for (size_t i = 0; i < t->note_count; i++) {
            if (t->notes[i].reason != reason)
                continue;
            stk__text_puts(out, out->length ? ", " : "");
            for (const char *c = names[reason]; *c; c++)
                stk__text_putc(out, *c == '_' ? '_' : (char)(*c | 0x20));
            stk__text_printf(out, " %llu", (unsigned long long)t->notes[i].count);
        }
    }
}

static size_t count_args(const stk__trace *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->slices.count; i++) {
        for (size_t row = t->slices.args[i]; row; row = t->args.type[row] & STK__ARG_LAST ? 0 : row + 1)
            count++;
    }
    return count;
}

static void each_file_gives_what_it_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const expected *want = &cases[i];
        stk__text got = STK__TEXT_INIT, wanted = STK__TEXT_INIT, notes = STK__TEXT_INIT;
        stk__trace *t = read_case(want->file);
        size_t instants = 0;
        for (size_t k = 0; k < t->slices.count; k++)
            instants += t->slices.flags[k] & STK__SLICE_INSTANT;
        list_notes(t, &notes);
        stk__text_printf(&got, "%s: %llu, %zu, %zu, %zu, %zu, %zu, %zu, %s", want->file,
                         (unsigned long long)t->files[0].events, t->slices.count - instants, instants,
                         t->counters.count, t->points.count, t->samples.count, count_args(t),
                         notes.data ? notes.data : "");
        stk__text_printf(&wanted, "%s: %llu, %zu, %zu, %zu, %zu, %zu, %zu, %s", want->file,
                         (unsigned long long)want->events, want->slices, want->instants, want->counters,
                         want->flow_points, want->samples, want->args, want->notes);
        assert_string_equal(got.data, wanted.data);
        stk__trace_free(t);
        stk__text_clear(&got);
        stk__text_clear(&wanted);
        stk__text_clear(&notes);
    }
}

/* All that were lost or changed have a place in the file, but for what is only seen when all events are there. */
static void notes_of_what_was_left_out_have_an_offset(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stk__trace *t = read_case(cases[i].file);
        for (size_t k = 0; k < t->note_count; k++) {
            const uint32_t reason = t->notes[k].reason;
            if (reason == STK__REASON_SYNTAX || reason == STK__REASON_NO_TIME || reason == STK__REASON_NO_PHASE ||
                reason == STK__REASON_TRUNCATED || reason == STK__REASON_UNKNOWN_KIND)
                assert_in_range(t->notes[k].offset, 0, t->files[0].text_bytes);
        }
        stk__trace_free(t);
    }
}

static void each_file_is_known_by_its_content(void **state)
{
    (void)state;
    static const char *const unknown[] = {"05_empty.json", "05_only_space.json", "05_no_json_before.json"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool known = true;
        size_t size;
        for (size_t k = 0; k < sizeof unknown / sizeof unknown[0]; k++)
            known &= strcmp(cases[i].file, unknown[k]) != 0;
        stk__input *in = open_case(cases[i].file);
        const uint8_t *data = stk__input_peek(in, 65536, &size);
        if ((stk__reader_chrome.detect(data, size < 65536 ? size : 65536, size < 65536) > 0) != known)
            fail_msg("%s: %s", cases[i].file, known ? "not known" : "taken for Chrome JSON");
        stk__input_close(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_gives_what_it_holds),
        cmocka_unit_test(notes_of_what_was_left_out_have_an_offset),
        cmocka_unit_test(each_file_is_known_by_its_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
