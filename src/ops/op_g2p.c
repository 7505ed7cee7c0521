/* g2p: pronounce words and running text, as numbers of phonemes or as their names. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <stoker/g2p.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/op.h"

#include "base/banned.h"

/* Texts that go through the model together: many words, and results that stay in the cache. */
#define GROUP_BYTES (32 * 1024)
/* What the results of a group take in each worker, about. */
#define WORKER_BYTES (1024 * 1024)
/* What a byte of a text that is larger than a group takes at most, about: digits become many words. */
#define TEXT_FACTOR 130
/* The library's own model and list of words, about. */
#define MODEL_BYTES (4 * 1024 * 1024)

enum { TO_IDS, TO_TEXT };
enum { UNKNOWN_KEEP, UNKNOWN_FAIL };

typedef struct {
    const char *field, *out, *model, *oov;
    int64_t to, precision, unknown;
    stk_strings lexicon;
    bool punctuation, spaces, common;
    int in_id, out_id, oov_id; /* oov_id -1: not asked for */
    /* set by open, then const */
    stk_g2p *g;
} g2p_state;

/* The samples of a tile, which `process` sees one by one in their order; a group of them is pronounced at a time. */
typedef struct {
    stk_g2p_results results;
    stk_bytes *texts;
    int64_t *rows;
    size_t *firsts; /* of the group, from 0 on */
    size_t text_capacity, row_capacity, first_capacity;
    size_t count, next;
    size_t group, group_end; /* texts group .. group_end - 1 are in the results */
    uint8_t *ids;            /* of one sample */
    size_t id_capacity;
    void *charge; /* stands in the budget for what a large text takes */
    size_t charge_size;
} g2p_worker;

static stk_status plan_out(stk_plan *plan, const stk_host *host, g2p_state *s, stk_error *err)
{
    stk_field field = {.name = s->out ? s->out : s->field, .dtype = STK_BYTES};
    if (s->to == TO_IDS) {
        field.dtype = STK_INT32;
        field.ndim = 1;
        field.shape[0] = -1;
    }
    return host->plan_write(plan, &field, &s->out_id, err);
}

static stk_status g2p_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    g2p_state *s = state;
    stk_field field;
    STK_TRY(host->plan_read(plan, s->field, &s->in_id, &field, err));
    if (field.dtype != STK_BYTES || field.ndim != 0)
        return host->fail(err, STK_INVALID, "field '%s' is %s with %d dimensions, wanted bytes", s->field,
                          stk_dtype_name(field.dtype), field.ndim);
    s->oov_id = -1;
    STK_TRY(plan_out(plan, host, s, err));
    if (!s->oov)
        return STK_OK;
    if (!s->lexicon.count)
        return host->fail(err, STK_INVALID,
                          "oov counts words that no lexicon has, and none is given; add lexicon=FILE");
    if (strcmp(s->oov, s->out ? s->out : s->field) == 0)
        return host->fail(err, STK_INVALID, "oov and the phonemes are both to be field '%s'", s->oov);
    const stk_field oov = {.name = s->oov, .dtype = STK_INT32};
    return host->plan_write(plan, &oov, &s->oov_id, err);
}

static stk_status charge(void *arg, int64_t bytes, stk_error *err)
{
    const stk_call *call = arg;
    if (bytes >= 0)
        return stk_budget_charge(call, (size_t)bytes, err);
    stk_budget_return(call, (size_t)-bytes);
    return STK_OK;
}

/* A lexicon takes up to three times its file while it is read: words and phonemes, and the table with the one before it. */
static stk_status tell_demand(const stk_call *call, stk_error *err)
{
    const g2p_state *s = call->state;
    uint64_t size = (uint64_t)call->host->open_info(call)->threads * WORKER_BYTES + MODEL_BYTES;
    for (size_t i = 0; i <= s->lexicon.count; i++) {
        const char *path = i < s->lexicon.count ? s->lexicon.items[i] : s->model;
        stk__file_id id = {0};
        int fd = -1;
        if (path && stk__file_open(path, &fd, &id, NULL) == STK_OK)
            close(fd);
        size += 3 * (uint64_t)STK_MAX(id.size_bytes, 0);
    }
    err->line = err->column = 0;
    return call->host->no_room(call, s->lexicon.count ? "the lexicon" : "the model", size, 0, err);
}

