/* write_webdataset: write samples as tar files with a member for each field. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/set.h"
#include "formats/tar.h"
#include "ops/sink_names.h"

#include "base/banned.h"

typedef struct {
    const char *name;
    const char *extension; /* NULL: told by the picture itself */
} member;

typedef struct {
    const char *path;
    int64_t shards;
    const char *key; /* a field; NULL: samples are numbered */
    stk_args fields;
    member *members;
    size_t member_count;
    stk__set *set;
    stk__tar_writer **writers;
    char **last_keys; /* by shard: the key of its last sample */
    int64_t rows;
    bool done; /* a resumed run whose set has been published before */
    stk__text text, file_name, key_text;
} write_state;

/* ---- planning ---- */

static stk_status arg_error(const stk_host *host, const stk_named_arg *arg, stk_error *err, const char *wanted)
{
    host->fail(err, STK_INVALID, "%s must be %s", arg->name, wanted);
    return stk__at_value(arg, STK_INVALID, err);
}

static bool is_extension(const char *s)
{
    const size_t n = strlen(s);
    return n > 0 && n <= 64 && s[0] != '.' && !strpbrk(s, "/;") && stk__check_name(s, n, "", NULL) == STK_OK;
}

static stk_status add_member(const stk_host *host, write_state *s, const char *name, const char *extension,
                             stk_error *err)
{
    for (size_t i = 0; i < s->member_count; i++) {
        const member *m = &s->members[i];
        if (extension && m->extension && strcmp(m->extension, extension) == 0)
            return host->fail(err, STK_INVALID, "fields '%s' and '%s' both get the extension '%s'", m->name, name,
                              extension);
    }
    s->members[s->member_count++] = (member){name, extension};
    return STK_OK;
}

/* The fields that the user named, with their extensions. */
static stk_status take_args(const stk_host *host, write_state *s, stk_error *err)
{
    for (size_t i = 0; i < s->fields.count; i++) {
        const stk_named_arg *arg = &s->fields.items[i];
        if (arg->value.kind != STK_ARG_STRING || !is_extension(arg->value.text))
            return arg_error(host, arg, err, "the extension for a field, such as image=\"jpg\" or label=\"cls\"");
        STK_TRY(add_member(host, s, arg->name, arg->value.text, err));
    }
    return STK_OK;
}

/* All fields: pictures by what they are, labels as cls, others by their own names. */
static stk_status take_all(stk_plan *plan, const stk_host *host, write_state *s, stk_error *err)
{
    const int count = host->plan_field_count(plan);
    for (int i = 0; i < count; i++) {
        stk_field field;
        host->plan_field(plan, i, &field);
        if (s->key && strcmp(field.name, s->key) == 0)
            continue;
        const char *extension = strcmp(field.name, "label") == 0 ? "cls" : field.name;
        const bool picture = strcmp(field.name, "image") == 0;
        if (!picture && !is_extension(extension))
            return host->fail(
                err, STK_INVALID,
                "field '%s' has a name that cannot be an extension; say one for each field to write, such "
                "as \"%s\"=\"jpg\"",
                field.name, field.name);
        STK_TRY(add_member(host, s, field.name, picture ? NULL : extension, err));
    }
    return STK_OK;
}

static bool is_written(const write_state *s, const char *name)
{
    bool found = s->key && strcmp(name, s->key) == 0;
    for (size_t i = 0; i < s->member_count; i++)
        found = found || strcmp(name, s->members[i].name) == 0;
    return found;
}

static stk_status read_field(stk_plan *plan, const stk_host *host, const char *name, stk_error *err)
{
    stk_field field;
    int id;
    STK_TRY(host->plan_read(plan, name, &id, &field, err));
    if (field.ndim == 0)
        return STK_OK;
    return host->fail(err, STK_INVALID,
                      "field '%s' is an array of %s, wanted bytes or a single number; encode pictures first", name,
                      stk_dtype_name(field.dtype));
}

