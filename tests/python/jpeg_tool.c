/* What the system's libjpeg-turbo makes of JPEGs, as PPM, and JPEGs of any chroma sampling from PPM; for comparisons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static int usage(void)
{
    fprintf(stderr, "usage: jpeg_tool decode [rgb|gray] < IN.jpg > OUT.ppm\n"
                    "       jpeg_tool encode HxV QUALITY [progressive|arithmetic] < IN.ppm > OUT.jpg\n");
    return 2;
}

static int decode(J_COLOR_SPACE space)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, stdin);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = space;
    jpeg_start_decompress(&jpeg);
    const size_t row_bytes = (size_t)jpeg.output_width * (size_t)jpeg.output_components;
    JSAMPLE *row = malloc(row_bytes);
    if (!row)
        return 1;
    printf("P%d\n%u %u\n255\n", space == JCS_GRAYSCALE ? 5 : 6, jpeg.output_width, jpeg.output_height);
    while (jpeg.output_scanline < jpeg.output_height) {
        jpeg_read_scanlines(&jpeg, &row, 1);
        fwrite(row, 1, row_bytes, stdout);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    free(row);
    return fflush(stdout) ? 1 : 0;
}

static int encode(int across, int down, int quality, const char *kind)
{
    unsigned width, height;
    if (scanf("P6 %u %u 255", &width, &height) != 2 || getchar() != '\n' || width - 1 >= 65500 || height - 1 >= 65500)
        return usage();
    JSAMPLE *row = malloc((size_t)width * 3);
    if (!row)
        return 1;
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, stdout);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg.comp_info[0].h_samp_factor = across;
    jpeg.comp_info[0].v_samp_factor = down;
    jpeg.arith_code = strcmp(kind, "arithmetic") == 0;
    if (strcmp(kind, "progressive") == 0)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < height && fread(row, 3, width, stdin) == width)
        jpeg_write_scanlines(&jpeg, &row, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    int across, down;
    if (argc >= 2 && strcmp(argv[1], "decode") == 0)
        return decode(argc > 2 && strcmp(argv[2], "gray") == 0 ? JCS_GRAYSCALE : JCS_RGB);
    if (argc < 4 || strcmp(argv[1], "encode") != 0 || sscanf(argv[2], "%dx%d", &across, &down) != 2)
        return usage();
    return encode(across, down, atoi(argv[3]), argc > 4 ? argv[4] : "");
}
