/* Fuzzes the Perfetto reader; what it makes of the bytes is written and read again, and must have the same slices. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "trace/perfetto.h"
#include "trace/reader.h"
#include "trace/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk__trace *read_bytes(const uint8_t *data, size_t size)
{
    stk__builder *b;
    stk__input *in;
    stk__trace *t = NULL;
    if (stk__builder_new(&(stk__trace_options){0}, &b, NULL) != STK_OK)
        return NULL;
    if (stk__input_open_memory(data, size, &in, NULL) != STK_OK) {
        stk__builder_free(b);
        return NULL;
    }
    const stk_status status = stk__trace_read(b, in, "perfetto", NULL);
    stk__input_close(in);
    if (status != STK_OK)
        stk__builder_free(b);
    else if (stk__builder_finish(b, &t, NULL) != STK_OK)
        t = NULL;
    return t;
}

/*
 * A total of our recorder that came before its track's descriptor is kept as an instant: the track could have been
 * anything. Writers put descriptors first, so the copy knows it for a total, and has fewer slices.
 */
static bool has_late_totals(const stk__trace *t)
{
    for (size_t i = 0; i < t->track_count; i++) {
        if (t->tracks[i].slice_count && strcmp(stk__trace_str(t, t->tracks[i].name), STK__TOTALS_TRACK) == 0)
            return true;
    }
    return false;
}

static bool same_counts(const stk__trace *a, const stk__trace *b)
{
    const bool slices = has_late_totals(a) ? b->slices.count <= a->slices.count : b->slices.count == a->slices.count;
    return slices && b->counters.count == a->counters.count && b->samples.count == a->samples.count;
}

/*
 * A round trip, by way of a file. Times that need more than the range once the first one is 0 are lost, so those are
 * not compared.
 */
static void check_copy(const stk__trace *t)
{
    char path[64];
    stk__write_report report = {0};
    char *bytes;
    size_t size;
    /* in memory where that is possible: writers wait for the disk */
    snprintf(path, sizeof path, "%s/stoker-fuzz-perfetto-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    if (stk__trace_write(t, path, &stk__writer_perfetto, &report, NULL) != STK_OK)
        return;
    if (stk__read_file(path, (size_t)1 << 30, &bytes, &size, NULL) == STK_OK) {
        stk__trace *copy = read_bytes((const uint8_t *)bytes, size);
        if (copy && t->end_ns - STK_MIN(t->start_ns, 0) <= STK__TIME_MAX &&
            (!same_counts(t, copy) || report.slices != t->slices.count))
            abort();
        stk__trace_free(copy);
        stk__free(bytes);
    }
    remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)stk__reader_perfetto.detect(data, size, true);
    stk__trace *t = read_bytes(data, size);
    if (t && (t->slices.count || t->counters.count || t->samples.count))
        check_copy(t);
    stk__trace_free(t);
    return 0;
}
