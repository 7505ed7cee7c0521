/* What the tests of ops share; see harness.h. */
#include "harness.h"

#include "pictures.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/registry.h"
#include "formats/example.h"
#include "formats/tar.h"
#include "formats/tfrecord.h"
#include "../remove_tree.h"

static char test_dir[64];
static stk_registry *registry;

/* ---- an op that draws random numbers ---- */

typedef struct {
    int out;
} noise_state;

static stk_status noise_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    noise_state *s = state;
    const stk_field field = {.name = "noise", .dtype = STK_FLOAT32};
    return host->plan_write(plan, &field, &s->out, err);
}

static stk_status noise_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const noise_state *s = call->state;
    float *out = stk_out(call, sample, s->out, NULL, err);
    if (!out)
        return err->status;
    stk_random random = stk_random_begin(call, sample);
    *out = 0;
    for (int i = 0; i < 6; i++) /* more than one block of the generator */
        *out = stk_random_float(&random);
    return STK_OK;
}

static const stk_option noise_options[] = {STK_OPTION_END};

static const stk_op noise_op = {
    .abi = STK_OP_ABI,
    .name = "test_noise",
    .group = "samples",
    .since = "0.1",
    .summary = "Add a field with a random number.",
    .options = noise_options,
    .state_size = sizeof(noise_state),
    .flags = STK_OP_RANDOM,
    .schema = noise_schema,
    .process = noise_process,
};

static bool make_registry(void)
{
    static const stk_op *ops[128];
    size_t n = 0;
    for (; stk__builtin_ops[n] && n < STK_COUNT(ops) - 2; n++)
        ops[n] = stk__builtin_ops[n];
    ops[n++] = &noise_op;
    ops[n] = NULL;
    return stk__registry_over(ops, &registry, NULL) == STK_OK;
}

/* ---- the directory ---- */

int harness_setup(void **state)
{
    snprintf(test_dir, sizeof test_dir, "/tmp/stk-ops-XXXXXX");
    return mkdtemp(test_dir) && make_registry() ? 0 : -1;
}

int harness_teardown(void **state)
{
    stk__alloc_fail_at(0, false);
    stk_registry_free(registry);
    registry = NULL;
    remove_tree(test_dir);
    return 0;
}

const char *in_dir(const char *name)
{
    static char paths[8][256];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir, name);
    return path;
}

bool file_exists(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

int count_files(const char *name)
{
    int n = 0;
    DIR *dir = opendir(in_dir(name));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

void write_file(const char *name, const void *data, size_t size)
{
    assert_int_equal(stk__write_file(in_dir(name), data, size, NULL), STK_OK);
}

stk_config harness_config(void)
{
    return (stk_config){.struct_size = sizeof(stk_config),
                        .registry = registry,
                        .threads = 2,
                        .memory_bytes = (uint64_t)64 << 20,
                        .seed = 5,
                        .stall_ns = -1};
}

/* ---- data ---- */

static void add_example(stk__example_writer *w, int64_t i)
{
    char name[32], words[4][8];
    const float half = (float)i / 2, pair[2] = {(float)i, (float)-i};
    const int64_t many[2] = {i, i + 1};
    stk_bytes views[4];
    snprintf(name, sizeof name, "n%lld", (long long)i);
    for (int64_t k = 0; k < i % 4; k++) {
        snprintf(words[k], sizeof words[k], "w%lld", (long long)k);
        views[k] = (stk_bytes){(const uint8_t *)words[k], (int64_t)strlen(words[k])};
    }
    stk__example_add_ints(w, "value", &i, 1);
    stk__example_add_floats(w, "half", &half, 1);
    stk__example_add_floats(w, "pair", pair, 2);
    stk__example_add_bytes(w, "words", views, i % 4);
    stk__example_add_ints(w, "many", many, i % 3);
    if (i % 2 == 0)
        stk__example_add_ints(w, "rare", &i, 1);
    views[0] = (stk_bytes){(const uint8_t *)name, (int64_t)strlen(name)};
    stk__example_add_bytes(w, "name", views, 1);
}

void write_examples(const char *name, stk__compression compression, int64_t first, int64_t count)
{
    stk__tfrecord_writer *file;
    stk__example_writer writer = {0};
    stk__text record = STK__TEXT_INIT;
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), compression, 6, &file, NULL), STK_OK);
    for (int64_t i = first; i < first + count; i++) {
        stk__example_begin(&writer);
        add_example(&writer, i);
        stk__text_reset(&record);
        assert_int_equal(stk__example_end(&writer, &record, NULL), STK_OK);
        assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    }
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__example_writer_clear(&writer);
    stk__text_clear(&record);
}

