/* Where writers write to: whole files, compression, failures; and finding a writer by the ending of a path. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "../remove_tree.h"
#include "base/file.h"
#include "base/mem.h"
#include "trace/writer.h"

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/stoker-test-sink-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    remove_tree(dir);
    return 0;
}

/* Text that packs well and is longer than all buffers. */
enum { LINES = 60000 };

static stk_status write_lines(const char *path, stk__sink_compression compression, uint64_t *out_bytes)
{
    stk__sink *sink;
    stk_error err;
    if (stk__sink_open(path, compression, &sink, &err) != STK_OK)
        return err.status;
    stk__text text = STK__TEXT_INIT;
    for (int i = 0; i < LINES; i++) {
        stk__text_printf(&text, "line %d of the file\n", i);
        if (i % 1000 == 999)
            stk__sink_text(sink, &text);
    }
    stk__text_clear(&text);
    *out_bytes = stk__sink_bytes(sink);
    return stk__sink_close(sink, &err);
}

static void assert_lines(const char *text, size_t size)
{
    const char *p = text, *end = text + size;
    for (int i = 0; i < LINES; i++) {
        char line[64];
        const int length = snprintf(line, sizeof line, "line %d of the file\n", i);
        assert_true(end - p >= length);
        assert_memory_equal(p, line, (size_t)length);
        p += length;
    }
    assert_ptr_equal(p, end);
}

static void sink_plain_file_has_all_that_was_written(void **state)
{
    uint64_t bytes;
    char *data;
    size_t size;
    assert_int_equal(write_lines(in_dir("plain"), STK__SINK_PLAIN, &bytes), STK_OK);
    assert_int_equal(stk__read_file(in_dir("plain"), SIZE_MAX / 2, &data, &size, NULL), STK_OK);
    assert_int_equal(size, bytes);
    assert_lines(data, size);
    stk__free(data);
}

static void sink_gzip_is_one_member_that_zlib_reads(void **state)
{
    uint64_t bytes;
    char *data;
    size_t size;
    assert_int_equal(write_lines(in_dir("x.gz"), STK__SINK_GZIP, &bytes), STK_OK);
    assert_int_equal(stk__read_file(in_dir("x.gz"), SIZE_MAX / 2, &data, &size, NULL), STK_OK);
    assert_true(size < bytes / 2);
    char *text = malloc(bytes + 1);
    z_stream z = {.next_in = (uint8_t *)data,
                  .avail_in = (unsigned)size,
                  .next_out = (uint8_t *)text,
                  .avail_out = (unsigned)bytes + 1};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(z.total_out, bytes);
    assert_lines(text, bytes);
    inflateEnd(&z);
    free(text);
    stk__free(data);
}

static void sink_zstd_is_read_by_zstd(void **state)
{
    uint64_t bytes;
    char *data;
    size_t size;
    assert_int_equal(write_lines(in_dir("x.zst"), STK__SINK_ZSTD, &bytes), STK_OK);
    assert_int_equal(stk__read_file(in_dir("x.zst"), SIZE_MAX / 2, &data, &size, NULL), STK_OK);
    char *text = malloc(bytes + 1);
    assert_int_equal(ZSTD_decompress(text, bytes + 1, data, size), bytes);
    assert_lines(text, bytes);
    free(text);
    stk__free(data);
}

static void sink_empty_files_are_valid(void **state)
{
    const struct {
        const char *name;
        stk__sink_compression compression;
        size_t least;
    } cases[] = {{"empty", STK__SINK_PLAIN, 0}, {"empty.gz", STK__SINK_GZIP, 20}, {"empty.zst", STK__SINK_ZSTD, 9}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__sink *sink;
        char *data;
        size_t size;
        assert_int_equal(stk__sink_open(in_dir(cases[i].name), cases[i].compression, &sink, NULL), STK_OK);
        assert_int_equal(stk__sink_close(sink, NULL), STK_OK);
        assert_int_equal(stk__read_file(in_dir(cases[i].name), 1000, &data, &size, NULL), STK_OK);
        assert_true(size >= cases[i].least && (cases[i].least || size == 0));
        stk__free(data);
    }
}

static void sink_abort_leaves_the_old_file(void **state)
{
    stk__sink *sink;
    char *data;
    size_t size;
    assert_int_equal(stk__write_file(in_dir("old"), "old", 3, NULL), STK_OK);
    assert_int_equal(stk__sink_open(in_dir("old"), STK__SINK_PLAIN, &sink, NULL), STK_OK);
    stk__sink_write(sink, "new", 3);
    stk__sink_abort(sink);
    assert_int_equal(stk__read_file(in_dir("old"), 10, &data, &size, NULL), STK_OK);
    assert_string_equal(data, "old");
    stk__free(data);
}

static void sink_text_that_ran_out_of_memory_fails_the_file(void **state)
{
    stk__sink *sink;
    stk_error err;
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, "half");
    text.failed = true;
    assert_int_equal(stk__sink_open(in_dir("half"), STK__SINK_PLAIN, &sink, NULL), STK_OK);
    stk__sink_text(sink, &text);
    assert_true(stk__sink_failed(sink));
    assert_int_equal(stk__sink_close(sink, &err), STK_NOMEM);
    assert_int_equal(err.status, STK_NOMEM);
    assert_int_not_equal(access(in_dir("half"), F_OK), 0);
    stk__text_clear(&text);
}

