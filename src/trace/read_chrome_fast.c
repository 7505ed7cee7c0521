/*
 * The fast parser of one event: strict JSON that lies in the window as a whole. Whatever it does not like it leaves to the tolerant
 * parser, which reads the event again from its start; what both can read, they read alike.
 */
#include "trace/read_chrome.h"

#include "base/banned.h"

enum { FAST_DEPTH = 60 };

/* The window has 8 readable bytes behind its end, so one byte at `p` may be looked at while p <= end. */
static inline const uint8_t *space(const uint8_t *p, const uint8_t *end)
{
    if (STK_LIKELY(*p > ' '))
        return p;
    if (*p == ' ' && p[1] > ' ')
        return p + 1;
    while (p < end && stk__json_space(*p))
        p++;
    return p;
}

/* ---- strings ---- */

/* Goes over characters that are not ASCII; NULL when they are not UTF-8. */
static const uint8_t *high_string(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p >= 0x80) {
        const size_t n = stk__utf8_length(p, (size_t)(end - p));
        if (!n)
            return NULL;
        p += n;
        p = stk__json_plain(p, end);
    }
    return p < end && *p == '"' ? p : NULL;
}

/* p stands behind the opening quote; returns the closing one, or NULL. */
static inline const uint8_t *string_end(const uint8_t *p, const uint8_t *end)
{
    p = stk__json_plain(p, end);
    if (STK_LIKELY(p < end && *p == '"'))
        return p;
    return high_string(p, end);
}

static inline const uint8_t *take_string(const uint8_t *p, const uint8_t *end, stk__chrome_value *v)
{
    const uint8_t *quote = string_end(p, end);
    if (!quote)
        return NULL;
    v->text = (const char *)p;
    v->size = (uint32_t)(quote - p);
    v->kind = STK__CHROME_STRING;
    return quote + 1;
}

