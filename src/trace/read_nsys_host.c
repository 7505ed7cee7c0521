/* What threads did in an Nsight Systems export: calls of CUDA and other libraries, of the system, and NVTX ranges. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

/* ---- calls ---- */

enum { START, END, TID, NAME, TEXT, CLASS, CORRELATION, RESULT };
enum { CLASS_RUNTIME = 0, CLASS_DRIVER = 1 };

typedef struct call_table {
    const char *table, *category; /* category NULL: CUDA's, by the class of the event */
} call_table;

static const call_table call_tables[] = {
    {"CUPTI_ACTIVITY_KIND_RUNTIME", NULL},
    {"CUPTI_ACTIVITY_KIND_DRIVER", "cuda_driver"},
    {"OSRT_API", "os_runtime"},
    {"SYSCALL", "os_runtime"},
    {"PROFILER_OVERHEAD", "overhead"},
    {"CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead"},
    {"CUDNN_EVENTS", "cudnn"},
    {"CUBLAS_EVENTS", "cublas"},
    {"MPI_P2P_EVENTS", "mpi"},
    {"MPI_COLLECTIVES_EVENTS", "mpi"},
    {"MPI_START_WAIT_EVENTS", "mpi"},
    {"MPI_OTHER_EVENTS", "mpi"},
    {"UCP_SUBMIT_EVENTS", "ucx"},
    {"UCP_PROGRESS_EVENTS", "ucx"},
    {"UCP_EVENTS", "ucx"},
};

static stk__string cuda_category(const ns_rows *rows, stk__string name)
{
    const ns_reader *r = rows->r;
    const int64_t class = stk__ns_int(rows, CLASS, -1);
    if (class == CLASS_RUNTIME || class == CLASS_DRIVER)
        return class == CLASS_RUNTIME ? r->words.runtime : r->words.driver;
    size_t size;
    const char *text = stk__builder_get(r->b, name, &size);
    return size > 4 && memcmp(text, "cuda", 4) == 0 ? r->words.runtime : r->words.driver;
}

/* Arrows to what the call started: one for each operation of the device. */
static void put_launches(ns_rows *rows, uint32_t track, int64_t tid, int64_t correlation)
{
    const uint64_t process = stk__ns_pid_key(tid);
    const uint32_t count = stk__ns_launch_count(rows->r, process, correlation);
    for (uint32_t i = 0; i < count; i++)
        stk__ns_flow(rows->r, track, stk__ns_int(rows, START, 0), STK__FLOW_START, process, correlation, i);
}

static void put_call(ns_rows *rows, stk__string category)
{
    ns_reader *r = rows->r;
    const int64_t tid = stk__ns_int(rows, TID, 0), correlation = stk__ns_int(rows, CORRELATION, 0);
    const int64_t result = stk__ns_int(rows, RESULT, 0);
    const uint32_t track = stk__ns_thread_track(r, tid);
    stk__string name = stk__ns_name(rows, NAME);
    if (!name)
        name = stk__ns_name(rows, TEXT);
    stk__builder_saw(r->b, 1);
    if (!category) {
        category = cuda_category(rows, name);
        name = stk__ns_call_name(r, name);
    }
    if (correlation)
        stk__builder_arg_int(r->b, r->words.correlation, correlation);
    if (result)
        stk__builder_arg_int(r->b, r->words.result, result);
    if (stk__ns_slice(rows, track, START, END, name, category) && correlation)
        put_launches(rows, track, tid, correlation);
}

void stk__ns_read_calls(ns_reader *r)
{
    static const char *const columns[] = {"start",      "end",           "globalTid",   "nameId", "textId",
                                          "eventClass", "correlationId", "returnValue", NULL};
    for (size_t i = 0; i < STK_COUNT(call_tables); i++) {
        const call_table *t = &call_tables[i];
        const stk__string category = t->category ? stk__builder_str(r->b, t->category) : 0;
        ns_rows rows;
        if (stk__ns_rows_open(&rows, r, t->table, columns))
            while (stk__ns_rows_next(&rows))
                put_call(&rows, category);
        stk__ns_rows_close(&rows);
    }
}

/* ---- NVTX ---- */

