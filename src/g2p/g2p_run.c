/* From tokens to phonemes: marks, letters and lexicon first, then all words that are left through the model at once. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "g2p/g2p_impl.h"
#include "g2p/phonemes.h"

#include "base/banned.h"

/* Tokens whose words are looked up together. */
enum { BLOCK = 64 };

/* Besides the tokens' own flags: all words of its text are in capitals. */
enum { SHOUTED = 1 << 16 };

/* A text of fewer words says little about how it is written. */
enum { SHOUT_WORDS = 4 };

/* A token whose word the model pronounces: which of the different words that is. */
typedef struct miss {
    size_t token, word;
} miss;

/* A token that is spelled: where its ids start; the memory may still move. */
typedef struct spelling {
    size_t token, at;
} spelling;

typedef struct memory {
    stk__tokens tokens;
    bool as_is; /* tokens are words as they are, not parts of texts */
    stk__g2p_work work;
    stk_g2p_token *out;
    size_t out_capacity;
    miss *misses;
    size_t miss_count, miss_capacity;
    stk_bytes *words; /* of the misses, each once */
    size_t word_count, word_capacity;
    stk__g2p_answer *answers;
    size_t answer_capacity;
    uint32_t *table; /* number of a word + 1, by its hash; 0: free */
    size_t table_size, table_capacity;
    spelling *spellings;
    size_t spelling_count, spelling_capacity;
    uint8_t *spelled;
    size_t spelled_count, spelled_capacity;
} memory;

void stk_g2p_results_clear(stk_g2p_results *results)
{
    memory *m = results->impl;
    if (m) {
        stk__tokens_clear(&m->tokens);
        stk__g2p_work_clear(&m->work);
        stk__free(m->out);
        stk__free(m->misses);
        stk__free(m->words);
        stk__free(m->answers);
        stk__free(m->table);
        stk__free(m->spellings);
        stk__free(m->spelled);
        stk__free(m);
    }
    *results = (stk_g2p_results){0};
}

static stk_status begin(stk_g2p_results *results, memory **out, stk_error *err)
{
    results->tokens = NULL;
    results->count = 0;
    if (!results->impl && !(results->impl = stk__calloc(1, sizeof(memory))))
        return stk__nomem(sizeof(memory), err);
    memory *m = results->impl;
    stk__tokens_reset(&m->tokens);
    m->as_is = false;
    m->miss_count = m->word_count = m->spelling_count = m->spelled_count = 0;
    *out = m;
    return STK_OK;
}

static bool word_known(const void *context, const char *word, size_t size)
{
    const uint8_t *ids;
    return stk__lexicon_find(context, word, size, &ids) > 0;
}

static stk_status bad_size(size_t i, int64_t size, stk_error *err)
{
    return stk_error_set(err, STK_INVALID, "size of text %zu is %lld, wanted 0 or more", i, (long long)size);
}

/* Notes on the tokens of one text whether all its words are in capitals. */
static void mark_shouted(stk__tokens *tokens, size_t first)
{
    size_t words = 0;
    for (size_t i = first; i < tokens->count; i++) {
        const uint32_t flags = tokens->items[i].flags;
        if (tokens->items[i].text_size < 2 || (flags & (STK__TOKEN_MARK | STK__TOKEN_EXPANDED | STK__TOKEN_LETTER)))
            continue;
        if (!(flags & STK__TOKEN_CAPITALS))
            return;
        words++;
    }
    for (size_t i = first; i < tokens->count && words >= SHOUT_WORDS; i++)
        tokens->items[i].flags |= SHOUTED;
}

/* ---- words that no lexicon has ---- */

static stk_status add_spelling(memory *m, size_t at, const char *word, size_t size, stk_error *err)
{
    const size_t most = stk__g2p_spell_max(size);
    if (!stk__grow((void **)&m->spellings, &m->spelling_capacity, m->spelling_count + 1, sizeof *m->spellings))
        return stk__nomem(sizeof *m->spellings * m->spelling_count, err);
    if (!stk__grow((void **)&m->spelled, &m->spelled_capacity, m->spelled_count + most, 1))
        return stk__nomem(m->spelled_count + most, err);
    m->spellings[m->spelling_count++] = (spelling){at, m->spelled_count};
    m->out[at].id_count = stk__g2p_spell(word, size, m->spelled + m->spelled_count);
    m->out[at].flags |= STK_G2P_SPELLED;
    m->spelled_count += m->out[at].id_count;
    return STK_OK;
}

/* Leaves only what models know: letters and the apostrophe. */
static void drop_signs(stk__tokens *tokens, stk__token *token)
{
    char *text = tokens->text + token->text_at;
    size_t n = 0;
    for (size_t i = 0; i < token->text_size; i++)
        if ((text[i] >= 'a' && text[i] <= 'z') || text[i] == '\'')
            text[n++] = text[i];
    token->text_size = n;
}

