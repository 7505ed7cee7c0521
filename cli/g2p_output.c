/* How `stoker g2p` writes words, lines and JSON: straight into one buffer, for there are millions of them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "g2p.h"

#include "base/banned.h"

/* On a terminal, phonemes start in this column where the word lets them. */
enum { COLUMN = 20 };

void g2p_names(bool ids, g2p_name *names)
{
    for (size_t i = 0; i < stk_g2p_symbol_count(); i++) {
        const char *name = i == STK_G2P_SPACE ? "|" : stk_g2p_symbol(i);
        const int n = ids ? snprintf(names[i].text, sizeof names[i].text, "%zu ", i)
                          : snprintf(names[i].text, sizeof names[i].text, "%s ", name);
        names[i].size = STK_MIN((size_t)n, sizeof names[i].text - 1);
    }
}

void g2p_output_init(g2p_output *o, const stk_g2p *g, bool ids)
{
    *o = (g2p_output){.g = g, .ids = ids};
    g2p_names(ids, o->names);
    for (size_t i = 0; i < stk_g2p_symbol_count(); i++) {
        const char *before = ids ? "" : strcmp(stk_g2p_symbol(i), "\"") == 0 ? "\"\\" : "\"";
        g2p_name *name = &o->json_names[i];
        const int n = snprintf(name->text, sizeof name->text, "%s%.*s%s,", before, (int)o->names[i].size - 1,
                               o->names[i].text, ids ? "" : "\"");
        name->size = STK_MIN((size_t)n, sizeof name->text - 1);
    }
}

void g2p_output_clear(g2p_output *o)
{
    stk__text_clear(&o->text);
}

/* Room for `size` more bytes; NULL: memory is out, and the text has failed. */
static char *room(g2p_output *o, size_t size)
{
    stk__text *t = &o->text;
    if (t->failed || size > SIZE_MAX / 2 || !stk__grow((void **)&t->data, &t->capacity, t->length + size + 1, 1)) {
        t->failed = true;
        return NULL;
    }
    return t->data + t->length;
}

/* Names, without the byte behind the last one. A copy of eight bytes is faster than one of the right size. */
static void put_from(g2p_output *o, const g2p_name *names, const uint8_t *ids, size_t count)
{
    char *p = room(o, (count + 1) * sizeof names->text);
    if (!p || !count)
        return;
    for (size_t i = 0; i < count; i++) {
        const g2p_name *name = &names[ids[i] & 127];
        memcpy(p, name->text, sizeof name->text);
        p += name->size;
    }
    o->text.length = (size_t)(p - o->text.data) - 1;
    o->text.data[o->text.length] = 0;
}

static void put_names(g2p_output *o, const uint8_t *ids, size_t count)
{
    put_from(o, o->names, ids, count);
}

static void put_bytes(g2p_output *o, const char *data, size_t size)
{
    char *p = room(o, size);
    if (!p)
        return;
    memcpy(p, data, size);
    o->text.length += size;
    p[size] = 0;
}

/* ---- words ---- */

static void put_escaped(g2p_output *o, const char *data, size_t size)
{
    char *copy = stk__strndup(data, size);
    if (copy)
        cli_text_escaped(&o->text, copy);
    else
        o->text.failed = true;
    stk__free(copy);
}

static void put_separator(g2p_output *o, size_t used)
{
    static const char blanks[] = "                    ";
    if (o->columns)
        put_bytes(o, blanks, used + 2 < COLUMN ? COLUMN - used : 2);
    else
        put_bytes(o, "\t", 1);
}

/* Comma separated. */
static void put_flags(g2p_output *o, uint32_t flags, bool json)
{
    static const struct {
        uint32_t flag;
        const char *name;
        bool json_only;
    } known[] = {
        {STK_G2P_OOV, "oov", false},         {STK_G2P_CUT, "cut", false},   {STK_G2P_GUESSED, "unknown", false},
        {STK_G2P_SPELLED, "spelled", false}, {STK_G2P_SIGN, "sign", false}, {STK_G2P_EXPANDED, "expanded", true},
    };
    bool any = false;
    for (size_t i = 0; i < STK_COUNT(known); i++) {
        if (!(flags & known[i].flag) || (known[i].json_only && !json))
            continue;
        if (any)
            put_bytes(o, ",", 1);
        else if (!json)
            put_separator(o, COLUMN);
        any = true;
        if (json)
            stk__text_json_str(&o->text, known[i].name);
        else
            put_bytes(o, known[i].name, strlen(known[i].name));
    }
}

static void put_variants(g2p_output *o, const stk_g2p_token *token)
{
    const uint8_t *ids;
    size_t count;
    for (size_t n = 1; (count = stk_g2p_variant(o->g, token->text, token->text_size, n, &ids)); n++) {
        const size_t before = o->text.length;
        put_bytes(o, token->text, token->text_size);
        stk__text_printf(&o->text, "(%zu)", n + 1);
        put_separator(o, o->text.length - before);
        put_names(o, ids, count);
        put_bytes(o, "\n", 1);
    }
}

