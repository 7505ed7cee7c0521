/* Splits a command line at blanks, with simple quotes, as long as a shell would do nothing else. */
#include "bench/command.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/*
 * Words with which a shell does something itself. `true` and `false` are not here: the programs do the same, and people
 * time them.
 */
static const char *const shell_words[] = {
    "!",       ".",     ":",        "[",         "[[",       "alias",   "bg",      "bind",    "break",   "builtin",
    "case",    "cd",    "chdir",    "command",   "continue", "coproc",  "declare", "dirs",    "disown",  "do",
    "done",    "echo",  "elif",     "else",      "enable",   "esac",    "eval",    "exec",    "exit",    "export",
    "fc",      "fg",    "fi",       "for",       "function", "getopts", "hash",    "help",    "history", "if",
    "in",      "jobs",  "kill",     "let",       "local",    "logout",  "mapfile", "popd",    "printf",  "pushd",
    "pwd",     "read",  "readonly", "readarray", "return",   "select",  "set",     "shift",   "shopt",   "source",
    "suspend", "test",  "then",     "time",      "times",    "trap",    "type",    "typeset", "ulimit",  "umask",
    "unalias", "unset", "until",    "wait",      "while",    "{",       "}",
};

static bool is_shell_word(const char *word)
{
    for (size_t i = 0; i < STK_COUNT(shell_words); i++)
        if (strcmp(word, shell_words[i]) == 0)
            return true;
    return false;
}

/* Has this unquoted character a meaning for some shell? Braces: not for POSIX, but for a bash that is called sh. */
static bool is_special(char c, bool starts_word, bool first_word)
{
    if (strchr("|&;<>()$`\\*?[{}\n", c))
        return true;
    if (c == '#' || c == '~')
        return starts_word;        /* HEAD~1 and a#b are plain */
    return c == '=' && first_word; /* an assignment */
}

/* Copies what stands between quotes; *at is behind the opening one and ends behind the closing one. */
static bool copy_quoted(const char **at, char quote, stk__text *out)
{
    const char *p = *at;
    for (; *p && *p != quote; p++) {
        if (quote == '"' && strchr("$`\\", *p))
            return false;
        stk__text_putc(out, *p);
    }
    *at = p + 1;
    return *p == quote;
}

/* Copies one word; *at stands on its first character. False: something for the shell. */
static bool copy_word(const char **at, bool first, stk__text *out)
{
    const char *p = *at, *const start = p;
    while (*p && *p != ' ' && *p != '\t') {
        if (*p == '\'' || *p == '"') {
            const char quote = *p++;
            if (!copy_quoted(&p, quote, out))
                return false;
        } else if (is_special(*p, p == start, first)) {
            return false;
        } else {
            stk__text_putc(out, *p++);
        }
    }
    stk__text_putc(out, 0);
    *at = p;
    return true;
}

stk_status stk__command_split(const char *command, stk__command *out, stk_error *err)
{
    const size_t size = strnlen(command, (size_t)STK__COMMAND_MAX + 1);
    if (command[strspn(command, " \t\n")] == 0)
        return stk_error_set(err, STK_INVALID, "the command is empty");
    if (size > STK__COMMAND_MAX)
        return stk_error_set(err, STK_INVALID, "the command has more than %d bytes", (int)STK__COMMAND_MAX);
    stk__command c = {0};
    for (const char *p = command + strspn(command, " \t"); *p && !c.shell; p += strspn(p, " \t")) {
        c.shell = !copy_word(&p, c.count == 0, &c.words);
        c.count++;
    }
    if (c.words.failed) {
        stk__command_clear(&c);
        return stk__nomem(size, err);
    }
    if (c.shell || is_shell_word(c.words.data)) {
        stk__command_clear(&c);
        c.shell = true;
    }
    *out = c;
    return STK_OK;
}

void stk__command_clear(stk__command *c)
{
    stk__text_clear(&c->words);
    *c = (stk__command){0};
}

void stk__command_quote(stk__text *t, const char *word)
{
    stk__text_putc(t, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            stk__text_puts(t, "'\\''");
        else
            stk__text_putc(t, *word);
    }
    stk__text_putc(t, '\'');
}
