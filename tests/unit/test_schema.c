/* Schemas: what is written reads back, what changed on the way is dropped, names of files, bad files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/schema.h"

static stk__text print(const stk__schema *s)
{
    stk__text t = STK__TEXT_INIT;
    assert_int_equal(stk__schema_print(s, &t, NULL), STK_OK);
    return t;
}

static void assert_attributes_equal(const stk__h5_attribute *a, size_t a_count, const stk__h5_attribute *b,
                                    size_t b_count)
{
    assert_int_equal(a_count, b_count);
    for (size_t i = 0; i < a_count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_int_equal(a[i].kind, b[i].kind);
        assert_int_equal(a[i].size, b[i].size);
        assert_int_equal(a[i].ndim, b[i].ndim);
        assert_int_equal(a[i].count, b[i].count);
        assert_int_equal(a[i].utf8, b[i].utf8);
        assert_int_equal(a[i].big, b[i].big);
        assert_memory_equal(a[i].dims, b[i].dims, sizeof *a[i].dims * (size_t)a[i].ndim);
        for (int64_t k = 0; a[i].kind == STK__H5_KIND_STRING && k < a[i].count; k++) {
            assert_int_equal(a[i].strings[k].size, b[i].strings[k].size);
            assert_memory_equal(a[i].strings[k].data, b[i].strings[k].data, (size_t)a[i].strings[k].size);
            assert_int_equal(b[i].strings[k].data[b[i].strings[k].size], 0);
        }
        if (a[i].kind != STK__H5_KIND_STRING)
            assert_memory_equal(a[i].data, b[i].data, a[i].size * (size_t)a[i].count);
    }
}

static void assert_entry_equal(const stk__schema_entry *a, const stk__schema_entry *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->ndim, b->ndim);
    assert_memory_equal(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim);
    assert_int_equal(!a->dataset, !b->dataset);
    if (a->dataset)
        assert_string_equal(a->dataset, b->dataset);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->pad, b->pad);
    assert_int_equal(a->utf8, b->utf8);
    assert_int_equal(a->big_endian, b->big_endian);
    assert_int_equal(a->fill_size, b->fill_size);
    assert_int_equal(!a->fill, !b->fill);
    if (a->fill)
        assert_memory_equal(a->fill, b->fill, a->fill_size);
    assert_int_equal(a->chunk_ndim, b->chunk_ndim);
    assert_memory_equal(a->chunk, b->chunk, sizeof *a->chunk * (size_t)a->chunk_ndim);
    assert_int_equal(a->filter_count, b->filter_count);
    for (size_t i = 0; i < a->filter_count; i++) {
        assert_int_equal(a->filters[i].id, b->filters[i].id);
        assert_int_equal(a->filters[i].optional, b->filters[i].optional);
        assert_int_equal(a->filters[i].value_count, b->filters[i].value_count);
        for (size_t k = 0; k < a->filters[i].value_count; k++)
            assert_int_equal(a->filters[i].values[k], b->filters[i].values[k]);
    }
    assert_attributes_equal(a->attributes, a->attribute_count, b->attributes, b->attribute_count);
}

static void assert_reads_back(const stk__schema *s)
{
    stk__schema back;
    stk_error err;
    stk_error_clear(&err);
    stk__text text = print(s);
    if (stk__schema_parse(text.data, text.length, &back, &err) != STK_OK)
        fail_msg("%s in %s", err.message, text.data);
    assert_int_equal(s->rows, back.rows);
    assert_int_equal(s->count, back.count);
    for (size_t i = 0; i < s->count; i++)
        assert_entry_equal(&s->entries[i], &back.entries[i]);
    assert_attributes_equal(s->attributes, s->attribute_count, back.attributes, back.attribute_count);
    stk__text again = print(&back);
    assert_string_equal(text.data, again.data);
    stk__text_clear(&text);
    stk__text_clear(&again);
    stk__schema_clear(&back);
}

/* ---- datasets as hdf5 describes them ---- */

static char *text_of(const char *s)
{
    return (char *)(uintptr_t)s;
}

