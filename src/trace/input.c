/* Reading and decompressing of trace files. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "trace/input.h"

#include "base/banned.h"

enum {
    WINDOW_BYTES = 4 << 20,
    SLACK = 64,
    RAW_BYTES = 1 << 18,
    BLOCK_BYTES = 1 << 20,
    SMALL_BLOCK = 1 << 14,
    BLOCKS = 3,
    WAIT_MS = 100, /* between two looks whether the user wants to stop */
};

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

/* A block that the decompressing thread has filled. */
typedef struct block {
    uint8_t *data;
    size_t size;
} block;

struct stk__input {
    char *path;
    int fd;        /* -1: from memory */
    bool may_wait; /* no regular file: bytes come when they come */
    bool (*go_on)(void *arg);
    void *go_on_arg;
    const uint8_t *memory;
    size_t memory_size, memory_next;
    packing packing;
    uint64_t total_bytes;
    atomic_uint_fast64_t raw_read;

    /* the window */
    uint8_t *window;
    size_t capacity, start, end; /* bytes [start, end) of the window are left */
    int64_t offset;              /* of window[start] */
    bool finished;               /* nothing comes behind the window */

    /* decompression: used by the thread while it runs, else by the reader */
    uint8_t *raw;
    size_t raw_capacity, raw_start, raw_end;
    size_t block_bytes; /* what is unpacked at a time */
    bool raw_finished;
    z_stream zlib;
    ZSTD_DStream *zstd;
    bool between_members; /* nothing of the next member has been seen */
    stk_error failure;    /* status STK_OK while all is well */

    /* the thread */
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock */
    block blocks[BLOCKS];
    size_t filled, taken; /* counted for ever */
    bool thread_done;
    atomic_bool stop; /* also read without it */
};

static void input_fail(stk__input *in, stk_status status, const char *what)
{
    stk_error_clear(&in->failure);
    stk_error_set(&in->failure, status, "%s", what);
    snprintf(in->failure.file, sizeof in->failure.file, "%s", in->path);
    in->failure.offset =
        (int64_t)atomic_load_explicit(&in->raw_read, memory_order_relaxed) - (int64_t)(in->raw_end - in->raw_start);
}

/* The reader's own thread asks the user; the decompressing one is told. */
static bool is_stopped(stk__input *in)
{
    if (in->threaded)
        return atomic_load_explicit(&in->stop, memory_order_relaxed);
    return in->go_on && !in->go_on(in->go_on_arg);
}

/* Until there is something to read; false when it was stopped meanwhile. */
static bool wait_for_bytes(stk__input *in)
{
    struct pollfd wait = {.fd = in->fd, .events = POLLIN};
    while (in->may_wait && poll(&wait, 1, WAIT_MS) <= 0) {
        if (is_stopped(in)) {
            input_fail(in, STK_CANCELLED, "reading was stopped");
            return false;
        }
    }
    return true;
}

