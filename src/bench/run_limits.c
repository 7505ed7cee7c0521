/* Finds out how limits can be had here, sets them up, and takes them away again. */
#define _GNU_SOURCE
#include "bench/run_limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/file.h"
#include "bench/launch_wire.h"

#include "base/banned.h"

enum { QUOTA_PERIOD_US = 100000, PLACES_MAX = 16, LEAST_MEMORY = 1 << 20, REMOVE_TRIES = 100, REMOVE_WAIT_MS = 10 };

/* ---- files of cgroups ---- */

static bool join(char *out, size_t size, const char *dir, const char *name)
{
    return snprintf(out, size, "%s/%s", dir, name) < (int)size;
}

/* Writes to a file that is there. 0 or errno. */
static int put_file(const char *dir, const char *name, const char *text)
{
    char path[STK__CGROUP_PATH + 64];
    if (!join(path, sizeof path, dir, name))
        return ENAMETOOLONG;
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const size_t size = strlen(text);
    const ssize_t got = write(fd, text, size);
    const int code = got == (ssize_t)size ? 0 : got < 0 ? errno : EIO;
    close(fd);
    return code;
}

static bool get_file(const char *dir, const char *name, char *out, size_t size)
{
    char path[STK__CGROUP_PATH + 64];
    return join(path, sizeof path, dir, name) && stk__read_start(path, out, size);
}

/* Is `word` among the items of a list with these separators? */
static bool has_word(const char *list, const char *separators, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, separators);
        if (n == length && memcmp(p, word, n) == 0)
            return true;
        p += n;
        p += strspn(p, separators);
    }
    return false;
}

/* ---- where cgroups are ---- */

/* A mount of /proc/self/mountinfo: pointers into its line. */
typedef struct mount {
    char *root, *point, *type, *options;
} mount;

/* "\040" and the like, in place. */
static void unescape(char *s)
{
    char *out = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
}

/* "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory" */
static bool parse_mount(char *line, mount *out)
{
    char *save = NULL, *fields[5];
    for (size_t i = 0; i < STK_COUNT(fields); i++)
        if (!(fields[i] = strtok_r(i ? NULL : line, " \n", &save)))
            return false;
    for (char *word; (word = strtok_r(NULL, " \n", &save));) {
        if (strcmp(word, "-") != 0)
            continue;
        char *type = strtok_r(NULL, " \n", &save);
        char *source = strtok_r(NULL, " \n", &save);
        char *options = strtok_r(NULL, " \n", &save);
        if (!type || !source || !options)
            return false;
        unescape(fields[3]);
        unescape(fields[4]);
        *out = (mount){.root = fields[3], .point = fields[4], .type = type, .options = options};
        return true;
    }
    return false;
}

/* The next line without its end; longer ones (overlays have them) are left out. */
static bool next_line(FILE *f, char *out, size_t size)
{
    while (fgets(out, (int)size, f)) {
        char *end = strchr(out, '\n');
        if (end || feof(f)) {
            if (end)
                *end = 0;
            return true;
        }
        for (int c; (c = getc(f)) != EOF && c != '\n';) {
        }
    }
    return false;
}

/* Our path in the hierarchy of `controller`; "" is the one of v2. */
static bool own_path(const char *root, const char *controller, char *out, size_t size)
{
    char name[STK__CGROUP_PATH];
    FILE *f = join(name, sizeof name, root, "proc/self/cgroup") ? fopen(name, "re") : NULL;
    if (!f)
        return false;
    char line[STK__CGROUP_PATH + 256];
    bool found = false;
    while (!found && next_line(f, line, sizeof line)) {
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        found = *controller ? has_word(names + 1, ",", controller) : names[1] == 0;
        if (found)
            found = snprintf(out, size, "%s", path) < (int)size;
    }
    fclose(f);
    return found;
}