/* A word of which nothing can be read stands there as it was written. */
static void put_word(g2p_output *o, const char *line, const stk_g2p_token *token)
{
    const size_t before = o->text.length;
    if (token->text_size)
        put_bytes(o, token->text, token->text_size);
    else
        put_escaped(o, line + token->source_at, token->source_size);
    put_separator(o, o->text.length - before);
    put_names(o, token->ids, token->id_count);
    put_flags(o, token->flags, false);
    put_bytes(o, "\n", 1);
    if (o->variants && (token->flags & STK_G2P_FROM_LEXICON))
        put_variants(o, token);
}

/* ---- lines ---- */

/* Words stand apart by the space's symbol, unless a mark stands between them. */
static void put_in_line(g2p_output *o, const stk_g2p_token *token)
{
    const bool word = !(token->flags & STK_G2P_PUNCTUATION);
    static const uint8_t space = STK_G2P_SPACE;
    if (!token->id_count) /* a sign */
        return;
    if (o->after_token)
        put_bytes(o, " ", 1);
    if (word && o->after_word) {
        put_names(o, &space, 1);
        put_bytes(o, " ", 1);
    }
    put_names(o, token->ids, token->id_count);
    o->after_token = true;
    o->after_word = word;
}

/* ---- JSON ---- */

static void put_json_ids(g2p_output *o, const uint8_t *ids, size_t count)
{
    put_bytes(o, "[", 1);
    put_from(o, o->json_names, ids, count);
    put_bytes(o, "]", 1);
}

/* Most text needs no escapes. */
static void put_json_text(g2p_output *o, const char *text, size_t size)
{
    bool plain = true;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        plain = plain && c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    }
    if (!plain) {
        stk__text_json(&o->text, text, size);
        return;
    }
    put_bytes(o, "\"", 1);
    put_bytes(o, text, size);
    put_bytes(o, "\"", 1);
}

static void put_str(g2p_output *o, const char *text)
{
    put_bytes(o, text, strlen(text));
}

static void put_number(g2p_output *o, size_t n)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    put_bytes(o, digits + at, sizeof digits - at);
}

static const char *from_where(const stk_g2p_token *token)
{
    if (token->flags & STK_G2P_PUNCTUATION)
        return "mark";
    if (token->flags & STK_G2P_FROM_LEXICON)
        return "lexicon";
    if (token->flags & STK_G2P_SPELLED)
        return "letters";
    if (token->flags & STK_G2P_COMMON)
        return "common";
    return token->flags & STK_G2P_PREDICTED ? "model" : "none";
}

static void put_json_variants(g2p_output *o, const stk_g2p_token *token)
{
    const uint8_t *ids;
    size_t count;
    stk__text_puts(&o->text, ",\"variants\":[");
    for (size_t n = 0; (count = stk_g2p_variant(o->g, token->text, token->text_size, n, &ids)); n++) {
        if (n)
            stk__text_putc(&o->text, ',');
        put_json_ids(o, ids, count);
    }
    stk__text_putc(&o->text, ']');
}

static void put_json(g2p_output *o, const char *line, const stk_g2p_token *token)
{
    put_str(o, o->after_token ? ",{\"text\":" : "{\"text\":");
    put_json_text(o, token->text, token->text_size);
    put_str(o, ",\"source\":");
    put_json_text(o, line + token->source_at, token->source_size);
    put_str(o, ",\"at\":");
    put_number(o, o->line_at + token->source_at);
    put_str(o, o->ids ? ",\"ids\":" : ",\"phonemes\":");
    put_json_ids(o, token->ids, token->id_count);
    put_str(o, ",\"from\":\"");
    put_str(o, from_where(token));
    put_str(o, "\",\"flags\":[");
    put_flags(o, token->flags, true);
    put_str(o, "]");
    if (o->variants && (token->flags & STK_G2P_FROM_LEXICON))
        put_json_variants(o, token);
    put_str(o, "}");
    o->after_token = true;
}

/* ---- all ---- */

static void count_token(g2p_counts *c, uint32_t flags)
{
    if (flags & (STK_G2P_PUNCTUATION | STK_G2P_SIGN))
        return;
    c->words++;
    c->lexicon += (flags & STK_G2P_FROM_LEXICON) != 0;
    c->common += (flags & STK_G2P_COMMON) != 0;
    c->predicted += (flags & STK_G2P_PREDICTED) != 0;
    c->spelled += (flags & STK_G2P_SPELLED) != 0;
    c->oov += (flags & STK_G2P_OOV) != 0;
    c->flagged += (flags & (STK_G2P_CUT | STK_G2P_GUESSED)) != 0;
}

void g2p_output_line(g2p_output *o, const char *line, size_t size, const stk_g2p_token *tokens, size_t count, bool ends)
{
    if (!o->in_line) {
        o->line++;
        if (o->format == G2P_JSON)
            stk__text_printf(&o->text, "{\"line\":%lld,\"tokens\":[", (long long)o->line);
    }
    for (size_t i = 0; i < count; i++) {
        count_token(&o->counts, tokens[i].flags);
        if (o->format == G2P_WORDS)
            put_word(o, line, &tokens[i]);
        else if (o->format == G2P_LINES)
            put_in_line(o, &tokens[i]);
        else
            put_json(o, line, &tokens[i]);
    }
    o->in_line = !ends;
    o->line_at = ends ? 0 : o->line_at + size;
    if (!ends)
        return;
    o->after_token = o->after_word = false;
    if (o->format != G2P_WORDS)
        stk__text_puts(&o->text, o->format == G2P_JSON ? "]}\n" : "\n");
}
