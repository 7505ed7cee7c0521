/* The public marks: steps, spans and counters of the calling thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "trace/recorder_impl.h"

#include "base/banned.h"

enum { STEPS_RING = 1024 };

/*
 * Which marks belong to this thread. The generation tells recorders apart, not the address: a new recorder may get the
 * memory of a closed one. Entries of closed recorders are never looked at and get overwritten.
 */
typedef struct marks_cache {
    uint64_t generation;
    stk__marks *marks; /* NULL: the thread got no track */
} marks_cache;

enum { CACHE_SIZE = 4 };
static _Thread_local marks_cache cache[CACHE_SIZE];
static _Thread_local uint64_t thread_serial;

static void thread_name(char *out, size_t size)
{
    if (gettid() == getpid()) {
        snprintf(out, size, "main");
        return;
    }
    if (pthread_getname_np(pthread_self(), out, size) || !out[0])
        snprintf(out, size, "thread");
}

static stk__marks *marks_new(stk_recorder *r)
{
    char name[32];
    thread_name(name, sizeof name);
    stk__marks *m = stk__recorder_alloc(r, sizeof *m);
    if (!m)
        return NULL;
    m->thread = thread_serial;
    m->spans = stk__track_new(r, name, r->ring_max, NULL);
    if (m->spans)
        m->spans->tid = gettid();
    pthread_mutex_lock(&r->lock);
    m->next = r->marks;
    r->marks = m;
    pthread_mutex_unlock(&r->lock);
    return m;
}

static STK_NOINLINE stk__marks *marks_find(stk_recorder *r, marks_cache *entry)
{
    static atomic_uint_fast64_t serials;
    if (!thread_serial)
        thread_serial = atomic_fetch_add(&serials, 1) + 1;
    pthread_mutex_lock(&r->lock);
    stk__marks *m = r->marks;
    while (m && m->thread != thread_serial)
        m = m->next;
    pthread_mutex_unlock(&r->lock);
    if (!m)
        m = marks_new(r);
    *entry = (marks_cache){r->generation, m};
    return m;
}

static void marks_lock(stk__marks *m)
{
    while (STK_UNLIKELY(atomic_exchange_explicit(&m->busy, true, memory_order_acquire)))
        sched_yield();
}

static void marks_unlock(stk__marks *m)
{
    atomic_store_explicit(&m->busy, false, memory_order_release);
}

/* The marks of this thread, locked; NULL when it has no track. */
static stk__marks *marks_enter(stk_recorder *r)
{
    marks_cache *entry = &cache[r->generation % CACHE_SIZE];
    stk__marks *m = STK_LIKELY(entry->generation == r->generation) ? entry->marks : marks_find(r, entry);
    if (STK_UNLIKELY(!m || !m->spans))
        return NULL;
    marks_lock(m);
    return m;
}

/* No recorder, or one that has finished its file. */
static bool is_off(const stk_recorder *r)
{
    return !r || STK_UNLIKELY(atomic_load_explicit(&r->stopped, memory_order_relaxed));
}

static void refuse(stk_recorder *r)
{
    atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
}

/* The pointer is only a hint where to look: the text behind it may have changed since, so it is compared. */
static int32_t find_name(stk_recorder *r, stk__marks *m, const char *name, const char *category)
{
    if (!name)
        name = "";
    stk__known_name *known = &m->known[((uintptr_t)name * 0x9e3779b97f4a7c15u >> 32) % STK_COUNT(m->known)];
    if (known->pointer == name && known->category == category && strcmp(r->names[known->name].text, name) == 0)
        return known->name;
    *known = (stk__known_name){name, category, stk__recorder_name(r, name, category)};
    return known->name;
}

static void span_begin(stk_recorder *r, stk__marks *m, const char *name)
{
    const int32_t id = find_name(r, m, name, "span");
    if (m->depth == STK__SPAN_DEPTH) {
        m->too_deep++;
        stk__track_lose(m->spans, id, 0);
        return;
    }
    int64_t now = stk__now_ns();
    /* An outer span starts before an inner one even on a coarse clock: see nest.c for what ties cost. */
    if (m->depth && now <= m->stack[m->depth - 1].start_ns)
        now = m->stack[m->depth - 1].start_ns + 1;
    m->stack[m->depth++] = (stk__open_span){id, now};
}

void stk_span_begin(stk_recorder *r, const char *name)
{
    if (is_off(r))
        return;
    stk__marks *m = marks_enter(r);
    if (!m)
        return;
    span_begin(r, m, name);
    marks_unlock(m);
}

static void span_end(stk__marks *m, int64_t now_ns)
{
    const stk__open_span *span = &m->stack[--m->depth];
    /* An inner span whose start was moved must not end after this one. */
    m->last_end_ns = STK_MAX(STK_MAX(now_ns, span->start_ns), m->last_end_ns);
    stk__track_slice(m->spans, span->name, span->start_ns, m->last_end_ns, NULL);
}

void stk_span_end(stk_recorder *r)
{
    if (is_off(r))
        return;
    const int64_t now = stk__now_ns();
    stk__marks *m = marks_enter(r);
    if (!m) {
        refuse(r);
        return;
    }
    if (m->too_deep)
        m->too_deep--;
    else if (m->depth)
        span_end(m, now);
    marks_unlock(m);
}

static void step_end(stk_recorder *r, stk__marks *m, int64_t now_ns)
{
    if (!m->step_open)
        return;
    const stk__slice_args args = {.name = {r->arg_step}, .value = {m->step}};
    stk__track_slice(m->steps, r->name_step, m->step_start_ns, now_ns, &args);
    m->step_open = false;
}

static void step_begin(stk_recorder *r, stk__marks *m, int64_t number, int64_t now_ns)
{
    if (!m->steps_asked) {
        m->steps_asked = true;
        m->steps = stk__track_new(r, "steps", STEPS_RING, m->spans);
    }
    if (!m->steps) {
        refuse(r);
        return;
    }
    step_end(r, m, now_ns);
    m->step_open = true;
    m->step = number;
    m->step_start_ns = now_ns;
}

void stk_step(stk_recorder *r, int64_t number)
{
    if (is_off(r))
        return;
    const int64_t now = stk__now_ns();
    stk__marks *m = marks_enter(r);
    if (!m) {
        refuse(r);
        return;
    }
    step_begin(r, m, number, now);
    marks_unlock(m);
}

void stk_step_end(stk_recorder *r)
{
    if (is_off(r))
        return;
    const int64_t now = stk__now_ns();
    stk__marks *m = marks_enter(r);
    if (!m)
        return;
    step_end(r, m, now);
    marks_unlock(m);
}

void stk_counter(stk_recorder *r, const char *name, double value)
{
    if (is_off(r))
        return;
    stk__marks *m = marks_enter(r);
    if (!m) {
        refuse(r);
        return;
    }
    stk__track_counter(m->spans, find_name(r, m, name, "counter"), stk__now_ns(), value);
    marks_unlock(m);
}

void stk__marks_finish(stk_recorder *r, int64_t now_ns)
{
    pthread_mutex_lock(&r->lock);
    stk__marks *first = r->marks; /* new ones are put before it; `next` of these stays */
    pthread_mutex_unlock(&r->lock);
    for (stk__marks *m = first; m; m = m->next) {
        marks_lock(m);
        while (m->spans && m->depth)
            span_end(m, now_ns);
        step_end(r, m, now_ns);
        marks_unlock(m);
    }
}
