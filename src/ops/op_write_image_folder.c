/* write_image_folder: write pictures as files, in a directory for each class. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ops/sink_names.h"

#include "base/banned.h"

typedef struct {
    const char *path;
    const char *image, *label, *key;
    const char *ext; /* NULL: told by the picture itself */
    stk_strings classes;
    int64_t digits;
    stk__new_dir dir; /* files are written to its `temp` until all of them are there */
    int64_t rows;
    stk__text file_name;
} write_state;

/* ---- planning ---- */

static stk_status read_field(stk_plan *plan, const stk_host *host, const char *name, bool bytes, const char *wanted,
                             stk_error *err)
{
    stk_field field;
    int id;
    STK_TRY(host->plan_read(plan, name, &id, &field, err));
    if (field.ndim == 0 && (!bytes || field.dtype == STK_BYTES))
        return STK_OK;
    return host->fail(err, STK_INVALID, "field '%s' is %s of %s, wanted %s", name,
                      field.ndim ? "an array" : "a single value", stk_dtype_name(field.dtype), wanted);
}

static stk_status write_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    write_state *s = state;
    const size_t n = s->ext ? strlen(s->ext) : 1;
    if (!s->path[0])
        return host->fail(err, STK_INVALID, "path is empty, wanted the name of a directory");
    STK_TRY(stk__sink_path_check(host, s->path, err));
    if (n == 0 || (s->ext && (strchr(s->ext, '/') || stk__check_name(s->ext, n, "", NULL) != STK_OK)))
        return host->fail(err, STK_INVALID, "ext is '%s', wanted one such as \"png\"", s->ext);
    STK_TRY(
        read_field(plan, host, s->image, true, "the bytes of a picture; encode_jpeg and encode_png make them", err));
    STK_TRY(read_field(plan, host, s->label, false, "bytes or a number", err));
    if (s->key)
        STK_TRY(read_field(plan, host, s->key, false, "bytes or a number", err));
    for (int i = host->plan_field_count(plan) - 1; i >= 0; i--) {
        stk_field field;
        host->plan_field(plan, i, &field);
        if (strcmp(field.name, s->image) != 0 && strcmp(field.name, s->label) != 0 &&
            (!s->key || strcmp(field.name, s->key) != 0))
            STK_TRY(host->plan_remove(plan, field.name, err));
    }
    return STK_OK;
}

/* ---- the directory ---- */

