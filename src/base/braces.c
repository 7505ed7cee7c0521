/*
 * Braces: {a,b}, {000..099}, {0..9..3}, nested.
 *
 * The text is read once into parts, from which any of the names can be written without the others. So the number of names and
 * the bytes that they take are known before the first is made, and reading takes time in proportion to the text.
 */
#include <string.h>

#include "base/expand.h"
#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

#define DIGITS_MAX 18
#define NONE SIZE_MAX

/* {first..last..step} with numbers; `width` is that of numbers with leading zeros, else 0. */
typedef struct range {
    int64_t first, last, step;
    int width;
} range;

/* A piece of text, a range, or one of several words. Parts of a word are a list. */
typedef struct part {
    enum { PART_TEXT, PART_RANGE, PART_WORDS } kind;
    const char *text; /* TEXT */
    size_t size;
    range range;             /* RANGE */
    size_t word, word_count; /* WORDS: they lie side by side */
    uint64_t count;
    size_t next;
} part;

/* An alternative, or the whole pattern: parts one behind the other. */
typedef struct word {
    const char *begin, *end;
    size_t first;          /* part; NONE: it is empty */
    uint64_t count, bytes; /* names, and what they take together; both stop growing past their limits */
    uint64_t before;       /* names of the words beside it that come first */
} word;

struct stk__braces {
    const char *pattern;
    size_t *partner; /* of each byte that is a brace with a partner; else NONE */
    bool *comma;     /* of each byte that begins such a brace: whether it has a comma of its own */
    part *parts;
    size_t part_count, part_capacity;
    word *words;
    size_t word_count, word_capacity;
};

/* ---- reading ---- */

/* Reads a number, and notes how wide it was written when zeros lead. */
static bool read_number(const char **p, const char *end, int64_t *out, int *width)
{
    const char *start = *p, *digits = start + (*start == '-');
    int64_t value = 0;
    const char *at = digits;
    for (; at < end && *at >= '0' && *at <= '9' && at - digits < DIGITS_MAX; at++)
        value = value * 10 + (*at - '0');
    if (at == digits)
        return false;
    if (*digits == '0' && at - digits > 1)
        *width = STK_MAX(*width, (int)(at - start));
    *out = *start == '-' ? -value : value;
    *p = at;
    return true;
}

static bool read_dots(const char **p, const char *end)
{
    if (end - *p < 2 || (*p)[0] != '.' || (*p)[1] != '.')
        return false;
    *p += 2;
    return true;
}

static bool read_range(const char *p, const char *end, range *out)
{
    int step_width = 0;
    *out = (range){.step = 1};
    if (!read_number(&p, end, &out->first, &out->width) || !read_dots(&p, end) ||
        !read_number(&p, end, &out->last, &out->width))
        return false;
    if (p < end && (!read_dots(&p, end) || !read_number(&p, end, &out->step, &step_width) || out->step < 1))
        return false;
    return p == end;
}

/* Partners in one pass. While a brace is open, its place in `partner` has the one around it. */
static stk_status match_braces(stk__braces *b, stk_error *err)
{
    const size_t size = strlen(b->pattern);
    b->partner = stk__alloc((size + 1) * sizeof *b->partner);
    b->comma = stk__calloc(size + 1, sizeof *b->comma);
    if (!b->partner || !b->comma)
        return stk__nomem((size + 1) * sizeof *b->partner, err);
    size_t open = NONE;
    for (size_t i = 0; i < size; i++) {
        b->partner[i] = NONE;
        if (b->pattern[i] == '{') {
            b->partner[i] = open;
            open = i;
        } else if (b->pattern[i] == ',' && open != NONE) {
            b->comma[open] = true;
        } else if (b->pattern[i] == '}' && open != NONE) {
            const size_t around = b->partner[open];
            b->partner[open] = i;
            open = around;
        }
    }
    while (open != NONE) { /* those without a partner are parts of the name */
        const size_t around = b->partner[open];
        b->partner[open] = NONE;
        open = around;
    }
    return STK_OK;
}

static uint64_t range_count(const range *r)
{
    const uint64_t span =
        r->last > r->first ? (uint64_t)r->last - (uint64_t)r->first : (uint64_t)r->first - (uint64_t)r->last;
    return span / (uint64_t)r->step + 1;
}

