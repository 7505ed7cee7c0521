/* Record files read from front to back: framings, compressions, and every kind of bad input. */
#include "record_files.h"

#include <zlib.h>

/* Appends data as one gzip member, or as zlib. */
static void put_deflated(stk__text *t, const void *data, size_t size, stk__compression kind)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, kind == STK__GZIP ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t room = deflateBound(&z, (uLong)size) + 64;
    uint8_t *out = stk__alloc(room);
    assert_non_null(out);
    z.next_in = (z_const Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    stk__text_write(t, out, room - z.avail_out);
    deflateEnd(&z);
    stk__free(out);
}

static stk__record_stream *open_stream(const char *path, stk__framing framing)
{
    stk__record_stream *s = NULL;
    assert_int_equal(stk__record_stream_open(path, framing, true, &s, NULL), STK_OK);
    return s;
}

/* Reads samples [from, to) and leaves the stream behind them. */
static void expect_samples(stk__record_stream *s, uint64_t from, uint64_t to, size_t max)
{
    stk_bytes bytes;
    int64_t offset;
    bool again;
    for (uint64_t n = from; n < to; n++) {
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        assert_true(is_sample(n, max, bytes.data, (size_t)bytes.size));
    }
}

/* The next call fails with `status` and a message that holds `part`; after that comes END unless it can go on. */
static stk_error expect_error(stk__record_stream *s, const char *part, bool want_again)
{
    stk_bytes bytes;
    int64_t offset;
    bool again = !want_again;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, &err), STK_CORRUPT);
    assert_int_equal(again, want_again);
    assert_int_equal(err.status, STK_CORRUPT);
    if (!strstr(err.message, part))
        fail_msg("message is '%s', wanted '%s' in it", err.message, part);
    return err;
}

static void expect_end(stk__record_stream *s)
{
    stk_bytes bytes;
    int64_t offset;
    bool again = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_END);
        assert_false(again);
    }
}

/* Writes a file, reads `good` samples from it, then expects the error, which nothing can follow. */
static stk_error expect_bad_file(const stk__text *t, uint64_t good, size_t max, const char *part)
{
    const char *path = write_bytes("bad", t->data ? t->data : "", t->length);
    stk__record_stream *s = open_stream(path, STK__FRAMING_TFRECORD);
    expect_samples(s, 0, good, max);
    const stk_error err = expect_error(s, part, false);
    assert_string_equal(err.file, path);
    assert_int_equal(err.record, good);
    expect_end(s);
    stk__record_stream_close(s);
    return err;
}

static void put_samples(stk__text *t, uint64_t from, uint64_t to, size_t max)
{
    for (uint64_t n = from; n < to; n++)
        put_sample(t, n, max);
}

static void stream_of_each_compression_gives_the_same_records(void **state)
{
    enum { COUNT = 400, MAX = 9000 };
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, COUNT, MAX);
    for (stk__compression kind = STK__PLAIN; kind <= STK__ZLIB; kind++) {
        stk__text_reset(&file);
        if (kind == STK__PLAIN)
            stk__text_write(&file, plain.data, plain.length);
        else
            put_deflated(&file, plain.data, plain.length, kind);
        stk__record_stream *s = open_stream(write_bytes("same", file.data, file.length), STK__FRAMING_TFRECORD);
        int64_t want_offset = 12;
        for (uint64_t n = 0; n < COUNT; n++) {
            stk_bytes bytes;
            int64_t offset;
            bool again;
            assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
            assert_true(is_sample(n, MAX, bytes.data, (size_t)bytes.size));
            assert_int_equal(offset, want_offset);
            want_offset += bytes.size + 16;
        }
        expect_end(s);
        assert_int_equal(stk__record_stream_bytes(s), file.length);
        stk__record_stream_close(s);
    }
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void stream_reads_records_larger_than_its_buffers(void **state)
{
    enum { MAX = 1500000 };
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 6, MAX);
    put_deflated(&file, plain.data, plain.length, STK__ZLIB);
    stk__record_stream *s = open_stream(write_bytes("large", plain.data, plain.length), STK__FRAMING_TFRECORD);
    expect_samples(s, 0, 6, MAX);
    expect_end(s);
    stk__record_stream_close(s);
    s = open_stream(write_bytes("large", file.data, file.length), STK__FRAMING_TFRECORD);
    expect_samples(s, 0, 6, MAX);
    expect_end(s);
    stk__record_stream_close(s);
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

