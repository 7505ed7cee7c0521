/* Tar archives: headers of any common kind, samples made of members with one key, and the writer. */
#ifndef STK_FORMATS_TAR_H
#define STK_FORMATS_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/compiler.h"
#include "formats/set_file.h"

/* HEAD_MAX: all headers of one member, long names included. */
enum { STK__TAR_BLOCK = 512, STK__TAR_HEAD_MAX = 128 << 10, STK__TAR_WHY = 160 };

/*
 * One member of an archive. The views point into the bytes that were looked at, or into `joined`: not to be copied.
 * A file belongs to the sample that its name up to the first dot of the base name says: "a/b.seg.png" has the key "a/b"
 * and the extension "seg.png". Other members, names without a dot, and hidden ones have an empty key; so it is in
 * WebDataset. A file whose name is to blame is `stray`: somebody may have meant it for a sample.
 */
typedef struct stk__tar_member {
    int64_t head_size; /* of the headers before the data */
    int64_t data_size;
    stk_bytes name, key, ext;
    bool stray;
    char joined[256];
} stk__tar_member;

typedef enum stk__tar_found {
    STK__TAR_MEMBER,
    STK__TAR_ZERO, /* a block of zeros: the end of the archive, or what fills it up */
    STK__TAR_MORE, /* more bytes are wanted, *out_need in all */
    STK__TAR_BAD   /* why says what is wrong */
} stk__tar_found;

/*
 * Reads the headers of the member that starts at p: ustar, GNU (long names, sizes in base 256) and pax (path, size). Checks
 * each header's checksum. Sizes may still be beyond the end of the archive.
 */
stk__tar_found stk__tar_head(const uint8_t *p, size_t n, stk__tar_member *out, size_t *out_need,
                             char why[STK__TAR_WHY]);

/* Whether the block is a header with "ustar" in it, whose checksum fits. */
bool stk__tar_is_header(const uint8_t block[STK__TAR_BLOCK]);

/* Data takes whole blocks. */
static inline int64_t stk__tar_padded(int64_t size)
{
    return (size + STK__TAR_BLOCK - 1) & ~(int64_t)(STK__TAR_BLOCK - 1);
}

/* A window on the bytes of some members. Plain data; reading moves `at`. */
typedef struct stk__tar_reader {
    const uint8_t *at;
    size_t left;
} stk__tar_reader;

/* The next member and its data. END behind the last; CORRUPT when the bytes are no whole members. */
stk_status stk__tar_next(stk__tar_reader *r, stk__tar_member *out, stk_bytes *out_data, stk_error *err);

/* An archive that is written member by member and appears whole on commit. Not thread-safe. */
typedef struct stk__tar_writer stk__tar_writer;

/* Bytes that one writer takes. */
int64_t stk__tar_writer_memory(void);
stk_status stk__tar_writer_open(const char *path, stk__tar_writer **out, stk_error *err);
/* The same into a file of a set, which outlives the writer: `end` it, then `abort`; the set publishes the file. */
stk_status stk__tar_writer_part(stk__set_file *part, stk__tar_writer **out, stk_error *err);
/* A plain file. Names of more than 100 bytes and sizes of 8 GiB and more are written as GNU tar does. */
stk_status stk__tar_writer_add(stk__tar_writer *w, const char *name, const void *data, size_t size, stk_error *err);
/* Optional, before commit: everything to the disk. After it only the name is missing, so that files can appear together. */
stk_status stk__tar_writer_end(stk__tar_writer *w, stk_error *err);
/* Both free the writer. */
stk_status stk__tar_writer_commit(stk__tar_writer *w, stk_error *err);
void stk__tar_writer_abort(stk__tar_writer *w);

#endif
