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

#define NAME "stoker-checkpoint "
#define HEADER NAME "2\n"
/* Rounds of a repeat without end that any run can come to. */
#define ROUNDS_MAX ((int64_t)1 << 48)

/* All numbers of the file, by name: decimal ones, hashes, and rows of numbers. What is added here is printed, read and checked. */
#define SINGLE_LIST(X)                                                                                            \
    X(batches)                                                                                                    \
    X(samples) X(ticket) X(position) X(skipped) X(quarantined) X(dropped) X(lost_bytes) X(world) X(rank) X(epoch) \
        X(consumed) X(elastic) X(elastic_epoch) X(elastic_base) X(batch_size) X(has_digest) X(first_epoch)        \
            X(round_batches) X(mode) X(exact) X(approximations) X(automatic) X(listed_bytes)
#define HASH_LIST(X) X(pipeline) X(data) X(stamp) X(shards) X(digest_high) X(digest_low) X(listed_check)
#define ROW_LIST(X) X(relay_seen) X(relay_epoch) X(batch_seen)

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
#define PUT_HASH(name) stk__text_printf(t, #name " %016" PRIx64 "\n", c->name);
    HASH_LIST(PUT_HASH)
#undef PUT_HASH
#define PUT(name) stk__text_printf(t, #name " %" PRId64 "\n", c->name);
    SINGLE_LIST(PUT)
#undef PUT
#define PUT_ROW(name) put_array(t, #name, c->name, (int)STK_COUNT(c->name));
    ROW_LIST(PUT_ROW)
#undef PUT_ROW
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
#define GET_HASH(name) \
    if (IS(#name))     \
        return read_hex(space + 1, &c->name);
    HASH_LIST(GET_HASH)
#undef GET_HASH
#define GET(name)  \
    if (IS(#name)) \
        return read_array(space, &c->name, 1);
    SINGLE_LIST(GET)
#undef GET
#define GET_ROW(name) \
    if (IS(#name))    \
        return read_array(space, c->name, (int)STK_COUNT(c->name));
    ROW_LIST(GET_ROW)
#undef GET_ROW
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
    bool ok = c->world > 0 && c->rank < c->world && c->position <= c->batches && c->first_epoch <= STK__FIRST_EPOCH_MAX &&
              c->epoch <= ROUNDS_MAX && c->elastic_epoch <= ROUNDS_MAX && c->mode <= STK__MODE_STREAM &&
              c->quarantined <= c->skipped;
#define CHECK(name) ok = ok && is_count(c->name);
    SINGLE_LIST(CHECK)
#undef CHECK
    for (int i = 0; i < STK__MAX_RELAYS; i++)
        ok = ok && is_count(c->relay_seen[i]);
    for (int i = 0; i < STK__CHAIN_MAX; i++)
        ok = ok && is_count(c->batch_seen[i]);
    return ok;
}

/* A word for files that are checkpoints, but not ours. */
static stk_status check_header(const char *text, size_t size, stk_error *err)
{
    if (size >= strlen(HEADER) && memcmp(text, HEADER, strlen(HEADER)) == 0)
        return STK_OK;
    if (size >= strlen(NAME "1\n") && memcmp(text, NAME "1\n", strlen(NAME "1\n")) == 0)
        return stk_error_set(err, STK_MISMATCH,
                             "is a checkpoint of an older version of Stoker (its format is 1, wanted 2), which does not "
                             "tell enough to go on exactly: start anew, or finish the run with the version that wrote it");
    return stk_error_set(err, STK_MISMATCH, "is no checkpoint of this version");
}

stk_status stk__checkpoint_parse(char *text, size_t size, stk__checkpoint *out, stk_error *err)
{
    const size_t header = strlen(HEADER);
    STK_TRY(check_header(text, size, err));
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

void stk__shard_numbers(const stk_pipeline *p, int64_t *out_world, int64_t *out_rank, uint64_t *out_all)
{
    uint64_t all = 0;
    int shards = 0;
    *out_world = 1;
    *out_rank = 0;
    for (int i = 0; i < p->plan.step_count; i++) {
        const stk__step *step = &p->plan.steps[i];
        if (step->op->role != STK_ROLE_ORDER || !step->op->order->get_shard)
            continue;
        step->op->order->get_shard(step->state, out_world, out_rank);
        all = stk__mix(stk__mix(all, (uint64_t)*out_world), (uint64_t)*out_rank);
        shards++;
    }
    *out_all = shards > 1 ? all : 0;
}

/* The place after the last batch that next returned. */
static void take_place(stk_pipeline *p, stk__checkpoint *c)
{
    pthread_mutex_lock(&p->lock);
    const stk__place at = p->consumed;
    pthread_mutex_unlock(&p->lock);
    *c = (stk__checkpoint){.pipeline = p->plan.fingerprint,
                           .data = stk__data_fingerprint(p, p->plan.segment_count),
                           .stamp = stk__data_stamp(p, p->plan.segment_count),
                           .batches = at.batches,
                           .samples = at.samples,
                           .ticket = at.ticket,
                           .position = at.batches - p->index_base,
                           .skipped = at.skipped,
                           .quarantined = at.quarantined,
                           .dropped = at.dropped,
                           .lost_bytes = at.lost_bytes,
                           .mode = stk__mode_of(p),
                           .exact = p->plan.config.no_approximate,
                           .approximations = p->plan.approximations,
                           .automatic = p->plan.automatic ? (int64_t)p->plan.config.auto_shard : 0,
                           .listed_bytes = at.listed_bytes,
                           .listed_check = at.listed_check,
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
    stk__shard_numbers(p, &c.world, &c.rank, &c.shards);
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
        status = stk__quarantine_sync(p, err); /* what the checkpoint counts must be there after a power cut, too */
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

