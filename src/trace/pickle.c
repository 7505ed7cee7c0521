/*
 * The pickle machine: a stack of values, marks in it, and a memo of what comes again.
 *
 * A pickle is a program, so what it may cost is bounded here: no operation recurses, lengths are compared with the bytes
 * that come, the stack and the numbers of memo entries have limits, and no container is looked at twice.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/pickle.h"

#include "base/banned.h"

enum {
    STACK_MAX = 1 << 25,
    MARKS_MAX = 1 << 20,
    MEMO_SLACK = 1 << 16, /* numbers of the memo may run ahead of how many there are by twice and this */
    TEXT_MAX = 64 << 20,
    LINE_MAX_BYTES = 1 << 16, /* of numbers and names in protocol 0 */
    WINDOW_LOW = 64,          /* no operation without a text takes more */
    BATCH = 1000,        /* Python gives items of lists and dicts in batches of this many; the last one has fewer */
    WHOLE_MAX = 1 << 20, /* bytes of a whole number: past 64 bits only its size matters */
    KEPT_MAX = 1 << 24,  /* items of all open containers together */
};

/* The life of a container. */
enum { OPEN, TAKEN, MADE };

typedef bool (*operation)(stk__pickle *m);

int64_t stk__pickle_offset(const stk__pickle *m)
{
    return m->base + (int64_t)m->at;
}

void stk__pickle_init(stk__pickle *m, stk__input *in, stk__store *store, const stk__pickle_client *client)
{
    *m = (stk__pickle){.in = in, .store = store, .client = *client, .base = stk__input_offset(in)};
}

static stk__pickle_object *object_at(const stk__pickle *m, uint32_t object)
{
    return (stk__pickle_object *)m->objects.data + object;
}

static void drop_items(stk__pickle *m, stk__pickle_object *o)
{
    if (o->room) {
        m->kept -= o->count;
        stk__free(o->u.items);
    }
    o->room = 0;
}

void stk__pickle_clear(stk__pickle *m)
{
    for (size_t i = 0; i < m->object_count; i++)
        drop_items(m, object_at(m, (uint32_t)i));
    stk__column_clear(m->store, &m->objects);
    stk__column_clear(m->store, &m->memo);
    stk__free(m->stack);
    stk__free(m->marks);
    stk__text_clear(&m->scratch);
}

/* ---- ends ---- */

static bool bad(stk__pickle *m, const char *why)
{
    m->state = STK__PICKLE_BAD;
    snprintf(m->message, sizeof m->message, "%s", why);
    return false;
}

static bool cut(stk__pickle *m)
{
    m->state = STK__PICKLE_CUT;
    return false;
}

static bool failed(stk__pickle *m)
{
    m->state = STK__PICKLE_FAILED;
    return false;
}

static bool no_memory(stk__pickle *m, size_t bytes)
{
    stk__nomem(bytes, &m->store->error);
    return failed(m);
}

/* ---- bytes ---- */

/* `size` bytes in the window, or as many as are left. */
static size_t look(stk__pickle *m, size_t size)
{
    if (m->size - m->at >= size || m->ended)
        return m->size - m->at;
    stk__input_advance(m->in, m->at);
    m->base += (int64_t)m->at;
    m->at = 0;
    m->data = stk__input_peek(m->in, size, &m->size);
    m->ended = m->size < size;
    return m->size;
}

/* The next `size` bytes, which stay until the next look; NULL at the end of the file. */
static const uint8_t *take_bytes(stk__pickle *m, size_t size)
{
    if (look(m, size) < size) {
        cut(m);
        return NULL;
    }
    const uint8_t *p = m->data + m->at;
    m->at += size;
    return p;
}

static bool skip_bytes(stk__pickle *m, uint64_t size)
{
    while (size) {
        const size_t here = look(m, 1);
        if (!here)
            return cut(m);
        const size_t step = size < here ? (size_t)size : here;
        m->at += step;
        size -= step;
    }
    return true;
}

