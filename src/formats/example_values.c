/* The values of one feature, and the features of a feature list. */
#include "formats/example.h"

#include <stdatomic.h>
#include <string.h>

#include "formats/example_wire.h"

#include "base/banned.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)
#define LOW_BITS UINT64_C(0x0101010101010101)

static const stk__example_message feature_list_message = {"FeatureList", 1, STK__WIRE_BYTES, {"feature"}};
static const stk__example_message list_messages[] = {
    [STK__FEATURE_BYTES] = {"BytesList", 1, STK__WIRE_BYTES, {"value"}},
    [STK__FEATURE_FLOAT] = {"FloatList", 1, STK__WIRE_FIXED32, {"value"}},
    [STK__FEATURE_INT64] = {"Int64List", 1, STK__WIRE_VARINT, {"value"}},
};

static stk__example_place list_place(const stk__feature *feature, stk_error *err)
{
    return (stk__example_place){feature->list.p, feature->list.end, "list", err};
}

/* The values of a list of one run, which is the usual form; the window of the encoded values. */
STK__EXAMPLE_FAST bool sole_run(const stk__feature *feature, stk__wire *run)
{
    const uint8_t *p = feature->list.p;
    if (!stk__example_whole_field(&p, feature->list.end, 0x0a))
        return false;
    *run = (stk__wire){p, feature->list.end};
    return true;
}

static stk_status count_floats(const stk__example_place *at, stk__wire run, int64_t *count)
{
    const int64_t size = run.end - run.p;
    if (size % 4)
        return stk_error_set(at->err, STK_CORRUPT,
                             "float_list: packed values at byte %lld take %lld bytes, wanted a multiple of 4",
                             stk__example_byte_of(at, run.p), (long long)size);
    *count += size / 4;
    return STK_OK;
}

/* Every value ends with the one byte that has no high bit. */
static stk_status count_ints(const stk__example_place *at, stk__wire run, int64_t *count)
{
    if (run.p == run.end)
        return STK_OK;
    if (run.end[-1] >= 0x80)
        return stk_error_set(at->err, STK_CORRUPT,
                             "int64_list: the last value ends at byte %lld with its varint cut off",
                             stk__example_byte_of(at, run.end));
    const uint8_t *p = run.p;
    int64_t n = 0;
    for (; run.end - p >= 8; p += 8)
        n += (int64_t)(((~stk__example_load_64(p) & HIGH_BITS) >> 7) * LOW_BITS >> 56);
    for (; p < run.end; p++)
        n += *p < 0x80;
    *count += n;
    return STK_OK;
}

stk_status stk__feature_count(const stk__feature *feature, int64_t *out, stk_error *err)
{
    const stk__feature_kind kind = feature->kind;
    int64_t count = 0;
    if (kind != STK__FEATURE_NONE) {
        const stk__example_place at = list_place(feature, err);
        stk__wire list = feature->list;
        stk__example_field run;
        stk_status status;
        while ((status = stk__example_next_field(&at, &list, &list_messages[kind], &run)) == STK_OK) {
            if (kind == STK__FEATURE_BYTES)
                count++;
            else
                STK_TRY(kind == STK__FEATURE_FLOAT ? count_floats(&at, run.value, &count)
                                                   : count_ints(&at, run.value, &count));
        }
        if (status != STK_END)
            return status;
    }
    *out = count;
    return STK_OK;
}

static STK_NOINLINE stk_status wrong_kind(const stk__feature *feature, stk__feature_kind kind, int64_t want,
                                          stk_error *err)
{
    if (!feature->present)
        return stk_error_set(err, STK_CORRUPT, "is missing, wanted %lld %s value%s", (long long)want,
                             stk__example_kind_names[kind], want == 1 ? "" : "s");
    if (feature->kind == STK__FEATURE_NONE)
        return stk_error_set(err, STK_CORRUPT, "has no list of values, wanted %lld %s value%s", (long long)want,
                             stk__example_kind_names[kind], want == 1 ? "" : "s");
    return stk_error_set(err, STK_CORRUPT, "is %s, wanted %s", stk__example_kind_names[feature->kind],
                         stk__example_kind_names[kind]);
}

