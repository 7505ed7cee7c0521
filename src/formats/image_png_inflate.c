/*
 * Inflates pixels. Filtered rows of photographs are mostly literals, and there
 * it is the look-up of one after the other that takes the time; so an entry of
 * the table holds up to three literals whose codes fit into its bits together.
 */
#include "formats/image_png_inflate.h"

#include <string.h>

#include <libdeflate.h>

#include "base/compiler.h"
#include "formats/image_png_tables.h"
#include "kernels/simd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bits and literals are read and written as whole words");

#define LITERAL_BITS STK__INFLATE_LITERAL_BITS
#define TAKE STK__INFLATE_TAKE
#define COUNT STK__INFLATE_COUNT
#define END_OF_BLOCK STK__INFLATE_END_OF_BLOCK
#define ELSEWHERE STK__INFLATE_ELSEWHERE

#define INLINE static inline __attribute__((always_inline))

/* ---- bits ---- */

typedef struct reader {
    uint64_t bits;
    unsigned left; /* of them */
    unsigned past; /* bytes of zeros that were read behind the end */
    const uint8_t *in, *in_end;
    uint8_t *out, *out_start, *out_stop;
} reader;

static inline void refill(reader *r)
{
    if (STK_LIKELY(r->in_end - r->in >= 8)) {
        uint64_t next;
        memcpy(&next, r->in, 8);
        r->bits |= next << r->left;
        r->in += (63 - r->left) >> 3;
        r->left |= 56;
        return;
    }
    while (r->left <= 56) {
        if (r->in < r->in_end)
            r->bits |= (uint64_t)*r->in++ << r->left;
        else
            r->past++;
        r->left += 8;
    }
}

/* Whether bits were taken that are not there. */
static bool is_cut_off(const reader *r)
{
    return r->past * 8 > r->left;
}

static inline unsigned take(reader *r, unsigned n)
{
    const unsigned value = (unsigned)(r->bits & ((1u << n) - 1));
    r->bits >>= n;
    r->left -= n;
    return value;
}

/* Copies a match; may write up to 31 bytes past its end. */
static inline uint8_t *copy_match(uint8_t *out, size_t distance, size_t length)
{
    const uint8_t *from = out - distance;
    uint8_t *const end = out + length;
    if (STK_LIKELY(distance >= 16)) {
        memcpy(out, from, 16);
        memcpy(out + 16, from + 16, 16);
        while (STK_UNLIKELY((out += 32) < end)) {
            from += 32;
            memcpy(out, from, 16);
            memcpy(out + 16, from + 16, 16);
        }
    } else if (distance == 1) {
        const uint64_t same = *from * 0x0101010101010101u;
        do {
            memcpy(out, &same, 8);
            memcpy(out + 8, &same, 8);
            out += 16;
        } while (out < end);
    } else {
        /* Of each word the first `distance` bytes are right, and the next one goes on from there. */
        const size_t step = STK_MIN(distance, (size_t)8);
        do {
            memcpy(out, from, 8);
            out += step;
            from += step;
        } while (out < end);
    }
    return end;
}

/* ---- blocks ---- */

typedef enum block_end { BLOCK_ENDED, BLOCK_PAUSED, BLOCK_DAMAGED } block_end;

/* A stream whose end is far away, in registers. Of `left` only the low 6 bits
 * count. */
typedef struct lane {
    uint64_t bits;
    uint32_t left;
    const uint8_t *in, *in_last;
    uint8_t *out, *out_start, *out_stop;
} lane;

/* False when the end of the input is near: a round reads at most 3 times 8 bytes, and moves on by 7 each time. */
INLINE bool lane_fits(const reader *r)
{
    return r->in_end - r->in >= 32 && !r->past;
}

INLINE lane lane_open(const reader *r)
{
    return (lane){r->bits, r->left, r->in, r->in_end - 32, r->out, r->out_start, r->out_stop};
}

INLINE void lane_close(const lane *l, reader *r)
{
    r->bits = l->bits;
    r->left = l->left & 63;
    r->in = l->in;
    r->out = l->out;
}

INLINE bool lane_goes_on(const lane *l)
{
    return l->in <= l->in_last && l->out < l->out_stop;
}

