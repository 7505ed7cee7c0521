/* Opening and closing of the recorder, and its names. */
#define _GNU_SOURCE
#include "trace/recorder.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/recorder_impl.h"

#include "base/banned.h"

enum {
    MEMORY_DEFAULT = 16 * 1024 * 1024,
    MEMORY_MIN = 1024 * 1024,
    FILE_DEFAULT = 1024 * 1024 * 1024,
    FILE_MIN = 1024 * 1024,
    RING_MAX = 16384,
    NAMES_MIN = 64,
    NAMES_MAX = 4096,
};

void *stk__recorder_alloc(stk_recorder *r, size_t size)
{
    if (size > r->memory_cap)
        return NULL;
    size = (size + 63) & ~(size_t)63; /* what stk__alloc_aligned takes */
    if (atomic_fetch_add(&r->memory_used, size) + size <= r->memory_cap) {
        void *p = stk__alloc_aligned(size);
        if (p) {
            memset(p, 0, size);
            return p;
        }
    }
    atomic_fetch_sub(&r->memory_used, size);
    return NULL;
}

size_t stk__recorder_memory(const stk_recorder *r)
{
    return atomic_load(&r->memory_used);
}

static uint32_t hash_name(const char *text, int32_t category)
{
    uint32_t h = 2166136261u ^ (uint32_t)category;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 16777619u;
    return h;
}

static int32_t intern_locked(stk_recorder *r, const char *text, int32_t category)
{
    size_t i = hash_name(text, category) & (r->index_size - 1);
    for (; r->index[i]; i = (i + 1) & (r->index_size - 1)) {
        const stk__name *n = &r->names[r->index[i]];
        if (n->category == category && strcmp(n->text, text) == 0)
            return r->index[i];
    }
    if ((size_t)r->names_count >= r->names_max)
        return 0;
    const size_t size = strlen(text) + 1;
    char *copy = stk__recorder_alloc(r, size);
    if (!copy)
        return 0;
    memcpy(copy, text, size);
    r->names[r->names_count] = (stk__name){copy, category};
    r->index[i] = r->names_count;
    return r->names_count++;
}

