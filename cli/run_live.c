/* The live line of `stoker run`: rate, batches, waiting and memory, five times a second at most. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "run.h"

#include "base/banned.h"

enum { REDRAW_MS = 250 };

/* What the line before showed, to tell rates of the moment. */
typedef struct live_state {
    int64_t at_ns, samples, wait_ns;
    double samples_per_s, wait_share;
} live_state;

static void live_measure(live_state *live, const stk_stats *stats)
{
    const int64_t now = stk__now_ns();
    const double seconds = (double)(now - live->at_ns) / 1e9;
    if (seconds <= 0)
        return;
    /* Half of the weight lies on the last two seconds, which calms the figures without hiding changes. */
    const double keep = live->at_ns && live->samples ? exp2(-seconds / 2) : 0;
    const double rate = (double)(stats->samples - live->samples) / seconds;
    const double waited = (double)(stats->consumer_wait_ns - live->wait_ns) / 1e9 / seconds;
    live->samples_per_s = keep * live->samples_per_s + (1 - keep) * rate;
    live->wait_share = keep * live->wait_share + (1 - keep) * STK_MIN(waited, 1.0);
    live->at_ns = now;
    live->samples = stats->samples;
    live->wait_ns = stats->consumer_wait_ns;
}

static void live_draw(live_state *live, const stk_stats *stats, int64_t batches)
{
    char line[256];
    stk__text t;
    stk__text_fixed(&t, line, sizeof line);
    live_measure(live, stats);
    cli_text_count(&t, (int64_t)live->samples_per_s);
    stk__text_puts(&t, " samples/s  batch ");
    cli_text_count(&t, batches);
    if (stats->total_batches >= 0) {
        stk__text_puts(&t, " of ");
        cli_text_count(&t, stats->total_batches);
    }
    stk__text_printf(&t, "  wait %.0f %%  memory ", 100 * live->wait_share);
    stk__text_bytes(&t, (uint64_t)stats->buffer_bytes);
    stk__text_puts(&t, " of ");
    stk__text_bytes(&t, (uint64_t)stats->budget_bytes);
    if (stats->skipped)
        stk__text_printf(&t, "  skipped %lld", (long long)stats->skipped);
    cli_live(line);
}

static void *live_main(void *arg)
{
    run *r = arg;
    live_state live = {.at_ns = r->opened_ns};
    pthread_mutex_lock(&r->live.lock);
    while (!r->live.stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += REDRAW_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (pthread_cond_timedwait(&r->live.wake, &r->live.lock, &until) != ETIMEDOUT)
            continue;
        stk_stats stats;
        stk_pipeline_stats(r->pipeline, &stats);
        live_draw(&live, &stats, atomic_load(&r->next_index));
    }
    pthread_mutex_unlock(&r->live.lock);
    return NULL;
}

void cli_run_live_start(run *r)
{
    if (r->options->quiet || !cli_live_possible())
        return;
    pthread_mutex_init(&r->live.lock, NULL);
    pthread_cond_init(&r->live.wake, NULL);
    r->live.started = pthread_create(&r->live.thread, NULL, live_main, r) == 0;
}

void cli_run_live_stop(run *r)
{
    if (!r->live.started)
        return;
    pthread_mutex_lock(&r->live.lock);
    r->live.stop = true;
    pthread_cond_signal(&r->live.wake);
    pthread_mutex_unlock(&r->live.lock);
    pthread_join(r->live.thread, NULL);
    pthread_cond_destroy(&r->live.wake);
    pthread_mutex_destroy(&r->live.lock);
    r->live.started = false;
    cli_live_clear();
}

bool cli_run_progress(void *arg, const char *what, int64_t done, int64_t total)
{
    run *r = arg;
    const int64_t now = stk__now_ns();
    if (!r->options->quiet && now - r->progress_ns >= REDRAW_MS * (int64_t)1000000) {
        r->progress_ns = now;
        char line[256];
        if (total > 0)
            snprintf(line, sizeof line, "%s: %.0f %%", what, 100.0 * (double)done / (double)total);
        else if (done == 0)
            snprintf(line, sizeof line, "%s", what);
        else
            snprintf(line, sizeof line, "%s: %lld", what, (long long)done);
        cli_live(line);
    }
    return !cli_interrupted();
}
