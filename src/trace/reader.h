/* What a format that can be read has to offer. One file per format: read_NAME.c, with its line in readers.c. */
#ifndef STK_TRACE_READER_H
#define STK_TRACE_READER_H

#include "trace/builder.h"
#include "trace/input.h"

typedef struct stk__reader {
    const char *name;    /* "chrome" */
    const char *summary; /* "Chrome JSON: TensorFlow timeline, PyTorch Kineto, Chrome, DFTracer" */
    /*
     * How sure it is, 0 to 100, from the first bytes (up to 64 KiB, `whole` when these are the whole file). 100: a magic number; 50: looks
     * right; 0: not this format. The best one wins, on a tie the earlier in the list.
     */
    int (*detect)(const uint8_t *data, size_t size, bool whole);
    /*
     * Reads all of `in` into the builder, whose file has been started. Damage is noted, never an error: a failure is only what keeps the
     * whole file from being read (out of memory, cancelled, not this format at all).
     */
    stk_status (*read)(stk__builder *b, stk__input *in, stk_error *err);
} stk__reader;

extern const stk__reader stk__reader_chrome, stk__reader_perfetto, stk__reader_xplane, stk__reader_pstats,
    stk__reader_collapsed, stk__reader_speedscope, stk__reader_perf_script, stk__reader_flamegraph,
    stk__reader_snapshot, stk__reader_nsys;

/* For detect: whether the bytes have this text; and where they start behind spaces and a byte order mark. */
bool stk__bytes_contain(const uint8_t *data, size_t size, const char *text);
size_t stk__bytes_start(const uint8_t *data, size_t size);

/* All of them; ends with NULL. */
extern const stk__reader *const stk__readers[];
const stk__reader *stk__reader_find(const char *name);
const stk__reader *stk__reader_detect(const uint8_t *data, size_t size, bool whole);

/* Reads one input into a builder: detects, starts the file, reads, notes damage of the compression. */
stk_status stk__trace_read(stk__builder *b, stk__input *in, const char *format, stk_error *err);

/* Readers call it about once per block: passes progress on, and returns the builder's failure or STK_CANCELLED. */
stk_status stk__reader_progress(stk__builder *b, stk__input *in, stk_error *err);

#endif
