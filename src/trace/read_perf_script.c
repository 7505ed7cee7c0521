/*
 * Reads the text of `perf script`: samples with their call chains.
 *
 *     V8 WorkerThread 24636/25607 [000] 94564.109216:     250000 cpu-clock:
 *             ffffffff8158c94b filemap_map_pages+0x6ab ([kernel.kallsyms])
 *                     7f1c3458 [unknown] (/usr/lib/libc.so.6)
 *
 * Of the first line only the command is always there. Names follow FlameGraph's stackcollapse-perf.pl, so that
 * collapsed stacks that are written from the model equal its own:
 *   - the offset +0x6ab goes;
 *   - [unknown] is the module's file name in brackets, or [unknown] when that is unknown as well;
 *   - ';' becomes ':', quotes go, and all from the first '(' on goes, unless it is "(anonymous namespace)" or a method
 *     of Go: a.(*T).f;
 *   - "a->b->c", inlined frames of Java, is a calling b calling c, and all but the first are marked as inlined;
 *   - in commands that start with "java" the L before a class name with '/' goes;
 *   - the command stands before the stack, with '_' for each space; the weight is the period, or 1; of several kinds of
 *     events only the first is folded (the model has all).
 * Different from it: a last sample without an empty line behind it counts; a sample on one line, as without -g, is a
 * stack of one frame; a command may hold numbers ("Thread 1"); a module "(/a/b (deleted))" keeps its name; a
 * frame without a symbol is [its module], not a blank.
 */
#include <string.h>

#include "base/mem.h"
#include "trace/keymap.h"
#include "trace/lines.h"
#include "trace/reader.h"

#include "base/banned.h"

enum { TOKENS_MAX = 32, STACK_MAX = 4096, INLINED_MAX = 64, MODULE_MAX = 4096, DETECT_LINES = 400 };

typedef struct span {
    const char *text;
    size_t size;
} span;

/* The first line of a sample, taken apart. */
typedef struct header {
    span command, event, rest; /* rest: what stands behind the event */
    int64_t pid, tid;          /* STK__NO_NUMBER where it has none */
    int64_t ts, period;
    bool ns_digits; /* the time has more than 6 decimals */
} header;

typedef struct perf_reader {
    stk__builder *b;
    stk__keymap tracks; /* (process and thread, command, unit) -> track */
    stk__text name;     /* scratch */
    bool has_first_event;
    int64_t resolution_ns;
    /* the sample that is being read */
    bool open, java, with_address;
    uint32_t track;
    int64_t ts, weight, offset;
    stk__string event;
    stk__trace_frame *stack; /* innermost first */
    size_t depth, stack_capacity;
    bool nomem;
} perf_reader;

/* ---- words ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool starts(span s, const char *text)
{
    const size_t size = strlen(text);
    return s.size >= size && memcmp(s.text, text, size) == 0;
}

static bool ends(span s, const char *text)
{
    const size_t size = strlen(text);
    return s.size >= size && memcmp(s.text + s.size - size, text, size) == 0;
}

static bool equals(span s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.text, text, s.size) == 0;
}

static span trim(span s)
{
    while (s.size && is_space(s.text[0])) {
        s.text++;
        s.size--;
    }
    while (s.size && is_space(s.text[s.size - 1]))
        s.size--;
    return s;
}

static size_t split_words(span line, span *out)
{
    size_t count = 0, at = 0;
    while (count < TOKENS_MAX) {
        while (at < line.size && is_space(line.text[at]))
            at++;
        const size_t start = at;
        while (at < line.size && !is_space(line.text[at]))
            at++;
        if (at == start)
            break;
        out[count++] = (span){line.text + start, at - start};
    }
    return count;
}

/* Digits to a number; false when there are none, others between them, or too many. */
static bool read_digits(span s, int64_t *out)
{
    int64_t value = 0;
    if (s.size == 0 || s.size > 18)
        return false;
    for (size_t i = 0; i < s.size; i++) {
        if (!is_digit(s.text[i]))
            return false;
        value = value * 10 + (s.text[i] - '0');
    }
    *out = value;
    return true;
}

