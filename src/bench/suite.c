/* Reads files of benchmarks: which keys there are, what their values may be, and which options win. */
#include "bench/suite.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/toml.h"

#include "base/banned.h"

/* ---- keys ---- */

typedef enum {
    TEXT,     /* char * */
    FILLED,   /* char *, not empty */
    SHARE,    /* double: "5%" or 0.05 */
    COUNT,    /* int64_t */
    SWITCH,   /* int: 0 or 1 */
    DURATION, /* int64_t ns: "30s" or seconds */
    SIZE,     /* uint64_t: "4G" or bytes */
    NUMBER,   /* double */
    BOUND,    /* double, in a unit that other keys tell */
    LIST      /* read by the caller */
} key_kind;

typedef struct {
    const char *name;
    key_kind kind;
    size_t offset;
    double least, most;
    bool for_steps; /* an option that a step may have for itself */
} key;

#define OPTION(field) offsetof(stk__suite_options, field)
static const key option_keys[] = {
    {"setup", TEXT, OPTION(setup), .for_steps = true},
    {"prepare", TEXT, OPTION(prepare), .for_steps = true},
    {"conclude", TEXT, OPTION(conclude), .for_steps = true},
    {"cleanup", TEXT, OPTION(cleanup), .for_steps = true},
    {"directory", TEXT, OPTION(directory), .for_steps = true},
    {"input", TEXT, OPTION(input)},
    {"metric", FILLED, OPTION(metric)},
    {"unit", FILLED, OPTION(unit)},
    {"higher_is_better", SWITCH, OPTION(higher_is_better)},
    {"count", SWITCH, OPTION(count)},
    {"rounds", COUNT, OPTION(rounds), 1, 100000},
    {"warmup", COUNT, OPTION(warmup), 0, 100000},
    {"max_rounds", COUNT, OPTION(max_rounds), 6, 100000},
    {"width", SHARE, OPTION(width), 0.0001, 10},
    {"min_effect", SHARE, OPTION(min_effect), 0, 10},
    {"margin", SHARE, OPTION(margin), 0, 10},
    {"quiet", SHARE, OPTION(quiet), 0, 1},
    {"timeout", DURATION, OPTION(timeout_ns)},
    {"cpus", NUMBER, OPTION(limits.cpus), 0.01, 4096},
    {"memory", SIZE, OPTION(limits.memory_bytes)},
};

#define STEP(field) offsetof(stk__suite_step, field)
static const key step_keys[] = {
    {"name", FILLED, STEP(name)}, {"command", FILLED, STEP(command)}, {"note", TEXT, STEP(note)}};

#define ENTRY(field) offsetof(stk__suite_entry, field)
static const key compare_keys[] = {
    {"name", FILLED, ENTRY(name)},      {"a", FILLED, ENTRY(a)},           {"b", FILLED, ENTRY(b)},
    {"a_name", FILLED, ENTRY(a_name)},  {"b_name", FILLED, ENTRY(b_name)}, {"at_least", BOUND, ENTRY(at_least)},
    {"at_most", BOUND, ENTRY(at_most)}, {"note", TEXT, ENTRY(note)},
};
static const key measure_keys[] = {
    {"name", FILLED, ENTRY(name)},      {"command", FILLED, ENTRY(a)}, {"at_least", BOUND, ENTRY(at_least)},
    {"at_most", BOUND, ENTRY(at_most)}, {"note", TEXT, ENTRY(note)},
};

static const key file_keys[] = {{"title", TEXT, offsetof(stk__suite, title)},
                                {"notes", LIST},
                                {"step", LIST},
                                {"compare", LIST},
                                {"measure", LIST}};

/* What a table may hold: keys of its own, and options. */
typedef struct {
    const char *what;
    const key *keys;
    size_t count;
} table_kind;

static const table_kind file_table = {"the top of the file", file_keys, STK_COUNT(file_keys)};
static const table_kind step_table = {"[[step]]", step_keys, STK_COUNT(step_keys)};
static const table_kind compare_table = {"[[compare]]", compare_keys, STK_COUNT(compare_keys)};
static const table_kind measure_table = {"[[measure]]", measure_keys, STK_COUNT(measure_keys)};

typedef struct {
    const char *file;
    stk_error *err;
} reader;

static stk_status fail(const reader *r, const stk__toml *node, const char *format, ...) STK_PRINTF(3, 4);

