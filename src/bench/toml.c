/* Reads TOML 1.0: keys, tables, arrays, and the rules on what may be defined twice. */
#include "bench/toml_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include "base/banned.h"

/* How a table or an array came to be. None of them: it only stands above the table of a header, as a in [a.b]. */
enum {
    DEFINED = 1, /* by its own header */
    DOTTED = 2,  /* by a dotted key; may grow in the section in which that stands */
    FROZEN = 4,  /* written out as a value: complete */
    TABLES = 8   /* array of tables */
};

/* ---- places and messages ---- */

static stk__toml_place place_of(stk__toml_reader *r, size_t at)
{
    stk__toml_place p = at >= r->mark.at ? r->mark : (stk__toml_place){0, 1, 1};
    for (; p.at < at; p.at++) {
        const unsigned char c = (unsigned char)r->text[p.at];
        if (c == '\n')
            p.line++, p.column = 1;
        else if ((c & 0xc0) != 0x80) /* a character counts once, with its first byte */
            p.column++;
    }
    r->mark = p;
    return p;
}

static void set_place(stk__toml_reader *r, size_t at)
{
    if (!r->err)
        return;
    const stk__toml_place place = place_of(r, at);
    snprintf(r->err->file, sizeof r->err->file, "%s", r->file ? r->file : "");
    r->err->line = place.line;
    r->err->column = place.column;
}

stk_status stk__toml_fail(stk__toml_reader *r, size_t at, const char *format, ...)
{
    char message[480];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    stk_error_set(r->err, STK_INVALID, "%s", message);
    set_place(r, at);
    return STK_INVALID;
}

static bool ends_word(unsigned char c)
{
    return c <= ' ' || strchr(",=[]{}#\"'", c);
}

stk__toml_found stk__toml_found_at(const stk__toml_reader *r, size_t at)
{
    stk__toml_found found = {"the end of the file"};
    if (at >= r->size)
        return found;
    const unsigned char *const p = (const unsigned char *)r->text + at;
    if (*p == '\n' || *p == '\r') {
        snprintf(found.text, sizeof found.text, "the end of the line");
        return found;
    }
    const size_t left = r->size - at;
    size_t n = 0;
    for (size_t next; n < left && (n == 0 || !ends_word(p[n])); n += next) {
        next = stk__utf8_length(p + n, left - n);
        if (n + next > 40 || next == 0 || (n > 0 && ends_word(p[0])))
            break;
    }
    snprintf(found.text, sizeof found.text, "'%.*s'", (int)n, (const char *)p);
    return found;
}

/* A key as messages show it: cut when long, never in the middle of a character. */
static stk__toml_found shown(const char *key)
{
    stk__toml_found out;
    const size_t length = strlen(key);
    size_t n = 0;
    for (size_t next; n < length; n += next) {
        next = stk__utf8_length((const unsigned char *)key + n, length - n);
        if (n + next > 50)
            break;
    }
    snprintf(out.text, sizeof out.text, "%.*s%s", (int)n, key, n < length ? "..." : "");
    return out;
}

/* ---- the tree ---- */

static void node_clear(stk__toml *node)
{
    for (size_t i = 0; i < node->count; i++)
        node_clear(&node->items[i]);
    stk__free(node->items);
    stk__free(node->key);
    stk__free(node->text);
    *node = (stk__toml){0};
}

void stk__toml_free(stk__toml *root)
{
    if (!root)
        return;
    node_clear(root);
    stk__free(root);
}

const stk__toml *stk__toml_get(const stk__toml *table, const char *key)
{
    if (table->kind != STK__TOML_TABLE)
        return NULL;
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->items[i].key, key) == 0)
            return &table->items[i];
    return NULL;
}

/* Appends and takes the node over. Most arrays and tables are small: no room is kept for eight of them. */
static stk_status push(stk__toml_reader *r, stk__toml *to, const stk__toml *node)
{
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity ? to->capacity * 2 : 2;
        stk__toml *bigger = stk__realloc(to->items, capacity * sizeof *bigger);
        if (!bigger)
            return stk__nomem(capacity * sizeof *bigger, r->err);
        to->items = bigger;
        to->capacity = capacity;
    }
    to->items[to->count++] = *node;
    return STK_OK;
}

