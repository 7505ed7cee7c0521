/*
 * The fast way through common JPEGs: only the wanted region, at the wanted scale, with an entropy decoder of our
 * own.
 */
#include <string.h>

#include "base/compiler.h"
#include "formats/image_jpeg_impl.h"
#include "formats/image_jpeg_kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/banned.h"

typedef struct fast_component {
    uint8_t id, quant, dc, ac; /* as in the file */
    int across, down;          /* blocks of an MCU */
    int size;                  /* samples per line of a block, at the scale; 0: not wanted */
    /* Rows of the current row of MCUs, after one row of the last one. */
    uint8_t *rows;
    ptrdiff_t stride;
} fast_component;

typedef enum fast_colour { COLOUR_NONE, COLOUR_FULL, COLOUR_WIDEN, COLOUR_WIDEN_BETWEEN } fast_colour;

typedef struct fast_job {
    /* from the header */
    int32_t width, height;
    int components;
    fast_component component[3];
    uint32_t restart; /* MCUs between restart markers; 0: none */
    bool has_frame, has_jfif, has_adobe, quant_set[4];
    bool dc_set[2], ac_set[2]; /* by this image: the tables may be those of the last one */
    uint8_t adobe_transform;
    _Alignas(16) int16_t factors[4][64];
    struct stk__jpeg_tables *tables;

    /* the plan, in MCUs */
    int scale, across, down; /* across, down: samples per MCU, at the scale */
    int32_t columns, rows;   /* of the image */
    int32_t left, right, top, bottom;
    fast_colour colour;
    stk__image_got got;

    /* the data without stuffed bytes, and where its segments end */
    uint8_t *data;
    size_t *ends;
    size_t segments;
    uint8_t *wide[2]; /* one row of each colour at full width; what grays have as colour */

    stk__jpeg_mcu mcu;
    stk__jpeg_block block[STK__JPEG_BLOCKS_MAX];
    uint8_t *block_out[STK__JPEG_BLOCKS_MAX]; /* of the leftmost MCU */
    int block_step[STK__JPEG_BLOCKS_MAX];     /* from MCU to MCU */
    const stk__jpeg_kernels *kernels;
    stk__jpeg_entropy entropy;
    stk__jpeg_coefficients coefficients;
} fast_job;

/* ---- header ---- */

static bool read_quant(fast_job *job, const stk__jpeg_segment *s)
{
    for (size_t at = 0; at < s->size; at += 65) {
        /* The upper half of the first byte is 0 for factors of 8 bits. */
        if (s->size - at < 65 || s->data[at] > 3)
            return false;
        for (int i = 0; i < 64; i++)
            job->factors[s->data[at]][stk__jpeg_zigzag[i]] = s->data[at + 1 + (size_t)i];
        job->quant_set[s->data[at]] = true;
    }
    return true;
}

static bool read_huffman(fast_job *job, const stk__jpeg_segment *s)
{
    for (size_t at = 0; at < s->size;) {
        const uint8_t kind = s->data[at] >> 4, id = s->data[at] & 15;
        if (kind > 1 || id > 1)
            return false;
        stk__jpeg_table *table = kind ? &job->tables->ac[id] : &job->tables->dc[id];
        const size_t taken = stk__jpeg_table_set(table, kind == 0, s->data + at + 1, s->size - at - 1);
        if (!taken)
            return false;
        *(kind ? &job->ac_set[id] : &job->dc_set[id]) = true;
        at += 1 + taken;
    }
    return true;
}

