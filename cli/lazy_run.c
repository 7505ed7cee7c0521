/* One measured run of a way: rates and waits by epoch, CPU time, memory, disk. */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lazy.h"
#include "stats/ranks.h"

#include "base/banned.h"

enum { REDRAW_NS = 250000000 };

/* The first epoch, and all that follow it together. */
typedef struct phase {
    int64_t samples, wait_ns, end_ns, cpu_end_ns;
} phase;

typedef struct timing {
    int64_t begin_ns;
    phase first, later;
} timing;

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* ---- the disk ---- */

/* Calls `f` for each file of the caches. */
static void each_file(const lazy *z, void (*f)(const char *path, void *arg), void *arg)
{
    DIR *dir = z->directory[0] ? opendir(z->directory) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[4400];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", z->directory, entry->d_name);
        f(path, arg);
    }
    if (dir)
        closedir(dir);
}

static void add_size(const char *path, void *arg)
{
    struct stat st;
    if (stat(path, &st) == 0)
        *(int64_t *)arg += st.st_size;
}

static void remove_file(const char *path, void *arg)
{
    (void)arg;
    unlink(path);
}

int64_t cli_lazy_disk_bytes(const lazy *z)
{
    int64_t bytes = 0;
    each_file(z, add_size, &bytes);
    return bytes;
}

void cli_lazy_disk_clear(const lazy *z)
{
    each_file(z, remove_file, NULL);
}

/* Better told before than by a full disk. */
static stk_status check_room(const lazy *z, const stk_stats *stats, stk_error *err)
{
    struct statvfs fs;
    if (stats->total_batches < 0 || statvfs(z->directory, &fs))
        return STK_OK;
    const double rows = (double)stats->total_batches * (double)z->batch_rows / (double)z->options->epochs;
    const double wanted = rows * (z->row_bytes + 48); /* 48: header and entry of a sample */
    const double room = (double)fs.f_bavail * (double)fs.f_frsize;
    if (wanted <= 0.9 * room)
        return STK_OK;
    char text[160];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    stk__text_puts(&t, "wants about ");
    stk__text_bytes(&t, (uint64_t)wanted);
    stk__text_puts(&t, ", and ");
    stk__text_bytes(&t, (uint64_t)room);
    stk__text_puts(&t, " are free there; --disk DIR takes another place");
    return stk_error_set(err, STK_IO, "%s", text);
}

/* ---- the run ---- */

void cli_lazy_live(lazy *z, const char *format, ...)
{
    const int64_t now = stk__now_ns();
    if (z->options->quiet || now - z->drawn_ns < REDRAW_NS)
        return;
    z->drawn_ns = now;
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_live(line);
}

static void show_progress(lazy *z, const lazy_way *way, int64_t round, const timing *t, const stk_batch *batch)
{
    const int64_t samples = t->first.samples + t->later.samples;
    cli_lazy_live(z, "round %lld of %lld  %s  epoch %lld of %lld  %.0f samples/s", (long long)round + 1,
                  (long long)z->options->rounds, way->name, (long long)batch->epoch + 1, (long long)z->options->epochs,
                  per_second(samples, stk__now_ns() - t->begin_ns));
}

static stk_status run_batches(lazy *z, const lazy_way *way, int64_t round, stk_pipeline *pipeline, int64_t step_ns,
                              timing *t, stk_error *err)
{
    for (;;) {
        const stk_batch *batch;
        const int64_t asked_ns = stk__now_ns();
        STK_TRY(stk_pipeline_next(pipeline, &batch, err));
        phase *p = batch->epoch == 0 ? &t->first : &t->later;
        const int64_t taken_ns = stk__now_ns();
        p->wait_ns += taken_ns - asked_ns;
        if (step_ns > 0)
            cli_play_step(taken_ns + step_ns);
        p->samples += batch->rows;
        p->end_ns = stk__now_ns();
        p->cpu_end_ns = cpu_ns();
        show_progress(z, way, round, t, batch);
        stk_batch_release(pipeline, batch);
    }
}

