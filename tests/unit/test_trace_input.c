/* The input of trace readers: windows over plain and compressed bytes, whole and damaged. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "trace/input.h"

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes text_of(size_t size)
{
    bytes b = {malloc(size), size};
    uint32_t x = 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        b.data[i] = (uint8_t)('a' + (x >> 24) % 16);
    }
    return b;
}

static bytes gzip(bytes plain)
{
    bytes out = {malloc(plain.size + 1024), 0};
    z_stream z = {.next_in = plain.data,
                  .avail_in = (uInt)plain.size,
                  .next_out = out.data,
                  .avail_out = (uInt)plain.size + 1024};
    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.size = z.total_out;
    deflateEnd(&z);
    return out;
}

static bytes zstd(bytes plain)
{
    bytes out = {malloc(ZSTD_compressBound(plain.size)), 0};
    out.size = ZSTD_compress(out.data, ZSTD_compressBound(plain.size), plain.data, plain.size, 1);
    return out;
}

static bytes joined(bytes a, bytes b)
{
    bytes out = {malloc(a.size + b.size), a.size + b.size};
    memcpy(out.data, a.data, a.size);
    memcpy(out.data + a.size, b.data, b.size);
    return out;
}

/* Reads everything in steps of many sizes; returns what was read before the end. */
static bytes drain(stk__input *in)
{
    bytes out = {malloc(1), 0};
    uint32_t x = 7;
    for (;;) {
        size_t size;
        x = x * 1664525 + 1013904223;
        const size_t want = 1 + (x >> 8) % 70000;
        const uint8_t *p = stk__input_peek(in, want, &size);
        if (!size)
            break;
        assert_int_equal(stk__input_offset(in), (int64_t)out.size);
        const size_t take = size < want ? size : want;
        out.data = realloc(out.data, out.size + take);
        memcpy(out.data + out.size, p, take);
        out.size += take;
        stk__input_advance(in, take);
    }
    assert_true(stk__input_at_end(in));
    return out;
}

static void write_temp(char *path, bytes b)
{
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b.data, b.size), (ssize_t)b.size);
    close(fd);
}

/* From memory and from a file the same bytes come, with the same status at the end. */
static void check(bytes packed, bytes wanted, const char *compression, stk_status status)
{
    char path[] = "/tmp/stoker-test-XXXXXX";
    write_temp(path, packed);
    for (int from_file = 0; from_file < 2; from_file++) {
        stk__input *in;
        if (from_file)
            assert_int_equal(stk__input_open(path, &in, NULL), STK_OK);
        else
            assert_int_equal(stk__input_open_memory(packed.data, packed.size, &in, NULL), STK_OK);
        bytes got = drain(in);
        assert_int_equal(got.size, wanted.size);
        assert_memory_equal(got.data, wanted.data, wanted.size);
        assert_string_equal(stk__input_compression(in), compression);
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk__input_status(in, &err), status);
        assert_int_equal(stk__input_bytes_total(in), packed.size);
        stk__input_close(in);
        free(got.data);
    }
    unlink(path);
}

static void plain_gzip_and_zstd_give_the_same_bytes(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 2, 3, 100, 70000, 5000000};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        bytes plain = text_of(sizes[i]), g = gzip(plain), z = zstd(plain);
        check(plain, plain, "", STK_OK);
        check(g, plain, "gzip", STK_OK);
        check(z, plain, "zstd", STK_OK);
        free(plain.data);
        free(g.data);
        free(z.data);
    }
}

static void many_members_and_frames_are_one_text(void **state)
{
    (void)state;
    bytes a = text_of(300000), b = text_of(10), both = joined(a, b);
    bytes ga = gzip(a), gb = gzip(b), g = joined(ga, gb);
    bytes za = zstd(a), zb = zstd(b), z = joined(za, zb);
    check(g, both, "gzip", STK_OK);
    check(z, both, "zstd", STK_OK);
    bytes *all[] = {&a, &b, &both, &ga, &gb, &g, &za, &zb, &z};
    for (size_t i = 0; i < STK_COUNT(all); i++)
        free(all[i]->data);
}

