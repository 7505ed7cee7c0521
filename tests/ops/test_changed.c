/*
 * Files that change while they are read. The reading calls of libc are replaced: the one that a test names finds its
 * file changed in place, just before it reads. So the change lies where no luck would bring it: after the last look at the
 * file, and before its bytes.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 40, FILE_MAX = 1 << 16, INDEX_CALLS = 4 }; /* the last: reads of a record file before its first record */

static struct {
    char dir[256];     /* files below it count; "": none */
    int64_t calls;     /* that read such a file */
    int64_t at;        /* the call that finds its file changed; -1: none does */
    bool flip;         /* every byte of it, else each 'q' becomes a 'z' */
    char changed[256]; /* the file that was changed, and what it was before */
    char before[FILE_MAX];
    long size;
} trap = {.at = -1};

static void change_in_place(const char *path)
{
    static char data[FILE_MAX];
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    const long size = syscall(SYS_pread64, fd, data, sizeof data, (off_t)0);
    assert_true(fd >= 0 && size > 0 && size < FILE_MAX);
    snprintf(trap.changed, sizeof trap.changed, "%s", path);
    memcpy(trap.before, data, (size_t)size);
    trap.size = size;
    for (long i = 0; i < size; i++)
        data[i] = trap.flip ? (char)(data[i] ^ 0x40) : data[i] == 'q' ? 'z' : data[i];
    assert_int_equal(syscall(SYS_pwrite64, fd, data, size, (off_t)0), size);
    syscall(SYS_close, fd);
}

static void restore(void)
{
    const int fd = open(trap.changed, O_WRONLY);
    assert_int_equal(pwrite(fd, trap.before, (size_t)trap.size, 0), trap.size);
    close(fd);
}

static void spring(int fd)
{
    char link[64], path[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!trap.dir[0] || readlink(link, path, sizeof path - 1) <= 0 || strncmp(path, trap.dir, strlen(trap.dir)) != 0)
        return;
    if (trap.calls++ == trap.at)
        change_in_place(path);
}

/* In place of libc's, for all code in this program. */
ssize_t trapped_pread(int fd, void *data, size_t size, off_t offset) __asm__("pread64");
ssize_t trapped_read(int fd, void *data, size_t size) __asm__("read");

ssize_t trapped_pread(int fd, void *data, size_t size, off_t offset)
{
    spring(fd);
    return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t trapped_read(int fd, void *data, size_t size)
{
    spring(fd);
    return syscall(SYS_read, fd, data, size);
}

static void write_all(void)
{
    char lines[ROWS * 32] = "";
    for (int i = 0; i < ROWS; i++)
        snprintf(lines + strlen(lines), 32, "%02d qqqqqqqq\n", i);
    mkdir(in_dir("d"), 0777);
    write_file("d/t.txt", lines, strlen(lines));
    write_file("d/a.txt", lines, strlen(lines) / 2);
    write_file("d/b.txt", lines + strlen(lines) / 2, strlen(lines) / 2);
    mkdir(in_dir("d/p"), 0777);
    for (int i = 0; i < ROWS; i++) {
        char name[32], data[64];
        snprintf(name, sizeof name, "d/p/%02d.png", i);
        snprintf(data, sizeof data, "%02d qqqqqqqq", i);
        write_file(name, data, strlen(data));
    }
    static const char *const sinks[] = {
        "text(\"$D/d/t.txt\") | write_tfrecord(\"$D/d/t.tfrecord\")",
        "text(\"$D/d/t.txt\") | write_webdataset(\"$D/d/t.tar\", text=\"txt\")",
        "text(\"$D/d/t.txt\") | write_hdf5(\"$D/d/strings.h5\")",
        "range(40) | write_hdf5(\"$D/d/rows.h5\")",
        "range(40) | write_hdf5(\"$D/d/chunks.h5\", chunk=4, gzip=1)",
    };
    for (size_t i = 0; i < STK_COUNT(sinks); i++) {
        seen s;
        run_all(sinks[i], NULL, &s);
        seen_clear(&s);
    }
}

static void arm(int64_t at, bool flip)
{
    snprintf(trap.dir, sizeof trap.dir, "%s", in_dir("d"));
    trap.calls = 0;
    trap.at = at;
    trap.flip = flip;
}

/* Runs with one thread, so that calls come in the same order each time; returns how many there were. */
static int64_t run_armed(const char *text, stk_on_error policy, int64_t at, bool flip, seen *out)
{
    stk_config config = harness_config();
    config.threads = 1;
    config.on_error = policy;
    arm(at, flip);
    run_some(text, &config, -1, NULL, out);
    trap.dir[0] = 0;
    return trap.calls;
}

static int64_t lines_of(const seen *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->lines.length; i++)
        n += s->lines.data[i] == '\n';
    return n;
}

/* Every row that was handed over is one that there was before the change. */
static void assert_old(const seen *s, const char *text, int64_t at)
{
    for (size_t i = 0; i < s->lines.length; i++)
        if (s->lines.data[i] == 'z')
            fail_msg("%s: call %lld: a row of the changed file was handed over: %s", text, (long long)at,
                     s->lines.data);
    for (size_t i = 0; i < s->value_count; i++)
        assert_in_range(s->values[i], 0, ROWS - 1);
}

