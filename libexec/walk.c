/* Finding the datasets of a file: every object once, along hard links alone. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

/* Groups and datasets together. */
#define MAX_OBJECTS 1000000
#define MAX_SKIPPED 1000

typedef struct search {
    hid_t file;
    stk__h5_names *names; /* datasets found */
    stk__h5_names groups; /* to be looked into, from `next` on */
    size_t next;
    const char *group; /* that is being looked into */
    haddr_t *met;      /* addresses of objects, a table with open places of HADDR_UNDEF */
    size_t met_count, met_capacity;
    stk__text *skipped;
    size_t skipped_count;
    bool full, nomem;
} search;

void stk__h5_put_skipped(stk__text *t, const char *path, const char *reason)
{
    stk__text line = STK__TEXT_INIT;
    stk__text_printf(&line, "%s: %s", path, reason);
    if (!line.failed)
        stk__wire_put_bytes(t, STK__H5_FILE_SKIPPED, line.data, STK_MIN(line.length, (size_t)STK__H5_MAX_NAME));
    stk__text_clear(&line);
}

static void skip(search *s, const char *path, const char *reason)
{
    if (s->skipped_count++ < MAX_SKIPPED)
        stk__h5_put_skipped(s->skipped, path, reason);
}

static size_t met_slot(const haddr_t *met, size_t capacity, haddr_t address)
{
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
    while (met[i] != HADDR_UNDEF && met[i] != address)
        i = (i + 1) & (capacity - 1);
    return i;
}

static bool met_grow(search *s)
{
    const size_t capacity = s->met_capacity ? 2 * s->met_capacity : 1024;
    haddr_t *met = stk__alloc(capacity * sizeof *met);
    if (!met)
        return false;
    for (size_t i = 0; i < capacity; i++)
        met[i] = HADDR_UNDEF;
    for (size_t i = 0; i < s->met_capacity; i++) {
        if (s->met[i] != HADDR_UNDEF)
            met[met_slot(met, capacity, s->met[i])] = s->met[i];
    }
    stk__free(s->met);
    s->met = met;
    s->met_capacity = capacity;
    return true;
}

/* True the first time that an object is met. */
static bool is_new(search *s, haddr_t address)
{
    if (s->met_count * 2 >= s->met_capacity && !met_grow(s)) {
        s->nomem = true;
        return false;
    }
    const size_t i = met_slot(s->met, s->met_capacity, address);
    if (s->met[i] == address)
        return false;
    s->met[i] = address;
    s->met_count++;
    return true;
}

/* Takes over `path`, which may be NULL for want of memory. */
static void add_name(search *s, stk__h5_names *names, char *path)
{
    if (path && stk__grow((void **)&names->items, &names->capacity, names->count + 1, sizeof *names->items)) {
        names->items[names->count++] = path;
        return;
    }
    stk__free(path);
    s->nomem = true;
}

static void look_at(search *s, hid_t group, const char *name, const char *path)
{
    char reason[300];
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) {
        stk__h5_reason(reason, sizeof reason);
        skip(s, path, reason[0] ? reason : "cannot be opened");
        return;
    }
    const H5I_type_t type = H5Iget_type(object);
    H5Oclose(object);
    if (type == H5I_GROUP)
        add_name(s, &s->groups, stk__strdup(path));
    else if (type == H5I_DATASET && s->names->count < STK__H5_MAX_DATASETS)
        add_name(s, s->names, stk__strdup(path));
    else if (type == H5I_DATASET)
        s->full = true;
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    search *s = user;
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s/%s", s->group, name);
    if (path.failed)
        s->nomem = true;
    else if (path.length > STK__H5_MAX_NAME)
        skip(s, s->group, "a name in it is too long");
    else if (info->type == H5L_TYPE_EXTERNAL)
        skip(s, path.data, "external link, not followed");
    else if (info->type == H5L_TYPE_HARD && is_new(s, info->u.address))
        look_at(s, group, name, path.data);
    stk__text_clear(&path);
    if (s->met_count > MAX_OBJECTS)
        s->full = true;
    return s->full || s->nomem ? 1 : 0;
}

static void look_into(search *s, const char *path)
{
    char reason[300];
    s->group = path;
    H5Eclear2(H5E_DEFAULT);
    const hid_t group = H5Gopen2(s->file, path[0] ? path : "/", H5P_DEFAULT);
    if (group < 0 || H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, visit_link, s) < 0) {
        stk__h5_reason(reason, sizeof reason);
        skip(s, path[0] ? path : "/", reason[0] ? reason : "group that cannot be read");
    }
    if (group >= 0)
        H5Gclose(group);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

stk_status stk__h5_names_find(stk__h5_names *names, hid_t file, stk__text *skipped, stk_error *err)
{
    search s = {.file = file, .names = names, .skipped = skipped};
    H5O_info_t info;
    if (H5Oget_info_by_name2(file, "/", &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0)
        is_new(&s, info.addr);
    add_name(&s, &s.groups, stk__strdup(""));
    while (s.next < s.groups.count && !s.full && !s.nomem)
        look_into(&s, s.groups.items[s.next++]);
    if (s.full)
        skip(&s, "/", "more objects than are looked at");
    if (names->count)
        qsort(names->items, names->count, sizeof *names->items, compare_names);
    stk__h5_names_clear(&s.groups);
    stk__free(s.met);
    return s.nomem ? stk__nomem(0, err) : STK_OK;
}

void stk__h5_names_clear(stk__h5_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        stk__free(names->items[i]);
    stk__free(names->items);
    *names = (stk__h5_names){0};
}
