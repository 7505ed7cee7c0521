/* Indexed sets of record files: extents, scanning, damage, the index cache, descriptors. */
#include "record_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "formats/extents.h"
#include "formats/record_index.h"

static void put_samples(stk__text *t, uint64_t from, uint64_t to, size_t max)
{
    for (uint64_t n = from; n < to; n++)
        put_sample(t, n, max);
}

static stk_status open_config(const char *const *paths, size_t count, const stk__records_config *config,
                              stk__records **out, stk_error *err)
{
    stk__paths list = {.items = (char **)(uintptr_t)paths, .count = count};
    return stk__records_open(&list, config, out, err);
}

static stk__records *open_paths(const char *const *paths, size_t count, stk__framing framing, const char *cache_dir)
{
    const stk__records_config config = {.framing = framing, .threads = 2, .cache_dir = cache_dir};
    stk__records *r = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (open_config(paths, count, &config, &r, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
    return r;
}

static stk__records *open_one(const char *path, stk__framing framing)
{
    return open_paths(&path, 1, framing, NULL);
}

static stk_error expect_open_error(const char *path, stk__framing framing, stk_status want)
{
    const stk__records_config config = {.framing = framing, .threads = 1};
    stk__records *r = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(open_config(&path, 1, &config, &r, &err), want);
    assert_int_equal(err.status, want);
    assert_null(r);
    return err;
}

/* Reads record `index` of the set through a shared descriptor. The caller frees. */
static uint8_t *read_record(stk__records *r, int64_t index, stk__record_place *place)
{
    stk__records_find(r, index, place);
    uint8_t *data = stk__alloc((size_t)place->size_bytes);
    assert_non_null(data);
    int fd;
    assert_int_equal(stk__records_acquire(r, place->file, &fd, NULL), STK_OK);
    assert_int_equal(stk__pread_full(fd, data, (size_t)place->size_bytes, place->offset, "", NULL), STK_OK);
    stk__records_release(r, place->file);
    return data;
}

static void expect_sample(stk__records *r, int64_t index, uint64_t n, size_t max)
{
    stk__record_place place;
    uint8_t *data = read_record(r, index, &place);
    assert_true(is_sample(n, max, data, (size_t)place.size_bytes));
    stk__free(data);
}

/* Builds extents of records whose sizes and gaps the two functions give, and checks that each is found again. */
static void check_extents(int64_t count, int64_t (*size_of)(int64_t), int64_t (*gap_of)(int64_t), size_t max_bytes)
{
    stk__extents e = {0};
    stk__extents_builder b = {.to = &e};
    int64_t offset = 12;
    for (int64_t i = 0; i < count; i++) {
        assert_true(stk__extents_add(&b, offset, size_of(i)));
        offset += size_of(i) + gap_of(i);
    }
    const int64_t end = offset - (count ? gap_of(count - 1) : 0);
    assert_true(stk__extents_finish(&b));
    assert_int_equal(e.count, count);
    offset = 12;
    for (int64_t i = 0; i < count; i++) {
        int64_t found_offset, found_size;
        stk__extents_find(&e, i, &found_offset, &found_size);
        assert_int_equal(found_offset, offset);
        assert_int_equal(found_size, size_of(i));
        offset += size_of(i) + gap_of(i);
    }
    assert_true(stk__extents_memory(&e) <= max_bytes);
    const stk__extents_frame frame = {12, 1, 4};
    assert_true(stk__extents_check(&e, &frame, end + 4));
    assert_true(count == 0 || !stk__extents_check(&e, &frame, end + 3));
    stk__extents_clear(&e);
}

static int64_t always_100(int64_t i)
{
    return 100;
}

static int64_t small_sizes(int64_t i)
{
    return 5000 + (int64_t)(stk__mix((uint64_t)i, 3) % 256);
}

static int64_t middle_sizes(int64_t i)
{
    return (int64_t)(stk__mix((uint64_t)i, 4) % 65536);
}

static int64_t large_sizes(int64_t i)
{
    return (int64_t)(stk__mix((uint64_t)i, 5) >> 32);
}

static int64_t huge_sizes(int64_t i)
{
    return (int64_t)(stk__mix((uint64_t)i, 6) >> 24);
}

static int64_t gap_16(int64_t i)
{
    return 16;
}

static int64_t gap_1_or_2(int64_t i)
{
    return 1 + (i / 300) % 2;
}

static int64_t gap_with_damage(int64_t i)
{
    return i % 1000 == 77 ? 123456 : 16;
}

static void extents_find_every_record_of_any_width(void **state)
{
    const int64_t counts[] = {0, 1, 2, 127, 128, 129, 1000, 5000};
    int64_t (*const sizes[])(int64_t) = {always_100, small_sizes, middle_sizes, large_sizes, huge_sizes};
    int64_t (*const gaps[])(int64_t) = {gap_16, gap_1_or_2, gap_with_damage};
    for (size_t c = 0; c < STK_COUNT(counts); c++) {
        for (size_t s = 0; s < STK_COUNT(sizes); s++) {
            for (size_t g = 0; g < STK_COUNT(gaps); g++)
                check_extents(counts[c], sizes[s], gaps[g], SIZE_MAX);
        }
    }
}

static void extents_of_even_records_take_little_memory(void **state)
{
    check_extents(128000, always_100, gap_16, 1000 * 24);
    check_extents(128000, small_sizes, gap_16, 1000 * (24 + 128));
    check_extents(128000, middle_sizes, gap_16, 1000 * (24 + 256));
}

static void set_finds_every_record_in_every_file(void **state)
{
    const uint64_t counts[] = {0, 500, 1, 0, 0, 3, 129, 0};
    const char *paths[8];
    char names[8][256];
    stk__text t = STK__TEXT_INIT;
    uint64_t n = 0;
    int64_t bytes = 0;
    for (int f = 0; f < 8; f++) {
        char name[16];
        snprintf(name, sizeof name, "set-%d", f);
        stk__text_reset(&t);
        put_samples(&t, n, n + counts[f], 700);
        n += counts[f];
        bytes += (int64_t)t.length;
        snprintf(names[f], sizeof names[f], "%s", write_bytes(name, t.data ? t.data : "", t.length));
        paths[f] = names[f];
    }
    stk__records *r = open_paths(paths, 8, STK__FRAMING_TFRECORD, NULL);
    assert_int_equal(stk__records_count(r), n);
    assert_int_equal(stk__records_bytes(r), bytes);
    assert_int_equal(stk__records_file_count(r), 8);
    assert_int_equal(stk__records_damage_count(r), 0);
    assert_int_equal(stk__records_cached(r), 0);
    assert_true(stk__records_memory(r) > 0);
    int64_t first = 0;
    for (int f = 0; f < 8; f++) {
        assert_string_equal(stk__records_path(r, f), paths[f]);
        assert_int_equal(stk__records_first(r, f), first);
        first += (int64_t)counts[f];
    }
    assert_int_equal(stk__records_first(r, 8), first);
    for (uint64_t i = 0; i < n; i++)
        expect_sample(r, (int64_t)i, i, 700);
    stk__record_place place;
    stk__records_find(r, 501, &place);
    assert_int_equal(place.file, 5);
    assert_int_equal(place.record, 0);
    assert_int_equal(place.offset, 12);
    stk__records_close(r);
    stk__text_clear(&t);
}

static void set_of_no_files_is_empty(void **state)
{
    stk__records *r = open_paths(NULL, 0, STK__FRAMING_TFRECORD, NULL);
    assert_int_equal(stk__records_count(r), 0);
    stk__records_close(r);
    stk__records_close(NULL);
}

/* Small and large records in turn, so that the scan reads blocks, skips, and reads blocks again. */
static void set_finds_small_records_among_large_ones(void **state)
{
    stk__text t = STK__TEXT_INIT;
    for (uint64_t n = 0; n < 60; n++)
        put_sample(&t, n, n / 10 % 2 ? 400000 : 50);
    stk__records *r = open_one(write_bytes("mixed", t.data, t.length), STK__FRAMING_TFRECORD);
    assert_int_equal(stk__records_count(r), 60);
    for (uint64_t n = 0; n < 60; n++)
        expect_sample(r, (int64_t)n, n, n / 10 % 2 ? 400000 : 50);
    stk__records_close(r);
    stk__text_clear(&t);
}

static void expect_damage(const stk__records *r, size_t i, int64_t record, int64_t offset, int64_t size,
                          const char *part)
{
    assert_true(i < stk__records_damage_count(r));
    const stk__damage *d = stk__records_damage(r, i);
    assert_int_equal(d->record, record);
    assert_int_equal(d->offset, offset);
    assert_int_equal(d->size_bytes, size);
    if (!strstr(d->message, part))
        fail_msg("message is '%s', wanted '%s' in it", d->message, part);
}

static void scan_goes_on_behind_a_bad_header(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 200, 90);
    const size_t bad = t.length;
    put_samples(&t, 200, 201, 90);
    const size_t next = t.length;
    put_samples(&t, 201, 500, 90);
    for (size_t at = bad; at < bad + 12; at++) {
        t.data[at] ^= 0x20;
        stk__records *r = open_one(write_bytes("flip", t.data, t.length), STK__FRAMING_TFRECORD);
        assert_int_equal(stk__records_count(r), 499);
        assert_int_equal(stk__records_damage_count(r), 1);
        expect_damage(r, 0, 200, (int64_t)bad, (int64_t)(next - bad), "length CRC is 0x");
        for (int64_t i = 0; i < 499; i++)
            expect_sample(r, i, (uint64_t)i + (i >= 200), 90);
        stk__records_close(r);
        t.data[at] ^= 0x20;
    }
    stk__text_clear(&t);
}

static void scan_lists_every_damaged_stretch(void **state)
{
    enum { LARGE = 3000000 }; /* longer than the scan's blocks */
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "garbage at the front");
    put_samples(&t, 0, 10, 100);
    const int64_t middle = (int64_t)t.length;
    for (size_t i = 0; i < LARGE; i++)
        stk__text_putc(&t, (char)stk__mix(i, 9));
    put_samples(&t, 10, 20, 100);
    const int64_t tail = (int64_t)t.length;
    stk__text_puts(&t, "tail");
    stk__records *r = open_one(write_bytes("stretches", t.data, t.length), STK__FRAMING_TFRECORD);
    assert_int_equal(stk__records_count(r), 20);
    assert_int_equal(stk__records_damage_count(r), 3);
    expect_damage(r, 0, 0, 0, 20, "length CRC");
    expect_damage(r, 1, 10, middle, LARGE, "length CRC");
    expect_damage(r, 2, 20, tail, 4, "file ends inside a record header: 4 bytes are left, wanted 12");
    for (uint64_t n = 0; n < 20; n++)
        expect_sample(r, (int64_t)n, n, 100);
    stk__records_close(r);
    stk__text_clear(&t);
}