static stk_status fail(const reader *r, const stk__toml *node, const char *format, ...)
{
    char message[480];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    stk_error_set(r->err, STK_INVALID, "%s", message);
    if (r->err) {
        snprintf(r->err->file, sizeof r->err->file, "%s", r->file ? r->file : "");
        r->err->line = node ? node->line : 0;
        r->err->column = node ? node->column : 0;
    }
    return STK_INVALID;
}

/* ---- values ---- */

/* A value as messages show it. */
typedef struct {
    char text[80];
} found_text;

static found_text found(const stk__toml *node)
{
    static const char *const names[] = {"a table", "an array", "", "", "", "", ""};
    found_text out;
    if (node->kind == STK__TOML_INTEGER)
        snprintf(out.text, sizeof out.text, "%" PRId64, node->integer);
    else if (node->kind == STK__TOML_FLOAT)
        snprintf(out.text, sizeof out.text, "%g", node->number);
    else if (node->kind == STK__TOML_BOOLEAN)
        snprintf(out.text, sizeof out.text, "%s", node->boolean ? "true" : "false");
    else if (node->kind == STK__TOML_STRING || node->kind == STK__TOML_DATE)
        snprintf(out.text, sizeof out.text, "\"%.60s%s\"", node->text, strlen(node->text) > 60 ? "..." : "");
    else
        snprintf(out.text, sizeof out.text, "%s", names[node->kind]);
    return out;
}

static stk_status fail_value(const reader *r, const stk__toml *node, const char *wanted)
{
    return fail(r, node, "'%s' is %s, wanted %s", node->key, found(node).text, wanted);
}

static bool is_number(const stk__toml *node)
{
    return node->kind == STK__TOML_INTEGER || (node->kind == STK__TOML_FLOAT && isfinite(node->number));
}

/* "5%", "2.5 %" */
static bool parse_percent(const char *text, double *out)
{
    const size_t digits = strspn(text, "0123456789.");
    const char *rest = text + digits;
    if (digits == 0 || digits > 40)
        return false;
    rest += *rest == ' ';
    char *end;
    const double x = stk__strtod(text, &end);
    if (end != text + digits || strcmp(rest, "%") != 0 || !isfinite(x))
        return false;
    *out = x / 100;
    return true;
}

static stk_status read_text(const reader *r, const stk__toml *node, bool filled, char **out)
{
    if (node->kind != STK__TOML_STRING || strlen(node->text) != node->text_size)
        return fail_value(r, node, "a text in quotes, without NUL");
    if (filled && !*node->text)
        return fail_value(r, node, "a text that is not empty");
    *out = stk__strdup(node->text);
    return *out ? STK_OK : stk__nomem(node->text_size, r->err);
}

static stk_status read_share(const reader *r, const stk__toml *node, const key *k, double *out)
{
    double x = NAN;
    if (node->kind == STK__TOML_STRING)
        parse_percent(node->text, &x);
    else if (is_number(node) && node->number <= 1) /* 5 is more likely meant as 5 % than as 500 % */
        x = node->number;
    if (!(x >= k->least && x <= k->most)) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "a share such as \"5%%\" or 0.05, from %g to %g%%", k->least * 100,
                 k->most * 100);
        return fail_value(r, node, wanted);
    }
    *out = x;
    return STK_OK;
}

static stk_status read_number(const reader *r, const stk__toml *node, const key *k, double *out)
{
    if (!is_number(node) || node->number < k->least || node->number > k->most) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "a number from %g to %g", k->least, k->most);
        return fail_value(r, node, wanted);
    }
    *out = node->number;
    return STK_OK;
}

static stk_status read_count(const reader *r, const stk__toml *node, const key *k, int64_t *out)
{
    if (node->kind != STK__TOML_INTEGER || node->number < k->least || node->number > k->most) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", k->least, k->most);
        return fail_value(r, node, wanted);
    }
    *out = node->integer;
    return STK_OK;
}

static stk_status read_duration(const reader *r, const stk__toml *node, int64_t *out)
{
    int64_t ns = 0;
    if (node->kind == STK__TOML_STRING && strlen(node->text) == node->text_size)
        stk__parse_duration(node->text, &ns);
    else if (is_number(node) && node->number > 0 && node->number < 9e9)
        ns = (int64_t)(node->number * 1e9);
    if (ns <= 0)
        return fail_value(r, node, "a time above 0 such as \"30s\", \"500ms\", \"2m\", or seconds");
    *out = ns;
    return STK_OK;
}

