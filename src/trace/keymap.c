/* Open addressing with linear probing, at most two thirds full. */
#include <string.h>

#include "base/mem.h"
#include "trace/keymap.h"

#include <xxhash.h>

#include "base/banned.h"

static size_t home(const stk__keymap *m, const stk__key *key)
{
    return (size_t)XXH3_64bits(key, sizeof *key) & (m->capacity - 1);
}

static stk__keymap_entry *probe(const stk__keymap *m, const stk__key *key)
{
    size_t at = home(m, key);
    while (m->entries[at].used && memcmp(&m->entries[at].key, key, sizeof *key) != 0)
        at = (at + 1) & (m->capacity - 1);
    return &m->entries[at];
}

static bool rehash(stk__keymap *m)
{
    stk__keymap bigger = {.capacity = m->capacity ? m->capacity * 2 : 64, .count = m->count};
    bigger.entries = stk__calloc(bigger.capacity, sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < m->capacity; i++) {
        if (m->entries[i].used)
            *probe(&bigger, &m->entries[i].key) = m->entries[i];
    }
    stk__free(m->entries);
    *m = bigger;
    return true;
}

uint32_t *stk__keymap_place(stk__keymap *m, stk__key key, uint32_t fallback, bool *out_new)
{
    *out_new = false;
    if ((m->count + 1) * 3 > m->capacity * 2 && !rehash(m))
        return NULL;
    stk__keymap_entry *entry = probe(m, &key);
    if (!entry->used) {
        *entry = (stk__keymap_entry){key, fallback, 1};
        m->count++;
        *out_new = true;
    }
    return &entry->value;
}

uint32_t stk__keymap_find(const stk__keymap *m, stk__key key, uint32_t fallback)
{
    if (!m->capacity)
        return fallback;
    const stk__keymap_entry *entry = probe(m, &key);
    return entry->used ? entry->value : fallback;
}

void stk__keymap_clear(stk__keymap *m)
{
    stk__free(m->entries);
    *m = (stk__keymap){0};
}

static bool rowmap_grow(stk__rowmap *m)
{
    const size_t capacity = m->capacity ? m->capacity * 2 : 64;
    uint32_t(*entries)[2] = stk__calloc(capacity, sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = 0; i < m->capacity; i++) {
        if (!m->entries[i][1])
            continue;
        size_t at = m->entries[i][0] & (capacity - 1);
        while (entries[at][1])
            at = (at + 1) & (capacity - 1);
        memcpy(entries[at], m->entries[i], sizeof entries[at]);
    }
    stk__free(m->entries);
    m->entries = entries;
    m->capacity = capacity;
    return true;
}

static uint32_t row_hash(const stk__key *key)
{
    const uint64_t hash = XXH3_64bits(key, sizeof *key);
    return (uint32_t)(hash ^ hash >> 32);
}

/* The place of the key, or the free one where it would stand. There is always a free one. */
static size_t row_place(const stk__rowmap *m, const stk__key *key, uint32_t hash, stk__row_key key_of,
                        const void *table)
{
    size_t at = hash & (m->capacity - 1);
    for (; m->entries[at][1]; at = (at + 1) & (m->capacity - 1)) {
        if (m->entries[at][0] != hash)
            continue;
        const stk__key other = key_of(table, m->entries[at][1] - 1);
        if (memcmp(&other, key, sizeof *key) == 0)
            break;
    }
    return at;
}

bool stk__rowmap_place(stk__rowmap *m, stk__key key, stk__row_key key_of, const void *table, uint32_t next,
                       uint32_t *out_row, bool *out_new)
{
    *out_new = false;
    if ((m->count + 1) * 3 > m->capacity * 2 && !rowmap_grow(m))
        return false;
    const uint32_t hash = row_hash(&key);
    const size_t at = row_place(m, &key, hash, key_of, table);
    if (!m->entries[at][1]) {
        m->entries[at][0] = hash;
        m->entries[at][1] = next + 1;
        m->count++;
        *out_new = true;
    }
    *out_row = m->entries[at][1] - 1;
    return true;
}

uint32_t stk__rowmap_find(const stk__rowmap *m, stk__key key, stk__row_key key_of, const void *table)
{
    if (!m->count)
        return UINT32_MAX;
    const size_t at = row_place(m, &key, row_hash(&key), key_of, table);
    return m->entries[at][1] ? m->entries[at][1] - 1 : UINT32_MAX;
}

void stk__rowmap_clear(stk__rowmap *m)
{
    stk__free(m->entries);
    *m = (stk__rowmap){0};
}
