/* Global heaps: objects by address and index, limits of memory, and everything that does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/hdf5.h"

/* ---- files by hand ---- */

enum { FILE_BYTES = 1 << 17, ADDRESS = 4096, COLLECTION = 4096 };

static char file_name[] = "heap.h5";

typedef struct fixture {
    uint8_t *bytes;
    FILE *stream;
    int fd;
    stk__h5_file file;
} fixture;

static void put_number(uint8_t *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

static void fixture_init(fixture *f, int offset_size, int length_size, int64_t base)
{
    *f = (fixture){.bytes = stk__calloc(1, FILE_BYTES), .fd = -1};
    assert_non_null(f->bytes);
    f->file = (stk__h5_file){
        .path = file_name, .offset_size = offset_size, .length_size = length_size, .base = base, .id = {FILE_BYTES, 1}};
}

/* Makes it a file; what is put later is not in it. */
static void fixture_write(fixture *f)
{
    f->stream = tmpfile();
    assert_non_null(f->stream);
    assert_int_equal(fwrite(f->bytes, 1, FILE_BYTES, f->stream), FILE_BYTES);
    assert_int_equal(fflush(f->stream), 0);
    f->fd = fileno(f->stream);
}

static void fixture_clear(fixture *f)
{
    if (f->stream)
        fclose(f->stream);
    stk__free(f->bytes);
}

static size_t header_size(const fixture *f)
{
    return ((size_t)f->file.length_size + 8 + 7) & ~(size_t)7;
}

static void put_collection(fixture *f, size_t address, size_t size)
{
    uint8_t *p = f->bytes + f->file.base + address;
    memcpy(p, "GCOL\1\0\0", 8);
    put_number(p + 8, size, f->file.length_size);
}

/* Returns the place behind it. */
static size_t put_object(fixture *f, size_t at, int index, const void *data, size_t size)
{
    uint8_t *p = f->bytes + f->file.base + at;
    put_number(p, (uint64_t)index, 2);
    put_number(p + 2, 1, 2);
    put_number(p + 8, size, f->file.length_size);
    if (data)
        memcpy(p + header_size(f), data, size);
    return at + header_size(f) + ((size + 7) & ~(size_t)7);
}

static size_t put_text(fixture *f, size_t at, int index, const char *text)
{
    return put_object(f, at, index, text, strlen(text));
}

/* A collection whose one object is the text, with index 1. */
static void put_single(fixture *f, size_t address, const char *text)
{
    put_collection(f, address, COLLECTION);
    put_text(f, address + header_size(f), 1, text);
}

/* ---- reading them ---- */

static stk_status get(stk__h5_heap *heap, const fixture *f, uint64_t length, uint64_t address, uint64_t index,
                      size_t unit, stk_bytes *out, stk_error *err)
{
    const int offset_size = f->file.offset_size;
    uint8_t *descriptor = stk__alloc(8 + (size_t)offset_size);
    const uint8_t *data = NULL;
    size_t size = 0;
    assert_non_null(descriptor);
    put_number(descriptor, length, 4);
    put_number(descriptor + 4, address, offset_size);
    put_number(descriptor + 4 + offset_size, index, 4);
    const stk_status status = stk__h5_heap_get(heap, &f->file, f->fd, descriptor, unit, &data, &size, err);
    *out = (stk_bytes){data, (int64_t)size};
    stk__free(descriptor);
    return status;
}

static stk__h5_heap *new_heap(size_t max_bytes)
{
    stk__h5_heap *heap = NULL;
    assert_int_equal(stk__h5_heap_new(max_bytes, &heap, NULL), STK_OK);
    return heap;
}

static void assert_text(stk__h5_heap *heap, const fixture *f, uint64_t address, uint64_t index, const char *text)
{
    stk_bytes found;
    stk_error err = {0};
    if (get(heap, f, strlen(text), address, index, 1, &found, &err) != STK_OK)
        fail_msg("%s", err.message);
    assert_int_equal(found.size, strlen(text));
    assert_memory_equal(found.data, text, strlen(text));
}

/* Fails with that status, a message that holds `message`, the file and the offset. */
static void assert_refused(const fixture *f, size_t max_bytes, const uint64_t value[4], const char *message,
                           int64_t offset)
{
    stk__h5_heap *heap = new_heap(max_bytes);
    stk_bytes found;
    stk_error err = {0};
    assert_int_equal(get(heap, f, value[0], value[1], value[2], (size_t)value[3], &found, NULL), STK_CORRUPT);
    assert_int_equal(get(heap, f, value[0], value[1], value[2], (size_t)value[3], &found, &err), STK_CORRUPT);
    if (!strstr(err.message, message))
        fail_msg("\"%s\" has no \"%s\"", err.message, message);
    assert_string_equal(err.file, "heap.h5");
    assert_int_equal(err.offset, offset);
    assert_null(found.data);
    stk__h5_heap_free(heap);
}

/* The same, whether collections are kept or not. */
static void assert_corrupt(const fixture *f, const uint64_t value[4], const char *message, int64_t offset)
{
    assert_refused(f, 1 << 20, value, message, offset);
    assert_refused(f, 0, value, message, offset);
}

/* ---- what is there ---- */

static void get_finds_objects_with_addresses_and_lengths_of_every_size(void **state)
{
    static const int sizes[] = {2, 4, 8};
    for (int i = 0; i < 18; i++) {
        fixture f;
        stk__h5_heap *heap = new_heap(i < 9 ? 1 << 20 : 100);
        fixture_init(&f, sizes[i % 3], sizes[i / 3 % 3], i % 2 * 512);
        put_collection(&f, ADDRESS, COLLECTION);
        size_t at = put_text(&f, ADDRESS + header_size(&f), 1, "first");
        at = put_text(&f, at, 2, "eight888");
        at = put_text(&f, at, 700, "a high index");
        put_text(&f, at, 3, "last");
        fixture_write(&f);
        assert_text(heap, &f, ADDRESS, 700, "a high index");
        assert_text(heap, &f, ADDRESS, 1, "first");
        assert_text(heap, &f, ADDRESS, 3, "last");
        assert_text(heap, &f, ADDRESS, 2, "eight888");
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

/* A large object makes a large collection, and its last bytes lie at the very end of the file. */
static void get_of_large_objects(void **state)
{
    for (int kept = 0; kept < 2; kept++) {
        enum { LARGE = FILE_BYTES - ADDRESS - 32 };
        fixture f;
        stk_bytes found;
        stk__h5_heap *heap = new_heap(kept ? 1 << 20 : COLLECTION);
        fixture_init(&f, 8, 8, 0);
        put_collection(&f, ADDRESS, FILE_BYTES - ADDRESS);
        put_object(&f, ADDRESS + 16, 1, NULL, LARGE);
        for (size_t i = 0; i < LARGE; i++)
            f.bytes[ADDRESS + 32 + i] = (uint8_t)(i * 7 ^ i >> 8);
        fixture_write(&f);
        assert_int_equal(get(heap, &f, LARGE / 4, ADDRESS, 1, 4, &found, NULL), STK_OK);
        assert_int_equal(found.size, LARGE);
        assert_memory_equal(found.data, f.bytes + ADDRESS + 32, LARGE);
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

static void get_takes_as_much_as_the_descriptor_says(void **state)
{
    fixture f;
    stk_bytes found;
    stk__h5_heap *heap = new_heap(1 << 20);
    fixture_init(&f, 8, 8, 0);
    put_single(&f, ADDRESS, "0123456789");
    fixture_write(&f);
    assert_int_equal(get(heap, &f, 2, ADDRESS, 1, 4, &found, NULL), STK_OK);
    assert_int_equal(found.size, 8);
    assert_memory_equal(found.data, "01234567", 8);
    stk__h5_heap_free(heap);
    fixture_clear(&f);
}

static void get_of_empty_values_reads_nothing(void **state)
{
    static const int sizes[] = {2, 4, 8};
    for (int i = 0; i < 3; i++) {
        fixture f;
        stk_bytes found;
        stk__h5_heap *heap = new_heap(1 << 20);
        fixture_init(&f, sizes[i], 8, 0);
        const uint64_t values[][3] = {{0, ADDRESS, 1}, {5, 0, 1}, {0, UINT64_MAX, 1}, {0, 0, 0}};
        for (size_t k = 0; k < STK_COUNT(values); k++) {
            assert_int_equal(get(heap, &f, values[k][0], values[k][1], values[k][2], 4, &found, NULL), STK_OK);
            assert_int_equal(found.size, 0);
            assert_non_null(found.data);
        }
        assert_int_equal(get(heap, &f, 5, UINT64_MAX, 1, 4, &found, NULL), STK_CORRUPT);
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

static void get_passes_over_free_space(void **state)
{
    for (int kept = 0; kept < 2; kept++) {
        fixture f;
        stk__h5_heap *heap = new_heap(kept ? 1 << 20 : 0);
        fixture_init(&f, 8, 8, 0);
        /* The last 8 bytes are too few for a header. */
        put_collection(&f, ADDRESS, 160);
        size_t at = put_text(&f, ADDRESS + 16, 2, "before");
        put_object(&f, at, 0, NULL, 48);
        put_text(&f, at + 48, 1, "a text of 33 bytes behind a space");
        memset(f.bytes + ADDRESS + 152, 0xff, 8);
        /* A space of no size ends the list. */
        put_collection(&f, 2 * ADDRESS, COLLECTION);
        at = put_text(&f, 2 * ADDRESS + 16, 1, "only");
        put_text(&f, at + 16, 2, "never");
        fixture_write(&f);
        assert_text(heap, &f, ADDRESS, 1, "a text of 33 bytes behind a space");
        assert_text(heap, &f, ADDRESS, 2, "before");
        assert_text(heap, &f, 2 * ADDRESS, 1, "only");
        assert_corrupt(&f, (const uint64_t[]){5, 2 * ADDRESS, 2, 1}, "no object 2", 2 * ADDRESS);
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

static void get_ends_at_free_space_of_a_senseless_size(void **state)
{
    static const uint64_t sizes[] = {
        8, 40, 41, COLLECTION, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 15, UINT64_MAX - 23};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        fixture f;
        stk__h5_heap *heap = new_heap(1 << 20);
        fixture_init(&f, 8, 8, 0);
        put_single(&f, ADDRESS, "text");
        put_number(f.bytes + ADDRESS + 16 + 24 + 8, sizes[i], 8);
        put_text(&f, ADDRESS + 16 + 24 + (sizes[i] < 100 ? sizes[i] : 16), 2, "lost");
        fixture_write(&f);
        assert_text(heap, &f, ADDRESS, 1, "text");
        if (sizes[i] == 40)
            assert_text(heap, &f, ADDRESS, 2, "lost");
        else
            assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 2, 1}, "no object 2", ADDRESS);
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

/* ---- memory ---- */

static void put_many(fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        char text[24];
        snprintf(text, sizeof text, "text %d", i);
        put_single(f, (size_t)(i + 1) * COLLECTION, text);
    }
}

static void assert_many(stk__h5_heap *heap, const fixture *f, int i)
{
    char text[24];
    snprintf(text, sizeof text, "text %d", i);
    assert_text(heap, f, (uint64_t)(i + 1) * COLLECTION, 1, text);
}

/* Without a file to read from, only what is kept can be found. */
static bool is_kept(stk__h5_heap *heap, const fixture *f, int i)
{
    uint8_t descriptor[16] = {1};
    const uint8_t *data;
    size_t size;
    put_number(descriptor + 4, (uint64_t)(i + 1) * COLLECTION, 8);
    put_number(descriptor + 12, 1, 4);
    return stk__h5_heap_get(heap, &f->file, -1, descriptor, 1, &data, &size, NULL) == STK_OK;
}

static void get_keeps_what_was_used_last(void **state)
{
    fixture f;
    stk__h5_heap *heap = new_heap(2 * COLLECTION + 1000);
    fixture_init(&f, 8, 8, 0);
    put_many(&f, 4);
    fixture_write(&f);
    assert_many(heap, &f, 0);
    assert_many(heap, &f, 1);
    assert_many(heap, &f, 0);
    assert_many(heap, &f, 2);
    assert_true(is_kept(heap, &f, 2));
    assert_true(is_kept(heap, &f, 0));
    assert_false(is_kept(heap, &f, 1));
    assert_many(heap, &f, 3);
    assert_false(is_kept(heap, &f, 2));
    stk__h5_heap_free(heap);
    fixture_clear(&f);
}

static void get_with_any_limit_gives_the_same(void **state)
{
    static const size_t limits[] = {0, 1, 4096, 4200, 10000, 60000, 1 << 30};
    fixture f;
    fixture_init(&f, 8, 8, 0);
    put_many(&f, 30);
    fixture_write(&f);
    for (size_t k = 0; k < STK_COUNT(limits); k++) {
        stk__h5_heap *heap = new_heap(limits[k]);
        for (int i = 0; i < 300; i++)
            assert_many(heap, &f, i * i % 30);
        stk__h5_heap_free(heap);
    }
    fixture_clear(&f);
}

/* Memory goes from one collection to the next, whatever they hold. */
static void get_from_collections_of_many_sizes(void **state)
{
    enum { COUNT = 12 };
    for (size_t limit = 0; limit < 70000; limit += 3500) {
        stk__h5_heap *heap = new_heap(limit);
        size_t address[COUNT], at = 64;
        fixture f;
        fixture_init(&f, 8, 8, 0);
        for (int i = 0; i < COUNT; i++) {
            const int objects = 1 + i * 5 % COUNT;
            size_t object = at + 16;
            address[i] = at;
            memset(f.bytes + at, 0x11, (size_t)(1 + i * 7 % COUNT) * 1000);
            put_collection(&f, at, (size_t)(1 + i * 7 % COUNT) * 1000);
            for (int k = 1; k <= objects; k++)
                object = put_object(&f, object, k, (const uint8_t[]){(uint8_t)i, (uint8_t)k}, 2);
            put_object(&f, object, 0, NULL, 0);
            at += (size_t)(1 + i * 7 % COUNT) * 1000;
        }
        fixture_write(&f);
        for (int n = 0; n < 400; n++) {
            const int i = n * n % 31 % COUNT, k = 1 + n % (COUNT + 1);
            stk_bytes found;
            const stk_status status = get(heap, &f, 2, address[i], (uint64_t)k, 1, &found, NULL);
            assert_int_equal(status, k <= 1 + i * 5 % COUNT ? STK_OK : STK_CORRUPT);
            if (status == STK_OK)
                assert_memory_equal(found.data, ((const uint8_t[]){(uint8_t)i, (uint8_t)k}), 2);
        }
        stk__h5_heap_free(heap);
        fixture_clear(&f);
    }
}

static void get_in_a_full_heap_allocates_nothing(void **state)
{
    fixture f;
    stk__h5_heap *heap = new_heap(5 * COLLECTION);
    fixture_init(&f, 8, 8, 0);
    put_many(&f, 30);
    fixture_write(&f);
    for (int i = 0; i < 30; i++)
        assert_many(heap, &f, i);
    const uint8_t descriptor[2][16] = {{4, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1},
                                       {4, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 1}};
    const uint8_t *data;
    size_t size;
    for (int i = 0; i < 2; i++) {
        const uint64_t before = stk__alloc_count();
        assert_int_equal(stk__h5_heap_get(heap, &f.file, f.fd, descriptor[i], 1, &data, &size, NULL), STK_OK);
        assert_int_equal(stk__alloc_count(), before);
    }
    stk__h5_heap_free(heap);
    fixture_clear(&f);
}

static void get_from_another_file_forgets_the_first(void **state)
{
    fixture a, b;
    stk__h5_heap *heap = new_heap(1 << 20);
    fixture_init(&a, 8, 8, 0);
    fixture_init(&b, 8, 8, 0);
    put_single(&a, ADDRESS, "one");
    put_single(&b, ADDRESS, "two");
    fixture_write(&a);
    fixture_write(&b);
    assert_text(heap, &a, ADDRESS, 1, "one");
    assert_text(heap, &b, ADDRESS, 1, "two");
    assert_text(heap, &a, ADDRESS, 1, "one");
    /* The same one, changed. */
    a.fd = b.fd;
    a.file.id.mtime_ns++;
    assert_text(heap, &a, ADDRESS, 1, "two");
    stk__h5_heap_free(heap);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void get_without_memory_fails_and_works_again(void **state)
{
    for (int kept = 0; kept < 2; kept++) {
        fixture f;
        fixture_init(&f, 8, 8, 0);
        put_single(&f, ADDRESS, "text");
        fixture_write(&f);
        const uint8_t descriptor[16] = {4, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1};
        uint64_t failures = 0;
        stk_status status = STK_NOMEM;
        while (status != STK_OK) {
            stk__h5_heap *heap = NULL;
            const uint8_t *data;
            size_t size;
            stk__alloc_fail_at(++failures, false);
            status = stk__h5_heap_new(kept ? 1 << 20 : 0, &heap, NULL);
            if (status == STK_OK)
                status = stk__h5_heap_get(heap, &f.file, f.fd, descriptor, 1, &data, &size, NULL);
            stk__alloc_fail_at(0, false);
            assert_true(status == STK_OK || status == STK_NOMEM);
            if (heap)
                assert_text(heap, &f, ADDRESS, 1, "text");
            stk__h5_heap_free(heap);
        }
        assert_true(failures >= 5);
        fixture_clear(&f);
    }
}

/* ---- what does not fit ---- */

static void get_refuses_addresses_without_a_heap(void **state)
{
    fixture f;
    fixture_init(&f, 8, 8, 512);
    put_single(&f, ADDRESS, "text");
    f.bytes[512 + 2 * ADDRESS] = 'G';
    put_single(&f, 3 * ADDRESS, "text");
    f.bytes[512 + 3 * ADDRESS + 4] = 2;
    put_collection(&f, FILE_BYTES - 512 - 16, 16);
    fixture_write(&f);
    const int64_t base = 512;
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS + 1, 1, 1}, "wanted \"GCOL\"", base + ADDRESS + 1);
    assert_corrupt(&f, (const uint64_t[]){4, 2 * ADDRESS, 1, 1}, "found 47 00 00 00", base + 2 * ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){4, 3 * ADDRESS, 1, 1}, "version 2", base + 3 * ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){4, FILE_BYTES - 512 - 16, 1, 1}, "no object 1", FILE_BYTES - 16);
    assert_corrupt(&f, (const uint64_t[]){4, FILE_BYTES - 512 - 15, 1, 1}, "131072 bytes", base);
    assert_corrupt(&f, (const uint64_t[]){4, UINT64_MAX - 1, 1, 1}, "131072 bytes", base);
    assert_corrupt(&f, (const uint64_t[]){4, INT64_MAX, 1, 1}, "131072 bytes", base);
    f.file.base = -16;
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 1, 1}, "131072 bytes", -16);
    f.file.base = INT64_MAX;
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 1, 1}, "131072 bytes", INT64_MAX);
    fixture_clear(&f);
}