static stk_status read_size(const reader *r, const stk__toml *node, uint64_t *out)
{
    uint64_t bytes = 0;
    if (node->kind == STK__TOML_STRING && strlen(node->text) == node->text_size)
        stk__parse_size(node->text, &bytes);
    else if (node->kind == STK__TOML_INTEGER && node->integer > 0)
        bytes = (uint64_t)node->integer;
    if (bytes == 0)
        return fail_value(r, node, "a size above 0 such as \"4G\", \"512M\", or bytes");
    *out = bytes;
    return STK_OK;
}

static stk_status read_switch(const reader *r, const stk__toml *node, int *out)
{
    if (node->kind != STK__TOML_BOOLEAN)
        return fail_value(r, node, "true or false");
    *out = node->boolean;
    return STK_OK;
}

/* Writes the value of a key to its place in `base`; bounds and lists are for later. */
static stk_status read_key(const reader *r, const stk__toml *node, const key *k, void *base)
{
    void *out = (char *)base + k->offset;
    switch (k->kind) {
    case TEXT:
    case FILLED:
        return read_text(r, node, k->kind == FILLED, out);
    case SHARE:
        return read_share(r, node, k, out);
    case COUNT:
        return read_count(r, node, k, out);
    case SWITCH:
        return read_switch(r, node, out);
    case DURATION:
        return read_duration(r, node, out);
    case SIZE:
        return read_size(r, node, out);
    case NUMBER:
        return read_number(r, node, k, out);
    case BOUND:
    case LIST:
        break;
    }
    return STK_OK;
}

/* ---- tables ---- */

static const key *find_key(const key *keys, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static bool may_have(const table_kind *kind, const key *option)
{
    return kind != &step_table || option->for_steps;
}

static stk_status fail_unknown(const reader *r, const stk__toml *node, const table_kind *kind)
{
    const char *names[STK_COUNT(option_keys) + STK_COUNT(compare_keys)];
    size_t count = 0;
    for (size_t i = 0; i < kind->count; i++)
        names[count++] = kind->keys[i].name;
    for (size_t i = 0; i < STK_COUNT(option_keys); i++)
        if (may_have(kind, &option_keys[i]))
            names[count++] = option_keys[i].name;
    const char *nearest = stk__nearest(node->key, names, count);
    if (nearest)
        return fail(r, node, "found the key '%.60s' in %s, wanted '%s'?", node->key, kind->what, nearest);
    stk__text list = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&list, "%s%s", i ? ", " : "", names[i]);
    const stk_status status = fail(r, node, "found the key '%.60s' in %s, wanted one of %s", node->key, kind->what,
                                   list.failed ? "those that the manual lists" : list.data);
    stk__text_clear(&list);
    return status;
}

/* All keys of a table but bounds and lists: its own to `base`, options to `options`. */
static stk_status read_table(const reader *r, const stk__toml *table, const table_kind *kind, void *base,
                             stk__suite_options *options)
{
    for (size_t i = 0; i < table->count; i++) {
        const stk__toml *node = &table->items[i];
        const key *own = find_key(kind->keys, kind->count, node->key);
        const key *option = find_key(option_keys, STK_COUNT(option_keys), node->key);
        if (own)
            STK_TRY(read_key(r, node, own, base));
        else if (option && may_have(kind, option))
            STK_TRY(read_key(r, node, option, options));
        else if (option)
            return fail(r, node, "found '%s' in %s, wanted it at the top of the file: all steps share it", node->key,
                        kind->what);
        else
            return fail_unknown(r, node, kind);
    }
    return STK_OK;
}

static stk_status check_there(const reader *r, const stk__toml *table, const table_kind *kind, const char *name)
{
    if (stk__toml_get(table, name))
        return STK_OK;
    return fail(r, table, "found %s without '%s', wanted one", kind->what, name);
}

static stk__suite_options no_options(void)
{
    return (stk__suite_options){.higher_is_better = -1,
                                .count = -1,
                                .warmup = -1,
                                .width = NAN,
                                .min_effect = NAN,
                                .margin = NAN,
                                .quiet = NAN};
}

