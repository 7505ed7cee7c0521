/* What slices mean: XProf's rules for names on host and device, and those of the other frameworks. */
#include "analyze/classify.h"

#include <string.h>

#include "analyze/input_names.h"
#include "analyze/python_frames.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- text ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool starts(const char *s, size_t size, const char *prefix)
{
    const size_t n = strlen(prefix);
    return size >= n && memcmp(s, prefix, n) == 0;
}

/* `prefix` is in small letters. */
static bool starts_any_case(const char *s, size_t size, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (size < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (lower(s[i]) != prefix[i])
            return false;
    return true;
}

static bool ends(const char *s, size_t size, const char *suffix)
{
    const size_t n = strlen(suffix);
    return size >= n && memcmp(s + size - n, suffix, n) == 0;
}

static bool is_one_of(const char *s, size_t size, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == size && memcmp(s, *words, size) == 0)
            return true;
    return false;
}

/* Small letters without blanks and signs, so that "Memcpy HtoD" and "MEMCPYHtoD" are one. Returns the length. */
static size_t squeeze(const char *s, size_t size, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < size && n + 1 < room; i++)
        if ((lower(s[i]) >= 'a' && lower(s[i]) <= 'z') || (s[i] >= '0' && s[i] <= '9'))
            out[n++] = lower(s[i]);
    out[n] = 0;
    return n;
}

/* ---- waits for input ---- */

static bool is_dataloader(const char *s, size_t size)
{
    if (starts(s, size, "enumerate(DataLoader)#") || starts(s, size, "enumerate(DataPipe)#"))
        return true;
    /*
     * Python functions of PyTorch's and of TensorFlow's and JAX' tracers: "torch/utils/data/dataloader.py(630):
     * __next__"
     */
    if (ends(s, size, "__next__"))
        return stk__contains(s, size, "DataLoaderIter") || stk__contains(s, size, "dataloader.py");
    return ends(s, size, ".train_dataloader_next") || ends(s, size, "get_train_batch");
}

static size_t count_scopes(const char *s, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < size; i++)
        if (s[i] == ':' && s[i + 1] == ':') {
            n++;
            i++;
        }
    return n;
}

stk__wait_kind stk__wait_kind_of(const char *name, size_t size)
{
    /* Timelines of TensorFlow 1 write the node before the op: "input/IteratorGetNext:IteratorGetNext". */
    size_t op = size;
    while (op && name[op - 1] != ':')
        op--;
    if (starts_any_case(name, size, "iteratorgetnext") || starts_any_case(name + op, size - op, "iteratorgetnext"))
        return STK__WAIT_GET_NEXT;
    if ((starts(name, size, "Iterator::") && count_scopes(name, size) == 1) ||
        starts(name, size, "MultiDeviceIteratorGetNext"))
        return STK__WAIT_ITERATOR;
    if (size == strlen("wait for batch") && starts(name, size, "wait for batch"))
        return STK__WAIT_RECORDER;
    if (is_dataloader(name, size))
        return STK__WAIT_DATALOADER;
    stk__python_frame frame; /* functions are judged by what they call as well: diagnose_host.c */
    const bool numbered = size && name[size - 1] >= '0' && name[size - 1] <= '9'; /* "batch 7" counts steps */
    return stk__name_says_of(name, size) == STK__SAYS_INPUT && !numbered && !stk__python_frame_parse(name, size, &frame)
               ? STK__WAIT_HINT
               : STK__WAIT_NONE;
}

unsigned stk__waits_that_count(unsigned seen)
{
    const unsigned certain = 1u << STK__WAIT_DATALOADER | 1u << STK__WAIT_RECORDER | 1u << STK__WAIT_GET_NEXT;
    if (seen & 1u << STK__WAIT_TOLD)
        return 1u << STK__WAIT_TOLD;
    /* XProf counts the op, not the iterators: those also run ahead of it, on threads that nobody waits for. */
    if (seen & 1u << STK__WAIT_GET_NEXT)
        return certain;
    if (seen & (certain | 1u << STK__WAIT_ITERATOR))
        return certain | 1u << STK__WAIT_ITERATOR;
    return certain | 1u << STK__WAIT_ITERATOR | 1u << STK__WAIT_HINT;
}

