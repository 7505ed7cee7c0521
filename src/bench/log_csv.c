/* The CSV file of the change log (RFC 4180): one header, one line per row. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* Columns before and behind those of the benchmarks, which have three each: NAME, NAME_sd, NAME_n. */
static const char *const head_columns[] = {"time", "commit", "parent", "dirty", "machine", "limits", "description"};
static const char *const tail_columns[] = {"compared", "ratio",   "ci_low", "ci_high", "p",
                                           "paired",   "verdict", "metric", "unit"};

enum { HEAD = STK_COUNT(head_columns), TAIL = STK_COUNT(tail_columns), PER_BENCHMARK = 3, NUMBER_MAX = 40 };

/* ---- writing ---- */

void stk__log_csv_field(stk__text *out, const char *text)
{
    const size_t length = strlen(text);
    const bool plain = !strpbrk(text, ",\"\r\n") && (!length || (text[0] != ' ' && text[length - 1] != ' '));
    if (plain) {
        stk__text_puts(out, text);
        return;
    }
    stk__text_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            stk__text_putc(out, '"');
        stk__text_putc(out, *text);
    }
    stk__text_putc(out, '"');
}

/* Not known: empty. */
static void put_number(stk__text *out, double x)
{
    if (isfinite(x))
        stk__text_json_double(out, x);
}

static void put_name(stk__text *out, const char *name, const char *suffix)
{
    stk__text whole = STK__TEXT_INIT;
    stk__text_puts(&whole, name);
    stk__text_puts(&whole, suffix);
    if (whole.failed)
        out->failed = true;
    else
        stk__log_csv_field(out, whole.data);
    stk__text_clear(&whole);
}

void stk__log_csv_header(const stk__log *log, stk__text *out)
{
    for (size_t i = 0; i < HEAD; i++)
        stk__text_printf(out, "%s,", head_columns[i]);
    for (size_t i = 0; i < log->benchmark_count; i++) {
        put_name(out, log->benchmarks[i], "");
        stk__text_putc(out, ',');
        put_name(out, log->benchmarks[i], "_sd");
        stk__text_putc(out, ',');
        put_name(out, log->benchmarks[i], "_n");
        stk__text_putc(out, ',');
    }
    for (size_t i = 0; i < TAIL; i++)
        stk__text_printf(out, "%s%s", i ? "," : "", tail_columns[i]);
}

void stk__log_csv_row(const stk__log *log, const stk__log_row *row, stk__text *out)
{
    stk__log_time(row->time_s, false, out);
    stk__text_printf(out, ",%s,%s,%d,", row->commit, row->parent, row->dirty);
    stk__log_csv_field(out, row->machine);
    stk__text_putc(out, ',');
    stk__log_csv_field(out, row->limits);
    stk__text_putc(out, ',');
    stk__log_csv_field(out, row->description);
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__text_putc(out, ',');
        put_number(out, row->cells[i].mean);
        stk__text_putc(out, ',');
        put_number(out, row->cells[i].sd);
        stk__text_printf(out, ",%zu", row->cells[i].n);
    }
    stk__text_putc(out, ',');
    stk__log_csv_field(out, row->compared);
    const double numbers[] = {row->ratio, row->low, row->high, row->p};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_putc(out, ',');
        put_number(out, numbers[i]);
    }
    stk__text_printf(out, ",%s,%s,", row->verdict[0] ? (row->paired ? "1" : "0") : "", row->verdict);
    stk__log_csv_field(out, log->metric);
    stk__text_putc(out, ',');
    stk__log_csv_field(out, log->benchmark_count ? log->units[0] : "");
}

/* ---- reading ---- */

typedef struct csv_reader {
    const char *text, *file;
    size_t size, at;
    size_t line;     /* at `at` */
    stk__text field; /* the one that was read last */
    bool last;       /* it ended its line */
    stk_error *err;
} csv_reader;

/* "column 9 (lazy_sd)" is what people look for. */
static stk_status bad_field(csv_reader *r, const char *column, const char *wanted)
{
    char shown[80];
    stk__escape_terminal(r->field.data, shown, sizeof shown);
    return stk__log_damage(r->err, r->file, r->line, "%s is '%s', wanted %s", column, shown, wanted);
}