static STK_NOINLINE stk_status check_count(const stk__feature *feature, int64_t want, stk_error *err)
{
    int64_t count = 0;
    STK_TRY(stk__feature_count(feature, &count, err));
    if (count == want)
        return STK_OK;
    return stk_error_set(err, STK_CORRUPT, "has %lld value%s, wanted %lld", (long long)count, count == 1 ? "" : "s",
                         (long long)want);
}

/* A feature without a list holds no values of any kind. */
static inline bool holds_nothing(const stk__feature *feature, int64_t want)
{
    return feature->kind == STK__FEATURE_NONE && want == 0;
}

static inline void copy_floats(float *out, const uint8_t *p, int64_t count)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = stk__example_load_32(p + 4 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
#else
    if (count)
        memcpy(out, p, (size_t)count * sizeof *out);
#endif
}

/* Lists in another form than one packed run. */
static STK_NOINLINE stk_status floats_slow(const stk__feature *feature, float *out, int64_t want, stk_error *err)
{
    if (want == 0)
        return check_count(feature, want, err);
    const stk__example_place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    stk__example_field run;
    stk_status status;
    while ((status = stk__example_next_field(&at, &list, &list_messages[STK__FEATURE_FLOAT], &run)) == STK_OK) {
        int64_t count = 0;
        STK_TRY(count_floats(&at, run.value, &count));
        if (count > want - have)
            return check_count(feature, want, err);
        copy_floats(out + have, run.value.p, count);
        have += count;
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

/* Most features are short: a call of memcpy would take longer than the copy. The last piece overlaps the one before it. */
STK__EXAMPLE_FAST void copy_few_floats(float *out, const uint8_t *p, int64_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    char *to = (char *)out;
    const size_t size = (size_t)count * 4;
    if (count == 1) {
        memcpy(to, p, 4);
        return;
    }
    if (count >= 2 && count < 4) {
        memcpy(to, p, 8);
        memcpy(to + size - 8, p + size - 8, 8);
        return;
    }
    if (count >= 4 && count <= 32) {
        for (size_t at = 0; at + 16 < size; at += 16)
            memcpy(to + at, p + at, 16);
        memcpy(to + size - 16, p + size - 16, 16);
        return;
    }
#endif
    copy_floats(out, p, count);
}

stk_status stk__feature_floats(const stk__feature *feature, float *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_FLOAT))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_FLOAT, want, err);
    if (STK_LIKELY(sole_run(feature, &run))) {
        const size_t size = (size_t)(run.end - run.p);
        if (STK_LIKELY(size % 4 == 0 && size / 4 == (uint64_t)want)) {
            copy_few_floats(out, run.p, want);
            return STK_OK;
        }
    }
    return floats_slow(feature, out, want, err);
}

#if defined(__x86_64__)
/* Whether this CPU gathers bits in one fast instruction; Zen 1 and 2 have it, but slow. */
static bool has_fast_pext(void)
{
    static atomic_int known; /* 0: not yet looked, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (STK_UNLIKELY(answer == 0)) {
        const bool slow = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
        answer = __builtin_cpu_supports("bmi2") && !slow ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* Written out, so that one function can hold both ways; the intrinsic asks for a target of its own. */
static inline uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    uint64_t out;
    __asm__("pextq %2, %1, %0" : "=r"(out) : "r"(x), "r"(mask));
    return out;
}
#else
static bool has_fast_pext(void)
{
    return false;
}

static inline uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    return x & mask; /* never called */
}
#endif

/* The varint that ends within the 8 bytes of `x`; `stops` are the high bits that are clear, at least one. */
STK__EXAMPLE_FAST uint64_t unpack_varint(uint64_t x, uint64_t stops, bool pext)
{
    x &= stops ^ (stops - 1);
    if (pext)
        return gather_bits(x, UINT64_C(0x7f7f7f7f7f7f7f7f));
    x = (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x7f007f007f007f00)) >> 1;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Decodes up to `room` values and moves run->p behind them; returns how many, or -1 on a bad varint. */
