/* image_folder: classes and files in order, links, names to leave out; files that cannot be read follow the policy. */
#include "harness.h"

#include <unistd.h>

#include "base/file.h"
#include "formats/folder.h"

static void put(const char *path)
{
    assert_int_equal(stk__make_parents(in_dir(path), NULL), STK_OK);
    write_file(path, path, strlen(path));
}

static void folder_lists_classes_and_files_in_order(void **state)
{
    static const char *const files[] = {"f/b/2.jpg",     "f/b/10.JPEG",     "f/a/z.png",    "f/a/s/1.webp",
                                        "f/a/s-t/1.gif", "f/a/s/u/0.bmp",   "f/a/s/2.png",  "f/c/only.jpg",
                                        "f/a/x.txt",     "f/a/.hidden.png", "f/.git/x.png", "f/loose.png"};
    for (size_t i = 0; i < STK_COUNT(files); i++)
        put(files[i]);
    assert_prints("image_folder(\"$D/f\")", "{\"image\":\"f/a/z.png\", \"label\":0, \"path\":\"a/z.png\"}\n"
                                            "{\"image\":\"f/a/s/1.webp\", \"label\":0, \"path\":\"a/s/1.webp\"}\n"
                                            "{\"image\":\"f/a/s/2.png\", \"label\":0, \"path\":\"a/s/2.png\"}\n"
                                            "{\"image\":\"f/a/s-t/1.gif\", \"label\":0, \"path\":\"a/s-t/1.gif\"}\n"
                                            "{\"image\":\"f/a/s/u/0.bmp\", \"label\":0, \"path\":\"a/s/u/0.bmp\"}\n"
                                            "{\"image\":\"f/b/10.JPEG\", \"label\":1, \"path\":\"b/10.JPEG\"}\n"
                                            "{\"image\":\"f/b/2.jpg\", \"label\":1, \"path\":\"b/2.jpg\"}\n"
                                            "{\"image\":\"f/c/only.jpg\", \"label\":2, \"path\":\"c/only.jpg\"}\n");
}

static void folder_takes_other_extensions(void **state)
{
    put("f/a/x.txt");
    put("f/a/y.jpg");
    assert_prints("image_folder(\"$D/f\", extensions=\"dat;TXT\") | select(path)", "{\"path\":\"a/x.txt\"}\n");
    assert_refused("image_folder(\"$D/f\", extensions=\"\")", NULL, STK_INVALID, "extensions is empty", 1, 1);
}

static void folder_joins_several_directories(void **state)
{
    put("f/b/1.jpg");
    put("g/a/1.jpg");
    put("g/b/0.jpg");
    assert_prints("image_folder(\"$D/f\", \"$D/g\") | drop(path)",
                  "{\"image\":\"g/a/1.jpg\", \"label\":0}\n{\"image\":\"f/b/1.jpg\", \"label\":1}\n"
                  "{\"image\":\"g/b/0.jpg\", \"label\":1}\n");
    assert_prints("image_folder(\"$D/[fg]\") | select(label)", "{\"label\":0}\n{\"label\":1}\n{\"label\":1}\n");
}

static void folder_takes_classes_of_the_user(void **state)
{
    put("f/a/1.jpg");
    put("f/b/1.jpg");
    put("f/c/1.jpg");
    write_file("names", "c\nb\r\n\na", 7);
    assert_prints("image_folder(\"$D/f\", classes=[\"c\", \"a\"]) | select(label, path)",
                  "{\"label\":0, \"path\":\"c/1.jpg\"}\n{\"label\":1, \"path\":\"a/1.jpg\"}\n");
    assert_prints("image_folder(\"$D/f\", classes=\"$D/names\") | select(path)",
                  "{\"path\":\"c/1.jpg\"}\n{\"path\":\"b/1.jpg\"}\n{\"path\":\"a/1.jpg\"}\n");
    assert_prints("image_folder(\"$D/f\", classes=[\"c\"]) | select(label, path)", "{\"label\":0, \"path\":\"c/1.jpg\"}\n");
    assert_fails("image_folder(\"$D/f\", classes=[\"c\", \"d\"])", NULL, STK_IO, "class 'd' has no file");
    assert_fails("image_folder(\"$D/f\", classes=[\"c\", \"b\", \"c\"])", NULL, STK_INVALID,
                 "class 'c' is given twice");
    assert_fails("image_folder(\"$D/f\", classes=\"$D/nothing\")", NULL, STK_IO, "No such file");
}