/* The mount point of the hierarchy, with what of our path lies below it. */
static bool find_mount(const char *root, const char *controller, const char *path, char *out_point, char *out_below)
{
    char name[STK__CGROUP_PATH];
    FILE *f = join(name, sizeof name, root, "proc/self/mountinfo") ? fopen(name, "re") : NULL;
    if (!f)
        return false;
    char line[2 * STK__CGROUP_PATH];
    bool found = false;
    while (!found && next_line(f, line, sizeof line)) {
        mount m;
        if (!parse_mount(line, &m))
            continue;
        if (*controller ? strcmp(m.type, "cgroup") != 0 || !has_word(m.options, ",", controller)
                        : strcmp(m.type, "cgroup2") != 0)
            continue;
        /* A container may see only a part of the tree, and its own path may lie outside of that part. */
        const size_t length = strcmp(m.root, "/") == 0 ? 0 : strlen(m.root);
        const bool inside = strncmp(path, m.root, length) == 0 && (path[length] == '/' || !path[length]);
        const char *below = inside && !strstr(path, "/..") ? path + length : "";
        if (strcmp(below, "/") == 0)
            below = "";
        found = snprintf(out_point, STK__CGROUP_PATH, "%s%s", root, m.point) < STK__CGROUP_PATH &&
                snprintf(out_below, STK__CGROUP_PATH, "%s", below) < STK__CGROUP_PATH;
    }
    fclose(f);
    return found;
}

size_t stk__cgroup_places(const char *root, const char *controller, stk__cgroup_place *out, size_t max)
{
    char path[STK__CGROUP_PATH], point[STK__CGROUP_PATH], below[STK__CGROUP_PATH], full[2 * STK__CGROUP_PATH];
    int version = 1;
    if (!own_path(root, controller, path, sizeof path) || !find_mount(root, controller, path, point, below)) {
        version = 2;
        if (!own_path(root, "", path, sizeof path) || !find_mount(root, "", path, point, below))
            return 0;
        char controllers[512];
        if (!get_file(point, "cgroup.controllers", controllers, sizeof controllers) ||
            !has_word(controllers, " \n", controller))
            return 0;
    }
    size_t count = 0;
    for (; count < max; count++) {
        snprintf(full, sizeof full, "%s%s", point, below);
        if (strlen(full) >= STK__CGROUP_PATH - 64)
            break;
        out[count].version = version;
        memcpy(out[count].path, full, strlen(full) + 1);
        char *slash = strrchr(below, '/');
        if (!slash)
            return count + 1;
        *slash = 0;
    }
    return count;
}

/* ---- making a cgroup ---- */

/* Controllers must be switched on in the directory above. Ours may be switched on by us; others are left as they are. */
static int enable(const char *parent, bool own, const char *controller, stk__cgroup *group)
{
    char words[512];
    if (!get_file(parent, "cgroup.subtree_control", words, sizeof words))
        return errno;
    if (has_word(words, " \n", controller))
        return 0;
    if (!own)
        return ENOTSUP;
    char word[16];
    snprintf(word, sizeof word, "+%s", controller);
    const int code = put_file(parent, "cgroup.subtree_control", word);
    if (code == 0) {
        const size_t used = strlen(group->enabled);
        snprintf(group->enabled + used, sizeof group->enabled - used, "%s%s", used ? " " : "", word);
    }
    return code;
}

static void disable(const char *parent, const stk__cgroup *group)
{
    char words[sizeof group->enabled];
    snprintf(words, sizeof words, "%s", group->enabled);
    for (char *p = words; *p; p++)
        if (*p == '+')
            *p = '-';
    if (*words)
        put_file(parent, "cgroup.subtree_control", words);
}

static bool is_absent(int code)
{
    return code == ENOENT || code == EOPNOTSUPP;
}

static int limit_memory(const stk__cgroup *group, uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, bytes);
    if (group->version == 2) {
        const int code = put_file(group->path, "memory.max", text);
        const int swap = code ? 0 : put_file(group->path, "memory.swap.max", "0");
        return code ? code : is_absent(swap) ? 0 : swap;
    }
    const int code = put_file(group->path, "memory.limit_in_bytes", text);
    if (code)
        return code;
    const int both = put_file(group->path, "memory.memsw.limit_in_bytes", text);
    if (is_absent(both)) /* a kernel that does not count swap: keep it from being used at least */
        put_file(group->path, "memory.swappiness", "0");
    return is_absent(both) ? 0 : both;
}

