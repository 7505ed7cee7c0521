/* JPEG through libjpeg-turbo: every kind of image that it takes, and the pixels that `exact` promises. */
#include <string.h>

#include "base/compiler.h"
#include "formats/image_jpeg_impl.h"
/* After jpeglib.h: its codes depend on how the library was built. */
#include <jerror.h>
#include "kernels/color.h"

#include "base/banned.h"

/* Encoders write about ten scans; every scan passes over all coefficients, so that many of them are an attack. */
enum { SCANS_MAX = 100 };

/* ---- errors: nothing is printed, nothing exits ---- */

static void trap_exit(j_common_ptr codec)
{
    stk__jpeg_trap *trap = codec->client_data;
    codec->err->format_message(codec, trap->message);
    longjmp(trap->jump, 1);
}

/* Warnings after which libjpeg goes on with made-up pixels. */
static bool is_damage(const stk__jpeg_trap *trap)
{
    switch (trap->manager.msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_EXTRANEOUS_DATA:
        return trap->strict;
    default:
        return false;
    }
}

static void trap_message(j_common_ptr codec, int level)
{
    if (level < 0 && is_damage(codec->client_data))
        trap_exit(codec);
}

static void trap_output(j_common_ptr codec)
{
}

void stk__jpeg_trap_init(stk__jpeg_trap *trap)
{
    jpeg_std_error(&trap->manager);
    trap->manager.error_exit = trap_exit;
    trap->manager.emit_message = trap_message;
    trap->manager.output_message = trap_output;
    trap->strict = false;
}

stk_status stk__jpeg_trap_status(const stk__jpeg_trap *trap, stk_error *err)
{
    stk_status status = STK_CORRUPT;
    switch (trap->manager.msg_code) {
    case JERR_OUT_OF_MEMORY:
        status = STK_NOMEM;
        break;
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL:
        status = STK_UNSUPPORTED;
        break;
    default:
        break;
    }
    return stk_error_set(err, status, "JPEG: %s", trap->message);
}

/* ---- source: memory, all of it at once ---- */

static void source_nothing(j_decompress_ptr codec)
{
}

/*
 * The data is at its end. libjpeg asks for bytes before it needs their bits, so a sequential image gets an end
 * marker and complains by itself (JWRN_HIT_MARKER) when bits are missing. Nothing would notice a missing scan, or
 * the end of arithmetic-coded data.
 */
static boolean source_fill(j_decompress_ptr codec)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    const stk__jpeg_trap *trap = codec->client_data;
    if (!trap->strict) /* still in the header */
        ERREXIT(codec, JERR_INPUT_EOF);
    if (jpeg_has_multiple_scans(codec) || codec->arith_code)
        WARNMS(codec, JWRN_JPEG_EOF);
    codec->src->next_input_byte = end;
    codec->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void source_skip(j_decompress_ptr codec, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > codec->src->bytes_in_buffer) {
        codec->src->bytes_in_buffer = 0;
        source_fill(codec);
        return;
    }
    codec->src->next_input_byte += count;
    codec->src->bytes_in_buffer -= (size_t)count;
}

static void source_set(struct stk__jpeg *jpeg, const uint8_t *data, size_t size)
{
    jpeg->source = (struct jpeg_source_mgr){
        .next_input_byte = data,
        .bytes_in_buffer = size,
        .init_source = source_nothing,
        .fill_input_buffer = source_fill,
        .skip_input_data = source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_nothing,
    };
    jpeg->codec.src = &jpeg->source;
}

/* Called by libjpeg for every row of blocks of every scan. */
static void count_scans(j_common_ptr codec)
{
    if (((j_decompress_ptr)codec)->input_scan_number <= SCANS_MAX)
        return;
    stk__jpeg_trap *trap = codec->client_data;
    trap->manager.msg_code = JERR_BAD_PROGRESSION;
    snprintf(trap->message, sizeof trap->message, "more than %d scans", SCANS_MAX);
    longjmp(trap->jump, 1);
}

/* ---- colours ---- */

/* a * b / 255, rounded as Pillow does. */
static uint8_t mul255(unsigned a, unsigned b)
{
    const unsigned x = a * b + 128;
    return (uint8_t)((x + (x >> 8)) >> 8);
}

