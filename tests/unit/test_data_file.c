/* Opening of data files: time stamps that tell every later write. */
#define _GNU_SOURCE
#include "record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "formats/data_file.h"

static int64_t stamp_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Written, opened and written again as fast as can be: each version has a time of its own all the same. */
static void a_write_after_opening_always_shows(void **state)
{
    const char *path = in_dir("settle");
    for (int i = 0; i < 40; i++) {
        int fd;
        stk__file_id id;
        const int out = open(path, O_CREAT | O_WRONLY, 0666);
        assert_int_equal(pwrite(out, "abc", 3, 0), 3);
        assert_int_equal(stk__data_file_open_settled(path, &fd, &id, NULL), STK_OK);
        assert_true(stamp_clock_ns() > id.mtime_ns);
        assert_int_equal(stk__data_file_unchanged(fd, path, &id, NULL), STK_OK);
        assert_int_equal(pwrite(out, "xyz", 3, 0), 3);
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk__data_file_unchanged(fd, path, &id, &err), STK_CORRUPT);
        assert_non_null(strstr(err.message, "changed while it was read: same size"));
        close(out);
        close(fd);
    }
}

static void only_fresh_stamps_are_waited_for(void **state)
{
    const int64_t second = 1000000000;
    assert_false(stk__data_file_settle(stamp_clock_ns() - second + 1));
    assert_false(stk__data_file_settle(stamp_clock_ns() + 5 * second + 1)); /* another clock, or set by hand */
    const int64_t now = stamp_clock_ns();
    assert_true(stk__data_file_settle(now));
    assert_true(stamp_clock_ns() > now);
    /* Without fractions: a file system that has none, in steps of up to two seconds. */
    const int64_t whole = stamp_clock_ns() / second * second;
    assert_true(stk__data_file_settle(whole));
    assert_true(stamp_clock_ns() >= whole + 2 * second);
    assert_false(stk__data_file_settle(whole));
}

static void what_is_no_file_is_refused(void **state)
{
    int fd;
    stk__file_id id;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(mkfifo(in_dir("pipe"), 0666), 0);
    assert_int_equal(stk__data_file_open_regular(in_dir("pipe"), &fd, &id, &err), STK_IO);
    assert_non_null(strstr(err.message, "is no regular file"));
    assert_int_equal(stk__data_file_open_regular(in_dir("none"), &fd, &id, &err), STK_IO);
    assert_int_equal(stk__data_file_look(in_dir("none"), &id, &err), STK_IO);
    assert_string_equal(err.message, "cannot open: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_after_opening_always_shows),
        cmocka_unit_test(only_fresh_stamps_are_waited_for),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