/* Apostrophes alone are no word. */
static bool has_letter(const char *word, size_t size)
{
    size_t i = 0;
    while (i < size && word[i] == '\'')
        i++;
    return i < size;
}

/* A word that no lexicon has: from the list of common words, spelled, or left to the model. */
static stk_status add_miss(const stk_g2p *g, memory *m, size_t at, stk_error *err)
{
    stk__token *token = &m->tokens.items[at];
    const char *word = m->tokens.text + token->text_at;
    stk_g2p_token *out = &m->out[at];
    out->flags |= g->lexicon ? STK_G2P_OOV : 0;
    if (token->flags & STK__TOKEN_UNKNOWN)
        drop_signs(&m->tokens, token);
    if (!has_letter(word, token->text_size))
        token->text_size = 0;
    out->text_size = token->text_size;
    if (!token->text_size) {
        out->flags |= STK_G2P_GUESSED;
        return STK_OK;
    }
    if (g->common && (out->id_count = stk__lexicon_find(g->common, word, token->text_size, &out->ids))) {
        out->flags |= STK_G2P_COMMON;
        return STK_OK;
    }
    if ((token->flags & STK__TOKEN_CAPITALS) && !stk__g2p_reads(word, token->text_size, (token->flags & SHOUTED) != 0))
        return add_spelling(m, at, word, token->text_size, err);
    if (!stk__grow((void **)&m->misses, &m->miss_capacity, m->miss_count + 1, sizeof *m->misses))
        return stk__nomem(sizeof *m->misses * m->miss_count, err);
    m->misses[m->miss_count++] = (miss){.token = at};
    out->flags |= STK_G2P_PREDICTED;
    return STK_OK;
}

static bool same_word(const stk_bytes *a, const stk_bytes *b)
{
    return a->size == b->size && memcmp(a->data, b->data, (size_t)a->size) == 0;
}

/* The number of a word among the different ones. `seed` keeps texts from being made whose words all meet. */
static size_t number_word(memory *m, const stk_bytes *word, uint64_t seed)
{
    const size_t mask = m->table_size - 1;
    size_t i = (size_t)XXH3_64bits_withSeed(word->data, (size_t)word->size, seed) & mask;
    while (m->table[i] && !same_word(&m->words[m->table[i] - 1], word))
        i = (i + 1) & mask;
    if (!m->table[i]) {
        m->words[m->word_count] = *word;
        m->table[i] = (uint32_t)++m->word_count;
    }
    return m->table[i] - 1;
}

/* Each different word once. One that is longer than models take is cut. */
static stk_status collect_words(memory *m, uint64_t seed, stk_error *err)
{
    size_t size = 16;
    while (size < m->miss_count * 2)
        size *= 2;
    if (m->miss_count >= UINT32_MAX)
        return stk_error_set(err, STK_INVALID, "%zu words to predict in one call, wanted less than 2^32",
                             m->miss_count);
    if (!stk__grow((void **)&m->table, &m->table_capacity, size, sizeof *m->table) ||
        !stk__grow((void **)&m->words, &m->word_capacity, m->miss_count, sizeof *m->words) ||
        !stk__grow((void **)&m->answers, &m->answer_capacity, m->miss_count, sizeof *m->answers))
        return stk__nomem(size * sizeof *m->table, err);
    m->table_size = size;
    memset(m->table, 0, size * sizeof *m->table);
    for (size_t i = 0; i < m->miss_count; i++) {
        const stk_g2p_token *token = &m->out[m->misses[i].token];
        const stk_bytes word = {(const uint8_t *)token->text, (int64_t)STK_MIN(token->text_size, STK__G2P_WORD_MAX)};
        m->misses[i].word = number_word(m, &word, seed);
    }
    return STK_OK;
}

static stk_status predict_misses(const stk_g2p *g, memory *m, stk_error *err)
{
    if (!m->miss_count)
        return STK_OK;
    STK_TRY(collect_words(m, (uint64_t)(uintptr_t)m->table ^ (uint64_t)(uintptr_t)g, err));
    STK_TRY(stk__g2p_model_predict(g->model, &m->work, m->words, m->word_count, m->answers, err));
    for (size_t i = 0; i < m->miss_count; i++) {
        stk_g2p_token *token = &m->out[m->misses[i].token];
        const stk__g2p_answer *answer = &m->answers[m->misses[i].word];
        if (!answer->count) { /* the model has nothing to say about "h" */
            token->flags &= ~(uint32_t)STK_G2P_PREDICTED;
            STK_TRY(add_spelling(m, m->misses[i].token, token->text, token->text_size, err));
            continue;
        }
        token->ids = answer->ids;
        token->id_count = answer->count;
        token->flags |= answer->cut || token->text_size > STK__G2P_WORD_MAX ? STK_G2P_CUT : 0;
        token->flags |= answer->unknown ? STK_G2P_GUESSED : 0;
    }
    return STK_OK;
}

