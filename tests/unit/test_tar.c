/* tar: headers of every kind, keys and extensions, scanning and streaming of samples, damage, the writer. */
#include "record_files.h"

#include <zlib.h>

#include "formats/record_index.h"
#include "formats/tar.h"

/* ---- archives by hand ---- */

static void set_checksum(uint8_t *block)
{
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

static void make_block(uint8_t *block, const char *name, char type, const char *size)
{
    memset(block, 0, 512);
    memcpy(block, name, STK_MIN(strlen(name), (size_t)100));
    snprintf((char *)block + 100, 8, "0000644");
    memcpy(block + 124, size, STK_MIN(strlen(size), (size_t)12));
    block[156] = (uint8_t)type;
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    set_checksum(block);
}

static void put_padded(stk__text *t, const void *data, size_t size)
{
    static const char zeros[512];
    stk__text_write(t, data, size);
    stk__text_write(t, zeros, (512 - size % 512) % 512);
}

static void put_member(stk__text *t, const char *name, char type, const char *data)
{
    uint8_t block[512];
    char size[16];
    snprintf(size, sizeof size, "%011o", (unsigned)strlen(data));
    make_block(block, name, type, size);
    stk__text_write(t, block, 512);
    put_padded(t, data, strlen(data));
}

static stk__tar_found head_of(const stk__text *t, stk__tar_member *m, char why[STK__TAR_WHY])
{
    size_t need;
    return stk__tar_head((const uint8_t *)t->data, t->length, m, &need, why);
}

static void assert_bytes(stk_bytes found, const char *wanted)
{
    assert_int_equal(found.size, strlen(wanted));
    assert_memory_equal(found.data, wanted, strlen(wanted));
}

/* ---- headers ---- */

static void head_splits_names_into_key_and_extension(void **state)
{
    static const struct {
        const char *name, *key, *ext;
    } cases[] = {
        {"a.jpg", "a", "jpg"},
        {"d/e/a.seg.png", "d/e/a", "seg.png"},
        {"d.x/a.jpg", "d.x/a", "jpg"},
        {"./d/a.b", "d/a", "b"},
        {"././a.b", "a", "b"},
        {"a.", "a", ""},
        {"plain", "", ""},
        {".hidden", "", ""},
        {"d/.hidden.jpg", "", ""},
        {"__meta.x__", "", ""},
        {"d/__a.x__", "d/__a", "x__"},
        {"a.jpg/", "", ""},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__tar_member m;
        char why[STK__TAR_WHY];
        put_member(&t, cases[i].name, '0', "x");
        assert_int_equal(head_of(&t, &m, why), STK__TAR_MEMBER);
        assert_bytes(m.key, cases[i].key);
        assert_bytes(m.ext, cases[i].ext);
        stk__text_clear(&t);
    }
}

static void head_reads_sizes_in_every_form(void **state)
{
    static const struct {
        const char *text;
        size_t length;
        int64_t size; /* -1: bad */
    } cases[] = {
        {"00000000017", 11, 15},
        {"       17 ", 10, 15},
        {"17", 2, 15},
        {"777777777777", 12, ((int64_t)1 << 36) - 1},
        {"", 0, 0},
        {"\x80\0\0\0\0\0\0\2\0\0\0\0", 12, (int64_t)2 << 32},
        {"\x80\0\0\0\0\x10\0\0\0\0\0\0", 12, (int64_t)1 << 52},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, -1},
        {"\x80\0\0\1\0\0\0\0\0\0\0\0", 12, -1},
        {"12x", 3, -1},
        {"-17", 3, -1},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        uint8_t block[512];
        stk__tar_member m;
        size_t need;
        char why[STK__TAR_WHY] = "";
        make_block(block, "a.b", '0', "");
        memcpy(block + 124, cases[i].text, cases[i].length);
        set_checksum(block);
        const stk__tar_found found = stk__tar_head(block, 512, &m, &need, why);
        if (cases[i].size < 0) {
            assert_int_equal(found, STK__TAR_BAD);
            assert_non_null(strstr(why, "wanted an octal number"));
        } else {
            assert_int_equal(found, STK__TAR_MEMBER);
            assert_int_equal(m.data_size, cases[i].size);
        }
    }
}