/* ---- numbers ---- */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Up to 8 digits at p in one go; returns how many. */
static inline unsigned some_digits(const uint8_t *p, uint64_t *out)
{
    uint64_t w;
    memcpy(&w, p, 8);
    w ^= 0x3030303030303030u;
    const uint64_t odd = ((w + 0x7676767676767676u) | w) & 0x8080808080808080u;
    const unsigned n = odd ? (unsigned)__builtin_ctzll(odd) / 8 : 8;
    if (!n)
        return 0;
    w <<= 64 - 8 * n;
    w = w * 10 + (w >> 8);
    w = ((w & 0x000000ff000000ffu) * 0x000f424000000064u + (w >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32;
    *out = w & 0xffffffffu;
    return n;
}
#else
static inline unsigned some_digits(const uint8_t *p, uint64_t *out)
{
    unsigned n = 0;
    *out = 0;
    for (; n < 8 && p[n] >= '0' && p[n] <= '9'; n++)
        *out = *out * 10 + (p[n] - '0');
    return n;
}
#endif

/* Digits, up to 16; `*count` grows by how many there were. */
static inline const uint8_t *take_digits(const uint8_t *p, uint64_t *value, unsigned *count)
{
    static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    uint64_t part;
    const unsigned n = some_digits(p, &part);
    if (!n)
        return p;
    *value = *value * powers[n] + part;
    *count += n;
    return p + n;
}

/* What the short way could not take: exponents, many digits. */
static const uint8_t *any_number(const uint8_t *p, const uint8_t *end, stk__chrome_value *v)
{
    const uint8_t *q = stk__json_number_at(p, end, &v->number);
    if (!q || q == end)
        return NULL;
    v->integer = true;
    for (const uint8_t *c = p; c < q; c++)
        v->integer &= *c != '.' && (*c | 0x20) != 'e';
    v->text = (const char *)p;
    v->size = (uint32_t)(q - p);
    v->kind = STK__CHROME_NUMBER;
    return q;
}

static inline const uint8_t *take_number(const uint8_t *p, const uint8_t *end, stk__chrome_value *v)
{
    const uint8_t *start = p;
    uint64_t value = 0;
    unsigned whole = 0, fraction = 0;
    v->number.negative = *p == '-';
    p += *p == '-';
    p = take_digits(p, &value, &whole);
    if (whole == 8 && p < end)
        p = take_digits(p, &value, &whole);
    if (STK_UNLIKELY(!whole || whole >= 16 || p >= end))
        return any_number(start, end, v);
    v->integer = *p != '.';
    if (!v->integer) {
        p = take_digits(p + 1, &value, &fraction);
        if (STK_UNLIKELY(whole + fraction > 18 || fraction == 8 || p >= end))
            return any_number(start, end, v);
    }
    if (STK_UNLIKELY(*p != ',' && *p != '}' && *p != ']' && !stk__json_space(*p)))
        return any_number(start, end, v);
    v->number.digits = value;
    v->number.exponent = -(int32_t)fraction;
    v->number.cut = false;
    v->text = (const char *)start;
    v->size = (uint32_t)(p - start);
    v->kind = STK__CHROME_NUMBER;
    return p;
}

/* ---- arrays and objects in args, made compact ---- */

typedef struct nest {
    const uint8_t *p, *end;
    char *out, *limit;
    uint64_t objects; /* bit per depth, the innermost lowest */
    unsigned depth;
} nest;

/* Copies a string with its quotes; p stands at the opening one. */
static inline bool copy_string(nest *n)
{
    const uint8_t *quote = string_end(n->p + 1, n->end);
    if (!quote)
        return false;
    const size_t size = (size_t)(quote + 1 - n->p);
    if ((size_t)(n->limit - n->out) < size)
        return false;
    memcpy(n->out, n->p, size);
    n->out += size;
    n->p = quote + 1;
    return true;
}

static bool copy_scalar(nest *n)
{
    const uint8_t *p = n->p, *start = p;
    if (*p == '"')
        return copy_string(n);
    if (*p >= 'a') {
        const size_t size = *p == 'f' ? 5 : 4;
        if (n->end - p < 5 || (memcmp(p, "true", 4) != 0 && memcmp(p, "null", 4) != 0 && memcmp(p, "false", 5) != 0))
            return false;
        p += size;
    } else {
        p += *p == '-';
        const uint8_t *digits = p;
        while (p < n->end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits || (*digits == '0' && p - digits > 1))
            return false;
        if (p < n->end && *p == '.') {
            const uint8_t *fraction = ++p;
            while (p < n->end && *p >= '0' && *p <= '9')
                p++;
            if (p == fraction)
                return false;
        }
    }
    for (; start < p; start++)
        *n->out++ = (char)*start;
    n->p = p;
    return true;
}

/* A key and its colon. An event inside an array is a sign that the array was cut off. */
static bool copy_key(nest *n)
{
    if (*n->p != '"' || (memcmp(n->p, "\"ph\"", 4) == 0 && n->depth > 1 && !(n->objects >> 1 & 1)))
        return false;
    if (!copy_string(n))
        return false;
    n->p = space(n->p, n->end);
    if (*n->p != ':')
        return false;
    *n->out++ = ':';
    n->p = space(n->p + 1, n->end);
    return true;
}

static bool nest_open(nest *n)
{
    const bool object = *n->p == '{';
    if (++n->depth > FAST_DEPTH)
        return false;
    n->objects = n->objects << 1 | object;
    *n->out++ = (char)*n->p;
    n->p = space(n->p + 1, n->end);
    return *n->p == (object ? '}' : ']') || !object || copy_key(n);
}

/* Closers and commas behind a value, up to the next value; false when something else stands there. */
static inline bool nest_after(nest *n)
{
    while (n->p < n->end) {
        n->p = space(n->p, n->end);
        const bool object = n->objects & 1;
        if (*n->p == ',') {
            *n->out++ = ',';
            n->p = space(n->p + 1, n->end);
            return !object || copy_key(n);
        }
        if (*n->p != (object ? '}' : ']'))
            return false;
        *n->out++ = (char)*n->p++;
        n->objects >>= 1;
        if (--n->depth == 0)
            return true;
    }
    return false;
}

static const uint8_t *take_nested(stk__chrome *r, const uint8_t *p, const uint8_t *end, stk__chrome_value *v)
{
    char *start = r->scratch + r->scratch_used;
    nest n = {p, end, start, r->scratch + STK__CHROME_SCRATCH - 64, 0, 0};
    do {
        if (n.p >= end || n.out >= n.limit)
            return NULL;
        if (*n.p == '[' || *n.p == '{') {
            if (!nest_open(&n))
                return NULL;
            if ((*n.p != ']' && *n.p != '}') || n.out[-1] == ':')
                continue; /* a closer right behind a key is no value: the other parser notes that */
        } else {
            /* numbers are copied byte by byte: leave room for long ones to the tolerant parser */
            if (n.limit - n.out < 512 || !copy_scalar(&n))
                return NULL;
        }
        if (!nest_after(&n))
            return NULL;
    } while (n.depth);
    if (n.p > end)
        return NULL;
    v->text = start;
    v->size = (uint32_t)(n.out - start);
    v->kind = STK__CHROME_JSON;
    r->scratch_used += v->size;
    return n.p;
}

/* ---- values ---- */

static inline const uint8_t *take_value(stk__chrome *r, const uint8_t *p, const uint8_t *end, stk__chrome_value *v)
{
    switch (*p) {
    case '"':
        return take_string(p + 1, end, v);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return take_number(p, end, v);
    case '[':
    case '{':
        return take_nested(r, p, end, v);
    case 't':
        v->kind = STK__CHROME_TRUE;
        return memcmp(p, "true", 4) == 0 ? p + 4 : NULL;
    case 'f':
        v->kind = STK__CHROME_FALSE;
        return memcmp(p, "false", 5) == 0 ? p + 5 : NULL;
    case 'n':
        v->kind = STK__CHROME_NULL;
        return memcmp(p, "null", 4) == 0 ? p + 4 : NULL;
    default:
        return NULL;
    }
}

/* ---- args ---- */

/* Whether the key `k` and its closing quote stand at p. */
static inline bool key_matches(const stk__chrome_key *k, const uint8_t *p, const uint8_t *end)
{
#ifdef __SSE2__
    if (k->size < 16 && end - p >= 16) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)k->text);
        const unsigned same = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)), want = (2u << k->size) - 1;
        return (same & want) == want;
    }
