/* For tests of bounds on texts: a long text made of one piece. */
#ifndef STK_TESTS_REPEATED_H
#define STK_TESTS_REPEATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

/* To be freed with stk__free. */
static char *repeated(const char *head, const char *piece, size_t times, const char *tail)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, head);
    for (size_t i = 0; i < times; i++)
        stk__text_puts(&t, piece);
    stk__text_puts(&t, tail);
    assert_false(t.failed);
    return t.data;
}

#endif
