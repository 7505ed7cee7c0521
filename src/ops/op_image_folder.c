/* image_folder: read pictures from directories, one for each class, or without classes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/op.h"
#include "formats/extension.h"
#include "formats/folder.h"
#include "formats/data_file.h"

#include "base/banned.h"

typedef struct {
    stk_strings paths;
    const char *extensions;
    stk_strings classes;
    bool labels;
    stk__paths roots;
    stk__folder *folder;
    int image, label, path;
    bool image_needed, label_needed, path_needed;

    /* fingerprint and stamp alone */
    stk__folder_seen seen;
    bool looked;
} folder_state;

static stk_status folder_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    folder_state *s = state;
    const stk_field image = {.name = "image", .dtype = STK_BYTES};
    const stk_field label = {.name = "label", .dtype = STK_INT64};
    const stk_field path = {.name = "path", .dtype = STK_BYTES};
    if (!s->extensions[0])
        return host->fail(err, STK_INVALID, "extensions is empty, wanted a list such as \"jpg;png\"");
    STK_TRY(host->plan_write(plan, &image, &s->image, err));
    if (!s->labels && s->classes.count)
        return host->fail(err, STK_INVALID, "classes and labels=false exclude each other");
    if (s->labels)
        STK_TRY(host->plan_write(plan, &label, &s->label, err));
    return host->plan_write(plan, &path, &s->path, err);
}

static bool on_progress(void *arg, int64_t files)
{
    const stk_call *call = arg;
    return call->host->progress(call, "listing", files, -1);
}

/* Cuts the text into its lines, without empty ones. */
static stk_status split_lines(char *text, const char ***out, size_t *out_count, stk_error *err)
{
    const char **lines = NULL;
    size_t count = 0, capacity = 0;
    for (char *line = text; *line;) {
        const size_t n = strcspn(line, "\r\n");
        char *next = line + n + (line[n] != 0);
        line[n] = 0;
        if (n > 0 && !stk__grow((void **)&lines, &capacity, count + 1, sizeof *lines)) {
            stk__free(lines);
            return stk__nomem((count + 1) * sizeof *lines, err);
        }
        if (n > 0)
            lines[count++] = line;
        line = next;
    }
    *out = lines;
    *out_count = count;
    return STK_OK;
}

/* A list of names is taken as it is; one string is the name of a file with a class in each line. */
static stk_status list_files(const stk_call *call, stk_error *err)
{
    folder_state *s = call->state;
    stk__folder_config config = {.extensions = s->extensions,
                                 .classes = s->classes.items,
                                 .class_count = s->classes.count,
                                 .flat = !s->labels,
                                 .progress = on_progress,
                                 .progress_arg = (void *)(uintptr_t)call};
    char *text = NULL;
    const char **lines = NULL;
    stk_status status = STK_OK;
    if (s->classes.count && !s->classes.listed) {
        size_t size;
        STK_TRY(stk__read_file(s->classes.items[0], (size_t)64 << 20, &text, &size, err));
        status = split_lines(text, &lines, &config.class_count, err);
        config.classes = lines;
        if (status == STK_OK && config.class_count == 0)
            status = call->host->fail(err, STK_INVALID, "classes: the file '%.200s' has no line", s->classes.items[0]);
    }
    if (status == STK_OK)
        status = stk__folder_open(&s->roots, &config, &s->folder, err);
    stk__free(lines);
    stk__free(text);
    return status;
}

static stk_status folder_open(const stk_call *call, stk_error *err)
{
    folder_state *s = call->state;
    s->image_needed = stk_needed(call, s->image);
    s->label_needed = s->labels && stk_needed(call, s->label);
    s->path_needed = stk_needed(call, s->path);
    for (size_t i = 0; i < s->paths.count; i++)
        STK_TRY(stk__paths_glob(&s->roots, s->paths.items[i], err));
    return list_files(call, err);
}

static void folder_close(void *state)
{
    folder_state *s = state;
    stk__folder_close(s->folder);
    stk__paths_clear(&s->roots);
}

static int64_t folder_count(const stk_call *call)
{
    const folder_state *s = call->state;
    return stk__folder_count(s->folder);
}

/* The whole file into memory of the batch. It is looked at after that: bytes of two versions of it go nowhere. */
static stk_status read_image(const stk_call *call, stk_sample *sample, int fd, const stk__file_id *id, stk_error *err)
{
    const folder_state *s = call->state;
    const char *path = sample->origin.file;
    uint8_t *data = stk_bytes_block(call, s->image, (size_t)id->size_bytes, err);
    if (!data)
        return err->status;
    const stk_status status = stk__pread_full(fd, data, (size_t)id->size_bytes, 0, path, err);
    STK_TRY(stk__data_file_unchanged(fd, path, id, err)); /* the better reason, when both failed */
    STK_TRY(status);
    call->host->count_read(call, id->size_bytes);
    stk_set_bytes(call, sample, s->image, data, id->size_bytes, true);
    return STK_OK;
}

