/* What a trace format has to offer, and the file that it writes to. */
#ifndef STK_TRACE_RECORDER_FORMAT_H
#define STK_TRACE_RECORDER_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/trace.h>

#include "base/str.h"
#include "trace/ring.h"

/* A stretch of the file that can be read without those before it. */
typedef struct stk__segment {
    uint64_t bytes;       /* in the file */
    uint64_t plain_bytes; /* before they were compressed */
    uint32_t crc;         /* of the plain bytes; of a .gz alone */
} stk__segment;

enum { STK__SEGMENTS = 4 };

/*
 * A file that grows: bytes are buffered, compressed on demand, and handed to the system at every flush. The first
 * failure is kept, and what comes after it is thrown away, so that the file ends with what could be written.
 * It begins with a head; the rest are segments, of which the oldest can be taken out.
 */
typedef struct stk__output {
    char *path;
    int fd;
    uint64_t bytes_written; /* in the file */
    stk__segment head;
    stk__segment segments[STK__SEGMENTS]; /* that have ended, oldest first */
    size_t segment_count;
    stk__segment current; /* the one that grows; the head at first */
    uint8_t *buffer;        /* plain bytes that wait */
    size_t used;
    void *deflate;       /* z_stream of a .gz, else NULL */
    uint8_t *compressed; /* of a .gz, else NULL */
    stk_error error;     /* status STK_OK while all is well */
} stk__output;

/* Memory that an output takes, zlib's own included. */
size_t stk__output_bytes(bool gzip);
/* `rolls`: segments will be taken out, which wants a plain file. On failure nothing is left to close. */
stk_status stk__output_open(stk__output *o, const char *path, bool gzip, bool rolls, stk_error *err);
void stk__output_write(stk__output *o, const void *data, size_t size);
void stk__output_flush(stk__output *o);
/* What was written so far is the head. */
void stk__output_end_head(stk__output *o);
/* Ends the segment; there are at most STK__SEGMENTS that have ended. */
void stk__output_end_segment(stk__output *o);
/*
 * Takes the oldest segment out: the rest goes to a new file, which takes the place of this one. Whoever reads meanwhile,
 * or after a crash, finds the one or the other.
 */
void stk__output_drop_oldest(stk__output *o);
/* Flushes, closes and frees. Returns the first failure since the opening. `out_bytes` (the file's) may be NULL. */
stk_status stk__output_close(stk__output *o, uint64_t *out_bytes, stk_error *err);

/* A name with its category, which is the number of another name; 0: no category. Valid UTF-8 without control bytes. */
typedef struct stk__name {
    char *text;
    int32_t category;
} stk__name;

/* Longest name in bytes, with the NUL; longer ones are cut. */
enum { STK__NAME_SIZE = 256 };

/* A row of the timeline. */
typedef struct stk__row {
    uint32_t id;     /* from 1, one for each row */
    uint32_t parent; /* id of the thread's row that this row belongs to; 0: it is the thread's own row */
    int64_t tid;     /* the thread's */
    const char *name;
} stk__row;

typedef struct stk__total {
    const char *row;
    int32_t name;
    uint64_t count, total_ns, lost;
} stk__total;

typedef struct stk__writer stk__writer;

/*
 * Calls come from one thread at a time: head (may be NULL), start, rows before their events, begins and ends in order,
 * totals, finish. A new segment begins with start and all rows once more, so that it can do without those before it.
 */
typedef struct stk__format {
    void (*head)(stk__writer *w);
    void (*start)(stk__writer *w);
    void (*row)(stk__writer *w, const stk__row *row);
    void (*begin)(stk__writer *w, const stk__row *row, const stk__event *slice, int64_t start_ns);
    void (*end)(stk__writer *w, const stk__row *row, int64_t end_ns);
    void (*counter)(stk__writer *w, const stk__event *event);
    void (*total)(stk__writer *w, const stk__total *total, int64_t at_ns);
    void (*finish)(stk__writer *w, const stk_recorder_stats *stats, int64_t at_ns);
} stk__format;

struct stk__writer {
    /* set before start, then const */
    const stk__format *format;
    stk__output *output;
    const stk__name *names; /* by number; those that events use are never changed */
    char process[STK__NAME_SIZE];
    int64_t pid;
    uint32_t salt; /* differs from run to run, so that files can be joined end to end */

    uint8_t *written;     /* per name: bits of what the format has declared of it in this segment */
    bool further_segment; /* not the first one of the run */
};

extern const stk__format stk__format_perfetto;
extern const stk__format stk__format_chrome;

#endif
