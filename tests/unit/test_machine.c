/* What is told about the machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "bench/machine.h"

static void assert_model(const char *cpuinfo, const char *wanted)
{
    stk__text got = STK__TEXT_INIT;
    stk__machine_model(cpuinfo, &got);
    assert_string_equal(got.data, wanted);
    stk__text_clear(&got);
}

static void machine_model_is_read_from_each_kind_of_cpuinfo(void **state)
{
    (void)state;
    assert_model("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 106\n"
                 "model name\t: Intel(R) Xeon(R)   Processor @ 2.80GHz\nstepping : 6\n",
                 "Intel Xeon Processor @ 2.80GHz");
    assert_model("processor : 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n", "ARM Neoverse N1");
    assert_model("CPU implementer : 0x51\nCPU part : 0x123\n", "ARM 0x51 part 0x123");
    assert_model("processor : 0\nBogoMIPS : 108.00\nModel : Raspberry Pi 4 Model B Rev 1.4\n",
                 "Raspberry Pi 4 Model B Rev 1.4");
    assert_model("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9 altivec supported");
}

static void machine_model_falls_back_to_the_architecture(void **state)
{
    (void)state;
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    assert_model("", name.machine);
    assert_model("model name\n", name.machine);
    assert_model("model name :", name.machine);
    assert_model("processor : 0\nmodel : 7\n", name.machine);
}

static void machine_model_holds_no_control_characters(void **state)
{
    (void)state;
    assert_model("model name : a\x1b[31m b\x01\xff, c\r\n", "a [31m b c");
}

static void machine_description_names_cores_memory_and_kernel(void **state)
{
    (void)state;
    stk__text got = STK__TEXT_INIT, wanted = STK__TEXT_INIT;
    stk__machine_describe(&got);
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    const int cores = stk__cpu_limit();
    stk__text_printf(&wanted, ", %d core%s, ", cores, cores == 1 ? "" : "s");
    stk__text_bytes(&wanted, stk__memory_limit());
    stk__text_printf(&wanted, ", %s %.*s", name.sysname, (int)strcspn(name.release, "-+ "), name.release);
    assert_true(got.length > wanted.length);
    assert_string_equal(got.data + got.length - wanted.length, wanted.data);
    stk__text_clear(&got);
    stk__text_clear(&wanted);
}

static void machine_fingerprint_is_eight_hex_digits_and_stays(void **state)
{
    (void)state;
    char a[9], b[9];
    stk__machine_fingerprint(a);
    stk__machine_fingerprint(b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 8);
    assert_int_equal(strspn(a, "0123456789abcdef"), 8);
}

static void machine_ticks_grow(void **state)
{
    (void)state;
    stk__machine_ticks a, b;
    assert_true(stk__machine_ticks_now(&a));
    do
        assert_true(stk__machine_ticks_now(&b));
    while (b.busy_s <= a.busy_s); /* reading takes CPU time itself */
    assert_true(b.at_ns > a.at_ns);
    assert_true(b.steal_s >= a.steal_s);
    assert_true(a.cpus >= 1 && a.cpus == b.cpus);
}

static void machine_pressure_of_an_unknown_resource_is_not_known(void **state)
{
    (void)state;
    assert_true(stk__machine_pressure_us("no-such-resource") == -1);
    assert_true(stk__machine_pressure_us("../loadavg") == -1);
    const int64_t cpu = stk__machine_pressure_us("cpu");
    assert_true(cpu == -1 || stk__machine_pressure_us("cpu") >= cpu);
}

static void machine_load_is_a_number(void **state)
{
    (void)state;
    assert_true(stk__machine_load() >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_model_is_read_from_each_kind_of_cpuinfo),
        cmocka_unit_test(machine_model_falls_back_to_the_architecture),
        cmocka_unit_test(machine_model_holds_no_control_characters),
        cmocka_unit_test(machine_description_names_cores_memory_and_kernel),
        cmocka_unit_test(machine_fingerprint_is_eight_hex_digits_and_stays),
        cmocka_unit_test(machine_ticks_grow),
        cmocka_unit_test(machine_pressure_of_an_unknown_resource_is_not_known),
        cmocka_unit_test(machine_load_is_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
