/*
 * Fuzz target: whole pipelines, opened and run for a few batches. Inputs that begin with S draw ops and options from the
 * registry, so that every op and every option is reached, those with I ops over pictures; others are pipeline text. '@'
 * stands for a private directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <stoker/pipeline.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/example.h"
#include "formats/records.h"
#include "formats/tfrecord.h"

#define MAX_BATCHES 50
#define RUN_MS 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];
static stk_registry *registry;
static _Atomic(stk_pipeline *) running;

static void require(int condition)
{
    if (!condition)
        abort();
}

static bool is_fixture(const char *name)
{
    return strcmp(name, "a") == 0 || strcmp(name, "b.gz") == 0 || strcmp(name, "t") == 0 || strcmp(name, "bad") == 0 ||
           strcmp(name, "p") == 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    return remove(path);
}

/* Removes what a run wrote, directories too, or everything. */
static void clean(bool all)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[512];
        if (e->d_name[0] != '.' && (all || !is_fixture(e->d_name)) &&
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
            nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (dir)
        closedir(dir);
}

static void remove_folder(void)
{
    stk_registry_free(registry);
    clean(true);
    rmdir(folder);
}

static void on_alarm(int number)
{
    (void)number;
    stk_pipeline *p = atomic_load(&running);
    if (p)
        stk_pipeline_cancel(p);
}

static void write_fixture(const char *name, stk__compression compression)
{
    /* {x: [i]} as tf.train.Example. */
    uint8_t example[] = {0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, 'x', 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0};
    char path[128];
    stk__tfrecord_writer *w;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    require(stk__tfrecord_writer_open(path, compression, 1, &w, NULL) == STK_OK);
    for (uint8_t i = 0; i < 30; i++) {
        example[sizeof example - 1] = i;
        require(stk__tfrecord_writer_add(w, example, i == 20 && name[0] == 'b' ? 5 : sizeof example, NULL) == STK_OK);
    }
    require(stk__tfrecord_writer_commit(w, NULL) == STK_OK);
}

/* A gray picture of w x h pixels as BMP, which needs no checksums; returns its size. */
static uint8_t write_bmp(uint8_t *out, uint8_t w, uint8_t h)
{
    const uint8_t stride = (uint8_t)((w * 3 + 3) / 4 * 4), size = (uint8_t)(54 + stride * h);
    memset(out, 0, size);
    memcpy(out, "BM", 2);
    out[2] = size;
    out[10] = 54;
    out[14] = 40;
    out[18] = w;
    out[22] = h;
    out[26] = 1;
    out[28] = 24;
    for (int i = 54; i < size; i++)
        out[i] = (uint8_t)(i * 37);
    return size;
}

/* Examples {image: a picture of some size, or none, x: [i]}. */
static void write_pictures(const char *name)
{
    char path[128];
    stk__tfrecord_writer *w;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    require(stk__tfrecord_writer_open(path, STK__PLAIN, 1, &w, NULL) == STK_OK);
    stk__example_writer e = {0};
    stk__text record = STK__TEXT_INIT;
    for (int64_t i = 0; i < 30; i++) {
        uint8_t image[256];
        const stk_bytes bytes = {image, i == 17 ? 9 : write_bmp(image, (uint8_t)(1 + i % 7), (uint8_t)(1 + i % 5))};
        stk__text_reset(&record);
        stk__example_begin(&e);
        stk__example_add_bytes(&e, "image", &bytes, 1);
        stk__example_add_ints(&e, "x", &i, 1);
        require(stk__example_end(&e, &record, NULL) == STK_OK);
        require(stk__tfrecord_writer_add(w, record.data, record.length, NULL) == STK_OK);
    }
    stk__text_clear(&record);
    stk__example_writer_clear(&e);
    require(stk__tfrecord_writer_commit(w, NULL) == STK_OK);
}

