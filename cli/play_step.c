/* A training step, played: the consumer is busy until a given time. */
#include <time.h>

#include "base/clock.h"
#include "cli.h"

/* Sleeps most of the way and spins the rest, since sleeping alone is late by more than short steps allow. */
void cli_play_step(int64_t until_ns)
{
    const int64_t spin_ns = 150000, nap_ns = 50000000;
    for (;;) {
        const int64_t left = until_ns - stk__now_ns();
        if (left <= 0 || cli_interrupted())
            return;
        if (left > spin_ns) {
            /* Naps stay short because the signal may be handled in another thread. */
            const int64_t ns = STK_MIN(left - spin_ns, nap_ns);
            nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
        }
    }
}