static uint64_t number_of(const uint8_t *p, size_t size)
{
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

static bool take_number(stk__pickle *m, size_t size, uint64_t *out)
{
    const uint8_t *p = take_bytes(m, size);
    if (!p)
        return false;
    *out = number_of(p, size);
    return true;
}

/* A line without its end, NULL when there is none or it is too long. */
static const char *take_line(stk__pickle *m, size_t most, size_t *out_size)
{
    for (size_t want = 256, seen = 0;; want *= 2) {
        const size_t here = look(m, want);
        const uint8_t *end = here > seen ? memchr(m->data + m->at + seen, '\n', here - seen) : NULL;
        if (end) {
            const char *line = (const char *)m->data + m->at;
            *out_size = (size_t)(end - (const uint8_t *)line);
            m->at += *out_size + 1;
            return line;
        }
        if (here < want || here > most) {
            if (here < want)
                cut(m);
            else
                bad(m, "a line is too long");
            return NULL;
        }
        seen = here;
    }
}

/* ---- the stack ---- */

static bool push(stk__pickle *m, stk__pickle_value value)
{
    if (m->depth == m->stack_capacity) {
        if (m->depth >= STACK_MAX)
            return bad(m, "more than 33,554,432 values wait for their container");
        if (!stk__grow((void **)&m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack))
            return no_memory(m, m->depth * sizeof *m->stack);
    }
    m->stack[m->depth++] = value;
    return true;
}

static bool push_int(stk__pickle *m, int64_t integer)
{
    return push(m, (stk__pickle_value){STK__PICKLE_INT, {.integer = integer}});
}

/* Where the values from the last mark on start; what is below it is not theirs to take. */
static size_t stack_floor(const stk__pickle *m)
{
    return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

static bool has(stk__pickle *m, size_t values)
{
    return m->depth - stack_floor(m) >= values || bad(m, "the stack is empty");
}

static bool pop_mark(stk__pickle *m, size_t *out_first)
{
    if (!m->mark_count)
        return bad(m, "a mark is missing");
    *out_first = m->marks[--m->mark_count];
    return true;
}

static bool is_container(const stk__pickle_value *v)
{
    return v->kind >= STK__PICKLE_LIST;
}

/* ---- containers ---- */

static bool push_object(stk__pickle *m, stk__pickle_kind kind, stk__pickle_object object)
{
    if (m->object_count >= UINT32_MAX - 1)
        return bad(m, "more than 4,294,967,294 containers");
    if (!stk__column_grow(m->store, &m->objects, (m->object_count + 1) * sizeof object))
        return failed(m);
    object.kind = (uint8_t)kind;
    *object_at(m, (uint32_t)m->object_count) = object;
    return push(m, (stk__pickle_value){kind, {.object = (uint32_t)m->object_count++}});
}

static bool push_empty(stk__pickle *m, stk__pickle_kind kind)
{
    return push_object(m, kind, (stk__pickle_object){.stage = OPEN});
}

/* From here on a number stands for the container. */
static void make_object(stk__pickle *m, stk__pickle_object *o)
{
    if (o->stage == OPEN) {
        const uint64_t made = m->client.make(m->client.arg, (stk__pickle_kind)o->kind, o->room ? o->u.items : NULL,
                                             o->count, stk__pickle_offset(m));
        drop_items(m, o);
        o->u.made = made;
    }
    o->stage = MADE;
}

/* Containers among values become what was made of them. */
static void make_values(stk__pickle *m, stk__pickle_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_container(&values[i]))
            continue;
        stk__pickle_object *o = object_at(m, values[i].u.object);
        make_object(m, o);
        values[i] = (stk__pickle_value){STK__PICKLE_MADE, {.made = o->u.made}};
    }
}

/* A container that is whole at once; its items are taken off the stack. */
static bool push_whole(stk__pickle *m, stk__pickle_kind kind, size_t count)
{
    stk__pickle_value *items = count ? m->stack + m->depth - count : NULL;
    make_values(m, items, count);
    const uint64_t made = m->client.make(m->client.arg, kind, items, count, stk__pickle_offset(m));
    m->depth -= count;
    return push_object(
        m, kind,
        (stk__pickle_object){.u.made = made, .count = (uint32_t)STK_MIN(count, (size_t)UINT32_MAX), .stage = MADE});
}

static bool keep_items(stk__pickle *m, stk__pickle_object *o, const stk__pickle_value *items, size_t count)
{
    const size_t want = o->count + count;
    if (m->kept + count > KEPT_MAX)
        return bad(m, "open containers have more than 16,777,216 items");
    uint8_t room = o->room;
    while (!room || (size_t)1 << room < want)
        room++;
    if (room != o->room) {
        void *grown = stk__realloc(o->room ? o->u.items : NULL, ((size_t)1 << room) * sizeof *items);
        if (!grown)
            return no_memory(m, ((size_t)1 << room) * sizeof *items);
        o->u.items = grown;
        o->room = room;
    }
    memcpy(o->u.items + o->count, items, count * sizeof *items);
    o->count += (uint32_t)count;
    m->kept += count;
    return true;
}

static void lose_items(stk__pickle *m, size_t count)
{
    if (!m->late)
        m->late_offset = stk__pickle_offset(m);
    m->late += count;
}

