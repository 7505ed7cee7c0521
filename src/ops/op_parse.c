/* parse: take features out of tf.train.Example and SequenceExample records. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/op.h"
#include "formats/example.h"
#include "formats/schema.h"
#include "kernels/convert.h"

/* One field to make. */
typedef struct {
    const char *field;
    const char *feature; /* its name in the record */
    stk_dtype dtype;
    int natural;  /* stk__feature_kind that holds values of this type as they are; -1: none does */
    int32_t ndim; /* of the field; a sequence's first dimension is its length */
    int64_t shape[STK_MAX_DIMS];
    int64_t fixed; /* values of a feature, or of one that may repeat along the first dimension */
    bool varies;   /* the number of values is not fixed */
    bool sequence;
    void *fallback; /* values for a missing feature; NULL: it must be there */
    int id;
    int found; /* place among what is looked for; -1: not needed */
} spec;

typedef struct {
    stk_args fields;
    const char *record, *schema;
    bool sequence;
    stk__schema known; /* from the schema */
    int record_id;
    spec *specs;
    size_t spec_count;
    stk__wanted *wanted;
    size_t wanted_count;
    stk__example_layout *layout;
} parse_state;

typedef struct {
    stk__example_guess guess;
    stk__found found[];
} parse_worker;

static stk_status spec_error(const stk_host *host, const stk_named_arg *arg, stk_error *err, const char *wanted)
{
    host->fail(err, STK_INVALID, "field '%s' must be %s", arg->name, wanted);
    return stk__at_value(arg, STK_INVALID, err);
}

static void set_dtype(spec *s, stk_dtype dtype)
{
    s->dtype = dtype;
    s->natural = dtype == STK_FLOAT32 ? STK__FEATURE_FLOAT
                 : dtype == STK_INT64 ? STK__FEATURE_INT64
                 : dtype == STK_BYTES ? STK__FEATURE_BYTES
                                      : -1;
}

static stk_status read_type(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    const stk_arg *type = &arg->value;
    if (type->kind != STK_ARG_NAME && type->kind != STK_ARG_TYPE)
        return spec_error(host, arg, err, "a type such as float32[8], int64 or bytes");
    int dtype = 0;
    while (dtype < STK_DTYPE_COUNT && strcmp(type->text, stk_dtype_name((stk_dtype)dtype)) != 0)
        dtype++;
    if (dtype == STK_DTYPE_COUNT)
        return spec_error(host, arg, err, "of a type such as float32, int64, uint8 or bytes");
    set_dtype(s, (stk_dtype)dtype);
    if (type->kind == STK_ARG_TYPE && type->item_count > STK_MAX_DIMS - 1)
        return spec_error(host, arg, err, "of at most 5 dimensions");
    s->fixed = 1;
    for (size_t d = 0; type->kind == STK_ARG_TYPE && d < type->item_count; d++) {
        const int64_t n = type->items[d].integer;
        if (n < 0 && d > 0)
            return spec_error(host, arg, err, "of a shape whose first dimension alone is open");
        s->varies = s->varies || n < 0;
        s->shape[s->ndim++] = n;
        if (n >= 0 && (__builtin_mul_overflow(s->fixed, n, &s->fixed) || s->fixed > INT32_MAX))
            return spec_error(host, arg, err, "of fewer than 2^31 values");
    }
    if (s->varies && s->fixed == 0)
        return spec_error(host, arg, err, "of a shape without a dimension of 0 behind an open one");
    return STK_OK;
}

static stk_status make_sequence(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    if (s->varies)
        return spec_error(host, arg, err, "of a fixed shape in each step of a sequence");
    memmove(s->shape + 1, s->shape, sizeof(int64_t) * (size_t)s->ndim);
    s->shape[0] = -1;
    s->ndim++;
    s->sequence = s->varies = true;
    return STK_OK;
}

/* Floats may round; integers must be the same when read back. */
static bool set_number(stk_dtype dtype, void *out, const stk_arg *value)
{
    const bool real = dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
    const int64_t integer = value->kind == STK_ARG_BOOL ? value->boolean : value->integer;
    int64_t back = 0;
    if (real)
        return (value->kind == STK_ARG_INT || value->kind == STK_ARG_FLOAT) &&
               stk__convert(out, dtype, &value->number, STK_FLOAT64, 1);
    if (value->kind != STK_ARG_INT && !(value->kind == STK_ARG_BOOL && dtype == STK_BOOL))
        return false;
    return stk__convert(out, dtype, &integer, STK_INT64, 1) && stk__convert(&back, STK_INT64, out, dtype, 1) &&
           back == integer;
}

