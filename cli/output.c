/* Standard output and standard error: results on one, messages and the live line on the other. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

/* The process has one of each, so these are the program's only state apart from interrupts. */
static int out_error; /* errno of the first write that failed; main thread only */

static struct {
    pthread_mutex_t lock;
    /* guarded by lock */
    bool live; /* a live line is on the screen */
    bool said; /* something was said */
} console = {PTHREAD_MUTEX_INITIALIZER, false, false};

static bool out_raw(const char *text, size_t size)
{
    if (out_error)
        return false;
    errno = 0;
    if (size && fwrite(text, 1, size, stdout) != size)
        out_error = errno ? errno : EIO;
    return out_error == 0;
}

static char *escape_new(const char *text)
{
    const size_t room = stk__escape_terminal(text, NULL, 0) + 1;
    char *escaped = stk__alloc(room);
    if (escaped)
        stk__escape_terminal(text, escaped, room);
    return escaped;
}

/* A terminal obeys what it reads, so text from files must not reach it as it is. */
static bool out_escaped(const char *text, size_t size)
{
    while (size) {
        const char *newline = memchr(text, '\n', size);
        const size_t length = newline ? (size_t)(newline - text) : size;
        char *line = stk__strndup(text, length);
        char *escaped = line ? escape_new(line) : NULL;
        const bool ok = escaped && out_raw(escaped, strlen(escaped)) && (!newline || out_raw("\n", 1));
        if (!escaped)
            out_error = ENOMEM;
        stk__free(line);
        stk__free(escaped);
        if (!ok)
            return false;
        text += length + (newline != NULL);
        size -= length + (newline != NULL);
    }
    return true;
}

bool cli_out(const char *text, size_t size)
{
    if (!isatty(STDOUT_FILENO))
        return out_raw(text, size);
    cli_live_clear();
    return out_escaped(text, size);
}

bool cli_out_text(stk__text *text)
{
    if (text->failed)
        out_error = ENOMEM;
    const bool ok = cli_out(text->data ? text->data : "", text->length);
    stk__text_clear(text);
    return ok;
}

bool cli_out_failed(void)
{
    return out_error != 0;
}

bool cli_out_closed(void)
{
    return out_error == EPIPE;
}

void cli_out_flush(void)
{
    if (!out_error && fflush(stdout))
        out_error = errno ? errno : EIO;
}

int cli_out_finish(int code)
{
    cli_out_flush();
    if (!out_error)
        return code;
    if (out_error == EPIPE)
        return CLI_PIPE_CLOSED;
    cli_say("stoker: cannot write to standard output: %s", strerror(out_error));
    return code == CLI_OK ? CLI_FAILED : code;
}

/* Whoever did not look whether there was memory printed less than was meant, and did not know: the end of the program does. */
int cli_out_whole(int code)
{
    if (!stk__alloc_failures() || out_error)
        return code;
    pthread_mutex_lock(&console.lock);
    const bool said = console.said;
    pthread_mutex_unlock(&console.lock);
    if (code == CLI_OK)
        cli_say("stoker: out of memory: what was printed may not be whole");
    else if (!said)
        cli_say("stoker: out of memory");
    return code == CLI_OK ? CLI_FAILED : code;
}

bool cli_live_possible(void)
{
    return isatty(STDERR_FILENO);
}

static void live_clear_locked(void)
{
    if (console.live)
        fputs("\r\033[K", stderr);
    console.live = false;
}

void cli_live_clear(void)
{
    pthread_mutex_lock(&console.lock);
    live_clear_locked();
    fflush(stderr);
    pthread_mutex_unlock(&console.lock);
}

static size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

void cli_live(const char *text)
{
    if (!cli_live_possible())
        return;
    char line[512];
    stk__escape_terminal(text, line, sizeof line);
    const int columns = (int)terminal_columns() - 1; /* a full line would wrap and could not be cleared */
    pthread_mutex_lock(&console.lock);
    fprintf(stderr, "\r%.*s\033[K", columns, line);
    fflush(stderr);
    console.live = true;
    pthread_mutex_unlock(&console.lock);
}

static void say_line(const char *text)
{
    char *escaped = escape_new(text);
    pthread_mutex_lock(&console.lock);
    live_clear_locked();
    console.said = true;
    fprintf(stderr, "%s\n", escaped ? escaped : "stoker: out of memory");
    fflush(stderr);
    pthread_mutex_unlock(&console.lock);
    stk__free(escaped);
}

static void say_list(const char *before, const char *format, va_list args)
{
    char text[4096];
    const int n = snprintf(text, sizeof text, "%s", before);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    say_line(text);
}

void cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list("", format, args);
    va_end(args);
}

int cli_usage_error(const cli_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list("stoker: ", format, args);
    va_end(args);
    if (command)
        cli_say("Try 'stoker %s --help'.", command->name);
    else
        cli_say("Try 'stoker --help'.");
    return CLI_USAGE;
}

void cli_text_escaped(stk__text *t, const char *text)
{
    char *escaped = escape_new(text);
    if (escaped)
        stk__text_puts(t, escaped);
    else
        t->failed = true;
    stk__free(escaped);
}

void cli_text_count(stk__text *t, int64_t n)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < length; i++) {
        stk__text_putc(t, digits[i]);
        const int left = length - 1 - i;
        if (left && left % 3 == 0 && digits[i] != '-')
            stk__text_putc(t, ',');
    }
}

void cli_text_seconds(stk__text *t, double s)
{
    stk__text_printf(t, s < 1 ? "%.3f s" : s < 100 ? "%.2f s" : "%.0f s", s);
}

void cli_text_rate(stk__text *t, double x)
{
    if (x < 100)
        stk__text_printf(t, "%.1f", x);
    else
        cli_text_count(t, (int64_t)(x + 0.5));
}
