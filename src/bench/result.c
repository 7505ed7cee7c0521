/* Variants, metrics and values of a benchmark; names that tell commands apart. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/result.h"

#include "base/banned.h"

/* Constants are handed out as the char * of stk__metric; nobody writes to them. */
#define WORD(s) ((char *)(uintptr_t)(s))

stk__metric stk__measure_metric(stk__measure measure)
{
    static const struct {
        const char *name, *unit;
    } rows[STK__NAMED_MEASURES] = {
        [STK__WALL] = {"wall", "s"},
        [STK__USER] = {"user", "s"},
        [STK__SYSTEM] = {"system", "s"},
        [STK__CPU] = {"cpu", "s"},
        [STK__RSS] = {"rss", "bytes"},
        [STK__MINOR_FAULTS] = {"minor_faults", "count"},
        [STK__MAJOR_FAULTS] = {"major_faults", "count"},
        [STK__SWITCHES] = {"switches", "count"},
        [STK__PREEMPTIONS] = {"preemptions", "count"},
        [STK__STEAL] = {"steal", "share"},
        [STK__PRESSURE_CPU] = {"pressure_cpu", "share"},
        [STK__PRESSURE_IO] = {"pressure_io", "share"},
        [STK__PRESSURE_MEMORY] = {"pressure_memory", "share"},
        [STK__INSTRUCTIONS] = {"instructions", "instructions"},
    };
    return (stk__metric){WORD(rows[measure].name), WORD(rows[measure].unit), false};
}

stk__measure stk__measure_find(const char *name)
{
    int m = 0;
    while (m < STK__NAMED_MEASURES && strcmp(stk__measure_metric((stk__measure)m).name, name) != 0)
        m++;
    return (stk__measure)m;
}

static void variant_clear(stk__variant *v, size_t metric_count)
{
    for (size_t i = 0; i < v->parameter_count; i++) {
        stk__free(v->parameters[i].name);
        stk__free(v->parameters[i].value);
    }
    for (size_t m = 0; v->values && m < metric_count; m++)
        stk__free(v->values[m]);
    stk__free(v->parameters);
    stk__free(v->values);
    stk__free(v->exit_codes);
    stk__free(v->name);
    stk__free(v->command);
    stk__free(v->withheld);
}

void stk__result_clear(stk__result *r)
{
    for (size_t i = 0; i < r->variant_count; i++)
        variant_clear(&r->variants[i], r->metric_count);
    for (size_t i = 0; i < r->metric_count; i++) {
        stk__free(r->metrics[i].name);
        stk__free(r->metrics[i].unit);
    }
    for (size_t i = 0; i < r->note_count; i++)
        stk__free(r->notes[i]);
    stk__free(r->variants);
    stk__free(r->metrics);
    stk__free(r->notes);
    stk__free(r->machine);
    stk__free(r->limits);
    stk__free(r->counted);
    *r = (stk__result){0};
}

