/* Limits of this process: within what the machine has. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"

static void cpu_limit_is_within_the_affinity_mask(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_in_range(stk__cpu_limit(), 1, CPU_COUNT(&set));
}

static void cpu_limit_follows_a_smaller_mask(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int limit = stk__cpu_limit();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(limit, 1);
}

static void memory_limit_is_within_the_machine(void **state)
{
    (void)state;
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_in_range(stk__memory_limit(), 1 << 20, machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_limit_is_within_the_affinity_mask),
        cmocka_unit_test(cpu_limit_follows_a_smaller_mask),
        cmocka_unit_test(memory_limit_is_within_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
