/* Work of GPUs in an Nsight Systems export: kernels, copies, fills and graphs, named and sorted as Kineto does. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

/* Columns that all tables of device work have. */
#define DEVICE_COLUMNS "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"

enum { START, END, DEVICE, CONTEXT, STREAM, CORRELATION, PID, FIRST_OWN };

bool stk__ns_slice(ns_rows *rows, uint32_t track, int start, int end, stk__string name, stk__string category)
{
    ns_reader *r = rows->r;
    const int64_t from = stk__ns_int(rows, start, STK__NO_TIME), to = stk__ns_int(rows, end, STK__NO_TIME);
    if (from < -STK__TIME_MAX || from > STK__TIME_MAX || to == STK__NO_TIME) {
        stk__builder_note(r->b, STK__REASON_NO_TIME, -1);
        stk__builder_drop_args(r->b);
        return false;
    }
    int64_t dur;
    if (__builtin_sub_overflow(to, from, &dur))
        dur = INT64_MAX;
    stk__builder_slice(r->b, track, from, dur, name ? name : r->words.unnamed, category, -1);
    return true;
}

/* The slice of a device operation, and the end of the arrow from its launch. */
static void put_work(ns_rows *rows, stk__string name, stk__string category)
{
    ns_reader *r = rows->r;
    const int64_t pid = stk__ns_int(rows, PID, 0), correlation = stk__ns_int(rows, CORRELATION, 0);
    const uint32_t track = stk__ns_stream_track(r, pid, stk__ns_int(rows, DEVICE, 0), stk__ns_int(rows, CONTEXT, 0),
                                                stk__ns_int(rows, STREAM, -1));
    stk__builder_saw(r->b, 1);
    if (correlation)
        stk__builder_arg_int(r->b, r->words.correlation, correlation);
    if (!stk__ns_slice(rows, track, START, END, name, category) || !correlation)
        return;
    const uint64_t process = stk__ns_pid_key(pid);
    const uint32_t nth = stk__ns_launched(r, process, correlation);
    stk__ns_flow(r, track, stk__ns_int(rows, START, 0), STK__FLOW_END | STK__FLOW_ENCLOSING, process, correlation, nth);
}

static void arg_int(ns_rows *rows, int column, stk__string key)
{
    if (!stk__ns_is_null(rows, column))
        stk__builder_arg_int(rows->r->b, key, stk__ns_int(rows, column, 0));
}

/* [x,y,z], of three columns that follow each other. */
static void arg_extent(ns_rows *rows, int column, stk__string key)
{
    char text[80];
    if (!stk__ns_has_column(rows, column))
        return;
    const int size = snprintf(text, sizeof text, "[%lld,%lld,%lld]", (long long)stk__ns_int(rows, column, 0),
                              (long long)stk__ns_int(rows, column + 1, 0), (long long)stk__ns_int(rows, column + 2, 0));
    stk__builder_arg_json(rows->r->b, key, stk__builder_string(rows->r->b, text, (size_t)size));
}

static void read_kernels(ns_reader *r)
{
    enum { DEMANGLED = FIRST_OWN, SHORT, MANGLED, GRID };
    enum { BLOCK = GRID + 3, REGISTERS = BLOCK + 3, STATIC, DYNAMIC, NODE };
    static const char *const columns[] = {DEVICE_COLUMNS,
                                          "demangledName",
                                          "shortName",
                                          "mangledName",
                                          "gridX",
                                          "gridY",
                                          "gridZ",
                                          "blockX",
                                          "blockY",
                                          "blockZ",
                                          "registersPerThread",
                                          "staticSharedMemory",
                                          "dynamicSharedMemory",
                                          "graphNodeId",
                                          NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "CUPTI_ACTIVITY_KIND_KERNEL", columns))
        while (stk__ns_rows_next(&rows)) {
            stk__string name = stk__ns_name(&rows, DEMANGLED);
            if (!name)
                name = stk__ns_name(&rows, SHORT);
            if (!name)
                name = stk__ns_name(&rows, MANGLED);
            arg_extent(&rows, GRID, r->words.grid);
            arg_extent(&rows, BLOCK, r->words.block);
            arg_int(&rows, REGISTERS, r->words.registers);
            int64_t shared;
            if ((stk__ns_has_column(&rows, STATIC) || stk__ns_has_column(&rows, DYNAMIC)) &&
                !__builtin_add_overflow(stk__ns_int(&rows, STATIC, 0), stk__ns_int(&rows, DYNAMIC, 0), &shared))
                stk__builder_arg_int(r->b, r->words.shared, shared);
            arg_int(&rows, NODE, r->words.graph_node);
            put_work(&rows, name, r->words.kernel);
        }
    stk__ns_rows_close(&rows);
}

/* ---- copies ---- */

/* CUPTI's numbers, which are those of the tables ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND. */
static const char *copy_kind(int64_t kind)
{
    static const char *const kinds[] = {
        "Memcpy",      "Memcpy HtoD",           "Memcpy DtoH",           "Memcpy HtoA",          "Memcpy AtoH",
        "Memcpy AtoA", "Memcpy AtoD",           "Memcpy DtoA",           "Memcpy DtoD",          "Memcpy HtoH",
        "Memcpy PtoP", "Memcpy HtoD (Unified)", "Memcpy DtoH (Unified)", "Memcpy DtoD (Unified)"};
    return kind >= 0 && kind < (int64_t)STK_COUNT(kinds) ? kinds[kind] : kinds[0];
}