static stk_status write_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    write_state *s = state;
    STK_TRY(stk__shard_path_check(host, s->path, s->shards, err));
    const int count = host->plan_field_count(plan);
    const size_t room = s->fields.count ? s->fields.count : (size_t)count;
    s->members = stk__calloc(room, sizeof *s->members);
    if (!s->members)
        return stk__nomem(room * sizeof *s->members, err);
    for (int i = 0; i < count && !s->key; i++) {
        stk_field field;
        host->plan_field(plan, i, &field);
        if (strcmp(field.name, "key") == 0)
            s->key = "key";
    }
    STK_TRY(s->fields.count ? take_args(host, s, err) : take_all(plan, host, s, err));
    if (s->member_count == 0)
        return host->fail(err, STK_INVALID, "there is no field to write but the key");
    for (size_t i = 0; i < s->member_count; i++)
        STK_TRY(read_field(plan, host, s->members[i].name, err));
    if (s->key)
        STK_TRY(read_field(plan, host, s->key, err));
    /* What is not written need not be made. */
    for (int i = count - 1; i >= 0; i--) {
        stk_field field;
        host->plan_field(plan, i, &field);
        if (!is_written(s, field.name))
            STK_TRY(host->plan_remove(plan, field.name, err));
    }
    return STK_OK;
}

/* ---- files ---- */

static int64_t write_memory(const stk_call *call)
{
    const write_state *s = call->state;
    return s->shards * stk__tar_writer_memory();
}

static stk_status open_writers(write_state *s, stk_error *err)
{
    s->writers = stk__calloc((size_t)s->shards, sizeof *s->writers);
    s->last_keys = stk__calloc((size_t)s->shards, sizeof *s->last_keys);
    if (!s->writers || !s->last_keys)
        return stk__nomem((size_t)s->shards * sizeof *s->writers, err);
    for (int64_t i = 0; i < s->shards; i++)
        STK_TRY(stk__tar_writer_part(stk__set_shard(s->set, i), &s->writers[i], err));
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
    if (info->resumes)
        return STK_OK; /* restore opens it */
    const stk__set_config config = {.pattern = s->path, .shards = s->shards, .keep = info->checkpoints};
    STK_TRY(stk__set_open(&config, &s->set, err));
    return open_writers(s, err);
}

static void write_close(void *state)
{
    write_state *s = state;
    for (int64_t i = 0; s->writers && i < s->shards; i++)
        stk__tar_writer_abort(s->writers[i]);
    for (int64_t i = 0; s->last_keys && i < s->shards; i++)
        stk__free(s->last_keys[i]);
    stk__set_close(s->set);
    stk__free(s->writers);
    stk__free(s->last_keys);
    stk__free(s->members);
    stk__text_clear(&s->text);
    stk__text_clear(&s->file_name);
    stk__text_clear(&s->key_text);
}

/* The key of a sample, in key_text. A dot would end it, and two samples with one key in a row would become one. */
static stk_status make_key(write_state *s, const stk_batch *batch, int64_t row, int64_t shard, stk_error *err)
{
    stk__text *t = &s->key_text;
    stk__text_reset(t);
    if (!s->key) {
        stk__text_printf(t, "%09lld", (long long)s->rows);
        return t->failed ? stk__nomem(16, err) : STK_OK;
    }
    stk__text_element(t, stk__batch_column(batch, s->key), row);
    if (t->failed)
        return stk__nomem(t->length, err);
    char what[64];
    snprintf(what, sizeof what, "the key of sample %lld", (long long)s->rows);
    STK_TRY(stk__check_name(t->data ? t->data : "", t->length, what, err));
    const char *slash = strrchr(t->data, '/');
    if (strchr(slash ? slash : t->data, '.'))
        return stk_error_set(err, STK_INVALID, "%s is '%.200s': a dot would end it", what, t->data);
    if (s->last_keys[shard] && strcmp(s->last_keys[shard], t->data) == 0)
        return stk_error_set(err, STK_INVALID, "%s is '%.200s', as that of the sample before it in its file", what,
                             t->data);
    stk__free(s->last_keys[shard]);
    s->last_keys[shard] = stk__strdup(t->data);
    return s->last_keys[shard] ? STK_OK : stk__nomem(t->length, err);
}

static stk_status write_member(write_state *s, const member *m, const stk_column *column, int64_t row, int64_t shard,
                               stk_error *err)
{
    stk_bytes data;
    if (column->dtype == STK_BYTES) {
        data = ((const stk_bytes *)column->data)[row];
    } else {
        stk__text_reset(&s->text);
        stk__text_element(&s->text, column, row);
        if (s->text.failed)
            return stk__nomem(32, err);
        data = (stk_bytes){(const uint8_t *)s->text.data, (int64_t)s->text.length};
    }
    const char *extension = m->extension ? m->extension : stk__picture_extension(data);
    if (!extension)
        return stk_error_set(err, STK_INVALID,
                             "field '%s' of sample %lld begins like no picture; say its extension with %s=\"jpg\"",
                             m->name, (long long)s->rows, m->name);
    stk__text_reset(&s->file_name);
    stk__text_printf(&s->file_name, "%s.%s", s->key_text.data, extension);
    if (s->file_name.failed)
        return stk__nomem(s->key_text.length, err);
    return stk__tar_writer_add(s->writers[shard], s->file_name.data, data.data, (size_t)data.size, err);
}