STK__EXAMPLE_FAST int64_t decode_ints_by(stk__wire *run, int64_t *out, int64_t room, bool pext)
{
    const uint8_t *p = run->p, *end = run->end;
    int64_t n = 0;
    while (n < room && end - p >= 8) {
        const uint64_t x = stk__example_load_64(p), stops = ~x & HIGH_BITS;
        if (stops == HIGH_BITS && room - n >= 8) {
            for (int i = 0; i < 8; i++)
                out[n + i] = p[i];
            n += 8;
            p += 8;
        } else if (STK_LIKELY(stops != 0)) {
            out[n++] = (int64_t)unpack_varint(x, stops, pext);
            p += __builtin_ctzll(stops) / 8 + 1;
        } else {
            stk__wire w = {p, end};
            uint64_t value;
            if (!stk__wire_varint_slow(&w, &value))
                return -1;
            out[n++] = (int64_t)value;
            p = w.p;
        }
    }
    /* The last 7 bytes or fewer fit a register; the zeros behind them end a cut varint, which is then too long. */
    if (n < room && p < end) {
        size_t left = (size_t)(end - p), size;
        for (uint64_t x = stk__example_load_few(p, left); n < room && left; x >>= 8 * size, p += size, left -= size) {
            const uint64_t stops = ~x & HIGH_BITS;
            size = (size_t)__builtin_ctzll(stops) / 8 + 1;
            if (size > left)
                return -1;
            out[n++] = (int64_t)unpack_varint(x, stops, pext);
        }
    }
    run->p = p;
    return n;
}

static inline int64_t decode_ints(stk__wire *run, int64_t *out, int64_t room)
{
    return has_fast_pext() ? decode_ints_by(run, out, room, true) : decode_ints_by(run, out, room, false);
}

static STK_NOINLINE stk_status bad_varint(const stk__example_place *at, stk__wire run)
{
    return stk_error_set(
        at->err, STK_CORRUPT,
        "int64_list: a varint between bytes %lld and %lld of the list is cut off or longer than 64 bits",
        stk__example_byte_of(at, run.p), stk__example_byte_of(at, run.end));
}

/* Lists in another form than one packed run, and all errors. */
static STK_NOINLINE stk_status ints_slow(const stk__feature *feature, int64_t *out, int64_t want, stk_error *err)
{
    if (want == 0)
        return check_count(feature, want, err);
    const stk__example_place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    stk__example_field run;
    stk_status status;
    while ((status = stk__example_next_field(&at, &list, &list_messages[STK__FEATURE_INT64], &run)) == STK_OK) {
        const int64_t count = decode_ints(&run.value, out + have, want - have);
        if (count < 0)
            return bad_varint(&at, run.value);
        have += count;
        if (run.value.p < run.value.end)
            return check_count(feature, want, err);
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

/* `want` values of at most 8 bytes, with room to read behind them: no look at the end in the loop, since the branch predictor
   can only guess at random lengths. False: something is unusual, take the careful way. */
STK__EXAMPLE_FAST bool ints_ahead(const uint8_t *p, const uint8_t *end, int64_t *out, int64_t want, bool pext)
{
    for (int64_t n = 0; n < want; n++) {
        const uint64_t x = stk__example_load_64(p), stops = ~x & HIGH_BITS;
        if (STK_UNLIKELY(stops == 0))
            return false;
        out[n] = (int64_t)unpack_varint(x, stops, pext);
        p += __builtin_ctzll(stops) / 8 + 1;
    }
    return p == end;
}

stk_status stk__feature_ints(const stk__feature *feature, int64_t *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_INT64))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_INT64, want, err);
    if (STK_LIKELY(sole_run(feature, &run))) {
        if (STK_LIKELY(want <= 16 && feature->limit && feature->limit - run.p >= 160)) {
            if (STK_LIKELY(has_fast_pext() ? ints_ahead(run.p, run.end, out, want, true)
                                           : ints_ahead(run.p, run.end, out, want, false)))
                return STK_OK;
        }
        const int64_t count = decode_ints(&run, out, want);
        if (STK_LIKELY(count == want && run.p == run.end))
            return STK_OK;
    }
    return ints_slow(feature, out, want, err);
}

