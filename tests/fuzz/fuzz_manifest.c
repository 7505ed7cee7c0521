/* Fuzz target: reads any bytes as a manifest, and as the state of an unfinished set; what is taken reads back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "formats/manifest.h"
#include "formats/set_state.h"
#include "formats/shard_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void read_manifest(const char *text, size_t size)
{
    stk__manifest m, back;
    stk__text once = STK__TEXT_INIT, again = STK__TEXT_INIT;
    stk_error err;
    stk_error_clear(&err);
    if (stk__manifest_parse(text, size, &m, &err) != STK_OK) {
        check(err.status != STK_OK && err.message[0] && m.count == 0);
        return;
    }
    for (size_t i = 0; i < m.count; i++) {
        const stk__manifest_file *f = &m.files[i];
        check(f->name[0] && !strchr(f->name, '/') && f->bytes >= 0 && f->rows >= 0 &&
              stk__manifest_find(&m, f->name) == f);
        stk__shard_fits(m.pattern, f->name, NULL);
    }
    check(stk__manifest_print(&m, &once, &err) == STK_OK);
    check(stk__manifest_parse(once.data, once.length, &back, &err) == STK_OK);
    check(stk__manifest_print(&back, &again, &err) == STK_OK);
    check(once.length == again.length && memcmp(once.data, again.data, once.length) == 0);
    stk__text_clear(&once);
    stk__text_clear(&again);
    stk__manifest_clear(&m);
    stk__manifest_clear(&back);
}

static void read_state(const char *text, size_t size)
{
    stk__set_state s;
    stk__text once = STK__TEXT_INIT;
    if (stk__set_state_parse(text, size, &s, NULL) != STK_OK)
        return;
    stk__set_state_print(&s, &once);
    check(s.pattern[0] && once.length <= size);
    stk__text_clear(&once);
    stk__set_state_clear(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = stk__alloc(size + 1); /* with a NUL behind it, as files are read */
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    read_manifest(text, size);
    read_state(text, size);
    stk__free(text);
    return 0;
}
