/* Commands through the launcher: what is told about them, and what happens when they misbehave. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "bench/launch.h"

enum { MIB = 1 << 20 };

static stk__launcher *launcher; /* started in main, while the process is small */

static stk_status try_run(const stk__launch *launch, stk__outcome *out, stk_error *err)
{
    *out = (stk__outcome){0};
    return stk__launcher_run(launcher, launch, out, err);
}

static stk__outcome run(const stk__launch *launch)
{
    stk__outcome o;
    stk_error err = {0};
    if (try_run(launch, &o, &err) != STK_OK)
        fail_msg("%s: %s", launch->command, err.message);
    assert_non_null(o.error_end);
    return o;
}

static stk__outcome run_kept(const char *command)
{
    return run(&(stk__launch){.command = command, .output = STK__OUTPUT_KEEP});
}

static void assert_output(const char *command, const char *wanted)
{
    stk__outcome o = run_kept(command);
    assert_int_equal(o.exit_code, 0);
    assert_string_equal(o.output_end, wanted);
    stk__outcome_clear(&o);
}

static void assert_text(const stk__outcome *o, const stk__launch *launch, const char *wanted)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, "");
    stk__outcome_text(o, launch, &text);
    assert_string_equal(text.data ? text.data : "", wanted);
    stk__text_clear(&text);
}

static void pause_ms(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* A process is gone, or will be soon: orphans are reaped by the launcher or by init. */
static bool goes_away(pid_t pid)
{
    for (int i = 0; i < 500; i++) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "re");
        if (!f)
            return true;
        const bool read = fgets(text, sizeof text, f) != NULL;
        fclose(f);
        const char *p = strrchr(text, ')');
        if (!read || (p && p[2] == 'Z'))
            return true;
        pause_ms(10);
    }
    return false;
}

/* The launcher among our children: the only one. */
static pid_t only_child(void)
{
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    pid_t found = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[300], text[512] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (!f)
            continue;
        int parent = 0;
        const char *p = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        fclose(f);
        if (p && sscanf(p + 3, "%d", &parent) == 1 && parent == (int)getpid())
            found = (pid_t)strtol(e->d_name, NULL, 10);
    }
    closedir(dir);
    return found;
}