static void get_refuses_objects_that_are_not_there_or_too_short(void **state)
{
    fixture f;
    fixture_init(&f, 8, 8, 0);
    put_single(&f, ADDRESS, "text");
    fixture_write(&f);
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 2, 1}, "no object 2", ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 0, 1}, "no object 0", ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, UINT32_MAX, 1}, "no object 4294967295", ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){5, ADDRESS, 1, 1}, "has 4 bytes, wanted 5", ADDRESS + 16);
    assert_corrupt(&f, (const uint64_t[]){2, ADDRESS, 1, 4}, "has 4 bytes, wanted 8", ADDRESS + 16);
    assert_corrupt(&f, (const uint64_t[]){1 << 20, ADDRESS, 1, 64}, "has 4 bytes", ADDRESS + 16);
    assert_corrupt(&f, (const uint64_t[]){UINT32_MAX, ADDRESS, 1, 1}, "4294967295 times 1", ADDRESS);
    assert_corrupt(&f, (const uint64_t[]){UINT32_MAX, ADDRESS, 1, SIZE_MAX}, "4294967295 times", ADDRESS);
    fixture_clear(&f);
}

static void get_refuses_sizes_that_pass_the_end(void **state)
{
    static const uint64_t sizes[] = {0, 15, FILE_BYTES - ADDRESS + 1, 1 << 20, UINT64_MAX, UINT64_MAX - 7};
    const uint64_t value[] = {4, ADDRESS, 1, 1};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        fixture f;
        fixture_init(&f, 8, 8, 0);
        put_single(&f, ADDRESS, "text");
        put_collection(&f, ADDRESS, sizes[i]);
        fixture_write(&f);
        assert_corrupt(&f, value, "wanted 16 to 126976", ADDRESS);
        fixture_clear(&f);
    }
    static const uint64_t objects[] = {COLLECTION - 31, COLLECTION, UINT64_MAX, UINT64_MAX - 15};
    for (size_t i = 0; i < STK_COUNT(objects); i++) {
        fixture f;
        fixture_init(&f, 8, 8, 0);
        put_single(&f, ADDRESS, "text");
        put_number(f.bytes + ADDRESS + 24, objects[i], 8);
        fixture_write(&f);
        assert_corrupt(&f, value, "ends after 4064", ADDRESS + 16);
        fixture_clear(&f);
    }
}