/* "94564.109216:" */
static bool read_time(span s, header *h)
{
    int64_t seconds, fraction;
    const char *point = s.size ? memchr(s.text, '.', s.size) : NULL;
    if (!point || s.text[s.size - 1] != ':')
        return false;
    const span whole = {s.text, (size_t)(point - s.text)};
    span decimals = {point + 1, s.size - whole.size - 2};
    if (whole.size > 9 || !read_digits(whole, &seconds) || !read_digits(decimals, &fraction))
        return false;
    size_t digits = decimals.size;
    for (; digits > 9; digits--)
        fraction /= 10;
    for (; digits < 9; digits++)
        fraction *= 10;
    h->ts = seconds * 1000000000 + fraction;
    h->ns_digits = decimals.size > 6;
    return true;
}

/* "25607", "24636/25607", "-1" */
static bool read_ids(span s, header *h)
{
    const char *slash = s.size ? memchr(s.text, '/', s.size) : NULL;
    const bool none = s.size && s.text[0] == '-';
    if (none && !slash) {
        h->tid = -1;
        return equals(s, "-1");
    }
    if (!slash)
        return read_digits(s, &h->tid);
    const span pid = {s.text, (size_t)(slash - s.text)}, tid = {slash + 1, s.size - pid.size - 1};
    if (equals(pid, "-1") && equals(tid, "-1")) {
        h->pid = h->tid = -1;
        return true;
    }
    return read_digits(pid, &h->pid) && read_digits(tid, &h->tid);
}

static bool is_cpu(span s)
{
    int64_t cpu;
    return s.size >= 3 && s.text[0] == '[' && s.text[s.size - 1] == ']' &&
           read_digits((span){s.text + 1, s.size - 2}, &cpu);
}

/* ---- the first line of a sample ---- */

static void reset_header(header *h)
{
    *h = (header){.pid = STK__NO_NUMBER, .tid = STK__NO_NUMBER, .ts = STK__NO_TIME, .period = STK__NO_NUMBER};
}

/* What stands before the time: command, ids, [cpu], flags of the mode (-F misc). Returns the words of the command. */
static size_t read_before_time(const span *words, size_t count, header *h)
{
    size_t at = count;
    for (size_t mode = 0; mode < 3 && at > 1; mode++) {
        if (is_cpu(words[at - 1]))
            return at > 1 && read_ids(words[at - 2], h) ? at - 2 : at - 1;
        if (read_ids(words[at - 1], h))
            return at - 1;
        if (words[at - 1].size > 3 || is_digit(words[at - 1].text[0]))
            break;
        at--;
    }
    reset_header(h);
    return count;
}

/* Without a time: the first word that can be ids, and what comes behind them. */
static size_t read_without_time(const span *words, size_t count, header *h, size_t *out_next)
{
    for (size_t i = 1; i < count; i++) {
        if (!read_ids(words[i], h) && !is_cpu(words[i]))
            continue;
        *out_next = i + 1 < count && is_cpu(words[i + 1]) ? i + 2 : i + 1;
        return i;
    }
    return 0;
}

/* [period] event: rest */
static bool read_event(span line, const span *words, size_t count, size_t at, header *h)
{
    const char *end = line.text + line.size;
    if (at < count && read_digits(words[at], &h->period))
        at++;
    if (at >= count || words[at].text[words[at].size - 1] != ':' || words[at].size < 2) {
        /* perf names events without a colon only in records that are no samples */
        return at < count && starts(words[at], "PERF_RECORD_") ? (h->event = words[at], true) : false;
    }
    h->event = (span){words[at].text, words[at].size - 1};
    const char *rest = words[at].text + words[at].size;
    h->rest = trim((span){rest, (size_t)(end - rest)});
    return true;
}

static bool read_header(span line, header *h)
{
    span words[TOKENS_MAX];
    const size_t count = split_words(line, words);
    size_t command_words = 0, next = 0;
    header timed;
    reset_header(h);
    reset_header(&timed);
    for (size_t i = 0; i < count && !next; i++) {
        if (i > 0 && read_time(words[i], &timed)) {
            command_words = read_before_time(words, i, h);
            next = i + 1;
        }
    }
    h->ts = timed.ts;
    h->ns_digits = timed.ns_digits;
    if (!next)
        command_words = read_without_time(words, count, h, &next);
    if (command_words == 0 || command_words > count)
        return false;
    const span last = words[command_words - 1];
    h->command = (span){words[0].text, (size_t)(last.text + last.size - words[0].text)};
    if (read_event(line, words, count, next, h))
        return true;
    /* -F comm,pid,time: no event at all */
    h->rest =
        next < count ? trim((span){words[next].text, (size_t)(line.text + line.size - words[next].text)}) : (span){0};
    return timed.ts != STK__NO_TIME && h->rest.size == 0;
}

