/*
 * The 8 x 8 inverse DCT with vectors: included once for each width, which defines VECTOR, WIDE(op), ZERO_VECTOR,
 * BLOCKS (one per 128 bits), LOAD_ROW, STORE_ROWS, IDCT8_NAME and IDCT8_TARGET. No include guard, therefore.
 *
 * The method is that of Loeffler, Ligtenberg and Moschytz with 13 bits of fraction: columns first, then rows, and 2
 * more bits kept in between, which gives the bytes of libjpeg's accurate integer method. All steps stay inside of
 * 128 bits.
 */

/* Pairs of 16-bit factors for WIDE(madd_epi16): a is the factor of the first of the two interleaved vectors. */
#define PAIR(a, b) WIDE(set1_epi32)(FACTORS(a, b))

/* From 32-bit sums to the outputs x (of t + o) and 7 - x (of t - o). */
#define OUTPUTS(lo, hi, t, o)                                      \
    do {                                                           \
        (lo) = WIDE(srai_epi32)(WIDE(add_epi32)((t), (o)), shift); \
        (hi) = WIDE(srai_epi32)(WIDE(sub_epi32)((t), (o)), shift); \
    } while (0)

/* The sums of one half of the columns, unpacked by `half` (unpacklo_epi16 or unpackhi_epi16). */
#define HALF(half, out)                                                                                             \
    do {                                                                                                            \
        const VECTOR p26 = half(v[2], v[6]), p73 = half(v[7], v[1]), p53 = half(v[5], v[3]), z34 = half(z3, z4);    \
        const VECTOR t2 = WIDE(madd_epi16)(p26, PAIR(4433, -10704)), t3 = WIDE(madd_epi16)(p26, PAIR(10703, 4433)); \
        const VECTOR t0 = WIDE(add_epi32)(WIDE(srai_epi32)(half(zero, sum04), 3), round);                           \
        const VECTOR t1 = WIDE(add_epi32)(WIDE(srai_epi32)(half(zero, dif04), 3), round);                           \
        const VECTOR y3 = WIDE(madd_epi16)(z34, PAIR(-6436, 9633)), y4 = WIDE(madd_epi16)(z34, PAIR(9633, 6437));   \
        const VECTOR o0 = WIDE(add_epi32)(WIDE(madd_epi16)(p73, PAIR(-4927, -7373)), y3);                           \
        const VECTOR o3 = WIDE(add_epi32)(WIDE(madd_epi16)(p73, PAIR(-7373, 4926)), y4);                            \
        const VECTOR o1 = WIDE(add_epi32)(WIDE(madd_epi16)(p53, PAIR(-4176, -20995)), y4);                          \
        const VECTOR o2 = WIDE(add_epi32)(WIDE(madd_epi16)(p53, PAIR(-20995, 4177)), y3);                           \
        OUTPUTS(out[0], out[7], WIDE(add_epi32)(t0, t3), o3);                                                       \
        OUTPUTS(out[1], out[6], WIDE(add_epi32)(t1, t2), o2);                                                       \
        OUTPUTS(out[2], out[5], WIDE(sub_epi32)(t1, t2), o1);                                                       \
        OUTPUTS(out[3], out[4], WIDE(sub_epi32)(t0, t3), o0);                                                       \
    } while (0)

#define PASS(bits)                                                                             \
    do {                                                                                       \
        const int shift = (bits);                                                              \
        const VECTOR round = WIDE(set1_epi32)(1 << ((bits)-1)), zero = ZERO_VECTOR;            \
        const VECTOR sum04 = WIDE(add_epi16)(v[0], v[4]), dif04 = WIDE(sub_epi16)(v[0], v[4]); \
        const VECTOR z3 = WIDE(add_epi16)(v[7], v[3]), z4 = WIDE(add_epi16)(v[5], v[1]);       \
        VECTOR lo[8], hi[8];                                                                   \
        HALF(WIDE(unpacklo_epi16), lo);                                                        \
        HALF(WIDE(unpackhi_epi16), hi);                                                        \
        UNROLL for (int i = 0; i < 8; i++) v[i] = WIDE(packs_epi32)(lo[i], hi[i]);             \
    } while (0)

