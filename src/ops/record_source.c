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
#include "formats/schema.h"
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
} slot;

typedef struct source_worker {
    slot *slots;
    size_t count, capacity, next;
    int64_t read_ns; /* of one run, a running mean */
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

/* The number after `"key":` in a line that quarantine wrote. */
static bool json_number(const char *line, const char *key, int64_t *out)
{
    const char *at = strstr(line, key);
    char *end;
    if (!at)
        return false;
    *out = strtoll(at + strlen(key), &end, 10);
    return end != at + strlen(key);
}

/* The number of the file that a line of a quarantine list names, or -1. The name is compared in its JSON form. */
static int32_t file_by_json(const stk__record_source *s, const char *line)
{
    static const char key[] = "{\"file\":";
    if (strncmp(line, key, sizeof key - 1) != 0)
        return -1;
    for (size_t f = 0; f < s->paths.count; f++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_json_str(&t, s->paths.items[f]);
        const bool same = t.data && strncmp(line + sizeof key - 1, t.data, t.length) == 0;
        stk__text_clear(&t);
        if (same)
            return (int32_t)f;
    }
    return -1;
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

/* One line of the list. Stretches without a record have bytes -1: there is nothing to visit. */
static stk_status read_only_line(stk__record_source *s, const char *path, const char *line, size_t *capacity, bool *known,
                                 stk_error *err)
{
    int64_t record, bytes;
    if (!json_number(line, "\"record\":", &record) || !json_number(line, "\"bytes\":", &bytes))
        return stk_error_set(err, STK_INVALID, "'%.200s' is no quarantine list: found the line '%.60s'", path, line);
    const int32_t file = file_by_json(s, line);
    *known = *known || file >= 0;
    return file >= 0 && bytes >= 0 ? add_only(s, file, record, capacity, err) : STK_OK;
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

static stk_status read_only(stk__record_source *s, const char *path, stk_error *err)
{
    char *text;
    size_t size, capacity = 0;
    STK_TRY(stk__read_file(path, (size_t)1 << 30, &text, &size, err));
    stk_status status = STK_OK;
    bool known = false;
    s->has_only = true;
    for (char *line = text; *line && status == STK_OK;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        status = read_only_line(s, path, line, &capacity, &known, err);
        line = end ? end + 1 : line + strlen(line);
    }
    if (status == STK_OK && size > 0 && !known)
        status = stk_error_set(err, STK_INVALID, "'%.200s' lists no record of these files: its first line is '%.150s'", path,
                               text);
    sort_only(s);
    stk__free(text);
    return status;
}

/* What the pattern matches; schemas that lie beside records count only when the user names them. */
static stk_status expand(stk__record_source *s, const char *pattern, stk_error *err)
{
    const size_t first = s->paths.count;
    STK_TRY(stk__paths_glob(&s->paths, pattern, err));
    if (s->framing != STK__FRAMING_TFRECORD)
        return STK_OK;
    size_t kept = first;
    for (size_t i = first; i < s->paths.count; i++) {
        if (stk__schema_is_path(s->paths.items[i]) && strcmp(s->paths.items[i], pattern) != 0)
            stk__free(s->paths.items[i]);
        else
            s->paths.items[kept++] = s->paths.items[i];
    }
    s->paths.count = kept;
    if (kept > first)
        return STK_OK;
    return stk_error_set(err, STK_IO, "no file matches '%s' but schemas of other files", pattern);
}

stk_status stk__source_open(stk__record_source *s, const stk_call *call, const stk_strings *patterns, const char *only_path,
                            stk_error *err)
{
    s->cycle = s->block = 1;
    for (size_t i = 0; i < patterns->count; i++)
        STK_TRY(expand(s, patterns->items[i], err));
    bool compressed;
    STK_TRY(look_at_files(s, &compressed, err));
    if (s->paths.count == 0 && s->lost_count > 0) {
        if (err)
            *err = s->lost[0];
        return s->lost[0].status;
    }
    if (!compressed)
        STK_TRY(open_index(s, call, err));
    return only_path ? read_only(s, only_path, err) : STK_OK;
}

void stk__source_close(void *state)
{
    stk__record_source *s = state;
    stk__lanes_close(s->lanes);
    stk__records_close(s->records);
    stk__paths_clear(&s->paths);
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

/* Reads slots [from, to), which lie one behind the other in one file, with one call. */
static stk_status read_run(const stk__record_source *s, const stk_call *call, slot *slots, size_t from, size_t to,
                           int64_t now_ns, stk_error *err)
{
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
    int fd;
    /* What goes wrong here is looked at record by record in process. */
    if (stk__records_acquire(s->records, file, &fd, NULL) != STK_OK)
        return STK_OK;
    stk_status status = stk__pread_full(fd, block, (size_t)(end - start), start, "", NULL);
    if (status == STK_OK)
        status = stk__records_recheck(s->records, file, fd, now_ns, NULL);
    stk__records_release(s->records, file);
    if (status != STK_OK)
        return STK_OK;
    call->host->count_read(call, end - start);
    for (size_t i = from; i < to; i++)
        slots[i].data = block + (slots[i].place.offset - start);
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

/* Tells the kernel what will be read, so that the reads of a tile overlap on a disk or a network. */
static void announce_reads(const stk__record_source *s, const slot *slots, size_t n)
{
    for (size_t from = 0, to; from < n; from = to) {
        int64_t start, end, ignored;
        int fd;
        to = run_end(s, slots, from, n);
        extent_of(s, &slots[from].place, &start, &ignored);
        extent_of(s, &slots[to - 1].place, &ignored, &end);
        if (stk__records_acquire(s->records, slots[from].place.file, &fd, NULL) != STK_OK)
            continue;
        posix_fadvise(fd, start, end - start, POSIX_FADV_WILLNEED);
        stk__records_release(s->records, slots[from].place.file);
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
    int64_t before = -1;
    for (size_t i = 0; i < n; i++) {
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
    if (w->read_ns > SLOW_READ_NS)
        announce_reads(s, w->slots, n);
    const int64_t start = stk__now_ns();
    int64_t runs = 0;
    for (size_t from = 0, to; from < n; from = to, runs++) {
        to = run_end(s, w->slots, from, n);
        STK_TRY(read_run(s, call, w->slots, from, to, start, err));
    }
    w->read_ns = (w->read_ns * 7 + (stk__now_ns() - start) / STK_MAX(runs, 1)) / 8;
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
    stk_status status = stk__records_recheck(s->records, one->place.file, fd, INT64_MAX, err);
    if (status == STK_OK)
        status = stk__pread_full(fd, block, (size_t)(end - start), start,
                                 stk__records_path(s->records, one->place.file), err);
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
    const stk__lanes_config config = {.paths = &s->paths, .framing = s->framing, .verify = s->verify, .field = s->field,
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

/* Name, size, and the first and last bytes of a file that is read as a stream. */
static uint64_t hash_file(uint64_t h, const char *path)
{
    enum { EDGE = 4096 };
    uint64_t words[EDGE / 8];
    const char *slash = strrchr(path, '/');
    for (const char *p = slash ? slash + 1 : path; *p; p++)
        h = stk__mix(h, (uint64_t)(unsigned char)*p);
    stk__file_id id = {0, 0};
    struct stat st;
    int fd;
    /* To open a pipe is to take it away from who writes: it can be read once, and not looked at before. */
    if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISREG(st.st_mode) ||
        stk__file_open(path, &fd, &id, NULL) != STK_OK)
        return h;
    h = stk__mix(h, (uint64_t)id.size_bytes);
    for (int end = 0; end < 2; end++) {
        memset(words, 0, sizeof words);
        if (pread(fd, words, sizeof words, end ? STK_MAX(id.size_bytes - EDGE, (int64_t)0) : 0) <= 0)
            break;
        for (size_t i = 0; i < EDGE / 8; i++)
            h = stk__mix(h, words[i]);
    }
    close(fd);
    return h;
}

uint64_t stk__source_fingerprint(const stk_call *call)
{
    const stk__record_source *s = call->state;
    uint64_t h = s->records ? stk__records_fingerprint(s->records) : 0;
    for (size_t i = 0; !s->records && i < s->paths.count; i++)
        h = hash_file(h, s->paths.items[i]);
    for (int64_t i = 0; i < s->only_count; i++)
        h = stk__mix(h, (uint64_t)s->only[i]);
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