static void head_joins_prefix_and_name_of_ustar_alone(void **state)
{
    uint8_t block[512];
    stk__tar_member m;
    size_t need;
    char why[STK__TAR_WHY];
    make_block(block, "name.txt", '0', "1");
    memcpy(block + 345, "some/dir", 8);
    set_checksum(block);
    assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_MEMBER);
    assert_bytes(m.name, "some/dir/name.txt");
    memset(block + 345, 'p', 155);
    memset(block, 'n', 100);
    set_checksum(block);
    assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_MEMBER);
    assert_int_equal(m.name.size, 256);
    memcpy(block + 257, "ustar  ", 8); /* GNU: other things lie there */
    set_checksum(block);
    assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_MEMBER);
    assert_int_equal(m.name.size, 100);
}

static void head_checks_the_checksum(void **state)
{
    uint8_t block[512];
    stk__tar_member m;
    size_t need;
    char why[STK__TAR_WHY];
    make_block(block, "a.b", '0', "1");
    for (int i = 0; i < 512; i++) {
        if (i == 155) /* behind the sum's own end */
            continue;
        block[i] ^= 4;
        assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_BAD);
        assert_false(stk__tar_is_header(block));
        block[i] ^= 4;
    }
    assert_true(stk__tar_is_header(block));
    /* Sums over signed bytes are taken too. */
    make_block(block, "\xe4.b", '0', "1");
    unsigned sum;
    assert_int_equal(sscanf((char *)block + 148, "%o", &sum), 1);
    snprintf((char *)block + 148, 8, "%06o", sum - 256);
    assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_MEMBER);
}

static void head_takes_long_names_and_pax_records(void **state)
{
    char name[400], record[512];
    stk__tar_member m;
    char why[STK__TAR_WHY];
    memset(name, 'n', sizeof name);
    snprintf(name + 300, 8, ".jpg");
    stk__text t = STK__TEXT_INIT;
    put_member(&t, "././@LongLink", 'L', name);
    put_member(&t, "nnn", '0', "data");
    assert_int_equal(head_of(&t, &m, why), STK__TAR_MEMBER);
    assert_bytes(m.name, name);
    assert_bytes(m.ext, "jpg");
    assert_int_equal(m.head_size, 512 + 512 + 512);
    stk__text_reset(&t);
    snprintf(record, sizeof record, "20 comment=a=b c\nd\n313 path=%s\n14 size=12345\n", name);
    assert_int_equal(strlen("20 comment=a=b c\nd\n"), 19);
    put_member(&t, "pax", 'x', record + 0);
    put_member(&t, "nnn", '0', "data");
    assert_int_equal(head_of(&t, &m, why), STK__TAR_BAD); /* the first length is wrong by one */
    assert_non_null(strstr(why, "pax header is broken"));
    stk__text_reset(&t);
    snprintf(record, sizeof record, "19 comment=a=b c\nd\n314 path=%s\n14 size=12345\n", name);
    put_member(&t, "pax", 'x', record);
    put_member(&t, "nnn", '0', "data");
    assert_int_equal(head_of(&t, &m, why), STK__TAR_MEMBER);
    assert_bytes(m.name, name);
    assert_int_equal(m.data_size, 12345);
    stk__text_clear(&t);
}

static void head_wants_as_much_as_it_needs(void **state)
{
    char name[700];
    stk__tar_member m;
    char why[STK__TAR_WHY];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    stk__text t = STK__TEXT_INIT;
    put_member(&t, "././@LongLink", 'L', name);
    put_member(&t, "nnn", '0', "data");
    const size_t steps[] = {512, 512 + 1024, 512 + 1024 + 512};
    size_t have = 0;
    for (size_t i = 0; i < STK_COUNT(steps); i++) {
        size_t need = 0;
        uint8_t *exact = stk__alloc(have); /* not a byte more */
        memcpy(exact, t.data, have);
        assert_int_equal(stk__tar_head(exact, have, &m, &need, why), STK__TAR_MORE);
        assert_int_equal(need, steps[i]);
        have = need;
        stk__free(exact);
    }
    size_t need;
    assert_int_equal(stk__tar_head((uint8_t *)t.data, have, &m, &need, why), STK__TAR_MEMBER);
    stk__text_clear(&t);
}

