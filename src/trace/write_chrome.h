/* What the files of the Chrome writer share: who does what, as ready pieces of JSON. */
#ifndef STK_TRACE_WRITE_CHROME_H
#define STK_TRACE_WRITE_CHROME_H

#include "trace/labels.h"
#include "trace/writer.h"

/* Ids as they are written. Files that are joined may use one pid for different processes. */
typedef struct stk__chrome_ids {
    const stk__trace *t;
    stk__labels pids;       /* by process: 12 or "Spans" */
    stk__labels who;        /* by track: ,"pid":12,"tid":3 */
    stk__labels async;      /* by track: ,"id2":{"local":"0x1"} for async ones, else empty */
    bool *own_tid;          /* by track: drawn as a thread that the file does not have */
    uint32_t *file_process; /* by file: its first process, or STK__NONE */
    bool *renumbered;       /* by process: the pid is not the file's */
    int64_t free_pid;       /* no process has it */
    int64_t first_tid;      /* tid of track 0, of those that get one of their own; no thread has it or a higher one */
} stk__chrome_ids;

stk_status stk__chrome_ids_make(stk__chrome_ids *ids, const stk__trace *t, stk_error *err);
void stk__chrome_ids_clear(stk__chrome_ids *ids);

/* The track that a lane belongs to. The format knows no lanes: slices overlap there as they did in the file. */
uint32_t stk__chrome_root(const stk__trace *t, uint32_t track);

/* Slices of one id. A named track beside its thread (Perfetto's child tracks) is drawn as a thread, to keep its name. */
static inline bool stk__chrome_async(const stk__trace *t, const stk__trace_track *k)
{
    return k->kind == STK__TRACK_ASYNC && !(k->name && k->thread < t->thread_count);
}

/* write_chrome_facts.c: members of the outer object, each behind a comma. False when memory is out. */
bool stk__chrome_facts(const stk__trace *t, stk__text *out);

#endif
