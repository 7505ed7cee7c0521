/* stoker sql: the shell, with history and completion where there is a terminal and libedit. */
#define _GNU_SOURCE
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBEDIT
#include <editline/readline.h>
#endif

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "sql.h"

#include "base/banned.h"

enum { HISTORY_LINES = 1000 };

/* A signal handler has no argument. */
static volatile sig_atomic_t interrupt_seen;

static void on_interrupt(int number)
{
    (void)number;
    interrupt_seen = 1;
}

static bool shell_stopped(void)
{
    return interrupt_seen != 0;
}

/* Ctrl-C ends the query or drops the line, never the shell; so the read that waits for a line must not be restarted. */
static void catch_interrupts(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, before);
}

/* ---- lines ---- */

#ifdef HAVE_LIBEDIT

/* Completion is called by libedit, which passes nothing of ours. */
static cli_sql_names completions;

static char *next_completion(const char *word, int state)
{
    static size_t next;
    const size_t size = strlen(word);
    if (state == 0)
        next = 0;
    while (next < completions.count) {
        const char *name = completions.items[next++];
        if (sqlite3_strnicmp(name, word, (int)size) == 0) {
            char *copy = malloc(strlen(name) + 1); /* libedit frees it */
            if (copy)
                memcpy(copy, name, strlen(name) + 1);
            return copy;
        }
    }
    return NULL;
}

static char **complete(const char *word, int start, int end)
{
    (void)start;
    (void)end;
    rl_attempted_completion_over = 1; /* no names of files */
    return rl_completion_matches(word, next_completion);
}

static char *history_path(void)
{
    const char *base = getenv("XDG_STATE_HOME"), *rest = "/stoker/sql_history";
    if (!base || base[0] != '/') {
        base = getenv("HOME");
        rest = "/.local/state/stoker/sql_history";
    }
    if (!base || !base[0])
        return NULL;
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s%s", base, rest);
    char *copy = path.failed ? NULL : stk__strdup(path.data);
    stk__text_clear(&path);
    return copy;
}

/* One byte from the terminal; EOF at its end and after Ctrl-C, which is let in only here, so that none is lost. */
static int next_byte(void)
{
    sigset_t open;
    sigprocmask(SIG_BLOCK, NULL, &open);
    sigdelset(&open, SIGINT);
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char byte;
    if (interrupt_seen || ppoll(&wait, 1, NULL, &open) < 0 || read(STDIN_FILENO, &byte, 1) != 1)
        return EOF;
    return byte;
}

/* libedit wants whole characters. */
static int next_character(FILE *stream)
{
    (void)stream;
    const int first = next_byte();
    const int more = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    int character = more ? first & 0x3f >> more : first;
    for (int i = 0; i < more; i++) {
        const int byte = next_byte();
        if (byte == EOF)
            return EOF;
        character = character << 6 | (byte & 0x3f);
    }
    return character;
}

static void history_open(cli_sql *s, const char *path)
{
    rl_catch_signals = 0;
    rl_getc_function = next_character;
    setlocale(LC_CTYPE, "C.UTF-8"); /* or libedit knows no characters past ASCII */
    rl_readline_name = "stoker";
    rl_attempted_completion_function = complete;
    cli_sql_names_tables(&completions);
    cli_sql_names_columns(&completions, s->db);
    cli_sql_names_query(&completions, s->db,
                        "SELECT keyword FROM (SELECT 'SELECT' AS keyword UNION VALUES ('FROM'), "
                        "('WHERE'), ('GROUP BY'), ('ORDER BY'), ('LIMIT'), ('.tables'), ('.schema'), ('.examples'), "
                        "('.format'), ('.notes'), ('.help'), ('.quit'))",
                        NULL);
    using_history();
    stifle_history(HISTORY_LINES);
    if (path)
        read_history(path);
}

/* Queries may name what others should not read. */
static void history_close(const char *path)
{
    if (path && stk__make_parents(path, NULL) == STK_OK) {
        const mode_t before = umask(077);
        write_history(path);
        umask(before);
    }
    clear_history();
    cli_sql_names_clear(&completions);
}

#endif

typedef struct lines {
    bool terminal;
    char *path; /* of the history; NULL: none */
} lines;

static void lines_open(lines *l, cli_sql *s)
{
    *l = (lines){.terminal = isatty(STDIN_FILENO) != 0};
#ifdef HAVE_LIBEDIT
    if (l->terminal) {
        l->path = history_path();
        history_open(s, l->path);
    }
#endif
}

static void lines_close(lines *l)
{
#ifdef HAVE_LIBEDIT
    if (l->terminal)
        history_close(l->path);
#endif
    stk__free(l->path);
}

