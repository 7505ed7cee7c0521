/* What the parts of the writer of sets share. */
#ifndef STK_FORMATS_SET_IMPL_H
#define STK_FORMATS_SET_IMPL_H

#include "formats/manifest.h"
#include "formats/set.h"

struct stk__set {
    /* set at open, then const */
    char *dir;           /* where the set will be */
    char *beside;        /* the same, without links and dots at its end; NULL: it has no parent that we could use */
    char *pattern;       /* of the files, without directories */
    char *name;          /* "part" */
    char *manifest_name; /* "part.manifest.json" */
    char *schema_name;   /* "part.schema.json" */
    int64_t shards;
    bool keep, has_schema;

    stk__new_dir hidden; /* locked while we live; temp NULL: none is there */
    char *data;          /* where the files are: the hidden directory, or "set" in one that is kept */
    int data_fd;         /* locked too; -1: none */
    stk__set_file **files;
    stk__manifest manifest; /* what was added besides the shards; all of it once it is published */
    bool inside;            /* the hidden directory lies in `dir` itself */
    bool saved;             /* a checkpoint needs what is kept */
    bool published;         /* nothing is left to do but to clean up */
    stk__file_digest published_digest;
    unsigned saves;
};

/* How the output directory looks. */
typedef struct stk__set_place {
    bool exists;
    bool alone; /* the set has it to itself: it is not there, empty, or holds the older set and nothing else */
} stk__set_place;

/* Joins with a slash; NULL: no memory. */
char *stk__set_join(const char *dir, const char *name);
/* Whether a file of that name can be one of a set of the pattern: only such ones are ever replaced or removed. */
bool stk__set_owns(const char *pattern, const char *schema_name, const char *name);
/* The name that the schema of a set has, if it has one; NULL: no memory. */
char *stk__set_schema_name(const char *pattern);

/* set_write.c. Everything but the hidden directory and the files. */
stk_status stk__set_new(const stk__set_config *config, stk__set **out, stk_error *err);
stk_status stk__set_look(const stk__set *set, stk__set_place *out, stk_error *err);
/* Where shard i lies now; NULL: no memory. */
char *stk__set_shard_path(const stk__set *set, int64_t i);

/* set_kept.c. Directories that are kept, in either place. */
stk_status stk__set_keep_make(stk__set *set, bool inside, stk_error *err);
void stk__set_keep_forget(const stk__set *set);
/* Notes what will be published, so that a run which is killed behind that step is known to be done. */
stk_status stk__set_keep_final(const stk__set *set, stk__file_digest digest, stk_error *err);

/* set_settle.c. Moves the files of dir/.NAME.stk-publish to their places; the caller has its lock. */
stk_status stk__set_roll(const char *dir, const char *name, stk_error *err);
/* ".NAME.stk-publish"; NULL: no memory. */
char *stk__set_publish_name(const char *name);

#endif
