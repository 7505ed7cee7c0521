/*
 * Reads what Python's cProfile and profile write: a marshalled dict {(file, line, name): (cc, nc, tt, ct, callers)}.
 *
 * cc are primitive calls, nc all of them, tt the time inside of the function, ct with what it called. cProfile gives
 * callers as {key: (nc, cc, tt, ct)}, profile as {key: nc}. Written by Python 2 or 3, by Profile.dump_stats or
 * Stats.dump_stats.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "trace/marshal.h"
#include "trace/reader.h"

#include "base/banned.h"

/* Profiles are small; what is larger is read up to here. */
enum { PSTATS_MAX = 1 << 30, FIRST_WANT = 1 << 16, PROGRESS_ENTRIES = 1 << 14, SHOWN_NAME_MAX = 4096, EMPTY_DICT = 1 };

/* A call, until all functions are known. */
typedef struct pending_call {
    uint32_t caller_frame; /* STK__NONE: its key was bad */
    stk__trace_call call;
    int64_t offset;
} pending_call;

typedef struct pstats_reader {
    stk__builder *b;
    stk__marshal m;
    stk__text name;        /* scratch */
    uint32_t *function_of; /* by frame: its function + 1; 0: none */
    size_t function_of_capacity;
    pending_call *calls;
    size_t call_count, call_capacity;
    bool nomem;
    bool stopped; /* the rest of the bytes makes no sense, or there is none */
} pstats_reader;

/* ---- values ---- */

/* The next item; notes when the bytes end. Containers are stepped over, as nothing here wants one in such a place. */
static stk__marshal_item next_item(pstats_reader *r)
{
    const stk__marshal_item item = stk__marshal_next(&r->m);
    if (item.kind != STK__MARSHAL_CUT && item.kind != STK__MARSHAL_BAD)
        return item;
    if (!r->stopped && !r->m.nomem)
        stk__builder_note(r->b, item.kind == STK__MARSHAL_CUT ? STK__REASON_TRUNCATED : STK__REASON_SYNTAX,
                          item.offset);
    r->stopped = true;
    r->nomem = r->nomem || r->m.nomem;
    return item;
}

static void skip_item(pstats_reader *r, const stk__marshal_item *item)
{
    if (r->stopped || stk__marshal_skip(&r->m, item))
        return;
    stk__builder_note(r->b, r->m.at < r->m.size ? STK__REASON_SYNTAX : STK__REASON_TRUNCATED, (int64_t)r->m.at);
    r->stopped = true;
    r->nomem = r->nomem || r->m.nomem;
}

static stk__marshal_item next_scalar(pstats_reader *r)
{
    const stk__marshal_item item = next_item(r);
    skip_item(r, &item);
    return item;
}

/* Strings that many keys share are interned once, however long they are. */
static stk__string text_of(pstats_reader *r, const stk__marshal_item *item)
{
    uint32_t *memo = stk__marshal_memo(&r->m, item);
    if (memo && *memo)
        return *memo - 1;
    const stk__string s = stk__builder_text(r->b, item->u.text, item->size, item->offset);
    if (memo)
        *memo = s + 1;
    return s;
}

static int64_t ns_of(pstats_reader *r, const stk__marshal_item *item)
{
    const double seconds = item->kind == STK__MARSHAL_INT ? (double)item->u.integer : item->u.real;
    const double ns = seconds * 1e9;
    if (ns > -9.2e18 && ns < 9.2e18)
        return llround(ns);
    stk__builder_note(r->b, STK__REASON_LONG_DURATION, item->offset);
    return isnan(ns) ? 0 : ns < 0 ? -INT64_MAX : INT64_MAX;
}

static int64_t count_of(pstats_reader *r, const stk__marshal_item *item)
{
    if (item->inexact)
        stk__builder_note(r->b, STK__REASON_NUMBER, item->offset);
    return item->u.integer;
}

static bool is_number(const stk__marshal_item *item)
{
    return item->kind == STK__MARSHAL_INT || item->kind == STK__MARSHAL_FLOAT;
}

/* ---- keys ---- */