static void get_refuses_collections_beyond_all_measure(void **state)
{
    fixture f;
    fixture_init(&f, 8, 8, 0);
    put_single(&f, ADDRESS, "text");
    put_collection(&f, ADDRESS, (1u << 30) + 8);
    fixture_write(&f);
    assert_int_equal(ftruncate(f.fd, (off_t)3 << 30), 0);
    f.file.id.size_bytes = (int64_t)3 << 30;
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 1, 1}, "wanted 16 to 1073741824", ADDRESS);
    fixture_clear(&f);
}

static void get_refuses_a_file_that_is_shorter_than_it_was(void **state)
{
    fixture f;
    fixture_init(&f, 8, 8, 0);
    put_single(&f, ADDRESS, "text");
    fixture_write(&f);
    assert_int_equal(ftruncate(f.fd, ADDRESS + 100), 0);
    assert_corrupt(&f, (const uint64_t[]){4, ADDRESS, 1, 1}, "file ends at byte 4196", ADDRESS);
    fixture_clear(&f);
}

static void get_refuses_more_objects_than_there_are_numbers(void **state)
{
    enum { SIZE = 16 + 16 * (UINT16_MAX + 1) };
    fixture f;
    fixture_init(&f, 8, 8, 0);
    stk__free(f.bytes);
    f.bytes = stk__calloc(1, ADDRESS + SIZE);
    assert_non_null(f.bytes);
    put_collection(&f, ADDRESS, SIZE);
    for (size_t at = 16; at < SIZE; at += 16)
        put_object(&f, ADDRESS + at, 1, NULL, 0);
    f.stream = tmpfile();
    assert_non_null(f.stream);
    assert_int_equal(fwrite(f.bytes, 1, ADDRESS + SIZE, f.stream), ADDRESS + SIZE);
    assert_int_equal(fflush(f.stream), 0);
    f.fd = fileno(f.stream);
    f.file.id.size_bytes = ADDRESS + SIZE;
    assert_corrupt(&f, (const uint64_t[]){1, ADDRESS, 1, 1}, "more than 65535 objects", ADDRESS + SIZE - 16);
    fixture_clear(&f);
}