/* Of ENUM_NSYS_EVENT_TYPE; the later ones are of text files that were added to a report. */
enum {
    NVTX_CATEGORY = 33,
    NVTX_MARK = 34,
    NVTX_THREAD_NAME = 39,
    NVTX_PUSH_POP = 59,
    NVTX_START_END = 60,
    NVTXT_MARK = 65,
    NVTXT_PUSH_POP = 70,
    NVTXT_START_END = 71,
    NVTX_DOMAIN = 75,
    NVTX_DOMAIN_END = 76,
};

enum {
    N_START,
    N_END,
    N_TID,
    N_TEXT,
    N_TEXT_ID,
    N_TYPE,
    N_DOMAIN,
    N_CATEGORY,
    N_JSON,
    N_JSON_ID,
    N_UINT64,
    N_INT64,
    N_DOUBLE,
    N_UINT32,
    N_INT32,
    N_FLOAT,
};

static const char *const nvtx_columns[] = {"start",       "end",        "globalTid",   "text",        "textId",
                                           "eventType",   "domainId",   "category",    "jsonText",    "jsonTextId",
                                           "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value",
                                           "floatValue",  NULL};

static stk__string nvtx_text(const ns_rows *rows)
{
    const stk__string text = stk__ns_text(rows, N_TEXT);
    return text ? text : stk__ns_name(rows, N_TEXT_ID);
}

/* Domains have their names in events of their own, anywhere in the table. */
static void read_domains(ns_reader *r)
{
    static const char *const columns[] = {"eventType", "domainId", "globalTid", "text", "textId", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "NVTX_EVENTS", columns))
        while (stk__ns_rows_next(&rows)) {
            if (stk__ns_int(&rows, 0, 0) != NVTX_DOMAIN)
                continue;
            const stk__string text = stk__ns_text(&rows, 3), name = text ? text : stk__ns_name(&rows, 4);
            stk__ns_put(r, NS_KEY_DOMAIN, stk__ns_pid_key(stk__ns_int(&rows, 2, 0)), (uint64_t)stk__ns_int(&rows, 1, 0),
                        name);
        }
    stk__ns_rows_close(&rows);
}

/* Ranges that start and end anywhere, also on different threads: a row beside the threads for each domain. */
static uint32_t range_track(ns_reader *r, int64_t tid, int64_t domain, stk__string domain_name)
{
    const uint32_t process = stk__ns_process(r, tid);
    uint32_t track = stk__ns_get(r, NS_KEY_RANGES, process, (uint64_t)domain);
    if (track != STK__NONE)
        return track;
    size_t size = 0;
    const char *text = domain_name ? stk__builder_get(r->b, domain_name, &size) : "";
    stk__text_reset(&r->text);
    stk__text_puts(&r->text, "NVTX ranges");
    if (size) {
        stk__text_puts(&r->text, ": ");
        stk__text_write(&r->text, text, size);
    }
    const stk__string name = r->text.failed ? 0 : stk__builder_string(r->b, r->text.data, r->text.length);
    char id[32];
    snprintf(id, sizeof id, "%lld", (long long)domain);
    track = stk__builder_async_track(r->b, process, r->words.range, stk__builder_str(r->b, id), name);
    stk__ns_put(r, NS_KEY_RANGES, process, (uint64_t)domain, track);
    return track;
}

/*
 * PyTorch's emit_nvtx writes what it knows of an op behind its name: "aten::add, seq = 3, op_id = 12, sizes = [[2]]". The name alone makes
 * ops of one kind alike; the rest is kept as an arg.
 */
static stk__string split_op(ns_reader *r, stk__string name)
{
    static const char *const keys[] = {", seq = ", ", op_id = ", ", stashed seq = ", ", sizes = ", ", input_op_ids = "};
    size_t size, cut;
    const char *text = stk__builder_get(r->b, name, &size);
    cut = size;
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        const char *hit = memmem(text, cut, keys[i], strlen(keys[i]));
        if (hit && hit > text)
            cut = (size_t)(hit - text);
    }
    if (cut == size)
        return name;
    stk__text_reset(&r->text); /* the builder's text may move when a string is added */
    stk__text_write(&r->text, text, size);
    if (r->text.failed)
        return name;
    stk__builder_arg_string(r->b, r->words.details, stk__builder_string(r->b, r->text.data + cut + 2, size - cut - 2));
    return stk__builder_string(r->b, r->text.data, cut);
}

