/* Lexicons: lines of CMUdict into one table of words and one blob of words and phonemes. */
#include "g2p/lexicon.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stoker/g2p.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "g2p/accents.h"

#include "base/banned.h"

/* A file holds no more than this, so that a mistaken name does not fill the memory. */
#define FILE_MAX ((size_t)256 << 20)
/* Variants are a list: this many keep the search for its end short, whatever the file says. */
#define VARIANTS_MAX 64
/* Records are found by offsets of 32 bits; 0 is none. */
#define BLOB_START 4

typedef struct slot {
    uint32_t tag; /* the lower half of the hash, whose lowest bits are also the place */
    uint32_t at;  /* of the record in the blob; 0: free */
} slot;

/* What stands before the bytes of the word and the ids. Variants have no word. Not aligned. */
typedef struct record {
    uint32_t next; /* the next variant; 0: none */
    uint16_t word_size, id_count;
} record;

struct stk__lexicon {
    slot *slots;
    size_t slot_count; /* a power of two; half of them at most are taken */
    size_t words;
    uint8_t *blob;
    size_t blob_size, blob_capacity;
    uint64_t fingerprint;
    uint64_t seed; /* differs from run to run, so that no file can be made whose words all meet in one slot */
};

/* A file is read in pieces of this size, or of one line where that is longer. */
#define WINDOW ((size_t)256 * 1024)

static record record_at(const stk__lexicon *x, uint32_t at)
{
    record r;
    memcpy(&r, x->blob + at, sizeof r);
    return r;
}

static uint32_t tag_of(const stk__lexicon *x, const char *word, size_t size)
{
    return (uint32_t)XXH3_64bits_withSeed(word, size, x->seed);
}

static bool is_word(const stk__lexicon *x, uint32_t at, const char *word, size_t size)
{
    return record_at(x, at).word_size == size && memcmp(x->blob + at + sizeof(record), word, size) == 0;
}

/* The slot of a word, or the free one where it would be. */
static size_t find_slot(const stk__lexicon *x, uint32_t tag, const char *word, size_t size)
{
    const size_t mask = x->slot_count - 1;
    size_t i = tag & mask;
    while (x->slots[i].at && (x->slots[i].tag != tag || !is_word(x, x->slots[i].at, word, size)))
        i = (i + 1) & mask;
    return i;
}

static size_t give(const stk__lexicon *x, uint32_t at, const uint8_t **out_ids)
{
    const record r = record_at(x, at);
    *out_ids = x->blob + at + sizeof r + r.word_size;
    return r.id_count;
}

size_t stk__lexicon_variant(const stk__lexicon *x, const char *word, size_t size, size_t n, const uint8_t **out_ids)
{
    uint32_t at = x->slots[find_slot(x, tag_of(x, word, size), word, size)].at;
    for (; at && n; n--)
        at = record_at(x, at).next;
    return at ? give(x, at, out_ids) : 0;
}

size_t stk__lexicon_find(const stk__lexicon *x, const char *word, size_t size, const uint8_t **out_ids)
{
    const uint32_t at = x->slots[find_slot(x, tag_of(x, word, size), word, size)].at;
    return at ? give(x, at, out_ids) : 0;
}

/* Slots of all of them are on their way before the first is looked at, then records. */
static void find_block(const stk__lexicon *x, stk__lexicon_query *queries, size_t count, uint32_t *tags)
{
    const size_t mask = x->slot_count - 1;
    for (size_t i = 0; i < count; i++) {
        tags[i] = tag_of(x, queries[i].word, queries[i].size);
        __builtin_prefetch(&x->slots[tags[i] & mask]);
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t at = x->slots[tags[i] & mask].at;
        __builtin_prefetch(x->blob + at);
    }
    for (size_t i = 0; i < count; i++) {
        stk__lexicon_query *q = &queries[i];
        const uint32_t at = x->slots[find_slot(x, tags[i], q->word, q->size)].at;
        q->ids = NULL;
        q->count = at ? give(x, at, &q->ids) : 0;
    }
}

void stk__lexicon_find_many(const stk__lexicon *x, stk__lexicon_query *queries, size_t count)
{
    uint32_t tags[32];
    for (size_t first = 0; first < count; first += STK_COUNT(tags))
        find_block(x, queries + first, STK_MIN(STK_COUNT(tags), count - first), tags);
}

/* ---- reading ---- */