static stk_bytes strings[] = {{(const uint8_t *)"metres", 6},
                              {(const uint8_t *)"caf\xe9", 4},
                              {(const uint8_t *)"a\0b", 3},
                              {(const uint8_t *)"\xc3\xa9\"\\\n", 5},
                              {(const uint8_t *)"", 0}};
static uint8_t bytes[600];

static const stk__h5_attribute some_attributes[] = {
    {.name = (char *)(uintptr_t)"unit", .kind = STK__H5_KIND_STRING, .count = 1, .strings = strings, .utf8 = true},
    {.name = (char *)(uintptr_t)"names", .kind = STK__H5_KIND_STRING, .size = 6, .ndim = 1, .dims = {5}, .count = 5, .strings = strings},
    {.name = (char *)(uintptr_t)"scale", .kind = STK__H5_KIND_FLOAT, .size = 8, .count = 1, .data = bytes},
    {.name = (char *)(uintptr_t)"caf\xe9",
     .kind = STK__H5_KIND_INT,
     .size = 2,
     .ndim = 2,
     .dims = {2, 3},
     .count = 6,
     .data = bytes,
     .big = true},
    {.name = (char *)(uintptr_t)"none", .kind = STK__H5_KIND_FLOAT, .size = 4, .ndim = 1, .dims = {0}, .count = 0, .data = bytes},
    {.name = (char *)(uintptr_t)"no strings", .kind = STK__H5_KIND_STRING, .ndim = 1, .dims = {0}, .count = 0, .strings = strings},
};
#define ATTRIBUTES STK_COUNT(some_attributes)

static const uint32_t filter_values[] = {4, 0, UINT32_MAX};
static stk__h5_filter filters[] = {{STK__H5_SHUFFLE, false, filter_values, 1},
                                   {STK__H5_DEFLATE, true, filter_values, 3},
                                   {STK__H5_FLETCHER32, false, NULL, 0}};

static stk__h5_dataset dataset_of(const char *path, uint8_t *fill)
{
    return (stk__h5_dataset){.path = text_of(path),
                             .rank = 2,
                             .layout = STK__H5_LAYOUT_CHUNKED,
                             .chunk_dims = {64, 3},
                             .filters = filters,
                             .filter_count = STK_COUNT(filters),
                             .fill = fill,
                             .has_fill = true,
                             .attributes = (stk__h5_attribute *)(uintptr_t)some_attributes,
                             .attribute_count = ATTRIBUTES};
}

static stk_status add_datasets(stk__schema *s, stk_error *err)
{
    static uint8_t fill[] = {0xc0, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18, 7};
    static const int64_t shape[] = {3};
    const stk__h5_dataset d = dataset_of("/g/x", fill);
    stk__h5_leaf leaf = {
        .path = text_of(""), .kind = STK__H5_KIND_FLOAT, .dtype = STK_FLOAT64, .size = 8, .swap = true, .count = 1};
    STK_TRY(stk__schema_add_leaf(s, "x", 1, shape, &d, &leaf, err));
    leaf = (stk__h5_leaf){
        .path = text_of("a/b"), .kind = STK__H5_KIND_UINT, .dtype = STK_UINT8, .size = 1, .offset = 8, .count = 1};
    STK_TRY(stk__schema_add_leaf(s, "y", 0, NULL, &d, &leaf, err));
    leaf = (stk__h5_leaf){.path = text_of(""),
                          .kind = STK__H5_KIND_STRING,
                          .dtype = STK_BYTES,
                          .size = 5,
                          .pad = STK__H5_PAD_SPACE,
                          .count = 1};
    STK_TRY(stk__schema_add_leaf(s, "s", 0, NULL, &d, &leaf, err));
    leaf.kind = STK__H5_KIND_OPAQUE;
    STK_TRY(stk__schema_add_leaf(s, "o", 0, NULL, &d, &leaf, err));
    leaf.kind = STK__H5_KIND_VLEN_STRING;
    STK_TRY(stk__schema_add_leaf(s, "vs", 0, NULL, &d, &leaf, err));
    leaf = (stk__h5_leaf){.path = text_of(""),
                          .kind = STK__H5_KIND_VLEN,
                          .dtype = STK_INT16,
                          .size = 16,
                          .base_size = 2,
                          .base_swap = true,
                          .count = 1};
    STK_TRY(stk__schema_add_leaf(s, "v", 1, (const int64_t[]){-1}, &d, &leaf, err));
    return stk__schema_set_attributes(s, some_attributes, ATTRIBUTES, err);
}

