/* Fuzzes the reader of Nsight Systems' databases: any bytes give a trace whose events are all accounted for, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const stk__trace *t)
{
    if (t->slices.count > t->files[0].events)
        abort();
    for (size_t i = 0; i < t->slices.count; i++) {
        if (t->slices.dur[i] < 0 || t->slices.track[i] >= t->track_count || t->slices.name[i] >= t->string_count)
            abort();
    }
}

/* A table may have itself as a child: rows without end are stopped as a user would. */
static bool go_on(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    return ++*(int *)arg < 200;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__builder *b;
    stk__input *in;
    stk__trace *t;
    int calls = 0;
    (void)stk__reader_nsys.detect(data, size, true);
    if (stk__builder_new(&(stk__trace_options){.progress = go_on, .progress_arg = &calls}, &b, NULL) != STK_OK)
        return 0;
    if (stk__input_open_memory(data, size, &in, NULL) != STK_OK) {
        stk__builder_free(b);
        return 0;
    }
    const stk_status status = stk__trace_read(b, in, "nsys", NULL);
    stk__input_close(in);
    if (status != STK_OK) {
        stk__builder_free(b);
    } else if (stk__builder_finish(b, &t, NULL) == STK_OK) {
        check(t);
        stk__trace_free(t);
    }
    return 0;
}
