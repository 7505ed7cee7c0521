/* write_hdf5: write samples as an HDF5 file, a dataset for each field. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/hdf5_writer.h"
#include "ops/hdf5_restore.h"
#include "ops/sink_names.h"

#include "base/banned.h"

typedef struct {
    const char *path, *schema;
    int64_t chunk, gzip, zstd;
    bool lzf, shuffle, fletcher32;
    stk_strings binary;

    /* shuffle, a compressor and a checksum, as far as they are wanted; values of one byte leave out the first */
    stk__h5_filter filters[3];
    size_t filter_count, shuffle_count;
    uint32_t level;

    stk__h5_new *fields;
    size_t field_count;
    bool varies; /* the shape of some field is known with the first batch, see settle */

    stk__schema known; /* from the schema */
    const stk__schema *described; /* that, or what the source says; may be NULL */
    stk__h5_conversion *conversions;
    size_t conversion_count;

    const stk_call *call; /* for giving memory back */
    void *memory;
    size_t memory_bytes;
    stk__h5_writer *writer;
} write_state;

/* ---- planning ---- */

static void add_filter(write_state *s, uint32_t id, bool optional, bool has_level)
{
    s->filters[s->filter_count++] = (stk__h5_filter){
        .id = id, .optional = optional, .values = has_level ? &s->level : NULL, .value_count = has_level};
}

static stk_status choose_filters(write_state *s, const stk_host *host, stk_error *err)
{
    const int compressors = (s->gzip > 0) + (s->zstd > 0) + s->lzf;
    if (compressors > 1)
        return host->fail(err, STK_INVALID, "%d of gzip, zstd and lzf are set, wanted at most one", compressors);
    if (compressors && s->shuffle)
        add_filter(s, STK__H5_SHUFFLE, true, false);
    s->shuffle_count = s->filter_count;
    s->level = (uint32_t)(s->gzip > 0 ? s->gzip : s->zstd);
    if (compressors)
        add_filter(s, s->gzip ? STK__H5_DEFLATE : s->zstd ? STK__H5_ZSTD : STK__H5_LZF, true, !s->lzf);
    if (s->fletcher32)
        add_filter(s, STK__H5_FLETCHER32, false, false);
    return STK_OK;
}

static void plan_field(write_state *s, const stk_field *field, stk__h5_new *out)
{
    *out = (stk__h5_new){.name = field->name,
                         .dtype = field->dtype,
                         .kind = stk__h5_kind_of(field->dtype),
                         .utf8 = true,
                         .ndim = field->ndim,
                         .chunk_rows = s->chunk};
    memcpy(out->shape, field->shape, sizeof out->shape);
    const size_t skipped = stk_dtype_size(field->dtype) == 1 ? s->shuffle_count : 0;
    out->filters = s->filters + skipped;
    out->filter_count = s->filter_count - skipped;
    for (int d = 0; d < field->ndim; d++)
        s->varies = s->varies || field->shape[d] < 0;
}

static stk_status plan_binary(write_state *s, const stk_host *host, const char *name, stk_error *err)
{
    for (size_t i = 0; i < s->field_count; i++) {
        stk__h5_new *field = &s->fields[i];
        if (strcmp(field->name, name) != 0)
            continue;
        if (field->dtype != STK_BYTES)
            return host->fail(err, STK_INVALID, "binary has field '%s' of type %s, wanted bytes", name,
                              stk_dtype_name(field->dtype));
        field->kind = STK__H5_KIND_VLEN;
        return STK_OK;
    }
    return host->fail(err, STK_INVALID, "binary has '%s', which is no field here", name);
}

static stk__h5_writer_config writer_config(const write_state *s)
{
    stk__h5_writer_config config = {
        .path = s->path, .fields = s->fields, .field_count = s->field_count, .threads = 1, .memory_wanted = SIZE_MAX};
    if (s->described) {
        config.attributes = s->described->attributes;
        config.attribute_count = s->described->attribute_count;
    }
    return config;
}

/* With a schema a field becomes the dataset that it was; without one it keeps the attributes that its source told. */
static stk_status plan_known(write_state *s, stk_plan *plan, const stk_host *host, stk_field *field, int id, stk_error *err)
{
    const stk__schema_entry *entry = s->described ? stk__schema_find(s->described, field->name) : NULL;
    bool differs = false;
    if (entry && s->schema)
        STK_TRY(stk__h5_restore_type(plan, host, entry, field, id, &s->conversions[s->conversion_count], &differs, err));
    s->conversion_count += differs;
    stk__h5_new *out = &s->fields[s->field_count++];
    plan_field(s, field, out);
    if (entry && s->schema) {
        stk__h5_restore_storage(&s->known.entries[entry - s->known.entries], s->filter_count == 0, out);
    } else if (entry) {
        out->attributes = entry->attributes;
        out->attribute_count = entry->attribute_count;
    }
    return STK_OK;
}

static stk_status write_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    write_state *s = state;
    const int count = host->plan_field_count(plan);
    if (!s->path[0])
        return host->fail(err, STK_INVALID, "path is empty, wanted the name of a file");
    STK_TRY(stk__sink_path_check(host, s->path, err));
    STK_TRY(choose_filters(s, host, err));
    if (s->schema)
        STK_TRY(stk__schema_load(s->schema, &s->known, err));
    s->described = s->schema ? &s->known : host->plan_description(plan);
    s->fields = stk__calloc((size_t)count, sizeof *s->fields);
    s->conversions = stk__calloc((size_t)count, sizeof *s->conversions);
    if (!s->fields || !s->conversions)
        return stk__nomem((size_t)count * (sizeof *s->fields + sizeof *s->conversions), err);
    for (int i = 0; i < count; i++) {
        stk_field field;
        int id;
        host->plan_field(plan, i, &field);
        STK_TRY(host->plan_read(plan, field.name, &id, &field, err));
        STK_TRY(plan_known(s, plan, host, &field, id, err));
    }
    for (size_t i = 0; i < s->binary.count; i++)
        STK_TRY(plan_binary(s, host, s->binary.items[i], err));
    if (s->varies)
        return STK_OK;
    const stk__h5_writer_config config = writer_config(s);
    return stk__h5_writer_measure(&config, &s->memory_bytes, err);
}