static void put_payload(ns_rows *rows)
{
    ns_reader *r = rows->r;
    static const int integers[] = {N_UINT64, N_INT64, N_UINT32, N_INT32};
    for (size_t i = 0; i < STK_COUNT(integers); i++)
        if (!stk__ns_is_null(rows, integers[i]))
            stk__builder_arg_int(r->b, r->words.payload, stk__ns_int(rows, integers[i], 0));
    for (int c = N_DOUBLE; c <= N_FLOAT; c += N_FLOAT - N_DOUBLE)
        if (!stk__ns_is_null(rows, c))
            stk__builder_arg_double(r->b, r->words.payload, sqlite3_column_double(rows->statement, rows->column[c]));
    const stk__string json = stk__ns_text(rows, N_JSON) ? stk__ns_text(rows, N_JSON) : stk__ns_name(rows, N_JSON_ID);
    if (json)
        stk__builder_arg_string(r->b, r->words.json, json);
    if (stk__ns_int(rows, N_CATEGORY, 0))
        stk__builder_arg_int(r->b, r->words.nvtx_category, stk__ns_int(rows, N_CATEGORY, 0));
}

static bool is_range(const ns_rows *rows, int64_t type)
{
    return type == NVTX_PUSH_POP || type == NVTXT_PUSH_POP || type == NVTX_START_END || type == NVTXT_START_END ||
           (type < 0 && !stk__ns_is_null(rows, N_END));
}

static void put_nvtx(ns_rows *rows, int64_t type)
{
    ns_reader *r = rows->r;
    const int64_t tid = stk__ns_int(rows, N_TID, 0), domain = stk__ns_int(rows, N_DOMAIN, 0);
    const int64_t start = stk__ns_int(rows, N_START, STK__NO_TIME);
    const uint32_t domain_name = stk__ns_get(r, NS_KEY_DOMAIN, stk__ns_pid_key(tid), (uint64_t)domain);
    const bool beside = type == NVTX_START_END || type == NVTXT_START_END;
    const uint32_t track =
        beside ? range_track(r, tid, domain, domain_name == STK__NONE ? 0 : domain_name) : stk__ns_thread_track(r, tid);
    stk__string name = nvtx_text(rows);
    name = name ? split_op(r, name) : r->words.unnamed;
    if (domain_name != STK__NONE && domain_name)
        stk__builder_arg_string(r->b, r->words.domain, domain_name);
    put_payload(rows);
    if (is_range(rows, type) && !stk__ns_is_null(rows, N_END)) {
        stk__ns_slice(rows, track, N_START, N_END, name, r->words.range);
    } else if (start < -STK__TIME_MAX || start > STK__TIME_MAX) {
        stk__builder_note(r->b, STK__REASON_NO_TIME, -1);
        stk__builder_drop_args(r->b);
    } else if (is_range(rows, type)) {
        stk__builder_begin(r->b, track, start, name, r->words.range); /* open when the recording stopped */
    } else {
        stk__builder_instant(r->b, track, start, name, r->words.range);
    }
}

void stk__ns_read_nvtx(ns_reader *r)
{
    ns_rows rows;
    read_domains(r);
    if (stk__ns_rows_open(&rows, r, "NVTX_EVENTS", nvtx_columns))
        while (stk__ns_rows_next(&rows)) {
            const int64_t type = stk__ns_int(&rows, N_TYPE, -1);
            stk__builder_saw(r->b, 1);
            if (is_range(&rows, type) || type == NVTX_MARK || type == NVTXT_MARK || type < 0)
                put_nvtx(&rows, type);
            else if (type != NVTX_DOMAIN && type != NVTX_DOMAIN_END && type != NVTX_CATEGORY &&
                     type != NVTX_THREAD_NAME)
                stk__builder_note(r->b, STK__REASON_UNKNOWN_KIND, -1);
        }
    stk__ns_rows_close(&rows);
}