static bool offer_items(stk__pickle *m, stk__pickle_object *o, const stk__pickle_value *items, size_t count)
{
    if (o->kind != STK__PICKLE_LIST || o->stage == MADE || o->count || !m->client.take)
        return false;
    uint64_t made = o->stage == TAKEN ? o->u.made : 0;
    if (!m->client.take(m->client.arg, &made, items, count))
        return false;
    o->stage = TAKEN;
    o->u.made = made;
    return true;
}

/* The values from `first` on become items of the container below them. `last`: no more will come for it. */
static bool add_items(stk__pickle *m, size_t first, stk__pickle_kind kind, bool last)
{
    const size_t count = m->depth - first;
    if (first <= stack_floor(m) || (kind == STK__PICKLE_DICT && count % 2))
        return bad(m, "items without a container");
    stk__pickle_value *items = m->stack + first;
    const stk__pickle_value *target = items - 1;
    m->depth = first;
    make_values(m, items, count);
    if (!is_container(target)) {
        if (target->kind != STK__PICKLE_OPAQUE)
            return bad(m, "items for something that is no container");
        return true; /* what an unknown class would have taken */
    }
    stk__pickle_object *o = object_at(m, target->u.object);
    if (o->kind != kind || o->kind == STK__PICKLE_TUPLE)
        return bad(m, "items for a container of another kind");
    if (count == 0 || offer_items(m, o, items, count))
        return true;
    if (o->stage != OPEN) {
        lose_items(m, count);
        return true;
    }
    if (!last || o->count)
        return keep_items(m, o, items, count) && (!last || (make_object(m, o), true));
    /* the usual case: all items came at once and need not be copied */
    o->u.made = m->client.make(m->client.arg, kind, items, count, stk__pickle_offset(m));
    o->count = (uint32_t)count;
    o->stage = MADE;
    return true;
}

static bool add_marked(stk__pickle *m, stk__pickle_kind kind)
{
    size_t first;
    if (!pop_mark(m, &first))
        return false;
    const size_t count = (m->depth - first) / (kind == STK__PICKLE_DICT ? 2 : 1);
    return add_items(m, first, kind, count < BATCH && kind != STK__PICKLE_SET);
}

static bool op_appends(stk__pickle *m)
{
    return add_marked(m, STK__PICKLE_LIST);
}

static bool op_setitems(stk__pickle *m)
{
    return add_marked(m, STK__PICKLE_DICT);
}

static bool op_additems(stk__pickle *m)
{
    return add_marked(m, STK__PICKLE_SET);
}

static bool op_append(stk__pickle *m)
{
    return has(m, 2) && add_items(m, m->depth - 1, STK__PICKLE_LIST, false);
}

static bool op_setitem(stk__pickle *m)
{
    return has(m, 3) && add_items(m, m->depth - 2, STK__PICKLE_DICT, false);
}

static bool op_empty_list(stk__pickle *m)
{
    return push_empty(m, STK__PICKLE_LIST);
}

static bool op_empty_dict(stk__pickle *m)
{
    return push_empty(m, STK__PICKLE_DICT);
}

static bool op_empty_set(stk__pickle *m)
{
    return push_empty(m, STK__PICKLE_SET);
}

static bool op_empty_tuple(stk__pickle *m)
{
    return push_whole(m, STK__PICKLE_TUPLE, 0);
}

static bool op_tuple1(stk__pickle *m)
{
    return has(m, 1) && push_whole(m, STK__PICKLE_TUPLE, 1);
}

static bool op_tuple2(stk__pickle *m)
{
    return has(m, 2) && push_whole(m, STK__PICKLE_TUPLE, 2);
}

static bool op_tuple3(stk__pickle *m)
{
    return has(m, 3) && push_whole(m, STK__PICKLE_TUPLE, 3);
}

static bool op_tuple(stk__pickle *m)
{
    size_t first;
    return pop_mark(m, &first) && push_whole(m, STK__PICKLE_TUPLE, m->depth - first);
}

static bool op_frozenset(stk__pickle *m)
{
    size_t first;
    return pop_mark(m, &first) && push_whole(m, STK__PICKLE_SET, m->depth - first);
}

/* LIST and DICT of protocol 0 have their first items on the stack; more may follow one by one. */
static bool push_open(stk__pickle *m, stk__pickle_kind kind)
{
    size_t first;
    if (!pop_mark(m, &first))
        return false;
    const size_t count = m->depth - first;
    if (kind == STK__PICKLE_DICT && count % 2)
        return bad(m, "a key without a value");
    stk__pickle_value *items = count ? m->stack + first : NULL;
    make_values(m, items, count);
    stk__pickle_object object = {.stage = OPEN};
    if (count && !keep_items(m, &object, items, count))
        return false;
    m->depth = first;
    if (push_object(m, kind, object))
        return true;
    drop_items(m, &object);
    return false;
}