typedef struct reader {
    stk__lexicon *lexicon;
    const stk__g2p_memory *memory;
    int64_t charged; /* for the lexicon so far, and the window */
    XXH3_state_t hash; /* of the file */
    const char *name;
    stk_error *err;
    int line;
    size_t first;                  /* records of this file start here in the blob */
    stk__folded folded;            /* for words with accents */
    uint32_t names[STK_G2P_SPACE]; /* of phonemes: up to three bytes */
    uint8_t ids[4096];             /* by key_of(name) */
} reader;

static uint32_t pack_name(const char *name, size_t size)
{
    const unsigned char *p = (const unsigned char *)name;
    return (uint32_t)p[0] | (size > 1 ? (uint32_t)p[1] << 8 : 0) | (size > 2 ? (uint32_t)p[2] << 16 : 0);
}

/* Differs for all phonemes: "UW", "UW0", "B"; others may share it. */
static uint32_t key_of(uint32_t packed, size_t size)
{
    return (packed & 31) | (packed >> 8 & 31) << 5 | (size > 2 ? packed >> 16 & 3 : 3) << 10;
}

static void reader_init(reader *r, stk__lexicon *lexicon)
{
    *r = (reader){.lexicon = lexicon};
    for (size_t id = STK_G2P_FIRST; id < STK_G2P_SPACE; id++) {
        const char *name = stk_g2p_symbol(id);
        const size_t size = strlen(name);
        r->names[id] = pack_name(name, size);
        r->ids[key_of(r->names[id], size)] = (uint8_t)id;
    }
}

/* The phoneme of this name; 0: there is none. */
static uint8_t phoneme(const reader *r, const char *name, size_t size)
{
    const uint32_t packed = pack_name(name, size);
    const uint8_t id = size <= 3 ? r->ids[key_of(packed, size)] : 0;
    return id && r->names[id] == packed ? id : 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static stk_status fail_at_line(const reader *r, stk_status status)
{
    if (r->err) {
        snprintf(r->err->file, sizeof r->err->file, "%s", r->name ? r->name : "");
        r->err->line = r->line;
        r->err->column = 0;
    }
    return status;
}

static stk_status fail_phoneme(const reader *r, const char *name, size_t size)
{
    stk_error_set(r->err, STK_CORRUPT, "'%.*s%s' is no phoneme, wanted those of CMUdict with stress, as in AA1 or HH",
                  (int)STK_MIN(size, 24), name, size > 24 ? "..." : "");
    return fail_at_line(r, STK_CORRUPT);
}

static stk_status fail_size(const reader *r, const char *what, size_t size)
{
    stk_error_set(r->err, STK_CORRUPT, "%s of %zu, wanted at most %d", what, size, UINT16_MAX);
    return fail_at_line(r, STK_CORRUPT);
}

static stk_status fail_memory(const reader *r, size_t size)
{
    stk__nomem(size, r->err);
    return fail_at_line(r, STK_NOMEM);
}

/* Asks for memory before it is taken. */
static stk_status take(reader *r, int64_t bytes)
{
    const stk_status status = stk__g2p_charge(r->memory, bytes, r->err);
    if (status != STK_OK)
        return fail_at_line(r, status);
    r->charged += bytes;
    return STK_OK;
}

static void give_back(reader *r, int64_t bytes)
{
    stk__g2p_charge(r->memory, -bytes, NULL);
    r->charged -= bytes;
}

/* Words lie in slots by the tag alone, so a larger table is made without looking at them. */
static stk_status grow_slots(reader *r)
{
    stk__lexicon *x = r->lexicon;
    if ((x->words + 1) * 2 <= x->slot_count)
        return STK_OK;
    const size_t count = !x->slot_count ? 256 : x->slot_count * (x->slot_count < 65536 ? 4 : 2);
    STK_TRY(take(r, (int64_t)(count * sizeof(slot))));
    slot *slots = count <= (size_t)1 << 31 ? stk__calloc(count, sizeof *slots) : NULL;
    if (!slots)
        return fail_memory(r, count * sizeof *slots);
    for (size_t i = 0; i < x->slot_count; i++) {
        size_t k = x->slots[i].tag & (count - 1);
        if (!x->slots[i].at)
            continue;
        while (slots[k].at)
            k = (k + 1) & (count - 1);
        slots[k] = x->slots[i];
    }
    stk__free(x->slots);
    give_back(r, (int64_t)(x->slot_count * sizeof *slots));
    x->slots = slots;
    x->slot_count = count;
    return STK_OK;
}

/* Room for `size` bytes in the blob. Half as much again, so that what is charged is near to what is used. */
static stk_status grow_blob(reader *r, size_t size)
{
    stk__lexicon *x = r->lexicon;
    if (STK_LIKELY(size <= x->blob_capacity))
        return STK_OK;
    const size_t capacity = STK_MAX(size, STK_MAX(x->blob_capacity + x->blob_capacity / 2, (size_t)4096));
    STK_TRY(take(r, (int64_t)(capacity - x->blob_capacity)));
    uint8_t *blob = stk__realloc(x->blob, capacity);
    if (!blob)
        return fail_memory(r, capacity);
    x->blob = blob;
    x->blob_capacity = capacity;
    return STK_OK;
}

/* Without the "(2)" behind it. */
static size_t strip_number(const char *word, size_t size)
{
    size_t i = size;
    if (size < 4 || word[size - 1] != ')')
        return size;
    for (i = size - 1; i > 0 && word[i - 1] >= '0' && word[i - 1] <= '9'; i--)
        continue;
    return i < size - 1 && i > 1 && word[i - 1] == '(' ? i - 1 : size;
}

enum { HAS_CONTROL = 1, HAS_OTHERS = 2 };

/* Lower case, to `out`. Tells of control bytes and of bytes that are not ASCII. */
static unsigned lower(const char *word, size_t size, uint8_t *out)
{
    unsigned char all = 0;
    bool control = false;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)word[i];
        out[i] = (uint8_t)(c + ((unsigned)(c - 'A') < 26 ? 32 : 0));
        all |= c;
        control |= c < 0x20 || c == 0x7f;
    }
    return (control ? HAS_CONTROL : 0) | (all >= 0x80 ? HAS_OTHERS : 0);
}

