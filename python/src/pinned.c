/*
 * Batches in memory that the CUDA driver knows, so that copies to the GPU run by themselves while the loop goes on.
 *
 * CUDA is taken from the libcudart that the framework has loaded; nothing here links to it. A batch whose tensors are
 * dropped may still be read by a copy in flight. So it is parked; the next call of Run.next asks the framework for an
 * event on its stream, and gives the batch back when that event has come.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* ---- CUDA ---- */

static int find_cudart(struct dl_phdr_info *info, size_t size, void *out)
{
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libcudart.so"))
        return 0;
    *(void **)out = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    return *(void **)out != NULL;
}

/* POSIX wants a function as void *; C needs the detour. */
static void take(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);
    memcpy(out_function, &symbol, sizeof symbol);
}

static bool check_alloc(stkpy_cuda *cuda)
{
    void *probe = NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = cuda->host_alloc(&probe, 4096, 1);
    if (status == 0)
        status = cuda->host_free(probe);
    Py_END_ALLOW_THREADS;
    if (status == 0)
        return true;
    PyErr_Format(PyExc_RuntimeError,
                 "pinned memory: cudaHostAlloc failed with CUDA error %d; is there a GPU and a driver for it?", status);
    return false;
}

bool stkpy_cuda_find(stkpy_cuda *cuda)
{
    void *library = NULL;
    int (*get_device)(int *) = NULL;
    dl_iterate_phdr(find_cudart, &library);
    if (!library) {
        PyErr_SetString(PyExc_RuntimeError,
                        "pinned memory: no libcudart.so is loaded in this process; import a framework that "
                        "uses CUDA first (torch, say), or leave pinned memory off");
        return false;
    }
    /* The handle stays open: the library must not go away under the batches. */
    take(library, "cudaHostAlloc", &cuda->host_alloc);
    take(library, "cudaFreeHost", &cuda->host_free);
    take(library, "cudaSetDevice", &cuda->set_device);
    take(library, "cudaGetDevice", &get_device);
    if (!cuda->host_alloc || !cuda->host_free || !cuda->set_device || !get_device || get_device(&cuda->device) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "pinned memory: the libcudart.so of this process has no GPU to work with");
        return false;
    }
    return check_alloc(cuda);
}

/* In a worker, whose current device is the first one: without set_device a context would be made there too. */
void *stkpy_cuda_alloc(void *arg, size_t size)
{
    enum { PORTABLE = 1 };
    const stkpy_cuda *cuda = arg;
    void *p = NULL;
    if (cuda->set_device(cuda->device) != 0 || cuda->host_alloc(&p, size ? size : 1, PORTABLE) != 0)
        return NULL;
    return p;
}

/* It waits for the GPU. At exit CUDA may be gone already, and the memory goes with the process. */
void stkpy_cuda_free(void *arg, void *p, size_t size)
{
    const stkpy_cuda *cuda = arg;
    if (p && !stkpy_exiting())
        cuda->host_free(p);
}

/* ---- parking ---- */

void stkpy_park_set(stkpy_run *run, PyObject *fence)
{
    stkpy_parking *parking = &run->parking;
    pthread_mutex_lock(&parking->lock);
    const bool ended = parking->ended; /* nobody would look for the event any more */
    if (!ended)
        atomic_store(&parking->on, true);
    pthread_mutex_unlock(&parking->lock);
    if (ended)
        return;
    PyObject *before = parking->fence;
    Py_INCREF(fence);
    parking->fence = fence;
    Py_XDECREF(before);
}

bool stkpy_park(stkpy_hold *hold)
{
    stkpy_parking *parking = &hold->run->parking;
    if (!atomic_load_explicit(&parking->on, memory_order_relaxed) || stkpy_run_forked(hold->run))
        return false;
    pthread_mutex_lock(&parking->lock);
    const bool on = atomic_load(&parking->on); /* again: the end of the run takes what is parked, once */
    if (on) {
        hold->next = parking->parked;
        parking->parked = hold;
        atomic_fetch_add(&parking->count, 1);
    }
    pthread_mutex_unlock(&parking->lock);
    return on;
}

