/* stoker diagnose: is training input-bound, by how much, where, and what would help. */
#include "workbench.h"

#include "analyze/diagnose.h"

#include "base/banned.h"

typedef struct diagnose_options {
    cli_trace_options trace;
    int64_t what_if, gaps, gap_min_ns, rank;
    cli_list wait, step;
    bool json;
} diagnose_options;

static int diagnose_print(const diagnose_options *o, const stk__trace *trace)
{
    const stk__diagnose_options options = {
        .gap_min_ns = o->gap_min_ns,
        .gap_limit = (size_t)o->gaps,
        .speedup = (double)o->what_if,
        .told = {.waits = (const char *const *)o->wait.items,
                 .wait_count = o->wait.count,
                 .steps = (const char *const *)o->step.items,
                 .step_count = o->step.count},
        .one_rank = o->rank >= 0,
        .rank = o->rank,
    };
    stk__diagnosis *diagnosis = NULL;
    stk__text text = STK__TEXT_INIT;
    stk_error err;
    stk_error_clear(&err);
    if (stk__diagnose(trace, &options, &diagnosis, &err) != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    if (o->json) {
        stk__diagnosis_json(diagnosis, &text);
        stk__text_putc(&text, '\n');
    } else {
        stk__diagnosis_text(diagnosis, &text);
    }
    stk__diagnosis_free(diagnosis);
    cli_out_text(&text);
    return CLI_OK;
}

static int diagnose_run(const void *options, const cli_arguments *arguments)
{
    const diagnose_options *o = options;
    stk__trace *trace = NULL;
    const int code = cli_trace_open(&cli_command_diagnose, &o->trace, arguments->items, arguments->count, &trace);
    if (code != CLI_OK)
        return code;
    const int result = diagnose_print(o, trace);
    stk__trace_free(trace);
    return result;
}

static const cli_option diagnose_options_table[] = {
    CLI_ROW(diagnose_options, what_if, int64_t, CLI_INT, .name = "what-if", .value = "N", .min = 2, .max = 1000,
            .fallback = 2, .group = "Questions", .help = "how many times faster a stage is in the what-if (default 2)"),
    CLI_ROW(diagnose_options, gaps, int64_t, CLI_INT, .name = "gaps", .value = "N", .min = 1, .max = 1000,
            .fallback = 5, .group = "Questions", .help = "how many idle gaps are listed, longest first (default 5)"),
    CLI_ROW(diagnose_options, gap_min_ns, int64_t, CLI_DURATION, .name = "gap-min", .value = "TIME",
            .group = "Questions", .help = "shortest gap that is listed, as in 1ms (default: 1 % of the median step)"),
    CLI_ROW(diagnose_options, wait, cli_list, CLI_LIST, .name = "wait", .value = "PATTERN", .group = "What you know",
            .help = "slices or Python functions that wait for data, as in '*get_batch*'; may be given again"),
    CLI_ROW(diagnose_options, step, cli_list, CLI_LIST, .name = "step", .value = "PATTERN", .group = "What you know",
            .help = "slices that start a step, which lasts until the next one; may be given again"),
    CLI_ROW(diagnose_options, rank, int64_t, CLI_INT, .name = "rank", .value = "N", .min = 0, .max = INT32_MAX,
            .fallback = -1, .group = "What you know", .help = "this rank alone; the one that waits most is told else"),
    CLI_ROW(diagnose_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "one JSON object"),
    CLI_TRACE_ROWS(diagnose_options, trace),
    CLI_OPTION_END,
};

static const cli_example diagnose_examples[] = {
    {"is this run input-bound?", "stoker diagnose run.json.gz"},
    {"all ranks of a run, with the worst one named", "stoker diagnose rank*.json.gz"},
    {"what if the slow stage were four times as fast?", "stoker diagnose out.pftrace --what-if 4"},
    {"the loop fetches by a function of its own", "stoker diagnose run.json.gz --wait '*get_batch*'"},
    {"the verdict alone, for programs", "stoker diagnose run.xplane.pb --json | jq -r .verdict"},
    {NULL, NULL},
};

const cli_command cli_command_diagnose = {
    .name = "diagnose",
    .summary = "say whether training waits for its input, where, and what would help",
    .usage = "[OPTION]... FILE...",
    .about = "Finds the training steps of a trace (markers of PyTorch, TensorFlow, JAX or stoker; else what repeats), "
             "works out how much of their time waits for data, and gives XProf's verdict: highly input-bound from 20 % "
             "on, moderately from 5 % on.\n"
             "Then the evidence: where the step time goes, the slowest stage of the input, the longest gaps in which "
             "the device (or the main thread) does nothing and what ran meanwhile, what to do, and what that would "
             "gain.\n"
             "Traces of DataLoader workers or of a stoker pipeline may be given beside the trainer's. The exit code is "
             "0 whatever the verdict is.",
    .options = diagnose_options_table,
    .examples = diagnose_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(diagnose_options),
    .max_arguments = SIZE_MAX,
    .run = diagnose_run,
};
