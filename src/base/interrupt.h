/*
 * Waits that end when their caller is told to: a pattern that expands, a pipe that nobody writes to.
 *
 * Whoever starts long work says for its own thread how to ask whether it is still wanted; what waits below asks every so
 * often and gives STK_CANCELLED. Nothing is kept for the process: two pipelines in two threads do not see each other's.
 */
#ifndef STK_BASE_INTERRUPT_H
#define STK_BASE_INTERRUPT_H

#include <stdbool.h>

#include "base/compiler.h"

/* `stopped` may be NULL: never. It is called in the thread that it was set for, a few times a second or more. */
typedef struct stk__interrupt {
    bool (*stopped)(void *arg);
    void *arg;
} stk__interrupt;

/* For this thread, from now on; returns what was set before, to be put back. */
stk__interrupt stk__interrupt_set(stk__interrupt now);
/* What is set for this thread, for threads that work on its behalf. */
stk__interrupt stk__interrupt_get(void);
bool stk__interrupted(void);
/* CANCELLED with a message when this thread is to stop, else OK. */
stk_status stk__interrupt_check(stk_error *err);

/*
 * Until a read of `fd` would not block: there are bytes, or the end. Regular files never wait. CANCELLED: told to stop; errors
 * of the file itself are left to the read.
 */
stk_status stk__await_input(int fd, stk_error *err);

/*
 * open(2) for reading that does not wait for ever for the writer of a named pipe: the descriptor comes with the first byte, or
 * the end, at hand. *out_fd is -1 and errno tells, with OK, when the file cannot be opened.
 */
stk_status stk__open_input(const char *path, int *out_fd, stk_error *err);
/* The same for writing: `flags` besides O_WRONLY, such as O_CREAT; waits for the reader of a named pipe. */
stk_status stk__open_output(const char *path, int flags, int *out_fd, stk_error *err);

#endif
