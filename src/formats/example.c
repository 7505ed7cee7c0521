/* Reading tf.train.Example and SequenceExample: a walker with exact errors, and short cuts for the usual encoding. */
#include "formats/example.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)
#define LOW_BITS UINT64_C(0x0101010101010101)
#define MAX_WANTED 65535

/* The usual path is one loop without calls; gcc needs to be told. */
#define FAST static inline __attribute__((always_inline))

/*
 * How the bytes lie, as every writer known to us emits them (the short cuts take exactly this form):
 *
 *   0A len  Features                     Example.features
 *     0A len  entry                      once per feature
 *       0A len  key
 *       12 len  Feature
 *         0A|12|1A len  list             bytes_list, float_list, int64_list
 *           0A len  values               packed numbers, or one bytes value, repeated
 *
 * Any other valid form (unknown fields, other order, unpacked or split lists) goes through next_field.
 */

/* A message of which all known fields are length-delimited, or of the one other wire type `scalar`. */
typedef struct message {
    const char *name;
    uint32_t known; /* fields 1..known */
    uint32_t scalar;
    const char *fields[3];
} message;

static const message example_message = {"Example", 1, STK__WIRE_BYTES, {"features"}};
static const message sequence_message = {"SequenceExample", 2, STK__WIRE_BYTES, {"context", "feature_lists"}};
static const message features_message = {"Features", 1, STK__WIRE_BYTES, {"feature map entry"}};
static const message feature_lists_message = {"FeatureLists", 1, STK__WIRE_BYTES, {"feature list map entry"}};
static const message entry_message = {"map entry", 2, STK__WIRE_BYTES, {"key", "value"}};
static const message feature_message = {"Feature", 3, STK__WIRE_BYTES, {"bytes_list", "float_list", "int64_list"}};
static const message feature_list_message = {"FeatureList", 1, STK__WIRE_BYTES, {"feature"}};
static const message list_messages[] = {
    [STK__FEATURE_BYTES] = {"BytesList", 1, STK__WIRE_BYTES, {"value"}},
    [STK__FEATURE_FLOAT] = {"FloatList", 1, STK__WIRE_FIXED32, {"value"}},
    [STK__FEATURE_INT64] = {"Int64List", 1, STK__WIRE_VARINT, {"value"}},
};

static const char *const kind_names[] = {"none", "bytes", "float", "int64"};

/* The bytes that positions in messages refer to. */
typedef struct place {
    const uint8_t *begin, *end;
    const char *name; /* "record" */
    stk_error *err;
} place;

typedef struct field {
    uint32_t number;
    stk__wire value;
} field;

static long long byte_of(const place *at, const uint8_t *p)
{
    return (long long)(p - at->begin);
}

static STK_NOINLINE stk_status bad_length(const place *at, const stk__wire *w, const uint8_t *start, const char *what)
{
    stk__wire again = *w;
    uint64_t size;
    if (!stk__wire_varint(&again, &size))
        return stk_error_set(at->err, STK_CORRUPT, "%s at byte %lld: its length is cut off or longer than 10 bytes",
                             what, byte_of(at, start));
    if (size > (uint64_t)(at->end - again.p))
        return stk_error_set(at->err, STK_CORRUPT, "%s at byte %lld: length %llu passes the end of the %s (%lld bytes)",
                             what, byte_of(at, start), (unsigned long long)size, at->name, byte_of(at, at->end));
    return stk_error_set(at->err, STK_CORRUPT,
                         "%s at byte %lld: length %llu passes the end of the enclosing message at byte %lld", what,
                         byte_of(at, start), (unsigned long long)size, byte_of(at, w->end));
}

static STK_NOINLINE stk_status bad_skip(const place *at, const uint8_t *start, const message *m, uint32_t number,
                                        uint32_t type)
{
    if (type == STK__WIRE_VARINT || type == STK__WIRE_FIXED64 || type == STK__WIRE_BYTES || type == STK__WIRE_FIXED32)
        return stk_error_set(at->err, STK_CORRUPT, "%s: unknown field %u at byte %lld is cut off", m->name, number,
                             byte_of(at, start));
    return stk_error_set(at->err, STK_CORRUPT, "%s: field %u at byte %lld has wire type %u (%s), wanted 0, 1, 2 or 5",
                         m->name, number, byte_of(at, start), type, type < 5 ? "a group" : "undefined");
}

