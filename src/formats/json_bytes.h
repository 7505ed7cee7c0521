/* Bytes in JSON: as a string where they are UTF-8 without NUL, else as {"base64": "..."}. */
#ifndef STK_FORMATS_JSON_BYTES_H
#define STK_FORMATS_JSON_BYTES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "base/str.h"

void stk__json_put_bytes(stk__text *t, const uint8_t *data, size_t size);
void stk__json_put_base64(stk__text *t, const uint8_t *data, size_t size);

/* Both give memory of the caller's, NUL-terminated, of at most `max` bytes. INVALID when it is neither, NOMEM. */
stk_status stk__json_read_bytes(const json_t *value, size_t max, uint8_t **out, size_t *out_size);
stk_status stk__json_read_base64(const json_t *value, size_t max, uint8_t **out, size_t *out_size);

#endif