size_t stk__result_metric(const stk__result *r, const char *name)
{
    for (size_t i = 0; i < r->metric_count; i++) {
        if (strcmp(r->metrics[i].name, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

size_t stk__result_variant(const stk__result *r, const char *name)
{
    for (size_t i = 0; i < r->variant_count; i++) {
        if (strcmp(r->variants[i].name, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

stk_status stk__result_add_metric(stk__result *r, const char *name, const char *unit, bool higher_is_better,
                                  size_t *out_index, stk_error *err)
{
    if (stk__result_metric(r, name) != SIZE_MAX)
        return stk_error_set(err, STK_INVALID, "the metric '%s' is there twice", name);
    if (r->variant_count)
        return stk_error_set(err, STK_INVALID, "the metric '%s' comes after the first variant", name);
    /* Grown by one: there are a dozen of them. */
    stk__metric *grown = stk__realloc(r->metrics, (r->metric_count + 1) * sizeof *grown);
    if (!grown)
        return stk__nomem((r->metric_count + 1) * sizeof *grown, err);
    r->metrics = grown;
    stk__metric made = {stk__strdup(name), stk__strdup(unit), higher_is_better};
    if (!made.name || !made.unit) {
        stk__free(made.name);
        stk__free(made.unit);
        return stk__nomem(strlen(name), err);
    }
    if (out_index)
        *out_index = r->metric_count;
    r->metrics[r->metric_count++] = made;
    return STK_OK;
}

stk_status stk__result_add_measures(stk__result *r, stk_error *err)
{
    for (int m = 0; m < STK__MEASURES; m++) {
        const stk__metric row = stk__measure_metric((stk__measure)m);
        STK_TRY(stk__result_add_metric(r, row.name, row.unit, row.higher_is_better, NULL, err));
    }
    return STK_OK;
}

stk_status stk__result_add_variant(stk__result *r, const char *name, const char *command, size_t group,
                                   size_t *out_index, stk_error *err)
{
    if (stk__result_variant(r, name) != SIZE_MAX)
        return stk_error_set(err, STK_INVALID, "the variant '%s' is there twice", name);
    const size_t wanted = r->variant_count + 1;
    if ((wanted & (wanted - 1)) == 0 || !r->variants) {
        /* The array holds the next power of two. */
        stk__variant *grown = stk__realloc(r->variants, 2 * wanted * sizeof *grown);
        if (!grown)
            return stk__nomem(2 * wanted * sizeof *grown, err);
        r->variants = grown;
    }
    stk__variant made = {.name = stk__strdup(name), .command = stk__strdup(command), .group = group};
    made.values = stk__calloc(r->metric_count ? r->metric_count : 1, sizeof *made.values);
    if (!made.name || !made.command || !made.values) {
        variant_clear(&made, r->metric_count);
        return stk__nomem(strlen(name) + strlen(command), err);
    }
    if (out_index)
        *out_index = r->variant_count;
    r->variants[r->variant_count++] = made;
    return STK_OK;
}

stk_status stk__result_add_parameter(stk__result *r, size_t variant, const char *name, const char *value,
                                     stk_error *err)
{
    stk__variant *v = &r->variants[variant];
    stk__parameter *grown = stk__realloc(v->parameters, (v->parameter_count + 1) * sizeof *grown);
    if (!grown)
        return stk__nomem((v->parameter_count + 1) * sizeof *grown, err);
    v->parameters = grown;
    stk__parameter made = {stk__strdup(name), stk__strdup(value)};
    if (!made.name || !made.value) {
        stk__free(made.name);
        stk__free(made.value);
        return stk__nomem(strlen(name) + strlen(value), err);
    }
    v->parameters[v->parameter_count++] = made;
    return STK_OK;
}

static bool variant_grow(stk__variant *v, size_t metric_count)
{
    const size_t capacity = v->capacity ? 2 * v->capacity : 16;
    for (size_t m = 0; m < metric_count; m++) {
        double *grown = stk__realloc(v->values[m], capacity * sizeof *grown);
        if (!grown)
            return false;
        v->values[m] = grown;
    }
    int *codes = stk__realloc(v->exit_codes, capacity * sizeof *codes);
    if (!codes)
        return false;
    v->exit_codes = codes;
    v->capacity = capacity;
    return true;
}

stk_status stk__result_add_run(stk__result *r, size_t variant, const double *values, int exit_code, stk_error *err)
{
    stk__variant *v = &r->variants[variant];
    if (v->runs == v->capacity && !variant_grow(v, r->metric_count))
        return stk__nomem(2 * (v->capacity + 16) * sizeof(double), err);
    for (size_t m = 0; m < r->metric_count; m++)
        v->values[m][v->runs] = values[m];
    v->exit_codes[v->runs++] = exit_code;
    return STK_OK;
}

stk_status stk__result_note(stk__result *r, stk_error *err, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    /* Names are whole commands at times: as long as it takes. */
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    const size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *note = stk__calloc(size, 1);
    if (note)
        vsnprintf(note, size, format, again);
    va_end(again);
    if (!note || !stk__grow((void **)&r->notes, &r->note_capacity, r->note_count + 1, sizeof *r->notes)) {
        stk__free(note);
        return stk__nomem(size, err);
    }
    r->notes[r->note_count++] = note;
    return STK_OK;
}

void stk__variant_letters(size_t index, char out[8])
{
    char reversed[8];
    size_t n = 0;
    for (size_t left = index + 1; left && n < 7; left = (left - 1) / 26)
        reversed[n++] = (char)('A' + (left - 1) % 26);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = 0;
}

/* ---- names ---- */

/* The words of a command, between blanks. */
typedef struct words {
    const char **starts;
    size_t *sizes;
    size_t count;
} words;

static bool words_split(const char *text, words *out)
{
    size_t most = strlen(text) / 2 + 1;
    *out = (words){stk__calloc(most, sizeof *out->starts), stk__calloc(most, sizeof *out->sizes), 0};
    if (!out->starts || !out->sizes)
        return false;
    while (*(text += strspn(text, " \t\n"))) {
        out->starts[out->count] = text;
        out->sizes[out->count] = strcspn(text, " \t\n");
        text += out->sizes[out->count++];
    }
    return true;
}

static bool same_word(const words *a, size_t i, const words *b, size_t j)
{
    return a->sizes[i] == b->sizes[j] && memcmp(a->starts[i], b->starts[j], a->sizes[i]) == 0;
}

/* How many words all have in common at the front, and at the back of what is left. */
static void common_ends(const words *all, size_t count, size_t *out_front, size_t *out_back)
{
    size_t front = all[0].count, back;
    for (size_t k = 1; k < count; k++) {
        size_t same = 0;
        while (same < front && same < all[k].count && same_word(&all[0], same, &all[k], same))
            same++;
        front = same;
    }
    back = all[0].count - front;
    for (size_t k = 1; k < count; k++) {
        size_t same = 0;
        while (same < back && same < all[k].count - front &&
               same_word(&all[0], all[0].count - 1 - same, &all[k], all[k].count - 1 - same))
            same++;
        back = same;
    }
    *out_front = front;
    *out_back = back;
}

/* Do they differ in the value of one option? "threads 2" tells more than "2". */
static bool follows_option(const words *all, size_t count, size_t front, size_t back)
{
    if (!front || all[0].starts[front - 1][0] != '-')
        return false;
    for (size_t k = 0; k < count; k++) {
        if (all[k].count <= front + back || all[k].starts[front][0] == '-')
            return false;
    }
    return true;
}

static char *middle_name(const words *w, size_t front, size_t back)
{
    if (w->count <= front + back)
        return NULL;
    const char *start = w->starts[front];
    const size_t last = w->count - back - 1;
    const char *end = w->starts[last] + w->sizes[last];
    while (start < end && *start == '-')
        start++;
    return start < end ? stk__strndup(start, (size_t)(end - start)) : NULL;
}

static bool all_differ(char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!names[i] || !names[j] || strcmp(names[i], names[j]) == 0)
                return false;
        }
    }
    return count > 0 && names[0];
}

/* Is it the name of an earlier command, or a command itself other than the one it is to name? */
static bool is_taken(const char *name, const char *const *commands, char *const *names, size_t count, size_t named)
{
    for (size_t i = 0; i < named; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    for (size_t i = named + 1; i < count; i++) {
        if (strcmp(commands[i], name) == 0 && strcmp(commands[named], name) != 0)
            return true;
    }
    return false;
}

/* The commands themselves; those that are the same get a number: "true", "true (2)". */
static bool names_from_commands(const char *const *commands, size_t count, char **names)
{
    for (size_t i = 0; i < count; i++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_puts(&t, commands[i]);
        for (size_t k = 2; !t.failed && is_taken(t.data, commands, names, count, i); k++) {
            stk__text_reset(&t);
            stk__text_printf(&t, "%s (%zu)", commands[i], k);
        }
        if (t.failed) {
            stk__text_clear(&t);
            return false;
        }
        names[i] = t.data;
    }
    return true;
}

static void names_clear(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stk__free(names[i]);
        names[i] = NULL;
    }
}

stk_status stk__variant_names_unique(const char *const *names, size_t count, char **out_names, stk_error *err)
{
    memset(out_names, 0, count * sizeof *out_names);
    if (names_from_commands(names, count, out_names))
        return STK_OK;
    names_clear(out_names, count);
    return stk__nomem(count * sizeof *out_names, err);
}

stk_status stk__variant_names(const char *const *commands, size_t count, char **out_names, stk_error *err)
{
    words *all = stk__calloc(count ? count : 1, sizeof *all);
    bool ok = all != NULL;
    memset(out_names, 0, count * sizeof *out_names);
    for (size_t i = 0; i < count && ok; i++)
        ok = words_split(commands[i], &all[i]);
    if (ok && count > 1) {
        size_t front, back;
        common_ends(all, count, &front, &back);
        front -= follows_option(all, count, front, back);
        for (size_t i = 0; i < count; i++)
            out_names[i] = middle_name(&all[i], front, back);
    }
    if (ok && !all_differ(out_names, count)) {
        names_clear(out_names, count);
        ok = names_from_commands(commands, count, out_names);
    }
    for (size_t i = 0; all && i < count; i++) {
        stk__free(all[i].starts);
        stk__free(all[i].sizes);
    }
    stk__free(all);
    if (ok)
        return STK_OK;
    names_clear(out_names, count);
    return stk__nomem(count * sizeof *all, err);
}

size_t stk__variant_metric(const stk__result *r, size_t variant)
{
    const size_t own = r->variants[variant].metric;
    return own ? own - 1 : r->primary;
}