static void scan_does_not_resume_at_a_record_with_bad_data(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_record(&t, "zero", 4);
    const size_t bad = t.length;
    put_record(&t, "one", 3);
    const size_t second = t.length;
    put_record(&t, "two", 3);
    const size_t third = t.length;
    put_record(&t, "three", 5);
    t.data[bad] ^= 1;
    t.data[second + 12] ^= 1; /* sound header, bad data */
    stk__records *r = open_one(write_bytes("two", t.data, t.length), STK__FRAMING_TFRECORD);
    assert_int_equal(stk__records_count(r), 2);
    expect_damage(r, 0, 1, (int64_t)bad, (int64_t)(third - bad), "length CRC");
    stk__records_close(r);
    stk__text_clear(&t);
}

/* Sound headers with lying lengths, one after the other: each alone would cost a read of the whole rest of the file. */
static void scan_of_many_lying_headers_comes_to_an_end(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "x");
    for (size_t i = 0; i < 100000; i++)
        put_header(&t, (100000 - i) * 12 - 100 < 1200000 ? (100000 - i) * 12 - 100 : 0);
    const char *path = write_bytes("lying", t.data, t.length);
    const stk_error err = expect_open_error(path, STK__FRAMING_TFRECORD, STK_CORRUPT);
    assert_string_equal(err.file, path);
    stk__text_clear(&t);
}

