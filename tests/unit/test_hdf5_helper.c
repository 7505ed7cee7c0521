/* The helper process and the index that it gives, with stand-ins for the
 * program: this test started under other names. */
#define _GNU_SOURCE
#include "record_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "formats/hdf5_index.h"
#include "hdf5_messages.h"

enum { PATIENT_MS = 100000, ANSWER_MAX = 64 << 20 };

/* ---- the stand-ins ---- */

/* The next request; false at the end of the input. */
static bool take_request(uint8_t **data, size_t *size)
{
    uint8_t frame[8];
    if (fread(frame, 1, 8, stdin) != 8)
        return false;
    *size = 0;
    for (int i = 0; i < 8; i++)
        *size |= (size_t)frame[i] << 8 * i;
    *data = malloc(*size + 1);
    return *data && fread(*data, 1, *size, stdin) == *size;
}

/* An answer, and what comes with it in the same piece. */
static void give_more(stk_status status, uint32_t field, const void *data, size_t size, const char *more)
{
    stk__text t = STK__TEXT_INIT;
    stk__wire_put_uint(&t, STK__H5_ANSWER_STATUS, status);
    stk__wire_put_bytes(&t, field, data, size);
    for (int i = 0; i < 8; i++)
        putchar((int)(t.length >> 8 * i & 255));
    fwrite(t.data, 1, t.length, stdout);
    fputs(more, stdout);
    fflush(stdout);
    stk__text_clear(&t);
}

static void give_data(stk_status status, uint32_t field, const void *data, size_t size)
{
    give_more(status, field, data, size, "");
}

/* Group, mask and dispositions that a fresh program has. */
static void give_state(void)
{
    sigset_t mask;
    struct sigaction action;
    char text[64];
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigaction(SIGINT, NULL, &action);
    int blocked = 0;
    for (int s = 1; s < 32; s++)
        blocked += sigismember(&mask, s) == 1;
    snprintf(text, sizeof text, "group %d blocked %d default %d", getpgrp() == getpid(), blocked,
             action.sa_handler == SIG_DFL);
    give_data(STK_OK, STK__H5_ANSWER_DATA, text, strlen(text));
}

static void put_two_floats(stk__text *file, const char *path, int64_t address)
{
    stk__text d = STK__TEXT_INIT;
    begin_dataset(&d, path, STK__H5_LAYOUT_CONTIGUOUS, (const uint64_t[]){2}, 1);
    put_leaf(&d, "", STK__H5_KIND_FLOAT, 4, 0);
    PUT_NUMBERS(&d, STK__H5_DATASET_ADDRESS, (uint64_t)address);
    put_message(file, STK__H5_FILE_DATASET, &d);
}

/* Notes a request in a file beside the one that it is about. */
static void note_request(const char *path)
{
    char notes[4200];
    snprintf(notes, sizeof notes, "%s.notes", path);
    FILE *f = fopen(notes, "ab");
    if (f) {
        fputc('x', f);
        fclose(f);
    }
}

/* Describes the file asked for, with one contiguous dataset for each path; "/b"
 * and "/a" for none. */
