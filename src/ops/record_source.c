/* Opening of record files, and reading of them by number. */
#include "ops/record_source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "formats/file_look.h"
#include "formats/manifest.h"
#include "formats/record_list.h"
#include "formats/schema.h"
#include "formats/set.h"
#include "formats/tfrecord.h"

#include "base/banned.h"

/* Consecutive records are read together up to this size. */
#define RUN_BYTES ((int64_t)1 << 20)
/* Reads that take longer than this do not come from memory: then the kernel is told of all of them before the first. */
#define SLOW_READ_NS 30000

/* What gather found out about one sample, for process. */
typedef struct slot {
    const stk_sample *sample;
    stk__record_place place;
    const uint8_t *data; /* NULL: could not be read with its run */
    uint32_t run_end;    /* the first one of a run: where the next run starts */
} slot;

/* The last run of a file among those of a tile. File -1: an empty place. */
typedef struct last_run {
    int32_t file;
    uint32_t start;
} last_run;

typedef struct source_worker {
    slot *slots;
    size_t count, capacity, next;
    last_run *lasts; /* a hash table by file, at least twice as large as there are slots; last_count 0: not needed */
    size_t last_count, last_capacity;
    int64_t start_ns; /* when the reading of this tile began */
    int64_t read_ns;  /* of one run, a running mean */
} source_worker;

/* ---- opening ---- */

static stk_status lose_file(stk__record_source *s, const stk_error *error, stk_error *err)
{
    if (!stk__grow((void **)&s->lost, &s->lost_capacity, s->lost_count + 1, sizeof *s->lost))
        return stk__nomem(sizeof *s->lost, err);
    s->lost[s->lost_count++] = *error;
    for (size_t i = 0; i < s->paths.count; i++) {
        if (strncmp(s->paths.items[i], error->file, sizeof error->file - 1) != 0) /* errors cut long names off */
            continue;
        stk__free(s->paths.items[i]);
        memmove(s->paths.items + i, s->paths.items + i + 1, sizeof(char *) * (s->paths.count - i - 1));
        s->paths.count--;
        return STK_OK;
    }
    if (err)
        *err = *error;
    return error->status; /* an error about no file of the set: no use in trying again */
}

/* Files that cannot even be opened become damage, so that the run's policy decides about them. */
static stk_status look_at_files(stk__record_source *s, bool *out_compressed, stk_error *err)
{
    *out_compressed = false;
    for (size_t i = 0; i < s->paths.count;) {
        stk__compression compression;
        stk_error error;
        stk_error_clear(&error);
        const stk_status status = strcmp(s->paths.items[i], "-") == 0
                                      ? STK_UNSUPPORTED
                                      : stk__compression_of(s->paths.items[i], s->framing, &compression, &error);
        if (status == STK_UNSUPPORTED) { /* standard input, a pipe */
            *out_compressed = true;
        } else if (status != STK_OK) {
            snprintf(error.file, sizeof error.file, "%s", s->paths.items[i]);
            if (status != STK_IO && status != STK_CORRUPT) { /* no fault of the file's */
                if (err)
                    *err = error;
                return status;
            }
            STK_TRY(lose_file(s, &error, err));
            continue;
        } else if (compression != STK__PLAIN) {
            *out_compressed = true;
        }
        i++;
    }
    return STK_OK;
}

typedef struct progress_arg {
    const stk_call *call;
} progress_arg;

static bool on_progress(void *arg, int64_t done, int64_t total)
{
    const progress_arg *p = arg;
    return p->call->host->progress(p->call, "indexing", done, total);
}

static stk_status open_index(stk__record_source *s, const stk_call *call, stk_error *err)
{
    const stk_open_info *info = call->host->open_info(call);
    progress_arg arg = {call};
    const stk__records_config config = {.framing = s->framing, .threads = info->threads, .cache_dir = info->cache_dir,
                                        .progress = on_progress, .progress_arg = &arg};
    for (;;) {
        stk_error error;
        stk_error_clear(&error);
        const stk_status status = stk__records_open(&s->paths, &config, &s->records, &error);
        if (status == STK_OK)
            return STK_OK;
        const bool about_file = (status == STK_CORRUPT || status == STK_IO) && error.file[0] && s->paths.count > 1;
        if (!about_file || lose_file(s, &error, err) != STK_OK) {
            if (err)
                *err = error;
            return status;
        }
    }
}

