/* What `stoker inspect` learns about a file: its records, what is bad in it, and what the records hold. */
#ifndef STK_CLI_INSPECT_H
#define STK_CLI_INSPECT_H

#include "cli.h"
#include "formats/example.h"
#include "formats/records.h"
#include "formats/set.h"

typedef struct inspect_field {
    char *name, *value;
} inspect_field;

/* Sentences for people. */
typedef struct inspect_lines {
    char **items;
    size_t count, capacity;
} inspect_lines;

/* An op, and the fields of it that read what was found. */
typedef struct inspect_proposal {
    const char *op;
    const char *path; /* first argument of a source; NULL: of no source */
    bool strings;     /* values are strings, else types such as "int64[4]" */
    inspect_field *items;
    size_t count, capacity;
    inspect_lines left_out, notes;
    bool failed; /* memory was out: not all is there */
} inspect_proposal;

void cli_proposal_init(inspect_proposal *p, const char *op, const char *path);
void cli_proposal_clear(inspect_proposal *p);
bool cli_proposal_has(const inspect_proposal *p, const char *name);
void cli_proposal_add(inspect_proposal *p, const char *name, const char *value);
/* Adds a sentence to one of the lists of `p`, and clears it. */
void cli_proposal_say(inspect_proposal *p, inspect_lines *lines, stk__text *line);
/* The lines "to read it", "left out" and "note"; at most `limit` of the last two, 0: all. */
void cli_proposal_put(stk__text *t, const inspect_proposal *p, int64_t limit);
/* The same as members of a JSON object. */
void cli_proposal_json(stk__text *t, const inspect_proposal *p);
/* The member "page": all of what people are shown. Clears it. */
void cli_proposal_json_page(stk__text *t, stk__text *page);

/* One feature, over the records that were looked at. */
typedef struct inspect_feature {
    char *name; /* as stored, name_size bytes and a NUL */
    size_t name_size;
    bool sequence;                       /* of feature_lists */
    int64_t present;                     /* records that have it */
    int64_t kinds[4];                    /* by stk__feature_kind: records, or steps of a sequence */
    int64_t min_values, max_values;      /* in a record, or in a step of a sequence */
    int64_t min_steps, max_steps;        /* sequences only */
    int64_t last_record;
} inspect_feature;

/* Zeroed: empty. */
typedef struct inspect_features {
    inspect_feature *items;
    size_t count, capacity;
    uint32_t *table; /* number + 1 of a feature by the hash of its name; 0: free */
    size_t table_size;
    int64_t records;       /* looked at */
    int64_t examples, sequences, others;
    bool too_many; /* more names than are kept */
} inspect_features;

stk_status cli_features_add(inspect_features *f, stk_bytes record, stk_error *err);
/* By name, context and plain ones before sequences. */
void cli_features_sort(inspect_features *f);
void cli_features_clear(inspect_features *f);
/* "bytes", "int64", "float32", "empty" */
const char *cli_feature_kind_name(int kind);
/* Fields of parse that read these features. */
void cli_features_propose(const inspect_features *f, inspect_proposal *p);

/* Members with one extension, over the tar samples that were looked at. */
typedef struct inspect_member {
    char *ext; /* in lower case */
    size_t ext_size;
    int64_t present;
    int64_t min_bytes, max_bytes;
    bool integers, numbers; /* all of them are, as text */
} inspect_member;

/* Zeroed: empty. */
typedef struct inspect_members {
    inspect_member *items;
    size_t count, capacity;
    int64_t samples; /* looked at */
    bool too_many;   /* more extensions than are kept */
} inspect_members;

/* CORRUPT when the record is no whole sample. */
stk_status cli_members_add(inspect_members *m, stk_bytes record, stk_error *err);
/* By extension. */
void cli_members_sort(inspect_members *m);
void cli_members_clear(inspect_members *m);
/* "int64", "float32" or "bytes": what it can be read as. */
const char *cli_member_type(const inspect_member *x);
/* Fields of webdataset that read these members. */
void cli_members_propose(const inspect_members *m, inspect_proposal *p);

/* A record that does not check out, or a stretch without a readable record. */
typedef struct inspect_bad {
    int64_t record, offset;
    int64_t size_bytes; /* -1: unknown */
    char message[256];
} inspect_bad;

/* Zeroed: empty. */
typedef struct inspect_file {
    const char *path;
    const char *compression;
    int64_t file_bytes; /* as stored; -1: unknown */
    int64_t records, min_bytes, max_bytes, total_bytes;
    int64_t stray;   /* files of an archive that belong to no sample */
    int64_t checked; /* records whose data was read and fits its CRC */
    inspect_bad *bad;
    size_t bad_kept, bad_capacity;
    int64_t bad_count;
    stk__framing framing;      /* TAR: records are samples of an archive; LINES: lines of a text */
    inspect_features features; /* of TFRecords */
    inspect_members members;   /* of samples */
    char *manifest;            /* that lists it and was compared with; NULL: none */
    stk__text set_trouble;     /* what differs from that */
} inspect_file;

typedef struct inspect_how {
    bool verify;       /* read everything */
    int64_t look;      /* records whose features are looked at; 0: all */
    int64_t bad_limit; /* bad places that are kept; 0: all */
} inspect_how;

/* Fails only when the file cannot be read at all; what is bad in it is counted. */
stk_status cli_inspect_file(const char *path, const inspect_how *how, inspect_file *out, stk_error *err);
void cli_inspect_clear(inspect_file *file);

/* What came of reading all rows of an HDF5 file. */
typedef struct hdf5_checked {
    bool done;
    int64_t rows, bad;  /* of all datasets */
    char message[1400]; /* the first that is bad */
} hdf5_checked;

/* Appends what is in an HDF5 file, for people or as a JSON object. `checked` is zeroed; verify: reads every row. */
stk_status cli_inspect_hdf5(const char *path, bool verify, bool json, int64_t limit, stk__text *out, hdf5_checked *checked,
                            stk_error *err);

/* The manifests that were looked at last. Zeroed: none. */
typedef struct inspect_sets {
    stk__set_dir dir;
} inspect_sets;

/* Compares a file that was read with the manifest that lists it, where one does. */
stk_status cli_compare_with_set(inspect_file *file, inspect_sets *sets, stk_error *err);
/* Appends what a manifest says, for people or as a JSON object. verify: reads all files of its set. */
stk_status cli_inspect_set(const char *path, bool verify, bool json, stk__text *out, int64_t *out_rows, int64_t *out_bad,
                           stk_error *err);

bool cli_is_folder(const char *path);
/* The same for a directory with a directory of pictures for each class. */
stk_status cli_inspect_folder(const char *path, bool verify, bool json, int64_t limit, stk__text *out, stk_error *err);

#endif
