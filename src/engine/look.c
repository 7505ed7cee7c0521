/*
 * What the data of a run is known by: what its ops say of the files that they read.
 *
 * Fingerprints guard checkpoints and caches; stamps, which also see times, guard cache files. Ops are asked when the run opens,
 * so that both are of the data as it was then. Those that look long are asked when somebody wants to know; after that their
 * answers stay, under `look`.
 */
#include <time.h>

#include "base/rng.h"
#include "engine/run.h"

#include "base/banned.h"

/* Times of files come from a clock that ticks every few milliseconds, or whole seconds on some file systems. */
#define TICK_NS ((int64_t)20 * 1000000)
#define SECOND_NS ((int64_t)1000000000)

static bool has_data(const stk__step *step)
{
    return step && !step->unused && (step->op->fingerprint || step->op->stamp);
}

static void ask_stamp_locked(stk__step *step)
{
    step->newest_ns = 0;
    step->stamp = step->op->stamp ? step->op->stamp(&step->call, &step->newest_ns) : 0;
}

static void look_locked(stk__step *step)
{
    if (step->looked)
        return;
    step->fingerprint = step->op->fingerprint ? step->op->fingerprint(&step->call) : 0;
    ask_stamp_locked(step);
    step->looked = true;
}

/* The source, then the others among the first `steps` of the segment; NULL past the last. */
static stk__step *step_at(const stk_pipeline *p, int steps, int i)
{
    for (int k = -1; k < steps; k++) {
        stk__step *step = k < 0 ? p->plan.source : p->plan.segment[k];
        if (k >= 0 && step == p->plan.source)
            continue;
        if (has_data(step) && i-- == 0)
            return step;
    }
    return NULL;
}

void stk__look_at_open(stk_pipeline *p)
{
    pthread_mutex_lock(&p->look);
    stk__step *step;
    for (int i = 0; (step = step_at(p, p->plan.segment_count, i)); i++)
        if (!(step->op->flags & STK_OP_LOOKS_LONG))
            look_locked(step);
    pthread_mutex_unlock(&p->look);
}

uint64_t stk__data_fingerprint(stk_pipeline *p, int steps)
{
    uint64_t h = 0;
    stk__step *step;
    pthread_mutex_lock(&p->look);
    for (int i = 0; (step = step_at(p, steps, i)); i++) {
        look_locked(step);
        h = stk__mix(h, step->fingerprint);
    }
    pthread_mutex_unlock(&p->look);
    return h;
}

uint64_t stk__data_stamp(stk_pipeline *p, int steps)
{
    uint64_t h = 0;
    stk__step *step;
    pthread_mutex_lock(&p->look);
    for (int i = 0; (step = step_at(p, steps, i)); i++) {
        look_locked(step);
        h = stk__mix(h, step->stamp);
    }
    pthread_mutex_unlock(&p->look);
    return h;
}

/* How long until a write to a file with this time would give it another one. */
static int64_t until_tick(int64_t newest_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t tick = newest_ns % SECOND_NS ? TICK_NS : SECOND_NS + TICK_NS;
    const int64_t age = (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec - newest_ns;
    return age >= 0 && age < tick ? tick - age : 0; /* a time to come is another machine's, and tells nothing */
}

void stk__data_settle(stk_pipeline *p, int steps)
{
    stk__step *step;
    pthread_mutex_lock(&p->look);
    for (int i = 0; (step = step_at(p, steps, i)); i++) {
        look_locked(step);
        const int64_t wait_ns = until_tick(step->newest_ns);
        if (wait_ns <= 0)
            continue;
        const struct timespec wait = {wait_ns / SECOND_NS, wait_ns % SECOND_NS};
        nanosleep(&wait, NULL);
        ask_stamp_locked(step);
    }
    pthread_mutex_unlock(&p->look);
}