/* Built-in functions have the file "~" and line 0; pstats shows "<built-in method x>" as "{built-in method x}". */
static stk__trace_frame frame_of(pstats_reader *r, const stk__marshal_item *file, int64_t line,
                                 const stk__marshal_item *name)
{
    const bool built_in = line == 0 && file->size == 1 && file->u.text[0] == '~';
    if (!built_in)
        return (stk__trace_frame){
            .name = text_of(r, name),
            .file = text_of(r, file),
            .line = line > 0 && line <= INT32_MAX ? (int32_t)line : 0,
        };
    const size_t size = name->size;
    if (size < 2 || size > SHOWN_NAME_MAX || name->u.text[0] != '<' || name->u.text[size - 1] != '>')
        return (stk__trace_frame){.name = text_of(r, name)};
    stk__text_reset(&r->name);
    stk__text_putc(&r->name, '{');
    stk__text_write(&r->name, name->u.text + 1, size - 2);
    stk__text_putc(&r->name, '}');
    if (r->name.failed) {
        r->nomem = true;
        return (stk__trace_frame){0};
    }
    return (stk__trace_frame){.name = stk__builder_text(r->b, r->name.data, r->name.length, name->offset)};
}

/* The three items of a key that starts with `key`; false when it is of another shape, which is stepped over. */
static bool read_new_key(pstats_reader *r, const stk__marshal_item *key, uint32_t *out_frame)
{
    if (key->size != 3) {
        skip_item(r, key);
        return false;
    }
    const stk__marshal_item file = next_scalar(r), line = next_scalar(r), name = next_scalar(r);
    if (r->stopped || file.kind != STK__MARSHAL_TEXT || line.kind != STK__MARSHAL_INT || name.kind != STK__MARSHAL_TEXT)
        return false;
    const stk__trace_frame frame = frame_of(r, &file, line.u.integer, &name);
    *out_frame = stk__builder_frame(r->b, &frame);
    return true;
}

static bool read_key(pstats_reader *r, const stk__marshal_item *key, uint32_t *out_frame)
{
    if (key->kind != STK__MARSHAL_TUPLE) {
        skip_item(r, key);
        return false;
    }
    if (key->again) {
        const uint32_t *memo = stk__marshal_memo(&r->m, key);
        if (!memo || !*memo || key->size != 3)
            return false;
        *out_frame = *memo - 1;
        return true;
    }
    if (!read_new_key(r, key, out_frame))
        return false;
    uint32_t *memo = stk__marshal_memo(&r->m, key); /* the table may have moved */
    if (memo)
        *memo = *out_frame + 1;
    return true;
}

/* ---- functions and calls ---- */

static bool remember_function(pstats_reader *r, uint32_t frame, uint32_t function)
{
    const size_t before = r->function_of_capacity;
    if (!stk__grow((void **)&r->function_of, &r->function_of_capacity, (size_t)frame + 1, sizeof *r->function_of))
        return false;
    if (r->function_of_capacity > before)
        memset(r->function_of + before, 0, (r->function_of_capacity - before) * sizeof *r->function_of);
    r->function_of[frame] = function + 1;
    return true;
}

static uint32_t find_function(const pstats_reader *r, uint32_t frame)
{
    return frame < r->function_of_capacity && r->function_of[frame] ? r->function_of[frame] - 1 : STK__NONE;
}

static void keep_call(pstats_reader *r, uint32_t caller_frame, const stk__trace_call *call, int64_t offset)
{
    if (!stk__grow((void **)&r->calls, &r->call_capacity, r->call_count + 1, sizeof *r->calls)) {
        r->nomem = true;
        return;
    }
    r->calls[r->call_count++] = (pending_call){caller_frame, *call, offset};
}

/* A tuple of figures that was read before; equal ones may be one object. */
static bool find_call(pstats_reader *r, const stk__marshal_item *value, stk__trace_call *call)
{
    const uint32_t *memo = stk__marshal_memo(&r->m, value);
    if (!memo || !*memo || *memo > r->call_count || value->size != 4)
        return false;
    *call = r->calls[*memo - 1].call;
    return true;
}