static stk_status io_error(const char *path, const char *what, int code, stk_error *err)
{
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

/* A directory may stand there already as long as nothing is in it. */
static stk_status check_target(const char *path, stk_error *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? STK_OK : io_error(path, "cannot write the directory", errno, err);
    const struct dirent *entry;
    stk_status status = STK_OK;
    while (status == STK_OK && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = stk_error_set(err, STK_IO, "is there already and has '%.200s' in it, wanted a new or empty directory",
                               entry->d_name);
        if (err)
            snprintf(err->file, sizeof err->file, "%s", path);
    }
    closedir(dir);
    return status;
}

static stk_status write_open(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    STK_TRY(check_target(s->path, err));
    return stk__new_dir_open(&s->dir, s->path, err);
}

/* Removes what an unfinished run has written. */
static void write_close(void *state)
{
    write_state *s = state;
    stk__new_dir_abort(&s->dir);
    stk__text_clear(&s->file_name);
}

/* ---- writing ---- */

/* Numbers get zeros before them, so that sorted by name they keep their order. */
static stk_status put_class(write_state *s, const stk_column *label, int64_t row, stk_error *err)
{
    char what[64];
    stk__text t = STK__TEXT_INIT;
    snprintf(what, sizeof what, "the label of sample %lld", (long long)s->rows);
    stk__text_element(&t, label, row);
    stk_status status = t.failed ? stk__nomem(32, err) : STK_OK;
    int64_t number;
    if (status == STK_OK && label->dtype == STK_BYTES) {
        status = stk__check_name(t.data ? t.data : "", t.length, what, err);
        stk__text_write(&s->file_name, t.data, t.length);
    } else if (status == STK_OK && (!stk__parse_int64(t.data, &number) || number < 0 ||
                                    (s->classes.count && (uint64_t)number >= s->classes.count))) {
        status = stk_error_set(err, STK_INVALID, "%s is %s, wanted the number of a class%s", what, t.data,
                               s->classes.count ? " in the list" : "");
    } else if (status == STK_OK && s->classes.count) {
        const char *name = s->classes.items[number];
        status = stk__check_name(name, strlen(name), what, err);
        stk__text_puts(&s->file_name, name);
    } else if (status == STK_OK) {
        stk__text_printf(&s->file_name, "%0*lld", (int)s->digits, (long long)number);
    }
    stk__text_clear(&t);
    return status;
}

static stk_status put_key(write_state *s, const stk_column *key, int64_t row, stk_error *err)
{
    if (!key) {
        stk__text_printf(&s->file_name, "%09lld", (long long)s->rows);
        return STK_OK;
    }
    char what[64];
    const size_t from = s->file_name.length;
    snprintf(what, sizeof what, "the key of sample %lld", (long long)s->rows);
    stk__text_element(&s->file_name, key, row);
    if (s->file_name.failed)
        return stk__nomem(from, err);
    return stk__check_name(s->file_name.data + from, s->file_name.length - from, what, err);
}

/* Directories are made when the first file goes there. */
static stk_status create(const char *path, int *out_fd, stk_error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    *out_fd = open(path, flags, 0666);
    if (*out_fd < 0 && errno == ENOENT) {
        STK_TRY(stk__make_parents(path, err));
        *out_fd = open(path, flags, 0666);
    }
    if (*out_fd >= 0)
        return STK_OK;
    return io_error(path, errno == EEXIST ? "two samples get this name" : "cannot create", errno, err);
}

static stk_status write_file(const char *path, stk_bytes data, stk_error *err)
{
    int fd;
    STK_TRY(create(path, &fd, err));
    int64_t done = 0;
    int code = 0;
    while (done < data.size && !code) {
        const ssize_t n = write(fd, data.data + done, (size_t)(data.size - done));
        if (n > 0)
            done += n;
        else if (errno != EINTR)
            code = errno;
    }
    if (close(fd) != 0 && !code)
        code = errno;
    return code ? io_error(path, "cannot write", code, err) : STK_OK;
}

static stk_status write_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    write_state *s = call->state;
    const stk_column *image = stk__batch_column(batch, s->image), *label = stk__batch_column(batch, s->label);
    const stk_column *key = s->key ? stk__batch_column(batch, s->key) : NULL;
    for (int64_t row = 0; row < batch->rows; row++, s->rows++) {
        const stk_bytes data = ((const stk_bytes *)image->data)[row];
        const char *extension = s->ext ? s->ext : stk__picture_extension(data);
        if (!extension)
            return stk_error_set(err, STK_INVALID,
                                 "field '%s' of sample %lld begins like no picture; say what it is with ext=\"jpg\"",
                                 s->image, (long long)s->rows);
        stk__text_reset(&s->file_name);
        stk__text_printf(&s->file_name, "%s/", s->dir.temp);
        STK_TRY(put_class(s, label, row, err));
        stk__text_putc(&s->file_name, '/');
        STK_TRY(put_key(s, key, row, err));
        stk__text_printf(&s->file_name, ".%s", extension);
        if (s->file_name.failed)
            return stk__nomem(s->file_name.length, err);
        STK_TRY(write_file(s->file_name.data, data, err));
    }
    return STK_OK;
}

static stk_status write_finish(const stk_call *call, stk_error *err)
{
    write_state *s = call->state;
    STK_TRY(check_target(s->path, err));
    return stk__new_dir_commit(&s->dir, err);
}

static const stk_option write_options[] = {
    STK_STRING_REQUIRED(write_state, path, "directory to make"),
    {.name = "image",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(write_state, image, const char *),
     .fallback = {.text = "image"},
     .help = "field with the pictures, as the bytes of files"},
    {.name = "label",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(write_state, label, const char *),
     .fallback = {.text = "label"},
     .help = "field with the class: its number, or its name as bytes"},
    {.name = "key",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(write_state, key, const char *),
     .help = "field with the names of files, without extension; without one, 000000000 and so on"},
    STK_STRING(write_state, ext, NULL, "of the files; without it, what each picture's first bytes say"),
    {.name = "classes",
     .kind = STK_OPTION_STRINGS,
     .offset = STK_FIELD_OFFSET(write_state, classes, stk_strings),
     .help = "list of class names: directories are called so, not by number"},
    STK_INT(write_state, digits, 4, 1, 18, "of directories that are called by number, with zeros before it"),
    STK_OPTION_END,
};

const stk_op stk__op_write_image_folder = {
    .abi = STK_OP_ABI,
    .name = "write_image_folder",
    .group = "sink",
    .since = "0.1",
    .summary = "Write pictures as files in a directory for each class; the whole appears at the end or not at all.",
    .example = "image_folder(\"d/pictures\") | write_image_folder(\"out/pictures\")",
    .options = write_options,
    .state_size = sizeof(write_state),
    .role = STK_ROLE_SINK,
    .schema = write_schema,
    .open = write_open,
    .close = write_close,
    .consume = write_consume,
    .finish = write_finish,
};