static size_t count_fds(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- outcomes ---- */

static void launch_tells_exit_codes(void **state)
{
    (void)state;
    const stk__launch good = {.command = "true"}, bad = {.command = "false"}, seven = {.command = "exit 7"};
    stk__outcome o = run(&good);
    assert_int_equal(o.exit_code, 0);
    assert_int_equal(o.signal, 0);
    assert_false(o.through_shell);
    assert_text(&o, &good, "");
    stk__outcome_clear(&o);
    o = run(&bad);
    assert_int_equal(o.exit_code, 1);
    assert_text(&o, &bad, "exit code 1");
    stk__outcome_clear(&o);
    o = run(&seven);
    assert_int_equal(o.exit_code, 7);
    assert_true(o.through_shell);
    stk__outcome_clear(&o);
}

static void launch_tells_signals(void **state)
{
    (void)state;
    const stk__launch launch = {.command = "kill -SEGV $$"};
    stk__outcome o = run(&launch);
    assert_int_equal(o.exit_code, -1);
    assert_int_equal(o.signal, SIGSEGV);
    assert_text(&o, &launch, "killed by signal 11 (Segmentation fault)");
    stk__outcome_clear(&o);
}

static void launch_tells_a_command_that_is_not_there(void **state)
{
    (void)state;
    stk__outcome o = run(&(stk__launch){.command = "no-such-command-anywhere x"});
    assert_int_equal(o.exit_code, 127);
    assert_string_equal(o.error_end, "cannot run 'no-such-command-anywhere': No such file or directory");
    stk__outcome_clear(&o);
    o = run(&(stk__launch){.command = "/etc/passwd"});
    assert_int_equal(o.exit_code, 126);
    assert_string_equal(o.error_end, "cannot run '/etc/passwd': Permission denied");
    stk__outcome_clear(&o);
    o = run(&(stk__launch){.command = "no-such-command-anywhere; exit $?"});
    assert_int_equal(o.exit_code, 127);
    assert_non_null(strstr(o.error_end, "no-such-command-anywhere")); /* in the shell's words */
    stk__outcome_clear(&o);
}

static void launch_refuses_an_empty_command(void **state)
{
    (void)state;
    stk__outcome o = {.exit_code = 55};
    stk_error err = {0};
    assert_int_equal(stk__launcher_run(launcher, &(stk__launch){.command = " "}, &o, &err), STK_INVALID);
    assert_int_equal(o.exit_code, 55);
}

static void launch_measures_a_run(void **state)
{
    (void)state;
    stk__outcome o = run(&(stk__launch){.command = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02"});
    const double *m = o.measures;
    assert_int_equal(o.exit_code, 0);
    assert_true(m[STK__WALL] >= 0.02 && m[STK__WALL] < 100);
    assert_true(m[STK__USER] >= 0 && m[STK__SYSTEM] >= 0 && m[STK__CPU] > 0);
    assert_true(m[STK__CPU] == m[STK__USER] + m[STK__SYSTEM]);
    assert_true(m[STK__RSS] > 100 << 10);
    assert_true(m[STK__MINOR_FAULTS] > 0 && m[STK__MAJOR_FAULTS] >= 0);
    assert_true(m[STK__SWITCHES] >= 1 && m[STK__PREEMPTIONS] >= 0);
    for (int i = STK__STEAL; i < STK__MEASURES; i++)
        assert_true(isnan(m[i]) || (m[i] >= 0 && m[i] <= 1));
    stk__outcome_clear(&o);
}

/* ---- files and surroundings ---- */

static void launch_keeps_output_with_hash_and_size(void **state)
{
    (void)state;
    stk__outcome a = run_kept("seq 1000"), b = run_kept("seq 1 1000"), c = run_kept("seq 1001");
    assert_int_equal(a.output_bytes, 3893);
    assert_int_equal(a.output_end_size, 3893);
    assert_memory_equal(a.output_end, "1\n2\n3\n", 6);
    assert_int_equal(a.output_end[a.output_end_size], 0);
    assert_true(a.output_hash == b.output_hash);
    assert_true(a.output_hash != c.output_hash);
    stk__outcome_clear(&a);
    stk__outcome_clear(&b);
    stk__outcome_clear(&c);
}

static void launch_keeps_the_end_of_long_output_and_hashes_all(void **state)
{
    (void)state;
    stk__outcome a = run_kept("(echo a; seq 100000)"), b = run_kept("(echo b; seq 100000)");
    assert_int_equal(a.output_bytes, 588897);
    assert_int_equal(a.output_end_size, 64 << 10);
    assert_string_equal(a.output_end + a.output_end_size - 7, "100000\n");
    assert_memory_equal(a.output_end, b.output_end, a.output_end_size);
    assert_true(a.output_hash != b.output_hash);
    stk__outcome_clear(&a);
    stk__outcome_clear(&b);
}

static void launch_keeps_the_end_of_errors(void **state)
{
    (void)state;
    stk__outcome o = run(&(stk__launch){.command = "seq 5000 >&2; printf 'a\\000b' >&2; exit 1"});
    assert_int_equal(strlen(o.error_end), 4 << 10);
    assert_string_equal(o.error_end + (4 << 10) - 8, "5000\na b");
    assert_null(o.output_end);
    stk__outcome_clear(&o);
    o = run(&(stk__launch){.command = "true"});
    assert_string_equal(o.error_end, "");
    stk__outcome_clear(&o);
}

static void launch_shows_output_on_our_own(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int before = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    stk__outcome o;
    stk_error err = {0};
    const stk_status status = try_run(&(stk__launch){.command = "echo shown", .output = STK__OUTPUT_SHOW}, &o, &err);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(ends[1]);
    char text[32] = "";
    assert_int_equal(read(ends[0], text, sizeof text - 1), 6);
    close(ends[0]);
    assert_int_equal(status, STK_OK);
    assert_string_equal(text, "shown\n");
    assert_string_equal(o.error_end, "");
    stk__outcome_clear(&o);
}

static void launch_gives_input_directory_and_environment(void **state)
{
    (void)state;
    char dir[] = "/tmp/stoker-launch-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/in", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("from the file\n", f);
    fclose(f);
    const char *const environment[] = {"STOKER_TEST_A=1 2", "HOME=elsewhere", NULL};
    stk__outcome o = run(&(stk__launch){.command = "cat; pwd; cat in; echo $STOKER_TEST_A-$HOME; env | grep -c ^HOME=",
                                        .directory = dir,
                                        .input = path,
                                        .output = STK__OUTPUT_KEEP,
                                        .environment = environment});
    char wanted[256];
    snprintf(wanted, sizeof wanted, "from the file\n%s\nfrom the file\n1 2-elsewhere\n1\n", dir);
    assert_string_equal(o.output_end, wanted);
    stk__outcome_clear(&o);
    unlink(path);
    rmdir(dir);
    assert_output("cat", ""); /* no input: an empty one */
}

static void launch_runs_a_script_without_interpreter_by_sh(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-launch-XXXXXX", command[64];
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, "echo $0 $1\n", 11), 11);
    fchmod(fd, 0755);
    close(fd);
    snprintf(command, sizeof command, "%s 'a b'", path);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s a b\n", path);
    assert_output(command, wanted);
    unlink(path);
}

static void launch_takes_the_path_of_the_added_environment(void **state)
{
    (void)state;
    const char *const environment[] = {"PATH=/nowhere", NULL};
    stk__outcome o = run(&(stk__launch){.command = "true", .environment = environment});
    assert_int_equal(o.exit_code, 127);
    stk__outcome_clear(&o);
}

static void launch_names_a_missing_input_or_directory(void **state)
{
    (void)state;
    stk__outcome o;
    stk_error err = {0};
    assert_int_equal(try_run(&(stk__launch){.command = "true", .input = "/no/such/file"}, &o, &err), STK_IO);
    assert_string_equal(err.file, "/no/such/file");
    assert_int_equal(try_run(&(stk__launch){.command = "true", .directory = "/etc/passwd"}, &o, &err), STK_IO);
    assert_string_equal(err.file, "/etc/passwd");
    const char *const environment[] = {"NOVALUE", NULL};
    assert_int_equal(try_run(&(stk__launch){.command = "true", .environment = environment}, &o, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "NOVALUE"));
}

static void launch_starts_with_plain_signals_and_files(void **state)
{
    (void)state;
    /*
     * No signal ignored or blocked, nothing open but the three files and the directory that ls itself opens. 32 and 33
     * are the C library's: make hands them down ignored, and nobody can reset them.
     */
    assert_output("grep -cE '^Sig(Blk|Ign):.0000000[01][08]0000000' /proc/self/status", "2\n");
    assert_output("ls /proc/self/fd", "0\n1\n2\n3\n");
}

static void launch_takes_huge_commands(void **state)
{
    (void)state;
    const size_t size = 900 << 10;
    char *command = stk__alloc(size + 64);
    assert_non_null(command);
    /* Through the shell, as one text that is longer than one argument may be. */
    memset(command, ' ', size);
    memcpy(command, "echo one;", 9);
    memcpy(command + size, "echo two", 9);
    assert_output(command, "one\ntwo\n");
    /* Directly, in words. */
    memset(command, 'x', size);
    for (size_t i = 1000; i < size; i += 1000)
        command[i] = ' ';
    memcpy(command, "/bin/echo ", 10);
    command[size] = 0;
    stk__outcome o = run_kept(command);
    assert_int_equal(o.exit_code, 0);
    assert_false(o.through_shell);
    assert_int_equal(o.output_bytes, size - 10 + 1);
    stk__outcome_clear(&o);
    stk__free(command);
}

/* ---- ends that have to be brought about ---- */

static void launch_kills_what_takes_too_long_with_its_children(void **state)
{
    (void)state;
    const stk__launch launch = {
        .command =
            "trap '' TERM; sleep 1000 & echo $!; timeout 1000 sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait",
        .output = STK__OUTPUT_KEEP,
        .timeout_ns = 300000000};
    stk__outcome o = run(&launch);
    assert_true(o.timed_out);
    assert_int_equal(o.signal, SIGKILL);
    assert_text(&o, &launch, "took longer than 0.3 s");
    int pids[3] = {0};
    assert_int_equal(sscanf(o.output_end, "%d %d %d", &pids[0], &pids[1], &pids[2]), 3);
    for (int i = 0; i < 3; i++)
        assert_true(goes_away(pids[i]));
    stk__outcome_clear(&o);
}

static void launch_asks_before_it_kills(void **state)
{
    (void)state;
    stk__outcome o = run(&(stk__launch){.command = "trap 'echo ended; exit 9' TERM; while :; do sleep 0.01; done",
                                        .output = STK__OUTPUT_KEEP,
                                        .timeout_ns = 200000000});
    assert_true(o.timed_out);
    /* On a machine that is very busy the 100 ms may pass before the trap runs. */
    assert_true((o.exit_code == 9 && strcmp(o.output_end, "ended\n") == 0) || o.signal == SIGKILL);
    stk__outcome_clear(&o);
}

static void launch_ends_what_a_command_leaves_behind(void **state)
{
    (void)state;
    stk__outcome o = run_kept("sleep 1000 & echo $!");
    assert_int_equal(o.exit_code, 0);
    assert_int_equal(o.left_behind, 1);
    assert_true(goes_away((pid_t)strtol(o.output_end, NULL, 10)));
    stk__outcome_clear(&o);
    o = run_kept("true");
    assert_int_equal(o.left_behind, 0);
    stk__outcome_clear(&o);
}

static void launch_leaves_daemons_alone(void **state)
{
    (void)state;
    stk__outcome o = run_kept("setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.1");
    const pid_t pid = (pid_t)strtol(o.output_end, NULL, 10);
    assert_true(pid > 1);
    assert_int_equal(o.left_behind, 0);
    stk__outcome_clear(&o);
    o = run_kept("true");
    assert_int_equal(o.left_behind, 0);
    stk__outcome_clear(&o);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(goes_away(pid));
}

static void *interrupt_later(void *unused)
{
    (void)unused;
    pause_ms(200);
    stk__launcher_interrupt(launcher);
    return NULL;
}

static void launch_interrupted_from_a_thread_is_cancelled(void **state)
{
    (void)state;
    stk__launcher_interrupt(launcher); /* between runs: forgotten */
    assert_output("echo here", "here\n");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_later, NULL), 0);
    char path[] = "/tmp/stoker-launch-XXXXXX", command[128];
    close(mkstemp(path));
    snprintf(command, sizeof command, "sleep 1000 & echo $! > %s; wait", path);
    stk__outcome o = {.exit_code = 55};
    stk_error err = {0};
    assert_int_equal(stk__launcher_run(launcher, &(stk__launch){.command = command}, &o, &err), STK_CANCELLED);
    pthread_join(thread, NULL);
    assert_int_equal(o.exit_code, 55);
    FILE *f = fopen(path, "r");
    int pid = 0;
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    unlink(path);
    assert_true(goes_away(pid));
    assert_output("echo again", "again\n");
}