static void give_index(const uint8_t *data, size_t size, bool other)
{
    stk__wire w = {data, data + size}, value = {0};
    stk__text file = STK__TEXT_INIT, datasets = STK__TEXT_INIT;
    uint32_t field, type;
    struct stat st = {0};
    while (w.p < w.end && stk__wire_tag(&w, &field, &type)) {
        if (type != STK__WIRE_BYTES) {
            stk__wire_skip(&w, type);
            continue;
        }
        stk__wire_bytes(&w, &value);
        char path[4096];
        snprintf(path, sizeof path, "%.*s", (int)(value.end - value.p), (const char *)value.p);
        if (field == STK__H5_REQUEST_PATH && stat(path, &st) == 0)
            note_request(path);
        else if (strcmp(path, "/left-out") != 0)
            put_two_floats(&datasets, path, st.st_size - 8);
    }
    if (!datasets.length) {
        put_two_floats(&datasets, "/b", 0);
        put_two_floats(&datasets, "/a", 0);
    }
    if (other)
        st.st_mtim.tv_nsec ^= 1;
    put_file_header(&file, st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    stk__text_write(&file, datasets.data, datasets.length);
    give_data(STK_OK, STK__H5_ANSWER_FILE, file.data, file.length);
    stk__text_clear(&file);
    stk__text_clear(&datasets);
}

static void announce(uint64_t size, size_t sent)
{
    for (int i = 0; i < 8; i++)
        putchar((int)(size >> 8 * i & 255));
    for (size_t i = 0; i < sent; i++)
        putchar('z');
    fflush(stdout);
}

static void behave(const char *as, const uint8_t *data, size_t size)
{
    static const char zeros[3 << 20];
    const struct timespec a_while = {.tv_nsec = 50000000};
    char pid[16], refusal[64];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(refusal, sizeof refusal, "no dataset '/x', says %s", pid);
    if (strcmp(as, "echo") == 0)
        give_data(STK_OK, STK__H5_ANSWER_DATA, data, size);
    else if (strcmp(as, "crash") == 0)
        kill(getpid(), SIGABRT);
    else if (strcmp(as, "killed") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(as, "cpu") == 0)
        kill(getpid(), SIGXCPU);
    else if (strcmp(as, "exit") == 0)
        _exit(3);
    else if (strcmp(as, "hang") == 0)
        pause();
    else if (strcmp(as, "slow") == 0)
        nanosleep(&a_while, NULL), give_data(STK_OK, STK__H5_ANSWER_DATA, "late", 4);
    else if (strcmp(as, "closed") == 0)
        fclose(stdout), close(STDIN_FILENO), pause();
    else if (strcmp(as, "huge") == 0)
        announce(UINT64_MAX, 10);
    else if (strcmp(as, "cut") == 0)
        announce(1 << 20, 300), _exit(0);
    else if (strcmp(as, "nonsense") == 0)
        announce(10, 10);
    else if (strcmp(as, "empty") == 0)
        announce(0, 0);
    else if (strcmp(as, "refuse") == 0)
        give_data(STK_INVALID, STK__H5_ANSWER_MESSAGE, refusal, strlen(refusal));
    else if (strcmp(as, "end") == 0)
        give_data(STK_END, STK__H5_ANSWER_MESSAGE, "", 0);
    else if (strcmp(as, "once") == 0)
        give_data(STK_OK, STK__H5_ANSWER_DATA, pid, strlen(pid)), _exit(0);
    else if (strcmp(as, "pid") == 0)
        give_data(STK_OK, STK__H5_ANSWER_DATA, pid, strlen(pid));
    else if (strcmp(as, "chatty") == 0)
        give_more(STK_OK, STK__H5_ANSWER_DATA, pid, strlen(pid), "and more");
    else if (strcmp(as, "big") == 0)
        give_data(STK_OK, STK__H5_ANSWER_DATA, zeros, sizeof zeros);
    else if (strcmp(as, "state") == 0)
        give_state();
    else if (strncmp(as, "index", 5) == 0)
        give_index(data, size, as[5]);
}

/* Only looks for the helper program, and says where. */
static int tell_place(void)
{
    char *path = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk__h5_helper_find(&path, &err) == STK_OK)
        printf("found %s\n", path);
    else
        printf("%s %s\n", stk_status_name(err.status), err.message);
    stk__free(path);
    return 0;
}

static int stand_in(const char *as)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (strcmp(as, "find") == 0)
        return tell_place();
    if (strcmp(as, "deaf") == 0)
        return 5;
    uint8_t *data = NULL;
    size_t size;
    for (; take_request(&data, &size); free(data))
        behave(as, data, size);
    return 0;
}

/* ---- asking ---- */

static stk__h5_helper *helper_as(const char *as)
{
    char path[300], self[4096];
    stk__h5_helper *h = NULL;
    snprintf(path, sizeof path, "%s/fake-%s", test_dir, as);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    assert_true(symlink(self, path) == 0 || errno == EEXIST);
    assert_int_equal(stk__h5_helper_new(&h, NULL), STK_OK);
    assert_int_equal(stk__h5_helper_use(h, path, NULL), STK_OK);
    return h;
}

/* The DATA of an answer as a string, in memory that lives until the next call
 * of the same thread. */