/* ---- all tokens ---- */

/* The ids of marks and single phonemes, to point at. */
static const uint8_t *id_alone(int id)
{
    static const uint8_t ids[] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
        24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
        48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71,
        72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95,
    };
    return id >= 0 && (size_t)id < STK_COUNT(ids) ? &ids[id] : NULL;
}

static void copy_token(const memory *m, const stk__token *token, stk_g2p_token *out)
{
    *out = (stk_g2p_token){
        .text = m->tokens.text + token->text_at,
        .text_size = token->text_size,
        .source_at = token->source_at,
        .source_size = token->source_size,
        .flags = (token->flags & STK__TOKEN_EXPANDED ? STK_G2P_EXPANDED : 0) |
                 (token->flags & STK__TOKEN_SIGN      ? STK_G2P_SIGN
                  : token->flags & STK__TOKEN_UNKNOWN ? STK_G2P_GUESSED
                                                      : 0),
    };
}

/* Marks, signs and letters by name, which need no look-up. False: it is a word. */
static bool is_fixed(const stk_g2p *g, const stk__token *token, stk_g2p_token *out)
{
    if (token->flags & STK__TOKEN_MARK) {
        out->ids = id_alone(stk__phoneme_find(out->text, out->text_size));
        out->id_count = out->ids != NULL;
        out->flags |= STK_G2P_PUNCTUATION;
        return true;
    }
    if (token->flags & STK__TOKEN_SIGN)
        return true;
    if (!(token->flags & STK__TOKEN_LETTER) || token->text_size != 1)
        return false;
    /* A lexicon may have the name of a letter, but its "a" is the article. */
    if (g->lexicon && out->text[0] != 'a' && (out->id_count = stk__lexicon_find(g->lexicon, out->text, 1, &out->ids))) {
        out->flags |= STK_G2P_FROM_LEXICON;
        return true;
    }
    out->id_count = stk__letter_name(out->text[0], &out->ids);
    out->flags |= STK_G2P_SPELLED;
    return out->id_count > 0;
}

/*
 * Letters may have been left out of unknown words, and what remains is another word. Signs stay in words that are taken
 * as they are: a lexicon may have "3-d" and "%".
 */
static bool is_asked(const stk_g2p *g, const memory *m, size_t at)
{
    const stk__token *token = &m->tokens.items[at];
    if (!g->lexicon || !token->text_size)
        return false;
    return !(token->flags & (m->as_is ? STK__TOKEN_DROPPED : STK__TOKEN_UNKNOWN));
}

static stk_status resolve_block(const stk_g2p *g, memory *m, size_t first, size_t count, stk_error *err)
{
    stk__lexicon_query queries[BLOCK];
    size_t asked[BLOCK], query_count = 0;
    for (size_t i = first; i < first + count; i++) {
        const stk__token *token = &m->tokens.items[i];
        stk_g2p_token *out = &m->out[i];
        copy_token(m, token, out);
        if (is_fixed(g, token, out))
            continue;
        if (!is_asked(g, m, i)) {
            STK_TRY(add_miss(g, m, i, err));
            continue;
        }
        asked[query_count] = i;
        queries[query_count++] = (stk__lexicon_query){.word = out->text, .size = out->text_size};
    }
    if (query_count)
        stk__lexicon_find_many(g->lexicon, queries, query_count);
    for (size_t k = 0; k < query_count; k++) {
        stk_g2p_token *out = &m->out[asked[k]];
        if (!queries[k].count) {
            STK_TRY(add_miss(g, m, asked[k], err));
            continue;
        }
        out->ids = queries[k].ids;
        out->id_count = queries[k].count;
        out->flags = (out->flags & ~(uint32_t)STK_G2P_GUESSED) | STK_G2P_FROM_LEXICON;
    }
    return STK_OK;
}

static stk_status resolve(const stk_g2p *g, memory *m, stk_error *err)
{
    if (!stk__grow((void **)&m->out, &m->out_capacity, m->tokens.count + 1, sizeof *m->out))
        return stk__nomem(m->tokens.count * sizeof *m->out, err);
    for (size_t first = 0; first < m->tokens.count; first += BLOCK)
        STK_TRY(resolve_block(g, m, first, STK_MIN((size_t)BLOCK, m->tokens.count - first), err));
    return STK_OK;
}

