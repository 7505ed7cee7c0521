/* The program `stoker`: finds the command and runs it. */
#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

const cli_command *const cli_commands[] = {
    &cli_command_run,           &cli_command_plan,          &cli_command_compare_lazy,
    &cli_command_ops,           &cli_command_inspect,       &cli_command_top,
    &cli_command_diagnose,      &cli_command_sql,           &cli_command_diff,
    &cli_command_merge,         &cli_command_convert,       &cli_command_export,
    &cli_command_g2p,           &cli_command_bench,         &cli_command_bench_calibrate,
    &cli_command_bench_history, &cli_command_bench_compare, &cli_command_bench_convert,
    &cli_command_completion,    &cli_command_help,          NULL,
};

const cli_meaning cli_exit_codes[] = {
    {"0", "all went well"},
    {"1", "data, input or output failed"},
    {"2", "wrong usage, or a mistake in the pipeline"},
    {"3", "something became slower than --fail-over allows"},
    {"4", "the checkpoint was refused: it does not fit the pipeline or the files"},
    {"130", "interrupted (Ctrl-C or SIGTERM)"},
    {"141", "the reader of standard output went away"},
    {NULL, NULL},
};

const cli_meaning cli_environment[] = {
    {"RANK, WORLD_SIZE", "rank and world for shard, as torchrun sets them"},
    {"OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE", "the same from Open MPI"},
    {"PMI_RANK, PMI_SIZE", "the same from MPICH and others"},
    {"SLURM_PROCID, SLURM_NTASKS", "the same from Slurm; the first pair that is set counts"},
    {"TMPDIR", "where columns of traces past --memory lie (default /var/tmp)"},
    {"XDG_CACHE_HOME", "where the cache directory 'stoker' is made (default ~/.cache)"},
    {NULL, NULL},
};

const char *cli_second_word(const cli_command *command)
{
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : NULL;
}

bool cli_is_below(const cli_command *command, const char *first)
{
    const char *second = cli_second_word(command);
    const size_t size = strlen(first);
    return second && (size_t)(second - command->name) == size + 1 && memcmp(command->name, first, size) == 0;
}

const cli_command *cli_find_command(char *const *words, size_t count, size_t *out_used)
{
    const cli_command *found = NULL;
    for (size_t i = 0; cli_commands[i] && count; i++) {
        const cli_command *c = cli_commands[i];
        if (count > 1 && cli_is_below(c, words[0]) && strcmp(cli_second_word(c), words[1]) == 0) {
            *out_used = 2;
            return c;
        }
        if (strcmp(c->name, words[0]) == 0 && !cli_second_word(c))
            found = c;
    }
    if (found)
        *out_used = 1;
    return found;
}

int cli_unknown_command(const char *name)
{
    const char *names[STK_COUNT(cli_commands)];
    size_t count = 0;
    for (; cli_commands[count]; count++)
        names[count] = cli_commands[count]->name;
    const char *nearest = stk__nearest(name, names, count);
    if (nearest)
        return cli_usage_error(NULL, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return cli_usage_error(NULL, "unknown command '%s'", name);
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    void *options = stk__calloc(1, command->options_size);
    if (!options) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    cli_arguments arguments;
    bool help = false;
    int code = CLI_USAGE;
    if (cli_options_parse(command, argc, argv, options, &arguments, &help)) {
        if (help) {
            stk__text text = STK__TEXT_INIT;
            cli_help_command(command, &text);
            cli_out_text(&text);
            code = CLI_OK;
        } else {
            code = command->run(options, &arguments);
            if (command != &cli_command_run) /* which goes by what became of each batch */
                code = cli_out_whole(code);
        }
    }
    cli_options_clear(command, options);
    stk__free(options);
    return code;
}

static int run_program(int argc, char **argv)
{
    stk__text text = STK__TEXT_INIT;
    if (argc < 2)
        return cli_usage_error(
            NULL, "no command; try 'stoker run', 'stoker plan', 'stoker top', 'stoker diagnose' or 'stoker --help'");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_help_program(&text);
    } else if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        stk__text_printf(&text, "stoker %s\n", stk_version());
    } else if (argv[1][0] == '-') {
        return cli_usage_error(NULL, "unknown option '%s' before the command", argv[1]);
    } else {
        size_t used = 0;
        const cli_command *command = cli_find_command(argv + 1, (size_t)argc - 1, &used);
        const int skip = 1 + (int)used;
        return command ? run_command(command, argc - skip, argv + skip) : cli_unknown_command(argv[1]);
    }
    cli_out_text(&text);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    cli_interrupts_first();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is seen as a failed write, so that runs end cleanly */
    return cli_out_finish(run_program(argc, argv));
}
