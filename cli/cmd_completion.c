/* stoker completion: completion scripts for shells, from the same tables as everything else. */
#include <string.h>

#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

typedef struct completion_options {
    cli_list plugins;
} completion_options;

static void put_op_names(stk__text *t, const stk_registry *registry)
{
    for (size_t i = 0; i < stk_registry_count(registry); i++)
        stk__text_printf(t, "%s%s", i ? " " : "", stk_registry_op(registry, i)->name);
}

/* Names of one word; those of two start with one of them. */
static void put_command_names(stk__text *t)
{
    const char *before = "";
    for (size_t i = 0; cli_commands[i]; i++) {
        if (cli_second_word(cli_commands[i]))
            continue;
        stk__text_printf(t, "%s%s", before, cli_commands[i]->name);
        before = " ";
    }
}

static bool has_below(const cli_command *c)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        if (cli_is_below(cli_commands[i], c->name))
            return true;
    }
    return false;
}

static void put_second_words(stk__text *t, const cli_command *c)
{
    const char *before = "";
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!cli_is_below(cli_commands[i], c->name))
            continue;
        stk__text_printf(t, "%s%s", before, cli_second_word(cli_commands[i]));
        before = " ";
    }
}

/* "'bench calibrate'|'bench history'" */
static void put_two_word_names(stk__text *t, const char *separator)
{
    const char *before = "";
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!cli_second_word(cli_commands[i]))
            continue;
        stk__text_printf(t, "%s'%s'", before, cli_commands[i]->name);
        before = separator;
    }
}

/* A pattern of case that matches the name alone. */
static void put_pattern(stk__text *t, const cli_command *c)
{
    const char *quote = cli_second_word(c) ? "'" : "";
    stk__text_printf(t, "    %s%s%s)\n", quote, c->name, quote);
}

/* The words that a value or an argument can be; false when it is none of a list. */
static bool put_words(stk__text *t, cli_complete complete, const char *words, const stk_registry *registry)
{
    if (complete == CLI_OPS)
        put_op_names(t, registry);
    else if (complete == CLI_COMMANDS)
        put_command_names(t);
    else if (complete == CLI_WORDS)
        stk__text_puts(t, words);
    else
        return false;
    return true;
}

/* ---- bash ---- */

static void bash_reply(stk__text *t, cli_complete complete, const char *words, const stk_registry *registry)
{
    if (complete == CLI_FILES || complete == CLI_DIRECTORIES) {
        stk__text_printf(t, "compopt -o filenames; COMPREPLY=($(compgen -%c -- \"$cur\"))",
                         complete == CLI_FILES ? 'f' : 'd');
        return;
    }
    stk__text_puts(t, "COMPREPLY=($(compgen -W \"");
    put_words(t, complete, words, registry);
    stk__text_puts(t, "\" -- \"$cur\"))");
}

/* Second words are offered in the second place only, beside what else can stand there. */
static void bash_arguments(stk__text *t, const cli_command *c, const stk_registry *registry)
{
    if (c->complete != CLI_NOTHING) {
        stk__text_puts(t, "        else\n            ");
        bash_reply(t, c->complete, c->words, registry);
        stk__text_putc(t, '\n');
    }
    stk__text_puts(t, "        fi\n");
    for (size_t i = 0; c->complete == CLI_COMMANDS && cli_commands[i]; i++) {
        if (!has_below(cli_commands[i]))
            continue;
        stk__text_printf(t, "        ((COMP_CWORD == 3)) && [[ $prev == %s ]] && COMPREPLY=($(compgen -W \"",
                         cli_commands[i]->name);
        put_second_words(t, cli_commands[i]);
        stk__text_puts(t, "\" -- \"$cur\"))\n");
    }
    if (has_below(c)) {
        stk__text_puts(t, "        ((COMP_CWORD == 2)) && COMPREPLY+=($(compgen -W \"");
        put_second_words(t, c);
        stk__text_puts(t, "\" -- \"$cur\"))\n");
    }
    stk__text_puts(t, "        ;;\n");
}

