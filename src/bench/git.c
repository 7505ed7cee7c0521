/* Asks git about commits. */
#include "bench/git.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/git_impl.h"

#include "base/banned.h"

/* Cut at a whole character. */
static void copy_cut(char *out, size_t size, const char *text, size_t length)
{
    size_t n = STK_MIN(length, size - 1);
    while (n < length && n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    memcpy(out, text, n);
    out[n] = 0;
}

/* The next line of *at, which goes behind it. */
static size_t take_line(const char **at, const char **out)
{
    const size_t length = strcspn(*at, "\n");
    *out = *at;
    *at += length + ((*at)[length] == '\n');
    return length;
}

bool stk__git_parse(const char **at, stk__commit *out)
{
    const char *text = *at;
    stk__commit c = {0};
    const char *line;
    char number[32];
    size_t length = take_line(&text, &line);
    copy_cut(c.hash, sizeof c.hash, line, length);
    length = take_line(&text, &line);
    copy_cut(c.brief, sizeof c.brief, line, length);
    length = take_line(&text, &line);
    copy_cut(c.parent, sizeof c.parent, line, STK_MIN(length, strcspn(line, " \n")));
    length = take_line(&text, &line);
    copy_cut(number, sizeof number, line, length);
    length = take_line(&text, &line);
    copy_cut(c.subject, sizeof c.subject, line, length);
    if (!stk__git_is_hash(c.hash) || (c.parent[0] && !stk__git_is_hash(c.parent)) || !c.brief[0] ||
        strncmp(c.brief, c.hash, strlen(c.brief)) != 0 || !stk__parse_int64(number, &c.time_s))
        return false;
    *out = c;
    *at = text;
    return true;
}

/*
 * "dirty" when tracked files were changed. The change log itself does not count (a page with its mark, and the CSV file
 * beside it): else the first run of a commit would make the second one look changed.
 */
#define TELL_DIRTY                                                                                               \
    "s=$(git status --porcelain --untracked-files=no) && if [ -n \"$s\" ]; then "                                \
    "cd \"$(git rev-parse --show-toplevel)\" && printf '%s\\n' \"$s\" | while IFS= read -r line; do "            \
    "f=${line#???}; case $f in *.md|*.csv) "                                                                     \
    "if [ -f \"${f%.*}.md\" ] && grep -q '^<!-- stoker bench log ' \"./${f%.*}.md\"; then continue; fi;; esac; " \
    "echo dirty; break; done; fi"

stk_status stk__git_here(stk__launcher *l, const char *directory, stk__commit *out, stk_error *err)
{
    stk__text script = STK__TEXT_INIT;
    stk__outcome o = {0};
    stk__text_puts(&script, STK__GIT_LOG "-1 "
                                         "HEAD -- && " TELL_DIRTY);
    STK_TRY(stk__git_script(l, directory, &script, NULL, &o, err));
    stk__commit commit = {0};
    const char *at = o.output_end;
    if (o.exit_code == 0 && stk__git_parse(&at, &commit))
        commit.dirty = strncmp(at, "dirty", 5) == 0;
    stk__outcome_clear(&o);
    *out = commit;
    return STK_OK;
}

stk_status stk__git_resolve(stk__launcher *l, const char *revision, stk__commit *out, stk_error *err)
{
    if (!revision[0] || revision[0] == '-')
        return stk_error_set(err, STK_INVALID, "the revision is '%.200s', wanted a commit such as HEAD~1, main or v1.2",
                             revision);
    stk__text script = STK__TEXT_INIT;
    stk__text_puts(&script, "h=$(git rev-parse --verify --end-of-options ");
    stk__command_quote(&script, revision);
    /* Apart, since ":/words" takes all that follows as words. */
    stk__text_puts(&script, ") && h=$(git rev-parse --verify \"$h^{commit}\") && " STK__GIT_LOG "-1 "
                            "\"$h\" --");
    char what[160], *text = NULL;
    snprintf(what, sizeof what, "cannot find the commit '%.100s'", revision);
    STK_TRY(stk__git_checked(l, NULL, &script, STK_INVALID, what, &text, err));
    stk__commit commit;
    stk_status status = STK_OK;
    const char *at = text;
    if (stk__git_parse(&at, &commit))
        *out = commit;
    else
        status = stk_error_set(err, STK_INVALID, "%s: git says '%.200s', wanted a commit", what, text);
    stk__free(text);
    return status;
}
