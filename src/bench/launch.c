/* The program's side of the launcher: sends a command, waits, reads what it printed. */
#define _GNU_SOURCE
#include "bench/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench/command.h"
#include "bench/launch_wire.h"

#include "base/banned.h"

enum {
    OUTPUT_END = 64 << 10,
    ERROR_END = 4 << 10,
    HASH_PIECE = 64 << 10,
    STOP_WAIT_MS = 5000,
    SHELL_TEXT_MAX = 100 << 10 /* the kernel takes 128 KiB in one argument */
};

struct stk__launcher {
    pid_t pid; /* 0: it has ended, and `fate` says how */
    int socket;
    int alarm[2]; /* written by stk__launcher_interrupt, read while waiting */
    uint32_t serial;
    stk__launch_shared *shared;
    char fate[96];
};

/* ---- start and stop ---- */

static stk_status system_error(stk_error *err, const char *what)
{
    return stk_error_set(err, STK_IO, "cannot %s: %s", what, strerror(errno));
}

static void close_both(int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

static void launcher_free(stk__launcher *l)
{
    if (l->shared)
        munmap(l->shared, sizeof *l->shared);
    if (l->socket >= 0)
        close(l->socket);
    close_both(l->alarm);
    stk__free(l);
}

static stk_status prepare(stk__launcher *l, int ends[2], stk_error *err)
{
    void *shared = mmap(NULL, sizeof *l->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return system_error(err, "share memory with the launcher");
    l->shared = shared;
    if (pipe2(l->alarm, O_CLOEXEC | O_NONBLOCK))
        return system_error(err, "make a pipe for the launcher");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return system_error(err, "make a socket for the launcher");
    return STK_OK;
}

stk_status stk__launcher_start(stk__launcher **out, stk_error *err)
{
    stk__launcher *l = stk__calloc(1, sizeof *l);
    if (!l)
        return stk__nomem(sizeof *l, err);
    int ends[2] = {-1, -1};
    l->socket = l->alarm[0] = l->alarm[1] = -1;
    stk_status status = prepare(l, ends, err);
    if (status == STK_OK) {
        /* No handler of ours may run in the launcher. */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        l->pid = fork();
        if (l->pid == 0)
            stk__launch_serve(ends[1], l->shared);
        if (l->pid < 0)
            status = system_error(err, "fork the launcher");
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (status != STK_OK) {
        close_both(ends);
        launcher_free(l);
        return status;
    }
    close(ends[1]);
    l->socket = ends[0];
    *out = l;
    return STK_OK;
}

/* The launcher process has ended or must: reaps it, and does what it can no longer do. */
static void bury(stk__launcher *l)
{
    if (!l->pid)
        return;
    int status = 0;
    kill(l->pid, SIGKILL);
    pid_t got;
    while ((got = waitpid(l->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (got > 0 && WIFSIGNALED(status))
        snprintf(l->fate, sizeof l->fate, "killed by signal %d", WTERMSIG(status));
    else if (got > 0)
        snprintf(l->fate, sizeof l->fate, "ended with exit code %d", WEXITSTATUS(status));
    else
        snprintf(l->fate, sizeof l->fate, "ended");
    l->pid = 0;
    const pid_t group = atomic_exchange(&l->shared->running, 0);
    if (group > 1)
        kill(-group, SIGKILL);
    stk__limits_remove(&l->shared->limits);
}

void stk__launcher_stop(stk__launcher *l)
{
    if (!l)
        return;
    if (l->pid) {
        /* It sees the end of the socket, ends what runs, removes its cgroups, and closes its side. */
        shutdown(l->socket, SHUT_WR);
        const int64_t until = stk__now_ns() + STOP_WAIT_MS * INT64_C(1000000);
        char rest[256];
        for (;;) {
            struct pollfd fd = {.fd = l->socket, .events = POLLIN};
            const int64_t left = until - stk__now_ns();
            if (left <= 0 ||
                (poll(&fd, 1, (int)(left / 1000000) + 1) > 0 && recv(l->socket, rest, sizeof rest, 0) <= 0))
                break;
        }
        bury(l);
    }
    launcher_free(l);
}

void stk__launcher_interrupt(stk__launcher *l)
{
    const int before = errno;
    if (l) {
        const ssize_t written = write(l->alarm[1], "", 1); /* full: it has been told often enough */
        (void)written;
    }
    errno = before;
}

void stk__launcher_counters(stk__launcher *l, const stk__counter_calls *calls)
{
    l->shared->counters = calls;
}

/* ---- talking to it ---- */

static stk_status lost(stk__launcher *l, stk_error *err)
{
    bury(l);
    return stk_error_set(err, STK_IO, "the process that starts commands is gone (%s)", l->fate);
}

static bool send_request(const stk__launcher *l, const stk__launch_request *ask, const int *fds, const char *body)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * STK__FDS)];
        struct cmsghdr align;
    } control = {0};
    struct iovec data = {.iov_base = (void *)(uintptr_t)ask, .iov_len = sizeof *ask};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (ask->fds) {
        const size_t size = sizeof(int) * ask->fds;
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(c), fds, size);
    }
    ssize_t n;
    while ((n = sendmsg(l->socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    return n > 0 && stk__launch_send(l->socket, (const char *)ask + n, sizeof *ask - (size_t)n) &&
           stk__launch_send(l->socket, body, ask->body_bytes);
}

/* Takes what interrupts have written; true when there was any. */
static bool drain_alarm(const stk__launcher *l)
{
    char bytes[64];
    bool any = false;
    while (read(l->alarm[0], bytes, sizeof bytes) > 0)
        any = true;
    return any;
}

/* Waits for the reply; an interrupt is passed on, once. */
static stk_status await_reply(stk__launcher *l, uint32_t serial, stk__launch_reply *reply, bool *out_interrupted,
                              stk_error *err)
{
    bool interrupted = false;
    for (;;) {
        struct pollfd fds[2] = {{.fd = l->socket, .events = POLLIN}, {.fd = l->alarm[0], .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents && drain_alarm(l) && !interrupted) {
            const stk__launch_request stop = {.kind = STK__ASK_CANCEL, .serial = serial};
            interrupted = true;
            if (!send_request(l, &stop, NULL, NULL))
                return lost(l, err);
        }
        if (!fds[0].revents)
            continue;
        if (!stk__launch_receive(l->socket, reply, sizeof *reply) || reply->serial != serial)
            return lost(l, err);
        *out_interrupted = interrupted;
        return STK_OK;
    }
}

static stk_status ask_launcher(stk__launcher *l, stk__launch_request *ask, const int *fds, const char *body,
                               stk__launch_reply *reply, stk_error *err)
{
    if (!l->pid)
        return lost(l, err);
    bool interrupted = false;
    ask->serial = ++l->serial;
    drain_alarm(l);
    if (!send_request(l, ask, fds, body))
        return lost(l, err);
    STK_TRY(await_reply(l, ask->serial, reply, &interrupted, err));
    if (interrupted)
        return stk_error_set(err, STK_CANCELLED, "interrupted");
    if (reply->status != STK_OK)
        return stk_error_set(err, reply->status, "%s", reply->message);
    return STK_OK;
}

/* ---- files of a run ---- */

/* A file without a name. Not in memory: that would count for the command's memory limit. */
static stk_status open_temporary(int *out, stk_error *err)
{
    static const char *const directories[] = {"/tmp", "/var/tmp", "."};
    for (size_t i = 0; i < STK_COUNT(directories); i++) {
        int fd = open(directories[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0) {
            char path[64];
            snprintf(path, sizeof path, "%s/stoker-XXXXXX", directories[i]);
            fd = mkostemp(path, O_CLOEXEC);
            if (fd >= 0)
                unlink(path);
        }
        if (fd >= 0) {
            *out = fd;
            return STK_OK;
        }
    }
    return system_error(err, "make a temporary file in /tmp, /var/tmp or here");
}

static stk_status open_path(const char *path, int flags, const char *what, int *out, stk_error *err)
{
    *out = open(path, flags | O_CLOEXEC, 0666);
    if (*out >= 0)
        return STK_OK;
    const int code = errno;
    if (err)
        stk_error_clear(err);
    stk_error_set(err, STK_IO, "cannot %s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

static stk_status open_output(stk__output output, int own, int *out, stk_error *err)
{
    if (output == STK__OUTPUT_SHOW && (*out = fcntl(own, F_DUPFD_CLOEXEC, 3)) >= 0)
        return STK_OK;
    if (output == STK__OUTPUT_KEEP || own == STDERR_FILENO)
        return open_temporary(out, err);
    return open_path("/dev/null", O_WRONLY, "open", out, err);
}

static stk_status open_files(const stk__launch *launch, int fds[STK__FDS], stk_error *err)
{
    STK_TRY(open_path(launch->input ? launch->input : "/dev/null", O_RDONLY, "read the input of the command",
                      &fds[STK__FD_INPUT], err));
    if (launch->output == STK__OUTPUT_KEEP && launch->output_path)
        STK_TRY(open_path(launch->output_path, O_RDWR | O_CREAT | O_TRUNC, "keep the output of the command",
                          &fds[STK__FD_OUTPUT], err));
    else
        STK_TRY(open_output(launch->output, STDOUT_FILENO, &fds[STK__FD_OUTPUT], err));
    STK_TRY(open_output(launch->output, STDERR_FILENO, &fds[STK__FD_ERROR], err));
    return open_path(launch->directory ? launch->directory : ".", O_PATH | O_DIRECTORY,
                     "start a command in this directory", &fds[STK__FD_DIRECTORY], err);
}

/* A command that is too long for an argument: sh reads it from a file. */
static stk_status write_script(const char *command, int *out, stk_error *err)
{
    STK_TRY(open_temporary(out, err));
    for (size_t done = 0, size = strlen(command); done < size;) {
        const ssize_t n = pwrite(*out, command + done, size - done, (off_t)done);
        if (n < 0 && errno != EINTR)
            return system_error(err, "write the command for sh to a temporary file");
        done += n > 0 ? (size_t)n : 0;
    }
    return STK_OK;
}

/* ---- what was printed ---- */

static stk_status hash_file(int fd, uint64_t size, uint64_t *out, stk_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    char *piece = stk__alloc(HASH_PIECE);
    stk_status status = state && piece ? STK_OK : stk__nomem(HASH_PIECE, err);
    if (status == STK_OK)
        XXH3_64bits_reset(state);
    for (uint64_t at = 0; status == STK_OK && at < size;) {
        const size_t want = (size_t)STK_MIN(size - at, (uint64_t)HASH_PIECE);
        status = stk__pread_full(fd, piece, want, (int64_t)at, "output of the command", err);
        if (status == STK_OK)
            XXH3_64bits_update(state, piece, want);
        at += want;
    }
    if (status == STK_OK)
        *out = XXH3_64bits_digest(state);
    stk__free(piece);
    XXH3_freeState(state);
    return status;
}

/* The last `most` bytes of a file that has `size`, NUL-terminated. */
static stk_status read_end(int fd, uint64_t size, size_t most, char **out, size_t *out_size, stk_error *err)
{
    const size_t want = (size_t)STK_MIN(size, (uint64_t)most);
    char *text = stk__alloc(want + 1);
    if (!text)
        return stk__nomem(want + 1, err);
    const stk_status status = stk__pread_full(fd, text, want, (int64_t)(size - want), "output of the command", err);
    if (status != STK_OK) {
        stk__free(text);
        return status;
    }
    text[want] = 0;
    *out = text;
    *out_size = want;
    return STK_OK;
}

static stk_status file_size(int fd, uint64_t *out, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return system_error(err, "tell the size of a command's output");
    *out = (uint64_t)st.st_size;
    return STK_OK;
}

static stk_status collect_output(int fd, stk__outcome *o, stk_error *err)
{
    STK_TRY(file_size(fd, &o->output_bytes, err));
    STK_TRY(hash_file(fd, o->output_bytes, &o->output_hash, err));
    return read_end(fd, o->output_bytes, OUTPUT_END, &o->output_end, &o->output_end_size, err);
}

/* As a C string: NUL bytes become blanks, and half a character at the cut goes. */
static stk_status collect_errors(int fd, stk__outcome *o, stk_error *err)
{
    uint64_t size = 0;
    size_t length = 0;
    STK_TRY(file_size(fd, &size, err));
    STK_TRY(read_end(fd, size, ERROR_END, &o->error_end, &length, err));
    for (size_t i = 0; i < length; i++)
        if (!o->error_end[i])
            o->error_end[i] = ' ';
    size_t skip = 0;
    while (size > ERROR_END && skip < 3 && ((unsigned char)o->error_end[skip] & 0xc0) == 0x80)
        skip++;
    memmove(o->error_end, o->error_end + skip, length - skip + 1);
    return STK_OK;
}

static stk_status set_error_end(stk__outcome *o, const char *program, int code, stk_error *err)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_printf(&text, "cannot run '%.200s': %s", program, strerror(code));
    if (text.failed) {
        stk__text_clear(&text);
        return stk__nomem(256, err);
    }
    stk__free(o->error_end);
    o->error_end = text.data;
    return STK_OK;
}

/* Under RLIMIT_AS nobody kills: allocations fail, and what is left is what programs say then. */
static bool tells_of_memory(const char *text)
{
    static const char *const phrases[] = {
        "cannot allocate memory", "memoryerror",           "bad_alloc", "out of memory", "memory exhausted",
        "outofmemoryerror",       "failed to map segment",
    };
    for (size_t i = 0; i < STK_COUNT(phrases); i++)
        if (strcasestr(text, phrases[i]))
            return true;
    return false;
}

/* ---- a run ---- */

static stk_status fill_outcome(const stk__launcher *l, const stk__launch *launch, const stk__launch_reply *reply,
                               const int *fds, const char *program, stk__outcome *o, stk_error *err)
{
    const bool exited = WIFEXITED(reply->wait_status);
    o->exit_code = exited ? WEXITSTATUS(reply->wait_status) : -1;
    o->signal = exited ? 0 : WTERMSIG(reply->wait_status);
    o->timed_out = reply->timed_out;
    o->out_of_memory = reply->out_of_memory;
    o->left_behind = (size_t)reply->left_behind;
    memcpy(o->measures, reply->measures, sizeof o->measures);
    o->count = reply->count;
    if (launch->output == STK__OUTPUT_KEEP)
        STK_TRY(collect_output(fds[STK__FD_OUTPUT], o, err));
    if (launch->output == STK__OUTPUT_SHOW) {
        o->error_end = stk__strdup("");
        if (!o->error_end)
            return stk__nomem(1, err);
    } else {
        STK_TRY(collect_errors(fds[STK__FD_ERROR], o, err));
    }
    if (reply->exec_error) {
        o->not_started = true;
        o->exit_code = reply->exec_error == ENOENT || reply->exec_error == ENOTDIR ? 127 : 126;
        STK_TRY(set_error_end(o, program, reply->exec_error, err));
    }
    if (l->shared->limits.address_limit && !o->timed_out && (o->exit_code || o->signal) &&
        (tells_of_memory(o->error_end) || reply->exec_error == ENOMEM))
        o->out_of_memory = o->memory_guessed = true;
    return STK_OK;
}

/* Words and environment, one after the other. */
static stk_status build_body(const stk__launch *launch, const stk__command *command, stk__launch_request *ask,
                             stk__text *body, stk_error *err)
{
    const bool script = command->shell && strlen(launch->command) > SHELL_TEXT_MAX;
    for (const char *const *w = launch->wrapper; w && *w; w++, ask->words++)
        stk__text_write(body, *w, strlen(*w) + 1);
    if (command->shell) {
        static const char shell[] = "/bin/sh\0-c";
        stk__text_write(body, shell, script ? sizeof "/bin/sh" : sizeof shell);
        if (launch->command[0] == '-' && !script)
            stk__text_putc(body, ' '); /* else sh takes it for options */
        stk__text_write(body, launch->command, script ? 0 : strlen(launch->command));
        stk__text_putc(body, 0);
        ask->words += script ? 2 : 3;
    } else {
        stk__text_write(body, command->words.data, command->words.length);
        ask->words += (uint32_t)command->count;
    }
    for (const char *const *e = launch->environment; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        if (!equals || equals == *e)
            return stk_error_set(err, STK_INVALID, "environment: found '%.100s', wanted NAME=value", *e);
        stk__text_write(body, *e, strlen(*e) + 1);
        ask->environment++;
    }
    ask->body_bytes = body->length;
    ask->fds = script ? STK__FDS : STK__FD_SCRIPT;
    return body->failed ? stk__nomem(body->length, err) : STK_OK;
}

static stk_status run_split(stk__launcher *l, const stk__launch *launch, const stk__command *command, stk__outcome *out,
                            stk_error *err)
{
    stk__launch_request ask = {.kind = STK__ASK_RUN,
                               .timeout_ns = launch->timeout_ns,
                               .limits = launch->limits,
                               .count = launch->count,
                               .fixed = launch->fixed};
    stk__launch_reply reply;
    stk__outcome o = {.through_shell = command->shell};
    stk__text body = STK__TEXT_INIT;
    int fds[STK__FDS] = {-1, -1, -1, -1, -1};
    stk_status status = build_body(launch, command, &ask, &body, err);
    if (status == STK_OK)
        status = open_files(launch, fds, err);
    if (status == STK_OK && ask.fds == STK__FDS)
        status = write_script(launch->command, &fds[STK__FD_SCRIPT], err);
    if (status == STK_OK)
        status = ask_launcher(l, &ask, fds, body.data, &reply, err);
    if (status == STK_OK)
        status = fill_outcome(l, launch, &reply, fds, body.data, &o, err);
    if (status == STK_OK)
        *out = o;
    else
        stk__outcome_clear(&o);
    for (size_t i = 0; i < STK__FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    stk__text_clear(&body);
    return status;
}

stk_status stk__launcher_run(stk__launcher *l, const stk__launch *launch, stk__outcome *out, stk_error *err)
{
    stk__command command;
    STK_TRY(stk__command_split(launch->command, &command, err));
    const stk_status status = run_split(l, launch, &command, out, err);
    stk__command_clear(&command);
    return status;
}

void stk__outcome_clear(stk__outcome *o)
{
    stk__free(o->output_end);
    stk__free(o->error_end);
    *o = (stk__outcome){0};
}

void stk__outcome_text(const stk__outcome *o, const stk__launch *launch, stk__text *out)
{
    if (o->timed_out) {
        stk__text_printf(out, "took longer than %g s", (double)launch->timeout_ns * 1e-9);
        if (!o->out_of_memory)
            return;
        stk__text_puts(out, ", ");
    }
    if (o->out_of_memory) {
        stk__text_printf(out, "%sout of memory (limit ", o->memory_guessed ? "probably " : "");
        stk__text_bytes(out, launch->limits.memory_bytes);
        stk__text_printf(out, "%s)", o->memory_guessed ? " per process" : "");
        if (o->timed_out || o->signal == SIGKILL || !(o->exit_code || o->signal))
            return;
        stk__text_puts(out, ", ");
    }
    if (o->signal)
        stk__text_printf(out, "killed by signal %d (%s)", o->signal, strsignal(o->signal));
    else if (o->exit_code)
        stk__text_printf(out, "exit code %d", o->exit_code);
}

stk_status stk__limits_describe(stk__launcher *l, const stk__limits *limits, stk__text *out, stk__text *out_note,
                                stk_error *err)
{
    stk__launch_request ask = {.kind = STK__ASK_LIMITS, .limits = *limits};
    stk__launch_reply reply;
    STK_TRY(ask_launcher(l, &ask, NULL, NULL, &reply, err));
    stk__limits_text(&l->shared->limits, out, out_note);
    return STK_OK;
}