static bool op_list(stk__pickle *m)
{
    return push_open(m, STK__PICKLE_LIST);
}

static bool op_dict(stk__pickle *m)
{
    return push_open(m, STK__PICKLE_DICT);
}

/* ---- order on the stack ---- */

static bool op_mark(stk__pickle *m)
{
    if (m->mark_count >= MARKS_MAX)
        return bad(m, "more than 1,048,576 marks are open");
    if (!stk__grow((void **)&m->marks, &m->mark_capacity, m->mark_count + 1, sizeof *m->marks))
        return no_memory(m, m->mark_count * sizeof *m->marks);
    m->marks[m->mark_count++] = (uint32_t)m->depth;
    return true;
}

static bool op_pop_mark(stk__pickle *m)
{
    size_t first;
    if (!pop_mark(m, &first))
        return false;
    m->depth = first;
    return true;
}

/* A mark may be what is on top. */
static bool op_pop(stk__pickle *m)
{
    if (m->mark_count && m->depth == stack_floor(m))
        return op_pop_mark(m);
    if (!has(m, 1))
        return false;
    m->depth--;
    return true;
}

static bool op_dup(stk__pickle *m)
{
    return has(m, 1) && push(m, m->stack[m->depth - 1]);
}

static bool op_proto(stk__pickle *m)
{
    uint64_t version;
    if (!take_number(m, 1, &version))
        return false;
    if (version <= 5)
        return true;
    bad(m, "");
    snprintf(m->message, sizeof m->message, "found pickle protocol %u, wanted 0 to 5", (unsigned)version);
    return false;
}

static bool op_frame(stk__pickle *m)
{
    uint64_t size;
    return take_number(m, 8, &size); /* a hint about reading, which the window does not need */
}

static bool op_stop(stk__pickle *m)
{
    if (!has(m, 1))
        return false;
    make_values(m, &m->stack[m->depth - 1], 1);
    m->result = m->stack[m->depth - 1];
    m->state = STK__PICKLE_DONE;
    return false;
}

/* ---- the memo ---- */

static bool put(stk__pickle *m, uint64_t number)
{
    if (!has(m, 1))
        return false;
    if (number > m->puts * 2 + MEMO_SLACK)
        return bad(m, "a number of the memo is far past the ones before");
    if (!stk__column_grow(m->store, &m->memo, ((size_t)number + 1) * sizeof(stk__pickle_value)))
        return failed(m);
    stk__pickle_value *memo = m->memo.data;
    for (; m->memo_count <= number; m->memo_count++)
        memo[m->memo_count] = (stk__pickle_value){UINT32_MAX, {0}};
    memo[number] = m->stack[m->depth - 1];
    m->puts++;
    return true;
}

static bool get(stk__pickle *m, uint64_t number)
{
    const stk__pickle_value *memo = m->memo.data;
    if (number >= m->memo_count || memo[number].kind == UINT32_MAX)
        return bad(m, "refers to something that was not there before");
    return push(m, memo[number]);
}

static bool op_memoize(stk__pickle *m)
{
    return put(m, m->memo_count);
}

static bool op_binput(stk__pickle *m)
{
    uint64_t number;
    return take_number(m, 1, &number) && put(m, number);
}

static bool op_long_binput(stk__pickle *m)
{
    uint64_t number;
    return take_number(m, 4, &number) && put(m, number);
}

static bool op_binget(stk__pickle *m)
{
    uint64_t number;
    return take_number(m, 1, &number) && get(m, number);
}

static bool op_long_binget(stk__pickle *m)
{
    uint64_t number;
    return take_number(m, 4, &number) && get(m, number);
}

/* The line as a text with an end, in scratch; false when it is cut off, too long or has a NUL. */
static const char *take_word(stk__pickle *m)
{
    size_t size;
    const char *line = take_line(m, LINE_MAX_BYTES, &size);
    if (!line)
        return NULL;
    stk__text_reset(&m->scratch);
    stk__text_write(&m->scratch, line, size);
    stk__text_putc(&m->scratch, '\0');
    if (m->scratch.failed) {
        no_memory(m, size);
        return NULL;
    }
    if (strlen(m->scratch.data) != size || size == 0) {
        bad(m, "a line without a value");
        return NULL;
    }
    return m->scratch.data;
}