static void end_holds(stkpy_parking *parking, stkpy_hold *hold)
{
    while (hold) {
        stkpy_hold *next = hold->next;
        atomic_fetch_sub(&parking->count, 1);
        stkpy_hold_end(hold);
        hold = next;
    }
}

static void park_again(stkpy_parking *parking, stkpy_hold *holds)
{
    stkpy_hold **last = &holds;
    while (*last)
        last = &(*last)->next;
    pthread_mutex_lock(&parking->lock);
    *last = parking->parked;
    parking->parked = holds;
    pthread_mutex_unlock(&parking->lock);
}

static void put_fenced(stkpy_parking *parking, stkpy_fenced *group)
{
    pthread_mutex_lock(&parking->lock);
    group->next = parking->fenced;
    parking->fenced = group;
    pthread_mutex_unlock(&parking->lock);
}

/* Puts what was dropped until now behind an event of its own. */
static bool fence_parked(stkpy_parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    stkpy_hold *holds = parking->parked;
    parking->parked = NULL;
    pthread_mutex_unlock(&parking->lock);
    if (!holds)
        return true;
    stkpy_fenced *group = malloc(sizeof *group);
    PyObject *event = group && parking->fence ? PyObject_CallNoArgs(parking->fence) : NULL;
    if (!event) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        park_again(parking, holds);
        free(group);
        return false;
    }
    *group = (stkpy_fenced){.event = event, .holds = holds};
    put_fenced(parking, group);
    return true;
}

static stkpy_fenced *take_fenced(stkpy_parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    stkpy_fenced *list = parking->fenced;
    parking->fenced = NULL;
    pthread_mutex_unlock(&parking->lock);
    return list;
}

/* 1: the event has come, 0: not yet, -1 with an exception. */
static int has_come(PyObject *event, bool wait)
{
    PyObject *answer = PyObject_CallMethod(event, wait ? "synchronize" : "query", NULL);
    const int come = !answer ? -1 : wait ? 1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return come;
}

bool stkpy_park_sweep(stkpy_run *run, bool wait)
{
    stkpy_parking *parking = &run->parking;
    if (atomic_load(&parking->count) == 0)
        return true;
    bool fine = fence_parked(parking);
    for (stkpy_fenced *group = take_fenced(parking); group;) {
        stkpy_fenced *next = group->next;
        const int come = fine ? has_come(group->event, wait) : 0;
        fine = fine && come >= 0;
        if (come <= 0) {
            put_fenced(parking, group);
        } else {
            end_holds(parking, group->holds);
            Py_DECREF(group->event);
            free(group);
        }
        group = next;
    }
    return fine;
}

void stkpy_park_end(stkpy_run *run)
{
    stkpy_parking *parking = &run->parking;
    pthread_mutex_lock(&parking->lock);
    parking->ended = true;
    atomic_store(&parking->on, false);
    stkpy_hold *parked = parking->parked;
    parking->parked = NULL;
    pthread_mutex_unlock(&parking->lock);
    end_holds(parking, parked);
    for (;;) {
        pthread_mutex_lock(&parking->lock);
        stkpy_fenced *group = parking->fenced;
        while (group && !group->holds)
            group = group->next;
        stkpy_hold *holds = group ? group->holds : NULL;
        if (group)
            group->holds = NULL;
        pthread_mutex_unlock(&parking->lock);
        if (!holds)
            return;
        end_holds(parking, holds);
    }
}

void stkpy_park_forget(stkpy_run *run)
{
    if (stkpy_run_forked(run)) /* a thread of the parent may have held the lock */
        return;
    for (stkpy_fenced *group = take_fenced(&run->parking); group;) {
        stkpy_fenced *next = group->next;
        end_holds(&run->parking, group->holds);
        Py_XDECREF(group->event);
        free(group);
        group = next;
    }
}