static void on_alarm(int number)
{
    (void)number;
    stk__launcher_interrupt(launcher);
}

static void launch_interrupted_by_a_signal_is_cancelled(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, before;
    sigaction(SIGALRM, &action, &before);
    const struct timespec moment = {.tv_nsec = 200000000};
    timer_t timer;
    assert_int_equal(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
    timer_settime(timer, 0, &(struct itimerspec){.it_value = moment}, NULL);
    stk__outcome o;
    stk_error err = {0};
    assert_int_equal(try_run(&(stk__launch){.command = "sleep 1000"}, &o, &err), STK_CANCELLED);
    timer_delete(timer);
    sigaction(SIGALRM, &before, NULL);
}

static void *kill_later(void *pid)
{
    pause_ms(200);
    kill(*(pid_t *)pid, SIGKILL);
    return NULL;
}

static void launch_with_the_launcher_killed_is_an_error(void **state)
{
    (void)state;
    stk__launcher_stop(launcher);
    assert_int_equal(only_child(), 0);
    stk_error err = {0};
    launcher = NULL;
    assert_int_equal(stk__launcher_start(&launcher, &err), STK_OK);
    pid_t pid = only_child();
    assert_true(pid > 0);
    char path[] = "/tmp/stoker-launch-XXXXXX", command[128];
    close(mkstemp(path));
    snprintf(command, sizeof command, "sleep 1000 & echo $$ $! > %s; wait", path);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_later, &pid), 0);
    stk__outcome o;
    assert_int_equal(try_run(&(stk__launch){.command = command}, &o, &err), STK_IO);
    pthread_join(thread, NULL);
    assert_string_equal(err.message, "the process that starts commands is gone (killed by signal 9)");
    FILE *f = fopen(path, "r");
    int pids[2] = {0};
    assert_int_equal(fscanf(f, "%d %d", &pids[0], &pids[1]), 2);
    fclose(f);
    unlink(path);
    assert_true(goes_away(pids[0]));
    assert_true(goes_away(pids[1]));
    /* And again, now that this is known; and with one that dies while idle. */
    assert_int_equal(try_run(&(stk__launch){.command = "true"}, &o, &err), STK_IO);
    stk__launcher_stop(launcher);
    assert_int_equal(stk__launcher_start(&launcher, &err), STK_OK);
    kill(only_child(), SIGKILL);
    assert_int_equal(try_run(&(stk__launch){.command = "true"}, &o, &err), STK_IO);
    stk__launcher_stop(launcher);
    assert_int_equal(stk__launcher_start(&launcher, &err), STK_OK);
    assert_output("echo new", "new\n");
}