/* At least 56 bits. */
INLINE void lane_refill(lane *l)
{
    uint64_t next;
    memcpy(&next, l->in, 8);
    l->bits |= next << (l->left & 63);
    l->in += 7 - (l->left >> 3 & 7);
    l->left |= 56;
}

INLINE uint32_t lane_look(const lane *l, const stk__inflate *s)
{
    return s->literals[l->bits & ((1u << LITERAL_BITS) - 1)];
}

/* Writes the literals of an entry, and looks up the next. */
INLINE uint32_t lane_put(lane *l, const stk__inflate *s, uint32_t entry)
{
    const uint32_t literals = entry >> 8;
    memcpy(l->out, &literals, 4);
    l->out += (uint8_t)entry >> 6;
    l->bits >>= entry & TAKE;
    l->left -= entry;
    return lane_look(l, s);
}

/*
 * A match, or a literal with a long code; *entry is what was looked up, and becomes the next. `full`: nothing was taken
 * since the last refill. False, and nothing is taken, for all else.
 */
INLINE bool lane_other(lane *l, const stk__inflate *s, uint32_t *entry, bool full)
{
    uint32_t what = *entry;
    if (!full)
        lane_refill(l);
    if (STK_UNLIKELY(what & ELSEWHERE)) {
        what = s->literals[(what >> 16) + (l->bits >> LITERAL_BITS & ((1u << s->literal_rest) - 1))];
        if (what & COUNT) {
            lane_put(l, s, what);
            lane_refill(l);
            *entry = lane_look(l, s);
            return true;
        }
    }
    if (STK_UNLIKELY(!what || what & END_OF_BLOCK))
        return false;
    unsigned extra = what >> 8 & 15;
    const size_t length = (what >> 16) + (l->bits >> ((what & TAKE) - extra) & ((1u << extra) - 1));
    const uint64_t bits = l->bits >> (what & TAKE);
    uint32_t where = s->distances[bits & ((1u << s->distance_bits) - 1)];
    if (STK_UNLIKELY(where & ELSEWHERE))
        where = s->distances[(where >> 16) + (bits >> s->distance_bits & ((1u << s->distance_rest) - 1))];
    extra = where >> 8 & 15;
    const size_t distance = (where >> 16) + (bits >> ((where & TAKE) - extra) & ((1u << extra) - 1));
    if (STK_UNLIKELY(!where || distance > (size_t)(l->out - l->out_start)))
        return false;
    l->bits = bits >> (where & TAKE);
    l->left -= (what & TAKE) + (where & TAKE);
    /* The next look-up takes longest, and must not wait for the copy. */
    lane_refill(l);
    *entry = lane_look(l, s);
    l->out = copy_match(l->out, distance, length);
    return true;
}

/* Four entries of literals and a look at the next one fit into a refill. */
_Static_assert(5 * LITERAL_BITS <= 56, "a look-up must not run out of bits");

INLINE bool step(lane *l, const stk__inflate *s, uint32_t *entry)
{
    if (STK_UNLIKELY(!(*entry & COUNT)))
        return false;
    *entry = lane_put(l, s, *entry);
    return true;
}

/*
 * Decodes while there is input for it without a look at its end. Stops before
 * the end of the block, before what is damaged, where the output should stop,
 * or near the end of the input.
 */
INLINE void decode_fast(const stk__inflate *s, reader *r)
{
    if (!lane_fits(r))
        return;
    lane l = lane_open(r);
    lane_refill(&l);
    uint32_t entry = lane_look(&l, s);
    while (lane_goes_on(&l)) {
        if (!step(&l, s, &entry)) {
            if (!lane_other(&l, s, &entry, true))
                break;
        } else if (step(&l, s, &entry) && step(&l, s, &entry) && step(&l, s, &entry)) {
            lane_refill(&l);
        } else if (!lane_other(&l, s, &entry, false)) {
            break;
        }
    }
    lane_close(&l, r);
}

INLINE bool step_pair(lane *a, const stk__inflate *sa, uint32_t *ea, lane *b, const stk__inflate *sb, uint32_t *eb)
{
    if (STK_UNLIKELY(!(*ea & COUNT)) || STK_UNLIKELY(!(*eb & COUNT)))
        return false;
    *ea = lane_put(a, sa, *ea);
    *eb = lane_put(b, sb, *eb);
    return true;
}

/* Which of two streams stopped. */
enum { STOPPED_A = 1, STOPPED_B = 2 };

