/* .npz files: what numpy writes, zip64 and data descriptors, types and shapes, and hostile directories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../npz_files.h"
#include "base/mem.h"
#include "formats/npz.h"

#define MAX_BYTES ((size_t)1 << 20)

static const uint8_t bytes[] = {3, 1, 4, 1, 5, 9};
static const float floats[] = {0.5f, -2, 3, 4, 5, 6};

/* Of a copy of the exact size, so that the address sanitizer sees reads past the end; only for what is refused. */
static stk_status refuse(const npz_maker *m, stk__npz *out, stk_error *err)
{
    uint8_t *copy = malloc(m->file.length + 1);
    assert_non_null(copy);
    memcpy(copy + 1, m->file.data ? m->file.data : "", m->file.length);
    stk_error_clear(err);
    const stk_status status = stk__npz_parse(copy + 1, m->file.length, MAX_BYTES, out, err);
    assert_int_not_equal(status, STK_OK);
    free(copy);
    return status;
}

static void assert_refused(npz_maker *m, stk_status wanted, const char *field, const char *part)
{
    stk__npz npz = {.count = 77};
    stk_error err;
    assert_int_equal(refuse(m, &npz, &err), wanted);
    assert_int_equal(npz.count, 77); /* untouched */
    assert_string_equal(err.field, field);
    if (!strstr(err.message, part))
        fail_msg("\"%s\", wanted \"%s\" in it", err.message, part);
    npz_clear(m);
}

/* ---- what is read ---- */

static void arrays_written_in_every_way_are_read(void **state)
{
    const int ways[] = {NPZ_PLAIN,     NPZ_DEFLATED, NPZ_ZIP64, NPZ_DEFLATED | NPZ_ZIP64, NPZ_DEFLATED | NPZ_DESCRIPTOR,
                        NPZ_DESCRIPTOR};
    for (size_t i = 0; i < STK_COUNT(ways); i++) {
        npz_maker m = {0};
        stk__npz npz;
        stk_error err;
        npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, ways[i]);
        npz_add(&m, "b_long_name", "<f4", (const int[]){2, 3, -1}, floats, ways[i]);
        npz_finish(&m);
        stk_error_clear(&err);
        if (stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, &err) != STK_OK)
            fail_msg("way %d: %s", ways[i], err.message);
        assert_int_equal(npz.count, 2);
        const stk__npy *a = stk__npz_find(&npz, "a"), *b = stk__npz_find(&npz, "b_long_name");
        assert_non_null(a);
        assert_non_null(b);
        assert_null(stk__npz_find(&npz, "c"));
        assert_int_equal(a->type, STK__NPY_U8);
        assert_int_equal(a->ndim, 1);
        assert_int_equal(a->shape[0], 6);
        assert_memory_equal(a->data, bytes, sizeof bytes);
        assert_int_equal(b->type, STK__NPY_F32);
        assert_int_equal(b->ndim, 2);
        assert_int_equal(b->shape[0], 2);
        assert_int_equal(b->shape[1], 3);
        assert_int_equal(b->elements, 6);
        assert_memory_equal(b->data, floats, sizeof floats);
        stk__npz_clear(&npz);
        npz_clear(&m);
    }
}

static void stored_arrays_are_views_and_deflated_ones_are_not(void **state)
{
    npz_maker m = {0};
    stk__npz npz;
    npz_add(&m, "view", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    npz_add(&m, "own", "|u1", (const int[]){6, -1}, bytes, NPZ_DEFLATED);
    npz_finish(&m);
    assert_int_equal(stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL), STK_OK);
    const char *view = stk__npz_find(&npz, "view")->data, *own = stk__npz_find(&npz, "own")->data;
    assert_true(view > m.file.data && view < m.file.data + m.file.length);
    assert_false(own > m.file.data && own < m.file.data + m.file.length);
    assert_int_equal(npz.owned_count, 1);
    stk__npz_clear(&npz);
    npz_clear(&m);
}

