/* Manifests as JSON: written with one file a line, read with trust in nothing. */
#define _GNU_SOURCE
#include "formats/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/json_bytes.h"
#include "formats/shard_names.h"

#include "base/banned.h"

enum { NAME_BYTES = 255, PATTERN_BYTES = 512 };

void stk__manifest_clear(stk__manifest *m)
{
    for (size_t i = 0; i < m->count; i++)
        stk__free(m->files[i].name);
    stk__free(m->files);
    stk__free(m->by_name);
    stk__free(m->pattern);
    *m = (stk__manifest){0};
}

stk_status stk__manifest_add(stk__manifest *m, const char *name, int64_t bytes, int64_t rows, stk__file_digest digest,
                             stk_error *err)
{
    char *copy = stk__strdup(name);
    if (!copy || !stk__grow((void **)&m->files, &m->capacity, m->count + 1, sizeof *m->files)) {
        stk__free(copy);
        return stk__nomem(sizeof *m->files, err);
    }
    m->files[m->count++] = (stk__manifest_file){copy, bytes, rows, digest};
    return STK_OK;
}

/* ---- writing ---- */

void stk__file_digest_print(stk__file_digest digest, char out[33])
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, digest.high, digest.low);
}

stk_status stk__manifest_print(const stk__manifest *m, stk__text *out, stk_error *err)
{
    stk__text_printf(out, "{\"stoker_manifest\": %d,\n \"pattern\": ", STK__MANIFEST_VERSION);
    stk__json_put_bytes(out, (const uint8_t *)m->pattern, strlen(m->pattern));
    stk__text_printf(out, ",\n \"rows\": %" PRId64 ",\n \"files\": [", m->rows);
    for (size_t i = 0; i < m->count; i++) {
        const stk__manifest_file *f = &m->files[i];
        char hex[33];
        stk__file_digest_print(f->digest, hex);
        stk__text_puts(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        stk__json_put_bytes(out, (const uint8_t *)f->name, strlen(f->name));
        stk__text_printf(out, ", \"bytes\": %" PRId64 ", \"rows\": %" PRId64 ", \"xxh3_128\": \"%s\"}", f->bytes,
                         f->rows, hex);
    }
    stk__text_puts(out, "]}\n");
    return out->failed ? stk__nomem(out->length, err) : STK_OK;
}

/* ---- reading ---- */

bool stk__file_digest_parse(const char *text, stk__file_digest *out)
{
    uint64_t parts[2] = {0, 0};
    if (!text || strlen(text) != 32)
        return false;
    for (int i = 0; i < 32; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        parts[i / 16] = parts[i / 16] << 4 | (uint64_t)digit;
    }
    *out = (stk__file_digest){parts[0], parts[1]};
    return true;
}

static stk_status wanted(stk_error *err, const char *key, const char *what)
{
    return stk_error_set(err, STK_CORRUPT, "\"%s\" is not there or wrong, wanted %s", key, what);
}

/* A name of a file, not of one somewhere else. */
static bool is_name(const char *name, size_t size)
{
    return size > 0 && strlen(name) == size && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static stk_status read_name(const json_t *object, const char *key, size_t max, char **out, stk_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    const stk_status status = stk__json_read_bytes(json_object_get(object, key), max, &data, &size);
    if (status == STK_NOMEM)
        return stk__nomem(max, err);
    if (status != STK_OK || !is_name((char *)data, size)) {
        stk__free(data);
        return wanted(err, key, "a name without directories");
    }
    *out = (char *)data;
    return STK_OK;
}

static stk_status read_count(const json_t *object, const char *key, int64_t *out, stk_error *err)
{
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 ? STK_OK : wanted(err, key, "a number of at least 0");
}

static stk_status read_file(const json_t *object, stk__manifest_file *f, stk_error *err)
{
    STK_TRY(read_name(object, "name", NAME_BYTES, &f->name, err));
    STK_TRY(read_count(object, "bytes", &f->bytes, err));
    STK_TRY(read_count(object, "rows", &f->rows, err));
    if (!stk__file_digest_parse(json_string_value(json_object_get(object, "xxh3_128")), &f->digest))
        return wanted(err, "xxh3_128", "32 hex digits");
    return STK_OK;
}

static int compare_names(const void *a, const void *b, void *files)
{
    const stk__manifest_file *f = files;
    return strcmp(f[*(const uint32_t *)a].name, f[*(const uint32_t *)b].name);
}

/* Sorts the names; two of one kind are refused. */
static stk_status index_names(stk__manifest *m, stk_error *err)
{
    m->by_name = stk__calloc(m->count + 1, sizeof *m->by_name);
    if (!m->by_name)
        return stk__nomem(m->count * sizeof *m->by_name, err);
    for (size_t i = 0; i < m->count; i++)
        m->by_name[i] = (uint32_t)i;
    qsort_r(m->by_name, m->count, sizeof *m->by_name, compare_names, m->files);
    for (size_t i = 1; i < m->count; i++)
        if (strcmp(m->files[m->by_name[i - 1]].name, m->files[m->by_name[i]].name) == 0)
            return wanted(err, "files", "each name once");
    return STK_OK;
}

const stk__manifest_file *stk__manifest_find(const stk__manifest *m, const char *name)
{
    for (size_t low = 0, high = m->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        const stk__manifest_file *f = &m->files[m->by_name[middle]];
        const int order = strcmp(name, f->name);
        if (order == 0)
            return f;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static stk_status read_manifest(const json_t *root, stk__manifest *m, stk_error *err)
{
    const json_t *version = json_object_get(root, "stoker_manifest"), *files = json_object_get(root, "files");
    if (!json_is_integer(version))
        return wanted(err, "stoker_manifest", "a manifest as write_tfrecord and write_webdataset write it");
    if (json_integer_value(version) != STK__MANIFEST_VERSION)
        return stk_error_set(err, STK_UNSUPPORTED, "the manifest has version %lld, wanted %d",
                             (long long)json_integer_value(version), STK__MANIFEST_VERSION);
    STK_TRY(read_name(root, "pattern", PATTERN_BYTES, &m->pattern, err));
    STK_TRY(read_count(root, "rows", &m->rows, err));
    const size_t count = json_array_size(files);
    if (!json_is_array(files) || count > STK__MANIFEST_MAX_FILES)
        return wanted(err, "files", "a list of at most 65537 files");
    m->files = stk__calloc(count + 1, sizeof *m->files);
    if (!m->files)
        return stk__nomem(count * sizeof *m->files, err);
    m->capacity = count + 1;
    for (size_t i = 0; i < count; i++) {
        m->count++; /* one that is half read is cleared too */
        STK_TRY(read_file(json_array_get(files, i), &m->files[i], err));
    }
    return index_names(m, err);
}

/* A parser keeps every value in memory: a hostile text has more of them than any manifest needs. */
static bool has_too_many_values(const char *text, size_t size)
{
    size_t values = 0;
    for (size_t i = 0; i < size; i++)
        values += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
    return values > (size_t)16 * STK__MANIFEST_MAX_FILES;
}

stk_status stk__manifest_parse(const char *text, size_t size, stk__manifest *out, stk_error *err)
{
    json_error_t why;
    *out = (stk__manifest){0};
    if (size > STK__MANIFEST_MAX_BYTES)
        return stk_error_set(err, STK_CORRUPT, "the manifest has %zu bytes, wanted at most %zu", size,
                             STK__MANIFEST_MAX_BYTES);
    if (has_too_many_values(text, size))
        return stk_error_set(err, STK_CORRUPT, "no manifest: it has more values than %d files need",
                             STK__MANIFEST_MAX_FILES);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return stk_error_set(err, STK_CORRUPT, "no manifest: line %d, column %d: %s", why.line, why.column, why.text);
    const stk_status status = read_manifest(root, out, err);
    json_decref(root);
    if (status != STK_OK)
        stk__manifest_clear(out);
    return status;
}

stk_status stk__manifest_load(const char *path, stk__manifest *out, stk__file_digest *out_digest, stk_error *err)
{
    char *text;
    size_t size;
    *out = (stk__manifest){0};
    STK_TRY(stk__read_file(path, STK__MANIFEST_MAX_BYTES, &text, &size, err));
    const stk_status status = stk__manifest_parse(text, size, out, err);
    const XXH128_hash_t hash = XXH3_128bits(text, size);
    stk__free(text);
    if (status == STK_OK && out_digest)
        *out_digest = (stk__file_digest){hash.high64, hash.low64};
    if (status != STK_OK && err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

/* ---- names ---- */

void stk__manifest_path(stk__text *t, const char *pattern)
{
    stk__set_name(t, pattern);
    stk__text_puts(t, STK__MANIFEST_ENDING);
}

bool stk__manifest_is_path(const char *path)
{
    const size_t size = strlen(path), ending = strlen(STK__MANIFEST_ENDING);
    return size > ending && strcmp(path + size - ending, STK__MANIFEST_ENDING) == 0;
}