static int limit_cpu(const stk__cgroup *group, double cpus)
{
    char text[64];
    const long long quota = llround(cpus * QUOTA_PERIOD_US);
    if (group->version == 2) {
        snprintf(text, sizeof text, "%lld %d", quota, (int)QUOTA_PERIOD_US);
        return put_file(group->path, "cpu.max", text);
    }
    snprintf(text, sizeof text, "%d", (int)QUOTA_PERIOD_US);
    const int code = put_file(group->path, "cpu.cfs_period_us", text);
    if (code)
        return code;
    snprintf(text, sizeof text, "%lld", quota);
    return put_file(group->path, "cpu.cfs_quota_us", text);
}

/* Can a process be moved there? Permission to make a cgroup does not mean that. 0 or errno. */
static int try_move(const stk__cgroup *group)
{
    const pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        stk__launch_leave(put_file(group->path, "cgroup.procs", "0") & 0xff);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/* Ends what is in the cgroup; only what we ran is. */
static void end_members(const char *path)
{
    char text[4096];
    if (!get_file(path, "cgroup.procs", text, sizeof text))
        return;
    char *save = NULL;
    for (char *word = strtok_r(text, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
        const long pid = strtol(word, NULL, 10);
        if (pid > 1 && pid != (long)getpid())
            kill((pid_t)pid, SIGKILL);
    }
}

static void remove_group(stk__cgroup *group)
{
    if (!group->version)
        return;
    for (int tries = 0; rmdir(group->path) && errno == EBUSY && tries < REMOVE_TRIES; tries++) {
        end_members(group->path);
        const struct timespec wait = {.tv_nsec = REMOVE_WAIT_MS * 1000000L};
        nanosleep(&wait, NULL);
    }
    char *slash = strrchr(group->path, '/');
    if (slash) {
        *slash = 0;
        disable(group->path, group);
    }
    *group = (stk__cgroup){0};
}

/* Empty cgroups of launchers that were killed. One that is in use cannot be removed. */
static void remove_leftovers(const char *parent, const char *name)
{
    const char *dash = strrchr(name, '-');
    DIR *dir = dash ? opendir(parent) : NULL;
    if (!dir)
        return;
    const size_t length = (size_t)(dash - name) + 1;
    for (struct dirent *e; (e = readdir(dir));) {
        char *end = NULL;
        const long pid = strncmp(e->d_name, name, length) == 0 ? strtol(e->d_name + length, &end, 10) : 0;
        char path[STK__CGROUP_PATH + 300];
        if (pid > 1 && *end == 0 && kill((pid_t)pid, 0) && errno == ESRCH && join(path, sizeof path, parent, e->d_name))
            rmdir(path);
    }
    closedir(dir);
}

/* One attempt, in one directory. 0, or an errno with nothing left behind. */
static int make_in(const stk__cgroup_place *place, bool own, const char *name, const stk__limits *limits, bool memory,
                   bool cpu, bool move, stk__cgroup *out)
{
    stk__cgroup group = {.version = place->version, .memory = memory, .cpu = cpu};
    int code = 0;
    if (snprintf(group.path, sizeof group.path, "%s/%s", place->path, name) >= (int)sizeof group.path)
        return ENAMETOOLONG;
    if (place->version == 2 && memory)
        code = enable(place->path, own, "memory", &group);
    if (!code && place->version == 2 && cpu)
        code = enable(place->path, own, "cpu", &group);
    remove_leftovers(place->path, name);
    if (code || (mkdir(group.path, 0755) && errno != EEXIST)) {
        code = code ? code : errno;
        disable(place->path, &group);
        return code;
    }
    if (memory)
        code = limit_memory(&group, limits->memory_bytes);
    if (!code && cpu)
        code = limit_cpu(&group, limits->cpus);
    if (!code && move)
        code = try_move(&group);
    if (code)
        remove_group(&group);
    else
        *out = group;
    return code;
}

/* Adds a cgroup with the wanted controllers to the set, where one can be made. False: `reason` says why not. */
static bool make_group(const char *root, const char *name, bool memory, bool cpu, bool move, stk__limit_set *set)
{
    const char *what = memory && cpu ? "memory and cpu" : memory ? "memory" : "cpu";
    stk__cgroup_place places[PLACES_MAX];
    const size_t count = stk__cgroup_places(root, memory ? "memory" : "cpu", places, PLACES_MAX);
    int first = 0;
    stk__cgroup *out = set->groups[0].version ? &set->groups[1] : &set->groups[0];
    for (size_t i = 0; i < count; i++) {
        const int code = make_in(&places[i], i == 0, name, &set->limits, memory, cpu, move, out);
        if (!code)
            return true;
        first = first ? first : code;
    }
    if (!count)
        snprintf(set->reason, sizeof set->reason, "this system has no cgroup controller \"%s\"", what);
    else if (first == ENOTSUP || first == EBUSY)
        snprintf(set->reason, sizeof set->reason, "the %s controller is not handed down to %.100s", what,
                 places[0].path);
    else
        snprintf(set->reason, sizeof set->reason, "no cgroup for %s can be made in %.100s: %s", what, places[0].path,
                 strerror(first));
    return false;
}

/* ---- CPUs ---- */

/* Keeps the last `count` of the CPUs that we may use: interrupts tend to go to the first. Returns how many there are. */
static int choose_cpus(int count, unsigned long mask[STK__CPU_MASK_WORDS])
{
    const size_t bytes = STK__CPU_MASK_WORDS * sizeof *mask;
    memset(mask, 0, bytes);
    if (sched_getaffinity(0, bytes, (cpu_set_t *)mask))
        return -1;
    const int there = CPU_COUNT_S(bytes, (cpu_set_t *)mask);
    int surplus = there - count;
    for (int i = 0; i < (int)bytes * 8 && surplus > 0; i++) {
        if (CPU_ISSET_S((size_t)i, bytes, (cpu_set_t *)mask)) {
            CPU_CLR_S((size_t)i, bytes, (cpu_set_t *)mask);
            surplus--;
        }
    }
    return there;
}

static stk_status check_limits(const stk__limits *limits, stk_error *err)
{
    if (limits->cpus != 0 && !(limits->cpus >= 0.01 && limits->cpus <= 8192))
        return stk_error_set(err, STK_INVALID, "a limit of %g CPUs: wanted 0.01 to 8192", limits->cpus);
    if (limits->memory_bytes && limits->memory_bytes < LEAST_MEMORY)
        return stk_error_set(err, STK_INVALID, "a limit of %" PRIu64 " bytes of memory: wanted at least 1 MiB",
                             limits->memory_bytes);
    if (limits->memory_bytes > INT64_MAX)
        return stk_error_set(err, STK_INVALID, "a limit of %" PRIu64 " bytes of memory: more than there can be",
                             limits->memory_bytes);
    return STK_OK;
}

static stk_status limit_affinity(stk__limit_set *set, stk_error *err)
{
    const int wanted = (int)ceil(set->limits.cpus);
    const int masked = choose_cpus(wanted, set->cpu_mask);
    if (masked < 0)
        return stk_error_set(err, STK_UNSUPPORTED, "the CPUs of this process cannot be told: %s", strerror(errno));
    const int usable = STK_MIN(masked, stk__cpu_limit());
    if (wanted > usable)
        return stk_error_set(err, STK_INVALID, "a limit of %g CPUs, but this process may use %d", set->limits.cpus,
                             usable);
    set->cpu_count = wanted;
    return STK_OK;
}

stk_status stk__limits_make(const char *root, const char *name, const stk__limits *limits, bool move,
                            stk__limit_set *out, stk_error *err)
{
    stk__limit_set set = {.limits = *limits};
    STK_TRY(check_limits(limits, err));
    if (limits->cpus > 0)
        STK_TRY(limit_affinity(&set, err));
    const bool memory = limits->memory_bytes > 0, quota = limits->cpus > 0 && limits->cpus != floor(limits->cpus);
    /* In v2 a process has one cgroup, which then must do both. */
    stk__cgroup_place place;
    const bool one = memory && quota && stk__cgroup_places(root, "memory", &place, 1) && place.version == 2 &&
                     stk__cgroup_places(root, "cpu", &place, 1) && place.version == 2;
    if (!one || !make_group(root, name, true, true, move, &set)) {
        if (quota && !make_group(root, name, false, true, move, &set))
            return stk_error_set(err, STK_UNSUPPORTED, "%g CPUs need a quota: %s; whole numbers of CPUs work",
                                 limits->cpus, set.reason);
        if (memory && (one || !make_group(root, name, true, false, move, &set)))
            set.address_limit = true;
    }
    *out = set;
    return STK_OK;
}

void stk__limits_remove(stk__limit_set *set)
{
    for (size_t i = 0; i < STK_COUNT(set->groups); i++)
        remove_group(&set->groups[i]);
    *set = (stk__limit_set){0};
}

int stk__limits_enter(const stk__limit_set *set, const char **out_what)
{
    for (size_t i = 0; i < STK_COUNT(set->groups); i++) {
        *out_what = "enter the cgroup for its limits";
        const int code = set->groups[i].version ? put_file(set->groups[i].path, "cgroup.procs", "0") : 0;
        if (code)
            return code;
    }
    *out_what = "keep to its CPUs";
    if (set->cpu_count && sched_setaffinity(0, sizeof set->cpu_mask, (const cpu_set_t *)set->cpu_mask))
        return errno;
    *out_what = "limit its addresses";
    const struct rlimit most = {.rlim_cur = set->limits.memory_bytes, .rlim_max = set->limits.memory_bytes};
    if (set->address_limit && setrlimit(RLIMIT_AS, &most))
        return errno;
    return 0;
}

/* ---- what happened ---- */

static const stk__cgroup *memory_group(const stk__limit_set *set)
{
    for (size_t i = 0; i < STK_COUNT(set->groups); i++)
        if (set->groups[i].version && set->groups[i].memory)
            return &set->groups[i];
    return NULL;
}

int64_t stk__limits_kills(const stk__limit_set *set)
{
    const stk__cgroup *group = memory_group(set);
    char text[1024];
    if (!group ||
        !get_file(group->path, group->version == 2 ? "memory.events" : "memory.oom_control", text, sizeof text))
        return -1;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, "oom_kill ", 9) == 0)
            return strtoll(line + 9, NULL, 10);
    return -1;
}

