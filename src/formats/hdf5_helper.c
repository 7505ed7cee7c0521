/* The child process that calls libhdf5: found, started, asked, and ended when it does not behave. */
#define _GNU_SOURCE /* dladdr1, SOCK_CLOEXEC */
#include "formats/hdf5_helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/wire.h"
#include "formats/hdf5_wire.h"
#include "formats/data_file.h"

#include "base/banned.h"

#ifndef STK_LIBEXECDIR
#define STK_LIBEXECDIR "/usr/local/libexec"
#endif

enum {
    PATH_BYTES = 4096,
    PARENTS = 3,             /* how far above our own directory libexec/ may lie */
    FRAME_BYTES = 8,         /* the size before each message */
    FIRST_BYTES = 256 << 10, /* read at first whatever size is announced; doubles with what arrives */
    KILLED_TRIES_MAX = 4,    /* of one request, where the kernel or a person kills its helper */
    LOOK_MS = 100,           /* a wait looks this often whether it is still wanted */
    DEATH_MS = 1000          /* a helper that closed its output has this long to end by itself, so that we learn why */
};

/*
 * The helper of one process. A fork copies this with its lock in any state and with the parent's child; the new process
 * leaves it alone and makes one of its own, in front of it.
 */
typedef struct session {
    struct session *older;
    pid_t owner;   /* const: the process that this belongs to */
    atomic_int fd; /* our end of the socket that is the child's standard input and output; -1: no child */
    pthread_mutex_t lock;
    /* guarded by lock */
    pid_t child;
    bool killed;  /* the last one, by us */
    bool outside; /* the last one, by somebody else */
} session;

struct stk__h5_helper {
    _Atomic(session *) session; /* NULL: nothing was asked yet */
    char *program;              /* set before start, then const; NULL: searched for */
    bool remembers;             /* likewise: what the child was told before matters */
};

/* ---- finding the program ---- */

/* The path of the object that holds this code: the shared library, or the program that it is linked into. */
static bool own_object(char out[PATH_BYTES])
{
    static const char here = 0;
    Dl_info info;
    struct link_map *map = NULL;
    /* The main program has no name here; its own idea of it may be a word that was looked up in PATH. */
    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name && map->l_name[0])
        return realpath(map->l_name, out) != NULL;
    return realpath("/proc/self/exe", out) != NULL;
}

/* Why a file is not taken for the helper; NULL: it is. Nobody whom we do not trust already may be able to change it. */
static const char *distrust(const char *path, const struct stat *own)
{
    struct stat st;
    if (stat(path, &st))
        return errno == ENOENT || errno == ENOTDIR ? "not there" : strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    /* A group that our own file belongs to as well is no stranger: people build with umask 002. */
    if ((st.st_mode & S_IWOTH) || ((st.st_mode & S_IWGRP) && st.st_gid != own->st_gid))
        return "writable by others";
    if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != own->st_uid)
        return "owned by somebody else";
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? "not executable" : NULL;
}

static bool try_place(const char *path, const struct stat *own, stk__text *tried)
{
    const char *why = distrust(path, own);
    if (why)
        stk__text_printf(tried, "%s%s (%s)", tried->length ? ", " : "", path, why);
    return !why;
}

/* The directory that holds `path`, in place; false at the root. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || (slash == path && !path[1]))
        return false;
    slash[slash == path] = 0;
    return true;
}

/* Looks beside our own object, in libexec/ there and above, and where the build was told to install. */
static bool find_place(stk__text *tried, char out[PATH_BYTES])
{
    char dir[PATH_BYTES];
    struct stat own;
    bool more = own_object(dir) && stat(dir, &own) == 0 && go_up(dir);
    if (!more)
        own.st_uid = geteuid();
    if (more && snprintf(out, PATH_BYTES, "%s/%s", dir, STK__H5_HELPER_NAME) < PATH_BYTES &&
        try_place(out, &own, tried))
        return true;
    for (int i = 0; more && i <= PARENTS; i++, more = go_up(dir)) {
        const char *root = strcmp(dir, "/") == 0 ? "" : dir;
        if (snprintf(out, PATH_BYTES, "%s/libexec/%s", root, STK__H5_HELPER_NAME) < PATH_BYTES &&
            try_place(out, &own, tried))
            return true;
    }
    return snprintf(out, PATH_BYTES, "%s/%s", STK_LIBEXECDIR, STK__H5_HELPER_NAME) < PATH_BYTES &&
           try_place(out, &own, tried);
}

stk_status stk__h5_helper_find(char **out, stk_error *err)
{
    char path[PATH_BYTES], places[400];
    stk__text tried;
    stk__text_fixed(&tried, places, sizeof places);
    if (!find_place(&tried, path))
        return stk_error_set(err, STK_IO, "cannot find the program " STK__H5_HELPER_NAME ", which reads HDF5; tried %s",
                             places);
    *out = stk__strdup(path);
    return *out ? STK_OK : stk__nomem(strlen(path) + 1, err);
}

