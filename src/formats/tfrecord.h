/* TFRecord framing: length, its CRC, data, its CRC; and the writer. */
#ifndef STK_FORMATS_TFRECORD_H
#define STK_FORMATS_TFRECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/records.h"
#include "formats/set_file.h"

enum { STK__TFRECORD_HEADER = 12, STK__TFRECORD_FOOTER = 4 };

/* Checks the 12 header bytes. CORRUPT, with found and wanted CRC, when they do not fit. */
stk_status stk__tfrecord_header(const uint8_t header[12], uint64_t *out_size, stk_error *err);
/* Checks the data against its 4 footer bytes. */
stk_status stk__tfrecord_data(const uint8_t *data, size_t size, const uint8_t footer[4], stk_error *err);

/* A file that is written record by record and appears whole on commit. Not thread-safe. */
typedef struct stk__tfrecord_writer stk__tfrecord_writer;

/* Bytes that one writer takes. */
int64_t stk__tfrecord_writer_memory(stk__compression compression);
stk_status stk__tfrecord_writer_open(const char *path, stk__compression compression, int level,
                                     stk__tfrecord_writer **out, stk_error *err);
/* The same into a file of a set, which outlives the writer: `end` it, then `abort`; the set publishes the file. */
stk_status stk__tfrecord_writer_part(stk__set_file *part, stk__compression compression, int level,
                                     stk__tfrecord_writer **out, stk_error *err);
stk_status stk__tfrecord_writer_add(stk__tfrecord_writer *w, const void *data, size_t size, stk_error *err);
/* Optional, before commit: everything to the disk. After it only the name is missing, so that files can appear together. */
stk_status stk__tfrecord_writer_end(stk__tfrecord_writer *w, stk_error *err);
/* Both free the writer. */
stk_status stk__tfrecord_writer_commit(stk__tfrecord_writer *w, stk_error *err);
void stk__tfrecord_writer_abort(stk__tfrecord_writer *w);

#endif