/* A program with a launcher that runs a command, killed without a chance to clean up. */
static void launch_ends_all_when_the_program_is_killed(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-launch-XXXXXX", command[160];
    close(mkstemp(path));
    snprintf(command, sizeof command, "sleep 1000 & echo $$ $! > %s; wait", path);
    const pid_t program = fork();
    if (program == 0) {
        stk__launcher *own;
        stk__outcome o;
        if (stk__launcher_start(&own, NULL) == STK_OK)
            stk__launcher_run(own, &(stk__launch){.command = command}, &o, NULL);
        _exit(1);
    }
    int pids[2] = {0}, found = 0;
    for (int i = 0; i < 1000 && found != 2; i++) {
        pause_ms(10);
        FILE *f = fopen(path, "r");
        found = fscanf(f, "%d %d", &pids[0], &pids[1]);
        fclose(f);
    }
    assert_int_equal(found, 2);
    kill(program, SIGKILL);
    assert_int_equal(waitpid(program, NULL, 0), program);
    assert_true(goes_away(pids[0]));
    assert_true(goes_away(pids[1]));
    unlink(path);
}

static void launch_runs_thousands_without_leaks(void **state)
{
    (void)state;
    const pid_t child = only_child();
    assert_output("true", "");
    const size_t ours = count_fds(getpid()), its = count_fds(child);
    for (int i = 0; i < 2000; i++) {
        stk__outcome o = run(&(stk__launch){.command = "true"});
        assert_int_equal(o.exit_code, 0);
        stk__outcome_clear(&o);
    }
    assert_int_equal(count_fds(getpid()), ours);
    assert_int_equal(count_fds(child), its);
    /* Nobody has the launcher for a parent: no zombies either. */
    char command[96];
    snprintf(command, sizeof command, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') [A-Z] %d '", (int)child);
    assert_output(command, "1\n"); /* the shell that asks */
}

static void launch_reports_every_failed_allocation(void **state)
{
    (void)state;
    stk__launcher *none = NULL;
    stk__alloc_fail_at(1, true);
    assert_int_equal(stk__launcher_start(&none, NULL), STK_NOMEM);
    stk__alloc_fail_at(0, false);
    assert_null(none);
    for (uint64_t n = 1;; n++) {
        stk__outcome o;
        stk_error err = {0};
        stk__alloc_fail_at(n, true);
        const stk_status status = try_run(&(stk__launch){.command = "echo x", .output = STK__OUTPUT_KEEP}, &o, &err);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_true(n > 3);
            stk__outcome_clear(&o);
            return;
        }
        assert_int_equal(status, STK_NOMEM);
    }
}