/* 256 KiB is the window: sizes around it take both ways. */
static void stream_reads_records_around_the_window_size(void **state)
{
    stk__text t = STK__TEXT_INIT;
    uint8_t *data = stk__calloc(1, (256 << 10) + 64);
    assert_non_null(data);
    for (size_t size = (256 << 10) - 40; size < (256 << 10) + 8; size++)
        put_record(&t, data, size);
    stk__record_stream *s = open_stream(write_bytes("window", t.data, t.length), STK__FRAMING_TFRECORD);
    for (size_t size = (256 << 10) - 40; size < (256 << 10) + 8; size++) {
        stk_bytes bytes;
        int64_t offset;
        bool again;
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        assert_int_equal(bytes.size, size);
        assert_memory_equal(bytes.data, data, size);
    }
    expect_end(s);
    stk__record_stream_close(s);
    stk__free(data);
    stk__text_clear(&t);
}

static void stream_of_gzip_members_reads_through_all_of_them(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 100, 3000);
    /* Cut anywhere, also inside records, with an empty member in between. */
    const size_t cut = plain.length / 3 + 5;
    put_deflated(&file, plain.data, cut, STK__GZIP);
    put_deflated(&file, "", 0, STK__GZIP);
    put_deflated(&file, plain.data + cut, plain.length - cut, STK__GZIP);
    stk__record_stream *s = open_stream(write_bytes("members", file.data, file.length), STK__FRAMING_TFRECORD);
    expect_samples(s, 0, 100, 3000);
    expect_end(s);
    stk__record_stream_close(s);
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void stream_of_an_empty_file_ends_at_once(void **state)
{
    stk__record_stream *s = open_stream(write_text("empty", ""), STK__FRAMING_TFRECORD);
    expect_end(s);
    stk__record_stream_close(s);
    s = open_stream(in_dir("empty"), STK__FRAMING_LINES);
    expect_end(s);
    stk__record_stream_close(s);
}

static void stream_of_a_missing_file_or_a_directory_fails_with_its_name(void **state)
{
    stk__record_stream *s = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__record_stream_open(in_dir("missing"), STK__FRAMING_TFRECORD, true, &s, &err), STK_IO);
    assert_string_equal(err.file, in_dir("missing"));
    stk_error_clear(&err);
    assert_int_equal(stk__record_stream_open(test_dir, STK__FRAMING_TFRECORD, true, &s, &err), STK_IO);
    assert_string_equal(err.file, test_dir);
    assert_null(s);
}

static void stream_goes_on_after_bad_data(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_record(&t, "first", 5);
    const size_t second = t.length;
    put_record(&t, "second", 6);
    put_record(&t, "third", 5);
    const char *path = NULL;
    for (size_t at = second + 12; at < second + 12 + 6 + 4; at++) { /* each byte of data and data CRC */
        t.data[at] ^= 0x10;
        path = write_bytes("data", t.data, t.length);
        stk__record_stream *s = open_stream(path, STK__FRAMING_TFRECORD);
        stk_bytes bytes;
        int64_t offset;
        bool again;
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        const stk_error err = expect_error(s, "data CRC of 6 bytes is 0x", true);
        assert_int_equal(err.record, 1);
        assert_int_equal(err.offset, second);
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        assert_int_equal(bytes.size, 5);
        assert_memory_equal(bytes.data, "third", 5);
        expect_end(s);
        stk__record_stream_close(s);
        t.data[at] ^= 0x10;
    }
    stk__text_clear(&t);
}

static void stream_that_does_not_verify_gives_bad_data_out(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_record(&t, "first", 5);
    t.data[12] = 'F';
    stk__record_stream *s = NULL;
    assert_int_equal(
        stk__record_stream_open(write_bytes("raw", t.data, t.length), STK__FRAMING_TFRECORD, false, &s, NULL), STK_OK);
    stk_bytes bytes;
    int64_t offset;
    bool again;
    assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
    assert_memory_equal(bytes.data, "First", 5);
    expect_end(s);
    stk__record_stream_close(s);
    stk__text_clear(&t);
}

static void stream_stops_at_a_bad_length_or_length_crc(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 3, 50);
    const size_t third = t.length;
    put_samples(&t, 3, 5, 50);
    for (size_t at = third; at < third + 12; at++) {
        t.data[at] ^= 4;
        const stk_error err = expect_bad_file(&t, 3, 50, "length CRC is 0x");
        assert_int_equal(err.offset, third);
        t.data[at] ^= 4;
    }
    stk__text_clear(&t);
}

