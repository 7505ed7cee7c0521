/* Bad records: counted, listed, and stopped when there are too many. */
#include <errno.h>
#include <string.h>

#include "engine/run.h"

#include "base/banned.h"

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

stk_status stk__quarantine_open(stk_pipeline *p, stk_error *err)
{
    if (p->plan.config.on_error != STK_ON_ERROR_QUARANTINE)
        return STK_OK;
    const char *path = p->plan.config.quarantine_path;
    if (!path)
        return stk_error_set(err, STK_INVALID, "quarantine needs the name of a file");
    /* A resumed run adds to its list; a new run starts it anew. */
    p->quarantine = fopen(path, stk__resumes(p) ? "ae" : "we");
    if (!p->quarantine) {
        stk_error_set(err, STK_IO, "cannot create: %s", strerror(errno));
        if (err)
            snprintf(err->file, sizeof err->file, "%s", path);
        return STK_IO;
    }
    return STK_OK;
}

/* One JSON object on one line. */
static void write_entry(FILE *out, const stk_error *error, int64_t size_bytes)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"file\":");
    stk__text_json_str(&t, error->file);
    stk__text_printf(&t, ",\"offset\":%lld,\"record\":%lld,\"bytes\":%lld,\"op\":", (long long)error->offset,
                     (long long)error->record, (long long)size_bytes);
    stk__text_json_str(&t, error->op);
    stk__text_puts(&t, ",\"field\":");
    stk__text_json_str(&t, error->field);
    stk__text_puts(&t, ",\"error\":");
    stk__text_json_str(&t, error->message);
    stk__text_puts(&t, "}\n");
    if (t.data)
        fwrite(t.data, 1, t.length, out);
    stk__text_clear(&t);
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
    if (p->quarantine) {
        write_entry(p->quarantine, &bad->error, bad->origin.size_bytes);
        if (fflush(p->quarantine)) {
            stk_error_set(err, STK_IO, "cannot write: %s", strerror(errno));
            if (err)
                snprintf(err->file, sizeof err->file, "%s", p->plan.config.quarantine_path);
            return STK_IO;
        }
        place->quarantined++;
    }
    return STK_OK;
}
