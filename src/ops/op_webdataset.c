/* webdataset: read samples from tar files, one field for each member. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/extension.h"
#include "formats/tar.h"
#include "ops/record_source.h"

#include "base/banned.h"

/* One field to make. */
typedef struct {
    const char *field;
    const char *from; /* extensions, the first one that is there counts: "jpg;png" */
    stk_dtype dtype;
    bool has_fallback;
    stk_bytes bytes; /* the fallback */
    int64_t integer;
    double number;
    int id;
    bool needed;
} spec;

typedef struct {
    stk__record_source source; /* first */
    stk_strings paths;
    const char *only;
    stk_args fields;
    spec *specs;
    size_t spec_count;
    int key_id; /* -1: the user has another field of that name */
    bool key_needed;
    int *cuts;
} webdataset_state;

/* What was found for one field. */
typedef struct {
    stk_bytes data;
    int rank; /* of its extension in `from`; -1: nothing */
} found_member;

/* ---- planning ---- */

static stk_status spec_error(const stk_host *host, const stk_named_arg *arg, stk_error *err, const char *wanted)
{
    host->fail(err, STK_INVALID, "field '%s' must be %s", arg->name, wanted);
    return stk__at_value(arg, STK_INVALID, err);
}

static bool set_default(spec *s, const stk_arg *value)
{
    s->has_fallback = true;
    s->integer = value->integer;
    s->number = value->number;
    if (s->dtype == STK_INT64)
        return value->kind == STK_ARG_INT;
    if (s->dtype == STK_FLOAT32)
        return value->kind == STK_ARG_INT || value->kind == STK_ARG_FLOAT;
    if (value->kind != STK_ARG_STRING)
        return false;
    s->bytes = (stk_bytes){(const uint8_t *)value->text, (int64_t)strlen(value->text)};
    return true;
}

static stk_status read_mods(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    for (size_t i = 0; i < arg->value.mod_count; i++) {
        const stk_named_arg *mod = &arg->value.mods[i];
        if (strcmp(mod->name, "from") == 0 && mod->value.kind == STK_ARG_STRING && mod->value.text[0])
            s->from = mod->value.text;
        else if (strcmp(mod->name, "default") != 0)
            return spec_error(host, arg, err, "followed by from=\"EXTENSION;...\" or default=VALUE alone");
        else if (!set_default(s, &mod->value))
            return spec_error(host, arg, err, "given a default of its own type");
    }
    return STK_OK;
}

static stk_status read_spec(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    const stk_arg *type = &arg->value;
    s->field = s->from = arg->name;
    if (strcmp(arg->name, "image") == 0)
        s->from = STK__PICTURE_EXTENSIONS;
    else if (strcmp(arg->name, "label") == 0)
        s->from = "cls";
    if (type->kind != STK_ARG_NAME && type->kind != STK_ARG_TYPE)
        return spec_error(host, arg, err, "a type such as bytes, int64 or bytes(from=\"jpg;png\")");
    if (strcmp(type->text, "bytes") == 0)
        s->dtype = STK_BYTES;
    else if (strcmp(type->text, "int64") == 0)
        s->dtype = STK_INT64;
    else if (strcmp(type->text, "float32") == 0)
        s->dtype = STK_FLOAT32;
    else
        return spec_error(host, arg, err, "bytes, or int64 or float32 written as text; cast it afterwards");
    if (type->kind == STK_ARG_NAME)
        return STK_OK;
    if (type->has_dims)
        return spec_error(host, arg, err, "one value, without a shape");
    return read_mods(host, arg, s, err);
}

static stk_status webdataset_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    webdataset_state *s = state;
    const size_t count = s->fields.count ? s->fields.count : 2;
    s->specs = stk__calloc(count, sizeof *s->specs);
    if (!s->specs)
        return stk__nomem(count * sizeof *s->specs, err);
    s->spec_count = count;
    s->key_id = -1;
    s->specs[0] = (spec){.field = "image", .from = STK__PICTURE_EXTENSIONS, .dtype = STK_BYTES};
    if (count > 1)
        s->specs[1] = (spec){.field = "label", .from = "cls", .dtype = STK_INT64};
    /* The whole sample is a field that nobody sees. */
    const stk_field record = {.name = "record", .dtype = STK_BYTES};
    STK_TRY(host->plan_write(plan, &record, &s->source.field, err));
    STK_TRY(host->plan_remove(plan, record.name, err));
    bool has_key = false;
    for (size_t i = 0; i < count; i++) {
        spec *one = &s->specs[i];
        if (s->fields.count) {
            *one = (spec){0};
            STK_TRY(read_spec(host, &s->fields.items[i], one, err));
        }
        has_key = has_key || strcmp(one->field, "key") == 0;
        const stk_field field = {.name = one->field, .dtype = one->dtype};
        STK_TRY(host->plan_write(plan, &field, &one->id, err));
    }
    const stk_field key = {.name = "key", .dtype = STK_BYTES};
    return has_key ? STK_OK : host->plan_write(plan, &key, &s->key_id, err);
}