static void stream_of_another_format_says_it_is_no_tfrecord(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"json\": [1, 2, 3]}");
    const stk_error err = expect_bad_file(&t, 0, 0, "is no TFRecord file: it begins with 7b 22 6a 73");
    assert_int_equal(err.offset, 0);
    stk__text_clear(&t);
}

static void stream_cut_at_any_byte_gives_the_whole_records_then_an_error(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 2, 60);
    const size_t start = t.length;
    put_samples(&t, 2, 3, 60);
    for (size_t length = start + 1; length < t.length; length++) {
        const stk__text cut = {.data = t.data, .length = length};
        const stk_error err = expect_bad_file(&cut, 2, 60, "file ends inside a record");
        assert_int_equal(err.offset, start);
    }
    stk__text_clear(&t);
}

static void stream_with_an_absurd_length_neither_allocates_nor_overflows(void **state)
{
    const uint64_t lengths[] = {UINT64_MAX,      UINT64_MAX - 3,    (uint64_t)1 << 63, INT64_MAX,        INT64_MAX - 16,
                                INT64_MAX - 100, (uint64_t)1 << 62, (uint64_t)1 << 40, (uint64_t)1 << 32};
    for (size_t i = 0; i < STK_COUNT(lengths); i++) {
        stk__text t = STK__TEXT_INIT;
        put_sample(&t, 0, 50);
        put_header(&t, lengths[i]);
        stk__text_puts(&t, "little data");
        expect_bad_file(&t, 1, 50, "record");
        stk__text_clear(&t);
    }
}

static void stream_of_cut_compressed_data_is_corrupt(void **state)
{
    for (stk__compression kind = STK__GZIP; kind <= STK__ZLIB; kind++) {
        stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
        put_samples(&plain, 0, 3, 900);
        put_deflated(&file, plain.data, plain.length, kind);
        /* Without its trailer all records are there, but nothing vouches for them: still an error. */
        for (size_t missing = 1; missing <= (kind == STK__GZIP ? 8 : 4); missing++) {
            const stk__text cut = {.data = file.data, .length = file.length - missing};
            expect_bad_file(&cut, 3, 900, "data ends early");
        }
        const stk__text half = {.data = file.data, .length = file.length / 2};
        const char *path = write_bytes("half", half.data, half.length);
        stk__record_stream *s = open_stream(path, STK__FRAMING_TFRECORD);
        stk_bytes bytes;
        int64_t offset;
        bool again;
        stk_status status;
        do
            status = stk__record_stream_next(s, &bytes, &offset, &again, NULL);
        while (status == STK_OK);
        assert_int_equal(status, STK_CORRUPT);
        expect_end(s);
        stk__record_stream_close(s);
        stk__text_clear(&plain);
        stk__text_clear(&file);
    }
}

