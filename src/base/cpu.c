/* Reading of affinity and cgroup limits. */
#define _GNU_SOURCE
#include "base/cpu.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

#include "base/banned.h"

/* First line of DIR/NAME. False when there is no such file. */
static bool read_line(const char *dir, const char *name, char *out, size_t size)
{
    char path[1400];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const bool ok = fgets(out, (int)size, f) != NULL;
    fclose(f);
    return ok;
}

/* The cgroup path of this process for `controller`; "" names the v2 line. */
static bool cgroup_path(const char *controller, char *out, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return false;
    char line[1024];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        names++;
        if (!*controller) {
            found = !*names;
        } else {
            for (char *save = NULL, *name = strtok_r(names, ",", &save); name && !found;
                 name = strtok_r(NULL, ",", &save))
                found = strcmp(name, controller) == 0;
        }
        if (found)
            snprintf(out, size, "%s", path);
    }
    fclose(f);
    return found;
}

typedef void (*limit_reader)(const char *dir, double *cpus, double *bytes);

static void read_v2(const char *dir, double *cpus, double *bytes)
{
    char line[128];
    double quota, period;
    if (read_line(dir, "cpu.max", line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        *cpus = STK_MIN(*cpus, quota / period);
    double limit;
    if (read_line(dir, "memory.max", line, sizeof line) && sscanf(line, "%lf", &limit) == 1)
        *bytes = STK_MIN(*bytes, limit);
}

static void read_v1(const char *dir, double *cpus, double *bytes)
{
    char line[128];
    double quota = -1, period = 0, limit;
    if (read_line(dir, "cpu.cfs_quota_us", line, sizeof line))
        sscanf(line, "%lf", &quota);
    if (read_line(dir, "cpu.cfs_period_us", line, sizeof line))
        sscanf(line, "%lf", &period);
    if (quota > 0 && period > 0)
        *cpus = STK_MIN(*cpus, quota / period);
    if (read_line(dir, "memory.limit_in_bytes", line, sizeof line) && sscanf(line, "%lf", &limit) == 1)
        *bytes = STK_MIN(*bytes, limit);
}

/* A limit may be set on any ancestor, so the walk goes up to the mount point. */
static void walk_up(const char *mount, const char *path, limit_reader reader, double *cpus, double *bytes)
{
    char dir[1200];
    if (snprintf(dir, sizeof dir, "%s%s", mount, path) >= (int)sizeof dir)
        return;
    for (;;) {
        reader(dir, cpus, bytes);
        if (strlen(dir) <= strlen(mount))
            break;
        *strrchr(dir, '/') = 0;
    }
}

static void cgroup_limits(double *cpus, double *bytes)
{
    char path[1024];
    if (cgroup_path("", path, sizeof path)) {
        walk_up("/sys/fs/cgroup", path, read_v2, cpus, bytes);
        walk_up("/sys/fs/cgroup/unified", path, read_v2, cpus, bytes);
    }
    if (cgroup_path("cpu", path, sizeof path))
        walk_up("/sys/fs/cgroup/cpu", path, read_v1, cpus, bytes);
    if (cgroup_path("memory", path, sizeof path))
        walk_up("/sys/fs/cgroup/memory", path, read_v1, cpus, bytes);
}

int stk__cpu_limit(void)
{
    cpu_set_t set;
    double cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    double bytes = 1e30;
    cgroup_limits(&cpus, &bytes);
    const int whole = (int)cpus + (cpus > (int)cpus);
    return STK_MAX(whole, 1);
}

int stk__cpu_share(int processes)
{
    cpu_set_t set;
    const int limit = stk__cpu_limit();
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    /* A launcher that gave every process cores of its own has shared them already. */
    const int own = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    if (processes <= 1 || (own < online && (long)own * processes <= online))
        return limit;
    return STK_MAX(limit / processes, 1);
}

uint64_t stk__memory_limit(void)
{
    double cpus = 1e9;
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    cgroup_limits(&cpus, &bytes);
    return (uint64_t)bytes;
}
