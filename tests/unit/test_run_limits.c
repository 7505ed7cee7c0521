/* How limits are had: from the text of /proc, in trees that look like cgroups, and on this machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/run_limits.h"

#include "../remove_tree.h"

static const char mount_memory[] =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
static const char mount_cpu[] = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
static const char mount_two[] = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/* A directory that stands in for the root of a system. */
typedef struct fake {
    char root[64];
} fake;

static int set_up(void **state)
{
    fake *f = stk__calloc(1, sizeof *f);
    snprintf(f->root, sizeof f->root, "/tmp/stoker-limits-XXXXXX");
    *state = f;
    return mkdtemp(f->root) ? 0 : -1;
}

static int tear_down(void **state)
{
    fake *f = *state;
    remove_tree(f->root);
    stk__free(f);
    return 0;
}

static void put(const fake *f, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", f->root, path);
    stk_error err = {0};
    assert_int_equal(stk__make_parents(full, &err), STK_OK);
    FILE *out = fopen(full, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void assert_file(const fake *f, const char *path, const char *wanted)
{
    char full[512], *text;
    size_t size;
    stk_error err = {0};
    snprintf(full, sizeof full, "%s%s", f->root, path);
    if (stk__read_file(full, 4096, &text, &size, &err) != STK_OK)
        fail_msg("%s: %s", path, err.message);
    assert_string_equal(text, wanted);
    stk__free(text);
}

/* The places joined by blanks, without the root, the version in front. */
static void assert_places(const fake *f, const char *controller, const char *wanted)
{
    stk__cgroup_place places[8];
    const size_t count = stk__cgroup_places(f->root, controller, places, STK_COUNT(places));
    stk__text got = STK__TEXT_INIT;
    stk__text_printf(&got, "v%d", count ? places[0].version : 0);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(places[i].path, f->root, strlen(f->root));
        stk__text_printf(&got, " %s", places[i].path + strlen(f->root));
    }
    assert_string_equal(got.data, wanted);
    stk__text_clear(&got);
}

/* ---- where ---- */

static void cgroup_places_in_v1_go_up_to_the_mount(void **state)
{
    const fake *f = *state;
    char mounts[512];
    snprintf(mounts, sizeof mounts, "22 27 0:21 / /proc rw - proc proc rw\n%s%s", mount_cpu, mount_memory);
    put(f, "/proc/self/mountinfo", mounts);
    put(f, "/proc/self/cgroup", "4:memory:/api/job 1\n3:cpuacct,cpu:/\n0::/\n");
    assert_places(f, "memory", "v1 /sys/fs/cgroup/memory/api/job 1 /sys/fs/cgroup/memory/api /sys/fs/cgroup/memory");
    assert_places(f, "cpu", "v1 /sys/fs/cgroup/cpu,cpuacct");
    assert_places(f, "pids", "v0");
}

static void cgroup_places_in_v2_need_the_controller(void **state)
{
    const fake *f = *state;
    put(f, "/proc/self/mountinfo", mount_two);
    put(f, "/proc/self/cgroup", "0::/user.slice/a.scope\n");
    assert_places(f, "memory", "v0");
    put(f, "/sys/fs/cgroup/cgroup.controllers", "cpuset memory pids\n");
    assert_places(f, "memory", "v2 /sys/fs/cgroup/user.slice/a.scope /sys/fs/cgroup/user.slice /sys/fs/cgroup");
    assert_places(f, "cpu", "v0");
    assert_places(f, "mem", "v0");
}

static void cgroup_places_in_a_container_lie_below_its_part_of_the_tree(void **state)
{
    const fake *f = *state;
    put(f, "/proc/self/mountinfo", "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put(f, "/proc/self/cgroup", "4:memory:/docker/ab/inner\n");
    assert_places(f, "memory", "v1 /sys/fs/cgroup/memory/inner /sys/fs/cgroup/memory");
    put(f, "/proc/self/cgroup", "4:memory:/docker/abc\n");
    assert_places(f, "memory", "v1 /sys/fs/cgroup/memory");
    put(f, "/proc/self/cgroup", "4:memory:/../../elsewhere\n");
    assert_places(f, "memory", "v1 /sys/fs/cgroup/memory");
}

static void cgroup_places_read_escaped_mounts_and_skip_odd_lines(void **state)
{
    const fake *f = *state;
    char *mounts = stk__calloc(1, 20000);
    assert_non_null(mounts);
    snprintf(mounts, 20000,
             "x\n1 2 3\n36 2 0:1 / /x rw -\n36 2 0:1 / /y rw - cgroup\n40 2 0:2 / /l rw - overlay o lowerdir=");
    memset(mounts + strlen(mounts), 'x', 15000);
    snprintf(mounts + strlen(mounts), 1000, "\n35 31 0:32 / /sys/fs/cg\\040one rw - cgroup cgroup rw,memory\n");
    put(f, "/proc/self/mountinfo", mounts);
    stk__free(mounts);
    put(f, "/proc/self/cgroup", "nonsense\n:\n4:memory\n4:memory:/\n");
    assert_places(f, "memory", "v1 /sys/fs/cg one");
}

static void cgroup_places_without_proc_are_none(void **state)
{
    assert_places(*state, "memory", "v0");
}

/* ---- making, in trees of files ---- */

static stk_status make(const fake *f, double cpus, uint64_t memory, stk__limit_set *out, stk_error *err)
{
    memset(out, 0, sizeof *out);
    return stk__limits_make(f->root, "stoker-bench-1", &(stk__limits){.cpus = cpus, .memory_bytes = memory}, false, out,
                            err);
}

static void assert_text(const stk__limit_set *set, const char *wanted, const char *wanted_note)
{
    stk__text text = STK__TEXT_INIT, note = STK__TEXT_INIT;
    stk__limits_text(set, &text, &note);
    assert_string_equal(text.data ? text.data : "", wanted);
    assert_string_equal(note.data ? note.data : "", wanted_note);
    stk__text_clear(&text);
    stk__text_clear(&note);
}

static void limits_in_v1_write_memory_and_swap(void **state)
{
    const fake *f = *state;
    stk__limit_set set;
    stk_error err = {0};
    put(f, "/proc/self/mountinfo", mount_memory);
    put(f, "/proc/self/cgroup", "4:memory:/\n");
    put(f, "/sys/fs/cgroup/memory/stoker-bench-1/memory.limit_in_bytes", "");
    put(f, "/sys/fs/cgroup/memory/stoker-bench-1/memory.memsw.limit_in_bytes", "");
    put(f, "/sys/fs/cgroup/memory/stoker-bench-1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
    assert_int_equal(make(f, 1, UINT64_C(4) << 30, &set, &err), STK_OK);
    assert_file(f, "/sys/fs/cgroup/memory/stoker-bench-1/memory.limit_in_bytes", "4294967296");
    assert_file(f, "/sys/fs/cgroup/memory/stoker-bench-1/memory.memsw.limit_in_bytes", "4294967296");
    assert_int_equal(stk__limits_kills(&set), 7);
    assert_text(&set, "1 CPU (affinity), 4.0 GiB (cgroup v1)", "");
}

static void limits_in_v2_share_one_cgroup(void **state)
{
    const fake *f = *state;
    stk__limit_set set;
    stk_error err = {0};
    put(f, "/proc/self/mountinfo", mount_two);
    put(f, "/proc/self/cgroup", "0::/a.slice/b.scope\n");
    put(f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    /* Ours hands nothing down and cannot be told to; the one above does. */
    put(f, "/sys/fs/cgroup/a.slice/cgroup.subtree_control", "cpu memory\n");
    put(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/memory.max", "");
    put(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/memory.swap.max", "");
    put(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/cpu.max", "");
    put(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
    assert_int_equal(make(f, 0.5, 64 << 20, &set, &err), STK_OK);
    assert_file(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/memory.max", "67108864");
    assert_file(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/memory.swap.max", "0");
    assert_file(f, "/sys/fs/cgroup/a.slice/stoker-bench-1/cpu.max", "50000 100000");
    assert_int_equal(set.groups[1].version, 0);
    assert_int_equal(stk__limits_kills(&set), 2);
    assert_text(&set, "0.5 CPUs (1 by affinity, quota by cgroup v2), 64.0 MiB (cgroup v2)", "");
}

static void limits_in_v2_switch_the_controller_on_in_our_own_cgroup_and_off_again(void **state)
{
    const fake *f = *state;
    stk__limit_set set;
    stk_error err = {0};
    put(f, "/proc/self/mountinfo", mount_two);
    put(f, "/proc/self/cgroup", "0::/\n");
    put(f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put(f, "/sys/fs/cgroup/cgroup.subtree_control", "\n\n\n\n\n\n\n\n");
    put(f, "/sys/fs/cgroup/stoker-bench-1/memory.max", "");
    assert_int_equal(make(f, 0, 64 << 20, &set, &err), STK_OK);
    assert_file(f, "/sys/fs/cgroup/cgroup.subtree_control", "+memory\n");
    assert_text(&set, "64.0 MiB (cgroup v2)", "");
    stk__limits_remove(&set);
    assert_file(f, "/sys/fs/cgroup/cgroup.subtree_control", "-memory\n");
}

static void limits_without_a_cgroup_fall_back_to_addresses(void **state)
{
    const fake *f = *state;
    stk__limit_set set;
    stk_error err = {0};
    assert_int_equal(make(f, 0, 64 << 20, &set, &err), STK_OK);
    assert_true(set.address_limit);
    assert_int_equal(stk__limits_kills(&set), -1);
    assert_text(
        &set, "64.0 MiB (RLIMIT_AS, per process)",
        "this system has no cgroup controller \"memory\": memory is limited per process, by addresses (RLIMIT_AS)");
    /* There is one, but it does not reach us. */
    put(f, "/proc/self/mountinfo", mount_two);
    put(f, "/proc/self/cgroup", "0::/a\n");
    put(f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put(f, "/sys/fs/cgroup/cgroup.subtree_control", "pids\n");
    put(f, "/sys/fs/cgroup/a/cgroup.subtree_control", "pids\n");
    assert_int_equal(make(f, 0, 64 << 20, &set, &err), STK_OK);
    assert_true(set.address_limit);
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/sys/fs/cgroup/a/stoker-bench-1", f->root);
    assert_int_equal(stat(path, &st), -1); /* the attempt was undone */
}

static void limits_of_part_of_a_cpu_without_a_cgroup_are_unsupported(void **state)
{
    stk__limit_set set;
    stk_error err = {0};
    assert_int_equal(make(*state, 0.5, 0, &set, &err), STK_UNSUPPORTED);
    assert_string_equal(err.message, "0.5 CPUs need a quota: this system has no cgroup controller \"cpu\"; whole "
                                     "numbers of CPUs work");
}

static void limits_that_make_no_sense_are_invalid(void **state)
{
    stk__limit_set set;
    stk_error err = {0};
    assert_int_equal(make(*state, -1, 0, &set, &err), STK_INVALID);
    assert_int_equal(make(*state, 0.0 / 0.0, 0, &set, &err), STK_INVALID);
    assert_int_equal(make(*state, 0.001, 0, &set, &err), STK_INVALID);
    assert_int_equal(make(*state, 1e9, 0, &set, &err), STK_INVALID);
    assert_int_equal(make(*state, 0, 1000, &set, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "1000 bytes"));
    assert_int_equal(make(*state, 0, UINT64_MAX, &set, &err), STK_INVALID);
    assert_int_equal(make(*state, 8000, 0, &set, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "may use"));
}

static void limits_of_nothing_are_empty(void **state)
{
    stk__limit_set set;
    stk_error err = {0};
    assert_int_equal(make(*state, 0, 0, &set, &err), STK_OK);
    assert_text(&set, "", "");
    const char *what = "";
    assert_int_equal(stk__limits_enter(&set, &what), 0);
}

/* ---- on this machine ---- */

static void limits_take_the_last_cpus(void **state)
{
    (void)state;
    cpu_set_t ours;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    int last = -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &ours))
            last = i;
    stk__limit_set set;
    stk_error err = {0};
    assert_int_equal(make(&(fake){.root = ""}, 1, 0, &set, &err), STK_OK);
    const pid_t pid = fork();
    if (pid == 0) {
        const char *what;
        cpu_set_t now;
        const int code = stk__limits_enter(&set, &what);
        _exit(code || sched_getaffinity(0, sizeof now, &now) || CPU_COUNT(&now) != 1 || !CPU_ISSET(last, &now));
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Makes real limits where that can be done here, and finds nothing left of them. */
static void limits_are_removed_with_what_is_in_them(void **state)
{
    (void)state;
    stk__limit_set set = {0};
    stk_error err = {0};
    char name[64];
    snprintf(name, sizeof name, "stoker-bench-%d", (int)getpid());
    assert_int_equal(stk__limits_make("", name, &(stk__limits){.memory_bytes = 64 << 20}, true, &set, &err), STK_OK);
    if (set.address_limit) {
        print_message("no cgroup can be made here: %s\n", set.reason);
        skip();
    }
    char path[STK__CGROUP_PATH];
    memcpy(path, set.groups[0].path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const char *what;
        const int code = stk__limits_enter(&set, &what);
        if (code || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    stk__limits_remove(&set);
    assert_int_equal(access(path, F_OK), -1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ROOT(cgroup_places_in_v1_go_up_to_the_mount),
        WITH_ROOT(cgroup_places_in_v2_need_the_controller),
        WITH_ROOT(cgroup_places_in_a_container_lie_below_its_part_of_the_tree),
        WITH_ROOT(cgroup_places_read_escaped_mounts_and_skip_odd_lines),
        WITH_ROOT(cgroup_places_without_proc_are_none),
        WITH_ROOT(limits_in_v1_write_memory_and_swap),
        WITH_ROOT(limits_in_v2_share_one_cgroup),
        WITH_ROOT(limits_in_v2_switch_the_controller_on_in_our_own_cgroup_and_off_again),
        WITH_ROOT(limits_without_a_cgroup_fall_back_to_addresses),
        WITH_ROOT(limits_of_part_of_a_cpu_without_a_cgroup_are_unsupported),
        WITH_ROOT(limits_that_make_no_sense_are_invalid),
        WITH_ROOT(limits_of_nothing_are_empty),
        cmocka_unit_test(limits_take_the_last_cpus),
        cmocka_unit_test(limits_are_removed_with_what_is_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