/*
 * The next known field of a message; END after the last. Unknown ones are stepped over. A packed value and a lone one
 * (wire type `scalar`) both come as the window of their bytes, so that the caller need not tell them apart.
 */
static stk_status next_field(const place *at, stk__wire *w, const message *m, field *out)
{
    while (w->p < w->end) {
        const uint8_t *start = w->p;
        uint32_t number, type;
        if (!stk__wire_tag(w, &number, &type))
            return stk_error_set(at->err, STK_CORRUPT,
                                 "%s: the field tag at byte %lld (first byte 0x%02x) is cut off or out of range",
                                 m->name, byte_of(at, start), *start);
        if (number > m->known) {
            if (!stk__wire_skip(w, type))
                return bad_skip(at, start, m, number, type);
            continue;
        }
        const char *what = m->fields[number - 1];
        const uint8_t *value = w->p;
        out->number = number;
        if (type == STK__WIRE_BYTES) {
            stk__wire ahead = *w;
            if (!stk__wire_bytes(&ahead, &out->value))
                return bad_length(at, w, start, what);
            *w = ahead;
            return STK_OK;
        }
        if (type != m->scalar)
            return stk_error_set(at->err, STK_CORRUPT, "%s: %s at byte %lld has wire type %u, wanted 2%s", m->name,
                                 what, byte_of(at, start), type,
                                 m->scalar == STK__WIRE_VARINT    ? " or 0"
                                 : m->scalar == STK__WIRE_FIXED32 ? " or 5"
                                                                  : "");
        if (!stk__wire_skip(w, type))
            return stk_error_set(at->err, STK_CORRUPT, "%s: %s at byte %lld is cut off or longer than 10 bytes",
                                 m->name, what, byte_of(at, start));
        out->value = (stk__wire){value, w->p};
        return STK_OK;
    }
    return STK_END;
}

/* Adds what a Feature holds to *list and *kind: of the oneof the last kind counts. */
static stk_status merge_feature(const place *at, stk__wire w, stk__wire *list, stk__feature_kind *kind)
{
    field f;
    stk_status status;
    while ((status = next_field(at, &w, &feature_message, &f)) == STK_OK) {
        const bool same = f.number == *kind;
        if (same && f.value.p == f.value.end)
            continue;
        /* Protobuf would concatenate the two; a window on the record cannot, and no writer splits a list. */
        if (same && list->p != list->end)
            return stk_error_set(at->err, STK_CORRUPT,
                                 "Feature has two lists of kind %s, the second one at byte %lld, wanted one",
                                 kind_names[*kind], byte_of(at, f.value.p));
        *kind = (stk__feature_kind)f.number;
        *list = f.value;
    }
    return status == STK_END ? STK_OK : status;
}

static stk_status merge_feature_list(const place *at, stk__wire *list, stk__wire w)
{
    if (w.p == w.end)
        return STK_OK;
    if (list->p != list->end)
        return stk_error_set(at->err, STK_CORRUPT,
                             "map entry has two feature lists, the second one at byte %lld, wanted one",
                             byte_of(at, w.p));
    *list = w;
    return STK_OK;
}

/* A name and its value, from the feature map (a list of `kind`) or the feature list map (a FeatureList). */
typedef struct entry {
    stk__wire key, value;
    stk__feature_kind kind;
} entry;

static inline void entry_store(const entry *e, bool sequence, stk__found *out)
{
    if (sequence)
        out->list = (stk__feature_list){.features = e->value, .present = true};
    else
        out->feature = (stk__feature){.list = e->value, .kind = e->kind, .present = true};
}