int64_t stk__limits_failures(const stk__limit_set *set)
{
    const stk__cgroup *group = memory_group(set);
    char text[64];
    if (!group || group->version != 1 || !get_file(group->path, "memory.failcnt", text, sizeof text))
        return -1;
    return strtoll(text, NULL, 10);
}

void stk__limits_text(const stk__limit_set *set, stk__text *out, stk__text *out_note)
{
    int quota = 0;
    for (size_t i = 0; i < STK_COUNT(set->groups); i++)
        if (set->groups[i].cpu)
            quota = set->groups[i].version;
    if (set->cpu_count) {
        stk__text_printf(out, "%g CPU%s", set->limits.cpus, set->limits.cpus == 1 ? "" : "s");
        if (quota)
            stk__text_printf(out, " (%d by affinity, quota by cgroup v%d)", set->cpu_count, quota);
        else
            stk__text_puts(out, " (affinity)");
    }
    if (!set->limits.memory_bytes)
        return;
    if (set->cpu_count)
        stk__text_puts(out, ", ");
    stk__text_bytes(out, set->limits.memory_bytes);
    const stk__cgroup *group = memory_group(set);
    if (group)
        stk__text_printf(out, " (cgroup v%d)", group->version);
    else
        stk__text_puts(out, " (RLIMIT_AS, per process)");
    if (!group && out_note)
        stk__text_printf(out_note, "%s: memory is limited per process, by addresses (RLIMIT_AS)", set->reason);
}
