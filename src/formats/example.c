/* Finding the wanted features of tf.train.Example and SequenceExample records, and looking at all of them. */
#include "formats/example.h"

#include <string.h>

#include "base/mem.h"
#include "formats/example_wire.h"

#include "base/banned.h"

#define MAX_WANTED 65535

static const stk__example_message example_message = {"Example", 1, STK__WIRE_BYTES, {"features"}};
static const stk__example_message sequence_message = {
    "SequenceExample", 2, STK__WIRE_BYTES, {"context", "feature_lists"}};
static const stk__example_message features_message = {"Features", 1, STK__WIRE_BYTES, {"feature map entry"}};
static const stk__example_message feature_lists_message = {
    "FeatureLists", 1, STK__WIRE_BYTES, {"feature list map entry"}};
static const stk__example_message entry_message = {"map entry", 2, STK__WIRE_BYTES, {"key", "value"}};

static stk_status merge_feature_list(const stk__example_place *at, stk__wire *list, stk__wire w)
{
    if (w.p == w.end)
        return STK_OK;
    if (list->p != list->end)
        return stk_error_set(at->err, STK_CORRUPT,
                             "map entry has two feature lists, the second one at byte %lld, wanted one",
                             stk__example_byte_of(at, w.p));
    *list = w;
    return STK_OK;
}

/* A name and its value, from the feature map (a list of `kind`) or the feature list map (a FeatureList). */
typedef struct entry {
    stk__wire key, value;
    stk__feature_kind kind;
} entry;

static inline void entry_store(const entry *e, bool sequence, const uint8_t *limit, stk__found *out)
{
    if (sequence)
        out->list = (stk__feature_list){.features = e->value, .present = true};
    else
        out->feature = (stk__feature){.list = e->value, .limit = limit, .kind = e->kind, .present = true};
}

/* The map entry at p when it has the usual form, and what follows it; else NULL. Pointers, as gcc spills structs. */
STK__EXAMPLE_FAST const uint8_t *entry_fast(const uint8_t *p, const uint8_t *end, bool sequence, entry *out)
{
    size_t size;
    if (*p++ != 0x0a || !stk__example_any_length(&p, end, &size))
        return NULL;
    end = p + size;
    if (size < 2 || *p++ != 0x0a || !stk__example_any_length(&p, end, &size))
        return NULL;
    out->key = (stk__wire){p, p + size};
    p += size;
    if (!stk__example_whole_field(&p, end, 0x12))
        return NULL;
    if (sequence) {
        out->value = (stk__wire){p, end};
        out->kind = STK__FEATURE_NONE;
    } else if (!stk__example_feature_fast(p, end, &out->value, &out->kind)) {
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
static STK_NOINLINE stk_status entry_slow(const stk__example_place *at, stk__wire *w, bool sequence, entry *out)
{
    stk__example_field f, part;
    STK_TRY(stk__example_next_field(at, w, sequence ? &feature_lists_message : &features_message, &f));
    const stk__wire nothing = {f.value.p, f.value.p};
    *out = (entry){nothing, nothing, STK__FEATURE_NONE};
    stk_status status;
    while ((status = stk__example_next_field(at, &f.value, &entry_message, &part)) == STK_OK) {
        if (part.number == 1)
            out->key = part.value;
        else if (sequence)
            status = merge_feature_list(at, &out->value, part.value);
        else
            status = stk__example_merge_feature(at, part.value, &out->value, &out->kind);
        if (status != STK_OK)
            break;
    }
    if (status == STK_END)
        return STK_OK;
    set_field(at->err, out->key);
    return status;
}

static inline stk_status next_entry(const stk__example_place *at, stk__wire *w, bool sequence, entry *out)
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
    uint64_t head, head_mask; /* its first 8 bytes or fewer, and which bytes these are */
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

static inline uint32_t name_hash(const uint8_t *p, size_t n, bool sequence)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (uint64_t)n * 2 + sequence;
    for (; n > 8; n -= 8, p += 8) {
        h = (h ^ stk__example_load_64(p)) * odd;
        h ^= h >> 32;
    }
    h = (h ^ stk__example_load_few(p, n)) * odd;
    h ^= h >> 29;
    return (uint32_t)(h * odd >> 32);
}

/* memcmp for short names, without the call. */
STK__EXAMPLE_FAST bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    if (n < 8)
        return stk__example_load_few(a, n) == stk__example_load_few(b, n);
    for (size_t i = 0; i + 8 < n; i += 8) {
        if (stk__example_load_64(a + i) != stk__example_load_64(b + i))
            return false;
    }
    return stk__example_load_64(a + n - 8) == stk__example_load_64(b + n - 8);
}

