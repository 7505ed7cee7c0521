/* Errors for people: the message, the place in the pipeline's text, and what to try. */
#include <string.h>

#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

/* Of a line that is longer than SHOWN_MAX, this much is shown on either side of the place. */
enum { SHOWN_MAX = 100, SHOWN_BEFORE = 56, SHOWN_AFTER = 40 };

/* Start and length of line `number` (from 1) of the text; false when there is none. */
static bool find_line(const char *text, int number, const char **out, size_t *out_size)
{
    while (--number > 0) {
        text = strchr(text, '\n');
        if (!text)
            return false;
        text++;
    }
    *out = text;
    *out_size = strcspn(text, "\r\n");
    return true;
}

static bool continues_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Columns of the text count characters, from 1. */
static size_t byte_of_column(const char *line, size_t size, int column)
{
    size_t at = 0;
    while (at < size && --column > 0) {
        at++;
        while (at < size && continues_character(line[at]))
            at++;
    }
    return at;
}

/* Columns that `size` bytes take on the screen, after escaping; every character counts as one wide. */
static size_t screen_columns(const char *text, size_t size)
{
    char *piece = stk__strndup(text, size);
    char escaped[512];
    if (!piece)
        return 0;
    stk__escape_terminal(piece, escaped, sizeof escaped);
    size_t columns = 0;
    for (const char *p = escaped; *p; p++)
        columns += !continues_character(*p);
    stk__free(piece);
    return columns;
}

/* The offending line with a caret below; a window of it when it is long. */
static void say_place(const char *text, int line_number, int column)
{
    const char *line;
    size_t size;
    if (!find_line(text, line_number, &line, &size) || size == 0)
        return;
    const size_t at = byte_of_column(line, size, column);
    const bool whole = size <= SHOWN_MAX;
    size_t from = !whole && at > SHOWN_BEFORE ? at - SHOWN_BEFORE : 0;
    size_t to = whole ? size : STK_MIN(size, at + SHOWN_AFTER);
    while (from > 0 && continues_character(line[from]))
        from--;
    while (to < size && continues_character(line[to]))
        to++;
    char *shown = stk__strndup(line + from, to - from);
    if (!shown)
        return;
    for (char *p = shown; *p; p++) {
        if (*p == '\t')
            *p = ' ';
    }
    const char *cut = from ? "..." : "";
    const size_t indent = strlen(cut) + screen_columns(shown, at - from);
    cli_say("    %s%s%s", cut, shown, to < size ? "..." : "");
    cli_say("    %*s^", (int)indent, "");
    stk__free(shown);
}

static const char *advice(const stk_error *err)
{
    switch (err->status) {
    case STK_UNSUPPORTED:
        if (err->line > 0 || !err->op[0]) /* the pipeline, not a record */
            return NULL;
        /* fall through */
    case STK_CORRUPT:
    case STK_UNFIT:
        if (err->record < 0 && err->offset < 0) /* a file that an op needs as a whole */
            return NULL;
        return "--on-error skip leaves bad records out, --on-error quarantine=FILE lists them too";
    case STK_LIMIT:
        return "a higher --max-errors lets more of them pass";
    case STK_MISMATCH:
        return "go on as the checkpoint was made: pipeline, seed, files, rank, --exact; or start anew without --resume";
    default:
        return NULL;
    }
}

void cli_say_error(const stk_error *err, const char *text, const char *text_name)
{
    char line[2600];
    stk_error place = *err;
    const bool about_text = err->line > 0 && text;
    const bool about_file = err->line > 0 && !text && err->file[0]; /* a line of that file, not of a pipeline */
    if (about_file) {
        place.file[0] = 0;
        place.line = 0;
    }
    stk_error_format(&place, line, sizeof line);
    if (about_file && err->column > 0)
        cli_say("stoker: %s: line %d, column %d: %s", err->file, err->line, err->column, line);
    else if (about_file)
        cli_say("stoker: %s: line %d: %s", err->file, err->line, line);
    else if (about_text && text_name)
        cli_say("stoker: %s: %s", text_name, line);
    else
        cli_say("stoker: %s", line);
    if (about_text)
        say_place(text, err->line, err->column);
    if (text && advice(err))
        cli_say("stoker: try: %s", advice(err));
}

int cli_exit_code(const stk_error *err)
{
    switch (err->status) {
    case STK_OK:
    case STK_END:
        return CLI_OK;
    case STK_INVALID:
        return CLI_USAGE;
    case STK_MISMATCH:
        return CLI_REFUSED;
    case STK_CANCELLED:
        return CLI_INTERRUPTED;
    case STK_UNSUPPORTED:
        return err->line > 0 ? CLI_USAGE : CLI_FAILED;
    default:
        return CLI_FAILED;
    }
}