static stk_status write_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    write_state *s = call->state;
    for (int64_t row = 0; row < batch->rows && !s->done; row++, s->rows++) {
        const int64_t shard = s->rows % s->shards;
        STK_TRY(make_key(s, batch, row, shard, err));
        for (size_t i = 0; i < s->member_count; i++) {
            const member *m = &s->members[i];
            STK_TRY(write_member(s, m, stk__batch_column(batch, m->name), row, shard, err));
        }
    }
    return STK_OK;
}

static stk_status write_finish(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    if (s->done)
        return STK_OK;
    for (int64_t i = 0; i < s->shards; i++)
        STK_TRY(stk__tar_writer_end(s->writers[i], err));
    return stk__set_publish(s->set, s->rows, err);
}

/* The last keys go along, by shard, each with its NUL: the first sample after a stop must not have that of the last before it. */
static stk_status write_save(const stk_call *call, char *out, size_t size, stk_error *err)
{
    const write_state *s = call->state;
    stk__text t, keys = STK__TEXT_INIT;
    stk__text_fixed(&t, out, size);
    for (int64_t i = 0; i < s->shards && s->last_keys; i++) {
        const char *key = s->last_keys[i] ? s->last_keys[i] : "";
        stk__text_write(&keys, key, strlen(key) + 1);
    }
    const stk_status status =
        keys.failed ? stk__nomem(keys.length, err) : stk__set_save(s->set, s->rows, keys.data, keys.length, &t, err);
    stk__text_clear(&keys);
    return status;
}

static stk_status restore_keys(write_state *s, const stk__text *keys, stk_error *err)
{
    const char *at = keys->data, *end = at + keys->length;
    for (int64_t i = 0; i < s->shards && at < end; i++) {
        const size_t size = strnlen(at, (size_t)(end - at));
        if (size && !(s->last_keys[i] = stk__strndup(at, size)))
            return stk__nomem(size, err);
        at += STK_MIN(size + 1, (size_t)(end - at));
    }
    return STK_OK;
}

static stk_status write_restore(const stk_call *call, const char *text, stk_error *err)
{
    write_state *s = call->state;
    stk__text keys = STK__TEXT_INIT;
    const stk__set_config config = {.pattern = s->path, .shards = s->shards};
    stk_status status = stk__set_resume(&config, text, &s->set, &s->rows, &s->done, &keys, err);
    if (status == STK_OK && !s->done)
        status = open_writers(s, err);
    if (status == STK_OK && !s->done)
        status = restore_keys(s, &keys, err);
    stk__text_clear(&keys);
    return status;
}

static const stk_option write_options[] = {
    STK_STRING_REQUIRED(write_state, path,
                        "where to; %05d stands for the number of the shard, a second one for how many"),
    STK_INT(write_state, shards, 1, 1, 65536, "files; sample i goes into file i modulo shards"),
    {.name = "key",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(write_state, key, const char *),
     .help = "field that names the samples; without one, the field key where it exists, else 000000000 and so on"},
    {.name = "fields",
     .kind = STK_OPTION_ARGS,
     .offset = STK_FIELD_OFFSET(write_state, fields, stk_args),
     .help =
         "field=\"extension\" for each field to write: bytes as they are, numbers as text. Without any: all of them, "
         "image by what it is, label as cls, others by their own names"},
    STK_OPTION_END,
};

const stk_op stk__op_write_webdataset = {
    .abi = STK_OP_ABI,
    .name = "write_webdataset",
    .group = "sink",
    .since = "0.1",
    .summary = "Write samples as tar files, a member KEY.EXTENSION for each field; all appear together, with a manifest.",
    .example = "range(100) | write_webdataset(\"out/part-%05d.tar\", shards=4, value=\"txt\")",
    .options = write_options,
    .state_size = sizeof(write_state),
    .role = STK_ROLE_SINK,
    .schema = write_schema,
    .open = write_open,
    .close = write_close,
    .memory = write_memory,
    .consume = write_consume,
    .finish = write_finish,
    .save = write_save,
    .restore = write_restore,
};