static void bash_command(stk__text *t, const cli_command *c, const stk_registry *registry)
{
    put_pattern(t, c);
    stk__text_puts(t, "        case $prev in\n");
    for (const cli_option *o = c->options; o->name; o++) {
        if (o->kind == CLI_FLAG)
            continue;
        stk__text_printf(t, "        --%s", o->name);
        if (o->letter)
            stk__text_printf(t, "|-%c", o->letter);
        stk__text_puts(t, ") ");
        if (o->complete != CLI_NOTHING)
            bash_reply(t, o->complete, o->words, registry);
        stk__text_puts(t, o->complete == CLI_NOTHING ? "return ;;\n" : "; return ;;\n");
    }
    stk__text_puts(t, "        esac\n        if [[ $cur == -* ]]; then\n            COMPREPLY=($(compgen -W \"");
    for (const cli_option *o = c->options; o->name; o++)
        stk__text_printf(t, "--%s ", o->name);
    stk__text_puts(t, "--help\" -- \"$cur\"))\n");
    bash_arguments(t, c, registry);
}

static void put_bash(stk__text *t, const stk_registry *registry)
{
    stk__text_puts(t, "# bash completion for stoker; made by 'stoker completion bash'\n"
                      "_stoker() {\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    COMPREPLY=()\n"
                      "    if ((COMP_CWORD == 1)); then\n"
                      "        COMPREPLY=($(compgen -W \"");
    put_command_names(t);
    stk__text_puts(t, " --help --version\" -- \"$cur\"))\n        return\n    fi\n"
                      "    local command=${COMP_WORDS[1]}\n"
                      "    if ((COMP_CWORD > 2)); then\n"
                      "        case \"$command ${COMP_WORDS[2]}\" in\n"
                      "        ");
    put_two_word_names(t, "|");
    stk__text_puts(t, ") command+=\" ${COMP_WORDS[2]}\" ;;\n"
                      "        esac\n"
                      "    fi\n"
                      "    case $command in\n");
    for (size_t i = 0; cli_commands[i]; i++)
        bash_command(t, cli_commands[i], registry);
    stk__text_puts(t, "    esac\n}\ncomplete -F _stoker stoker\n");
}

/* ---- zsh ---- */

/* Inside '...[help]' of _arguments: quotes, brackets and colons have a meaning. */
static void zsh_text(stk__text *t, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            stk__text_puts(t, "'\\''");
        else if (strchr("[]:\\", *text))
            stk__text_printf(t, "\\%c", *text);
        else
            stk__text_putc(t, *text);
    }
}

static void zsh_action(stk__text *t, cli_complete complete, const char *words, const stk_registry *registry)
{
    if (complete == CLI_FILES) {
        stk__text_puts(t, "_files");
    } else if (complete == CLI_DIRECTORIES) {
        stk__text_puts(t, "_files -/");
    } else if (complete != CLI_NOTHING) {
        stk__text_putc(t, '(');
        put_words(t, complete, words, registry);
        stk__text_putc(t, ')');
    }
}

static void zsh_option(stk__text *t, const cli_option *o, const char *dashes, const char *name,
                       const stk_registry *registry)
{
    stk__text_printf(t, " \\\n            '%s%s%s%s[", o->kind == CLI_LIST ? "*" : "", dashes, name,
                     o->kind == CLI_FLAG ? "" : dashes[1] ? "=" : "+");
    zsh_text(t, o->help);
    stk__text_putc(t, ']');
    if (o->kind != CLI_FLAG) {
        stk__text_printf(t, ":%s:", o->value);
        zsh_action(t, o->complete, o->words, registry);
    }
    stk__text_putc(t, '\'');
}

static void zsh_described(stk__text *t, const char *word, const cli_command *c)
{
    stk__text_printf(t, "        '%s:", word);
    zsh_text(t, c->summary);
    stk__text_puts(t, "'\n");
}

/* An array of the second words and, in the place where they can stand, what offers them. */
static void zsh_second_words(stk__text *t, const cli_command *c, const char *when)
{
    stk__text_puts(t, "        commands=(\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        if (cli_is_below(cli_commands[i], c->name))
            zsh_described(t, cli_second_word(cli_commands[i]), cli_commands[i]);
    }
    stk__text_printf(t, "        )\n        [[ %s ]] && _describe command commands", when);
}