/* Counts a value that starts at `at`, and says where it stands. */
static stk_status node_start(stk__toml_reader *r, size_t at, int depth, stk__toml *node)
{
    if (depth > STK__TOML_DEPTH)
        return stk__toml_fail(r, at, "found tables and arrays nested deeper than %d, wanted at most that",
                              STK__TOML_DEPTH);
    if (++r->values > STK__TOML_VALUES)
        return stk__toml_fail(r, at, "found more than %d values, wanted at most that", STK__TOML_VALUES);
    const stk__toml_place place = place_of(r, at);
    node->line = place.line;
    node->column = place.column;
    return STK_OK;
}

static void make_table(stk__toml_reader *r, stk__toml *node, unsigned flags, unsigned section)
{
    node->kind = STK__TOML_TABLE;
    node->flags = flags;
    node->section = section;
    node->id = ++r->tables;
}

static const char *kind_name(const stk__toml *node)
{
    static const char *const names[] = {"a table", "an array",  "a string",      "an integer",
                                        "a float", "a boolean", "a date or time"};
    if (node->kind == STK__TOML_ARRAY && (node->flags & TABLES))
        return "an array of tables";
    if (node->kind == STK__TOML_TABLE && (node->flags & FROZEN))
        return "an inline table";
    return names[node->kind];
}

/* ---- the index of keys ---- */

static uint64_t hash_of(const stk__toml_reader *r, unsigned table, const char *key)
{
    return XXH3_64bits_withSeed(key, strlen(key), r->seed ^ (table * UINT64_C(0x9e3779b97f4a7c15)));
}

/* The slot of a key, or the free one where it belongs. */
static stk__toml_slot *slot_of(const stk__toml_reader *r, unsigned table, const char *key, uint64_t hash)
{
    const size_t mask = r->slot_count - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        stk__toml_slot *slot = &r->slots[i];
        if (!slot->key || (slot->hash == hash && slot->table == table && strcmp(slot->key, key) == 0))
            return slot;
    }
}

static stk_status slots_grow(stk__toml_reader *r)
{
    if ((r->slots_used + 1) * 2 <= r->slot_count)
        return STK_OK;
    const size_t count = r->slot_count ? r->slot_count * 2 : 64, before = r->slot_count;
    stk__toml_slot *slots = stk__calloc(count, sizeof *slots), *old = r->slots;
    if (!slots)
        return stk__nomem(count * sizeof *slots, r->err);
    r->slots = slots;
    r->slot_count = count;
    for (size_t i = 0; i < before; i++)
        if (old[i].key)
            *slot_of(r, old[i].table, old[i].key, old[i].hash) = old[i];
    stk__free(old);
    return STK_OK;
}

static stk__toml *find(const stk__toml_reader *r, const stk__toml *table, const char *key)
{
    if (!r->slot_count)
        return NULL;
    const stk__toml_slot *slot = slot_of(r, table->id, key, hash_of(r, table->id, key));
    return slot->key ? &table->items[slot->item] : NULL;
}

/* Appends a node to a table that has no such key, and takes it over. */
static stk_status add(stk__toml_reader *r, stk__toml *table, const stk__toml *node)
{
    STK_TRY(slots_grow(r));
    STK_TRY(push(r, table, node));
    const uint64_t hash = hash_of(r, table->id, node->key);
    *slot_of(r, table->id, node->key, hash) =
        (stk__toml_slot){.key = node->key, .hash = hash, .table = table->id, .item = (uint32_t)(table->count - 1)};
    r->slots_used++;
    return STK_OK;
}

/* An empty table under r->key; *table becomes that. */
static stk_status add_table(stk__toml_reader *r, stk__toml **table, size_t at, int depth, unsigned flags,
                            unsigned section)
{
    stk__toml node = {0};
    STK_TRY(node_start(r, at, depth, &node));
    make_table(r, &node, flags, section);
    node.key = stk__strndup(r->key.data, r->key.length);
    if (!node.key)
        return stk__nomem(r->key.length, r->err);
    const stk_status status = add(r, *table, &node);
    if (status != STK_OK) {
        node_clear(&node);
        return status;
    }
    *table = &(*table)->items[(*table)->count - 1];
    return STK_OK;
}

/* ---- keys ---- */

static void skip_blanks(stk__toml_reader *r)
{
    while (stk__toml_peek(r, 0) == ' ' || stk__toml_peek(r, 0) == '\t')
        r->at++;
}

