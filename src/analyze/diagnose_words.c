/* Sentences of a diagnosis: names from the trace made fit to be read, and the lists that they end in. */
#include "analyze/diagnose_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

enum { SHOWN_NAME = 100 };

stk__text *stk__sentence(stk__words *s)
{
    stk__text_fixed(&s->text, s->bytes, sizeof s->bytes);
    return &s->text;
}

/* Text from the trace, with control bytes escaped and cut to a length that a line can hold. */
void stk__put_cut(stk__text *t, const char *label, size_t size)
{
    char raw[SHOWN_NAME + 1], safe[4 * SHOWN_NAME + 1];
    const size_t shown = STK_MIN(size, (size_t)SHOWN_NAME);
    memcpy(raw, label, shown);
    raw[shown] = 0;
    stk__escape_terminal(raw, safe, sizeof safe);
    stk__text_puts(t, safe);
    if (shown < size)
        stk__text_puts(t, "...");
}

void stk__put_name(const stk__diagnosis *d, stk__text *t, stk__string name)
{
    size_t size;
    const char *label = stk__stage_label(d, name, &size);
    stk__put_cut(t, label, size);
}

void stk__put_row(const stk__diagnosis *d, stk__text *t, const stk__stage_row *row)
{
    char bytes[STK__LABEL_SIZE];
    stk__text label;
    stk__text_fixed(&label, bytes, sizeof bytes);
    stk__stage_row_label(d, row, &label);
    stk__put_cut(t, bytes, label.length);
}

bool stk__add_evidence(stk__diagnosis *d, const stk__words *s)
{
    if (!stk__grow((void **)&d->evidence, &d->evidence_capacity, d->evidence_count + 1, sizeof *d->evidence))
        return false;
    d->evidence[d->evidence_count] = stk__strdup(s->bytes);
    return d->evidence[d->evidence_count] && ++d->evidence_count;
}

bool stk__add_advice(stk__diagnosis *d, const char *format, ...)
{
    char text[sizeof((stk__words *)0)->bytes];
    va_list args;
    if (d->advice_count == STK__ADVICES)
        return true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->advice[d->advice_count] = stk__strdup(text);
    return d->advice[d->advice_count] && ++d->advice_count;
}

/* "get_batch (nano.py:6)"; of a C function its name, without the address that tracers write. */
void stk__put_function(const stk__diagnosis *d, stk__text *t, const stk__place *at)
{
    const stk__stage_row row = {.name = at->name, .file = at->file, .line = at->line};
    size_t size;
    const char *name = stk__trace_text(d->trace, at->name, &size);
    stk__python_frame p;
    if (!stk__stage_row_frame(d, &row, &p) && stk__python_frame_parse(name, size, &p))
        stk__put_cut(t, p.function, p.function_size);
    else
        stk__put_row(d, t, &row);
}
