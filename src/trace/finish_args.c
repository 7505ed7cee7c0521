/* Takes out sets of args that no slice has any more: those of ends went to their begins, or had none. */
#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

enum { TRIM_ROWS = 1 << 20 };

/* Moves the sets that have a mark to the front; the mark of a set becomes its new first row. */
static void close_up(stk__store *store, stk__args *a, uint32_t *place)
{
    uint32_t to = 1;
    for (uint32_t row = 1; row < a->count;) {
        const bool kept = place[row] != 0;
        if (kept)
            place[row] = to;
        bool last = false;
        for (; row < a->count && !last; row++) {
            last = a->type[row] & STK__ARG_LAST;
            if (row % TRIM_ROWS == 0)
                stk__store_trim(store);
            if (!kept)
                continue;
            a->key[to] = a->key[row];
            a->type[to] = a->type[row];
            a->value[to++] = a->value[row];
        }
    }
    a->count = to;
}

void stk__finish_args(stk__builder *b)
{
    stk__slices *s = &b->trace->slices;
    stk__args *a = &b->trace->args;
    if (b->status || !b->loose_args)
        return;
    uint32_t *place = stk__calloc(a->count, sizeof *place);
    if (!place) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem(a->count * sizeof *place, &err);
        stk__builder_fail(b, &err);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        place[s->args[i]] = 1;
    place[0] = 0;
    close_up(b->trace->store, a, place);
    for (size_t i = 0; i < s->count; i++)
        s->args[i] = place[s->args[i]];
    b->first_arg = (uint32_t)a->count;
    stk__free(place);
}
