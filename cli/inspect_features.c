/* Gathers the features of records, and proposes fields of parse that would read them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "inspect.h"

#include "base/banned.h"

/* Names come from files, so their number is bounded. */
enum { FEATURES_MAX = 20000, TABLE_FIRST = 64 };

const char *cli_feature_kind_name(int kind)
{
    static const char *const names[] = {[STK__FEATURE_NONE] = "empty",
                                        [STK__FEATURE_BYTES] = "bytes",
                                        [STK__FEATURE_FLOAT] = "float32",
                                        [STK__FEATURE_INT64] = "int64"};
    return names[kind];
}

static uint64_t hash_name(stk_bytes name, bool sequence)
{
    uint64_t h = 0xcbf29ce484222325u + sequence; /* FNV-1a */
    for (int64_t i = 0; i < name.size; i++)
        h = (h ^ name.data[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static uint32_t *find_place(const inspect_features *f, stk_bytes name, bool sequence)
{
    for (uint64_t i = hash_name(name, sequence);; i++) {
        uint32_t *place = &f->table[i & (f->table_size - 1)];
        if (!*place)
            return place;
        const inspect_feature *x = &f->items[*place - 1];
        if (x->sequence == sequence && x->name_size == (size_t)name.size &&
            memcmp(x->name, name.data, x->name_size) == 0)
            return place;
    }
}

static bool grow_table(inspect_features *f)
{
    const size_t size = f->table_size ? 2 * f->table_size : TABLE_FIRST;
    uint32_t *table = stk__calloc(size, sizeof *table);
    if (!table)
        return false;
    stk__free(f->table);
    f->table = table;
    f->table_size = size;
    for (size_t i = 0; i < f->count; i++) {
        const inspect_feature *x = &f->items[i];
        *find_place(f, (stk_bytes){(const uint8_t *)x->name, (int64_t)x->name_size}, x->sequence) = (uint32_t)i + 1;
    }
    return true;
}

/* NULL when memory is out or there are too many. */
static inspect_feature *find_feature(inspect_features *f, stk_bytes name, bool sequence)
{
    if (f->count >= f->table_size / 2 && !grow_table(f))
        return NULL;
    uint32_t *place = find_place(f, name, sequence);
    if (*place)
        return &f->items[*place - 1];
    if (f->count >= FEATURES_MAX) {
        f->too_many = true;
        return NULL;
    }
    if (!stk__grow((void **)&f->items, &f->capacity, f->count + 1, sizeof *f->items))
        return NULL;
    char *copy = stk__strndup((const char *)name.data, (size_t)name.size);
    if (!copy)
        return NULL;
    f->items[f->count] = (inspect_feature){.name = copy,
                                           .name_size = (size_t)name.size,
                                           .sequence = sequence,
                                           .min_values = INT64_MAX,
                                           .min_steps = INT64_MAX,
                                           .last_record = -1};
    *place = (uint32_t)++f->count;
    return &f->items[f->count - 1];
}

typedef struct visit_state {
    inspect_features *features;
    stk_status status;
    stk_error *err;
} visit_state;

static void count_values(inspect_feature *x, const stk__feature *feature)
{
    int64_t values = 0;
    if (stk__feature_count(feature, &values, NULL) != STK_OK)
        return; /* cannot be: the kind of the record was found by reading it all */
    x->kinds[feature->kind]++;
    x->min_values = STK_MIN(x->min_values, values);
    x->max_values = STK_MAX(x->max_values, values);
}

static void count_steps(inspect_feature *x, stk__feature_list list)
{
    stk__feature step;
    int64_t steps = 0;
    while (stk__feature_list_next(&list, &step, NULL) == STK_OK) {
        count_values(x, &step);
        steps++;
    }
    x->min_steps = STK_MIN(x->min_steps, steps);
    x->max_steps = STK_MAX(x->max_steps, steps);
}

static bool visit_feature(void *arg, stk_bytes name, bool sequence, const stk__found *found)
{
    visit_state *v = arg;
    inspect_features *f = v->features;
    inspect_feature *x = find_feature(f, name, sequence);
    if (!x && f->too_many)
        return true;
    if (!x) {
        v->status = stk__nomem(sizeof *x, v->err);
        return false;
    }
    if (x->last_record != f->records) /* a name that a record holds twice counts once */
        x->present++;
    x->last_record = f->records;
    if (sequence)
        count_steps(x, found->list);
    else
        count_values(x, &found->feature);
    return true;
}

stk_status cli_features_add(inspect_features *f, stk_bytes record, stk_error *err)
{
    const int kind = stk__example_guess_kind(record);
    visit_state v = {.features = f, .err = err};
    if (kind >= 0)
        stk__example_each(record, kind == 1, visit_feature, &v, NULL);
    *(kind < 0 ? &f->others : kind ? &f->sequences : &f->examples) += 1;
    f->records++;
    return v.status;
}

static int by_name(const void *a, const void *b)
{
    const inspect_feature *x = a, *y = b;
    if (x->sequence != y->sequence)
        return x->sequence ? 1 : -1;
    const int c = memcmp(x->name, y->name, STK_MIN(x->name_size, y->name_size));
    return c ? c : (x->name_size > y->name_size) - (x->name_size < y->name_size);
}

void cli_features_sort(inspect_features *f)
{
    if (f->count)
        qsort(f->items, f->count, sizeof *f->items, by_name);
    stk__free(f->table); /* its numbers no longer hold */
    f->table = NULL;
    f->table_size = 0;
}

void cli_features_clear(inspect_features *f)
{
    for (size_t i = 0; i < f->count; i++)
        stk__free(f->items[i].name);
    stk__free(f->items);
    stk__free(f->table);
    *f = (inspect_features){0};
}

/* ---- fields of parse ---- */

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* A field's name made from a feature's; true when it is the same. */
static bool put_identifier(stk__text *t, const inspect_feature *x)
{
    bool same = x->name_size > 0;
    if (!x->name_size || !is_name_char(x->name[0], true)) {
        stk__text_putc(t, 'f');
        same = false;
    }
    for (size_t i = 0; i < x->name_size; i++) {
        const bool ok = is_name_char(x->name[i], false);
        same = same && ok;
        stk__text_putc(t, ok ? x->name[i] : '_');
    }
    return same;
}

/* The one kind of values that a feature has, or NONE when there are none or several. */
static int only_kind(const inspect_feature *x)
{
    int kind = STK__FEATURE_NONE;
    for (int k = STK__FEATURE_BYTES; k <= STK__FEATURE_INT64; k++) {
        if (x->kinds[k] && kind)
            return STK__FEATURE_NONE;
        if (x->kinds[k])
            kind = k;
    }
    return kind;
}

/* Why parse cannot read it; NULL: it can. */
static const char *why_not(const inspect_feature *x, char *buffer, size_t size)
{
    int kinds = 0;
    for (int k = STK__FEATURE_BYTES; k <= STK__FEATURE_INT64; k++)
        kinds += x->kinds[k] > 0;
    if (memchr(x->name, 0, x->name_size))
        return "its name holds a NUL byte, which a pipeline cannot write";
    if (kinds == 0)
        return "it has no value in any record, so its type is not known";
    if (kinds > 1)
        return "its type is not the same in all records";
    if (!x->sequence || x->min_values == x->max_values)
        return NULL;
    snprintf(buffer, size, "its steps hold %" PRId64 " to %" PRId64 " values, and parse wants as many in every step",
             x->min_values, x->max_values);
    return buffer;
}

/* As many values in each record that has it. */
static bool same_count(const inspect_feature *x)
{
    return x->min_values == x->max_values && !x->kinds[STK__FEATURE_NONE];
}

/* As a string of the pipeline's text; what could steer a terminal becomes \xNN, which reads back the same. */
static void put_quoted(stk__text *t, const char *name)
{
    stk__text quoted = STK__TEXT_INIT;
    stk__text_quote(&quoted, name);
    if (quoted.failed)
        t->failed = true;
    else
        cli_text_escaped(t, quoted.data);
    stk__text_clear(&quoted);
}

/* "float32", "int64[4]" */
static void put_fixed_type(stk__text *t, const inspect_feature *x)
{
    stk__text_puts(t, cli_feature_kind_name(only_kind(x)));
    if (x->min_values != 1)
        stk__text_printf(t, "[%" PRId64 "]", x->min_values);
}

static void put_type(stk__text *t, const inspect_features *f, const inspect_feature *x, bool same_name)
{
    if (x->sequence || (x->present == f->records && same_count(x))) /* of a sequence, the type tells one step */
        put_fixed_type(t, x);
    else
        stk__text_printf(t, "%s[]", cli_feature_kind_name(only_kind(x)));
    if (x->sequence || !same_name)
        stk__text_putc(t, '(');
    if (!same_name) {
        stk__text_puts(t, "from=");
        put_quoted(t, x->name);
    }
    if (x->sequence)
        stk__text_puts(t, same_name ? "sequence=true" : ", sequence=true");
    if (x->sequence || !same_name)
        stk__text_putc(t, ')');
}

static bool name_taken(const inspect_proposal *p, const char *name)
{
    /* Options of parse itself, for which a field of such a name would be taken, and words that are values. */
    static const char *const others[] = {"record", "sequence", "schema", "fields", "true", "false"};
    for (size_t i = 0; i < STK_COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    return cli_proposal_has(p, name);
}

/* Whether a feature is really called so; it has the first right to the name. */
static bool is_feature(const inspect_features *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->items[i].name, name) == 0)
            return true;
    }
    return false;
}

/* A name that no other field of the call has. */
static void put_name(stk__text *t, const inspect_features *f, const inspect_proposal *p, const inspect_feature *x,
                     bool *out_same)
{
    *out_same = put_identifier(t, x);
    const size_t length = t->length;
    for (int n = 2; !t->failed && (name_taken(p, t->data) || (!*out_same && is_feature(f, t->data))); n++) {
        t->length = length;
        stk__text_printf(t, "_%d", n);
        *out_same = false;
    }
}

static void propose_field(const inspect_features *f, const inspect_feature *x, inspect_proposal *p)
{
    stk__text name = STK__TEXT_INIT, type = STK__TEXT_INIT;
    bool same;
    put_name(&name, f, p, x, &same);
    put_type(&type, f, x, same);
    if (name.failed || type.failed)
        p->failed = true;
    else
        cli_proposal_add(p, name.data, type.data);
    stk__text_clear(&name);
    stk__text_clear(&type);
}

static const char *shown_name(const inspect_feature *x)
{
    return x->name_size ? x->name : "\"\"";
}

static void say_left_out(const inspect_feature *x, const char *why, inspect_proposal *p)
{
    stk__text line = STK__TEXT_INIT;
    stk__text_printf(&line, "%s: %s", shown_name(x), why);
    cli_proposal_say(p, &p->left_out, &line);
}

/* Those that some records do not have, though they would have as many values in each, are lists; they could be more. */
static void say_missing(const inspect_features *f, inspect_proposal *p)
{
    enum { NAMED = 5 };
    const inspect_feature *first = NULL;
    char unused[160];
    stk__text line = STK__TEXT_INIT;
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        const inspect_feature *x = &f->items[i];
        if (x->sequence || x->present == f->records || !same_count(x) || why_not(x, unused, sizeof unused))
            continue;
        first = first ? first : x;
        if (++count <= NAMED)
            stk__text_printf(&line, "%s%s (in %" PRId64 " of %" PRId64 ")", count > 1 ? ", " : "", shown_name(x),
                             x->present, f->records);
    }
    if (count > NAMED)
        stk__text_printf(&line, " and %zu more", count - NAMED);
    if (!count)
        return;
    stk__text_puts(&line, count > 1 ? " are missing in some records, so they are lists that are empty there"
                                    : " is missing in some records, so it is a list that is empty there");
    stk__text_puts(&line, "; for a value in each give a default, as in ");
    put_fixed_type(&line, first);
    stk__text_printf(&line, "(default=%s)", only_kind(first) == STK__FEATURE_BYTES ? "\"\"" : "0");
    cli_proposal_say(p, &p->notes, &line);
}

static void say_others(const inspect_features *f, inspect_proposal *p)
{
    if (!f->others || !p->count)
        return;
    stk__text line = STK__TEXT_INIT;
    stk__text_printf(&line, "%" PRId64 " of %" PRId64 " records are no Examples, and parse fails there", f->others,
                     f->records);
    cli_proposal_say(p, &p->notes, &line);
}

void cli_features_propose(const inspect_features *f, inspect_proposal *p)
{
    enum { SUGGESTED_MAX = 500 }; /* nobody pastes more */
    char buffer[160];
    size_t more = 0;
    for (size_t i = 0; i < f->count; i++) {
        const inspect_feature *x = &f->items[i];
        const char *why = why_not(x, buffer, sizeof buffer);
        if (why)
            say_left_out(x, why, p);
        else if (p->count < SUGGESTED_MAX)
            propose_field(f, x, p);
        else
            more++;
    }
    if (more || f->too_many) {
        stk__text line = STK__TEXT_INIT;
        stk__text_printf(&line, "%zu%s features more than the %d that are proposed", more,
                         f->too_many ? " or more" : "", SUGGESTED_MAX);
        cli_proposal_say(p, &p->left_out, &line);
    }
    say_missing(f, p);
    say_others(f, p);
}
