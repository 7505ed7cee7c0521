/* Reads a TFRecord, tar or text file for `stoker inspect`: by its index where that is possible, else from front to back. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "formats/tar.h"
#include "formats/tfrecord.h"
#include "inspect.h"

#include "base/banned.h"

/* A larger record is no protobuf message, and its length is more likely to be nonsense. */
static const int64_t record_max = (int64_t)2 << 30;

static void add_bad(inspect_file *file, const inspect_how *how, const inspect_bad *bad)
{
    file->bad_count++;
    if (how->bad_limit && (int64_t)file->bad_kept >= how->bad_limit)
        return;
    if (stk__grow((void **)&file->bad, &file->bad_capacity, file->bad_kept + 1, sizeof *file->bad))
        file->bad[file->bad_kept++] = *bad;
}

/* A record's place in messages is where its header starts. */
static void add_bad_error(inspect_file *file, const inspect_how *how, const stk_error *err, int64_t record,
                          int64_t offset, int64_t size)
{
    inspect_bad bad = {.record = record, .offset = offset, .size_bytes = size};
    snprintf(bad.message, sizeof bad.message, "%.255s", err->message);
    add_bad(file, how, &bad);
}

static void add_record(inspect_file *file, int64_t size)
{
    file->min_bytes = file->records ? STK_MIN(file->min_bytes, size) : size;
    file->max_bytes = STK_MAX(file->max_bytes, size);
    file->total_bytes += size;
    file->records++;
}

static bool wants_features(const inspect_file *file, const inspect_how *how)
{
    const int64_t looked = file->framing == STK__FRAMING_TAR ? file->members.samples : file->features.records;
    return file->framing != STK__FRAMING_LINES && (how->look == 0 || looked < how->look);
}

static void show_progress(const char *path, const char *what, int64_t done, int64_t total, int64_t *last_ns)
{
    const int64_t now = stk__now_ns();
    if (!cli_live_possible() || now - *last_ns < 250000000)
        return;
    *last_ns = now;
    char line[256];
    if (total > 0)
        snprintf(line, sizeof line, "%s: %s %.0f %%", path, what, 100.0 * (double)done / (double)total);
    else
        snprintf(line, sizeof line, "%s: %s %lld records", path, what, (long long)done);
    cli_live(line);
}

/* Looks at what is in a record. What is wrong with a sample is counted. */
static stk_status look_at(inspect_file *file, const inspect_how *how, stk_bytes record, int64_t number, int64_t offset,
                          stk_error *err)
{
    if (file->framing == STK__FRAMING_TFRECORD)
        return cli_features_add(&file->features, record, err);
    stk_error found;
    stk_error_clear(&found);
    const stk_status status = cli_members_add(&file->members, record, &found);
    if (status == STK_CORRUPT) {
        file->checked--;
        add_bad_error(file, how, &found, number, offset, record.size);
        return STK_OK;
    }
    if (status != STK_OK && err)
        *err = found;
    return status;
}

/* ---- by index ---- */

typedef struct buffer {
    uint8_t *data;
    size_t capacity;
} buffer;

typedef struct index_progress {
    const char *path;
    int64_t last_ns;
} index_progress;

static bool on_index_progress(void *arg, int64_t done, int64_t total)
{
    index_progress *p = arg;
    show_progress(p->path, "indexing", done, total, &p->last_ns);
    return true;
}

/* Reads and checks one record; what is wrong with it is counted. Fails on failures to read and of memory. */
static stk_status read_record(int fd, inspect_file *file, const inspect_how *how, const stk__record_place *place,
                              buffer *b, stk_error *err)
{
    stk_error found;
    stk_error_clear(&found);
    const bool framed = file->framing == STK__FRAMING_TFRECORD;
    const int64_t start = place->offset - (framed ? STK__TFRECORD_HEADER : 0);
    const size_t footer = framed ? STK__TFRECORD_FOOTER : 0;
    if (place->size_bytes > record_max) {
        stk_error_set(&found, STK_UNSUPPORTED, "record has %lld bytes; records over 2 GiB are not checked",
                      (long long)place->size_bytes);
        add_bad_error(file, how, &found, place->record, start, place->size_bytes);
        return STK_OK;
    }
    const size_t size = (size_t)place->size_bytes;
    if (!stk__grow((void **)&b->data, &b->capacity, size + footer, 1))
        return stk__nomem(size, err);
    STK_TRY(stk__pread_full(fd, b->data, size + footer, place->offset, file->path, err));
    if (framed && stk__tfrecord_data(b->data, size, b->data + size, &found) != STK_OK) {
        add_bad_error(file, how, &found, place->record, start, place->size_bytes);
        return STK_OK;
    }
    file->checked++;
    if (wants_features(file, how))
        return look_at(file, how, (stk_bytes){b->data, place->size_bytes}, place->record, start, err);
    return STK_OK;
}

static stk_status read_indexed(stk__records *records, inspect_file *file, const inspect_how *how, stk_error *err)
{
    int fd;
    STK_TRY(stk__records_acquire(records, 0, &fd, err));
    buffer b = {0};
    stk_status status = STK_OK;
    int64_t last_ns = stk__now_ns();
    const int64_t count = stk__records_count(records);
    for (int64_t i = 0; i < count && status == STK_OK; i++) {
        stk__record_place place;
        stk__records_find(records, i, &place);
        add_record(file, place.size_bytes);
        if (how->verify || wants_features(file, how))
            status = read_record(fd, file, how, &place, &b, err);
        show_progress(file->path, "reading", i, count, &last_ns);
    }
    stk__free(b.data);
    stk__records_release(records, 0);
    return status;
}

