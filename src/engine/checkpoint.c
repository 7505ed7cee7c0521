/* Checkpoints: a few numbers as text, guarded by fingerprints of the pipeline and of the data. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/checkpoint.h"

#include "base/banned.h"

#define HEADER "stoker-checkpoint 1\n"
#define MAX_BYTES (64 * 1024)
/* As many as repeat can count, and rounds of one without end that any run can come to. */
#define FIRST_EPOCH_MAX ((int64_t)1 << 31)
#define ROUNDS_MAX ((int64_t)1 << 48)

/* All numbers of the file, by name. */
#define SINGLE_LIST(X)                                                                                            \
    X(batches)                                                                                                    \
    X(samples) X(ticket) X(position) X(skipped) X(quarantined) X(dropped) X(lost_bytes) X(world) X(rank) X(epoch) \
        X(consumed) X(elastic) X(elastic_epoch) X(elastic_base) X(batch_size) X(has_digest) X(first_epoch)        \
            X(round_batches)

static void put_array(stk__text *t, const char *name, const int64_t *values, int count)
{
    stk__text_puts(t, name);
    for (int i = 0; i < count; i++)
        stk__text_printf(t, " %" PRId64, values[i]);
    stk__text_putc(t, '\n');
}

void stk__checkpoint_print(const stk__checkpoint *c, stk__text *t)
{
    stk__text_puts(t, HEADER);
    stk__text_printf(t, "pipeline %016" PRIx64 "\ndata %016" PRIx64 "\n", c->pipeline, c->data);
#define PUT(name) stk__text_printf(t, #name " %" PRId64 "\n", c->name);
    SINGLE_LIST(PUT)
#undef PUT
    stk__text_printf(t, "digest_high %016" PRIx64 "\ndigest_low %016" PRIx64 "\n", c->digest_high, c->digest_low);
    put_array(t, "relay_seen", c->relay_seen, STK__MAX_RELAYS);
    put_array(t, "relay_epoch", c->relay_epoch, STK__MAX_RELAYS);
    put_array(t, "batch_seen", c->batch_seen, STK__CHAIN_MAX);
    if (c->sink[0])
        stk__text_printf(t, "sink %s\n", c->sink);
    if (!t->failed)
        stk__text_printf(t, "check %016" PRIx64 "\n", (uint64_t)XXH3_64bits(t->data, t->length));
}

static bool read_array(const char *text, int64_t *out, int count)
{
    for (int i = 0; i < count; i++) {
        char *end;
        if (*text != ' ')
            return false;
        out[i] = strtoll(text, &end, 10);
        if (end == text)
            return false;
        text = end;
    }
    return *text == 0;
}

static bool read_hex(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 16);
    return end != text && *end == 0;
}