/* Records of streams have no number in the whole set, so they go by file and record. */
static int64_t stream_key(int64_t file, int64_t record)
{
    return file << 40 | record;
}

static stk_status add_only(stk__record_source *s, int32_t file, int64_t record, size_t *capacity, stk_error *err)
{
    int64_t count = (int64_t)1 << 40;
    if (s->records)
        count = stk__records_first(s->records, file + 1) - stk__records_first(s->records, file);
    if (record < 0 || record >= count)
        return stk_error_set(err, STK_INVALID, "only= names record %lld of '%.300s', which has %lld records",
                             (long long)record, s->paths.items[file], (long long)count);
    if (!stk__grow((void **)&s->only, capacity, (size_t)s->only_count + 1, sizeof *s->only))
        return stk__nomem(sizeof *s->only, err);
    s->only[s->only_count++] =
        s->records ? stk__records_first(s->records, file) + record : stream_key(file, record);
    return STK_OK;
}

static int compare_only(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* In order and once each: a record that was bad in several epochs is listed several times. */
static void sort_only(stk__record_source *s)
{
    int64_t kept = 0;
    if (s->only_count > 0)
        qsort(s->only, (size_t)s->only_count, sizeof *s->only, compare_only);
    for (int64_t i = 0; i < s->only_count; i++)
        if (i == 0 || s->only[i] != s->only[i - 1])
            s->only[kept++] = s->only[i];
    s->only_count = kept;
}

/* Takes over what a list names; `first` is its first line. */
static stk_status take_list(stk__record_source *s, const char *path, const char *first, bool blank,
                            const stk__record_list *list, stk_error *err)
{
    size_t capacity = 0;
    s->has_only = true;
    for (size_t i = 0; i < list->count; i++)
        STK_TRY(add_only(s, list->items[i].file, list->items[i].record, &capacity, err));
    sort_only(s);
    if (list->known || blank)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "'%.200s' lists no record of these files: its first line is '%.150s'",
                         path, first);
}

static stk_status read_only(stk__record_source *s, const char *path, stk_error *err)
{
    char *text;
    size_t size;
    stk__record_list list = {0};
    STK_TRY(stk__read_file(path, (size_t)1 << 30, &text, &size, err));
    stk_status status = stk__record_list_parse(text, size, path, &s->paths, &list, err);
    const size_t space = strspn(text, " \t\r\n");
    text[space + strcspn(text + space, "\r\n")] = 0;
    if (status == STK_OK)
        status = take_list(s, path, text + space, space == size, &list, err);
    stk__record_list_clear(&list);
    stk__free(text);
    return status;
}

/* What lies beside records and tells of them. */
static bool is_beside(const char *path)
{
    return stk__schema_is_path(path) || stk__manifest_is_path(path);
}

/* What the pattern matches; what lies beside records counts only when the user names it. */
static stk_status expand(stk__record_source *s, const char *pattern, stk_error *err)
{
    const size_t first = s->paths.count;
    STK_TRY(stk__paths_glob(&s->paths, pattern, err));
    if (s->framing == STK__FRAMING_LINES)
        return STK_OK;
    size_t kept = first;
    for (size_t i = first; i < s->paths.count; i++) {
        if (is_beside(s->paths.items[i]) && strcmp(s->paths.items[i], pattern) != 0)
            stk__free(s->paths.items[i]);
        else
            s->paths.items[kept++] = s->paths.items[i];
    }
    s->paths.count = kept;
    if (kept > first)
        return STK_OK;
    return stk_error_set(err, STK_IO, "no file matches '%s' but schemas and manifests of other files", pattern);
}

/* Files that a pattern found must be all of their sets; those that were named are taken as they are. */
static stk_status check_sets(stk__record_source *s, const size_t *ends, const stk_strings *patterns, stk_error *err)
{
    bool *wild = stk__calloc(s->paths.count + 1, sizeof *wild);
    if (!wild)
        return stk__nomem(s->paths.count, err);
    for (size_t i = 0, k = 0; i < patterns->count; i++)
        for (; k < ends[i]; k++)
            wild[k] = strpbrk(patterns->items[i], "*?[") && strcmp(s->paths.items[k], patterns->items[i]) != 0;
    const stk_status status = stk__sets_check(&s->paths, wild, &s->marks, err);
    stk__free(wild);
    return status;
}

