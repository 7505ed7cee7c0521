/* TFRecord framing and its writer. */
#include "record_files.h"

#include <signal.h>
#include <sys/resource.h>

static void header_of_known_bytes_gives_its_length(void **state)
{
    /* Of an empty record, as TensorFlow writes it; the second one has a length in every byte. */
    const uint8_t empty[12] = {[8] = 0x29, 0x03, 0x98, 0x07};
    uint64_t size = 1;
    assert_int_equal(stk__tfrecord_header(empty, &size, NULL), STK_OK);
    assert_int_equal(size, 0);
    stk__text t = STK__TEXT_INIT;
    put_header(&t, 0xf123456789abcdef);
    assert_int_equal(t.length, STK__TFRECORD_HEADER);
    assert_int_equal(stk__tfrecord_header((const uint8_t *)t.data, &size, NULL), STK_OK);
    assert_true(size == 0xf123456789abcdef);
    stk__text_clear(&t);
}

static void header_with_any_flipped_bit_is_corrupt(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_header(&t, 0x123456789a);
    for (int bit = 0; bit < 96; bit++) {
        uint64_t size = 77;
        stk_error err;
        stk_error_clear(&err);
        t.data[bit / 8] = (char)(t.data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(stk__tfrecord_header((const uint8_t *)t.data, &size, &err), STK_CORRUPT);
        assert_int_equal(size, 77);
        assert_non_null(strstr(err.message, "length CRC is 0x"));
        t.data[bit / 8] = (char)(t.data[bit / 8] ^ 1 << bit % 8);
    }
    stk__text_clear(&t);
}

static void data_with_a_flipped_bit_is_corrupt(void **state)
{
    uint8_t bytes[] = {'a', 'b', 'c', 0, 0, 0, 0};
    const uint32_t crc = stk__crc32c_mask(stk__crc32c("abc", 3));
    for (int i = 0; i < 4; i++)
        bytes[3 + i] = (uint8_t)(crc >> 8 * i);
    assert_int_equal(stk__tfrecord_data(bytes, 3, bytes + 3, NULL), STK_OK);
    bytes[1] ^= 1;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__tfrecord_data(bytes, 3, bytes + 3, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "data CRC"));
}

static void write_samples(const char *path, stk__compression compression, uint64_t count, size_t max)
{
    stk__tfrecord_writer *w;
    assert_int_equal(stk__tfrecord_writer_open(path, compression, 6, &w, NULL), STK_OK);
    assert_false(exists(path));
    stk__text t = STK__TEXT_INIT;
    for (uint64_t n = 0; n < count; n++) {
        stk__text_reset(&t);
        put_sample(&t, n, max);
        assert_int_equal(stk__tfrecord_writer_add(w, t.data + 12, t.length - 16, NULL), STK_OK);
    }
    stk__text_clear(&t);
    assert_false(exists(path));
    assert_int_equal(stk__tfrecord_writer_commit(w, NULL), STK_OK);
    assert_true(exists(path));
}

static void expect_samples(const char *path, uint64_t count, size_t max)
{
    stk__record_stream *s;
    assert_int_equal(stk__record_stream_open(path, STK__FRAMING_TFRECORD, true, &s, NULL), STK_OK);
    stk_bytes bytes;
    int64_t offset;
    bool again;
    for (uint64_t n = 0; n < count; n++) {
        assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_OK);
        assert_true(is_sample(n, max, bytes.data, (size_t)bytes.size));
    }
    assert_int_equal(stk__record_stream_next(s, &bytes, &offset, &again, NULL), STK_END);
    stk__record_stream_close(s);
}

static void writer_output_is_what_the_format_says(void **state)
{
    const char *path = in_dir("plain.tfrecord");
    write_samples(path, STK__PLAIN, 50, 300);
    stk__text want = STK__TEXT_INIT;
    for (uint64_t n = 0; n < 50; n++)
        put_sample(&want, n, 300);
    char *found;
    size_t size;
    assert_int_equal(stk__read_file(path, 1 << 20, &found, &size, NULL), STK_OK);
    assert_int_equal(size, want.length);
    assert_memory_equal(found, want.data, size);
    stk__free(found);
    stk__text_clear(&want);
}

