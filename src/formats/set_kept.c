/*
 * What a run keeps for its checkpoints: a hidden directory with the files so far in `set`, the two last states that were saved, and,
 * from just before publication on, the digest of the manifest. Its name depends on the target alone, so that a later run finds it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "formats/set_impl.h"
#include "formats/set_state.h"
#include "formats/shard_names.h"

#include "base/banned.h"

#define DATA_NAME "set"
#define FINAL_NAME "final"
/* Of 65536 files, with the keys of their last samples. */
#define STATE_MAX_BYTES ((size_t)64 << 20)

/* ---- names ---- */

/* Beside the output directory it has that one's name, inside the set's; the digits tell targets apart. */
static char *kept_path(const stk__set *s, bool inside)
{
    const char *path = inside ? s->dir : s->beside, *leaf = inside ? s->name : stk__base_name(s->beside);
    const size_t above = inside ? strlen(path) : (size_t)(leaf - path);
    stk__text id = STK__TEXT_INIT, t = STK__TEXT_INIT;
    stk__text_printf(&id, "%s/%s", leaf, s->name);
    stk__text_write(&t, path, above);
    if (inside)
        stk__text_putc(&t, '/');
    stk__text_printf(&t, ".%.200s.%016" PRIx64 "%s", leaf, (uint64_t)XXH3_64bits(id.data, id.length), STK__KEPT_SUFFIX);
    const bool good = !id.failed && !t.failed;
    stk__text_clear(&id);
    if (!good)
        stk__text_clear(&t);
    return t.data;
}

/* Opens it and takes its lock. -1: it is not there, or (*out_alive) a run that lives has it. */
static int lock_kept(const char *path, bool *out_alive)
{
    *out_alive = false;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && stk__lock_alive(fd))
        return fd;
    *out_alive = fd >= 0;
    if (fd >= 0)
        close(fd);
    return -1;
}

