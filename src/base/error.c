/* Filling and printing of stk_error. */
#include <stoker/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

void stk_error_clear(stk_error *err)
{
    if (!err)
        return;
    memset(err, 0, sizeof *err);
    err->offset = -1;
    err->record = -1;
}

stk_status stk_error_set(stk_error *err, stk_status status, const char *format, ...)
{
    if (!err)
        return status;
    if (err->status == STK_OK)
        stk_error_clear(err);
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

size_t stk_error_format(const stk_error *err, char *out, size_t size)
{
    char text[2048];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    if (err->line > 0)
        stk__text_printf(&t, "line %d, column %d: ", err->line, err->column);
    if (err->file[0])
        stk__text_printf(&t, "%s: ", err->file);
    if (err->record >= 0 && err->offset >= 0)
        stk__text_printf(&t, "record %lld at offset %lld: ", (long long)err->record, (long long)err->offset);
    else if (err->record >= 0)
        stk__text_printf(&t, "record %lld: ", (long long)err->record);
    else if (err->offset >= 0)
        stk__text_printf(&t, "offset %lld: ", (long long)err->offset);
    if (err->op[0])
        stk__text_printf(&t, "%s: ", err->op);
    if (err->field[0])
        stk__text_printf(&t, "field '%s': ", err->field);
    stk__text_puts(&t, err->message[0] ? err->message : stk_status_text(err->status));
    return stk__escape_terminal(text, out, size);
}

void stk_free(void *p)
{
    stk__free(p);
}

const char *stk_status_name(stk_status status)
{
    static const char *const names[] = {
#define NAME(name, text) #name,
        STK_STATUS_LIST(NAME)
#undef NAME
    };
    return (size_t)status < STK_COUNT(names) ? names[status] : "UNKNOWN";
}

const char *stk_status_text(stk_status status)
{
    static const char *const texts[] = {
#define TEXT(name, text) text,
        STK_STATUS_LIST(TEXT)
#undef TEXT
    };
    return (size_t)status < STK_COUNT(texts) ? texts[status] : "unknown status";
}