static void head_refuses_what_it_cannot_do(void **state)
{
    static const struct {
        char type;
        const char *data, *why;
    } cases[] = {
        {'S', "", "sparse"},
        {'x', "22 GNU.sparse.major=1\n", "sparse"},
        {'x', "9 size=-1\n", "pax header is broken"},
        {'x', "11 size=-1\n", "pax header has the size '-1'"},
        {'x', "24 size=99999999999999999\n", "pax header is broken"},
        {'x', "26 size=99999999999999999\n", "wanted a number below"},
        {'x', "no number\n", "broken"},
        {'x', "99999999 path=x\n", "broken"},
        {'x', "2 \n", "broken"},
        {'x', "5 ab\n", "without '='"},
        {'g', "10 size=1\n", "a global pax header sets 'size'"},
        {'g', "10 path=x\n", "a global pax header sets 'path'"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__tar_member m;
        char why[STK__TAR_WHY] = "";
        put_member(&t, "x", cases[i].type, cases[i].data);
        put_member(&t, "a.b", '0', "");
        assert_int_equal(head_of(&t, &m, why), STK__TAR_BAD);
        if (!strstr(why, cases[i].why))
            fail_msg("case %zu: %s", i, why);
        stk__text_clear(&t);
    }
    uint8_t block[512];
    stk__tar_member m;
    size_t need;
    char why[STK__TAR_WHY];
    make_block(block, "x", 'L', "777777777");
    assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_BAD);
    assert_non_null(strstr(why, "more than 131072 bytes"));
}

static void links_and_directories_have_no_data(void **state)
{
    for (const char *type = "123456"; *type; type++) {
        uint8_t block[512];
        stk__tar_member m;
        size_t need;
        char why[STK__TAR_WHY];
        make_block(block, "a.b", *type, "777");
        assert_int_equal(stk__tar_head(block, 512, &m, &need, why), STK__TAR_MEMBER);
        assert_int_equal(m.data_size, 0);
        assert_int_equal(m.key.size, 0);
    }
}

/* ---- samples ---- */

/* Samples "0" (with a directory, a link and a file without key inside), a note, "1", "1" again behind zeros. */
static void make_archive(stk__text *t)
{
    static const char zeros[1024];
    put_member(t, "pax_global", 'g', "18 comment=abcdef\n");
    put_member(t, "dir/", '5', "");
    put_member(t, "0.jpg", '0', "picture");
    put_member(t, "dir/", '5', "");
    put_member(t, "README", '0', "no key");
    put_member(t, "0.cls", '0', "3");
    put_member(t, "README", '0', "between");
    put_member(t, "1.jpg", '0', "");
    stk__text_write(t, zeros, 1024);
    put_member(t, "1.jpg", '0', "joined");
    stk__text_write(t, zeros, 1024);
}

typedef struct place {
    int64_t offset, size;
} place;

static const place archive_places[] = {{1536, 3584}, {6144, 512}, {7680, 1024}};

static void scan(const void *data, size_t size, stk__record_index *index)
{
    stk__scan_buffers buffers = {0};
    int fd;
    *index = (stk__record_index){.framing = STK__FRAMING_TAR};
    assert_int_equal(stk__file_open(write_bytes("scan.tar", data, size), &fd, &index->id, NULL), STK_OK);
    assert_int_equal(stk__record_scan(fd, "scan.tar", &buffers, NULL, NULL, index, NULL), STK_OK);
    stk__scan_buffers_clear(&buffers);
    close(fd);
}

static void scan_finds_samples(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__record_index index;
    make_archive(&t);
    scan(t.data, t.length, &index);
    assert_int_equal(index.extents.count, STK_COUNT(archive_places));
    assert_int_equal(index.damage_count, 0);
    for (size_t i = 0; i < STK_COUNT(archive_places); i++) {
        int64_t offset, size;
        stk__extents_find(&index.extents, (int64_t)i, &offset, &size);
        assert_int_equal(offset, archive_places[i].offset);
        assert_int_equal(size, archive_places[i].size);
    }
    stk__record_index_clear(&index);
    stk__text_clear(&t);
}