static stk_status refuse_alive(const char *path, stk_error *err)
{
    stk_error_set(err, STK_IO, "another run is writing this output, or another user has kept it");
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

/* What an older run kept for this target; one that lives keeps it. */
void stk__set_keep_forget(const stk__set *s)
{
    for (int inside = 0; inside < 2; inside++) {
        bool alive;
        char *path = inside || s->beside ? kept_path(s, inside) : NULL;
        const int fd = path ? lock_kept(path, &alive) : -1;
        if (fd >= 0) {
            stk__remove_tree(path);
            close(fd);
        }
        stk__free(path);
    }
}

/* ---- the directory ---- */

/* The directory of the files, with a lock of its own: it gets another name when it is published. */
static stk_status open_data(stk__set *s, stk_error *err)
{
    s->data = stk__set_join(s->hidden.temp, DATA_NAME);
    if (!s->data)
        return stk__nomem(strlen(s->hidden.temp), err);
    s->data_fd = open(s->data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->data_fd < 0)
        return stk__io_error(err, s->data, "cannot open");
    return stk__lock_alive(s->data_fd) ? STK_OK : refuse_alive(s->data, err);
}

stk_status stk__set_keep_make(stk__set *s, bool inside, stk_error *err)
{
    char *path = kept_path(s, inside), *data = path ? stk__set_join(path, DATA_NAME) : NULL;
    s->hidden = (stk__new_dir){.fd = -1, .path = stk__strdup(s->dir)};
    if (!data || !s->hidden.path) {
        stk__free(path);
        stk__free(data);
        return stk__nomem(strlen(s->dir), err);
    }
    stk_status status = STK_OK;
    bool alive = false;
    if (mkdir(path, 0777) && errno != EEXIST)
        status = stk__io_error(err, path, "cannot create directory");
    if (status == STK_OK && (s->hidden.fd = lock_kept(path, &alive)) < 0)
        status = alive ? refuse_alive(path, err) : stk__io_error(err, path, "cannot open");
    if (status == STK_OK) {
        s->hidden.temp = path;
        path = NULL;
        if (mkdir(data, 0777))
            status = stk__io_error(err, data, "cannot create directory");
    }
    stk__free(path);
    stk__free(data);
    return status == STK_OK ? open_data(s, err) : status;
}

/* Writes a small file in it, whole. */
static stk_status put_file(const stk__set *s, const char *name, const void *data, size_t size, stk_error *err)
{
    char *path = stk__set_join(s->hidden.temp, name);
    const stk_status status = path ? stk__write_file(path, data, size, err) : stk__nomem(strlen(s->dir), err);
    stk__free(path);
    return status;
}

stk_status stk__set_keep_final(const stk__set *s, stk__file_digest digest, stk_error *err)
{
    char hex[33];
    stk__file_digest_print(digest, hex);
    return put_file(s, FINAL_NAME, hex, 32, err);
}

/* ---- saving ---- */

static stk__file_digest digest_of(const void *data, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(data, size);
    return (stk__file_digest){hash.high64, hash.low64};
}

static stk_status collect_state(stk__set *s, int64_t rows, const void *extra, size_t extra_size, stk__set_state *state,
                                stk_error *err)
{
    *state = (stk__set_state){.rows = rows, .count = (size_t)s->shards, .pattern = stk__strdup(s->pattern)};
    state->files = stk__calloc(state->count, sizeof *state->files);
    state->extra = stk__alloc(extra_size + 1);
    if (!state->pattern || !state->files || !state->extra)
        return stk__nomem(state->count * sizeof *state->files, err);
    if (extra_size)
        memcpy(state->extra, extra, extra_size);
    state->extra_size = extra_size;
    for (size_t i = 0; i < state->count; i++) {
        STK_TRY(stk__set_file_sync(s->files[i], err));
        state->files[i] = (stk__set_state_file){stk__set_file_bytes(s->files[i]), stk__set_file_digest(s->files[i])};
    }
    return STK_OK;
}

static stk_status save_state(stk__set *s, int64_t rows, const void *extra, size_t extra_size, stk__text *out,
                             stk_error *err)
{
    stk__set_state state;
    stk__text text = STK__TEXT_INIT;
    stk_status status = collect_state(s, rows, extra, extra_size, &state, err);
    if (status == STK_OK) {
        stk__set_state_print(&state, &text);
        status = text.failed ? stk__nomem(text.length, err) : STK_OK;
    }
    /* By turns: the one before stays until the checkpoint of this one is on the disk as well. */
    const char *const names[] = {"state-0", "state-1"};
    if (status == STK_OK)
        status = put_file(s, names[s->saves % 2], text.data, text.length, err);
    if (status == STK_OK && fsync(s->data_fd) && errno != EINVAL && errno != ENOTSUP)
        status = stk__io_error(err, s->data, "cannot sync the directory");
    if (status == STK_OK)
        status = stk__sync_parent(s->hidden.temp, err);
    if (status == STK_OK) {
        char hex[33];
        stk__file_digest_print(digest_of(text.data, text.length), hex);
        stk__text_printf(out, "%" PRId64 " %s", rows, hex);
        s->saved = true;
        s->saves++;
    }
    stk__text_clear(&text);
    stk__set_state_clear(&state);
    return status;
}

stk_status stk__set_save(stk__set *s, int64_t rows, const void *extra, size_t extra_size, stk__text *out,
                         stk_error *err)
{
    if (!s->published)
        return save_state(s, rows, extra, extra_size, out, err);
    char hex[33];
    stk__file_digest_print(s->published_digest, hex);
    stk__text_printf(out, "%" PRId64 " done %s", rows, hex);
    return STK_OK;
}

/* ---- going on ---- */

/* Whether the set with a manifest of that digest is what lies at the target. */
static bool is_published(const stk__set *s, stk__file_digest digest)
{
    char *path = stk__set_join(s->dir, s->manifest_name);
    stk__manifest m;
    stk__file_digest found;
    const bool loaded = path && stk__manifest_load(path, &m, &found, NULL) == STK_OK;
    if (loaded)
        stk__manifest_clear(&m);
    stk__free(path);
    return loaded && found.high == digest.high && found.low == digest.low;
}

/* A small file of the kept directory, NUL-terminated; NULL: there is none. */
static char *get_file(const stk__set *s, const char *name, size_t *out_size)
{
    char *path = stk__set_join(s->hidden.temp, name), *text = NULL;
    if (path && stk__read_file(path, STATE_MAX_BYTES, &text, out_size, NULL) != STK_OK)
        text = NULL;
    stk__free(path);
    return text;
}

/* Where the run that made the checkpoint kept its files. */
static stk_status find_kept(stk__set *s, stk_error *err)
{
    char *gone = NULL;
    for (int inside = 0; inside < 2; inside++) {
        bool alive = false;
        char *path = inside || s->beside ? kept_path(s, inside) : NULL;
        const int fd = path ? lock_kept(path, &alive) : -1;
        if (fd >= 0) {
            s->hidden = (stk__new_dir){.fd = fd, .temp = path, .path = stk__strdup(s->dir)};
            s->inside = inside;
            s->saved = true; /* until it is published, the checkpoint needs it */
            stk__free(gone);
            return s->hidden.path ? STK_OK : stk__nomem(strlen(s->dir), err);
        }
        if (alive) {
            const stk_status status = refuse_alive(path, err);
            stk__free(path);
            stk__free(gone);
            return status;
        }
        if (gone || !path)
            stk__free(path);
        else
            gone = path;
    }
    stk_error_set(err, STK_MISMATCH,
                  "the output that was kept for this checkpoint, '%.500s', is gone: start again without --resume",
                  gone ? gone : s->dir);
    stk__free(gone);
    return STK_MISMATCH;
}

/* The state with that digest. */
static stk_status find_state(stk__set *s, stk__file_digest wanted, stk__set_state *out, stk_error *err)
{
    const char *const names[] = {"state-0", "state-1"};
    for (unsigned i = 0; i < 2; i++) {
        size_t size;
        char *text = get_file(s, names[i], &size);
        const stk__file_digest found = text ? digest_of(text, size) : (stk__file_digest){0};
        if (text && found.high == wanted.high && found.low == wanted.low) {
            const stk_status status = stk__set_state_parse(text, size, out, err);
            stk__free(text);
            s->saves = i + 1; /* the next one goes into the other */
            return status;
        }
        stk__free(text);
    }
    return stk_error_set(
        err, STK_MISMATCH,
        "the output kept in '%.500s' is not that of this checkpoint, but of a later or of another run: start again "
        "without --resume",
        s->hidden.temp);
}

/* What the end of a run that was killed there has put beside the shards. */
static void remove_added(const stk__set *s)
{
    const char *const names[] = {s->schema_name, s->manifest_name};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char *path = stk__set_join(s->data, names[i]);
        if (path)
            unlink(path);
        stk__free(path);
    }
}