static bool read_frame(fast_job *job, const stk__jpeg_segment *s)
{
    if (job->has_frame || s->size < 6 || s->data[0] != 8 || (s->data[5] != 1 && s->data[5] != 3))
        return false;
    job->height = (int32_t)stk__jpeg_u16(s->data + 1);
    job->width = (int32_t)stk__jpeg_u16(s->data + 3);
    job->components = s->data[5];
    if (s->size != 6 + 3 * (size_t)job->components)
        return false;
    for (int i = 0; i < job->components; i++) {
        const uint8_t *p = s->data + 6 + 3 * i;
        fast_component *c = &job->component[i];
        *c = (fast_component){.id = p[0], .across = p[1] >> 4, .down = p[1] & 15, .quant = p[2]};
        if (p[2] > 3 || (i > 0 && p[1] != 0x11))
            return false;
    }
    if (job->components == 1) /* the blocks of a single component come one by one, whatever it says */
        job->component[0].across = job->component[0].down = 1;
    job->has_frame = true;
    const fast_component *luma = &job->component[0];
    return (luma->across == 1 && luma->down == 1) || (luma->across == 2 && (luma->down == 1 || luma->down == 2));
}

static bool read_scan(fast_job *job, const stk__jpeg_segment *s)
{
    const size_t n = (size_t)job->components;
    if (!job->has_frame || s->size != 4 + 2 * n || s->data[0] != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        fast_component *c = &job->component[i];
        const uint8_t *p = s->data + 1 + 2 * i;
        c->dc = p[1] >> 4;
        c->ac = p[1] & 15;
        if (p[0] != c->id || c->dc > 1 || c->ac > 1 || !job->dc_set[c->dc] || !job->ac_set[c->ac] ||
            !job->quant_set[c->quant])
            return false;
    }
    const uint8_t *p = s->data + 1 + 2 * n;
    return p[0] == 0 && p[1] == 63 && p[2] == 0;
}

static void read_application(fast_job *job, const stk__jpeg_segment *s)
{
    if (s->marker == STK__JPEG_APP0 && s->size >= 14 && memcmp(s->data, "JFIF", 5) == 0)
        job->has_jfif = true;
    if (s->marker == STK__JPEG_APP14 && s->size >= 12 && memcmp(s->data, "Adobe", 5) == 0) {
        job->has_adobe = true;
        job->adobe_transform = s->data[11];
    }
}

/* Colours that libjpeg would take as YCbCr too. */
static bool is_ycc(const fast_job *job)
{
    if (job->components == 1 || job->has_jfif)
        return true;
    if (job->has_adobe)
        return job->adobe_transform == 1;
    return job->component[0].id == 1 && job->component[1].id == 2 && job->component[2].id == 3;
}

/* Reads up to the scan, whose data starts at *at then. False: this image is for the library. */
static bool read_header(fast_job *job, const uint8_t *data, size_t size, size_t *at)
{
    bool ok = true;
    stk__jpeg_segment s;
    *at = 2;
    while (ok && stk__jpeg_segment_next(data, size, at, &s)) {
        if (s.marker == STK__JPEG_DQT)
            ok = read_quant(job, &s);
        else if (s.marker == STK__JPEG_DHT)
            ok = read_huffman(job, &s);
        else if (s.marker == STK__JPEG_SOF0 || s.marker == STK__JPEG_SOF1)
            ok = read_frame(job, &s);
        else if (s.marker == STK__JPEG_DRI && s.size == 2)
            job->restart = stk__jpeg_u16(s.data);
        else if (s.marker == STK__JPEG_SOS)
            return read_scan(job, &s) && is_ycc(job);
        else if (s.marker >= STK__JPEG_APP0 || s.marker == 0x01)
            read_application(job, &s);
        else
            ok = false;
    }
    return false;
}

/* ---- plan ---- */

static bool is_subsampled(const fast_job *job)
{
    return job->components == 3 && job->component[0].across == 2;
}

/* How large the blocks become. Colour of 4:2:0 gets its full size from the DCT where the scale leaves it room. */
static void plan_scale(fast_job *job, const stk__image_want *want)
{
    const fast_component *luma = &job->component[0];
    job->scale = 1;
    while (job->scale < 8 && !stk__jpeg_scale_covers(want, job->scale))
        job->scale *= 2;
    job->across = luma->across * job->scale;
    job->down = luma->down * job->scale;
    job->component[0].size = job->scale;
    job->colour = COLOUR_NONE;
    if (job->components == 1 || want->channels == 1)
        return;
    int size = job->scale;
    job->colour = COLOUR_FULL;
    if (luma->across == 2 && luma->down == 2 && job->scale < 8)
        size *= 2;
    else if (luma->across == 2)
        job->colour = luma->down == 2 ? COLOUR_WIDEN_BETWEEN : COLOUR_WIDEN;
    job->component[1].size = job->component[2].size = size;
}