/* ---- starting and ending ---- */

static stk_status system_error(stk_error *err, const char *what, int code)
{
    return stk_error_set(err, STK_IO, "%s: %s", what, strerror(code));
}

/*
 * The child gets `fd` as standard input and output, and nothing else of ours: all our descriptors are close-on-exec. A
 * process group of its own, so that Ctrl-C at the terminal is for us alone; signals as they are in a fresh program.
 */
static int spawn(const char *program, int fd, pid_t *out)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawn_file_actions_init(&files);
    if (code)
        return code;
    if ((code = posix_spawnattr_init(&attributes)) == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        if ((code = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO)) == 0 &&
            (code = posix_spawn_file_actions_adddup2(&files, fd, STDOUT_FILENO)) == 0 &&
            (code = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0)) == 0) {
            char *const argv[] = {(char *)(uintptr_t)program, NULL};
            code = posix_spawn(out, program, &files, &attributes, argv, environ);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return code;
}

/* A socket and a child on its other end; 0, or why not. */
static int try_start(session *s, const char *program)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return errno;
    const int code = spawn(program, ends[1], &s->child);
    close(ends[1]);
    if (code)
        close(ends[0]);
    else
        atomic_store(&s->fd, ends[0]);
    return code;
}

/* No descriptor or no process to be had now is nothing that a file is to blame for. */
static stk_status start_program(session *s, const char *program, stk_error *err)
{
    int naps = 0, code;
    while ((code = try_start(s, program)) != 0 && stk__data_file_try_again(code, &naps)) {
    }
    if (!code)
        return STK_OK;
    s->child = 0;
    char what[PATH_BYTES + 32];
    snprintf(what, sizeof what, "cannot start %s", program);
    if (stk__data_file_is_shortage(code))
        return stk__data_file_exhausted(code, NULL, what, err);
    return system_error(err, what, code);
}

static stk_status start_locked(const stk__h5_helper *h, session *s, stk_error *err)
{
    char *program = NULL;
    if (!h->program)
        STK_TRY(stk__h5_helper_find(&program, err));
    const stk_status status = start_program(s, program ? program : h->program, err);
    stk__free(program);
    return status;
}

/* Reaps the child if it has ended. True also when somebody else reaped it; *out_status is left alone then. */
static bool has_ended(pid_t child, int *out_status)
{
    pid_t got;
    while ((got = waitpid(child, out_status, WNOHANG)) < 0 && errno == EINTR) {
    }
    return got != 0;
}

/*
 * Ends the child and reaps it, giving it up to `patience_ms` to end by itself. Returns how it ended; SIGKILL when that
 * cannot be known. A number is only killed while it is our child: somebody else may have reaped it, and the number may
 * be taken anew.
 */
static int end_locked(session *s, int patience_ms)
{
    int status = SIGKILL;
    const int fd = atomic_exchange(&s->fd, -1);
    const pid_t child = s->child;
    s->child = 0;
    s->killed = false;
    if (fd >= 0)
        close(fd);
    if (child <= 0)
        return status;
    for (int waited = 0; !has_ended(child, &status); waited++) {
        if (waited >= patience_ms) {
            s->killed = true;
            if (kill(-child, SIGKILL))
                kill(child, SIGKILL);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
            }
            break;
        }
        const struct timespec millisecond = {.tv_nsec = 1000000};
        nanosleep(&millisecond, NULL);
    }
    return status;
}

void stk__h5_helper_remember(stk__h5_helper *h)
{
    h->remembers = true;
}

stk_status stk__h5_helper_new(stk__h5_helper **out, stk_error *err)
{
    stk__h5_helper *h = stk__calloc(1, sizeof *h);
    if (!h)
        return stk__nomem(sizeof *h, err);
    *out = h;
    return STK_OK;
}

stk_status stk__h5_helper_use(stk__h5_helper *h, const char *program, stk_error *err)
{
    char *copy = stk__strdup(program);
    if (!copy)
        return stk__nomem(strlen(program) + 1, err);
    stk__free(h->program);
    h->program = copy;
    return STK_OK;
}

/* Our copy of the parent's end, without which its helper could not see the parent go. */
static void abandon(session *s)
{
    const int fd = atomic_exchange(&s->fd, -1);
    if (fd >= 0)
        close(fd);
}

void stk__h5_helper_free(stk__h5_helper *h)
{
    if (!h)
        return;
    session *s = atomic_load(&h->session);
    while (s) {
        session *older = s->older;
        if (s->owner == getpid()) {
            end_locked(s, 0);
            pthread_mutex_destroy(&s->lock);
        } else {
            abandon(s);
        }
        stk__free(s);
        s = older;
    }
    stk__free(h->program);
    stk__free(h);
}