static stk_status ask_text(stk__h5_helper *h, const char *request, int timeout_ms, char *out, size_t room,
                           stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    uint8_t *data = NULL;
    size_t size = 0;
    stk__text_puts(&t, request);
    stk_error_clear(err);
    const stk_status status = stk__h5_helper_ask(h, &t, timeout_ms, ANSWER_MAX, &data, &size, err);
    stk__text_clear(&t);
    if (status == STK_OK) {
        stk__wire w = {data, data + size}, value = {0};
        uint32_t field, type;
        uint64_t number;
        assert_true(stk__wire_tag(&w, &field, &type) && stk__wire_varint(&w, &number));
        assert_true(stk__wire_tag(&w, &field, &type) && stk__wire_bytes(&w, &value));
        snprintf(out, room, "%.*s", (int)(value.end - value.p), (const char *)value.p);
    }
    stk__free(data);
    return status;
}

static void expect_text(stk__h5_helper *h, const char *request, const char *want)
{
    char text[256];
    stk_error err;
    if (ask_text(h, request, PATIENT_MS, text, sizeof text, &err) != STK_OK)
        fail_msg("%s", err.message);
    assert_string_equal(text, want);
}

static int ask_pid(stk__h5_helper *h)
{
    char text[64];
    stk_error err;
    if (ask_text(h, "", PATIENT_MS, text, sizeof text, &err) != STK_OK)
        fail_msg("%s", err.message);
    return (int)strtol(text, NULL, 10);
}

static void expect_failure(const char *as, int timeout_ms, stk_status want, const char *part)
{
    stk__h5_helper *h = helper_as(as);
    for (int i = 0; i < 2; i++) { /* the second one starts it anew */
        char text[64];
        stk_error err;
        assert_int_equal(ask_text(h, "hello", timeout_ms, text, sizeof text, &err), want);
        assert_int_equal(err.status, want);
        if (!strstr(err.message, part))
            fail_msg("%s: '%s' is not in '%s'", as, part, err.message);
    }
    stk__h5_helper_free(h);
}

static bool has_children(void)
{
    int status;
    return waitpid(-1, &status, WNOHANG) >= 0;
}

static int no_children(void **state)
{
    return has_children() ? -1 : 0;
}

static void ask_sends_the_request_and_brings_the_answer(void **state)
{
    stk__h5_helper *h = helper_as("echo");
    expect_text(h, "hello", "hello");
    expect_text(h, "", "");
    expect_text(h, "again", "again");
    stk__h5_helper_free(h);
    stk__h5_helper_free(NULL);
}

static void ask_keeps_one_process_and_free_ends_it(void **state)
{
    stk__h5_helper *h = helper_as("pid");
    const int pid = ask_pid(h);
    assert_int_equal(ask_pid(h), pid);
    assert_int_equal(kill(pid, 0), 0);
    stk__h5_helper_free(h);
    assert_int_equal(kill(pid, 0), -1);
    h = helper_as("pid"); /* never asked: never started */
    stk__h5_helper_free(h);
}

static void crashes_hangs_and_nonsense_are_errors_of_the_file(void **state)
{
    expect_failure("crash", PATIENT_MS, STK_CORRUPT, "libhdf5 crashed (signal 6) on this file");
    expect_failure("killed", PATIENT_MS, STK_NOMEM, "was killed from outside on this file");
    expect_failure("cpu", PATIENT_MS, STK_CORRUPT, "libhdf5 used up its CPU time on this file");
    expect_failure("exit", PATIENT_MS, STK_CORRUPT, "libhdf5 ended its process (exit code 3) on this file");
    expect_failure("hang", 120, STK_CORRUPT, "libhdf5 did not answer within 0.12 s on this file");
    expect_failure("huge", PATIENT_MS, STK_BUDGET, "announced an answer of 18446744073709551615 bytes, at most");
    expect_failure("cut", PATIENT_MS, STK_CORRUPT, "libhdf5 ended its process (exit code 0)");
    expect_failure("nonsense", PATIENT_MS, STK_CORRUPT, "gave an answer of 10 bytes that makes no sense");
    expect_failure("empty", PATIENT_MS, STK_CORRUPT, "gave an answer of 0 bytes that makes no sense");
    expect_failure("end", PATIENT_MS, STK_CORRUPT, "that makes no sense");
    expect_failure("closed", PATIENT_MS, STK_CORRUPT, "libhdf5 crashed (signal 9) on this file");
}

