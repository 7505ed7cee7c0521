/* Fuzz target: any bytes as a cache file, as they are and with their check sums made to fit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/run.h"
#include "formats/example.h"
#include "formats/tfrecord.h"

enum { PIPELINES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char records[64], cache[64];
static char pipelines[PIPELINES][512];
static uint64_t fingerprints[PIPELINES];

static void require(int condition)
{
    if (!condition)
        abort();
}

static void remove_files(void)
{
    unlink(records);
    unlink(cache);
}

/* Samples with fixed, ragged and bytes fields. */
static void write_records(void)
{
    stk__tfrecord_writer *w;
    stk__example_writer example = {0};
    stk__text t = STK__TEXT_INIT;
    require(stk__tfrecord_writer_open(records, STK__PLAIN, 1, &w, NULL) == STK_OK);
    for (int64_t i = 0; i < 6; i++) {
        const int64_t ints[] = {i, 2 * i, 3};
        const stk_bytes words[] = {{(const uint8_t *)"ab", 2}, {(const uint8_t *)"cdefg", 5}};
        stk__example_begin(&example);
        stk__example_add_ints(&example, "n", ints, i % 4);
        stk__example_add_ints(&example, "pair", ints, 2);
        stk__example_add_bytes(&example, "words", words, i % 3);
        stk__text_reset(&t);
        require(stk__example_end(&example, &t, NULL) == STK_OK);
        require(stk__tfrecord_writer_add(w, t.data, t.length, NULL) == STK_OK);
    }
    require(stk__tfrecord_writer_commit(w, NULL) == STK_OK);
    stk__example_writer_clear(&example);
    stk__text_clear(&t);
}

/* Reads everything there is, so that the sanitizers see bad views. */
static void read_batch(const stk_batch *batch)
{
    volatile uint8_t sum = 0;
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        const size_t bytes = (size_t)column->elements * stk_dtype_size(column->dtype);
        for (size_t i = 0; column->dtype != STK_BYTES && i < bytes; i++)
            sum = (uint8_t)(sum + ((const uint8_t *)column->data)[i]);
        const stk_bytes *views = column->data;
        for (int64_t i = 0; column->dtype == STK_BYTES && i < column->elements; i++)
            for (int64_t k = 0; k < views[i].size; k++)
                sum = (uint8_t)(sum + views[i].data[k]);
    }
}

static void run(int which)
{
    const stk_config config = {.struct_size = sizeof config, .threads = 2, .memory_bytes = 4 << 20,
                               .on_error = which == 1 ? STK_ON_ERROR_SKIP : STK_ON_ERROR_STOP};
    stk_pipeline *p;
    stk_error err;
    stk_error_clear(&err);
    if (stk_pipeline_open(pipelines[which], &config, &p, &err) != STK_OK) {
        require(err.message[0] != 0);
        return;
    }
    const stk_batch *batch;
    stk_status status;
    int64_t samples = 0;
    while ((status = stk_pipeline_next(p, &batch, &err)) == STK_OK) {
        samples += batch->rows;
        read_batch(batch);
        stk_batch_release(p, batch);
    }
    stk_stats stats;
    stk_pipeline_stats(p, &stats);
    require(status != STK_END || samples + stats.skipped + stats.dropped == 6);
    if (status == STK_END)
        stk_pipeline_finish(p, NULL);
    stk_pipeline_close(p);
}

static void write_cache(const void *data, size_t size)
{
    FILE *f = fopen(cache, "wb");
    require(f != NULL);
    require(fwrite(data, 1, size, f) == size);
    require(fclose(f) == 0);
}

static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* without a disk, runs are faster */
    snprintf(records, sizeof records, "%s/fuzz-cache-%ld.tfrecord", base, (long)getpid());
    snprintf(cache, sizeof cache, "%s/fuzz-cache-%ld.cache", base, (long)getpid());
    atexit(remove_files);
    write_records();
    static const char fields[] = "parse(n=int64[], pair=int64[2], words=bytes[])";
    snprintf(pipelines[0], sizeof pipelines[0], "tfrecord(\"%s\") | %s | cache(\"%s\") | batch(4)", records, fields, cache);
    snprintf(pipelines[1], sizeof pipelines[1], "tfrecord(\"%s\") | cache(\"%s\") | %s | batch(4)", records, cache, fields);
    snprintf(pipelines[2], sizeof pipelines[2], "range(6) | filter(\"value > 2\") | cache(\"%s\") | batch(2)", cache);
    for (int i = 0; i < PIPELINES; i++) {
        char *data;
        size_t size;
        unlink(cache);
        run(i);
        require(stk__read_file(cache, 65536, &data, &size, NULL) == STK_OK && size >= 48);
        memcpy(&fingerprints[i], data + size - 32, 8);
        stk__free(data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!records[0])
        prepare();
    if (size < 1)
        return 0;
    const int which = data[0] % PIPELINES;
    uint8_t *copy = stk__alloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 0x80)
        stk__cache_seal(copy, size - 1, fingerprints[which]);
    write_cache(copy, size - 1);
    run(which);
    stk__free(copy);
    return 0;
}