/* ---- frames ---- */

typedef struct frame_line {
    span symbol, module;
    bool with_address;
    uint32_t flags; /* of the module */
} frame_line;

/* "ffffffff8158c94b filemap_map_pages+0x6ab ([kernel.kallsyms])"; the parts may miss, but for the symbol. */
static bool read_frame_line(span line, frame_line *out)
{
    line = trim(line);
    size_t digits = 0;
    while (digits < line.size && is_hex(line.text[digits]))
        digits++;
    *out = (frame_line){0};
    out->with_address = digits > 0 && (digits == line.size || is_space(line.text[digits]));
    if (out->with_address)
        line = trim((span){line.text + digits, line.size - digits});
    if (line.size && line.text[line.size - 1] == ')') {
        size_t open = line.size - 1;
        if (ends(line, " (deleted))"))
            open -= strlen(" (deleted)");
        while (open > 0 && !(line.text[open] == '(' && (open == 0 || is_space(line.text[open - 1]))))
            open--;
        if (line.text[open] == '(') {
            out->module = (span){line.text + open + 1, line.size - open - 2};
            line.size = open;
            line = trim(line);
        }
    }
    out->symbol = line;
    return line.size || out->module.size || out->with_address;
}

static span without_offset(span s)
{
    size_t at = s.size;
    while (at && is_hex(s.text[at - 1]))
        at--;
    if (at < s.size && at > 3 && memcmp(s.text + at - 3, "+0x", 3) == 0)
        s.size = at - 3;
    return s;
}

static const char *find_text(span s, size_t from, const char *text)
{
    const size_t size = strlen(text);
    for (size_t i = from; i + size <= s.size; i++) {
        if (memcmp(s.text + i, text, size) == 0)
            return s.text + i;
    }
    return NULL;
}

/* "net/http.(*Client).Do" */
static bool is_go_method(span s)
{
    const char *open = find_text(s, 0, ".(");
    return open && find_text(s, (size_t)(open - s.text) + 2, ").");
}

static span without_arguments(span s)
{
    if (is_go_method(s))
        return s;
    for (size_t i = 0; i < s.size; i++) {
        if (s.text[i] == '(' && !starts((span){s.text + i, s.size - i}, "(anonymous namespace)"))
            return (span){s.text, i};
    }
    return s;
}

static span file_name(span path)
{
    for (size_t i = path.size; i > 0; i--) {
        if (path.text[i - 1] == '/')
            return (span){path.text + i, path.size - i};
    }
    return path;
}

/* Puts the name of one function in r->name, by the rules at the top of this file. */
static void tidy_name(perf_reader *r, span symbol, span module)
{
    const bool unknown = equals(symbol, "[unknown]") || symbol.size == 0;
    stk__text_reset(&r->name);
    if (unknown) {
        const bool nowhere = module.size == 0 || equals(module, "[unknown]");
        symbol = nowhere ? (span){"unknown", 7} : file_name(module);
        stk__text_putc(&r->name, '[');
    } else {
        symbol = without_arguments(symbol);
        if (r->java && symbol.size && symbol.text[0] == 'L' && memchr(symbol.text, '/', symbol.size))
            symbol = (span){symbol.text + 1, symbol.size - 1};
    }
    for (size_t i = 0; i < symbol.size; i++) {
        if (symbol.text[i] != '"' && symbol.text[i] != '\'')
            stk__text_putc(&r->name, symbol.text[i] == ';' ? ':' : symbol.text[i]);
    }
    if (unknown)
        stk__text_putc(&r->name, ']');
    r->nomem = r->nomem || r->name.failed;
}

/* Modules of the kernel are in brackets, but not everything in brackets is one. */
static uint32_t module_flags(span module)
{
    static const char *const others[] = {"[unknown]", "[vdso", "[vsyscall", "[heap",
                                         "[stack",    "[anon", "[uprobes",  "[vectors"};
    if (starts(module, "[JIT]") || (starts(module, "/tmp/perf-") && ends(module, ".map")) ||
        (starts(file_name(module), "jitted-") && ends(module, ".so")))
        return STK__FRAME_JIT;
    if (equals(module, "inlined"))
        return STK__FRAME_INLINED;
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        if (starts(module, others[i]))
            return 0;
    }
    return starts(module, "[") || ends(module, "vmlinux") || ends(module, ".ko") || find_text(module, 0, ".ko.")
               ? STK__FRAME_KERNEL
               : 0;
}

