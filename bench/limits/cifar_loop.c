/* The limit of the CIFAR pipeline: its own kernels called in a bare loop, from PNGs in memory to a batch in memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/image.h"
#include "kernels/image.h"
#include "kernels/store.h"
#include "kernels/warp.h"
#include "pictures.h"

enum { SIDE = 32, PIXEL = 3, VALUES = SIDE * SIDE * PIXEL, BATCH = 512, PAD = 4, HOLE = 8 };

typedef struct loop {
    stk__image_decoder *decoders[2];
    picture waiting; /* for the second of its pair */
    stk__store store;
    uint64_t random;
    int slot;
    uint8_t view[VALUES], turned[VALUES];
    float (*batch)[VALUES];
} loop;

static void *take_memory(void *arg, size_t size, stk_error *err)
{
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void give_memory(void *arg, void *p, size_t size)
{
    free(p);
}

static void *loop_open(void)
{
    static const stk__image_memory memory = {take_memory, give_memory, NULL};
    static const float mean[PIXEL] = {125.3f, 123.0f, 113.9f}, std[PIXEL] = {63.0f, 62.1f, 66.7f};
    loop *l = calloc(1, sizeof *l);
    if (!l || stk__image_decoder_new(&memory, &l->decoders[0], NULL) != STK_OK ||
        stk__image_decoder_new(&memory, &l->decoders[1], NULL) != STK_OK)
        abort();
    l->batch = aligned_alloc(64, BATCH * sizeof *l->batch);
    if (!l->batch)
        abort();
    l->random = (uint64_t)(uintptr_t)l | 1;
    l->store = (stk__store){.dtype = STK_FLOAT32, .width = SIDE, .height = SIDE, .channels = PIXEL};
    for (int i = 0; i < PIXEL; i++) {
        l->store.scale[i] = 1 / std[i];
        l->store.bias[i] = -mean[i] / std[i];
    }
    return l;
}

/* xorshift64: one draw gives all that a picture needs. */
static uint64_t draw(loop *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    return l->random ^= l->random << 17;
}

static stk__pixels square(void *data, int32_t element_bytes)
{
    return (stk__pixels){data, SIDE, SIDE, PIXEL, element_bytes, (ptrdiff_t)SIDE * PIXEL * element_bytes};
}

static void turn(const stk__pixels *out, const stk__pixels *in, double angle)
{
    static const uint8_t black[STK__CHANNELS_MAX];
    const double c = cos(angle), s = sin(angle), half = SIDE / 2.0;
    const double m[6] = {c, -s, half - c * half + s * half, s, c, half - s * half - c * half};
    stk__warp_affine(out, in, m, true, black);
}

static void augment_one(loop *l, const stk__image_job *job)
{
    static const float zeros[PIXEL];
    stk__image_got got;
    stk_error error = {0};
    if (stk__image_decode(job->decoder, job->data, job->size, job->info, job->want, &got, &error) != STK_OK)
        abort();
    const uint64_t r = draw(l);
    const stk__pixels view = square(l->view, 1), turned = square(l->turned, 1);
    const int32_t x = (int32_t)((r & 0xffff) * (2 * PAD + 1) >> 16) - PAD;
    const int32_t y = (int32_t)((r >> 16 & 0xffff) * (2 * PAD + 1) >> 16) - PAD;
    stk__copy_view(&view, &got.pixels, x, y, r >> 63, false, STK__BORDER_REFLECT, NULL);
    turn(&turned, &view, ((double)(r >> 32 & 0xffff) / 65536 * 20 - 10) * (3.14159265358979323846 / 180));
    float *slot = l->batch[l->slot];
    l->slot = (l->slot + 1) % BATCH;
    stk__store_image(&l->store, slot, &turned, false, false);
    const stk__pixels stored = square(slot, sizeof(float));
    stk__fill_rect(&stored, (int32_t)(r >> 48 & 31) - HOLE / 2, (int32_t)(r >> 53 & 31) - HOLE / 2, HOLE, HOLE,
                   (const uint8_t *)zeros);
}

/* In pairs, as the pipeline takes them. */
static void augment(void *state, picture p)
{
    loop *l = state;
    if (!l->waiting.data) {
        l->waiting = p;
        return;
    }
    const picture pictures[2] = {l->waiting, p};
    stk__image_info info[2];
    stk__image_want want[2];
    stk__image_job job[2];
    for (int i = 0; i < 2; i++) {
        if (stk__image_probe(pictures[i].data, pictures[i].size, false, &info[i], NULL) != STK_OK)
            abort();
        want[i] = (stk__image_want){.width = info[i].width, .height = info[i].height, .channels = PIXEL};
        job[i] = (stk__image_job){l->decoders[i], pictures[i].data, pictures[i].size, &info[i], &want[i]};
    }
    stk__image_prepare_pair(&job[0], &job[1]);
    augment_one(l, &job[0]);
    augment_one(l, &job[1]);
    l->waiting.data = NULL;
}

static void loop_close(void *state)
{
    loop *l = state;
    stk__image_decoder_free(l->decoders[0]);
    stk__image_decoder_free(l->decoders[1]);
    free(l->batch);
    free(l);
}

int main(int argc, char **argv)
{
    static const work cifar_work = {loop_open, augment, loop_close};
    return work_main(&cifar_work, argc, argv);
}
