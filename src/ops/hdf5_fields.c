/* Which fields an HDF5 file gives: names, types and shapes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "ops/hdf5_source.h"

#include "base/banned.h"

void stk__h5_fields_clear(stk__h5_source *s)
{
    for (size_t i = 0; i < s->field_count; i++) {
        stk__free(s->fields[i].name);
        stk__free(s->fields[i].leaf);
    }
    for (size_t i = 0; i < s->dataset_count; i++)
        stk__free(s->datasets[i]);
    stk__free(s->fields);
    stk__free(s->datasets);
    stk__h5_file_free(s->model);
    stk__schema_clear(&s->description);
}

/* What is behind the dataset in a path that leads to one of its members: "" or "a/b". */
static const char *below(const char *path, const char *dataset)
{
    const size_t n = strlen(dataset);
    if (strncmp(path, dataset, n) != 0)
        return "";
    return path[n] == '/' ? path + n + 1 : "";
}

/* Whether a leaf is the member, or lies inside of it. */
static bool is_inside(const char *leaf, const char *member)
{
    const size_t n = strlen(member);
    return n == 0 || (strncmp(leaf, member, n) == 0 && (leaf[n] == 0 || leaf[n] == '/'));
}

/* "name" or "name_a_b": what is no letter, digit or underscore becomes one. */
static char *field_name(const char *name, const char *rest)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, name);
    if (*rest && *name)
        stk__text_putc(&t, '_');
    for (const char *p = rest; *p; p++) {
        const bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        stk__text_putc(&t, word ? *p : '_');
    }
    if (t.failed) {
        stk__text_clear(&t);
        return NULL;
    }
    return t.data;
}

/* Dimensions of a row, then those of the leaf, then the length of a sequence. */
static stk_status set_shape(stk__h5_field *f, const stk__h5_dataset *d, const stk__h5_leaf *leaf, stk_error *err)
{
    const bool sequence = leaf->kind == STK__H5_KIND_VLEN;
    const int32_t rows = d->rank > 0 ? d->rank - 1 : 0, ndim = rows + leaf->ndim + sequence;
    if (ndim > STK_MAX_DIMS)
        return stk_error_set(err, STK_UNSUPPORTED, "dataset '%.200s' has rows of %d dimensions, wanted at most %d",
                             d->path, ndim, STK_MAX_DIMS);
    if (sequence && d->row_elements * leaf->count != 1)
        return stk_error_set(err, STK_UNSUPPORTED,
                             "dataset '%.200s' has %lld sequences of variable length in a row, wanted one", d->path,
                             (long long)(d->row_elements * leaf->count));
    f->dtype = leaf->dtype;
    f->ndim = 0;
    for (int32_t i = 0; i < rows; i++)
        f->shape[f->ndim++] = d->dims[i + 1];
    for (int32_t i = 0; i < leaf->ndim; i++)
        f->shape[f->ndim++] = leaf->dims[i];
    if (sequence)
        f->shape[f->ndim++] = -1;
    return STK_OK;
}

static stk_status add_field(stk__h5_source *s, const char *name, size_t dataset, const stk__h5_dataset *d,
                            const stk__h5_leaf *leaf, const char *member, stk_error *err)
{
    stk__h5_field *all = stk__realloc(s->fields, (s->field_count + 1) * sizeof *all);
    if (!all)
        return stk__nomem((s->field_count + 1) * sizeof *all, err);
    s->fields = all;
    stk__h5_field *f = &all[s->field_count++];
    const char *rest = leaf->path + strlen(member);
    *f = (stk__h5_field){
        .name = field_name(name, *rest == '/' ? rest + 1 : rest), .leaf = stk__strdup(leaf->path), .dataset = dataset};
    if (!f->name || !f->leaf)
        return stk__nomem(strlen(name), err);
    STK_TRY(set_shape(f, d, leaf, err));
    return stk__schema_add_leaf(&s->description, f->name, f->ndim, f->shape, d, leaf, err);
}

/* The number of a dataset among those that are read. */
static stk_status use_dataset(stk__h5_source *s, const char *path, size_t *out, stk_error *err)
{
    for (*out = 0; *out < s->dataset_count; ++*out)
        if (strcmp(s->datasets[*out], path) == 0)
            return STK_OK;
    char **all = stk__realloc(s->datasets, (s->dataset_count + 1) * sizeof(char *));
    if (!all)
        return stk__nomem((s->dataset_count + 1) * sizeof(char *), err);
    s->datasets = all;
    all[s->dataset_count] = stk__strdup(path);
    if (!all[s->dataset_count])
        return stk__nomem(strlen(path), err);
    s->dataset_count++;
    return STK_OK;
}

/* The fields of one dataset, or of one member of it. */
static stk_status add_dataset(stk__h5_source *s, const char *name, const char *asked, const stk__h5_dataset *d,
                              stk_error *err)
{
    const char *member = below(asked, d->path);
    if (d->leaf_count == 0)
        return stk_error_set(err, STK_UNSUPPORTED, "dataset '%.200s' cannot become a field: %.200s", d->path,
                             d->why ? d->why : "its type is not known");
    size_t number, before = s->field_count;
    STK_TRY(use_dataset(s, d->path, &number, err));
    for (size_t i = 0; i < d->leaf_count; i++)
        if (is_inside(d->leaves[i].path, member))
            STK_TRY(add_field(s, name, number, d, &d->leaves[i], member, err));
    if (s->field_count > before)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "dataset '%.200s' has no member '%.200s', its type is %.200s", d->path,
                         member, d->type);
}

