/*
 * The life of a run: from open until the Run object and every batch are gone, in whatever order and thread.
 *
 * Stopping means to wait for workers, which may be in a Python function or in a read that never ends, and the last
 * reference may go away anywhere, also in such a function. So a thread of its own stops a run, and who wants to wait
 * for it does so without the GIL and not for ever. Once stopped, a run is only memory; the last batch to go frees it.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"
#include "run.h"

/* Every run whose workers may be alive. A forked child begins with none. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stkpy_run *first;    /* guarded by lock */
    unsigned generation; /* of processes; written in a child that has one thread */
    atomic_bool exiting;
    pthread_t exiter; /* set before `exiting` */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

bool stkpy_exiting(void)
{
    return atomic_load(&all.exiting);
}

bool stkpy_run_forked(const stkpy_run *run)
{
    return run->generation != all.generation;
}

static struct timespec time_after(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    ns += t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

void stkpy_exit_rest(void)
{
    if (!stkpy_exiting() || pthread_equal(pthread_self(), all.exiter))
        return;
    Py_BEGIN_ALLOW_THREADS;
    for (;;)
        pause();
    Py_END_ALLOW_THREADS;
}

/* ---- counts ---- */

stkpy_run *stkpy_run_new(void)
{
    stkpy_run *run = calloc(1, sizeof *run);
    if (!run) {
        PyErr_NoMemory();
        return NULL;
    }
    run->generation = all.generation;
    run->pid = (long)getpid();
    run->opener = pthread_self();
    atomic_init(&run->refs, 1);
    pthread_mutex_init(&run->turn, NULL);
    pthread_mutex_init(&run->parking.lock, NULL);
    stkpy_log_init(&run->log);
    return run;
}

void stkpy_run_ref(stkpy_run *run)
{
    atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed);
}