STK__EXAMPLE_FAST bool name_is(const name *n, const uint8_t *text, size_t length, bool sequence)
{
    return n->length == length && n->sequence == sequence && same_bytes(n->text, text, length);
}

/* The same in one load for short names, where `limit` allows to read 8 bytes. */
STK__EXAMPLE_FAST bool name_is_at(const name *n, const uint8_t *text, size_t length, bool sequence, const uint8_t *limit)
{
    if (n->length != length || n->sequence != sequence)
        return false;
    if (STK_LIKELY(length <= 8 && limit - text >= 8))
        return ((stk__example_load_64(text) ^ n->head) & n->head_mask) == 0;
    return same_bytes(n->text, text, length);
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
    const size_t length = strlen(wanted->name), few = STK_MIN(length, (size_t)8);
    *n = (name){(const uint8_t *)wanted->name, length, wanted->sequence, index,
                stk__example_load_few((const uint8_t *)wanted->name, few),
                few == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * few) - 1};
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
STK__EXAMPLE_FAST uint32_t search_name(const search *s, size_t position, stk__wire key, bool sequence,
                                      const uint8_t *limit)
{
    const stk__example_layout *layout = s->layout;
    const size_t length = (size_t)(key.end - key.p);
    if (STK_UNLIKELY(position >= STK_COUNT(s->guess->order)))
        return layout_lookup(layout, key.p, length, sequence);
    const uint32_t last = s->guess->order[position];
    if (STK_LIKELY(last - 1 < layout->count)) {
        const name *n = &layout->names[last - 1];
        if (STK_LIKELY(name_is_at(n, key.p, length, sequence, limit)))
            return n->first + 1;
    }
    const uint32_t index = layout_lookup(layout, key.p, length, sequence);
    s->guess->order[position] = (uint16_t)index;
    return index;
}

static STK_NOINLINE stk_status search_slow(const search *s, size_t position, const stk__example_place *at,
                                           stk__wire *map, bool sequence)
{
    entry e;
    STK_TRY(entry_slow(at, map, sequence, &e));
    const uint32_t index = search_name(s, position, e.key, sequence, map->end);
    if (index)
        entry_store(&e, sequence, map->end, &s->found[index - 1]);
    return STK_OK;
}

/* Nothing of the usual path has its address taken, so that it stays in registers. */
STK__EXAMPLE_FAST stk_status search_map(search *s, const stk__example_place *at, stk__wire map, bool sequence)
{
    const uint8_t *p = map.p, *end = map.end;
    size_t position = s->position;
    for (; p < end; position++) {
        entry e;
        const uint8_t *next = entry_fast(p, end, sequence, &e);
        if (STK_LIKELY(next != NULL)) {
            const uint32_t index = search_name(s, position, e.key, sequence, end);
            if (index)
                entry_store(&e, sequence, end, &s->found[index - 1]);
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
    const stk__example_place at = {w.p, w.end, "record", err};
    const stk__example_message *m = sequence || layout->any_sequence ? &sequence_message : &example_message;
    search s = {layout, guess, found, 0};
    if (layout->count)
        memset(found, 0, layout->count * sizeof *found);
    /* The usual Example is one field from end to end. */
    if (STK_LIKELY(m == &example_message && stk__example_whole_field(&w.p, w.end, 0x0a))) {
        STK_TRY(search_map(&s, &at, w, false));
        w.p = w.end;
    }
    stk__example_field f;
    stk_status status;
    while ((status = w.p < w.end ? stk__example_next_field(&at, &w, m, &f) : STK_END) == STK_OK) {
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

/* Looking at everything */

stk_status stk__example_each(stk_bytes record, bool sequence, stk__feature_visit visit, void *arg, stk_error *err)
{
    stk__wire w = record_window(record);
    const stk__example_place at = {w.p, w.end, "record", err};
    stk__example_field f;
    stk_status status;
    while ((status = stk__example_next_field(&at, &w, sequence ? &sequence_message : &example_message, &f)) == STK_OK) {
        const bool in_lists = f.number == 2;
        entry e;
        while ((status = next_entry(&at, &f.value, in_lists, &e)) == STK_OK) {
            stk__found found;
            entry_store(&e, in_lists, NULL, &found);
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