static void scan_of_a_cut_file_keeps_the_whole_records(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 5, 90);
    const size_t last = t.length;
    put_record(&t, "0123456789", 10);
    for (size_t length = last + 1; length < t.length; length++) {
        stk__records *r = open_one(write_bytes("cut", t.data, length), STK__FRAMING_TFRECORD);
        assert_int_equal(stk__records_count(r), 5);
        assert_int_equal(stk__records_damage_count(r), 1);
        expect_damage(r, 0, 5, (int64_t)last, (int64_t)(length - last), "file ends inside a record");
        stk__records_close(r);
    }
    stk__text_clear(&t);
}

static void scan_of_a_file_cut_in_its_only_record_is_damage(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_record(&t, "0123456789", 10);
    for (size_t length = 1; length < t.length; length++) {
        stk__records *r = open_one(write_bytes("only", t.data, length), STK__FRAMING_TFRECORD);
        assert_int_equal(stk__records_count(r), 0);
        assert_int_equal(stk__records_damage_count(r), 1);
        expect_damage(r, 0, 0, 0, (int64_t)length, "file ends inside a record");
        stk__records_close(r);
    }
    stk__text_clear(&t);
}

static void scan_of_absurd_lengths_is_damage(void **state)
{
    const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 15, (uint64_t)1 << 63, INT64_MAX, (uint64_t)1 << 62, 1 << 20};
    for (size_t i = 0; i < STK_COUNT(lengths); i++) {
        stk__text t = STK__TEXT_INIT;
        put_sample(&t, 0, 50);
        const int64_t bad = (int64_t)t.length;
        put_header(&t, lengths[i]);
        const int64_t next = (int64_t)t.length;
        put_sample(&t, 1, 50);
        stk__records *r = open_one(write_bytes("absurd", t.data, t.length), STK__FRAMING_TFRECORD);
        assert_int_equal(stk__records_count(r), 2);
        expect_damage(r, 0, 1, bad, next - bad, "file ends inside a record: its length is");
        expect_sample(r, 1, 1, 50);
        stk__records_close(r);
        stk__text_clear(&t);
    }
}

