/* What this process may use: cores by affinity and cgroup quota, memory by cgroup limit. */
#ifndef STK_BASE_CPU_H
#define STK_BASE_CPU_H

#include <stdint.h>

/* Cores this process may use: the affinity mask, lowered to the cgroup's CPU quota (v2 or v1), rounded up; at least 1. */
int stk__cpu_limit(void);
/* The same for one of so many processes of a kind on this machine: its share, unless it has cores of its own. */
int stk__cpu_share(int processes);
/* Bytes this process may use: the cgroup's limit (v2 or v1) or the machine's memory. */
uint64_t stk__memory_limit(void);

#endif
