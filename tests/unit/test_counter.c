/* Counters of the kernel: every way in which they fail, and a real one through the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/compare.h"
#include "bench/experiment.h"
#include "bench/launch.h"

static stk__launcher *launcher; /* started in main, while the process is small */

/* ---- faults in place of the kernel; those of the launcher are called in its process ---- */

static int open_null(stk__counter_kind kind, pid_t pid)
{
    (void)kind;
    (void)pid;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

#define OPEN_FAILS(name, code)                         \
    static int name(stk__counter_kind kind, pid_t pid) \
    {                                                  \
        (void)kind;                                    \
        (void)pid;                                     \
        errno = (code);                                \
        return -1;                                     \
    }
OPEN_FAILS(open_eacces, EACCES)
OPEN_FAILS(open_eperm, EPERM)
OPEN_FAILS(open_enoent, ENOENT)
OPEN_FAILS(open_enodev, ENODEV)
OPEN_FAILS(open_enosys, ENOSYS)
OPEN_FAILS(open_emfile, EMFILE)

#define READ_GIVES(name, value, enabled, running)                     \
    static ssize_t name(int fd, stk__counter_reading *out)            \
    {                                                                 \
        (void)fd;                                                     \
        *out = (stk__counter_reading){(value), (enabled), (running)}; \
        return sizeof *out;                                           \
    }
READ_GIVES(read_whole, 1000, 500, 500)
READ_GIVES(read_part, 1000, 400, 100)
READ_GIVES(read_zero, 0, 400, 400)
READ_GIVES(read_never_ran, 0, 400, 0)
READ_GIVES(read_not_enabled, 0, 0, 0)

static ssize_t read_short(int fd, stk__counter_reading *out)
{
    (void)fd;
    (void)out;
    return 8;
}

static ssize_t read_fails(int fd, stk__counter_reading *out)
{
    (void)fd;
    (void)out;
    errno = EBADF;
    return -1;
}

static ssize_t read_interrupted(int fd, stk__counter_reading *out)
{
    static int calls;
    if (calls++ < 3) {
        errno = EINTR;
        return -1;
    }
    return read_whole(fd, out);
}

static int open_interrupted(stk__counter_kind kind, pid_t pid)
{
    static int calls;
    if (calls++ < 3) {
        errno = EINTR;
        return -1;
    }
    return open_null(kind, pid);
}

static stk__count count_with(ssize_t (*reader)(int, stk__counter_reading *))
{
    const stk__counter_calls calls = {open_interrupted, reader};
    const int fd = stk__counter_open(&calls, STK__COUNT_INSTRUCTIONS, 1);
    assert_true(fd >= 0);
    const stk__count c = stk__counter_close(&calls, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed, whatever it read */
    return c;
}

static void counts_are_scaled_by_the_time_they_ran(void **state)
{
    (void)state;
    stk__count c = count_with(read_whole);
    assert_true(c.value == 1000 && c.share == 1 && c.error == 0);
    c = count_with(read_part);
    assert_true(c.value == 4000 && c.share == 0.25 && c.error == 0);
    c = count_with(read_interrupted);
    assert_true(c.value == 1000);
}

static void a_counter_that_does_not_count_gives_no_number(void **state)
{
    (void)state;
    const struct {
        ssize_t (*reader)(int, stk__counter_reading *);
        int error;
    } rows[] = {{read_zero, ENODATA},
                {read_not_enabled, ENODATA},
                {read_never_ran, EBUSY},
                {read_short, EIO},
                {read_fails, EBADF}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        const stk__count c = count_with(rows[i].reader);
        assert_true(isnan(c.value));
        assert_int_equal(c.error, rows[i].error);
    }
}

/* ---- sentences ---- */

static void assert_explained(int error, int paranoid, const char *part)
{
    stk__text t = STK__TEXT_INIT;
    stk__counter_explain(error, paranoid, &t);
    assert_non_null(t.data);
    if (!strstr(t.data, part))
        fail_msg("%d: '%s' has no '%s'", error, t.data, part);
    stk__text_clear(&t);
}

static void every_error_has_a_sentence_with_what_helps(void **state)
{
    (void)state;
    assert_explained(EACCES, 3, "perf_event_paranoid is 3");
    assert_explained(EACCES, 3, "sysctl kernel.perf_event_paranoid=2");
    assert_explained(EPERM, 4, "sysctl kernel.perf_event_paranoid=2");
    assert_explained(EPERM, 2, "--cap-add PERFMON");
    assert_explained(EPERM, INT_MIN, "container");
    assert_explained(ENOENT, 2, "no hardware counters");
    assert_explained(ENODEV, 2, "no hardware counters");
    assert_explained(EOPNOTSUPP, 2, "no hardware counters");
    assert_explained(ENOSYS, 2, "perf_event_open");
    assert_explained(ENODATA, 2, "stayed at 0");
    assert_explained(EBUSY, 2, "nmi_watchdog");
    assert_explained(EMFILE, 2, strerror(EMFILE));
}

/* ---- through the launcher ---- */

static stk__outcome run_counted(const char *command, stk__counter_kind kind)
{
    const stk__launch launch = {.command = command, .count = kind, .fixed = true};
    stk__outcome o = {0};
    stk_error err = {0};
    if (stk__launcher_run(launcher, &launch, &o, &err) != STK_OK)
        fail_msg("%s: %s", command, err.message);
    return o;
}

/* CPU time as perf sees it, against what wait4 says of the same run: a grandchild does all of the work. */
static void a_real_counter_counts_the_whole_tree_from_exec_on(void **state)
{
    (void)state;
    stk__launcher_counters(launcher, NULL);
    stk__outcome o = run_counted("sh -c 'sh -c \"i=0; while [ \\$i -lt 300000 ]; do i=\\$((i+1)); done\"; true'; true",
                                 STK__COUNT_TASK_CLOCK);
    const stk__count c = o.count;
    const double cpu_s = o.measures[STK__CPU];
    assert_int_equal(o.exit_code, 0);
    assert_true(o.measures[STK__INSTRUCTIONS] == c.value || isnan(c.value));
    stk__outcome_clear(&o);
    if (c.error == EACCES || c.error == EPERM || c.error == ENOSYS) {
        print_message("no perf events here: %s\n", strerror(c.error));
        skip();
    }
    assert_int_equal(c.error, 0);
    assert_true(c.value * 1e-9 > cpu_s / 3 && c.value * 1e-9 < cpu_s * 3 + 0.02);
}

static void a_run_without_a_counter_has_none(void **state)
{
    (void)state;
    stk__outcome o = run_counted("true", STK__COUNT_NOTHING);
    assert_true(isnan(o.measures[STK__INSTRUCTIONS]));
    stk__outcome_clear(&o);
}

static void a_command_runs_whatever_becomes_of_its_counter(void **state)
{
    (void)state;
    static const stk__counter_calls faults[] = {{open_eacces, read_whole}, {open_eperm, read_whole},
                                                {open_enoent, read_whole}, {open_enodev, read_whole},
                                                {open_enosys, read_whole}, {open_emfile, read_whole}};
    static const int errors[] = {EACCES, EPERM, ENOENT, ENODEV, ENOSYS, EMFILE};
    for (size_t i = 0; i < STK_COUNT(faults); i++) {
        stk__launcher_counters(launcher, &faults[i]);
        stk__outcome o = run_counted("sh -c 'exit 3'", STK__COUNT_INSTRUCTIONS);
        assert_int_equal(o.exit_code, 3);
        assert_true(isnan(o.count.value) && isnan(o.measures[STK__INSTRUCTIONS]));
        assert_int_equal(o.count.error, errors[i]);
        stk__outcome_clear(&o);
    }
    stk__launcher_counters(launcher, NULL);
}

static void a_command_that_is_not_there_is_told_with_a_counter_as_well(void **state)
{
    (void)state;
    static const stk__counter_calls calls = {open_null, read_zero};
    stk__launcher_counters(launcher, &calls);
    stk__outcome o = run_counted("/no/such/program", STK__COUNT_INSTRUCTIONS);
    assert_true(o.not_started);
    assert_int_equal(o.count.error, ENODATA);
    stk__outcome_clear(&o);
    stk__launcher_counters(launcher, NULL);
}

/* ---- experiments ---- */

static stk_status run_experiment(stk__result *r, size_t primary, stk_error *err)
{
    stk__trial trials[] = {{.name = (char *)(uintptr_t) "a", .command = (char *)(uintptr_t) "true"},
                           {.name = (char *)(uintptr_t) "b", .command = (char *)(uintptr_t) "true"}};
    static const stk__compare_pair pairs[] = {{0, 1}};
    const stk__experiment e = {.trials = trials,
                               .trial_count = 2,
                               .rounds = 4,
                               .count = 3,
                               .count_most = 3,
                               .pairs = pairs,
                               .pair_count = 1,
                               .rule = {.confidence = 0.95, .min_effect = 0.001, .margin = 0.001}};
    const stk__metric row = stk__measure_metric(STK__INSTRUCTIONS);
    *r = (stk__result){0};
    assert_int_equal(stk__result_add_measures(r, err), STK_OK);
    assert_int_equal(stk__result_add_metric(r, row.name, row.unit, false, NULL, err), STK_OK);
    r->primary = primary;
    return stk__experiment_run(&e, launcher, r, err);
}

static bool has_note(const stk__result *r, const char *part)
{
    for (size_t i = 0; i < r->note_count; i++) {
        if (strstr(r->notes[i], part))
            return true;
    }
    return false;
}

static void hardware_counts_every_run(void **state)
{
    (void)state;
    static const stk__counter_calls calls = {open_null, read_whole};
    stk__result r;
    stk_error err = {0};
    stk__launcher_counters(launcher, &calls);
    assert_int_equal(run_experiment(&r, STK__INSTRUCTIONS, &err), STK_OK);
    assert_string_equal(r.counted, "hardware counter");
    for (size_t v = 0; v < 2; v++) {
        assert_int_equal(r.variants[v].runs, 4);
        for (size_t i = 0; i < 4; i++)
            assert_true(r.variants[v].values[STK__INSTRUCTIONS][i] == 1000);
    }
    assert_false(has_note(&r, "scaled"));
    stk__result_clear(&r);
}

static void a_shared_counter_is_told(void **state)
{
    (void)state;
    static const stk__counter_calls calls = {open_null, read_part};
    stk__result r;
    stk_error err = {0};
    stk__launcher_counters(launcher, &calls);
    assert_int_equal(run_experiment(&r, STK__WALL, &err), STK_OK);
    assert_true(r.variants[1].values[STK__INSTRUCTIONS][3] == 4000);
    assert_true(has_note(&r, "only 25 % of the time"));
    stk__result_clear(&r);
}

/* Counts the nine runs that find the floor, and nothing after them. */
static ssize_t read_for_a_while(int fd, stk__counter_reading *out)
{
    static int calls; /* of the launcher's process */
    return calls++ < 9 ? read_whole(fd, out) : read_zero(fd, out);
}

static void a_counter_that_stops_is_told_and_no_zero_is_kept(void **state)
{
    (void)state;
    static const stk__counter_calls calls = {open_null, read_for_a_while};
    stk__result r;
    stk_error err = {0};
    stk__launcher_counters(launcher, &calls);
    assert_int_equal(run_experiment(&r, STK__WALL, &err), STK_OK);
    assert_int_equal(r.variants[0].runs, 4);
    assert_true(isnan(r.variants[0].values[STK__INSTRUCTIONS][0]));
    assert_true(has_note(&r, "8 runs were not counted: the hardware counter stayed at 0"));
    stk__result_clear(&r);
    /* Where it decides, a run without a count is a failed run. */
    assert_int_equal(run_experiment(&r, STK__INSTRUCTIONS, &err), STK_UNSUPPORTED);
    stk__result_clear(&r);
    stk__launcher_counters(launcher, NULL);
}

static void without_counters_and_valgrind_times_are_still_measured(void **state)
{
    (void)state;
    static const stk__counter_calls calls = {open_enoent, read_whole};
    stk__result r;
    stk_error err = {0};
    stk__launcher_counters(launcher, &calls);
    assert_int_equal(run_experiment(&r, STK__WALL, &err), STK_OK);
    assert_int_equal(r.variants[1].runs, 4);
    assert_null(r.counted);
    assert_true(has_note(&r, "were not counted: this machine has no hardware counters"));
    assert_true(has_note(&r, "apt install valgrind"));
    stk__result_clear(&r);
    assert_int_equal(run_experiment(&r, STK__INSTRUCTIONS, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "apt install valgrind"));
    stk__result_clear(&r);
    stk__launcher_counters(launcher, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_scaled_by_the_time_they_ran),
        cmocka_unit_test(a_counter_that_does_not_count_gives_no_number),
        cmocka_unit_test(every_error_has_a_sentence_with_what_helps),
        cmocka_unit_test(a_real_counter_counts_the_whole_tree_from_exec_on),
        cmocka_unit_test(a_run_without_a_counter_has_none),
        cmocka_unit_test(a_command_runs_whatever_becomes_of_its_counter),
        cmocka_unit_test(a_command_that_is_not_there_is_told_with_a_counter_as_well),
        cmocka_unit_test(hardware_counts_every_run),
        cmocka_unit_test(a_shared_counter_is_told),
        cmocka_unit_test(a_counter_that_stops_is_told_and_no_zero_is_kept),
        cmocka_unit_test(without_counters_and_valgrind_times_are_still_measured),
    };
    /* No valgrind is found, and with it no second way of counting. */
    char directory[] = "/tmp/stoker-test-XXXXXX", path[64];
    if (!mkdtemp(directory))
        return 1;
    static const char *const commands[] = {"true", "sh"};
    for (size_t i = 0; i < STK_COUNT(commands); i++) {
        char to[64];
        snprintf(to, sizeof to, "/bin/%s", commands[i]);
        snprintf(path, sizeof path, "%s/%s", directory, commands[i]);
        if (symlink(to, path))
            return 1;
    }
    setenv("PATH", directory, 1);
    if (stk__launcher_start(&launcher, NULL) != STK_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stk__launcher_stop(launcher);
    for (size_t i = 0; i < STK_COUNT(commands); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, commands[i]);
        unlink(path);
    }
    rmdir(directory);
    return failed;
}
