/* Times a query in SQL over the columns, or over a plain SQLite table of the same rows, and prints one JSON object. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "analyze/sql.h"
#include "base/clock.h"
#include "base/str.h"
#include "trace/builder.h"

enum { THREADS = 16, OPS = 40, SCOPES = 50, TIMES_MAX = 64, QUERIES = 5 };

static const char *const queries[QUERIES] = {
    "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20",
    "SELECT name, count(*) AS n, sum(dur) AS total FROM slice WHERE name LIKE '%MatchingFiles%' "
    "GROUP BY name ORDER BY total DESC",
    "SELECT tid, count(*), sum(dur) FROM slice GROUP BY tid",
    "SELECT tid, name, sum(dur) AS total FROM slice GROUP BY tid, name ORDER BY total DESC LIMIT 20",
    "SELECT count(*), sum(dur) FROM slice",
};

static const char *const ops[OPS] = {
    "aten::copy_",
    "aten::linear",
    "aten::addmm",
    "aten::_local_scalar_dense",
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "Iterator::Root::Prefetch::BatchV2",
    "Iterator::Root::ParallelMapV2",
    "MatchingFiles",
    "ReadFile",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "ConvolutionBackward0",
    "aten::cudnn_convolution",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "Optimizer.step#SGD.step",
    "aten::_foreach_add_",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >",
    "ampere_sgemm_128x64_tn",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "Memcpy HtoD (Pinned -> Device)",
    "cudaStreamSynchronize",
    "decode_jpeg",
    "resize_bilinear",
    "random_crop",
    "normalize",
    "aten::empty_strided",
    "aten::as_strided",
    "aten::detach",
    "aten::view",
    "aten::t",
    "aten::expand",
    "aten::_to_copy",
    "aten::mean",
    "aten::relu_",
    "aten::add_",
    "aten::mul",
    "aten::sum",
    "aten::fill_",
    "aten::zero_",
};

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "trace_sql: %s: %s\n", what, why);
    exit(1);
}

/* Names as PyTorch and TensorFlow give them: few are frequent, many are rare. */
static stk__trace *make_trace(size_t slices)
{
    stk__builder *b = NULL;
    stk__trace *trace = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk__builder_new(&(stk__trace_options){0}, &b, &err) != STK_OK)
        fail("builder", err.message);
    stk__builder_start_file(b, "synthetic", "bench");
    static stk__string names[OPS * SCOPES];
    for (int i = 0; i < OPS * SCOPES; i++) {
        char text[256];
        snprintf(text, sizeof text, i % SCOPES ? "%s/layer%d" : "%s", ops[i / SCOPES], i % SCOPES);
        names[i] = stk__builder_str(b, text);
    }
    uint32_t tracks[THREADS];
    int64_t ts[THREADS] = {0};
    const uint32_t process = stk__builder_process(b, 4711, 0);
    for (int i = 0; i < THREADS; i++)
        tracks[i] = stk__builder_thread_track(b, stk__builder_thread(b, process, 5000 + i, 0));
    for (size_t i = 0; i < slices; i++) {
        const uint64_t r = next_random();
        const unsigned op = (unsigned)(r % OPS), scope = (unsigned)((r >> 8) % SCOPES * ((r >> 16) % SCOPES) / SCOPES);
        const unsigned thread = (unsigned)((r >> 24) % THREADS);
        const int64_t dur = 500 + (int64_t)((r >> 32) % 100000);
        stk__builder_slice(b, tracks[thread], ts[thread], dur, names[op * SCOPES + scope], 0, -1);
        ts[thread] += dur + 100;
    }
    if (stk__builder_finish(b, &trace, &err) != STK_OK)
        fail("builder", err.message);
    return trace;
}

static void execute(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail(sql, error ? error : "?");
}