static stk_status g2p_open(const stk_call *call, stk_error *err)
{
    g2p_state *s = call->state;
    const stk_g2p_config config = {.struct_size = sizeof config,
                                   .model = s->model,
                                   .precision = s->precision ? STK_G2P_FP32 : STK_G2P_INT8,
                                   .lexicons = s->lexicon.items,
                                   .lexicon_count = s->lexicon.count,
                                   .no_common = !s->common,
                                   .charge = charge,
                                   .charge_arg = (void *)(uintptr_t)call};
    const stk_status status = stk_g2p_open(&config, &s->g, err);
    if (status == STK_BUDGET && err)
        return tell_demand(call, err);
    /* A line of the lexicon is none of the pipeline's text. */
    if (status != STK_OK && err && err->line > 0) {
        stk__error_prefix(err, "line %d: ", err->line);
        err->line = err->column = 0;
    }
    return status;
}

static void g2p_close(void *state)
{
    g2p_state *s = state;
    stk_g2p_close(s->g);
}

static int64_t g2p_memory(const stk_call *call)
{
    return (int64_t)call->host->open_info(call)->threads * WORKER_BYTES; /* the rest was charged by open */
}

static uint64_t g2p_fingerprint(const stk_call *call)
{
    const g2p_state *s = call->state;
    return stk_g2p_fingerprint(s->g);
}

static stk_status g2p_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    g2p_worker *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    *out_worker = w;
    return STK_OK;
}

/* What a large text took is not kept. */
static void let_go(const stk_call *call, g2p_worker *w)
{
    if (!w->charge)
        return;
    stk_g2p_results_clear(&w->results);
    stk__free(w->ids);
    w->ids = NULL;
    w->id_capacity = 0;
    stk_budget_free(call, w->charge, w->charge_size);
    w->charge = NULL;
}

static void g2p_worker_close(const stk_call *call)
{
    g2p_worker *w = call->worker;
    let_go(call, w);
    stk_g2p_results_clear(&w->results);
    stk__free(w->texts);
    stk__free(w->rows);
    stk__free(w->firsts);
    stk__free(w->ids);
    stk__free(w);
}

static stk_status take_texts(const g2p_state *s, g2p_worker *w, stk_sample *const *samples, size_t n, stk_error *err)
{
    w->count = w->next = w->group = w->group_end = 0;
    if (!stk__grow((void **)&w->texts, &w->text_capacity, n, sizeof *w->texts) ||
        !stk__grow((void **)&w->rows, &w->row_capacity, n, sizeof *w->rows) ||
        !stk__grow((void **)&w->firsts, &w->first_capacity, n + 1, sizeof *w->firsts))
        return stk__nomem(n * sizeof *w->texts, err);
    for (size_t i = 0; i < n; i++) {
        w->texts[i] = *(const stk_bytes *)samples[i]->values[s->in_id].data;
        w->rows[i] = samples[i]->row;
    }
    w->count = n;
    return STK_OK;
}

static stk_status g2p_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    return take_texts(call->state, call->worker, samples, n, err);
}

/* Pronounces the texts from the next one on, as many as make a group. */
static stk_status run_group(const stk_call *call, g2p_worker *w, stk_error *err)
{
    const g2p_state *s = call->state;
    int64_t bytes = 0;
    size_t end = w->next;
    do {
        bytes += w->texts[end++].size;
    } while (end < w->count && bytes + w->texts[end].size <= GROUP_BYTES);
    w->group = w->group_end = w->next;
    let_go(call, w);
    if (bytes > GROUP_BYTES) {
        w->charge_size = (size_t)bytes * TEXT_FACTOR;
        w->charge = stk_budget_alloc(call, w->charge_size, err);
        if (!w->charge)
            return err->status;
    }
    STK_TRY(stk_g2p_texts(s->g, w->texts + w->group, end - w->group, &w->results, w->firsts, err));
    w->group_end = end;
    return STK_OK;
}

