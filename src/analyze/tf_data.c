/* Iterators of tf.data: TensorFlow's args, and what is a root. */
#include "analyze/tf_data.h"

#include <string.h>

#include "analyze/classify.h"

#include "base/banned.h"

static const char ITERATOR[] = "Iterator::", OWN_THREADS[] = "tf_data_";
static const char *const ROOTS[] = {"Iterator::Root", "Iterator::Model"};

stk__tf_data stk__tf_data_of(const stk__trace *t)
{
    stk__tf_data x = {
        .trace = t,
        .id = stk__trace_find(t, "id", strlen("id")),
        .parent_id = stk__trace_find(t, "parent_id", strlen("parent_id")),
        .long_name = stk__trace_find(t, "long_name", strlen("long_name")),
    };
    for (size_t i = 0; i < STK_COUNT(ROOTS); i++)
        x.has_root = x.has_root || stk__trace_find(t, ROOTS[i], strlen(ROOTS[i])) != STK__NONE;
    return x;
}

bool stk__is_iterator(const char *name, size_t size)
{
    return size > strlen(ITERATOR) && memcmp(name, ITERATOR, strlen(ITERATOR)) == 0;
}

static stk__iterator_id id_of(const stk__trace *t, size_t row)
{
    const unsigned type = t->args.type[row] & STK__ARG_TYPE;
    const stk__arg_value value = t->args.value[row];
    if (type == STK__ARG_INT)
        return (stk__iterator_id){(uint64_t)value.integer, value.integer != 0};
    if (type != STK__ARG_STRING && type != STK__ARG_JSON)
        return (stk__iterator_id){0};
    const char *text = stk__trace_str(t, (stk__string)value.string);
    return (stk__iterator_id){value.string, text[0] && strcmp(text, "0") != 0 ? 2 : 0};
}

stk__iterator stk__iterator_of(const stk__tf_data *x, size_t slice)
{
    const stk__trace *t = x->trace;
    stk__iterator it = {.path = t->slices.name[slice]};
    size_t row = t->slices.args[slice];
    for (; row && row < t->args.count; row++) {
        const stk__string key = t->args.key[row];
        if (key == x->id)
            it.id = id_of(t, row);
        else if (key == x->parent_id)
            it.parent = id_of(t, row);
        else if (key == x->long_name && (t->args.type[row] & STK__ARG_TYPE) == STK__ARG_STRING) {
            size_t size;
            const char *path = stk__trace_text(t, (stk__string)t->args.value[row].string, &size);
            if (stk__is_iterator(path, size))
                it.path = (stk__string)t->args.value[row].string;
        }
        if (t->args.type[row] & STK__ARG_LAST)
            break;
    }
    return it;
}

bool stk__iterator_is_root(const stk__tf_data *x, size_t slice)
{
    const stk__iterator it = stk__iterator_of(x, slice);
    const char *path = stk__trace_str(x->trace, it.path);
    if (it.parent.kind || strstr(path + strlen(ITERATOR), "::"))
        return false;
    if (it.id.kind || !x->has_root)
        return true;
    /* Short names without args: only one that says so is a root. */
    for (size_t i = 0; i < STK_COUNT(ROOTS); i++)
        if (strcmp(path, ROOTS[i]) == 0)
            return true;
    return false;
}

bool stk__iterator_is_wait(const stk__tf_data *x, size_t slice)
{
    size_t size;
    const char *thread = stk__track_own_name(x->trace, x->trace->slices.track[slice], &size);
    return strncmp(thread, OWN_THREADS, strlen(OWN_THREADS)) != 0 && stk__iterator_is_root(x, slice);
}
