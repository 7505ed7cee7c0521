/* Sets of record files (TFRecord, lines of text, tar) whose records can be found by number. */
#ifndef STK_FORMATS_RECORDS_H
#define STK_FORMATS_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/file.h"

/* TAR: a record is the stretch of an archive that holds the members of one sample, headers included. */
typedef enum stk__framing { STK__FRAMING_TFRECORD, STK__FRAMING_LINES, STK__FRAMING_TAR } stk__framing;
typedef enum stk__compression { STK__PLAIN, STK__GZIP, STK__ZLIB } stk__compression;

/*
 * Found by the first bytes: 1f 8b is gzip, a valid CMF/FLG pair that is no header of the framing is zlib. UNSUPPORTED for
 * standard input ("-"), pipes and devices, which cannot be looked at twice: open them as a stream.
 */
stk_status stk__compression_of(const char *path, stk__framing framing, stk__compression *out, stk_error *err);

typedef struct stk__records stk__records;

/* Where one record lies. For TFRecord `offset` and `size_bytes` are the payload's; its header starts 12 bytes before. */
typedef struct stk__record_place {
    int32_t file;   /* number in the set */
    int64_t record; /* number in that file */
    int64_t offset;
    int64_t size_bytes;
} stk__record_place;

/*
 * A stretch of a file that holds no readable record: from a bad length or length CRC to the next place where a header
 * and its data check out, or to the end of the file. Tar: from a bad header to the next block that is a sound one.
 */
typedef struct stk__damage {
    int32_t file;
    int64_t record; /* number that the record at this place would have had: records before it in the file */
    int64_t offset, size_bytes;
    char message[160]; /* "length CRC is 0x..., wanted 0x..." */
} stk__damage;

typedef struct stk__records_config {
    stk__framing framing;
    int threads;           /* files are scanned in parallel by this many threads */
    const char *cache_dir; /* where indexes are kept; NULL: nowhere */
    uint64_t cache_bytes;  /* that all indexes there may take; 0: as stk__index_cache_trim says */
    /* Called now and then while scanning, from one thread at a time; may be NULL. Returning false cancels. */
    bool (*progress)(void *arg, int64_t bytes_done, int64_t bytes_total);
    void *progress_arg;
} stk__records_config;

/*
 * Indexes every file, or takes its index from the cache when size, times and the hash of the file's first and last
 * bytes still fit. A cached index is untrusted input: anything odd in it means a new scan. New indexes are published
 * atomically; a cache that cannot be written is no error. Only plain files; fails on compressed ones.
 */
stk_status stk__records_open(const stk__paths *paths, const stk__records_config *config, stk__records **out,
                             stk_error *err);
void stk__records_close(stk__records *records);

/* All const after open: any thread. */
int64_t stk__records_count(const stk__records *records);
int64_t stk__records_bytes(const stk__records *records); /* sizes of all files together */
int32_t stk__records_file_count(const stk__records *records);
const char *stk__records_path(const stk__records *records, int32_t file);
/* Number, in the set, of the file's first record. file == file_count gives the total. */
int64_t stk__records_first(const stk__records *records, int32_t file);
void stk__records_find(const stk__records *records, int64_t index, stk__record_place *out);
/* The same for the record behind `before`, number `index`: cheaper where records follow each other. */
void stk__records_find_next(const stk__records *records, int64_t index, const stk__record_place *before,
                            stk__record_place *out);
size_t stk__records_damage_count(const stk__records *records);
const stk__damage *stk__records_damage(const stk__records *records, size_t i);
/* Tar: files that belong to no sample; out_first is the number of the first archive that has some. */
int64_t stk__records_stray(const stk__records *records, int32_t *out_first);
/* How many files' indexes came from the cache. */
int32_t stk__records_cached(const stk__records *records);
/* Depends on names (without directories), sizes, header hashes and counts; not on mtimes or where the set lies. */
uint64_t stk__records_fingerprint(const stk__records *records);
/* Bytes of memory that the indexes take. */
size_t stk__records_memory(const stk__records *records);

/*
 * A descriptor of a file of the set, opened on demand; at most a few hundred stay open. Every acquire needs a release.
 * Fails when the file vanished, or when its size or mtime differ from what was indexed ("changed since it was
 * indexed"). Any thread.
 */
stk_status stk__records_acquire(stk__records *records, int32_t file, int *out_fd, stk_error *err);
void stk__records_release(stk__records *records, int32_t file);
/*
 * CORRUPT with "changed since it was indexed" when size or mtime of an open file differ; from then on always. For after
 * the bytes were read, and before anybody sees them: see stk__file_pool_recheck.
 */
stk_status stk__records_recheck(stk__records *records, int32_t file, int fd, stk_error *err);
/* The same every 10 ms, for records whose check sums are looked at: see stk__file_pool_recheck_lately. */
stk_status stk__records_recheck_lately(stk__records *records, int32_t file, int fd, int64_t now_ns, stk_error *err);
/* CORRUPT with "changed since it was indexed" when size or mtime differ now, else OK. For a bad read's second look. */
stk_status stk__records_check_unchanged(stk__records *records, int32_t file, stk_error *err);

/*
 * One file read from front to back: plain, gzip (any number of members) or zlib. "-" reads standard input.
 * Not thread-safe; different streams are independent.
 */
typedef struct stk__record_stream stk__record_stream;

stk_status stk__record_stream_open(const char *path, stk__framing framing, bool verify, stk__record_stream **out,
                                   stk_error *err);
/*
 * The next record, valid until the next call. Its offset counts uncompressed bytes. END after the last record.
 * CORRUPT with *out_again true: this record is bad (data CRC; *out is set) and the next call goes on behind it. CORRUPT with
 * *out_again false: nothing after this place can be read; later calls say END.
 */
stk_status stk__record_stream_next(stk__record_stream *stream, stk_bytes *out, int64_t *out_offset, bool *out_again,
                                   stk_error *err);
/* Records larger than this end the stream with BUDGET; unlimited at first. */
void stk__record_stream_limit(stk__record_stream *stream, int64_t max_bytes);
/* Tar: files so far that belong to no sample. */
int64_t stk__record_stream_stray(const stk__record_stream *stream);
/* Whether one did so, and how large it is; 0: nobody knows before a line ends. */
bool stk__record_stream_refused(const stk__record_stream *stream, uint64_t *out_size);
/* Asked before a large record takes memory, with less than 0 when that is given back; NULL: nobody counts. */
typedef stk_status (*stk__record_charge)(void *arg, int64_t bytes, stk_error *err);
void stk__record_stream_charge(stk__record_stream *stream, stk__record_charge charge, void *arg);
/* What a stream takes besides, about. */
size_t stk__record_stream_memory(void);
/* Bytes read from the file so far, as stored. */
int64_t stk__record_stream_bytes(const stk__record_stream *stream);
void stk__record_stream_close(stk__record_stream *stream);

#endif
