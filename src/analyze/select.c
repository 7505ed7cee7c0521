/* Selections: shell patterns, and which names, categories and tracks they choose. */
#include "analyze/select.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* ---- patterns ---- */

/* One character: a code point, or a byte that belongs to none. */
static size_t char_length(const char *s)
{
    const size_t length = stk__utf8_length((const unsigned char *)s, strnlen(s, 4));
    return length ? length : 1;
}

/* Bytes of UTF-8 compare as their code points do. */
static int char_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, STK_MIN(a_length, b_length));
    return order ? order : (int)a_length - (int)b_length;
}

/* A member of a class, which may be escaped. */
static const char *class_member(const char *p, const char **out, size_t *out_length)
{
    if (*p == '\\' && p[1])
        p++;
    *out = p;
    *out_length = char_length(p);
    return p + *out_length;
}

/* The class after '[': returns what follows its ']', or NULL when it never ends and '[' is only a character. */
static const char *match_class(const char *p, const char *text, bool *out_match)
{
    const bool negated = *p == '!' || *p == '^';
    if (negated)
        p++;
    const size_t length = char_length(text);
    bool found = false;
    for (bool first = true; *p && (first || *p != ']'); first = false) {
        const char *low, *high;
        size_t low_length, high_length;
        p = class_member(p, &low, &low_length);
        high = low;
        high_length = low_length;
        if (p[0] == '-' && p[1] && p[1] != ']')
            p = class_member(p + 1, &high, &high_length);
        if (char_compare(text, length, low, low_length) >= 0 && char_compare(text, length, high, high_length) <= 0)
            found = true;
    }
    if (*p != ']')
        return NULL;
    *out_match = found != negated;
    return p + 1;
}

/* Matches one element of the pattern, which is no '*', against one character; returns what follows it, or NULL. */
static const char *match_one(const char *p, const char *text)
{
    if (*p == '?')
        return p + 1;
    if (*p == '[') {
        bool match = false;
        const char *next = match_class(p + 1, text, &match);
        if (next)
            return match ? next : NULL;
    }
    if (*p == '\\' && p[1])
        p++;
    const size_t length = char_length(text);
    return strncmp(p, text, length) == 0 ? p + length : NULL;
}

bool stk__like(const char *pattern, const char *text)
{
    /* Where to go on when a match fails: one character more for the last '*'. Earlier ones never need another try. */
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
            continue;
        }
        const char *next = *pattern ? match_one(pattern, text) : NULL;
        if (next) {
            pattern = next;
            text += char_length(text);
        } else if (star) {
            resume += char_length(resume);
            text = resume;
            pattern = star;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool like_any(const char *const *patterns, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (stk__like(patterns[i], text))
            return true;
    }
    return false;
}

/* ---- what a profiler writes about itself ---- */

