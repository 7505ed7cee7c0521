/* Who the events of an Nsight Systems export belong to: strings, processes, threads, GPUs and their streams. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

enum {
    STRINGS_DIRECT = 1 << 22, /* ids below it are places in an array */
    NAME_MAX_BYTES = 256,     /* of a call whose version is cut off */
    NO_STREAM = -1,
};

stk__key stk__ns_key(const ns_reader *r, uint32_t kind, uint64_t a, uint64_t b)
{
    return (stk__key){{a, b, kind, r->seed}};
}

uint32_t stk__ns_get(const ns_reader *r, uint32_t kind, uint64_t a, uint64_t b)
{
    return stk__keymap_find(&r->ids, stk__ns_key(r, kind, a, b), STK__NONE);
}

bool stk__ns_put(ns_reader *r, uint32_t kind, uint64_t a, uint64_t b, uint32_t value)
{
    bool is_new = false;
    uint32_t *place = stk__keymap_place(&r->ids, stk__ns_key(r, kind, a, b), value, &is_new);
    if (!place)
        return stk__ns_nomem(r, r->ids.capacity * sizeof *r->ids.entries);
    *place = value;
    return is_new;
}

/* ---- strings ---- */

static void keep_string(ns_reader *r, int64_t id, stk__string s)
{
    if (id >= 0 && id < STRINGS_DIRECT) {
        const size_t before = r->string_capacity;
        if (!stk__grow((void **)&r->strings, &r->string_capacity, (size_t)id + 1, sizeof *r->strings)) {
            stk__ns_nomem(r, (size_t)id * sizeof *r->strings);
            return;
        }
        memset(r->strings + before, 0xff, (r->string_capacity - before) * sizeof *r->strings);
        r->strings[id] = s;
        return;
    }
    bool is_new;
    uint32_t *place = stk__keymap_place(&r->far_strings, (stk__key){{(uint64_t)id, r->seed}}, s, &is_new);
    if (!place)
        stk__ns_nomem(r, r->far_strings.capacity * sizeof *r->far_strings.entries);
}

stk_status stk__ns_read_strings(ns_reader *r)
{
    static const char *const columns[] = {"id", "value", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "StringIds", columns))
        while (stk__ns_rows_next(&rows))
            if (!stk__ns_is_null(&rows, 0))
                keep_string(r, stk__ns_int(&rows, 0, 0), stk__ns_text(&rows, 1));
    stk__ns_rows_close(&rows);
    return r->status;
}

static uint32_t string_of(const ns_reader *r, int64_t id)
{
    if (id >= 0 && (uint64_t)id < r->string_capacity && r->strings[id] != STK__NONE)
        return r->strings[id];
    return stk__keymap_find(&r->far_strings, (stk__key){{(uint64_t)id, r->seed}}, STK__NONE);
}

stk__string stk__ns_name(const ns_rows *rows, int c)
{
    if (stk__ns_is_null(rows, c))
        return 0;
    const uint32_t s = string_of(rows->r, stk__ns_int(rows, c, -1));
    if (s != STK__NONE)
        return s;
    stk__builder_note(rows->r->b, STK__REASON_BAD_REFERENCE, -1);
    return 0;
}

/* "_v3020", "_v10000" at the end of a call of CUDA's; "_v2" is part of the name. */
static size_t without_version(const char *text, size_t size)
{
    size_t digits = 0;
    while (digits < size && text[size - 1 - digits] >= '0' && text[size - 1 - digits] <= '9')
        digits++;
    return digits >= 4 && size > digits + 4 && memcmp(text + size - digits - 2, "_v", 2) == 0 ? size - digits - 2
                                                                                              : size;
}

stk__string stk__ns_call_name(ns_reader *r, stk__string name)
{
    bool is_new;
    uint32_t *place = stk__keymap_place(&r->short_names, (stk__key){{name, r->seed}}, name, &is_new);
    if (!place) {
        stk__ns_nomem(r, r->short_names.capacity * sizeof *r->short_names.entries);
        return name;
    }
    if (!is_new)
        return *place;
    size_t size;
    char copy[NAME_MAX_BYTES];
    const char *text = stk__builder_get(r->b, name, &size);
    if (size < 4 || size > sizeof copy || memcmp(text, "cu", 2) != 0)
        return name;
    const size_t shorter = without_version(text, size);
    memcpy(copy, text, shorter);
    return *place = stk__builder_string(r->b, copy, shorter);
}

/* ---- processes and threads ---- */

uint32_t stk__ns_process(ns_reader *r, int64_t global_id)
{
    const uint64_t key = stk__ns_pid_key(global_id);
    uint32_t process = stk__ns_get(r, NS_KEY_PROCESS, key, 0);
    if (process == STK__NONE) {
        process = stk__builder_process(r->b, (int64_t)(key & 0xffffff), 0);
        stk__ns_put(r, NS_KEY_PROCESS, key, 0, process);
    }
    return process;
}