/* ---- names ---- */

static stk__event_type memcpy_type(const char *name, size_t size)
{
    static const struct {
        const char *prefix;
        stk__event_type type;
    } kinds[] = {
        {"memcpyhtod", STK__HOST_TO_DEVICE},
        {"memcpyh2d", STK__HOST_TO_DEVICE},
        {"copyhosttodevice", STK__HOST_TO_DEVICE},
        {"memcpydtoh", STK__DEVICE_TO_HOST},
        {"memcpyd2h", STK__DEVICE_TO_HOST},
        {"copydevicetohost", STK__DEVICE_TO_HOST},
        {"memcpydtod", STK__DEVICE_TO_DEVICE},
        {"memcpyd2d", STK__DEVICE_TO_DEVICE},
        {"copydevicetodevice", STK__DEVICE_TO_DEVICE},
        {"memcpyptop", STK__DEVICE_TO_DEVICE},
        {"memcpyp2p", STK__DEVICE_TO_DEVICE},
        {"memcpyhtoh", STK__HOST_TO_HOST},
        {"memcpyh2h", STK__HOST_TO_HOST},
    };
    if (size == 0 || (lower(name[0]) != 'm' && lower(name[0]) != 'c'))
        return STK__NO_EVENT;
    char word[24];
    const size_t n = squeeze(name, STK_MIN(size, 40), word, sizeof word);
    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        if (starts(word, n, kinds[i].prefix))
            return kinds[i].type;
    return STK__NO_EVENT;
}

static stk__event_type device_type(const char *name, size_t size)
{
    static const char *const collectives[] = {
        "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast", NULL};
    const stk__event_type copied = memcpy_type(name, size);
    if (copied != STK__NO_EVENT)
        return copied;
    if (starts_any_case(name, size, "nccl") || starts_any_case(name, size, "rccl"))
        return STK__DEVICE_COLLECTIVES;
    /* XLA's ops carry a '%' in some writers. */
    const char *op = size && name[0] == '%' ? name + 1 : name;
    const size_t op_size = size - (size_t)(op - name);
    for (const char *const *c = collectives; *c; c++)
        if (starts(op, op_size, *c))
            return STK__DEVICE_COLLECTIVES;
    if (starts(op, op_size, "infeed"))
        return STK__DEVICE_WAIT_HOST;
    if (starts(op, op_size, "outfeed"))
        return STK__DEVICE_TO_HOST;
    return stk__contains(name, size, "half") || stk__contains(name, size, "fp16") ? STK__DEVICE_COMPUTE_16
                                                                                  : STK__DEVICE_COMPUTE_32;
}

/*
 * XProf's IsExplicitHostStepMarker and IsRealCpuCompute; Python frames and markers of others stand around the real
 * work as well.
 */
static bool is_container(const char *s, size_t size)
{
    if (!size)
        return true;
    if (s[0] == '$' || starts(s, size, "ProfilerStep#") || starts(s, size, "PyTorch Profiler"))
        return true;
    if (starts(s, size, "EagerExecute") || starts(s, size, "EagerLocalExecute") ||
        starts(s, size, "EagerKernelExecute") || starts(s, size, "FunctionRun"))
        return true;
    return (starts(s, size, "train") || starts(s, size, "test") || starts(s, size, "TraceContext")) &&
           !memchr(s, '/', size);
}

static stk__event_type host_type(const char *name, size_t size)
{
    const stk__event_type copied = memcpy_type(name, size);
    if (copied == STK__HOST_TO_DEVICE || copied == STK__HOST_TO_HOST)
        return copied;
    if (stk__contains(name, size, "InfeedEnqueue") || starts(name, size, "TransferToInfeed"))
        return STK__HOST_TO_DEVICE;
    if (starts_any_case(name, size, "executorstate::process"))
        return STK__HOST_PREPARE;
    return is_container(name, size) ? STK__NO_EVENT : STK__HOST_COMPUTE;
}

