/* Registry: built-in ops handed in at start, plug-ins added later. */
#include "engine/registry.h"

#include <dlfcn.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

#define MAX_PLUGINS 64

struct stk_registry {
    const stk_op **ops; /* sorted by name */
    size_t count, capacity;
    void *plugins[MAX_PLUGINS];
    size_t plugin_count;
};

static stk_status add_op(stk_registry *r, const stk_op *op, stk_error *err)
{
    if (!stk__grow((void **)&r->ops, &r->capacity, r->count + 1, sizeof *r->ops))
        return stk__nomem(r->count * sizeof *r->ops, err);
    size_t at = r->count;
    while (at > 0 && strcmp(r->ops[at - 1]->name, op->name) > 0) {
        r->ops[at] = r->ops[at - 1];
        at--;
    }
    r->ops[at] = op;
    r->count++;
    return STK_OK;
}

stk_status stk__registry_over(const stk_op *const *ops, stk_registry **out, stk_error *err)
{
    stk_registry *r = stk__calloc(1, sizeof *r);
    if (!r)
        return stk__nomem(sizeof *r, err);
    for (; *ops; ops++) {
        const stk_status status = add_op(r, *ops, err);
        if (status != STK_OK) {
            stk_registry_free(r);
            return status;
        }
    }
    *out = r;
    return STK_OK;
}

/* A plug-in is code we run anyway; these checks catch honest mistakes. */
static stk_status check_op(const stk_registry *r, const stk_op *op, stk_error *err)
{
    if (op->abi != STK_OP_ABI)
        return stk_error_set(err, STK_INVALID, "op was built for ABI %u, wanted %u", op->abi, STK_OP_ABI);
    if (!op->name || !*op->name || !op->summary)
        return stk_error_set(err, STK_INVALID, "an op has no name or no summary");
    if (op->role > STK_ROLE_SINK)
        return stk_error_set(err, STK_INVALID, "op '%s' has role %d, wanted sample, source or sink", op->name, op->role);
    if (op->role == STK_ROLE_SAMPLE && !op->process)
        return stk_error_set(err, STK_INVALID, "op '%s' has no process function", op->name);
    if (op->role == STK_ROLE_SOURCE && (!op->count || (!op->process && !op->pull)))
        return stk_error_set(err, STK_INVALID, "source '%s' needs count, and process or pull", op->name);
    if (op->role == STK_ROLE_SINK && !op->consume)
        return stk_error_set(err, STK_INVALID, "sink '%s' has no consume function", op->name);
    if (stk_registry_find(r, op->name))
        return stk_error_set(err, STK_INVALID, "an op named '%s' exists already", op->name);
    return STK_OK;
}

static stk_status add_plugin(stk_registry *r, void *handle, stk_error *err)
{
    /* POSIX asks for this detour around the cast from object to function pointer. */
    stk_plugin_function function;
    void *symbol = dlsym(handle, "stk_plugin_ops");
    memcpy(&function, &symbol, sizeof function);
    if (!symbol)
        return stk_error_set(err, STK_INVALID, "is no plug-in: it has no function stk_plugin_ops");
    const stk_op *const *ops = function(STK_OP_ABI);
    if (!ops)
        return stk_error_set(err, STK_INVALID, "was built for another ABI than %u", STK_OP_ABI);
    for (; *ops; ops++) {
        STK_TRY(check_op(r, *ops, err));
        STK_TRY(add_op(r, *ops, err));
    }
    return STK_OK;
}

/* A name that comes twice in the list itself. */
static stk_status check_list(const stk_op *const *ops, size_t count, stk_error *err)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(ops[i]->name, ops[k]->name) == 0)
                return stk_error_set(err, STK_INVALID, "the list has two ops named '%s'", ops[i]->name);
    return STK_OK;
}

stk_status stk_registry_add(stk_registry *registry, const stk_op *const *ops, stk_error *err)
{
    size_t count = 0;
    for (; ops[count]; count++)
        STK_TRY(check_op(registry, ops[count], err));
    STK_TRY(check_list(ops, count, err));
    /* All or none of them: room first. */
    if (!stk__grow((void **)&registry->ops, &registry->capacity, registry->count + count, sizeof *registry->ops))
        return stk__nomem((registry->count + count) * sizeof *registry->ops, err);
    for (size_t i = 0; i < count; i++)
        STK_TRY(add_op(registry, ops[i], err));
    return STK_OK;
}

stk_status stk_registry_load(stk_registry *registry, const char *path, stk_error *err)
{
    stk_status status;
    if (registry->plugin_count == MAX_PLUGINS)
        return stk_error_set(err, STK_INVALID, "more than %d plug-ins", MAX_PLUGINS);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        status = stk_error_set(err, STK_IO, "cannot load: %s", dlerror());
    } else {
        /* Kept open even on failure: ops added before it belong to it. */
        registry->plugins[registry->plugin_count++] = handle;
        status = add_plugin(registry, handle, err);
    }
    if (status != STK_OK && err) {
        stk__text t;
        stk__text_fixed(&t, err->file, sizeof err->file);
        stk__text_puts(&t, path);
    }
    return status;
}

void stk_registry_free(stk_registry *registry)
{
    if (!registry)
        return;
    for (size_t i = 0; i < registry->plugin_count; i++)
        dlclose(registry->plugins[i]);
    stk__free(registry->ops);
    stk__free(registry);
}

size_t stk_registry_count(const stk_registry *registry)
{
    return registry->count;
}

const stk_op *stk_registry_op(const stk_registry *registry, size_t i)
{
    return i < registry->count ? registry->ops[i] : NULL;
}

const stk_op *stk_registry_find(const stk_registry *registry, const char *name)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->ops[i]->name, name) == 0)
            return registry->ops[i];
    return NULL;
}

const char *stk_registry_nearest(const stk_registry *registry, const char *name)
{
    const char *best = NULL;
    const char **names = stk__alloc((registry->count + 1) * sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < registry->count; i++)
        names[i] = registry->ops[i]->name;
    best = stk__nearest(name, names, registry->count);
    stk__free(names);
    return best;
}