/* Words of running text have their accents folded, so those of a lexicon must have them folded too. */
static stk_status fold(reader *r, const char *word, uint8_t *out, size_t *size)
{
    if (!stk__fold(&r->folded, word, *size))
        return fail_memory(r, *size);
    for (size_t i = 0; i < r->folded.size; i++)
        if (r->folded.text[i] <= ' ' || r->folded.text[i] >= 0x7f) /* codes are below or above */
            return STK_OK;
    if (!r->folded.size)
        return STK_OK;
    *size = r->folded.size;
    lower(r->folded.text, *size, out);
    return STK_OK;
}

/* Hangs a record behind the other variants of a word; its own bytes for the word are given back. */
static stk_status add_variant(reader *r, uint32_t head, uint32_t at)
{
    stk__lexicon *x = r->lexicon;
    record made = record_at(x, at);
    uint32_t last = head;
    int count = 1;
    for (uint32_t next; (next = record_at(x, last).next); last = next)
        count++;
    if (count >= VARIANTS_MAX) {
        stk_error_set(r->err, STK_CORRUPT, "more than %d pronunciations of one word", VARIANTS_MAX);
        return fail_at_line(r, STK_CORRUPT);
    }
    uint8_t *behind = x->blob + at + sizeof made;
    memmove(behind, behind + made.word_size, made.id_count);
    x->blob_size -= made.word_size;
    made.word_size = 0;
    memcpy(x->blob + at, &made, sizeof made);
    memcpy(x->blob + last, &at, sizeof at); /* its first field: next */
    return STK_OK;
}

/* Enters the record that stands at the end of the blob. */
static stk_status enter(reader *r, uint32_t at)
{
    stk__lexicon *x = r->lexicon;
    STK_TRY(grow_slots(r));
    const record made = record_at(x, at);
    const char *word = (const char *)x->blob + at + sizeof made;
    const uint32_t tag = tag_of(x, word, made.word_size);
    slot *s = &x->slots[find_slot(x, tag, word, made.word_size)];
    if (s->at >= r->first)
        return add_variant(r, s->at, at);
    x->words += !s->at;
    *s = (slot){tag, at};
    return STK_OK;
}

