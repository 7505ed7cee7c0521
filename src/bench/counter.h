/*
 * A counter of the kernel (perf_event_open) for a process and all that descends from it. Many machines have none or
 * forbid it: every way in which that shows has a sentence.
 */
#ifndef STK_BENCH_COUNTER_H
#define STK_BENCH_COUNTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

typedef enum stk__counter_kind {
    STK__COUNT_NOTHING,
    STK__COUNT_INSTRUCTIONS, /* in hardware, of user space */
    STK__COUNT_TASK_CLOCK    /* ns of CPU time, in software: for tests on machines without the hardware */
} stk__counter_kind;

/* As read(2) gives it. */
typedef struct stk__counter_reading {
    uint64_t value, enabled_ns, running_ns;
} stk__counter_reading;

/* What is asked of the kernel; tests put faults in its place. */
typedef struct stk__counter_calls {
    int (*open)(stk__counter_kind kind, pid_t pid);     /* -1 with errno */
    ssize_t (*read)(int fd, stk__counter_reading *out); /* as read(2) */
} stk__counter_calls;
extern const stk__counter_calls stk__counter_kernel;

typedef struct stk__count {
    double value; /* NaN: not counted, and `error` says why */
    double share; /* of the time in which it counted; below 1 the value is scaled */
    int error;    /* an errno; ENODATA: it stayed at 0, EBUSY: it never ran */
} stk__count;

/*
 * Opens a counter of another process, which has not called exec yet and waits: it counts from exec on, and its children
 * with it. Returns a descriptor, or -1 with errno.
 */
int stk__counter_open(const stk__counter_calls *calls, stk__counter_kind kind, pid_t pid);
/* Reads and closes it. */
stk__count stk__counter_close(const stk__counter_calls *calls, int fd);

/* Why hardware counters cannot be had, and what helps. `paranoid`: see below. */
void stk__counter_explain(int error, int paranoid, stk__text *out);
/* kernel.perf_event_paranoid; INT_MIN: not known. */
int stk__counter_paranoid(void);

#endif