/* The MCUs that hold samples from..to of a line, with the neighbours that interpolated colour needs. */
static void plan_line(int32_t from, int32_t size, int margin, int unit, int32_t units, int32_t *out_from,
                      int32_t *out_to)
{
    *out_from = STK_MAX(0, from - margin) / unit;
    *out_to = STK_MIN(units, (from + size + margin + unit - 1) / unit);
}

static void plan_region(fast_job *job, const stk__image_info *info, const stk__image_want *want)
{
    const fast_component *luma = &job->component[0];
    stk__jpeg_scale_rect(info, want, job->scale, &job->got);
    job->columns = (job->width + 8 * luma->across - 1) / (8 * luma->across);
    job->rows = (job->height + 8 * luma->down - 1) / (8 * luma->down);
    const int beside = job->colour >= COLOUR_WIDEN ? 2 : 0, above = job->colour == COLOUR_WIDEN_BETWEEN ? 2 : 0;
    plan_line(job->got.x, job->got.pixels.width, beside, job->across, job->columns, &job->left, &job->right);
    plan_line(job->got.y, job->got.pixels.height, above, job->down, job->rows, &job->top, &job->bottom);
}

static int last_wanted(int size)
{
    /* In zigzag order, the last of the size x size lowest frequencies. */
    return size == 8 ? 63 : size == 4 ? 24 : size == 2 ? 4 : 0;
}

static void plan_mcu(fast_job *job)
{
    stk__jpeg_mcu *mcu = &job->mcu;
    bool skip = job->scale < 8 || job->top > 0 || job->left > 0 || job->right < job->columns;
    for (int i = 0; i < job->components; i++) {
        const fast_component *c = &job->component[i];
        skip |= c->size == 0;
        for (int j = 0; j < c->across * c->down; j++, mcu->blocks++) {
            mcu->block[mcu->blocks].dc = &job->tables->dc[c->dc];
            mcu->block[mcu->blocks].ac = &job->tables->ac[c->ac];
            mcu->block[mcu->blocks].component = i;
            mcu->block[mcu->blocks].last = last_wanted(c->size);
        }
    }
    for (int i = 0; skip && i < job->components; i++)
        stk__jpeg_table_make_skip(&job->tables->ac[job->component[i].ac]);
}

/* ---- memory ---- */

static size_t round64(size_t size)
{
    return (size + 63) / 64 * 64;
}

/* Hands out the room piece by piece; with a NULL room it only counts. */
static void *carve(uint8_t *room, size_t *at, size_t size)
{
    uint8_t *piece = room ? room + *at : NULL;
    *at += round64(size);
    return piece;
}

static size_t carve_all(fast_job *job, uint8_t *room, size_t size)
{
    size_t at = 0;
    job->data = carve(room, &at, size + STK__JPEG_PAD);
    job->ends = carve(room, &at, job->segments * sizeof *job->ends);
    for (int i = 0; i < job->components; i++) {
        fast_component *c = &job->component[i];
        const size_t line = (size_t)(job->right - job->left) * (size_t)(c->across * c->size);
        c->stride = (ptrdiff_t)(round64(line) + (size_t)2 * STK__JPEG_SLACK);
        uint8_t *rows = carve(room, &at, (size_t)c->stride * (size_t)(1 + c->down * c->size));
        c->rows = rows ? rows + c->stride + STK__JPEG_SLACK : NULL;
    }
    for (int i = 0; i < 2; i++)
        job->wide[i] = carve(room, &at, (size_t)job->got.pixels.width + 2 + (size_t)3 * STK__JPEG_SLACK);
    return at;
}

