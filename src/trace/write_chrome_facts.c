/* Facts of Chrome JSON: "distributedInfo.rank" becomes {"distributedInfo":{"rank":0}} again, as other tools want it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/emit.h"
#include "trace/write_chrome.h"

#include "base/banned.h"

/* Deeper keys keep their dots, so that hostile ones cannot nest without end. */
enum { NEST_MAX = 5, NUMBER_MAX = 40 };

typedef struct fact {
    const char *key;
    const char *value;
    size_t size; /* of the value */
    uint32_t file;
    size_t row;
} fact;

static bool all_digits(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return size > 0;
}

/* Parts of keys by number where both are numbers, so that items of an array are in order. */
static int compare_parts(const char *a, size_t a_size, const char *b, size_t b_size)
{
    if (all_digits(a, a_size) && all_digits(b, b_size) && a_size != b_size)
        return a_size < b_size ? -1 : 1;
    const int order = memcmp(a, b, STK_MIN(a_size, b_size));
    return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

static int compare_facts(const void *x, const void *y)
{
    const fact *f = x, *g = y;
    const char *a = f->key, *b = g->key;
    if (f->file != g->file)
        return f->file < g->file ? -1 : 1;
    for (;;) {
        const size_t a_size = strcspn(a, "."), b_size = strcspn(b, ".");
        const int order = compare_parts(a, a_size, b, b_size);
        if (order)
            return order;
        a += a_size;
        b += b_size;
        if (!*a || !*b)
            return *a ? 1 : *b ? -1 : f->row < g->row ? -1 : f->row > g->row;
        a++;
        b++;
    }
}

/* Whether a text is a JSON number as it stands: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_number(const char *text, size_t size)
{
    const char *p = text;
    size_t digits;
    if (size == 0 || size > NUMBER_MAX || strlen(text) != size)
        return false;
    p += *p == '-';
    digits = strspn(p, "0123456789");
    if (digits == 0 || (*p == '0' && digits > 1))
        return false;
    p += digits;
    if (*p == '.') {
        digits = strspn(++p, "0123456789");
        if (digits == 0)
            return false;
        p += digits;
    }
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        digits = strspn(p, "0123456789");
        if (digits == 0)
            return false;
        p += digits;
    }
    return *p == 0;
}

/* Facts are texts; what looks like a number or a word of JSON was one. */
static void put_value(stk__text *out, const fact *f)
{
    const bool word = strcmp(f->value, "true") == 0 || strcmp(f->value, "false") == 0 || strcmp(f->value, "null") == 0;
    if (word || is_number(f->value, f->size))
        stk__emit_bytes(out, f->value, f->size);
    else
        stk__emit_json(out, f->value, f->size);
}

static size_t part_size(const char *key, size_t depth)
{
    return depth >= NEST_MAX ? strlen(key) : strcspn(key, ".");
}

/* Whether the facts, whose keys go on at `at`, are the items 0, 1, 2, ... of an array. */
static bool is_array(const fact *facts, size_t count, size_t at)
{
    size_t next = 0;
    bool leaf = false;
    for (size_t i = 0; i < count; i++) {
        const char *part = facts[i].key + at;
        const size_t size = strcspn(part, ".");
        if (!all_digits(part, size) || size > 6 || (size > 1 && part[0] == '0'))
            return false;
        const size_t number = strtoul(part, NULL, 10);
        if (number == next)
            next++;
        else if (leaf || number + 1 != next) /* a leaf is the whole of its item */
            return false;
        leaf = part[size] == 0;
    }
    return true;
}

static void put_members(stk__text *out, const fact *facts, size_t count, size_t at, size_t depth, bool array);

/* Facts with the same parts up to `at` and the same one there. */
static void put_group(stk__text *out, const fact *facts, size_t count, size_t at, size_t depth, bool array)
{
    const char *part = facts[0].key + at;
    const size_t size = part_size(part, depth);
    size_t leaves = 0;
    while (leaves < count && facts[leaves].key[at + size] == 0)
        leaves++;
    for (size_t i = 0; i < leaves; i++) {
        if (!array) {
            stk__text key = STK__TEXT_INIT;
            stk__text_write(&key, part, size);
            if (i) /* metadata events may say a thing for each process */
                stk__text_printf(&key, " (%zu)", i + 1);
            stk__emit_json(out, key.data ? key.data : "", key.length);
            stk__emit_char(out, ':');
            out->failed = out->failed || key.failed;
            stk__text_clear(&key);
        }
        put_value(out, &facts[i]);
        if (i + 1 < count)
            stk__emit_char(out, ',');
    }
    if (leaves == count)
        return;
    if (leaves) { /* a value and an object of one name: the keys of the object keep their dots */
        put_members(out, facts + leaves, count - leaves, at, NEST_MAX, false);
        return;
    }
    if (!array) {
        stk__emit_json(out, part, size);
        stk__emit_char(out, ':');
    }
    const bool inner = is_array(facts, count, at + size + 1);
    stk__emit_char(out, inner ? '[' : '{');
    put_members(out, facts, count, at + size + 1, depth + 1, inner);
    stk__emit_char(out, inner ? ']' : '}');
}

static void put_members(stk__text *out, const fact *facts, size_t count, size_t at, size_t depth, bool array)
{
    for (size_t i = 0; i < count;) {
        const size_t size = part_size(facts[i].key + at, depth);
        size_t end = i + 1;
        while (end < count && part_size(facts[end].key + at, depth) == size &&
               memcmp(facts[end].key + at, facts[i].key + at, size) == 0)
            end++;
        if (i)
            stk__emit_char(out, ',');
        put_group(out, facts + i, end - i, at, depth, array);
        i = end;
    }
}

/* Keys that the writer gives itself. */
static bool is_reserved(const char *key)
{
    static const char *const names[] = {"traceEvents", "stackFrames", "samples", "displayTimeUnit",
                                        "systemTraceEvents"};
    const size_t size = strcspn(key, ".");
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (strlen(names[i]) == size && memcmp(names[i], key, size) == 0)
            return true;
    }
    return false;
}

