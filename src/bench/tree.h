/* Whole directories, such as checkouts with what was built in them. */
#ifndef STK_BENCH_TREE_H
#define STK_BENCH_TREE_H

#include <stdint.h>

/* Links are removed, never followed; other file systems are left alone. What cannot be removed stays. */
void stk__tree_remove(const char *path);
/* What it takes on the disk; links are not followed. 0: it is not there. */
uint64_t stk__tree_bytes(const char *path);

#endif