/* Numbers stop at a little more than the limits, so that no sum or product of two of them overflows. */
static uint64_t capped_names(uint64_t n)
{
    return STK_MIN(n, (uint64_t)STK__BRACE_NAMES_MAX + 1);
}

static uint64_t capped_bytes(uint64_t n)
{
    return STK_MIN(n, STK__NAMES_BYTES_MAX + 1);
}

/* A part behind those that the word has; *last is the end of its list. `bytes` are those of all its texts. */
static stk_status add_part(stk__braces *b, size_t at, size_t *last, part made, uint64_t bytes, stk_error *err)
{
    if (!stk__grow((void **)&b->parts, &b->part_capacity, b->part_count + 1, sizeof *b->parts))
        return stk__nomem((b->part_count + 1) * sizeof *b->parts, err);
    made.count = capped_names(made.count);
    made.next = NONE;
    word *w = &b->words[at];
    w->bytes = capped_bytes(capped_bytes(w->bytes * made.count) + capped_bytes(capped_bytes(bytes) * w->count));
    w->count = capped_names(w->count * made.count);
    if (*last == NONE)
        w->first = b->part_count;
    else
        b->parts[*last].next = b->part_count;
    *last = b->part_count;
    b->parts[b->part_count++] = made;
    return STK_OK;
}

static stk_status add_text(stk__braces *b, size_t at, size_t *last, const char *from, const char *to, stk_error *err)
{
    if (from == to)
        return STK_OK;
    const size_t size = (size_t)(to - from);
    return add_part(b, at, last, (part){.kind = PART_TEXT, .text = from, .size = size, .count = 1}, size, err);
}

/* Room for the words between a brace and its partner, side by side. */
static stk_status add_words(stk__braces *b, const char *open, const char *close, size_t *out, stk_error *err)
{
    *out = b->word_count;
    const char *begin = open + 1;
    for (const char *p = begin; p <= close; p++) {
        const size_t partner = p < close ? b->partner[p - b->pattern] : NONE;
        if (p < close && partner != NONE) {
            p = b->pattern + partner;
        } else if (p == close || *p == ',') {
            if (!stk__grow((void **)&b->words, &b->word_capacity, b->word_count + 1, sizeof *b->words))
                return stk__nomem((b->word_count + 1) * sizeof *b->words, err);
            b->words[b->word_count++] = (word){.begin = begin, .end = p, .first = NONE, .count = 1};
            begin = p + 1;
        }
    }
    return STK_OK;
}

static stk_status read_word(stk__braces *b, size_t at, int depth, stk_error *err);

static stk_status read_words(stk__braces *b, size_t at, size_t *last, const char *open, const char *close, int depth,
                             stk_error *err)
{
    part made = {.kind = PART_WORDS};
    if (depth >= STK__BRACE_DEPTH_MAX)
        return stk_error_set(err, STK_INVALID, "'%.200s' has braces that are nested more than %d deep", b->pattern,
                             STK__BRACE_DEPTH_MAX);
    STK_TRY(add_words(b, open, close, &made.word, err));
    made.word_count = b->word_count - made.word;
    uint64_t bytes = 0;
    for (size_t i = made.word; i < made.word + made.word_count; i++) {
        STK_TRY(read_word(b, i, depth + 1, err));
        b->words[i].before = made.count;
        made.count = capped_names(made.count + b->words[i].count);
        bytes = capped_bytes(bytes + b->words[i].bytes);
    }
    return add_part(b, at, last, made, bytes, err);
}

/* The most characters that one of its numbers takes. */
static uint64_t range_width(const range *r)
{
    char text[64];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    stk__text_printf(&t, "%lld", (long long)r->first);
    const size_t first = t.length;
    stk__text_reset(&t);
    stk__text_printf(&t, "%lld", (long long)r->last);
    return STK_MAX((size_t)r->width, STK_MAX(first, t.length));
}

/* Whether the brace at `open` is one, and not a part of the name: a pair that has a comma or is a range. */
static bool is_brace(const stk__braces *b, const char *open, range *out)
{
    const size_t at = (size_t)(open - b->pattern), close = b->partner[at];
    return close != NONE && (b->comma[at] || read_range(open + 1, b->pattern + close, out));
}