int32_t stk__recorder_name(stk_recorder *r, const char *name, const char *category)
{
    if (!r)
        return 0;
    /* Trace formats want UTF-8, and viewers no control bytes. */
    char text[STK__NAME_SIZE], category_text[STK__NAME_SIZE];
    stk__escape_terminal(name ? name : "", text, sizeof text);
    stk__escape_terminal(category ? category : "", category_text, sizeof category_text);
    pthread_mutex_lock(&r->lock);
    int32_t id = 0, category_id = 0;
    if (category_text[0])
        category_id = intern_locked(r, category_text, 0);
    if (category_id || !category_text[0])
        id = intern_locked(r, text, category_id);
    pthread_mutex_unlock(&r->lock);
    return id ? id : r->name_other;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

static stk_status choose_format(const char *path, const stk__format **out, bool *out_gzip, stk_error *err)
{
    if (!path)
        return stk_error_set(err, STK_INVALID, "the trace file has no path");
    *out_gzip = ends_with(path, ".json.gz");
    if (*out_gzip || ends_with(path, ".json")) {
        *out = &stk__format_chrome;
    } else if (ends_with(path, ".pftrace") || ends_with(path, ".perfetto-trace")) {
        *out = &stk__format_perfetto;
    } else {
        return stk_error_set(err, STK_INVALID,
                             "the trace file is '%s', wanted a name that ends in .pftrace, .perfetto-trace, .json or "
                             ".json.gz",
                             path);
    }
    return STK_OK;
}

/* Fields that an older caller's struct does not have keep their defaults. */
static stk_status read_options(const stk_recorder_options *in, stk_recorder_options *out, stk_error *err)
{
    *out = (stk_recorder_options){.struct_size = sizeof *out};
    if (in && in->struct_size < sizeof in->struct_size)
        return stk_error_set(err, STK_INVALID, "struct_size of the recorder options is %zu, wanted %zu",
                             in->struct_size, sizeof *out);
    if (in)
        memcpy(out, in, STK_MIN(in->struct_size, sizeof *out));
    if (out->memory_bytes == 0)
        out->memory_bytes = MEMORY_DEFAULT;
    if (out->memory_bytes < MEMORY_MIN)
        return stk_error_set(err, STK_INVALID, "memory of the recorder is %zu bytes, wanted at least %d",
                             out->memory_bytes, MEMORY_MIN);
    if (!out->process)
        out->process = "stoker";
    if (out->limit_bytes && out->last_bytes)
        return stk_error_set(err, STK_INVALID, "the trace has both a limit and a last part to keep, wanted one of them");
    const uint64_t size = out->last_bytes ? out->last_bytes : out->limit_bytes;
    if (size && size < FILE_MIN)
        return stk_error_set(err, STK_INVALID, "the size of the trace is limited to %llu bytes, wanted at least %d",
                             (unsigned long long)size, FILE_MIN);
    if (!size)
        out->limit_bytes = FILE_DEFAULT;
    return STK_OK;
}

/* Everything but the threads' parts; NULL members tell that memory is out. */
static bool alloc_tables(stk_recorder *r)
{
    r->ring_max = stk__power_of_two_below(r->memory_cap / 8 / sizeof(stk__event));
    r->ring_max = STK_MAX(STK_MIN(r->ring_max, (size_t)RING_MAX), (size_t)STK__RING_MIN);
    r->names_max = STK_MAX(STK_MIN(r->memory_cap / 16384, (size_t)NAMES_MAX), (size_t)NAMES_MIN);
    r->index_size = stk__power_of_two_below(r->names_max * 4);
    r->names = stk__recorder_alloc(r, r->names_max * sizeof *r->names);
    r->index = stk__recorder_alloc(r, r->index_size * sizeof *r->index);
    r->unplaced = stk__recorder_alloc(r, r->names_max * sizeof *r->unplaced);
    r->writer.written = stk__recorder_alloc(r, r->names_max);
    r->batch = stk__recorder_alloc(r, r->ring_max * sizeof *r->batch);
    if (!r->names || !r->index || !r->unplaced || !r->writer.written || !r->batch)
        return false;
    r->names_count = 1; /* 0 is "none" */
    r->name_other = stk__recorder_name(r, "(other)", "other");
    r->name_step = stk__recorder_name(r, "step", "step");
    r->arg_step = stk__recorder_name(r, "step", "arg");
    return r->name_other && r->name_step != r->name_other && r->arg_step != r->name_other;
}

static void recorder_free(stk_recorder *r)
{
    const size_t tracks = atomic_load(&r->tracks_count);
    for (size_t i = 0; i < tracks; i++)
        stk__track_free(r->tracks[i]);
    for (int32_t i = 1; i < r->names_count; i++)
        stk__free(r->names[i].text);
    for (stk__marks *m = r->marks, *next; m; m = next) {
        next = m->next;
        stk__free(m);
    }
    stk__free(r->names);
    stk__free(r->index);
    stk__free(r->unplaced);
    stk__free(r->writer.written);
    stk__free(r->batch);
    pthread_mutex_destroy(&r->lock);
    sem_destroy(&r->wake);
    stk__free(r);
}

/* The thread takes no signals: they belong to the program's own threads. */
static stk_status start_thread(stk_recorder *r, stk_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&r->thread, NULL, stk__recorder_main, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return stk_error_set(err, STK_NOMEM, "cannot start the thread that writes the trace: %s", strerror(code));
    return STK_OK;
}

static stk_recorder *recorder_new(const stk_recorder_options *options, bool gzip)
{
    static atomic_uint_fast64_t generations;
    stk_recorder *r = stk__calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    sem_init(&r->wake, 0, 0);
    r->generation = atomic_fetch_add(&generations, 1) + 1;
    r->memory_cap = options->memory_bytes;
    r->limit_bytes = options->limit_bytes;
    r->last_bytes = options->last_bytes;
    atomic_store(&r->memory_used, sizeof *r + stk__output_bytes(gzip));
    if (!alloc_tables(r)) {
        recorder_free(r);
        return NULL;
    }
    r->writer.output = &r->output;
    r->writer.names = r->names;
    r->writer.pid = getpid();
    r->writer.salt = (uint32_t)stk__mix((uint64_t)stk__now_ns(), (uint64_t)r->writer.pid);
    stk__escape_terminal(options->process, r->writer.process, sizeof r->writer.process);
    return r;
}

stk_status stk_recorder_open(const char *path, const stk_recorder_options *options, stk_recorder **out, stk_error *err)
{
    const stk__format *format = NULL;
    bool gzip = false;
    stk_recorder_options wanted;
    STK_TRY(choose_format(path, &format, &gzip, err));
    STK_TRY(read_options(options, &wanted, err));
    stk_recorder *r = recorder_new(&wanted, gzip);
    if (!r)
        return stk__nomem(wanted.memory_bytes, err);
    r->writer.format = format;
    stk_status status = stk__output_open(&r->output, path, gzip, wanted.last_bytes > 0, err);
    if (status != STK_OK) {
        recorder_free(r);
        return status;
    }
    if (format->head)
        format->head(&r->writer);
    stk__output_end_head(&r->output);
    format->start(&r->writer);
    stk__output_flush(&r->output);
    status = start_thread(r, err);
    if (status != STK_OK) {
        stk__output_close(&r->output, NULL, NULL);
        recorder_free(r);
        return status;
    }
    *out = r;
    return STK_OK;
}

/* Totals per track and name; returns the number of events that were lost. */
static uint64_t write_totals(stk_recorder *r, int64_t now_ns)
{
    uint64_t lost = atomic_load(&r->refused) + r->events_unwritten;
    pthread_mutex_lock(&r->lock); /* runs that are being opened may still add names */
    const int32_t names = r->names_count;
    pthread_mutex_unlock(&r->lock);
    const size_t tracks = atomic_load(&r->tracks_count);
    for (size_t i = 0; i < tracks; i++) {
        for (int32_t name = 1; name < names; name++) {
            const stk__tally *t = &r->tracks[i]->tallies[name];
            const stk__total total = {r->tracks[i]->name, name, atomic_load(&t->count), atomic_load(&t->total_ns),
                                      atomic_load(&t->lost)};
            lost += total.lost;
            if (total.count)
                r->writer.format->total(&r->writer, &total, now_ns);
        }
    }
    for (int32_t name = 1; name < names; name++) {
        const stk__total total = {"(no row left)", name, r->unplaced[name], 0, r->unplaced[name]};
        if (total.lost)
            r->writer.format->total(&r->writer, &total, now_ns);
    }
    return lost;
}

/*
 * Other threads may go on recording. The order matters: the writer ends, so that this thread may empty the rings; room
 * is made; open spans are ended in the name of their threads; from then on nothing is taken; the rings are emptied.
 */
static stk_status finish_file(stk_recorder *r, stk_error *err)
{
    const int64_t now_ns = stk__now_ns();
    atomic_store(&r->end_writer, true);
    sem_post(&r->wake);
    pthread_join(r->thread, NULL);
    /* A ring may be full, and these marks must not be what is lost. */
    stk__recorder_drain(r, true);
    stk__marks_finish(r, now_ns);
    atomic_store(&r->stopped, true);
    stk__recorder_drain(r, true);
    r->stats = (stk_recorder_stats){.events_written = r->events_written - r->events_rolled,
                                    .events_lost = write_totals(r, now_ns),
                                    .events_dropped = r->events_past_limit + r->events_rolled};
    r->writer.format->finish(&r->writer, &r->stats, now_ns);
    r->finished = true;
    return stk__output_close(&r->output, &r->stats.bytes_written, err);
}

stk_status stk_recorder_stop(stk_recorder *r, stk_recorder_stats *out_stats, stk_error *err)
{
    const stk_status status = r && !r->finished ? finish_file(r, err) : STK_OK;
    if (out_stats)
        *out_stats = r ? r->stats : (stk_recorder_stats){0};
    return status;
}

stk_status stk_recorder_close(stk_recorder *r, stk_recorder_stats *out_stats, stk_error *err)
{
    const stk_status status = stk_recorder_stop(r, out_stats, err);
    if (r)
        recorder_free(r);
    return status;
}