static stk_status find_files(stk__record_source *s, const stk_strings *patterns, stk_error *err)
{
    size_t *ends = stk__calloc(patterns->count + 1, sizeof *ends);
    stk_status status = ends ? STK_OK : stk__nomem(patterns->count * sizeof *ends, err);
    if (status == STK_OK && s->framing != STK__FRAMING_LINES)
        status = stk__sets_settle_patterns(patterns->items, patterns->count, err); /* before names are looked up */
    for (size_t i = 0; i < patterns->count && status == STK_OK; i++) {
        status = expand(s, patterns->items[i], err);
        ends[i] = s->paths.count;
    }
    if (status == STK_OK && s->framing != STK__FRAMING_LINES)
        status = check_sets(s, ends, patterns, err);
    stk__free(ends);
    return status;
}

stk_status stk__source_open(stk__record_source *s, const stk_call *call, const stk_strings *patterns, const char *only_path,
                            stk_error *err)
{
    s->cycle = s->block = 1;
    STK_TRY(find_files(s, patterns, err));
    bool compressed;
    STK_TRY(look_at_files(s, &compressed, err));
    if (s->paths.count == 0 && s->lost_count > 0) {
        if (err)
            *err = s->lost[0];
        return s->lost[0].status;
    }
    if (!compressed) {
        STK_TRY(open_index(s, call, err));
        int32_t first = 0;
        const int64_t stray = stk__records_stray(s->records, &first);
        stk__lanes_tell_stray(call, stray, stk__records_path(s->records, first));
    }
    return only_path ? read_only(s, only_path, err) : STK_OK;
}

void stk__source_close(void *state)
{
    stk__record_source *s = state;
    stk__lanes_close(s->lanes);
    stk__records_close(s->records);
    stk__paths_clear(&s->paths);
    stk__set_marks_clear(&s->marks);
    stk__free(s->lost);
    stk__free(s->only);
}

/* ---- reading by number ---- */

stk_status stk__source_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    *out_worker = stk__calloc(1, sizeof(source_worker));
    return *out_worker ? STK_OK : stk__nomem(sizeof(source_worker), err);
}

void stk__source_worker_close(const stk_call *call)
{
    source_worker *w = call->worker;
    stk__free(w->slots);
    stk__free(w->lasts);
    stk__free(w);
}

int64_t stk__source_count(const stk_call *call)
{
    const stk__record_source *s = call->state;
    if (!s->records)
        return -1;
    return s->has_only ? s->only_count : stk__records_count(s->records);
}

static void extent_of(const stk__record_source *s, const stk__record_place *place, int64_t *out_start, int64_t *out_end)
{
    const bool framed = s->framing == STK__FRAMING_TFRECORD;
    *out_start = place->offset - (framed ? STK__TFRECORD_HEADER : 0);
    *out_end = place->offset + place->size_bytes + (framed ? STK__TFRECORD_FOOTER : 0);
}

bool stk__source_in_batch(const stk__record_source *s, const stk_call *call)
{
    for (size_t i = 0; i < s->cut_count; i++)
        if (!call->slots[s->cuts[i]].rows)
            return false;
    return s->cut_count > 0 || call->slots[s->field].rows;
}

/* Memory for records, placed where most of what is made of them goes. */
static uint8_t *record_block(const stk__record_source *s, const stk_call *call, int64_t size, stk_error *err)
{
    const bool cut = s->cut_count > 0 && stk__source_in_batch(s, call);
    return stk_bytes_block(call, cut ? s->cuts[0] : s->field, (size_t)size, err);
}

/* Whether records are known to be whole by check sums of their own. */
static bool has_checksums(const stk__record_source *s)
{
    return s->framing == STK__FRAMING_TFRECORD && s->verify;
}

/* Reads a run of slots, which lie one behind the other in one file, with one call. `look`: the file is looked at then. */
static bool read_bytes(const stk__record_source *s, const stk_call *call, int32_t file, uint8_t *to, int64_t start,
                       int64_t end, bool look)
{
    const source_worker *w = call->worker;
    int fd;
    if (stk__records_acquire(s->records, file, &fd, NULL) != STK_OK)
        return false;
    stk_status status = stk__pread_full(fd, to, (size_t)(end - start), start, "", NULL);
    if (status == STK_OK && look)
        status = has_checksums(s) ? stk__records_recheck_lately(s->records, file, fd, w->start_ns, NULL)
                                  : stk__records_recheck(s->records, file, fd, NULL);
    stk__records_release(s->records, file);
    if (status == STK_OK)
        call->host->count_read(call, end - start);
    return status == STK_OK;
}