bool stk__profiler_name(const char *name)
{
    static const char *const starts[] = {"PyTorch Profiler (", "Iteration Start: ", "Record Window End"};
    if (*name != 'P' && *name != 'I' && *name != 'R')
        return false;
    for (size_t i = 0; i < STK_COUNT(starts); i++) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

stk__string stk__profiler_category(const stk__trace *t)
{
    for (stk__string s = 1; s < t->string_count; s++) {
        const char *text = stk__trace_str(t, s);
        if (*text == 'o' && strcmp(text, "overhead") == 0)
            return s;
    }
    return 0;
}

/* ---- what a selection chooses in one trace ---- */

uint32_t stk__track_root(const stk__trace *t, uint32_t track)
{
    /* A chain of lanes is no longer than the table, whatever a damaged file says. */
    for (size_t i = 0; i < t->track_count && t->tracks[track].lane && t->tracks[track].parent < t->track_count; i++)
        track = t->tracks[track].parent;
    return track;
}

uint32_t stk__track_of_thread(const stk__trace *t, uint32_t track)
{
    const uint32_t root = stk__track_root(t, track), thread = t->tracks[root].thread;
    if (t->tracks[root].kind != STK__TRACK_THREAD || thread >= t->thread_count)
        return root;
    return t->threads[thread].track < t->track_count ? t->threads[thread].track : root;
}

size_t stk__first_from(const stk__trace *t, const stk__trace_track *k, int64_t ts)
{
    size_t low = k->first_slice, high = low + k->slice_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->slices.ts[middle] < ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool stk__files_are(const stk__trace *t, const char *format)
{
    for (size_t i = 0; i < t->file_count; i++)
        if (strcmp(stk__trace_str(t, t->files[i].format), format) != 0)
            return false;
    return t->file_count > 0;
}

bool stk__contains(const char *s, size_t size, const char *part)
{
    const size_t n = strlen(part);
    const char *end = s + size;
    for (const char *p = s; (size_t)(end - p) >= n; p++) {
        p = memchr(p, part[0], (size_t)(end - p) - n + 1);
        if (!p)
            return false;
        if (memcmp(p, part, n) == 0)
            return true;
    }
    return false;
}

bool stk__chosen_try_name(stk__chosen *c, stk__string s)
{
    const bool yes = like_any(c->select->like, c->select->like_count, stk__trace_str(c->trace, s));
    c->names[s] = yes ? 2 : 1;
    return yes;
}

/* Chrome writes several categories as "a,b". */
static bool like_any_part(const stk__selection *select, const char *text)
{
    if (like_any(select->category, select->category_count, text))
        return true;
    while (*text) {
        char part[256];
        const size_t length = strcspn(text, ",");
        if (length && length < sizeof part) {
            memcpy(part, text, length);
            part[length] = '\0';
            if (like_any(select->category, select->category_count, part))
                return true;
        }
        text += length + (text[length] == ',');
    }
    return false;
}

bool stk__chosen_try_category(stk__chosen *c, stk__string s)
{
    const bool yes = like_any_part(c->select, stk__trace_str(c->trace, s));
    c->categories[s] = yes ? 2 : 1;
    return yes;
}

/* What people call it when there is only one process. */
static const char *own_name(const stk__trace *t, const stk__trace_track *track)
{
    if (track->name || track->thread >= t->thread_count)
        return stk__trace_str(t, track->name);
    const stk__trace_thread *thread = &t->threads[track->thread];
    return stk__trace_str(t, thread->name ? thread->name : thread->tid_text);
}

static stk_status choose_tracks(stk__chosen *c, stk_error *err)
{
    const stk__trace *t = c->trace;
    c->tracks = stk__calloc(t->track_count + 1, sizeof *c->tracks);
    if (!c->tracks)
        return stk__nomem(t->track_count + 1, err);
    stk__text label = STK__TEXT_INIT;
    for (uint32_t i = 0; i < t->track_count; i++) {
        stk__text_reset(&label);
        stk__trace_track_label(t, i, &label);
        if (!label.failed)
            c->tracks[i] = like_any(c->select->track, c->select->track_count, label.data ? label.data : "") ||
                           like_any(c->select->track, c->select->track_count, own_name(t, &t->tracks[i]));
    }
    for (uint32_t i = 0; i < t->track_count; i++) {
        if (c->tracks[stk__track_root(t, i)])
            c->tracks[i] = true;
    }
    const bool failed = label.failed;
    stk__text_clear(&label);
    return failed ? stk__nomem(256, err) : STK_OK;
}

static stk_status leave_out_profiler(stk__chosen *c, stk_error *err)
{
    const stk__trace *t = c->trace;
    c->profiler_category = stk__profiler_category(t);
    c->profiler = stk__calloc((size_t)t->string_count + 1, sizeof *c->profiler);
    if (!c->profiler)
        return stk__nomem(t->string_count, err);
    for (stk__string s = 1; s < t->string_count; s++)
        c->profiler[s] = stk__profiler_name(stk__trace_str(t, s));
    return STK_OK;
}

stk_status stk__chosen_init(stk__chosen *c, const stk__trace *t, const stk__selection *select, stk_error *err)
{
    *c = (stk__chosen){.trace = t, .select = select};
    if (!select)
        return STK_OK;
    c->timed = select->from_ns != 0 || select->to_ns != 0;
    c->from_ns = select->from_ns;
    c->to_ns = select->to_ns;
    const size_t strings = (size_t)t->string_count + 1;
    bool good = true;
    if (select->like_count)
        good = (c->names = stk__calloc(strings, 1)) != NULL;
    if (good && select->category_count)
        good = (c->categories = stk__calloc(strings, 1)) != NULL;
    stk_status status = good ? STK_OK : stk__nomem(strings, err);
    if (status == STK_OK && select->track_count)
        status = choose_tracks(c, err);
    if (status == STK_OK && select->leave_out)
        status = leave_out_profiler(c, err);
    if (status != STK_OK)
        stk__chosen_clear(c);
    return status;
}

void stk__chosen_clear(stk__chosen *c)
{
    stk__free(c->names);
    stk__free(c->categories);
    stk__free(c->tracks);
    stk__free(c->profiler);
    *c = (stk__chosen){0};
}
