/*
 * The SQLite exports of Nsight Systems (`nsys export --type sqlite`), of 2020 to 2026. Their tables and columns differ from version to
 * version and with what was recorded: nothing is taken to be there. Layout of the ids: a globalTid has the thread in its low 24 bits, the
 * process in the 24 above, and the machine above these.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

enum { DIAGNOSTICS_MAX = 32, SEVERITY_WARNING = 2 };

static const char magic[16] = "SQLite format 3";

/* ---- what the file is ---- */

static bool is_export(const ns_reader *r)
{
    static const char *const tables[] = {"StringIds",
                                         "CUPTI_ACTIVITY_KIND_KERNEL",
                                         "CUPTI_ACTIVITY_KIND_RUNTIME",
                                         "NVTX_EVENTS",
                                         "OSRT_API",
                                         "META_DATA_EXPORT",
                                         "EXPORT_META_DATA"};
    for (size_t i = 0; i < STK_COUNT(tables); i++)
        if (stk__ns_has_table(r, tables[i]))
            return true;
    return false;
}

static stk_status refuse(const ns_reader *r)
{
    const bool slices = stk__ns_has_table(r, "slice") && stk__ns_has_table(r, "thread");
    if (slices && stk__ns_has_table(r, "note") && stk__ns_has_table(r, "fact"))
        return stk_error_set(
            r->err, STK_UNSUPPORTED,
            "an SQLite database that Stoker wrote: ask it with sqlite3, and give the trace it was made "
            "from to this command");
    if (slices || stk__ns_has_table(r, "__intrinsic_slice"))
        return stk_error_set(r->err, STK_UNSUPPORTED,
                             "an SQLite database of Perfetto's trace processor; give the trace it was made from");
    return stk_error_set(r->err, STK_UNSUPPORTED,
                         "an SQLite database without tables of Nsight Systems (wanted an export of nsys export --type "
                         "sqlite)");
}

/* ---- facts and the clock ---- */

static void add_fact(ns_reader *r, const char *key, stk__string value)
{
    if (value)
        stk__builder_fact(r->b, stk__builder_str(r->b, key), value);
}

static bool is_text(const ns_reader *r, stk__string s, const char *text)
{
    size_t size;
    const char *is = stk__builder_get(r->b, s, &size);
    return size == strlen(text) && memcmp(is, text, size) == 0;
}

typedef struct wanted_fact {
    const char *name, *key;
} wanted_fact;

/* Rows of name and value, of which some are facts. The environment of the process, which may hold secrets, is not. */
static void read_pairs(ns_reader *r, const char *table, const wanted_fact *wanted, size_t count)
{
    static const char *const columns[] = {"name", "value", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, table, columns))
        while (stk__ns_rows_next(&rows)) {
            if (!stk__ns_has_column(&rows, 0))
                continue;
            const char *name = (const char *)sqlite3_column_text(rows.statement, rows.column[0]);
            for (size_t i = 0; name && i < count; i++)
                if (strcmp(name, wanted[i].name) == 0)
                    add_fact(r, wanted[i].key, stk__ns_text(&rows, 1));
        }
    stk__ns_rows_close(&rows);
}

static void read_facts(ns_reader *r)
{
    static const wanted_fact export[] = {
        {"EXPORT_PRODUCT_NAME", "product"}, {"EXPORT_PRODUCT_VERSION", "version"}, {"EXPORT_SCHEMA_VERSION", "schema"}};
    static const wanted_fact system[] = {{"Hostname", "hostname"},      {"NvDriverVersion", "driver"},
                                         {"CudaDriverVersion", "cuda"}, {"OsDescription", "os"},
                                         {"CpuDescription", "cpu"},     {"CpuCores", "cpu_cores"}};
    static const wanted_fact capture[] = {{"PROCESS_0:COMMAND", "command"}};
    read_pairs(r, "META_DATA_EXPORT", export, STK_COUNT(export));
    read_pairs(r, "EXPORT_META_DATA", export, STK_COUNT(export));
    read_pairs(r, "TARGET_INFO_SYSTEM_ENV", system, STK_COUNT(system));
    read_pairs(r, "META_DATA_CAPTURE", capture, STK_COUNT(capture));
}

/* Times count from the start of the session, or from 1970 when the export was told to normalize them. */
static bool is_normalized(ns_reader *r)
{
    static const char *const columns[] = {"name", "value", NULL};
    static const char *const tables[] = {"META_DATA_EXPORT", "EXPORT_META_DATA"};
    bool normalized = false;
    for (size_t i = 0; i < STK_COUNT(tables); i++) {
        ns_rows rows;
        if (stk__ns_rows_open(&rows, r, tables[i], columns))
            while (stk__ns_rows_next(&rows))
                if (is_text(r, stk__ns_text(&rows, 0), "EXPORT_PARAM_TIME_NORMALIZE"))
                    normalized = is_text(r, stk__ns_text(&rows, 1), "true");
        stk__ns_rows_close(&rows);
    }
    return normalized;
}