/* What was read of a file is not to be used: it may have changed. Each record is then looked at in process. */
static void forget_file(source_worker *w, int32_t file)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i].place.file == file)
            w->slots[i].data = NULL;
}

/*
 * Reads the run that starts at `from`. Asking the kernel about a file costs as much as reading a small record, so that is
 * done once for all that was read of it: with the last run, and before any of these bytes is used.
 */
static stk_status read_run(const stk__record_source *s, const stk_call *call, size_t from, bool last, stk_error *err)
{
    source_worker *w = call->worker;
    slot *slots = w->slots;
    const size_t to = slots[from].run_end;
    int64_t start, end, ignored;
    extent_of(s, &slots[from].place, &start, &ignored);
    extent_of(s, &slots[to - 1].place, &ignored, &end);
    const int32_t file = slots[from].place.file;
    uint8_t *block = record_block(s, call, end - start, err);
    if (!block) {
        snprintf(err->file, sizeof err->file, "%s", stk__records_path(s->records, file));
        err->offset = start;
        err->record = slots[from].place.record;
        return err->status;
    }
    /* What goes wrong here is looked at record by record in process. */
    if (read_bytes(s, call, file, block, start, end, last)) {
        for (size_t i = from; i < to; i++)
            slots[i].data = block + (slots[i].place.offset - start);
    } else if (last) {
        forget_file(w, file);
    }
    return STK_OK;
}

static bool follows(const slot *before, const slot *after)
{
    return after->place.file == before->place.file && after->place.record == before->place.record + 1;
}

/* The end of the run of consecutive records that starts at `from`. */
static size_t run_end(const stk__record_source *s, const slot *slots, size_t from, size_t n)
{
    int64_t start, end, ignored;
    extent_of(s, &slots[from].place, &start, &end);
    size_t to = from + 1;
    for (; to < n && follows(&slots[to - 1], &slots[to]); to++) {
        extent_of(s, &slots[to].place, &ignored, &end);
        if (end - start > RUN_BYTES)
            break;
    }
    return to;
}

/* The place of a file in the table of last runs: its own, or an empty one. */
static last_run *last_of(const source_worker *w, int32_t file)
{
    const size_t mask = w->last_count - 1;
    size_t at = (uint32_t)file * UINT32_C(2654435761) >> 8 & mask;
    while (w->lasts[at].file != file && w->lasts[at].file >= 0)
        at = (at + 1) & mask;
    return &w->lasts[at];
}

/* Finds out which run is the last of each file. */
static bool find_lasts(source_worker *w)
{
    w->last_count = 16;
    while (w->last_count < 2 * w->count)
        w->last_count *= 2;
    if (!stk__grow((void **)&w->lasts, &w->last_capacity, w->last_count, sizeof *w->lasts))
        return false;
    memset(w->lasts, 0xff, w->last_count * sizeof *w->lasts);
    for (size_t from = 0; from < w->count; from = w->slots[from].run_end)
        *last_of(w, w->slots[from].place.file) = (last_run){w->slots[from].place.file, (uint32_t)from};
    return true;
}

/* Cuts the slots into runs. Returns how many there are; 0: no memory. */
static int64_t plan_runs(const stk__record_source *s, source_worker *w)
{
    int64_t runs = 0;
    bool one_file = true;
    for (size_t from = 0, to; from < w->count; from = to, runs++) {
        to = run_end(s, w->slots, from, w->count);
        w->slots[from].run_end = (uint32_t)to;
        one_file = one_file && w->slots[from].place.file == w->slots[0].place.file;
    }
    /* With check sums a look is cheap; of one file alone, the last run is the last. */
    w->last_count = 0;
    return one_file || has_checksums(s) || find_lasts(w) ? runs : 0;
}

/* Whether to look at the file with the run that starts at `from`. */
static bool is_last(const stk__record_source *s, const source_worker *w, size_t from)
{
    if (w->last_count)
        return last_of(w, w->slots[from].place.file)->start == from;
    return has_checksums(s) || w->slots[from].run_end == w->count;
}

/* Tells the kernel what will be read, so that the reads of a tile overlap on a disk or a network. */
static void announce_reads(const stk__record_source *s, const slot *slots, size_t n)
{
    for (size_t from = 0, to; from < n; from = to) {
        int64_t start, end, ignored;
        int fd;
        to = slots[from].run_end;
        extent_of(s, &slots[from].place, &start, &ignored);
        extent_of(s, &slots[to - 1].place, &ignored, &end);
        if (stk__records_acquire(s->records, slots[from].place.file, &fd, NULL) != STK_OK)
            return;
        posix_fadvise(fd, start, end - start, POSIX_FADV_WILLNEED);
        stk__records_release(s->records, slots[from].place.file);
    }
}