static void open_of_another_format_says_it_is_no_tfrecord(void **state)
{
    const char *path = write_text("json", "{\"this\": \"is JSON, not a record file\"}");
    const stk_error err = expect_open_error(path, STK__FRAMING_TFRECORD, STK_CORRUPT);
    assert_string_equal(err.file, path);
    assert_non_null(strstr(err.message, "is no TFRecord file: it begins with 7b 22 74 68"));
    assert_non_null(strstr(err.message, "wanted 0x"));
}

static void open_of_a_compressed_file_is_unsupported(void **state)
{
    stk__tfrecord_writer *w;
    const char *path = in_dir("gz");
    assert_int_equal(stk__tfrecord_writer_open(path, STK__GZIP, 1, &w, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(w, "abc", 3, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_commit(w, NULL), STK_OK);
    const stk_error err = expect_open_error(path, STK__FRAMING_TFRECORD, STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "gzip"));
    expect_open_error(path, STK__FRAMING_LINES, STK_UNSUPPORTED);
}

static void open_of_missing_and_special_files_fails_with_their_name(void **state)
{
    stk_error err = expect_open_error(in_dir("nothing"), STK__FRAMING_TFRECORD, STK_IO);
    assert_string_equal(err.file, in_dir("nothing"));
    err = expect_open_error(test_dir, STK__FRAMING_TFRECORD, STK_IO);
    assert_string_equal(err.file, test_dir);
    err = expect_open_error("/dev/null", STK__FRAMING_LINES, STK_UNSUPPORTED);
    assert_string_equal(err.file, "/dev/null");
}

/* Whichever thread fails first, the error of the first bad file in order is the one that is reported. */
static void open_of_several_bad_files_names_the_first(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 2000, 1000);
    char names[4][256];
    snprintf(names[0], sizeof names[0], "%s", write_bytes("e0", t.data, t.length));
    snprintf(names[1], sizeof names[1], "%s", write_text("e1", "first of the files that are bad"));
    snprintf(names[2], sizeof names[2], "%s", write_text("e2", "second of the files that are bad"));
    snprintf(names[3], sizeof names[3], "%s", in_dir("e3-missing"));
    const char *const paths[] = {names[0], names[1], names[2], names[3]};
    for (int i = 0; i < 20; i++) {
        const stk__records_config config = {.framing = STK__FRAMING_TFRECORD, .threads = 4};
        stk__records *r = NULL;
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(open_config(paths, 4, &config, &r, &err), STK_CORRUPT);
        assert_string_equal(err.file, names[1]);
    }
    stk__text_clear(&t);
}

static void lines_are_indexed_without_their_ends(void **state)
{
    for (size_t i = 0; i < STK_COUNT(line_cases); i++) {
        stk__records *r = open_one(write_text("lines", line_cases[i].text), STK__FRAMING_LINES);
        int64_t count = 0;
        for (; line_cases[i].lines[count]; count++) {
            stk__record_place place;
            uint8_t *data = read_record(r, count, &place);
            assert_int_equal(place.size_bytes, strlen(line_cases[i].lines[count]));
            assert_memory_equal(data, line_cases[i].lines[count], (size_t)place.size_bytes);
            stk__free(data);
        }
        assert_int_equal(stk__records_count(r), count);
        assert_int_equal(stk__records_damage_count(r), 0);
        stk__records_close(r);
    }
}

/* Line ends on and around the borders of the blocks that the scan reads. */
static void lines_across_blocks_are_found(void **state)
{
    stk__text t = STK__TEXT_INIT;
    int64_t starts[4000], sizes[4000];
    int64_t count = 0;
    while (t.length < 5 << 20) {
        const size_t size = stk__mix((uint64_t)count, 8) % (count % 100 == 7 ? 1200000 : 1500);
        starts[count] = (int64_t)t.length;
        sizes[count] = (int64_t)size;
        for (size_t k = 0; k < size; k++)
            stk__text_putc(&t, 'q');
        stk__text_puts(&t, "\r\n");
        count++;
        assert_true(count < 4000);
    }
    /* One line that puts its "\r" last in the first block of 64 KiB and its "\n" first in the next. */
    memcpy(t.data + (64 << 10) - 1, "\r\n", 2);
    stk__records *r = open_one(write_bytes("blocks", t.data, t.length), STK__FRAMING_LINES);
    stk__record_place place;
    int64_t k = 0;
    bool seen = false;
    for (int64_t i = 0; i < stk__records_count(r); i++) {
        stk__records_find(r, i, &place);
        assert_null(memchr(t.data + place.offset, '\n', (size_t)place.size_bytes));
        assert_int_equal(memcmp(t.data + place.offset + place.size_bytes, "\r\n", 2), 0);
        seen |= place.offset + place.size_bytes == (64 << 10) - 1;
        while (k < count && starts[k] < place.offset)
            k++;
        if (k < count && starts[k] == place.offset && starts[k] > 1 << 20)
            assert_int_equal(place.size_bytes, sizes[k]);
    }
    assert_true(seen);
    assert_int_equal(place.offset + place.size_bytes + 2, t.length);
    stk__records_close(r);
    stk__text_clear(&t);
}

