/* Lists of records as JSON, one object each: what a quarantine wrote, or what other tools made of it. */
#ifndef STK_FORMATS_RECORD_LIST_H
#define STK_FORMATS_RECORD_LIST_H

#include <stdint.h>

#include "base/file.h"

/* Zeroed: empty. */
typedef struct stk__listed_record {
    int32_t file; /* number among the paths */
    int64_t record;
} stk__listed_record;

typedef struct stk__record_list {
    stk__listed_record *items; /* in the order of the text; a record may be there several times */
    size_t count, capacity;
    bool known; /* it names one of the files, be it without a record to visit */
} stk__record_list;

/*
 * Objects with "file" and "record", one behind the other or as the items of an array, with whatever space between; other
 * keys do not matter. Those of other files than `paths`, and stretches without a record ("bytes" below 0) are passed over.
 * INVALID with the line for what is no such JSON. `name` is the list's, for errors.
 */
stk_status stk__record_list_parse(const char *text, size_t size, const char *name, const stk__paths *paths,
                                  stk__record_list *out, stk_error *err);
void stk__record_list_clear(stk__record_list *list);

#endif
