/* tf.train.Example and SequenceExample: finding wanted features in a record without copying, and writing records. */
#ifndef STK_FORMATS_EXAMPLE_H
#define STK_FORMATS_EXAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/str.h"
#include "base/wire.h"

/* Numbers are the field numbers of the oneof in tf.train.Feature. */
typedef enum stk__feature_kind {
    STK__FEATURE_NONE = 0, /* missing, or a Feature without a list */
    STK__FEATURE_BYTES = 1,
    STK__FEATURE_FLOAT = 2,
    STK__FEATURE_INT64 = 3
} stk__feature_kind;

extern const char *const stk__example_kind_names[4];

/* The BytesList, FloatList or Int64List of one feature, as a window on the record. */
typedef struct stk__feature {
    stk__wire list;
    const uint8_t *limit; /* bytes up to here may be read, though they belong to others; NULL: none behind the list */
    stk__feature_kind kind;
    bool present; /* the map has an entry of this name, be it without a list */
} stk__feature;

/* The FeatureList of one name in a SequenceExample, as a window on the record. */
typedef struct stk__feature_list {
    stk__wire features;
    bool present;
} stk__feature_list;

typedef struct stk__wanted {
    const char *name; /* borrowed; must outlive the layout */
    bool sequence;    /* look in feature_lists, not in the context or the features */
} stk__wanted;

/* What to look for, made once; const afterwards, any thread. */
typedef struct stk__example_layout stk__example_layout;

stk_status stk__example_layout_new(const stk__wanted *wanted, size_t count, stk__example_layout **out, stk_error *err);
void stk__example_layout_free(stk__example_layout *layout);

/* Where the wanted names stood in the last record; a guess that makes the next one fast. Zeroed at start; one per thread. */
typedef struct stk__example_guess {
    uint16_t order[256];
} stk__example_guess;

/* Result for one wanted name: `feature`, or `list` for a sequence one. */
typedef union stk__found {
    stk__feature feature;
    stk__feature_list list;
} stk__found;

/*
 * Finds every wanted feature of `record` (Example, or SequenceExample when the layout has a sequence name or `sequence`
 * is set). Fills found[i] for wanted[i]; missing ones have present == false. Of a repeated name the last entry counts, as in
 * protobuf maps. Checks the wire format of what it passes, not the inside of lists. Errors set err->field where known and
 * tell the byte in the record in the message. No allocation.
 */
stk_status stk__example_find(const stk__example_layout *layout, stk__example_guess *guess, stk_bytes record,
                             bool sequence, stk__found *found, stk_error *err);

/* Number of values in the list; packed and unpacked forms, also mixed. */
stk_status stk__feature_count(const stk__feature *feature, int64_t *out, stk_error *err);
/*
 * Decode exactly `want` values into `out`. CORRUPT with found and wanted kind or count in the message when the feature
 * is of another kind or has another count. Bytes are views on the record. No allocation.
 */
stk_status stk__feature_floats(const stk__feature *feature, float *out, int64_t want, stk_error *err);
stk_status stk__feature_ints(const stk__feature *feature, int64_t *out, int64_t want, stk_error *err);
stk_status stk__feature_bytes(const stk__feature *feature, stk_bytes *out, int64_t want, stk_error *err);

/*
 * The same for numbers of any type. Integers and bools come from int64 lists, half floats and float64 from float lists, each
 * checked to fit (floats may lose digits, not range); all of them also from one bytes value that holds exactly
 * `want` raw little-endian values, as tf.io.decode_raw reads them.
 */
stk_status stk__feature_numbers(const stk__feature *feature, stk_dtype dtype, void *out, int64_t want, stk_error *err);
/* How many values of that type stk__feature_numbers finds. */
stk_status stk__feature_number_count(const stk__feature *feature, stk_dtype dtype, int64_t *out, stk_error *err);

/* Reading a list of numbers in pieces: begin with {.list = feature->list}. */
typedef struct stk__feature_rest {
    stk__wire list, run;
} stk__feature_rest;

/* Decodes the next values, at most `room`, as float or int64 by the feature's kind; *out_count is 0 after the last. */
stk_status stk__feature_some(const stk__feature *feature, stk__feature_rest *rest, void *out, int64_t room,
                             int64_t *out_count, stk_error *err);

/* Number of Feature messages in the list, and the next of them (END after the last). */
stk_status stk__feature_list_count(const stk__feature_list *list, int64_t *out, stk_error *err);
stk_status stk__feature_list_next(stk__feature_list *list, stk__feature *out, stk_error *err);

/* Calls visit for every feature of a record; for `inspect`. `sequence` tells feature_lists entries. False stops. */
typedef bool (*stk__feature_visit)(void *arg, stk_bytes name, bool sequence, const stk__found *found);
stk_status stk__example_each(stk_bytes record, bool sequence, stk__feature_visit visit, void *arg, stk_error *err);
/* Whether the bytes read as an Example (0), a SequenceExample (1) or neither (-1). An empty message is an Example. */
int stk__example_guess_kind(stk_bytes record);

/* Writes an Example into a text: begin, add features in any order, end. Adds and begin reuse memory after warm-up. */
typedef struct stk__example_writer {
    stk__text features; /* the Features message so far */
} stk__example_writer;

void stk__example_begin(stk__example_writer *w);
void stk__example_add_floats(stk__example_writer *w, const char *name, const float *values, int64_t count);
void stk__example_add_ints(stk__example_writer *w, const char *name, const int64_t *values, int64_t count);
void stk__example_add_bytes(stk__example_writer *w, const char *name, const stk_bytes *values, int64_t count);
/* Numbers that neither float32 nor int64 hold, as one bytes value: raw, little-endian. */
void stk__example_add_raw(stk__example_writer *w, const char *name, stk_dtype dtype, const void *values, int64_t count);
/* Appends the finished Example to out. NOMEM when any step ran out of memory. */
stk_status stk__example_end(stk__example_writer *w, stk__text *out, stk_error *err);
void stk__example_writer_clear(stk__example_writer *w);

#endif