void write_lines(const char *name, bool gzip, int64_t first, int64_t count)
{
    gzFile file = gzopen(in_dir(name), gzip ? "wb" : "wbT");
    assert_non_null(file);
    for (int64_t i = first; i < first + count; i++)
        assert_true(gzprintf(file, "line %lld\n", (long long)i) > 0);
    assert_int_equal(gzclose(file), Z_OK);
}

void compress_file(const char *name)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), (size_t)64 << 20, &data, &size, NULL), STK_OK);
    gzFile file = gzopen(in_dir(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
    stk__free(data);
}

void write_tar(const char *name, bool gzip, int64_t first, int64_t count)
{
    stk__tar_writer *w;
    assert_int_equal(stk__tar_writer_open(in_dir(name), &w, NULL), STK_OK);
    for (int64_t i = first; i < first + count; i++) {
        char member[160], data[2000];
        memset(data, 'a' + (char)(i % 26), sizeof data);
        snprintf(member, sizeof member, "s%0*lld.jpg", i % 5 == 4 ? 120 : 3, (long long)i);
        assert_int_equal(stk__tar_writer_add(w, member, data, (size_t)(i * 397 % 2000), NULL), STK_OK);
        char *dot = strchr(member, '.');
        snprintf(dot, 8, ".cls");
        snprintf(data, sizeof data, "%lld\n", (long long)i);
        assert_int_equal(stk__tar_writer_add(w, member, data, strlen(data), NULL), STK_OK);
    }
    assert_int_equal(stk__tar_writer_commit(w, NULL), STK_OK);
    if (gzip)
        compress_file(name);
}

void write_folder(const char *name, int classes, int count)
{
    for (int i = 0; i < classes * count; i++) {
        char path[96], data[64];
        snprintf(path, sizeof path, "%s/class%d/%s%02d.jpg", name, i / count, i % 3 == 1 ? "more/" : "", i % count);
        assert_int_equal(stk__make_parents(in_dir(path), NULL), STK_OK);
        snprintf(data, sizeof data, "\xff\xd8\xff picture %d", i);
        write_file(path, data, strlen(data));
    }
}

void write_data(void)
{
    static const int64_t counts[] = {7, 0, 5, 11};
    int64_t first = 0;
    for (size_t i = 0; i < STK_COUNT(counts); i++) {
        char name[32];
        snprintf(name, sizeof name, "a-%zu.tfrecord", i);
        write_examples(name, STK__PLAIN, first, counts[i]);
        snprintf(name, sizeof name, "b-%zu.tfrecord.gz", i);
        write_examples(name, STK__GZIP, first, counts[i]);
        first += counts[i];
    }
    write_lines("lines.txt", false, 0, 20);
    write_lines("lines.txt.gz", true, 0, 20);
    write_tar("t-0.tar", false, 0, 9);
    write_tar("t-1.tar", false, 9, 8);
    write_tar("u.tar.gz", true, 0, 17);
    write_folder("folder", 4, 5);
    write_pictures("pictures.tfrecord", 23, 12, 10);
}

#define ALL_FIELDS \
    "parse(value=int64, half=float32, pair=float32[2], words=bytes[], many=int64[], name=bytes, rare=int64(default=-1))"

#define PICTURE_FILE "tfrecord(\"$D/pictures.tfrecord\") | parse(image=bytes, label=int64)"

const char *const harness_pipelines[] = {
    "range(23) | batch(4)",
    "range(17)",
    "range(23) | shuffle(seed=3) | batch(4) | repeat(2)",
    "range(23) | shuffle(seed=3) | repeat(2) | batch(5, drop_last=true)",
    "range(30) | skip(3) | shard(count=2, index=1) | batch(2) | skip(1) | take(4) | repeat(2)",
    "range(20) | batch(3) | shuffle(seed=2) | repeat(2)",
    "range(20) | batch(3) | repeat(2) | skip(3) | take(7) | repeat(2)",
    "range(40) | filter(\"value % 3 != 0\") | batch(4) | repeat(2)",
    "range(40) | filter(\"value % 3 != 0\") | take(17) | skip(2) | batch(3) | repeat(3)",
    "range(30) | filter(\"value % 3 != 0\") | batch(3) | take(4) | repeat(3)",
    "range(30) | test_noise | filter(\"noise < 0.5\") | batch(3) | repeat(2)",
    "tfrecord(\"$D/a-*.tfrecord\") | batch(4)",
    "tfrecord(\"$D/a-*.tfrecord\") | " ALL_FIELDS " | batch(4) | repeat(2)",
    "tfrecord(\"$D/a-*.tfrecord\") | " ALL_FIELDS " | batch(4, pad=true, pad_value=-1)",
    "tfrecord(\"$D/a-*.tfrecord\") | interleave(cycle=2, block=2) | shuffle(seed=1) | " ALL_FIELDS
    " | batch(5) | repeat(2)",
    "tfrecord(\"$D/a-*.tfrecord\") | " ALL_FIELDS
    " | batch(4) | cast(half=float16, value=uint8) | rename(v=value) | drop(words) | select(half, v, name, many)",
    "tfrecord(\"$D/a-*.tfrecord\") | " ALL_FIELDS " | test_noise | cache | shuffle(seed=4) | batch(4) | repeat(3)",
    "tfrecord(\"$D/a-*.tfrecord\") | " ALL_FIELDS " | filter(\"value % 5 != 1\") | test_noise | cache(\"$D/cache\") | "
    "test_noise | batch(4) | repeat(3)",
    "tfrecord(\"$D/b-*.gz\") | " ALL_FIELDS " | interleave(cycle=3) | batch(4) | repeat(2)",
    "tfrecord(\"$D/b-*.gz\") | shuffle(seed=1, buffer=6) | " ALL_FIELDS " | test_noise | batch(4) | repeat(2)",
    "tfrecord(\"$D/b-*.gz\") | take(15) | shuffle(seed=2, buffer=4) | repeat(2) | batch(4)",
    "tfrecord(\"$D/b-*.gz\") | " ALL_FIELDS
    " | filter(\"value % 4 != 1\") | take(9) | cache | batch(2) | take(3) | repeat(3)",
    "text(\"$D/lines.txt\") | shuffle(seed=1) | batch(6)",
    "text(\"$D/lines.txt.gz\") | shard(count=2, index=0) | batch(3) | take(3) | repeat(2)",
    "webdataset(\"$D/t-*.tar\") | batch(4)",
    "webdataset(\"$D/t-*.tar\") | interleave(cycle=2) | shuffle(seed=3) | select(image, key) | batch(5) | repeat(2)",
    "webdataset(\"$D/t-*.tar\", value=int64(from=\"cls\"), jpg=bytes) | filter(\"value % 4 != 1\") | select(value, key) | "
    "cache | batch(3) | repeat(2)",
    "webdataset(\"$D/u.tar.gz\", x=float32(from=\"cls\"), jpg=bytes) | shuffle(seed=1, buffer=5) | shard(count=2, "
    "index=1) | batch(3) | repeat(2)",
    "webdataset(\"$D/u.tar.gz\") | drop(key, label) | batch(4)",
    "image_folder(\"$D/folder\") | interleave(cycle=3) | shuffle(seed=2) | batch(6) | repeat(2)",
    "image_folder(\"$D/folder\") | shard(count=2, index=1) | drop(image) | batch(4)",
    "hdf5(\"$D/data.h5\") | batch(4)",
    "hdf5(\"$D/data.h5\") | shard(count=2, index=1, contiguous=true) | shuffle(seed=3, window=2) | batch(3) | repeat(3)",
    "hdf5(\"$D/data.h5\", value=\"/value\", many=\"/many\") | shuffle(seed=1) | filter(\"value % 4 != 1\") | batch(3) | repeat(2)",
    PICTURE_FILE " | shuffle(seed=3) | decode_image(image) | pad(image, 2, mode=reflect) | random_crop(image, 10, 10) | "
    "random_flip(image) | random_rotate(image) | normalize(image, mean=20, std=9) | cutout(image, 3) | one_hot(label, 10) | "
    "batch(4) | mixup(image, label) | repeat(3)",
    PICTURE_FILE " | decode_image(image) | random_flip(image, both) | gaussian_blur(image, 3) | batch(3) | repeat(2)",
    PICTURE_FILE " | filter(\"label < 7\") | decode_image(image) | random_resized_crop(image, 8, 8) | "
    "color_jitter(image, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1) | random_erasing(image) | layout(image) | "
    "one_hot(label, 10) | batch(4) | cutmix(image, label) | repeat(2)",
    PICTURE_FILE " | decode_image(image) | trivial_augment(image) | rand_augment(image) | cache | random_crop(image, 6) | "
    "shuffle(seed=9) | encode_png(image) | batch(5) | repeat(2)",
    NULL,
};

/* ---- runs ---- */

void seen_clear(seen *s)
{
    stk__free(s->batches);
    stk__free(s->values);
    stk__text_clear(&s->lines);
    *s = (seen){0};
}

void assert_seen_equal(const seen *all, size_t from, const seen *rest, const char *what)
{
    if (rest->count + from != all->count)
        fail_msg("%s: %zu batches from number %zu on, wanted %zu", what, rest->count, from, all->count - from);
    for (size_t i = 0; i < rest->count; i++) {
        const seen_batch *a = &all->batches[from + i], *b = &rest->batches[i];
        if (a->index != b->index || a->epoch != b->epoch || a->rows != b->rows || strcmp(a->digest, b->digest) != 0)
            fail_msg("%s: batch %zu is index %lld epoch %lld rows %lld %s, wanted index %lld epoch %lld rows %lld %s",
                     what, from + i, (long long)b->index, (long long)b->epoch, (long long)b->rows, b->digest,
                     (long long)a->index, (long long)a->epoch, (long long)a->rows, a->digest);
    }
}

static bool ends_in_sink(const char *text)
{
    static const char *const sinks[] = {"print", "discard", "write_"};
    const char *last = strrchr(text, '|');
    if (!last)
        return false;
    last += 1 + strspn(last + 1, " ");
    for (size_t i = 0; i < STK_COUNT(sinks); i++)
        if (strncmp(last, sinks[i], strlen(sinks[i])) == 0)
            return true;
    return false;
}

/* Of what write_data made. It starts a program, so it is made only where it is asked for. */
static void write_hdf5_file(void)
{
    seen s;
    run_all("tfrecord(\"$D/a-*.tfrecord\") | parse(value=int64, pair=float32[2], name=bytes, many=int64[]) | "
            "write_hdf5(\"$D/data.h5\", chunk=4, gzip=1)",
            NULL, &s);
    seen_clear(&s);
}

stk_status try_open(const char *text, const stk_config *config, stk_pipeline **out, stk_error *err)
{
    const stk_config fallback = harness_config();
    char full[4096]; /* not from the allocator that tests make fail */
    stk__text t;
    stk__text_fixed(&t, full, sizeof full);
    for (const char *p = text; *p; p++) {
        if (p[0] == '$' && p[1] == 'D')
            stk__text_puts(&t, test_dir), p++;
        else
            stk__text_putc(&t, *p);
    }
    assert_false(t.failed);
    if (strncmp(text, "hdf5(\"$D/data.h5\"", 17) == 0 && !file_exists("data.h5"))
        write_hdf5_file();
    return stk_pipeline_open(full, config ? config : &fallback, out, err);
}

static void note_values(seen *s, const stk_batch *batch)
{
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        if (strcmp(column->name, "value") != 0 || column->dtype != STK_INT64)
            continue;
        const size_t n = (size_t)column->elements;
        assert_true(stk__grow((void **)&s->values, &s->value_capacity, s->value_count + n, sizeof *s->values));
        if (n)
            memcpy(s->values + s->value_count, column->data, n * sizeof *s->values);
        s->value_count += n;
    }
}