stk_status stk__feature_bytes(const stk__feature *feature, stk_bytes *out, int64_t want, stk_error *err)
{
    stk__wire run;
    if (STK_UNLIKELY(feature->kind != STK__FEATURE_BYTES))
        return holds_nothing(feature, want) ? STK_OK : wrong_kind(feature, STK__FEATURE_BYTES, want, err);
    if (want == 1 && sole_run(feature, &run)) {
        *out = (stk_bytes){run.p, run.end - run.p};
        return STK_OK;
    }
    const stk__example_place at = list_place(feature, err);
    stk__wire list = feature->list;
    int64_t have = 0;
    stk__example_field value;
    stk_status status;
    while ((status = stk__example_next_field(&at, &list, &list_messages[STK__FEATURE_BYTES], &value)) == STK_OK) {
        if (have == want)
            return check_count(feature, want, err);
        out[have++] = (stk_bytes){value.value.p, value.value.end - value.value.p};
    }
    if (status != STK_END)
        return status;
    return have == want ? STK_OK : check_count(feature, want, err);
}

/* The next stretch of encoded values; END after the last. */
static stk_status next_run(const stk__example_place *at, stk__feature_kind kind, stk__feature_rest *rest)
{
    int64_t count = 0;
    stk__example_field field;
    STK_TRY(stk__example_next_field(at, &rest->list, &list_messages[kind], &field));
    if (kind == STK__FEATURE_FLOAT)
        STK_TRY(count_floats(at, field.value, &count));
    rest->run = field.value;
    return STK_OK;
}

static int64_t take_floats(stk__wire *run, float *out, int64_t room)
{
    const int64_t count = STK_MIN((run->end - run->p) / 4, room);
    copy_floats(out, run->p, count);
    run->p += 4 * count;
    return count;
}

stk_status stk__feature_some(const stk__feature *feature, stk__feature_rest *rest, void *out, int64_t room,
                             int64_t *out_count, stk_error *err)
{
    const bool floats = feature->kind == STK__FEATURE_FLOAT;
    const stk__example_place at = list_place(feature, err);
    int64_t have = 0;
    while (have < room) {
        if (rest->run.p == rest->run.end) {
            const stk_status status = next_run(&at, feature->kind, rest);
            if (status == STK_END)
                break;
            if (status != STK_OK)
                return status;
            continue;
        }
        const int64_t count = floats ? take_floats(&rest->run, (float *)out + have, room - have)
                                     : decode_ints(&rest->run, (int64_t *)out + have, room - have);
        if (count < 0)
            return bad_varint(&at, rest->run);
        have += count;
    }
    *out_count = have;
    return STK_OK;
}

/* Feature lists */

stk_status stk__feature_list_count(const stk__feature_list *list, int64_t *out, stk_error *err)
{
    stk__wire w = list->features;
    const stk__example_place at = {w.p, w.end, "feature list", err};
    int64_t count = 0;
    stk__example_field f;
    stk_status status;
    while ((status = stk__example_next_field(&at, &w, &feature_list_message, &f)) == STK_OK)
        count++;
    if (status != STK_END)
        return status;
    *out = count;
    return STK_OK;
}

stk_status stk__feature_list_next(stk__feature_list *list, stk__feature *out, stk_error *err)
{
    const stk__example_place at = {list->features.p, list->features.end, "rest of the feature list", err};
    stk__wire w = list->features;
    stk__example_field f;
    STK_TRY(stk__example_next_field(&at, &w, &feature_list_message, &f));
    stk__feature feature = {.list = {f.value.p, f.value.p}, .present = true};
    if (!stk__example_feature_fast(f.value.p, f.value.end, &feature.list, &feature.kind))
        STK_TRY(stk__example_merge_feature(&at, f.value, &feature.list, &feature.kind));
    list->features = w;
    *out = feature;
    return STK_OK;
}
