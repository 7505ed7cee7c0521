/* Orders of rows for SQL: ranks of values, stable counting sorts, and indexes on references. */
#include <stdlib.h>
#include <string.h>

#include "analyze/sql_impl.h"
#include "base/mem.h"

#include "base/banned.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, TRIM_ROWS = 1 << 20 };

/* ---- ranks ---- */

typedef struct named {
    const char *text;
    size_t size;
    uint32_t number;
} named;

static int by_text(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int order = memcmp(x->text, y->text, STK_MIN(x->size, y->size));
    if (order)
        return order;
    return (x->size > y->size) - (x->size < y->size);
}

static named named_of(const stk__trace *t, stk__string string, uint32_t number)
{
    named n = {.number = number};
    n.text = stk__trace_text(t, string, &n.size);
    return n;
}

/* Marks the strings that rows have; returns how many there are. */
static size_t mark_used(const stk__trace *t, const stk__string *column, size_t count, uint32_t *rank)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const stk__string s = column[i];
        if (s < t->string_count && rank[s] == STK__NONE) {
            rank[s] = 0;
            used++;
        }
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(t);
    }
    return used;
}

bool stk__sql_rank_strings(const stk__trace *t, const stk__string *column, size_t count, stk__sql_map *out)
{
    uint32_t *rank = stk__alloc((size_t)t->string_count * sizeof *rank);
    if (!rank)
        return false;
    memset(rank, 0xff, (size_t)t->string_count * sizeof *rank);
    const size_t used = mark_used(t, column, count, rank);
    uint32_t *strings = stk__calloc(used, sizeof *strings);
    named *names = stk__calloc(used, sizeof *names);
    if (!strings || !names) {
        stk__free(rank);
        stk__free(strings);
        stk__free(names);
        return false;
    }
    size_t n = 0;
    for (uint32_t s = 0; s < t->string_count; s++) {
        if (rank[s] != STK__NONE)
            names[n++] = named_of(t, s, s);
    }
    qsort(names, used, sizeof *names, by_text);
    for (size_t i = 0; i < used; i++) {
        strings[i] = names[i].number;
        rank[names[i].number] = (uint32_t)i;
    }
    stk__free(names);
    *out = (stk__sql_map){.rank = rank, .values = strings, .ranks = used};
    return true;
}

bool stk__sql_rank_texts(const stk__trace *t, const stk__string *values, size_t count, stk__sql_map *out)
{
    uint32_t *rank = stk__calloc(count, sizeof *rank), *samples = stk__calloc(count, sizeof *samples);
    named *names = stk__calloc(count, sizeof *names);
    if (!rank || !samples || !names) {
        stk__free(rank);
        stk__free(samples);
        stk__free(names);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        names[i] = named_of(t, values[i], (uint32_t)i);
    qsort(names, count, sizeof *names, by_text);
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && by_text(&names[i - 1], &names[i]) != 0)
            next++;
        rank[names[i].number] = next;
        samples[next] = names[i].number;
    }
    stk__free(names);
    *out = (stk__sql_map){.rank = rank, .values = samples, .ranks = count ? (size_t)next + 1 : 0};
    return true;
}

typedef struct numbered {
    int64_t value;
    uint32_t number;
} numbered;

static int by_value(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

bool stk__sql_rank_numbers(const int64_t *values, size_t count, stk__sql_map *out)
{
    uint32_t *rank = stk__calloc(count, sizeof *rank), *samples = stk__calloc(count, sizeof *samples);
    numbered *sorted = stk__calloc(count, sizeof *sorted);
    if (!rank || !samples || !sorted) {
        stk__free(rank);
        stk__free(samples);
        stk__free(sorted);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = (numbered){values[i], (uint32_t)i};
    qsort(sorted, count, sizeof *sorted, by_value);
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && sorted[i].value != sorted[i - 1].value)
            next++;
        rank[sorted[i].number] = next;
        samples[next] = sorted[i].number;
    }
    stk__free(sorted);
    *out = (stk__sql_map){.rank = rank, .values = samples, .ranks = count ? (size_t)next + 1 : 0};
    return true;
}

