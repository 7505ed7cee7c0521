/* webdataset: fields from members, plain and compressed; what is bad or missing is told with its place. */
#include "harness.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/tar.h"

/* An archive of members name, data, name, data, ..., NULL. */
static void write_members(const char *name, const char *const *members)
{
    stk__tar_writer *w;
    assert_int_equal(stk__tar_writer_open(in_dir(name), &w, NULL), STK_OK);
    for (; *members; members += 2)
        assert_int_equal(stk__tar_writer_add(w, members[0], members[1], strlen(members[1]), NULL), STK_OK);
    assert_int_equal(stk__tar_writer_commit(w, NULL), STK_OK);
}
#define WRITE_MEMBERS(name, ...) write_members(name, (const char *const[]){__VA_ARGS__, NULL})

static void webdataset_makes_image_label_and_key(void **state)
{
    WRITE_MEMBERS("a.tar", "d/0.png", "PNG", "d/0.cls", "7", "d/0.json", "{}", "d/1.cls", " -3 \n", "d/1.JPG", "J");
    assert_prints(
        "webdataset(\"$D/a.tar\")",
        "{\"image\":\"PNG\", \"label\":7, \"key\":\"d/0\"}\n{\"image\":\"J\", \"label\":-3, \"key\":\"d/1\"}\n");
    assert_prints("webdataset(\"$D/a.tar\") | select(label)", "{\"label\":7}\n{\"label\":-3}\n");
    assert_prints("webdataset(\"$D/a.tar\") | drop(label, image)", "{\"key\":\"d/0\"}\n{\"key\":\"d/1\"}\n");
}

static void webdataset_makes_the_fields_asked_for(void **state)
{
    WRITE_MEMBERS("a.tar", "0.seg.png", "S", "0.png", "P", "0.w", "0.25", "0.txt", "t", "1.jpg", "J", "1.w", "-1e3",
                  "1.seg.png", "S1");
    assert_prints(
        "webdataset(\"$D/a.tar\", image=bytes, mask=bytes(from=\"seg.png\"), w=float32, txt=bytes(default=\"no\"), "
        "n=int64(from=\"none\", default=-5)) | drop(key)",
        "{\"image\":\"P\", \"mask\":\"S\", \"w\":0.25, \"txt\":\"t\", \"n\":-5}\n"
        "{\"image\":\"J\", \"mask\":\"S1\", \"w\":-1e+03, \"txt\":\"no\", \"n\":-5}\n");
    /* The first extension in the list counts, wherever the members lie. */
    WRITE_MEMBERS("b.tar", "0.jpg", "J", "0.png", "P");
    assert_prints("webdataset(\"$D/b.tar\", x=bytes(from=\"png;jpg\")) | drop(key)", "{\"x\":\"P\"}\n");
    assert_prints("webdataset(\"$D/b.tar\", x=bytes(from=\"jpg;png\")) | drop(key)", "{\"x\":\"J\"}\n");
    assert_prints("webdataset(\"$D/b.tar\", key=bytes(from=\"jpg\"))", "{\"key\":\"J\"}\n");
}

static void webdataset_is_the_same_compressed_and_by_name(void **state)
{
    static const char rest[] = "jpg=bytes, value=int64(from=\"cls\")) | batch(7) | repeat(2)";
    char text[160];
    seen plain, zipped;
    write_tar("a.tar", false, 0, 200);
    write_tar("a.tar.gz", true, 0, 200);
    snprintf(text, sizeof text, "webdataset(\"$D/a.tar\", %s", rest);
    run_all(text, NULL, &plain);
    snprintf(text, sizeof text, "webdataset(\"$D/a.tar.gz\", %s", rest);
    run_all(text, NULL, &zipped);
    assert_seen_equal(&plain, 0, &zipped, text);
    assert_int_equal(plain.value_count, 400);
    for (size_t i = 0; i < 400; i++)
        assert_int_equal(plain.values[i], i % 200);
    seen_clear(&plain);
    seen_clear(&zipped);
}

/* Only numbers are wanted: the pictures are read over. Only pictures: they are not copied, and the same. */
static void webdataset_takes_what_is_needed(void **state)
{
    seen all, alone;
    write_tar("a.tar", false, 0, 30);
    ASSERT_VALUES("webdataset(\"$D/a.tar\", value=int64(from=\"cls\"), image=bytes) | skip(27) | select(value)", 27, 28,
                  29);
    run_all("webdataset(\"$D/a.tar\") | select(image)", NULL, &all);
    run_all("webdataset(\"$D/a.tar\", image=bytes, cls=bytes) | filter(\"cls != \\\"\\\"\") | select(image)", NULL,
            &alone);
    assert_seen_equal(&all, 0, &alone, "image");
    seen_clear(&all);
    seen_clear(&alone);
}

