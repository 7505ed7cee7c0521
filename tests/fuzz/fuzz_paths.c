/* Fuzz target: any bytes as a pattern over a small tree; what is found is there, sorted, and found again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/expand.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static char tree[] = "/tmp/stoker-fuzz-paths-XXXXXX";

static void remove_tree(void)
{
    stk__remove_tree(tree);
}

static void make_tree(void)
{
    static const char *const names[] = {"a/",     "a/b", "a/[c]", "a/.d",     "b/",  "b/a/", "b/a/1",
                                        "b/a/10", "b/*", "c.tar", "\xc3\xa9", ".h/", ".h/x"};
    check(mkdtemp(tree) != NULL);
    atexit(remove_tree);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char path[128];
        FILE *f = NULL;
        snprintf(path, sizeof path, "%s/%s", tree, names[i]);
        if (path[strlen(path) - 1] == '/')
            check(mkdir(path, 0777) == 0);
        else
            check((f = fopen(path, "w")) && fclose(f) == 0);
    }
}

/* Out of the tree the answer is the machine's. */
static bool leaves_tree(const char *text)
{
    return strstr(text, "..") || strstr(text, "\\.") || strstr(text, ".\\");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made)
        make_tree();
    made = true;
    stk__text text = STK__TEXT_INIT;
    stk__text_printf(&text, "%s/", tree);
    const size_t prefix = text.length;
    stk__text_write(&text, data, strnlen((const char *)data, size));
    char *pattern = text.data;
    stk__paths paths = {0}, again = {0};
    stk_error err;
    stk_error_clear(&err);
    check(!text.failed);
    stk__braces *b = NULL;
    if (stk__braces_open(pattern, &b, NULL) == STK_OK) {
        const uint64_t count = stk__braces_count(b);
        check(count >= 1 && count <= STK__BRACE_NAMES_MAX);
        for (uint64_t i = 0; i < count; i += 1 + count / 50)
            stk__free(stk__braces_name(b, i));
        const bool few = count <= 1000 && !leaves_tree(pattern + prefix);
        if (few && stk__paths_glob(&paths, pattern, &err) == STK_OK) {
            check(paths.count >= 1 && stk__paths_glob(&again, pattern, NULL) == STK_OK && again.count == paths.count);
            for (size_t i = 0; i < paths.count; i++)
                check(strcmp(paths.items[i], again.items[i]) == 0);
        } else if (few) {
            check(err.status != STK_OK && err.message[0]);
        }
    }
    stk__braces_close(b);
    stk__paths_clear(&paths);
    stk__paths_clear(&again);
    stk__text_clear(&text);
    return 0;
}
