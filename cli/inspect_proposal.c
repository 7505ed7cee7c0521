/* How to read what `stoker inspect` found: fields of an op, what they leave out and why, and what to know about them. */
#include <string.h>

#include "base/mem.h"
#include "inspect.h"

#include "base/banned.h"

enum { LABEL_WIDTH = 13 };

void cli_proposal_init(inspect_proposal *p, const char *op, const char *path)
{
    *p = (inspect_proposal){.op = op, .path = path};
}

static void clear_lines(inspect_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        stk__free(lines->items[i]);
    stk__free(lines->items);
}

void cli_proposal_clear(inspect_proposal *p)
{
    for (size_t i = 0; i < p->count; i++) {
        stk__free(p->items[i].name);
        stk__free(p->items[i].value);
    }
    stk__free(p->items);
    clear_lines(&p->left_out);
    clear_lines(&p->notes);
    *p = (inspect_proposal){0};
}

bool cli_proposal_has(const inspect_proposal *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->items[i].name, name) == 0)
            return true;
    return false;
}

void cli_proposal_add(inspect_proposal *p, const char *name, const char *value)
{
    inspect_field field = {stk__strdup(name), stk__strdup(value)};
    if (field.name && field.value && stk__grow((void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items)) {
        p->items[p->count++] = field;
        return;
    }
    stk__free(field.name);
    stk__free(field.value);
    p->failed = true;
}

void cli_proposal_say(inspect_proposal *p, inspect_lines *lines, stk__text *line)
{
    char *copy = line->failed || !line->data ? NULL : stk__strdup(line->data);
    if (copy && stk__grow((void **)&lines->items, &lines->capacity, lines->count + 1, sizeof *lines->items)) {
        lines->items[lines->count++] = copy;
    } else {
        stk__free(copy);
        p->failed = true;
    }
    stk__text_clear(line);
}

/* "parse(x=int64)", "hdf5("a.h5", x="/x")"; nothing when there is nothing to write. */
static void put_call(stk__text *t, const inspect_proposal *p)
{
    if (!p->op || (!p->path && !p->count))
        return;
    stk__text_printf(t, "%s(", p->op);
    if (p->path)
        stk__text_quote(t, p->path);
    for (size_t i = 0; i < p->count; i++) {
        stk__text_printf(t, "%s%s=", i || p->path ? ", " : "", p->items[i].name);
        if (p->strings)
            stk__text_quote(t, p->items[i].value);
        else
            stk__text_puts(t, p->items[i].value);
    }
    stk__text_putc(t, ')');
    t->failed = t->failed || p->failed;
}

static void put_lines(stk__text *t, const char *label, const inspect_lines *lines, int64_t limit)
{
    const size_t shown = limit && (uint64_t)limit < lines->count ? (size_t)limit : lines->count;
    for (size_t i = 0; i < shown; i++) {
        stk__text line = STK__TEXT_INIT;
        cli_text_escaped(&line, lines->items[i]);
        stk__text_printf(t, "  %-*s", LABEL_WIDTH, label);
        cli_wrap(t, line.data ? line.data : "", LABEL_WIDTH + 2, LABEL_WIDTH + 2);
        stk__text_clear(&line);
    }
    if (shown < lines->count)
        stk__text_printf(t, "  %-*sand %zu more; --limit 0 lists all\n", LABEL_WIDTH, label, lines->count - shown);
}

void cli_proposal_put(stk__text *t, const inspect_proposal *p, int64_t limit)
{
    stk__text call = STK__TEXT_INIT;
    put_call(&call, p);
    if (call.length) {
        stk__text_printf(t, "  %-*s", LABEL_WIDTH, "to read it");
        cli_wrap(t, call.data, LABEL_WIDTH + 2, LABEL_WIDTH + 3 + strlen(p->op));
    }
    stk__text_clear(&call);
    put_lines(t, "left out", &p->left_out, limit);
    put_lines(t, "note", &p->notes, limit);
    t->failed = t->failed || p->failed;
}

static void json_lines(stk__text *t, const char *key, const inspect_lines *lines)
{
    stk__text_printf(t, ",\"%s\":[", key);
    for (size_t i = 0; i < lines->count; i++) {
        stk__text_puts(t, i ? "," : "");
        stk__text_json_str(t, lines->items[i]);
    }
    stk__text_putc(t, ']');
}

void cli_proposal_json(stk__text *t, const inspect_proposal *p)
{
    stk__text_printf(t, ",\"%s\":", p->op);
    stk__text call = STK__TEXT_INIT;
    put_call(&call, p);
    stk__text_json_str(t, call.data ? call.data : "");
    stk__text_clear(&call);
    stk__text_puts(t, ",\"fields\":[");
    for (size_t i = 0; i < p->count; i++) {
        stk__text_printf(t, "%s{\"name\":", i ? "," : "");
        stk__text_json_str(t, p->items[i].name);
        stk__text_puts(t, ",\"value\":");
        stk__text_json_str(t, p->items[i].value);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
    json_lines(t, "left_out", &p->left_out);
    json_lines(t, "notes", &p->notes);
    t->failed = t->failed || p->failed;
}

void cli_proposal_json_page(stk__text *t, stk__text *page)
{
    stk__text_puts(t, ",\"page\":");
    stk__text_json_str(t, page->data ? page->data : "");
    t->failed = t->failed || page->failed;
    stk__text_clear(page);
}