/* ---- sorting ---- */

typedef struct sorting {
    const stk__trace *trace;
    size_t rows;
    uint32_t *from; /* NULL: the rows in their own order */
    uint32_t *to;
} sorting;

static inline uint32_t row_at(const sorting *s, size_t i)
{
    return s->from ? s->from[i] : (uint32_t)i;
}

/* What a pass wrote is what the next one reads. */
static bool sorting_turn(sorting *s)
{
    uint32_t *spare = s->from;
    s->from = s->to;
    s->to = spare ? spare : stk__calloc(s->rows, sizeof *s->to);
    return s->to != NULL;
}

/* Counts become the first places of each bucket; the last bucket first when `flipped`. */
static void place_buckets(uint32_t *counts, size_t buckets, bool flipped)
{
    uint32_t next = 0;
    for (size_t i = 0; i < buckets; i++) {
        uint32_t *place = &counts[flipped ? buckets - 1 - i : i];
        const uint32_t count = *place;
        *place = next;
        next += count;
    }
}

static bool pass_mapped(sorting *s, const stk__sql_key *key)
{
    if (key->ranks < 2)
        return true;
    uint32_t *places = stk__calloc(key->ranks, sizeof *places);
    if (!places)
        return false;
    const uint32_t *value = key->value, *rank = key->rank;
    for (size_t i = 0; i < s->rows; i++) /* the order does not matter for counting */
        places[rank ? rank[value[i]] : value[i]]++;
    place_buckets(places, key->ranks, key->flipped);
    for (size_t i = 0; i < s->rows; i++) {
        const uint32_t row = row_at(s, i);
        s->to[places[rank ? rank[value[row]] : value[row]]++] = row;
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(s->trace);
    }
    stk__free(places);
    return sorting_turn(s);
}

static bool pass_digit(sorting *s, const int64_t *wide, uint64_t base, unsigned shift, bool flipped)
{
    uint32_t places[DIGITS] = {0};
    for (size_t i = 0; i < s->rows; i++)
        places[((uint64_t)wide[i] - base) >> shift & (DIGITS - 1)]++;
    for (size_t i = 0; i < DIGITS; i++) {
        if (places[i] == s->rows)
            return true; /* all alike */
    }
    place_buckets(places, DIGITS, flipped);
    for (size_t i = 0; i < s->rows; i++) {
        const uint32_t row = row_at(s, i);
        s->to[places[((uint64_t)wide[row] - base) >> shift & (DIGITS - 1)]++] = row;
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(s->trace);
    }
    return sorting_turn(s);
}

static bool pass_wide(sorting *s, const stk__sql_key *key)
{
    const int64_t *wide = key->wide;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < s->rows; i++) {
        low = STK_MIN(low, wide[i]);
        high = STK_MAX(high, wide[i]);
    }
    const uint64_t range = (uint64_t)high - (uint64_t)low;
    for (unsigned shift = 0; shift < 64 && range >> shift; shift += DIGIT_BITS) {
        if (!pass_digit(s, wide, (uint64_t)low, shift, key->flipped))
            return false;
    }
    return true;
}

uint32_t *stk__sql_sort(const stk__trace *t, const stk__sql_key *keys, size_t key_count, size_t rows)
{
    sorting s = {.trace = t, .rows = rows, .to = stk__calloc(rows, sizeof *s.to)};
    bool ok = s.to != NULL;
    for (size_t k = key_count; ok && rows && k-- > 0;)
        ok = keys[k].wide ? pass_wide(&s, &keys[k]) : pass_mapped(&s, &keys[k]);
    if (ok && !s.from) { /* nothing to sort by */
        for (size_t i = 0; i < rows; i++)
            s.to[i] = (uint32_t)i;
        return s.to;
    }
    stk__free(s.to);
    if (ok)
        return s.from;
    stk__free(s.from);
    return NULL;
}