static void schema_of_datasets_reads_back(void **state)
{
    stk__schema s = {.rows = 1234567890123};
    memcpy(bytes, &(double){0.1}, 8);
    assert_int_equal(add_datasets(&s, NULL), STK_OK);
    const stk__schema_entry *x = stk__schema_find(&s, "x");
    double pi;
    memcpy(&pi, x->fill, sizeof pi); /* little-endian now */
    assert_true(pi == -3.141592653589793);
    assert_string_equal(stk__schema_find(&s, "y")->dataset, "/g/x/a/b");
    assert_int_equal(stk__schema_find(&s, "y")->fill[0], 7);
    assert_null(stk__schema_find(&s, "v")->fill);
    assert_true(stk__schema_find(&s, "v")->big_endian);
    assert_null(stk__schema_find(&s, "no such field"));
    assert_reads_back(&s);
    stk__schema_clear(&s);
}

static void schema_of_nothing_reads_back(void **state)
{
    stk__schema s = {0};
    assert_reads_back(&s);
}

/* Numbers that JSON has no exact form for too, and long arrays. */
static void numbers_of_every_type_read_back(void **state)
{
    static const uint8_t patterns[][8] = {{0},
                                          {1},
                                          {255, 255, 255, 255, 255, 255, 255, 255},
                                          {0, 0, 0, 0, 0, 0, 0, 128},
                                          {0, 0, 0, 128},
                                          {0, 128},
                                          {0, 0, 0, 0, 0, 0, 0xf8, 0x7f},
                                          {1, 0, 0, 0, 0, 0, 0xf0, 0x7f},
                                          {0, 0, 0x80, 0x7f},
                                          {0, 0x7c},
                                          {0x80, 0x7f},
                                          {0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f},
                                          {0xcd, 0xcc, 0xcc, 0x3d},
                                          {0x66, 0x2e},
                                          {1, 0, 0, 0, 0, 0, 0, 0},
                                          {255, 255, 255, 255, 255, 255, 239, 127}};
    for (int dtype = 0; dtype < STK_BYTES; dtype++) {
        const size_t size = stk_dtype_size((stk_dtype)dtype);
        for (size_t i = 0; i < STK_COUNT(patterns) * 2; i++) {
            uint8_t data[200 * 8];
            for (size_t k = 0; k < 200; k++)
                memcpy(data + k * size, patterns[i / 2], size);
            stk__schema s = {0};
            stk__h5_attribute a = {.name = text_of("a"),
                                   .kind = stk__schema_kind((stk_dtype)dtype),
                                   .size = size,
                                   .ndim = 1,
                                   .dims = {i % 2 ? 200 : 3},
                                   .count = i % 2 ? 200 : 3,
                                   .data = data};
            assert_int_equal(stk__schema_attribute_dtype(a.kind, a.size), dtype);
            stk__h5_dataset d = {
                .path = text_of("/x"), .fill = data, .has_fill = true, .attributes = &a, .attribute_count = 1};
            const stk__h5_leaf leaf = {
                .path = text_of(""), .kind = a.kind, .dtype = (stk_dtype)dtype, .size = size, .count = 1};
            assert_int_equal(stk__schema_add_leaf(&s, "x", 0, NULL, &d, &leaf, NULL), STK_OK);
            assert_reads_back(&s);
            stk__schema_clear(&s);
        }
    }
}