static stk_status reopen_file(stk__set *s, int64_t i, const stk__set_state_file *then, stk_error *err)
{
    char *path = stk__set_shard_path(s, i), *target = path ? stk__set_join(s->dir, stk__base_name(path)) : NULL;
    stk_status status =
        target ? stk__set_file_reopen(path, target, then->bytes, &s->files[i], err) : stk__nomem(strlen(s->data), err);
    stk__free(path);
    stk__free(target);
    STK_TRY(status);
    const stk__file_digest now = stk__set_file_digest(s->files[i]);
    if (now.high == then->digest.high && now.low == then->digest.low)
        return STK_OK;
    return stk_error_set(err, STK_MISMATCH, "its first %" PRId64 " bytes are not what was written", then->bytes);
}

static stk_status reopen_files(stk__set *s, const stk__set_state *state, stk_error *err)
{
    for (int64_t i = 0; i < s->shards; i++) {
        stk_error found;
        stk_error_clear(&found);
        const stk_status status = reopen_file(s, i, &state->files[i], &found);
        if (status == STK_NOMEM && err)
            *err = found;
        if (status == STK_NOMEM)
            return status;
        if (status != STK_OK)
            return stk_error_set(err, STK_MISMATCH,
                                 "file %" PRId64 " of the output kept in '%.400s' is not as it was (%.300s): start "
                                 "again without --resume",
                                 i, s->hidden.temp, found.message);
    }
    return STK_OK;
}