static void push_frame(perf_reader *r, const stk__trace_frame *frame, int64_t offset)
{
    if (r->depth == STACK_MAX) {
        stk__builder_note(r->b, STK__REASON_TOO_DEEP, offset);
        return;
    }
    if (!stk__grow((void **)&r->stack, &r->stack_capacity, r->depth + 1, sizeof *r->stack)) {
        r->nomem = true;
        return;
    }
    r->stack[r->depth++] = *frame;
}

/* One function of a line. Inlined ones of Java have no module: that is what the writer puts the mark _[i] behind. */
static void add_function(perf_reader *r, const frame_line *line, span symbol, bool inlined, int64_t offset)
{
    stk__trace_frame frame = {.flags = line->flags | (inlined ? STK__FRAME_INLINED : 0)};
    tidy_name(r, symbol, line->module);
    if (r->nomem)
        return;
    if (inlined && r->name.length >= 4 && memcmp(r->name.data + r->name.length - 4, "_[i]", 4) == 0)
        r->name.length -= 4;
    frame.name = stk__builder_text(r->b, r->name.data ? r->name.data : "", r->name.length, offset);
    if (!inlined)
        frame.module = stk__builder_text(r->b, line->module.text ? line->module.text : "", line->module.size, offset);
    push_frame(r, &frame, offset);
}

/*
 * a->b->c: c is the innermost, so it goes on the stack first. The limits keep the work linear in the size of the file.
 */
static void add_frame(perf_reader *r, frame_line *line, int64_t offset)
{
    span symbol = without_offset(line->symbol);
    if (symbol.size && symbol.text[0] == '(')
        return; /* a process, not a function */
    if (line->module.size > MODULE_MAX) {
        stk__builder_note(r->b, STK__REASON_TOO_LARGE, offset);
        return;
    }
    line->flags = module_flags(line->module);
    r->with_address = r->with_address || line->with_address;
    while (symbol.size > 2 && ends(symbol, "->"))
        symbol.size -= 2;
    for (size_t inlined = 0; inlined < INLINED_MAX && !r->nomem; inlined++) {
        size_t at = symbol.size;
        while (at >= 2 && memcmp(symbol.text + at - 2, "->", 2) != 0)
            at--;
        if (at < 2)
            break;
        add_function(r, line, (span){symbol.text + at, symbol.size - at}, true, offset);
        symbol.size = at - 2;
    }
    if (!r->nomem)
        add_function(r, line, symbol, false, offset);
}

/* "  file.cpp:137", the line of the frame before, as with -F +srcline. */
static bool read_source_line(perf_reader *r, span line, int64_t offset)
{
    int64_t number;
    size_t colon = line.size;
    if (!r->with_address || r->depth == 0)
        return false;
    while (colon && is_digit(line.text[colon - 1]))
        colon--;
    if (colon < 2 || line.text[colon - 1] != ':' || !read_digits((span){line.text + colon, line.size - colon}, &number))
        return ends(line, "]") && !memchr(line.text, ' ', line.size); /* "libc.so[27b25]" tells nothing new */
    stk__trace_frame *frame = &r->stack[r->depth - 1];
    frame->file = stk__builder_text(r->b, line.text, colon - 1, offset);
    frame->line = number <= INT32_MAX ? (int32_t)number : 0;
    return true;
}

/* ---- samples ---- */

static void close_sample(perf_reader *r)
{
    if (!r->open)
        return;
    uint32_t callsite = STK__NONE;
    for (size_t i = r->depth; i-- > 0;)
        callsite = stk__builder_callsite(r->b, callsite, stk__builder_frame(r->b, &r->stack[i]));
    stk__builder_at(r->b, r->offset);
    stk__builder_sample(r->b, r->track, r->ts, callsite, r->weight, r->event);
    r->open = false;
    r->depth = 0;
}

