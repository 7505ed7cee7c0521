/* Bytes in JSON, written and read. */
#include "formats/json_bytes.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

void stk__json_put_base64(stk__text *t, const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    stk__text_putc(t, '"');
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t x = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                           (left > 2 ? (uint32_t)data[i + 2] : 0);
        const char four[4] = {digits[x >> 18], digits[x >> 12 & 63], left > 1 ? digits[x >> 6 & 63] : '=',
                              left > 2 ? digits[x & 63] : '='};
        stk__text_write(t, four, 4);
    }
    stk__text_putc(t, '"');
}

void stk__json_put_bytes(stk__text *t, const uint8_t *data, size_t size)
{
    bool plain = true;
    for (size_t i = 0, n; plain && i < size; i += n) {
        n = stk__utf8_length(data + i, size - i);
        plain = n > 0 && data[i] != 0;
    }
    if (plain) {
        stk__text_json(t, (const char *)data, size);
        return;
    }
    stk__text_puts(t, "{\"base64\": ");
    stk__json_put_base64(t, data, size);
    stk__text_putc(t, '}');
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64 of at most `max` bytes; NUL-terminated. INVALID when it is none. */
stk_status stk__json_read_base64(const json_t *value, size_t max, uint8_t **out, size_t *out_size)
{
    const char *text = json_string_value(value);
    size_t length = text ? json_string_length(value) : 1;
    if (length % 4 || length / 4 * 3 > max + 2)
        return STK_INVALID;
    uint8_t *data = stk__alloc(length / 4 * 3 + 1);
    if (!data)
        return STK_NOMEM;
    size_t size = 0;
    bool good = true;
    for (size_t i = 0; good && i < length; i += 4) {
        const bool last = i + 4 == length;
        const int pads = last && text[i + 3] == '=' ? 1 + (text[i + 2] == '=') : 0;
        uint32_t x = 0;
        for (int k = 0; k < 4; k++) {
            const int digit = k < 4 - pads ? digit_value(text[i + (size_t)k]) : 0;
            good = good && digit >= 0;
            x = x << 6 | (uint32_t)(digit & 63);
        }
        data[size] = (uint8_t)(x >> 16);
        data[size + 1] = (uint8_t)(x >> 8);
        data[size + 2] = (uint8_t)x;
        size += 3 - (size_t)pads;
    }
    if (!good || size > max) {
        stk__free(data);
        return STK_INVALID;
    }
    data[size] = 0;
    *out = data;
    *out_size = size;
    return STK_OK;
}

/* A string, or {"base64": ...}. */
stk_status stk__json_read_bytes(const json_t *value, size_t max, uint8_t **out, size_t *out_size)
{
    if (json_is_object(value))
        return stk__json_read_base64(json_object_get(value, "base64"), max, out, out_size);
    const size_t size = json_string_length(value);
    if (!json_is_string(value) || size > max)
        return STK_INVALID;
    *out = (uint8_t *)stk__strndup(json_string_value(value), size);
    *out_size = size;
    return *out ? STK_OK : STK_NOMEM;
}