/* Bytes of the file itself; 0 at its end, and after a failure, which is kept. */
static size_t read_raw(stk__input *in, uint8_t *out, size_t size)
{
    size_t got = 0;
    if (in->fd < 0) {
        got = STK_MIN(size, in->memory_size - in->memory_next);
        if (got)
            memcpy(out, in->memory + in->memory_next, got);
        in->memory_next += got;
    } else if (wait_for_bytes(in)) {
        ssize_t n;
        do
            n = read(in->fd, out, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            input_fail(in, STK_IO, strerror(errno));
        else
            got = (size_t)n;
    }
    atomic_fetch_add_explicit(&in->raw_read, got, memory_order_relaxed);
    return got;
}

static bool fill_raw(stk__input *in)
{
    if (in->raw_start < in->raw_end)
        return true;
    if (in->raw_finished)
        return false;
    in->raw_start = 0;
    in->raw_end = read_raw(in, in->raw, in->raw_capacity);
    in->raw_finished = in->raw_end == 0;
    return in->raw_end > 0;
}

/* What follows the last member: zeros of a tape, or nothing that belongs to it. */
static bool is_gzip_start(const stk__input *in)
{
    return in->raw[in->raw_start] == 0x1f;
}

static size_t inflate_some(stk__input *in, uint8_t *out, size_t size)
{
    z_stream *z = &in->zlib;
    z->next_out = out;
    z->avail_out = (uInt)size;
    while (z->avail_out && !in->failure.status) {
        if (!fill_raw(in)) {
            if (!in->between_members && !in->failure.status)
                input_fail(in, STK_CORRUPT, "gzip data is cut off");
            break;
        }
        if (in->between_members && !is_gzip_start(in)) {
            input_fail(in, STK_CORRUPT, "bytes behind the gzip data that are not gzip");
            break;
        }
        in->between_members = false;
        z->next_in = in->raw + in->raw_start;
        z->avail_in = (uInt)(in->raw_end - in->raw_start);
        const int result = inflate(z, Z_NO_FLUSH);
        in->raw_start = in->raw_end - z->avail_in;
        if (result == Z_STREAM_END) {
            inflateReset(z);
            in->between_members = true;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            input_fail(in, result == Z_MEM_ERROR ? STK_NOMEM : STK_CORRUPT, z->msg ? z->msg : "damaged gzip data");
        }
    }
    return size - z->avail_out;
}

static size_t unzstd_some(stk__input *in, uint8_t *out, size_t size)
{
    ZSTD_outBuffer to = {out, size, 0};
    while (to.pos < size && !in->failure.status) {
        if (!fill_raw(in)) {
            /* the decoder may hold output back when the last call filled `out` */
            ZSTD_inBuffer none = {in->raw, 0, 0};
            const size_t before = to.pos;
            const size_t result = in->between_members ? 0 : ZSTD_decompressStream(in->zstd, &to, &none);
            if (!in->between_members && (ZSTD_isError(result) || to.pos == before)) {
                if (!in->failure.status)
                    input_fail(in, STK_CORRUPT, "zstd data is cut off");
                break;
            }
            if (to.pos == before)
                break;
            continue;
        }
        ZSTD_inBuffer from = {in->raw, in->raw_end, in->raw_start};
        const size_t result = ZSTD_decompressStream(in->zstd, &to, &from);
        in->raw_start = from.pos;
        if (ZSTD_isError(result))
            input_fail(in, STK_CORRUPT, ZSTD_getErrorName(result));
        else
            in->between_members = result == 0;
    }
    return to.pos;
}

static size_t unpack(stk__input *in, uint8_t *out, size_t size)
{
    if (in->failure.status)
        return 0;
    return in->packing == GZIP ? inflate_some(in, out, size) : unzstd_some(in, out, size);
}

static void *unpack_loop(void *arg)
{
    stk__input *in = arg;
    pthread_mutex_lock(&in->lock);
    while (!in->stop) {
        if (in->filled - in->taken == BLOCKS) {
            pthread_cond_wait(&in->changed, &in->lock);
            continue;
        }
        block *b = &in->blocks[in->filled % BLOCKS];
        pthread_mutex_unlock(&in->lock);
        b->size = unpack(in, b->data, BLOCK_BYTES);
        pthread_mutex_lock(&in->lock);
        if (b->size == 0)
            break;
        in->filled++;
        pthread_cond_signal(&in->changed);
    }
    in->thread_done = true;
    pthread_cond_signal(&in->changed);
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

/* Takes a block of the thread; 0 at the end. The window has room for it. */
static size_t take_block(stk__input *in, uint8_t *out)
{
    size_t size = 0;
    pthread_mutex_lock(&in->lock);
    while (in->filled == in->taken && !in->thread_done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        /* a thread that was stopped ends at once, with what is told of it */
        if (pthread_cond_timedwait(&in->changed, &in->lock, &until) == ETIMEDOUT && in->go_on &&
            !in->go_on(in->go_on_arg))
            in->stop = true;
    }
    if (in->filled != in->taken) {
        const block *b = &in->blocks[in->taken % BLOCKS];
        size = b->size;
        pthread_mutex_unlock(&in->lock);
        memcpy(out, b->data, size);
        pthread_mutex_lock(&in->lock);
        in->taken++;
        pthread_cond_signal(&in->changed);
    }
    pthread_mutex_unlock(&in->lock);
    return size;
}

/* More bytes for the window, at most `room`. */
static size_t more(stk__input *in, uint8_t *out, size_t room)
{
    if (in->packing == PLAIN)
        return in->failure.status ? 0 : read_raw(in, out, room);
    return in->threaded ? take_block(in, out) : unpack(in, out, room);
}

/* Moves what is left to the front and makes room for `want` bytes and a block. */
static bool make_room(stk__input *in, size_t want)
{
    const size_t left = in->end - in->start;
    if (in->start)
        memmove(in->window, in->window + in->start, left);
    in->start = 0;
    in->end = left;
    const size_t least = want > SIZE_MAX / 4 ? 0 : want + in->block_bytes;
    if (least && least <= in->capacity)
        return true;
    size_t capacity = in->capacity;
    while (least && capacity < least)
        capacity *= 2;
    uint8_t *bigger = least ? stk__realloc(in->window, capacity + SLACK) : NULL;
    if (!bigger) {
        input_fail(in, STK_NOMEM, "out of memory for an item of the file");
        return false;
    }
    memset(bigger + in->capacity, 0, capacity - in->capacity + SLACK);
    in->window = bigger;
    in->capacity = capacity;
    return true;
}

const uint8_t *stk__input_peek(stk__input *in, size_t want, size_t *out_size)
{
    if (want == 0)
        want = 1;
    if (in->end - in->start < want && !in->finished && make_room(in, want)) {
        /* plain files fill the whole window, so that it is moved seldom */
        while (in->end < want || (in->packing == PLAIN && in->end < in->capacity / 2)) {
            const size_t got = more(in, in->window + in->end, in->capacity - in->end);
            if (got == 0) {
                in->finished = true;
                break;
            }
            in->end += got;
        }
        memset(in->window + in->end, 0, SLACK);
    }
    *out_size = in->end - in->start;
    return in->window + in->start;
}

void stk__input_advance(stk__input *in, size_t bytes)
{
    in->start += bytes;
    in->offset += (int64_t)bytes;
}

int64_t stk__input_offset(const stk__input *in)
{
    return in->offset;
}

bool stk__input_at_end(stk__input *in)
{
    size_t size;
    stk__input_peek(in, 1, &size);
    return size == 0;
}

stk_status stk__input_status(const stk__input *in, stk_error *err)
{
    if (in->threaded && !in->finished)
        return STK_OK; /* the thread's until the last block has been taken */
    if (in->failure.status && err)
        *err = in->failure;
    return in->failure.status;
}

const char *stk__input_path(const stk__input *in)
{
    return in->path;
}

const char *stk__input_compression(const stk__input *in)
{
    return in->packing == GZIP ? "gzip" : in->packing == ZSTD ? "zstd" : "";
}

uint64_t stk__input_bytes_read(const stk__input *in)
{
    return atomic_load_explicit(&((stk__input *)(uintptr_t)in)->raw_read, memory_order_relaxed);
}

uint64_t stk__input_bytes_total(const stk__input *in)
{
    return in->total_bytes;
}

int stk__input_take_file(stk__input *in, uint64_t *out_size)
{
    if (in->fd < 0 || in->may_wait || in->packing != PLAIN || !in->total_bytes || in->failure.status)
        return -1;
    *out_size = in->total_bytes;
    in->offset = (int64_t)in->total_bytes;
    in->start = in->end;
    in->finished = true;
    atomic_store_explicit(&in->raw_read, 0, memory_order_relaxed);
    return in->fd;
}

void stk__input_count_read(stk__input *in, uint64_t bytes)
{
    const uint64_t read = atomic_load_explicit(&in->raw_read, memory_order_relaxed);
    atomic_store_explicit(&in->raw_read, STK_MIN(read + bytes, in->total_bytes), memory_order_relaxed);
}

/* ---- opening and closing ---- */

static bool start_thread(stk__input *in)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        in->blocks[i].data = stk__alloc(BLOCK_BYTES);
        if (!in->blocks[i].data)
            return false;
    }
    /* signals belong to the program's own threads */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    in->threaded = true; /* before it starts, since it looks; not written again while it runs */
    if (pthread_create(&in->thread, NULL, unpack_loop, in) != 0)
        in->threaded = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return true; /* without a thread it is unpacked on the way */
}

