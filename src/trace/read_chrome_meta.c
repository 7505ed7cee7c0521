/* Metadata events, and the facts that stand beside the events in the outer object. */
#include <inttypes.h>

#include "base/mem.h"
#include "trace/read_chrome.h"

#include "base/banned.h"

enum { FACT_DEPTH = 8, FACT_TEXT_MAX = 4096, FACT_ITEMS_MAX = 64 };

/* ---- metadata events ---- */

static const stk__chrome_value *find_arg(const stk__chrome *r, const char *key)
{
    static const stk__chrome_value none;
    const size_t size = strlen(key);
    for (size_t i = r->event.arg_count; i-- > 0;) {
        const stk__chrome_arg *arg = &r->event.args[i];
        if (!arg->outer && arg->key_size == size && memcmp(arg->key, key, size) == 0)
            return &arg->value;
    }
    return &none;
}

/* 0 when it is no number. */
static uint64_t unsigned_of(const stk__chrome_value *v)
{
    stk__json_number n = v->number;
    int64_t value = 0;
    if (v->kind == STK__CHROME_STRING && !stk__json_parse_number(v->text, v->size, &n))
        return 0;
    if (v->kind != STK__CHROME_NUMBER && v->kind != STK__CHROME_STRING)
        return 0;
    if (n.exponent == 0 && !n.cut && !n.negative)
        return n.digits;
    return stk__json_int64(&n, &value) && value > 0 ? (uint64_t)value : 0;
}

static void set_text(stk__chrome *r, stk__string *place, const stk__chrome_value *v)
{
    if (v->kind <= STK__CHROME_NULL) {
        stk__chrome_note(r, STK__REASON_BAD_VALUE);
        return;
    }
    const stk__string text = stk__chrome_text(r, v);
    if (*place && *place != text)
        stk__chrome_note(r, STK__REASON_REDEFINED);
    *place = text;
}

static void set_index(stk__chrome *r, int64_t *place, const stk__chrome_value *v)
{
    stk__json_number n = v->number;
    const bool number = v->kind == STK__CHROME_NUMBER ||
                        (v->kind == STK__CHROME_STRING && stk__json_parse_number(v->text, v->size, &n));
    if (!number || !stk__json_scaled(&n, 0, place, NULL))
        stk__chrome_note(r, STK__REASON_BAD_VALUE);
}

/* A fact that is too large, too deep or one too many. Events of the kernel, which stand beside the others as one text, are more than that. */
static void leave_out_fact(stk__chrome *r, const char *key, int64_t offset)
{
    const bool events = strncmp(key, "systemTraceEvents", 17) == 0 || strncmp(key, "powerTraceAsString", 18) == 0;
    stk__builder_note(r->b, events ? STK__REASON_UNKNOWN_KIND : STK__REASON_NO_PLACE, offset);
}

static void put_fact(stk__chrome *r, const char *key, size_t size, stk__string value)
{
    if (r->facts++ >= STK__CHROME_FACTS_MAX) {
        leave_out_fact(r, key, r->event.offset);
        return;
    }
    stk__builder_fact(r->b, stk__builder_string(r->b, key, size), value);
}

/* Other metadata: "name.key" = value. */
static void keep_as_facts(stk__chrome *r)
{
    const stk__chrome_value *name = stk__chrome_get(&r->event, STK__CHROME_NAME);
    size_t kept = 0;
    for (size_t i = 0; i < r->event.arg_count && name->kind == STK__CHROME_STRING; i++) {
        const stk__chrome_arg *arg = &r->event.args[i];
        if (arg->outer)
            continue;
        const stk__string value = stk__chrome_text(r, &arg->value);
        stk__text_reset(&r->text);
        stk__text_write(&r->text, name->text, name->size);
        stk__text_putc(&r->text, '.');
        stk__text_write(&r->text, arg->key, arg->key_size);
        if (r->text.failed)
            stk__chrome_nomem(r, r->text.length);
        else
            put_fact(r, r->text.data, r->text.length, value);
        kept++;
    }
    if (!kept)
        stk__chrome_note(r, STK__REASON_UNKNOWN_KIND);
}

static void add_total(stk__chrome *r)
{
    stk__builder_total(r->b, stk__chrome_text(r, find_arg(r, "track")), stk__chrome_text(r, find_arg(r, "name")),
                       unsigned_of(find_arg(r, "count")), unsigned_of(find_arg(r, "total_ns")),
                       unsigned_of(find_arg(r, "lost")));
}

