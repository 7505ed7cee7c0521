/* The formats that can be read, how they are told apart, and the opening of files. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"
#include "trace/foreign.h"
#include "trace/reader.h"

#include "base/banned.h"

/* A reader that is this sure of a text is asked before the words of other formats are. */
enum { DETECT_BYTES = 64 * 1024, SURE = 80 };

const stk__reader *const stk__readers[] = {
    &stk__reader_perfetto,
    &stk__reader_xplane,
    &stk__reader_pstats,
    &stk__reader_speedscope,
    &stk__reader_chrome,
    &stk__reader_flamegraph,
    &stk__reader_perf_script,
    &stk__reader_collapsed,
    &stk__reader_snapshot,
    &stk__reader_nsys,
    NULL,
};

const stk__reader *stk__reader_find(const char *name)
{
    for (size_t i = 0; stk__readers[i]; i++) {
        if (strcmp(stk__readers[i]->name, name) == 0)
            return stk__readers[i];
    }
    return NULL;
}

bool stk__bytes_contain(const uint8_t *data, size_t size, const char *text)
{
    const size_t length = strlen(text);
    for (size_t at = 0; at + length <= size; at++) {
        const uint8_t *hit = memchr(data + at, text[0], size - at - length + 1);
        if (!hit)
            return false;
        at = (size_t)(hit - data);
        if (memcmp(hit, text, length) == 0)
            return true;
    }
    return false;
}

size_t stk__bytes_start(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size && (data[at] <= ' ' || data[at] == 0xef || data[at] == 0xbb || data[at] == 0xbf))
        at++;
    return at;
}

static const stk__reader *detect(const uint8_t *data, size_t size, bool whole, int *out_score)
{
    const stk__reader *best = NULL;
    int best_score = 0;
    for (size_t i = 0; stk__readers[i]; i++) {
        const int score = stk__readers[i]->detect(data, size, whole);
        if (score > best_score) {
            best = stk__readers[i];
            best_score = score;
        }
    }
    *out_score = best_score;
    return best;
}

const stk__reader *stk__reader_detect(const uint8_t *data, size_t size, bool whole)
{
    int score;
    return detect(data, size, whole, &score);
}

static void list_formats(char *out, size_t size)
{
    stk__text text;
    stk__text_fixed(&text, out, size);
    for (size_t i = 0; stk__readers[i]; i++)
        stk__text_printf(&text, "%s%s", i ? ", " : "", stk__readers[i]->name);
}

static stk_status find_reader(stk__input *in, const char *format, const stk__reader **out, stk_error *err)
{
    char names[256];
    list_formats(names, sizeof names);
    if (format) {
        *out = stk__reader_find(format);
        return *out ? STK_OK : stk_error_set(err, STK_INVALID, "unknown format '%s', wanted one of %s", format, names);
    }
    size_t size;
    const uint8_t *data = stk__input_peek(in, DETECT_BYTES, &size);
    const bool whole = size < DETECT_BYTES;
    const size_t seen = STK_MIN(size, (size_t)DETECT_BYTES);
    int score;
    const stk__reader *found = detect(data, seen, whole, &score);
    const char *foreign = stk__foreign_magic(data, seen);
    if (!foreign && score < SURE)
        foreign = stk__foreign_text(data, seen);
    if (foreign)
        return stk_error_set(err, STK_UNSUPPORTED, "not a trace that can be read: %s", foreign);
    if (found) {
        *out = found;
        return STK_OK;
    }
    STK_TRY(stk__input_status(in, err));
    if (size == 0)
        return stk_error_set(err, STK_CORRUPT, "the file is empty");
    return stk_error_set(err, STK_CORRUPT, "not a trace that can be read: its content is none of %s", names);
}

