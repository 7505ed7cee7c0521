/* Finds the vector instructions of this CPU. */
#include "kernels/simd.h"

#include <stdatomic.h>

#include "base/compiler.h"

stk__simd stk__simd_highest(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
        return STK__SIMD_C;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return STK__SIMD_SSE4;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512vbmi"))
        return STK__SIMD_AVX2;
    return __builtin_cpu_supports("avx512vnni") ? STK__SIMD_VNNI : STK__SIMD_AVX512;
#else
    return STK__SIMD_C;
#endif
}

/* Set by the first call; every thread that races there stores the same value. */
static _Atomic int level = -1;

stk__simd stk__simd_level(void)
{
    int now = atomic_load_explicit(&level, memory_order_relaxed);
    if (STK_UNLIKELY(now < 0)) {
        now = (int)stk__simd_highest();
        atomic_store_explicit(&level, now, memory_order_relaxed);
    }
    return (stk__simd)now;
}

void stk__simd_limit(stk__simd limit)
{
    const stk__simd highest = stk__simd_highest();
    atomic_store_explicit(&level, (int)STK_MIN(limit, highest), memory_order_relaxed);
}

const char *stk__simd_name(stk__simd of)
{
    static const char *const names[STK__SIMD_COUNT] = {"c", "sse4", "avx2", "avx512", "vnni"};
    return of < STK__SIMD_COUNT ? names[of] : "?";
}
