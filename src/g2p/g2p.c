/* Opening and closing of a model with its lexicons. */
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/rng.h"
#include "g2p/g2p_impl.h"

#include "base/banned.h"

/* A model takes no more than this, so that a mistaken name does not fill the memory. */
#define MODEL_MAX ((size_t)256 << 20)

/* models/g2p/common.dict, made into C by scripts/embed.py. */
extern const unsigned char stk__g2p_common[];
extern const size_t stk__g2p_common_size;

/* Fields that an older caller's struct does not have keep their defaults. */
static stk_status read_config(const stk_g2p_config *in, stk_g2p_config *out, stk_error *err)
{
    *out = (stk_g2p_config){.struct_size = sizeof *out};
    if (in && in->struct_size < sizeof in->struct_size)
        return stk_error_set(err, STK_INVALID, "struct_size of the g2p config is %zu, wanted %zu", in->struct_size,
                             sizeof *out);
    if (in)
        memcpy(out, in, STK_MIN(in->struct_size, sizeof *out));
    if (out->precision != STK_G2P_INT8 && out->precision != STK_G2P_FP32)
        return stk_error_set(err, STK_INVALID, "precision is %d, wanted STK_G2P_INT8 or STK_G2P_FP32",
                             (int)out->precision);
    if (out->lexicon_count && !out->lexicons)
        return stk_error_set(err, STK_INVALID, "lexicons is NULL, lexicon_count is %zu", out->lexicon_count);
    return STK_OK;
}

static stk_status make_model(const stk_g2p_config *config, const void *data, size_t size, stk_g2p *g, stk_error *err)
{
    const char *name = config->model ? config->model : "the library's own model";
    const stk__precision precision = config->precision == STK_G2P_FP32 ? STK__PRECISION_FP32 : STK__PRECISION_INT8;
    g->fingerprint = stk__mix(XXH3_64bits(data, size), (uint64_t)config->precision);
    return stk__g2p_model_new(data, size, name, precision, &g->model, err);
}

/* 0 for what is no plain file: a pipe says nothing of its size. */
static stk_status measure_file(const char *path, int64_t *out, stk_error *err)
{
    int fd;
    stk__file_id id = {0};
    if (strcmp(path, "-") == 0)
        return STK_OK;
    STK_TRY(stk__file_open(path, &fd, &id, err));
    close(fd);
    *out = STK_MIN(id.size_bytes, (int64_t)MODEL_MAX);
    return STK_OK;
}

static stk_status open_model(const stk_g2p_config *config, stk_g2p *g, stk_error *err)
{
    size_t size;
    if (!config->model) {
        const void *data;
        stk__g2p_model_builtin(&data, &size);
        return make_model(config, data, size, g, err);
    }
    /* The file is gone again when the tables are made of it; both may be as large as it says. */
    const stk__g2p_memory memory = {config->charge, config->charge_arg};
    int64_t file_bytes = 0;
    STK_TRY(measure_file(config->model, &file_bytes, err));
    STK_TRY(stk__g2p_charge(&memory, 2 * file_bytes, err));
    char *data = NULL;
    stk_status status = stk__read_file(config->model, MODEL_MAX, &data, &size, err);
    if (status == STK_OK)
        status = make_model(config, data, size, g, err);
    stk__free(data);
    stk__g2p_charge(&memory, -2 * file_bytes, NULL);
    return status;
}

static bool is_stopped(void *arg)
{
    const stk_g2p_config *c = arg;
    return c->stopped(c->stopped_arg) != 0;
}

static stk_status open_files(stk_g2p_config *c, stk_g2p *g, stk_error *err)
{
    const stk__interrupt before = stk__interrupt_get();
    if (c->stopped)
        stk__interrupt_set((stk__interrupt){is_stopped, c});
    const stk__g2p_memory memory = {c->charge, c->charge_arg};
    stk_status status = STK_OK;
    if (c->lexicon_count)
        status = stk__lexicon_read(c->lexicons, c->lexicon_count, &memory, &g->lexicon, err);
    if (status == STK_OK)
        status = open_model(c, g, err);
    stk__interrupt_set(before);
    return status;
}

stk_status stk_g2p_open(const stk_g2p_config *config, stk_g2p **out, stk_error *err)
{
    stk_g2p_config c;
    STK_TRY(read_config(config, &c, err));
    stk_g2p *g = stk__calloc(1, sizeof *g);
    if (!g)
        return stk__nomem(sizeof *g, err);
    atomic_init(&g->spare, NULL);
    const stk__g2p_memory memory = {c.charge, c.charge_arg};
    stk_status status = open_files(&c, g, err);
    if (status == STK_OK && !c.model && !c.no_common)
        status =
            stk__lexicon_parse((const char *)stk__g2p_common, stk__g2p_common_size, "common.dict", &g->common, err);
    /* What the lexicon holds is charged already. */
    if (status == STK_OK)
        status = stk__g2p_charge(&memory, (int64_t)(stk_g2p_bytes(g) - (g->lexicon ? stk__lexicon_bytes(g->lexicon) : 0)), err);
    if (status != STK_OK) {
        stk_g2p_close(g);
        return status;
    }
    g->fingerprint = stk__mix(g->fingerprint, g->common ? stk__lexicon_fingerprint(g->common) : 0);
    if (g->lexicon)
        g->fingerprint = stk__mix(g->fingerprint, stk__lexicon_fingerprint(g->lexicon));
    *out = g;
    return STK_OK;
}

void stk_g2p_close(stk_g2p *g)
{
    if (!g)
        return;
    stk_g2p_results spare = {.impl = atomic_load(&g->spare)};
    stk_g2p_results_clear(&spare);
    stk__g2p_model_free(g->model);
    stk__lexicon_free(g->lexicon);
    stk__lexicon_free(g->common);
    stk__free(g);
}

size_t stk_g2p_bytes(const stk_g2p *g)
{
    return sizeof *g + stk__g2p_model_bytes(g->model) + (g->lexicon ? stk__lexicon_bytes(g->lexicon) : 0) +
           (g->common ? stk__lexicon_bytes(g->common) : 0);
}

uint64_t stk_g2p_fingerprint(const stk_g2p *g)
{
    return g->fingerprint;
}

size_t stk_g2p_variant(const stk_g2p *g, const char *word, size_t size, size_t n, const uint8_t **out_ids)
{
    return g->lexicon ? stk__lexicon_variant(g->lexicon, word, size, n, out_ids) : 0;
}