/* One value of the default, or all of them from one. */
static bool set_default(spec *s, int64_t i, const stk_arg *value)
{
    if (s->dtype != STK_BYTES)
        return set_number(s->dtype, (char *)s->fallback + (size_t)i * stk_dtype_size(s->dtype), value);
    if (value->kind != STK_ARG_STRING)
        return false;
    ((stk_bytes *)s->fallback)[i] = (stk_bytes){(const uint8_t *)value->text, (int64_t)strlen(value->text)};
    return true;
}

static stk_status read_default(const stk_host *host, const stk_named_arg *arg, spec *s, const stk_arg *value,
                               stk_error *err)
{
    if (s->varies)
        return spec_error(host, arg, err, "of a fixed shape to have a default; one that varies is empty when missing");
    const bool list = value->kind == STK_ARG_LIST;
    if (list && value->item_count != (size_t)s->fixed)
        return spec_error(host, arg, err, "given one default, or as many as it has values");
    s->fallback = stk__calloc((size_t)s->fixed, stk_dtype_size(s->dtype));
    if (!s->fallback)
        return stk__nomem((size_t)s->fixed * stk_dtype_size(s->dtype), err);
    for (int64_t i = 0; i < s->fixed; i++)
        if (!set_default(s, i, list ? &value->items[i] : value))
            return spec_error(host, arg, err, "given a default of its own type");
    return STK_OK;
}

static stk_status read_mods(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    const stk_arg *type = &arg->value;
    const stk_arg *fallback = NULL;
    for (size_t i = 0; type->kind == STK_ARG_TYPE && i < type->mod_count; i++) {
        const stk_named_arg *mod = &type->mods[i];
        if (strcmp(mod->name, "from") == 0 && mod->value.kind == STK_ARG_STRING) {
            s->feature = mod->value.text;
        } else if (strcmp(mod->name, "sequence") == 0 && mod->value.kind == STK_ARG_BOOL) {
            if (mod->value.boolean)
                STK_TRY(make_sequence(host, arg, s, err));
        } else if (strcmp(mod->name, "default") == 0) {
            fallback = &mod->value;
        } else {
            return spec_error(host, arg, err, "followed by from=\"NAME\", default=VALUE or sequence=true alone");
        }
    }
    return fallback ? read_default(host, arg, s, fallback, err) : STK_OK;
}

static stk_status spec_from_arg(const stk_host *host, const stk_named_arg *arg, spec *s, stk_error *err)
{
    s->field = s->feature = arg->name;
    STK_TRY(read_type(host, arg, s, err));
    return read_mods(host, arg, s, err);
}

/* A list of values has no shape of its own, so one open dimension is all that its length can tell. */
static stk_status spec_from_entry(const stk_host *host, const stk__schema_entry *entry, spec *s, stk_error *err)
{
    s->field = s->feature = entry->name;
    set_dtype(s, entry->dtype);
    s->ndim = entry->ndim;
    s->fixed = 1;
    memcpy(s->shape, entry->shape, sizeof s->shape);
    bool good = true;
    for (int32_t d = 0; d < s->ndim; d++) {
        s->varies = s->varies || s->shape[d] < 0;
        good = good && (s->shape[d] >= 0 || d == 0);
        if (s->shape[d] >= 0)
            good = good && !__builtin_mul_overflow(s->fixed, s->shape[d], &s->fixed) && s->fixed <= INT32_MAX;
    }
    if (good && !(s->varies && s->fixed == 0))
        return STK_OK;
    return host->fail(
        err, STK_INVALID,
        "field '%s' of the schema has a shape that records cannot tell: fewer than 2^31 values and only the "
        "first dimension open are wanted; give its type here, such as %s=%s[]",
        entry->name, entry->name, stk_dtype_name(entry->dtype));
}

static const stk_named_arg *find_arg(const parse_state *s, const char *name)
{
    for (size_t i = 0; i < s->fields.count; i++)
        if (strcmp(s->fields.items[i].name, name) == 0)
            return &s->fields.items[i];
    return NULL;
}