static bool take_decimal(stk__pickle *m, uint64_t *out)
{
    const char *word = take_word(m);
    if (!word)
        return false;
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return (*end == '\0' && errno == 0 && word[0] >= '0' && word[0] <= '9') ||
           bad(m, "a number of the memo is no number");
}

static bool op_put(stk__pickle *m)
{
    uint64_t number;
    return take_decimal(m, &number) && put(m, number);
}

static bool op_get(stk__pickle *m)
{
    uint64_t number;
    return take_decimal(m, &number) && get(m, number);
}

/* ---- numbers ---- */

static bool op_none(stk__pickle *m)
{
    return push(m, (stk__pickle_value){STK__PICKLE_NONE, {0}});
}

static bool op_true(stk__pickle *m)
{
    return push(m, (stk__pickle_value){STK__PICKLE_BOOL, {.integer = 1}});
}

static bool op_false(stk__pickle *m)
{
    return push(m, (stk__pickle_value){STK__PICKLE_BOOL, {.integer = 0}});
}

static bool op_binint(stk__pickle *m)
{
    uint64_t value;
    return take_number(m, 4, &value) && push_int(m, (int32_t)(uint32_t)value);
}

static bool op_binint1(stk__pickle *m)
{
    uint64_t value;
    return take_number(m, 1, &value) && push_int(m, (int64_t)value);
}

static bool op_binint2(stk__pickle *m)
{
    uint64_t value;
    return take_number(m, 2, &value) && push_int(m, (int64_t)value);
}

/* Two's complement of any length, the lowest byte first. */
static bool push_long(stk__pickle *m, const uint8_t *p, size_t size)
{
    const bool negative = size && p[size - 1] & 0x80;
    while (size > 8 && p[size - 1] == (negative ? 0xff : 0) && (!negative || p[size - 2] & 0x80))
        size--;
    if (size == 0)
        return push_int(m, 0);
    uint64_t value = number_of(p, STK_MIN(size, (size_t)8));
    if (size < 8 && negative)
        value |= UINT64_MAX << (size * 8);
    if (size > 8) {
        const double real = ldexp(negative ? -1.0 : 1.0, (int)STK_MIN(size * 8, (size_t)1100));
        return push(m, (stk__pickle_value){STK__PICKLE_BIG, {.real = real}});
    }
    if (!negative && value > INT64_MAX)
        return push(m, (stk__pickle_value){STK__PICKLE_UINT, {.natural = value}});
    return push_int(m, (int64_t)value);
}

static bool op_long1(stk__pickle *m)
{
    uint64_t size;
    const uint8_t *p = take_number(m, 1, &size) ? take_bytes(m, (size_t)size) : NULL;
    return p && push_long(m, p, (size_t)size);
}

static bool op_long4(stk__pickle *m)
{
    uint64_t size;
    if (!take_number(m, 4, &size))
        return false;
    if (size > WHOLE_MAX)
        return bad(m, "a whole number of more than 1,048,576 bytes");
    const uint8_t *p = take_bytes(m, (size_t)size);
    return p && push_long(m, p, (size_t)size);
}

static bool op_binfloat(stk__pickle *m)
{
    const uint8_t *p = take_bytes(m, 8);
    if (!p)
        return false;
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    stk__pickle_value value = {STK__PICKLE_FLOAT, {0}};
    memcpy(&value.u.real, &bits, sizeof bits);
    return push(m, value);
}

static bool op_float(stk__pickle *m)
{
    const char *word = take_word(m);
    if (!word)
        return false;
    char *end;
    const double real = strtod(word, &end);
    if (*end)
        return bad(m, "a number that cannot be read");
    return push(m, (stk__pickle_value){STK__PICKLE_FLOAT, {.real = real}});
}

/* "12", "-12L"; past 64 bits only the size is kept. */
static bool push_decimal(stk__pickle *m, const char *word)
{
    const bool negative = word[0] == '-';
    const char *digits = word + (negative || word[0] == '+');
    const size_t count = strspn(digits, "0123456789");
    if (!count || strcmp(digits + count + (digits[count] == 'L'), "") != 0)
        return bad(m, "a number that cannot be read");
    errno = 0;
    const unsigned long long value = strtoull(digits, NULL, 10);
    if (errno || (negative && value > (uint64_t)INT64_MAX + 1))
        return push(m, (stk__pickle_value){STK__PICKLE_BIG, {.real = strtod(word, NULL)}});
    if (negative)
        return push_int(m, (int64_t)(0 - (uint64_t)value));
    if (value > INT64_MAX)
        return push(m, (stk__pickle_value){STK__PICKLE_UINT, {.natural = value}});
    return push_int(m, (int64_t)value);
}