/* Unit and direction of what we measure ourselves are known: a file that says otherwise means another metric. */
static stk_status check_metric(const reader *r, const stk__toml *table, const stk__suite_options *o)
{
    static const char *const keys[] = {"unit", "higher_is_better"};
    const char *const metric = o->metric ? o->metric : "wall";
    const stk__measure m = stk__measure_find(metric);
    for (size_t i = 0; m < STK__NAMED_MEASURES && i < STK_COUNT(keys); i++) {
        const stk__toml *node = stk__toml_get(table, keys[i]);
        if (node)
            return fail(
                r, node,
                "found '%s' with the metric '%s', which is measured in '%s' and less is better; wanted it with a "
                "'metric' that the commands print",
                keys[i], metric, stk__measure_metric(m).unit);
    }
    return STK_OK;
}

/* ---- bounds ---- */

/* "s", "bytes", "share" or another word; NULL: not known. */
static const char *unit_of(const stk__suite_options *o)
{
    const stk__measure m = stk__measure_find(o->metric ? o->metric : "wall");
    return m < STK__NAMED_MEASURES ? stk__measure_metric(m).unit : o->unit;
}

static bool parse_bound(const char *text, const char *unit, double *out)
{
    int64_t ns;
    uint64_t bytes;
    if (strcmp(unit, "share") == 0)
        return parse_percent(text, out);
    if (strcmp(unit, "s") == 0 && stk__parse_duration(text, &ns))
        *out = (double)ns / 1e9;
    else if (strcmp(unit, "bytes") == 0 && stk__parse_size(text, &bytes))
        *out = (double)bytes;
    else
        return false;
    return true;
}

/* A number, in the unit of the metric; of a measure also a text with its own unit. */
static stk_status read_bound(const reader *r, const stk__toml *node, bool compare, const char *unit, double *out)
{
    if (is_number(node) && (!compare || node->number > 0)) {
        *out = node->number;
        return STK_OK;
    }
    if (compare)
        return fail_value(r, node, "a ratio above 0 such as 1.5");
    double x;
    if (unit && node->kind == STK__TOML_STRING && strlen(node->text) == node->text_size &&
        parse_bound(node->text, unit, &x)) {
        *out = x;
        return STK_OK;
    }
    char wanted[160];
    const char *example = !unit                        ? ""
                          : strcmp(unit, "s") == 0     ? ", or a text such as \"20ms\""
                          : strcmp(unit, "bytes") == 0 ? ", or a text such as \"256M\""
                          : strcmp(unit, "share") == 0 ? ", or a text such as \"5%\""
                                                       : "";
    snprintf(wanted, sizeof wanted, "a number in %.60s%s", unit ? unit : "the unit of the metric", example);
    return fail_value(r, node, wanted);
}

static stk_status read_bounds(const reader *r, const stk__toml *table, bool compare, const stk__suite *s,
                              stk__suite_entry *e)
{
    const stk__suite_options options = stk__suite_merge(&s->options, &e->options);
    STK_TRY(check_metric(r, table, &options));
    const char *const unit = unit_of(&options);
    const stk__toml *least = stk__toml_get(table, "at_least"), *most = stk__toml_get(table, "at_most");
    if (least)
        STK_TRY(read_bound(r, least, compare, unit, &e->at_least));
    if (most)
        STK_TRY(read_bound(r, most, compare, unit, &e->at_most));
    if (e->at_least > e->at_most)
        return fail(r, most, "'at_most' is %g and 'at_least' %g, wanted it to be no less", e->at_most, e->at_least);
    return STK_OK;
}

/* ---- files ---- */

static stk_status read_step(const reader *r, const stk__toml *table, stk__suite_step *step)
{
    step->options = no_options();
    step->line = table->line;
    STK_TRY(read_table(r, table, &step_table, step, &step->options));
    STK_TRY(check_there(r, table, &step_table, "name"));
    return check_there(r, table, &step_table, "command");
}

static stk_status read_entry(const reader *r, const stk__toml *table, bool compare, const stk__suite *s,
                             stk__suite_entry *e)
{
    const table_kind *kind = compare ? &compare_table : &measure_table;
    e->options = no_options();
    e->line = table->line;
    e->at_least = e->at_most = NAN;
    STK_TRY(read_table(r, table, kind, e, &e->options));
    STK_TRY(check_there(r, table, kind, "name"));
    STK_TRY(check_there(r, table, kind, compare ? "a" : "command"));
    if (compare)
        STK_TRY(check_there(r, table, kind, "b"));
    if (e->a_name && e->b_name && strcmp(e->a_name, e->b_name) == 0)
        return fail(r, stk__toml_get(table, "b_name"), "'a_name' and 'b_name' are both \"%.60s\", wanted two names",
                    e->a_name);
    return read_bounds(r, table, compare, s, e);
}