/* The session of this process. */
static stk_status get_session(stk__h5_helper *h, session **out, stk_error *err)
{
    const pid_t self = getpid();
    session *now = atomic_load(&h->session);
    if (now && now->owner == self) {
        *out = now;
        return STK_OK;
    }
    session *fresh = stk__calloc(1, sizeof *fresh);
    if (!fresh)
        return stk__nomem(sizeof *fresh, err);
    fresh->owner = self;
    fresh->older = now;
    atomic_init(&fresh->fd, -1);
    pthread_mutex_init(&fresh->lock, NULL);
    session *const inherited = now;
    if (!atomic_compare_exchange_strong(&h->session, &now, fresh)) { /* another thread was first */
        pthread_mutex_destroy(&fresh->lock);
        stk__free(fresh);
        *out = now;
        return STK_OK;
    }
    if (inherited)
        abandon(inherited);
    *out = fresh;
    return STK_OK;
}

/* ---- asking ---- */

/* What one request knows. */
typedef struct asking {
    session *session;
    int fd;
    int timeout_ms;
    int64_t deadline_ns;
    stk_error *err;
} asking;

/* Ends the child and says how it came to this. */
static stk_status died(asking *a)
{
    const int status = end_locked(a->session, DEATH_MS);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return stk_error_set(a->err, STK_CORRUPT, "libhdf5 used up its CPU time on this file");
    /* Most often the helper itself names the call; this is left when it could not. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return stk_error_set(a->err, STK_CORRUPT,
                             "libhdf5, or a plug-in of it, was stopped by the sandbox on this file");
    /* The kernel does that where memory is short, which says nothing about the file. */
    a->session->outside = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !a->session->killed;
    if (a->session->outside)
        return stk_error_set(a->err, STK_NOMEM,
                             STK__H5_HELPER_NAME " was killed from outside on this file: is the machine out of memory?");
    if (WIFSIGNALED(status))
        return stk_error_set(a->err, STK_CORRUPT, "libhdf5 crashed (signal %d) on this file", WTERMSIG(status));
    return stk_error_set(a->err, STK_CORRUPT, "libhdf5 ended its process (exit code %d) on this file",
                         WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* Waits until the socket is ready for `events` or closed. */
static stk_status wait_ready(asking *a, short events)
{
    for (;;) {
        const int64_t left = a->deadline_ns - stk__now_ns();
        struct pollfd p = {.fd = a->fd, .events = events};
        const int n = left <= 0 ? 0 : poll(&p, 1, (int)STK_MIN(left / 1000000 + 1, (int64_t)LOOK_MS));
        if (n > 0)
            return STK_OK;
        if (n < 0 && errno != EINTR) {
            const int code = errno;
            end_locked(a->session, 0);
            return system_error(a->err, "cannot wait for " STK__H5_HELPER_NAME, code);
        }
        if (stk__interrupted()) {
            end_locked(a->session, 0); /* it would answer a question that nobody asks any more */
            return stk__interrupt_check(a->err);
        }
        if (left <= 0) {
            end_locked(a->session, 0);
            return stk_error_set(a->err, STK_CORRUPT, "libhdf5 did not answer within %g s on this file",
                                 a->timeout_ms / 1000.0);
        }
    }
}

static bool try_again(void)
{
    return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

static stk_status send_all(asking *a, const void *data, size_t size)
{
    const char *p = data;
    while (size) {
        const ssize_t n = send(a->fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            p += n;
            size -= (size_t)n;
        } else if (try_again()) {
            STK_TRY(wait_ready(a, POLLOUT));
        } else {
            return died(a);
        }
    }
    return STK_OK;
}

static stk_status receive_all(asking *a, void *data, size_t size)
{
    char *p = data;
    while (size) {
        const ssize_t n = recv(a->fd, p, size, MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        } else if (n < 0 && try_again()) {
            STK_TRY(wait_ready(a, POLLIN));
        } else {
            return died(a);
        }
    }
    return STK_OK;
}

/* Reads `size` bytes into memory that grows with what has arrived, not with what was announced. */
static stk_status receive_growing(asking *a, size_t size, uint8_t **out)
{
    uint8_t *data = NULL;
    size_t have = 0;
    do {
        const size_t want = STK_MIN(size, have ? 2 * have : (size_t)FIRST_BYTES);
        uint8_t *bigger = stk__realloc(data, want);
        stk_status status = STK_OK;
        if (!bigger) {
            end_locked(a->session, 0); /* the rest of its answer is still on the way */
            status = stk__nomem(want, a->err);
        } else {
            data = bigger;
            status = receive_all(a, data + have, want - have);
        }
        if (status != STK_OK) {
            stk__free(data);
            return status;
        }
        have = want;
    } while (have < size);
    *out = data;
    return STK_OK;
}

static stk_status exchange(asking *a, const stk__text *request, size_t max_bytes, uint8_t **out_data, size_t *out_size)
{
    uint8_t frame[FRAME_BYTES];
    for (int i = 0; i < FRAME_BYTES; i++)
        frame[i] = (uint8_t)((uint64_t)request->length >> 8 * i);
    STK_TRY(send_all(a, frame, sizeof frame));
    STK_TRY(send_all(a, request->data, request->length));
    STK_TRY(receive_all(a, frame, sizeof frame));
    uint64_t size = 0;
    for (int i = 0; i < FRAME_BYTES; i++)
        size |= (uint64_t)frame[i] << 8 * i;
    if (size > max_bytes) {
        end_locked(a->session, 0);
        return stk_error_set(a->err, STK_BUDGET,
                             STK__H5_HELPER_NAME " announced an answer of %llu bytes, at most %zu are taken",
                             (unsigned long long)size, max_bytes);
    }
    STK_TRY(receive_growing(a, (size_t)size, out_data));
    *out_size = (size_t)size;
    return STK_OK;
}

/* A child that is there and silent, as it should be between two requests. */
static bool is_idle(const session *s)
{
    char byte;
    ssize_t n;
    while ((n = recv(atomic_load(&s->fd), &byte, 1, MSG_DONTWAIT | MSG_PEEK)) < 0 && errno == EINTR) {
    }
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

static stk_status ask_locked(const stk__h5_helper *h, asking *a, const stk__text *request, size_t max_bytes,
                             uint8_t **out_data, size_t *out_size)
{
    session *s = a->session;
    if (s->child && !is_idle(s))
        end_locked(s, 0);
    if (!s->child)
        STK_TRY(start_locked(h, s, a->err));
    a->fd = atomic_load(&s->fd);
    a->deadline_ns = stk__now_ns() + (int64_t)a->timeout_ms * 1000000;
    return exchange(a, request, max_bytes, out_data, out_size);
}

/* Status and message of an answer; false when it is no message at all. */
static bool read_status(const uint8_t *data, size_t size, uint64_t *status, stk__wire *message)
{
    stk__wire w = {data, data + size};
    uint32_t field, type;
    while (w.p < w.end) {
        bool ok = stk__wire_tag(&w, &field, &type);
        if (ok && field == STK__H5_ANSWER_STATUS && type == STK__WIRE_VARINT)
            ok = stk__wire_varint(&w, status);
        else if (ok && field == STK__H5_ANSWER_MESSAGE && type == STK__WIRE_BYTES)
            ok = stk__wire_bytes(&w, message);
        else if (ok)
            ok = stk__wire_skip(&w, type);
        if (!ok)
            return false;
    }
    return true;
}

/* The failure that an answer tells of, if any. */
static stk_status check_answer(const uint8_t *data, size_t size, bool *out_sane, stk_error *err)
{
    uint64_t status = UINT64_MAX;
    stk__wire message = {0};
    *out_sane =
        read_status(data, size, &status, &message) && status <= STK_LIMIT && status != STK_END && status != STK_DROP;
    if (!*out_sane)
        return stk_error_set(err, STK_CORRUPT, STK__H5_HELPER_NAME " gave an answer of %zu bytes that makes no sense",
                             size);
    if (status == STK_OK)
        return STK_OK;
    const size_t length = (size_t)(message.end - message.p);
    return stk_error_set(err, (stk_status)status, "%.*s", (int)STK_MIN(length, sizeof err->message),
                         length ? (const char *)message.p : "");
}

stk_status stk__h5_helper_ask(stk__h5_helper *h, const stk__text *request, int timeout_ms, size_t max_bytes,
                              uint8_t **out_data, size_t *out_size, stk_error *err)
{
    asking a = {.timeout_ms = timeout_ms, .err = err};
    uint8_t *data = NULL;
    size_t size = 0;
    bool sane = true;
    if (request->failed)
        return stk__nomem(request->length, err);
    STK_TRY(get_session(h, &a.session, err));
    pthread_mutex_lock(&a.session->lock);
    stk_status status;
    int tries = h->remembers ? 1 : KILLED_TRIES_MAX;
    do {
        stk_error_clear(err);
        a.session->outside = false;
        status = ask_locked(h, &a, request, max_bytes, &data, &size);
    } while (status != STK_OK && a.session->outside && --tries > 0);
    if (status == STK_OK)
        status = check_answer(data, size, &sane, err);
    if (!sane)
        end_locked(a.session, 0);
    pthread_mutex_unlock(&a.session->lock);
    if (status != STK_OK) {
        stk__free(data);
        return status;
    }
    *out_data = data;
    *out_size = size;
    return STK_OK;
}