/* ---- memory and limits ---- */

static void launch_peak_memory_is_the_commands_own(void **state)
{
    (void)state;
    const size_t size = (size_t)300 * MIB;
    char *large = stk__alloc(size);
    assert_non_null(large);
    memset(large, 1, size);
    stk__outcome o = run(&(stk__launch){.command = "/bin/true"});
    assert_true(o.measures[STK__RSS] > 0 && o.measures[STK__RSS] < 50.0 * MIB);
    stk__outcome_clear(&o);
    stk__free(large);
    o = run(&(stk__launch){.command = "head -c 100M /dev/zero | tail -c 100M"});
    assert_int_equal(o.exit_code, 0);
    assert_true(o.measures[STK__RSS] >= 100.0 * MIB && o.measures[STK__RSS] < 200.0 * MIB);
    stk__outcome_clear(&o);
}

static void launch_keeps_to_its_cpus(void **state)
{
    (void)state;
    const int cpus = stk__cpu_limit();
    stk__outcome o = run(&(stk__launch){.command = "nproc", .output = STK__OUTPUT_KEEP, .limits = {.cpus = 1}});
    assert_string_equal(o.output_end, "1\n");
    stk__outcome_clear(&o);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%d\n", cpus);
    o = run(&(stk__launch){.command = "nproc", .output = STK__OUTPUT_KEEP, .limits = {.cpus = cpus}});
    assert_string_equal(o.output_end, wanted);
    stk__outcome_clear(&o);
    stk_error err = {0};
    assert_int_equal(try_run(&(stk__launch){.command = "nproc", .limits = {.cpus = cpus + 1}}, &o, &err), STK_INVALID);
    snprintf(wanted, sizeof wanted, "may use %d", cpus);
    assert_non_null(strstr(err.message, wanted));
    o = run_kept("nproc"); /* and no limit once more */
    assert_int_equal(o.exit_code, 0);
    stk__outcome_clear(&o);
}

