/* The pool of descriptors: files that change while they are open, and how many stay open. */
#include "record_files.h"

#include <fcntl.h>

#include "formats/file_pool.h"

static stk__pool_file look_at(const char *path)
{
    stk__pool_file file = {.path = path};
    int fd;
    assert_int_equal(stk__file_open(path, &fd, &file.id, NULL), STK_OK);
    close(fd);
    return file;
}

static void append(const char *path)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputc('x', f);
    fclose(f);
}

static void recheck_sees_a_change_every_10_ms_and_from_then_on_always(void **state)
{
    const stk__pool_file file = look_at(write_text("recheck", "abc"));
    stk__file_pool *pool = NULL;
    stk_error err;
    int fd;
    stk_error_clear(&err);
    assert_int_equal(stk__file_pool_new(&file, 1, &pool, NULL), STK_OK);
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_OK);
    const int64_t now = 50000000;
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, now, NULL), STK_OK);
    append(file.path);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, now + 9999999, NULL), STK_OK); /* not looked at yet */
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, now + 10000000, &err), STK_CORRUPT);
    assert_string_equal(err.message, "changed since it was indexed: it had 3 bytes, now it has 4");
    assert_string_equal(err.file, file.path);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, now + 10000001, NULL), STK_CORRUPT);
    stk__file_pool_release(pool, 0);
    stk__file_pool_free(pool);
}

static void recheck_at_any_time_looks_at_once(void **state)
{
    const stk__pool_file file = look_at(write_text("at-once", "abc"));
    stk__file_pool *pool = NULL;
    int fd;
    assert_int_equal(stk__file_pool_new(&file, 1, &pool, NULL), STK_OK);
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_OK);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, 50000000, NULL), STK_OK);
    append(file.path);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, INT64_MAX, NULL), STK_CORRUPT);
    stk__file_pool_release(pool, 0);
    stk__file_pool_free(pool);
}

/* A descriptor that is in use is never closed for another one. */
static void descriptors_in_use_stay_open(void **state)
{
    enum { FILES = 600 };
    static char paths[FILES][100];
    static stk__pool_file files[FILES];
    static int fds[FILES];
    for (int i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(paths[i], sizeof paths[i], "%s", write_text(name, name));
        files[i] = look_at(paths[i]);
    }
    stk__file_pool *pool = NULL;
    assert_int_equal(stk__file_pool_new(files, FILES, &pool, NULL), STK_OK);
    assert_true(stk__file_pool_memory(pool) >= FILES * sizeof(stk__pool_file));
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(stk__file_pool_acquire(pool, i, &fds[i], NULL), STK_OK);
        if (i >= 100) /* the first hundred are kept all the time */
            stk__file_pool_release(pool, i);
    }
    for (int i = 0; i < 100; i++) {
        char text[16] = "";
        assert_true(pread(fds[i], text, sizeof text - 1, 0) > 0);
        assert_string_equal(text, strrchr(paths[i], '/') + 1);
        stk__file_pool_release(pool, i);
    }
    stk__file_pool_free(pool);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    stk__file_pool_free(NULL);
}

static void a_pool_without_memory_fails(void **state)
{
    const stk__pool_file file = {.path = "x"};
    for (uint64_t n = 1; n <= 2; n++) {
        stk__file_pool *pool = NULL;
        stk__alloc_fail_at(n, false);
        assert_int_equal(stk__file_pool_new(&file, 1, &pool, NULL), STK_NOMEM);
        stk__alloc_fail_at(0, false);
        assert_null(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recheck_sees_a_change_every_10_ms_and_from_then_on_always),
        cmocka_unit_test(recheck_at_any_time_looks_at_once),
        cmocka_unit_test(descriptors_in_use_stay_open),
        cmocka_unit_test(a_pool_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