static void even_lines_with_either_end_take_little_memory(void **state)
{
    for (int crlf = 0; crlf < 2; crlf++) {
        stk__text t = STK__TEXT_INIT;
        for (int i = 0; i < 128000; i++)
            stk__text_printf(&t, "%08d%s", i, crlf ? "\r\n" : "\n");
        stk__records *r = open_one(write_bytes("even", t.data, t.length), STK__FRAMING_LINES);
        assert_int_equal(stk__records_count(r), 128000);
        assert_true(stk__records_memory(r) < 30000);
        stk__records_close(r);
        stk__text_clear(&t);
    }
}

/* The one file in a directory. */
static const char *only_file(const char *dir)
{
    static char path[600];
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            count++;
        }
    }
    closedir(d);
    assert_int_equal(count, 1);
    return path;
}

static void set_mtime(const char *path, int64_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void cached_index_says_the_same_as_a_scan(void **state)
{
    const char *cache = in_dir("made/on/demand");
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 300, 500);
    const size_t bad = t.length;
    put_samples(&t, 300, 1000, 500);
    t.data[bad] ^= 1;
    const char *path = write_bytes("cached", t.data, t.length);
    stk__records *scanned = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
    stk__records *cached = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
    assert_int_equal(stk__records_cached(scanned), 0);
    assert_int_equal(stk__records_cached(cached), 1);
    assert_int_equal(stk__records_count(cached), 999);
    assert_int_equal(stk__records_damage_count(cached), 1);
    assert_memory_equal(stk__records_damage(cached, 0), stk__records_damage(scanned, 0), sizeof(stk__damage));
    assert_true(stk__records_fingerprint(cached) == stk__records_fingerprint(scanned));
    for (int64_t i = 0; i < 999; i++) {
        stk__record_place a, b;
        stk__records_find(scanned, i, &a);
        stk__records_find(cached, i, &b);
        assert_int_equal(a.offset, b.offset);
        assert_int_equal(a.size_bytes, b.size_bytes);
    }
    stk__records_close(scanned);
    stk__records_close(cached);
    /* Another framing is another index. */
    stk__records *lines = open_paths(&path, 1, STK__FRAMING_LINES, cache);
    assert_int_equal(stk__records_cached(lines), 0);
    stk__records_close(lines);
    stk__text_clear(&t);
}

static void cached_index_of_a_changed_file_is_not_used(void **state)
{
    const char *cache = in_dir("changed-cache");
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 50, 500);
    const char *path = write_bytes("grown", t.data, t.length);
    set_mtime(path, 1000);
    stk__records_close(open_paths(&path, 1, STK__FRAMING_TFRECORD, cache));
    set_mtime(path, 1001); /* same bytes, another mtime */
    stk__records *r = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
    assert_int_equal(stk__records_cached(r), 0);
    stk__records_close(r);
    t.data[12] ^= 1; /* same size and mtime, other bytes */
    path = write_bytes("grown", t.data, t.length);
    set_mtime(path, 1001);
    r = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
    assert_int_equal(stk__records_cached(r), 0);
    stk__records_close(r);
    put_samples(&t, 50, 51, 500); /* same mtime, another size */
    path = write_bytes("grown", t.data, t.length);
    set_mtime(path, 1001);
    r = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
    assert_int_equal(stk__records_cached(r), 0);
    assert_int_equal(stk__records_count(r), 51);
    stk__records_close(r);
    stk__text_clear(&t);
}

/* Lines move, but size, edges and mtime say nothing of it: as with `cp -p`. */
static void cached_index_sees_a_change_in_the_middle_with_the_old_mtime(void **state)
{
    const char *cache = in_dir("middle-cache");
    char text[12000];
    memset(text, 'x', sizeof text);
    text[5000] = text[sizeof text - 1] = '\n';
    const char *path = write_bytes("middle", text, sizeof text);
    set_mtime(path, 1000);
    stk__records_close(open_paths(&path, 1, STK__FRAMING_LINES, cache));
    text[5000] = 'x';
    text[6000] = '\n';
    path = write_bytes("middle", text, sizeof text);
    set_mtime(path, 1000);
    stk__records *r = open_paths(&path, 1, STK__FRAMING_LINES, cache);
    stk__record_place place;
    stk__records_find(r, 0, &place);
    assert_int_equal(place.size_bytes, 6000);
    stk__records_close(r);
}