/* Where the blocks go. */
static void place_blocks(fast_job *job)
{
    int index = 0;
    for (int i = 0; i < job->components; i++) {
        const fast_component *c = &job->component[i];
        for (int j = 0; j < c->across * c->down; j++, index++) {
            uint8_t *out = c->rows + j / c->across * c->size * c->stride + j % c->across * c->size;
            job->block[index] =
                (stk__jpeg_block){job->coefficients.block[index], job->factors[c->quant], out, c->stride};
            job->block_out[index] = out;
            job->block_step[index] = c->across * c->size;
        }
    }
}

static stk_status get_rooms(fast_job *job, stk__image_decoder *decoder, size_t size, int32_t channels, stk_error *err)
{
    const size_t total = carve_all(job, NULL, size);
    uint8_t *room = stk__image_room_get(decoder, &decoder->work, total, err);
    if (!room)
        return err ? err->status : STK_NOMEM;
    carve_all(job, room, size);
    place_blocks(job);
    memset(job->wide[0], 128, (size_t)job->got.pixels.width + 2 + (size_t)3 * STK__JPEG_SLACK);
    return stk__image_pixels_get(decoder, job->got.pixels.width, job->got.pixels.height, channels, &job->got, err);
}

/* ---- data ---- */

/* Copies up to the next ff of in[*at..size), 16 bytes at a time: `out` has room for 16 more. */
static uint8_t *copy_plain(uint8_t *out, const uint8_t *in, size_t *at, size_t size)
{
    size_t i = *at;
#if defined(__SSE2__)
    while (size - i >= 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(in + i));
        const int found = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xff)));
        _mm_storeu_si128((__m128i *)out, bytes);
        if (found) {
            const int before = __builtin_ctz((unsigned)found);
            *at = i + (size_t)before;
            return out + before;
        }
        i += 16;
        out += 16;
    }
#endif
    while (i < size && in[i] != 0xff)
        *out++ = in[i++];
    *at = i;
    return out;
}

/*
 * Takes the stuffed zeros out of the scan and notes where its segments end: at the restart markers, and at its own
 * end.
 */
static void unstuff(fast_job *job, const uint8_t *in, size_t size)
{
    uint8_t *out = job->data;
    size_t segment = 0, at = 0;
    for (;;) {
        out = copy_plain(out, in, &at, size);
        if (size - at < 2)
            break;
        const uint8_t next = in[at + 1];
        if (next == 0) {
            *out++ = 0xff;
            at += 2;
        } else if (next == 0xff) {
            at++; /* fill before a marker */
        } else if (next == STK__JPEG_RST0 + (segment & 7) && segment + 1 < job->segments) {
            job->ends[segment++] = (size_t)(out - job->data);
            at += 2;
        } else {
            break;
        }
    }
    job->ends[segment++] = (size_t)(out - job->data);
    memset(out, 0, STK__JPEG_PAD);
    /* What is missing may lie behind the wanted region: segments without data are found empty. */
    for (; segment < job->segments; segment++)
        job->ends[segment] = job->ends[segment - 1];
}

/* ---- pixels ---- */

/* Blocks of one size; bit i of `busy` is set when block i has more than its mean. */
static void transform_blocks(const fast_job *job, const stk__jpeg_block *blocks, int count, int size, int busy)
{
    stk__jpeg_block list[STK__JPEG_BLOCKS_MAX];
    if (size >= 4 && busy != (1 << count) - 1) {
        int listed = 0;
        for (int i = 0; i < count; i++) {
            if (busy >> i & 1)
                list[listed++] = blocks[i];
            else
                stk__jpeg_fill(&blocks[i], size);
        }
        blocks = list;
        count = listed;
    }
    if (size == 8)
        job->kernels->idct8(blocks, count);
    else if (size == 4)
        job->kernels->idct4(blocks, count);
    else
        for (int i = 0; i < count; i++)
            (size == 2 ? stk__jpeg_idct2 : stk__jpeg_idct1)(&blocks[i]);
}