/* The same samples from front to back, plain and compressed, and through a name that is longer than any buffer. */
static void stream_finds_the_same_samples(void **state)
{
    stk__text t = STK__TEXT_INIT;
    make_archive(&t);
    for (int gzip = 0; gzip < 2; gzip++) {
        stk__record_stream *stream;
        const char *path = in_dir("s");
        gzFile file = gzopen(path, gzip ? "wb" : "wbT");
        assert_int_equal(gzwrite(file, t.data, (unsigned)t.length), t.length);
        assert_int_equal(gzclose(file), Z_OK);
        assert_int_equal(stk__record_stream_open(path, STK__FRAMING_TAR, true, &stream, NULL), STK_OK);
        for (size_t i = 0; i < STK_COUNT(archive_places); i++) {
            stk_bytes record;
            int64_t offset;
            bool again;
            assert_int_equal(stk__record_stream_next(stream, &record, &offset, &again, NULL), STK_OK);
            assert_int_equal(offset, archive_places[i].offset);
            assert_true(record.size >= archive_places[i].size); /* members without a key behind it are taken along */
            assert_memory_equal(record.data, t.data + offset, archive_places[i].size);
        }
        stk_bytes record;
        int64_t offset;
        bool again;
        assert_int_equal(stk__record_stream_next(stream, &record, &offset, &again, NULL), STK_END);
        stk__record_stream_close(stream);
    }
    stk__text_clear(&t);
}

static void scan_passes_by_damage(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__record_index index;
    make_archive(&t);
    t.data[2560 + 3] ^= 1; /* the second header of the directory, inside sample 0; found again at README */
    scan(t.data, t.length, &index);
    assert_int_equal(index.damage_count, 1);
    assert_int_equal(index.damage[0].record, 1);
    assert_int_equal(index.damage[0].offset, 2560);
    assert_int_equal(index.damage[0].size_bytes, 512);
    assert_non_null(strstr(index.damage[0].message, "header checksum is"));
    assert_int_equal(index.extents.count, 4); /* sample 0 in two pieces */
    stk__record_index_clear(&index);
    stk__text_clear(&t);
}

static void reader_gives_members_and_their_data(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__tar_member m;
    stk_bytes data;
    put_member(&t, "0.jpg", '0', "picture");
    put_member(&t, "dir/", '5', "");
    put_member(&t, "0.cls", '0', "3");
    for (size_t cut = 0; cut < 512; cut += 511) { /* also without the last padding */
        stk__tar_reader r = {(const uint8_t *)t.data, t.length - cut};
        assert_int_equal(stk__tar_next(&r, &m, &data, NULL), STK_OK);
        assert_bytes(data, "picture");
        assert_int_equal(stk__tar_next(&r, &m, &data, NULL), STK_OK);
        assert_int_equal(stk__tar_next(&r, &m, &data, NULL), STK_OK);
        assert_bytes(m.ext, "cls");
        assert_bytes(data, "3");
        assert_int_equal(stk__tar_next(&r, &m, &data, NULL), STK_END);
    }
    stk__tar_reader r = {(const uint8_t *)t.data, 512 + 6};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__tar_next(&r, &m, &data, &err), STK_CORRUPT);
    assert_string_equal(err.message, "sample ends inside member '0.jpg': found 6 bytes, wanted 7");
    stk__text_clear(&t);
}