static void launch_with_part_of_a_cpu_runs_in_a_cgroup(void **state)
{
    (void)state;
    const stk__launch launch = {
        .command = "grep -c stoker-bench- /proc/self/cgroup", .output = STK__OUTPUT_KEEP, .limits = {.cpus = 0.5}};
    stk__outcome o;
    stk_error err = {0};
    const stk_status status = try_run(&launch, &o, &err);
    if (status == STK_UNSUPPORTED) {
        assert_non_null(strstr(err.message, "0.5 CPUs need a quota"));
        return;
    }
    assert_int_equal(status, STK_OK);
    assert_string_equal(o.output_end, "1\n");
    stk__outcome_clear(&o);
    o = run_kept("cat /proc/self/cgroup");
    assert_null(strstr(o.output_end, "stoker-bench-"));
    stk__outcome_clear(&o);
}

static void launch_with_a_memory_limit_ends_what_exceeds_it(void **state)
{
    (void)state;
    const stk__launch launch = {.command = "tail /dev/zero", .limits = {.memory_bytes = 64 * MIB}};
    stk__text how = STK__TEXT_INIT, note = STK__TEXT_INIT;
    stk_error err = {0};
    assert_int_equal(stk__limits_describe(launcher, &launch.limits, &how, &note, &err), STK_OK);
    const bool grouped = strstr(how.data, "cgroup v") != NULL;
    assert_true(grouped ? note.length == 0 : strstr(note.data, "RLIMIT_AS") != NULL);
    for (int i = 0; i < 3; i++) {
        stk__outcome o = run(&launch);
        assert_true(o.out_of_memory);
        assert_int_equal(o.memory_guessed, !grouped);
        assert_int_equal(o.signal, grouped ? SIGKILL : 0);
        assert_text(&o, &launch,
                    grouped ? "out of memory (limit 64.0 MiB)"
                            : "probably out of memory (limit 64.0 MiB per process), exit code 1");
        stk__outcome_clear(&o);
        o = run(&(stk__launch){.command = "true", .limits = launch.limits});
        assert_int_equal(o.exit_code, 0);
        assert_false(o.out_of_memory);
        stk__outcome_clear(&o);
    }
    stk__text_clear(&how);
    stk__text_clear(&note);
}