/* Periods of clocks are ns; those of other events are counts of it; without one a sample counts 1. */
static uint32_t unit_of(const header *h)
{
    static const char *const clocks[] = {"cpu-clock", "task-clock"};
    for (size_t i = 0; h->period != STK__NO_NUMBER && i < STK_COUNT(clocks); i++) {
        const size_t size = strlen(clocks[i]);
        if (starts(h->event, clocks[i]) && (h->event.size == size || h->event.text[size] == ':'))
            return STK__UNIT_NS;
    }
    return h->period != STK__NO_NUMBER ? STK__UNIT_NONE : STK__UNIT_SAMPLES;
}

/* perf prints only the thread's id unless asked for both. */
static uint32_t find_thread(perf_reader *r, const header *h, stk__string command)
{
    const bool has_pid = h->pid != STK__NO_NUMBER, has_tid = h->tid != STK__NO_NUMBER;
    const uint32_t process =
        stk__builder_process(r->b, has_pid ? h->pid : 0, has_pid ? 0 : stk__builder_str(r->b, "?"));
    const uint32_t thread = stk__builder_thread(r->b, process, has_tid ? h->tid : 0, has_tid ? 0 : command);
    stk__trace_process *p = stk__builder_process_at(r->b, process);
    if (p && has_pid && h->pid == h->tid && !p->name)
        p->name = command;
    return thread;
}

/* A thread that changes its name or unit gets another track: the command of a sample is that of its time. */
static uint32_t find_track(perf_reader *r, const header *h, int64_t offset)
{
    const stk__string command = stk__builder_text(r->b, h->command.text, h->command.size, offset);
    const uint32_t thread = find_thread(r, h, command), unit = unit_of(h);
    const stk__key key = {{thread, command, unit}};
    bool fresh;
    uint32_t *place = stk__keymap_place(&r->tracks, key, STK__NONE, &fresh);
    stk__trace_thread *t = stk__builder_thread_at(r->b, thread);
    if (!place || !t) {
        r->nomem = true;
        return STK__NONE;
    }
    if (!fresh)
        return *place;
    if (!t->name) {
        t->name = command;
        *place = stk__builder_thread_track(r->b, thread);
        stk__trace_track *own = stk__builder_track_at(r->b, *place);
        if (own)
            own->unit = unit;
        return *place;
    }
    const stk__trace_track track = {.kind = STK__TRACK_THREAD,
                                    .process = t->process,
                                    .thread = thread,
                                    .name = command,
                                    .unit = unit,
                                    .parent = STK__NONE};
    return *place = stk__builder_new_track(r->b, &track);
}

/*
 * The kind of event that FlameGraph would fold is that of the first sample; the writer of collapsed stacks asks for it.
 */
static void keep_first_event(perf_reader *r)
{
    if (r->has_first_event || !r->event)
        return;
    r->has_first_event = true;
    stk__builder_fact(r->b, stk__builder_str(r->b, "first_event"), r->event);
}

static void open_sample(perf_reader *r, const header *h, int64_t offset)
{
    frame_line frame;
    stk__builder_saw(r->b, 1);
    if (starts(h->event, "PERF_RECORD_")) {
        const bool lost = starts(h->event, "PERF_RECORD_LOST");
        stk__builder_note(r->b, lost ? STK__REASON_LOST_BY_RECORDER : STK__REASON_UNKNOWN_KIND, offset);
        return;
    }
    r->open = true;
    r->track = find_track(r, h, offset);
    r->ts = h->ts;
    r->weight = h->period == STK__NO_NUMBER || h->period == 0 ? 1 : h->period;
    r->offset = offset;
    r->event = stk__builder_text(r->b, h->event.text ? h->event.text : "", h->event.size, offset);
    r->java = starts(h->command, "java");
    r->with_address = false;
    r->depth = 0;
    if (h->ts != STK__NO_TIME && !h->ns_digits)
        r->resolution_ns = 1000;
    keep_first_event(r);
    /* one line: the place is behind the event; of tracepoints that is their fields instead */
    if (h->rest.size && ends(h->rest, ")") && read_frame_line(h->rest, &frame) && frame.with_address &&
        frame.symbol.size)
        add_frame(r, &frame, offset);
}

/*
 * A line that starts with white space: a frame, unless it is a sample on one line, whose command is set to the right.
 */
static bool is_frame(const perf_reader *r, span line)
{
    header h;
    frame_line frame;
    if (!r->open)
        return false;
    if (line.text[0] == '\t')
        return true;
    const span body = trim(line);
    return !(read_header(body, &h) && h.ts != STK__NO_TIME) && read_frame_line(line, &frame);
}

