/* What a program and its launcher process say to each other: over a socket, and in a few shared pages. */
#ifndef STK_BENCH_LAUNCH_WIRE_H
#define STK_BENCH_LAUNCH_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "bench/run_limits.h"

/* Shared by the program, the launcher and each child until it execs. */
typedef struct stk__launch_shared {
    _Atomic pid_t running;              /* process group of the command at hand; 0: none */
    const stk__counter_calls *counters; /* NULL: the kernel's */
    stk__limit_set limits;              /* the launcher's; the program removes the cgroups if the launcher was killed */
    /* written by the child before exec, read by the launcher after its end */
    int64_t begin_ns;
    struct rusage begin; /* spent by us on the way to exec */
    int error;           /* errno of what failed; 0: exec worked */
    bool at_exec;        /* it was exec that failed */
    char what[64];       /* else this: "enter the cgroup for its limits" */
} stk__launch_shared;

typedef enum stk__launch_kind { STK__ASK_RUN, STK__ASK_LIMITS, STK__ASK_CANCEL } stk__launch_kind;

/* Descriptors that go with STK__ASK_RUN, in this order. The last one only when the command is too long for `sh -c`. */
enum { STK__FD_INPUT, STK__FD_OUTPUT, STK__FD_ERROR, STK__FD_DIRECTORY, STK__FD_SCRIPT, STK__FDS };

/* Then come body_bytes: the words of the command and the additions to the environment, each with its NUL. */
typedef struct stk__launch_request {
    stk__launch_kind kind;
    uint32_t serial;
    uint32_t words, environment, fds;
    uint64_t body_bytes;
    int64_t timeout_ns;
    stk__limits limits;
    stk__counter_kind count;
    bool fixed;
} stk__launch_request;

typedef struct stk__launch_reply {
    uint32_t serial;
    stk_status status; /* not OK: nothing ran, and the message says why */
    char message[512];
    int wait_status; /* as wait4 gives it */
    bool timed_out, out_of_memory;
    int exec_error; /* errno of a failed exec; 0: it ran */
    uint64_t left_behind;
    double measures[STK__NAMED_MEASURES];
    stk__count count;
} stk__launch_reply;

/* The launcher process: serves `socket` until the other end closes. Called right after the fork. */
_Noreturn void stk__launch_serve(int socket, stk__launch_shared *shared);

/* Sends a signal to the command's session and, with `tree`, to all that descend from it. Returns to how many. */
uint64_t stk__session_signal(pid_t leader, bool tree, int signal_number);
/*
 * Reaps what the command left and kills the rest of its session; with `patient`, what is about to end by itself may do
 * so. Returns how many had to be killed.
 */
uint64_t stk__session_end(pid_t leader, bool patient);

/* Ends a process that we forked, without the program's handlers for its own end. */
_Noreturn void stk__launch_leave(int code);

/* Blocking; false when the other side is gone. */
bool stk__launch_send(int socket, const void *data, size_t size);
bool stk__launch_receive(int socket, void *data, size_t size);

#endif
