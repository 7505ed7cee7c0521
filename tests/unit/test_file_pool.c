/* The pool of descriptors: files that change while they are open, and how many stay open. */
#include "record_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

static stk__file_pool *pool_of(const stk__pool_file *files, int32_t count)
{
    stk__file_pool *pool = NULL;
    assert_int_equal(stk__file_pool_new(files, count, &pool, NULL), STK_OK);
    return pool;
}

static void set_time(const char *path, int64_t ns)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void a_look_sees_a_change_at_once_and_from_then_on_always(void **state)
{
    const stk__pool_file file = look_at(write_text("recheck", "abc"));
    stk__file_pool *pool = pool_of(&file, 1);
    stk_error err;
    int fd;
    stk_error_clear(&err);
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_OK);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, NULL), STK_OK);
    append(file.path);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, &err), STK_CORRUPT);
    assert_string_equal(err.message, "changed since it was indexed: it had 3 bytes, now it has 4");
    assert_string_equal(err.file, file.path);
    /* As it was before, by all that can be seen: what was read meanwhile is still not to be trusted. */
    assert_int_equal(truncate(file.path, 3), 0);
    set_time(file.path, file.id.mtime_ns);
    assert_int_equal(stk__file_pool_recheck(pool, 0, fd, &err), STK_CORRUPT);
    assert_string_equal(err.message, "changed since it was indexed: it had 3 bytes, now it has 4");
    assert_int_equal(stk__file_pool_check_unchanged(pool, 0, NULL), STK_CORRUPT);
    stk__file_pool_release(pool, 0);
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_CORRUPT);
    stk__file_pool_free(pool);
}

static void a_lazy_look_waits_10_ms(void **state)
{
    const stk__pool_file file = look_at(write_text("lazy", "abc"));
    stk__file_pool *pool = pool_of(&file, 1);
    int fd;
    const int64_t now = 50000000;
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_OK);
    assert_int_equal(stk__file_pool_recheck_lately(pool, 0, fd, now, NULL), STK_OK);
    append(file.path);
    assert_int_equal(stk__file_pool_recheck_lately(pool, 0, fd, now + 9999999, NULL), STK_OK); /* not looked at yet */
    assert_int_equal(stk__file_pool_recheck_lately(pool, 0, fd, now + 10000000, NULL), STK_CORRUPT);
    assert_int_equal(stk__file_pool_recheck_lately(pool, 0, fd, now + 10000001, NULL), STK_CORRUPT);
    stk__file_pool_release(pool, 0);
    stk__file_pool_free(pool);
}

/* ---- no descriptors left ---- */

enum { MANY = 20 };

static void make_many(stk__pool_file files[MANY], char paths[MANY][100], const char *prefix)
{
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", prefix, i);
        snprintf(paths[i], sizeof paths[i], "%s", write_text(name, name));
        files[i] = look_at(paths[i]);
    }
}

/* Takes descriptors until there are none; returns how many. */
static int take_all(int fds[], int most)
{
    int n = 0;
    while (n < most && (fds[n] = open("/dev/null", O_RDONLY)) >= 0)
        n++;
    assert_int_equal(errno, EMFILE);
    return n;
}

static void limit_descriptors(struct rlimit *before, rlim_t most)
{
    assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, before->rlim_max}), 0);
}

/* What other code of the process took is gone; the pool goes on with those that it has, and then with others'. */
static void idle_descriptors_are_closed_when_there_are_no_more(void **state)
{
    static char paths[2][MANY][100];
    static stk__pool_file files[2][MANY];
    int taken[64], fd;
    struct rlimit before;
    stk_error err;
    make_many(files[0], paths[0], "x");
    make_many(files[1], paths[1], "y");
    stk__file_pool *pool = pool_of(files[0], MANY), *other = pool_of(files[1], MANY);
    limit_descriptors(&before, 64);
    assert_int_equal(stk__file_pool_acquire(pool, 0, &fd, NULL), STK_OK);
    stk__file_pool_release(pool, 0);
    const int n = take_all(taken, 64);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            stk__file_pool *one = i % 2 ? pool : other;
            assert_int_equal(stk__file_pool_acquire(one, i, &fd, NULL), STK_OK);
            char byte;
            assert_int_equal(pread(fd, &byte, 1, 0), 1);
            assert_int_equal(byte, i % 2 ? 'x' : 'y');
            stk__file_pool_release(one, i);
        }
    }
    /* The one that is left is in use, and nobody gives it back. */
    stk_error_clear(&err);
    assert_int_equal(stk__file_pool_acquire(pool, 1, &fd, NULL), STK_OK);
    int second;
    assert_int_equal(stk__file_pool_acquire(other, 1, &second, &err), STK_NOMEM);
    assert_int_equal(err.status, STK_NOMEM);
    assert_non_null(strstr(err.message, "too many open files: the limit is 64"));
    assert_string_equal(err.file, files[1][1].path);
    stk__file_pool_release(pool, 1);
    for (int i = 0; i < n; i++)
        close(taken[i]);
    setrlimit(RLIMIT_NOFILE, &before);
    stk__file_pool_free(pool);
    stk__file_pool_free(other);
}

typedef struct borrower {
    stk__file_pool *pool;
    int32_t file;
    stk_status status;
} borrower;

static void *borrow_often(void *arg)
{
    borrower *b = arg;
    for (int i = 0; i < 200 && b->status == STK_OK; i++) {
        int fd;
        b->status = stk__file_pool_acquire(b->pool, (b->file + i) % MANY, &fd, NULL);
        if (b->status == STK_OK)
            stk__file_pool_release(b->pool, (b->file + i) % MANY);
    }
    return NULL;
}

/* Eight threads, and two descriptors for all of them. */
static void threads_wait_for_each_other_s_descriptors(void **state)
{
    enum { THREADS = 8 };
    static char paths[MANY][100];
    static stk__pool_file files[MANY];
    struct rlimit before;
    int taken[64];
    pthread_t threads[THREADS];
    borrower borrowers[THREADS];
    make_many(files, paths, "z");
    stk__file_pool *pool = pool_of(files, MANY);
    limit_descriptors(&before, 64);
    int n = take_all(taken, 64);
    close(taken[--n]);
    close(taken[--n]);
    for (int i = 0; i < THREADS; i++) {
        borrowers[i] = (borrower){pool, i * 5, STK_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, borrow_often, &borrowers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(borrowers[i].status, STK_OK);
    }
    while (n > 0)
        close(taken[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
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
        cmocka_unit_test(a_look_sees_a_change_at_once_and_from_then_on_always),
        cmocka_unit_test(a_lazy_look_waits_10_ms),
        cmocka_unit_test(idle_descriptors_are_closed_when_there_are_no_more),
        cmocka_unit_test(threads_wait_for_each_other_s_descriptors),
        cmocka_unit_test(descriptors_in_use_stay_open),
        cmocka_unit_test(a_pool_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