#endif
    return (size_t)(end - p) > k->size && memcmp(p, k->text, k->size + 1) == 0;
}

/* Number of a key in the table, put there when it is not; 0: too long for it. */
static uint32_t find_key(stk__chrome *r, const uint8_t *p, size_t size)
{
    if (!size || size >= sizeof r->keys->text)
        return 0;
    uint32_t hash = (uint32_t)size * 0x9e3779b1u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x01000193u;
    const uint32_t at = 1 + (hash >> 8) % (STK__CHROME_KEYS - 1);
    stk__chrome_key *k = &r->keys[at];
    if (k->size != size || memcmp(k->text, p, size) != 0) {
        *k = (stk__chrome_key){.size = (uint32_t)size};
        memcpy(k->text, p, size);
        k->text[size] = '"';
        k->string = stk__builder_string(r->b, (const char *)p, size);
    }
    return at;
}

/* A key behind its opening quote; most follow the same one as last time. */
static inline const uint8_t *take_arg_key(stk__chrome *r, const uint8_t *p, const uint8_t *end, stk__chrome_arg *arg)
{
    uint32_t key = r->keys[r->last_key].next;
    if (STK_UNLIKELY(!key || !key_matches(&r->keys[key], p, end))) {
        const uint8_t *quote = string_end(p, end);
        if (!quote)
            return NULL;
        key = find_key(r, p, (size_t)(quote - p));
        if (!key) {
            arg->key = (const char *)p;
            arg->key_size = (uint32_t)(quote - p);
            arg->key_string = 0;
            r->last_key = 0;
            return quote + 1;
        }
        r->keys[r->last_key].next = key;
    }
    const stk__chrome_key *k = &r->keys[key];
    r->last_key = key;
    arg->key = (const char *)p;
    arg->key_size = k->size;
    arg->key_string = k->string;
    return p + k->size + 1;
}

static inline const uint8_t *take_colon(const uint8_t *p, const uint8_t *end)
{
    p = space(p, end);
    return STK_LIKELY(*p == ':') ? space(p + 1, end) : NULL;
}

/* Behind a value: at the next key's opening quote, or behind the closing brace with *done set. */
static inline const uint8_t *take_comma(const uint8_t *p, const uint8_t *end, bool *done)
{
    p = space(p, end);
    if (*p == ',') {
        p = space(p + 1, end);
        return STK_LIKELY(*p == '"') ? p : NULL;
    }
    *done = true;
    return STK_LIKELY(*p == '}') ? p + 1 : NULL;
}

static const uint8_t *take_args(stk__chrome *r, const uint8_t *p, const uint8_t *end)
{
    bool done = false;
    r->last_key = 0;
    p = space(p + 1, end);
    if (*p == '}')
        return p + 1;
    if (*p != '"')
        return NULL;
    while (!done) {
        stk__chrome_arg *arg = stk__chrome_add_arg(r);
        if (!arg || p >= end)
            return NULL;
        arg->outer = false;
        p = take_arg_key(r, p + 1, end, arg);
        p = p ? take_colon(p, end) : NULL;
        p = p && p < end ? take_value(r, p, end, &arg->value) : NULL;
        p = p ? take_comma(p, end, &done) : NULL;
        if (!p)
            return NULL;
    }
    return p;
}

/* ---- the event ---- */