static void keep_stats(lazy *z, lazy_way *way, stk_pipeline *pipeline, const timing *t)
{
    stk_stats s;
    stk_pipeline_stats(pipeline, &s);
    z->samples = STK_MAX(z->samples, t->first.samples);
    z->threads = s.threads;
    z->budget_bytes = s.budget_bytes;
    way->peak_bytes = STK_MAX(way->peak_bytes, s.peak_buffer_bytes);
    way->cache_hits = s.cache_hits;
    way->cache_misses = s.cache_misses;
    const int64_t looked = s.cache_hits + s.cache_misses;
    const int64_t later = looked - looked / z->options->epochs; /* the first epoch finds nothing */
    if (looked)
        way->kept = share(STK_MIN(s.cache_hits, later), later);
    if (way == &z->ways[LAZY_DISK])
        way->disk_bytes = cli_lazy_disk_bytes(z);
}

static stk_status run_once(lazy *z, lazy_way *way, int64_t round, int64_t step_ns, timing *t, stk_error *err)
{
    stk_pipeline *pipeline = NULL;
    *t = (timing){.begin_ns = stk__now_ns()}; /* workers begin while it opens */
    stk_status status = stk_pipeline_open(way->text.data, &z->config, &pipeline, err);
    cli_interrupts_cancel(pipeline);
    if (status == STK_OK && way == &z->ways[LAZY_DISK]) {
        stk_stats stats;
        stk_pipeline_stats(pipeline, &stats);
        status = check_room(z, &stats, err);
    }
    if (status == STK_OK)
        status = run_batches(z, way, round, pipeline, step_ns, t, err);
    if (status == STK_END && (t->first.samples == 0 || t->later.samples == 0))
        status = stk_error_set(err, STK_INVALID, "no batch came in an epoch, so there is nothing to compare");
    if (status == STK_END)
        status = stk_pipeline_finish(pipeline, err); /* now a cache over a stream is whole as well */
    if (status == STK_OK)
        keep_stats(z, way, pipeline, t);
    cli_interrupts_cancel(NULL);
    stk_pipeline_close(pipeline);
    cli_lazy_disk_clear(z);
    return status;
}

static stk_status measure_round(lazy *z, lazy_way *way, int64_t round, lazy_round *out, stk_error *err)
{
    timing t;
    STK_TRY(run_once(z, way, round, 0, &t, err));
    *out = (lazy_round){
        .first_rate = per_second(t.first.samples, t.first.end_ns - t.begin_ns),
        .later_rate = per_second(t.later.samples, t.later.end_ns - t.first.end_ns),
        .cpu_per_1000 = (double)(t.later.cpu_end_ns - t.first.cpu_end_ns) / 1e6 / (double)t.later.samples,
    };
    if (z->options->step_ns <= 0)
        return STK_OK;
    STK_TRY(run_once(z, way, round, z->options->step_ns, &t, err));
    out->first_wait_s = (double)t.first.wait_ns / 1e9;
    out->first_wait = share(t.first.wait_ns, t.first.end_ns - t.begin_ns);
    out->later_wait = share(t.later.wait_ns, t.later.end_ns - t.first.end_ns);
    return STK_OK;
}

stk_status cli_lazy_failed(lazy_way *way, const stk_error *err)
{
    if (err->status == STK_CANCELLED)
        return STK_CANCELLED;
    way->err = *err;
    stk_error_format(err, way->why_not, sizeof way->why_not);
    return STK_OK;
}

stk_status cli_lazy_measure(lazy *z, lazy_way *way, int64_t round)
{
    stk_error err;
    stk_error_clear(&err);
    if (measure_round(z, way, round, &way->rounds[way->round_count], &err) != STK_OK)
        return cli_lazy_failed(way, &err);
    way->round_count++;
    return STK_OK;
}

/* ---- figures over the rounds ---- */

double cli_lazy_median(const lazy_way *way, size_t offset)
{
    const size_t n = way->round_count;
    double *values = n ? stk__calloc(n, sizeof *values) : NULL;
    if (!values)
        return 0;
    for (size_t i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&way->rounds[i] + offset, sizeof values[i]);
    const double median = stk__median_double(values, n);
    stk__free(values);
    return median;
}
