/* Files that people have and that are not read here: a table of what tells them, with a sentence for each. */
#include <string.h>

#include "trace/foreign.h"
#include "trace/reader.h"

#include "base/banned.h"

/* How far into a text the words of its kind are looked for. */
enum { WORDS_BYTES = 64 * 1024, LINE_BYTES = 4096, PPROF_FIELDS = 64 };

/* ---- by magic numbers ---- */

typedef struct magic {
    size_t offset, size;
    const char *bytes, *sentence;
} magic;

#define TRACY "a capture of Tracy; its zones can be written as a table (tracy-csvexport), which is not read here"
#define OTF2 "the anchor of an OTF2 archive (Score-P), which is not read here; otf2-print FILE shows its events"
#define AT(offset, bytes, sentence)                \
    {                                              \
        offset, sizeof(bytes) - 1, bytes, sentence \
    }

static const magic magics[] = {
    AT(0, "PERFILE2", "a recording of perf; write it as text: perf script -F +pid -i FILE > perf.txt"),
    AT(0, "2ELIFREP", "a recording of perf; write it as text: perf script -F +pid -i FILE > perf.txt"),
    AT(0, "NVIDIA Tegra Profiler Report",
       "a report of Nsight Systems; export it: nsys export --type sqlite --output report.sqlite FILE"),
    AT(0, "\3\x42OTF2\0", OTF2),
    AT(0, "\3\x23OTF2\0", OTF2),
    AT(0, "FLR\0",
       "a recording of Java's Flight Recorder; fold its stacks: jfrconv -o collapsed FILE out.collapsed (async-profiler)"),
    AT(0, "memray\0", "a recording of memray: allocations, not time; memray flamegraph FILE shows it"),
    AT(0, "tracy\0", TRACY),
    AT(0, "tlZ\4", TRACY),
    AT(0, "tr\375P", TRACY),
    AT(0, "\x17\x08\x44tracing",
       "a recording of trace-cmd: events of the kernel, which are not read here; trace-cmd report FILE shows them"),
    AT(0, "\xc1\x1f\xfc\xc1", "a stream of the Common Trace Format (LTTng); babeltrace2 DIRECTORY shows it"),
    AT(0, "/* CTF ", "the metadata of a trace in the Common Trace Format (LTTng); babeltrace2 DIRECTORY shows it"),
    AT(257, "ustar", "a tar archive; unpack it first: tar xf FILE"),
    AT(0, "\x04\x22\x4d\x18", "compressed with lz4; unpack it first: lz4 -d FILE out"),
    AT(0, "\xfd\x37zXZ\0", "compressed with xz; unpack it first: xz -d -k FILE"),
    AT(4, "1AY&SY", "compressed with bzip2; unpack it first: bunzip2 -k FILE"),
    AT(0, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first: 7z x FILE"),
    AT(0, "\x89HDF\r\n\x1a\n", "an HDF5 file: data, not a profile; stoker inspect FILE shows it"),
    AT(0, "PAR1", "a Parquet file: tables, not a profile"),
    AT(0, "\xff\xfe", "text in UTF-16; write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > out"),
    AT(0, "\xfe\xff", "text in UTF-16; write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > out"),
    AT(0, "\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
       "a CPU profile of gperftools; fold its stacks: pprof --collapsed PROGRAM FILE > out.collapsed"),
};

static bool has_bytes(const uint8_t *data, size_t size, size_t offset, const char *bytes, size_t length)
{
    return size >= length && offset <= size - length && memcmp(data + offset, bytes, length) == 0;
}

static const char *find_magic(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < STK_COUNT(magics); i++) {
        const magic *m = &magics[i];
        if (has_bytes(data, size, m->offset, m->bytes, m->size))
            return m->sentence;
    }
    return NULL;
}

/* ---- by more than the first bytes ---- */

/* Behind the letters stands a version, where a text has another letter. */
static bool is_mojo(const uint8_t *data, size_t size)
{
    return size > 3 && memcmp(data, "MOJ", 3) == 0 && data[3] < ' ';
}