/* Makes samples of the MCU that was just read. */
static void transform(fast_job *job, int busy, int32_t column)
{
    const int luma = job->component[0].across * job->component[0].down;
    for (int i = 0; i < job->mcu.blocks; i++)
        job->block[i].out = job->block_out[i] + (ptrdiff_t)(column - job->left) * job->block_step[i];
    transform_blocks(job, job->block, luma, job->component[0].size, busy & ((1 << luma) - 1));
    if (job->colour != COLOUR_NONE)
        transform_blocks(job, job->block + luma, 2, job->component[1].size, busy >> luma);
}

/* Interpolation takes the last sample for the one outside of the picture. */
static void pad_colour(fast_job *job)
{
    const int32_t width = (job->got.scaled_width + 1) / 2, from = job->left * job->component[1].size;
    for (int i = 1; i < 3; i++) {
        const fast_component *c = &job->component[i];
        for (int y = 0; y < c->size; y++) {
            uint8_t *row = c->rows + y * c->stride;
            if (job->left == 0)
                row[-1] = row[0];
            if (job->right == job->columns)
                row[width - from] = row[width - from - 1];
        }
    }
}

/* Both colours of picture row y, of a row of MCUs that starts at `top`, at full width. */
static void widen_colours(fast_job *job, int32_t y, int32_t top, const uint8_t *out[2])
{
    const int32_t x = job->got.x, from = (x >> 1) - job->left * job->component[1].size;
    const int32_t count = ((x + job->got.pixels.width + 1) >> 1) - (x >> 1);
    for (int i = 0; i < 2; i++) {
        const fast_component *c = &job->component[1 + i];
        if (job->colour == COLOUR_WIDEN) {
            job->kernels->widen(job->wide[i], c->rows + (y - top) * c->stride + from, count);
        } else {
            const int32_t height = (job->got.scaled_height + 1) / 2, near = y >> 1;
            const int32_t far = STK_MIN(STK_MAX(y & 1 ? near + 1 : near - 1, 0), height - 1);
            const uint8_t *rows = c->rows + from - (ptrdiff_t)(top / 2) * c->stride;
            job->kernels->widen_between(job->wide[i], rows + near * c->stride, rows + far * c->stride, count);
        }
        out[i] = job->wide[i] + (x & 1);
    }
}

static void write_row(fast_job *job, int32_t y, int32_t top)
{
    const fast_component *luma = &job->component[0];
    const stk__pixels *pixels = &job->got.pixels;
    uint8_t *out = stk__pixel_row(pixels, y - job->got.y);
    const int32_t x = job->got.x - job->left * job->across;
    const uint8_t *samples = luma->rows + (y - top) * luma->stride + x;
    const uint8_t *colours[2] = {job->wide[0], job->wide[0]}; /* gray */
    if (pixels->channels == 1) {
        memcpy(out, samples, (size_t)pixels->width);
        return;
    }
    if (job->colour == COLOUR_FULL)
        for (int i = 0; i < 2; i++)
            colours[i] = job->component[1 + i].rows + (y - top) * job->component[1 + i].stride + x;
    else if (job->colour != COLOUR_NONE)
        widen_colours(job, y, top, colours);
    job->kernels->rgb(out, samples, colours[0], colours[1], pixels->width, pixels->channels);
}

/*
 * A row of MCUs is there: writes the rows that it completes. Between rows of colour, its last one waits for the
 * next.
 */
static void write_rows(fast_job *job, int32_t row)
{
    const int lag = job->colour == COLOUR_WIDEN_BETWEEN;
    const int32_t top = row * job->down, end = job->got.y + job->got.pixels.height;
    const int32_t to = STK_MIN(end, row == job->rows - 1 ? top + job->down : top + job->down - lag);
    if (job->colour >= COLOUR_WIDEN)
        pad_colour(job);
    for (int32_t y = STK_MAX(job->got.y, top - lag); y < to; y++)
        write_row(job, y, top);
    for (int i = 0; lag && i < job->components; i++) {
        const fast_component *c = &job->component[i];
        uint8_t *first = c->rows - c->stride - STK__JPEG_SLACK;
        memcpy(first, first + c->down * c->size * c->stride, (size_t)c->stride);
    }
}

