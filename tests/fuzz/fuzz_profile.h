/*
 * What the fuzz targets of profiles share: read bytes as a format, look at all that came of it, write it in both
 * formats.
 */
#ifndef STK_FUZZ_PROFILE_H
#define STK_FUZZ_PROFILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/reader.h"
#include "trace/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(const stk__trace *t)
{
    for (size_t i = 0; i < t->callsite_count; i++) {
        const uint32_t parent = t->callsites[i].parent;
        if ((parent != STK__NONE && parent >= i) || t->callsites[i].frame >= t->frame_count)
            abort();
    }
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.track[i] >= t->track_count ||
            (t->samples.callsite[i] != STK__NONE && t->samples.callsite[i] >= t->callsite_count))
            abort();
    }
    for (size_t i = 0; i < t->call_count; i++) {
        if (t->calls[i].caller >= t->function_count || t->calls[i].callee >= t->function_count)
            abort();
    }
}

/* Everything that the trace has is written or counted as lost. The file is never published. */
static inline void fuzz_write(const stk__trace *t, const stk__trace_writer *writer)
{
    char path[64];
    stk__sink *sink;
    stk__write_report r = {0};
    snprintf(path, sizeof path, "%s/stoker-fuzz-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    if (stk__sink_open(path, STK__SINK_PLAIN, &sink, NULL) != STK_OK)
        return;
    const stk_status status = writer->write(t, sink, &r, NULL);
    stk__sink_abort(sink);
    if (status != STK_OK)
        return;
    if (r.slices + r.lost_slices != t->slices.count || r.samples + r.lost_samples != t->samples.count ||
        r.functions + r.lost_functions != t->function_count)
        abort();
}

static inline int fuzz_profile(const uint8_t *data, size_t size, const stk__reader *reader)
{
    stk__input *in;
    stk__builder *b;
    stk__trace *t;
    for (size_t i = 0; stk__readers[i]; i++) {
        const int score = stk__readers[i]->detect(data, size, true);
        if (score < 0 || score > 100)
            abort();
    }
    if (stk__input_open_memory(data, size, &in, NULL) != STK_OK)
        return 0;
    if (stk__builder_new(NULL, &b, NULL) == STK_OK) {
        if (stk__trace_read(b, in, reader->name, NULL) != STK_OK) {
            stk__builder_free(b);
        } else if (stk__builder_finish(b, &t, NULL) == STK_OK) {
            fuzz_check(t);
            fuzz_write(t, &stk__writer_collapsed);
            fuzz_write(t, &stk__writer_speedscope);
            stk__trace_free(t);
        }
    }
    stk__input_close(in);
    return 0;
}

#endif
