/* Times the questions of the trace workbench on one trace, synthetic or read from files, and prints lines of JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "analyze/intervals.h"
#include "analyze/sql.h"
#include "analyze/stacks.h"
#include "analyze/top.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

#include "base/banned.h"

typedef struct settings {
    int64_t rows, names, tracks, repeat;
    uint64_t memory_bytes;
    const char *cache_dir;
    const char *dump; /* folder for the columns as raw numbers, for other engines to read */
    const char *ask;  /* the only question */
    char **files;
    int file_count;
} settings;

static void fail(const char *what, const stk_error *err)
{
    fprintf(stderr, "trace_queries: %s: %s\n", what, err->message);
    exit(1);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* Not ru_maxrss, which also knows what the process was before exec. */
static uint64_t peak_bytes(void)
{
    char line[256];
    uint64_t kilobytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kilobytes = strtoull(line + 6, NULL, 10);
    }
    if (f)
        fclose(f);
    return kilobytes * 1024;
}

/* ---- a synthetic trace ---- */

typedef struct maker {
    stk__builder *builder;
    stk__string *names;
    const settings *settings;
    uint64_t drawn;
    int64_t left; /* slices still to make on this track */
} maker;

static uint64_t draw(maker *m)
{
    return stk__mix(m->drawn++, 20240229);
}

/* Durations over three octaves, around a scale that each name has; the tail is longer. */
static int64_t draw_duration(maker *m, uint64_t name)
{
    const uint64_t scale = (uint64_t)200 << (name % 8), r = draw(m);
    const uint64_t spread = (r & 1023) * (r >> 10 & 1023) >> 10;
    return (int64_t)(scale + (scale * spread >> 7) + (r >> 60 == 0 ? scale * 20 : 0));
}

/* A slice with a few children inside, whose names follow from its own as with code that calls code; returns its end. */
static int64_t make_slice(maker *m, uint32_t track, int64_t ts, uint64_t name, int depth)
{
    int64_t at = ts + (int64_t)(draw(m) % 100);
    m->left--;
    const uint64_t children = depth < 6 ? draw(m) % 4 : 0;
    for (uint64_t i = 0; i < children && m->left > 0; i++)
        at = make_slice(m, track, at, stk__mix(name, i) % (uint64_t)m->settings->names, depth + 1) +
             (int64_t)(draw(m) % 50);
    const int64_t end = at + draw_duration(m, name);
    stk__builder_slice(m->builder, track, ts, end - ts, m->names[name], m->names[name % 5], -1);
    return end;
}

static stk__trace *make_trace(const settings *s)
{
    stk_error err;
    stk_error_clear(&err);
    maker m = {.settings = s};
    const stk__trace_options options = {0};
    if (stk__builder_new(&options, &m.builder, &err) != STK_OK)
        fail("builder", &err);
    stk__builder_start_file(m.builder, "synthetic", "chrome");
    m.names = malloc((size_t)s->names * sizeof *m.names);
    for (int64_t i = 0; m.names && i < s->names; i++) {
        char name[64];
        snprintf(name, sizeof name, "Iterator::Stage%lld::Op", (long long)i);
        m.names[i] = stk__builder_str(m.builder, name);
    }
    const uint32_t process = stk__builder_process(m.builder, 1, 0);
    for (int64_t k = 0; k < s->tracks; k++) {
        const uint32_t thread = stk__builder_thread(m.builder, process, k + 1, 0);
        const uint32_t track = stk__builder_thread_track(m.builder, thread);
        m.left = s->rows * (k + 1) / s->tracks - s->rows * k / s->tracks;
        for (int64_t at = 0; m.left > 0;)
            at = make_slice(&m, track, at, draw(&m) % (uint64_t)(s->names / 8 + 1), 0) + (int64_t)(draw(&m) % 5000);
    }
    stk__trace *t;
    if (stk__builder_finish(m.builder, &t, &err) != STK_OK)
        fail("finish", &err);
    free(m.names);
    return t;
}

/* ---- questions ---- */

static uint64_t ask_top(const stk__trace *t)
{
    stk__top top;
    stk_error err;
    const stk__top_options options = {0};
    if (stk__top_make(t, STK__TOP_SLICES, &options, &top, &err) != STK_OK)
        fail("top", &err);
    uint64_t sum = 0;
    for (size_t i = 0; i < top.count; i++)
        sum += (uint64_t)(top.rows[i].p50 + top.rows[i].p95 + top.rows[i].self);
    stk__top_clear(&top);
    return sum;
}

static uint64_t ask_top_thread(const stk__trace *t)
{
    stk__top top;
    stk_error err;
    const stk__top_options options = {.by = STK__TOP_THREAD};
    if (stk__top_make(t, STK__TOP_SLICES, &options, &top, &err) != STK_OK)
        fail("top by thread", &err);
    const uint64_t count = top.count;
    stk__top_clear(&top);
    return count;
}

static uint64_t ask_top_like(const stk__trace *t)
{
    static const char *const like[] = {"*Stage1*"};
    stk__top top;
    stk_error err;
    const stk__top_options options = {.select = {.like = like, .like_count = 1}};
    if (stk__top_make(t, STK__TOP_SLICES, &options, &top, &err) != STK_OK)
        fail("top of some names", &err);
    const uint64_t count = top.count;
    stk__top_clear(&top);
    return count;
}

