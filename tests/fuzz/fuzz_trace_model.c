/* Fuzzes the builder: calls in any order with any numbers give a sound trace, and a changed one is seen or harmless. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/builder.h"
#include "trace/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct bytes {
    const uint8_t *p, *end;
} bytes;

static uint64_t take(bytes *b, size_t size)
{
    uint64_t x = 0;
    for (size_t i = 0; i < size && b->p < b->end; i++)
        x = x << 8 | *b->p++;
    return x;
}

/* Small times most often, so that slices meet. */
static int64_t take_time(bytes *b)
{
    const unsigned kind = (unsigned)take(b, 1);
    return kind < 200 ? (int64_t)(kind & 63) * 500 : (int64_t)take(b, 8);
}

static stk__string take_string(stk__builder *b, bytes *in)
{
    const char name[2] = {(char)('a' + take(in, 1) % 8), 0};
    return stk__builder_str(b, name);
}

static uint32_t take_track(stk__builder *b, bytes *in)
{
    const unsigned kind = (unsigned)take(in, 1);
    const uint32_t process = stk__builder_process(b, kind & 1, 0);
    switch (kind >> 1 & 7) {
    case 0:
        return stk__builder_process_track(b, process);
    case 1:
        return stk__builder_global_track(b);
    case 2:
        return stk__builder_async_track(b, process, 0, take_string(b, in), 0);
    case 3:
        return stk__builder_counter_track(b, process, STK__NONE, take_string(b, in));
    case 4:
        return (uint32_t)take(in, 4);
    default:
        return stk__builder_thread_track(b, stk__builder_thread(b, process, kind >> 4, 0));
    }
}

static void one_call(stk__builder *b, bytes *in)
{
    const unsigned kind = (unsigned)take(in, 1);
    const uint32_t track = take_track(b, in);
    const stk__string name = take_string(b, in);
    switch (kind % 12) {
    case 0:
    case 1:
    case 2:
        stk__builder_slice(b, track, take_time(in), take_time(in), name, 0, 1);
        break;
    case 3:
    case 4:
        stk__builder_begin(b, track, take_time(in), name, name);
        break;
    case 5:
        stk__builder_end(b, track, take_time(in), kind & 64 ? name : 0);
        break;
    case 6:
        stk__builder_instant(b, track, take_time(in), name, 0);
        break;
    case 7:
        stk__builder_counter(b, track, take_time(in), (double)kind);
        break;
    case 8:
        stk__builder_flow(b, track, take_time(in), kind >> 4 & 7, 0, 0, name);
        break;
    case 9:
        stk__builder_arg_int(b, name, kind);
        stk__builder_arg_json(b, take_string(b, in), name);
        break;
    case 10: {
        const stk__trace_frame frame = {.name = name};
        const uint32_t site = stk__builder_callsite(b, (uint32_t)take(in, 1) - 1, stk__builder_frame(b, &frame));
        stk__builder_sample(b, track, kind & 64 ? STK__NO_TIME : take_time(in), site, take_time(in), 0);
        break;
    }
    default:
        if (kind & 128)
            stk__builder_start_file(b, "f", "chrome");
        stk__builder_file(b)->resolution_ns = kind & 64 ? 1000 : 0;
    }
}

/* One number changed: is_sound must see what would lead out of the tables. */
static void damage(stk__trace *t, bytes *in)
{
    const int column = (int)(take(in, 1) % STK__STORE_COLUMNS);
    const size_t bytes_in = stk__column_rows(t, column) * stk__column_infos[column].item_bytes;
    if (!bytes_in || column >= STK__STRING_OFFSETS)
        return;
    uint8_t *data = *stk__column_pointer(t, column);
    data[take(in, 2) % bytes_in] ^= (uint8_t)(1 + take(in, 1) % 255);
    if (!stk__trace_is_sound(t))
        return;
    uint64_t sum = 0; /* every number that is an index is used as one */
    for (size_t i = 0; i < t->slices.count; i++) {
        const uint32_t parent = t->slices.parent[i];
        sum += t->string_offset[t->slices.name[i]] + t->tracks[t->slices.track[i]].kind +
               (parent == STK__NONE ? 0 : t->slices.depth[parent]) + t->args.key[t->slices.args[i]];
    }
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.callsite[i] != STK__NONE)
            sum += t->frames[t->callsites[t->samples.callsite[i]].frame].name;
    }
    if (sum == UINT64_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes in = {data, data + size};
    stk__builder *b;
    const stk__trace_options options = {.memory_bytes = size && data[0] & 1 ? 4096 : 0, .temp_dir = "/tmp"};
    if (stk__builder_new(&options, &b, NULL) != STK_OK)
        return 0;
    stk__builder_start_file(b, "f", "chrome");
    while (in.p < in.end)
        one_call(b, &in);
    stk__trace *t;
    if (stk__builder_finish(b, &t, NULL) != STK_OK)
        return 0;
    if (!stk__trace_is_sound(t))
        abort();
    in = (bytes){data, data + size};
    damage(t, &in);
    stk__trace_free(t);
    return 0;
}