/* The fields of the schema in their order, then the others; what the user wrote counts more. */
static stk_status make_specs(const stk_host *host, parse_state *s, stk_error *err)
{
    const size_t most = s->fields.count + s->known.count;
    s->specs = stk__calloc(most, sizeof *s->specs);
    if (!s->specs)
        return stk__nomem(most * sizeof *s->specs, err);
    for (size_t i = 0; i < s->known.count; i++) {
        const stk__schema_entry *entry = &s->known.entries[i];
        const stk_named_arg *arg = find_arg(s, entry->name);
        spec *one = &s->specs[s->spec_count++];
        STK_TRY(arg ? spec_from_arg(host, arg, one, err) : spec_from_entry(host, entry, one, err));
    }
    for (size_t i = 0; i < s->fields.count; i++) {
        const stk_named_arg *arg = &s->fields.items[i];
        if (!stk__schema_find(&s->known, arg->name))
            STK_TRY(spec_from_arg(host, arg, &s->specs[s->spec_count++], err));
    }
    return STK_OK;
}

static stk_status parse_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    parse_state *s = state;
    stk_field record;
    if (s->schema)
        STK_TRY(stk__schema_load(s->schema, &s->known, err));
    if (s->fields.count + s->known.count == 0)
        return host->fail(err, STK_INVALID, "fields is missing: name=type for each feature, or a schema with fields");
    STK_TRY(host->plan_read(plan, s->record, &s->record_id, &record, err));
    if (record.dtype != STK_BYTES || record.ndim != 0)
        return host->fail(err, STK_INVALID, "field '%s' is no scalar of bytes", s->record);
    STK_TRY(host->plan_remove(plan, s->record, err));
    STK_TRY(make_specs(host, s, err));
    for (size_t i = 0; i < s->spec_count; i++) {
        spec *one = &s->specs[i];
        stk_field field = {.name = one->field, .dtype = one->dtype, .ndim = one->ndim};
        memcpy(field.shape, one->shape, sizeof field.shape);
        STK_TRY(host->plan_write(plan, &field, &one->id, err));
    }
    if (s->schema)
        host->plan_describe(plan, &s->known);
    return STK_OK;
}

/* What nothing needs is not looked for. */
static stk_status parse_open(const stk_call *call, stk_error *err)
{
    parse_state *s = call->state;
    s->wanted = stk__calloc(s->spec_count, sizeof *s->wanted);
    if (!s->wanted)
        return stk__nomem(s->spec_count * sizeof *s->wanted, err);
    for (size_t i = 0; i < s->spec_count; i++) {
        spec *one = &s->specs[i];
        one->found = -1;
        if (!stk_needed(call, one->id))
            continue;
        one->found = (int)s->wanted_count;
        s->sequence = s->sequence || one->sequence;
        s->wanted[s->wanted_count++] = (stk__wanted){.name = one->feature, .sequence = one->sequence};
    }
    return stk__example_layout_new(s->wanted, s->wanted_count, &s->layout, err);
}

static void parse_close(void *state)
{
    parse_state *s = state;
    for (size_t i = 0; i < s->spec_count; i++)
        stk__free(s->specs[i].fallback);
    stk__free(s->specs);
    stk__schema_clear(&s->known);
    stk__free(s->wanted);
    stk__example_layout_free(s->layout);
}

static stk_status parse_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    const parse_state *s = call->state;
    const size_t size = sizeof(parse_worker) + s->wanted_count * sizeof(stk__found);
    *out_worker = stk__calloc(1, size);
    return *out_worker ? STK_OK : stk__nomem(size, err);
}

static void parse_worker_close(const stk_call *call)
{
    stk__free(call->worker);
}

/* A list of the kind that holds the field's type as it is: the usual case. */
static inline stk_status decode_natural(const spec *s, const stk__feature *feature, void *out, int64_t want,
                                        stk_error *err)
{
    if (s->dtype == STK_FLOAT32)
        return stk__feature_floats(feature, out, want, err);
    if (s->dtype == STK_INT64)
        return stk__feature_ints(feature, out, want, err);
    return stk__feature_bytes(feature, out, want, err);
}