/* Nobody writes line ends into a field here, so that a quote left open is told where it stands. */
static stk_status read_quoted(csv_reader *r)
{
    for (r->at++; r->at < r->size && r->text[r->at] != '\n'; r->at++) {
        const char c = r->text[r->at];
        if (c == '"' && r->at + 1 < r->size && r->text[r->at + 1] == '"')
            r->at++;
        else if (c == '"')
            break;
        stk__text_putc(&r->field, c);
    }
    if (r->at == r->size || r->text[r->at] != '"')
        return stk__log_damage(r->err, r->file, r->line, "a quote is opened and not closed in the line");
    r->at++;
    const char *rest = r->text + r->at;
    const size_t left = r->size - r->at;
    if (left && *rest != ',' && *rest != '\n' && *rest != '\r')
        return stk__log_damage(r->err, r->file, r->line,
                               "text behind a closing quote, wanted a comma or the line's end");
    return STK_OK;
}

static stk_status read_plain(csv_reader *r)
{
    const size_t start = r->at;
    while (r->at < r->size && r->text[r->at] != ',' && r->text[r->at] != '\n')
        r->at++;
    size_t end = r->at;
    if (end > start && r->text[end - 1] == '\r' && (r->at == r->size || r->text[r->at] == '\n'))
        end--;
    if (memchr(r->text + start, '"', end - start))
        return stk__log_damage(r->err, r->file, r->line, "a quote within a field that has none around it");
    stk__text_write(&r->field, r->text + start, end - start);
    return STK_OK;
}

/* The next field; `last` tells whether the line ends with it. */
static stk_status read_field(csv_reader *r)
{
    stk__text_reset(&r->field);
    STK_TRY(r->at < r->size && r->text[r->at] == '"' ? read_quoted(r) : read_plain(r));
    stk__text_write(&r->field, "", 0);
    if (r->field.failed)
        return stk__nomem(r->field.length, r->err);
    if (r->at < r->size && r->text[r->at] == '\r')
        r->at++;
    r->last = r->at >= r->size || r->text[r->at] == '\n';
    if (r->at < r->size)
        r->at++;
    return STK_OK;
}

static stk_status take_text(csv_reader *r, char **out)
{
    *out = stk__strndup(r->field.data, r->field.length);
    return *out ? STK_OK : stk__nomem(r->field.length, r->err);
}