static void headers_are_read_as_python_writes_them(void **state)
{
    static const struct {
        const char *text;
        stk__npy_type type;
        int ndim;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", STK__NPY_U8, 1},
        {"{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"|i1\"}", STK__NPY_I8, 2},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,)}  \n", STK__NPY_F16, 1},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (6,), }\n", STK__NPY_U8, 1},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3, 1), }", STK__NPY_U8, 4},
        {"{ 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 6 , ) , } ", STK__NPY_U8, 1},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        npz_maker m = {0};
        stk__npz npz;
        stk_error err;
        stk_error_clear(&err);
        npz_add_with_header(&m, "x", cases[i].text, bytes, sizeof bytes, NPZ_PLAIN);
        npz_finish(&m);
        if (stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, &err) != STK_OK)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_int_equal(npz.arrays[0].type, cases[i].type);
        assert_int_equal(npz.arrays[0].ndim, cases[i].ndim);
        stk__npz_clear(&npz);
        npz_clear(&m);
    }
}

static void empty_arrays_scalars_and_empty_files_are_fine(void **state)
{
    npz_maker m = {0};
    stk__npz npz;
    npz_add(&m, "scalar", "<i4", (const int[]){-1}, "\x2a\0\0", NPZ_PLAIN);
    npz_add(&m, "empty", "<i8", (const int[]){0, 5, -1}, "", NPZ_DEFLATED);
    npz_finish(&m);
    assert_int_equal(stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL), STK_OK);
    assert_int_equal(stk__npz_find(&npz, "scalar")->elements, 1);
    assert_int_equal(stk__npz_find(&npz, "scalar")->ndim, 0);
    assert_int_equal(stk__npz_find(&npz, "empty")->elements, 0);
    stk__npz_clear(&npz);
    npz_clear(&m);
    npz_finish(&m);
    assert_int_equal(stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL), STK_OK);
    assert_int_equal(npz.count, 0);
    stk__npz_clear(&npz);
    npz_clear(&m);
}

static void put_end64(npz_maker *m, uint64_t at, uint64_t size, uint64_t count, uint64_t end_at)
{
    npz_put(&m->file, 0x06064b50, 4);
    npz_put(&m->file, 44, 8);
    npz_put(&m->file, 45, 2);
    npz_put(&m->file, 45, 2);
    npz_put(&m->file, 0, 8);
    npz_put(&m->file, count, 8);
    npz_put(&m->file, count, 8);
    npz_put(&m->file, size, 8);
    npz_put(&m->file, at, 8);
    npz_put(&m->file, 0x07064b50, 4);
    npz_put(&m->file, 0, 4);
    npz_put(&m->file, end_at, 8);
    npz_put(&m->file, 1, 4);
}

static void zip64_end_records_are_read(void **state)
{
    npz_maker m = {0};
    stk__npz npz;
    npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    const size_t at = m.file.length, size = m.directory.length;
    stk__text_write(&m.file, m.directory.data, size);
    put_end64(&m, at, size, 1, at + size);
    npz_put_end(&m, UINT32_MAX, UINT32_MAX);
    assert_int_equal(stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL), STK_OK);
    assert_int_equal(npz.count, 1);
    stk__npz_clear(&npz);
    npz_clear(&m);
}

static void comments_behind_the_end_are_passed(void **state)
{
    npz_maker m = {0};
    stk__npz npz;
    npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    npz_finish(&m);
    m.file.data[m.file.length - 2] = 5;
    stk__text_puts(&m.file, "hello");
    assert_int_equal(stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL), STK_OK);
    stk__npz_clear(&npz);
    npz_clear(&m);
}

/* ---- what is refused ---- */

static void damaged_data_is_refused_by_name(void **state)
{
    npz_maker m = {0};
    npz_add(&m, "good", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    npz_add(&m, "bad", "|u1", (const int[]){6, -1}, bytes, NPZ_BAD_CRC);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "bad", "CRC");
    npz_add(&m, "bad", "|u1", (const int[]){6, -1}, bytes, NPZ_BAD_CRC | NPZ_DEFLATED);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "bad", "CRC");
    npz_add(&m, "broken", "|u1", (const int[]){6, -1}, bytes, NPZ_DEFLATED);
    m.file.data[m.file.length - 3] ^= 0x55;
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "broken", "");
}

static void headers_that_lie_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
        stk_status status;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }", "do not fit", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", "do not fit", STK_CORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387905,), }", "do not fit", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296, 6), }", "do not fit", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-6,), }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 6), }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "Fortran", STK_UNSUPPORTED},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", ">f4", STK_UNSUPPORTED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", "<f8", STK_UNSUPPORTED},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "|O", STK_UNSUPPORTED},
        {"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (6,), }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), 'more': 1}", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), } x", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6", "cannot be read", STK_CORRUPT},
        {"{'descr': '|u1", "cannot be read", STK_CORRUPT},
        {"{", "cannot be read", STK_CORRUPT},
        {"", "cannot be read", STK_CORRUPT},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        npz_maker m = {0};
        npz_add_with_header(&m, "x", cases[i].text, bytes, sizeof bytes, NPZ_PLAIN);
        npz_finish(&m);
        assert_refused(&m, cases[i].status, "x", cases[i].part);
    }
}