/* ---- groups ---- */

static inline size_t rank_of(const stk__sql_key *key, size_t row)
{
    const uint32_t value = key->value[row];
    const size_t rank = key->rank ? key->rank[value] : value;
    return key->flipped ? key->ranks - 1 - rank : rank;
}

static inline size_t group_of(const stk__sql_key *keys, const size_t *strides, size_t key_count, size_t row)
{
    size_t group = 0;
    for (size_t k = 0; k < key_count; k++)
        group += rank_of(&keys[k], row) * strides[k];
    return group;
}

uint32_t *stk__sql_groups(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                          size_t groups, size_t rows)
{
    uint32_t *first = stk__calloc(groups + 1, sizeof *first);
    if (!first)
        return NULL;
    for (size_t i = 0; i < rows; i++) {
        first[group_of(keys, strides, key_count, i)]++;
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(t);
    }
    place_buckets(first, groups + 1, false);
    return first;
}

bool stk__sql_scatter(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                      const uint32_t *first, size_t groups, size_t rows, const void *column, size_t item_bytes,
                      void *out)
{
    uint32_t *places = stk__alloc((groups + 1) * sizeof *places);
    if (!places)
        return false;
    memcpy(places, first, (groups + 1) * sizeof *places);
    const uint32_t *narrow = column;
    const int64_t *wide = column;
    for (size_t i = 0; i < rows; i++) {
        const uint32_t place = places[group_of(keys, strides, key_count, i)]++;
        if (item_bytes == sizeof *wide)
            ((int64_t *)out)[place] = wide[i];
        else
            ((uint32_t *)out)[place] = narrow ? narrow[i] : (uint32_t)i;
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(t);
    }
    stk__free(places);
    return true;
}

stk__sql_run *stk__sql_runs(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                            size_t groups, const int64_t *dur, size_t rows)
{
    stk__sql_run *runs = stk__calloc(groups, sizeof *runs);
    if (!runs)
        return NULL;
    for (size_t i = 0; i < groups; i++) {
        runs[i].min = INT64_MAX;
        runs[i].max = INT64_MIN;
    }
    for (size_t i = 0; i < rows; i++) {
        stk__sql_run *run = &runs[group_of(keys, strides, key_count, i)];
        run->count++;
        run->total += (double)dur[i];
        run->overflow |= __builtin_add_overflow(run->sum, dur[i], &run->sum);
        run->min = STK_MIN(run->min, dur[i]);
        run->max = STK_MAX(run->max, dur[i]);
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(t);
    }
    return runs;
}

/* ---- indexes ---- */

bool stk__sql_index_make(const stk__trace *t, stk__sql_index *index, const uint32_t *column, size_t rows, uint32_t none,
                         size_t values)
{
    if (index->ready)
        return true;
    uint32_t *places = stk__calloc(values, sizeof *places);
    size_t count = 0;
    for (size_t i = 0; places && i < rows; i++) {
        if (column[i] != none && column[i] < values) {
            places[column[i]]++;
            count++;
        }
    }
    uint32_t *sorted = stk__calloc(count, sizeof *sorted);
    if (!places || !sorted) {
        stk__free(places);
        stk__free(sorted);
        return false;
    }
    place_buckets(places, values, false);
    for (size_t i = 0; i < rows; i++) {
        if (column[i] != none && column[i] < values)
            sorted[places[column[i]]++] = (uint32_t)i;
        if (i % TRIM_ROWS == 0)
            stk__trace_trim(t);
    }
    stk__free(places);
    *index = (stk__sql_index){.ready = true, .rows = sorted, .count = count};
    return true;
}

static size_t lower_bound(const stk__sql_index *index, const uint32_t *column, uint64_t value)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (column[index->rows[middle]] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void stk__sql_index_find(const stk__sql_index *index, const uint32_t *column, uint32_t value, size_t *first,
                         size_t *end)
{
    *first = lower_bound(index, column, value);
    *end = lower_bound(index, column, (uint64_t)value + 1);
}