static bool is_bare(int c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* One part of a key into r->key. */
static stk_status read_key(stk__toml_reader *r)
{
    const size_t start = r->at;
    const int c = stk__toml_peek(r, 0);
    stk__text_reset(&r->key);
    if (c == '"' || c == '\'') {
        STK_TRY(stk__toml_read_string(r, false, &r->key));
        if (strlen(r->key.data) != r->key.length)
            return stk__toml_fail(r, start, "found a key with NUL in it, wanted one without");
        return STK_OK;
    }
    while (is_bare(stk__toml_peek(r, 0)))
        r->at++;
    if (r->at == start)
        return stk__toml_fail(r, start, "found %s, wanted a key: letters, digits, '_', '-', or a string in quotes",
                              stk__toml_found_at(r, start).text);
    stk__text_write(&r->key, r->text + start, r->at - start);
    return r->key.failed ? stk__nomem(r->at - start, r->err) : STK_OK;
}

/* After a part of a key: does another one follow? */
static bool take_dot(stk__toml_reader *r)
{
    skip_blanks(r);
    if (stk__toml_peek(r, 0) != '.')
        return false;
    r->at++;
    skip_blanks(r);
    return true;
}

static stk_status expect(stk__toml_reader *r, char wanted, const char *after)
{
    if (stk__toml_peek(r, 0) != wanted)
        return stk__toml_fail(r, r->at, "found %s, wanted '%c' %s", stk__toml_found_at(r, r->at).text, wanted, after);
    r->at++;
    return STK_OK;
}

static stk_status fail_kind(stk__toml_reader *r, size_t at, const stk__toml *node, const char *wanted)
{
    return stk__toml_fail(r, at, "'%s' is %s (line %d), wanted %s", shown(node->key).text, kind_name(node), node->line,
                          wanted);
}

/* A dotted key may go into tables that dotted keys made in the same section, and into those that nothing defined. */
static stk_status enter_dotted(stk__toml_reader *r, stk__toml **table, size_t at, int depth, unsigned section)
{
    stk__toml *next = find(r, *table, r->key.data);
    if (!next)
        return add_table(r, table, at, depth, DOTTED, section);
    if (next->kind != STK__TOML_TABLE)
        return fail_kind(r, at, next, "a table that a dotted key can add to");
    if (next->flags & FROZEN)
        return fail_kind(r, at, next, "a table: all of an inline one stands between its braces");
    if ((next->flags & DEFINED) || ((next->flags & DOTTED) && next->section != section))
        return stk__toml_fail(r, at, "table '%s' is defined already (line %d), wanted its keys there",
                              shown(next->key).text, next->line);
    next->flags |= DOTTED;
    next->section = section;
    *table = next;
    return STK_OK;
}

static stk_status read_value(stk__toml_reader *r, stk__toml *out, int depth);

/* KEY = VALUE into a table whose own depth is `depth`. */
static stk_status read_pair(stk__toml_reader *r, stk__toml *table, int depth, unsigned section)
{
    size_t at = r->at;
    STK_TRY(read_key(r));
    while (take_dot(r)) {
        STK_TRY(enter_dotted(r, &table, at, ++depth, section));
        at = r->at;
        STK_TRY(read_key(r));
    }
    STK_TRY(expect(r, '=', "after the key"));
    const stk__toml *there = find(r, table, r->key.data);
    if (there)
        return stk__toml_fail(r, at, "key '%s' is there already (line %d), wanted it once", shown(there->key).text,
                              there->line);
    stk__toml node = {.key = stk__strndup(r->key.data, r->key.length)};
    if (!node.key)
        return stk__nomem(r->key.length, r->err);
    skip_blanks(r);
    stk_status status = read_value(r, &node, depth + 1);
    if (status == STK_OK)
        status = add(r, table, &node);
    if (status != STK_OK)
        node_clear(&node);
    return status;
}

/* ---- values ---- */

static void skip_comment(stk__toml_reader *r)
{
    if (stk__toml_peek(r, 0) != '#')
        return;
    const char *end = memchr(r->text + r->at, '\n', r->size - r->at);
    r->at = end ? (size_t)(end - r->text) : r->size;
    if (end && r->text[r->at - 1] == '\r')
        r->at--;
}

/* Blanks, comments and line ends, which may stand anywhere in an array. */
static void skip_space(stk__toml_reader *r)
{
    for (size_t n = 1; n > 0;) {
        skip_blanks(r);
        skip_comment(r);
        n = stk__toml_line_end(r, 0);
        r->at += n;
    }
}

static stk_status fail_open_array(stk__toml_reader *r, size_t start)
{
    return stk__toml_fail(r, start, "found the end of the file in this array, wanted ']'");
}

/* Items in brackets; on failure the caller clears `out`. */
static stk_status read_array(stk__toml_reader *r, stk__toml *out, int depth)
{
    const size_t start = r->at++;
    out->kind = STK__TOML_ARRAY;
    out->flags = FROZEN;
    for (;;) {
        skip_space(r);
        if (stk__toml_peek(r, 0) == ']')
            break;
        if (r->at == r->size)
            return fail_open_array(r, start);
        stk__toml item = {0};
        stk_status status = read_value(r, &item, depth + 1);
        if (status == STK_OK)
            status = push(r, out, &item);
        if (status != STK_OK) {
            node_clear(&item);
            return status;
        }
        skip_space(r);
        if (stk__toml_peek(r, 0) == ',')
            r->at++;
        else if (r->at == r->size)
            return fail_open_array(r, start);
        else if (stk__toml_peek(r, 0) != ']')
            return stk__toml_fail(r, r->at, "found %s, wanted ',' or ']' in an array",
                                  stk__toml_found_at(r, r->at).text);
    }
    r->at++;
    return STK_OK;
}

/* Pairs in braces, all on one line, without a comma at the end. */
static stk_status read_inline_table(stk__toml_reader *r, stk__toml *out, int depth)
{
    const unsigned section = ++r->sections;
    make_table(r, out, FROZEN, section);
    r->at++;
    skip_blanks(r);
    if (stk__toml_peek(r, 0) == '}') {
        r->at++;
        return STK_OK;
    }
    for (;;) {
        STK_TRY(read_pair(r, out, depth, section));
        skip_blanks(r);
        const int c = stk__toml_peek(r, 0);
        if (c != ',' && c != '}')
            return stk__toml_fail(r, r->at, "found %s, wanted ',' or '}' on the line of the inline table",
                                  stk__toml_found_at(r, r->at).text);
        r->at++;
        if (c == '}')
            return STK_OK;
        skip_blanks(r);
    }
}

static stk_status read_value(stk__toml_reader *r, stk__toml *out, int depth)
{
    STK_TRY(node_start(r, r->at, depth, out));
    const int c = stk__toml_peek(r, 0);
    if (c == '[')
        return read_array(r, out, depth);
    if (c == '{')
        return read_inline_table(r, out, depth);
    return stk__toml_read_scalar(r, out);
}

/* ---- headers ---- */

/* A part of a header that is not its last one: the table, or the newest of an array of tables. */
static stk_status enter_header(stk__toml_reader *r, stk__toml **table, size_t at, int *depth)
{
    stk__toml *next = find(r, *table, r->key.data);
    (*depth)++;
    if (!next)
        return add_table(r, table, at, *depth, 0, 0);
    if (next->flags & FROZEN)
        return fail_kind(r, at, next, "a table or an array of tables that is not complete yet");
    if (next->kind == STK__TOML_ARRAY) {
        (*depth)++;
        next = &next->items[next->count - 1];
    }
    if (next->kind != STK__TOML_TABLE)
        return fail_kind(r, at, next, "a table");
    *table = next;
    return STK_OK;
}

static stk_status open_table(stk__toml_reader *r, stk__toml **table, size_t at, int *depth)
{
    stk__toml *next = find(r, *table, r->key.data);
    (*depth)++;
    if (!next)
        return add_table(r, table, at, *depth, DEFINED, 0);
    if (next->kind != STK__TOML_TABLE || (next->flags & FROZEN))
        return fail_kind(r, at, next, "a new table");
    if (next->flags & (DEFINED | DOTTED))
        return stk__toml_fail(r, at, "table '%s' is defined already (line %d), wanted it once", shown(next->key).text,
                              next->line);
    next->flags |= DEFINED;
    *table = next;
    return STK_OK;
}

/* [[KEY]]: one more table in the array, which the first one makes. */
static stk_status append_table(stk__toml_reader *r, stk__toml **table, size_t at, int *depth)
{
    stk__toml *array = find(r, *table, r->key.data);
    if (!array) {
        array = *table;
        STK_TRY(add_table(r, &array, at, *depth + 1, TABLES, 0));
        array->kind = STK__TOML_ARRAY;
    } else if (array->kind != STK__TOML_ARRAY || (array->flags & FROZEN)) {
        return fail_kind(r, at, array, "an array of tables");
    }
    *depth += 2;
    stk__toml node = {0};
    STK_TRY(node_start(r, at, *depth, &node));
    make_table(r, &node, DEFINED, 0);
    STK_TRY(push(r, array, &node));
    *table = &array->items[array->count - 1];
    return STK_OK;
}

/* [KEY] or [[KEY]]; *out becomes the table that the next pairs go to, *out_depth its depth. */
static stk_status read_header(stk__toml_reader *r, stk__toml *root, stk__toml **out, int *out_depth)
{
    const bool array = stk__toml_peek(r, 1) == '[';
    stk__toml *table = root;
    int depth = 0;
    r->at += array ? 2 : 1;
    skip_blanks(r);
    size_t at = r->at;
    STK_TRY(read_key(r));
    while (take_dot(r)) {
        STK_TRY(enter_header(r, &table, at, &depth));
        at = r->at;
        STK_TRY(read_key(r));
    }
    STK_TRY(array ? append_table(r, &table, at, &depth) : open_table(r, &table, at, &depth));
    STK_TRY(expect(r, ']', array ? "twice after the name of the array of tables" : "after the name of the table"));
    if (array)
        STK_TRY(expect(r, ']', "twice after the name of the array of tables"));
    *out = table;
    *out_depth = depth;
    return STK_OK;
}

/* ---- documents ---- */

static stk_status end_line(stk__toml_reader *r)
{
    skip_blanks(r);
    skip_comment(r);
    const size_t n = stk__toml_line_end(r, 0);
    if (n == 0 && r->at < r->size)
        return stk__toml_fail(r, r->at, "found %s, wanted the end of the line", stk__toml_found_at(r, r->at).text);
    r->at += n;
    return STK_OK;
}

static stk_status read_document(stk__toml_reader *r, stk__toml *root)
{
    stk__toml *table = root;
    int depth = 0;
    unsigned section = ++r->sections;
    while (r->at < r->size) {
        skip_blanks(r);
        const int c = stk__toml_peek(r, 0);
        if (c == '[') {
            STK_TRY(read_header(r, root, &table, &depth));
            section = ++r->sections;
        } else if (c >= 0 && c != '#' && c != '\n' && c != '\r') {
            STK_TRY(read_pair(r, table, depth, section));
        }
        STK_TRY(end_line(r));
    }
    return STK_OK;
}

/* What no TOML holds anywhere: bytes that are not UTF-8, control characters other than tabs and line ends. */
static stk_status check_text(stk__toml_reader *r)
{
    const unsigned char *const text = (const unsigned char *)r->text;
    if (r->size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return stk__toml_fail(r, 0, "found a byte order mark, wanted plain UTF-8");
    for (size_t i = 0; i < r->size;) {
        const unsigned char c = text[i];
        const size_t n = stk__utf8_length(text + i, r->size - i);
        if (n == 0)
            return stk__toml_fail(r, i, "found byte 0x%02x, wanted UTF-8", c);
        if (c == '\r' && (i + 1 == r->size || text[i + 1] != '\n'))
            return stk__toml_fail(r, i, "found a carriage return without a line feed, wanted both or none");
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return stk__toml_fail(r, i, "found control character 0x%02x, wanted text (in strings: \\u%04X)", c, c);
        i += n;
    }
    return STK_OK;
}

stk_status stk__toml_parse(const char *text, size_t size, const char *file, stk__toml **out, stk_error *err)
{
    stk__toml_reader r = {.text = text, .size = size, .file = file, .err = err, .mark = {0, 1, 1}};
    if (size > STK__TOML_BYTES)
        return stk__toml_fail(&r, 0, "found %zu bytes, wanted at most %d", size, STK__TOML_BYTES);
    STK_TRY(check_text(&r));
    stk__toml *root = stk__calloc(1, sizeof *root);
    if (!root)
        return stk__nomem(sizeof *root, err);
    /* Keys that collide under one seed, which a hostile file could bring along, do not under the next. */
    r.seed = stk__mix((uint64_t)stk__now_ns(), (uint64_t)(uintptr_t)root);
    root->line = root->column = 1;
    make_table(&r, root, DEFINED, 0);
    const stk_status status = read_document(&r, root);
    stk__text_clear(&r.key);
    stk__text_clear(&r.scratch);
    stk__free(r.slots);
    if (status != STK_OK) {
        stk__toml_free(root);
        return status;
    }
    *out = root;
    return STK_OK;
}
