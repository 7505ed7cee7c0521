/*
 * SIGINT, SIGTERM and SIGHUP: end cleanly on the first, at once on the second; with a launcher on the third.
 *
 * The first sets a flag that all waits of the main thread look at (base/interrupt.h), and cancels the pipeline, whose workers
 * look at that. What does not look, such as a disk that no longer answers, has a moment: then the process ends all the same,
 * for `docker stop` and its like send one SIGTERM and then kill.
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "bench/launch.h"
#include "cli.h"

/* A handler has no argument, so what it needs is the process's. */
static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t grace_s = CLI_GRACE_S;
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
    else
        alarm((unsigned)grace_s);
}

static void on_alarm(int number)
{
    static const char text[] = "\nstoker: interrupted, and left what did not end by itself\n";
    (void)number;
    if (interrupted) {
        const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        (void)written;
        _exit(CLI_INTERRUPTED);
    }
}

static void on_first(int number)
{
    (void)number;
    _exit(CLI_INTERRUPTED);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void cli_interrupts_first(void)
{
    if (getpid() != 1)
        return;
    handle(SIGINT, on_first);
    handle(SIGTERM, on_first);
}

static bool is_stopped(void *arg)
{
    (void)arg;
    return cli_interrupted();
}

void cli_interrupts_catch(void)
{
    handle(SIGALRM, on_alarm);
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    /* A terminal that closes ends hours of rounds; under nohup it does not. */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        handle(SIGHUP, on_signal);
    /* A limit on file sizes (ulimit -f) is told by the failing write, which names the file. */
    handle(SIGXFSZ, SIG_IGN);
    stk__interrupt_set((stk__interrupt){is_stopped, NULL});
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

void cli_interrupts_grace(int seconds)
{
    grace_s = seconds;
    if (interrupted && !atomic_load(&launching))
        alarm((unsigned)seconds);
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