/* Reads a length at *p of at most two bytes and moves *p behind it; SIZE_MAX for anything else. */
FAST size_t short_length(const uint8_t **p, const uint8_t *end)
{
    const uint8_t *q = *p;
    if (STK_LIKELY(end - q >= 2)) {
        if (q[0] < 0x80) {
            *p = q + 1;
            return q[0];
        }
        if (q[1] < 0x80) {
            *p = q + 2;
            return (size_t)(q[0] & 0x7f) | (size_t)q[1] << 7;
        }
    } else if (q < end && q[0] < 0x80) {
        *p = q + 1;
        return q[0];
    }
    return SIZE_MAX;
}

/* Reads a length of any size; returns what follows it, or NULL. */
static STK_NOINLINE const uint8_t *long_length(const uint8_t *p, const uint8_t *end, size_t *out)
{
    stk__wire w = {p, end};
    uint64_t size;
    if (!stk__wire_varint(&w, &size) || size > (uint64_t)(end - w.p))
        return NULL;
    *out = (size_t)size;
    return w.p;
}

/* Reads any length and moves *p behind it; false when it is bad or passes `end`. */
FAST bool any_length(const uint8_t **p, const uint8_t *end, size_t *out)
{
    size_t size = short_length(p, end);
    if (STK_UNLIKELY(size == SIZE_MAX)) {
        size_t wide;
        *p = long_length(*p, end, &wide);
        if (!*p)
            return false;
        size = wide;
    }
    *out = size;
    return size <= (size_t)(end - *p);
}

/* Reads a field with this one-byte tag that fills [*p, end) exactly, and moves *p to its value. */
FAST bool whole_field(const uint8_t **p, const uint8_t *end, uint8_t tag)
{
    const uint8_t *q = *p;
    const size_t left = (size_t)(end - q);
    if (left < 2 || q[0] != tag)
        return false;
    /* The end is known, so a length need not be decoded, only compared with the one that fits. */
    if (q[1] == left - 2 && left < 0x80 + 2) {
        *p = q + 2;
        return true;
    }
    size_t size;
    q++;
    if (!any_length(&q, end, &size) || size != (size_t)(end - q))
        return false;
    *p = q;
    return true;
}

/* The list of a Feature that holds one list and nothing else, or nothing at all. */
FAST bool feature_fast(const uint8_t *p, const uint8_t *end, stk__wire *list, stk__feature_kind *kind)
{
    if (STK_UNLIKELY(p == end)) {
        *kind = STK__FEATURE_NONE;
    } else {
        const uint8_t tag = *p;
        if ((tag != 0x0a && tag != 0x12 && tag != 0x1a) || !whole_field(&p, end, tag))
            return false;
        *kind = (stk__feature_kind)(tag >> 3);
    }
    *list = (stk__wire){p, end};
    return true;
}

/* The map entry at p when it has the usual form, and what follows it; else NULL. Pointers, as gcc spills structs. */
FAST const uint8_t *entry_fast(const uint8_t *p, const uint8_t *end, bool sequence, entry *out)
{
    size_t size;
    if (*p++ != 0x0a || !any_length(&p, end, &size))
        return NULL;
    end = p + size;
    if (size < 2 || *p++ != 0x0a || !any_length(&p, end, &size))
        return NULL;
    out->key = (stk__wire){p, p + size};
    p += size;
    if (!whole_field(&p, end, 0x12))
        return NULL;
    if (sequence) {
        out->value = (stk__wire){p, end};
        out->kind = STK__FEATURE_NONE;
    } else if (!feature_fast(p, end, &out->value, &out->kind)) {
        return NULL;
    }
    return end;
}

static void set_field(stk_error *err, stk__wire name)
{
    if (!err)
        return;
    const size_t size = STK_MIN((size_t)(name.end - name.p), sizeof err->field - 1);
    if (size)
        memcpy(err->field, name.p, size);
    err->field[size] = 0;
}

/* The next map entry in any form; END after the last. A missing key is the empty name, as in protobuf maps. */
static STK_NOINLINE stk_status entry_slow(const place *at, stk__wire *w, bool sequence, entry *out)
{
    field f, part;
    STK_TRY(next_field(at, w, sequence ? &feature_lists_message : &features_message, &f));
    const stk__wire nothing = {f.value.p, f.value.p};
    *out = (entry){nothing, nothing, STK__FEATURE_NONE};
    stk_status status;
    while ((status = next_field(at, &f.value, &entry_message, &part)) == STK_OK) {
        if (part.number == 1)
            out->key = part.value;
        else if (sequence)
            status = merge_feature_list(at, &out->value, part.value);
        else
            status = merge_feature(at, part.value, &out->value, &out->kind);
        if (status != STK_OK)
            break;
    }
    if (status == STK_END)
        return STK_OK;
    set_field(at->err, out->key);
    return status;
}

