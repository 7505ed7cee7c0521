/* Fuzzes the xplane reader: any bytes give a trace whose events are all accounted for. */
#include <stdint.h>
#include <stdlib.h>

#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const stk__trace *t, size_t size)
{
    if (t->slices.count > t->files[0].events || t->files[0].events > size || t->files[0].text_bytes > size)
        abort();
    for (size_t i = 0; i < t->slices.count; i++) {
        if (t->slices.dur[i] < 0 || t->slices.track[i] >= t->track_count || t->slices.name[i] >= t->string_count)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__builder *b;
    stk__input *in;
    stk__trace *t;
    const bool plain = size < 4 || !((data[0] == 0x1f && data[1] == 0x8b) || (data[0] == 0x28 && data[1] == 0xb5));
    (void)stk__reader_xplane.detect(data, size, true);
    if (stk__builder_new(&(stk__trace_options){0}, &b, NULL) != STK_OK)
        return 0;
    if (stk__input_open_memory(data, size, &in, NULL) != STK_OK) {
        stk__builder_free(b);
        return 0;
    }
    const stk_status status = stk__trace_read(b, in, "xplane", NULL);
    stk__input_close(in);
    if (status != STK_OK) {
        stk__builder_free(b);
    } else if (stk__builder_finish(b, &t, NULL) == STK_OK) {
        if (plain)
            check(t, size);
        stk__trace_free(t);
    }
    return 0;
}