static stk_status check_args(const stk__h5_source *s, const stk_host *host, stk_error *err)
{
    for (size_t i = 0; i < s->args.count; i++) {
        const stk_named_arg *arg = &s->args.items[i];
        if (arg->value.kind == STK_ARG_STRING)
            continue;
        host->fail(err, STK_INVALID, "field '%s' must be the path of a dataset in the file, such as \"/features\"",
                   arg->name);
        return stk__at_value(arg, STK_INVALID, err);
    }
    return STK_OK;
}

/* The first file that can be described; the error of the first one when none can. */
static stk_status describe_model(stk__h5_source *s, const char *const *asked, size_t count, stk_error *err)
{
    stk_error first;
    stk_error_clear(&first);
    for (size_t i = 0; i < s->files.count; i++) {
        stk_error error;
        stk_error_clear(&error);
        if (stk__h5_describe(s->helper, s->files.items[i], asked, count, &s->model, &error) == STK_OK)
            return STK_OK;
        if (i == 0)
            first = error;
        if (error.status != STK_IO && error.status != STK_CORRUPT)
            break;
    }
    if (err)
        *err = first;
    return first.status;
}

static stk_status file_error(const stk__h5_source *s, stk_status status, stk_error *err)
{
    if (status != STK_OK && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", s->model->path);
    return status;
}

static stk_status check_names(const stk__h5_source *s, stk_error *err)
{
    for (size_t i = 0; i < s->field_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->fields[i].name, s->fields[k].name) == 0)
                return stk_error_set(err, STK_INVALID,
                                     "two fields would be called '%s': %s/%s and %s/%s; name the ones you want",
                                     s->fields[i].name, s->datasets[s->fields[k].dataset], s->fields[k].leaf,
                                     s->datasets[s->fields[i].dataset], s->fields[i].leaf);
    return STK_OK;
}

static stk_status add_all(stk__h5_source *s, stk_error *err)
{
    for (size_t i = 0; i < s->model->dataset_count; i++) {
        const stk__h5_dataset *d = &s->model->datasets[i];
        if (s->args.count == 0 && d->rows != s->model->datasets[0].rows)
            return stk_error_set(
                err, STK_INVALID,
                "'%.200s' has %lld rows and '%.200s' has %lld: name the datasets that go together, as in x=\"%.200s\"",
                s->model->datasets[0].path, (long long)s->model->datasets[0].rows, d->path, (long long)d->rows,
                d->path);
        if (s->args.count > 0) {
            STK_TRY(add_dataset(s, s->args.items[i].name, s->args.items[i].value.text, d, err));
            continue;
        }
        char *name = field_name("", d->path + (d->path[0] == '/'));
        if (!name)
            return stk__nomem(strlen(d->path), err);
        const stk_status status = add_dataset(s, name, d->path, d, err);
        stk__free(name);
        STK_TRY(status);
    }
    if (s->field_count == 0)
        return stk_error_set(err, STK_INVALID, "there is no dataset in the file");
    return check_names(s, err);
}

stk_status stk__h5_choose_fields(stk__h5_source *s, const stk_host *host, stk_error *err)
{
    STK_TRY(check_args(s, host, err));
    const char **asked = stk__calloc(s->args.count + 1, sizeof *asked);
    if (!asked)
        return stk__nomem(s->args.count * sizeof *asked, err);
    for (size_t i = 0; i < s->args.count; i++)
        asked[i] = s->args.items[i].value.text;
    const stk_status status = describe_model(s, asked, s->args.count, err);
    stk__free(asked);
    STK_TRY(status);
    STK_TRY(file_error(s, add_all(s, err), err));
    return stk__schema_set_attributes(&s->description, s->model->attributes, s->model->attribute_count, err);
}

/* ---- further files ---- */

static const stk__h5_leaf *find_leaf(const stk__h5_dataset *d, const char *path)
{
    for (size_t i = 0; i < d->leaf_count; i++)
        if (strcmp(d->leaves[i].path, path) == 0)
            return &d->leaves[i];
    return NULL;
}

static stk_status match_field(const stk__h5_field *f, const stk__h5_dataset *d, const stk__h5_leaf **out,
                              stk_error *err)
{
    stk__h5_field other = {0};
    const stk__h5_leaf *leaf = find_leaf(d, f->leaf);
    if (!leaf)
        return stk_error_set(err, STK_INVALID, "dataset '%.200s' has no member '%.200s', the first file has one",
                             d->path, f->leaf);
    STK_TRY(set_shape(&other, d, leaf, err));
    bool same = other.dtype == f->dtype && other.ndim == f->ndim;
    for (int32_t i = 0; same && i < f->ndim; i++)
        same = other.shape[i] == f->shape[i];
    if (!same)
        return stk_error_set(err, STK_INVALID,
                             "dataset '%.200s' has other types or shapes than in the first file: %.200s", d->path,
                             d->type);
    *out = leaf;
    return STK_OK;
}

stk_status stk__h5_match_file(const stk__h5_source *s, const stk__h5_file *file, stk__h5_part *parts, stk_error *err)
{
    for (size_t i = 0; i < s->dataset_count; i++) {
        const stk__h5_dataset *d = &file->datasets[i];
        parts[i].dataset = d;
        if (d->rows != file->datasets[0].rows)
            return stk_error_set(err, STK_INVALID, "'%.200s' has %lld rows and '%.200s' has %lld, wanted as many",
                                 file->datasets[0].path, (long long)file->datasets[0].rows, d->path,
                                 (long long)d->rows);
        parts[i].leaves = stk__calloc(s->field_count, sizeof *parts[i].leaves);
        if (!parts[i].leaves)
            return stk__nomem(s->field_count * sizeof *parts[i].leaves, err);
        for (size_t k = 0; k < s->field_count; k++)
            if (s->fields[k].dataset == i && s->fields[k].needed)
                STK_TRY(match_field(&s->fields[k], d, &parts[i].leaves[k], err));
    }
    return STK_OK;
}