/*
 * The same for two streams in turns, until one of them stops; returns which. A look-up has to wait for the one before
 * it, and the other stream fills that time.
 */
INLINE unsigned decode_pair(const stk__inflate *sa, reader *ra, const stk__inflate *sb, reader *rb)
{
    unsigned stopped = (lane_fits(ra) ? 0u : STOPPED_A) | (lane_fits(rb) ? 0u : STOPPED_B);
    if (stopped)
        return stopped;
    lane a = lane_open(ra), b = lane_open(rb);
    lane_refill(&a);
    lane_refill(&b);
    uint32_t ea = lane_look(&a, sa), eb = lane_look(&b, sb);
    while (lane_goes_on(&a) && lane_goes_on(&b)) {
        lane_refill(&a);
        lane_refill(&b);
        if (step_pair(&a, sa, &ea, &b, sb, &eb) && step_pair(&a, sa, &ea, &b, sb, &eb) &&
            step_pair(&a, sa, &ea, &b, sb, &eb) && step_pair(&a, sa, &ea, &b, sb, &eb))
            continue;
        if (!(ea & COUNT) && !lane_other(&a, sa, &ea, false))
            stopped |= STOPPED_A;
        if (!(eb & COUNT) && !lane_other(&b, sb, &eb, false))
            stopped |= STOPPED_B;
        if (STK_UNLIKELY(stopped))
            break;
    }
    if (!stopped)
        stopped = (lane_goes_on(&a) ? 0u : STOPPED_A) | (lane_goes_on(&b) ? 0u : STOPPED_B);
    lane_close(&a, ra);
    lane_close(&b, rb);
    return stopped;
}

static void decode_fast_plain(const stk__inflate *s, reader *r)
{
    decode_fast(s, r);
}

static unsigned decode_pair_plain(const stk__inflate *sa, reader *ra, const stk__inflate *sb, reader *rb)
{
    return decode_pair(sa, ra, sb, rb);
}

#if defined(__x86_64__)
/* Shifts by any register need no detour there. */
STK__AVX2 static void decode_fast_avx2(const stk__inflate *s, reader *r)
{
    decode_fast(s, r);
}

STK__AVX2 static unsigned decode_pair_avx2(const stk__inflate *sa, reader *ra, const stk__inflate *sb, reader *rb)
{
    return decode_pair(sa, ra, sb, rb);
}
#endif

/* One after the other, with a look at the end of the input for each. */
static block_end decode_last(const stk__inflate *s, reader *r)
{
    while (r->out < r->out_stop) {
        refill(r);
        uint32_t entry = s->literals[r->bits & ((1u << LITERAL_BITS) - 1)];
        if (!(entry & COUNT) && entry & ELSEWHERE)
            entry = s->literals[(entry >> 16) + (r->bits >> LITERAL_BITS & ((1u << s->literal_rest) - 1))];
        if (entry & COUNT) {
            const uint32_t put = entry >> 8;
            memcpy(r->out, &put, 4);
            r->out += entry >> 6 & 3;
            take(r, entry & TAKE);
        } else if (entry & END_OF_BLOCK || !entry) {
            take(r, entry & TAKE);
            return entry ? BLOCK_ENDED : BLOCK_DAMAGED;
        } else {
            unsigned extra = entry >> 8 & 15;
            take(r, (entry & TAKE) - extra);
            const size_t length = (entry >> 16) + take(r, extra);
            uint32_t where = s->distances[r->bits & ((1u << s->distance_bits) - 1)];
            if (where & ELSEWHERE)
                where = s->distances[(where >> 16) + (r->bits >> s->distance_bits & ((1u << s->distance_rest) - 1))];
            extra = where >> 8 & 15;
            take(r, (where & TAKE) - extra);
            const size_t distance = (where >> 16) + take(r, extra);
            if (!where || distance > (size_t)(r->out - r->out_start))
                return BLOCK_DAMAGED;
            r->out = copy_match(r->out, distance, length);
        }
        if (is_cut_off(r))
            break;
    }
    return BLOCK_PAUSED;
}

static block_end decode_block(const stk__inflate *s, reader *r)
{
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2)
        decode_fast_avx2(s, r);
    else
        decode_fast_plain(s, r);
#else
    decode_fast_plain(s, r);
