/* The members of tar samples, by extension, for `stoker inspect`. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "formats/extension.h"
#include "formats/tar.h"
#include "inspect.h"

#include "base/banned.h"

enum { MEMBERS_MAX = 1000, NUMBER_MAX = 63 };

static bool same_extension(const inspect_member *m, stk_bytes ext)
{
    if (m->ext_size != (size_t)ext.size)
        return false;
    for (size_t i = 0; i < m->ext_size; i++)
        if (m->ext[i] != stk__lower_ascii((char)ext.data[i]))
            return false;
    return true;
}

/* The entry for an extension, a new one when there is none; NULL: not kept. */
static stk_status find_member(inspect_members *m, stk_bytes ext, inspect_member **out, stk_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < m->count; i++) {
        if (same_extension(&m->items[i], ext)) {
            *out = &m->items[i];
            return STK_OK;
        }
    }
    m->too_many = m->too_many || m->count == MEMBERS_MAX;
    if (m->too_many)
        return STK_OK;
    char *copy = stk__strndup((const char *)ext.data, (size_t)ext.size);
    if (!copy || !stk__grow((void **)&m->items, &m->capacity, m->count + 1, sizeof *m->items)) {
        stk__free(copy);
        return stk__nomem((size_t)ext.size, err);
    }
    for (size_t i = 0; i < (size_t)ext.size; i++)
        copy[i] = stk__lower_ascii(copy[i]);
    m->items[m->count] = (inspect_member){
        .ext = copy, .ext_size = (size_t)ext.size, .min_bytes = INT64_MAX, .integers = true, .numbers = true};
    *out = &m->items[m->count++];
    return STK_OK;
}

/* Whether the member is a number as text. */
static void look_at_number(inspect_member *x, stk_bytes data)
{
    char text[NUMBER_MAX + 1], *end;
    const uint8_t *p = data.data, *last = p + data.size;
    int64_t integer;
    while (last > p && (last[-1] == '\n' || last[-1] == '\r' || last[-1] == ' '))
        last--;
    const size_t size = (size_t)(last - p);
    const bool fits = size > 0 && size <= NUMBER_MAX && !memchr(p, 0, size);
    if (fits)
        memcpy(text, p, size);
    text[fits ? size : 0] = 0;
    x->integers = x->integers && fits && stk__parse_int64(text, &integer);
    x->numbers = x->numbers && fits && (stk__strtod(text, &end), end == text + size);
}

stk_status cli_members_add(inspect_members *m, stk_bytes record, stk_error *err)
{
    stk__tar_reader reader = {record.data, (size_t)record.size};
    stk__tar_member member;
    stk_bytes data;
    stk_status status;
    while ((status = stk__tar_next(&reader, &member, &data, err)) == STK_OK) {
        inspect_member *x;
        if (!member.key.size)
            continue;
        STK_TRY(find_member(m, member.ext, &x, err));
        if (!x)
            continue;
        x->present++;
        x->min_bytes = STK_MIN(x->min_bytes, data.size);
        x->max_bytes = STK_MAX(x->max_bytes, data.size);
        look_at_number(x, data);
    }
    m->samples++;
    return status == STK_END ? STK_OK : status;
}

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const inspect_member *)a)->ext, ((const inspect_member *)b)->ext);
}

void cli_members_sort(inspect_members *m)
{
    if (m->count)
        qsort(m->items, m->count, sizeof *m->items, compare_members);
}

void cli_members_clear(inspect_members *m)
{
    for (size_t i = 0; i < m->count; i++)
        stk__free(m->items[i].ext);
    stk__free(m->items);
    *m = (inspect_members){0};
}

const char *cli_member_type(const inspect_member *x)
{
    return x->integers ? "int64" : x->numbers ? "float32" : "bytes";
}

static bool is_picture(const inspect_member *x)
{
    return stk__extension_rank(STK__PICTURE_EXTENSIONS, x->ext, x->ext_size) >= 0;
}

