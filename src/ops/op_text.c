/* text: read the lines of text files. */
#include "ops/record_source.h"

typedef struct {
    stk__record_source source; /* first */
    stk_strings paths;
} text_state;

static stk_status text_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    text_state *s = state;
    const stk_field field = {.name = "text", .dtype = STK_BYTES};
    return host->plan_write(plan, &field, &s->source.field, err);
}

static stk_status text_open(const stk_call *call, stk_error *err)
{
    text_state *s = call->state;
    s->source.framing = STK__FRAMING_LINES;
    return stk__source_open(&s->source, call, &s->paths, NULL, err);
}

static const stk_option text_options[] = {
    STK_STRINGS_REQUIRED(text_state, paths, "files or patterns such as \"d/*.txt\"; \"-\" is standard input"),
    STK_OPTION_END,
};

const stk_op stk__op_text = {
    .abi = STK_OP_ABI,
    .name = "text",
    .group = "source",
    .since = "0.1",
    .summary = "Read the lines of text files: samples with one bytes field `text`, without line ends.",
    .example = "text(\"words.txt\") | shuffle(seed=1) | batch(32)",
    .options = text_options,
    .state_size = sizeof(text_state),
    .role = STK_ROLE_SOURCE,
    .schema = text_schema,
    .open = text_open,
    STK__RECORD_SOURCE_CALLBACKS,
};