static void set_place(stk_error *err, const stk__input *in)
{
    if (err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", stk__input_path(in));
}

/* A failure of the input is a note when something was read before it, as damage in the format is. */
static stk_status note_input(stk__builder *b, stk__input *in, stk_error *err)
{
    stk_error failure;
    stk_error_clear(&failure);
    const stk_status status = stk__input_status(in, &failure);
    if (status == STK_CORRUPT) {
        stk__builder_note(b, STK__REASON_COMPRESSION, stk__input_offset(in));
        return STK_OK;
    }
    if (status != STK_OK && err)
        *err = failure;
    return status;
}

stk_status stk__trace_read(stk__builder *b, stk__input *in, const char *format, stk_error *err)
{
    const stk__reader *reader;
    stk_status status = find_reader(in, format, &reader, err);
    if (status == STK_OK) {
        stk__builder_start_file(b, stk__input_path(in), reader->name);
        status = stk__builder_status(b, err);
    }
    if (status == STK_OK)
        status = reader->read(b, in, err);
    if (status == STK_OK)
        status = note_input(b, in, err);
    if (status == STK_OK)
        status = stk__builder_status(b, err);
    if (status != STK_OK) {
        set_place(err, in);
        return status;
    }
    const stk__string compression = stk__builder_str(b, stk__input_compression(in));
    stk__trace_file *file = stk__builder_file(b);
    file->compression = compression;
    file->size_bytes = stk__input_bytes_total(in);
    file->text_bytes = (uint64_t)stk__input_offset(in);
    return STK_OK;
}

stk_status stk__reader_progress(stk__builder *b, stk__input *in, stk_error *err)
{
    const stk__trace_options *o = &b->options;
    if (o->progress &&
        !o->progress(o->progress_arg, stk__input_path(in), stk__input_bytes_read(in), stk__input_bytes_total(in)))
        return stk_error_set(err, STK_CANCELLED, "reading was stopped");
    return stk__builder_status(b, err);
}

typedef struct waiting {
    const stk__trace_options *options;
    const char *path;
} waiting;

/* While a pipe gives nothing, the user may still stop. */
static bool ask_to_go_on(void *arg)
{
    const waiting *w = arg;
    return !w->options->progress || w->options->progress(w->options->progress_arg, w->path, 0, 0);
}

static stk_status read_path(stk__builder *b, const char *path, const stk__trace_options *options, stk_error *err)
{
    stk__input *in;
    waiting w = {options, path};
    STK_TRY(stk__input_open_watched(path, ask_to_go_on, &w, &in, err));
    const stk_status status = stk__trace_read(b, in, options->format, err);
    stk__input_close(in);
    return status;
}

/* ---- files without anything in them ---- */

static size_t rows_of(const stk__trace *t)
{
    return t->slices.count + t->counters.count + t->points.count + t->samples.count + t->function_count +
           t->total_count;
}

/* The reason that most of what a file had was left out for; NULL: it had nothing. */
static const stk__trace_note *main_loss(const stk__trace *t, uint32_t file)
{
    const stk__trace_note *most = NULL;
    for (size_t i = 0; i < t->note_count; i++) {
        const stk__trace_note *n = &t->notes[i];
        if (n->file == file && stk__trace_reason_loses((stk__trace_reason)n->reason) &&
            (!most || n->count > most->count))
            most = n;
    }
    return most;
}

/* A trace without events answers no question, so it is an error, which names the first file. */
static stk_status check_rows(const stk__trace *t, stk_error *err)
{
    if (!t->file_count || rows_of(t))
        return STK_OK;
    const stk__trace_note *loss = main_loss(t, 0);
    const char *more = t->file_count > 1 ? "; nor of the other files" : "";
    stk_status status;
    if (loss && loss->offset >= 0)
        status = stk_error_set(err, STK_CORRUPT, "no event of it can be used: %s (%llu, first at byte %lld)%s",
                               stk__trace_reason_text((stk__trace_reason)loss->reason), (unsigned long long)loss->count,
                               (long long)loss->offset, more);
    else if (loss)
        status = stk_error_set(err, STK_CORRUPT, "no event of it can be used: %s (%llu)%s",
                               stk__trace_reason_text((stk__trace_reason)loss->reason), (unsigned long long)loss->count,
                               more);
    else
        status = stk_error_set(err, STK_CORRUPT, "no events in it%s", more);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", stk__trace_str(t, t->files[0].path));
    return status;
}

/* Reads one of several files; one that adds nothing is noted. */
static stk_status read_noting(stk__builder *b, const char *path, const stk__trace_options *options, stk_error *err)
{
    const size_t before = rows_of(b->trace);
    STK_TRY(read_path(b, path, options, err));
    if (rows_of(b->trace) == before)
        stk__builder_note(b, STK__REASON_NO_EVENTS, -1);
    return STK_OK;
}

static stk_status read_files(const char *const *paths, size_t count, const stk__trace_options *options,
                             stk__trace **out, stk_error *err)
{
    stk__builder *b;
    stk__trace *t;
    const uint64_t failures = stk__alloc_failures();
    STK_TRY(stk__builder_new(options, &b, err));
    for (size_t i = 0; i < count; i++) {
        const stk_status status = read_noting(b, paths[i], options, err);
        if (status != STK_OK) {
            stk__builder_free(b);
            return status;
        }
    }
    STK_TRY(stk__builder_finish(b, &t, err));
    stk_status status = check_rows(t, err);
    if (status == STK_OK)
        status = stk__alloc_check(failures, err);
    if (status == STK_OK)
        *out = t;
    else
        stk__trace_free(t);
    return status;
}

bool stk__join_find(const char *name, stk__join_processes *out)
{
    static const char *const names[] = {
        [STK__JOIN_AUTO] = "auto", [STK__JOIN_ALWAYS] = "always", [STK__JOIN_NEVER] = "never"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (strcmp(names[i], name ? name : "auto") == 0) {
            *out = (stk__join_processes)i;
            return true;
        }
    }
    return false;
}

stk_status stk__trace_open(const char *const *paths, size_t count, const stk__trace_options *options, stk__trace **out,
                           stk_error *err)
{
    static const stk__trace_options defaults = {0};
    if (!options)
        options = &defaults;
    char *cached = stk__trace_cache_path(paths, count, options);
    stk__trace *t = cached ? stk__trace_cache_load(cached, options->memory_bytes) : NULL;
    stk_status status = STK_OK;
    if (!t) {
        status = read_files(paths, count, options, &t, err);
        if (status == STK_OK && cached)
            stk__trace_cache_save(t, cached, options->cache_bytes);
    }
    stk__free(cached);
    if (status == STK_OK)
        *out = t;
    return status;
}