static void read_line(perf_reader *r, const stk__line *line)
{
    const span text = {line->text, line->size}, body = trim(text);
    frame_line frame;
    header h;
    if (line->cut) {
        stk__builder_note(r->b, STK__REASON_TOO_LARGE, line->offset);
        return;
    }
    if (body.size == 0) {
        close_sample(r);
        return;
    }
    if (text.text[0] == '#')
        return;
    if (is_space(text.text[0]) && is_frame(r, text)) {
        if (!read_frame_line(text, &frame) || (!frame.with_address && read_source_line(r, body, line->offset)))
            return;
        add_frame(r, &frame, line->offset);
        return;
    }
    if (read_header(body, &h)) {
        close_sample(r);
        open_sample(r, &h, line->offset);
    } else if (r->open && read_frame_line(text, &frame) && frame.with_address && frame.module.size) {
        add_frame(r, &frame, line->offset); /* white space was lost on its way here */
    } else {
        stk__builder_saw(r->b, 1);
        stk__builder_note(r->b, STK__REASON_SYNTAX, line->offset);
    }
}

static stk_status perf_script_read(stk__builder *b, stk__input *in, stk_error *err)
{
    perf_reader r = {.b = b, .resolution_ns = 1};
    stk__lines lines = {.in = in};
    stk__line line;
    stk_status status = STK_OK;
    while (status == STK_OK && stk__lines_next(&lines, &line)) {
        read_line(&r, &line);
        if (lines.refilled)
            status = stk__reader_progress(b, in, err);
        lines.refilled = false;
        if (r.nomem && status == STK_OK)
            status = stk__nomem(r.stack_capacity * sizeof *r.stack, err);
    }
    close_sample(&r);
    stk__trace_file *file = stk__builder_file(b);
    if (file)
        file->resolution_ns = r.resolution_ns;
    stk__keymap_clear(&r.tracks);
    stk__text_clear(&r.name);
    stk__free(r.stack);
    return status;
}

/* Samples need a time, or a stack behind them; else any line "word number word:" would do. */
/* "[001] d..2 1234.5: sched_switch: ..." of the kernel's own text has flags behind the CPU, which perf does not write. */
static bool is_ftrace(span line)
{
    const char *bracket = memchr(line.text, ']', line.size);
    if (!bracket)
        return false;
    const char *p = bracket + 1, *end = line.text + line.size;
    while (p < end && is_space(*p))
        p++;
    const char *flags = p;
    while (p < end && !is_space(*p))
        p++;
    const size_t size = (size_t)(p - flags);
    if (size < 4 || size > 6 || !memchr(flags, '.', size))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!strchr(".dDnNpPBbHhZzsSLlXx#0123456789", flags[i]))
            return false;
    }
    return flags[0] == '.' || !is_digit(flags[0]);
}

static int perf_script_detect(const uint8_t *data, size_t size, bool whole)
{
    size_t at = 0, timed = 0, frames = 0, headers = 0, others = 0;
    stk__line line;
    bool ended, after_header = false;
    if (size == 0 || memchr(data, '\0', size))
        return 0;
    for (size_t i = 0; i < DETECT_LINES && stk__line_of(data, size, &at, &line, &ended); i++) {
        const span text = {line.text, line.size}, body = trim(text);
        frame_line frame;
        header h;
        if (body.size == 0 || text.text[0] == '#' || (!ended && !whole && i))
            continue;
        if (is_ftrace(body))
            others++;
        else if (read_header(body, &h) && (!is_space(text.text[0]) || h.ts != STK__NO_TIME)) {
            headers++;
            timed += h.ts != STK__NO_TIME && h.event.size > 0;
            after_header = true;
        } else if (after_header && read_frame_line(text, &frame) && (frame.with_address || frame.module.size)) {
            frames++;
        } else {
            others++;
        }
    }
    if (headers == 0 || others > headers + frames)
        return 0;
    return timed && frames ? 90 : timed ? 70 : frames && headers ? 55 : 0;
}

const stk__reader stk__reader_perf_script = {
    .name = "perf_script",
    .summary = "text of perf script: samples with call chains",
    .detect = perf_script_detect,
    .read = perf_script_read,
};