static stk_status decode(const spec *s, const stk__feature *feature, void *out, int64_t want, stk_error *err)
{
    if (STK_LIKELY((int)feature->kind == s->natural) || s->dtype == STK_BYTES)
        return decode_natural(s, feature, out, want, err);
    return stk__feature_numbers(feature, s->dtype, out, want, err);
}

#define NAMES_MAX 32
#define NAME_MAX_BYTES 64

/* The features of a record, for a message. */
typedef struct names {
    char items[NAMES_MAX][NAME_MAX_BYTES];
    size_t count;
    int left_out;
    stk__text list;
} names;

static bool add_name(void *arg, stk_bytes name, bool sequence, const stk__found *found)
{
    names *n = arg;
    char raw[NAME_MAX_BYTES];
    if (n->count == NAMES_MAX || n->list.length > 240) {
        n->left_out++;
        return true;
    }
    snprintf(raw, sizeof raw, "%.*s", (int)STK_MIN(name.size, (int64_t)sizeof raw - 1), (const char *)name.data);
    stk__escape_terminal(raw, n->items[n->count], NAME_MAX_BYTES);
    stk__text_printf(&n->list, "%s%s (%s)", n->count ? ", " : "", n->items[n->count],
                     sequence ? "sequence" : stk__example_kind_names[found->feature.kind]);
    n->count++;
    return true;
}

/* The feature that may have been meant, of those that nobody asked for; NULL: none is near. */
static const char *meant(const parse_state *state, const spec *s, const names *n)
{
    const char *left[NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < n->count; i++) {
        bool asked = false;
        for (size_t k = 0; k < state->spec_count && !asked; k++)
            asked = strcmp(state->specs[k].feature, n->items[i]) == 0;
        if (!asked)
            left[count++] = n->items[i];
    }
    return stk__nearest(s->feature, left, count);
}

/* "is missing, wanted 1 value; the record has image (bytes), label (int64): did you mean 'image'?" */
static stk_status missing(const stk_call *call, const spec *s, const stk_sample *sample, stk_error *err)
{
    const parse_state *state = call->state;
    const stk_bytes *record = sample->values[state->record_id].data;
    names n = {0};
    char list[360];
    stk__text_fixed(&n.list, list, sizeof list);
    stk__example_each(*record, state->sequence, add_name, &n, NULL);
    const char *nearest = meant(state, s, &n);
    if (n.left_out)
        stk__text_printf(&n.list, " and %d more", n.left_out);
    return stk_error_set(err, STK_UNFIT, "is missing, wanted %lld value%s; the record has %s%s%s%s", (long long)s->fixed,
                         s->fixed == 1 ? "" : "s", n.count ? list : "no features", nearest ? ": did you mean '" : "",
                         nearest ? nearest : "", nearest ? "'?" : "");
}

static stk_status parse_fixed(const stk_call *call, const spec *s, const stk__feature *feature, stk_sample *sample,
                              stk_error *err)
{
    void *out = stk_out(call, sample, s->id, NULL, err);
    if (STK_UNLIKELY(!out))
        return err->status;
    if (STK_LIKELY((int)feature->kind == s->natural))
        return decode_natural(s, feature, out, s->fixed, err);
    if (feature->kind != STK__FEATURE_NONE)
        return decode(s, feature, out, s->fixed, err);
    if (!s->fallback)
        return missing(call, s, sample, err);
    memcpy(out, s->fallback, (size_t)s->fixed * stk_dtype_size(s->dtype));
    return STK_OK;
}

static stk_status parse_varying(const stk_call *call, const spec *s, const stk__feature *feature, stk_sample *sample,
                                stk_error *err)
{
    int64_t count = 0, shape[STK_MAX_DIMS];
    const bool natural = (int)feature->kind == s->natural;
    if (STK_LIKELY(natural) || s->dtype == STK_BYTES)
        STK_TRY(stk__feature_count(feature, &count, err));
    else
        STK_TRY(stk__feature_number_count(feature, s->dtype, &count, err));
    if (count % s->fixed != 0)
        return stk_error_set(err, STK_CORRUPT, "has %lld values, wanted a multiple of %lld", (long long)count,
                             (long long)s->fixed);
    memcpy(shape, s->shape, sizeof shape);
    shape[0] = count / s->fixed;
    void *out = stk_out(call, sample, s->id, shape, err);
    if (!out)
        return err->status;
    if (count == 0)
        return STK_OK;
    return natural ? decode_natural(s, feature, out, count, err) : decode(s, feature, out, count, err);
}

