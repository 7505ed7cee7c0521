/* A group of tests that run git: a launcher, and nothing of the user's settings or of a repository around. */
#ifndef STK_TESTS_GIT_GROUP_H
#define STK_TESTS_GIT_GROUP_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/compiler.h"
#include "bench/launch.h"

static stk__launcher *launcher;
static int home = -1; /* where the tests were started */

static inline int git_group_setup(void **state)
{
    (void)state;
    if (system("git --version > /dev/null 2>&1") != 0) {
        print_message("skipped: no git\n");
        exit(77);
    }
    setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    setenv("GIT_CEILING_DIRECTORIES", "/tmp", 1);
    static const char *const strangers[] = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"};
    for (size_t i = 0; i < STK_COUNT(strangers); i++)
        unsetenv(strangers[i]);
    home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return home >= 0 && stk__launcher_start(&launcher, NULL) == STK_OK ? 0 : -1;
}

static inline int git_group_teardown(void **state)
{
    (void)state;
    stk__launcher_stop(launcher);
    close(home);
    return 0;
}

static inline void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

#endif
