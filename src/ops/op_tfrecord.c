/* tfrecord: read the records of TFRecord files. */
#include "ops/record_source.h"

typedef struct {
    stk__record_source source; /* first */
    stk_strings paths;
    bool verify;
    const char *only;
} tfrecord_state;

static stk_status tfrecord_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    tfrecord_state *s = state;
    const stk_field field = {.name = "record", .dtype = STK_BYTES};
    return host->plan_write(plan, &field, &s->source.field, err);
}

static stk_status tfrecord_open(const stk_call *call, stk_error *err)
{
    tfrecord_state *s = call->state;
    s->source.framing = STK__FRAMING_TFRECORD;
    s->source.verify = s->verify;
    return stk__source_open(&s->source, call, &s->paths, s->only, err);
}

static const stk_option tfrecord_options[] = {
    STK_STRINGS_REQUIRED(tfrecord_state, paths, "files or patterns such as \"d/*.tfrecord\"; gzip and zlib are found by content"),
    STK_BOOL_OPTION(tfrecord_state, verify, true, "check the CRC of every record's data"),
    STK_STRING(tfrecord_state, only, NULL, "visit only the records that this list names: what quarantine wrote, or other JSON with file and record"),
    STK_OPTION_END,
};

const stk_op stk__op_tfrecord = {
    .abi = STK_OP_ABI,
    .name = "tfrecord",
    .group = "source",
    .since = "0.1",
    .summary = "Read the records of TFRecord files: samples with one bytes field `record`.",
    .example = "tfrecord(\"d/*.tfrecord\") | batch(32)",
    .options = tfrecord_options,
    .state_size = sizeof(tfrecord_state),
    .role = STK_ROLE_SOURCE,
    .schema = tfrecord_schema,
    .open = tfrecord_open,
    STK__RECORD_SOURCE_CALLBACKS,
};