/* Everything is known and nothing moves any more. */
static stk_status finish(const stk_g2p *g, memory *m, stk_g2p_results *results, stk_error *err)
{
    STK_TRY(predict_misses(g, m, err));
    for (size_t i = 0; i < m->spelling_count; i++)
        m->out[m->spellings[i].token].ids = m->spelled + m->spellings[i].at;
    for (size_t i = 0; i < m->tokens.count; i++) {
        if (m->out[i].id_count || (m->out[i].flags & STK_G2P_SIGN))
            continue;
        m->out[i].ids = id_alone(STK_G2P_UNKNOWN); /* no word is left out */
        m->out[i].id_count = 1;
        m->out[i].flags |= STK_G2P_GUESSED;
    }
    results->tokens = m->out;
    results->count = m->tokens.count;
    return STK_OK;
}

/* ---- the calls ---- */

stk_status stk_g2p_texts(const stk_g2p *g, const stk_bytes *texts, size_t count, stk_g2p_results *results,
                         size_t *first_token, stk_error *err)
{
    memory *m;
    STK_TRY(begin(results, &m, err));
    for (size_t i = 0; i < count; i++) {
        const size_t first = m->tokens.count;
        if (first_token)
            first_token[i] = first;
        if (texts[i].size < 0)
            return bad_size(i, texts[i].size, err);
        if (texts[i].size == 0)
            continue;
        STK_TRY(stk__tokens_add(&m->tokens, (const char *)texts[i].data, (size_t)texts[i].size,
                                g->lexicon ? word_known : NULL, g->lexicon, err));
        mark_shouted(&m->tokens, first);
    }
    if (first_token)
        first_token[count] = m->tokens.count;
    STK_TRY(resolve(g, m, err));
    return finish(g, m, results, err);
}

stk_status stk_g2p_text(const stk_g2p *g, const char *text, size_t size, stk_g2p_results *results, stk_error *err)
{
    if (size > INT64_MAX)
        return bad_size(0, -1, err);
    const stk_bytes one = {(const uint8_t *)text, (int64_t)size};
    return stk_g2p_texts(g, &one, 1, results, NULL, err);
}

stk_status stk_g2p_predict_many(const stk_g2p *g, const stk_bytes *words, size_t count, stk_g2p_results *results,
                                stk_error *err)
{
    memory *m;
    STK_TRY(begin(results, &m, err));
    for (size_t i = 0; i < count; i++) {
        if (words[i].size < 0)
            return bad_size(i, words[i].size, err);
        STK_TRY(stk__tokens_add_word(&m->tokens, words[i].size ? (const char *)words[i].data : "",
                                     (size_t)words[i].size, err));
        m->tokens.items[i].flags &= ~(uint32_t)STK__TOKEN_CAPITALS; /* words are taken as they are */
    }
    m->as_is = true;
    STK_TRY(resolve(g, m, err));
    return finish(g, m, results, err);
}

/* ---- one word ---- */

static stk_status write_names(const stk_g2p_token *token, char *out, size_t size, stk_error *err)
{
    size_t need = 0;
    for (size_t i = 0; i < token->id_count; i++)
        need += strlen(stk_g2p_symbol(token->ids[i])) + 1;
    if (need > size)
        return stk_error_set(err, STK_INVALID, "the pronunciation takes %zu bytes, there are %zu", need, size);
    for (size_t i = 0; i < token->id_count; i++) {
        const char *name = stk_g2p_symbol(token->ids[i]);
        const size_t n = strlen(name);
        memcpy(out, name, n);
        out[n] = i + 1 < token->id_count ? ' ' : 0;
        out += n + 1;
    }
    return STK_OK;
}

stk_status stk_g2p_predict(const stk_g2p *g, const char *word, char *out, size_t size, stk_error *err)
{
    /* The memory of the last call, if no other thread has it; g itself stays as it is. */
    _Atomic(void *) *spare = &((stk_g2p *)g)->spare;
    stk_g2p_results results = {.impl = atomic_exchange(spare, NULL)};
    const stk_bytes one = {(const uint8_t *)word, (int64_t)strlen(word)};
    stk_status status = stk_g2p_predict_many(g, &one, 1, &results, err);
    if (status == STK_OK && results.tokens[0].ids[0] == STK_G2P_UNKNOWN)
        status = stk_error_set(err, STK_INVALID, "'%.60s' has no letter that can be pronounced", word);
    if (status == STK_OK)
        status = write_names(&results.tokens[0], out, size, err);
    stk_g2p_results other = {.impl = atomic_exchange(spare, results.impl)};
    stk_g2p_results_clear(&other);
    return status;
}