static void sink_on_a_full_disk_tells_and_leaves_nothing(void **state)
{
    const struct rlimit small = {1 << 16, RLIM_INFINITY};
    struct rlimit before;
    uint64_t bytes;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const stk_status status = write_lines(in_dir("full"), STK__SINK_PLAIN, &bytes);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, STK_IO);
    assert_int_not_equal(access(in_dir("full"), F_OK), 0);
}

static void sink_in_a_missing_directory_is_refused(void **state)
{
    stk__sink *sink = NULL;
    stk_error err;
    assert_int_equal(stk__sink_open(in_dir("no/such"), STK__SINK_GZIP, &sink, &err), STK_IO);
    assert_null(sink);
    assert_non_null(strstr(err.file, "no/such"));
}

static void sink_survives_every_failed_allocation(void **state)
{
    for (int compression = STK__SINK_PLAIN; compression <= STK__SINK_ZSTD; compression++) {
        for (uint64_t n = 1; n < 40; n++) {
            stk__sink *sink = NULL;
            stk__alloc_fail_at(n, false);
            if (stk__sink_open(in_dir("fail"), (stk__sink_compression)compression, &sink, NULL) == STK_OK) {
                stk__sink_write(sink, "text", 4);
                stk__sink_close(sink, NULL);
            }
            stk__alloc_fail_at(0, false);
        }
    }
}

/* ---- by the ending ---- */

static const char *format_for(const char *path, stk__sink_compression *out)
{
    const stk__trace_writer *writer = stk__trace_writer_for(path, out);
    return writer ? writer->name : "none";
}

static void writer_is_found_by_the_ending_of_a_path(void **state)
{
    const struct {
        const char *path, *format;
        stk__sink_compression compression;
    } cases[] = {
        {"a.json", "chrome", STK__SINK_PLAIN},
        {"a.json.gz", "chrome", STK__SINK_GZIP},
        {"a.JSON.GZ", "chrome", STK__SINK_GZIP},
        {"dir.csv/a.json.zst", "chrome", STK__SINK_ZSTD},
        {"a.speedscope.json", "speedscope", STK__SINK_PLAIN},
        {"a.speedscope.json.gz", "speedscope", STK__SINK_GZIP},
        {"a.csv", "csv", STK__SINK_PLAIN},
        {"a.ndjson.zst", "ndjson", STK__SINK_ZSTD},
        {"a.sqlite", "sqlite", STK__SINK_PLAIN},
        {"a.pftrace.gz", "perfetto", STK__SINK_GZIP},
        {"a.collapsed", "collapsed", STK__SINK_PLAIN},
        {"a", "none", STK__SINK_PLAIN},
        {"a.gz", "none", STK__SINK_GZIP},
        {".json", "none", STK__SINK_PLAIN},
        {"", "none", STK__SINK_PLAIN},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__sink_compression compression;
        assert_string_equal(format_for(cases[i].path, &compression), cases[i].format);
        assert_int_equal(compression, cases[i].compression);
    }
}

static void writer_names_are_found_and_differ(void **state)
{
    for (size_t i = 0; stk__trace_writers[i]; i++) {
        const stk__trace_writer *w = stk__trace_writers[i];
        assert_ptr_equal(stk__trace_writer_find(w->name), w);
        assert_true((w->write != NULL) != (w->write_path != NULL));
        assert_true(w->extensions[0] == '.' && w->summary[0]);
    }
    assert_null(stk__trace_writer_find("jpeg"));
}

static bool always(void)
{
    return true;
}

static void a_sink_that_is_stopped_leaves_nothing(void **state)
{
    (void)state;
    stk__sink *sink = NULL;
    char path[] = "/tmp/stoker-test-stopped.json";
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__sink_open(path, STK__SINK_PLAIN, &sink, NULL), STK_OK);
    stk__sink_write(sink, "a", 1);
    stk__sink_stop_when(sink, always);
    stk__sink_write(sink, "b", 1);
    assert_true(stk__sink_failed(sink));
    assert_int_equal(stk__sink_close(sink, &err), STK_CANCELLED);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_device_is_written_to_as_it_is(void **state)
{
    (void)state;
    stk__sink *sink = NULL;
    assert_int_equal(stk__sink_open("/dev/null", STK__SINK_GZIP, &sink, NULL), STK_OK);
    stk__sink_write(sink, "a", 1);
    assert_int_equal(stk__sink_close(sink, NULL), STK_OK);
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__sink_open("/dev/full", STK__SINK_PLAIN, &sink, NULL), STK_OK);
    stk__sink_write(sink, "a", 1);
    assert_int_equal(stk__sink_close(sink, &err), STK_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sink_plain_file_has_all_that_was_written),
        cmocka_unit_test(sink_gzip_is_one_member_that_zlib_reads),
        cmocka_unit_test(sink_zstd_is_read_by_zstd),
        cmocka_unit_test(sink_empty_files_are_valid),
        cmocka_unit_test(sink_abort_leaves_the_old_file),
        cmocka_unit_test(sink_text_that_ran_out_of_memory_fails_the_file),
        cmocka_unit_test(sink_on_a_full_disk_tells_and_leaves_nothing),
        cmocka_unit_test(sink_in_a_missing_directory_is_refused),
        cmocka_unit_test(sink_survives_every_failed_allocation),
        cmocka_unit_test(writer_is_found_by_the_ending_of_a_path),
        cmocka_unit_test(writer_names_are_found_and_differ),
        cmocka_unit_test(a_sink_that_is_stopped_leaves_nothing),
        cmocka_unit_test(a_device_is_written_to_as_it_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
