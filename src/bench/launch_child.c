/* The launcher process: forks commands, watches over them, cleans up behind them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/launch_wire.h"
#include "bench/machine.h"

#include "base/banned.h"

enum { GRACE_NS = 100000000 };

typedef struct launcher {
    int socket, signals;
    pid_t self;
    stk__launch_shared *shared;
    bool alone; /* the program is gone */
} launcher;

/* One command: what was asked for. */
typedef struct job {
    stk__launch_request ask;
    int fds[STK__FDS];
    int gate[2]; /* the child waits there until its counter is open; -1: no counter */
    char *body;
    char **argv; /* with room for one more in front */
    char **envp;
} job;

_Noreturn void stk__launch_leave(int code)
{
    _exit(code); /* a fork of ours, never the program */
}

/* ---- messages ---- */

bool stk__launch_send(int socket, const void *data, size_t size)
{
    for (const char *p = data; size;) {
        const ssize_t n = send(socket, p, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool stk__launch_receive(int socket, void *data, size_t size)
{
    for (char *p = data; size;) {
        const ssize_t n = recv(socket, p, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static void close_gate(job *j)
{
    for (size_t i = 0; i < 2; i++) {
        if (j->gate[i] >= 0)
            close(j->gate[i]);
        j->gate[i] = -1;
    }
}

static void job_clear(job *j)
{
    close_gate(j);
    for (size_t i = 0; i < STK__FDS; i++)
        if (j->fds[i] >= 0)
            close(j->fds[i]);
    stk__free(j->argv ? j->argv - 1 : NULL);
    stk__free(j->envp);
    stk__free(j->body);
}

/* The descriptors come with the first byte of a request. */
static bool receive_request(int socket, job *j)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * STK__FDS)];
        struct cmsghdr align;
    } control;
    struct iovec data = {.iov_base = &j->ask, .iov_len = sizeof j->ask};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n;
    while ((n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (n <= 0)
        return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(j->fds, CMSG_DATA(c), STK_MIN(c->cmsg_len - CMSG_LEN(0), sizeof j->fds));
    }
    return stk__launch_receive(socket, (char *)&j->ask + n, sizeof j->ask - (size_t)n);
}

static size_t count_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    return count;
}

/* Sets a variable among those that are there, or behind them. */
static void put_variable(char **envp, size_t *count, char *text)
{
    const size_t name = strcspn(text, "=") + 1;
    for (size_t i = 0; i < *count; i++) {
        if (strncmp(envp[i], text, name) == 0) {
            envp[i] = text;
            return;
        }
    }
    envp[(*count)++] = text;
    envp[*count] = NULL;
}

/* Sets a variable that is not there. */
static void put_default(char **envp, size_t *count, char *text)
{
    const size_t name = strcspn(text, "=") + 1;
    for (size_t i = 0; i < *count; i++) {
        if (strncmp(envp[i], text, name) == 0)
            return;
    }
    put_variable(envp, count, text);
}

/* Points into the body. False: out of memory. */
static bool build_arrays(job *j)
{
    size_t count = count_environment();
    char **argv = stk__calloc((size_t)j->ask.words + 2, sizeof *argv);
    j->argv = argv ? argv + 1 : NULL;
    j->envp = stk__calloc(count + j->ask.environment + 2, sizeof *j->envp);
    if (!j->argv || !j->envp)
        return false;
    memcpy(j->envp, environ, count * sizeof *environ);
    char *p = j->body;
    for (uint32_t i = 0; i < j->ask.words; i++, p += strlen(p) + 1)
        j->argv[i] = p;
    for (uint32_t i = 0; i < j->ask.environment; i++, p += strlen(p) + 1)
        put_variable(j->envp, &count, p);
    static char seed[] = "PYTHONHASHSEED=0";
    if (j->ask.fixed)
        put_default(j->envp, &count, seed);
    return true;
}

/* ---- the child ---- */

static _Noreturn void fail(stk__launch_shared *shared, int error, bool at_exec, const char *what)
{
    shared->error = error ? error : EIO;
    shared->at_exec = at_exec;
    snprintf(shared->what, sizeof shared->what, "%s", what);
    stk__launch_leave(127);
}

static void reset_signals(void)
{
    for (int s = 1; s <= SIGRTMAX; s++)
        signal(s, SIG_DFL); /* the two that the C library keeps for itself refuse, rightly */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* One attempt; returns why it failed. The clocks start here. */
static int exec_file(stk__launch_shared *shared, const job *j, const char *path)
{
    getrusage(RUSAGE_SELF, &shared->begin);
    shared->begin_ns = stk__now_ns();
    execve(path, j->argv, j->envp);
    if (errno != ENOEXEC)
        return errno;
    /* A script without #!: for sh, as shells have it. */
    char shell[] = "/bin/sh", copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    j->argv[-1] = shell;
    j->argv[0] = copy;
    execve(shell, j->argv - 1, j->envp);
    return errno;
}

/*
 * As execvp, but with the PATH that the command will have, and a directory that may not be read is no reason to say
 * "permission denied" of a command that is not there.
 */
static int exec_by_path(stk__launch_shared *shared, const job *j)
{
    const char *name = j->argv[0], *path = "/usr/local/bin:/usr/bin:/bin";
    if (strchr(name, '/') || !*name)
        return *name ? exec_file(shared, j, name) : ENOENT;
    for (char **e = j->envp; *e; e++)
        if (strncmp(*e, "PATH=", 5) == 0)
            path = *e + 5;
    int result = ENOENT;
    for (;; path++) {
        const size_t length = strcspn(path, ":");
        char file[PATH_MAX];
        if (snprintf(file, sizeof file, "%.*s%s%s", (int)length, path, length ? "/" : "", name) < (int)sizeof file) {
            const int error = exec_file(shared, j, file);
            if (error == EACCES && access(file, F_OK) == 0)
                result = error;
            else if (error != ENOENT && error != ENOTDIR && error != EACCES && error != ELOOP && error != ENAMETOOLONG)
                return error;
        }
        path += length;
        if (!*path)
            return result;
    }
}

/* The counter is opened by the launcher, which knows the process only after the fork. */
static void await_counter(const job *j)
{
    char byte;
    if (j->gate[0] < 0)
        return;
    close(j->gate[1]);
    while (read(j->gate[0], &byte, 1) < 0 && errno == EINTR) {
    }
    close(j->gate[0]);
}

static _Noreturn void become_command(const launcher *l, const job *j)
{
    stk__launch_shared *shared = l->shared;
    /* A session of its own: killed as a whole, out of reach of the terminal's Ctrl-C, and no terminal to wait for. */
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->self)
        stk__launch_leave(127);
    await_counter(j);
    if (j->ask.fixed)
        personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE); /* refused: counts vary a little */
    for (int i = 0; i < 3; i++)
        if (dup2(j->fds[STK__FD_INPUT + i], i) < 0)
            fail(shared, errno, false, "take its files");
    if (fchdir(j->fds[STK__FD_DIRECTORY]))
        fail(shared, errno, false, "start in that directory");
    char script[32];
    if (j->fds[STK__FD_SCRIPT] >= 0) {
        const int fd = dup(j->fds[STK__FD_SCRIPT]); /* without close-on-exec */
        if (fd < 0)
            fail(shared, errno, false, "pass on its script");
        snprintf(script, sizeof script, "/proc/self/fd/%d", fd);
        j->argv[j->ask.words - 1] = script;
    }
    reset_signals();
    const char *what = "";
    const int error = stk__limits_enter(&shared->limits, &what);
    if (error)
        fail(shared, error, false, what);
    fail(shared, exec_by_path(shared, j), true, "");
}

/* ---- watching ---- */

typedef struct watch {
    pid_t pid;
    int status;
    int64_t end_ns;
    struct rusage usage;   /* of the command and what it waited for */
    struct rusage orphans; /* of processes whose parents ended before them during the run */
    bool timed_out, cancelled;
    bool ending; /* SIGTERM was sent */
    int64_t deadline_ns;
} watch;

static void add_time(struct timeval *sum, const struct timeval *x)
{
    timeradd(sum, x, sum);
}

static void add_usage(struct rusage *sum, const struct rusage *x)
{
    add_time(&sum->ru_utime, &x->ru_utime);
    add_time(&sum->ru_stime, &x->ru_stime);
    sum->ru_maxrss = STK_MAX(sum->ru_maxrss, x->ru_maxrss);
    sum->ru_minflt += x->ru_minflt;
    sum->ru_majflt += x->ru_majflt;
    sum->ru_nvcsw += x->ru_nvcsw;
    sum->ru_nivcsw += x->ru_nivcsw;
}

static void drain_signals(int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) > 0) {
    }
}

