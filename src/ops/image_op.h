/*
 * What image ops share. An op only says, for each sample, what it does to an image of this size: it draws its random numbers
 * and describes one act. image_chain.c carries acts out, for one op or for many that run as one. So all sizes are known
 * before anything is decoded, crops and flips cost nothing until pixels are needed, and the last act writes into the batch.
 */
#ifndef STK_OPS_IMAGE_OP_H
#define STK_OPS_IMAGE_OP_H

#include <stdatomic.h>

#include "engine/op.h"
#include "formats/image.h"
#include "kernels/resize.h"
#include "kernels/store.h"

/* The size of an image between two ops. */
typedef struct stk__image_size {
    int32_t width, height, channels;
} stk__image_size;

typedef enum stk__act_kind {
    STK__ACT_NOTHING,
    STK__ACT_VIEW,
    STK__ACT_FLIP,
    STK__ACT_RESIZE,
    STK__ACT_PIXELS,
    STK__ACT_ERASE,
    STK__ACT_NORMALIZE,
    STK__ACT_CAST,
    STK__ACT_LAYOUT
} stk__act_kind;

struct stk__act;
typedef struct stk__image_work stk__image_work;

/* Changes the pixels of work, see stk__work_image. */
typedef stk_status (*stk__act_apply)(const struct stk__act *act, stk__image_work *work, stk_error *err);

/* What one op does to one sample. */
typedef struct stk__act {
    stk__act_kind kind;
    const void *state; /* of the op */
    union {
        struct { /* a rectangle that may reach outside: crop, pad */
            int32_t x, y, width, height;
            stk__border border;
            double fill; /* for all channels */
        } view;
        struct {
            bool x, y;
        } flip;
        struct { /* the rectangle, which lies inside, becomes width x height */
            int32_t x, y, from_width, from_height;
            int32_t width, height;
            stk__filter filter;
            bool antialias;
        } resize;
        struct {
            stk__act_apply apply;
            double numbers[16];
        } pixels;
        struct {
            int32_t x, y, width, height; /* cut to the image */
            double fill;
        } erase;
        struct {
            const float *scale, *bias; /* per channel */
        } normalize;
    } as;
} stk__act;

typedef stk_status (*stk__image_draw)(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                      stk__act *out, stk_error *err);

/* At the start of the state of every image op. */
typedef struct stk__image_op {
    stk__act_kind kind;   /* of its acts, apart from NOTHING; set by the op's schema */
    stk__image_draw draw; /* likewise */
    bool decodes;         /* its field is encoded bytes */
    int in, out;          /* versions of the field */
    stk_field from, to;   /* what they look like; names are the engine's */
    bool classes;         /* the field's numbers name classes */
} stk__image_op;

/* The state of decode_image, which the chain looks into. */
typedef struct stk__decode_state {
    stk__image_op op;
    const char *field;
    int64_t channels; /* 0 becomes 1 or 3 in schema */
    bool exact, orient;
    int64_t max_pixels;
    int64_t mode;  /* stk__decode_mode */
    int64_t dtype; /* stk__decode_dtype */
    atomic_bool told; /* that 16 bits were cut */
} stk__decode_state;

/* What decode_image was told of its pictures. AUTO: what is plain, and an error where it is not. */
typedef enum stk__decode_mode { STK__DECODE_AUTO, STK__DECODE_COLOR, STK__DECODE_INDEX } stk__decode_mode;
typedef enum stk__decode_dtype { STK__DECODE_UINT8_IF_PLAIN, STK__DECODE_UINT8, STK__DECODE_UINT16 } stk__decode_dtype;

/* What an op can work on. */
typedef enum stk__image_takes {
    STK__TAKES_COLORS, /* uint8, and no numbers of classes */
    STK__TAKES_UINT8,
    STK__TAKES_UINT16, /* or uint8 */
    STK__TAKES_ANY
} stk__image_takes;

/*
 * For schema: reads field `name`, which must be an image (height, width, channels up to 4), and prepares `op->to` as a copy of
 * it. The op changes what will be different, then calls stk__image_plan_write.
 */
stk_status stk__image_plan_read(stk_plan *plan, const stk_host *host, stk__image_op *op, const char *name,
                                stk__image_takes takes, stk_error *err);
/* Only the check, for ops that have read the field themselves. */
stk_status stk__image_check(const stk_host *host, const stk_field *f, stk__image_takes takes, stk_error *err);
/* For ops that mix pixels unless their filter is nearest, after stk__image_plan_read. */
stk_status stk__image_check_filter(const stk_host *host, const stk__image_op *op, stk__filter filter, stk_error *err);
stk_status stk__image_plan_write(stk_plan *plan, const stk_host *host, stk__image_op *op, stk_error *err);

/* Callbacks of every image op. */
stk_status stk__image_worker_open(const stk_call *call, void **out_worker, stk_error *err);
void stk__image_worker_close(const stk_call *call);
void stk__image_worker_trim(const stk_call *call);
stk_status stk__image_process(const stk_call *call, stk_sample *sample, stk_error *err);
extern const stk__fuse stk__image_fuse;

#define STK__IMAGE_CALLBACKS                   \
    .worker_open = stk__image_worker_open,     \
    .worker_close = stk__image_worker_close,   \
    .trim = stk__image_worker_trim,            \
    .process = stk__image_process,             \
    .fuse = &stk__image_fuse

/* ---- for STK__ACT_PIXELS ---- */

/* The image, uint8, which may be changed in place. */
stk__pixels *stk__work_image(stk__image_work *work);
/* Memory for a new image, which *stk__work_image must be set to before this is called again: there are two rooms, and the next
   call gives out the other one. */
stk_status stk__work_other(stk__image_work *work, int32_t width, int32_t height, int32_t channels, stk__pixels *out,
                           stk_error *err);
/* Memory until the act is over; NULL with err set. */
void *stk__work_scratch(stk__image_work *work, size_t size, stk_error *err);

/* ---- random numbers ---- */

/* In [low, high]. */
static inline double stk__random_between(stk_random *r, double low, double high)
{
    return low + (high - low) * (double)stk_random_float(r);
}

/* In [0, n), n > 0, without bias that anybody could measure. */
static inline int32_t stk__random_below(stk_random *r, int32_t n)
{
    return (int32_t)(((uint64_t)stk_random_u32(r) * (uint64_t)n) >> 32);
}

static inline bool stk__random_chance(stk_random *r, double p)
{
    return (double)stk_random_float(r) < p;
}

/* The decoder of the worker that `call` runs in, for ops that encode or decode. */
stk_status stk__image_worker_decoder(const stk_call *call, stk__image_decoder **out, stk_error *err);

#endif