/* The tokens of a sample. */
static stk_status find_tokens(const stk_call *call, stk_sample *sample, const stk_g2p_token **out, size_t *out_count,
                              stk_error *err)
{
    const g2p_state *s = call->state;
    g2p_worker *w = call->worker;
    if (w->next >= w->count || w->rows[w->next] != sample->row) /* it comes alone */
        STK_TRY(take_texts(s, w, &sample, 1, err));
    if (w->next >= w->group_end)
        STK_TRY(run_group(call, w, err));
    const size_t at = w->next++ - w->group;
    *out = w->results.tokens + w->firsts[at];
    *out_count = w->firsts[at + 1] - w->firsts[at];
    return STK_OK;
}

static stk_status fail_unknown(const stk_call *call, const stk_sample *sample, const stk_g2p_token *token,
                               stk_error *err)
{
    const g2p_state *s = call->state;
    const stk_bytes *text = sample->values[s->in_id].data;
    const char *word = (const char *)text->data + token->source_at;
    return call->host->fail(err, STK_CORRUPT, "field '%s': '%.*s' has letters that the model does not know", s->field,
                            (int)STK_MIN(token->source_size, 60), word);
}

/* The ids of one sample, one after the other; a space stands between words that have no mark between them. */
static stk_status join(const g2p_state *s, g2p_worker *w, const stk_g2p_token *tokens, size_t count, size_t *out,
                       stk_error *err)
{
    size_t most = 0, n = 0;
    bool after_word = false;
    for (size_t i = 0; i < count; i++)
        most += tokens[i].id_count + 1;
    if (!stk__grow((void **)&w->ids, &w->id_capacity, most + 1, 1))
        return stk__nomem(most, err);
    for (size_t i = 0; i < count; i++) {
        const bool mark = tokens[i].flags & STK_G2P_PUNCTUATION;
        if (!tokens[i].id_count || (mark && !s->punctuation)) /* a sign has none */
            continue;
        if (!mark && after_word && s->spaces)
            w->ids[n++] = STK_G2P_SPACE;
        memcpy(w->ids + n, tokens[i].ids, tokens[i].id_count);
        n += tokens[i].id_count;
        after_word = !mark;
    }
    *out = n;
    return STK_OK;
}

static stk_status put_ids(const stk_call *call, stk_sample *sample, const uint8_t *ids, size_t n, stk_error *err)
{
    const g2p_state *s = call->state;
    int32_t *out = stk_out(call, sample, s->out_id, (int64_t[STK_MAX_DIMS]){(int64_t)n}, err);
    if (!out)
        return err->status;
    for (size_t i = 0; i < n; i++)
        out[i] = ids[i];
    return STK_OK;
}

static const char *name_of(uint8_t id)
{
    return id == STK_G2P_SPACE ? "|" : stk_g2p_symbol(id);
}

static stk_status put_text(const stk_call *call, stk_sample *sample, const uint8_t *ids, size_t n, stk_error *err)
{
    const g2p_state *s = call->state;
    size_t size = n ? n - 1 : 0, at = 0;
    for (size_t i = 0; i < n; i++)
        size += strlen(name_of(ids[i]));
    char *out = stk_bytes_block(call, s->out_id, size + 1, err);
    if (!out)
        return err->status;
    for (size_t i = 0; i < n; i++) {
        const char *name = name_of(ids[i]);
        const size_t length = strlen(name);
        if (i)
            out[at++] = ' ';
        memcpy(out + at, name, length);
        at += length;
    }
    stk_set_bytes(call, sample, s->out_id, out, (int64_t)size, true);
    return STK_OK;
}

