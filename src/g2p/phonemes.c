/* The fixed inventory of phonemes and marks, numbered as g2p_en does, and how letters are called. */
#include "g2p/phonemes.h"

#include <stdbool.h>

#include <stoker/g2p.h>

#include "base/compiler.h"

#include "base/banned.h"

/*
 * The phonemes with their numbers, in the order of their names: ALL is a vowel, which has one for each stress, ONE any
 * other. UW stands without stress as well, as it does in g2p_en.
 */
/* clang-format off */
#define PHONEMES(ONE, ALL) \
    ALL(AA, 4) ALL(AE, 7) ALL(AH, 10) ALL(AO, 13) ALL(AW, 16) ALL(AY, 19) ONE(B, 22) ONE(CH, 23) ONE(D, 24) ONE(DH, 25) \
    ALL(EH, 26) ALL(ER, 29) ALL(EY, 32) ONE(F, 35) ONE(G, 36) ONE(HH, 37) ALL(IH, 38) ALL(IY, 41) ONE(JH, 44) ONE(K, 45) \
    ONE(L, 46) ONE(M, 47) ONE(N, 48) ONE(NG, 49) ALL(OW, 50) ALL(OY, 53) ONE(P, 56) ONE(R, 57) ONE(S, 58) ONE(SH, 59) \
    ONE(T, 60) ONE(TH, 61) ALL(UH, 62) ONE(UW, 65) ALL(UW, 66) ONE(V, 69) ONE(W, 70) ONE(Y, 71) ONE(Z, 72) ONE(ZH, 73)

#define ONE_NAME(name, id) [id] = #name,
#define ALL_NAMES(name, id) [id] = #name "0", [(id) + 1] = #name "1", [(id) + 2] = #name "2",

static const char *const symbols[] = {
    "<pad>", "<unk>", "<s>", "</s>", /* g2p_en's own; results have only the second */
    PHONEMES(ONE_NAME, ALL_NAMES)
    " ", ".", ",", "?", "!", ";", ":", "-", "(", ")", "\"", "...",
};
/* clang-format on */

_Static_assert(STK_COUNT(symbols) == STK_G2P_SPACE + 12, "the space and eleven marks stand behind the phonemes");

size_t stk_g2p_symbol_count(void)
{
    return STK_COUNT(symbols);
}

const char *stk_g2p_symbol(size_t id)
{
    return id < STK_COUNT(symbols) ? symbols[id] : NULL;
}

/* ---- by name ---- */

/* Where the phonemes of each letter of the alphabet start, and where the last of them ends. */
static const uint8_t starts[] = {4,  22, 23, 24, 26, 35, 36, 37, 38, 44, 45, 46, 47,           48,
                                 50, 56, 57, 57, 58, 60, 62, 69, 70, 71, 71, 72, STK_G2P_SPACE};

static bool is_name(const char *symbol, const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!symbol[i] || symbol[i] != name[i])
            return false;
    return symbol[size] == 0;
}

int stk__phoneme_find(const char *name, size_t size)
{
    if (size == 0)
        return -1;
    const unsigned letter = (unsigned)name[0] - 'A';
    const bool is_letter = letter < STK_COUNT(starts) - 1;
    const size_t from = is_letter ? starts[letter] : STK_G2P_SPACE;
    const size_t to = is_letter ? starts[letter + 1] : STK_COUNT(symbols);
    for (size_t id = from; id < to; id++)
        if (is_name(symbols[id], name, size))
            return (int)id;
    return -1;
}

/* ---- letters ---- */

#define ONE_ID(name, id) C_##name = id,
#define ALL_IDS(name, id) V_##name##0 = id, V_##name##1 = (id) + 1, V_##name##2 = (id) + 2,

enum { PHONEMES(ONE_ID, ALL_IDS) };

/* As CMUdict says them; "a" is the letter there, not the article. The first number is how many there are. */
static const uint8_t letters[26][8] = {
    {1, V_EY1},                                   /* a */
    {2, C_B, V_IY1},                              /* b */
    {2, C_S, V_IY1},                              /* c */
    {2, C_D, V_IY1},                              /* d */
    {1, V_IY1},                                   /* e */
    {2, V_EH1, C_F},                              /* f */
    {2, C_JH, V_IY1},                             /* g */
    {2, V_EY1, C_CH},                             /* h */
    {1, V_AY1},                                   /* i */
    {2, C_JH, V_EY1},                             /* j */
    {2, C_K, V_EY1},                              /* k */
    {2, V_EH1, C_L},                              /* l */
    {2, V_EH1, C_M},                              /* m */
    {2, V_EH1, C_N},                              /* n */
    {1, V_OW1},                                   /* o */
    {2, C_P, V_IY1},                              /* p */
    {3, C_K, C_Y, V_UW1},                         /* q */
    {2, V_AA1, C_R},                              /* r */
    {2, V_EH1, C_S},                              /* s */
    {2, C_T, V_IY1},                              /* t */
    {2, C_Y, V_UW1},                              /* u */
    {2, C_V, V_IY1},                              /* v */
    {7, C_D, V_AH1, C_B, V_AH0, C_L, C_Y, V_UW0}, /* w */
    {3, V_EH1, C_K, C_S},                         /* x */
    {2, C_W, V_AY1},                              /* y */
    {2, C_Z, V_IY1},                              /* z */
};

size_t stk__letter_name(char letter, const uint8_t **out_ids)
{
    const unsigned at = (unsigned)(letter | 0x20) - 'a';
    if (at >= STK_COUNT(letters))
        return 0;
    *out_ids = letters[at] + 1;
    return letters[at][0];
}