static void cached_index_with_any_odd_byte_is_scanned_again(void **state)
{
    const char *cache = in_dir("odd-cache");
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 300, 20);
    t.data[0] ^= 1;
    const char *path = write_bytes("odd", t.data, t.length);
    stk__records_close(open_paths(&path, 1, STK__FRAMING_TFRECORD, cache));
    char *index;
    size_t size;
    assert_int_equal(stk__read_file(only_file(cache), 1 << 20, &index, &size, NULL), STK_OK);
    for (size_t at = 0; at < size; at += 3) {
        index[at] ^= 0x40;
        assert_int_equal(stk__write_file(only_file(cache), index, size, NULL), STK_OK);
        stk__records *r = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
        assert_int_equal(stk__records_cached(r), 0);
        assert_int_equal(stk__records_count(r), 299);
        stk__records_close(r);
        index[at] ^= 0x40;
    }
    for (size_t cut = 0; cut < size; cut += 37) {
        assert_int_equal(stk__write_file(only_file(cache), index, cut, NULL), STK_OK);
        stk__records *r = open_paths(&path, 1, STK__FRAMING_TFRECORD, cache);
        assert_int_equal(stk__records_cached(r), 0);
        stk__records_close(r);
    }
    stk__free(index);
    stk__text_clear(&t);
}

/* Bytes whose checksum fits but which lie: whatever is accepted must stay inside the file. */
static void index_with_a_fitting_checksum_but_odd_bytes_stays_in_bounds(void **state)
{
    enum { SIZE = 100000 };
    stk__record_index index = {.framing = STK__FRAMING_TFRECORD, .id = {SIZE, 5}, .edge_hash = 7};
    stk__extents_builder b = {.to = &index.extents};
    int64_t offset = 12;
    for (int64_t i = 0; i < 200; i++) {
        assert_true(stk__extents_add(&b, offset, 10 + i % 7));
        offset += 10 + i % 7 + (i == 150 ? 99 : 16);
    }
    assert_true(stk__extents_finish(&b));
    void *bytes;
    size_t size;
    assert_true(stk__record_index_format(&index, &bytes, &size));
    stk__record_index_clear(&index);
    int accepted = 0;
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            uint8_t *copy = stk__alloc(size);
            assert_non_null(copy);
            memcpy(copy, bytes, size);
            copy[at] ^= (uint8_t)(1 << bit);
            stk__record_index_seal(copy, size);
            stk__record_index odd = {.framing = STK__FRAMING_TFRECORD, .id = {SIZE, 5}, .edge_hash = 7};
            if (!stk__record_index_parse(copy, size, &odd)) {
                stk__free(copy);
                continue;
            }
            accepted++;
            int64_t from = 0;
            for (int64_t i = 0; i < odd.extents.count; i++) {
                int64_t start, length;
                stk__extents_find(&odd.extents, i, &start, &length);
                assert_true(start >= from + 12 && length >= 0 && length <= SIZE - 4 - start);
                from = start + length + 4;
            }
            stk__record_index_clear(&odd);
        }
    }
    assert_true(accepted > 0); /* other sizes in range are a valid index of another file */
    stk__free(bytes);
}

static void cache_that_cannot_be_written_is_no_error(void **state)
{
    const char *path = write_text("nocache", "a line\n");
    stk__records *r = open_paths(&path, 1, STK__FRAMING_LINES, "/proc/no/such/place");
    assert_int_equal(stk__records_count(r), 1);
    stk__records_close(r);
}

static void fingerprint_depends_on_names_and_content_but_not_on_place_or_time(void **state)
{
    assert_int_equal(mkdir(in_dir("f1"), 0777), 0);
    assert_int_equal(mkdir(in_dir("f2"), 0777), 0);
    char names[4][256];
    snprintf(names[0], sizeof names[0], "%s", write_text("f1/a", "one\ntwo\n"));
    snprintf(names[1], sizeof names[1], "%s", write_text("f2/a", "one\ntwo\n"));
    snprintf(names[2], sizeof names[2], "%s", write_text("f2/b", "one\ntwo\n"));
    snprintf(names[3], sizeof names[3], "%s", write_text("f2/c", "one\ntwO\n"));
    set_mtime(names[0], 12345);
    uint64_t prints[7];
    const char *sets[7][2] = {{names[0]},           {names[1]},           {names[2]},          {names[3]},
                              {names[0], names[2]}, {names[2], names[0]}, {names[1], names[2]}};
    for (int i = 0; i < 7; i++) {
        stk__records *r = open_paths(sets[i], sets[i][1] ? 2 : 1, STK__FRAMING_LINES, NULL);
        prints[i] = stk__records_fingerprint(r);
        stk__records_close(r);
    }
    assert_true(prints[0] == prints[1]);
    assert_true(prints[4] == prints[6]);
    assert_true(prints[0] != prints[2]);
    assert_true(prints[2] != prints[3]);
    assert_true(prints[4] != prints[5]);
    assert_true(prints[0] != prints[4]);
}