bool stk__is_model_work(const char *s, size_t size)
{
    static const char *const prefixes[] = {"autograd::",
                                           "Optimizer.",
                                           "nn.Module: ",
                                           "PjitFunction(",
                                           "DistributedDataParallel.forward",
                                           "FullyShardedDataParallel",
                                           "Torch-Compiled Region",
                                           "CompiledFunction",
                                           "XlaLaunch",
                                           "TfrtCpuExecutable::Execute",
                                           "EagerLocalExecute: __inference_",
                                           "EagerLocalExecute: __forward_"};
    for (size_t i = 0; i < STK_COUNT(prefixes); i++)
        if (starts(s, size, prefixes[i]))
            return true;
    return (stk__contains(s, size, "PjRt") && stk__contains(s, size, "Execut")) ||
           stk__contains(s, size, "run_backward");
}

bool stk__is_launch(const char *s, size_t size)
{
    static const char *const prefixes[] = {"cudaLaunch", "cuLaunch",     "cudaGraphLaunch", "cuGraphLaunch",
                                           "hipLaunch",  "hipExtLaunch", "hipModuleLaunch", "hipGraphLaunch"};
    for (size_t i = 0; i < STK_COUNT(prefixes); i++)
        if (starts(s, size, prefixes[i]))
            return true;
    return false;
}

/* ---- categories ---- */

enum {
    CATEGORY_ANY,
    CATEGORY_DEVICE,    /* Kineto: kernels, copies and fills of a GPU */
    CATEGORY_RUNTIME,   /* calls into CUDA and its like: launches */
    CATEGORY_CONTAINER, /* Python functions, annotations: they stand around the work */
    CATEGORY_IGNORED,
    CATEGORY_OP, /* of our recorder */
    CATEGORY_WAIT,
    CATEGORY_WORK,
    CATEGORY_STEP,
};

static unsigned category_of(const char *s, size_t size)
{
    static const char *const device[] = {
        "kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset", "concurrent_kernel", "gpu_op", NULL};
    static const char *const container[] = {"python_function", "user_annotation", NULL};
    /* os_runtime: calls of the C library, most of them waits, also on threads that nobody waits for */
    static const char *const ignored[] = {
        "gpu_user_annotation", "Trace",   "overhead",   "cuda_sync", "cuda_profiler_range",
        "collective_comm",     "instant", "os_runtime", NULL};
    if (is_one_of(s, size, device))
        return CATEGORY_DEVICE;
    if (is_one_of(s, size, ignored))
        return CATEGORY_IGNORED;
    if (ends(s, size, "_runtime") || ends(s, size, "_driver") ||
        is_one_of(s, size, (const char *const[]){"Runtime", NULL}))
        return CATEGORY_RUNTIME;
    if (is_one_of(s, size, container))
        return CATEGORY_CONTAINER;
    if (size == 2 && memcmp(s, "op", 2) == 0)
        return CATEGORY_OP;
    if (size != 4)
        return CATEGORY_ANY;
    return memcmp(s, "wait", 4) == 0   ? CATEGORY_WAIT
           : memcmp(s, "work", 4) == 0 ? CATEGORY_WORK
           : memcmp(s, "step", 4) == 0 ? CATEGORY_STEP
                                       : CATEGORY_ANY;
}

/* ---- tracks ---- */

const char *stk__track_own_name(const stk__trace *t, uint32_t track, size_t *out_size)
{
    const stk__trace_track *k = &t->tracks[stk__track_root(t, track)];
    stk__string name = k->name;
    if (!name && k->thread < t->thread_count)
        name = t->threads[k->thread].name ? t->threads[k->thread].name : t->threads[k->thread].tid_text;
    return stk__trace_text(t, name, out_size);
}

