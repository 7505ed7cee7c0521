/* A ring of parts: filled by one thread, compressed by any, sent by one in the order in which they were filled. */
#include "formats/hdf5_write_queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/wire.h"
#include "formats/hdf5_wire.h"

#include "base/banned.h"

enum {
    PARTS_MAX = 64,
    FLIGHT_BYTES = 4 << 20,  /* requests besides their chunks; a larger one goes alone */
    KEEP_BYTES = 1 << 20,    /* a part that had a larger request gives its memory back */
    ANSWER_BYTES = 64 << 10, /* an answer is a status and a message */
    TIMEOUT_MS = 10 * 60000, /* a file may lie on a slow disk */
    ENCODER_BYTES = 2 << 20, /* tables of a compressor */
    ENCODED_SLACK = 64 << 10 /* by which data that cannot be compressed grows */
};

enum { PART_FREE, PART_PLAIN, PART_BUSY, PART_READY };

struct stk__h5_queue {
    /* set before start, then const */
    stk__h5_helper *helper;
    stk__h5_part parts[PARTS_MAX];
    int part_count, thread_count;
    pthread_t threads[PARTS_MAX], sender;
    int started;
    bool sender_started;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* a part is to be compressed, or stop */
    pthread_cond_t ready; /* a part may be sent, or stop */
    pthread_cond_t room;  /* a part is free, or failed */
    /* guarded by lock */
    int first, count; /* parts that are not free */
    size_t weight;    /* of them */
    bool stop;
    stk_status status; /* the first failure; no part is worked on after it */
    stk_error error;
};

size_t stk__h5_queue_memory(const stk__h5_queue_config *config)
{
    const size_t chunk = config->chunk_bytes + ENCODED_SLACK;
    const size_t encoded = config->threads ? (size_t)config->parts * chunk : 0;
    return encoded + chunk + (size_t)config->threads * (2 * chunk + ENCODER_BYTES) + FLIGHT_BYTES +
           sizeof(stk__h5_queue);
}

static void fail_locked(stk__h5_queue *q, stk_status status, const stk_error *error)
{
    if (q->status == STK_OK) {
        q->status = status;
        q->error = *error;
    }
    pthread_cond_broadcast(&q->room);
    pthread_cond_broadcast(&q->ready);
    pthread_cond_broadcast(&q->work);
}

/* ---- compressing ---- */

static stk__h5_part *find_plain_locked(stk__h5_queue *q)
{
    for (int i = 0; q->status == STK_OK && i < q->count; i++) {
        stk__h5_part *part = &q->parts[(q->first + i) % q->part_count];
        if (part->state == PART_PLAIN)
            return part;
    }
    return NULL;
}

static stk_status encode(stk__h5_encoder *encoder, stk__h5_part *part, stk_error *err)
{
    const stk_status status =
        stk__h5_encode(encoder, part->filters, part->filter_count, part->chunk, part->size, &part->encoded,
                       &part->encoded_capacity, &part->encoded_size, &part->mask, err);
    if (status != STK_OK && part->field)
        snprintf(err->field, sizeof err->field, "%s", part->field);
    return status;
}

static void *compress_main(void *arg)
{
    stk__h5_queue *q = arg;
    stk_error error;
    stk_error_clear(&error);
    stk__h5_encoder *encoder = NULL;
    stk_status status = stk__h5_encoder_new(&encoder, &error);
    pthread_mutex_lock(&q->lock);
    if (status != STK_OK)
        fail_locked(q, status, &error);
    while (!q->stop && status == STK_OK) {
        stk__h5_part *part = find_plain_locked(q);
        if (!part) {
            pthread_cond_wait(&q->work, &q->lock);
            continue;
        }
        part->state = PART_BUSY;
        pthread_mutex_unlock(&q->lock);
        status = encode(encoder, part, &error);
        pthread_mutex_lock(&q->lock);
        part->state = PART_READY;
        if (status != STK_OK)
            fail_locked(q, status, &error);
        else if (part == &q->parts[q->first])
            pthread_cond_signal(&q->ready);
    }
    pthread_mutex_unlock(&q->lock);
    stk__h5_encoder_free(encoder);
    return NULL;
}

/* ---- sending ---- */

static stk_status send_part(stk__h5_queue *q, const stk__h5_part *part, stk__text *whole, stk_error *err)
{
    const stk__text *message = &part->request;
    uint8_t *answer = NULL;
    size_t size = 0;
    if (part->size) {
        const bool encoded = part->filter_count > 0;
        stk__text_reset(whole);
        stk__text_write(whole, part->request.data, part->request.length);
        stk__wire_put_uint(whole, STK__H5_REQUEST_MASK, encoded ? part->mask : 0);
        stk__wire_put_bytes(whole, STK__H5_REQUEST_DATA, encoded ? part->encoded : part->chunk,
                            encoded ? part->encoded_size : part->size);
        message = whole;
    }
    if (message->failed || part->request.failed)
        return stk__nomem(part->size, err);
    const stk_status status = stk__h5_helper_ask(q->helper, message, TIMEOUT_MS, ANSWER_BYTES, &answer, &size, err);
    if (status == STK_OK)
        stk__free(answer);
    else if (part->field)
        snprintf(err->field, sizeof err->field, "%s", part->field);
    return status;
}