/* The tables of [[NAME]]; NULL when there are none. */
static stk_status find_tables(const reader *r, const stk__toml *root, const char *name, const stk__toml **out)
{
    const stk__toml *list = stk__toml_get(root, name);
    bool good = !list || list->kind == STK__TOML_ARRAY;
    for (size_t i = 0; good && list && i < list->count; i++)
        good = list->items[i].kind == STK__TOML_TABLE;
    if (!good)
        return fail(r, list, "'%s' is %s, wanted tables under [[%s]]", name,
                    list->kind == STK__TOML_ARRAY ? "an array of other values" : found(list).text, name);
    if (list && list->count > STK__SUITE_ENTRIES)
        return fail(r, list, "found %zu times [[%s]], wanted at most %d", list->count, name, STK__SUITE_ENTRIES);
    *out = list && list->count ? list : NULL;
    return STK_OK;
}

static stk_status fail_twice(const reader *r, const stk__toml *table, const char *name, int line)
{
    const stk__toml *node = stk__toml_get(table, "name");
    return fail(r, node ? node : table, "the name \"%.60s\" is there already (line %d), wanted another", name, line);
}

static stk_status read_steps(const reader *r, const stk__toml *list, stk__suite *s)
{
    if (list->count < 2)
        return fail(r, &list->items[0], "found a ladder of 1 step, wanted at least 2");
    s->steps = stk__calloc(list->count, sizeof *s->steps);
    if (!s->steps)
        return stk__nomem(list->count * sizeof *s->steps, r->err);
    for (size_t i = 0; i < list->count; i++) {
        stk__suite_step *step = &s->steps[s->step_count++];
        STK_TRY(read_step(r, &list->items[i], step));
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->steps[k].name, step->name) == 0)
                return fail_twice(r, &list->items[i], step->name, s->steps[k].line);
    }
    return STK_OK;
}