/* A table in memory, without an index. */
static sqlite3 *make_plain(const stk__trace *t)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
        fail("SQLite", "cannot open");
    execute(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                "CREATE TABLE slice(ts INTEGER, dur INTEGER, pid INTEGER, tid INTEGER, name TEXT); BEGIN");
    if (sqlite3_prepare_v2(db, "INSERT INTO slice VALUES (?, ?, ?, ?, ?)", -1, &insert, NULL) != SQLITE_OK)
        fail("insert", sqlite3_errmsg(db));
    for (size_t i = 0; i < t->slices.count; i++) {
        size_t size;
        const char *name = stk__trace_text(t, t->slices.name[i], &size);
        sqlite3_bind_int64(insert, 1, t->slices.ts[i]);
        sqlite3_bind_int64(insert, 2, t->slices.dur[i]);
        sqlite3_bind_int64(insert, 3, 4711);
        sqlite3_bind_int64(insert, 4, t->threads[t->tracks[t->slices.track[i]].thread].tid);
        sqlite3_bind_text(insert, 5, name, (int)size, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE)
            fail("insert", sqlite3_errmsg(db));
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    execute(db, "COMMIT");
    return db;
}

/* As `stoker sql` runs it; the same but row by row through SQLite; the plain table. */
enum { STOKER, ROWS, PLAIN, WAYS };
static const char *const ways[WAYS] = {"stoker", "rows", "plain"};

/* *check gets a sum over the rows, so that all answers can be compared. */
static void run_query(sqlite3 *db, int way, const char *query, uint64_t *check)
{
    sqlite3_stmt *statement = NULL;
    const int prepared = way == STOKER ? stk__sql_prepare(db, query, &statement, NULL)
                                       : sqlite3_prepare_v2(db, query, -1, &statement, NULL);
    if (prepared != SQLITE_OK)
        fail(query, sqlite3_errmsg(db));
    int code;
    uint64_t sum = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const unsigned char *text = sqlite3_column_text(statement, i);
            for (; text && *text; text++)
                sum += *text;
            sum += (uint64_t)sqlite3_column_int64(statement, i);
        }
    }
    if (code != SQLITE_DONE)
        fail(query, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    *check = sum;
}

/* Seconds. Ours gets a new connection each time, so that nothing is left from the round before. */
static double time_query(const stk__trace *t, sqlite3 *plain, int way, const char *query, uint64_t *check)
{
    const int64_t start = stk__now_ns();
    sqlite3 *db = plain;
    if (!plain && stk__sql_open(t, &db, NULL) != STK_OK)
        fail("open", "out of memory");
    run_query(db, way, query, check);
    if (!plain)
        sqlite3_close(db);
    return (double)(stk__now_ns() - start) / 1e9;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print(int query, size_t slices, double seconds, uint64_t check)
{
    stk__text text = STK__TEXT_INIT;
    stk__text_json_str(&text, queries[query]);
    if (text.failed)
        fail("print", "out of memory");
    printf("{\"query\": %s, \"slices\": %zu, \"seconds\": %.9f, \"answer\": %" PRIu64 ", \"version\": \"SQLite %s\"}\n",
           text.data, slices, seconds, check, sqlite3_libversion());
    stk__text_clear(&text);
}

/* Usage: trace_sql SLICES WAY QUERY TIMES; the queries are numbered from 0. The median of TIMES runs counts. */
int main(int argc, char **argv)
{
    int way = 0;
    while (argc == 5 && way < WAYS && strcmp(argv[2], ways[way]) != 0)
        way++;
    const long query = argc == 5 ? strtol(argv[3], NULL, 10) : -1, count = argc == 5 ? strtol(argv[4], NULL, 10) : 0;
    if (way == WAYS || query < 0 || query >= QUERIES || count < 1 || count > TIMES_MAX) {
        fprintf(stderr, "usage: trace_sql SLICES stoker|rows|plain QUERY(0 to %d) TIMES(1 to %d)\n", QUERIES - 1,
                TIMES_MAX);
        return 2;
    }
    const size_t slices = strtoull(argv[1], NULL, 10);
    stk__trace *trace = make_trace(slices);
    sqlite3 *plain = way == PLAIN ? make_plain(trace) : NULL;
    double times[TIMES_MAX];
    uint64_t check = 0;
    for (int i = 0; i < (int)count; i++)
        times[i] = time_query(trace, plain, way, queries[query], &check);
    print((int)query, slices, median(times, (int)count), check);
    sqlite3_close(plain);
    stk__trace_free(trace);
    return 0;
}
