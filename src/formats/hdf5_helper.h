/* The helper program that calls libhdf5 for us: a child process with limits, asked over pipes. */
#ifndef STK_FORMATS_HDF5_HELPER_H
#define STK_FORMATS_HDF5_HELPER_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct stk__h5_helper stk__h5_helper;

/*
 * A helper that is started with the first request, and again after it died. Any thread; one request at a time, the
 * others wait: this is where libhdf5's own lock is felt. Fork-safe: a process that was forked off starts a helper of
 * its own.
 */
stk_status stk__h5_helper_new(stk__h5_helper **out, stk_error *err);
/* Takes that program, not the one that stk__h5_helper_find finds. Before the first request; for tests. */
stk_status stk__h5_helper_use(stk__h5_helper *h, const char *program, stk_error *err);
/* Requests build on each other, so that a new child could not go on. Before the first one. */
void stk__h5_helper_remember(stk__h5_helper *h);
/* Ends the child. NULL is fine. */
void stk__h5_helper_free(stk__h5_helper *h);

/*
 * Sends a request (a message of hdf5_wire.h without its frame) and waits for the answer, at most timeout_ms and of at
 * most max_bytes. *out_data is the answer's message, free it with stk__free. A status other than OK in the answer is
 * returned with its message. A helper that crashes, hangs or answers nonsense is killed: CORRUPT, "libhdf5 crashed
 * (signal 11) on this file", "... did not answer within 20 s". One that was killed from outside, as the kernel does where memory
 * is short, is started again a few times, then NOMEM: it says nothing about the file.
 */
stk_status stk__h5_helper_ask(stk__h5_helper *h, const stk__text *request, int timeout_ms, size_t max_bytes,
                              uint8_t **out_data, size_t *out_size, stk_error *err);

/* Where the helper program lies; IO with the places that were tried. *out is freed with stk__free. */
stk_status stk__h5_helper_find(char **out, stk_error *err);

#endif
