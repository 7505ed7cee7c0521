/* The machine in a few words, and a number by which results of one machine are known. */
#ifndef STK_BENCH_MACHINE_H
#define STK_BENCH_MACHINE_H

#include <stdint.h>

#include "base/str.h"

/* "AMD EPYC 7B13, 2 cores, 23.5 GiB, Linux 6.18.44": CPU model, cores we may use, memory, kernel. */
void stk__machine_describe(stk__text *out);
/* Eight hex digits of a hash over it without the kernel's version, so that an update keeps the history. */
void stk__machine_fingerprint(char out[9]);
/* The CPU's model from the text of /proc/cpuinfo, or the architecture when that does not tell. */
void stk__machine_model(const char *cpuinfo, stk__text *out);

/* Ticks of all CPUs so far, in seconds: those that somebody used, and those that the hypervisor took. False: no /proc/stat. */
typedef struct stk__machine_ticks {
    double busy_s, steal_s;
    int64_t at_ns;
    int cpus;
} stk__machine_ticks;
bool stk__machine_ticks_now(stk__machine_ticks *out);
/* PSI: total stall in us of "some" tasks since boot by resource ("cpu", "io", "memory"); -1: not known here. */
int64_t stk__machine_pressure_us(const char *resource);
/* Load of the last minute; NaN: not known. */
double stk__machine_load(void);

#endif