static void a_refusal_is_passed_on_and_leaves_the_helper_alive(void **state)
{
    stk__h5_helper *h = helper_as("refuse");
    char text[64];
    stk_error first, second;
    assert_int_equal(ask_text(h, "", PATIENT_MS, text, sizeof text, &first), STK_INVALID);
    assert_int_equal(ask_text(h, "", PATIENT_MS, text, sizeof text, &second), STK_INVALID);
    assert_non_null(strstr(first.message, "no dataset '/x', says "));
    assert_string_equal(first.message, second.message);
    stk__h5_helper_free(h);
}

/* SIGPIPE is at its default here: it would end this test. */
static void a_helper_that_does_not_listen_does_no_harm(void **state)
{
    stk__h5_helper *h = helper_as("deaf");
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i < 4 << 20; i++)
        stk__text_putc(&t, 'q');
    uint8_t *data = NULL;
    size_t size;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__h5_helper_ask(h, &t, PATIENT_MS, ANSWER_MAX, &data, &size, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "exit code 5"));
    stk__text_clear(&t);
    stk__h5_helper_free(h);
}

static void a_helper_that_hangs_while_it_should_listen_is_given_up(void **state)
{
    stk__h5_helper *h = helper_as("hang");
    stk__text t = STK__TEXT_INIT;
    char text[64];
    stk_error err;
    for (int i = 0; i < 8 << 20; i++)
        stk__text_putc(&t, 0);
    uint8_t *data = NULL;
    size_t size;
    stk_error_clear(&err);
    assert_int_equal(stk__h5_helper_ask(h, &t, 200, ANSWER_MAX, &data, &size, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "did not answer"));
    assert_int_equal(ask_text(h, "x", 50, text, sizeof text, &err), STK_CORRUPT);
    stk__text_clear(&t);
    stk__h5_helper_free(h);
}

static void large_answers_come_whole_and_limits_hold(void **state)
{
    stk__h5_helper *h = helper_as("big");
    const stk__text t = {.data = (char[]){"x"}, .length = 1};
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__h5_helper_ask(h, &t, PATIENT_MS, ANSWER_MAX, &data, &size, NULL), STK_OK);
    assert_true(size > 3 << 20 && size < (3 << 20) + 20);
    assert_int_equal(data[size - 1], 0);
    stk__free(data);
    assert_int_equal(stk__h5_helper_ask(h, &t, PATIENT_MS, 3 << 20, &data, &size, NULL), STK_BUDGET);
    for (uint64_t n = 1;; n++) {
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__h5_helper_ask(h, &t, PATIENT_MS, ANSWER_MAX, &data, &size, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_NOMEM);
    }
    stk__free(data);
    stk__h5_helper_free(h);
}

static void wait_for_death(int pid)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void a_helper_that_died_or_talks_on_between_requests_is_replaced(void **state)
{
    stk__h5_helper *h = helper_as("once");
    const int first = ask_pid(h);
    wait_for_death(first);
    assert_true(ask_pid(h) != first);
    stk__h5_helper_free(h);
    h = helper_as("pid");
    const int pid = ask_pid(h);
    assert_int_equal(kill(pid, SIGKILL), 0);
    wait_for_death(pid);
    assert_true(ask_pid(h) != pid);
    stk__h5_helper_free(h);
    /* What is left of an answer from before is not taken for the next one. */
    h = helper_as("chatty");
    const int chatty = ask_pid(h);
    assert_true(ask_pid(h) != chatty);
    stk__h5_helper_free(h);
}

static void the_child_starts_with_fresh_signals_in_its_own_group(void **state)
{
    sigset_t block, before;
    sigfillset(&block);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    signal(SIGINT, SIG_IGN);
    stk__h5_helper *h = helper_as("state");
    expect_text(h, "", "group 1 blocked 0 default 1");
    stk__h5_helper_free(h);
    signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_alarm(int number)
{
    (void)number;
}

static void interrupted_waits_go_on(void **state)
{
    const struct sigaction action = {.sa_handler = on_alarm}, plain = {.sa_handler = SIG_DFL};
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    stk__h5_helper *h = helper_as("slow");
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    expect_text(h, "", "late");
    stk__h5_helper_free(h);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &plain, NULL);
}