static stk_status open_image(const stk_call *call, stk_sample *sample, stk_error *err)
{
    stk__file_id id;
    int fd;
    STK_TRY(stk__data_file_open_regular(sample->origin.file, &fd, &id, err));
    sample->origin.size_bytes = id.size_bytes;
    const stk_status status = read_image(call, sample, fd, &id, err);
    close(fd);
    return status;
}

/* "root/class/name", or "root/name" without one, in scratch; the part behind the root is the field `path`. */
static char *make_path(const stk_call *call, const stk__folder_place *place, size_t *out_root, size_t *out_size,
                       stk_error *err)
{
    const size_t root = strlen(place->root) + 1, directory = place->directory[0] ? strlen(place->directory) + 1 : 0;
    const size_t name = strlen(place->name) + 1;
    char *path = stk_scratch(call, root + directory + name, err);
    if (!path)
        return NULL;
    memcpy(path, place->root, root - 1);
    path[root - 1] = '/';
    if (directory) {
        memcpy(path + root, place->directory, directory - 1);
        path[root + directory - 1] = '/';
    }
    memcpy(path + root + directory, place->name, name);
    *out_root = root;
    *out_size = root + directory + name - 1;
    return path;
}

static stk_status folder_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const folder_state *s = call->state;
    stk__folder_place place;
    size_t root, size;
    stk__folder_find(s->folder, sample->index, &place);
    char *path = make_path(call, &place, &root, &size, err);
    if (!path)
        return err->status;
    sample->origin = (stk_origin){path, -1, -1, -1};
    if (s->label_needed) {
        int64_t *label = stk_out(call, sample, s->label, NULL, err);
        if (!label)
            return err->status;
        *label = place.class_number;
    }
    if (s->path_needed)
        stk_set_bytes(call, sample, s->path, path + root, (int64_t)(size - root), false);
    return s->image_needed ? open_image(call, sample, err) : STK_OK;
}

static int64_t folder_group_count(const stk_call *call)
{
    const folder_state *s = call->state;
    return stk__folder_class_count(s->folder);
}

static int64_t folder_group_first(const stk_call *call, int64_t group)
{
    const folder_state *s = call->state;
    return stk__folder_first(s->folder, group);
}

static const char *folder_class_name(const stk_call *call, int64_t i)
{
    const folder_state *s = call->state;
    return i < stk__folder_class_count(s->folder) ? stk__folder_class(s->folder, i) : NULL;
}

static int64_t folder_memory(const stk_call *call)
{
    const folder_state *s = call->state;
    return (int64_t)stk__folder_memory(s->folder);
}

/* Names alone where no picture is read. The look is kept for the stamp, which is asked next, so that files are met once. */
static uint64_t folder_fingerprint(const stk_call *call)
{
    folder_state *s = call->state;
    if (!s->image_needed)
        return stk__folder_names(s->folder);
    stk__folder_look(s->folder, call->host->open_info(call)->threads, true, &s->seen);
    s->looked = true;
    return s->seen.contents;
}

static uint64_t folder_stamp(const stk_call *call, int64_t *newest_ns)
{
    folder_state *s = call->state;
    if (!s->image_needed)
        return 0;
    if (!s->looked)
        stk__folder_look(s->folder, call->host->open_info(call)->threads, false, &s->seen);
    s->looked = false; /* who asks again wants to know of now */
    *newest_ns = STK_MAX(*newest_ns, s->seen.newest_ns);
    return s->seen.times;
}

static const stk_option folder_options[] = {
    STK_STRINGS_REQUIRED(folder_state, paths, "directories or patterns, each with a directory for every class"),
    STK_STRING(folder_state, extensions, STK__PICTURE_EXTENSIONS, "of the files to take, upper or lower case"),
    {.name = "classes",
     .kind = STK_OPTION_STRINGS,
     .offset = STK_FIELD_OFFSET(folder_state, classes, stk_strings),
     .help =
         "[\"cat\", \"dog\"]: names of classes, numbered in this order; \"names.txt\": a file with one in each line; else all "
         "directories by name"},
    STK_BOOL_OPTION(folder_state, labels, true,
                    "false: all pictures of a directory and those below it, without classes and without `label`"),
    STK_OPTION_END,
};

const stk_op stk__op_image_folder = {
    .abi = STK_OP_ABI,
    .name = "image_folder",
    .group = "source",
    .since = "0.1",
    .summary = "Read picture files from a directory for each class: bytes `image`, int64 `label`, bytes `path`.",
    .example = "image_folder(\"d/pictures\") | shuffle(seed=1) | batch(32)",
    .options = folder_options,
    .state_size = sizeof(folder_state),
    .role = STK_ROLE_SOURCE,
    .flags = STK_OP_LOOKS_LONG,
    .schema = folder_schema,
    .open = folder_open,
    .close = folder_close,
    .process = folder_process,
    .count = folder_count,
    .group_count = folder_group_count,
    .group_first = folder_group_first,
    .memory = folder_memory,
    .fingerprint = folder_fingerprint,
    .class_name = folder_class_name,
    .stamp = folder_stamp,
};