/* The extension as a field's name: other characters become underscores. Labels are called so, unless a member is. */
static void put_name(stk__text *t, const inspect_members *m, const inspect_member *x)
{
    static const char *const taken[] = {"image", "key", "only", "paths", "true", "false"};
    bool has_label = false;
    for (size_t i = 0; i < m->count; i++)
        has_label = has_label || strcmp(m->items[i].ext, "label") == 0;
    if (strcmp(x->ext, "cls") == 0 && !has_label) {
        stk__text_puts(t, "label");
        return;
    }
    if (x->ext[0] >= '0' && x->ext[0] <= '9')
        stk__text_putc(t, '_');
    for (size_t i = 0; i < x->ext_size; i++) {
        const char c = x->ext[i];
        const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        stk__text_putc(t, good ? c : '_');
    }
    for (size_t i = 0; i < STK_COUNT(taken); i++)
        if (strcmp(x->ext, taken[i]) == 0)
            stk__text_putc(t, '_');
}

/* One field for all kinds of pictures; gives how many there are. */
static int64_t propose_pictures(const inspect_members *m, inspect_proposal *p)
{
    int64_t present = 0;
    stk__text type = STK__TEXT_INIT;
    stk__text_puts(&type, "bytes(from=\"");
    for (size_t i = 0; i < m->count; i++) {
        if (!is_picture(&m->items[i]))
            continue;
        stk__text_printf(&type, "%s%s", present ? ";" : "", m->items[i].ext);
        present += m->items[i].present;
    }
    stk__text_printf(&type, "\"%s)", present < m->samples ? ", default=\"\"" : "");
    if (type.failed)
        p->failed = true;
    else if (present)
        cli_proposal_add(p, "image", type.data);
    stk__text_clear(&type);
    return present;
}

static void propose_member(const inspect_members *m, const inspect_member *x, inspect_proposal *p)
{
    const char *kind = cli_member_type(x);
    stk__text name = STK__TEXT_INIT, type = STK__TEXT_INIT;
    put_name(&name, m, x);
    while (!name.failed && cli_proposal_has(p, name.data))
        stk__text_putc(&name, '_');
    stk__text_printf(&type, "%s(from=", kind);
    stk__text_quote(&type, x->ext);
    if (x->present < m->samples)
        stk__text_printf(&type, ", default=%s", strcmp(kind, "bytes") == 0 ? "\"\"" : "0");
    stk__text_putc(&type, ')');
    if (name.failed || type.failed)
        p->failed = true;
    else
        cli_proposal_add(p, name.data, type.data);
    stk__text_clear(&name);
    stk__text_clear(&type);
}

/* Members that some samples do not have; `pictures`: how many samples have one of these. */
static void say_missing(const inspect_members *m, int64_t pictures, inspect_proposal *p)
{
    stk__text line = STK__TEXT_INIT;
    size_t count = 0;
    if (pictures && pictures < m->samples)
        stk__text_printf(&line, "%spictures (in %lld of %lld)", count++ ? ", " : "", (long long)pictures,
                         (long long)m->samples);
    for (size_t i = 0; i < m->count; i++) {
        const inspect_member *x = &m->items[i];
        if (!is_picture(x) && x->ext_size && x->present < m->samples)
            stk__text_printf(&line, "%s%s (in %lld of %lld)", count++ ? ", " : "", x->ext, (long long)x->present,
                             (long long)m->samples);
    }
    if (!count)
        return;
    stk__text_printf(&line, "%s missing in some samples, which get the default", count > 1 ? " are" : " is");
    cli_proposal_say(p, &p->notes, &line);
}

void cli_members_propose(const inspect_members *m, inspect_proposal *p)
{
    const int64_t pictures = propose_pictures(m, p);
    for (size_t i = 0; i < m->count; i++) {
        const inspect_member *x = &m->items[i];
        if (x->ext_size && !is_picture(x))
            propose_member(m, x, p);
        if (x->ext_size)
            continue;
        stk__text line = STK__TEXT_INIT;
        stk__text_printf(&line, "members without an extension (in %lld of %lld samples), by which webdataset knows them",
                         (long long)x->present, (long long)m->samples);
        cli_proposal_say(p, &p->left_out, &line);
    }
    say_missing(m, pictures, p);
}