static inline stk_status next_entry(const place *at, stk__wire *w, bool sequence, entry *out)
{
    if (w->p == w->end)
        return STK_END;
    const uint8_t *next = entry_fast(w->p, w->end, sequence, out);
    if (!next)
        return entry_slow(at, w, sequence, out);
    w->p = next;
    return STK_OK;
}

/* The wanted names */

typedef struct name {
    const uint8_t *text;
    size_t length;
    bool sequence;
    uint32_t first; /* index of the first wanted name that is equal; itself as a rule */
} name;

typedef struct name_slot {
    uint32_t hash;
    uint32_t index; /* plus 1; 0: free */
} name_slot;

/* set by new, then const */
struct stk__example_layout {
    size_t count, mask;
    bool any_sequence, any_equal;
    name *names;
    name_slot *slots; /* mask + 1 of them, at most half full */
};

static inline uint64_t load_64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static inline uint32_t load_32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    return x;
}

/* Up to 8 bytes as one number, the first byte lowest; never reads past them. Loads overlap, with equal bits there. */
FAST uint64_t load_few(const uint8_t *p, size_t n)
{
    if (n >= 4)
        return load_32(p) | (uint64_t)load_32(p + n - 4) << (8 * (n - 4));
    if (n == 0)
        return 0;
    return p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

static inline uint32_t name_hash(const uint8_t *p, size_t n, bool sequence)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (uint64_t)n * 2 + sequence;
    for (; n > 8; n -= 8, p += 8) {
        h = (h ^ load_64(p)) * odd;
        h ^= h >> 32;
    }
    h = (h ^ load_few(p, n)) * odd;
    h ^= h >> 29;
    return (uint32_t)(h * odd >> 32);
}

/* memcmp for short names, without the call. */
FAST bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    if (n < 8)
        return load_few(a, n) == load_few(b, n);
    for (size_t i = 0; i + 8 < n; i += 8) {
        if (load_64(a + i) != load_64(b + i))
            return false;
    }
    return load_64(a + n - 8) == load_64(b + n - 8);
}

FAST bool name_is(const name *n, const uint8_t *text, size_t length, bool sequence)
{
    return n->length == length && n->sequence == sequence && same_bytes(n->text, text, length);
}

/* Index plus 1 of the wanted name, or 0. */
static uint32_t layout_lookup(const stk__example_layout *layout, const uint8_t *text, size_t length, bool sequence)
{
    const uint32_t hash = name_hash(text, length, sequence);
    for (size_t i = hash & layout->mask; layout->slots[i].index; i = (i + 1) & layout->mask) {
        const name_slot *slot = &layout->slots[i];
        if (slot->hash == hash && name_is(&layout->names[slot->index - 1], text, length, sequence))
            return slot->index;
    }
    return 0;
}

static void layout_add(stk__example_layout *layout, uint32_t index, const stk__wanted *wanted)
{
    name *n = &layout->names[index];
    *n = (name){(const uint8_t *)wanted->name, strlen(wanted->name), wanted->sequence, index};
    layout->any_sequence |= n->sequence;
    const uint32_t equal = layout_lookup(layout, n->text, n->length, n->sequence);
    if (equal) {
        n->first = equal - 1;
        layout->any_equal = true;
        return;
    }
    const uint32_t hash = name_hash(n->text, n->length, n->sequence);
    size_t i = hash & layout->mask;
    while (layout->slots[i].index)
        i = (i + 1) & layout->mask;
    layout->slots[i] = (name_slot){hash, index + 1};
}

