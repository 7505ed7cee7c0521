/*
 * A plug-in with a source, `pictures`: made-up photographs in classes, to have pictures for demos without a download.
 *
 * A picture is a background (a gradient of two colours), a shape that tells its class, clouds over both and the noise of a
 * sensor. The clouds fall off with 1/f as nature does, so that a picture has about the entropy of a real one: 32 x 32 pixels
 * make a PNG of about 2.3 KB, as those of CIFAR-10 do.
 */
#include <string.h>

#include <stoker/op.h>

enum { SHAPES = 10, CELL_MIN = 1 };

typedef struct {
    int64_t count, width, height, classes, seed;
    int image, label;
} pictures_state;

static stk_status pictures_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    pictures_state *s = state;
    const stk_field image = {.name = "image", .dtype = STK_UINT8, .ndim = 3, .shape = {s->height, s->width, 3}};
    const stk_field label = {.name = "label", .dtype = STK_INT64};
    const stk_status status = host->plan_write(plan, &image, &s->image, err);
    return status == STK_OK ? host->plan_write(plan, &label, &s->label, err) : status;
}

static int64_t pictures_count(const stk_call *call)
{
    const pictures_state *s = call->state;
    return s->count;
}

/* ---- numbers ---- */

/* Well mixed bits. stk_random would give another picture in each epoch, and a file on disk does not change either. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In [0, 1). */
static float next_float(uint64_t *random)
{
    *random = mix(*random);
    return (float)(*random >> 40) * (1.0f / 16777216.0f);
}

static float between(uint64_t *random, float low, float high)
{
    return low + (high - low) * next_float(random);
}

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- clouds ---- */

/* Values in [-1, 1) at the corners of cells, the same for all who ask for the same corner. */
static float corner(uint64_t key, int64_t x, int64_t y)
{
    return (float)(mix(key ^ ((uint64_t)x << 32) ^ (uint64_t)y) >> 40) * (2.0f / 16777216.0f) - 1;
}

/* Adds noise whose smallest features are `cell` pixels wide; `row` has room for two rows of corners. */
static void add_octave(float *plane, int64_t width, int64_t height, int64_t cell, float amount, uint64_t key,
                       float *row)
{
    const int64_t corners = width / cell + 2;
    float *above = row, *below = row + corners;
    for (int64_t y = 0; y < height; y++) {
        const float ty = (float)(y % cell) / (float)cell, sy = ty * ty * (3 - 2 * ty);
        if (y % cell == 0) {
            for (int64_t i = 0; i < corners; i++) {
                above[i] = corner(key, i, y / cell);
                below[i] = corner(key, i, y / cell + 1);
            }
        }
        for (int64_t i = 0, x = 0; x < width; i++) {
            const float left = above[i] + sy * (below[i] - above[i]);
            const float right = above[i + 1] + sy * (below[i + 1] - above[i + 1]);
            for (int64_t k = 0; k < cell && x < width; k++, x++) {
                const float tx = (float)k / (float)cell;
                plane[y * width + x] += amount * (left + tx * tx * (3 - 2 * tx) * (right - left));
            }
        }
    }
}

/* Octave by octave, each half as wide as the one before and weaker: about the 1/f of nature. */
static void make_clouds(float *plane, const pictures_state *s, float amount, int64_t finest, uint64_t key, float *row)
{
    memset(plane, 0, sizeof *plane * (size_t)(s->width * s->height));
    int64_t cell = (s->width > s->height ? s->width : s->height) / 2;
    for (; cell >= finest; cell /= 2, amount *= 0.6f)
        add_octave(plane, s->width, s->height, cell, amount, mix(key + (uint64_t)cell), row);
}

/* ---- shapes ---- */

/* Where the shape is, and how large, in pixels. */
typedef struct place {
    float x, y, radius;
} place;

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static float magnitude(float x)
{
    return x < 0 ? -x : x;
}

/* About how far the point (x, y) from the middle lies inside of a disc; negative: outside. */
static float in_disc(float x, float y, float radius)
{
    return (radius * radius - x * x - y * y) / (2 * radius);
}

static float in_box(float x, float y, float half_width, float half_height)
{
    return smaller(half_width - magnitude(x), half_height - magnitude(y));
}

static float in_shape(int64_t shape, const place *p, float x, float y)
{
    const float r = p->radius, stripe = r * 0.4f;
    x -= p->x;
    y -= p->y;
    switch (shape) {
    case 0:
        return in_disc(x, y, r);
    case 1:
        return smaller(in_disc(x, y, r), -in_disc(x, y, r * 0.55f));
    case 2:
        return in_box(x, y, r * 0.85f, r * 0.85f);
    case 3:
        return (r - magnitude(x) - magnitude(y)) * 0.7f;
    case 4:
        return smaller((r + y - 2 * magnitude(x)) * 0.45f, r * 0.8f - y);
    case 5: {
        const float across = in_box(x, y, r, r * 0.3f), down = in_box(x, y, r * 0.3f, r);
        return across > down ? across : down;
    }
    case 6:
        return smaller(in_box(x, y, r, r), stripe / 2 - magnitude(y - stripe * 2 * (float)(int)(y / (stripe * 2))));
    case 7:
        return smaller(in_box(x, y, r, r), stripe / 2 - magnitude(x - stripe * 2 * (float)(int)(x / (stripe * 2))));
    case 8: {
        const float left = in_disc(x + r * 0.6f, y, r * 0.5f), right = in_disc(x - r * 0.6f, y, r * 0.5f);
        return left > right ? left : right;
    }
    default:
        return smaller(in_disc(x, y, r), y); /* a bowl */
    }
}