uint32_t stk__track_process(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *k = &t->tracks[stk__track_root(t, track)];
    if (k->process < t->process_count)
        return k->process;
    return k->thread < t->thread_count ? t->threads[k->thread].process : STK__NONE;
}

static const char *process_text(const stk__trace *t, uint32_t process, size_t *out_size)
{
    *out_size = 0;
    if (process >= t->process_count)
        return "";
    const stk__trace_process *p = &t->processes[process];
    return stk__trace_text(t, p->name ? p->name : p->pid_text, out_size);
}

bool stk__process_is_plane(const stk__trace *t, uint32_t process)
{
    size_t size;
    const char *name = process_text(t, process, &size);
    return size && name[0] == '/';
}

/*
 * "/device:GPU:0", "/job:a/replica:0/task:0/device:GPU:0 Compute", "/device:TPU:0 SparseCore 0"; not "/device:CPU:0".
 */
static bool names_device(const char *s, size_t size)
{
    return (stk__contains(s, size, "device:") && !stk__contains(s, size, "device:CPU") &&
            !stk__contains(s, size, "device:XLA_CPU")) ||
           starts(s, size, "/gpu:");
}

static bool is_derived_row(const char *s, size_t size)
{
    static const char *const rows[] = {"Steps",
                                       "XLA Modules",
                                       "TensorFlow Name Scope",
                                       "Framework Name Scope",
                                       "TensorFlow Ops",
                                       "Framework Ops",
                                       "XLA TraceMe",
                                       "Source code",
                                       "Source Code",
                                       "Launch Stats",
                                       NULL};
    /* The trace viewer's files have "Steps #3(...)"-like suffixes in places, but never longer first words. */
    for (const char *const *r = rows; *r; r++)
        if (starts(s, size, *r))
            return true;
    return false;
}

static bool is_stream(const char *s, size_t size)
{
    return size > 7 && starts_any_case(s, size, "stream ") && (s[7] == '#' || (s[7] >= '0' && s[7] <= '9'));
}

/*
 * Our recorder's tracks are known by the categories of their first slices, since anybody may call a thread "worker 0".
 */
static stk__track_role recorder_role(const stk__trace *t, const uint8_t *category, uint32_t track)
{
    const stk__trace_track *k = &t->tracks[track];
    size_t size;
    const char *name = stk__track_own_name(t, track, &size);
    const bool steps = starts(name, size, "steps"), worker = starts(name, size, "worker ");
    if (!steps && !worker)
        return STK__ROLE_HOST;
    const size_t end = (size_t)k->first_slice + STK_MIN(k->slice_count, 64u);
    for (size_t i = k->first_slice; i < end && i < t->slices.count; i++) {
        const unsigned c = category[t->slices.category[i]];
        if (steps && c == CATEGORY_STEP)
            return STK__ROLE_STEPS;
        if (worker && (c == CATEGORY_WORK || c == CATEGORY_OP))
            return STK__ROLE_WORKER;
    }
    return STK__ROLE_HOST;
}

static stk__track_role role_of(const stk__trace *t, const uint8_t *category, const bool *has_streams, uint32_t track)
{
    const stk__trace_track *k = &t->tracks[stk__track_root(t, track)];
    size_t size, process_size;
    const char *name = stk__track_own_name(t, track, &size);
    const uint32_t process = stk__track_process(t, track);
    const char *process_name = process_text(t, process, &process_size);
    if (k->kind == STK__TRACK_COUNTER)
        return STK__ROLE_OTHER;
    if (process < t->process_count) {
        const char *id = stk__trace_str(t, t->processes[process].pid_text);
        if (strcmp(id, "Spans") == 0 || strcmp(id, "Traces") == 0)
            return STK__ROLE_OTHER; /* Kineto's notes on its own recording */
    }
    if (names_device(process_name, process_size)) {
        /*
         * TensorFlow 1: "...device:GPU:0 Compute" has the ops as the host sees them, ".../stream:all Compute" the
         * kernels.
         */
        if (k->file < t->file_count && has_streams[k->file] && !stk__contains(process_name, process_size, "stream:"))
            return STK__ROLE_HOST;
        return is_derived_row(name, size) ? STK__ROLE_DERIVED : STK__ROLE_DEVICE;
    }
    if (is_stream(name, size))
        return STK__ROLE_DEVICE;
    return recorder_role(t, category, track);
}

