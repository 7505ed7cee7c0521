/* Fuzz target: any bytes as a CSV file of another program, as our own, and as a series; whatever is read is drawn. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/history.h"
#include "bench/log_foreign.h"
#include "bench/log_impl.h"
#include "stats/change_points.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char csv_name[] = "PERF.csv";
static const stk__log_paths paths = {csv_name, csv_name};

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Nothing of a file reaches a terminal as it stands. */
static void require_plain(const stk__text *text)
{
    require(!text->failed);
    for (size_t i = 0; i < text->length; i++) {
        const unsigned char c = (unsigned char)text->data[i];
        require(c == '\n' || (c >= 0x20 && c != 0x7f));
    }
}

static void draw(const stk__log *log)
{
    stk__history h;
    stk__text text = STK__TEXT_INIT, svg = STK__TEXT_INIT;
    const stk__log_change *worst;
    const stk__history_options options = {.first = log->row_count / 3, .min_effect = 0.001};
    require(stk__history_init(&h, log, &options, NULL) == STK_OK);
    for (size_t i = 0; i < h.change_count; i++) {
        const stk__log_change *c = &h.changes[i];
        require(c->first <= c->after && c->after <= c->previous && c->previous < c->row && c->row <= c->up_to);
        require(c->up_to <= c->last && c->last < log->row_count && c->row > h.first && c->p >= 0 && c->p <= 1);
    }
    require(stk__history_worst(&h, &worst) >= 0);
    stk__text_history(&h, 80, true, &text);
    require_plain(&text);
    require(stk__chart_history(&h, "history", &svg, NULL) == STK_OK);
    stk__text_clear(&text);
    stk__text_clear(&svg);
    stk__history_clear(&h);
}

static void as_series(const uint8_t *data, size_t size)
{
    enum { MOST = 2000 };
    const size_t n = STK_MIN(size / sizeof(double), MOST);
    double *values = stk__calloc(n + 1, sizeof *values);
    require(values != NULL);
    if (n)
        memcpy(values, data, n * sizeof *values);
    stk__change *changes = NULL;
    size_t count = 0;
    const stk_status status = stk__change_points(values, values, n, &stk__change_rule_default, &changes, &count, NULL);
    require(status == STK_OK || status == STK_INVALID);
    for (size_t i = 0; i < count; i++) {
        const stk__change *c = &changes[i];
        require(c->begin < c->earliest && c->earliest <= c->at && c->at <= c->latest && c->latest < c->end);
        require(c->end <= n && c->p >= 0 && c->p < 0.05 && (i == 0 || changes[i - 1].at < c->at));
        require(isnan(c->ratio) || (c->ratio > 0 && c->low <= c->ratio && c->ratio <= c->high));
    }
    stk__free(changes);
    stk__free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = stk__alloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    stk__log log = {0};
    stk_error err = {0};
    const stk_status status = stk__log_foreign_parse(text, size, csv_name, size % 2, &log, NULL, &err);
    require(status == STK_OK || status == STK_LIMIT || (status == STK_CORRUPT && err.message[0]));
    if (status == STK_OK)
        draw(&log);
    stk__log_clear(&log);
    if (stk__log_csv_parse(text, size, &paths, &log, NULL) == STK_OK && log.row_count)
        draw(&log);
    stk__log_clear(&log);
    stk__free(text);
    as_series(data, size);
    return 0;
}