static stk_status put_oov(const stk_call *call, stk_sample *sample, const stk_g2p_token *tokens, size_t count,
                          stk_error *err)
{
    const g2p_state *s = call->state;
    int32_t *out = stk_out(call, sample, s->oov_id, NULL, err);
    if (!out)
        return err->status;
    *out = 0;
    for (size_t i = 0; i < count; i++)
        *out += (tokens[i].flags & STK_G2P_OOV) != 0;
    return STK_OK;
}

static stk_status g2p_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const g2p_state *s = call->state;
    g2p_worker *w = call->worker;
    const stk_g2p_token *tokens;
    size_t count, n = 0;
    STK_TRY(find_tokens(call, sample, &tokens, &count, err));
    for (size_t i = 0; i < count && s->unknown == UNKNOWN_FAIL; i++)
        if (tokens[i].flags & STK_G2P_GUESSED)
            return fail_unknown(call, sample, &tokens[i], err);
    if (s->oov_id >= 0 && stk_needed(call, s->oov_id))
        STK_TRY(put_oov(call, sample, tokens, count, err));
    if (!stk_needed(call, s->out_id))
        return STK_OK;
    STK_TRY(join(s, w, tokens, count, &n, err));
    return s->to == TO_IDS ? put_ids(call, sample, w->ids, n, err) : put_text(call, sample, w->ids, n, err);
}

static const char *const to_names[] = {"ids", "text", NULL};
static const char *const precision_names[] = {"int8", "fp32", NULL};
static const char *const unknown_names[] = {"keep", "fail", NULL};

static const stk_option g2p_options[] = {
    STK_FIELD(g2p_state, field, "words or running text in UTF-8"),
    STK_ENUM(g2p_state, to, TO_IDS, to_names,
             "ids: int32 numbers, as 'stoker g2p --symbols' lists them; text: names with blanks between them, | for a "
             "space"),
    {.name = "out",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(g2p_state, out, const char *),
     .help = "field to write; else the phonemes take the place of the text"},
    {.name = "lexicon",
     .kind = STK_OPTION_STRINGS,
     .offset = STK_FIELD_OFFSET(g2p_state, lexicon, stk_strings),
     .help =
         "file or list of files, as CMUdict: looked up before the model; a later one hides words of an earlier one"},
    {.name = "oov",
     .kind = STK_OPTION_FIELD,
     .offset = STK_FIELD_OFFSET(g2p_state, oov, const char *),
     .help = "field for the number of words that no lexicon has"},
    STK_STRING(g2p_state, model, NULL, "an .npz file: g2p_en's or one of our own; else the model in the library"),
    STK_BOOL_OPTION(g2p_state, common, true, "the library's short list of common words that its model reads wrong"),
    STK_ENUM(g2p_state, precision, 0, precision_names, "arithmetic of the model"),
    STK_BOOL_OPTION(g2p_state, punctuation, true, "keep punctuation marks"),
    STK_BOOL_OPTION(g2p_state, spaces, true, "put a space between words that have no mark between them"),
    STK_ENUM(g2p_state, unknown, UNKNOWN_KEEP, unknown_names,
             "words with letters that the model does not know: keep what can be read, or a bad record"),
    STK_OPTION_END,
};

const stk_op stk__op_g2p = {
    .abi = STK_OP_ABI,
    .name = "g2p",
    .group = "fields",
    .since = "0.1",
    .summary = "Pronounce words and running text: phonemes of American English, as numbers or names.",
    .example = "text(\"words.txt\") | g2p(text) | batch(8, pad=true)",
    .options = g2p_options,
    .state_size = sizeof(g2p_state),
    .schema = g2p_schema,
    .open = g2p_open,
    .close = g2p_close,
    .worker_open = g2p_worker_open,
    .worker_close = g2p_worker_close,
    .process = g2p_process,
    .gather = g2p_gather,
    .memory = g2p_memory,
    .fingerprint = g2p_fingerprint,
};