static bool op_int(stk__pickle *m)
{
    const char *word = take_word(m);
    if (!word)
        return false;
    if (strcmp(word, "00") == 0)
        return op_false(m);
    return strcmp(word, "01") == 0 ? op_true(m) : push_decimal(m, word);
}

static bool op_long(stk__pickle *m)
{
    const char *word = take_word(m);
    return word && push_decimal(m, word);
}

/* ---- texts and bytes ---- */

static bool push_text(stk__pickle *m, const char *text, size_t size)
{
    const uint32_t number = m->client.text(m->client.arg, text, size, stk__pickle_offset(m));
    return push(m, (stk__pickle_value){STK__PICKLE_TEXT, {.text = number}});
}

static bool take_text(stk__pickle *m, size_t length_bytes)
{
    uint64_t size;
    if (!take_number(m, length_bytes, &size))
        return false;
    if (size > TEXT_MAX)
        return skip_bytes(m, size) && push(m, (stk__pickle_value){STK__PICKLE_BYTES, {.natural = size}});
    const uint8_t *p = take_bytes(m, (size_t)size);
    return p && push_text(m, (const char *)p, (size_t)size);
}

static bool op_text1(stk__pickle *m)
{
    return take_text(m, 1);
}

static bool op_text4(stk__pickle *m)
{
    return take_text(m, 4);
}

static bool op_text8(stk__pickle *m)
{
    return take_text(m, 8);
}

static bool skip_blob(stk__pickle *m, size_t length_bytes)
{
    uint64_t size;
    return take_number(m, length_bytes, &size) && skip_bytes(m, size) &&
           push(m, (stk__pickle_value){STK__PICKLE_BYTES, {.natural = size}});
}

static bool op_bytes1(stk__pickle *m)
{
    return skip_blob(m, 1);
}

static bool op_bytes4(stk__pickle *m)
{
    return skip_blob(m, 4);
}

static bool op_bytes8(stk__pickle *m)
{
    return skip_blob(m, 8);
}