static void free_part_locked(stk__h5_queue *q, stk__h5_part *part)
{
    q->first = (q->first + 1) % q->part_count;
    q->count--;
    q->weight -= part->weight;
    part->state = PART_FREE;
    pthread_cond_signal(&q->room);
}

static void *send_main(void *arg)
{
    stk__h5_queue *q = arg;
    stk__text whole = STK__TEXT_INIT;
    stk_error error;
    stk_error_clear(&error);
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        stk__h5_part *part = &q->parts[q->first];
        if (q->status != STK_OK || !q->count || part->state != PART_READY) {
            pthread_cond_wait(&q->ready, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        const stk_status status = send_part(q, part, &whole, &error);
        pthread_mutex_lock(&q->lock);
        if (status != STK_OK)
            fail_locked(q, status, &error);
        free_part_locked(q, part);
    }
    pthread_mutex_unlock(&q->lock);
    stk__text_clear(&whole);
    return NULL;
}

/* ---- filling ---- */

static stk_status failure_locked(const stk__h5_queue *q, stk_error *err)
{
    if (q->status != STK_OK && err)
        *err = q->error;
    return q->status;
}

stk_status stk__h5_queue_get(stk__h5_queue *q, size_t request_bytes, stk__h5_part **out, stk_error *err)
{
    pthread_mutex_lock(&q->lock);
    while (q->status == STK_OK &&
           (q->count == q->part_count || (q->weight && q->weight + request_bytes > FLIGHT_BYTES)))
        pthread_cond_wait(&q->room, &q->lock);
    const stk_status status = failure_locked(q, err);
    /* No other thread looks at it before it is put. */
    stk__h5_part *part = &q->parts[(q->first + q->count) % q->part_count];
    pthread_mutex_unlock(&q->lock);
    if (status != STK_OK)
        return status;
    if (part->request.capacity > KEEP_BYTES)
        stk__text_clear(&part->request);
    stk__text_reset(&part->request);
    part->request.failed = false;
    part->field = NULL;
    part->filter_count = part->size = 0;
    *out = part;
    return STK_OK;
}

void stk__h5_queue_put(stk__h5_queue *q, stk__h5_part *part)
{
    const bool plain = part->size && part->filter_count;
    pthread_mutex_lock(&q->lock);
    part->weight = part->request.length;
    part->state = plain ? PART_PLAIN : PART_READY;
    q->weight += part->weight;
    q->count++;
    if (plain)
        pthread_cond_signal(&q->work);
    else if (q->count == 1)
        pthread_cond_signal(&q->ready);
    pthread_mutex_unlock(&q->lock);
}

stk_status stk__h5_queue_drain(stk__h5_queue *q, stk_error *err)
{
    pthread_mutex_lock(&q->lock);
    while (q->status == STK_OK && q->count)
        pthread_cond_wait(&q->room, &q->lock);
    const stk_status status = failure_locked(q, err);
    pthread_mutex_unlock(&q->lock);
    return status;
}

/* ---- from open to close ---- */

static stk_status start_threads(stk__h5_queue *q, stk_error *err)
{
    if (pthread_create(&q->sender, NULL, send_main, q))
        return stk_error_set(err, STK_NOMEM, "cannot start a thread for writing");
    q->sender_started = true;
    for (; q->started < q->thread_count; q->started++)
        if (pthread_create(&q->threads[q->started], NULL, compress_main, q))
            return stk_error_set(err, STK_NOMEM, "cannot start thread %d of %d for compressing", q->started + 1,
                                 q->thread_count);
    return STK_OK;
}

stk_status stk__h5_queue_open(const stk__h5_queue_config *config, stk__h5_queue **out, stk_error *err)
{
    stk__h5_queue *q = stk__calloc(1, sizeof *q);
    if (!q)
        return stk__nomem(sizeof *q, err);
    q->helper = config->helper;
    q->part_count = STK_MIN(STK_MAX(config->parts, 1), (int)PARTS_MAX);
    q->thread_count = STK_MIN(config->threads, (int)PARTS_MAX);
    for (int i = 0; i < q->part_count; i++)
        q->parts[i].chunk = config->memory + (size_t)i * config->chunk_bytes;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->ready, NULL);
    pthread_cond_init(&q->room, NULL);
    const stk_status status = start_threads(q, err);
    if (status != STK_OK) {
        stk__h5_queue_close(q);
        return status;
    }
    *out = q;
    return STK_OK;
}

void stk__h5_queue_close(stk__h5_queue *q)
{
    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->work);
    pthread_cond_broadcast(&q->ready);
    pthread_mutex_unlock(&q->lock);
    if (q->sender_started)
        pthread_join(q->sender, NULL);
    for (int i = 0; i < q->started; i++)
        pthread_join(q->threads[i], NULL);
    for (int i = 0; i < q->part_count; i++) {
        stk__text_clear(&q->parts[i].request);
        stk__free(q->parts[i].encoded);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->ready);
    pthread_cond_destroy(&q->room);
    stk__free(q);
}