/* An index of an archive is kept like that of any record file. */
static void index_of_samples_is_kept(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__record_index index;
    void *bytes;
    size_t size;
    for (int i = 0; i < 300; i++) {
        char name[64], data[4000];
        memset(data, 'x', sizeof data);
        data[i * 13] = 0;
        snprintf(name, sizeof name, "%d.txt", i);
        put_member(&t, name, '0', data);
    }
    scan(t.data, t.length, &index);
    assert_int_equal(index.extents.count, 300);
    assert_true(stk__record_index_format(&index, &bytes, &size));
    stk__record_index again = {.framing = STK__FRAMING_TAR, .id = index.id, .edge_hash = index.edge_hash};
    assert_true(stk__record_index_parse(bytes, size, &again));
    assert_int_equal(again.extents.count, 300);
    for (int64_t i = 0; i < 300; i++) {
        int64_t offset, length, offset2, length2;
        stk__extents_find(&index.extents, i, &offset, &length);
        stk__extents_find(&again.extents, i, &offset2, &length2);
        assert_int_equal(offset, offset2);
        assert_int_equal(length, length2);
    }
    stk__record_index_clear(&again);
    stk__record_index_clear(&index);
    stk__text_clear(&t);
}

/* ---- the writer ---- */

static void writer_makes_archives_that_read_back(void **state)
{
    static const size_t lengths[] = {5, 100, 101, 155, 256, 511, 512, 1000, 5000};
    stk__tar_writer *w;
    char *data;
    size_t size;
    assert_int_equal(stk__tar_writer_open(in_dir("w.tar"), &w, NULL), STK_OK);
    for (size_t i = 0; i < STK_COUNT(lengths); i++) {
        char name[5001];
        memset(name, 'a' + (int)i, lengths[i]);
        name[lengths[i]] = 0;
        assert_int_equal(stk__tar_writer_add(w, name, name, lengths[i], NULL), STK_OK);
    }
    assert_int_equal(stk__tar_writer_end(w, NULL), STK_OK);
    assert_false(exists(in_dir("w.tar")));
    assert_int_equal(stk__tar_writer_commit(w, NULL), STK_OK);
    assert_int_equal(stk__read_file(in_dir("w.tar"), 1 << 20, &data, &size, NULL), STK_OK);
    assert_int_equal(size % 512, 0);
    stk__tar_reader r = {(const uint8_t *)data, size};
    for (size_t i = 0; i < STK_COUNT(lengths); i++) {
        stk__tar_member m;
        stk_bytes bytes;
        assert_int_equal(stk__tar_next(&r, &m, &bytes, NULL), STK_OK);
        assert_int_equal(m.name.size, lengths[i]);
        assert_int_equal(bytes.size, lengths[i]);
        assert_memory_equal(m.name.data, bytes.data, lengths[i]);
    }
    assert_int_equal(r.left, 1024);
    stk__free(data);
}

static void writer_leaves_nothing_when_it_is_given_up(void **state)
{
    stk__tar_writer *w;
    assert_int_equal(stk__tar_writer_open(in_dir("w.tar"), &w, NULL), STK_OK);
    assert_int_equal(stk__tar_writer_add(w, "a.b", "x", 1, NULL), STK_OK);
    stk__tar_writer_abort(w);
    stk__tar_writer_abort(NULL);
    assert_false(exists(in_dir("w.tar")));
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__tar_writer_open(in_dir("no/such/w.tar"), &w, &err), STK_IO);
    assert_string_equal(err.file, in_dir("no/such/w.tar"));
}

#define TAR_TEST(f) cmocka_unit_test_setup_teardown(f, make_test_dir, remove_test_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_splits_names_into_key_and_extension),
        cmocka_unit_test(head_reads_sizes_in_every_form),
        cmocka_unit_test(head_joins_prefix_and_name_of_ustar_alone),
        cmocka_unit_test(head_checks_the_checksum),
        cmocka_unit_test(head_takes_long_names_and_pax_records),
        cmocka_unit_test(head_wants_as_much_as_it_needs),
        cmocka_unit_test(head_refuses_what_it_cannot_do),
        cmocka_unit_test(links_and_directories_have_no_data),
        TAR_TEST(scan_finds_samples),
        TAR_TEST(stream_finds_the_same_samples),
        TAR_TEST(scan_passes_by_damage),
        cmocka_unit_test(reader_gives_members_and_their_data),
        TAR_TEST(index_of_samples_is_kept),
        TAR_TEST(writer_makes_archives_that_read_back),
        TAR_TEST(writer_leaves_nothing_when_it_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
