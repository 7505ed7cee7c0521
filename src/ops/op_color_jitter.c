/* color_jitter: change brightness, contrast, saturation and hue of images at random. */
#include <string.h>

#include "kernels/color.h"
#include "ops/image_op.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, CHANGES };

typedef struct {
    stk__image_op op;
    const char *field;
    double brightness, contrast, saturation, hue, p;
} color_jitter_state;

/* Tables that follow each other are combined into one, so that pixels are gone through as rarely as can be. */
typedef struct {
    const stk__pixels *image;
    stk__color_table table;
    bool waiting; /* the table is not applied yet */
} mapping;

static void apply_table(mapping *m)
{
    if (m->waiting)
        stk__color_map(m->image, m->table);
    m->waiting = false;
}

static void add_brightness(mapping *m, float factor)
{
    stk__color_table next;
    stk__table_brightness(next, factor);
    for (int c = 0; m->waiting && c < 3; c++)
        for (int i = 0; i < 256; i++)
            m->table[c][i] = next[c][m->table[c][i]];
    if (!m->waiting)
        memcpy(m->table, next, sizeof next);
    m->waiting = true;
}

static void change(mapping *m, int what, float factor)
{
    if (what == BRIGHTNESS) {
        add_brightness(m, factor);
        return;
    }
    apply_table(m);
    if (what == CONTRAST) {
        stk__table_contrast(m->table, factor, stk__color_mean_luma(m->image));
        m->waiting = true;
    } else if (what == SATURATION) {
        stk__color_saturate(m->image, factor);
    } else {
        stk__color_hue(m->image, factor);
    }
}

/* numbers: the four factors, then the four changes in their order. */
static stk_status jitter(const stk__act *act, stk__image_work *work, stk_error *err)
{
    static const float still[CHANGES] = {1, 1, 1, 0};
    const double *factors = act->as.pixels.numbers, *order = factors + CHANGES;
    mapping m = {.image = stk__work_image(work)};
    for (int i = 0; i < CHANGES; i++) {
        const int what = (int)order[i];
        const bool gray = m.image->channels < 3 && (what == SATURATION || what == HUE);
        if ((float)factors[what] != still[what] && !gray)
            change(&m, what, (float)factors[what]);
    }
    apply_table(&m);
    return STK_OK;
}

static double draw_factor(stk_random *r, double most)
{
    return stk__random_between(r, STK_MAX(0.0, 1 - most), 1 + most);
}

static stk_status color_jitter_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                    stk__act *out, stk_error *err)
{
    const color_jitter_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    if (!stk__random_chance(&r, s->p))
        return STK_OK;
    out->kind = STK__ACT_PIXELS;
    out->as.pixels.apply = jitter;
    double *factors = out->as.pixels.numbers, *order = factors + CHANGES;
    factors[BRIGHTNESS] = draw_factor(&r, s->brightness);
    factors[CONTRAST] = draw_factor(&r, s->contrast);
    factors[SATURATION] = draw_factor(&r, s->saturation);
    factors[HUE] = stk__random_between(&r, -s->hue, s->hue);
    for (int i = 0; i < CHANGES; i++) {
        const int k = stk__random_below(&r, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    return STK_OK;
}

static stk_status color_jitter_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    color_jitter_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_COLORS, err));
    if (s->op.from.shape[2] == 2)
        return host->fail(err, STK_INVALID, "field '%s' has 2 channels, wanted 1, 3 or 4", s->field);
    s->op.kind = STK__ACT_PIXELS;
    s->op.draw = color_jitter_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option color_jitter_options[] = {
    STK_FIELD(color_jitter_state, field, "uint8 images"),
    STK_NUMBER(color_jitter_state, brightness, 0, 0, 100,
               "the factor is drawn from 1 - brightness (at least 0) to 1 + brightness"),
    STK_NUMBER(color_jitter_state, contrast, 0, 0, 100, "likewise"),
    STK_NUMBER(color_jitter_state, saturation, 0, 0, 100, "likewise"),
    STK_NUMBER(color_jitter_state, hue, 0, 0, 0.5, "the hue turns by -hue to hue of a circle"),
    STK_NUMBER(color_jitter_state, p, 1, 0, 1, "how probable it is"),
    STK_OPTION_END,
};

const stk_op stk__op_color_jitter = {
    .abi = STK_OP_ABI,
    .name = "color_jitter",
    .group = "image",
    .since = "0.1",
    .summary = "Change brightness, contrast, saturation and hue of images by random amounts, in random order.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | color_jitter(image, brightness=0.4, saturation=0.4)",
    .options = color_jitter_options,
    .state_size = sizeof(color_jitter_state),
    .flags = STK_OP_RANDOM,
    .schema = color_jitter_schema,
    STK__IMAGE_CALLBACKS,
};