/* Reaps all that ended; true when the command is among them. */
static bool reap(watch *w)
{
    siginfo_t info;
    for (;;) {
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
            return false;
        if (info.si_pid == w->pid) {
            w->end_ns = stk__now_ns(); /* not before we knew: it may have ended since we woke up for something else */
            return wait4(w->pid, &w->status, 0, &w->usage) == w->pid;
        }
        struct rusage usage;
        const bool of_run = getsid(info.si_pid) == w->pid;
        if (wait4(info.si_pid, NULL, 0, &usage) > 0 && of_run)
            add_usage(&w->orphans, &usage);
    }
}

/* The program said something during a run: stop, or, by closing the socket, that it is gone. */
static void hear(launcher *l, const job *j, watch *w)
{
    stk__launch_request ask;
    if (!stk__launch_receive(l->socket, &ask, sizeof ask))
        l->alone = true;
    else if (ask.kind != STK__ASK_CANCEL || ask.serial != j->ask.serial)
        return;
    if (!w->ending) {
        w->cancelled = true;
        w->deadline_ns = 0;
    }
}

static int poll_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return -1;
    const int64_t left = deadline_ns - stk__now_ns();
    return left <= 0 ? 0 : (int)STK_MIN((left + 999999) / 1000000, 60000);
}