/* ---- pictures ---- */

/* What is drawn, in 0..255. */
typedef struct scene {
    float top[3], bottom[3], shape[3];
    float slope_x, slope_y; /* of the gradient */
    place at;
    float shade; /* light on the shape */
} scene;

static scene make_scene(const pictures_state *s, int64_t label, uint64_t *random)
{
    static const float colours[SHAPES][3] = {{200, 60, 50},   {60, 90, 190},   {90, 160, 60}, {210, 180, 70},
                                             {150, 90, 50},   {180, 180, 190}, {70, 60, 70},  {60, 160, 170},
                                             {190, 110, 160}, {230, 140, 60}};
    const float size = (float)(s->width < s->height ? s->width : s->height);
    scene c;
    const float light = between(random, 60, 190);
    for (int i = 0; i < 3; i++) {
        c.top[i] = light + between(random, -45, 45);
        c.bottom[i] = light + between(random, -60, 60);
        c.shape[i] = colours[(label + label / SHAPES) % SHAPES][i] + between(random, -30, 30);
    }
    c.slope_x = between(random, -1, 1);
    c.slope_y = between(random, -1, 1);
    c.at.radius = size * between(random, 0.22f, 0.42f);
    c.at.x = (float)s->width * between(random, 0.35f, 0.65f);
    c.at.y = (float)s->height * between(random, 0.35f, 0.65f);
    c.shade = between(random, -30, 30);
    return c;
}

static void draw(const pictures_state *s, const scene *c, int64_t label, const float *planes, uint64_t *random,
                 uint8_t *out)
{
    const int64_t pixels = s->width * s->height;
    for (int64_t y = 0; y < s->height; y++) {
        for (int64_t x = 0; x < s->width; x++) {
            const int64_t i = y * s->width + x;
            const float u = (float)x / (float)s->width - 0.5f, v = (float)y / (float)s->height - 0.5f;
            const float blend = clamp(0.5f + c->slope_x * u + c->slope_y * v, 0, 1);
            const float inside = clamp(in_shape(label % SHAPES, &c->at, (float)x, (float)y) + 0.5f, 0, 1);
            const float chroma[3] = {planes[pixels + i], -0.4f * (planes[pixels + i] + planes[2 * pixels + i]),
                                     planes[2 * pixels + i]};
            *random = mix(*random);
            for (int k = 0; k < 3; k++) {
                const float back = c->top[k] + blend * (c->bottom[k] - c->top[k]);
                const float front = c->shape[k] + c->shade * (u + v);
                /* Two throws of a die, from bits of their own, are near enough to a sensor. */
                const uint32_t bits = (uint32_t)(*random >> (20 * k)) & 0xfffff;
                const float noise = (float)((bits & 1023) + (bits >> 10)) * (10.0f / 1024) - 10;
                const float value = back + inside * (front - back) + planes[i] + chroma[k] + noise;
                out[i * 3 + k] = (uint8_t)clamp(value + 0.5f, 0, 255);
            }
        }
    }
}

static stk_status pictures_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const pictures_state *s = call->state;
    const size_t pixels = (size_t)(s->width * s->height);
    uint8_t *image = stk_out(call, sample, s->image, NULL, err);
    int64_t *label = stk_out(call, sample, s->label, NULL, err);
    /* Planes of light and of two colours, and two rows of corners. */
    float *planes = stk_scratch(call, sizeof *planes * (pixels * 3 + 2 * ((size_t)s->width + 2)), err);
    if (!image || !label || !planes)
        return err->status;
    uint64_t random = mix(mix((uint64_t)s->seed) ^ (uint64_t)sample->index);
    *label = (int64_t)(mix(random ^ 1) % (uint64_t)s->classes);
    const scene c = make_scene(s, *label, &random);
    const float contrast = between(&random, 35, 85);
    make_clouds(planes, s, contrast, CELL_MIN, mix(random ^ 2), planes + 3 * pixels);
    make_clouds(planes + pixels, s, contrast * 0.3f, 2, mix(random ^ 3), planes + 3 * pixels);
    make_clouds(planes + 2 * pixels, s, contrast * 0.3f, 2, mix(random ^ 4), planes + 3 * pixels);
    draw(s, &c, *label, planes, &random, image);
    return STK_OK;
}

static const stk_option pictures_options[] = {
    STK_INT_REQUIRED(pictures_state, count, 0, (int64_t)1 << 40, "samples"),
    STK_INT(pictures_state, width, 32, 4, 4096, "pixels in a row"),
    STK_INT(pictures_state, height, 32, 4, 4096, "rows"),
    STK_INT(pictures_state, classes, 10, 1, 1000, "different values of label"),
    STK_INT(pictures_state, seed, 0, 0, INT64_MAX, "another seed makes other pictures"),
    STK_OPTION_END,
};

static const stk_op pictures = {
    .abi = STK_OP_ABI,
    .name = "pictures",
    .group = "source",
    .since = "0.1",
    .summary = "Make pictures in classes: image (uint8[height, width, 3]) and label (int64).",
    .example = "pictures(3, width=4, height=4) | print",
    .options = pictures_options,
    .state_size = sizeof(pictures_state),
    .role = STK_ROLE_SOURCE,
    .schema = pictures_schema,
    .process = pictures_process,
    .count = pictures_count,
};

const stk_op *const *stk_plugin_ops(uint32_t abi)
{
    static const stk_op *const ops[] = {&pictures, NULL};
    return abi == STK_OP_ABI ? ops : NULL;
}
