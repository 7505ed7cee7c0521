/*
 * A filter of libhdf5 that does what a file would do that has taken over the program: its first client value says what.
 * Values pass through it as they are. See test_hdf5_sandbox.py.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <H5PLextern.h>
#include <hdf5.h>

enum { FILTER = 32042 };

/* A file that must stay as it is, and the name of one that must not come to be. */
static const char *victim(void)
{
    return getenv("STOKER_TEST_VICTIM");
}

static const char *fresh(void)
{
    return getenv("STOKER_TEST_FRESH");
}

static void touch(int fd)
{
    if (fd >= 0 && write(fd, "taken", 5) == 5)
        close(fd);
}

/* ---- what must not be done ---- */

static void talk(void)
{
    const struct sockaddr_un place = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(fd, (const struct sockaddr *)&place, sizeof place);
}

static void talk_inet(void)
{
    socket(AF_INET, SOCK_DGRAM, 0);
}

static void run_program(void)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"echo taken > \"$STOKER_TEST_FRESH\"", NULL};
    extern char **environ;
    execve("/bin/sh", argv, environ);
}

static void spawn_program(void)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"echo taken > \"$STOKER_TEST_FRESH\"", NULL};
    extern char **environ;
    pid_t child;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0)
        waitpid(child, NULL, 0);
}

static void make_process(void)
{
    const pid_t child = fork();
    if (child == 0) {
        touch(open(fresh(), O_RDONLY));
        _exit(0);
    }
}

static void write_file(void)
{
    touch(open(victim(), O_WRONLY));
}

static void append_file(void)
{
    touch(openat(AT_FDCWD, victim(), O_RDWR | O_APPEND));
}

static void make_file(void)
{
    touch(open(fresh(), O_RDONLY | O_CREAT, 0600));
}

static void make_file_the_old_way(void)
{
    touch(creat(fresh(), 0600));
}

static void cut_file(void)
{
    open(victim(), O_RDONLY | O_TRUNC);
}

static void cut_by_name(void)
{
    if (truncate(victim(), 0))
        return;
}

static void remove_file(void)
{
    unlink(victim());
}

static void rename_file(void)
{
    rename(victim(), fresh());
}

static void link_file(void)
{
    if (link(victim(), fresh()))
        return;
}

static void make_directory(void)
{
    mkdir(fresh(), 0700);
}

static void change_mode(void)
{
    chmod(victim(), 0777);
}

static void kill_parent(void)
{
    kill(getppid(), SIGKILL);
}

static void kill_parent_thread(void)
{
    syscall(SYS_tgkill, getppid(), getppid(), SIGKILL);
}

static void trace_parent(void)
{
    ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static void read_parent(void)
{
    char byte;
    const struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)4096, 1};
    process_vm_readv(getppid(), &here, 1, &there, 1, 0);
}

/* The handler that tells of it is not needed to be stopped. */
static void talk_with_signals_blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    talk_inet();
}

static void go_on(int signal_number)
{
}

/* Nor does one's own handler help: what was refused was not done. */
static void write_with_own_handler(void)
{
    signal(SIGSYS, go_on);
    write_file();
    remove_file();
    make_file();
}

#ifdef __x86_64__
static void talk_by_x32_number(void)
{
    syscall(0x40000000 | SYS_socket, AF_INET, SOCK_DGRAM, 0);
}

/* The table of 32-bit programs: 5 is open, and stands for fstat among ours. */
static void write_by_32_bit_number(void)
{
    long result = 5;
    __asm__ volatile("int $0x80" : "+a"(result) : "b"(0), "c"(O_WRONLY), "d"(0) : "memory", "r8", "r9", "r10", "r11");
}
#endif

/* ---- what fails, and is no reason to end ---- */

static int soft_failures(void)
{
    const struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_WRONLY | O_CREAT, 0600, 0};
    int failed = 0;
    failed += setrlimit(RLIMIT_AS, &more) == -1 && errno == EPERM;
    failed += prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == -1 && errno == EPERM;
    failed += ioctl(0, TIOCSTI, "x") == -1 && errno == ENOTTY;
    failed += syscall(SYS_openat2, AT_FDCWD, fresh(), &how, sizeof how) == -1 && errno == ENOSYS;
    failed += syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS;
    failed += fcntl(0, F_SETOWN, getppid()) == -1 && errno == EPERM;
    failed += fcntl(0, F_SETSIG, SIGKILL) == -1 && errno == EPERM;
    failed += flock(0, LOCK_EX | LOCK_NB) == -1 && errno == ENOSYS;
    failed += fcntl(0, F_GETFL) == -1 ? 0 : 1;
    failed += syscall(425, 8, NULL) == -1 && errno == ENOSYS; /* io_uring_setup */
    return failed == 10;
}