/* Rows become columns. */
#define TRANSPOSE()                                                                      \
    do {                                                                                 \
        VECTOR a[8], b[8];                                                               \
        UNROLL for (int i = 0; i < 4; i++)                                               \
        {                                                                                \
            a[2 * i] = WIDE(unpacklo_epi16)(v[2 * i], v[2 * i + 1]);                     \
            a[2 * i + 1] = WIDE(unpackhi_epi16)(v[2 * i], v[2 * i + 1]);                 \
        }                                                                                \
        UNROLL for (int i = 0; i < 2; i++) UNROLL for (int j = 0; j < 2; j++)            \
        {                                                                                \
            b[4 * i + 2 * j] = WIDE(unpacklo_epi32)(a[4 * i + j], a[4 * i + j + 2]);     \
            b[4 * i + 2 * j + 1] = WIDE(unpackhi_epi32)(a[4 * i + j], a[4 * i + j + 2]); \
        }                                                                                \
        UNROLL for (int i = 0; i < 4; i++)                                               \
        {                                                                                \
            v[2 * i] = WIDE(unpacklo_epi64)(b[i], b[i + 4]);                             \
            v[2 * i + 1] = WIDE(unpackhi_epi64)(b[i], b[i + 4]);                         \
        }                                                                                \
    } while (0)

/* Columns of 16-bit samples become rows of bytes, two rows in each of out[0] to out[3]. */
#define ROWS_OF_BYTES(out)                                                                                           \
    do {                                                                                                             \
        VECTOR half[2][2];                                                                                           \
        UNROLL for (int i = 0; i < 2; i++)                                                                           \
        {                                                                                                            \
            const VECTOR x01 = WIDE(packs_epi16)(v[4 * i], v[4 * i + 1]);                                            \
            const VECTOR x23 = WIDE(packs_epi16)(v[4 * i + 2], v[4 * i + 3]);                                        \
            const VECTOR even = WIDE(unpacklo_epi8)(x01, x23), odd = WIDE(unpackhi_epi8)(x01, x23);                  \
            half[i][0] = WIDE(unpacklo_epi8)(even, odd);                                                             \
            half[i][1] = WIDE(unpackhi_epi8)(even, odd);                                                             \
        }                                                                                                            \
        UNROLL for (int i = 0; i < 2; i++)                                                                           \
        {                                                                                                            \
            (out)[2 * i] = WIDE(add_epi8)(WIDE(unpacklo_epi32)(half[0][i], half[1][i]), WIDE(set1_epi8)((char)128)); \
            (out)[2 * i + 1] =                                                                                       \
                WIDE(add_epi8)(WIDE(unpackhi_epi32)(half[0][i], half[1][i]), WIDE(set1_epi8)((char)128));            \
        }                                                                                                            \
    } while (0)

IDCT8_TARGET static void IDCT8_NAME(const stk__jpeg_block *blocks, int count)
{
    for (int at = 0; at < count; at += BLOCKS) {
        const stk__jpeg_block *lane[BLOCKS];
        /* What is missing in the last vector is done twice. */
        UNROLL for (int i = 0; i < BLOCKS; i++) lane[i] = &blocks[STK_MIN(at + i, count - 1)];
        VECTOR v[8], out[4];
        UNROLL for (int i = 0; i < 8; i++) v[i] =
            WIDE(mullo_epi16)(LOAD_ROW(lane, coefficients, i), LOAD_ROW(lane, factors, i));
        PASS(11);
        TRANSPOSE();
        PASS(18);
        ROWS_OF_BYTES(out);
        UNROLL for (int i = 0; i < 4; i++) STORE_ROWS(lane, out[i], 2 * i);
    }
}

#undef PAIR
#undef OUTPUTS
#undef HALF
#undef PASS
#undef TRANSPOSE
#undef ROWS_OF_BYTES
