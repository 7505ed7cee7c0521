/* The bytes of a trace file, decompressed on the way by a thread of its own: a window that moves forward. */
#ifndef STK_TRACE_INPUT_H
#define STK_TRACE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct stk__input stk__input;

/* "-" is standard input. gzip (also of many members) and zstd (also of many frames) are seen by their first bytes. */
stk_status stk__input_open(const char *path, stk__input **out, stk_error *err);
/* The same; `go_on` is asked about ten times a second while a pipe gives nothing, and false ends the data: STK_CANCELLED. */
stk_status stk__input_open_watched(const char *path, bool (*go_on)(void *arg), void *arg, stk__input **out,
                                   stk_error *err);
/* Bytes in memory, which must outlive the input; for tests and fuzzing. Compression is seen as well. */
stk_status stk__input_open_memory(const void *data, size_t size, stk__input **out, stk_error *err);
void stk__input_close(stk__input *in);

/*
 * The window: bytes from the current place on. At least `want` of them, unless the end comes first; more when they are there anyway. The
 * pointer holds until the next call. 8 readable bytes (of any value) lie behind the end. `*out_size` is 0 only at the end.
 * A read error ends the data; stk__input_status tells.
 */
const uint8_t *stk__input_peek(stk__input *in, size_t want, size_t *out_size);
/* Moves on by at most what the last peek gave. */
void stk__input_advance(stk__input *in, size_t bytes);
/* Place of the window's first byte, counted after decompression. */
int64_t stk__input_offset(const stk__input *in);
bool stk__input_at_end(stk__input *in);

/* STK_OK; STK_CORRUPT when compressed data was damaged or cut off (what came before has been given); STK_IO. */
stk_status stk__input_status(const stk__input *in, stk_error *err);
const char *stk__input_path(const stk__input *in);
const char *stk__input_compression(const stk__input *in); /* "", "gzip", "zstd" */
/* Bytes of the file as it lies on disk: read so far, and in all (0: not known). For progress. */
uint64_t stk__input_bytes_read(const stk__input *in);
uint64_t stk__input_bytes_total(const stk__input *in);

/*
 * For formats that must jump about: the descriptor of a plain regular file, which stays the input's, and its size. The input is at its
 * end afterwards. -1 when the bytes are packed, or come from a pipe or memory: then they are read as usual.
 */
int stk__input_take_file(stk__input *in, uint64_t *out_size);
/* Bytes read through that descriptor, for progress. */
void stk__input_count_read(stk__input *in, uint64_t bytes);

#endif