void seen_add(seen *s, const stk_batch *batch)
{
    stk_digest *digest;
    assert_true(stk__grow((void **)&s->batches, &s->capacity, s->count + 1, sizeof *s->batches));
    seen_batch *b = &s->batches[s->count++];
    *b = (seen_batch){.index = batch->index, .epoch = batch->epoch, .rows = batch->rows};
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    stk_digest_add(digest, batch);
    stk_digest_hex(digest, b->digest);
    stk_digest_free(digest);
    note_values(s, batch);
}

static stk_status take_print(void *arg, const char *text, size_t size, stk_error *err)
{
    stk__text_write(arg, text, size);
    return STK_OK;
}

void run_some(const char *text, const stk_config *config, int64_t limit, const char *checkpoint, seen *out)
{
    stk_config with = config ? *config : harness_config();
    stk_pipeline *p = NULL;
    stk__text full = STK__TEXT_INIT;
    *out = (seen){0};
    stk__text_printf(&full, "%s%s", text, ends_in_sink(text) ? "" : " | print");
    with.print = take_print;
    with.print_arg = &out->lines;
    out->status = try_open(full.data, &with, &p, &out->error);
    while (out->status == STK_OK && (limit < 0 || (int64_t)out->count < limit)) {
        const stk_batch *batch;
        out->status = stk_pipeline_next(p, &batch, &out->error);
        if (out->status != STK_OK)
            break;
        seen_add(out, batch);
        out->status = stk_pipeline_consume(p, batch, &out->error);
        stk_batch_release(p, batch);
    }
    if (p && checkpoint)
        assert_int_equal(stk_pipeline_checkpoint(p, checkpoint, NULL), STK_OK);
    if (p && out->status == STK_END && stk_pipeline_finish(p, &out->error) != STK_OK)
        out->status = out->error.status;
    if (p)
        stk_pipeline_stats(p, &out->stats);
    stk_pipeline_close(p);
    stk__text_clear(&full);
}