static void field_that_changed_keeps_dataset_and_attributes_alone(void **state)
{
    stk__schema origin = {0}, s = {0};
    assert_int_equal(add_datasets(&origin, NULL), STK_OK);
    assert_int_equal(stk__schema_add(&s, "x", STK_FLOAT64, 1, (const int64_t[]){3}, &origin, NULL), STK_OK);
    assert_int_equal(stk__schema_add(&s, "y", STK_UINT16, 0, NULL, &origin, NULL), STK_OK);
    assert_int_equal(stk__schema_add(&s, "s", STK_BYTES, 1, (const int64_t[]){1}, &origin, NULL), STK_OK);
    assert_int_equal(stk__schema_add(&s, "new", STK_BYTES, 0, NULL, &origin, NULL), STK_OK);
    assert_int_equal(stk__schema_add(&s, "v", STK_INT16, 1, (const int64_t[]){-1}, NULL, NULL), STK_OK);
    assert_entry_equal(&s.entries[0], stk__schema_find(&origin, "x"));
    for (size_t i = 1; i < 5; i++) {
        const stk__schema_entry *e = &s.entries[i];
        assert_null(e->fill);
        assert_null(e->filters);
        assert_int_equal(e->chunk_ndim, 0);
        assert_int_equal(e->kind, 0);
        assert_int_equal(e->attribute_count, i < 3 ? ATTRIBUTES : 0);
        assert_int_equal(e->dataset != NULL, i < 3);
    }
    assert_reads_back(&s);
    stk__schema_clear(&s);
    stk__schema_clear(&origin);
}

static void path_of_a_schema_follows_from_the_shards(void **state)
{
    static const char *const cases[][2] = {
        {"out/part-%05d", "out/part.schema.json"},
        {"out/part-%05d-of-%05d.tfrecord", "out/part.schema.json"},
        {"out/train.tfrecord", "out/train.schema.json"},
        {"out.d/train", "out.d/train.schema.json"},
        {"out", "out.schema.json"},
        {"a_%d", "a.schema.json"},
        {"x._-%d", "x.schema.json"},
        {"out/%05d.tfrecord", "out/data.schema.json"},
        {"%d", "data.schema.json"},
        {"d/.hidden", "d/.hidden.schema.json"},
        {"100%%/a-%d", "100%/a.schema.json"},
        {"100%%.x", "100%.schema.json"},
        {"out/..a..", "out/..a.schema.json"},
        {"", "data.schema.json"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__schema_path(&t, cases[i][0]);
        assert_string_equal(t.data, cases[i][1]);
        assert_true(stk__schema_is_path(t.data));
        stk__text_clear(&t);
    }
    assert_false(stk__schema_is_path(".schema.json"));
    assert_false(stk__schema_is_path("a.schema.jsonl"));
    assert_false(stk__schema_is_path("schema.json"));
}

static void assert_refused(const char *text, stk_status status, const char *part, const char *field)
{
    stk__schema s;
    stk_error err;
    stk_error_clear(&err);
    const stk_status got = stk__schema_parse(text, strlen(text), &s, &err);
    if (got != status || !strstr(err.message, part) || strcmp(err.field, field) != 0)
        fail_msg("%s gave %s: %s: %s, wanted %s", text, stk_status_name(got), err.field, err.message, part);
    assert_null(s.entries);
    assert_int_equal(s.count, 0);
    assert_int_equal(stk__schema_parse(text, strlen(text), &s, NULL), status);
}

static void bad_schema_says_what_is_wrong(void **state)
{
    assert_refused("", STK_CORRUPT, "no schema: line 1, column 0", "");
    assert_refused("[]", STK_CORRUPT, "\"stoker_schema\" is not there or wrong", "");
    assert_refused("{\"a\": 1, \"a\": 2}", STK_CORRUPT, "duplicate object key", "");
    assert_refused("{\"stoker_schema\": 2}", STK_UNSUPPORTED, "the schema has version 2, wanted 1", "");
    assert_refused("{\"stoker_schema\": 1}", STK_CORRUPT, "\"fields\"", "");
    assert_refused("{\"stoker_schema\": 1, \"rows\": -1, \"fields\": []}", STK_CORRUPT, "\"rows\"", "");
    assert_refused("{\"stoker_schema\": 1, \"fields\": [], \"attributes\": 3}", STK_CORRUPT, "\"attributes\"", "");
}

static void bad_field_is_named(void **state)
{
    static const struct {
        const char *field, *key;
    } cases[] = {
        {"\"dtype\": \"int7\", \"shape\": []", "\"dtype\""},
        {"\"dtype\": \"int8\"", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [-2]", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [1, 1, 1, 1, 1, 1, 1]", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [1e3]", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [1099511627776, 1099511627776]", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"dataset\": \"\"", "\"dataset\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"dataset\": {\"base64\": \"AAAA\"}", "\"dataset\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"kind\": \"string\"", "\"kind\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"kind\": \"vlen\"", "\"kind\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"kind\": 6", "\"kind\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"kind\": \"string\", \"size\": 3", "\"pad\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"kind\": \"opaque\", \"size\": 0", "\"size\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"kind\": \"opaque\", \"size\": 99999999999", "\"size\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"big_endian\": 1", "\"big_endian\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"fill\": 128", "\"fill\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"fill\": 1.5", "\"fill\""},
        {"\"dtype\": \"uint64\", \"shape\": [], \"fill\": -1", "\"fill\""},
        {"\"dtype\": \"bool\", \"shape\": [], \"fill\": 1", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [], \"fill\": 1e300", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [], \"fill\": \"AAA=\"", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [], \"fill\": \"AAAAAAAA\"", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [], \"fill\": \"AA?AAA==\"", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [], \"fill\": \"AA==AAAA\"", "\"fill\""},
        {"\"dtype\": \"float32\", \"shape\": [-1], \"kind\": \"vlen\", \"fill\": 0", "\"fill\""},
        {"\"dtype\": \"bytes\", \"shape\": [], \"fill\": \"AAAA\"", "\"fill\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"chunk\": [0]", "\"chunk\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"chunk\": 4", "\"chunk\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"filters\": {}", "\"filters\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"filters\": [1]", "\"filters\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"filters\": [{\"id\": 70000, \"values\": []}]", "\"filters\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"filters\": [{\"id\": 1, \"values\": [4294967296]}]", "\"filters\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"attributes\": [{}]", "\"name\""},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"stoker_schema\": 1, \"fields\": [{\"name\": \"f\", %s}]}", cases[i].field);
        assert_refused(text, STK_CORRUPT, cases[i].key, "f");
    }
    assert_refused(
        "{\"stoker_schema\": 1, \"fields\": [{\"name\": \"f\", \"dtype\": \"int8\", \"shape\": []}, {\"name\": \"f\"}]}",
        STK_CORRUPT, "a name that no other field has", "f");
    assert_refused("{\"stoker_schema\": 1, \"fields\": [3]}", STK_CORRUPT, "\"name\"", "");
}