static stk_status parse_sequence(const stk_call *call, const spec *s, stk__feature_list list, stk_sample *sample,
                                 stk_error *err)
{
    int64_t steps = 0, shape[STK_MAX_DIMS];
    if (list.present)
        STK_TRY(stk__feature_list_count(&list, &steps, err));
    memcpy(shape, s->shape, sizeof shape);
    shape[0] = steps;
    char *out = stk_out(call, sample, s->id, shape, err);
    if (!out)
        return err->status;
    const size_t step_bytes = (size_t)s->fixed * stk_dtype_size(s->dtype);
    for (int64_t i = 0; i < steps; i++) {
        stk__feature feature;
        STK_TRY(stk__feature_list_next(&list, &feature, err));
        STK_TRY(decode(s, &feature, out + (size_t)i * step_bytes, s->fixed, err));
    }
    return STK_OK;
}

static stk_status parse_one(const stk_call *call, const spec *s, const stk__found *found, stk_sample *sample,
                            stk_error *err)
{
    if (s->sequence)
        return parse_sequence(call, s, found->list, sample, err);
    if (s->varies)
        return parse_varying(call, s, &found->feature, sample, err);
    return parse_fixed(call, s, &found->feature, sample, err);
}

static stk_status parse_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const parse_state *s = call->state;
    parse_worker *w = call->worker;
    const stk_bytes *record = sample->values[s->record_id].data;
    STK_TRY(stk__example_find(s->layout, &w->guess, *record, s->sequence, w->found, err));
    for (size_t i = 0; i < s->spec_count; i++) {
        const spec *one = &s->specs[i];
        if (one->found < 0)
            continue;
        const stk_status status = parse_one(call, one, &w->found[one->found], sample, err);
        if (STK_UNLIKELY(status != STK_OK)) {
            snprintf(err->field, sizeof err->field, "%s", one->feature);
            return status;
        }
    }
    return STK_OK;
}

/* What a schema file said; all else stands in the text of the pipeline. */
static uint64_t parse_fingerprint(const stk_call *call)
{
    const parse_state *s = call->state;
    uint64_t h = 0;
    for (size_t i = 0; s->schema && i < s->spec_count; i++) {
        const spec *one = &s->specs[i];
        for (const char *p = one->field; *p; p++)
            h = stk__mix(h, (uint64_t)(unsigned char)*p);
        h = stk__mix(h, (uint64_t)one->dtype * 16 + (uint64_t)one->ndim);
        for (int32_t d = 0; d < one->ndim; d++)
            h = stk__mix(h, (uint64_t)one->shape[d]);
    }
    return h;
}

static const stk_option parse_options[] = {
    STK_STRING(parse_state, record, "record", "field that holds the records"),
    STK_BOOL_OPTION(parse_state, sequence, false, "records are SequenceExamples even if no field is a sequence"),
    STK_STRING(parse_state, schema, NULL,
               "file that write_tfrecord wrote beside the records: fields that are not named here come from it"),
    {.name = "fields",
     .kind = STK_OPTION_ARGS,
     .offset = STK_FIELD_OFFSET(parse_state, fields, stk_args),
     .help = "name=type for each feature: bytes or any type of numbers, with [8] fixed, [] varying; "
             "(from=\"feature/name\", default=0, sequence=true) may follow"},
    STK_OPTION_END,
};

const stk_op stk__op_parse = {
    .abi = STK_OP_ABI,
    .name = "parse",
    .group = "samples",
    .since = "0.1",
    .summary = "Take features out of tf.train.Example or SequenceExample records.",
    .example = "tfrecord(\"d/*.tfrecord\") | parse(x=float32[8], y=int64(default=0), tags=bytes[]) | batch(32)",
    .options = parse_options,
    .state_size = sizeof(parse_state),
    .schema = parse_schema,
    .open = parse_open,
    .close = parse_close,
    .worker_open = parse_worker_open,
    .worker_close = parse_worker_close,
    .process = parse_process,
    .fingerprint = parse_fingerprint,
};