stk_status stk__example_layout_new(const stk__wanted *wanted, size_t count, stk__example_layout **out, stk_error *err)
{
    if (count > MAX_WANTED)
        return stk_error_set(err, STK_INVALID, "%zu features wanted of one record, at most %d can be", count,
                             MAX_WANTED);
    size_t slots = 8;
    while (slots < 2 * count)
        slots *= 2;
    stk__example_layout *layout = stk__calloc(1, sizeof *layout);
    if (!layout)
        return stk__nomem(sizeof *layout, err);
    layout->count = count;
    layout->mask = slots - 1;
    layout->names = stk__calloc(count, sizeof *layout->names);
    layout->slots = stk__calloc(slots, sizeof *layout->slots);
    if (!layout->names || !layout->slots) {
        stk__example_layout_free(layout);
        return stk__nomem(count * sizeof *layout->names + slots * sizeof *layout->slots, err);
    }
    for (size_t i = 0; i < count; i++)
        layout_add(layout, (uint32_t)i, &wanted[i]);
    *out = layout;
    return STK_OK;
}

void stk__example_layout_free(stk__example_layout *layout)
{
    if (!layout)
        return;
    stk__free(layout->names);
    stk__free(layout->slots);
    stk__free(layout);
}

/* Finding */

/* One pass over a record; `position` counts its map entries. */
typedef struct search {
    const stk__example_layout *layout;
    stk__example_guess *guess;
    stk__found *found;
    size_t position;
} search;

/* Tries the name that stood here in the last record before the table. A guess from another layout is harmless. */
FAST uint32_t search_name(const search *s, size_t position, stk__wire key, bool sequence)
{
    const stk__example_layout *layout = s->layout;
    const size_t length = (size_t)(key.end - key.p);
    if (STK_UNLIKELY(position >= STK_COUNT(s->guess->order)))
        return layout_lookup(layout, key.p, length, sequence);
    const uint32_t last = s->guess->order[position];
    if (STK_LIKELY(last - 1 < layout->count)) {
        const name *n = &layout->names[last - 1];
        if (STK_LIKELY(name_is(n, key.p, length, sequence)))
            return n->first + 1;
    }
    const uint32_t index = layout_lookup(layout, key.p, length, sequence);
    s->guess->order[position] = (uint16_t)index;
    return index;
}

static STK_NOINLINE stk_status search_slow(const search *s, size_t position, const place *at, stk__wire *map,
                                           bool sequence)
{
    entry e;
    STK_TRY(entry_slow(at, map, sequence, &e));
    const uint32_t index = search_name(s, position, e.key, sequence);
    if (index)
        entry_store(&e, sequence, &s->found[index - 1]);
    return STK_OK;
}

/* Nothing of the usual path has its address taken, so that it stays in registers. */
FAST stk_status search_map(search *s, const place *at, stk__wire map, bool sequence)
{
    const uint8_t *p = map.p, *end = map.end;
    size_t position = s->position;
    for (; p < end; position++) {
        entry e;
        const uint8_t *next = entry_fast(p, end, sequence, &e);
        if (STK_LIKELY(next != NULL)) {
            const uint32_t index = search_name(s, position, e.key, sequence);
            if (index)
                entry_store(&e, sequence, &s->found[index - 1]);
        } else {
            stk__wire rest = {p, end};
            const stk_status status = search_slow(s, position, at, &rest, sequence);
            if (status == STK_END)
                break;
            if (status != STK_OK)
                return status;
            next = rest.p;
        }
        p = next;
    }
    s->position = position;
    return STK_OK;
}

static stk__wire record_window(stk_bytes record)
{
    static const uint8_t nothing[1];
    if (record.size <= 0)
        return (stk__wire){nothing, nothing};
    return (stk__wire){record.data, record.data + record.size};
}

stk_status stk__example_find(const stk__example_layout *layout, stk__example_guess *guess, stk_bytes record,
                             bool sequence, stk__found *found, stk_error *err)
{
    stk__wire w = record_window(record);
    const place at = {w.p, w.end, "record", err};
    const message *m = sequence || layout->any_sequence ? &sequence_message : &example_message;
    search s = {layout, guess, found, 0};
    if (layout->count)
        memset(found, 0, layout->count * sizeof *found);
    field f;
    stk_status status;
    while ((status = next_field(&at, &w, m, &f)) == STK_OK) {
        /* Feature lists nobody wants are stepped over whole. */
        if (f.number == 1)
            STK_TRY(search_map(&s, &at, f.value, false));
        else if (layout->any_sequence)
            STK_TRY(search_map(&s, &at, f.value, true));
    }
    if (status != STK_END)
        return status;
    for (size_t i = 0; layout->any_equal && i < layout->count; i++)
        found[i] = found[layout->names[i].first];
    return STK_OK;
}

