/* Fuzz target: reads any bytes as a benchmark file; what it takes is written in every format and read again. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/interchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static bool read_back(const stk__text *text, stk__bench_format format, stk__result *out)
{
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk__bench_read(text->data, text->length, NULL, format, out, &err);
    check((status == STK_OK) == (err.status == STK_OK) && (status == STK_OK || err.message[0]));
    return status == STK_OK;
}

typedef struct facts {
    bool short_notes;
    bool known;    /* some value of the primary, above 0 */
    bool negative; /* some value */
} facts;

static facts look(const stk__result *r)
{
    facts f = {.short_notes = true};
    check(r->variant_count > 0 && r->primary < r->metric_count);
    for (size_t i = 0; i < r->note_count; i++)
        f.short_notes &= strlen(r->notes[i]) < 1000; /* longer ones are cut, perhaps within a letter */
    for (size_t i = 0; i < r->variant_count; i++) {
        const stk__variant *v = &r->variants[i];
        check(stk__result_variant(r, v->name) == i);
        for (size_t m = 0; m < r->metric_count; m++) {
            for (size_t k = 0; k < v->runs; k++) {
                const double x = v->values[m][k];
                check(!isinf(x));
                f.negative |= x < 0;
                f.known |= m == r->primary && x > 0;
            }
        }
    }
    return f;
}

/* Our own format gives the same text again. */
static void check_stoker(const stk__result *r, const facts *f)
{
    stk__text text = STK__TEXT_INIT, again = STK__TEXT_INIT;
    stk__result back;
    check(stk__bench_write(r, NULL, STK__BENCH_STOKER, &text, NULL, NULL) == STK_OK);
    check(read_back(&text, STK__BENCH_UNKNOWN, &back));
    check(stk__bench_write(&back, NULL, STK__BENCH_STOKER, &again, NULL, NULL) == STK_OK);
    check(!f->short_notes || (text.length == again.length && memcmp(text.data, again.data, text.length) == 0));
    stk__result_clear(&back);
    stk__text_clear(&text);
    stk__text_clear(&again);
}

/* What is read as well must be read again; what is only written must come out whole. */
static void check_others(const stk__result *r, const facts *f)
{
    for (int i = STK__BENCH_STOKER + 1; i < STK__BENCH_FORMAT_COUNT; i++) {
        const stk__bench_format format = (stk__bench_format)i;
        stk__text text = STK__TEXT_INIT, notes = STK__TEXT_INIT;
        stk__result back = {0};
        if (!stk__bench_format_is_written(format))
            continue;
        const stk_status status = stk__bench_write(r, NULL, format, &text, &notes, NULL);
        check(status == STK_OK || status == STK_UNSUPPORTED);
        check(status != STK_OK || text.data[text.length - 1] == '\n');
        const bool read = status == STK_OK && stk__bench_format_is_read(format) && read_back(&text, format, &back);
        check(read || status != STK_OK || !stk__bench_format_is_read(format) || !f->known || f->negative);
        if (read)
            stk__result_clear(&back);
        stk__text_clear(&text);
        stk__text_clear(&notes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__result r = {0}, other = {0};
    const stk__text text = {.data = (char *)(uintptr_t)data, .length = size};
    if (!read_back(&text, STK__BENCH_UNKNOWN, &r))
        return 0;
    const facts f = look(&r);
    check_stoker(&r, &f);
    check_others(&r, &f);
    check(read_back(&text, STK__BENCH_UNKNOWN, &other));
    const size_t before = r.variant_count;
    if (stk__bench_join(&r, &other, "other", NULL) == STK_OK) {
        check(r.variant_count == before + other.variant_count && !r.paired);
        look(&r);
    }
    stk__result_clear(&r);
    stk__result_clear(&other);
    return 0;
}
