/* The reader of Nsight Systems' databases on such as SQLite makes them here; tests/python/test_nsys.py has the real shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/mem.h"
#include "trace/reader.h"

/* The bytes of a database that the statements make; freed by sqlite3_free. */
static unsigned char *make(const char *sql, size_t *out_size)
{
    sqlite3 *db;
    sqlite3_int64 size;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    unsigned char *bytes = sqlite3_serialize(db, "main", &size, 0);
    assert_non_null(bytes);
    sqlite3_close(db);
    *out_size = (size_t)size;
    return bytes;
}

static stk_status try_read(const void *data, size_t size, const stk__trace_options *options, stk__trace **out,
                           stk_error *err)
{
    stk__builder *b;
    stk__input *in;
    stk_status status = stk__builder_new(options, &b, err);
    if (status != STK_OK)
        return status;
    status = stk__input_open_memory(data, size, &in, err);
    if (status == STK_OK) {
        status = stk__trace_read(b, in, NULL, err);
        stk__input_close(in);
    }
    if (status != STK_OK) {
        stk__builder_free(b);
        return status;
    }
    return stk__builder_finish(b, out, err);
}

static const char SMALL[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaLaunchKernel_v7000');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, streamId, demangledName, correlationId, globalPid);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (20, 30, 7, 1, 4, 5 << 24), (40, 50, 7, 1, 4, 5 << 24);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, nameId, correlationId, globalTid, eventClass);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 15, 2, 4, 5 << 24 | 6, 0)";

static void a_launch_and_its_kernels_are_joined(void **state)
{
    size_t size;
    stk__trace *t;
    unsigned char *bytes = make(SMALL, &size);
    assert_int_equal(try_read(bytes, size, &(stk__trace_options){0}, &t, NULL), STK_OK);
    assert_int_equal(t->slices.count, 3);
    assert_int_equal(t->files[0].events, 3);
    assert_int_equal(t->files[0].text_bytes, size);
    assert_string_equal(stk__trace_str(t, t->files[0].format), "nsys");
    assert_int_equal(t->flows.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(stk__trace_str(t, t->slices.name[t->flows.out[i]]), "cudaLaunchKernel");
        assert_string_equal(stk__trace_str(t, t->slices.name[t->flows.in[i]]), "k");
    }
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
    sqlite3_free(bytes);
}

/* Every single byte may be anything: an error or a trace, and never more than the database had. */
static void damage_is_no_failure_of_the_program(void **state)
{
    size_t size;
    unsigned char *bytes = make(SMALL, &size);
    for (size_t i = 16; i < size; i += 7) {
        stk__trace *t;
        const unsigned char was = bytes[i];
        bytes[i] ^= (unsigned char)(1 + i % 255);
        if (try_read(bytes, size, &(stk__trace_options){0}, &t, NULL) == STK_OK) {
            assert_true(t->slices.count <= 3);
            stk__trace_free(t);
        }
        bytes[i] = was;
    }
    sqlite3_free(bytes);
}

static bool stop(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    return false;
}

static void reading_can_be_stopped(void **state)
{
    size_t size;
    stk__trace *t;
    unsigned char *bytes = make(SMALL, &size);
    assert_int_equal(try_read(bytes, size, &(stk__trace_options){.progress = stop}, &t, NULL), STK_CANCELLED);
    sqlite3_free(bytes);
}

static void a_database_of_something_else_is_refused(void **state)
{
    size_t size;
    stk__trace *t;
    stk_error err;
    stk_error_clear(&err);
    unsigned char *bytes = make("CREATE TABLE users(name TEXT)", &size);
    assert_int_equal(try_read(bytes, size, &(stk__trace_options){0}, &t, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "without tables of Nsight Systems"));
    sqlite3_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_and_its_kernels_are_joined),
        cmocka_unit_test(damage_is_no_failure_of_the_program),
        cmocka_unit_test(reading_can_be_stopped),
        cmocka_unit_test(a_database_of_something_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