/* Values of one feature */

static place list_place(const stk__feature *feature, stk_error *err)
{
    return (place){feature->list.p, feature->list.end, "list", err};
}

/* The values of a list of one run, which is the usual form; the window of the encoded values. */
FAST bool sole_run(const stk__feature *feature, stk__wire *run)
{
    const uint8_t *p = feature->list.p;
    if (!whole_field(&p, feature->list.end, 0x0a))
        return false;
    *run = (stk__wire){p, feature->list.end};
    return true;
}

static stk_status count_floats(const place *at, stk__wire run, int64_t *count)
{
    const int64_t size = run.end - run.p;
    if (size % 4)
        return stk_error_set(at->err, STK_CORRUPT,
                             "float_list: packed values at byte %lld take %lld bytes, wanted a multiple of 4",
                             byte_of(at, run.p), (long long)size);
    *count += size / 4;
    return STK_OK;
}

/* Every value ends with the one byte that has no high bit. */
static stk_status count_ints(const place *at, stk__wire run, int64_t *count)
{
    if (run.p == run.end)
        return STK_OK;
    if (run.end[-1] >= 0x80)
        return stk_error_set(at->err, STK_CORRUPT,
                             "int64_list: the last value ends at byte %lld with its varint cut off",
                             byte_of(at, run.end));
    const uint8_t *p = run.p;
    int64_t n = 0;
    for (; run.end - p >= 8; p += 8)
        n += (int64_t)(((~load_64(p) & HIGH_BITS) >> 7) * LOW_BITS >> 56);
    for (; p < run.end; p++)
        n += *p < 0x80;
    *count += n;
    return STK_OK;
}

stk_status stk__feature_count(const stk__feature *feature, int64_t *out, stk_error *err)
{
    const stk__feature_kind kind = feature->kind;
    int64_t count = 0;
    if (kind != STK__FEATURE_NONE) {
        const place at = list_place(feature, err);
        stk__wire list = feature->list;
        field run;
        stk_status status;
        while ((status = next_field(&at, &list, &list_messages[kind], &run)) == STK_OK) {
            if (kind == STK__FEATURE_BYTES)
                count++;
            else
                STK_TRY(kind == STK__FEATURE_FLOAT ? count_floats(&at, run.value, &count)
                                                   : count_ints(&at, run.value, &count));
        }
        if (status != STK_END)
            return status;
    }
    *out = count;
    return STK_OK;
}

static STK_NOINLINE stk_status wrong_kind(const stk__feature *feature, stk__feature_kind kind, int64_t want,
                                          stk_error *err)
{
    if (!feature->present)
        return stk_error_set(err, STK_CORRUPT, "is missing, wanted %lld %s value%s", (long long)want, kind_names[kind],
                             want == 1 ? "" : "s");
    if (feature->kind == STK__FEATURE_NONE)
        return stk_error_set(err, STK_CORRUPT, "has no list of values, wanted %lld %s value%s", (long long)want,
                             kind_names[kind], want == 1 ? "" : "s");
    return stk_error_set(err, STK_CORRUPT, "is %s, wanted %s", kind_names[feature->kind], kind_names[kind]);
}

static STK_NOINLINE stk_status check_count(const stk__feature *feature, int64_t want, stk_error *err)
{
    int64_t count = 0;
    STK_TRY(stk__feature_count(feature, &count, err));
    if (count == want)
        return STK_OK;
    return stk_error_set(err, STK_CORRUPT, "has %lld value%s, wanted %lld", (long long)count, count == 1 ? "" : "s",
                         (long long)want);
}

/* A feature without a list holds no values of any kind. */
static inline bool holds_nothing(const stk__feature *feature, int64_t want)
{
    return feature->kind == STK__FEATURE_NONE && want == 0;
}