/* ---- running ---- */

static stk_status open_writer(write_state *s, stk_error *err)
{
    const stk_open_info *info = s->call->host->open_info(s->call);
    stk__h5_writer_config config = writer_config(s);
    config.threads = info->threads;
    config.memory_wanted = (size_t)info->memory_bytes / 2;
    STK_TRY(stk__h5_writer_measure(&config, &s->memory_bytes, err));
    s->memory = stk_budget_alloc(s->call, s->memory_bytes, err);
    if (!s->memory)
        return err->status;
    return stk__h5_writer_open(&config, s->memory, &s->writer, err);
}

static stk_status write_open(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    s->call = call;
    return s->varies ? STK_OK : open_writer(s, err);
}

static void write_close(void *state)
{
    write_state *s = state;
    stk__h5_writer_close(s->writer);
    if (s->memory)
        stk_budget_free(s->call, s->memory, s->memory_bytes);
    stk__free(s->fields);
    stk__free(s->conversions);
    stk__schema_clear(&s->known);
}

/* Values that the schema has in another type; the rest goes as it is. */
static stk_status write_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const write_state *s = call->state;
    for (size_t i = 0; i < s->conversion_count; i++)
        STK_TRY(stk__h5_convert(call, &s->conversions[i], sample, err));
    return STK_OK;
}

/* A field of varying shape: rows of one dimension are sequences; padded ones have one shape. `c` is NULL when there is no batch. */
static stk_status settle_field(stk__h5_new *field, const stk_column *c, stk_error *err)
{
    int varying = 0;
    for (int d = 0; d < field->ndim; d++)
        varying += field->shape[d] < 0;
    const bool sequence = field->ndim == 1 && field->dtype != STK_BYTES;
    if (varying == 0)
        return STK_OK;
    if (sequence && (!c || c->offsets)) {
        field->kind = STK__H5_KIND_VLEN;
        field->ndim = 0;
        return STK_OK;
    }
    if (c && c->offsets) {
        stk_error_set(err, STK_INVALID,
                      "%s in %d dimensions of varying size: HDF5 has no type for that; make the rows equal with batch(..., pad=true)",
                      stk_dtype_name(field->dtype), field->ndim);
        if (err)
            snprintf(err->field, sizeof err->field, "%s", field->name);
        return STK_INVALID;
    }
    for (int d = 0; d < field->ndim; d++)
        field->shape[d] = c ? c->shape[d + 1] : field->shape[d] < 0 ? 0 : field->shape[d];
    return STK_OK;
}

static stk_status settle(write_state *s, const stk_batch *batch, stk_error *err)
{
    for (size_t i = 0; i < s->field_count; i++)
        STK_TRY(settle_field(&s->fields[i], batch ? stk__batch_column(batch, s->fields[i].name) : NULL, err));
    return open_writer(s, err);
}

static stk_status write_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    write_state *s = call->state;
    if (!s->writer)
        STK_TRY(settle(s, batch, err));
    return stk__h5_writer_add(s->writer, batch, err);
}

static stk_status write_finish(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    if (!s->writer)
        STK_TRY(settle(s, NULL, err));
    return stk__h5_writer_finish(s->writer, err);
}

static const stk_option write_options[] = {
    STK_STRING_REQUIRED(write_state, path, "file to make"),
    STK_INT(write_state, chunk, 0, 0, UINT32_MAX, "rows in a chunk; 0: as many as make about 1 MiB, at most 65536"),
    STK_INT(write_state, gzip, 0, 0, 9, "compress with gzip, which every reader knows: 1 fast, 4 usual, 9 small; 0: do not"),
    STK_BOOL_OPTION(write_state, lzf, false, "compress with lzf: fast, and known to h5py"),
    STK_INT(write_state, zstd, 0, 0, 22, "compress with zstd, which readers need a plug-in for: 1 fast, 22 small; 0: do not"),
    STK_BOOL_OPTION(write_state, shuffle, true, "sort the bytes of numbers by place before a compressor sees them"),
    STK_BOOL_OPTION(write_state, fletcher32, false, "put a checksum behind each chunk"),
    {.name = "binary",
     .kind = STK_OPTION_FIELDS,
     .offset = STK_FIELD_OFFSET(write_state, binary, stk_strings),
     .help = "fields of bytes that are no text: written as sequences of uint8, not as strings"},
    STK_STRING(write_state, schema, NULL,
               "file that write_tfrecord wrote: datasets, types, strings, byte order, fill values, attributes and, where not set "
               "here, chunks and filters become what they were"),
    STK_OPTION_END,
};

const stk_op stk__op_write_hdf5 = {
    .abi = STK_OP_ABI,
    .name = "write_hdf5",
    .group = "sink",
    .since = "0.1",
    .summary = "Write samples as an HDF5 file, a dataset for each field; it appears whole at the end or not at all.",
    .example = "range(100) | write_hdf5(\"out/numbers.h5\", gzip=4)",
    .options = write_options,
    .state_size = sizeof(write_state),
    .role = STK_ROLE_SINK,
    .schema = write_schema,
    .open = write_open,
    .close = write_close,
    .process = write_process,
    .consume = write_consume,
    .finish = write_finish,
};