static bool stands_before(const stk__toml *a, const stk__toml *b)
{
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* Comparisons and measures, as they follow each other in the file. */
static stk_status read_entries(const reader *r, const stk__toml *compares, const stk__toml *measures, stk__suite *s)
{
    const size_t ends[] = {compares ? compares->count : 0, measures ? measures->count : 0};
    const size_t count = ends[0] + ends[1];
    s->entries = stk__calloc(count, sizeof *s->entries);
    if (!s->entries)
        return stk__nomem(count * sizeof *s->entries, r->err);
    for (size_t i = 0, k = 0; i < ends[0] || k < ends[1];) {
        const bool compare = k == ends[1] || (i < ends[0] && stands_before(&compares->items[i], &measures->items[k]));
        const stk__toml *table = compare ? &compares->items[i++] : &measures->items[k++];
        stk__suite_entry *e = &s->entries[s->entry_count++];
        STK_TRY(read_entry(r, table, compare, s, e));
        for (size_t before = 0; before + 1 < s->entry_count; before++)
            if (strcmp(s->entries[before].name, e->name) == 0)
                return fail_twice(r, table, e->name, s->entries[before].line);
    }
    return STK_OK;
}

static stk_status read_notes(const reader *r, const stk__toml *root, stk__suite *s)
{
    const stk__toml *list = stk__toml_get(root, "notes");
    if (!list)
        return STK_OK;
    if (list->kind != STK__TOML_ARRAY)
        return fail_value(r, list, "an array of texts");
    s->notes = stk__calloc(list->count, sizeof *s->notes);
    if (!s->notes)
        return stk__nomem(list->count * sizeof *s->notes, r->err);
    for (size_t i = 0; i < list->count; i++) {
        const stk__toml *item = &list->items[i];
        if (item->kind != STK__TOML_STRING || strlen(item->text) != item->text_size)
            return fail(r, item, "a note is %s, wanted a text in quotes, without NUL", found(item).text);
        s->notes[s->note_count] = stk__strdup(item->text);
        if (!s->notes[s->note_count])
            return stk__nomem(item->text_size, r->err);
        s->note_count++;
    }
    return STK_OK;
}

static stk_status read_file(const reader *r, const stk__toml *root, stk__suite *s)
{
    const stk__toml *steps, *compares, *measures;
    s->options = no_options();
    STK_TRY(read_table(r, root, &file_table, s, &s->options));
    STK_TRY(check_metric(r, root, &s->options));
    STK_TRY(read_notes(r, root, s));
    STK_TRY(find_tables(r, root, "step", &steps));
    STK_TRY(find_tables(r, root, "compare", &compares));
    STK_TRY(find_tables(r, root, "measure", &measures));
    if (steps && (compares || measures))
        return fail(r, compares ? compares : measures,
                    "found [[%s]] beside [[step]] (line %d), wanted a file of one kind",
                    compares ? "compare" : "measure", steps->line);
    if (steps)
        return read_steps(r, steps, s);
    if (compares || measures)
        return read_entries(r, compares, measures, s);
    return fail(r, NULL, "found neither [[step]] nor [[compare]] nor [[measure]], wanted one of them");
}

stk_status stk__suite_parse(const char *text, size_t size, const char *file, stk__suite *out, stk_error *err)
{
    const reader r = {.file = file, .err = err};
    stk__toml *root;
    STK_TRY(stk__toml_parse(text, size, file, &root, err));
    stk__suite suite = {0};
    const stk_status status = read_file(&r, root, &suite);
    stk__toml_free(root);
    if (status == STK_OK)
        *out = suite;
    else
        stk__suite_clear(&suite);
    return status;
}

/* ---- what is read ---- */

static void options_clear(stk__suite_options *o)
{
    stk__free(o->setup);
    stk__free(o->prepare);
    stk__free(o->conclude);
    stk__free(o->cleanup);
    stk__free(o->input);
    stk__free(o->directory);
    stk__free(o->metric);
    stk__free(o->unit);
}

void stk__suite_clear(stk__suite *s)
{
    for (size_t i = 0; i < s->step_count; i++) {
        stk__free(s->steps[i].name);
        stk__free(s->steps[i].command);
        stk__free(s->steps[i].note);
        options_clear(&s->steps[i].options);
    }
    for (size_t i = 0; i < s->entry_count; i++) {
        stk__suite_entry *e = &s->entries[i];
        stk__free(e->name);
        stk__free(e->a);
        stk__free(e->b);
        stk__free(e->a_name);
        stk__free(e->b_name);
        stk__free(e->note);
        options_clear(&e->options);
    }
    for (size_t i = 0; i < s->note_count; i++)
        stk__free(s->notes[i]);
    stk__free(s->steps);
    stk__free(s->entries);
    stk__free(s->notes);
    stk__free(s->title);
    options_clear(&s->options);
    *s = (stk__suite){0};
}

/* "" is how an entry says that it wants none of the file's. */
static char *merge_text(char *file, char *entry)
{
    char *text = entry ? entry : file;
    return text && *text ? text : NULL;
}

static double merge_double(double file, double entry)
{
    return isnan(entry) ? file : entry;
}

stk__suite_options stk__suite_merge(const stk__suite_options *file, const stk__suite_options *entry)
{
    stk__suite_options o = *entry;
    o.setup = merge_text(file->setup, entry->setup);
    o.prepare = merge_text(file->prepare, entry->prepare);
    o.conclude = merge_text(file->conclude, entry->conclude);
    o.cleanup = merge_text(file->cleanup, entry->cleanup);
    o.input = merge_text(file->input, entry->input);
    o.directory = merge_text(file->directory, entry->directory);
    if (!entry->metric) {
        o.metric = file->metric;
        o.unit = merge_text(file->unit, entry->unit);
        o.higher_is_better = entry->higher_is_better >= 0 ? entry->higher_is_better : file->higher_is_better;
    }
    /* Both say when to stop: an entry that has one of them does not want the file's other. */
    const bool stops = entry->rounds || !isnan(entry->width);
    o.rounds = stops ? entry->rounds : file->rounds;
    o.width = stops ? entry->width : file->width;
    o.max_rounds = entry->max_rounds ? entry->max_rounds : file->max_rounds;
    o.warmup = entry->warmup >= 0 ? entry->warmup : file->warmup;
    o.count = entry->count >= 0 ? entry->count : file->count;
    o.min_effect = merge_double(file->min_effect, entry->min_effect);
    o.margin = merge_double(file->margin, entry->margin);
    o.quiet = merge_double(file->quiet, entry->quiet);
    o.timeout_ns = entry->timeout_ns ? entry->timeout_ns : file->timeout_ns;
    o.limits.cpus = entry->limits.cpus > 0 ? entry->limits.cpus : file->limits.cpus;
    o.limits.memory_bytes = entry->limits.memory_bytes ? entry->limits.memory_bytes : file->limits.memory_bytes;
    return o;
}