static void stream_of_little_cut_zlib_data_still_says_so(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_record(&plain, "abc", 3);
    put_deflated(&file, plain.data, plain.length, STK__ZLIB);
    for (size_t length = 2; length < 10; length++) {
        const stk__text cut = {.data = file.data, .length = length};
        expect_bad_file(&cut, 0, 0, "zlib data ends early: the file has only");
    }
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void stream_with_a_bad_gzip_trailer_is_corrupt(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 3, 900);
    put_deflated(&file, plain.data, plain.length, STK__GZIP);
    file.data[file.length - 8] ^= 1;
    expect_bad_file(&file, 3, 900, "incorrect data check");
    file.data[file.length - 8] ^= 1;
    file.data[file.length - 1] ^= 1;
    expect_bad_file(&file, 3, 900, "incorrect length check");
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void stream_with_garbage_or_a_wrong_member_after_gzip_is_corrupt(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 3, 900);
    put_deflated(&file, plain.data, plain.length, STK__GZIP);
    const size_t length = file.length;
    stk__text_puts(&file, "garbage");
    const stk_error err = expect_bad_file(&file, 3, 900, "garbage after the gzip data, from stored byte");
    assert_non_null(strstr(err.message, "found 0x67"));
    file.length = length;
    stk__text_write(&file, "\x1f\x8b\x07\x00zzzzzzzzzz", 14); /* a member whose method is not deflate */
    expect_bad_file(&file, 3, 900, "unknown compression method");
    file.length = length;
    put_deflated(&file, plain.data, plain.length, STK__ZLIB); /* a member of another kind */
    expect_bad_file(&file, 3, 900, "garbage after the gzip data");
    stk__text_reset(&file);
    put_deflated(&file, plain.data, plain.length, STK__ZLIB);
    stk__text_putc(&file, 'x');
    expect_bad_file(&file, 3, 900, "garbage after the zlib data");
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void stream_of_compressed_data_that_holds_no_records_is_corrupt(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_deflated(&file, "this is a text, not a record", 28, STK__GZIP);
    expect_bad_file(&file, 0, 0, "is no TFRecord file");
    stk__text_clear(&file);
}

static void stream_offsets_count_uncompressed_bytes(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 20, 900);
    const size_t bad = plain.length;
    put_samples(&plain, 20, 21, 900);
    plain.data[bad + 3] ^= 1;
    put_deflated(&file, plain.data, plain.length, STK__GZIP);
    const stk_error err = expect_bad_file(&file, 20, 900, "length CRC");
    assert_int_equal(err.offset, bad);
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

static void expect_lines(const char *path, const line_case *want)
{
    stk__record_stream *s = open_stream(path, STK__FRAMING_LINES);
    for (int k = 0; want->lines[k]; k++) {
        stk_bytes bytes;
        int64_t offset;
        bool again;
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        assert_int_equal(bytes.size, strlen(want->lines[k]));
        assert_memory_equal(bytes.data, want->lines[k], (size_t)bytes.size);
        assert_memory_equal(want->text + offset, want->lines[k], (size_t)bytes.size);
    }
    expect_end(s);
    stk__record_stream_close(s);
}

static void stream_of_lines_cuts_line_ends_off(void **state)
{
    for (size_t i = 0; i < STK_COUNT(line_cases); i++) {
        expect_lines(write_text("lines", line_cases[i].text), &line_cases[i]);
        stk__text gzip = STK__TEXT_INIT;
        put_deflated(&gzip, line_cases[i].text, strlen(line_cases[i].text), STK__GZIP);
        expect_lines(write_bytes("lines", gzip.data, gzip.length), &line_cases[i]);
        stk__text_clear(&gzip);
    }
}

static void stream_reads_lines_longer_than_the_window(void **state)
{
    const size_t sizes[] = {(256 << 10) - 1, 256 << 10, (256 << 10) + 1, 3, 900000, 0, 512 << 10};
    for (int ending = 0; ending < 3; ending++) { /* "\n", "\r\n", "\n" but for the last line */
        stk__text t = STK__TEXT_INIT;
        for (size_t i = 0; i < STK_COUNT(sizes); i++) {
            for (size_t k = 0; k < sizes[i]; k++)
                stk__text_putc(&t, (char)('a' + i));
            if (ending < 2 || i + 1 < STK_COUNT(sizes))
                stk__text_puts(&t, ending == 1 ? "\r\n" : "\n");
        }
        stk__record_stream *s = open_stream(write_bytes("long", t.data, t.length), STK__FRAMING_LINES);
        for (size_t i = 0; i < STK_COUNT(sizes); i++) {
            stk_bytes bytes;
            int64_t offset;
            bool again;
            assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
            assert_int_equal(bytes.size, sizes[i]);
            assert_memory_equal(bytes.data, t.data + offset, sizes[i]);
        }
        expect_end(s);
        stk__record_stream_close(s);
        stk__text_clear(&t);
    }
}

static void stream_of_dash_reads_standard_input(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 3, 100);
    int ends[2];
    const int saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], t.data, t.length), (ssize_t)t.length);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    stk__record_stream *s = open_stream("-", STK__FRAMING_TFRECORD);
    expect_samples(s, 0, 3, 100);
    expect_end(s);
    stk__record_stream_close(s);
    dup2(saved, STDIN_FILENO);
    close(saved);
    stk__text_clear(&t);
}