static uint8_t *roles_new(const stk__trace *t, const uint8_t *category)
{
    uint8_t *roles = stk__calloc(t->track_count + 1, 1);
    bool *has_streams = stk__calloc(t->file_count + 1, sizeof *has_streams);
    if (roles && has_streams) {
        for (size_t i = 0; i < t->process_count; i++) {
            size_t size;
            const char *name = process_text(t, (uint32_t)i, &size);
            if (t->processes[i].file < t->file_count && stk__contains(name, size, "/stream:"))
                has_streams[t->processes[i].file] = true;
        }
        for (size_t i = 0; i < t->track_count; i++)
            roles[i] = (uint8_t)role_of(t, category, has_streams, (uint32_t)i);
    } else {
        stk__free(roles);
        roles = NULL;
    }
    stk__free(has_streams);
    return roles;
}

static uint8_t *categories_new(const stk__trace *t)
{
    uint8_t *category = stk__calloc((size_t)t->string_count + 1, 1);
    if (!category)
        return NULL;
    for (uint32_t s = 0; s < t->string_count; s++) {
        size_t size;
        const char *text = stk__trace_text(t, s, &size);
        if (size <= 32)
            category[s] = (uint8_t)category_of(text, size);
    }
    return category;
}

uint8_t *stk__track_roles(const stk__trace *t)
{
    uint8_t *category = categories_new(t);
    uint8_t *roles = category ? roles_new(t, category) : NULL;
    stk__free(category);
    return roles;
}

/* ---- the classifier ---- */

static bool find_device(const stk__classifier *c)
{
    const stk__trace *t = c->trace;
    for (size_t i = 0; i < t->track_count; i++)
        if (c->roles[i] == STK__ROLE_DEVICE && t->tracks[i].slice_count)
            return true;
    bool any = false;
    for (uint32_t s = 0; s < t->string_count && !any; s++)
        any = c->category[s] == CATEGORY_DEVICE;
    for (size_t i = 0; any && i < t->slices.count; i++)
        if (c->category[t->slices.category[i]] == CATEGORY_DEVICE)
            return true;
    return false;
}

/* ---- hints that hold the training itself ---- */

enum { HINT_CHECKS = 16, HINT_SLICES = 4096 };

static bool is_model_slice(const stk__trace *t, size_t slice, bool launches)
{
    size_t size;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size);
    return stk__is_model_work(name, size) || (launches && stk__is_launch(name, size));
}

/* A fetch may launch what prepares the data on the device; "batch" or "inputs" that launch are the training. */
static bool names_a_fetch(const stk__trace *t, size_t slice)
{
    static const char *const words[] = {"data", "Data", "fetch", "Fetch", "load", "Load", NULL};
    size_t size;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size);
    for (const char *const *w = words; *w; w++)
        if (stk__contains(name, size, *w))
            return true;
    return false;
}

/* Whether a slice is part of work on the model, or holds such work on any lane of its track. */
static bool is_about_model(const stk__trace *t, size_t slice)
{
    const bool launches = !names_a_fetch(t, slice);
    uint32_t up = t->slices.parent[slice];
    for (int climbed = 0; up != STK__NONE && climbed < 64; climbed++, up = t->slices.parent[up])
        if (is_model_slice(t, up, false))
            return true;
    const uint32_t root = stk__track_root(t, t->slices.track[slice]);
    const int64_t from = t->slices.ts[slice], to = from + t->slices.dur[slice];
    for (size_t k = 0; k < t->track_count; k++) {
        if (stk__track_root(t, (uint32_t)k) != root)
            continue;
        const stk__trace_track *track = &t->tracks[k];
        size_t i = stk__first_from(t, track, from);
        const size_t end = STK_MIN((size_t)track->first_slice + track->slice_count, i + HINT_SLICES);
        for (; i < end && t->slices.ts[i] < to; i++)
            if (is_model_slice(t, i, launches))
                return true;
    }
    return false;
}