/* All gaps of 1 us and more are made, as a window query makes its rows. */
static uint64_t ask_gaps(const stk__trace *t)
{
    stk__gaps gaps;
    stk_error err;
    if (stk__gaps_find(t, NULL, 1000, 0, &gaps, &err) != STK_OK)
        fail("gaps", &err);
    uint64_t sum = gaps.count;
    for (size_t i = 0; i < gaps.count; i++)
        sum += (uint64_t)gaps.rows[i].dur;
    stk__gaps_clear(&gaps);
    return sum;
}

static uint64_t ask_longest_gaps(const stk__trace *t)
{
    stk__gaps gaps;
    stk_error err;
    if (stk__gaps_find(t, NULL, 0, 20, &gaps, &err) != STK_OK)
        fail("longest gaps", &err);
    const uint64_t longest = gaps.count ? (uint64_t)gaps.rows[0].dur : 0;
    stk__gaps_clear(&gaps);
    return longest;
}

static uint64_t ask_union(const stk__trace *t)
{
    stk__spans spans;
    stk_error err;
    if (stk__spans_union(t, NULL, &spans, &err) != STK_OK)
        fail("union", &err);
    const uint64_t total = (uint64_t)stk__spans_total(&spans);
    stk__spans_clear(&spans);
    return total;
}

static uint64_t ask_overlap(const stk__trace *t)
{
    static const char *const some[] = {"*Stage1*"}, *const others[] = {"*Stage2*"};
    const stk__selection a = {.like = some, .like_count = 1}, b = {.like = others, .like_count = 1};
    stk__overlap overlap;
    stk_error err;
    if (stk__overlap_of(t, &a, &b, &overlap, &err) != STK_OK)
        fail("overlap", &err);
    return (uint64_t)overlap.both_ns;
}

static uint64_t ask_stacks(const stk__trace *t)
{
    stk__stacks stacks;
    stk_error err;
    if (stk__stacks_make(t, NULL, false, &stacks, &err) != STK_OK)
        fail("stacks", &err);
    const uint64_t count = stacks.count;
    stk__stacks_clear(&stacks);
    return count;
}

/* A new connection each time, which knows nothing of what others have sorted. */
static uint64_t query(const stk__trace *t, bool plain)
{
    static const char text[] =
        "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20";
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    stk_error err;
    if (stk__sql_open(t, &db, &err) != STK_OK)
        fail("SQL", &err);
    int code =
        plain ? sqlite3_prepare_v2(db, text, -1, &statement, NULL) : stk__sql_prepare(db, text, &statement, NULL);
    uint64_t sum = 0;
    while (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        sum += (uint64_t)sqlite3_column_int64(statement, 1) + (uint64_t)sqlite3_column_int64(statement, 3) +
               (uint64_t)sqlite3_column_int64(statement, 4);
    if (code == SQLITE_OK)
        code = sqlite3_finalize(statement);
    if (code != SQLITE_OK) {
        fprintf(stderr, "trace_queries: SQL: %s\n", sqlite3_errstr(code));
        exit(1);
    }
    sqlite3_close(db);
    return sum;
}

static uint64_t ask_sql(const stk__trace *t)
{
    return query(t, false);
}

/* Without our eye on the statement, so that SQLite reads row by row. */
static uint64_t ask_sql_rows(const stk__trace *t)
{
    return query(t, true);
}

typedef struct question {
    const char *name;
    uint64_t (*ask)(const stk__trace *t);
} question;

static const question questions[] = {
    {"top", ask_top},
    {"top_by_thread", ask_top_thread},
    {"top_like", ask_top_like},
    {"gaps", ask_gaps},
    {"longest_gaps", ask_longest_gaps},
    {"union", ask_union},
    {"overlap", ask_overlap},
    {"stacks", ask_stacks},
    {"sql", ask_sql},
    {"sql_rows", ask_sql_rows},
};

static const question *find_question(const char *name)
{
    for (size_t i = 0; i < STK_COUNT(questions); i++) {
        if (strcmp(name, questions[i].name) == 0)
            return &questions[i];
    }
    return NULL;
}

/* ---- output ---- */

static void dump_column(const char *folder, const char *name, const void *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        fprintf(stderr, "trace_queries: cannot write %s\n", path);
        exit(1);
    }
}

static void dump(const stk__trace *t, const char *folder)
{
    const stk__slices *s = &t->slices;
    dump_column(folder, "ts.i64", s->ts, s->count * sizeof *s->ts);
    dump_column(folder, "dur.i64", s->dur, s->count * sizeof *s->dur);
    dump_column(folder, "track.u32", s->track, s->count * sizeof *s->track);
    dump_column(folder, "name.u32", s->name, s->count * sizeof *s->name);
    dump_column(folder, "depth.u16", s->depth, s->count * sizeof *s->depth);
    dump_column(folder, "strings.nul", t->string_bytes, t->string_offset[t->string_count]);
}

