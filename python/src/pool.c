/*
 * Processes that call a function, and who has which of them.
 *
 * They are forked by the thread that opens a run, before its workers start, and live until the pool is closed: for all runs
 * of a loader. A worker takes one, asks it, waits without the GIL, and gives it back. Who stops waiting leaves a process
 * that owes an answer; who takes it next waits for that first.
 *
 * A child ends when its socket does. So nothing but this process may have our end of it: descriptors of pools are opened
 * and closed under `all.lock`, and whatever is forked closes those that it got (`in_child`).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sigdescr_np */
#endif
#include "op_python_map.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20 };       /* how often a wait looks whether it is still wanted */
enum { PATIENCE_MS = 1000 }; /* with a child that was told to end */

/* A thread that waits for a process. Who came first is served first: it has the sample that is wanted soonest. */
typedef struct waiter {
    struct waiter *next;
    pthread_cond_t ready;
} waiter;

struct stkpy_pool {
    /* set when it is made, then const */
    int count;
    long owner; /* process that made it */
    stkpy_process *processes;

    atomic_int refs;
    atomic_bool closed; /* set under the lock */
    char *fields;       /* guarded by the GIL: what the processes were started for */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a process was given back */
    /* guarded by lock */
    int taken;
    waiter *waiters; /* in the order in which they came */
    char death[200]; /* of the last process that died */

    /* guarded by all.lock */
    stkpy_pool *next, **link;
};

