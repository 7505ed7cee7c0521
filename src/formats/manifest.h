/*
 * The manifest of a set of files that were published together: their names, sizes, rows and digests, as a JSON file beside
 * them. docs/reference/manifest.md tells how the file looks.
 */
#ifndef STK_FORMATS_MANIFEST_H
#define STK_FORMATS_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/str.h"

#define STK__MANIFEST_VERSION 1
#define STK__MANIFEST_ENDING ".manifest.json"
#define STK__MANIFEST_MAX_BYTES ((size_t)32 << 20)
#define STK__MANIFEST_MAX_FILES 65537 /* as many shards as a sink makes, and the schema */

/* XXH3-128 of the bytes of a file. */
typedef struct stk__file_digest {
    uint64_t high, low;
} stk__file_digest;

typedef struct stk__manifest_file {
    char *name; /* without directories */
    int64_t bytes, rows;
    stk__file_digest digest;
} stk__manifest_file;

/* Zeroed: empty. Owns all it points to. */
typedef struct stk__manifest {
    char *pattern; /* of the shards, without directories: "part-%05d" */
    int64_t rows;  /* of all files */
    stk__manifest_file *files;
    size_t count, capacity;
    uint32_t *by_name; /* numbers of files in the order of their names */
} stk__manifest;

void stk__manifest_clear(stk__manifest *m);
/* The name is copied. */
stk_status stk__manifest_add(stk__manifest *m, const char *name, int64_t bytes, int64_t rows, stk__file_digest digest,
                             stk_error *err);
/* NULL when there is none of that name. Only after parse. */
const stk__manifest_file *stk__manifest_find(const stk__manifest *m, const char *name);

/* Appends the file's text: the same for the same manifest. */
stk_status stk__manifest_print(const stk__manifest *m, stk__text *out, stk_error *err);
/* Reads a text, which is untrusted. *out is overwritten; on failure it is empty. CORRUPT tells what is wrong. */
stk_status stk__manifest_parse(const char *text, size_t size, stk__manifest *out, stk_error *err);
/* The same from a file; *out_digest, which may be NULL, is that of the manifest itself. */
stk_status stk__manifest_load(const char *path, stk__manifest *out, stk__file_digest *out_digest, stk_error *err);

/* Appends where the manifest of a set of that pattern lies: out/part.manifest.json, see stk__set_name. */
void stk__manifest_path(stk__text *t, const char *pattern);
/* Whether a path is that of a manifest, by its name. */
bool stk__manifest_is_path(const char *path);

/* 32 hex digits and NUL; reading takes exactly 32 of them. */
void stk__file_digest_print(stk__file_digest digest, char out[33]);
bool stk__file_digest_parse(const char *text, stk__file_digest *out);

#endif
