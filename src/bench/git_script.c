/* Runs scripts that call git, and passes on what it says. */
#include <string.h>

#include "base/mem.h"
#include "bench/git_impl.h"

#include "base/banned.h"

void stk__git_words(stk__text *t, const char *text, size_t most)
{
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1]))
        length--;
    const char *start = text;
    if (length > most) {
        start = text + length - most;
        while ((*start & 0xc0) == 0x80)
            start++;
        stk__text_puts(t, "...");
    }
    for (; start < text + length; start++) {
        if (*start == '\n')
            stk__text_puts(t, "; ");
        else if (*start != '\r')
            stk__text_putc(t, *start == '\t' ? ' ' : *start);
    }
}

stk_status stk__git_script(stk__launcher *l, const char *directory, stk__text *script, const char *output_path,
                           stk__outcome *out, stk_error *err)
{
    /* Nothing is written to the index for asking, and nobody is asked for a password. */
    static const char *const environment[] = {"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", NULL};
    stk_status status = script->failed ? stk__nomem(script->length, err) : STK_OK;
    if (status == STK_OK) {
        const stk__launch launch = {.command = script->data,
                                    .directory = directory,
                                    .output = STK__OUTPUT_KEEP,
                                    .output_path = output_path,
                                    .environment = environment};
        status = stk__launcher_run(l, &launch, out, err);
    }
    stk__text_clear(script);
    return status;
}

stk_status stk__git_failed(const stk__outcome *o, stk_status status, const char *what, stk_error *err)
{
    char text[STK__GIT_WORDS + 16];
    stk__text words;
    stk__text_fixed(&words, text, sizeof text);
    if (o->exit_code == 127)
        stk__text_puts(&words, "the program git was not found");
    else
        stk__git_words(&words, o->error_end && o->error_end[0] ? o->error_end : "git failed without a word",
                       STK__GIT_WORDS - 4);
    return stk_error_set(err, status, "%s: %s", what, text);
}

stk_status stk__git_checked(stk__launcher *l, const char *directory, stk__text *script, stk_status failure,
                            const char *what, char **out_text, stk_error *err)
{
    stk__outcome o = {0};
    STK_TRY(stk__git_script(l, directory, script, NULL, &o, err));
    stk_status status = o.exit_code == 0 ? STK_OK : stk__git_failed(&o, failure, what, err);
    if (status == STK_OK && out_text) {
        size_t length = o.output_end_size;
        while (length && o.output_end[length - 1] == '\n')
            length--;
        *out_text = stk__strndup(o.output_end, length);
        if (!*out_text)
            status = stk__nomem(length, err);
    }
    stk__outcome_clear(&o);
    return status;
}

bool stk__git_is_hash(const char *text)
{
    const size_t length = strlen(text);
    return length >= 40 && length <= 64 && strspn(text, "0123456789abcdef") == length;
}
