/* Fuzz target: reads any bytes as a lexicon; what it takes can be found again, word by word. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/g2p.h>

#include "g2p/lexicon.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_ids(const uint8_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(ids[i] >= STK_G2P_FIRST && ids[i] < STK_G2P_SPACE);
}

/* Asks for every stretch of the input between blanks, as it is. */
static void ask(const stk__lexicon *x, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        const size_t start = i;
        while (i < size && text[i] != ' ' && text[i] != '\n')
            i++;
        stk__lexicon_query query = {.word = text + start, .size = i - start};
        const uint8_t *ids = NULL;
        size_t count, n = 0;
        stk__lexicon_find_many(x, &query, 1);
        check(stk__lexicon_find(x, text + start, i - start, &ids) == query.count);
        check(query.count == 0 || ids == query.ids);
        while ((count = stk__lexicon_variant(x, text + start, i - start, n, &ids)) > 0) {
            check_ids(ids, count);
            n++;
        }
        check((n > 0) == (query.count > 0) && n <= size);
        i++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_error err;
    stk__lexicon *x = NULL, *again = NULL;
    stk_error_clear(&err);
    if (stk__lexicon_parse((const char *)data, size, "x.dict", &x, &err) != STK_OK) {
        check(!x && err.status == STK_CORRUPT && err.message[0] && err.line >= 1);
        return 0;
    }
    ask(x, (const char *)data, size);
    check(stk__lexicon_parse((const char *)data, size, NULL, &again, NULL) == STK_OK);
    check(stk__lexicon_words(x) == stk__lexicon_words(again) && stk__lexicon_words(x) <= size);
    check(stk__lexicon_fingerprint(x) == stk__lexicon_fingerprint(again));
    stk__lexicon_free(again);
    stk__lexicon_free(x);
    return 0;
}
