/* One numbering for texts of two traces, so that equal names meet. */
#include <ctype.h>
#include <string.h>

#include "analyze/diff_impl.h"
#include "base/mem.h"
#include "base/rng.h"

#include "base/banned.h"

static uint64_t hash_text(const char *text, size_t size)
{
    uint64_t hash = size;
    for (; size >= 8; text += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = stk__mix(hash, word);
    }
    uint64_t word = 0;
    if (size)
        memcpy(&word, text, size);
    return stk__mix(hash, word);
}

const char *stk__diff_key_text(const stk__diff_keys *keys, uint32_t key, size_t *out_size)
{
    if (out_size)
        *out_size = keys->offset[key + 1] - keys->offset[key] - 1;
    return keys->bytes + keys->offset[key];
}

static size_t find_slot(const stk__diff_keys *keys, const char *text, size_t size)
{
    size_t slot = hash_text(text, size) & (keys->slot_count - 1);
    for (; keys->slots[slot]; slot = (slot + 1) & (keys->slot_count - 1)) {
        size_t known_size;
        const char *known = stk__diff_key_text(keys, keys->slots[slot] - 1, &known_size);
        if (known_size == size && memcmp(known, text, size) == 0)
            break;
    }
    return slot;
}

static bool grow_slots(stk__diff_keys *keys)
{
    if ((keys->count + 1) * 2 <= keys->slot_count)
        return true;
    const size_t count = keys->slot_count ? keys->slot_count * 2 : 256;
    uint32_t *slots = stk__calloc(count, sizeof *slots);
    if (!slots)
        return false;
    stk__free(keys->slots);
    keys->slots = slots;
    keys->slot_count = count;
    for (uint32_t i = 0; i < keys->count; i++) {
        size_t size;
        const char *text = stk__diff_key_text(keys, i, &size);
        slots[find_slot(keys, text, size)] = i + 1;
    }
    return true;
}

uint32_t stk__diff_key(stk__diff_keys *keys, const char *text, size_t size)
{
    if (keys->failed || !grow_slots(keys)) {
        keys->failed = true;
        return STK__NONE;
    }
    const size_t slot = find_slot(keys, text, size);
    if (keys->slots[slot])
        return keys->slots[slot] - 1;
    if (keys->count >= UINT32_MAX - 2 ||
        !stk__grow((void **)&keys->bytes, &keys->bytes_capacity, keys->used + size + 1, 1) ||
        !stk__grow((void **)&keys->offset, &keys->offset_capacity, keys->count + 2, sizeof *keys->offset)) {
        keys->failed = true;
        return STK__NONE;
    }
    if (!keys->count)
        keys->offset[0] = 0;
    if (size)
        memcpy(keys->bytes + keys->used, text, size);
    keys->bytes[keys->used + size] = 0;
    keys->used += size + 1;
    keys->offset[++keys->count] = keys->used;
    keys->slots[slot] = (uint32_t)keys->count;
    return (uint32_t)keys->count - 1;
}

void stk__diff_keys_clear(stk__diff_keys *keys)
{
    stk__free(keys->bytes);
    stk__free(keys->offset);
    stk__free(keys->slots);
    *keys = (stk__diff_keys){0};
}

/* Does the name without its digits read like the marker? Spaces and '#' between the two do not count. */
static bool is_marker(const char *marker, const char *name, size_t size)
{
    size_t length = strlen(marker);
    while (length && (marker[length - 1] == ' ' || marker[length - 1] == '#' || marker[length - 1] == '*'))
        length--;
    while (size && name[size - 1] == ' ')
        size--;
    return length && length == size && memcmp(marker, name, size) == 0;
}

size_t stk__diff_stem(const char *marker, const char *name, size_t size)
{
    size_t stem = size;
    while (stem && isdigit((unsigned char)name[stem - 1]))
        stem--;
    return stem == size || !stem || stem > 200 || (name[stem - 1] != '#' && !is_marker(marker, name, stem)) ? 0 : stem;
}

uint32_t stk__diff_name_key(stk__diff_keys *keys, const char *marker, const char *name, size_t size)
{
    const size_t stem = stk__diff_stem(marker, name, size);
    if (!stem)
        return stk__diff_key(keys, name, size);
    char folded[256];
    memcpy(folded, name, stem);
    folded[stem] = '*';
    return stk__diff_key(keys, folded, stem + 1);
}