static void find_slots(const stk__record_source *s, source_worker *w, stk_sample *const *samples)
{
    int64_t before = -1;
    for (size_t i = 0; i < w->count; i++) {
        slot *one = &w->slots[i];
        one->sample = samples[i];
        one->data = NULL;
        const int64_t index = s->has_only ? s->only[samples[i]->index] : samples[i]->index;
        if (i > 0 && index == before + 1)
            stk__records_find_next(s->records, index, &w->slots[i - 1].place, &one->place);
        else
            stk__records_find(s->records, index, &one->place);
        before = index;
    }
}

stk_status stk__source_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const stk__record_source *s = call->state;
    source_worker *w = call->worker;
    if (!stk__grow((void **)&w->slots, &w->capacity, n, sizeof *w->slots))
        return stk__nomem(n * sizeof *w->slots, err);
    w->count = n;
    w->next = 0;
    find_slots(s, w, samples);
    const int64_t runs = plan_runs(s, w);
    if (!runs)
        return stk__nomem(w->last_count * sizeof *w->lasts, err);
    if (w->read_ns > SLOW_READ_NS)
        announce_reads(s, w->slots, n);
    w->start_ns = stk__now_ns();
    for (size_t from = 0; from < n; from = w->slots[from].run_end)
        STK_TRY(read_run(s, call, from, is_last(s, w, from), err));
    w->read_ns = (w->read_ns * 7 + (stk__now_ns() - w->start_ns) / runs) / 8;
    return STK_OK;
}

/* One record on its own, for the error that tells what is wrong with it. */
static stk_status read_alone(const stk__record_source *s, const stk_call *call, slot *one, stk_error *err)
{
    int64_t start, end;
    int fd;
    extent_of(s, &one->place, &start, &end);
    uint8_t *block = record_block(s, call, end - start, err);
    if (!block)
        return err->status;
    STK_TRY(stk__records_acquire(s->records, one->place.file, &fd, err));
    stk_status status =
        stk__pread_full(fd, block, (size_t)(end - start), start, stk__records_path(s->records, one->place.file), err);
    stk_error changed;
    stk_error_clear(&changed);
    const stk_status same = stk__records_recheck(s->records, one->place.file, fd, &changed);
    if (same != STK_OK) { /* a better reason for whatever went wrong */
        status = same;
        *err = changed;
    }
    stk__records_release(s->records, one->place.file);
    STK_TRY(status);
    call->host->count_read(call, end - start);
    one->data = block + (one->place.offset - start);
    return STK_OK;
}

/* The header was checked when the file was indexed; it must still say the same. */
static stk_status check_record(const stk__record_source *s, const slot *one, stk_error *err)
{
    uint64_t size;
    memcpy(&size, one->data - STK__TFRECORD_HEADER, sizeof size);
    stk_status status = STK_OK;
    if (size != (uint64_t)one->place.size_bytes)
        status = stk_error_set(err, STK_CORRUPT, "length is %llu, but was %lld when the file was indexed",
                               (unsigned long long)size, (long long)one->place.size_bytes);
    else if (s->verify)
        status = stk__tfrecord_data(one->data, (size_t)size, one->data + size, err);
    if (status == STK_OK)
        return STK_OK;
    stk_error changed;
    stk_error_clear(&changed);
    if (stk__records_check_unchanged(s->records, one->place.file, &changed) != STK_OK && err)
        *err = changed;
    return status;
}

stk_status stk__source_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const stk__record_source *s = call->state;
    source_worker *w = call->worker;
    while (w->next < w->count && w->slots[w->next].sample != sample)
        w->next++;
    slot *one = &w->slots[w->next++];
    const bool framed = s->framing == STK__FRAMING_TFRECORD;
    sample->origin = (stk_origin){stk__records_path(s->records, one->place.file),
                                  one->place.offset - (framed ? STK__TFRECORD_HEADER : 0), one->place.record,
                                  one->place.size_bytes};
    if (!one->data)
        STK_TRY(read_alone(s, call, one, err));
    if (framed)
        STK_TRY(check_record(s, one, err));
    stk_set_bytes(call, sample, s->field, one->data, one->place.size_bytes, true);
    return STK_OK;
}

/* ---- streams ---- */