static void compression_is_told_by_the_first_bytes(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__compression found = STK__GZIP;
    /* A record of 376 = 0x0178 bytes begins like zlib data; so does one of 0x5e78. */
    const size_t sizes[] = {0x0178, 0x5e78, 0x9c78, 0xda78, 0x8b1f};
    uint8_t *data = stk__calloc(1, 0x10000);
    assert_non_null(data);
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        stk__text_reset(&t);
        put_record(&t, data, sizes[i]);
        assert_int_equal(stk__compression_of(write_bytes("c", t.data, t.length), STK__FRAMING_TFRECORD, &found, NULL),
                         STK_OK);
        assert_int_equal(found, STK__PLAIN);
    }
    stk__text_reset(&t);
    put_record(&t, data, 0x0178);
    t.data[9] ^= 1; /* a damaged header is still no zlib data */
    assert_int_equal(stk__compression_of(write_bytes("c", t.data, t.length), STK__FRAMING_TFRECORD, &found, NULL),
                     STK_OK);
    assert_int_equal(found, STK__PLAIN);
    for (stk__compression kind = STK__GZIP; kind <= STK__ZLIB; kind++) {
        stk__text_reset(&t);
        put_deflated(&t, data, 0x10000, kind);
        for (stk__framing framing = STK__FRAMING_TFRECORD; framing <= STK__FRAMING_LINES; framing++) {
            assert_int_equal(stk__compression_of(write_bytes("c", t.data, t.length), framing, &found, NULL), STK_OK);
            assert_int_equal(found, kind);
        }
    }
    stk__free(data);
    stk__text_clear(&t);
}

static void compression_of_standard_input_or_a_device_is_unsupported(void **state)
{
    stk__compression found;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__compression_of("-", STK__FRAMING_LINES, &found, &err), STK_UNSUPPORTED);
    assert_int_equal(stk__compression_of("/dev/null", STK__FRAMING_LINES, &found, &err), STK_UNSUPPORTED);
    assert_string_equal(err.file, "/dev/null");
    stk_error_clear(&err);
    assert_int_equal(stk__compression_of(in_dir("missing"), STK__FRAMING_LINES, &found, &err), STK_IO);
}

static void stream_without_memory_fails_and_leaks_nothing(void **state)
{
    stk__text plain = STK__TEXT_INIT, file = STK__TEXT_INIT;
    put_samples(&plain, 0, 2, 1500000);
    put_deflated(&file, plain.data, plain.length, STK__GZIP);
    const char *path = write_bytes("nomem", file.data, file.length);
    bool passed = false;
    for (uint64_t n = 1; !passed; n++) {
        assert_true(n < 100);
        stk__record_stream *s = NULL;
        stk_bytes bytes;
        int64_t offset;
        bool again;
        stk__alloc_fail_at(n, false);
        stk_status status = stk__record_stream_open(path, STK__FRAMING_TFRECORD, true, &s, NULL);
        while (status == STK_OK)
            status = stk__record_stream_next(s, &bytes, &offset, &again, NULL);
        stk__alloc_fail_at(0, false);
        stk__record_stream_close(s);
        passed = status == STK_END;
        assert_true(passed || status == STK_NOMEM);
    }
    stk__text_clear(&plain);
    stk__text_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_of_each_compression_gives_the_same_records),
        cmocka_unit_test(stream_reads_records_larger_than_its_buffers),
        cmocka_unit_test(stream_reads_records_around_the_window_size),
        cmocka_unit_test(stream_of_gzip_members_reads_through_all_of_them),
        cmocka_unit_test(stream_of_an_empty_file_ends_at_once),
        cmocka_unit_test(stream_of_a_missing_file_or_a_directory_fails_with_its_name),
        cmocka_unit_test(stream_goes_on_after_bad_data),
        cmocka_unit_test(stream_that_does_not_verify_gives_bad_data_out),
        cmocka_unit_test(stream_stops_at_a_bad_length_or_length_crc),
        cmocka_unit_test(stream_of_another_format_says_it_is_no_tfrecord),
        cmocka_unit_test(stream_cut_at_any_byte_gives_the_whole_records_then_an_error),
        cmocka_unit_test(stream_with_an_absurd_length_neither_allocates_nor_overflows),
        cmocka_unit_test(stream_of_cut_compressed_data_is_corrupt),
        cmocka_unit_test(stream_of_little_cut_zlib_data_still_says_so),
        cmocka_unit_test(stream_with_a_bad_gzip_trailer_is_corrupt),
        cmocka_unit_test(stream_with_garbage_or_a_wrong_member_after_gzip_is_corrupt),
        cmocka_unit_test(stream_of_compressed_data_that_holds_no_records_is_corrupt),
        cmocka_unit_test(stream_offsets_count_uncompressed_bytes),
        cmocka_unit_test(stream_of_lines_cuts_line_ends_off),
        cmocka_unit_test(stream_reads_lines_longer_than_the_window),
        cmocka_unit_test(stream_of_dash_reads_standard_input),
        cmocka_unit_test(compression_is_told_by_the_first_bytes),
        cmocka_unit_test(compression_of_standard_input_or_a_device_is_unsupported),
        cmocka_unit_test(stream_without_memory_fails_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