/* All facts, by file and key; returns how many. */
static size_t collect(const stk__trace *t, fact *facts)
{
    size_t count = 0;
    for (size_t i = 0; i < t->fact_count; i++) {
        const stk__trace_fact *f = &t->facts[i];
        const char *key = stk__trace_str(t, f->key);
        if (is_reserved(key))
            continue;
        facts[count] = (fact){.key = key, .file = f->file, .row = i};
        facts[count].value = stk__trace_text(t, f->value, &facts[count].size);
        count++;
    }
    if (count)
        qsort(facts, count, sizeof *facts, compare_facts);
    return count;
}

static bool has_fact(const fact *facts, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(facts[i].key, key) == 0)
            return true;
    }
    return false;
}

/* What a file knows of itself that is no fact in the model, as most tools call it. */
static void put_known(stk__text *out, const stk__trace_file *file, const fact *facts, size_t count)
{
    /* times of the day say so themselves */
    if (file->realtime_ns != STK__NO_NUMBER && file->realtime_ns != 0 &&
        !has_fact(facts, count, "baseTimeNanoseconds")) {
        STK__EMIT(out, ",\"baseTimeNanoseconds\":");
        stk__emit_int(out, file->realtime_ns);
    }
}

static void put_file(stk__text *out, const stk__trace *t, uint32_t file, const fact *facts, size_t count)
{
    STK__EMIT(out, "{\"path\":");
    stk__emit_json_string(out, t, t->files[file].path);
    if (count) {
        STK__EMIT(out, ",\"facts\":{");
        put_members(out, facts, count, 0, 0, false);
        stk__emit_char(out, '}');
    }
    stk__emit_char(out, '}');
}

static void put_files(stk__text *out, const stk__trace *t, const fact *facts, size_t count)
{
    STK__EMIT(out, ",\"otherData\":{\"files\":[");
    for (uint32_t i = 0; i < t->file_count; i++) {
        size_t own = 0;
        while (own < count && facts[own].file == i)
            own++;
        if (i)
            stk__emit_char(out, ',');
        put_file(out, t, i, facts, own);
        facts += own;
        count -= own;
    }
    STK__EMIT(out, "]}");
}

/* One file: its facts stand where they stood. Several: each in an object of its own, for their keys are the same. */
bool stk__chrome_facts(const stk__trace *t, stk__text *out)
{
    fact *facts = stk__alloc(t->fact_count * sizeof *facts);
    if (!facts)
        return false;
    const size_t count = collect(t, facts);
    if (t->file_count == 1) {
        if (count)
            stk__emit_char(out, ',');
        put_members(out, facts, count, 0, 0, false);
        put_known(out, &t->files[0], facts, count);
    } else if (t->file_count > 1) {
        put_files(out, t, facts, count);
    }
    stk__free(facts);
    return true;
}
