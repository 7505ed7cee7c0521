/* The sandbox of stoker-hdf5: what it may ask of the kernel. */
#ifndef STK_LIBEXEC_SANDBOX_H
#define STK_LIBEXEC_SANDBOX_H

/*
 * From now on the process can read files, take memory and write to what is open; see sandbox.c. What it must not do
 * raises SIGSYS, with the number of the call in si_syscall. PR_SET_NO_NEW_PRIVS must be set. Returns 0, or the errno when
 * this kernel, or whatever stands for it, does not have it.
 */
int stk__sandbox_enter(void);

/* The name of a call that is refused, for people; NULL: it has none here. */
const char *stk__sandbox_call_name(int number);

#endif
