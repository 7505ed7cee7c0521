/*
 * Inflates pixels and other numbers. Filtered rows of photographs are mostly literals, and there it is the look-up of
 * one after the other that takes the time; so an entry of the table holds up to three literals whose codes fit into
 * its bits together. Noisy numbers are literals with short matches in between, and there it is the branches, which
 * cannot be guessed; so the entries of another kind of table hold literals or a match, and the same instructions do
 * for both.
 */
#include "formats/image_png_inflate.h"

#include <string.h>

#include <libdeflate.h>

#include "base/compiler.h"
#include "formats/image_png_tables.h"
#include "kernels/simd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bits and literals are read and written as whole words");

#define LITERAL_BITS STK__INFLATE_LITERAL_BITS
#define MERGED_BITS STK__INFLATE_MERGED_BITS
#define TAKE STK__INFLATE_TAKE
#define COUNT STK__INFLATE_COUNT
#define END_OF_BLOCK STK__INFLATE_END_OF_BLOCK
#define ELSEWHERE STK__INFLATE_ELSEWHERE

#define IS_LITERAL STK__INFLATE_IS_LITERAL
#define WHERE 0x1fffu /* the base of a length, or where to look, once it is shifted down */

enum {
    WINDOW = 32768,    /* no distance is longer */
    MERGE_INPUT = 4096 /* with less input a merged table takes more time than it saves */
};

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
INLINE uint8_t *copy_match(uint8_t *out, size_t distance, size_t length)
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

/* At least 56 bits may be taken then, and all 64 be looked at. */
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

/* Writes the literals of an entry. */
INLINE void lane_put(lane *l, uint32_t entry)
{
    const uint32_t literals = entry >> 8;
    memcpy(l->out, &literals, 4);
    l->out += (uint8_t)entry >> 6;
    l->bits >>= entry & TAKE;
    l->left -= entry;
}

typedef struct match {
    size_t length, distance;
} match;

/*
 * Takes a match from a lane that was just filled, or a literal with a long code, which is written and gives a match of
 * no bytes; `what` is what was looked up. False, and nothing is taken, for all else.
 */
INLINE bool lane_other(lane *l, const stk__inflate *s, uint32_t what, match *out)
{
    if (STK_UNLIKELY(what & ELSEWHERE)) {
        what = s->literals[(what >> 16 & WHERE) + (l->bits >> s->literal_bits & ((1u << s->literal_rest) - 1))];
        if (what & COUNT) {
            lane_put(l, what);
            *out = (match){.length = 0, .distance = 1};
            return true;
        }
    }
    if (STK_UNLIKELY(!what || what & END_OF_BLOCK))
        return false;
    const unsigned taken = what >> 8 & TAKE;
    unsigned extra = what >> 29;
    out->length = (what >> 16 & WHERE) + (l->bits >> (taken - extra) & ((1u << extra) - 1));
    const uint64_t bits = l->bits >> taken;
    uint32_t where = s->distances[bits & ((1u << s->distance_bits) - 1)];
    if (STK_UNLIKELY(where & ELSEWHERE))
        where = s->distances[(where >> 16) + (bits >> s->distance_bits & ((1u << s->distance_rest) - 1))];
    extra = where >> 8 & 15;
    out->distance = (where >> 16) + (bits >> ((where & TAKE) - extra) & ((1u << extra) - 1));
    if (STK_UNLIKELY(!where || out->distance > (size_t)(l->out - l->out_start)))
        return false;
    l->bits = bits >> (where & TAKE);
    l->left -= taken + (where & TAKE);
    return true;
}

/* Four entries of literals and a look at the next one fit into a refill. */
_Static_assert(4 * LITERAL_BITS <= 56 && 5 * LITERAL_BITS <= 64, "a look-up must not run out of bits");

INLINE bool step(lane *l, const stk__inflate *s, uint32_t *entry)
{
    if (STK_UNLIKELY(!(*entry & COUNT)))
        return false;
    lane_put(l, *entry);
    *entry = lane_look(l, s);
    return true;
}

/*
 * What was looked up is no literal: see lane_other(). Looks up the next. `full`: nothing was taken since the last
 * refill.
 */
INLINE bool step_other(lane *l, const stk__inflate *s, uint32_t *entry, bool full)
{
    match m;
    if (!full)
        lane_refill(l);
    if (!lane_other(l, s, *entry, &m))
        return false;
    /* The next look-up takes longest, and must not wait for the copy. */
    lane_refill(l);
    *entry = lane_look(l, s);
    l->out = copy_match(l->out, m.distance, m.length);
    return true;
}

/*
 * Decodes while there is input for it without a look at its end. Stops before
 * the end of the block, before what is damaged, where the output should stop,
 * or near the end of the input.
 */
