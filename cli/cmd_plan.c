/* stoker plan: what would run, what was rewritten and why. */
#include <string.h>

#include "cli.h"

#include "base/banned.h"

typedef struct plan_options {
    cli_pipeline_options pipeline;
    bool json, quiet;
} plan_options;

static void plan_log(void *arg, stk_log_level level, const char *text)
{
    if (level == STK_LOG_WARNING)
        cli_say("stoker: warning: %s", text);
}

static int plan_run(const void *options, const cli_arguments *arguments)
{
    const plan_options *o = options;
    stk_config config = {.log = plan_log};
    cli_setup setup;
    int code = cli_setup_open(&setup, &cli_command_plan, &o->pipeline, arguments, o->quiet, &config);
    if (code != CLI_OK)
        return code;
    stk_error err;
    stk_error_clear(&err);
    stk_pipeline *pipeline = NULL;
    if (stk_pipeline_open(setup.text, &config, &pipeline, &err) == STK_OK) {
        const char *text = o->json ? stk_pipeline_explain_json(pipeline) : stk_pipeline_explain(pipeline);
        const size_t size = strlen(text);
        cli_out(text, size);
        if (size && text[size - 1] != '\n')
            cli_out("\n", 1);
    } else {
        cli_say_error(&err, setup.text, setup.text_name);
        code = cli_exit_code(&err);
    }
    stk_pipeline_close(pipeline);
    cli_setup_close(&setup);
    return code;
}

static const cli_option plan_options_table[] = {
    CLI_PIPELINE_ROWS(plan_options, pipeline),
    CLI_ROW(plan_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "one JSON object"),
    CLI_ROW(plan_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "no notes on standard error"),
    CLI_OPTION_END,
};

static const cli_example plan_examples[] = {
    {"what a pipeline becomes", "stoker plan train.stoker"},
    {"with two threads, for programs", "stoker plan train.stoker --threads 2 --json"},
    {NULL, NULL},
};

const cli_command cli_command_plan = {
    .name = "plan",
    .summary = "show what a pipeline will do, without running it",
    .usage = "[OPTION]... FILE\n[OPTION]... -e TEXT",
    .about = "Checks a pipeline and prints its plan: the ops that will run, in which plane, with which fields, and "
             "every rewrite with its reason, tagged exact or approximate. FILE may be '-' for standard input.",
    .options = plan_options_table,
    .examples = plan_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(plan_options),
    .max_arguments = 1,
    .run = plan_run,
};