static void write_text(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    require(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* without a disk, runs are faster */
    snprintf(folder, sizeof folder, "%s/fuzz-pipeline-%ld", base, (long)getpid());
    require(mkdir(folder, 0700) == 0);
    require(stk_registry_new(&registry, NULL) == STK_OK);
    atexit(remove_folder);
    write_fixture("a", STK__PLAIN);
    write_fixture("b.gz", STK__GZIP);
    write_pictures("p");
    write_text("t", "one\ntwo\r\nthree");
    write_text("bad", "this is no file of records, whoever reads it");
    const int null = open("/dev/null", O_RDONLY);
    require(null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
    close(null);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
}

/* ---- running ---- */

static void on_log(void *arg, stk_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    require(text[0] != 0);
}

static stk_status on_print(void *arg, const char *text, size_t size, stk_error *err)
{
    (void)err;
    for (size_t i = 0; i < size; i++)
        *(uint8_t *)arg = (uint8_t)(*(uint8_t *)arg + (uint8_t)text[i]);
    return STK_OK;
}

static void set_alarm(int ms)
{
    const struct itimerval timer = {.it_value = {.tv_usec = ms * 1000}, .it_interval = {.tv_usec = ms * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void take_batches(stk_pipeline *p, stk_digest *digest)
{
    stk_error err;
    stk_error_clear(&err);
    stk_status status = STK_OK;
    for (int i = 0; i < MAX_BATCHES && status == STK_OK; i++) {
        const stk_batch *batch;
        status = stk_pipeline_next(p, &batch, &err);
        if (status != STK_OK)
            break;
        require(batch->rows > 0 && batch->column_count > 0);
        stk_digest_add(digest, batch);
        status = stk_pipeline_consume(p, batch, &err);
        stk_batch_release(p, batch);
    }
    if (status == STK_END || status == STK_OK)
        status = stk_pipeline_finish(p, &err);
    require(status == STK_OK || err.message[0]);
}

static void run(const char *text, uint8_t policy)
{
    uint8_t printed = 0;
    const stk_config config = {.struct_size = sizeof config, .registry = registry, .threads = 2, .memory_bytes = 4 << 20,
                               .seed = 7, .on_error = policy % 2 ? STK_ON_ERROR_SKIP : STK_ON_ERROR_STOP,
                               .no_approximate = policy & 2, .log = on_log, .print = on_print, .print_arg = &printed};
    stk_pipeline *p;
    stk_error err;
    stk_error_clear(&err);
    if (stk_pipeline_open(text, &config, &p, &err) != STK_OK) {
        require(err.message[0] != 0);
        return;
    }
    stk_digest *digest;
    require(stk_pipeline_explain(p)[0] && stk_pipeline_explain_json(p)[0] == '{');
    require(stk_digest_new(&digest, NULL) == STK_OK);
    atomic_store(&running, p);
    set_alarm(RUN_MS);
    take_batches(p, digest);
    set_alarm(0);
    atomic_store(&running, NULL);
    stk_stats stats;
    stk_pipeline_stats(p, &stats);
    require(stats.peak_buffer_bytes <= stats.budget_bytes);
    stk_digest_free(digest);
    stk_pipeline_close(p);
    clean(false);
}

/* ---- text ---- */

/* Texts could write anywhere: names that may be written to must begin with '@'. */
static bool is_safe(const char *text)
{
    if (strpbrk(text, "/~") || strstr(text, ".."))
        return false;
    if (!strstr(text, "write_") && !strstr(text, "cache"))
        return true;
    if (strpbrk(text, "\\'"))
        return false;
    bool inside = false;
    for (const char *p = text; *p; p++) {
        if (*p == '"' && !inside && p[1] != '@' && strncmp(p + 1, "value", 5) != 0)
            return false;
        inside ^= *p == '"';
    }
    return true;
}

static void run_text(const uint8_t *data, size_t size, uint8_t policy)
{
    char *text = stk__strndup((const char *)data, size);
    stk__text out = STK__TEXT_INIT;
    if (!text || !is_safe(text)) {
        stk__free(text);
        return;
    }
    for (const char *p = text; *p; p++) {
        if (*p == '@')
            stk__text_printf(&out, "%s/", folder);
        else
            stk__text_putc(&out, *p);
    }
    if (out.data && !out.failed)
        run(out.data, policy);
    stk__text_clear(&out);
    stk__free(text);
}

/* ---- structure ---- */

typedef struct supply {
    const uint8_t *p, *end;
} supply;

static unsigned draw(supply *s, unsigned choices)
{
    return s->p < s->end ? *s->p++ % choices : 0;
}

#define PICK(s, list) (list)[draw(s, (unsigned)STK_COUNT(list))]

static const char *const field_names[] = {"value", "record", "text", "x", "y", "image"};
static const char *const type_names[] = {"int64", "float32", "bytes", "uint8", "bool", "float16", "uint64"};

static bool image_fields; /* ops work on the pictures, apart from a few */

static const char *draw_field(supply *s)
{
    const char *name = PICK(s, field_names);
    return image_fields && strcmp(name, "x") != 0 ? "image" : name;
}

static void put_type(supply *s, stk__text *t)
{
    static const char *const dims[] = {"", "[]", "[1]", "[2,3]", "[,2]", "[0]", "[1000000]"};
    static const char *const mods[] = {"", "", "(default=1)", "(default=\"d\")", "(from=\"x\")", "(sequence=true)"};
    stk__text_puts(t, PICK(s, type_names));
    stk__text_puts(t, PICK(s, dims));
    stk__text_puts(t, PICK(s, mods));
}

static void put_int(supply *s, const stk_option *o, stk__text *t)
{
    const int64_t values[] = {1, 2, 3, 5, 10, 1000, 0, -1, o->min, o->max, INT64_MAX, INT64_MIN + 1};
    stk__text_printf(t, "%lld", (long long)PICK(s, values));
}

static void put_float(supply *s, const stk_option *o, stk__text *t)
{
    const double values[] = {0, 1, 0.5, o->min_number, o->max_number, (int)draw(s, 256) - 128 + 0.5};
    stk__text_printf(t, "%.17g", PICK(s, values));
}

static void put_string(supply *s, const char *option, stk__text *t)
{
    static const char *const paths[] = {"@a", "@b.gz", "@t", "@*", "@a*", "@none", "@bad", ""};
    static const char *const expressions[] = {"value < 5",     "x > 1 and x < 9",   "text != \"one\"", "value % 3 == 0",
                                              "not (x == 2)", "value / 0 > 1", "record == \"\"", "true", "value < 0", "("};
    stk__text one = STK__TEXT_INIT;
    if (strcmp(option, "where") == 0)
        stk__text_puts(&one, PICK(s, expressions));
    else if (strcmp(option, "path") == 0)
        stk__text_puts(&one, draw(s, 2) ? "@out-%d" : "@out");
    else
        stk__text_puts(&one, PICK(s, paths));
    stk__text_json_str(t, one.data ? one.data : "");
    stk__text_clear(&one);
}

static void put_value(supply *s, const stk_option *o, stk__text *t)
{
    switch (o->kind) {
    case STK_OPTION_INT:
    case STK_OPTION_SIZE:
        put_int(s, o, t);
        break;
    case STK_OPTION_FLOAT:
        put_float(s, o, t);
        break;
    case STK_OPTION_NUMBERS:
        stk__text_putc(t, '[');
        for (unsigned i = 0, n = draw(s, 5); i < n; i++) {
            stk__text_puts(t, i ? ", " : "");
            put_float(s, o, t);
        }
        stk__text_putc(t, ']');
        break;
    case STK_OPTION_BOOL:
        stk__text_puts(t, draw(s, 2) ? "true" : "false");
        break;
    case STK_OPTION_ENUM: {
        unsigned count = 0;
        while (o->choices[count])
            count++;
        stk__text_puts(t, o->choices[draw(s, count)]);
        break;
    }
    case STK_OPTION_STRING:
    case STK_OPTION_STRINGS:
        put_string(s, o->name, t);
        break;
    case STK_OPTION_FIELD:
    case STK_OPTION_FIELDS:
        stk__text_puts(t, draw_field(s));
        break;
    case STK_OPTION_ARGS:
        if (draw(s, 4) == 0)
            stk__text_puts(t, draw_field(s));
        else
            put_type(s, t);
        break;
    }
}

static void put_op(supply *s, const stk_op *op, stk__text *t)
{
    stk__text_printf(t, "%s(", op->name);
    int written = 0;
    for (const stk_option *o = op->options; o && o->name; o++) {
        const unsigned repeat = o->kind == STK_OPTION_ARGS ? 1 + draw(s, 3) : o->required || draw(s, 2);
        for (unsigned i = 0; i < repeat; i++) {
            stk__text_printf(t, "%s%s=", written++ ? ", " : "", o->kind == STK_OPTION_ARGS ? draw_field(s) : o->name);
            put_value(s, o, t);
        }
    }
    stk__text_putc(t, ')');
}

static const stk_op *draw_op(supply *s, bool source)
{
    const stk_op *fits[128];
    unsigned count = 0;
    for (size_t i = 0; i < stk_registry_count(registry) && count < STK_COUNT(fits); i++) {
        const stk_op *op = stk_registry_op(registry, i);
        if ((op->role == STK_ROLE_SOURCE) == source)
            fits[count++] = op;
    }
    return fits[draw(s, count)];
}

static void run_structure(const uint8_t *data, size_t size, bool pictures)
{
    supply s = {data, data + size};
    stk__text t = STK__TEXT_INIT, out = STK__TEXT_INIT;
    const uint8_t policy = (uint8_t)draw(&s, 4);
    image_fields = pictures;
    if (pictures)
        stk__text_printf(&t, "tfrecord(\"@p\") | parse(image=bytes, x=int64) | decode_image(image, channels=%u)", draw(&s, 5));
    else
        put_op(&s, draw_op(&s, true), &t);
    for (unsigned left = 8; left > 0 && s.p < s.end; left--) {
        stk__text_puts(&t, " | ");
        put_op(&s, draw_op(&s, false), &t);
    }
    for (const char *p = t.data; p && *p; p++) {
        if (*p == '@')
            stk__text_printf(&out, "%s/", folder);
        else
            stk__text_putc(&out, *p);
    }
    if (getenv("FUZZ_SHOW"))
        fprintf(stderr, "%s\n", out.data);
    if (out.data && !out.failed)
        run(out.data, policy);
    stk__text_clear(&t);
    stk__text_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        prepare();
    if (size > 0 && (data[0] == 'S' || data[0] == 'I'))
        run_structure(data + 1, size - 1, data[0] == 'I');
    else
        run_text(data, size, (uint8_t)size);
    return 0;
}
