/* Asks git about commits, and makes checkouts of two of them side by side. */
#define _GNU_SOURCE
#include "bench/git.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

#define ROOT_TEMPLATE "/tmp/stoker-bench-XXXXXX"
/* Not the repository's hooks, which may do anything. */
#define GIT_QUIET "git -c core.hooksPath=/dev/null -c advice.detachedHead=false "
/* hash, brief hash, parents, time, subject: a line each */
#define LOG_FORMAT "git log -1 --no-show-signature --encoding=UTF-8 --format=%H%n%h%n%P%n%ct%n%s "

enum { WORDS_MAX = 300, BUILD_WORDS_MAX = 380, TRIES = 3 };

/* ---- commands ---- */

static void put_quoted(stk__text *t, const char *word)
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

/* The end of what a command said, on one line. */
static void put_words(stk__text *t, const char *text, size_t most)
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

/* Runs what `script` holds with sh; frees it. The outcome tells how it went. */
static stk_status run_script(stk__launcher *l, const char *directory, stk__text *script, stk__outcome *out,
                             stk_error *err)
{
    /* Nothing is written to the index for asking, and nobody is asked for a password. */
    static const char *const environment[] = {"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", NULL};
    stk_status status = script->failed ? stk__nomem(script->length, err) : STK_OK;
    if (status == STK_OK) {
        const stk__launch launch = {
            .command = script->data, .directory = directory, .output = STK__OUTPUT_KEEP, .environment = environment};
        status = stk__launcher_run(l, &launch, out, err);
    }
    stk__text_clear(script);
    return status;
}

/* With `what` and git's own words. */
static stk_status git_failed(const stk__outcome *o, stk_status status, const char *what, stk_error *err)
{
    char text[WORDS_MAX + 16];
    stk__text words;
    stk__text_fixed(&words, text, sizeof text);
    if (o->exit_code == 127)
        stk__text_puts(&words, "the program git was not found");
    else
        put_words(&words, o->error_end && o->error_end[0] ? o->error_end : "git failed without a word", WORDS_MAX - 4);
    return stk_error_set(err, status, "%s: %s", what, text);
}