static void zsh_command(stk__text *t, const cli_command *c, const stk_registry *registry)
{
    put_pattern(t, c);
    if (has_below(c)) {
        zsh_second_words(t, c, "$CURRENT -eq 2");
        stk__text_putc(t, '\n');
    }
    for (size_t i = 0; c->complete == CLI_COMMANDS && cli_commands[i]; i++) {
        if (!has_below(cli_commands[i]))
            continue;
        char when[128];
        stk__text w;
        stk__text_fixed(&w, when, sizeof when);
        stk__text_printf(&w, "$CURRENT -eq 3 && $words[2] == %s", cli_commands[i]->name);
        zsh_second_words(t, cli_commands[i], when);
        stk__text_puts(t, " && return\n");
    }
    stk__text_puts(t, "        _arguments -s");
    for (const cli_option *o = c->options; o->name; o++) {
        zsh_option(t, o, "--", o->name, registry);
        if (o->letter)
            zsh_option(t, o, "-", (const char[]){o->letter, 0}, registry);
    }
    stk__text_puts(t, " \\\n            '(- *)--help[show help]'");
    if (c->complete != CLI_NOTHING) {
        stk__text_puts(t, " \\\n            '*:argument:");
        zsh_action(t, c->complete, c->words, registry);
        stk__text_putc(t, '\'');
    }
    stk__text_puts(t, " ;;\n");
}

static void put_zsh(stk__text *t, const stk_registry *registry)
{
    stk__text_puts(t, "#compdef stoker\n"
                      "# zsh completion for stoker; made by 'stoker completion zsh'\n"
                      "_stoker() {\n"
                      "    local -a commands=(\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!cli_second_word(cli_commands[i]))
            zsh_described(t, cli_commands[i]->name, cli_commands[i]);
    }
    stk__text_puts(t, "    )\n"
                      "    if ((CURRENT == 2)); then\n"
                      "        _describe command commands\n"
                      "        return\n"
                      "    fi\n"
                      "    shift words\n"
                      "    ((CURRENT--))\n"
                      "    local command=$words[1]\n"
                      "    if ((CURRENT > 2)); then\n"
                      "        case \"$command $words[2]\" in\n"
                      "        ");
    put_two_word_names(t, "|");
    stk__text_puts(t, ") command+=\" $words[2]\"; shift words; ((CURRENT--)) ;;\n"
                      "        esac\n"
                      "    fi\n"
                      "    case $command in\n");
    for (size_t i = 0; cli_commands[i]; i++)
        zsh_command(t, cli_commands[i], registry);
    stk__text_puts(t, "    esac\n}\n"
                      "if [ \"$funcstack[1]\" = _stoker ]; then _stoker \"$@\"; else compdef _stoker stoker; fi\n");
}

/* ---- fish ---- */

static void fish_text(stk__text *t, const char *text)
{
    stk__text_putc(t, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            stk__text_putc(t, '\\');
        stk__text_putc(t, *text);
    }
    stk__text_putc(t, '\'');
}

/* The start of a line that holds after that command. */
static void fish_line(stk__text *t, const cli_command *c)
{
    stk__text_printf(t, "complete -c stoker -n '__stoker_command %s'", c->name);
}

static void fish_option(stk__text *t, const cli_command *c, const cli_option *o, const stk_registry *registry)
{
    fish_line(t, c);
    stk__text_printf(t, " -l %s", o->name);
    if (o->letter)
        stk__text_printf(t, " -s %c", o->letter);
    if (o->complete == CLI_FILES)
        stk__text_puts(t, " -rF");
    else if (o->complete == CLI_DIRECTORIES)
        stk__text_puts(t, " -xa '(__fish_complete_directories)'");
    else if (o->kind != CLI_FLAG)
        stk__text_puts(t, " -x");
    if (o->complete == CLI_OPS || o->complete == CLI_COMMANDS || o->complete == CLI_WORDS) {
        stk__text_puts(t, " -a '");
        put_words(t, o->complete, o->words, registry);
        stk__text_putc(t, '\'');
    }
    stk__text_puts(t, " -d ");
    fish_text(t, o->help);
    stk__text_putc(t, '\n');
}