/*
 * Ink to RGB as Pillow does it: the values are taken as inverted (Adobe's habit, and every writer's since), with or
 * without an Adobe marker, and no profile is looked at.
 */
static void convert_cmyk_row(uint8_t *out, const uint8_t *in, int32_t width, int channels)
{
    for (int32_t i = 0; i < width; i++, in += 4, out += channels) {
        uint8_t rgb[3];
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(in[3] - mul255(255u - in[c], in[3]));
        if (channels == 1) {
            out[0] = stk__luma(rgb[0], rgb[1], rgb[2]);
            continue;
        }
        memcpy(out, rgb, 3);
        if (channels == 4)
            out[3] = 255;
    }
}

static bool is_ink(const struct jpeg_decompress_struct *codec)
{
    return codec->jpeg_color_space == JCS_CMYK || codec->jpeg_color_space == JCS_YCCK;
}

/* ---- decoding ---- */

/* What one decode is about; plain data, so that a jump out of libjpeg loses nothing. */
typedef struct library_job {
    stk__image_decoder *decoder;
    struct stk__jpeg *jpeg;
    const stk__image_info *info;
    const stk__image_want *want;
    stk__image_got got;
    int32_t left;         /* columns that are decoded but not wanted, before the wanted ones */
    int32_t columns_read; /* of a row */
    uint8_t *ink;         /* one row of CMYK */
} library_job;

/*
 * Whole, half, quarter and eighth have vector code; the others take longer than the next of these: 7/8 twice the
 * time of 8/8.
 */
static int pick_scale(const stk__image_want *want)
{
    int scale = 1;
    while (scale < 8 && !stk__jpeg_scale_covers(want, scale))
        scale *= 2;
    return scale;
}

static void set_output(library_job *job)
{
    struct jpeg_decompress_struct *codec = &job->jpeg->codec;
    codec->scale_num = (unsigned)pick_scale(job->want);
    codec->scale_denom = 8;
    codec->dct_method = JDCT_ISLOW;
    codec->do_fancy_upsampling = TRUE; /* FALSE and JDCT_IFAST gain 3 % at most */
    codec->quantize_colors = FALSE;
    if (is_ink(codec))
        codec->out_color_space = JCS_CMYK;
    else
        codec->out_color_space = job->want->channels == 1   ? JCS_GRAYSCALE
                                 : job->want->channels == 4 ? JCS_EXT_RGBA
                                                            : JCS_RGB;
}

/* A component that no scan has brought is left gray by libjpeg, without a word. */
static stk_status check_components(const struct jpeg_decompress_struct *codec, stk_error *err)
{
    for (int i = 0; i < codec->num_components; i++)
        if (!codec->comp_info[i].quant_table && codec->comp_info[i].component_needed)
            return stk_error_set(err, STK_CORRUPT, "JPEG: no scan has component %d of %d", i + 1,
                                 codec->num_components);
    return STK_OK;
}

/* Columns beside the wanted ones; and what libjpeg may add to these, which it takes in units of this many at most. */
enum { MARGIN = 2, UNIT_COLUMNS = 32 };

/* The room for the pixels, before the library reads all scans: a picture that has no room is to be refused at once. */
static stk_status reserve_pixels(library_job *job, stk_error *err)
{
    const int32_t full = job->got.scaled_width, want = job->got.pixels.width;
    const int32_t columns = full - want > 2 * MARGIN + UNIT_COLUMNS ? want + 2 * MARGIN + UNIT_COLUMNS : full;
    stk__image_got ignored;
    return stk__image_pixels_get(job->decoder, columns, job->got.pixels.height, job->want->channels, &ignored, err);
}

/*
 * Narrows the columns. Interpolated colour looks at its neighbours: two more on each side make it that of a whole
 * decode.
 */
static void crop_columns(library_job *job)
{
    struct jpeg_decompress_struct *codec = &job->jpeg->codec;
    const int32_t full = (int32_t)codec->output_width;
    const int32_t from = STK_MAX(0, job->got.x - MARGIN),
                  to = STK_MIN(full, job->got.x + job->got.pixels.width + MARGIN);
    JDIMENSION offset = (JDIMENSION)from, width = (JDIMENSION)(to - from);
    if (from > 0 || to < full)
        jpeg_crop_scanline(codec, &offset, &width);
    job->left = job->got.x - (int32_t)offset;
    job->columns_read = (int32_t)width;
}