static void bad_attribute_is_named(void **state)
{
    static const struct {
        const char *attribute, *key;
    } cases[] = {
        {"\"dtype\": \"bytes\", \"shape\": [], \"values\": [\"x\"]", "\"dtype\""},
        {"\"dtype\": \"int8\", \"shape\": [-1], \"values\": []", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [65536, 65536], \"values\": []", "\"shape\""},
        {"\"dtype\": \"int8\", \"shape\": [2], \"values\": [1]", "\"values\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"values\": [200]", "\"values\""},
        {"\"dtype\": \"int8\", \"shape\": [], \"values\": [null]", "\"values\""},
        {"\"dtype\": \"int16\", \"shape\": [], \"base64\": \"AAAA\"", "\"base64\""},
        {"\"dtype\": \"int32\", \"shape\": [], \"base64\": \"AAAA\"", "\"base64\""},
        {"\"dtype\": \"string\", \"shape\": [2], \"values\": [\"x\"]", "\"values\""},
        {"\"dtype\": \"string\", \"shape\": [], \"values\": [3]", "\"values\""},
        {"\"dtype\": \"string\", \"shape\": [], \"values\": [{\"base64\": \"A\"}]", "\"values\""},
        {"\"dtype\": \"string\", \"shape\": [], \"values\": [{}]", "\"values\""},
        {"\"dtype\": \"string\", \"shape\": [], \"size\": -1, \"values\": [\"x\"]", "\"size\""},
        {"\"dtype\": \"string\", \"shape\": [], \"utf8\": 3, \"values\": [\"x\"]", "\"utf8\""},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"stoker_schema\": 1, \"fields\": [], \"attributes\": [{\"name\": \"unit\", %s}]}",
                 cases[i].attribute);
        assert_refused(text, STK_CORRUPT, "attribute 'unit': ", "");
        assert_refused(text, STK_CORRUPT, cases[i].key, "");
    }
}