static double megabytes(const settings *s)
{
    double sum = 0;
    for (int i = 0; i < s->file_count; i++) {
        struct stat st;
        sum += stat(s->files[i], &st) == 0 ? (double)st.st_size / 1e6 : 0;
    }
    return sum;
}

static void print_load(const settings *s, const stk__trace *t, double seconds)
{
    uint64_t events = 0;
    for (size_t i = 0; i < t->file_count; i++)
        events += t->files[i].events;
    const uint64_t bytes = stk__trace_bytes(t), peak = peak_bytes();
    printf("{\"rows\": %zu, \"tracks\": %zu, \"events\": %" PRIu64
           ", \"seconds\": %.6f, \"cpu_s\": %.6f, \"bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64
           ", \"beyond_bytes\": %" PRIu64 ", \"spilled\": %s",
           t->slices.count, t->track_count, events, seconds, cpu_seconds(), bytes, peak,
           peak > bytes ? peak - bytes : 0, stk__trace_spilled(t) ? "true" : "false");
    if (events)
        printf(", \"mb_per_s\": %.3f, \"cpu_per_1000\": %.9f", megabytes(s) / seconds,
               1000 * cpu_seconds() / (double)events);
    printf("}\n");
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Asked once more before, which is not counted: the first time finds nothing prepared. */
static void print_answer(const stk__trace *t, const question *q, int64_t repeat)
{
    double *times = calloc((size_t)repeat, sizeof *times);
    if (!times)
        abort();
    const uint64_t answer = q->ask(t);
    const double cpu = cpu_seconds();
    for (int64_t i = 0; i < repeat; i++) {
        const int64_t start = stk__now_ns();
        if (q->ask(t) != answer)
            abort();
        times[i] = (double)(stk__now_ns() - start) * 1e-9;
    }
    const double used = (cpu_seconds() - cpu) / (double)repeat;
    qsort(times, (size_t)repeat, sizeof *times, by_size);
    const size_t rows = t->slices.count ? t->slices.count : 1;
    printf("{\"question\": \"%s\", \"seconds\": %.9f, \"answer\": %" PRIu64
           ", \"cpu_s\": %.6f, \"cpu_per_1000\": %.9f, \"peak_bytes\": %" PRIu64 "}\n",
           q->name, (times[(repeat - 1) / 2] + times[repeat / 2]) / 2, answer, used, 1000 * used / (double)rows,
           peak_bytes());
    free(times);
}

static int usage(void)
{
    fprintf(stderr,
            "usage: trace_queries [--rows N] [--names N] [--tracks N] [--repeat N] [--dump DIR]\n"
            "                     [--memory SIZE] [--cache-dir DIR] [--ask QUESTION] [FILE]...\n"
            "All questions unless told; --repeat 0: none. A line for the loading, one for each question: the median\n"
            "of --repeat times.\n");
    return 2;
}

static bool parse(settings *s, int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        int64_t number = 0;
        if (strcmp(argv[i], "--dump") == 0) {
            s->dump = argv[i + 1];
            continue;
        }
        if (strcmp(argv[i], "--ask") == 0) {
            s->ask = argv[i + 1];
            continue;
        }
        if (strcmp(argv[i], "--cache-dir") == 0) {
            s->cache_dir = argv[i + 1];
            continue;
        }
        if (strcmp(argv[i], "--memory") == 0) {
            if (!stk__parse_size(argv[i + 1], &s->memory_bytes))
                return false;
            continue;
        }
        if (!stk__parse_int64(argv[i + 1], &number) || number < 0)
            return false;
        if (strcmp(argv[i], "--rows") == 0)
            s->rows = number;
        else if (strcmp(argv[i], "--names") == 0 && number)
            s->names = number;
        else if (strcmp(argv[i], "--tracks") == 0 && number)
            s->tracks = number;
        else if (strcmp(argv[i], "--repeat") == 0)
            s->repeat = number;
        else
            return false;
    }
    s->files = argv + i;
    s->file_count = argc - i;
    return (!s->ask || find_question(s->ask)) && (i == argc || strncmp(argv[i], "--", 2) != 0);
}

int main(int argc, char **argv)
{
    settings s = {.rows = 10000000, .names = 1000, .tracks = 64, .repeat = 5};
    if (!parse(&s, argc, argv))
        return usage();
    stk__trace *t = NULL;
    const int64_t start = stk__now_ns();
    if (s.file_count) {
        stk_error err;
        stk_error_clear(&err);
        const stk__trace_options options = {.memory_bytes = s.memory_bytes, .cache_dir = s.cache_dir};
        if (stk__trace_open((const char *const *)s.files, (size_t)s.file_count, &options, &t, &err) != STK_OK)
            fail("open", &err);
    } else {
        t = make_trace(&s);
    }
    print_load(&s, t, (double)(stk__now_ns() - start) * 1e-9);
    if (s.dump)
        dump(t, s.dump);
    for (size_t i = 0; s.repeat && i < STK_COUNT(questions); i++) {
        if (!s.ask || find_question(s.ask) == &questions[i])
            print_answer(t, &questions[i], s.repeat);
    }
    stk__trace_free(t);
    return 0;
}