static void put_utf8(stk__text *out, uint32_t c)
{
    if (c < 0x80) {
        stk__text_putc(out, (char)c);
        return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    stk__text_putc(out, (char)(leads[more] | c >> (6 * more)));
    for (int i = more; i-- > 0;)
        stk__text_putc(out, (char)(0x80 | (c >> (6 * i) & 0x3f)));
}

/* `count` hexadecimal digits; false when there are fewer. */
static bool read_hex(const char *p, size_t left, size_t count, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        const char c = i < left ? p[i] : 'x';
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f')))
            return false;
        *out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

/* raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX. */
static bool op_unicode(stk__pickle *m)
{
    size_t size;
    const char *line = take_line(m, TEXT_MAX, &size);
    if (!line)
        return false;
    stk__text_reset(&m->scratch);
    for (size_t i = 0; i < size; i++) {
        const char next = i + 1 < size ? line[i + 1] : 0;
        const size_t digits = line[i] != '\\' ? 0 : next == 'u' ? 4 : next == 'U' ? 8 : 0;
        uint32_t c;
        if (digits && read_hex(line + i + 2, size - i - 2, digits, &c) && c < 0x110000) {
            put_utf8(&m->scratch, c);
            i += digits + 1;
        } else {
            put_utf8(&m->scratch, (unsigned char)line[i]);
        }
    }
    if (m->scratch.failed)
        return no_memory(m, size);
    return push_text(m, m->scratch.data ? m->scratch.data : "", m->scratch.length);
}

/* One escape of a Python string, from behind the backslash; returns how many bytes it has. */
static size_t put_escape(stk__text *out, const char *p, size_t left)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *known = *p ? strchr(from, *p) : NULL;
    uint32_t c;
    if (*p == 'x' && read_hex(p + 1, left - 1, 2, &c)) {
        stk__text_putc(out, (char)c);
        return 3;
    }
    if (known) {
        stk__text_putc(out, to[known - from]);
        return 1;
    }
    stk__text_putc(out, '\\');
    stk__text_putc(out, *p);
    return 1;
}

/* A string of Python 2, as its source would have it. */
static bool op_string(stk__pickle *m)
{
    size_t size;
    const char *line = take_line(m, TEXT_MAX, &size);
    if (!line)
        return false;
    if (size < 2 || line[0] != line[size - 1] || (line[0] != '\'' && line[0] != '"'))
        return bad(m, "a string without its quotes");
    stk__text_reset(&m->scratch);
    for (size_t i = 1; i + 1 < size; i++) {
        if (line[i] == '\\' && i + 2 < size)
            i += put_escape(&m->scratch, line + i + 1, size - 2 - i);
        else
            stk__text_putc(&m->scratch, line[i]);
    }
    if (m->scratch.failed)
        return no_memory(m, size);
    return push_text(m, m->scratch.data ? m->scratch.data : "", m->scratch.length);
}

/* ---- what would call something ---- */

static uint32_t text_of(stk__pickle *m, const char *text)
{
    return m->client.text(m->client.arg, text, strlen(text), stk__pickle_offset(m));
}

static bool push_opaque(stk__pickle *m, uint32_t module, const char *name)
{
    return push(m, (stk__pickle_value){STK__PICKLE_OPAQUE, {.text = text_of(m, name), .module = module}});
}

/* Lines with a module and a name. */
static bool op_global(stk__pickle *m)
{
    const char *word = take_word(m);
    const uint32_t module = word ? text_of(m, word) : 0;
    word = word ? take_word(m) : NULL;
    return word && push_opaque(m, module, word);
}

static bool op_inst(stk__pickle *m)
{
    size_t first;
    if (!op_global(m) || !pop_mark(m, &first))
        return false;
    m->stack[first] = m->stack[m->depth - 1];
    m->depth = first + 1;
    return true;
}

static bool op_stack_global(stk__pickle *m)
{
    if (!has(m, 2))
        return false;
    m->depth -= 2;
    const stk__pickle_value *names = m->stack + m->depth;
    if (names[0].kind != STK__PICKLE_TEXT || names[1].kind != STK__PICKLE_TEXT)
        return bad(m, "a class without a name");
    return push(m, (stk__pickle_value){STK__PICKLE_OPAQUE, {.text = names[1].u.text, .module = names[0].u.text}});
}

/* Dicts by another name, which are filled like dicts: OrderedDict() and defaultdict(anything). */
static bool is_dict_class(stk__pickle *m, const stk__pickle_value *what, const stk__pickle_value *args)
{
    if (args->kind != STK__PICKLE_TUPLE || what->u.module != text_of(m, "collections"))
        return false;
    const uint32_t count = object_at(m, args->u.object)->count;
    return (count == 0 && what->u.text == text_of(m, "OrderedDict")) ||
           (count <= 1 && what->u.text == text_of(m, "defaultdict"));
}

/* A class or function with `extra` values above it: nothing is called, the result is as unknown as what it names. */
static bool call(stk__pickle *m, size_t extra)
{
    if (!has(m, extra + 1))
        return false;
    m->depth -= extra + 1;
    const stk__pickle_value what = m->stack[m->depth];
    if (what.kind != STK__PICKLE_OPAQUE)
        return bad(m, "a call of something that is no class");
    return is_dict_class(m, &what, &m->stack[m->depth + 1]) ? push_empty(m, STK__PICKLE_DICT) : push(m, what);
}

static bool op_reduce(stk__pickle *m)
{
    return call(m, 1);
}

static bool op_newobj_ex(stk__pickle *m)
{
    return call(m, 2);
}

static bool op_obj(stk__pickle *m)
{
    size_t first;
    if (!pop_mark(m, &first))
        return false;
    if (m->depth == first || m->stack[first].kind != STK__PICKLE_OPAQUE)
        return bad(m, "a call of something that is no class");
    m->depth = first + 1;
    return true;
}

/* State for an object: it stays what it is. */
static bool op_build(stk__pickle *m)
{
    if (!has(m, 2))
        return false;
    m->depth--;
    return true;
}

static bool push_extension(stk__pickle *m, size_t bytes)
{
    uint64_t number;
    char name[48];
    if (!take_number(m, bytes, &number))
        return false;
    snprintf(name, sizeof name, "extension %llu", (unsigned long long)number);
    return push_opaque(m, 0, name);
}

static bool op_ext1(stk__pickle *m)
{
    return push_extension(m, 1);
}

static bool op_ext2(stk__pickle *m)
{
    return push_extension(m, 2);
}

static bool op_ext4(stk__pickle *m)
{
    return push_extension(m, 4);
}

static bool op_persid(stk__pickle *m)
{
    return take_word(m) && push_opaque(m, 0, "persistent id");
}

static bool op_binpersid(stk__pickle *m)
{
    if (!has(m, 1))
        return false;
    m->depth--;
    return push_opaque(m, 0, "persistent id");
}

static bool op_next_buffer(stk__pickle *m)
{
    return push_opaque(m, 0, "buffer outside of the file");
}

static bool op_readonly_buffer(stk__pickle *m)
{
    return has(m, 1);
}

/* ---- the machine ---- */

static const operation operations_by_byte[256] = {
    ['('] = op_mark,        [')'] = op_empty_tuple, ['.'] = op_stop,          ['0'] = op_pop,
    ['1'] = op_pop_mark,    ['2'] = op_dup,         ['F'] = op_float,         ['G'] = op_binfloat,
    ['I'] = op_int,         ['J'] = op_binint,      ['K'] = op_binint1,       ['L'] = op_long,
    ['M'] = op_binint2,     ['N'] = op_none,        ['P'] = op_persid,        ['Q'] = op_binpersid,
    ['R'] = op_reduce,      ['S'] = op_string,      ['T'] = op_text4,         ['U'] = op_text1,
    ['V'] = op_unicode,     ['X'] = op_text4,       [']'] = op_empty_list,    ['a'] = op_append,
    ['b'] = op_build,       ['c'] = op_global,      ['d'] = op_dict,          ['e'] = op_appends,
    ['g'] = op_get,         ['h'] = op_binget,      ['i'] = op_inst,          ['j'] = op_long_binget,
    ['l'] = op_list,        ['o'] = op_obj,         ['p'] = op_put,           ['q'] = op_binput,
    ['r'] = op_long_binput, ['s'] = op_setitem,     ['t'] = op_tuple,         ['u'] = op_setitems,
    ['}'] = op_empty_dict,  ['B'] = op_bytes4,      ['C'] = op_bytes1,        [0x80] = op_proto,
    [0x81] = op_reduce,     [0x82] = op_ext1,       [0x83] = op_ext2,         [0x84] = op_ext4,
    [0x85] = op_tuple1,     [0x86] = op_tuple2,     [0x87] = op_tuple3,       [0x88] = op_true,
    [0x89] = op_false,      [0x8a] = op_long1,      [0x8b] = op_long4,        [0x8c] = op_text1,
    [0x8d] = op_text8,      [0x8e] = op_bytes8,     [0x8f] = op_empty_set,    [0x90] = op_additems,
    [0x91] = op_frozenset,  [0x92] = op_newobj_ex,  [0x93] = op_stack_global, [0x94] = op_memoize,
    [0x95] = op_frame,      [0x96] = op_bytes8,     [0x97] = op_next_buffer,  [0x98] = op_readonly_buffer,
};

/* The last item of a dict's values may be the only one of the list before it, which has no mark. */
static void close_pairs(stk__pickle *m, size_t first)
{
    const size_t count = m->depth - first;
    if (count % 2 == 0)
        return;
    if (count < 3 || m->stack[m->depth - 2].kind != STK__PICKLE_LIST || !op_append(m))
        m->depth = first + count - 1;
}

/* Closes all that is open, as if the pickle ended here. */
static void close_all(stk__pickle *m)
{
    const stk__pickle_state why = m->state;
    while (m->mark_count) {
        const size_t first = m->marks[--m->mark_count];
        const stk__pickle_value *target = first > stack_floor(m) ? &m->stack[first - 1] : NULL;
        if (target && target->kind == STK__PICKLE_DICT)
            close_pairs(m, first);
        if (target && (target->kind == STK__PICKLE_LIST || target->kind == STK__PICKLE_DICT))
            add_items(m, first, (stk__pickle_kind)target->kind, true);
        m->depth = first;
    }
    if (m->depth) {
        make_values(m, m->stack, 1);
        m->result = m->stack[0];
    }
    m->state = m->state == STK__PICKLE_FAILED ? m->state : why;
}

/* The input stands where the pickle ended. */
static void leave(stk__pickle *m)
{
    stk__input_advance(m->in, m->at);
    m->base += (int64_t)m->at;
    m->data = NULL;
    m->at = m->size = 0;
}

stk__pickle_state stk__pickle_run(stk__pickle *m, size_t operations)
{
    for (; operations && m->state == STK__PICKLE_MORE; operations--) {
        if (!look(m, WINDOW_LOW)) {
            cut(m);
            break;
        }
        const uint8_t byte = m->data[m->at++];
        const operation go = operations_by_byte[byte];
        if (go) {
            go(m);
            continue;
        }
        bad(m, "");
        snprintf(m->message, sizeof m->message, "found byte 0x%02x, wanted an operation of a pickle", byte);
    }
    if (m->state == STK__PICKLE_CUT || m->state == STK__PICKLE_BAD)
        close_all(m);
    if (m->state != STK__PICKLE_MORE)
        leave(m);
    stk__column_trim(&m->memo);
    stk__column_trim(&m->objects);
    return m->state;
}
