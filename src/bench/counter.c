/* Opens, reads and explains counters of the kernel. */
#define _GNU_SOURCE
#include "bench/counter.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

#include "base/banned.h"

static int kernel_open(stk__counter_kind kind, pid_t pid)
{
    struct perf_event_attr attributes = {
        .size = sizeof attributes,
        .type = kind == STK__COUNT_INSTRUCTIONS ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
        .config =
            kind == STK__COUNT_INSTRUCTIONS ? (uint64_t)PERF_COUNT_HW_INSTRUCTIONS : (uint64_t)PERF_COUNT_SW_TASK_CLOCK,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = 1,
        .enable_on_exec = 1,
        .inherit = 1,
        /* What anybody may count of processes of his own; the kernel's share would need more rights. */
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, pid, -1, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
}

static ssize_t kernel_read(int fd, stk__counter_reading *out)
{
    return read(fd, out, sizeof *out);
}

const stk__counter_calls stk__counter_kernel = {kernel_open, kernel_read};

int stk__counter_open(const stk__counter_calls *calls, stk__counter_kind kind, pid_t pid)
{
    int fd;
    while ((fd = calls->open(kind, pid)) < 0 && errno == EINTR) {
    }
    return fd;
}

static stk__count not_counted(int error)
{
    return (stk__count){NAN, 0, error};
}

stk__count stk__counter_close(const stk__counter_calls *calls, int fd)
{
    stk__counter_reading got = {0};
    ssize_t n;
    while ((n = calls->read(fd, &got)) < 0 && errno == EINTR) {
    }
    const int error = n < 0 ? errno : EIO;
    close(fd);
    if (n != (ssize_t)sizeof got)
        return not_counted(error);
    if (got.enabled_ns && !got.running_ns)
        return not_counted(EBUSY);
    /* No program executes nothing: a hypervisor that shows a counter and does not count, or a setuid program. */
    if (!got.value)
        return not_counted(ENODATA);
    stk__count c = {(double)got.value, 1, 0};
    if (got.running_ns < got.enabled_ns) {
        c.share = (double)got.running_ns / (double)got.enabled_ns;
        c.value = round((double)got.value / c.share);
    }
    return c;
}

int stk__counter_paranoid(void)
{
    char text[32];
    int64_t level;
    if (!stk__read_start("/proc/sys/kernel/perf_event_paranoid", text, sizeof text))
        return INT_MIN;
    text[strcspn(text, "\n")] = 0;
    return stk__parse_int64(text, &level) && level > -100 && level < 100 ? (int)level : INT_MIN;
}

/* Level 2 is what user space needs; some distributions have levels above it that forbid all. */
static void explain_forbidden(int paranoid, stk__text *out)
{
    if (paranoid > 2)
        stk__text_printf(out,
                         "the kernel forbids hardware counters (perf_event_paranoid is %d); 'sudo sysctl "
                         "kernel.perf_event_paranoid=2' allows them",
                         paranoid);
    else
        stk__text_puts(out, "hardware counters are forbidden here, by the rules of a container as a rule ('docker run "
                            "--cap-add PERFMON' allows them)");
}

void stk__counter_explain(int error, int paranoid, stk__text *out)
{
    switch (error) {
    case EACCES:
    case EPERM:
        explain_forbidden(paranoid, out);
        break;
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        stk__text_puts(out, "this machine has no hardware counters (few virtual machines have)");
        break;
    case ENOSYS:
        stk__text_puts(out, "the kernel has no perf_event_open");
        break;
    case ENODATA:
        stk__text_puts(out, "the hardware counter stayed at 0 (a virtual machine that only seems to have one, or a "
                            "setuid program)");
        break;
    case EBUSY:
        stk__text_puts(out, "others hold all hardware counters (another profiler, or the NMI watchdog: 'sudo sysctl "
                            "kernel.nmi_watchdog=0')");
        break;
    default:
        stk__text_printf(out, "hardware counters cannot be had: %s", strerror(error));
    }
}
