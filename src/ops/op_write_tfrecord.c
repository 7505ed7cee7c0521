/* write_tfrecord: write samples as TFRecord files. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/example.h"
#include "formats/schema.h"
#include "formats/set.h"
#include "formats/shard_names.h"
#include "formats/tfrecord.h"
#include "kernels/convert.h"
#include "ops/sink_names.h"

typedef struct {
    const char *name;
    int id;
    stk_dtype dtype;
} column;

typedef struct {
    const char *path;
    int64_t shards;
    int64_t compression, level;
    column *columns;
    int column_count;
    bool raw; /* the samples are records already */
    bool schema;
    stk__schema fields; /* what goes into the schema */
    char *schema_name;  /* NULL: none is written */
    int out;
    stk__set *set;
    stk__tfrecord_writer **writers;
    int64_t rows;
    bool done; /* a resumed run whose set has been published before */
} write_state;

typedef struct {
    stk__example_writer writer;
    stk__text text;
    stk__text numbers; /* a converted column */
} write_worker;

/* What the records cannot tell: of the fields as they are here, and what the source said of them. */
static stk_status describe_fields(const stk_plan *plan, const stk_host *host, write_state *s, stk_error *err)
{
    const stk__schema *origin = host->plan_description(plan);
    for (int i = 0; i < s->column_count; i++) {
        stk_field field;
        host->plan_field(plan, i, &field);
        STK_TRY(stk__schema_add(&s->fields, field.name, field.dtype, field.ndim, field.shape, origin, err));
    }
    if (origin)
        STK_TRY(stk__schema_set_attributes(&s->fields, origin->attributes, origin->attribute_count, err));
    stk__text path = STK__TEXT_INIT, text = STK__TEXT_INIT;
    stk__schema_path(&path, stk__base_name(s->path));
    s->schema_name = path.failed ? NULL : path.data;
    if (!s->schema_name) {
        stk__text_clear(&path);
        return stk__nomem(strlen(s->path), err);
    }
    /* Tried out now, since a schema that cannot be written would be noticed only after all the work. */
    const stk_status status = stk__schema_print(&s->fields, &text, err);
    stk__text_clear(&text);
    return status;
}

static stk_status write_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    write_state *s = state;
    STK_TRY(stk__shard_path_check(host, s->path, s->shards, err));
    const int count = host->plan_field_count(plan);
    s->columns = stk__calloc((size_t)count, sizeof *s->columns);
    if (!s->columns)
        return stk__nomem((size_t)count * sizeof *s->columns, err);
    for (int i = 0; i < count; i++) {
        stk_field field;
        column *c = &s->columns[i];
        host->plan_field(plan, i, &field);
        STK_TRY(host->plan_read(plan, field.name, &c->id, &field, err));
        c->dtype = field.dtype;
        c->name = field.name;
        s->column_count++;
        s->raw = count == 1 && field.dtype == STK_BYTES && field.ndim == 0 && strcmp(field.name, "record") == 0;
    }
    if (s->raw)
        return STK_OK;
    if (s->schema)
        STK_TRY(describe_fields(plan, host, s, err));
    for (int i = count - 1; i >= 0; i--) {
        const column *c = &s->columns[i];
        STK_TRY(host->plan_remove(plan, c->name, err));
    }
    const stk_field record = {.name = "record", .dtype = STK_BYTES};
    return host->plan_write(plan, &record, &s->out, err);
}

static int64_t write_memory(const stk_call *call)
{
    const write_state *s = call->state;
    return s->shards * stk__tfrecord_writer_memory((stk__compression)s->compression);
}

static stk_status open_writers(write_state *s, stk_error *err)
{
    s->writers = stk__calloc((size_t)s->shards, sizeof(stk__tfrecord_writer *));
    if (!s->writers)
        return stk__nomem((size_t)s->shards * sizeof(stk__tfrecord_writer *), err);
    for (int64_t i = 0; i < s->shards; i++)
        STK_TRY(stk__tfrecord_writer_part(stk__set_shard(s->set, i), (stk__compression)s->compression, (int)s->level,
                                          &s->writers[i], err));
    return STK_OK;
}