void run_all(const char *text, const stk_config *config, seen *out)
{
    run_some(text, config, -1, NULL, out);
    if (out->status != STK_END)
        fail_msg("'%s' ended with %s: %s %s", text, stk_status_name(out->status), out->error.file, out->error.message);
}

/* ---- what is wanted ---- */

void assert_prints(const char *text, const char *lines)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        stk_config config = harness_config();
        config.threads = threads;
        seen s;
        run_all(text, &config, &s);
        assert_string_equal(s.lines.data ? s.lines.data : "", lines);
        seen_clear(&s);
    }
}

void assert_values(const char *text, const int64_t *values, size_t count)
{
    stk_config config = harness_config();
    config.no_approximate = true;
    seen s;
    run_all(text, &config, &s);
    if (s.value_count != count)
        fail_msg("'%s' gave %zu values, wanted %zu", text, s.value_count, count);
    for (size_t i = 0; i < count; i++)
        if (s.values[i] != values[i])
            fail_msg("'%s': value %zu is %lld, wanted %lld", text, i, (long long)s.values[i], (long long)values[i]);
    seen_clear(&s);
}

void assert_rows(const char *text, const int64_t *rows, size_t count)
{
    stk_config config = harness_config();
    config.no_approximate = true;
    seen s;
    run_all(text, &config, &s);
    if (s.count != count)
        fail_msg("'%s' gave %zu batches, wanted %zu", text, s.count, count);
    for (size_t i = 0; i < count; i++) {
        if (s.batches[i].rows != rows[i])
            fail_msg("'%s': batch %zu has %lld rows, wanted %lld", text, i, (long long)s.batches[i].rows,
                     (long long)rows[i]);
        assert_int_equal(s.batches[i].index, i);
    }
    seen_clear(&s);
}

