/* The command line of valgrind, and the files that it leaves. */
#define _GNU_SOURCE
#include "bench/grind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#include "base/banned.h"

const char *stk__grind_name(stk__grind_tool tool)
{
    return tool == STK__CACHEGRIND ? "cachegrind" : "callgrind";
}

/* ---- before the run ---- */

static stk_status make_directory(stk__grind *g, stk_error *err)
{
    static const char *const places[] = {"/tmp", "/var/tmp"};
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        snprintf(g->directory, sizeof g->directory, "%s/stoker-count-XXXXXX", places[i]);
        if (mkdtemp(g->directory))
            return STK_OK;
    }
    g->directory[0] = 0;
    return stk_error_set(err, STK_IO, "cannot make a directory in /tmp or /var/tmp: %s", strerror(errno));
}

stk_status stk__grind_open(stk__grind *g, stk__grind_tool tool, stk_error *err)
{
    static const char *const common[] = {"valgrind", "--command-line-only=yes", "--quiet", "--vgdb=no",
                                         "--trace-children=yes"};
    static const char *const cachegrind[] = {"--tool=cachegrind", "--cache-sim=no", "--branch-sim=no"};
    /* The names under which C libraries have what forks and execs. */
    static const char *const callgrind[] = {
        "--tool=callgrind",      "--dump-before=fork",     "--dump-before=__fork",   "--dump-before=__libc_fork",
        "--dump-before=_Fork",   "--dump-before=vfork",    "--dump-before=__vfork",  "--dump-before=clone",
        "--dump-before=__clone", "--dump-before=clone3",   "--dump-before=__clone3", "--dump-before=__clone_internal",
        "--dump-before=execve",  "--dump-before=__execve", "--dump-before=execveat", "--dump-before=fexecve",
    };
    *g = (stk__grind){0};
    STK_TRY(make_directory(g, err));
    snprintf(g->out_option, sizeof g->out_option, "--%s-out-file=%s/out.%%p", stk__grind_name(tool), g->directory);
    snprintf(g->log_option, sizeof g->log_option, "--log-file=%s/log.%%p", g->directory);
    const char *const *own = tool == STK__CACHEGRIND ? cachegrind : callgrind;
    const size_t own_count = tool == STK__CACHEGRIND ? STK_COUNT(cachegrind) : STK_COUNT(callgrind);
    _Static_assert(STK_COUNT(common) + STK_COUNT(callgrind) + 3 <= STK__GRIND_WORDS, "the words fit");
    size_t n = STK_COUNT(common);
    memcpy(g->words, common, sizeof common);
    memcpy(g->words + n, own, own_count * sizeof *own);
    n += own_count;
    g->words[n++] = g->out_option;
    g->words[n++] = g->log_option;
    return STK_OK;
}

void stk__grind_close(stk__grind *g)
{
    DIR *dir = g->directory[0] ? opendir(g->directory) : NULL;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(g->directory);
    g->directory[0] = 0;
}

/* ---- a file ---- */

/* Lines of a text that may end anywhere. */
typedef struct line {
    const char *text;
    size_t size;
} line;

static bool next_line(const char **at, const char *end, line *out)
{
    const char *newline = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    if (!newline)
        return false;
    *out = (line){*at, (size_t)(newline - *at)};
    *at = newline + 1;
    return true;
}

/* What follows the key and its blanks. */
static bool has_key(line l, const char *key, line *out)
{
    const size_t n = strlen(key);
    if (l.size < n || memcmp(l.text, key, n) != 0)
        return false;
    *out = (line){l.text + n, l.size - n};
    while (out->size && *out->text == ' ')
        out->text++, out->size--;
    return true;
}

/* Digits up to a blank or the end; callgrind writes nothing for 0. */
static bool parse_count(line l, uint64_t *out)
{
    uint64_t x = 0;
    for (size_t i = 0; i < l.size && l.text[i] != ' '; i++) {
        const unsigned digit = (unsigned)l.text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(x, (uint64_t)10, &x) || __builtin_add_overflow(x, digit, &x))
            return false;
    }
    *out = x;
    return true;
}