static void members_that_are_no_arrays_are_refused(void **state)
{
    npz_maker m = {0};
    npz_add_member(&m, "x.npy", "\x93NUMPX\x01\0\0\0", 10, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "x", "no .npy array");
    npz_add_member(&m, "x.npy", "\x93NUMPY\x07\0\0\0", 10, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "x", "no .npy array");
    npz_add_member(&m, "x.npy", "\x93NUMPY\x02\0\xff\xff\xff\xff", 12, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "x", "no .npy array");
    npz_add_member(&m, "x.npy", "", 0, NPZ_DEFLATED);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "x", "no .npy array");
    npz_add_member(&m, "readme.txt", "hello", 5, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_UNSUPPORTED, "readme.txt", ".npy");
    npz_add_member(&m, "a123456789b123456789c123456789d123456789e123456789f123456789g123.npy", "", 0, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_UNSUPPORTED, "a123456789b123456789c123456789d123456789e123456789f123456789g12", "too long");
}

static void two_of_a_name_are_refused(void **state)
{
    npz_maker m = {0};
    npz_add(&m, "x", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    npz_add(&m, "x", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "x", "two arrays");
}

/* Sets bytes of the first entry of the directory, or of the end record behind it. */
static void patch(npz_maker *m, size_t at, uint64_t x, int size)
{
    for (int i = 0; i < size; i++)
        m->directory.data[at + (size_t)i] = (char)(x >> 8 * i);
}

static void entries_that_point_astray_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint64_t value;
        int size;
        const char *part;
    } cases[] = {
        {0, 0, 4, "no entry"},
        {8, 1, 2, "encrypted"},
        {10, 12, 2, "method 12"},
        {10, 8, 2, "differ"},
        {20, 7, 4, "stored in 7"},
        {24, 7, 4, "stored in"},
        {20, 1 << 30, 4, "more bytes than the file"},
        {28, 2, 2, ""},
        {30, 1, 2, "passes the end"},
        {28, 0xffff, 2, "passes the end"},
        {32, 1, 2, "passes the end"},
        {42, 1, 4, "no member's header"},
        {42, 1 << 30, 4, "behind the members"},
        {42, UINT32_MAX, 4, "behind the members"},
        {46, 'y', 1, "differ"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        npz_maker m = {0};
        stk__npz npz;
        stk_error err;
        npz_add(&m, "x", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
        patch(&m, cases[i].at, cases[i].value, cases[i].size);
        npz_finish(&m);
        const stk_status status = refuse(&m, &npz, &err);
        if (!strstr(err.message, cases[i].part))
            fail_msg("case %zu: %s \"%s\"", i, stk_status_name(status), err.message);
        assert_true(err.offset >= 0);
        npz_clear(&m);
    }
}

static void members_that_overlap_are_refused(void **state)
{
    npz_maker m = {0}, inner = {0};
    npz_add(&inner, "x", "|u1", (const int[]){6, -1}, bytes, NPZ_PLAIN);
    /* A member whose data is a whole member, to which the directory points as well. */
    char text[128];
    snprintf(text, sizeof text, "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu,), }", inner.file.length);
    npz_add_with_header(&m, "outer", text, inner.file.data, inner.file.length, NPZ_PLAIN);
    const size_t at = m.file.length - inner.file.length;
    patch(&inner, 42, at, 4);
    stk__text_write(&m.directory, inner.directory.data, inner.directory.length);
    m.count++;
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "", "overlap");
    npz_clear(&inner);
}

