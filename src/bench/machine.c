/* Reads what /proc and uname tell about the machine. */
#define _GNU_SOURCE
#include "bench/machine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"

#include "base/banned.h"

/* The value of "NAME : value" in a text like /proc/cpuinfo: first line with that name and a value. */
static bool find_value(const char *text, const char *name, char *out, size_t size)
{
    const size_t length = strlen(name);
    for (const char *line = text; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *p = line + length;
        if (strncasecmp(line, name, length) == 0) {
            p += strspn(p, " \t");
            if (*p == ':') {
                p++;
                p += strspn(p, " \t");
                if (p < end) {
                    snprintf(out, size, "%.*s", (int)STK_MIN((size_t)(end - p), size - 1), p);
                    return true;
                }
            }
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

/* The parts of ARM's list that machines for benchmarks have; the kernel prints only the numbers. */
static const struct {
    unsigned implementer, part;
    const char *name;
} arm_parts[] = {
    {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},  {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},  {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"}, {0x41, 0xd0d, "Cortex-A77"},
    {0x41, 0xd40, "Neoverse V1"}, {0x41, 0xd41, "Cortex-A78"},  {0x41, 0xd44, "Cortex-X1"},
    {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4f, "Neoverse V2"}, {0x41, 0xd8e, "Neoverse N3"},
    {0x41, 0xd84, "Neoverse V3"}, {0xc0, 0xac3, "Ampere-1"},    {0xc0, 0xac4, "Ampere-1A"},
    {0x46, 0x001, "A64FX"},       {0x48, 0xd01, "Kunpeng 920"},
};

static bool arm_model(const char *cpuinfo, stk__text *out)
{
    char implementer[32], part[32];
    if (!find_value(cpuinfo, "CPU implementer", implementer, sizeof implementer) ||
        !find_value(cpuinfo, "CPU part", part, sizeof part))
        return false;
    unsigned a, b;
    if (sscanf(implementer, "%x", &a) != 1 || sscanf(part, "%x", &b) != 1)
        return false;
    for (size_t i = 0; i < STK_COUNT(arm_parts); i++) {
        if (arm_parts[i].implementer == a && arm_parts[i].part == b) {
            stk__text_printf(out, "ARM %s", arm_parts[i].name);
            return true;
        }
    }
    stk__text_printf(out, a == 0x61 ? "Apple 0x%x part 0x%x" : "ARM 0x%x part 0x%x", a, b);
    return true;
}

/* One line of printable text: blanks joined, trade marks left out. */
static void put_clean(stk__text *out, const char *s)
{
    bool blank = false, any = false;
    while (*s) {
        if (strncmp(s, "(R)", 3) == 0 || strncmp(s, "(r)", 3) == 0) {
            s += 3;
        } else if (strncmp(s, "(TM)", 4) == 0 || strncmp(s, "(tm)", 4) == 0) {
            s += 4;
        } else if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f || *s == ',') {
            blank = true;
            s++;
        } else {
            if (blank && any)
                stk__text_putc(out, ' ');
            stk__text_putc(out, *s++);
            blank = false;
            any = true;
        }
    }
}

void stk__machine_model(const char *cpuinfo, stk__text *out)
{
    static const char *const names[] = {"model name", "cpu model", "Model", "cpu", "uarch", "Hardware"};
    char value[128];
    /* x86 has a line "model" with a number below "model name", ARM boards have "Model" with their name. */
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (i == 2 && arm_model(cpuinfo, out))
            return;
        if (find_value(cpuinfo, names[i], value, sizeof value) && value[strspn(value, "0123456789")]) {
            put_clean(out, value);
            return;
        }
    }
    struct utsname name;
    put_clean(out, uname(&name) == 0 ? name.machine : "unknown CPU");
}

static void put_model(stk__text *out)
{
    char cpuinfo[8192]; /* the first CPU is enough */
    stk__machine_model(stk__read_start("/proc/cpuinfo", cpuinfo, sizeof cpuinfo) ? cpuinfo : "", out);
}

void stk__machine_describe(stk__text *out)
{
    const int cores = stk__cpu_limit();
    put_model(out);
    stk__text_printf(out, ", %d core%s, ", cores, cores == 1 ? "" : "s");
    stk__text_bytes(out, stk__memory_limit());
    struct utsname name;
    if (uname(&name) == 0)
        stk__text_printf(out, ", %s %.*s", name.sysname, (int)strcspn(name.release, "-+ "), name.release);
}

void stk__machine_fingerprint(char out[9])
{
    char buffer[256];
    stk__text text;
    stk__text_fixed(&text, buffer, sizeof buffer);
    put_model(&text);
    const uint64_t gib = (stk__memory_limit() + (UINT64_C(1) << 29)) >> 30;
    stk__text_printf(&text, "|%d|%" PRIu64, stk__cpu_limit(), gib);
    snprintf(out, 9, "%08" PRIx32, (uint32_t)XXH3_64bits(text.data, text.length));
}

bool stk__machine_ticks_now(stk__machine_ticks *out)
{
    char text[512];
    unsigned long long user, nice, system, idle, wait, irq = 0, soft = 0, steal = 0;
    if (!stk__read_start("/proc/stat", text, sizeof text))
        return false;
    const int64_t now = stk__now_ns();
    /* guest time is part of user */
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft,
               &steal) < 5)
        return false;
    const double per_second = (double)sysconf(_SC_CLK_TCK);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (stk__machine_ticks){
        .busy_s = (double)(user + nice + system + irq + soft) / per_second,
        .steal_s = (double)steal / per_second,
        .at_ns = now,
        .cpus = cpus > 0 ? (int)cpus : 1,
    };
    return true;
}

int64_t stk__machine_pressure_us(const char *resource)
{
    char path[64], text[256];
    if (snprintf(path, sizeof path, "/proc/pressure/%s", resource) >= (int)sizeof path ||
        !stk__read_start(path, text, sizeof text) || strncmp(text, "some ", 5) != 0)
        return -1;
    const char *end = strchrnul(text, '\n');
    const char *total = strstr(text, "total=");
    int64_t us;
    if (!total || total > end || sscanf(total, "total=%" SCNd64, &us) != 1 || us < 0)
        return -1;
    return us;
}

double stk__machine_load(void)
{
    char text[128];
    if (!stk__read_start("/proc/loadavg", text, sizeof text))
        return NAN;
    char *end;
    const double load = stk__strtod(text, &end);
    return end == text ? NAN : load;
}
