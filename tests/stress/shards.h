/* What the stress tests share: a directory with plain shards p-* and gzip ones g-*, and pipelines over it. */
#ifndef STK_TESTS_SHARDS_H
#define STK_TESTS_SHARDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

static char dir[64];

/* Copies a pipeline text with the directory in place of $D. */
static void fill(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n + sizeof dir < size; text++) {
        if (text[0] == '$' && text[1] == 'D')
            n += (size_t)snprintf(out + n, size - n, "%s", dir), text++;
        else
            out[n++] = *text;
    }
    out[n] = 0;
}

static stk_pipeline *open_or_fail(const char *text, const stk_config *config)
{
    char full[512];
    stk_pipeline *p;
    stk_error error;
    fill(text, full, sizeof full);
    if (stk_pipeline_open(full, config, &p, &error) != STK_OK)
        fail_msg("%s: %s", full, error.message);
    return p;
}

static void run_to_end(const char *text)
{
    stk_pipeline *p = open_or_fail(text, NULL);
    stk_error error;
    const stk_batch *batch;
    stk_status status;
    while ((status = stk_pipeline_next(p, &batch, &error)) == STK_OK) {
        assert_int_equal(stk_pipeline_consume(p, batch, &error), STK_OK);
        stk_batch_release(p, batch);
    }
    assert_int_equal(status, STK_END);
    assert_int_equal(stk_pipeline_finish(p, &error), STK_OK);
    stk_pipeline_close(p);
}

static int make_shards(int samples, int shards)
{
    char text[128];
    snprintf(dir, sizeof dir, "/tmp/stk-stress-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(text, sizeof text, "range(%d) | write_tfrecord(\"$D/p-%%d\", shards=%d)", samples, shards);
    run_to_end(text);
    snprintf(text, sizeof text, "range(%d) | write_tfrecord(\"$D/g-%%d\", shards=%d, compression=gzip)", samples,
             shards);
    run_to_end(text);
    return 0;
}

/* Fails when a run left anything else behind. */
static int remove_shards(int shards)
{
    for (int i = 0; i < shards; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/p-%d", dir, i);
        unlink(path);
        snprintf(path, sizeof path, "%s/g-%d", dir, i);
        unlink(path);
    }
    return rmdir(dir);
}

#endif