static stk_status write_open(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    const int64_t budget = call->host->open_info(call)->memory_bytes;
    if (write_memory(call) > budget / 2)
        return call->host->fail(err, STK_BUDGET,
                                "%lld shards need %lld bytes of buffers, wanted at most half of the budget of %lld",
                                (long long)s->shards, (long long)write_memory(call), (long long)budget);
    const stk_open_info *info = call->host->open_info(call);
    if ((info->checkpoints || info->resumes) && s->compression != STK__PLAIN)
        return call->host->fail(err, STK_INVALID,
                                "compressed files cannot be gone on with after a stop, so that a run which writes them takes no "
                                "checkpoints; leave out --checkpoint and --resume, or compression");
    if (info->resumes)
        return STK_OK; /* restore opens it */
    const stk__set_config config = {.pattern = s->path, .shards = s->shards, .schema = s->schema_name != NULL,
                                    .keep = info->checkpoints};
    STK_TRY(stk__set_open(&config, &s->set, err));
    return open_writers(s, err);
}

static void write_close(void *state)
{
    write_state *s = state;
    for (int64_t i = 0; s->writers && i < s->shards; i++)
        stk__tfrecord_writer_abort(s->writers[i]);
    stk__set_close(s->set);
    stk__schema_clear(&s->fields);
    stk__free(s->schema_name);
    stk__free(s->writers);
    stk__free(s->columns);
}

static stk_status write_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    *out_worker = stk__calloc(1, sizeof(write_worker));
    return *out_worker ? STK_OK : stk__nomem(sizeof(write_worker), err);
}

static void write_worker_close(const stk_call *call)
{
    write_worker *w = call->worker;
    stk__example_writer_clear(&w->writer);
    stk__text_clear(&w->text);
    stk__text_clear(&w->numbers);
    stk__free(w);
}

/* By bits, so that even NaNs come back as they are. */
static void widen_halves(float *out, const uint16_t *in, stk_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = dtype == STK_FLOAT16 ? stk__half_to_float(in[i]) : stk__bfloat_to_float(in[i]);
}

/* The values in one of the two number types that records hold. */
static const void *as_type(write_worker *w, const column *c, const stk_value *value, stk_dtype to)
{
    if (c->dtype == to)
        return value->data;
    stk__text_reset(&w->numbers);
    const size_t bytes = (size_t)value->elements * stk_dtype_size(to);
    if (!stk__grow((void **)&w->numbers.data, &w->numbers.capacity, bytes + 1, 1))
        return NULL;
    if (c->dtype == STK_FLOAT16 || c->dtype == STK_BFLOAT16)
        widen_halves((float *)(void *)w->numbers.data, value->data, c->dtype, value->elements);
    else
        stk__convert(w->numbers.data, to, value->data, c->dtype, (size_t)value->elements);
    return w->numbers.data;
}

static bool is_real(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32;
}

static stk_status encode(write_worker *w, const column *c, const stk_value *value, stk_error *err)
{
    if (c->dtype == STK_BYTES) {
        stk__example_add_bytes(&w->writer, c->name, value->data, value->elements);
        return STK_OK;
    }
    /* Neither float32 nor int64 holds all values of these. */
    if (c->dtype == STK_FLOAT64 || c->dtype == STK_UINT64) {
        stk__example_add_raw(&w->writer, c->name, c->dtype, value->data, value->elements);
        return STK_OK;
    }
    const void *data = as_type(w, c, value, is_real(c->dtype) ? STK_FLOAT32 : STK_INT64);
    if (!data)
        return stk__nomem((size_t)value->elements * 8, err);
    if (is_real(c->dtype))
        stk__example_add_floats(&w->writer, c->name, data, value->elements);
    else
        stk__example_add_ints(&w->writer, c->name, data, value->elements);
    return STK_OK;
}