static inline void copy_floats(float *out, const uint8_t *p, int64_t count)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = load_32(p + 4 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
#else
    if (count)
        memcpy(out, p, (size_t)count * sizeof *out);
#endif
}

/* Lists in another form than one packed run. */
static STK_NOINLINE stk_status floats_slow(const stk__feature *feature, float *out, int64_t want, stk_error *err)
{
    if (want == 0)
        return check_count(feature, want, err);
    const place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    field run;
    stk_status status;
    while ((status = next_field(&at, &list, &list_messages[STK__FEATURE_FLOAT], &run)) == STK_OK) {
        int64_t count = 0;
        STK_TRY(count_floats(&at, run.value, &count));
        if (count > want - have)
            return check_count(feature, want, err);
        copy_floats(out + have, run.value.p, count);
        have += count;
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

stk_status stk__feature_floats(const stk__feature *feature, float *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_FLOAT))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_FLOAT, want, err);
    if (STK_LIKELY(sole_run(feature, &run))) {
        const size_t size = (size_t)(run.end - run.p);
        if (STK_LIKELY(size % 4 == 0 && size / 4 == (uint64_t)want)) {
            if (want == 1)
                copy_floats(out, run.p, 1);
            else
                copy_floats(out, run.p, want);
            return STK_OK;
        }
    }
    return floats_slow(feature, out, want, err);
}

/* The varint that ends within the 8 bytes of `x`; `stops` are the high bits that are clear, at least one. */
static inline uint64_t unpack_varint(uint64_t x, uint64_t stops)
{
    x &= stops ^ (stops - 1);
    x = (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x7f007f007f007f00)) >> 1;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Decodes up to `room` values and moves run->p behind them; returns how many, or -1 on a bad varint. */
FAST int64_t decode_ints(stk__wire *run, int64_t *out, int64_t room)
{
    const uint8_t *p = run->p, *end = run->end;
    int64_t n = 0;
    while (n < room && end - p >= 8) {
        const uint64_t x = load_64(p), stops = ~x & HIGH_BITS;
        if (stops == HIGH_BITS && room - n >= 8) {
            for (int i = 0; i < 8; i++)
                out[n + i] = p[i];
            n += 8;
            p += 8;
        } else if (STK_LIKELY(stops != 0)) {
            out[n++] = (int64_t)unpack_varint(x, stops);
            p += __builtin_ctzll(stops) / 8 + 1;
        } else {
            stk__wire w = {p, end};
            uint64_t value;
            if (!stk__wire_varint_slow(&w, &value))
                return -1;
            out[n++] = (int64_t)value;
            p = w.p;
        }
    }
    /* The last 7 bytes or fewer fit a register; the zeros behind them end a cut varint, which is then too long. */
    if (n < room && p < end) {
        size_t left = (size_t)(end - p), size;
        for (uint64_t x = load_few(p, left); n < room && left; x >>= 8 * size, p += size, left -= size) {
            const uint64_t stops = ~x & HIGH_BITS;
            size = (size_t)__builtin_ctzll(stops) / 8 + 1;
            if (size > left)
                return -1;
            out[n++] = (int64_t)unpack_varint(x, stops);
        }
    }
    run->p = p;
    return n;
}

/* Lists in another form than one packed run, and all errors. */
static STK_NOINLINE stk_status ints_slow(const stk__feature *feature, int64_t *out, int64_t want, stk_error *err)
{
    if (want == 0)
        return check_count(feature, want, err);
    const place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    field run;
    stk_status status;
    while ((status = next_field(&at, &list, &list_messages[STK__FEATURE_INT64], &run)) == STK_OK) {
        const int64_t count = decode_ints(&run.value, out + have, want - have);
        if (count < 0)
            return stk_error_set(
                err, STK_CORRUPT,
                "int64_list: a varint between bytes %lld and %lld of the list is cut off or longer than 64 bits",
                byte_of(&at, run.value.p), byte_of(&at, run.value.end));
        have += count;
        if (run.value.p < run.value.end)
            return check_count(feature, want, err);
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

stk_status stk__feature_ints(const stk__feature *feature, int64_t *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_INT64))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_INT64, want, err);
    if (STK_LIKELY(sole_run(feature, &run))) {
        const int64_t count = decode_ints(&run, out, want);
        if (STK_LIKELY(count == want && run.p == run.end))
            return STK_OK;
    }
    return ints_slow(feature, out, want, err);
}