void stk__source_set_interleave(const stk_call *call, int64_t cycle, int64_t block)
{
    stk__record_source *s = call->state;
    s->cycle = cycle;
    s->block = block;
}

stk_status stk__source_rewind(const stk_call *call, stk_error *err)
{
    stk__record_source *s = call->state;
    if (s->lanes)
        return stk__lanes_rewind(s->lanes, err);
    const int64_t memory = call->host->open_info(call)->memory_bytes;
    const stk__lanes_config config = {.paths = &s->paths, .marks = &s->marks, .framing = s->framing, .verify = s->verify, .field = s->field,
                                      .cycle = s->cycle, .block = s->block, .memory_bytes = memory};
    return stk__lanes_open(call, &config, &s->lanes, err);
}

static bool is_listed(stk__record_source *s, const stk_origin *origin)
{
    for (size_t i = 0; i < s->paths.count && s->paths.items[s->only_file] != origin->file; i++)
        s->only_file = (s->only_file + 1) % s->paths.count;
    const int64_t key = stream_key((int64_t)s->only_file, origin->record);
    return s->only_count > 0 && bsearch(&key, s->only, (size_t)s->only_count, sizeof key, compare_only);
}

stk_status stk__source_pull(const stk_call *call, stk_sample *sample, stk_error *err)
{
    stk__record_source *s = call->state;
    stk_status status;
    int64_t passed = 0;
    do {
        if (++passed % 4096 == 0 && !call->host->progress(call, "looking for the listed records", passed, -1))
            return call->host->fail(err, STK_CANCELLED, "the run was cancelled");
        status = stk__lanes_pull(s->lanes, call, sample, err);
    } while (status == STK_OK && s->has_only && !is_listed(s, &sample->origin));
    return status;
}

stk_status stk__source_ahead(const stk_call *call)
{
    stk__record_source *s = call->state;
    return s->lanes ? stk__lanes_ahead(s->lanes, call) : STK_END;
}

void stk__source_trim(const stk_call *call)
{
    stk__record_source *s = call->state;
    if (s->lanes)
        stk__lanes_trim(s->lanes);
}

/* ---- the rest ---- */

int64_t stk__source_group_count(const stk_call *call)
{
    const stk__record_source *s = call->state;
    return s->has_only ? 1 : stk__records_file_count(s->records);
}

int64_t stk__source_group_first(const stk_call *call, int64_t group)
{
    const stk__record_source *s = call->state;
    if (s->has_only)
        return group ? s->only_count : 0;
    return stk__records_first(s->records, (int32_t)group);
}

int64_t stk__source_memory(const stk_call *call)
{
    const stk__record_source *s = call->state;
    return s->records ? (int64_t)stk__records_memory(s->records) + s->only_count * (int64_t)sizeof *s->only : 0;
}

uint64_t stk__source_fingerprint(const stk_call *call)
{
    const stk__record_source *s = call->state;
    uint64_t h = s->records ? stk__records_fingerprint(s->records) : 0;
    for (size_t i = 0; !s->records && i < s->paths.count; i++)
        h = stk__look_contents(h, s->paths.items[i]);
    for (int64_t i = 0; i < s->only_count; i++)
        h = stk__mix(h, (uint64_t)s->only[i]);
    return h;
}

uint64_t stk__source_stamp(const stk_call *call, int64_t *newest_ns)
{
    const stk__record_source *s = call->state;
    uint64_t h = 0;
    for (size_t i = 0; i < s->paths.count; i++)
        h = stk__look_stamp(h, s->paths.items[i], newest_ns);
    return h;
}

bool stk__source_damage(const stk_call *call, size_t i, stk_error *out, int64_t *out_bytes)
{
    const stk__record_source *s = call->state;
    if (i < s->lost_count) {
        *out = s->lost[i];
        *out_bytes = 0;
        return true;
    }
    i -= s->lost_count;
    /* Who asks for certain records need not hear of what lies between them. */
    if (!s->records || s->has_only || i >= stk__records_damage_count(s->records))
        return false;
    const stk__damage *d = stk__records_damage(s->records, i);
    stk_error_clear(out);
    stk_error_set(out, STK_CORRUPT, "%s; %lld bytes hold no readable record", d->message, (long long)d->size_bytes);
    snprintf(out->file, sizeof out->file, "%s", stk__records_path(s->records, d->file));
    out->offset = d->offset;
    out->record = d->record;
    *out_bytes = d->size_bytes;
    return true;
}