/* Encoding is done by the workers; writing, in order, by consume. */
static stk_status write_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const write_state *s = call->state;
    write_worker *w = call->worker;
    if (s->raw)
        return STK_OK;
    stk__example_begin(&w->writer);
    for (int i = 0; i < s->column_count; i++)
        STK_TRY(encode(w, &s->columns[i], &sample->values[s->columns[i].id], err));
    stk__text_reset(&w->text);
    STK_TRY(stk__example_end(&w->writer, &w->text, err));
    void *out = stk_bytes_block(call, s->out, w->text.length, err);
    if (!out)
        return err->status;
    if (w->text.length)
        memcpy(out, w->text.data, w->text.length);
    stk_set_bytes(call, sample, s->out, out, (int64_t)w->text.length, true);
    return STK_OK;
}

static stk_status write_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    write_state *s = call->state;
    const stk_bytes *records = batch->columns[0].data;
    for (int64_t i = 0; i < batch->rows && !s->done; i++, s->rows++)
        STK_TRY(
            stk__tfrecord_writer_add(s->writers[s->rows % s->shards], records[i].data, (size_t)records[i].size, err));
    return STK_OK;
}

static stk_status add_schema(write_state *s, stk_error *err)
{
    stk__text text = STK__TEXT_INIT;
    s->fields.rows = s->rows;
    stk_status status = stk__schema_print(&s->fields, &text, err);
    if (status == STK_OK)
        status = stk__set_add(s->set, s->schema_name, text.data, text.length, err);
    stk__text_clear(&text);
    return status;
}

static stk_status write_finish(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    if (s->done)
        return STK_OK;
    for (int64_t i = 0; i < s->shards; i++)
        STK_TRY(stk__tfrecord_writer_end(s->writers[i], err));
    if (s->schema_name)
        STK_TRY(add_schema(s, err));
    return stk__set_publish(s->set, s->rows, err);
}

static stk_status write_save(const stk_call *call, char *out, size_t size, stk_error *err)
{
    const write_state *s = call->state;
    stk__text t;
    stk__text_fixed(&t, out, size);
    return stk__set_save(s->set, s->rows, NULL, 0, &t, err);
}

static stk_status write_restore(const stk_call *call, const char *text, stk_error *err)
{
    write_state *s = call->state;
    stk__text extra = STK__TEXT_INIT;
    const stk__set_config config = {.pattern = s->path, .shards = s->shards, .schema = s->schema_name != NULL};
    const stk_status status = stk__set_resume(&config, text, &s->set, &s->rows, &s->done, &extra, err);
    stk__text_clear(&extra);
    return status != STK_OK || s->done ? status : open_writers(s, err);
}

static const char *const compression_choices[] = {"none", "gzip", "zlib", NULL};

static const stk_option write_options[] = {
    STK_STRING_REQUIRED(write_state, path,
                        "where to; %05d stands for the number of the shard, a second one for how many"),
    STK_INT(write_state, shards, 1, 1, 65536, "files; sample i goes into file i modulo shards"),
    STK_ENUM(write_state, compression, STK__PLAIN, compression_choices, "of the files"),
    STK_INT(write_state, level, 6, 1, 9, "of the compression: 1 fast, 9 small"),
    STK_BOOL_OPTION(
        write_state, schema, true,
        "write NAME.schema.json beside the files, which parse and write_hdf5 can read; records as they are have none"),
    STK_OPTION_END,
};

const stk_op stk__op_write_tfrecord = {
    .abi = STK_OP_ABI,
    .name = "write_tfrecord",
    .group = "sink",
    .since = "0.1",
    .summary = "Write samples as TFRecord files: tf.train.Examples, or records as they are; all appear together, with a manifest.",
    .example = "range(100) | write_tfrecord(\"out/part-%05d\", shards=4)",
    .options = write_options,
    .state_size = sizeof(write_state),
    .role = STK_ROLE_SINK,
    .schema = write_schema,
    .open = write_open,
    .close = write_close,
    .worker_open = write_worker_open,
    .worker_close = write_worker_close,
    .process = write_process,
    .memory = write_memory,
    .consume = write_consume,
    .finish = write_finish,
    .save = write_save,
    .restore = write_restore,
};