static stk_status read_word(stk__braces *b, size_t at, int depth, stk_error *err)
{
    const char *text = b->words[at].begin, *end = b->words[at].end;
    size_t last = NONE;
    for (const char *p = text; p < end; p++) {
        range r;
        if (*p != '{' || !is_brace(b, p, &r))
            continue;
        const char *close = b->pattern + b->partner[p - b->pattern];
        STK_TRY(add_text(b, at, &last, text, p, err));
        if (b->comma[p - b->pattern])
            STK_TRY(read_words(b, at, &last, p, close, depth, err));
        else
            STK_TRY(add_part(b, at, &last, (part){.kind = PART_RANGE, .range = r, .count = range_count(&r)},
                             capped_names(range_count(&r)) * range_width(&r), err));
        p = close;
        text = p + 1;
    }
    return add_text(b, at, &last, text, end, err);
}

static stk_status check_size(const stk__braces *b, stk_error *err)
{
    if (b->words[0].count > STK__BRACE_NAMES_MAX)
        return stk_error_set(err, STK_INVALID, "the braces of '%.200s' stand for more than %d names", b->pattern,
                             STK__BRACE_NAMES_MAX);
    if (b->words[0].bytes > STK__NAMES_BYTES_MAX)
        return stk_error_set(err, STK_INVALID,
                             "the names that the braces of '%.200s' stand for take more than %llu MiB", b->pattern,
                             (unsigned long long)(STK__NAMES_BYTES_MAX >> 20));
    return STK_OK;
}

stk_status stk__braces_open(const char *pattern, stk__braces **out, stk_error *err)
{
    stk__braces *b = stk__calloc(1, sizeof *b);
    if (!b)
        return stk__nomem(sizeof *b, err);
    b->pattern = pattern;
    stk_status status = match_braces(b, err);
    if (status == STK_OK && !stk__grow((void **)&b->words, &b->word_capacity, 1, sizeof *b->words))
        status = stk__nomem(sizeof *b->words, err);
    if (status == STK_OK) {
        b->words[b->word_count++] =
            (word){.begin = pattern, .end = pattern + strlen(pattern), .first = NONE, .count = 1};
        status = read_word(b, 0, 0, err);
    }
    if (status == STK_OK)
        status = check_size(b, err);
    if (status != STK_OK) {
        stk__braces_close(b);
        return status;
    }
    *out = b;
    return STK_OK;
}

void stk__braces_close(stk__braces *b)
{
    if (!b)
        return;
    stk__free(b->partner);
    stk__free(b->comma);
    stk__free(b->parts);
    stk__free(b->words);
    stk__free(b);
}

/* ---- writing ---- */

uint64_t stk__braces_count(const stk__braces *b)
{
    return b->words[0].count;
}

/* The word that has name `i` of all that lie side by side. */
static const word *find_word(const stk__braces *b, const part *p, uint64_t i)
{
    size_t low = p->word, high = p->word + p->word_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (b->words[middle].before <= i)
            low = middle;
        else
            high = middle;
    }
    return &b->words[low];
}

static void put_number(stk__text *t, const range *r, uint64_t i)
{
    const int64_t way = (int64_t)i * r->step;
    stk__text_printf(t, "%0*lld", r->width, (long long)(r->last > r->first ? r->first + way : r->first - way));
}

/* The last part varies fastest. */
static void put_word(const stk__braces *b, const word *w, uint64_t i, stk__text *t)
{
    uint64_t rest = w->count;
    for (size_t at = w->first; at != NONE; at = b->parts[at].next) {
        const part *p = &b->parts[at];
        rest /= p->count;
        const uint64_t digit = i / rest;
        i %= rest;
        if (p->kind == PART_TEXT) {
            stk__text_write(t, p->text, p->size);
        } else if (p->kind == PART_RANGE) {
            put_number(t, &p->range, digit);
        } else {
            const word *inner = find_word(b, p, digit);
            put_word(b, inner, digit - inner->before, t);
        }
    }
}

char *stk__braces_name(const stk__braces *b, uint64_t i)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "");
    put_word(b, &b->words[0], i, &t);
    char *name = t.failed ? NULL : stk__strdup(t.data ? t.data : "");
    stk__text_clear(&t);
    return name;
}
