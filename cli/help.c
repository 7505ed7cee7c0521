/* Help texts, from the tables of the commands. */
#include <string.h>

#include "cli.h"

#include "base/banned.h"

enum { HELP_WIDTH = 79, HELP_COLUMN = 28 };

static const cli_option help_row = {.name = "help", .letter = 'h', .kind = CLI_FLAG, .help = "show this help"};

static void pad_to(stk__text *out, size_t from, size_t column)
{
    while (from++ < column)
        stk__text_putc(out, ' ');
}

void cli_wrap(stk__text *out, const char *text, size_t column, size_t indent)
{
    bool first = true;
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (!first && column + 1 + word > HELP_WIDTH) {
            stk__text_putc(out, '\n');
            pad_to(out, 0, indent);
            column = indent;
        } else if (!first) {
            stk__text_putc(out, ' ');
            column++;
        }
        stk__text_write(out, text, word);
        column += word;
        first = false;
        text += word;
        text += strspn(text, " ");
    }
    stk__text_putc(out, '\n');
}

static void put_row(stk__text *out, const char *label, size_t indent, const char *help)
{
    const size_t end = indent + strlen(label);
    pad_to(out, 0, indent);
    stk__text_puts(out, label);
    if (end + 2 > HELP_COLUMN) {
        stk__text_putc(out, '\n');
        pad_to(out, 0, HELP_COLUMN);
    } else {
        pad_to(out, end, HELP_COLUMN);
    }
    cli_wrap(out, help, HELP_COLUMN, HELP_COLUMN);
}

static void put_option(stk__text *out, const cli_option *option)
{
    char buffer[128];
    stk__text label;
    stk__text_fixed(&label, buffer, sizeof buffer);
    cli_option_label(option, &label);
    put_row(out, buffer, option->letter ? 2 : 6, option->help);
}

static bool group_seen_before(const cli_option *options, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(options[j].group, options[i].group) == 0)
            return true;
    }
    return false;
}

static void put_options(stk__text *out, const cli_option *options)
{
    for (size_t i = 0; options[i].name; i++) {
        if (group_seen_before(options, i))
            continue;
        stk__text_printf(out, "\n%s:\n", options[i].group);
        for (size_t j = i; options[j].name; j++) {
            if (strcmp(options[j].group, options[i].group) == 0)
                put_option(out, &options[j]);
        }
    }
    stk__text_puts(out, "\nHelp:\n");
    put_option(out, &help_row);
}

static void put_usage(stk__text *out, const cli_command *command)
{
    const char *before = "Usage: ";
    for (const char *form = command->usage; form;) {
        const size_t size = strcspn(form, "\n");
        stk__text_printf(out, "%sstoker %s %.*s\n", before, command->name, (int)size, form);
        before = "       ";
        form = form[size] ? form + size + 1 : NULL;
    }
}

static void put_paragraphs(stk__text *out, const char *about)
{
    while (about && *about) {
        const size_t size = strcspn(about, "\n");
        char paragraph[2048];
        stk__text p;
        stk__text_fixed(&p, paragraph, sizeof paragraph);
        stk__text_write(&p, about, size);
        stk__text_putc(out, '\n');
        cli_wrap(out, paragraph, 0, 0);
        about += size + (about[size] == '\n');
    }
}

static void put_examples(stk__text *out, const cli_example *examples)
{
    if (!examples)
        return;
    stk__text_puts(out, "\nExamples:\n");
    for (; examples->what; examples++)
        stk__text_printf(out, "  # %s\n  %s\n", examples->what, examples->command);
}

static void put_meanings(stk__text *out, const char *title, const cli_meaning *rows)
{
    stk__text_printf(out, "\n%s:\n", title);
    for (; rows->name; rows++)
        put_row(out, rows->name, 2, rows->meaning);
}

void cli_help_command(const cli_command *command, stk__text *out)
{
    put_usage(out, command);
    put_paragraphs(out, command->about);
    put_options(out, command->options);
    put_examples(out, command->examples);
}

void cli_help_program(stk__text *out)
{
    stk__text_puts(out, "Usage: stoker COMMAND [OPTION]... [ARGUMENT]...\n"
                        "       stoker --help | --version\n\n"
                        "Keeps an accelerator fed, and shows when and why it starves.\n\n"
                        "Commands:\n");
    for (size_t i = 0; cli_commands[i]; i++)
        put_row(out, cli_commands[i]->name, 2, cli_commands[i]->summary);
    put_meanings(out, "Exit codes", cli_exit_codes);
    put_meanings(out, "Environment", cli_environment);
    stk__text_puts(out, "\n'stoker help COMMAND' tells more about a command, 'stoker ops NAME' about an op.\n");
}