static bool parse_number(const char *text, double *out)
{
    const size_t length = strlen(text);
    if (!length || length > NUMBER_MAX || strspn(text, "0123456789+-.eE") != length)
        return false;
    char *end;
    *out = stk__strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

/* Empty: NaN. */
static stk_status take_number(csv_reader *r, const char *column, double min, double max, bool may_be_empty, double *out)
{
    *out = NAN;
    if (may_be_empty && !r->field.length)
        return STK_OK;
    if (!parse_number(r->field.data, out) || !(*out >= min && *out <= max))
        return bad_field(r, column, may_be_empty ? "a number that fits, or nothing" : "a number that fits");
    return STK_OK;
}

static stk_status take_hash(csv_reader *r, const char *column, char **out)
{
    if (r->field.length > 64 || strspn(r->field.data, "0123456789abcdef") != r->field.length)
        return bad_field(r, column, "a commit's hash");
    return take_text(r, out);
}

static stk_status take_flag(csv_reader *r, const char *column, bool *out)
{
    if (strcmp(r->field.data, "0") != 0 && strcmp(r->field.data, "1") != 0)
        return bad_field(r, column, "0 or 1");
    *out = r->field.data[0] == '1';
    return STK_OK;
}

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

/* Only what stk__log_time writes: whatever else would read back as another text. */
static bool parse_time(const char *text, int64_t *out)
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

static stk_status take_head(csv_reader *r, size_t column, stk__log_row *row)
{
    const char *name = head_columns[column];
    switch (column) {
    case 0:
        return parse_time(r->field.data, &row->time_s) ? STK_OK : bad_field(r, name, "one like 2026-08-18T10:00:00Z");
    case 1:
        return take_hash(r, name, &row->commit);
    case 2:
        return take_hash(r, name, &row->parent);
    case 3:
        return take_flag(r, name, &row->dirty);
    case 4:
        return take_text(r, &row->machine);
    case 5:
        return take_text(r, &row->limits);
    default:
        return take_text(r, &row->description);
    }
}

static stk_status take_cell(csv_reader *r, size_t part, const char *benchmark, stk__log_cell *cell)
{
    static const char *const parts[] = {"mean", "sd", "n"};
    char column[96], name[64];
    stk__text t;
    stk__escape_terminal(benchmark, name, sizeof name);
    stk__text_fixed(&t, column, sizeof column);
    stk__text_printf(&t, "%s of '%s'", parts[part], name);
    if (part == 0)
        return take_number(r, column, -HUGE_VAL, HUGE_VAL, false, &cell->mean);
    if (part == 1)
        return take_number(r, column, 0, HUGE_VAL, true, &cell->sd);
    int64_t n = 0;
    if (r->field.length > 18 || strspn(r->field.data, "0123456789") != r->field.length ||
        !stk__parse_int64(r->field.data, &n) || n < 1)
        return bad_field(r, column, "how many runs");
    cell->n = (size_t)n;
    return STK_OK;
}

static bool is_verdict(const char *word)
{
    for (int v = STK__INCONCLUSIVE; v < STK__VERDICTS; v++)
        if (strcmp(word, stk__verdict_name((stk__verdict)v)) == 0)
            return true;
    return false;
}

/* All rows measure the same: the first one says what. */
static stk_status take_common(csv_reader *r, const char *column, char **common)
{
    if (!*common)
        return take_text(r, common);
    return strcmp(*common, r->field.data) == 0 ? STK_OK : bad_field(r, column, "the same as in the rows above");
}

static stk_status take_tail(csv_reader *r, size_t column, stk__log_row *row, char **metric, char **unit)
{
    const char *name = tail_columns[column];
    double *const numbers[] = {NULL, &row->ratio, &row->low, &row->high, &row->p};
    switch (column) {
    case 0:
        return take_text(r, &row->compared);
    case 1:
    case 2:
    case 3:
        return take_number(r, name, 0, HUGE_VAL, true, numbers[column]);
    case 4:
        return take_number(r, name, 0, 1, true, numbers[column]);
    case 5:
        return r->field.length ? take_flag(r, name, &row->paired) : STK_OK;
    case 6:
        if (r->field.length && !is_verdict(r->field.data))
            return bad_field(r, name, "faster, slower, equivalent, inconclusive or nothing");
        return take_text(r, &row->verdict);
    case 7:
        return take_common(r, name, metric);
    default:
        return take_common(r, name, unit);
    }
}

static stk_status take_column(csv_reader *r, size_t column, stk__log *log, stk__log_row *row, char **unit)
{
    const size_t cells = log->benchmark_count * PER_BENCHMARK;
    if (column < HEAD)
        return take_head(r, column, row);
    if (column < HEAD + cells) {
        const size_t i = (column - HEAD) / PER_BENCHMARK;
        return take_cell(r, (column - HEAD) % PER_BENCHMARK, log->benchmarks[i], &row->cells[i]);
    }
    return take_tail(r, column - HEAD - cells, row, &log->metric, unit);
}

static stk_status read_row(csv_reader *r, stk__log *log, char **unit)
{
    const size_t columns = HEAD + log->benchmark_count * PER_BENCHMARK + TAIL, line = r->line;
    stk__log_row *row = stk__log_add_row(log);
    if (!row)
        return stk__nomem(sizeof *row, r->err);
    log->row_count++; /* cleared with the log, also when half filled */
    row->line = line;
    for (size_t i = 0; i < columns; i++) {
        STK_TRY(read_field(r));
        if (r->last != (i + 1 == columns))
            return stk__log_damage(r->err, r->file, line, "%s than %zu fields, wanted as many as the header has",
                                   r->last ? "fewer" : "more", columns);
        STK_TRY(take_column(r, i, log, row, unit));
    }
    r->line++;
    return STK_OK;
}

/* ---- the header ---- */

typedef struct csv_names {
    char **items;
    size_t count, capacity;
} csv_names;

static void names_clear(csv_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        stk__free(names->items[i]);
    stk__free(names->items);
}

static stk_status read_names(csv_reader *r, csv_names *names)
{
    do {
        STK_TRY(read_field(r));
        if (!stk__grow((void **)&names->items, &names->capacity, names->count + 1, sizeof *names->items))
            return stk__nomem(names->count * sizeof *names->items, r->err);
        STK_TRY(take_text(r, &names->items[names->count]));
        names->count++;
    } while (!r->last);
    return STK_OK;
}

static stk_status check_fixed(csv_reader *r, char **names, const char *const *wanted, size_t count, size_t first)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], wanted[i]) == 0)
            continue;
        char shown[80];
        stk__escape_terminal(names[i], shown, sizeof shown);
        return stk__log_damage(r->err, r->file, 1, "written by something else: column %zu is '%s', wanted '%s'",
                               first + i + 1, shown, wanted[i]);
    }
    return STK_OK;
}

