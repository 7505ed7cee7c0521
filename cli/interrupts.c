/* SIGINT, SIGTERM and SIGHUP: end cleanly on the first, at once on the second; with a launcher on the third. */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "bench/launch.h"
#include "cli.h"

/* A handler has no argument, so what it needs is the process's. */
static volatile sig_atomic_t interrupted;
static _Atomic(stk_pipeline *) running;
static _Atomic(stk__launcher *) launching;

static void on_signal(int number)
{
    (void)number;
    stk__launcher *launcher = atomic_load(&launching);
    /* With a launcher the second one ends a clean-up that takes long: finished rounds are still told and saved. */
    if (interrupted > (launcher ? 1 : 0))
        _exit(CLI_INTERRUPTED);
    interrupted = interrupted + 1;
    stk_pipeline *pipeline = atomic_load(&running);
    if (pipeline)
        stk_pipeline_cancel(pipeline);
    if (launcher)
        stk__launcher_interrupt(launcher);
}

void cli_interrupts_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A terminal that closes ends hours of rounds; under nohup it does not. */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    /* A limit on file sizes (ulimit -f) is told by the failing write, which names the file. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGXFSZ, &ignore, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

void cli_interrupts_cancel(stk_pipeline *pipeline)
{
    atomic_store(&running, pipeline);
    /* One that came between the last look and the store. */
    if (pipeline && interrupted)
        stk_pipeline_cancel(pipeline);
}

void cli_interrupts_launcher(stk__launcher *launcher)
{
    atomic_store(&launching, launcher);
}