static stk_status inspect_indexed(inspect_file *file, const inspect_how *how, stk_error *err)
{
    index_progress progress = {.path = file->path, .last_ns = stk__now_ns()};
    const stk__records_config config = {
        .framing = file->framing, .threads = 1, .progress = on_index_progress, .progress_arg = &progress};
    char *paths_items[] = {(char *)file->path};
    const stk__paths paths = {.items = paths_items, .count = 1, .capacity = 1};
    stk__records *records;
    STK_TRY(stk__records_open(&paths, &config, &records, err));
    for (size_t i = 0; i < stk__records_damage_count(records); i++) {
        const stk__damage *d = stk__records_damage(records, i);
        inspect_bad bad = {.record = d->record, .offset = d->offset, .size_bytes = d->size_bytes};
        snprintf(bad.message, sizeof bad.message, "%s", d->message);
        add_bad(file, how, &bad);
    }
    int32_t first;
    file->stray = stk__records_stray(records, &first);
    const stk_status status = read_indexed(records, file, how, err);
    stk__records_close(records);
    return status;
}

/* ---- from front to back ---- */

static stk_status inspect_stream(inspect_file *file, const inspect_how *how, stk_error *err)
{
    stk__record_stream *stream;
    STK_TRY(stk__record_stream_open(file->path, file->framing, true, &stream, err));
    stk_status status = STK_OK;
    int64_t last_ns = stk__now_ns();
    while (status == STK_OK) {
        stk_bytes record;
        int64_t offset = -1;
        bool again = false;
        stk_error found;
        stk_error_clear(&found);
        const stk_status read = stk__record_stream_next(stream, &record, &offset, &again, &found);
        if (read == STK_END)
            break;
        if (read == STK_CORRUPT) {
            add_bad_error(file, how, &found, found.record >= 0 ? found.record : file->records,
                          found.offset >= 0 ? found.offset : offset, -1);
            if (again)
                file->records++;
        } else if (read != STK_OK) {
            status = read;
            if (err)
                *err = found;
        } else {
            add_record(file, record.size);
            file->checked++;
            if (wants_features(file, how))
                status = look_at(file, how, record, file->records - 1, offset, err);
        }
        show_progress(file->path, "reading", file->records, -1, &last_ns);
    }
    file->stray = stk__record_stream_stray(stream);
    stk__record_stream_close(stream);
    return status;
}

/* ---- either ---- */

/* A file that can be read at any place; pipes and the like cannot. */
static bool is_regular(const char *path, int64_t *out_size)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISREG(st.st_mode))
        return false;
    *out_size = st.st_size;
    return true;
}

static bool ends_with(const char *path, const char *const *endings, size_t count)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < count; i++) {
        const size_t m = strlen(endings[i]);
        if (n > m && strcmp(path + n - m, endings[i]) == 0)
            return true;
    }
    return false;
}

/* By the name alone: a page of HTML in place of a TFRecord file must not pass for a good text. */
static bool is_text(const char *path)
{
    static const char *const endings[] = {".txt", ".text", ".txt.gz", ".csv", ".tsv", ".jsonl", ".ndjson", ".jsonl.gz"};
    return ends_with(path, endings, STK_COUNT(endings));
}

/* Archives are known by their first header, or by their name when they are compressed. */
static bool is_tar(const char *path, int64_t size)
{
    static const char *const endings[] = {".tar", ".tar.gz", ".tgz"};
    uint8_t first[STK__TAR_BLOCK];
    int fd;
    if (ends_with(path, endings, STK_COUNT(endings)))
        return true;
    if (size < STK__TAR_BLOCK || stk__file_open(path, &fd, NULL, NULL) != STK_OK)
        return false;
    const bool found = stk__pread_full(fd, first, sizeof first, 0, path, NULL) == STK_OK && stk__tar_is_header(first);
    close(fd);
    return found;
}

stk_status cli_inspect_file(const char *path, const inspect_how *how, inspect_file *out, stk_error *err)
{
    static const char *const names[] = {[STK__PLAIN] = "none", [STK__GZIP] = "gzip", [STK__ZLIB] = "zlib"};
    *out = (inspect_file){.path = path, .file_bytes = -1, .compression = "unknown"};
    stk__compression compression = STK__GZIP;
    if (is_regular(path, &out->file_bytes)) {
        out->framing = is_tar(path, out->file_bytes) ? STK__FRAMING_TAR
                       : is_text(path)               ? STK__FRAMING_LINES
                                                     : STK__FRAMING_TFRECORD;
        STK_TRY(stk__compression_of(path, out->framing, &compression, err));
        out->compression = names[compression];
    }
    STK_TRY(compression == STK__PLAIN ? inspect_indexed(out, how, err) : inspect_stream(out, how, err));
    cli_features_sort(&out->features);
    cli_members_sort(&out->members);
    return STK_OK;
}

void cli_inspect_clear(inspect_file *file)
{
    cli_features_clear(&file->features);
    cli_members_clear(&file->members);
    stk__free(file->bad);
    stk__free(file->manifest);
    stk__text_clear(&file->set_trouble);
    *file = (inspect_file){0};
}
