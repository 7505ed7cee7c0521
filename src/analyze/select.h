/* Which slices a question is about, and how they are grouped. */
#ifndef STK_ANALYZE_SELECT_H
#define STK_ANALYZE_SELECT_H

#include "trace/model.h"

/* Shell pattern: * ? [a-z] and \; case counts. A pattern without any of these must match the whole text. */
bool stk__like(const char *pattern, const char *text);

/* Empty or 0 fields select everything. */
typedef struct stk__selection {
    const char *const *like; /* names, any of them; shell patterns */
    size_t like_count;
    const char *const *category; /* the whole category, or one of its parts between commas */
    size_t category_count;
    const char *const *track; /* label of the track, or the name of its thread alone; lanes count as their track */
    size_t track_count;
    int64_t from_ns, to_ns; /* slices that touch [from, to); both 0: all */
    bool leave_out;         /* not what a profiler writes about itself */
} stk__selection;

/*
 * What a profiler writes about itself: Kineto's span over all that it recorded, the marks of its start and end, and the
 * time that it took from the program. By name; and the category of the last kind in this trace, 0: it is not there.
 */
bool stk__profiler_name(const char *name);
stk__string stk__profiler_category(const stk__trace *t);

/* The track that a lane belongs to; a track that is no lane is its own. */
uint32_t stk__track_root(const stk__trace *t, uint32_t track);
/* The same, and one track for a thread whose files were joined: each of these has a track of its own. */
uint32_t stk__track_of_thread(const stk__trace *t, uint32_t track);

/* First slice of the track that starts at `ts` or later; its end when none does. */
size_t stk__first_from(const stk__trace *t, const stk__trace_track *k, int64_t ts);
/* Whether there are files, and all of them are of this format. */
bool stk__files_are(const stk__trace *t, const char *format);
/* Whether a text of this size has the part in it. */
bool stk__contains(const char *s, size_t size, const char *part);

/* A selection made ready for many rows: a pattern is tried once per distinct text. One thread at a time. */
typedef struct stk__chosen {
    const stk__trace *trace;
    const stk__selection *select;
    uint8_t *names, *categories; /* by string: 0 not tried yet, 1 no, 2 yes; NULL: all */
    bool *tracks;                /* NULL: all */
    bool *profiler;              /* by string: a name that is left out; NULL: none is */
    stk__string profiler_category;
    bool timed;
    int64_t from_ns, to_ns;
} stk__chosen;

/* `select` may be NULL (everything); it and the trace must outlive the result. */
stk_status stk__chosen_init(stk__chosen *c, const stk__trace *t, const stk__selection *select, stk_error *err);
void stk__chosen_clear(stk__chosen *c);
bool stk__chosen_try_name(stk__chosen *c, stk__string s);
bool stk__chosen_try_category(stk__chosen *c, stk__string s);

static inline bool stk__chosen_name(stk__chosen *c, stk__string s)
{
    return !c->names || (c->names[s] ? c->names[s] == 2 : stk__chosen_try_name(c, s));
}

static inline bool stk__chosen_category(stk__chosen *c, stk__string s)
{
    return !c->categories || (c->categories[s] ? c->categories[s] == 2 : stk__chosen_try_category(c, s));
}

static inline bool stk__chosen_track(const stk__chosen *c, uint32_t track)
{
    return !c->tracks || c->tracks[track];
}

static inline bool stk__chosen_time(const stk__chosen *c, int64_t ts, int64_t dur)
{
    return !c->timed || (ts < c->to_ns && (ts >= c->from_ns || ts + dur > c->from_ns));
}

static inline bool stk__chosen_profiler(const stk__chosen *c, size_t i)
{
    const stk__slices *s = &c->trace->slices;
    return c->profiler && (c->profiler[s->name[i]] || (c->profiler_category && s->category[i] == c->profiler_category));
}

/* Name, category and time of a slice; the track is the caller's to ask about, once for all its slices. */
static inline bool stk__chosen_slice(stk__chosen *c, size_t i)
{
    const stk__slices *s = &c->trace->slices;
    return stk__chosen_name(c, s->name[i]) && stk__chosen_category(c, s->category[i]) &&
           stk__chosen_time(c, s->ts[i], s->dur[i]) && !stk__chosen_profiler(c, i);
}

#endif