/* The name as a word to offer: the second of two only right behind the first. */
static void fish_name(stk__text *t, const cli_command *c)
{
    const char *second = cli_second_word(c);
    if (second) {
        const int size = (int)(second - c->name - 1);
        stk__text_printf(t, "complete -c stoker -n '__stoker_words %.*s; or __stoker_words help %.*s' -a %s -d ", size,
                         c->name, size, c->name, second);
    } else {
        stk__text_printf(t, "complete -c stoker -n __stoker_words -a %s -d ", c->name);
    }
    fish_text(t, c->summary);
    stk__text_putc(t, '\n');
}

static void fish_command(stk__text *t, const cli_command *c, const stk_registry *registry)
{
    fish_name(t, c);
    for (const cli_option *o = c->options; o->name; o++)
        fish_option(t, c, o, registry);
    if (c->complete == CLI_NOTHING)
        return;
    fish_line(t, c);
    if (c->complete == CLI_FILES) {
        stk__text_puts(t, " -F\n");
        return;
    }
    stk__text_puts(t, " -a '");
    put_words(t, c->complete, c->words, registry);
    stk__text_puts(t, "'\n");
}

static void put_fish(stk__text *t, const stk_registry *registry)
{
    stk__text_puts(t, "# fish completion for stoker; made by 'stoker completion fish'\n"
                      "# whether these are all words between 'stoker' and the cursor\n"
                      "function __stoker_words\n"
                      "    set -l words (commandline -opc)\n"
                      "    test \"$words[2..-1]\" = \"$argv\"\n"
                      "end\n"
                      "# whether this is the command, of one word or two\n"
                      "function __stoker_command\n"
                      "    set -l words (commandline -opc)\n"
                      "    set -l name $words[2]\n"
                      "    switch \"$words[2..3]\"\n"
                      "        case ");
    put_two_word_names(t, " ");
    stk__text_puts(t, "\n"
                      "            set name \"$words[2..3]\"\n"
                      "    end\n"
                      "    test \"$name\" = \"$argv\"\n"
                      "end\n"
                      "complete -c stoker -f\n");
    for (size_t i = 0; cli_commands[i]; i++)
        fish_command(t, cli_commands[i], registry);
}

/* ---- the command ---- */

static int completion_run(const void *options, const cli_arguments *arguments)
{
    static const struct {
        const char *name;
        void (*put)(stk__text *t, const stk_registry *registry);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    const completion_options *o = options;
    if (!arguments->count)
        return cli_usage_error(&cli_command_completion, "no shell; give bash, zsh or fish");
    for (size_t i = 0; i < STK_COUNT(shells); i++) {
        if (strcmp(shells[i].name, arguments->items[0]) != 0)
            continue;
        stk_registry *registry = NULL;
        const int code = cli_registry_open(&o->plugins, &registry);
        if (code != CLI_OK)
            return code;
        stk__text text = STK__TEXT_INIT;
        shells[i].put(&text, registry);
        cli_out_text(&text);
        stk_registry_free(registry);
        return CLI_OK;
    }
    return cli_usage_error(&cli_command_completion, "unknown shell '%s'; wanted bash, zsh or fish",
                           arguments->items[0]);
}

static const cli_option completion_options_table[] = {
    CLI_ROW(completion_options, plugins, cli_list, CLI_LIST, .name = "plugin", .value = "FILE", .complete = CLI_FILES,
            .group = "Pipeline", .help = "offer the ops of a shared object too; may be given again"),
    CLI_OPTION_END,
};

static const cli_example completion_examples[] = {
    {"for this shell only", "source <(stoker completion bash)"},
    {"for good", "stoker completion fish > ~/.config/fish/completions/stoker.fish"},
    {NULL, NULL},
};

const cli_command cli_command_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .usage = "[OPTION]... bash|zsh|fish",
    .about = "Prints a script that completes commands, options and names of ops in bash, zsh or fish.",
    .options = completion_options_table,
    .examples = completion_examples,
    .complete = CLI_WORDS,
    .words = "bash zsh fish",
    .options_size = sizeof(completion_options),
    .max_arguments = 1,
    .run = completion_run,
};
