/* Fuzz target: any text as a checkpoint; what is accepted prints and parses again to the same, and can be resumed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "engine/checkpoint.h"

#define HEADER "stoker-checkpoint 2\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pipelines[] = {
    "range(20) | shuffle(seed=1) | batch(3)",
    "range(20) | shuffle(seed=1) | shard(count=2, index=1) | batch(3) | repeat",
    "range(20) | filter(\"value % 3 == 0\") | take(4) | batch(2) | skip(1) | repeat(4)",
    "text(\"/proc/version\") | shuffle(buffer=4) | repeat(3) | batch(2) | repeat(3)",
};

/* Bits of the first byte, whose rest chooses the pipeline. */
enum { ANY_MODE = 0x80, SKIP_BAD = 0x40 };

static bool prepared;
static uint64_t fingerprints[STK_COUNT(pipelines)][2];
static int64_t modes[STK_COUNT(pipelines)];

static void require(int condition)
{
    if (!condition)
        abort();
}

static void parse_text(const stk__text *t, stk__checkpoint *out)
{
    char *copy = stk__strndup(t->data, t->length);
    require(copy && stk__checkpoint_parse(copy, t->length, out, NULL) == STK_OK);
    stk__free(copy);
}

/* Every pipeline once, for the fingerprints in its checkpoint. */
static void prepare(void)
{
    prepared = true;
    for (size_t i = 0; i < STK_COUNT(pipelines); i++) {
        const stk_config config = {.struct_size = sizeof config, .threads = 1};
        stk_pipeline *p;
        char *text;
        stk__checkpoint c;
        require(stk_pipeline_open(pipelines[i], &config, &p, NULL) == STK_OK);
        require(stk_pipeline_state(p, &text, NULL) == STK_OK);
        stk_pipeline_close(p);
        require(stk__checkpoint_parse(text, strlen(text), &c, NULL) == STK_OK);
        fingerprints[i][0] = c.pipeline;
        fingerprints[i][1] = c.data;
        modes[i] = c.mode;
        stk_free(text);
    }
}

/* Goes on from numbers that nobody wrote: a refusal or a few batches, nothing else. */
static void resume(stk__checkpoint c, uint8_t choice)
{
    const size_t which = choice % STK_COUNT(pipelines);
    if (which == 3) /* streams replay their counters: that takes as long as the numbers say */
        c.ticket %= 1000;
    c.pipeline = fingerprints[which][0];
    c.data = fingerprints[which][1];
    if (!(choice & ANY_MODE))
        c.mode = modes[which];
    stk__text t = STK__TEXT_INIT;
    stk__checkpoint_print(&c, &t);
    require(!t.failed);
    const stk_config config = {.struct_size = sizeof config,
                               .threads = 2,
                               .resume_state = t.data,
                               .on_error = choice & SKIP_BAD ? STK_ON_ERROR_SKIP : STK_ON_ERROR_STOP};
    stk_pipeline *p = NULL;
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk_pipeline_open(pipelines[which], &config, &p, &err);
    stk__text_clear(&t);
    if (status != STK_OK) {
        require(err.message[0] != 0);
        return;
    }
    for (int i = 0; i < 5; i++) {
        const stk_batch *batch;
        if (stk_pipeline_next(p, &batch, &err) != STK_OK)
            break;
        stk_batch_release(p, batch);
    }
    stk_pipeline_close(p);
}

/* The lines with a header and the check sum that they need. */
static bool parse_sealed(const uint8_t *data, size_t size, stk__checkpoint *out)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, HEADER);
    for (size_t i = 0; i < size; i++)
        stk__text_putc(&t, (char)data[i]);
    if (!size || data[size - 1] != '\n')
        stk__text_putc(&t, '\n');
    if (t.failed)
        return false;
    stk__text_printf(&t, "check %016" PRIx64 "\n", (uint64_t)XXH3_64bits(t.data, t.length));
    const bool ok = !t.failed && stk__checkpoint_parse(t.data, t.length, out, NULL) == STK_OK;
    stk__text_clear(&t);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!prepared)
        prepare();
    stk__checkpoint c, again;
    stk_error err;
    stk_error_clear(&err);
    char *raw = stk__strndup((const char *)data, size);
    if (!raw)
        return 0;
    require(stk__checkpoint_parse(raw, size, &c, &err) == STK_OK || err.message[0]);
    stk__free(raw);
    if (size < 1 || !parse_sealed(data + 1, size - 1, &c))
        return 0;
    stk__text t = STK__TEXT_INIT;
    stk__checkpoint_print(&c, &t);
    require(!t.failed);
    parse_text(&t, &again);
    require(memcmp(&c, &again, sizeof c) == 0);
    stk__text_clear(&t);
    resume(c, data[0]);
    return 0;
}