static void acquire_of_a_changed_or_vanished_file_fails(void **state)
{
    const char *path = write_text("acquire", "a line\n");
    stk__records *r = open_one(path, STK__FRAMING_LINES);
    int fd = -1;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__records_check_unchanged(r, 0, NULL), STK_OK);
    write_text("acquire", "a line and more\n");
    assert_int_equal(stk__records_acquire(r, 0, &fd, &err), STK_CORRUPT);
    assert_string_equal(err.file, path);
    assert_non_null(strstr(err.message, "changed since it was indexed: it had 7 bytes, now it has 16"));
    assert_int_equal(stk__records_check_unchanged(r, 0, &err), STK_CORRUPT);
    write_text("acquire", "another");
    set_mtime(path, 99);
    stk_error_clear(&err);
    assert_int_equal(stk__records_acquire(r, 0, &fd, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "changed since it was indexed"));
    stk__records_close(r);
    r = open_one(path, STK__FRAMING_LINES);
    unlink(path);
    stk_error_clear(&err);
    assert_int_equal(stk__records_acquire(r, 0, &fd, &err), STK_IO);
    assert_int_equal(stk__records_check_unchanged(r, 0, &err), STK_IO);
    assert_string_equal(err.file, path);
    assert_int_equal(fd, -1);
    stk__records_close(r);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

enum { MANY = 600 };

typedef struct reader {
    stk__records *records;
    uint64_t seed;
    int failures;
} reader;

static void *read_many(void *arg)
{
    reader *r = arg;
    for (uint64_t i = 0; i < 4000; i++) {
        const int32_t file = (int32_t)(stk__mix(r->seed, i) % MANY);
        stk__record_place place;
        char want[16], found[16];
        int fd;
        stk__records_find(r->records, file, &place);
        snprintf(want, sizeof want, "line %d", file);
        if (place.file != file || stk__records_acquire(r->records, file, &fd, NULL) != STK_OK) {
            r->failures++;
            continue;
        }
        const ssize_t n = pread(fd, found, (size_t)place.size_bytes, place.offset);
        r->failures += n != (ssize_t)strlen(want) || memcmp(found, want, (size_t)n) != 0;
        stk__records_release(r->records, file);
    }
    return NULL;
}

