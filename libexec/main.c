/* stoker-hdf5: answers questions about HDF5 files over pipes, so that libhdf5 runs in a process of its own. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "helper.h"
#include "sandbox.h"

#include "base/banned.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define MEMORY_LIMIT ((rlim_t)4 << 30)
#define OPEN_LIMIT 256
#define WATCH_SECONDS 2
/* A chunk to be written is the biggest request. */
#define MAX_REQUEST ((uint64_t)2 << 30)

/* ---- errors ---- */

static herr_t take_reason(unsigned n, const H5E_error2_t *error, void *user)
{
    const char **desc = user;
    /* From the inside out: the first that says anything. */
    if (!*desc && error->desc && error->desc[0])
        *desc = error->desc;
    return 0;
}

void stk__h5_reason(char *out, size_t size)
{
    const char *desc = NULL;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, &desc);
    /* Names in a file may hold anything. */
    stk__escape_terminal(desc ? desc : "", out, size);
}

stk_status stk__h5_fail(stk_error *err, stk_status status, const char *format, ...)
{
    char text[400], reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stk__h5_reason(reason, sizeof reason);
    if (strstr(reason, "required filter") || strstr(reason, "unable to find filter"))
        status = STK_UNSUPPORTED;
    if (strstr(reason, strerror(EMFILE)) || strstr(reason, strerror(ENFILE))) /* no fault of the file's */
        status = STK_NOMEM;
    return stk_error_set(err, status, reason[0] ? "%s: %s" : "%s", text, reason);
}

/* ---- frames ---- */

/* False at the end of the input, or when it ends in the middle. */
static bool read_full(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(fd, (char *)data + done, STK_MIN(size - done, (size_t)1 << 30));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return false;
    }
    return true;
}