#endif
    return decode_last(s, r);
}

/* Bytes as they are: up to 65535 of them, as far as they are wanted. */
static block_end copy_stored(reader *r)
{
    take(r, r->left & 7);
    refill(r);
    const unsigned length = take(r, 16), check = take(r, 16);
    if (is_cut_off(r))
        return BLOCK_PAUSED;
    if (length != (check ^ 0xffff))
        return BLOCK_DAMAGED;
    r->in -= r->left / 8 - r->past;
    r->bits = 0;
    r->left = 0;
    r->past = 0;
    const size_t wanted = STK_MIN((size_t)length, (size_t)(r->out_stop - r->out));
    const size_t found = STK_MIN(wanted, (size_t)(r->in_end - r->in));
    memcpy(r->out, r->in, found);
    r->out += found;
    r->in += found;
    if (found < wanted)
        r->past = 1; /* one more byte than there is */
    return found == length ? BLOCK_ENDED : BLOCK_PAUSED;
}

static inline void codes_add(stk__inflate_codes *codes, unsigned symbol, unsigned length)
{
    codes->symbols[length][codes->count[length]++] = (uint16_t)symbol;
}

static bool build_fixed(stk__inflate *s)
{
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    for (unsigned i = 0; i < 288; i++)
        codes_add(&s->literal_codes, i, i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    for (unsigned i = 0; i < 32; i++)
        codes_add(&s->distance_codes, i, 5);
    return stk__inflate_build_literals(s) && stk__inflate_build_distances(s);
}

/* The table of the code that the lengths of all others are written in. */
static bool build_lengths(stk__inflate *s, reader *r, unsigned count)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[19] = {0};
    refill(r); /* for 18 of them */
    for (unsigned i = 0; i < count; i++) {
        if (i == 18)
            refill(r);
        lengths[order[i]] = (uint8_t)take(r, 3);
    }
    return stk__inflate_build_lengths(s, lengths);
}

/* Adds `count` symbols with codes of one length, of which those from `literals`
 * on are distances. */
static void add_same(stk__inflate *s, unsigned literals, unsigned first, unsigned count, unsigned length)
{
    for (unsigned i = first; i < first + count; i++)
        codes_add(i < literals ? &s->literal_codes : &s->distance_codes, i < literals ? i : i - literals, length);
}

/* Reads the lengths of all codes; false when they are damaged. */
static bool read_lengths(stk__inflate *s, reader *r, unsigned literals, unsigned total)
{
    unsigned last = 0;
    for (unsigned i = 0; i < total;) {
        refill(r);
        for (unsigned k = 0; k < 4 && i < total; k++) { /* a code of up to 7 bits and as many extra bits each */
            const unsigned entry = s->lengths[r->bits & 127], symbol = entry >> 3;
            take(r, entry & 7);
            if (STK_LIKELY(entry && symbol < 16)) {
                last = symbol;
                codes_add(i < literals ? &s->literal_codes : &s->distance_codes, i < literals ? i : i - literals,
                          symbol);
                i++;
                continue;
            }
            const unsigned repeat = symbol == 16 ? 3 + take(r, 2) : symbol == 17 ? 3 + take(r, 3) : 11 + take(r, 7);
            if (!entry || repeat > total - i || (symbol == 16 && i == 0) || is_cut_off(r))
                return false;
            last = symbol == 16 ? last : 0;
            if (last)
                add_same(s, literals, i, repeat, last);
            i += repeat;
        }
    }
    return true;
}

static bool read_tables(stk__inflate *s, reader *r)
{
    refill(r);
    const unsigned literals = take(r, 5) + 257, distances = take(r, 5) + 1, count = take(r, 4) + 4;
    if (literals > 286 || distances > 30 || !build_lengths(s, r, count))
        return false;
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    return read_lengths(s, r, literals, literals + distances) && stk__inflate_build_literals(s) &&
           stk__inflate_build_distances(s);
}

/* ---- streams ---- */

typedef enum block_kind { BLOCK_STORED, BLOCK_CODED, BLOCK_UNREADABLE } block_kind;

typedef struct stream {
    stk__inflate *s;
    reader r;
    block_kind kind; /* of the block at hand */
    bool last;       /* whether it is */
    bool over;       /* nothing is left to be done, and this is what came out: */
    stk__inflate_result result;
} stream;