static void get_refuses_sizes_of_addresses_that_it_does_not_know(void **state)
{
    static const uint8_t descriptor[64];
    stk__h5_heap *heap = new_heap(0);
    const uint8_t *data;
    size_t size;
    stk__h5_file file = {.path = file_name, .offset_size = 16, .length_size = 8};
    assert_int_equal(stk__h5_heap_get(heap, &file, -1, descriptor, 1, &data, &size, NULL), STK_UNSUPPORTED);
    file = (stk__h5_file){.path = file_name, .offset_size = 8, .length_size = 0};
    assert_int_equal(stk__h5_heap_get(heap, &file, -1, descriptor, 1, &data, &size, NULL), STK_UNSUPPORTED);
    stk__h5_heap_free(heap);
}

/* ---- heaps in memory ---- */

static void inline_get_stays_inside_the_heap(void **state)
{
    static const struct {
        uint64_t length, place;
        size_t unit;
        const char *wanted; /* NULL: refused */
    } cases[] = {
        {3, 0, 1, "012"},         {10, 0, 1, "0123456789"}, {2, 6, 2, "6789"},        {0, UINT64_MAX, 1, ""},
        {0, 99, 8, ""},           {1, 9, 1, "9"},           {1, 10, 1, NULL},         {11, 0, 1, NULL},
        {6, 0, 2, NULL},          {1, UINT64_MAX, 1, NULL}, {UINT32_MAX, 4, 8, NULL}, {2, 4, SIZE_MAX, NULL},
        {1, 1ull << 63, 1, NULL}, {3, 4, 2, "456789"},      {3, 5, 2, NULL},
    };
    uint8_t *heap = stk__alloc(10), *descriptor = stk__alloc(16);
    assert_true(heap && descriptor);
    memcpy(heap, "0123456789", 10);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const uint8_t *data = NULL;
        size_t size = 77;
        stk_error err = {0};
        put_number(descriptor, cases[i].length, 4);
        put_number(descriptor + 4, cases[i].place, 8);
        put_number(descriptor + 12, 0, 4);
        const stk_status status = stk__h5_inline_get(heap, 10, descriptor, cases[i].unit, &data, &size, &err);
        assert_int_equal(status, cases[i].wanted ? STK_OK : STK_CORRUPT);
        if (!cases[i].wanted) {
            assert_non_null(strstr(err.message, "a heap that has 10"));
            continue;
        }
        assert_int_equal(size, strlen(cases[i].wanted));
        assert_memory_equal(data, cases[i].wanted, size);
    }
    stk__free(heap);
    stk__free(descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_finds_objects_with_addresses_and_lengths_of_every_size),
        cmocka_unit_test(get_of_large_objects),
        cmocka_unit_test(get_takes_as_much_as_the_descriptor_says),
        cmocka_unit_test(get_of_empty_values_reads_nothing),
        cmocka_unit_test(get_passes_over_free_space),
        cmocka_unit_test(get_ends_at_free_space_of_a_senseless_size),
        cmocka_unit_test(get_keeps_what_was_used_last),
        cmocka_unit_test(get_with_any_limit_gives_the_same),
        cmocka_unit_test(get_from_collections_of_many_sizes),
        cmocka_unit_test(get_in_a_full_heap_allocates_nothing),
        cmocka_unit_test(get_from_another_file_forgets_the_first),
        cmocka_unit_test(get_without_memory_fails_and_works_again),
        cmocka_unit_test(get_refuses_addresses_without_a_heap),
        cmocka_unit_test(get_refuses_objects_that_are_not_there_or_too_short),
        cmocka_unit_test(get_refuses_sizes_that_pass_the_end),
        cmocka_unit_test(get_refuses_collections_beyond_all_measure),
        cmocka_unit_test(get_refuses_a_file_that_is_shorter_than_it_was),
        cmocka_unit_test(get_refuses_more_objects_than_there_are_numbers),
        cmocka_unit_test(get_refuses_sizes_of_addresses_that_it_does_not_know),
        cmocka_unit_test(inline_get_stays_inside_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
