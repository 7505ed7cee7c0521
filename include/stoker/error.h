/* Status codes and the error record that every fallible call can fill. */
#ifndef STOKER_ERROR_H
#define STOKER_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STK_API __attribute__((visibility("default")))
#define STK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define STK_API
#define STK_PRINTF(fmt, args)
#endif

/* One list gives the enum, its name and its text. END and DROP are outcomes, not failures. */
#define STK_STATUS_LIST(X)                                               \
    X(OK, "ok")                                                          \
    X(END, "end of data")                                                \
    X(DROP, "sample dropped")                                            \
    X(INVALID, "invalid argument")                                       \
    X(IO, "input or output failed")                                      \
    X(CORRUPT, "corrupt data")                                           \
    X(NOMEM, "out of memory")                                            \
    X(BUDGET, "over the memory budget")                                  \
    X(CANCELLED, "cancelled")                                            \
    X(UNSUPPORTED, "not supported")                                      \
    X(MISMATCH, "checkpoint does not fit")                               \
    X(LIMIT, "too many bad records")                                     \
    X(TIMEOUT, "not ready in time")                                      \
    X(UNFIT, "data is sound, but not what was asked for")

typedef enum stk_status {
#define STK_STATUS_ENUM(name, text) STK_##name,
    STK_STATUS_LIST(STK_STATUS_ENUM)
#undef STK_STATUS_ENUM
} stk_status;

/*
 * What went wrong and where. Who detects the error writes `message` with the found and the wanted value; layers above
 * add the place they know. Unknown places are empty strings or -1. Plain data: copy it freely.
 */
typedef struct stk_error {
    stk_status status;
    char message[512]; /* what was found and what was wanted */
    char file[512];    /* input or output file */
    int64_t offset;    /* byte in that file */
    int64_t record;    /* record number in that file, from 0 */
    char field[128];   /* field or feature */
    char op[48];       /* op of the pipeline */
    int line, column;  /* place in the pipeline text, from 1; 0: not about the text */
} stk_error;

/* The error without any place or message. */
STK_API void stk_error_clear(stk_error *err);

/*
 * Sets status and message, keeping places already set; returns `status`, so that `return stk_error_set(...)` reads well.
 * `err` may be NULL. Since 0.1.
 */
STK_API stk_status stk_error_set(stk_error *err, stk_status status, const char *format, ...) STK_PRINTF(3, 4);

/*
 * Writes one line: "FILE: record R at offset O: op OP: field F: message". Control characters are escaped, so the line is
 * safe on a terminal. Always ends with NUL; returns the length that was needed. Since 0.1.
 */
STK_API size_t stk_error_format(const stk_error *err, char *out, size_t size);

/* Frees what a function of this library gave to be freed. NULL is fine. Since 0.1. */
STK_API void stk_free(void *p);

/* Name ("CORRUPT") and text ("corrupt data") of a status. Since 0.1. */
STK_API const char *stk_status_name(stk_status status);
STK_API const char *stk_status_text(stk_status status);

#ifdef __cplusplus
}
#endif
#endif