static void add_summary(stk__chrome *r)
{
    const uint64_t lost = unsigned_of(find_arg(r, "events_lost"));
    if (lost)
        stk__builder_notes(r->b, STK__REASON_LOST_BY_RECORDER, lost, r->event.offset);
    const uint64_t dropped = unsigned_of(find_arg(r, "events_dropped"));
    if (dropped)
        stk__builder_notes(r->b, STK__REASON_PAST_LIMIT, dropped, r->event.offset);
    keep_as_facts(r);
}

void stk__chrome_metadata(stk__chrome *r)
{
    const stk__chrome_value *name = stk__chrome_get(&r->event, STK__CHROME_NAME);
#define IS(text) stk__chrome_is(name, text, sizeof(text) - 1)
    if (IS("thread_name")) {
        const uint32_t thread = stk__chrome_find_thread(r);
        set_text(r, &stk__builder_thread_at(r->b, thread)->name, find_arg(r, "name"));
    } else if (IS("thread_sort_index")) {
        const uint32_t thread = stk__chrome_find_thread(r);
        set_index(r, &stk__builder_thread_at(r->b, thread)->sort_index, find_arg(r, "sort_index"));
    } else if (IS("process_name")) {
        stk__trace_process *process = stk__builder_process_at(r->b, stk__chrome_find_process(r));
        r->repeats |= process->name != 0;
        set_text(r, &process->name, find_arg(r, "name"));
    } else if (IS("process_labels")) {
        const uint32_t process = stk__chrome_find_process(r);
        set_text(r, &stk__builder_process_at(r->b, process)->labels, find_arg(r, "labels"));
    } else if (IS("process_sort_index")) {
        const uint32_t process = stk__chrome_find_process(r);
        set_index(r, &stk__builder_process_at(r->b, process)->sort_index, find_arg(r, "sort_index"));
    } else if (IS("stoker_total")) {
        add_total(r);
    } else if (IS("stoker_summary")) {
        add_summary(r);
    } else {
        keep_as_facts(r);
    }
#undef IS
}

/* ---- facts ---- */

/* Where a value stands: "distributedInfo.rank", "deviceProperties.0.name". */
typedef struct path {
    stk__text text;
    unsigned depth;
    size_t length[FACT_DEPTH + 1]; /* of the text, per depth */
    size_t item[FACT_DEPTH + 1];   /* number in an array; SIZE_MAX in an object */
} path;

static void use_known(stk__chrome *r, const path *at, const stk__json *j)
{
    int64_t value;
    if (j->kind != STK__JSON_NUMBER || at->text.failed || !stk__json_int64(&j->number, &value))
        return;
    if (strcmp(at->text.data, "distributedInfo.rank") == 0 && value >= 0)
        stk__builder_file(r->b)->rank = value;
    else if (strcmp(at->text.data, "baseTimeNanoseconds") == 0)
        stk__builder_file(r->b)->realtime_ns = value;
}

static bool is_timeline_value(stk__chrome *r, const char *text, size_t size)
{
    const bool joined = size == strlen(STK__TIMELINE_TF1_JOINED) && memcmp(text, STK__TIMELINE_TF1_JOINED, size) == 0;
    r->merged |= joined;
    return joined || (size == strlen(STK__TIMELINE_TF1) && memcmp(text, STK__TIMELINE_TF1, size) == 0);
}

static void fact_value(stk__chrome *r, const path *at, const stk__json *j)
{
    static const char *const words[] = {
        [STK__JSON_TRUE] = "true", [STK__JSON_FALSE] = "false", [STK__JSON_NULL] = "null"};
    const bool word = j->kind == STK__JSON_TRUE || j->kind == STK__JSON_FALSE || j->kind == STK__JSON_NULL;
    const char *text = word ? words[j->kind] : j->text;
    const size_t size = word ? strlen(text) : j->size;
    if (size > FACT_TEXT_MAX) {
        leave_out_fact(r, at->text.data, j->offset);
        return;
    }
    use_known(r, at, j);
    if (strcmp(at->text.data, STK__FACT_TIMELINE) == 0 && is_timeline_value(r, text, size))
        return;                                                        /* our own, which is found again */
    r->merged |= strcmp(at->text.data, "otherData.files.1.path") == 0; /* our own writer */
    r->event.offset = j->offset;
    put_fact(r, at->text.data, at->text.length, stk__builder_string(r->b, text, size));
}

