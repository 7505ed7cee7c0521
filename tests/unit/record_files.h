/* Helpers of the record tests: a directory of their own, and TFRecord bytes built by hand. */
#ifndef STK_TESTS_RECORD_FILES_H
#define STK_TESTS_RECORD_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "formats/tfrecord.h"
#include "kernels/crc32c.h"
#include "../remove_tree.h"

static char test_dir[64];

STK_UNUSED static int make_test_dir(void **state)
{
    snprintf(test_dir, sizeof test_dir, "/tmp/stk-records-XXXXXX");
    return mkdtemp(test_dir) ? 0 : -1;
}

STK_UNUSED static int remove_test_dir(void **state)
{
    stk__alloc_fail_at(0, false);
    remove_tree(test_dir);
    return 0;
}

/* Path of a file in the test's directory; the text lives until the fourth call after this one. */
STK_UNUSED static const char *in_dir(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir, name);
    return path;
}

STK_UNUSED static const char *write_bytes(const char *name, const void *data, size_t size)
{
    const char *path = in_dir(name);
    assert_int_equal(stk__write_file(path, data, size, NULL), STK_OK);
    return path;
}

STK_UNUSED static const char *write_text(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

static void put_le(stk__text *t, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        stk__text_putc(t, (char)(x >> 8 * i));
}

/* A header alone, with a fitting CRC. */
STK_UNUSED static void put_header(stk__text *t, uint64_t length)
{
    uint8_t le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(length >> 8 * i);
    stk__text_write(t, le, 8);
    put_le(t, stk__crc32c_mask(stk__crc32c(le, 8)), 4);
}

STK_UNUSED static void put_record(stk__text *t, const void *data, size_t size)
{
    put_header(t, size);
    stk__text_write(t, data, size);
    put_le(t, stk__crc32c_mask(stk__crc32c(data, size)), 4);
}

/* Record number n of a test: a size and bytes that follow from n. */
STK_UNUSED static size_t sample_size(uint64_t n, size_t max)
{
    return (size_t)(stk__mix(n, 1) % (max + 1));
}

STK_UNUSED static void put_sample(stk__text *t, uint64_t n, size_t max)
{
    const size_t size = sample_size(n, max);
    uint8_t *data = stk__alloc(size);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)stk__mix(n, i + 2);
    put_record(t, data, size);
    stk__free(data);
}

STK_UNUSED static bool is_sample(uint64_t n, size_t max, const uint8_t *data, size_t size)
{
    if (size != sample_size(n, max))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (data[i] != (uint8_t)stk__mix(n, i + 2))
            return false;
    }
    return true;
}

STK_UNUSED static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

typedef struct line_case {
    const char *text;
    const char *lines[6]; /* NULL ends */
} line_case;

STK_UNUSED static const line_case line_cases[] = {
    {"", {NULL}},
    {"a\nbb\n", {"a", "bb"}},
    {"a\nbb", {"a", "bb"}},
    {"a\r\nbb\r\n", {"a", "bb"}},
    {"a\r\nbb\r", {"a", "bb\r"}},
    {"\n\r\n\n", {"", "", ""}},
    {"\r", {"\r"}},
    {"\r\r\n", {"\r"}},
    {"a\r\nb\nc\rd\n", {"a", "b", "c\rd"}},
    {"a\r\nb\nc\rd\n\ne", {"a", "b", "c\rd", "", "e"}},
    {"x^2\n", {"x^2"}}, /* its first two bytes are a valid zlib header */
    {"x^2 + y^2\n", {"x^2 + y^2"}},
    {"x\x9c", {"x\x9c"}}, /* and here they are all */
};

#endif