static const char *memory_kind(int64_t kind)
{
    static const char *const kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
    return kind >= 0 && kind < (int64_t)STK_COUNT(kinds) ? kinds[kind] : NULL;
}

/* "Memcpy HtoD (Pinned -> Device)" */
static stk__string copy_name(ns_reader *r, int64_t kind, int64_t from, int64_t to)
{
    const uint64_t kinds = (uint64_t)from << 32 ^ (uint64_t)to;
    const uint32_t known = stk__ns_get(r, NS_KEY_COPY, (uint64_t)kind, kinds);
    if (known != STK__NONE)
        return known;
    char text[80];
    const char *source = memory_kind(from), *target = memory_kind(to);
    if (source && target && kind <= 10)
        snprintf(text, sizeof text, "%s (%s -> %s)", copy_kind(kind), source, target);
    else
        snprintf(text, sizeof text, "%s", copy_kind(kind));
    const stk__string name = stk__builder_str(r->b, text);
    stk__ns_put(r, NS_KEY_COPY, (uint64_t)kind, kinds, name);
    return name;
}

static void read_copies(ns_reader *r)
{
    enum { BYTES = FIRST_OWN, KIND, FROM, TO, NODE };
    static const char *const columns[] = {DEVICE_COLUMNS, "bytes",       "copyKind", "srcKind",
                                          "dstKind",      "graphNodeId", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "CUPTI_ACTIVITY_KIND_MEMCPY", columns))
        while (stk__ns_rows_next(&rows)) {
            arg_int(&rows, BYTES, r->words.bytes);
            arg_int(&rows, NODE, r->words.graph_node);
            const int64_t from = stk__ns_int(&rows, FROM, -1), to = stk__ns_int(&rows, TO, -1);
            put_work(&rows, copy_name(r, stk__ns_int(&rows, KIND, 0), from, to), r->words.copy);
        }
    stk__ns_rows_close(&rows);
}

static void read_fills(ns_reader *r)
{
    enum { BYTES = FIRST_OWN, VALUE, KIND, NODE };
    static const char *const columns[] = {DEVICE_COLUMNS, "bytes", "value", "memKind", "graphNodeId", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "CUPTI_ACTIVITY_KIND_MEMSET", columns))
        while (stk__ns_rows_next(&rows)) {
            char name[40];
            const char *kind = memory_kind(stk__ns_int(&rows, KIND, -1));
            snprintf(name, sizeof name, "Memset (%s)", kind ? kind : "Unknown");
            arg_int(&rows, BYTES, r->words.bytes);
            arg_int(&rows, VALUE, r->words.value);
            arg_int(&rows, NODE, r->words.graph_node);
            put_work(&rows, stk__builder_str(r->b, name), r->words.fill);
        }
    stk__ns_rows_close(&rows);
}

/* ---- graphs and waits ---- */

/* Graphs that were traced as a whole stand for all of their kernels. */
static void read_graphs(ns_reader *r)
{
    enum { GRAPH = FIRST_OWN };
    static const char *const columns[] = {DEVICE_COLUMNS, "graphId", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns))
        while (stk__ns_rows_next(&rows)) {
            char name[40];
            snprintf(name, sizeof name, "CUDA graph %lld", (long long)stk__ns_int(&rows, GRAPH, 0));
            put_work(&rows, stk__builder_str(r->b, name), r->words.kernel);
        }
    stk__ns_rows_close(&rows);
}

static const char *sync_kind(int64_t kind)
{
    static const char *const kinds[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    return kind >= 0 && kind < (int64_t)STK_COUNT(kinds) ? kinds[kind] : kinds[0];
}

/* Waits of the host for a GPU, on a row of their own: they cover the kernels that they wait for. */
static void read_syncs(ns_reader *r)
{
    enum { TYPE = FIRST_OWN };
    static const char *const columns[] = {DEVICE_COLUMNS, "syncType", NULL};
    const stk__string name = stk__builder_str(r->b, "synchronization");
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns))
        while (stk__ns_rows_next(&rows)) {
            const uint32_t process = stk__ns_device(r, stk__ns_int(&rows, PID, 0), stk__ns_int(&rows, DEVICE, 0));
            const uint32_t track = stk__builder_async_track(r->b, process, r->words.sync, name, name);
            const int64_t correlation = stk__ns_int(&rows, CORRELATION, 0);
            stk__builder_saw(r->b, 1);
            if (correlation)
                stk__builder_arg_int(r->b, r->words.correlation, correlation);
            stk__ns_slice(&rows, track, START, END, stk__builder_str(r->b, sync_kind(stk__ns_int(&rows, TYPE, 0))),
                          r->words.sync);
        }
    stk__ns_rows_close(&rows);
}

void stk__ns_read_device(ns_reader *r)
{
    read_kernels(r);
    read_copies(r);
    read_fills(r);
    read_graphs(r);
    read_syncs(r);
}