/* Goes into an array or object, or leaves it out when it is too deep. */
static void enter(stk__chrome *r, path *at, stk__json *j)
{
    if (at->depth == FACT_DEPTH) {
        leave_out_fact(r, at->text.data ? at->text.data : "", j->offset);
        stk__json_skip(j);
        return;
    }
    at->item[at->depth] = j->kind == STK__JSON_ARRAY ? 0 : SIZE_MAX;
    at->length[at->depth++] = at->text.length;
}

static void cut_path(path *at, size_t length)
{
    at->text.length = length;
    if (at->text.data)
        at->text.data[length] = 0;
}

/* Names the next item of an array; false when there are too many, and the rest is left out. */
static bool name_item(stk__chrome *r, path *at, stk__json *j)
{
    const unsigned top = at->depth - 1;
    cut_path(at, at->length[top]);
    if (at->item[top] >= FACT_ITEMS_MAX) {
        if (at->item[top]++ == FACT_ITEMS_MAX)
            leave_out_fact(r, at->text.data ? at->text.data : "", j->offset);
        stk__json_skip(j);
        return false;
    }
    stk__text_printf(&at->text, ".%zu", at->item[top]++);
    return true;
}

static void name_member(path *at, const stk__json *j)
{
    cut_path(at, at->length[at->depth - 1]);
    stk__text_putc(&at->text, '.');
    stk__text_write(&at->text, j->text, STK_MIN(j->size, (size_t)FACT_TEXT_MAX));
}

void stk__chrome_fact(stk__chrome *r, stk__json *j)
{
    path at = {.text = STK__TEXT_INIT};
    stk__text_write(&at.text, j->text, STK_MIN(j->size, (size_t)FACT_TEXT_MAX));
    stk__text_puts(&at.text, "");
    do {
        const stk__json_kind kind = stk__json_next(j);
        if (kind == STK__JSON_END)
            break;
        if (kind == STK__JSON_OBJECT_END || kind == STK__JSON_ARRAY_END) {
            at.depth -= at.depth > 0;
            continue;
        }
        if (kind == STK__JSON_KEY) {
            name_member(&at, j);
            continue;
        }
        if (at.depth && at.item[at.depth - 1] != SIZE_MAX && !name_item(r, &at, j))
            continue;
        if (kind == STK__JSON_OBJECT || kind == STK__JSON_ARRAY)
            enter(r, &at, j);
        else if (!at.text.failed && at.text.data)
            fact_value(r, &at, j);
    } while (at.depth);
    stk__text_clear(&at.text);
}

/* ---- timelines of TensorFlow 1 ---- */

/* Whether the text of `name` is a device with this kind of its processes behind it; *out_size is the device's. */
static bool names_device(const stk__chrome *r, stk__string name, const char *kind, const char **out, size_t *out_size)
{
    size_t size;
    const char *text = stk__builder_get(r->b, name, &size);
    const size_t end = strlen(kind);
    if (size <= end || text[0] != '/' || memcmp(text + size - end, kind, end) != 0)
        return false;
    *out = text;
    *out_size = size - end;
    return true;
}

/* timeline.py gives each device two processes, one behind the other: "/job:...:CPU:0 Compute" and "/job:...:CPU:0 Tensors". */
static bool is_timeline(const stk__chrome *r)
{
    const char *compute, *tensors;
    size_t compute_size, tensors_size;
    for (uint32_t i = r->first_process; i + 1 < r->process_rows; i++) {
        if (names_device(r, stk__builder_process_at(r->b, i)->name, " Compute", &compute, &compute_size) &&
            names_device(r, stk__builder_process_at(r->b, i + 1)->name, " Tensors", &tensors, &tensors_size) &&
            compute_size == tensors_size && memcmp(compute, tensors, compute_size) == 0)
            return true;
    }
    return false;
}

void stk__chrome_timeline(stk__chrome *r)
{
    if (is_timeline(r))
        stk__builder_fact(
            r->b, stk__builder_str(r->b, STK__FACT_TIMELINE),
            stk__builder_str(r->b, r->repeats || r->merged ? STK__TIMELINE_TF1_JOINED : STK__TIMELINE_TF1));
}