static void launch_outcome_text_words_each_case(void **state)
{
    (void)state;
    const stk__launch launch = {.command = "x", .timeout_ns = 5000000000, .limits = {.memory_bytes = 64 * MIB}};
    assert_text(&(stk__outcome){.exit_code = 3}, &launch, "exit code 3");
    assert_text(&(stk__outcome){.exit_code = -1, .signal = SIGKILL}, &launch, "killed by signal 9 (Killed)");
    assert_text(&(stk__outcome){.exit_code = -1, .signal = SIGKILL, .timed_out = true}, &launch,
                "took longer than 5 s");
    assert_text(&(stk__outcome){.exit_code = -1, .signal = SIGKILL, .out_of_memory = true}, &launch,
                "out of memory (limit 64.0 MiB)");
    assert_text(&(stk__outcome){.out_of_memory = true}, &launch, "out of memory (limit 64.0 MiB)");
    assert_text(&(stk__outcome){.exit_code = 1, .out_of_memory = true, .memory_guessed = true}, &launch,
                "probably out of memory (limit 64.0 MiB per process), exit code 1");
    assert_text(&(stk__outcome){.exit_code = 137, .out_of_memory = true, .timed_out = true}, &launch,
                "took longer than 5 s, out of memory (limit 64.0 MiB)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_tells_exit_codes),
        cmocka_unit_test(launch_tells_signals),
        cmocka_unit_test(launch_tells_a_command_that_is_not_there),
        cmocka_unit_test(launch_refuses_an_empty_command),
        cmocka_unit_test(launch_measures_a_run),
        cmocka_unit_test(launch_keeps_output_with_hash_and_size),
        cmocka_unit_test(launch_keeps_the_end_of_long_output_and_hashes_all),
        cmocka_unit_test(launch_keeps_the_end_of_errors),
        cmocka_unit_test(launch_shows_output_on_our_own),
        cmocka_unit_test(launch_gives_input_directory_and_environment),
        cmocka_unit_test(launch_runs_a_script_without_interpreter_by_sh),
        cmocka_unit_test(launch_takes_the_path_of_the_added_environment),
        cmocka_unit_test(launch_names_a_missing_input_or_directory),
        cmocka_unit_test(launch_starts_with_plain_signals_and_files),
        cmocka_unit_test(launch_takes_huge_commands),
        cmocka_unit_test(launch_kills_what_takes_too_long_with_its_children),
        cmocka_unit_test(launch_asks_before_it_kills),
        cmocka_unit_test(launch_ends_what_a_command_leaves_behind),
        cmocka_unit_test(launch_leaves_daemons_alone),
        cmocka_unit_test(launch_interrupted_from_a_thread_is_cancelled),
        cmocka_unit_test(launch_interrupted_by_a_signal_is_cancelled),
        cmocka_unit_test(launch_runs_thousands_without_leaks),
        cmocka_unit_test(launch_reports_every_failed_allocation),
        cmocka_unit_test(launch_peak_memory_is_the_commands_own),
        cmocka_unit_test(launch_keeps_to_its_cpus),
        cmocka_unit_test(launch_with_part_of_a_cpu_runs_in_a_cgroup),
        cmocka_unit_test(launch_with_a_memory_limit_ends_what_exceeds_it),
        cmocka_unit_test(launch_outcome_text_words_each_case),
        cmocka_unit_test(launch_with_the_launcher_killed_is_an_error),
        cmocka_unit_test(launch_ends_all_when_the_program_is_killed),
    };
    stk_error err = {0};
    if (stk__launcher_start(&launcher, &err) != STK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stk__launcher_stop(launcher);
    return failed;
}