static stk_status webdataset_open(const stk_call *call, stk_error *err)
{
    webdataset_state *s = call->state;
    s->cuts = stk__calloc(s->spec_count, sizeof *s->cuts);
    if (!s->cuts)
        return stk__nomem(s->spec_count * sizeof *s->cuts, err);
    for (size_t i = 0; i < s->spec_count; i++) {
        spec *one = &s->specs[i];
        one->needed = stk_needed(call, one->id);
        if (one->needed && one->dtype == STK_BYTES)
            s->cuts[s->source.cut_count++] = one->id;
    }
    s->key_needed = s->key_id >= 0 && stk_needed(call, s->key_id);
    s->source.cuts = s->cuts;
    s->source.framing = STK__FRAMING_TAR;
    return stk__source_open(&s->source, call, &s->paths, s->only, err);
}

static void webdataset_close(void *state)
{
    webdataset_state *s = state;
    stk__source_close(&s->source);
    stk__free(s->specs);
    stk__free(s->cuts);
}

/* ---- running ---- */

static stk_status take_member(const webdataset_state *s, found_member *found, const stk__tar_member *m, stk_bytes data,
                              stk_error *err)
{
    for (size_t i = 0; i < s->spec_count; i++) {
        found_member *f = &found[i];
        const spec *one = &s->specs[i];
        const int rank =
            one->needed ? stk__extension_rank(one->from, (const char *)m->ext.data, (size_t)m->ext.size) : -1;
        if (rank < 0 || (f->rank >= 0 && f->rank < rank))
            continue;
        if (f->rank == rank) {
            snprintf(err->field, sizeof err->field, "%s", one->field);
            return stk_error_set(err, STK_CORRUPT, "sample has member '%.*s' twice",
                                 (int)STK_MIN(m->name.size, (int64_t)200), (const char *)m->name.data);
        }
        *f = (found_member){data, rank};
    }
    return STK_OK;
}

/* The key may lie in two parts of a header, so it is copied. */
static stk_status set_key(const stk_call *call, const webdataset_state *s, stk_sample *sample, stk_bytes key,
                          stk_error *err)
{
    uint8_t *copy = stk_bytes_block(call, s->key_id, (size_t)key.size, err);
    if (!copy)
        return err->status;
    memcpy(copy, key.data, (size_t)key.size);
    stk_set_bytes(call, sample, s->key_id, copy, key.size, true);
    return STK_OK;
}

/* Looks at every member once. */
static stk_status find_members(const stk_call *call, const webdataset_state *s, stk_sample *sample, stk_bytes record,
                               found_member *found, stk_error *err)
{
    stk__tar_reader reader = {record.data, (size_t)record.size};
    stk__tar_member m;
    stk_bytes data;
    stk_status status;
    bool has_key = false;
    for (size_t i = 0; i < s->spec_count; i++)
        found[i] = (found_member){{NULL, 0}, -1};
    while ((status = stk__tar_next(&reader, &m, &data, err)) == STK_OK) {
        if (!m.key.size)
            continue;
        if (s->key_needed && !has_key)
            STK_TRY(set_key(call, s, sample, m.key, err));
        has_key = true;
        STK_TRY(take_member(s, found, &m, data, err));
    }
    if (status == STK_END && !has_key)
        return stk_error_set(err, STK_CORRUPT, "sample has no member with a key any more");
    return status == STK_END ? STK_OK : status;
}

/* "key 'a' has no member with the extension jpg;png; it has cls, txt" */
static stk_status missing(const spec *one, stk_bytes record, stk_error *err)
{
    char key[128] = "", list[256];
    stk__text t;
    stk__tar_reader reader = {record.data, (size_t)record.size};
    stk__tar_member m;
    stk_bytes data;
    stk__text_fixed(&t, list, sizeof list);
    while (stk__tar_next(&reader, &m, &data, NULL) == STK_OK) {
        if (!m.key.size)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)STK_MIN(m.key.size, (int64_t)120), (const char *)m.key.data);
        stk__text_printf(&t, "%s%.*s", t.length ? ", " : "", (int)STK_MIN(m.ext.size, (int64_t)60),
                         (const char *)m.ext.data);
    }
    return stk_error_set(err, STK_UNFIT, "sample '%s' has no member with the extension %.100s; it has %s", key,
                         one->from, list);
}

/* A number that was written as text, with white space around it. */
static stk_status read_number(const spec *one, stk_bytes data, void *out, stk_error *err)
{
    char text[64], *end;
    const uint8_t *p = data.data, *last = p + data.size;
    while (p < last && strchr(" \t\r\n", *p) && *p)
        p++;
    while (last > p && strchr(" \t\r\n", last[-1]) && last[-1])
        last--;
    const size_t size = (size_t)(last - p);
    const bool fits = size > 0 && size < sizeof text && !memchr(p, 0, size);
    if (fits) {
        memcpy(text, p, size);
        text[size] = 0;
    }
    if (fits && one->dtype == STK_INT64 && stk__parse_int64(text, out))
        return STK_OK;
    if (fits && one->dtype == STK_FLOAT32) {
        *(float *)out = (float)stk__strtod(text, &end);
        if (end == text + size)
            return STK_OK;
    }
    return stk_error_set(err, STK_CORRUPT, "holds '%.*s', wanted %s as text", (int)STK_MIN(size, (size_t)40),
                         (const char *)p, one->dtype == STK_INT64 ? "an integer" : "a number");
}