static bool start_unpacking(stk__input *in)
{
    static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    const size_t size = in->raw_end;
    if (size >= 2 && in->raw[0] == 0x1f && in->raw[1] == 0x8b)
        in->packing = GZIP;
    else if (size >= 4 && memcmp(in->raw, zstd_magic, 4) == 0)
        in->packing = ZSTD;
    if (in->packing == GZIP && inflateInit2(&in->zlib, 15 + 16) != Z_OK)
        return false;
    if (in->packing == ZSTD) {
        in->zstd = ZSTD_createDStream();
        /* a window of 128 MiB is what zstd --ultra makes; more is refused, since it would be memory without bound */
        if (!in->zstd || ZSTD_isError(ZSTD_initDStream(in->zstd)))
            return false;
    }
    if (in->packing == PLAIN) {
        memcpy(in->window, in->raw, size);
        in->end = size;
        memset(in->window + size, 0, SLACK);
        return true;
    }
    return in->fd < 0 || start_thread(in);
}

static stk_status input_start(stk__input *in, stk__input **out, stk_error *err)
{
    const bool small = in->fd < 0 && in->memory_size < RAW_BYTES;
    in->raw_capacity = small ? in->memory_size + 4 : RAW_BYTES;
    in->block_bytes = small ? SMALL_BLOCK : BLOCK_BYTES;
    in->capacity = in->fd < 0 ? in->raw_capacity + in->block_bytes : WINDOW_BYTES;
    in->window = stk__alloc(in->capacity + SLACK);
    in->raw = stk__alloc(in->raw_capacity);
    if (!in->window || !in->raw) {
        const size_t wanted = in->capacity;
        stk__input_close(in);
        return stk__nomem(wanted, err);
    }
    while (in->raw_end < 4) { /* a pipe may give less than a magic number */
        const size_t got = read_raw(in, in->raw + in->raw_end, in->raw_capacity - in->raw_end);
        if (got == 0)
            break;
        in->raw_end += got;
    }
    if (in->failure.status) {
        const stk_status status = stk__input_status(in, err);
        stk__input_close(in);
        return status;
    }
    if (!start_unpacking(in)) {
        stk__input_close(in);
        return stk__nomem(BLOCK_BYTES, err);
    }
    *out = in;
    return STK_OK;
}

