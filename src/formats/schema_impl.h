/* What the reader and the writer of schema files share: the words in them. */
#ifndef STK_FORMATS_SCHEMA_IMPL_H
#define STK_FORMATS_SCHEMA_IMPL_H

#include "formats/schema.h"

/* By STK__H5_KIND_...; NULL for kinds that the dtype tells. */
#define STK__SCHEMA_KINDS (STK__H5_KIND_VLEN + 1)
extern const char *const stk__schema_kind_names[STK__SCHEMA_KINDS];
/* By STK__H5_PAD_... */
#define STK__SCHEMA_PADS (STK__H5_PAD_SPACE + 1)
extern const char *const stk__schema_pad_names[STK__SCHEMA_PADS];

static inline bool stk__schema_is_real(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
}

#endif
