/* Record files as streams: one or several at a time, in turn, with blocks of records decoded ahead by any thread. */
#ifndef STK_OPS_RECORD_LANES_H
#define STK_OPS_RECORD_LANES_H

#include <stoker/op.h>

#include "formats/records.h"
#include "formats/set.h"

typedef struct stk__lanes stk__lanes;

typedef struct stk__lanes_config {
    const stk__paths *paths;
    const stk__set_marks *marks; /* of the sets that they belong to */
    stk__framing framing;
    bool verify;
    int field;            /* the bytes field that gets the records */
    int64_t cycle, block; /* files in turn, and records before the next has its turn */
    int64_t memory_bytes; /* the whole budget; blocks take a small part of it */
} stk__lanes_config;

/* Starts at the first file. */
stk_status stk__lanes_open(const stk_call *call, const stk__lanes_config *config, stk__lanes *_Atomic *out, stk_error *err);
stk_status stk__lanes_rewind(stk__lanes *lanes, stk_error *err);
/* The next record; one thread at a time. As `pull` of a source. */
stk_status stk__lanes_pull(stk__lanes *lanes, const stk_call *call, stk_sample *sample, stk_error *err);
/* As `ahead` of a source: any thread. */
/* Frees the memory of blocks that nobody uses now. */
void stk__lanes_trim(stk__lanes *lanes);
stk_status stk__lanes_ahead(stk__lanes *lanes, const stk_call *call);
void stk__lanes_close(stk__lanes *lanes);

/* Warns of files in archives that belong to no sample, if there are any: nothing is passed over without a word. */
void stk__lanes_tell_stray(const stk_call *call, int64_t count, const char *first);

#endif