/* ---- what is allowed ---- */

static void *thread_main(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

static int start_thread(void)
{
    pthread_t thread;
    int ran = 0;
    if (pthread_create(&thread, NULL, thread_main, &ran))
        return 0;
    pthread_join(thread, NULL);
    return ran;
}

static int use_what_is_allowed(void)
{
    char text[16] = "";
    struct stat st;
    struct rlimit now;
    struct timespec t;
    const int fd = open(victim(), O_RDONLY | O_CLOEXEC);
    int good = fd >= 0 && fstat(fd, &st) == 0 && read(fd, text, sizeof text) == 8 && close(fd) == 0;
    good += stat(victim(), &st) == 0 && access(victim(), R_OK) == 0;
    good += getrlimit(RLIMIT_AS, &now) == 0 && clock_gettime(CLOCK_MONOTONIC, &t) == 0 && isatty(0) == 0;
    void *memory = malloc((size_t)64 << 20);
    if (memory)
        memset(memory, 1, 100);
    good += memory != NULL;
    free(memory);
    FILE *file = fopen("/proc/self/status", "r");
    good += file && fgets(text, sizeof text, file) && fclose(file) == 0;
    return good == 5 && start_thread();
}

/* Descriptors that the parent left open are not there. */
static int no_inherited(void)
{
    const char *number = getenv("STOKER_TEST_FD");
    return number && fcntl(atoi(number), F_GETFD) == -1 && errno == EBADF;
}

/* ---- the filter ---- */

static const struct {
    const char *name;
    void (*call)(void);
    int (*check)(void); /* false: the filter fails */
} actions[] = {
    {"talk", talk, NULL},
    {"talk_inet", talk_inet, NULL},
    {"run_program", run_program, NULL},
    {"spawn_program", spawn_program, NULL},
    {"make_process", make_process, NULL},
    {"write_file", write_file, NULL},
    {"append_file", append_file, NULL},
    {"make_file", make_file, NULL},
    {"make_file_the_old_way", make_file_the_old_way, NULL},
    {"cut_file", cut_file, NULL},
    {"cut_by_name", cut_by_name, NULL},
    {"remove_file", remove_file, NULL},
    {"rename_file", rename_file, NULL},
    {"link_file", link_file, NULL},
    {"make_directory", make_directory, NULL},
    {"change_mode", change_mode, NULL},
    {"kill_parent", kill_parent, NULL},
    {"kill_parent_thread", kill_parent_thread, NULL},
    {"trace_parent", trace_parent, NULL},
    {"read_parent", read_parent, NULL},
    {"talk_with_signals_blocked", talk_with_signals_blocked, NULL},
    {"write_with_own_handler", write_with_own_handler, NULL},
#ifdef __x86_64__
    {"talk_by_x32_number", talk_by_x32_number, NULL},
    {"write_by_32_bit_number", write_by_32_bit_number, NULL},
#endif
    {"abort", abort, NULL},
    {"soft_failures", NULL, soft_failures},
    {"use_what_is_allowed", NULL, use_what_is_allowed},
    {"no_inherited", NULL, no_inherited},
};

static size_t pass(unsigned flags, size_t count, const unsigned values[], size_t bytes, size_t *size, void **data)
{
    const char *wanted = getenv("STOKER_TEST_ACTION");
    for (size_t i = 0; (flags & H5Z_FLAG_REVERSE) && wanted && i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(actions[i].name, wanted) != 0)
            continue;
        if (actions[i].call)
            actions[i].call();
        else if (!actions[i].check())
            return 0;
        return bytes;
    }
    return wanted ? 0 : bytes;
}

static const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, FILTER, 1, 1, "misbehaves", NULL, NULL, pass};

H5PLUGIN_DLL H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

H5PLUGIN_DLL const void *H5PLget_plugin_info(void)
{
    return &filter;
}