static stk_status set_field(const stk_call *call, const spec *one, stk_sample *sample, const found_member *found,
                            stk_bytes record, bool in_batch, stk_error *err)
{
    if (found->rank < 0 && !one->has_fallback)
        return missing(one, record, err);
    if (one->dtype == STK_BYTES) {
        const stk_bytes bytes = found->rank < 0 ? one->bytes : found->data;
        stk_set_bytes(call, sample, one->id, bytes.data, bytes.size, in_batch && found->rank >= 0);
        return STK_OK;
    }
    void *out = stk_out(call, sample, one->id, NULL, err);
    if (!out)
        return err->status;
    if (found->rank >= 0)
        return read_number(one, found->data, out, err);
    if (one->dtype == STK_INT64)
        *(int64_t *)out = one->integer;
    else
        *(float *)out = (float)one->number;
    return STK_OK;
}

/* From the sample's bytes to its fields. */
static stk_status set_fields(const stk_call *call, stk_sample *sample, bool in_batch, stk_error *err)
{
    const webdataset_state *s = call->state;
    const stk_bytes record = *(const stk_bytes *)sample->values[s->source.field].data;
    found_member *found = stk_scratch(call, s->spec_count * sizeof *found, err);
    if (!found)
        return err->status;
    STK_TRY(find_members(call, s, sample, record, found, err));
    for (size_t i = 0; i < s->spec_count; i++) {
        const spec *one = &s->specs[i];
        if (!one->needed)
            continue;
        const stk_status status = set_field(call, one, sample, &found[i], record, in_batch, err);
        if (status != STK_OK) {
            snprintf(err->field, sizeof err->field, "%s", one->field);
            return status;
        }
    }
    return STK_OK;
}

static stk_status webdataset_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const webdataset_state *s = call->state;
    STK_TRY(stk__source_process(call, sample, err));
    return set_fields(call, sample, stk__source_in_batch(&s->source, call), err);
}

/* A stream hands all fields over, also those that nobody needs: these are empty. */
static stk_status clear_unneeded(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const webdataset_state *s = call->state;
    stk_set_bytes(call, sample, s->source.field, NULL, 0, false);
    if (s->key_id >= 0 && !s->key_needed)
        stk_set_bytes(call, sample, s->key_id, NULL, 0, false);
    for (size_t i = 0; i < s->spec_count; i++) {
        const spec *one = &s->specs[i];
        if (one->needed)
            continue;
        if (one->dtype == STK_BYTES) {
            stk_set_bytes(call, sample, one->id, NULL, 0, false);
            continue;
        }
        void *out = stk_out(call, sample, one->id, NULL, err);
        if (!out)
            return err->status;
        memset(out, 0, stk_dtype_size(one->dtype));
    }
    return STK_OK;
}

static stk_status webdataset_pull(const stk_call *call, stk_sample *sample, stk_error *err)
{
    STK_TRY(stk__source_pull(call, sample, err));
    STK_TRY(set_fields(call, sample, false, err));
    return clear_unneeded(call, sample, err);
}

static const stk_option webdataset_options[] = {
    STK_STRINGS_REQUIRED(webdataset_state, paths,
                         "files or patterns such as \"d/*.tar\"; gzip and zlib are found by content. Files in them whose names begin with a "
                         "dot or have no extension are in no sample; a warning counts them"),
    STK_STRING(webdataset_state, only, NULL, "visit only the samples that this list names: what quarantine wrote, or other JSON with file and record"),
    {.name = "fields",
     .kind = STK_OPTION_ARGS,
     .offset = STK_FIELD_OFFSET(webdataset_state, fields, stk_args),
     .help = "name=type for each field: bytes, or int64 or float32 written as text; (from=\"jpg;png\", default=0) may "
             "follow. From is the member's extension: that of the usual pictures for image, cls for label, else the "
             "field's name. Without any: image=bytes, label=int64"},
    STK_OPTION_END,
};

const stk_op stk__op_webdataset = {
    .abi = STK_OP_ABI,
    .name = "webdataset",
    .group = "source",
    .since = "0.1",
    .summary = "Read samples from tar files: members with one key, each a field by its extension; and the `key`.",
    .example = "webdataset(\"d/*.tar\", image=bytes(from=\"jpg;png\"), label=int64(from=\"cls\")) | batch(32)",
    .options = webdataset_options,
    .state_size = sizeof(webdataset_state),
    .role = STK_ROLE_SOURCE,
    .schema = webdataset_schema,
    .open = webdataset_open,
    .close = webdataset_close,
    .process = webdataset_process,
    .pull = webdataset_pull,
    STK__RECORD_SOURCE_SHARED,
};