static void what_comes_before_the_cut_is_given(void **state)
{
    (void)state;
    bytes plain = text_of(400000), packed[2] = {gzip(plain), zstd(plain)};
    for (int i = 0; i < 2; i++) {
        for (size_t cut = 1; cut < packed[i].size; cut += packed[i].size / 17) {
            stk__input *in;
            assert_int_equal(stk__input_open_memory(packed[i].data, packed[i].size - cut, &in, NULL), STK_OK);
            bytes got = drain(in);
            assert_true(got.size <= plain.size);
            if (got.size && packed[i].size - cut > 4)
                assert_memory_equal(got.data, plain.data, got.size);
            if (packed[i].size - cut > 4)
                assert_int_equal(stk__input_status(in, NULL), STK_CORRUPT);
            stk__input_close(in);
            free(got.data);
        }
        free(packed[i].data);
    }
    free(plain.data);
}

static void garbage_behind_gzip_is_told(void **state)
{
    (void)state;
    bytes plain = text_of(5000), g = gzip(plain), junk = {(uint8_t *)"junk", 4}, both = joined(g, junk);
    check(both, plain, "gzip", STK_CORRUPT);
    free(plain.data);
    free(g.data);
    free(both.data);
}

static void an_empty_file_has_no_bytes(void **state)
{
    (void)state;
    stk__input *in;
    assert_int_equal(stk__input_open_memory("", 0, &in, NULL), STK_OK);
    assert_true(stk__input_at_end(in));
    assert_int_equal(stk__input_status(in, NULL), STK_OK);
    stk__input_close(in);
}

static void closing_early_stops_the_thread(void **state)
{
    (void)state;
    bytes plain = text_of(20000000), g = gzip(plain);
    char path[] = "/tmp/stoker-test-XXXXXX";
    write_temp(path, g);
    for (int i = 0; i < 5; i++) {
        stk__input *in;
        size_t size;
        assert_int_equal(stk__input_open(path, &in, NULL), STK_OK);
        if (i)
            stk__input_peek(in, (size_t)i * 1000000, &size);
        stk__input_close(in);
    }
    unlink(path);
    free(plain.data);
    free(g.data);
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    stk__input *in = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__input_open("/nowhere.json", &in, &err), STK_IO);
    assert_string_equal(err.file, "/nowhere.json");
}

static bool count_down(void *arg)
{
    int *left = arg;
    return --*left > 0;
}

/* Nothing comes: asked often enough, the user says that it is enough. With and without a thread. */
static void waiting_for_a_pipe_can_be_stopped(void **state)
{
    (void)state;
    static const uint8_t start[] = {0x1f, 0x8b, 8, 0};
    for (int packed = 0; packed < 2; packed++) {
        int ends[2], left = 3;
        char path[64];
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(pipe(ends), 0);
        if (packed)
            assert_int_equal(write(ends[1], start, sizeof start), sizeof start);
        snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
        stk__input *in = NULL;
        stk_status status = stk__input_open_watched(path, count_down, &left, &in, &err);
        if (packed) {
            assert_int_equal(status, STK_OK);
            assert_true(stk__input_at_end(in));
            status = stk__input_status(in, &err);
            stk__input_close(in);
        }
        assert_int_equal(status, STK_CANCELLED);
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_gzip_and_zstd_give_the_same_bytes),
        cmocka_unit_test(many_members_and_frames_are_one_text),
        cmocka_unit_test(what_comes_before_the_cut_is_given),
        cmocka_unit_test(garbage_behind_gzip_is_told),
        cmocka_unit_test(an_empty_file_has_no_bytes),
        cmocka_unit_test(closing_early_stops_the_thread),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
        cmocka_unit_test(waiting_for_a_pipe_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
