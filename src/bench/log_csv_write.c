/* The CSV file of the change log, written (RFC 4180): one header, one line per row. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

const char *const stk__log_head[STK__LOG_HEAD] = {"time",    "commit", "parent",      "dirty",
                                                  "machine", "limits", "description", "confidence"};
const char *const stk__log_of_benchmark[STK__LOG_PER_BENCHMARK] = {
    "",         "_sd",    "_n",   "_metric", "_unit", "_direction", "_limits",
    "_against", "_ratio", "_low", "_high",   "_p",    "_paired",    "_verdict"};
const char *const stk__log_of_pair[STK__LOG_PER_PAIR] = {"", "_low", "_high", "_p", "_paired", "_verdict"};

void stk__log_csv_field(stk__text *out, const char *text)
{
    stk__text_csv(out, text, strlen(text));
}

/* A comma and the text; nothing for NULL. */
static void put_text(stk__text *out, const char *text)
{
    stk__text_putc(out, ',');
    stk__log_csv_field(out, text ? text : "");
}

/* Not known: empty. */
static void put_number(stk__text *out, double x)
{
    stk__text_putc(out, ',');
    if (isfinite(x))
        stk__text_json_double(out, x);
}

static void put_names(stk__text *out, const char *name, const char *const *suffixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stk__text whole = STK__TEXT_INIT;
        stk__text_printf(&whole, "%s%s", name, suffixes[i]);
        if (whole.failed)
            out->failed = true;
        else
            put_text(out, whole.data);
        stk__text_clear(&whole);
    }
}

void stk__log_csv_header(const stk__log *log, stk__text *out)
{
    for (size_t i = 0; i < STK__LOG_HEAD; i++)
        stk__text_printf(out, "%s%s", i ? "," : "", stk__log_head[i]);
    for (size_t i = 0; i < log->benchmark_count; i++)
        put_names(out, log->benchmarks[i].name, stk__log_of_benchmark, STK__LOG_PER_BENCHMARK);
    for (size_t i = 0; i < log->pair_count; i++)
        put_names(out, log->pairs[i], stk__log_of_pair, STK__LOG_PER_PAIR);
}

static void put_cell(const stk__log_benchmark *b, const stk__log_cell *cell, stk__text *out)
{
    if (!cell->n) {
        for (size_t i = 0; i < STK__LOG_PER_BENCHMARK; i++)
            stk__text_putc(out, ',');
        return;
    }
    put_number(out, cell->mean);
    put_number(out, cell->sd);
    stk__text_printf(out, ",%zu", cell->n);
    put_text(out, b->metric);
    put_text(out, b->unit);
    put_text(out, b->higher_is_better ? "1" : "-1");
    put_text(out, cell->limits);
    put_text(out, cell->against);
    put_number(out, cell->ratio);
    put_number(out, cell->low);
    put_number(out, cell->high);
    put_number(out, cell->p);
    put_text(out, !isfinite(cell->ratio) && !cell->verdict ? "" : cell->paired ? "1" : "0");
    put_text(out, cell->verdict);
}

static void put_beside(const stk__log_beside *x, stk__text *out)
{
    put_number(out, x->verdict ? x->ratio : NAN);
    put_number(out, x->verdict ? x->low : NAN);
    put_number(out, x->verdict ? x->high : NAN);
    put_number(out, x->verdict ? x->p : NAN);
    put_text(out, !x->verdict ? "" : x->paired ? "1" : "0");
    put_text(out, x->verdict);
}

void stk__log_csv_row(const stk__log *log, const stk__log_row *row, stk__text *out)
{
    stk__log_time(row->time_s, false, out);
    stk__text_printf(out, ",%s,%s,%d", row->commit, row->parent, row->dirty);
    put_text(out, row->machine);
    put_text(out, row->limits);
    put_text(out, row->description);
    put_number(out, row->confidence);
    for (size_t i = 0; i < log->benchmark_count; i++)
        put_cell(&log->benchmarks[i], &row->cells[i], out);
    for (size_t i = 0; i < log->pair_count; i++)
        put_beside(&row->beside[i], out);
}

/* ---- time ---- */

/* Days since 1970-01-01 in the Gregorian calendar (Hinnant's algorithm); year from 1970 on. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t of_era = y % 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return y / 400 * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    const int64_t z = days + 719468, era = z / 146097, doe = z % 146097;
    const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const int64_t mp = (5 * doy + 2) / 153;
    *day = doy - (153 * mp + 2) / 5 + 1;
    *month = mp < 10 ? mp + 3 : mp - 9;
    *year = yoe + era * 400 + (*month <= 2);
}

void stk__log_time(int64_t time_s, bool for_people, stk__text *out)
{
    int64_t year, month, day;
    const int64_t latest = 253402300799; /* the end of the year 9999 */
    const int64_t t = STK_MAX(0, STK_MIN(time_s, latest)), s = t % 86400;
    date_of(t / 86400, &year, &month, &day);
    stk__text_printf(out, for_people ? "%04d-%02d-%02d %02d:%02d" : "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)year,
                     (int)month, (int)day, (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
}

bool stk__log_time_parse(const char *text, int64_t *out)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
    if (strlen(text) != sizeof shape - 1)
        return false;
    int64_t numbers[6] = {0};
    for (size_t i = 0, field = 0; shape[i]; i++) {
        const bool digit = text[i] >= '0' && text[i] <= '9';
        if (shape[i] == 'd' ? !digit : text[i] != shape[i])
            return false;
        if (shape[i] == 'd')
            numbers[field] = numbers[field] * 10 + (text[i] - '0');
        else
            field++;
    }
    if (numbers[0] < 1970 || numbers[1] < 1 || numbers[1] > 12 || numbers[2] < 1 || numbers[2] > 31)
        return false;
    const int64_t time_s =
        days_of(numbers[0], numbers[1], numbers[2]) * 86400 + numbers[3] * 3600 + numbers[4] * 60 + numbers[5];
    char again[32];
    stk__text t;
    stk__text_fixed(&t, again, sizeof again);
    stk__log_time(time_s, false, &t);
    *out = time_s;
    return strcmp(again, text) == 0;
}