/* Keys of later versions are no reason to refuse. */
static void unknown_keys_are_passed_over(void **state)
{
    static const char text[] =
        "{\"stoker_schema\": 1, \"later\": [1], \"fields\": [{\"name\": \"x\", \"dtype\": \"bool\", "
        "\"shape\": [2], \"color\": {}}]}";
    stk__schema s;
    assert_int_equal(stk__schema_parse(text, strlen(text), &s, NULL), STK_OK);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.entries[0].dtype, STK_BOOL);
    stk__schema_clear(&s);
}

static void schema_that_is_too_large_is_neither_written_nor_read(void **state)
{
    stk__schema s = {0};
    stk__text t = STK__TEXT_INIT;
    char name[32];
    for (int i = 0; i <= STK__SCHEMA_MAX_FIELDS; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(stk__schema_add(&s, name, STK_INT8, 0, NULL, NULL, NULL), STK_OK);
    }
    assert_int_equal(stk__schema_print(&s, &t, NULL), STK_INVALID);
    stk__schema_clear(&s);
    char *spaces = stk__alloc(STK__SCHEMA_MAX_BYTES + 1);
    assert_non_null(spaces);
    memset(spaces, ' ', STK__SCHEMA_MAX_BYTES + 1);
    assert_int_equal(stk__schema_parse(spaces, STK__SCHEMA_MAX_BYTES + 1, &s, NULL), STK_CORRUPT);
    stk__free(spaces);
    stk__text_clear(&t);
}

static void missing_file_is_named(void **state)
{
    stk__schema s;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__schema_load("/no/such.schema.json", &s, &err), STK_IO);
    assert_string_equal(err.file, "/no/such.schema.json");
    assert_int_equal(s.count, 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    stk__schema whole = {0};
    assert_int_equal(add_datasets(&whole, NULL), STK_OK);
    stk__text text = print(&whole);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__schema s = {0}, copy = {0}, back = {0};
        stk__text t = STK__TEXT_INIT;
        stk__alloc_fail_at(n, false);
        stk_status status = add_datasets(&s, NULL);
        for (size_t i = 0; status == STK_OK && i < s.count; i++)
            status = stk__schema_add(&copy, s.entries[i].name, s.entries[i].dtype, s.entries[i].ndim,
                                     s.entries[i].shape, &s, NULL);
        if (status == STK_OK)
            status = stk__schema_print(&copy, &t, NULL);
        if (status == STK_OK)
            status = stk__schema_parse(text.data, text.length, &back, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done)
            assert_int_equal(status, STK_NOMEM);
        stk__schema_clear(&s);
        stk__schema_clear(&copy);
        stk__schema_clear(&back);
        stk__text_clear(&t);
    }
    stk__text_clear(&text);
    stk__schema_clear(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_of_datasets_reads_back),
        cmocka_unit_test(schema_of_nothing_reads_back),
        cmocka_unit_test(numbers_of_every_type_read_back),
        cmocka_unit_test(field_that_changed_keeps_dataset_and_attributes_alone),
        cmocka_unit_test(path_of_a_schema_follows_from_the_shards),
        cmocka_unit_test(bad_schema_says_what_is_wrong),
        cmocka_unit_test(bad_field_is_named),
        cmocka_unit_test(bad_attribute_is_named),
        cmocka_unit_test(unknown_keys_are_passed_over),
        cmocka_unit_test(schema_that_is_too_large_is_neither_written_nor_read),
        cmocka_unit_test(missing_file_is_named),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
