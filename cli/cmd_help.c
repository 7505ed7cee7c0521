/* stoker help: help on the program or a command, and the man page. */
#include "cli.h"

#include "base/banned.h"

typedef struct help_options {
    bool man;
} help_options;

/* All words that are left, as one name: 'bench histroy' has a near one. */
static int unknown_words(const cli_arguments *arguments)
{
    stk__text name = STK__TEXT_INIT;
    for (size_t i = 0; i < arguments->count; i++)
        stk__text_printf(&name, "%s%s", i ? " " : "", arguments->items[i]);
    const int code = cli_unknown_command(name.failed ? arguments->items[0] : name.data);
    stk__text_clear(&name);
    return code;
}

static int help_run(const void *options, const cli_arguments *arguments)
{
    const help_options *o = options;
    stk__text text = STK__TEXT_INIT;
    if (o->man) {
        cli_help_man(&text);
    } else if (arguments->count) {
        size_t used = 0;
        const cli_command *command = cli_find_command(arguments->items, arguments->count, &used);
        if (!command || used < arguments->count)
            return unknown_words(arguments);
        cli_help_command(command, &text);
    } else {
        cli_help_program(&text);
    }
    cli_out_text(&text);
    return CLI_OK;
}

static const cli_option help_options_table[] = {
    CLI_ROW(help_options, man, bool, CLI_FLAG, .name = "man", .group = "Output",
            .help = "the whole manual as a man page (roff)"),
    CLI_OPTION_END,
};

static const cli_example help_examples[] = {
    {"all options of run", "stoker help run"},
    {"of a command below a command", "stoker help bench history"},
    {"read the man page without installing it", "stoker help --man | man -l -"},
    {NULL, NULL},
};

const cli_command cli_command_help = {
    .name = "help",
    .summary = "tell about the program or a command",
    .usage = "[COMMAND]\n--man",
    .about = "Tells what the program or one of its commands does, and with which options.",
    .options = help_options_table,
    .examples = help_examples,
    .complete = CLI_COMMANDS,
    .options_size = sizeof(help_options),
    .max_arguments = 2,
    .run = help_run,
};