/* (nc, cc, tt, ct) of cProfile or nc of profile, as the value of a caller. It becomes row `call_count` of the calls. */
static bool read_call(pstats_reader *r, stk__trace_call *call)
{
    const stk__marshal_item value = next_item(r);
    *call = (stk__trace_call){0, 0, 0, STK__NO_NUMBER, STK__NO_NUMBER, STK__NO_NUMBER};
    if (value.kind == STK__MARSHAL_INT) {
        call->calls = count_of(r, &value);
        return true;
    }
    if (value.kind == STK__MARSHAL_TUPLE && value.again)
        return find_call(r, &value, call);
    if (value.kind != STK__MARSHAL_TUPLE || value.size != 4) {
        skip_item(r, &value);
        return false;
    }
    const stk__marshal_item nc = next_scalar(r), cc = next_scalar(r), tt = next_scalar(r), ct = next_scalar(r);
    if (r->stopped || nc.kind != STK__MARSHAL_INT || cc.kind != STK__MARSHAL_INT || !is_number(&tt) || !is_number(&ct))
        return false;
    call->calls = count_of(r, &nc);
    call->primitive_calls = count_of(r, &cc);
    call->self_ns = ns_of(r, &tt);
    call->total_ns = ns_of(r, &ct);
    uint32_t *memo = stk__marshal_memo(&r->m, &value);
    if (memo && r->call_count < UINT32_MAX)
        *memo = (uint32_t)r->call_count + 1;
    return true;
}

/*
 * A dict with callers that comes a second time would let a small file stand for very many calls; no profiler writes
 * that.
 */
static void read_callers(pstats_reader *r, const stk__marshal_item *dict, size_t *out_first)
{
    *out_first = r->call_count;
    uint32_t *memo = stk__marshal_memo(&r->m, dict);
    if (dict->kind == STK__MARSHAL_DICT && dict->again && *memo == EMPTY_DICT)
        return;
    if (dict->kind != STK__MARSHAL_DICT || dict->again) {
        stk__builder_note(r->b, dict->again ? STK__REASON_BAD_REFERENCE : STK__REASON_BAD_VALUE, dict->offset);
        skip_item(r, dict);
        return;
    }
    while (!r->stopped && !r->nomem) {
        const stk__marshal_item key = next_item(r);
        uint32_t frame;
        stk__trace_call call;
        if (r->stopped || key.kind == STK__MARSHAL_NULL)
            break;
        memo = NULL; /* not empty */
        const bool key_good = read_key(r, &key, &frame);
        const bool value_good = !r->stopped && read_call(r, &call);
        if (value_good)
            keep_call(r, key_good ? frame : STK__NONE, &call, key.offset);
        else if (!r->stopped)
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, key.offset);
    }
    if (memo)
        *memo = EMPTY_DICT;
}

static void add_function(pstats_reader *r, uint32_t frame, const stk__marshal_item item[4], size_t first_call)
{
    const stk__trace_function function = {
        .frame = frame,
        .primitive_calls = count_of(r, &item[0]),
        .calls = count_of(r, &item[1]),
        .self_ns = ns_of(r, &item[2]),
        .total_ns = ns_of(r, &item[3]),
    };
    const uint32_t row = stk__builder_function(r->b, &function);
    if (row == STK__NONE)
        return;
    r->nomem = r->nomem || !remember_function(r, frame, row);
    for (size_t i = first_call; i < r->call_count; i++)
        r->calls[i].call.callee = row;
}

/* (cc, nc, tt, ct, callers) of the function whose key was just read. */
static bool read_function(pstats_reader *r, bool key_good, uint32_t frame)
{
    const stk__marshal_item value = next_item(r);
    stk__marshal_item item[4];
    if (value.kind != STK__MARSHAL_TUPLE || value.again || value.size != 5) {
        skip_item(r, &value);
        return false;
    }
    for (size_t i = 0; i < 4; i++)
        item[i] = next_scalar(r);
    const stk__marshal_item callers = next_item(r);
    const bool good = key_good && !r->stopped && item[0].kind == STK__MARSHAL_INT && item[1].kind == STK__MARSHAL_INT &&
                      is_number(&item[2]) && is_number(&item[3]);
    if (!good) {
        skip_item(r, &callers);
        return false;
    }
    if (find_function(r, frame) != STK__NONE) {
        stk__builder_note(r->b, STK__REASON_DUPLICATE, value.offset);
        skip_item(r, &callers);
        return true;
    }
    size_t first_call;
    read_callers(r, &callers, &first_call);
    add_function(r, frame, item, first_call); /* also when the file ends among its callers: its own figures are whole */
    return true;
}