/* One line "name value"; unknown names are refused. */
static bool read_line(stk__checkpoint *c, char *line)
{
    char *space = strchr(line, ' ');
    if (!space)
        return false;
    const size_t n = (size_t)(space - line);
#define IS(name) (n == strlen(name) && memcmp(line, name, n) == 0)
    if (IS("pipeline"))
        return read_hex(space + 1, &c->pipeline);
    if (IS("data"))
        return read_hex(space + 1, &c->data);
    if (IS("digest_high"))
        return read_hex(space + 1, &c->digest_high);
    if (IS("digest_low"))
        return read_hex(space + 1, &c->digest_low);
#define GET(name)   \
    if (IS(#name)) \
        return read_array(space, &c->name, 1);
    SINGLE_LIST(GET)
#undef GET
    if (IS("relay_seen"))
        return read_array(space, c->relay_seen, STK__MAX_RELAYS);
    if (IS("relay_epoch"))
        return read_array(space, c->relay_epoch, STK__MAX_RELAYS);
    if (IS("batch_seen"))
        return read_array(space, c->batch_seen, STK__CHAIN_MAX);
    if (IS("sink") && strlen(space + 1) < sizeof c->sink) {
        memcpy(c->sink, space + 1, strlen(space + 1) + 1);
        return true;
    }
#undef IS
    return false;
}

static bool is_count(int64_t n)
{
    return n >= 0 && n <= STK__POSITION_MAX;
}

static bool sane(const stk__checkpoint *c)
{
    bool ok = c->world > 0 && c->rank < c->world && c->position <= c->batches && c->first_epoch <= FIRST_EPOCH_MAX &&
              c->epoch <= ROUNDS_MAX && c->elastic_epoch <= ROUNDS_MAX;
#define CHECK(name) ok = ok && is_count(c->name);
    SINGLE_LIST(CHECK)
#undef CHECK
    for (int i = 0; i < STK__MAX_RELAYS; i++)
        ok = ok && is_count(c->relay_seen[i]);
    for (int i = 0; i < STK__CHAIN_MAX; i++)
        ok = ok && is_count(c->batch_seen[i]);
    return ok;
}

stk_status stk__checkpoint_parse(char *text, size_t size, stk__checkpoint *out, stk_error *err)
{
    const size_t header = strlen(HEADER);
    if (size < header || memcmp(text, HEADER, header) != 0)
        return stk_error_set(err, STK_MISMATCH, "is no checkpoint of this version");
    const char *last = NULL;
    for (char *p = text + header; (p = strstr(p, "check "));) {
        if (p[-1] == '\n')
            last = p;
        p++;
    }
    uint64_t check;
    char hex[17] = {0};
    if (last && size - (size_t)(last - text) == 23 && text[size - 1] == '\n')
        memcpy(hex, last + 6, 16);
    if (!last || !read_hex(hex, &check) || XXH3_64bits(text, (size_t)(last - text)) != check)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is damaged: its check sum does not fit");
    memset(out, 0, sizeof *out);
    text[last - text] = 0;
    for (char *line = text + header; *line;) {
        char *end = strchr(line, '\n');
        if (!end)
            break;
        *end = 0;
        if (!read_line(out, line))
            return stk_error_set(err, STK_MISMATCH, "the checkpoint has a line that is not understood: '%.60s'", line);
        line = end + 1;
    }
    if (!sane(out))
        return stk_error_set(err, STK_MISMATCH, "the checkpoint holds numbers that cannot be");
    return STK_OK;
}

uint64_t stk__data_fingerprint(const stk_pipeline *p, int steps)
{
    const stk_op *source = p->plan.source->op;
    uint64_t h = source->fingerprint ? source->fingerprint(&p->plan.source->call) : 0;
    for (int i = 0; i < steps; i++) {
        const stk__step *step = p->plan.segment[i];
        if (step != p->plan.source && !step->unused && step->op->fingerprint)
            h = stk__mix(h, step->op->fingerprint(&step->call));
    }
    return h;
}

static void shard_of(const stk_pipeline *p, int64_t *world, int64_t *rank)
{
    *world = 1;
    *rank = 0;
    for (int i = 0; i < p->plan.step_count; i++) {
        const stk__step *step = &p->plan.steps[i];
        if (step->op->role == STK_ROLE_ORDER && step->op->order->get_shard)
            step->op->order->get_shard(step->state, world, rank);
    }
}

/* The place after the last batch that next returned. */
static void take_place(stk_pipeline *p, stk__checkpoint *c)
{
    pthread_mutex_lock(&p->lock);
    const stk__place at = p->consumed;
    pthread_mutex_unlock(&p->lock);
    *c = (stk__checkpoint){.pipeline = p->plan.fingerprint,
                           .data = p->data_fingerprint,
                           .batches = at.batches,
                           .samples = at.samples,
                           .ticket = at.ticket,
                           .position = at.batches - p->index_base,
                           .skipped = at.skipped,
                           .quarantined = at.quarantined,
                           .dropped = at.dropped,
                           .lost_bytes = at.lost_bytes,
                           .batch_size = p->plan.batching.size,
                           .elastic = p->plan.chain.elastic,
                           .elastic_epoch = p->plan.chain.elastic_epoch,
                           .elastic_base = p->plan.chain.elastic_base,
                           .first_epoch = p->first_epoch,
                           .round_batches = at.round_batches};
    memcpy(c->relay_seen, at.relay_seen, sizeof c->relay_seen);
    memcpy(c->relay_epoch, at.relay_epoch, sizeof c->relay_epoch);
    memcpy(c->batch_seen, at.batch_seen, sizeof c->batch_seen);
}

static stk_status print_place(stk_pipeline *p, stk__text *out, stk_error *err)
{
    stk__checkpoint c;
    take_place(p, &c);
    STK_TRY(stk__sink_save(p, c.samples, c.sink, err));
    shard_of(p, &c.world, &c.rank);
    if (p->direct && !stk__chain_inelastic(&p->plan.chain))
        stk__chain_progress(&p->plan.chain, c.position, &c.epoch, &c.consumed);
    if (p->digest) {
        c.has_digest = 1;
        stk__digest_get(p->digest, &c.digest_high, &c.digest_low);
    }
    stk__checkpoint_print(&c, out);
    return out->failed ? stk__nomem(out->length, err) : STK_OK;
}

stk_status stk_pipeline_checkpoint(stk_pipeline *p, const char *path, stk_error *err)
{
    stk_error_clear(err);
    stk__text t = STK__TEXT_INIT;
    stk_status status = print_place(p, &t, err);
    if (status == STK_OK)
        status = stk__write_file(path, t.data, t.length, err);
    stk__text_clear(&t);
    return status;
}

stk_status stk_pipeline_state(stk_pipeline *p, char **out_text, stk_error *err)
{
    stk_error_clear(err);
    stk__text t = STK__TEXT_INIT;
    const stk_status status = print_place(p, &t, err);
    if (status == STK_OK)
        *out_text = t.data;
    else
        stk__text_clear(&t);
    return status;
}

bool stk_pipeline_carry_digest(stk_pipeline *p, stk_digest *digest)
{
    p->digest = digest;
    if (p->resumed_digest)
        stk__digest_set(digest, p->digest_high, p->digest_low);
    return p->resumed_digest || !stk__resumes(p);
}

/* Batches, or tickets, of the epochs before this one, where they can be counted and have an end. */
static stk_status epochs_before(const stk_pipeline *p, int64_t epoch, int64_t *out, stk_error *err)
{
    const stk__chain *chain = &p->plan.chain;
    const int64_t each = p->direct ? chain->nodes[chain->count - 1].in : chain->samples;
    const int64_t total = p->direct ? chain->total : p->total_tickets;
    if (each == STK__ENDLESS)
        return stk_error_set(err, STK_INVALID, "the run cannot begin with epoch %" PRId64 ": an epoch has no end",
                             epoch);
    const int64_t before = stk__position_scale(epoch, each, 0);
    if (before >= STK__POSITION_MAX && total == STK__ENDLESS)
        return stk_error_set(err, STK_INVALID, "the run cannot begin with epoch %" PRId64 ": it lies behind batch 2^62",
                             epoch);
    *out = STK_MIN(before, total);
    return STK_OK;
}

stk_status stk__begin_epoch(stk_pipeline *p, int64_t epoch, stk_error *err)
{
    stk__chain *chain = &p->plan.chain;
    if (epoch < 0 || epoch > FIRST_EPOCH_MAX)
        return stk_error_set(err, STK_INVALID, "first_epoch must be in 0..%" PRId64 ", got %" PRId64, FIRST_EPOCH_MAX,
                             epoch);
    p->first_epoch = epoch;
    if (epoch == 0)
        return STK_OK;
    if (!stk__chain_ends_in_repeat(chain)) {
        const bool repeats_last =
            !p->plan.batch && chain->count > 0 && chain->nodes[chain->count - 1].order->kind == STK__ORDER_REPEAT;
        if (repeats_last)
            return stk_error_set(err, STK_INVALID,
                                 "the run cannot begin with epoch %" PRId64
                                 ": samples of several epochs share batches; put a "
                                 "batch before repeat",
                                 epoch);
        chain->outer_epoch = epoch;
        return STK_OK;
    }
    if (p->plan.stream) {
        stk__feeder_begin(p, epoch);
        return STK_OK;
    }
    int64_t start = 0;
    STK_TRY(epochs_before(p, epoch, &start, err));
    if (p->direct)
        p->next_batch = p->place.batches = start;
    else
        p->next_ticket = p->place.ticket = start;
    return STK_OK;
}

/* Goes on with another number of ranks, in the middle of an epoch. */
static stk_status go_on_elastic(stk_pipeline *p, const stk__checkpoint *c, int64_t world, stk_error *err)
{
    const char *why = p->direct ? stk__chain_inelastic(&p->plan.chain)
                                : "a filter, a stream or an --on-error policy makes ranks go at different paces";
    if (why)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is of a run with %" PRId64 " ranks, this one has %" PRId64
                                                ", and the pipeline cannot change that: %s",
                             c->world, world, why);
    const stk__chain_node *shard = &p->plan.chain.nodes[p->plan.chain.shard_at];
    if (c->consumed > shard->in)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint stands behind sample %" PRId64 ", there are %" PRId64,
                             c->consumed, shard->in);
    const bool counts_epochs = stk__chain_ends_in_repeat(&p->plan.chain);
    const int64_t began = c->elastic ? c->elastic_epoch : counts_epochs ? c->first_epoch : 0;
    if (c->elastic_base <= shard->in &&
        stk__chain_out_of_step(&p->plan.chain, c->world, began, c->elastic_base, c->epoch))
        return stk_error_set(err, STK_MISMATCH,
                             "the checkpoint is of a run with %" PRId64 " ranks, whose epochs differ in length, so that its "
                             "place is not that of the others; write shard(uneven=pad) or shard(uneven=drop)",
                             c->world);
    const int64_t base = c->elastic && c->epoch == c->elastic_epoch ? c->elastic_base : 0;
    if (stk__chain_evens_out(&p->plan.chain, c->world, base, c->consumed))
        return stk_error_set(err, STK_MISMATCH,
                             "the checkpoint is of a run with %" PRId64 " ranks, before the last batch of an epoch, where "
                             "not all ranks have as many samples; go on with that number of ranks, or from another batch",
                             c->world);
    stk__chain_go_on(&p->plan.chain, c->epoch, c->consumed);
    p->next_batch = 0;
    p->index_base = c->batches;
    return STK_OK;
}