/* A span called "batch" may be a whole step, and "inputs" a part of a call: names that are mostly about work on the model are no waits. */
static bool drop_false_hints(stk__classifier *c)
{
    const stk__trace *t = c->trace;
    if (!memchr(c->wait, STK__WAIT_HINT, t->string_count))
        return true;
    uint8_t *seen = stk__calloc((size_t)t->string_count + 1, 2);
    if (!seen)
        return false;
    uint8_t *works = seen + t->string_count + 1;
    for (size_t i = 0; i < t->slices.count; i++) {
        const stk__string name = t->slices.name[i];
        stk__trim_at(t, i);
        if (c->wait[name] != STK__WAIT_HINT || seen[name] == HINT_CHECKS ||
            c->roles[t->slices.track[i]] != STK__ROLE_HOST)
            continue;
        seen[name]++;
        works[name] += is_about_model(t, i);
    }
    for (uint32_t s = 0; s < t->string_count; s++)
        if (works[s] && 2 * works[s] >= seen[s])
            c->wait[s] = STK__WAIT_NONE;
    stk__free(seen);
    return true;
}

/* What the user says goes before what names say. */
static void take_told(stk__classifier *c, const stk__told *told)
{
    for (uint32_t s = 0; told && told->wait_count && s < c->trace->string_count; s++)
        for (size_t i = 0; i < told->wait_count; i++)
            if (stk__like(told->waits[i], stk__trace_str(c->trace, s)))
                c->wait[s] = STK__WAIT_TOLD;
}

stk_status stk__classifier_init(stk__classifier *c, const stk__trace *t, const stk__told *told, stk_error *err)
{
    const size_t count = (size_t)t->string_count + 1;
    *c = (stk__classifier){.trace = t};
    c->host = stk__alloc(count);
    c->device = stk__alloc(count);
    c->wait = stk__alloc(count);
    c->category = categories_new(t);
    c->roles = c->category ? roles_new(t, c->category) : NULL;
    if (!c->host || !c->device || !c->wait || !c->roles) {
        stk__classifier_clear(c);
        return stk__nomem(4 * count + t->track_count, err);
    }
    for (uint32_t s = 0; s < t->string_count; s++) {
        size_t size;
        const char *text = stk__trace_text(t, s, &size);
        c->host[s] = (uint8_t)host_type(text, size);
        c->device[s] = (uint8_t)device_type(text, size);
        c->wait[s] = (uint8_t)stk__wait_kind_of(text, size);
    }
    c->correlation = stk__trace_find(t, "correlation_id", strlen("correlation_id"));
    c->input_stage = stk__trace_find(t, "input_pipeline_stage_name", strlen("input_pipeline_stage_name"));
    c->tf_data = stk__tf_data_of(t);
    c->has_device = find_device(c);
    if (!drop_false_hints(c)) {
        stk__classifier_clear(c);
        return stk__nomem(2 * count, err);
    }
    take_told(c, told);
    return STK_OK;
}

void stk__classifier_clear(stk__classifier *c)
{
    stk__free(c->host);
    stk__free(c->device);
    stk__free(c->wait);
    stk__free(c->category);
    stk__free(c->roles);
    *c = (stk__classifier){0};
}

static bool has_arg(const stk__trace *t, size_t slice, stk__string key)
{
    size_t row = t->slices.args[slice];
    if (key == STK__NONE || !row)
        return false;
    for (; row < t->args.count; row++) {
        if (t->args.key[row] == key)
            return true;
        if (t->args.type[row] & STK__ARG_LAST)
            return false;
    }
    return false;
}