static void *ask_often(void *arg)
{
    char want[32], text[64];
    stk_error err;
    size_t wrong = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(want, sizeof want, "%p %d", (void *)&err, i);
        wrong += ask_text(arg, want, PATIENT_MS, text, sizeof text, &err) != STK_OK || strcmp(text, want) != 0;
    }
    return (void *)wrong;
}

static void threads_take_turns(void **state)
{
    stk__h5_helper *h = helper_as("echo");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, h), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    stk__h5_helper_free(h);
}

/* Pipes of one child that another child holds open would keep it from seeing
 * the end. */
static void *start_and_free(void *arg)
{
    for (int i = 0; i < 10; i++) {
        stk__h5_helper *h = NULL;
        char text[64];
        stk_error err;
        if (stk__h5_helper_new(&h, NULL) != STK_OK || stk__h5_helper_use(h, arg, NULL) != STK_OK ||
            ask_text(h, "hi", PATIENT_MS, text, sizeof text, &err) != STK_OK || strcmp(text, "hi") != 0)
            return arg;
        stk__h5_helper_free(h);
    }
    return NULL;
}

static void helpers_of_several_threads_start_and_end_apart(void **state)
{
    char path[300];
    stk__h5_helper_free(helper_as("echo"));
    snprintf(path, sizeof path, "%s/fake-echo", test_dir);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_and_free, path), 0);
    for (int i = 0; i < 3; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void a_forked_process_starts_a_helper_of_its_own(void **state)
{
    stk__h5_helper *h = helper_as("pid");
    const int pid = ask_pid(h);
    for (int asks = 0; asks < 2; asks++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            char text[64];
            stk_error err;
            bool ok = true;
            if (asks)
                ok = ask_text(h, "", PATIENT_MS, text, sizeof text, &err) == STK_OK && strtol(text, NULL, 10) != pid;
            stk__h5_helper_free(h);
            ok = ok && kill(pid, 0) == 0;
            _exit(ok ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(ask_pid(h), pid);
    }
    stk__h5_helper_free(h);
}

static void a_program_that_is_not_there_is_an_io_error(void **state)
{
    stk__h5_helper *h = NULL;
    char text[64];
    stk_error err;
    assert_int_equal(stk__h5_helper_new(&h, NULL), STK_OK);
    assert_int_equal(stk__h5_helper_use(h, in_dir("nothing"), NULL), STK_OK);
    assert_int_equal(ask_text(h, "", PATIENT_MS, text, sizeof text, &err), STK_IO);
    assert_non_null(strstr(err.message, "cannot start"));
    assert_non_null(strstr(err.message, "nothing: No such file"));
    stk__h5_helper_free(h);
}

/* ---- finding ---- */

/* What a copy of this program in DIR/bin finds. */
static const char *find_from(const char *dir)
{
    static char line[4096];
    char command[600];
    snprintf(command, sizeof command, "%s/bin/fake-find", dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(pclose(f), 0);
    return line;
}

static void copy_self(const char *dir)
{
    char *data = NULL, path[600];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/bin/fake-find", dir);
    assert_int_equal(stk__make_parents(path, NULL), STK_OK);
    assert_int_equal(stk__read_file("/proc/self/exe", (size_t)1 << 30, &data, &size, NULL), STK_OK);
    assert_int_equal(stk__write_file(path, data, size, NULL), STK_OK);
    assert_int_equal(chmod(path, 0755), 0);
    stk__free(data);
}

static void make_program(const char *path, mode_t mode)
{
    assert_int_equal(stk__make_parents(path, NULL), STK_OK);
    assert_int_equal(stk__write_file(path, "#!/bin/sh\n", 10, NULL), STK_OK);
    assert_int_equal(chmod(path, mode), 0);
}

static void the_program_is_found_beside_and_above_the_library(void **state)
{
    char dir[100], above[200], beside[200], want[800];
    snprintf(dir, sizeof dir, "%s/place", test_dir);
    snprintf(above, sizeof above, "%s/libexec/stoker-hdf5", dir);
    snprintf(beside, sizeof beside, "%s/bin/stoker-hdf5", dir);
    copy_self(dir);
    const char *line = find_from(dir);
    snprintf(want, sizeof want, "%s (not there), %s/bin/libexec/stoker-hdf5 (not there), %s (not there)", beside, dir,
             above);
    if (strncmp(line, "found ", 6) != 0) { /* one may well be installed on this machine */
        assert_non_null(strstr(line, "IO cannot find the program stoker-hdf5"));
        assert_non_null(strstr(line, want));
    }
    make_program(above, 0755);
    snprintf(want, sizeof want, "found %s\n", above);
    assert_string_equal(find_from(dir), want);
    /* Nothing that somebody else could have changed, or that is no program, is taken. */
    make_program(beside, 0757);
    assert_string_equal(find_from(dir), want);
    make_program(beside, 0644);
    assert_string_equal(find_from(dir), want);
    assert_int_equal(unlink(beside), 0);
    assert_int_equal(mkdir(beside, 0755), 0);
    assert_string_equal(find_from(dir), want);
    assert_int_equal(rmdir(beside), 0);
    make_program(beside, 0755);
    snprintf(want, sizeof want, "found %s\n", beside);
    assert_string_equal(find_from(dir), want);
}

/* ---- descriptions and their cache ---- */

static const char *make_h5(const char *name, const char *tail)
{
    static const char head[] = "\x89HDF\r\n\x1a\n";
    stk__text t = STK__TEXT_INIT;
    stk__text_write(&t, head, 8);
    stk__text_puts(&t, tail);
    const char *path = write_bytes(name, t.data, t.length);
    stk__text_clear(&t);
    return path;
}

/* Requests that the stand-in got for a file. */
static size_t requests(const char *path)
{
    char notes[400];
    struct stat st;
    snprintf(notes, sizeof notes, "%s.notes", path);
    return stat(notes, &st) == 0 ? (size_t)st.st_size : 0;
}

static stk__h5_file *index_of(stk__h5_helper *h, const char *path, const char *const *names, size_t n,
                              const char *cache)
{
    stk__h5_file *file = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk__h5_index(h, path, names, n, cache, &file, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
    return file;
}

static void files_are_known_by_their_signature(void **state)
{
    static char bytes[8192];
    assert_true(stk__h5_is_file(make_h5("sig", "")));
    for (size_t at = 1; at <= 4096; at *= 2) {
        memset(bytes, 'x', sizeof bytes);
        memcpy(bytes + at, "\x89HDF\r\n\x1a\n", 8);
        const char *path = write_bytes("late", bytes, at + 8);
        assert_int_equal(stk__h5_is_file(path), at >= 512);
    }
    assert_false(stk__h5_is_file(write_text("short", "\x89HDF\r\n\x1a")));
    assert_false(stk__h5_is_file(in_dir("nothing")));
    assert_false(stk__h5_is_file(test_dir));
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_false(stk__h5_is_file(in_dir("fifo")));
}

static void an_index_is_kept_and_used_again(void **state)
{
    static const char *const both[] = {"/x", "/y"}, *const one[] = {"/y"};
    char cache[300], path[300];
    stk__h5_helper *h = helper_as("index");
    snprintf(cache, sizeof cache, "%s/made/on/demand", test_dir);
    snprintf(path, sizeof path, "%s", make_h5("kept.h5", "12345678"));
    stk__h5_file *fresh = index_of(h, path, both, 2, cache);
    stk__h5_file *again = index_of(h, path, both, 2, cache);
    assert_false(fresh->cached);
    assert_true(again->cached);
    assert_int_equal(requests(path), 1);
    assert_int_equal(again->dataset_count, 2);
    assert_string_equal(again->datasets[1].path, "/y");
    assert_string_equal(again->path, path);
    assert_int_equal(again->datasets[0].address, fresh->datasets[0].address);
    stk__h5_file_free(fresh);
    stk__h5_file_free(again);
    stk__h5_file_free(index_of(h, path, one, 1, cache)); /* another set of datasets */
    assert_int_equal(requests(path), 2);
    stk__h5_file_free(index_of(h, path, both, 2, NULL));
    assert_int_equal(requests(path), 3);
    /* Another name of the same file is the same file. */
    assert_int_equal(symlink(path, in_dir("link.h5")), 0);
    again = index_of(h, in_dir("link.h5"), both, 2, cache);
    assert_true(again->cached);
    stk__h5_file_free(again);
    stk__h5_helper_free(h);
}

static void touch_file(const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void an_index_of_a_changed_file_is_not_used(void **state)
{
    static const char *const names[] = {"/x"};
    char cache[300], path[300];
    stk__h5_helper *h = helper_as("index");
    snprintf(cache, sizeof cache, "%s/changed-cache", test_dir);
    snprintf(path, sizeof path, "%s", make_h5("changed.h5", "12345678"));
    stk__h5_file_free(index_of(h, path, names, 1, cache));
    make_h5("changed.h5", "123456789");
    stk__h5_file *file = index_of(h, path, names, 1, cache);
    assert_false(file->cached);
    assert_int_equal(file->id.size_bytes, 17);
    stk__h5_file_free(file);
    touch_file(path, 1000);
    file = index_of(h, path, names, 1, cache);
    assert_false(file->cached);
    assert_int_equal(file->id.mtime_ns, INT64_C(1000000000000));
    stk__h5_file_free(file);
    make_h5("changed.h5", "123456789"); /* another inode, same size and time */
    touch_file(path, 1000);
    file = index_of(h, path, names, 1, cache);
    assert_false(file->cached);
    stk__h5_file_free(file);
    file = index_of(h, path, names, 1, cache);
    assert_true(file->cached);
    stk__h5_file_free(file);
    stk__h5_helper_free(h);
}

/* The one file in a directory. */
static const char *only_file(const char *dir)
{
    static char path[700];
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            count++;
        }
    }
    closedir(d);
    assert_int_equal(count, 1);
    return path;
}

/* A cached index with any byte changed or cut off is made anew, also when its
 * checksum was made to fit. */
static void a_damaged_index_is_made_anew(void **state)
{
    static const char *const names[] = {"/x"};
    char cache[300], path[300], *bytes = NULL;
    size_t size = 0;
    stk__h5_helper *h = helper_as("index");
    snprintf(cache, sizeof cache, "%s/damaged-cache", test_dir);
    snprintf(path, sizeof path, "%s", make_h5("damaged.h5", "12345678"));
    stk__h5_file_free(index_of(h, path, names, 1, cache));
    const char *kept = only_file(cache);
    assert_int_equal(stk__read_file(kept, 1 << 20, &bytes, &size, NULL), STK_OK);
    for (size_t i = 0; i < size; i += 7) {
        bytes[i] ^= 16;
        assert_int_equal(stk__write_file(kept, bytes, size, NULL), STK_OK);
        bytes[i] ^= 16;
        stk__h5_file *file = index_of(h, path, names, 1, cache);
        assert_false(file->cached);
        stk__h5_file_free(file);
    }
    assert_int_equal(stk__write_file(kept, bytes, size - 1, NULL), STK_OK);
    stk__h5_file *file = index_of(h, path, names, 1, cache);
    assert_false(file->cached);
    stk__h5_file_free(file);
    bytes[size - 1] ^= 1; /* part of the dataset's message */
    stk__h5_cached_seal(bytes, size);
    assert_int_equal(stk__write_file(kept, bytes, size, NULL), STK_OK);
    file = index_of(h, path, names, 1, cache);
    assert_int_equal(file->datasets[0].address, 8);
    stk__h5_file_free(file);
    stk__free(bytes);
    stk__h5_helper_free(h);
}

static void a_cache_that_cannot_be_written_is_no_error(void **state)
{
    static const char *const names[] = {"/x"};
    stk__h5_helper *h = helper_as("index");
    char path[300];
    snprintf(path, sizeof path, "%s", make_h5("nocache.h5", "12345678"));
    stk__h5_file *file = index_of(h, path, names, 1, path); /* a file where a directory is wanted */
    assert_false(file->cached);
    stk__h5_file_free(file);
    stk__h5_helper_free(h);
}

static void relative_paths_reach_the_helper_whole(void **state)
{
    static const char *const names[] = {"/x"};
    stk__h5_helper *h = helper_as("index");
    char cwd[4096];
    make_h5("relative.h5", "12345678");
    stk__h5_file *file = NULL;
    assert_non_null(getcwd(cwd, sizeof cwd));
    stk__h5_file_free(index_of(h, in_dir("relative.h5"), names, 1, NULL)); /* it runs now, where we were */
    assert_int_equal(chdir(test_dir), 0);
    const stk_status status = stk__h5_describe(h, "relative.h5", names, 1, &file, NULL);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(status, STK_OK);
    assert_string_equal(file->path, "relative.h5");
    stk__h5_file_free(file);
    stk__h5_helper_free(h);
}

static void expect_describe_error(const char *as, const char *path, stk_status want, const char *part)
{
    static const char *const names[] = {"/x"};
    stk__h5_helper *h = helper_as(as);
    stk__h5_file *file = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__h5_describe(h, path, names, 1, &file, &err), want);
    assert_null(file);
    assert_string_equal(err.file, path);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
    stk__h5_helper_free(h);
}

static void errors_name_the_file_and_what_is_wrong(void **state)
{
    const char *path = make_h5("errors.h5", "12345678");
    expect_describe_error("index", in_dir("missing.h5"), STK_IO, "cannot open: No such file");
    expect_describe_error("index", test_dir, STK_UNSUPPORTED, "it is no regular file");
    expect_describe_error("index", write_text("text.h5", "hello"), STK_CORRUPT, "is no HDF5 file");
    path = make_h5("errors.h5", "12345678");
    expect_describe_error("crash", path, STK_CORRUPT, "libhdf5 crashed (signal 6) on this file");
    expect_describe_error("refuse", path, STK_INVALID, "no dataset '/x'");
    expect_describe_error("echo", path, STK_CORRUPT, "gave an answer without a description");
    expect_describe_error("index-other", path, STK_CORRUPT, "changed while it was indexed");
}

static void datasets_come_as_asked_for_or_in_order_of_their_paths(void **state)
{
    static const char *const names[] = {"/b", "/a"}, *const lost[] = {"/b", "/left-out"};
    stk__h5_helper *h = helper_as("index");
    char path[300];
    snprintf(path, sizeof path, "%s", make_h5("order.h5", "12345678"));
    stk__h5_file *file = index_of(h, path, names, 2, NULL);
    assert_string_equal(file->datasets[0].path, "/b");
    assert_string_equal(file->datasets[1].path, "/a");
    stk__h5_file_free(file);
    file = index_of(h, path, NULL, 0, NULL);
    assert_int_equal(file->dataset_count, 2);
    assert_string_equal(file->datasets[0].path, "/a");
    stk__h5_file_free(file);
    stk_error err;
    stk_error_clear(&err);
    file = NULL;
    assert_int_equal(stk__h5_index(h, path, lost, 2, NULL, &file, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "described 1 datasets, 2 were asked for"));
    stk__h5_helper_free(h);
}

int main(int argc, char **argv)
{
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    if (slash && strncmp(slash, "/fake-", 6) == 0)
        return stand_in(slash + 6);
#define TEST(name) cmocka_unit_test_teardown(name, no_children)
    const struct CMUnitTest tests[] = {
        TEST(ask_sends_the_request_and_brings_the_answer),
        TEST(ask_keeps_one_process_and_free_ends_it),
        TEST(crashes_hangs_and_nonsense_are_errors_of_the_file),
        TEST(a_refusal_is_passed_on_and_leaves_the_helper_alive),
        TEST(a_helper_that_does_not_listen_does_no_harm),
        TEST(a_helper_that_hangs_while_it_should_listen_is_given_up),
        TEST(large_answers_come_whole_and_limits_hold),
        TEST(a_helper_that_died_or_talks_on_between_requests_is_replaced),
        TEST(the_child_starts_with_fresh_signals_in_its_own_group),
        TEST(interrupted_waits_go_on),
        TEST(threads_take_turns),
        TEST(helpers_of_several_threads_start_and_end_apart),
        TEST(a_forked_process_starts_a_helper_of_its_own),
        TEST(a_program_that_is_not_there_is_an_io_error),
        TEST(the_program_is_found_beside_and_above_the_library),
        TEST(files_are_known_by_their_signature),
        TEST(an_index_is_kept_and_used_again),
        TEST(an_index_of_a_changed_file_is_not_used),
        TEST(a_damaged_index_is_made_anew),
        TEST(a_cache_that_cannot_be_written_is_no_error),
        TEST(relative_paths_reach_the_helper_whole),
        TEST(errors_name_the_file_and_what_is_wrong),
        TEST(datasets_come_as_asked_for_or_in_order_of_their_paths),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
