/* Steps of TensorFlow 1: its timeline holds one call of Session.run, so that each file is one step. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/steps_impl.h"
#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

static bool *timelines_new(const stk__trace *t, size_t *out_count)
{
    bool *is = stk__calloc(t->file_count + 1, sizeof *is);
    *out_count = 0;
    for (size_t i = 0; is && i < t->fact_count; i++) {
        const stk__trace_fact *f = &t->facts[i];
        if (f->file >= t->file_count || is[f->file] || strcmp(stk__trace_str(t, f->key), STK__FACT_TIMELINE) != 0 ||
            strcmp(stk__trace_str(t, f->value), STK__TIMELINE_TF1) != 0)
            continue;
        is[f->file] = true;
        ++*out_count;
    }
    return is;
}

/* "run/timeline-100.json" is step 100. */
static int64_t number_of(const char *path)
{
    const char *name = strrchr(path, '/'), *end;
    int64_t n;
    char digits[20];
    name = name ? name + 1 : path;
    end = name + strcspn(name, ".");
    size_t count = 0;
    while (end - count > name && isdigit((unsigned char)end[-1 - (ptrdiff_t)count]))
        count++;
    if (!count || count >= sizeof digits)
        return STK__NO_NUMBER;
    memcpy(digits, end - count, count);
    digits[count] = 0;
    return stk__parse_int64(digits, &n) ? n : STK__NO_NUMBER;
}

/* From the first op to the last one's end. Arrows and sizes of tensors are in processes of their own. */
static bool step_of_file(const stk__classifier *c, uint32_t file, stk__step *out)
{
    const stk__trace *t = c->trace;
    int64_t end = INT64_MIN;
    *out = (stk__step){.file = file, .process = STK__NONE, .ts = INT64_MAX, .slice = STK__NONE};
    out->kind = STK__STEP_TIMELINE;
    out->number = number_of(stk__trace_str(t, t->files[file].path));
    for (size_t k = 0; k < t->track_count; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (track->file != file || !track->slice_count)
            continue;
        if (out->process == STK__NONE && c->roles[k] == STK__ROLE_HOST)
            out->process = stk__track_process(t, (uint32_t)k);
        for (size_t i = track->first_slice, last = i + track->slice_count; i < last; i++) {
            stk__trim_at(t, i);
            out->ts = STK_MIN(out->ts, t->slices.ts[i]);
            end = STK_MAX(end, t->slices.ts[i] + t->slices.dur[i]);
        }
    }
    out->dur = stk__time_between(out->ts, end);
    return out->dur > 0;
}

static int by_process_and_time(const void *a, const void *b)
{
    const stk__step *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return (x->ts > y->ts) - (x->ts < y->ts);
}

/* Runs of one process follow each other; what overlaps the one before is another session, and left out. */
static void keep_apart(stk__steps *steps)
{
    size_t kept = 0;
    for (size_t i = 0; i < steps->count; i++) {
        const stk__step *last = kept ? &steps->rows[kept - 1] : NULL;
        const bool same = last && last->process == steps->rows[i].process;
        if (same && steps->rows[i].ts < last->ts + last->dur)
            continue;
        steps->rows[kept] = steps->rows[i];
        if (steps->rows[kept].number == STK__NO_NUMBER)
            steps->rows[kept].number = same ? steps->rows[kept - 1].number + 1 : 0;
        kept++;
    }
    steps->count = kept;
}

stk_status stk__steps_of_timelines(const stk__classifier *c, stk__steps *out, stk_error *err)
{
    const stk__trace *t = c->trace;
    size_t count;
    bool *is = timelines_new(t, &count);
    out->rows = is && count ? stk__calloc(count, sizeof *out->rows) : NULL;
    if (!is || (count && !out->rows)) {
        stk__free(is);
        return stk__nomem((t->file_count + count) * sizeof(stk__step), err);
    }
    for (size_t f = 0; f < t->file_count; f++)
        if (is[f] && step_of_file(c, (uint32_t)f, &out->rows[out->count]))
            out->count++;
    stk__free(is);
    if (!out->count) {
        stk__steps_clear(out);
        return STK_OK;
    }
    qsort(out->rows, out->count, sizeof *out->rows, by_process_and_time);
    keep_apart(out);
    out->from = STK__STEPS_MARKERS;
    out->confidence = 1;
    snprintf(out->marker, sizeof out->marker, "timeline");
    return STK_OK;
}