/* Reads what comes before the data of a block. */
static void open_block(stream *t)
{
    refill(&t->r);
    t->last = take(&t->r, 1);
    const unsigned kind = take(&t->r, 2);
    if (kind == 0)
        t->kind = BLOCK_STORED;
    else if (kind == 3 || !(kind == 1 ? build_fixed(t->s) : read_tables(t->s, &t->r)))
        t->kind = BLOCK_UNREADABLE;
    else
        t->kind = BLOCK_CODED;
}

/* Opens the stream and its first block. */
static void open_stream(stream *t, const stk__inflate_job *job)
{
    const uint8_t *in = job->in;
    *t = (stream){.s = job->tables, .over = true, .result = STK__INFLATE_DAMAGED};
    t->r = (reader){.in = in, .in_end = in + job->in_size};
    t->r.out = t->r.out_start = job->out;
    t->r.out_stop = job->out + job->stop;
    if (job->in_size < 2) {
        t->result = STK__INFLATE_CUT_OFF;
        return;
    }
    /* Deflate, with a window of any size, without a dictionary. */
    if ((in[0] & 15) != 8 || in[0] >> 4 > 7 || in[1] & 0x20 || (in[0] << 8 | in[1]) % 31 != 0)
        return;
    t->r.in += 2;
    t->over = false;
    open_block(t);
}

/* Decodes the rest of the block at hand, and opens the next. What comes behind the bytes that are wanted is of no
 * interest, even where it is damaged. */
static void finish_block(stream *t)
{
    block_end end = BLOCK_DAMAGED;
    if (t->kind != BLOCK_UNREADABLE)
        end = t->kind == BLOCK_STORED ? copy_stored(&t->r) : decode_block(t->s, &t->r);
    if (end == BLOCK_ENDED && !t->last && !is_cut_off(&t->r) && t->r.out < t->r.out_stop) {
        open_block(t);
        return;
    }
    t->over = true;
    if (is_cut_off(&t->r))
        t->result = STK__INFLATE_CUT_OFF;
    else if (t->r.out >= t->r.out_stop)
        t->result = STK__INFLATE_STOPPED;
    else
        t->result = end == BLOCK_ENDED ? STK__INFLATE_DONE : STK__INFLATE_DAMAGED;
}

static stk__inflate_result check_sum(reader *r)
{
    take(r, r->left & 7);
    refill(r);
    uint32_t wanted = 0;
    for (int i = 0; i < 4; i++)
        wanted = wanted << 8 | take(r, 8);
    if (is_cut_off(r))
        return STK__INFLATE_CUT_OFF;
    const uint32_t found = libdeflate_adler32(1, r->out_start, (size_t)(r->out - r->out_start));
    return found == wanted ? STK__INFLATE_DONE : STK__INFLATE_DAMAGED;
}

static void finish_stream(stream *t, stk__inflate_job *job)
{
    while (!t->over)
        finish_block(t);
    job->result = t->result;
    job->out_size = (size_t)(t->r.out - t->r.out_start);
    if (job->result == STK__INFLATE_DONE)
        job->result = check_sum(&t->r);
}

void stk__inflate_zlib(stk__inflate_job *job)
{
    stream t;
    open_stream(&t, job);
    finish_stream(&t, job);
}

/* Decodes both blocks at hand until one of them ends; returns which. Those that are not coded have ended. */
static unsigned decode_blocks(stream *a, stream *b)
{
    const unsigned stopped = (a->kind == BLOCK_CODED ? 0u : STOPPED_A) | (b->kind == BLOCK_CODED ? 0u : STOPPED_B);
    if (stopped)
        return stopped;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2)
        return decode_pair_avx2(a->s, &a->r, b->s, &b->r);
#endif
    return decode_pair_plain(a->s, &a->r, b->s, &b->r);
}

void stk__inflate_zlib_pair(stk__inflate_job *a, stk__inflate_job *b)
{
    stream ta, tb;
    open_stream(&ta, a);
    open_stream(&tb, b);
    while (!ta.over && !tb.over) {
        const unsigned stopped = decode_blocks(&ta, &tb);
        if (stopped & STOPPED_A)
            finish_block(&ta);
        if (stopped & STOPPED_B)
            finish_block(&tb);
    }
    finish_stream(&ta, a);
    finish_stream(&tb, b);
}