static void read_rows(library_job *job)
{
    struct jpeg_decompress_struct *codec = &job->jpeg->codec;
    if (job->got.y > 0)
        jpeg_skip_scanlines(codec, (JDIMENSION)job->got.y);
    for (int32_t y = 0; y < job->got.pixels.height; y++) {
        uint8_t *row = stk__pixel_row(&job->got.pixels, y);
        JSAMPROW rows[1] = {job->ink ? job->ink : row};
        jpeg_read_scanlines(codec, rows, 1);
        if (job->ink)
            convert_cmyk_row(row, job->ink, job->columns_read, job->got.pixels.channels);
    }
}

static stk_status get_rooms(library_job *job, stk_error *err)
{
    const int32_t width = job->got.pixels.width, height = job->got.pixels.height;
    STK_TRY(stk__image_pixels_get(job->decoder, job->columns_read, height, job->want->channels, &job->got, err));
    job->ink = NULL;
    if (is_ink(&job->jpeg->codec)) {
        job->ink = stk__image_room_get(job->decoder, &job->decoder->work, (size_t)job->columns_read * 4, err);
        if (!job->ink)
            return err ? err->status : STK_NOMEM;
    }
    job->got.pixels.width = width;
    return STK_OK;
}

static stk_status decode_job(library_job *job, stk_error *err)
{
    struct jpeg_decompress_struct *codec = &job->jpeg->codec;
    jpeg_read_header(codec, TRUE);
    if ((int32_t)codec->image_width != job->info->width || (int32_t)codec->image_height != job->info->height)
        return stk_error_set(err, STK_CORRUPT, "JPEG of %u x %u pixels: its first frame header says %d x %d",
                             codec->image_width, codec->image_height, job->info->width, job->info->height);
    job->jpeg->trap.strict = true;
    set_output(job);
    stk__jpeg_scale_rect(job->info, job->want, (int)codec->scale_num * 8 / (int)codec->scale_denom, &job->got);
    STK_TRY(reserve_pixels(job, err));
    jpeg_start_decompress(codec);
    STK_TRY(check_components(codec, err));
    crop_columns(job);
    STK_TRY(get_rooms(job, err));
    read_rows(job);
    job->got.pixels.data += (size_t)job->left * (size_t)job->want->channels;
    return STK_OK;
}

/* Made anew for each image, for 0.1 us: one that is used again would lend the tables of the last image to the next. */
static void make_codec(struct stk__jpeg *jpeg)
{
    struct jpeg_decompress_struct *codec = &jpeg->codec;
    jpeg_create_decompress(codec);
    jpeg->progress.progress_monitor = count_scans;
    codec->progress = &jpeg->progress;
}

stk_status stk__jpeg_decode_library(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                    const stk__image_info *info, const stk__image_want *want, stk__image_got *out,
                                    stk_error *err)
{
    struct stk__jpeg *jpeg;
    STK_TRY(stk__jpeg_get(decoder, &jpeg, err));
    library_job job = {.decoder = decoder, .jpeg = jpeg, .info = info, .want = want};
    stk__jpeg_trap_init(&jpeg->trap);
    memset(&jpeg->codec, 0, sizeof jpeg->codec);
    jpeg->codec.err = &jpeg->trap.manager;
    jpeg->codec.client_data = &jpeg->trap;
    jpeg->memory.refused = false;
    if (setjmp(jpeg->trap.jump)) {
        jpeg_destroy_decompress(&jpeg->codec);
        stk__jpeg_memory_end(jpeg);
        if (jpeg->memory.refused)
            return err ? err->status : STK_BUDGET;
        return stk__jpeg_trap_status(&jpeg->trap, err);
    }
    make_codec(jpeg);
    stk__jpeg_memory_begin(jpeg, &decoder->memory, err);
    source_set(jpeg, data, size);
    const stk_status status = decode_job(&job, err);
    jpeg_destroy_decompress(&jpeg->codec);
    stk__jpeg_memory_end(jpeg);
    if (status == STK_OK)
        *out = job.got;
    return status;
}

void stk__jpeg_free(struct stk__jpeg *jpeg, const stk__image_memory *memory)
{
    if (jpeg)
        memory->free(memory->arg, jpeg, sizeof *jpeg);
}