static void assert_error(const char *text, stk_status found, const stk_error *error, stk_status status,
                         const char *part)
{
    if (found != status)
        fail_msg("'%s' gave %s (%s), wanted %s", text, stk_status_name(found), error->message, stk_status_name(status));
    if (!strstr(error->message, part))
        fail_msg("'%s' said '%s', wanted '%s' in it", text, error->message, part);
    assert_int_equal(error->status, status);
}

void assert_refused(const char *text, const stk_config *config, stk_status status, const char *part, int line,
                    int column)
{
    stk_pipeline *p = NULL;
    stk_error error;
    const stk_status found = try_open(text, config, &p, &error);
    stk_pipeline_close(p);
    assert_error(text, found, &error, status, part);
    if (error.line != line || error.column != column)
        fail_msg("'%s' was refused at %d:%d (%s), wanted %d:%d", text, error.line, error.column, error.message, line,
                 column);
}

void assert_fails(const char *text, const stk_config *config, stk_status status, const char *part)
{
    seen s;
    run_some(text, config, -1, NULL, &s);
    assert_error(text, s.status, &s.error, status, part);
    seen_clear(&s);
}

void assert_explains(const char *text, const char *part)
{
    stk_pipeline *p = NULL;
    stk_error error;
    if (try_open(text, NULL, &p, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    const char *explained = stk_pipeline_explain(p);
    if (!strstr(explained, part))
        fail_msg("the plan of '%s' is\n%swanted '%s' in it", text, explained, part);
    stk_pipeline_close(p);
}