static bool write_full(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(fd, (const char *)data + done, STK_MIN(size - done, (size_t)1 << 30));
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

static void put_u64(uint8_t *p, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

/* Tag and size of a block whose bytes follow. */
static void put_head(stk__text *t, uint32_t field, size_t size)
{
    stk__wire_put_tag(t, field, STK__WIRE_BYTES);
    stk__wire_put_varint(t, size);
}

static bool send_answer(int fd, stk_status status, const stk_error *err, const stk__h5_answer *a)
{
    stk__text head = STK__TEXT_INIT, middle = STK__TEXT_INIT;
    uint8_t size[8];
    const bool whole = status == STK_OK;
    stk__wire_put_uint(&head, STK__H5_ANSWER_STATUS, (uint64_t)status);
    if (!whole)
        stk__wire_put_bytes(&head, STK__H5_ANSWER_MESSAGE, err->message, strlen(err->message));
    if (whole && a->has_data) {
        put_head(&head, STK__H5_ANSWER_DATA, a->data_size);
        put_head(&middle, STK__H5_ANSWER_HEAP, a->heap.length);
    }
    bool ok = !head.failed && !middle.failed;
    uint64_t total = head.length;
    if (whole)
        total += a->has_data ? a->data_size + middle.length + a->heap.length : a->message.length;
    put_u64(size, total);
    ok = ok && write_full(fd, size, sizeof size) && write_full(fd, head.data, head.length);
    if (whole && a->has_data)
        ok = ok && write_full(fd, a->data, a->data_size) && write_full(fd, middle.data, middle.length) &&
             write_full(fd, a->heap.data, a->heap.length);
    else if (whole)
        ok = ok && write_full(fd, a->message.data, a->message.length);
    stk__text_clear(&head);
    stk__text_clear(&middle);
    return ok;
}

static void answer_clear(stk__h5_answer *a)
{
    stk__text_clear(&a->message);
    stk__text_clear(&a->heap);
    stk__free(a->data);
    *a = (stk__h5_answer){0};
}

/* ---- requests ---- */

static void request_clear(stk__h5_request *r)
{
    for (size_t i = 0; i < r->dataset_count; i++)
        stk__free(r->datasets[i]);
    stk__free(r->datasets);
    stk__free(r->path);
}

/* A text of a request, as a string; NULL when it is too long, holds a NUL, or memory is out. */
static char *take_text(const stk__wire *w)
{
    const size_t size = (size_t)(w->end - w->p);
    if (size == 0 || size > STK__H5_MAX_NAME || memchr(w->p, 0, size))
        return NULL;
    return stk__strndup((const char *)w->p, size);
}

static bool take_texts(stk__h5_request *r, uint32_t field, const stk__wire *value, size_t *capacity)
{
    if (field == STK__H5_REQUEST_PATH && !r->path)
        return (r->path = take_text(value)) != NULL;
    if (field != STK__H5_REQUEST_DATASET)
        return true;
    if (r->dataset_count >= STK__H5_MAX_DATASETS ||
        !stk__grow((void **)&r->datasets, capacity, r->dataset_count + 1, sizeof *r->datasets))
        return false;
    r->datasets[r->dataset_count] = take_text(value);
    return r->datasets[r->dataset_count] && ++r->dataset_count;
}

static stk_status request_parse(stk__h5_request *r, const uint8_t *data, size_t size, stk_error *err)
{
    stk__wire w = {data, data + size};
    size_t capacity = 0;
    r->body = w;
    while (w.p < w.end) {
        uint32_t field, type;
        uint64_t x = 0;
        stk__wire value;
        bool ok = stk__wire_tag(&w, &field, &type);
        if (ok && type == STK__WIRE_BYTES)
            ok = stk__wire_bytes(&w, &value) && take_texts(r, field, &value, &capacity);
        else if (ok && type == STK__WIRE_VARINT)
            ok = stk__wire_varint(&w, &x);
        else if (ok)
            ok = stk__wire_skip(&w, type);
        if (!ok)
            return stk_error_set(err, STK_INVALID, "a request that cannot be read, of %zu bytes", size);
        if (type != STK__WIRE_VARINT)
            continue;
        if (field == STK__H5_REQUEST_KIND)
            r->kind = x > 1000 ? 1000 : (int)x;
        else if (field == STK__H5_REQUEST_FIRST_ROW)
            r->first_row = x;
        else if (field == STK__H5_REQUEST_ROWS)
            r->rows = x;
    }
    return STK_OK;
}

/* ---- the sandbox ---- */

static int answers_fd = -1; /* where answers go, for the handler */

/*
 * A call that the sandbox refuses. It comes from libhdf5 or a plug-in, so nothing of an answer was sent yet. Nobody may go
 * on who was told no: the process ends.
 */
static void refused(int signal_number, siginfo_t *info, void *context)
{
    char buffer[256], message[160];
    uint8_t size[8];
    stk__text t;
    const char *name = stk__sandbox_call_name(info->si_syscall);
    snprintf(message, sizeof message,
             "libhdf5, or a plug-in of it, was stopped by the sandbox on this file: system call %d%s%s%s",
             info->si_syscall, name ? " (" : "", name ? name : "", name ? ")" : "");
    stk__text_fixed(&t, buffer, sizeof buffer);
    stk__wire_put_uint(&t, STK__H5_ANSWER_STATUS, STK_CORRUPT);
    stk__wire_put_bytes(&t, STK__H5_ANSWER_MESSAGE, message, strlen(message));
    put_u64(size, t.length);
    if (write_full(answers_fd, size, sizeof size))
        write_full(answers_fd, t.data, t.length);
    _exit(1);
}

/*
 * Whatever is asked comes out of a file that nobody knows, so it is entered before the first answer. A file that is to be
 * made must be opened before: then it is the only one that can be written to. A kernel without it leaves us with limits
 * alone. Sanitizers ask for more than it allows.
 */
static void enter_sandbox(void)
{
    static bool inside;
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    if (inside || SANITIZED)
        return;
    inside = true;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSYS, &action, NULL);
    stk__sandbox_enter();
}

static stk_status request_answer(const stk__h5_request *r, stk__h5_answer *a, stk_error *err)
{
    if (r->kind != STK__H5_ASK_CREATE)
        enter_sandbox();
    switch (r->kind) {
    case STK__H5_ASK_DESCRIBE:
    case STK__H5_ASK_INDEX:
        return stk__h5_describe_request(r, a, err);
    case STK__H5_ASK_READ:
        return stk__h5_read_request(r, a, err);
    case STK__H5_ASK_CREATE:
    case STK__H5_ASK_CHUNK:
    case STK__H5_ASK_ROWS:
    case STK__H5_ASK_FINISH:
        return stk__h5_write_request(r, err);
    default:
        return stk_error_set(err, STK_UNSUPPORTED, "request of kind %d, wanted 1 to %d", r->kind, STK__H5_ASK_FINISH);
    }
}

/* One request and its answer; false when there is nobody to talk to any more. */
static bool serve_one(int in, int out)
{
    uint8_t head[8];
    if (!read_full(in, head, sizeof head))
        return false;
    const uint64_t size = get_u64(head);
    uint8_t *data = size <= MAX_REQUEST ? stk__alloc((size_t)size) : NULL;
    /* Without the rest of it there is no way to find the next one. */
    if (!data || !read_full(in, data, (size_t)size)) {
        stk__free(data);
        return false;
    }
    stk__h5_request request = {0};
    stk__h5_answer answer = {0};
    stk_error err;
    stk_error_clear(&err);
    H5Eclear2(H5E_DEFAULT);
    stk_status status = request_parse(&request, data, (size_t)size, &err);
    if (status == STK_OK)
        status = request_answer(&request, &answer, &err);
    if (status == STK_OK && (answer.message.failed || answer.heap.failed))
        status = stk_error_set(&err, STK_NOMEM, "out of memory while an answer was written");
    enter_sandbox();
    const bool sent = send_answer(out, status, &err, &answer);
    request_clear(&request);
    answer_clear(&answer);
    stk__free(data);
    return sent;
}

/* ---- the process ---- */

static void limit(int what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    now.rlim_cur = STK_MIN(now.rlim_cur, most);
    now.rlim_max = STK_MIN(now.rlim_max, most);
    setrlimit(what, &now);
}

static pid_t parent;

static void look_for_parent(int signal_number)
{
    if (getppid() != parent)
        _exit(0);
}

/*
 * A file that makes libhdf5 go round in circles must not keep us alive when who started us is gone. Not by
 * PR_SET_PDEATHSIG: that comes as soon as the thread ends that started us.
 */
static void watch_parent(void)
{
    struct sigaction action = {.sa_handler = look_for_parent, .sa_flags = SA_RESTART};
    const struct itimerval every = {{WATCH_SECONDS, 0}, {WATCH_SECONDS, 0}};
    parent = getppid();
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* A file that makes libhdf5 ask for everything must not take the machine down. */
static void set_limits(void)
{
    if (!SANITIZED)
        limit(RLIMIT_AS, MEMORY_LIMIT);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, OPEN_LIMIT);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
}

/* Descriptors that who started us has left open are nothing to us, and could be written to. Linux 5.9 has the call. */
static void close_others(void)
{
#ifdef SYS_close_range
    if (!SANITIZED)
        syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#endif
}

/*
 * Keeps the pipes for us alone: whatever libhdf5 or a plug-in prints goes nowhere, and cannot stand between two
 * answers. The sanitizers go on talking.
 */
static bool take_pipes(int *in, int *out)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    *in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    *out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (nowhere < 0 || *in < 0 || *out < 0)
        return false;
    bool ok = dup2(nowhere, STDIN_FILENO) >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0;
    if (!SANITIZED)
        ok = ok && dup2(nowhere, STDERR_FILENO) >= 0;
    if (nowhere > STDERR_FILENO)
        close(nowhere);
    return ok;
}

