/* Opening of record files, and reading of them by number. */
#include "ops/record_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "formats/tfrecord.h"

#include "base/banned.h"

/* Consecutive records are read together up to this size. */
#define RUN_BYTES ((int64_t)1 << 20)

/* What gather found out about one sample, for process. */
typedef struct slot {
    const stk_sample *sample;
    stk__record_place place;
    const uint8_t *data; /* NULL: could not be read with its run */
} slot;

typedef struct source_worker {
    slot *slots;
    size_t count, capacity, next;
} source_worker;

/* ---- opening ---- */

static stk_status lose_file(stk__record_source *s, const stk_error *error, stk_error *err)
{
    if (!stk__grow((void **)&s->lost, &s->lost_capacity, s->lost_count + 1, sizeof *s->lost))
        return stk__nomem(sizeof *s->lost, err);
    s->lost[s->lost_count++] = *error;
    for (size_t i = 0; i < s->paths.count; i++) {
        if (strcmp(s->paths.items[i], error->file) != 0)
            continue;
        stk__free(s->paths.items[i]);
        memmove(s->paths.items + i, s->paths.items + i + 1, sizeof(char *) * (s->paths.count - i - 1));
        s->paths.count--;
        return STK_OK;
    }
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

/* The start of a set's file named as in a quarantine list, or -1. The name is compared in its JSON form. */
static int32_t file_by_json(const stk__record_source *s, const char *line)
{
    static const char key[] = "{\"file\":";
    if (strncmp(line, key, sizeof key - 1) != 0)
        return -1;
    for (int32_t f = 0; f < stk__records_file_count(s->records); f++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_json_str(&t, stk__records_path(s->records, f));
        const bool same = t.data && strncmp(line + sizeof key - 1, t.data, t.length) == 0;
        stk__text_clear(&t);
        if (same)
            return f;
    }
    return -1;
}

static stk_status read_only(stk__record_source *s, const char *path, stk_error *err)
{
    char *text;
    size_t size, capacity = 0;
    STK_TRY(stk__read_file(path, (size_t)1 << 30, &text, &size, err));
    stk_status status = STK_OK;
    for (char *line = text; *line && status == STK_OK;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        int64_t record, bytes;
        const int32_t file = file_by_json(s, line);
        if (!json_number(line, "\"record\":", &record) || !json_number(line, "\"bytes\":", &bytes)) {
            status = stk_error_set(err, STK_INVALID, "'%s' is no quarantine list: line '%.60s'", path, line);
        } else if (file >= 0 && bytes >= 0 && record >= 0 &&
                   record < stk__records_first(s->records, file + 1) - stk__records_first(s->records, file)) {
            if (!stk__grow((void **)&s->only, &capacity, (size_t)s->only_count + 1, sizeof *s->only))
                status = stk__nomem(sizeof *s->only, err);
            else
                s->only[s->only_count++] = stk__records_first(s->records, file) + record;
        }
        line = end ? end + 1 : line + strlen(line);
    }
    stk__free(text);
    return status;
}

stk_status stk__source_open(stk__record_source *s, const stk_call *call, const stk_strings *patterns, const char *only_path,
                            stk_error *err)
{
    s->cycle = s->block = 1;
    for (size_t i = 0; i < patterns->count; i++)
        STK_TRY(stk__paths_glob(&s->paths, patterns->items[i], err));
    bool compressed;
    STK_TRY(look_at_files(s, &compressed, err));
    if (s->paths.count == 0 && s->lost_count > 0) {
        if (err)
            *err = s->lost[0];
        return s->lost[0].status;
    }
    if (compressed && only_path)
        return stk_error_set(err, STK_UNSUPPORTED, "only= needs files that can be indexed, and some are compressed");
    if (compressed)
        return STK_OK;
    STK_TRY(open_index(s, call, err));
    return only_path ? read_only(s, only_path, err) : STK_OK;
}

static void close_lanes(stk__record_source *s)
{
    for (int64_t i = 0; i < s->lane_count; i++) {
        if (s->lanes[i].stream)
            stk__record_stream_close(s->lanes[i].stream);
    }
    s->lane_count = 0;
}

void stk__source_close(stk__record_source *s)
{
    close_lanes(s);
    stk__free(s->lanes);
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
    return s->only ? s->only_count : stk__records_count(s->records);
}

static void extent_of(const stk__record_source *s, const stk__record_place *place, int64_t *out_start, int64_t *out_end)
{
    const bool framed = s->framing == STK__FRAMING_TFRECORD;
    *out_start = place->offset - (framed ? STK__TFRECORD_HEADER : 0);
    *out_end = place->offset + place->size_bytes + (framed ? STK__TFRECORD_FOOTER : 0);
}

/* Reads slots [from, to), which lie one behind the other in one file, with one call. */
static stk_status read_run(const stk__record_source *s, const stk_call *call, slot *slots, size_t from, size_t to,
                           stk_error *err)
{
    int64_t start, end, ignored;
    extent_of(s, &slots[from].place, &start, &ignored);
    extent_of(s, &slots[to - 1].place, &ignored, &end);
    uint8_t *block = stk_bytes_block(call, s->field, (size_t)(end - start), err);
    if (!block)
        return err->status;
    const int32_t file = slots[from].place.file;
    int fd;
    /* What goes wrong here is looked at record by record in process. */
    if (stk__records_acquire(s->records, file, &fd, NULL) != STK_OK)
        return STK_OK;
    const stk_status status = stk__pread_full(fd, block, (size_t)(end - start), start, "", NULL);
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

stk_status stk__source_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const stk__record_source *s = call->state;
    source_worker *w = call->worker;
    if (!stk__grow((void **)&w->slots, &w->capacity, n, sizeof *w->slots))
        return stk__nomem(n * sizeof *w->slots, err);
    w->count = n;
    w->next = 0;
    for (size_t i = 0; i < n; i++) {
        slot *one = &w->slots[i];
        one->sample = samples[i];
        one->data = NULL;
        stk__records_find(s->records, s->only ? s->only[samples[i]->index] : samples[i]->index, &one->place);
    }
    for (size_t from = 0, to; from < n; from = to) {
        int64_t start, end, ignored;
        extent_of(s, &w->slots[from].place, &start, &end);
        for (to = from + 1; to < n && follows(&w->slots[to - 1], &w->slots[to]); to++) {
            extent_of(s, &w->slots[to].place, &ignored, &end);
            if (end - start > RUN_BYTES)
                break;
        }
        STK_TRY(read_run(s, call, w->slots, from, to, err));
    }
    return STK_OK;
}

/* One record on its own, for the error that tells what is wrong with it. */
static stk_status read_alone(const stk__record_source *s, const stk_call *call, slot *one, stk_error *err)
{
    int64_t start, end;
    int fd;
    extent_of(s, &one->place, &start, &end);
    uint8_t *block = stk_bytes_block(call, s->field, (size_t)(end - start), err);
    if (!block)
        return err->status;
    STK_TRY(stk__records_acquire(s->records, one->place.file, &fd, err));
    const stk_status status = stk__pread_full(fd, block, (size_t)(end - start), start,
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
    close_lanes(s);
    const int64_t lanes = STK_MAX((int64_t)1, STK_MIN(s->cycle, (int64_t)s->paths.count));
    stk__source_lane *fresh = stk__realloc(s->lanes, (size_t)lanes * sizeof *fresh);
    if (!fresh)
        return stk__nomem((size_t)lanes * sizeof *fresh, err);
    memset(fresh, 0, (size_t)lanes * sizeof *fresh);
    s->lanes = fresh;
    s->lane_count = lanes;
    s->lane_at = s->block_at = s->next_file = 0;
    return STK_OK;
}

static void next_lane(stk__record_source *s)
{
    s->lane_at = s->lane_count ? (s->lane_at + 1) % s->lane_count : 0;
    s->block_at = 0;
}

/* The file of this lane has ended: the next one takes its place at the lane's next turn, or at once if this one is unused. */
static void end_lane(stk__record_source *s, stk__source_lane *lane)
{
    stk__record_stream_close(lane->stream);
    lane->stream = NULL;
    if (s->block_at > 0)
        next_lane(s);
}

static void remove_lane(stk__record_source *s)
{
    memmove(s->lanes + s->lane_at, s->lanes + s->lane_at + 1,
            sizeof *s->lanes * (size_t)(s->lane_count - s->lane_at - 1));
    s->lane_count--;
    if (s->lane_at >= s->lane_count)
        s->lane_at = 0;
    s->block_at = 0;
}

/* One try at the current lane; *out_done false: look again. */
static stk_status pull_lane(const stk_call *call, stk__record_source *s, stk_sample *sample, bool *out_done, stk_error *err)
{
    stk__source_lane *lane = &s->lanes[s->lane_at];
    *out_done = false;
    if (!lane->stream) {
        if (s->next_file >= (int64_t)s->paths.count) {
            remove_lane(s);
            return STK_OK;
        }
        lane->file = s->next_file++;
        lane->record = 0;
        sample->origin.file = s->paths.items[lane->file];
        STK_TRY(stk__record_stream_open(s->paths.items[lane->file], s->framing, s->verify, &lane->stream, err));
    }
    stk_bytes data;
    int64_t offset = -1;
    bool again = false;
    const int64_t before = stk__record_stream_bytes(lane->stream);
    const stk_status status = stk__record_stream_next(lane->stream, &data, &offset, &again, err);
    call->host->count_read(call, stk__record_stream_bytes(lane->stream) - before);
    if (status == STK_END) {
        end_lane(s, lane);
        return STK_OK;
    }
    *out_done = true;
    sample->origin = (stk_origin){s->paths.items[lane->file], status == STK_OK ? offset : -1, lane->record++,
                                  status == STK_OK ? data.size : -1};
    if (status == STK_OK)
        stk_set_bytes(call, sample, s->field, data.data, data.size, false);
    else if (!again)
        end_lane(s, lane);
    if (status == STK_OK || again) {
        s->block_at++;
        if (s->block_at >= s->block)
            next_lane(s);
    }
    return status;
}

stk_status stk__source_pull(const stk_call *call, stk_sample *sample, stk_error *err)
{
    stk__record_source *s = call->state;
    bool done = false;
    while (!done && s->lane_count > 0)
        STK_TRY(pull_lane(call, s, sample, &done, err));
    return done ? STK_OK : STK_END;
}

/* ---- the rest ---- */

int64_t stk__source_group_count(const stk_call *call)
{
    const stk__record_source *s = call->state;
    return s->only ? 1 : stk__records_file_count(s->records);
}

int64_t stk__source_group_first(const stk_call *call, int64_t group)
{
    const stk__record_source *s = call->state;
    if (s->only)
        return group ? s->only_count : 0;
    return stk__records_first(s->records, (int32_t)group);
}

uint64_t stk__source_fingerprint(const stk_call *call)
{
    const stk__record_source *s = call->state;
    if (s->records)
        return stk__mix(stk__records_fingerprint(s->records), (uint64_t)s->only_count);
    uint64_t h = 0;
    for (size_t i = 0; i < s->paths.count; i++) {
        stk__file_id id = {0, 0};
        int fd;
        if (strcmp(s->paths.items[i], "-") != 0 && stk__file_open(s->paths.items[i], &fd, &id, NULL) == STK_OK)
            close(fd);
        h = stk__mix(h, (uint64_t)id.size_bytes);
    }
    return h;
}

bool stk__source_damage(const stk_call *call, size_t i, stk_error *out)
{
    const stk__record_source *s = call->state;
    if (i < s->lost_count) {
        *out = s->lost[i];
        return true;
    }
    i -= s->lost_count;
    if (!s->records || i >= stk__records_damage_count(s->records))
        return false;
    const stk__damage *d = stk__records_damage(s->records, i);
    stk_error_clear(out);
    stk_error_set(out, STK_CORRUPT, "%s; %lld bytes hold no readable record", d->message, (long long)d->size_bytes);
    snprintf(out->file, sizeof out->file, "%s", stk__records_path(s->records, d->file));
    out->offset = d->offset;
    out->record = d->record;
    return true;
}