static void folder_follows_links_but_not_in_circles(void **state)
{
    put("f/a/1.jpg");
    put("other/2.jpg");
    assert_int_equal(symlink("..", in_dir("f/a/up")), 0);
    assert_int_equal(symlink("../../other", in_dir("f/a/more")), 0);
    assert_int_equal(symlink("../other", in_dir("f/b")), 0);
    /* Through "up" all classes are met once more, once: that is what the links say. */
    assert_prints("image_folder(\"$D/f\") | filter(\"label == 1\") | select(path)", "{\"path\":\"b/2.jpg\"}\n");
    seen s;
    run_all("image_folder(\"$D/f\") | select(path)", NULL, &s);
    assert_int_equal(s.stats.samples, 4);
    seen_clear(&s);
}

static void folder_says_what_it_looked_for(void **state)
{
    assert_fails("image_folder(\"$D/none\")", NULL, STK_IO, "cannot list the directory: No such file");
    put("f/x.jpg");
    assert_fails("image_folder(\"$D/f\")", NULL, STK_IO, "has no directory in it, but 1 other entries");
    put("f/a/x.txt");
    assert_fails(
        "image_folder(\"$D/f\")", NULL, STK_IO,
        "class 'a' has no file, wanted at least one that ends in .jpg, .jpeg, .png, .webp, .gif, .bmp; 1 others");
}

/* A file that is gone stops the run, or is left out; the error names it. */
static void folder_follows_the_policy_for_files_that_cannot_be_read(void **state)
{
    stk_config config = harness_config();
    seen s;
    put("f/a/1.jpg");
    put("f/a/2.jpg");
    assert_int_equal(symlink("nowhere", in_dir("f/a/1b.jpg")), 0);
    run_some("image_folder(\"$D/f\") | batch(1)", NULL, -1, NULL, &s);
    assert_int_equal(s.status, STK_IO);
    assert_string_equal(s.error.file, in_dir("f/a/1b.jpg"));
    assert_string_equal(s.error.op, "image_folder");
    assert_int_equal(s.count, 1);
    seen_clear(&s);
    config.on_error = STK_ON_ERROR_QUARANTINE;
    config.quarantine_path = in_dir("list");
    run_all("image_folder(\"$D/f\")", &config, &s);
    assert_int_equal(s.stats.samples, 2);
    assert_int_equal(s.stats.quarantined, 1);
    seen_clear(&s);
}

/* A checkpoint does not fit other files. */
static void folder_notices_other_files(void **state)
{
    stk_config config = harness_config();
    stk_pipeline *p;
    stk_error error;
    seen s;
    write_folder("f", 2, 5);
    run_some("image_folder(\"$D/f\") | batch(2)", NULL, 2, in_dir("point"), &s);
    seen_clear(&s);
    put("f/class1/zz.jpg");
    config.resume_path = in_dir("point");
    stk_error_clear(&error);
    assert_int_equal(try_open("image_folder(\"$D/f\") | batch(2)", &config, &p, &error), STK_MISMATCH);
}