static stk_status corrupt(stk_error *err, const char *what, line found)
{
    return stk_error_set(err, STK_CORRUPT, "%s, found '%.*s'", what, (int)STK_MIN(found.size, (size_t)60),
                         found.size ? found.text : "");
}

/* The last line that is not empty. A file that was cut off has no newline at its end, or another line there. */
static line last_line(const char *text, size_t size)
{
    if (!size || text[size - 1] != '\n')
        return (line){text, 0};
    while (size && text[size - 1] == '\n')
        size--;
    const char *before = size ? memrchr(text, '\n', size) : NULL;
    const char *start = before ? before + 1 : text;
    return (line){start, (size_t)(text + size - start)};
}

stk_status stk__grind_parse(const char *text, size_t size, stk__grind_file *out, stk_error *err)
{
    stk__grind_file f = {0};
    const char *at = text;
    line l, value, events = {0};
    while (!events.text && next_line(&at, text + size, &l)) {
        if (has_key(l, "cmd:", &value)) {
            f.command = value.text;
            f.command_size = value.size;
        }
        has_key(l, "events:", &events);
    }
    if (!f.command || !events.text)
        return corrupt(err, "wanted a file of valgrind with its command and its events",
                       (line){text, size ? strnlen(text, STK_MIN(size, (size_t)60)) : 0});
    if (events.size < 2 || memcmp(events.text, "Ir", 2) != 0 || (events.size > 2 && events.text[2] != ' '))
        return corrupt(err, "wanted 'Ir' as the first event", events);
    const line last = last_line(text, size);
    /* Callgrind has a summary in its head as well: only its total says that all is there. */
    static const char head[] = "# callgrind";
    const bool totals = size >= sizeof head && memcmp(text, head, sizeof head - 1) == 0;
    if (!has_key(last, totals ? "totals:" : "summary:", &value))
        return corrupt(err, "wanted a total as the last line: it is cut off", last);
    if (!parse_count(value, &f.instructions))
        return corrupt(err, "wanted a number below 2^64 in its last line", last);
    *out = f;
    return STK_OK;
}

/* ---- all files ---- */

static stk_status add_file(const char *path, const char *command, stk__grind_total *total, stk_error *err)
{
    char *text = NULL;
    size_t size = 0;
    stk__grind_file f;
    STK_TRY(stk__read_file(path, STK__GRIND_FILE_BYTES, &text, &size, err));
    stk_status status = stk__grind_parse(text, size, &f, err);
    if (status == STK_OK && __builtin_add_overflow(total->instructions, f.instructions, &total->instructions))
        status = stk_error_set(err, STK_CORRUPT, "more than 2^64 instructions");
    if (status == STK_OK) {
        total->files++;
        total->alone =
            total->files == 1 && f.command_size == strlen(command) && memcmp(f.command, command, f.command_size) == 0;
    }
    stk__free(text);
    return status;
}

static stk_status add_all(DIR *dir, const char *directory, const char *command, stk__grind_total *total, stk_error *err)
{
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        if (strncmp(e->d_name, "out.", 4) != 0)
            continue;
        if (total->files == STK__GRIND_FILES)
            return stk_error_set(err, STK_LIMIT, "it started more than %d processes", STK__GRIND_FILES);
        if (snprintf(path, sizeof path, "%s/%s", directory, e->d_name) >= (int)sizeof path)
            return stk_error_set(err, STK_IO, "the name '%.100s' is too long", e->d_name);
        STK_TRY(add_file(path, command, total, err));
    }
    return STK_OK;
}

stk_status stk__grind_sum(const char *directory, const char *command, stk__grind_total *out, stk_error *err)
{
    stk__grind_total total = {0};
    DIR *dir = opendir(directory);
    if (!dir)
        return stk_error_set(err, STK_IO, "cannot read '%.200s': %s", directory, strerror(errno));
    const stk_status status = add_all(dir, directory, command, &total, err);
    closedir(dir);
    if (status != STK_OK)
        return status;
    if (!total.instructions)
        return stk_error_set(err, STK_IO, "valgrind wrote no count");
    *out = total;
    return STK_OK;
}
