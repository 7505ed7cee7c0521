/* Names of shards and samples, and numbers as text. */
#include "ops/sink_names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/shard_names.h"
#include "kernels/convert.h"

#include "base/banned.h"

/* The first wildcard of a path; those of a directory that is there already are its owner's business. */
static const char *find_wildcard(const char *path)
{
    for (const char *at = strpbrk(path, "*?[{}"); at; at = strpbrk(at + 1, "*?[{}")) {
        const char *slash = strchr(at, '/');
        char above[PATH_MAX];
        if (!slash || (size_t)(slash - path) >= sizeof above)
            return at;
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        if (access(above, F_OK) != 0)
            return at;
        at = slash;
    }
    return NULL;
}

stk_status stk__sink_path_check(const stk_host *host, const char *path, stk_error *err)
{
    const size_t scheme = stk__path_scheme(path);
    if (scheme)
        return host->fail(err, STK_INVALID, "path '%.200s': remote files (%.*s) are not written; write to a directory here, "
                          "then copy", path, (int)scheme, path);
    if (path[0] == '~' && (path[1] == '/' || !path[1]))
        return host->fail(err, STK_INVALID, "path '%.200s': wanted the home directory written out, ~ is the shell's", path);
    const char *wild = find_wildcard(path);
    if (wild)
        return host->fail(err, STK_INVALID,
                          "path '%.200s' has the wildcard '%c': whoever reads by such a pattern later would get this one file; "
                          "wanted a name without * ? [ { }",
                          path, *wild);
    return STK_OK;
}

stk_status stk__shard_path_check(const stk_host *host, const char *pattern, int64_t shards, stk_error *err)
{
    STK_TRY(stk__sink_path_check(host, pattern, err));
    stk__text t = STK__TEXT_INIT;
    int numbers;
    const bool ok = stk__shard_format(&t, pattern, 0, shards, &numbers);
    stk__text_reset(&t);
    int in_name = 0;
    if (ok)
        stk__shard_format(&t, stk__base_name(pattern), 0, shards, &in_name);
    stk__text_clear(&t);
    if (!ok)
        return host->fail(err, STK_INVALID, "path '%s' must have %%d or %%05d for the number of the shard", pattern);
    if (!*stk__base_name(pattern))
        return host->fail(err, STK_INVALID, "path '%s' ends in a slash, wanted the name of a file", pattern);
    if (in_name != numbers)
        return host->fail(err, STK_INVALID,
                          "path '%s' has a number in the name of a directory; files of a set lie in one, so wanted it in their "
                          "own names",
                          pattern);
    if (shards > 1 && numbers == 0)
        return host->fail(err, STK_INVALID, "path '%s' needs %%05d for the numbers of %lld shards", pattern,
                          (long long)shards);
    return STK_OK;
}

const char *stk__picture_extension(stk_bytes data)
{
    static const struct {
        const char *extension, *first;
        int64_t size;
    } kinds[] = {
        {"jpg", "\xff\xd8\xff", 3}, {"png", "\x89PNG\r\n\x1a\n", 8}, {"gif", "GIF8", 4}, {"bmp", "BM", 2},
        {"webp", "RIFF", 4},
    };
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        if (data.size < kinds[i].size || memcmp(data.data, kinds[i].first, (size_t)kinds[i].size) != 0)
            continue;
        if (strcmp(kinds[i].extension, "webp") == 0 && (data.size < 12 || memcmp(data.data + 8, "WEBP", 4) != 0))
            continue;
        return kinds[i].extension;
    }
    return NULL;
}

const stk_column *stk__batch_column(const stk_batch *batch, const char *name)
{
    for (int32_t i = 0; i < batch->column_count; i++)
        if (strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

void stk__text_element(stk__text *t, const stk_column *column, int64_t row)
{
    const stk_dtype dtype = column->dtype;
    const char *at = (const char *)column->data + (size_t)row * stk_dtype_size(dtype);
    if (dtype == STK_BYTES) {
        const stk_bytes *bytes = (const void *)at;
        stk__text_write(t, bytes->data, (size_t)bytes->size);
    } else if (dtype == STK_FLOAT64) {
        double x;
        memcpy(&x, at, sizeof x);
        stk__text_printf(t, "%.17g", x);
    } else if (dtype == STK_FLOAT32 || dtype == STK_FLOAT16 || dtype == STK_BFLOAT16) {
        float x;
        stk__convert(&x, STK_FLOAT32, at, dtype, 1);
        stk__text_printf(t, "%.9g", (double)x);
    } else if (dtype == STK_UINT64) {
        uint64_t x;
        memcpy(&x, at, sizeof x);
        stk__text_printf(t, "%llu", (unsigned long long)x);
    } else {
        int64_t x;
        stk__convert(&x, STK_INT64, at, dtype, 1);
        stk__text_printf(t, "%lld", (long long)x);
    }
}

stk_status stk__check_name(const char *name, size_t size, const char *what, stk_error *err)
{
    bool good = size > 0, start = true; /* of a part between slashes */
    for (size_t i = 0; i < size && good; i++) {
        const unsigned char c = (unsigned char)name[i];
        good = c >= 0x20 && c != 0x7f && !(start && (c == '/' || c == '.'));
        start = c == '/';
    }
    if (good && !start)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "%s is '%.*s', which cannot be the name of a file", what,
                         (int)STK_MIN(size, (size_t)200), name);
}