uint32_t stk__ns_thread_track(ns_reader *r, int64_t global_tid)
{
    if (r->has_last && r->last_tid == (uint64_t)global_tid)
        return r->last_track;
    uint32_t track = stk__ns_get(r, NS_KEY_THREAD, (uint64_t)global_tid, 0);
    if (track == STK__NONE) {
        const uint32_t process = stk__ns_process(r, global_tid);
        const uint32_t thread = stk__builder_thread(r->b, process, global_tid & 0xffffff, 0);
        track = stk__builder_thread_track(r->b, thread);
        stk__ns_put(r, NS_KEY_THREAD, (uint64_t)global_tid, 0, track);
    }
    r->last_tid = (uint64_t)global_tid;
    r->last_track = track;
    r->has_last = true;
    return track;
}

/* ---- GPUs ---- */

/* What the numbers of CUDA's devices mean in each process, and what the GPUs are. */
void stk__ns_read_gpus(ns_reader *r)
{
    static const char *const devices[] = {"gpuId", "cudaId", "pid", NULL};
    static const char *const gpus[] = {"id", "name", "smCount", "totalMemory", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "TARGET_INFO_CUDA_DEVICE", devices))
        while (stk__ns_rows_next(&rows))
            if (!stk__ns_is_null(&rows, 0))
                stk__ns_put(r, NS_KEY_GPU, (uint64_t)stk__ns_int(&rows, 2, 0), (uint64_t)stk__ns_int(&rows, 1, 0),
                            (uint32_t)stk__ns_int(&rows, 0, 0));
    stk__ns_rows_close(&rows);
    if (stk__ns_rows_open(&rows, r, "TARGET_INFO_GPU", gpus))
        while (stk__ns_rows_next(&rows)) {
            const int64_t id = stk__ns_int(&rows, 0, 0), sms = stk__ns_int(&rows, 2, 0),
                          bytes = stk__ns_int(&rows, 3, 0);
            const stk__string name = stk__ns_text(&rows, 1);
            if (!name)
                continue;
            stk__ns_put(r, NS_KEY_GPU_NAME, (uint64_t)id, 0, name);
            size_t size;
            char key[32];
            snprintf(key, sizeof key, "GPU %lld", (long long)id);
            stk__text_reset(&r->text);
            const char *text = stk__builder_get(r->b, name, &size);
            stk__text_write(&r->text, text, size);
            if (sms > 0)
                stk__text_printf(&r->text, ", %lld SMs", (long long)sms);
            if (bytes > 0)
                stk__text_printf(&r->text, ", %lld MiB", (long long)(bytes >> 20));
            if (!r->text.failed)
                stk__builder_fact(r->b, stk__builder_str(r->b, key),
                                  stk__builder_string(r->b, r->text.data, r->text.length));
        }
    stk__ns_rows_close(&rows);
}

/* "GPU 0"; "GPU 0 of 1234" where several processes use it, since each has streams of its own. */
uint32_t stk__ns_device(ns_reader *r, int64_t global_pid, int64_t device)
{
    const uint64_t owner = stk__ns_pid_key(global_pid);
    uint32_t process = stk__ns_get(r, NS_KEY_DEVICE, owner, (uint64_t)device);
    if (process != STK__NONE)
        return process;
    const uint32_t known = stk__ns_get(r, NS_KEY_GPU, owner & 0xffffff, (uint64_t)device);
    const int64_t gpu = known == STK__NONE ? device : (int64_t)known;
    char id[64];
    snprintf(id, sizeof id, "GPU %lld", (long long)gpu);
    if (!stk__ns_put(r, NS_KEY_DEVICE, UINT64_MAX, (uint64_t)gpu, 0))
        snprintf(id, sizeof id, "GPU %lld of %llu", (long long)gpu, (unsigned long long)(owner & 0xffffff));
    process = stk__builder_process(r->b, 0, stk__builder_str(r->b, id));
    const uint32_t name = stk__ns_get(r, NS_KEY_GPU_NAME, (uint64_t)gpu, 0);
    if (name != STK__NONE)
        stk__builder_process_at(r->b, process)->name = name;
    stk__ns_put(r, NS_KEY_DEVICE, owner, (uint64_t)device, process);
    return process;
}

/*
 * Streams are called as Kineto calls them. Two contexts of a process number theirs alike: the second one's get ids past 32 bits. Page
 * migrations of unified memory are on no stream.
 */