static void webdataset_keeps_its_index(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_tar("a.tar", false, 0, 300);
    config.cache_dir = in_dir("index");
    for (int i = 0; i < 2; i++) {
        run_all("webdataset(\"$D/a.tar\") | batch(50)", &config, &s);
        assert_int_equal(s.stats.samples, 300);
        seen_clear(&s);
    }
    assert_true(file_exists("index"));
    write_tar("a.tar", false, 0, 301); /* is noticed */
    run_all("webdataset(\"$D/a.tar\") | batch(50)", &config, &s);
    assert_int_equal(s.stats.samples, 301);
    seen_clear(&s);
}

static void flip(const char *name, size_t at)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &data, &size, NULL), STK_OK);
    assert_true(at < size);
    data[at] ^= 1;
    write_file(name, data, size);
    stk__free(data);
}

static void webdataset_names_what_is_missing(void **state)
{
    static const char *const names[] = {"a.tar", "a.tar.gz"};
    WRITE_MEMBERS("a.tar", "d/0.png", "P", "d/0.cls", "1", "d/1.txt", "T", "d/1.cls", "2");
    WRITE_MEMBERS("a.tar.gz", "d/0.png", "P", "d/0.cls", "1", "d/1.txt", "T", "d/1.cls", "2");
    compress_file("a.tar.gz");
    for (int i = 0; i < 2; i++) {
        char text[96];
        seen s;
        snprintf(text, sizeof text, "webdataset(\"$D/%s\")", names[i]);
        run_some(text, NULL, -1, NULL, &s);
        assert_int_equal(s.status, STK_UNFIT);
        assert_string_equal(s.error.file, in_dir(names[i]));
        assert_string_equal(s.error.op, "webdataset");
        assert_string_equal(s.error.field, "image");
        assert_int_equal(s.error.record, 1);
        assert_int_equal(s.error.offset, 2048);
        assert_string_equal(s.error.message, "sample 'd/1' has no member with the extension jpg;jpeg;png;webp;gif;bmp; "
                                             "it has txt, cls");
        seen_clear(&s);
    }
}

static void webdataset_names_numbers_that_are_none(void **state)
{
    WRITE_MEMBERS("a.tar", "0.cls", "1", "1.cls", "seven");
    assert_fails("webdataset(\"$D/a.tar\", label=int64)", NULL, STK_CORRUPT, "holds 'seven', wanted an integer");
    assert_fails("webdataset(\"$D/a.tar\", cls=float32)", NULL, STK_CORRUPT, "holds 'seven', wanted a number");
    WRITE_MEMBERS("a.tar", "0.cls", " ");
    assert_fails("webdataset(\"$D/a.tar\", label=int64)", NULL, STK_CORRUPT, "holds '', wanted an integer");
    WRITE_MEMBERS("a.tar", "0.cls", "1", "0.cls", "2");
    assert_fails("webdataset(\"$D/a.tar\", label=int64)", NULL, STK_CORRUPT, "has member '0.cls' twice");
}

/* Samples are 2 KiB each: jpg header and data, cls header and data. */
static void write_even(const char *name, int count)
{
    stk__tar_writer *w;
    assert_int_equal(stk__tar_writer_open(in_dir(name), &w, NULL), STK_OK);
    for (int i = 0; i < count; i++) {
        char member[32], data[32];
        snprintf(member, sizeof member, "%03d.jpg", i);
        assert_int_equal(stk__tar_writer_add(w, member, "picture", 7, NULL), STK_OK);
        snprintf(member, sizeof member, "%03d.cls", i);
        snprintf(data, sizeof data, "%d", i);
        assert_int_equal(stk__tar_writer_add(w, member, data, strlen(data), NULL), STK_OK);
    }
    assert_int_equal(stk__tar_writer_commit(w, NULL), STK_OK);
}

static void webdataset_stops_at_a_damaged_header(void **state)
{
    seen s;
    write_even("a.tar", 6);
    flip("a.tar", 3 * 2048 + 5); /* the header of 003.jpg */
    run_some("webdataset(\"$D/a.tar\") | batch(1)", NULL, -1, NULL, &s);
    assert_int_equal(s.status, STK_CORRUPT);
    assert_string_equal(s.error.file, in_dir("a.tar"));
    assert_int_equal(s.error.offset, 3 * 2048);
    assert_int_equal(s.error.record, 3);
    assert_non_null(strstr(s.error.message, "header checksum is"));
    assert_non_null(strstr(s.error.message, "1024 bytes hold no readable record"));
    seen_clear(&s);
}

static void webdataset_goes_on_behind_damage_when_told(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_even("a.tar", 6);
    flip("a.tar", 3 * 2048 + 5);
    config.on_error = STK_ON_ERROR_QUARANTINE;
    config.quarantine_path = in_dir("list");
    /* The damaged header, and what is left of its sample, which has no picture. */
    run_all("webdataset(\"$D/a.tar\", image=bytes, value=int64(from=\"cls\"))", &config, &s);
    assert_int_equal(s.value_count, 5);
    assert_int_equal(s.values[2], 2);
    assert_int_equal(s.values[3], 4);
    assert_int_equal(s.stats.skipped, 2);
    assert_int_equal(s.stats.lost_bytes, 1024);
    seen_clear(&s);
    /* The list fed back: the rest of the sample is there, but for its picture. */
    ASSERT_VALUES("webdataset(\"$D/a.tar\", value=int64(from=\"cls\"), only=\"$D/list\")", 3);
}

