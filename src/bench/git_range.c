/* The commits of a range, oldest first. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/git_impl.h"

#include "base/banned.h"

#define LIST_TEMPLATE "/tmp/stoker-bench-XXXXXX"

enum { MOST_BYTES = 64 << 20 };

void stk__commits_clear(stk__commits *c)
{
    stk__free(c->items);
    *c = (stk__commits){0};
}

/* ---- the two ends ---- */

/* A clone without its past has none of the commits that people name. */
static stk_status add_shallow(stk__launcher *l, stk_status status, stk_error *err)
{
    stk__text script = STK__TEXT_INIT;
    char *text = NULL;
    stk__text_puts(&script, "git rev-parse --is-shallow-repository");
    if (err && stk__git_checked(l, NULL, &script, STK_IO, "", &text, NULL) == STK_OK && strcmp(text, "true") == 0) {
        char message[sizeof err->message];
        snprintf(message, sizeof message, "%s", err->message);
        stk_error_set(err, status, "%s; this clone is shallow: 'git fetch --unshallow' gets the rest", message);
    }
    stk__free(text);
    return status;
}

static stk_status resolve_end(stk__launcher *l, const char *text, size_t size, stk__commit *out, stk_error *err)
{
    char *name = size ? stk__strndup(text, size) : stk__strdup("HEAD");
    if (!name)
        return stk__nomem(size, err);
    const stk_status status = stk__git_resolve(l, name, out, err);
    stk__free(name);
    return status == STK_INVALID ? add_shallow(l, status, err) : status;
}

static stk_status find_ends(stk__launcher *l, const char *range, stk__commit *out_a, stk__commit *out_b, stk_error *err)
{
    const char *dots = strstr(range, "..");
    if (!dots || strcmp(range, "..") == 0)
        return stk_error_set(
            err, STK_INVALID,
            "the range is '%.200s', wanted two commits with .. between them, as in v1..main or main~8..", range);
    if (dots[2] == '.')
        return stk_error_set(err, STK_INVALID,
                             "the range is '%.200s' with three dots, wanted two: commits from one to the other", range);
    STK_TRY(resolve_end(l, range, (size_t)(dots - range), out_a, err));
    return resolve_end(l, dots + 2, strlen(dots + 2), out_b, err);
}

/* ---- the line between them ---- */

static stk_status list_line(stk__launcher *l, const char *a, const char *b, const char *path, stk_error *err)
{
    stk__text script = STK__TEXT_INIT;
    stk__outcome o = {0};
    stk__text_puts(&script, STK__GIT_LOG);
    stk__text_printf(&script, "--first-parent --reverse --max-count=%d %s..%s --", STK__COMMITS_MOST + 1, a, b);
    STK_TRY(stk__git_script(l, NULL, &script, path, &o, err));
    const stk_status status =
        o.exit_code == 0 ? STK_OK : stk__git_failed(&o, STK_INVALID, "cannot list the commits", err);
    stk__outcome_clear(&o);
    return status;
}

/* One place is left free in front. */
static stk_status parse_line(const char *text, stk__commits *out, stk_error *err)
{
    size_t capacity = 0;
    stk__commits c = {.count = 1};
    stk_status status = STK_OK;
    do {
        if (!stk__grow((void **)&c.items, &capacity, c.count + 1, sizeof *c.items))
            status = stk__nomem(c.count * sizeof *c.items, err);
        else if (*text && !stk__git_parse(&text, &c.items[c.count++]))
            status = stk_error_set(err, STK_INVALID, "cannot list the commits: git says '%.200s'", text);
    } while (status == STK_OK && *text);
    if (status == STK_OK)
        *out = c;
    else
        stk__commits_clear(&c);
    return status;
}

/* Through a file: a long line of commits is more than is kept of what a command prints. */
static stk_status read_line(stk__launcher *l, const char *a, const char *b, stk__commits *out, stk_error *err)
{
    char path[] = LIST_TEMPLATE, *text = NULL;
    size_t size = 0;
    const int fd = mkstemp(path);
    if (fd < 0)
        return stk_error_set(err, STK_IO, "cannot make a file in /tmp: %s", strerror(errno));
    close(fd);
    stk_status status = list_line(l, a, b, path, err);
    if (status == STK_OK)
        status = stk__read_file(path, MOST_BYTES, &text, &size, err);
    if (status == STK_OK)
        status = parse_line(text, out, err);
    unlink(path);
    stk__free(text);
    return status;
}

/* Each so-manieth from the newest on; items[0] is not touched. */
static void thin_out(stk__commits *c, size_t every)
{
    size_t kept = 1;
    for (size_t i = 1; i < c->count; i++) {
        if ((c->count - 1 - i) % every == 0)
            c->items[kept++] = c->items[i];
    }
    c->count = kept;
}

/* What the first commit is compared with. A commit without a parent is the first of all: then it takes that part. */
static stk_status find_base(stk__launcher *l, const stk__commit *a, stk__commits *c, stk_error *err)
{
    const char *parent = c->items[1].parent;
    if (strcmp(parent, a->hash) == 0) {
        c->items[0] = *a;
        return STK_OK;
    }
    c->elsewhere = true;
    if (parent[0])
        return stk__git_resolve(l, parent, &c->items[0], err);
    c->count--;
    memmove(c->items, c->items + 1, c->count * sizeof *c->items);
    return STK_OK;
}

static stk_status no_commits(const char *range, const stk__commit *a, const stk__commit *b, stk_error *err)
{
    if (strcmp(a->hash, b->hash) == 0)
        return stk_error_set(err, STK_INVALID, "%.200s has no commits: both ends are %s", range, a->brief);
    return stk_error_set(err, STK_INVALID, "%.200s has no commits: %s has all that %s has; wanted the older end first",
                         range, a->brief, b->brief);
}

static stk_status fill_range(stk__launcher *l, const char *range, size_t every, stk__commits *c, stk_error *err)
{
    stk__commit a, b;
    STK_TRY(find_ends(l, range, &a, &b, err));
    STK_TRY(read_line(l, a.hash, b.hash, c, err));
    if (c->count == 1)
        return no_commits(range, &a, &b, err);
    if (c->count - 1 > STK__COMMITS_MOST)
        return stk_error_set(err, STK_INVALID, "%.200s has more than %d commits, which is the most at once", range,
                             STK__COMMITS_MOST);
    STK_TRY(find_base(l, &a, c, err));
    if (every > 1)
        thin_out(c, every);
    if (c->count < 2)
        return stk_error_set(err, STK_INVALID, "%.200s is the one commit %s, wanted one to compare it with", range,
                             c->items[0].brief);
    return STK_OK;
}

stk_status stk__git_range(stk__launcher *l, const char *range, size_t every, stk__commits *out, stk_error *err)
{
    stk__commits c = {0};
    const stk_status status = fill_range(l, range, every, &c, err);
    if (status == STK_OK)
        *out = c;
    else
        stk__commits_clear(&c);
    return status;
}
