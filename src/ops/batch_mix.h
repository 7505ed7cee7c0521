/* What mixup and cutmix share: two columns of a finished batch, whose rows are mixed with the row before them. */
#ifndef STK_OPS_BATCH_MIX_H
#define STK_OPS_BATCH_MIX_H

#include "engine/op.h"

/* The state of both ops. */
typedef struct stk__mix_state {
    const char *image, *label;
    double alpha, p;
    stk_field image_field, label_field; /* of one row; names are the engine's */
    size_t image_bytes, label_bytes;    /* of one row */
    bool classes;                       /* the image's numbers name classes */
} stk__mix_state;

/* Reads both fields, which must have fixed shapes; labels must be float32. */
stk_status stk__mix_plan(stk_plan *plan, const stk_host *host, stk__mix_state *s, stk_error *err);

/* Memory for one row of each column, see stk__mix_rows. */
stk_status stk__mix_worker_open(const stk_call *call, void **out_worker, stk_error *err);
void stk__mix_worker_close(const stk_call *call);

/* Draws from Beta(alpha, alpha). */
double stk__mix_beta(stk_random *r, double alpha);

/* Mixes a row with its partner, in place. */
typedef void (*stk__mix_row)(const void *arg, void *row, const void *partner);

/* Every row of the image column with the row before it, the first one with the last, as they were before. */
stk_status stk__mix_images(const stk_call *call, const stk_batch *batch, stk__mix_row mix, const void *arg,
                           stk_error *err);
/* Every row of the label column becomes weight * row + (1 - weight) * the row before it. */
stk_status stk__mix_labels(const stk_call *call, const stk_batch *batch, float weight, stk_error *err);
/* The same for any numbers: weight * row + (1 - weight) * partner. */
void stk__mix_floats(float *restrict row, const float *restrict partner, size_t count, float weight);
/* Weights of bytes are parts of STK__MIX_ONE; results are rounded to nearest. */
#define STK__MIX_ONE 65536
void stk__mix_bytes(uint8_t *restrict row, const uint8_t *restrict partner, size_t count, uint32_t weight);

#endif
