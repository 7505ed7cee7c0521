/* The man page, from the tables of the commands. */
#include <string.h>

#include "cli.h"

#include "base/banned.h"

/* Text that roff takes literally; a line must not start with a dot or an apostrophe. */
static void put_escaped(stk__text *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        stk__text_puts(out, "\\&");
    for (; *text; text++) {
        if (*text == '-')
            stk__text_puts(out, "\\-");
        else if (*text == '\\')
            stk__text_puts(out, "\\e");
        else if (*text == '\'')
            stk__text_puts(out, "\\(aq");
        else if (*text == '~')
            stk__text_puts(out, "\\(ti");
        else if (*text == '\n')
            stk__text_puts(out, "\n.PP\n");
        else
            stk__text_putc(out, *text);
    }
}

static void put_entry(stk__text *out, const char *label, const char *text)
{
    stk__text_puts(out, ".TP\n\\fB");
    put_escaped(out, label);
    stk__text_puts(out, "\\fR\n");
    put_escaped(out, text);
    stk__text_putc(out, '\n');
}

static void put_option(stk__text *out, const cli_option *option)
{
    stk__text_puts(out, ".TP\n\\fB");
    if (option->letter)
        stk__text_printf(out, "\\-%c\\fR, \\fB", option->letter);
    stk__text_puts(out, "\\-\\-");
    put_escaped(out, option->name);
    stk__text_puts(out, "\\fR");
    if (option->kind != CLI_FLAG)
        stk__text_printf(out, " \\fI%s\\fR", option->value);
    stk__text_putc(out, '\n');
    put_escaped(out, option->help);
    stk__text_putc(out, '\n');
}

static void put_synopsis(stk__text *out, const cli_command *command)
{
    for (const char *form = command->usage; form;) {
        const size_t size = strcspn(form, "\n");
        char text[256];
        stk__text t;
        stk__text_fixed(&t, text, sizeof text);
        stk__text_write(&t, form, size);
        stk__text_printf(out, "\\fBstoker %s\\fR ", command->name);
        put_escaped(out, text);
        stk__text_puts(out, "\n.br\n");
        form = form[size] ? form + size + 1 : NULL;
    }
}

static void put_command(stk__text *out, const cli_command *command)
{
    stk__text_printf(out, ".SS stoker %s\n", command->name);
    put_escaped(out, command->about);
    stk__text_putc(out, '\n');
    for (const cli_option *o = command->options; o->name; o++)
        put_option(out, o);
    for (const cli_example *e = command->examples; e && e->what; e++) {
        stk__text_puts(out, ".PP\n");
        put_escaped(out, e->what);
        stk__text_puts(out, ":\n.PP\n.RS 4\n.nf\n");
        put_escaped(out, e->command);
        stk__text_puts(out, "\n.fi\n.RE\n");
    }
}

static void put_meanings(stk__text *out, const char *title, const cli_meaning *rows)
{
    stk__text_printf(out, ".SH %s\n", title);
    for (; rows->name; rows++)
        put_entry(out, rows->name, rows->meaning);
}

void cli_help_man(stk__text *out)
{
    stk__text_printf(out, ".TH STOKER 1 \"\" \"stoker %s\" \"User Commands\"\n", stk_version());
    stk__text_puts(out, ".SH NAME\nstoker \\- keeps an accelerator fed, and shows when and why it starves\n"
                        ".SH SYNOPSIS\n");
    for (size_t i = 0; cli_commands[i]; i++)
        put_synopsis(out, cli_commands[i]);
    stk__text_puts(out, "\\fBstoker\\fR \\-\\-help | \\-\\-version\n"
                        ".SH DESCRIPTION\n"
                        "Stoker reads records, turns them into batches in order and hands them to a training loop.\n"
                        "A pipeline is a chain of ops, written as text; \\fBstoker ops\\fR lists them.\n"
                        "Results go to standard output, everything else to standard error.\n"
                        ".SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++)
        put_command(out, cli_commands[i]);
    put_meanings(out, "EXIT STATUS", cli_exit_codes);
    put_meanings(out, "ENVIRONMENT", cli_environment);
}