static stk_status resume_kept(stk__set *s, stk__file_digest wanted, int64_t *out_rows, stk__text *extra, stk_error *err)
{
    stk__set_state state = {0};
    STK_TRY(find_state(s, wanted, &state, err));
    stk_status status = STK_OK;
    if (strcmp(state.pattern, s->pattern) != 0 || state.count != (size_t)s->shards)
        status =
            stk_error_set(err, STK_MISMATCH, "the checkpoint is of %zu files '%.250s', wanted %" PRId64 " of '%.250s'",
                          state.count, state.pattern, s->shards, s->pattern);
    if (status == STK_OK)
        status = open_data(s, err);
    if (status == STK_OK) {
        remove_added(s);
        status = reopen_files(s, &state, err);
    }
    if (status == STK_OK) {
        stk__text_write(extra, state.extra, state.extra_size);
        *out_rows = state.rows;
        status = extra->failed ? stk__nomem(state.extra_size, err) : STK_OK;
    }
    stk__set_state_clear(&state);
    return status;
}

/* A run that was killed between publication and its last checkpoint has nothing left to do. */
static bool was_finished(const stk__set *s, stk__file_digest *out)
{
    size_t size;
    char *text = get_file(s, FINAL_NAME, &size);
    const bool finished = text && stk__file_digest_parse(text, out) && is_published(s, *out);
    stk__free(text);
    return finished;
}

/* "1000 HEX", "1000 done HEX" */
static bool read_token(const char *token, int64_t *rows, bool *done, stk__file_digest *digest)
{
    char *end;
    *rows = strtoll(token, &end, 10);
    if (end == token || *rows < 0 || *end != ' ')
        return false;
    *done = strncmp(end + 1, "done ", 5) == 0;
    return stk__file_digest_parse(end + (*done ? 6 : 1), digest);
}

static stk_status resume_set(stk__set *s, const char *token, int64_t *out_rows, bool *out_done, stk__text *extra,
                             stk_error *err)
{
    stk__file_digest digest;
    if (!read_token(token, out_rows, out_done, &digest))
        return stk_error_set(err, STK_MISMATCH, "the checkpoint says '%.60s' of its output, which is not understood",
                             token);
    STK_TRY(stk__sets_settle(s->dir, err));
    if (*out_done) {
        if (!is_published(s, digest))
            return stk_error_set(err, STK_MISMATCH,
                                 "the run was done, but the set in '%.400s' is not the one that it wrote", s->dir);
        stk__set_keep_forget(s);
    } else {
        stk__set_place place;
        STK_TRY(stk__set_look(s, &place, err));
        STK_TRY(find_kept(s, err));
        *out_done = was_finished(s, &digest);
    }
    s->published = *out_done;
    s->published_digest = digest;
    return *out_done ? STK_OK : resume_kept(s, digest, out_rows, extra, err);
}

stk_status stk__set_resume(const stk__set_config *config, const char *token, stk__set **out, int64_t *out_rows,
                           bool *out_done, stk__text *out_extra, stk_error *err)
{
    stk__set *s;
    stk__set_config kept = *config;
    kept.keep =
        true; /* also where this run makes no checkpoints: the one that it came from stays good until it is through */
    STK_TRY(stk__set_new(&kept, &s, err));
    const stk_status status = resume_set(s, token, out_rows, out_done, out_extra, err);
    if (status != STK_OK) {
        stk__set_close(s);
        return status;
    }
    *out = s;
    return STK_OK;
}