/* Phonemes from `p` to the end of the line or to a comment. */
static stk_status read_phonemes(const reader *r, const char *p, const char *end, uint8_t *out, size_t *out_count)
{
    size_t count = 0;
    for (;;) {
        while (p < end && is_blank(*p))
            p++;
        if (p == end || *p == '#')
            break;
        const char *name = p;
        while (p < end && !is_blank(*p))
            p++;
        const uint8_t id = phoneme(r, name, (size_t)(p - name));
        if (!id)
            return fail_phoneme(r, name, (size_t)(p - name));
        out[count++] = id;
    }
    *out_count = count;
    return STK_OK;
}

static stk_status read_entry(reader *r, const char *line, const char *word_end, const char *end)
{
    stk__lexicon *x = r->lexicon;
    size_t size = strip_number(line, (size_t)(word_end - line)), count = 0;
    const size_t at = x->blob_size, room = sizeof(record) + (size_t)(end - line) + 1;
    if (size > UINT16_MAX)
        return fail_size(r, "word", size);
    if (at > UINT32_MAX - room)
        return fail_memory(r, at + room);
    STK_TRY(grow_blob(r, at + room));
    uint8_t *word = x->blob + at + sizeof(record);
    const unsigned has = lower(line, size, word);
    if (has & HAS_CONTROL) {
        stk_error_set(r->err, STK_CORRUPT, "a word has control bytes: this is no lexicon");
        return fail_at_line(r, STK_CORRUPT);
    }
    if (has & HAS_OTHERS)
        STK_TRY(fold(r, line, word, &size));
    STK_TRY(read_phonemes(r, word_end, end, word + size, &count));
    if (count > UINT16_MAX)
        return fail_size(r, "pronunciation", count);
    if (count == 0) {
        stk_error_set(r->err, STK_CORRUPT, "'%.*s' has no phonemes", (int)STK_MIN(size, 60), line);
        return fail_at_line(r, STK_CORRUPT);
    }
    const record made = {.word_size = (uint16_t)size, .id_count = (uint16_t)count};
    memcpy(x->blob + at, &made, sizeof made);
    x->blob_size = at + sizeof made + size + count;
    return enter(r, (uint32_t)at);
}

static stk_status read_line(reader *r, const char *line, const char *end)
{
    while (line < end && is_blank(*line))
        line++;
    if (line == end || *line == '#' || (end - line >= 3 && memcmp(line, ";;;", 3) == 0))
        return STK_OK;
    const char *word_end = line;
    while (word_end < end && !is_blank(*word_end))
        word_end++;
    return read_entry(r, line, word_end, end);
}

static void begin_text(reader *r, const char *name)
{
    r->name = name;
    r->line = 0;
    r->first = r->lexicon->blob_size;
    XXH3_64bits_reset_withSeed(&r->hash, r->lexicon->fingerprint + 1);
}

static void end_text(const reader *r)
{
    r->lexicon->fingerprint = XXH3_64bits_digest(&r->hash);
}

/* The whole lines of a piece of text, and what stands behind them where it is the `last`; tells how much of it was read. */
static stk_status read_piece(reader *r, const char *text, size_t size, bool last, size_t *out_read)
{
    const char *p = text, *const end = text + size;
    if (r->line == 0 && size >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline && !last)
            break;
        const char *line_end = newline ? newline : end;
        r->line += r->line < INT_MAX;
        STK_TRY(read_line(r, p, line_end));
        p = newline ? newline + 1 : end;
    }
    *out_read = (size_t)(p - text);
    return STK_OK;
}

/* An empty lexicon to read into; on failure finish() frees what there is of it. */
static stk_status reader_open(reader *r, const stk__g2p_memory *memory, stk_error *err)
{
    stk__lexicon *x = stk__calloc(1, sizeof *x);
    *r = (reader){.err = err};
    if (!x)
        return stk__nomem(sizeof *x, err);
    x->seed = XXH3_64bits(&(uint64_t[2]){(uint64_t)(uintptr_t)x, (uint64_t)stk__now_ns()}, 16);
    reader_init(r, x);
    r->memory = memory;
    r->err = err;
    STK_TRY(grow_slots(r));
    STK_TRY(grow_blob(r, 4096));
    memset(x->blob, 0, BLOB_START);
    x->blob_size = BLOB_START;
    return STK_OK;
}

void stk__lexicon_free(stk__lexicon *x)
{
    if (!x)
        return;
    stk__free(x->slots);
    stk__free(x->blob);
    stk__free(x);
}