/* The next line without its end; NULL at the end of input, or after Ctrl-C. To be freed by free(). */
static char *lines_next(lines *l, const char *prompt)
{
#ifdef HAVE_LIBEDIT
    if (l->terminal) {
        sigset_t interrupts, before;
        sigemptyset(&interrupts);
        sigaddset(&interrupts, SIGINT);
        sigprocmask(SIG_BLOCK, &interrupts, &before);
        char *line = readline(prompt);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (line && interrupt_seen) { /* what was typed is dropped */
            free(line);
            line = NULL;
        }
        return line;
    }
#endif
    if (l->terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    char *line = NULL;
    size_t room = 0;
    const ssize_t size = getline(&line, &room, stdin);
    if (size < 0) {
        free(line);
        clearerr(stdin);
        return NULL;
    }
    if (size && line[size - 1] == '\n')
        line[size - 1] = 0;
    return line;
}

/* A whole statement comes back with one key. */
static void lines_remember(const lines *l, const char *text)
{
#ifdef HAVE_LIBEDIT
    char *line = l->terminal && *text ? stk__strdup(text) : NULL;
    for (char *c = line; c && *c; c++) {
        if (*c == '\n' && !strstr(text, "--")) /* a comment ends with its line */
            *c = ' ';
    }
    if (line)
        add_history(line);
    stk__free(line);
#endif
}

/* ---- the shell ---- */

static bool blank(const char *text)
{
    return text[strspn(text, " \t\r\n;")] == 0;
}

static int run_statement(cli_sql *s, const lines *l, const char *text)
{
    const int64_t start = stk__now_ns();
    const size_t results = s->results;
    s->rows = 0;
    lines_remember(l, text);
    int code = cli_sql_run(s, text);
    code = cli_out_finish(code);
    if (l->terminal && code == CLI_OK && s->results > results)
        cli_say("%zu row%s, %.3f s", s->rows, s->rows == 1 ? "" : "s", (double)(stk__now_ns() - start) / 1e9);
    return code;
}

/* One more line: a command, or a part of a statement that is run once it is whole. */
static int take_line(cli_sql *s, const lines *l, const char *line, stk__text *text)
{
    if (text->length == 0 && line[strspn(line, " \t")] == '.') {
        lines_remember(l, line);
        return cli_out_finish(cli_sql_command(s, line + strspn(line, " \t")));
    }
    if (text->length == 0 && blank(line))
        return CLI_OK;
    stk__text_puts(text, text->length ? "\n" : "");
    stk__text_puts(text, line);
    if (text->failed) {
        cli_say("stoker: out of memory");
        stk__text_clear(text);
        return CLI_FAILED;
    }
    if (!sqlite3_complete(text->data))
        return CLI_OK;
    const int code = run_statement(s, l, text->data);
    stk__text_reset(text);
    return code;
}

static void greet(const cli_sql *s)
{
    stk__text text = STK__TEXT_INIT;
    cli_text_count(&text, (int64_t)s->trace->slices.count);
    stk__text_puts(&text, " slices, ");
    cli_text_count(&text, (int64_t)s->trace->track_count);
    stk__text_puts(&text, " tracks. .examples shows queries to start from, .tables what there is, .help the rest.");
    if (!text.failed)
        cli_say("%s", text.data);
    stk__text_clear(&text);
}

/* A script ends with its first mistake; a person goes on. */
static int read_all(cli_sql *s, lines *l)
{
    stk__text text = STK__TEXT_INIT;
    int code = CLI_OK;
    while (!s->quit && !cli_out_failed() && (l->terminal || code == CLI_OK)) {
        interrupt_seen = 0;
        char *line = lines_next(l, text.length ? "   ...> " : "stoker> ");
        if (!line && interrupt_seen) {
            if (!l->terminal) {
                code = CLI_INTERRUPTED;
                break;
            }
            cli_say("%s", "");
            stk__text_reset(&text);
            continue;
        }
        if (!line)
            break;
        code = take_line(s, l, line, &text);
        free(line);
    }
    /* The last statement of a script may lack its ';'. */
    if (code == CLI_OK && !s->quit && text.length && !blank(text.data))
        code = run_statement(s, l, text.data);
    stk__text_clear(&text);
    return l->terminal && code != CLI_PIPE_CLOSED ? CLI_OK : code;
}

int cli_sql_shell(cli_sql *s)
{
    struct sigaction before;
    lines l;
    catch_interrupts(&before);
    s->stopped = shell_stopped;
    lines_open(&l, s);
    if (l.terminal)
        greet(s);
    const int code = read_all(s, &l);
    if (l.terminal)
        cli_out("\n", 1);
    lines_close(&l);
    sigaction(SIGINT, &before, NULL);
    return code;
}