static void descriptors_are_shared_by_threads_and_stay_few(void **state)
{
    stk__paths paths = {0};
    assert_int_equal(mkdir(in_dir("many"), 0777), 0);
    for (int i = 0; i < MANY; i++) {
        char name[32], text[32];
        snprintf(name, sizeof name, "many/%04d", i);
        snprintf(text, sizeof text, "line %d\n", i);
        FILE *f = fopen(in_dir(name), "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    assert_int_equal(stk__paths_glob(&paths, in_dir("many/*"), NULL), STK_OK);
    const int before = open_descriptors();
    const stk__records_config config = {.framing = STK__FRAMING_LINES, .threads = 4};
    stk__records *r;
    assert_int_equal(stk__records_open(&paths, &config, &r, NULL), STK_OK);
    assert_int_equal(stk__records_count(r), MANY);
    assert_int_equal(open_descriptors(), before);
    pthread_t threads[4];
    reader readers[4];
    for (int i = 0; i < 4; i++) {
        readers[i] = (reader){r, (uint64_t)i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].failures, 0);
    }
    assert_true(open_descriptors() <= before + 256);
    assert_true(open_descriptors() > before);
    stk__records_close(r);
    assert_int_equal(open_descriptors(), before);
    stk__paths_clear(&paths);
}

typedef struct progress_log {
    int calls, stop_after;
    int64_t done, total;
    bool backwards;
} progress_log;

static bool log_progress(void *arg, int64_t done, int64_t total)
{
    progress_log *log = arg;
    log->calls++;
    log->backwards |= done < log->done;
    log->done = done;
    log->total = total;
    return log->calls != log->stop_after;
}

static void progress_reaches_the_total_and_can_cancel(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 3000, 8000);
    char names[3][256];
    snprintf(names[0], sizeof names[0], "%s", write_bytes("p0", t.data, t.length));
    snprintf(names[1], sizeof names[1], "%s", write_bytes("p1", t.data, t.length));
    snprintf(names[2], sizeof names[2], "%s", write_text("p2", ""));
    const char *const paths[] = {names[0], names[1], names[2]};
    progress_log log = {0};
    stk__records_config config = {.threads = 3, .progress = log_progress, .progress_arg = &log};
    stk__records *r = NULL;
    assert_int_equal(open_config(paths, 3, &config, &r, NULL), STK_OK);
    assert_int_equal(log.done, 2 * t.length);
    assert_int_equal(log.total, 2 * t.length);
    assert_true(log.calls >= 4);
    assert_false(log.backwards);
    stk__records_close(r);
    const int calls = log.calls;
    for (int stop = 1; stop <= calls; stop++) {
        log = (progress_log){.stop_after = stop};
        stk_error err;
        stk_error_clear(&err);
        r = NULL;
        assert_int_equal(open_config(paths, 3, &config, &r, &err), STK_CANCELLED);
        assert_int_equal(err.status, STK_CANCELLED);
        assert_null(r);
    }
    stk__text_clear(&t);
}

static void open_without_memory_fails_and_leaks_nothing(void **state)
{
    stk__text t = STK__TEXT_INIT;
    put_samples(&t, 0, 1000, 50);
    t.data[3] ^= 1;
    const char *path = write_bytes("torture", t.data, t.length);
    const char *cache = in_dir("torture-cache");
    for (int round = 0; round < 2; round++) { /* without and with an index in the cache */
        bool passed = false;
        for (uint64_t n = 1; !passed; n++) {
            assert_true(n < 200);
            const stk__records_config config = {.threads = 1, .cache_dir = round ? cache : NULL};
            stk__records *r = NULL;
            stk__alloc_fail_at(n, true);
            const stk_status status = open_config(&path, 1, &config, &r, NULL);
            stk__alloc_fail_at(0, false);
            passed = status == STK_OK;
            assert_true(passed || status == STK_NOMEM);
            assert_true(passed ? stk__records_count(r) == 999 : r == NULL);
            stk__records_close(r);
        }
        stk__records_close(open_paths(&path, 1, STK__FRAMING_TFRECORD, cache));
    }
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_find_every_record_of_any_width),
        cmocka_unit_test(extents_of_even_records_take_little_memory),
        cmocka_unit_test(set_finds_every_record_in_every_file),
        cmocka_unit_test(set_of_no_files_is_empty),
        cmocka_unit_test(set_finds_small_records_among_large_ones),
        cmocka_unit_test(scan_goes_on_behind_a_bad_header),
        cmocka_unit_test(scan_lists_every_damaged_stretch),
        cmocka_unit_test(scan_does_not_resume_at_a_record_with_bad_data),
        cmocka_unit_test(scan_of_many_lying_headers_comes_to_an_end),
        cmocka_unit_test(scan_of_a_cut_file_keeps_the_whole_records),
        cmocka_unit_test(scan_of_a_file_cut_in_its_only_record_is_damage),
        cmocka_unit_test(scan_of_absurd_lengths_is_damage),
        cmocka_unit_test(open_of_another_format_says_it_is_no_tfrecord),
        cmocka_unit_test(open_of_a_compressed_file_is_unsupported),
        cmocka_unit_test(open_of_missing_and_special_files_fails_with_their_name),
        cmocka_unit_test(open_of_several_bad_files_names_the_first),
        cmocka_unit_test(lines_are_indexed_without_their_ends),
        cmocka_unit_test(lines_across_blocks_are_found),
        cmocka_unit_test(even_lines_with_either_end_take_little_memory),
        cmocka_unit_test(cached_index_says_the_same_as_a_scan),
        cmocka_unit_test(cached_index_of_a_changed_file_is_not_used),
        cmocka_unit_test(cached_index_sees_a_change_in_the_middle_with_the_old_mtime),
        cmocka_unit_test(cached_index_with_any_odd_byte_is_scanned_again),
        cmocka_unit_test(index_with_a_fitting_checksum_but_odd_bytes_stays_in_bounds),
        cmocka_unit_test(cache_that_cannot_be_written_is_no_error),
        cmocka_unit_test(fingerprint_depends_on_names_and_content_but_not_on_place_or_time),
        cmocka_unit_test(acquire_of_a_changed_or_vanished_file_fails),
        cmocka_unit_test(descriptors_are_shared_by_threads_and_stay_few),
        cmocka_unit_test(progress_reaches_the_total_and_can_cancel),
        cmocka_unit_test(open_without_memory_fails_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
