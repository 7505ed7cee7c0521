/* What readers call: events in any order, then finish sorts, pairs, nests and gives the model. One thread. */
#ifndef STK_TRACE_BUILDER_H
#define STK_TRACE_BUILDER_H

#include "trace/model.h"

/*
 * Calls never fail one by one: the first failure (out of memory, more than 2^32 - 2 rows) is kept, later calls do nothing, and readers ask
 * stk__builder_status now and then, at least once per block of input. Strings are interned by stk__builder_string.
 */
typedef struct stk__builder stk__builder;

stk_status stk__builder_new(const stk__trace_options *options, stk__builder **out, stk_error *err);
void stk__builder_free(stk__builder *b);
stk_status stk__builder_status(const stk__builder *b, stk_error *err);

/* Starts a file; what follows belongs to it. Returns its row; the reader may set fields through stk__builder_file. */
uint32_t stk__builder_start_file(stk__builder *b, const char *path, const char *format);
/* Row of the current file; valid until the next start. */
stk__trace_file *stk__builder_file(stk__builder *b);
void stk__builder_fact(stk__builder *b, stk__string key, stk__string value);

/* Copies; the same bytes give the same number. Text is kept as it is: readers replace bad UTF-8 before (see below). */
stk__string stk__builder_string(stk__builder *b, const char *text, size_t size);
stk__string stk__builder_str(stk__builder *b, const char *text);
/* The same for bytes from outside: what is not UTF-8 becomes U+FFFD and is noted as TEXT at `offset`. */
stk__string stk__builder_text(stk__builder *b, const char *text, size_t size, int64_t offset);
const char *stk__builder_get(const stk__builder *b, stk__string s, size_t *out_size);

/* One more case of a reason, in the current file; offset -1 when it is not known. */
void stk__builder_note(stk__builder *b, stk__trace_reason reason, int64_t offset);
void stk__builder_notes(stk__builder *b, stk__trace_reason reason, uint64_t count, int64_t offset);
/* Place of the event that is being read, for notes that the builder makes itself. */
void stk__builder_at(stk__builder *b, int64_t offset);
/* Another event was seen; all kinds count, also those left out. */
void stk__builder_saw(stk__builder *b, uint64_t events);

/* Rows of the current file, found or made. An id is a number, or a text when pid_text is not 0. */
uint32_t stk__builder_process(stk__builder *b, int64_t pid, stk__string pid_text);
uint32_t stk__builder_thread(stk__builder *b, uint32_t process, int64_t tid, stk__string tid_text);
stk__trace_process *stk__builder_process_at(stk__builder *b, uint32_t process);
stk__trace_thread *stk__builder_thread_at(stk__builder *b, uint32_t thread);

/* Tracks of the current file, found or made. */
uint32_t stk__builder_thread_track(stk__builder *b, uint32_t thread);
uint32_t stk__builder_process_track(stk__builder *b, uint32_t process);
uint32_t stk__builder_global_track(stk__builder *b);
/* process may be STK__NONE: an id that holds in the whole file. */
uint32_t stk__builder_async_track(stk__builder *b, uint32_t process, stk__string scope, stk__string id,
                                  stk__string name);
/* process and thread may be STK__NONE. */
uint32_t stk__builder_counter_track(stk__builder *b, uint32_t process, uint32_t thread, stk__string name);
/* A track that only the reader knows how to find again (Perfetto's uuids, lines of xplane). File is set by the call. */
uint32_t stk__builder_new_track(stk__builder *b, const stk__trace_track *track);
/* Of tracks of async slices and counters, name and id stay as they are: they are found by them. */
stk__trace_track *stk__builder_track_at(stk__builder *b, uint32_t track);

/* Args of the next event: kept until one of the calls below takes them, or drop_args. A key given twice: the last counts. */
void stk__builder_arg_int(stk__builder *b, stk__string key, int64_t value);
void stk__builder_arg_uint(stk__builder *b, stk__string key, uint64_t value); /* JSON text when past int64 */
void stk__builder_arg_double(stk__builder *b, stk__string key, double value);
void stk__builder_arg_bool(stk__builder *b, stk__string key, bool value);
void stk__builder_arg_null(stk__builder *b, stk__string key);
void stk__builder_arg_string(stk__builder *b, stk__string key, stk__string value);
void stk__builder_arg_json(stk__builder *b, stk__string key, stk__string value);
void stk__builder_drop_args(stk__builder *b);

/* Events. Times are ns as the file has them. A negative dur is set to 0 and noted at `offset`; so is one past int64. */
void stk__builder_slice(stk__builder *b, uint32_t track, int64_t ts, int64_t dur, stk__string name,
                        stk__string category, int64_t offset);
void stk__builder_begin(stk__builder *b, uint32_t track, int64_t ts, stk__string name, stk__string category);
/* name 0 ends the innermost open slice; else the innermost one of that name. Its args join those of the begin. */
void stk__builder_end(stk__builder *b, uint32_t track, int64_t ts, stk__string name);
void stk__builder_instant(stk__builder *b, uint32_t track, int64_t ts, stk__string name, stk__string category);
void stk__builder_counter(stk__builder *b, uint32_t track, int64_t ts, double value);
/* phase: STK__FLOW_START..., | STK__FLOW_ENCLOSING. The key is (name, category, id) in this file. */
void stk__builder_flow(stk__builder *b, uint32_t track, int64_t ts, unsigned phase, stk__string name,
                       stk__string category, stk__string id);

/* Stacks. Equal frames and call sites are given once. */
uint32_t stk__builder_frame(stk__builder *b, const stk__trace_frame *frame);
uint32_t stk__builder_callsite(stk__builder *b, uint32_t parent, uint32_t frame);
/* ts may be STK__NO_TIME. The unit of the weight is the track's. */
void stk__builder_sample(stk__builder *b, uint32_t track, int64_t ts, uint32_t callsite, int64_t weight,
                         stk__string event);

/* Profiles without stacks. */
uint32_t stk__builder_function(stk__builder *b, const stk__trace_function *function); /* file is set by the call */
void stk__builder_call(stk__builder *b, const stk__trace_call *call);
void stk__builder_total(stk__builder *b, stk__string track, stk__string name, uint64_t count, uint64_t total_ns,
                        uint64_t lost);

/* Sorts, pairs begins and ends, makes lanes, nests, binds flows. Frees the builder, also on failure. */
stk_status stk__builder_finish(stk__builder *b, stk__trace **out, stk_error *err);

#endif
