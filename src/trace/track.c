/* Tracks: what producers call, a few nanoseconds each. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "trace/recorder_impl.h"

#include "base/banned.h"

size_t stk__power_of_two_below(size_t n)
{
    size_t p = 1;
    while (p <= n / 2)
        p *= 2;
    return p;
}

/* Memory of a track with this ring. */
static size_t track_bytes(const stk_recorder *r, size_t ring)
{
    return sizeof(stk__track) + stk__ring_bytes(ring) + r->names_max * sizeof(stk__tally);
}

/* A ring takes at most an eighth of what is left, so early tracks leave something for later ones. */
static size_t ring_size(const stk_recorder *r, size_t ring_max)
{
    const size_t used = atomic_load(&r->memory_used);
    const size_t left = r->memory_cap > used ? r->memory_cap - used : 0;
    const size_t events = left / 8 / sizeof(stk__event);
    return STK_MAX(stk__power_of_two_below(STK_MIN(events, ring_max)), (size_t)STK__RING_MIN);
}

void stk__track_free(stk__track *track)
{
    if (!track)
        return;
    stk__ring_clear(&track->ring);
    stk__free(track->tallies);
    stk__free(track->name);
    stk__free(track);
}

static stk__track *track_make(stk_recorder *r, const char *name, size_t ring_max, stk__track *home)
{
    char text[STK__NAME_SIZE];
    stk__escape_terminal(name ? name : "", text, sizeof text);
    const size_t ring = ring_size(r, ring_max), name_size = strlen(text) + 1, bytes = track_bytes(r, ring) + name_size;
    if (atomic_fetch_add(&r->memory_used, bytes) + bytes > r->memory_cap)
        goto out_of_memory;
    stk__track *track = stk__alloc_aligned(sizeof *track);
    if (!track)
        goto out_of_memory;
    memset(track, 0, sizeof *track);
    track->recorder = r;
    track->home = home;
    track->tallies = stk__calloc(r->names_max, sizeof *track->tallies);
    track->name = stk__strdup(text);
    for (int i = 0; i < STK__LANES; i++)
        stk__nest_init(&track->nests[i]);
    if (!stk__ring_init(&track->ring, ring) || !track->tallies || !track->name) {
        stk__track_free(track);
        goto out_of_memory;
    }
    return track;

out_of_memory:
    atomic_fetch_sub(&r->memory_used, bytes);
    return NULL;
}

stk__track *stk__track_new(stk_recorder *r, const char *name, size_t ring_max, stk__track *home)
{
    stk__track *track = NULL;
    pthread_mutex_lock(&r->lock);
    const size_t count = atomic_load_explicit(&r->tracks_count, memory_order_relaxed);
    if (count < STK__TRACKS_MAX)
        track = track_make(r, name, ring_max, home);
    if (track) {
        r->tracks[count] = track;
        atomic_store_explicit(&r->tracks_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&r->lock);
    return track;
}

stk__track *stk__recorder_track(stk_recorder *r, const char *name)
{
    return r && !atomic_load(&r->stopped) ? stk__track_new(r, name, r->ring_max, NULL) : NULL;
}

/* One writer each, so no locked instruction is needed. */
static inline void bump(atomic_uint_fast64_t *x, uint64_t by)
{
    atomic_store_explicit(x, atomic_load_explicit(x, memory_order_relaxed) + by, memory_order_relaxed);
}

/* At most one post for each drain. */
static STK_NOINLINE void wake_writer(stk_recorder *r)
{
    if (!atomic_load_explicit(&r->wake_sent, memory_order_relaxed) && !atomic_exchange(&r->wake_sent, true))
        sem_post(&r->wake);
}

static inline int32_t known_name(const stk__track *track, int32_t name)
{
    return STK_LIKELY(name > 0 && (size_t)name < track->recorder->names_max) ? name : track->recorder->name_other;
}

/* NULL, or of a recorder that has finished its file. */
static inline bool is_off(const stk__track *track)
{
    return !track || STK_UNLIKELY(atomic_load_explicit(&track->recorder->stopped, memory_order_relaxed));
}

void stk__track_lose(stk__track *track, int32_t name, int64_t ns)
{
    stk__tally *tally = &track->tallies[known_name(track, name)];
    bump(&tally->count, 1);
    bump(&tally->total_ns, (uint64_t)ns);
    bump(&tally->lost, 1);
}

/* The place for an event of this name, tallied; NULL when the ring is full. */
static inline stk__event *event_reserve(stk__track *track, int32_t name, uint64_t ns)
{
    bool busy;
    stk__tally *tally = &track->tallies[name];
    bump(&tally->count, 1);
    bump(&tally->total_ns, ns);
    if (STK_UNLIKELY(!track->tid))
        track->tid = gettid();
    stk__event *event = stk__ring_reserve(&track->ring, &busy);
    if (STK_UNLIKELY(busy))
        wake_writer(track->recorder);
    if (STK_UNLIKELY(!event))
        bump(&tally->lost, 1);
    return event;
}

void stk__track_brief(stk__track *track, int32_t name, int64_t start_ns, int64_t end_ns)
{
    if (is_off(track))
        return;
    if (end_ns - start_ns >= STK__BRIEF_NS) {
        stk__track_slice(track, name, start_ns, end_ns, NULL);
        return;
    }
    stk__tally *tally = &track->tallies[known_name(track, name)];
    bump(&tally->count, 1);
    bump(&tally->total_ns, end_ns > start_ns ? (uint64_t)(end_ns - start_ns) : 0);
}

void stk__track_slice(stk__track *track, int32_t name, int64_t start_ns, int64_t end_ns, const stk__slice_args *args)
{
    if (is_off(track))
        return;
    if (STK_UNLIKELY(start_ns < 0))
        start_ns = 0;
    if (STK_UNLIKELY(end_ns < start_ns))
        end_ns = start_ns;
    name = known_name(track, name);
    stk__event *event = event_reserve(track, name, (uint64_t)(end_ns - start_ns));
    if (STK_UNLIKELY(!event))
        return;
    *event = (stk__event){.start_ns = start_ns, .end_ns = end_ns, .name = name, .kind = STK__EVENT_SLICE};
    if (args) {
        memcpy(event->value, args->value, sizeof event->value);
        memcpy(event->arg, args->name, sizeof event->arg);
    }
    stk__ring_commit(&track->ring);
}

void stk__track_counter(stk__track *track, int32_t name, int64_t at_ns, double value)
{
    if (is_off(track))
        return;
    name = known_name(track, name);
    if (!isfinite(value)) { /* neither JSON nor the viewers have a place for it */
        stk__track_lose(track, name, 0);
        return;
    }
    stk__event *event = event_reserve(track, name, 0);
    if (!event)
        return;
    at_ns = STK_MAX(at_ns, 0);
    *event = (stk__event){.start_ns = at_ns, .end_ns = at_ns, .name = name, .kind = STK__EVENT_COUNTER};
    memcpy(&event->value[0], &value, sizeof value);
    stk__ring_commit(&track->ring);
}