/* ---- the scan ---- */

/* True when none of the MCUs from..to is wanted: then their segment is not read at all. */
static bool is_unwanted(const fast_job *job, int64_t from, int64_t to)
{
    const int64_t row = from / job->columns, last_row = (to - 1) / job->columns;
    if (last_row < job->top)
        return true;
    return row == last_row && ((to - 1) % job->columns < job->left || from % job->columns >= job->right);
}

/* Decodes the segment of the MCUs from..to; false when it is damaged. *out_done: the last wanted one was in it. */
static bool decode_segment(fast_job *job, stk__jpeg_bits *bits, int64_t from, int64_t to, bool *out_done)
{
    int32_t dc[3] = {0};
    const int64_t columns = job->columns;
    while (from < to) {
        const int64_t row = from / columns, column = from % columns;
        int64_t skip = 0;
        if (row < job->top)
            skip = job->top * columns + job->left - from;
        else if (column < job->left)
            skip = job->left - column;
        else if (column >= job->right)
            skip = columns - column + job->left;
        if (skip > 0) {
            skip = STK_MIN(skip, to - from);
            if (!job->entropy.skip(bits, &job->mcu, dc, skip))
                return false;
            from += skip;
            continue;
        }
        const int busy = job->entropy.decode(bits, &job->mcu, dc, &job->coefficients);
        if (busy < 0)
            return false;
        transform(job, busy, (int32_t)column);
        from++;
        if (column + 1 < job->right)
            continue;
        write_rows(job, (int32_t)row);
        if (row + 1 == job->bottom) {
            *out_done = true;
            return true;
        }
    }
    return true;
}

static bool decode_scan(fast_job *job)
{
    const int64_t total = (int64_t)job->columns * job->rows;
    const int64_t step = job->restart ? (int64_t)job->restart : total;
    bool done = false;
    for (size_t i = 0; i < job->segments && !done; i++) {
        const int64_t from = (int64_t)i * step, to = STK_MIN(from + step, total);
        if (is_unwanted(job, from, to))
            continue;
        stk__jpeg_bits bits;
        stk__jpeg_bits_start(&bits, job->data + (i ? job->ends[i - 1] : 0), job->data + job->ends[i]);
        if (!decode_segment(job, &bits, from, to, &done))
            return false;
        /* Bytes left over before a restart marker: something went wrong before it. */
        if (!done && stk__jpeg_bits_left(&bits) >= 8)
            return false;
    }
    return done;
}

stk_status stk__jpeg_decode_fast(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                 const stk__image_info *info, const stk__image_want *want, stk__image_got *out,
                                 bool *out_done, stk_error *err)
{
    struct stk__jpeg *jpeg;
    STK_TRY(stk__jpeg_get(decoder, &jpeg, err));
    fast_job job;
    memset(&job, 0, sizeof job);
    job.tables = &jpeg->tables;
    size_t at;
    *out_done = false;
    if (!read_header(&job, data, size, &at) || job.width != info->width || job.height != info->height)
        return STK_OK;
    /* libjpeg interpolates very narrow images in another way. */
    if (is_subsampled(&job) && job.width < 8)
        return STK_OK;
    plan_scale(&job, want);
    plan_region(&job, info, want);
    plan_mcu(&job);
    const uint64_t total = (uint64_t)job.columns * (uint64_t)job.rows;
    job.segments = job.restart ? (size_t)((total + job.restart - 1) / job.restart) : 1;
    if (job.segments > 1 + size / 2)
        return STK_OK;
    job.kernels = stk__jpeg_kernels_get();
    job.entropy = stk__jpeg_entropy_get();
    STK_TRY(get_rooms(&job, decoder, size - at, want->channels, err));
    unstuff(&job, data + at, size - at);
    if (!decode_scan(&job))
        return STK_OK;
    *out = job.got;
    *out_done = true;
    return STK_OK;
}
