/* Reading bytes as a format, and writing a trace to a text, for the tests of profiles. */
#ifndef STK_TEST_PROFILE_FILES_H
#define STK_TEST_PROFILE_FILES_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "trace/reader.h"
#include "trace/writer.h"

/* Reads bytes with a format, or with the one that they are seen as when it is NULL. */
static inline stk__trace *read_bytes(const void *data, size_t size, const char *format)
{
    stk__input *in;
    stk__builder *b;
    stk__trace *t;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__input_open_memory(data, size, &in, &err), STK_OK);
    assert_int_equal(stk__builder_new(NULL, &b, &err), STK_OK);
    const stk_status status = stk__trace_read(b, in, format, &err);
    if (status != STK_OK)
        fail_msg("%s", err.message);
    stk__input_close(in);
    assert_int_equal(stk__builder_finish(b, &t, &err), STK_OK);
    return t;
}

static inline stk__trace *read_text(const char *text, const char *format)
{
    return read_bytes(text, strlen(text), format);
}

static inline const char *format_of(const void *data, size_t size)
{
    const stk__reader *reader = stk__reader_detect(data, size, true);
    return reader ? reader->name : "none";
}

static inline uint64_t notes_of(const stk__trace *t, stk__trace_reason reason)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++) {
        if (t->notes[i].reason == (uint32_t)reason)
            count += t->notes[i].count;
    }
    return count;
}

static inline uint64_t all_notes(const stk__trace *t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].count;
    return count;
}

/* What a writer makes of a trace; free it with stk__free. */
static inline char *written(const stk__trace *t, const stk__trace_writer *writer, stk__write_report *report)
{
    char path[] = "/tmp/stoker-test-XXXXXX";
    char *data;
    size_t size;
    stk_error err;
    stk_error_clear(&err);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    memset(report, 0, sizeof *report);
    assert_int_equal(stk__trace_write(t, path, writer, report, &err), STK_OK);
    assert_int_equal(stk__read_file(path, SIZE_MAX / 2, &data, &size, &err), STK_OK);
    unlink(path);
    return data;
}

/* Reads a text as `format`, and compares what it is when written as collapsed stacks. */
static inline void assert_folds(const char *text, const char *format, const char *wanted)
{
    stk__trace *t = read_text(text, format);
    stk__write_report report;
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_string_equal(found, wanted);
    stk__free(found);
    stk__trace_free(t);
}

/* The stack of a sample as "a;b;c". */
static inline void stack_text(const stk__trace *t, size_t sample, char *out, size_t size)
{
    uint32_t path[64];
    size_t depth = 0, at = 0;
    out[0] = '\0';
    for (uint32_t c = t->samples.callsite[sample]; c != STK__NONE && depth < 64; c = t->callsites[c].parent)
        path[depth++] = c;
    while (depth > 0 && at < size) {
        const stk__trace_frame *frame = &t->frames[t->callsites[path[--depth]].frame];
        at += (size_t)snprintf(out + at, size - at, "%s%s", stk__trace_str(t, frame->name), depth ? ";" : "");
    }
}

static inline const stk__trace_frame *leaf_of(const stk__trace *t, size_t sample)
{
    assert_true(sample < t->samples.count && t->samples.callsite[sample] != STK__NONE);
    return &t->frames[t->callsites[t->samples.callsite[sample]].frame];
}

#endif
