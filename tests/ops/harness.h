/* What the tests of ops share: a directory of their own, small data sets, whole runs collected for comparing. */
#ifndef STK_TESTS_HARNESS_H
#define STK_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

#include "base/compiler.h"
#include "base/str.h"
#include "formats/records.h"

/* For cmocka: a new directory for the test, removed afterwards. */
int harness_setup(void **state);
int harness_teardown(void **state);
/* Path of a file there; valid until the eighth call after this one. */
const char *in_dir(const char *name);
bool file_exists(const char *name);
/* Files in a directory there ("": itself) that are not hidden. */
int count_files(const char *name);
void write_file(const char *name, const void *data, size_t size);

/* Two threads, 64 MiB, a registry with the built-in ops and `test_noise`. */
stk_config harness_config(void);

/*
 * Examples number first .. first + count - 1. Number i has value=i (int64), half=i/2 (float), pair=[i, -i] (float),
 * name="n<i>" (bytes), words=i % 4 times "w<k>" (bytes), many=i % 3 numbers i, i+1 (int64); `rare`=i (int64) when i is even.
 */
void write_examples(const char *name, stk__compression compression, int64_t first, int64_t count);
/* Lines "line <i>", plain or gzip. */
void write_lines(const char *name, bool gzip, int64_t first, int64_t count);
/* The same file with gzip, in its place. */
void compress_file(const char *name);
/*
 * Samples number first .. first + count - 1 of an archive. Number i has the key "s<i>", three digits long or, each fifth
 * one, 120; i * 397 % 2000 bytes 'a' + i % 26 as jpg, and "<i>\n" as cls.
 */
void write_tar(const char *name, bool gzip, int64_t first, int64_t count);
/* A directory class0, class1, ... for each class with so many files, every third one further down. */
void write_folder(const char *name, int classes, int count);
/*
 * a-0 .. a-3.tfrecord with 7, 0, 5 and 11 examples, b-0 .. b-3.tfrecord.gz with the same, lines.txt and lines.txt.gz
 * with 20 lines; t-0.tar, t-1.tar and u.tar.gz with 9, 8 and 17 samples; folder with 4 classes of 5 files.
 */
void write_data(void);

/* One batch as it came. */
typedef struct seen_batch {
    int64_t index, epoch, rows;
    char digest[33];
} seen_batch;

/* What a run handed over. */
typedef struct seen {
    stk_status status; /* STK_END when it went to its end; STK_OK when it was left before */
    stk_error error;
    seen_batch *batches;
    size_t count, capacity;
    int64_t *values; /* of the int64 column `value` of all batches, when there is one */
    size_t value_count, value_capacity;
    stk__text lines; /* what print printed */
    stk_stats stats;
} seen;

void seen_clear(seen *s);
/* Notes one batch. */
void seen_add(seen *s, const stk_batch *batch);
/* The same batches, index included; `from`: those of `all` to begin with. */
void assert_seen_equal(const seen *all, size_t from, const seen *rest, const char *what);

/*
 * In every pipeline text $D stands for the test's directory. A print is put at the end where there is no sink.
 * `config` may be NULL: harness_config.
 */
stk_status try_open(const char *text, const stk_config *config, stk_pipeline **out, stk_error *err);
/* Runs up to `limit` batches (-1: all), then writes a checkpoint where `checkpoint` is given, and closes. */
void run_some(const char *text, const stk_config *config, int64_t limit, const char *checkpoint, seen *out);
/* To the end, which must be reached. */
void run_all(const char *text, const stk_config *config, seen *out);

/* Runs with one and with three threads: what is printed must be `lines`. */
void assert_prints(const char *text, const char *lines);
/* The values of a whole run. */
void assert_values(const char *text, const int64_t *values, size_t count);
#define ASSERT_VALUES(text, ...)                                        \
    do {                                                                \
        const int64_t wanted_[] = {__VA_ARGS__};                        \
        assert_values(text, wanted_, sizeof wanted_ / sizeof *wanted_); \
    } while (0)
/* Rows of the batches, in order. */
void assert_rows(const char *text, const int64_t *rows, size_t count);
#define ASSERT_ROWS(text, ...)                                        \
    do {                                                              \
        const int64_t wanted_[] = {__VA_ARGS__};                      \
        assert_rows(text, wanted_, sizeof wanted_ / sizeof *wanted_); \
    } while (0)

/* Open must fail with this status and place; the message must hold `part`. */
void assert_refused(const char *text, const stk_config *config, stk_status status, const char *part, int line,
                    int column);
/* Open or the run must fail. */
void assert_fails(const char *text, const stk_config *config, stk_status status, const char *part);
/* What stk_pipeline_explain says must hold `part`. */
void assert_explains(const char *text, const char *part);

/* Pipelines over write_data that together use everything, NULL-terminated; each has a few batches. */
extern const char *const harness_pipelines[];

/* One text of several cmocka runs: a test with a directory of its own. */
#define OP_TEST(f) cmocka_unit_test_setup_teardown(f, harness_setup, harness_teardown)

#endif