uint32_t stk__ns_stream_track(ns_reader *r, int64_t global_pid, int64_t device, int64_t context, int64_t stream)
{
    const uint32_t process = stk__ns_device(r, global_pid, device);
    const uint64_t place = (uint64_t)context << 32 ^ (uint64_t)stream;
    uint32_t track = stk__ns_get(r, NS_KEY_STREAM, process, place);
    if (track != STK__NONE)
        return track;
    const bool none = stream == NO_STREAM || stream == UINT32_MAX;
    const bool first = stk__ns_get(r, NS_KEY_TID, process, (uint64_t)stream) == STK__NONE;
    char name[64];
    if (none)
        snprintf(name, sizeof name, "no stream");
    else if (first)
        snprintf(name, sizeof name, "stream %lld", (long long)stream);
    else
        snprintf(name, sizeof name, "stream %lld (context %lld)", (long long)stream, (long long)context);
    if (first)
        stk__ns_put(r, NS_KEY_TID, process, (uint64_t)stream, 0);
    const uint32_t thread = stk__builder_thread(r->b, process, first ? stream : (int64_t)place, 0);
    stk__builder_thread_at(r->b, thread)->name = stk__builder_str(r->b, name);
    track = stk__builder_thread_track(r->b, thread);
    stk__ns_put(r, NS_KEY_STREAM, process, place, track);
    return track;
}

/* ---- names ---- */

static void name_process(ns_reader *r, int64_t global_pid, stk__string name)
{
    const uint32_t process = stk__ns_get(r, NS_KEY_PROCESS, stk__ns_pid_key(global_pid), 0);
    if (process != STK__NONE && name)
        stk__builder_process_at(r->b, process)->name = name;
}

/* Of the machine's processes and threads, those that have events. Exports before 2022 have no table of processes. */
void stk__ns_read_names(ns_reader *r)
{
    static const char *const threads[] = {"globalTid", "nameId", NULL};
    static const char *const processes[] = {"globalPid", "name", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "ThreadNames", threads))
        while (stk__ns_rows_next(&rows)) {
            const int64_t tid = stk__ns_int(&rows, 0, 0);
            const uint32_t track = stk__ns_get(r, NS_KEY_THREAD, (uint64_t)tid, 0);
            const bool main_thread = (tid & 0xffffff) == (int64_t)(stk__ns_pid_key(tid) & 0xffffff);
            if (track == STK__NONE && !main_thread)
                continue;
            const stk__string name = stk__ns_name(&rows, 1);
            if (track != STK__NONE && name)
                stk__builder_thread_at(r->b, stk__builder_track_at(r->b, track)->thread)->name = name;
            if (main_thread)
                name_process(r, tid, name);
        }
    stk__ns_rows_close(&rows);
    if (stk__ns_rows_open(&rows, r, "PROCESSES", processes))
        while (stk__ns_rows_next(&rows))
            name_process(r, stk__ns_int(&rows, 0, 0), stk__ns_text(&rows, 1));
    stk__ns_rows_close(&rows);
}

/* ---- launches ---- */

static stk__key launch_key(const void *table, uint32_t row)
{
    const ns_launch *l = (const ns_launch *)table + row;
    return (stk__key){{l->process, (uint64_t)l->correlation}};
}

uint32_t stk__ns_launched(ns_reader *r, uint64_t process, int64_t correlation)
{
    uint32_t row;
    bool is_new;
    const stk__key key = {{process, (uint64_t)correlation}};
    if (r->launch_count >= UINT32_MAX - 1 ||
        !stk__grow((void **)&r->launches, &r->launch_capacity, r->launch_count + 1, sizeof *r->launches) ||
        !stk__rowmap_place(&r->launch_map, key, launch_key, r->launches, (uint32_t)r->launch_count, &row, &is_new)) {
        stk__ns_nomem(r, r->launch_count * sizeof *r->launches);
        return 0;
    }
    if (is_new)
        r->launches[r->launch_count++] = (ns_launch){process, correlation, 0};
    return r->launches[row].count++;
}

uint32_t stk__ns_launch_count(const ns_reader *r, uint64_t process, int64_t correlation)
{
    const stk__key key = {{process, (uint64_t)correlation}};
    const uint32_t row = stk__rowmap_find(&r->launch_map, key, launch_key, r->launches);
    return row == UINT32_MAX ? 0 : r->launches[row].count;
}

void stk__ns_flow(ns_reader *r, uint32_t track, int64_t ts, unsigned phase, uint64_t process, int64_t correlation,
                  uint32_t nth)
{
    char id[80];
    int size = snprintf(id, sizeof id, "%llu:%lld", (unsigned long long)(process & 0xffffff), (long long)correlation);
    if (nth)
        size += snprintf(id + size, sizeof id - (size_t)size, ".%u", nth);
    stk__builder_flow(r->b, track, ts, phase, r->words.flow, r->words.flow,
                      stk__builder_string(r->b, id, (size_t)size));
}