/* All pools of this process; their descriptors too. */
static struct {
    pthread_mutex_t lock;
    stkpy_pool *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- descriptors ---- */

static void channel_clear(stkpy_channel *channel)
{
    if (channel->fd >= 0)
        close(channel->fd);
    channel->fd = -1;
    stkpy_area_close(&channel->request);
    stkpy_area_close(&channel->answer);
}

static void close_channel(stkpy_process *process)
{
    pthread_mutex_lock(&all.lock);
    channel_clear(&process->channel);
    pthread_mutex_unlock(&all.lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&all.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* Nothing is unmapped: areas do not come along. */
static void in_child(void)
{
    for (stkpy_pool *pool = all.first; pool; pool = pool->next) {
        for (int i = 0; i < pool->count; i++) {
            const stkpy_channel *channel = &pool->processes[i].channel;
            const int fds[] = {channel->fd, channel->request.fd, channel->answer.fd};
            for (size_t k = 0; k < sizeof fds / sizeof *fds; k++)
                if (fds[k] >= 0)
                    close(fds[k]);
        }
    }
    all.first = NULL;
    pthread_mutex_init(&all.lock, NULL);
}

static void list(stkpy_pool *pool)
{
    pthread_mutex_lock(&all.lock);
    pool->next = all.first;
    pool->link = &all.first;
    if (pool->next)
        pool->next->link = &pool->next;
    all.first = pool;
    pthread_mutex_unlock(&all.lock);
}

static void unlist(stkpy_pool *pool)
{
    pthread_mutex_lock(&all.lock);
    *pool->link = pool->next;
    if (pool->next)
        pool->next->link = pool->link;
    pthread_mutex_unlock(&all.lock);
}

bool stkpy_pool_is_ours(const stkpy_pool *pool)
{
    return pool->owner == (long)getpid();
}

/* ---- the end of a process ---- */

static void rest_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* Whether it has ended; *out_status is -1 when somebody else has fetched that. */
static bool reap(stkpy_process *process, int *out_status)
{
    const pid_t got = waitpid((pid_t)process->pid, out_status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0)
        *out_status = -1;
    process->pid = 0;
    return true;
}

/* Waits for a process that is to end, and makes it end when it does not. */
static int reap_surely(stkpy_process *process, int patience_ms)
{
    int status = -1;
    for (int waited = 0; waited < patience_ms; waited++) {
        if (reap(process, &status))
            return status;
        rest_ms(1);
    }
    kill((pid_t)process->pid, SIGKILL);
    while (!reap(process, &status))
        rest_ms(1);
    return status;
}

static void describe_death(long pid, int status, char *out, size_t size)
{
    if (status != -1 && WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        const char *name = sigdescr_np(number);
        snprintf(out, size, "process %ld, which called it, was killed by signal %d (%s%s)", pid, number,
                 name ? name : "unknown", number == SIGKILL ? "; was it out of memory?" : "");
    } else if (status != -1 && WIFEXITED(status)) {
        snprintf(out, size, "process %ld, which called it, ended with exit code %d in the middle of it", pid,
                 WEXITSTATUS(status));
    } else {
        snprintf(out, size, "process %ld, which called it, has ended", pid);
    }
}

/* The process has died, or is cut off: the run ends with that. */
static stk_status died(stkpy_pool *pool, stkpy_process *process, stk_error *err)
{
    const long pid = process->pid;
    const int status = reap_surely(process, PATIENCE_MS);
    close_channel(process);
    pthread_mutex_lock(&pool->lock);
    describe_death(pid, status, pool->death, sizeof pool->death);
    pthread_mutex_unlock(&pool->lock);
    return stk_error_set(err, STKPY_FUNCTION_FAILED, "%s", pool->death);
}

/* Waits with an end go by the clock that nobody sets. */
static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void wait_locked(stkpy_pool *pool, pthread_cond_t *cond)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(cond, &pool->lock, &until);
}

/* With nobody at the processes: closes the sockets, which tells them, and waits for all of them together. */
static void end_processes(stkpy_pool *pool)
{
    for (int i = 0; i < pool->count; i++)
        close_channel(&pool->processes[i]);
    for (int i = 0; i < pool->count; i++) {
        stkpy_process *process = &pool->processes[i];
        if (process->pid)
            reap_surely(process, PATIENCE_MS);
        process->owes = false;
    }
}

/* Workers that have processes see that it is closed, and give them back. */
void stkpy_pool_close(stkpy_pool *pool)
{
    if (!stkpy_pool_is_ours(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    const bool first = !atomic_exchange(&pool->closed, true);
    while (pool->taken > 0)
        wait_locked(pool, &pool->changed);
    pthread_mutex_unlock(&pool->lock);
    if (first)
        end_processes(pool);
}

void stkpy_pools_end(void)
{
    for (;;) {
        pthread_mutex_lock(&all.lock);
        stkpy_pool *pool = all.first;
        while (pool && atomic_load(&pool->closed))
            pool = pool->next;
        if (pool)
            stkpy_pool_ref(pool);
        pthread_mutex_unlock(&all.lock);
        if (!pool)
            return;
        stkpy_pool_close(pool);
        stkpy_pool_unref(pool);
    }
}

/* ---- counts ---- */

stkpy_pool *stkpy_pool_new(int count)
{
    stkpy_pool *pool = calloc(1, sizeof *pool);
    stkpy_process *processes = pool ? calloc((size_t)count, sizeof *processes) : NULL;
    if (!processes) {
        free(pool);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        processes[i].channel = (stkpy_channel){.fd = -1, .request = {.fd = -1}, .answer = {.fd = -1}};
    *pool = (stkpy_pool){.count = count, .owner = (long)getpid(), .processes = processes};
    atomic_init(&pool->refs, 1);
    pthread_mutex_init(&pool->lock, NULL);
    init_cond(&pool->changed);
    list(pool);
    return pool;
}

void stkpy_pool_ref(stkpy_pool *pool)
{
    atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
}

void stkpy_pool_unref(stkpy_pool *pool)
{
    if (!pool || atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (!stkpy_pool_is_ours(pool)) /* its locks may be held by threads that do not exist here */
        return;
    stkpy_pool_close(pool);
    unlist(pool);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool->fields);
    free(pool->processes);
    free(pool);
}

int64_t stkpy_pool_bytes(stkpy_pool *pool, size_t each)
{
    int64_t bytes = 0;
    for (int i = 0; i < pool->count; i++) {
        const stkpy_channel *channel = &pool->processes[i].channel;
        const size_t now = channel->request.size + channel->answer.size;
        if (__builtin_add_overflow(bytes, (int64_t)(now > each ? now : each), &bytes))
            return INT64_MAX;
    }
    return bytes;
}

/* ---- start ---- */

static bool open_channels(stkpy_channel *here, stkpy_channel *there)
{
    int ends[2];
    if (!stkpy_area_open(&here->request) || !stkpy_area_open(&here->answer) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    *there = *here;
    here->fd = ends[0];
    there->fd = ends[1];
    return true;
}

/* What is in the buffers of standard output must not be written by the child once more. */
static bool flush_streams(void)
{
    PyObject *module = PyImport_ImportModule("stoker._processes");
    PyObject *done = module ? PyObject_CallMethod(module, "flush", NULL) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done != NULL;
}

static bool start_one(stkpy_process *process, const stkpy_map *map)
{
    stkpy_channel here = {.fd = -1, .request = {.fd = -1}, .answer = {.fd = -1}}, there;
    if (!open_channels(&here, &there)) {
        PyErr_SetFromErrno(PyExc_OSError);
        channel_clear(&here);
        return false;
    }
    PyOS_BeforeFork();
    const pid_t pid = fork();
    if (pid == 0) {
        close(here.fd);
        PyOS_AfterFork_Child();
        stkpy_map_child(map, &there);
    }
    const int failed = errno;
    PyOS_AfterFork_Parent();
    close(there.fd);
    if (pid < 0) {
        channel_clear(&here);
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    process->pid = pid;
    process->owes = false;
    pthread_mutex_lock(&all.lock);
    process->channel = here;
    pthread_mutex_unlock(&all.lock);
    return true;
}

/* All that a child knows of the fields; the same in all runs of a loader, unless something is odd. */
static char *fields_text(const stkpy_map *map)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; i < map->in_count + map->out_count; i++) {
        const stkpy_field *field = i < map->in_count ? &map->in[i] : &map->out[i - map->in_count];
        fprintf(out, "%zu %zu:%s %d %d", i, strlen(field->text), field->text, (int)field->type, field->wanted);
        for (int d = 0; d < field->ndim; d++)
            fprintf(out, " %lld", (long long)field->dims[d]);
        fputc('\n', out);
    }
    return fclose(out) == 0 ? text : NULL;
}

/* Takes all processes of another pipeline down. Nobody has any: one run at a time uses a pool. */
static bool renew(stkpy_pool *pool, const stkpy_map *map)
{
    char *fields = fields_text(map);
    if (!fields) {
        PyErr_NoMemory();
        return false;
    }
    if (pool->fields && strcmp(pool->fields, fields) != 0) {
        Py_BEGIN_ALLOW_THREADS;
        end_processes(pool);
        Py_END_ALLOW_THREADS;
    }
    free(pool->fields);
    pool->fields = fields;
    return true;
}

/* Workers of a run that is being stopped give their processes back soon. */
static bool wait_free(stkpy_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (int waited = 0; pool->taken > 0 && waited < PATIENCE_MS; waited += LOOK_MS)
        wait_locked(pool, &pool->changed);
    const bool is_free = pool->taken == 0;
    pthread_mutex_unlock(&pool->lock);
    return is_free;
}

bool stkpy_pool_start(stkpy_pool *pool, const stkpy_map *map)
{
    bool is_free;
    Py_BEGIN_ALLOW_THREADS;
    is_free = wait_free(pool);
    Py_END_ALLOW_THREADS;
    if (!is_free || atomic_load(&pool->closed)) {
        PyErr_Format(PyExc_RuntimeError, "the processes of map '%s' %s", map->name,
                     is_free ? "were ended" : "serve another run");
        return false;
    }
    if (!renew(pool, map) || !flush_streams())
        return false;
    for (int i = 0; i < pool->count; i++) {
        int status;
        stkpy_process *process = &pool->processes[i];
        if (process->pid && !reap(process, &status))
            continue;
        close_channel(process);
        if (!start_one(process, map))
            return false;
    }
    return true;
}

/* ---- taking turns ---- */

static stk_status stopped(stk_error *err)
{
    return stk_error_set(err, STK_CANCELLED, "the run was stopped");
}

static bool is_stopping(const stkpy_pool *pool, const stkpy_kept *stop)
{
    return atomic_load_explicit(&pool->closed, memory_order_relaxed) || stkpy_stopping(stop);
}

/* One that is free, rather one that owes nothing; *out_alive: there is one at all. */
static stkpy_process *choose_locked(stkpy_pool *pool, bool *out_alive)
{
    stkpy_process *chosen = NULL;
    for (int i = 0; i < pool->count; i++) {
        stkpy_process *process = &pool->processes[i];
        if (!process->pid)
            continue;
        *out_alive = true;
        if (!process->taken && (!chosen || chosen->owes))
            chosen = process;
    }
    return chosen;
}

static waiter **find_locked(stkpy_pool *pool, const waiter *which)
{
    waiter **link = &pool->waiters;
    while (*link && *link != which)
        link = &(*link)->next;
    return link;
}

static void wake_first_locked(stkpy_pool *pool)
{
    if (pool->waiters)
        pthread_cond_signal(&pool->waiters->ready);
}

/* NULL with err set. */
static stkpy_process *wait_turn_locked(stkpy_pool *pool, waiter *me, const stkpy_kept *stop, stk_error *err)
{
    for (;;) {
        bool alive = false;
        if (is_stopping(pool, stop)) {
            stopped(err);
            return NULL;
        }
        if (pool->waiters == me) {
            stkpy_process *process = choose_locked(pool, &alive);
            if (process)
                return process;
            if (!alive) {
                stk_error_set(err, STKPY_FUNCTION_FAILED, "%s", pool->death);
                return NULL;
            }
        }
        wait_locked(pool, &me->ready);
    }
}

stkpy_process *stkpy_pool_take(stkpy_pool *pool, const stkpy_kept *stop, stk_error *err)
{
    waiter me = {0};
    init_cond(&me.ready);
    pthread_mutex_lock(&pool->lock);
    *find_locked(pool, NULL) = &me;
    stkpy_process *process = wait_turn_locked(pool, &me, stop, err);
    *find_locked(pool, &me) = me.next;
    if (process) {
        process->taken = true;
        pool->taken++;
    }
    wake_first_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&me.ready);
    return process;
}

void stkpy_pool_give(stkpy_pool *pool, stkpy_process *process)
{
    pthread_mutex_lock(&pool->lock);
    process->taken = false;
    pool->taken--;
    wake_first_locked(pool);
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits for the answer that the process owes. A grandchild may keep the socket open, so its death is looked for too. */
static stk_status await(stkpy_pool *pool, stkpy_process *process, const stkpy_kept *stop, stkpy_post *out,
                        stk_error *err)
{
    struct pollfd one = {.fd = process->channel.fd, .events = POLLIN};
    for (;;) {
        const int ready = poll(&one, 1, LOOK_MS);
        if (ready > 0)
            break;
        if (is_stopping(pool, stop))
            return stopped(err);
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
            return died(pool, process, err);
    }
    ssize_t got;
    do
        got = recv(process->channel.fd, out, sizeof *out, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof *out)
        return died(pool, process, err);
    process->owes = false;
    return STK_OK;
}

stk_status stkpy_process_clear(stkpy_pool *pool, stkpy_process *process, const stkpy_kept *stop, stk_error *err)
{
    stkpy_post old;
    return process->owes ? await(pool, process, stop, &old, err) : STK_OK;
}

stk_status stkpy_process_ask(stkpy_pool *pool, stkpy_process *process, uint64_t count, const stkpy_kept *stop,
                             stk_error *err)
{
    const stkpy_post ask = {count, process->channel.request.used};
    stkpy_post answer;
    ssize_t sent;
    do
        sent = send(process->channel.fd, &ask, sizeof ask, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)sizeof ask)
        return died(pool, process, err);
    process->owes = true;
    const stk_status status = await(pool, process, stop, &answer, err);
    if (status != STK_OK)
        return status;
    if (answer.count != count || !stkpy_area_follow(&process->channel.answer, answer.used))
        return stk_error_set(err, STKPY_FUNCTION_FAILED, "process %ld gave no answer that can be read", process->pid);
    return STK_OK;
}

/* ---- seen from Python ---- */

size_t stkpy_pool_pids(const stkpy_pool *pool, long *out)
{
    size_t count = 0;
    for (int i = 0; stkpy_pool_is_ours(pool) && i < pool->count; i++)
        if (pool->processes[i].pid)
            out[count++] = pool->processes[i].pid;
    return count;
}

bool stkpy_pools_init(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}