static void read_clock(ns_reader *r)
{
    static const char *const columns[] = {"utcEpochNs", NULL};
    int64_t start = STK__NO_NUMBER;
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "TARGET_INFO_SESSION_START_TIME", columns))
        while (stk__ns_rows_next(&rows))
            if (start == STK__NO_NUMBER)
                start = stk__ns_int(&rows, 0, STK__NO_NUMBER);
    stk__ns_rows_close(&rows);
    stk__trace_file *file = stk__builder_file(r->b);
    if (is_normalized(r)) {
        file = stk__builder_file(r->b);
        file->clock = STK__CLOCK_REALTIME;
        file->realtime_ns = 0;
    } else if (start > 0 && start <= STK__TIME_MAX) {
        file = stk__builder_file(r->b);
        file->realtime_ns = start;
    }
    file->resolution_ns = 0;
}

/* A report that was made under one rank of MPI. */
static void read_rank(ns_reader *r)
{
    static const char *const columns[] = {"rank", NULL};
    int64_t rank = -1;
    bool several = false;
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "MPI_RANKS", columns))
        while (stk__ns_rows_next(&rows)) {
            const int64_t n = stk__ns_int(&rows, 0, -1);
            several = several || (rank >= 0 && n != rank);
            rank = n;
        }
    stk__ns_rows_close(&rows);
    if (rank >= 0 && !several)
        stk__builder_file(r->b)->rank = rank;
}

/* What the profiler itself warned of, such as events that it lost. */
static void read_diagnostics(ns_reader *r)
{
    static const char *const columns[] = {"severity", "text", NULL};
    int count = 0;
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "DIAGNOSTIC_EVENT", columns))
        while (count < DIAGNOSTICS_MAX && stk__ns_rows_next(&rows))
            if (stk__ns_int(&rows, 0, 0) >= SEVERITY_WARNING) {
                add_fact(r, "diagnostic", stk__ns_text(&rows, 1));
                count++;
            }
    stk__ns_rows_close(&rows);
}

/* ---- what is not read ---- */

/* Tables of events that nobody reads: scheduling, page faults, frames of graphics. */
static void count_unread(ns_reader *r)
{
    static const char *const columns[] = {"start", "timestamp", NULL};
    for (size_t i = 0; i < r->table_count && r->status == STK_OK; i++) {
        uint64_t count = 0;
        ns_rows rows;
        if (r->tables[i].used)
            continue;
        if (stk__ns_rows_open(&rows, r, r->tables[i].name, columns))
            while (stk__ns_rows_next(&rows))
                count++;
        stk__ns_rows_close(&rows);
        stk__builder_saw(r->b, count);
        if (count)
            stk__builder_notes(r->b, STK__REASON_UNKNOWN_KIND, count, -1);
    }
}

/* ---- the file ---- */

static void make_words(ns_reader *r)
{
#define NS_WORD_MAKE(name, text) r->words.name = stk__builder_str(r->b, text);
    NS_WORDS(NS_WORD_MAKE)
#undef NS_WORD_MAKE
}

/* Device work comes first: then it is known which calls started some. */
static stk_status read_all(ns_reader *r)
{
    make_words(r);
    stk__ns_read_strings(r);
    read_facts(r);
    read_clock(r);
    read_rank(r);
    stk__ns_read_gpus(r);
    stk__ns_read_device(r);
    stk__ns_read_calls(r);
    stk__ns_read_nvtx(r);
    stk__ns_read_samples(r);
    stk__ns_read_metrics(r);
    read_diagnostics(r);
    stk__ns_read_names(r);
    count_unread(r);
    if (r->status != STK_OK)
        return r->status;
    if (r->damaged && !stk__builder_file(r->b)->events)
        return stk_error_set(r->err, STK_CORRUPT, "the SQLite database is damaged: none of its events can be read");
    return stk__builder_status(r->b, r->err);
}

static stk_status nsys_read(stk__builder *b, stk__input *in, stk_error *err)
{
    ns_reader r = {.b = b, .in = in, .err = err, .text = STK__TEXT_INIT};
    r.seed = stk__mix((uint64_t)stk__now_ns(), (uint64_t)(uintptr_t)b);
    stk_status status = stk__ns_open(&r);
    if (status == STK_OK)
        status = is_export(&r) ? read_all(&r) : refuse(&r);
    stk__ns_close(&r);
    stk__keymap_clear(&r.ids);
    stk__keymap_clear(&r.far_strings);
    stk__keymap_clear(&r.short_names);
    stk__rowmap_clear(&r.launch_map);
    stk__free(r.launches);
    stk__free(r.strings);
    stk__text_clear(&r.text);
    return status;
}

/* Any database is taken: what it is can only be told from its tables. */
static int nsys_detect(const uint8_t *data, size_t size, bool whole)
{
    return size >= sizeof magic && memcmp(data, magic, sizeof magic) == 0 ? 100 : 0;
}

const stk__reader stk__reader_nsys = {
    .name = "nsys",
    .summary = "SQLite exports of Nsight Systems",
    .detect = nsys_detect,
    .read = nsys_read,
};