static stk_status go_on_same(stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    if (!p->direct) {
        p->next_ticket = p->place.ticket = c->ticket;
        if (!p->plan.stream)
            return c->ticket <= p->total_tickets
                       ? STK_OK
                       : stk_error_set(err, STK_MISMATCH, "the checkpoint stands at sample %" PRId64 " of %" PRId64, c->ticket,
                                       p->total_tickets);
        return stk__feeder_skip(p, c->ticket, err);
    }
    if (c->elastic) {
        const char *why = stk__chain_inelastic(&p->plan.chain);
        if (why)
            return stk_error_set(err, STK_MISMATCH, "the checkpoint changed the number of ranks, but %s", why);
        const stk__chain_node *shard = &p->plan.chain.nodes[p->plan.chain.shard_at];
        if (c->elastic_base > shard->in)
            return stk_error_set(err, STK_MISMATCH, "the checkpoint stands behind sample %" PRId64 ", there are %" PRId64,
                                 c->elastic_base, shard->in);
        stk__chain_go_on(&p->plan.chain, c->elastic_epoch, c->elastic_base);
    }
    if (c->position > p->plan.chain.total)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint stands at batch %" PRId64 " of %" PRId64, c->position,
                             p->plan.chain.total);
    p->next_batch = c->position;
    p->index_base = c->batches - c->position;
    return STK_OK;
}