/* The field whose key stands at p, behind its opening quote; -1: another key. 16 bytes can be read there. */
static inline int field_at(const uint8_t *p, unsigned *size)
{
#define KEY(name, text)                            \
    if (memcmp(p, text "\"", sizeof(text)) == 0) { \
        *size = sizeof(text);                      \
        return STK__CHROME_##name;                 \
    }
    switch (*p) {
    case 'p':
        KEY(PH, "ph")
        KEY(PID, "pid")
        return -1;
    case 't':
        KEY(TS, "ts")
        KEY(TID, "tid")
        KEY(TTS, "tts")
        KEY(TDUR, "tdur")
        return -1;
    case 'n':
        KEY(NAME, "name")
        return -1;
    case 'c':
        KEY(CAT, "cat")
        return -1;
    case 'd':
        KEY(DUR, "dur")
        return -1;
    case 'a':
        KEY(ARGS, "args")
        return -1;
    case 'i':
        KEY(ID, "id")
        KEY(ID2, "id2")
        return -1;
    case 's':
        KEY(S, "s")
        KEY(SF, "sf")
        KEY(SCOPE, "scope")
        return -1;
    case 'b':
        KEY(BP, "bp")
        KEY(BIND_ID, "bind_id")
        return -1;
    case 'f':
        KEY(FLOW_IN, "flow_in")
        KEY(FLOW_OUT, "flow_out")
        return -1;
    default:
        return -1;
    }
#undef KEY
}

/* {"local": "0x1"} or {"global": "0x1"} at p. */
static const uint8_t *take_id2(stk__chrome *r, const uint8_t *p, const uint8_t *end, uint32_t *seen)
{
    bool done = false;
    stk__chrome_value *v;
    p = space(p + 1, end);
    if (end - p < 16)
        return NULL;
    if (memcmp(p, "\"local\"", 7) == 0) {
        v = &r->event.fields[STK__CHROME_LOCAL];
        *seen |= 1u << STK__CHROME_LOCAL;
        p = take_colon(p + 7, end);
    } else if (memcmp(p, "\"global\"", 8) == 0) {
        v = &r->event.fields[STK__CHROME_GLOBAL];
        *seen |= 1u << STK__CHROME_GLOBAL;
        p = take_colon(p + 8, end);
    } else {
        return NULL;
    }
    p = p && p < end ? take_value(r, p, end, v) : NULL;
    p = p ? take_comma(p, end, &done) : NULL;
    return done ? p : NULL;
}

/* Another key beside "args", which joins them. */
static const uint8_t *take_other(stk__chrome *r, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *quote = string_end(p + 1, end);
    if (!quote)
        return NULL;
    const char *key = (const char *)p + 1;
    const size_t size = (size_t)(quote - p - 1);
    if (stk__chrome_field_of(key, size) >= 0 || stk__chrome_container_key(key, size))
        return NULL;
    stk__chrome_arg *arg = stk__chrome_add_arg(r);
    if (!arg)
        return NULL;
    arg->key = key;
    arg->key_size = (uint32_t)size;
    arg->key_string = 0;
    arg->outer = true;
    p = take_colon(quote + 1, end);
    return p && p < end ? take_value(r, p, end, &arg->value) : NULL;
}

/* The value of a field, at p. */
static inline const uint8_t *take_field(stk__chrome *r, int field, const uint8_t *p, const uint8_t *end, uint32_t *seen)
{
    stk__chrome_value *v = &r->event.fields[field];
    if (field != STK__CHROME_ARGS && field != STK__CHROME_ID2)
        return take_value(r, p, end, v);
    v->kind = STK__CHROME_JSON;
    if (*p != '{')
        return NULL;
    return field == STK__CHROME_ARGS ? take_args(r, p, end) : take_id2(r, p, end, seen);
}

const uint8_t *stk__chrome_parse_fast(stk__chrome *r, const uint8_t *p, const uint8_t *end)
{
    stk__chrome_event *e = &r->event;
    uint32_t seen = 0;
    bool done = false;
    e->arg_count = 0;
    r->scratch_used = 0;
    p = space(p + 1, end);
    if (*p != '"')
        return NULL;
    while (!done) {
        unsigned size;
        if (STK_UNLIKELY(end - p < 16))
            return NULL;
        const int field = field_at(p + 1, &size);
        if (STK_LIKELY(field >= 0)) {
            if (STK_UNLIKELY(seen >> field & 1))
                return NULL;
            seen |= 1u << field;
            p = take_colon(p + 1 + size, end);
            p = p && p < end ? take_field(r, field, p, end, &seen) : NULL;
        } else {
            p = seen ? take_other(r, p, end) : NULL;
        }
        p = p ? take_comma(p, end, &done) : NULL;
        if (STK_UNLIKELY(!p))
            return NULL;
    }
    if (STK_UNLIKELY(p > end))
        return NULL;
    e->seen = seen;
    return p;
}