stk__wait_kind stk__slice_wait(const stk__classifier *c, size_t slice)
{
    const stk__wait_kind kind = (stk__wait_kind)c->wait[c->trace->slices.name[slice]];
    size_t size;
    if (kind != STK__WAIT_ITERATOR)
        return kind;
    const char *name = stk__trace_text(c->trace, c->trace->slices.name[slice], &size);
    return !stk__is_iterator(name, size) || stk__iterator_is_wait(&c->tf_data, slice) ? kind : STK__WAIT_NONE;
}

static stk__event_type classify_host(const stk__classifier *c, size_t slice, unsigned waits)
{
    const stk__slices *s = &c->trace->slices;
    const stk__string name = s->name[slice];
    const unsigned category = c->category[s->category[slice]];
    const stk__event_type type = (stk__event_type)c->host[name];
    if (type == STK__HOST_TO_DEVICE || type == STK__HOST_TO_HOST)
        return type;
    if (c->has_device && (type == STK__HOST_PREPARE || category == CATEGORY_RUNTIME ||
                          (type != STK__NO_EVENT && has_arg(c->trace, slice, c->correlation))))
        return STK__HOST_PREPARE;
    const stk__wait_kind wait = stk__slice_wait(c, slice);
    if ((waits >> wait & 1 && wait != STK__WAIT_NONE) || has_arg(c->trace, slice, c->input_stage))
        return STK__HOST_WAIT_INPUT;
    if (category == CATEGORY_CONTAINER || category == CATEGORY_WAIT)
        return STK__NO_EVENT;
    return type == STK__HOST_PREPARE ? STK__HOST_COMPUTE : type;
}

stk__event_type stk__classify(const stk__classifier *c, size_t slice, unsigned waits)
{
    const stk__slices *s = &c->trace->slices;
    if (s->flags[slice] & STK__SLICE_INSTANT)
        return STK__NO_EVENT;
    const unsigned category = c->category[s->category[slice]];
    if (category == CATEGORY_DEVICE)
        return (stk__event_type)c->device[s->name[slice]];
    if (category == CATEGORY_IGNORED)
        return STK__NO_EVENT;
    switch (c->roles[s->track[slice]]) {
    case STK__ROLE_DEVICE:
        return category == CATEGORY_CONTAINER ? STK__NO_EVENT : (stk__event_type)c->device[s->name[slice]];
    case STK__ROLE_HOST:
        return classify_host(c, slice, waits);
    default:
        return STK__NO_EVENT;
    }
}

bool stk__is_device_work(const stk__classifier *c, size_t slice)
{
    const stk__slices *s = &c->trace->slices;
    const unsigned category = c->category[s->category[slice]];
    if (s->flags[slice] & STK__SLICE_INSTANT)
        return false;
    return category == CATEGORY_DEVICE || (c->roles[s->track[slice]] == STK__ROLE_DEVICE &&
                                           category != CATEGORY_IGNORED && category != CATEGORY_CONTAINER);
}

bool stk__is_ignored(const stk__classifier *c, size_t slice)
{
    return c->category[c->trace->slices.category[slice]] == CATEGORY_IGNORED;
}

bool stk__is_container(const stk__classifier *c, size_t slice)
{
    return c->category[c->trace->slices.category[slice]] == CATEGORY_CONTAINER;
}

bool stk__is_runtime(const stk__classifier *c, size_t slice)
{
    return c->category[c->trace->slices.category[slice]] == CATEGORY_RUNTIME;
}

bool stk__is_op(const stk__classifier *c, size_t slice)
{
    return c->category[c->trace->slices.category[slice]] == CATEGORY_OP;
}

bool stk__is_wait(const stk__classifier *c, size_t slice)
{
    return c->category[c->trace->slices.category[slice]] == CATEGORY_WAIT;
}