/* Waits for the end of the command, which may have to be brought about. */
static void watch_command(launcher *l, const job *j, watch *w)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = l->signals, .events = POLLIN},
                                {.fd = l->alone ? -1 : l->socket, .events = POLLIN}};
        poll(fds, 2, poll_ms(w->deadline_ns));
        w->end_ns = stk__now_ns();
        if (reap(w))
            return;
        drain_signals(l->signals);
        if (reap(w)) /* one that ended between the two gave a signal that was drained */
            return;
        if (fds[1].revents)
            hear(l, j, w);
        if (w->end_ns < w->deadline_ns)
            continue;
        if (!w->ending) {
            w->timed_out = !w->cancelled;
            stk__session_signal(w->pid, true, SIGTERM);
            w->deadline_ns = w->end_ns + GRACE_NS;
            w->ending = true;
        } else {
            stk__session_signal(w->pid, true, SIGKILL);
            w->deadline_ns = w->end_ns + GRACE_NS; /* again, for what it may fork meanwhile */
        }
    }
}

/* ---- measuring ---- */

typedef struct surroundings {
    bool has_ticks;
    stk__machine_ticks ticks;
    int64_t at_ns, pressure_us[3];
    int64_t kills, failures;
} surroundings;

static void look_around(const stk__limit_set *limits, surroundings *out)
{
    static const char *const resources[] = {"cpu", "io", "memory"};
    out->has_ticks = stk__machine_ticks_now(&out->ticks);
    for (size_t i = 0; i < STK_COUNT(resources); i++)
        out->pressure_us[i] = stk__machine_pressure_us(resources[i]);
    out->at_ns = stk__now_ns();
    out->kills = limits->limits.memory_bytes ? stk__limits_kills(limits) : -1;
    out->failures = limits->limits.memory_bytes ? stk__limits_failures(limits) : -1;
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

static double share(double part, double whole)
{
    return whole > 0 ? fmin(fmax(part / whole, 0), 1) : NAN;
}

static void measure(const stk__launch_shared *shared, const watch *w, const surroundings *before,
                    const surroundings *after, double *m)
{
    struct rusage u = w->usage;
    add_usage(&u, &w->orphans);
    const struct rusage *own = &shared->begin; /* what our side spent before exec is not the command's */
    m[STK__WALL] = (double)(w->end_ns - shared->begin_ns) * 1e-9;
    m[STK__USER] = fmax(seconds(&u.ru_utime) - seconds(&own->ru_utime), 0);
    m[STK__SYSTEM] = fmax(seconds(&u.ru_stime) - seconds(&own->ru_stime), 0);
    m[STK__CPU] = m[STK__USER] + m[STK__SYSTEM];
    m[STK__RSS] = (double)u.ru_maxrss * 1024;
    m[STK__MINOR_FAULTS] = (double)(u.ru_minflt - own->ru_minflt);
    m[STK__MAJOR_FAULTS] = (double)(u.ru_majflt - own->ru_majflt);
    m[STK__SWITCHES] = (double)(u.ru_nvcsw - own->ru_nvcsw);
    m[STK__PREEMPTIONS] = (double)(u.ru_nivcsw - own->ru_nivcsw);
    m[STK__STEAL] = NAN;
    if (before->has_ticks && after->has_ticks)
        m[STK__STEAL] = share(after->ticks.steal_s - before->ticks.steal_s,
                              (double)(after->ticks.at_ns - before->ticks.at_ns) * 1e-9 * after->ticks.cpus);
    for (int i = 0; i < 3; i++) {
        const bool known = before->pressure_us[i] >= 0 && after->pressure_us[i] >= 0;
        m[STK__PRESSURE_CPU + i] = known ? share((double)(after->pressure_us[i] - before->pressure_us[i]) * 1e3,
                                                 (double)(after->at_ns - before->at_ns))
                                         : NAN;
    }
}

static bool ran_out_of_memory(const surroundings *before, const surroundings *after, int status)
{
    if (before->kills >= 0)
        return after->kills > before->kills;
    return after->failures > before->failures && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* ---- requests ---- */

static void refuse(stk__launch_reply *r, stk_status status, const char *format, ...) STK_PRINTF(3, 4);
static void refuse(stk__launch_reply *r, stk_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof r->message, format, args);
    va_end(args);
    r->status = status;
}

static bool use_limits(launcher *l, const stk__limits *wanted, stk__launch_reply *r)
{
    stk__limit_set *set = &l->shared->limits;
    if (set->limits.cpus == wanted->cpus && set->limits.memory_bytes == wanted->memory_bytes)
        return true;
    stk__limits_remove(set);
    char name[64];
    snprintf(name, sizeof name, "stoker-bench-%ld", (long)l->self);
    stk_error err = {0};
    const stk_status status = stk__limits_make("", name, wanted, true, set, &err);
    if (status != STK_OK)
        refuse(r, status, "%s", err.message);
    return status == STK_OK;
}

/* Lets the child go on, with its counter or without. Returns the descriptor, or -1 with the reason in `out`. */
static int start_counter(const launcher *l, job *j, pid_t pid, stk__count *out)
{
    const stk__counter_calls *calls = l->shared->counters ? l->shared->counters : &stk__counter_kernel;
    if (j->gate[0] < 0)
        return -1;
    const int fd = stk__counter_open(calls, j->ask.count, pid);
    *out = (stk__count){NAN, 0, fd < 0 ? errno : 0};
    close_gate(j);
    return fd;
}

static void end_counter(const launcher *l, int fd, stk__launch_reply *r)
{
    const stk__counter_calls *calls = l->shared->counters ? l->shared->counters : &stk__counter_kernel;
    if (fd >= 0)
        r->count = stk__counter_close(calls, fd);
}

static void run_command(launcher *l, job *j, stk__launch_reply *r)
{
    stk__launch_shared *shared = l->shared;
    if (!use_limits(l, &j->ask.limits, r))
        return;
    r->count = (stk__count){NAN, 0, 0};
    if (j->ask.count && pipe2(j->gate, O_CLOEXEC)) {
        refuse(r, STK_IO, "cannot make a pipe: %s", strerror(errno));
        return;
    }
    surroundings before, after;
    shared->error = 0;
    drain_signals(l->signals); /* of the run before, which would wake us for nothing */
    look_around(&shared->limits, &before);
    shared->begin_ns = stk__now_ns();
    memset(&shared->begin, 0, sizeof shared->begin);
    watch w = {.pid = fork()};
    if (w.pid == 0)
        become_command(l, j);
    if (w.pid < 0) {
        refuse(r, STK_IO, "cannot fork: %s", strerror(errno));
        return;
    }
    atomic_store(&shared->running, w.pid);
    const int counter = start_counter(l, j, w.pid, &r->count);
    w.deadline_ns = j->ask.timeout_ns > 0 ? stk__now_ns() + j->ask.timeout_ns : INT64_MAX;
    watch_command(l, j, &w);
    look_around(&shared->limits, &after);
    end_counter(l, counter, r);
    r->left_behind = stk__session_end(w.pid, !w.ending);
    atomic_store(&shared->running, 0);
    if (shared->error && !shared->at_exec) {
        refuse(r, STK_IO, "the command could not %s: %s", shared->what, strerror(shared->error));
        return;
    }
    r->wait_status = w.status;
    r->timed_out = w.timed_out;
    r->exec_error = shared->error;
    r->out_of_memory = ran_out_of_memory(&before, &after, w.status);
    measure(shared, &w, &before, &after, r->measures);
    r->measures[STK__INSTRUCTIONS] = r->count.value;
}

/* False when the program is gone. */
static bool serve_one(launcher *l)
{
    job j = {.fds = {-1, -1, -1, -1, -1}, .gate = {-1, -1}};
    stk__launch_reply r = {0};
    if (!receive_request(l->socket, &j))
        return false;
    r.serial = j.ask.serial;
    bool good = true;
    if (j.ask.kind == STK__ASK_LIMITS) {
        use_limits(l, &j.ask.limits, &r);
    } else if (j.ask.kind == STK__ASK_RUN) {
        j.body = stk__alloc(j.ask.body_bytes);
        good = j.body && stk__launch_receive(l->socket, j.body, j.ask.body_bytes);
        if (good && build_arrays(&j))
            run_command(l, &j, &r);
        else
            refuse(&r, STK_NOMEM, "the launcher is out of memory");
    }
    job_clear(&j);
    if (j.ask.kind == STK__ASK_CANCEL) /* of a run that is over */
        return true;
    return good && !l->alone && stk__launch_send(l->socket, &r, sizeof r);
}

/* Only our socket and standard error stay: files of the program must not be kept open by us. */
static void close_others(int keep)
{
    for (int i = 0; i < 3; i++) {
        const int null = i == STDERR_FILENO && fcntl(i, F_GETFD) >= 0 ? -1 : open("/dev/null", O_RDWR);
        if (null >= 0 && null != i) {
            dup2(null, i);
            close(null);
        }
    }
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        const long fd = strtol(e->d_name, NULL, 10);
        if (fd > 2 && fd != keep && fd != dirfd(dir))
            close((int)fd);
    }
    closedir(dir);
}

_Noreturn void stk__launch_serve(int socket, stk__launch_shared *shared)
{
    static const int ignored[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};
    launcher l = {.self = getpid(), .shared = shared, .socket = fcntl(socket, F_DUPFD_CLOEXEC, 3)};
    if (l.socket < 0)
        stk__launch_leave(1);
    setsid();
    prctl(PR_SET_NAME, "stoker-launcher");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close_others(l.socket);
    for (int s = 1; s <= SIGRTMAX; s++)
        signal(s, SIG_DFL);
    for (size_t i = 0; i < STK_COUNT(ignored); i++)
        signal(ignored[i], SIG_IGN);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &child, NULL);
    l.signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    while (l.signals >= 0 && serve_one(&l)) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    stk__limits_remove(&shared->limits);
    stk__launch_leave(0);
}