/* Changes the file before one of the last `calls` reads, each of them in a run of its own; returns how often that was so. */
static int64_t change_each(const char *text, stk_on_error policy, int64_t calls, bool flip)
{
    seen s;
    const int64_t all = run_armed(text, policy, -1, flip, &s);
    int64_t changes = 0;
    assert_int_equal(s.status, STK_END);
    assert_int_equal(s.stats.skipped, 0);
    seen_clear(&s);
    /* With a policy for bad records, fewer and larger pieces are read; of a small stream, there are few calls at all. */
    calls = STK_MIN(calls, STK_MAX(all - INDEX_CALLS, (int64_t)1));
    for (int64_t at = all - calls; at < all; at++) {
        /* How much is read at a time depends on how long samples take: the run may be through before. */
        const bool changed = run_armed(text, policy, at, flip, &s) > at;
        assert_old(&s, text, at);
        if (changed) {
            assert_int_equal(s.status, policy == STK_ON_ERROR_STOP ? STK_CORRUPT : STK_END);
            assert_true(policy == STK_ON_ERROR_STOP ? strstr(s.error.message, "changed") != NULL : s.stats.skipped > 0);
            restore();
        }
        changes += changed;
        seen_clear(&s);
    }
    return changes;
}

static void check_policy(const char *text, stk_on_error policy, int64_t calls, bool flip)
{
    int64_t changes = 0;
    for (int tries = 0; tries < 20 && !changes; tries++)
        changes = change_each(text, policy, calls, flip);
    assert_true(changes > 0);
}

static void check_changes(const char *text, int64_t calls, bool flip)
{
    check_policy(text, STK_ON_ERROR_STOP, calls, flip);
    check_policy(text, STK_ON_ERROR_SKIP, calls, flip);
}

static void lines_of_a_changed_file_stay_behind(void **state)
{
    write_all();
    check_changes("text(\"$D/d/t.txt\") | batch(4) | print", 5, false);
    check_changes("text(\"$D/d/t.txt\") | shuffle(seed=1) | batch(4) | print", 20, false);
}

/* Two files in turns: each is looked at with its last read of a tile, and then all of that tile is in doubt. */
static void lines_of_several_files_stay_behind(void **state)
{
    write_all();
    check_changes("text(\"$D/d/a.txt\", \"$D/d/b.txt\") | shuffle(seed=2) | batch(20) | print", 15, false);
}

static void records_without_a_check_stay_behind(void **state)
{
    write_all();
    check_changes("tfrecord(\"$D/d/t.tfrecord\", verify=false) | shuffle(seed=1) | batch(4) | print", 20, false);
}

static void samples_of_archives_stay_behind(void **state)
{
    write_all();
    check_changes("webdataset(\"$D/d/t.tar\", text=bytes(from=\"txt\")) | shuffle(seed=1) | batch(4) | print", 20,
                  false);
}

/* A compressed file in the set makes a stream of all of them; the plain one comes first. */
static void streams_stop_at_the_change(void **state)
{
    write_all();
    write_lines("z.gz", true, 0, 1);
    check_changes("text(\"$D/d/t.txt\", \"$D/z.gz\") | batch(4) | print", 1, false);
}

static void changed_pictures_stay_behind(void **state)
{
    write_all();
    check_changes("image_folder(\"$D/d\") | shuffle(seed=1) | batch(4) | print", 10, false);
}

static void changed_hdf5_rows_stay_behind(void **state)
{
    write_all();
    check_changes("hdf5(\"$D/d/rows.h5\") | shuffle(seed=1) | batch(4)", 5, true);
    check_changes("hdf5(\"$D/d/chunks.h5\") | batch(4)", 5, true);
    check_changes("hdf5(\"$D/d/strings.h5\") | shuffle(seed=1) | batch(4) | print", 1, false);
}

/* Everything behind the change is bad, and counted: nothing is missing without a count. */
static void what_is_lost_is_counted(void **state)
{
    const char *text = "text(\"$D/d/t.txt\") | shuffle(seed=1) | batch(4) | print";
    seen s;
    write_all();
    const int64_t all = run_armed(text, STK_ON_ERROR_SKIP, -1, false, &s);
    assert_int_equal(lines_of(&s), ROWS);
    seen_clear(&s);
    run_armed(text, STK_ON_ERROR_SKIP, all - 10, false, &s);
    assert_int_equal(lines_of(&s) + s.stats.skipped, ROWS);
    assert_in_range(s.stats.skipped, 10, ROWS); /* those of its tile that were read before are in doubt as well */
    seen_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(lines_of_a_changed_file_stay_behind), OP_TEST(lines_of_several_files_stay_behind),
        OP_TEST(records_without_a_check_stay_behind), OP_TEST(samples_of_archives_stay_behind),
        OP_TEST(streams_stop_at_the_change),          OP_TEST(changed_pictures_stay_behind),
        OP_TEST(changed_hdf5_rows_stay_behind),       OP_TEST(what_is_lost_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