static bool has_suffix(const char *name, const char *base, const char *suffix)
{
    const size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && strcmp(name + n, suffix) == 0;
}

static stk_status check_names(csv_reader *r, const csv_names *names)
{
    const size_t fixed = HEAD + TAIL;
    STK_TRY(check_fixed(r, names->items, head_columns, STK_MIN(names->count, HEAD), 0));
    if (names->count <= fixed || (names->count - fixed) % PER_BENCHMARK)
        return stk__log_damage(r->err, r->file, 1, "%zu columns, wanted %zu and three for each benchmark", names->count,
                               fixed);
    const size_t tail = names->count - TAIL;
    STK_TRY(check_fixed(r, names->items + tail, tail_columns, TAIL, tail));
    for (size_t i = HEAD; i < tail; i += PER_BENCHMARK) {
        char *const *name = names->items + i;
        if (has_suffix(name[1], name[0], "_sd") && has_suffix(name[2], name[0], "_n"))
            continue;
        char shown[80];
        stk__escape_terminal(name[0], shown, sizeof shown);
        return stk__log_damage(r->err, r->file, 1, "behind column %zu ('%s') wanted the same with _sd and with _n",
                               i + 1, shown);
    }
    return STK_OK;
}

static stk_status read_header(csv_reader *r, stk__log *log)
{
    csv_names names = {0};
    stk_status status = read_names(r, &names);
    if (status == STK_OK)
        status = check_names(r, &names);
    if (status == STK_OK) {
        const size_t count = (names.count - HEAD - TAIL) / PER_BENCHMARK;
        log->benchmarks = stk__calloc(count, sizeof *log->benchmarks);
        log->units = stk__calloc(count, sizeof *log->units);
        if (!log->benchmarks || !log->units)
            status = stk__nomem(count * sizeof *log->benchmarks, r->err);
        else
            log->benchmark_count = count;
        for (size_t i = 0; i < log->benchmark_count; i++) {
            log->benchmarks[i] = names.items[HEAD + i * PER_BENCHMARK];
            names.items[HEAD + i * PER_BENCHMARK] = NULL;
        }
    }
    names_clear(&names);
    r->line++;
    return status;
}

static stk_status check_bytes(const char *text, size_t size, const char *file, stk_error *err)
{
    size_t line = 1;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        line += c == '\n';
        if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t' && !(c == '\r' && (i + 1 == size || text[i + 1] == '\n'))))
            return stk__log_damage(err, file, line, "byte %zu is 0x%02x, wanted text", i, c);
    }
    return STK_OK;
}

static stk_status fill_common(stk__log *log, const char *unit, stk_error *err)
{
    if (!log->metric && !(log->metric = stk__strdup("")))
        return stk__nomem(1, err);
    for (size_t i = 0; i < log->benchmark_count; i++)
        if (!(log->units[i] = stk__strdup(unit ? unit : "")))
            return stk__nomem(1, err);
    return STK_OK;
}

stk_status stk__log_csv_parse(const char *text, size_t size, const stk__log_paths *paths, stk__log *out, stk_error *err)
{
    if (!size)
        return STK_OK;
    csv_reader r = {.text = text, .file = paths->csv, .size = size, .line = 1, .err = err};
    stk__log log = {0};
    char *unit = NULL;
    stk_status status = check_bytes(text, size, r.file, err);
    if (status == STK_OK)
        status = read_header(&r, &log);
    while (status == STK_OK && r.at < r.size)
        status = read_row(&r, &log, &unit);
    if (status == STK_OK)
        status = fill_common(&log, unit, err);
    stk__free(unit);
    stk__text_clear(&r.field);
    if (status == STK_OK)
        *out = log;
    else
        stk__log_clear(&log);
    return status;
}
