/* Bad records: counted, listed, and stopped when there are too many. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "engine/run.h"

#include "base/banned.h"

/* A line has a path, an op, a field and a message, all of them bounded. */
#define LINE_MAX_BYTES (64 * 1024)

void stk__error_origin(stk_error *err, const stk_origin *origin, const char *op)
{
    if (origin->file && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", origin->file);
    if (err->offset < 0)
        err->offset = origin->offset;
    if (err->record < 0)
        err->record = origin->record;
    if (!err->op[0])
        snprintf(err->op, sizeof err->op, "%s", op);
}

static stk_status list_error(const stk_pipeline *p, stk_status status, const char *what, stk_error *err)
{
    stk_error_set(err, status, "%s: %s", what, strerror(errno));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", p->plan.config.quarantine_path);
    return status;
}

/* The hash of a list, line by line, so that it can be told at every record. */
static uint64_t check_line(uint64_t check, const char *line, size_t size)
{
    return XXH3_64bits_withSeed(line, size, check);
}

/* Whether the list starts with these bytes, whole lines with this hash; `line` is room for one. */
static bool starts_with(FILE *list, int64_t bytes, uint64_t check, char *line)
{
    uint64_t found = 0;
    while (bytes > 0 && fgets(line, LINE_MAX_BYTES, list)) {
        const size_t n = strlen(line);
        if (n == 0 || line[n - 1] != '\n' || (int64_t)n > bytes)
            return false; /* no line of ours */
        found = check_line(found, line, n);
        bytes -= (int64_t)n;
    }
    return bytes == 0 && found == check;
}

static stk_status check_start(const stk_pipeline *p, FILE *list, stk_error *err)
{
    const stk__place *place = &p->place;
    char *line = stk__alloc(LINE_MAX_BYTES);
    if (!line)
        return stk__nomem(LINE_MAX_BYTES, err);
    const bool ours = starts_with(list, place->listed_bytes, place->listed_check, line);
    stk__free(line);
    if (ours)
        return STK_OK;
    stk_error_set(
        err, STK_MISMATCH,
        "is not the list that the run left: it had %lld bad records in %lld bytes at the checkpoint; bring it back, or "
        "give another name, for a list of those from here on",
        (long long)place->quarantined, (long long)place->listed_bytes);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", p->plan.config.quarantine_path);
    return STK_MISMATCH;
}

static void warn_of_gap(const stk_pipeline *p)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(
        &t,
        "%lld bad records were listed before the checkpoint, and '%s' does not have them: it lists those from "
        "here on",
        (long long)p->place.quarantined, p->plan.config.quarantine_path);
    if (p->plan.config.log && t.data)
        p->plan.config.log(p->plan.config.log_arg, STK_LOG_WARNING, t.data);
    stk__text_clear(&t);
}

/* A list without what came before the checkpoint: the count is that of its lines. */
static void begin_list(stk_pipeline *p)
{
    p->place.quarantined = p->place.listed_bytes = 0;
    p->place.listed_check = 0;
}

/*
 * The list of a run that goes on has the lines up to the checkpoint, and often some of records behind it, which will be met
 * again: they are cut off. What was never ours is left alone.
 */
static stk_status cut_back(stk_pipeline *p, FILE *list, stk_error *err)
{
    struct stat st;
    if (fstat(fileno(list), &st))
        return list_error(p, STK_IO, "cannot look at it", err);
    if (!S_ISREG(st.st_mode))
        return STK_OK;
    if (st.st_size == 0 && p->place.listed_bytes > 0) {
        warn_of_gap(p);
        begin_list(p);
    }
    STK_TRY(check_start(p, list, err));
    if (ftruncate(fileno(list), p->place.listed_bytes) || fseeko(list, 0, SEEK_END))
        return list_error(p, STK_IO, "cannot be cut back", err);
    return STK_OK;
}

/* To read and to write, created where there is none. */
static FILE *open_again(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FILE *list = fd >= 0 ? fdopen(fd, "r+") : NULL;
    if (fd >= 0 && !list)
        close(fd);
    return list;
}

stk_status stk__quarantine_open(stk_pipeline *p, stk_error *err)
{
    if (p->plan.config.on_error != STK_ON_ERROR_QUARANTINE)
        return STK_OK;
    const char *path = p->plan.config.quarantine_path;
    if (!path)
        return stk_error_set(err, STK_INVALID, "quarantine needs the name of a file");
    p->quarantine = p->resumed ? open_again(path) : fopen(path, "we");
    if (!p->quarantine)
        return list_error(p, STK_IO, "cannot create", err);
    return p->resumed ? cut_back(p, p->quarantine, err) : STK_OK;
}

stk_status stk__quarantine_sync(stk_pipeline *p, stk_error *err)
{
    stk_status status = STK_OK;
    pthread_mutex_lock(&p->list_lock);
    /* EINVAL and EROFS: a pipe or a terminal, which keeps nothing. */
    if (p->quarantine && fdatasync(fileno(p->quarantine)) && errno != EINVAL && errno != EROFS)
        status = list_error(p, STK_IO, "cannot write", err);
    pthread_mutex_unlock(&p->list_lock);
    return status;
}

void stk__quarantine_close(stk_pipeline *p)
{
    pthread_mutex_lock(&p->list_lock);
    if (p->quarantine)
        fclose(p->quarantine);
    p->quarantine = NULL;
    pthread_mutex_unlock(&p->list_lock);
}

/* One JSON object on one line. */
static void print_entry(stk__text *t, const stk_error *error, int64_t size_bytes)
{
    stk__text_puts(t, "{\"file\":");
    stk__text_json_str(t, error->file);
    stk__text_printf(t, ",\"offset\":%lld,\"record\":%lld,\"bytes\":%lld,\"op\":", (long long)error->offset,
                     (long long)error->record, (long long)size_bytes);
    stk__text_json_str(t, error->op);
    stk__text_puts(t, ",\"field\":");
    stk__text_json_str(t, error->field);
    stk__text_puts(t, ",\"error\":");
    stk__text_json_str(t, error->message);
    stk__text_puts(t, "}\n");
}

static stk_status add_to_list(stk_pipeline *p, const stk__bad *bad, stk__place *place, stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    print_entry(&t, &bad->error, bad->origin.size_bytes);
    stk_status status = t.failed ? stk__nomem(t.length, err) : STK_OK;
    pthread_mutex_lock(&p->list_lock);
    if (status == STK_OK && (fwrite(t.data, 1, t.length, p->quarantine) != t.length || fflush(p->quarantine)))
        status = list_error(p, STK_IO, "cannot write", err);
    pthread_mutex_unlock(&p->list_lock);
    if (status == STK_OK) {
        place->quarantined++;
        place->listed_bytes += (int64_t)t.length;
        place->listed_check = check_line(place->listed_check, t.data, t.length);
    }
    stk__text_clear(&t);
    return status;
}

stk_status stk__count_bad(stk_pipeline *p, const stk__bad *bad, stk__place *place, stk_error *err)
{
    place->skipped++;
    const int64_t limit = p->plan.config.max_errors;
    if (limit > 0 && place->skipped > limit) {
        *err = bad->error;
        char message[sizeof err->message];
        snprintf(message, sizeof message, "%s", bad->error.message);
        return stk_error_set(err, STK_LIMIT, "more than %lld bad records; the last: %.400s", (long long)limit, message);
    }
    return p->plan.config.on_error == STK_ON_ERROR_QUARANTINE ? add_to_list(p, bad, place, err) : STK_OK;
}