static void webdataset_tells_of_a_file_that_is_cut_off(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_even("a.tar", 4);
    assert_int_equal(truncate(in_dir("a.tar"), 3 * 2048 + 512 + 3), 0); /* inside the last picture */
    assert_fails("webdataset(\"$D/a.tar\")", NULL, STK_CORRUPT,
                 "file ends inside member '003.jpg': its size is 7, but 3 bytes");
    config.on_error = STK_ON_ERROR_SKIP;
    run_all("webdataset(\"$D/a.tar\", value=int64(from=\"cls\"))", &config, &s);
    assert_int_equal(s.value_count, 3);
    assert_int_equal(s.stats.skipped, 1);
    seen_clear(&s);
    assert_int_equal(truncate(in_dir("a.tar"), 3 * 2048 + 100), 0); /* inside a header */
    assert_fails("webdataset(\"$D/a.tar\")", NULL, STK_CORRUPT,
                 "file ends inside a header: 100 bytes are left, wanted 512");
    assert_int_equal(truncate(in_dir("a.tar"), 3 * 2048), 0); /* no end marks: no matter */
    ASSERT_VALUES("webdataset(\"$D/a.tar\", value=int64(from=\"cls\"))", 0, 1, 2);
}

static void webdataset_tells_of_a_compressed_file_that_is_cut_off(void **state)
{
    stk_config config = harness_config();
    struct stat st;
    seen s;
    write_tar("a.tar.gz", true, 0, 300);
    assert_int_equal(stat(in_dir("a.tar.gz"), &st), 0);
    assert_int_equal(truncate(in_dir("a.tar.gz"), st.st_size - 400), 0);
    assert_fails("webdataset(\"$D/a.tar.gz\")", NULL, STK_CORRUPT, "gzip data ends early");
    config.on_error = STK_ON_ERROR_SKIP;
    run_all("webdataset(\"$D/a.tar.gz\", value=int64(from=\"cls\"))", &config, &s);
    assert_true(s.value_count > 250 && s.value_count < 300);
    for (size_t i = 0; i < s.value_count; i++)
        assert_int_equal(s.values[i], i);
    assert_int_equal(s.stats.skipped, 1);
    seen_clear(&s);
}

static void webdataset_refuses_what_is_no_archive(void **state)
{
    char text[2000];
    memset(text, 'x', sizeof text);
    write_file("x.tar", text, sizeof text);
    assert_fails("webdataset(\"$D/x.tar\")", NULL, STK_CORRUPT, "is no tar file: it begins with 78 78");
    write_file("x.tar", text, 100);
    assert_fails("webdataset(\"$D/x.tar\")", NULL, STK_CORRUPT, "is no tar file");
    write_file("x.tar", "", 0);
    assert_prints("webdataset(\"$D/x.tar\")", "");
    memset(text, 0, sizeof text);
    write_file("x.tar", text, 1024); /* an empty archive */
    assert_prints("webdataset(\"$D/x.tar\")", "");
    assert_fails("webdataset(\"$D/none-*.tar\")", NULL, STK_IO, "match");
}

static void webdataset_refuses_bad_fields(void **state)
{
    assert_refused("webdataset()", NULL, STK_INVALID, "paths is missing", 1, 1);
    assert_refused("webdataset(\"x\", a=uint8)", NULL, STK_INVALID, "must be bytes, or int64 or float32", 1, 19);
    assert_refused("webdataset(\"x\", a=int64[3])", NULL, STK_INVALID, "one value, without a shape", 1, 19);
    assert_refused("webdataset(\"x\", a=5)", NULL, STK_INVALID, "must be a type such as bytes", 1, 19);
    assert_refused("webdataset(\"x\", a=int64(default=\"x\"))", NULL, STK_INVALID, "default of its own type", 1, 19);
    assert_refused("webdataset(\"x\", a=bytes(form=\"x\"))", NULL, STK_INVALID, "followed by from=", 1, 19);
    assert_refused("webdataset(\"x\", a=bytes(from=\"\"))", NULL, STK_INVALID, "followed by from=", 1, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(webdataset_makes_image_label_and_key),
        OP_TEST(webdataset_makes_the_fields_asked_for),
        OP_TEST(webdataset_is_the_same_compressed_and_by_name),
        OP_TEST(webdataset_takes_what_is_needed),
        OP_TEST(webdataset_keeps_its_index),
        OP_TEST(webdataset_names_what_is_missing),
        OP_TEST(webdataset_names_numbers_that_are_none),
        OP_TEST(webdataset_stops_at_a_damaged_header),
        OP_TEST(webdataset_goes_on_behind_damage_when_told),
        OP_TEST(webdataset_tells_of_a_file_that_is_cut_off),
        OP_TEST(webdataset_tells_of_a_compressed_file_that_is_cut_off),
        OP_TEST(webdataset_refuses_what_is_no_archive),
        OP_TEST(webdataset_refuses_bad_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