static void add_calls(pstats_reader *r)
{
    for (size_t i = 0; i < r->call_count; i++) {
        pending_call *p = &r->calls[i];
        p->call.caller = find_function(r, p->caller_frame);
        if (p->caller_frame == STK__NONE)
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, p->offset);
        else if (p->call.caller == STK__NONE)
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, p->offset);
        else
            stk__builder_call(r->b, &p->call);
    }
}

/* ---- the file ---- */

static stk_status read_entries(pstats_reader *r, stk__input *in, stk_error *err)
{
    for (size_t entries = 0; !r->stopped && !r->nomem; entries++) {
        const stk__marshal_item key = next_item(r);
        uint32_t frame = STK__NONE;
        if (r->stopped || key.kind == STK__MARSHAL_NULL)
            break;
        stk__builder_saw(r->b, 1);
        const bool key_good = read_key(r, &key, &frame);
        if (!r->stopped && !read_function(r, key_good, frame) && !r->stopped)
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, key.offset);
        if (entries % PROGRESS_ENTRIES == 0)
            STK_TRY(stk__reader_progress(r->b, in, err));
    }
    return STK_OK;
}

static stk_status read_profile(pstats_reader *r, stk__input *in, stk_error *err)
{
    const stk__marshal_item top = stk__marshal_next(&r->m);
    if (top.kind != STK__MARSHAL_DICT)
        return stk_error_set(err, STK_CORRUPT, "found byte 0x%02x at the start, wanted the dict of a Python profile",
                             r->m.size ? r->m.data[0] : 0u);
    STK_TRY(read_entries(r, in, err));
    if (!r->nomem)
        add_calls(r);
    return r->nomem ? stk__nomem(r->call_capacity * sizeof *r->calls, err) : STK_OK;
}

static stk_status pstats_read(stk__builder *b, stk__input *in, stk_error *err)
{
    pstats_reader r = {.b = b};
    size_t size = 0;
    const uint8_t *data = NULL;
    for (size_t want = FIRST_WANT; want <= PSTATS_MAX; want *= 2) {
        data = stk__input_peek(in, want, &size);
        if (size < want)
            break;
    }
    stk__marshal_init(&r.m, data, STK_MIN(size, (size_t)PSTATS_MAX));
    const stk_status status = read_profile(&r, in, err);
    stk__input_advance(in, size);
    stk__marshal_clear(&r.m);
    stk__text_clear(&r.name);
    stk__free(r.function_of);
    stk__free(r.calls);
    return status;
}

/* A dict whose first key is a tuple of three, starting with a string. JSON has a quote or white space in its place. */
static int pstats_detect(const uint8_t *data, size_t size, bool whole)
{
    static const char texts[] = "suaAzZt";
    if (size < 2 || (data[0] & 0x7f) != '{')
        return 0;
    if (size == 2 && data[1] == '0')
        return 100; /* {}, a profile of nothing */
    size_t at;
    if ((data[1] & 0x7f) == ')' && size > 3 && data[2] == 3)
        at = 3;
    else if ((data[1] & 0x7f) == '(' && size > 6 && memcmp(data + 2, "\3\0\0\0", 4) == 0)
        at = 6;
    else
        return 0;
    const char type = (char)(data[at] & 0x7f);
    return type && memchr(texts, type, sizeof texts - 1) ? 100 : 0;
}

const stk__reader stk__reader_pstats = {
    .name = "pstats",
    .summary = "Python profiles: cProfile and profile (marshal)",
    .detect = pstats_detect,
    .read = pstats_read,
};
