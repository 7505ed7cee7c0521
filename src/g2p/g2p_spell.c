/* Words in capitals: which of them are read and which are spelled, and how that sounds. */
#include <string.h>

#include "g2p/g2p_impl.h"
#include "g2p/phonemes.h"

#include "base/banned.h"

/* Short words that do not stand like "cat". In capitals, "us" and "am" are mostly others, so they are left out. */
static const char short_words[] =
    " act add age ago aid aim air all an and any are arm art as ask at be bee by bye cry die do dry due ear eat egg "
    "ego end eye fee fly go he hi ice if ill in ink is it its lie me my no odd of off oh oil old on one or our out own "
    "pie sea see she shy sky so spy tea the tie to too toe try two up use via we who why yea you zoo ";

static bool is_vowel(char c)
{
    return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
}

static bool is_short_word(const char *word, size_t size)
{
    char key[6] = {' '};
    memcpy(key + 1, word, size);
    key[size + 1] = ' ';
    return strstr(short_words, key) != NULL;
}

/* "cat", "day", "gym": y is a vowel only in the middle. */
static bool stands_like_cat(const char *word)
{
    return !is_vowel(word[0]) && (is_vowel(word[1]) || word[1] == 'y') && !is_vowel(word[2]);
}

static bool ends_in_s(const char *word, size_t size)
{
    return size > 2 && word[size - 1] == 's' && word[size - 2] == '\'';
}

bool stk__g2p_reads(const char *word, size_t size, bool shouted)
{
    if (ends_in_s(word, size))
        size -= 2;
    if ((size == 2 || size == 3) && is_short_word(word, size))
        return true;
    size_t vowels = 0, others = 0;
    for (size_t i = 0; i < size; i++) {
        vowels += is_vowel(word[i]) || word[i] == 'y';
        others += !is_vowel(word[i]) && word[i] != '\'';
    }
    if (!vowels || !others)
        return false;
    return shouted || size > 3 || (size == 3 && stands_like_cat(word));
}

size_t stk__g2p_spell_max(size_t size)
{
    return size * 7 + 2; /* "w" is the longest name */
}

/* The sound of "'s" behind a letter's name: Z, S after one that ends without voice, IH0 Z after a hiss. */
static size_t spell_s(char letter, uint8_t *out)
{
    static const char *const names[] = {"Z", "S", "IH0"};
    const bool hiss = letter == 's' || letter == 'x' || letter == 'h';
    size_t n = 0;
    if (hiss)
        out[n++] = (uint8_t)stk__phoneme_find(names[2], 3);
    out[n++] = (uint8_t)stk__phoneme_find(names[letter == 'f'], 1);
    return n;
}

size_t stk__g2p_spell(const char *word, size_t size, uint8_t *out)
{
    const bool owns = ends_in_s(word, size);
    size_t n = 0;
    if (owns)
        size -= 2;
    for (size_t i = 0; i < size; i++) {
        const uint8_t *ids = NULL;
        const size_t count = stk__letter_name(word[i], &ids);
        if (count)
            memcpy(out + n, ids, count);
        n += count;
    }
    if (owns)
        n += spell_s(word[size - 1], out + n);
    return n;
}