/* Runs a script that must go well, else `failure`. *out_text (may be NULL): its output without the last line end. */
static stk_status run_checked(stk__launcher *l, const char *directory, stk__text *script, stk_status failure,
                              const char *what, char **out_text, stk_error *err)
{
    stk__outcome o = {0};
    STK_TRY(run_script(l, directory, script, &o, err));
    stk_status status = o.exit_code == 0 ? STK_OK : git_failed(&o, failure, what, err);
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

/* ---- commits ---- */

/* Cut at a whole character. */
static void copy_cut(char *out, size_t size, const char *text, size_t length)
{
    size_t n = STK_MIN(length, size - 1);
    while (n < length && n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    memcpy(out, text, n);
    out[n] = 0;
}

static bool is_hash(const char *text)
{
    const size_t length = strlen(text);
    return length >= 40 && length <= 64 && strspn(text, "0123456789abcdef") == length;
}

/* The next line of *at, which goes behind it. */
static size_t take_line(const char **at, const char **out)
{
    const size_t length = strcspn(*at, "\n");
    *out = *at;
    *at += length + ((*at)[length] == '\n');
    return length;
}

/* What LOG_FORMAT prints, then "dirty" or anything else. */
static bool parse_commit(const char *text, stk__commit *out)
{
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
    c.dirty = strncmp(text, "dirty", 5) == 0;
    if (!is_hash(c.hash) || (c.parent[0] && !is_hash(c.parent)) || !c.brief[0] ||
        strncmp(c.brief, c.hash, strlen(c.brief)) != 0 || !stk__parse_int64(number, &c.time_s))
        return false;
    *out = c;
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
    stk__text_puts(&script, LOG_FORMAT "HEAD -- && " TELL_DIRTY);
    STK_TRY(run_script(l, directory, &script, &o, err));
    stk__commit commit = {0};
    if (o.exit_code != 0 || !parse_commit(o.output_end, &commit))
        commit = (stk__commit){0};
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
    put_quoted(&script, revision);
    /* Apart, since ":/words" takes all that follows as words. */
    stk__text_puts(&script, ") && h=$(git rev-parse --verify \"$h^{commit}\") && " LOG_FORMAT "\"$h\" --");
    char what[160], *text = NULL;
    snprintf(what, sizeof what, "cannot find the commit '%.100s'", revision);
    STK_TRY(run_checked(l, NULL, &script, STK_INVALID, what, &text, err));
    stk__commit commit;
    stk_status status = STK_OK;
    if (parse_commit(text, &commit))
        *out = commit;
    else
        status = stk_error_set(err, STK_INVALID, "%s: git says '%.200s', wanted a commit", what, text);
    stk__free(text);
    return status;
}

/* ---- removing directories ---- */

static void remove_entry(int parent, const char *name, dev_t device);

/* Takes over the descriptor. */
static void remove_below(int fd, dev_t device)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(dirfd(d), e->d_name, device);
    closedir(d);
}

/* Links are removed, never followed; other file systems are left alone. What cannot be removed stays. */
static void remove_entry(int parent, const char *name, dev_t device)
{
    struct stat st;
    if (unlinkat(parent, name, 0) == 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
        st.st_dev != device)
        return;
    /* Builds leave directories that nobody may write to, such as caches of modules. */
    if ((st.st_mode & S_IRWXU) != S_IRWXU)
        fchmodat(parent, name, S_IRWXU, 0);
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        remove_below(fd, device);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static void remove_root(const char *root)
{
    struct stat st;
    if (lstat(root, &st) == 0 && S_ISDIR(st.st_mode))
        remove_entry(AT_FDCWD, root, st.st_dev);
}

/* ---- checkouts ---- */

static void checkout_path(const stk__checkouts *c, size_t i, stk__text *out)
{
    stk__text_printf(out, "%s/%c", c->root, i ? 'b' : 'a');
}

/* False: git keeps its record. */
static bool unlink_worktree(stk__launcher *l, const stk__checkouts *c, size_t i)
{
    stk_status status = STK_CANCELLED;
    stk__outcome o = {0};
    /* A second Ctrl-C ends this command as well; the directories go all the same. */
    for (int tries = 0; status == STK_CANCELLED && tries < TRIES; tries++) {
        stk__text script = STK__TEXT_INIT;
        stk__text path = STK__TEXT_INIT;
        checkout_path(c, i, &path);
        stk__text_puts(&script, "unset GIT_INDEX_FILE GIT_WORK_TREE; git worktree remove --force --force ");
        put_quoted(&script, path.failed ? "" : path.data);
        script.failed |= path.failed;
        stk__text_clear(&path);
        status = run_script(l, NULL, &script, &o, NULL);
    }
    const bool ok = status == STK_OK && o.exit_code == 0;
    if (status == STK_OK)
        stk__outcome_clear(&o);
    return ok;
}

void stk__checkouts_clear(stk__launcher *l, stk__checkouts *c)
{
    for (size_t i = 0; i < 2; i++)
        if (c->linked[i] && l && unlink_worktree(l, c, i))
            c->linked[i] = false;
    if (c->root)
        remove_root(c->root);
    /* What git could not remove is gone now, so that only its record is left. */
    for (size_t i = 0; i < 2; i++) {
        if (c->linked[i] && l)
            unlink_worktree(l, c, i);
        stk__free(c->directories[i]);
    }
    stk__free(c->root);
    *c = (stk__checkouts){0};
}

/* A commit of the tracked files as they are, made with an index of its own. Nothing refers to it. */
static stk_status commit_changes(stk__launcher *l, const char *root, char **out_hash, stk_error *err)
{
    stk__text script = STK__TEXT_INIT, index = STK__TEXT_INIT;
    stk__text_printf(&index, "%s/index", root);
    stk__text_puts(&script, "i=$(git rev-parse --git-path index) && cp \"$i\" ");
    put_quoted(&script, index.failed ? "" : index.data);
    stk__text_puts(&script, " && GIT_INDEX_FILE=");
    put_quoted(&script, index.failed ? "" : index.data);
    stk__text_puts(&script, " && export GIT_INDEX_FILE && git add --update && t=$(git write-tree) && "
                            "git -c user.name=stoker -c user.email=stoker@localhost commit-tree -p HEAD -m "
                            "'changes that were benchmarked' \"$t\"");
    script.failed |= index.failed;
    stk__text_clear(&index);
    char *hash = NULL;
    STK_TRY(run_checked(l, NULL, &script, STK_IO, "cannot take the changes of tracked files", &hash, err));
    if (!is_hash(hash)) {
        stk__free(hash);
        return stk_error_set(err, STK_INVALID, "cannot take the changes of tracked files: git gave no commit");
    }
    *out_hash = hash;
    return STK_OK;
}

static stk_status init_submodules(stk__launcher *l, const char *path, stk_error *err)
{
    stk__text modules = STK__TEXT_INIT, script = STK__TEXT_INIT;
    stk__text_printf(&modules, "%s/.gitmodules", path);
    const bool failed = modules.failed, there = !failed && access(modules.data, F_OK) == 0;
    stk__text_clear(&modules);
    if (failed)
        return stk__nomem(strlen(path), err);
    if (!there)
        return STK_OK;
    /* Only those that the user has: --init would write to the configuration that all checkouts share. */
    stk__text_puts(&script, "unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE GIT_PREFIX; "
                            "git submodule --quiet update && git submodule --quiet foreach --quiet "
                            "'git submodule --quiet update --init --recursive'");
    return run_checked(l, path, &script, STK_IO, "cannot get the submodules of a checkout", NULL, err);
}

/* Where commands start: the checkout, or our directory in it. */
static stk_status enter(const char *path, const char *prefix, const stk__commit *commit, char **out, stk_error *err)
{
    stk__text directory = STK__TEXT_INIT;
    stk__text_puts(&directory, path);
    if (prefix[0])
        stk__text_printf(&directory, "/%s", prefix);
    if (directory.failed) {
        stk__text_clear(&directory);
        return stk__nomem(strlen(prefix), err);
    }
    while (directory.data[directory.length - 1] == '/')
        directory.data[--directory.length] = 0;
    struct stat st;
    if (stat(directory.data, &st) || !S_ISDIR(st.st_mode)) {
        stk__text_clear(&directory);
        return stk_error_set(err, STK_INVALID,
                             "commit %s has no directory '%.300s', where you are: start at the top of the repository",
                             commit->brief, prefix);
    }
    *out = directory.data;
    return STK_OK;
}

static stk_status check_out(stk__launcher *l, stk__checkouts *c, size_t i, const char *hash, const char *prefix,
                            stk_error *err)
{
    stk__text path = STK__TEXT_INIT, script = STK__TEXT_INIT;
    checkout_path(c, i, &path);
    stk__text_puts(&script, "unset GIT_INDEX_FILE GIT_WORK_TREE; " GIT_QUIET "worktree add --quiet --detach --force ");
    put_quoted(&script, path.failed ? "" : path.data);
    stk__text_printf(&script, " %s", hash);
    script.failed |= path.failed;
    char what[64];
    snprintf(what, sizeof what, "cannot check out commit %s", c->commits[i].brief);
    c->linked[i] = true; /* also when it is interrupted half-way */
    stk_status status = run_checked(l, NULL, &script, STK_IO, what, NULL, err);
    if (status == STK_OK)
        status = init_submodules(l, path.data, err);
    if (status == STK_OK)
        status = enter(path.data, prefix, &c->commits[i], &c->directories[i], err);
    stk__text_clear(&path);
    return status;
}

static stk_status make_root(stk__checkouts *c, stk_error *err)
{
    c->root = stk__strdup(ROOT_TEMPLATE);
    if (!c->root)
        return stk__nomem(sizeof ROOT_TEMPLATE, err);
    if (mkdtemp(c->root))
        return STK_OK;
    stk__free(c->root);
    c->root = NULL;
    return stk_error_set(err, STK_IO, "cannot make a directory in /tmp for the checkouts: %s", strerror(errno));
}

static stk_status find_commits(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *c,
                               stk_error *err)
{
    STK_TRY(stk__git_resolve(l, against, &c->commits[0], err));
    if (candidate)
        return stk__git_resolve(l, candidate, &c->commits[1], err);
    STK_TRY(stk__git_here(l, NULL, &c->commits[1], err));
    if (!c->commits[1].hash[0])
        return stk_error_set(err, STK_INVALID, "git knows no commit here, wanted one to compare with %.200s", against);
    return STK_OK;
}

static stk_status fill_checkouts(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *c,
                                 stk_error *err)
{
    STK_TRY(find_commits(l, against, candidate, c, err));
    STK_TRY(make_root(c, err));
    char *prefix = NULL, *changes = NULL;
    stk__text script = STK__TEXT_INIT;
    stk__text_puts(&script, "git rev-parse --show-prefix");
    stk_status status = run_checked(l, NULL, &script, STK_IO, "cannot tell the place in the repository", &prefix, err);
    if (status == STK_OK && c->commits[1].dirty)
        status = commit_changes(l, c->root, &changes, err);
    if (status == STK_OK)
        status = check_out(l, c, 0, c->commits[0].hash, prefix, err);
    if (status == STK_OK)
        status = check_out(l, c, 1, changes ? changes : c->commits[1].hash, prefix, err);
    stk__free(prefix);
    stk__free(changes);
    return status;
}

stk_status stk__git_checkouts(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *out,
                              stk_error *err)
{
    stk__checkouts c = {0};
    const stk_status status = fill_checkouts(l, against, candidate, &c, err);
    if (status == STK_OK)
        *out = c;
    else
        stk__checkouts_clear(l, &c);
    return status;
}

/* ---- building ---- */

static stk_status build_failed(const stk__commit *commit, const stk__outcome *o, const stk__launch *launch,
                               stk_error *err)
{
    char text[BUILD_WORDS_MAX + 128];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    stk__text_printf(&t, "the build of commit %s%s failed: ", commit->brief, commit->dirty ? " with changes" : "");
    stk__outcome_text(o, launch, &t);
    const char *said = o->error_end && o->error_end[strspn(o->error_end, " \t\r\n")] ? o->error_end : o->output_end;
    stk__text_puts(&t, ": ");
    put_words(&t, said && said[strspn(said, " \t\r\n")] ? said : "it printed nothing", BUILD_WORDS_MAX - 64);
    return stk_error_set(err, STK_IO, "%s", text);
}

stk_status stk__git_build(stk__launcher *l, const stk__checkouts *c, const char *build, int64_t timeout_ns,
                          stk_error *err)
{
    for (size_t i = 0; i < 2; i++) {
        const stk__launch launch = {
            .command = build, .directory = c->directories[i], .output = STK__OUTPUT_KEEP, .timeout_ns = timeout_ns};
        stk__outcome o = {0};
        STK_TRY(stk__launcher_run(l, &launch, &o, err));
        const bool failed = o.exit_code != 0 || o.signal || o.timed_out || o.out_of_memory;
        const stk_status status = failed ? build_failed(&c->commits[i], &o, &launch, err) : STK_OK;
        stk__outcome_clear(&o);
        STK_TRY(status);
    }
    return STK_OK;
}