static void folder_without_classes_takes_all_pictures(void **state)
{
    put("f/2.jpg");
    put("f/1.png");
    put("f/sub/deep/1.jpg");
    put("f/sub-a/1.jpg");
    put("g/1.jpg");
    assert_prints("image_folder(\"$D/f\", \"$D/g/\", labels=false) | select(path)",
                  "{\"path\":\"1.png\"}\n{\"path\":\"2.jpg\"}\n{\"path\":\"sub-a/1.jpg\"}\n{\"path\":\"sub/deep/1.jpg\"}\n"
                  "{\"path\":\"1.jpg\"}\n");
    seen s;
    run_all("image_folder(\"$D/f\", labels=false) | shuffle(seed=1) | batch(4)", NULL, &s);
    assert_int_equal(s.batches[0].rows, 4);
    seen_clear(&s);
    assert_fails("image_folder(\"$D/f\", labels=false) | select(label)", NULL, STK_INVALID, "no field 'label' here");
    assert_fails("image_folder(\"$D/f\", labels=false, classes=[\"sub\"])", NULL, STK_INVALID, "exclude each other");
    assert_fails("image_folder(\"$D/f\", labels=false, extensions=\"webp\")", NULL, STK_IO,
                 "has no file, wanted at least one that ends in .webp; 4 others are there");
    assert_fails("image_folder(\"$D/nowhere\", labels=false)", NULL, STK_IO, "cannot list the directory");
    assert_fails("image_folder(\"$D/g\")", NULL, STK_IO, "labels=false takes pictures without classes");
}

static void folder_interleaves_classes(void **state)
{
    write_folder("f", 3, 2);
    assert_prints("image_folder(\"$D/f\") | interleave(cycle=3) | select(label)",
                  "{\"label\":0}\n{\"label\":1}\n{\"label\":2}\n{\"label\":0}\n{\"label\":1}\n{\"label\":2}\n");
}

/* By number, as the labels are; a source that has none says so. */
static void folder_names_its_classes(void **state)
{
    stk_pipeline *p;
    write_folder("f", 2, 1);
    assert_int_equal(try_open("image_folder(\"$D/f\") | batch(1)", NULL, &p, NULL), STK_OK);
    assert_string_equal(stk_pipeline_class_name(p, 0), "class0");
    assert_string_equal(stk_pipeline_class_name(p, 1), "class1");
    assert_null(stk_pipeline_class_name(p, 2));
    assert_null(stk_pipeline_class_name(p, -1));
    stk_pipeline_close(p);
    assert_int_equal(try_open("range(3) | batch(1)", NULL, &p, NULL), STK_OK);
    assert_null(stk_pipeline_class_name(p, 0));
    stk_pipeline_close(p);
}

/* Contents of all files up to 10,000, and of just so many, evenly chosen, where there are more. */
static void look_samples_evenly(void **state)
{
    static const int64_t counts[] = {1, 9999, 10000, 10001, 1234567};
    for (size_t i = 0; i < STK_COUNT(counts); i++) {
        int64_t chosen = 0, last = -1, widest = 0;
        for (int64_t k = 0; k < counts[i]; k++) {
            if (!stk__folder_sampled(k, counts[i]))
                continue;
            widest = STK_MAX(widest, k - last);
            last = k;
            chosen++;
        }
        assert_int_equal(chosen, STK_MIN(counts[i], (int64_t)STK__FOLDER_SAMPLES));
        assert_true(widest <= counts[i] / STK__FOLDER_SAMPLES + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(look_samples_evenly),
        OP_TEST(folder_lists_classes_and_files_in_order),
        OP_TEST(folder_takes_other_extensions),
        OP_TEST(folder_joins_several_directories),
        OP_TEST(folder_takes_classes_of_the_user),
        OP_TEST(folder_follows_links_but_not_in_circles),
        OP_TEST(folder_says_what_it_looked_for),
        OP_TEST(folder_follows_the_policy_for_files_that_cannot_be_read),
        OP_TEST(folder_notices_other_files),
        OP_TEST(folder_without_classes_takes_all_pictures),
        OP_TEST(folder_interleaves_classes),
        OP_TEST(folder_names_its_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