static bool is_go_trace(const uint8_t *data, size_t size)
{
    return has_bytes(data, size, 0, "go 1.", 5) && stk__bytes_contain(data, size < 16 ? size : 16, " trace");
}

/* memray packs its recordings with lz4, whose first bytes are copied as they were. */
static bool is_packed_memray(const uint8_t *data, size_t size)
{
    return has_bytes(data, size, 0, "\x04\x22\x4d\x18", 4) && stk__bytes_contain(data, size < 32 ? size : 32, "memray");
}

/* A TFRecord whose first event says which version follows. */
static bool is_event_file(const uint8_t *data, size_t size)
{
    return stk__bytes_contain(data, size < 64 ? size : 64, "brain.Event:");
}

static bool is_zip(const uint8_t *data, size_t size)
{
    return has_bytes(data, size, 0, "PK\3\4", 4);
}

/* torch.save: the first member of the archive is NAME/data.pkl. */
static bool is_checkpoint(const uint8_t *data, size_t size)
{
    return is_zip(data, size) && stk__bytes_contain(data, size < 512 ? size : 512, "/data.pkl");
}

/* A varint at `*at`; false when it is cut off or too long. */
static bool take_varint(const uint8_t *data, size_t size, size_t *at, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < size; shift += 7) {
        const uint8_t byte = data[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* A pprof ValueType: two numbers of strings, its type and its unit, and nothing else. */
static bool is_value_type(const uint8_t *data, size_t size)
{
    uint64_t value;
    size_t at = 0;
    for (uint8_t tag = 0x08; tag <= 0x10; tag += 0x08) {
        if (at >= size || data[at++] != tag || !take_varint(data, size, &at, &value))
            return false;
    }
    return at == size;
}

/*
 * pprof has no magic number. Its message Profile is told by its fields: those of known numbers and kinds alone, with value types among the
 * first of them. profile.proto: 1 to 6, 11 and 15 are messages and texts, 7 to 10 and 12 to 14 numbers (13 may be packed).
 */
static bool is_pprof(const uint8_t *data, size_t size)
{
    size_t at = 0, types = 0, fields = 0;
    for (; at < size && fields < PPROF_FIELDS; fields++) {
        uint64_t tag, value;
        if (!take_varint(data, size, &at, &tag))
            break;
        const uint64_t field = tag >> 3;
        const bool text = field <= 6 || field == 11 || field == 15;
        if (field == 0 || field > 15 || ((tag & 7) != (text ? 2 : 0) && tag != 0x6a))
            return false;
        if (!take_varint(data, size, &at, &value))
            break;
        if ((tag & 7) == 0)
            continue;
        if (field == 1 && (value > size - at || !is_value_type(data + at, (size_t)value)))
            return false;
        types += field == 1;
        if (value > size - at)
            break;
        at += (size_t)value;
    }
    return types && fields > types;
}

static const struct {
    bool (*is)(const uint8_t *data, size_t size);
    const char *sentence;
} shapes[] = {
    {is_packed_memray, "a recording of memray: allocations, not time; memray flamegraph FILE shows it"},
    {is_mojo, "samples of Austin in its MOJO format; write them as stacks: mojo2austin FILE out.collapsed"},
    {is_go_trace, "an execution trace of Go; go tool trace FILE shows it"},
    {is_event_file, "an event file of TensorBoard: summaries, not a profile; profiles lie beside it, in "
                    "plugins/profile/*/*.xplane.pb"},
    {is_checkpoint, "a checkpoint of torch.save, not a profile"},
    {is_zip, "a zip archive; unpack it first: unzip FILE"},
    {is_pprof,
     "a profile of pprof; fold its stacks: go tool pprof -raw FILE > raw.txt, then stackcollapse-go.pl raw.txt > "
     "out.collapsed (FlameGraph)"},
};

/* ---- by words of a text ---- */

/* Where the words are looked for: in a text that starts as JSON does, at the start of another one, in its first line. */
typedef enum where { IN_JSON, AT_START, IN_LINE } where;

typedef struct text_kind {
    where where;
    const char *words[3]; /* all of them */
    const char *sentence;
} text_kind;

#define OWN_ROWS \
    "rows that stoker wrote for other programs, and does not read back; keep the trace, or convert it to .json or .pftrace"
#define ROCPROF "; run it again with: rocprofv3 --output-format pftrace, which is read"

#define FTRACE \
    "text of the kernel's ftrace (systrace, trace-cmd report), which is not read here; ui.perfetto.dev shows it"

static const text_kind texts[] = {
    {IN_JSON,
     {"\"nodes\"", "\"callFrame\"", "\"functionName\""},
     "a CPU profile of V8 (Chrome, Node.js); open it in speedscope.app and save it there: that file is read"},
    {IN_JSON, {"\"rocprofiler-sdk-tool\""}, "JSON of rocprofv3" ROCPROF},
    {IN_JSON,
     {"\"schema\"", "chakra", "\"nodes\""},
     "an execution trace of PyTorch (Chakra): ops and their order, not times; the profiler's export_chrome_trace is read"},
    {IN_JSON,
     {"\"preprocessedProfileVersion\""},
     "a profile of Firefox's profiler (also of samply); profiler.firefox.com shows it"},
    {IN_JSON,
     {"\"alloc_samples\"", "\"combined_stacks\""},
     "a profile of Scalene: shares of time by line; scalene view FILE shows it"},
    {IN_JSON,
     {"\"elapsed_time_sec\"", "\"growth_rate\""},
     "a profile of Scalene: shares of time by line; scalene view FILE shows it"},
    {IN_JSON, {"\"is_unfinished\":", "\"parent_id\":", "\"track\":"}, OWN_ROWS},
    {IN_JSON, {"\"type\":\"sample\",\"ts\":", "\"stack\":"}, OWN_ROWS},
    {IN_LINE, {"is_instant,is_unfinished,file"}, OWN_ROWS},
    {AT_START, {"\"Kind\",\"Agent_Id\""}, "a table of rocprofv3" ROCPROF},
    {AT_START, {"\"Domain\",\"Function\",\"Process_Id\""}, "a table of rocprofv3" ROCPROF},
    {IN_LINE,
     {"CPU Time:Effective Time"},
     "a table of VTune; report its stacks and fold them: stackcollapse-vtune.pl (FlameGraph)"},
    {AT_START, {"BeginHeader"}, "a dump of Windows' event tracing (xperf), which is not read here"},
    {AT_START, {"# tracer: "}, FTRACE},
    {AT_START, {"TRACE:\n# tracer: "}, FTRACE},
    {AT_START, {"# callgrind format"}, "a profile of Callgrind; callgrind_annotate FILE shows it"},
    {AT_START, {"<!DOCTYPE html"}, "a page of HTML, not the profile that it shows"},
    {AT_START, {"<!doctype html"}, "a page of HTML, not the profile that it shows"},
    {AT_START, {"<html"}, "a page of HTML, not the profile that it shows"},
};

static bool has_words(const text_kind *kind, const uint8_t *text, size_t size)
{
    if (kind->where == AT_START)
        return has_bytes(text, size, 0, kind->words[0], strlen(kind->words[0]));
    for (size_t i = 0; i < STK_COUNT(kind->words) && kind->words[i]; i++) {
        if (!stk__bytes_contain(text, size, kind->words[i]))
            return false;
    }
    return true;
}

const char *stk__foreign_text(const uint8_t *data, size_t size)
{
    const size_t start = stk__bytes_start(data, size);
    const uint8_t *text = data + start;
    const size_t left = STK_MIN(size - start, (size_t)WORDS_BYTES);
    if (!left)
        return NULL;
    const bool json = *text == '{' || *text == '[';
    const size_t most = STK_MIN(left, (size_t)LINE_BYTES);
    const uint8_t *end = memchr(text, '\n', most);
    const size_t line = end ? (size_t)(end - text) : most;
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        const where place = texts[i].where;
        if ((place == IN_JSON) == json && has_words(&texts[i], text, place == IN_LINE ? line : left))
            return texts[i].sentence;
    }
    return NULL;
}

const char *stk__foreign_magic(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < STK_COUNT(shapes); i++) {
        if (shapes[i].is(data, size))
            return shapes[i].sentence;
    }
    return find_magic(data, size);
}
