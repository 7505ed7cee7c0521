/* Texts of rows, in one piece of memory. */
#include "trace/labels.h"

#include "base/mem.h"

#include "base/banned.h"

bool stk__labels_make(stk__labels *l, size_t count, stk__label_function *label, const void *arg)
{
    l->at = stk__calloc(count + 1, sizeof *l->at);
    if (!l->at)
        return false;
    for (size_t i = 0; i < count; i++) {
        label(arg, (uint32_t)i, &l->bytes);
        l->at[i + 1] = l->bytes.length;
    }
    l->count = count;
    return !l->bytes.failed;
}

void stk__labels_clear(stk__labels *l)
{
    stk__free(l->at);
    stk__text_clear(&l->bytes);
    *l = (stk__labels){0};
}