static int tell(const char *option)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    if (strcmp(option, "--version") == 0) {
        set_limits();
        const int code = SANITIZED ? 0 : stk__sandbox_enter();
        printf("stoker-hdf5 %s, libhdf5 %u.%u.%u, protocol %d, %s%s\n", STK_VERSION, major, minor, release,
               STK__H5_WIRE_VERSION, SANITIZED || code ? "no sandbox: " : "sandbox: ",
               SANITIZED ? "built with a sanitizer"
               : code    ? strerror(code)
                         : "seccomp");
        return 0;
    }
    if (strcmp(option, "--help") == 0) {
        printf(
            "stoker-hdf5 looks into HDF5 files for stoker, which starts it when it needs it.\n"
            "It reads requests from standard input and answers on standard output, in frames that are not for people.\n"
            "To look at a file, run: stoker inspect FILE\n\n"
            "  --version  versions of this program, of libhdf5 and of the protocol, and whether there is a sandbox\n"
            "  --help     this text\n");
        return 0;
    }
    fprintf(stderr, "stoker-hdf5: unknown argument '%s'; try --help\n", option);
    return 2;
}

int main(int argc, char **argv)
{
    /* Readers need no lock, and those of writers would keep us out. Has to be there before libhdf5 starts. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    if (argc > 1)
        return tell(argv[1]);
    int in, out;
    set_limits();
    close_others();
    watch_parent();
    if (!take_pipes(&in, &out) || H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0)
        return 1;
    answers_fd = out;
    while (serve_one(in, out))
        ;
    /* Nothing to tidy up: files are read only, or were closed by FINISH. */
    _exit(0);
}