static void directories_that_do_not_fit_are_refused(void **state)
{
    npz_maker m = {0};
    const int shape[] = {6, -1};
    npz_add(&m, "x", "|u1", shape, bytes, NPZ_PLAIN);
    npz_put_end(&m, 0, (size_t)1 << 30);
    assert_refused(&m, STK_CORRUPT, "", "passes the end record");
    npz_add(&m, "x", "|u1", shape, bytes, NPZ_PLAIN);
    npz_put_end(&m, (size_t)1 << 30, 0);
    assert_refused(&m, STK_CORRUPT, "", "passes the end record");
    npz_add(&m, "x", "|u1", shape, bytes, NPZ_PLAIN);
    m.count = 2;
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "", "no entry");
    npz_add(&m, "x", "|u1", shape, bytes, NPZ_PLAIN);
    m.count = 0;
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "", "behind the last entry");
    m.count = 60000;
    npz_finish(&m);
    assert_refused(&m, STK_UNSUPPORTED, "", "60000 members");
    put_end64(&m, 0, 0, UINT64_MAX, 0);
    npz_put_end(&m, UINT32_MAX, UINT32_MAX);
    assert_refused(&m, STK_UNSUPPORTED, "", "members");
    put_end64(&m, UINT64_MAX - 3, 5, 1, 0);
    npz_put_end(&m, UINT32_MAX, UINT32_MAX);
    assert_refused(&m, STK_CORRUPT, "", "passes the end record");
    put_end64(&m, 0, 0, 0, UINT64_MAX - 10);
    npz_put_end(&m, UINT32_MAX, UINT32_MAX);
    assert_refused(&m, STK_CORRUPT, "", "zip64");
}

static void files_cut_off_anywhere_are_refused(void **state)
{
    npz_maker m = {0};
    npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, NPZ_DEFLATED | NPZ_ZIP64);
    npz_add(&m, "b", "<f4", (const int[]){2, 3, -1}, floats, NPZ_PLAIN);
    npz_finish(&m);
    for (size_t size = 0; size < m.file.length; size++) {
        npz_maker cut = {0};
        stk__npz npz;
        stk_error err;
        stk__text_write(&cut.file, m.file.data, size);
        assert_int_equal(refuse(&cut, &npz, &err), STK_CORRUPT);
        npz_clear(&cut);
    }
    npz_clear(&m);
}

static void more_than_is_allowed_is_not_unpacked(void **state)
{
    static uint8_t zeros[400000];
    npz_maker m = {0};
    npz_add(&m, "a", "|u1", (const int[]){400000, -1}, zeros, NPZ_DEFLATED);
    npz_add(&m, "b", "|u1", (const int[]){400000, -1}, zeros, NPZ_DEFLATED);
    npz_add(&m, "c", "|u1", (const int[]){400000, -1}, zeros, NPZ_DEFLATED);
    npz_finish(&m);
    assert_refused(&m, STK_UNSUPPORTED, "c", "wanted at most");
    npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, NPZ_DEFLATED);
    patch(&m, 24, 1000000, 4);
    npz_finish(&m);
    assert_refused(&m, STK_CORRUPT, "a", "unpacks");
}

static void lack_of_memory_is_told_at_every_allocation(void **state)
{
    npz_maker m = {0};
    npz_add(&m, "a", "|u1", (const int[]){6, -1}, bytes, NPZ_DEFLATED);
    npz_add(&m, "b", "<f4", (const int[]){2, 3, -1}, floats, NPZ_PLAIN);
    npz_finish(&m);
    uint64_t n = 1;
    stk_status status = STK_NOMEM;
    for (; status == STK_NOMEM && n < 50; n++) {
        stk__npz npz;
        stk__alloc_fail_at(n, false);
        status = stk__npz_parse(m.file.data, m.file.length, MAX_BYTES, &npz, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stk__npz_clear(&npz);
    }
    assert_int_equal(status, STK_OK);
    assert_in_range(n, 5, 49);
    npz_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_written_in_every_way_are_read),
        cmocka_unit_test(stored_arrays_are_views_and_deflated_ones_are_not),
        cmocka_unit_test(headers_are_read_as_python_writes_them),
        cmocka_unit_test(empty_arrays_scalars_and_empty_files_are_fine),
        cmocka_unit_test(zip64_end_records_are_read),
        cmocka_unit_test(comments_behind_the_end_are_passed),
        cmocka_unit_test(damaged_data_is_refused_by_name),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(members_that_are_no_arrays_are_refused),
        cmocka_unit_test(two_of_a_name_are_refused),
        cmocka_unit_test(entries_that_point_astray_are_refused),
        cmocka_unit_test(members_that_overlap_are_refused),
        cmocka_unit_test(directories_that_do_not_fit_are_refused),
        cmocka_unit_test(files_cut_off_anywhere_are_refused),
        cmocka_unit_test(more_than_is_allowed_is_not_unpacked),
        cmocka_unit_test(lack_of_memory_is_told_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
