/* The processes of a command: finds them in /proc, signals them, ends what the command left behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/launch_wire.h"

#include "base/banned.h"

enum { STRAGGLER_TRIES = 500, STRAGGLER_PATIENCE = 25, STRAGGLER_WAIT_NS = 2000000 };

typedef struct process {
    pid_t pid, parent, session;
    bool ours;
} process;

typedef struct processes {
    process *items;
    size_t count, capacity;
} processes;

/* From /proc/PID/stat; the name in it may hold anything, so what counts is behind its last parenthesis. */
static bool read_process(const char *name, process *out)
{
    char path[64], text[512];
    if (snprintf(path, sizeof path, "/proc/%s/stat", name) >= (int)sizeof path)
        return false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *p = strrchr(text, ')');
    char state;
    int parent, group, session;
    if (!p || sscanf(p + 1, " %c %d %d %d", &state, &parent, &group, &session) != 4 || state == 'Z' || state == 'X')
        return false;
    *out = (process){.pid = (pid_t)strtol(name, NULL, 10), .parent = parent, .session = session};
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    const pid_t x = ((const process *)a)->pid, y = ((const process *)b)->pid;
    return (x > y) - (x < y);
}

static void list_processes(processes *out)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        process p;
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !read_process(e->d_name, &p))
            continue;
        if (!stk__grow((void **)&out->items, &out->capacity, out->count + 1, sizeof p))
            break;
        out->items[out->count++] = p;
    }
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_pids);
}

static bool is_ours(const processes *list, pid_t pid)
{
    const process key = {.pid = pid};
    const process *found = bsearch(&key, list->items, list->count, sizeof key, compare_pids);
    return found && found->ours;
}

uint64_t stk__session_signal(pid_t leader, bool tree, int signal_number)
{
    processes list = {0};
    list_processes(&list);
    uint64_t sent = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < list.count; i++) {
            process *p = &list.items[i];
            if (p->ours || !(p->session == leader || (tree && (p->pid == leader || is_ours(&list, p->parent)))))
                continue;
            p->ours = more = true;
            sent += kill(p->pid, signal_number) == 0;
        }
        more = more && tree;
    }
    stk__free(list.items);
    /* What was forked meanwhile, and the group at least if there is no /proc. */
    if (signal_number == SIGKILL || (signal_number && !sent))
        kill(-leader, signal_number);
    return sent;
}

uint64_t stk__session_end(pid_t leader, bool patient)
{
    uint64_t left = 0;
    const int first = patient ? STRAGGLER_PATIENCE : 0;
    for (int tries = 0; tries < STRAGGLER_TRIES; tries++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) /* orphans become our children: there are none */
            break;
        const uint64_t there = stk__session_signal(leader, false, tries < first ? 0 : SIGKILL);
        if (tries == first)
            left = there;
        if (!there && kill(-leader, 0))
            break; /* only daemons are left, which have sessions of their own */
        const struct timespec wait = {.tv_nsec = STRAGGLER_WAIT_NS};
        nanosleep(&wait, NULL);
    }
    return left;
}
