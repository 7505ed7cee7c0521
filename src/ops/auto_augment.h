/* The changes that trivial_augment and rand_augment choose from. */
#ifndef STK_OPS_AUTO_AUGMENT_H
#define STK_OPS_AUTO_AUGMENT_H

#include "ops/image_op.h"

typedef enum stk__augment {
    STK__AUGMENT_IDENTITY,
    STK__AUGMENT_SHEAR_X,
    STK__AUGMENT_SHEAR_Y,
    STK__AUGMENT_TRANSLATE_X,
    STK__AUGMENT_TRANSLATE_Y,
    STK__AUGMENT_ROTATE,
    STK__AUGMENT_BRIGHTNESS,
    STK__AUGMENT_COLOR,
    STK__AUGMENT_CONTRAST,
    STK__AUGMENT_SHARPNESS,
    STK__AUGMENT_POSTERIZE,
    STK__AUGMENT_SOLARIZE,
    STK__AUGMENT_AUTOCONTRAST,
    STK__AUGMENT_EQUALIZE,
    STK__AUGMENT_COUNT
} stk__augment;

#define STK__AUGMENT_BINS 31 /* of magnitudes */
#define STK__AUGMENT_MAX 7   /* changes of one sample */

/* How strong the changes of the last bin are. */
typedef struct stk__augment_space {
    double shear;     /* tangent of the angle */
    double translate; /* pixels, or with `translate_share` a share of width or height */
    bool translate_share;
    double degrees;
    double factor; /* brightness, color, contrast, sharpness: 1 - factor to 1 + factor */
    int bits;      /* posterize: these fewer than 8 */
} stk__augment_space;

/* The options that both ops have, at the start of their states. */
typedef struct stk__augment_state {
    stk__image_op op;
    const char *field;
    int64_t filter; /* stk__augment_filters */
    double fill;
} stk__augment_state;

extern const char *const stk__augment_filters[];

/* Reads and writes the field, and sets `draw`. */
stk_status stk__augment_plan(stk_plan *plan, const stk_host *host, stk__augment_state *s, stk__image_draw draw,
                             stk_error *err);

/* Says that `out` is the act of these ops, with no change yet. CORRUPT for images larger than can be warped. */
stk_status stk__augment_begin(const stk_call *call, const stk__image_size *in, stk__act *out, stk_error *err);
/* Draws one more change and, for those that have one, its sign. `bin` -1: draws the magnitude's bin too. */
void stk__augment_draw(const stk__augment_space *space, stk_random *r, int bin, const stk__image_size *in,
                       stk__act *out);
/* One more change of a magnitude as torchvision has it. */
void stk__augment_add(stk__act *out, stk__augment what, double magnitude);

#endif