stk_status stk__feature_bytes(const stk__feature *feature, stk_bytes *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_BYTES))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_BYTES, want, err);
    if (want == 1 && sole_run(feature, &run)) {
        *out = (stk_bytes){run.p, run.end - run.p};
        return STK_OK;
    }
    const place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    field value;
    stk_status status;
    while ((status = next_field(&at, &list, &list_messages[STK__FEATURE_BYTES], &value)) == STK_OK) {
        if (have == want)
            return check_count(feature, want, err);
        out[have++] = (stk_bytes){value.value.p, value.value.end - value.value.p};
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

/* Feature lists */

stk_status stk__feature_list_count(const stk__feature_list *list, int64_t *out, stk_error *err)
{
    stk__wire w = list->features;
    const place at = {w.p, w.end, "feature list", err};
    int64_t count = 0;
    field f;
    stk_status status;
    while ((status = next_field(&at, &w, &feature_list_message, &f)) == STK_OK)
        count++;
    if (status != STK_END)
        return status;
    *out = count;
    return STK_OK;
}

stk_status stk__feature_list_next(stk__feature_list *list, stk__feature *out, stk_error *err)
{
    const place at = {list->features.p, list->features.end, "rest of the feature list", err};
    stk__wire w = list->features;
    field f;
    STK_TRY(next_field(&at, &w, &feature_list_message, &f));
    stk__feature feature = {.list = {f.value.p, f.value.p}, .present = true};
    if (!feature_fast(f.value.p, f.value.end, &feature.list, &feature.kind))
        STK_TRY(merge_feature(&at, f.value, &feature.list, &feature.kind));
    list->features = w;
    *out = feature;
    return STK_OK;
}

/* Looking at everything */

stk_status stk__example_each(stk_bytes record, bool sequence, stk__feature_visit visit, void *arg, stk_error *err)
{
    stk__wire w = record_window(record);
    const place at = {w.p, w.end, "record", err};
    field f;
    stk_status status;
    while ((status = next_field(&at, &w, sequence ? &sequence_message : &example_message, &f)) == STK_OK) {
        const bool in_lists = f.number == 2;
        entry e;
        while ((status = next_entry(&at, &f.value, in_lists, &e)) == STK_OK) {
            stk__found found;
            entry_store(&e, in_lists, &found);
            if (!visit(arg, (stk_bytes){e.key.p, e.key.end - e.key.p}, in_lists, &found))
                return STK_OK;
        }
        if (status != STK_END)
            return status;
    }
    return status == STK_END ? STK_OK : status;
}

/* Clears *arg and stops at the first feature whose values do not read. */
static bool visit_check(void *arg, stk_bytes key, bool sequence, const stk__found *found)
{
    bool *good = arg;
    int64_t count;
    if (!sequence)
        return *good = stk__feature_count(&found->feature, &count, NULL) == STK_OK;
    stk__feature_list list = found->list;
    stk__feature feature;
    stk_status status;
    while ((status = stk__feature_list_next(&list, &feature, NULL)) == STK_OK) {
        if (stk__feature_count(&feature, &count, NULL) != STK_OK)
            return *good = false;
    }
    return *good = status == STK_END;
}

int stk__example_guess_kind(stk_bytes record)
{
    /* Almost any bytes read as a message of unknown fields, so here those count against it. */
    bool sequence = false, good = true;
    for (stk__wire w = record_window(record), sub; w.p < w.end;) {
        uint32_t number, type;
        if (!stk__wire_tag(&w, &number, &type) || number > 2 || type != STK__WIRE_BYTES || !stk__wire_bytes(&w, &sub))
            return -1;
        sequence |= number == 2;
    }
    if (stk__example_each(record, sequence, visit_check, &good, NULL) != STK_OK || !good)
        return -1;
    return sequence;
}
