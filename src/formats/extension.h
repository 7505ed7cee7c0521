/* File name extensions, in lists such as "jpg;jpeg;png". */
#ifndef STK_FORMATS_EXTENSION_H
#define STK_FORMATS_EXTENSION_H

#include <stddef.h>
#include <string.h>

/* What pictures are usually called. */
#define STK__PICTURE_EXTENSIONS "jpg;jpeg;png;webp;gif;bmp"

static inline char stk__lower_ascii(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The place of an extension in the list, or -1. Upper and lower case are the same. */
static inline int stk__extension_rank(const char *list, const char *ext, size_t size)
{
    for (int rank = 0;; rank++) {
        const size_t n = strcspn(list, ";");
        size_t same = 0;
        while (n == size && same < n && stk__lower_ascii(list[same]) == stk__lower_ascii(ext[same]))
            same++;
        if (n == size && same == n)
            return rank;
        if (!list[n])
            return -1;
        list += n + 1;
    }
}

#endif