/* What the blob has too much; prefetches look at its first bytes, so it is never empty. */
static void shrink(reader *r)
{
    stk__lexicon *x = r->lexicon;
    uint8_t *smaller = stk__realloc(x->blob, x->blob_size);
    if (!smaller)
        return;
    x->blob = smaller;
    give_back(r, (int64_t)(x->blob_capacity - x->blob_size));
    x->blob_capacity = x->blob_size;
}

/* Hands over what was read, or frees it. */
static stk_status finish(reader *r, stk_status status, stk__lexicon **out)
{
    stk__folded_clear(&r->folded);
    if (status != STK_OK) {
        stk__lexicon_free(r->lexicon);
        give_back(r, r->charged);
        return status;
    }
    shrink(r);
    *out = r->lexicon;
    return STK_OK;
}

stk_status stk__lexicon_parse(const char *text, size_t size, const char *name, stk__lexicon **out, stk_error *err)
{
    reader r;
    size_t ignored;
    stk_status status = reader_open(&r, NULL, err);
    if (status == STK_OK) {
        begin_text(&r, name);
        XXH3_64bits_update(&r.hash, text, size);
        status = read_piece(&r, text, size, true, &ignored);
        end_text(&r);
    }
    return finish(&r, status, out);
}

/* A file through a window: what is left of a line goes to its front. */
typedef struct window {
    char *data;
    size_t size, capacity;
} window;

static stk_status fill(reader *r, window *w, int fd, bool *out_end)
{
    if (w->size == w->capacity) {
        const size_t capacity = w->capacity ? 2 * w->capacity : WINDOW;
        STK_TRY(take(r, (int64_t)(capacity - w->capacity)));
        char *data = stk__realloc(w->data, capacity);
        if (!data)
            return fail_memory(r, capacity);
        w->data = data;
        w->capacity = capacity;
    }
    /* All of it, so that a line without an end is not looked at again for every few bytes of a pipe. */
    const size_t first = w->size;
    while (w->size < w->capacity && !*out_end) {
        const ssize_t n = read(fd, w->data + w->size, w->capacity - w->size);
        if (n < 0 && errno != EINTR) {
            stk_error_set(r->err, STK_IO, "cannot read: %s", strerror(errno));
            return fail_at_line(r, STK_IO);
        }
        w->size += n > 0 ? (size_t)n : 0;
        *out_end = n == 0;
    }
    XXH3_64bits_update(&r->hash, w->data + first, w->size - first);
    return STK_OK;
}

static stk_status read_fd(reader *r, int fd)
{
    window w = {0};
    size_t total = 0;
    stk_status status = STK_OK;
    for (bool end = false; !end && status == STK_OK;) {
        const size_t before = w.size;
        size_t done = 0;
        status = fill(r, &w, fd, &end);
        total += w.size - before;
        if (status == STK_OK && total > FILE_MAX) {
            stk_error_set(r->err, STK_INVALID, "file is larger than %zu bytes", FILE_MAX);
            status = fail_at_line(r, STK_INVALID);
        }
        if (status == STK_OK)
            status = read_piece(r, w.data, w.size, end, &done);
        w.size -= done;
        if (done)
            memmove(w.data, w.data + done, w.size);
    }
    stk__free(w.data);
    give_back(r, (int64_t)w.capacity);
    return status;
}

static stk_status read_path(reader *r, const char *path)
{
    int fd = STDIN_FILENO;
    const bool is_stdin = strcmp(path, "-") == 0;
    if (!is_stdin)
        STK_TRY(stk__file_open(path, &fd, NULL, r->err));
    begin_text(r, path);
    const stk_status status = read_fd(r, fd);
    end_text(r);
    if (!is_stdin)
        close(fd);
    return status;
}

stk_status stk__lexicon_read(const char *const *paths, size_t count, const stk__g2p_memory *memory, stk__lexicon **out,
                             stk_error *err)
{
    reader r;
    stk_status status = reader_open(&r, memory, err);
    for (size_t i = 0; i < count && status == STK_OK; i++)
        status = read_path(&r, paths[i]);
    return finish(&r, status, out);
}

size_t stk__lexicon_words(const stk__lexicon *x)
{
    return x->words;
}

size_t stk__lexicon_bytes(const stk__lexicon *x)
{
    return sizeof *x + x->slot_count * sizeof *x->slots + x->blob_capacity;
}

uint64_t stk__lexicon_fingerprint(const stk__lexicon *x)
{
    return x->fingerprint;
}