static void writer_output_reads_back_in_every_compression(void **state)
{
    const stk__compression kinds[] = {STK__PLAIN, STK__GZIP, STK__ZLIB};
    const char *path = in_dir("compressed.tfrecord");
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        stk__compression found = STK__PLAIN;
        unlink(path);
        write_samples(path, kinds[i], 300, 5000);
        assert_int_equal(stk__compression_of(path, STK__FRAMING_TFRECORD, &found, NULL), STK_OK);
        assert_int_equal(found, kinds[i]);
        expect_samples(path, 300, 5000);
        unlink(path);
        write_samples(path, kinds[i], 0, 0); /* a file without records */
        expect_samples(path, 0, 0);
    }
}

static void writer_abort_leaves_nothing(void **state)
{
    stk__tfrecord_writer *w;
    const char *path = in_dir("empty/aborted.tfrecord");
    assert_int_equal(stk__make_parents(path, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_open(path, STK__GZIP, 1, &w, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(w, "abc", 3, NULL), STK_OK);
    stk__tfrecord_writer_abort(w);
    stk__tfrecord_writer_abort(NULL);
    assert_int_equal(rmdir(in_dir("empty")), 0); /* works on an empty directory only */
}

static void writer_refuses_a_level_out_of_range(void **state)
{
    stk__tfrecord_writer *w = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__tfrecord_writer_open(in_dir("level"), STK__GZIP, 10, &w, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "10"));
    assert_null(w);
}

static void writer_in_a_missing_directory_fails_with_its_name(void **state)
{
    stk__tfrecord_writer *w = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__tfrecord_writer_open(in_dir("no/such/x"), STK__PLAIN, 0, &w, &err), STK_IO);
    assert_string_equal(err.file, in_dir("no/such/x"));
    assert_null(w);
}

/* A limit on file sizes stands in for a full disk: writes fail in the same way. */
static void writer_on_a_full_disk_fails_and_leaves_nothing(void **state)
{
    const stk__compression kinds[] = {STK__PLAIN, STK__GZIP};
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(mkdir(in_dir("full"), 0777), 0);
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const char *path = in_dir("full/out.tfrecord");
        stk__tfrecord_writer *w;
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk__tfrecord_writer_open(path, kinds[i], 1, &w, NULL), STK_OK);
        small = (struct rlimit){.rlim_cur = 100000, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        stk__text t = STK__TEXT_INIT;
        stk_status status = STK_OK;
        for (uint64_t n = 0; n < 1000 && status == STK_OK; n++) {
            stk__text_reset(&t);
            put_sample(&t, n, 5000);
            status = stk__tfrecord_writer_add(w, t.data + 12, t.length - 16, &err);
        }
        stk__text_clear(&t);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, STK_IO);
        assert_string_equal(err.file, path);
        assert_int_equal(stk__tfrecord_writer_commit(w, &err), STK_IO); /* though the disk has room again */
        assert_false(exists(path));
    }
    assert_int_equal(rmdir(in_dir("full")), 0);
}

static void writer_without_memory_says_so(void **state)
{
    for (uint64_t n = 1; n < 12; n++) {
        stk__tfrecord_writer *w = NULL;
        const char *path = in_dir("nomem.tfrecord");
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__tfrecord_writer_open(path, STK__ZLIB, 1, &w, NULL);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        assert_true(n > 1 || status == STK_NOMEM);
        if (status == STK_OK)
            stk__tfrecord_writer_abort(w);
        assert_false(exists(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_of_known_bytes_gives_its_length),
        cmocka_unit_test(header_with_any_flipped_bit_is_corrupt),
        cmocka_unit_test(data_with_a_flipped_bit_is_corrupt),
        cmocka_unit_test(writer_output_is_what_the_format_says),
        cmocka_unit_test(writer_output_reads_back_in_every_compression),
        cmocka_unit_test(writer_abort_leaves_nothing),
        cmocka_unit_test(writer_refuses_a_level_out_of_range),
        cmocka_unit_test(writer_in_a_missing_directory_fails_with_its_name),
        cmocka_unit_test(writer_on_a_full_disk_fails_and_leaves_nothing),
        cmocka_unit_test(writer_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