/* The run has stopped, or was never opened: what is left is memory. */
void stkpy_run_unref(stkpy_run *run)
{
    if (atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* The locks of the parent may be held by threads that do not exist here: leave all as it is. */
    if (stkpy_run_forked(run))
        return;
    stk_pipeline_close(run->pipeline);
    for (size_t i = 0; i < sizeof run->strings / sizeof *run->strings; i++)
        free(run->strings[i]);
    for (char **field = run->fields; field && *field; field++)
        free(*field);
    free(run->fields);
    stkpy_log_clear(&run->log);
    pthread_mutex_destroy(&run->parking.lock);
    pthread_mutex_destroy(&run->turn);
    free(run);
}

void stkpy_run_release(stkpy_run *run, const stk_batch *batch)
{
    atomic_fetch_sub_explicit(&run->held, 1, memory_order_relaxed);
    if (!stkpy_run_forked(run))
        stk_batch_release(run->pipeline, batch);
}

void stkpy_hold_ref(stkpy_hold *hold)
{
    atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
}

void stkpy_hold_end(stkpy_hold *hold)
{
    stkpy_run *run = hold->run;
    stkpy_run_release(run, hold->batch);
    free(hold);
    stkpy_run_unref(run);
}

void stkpy_hold_unref(stkpy_hold *hold)
{
    if (atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (!hold->run)
        free(hold);
    else if (!stkpy_park(hold))
        stkpy_hold_end(hold);
}

enum { ALIGN = 64 };

static size_t aligned(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* The next piece of a block, aligned; NULL stays NULL. */
static const void *copy_piece(char **at, const void *data, size_t size)
{
    if (!data)
        return NULL;
    char *to = *at;
    memcpy(to, data, size);
    *at = to + aligned(size);
    return to;
}

static size_t offsets_size(const stk_column *c)
{
    return c->offsets ? (size_t)(c->shape[0] + 1) * sizeof *c->offsets : 0;
}

static size_t shapes_size(const stk_column *c)
{
    return c->row_shapes ? (size_t)c->shape[0] * (size_t)(c->ndim - 1) * sizeof *c->row_shapes : 0;
}

static size_t column_size(const stk_column *c)
{
    return aligned(strlen(c->name) + 1) + aligned((size_t)c->size_bytes) + aligned(offsets_size(c)) +
           aligned(shapes_size(c));
}

static void copy_column(char **at, const stk_column *source, stk_column *out)
{
    *out = *source;
    out->name = copy_piece(at, source->name, strlen(source->name) + 1);
    out->data = copy_piece(at, source->data, (size_t)source->size_bytes);
    out->offsets = copy_piece(at, source->offsets, offsets_size(source));
    out->row_shapes = copy_piece(at, source->row_shapes, shapes_size(source));
}

stkpy_hold *stkpy_hold_copy(const stk_column *const *sources, int32_t count, const stk_column **out_columns)
{
    const size_t head = aligned(sizeof(stkpy_hold)), list = aligned((size_t)count * sizeof **sources);
    size_t size = head + list;
    for (int32_t i = 0; i < count; i++)
        size += column_size(sources[i]);
    void *block = NULL;
    if (posix_memalign(&block, ALIGN, size) != 0)
        return NULL;
    stkpy_hold *hold = block;
    *hold = (stkpy_hold){.run = NULL};
    atomic_init(&hold->refs, 1);
    stk_column *columns = (stk_column *)((char *)block + head);
    char *at = (char *)block + head + list;
    for (int32_t i = 0; i < count; i++)
        copy_column(&at, sources[i], &columns[i]);
    *out_columns = columns;
    return hold;
}

void stkpy_run_clear(stkpy_run *run)
{
    Py_CLEAR(run->functions);
    Py_CLEAR(run->recorder);
    Py_CLEAR(run->kept.exception);
    Py_CLEAR(run->names);
    Py_CLEAR(run->parking.fence);
    stkpy_park_forget(run);
}

/* ---- turns ---- */

bool stkpy_run_turn(stkpy_run *run)
{
    if (pthread_mutex_trylock(&run->turn) == 0)
        return true;
    const struct timespec until = time_after(50000000);
    atomic_fetch_add(&run->waiting, 1);
    const bool mine = pthread_mutex_timedlock(&run->turn, &until) == 0;
    atomic_fetch_sub(&run->waiting, 1);
    return mine;
}

void stkpy_run_turn_end(stkpy_run *run)
{
    pthread_mutex_unlock(&run->turn);
    /* A mutex is not fair: without a pause, a thread that takes turns in a loop would get them all. */
    if (atomic_load_explicit(&run->waiting, memory_order_relaxed) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* ---- stopping ---- */

void stkpy_run_list(stkpy_run *run)
{
    pthread_mutex_lock(&all.lock);
    run->next = all.first;
    run->link = &all.first;
    if (run->next)
        run->next->link = &run->next;
    all.first = run;
    run->listed = true;
    pthread_mutex_unlock(&all.lock);
}

static void unlist(stkpy_run *run)
{
    pthread_mutex_lock(&all.lock);
    *run->link = run->next;
    if (run->next)
        run->next->link = run->link;
    run->listed = false;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

/* Its Run object is gone already: the references are dropped here, while exit still waits for this run. */
static void clear_orphan(stkpy_run *run)
{
    if (stkpy_exiting())
        return;
    const PyGILState_STATE gil = PyGILState_Ensure();
    stkpy_run_clear(run);
    PyGILState_Release(gil);
}

static void *stop_main(void *arg)
{
    stkpy_run *run = arg;
    pthread_mutex_lock(&run->turn);
    stk_pipeline_stop(run->pipeline);
    pthread_mutex_unlock(&run->turn);
    stkpy_park_end(run);
    pthread_mutex_lock(&all.lock);
    run->stopped = true;
    const bool orphan = run->orphan;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
    if (orphan)
        clear_orphan(run);
    unlist(run);
    stkpy_run_unref(run);
    return NULL;
}

/* A signal belongs to threads of Python, so this one takes none. */
static bool start_thread(stkpy_run *run)
{
    pthread_t thread;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    const bool started = pthread_create(&thread, NULL, stop_main, run) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

void stkpy_run_stop(stkpy_run *run)
{
    if (stkpy_run_forked(run))
        return;
    pthread_mutex_lock(&all.lock);
    const bool begin = run->listed && !run->stopping;
    run->stopping = true;
    pthread_mutex_unlock(&all.lock);
    if (!begin)
        return;
    atomic_store(&run->kept.stop, true);
    stk_pipeline_cancel(run->pipeline);
    stkpy_run_ref(run);
    if (start_thread(run))
        return;
    Py_BEGIN_ALLOW_THREADS;
    stop_main(run);
    Py_END_ALLOW_THREADS;
}

bool stkpy_run_stopped(stkpy_run *run, int64_t timeout_ns)
{
    const struct timespec until = time_after(timeout_ns);
    pthread_mutex_lock(&all.lock);
    while (!run->stopped && pthread_cond_timedwait(&all.changed, &all.lock, &until) == 0)
        continue;
    const bool stopped = run->stopped;
    pthread_mutex_unlock(&all.lock);
    return stopped;
}

/*
 * The thread that opened the run is none of its workers, so it can wait for them. Others may be: a function of the run
 * can drop the last reference to it, or the garbage collector in its thread. And no wait is for ever.
 */
void stkpy_run_abandon(stkpy_run *run)
{
    enum { PATIENCE_NS = 1000000000 };
    bool done = stkpy_run_forked(run);
    if (!done) {
        stkpy_run_stop(run);
        const bool wait = pthread_equal(pthread_self(), run->opener) && !stkpy_exiting();
        Py_BEGIN_ALLOW_THREADS;
        stkpy_run_stopped(run, wait ? PATIENCE_NS : 0);
        Py_END_ALLOW_THREADS;
        pthread_mutex_lock(&all.lock);
        done = run->stopped;
        run->orphan = !done;
        pthread_mutex_unlock(&all.lock);
    }
    if (done)
        stkpy_run_clear(run);
}

/* ---- the end of the interpreter, and children ---- */

/* The hook of atexit: threads can still take the GIL, and no run may need it after this. */
static PyObject *stop_all(PyObject *self, PyObject *none)
{
    enum { PATIENCE_S = 5 };
    all.exiter = pthread_self();
    atomic_store(&all.exiting, true);
    for (;;) {
        pthread_mutex_lock(&all.lock);
        stkpy_run *run = all.first;
        while (run && run->stopping)
            run = run->next;
        if (run)
            stkpy_run_ref(run);
        pthread_mutex_unlock(&all.lock);
        if (!run)
            break;
        stkpy_run_stop(run);
        stkpy_run_unref(run);
    }
    Py_BEGIN_ALLOW_THREADS;
    const struct timespec until = time_after((int64_t)PATIENCE_S * 1000000000);
    pthread_mutex_lock(&all.lock);
    while (all.first && pthread_cond_timedwait(&all.changed, &all.lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&all.lock);
    stkpy_pools_end();
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static void after_fork(void)
{
    all.generation++;
    all.first = NULL;
    pthread_mutex_init(&all.lock, NULL);
    pthread_cond_init(&all.changed, NULL);
}

int stkpy_life_init(void)
{
    static PyMethodDef hook = {"stop_all", stop_all, METH_NOARGS, NULL};
    if (pthread_atfork(NULL, NULL, after_fork)) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *function = atexit ? PyCFunction_New(&hook, NULL) : NULL;
    PyObject *done = function ? PyObject_CallMethod(atexit, "register", "O", function) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(function);
    Py_XDECREF(atexit);
    return done ? 0 : -1;
}