INLINE void decode_fast(const stk__inflate *s, reader *r)
{
    lane l = lane_open(r);
    lane_refill(&l);
    uint32_t entry = lane_look(&l, s);
    while (lane_goes_on(&l)) {
        if (!step(&l, s, &entry)) {
            if (!step_other(&l, s, &entry, true))
                break;
        } else if (step(&l, s, &entry) && step(&l, s, &entry) && step(&l, s, &entry)) {
            lane_refill(&l);
        } else if (!step_other(&l, s, &entry, false)) {
            break;
        }
    }
    lane_close(&l, r);
}

INLINE bool step_pair(lane *a, const stk__inflate *sa, uint32_t *ea, lane *b, const stk__inflate *sb, uint32_t *eb)
{
    if (STK_UNLIKELY(!(*ea & COUNT)) || STK_UNLIKELY(!(*eb & COUNT)))
        return false;
    lane_put(a, *ea);
    *ea = lane_look(a, sa);
    lane_put(b, *eb);
    *eb = lane_look(b, sb);
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
    unsigned stopped = 0;
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
        if (!(ea & COUNT) && !step_other(&a, sa, &ea, false))
            stopped |= STOPPED_A;
        if (!(eb & COUNT) && !step_other(&b, sb, &eb, false))
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

/* ---- merged tables ---- */

/* And so do two matches, and a look at the next one, also behind one that takes the most bits. */
_Static_assert(2 * (MERGED_BITS + 13) <= 56 && 2 * (MERGED_BITS + 13) + MERGED_BITS <= 64 && 48 + MERGED_BITS <= 64,
               "a look-up must not run out of bits");
_Static_assert(STK__INFLATE_MERGED_LENGTH <= 8, "a match is copied as one word");

INLINE const uint32_t *merged_look(const lane *l, const stk__inflate *s)
{
    return s->literals + (l->bits & ((1u << MERGED_BITS) - 1));
}

/* How a loop for merged tables is made. */
enum {
    NEAR = 1, /* distances may lead before the start of the output */
    BMI2 = 2  /* with its instructions */
};

/* The bits that an entry with a match takes. */
INLINE uint64_t merged_bits(const lane *l, uint32_t entry, unsigned how)
{
#if defined(__x86_64__)
    if (how & BMI2) {
        uint64_t bits;
        __asm__("bzhi %q2, %1, %0" : "=r"(bits) : "r"(l->bits), "r"(entry) : "cc");
        return bits;
    }
#endif
    return l->bits & (((uint64_t)1 << (entry & TAKE)) - 1);
}

/*
 * `b` if the entry holds literals, else `a`, and never by a branch: compilers prefer one, which is guessed wrong as
 * often as matches come up.
 */
INLINE uintptr_t choose(uint32_t entry, uintptr_t a, uintptr_t b)
{
#if defined(__x86_64__)
    __asm__("testb %3, %b2\n\tcmovne %1, %0" : "+r"(a) : "r"(b), "q"(entry), "i"(IS_LITERAL) : "cc");
    return a;
#else
    return entry & IS_LITERAL ? b : a;
#endif
}

/*
 * Literals or a short match, without a branch between them: copies 8 bytes from the entry itself or from the output.
 * The parts of an entry are loaded one by one, since shifts are what there are too few units for. False, and nothing
 * is taken, for all else.
 */
INLINE bool merged_step(lane *l, const uint32_t *look, unsigned how)
{
    const uint32_t entry = *look;
    const uint8_t *bytes = (const uint8_t *)look;
    if (STK_UNLIKELY(!(uint8_t)entry))
        return false;
    const uint64_t extra = merged_bits(l, entry, how) >> (bytes[1] & TAKE);
    size_t distance = extra + stk__inflate_distance_base[bytes[2]];
    if (how & NEAR) {
        distance = entry & IS_LITERAL ? 0 : distance;
        if (STK_UNLIKELY(distance > (size_t)(l->out - l->out_start)))
            return false;
    }
    const uintptr_t before = choose(entry, (uintptr_t)l->out - 1 - distance, (uintptr_t)bytes);
    uint64_t word;
    memcpy(&word, (const uint8_t *)before + 1, sizeof word);
    memcpy(l->out, &word, sizeof word);
    l->out += bytes[3];
    l->bits >>= entry & TAKE;
    l->left -= entry;
    return true;
}

/* What merged_step() does not do. */
INLINE bool merged_other(lane *l, const stk__inflate *s)
{
    match m;
    lane_refill(l);
    const uint32_t what = *merged_look(l, s);
    if ((uint8_t)what || !lane_other(l, s, what, &m))
        return false;
    l->out = copy_match(l->out, m.distance, m.length);
    return true;
}

/* A round writes 16 bytes more than with other tables. */
INLINE lane merged_open(const reader *r)
{
    lane l = lane_open(r);
    if (l.out < l.out_stop)
        l.out_stop -= STK_MIN(l.out_stop - l.out, 16);
    return l;
}

INLINE void decode_merged(const stk__inflate *s, reader *r, unsigned how)
{
    lane l = merged_open(r);
    lane_refill(&l);
    while (lane_goes_on(&l)) {
        const uint32_t *look = merged_look(&l, s);
        lane_refill(&l);
        if (STK_LIKELY(merged_step(&l, look, how)) && STK_LIKELY(merged_step(&l, merged_look(&l, s), how))) {
            look = merged_look(&l, s);
            lane_refill(&l);
            if (STK_LIKELY(merged_step(&l, look, how)) && STK_LIKELY(merged_step(&l, merged_look(&l, s), how)))
                continue;
        }
        if (!merged_other(&l, s))
            break;
    }
    lane_close(&l, r);
}

/* Two entries of each; returns which of them holds something else. */
INLINE unsigned merged_turn(lane *a, const stk__inflate *sa, lane *b, const stk__inflate *sb, unsigned how)
{
    const uint32_t *look_a = merged_look(a, sa), *look_b = merged_look(b, sb);
    lane_refill(a);
    lane_refill(b);
    if (!merged_step(a, look_a, how))
        return STOPPED_A;
    if (!merged_step(b, look_b, how))
        return STOPPED_B;
    if (!merged_step(a, merged_look(a, sa), how))
        return STOPPED_A;
    if (!merged_step(b, merged_look(b, sb), how))
        return STOPPED_B;
    return 0;
}

INLINE unsigned decode_merged_pair(const stk__inflate *sa, reader *ra, const stk__inflate *sb, reader *rb, unsigned how)
{
    unsigned stopped = 0;
    lane a = merged_open(ra), b = merged_open(rb);
    lane_refill(&a);
    lane_refill(&b);
    while (lane_goes_on(&a) && lane_goes_on(&b)) {
        unsigned other = merged_turn(&a, sa, &b, sb, how);
        if (STK_LIKELY(!other))
            other = merged_turn(&a, sa, &b, sb, how);
        if (STK_LIKELY(!other))
            continue;
        if (other == STOPPED_A ? !merged_other(&a, sa) : !merged_other(&b, sb)) {
            stopped = other;
            break;
        }
    }
    if (!stopped)
        stopped = (lane_goes_on(&a) ? 0u : STOPPED_A) | (lane_goes_on(&b) ? 0u : STOPPED_B);
    lane_close(&a, ra);
    lane_close(&b, rb);
    return stopped;
}

/* ---- the loop for the tables at hand ---- */

INLINE void decode_any(const stk__inflate *s, reader *r, unsigned how)
{
    if (!lane_fits(r))
        return;
    if (!s->merged)
        decode_fast(s, r);
    else
        decode_merged(s, r, how | NEAR);
}

INLINE unsigned decode_any_pair(stk__inflate *sa, reader *ra, stk__inflate *sb, reader *rb, unsigned how)
{
    const unsigned stopped = (lane_fits(ra) ? 0u : STOPPED_A) | (lane_fits(rb) ? 0u : STOPPED_B);
    if (stopped)
        return stopped;
    if (!sa->merged && !sb->merged)
        return decode_pair(sa, ra, sb, rb);
    stk__inflate_merge(sa);
    stk__inflate_merge(sb);
    if (ra->out - ra->out_start < WINDOW || rb->out - rb->out_start < WINDOW)
        return decode_merged_pair(sa, ra, sb, rb, how | NEAR);
    return decode_merged_pair(sa, ra, sb, rb, how);
}

static void decode_fast_plain(const stk__inflate *s, reader *r)
{
    decode_any(s, r, 0);
}

static unsigned decode_pair_plain(stk__inflate *sa, reader *ra, stk__inflate *sb, reader *rb)
{
    return decode_any_pair(sa, ra, sb, rb, 0);
}

#if defined(__x86_64__)
/* Shifts by any register need no detour there. */
STK__AVX2 static void decode_fast_avx2(const stk__inflate *s, reader *r)
{
    decode_any(s, r, BMI2);
}

STK__AVX2 static unsigned decode_pair_avx2(stk__inflate *sa, reader *ra, stk__inflate *sb, reader *rb)
{
    return decode_any_pair(sa, ra, sb, rb, BMI2);
}
#endif

/* The entry of the first of several literals. */
static uint32_t first_literal(const stk__inflate *s, const reader *r)
{
    const stk__inflate_codes *codes = &s->literal_codes;
    unsigned word = 0, first = 0;
    for (unsigned n = 1; n < 16; n++) {
        word = word << 1 | (unsigned)(r->bits >> (n - 1) & 1);
        if (word - first < codes->count[n])
            return (uint32_t)codes->symbols[n][word - first] << 8 | 1u << 6 | n;
        first = (first + codes->count[n]) << 1;
    }
    return 0;
}

/* The entry for the next bits; literals as in tables that are not merged. Behind the end of the input one literal at a
 * time, so that it does not depend on the table how many there are. */
static uint32_t last_look(const stk__inflate *s, const reader *r)
{
    uint32_t entry = s->literals[r->bits & ((1u << s->literal_bits) - 1)];
    if (!(uint8_t)entry && entry & ELSEWHERE)
        return s->literals[(entry >> 16 & WHERE) + (r->bits >> s->literal_bits & ((1u << s->literal_rest) - 1))];
    if (s->merged && entry & IS_LITERAL)
        entry = (entry & 0xffff3f) | entry >> 24 << 6;
    return r->past && (entry & COUNT) > 1u << 6 ? first_literal(s, r) : entry;
}

/* The match of an entry; false when it is damaged. */
static bool last_match(const stk__inflate *s, reader *r, uint32_t entry)
{
    size_t length, distance;
    if ((uint8_t)entry) { /* as a whole */
        const unsigned before = entry >> 8 & TAKE;
        take(r, before);
        length = entry >> 24;
        distance = stk__inflate_distance_base[entry >> 16 & 255] + take(r, (entry & TAKE) - before);
    } else {
        unsigned extra = entry >> 29;
        take(r, (entry >> 8 & TAKE) - extra);
        length = (entry >> 16 & WHERE) + take(r, extra);
        uint32_t where = s->distances[r->bits & ((1u << s->distance_bits) - 1)];
        if (where & ELSEWHERE)
            where = s->distances[(where >> 16) + (r->bits >> s->distance_bits & ((1u << s->distance_rest) - 1))];
        extra = where >> 8 & 15;
        take(r, (where & TAKE) - extra);
        distance = (where >> 16) + take(r, extra); /* 0 without a code */
    }
    if (!distance || distance > (size_t)(r->out - r->out_start))
        return false;
    r->out = copy_match(r->out, distance, length);
    return true;
}

/* One after the other, with a look at the end of the input for each. */
static block_end decode_last(const stk__inflate *s, reader *r)
{
    while (r->out < r->out_stop) {
        refill(r);
        const uint32_t entry = last_look(s, r);
        if (entry & COUNT) {
            const uint32_t put = entry >> 8;
            memcpy(r->out, &put, 4);
            r->out += entry >> 6 & 3;
            take(r, entry & TAKE);
        } else if (!entry) {
            return BLOCK_DAMAGED;
        } else if (!(uint8_t)entry && entry & END_OF_BLOCK) {
            take(r, entry >> 8 & TAKE);
            return BLOCK_ENDED;
        } else if (!last_match(s, r, entry)) {
            return BLOCK_DAMAGED;
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

static bool build_fixed(stk__inflate *s, bool may_merge)
{
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    for (unsigned i = 0; i < 288; i++)
        codes_add(&s->literal_codes, i, i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    for (unsigned i = 0; i < 32; i++)
        codes_add(&s->distance_codes, i, 5);
    return stk__inflate_build_distances(s) && stk__inflate_build_literals(s, may_merge);
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

static bool read_tables(stk__inflate *s, reader *r, bool may_merge)
{
    refill(r);
    const unsigned literals = take(r, 5) + 257, distances = take(r, 5) + 1, count = take(r, 4) + 4;
    if (literals > 286 || distances > 30 || !build_lengths(s, r, count))
        return false;
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    return read_lengths(s, r, literals, literals + distances) && stk__inflate_build_distances(s) &&
           stk__inflate_build_literals(s, may_merge);
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
    const bool may_merge = t->r.in_end - t->r.in >= MERGE_INPUT;
    if (kind == 0)
        t->kind = BLOCK_STORED;
    else if (kind == 3 || !(kind == 1 ? build_fixed(t->s, may_merge) : read_tables(t->s, &t->r, may_merge)))
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

static bool pairs_well(const stream *t)
{
    return t->kind == BLOCK_CODED && t->s->long_matches < STK__INFLATE_MANY;
}

/* Decodes both blocks at hand until one of them ends; returns which. Those that are not coded have ended. */
static unsigned decode_blocks(stream *a, stream *b)
{
    const unsigned stopped = (pairs_well(a) ? 0u : STOPPED_A) | (pairs_well(b) ? 0u : STOPPED_B);
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