static stk_status apply(stk_pipeline *p, const stk__checkpoint *c, stk_error *err)
{
    if (c->pipeline != p->plan.fingerprint)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is of another pipeline: ops, options or seed differ%s",
                             c->batch_size != p->plan.batching.size ? " (its batch size does)" : "");
    if (c->data != p->data_fingerprint)
        return stk_error_set(err, STK_MISMATCH, "the checkpoint is of other data: files, sizes or contents differ");
    if (stk__begin_epoch(p, c->first_epoch, err) != STK_OK) {
        if (err)
            err->status = STK_MISMATCH; /* the checkpoint says so, not the caller */
        return STK_MISMATCH;
    }
    p->place = (stk__place){.batches = c->batches,
                            .samples = c->samples,
                            .round_batches = c->round_batches,
                            .ticket = c->ticket,
                            .skipped = c->skipped,
                            .quarantined = c->quarantined,
                            .dropped = c->dropped,
                            .lost_bytes = c->lost_bytes};
    memcpy(p->place.relay_seen, c->relay_seen, sizeof c->relay_seen);
    memcpy(p->place.relay_epoch, c->relay_epoch, sizeof c->relay_epoch);
    memcpy(p->place.batch_seen, c->batch_seen, sizeof c->batch_seen);
    int64_t world, rank;
    shard_of(p, &world, &rank);
    STK_TRY(world == c->world ? go_on_same(p, c, err) : go_on_elastic(p, c, world, err));
    p->start = p->consumed = p->place;
    p->resumed_digest = c->has_digest != 0;
    p->digest_high = c->digest_high;
    p->digest_low = c->digest_low;
    return stk__sink_restore(p, c, world != c->world, err);
}

/* Reads the text, which is changed on the way, and goes there. */
static stk_status load_text(stk_pipeline *p, char *text, size_t size, stk_error *err)
{
    stk__checkpoint c;
    STK_TRY(stk__checkpoint_parse(text, size, &c, err));
    return apply(p, &c, err);
}

static stk_status load_file(stk_pipeline *p, const char *path, stk_error *err)
{
    char *text;
    size_t size;
    STK_TRY(stk__read_file(path, MAX_BYTES, &text, &size, err));
    const stk_status status = load_text(p, text, size, err);
    if (status == STK_MISMATCH && err)
        snprintf(err->file, sizeof err->file, "%s", path);
    stk__free(text);
    return status;
}

static stk_status load_state(stk_pipeline *p, const char *state, stk_error *err)
{
    const size_t size = strnlen(state, MAX_BYTES + 1);
    if (size > MAX_BYTES)
        return stk_error_set(err, STK_MISMATCH, "resume_state has more than %d bytes: it is no state of a run",
                             MAX_BYTES);
    char *text = stk__strndup(state, size);
    if (!text)
        return stk__nomem(size, err);
    const stk_status status = load_text(p, text, size, err);
    stk__free(text);
    return status;
}

stk_status stk__checkpoint_load(stk_pipeline *p, stk_error *err)
{
    const stk_config *config = &p->plan.config;
    return config->resume_path ? load_file(p, config->resume_path, err) : load_state(p, config->resume_state, err);
}
