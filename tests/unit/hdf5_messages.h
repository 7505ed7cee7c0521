/* Builds descriptions of HDF5 files as the helper program would send them. */
#ifndef STK_TESTS_HDF5_MESSAGES_H
#define STK_TESTS_HDF5_MESSAGES_H

#include <stdint.h>
#include <string.h>

#include "base/wire.h"
#include "formats/hdf5.h"

STK_UNUSED static void put_str(stk__text *t, uint32_t field, const char *s)
{
    stk__wire_put_bytes(t, field, s, strlen(s));
}

/* Closes a message: its bytes become a field of `to`. */
STK_UNUSED static void put_message(stk__text *to, uint32_t field, stk__text *message)
{
    stk__wire_put_bytes(to, field, message->data ? message->data : "", message->length);
    stk__text_clear(message);
}

/* Several numbers of one field. */
STK_UNUSED static void put_numbers(stk__text *t, uint32_t field, const uint64_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stk__wire_put_uint(t, field, x[i]);
}

#define PUT_NUMBERS(t, field, ...) \
    put_numbers(t, field, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

STK_UNUSED static void put_file_header(stk__text *t, int64_t size_bytes, int64_t mtime_ns)
{
    stk__wire_put_uint(t, STK__H5_FILE_VERSION, STK__H5_WIRE_VERSION);
    put_str(t, STK__H5_FILE_LIBRARY, "1.10.8");
    stk__wire_put_uint(t, STK__H5_FILE_OFFSET_SIZE, 8);
    stk__wire_put_uint(t, STK__H5_FILE_LENGTH_SIZE, 8);
    stk__wire_put_uint(t, STK__H5_FILE_BASE, 0);
    stk__wire_put_uint(t, STK__H5_FILE_SIZE, (uint64_t)size_bytes);
    stk__wire_put_uint(t, STK__H5_FILE_MTIME, (uint64_t)mtime_ns);
}

/* A leaf without arrays around it. */
STK_UNUSED static void put_leaf(stk__text *dataset, const char *path, int kind, size_t size, size_t offset)
{
    stk__text leaf = STK__TEXT_INIT;
    put_str(&leaf, STK__H5_LEAF_PATH, path);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_KIND, (uint64_t)kind);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_SIZE, size);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_OFFSET, offset);
    put_message(dataset, STK__H5_DATASET_LEAF, &leaf);
}

STK_UNUSED static void put_filter(stk__text *dataset, uint32_t id, const uint64_t *values, size_t count)
{
    stk__text filter = STK__TEXT_INIT;
    PUT_NUMBERS(&filter, STK__H5_FILTER_ID, id);
    put_numbers(&filter, STK__H5_FILTER_VALUE, values, count);
    put_message(dataset, STK__H5_DATASET_FILTER, &filter);
}

/* Four numbers for each chunk: number, address, size, mask. */
STK_UNUSED static void put_chunks(stk__text *dataset, const uint64_t (*chunks)[4], size_t count)
{
    stk__text table = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 32; k++)
            stk__text_putc(&table, (char)(chunks[i][k / 8] >> 8 * (k % 8)));
    }
    put_message(dataset, STK__H5_DATASET_CHUNKS, &table);
}

/* float32 elements under this path: what nearly every test starts with. */
STK_UNUSED static void begin_dataset(stk__text *t, const char *path, int layout, const uint64_t *dims, size_t rank)
{
    put_str(t, STK__H5_DATASET_PATH, path);
    put_str(t, STK__H5_DATASET_TYPE, "float32");
    put_numbers(t, STK__H5_DATASET_DIM, dims, rank);
    PUT_NUMBERS(t, STK__H5_DATASET_ELEMENT, 4);
    PUT_NUMBERS(t, STK__H5_DATASET_LAYOUT, (uint64_t)layout);
}

#endif