static stk__input *input_new(const char *path)
{
    stk__input *in = stk__calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->path = stk__strdup(path);
    if (!in->path) {
        stk__free(in);
        return NULL;
    }
    in->fd = -1;
    stk_error_clear(&in->failure);
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->changed, NULL);
    return in;
}

/* A named pipe may wait for its writer before there is anything to read. */
static bool is_unwanted(void *arg)
{
    return is_stopped(arg);
}

stk_status stk__input_open(const char *path, stk__input **out, stk_error *err)
{
    return stk__input_open_watched(path, NULL, NULL, out, err);
}

stk_status stk__input_open_watched(const char *path, bool (*go_on)(void *arg), void *arg, stk__input **out,
                                   stk_error *err)
{
    const bool from_pipe = strcmp(path, "-") == 0;
    stk__input *in = input_new(from_pipe ? "standard input" : path);
    if (!in)
        return stk__nomem(sizeof *in, err);
    in->go_on = go_on;
    in->go_on_arg = arg;
    if (from_pipe) {
        in->fd = dup(STDIN_FILENO);
        if (in->fd < 0) {
            stk__input_close(in);
            return stk_error_set(err, STK_IO, "standard input: %s", strerror(errno));
        }
    } else {
        stk__file_id id;
        const stk__interrupt before = stk__interrupt_get();
        if (go_on)
            stk__interrupt_set((stk__interrupt){is_unwanted, in});
        const stk_status status = stk__file_open(path, &in->fd, &id, err);
        stk__interrupt_set(before);
        if (status != STK_OK) {
            in->fd = -1;
            stk__input_close(in);
            return status;
        }
        in->total_bytes = (uint64_t)id.size_bytes;
    }
    struct stat info;
    in->may_wait = fstat(in->fd, &info) == 0 && !S_ISREG(info.st_mode);
    return input_start(in, out, err);
}

stk_status stk__input_open_memory(const void *data, size_t size, stk__input **out, stk_error *err)
{
    stk__input *in = input_new("memory");
    if (!in)
        return stk__nomem(sizeof *in, err);
    in->memory = data;
    in->memory_size = size;
    in->total_bytes = size;
    return input_start(in, out, err);
}

void stk__input_close(stk__input *in)
{
    if (!in)
        return;
    if (in->threaded) {
        pthread_mutex_lock(&in->lock);
        in->stop = true;
        pthread_cond_signal(&in->changed);
        pthread_mutex_unlock(&in->lock);
        pthread_join(in->thread, NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        stk__free(in->blocks[i].data);
    if (in->packing == GZIP)
        inflateEnd(&in->zlib);
    ZSTD_freeDStream(in->zstd);
    if (in->fd >= 0)
        close(in->fd);
    pthread_cond_destroy(&in->changed);
    pthread_mutex_destroy(&in->lock);
    stk__free(in->window);
    stk__free(in->raw);
    stk__free(in->path);
    stk__free(in);
}
