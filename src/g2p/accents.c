/* Text in UTF-8 into ASCII: accents, ligatures and typographic signs are folded, what is left gets a one-byte code. */
#include "g2p/accents.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

/* Two bytes for each character, a blank where there is one letter or none. */
static const char latin[] =                                             /* U+00C0 to U+024F */
    "A A A A A A AEC E E E E I I I I D N O O O O O   O U U U U Y THss"  /* U+00C0 */
    "a a a a a a aec e e e e i i i i d n o o o o o   o u u u u y thy "  /* U+00E0 */
    "A a A a A a C c C c C c C c D d D d E e E e E e E e E e G g G g "  /* U+0100 */
    "G g G g H h H h I i I i I i I i I i IJijJ j K k k L l L l L l L "  /* U+0120 */
    "l L l N n N n N n n NGngO o O o O o OEoeR r R r R r S s S s S s "  /* U+0140 */
    "S s T t T t T t U u U u U u U u U u U u W w Y y Y Z z Z z Z z s "  /* U+0160 */
    "b B B b     O C c D D D d   E A E F f G   hvI I K k l   M N n O "  /* U+0180 */
    "O o OIoiP p R     SH  t T t T U u U V Y y Z z ZH                "  /* U+01A0 */
    "        DZDzdzLJLjljNJNjnjA a I i O o U u U u U u U u U u e A a "  /* U+01C0 */
    "A a AEaeG g G g K k O o O o ZH  j DZDzdzG g HV  N n A a AEaeO o "  /* U+01E0 */
    "A a A a E e E e I i I i O o O o R r R r U u U u S s T t     H h "  /* U+0200 */
    "  d OUouZ z A a E e O o O o O o O o Y y l n t j     A C c L T s "  /* U+0220 */
    "z     B U   E e J j     R r Y y ";                                 /* U+0240 */
static const char additional[] =                                        /* U+1E00 to U+1EFF */
    "A a B b B b B b C c D d D d D d D d D d E e E e E e E e E e F f "  /* U+1E00 */
    "G g H h H h H h H h H h I i I i K k K k K k L l L l L l L l M m "  /* U+1E20 */
    "M m M m N n N n N n N n O o O o O o O o P p P p R r R r R r R r "  /* U+1E40 */
    "S s S s S s S s S s T t T t T t T t U u U u U u U u U u V v V v "  /* U+1E60 */
    "W w W w W w W w W w X x X x Y y Z z Z z Z z h t w y a s s s SSd "  /* U+1E80 */
    "A a A a A a A a A a A a A a A a A a A a A a A a E e E e E e E e "  /* U+1EA0 */
    "E e E e E e E e I i I i O o O o O o O o O o O o O o O o O o O o "  /* U+1EC0 */
    "O o O o U u U u U u U u U u U u U u Y y Y y Y y Y y LLllV v Y y "; /* U+1EE0 */

/* What single characters become, in order of the character. */
typedef struct replacement {
    uint32_t character;
    char text[4];
} replacement;

static const replacement replacements[] = {
    {0xA2, {(char)STK__FOLD_CENT}},
    {0xA3, {(char)STK__FOLD_POUND}},
    {0xA5, {(char)STK__FOLD_YEN}},
    {0xA7, {(char)STK__FOLD_SECTION}},
    {0xA9, {(char)STK__FOLD_COPYRIGHT}},
    {0xAA, "a"},
    {0xAB, "\""},
    {0xAE, {(char)STK__FOLD_REGISTERED}},
    {0xB0, {(char)STK__FOLD_DEGREE}},
    {0xB1, {(char)STK__FOLD_PLUS_MINUS}},
    {0xB2, {(char)STK__FOLD_SQUARED}},
    {0xB3, {(char)STK__FOLD_CUBED}},
    {0xB4, "'"},
    {0xB5, {(char)STK__FOLD_MICRO}},
    {0xB6, {(char)STK__FOLD_PARAGRAPH}},
    {0xBA, "o"},
    {0xBB, "\""},
    {0xBC, {(char)STK__FOLD_QUARTER}},
    {0xBD, {(char)STK__FOLD_HALF}},
    {0xBE, {(char)STK__FOLD_THREE_QUARTERS}},
    {0xD7, {(char)STK__FOLD_TIMES}},
    {0xF7, {(char)STK__FOLD_DIVIDED}},
    {0x2BB, "'"},
    {0x2BC, "'"},
    {0x3BC, {(char)STK__FOLD_MICRO}},
    {0x2010, "-"},
    {0x2011, "-"},
    {0x2012, {(char)STK__FOLD_EN_DASH}},
    {0x2013, {(char)STK__FOLD_EN_DASH}},
    {0x2014, {(char)STK__FOLD_EM_DASH}},
    {0x2015, {(char)STK__FOLD_EM_DASH}},
    {0x2018, "'"},
    {0x2019, "'"},
    {0x201A, "'"},
    {0x201B, "'"},
    {0x201C, "\""},
    {0x201D, "\""},
    {0x201E, "\""},
    {0x201F, "\""},
    {0x2026, "..."},
    {0x2032, "'"},
    {0x2033, "\""},
    {0x2039, "\""},
    {0x203A, "\""},
    {0x203C, "!"},
    {0x2044, "/"},
    {0x20A9, {(char)STK__FOLD_WON}},
    {0x20AC, {(char)STK__FOLD_EURO}},
    {0x20B9, {(char)STK__FOLD_RUPEE}},
    {0x20BD, {(char)STK__FOLD_RUBLE}},
    {0x2103, {(char)STK__FOLD_DEGREE_C}},
    {0x2109, {(char)STK__FOLD_DEGREE_F}},
    {0x2116, {(char)STK__FOLD_NUMERO}},
    {0x2122, {(char)STK__FOLD_TRADEMARK}},
    {0x212A, "K"},
    {0x212B, "A"},
    {0x2153, {(char)STK__FOLD_THIRD}},
    {0x2154, {(char)STK__FOLD_TWO_THIRDS}},
    {0x215B, {(char)STK__FOLD_EIGHTH}},
    {0x215C, {(char)STK__FOLD_THREE_EIGHTHS}},
    {0x215D, {(char)STK__FOLD_FIVE_EIGHTHS}},
    {0x215E, {(char)STK__FOLD_SEVEN_EIGHTHS}},
    {0x2212, {(char)STK__FOLD_MINUS}},
    {0x221E, {(char)STK__FOLD_INFINITY}},
    {0x2248, {(char)STK__FOLD_ABOUT}},
    {0x2260, {(char)STK__FOLD_NOT_EQUAL}},
    {0x2264, {(char)STK__FOLD_LESS_EQUAL}},
    {0x2265, {(char)STK__FOLD_GREATER_EQUAL}},
    {0x3001, ","},
    {0x3002, "."},
    {0x300C, "\""},
    {0x300D, "\""},
    {0xFB00, "ff"},
    {0xFB01, "fi"},
    {0xFB02, "fl"},
    {0xFB03, "ffi"},
    {0xFB04, "ffl"},
    {0xFB05, "st"},
    {0xFB06, "st"},
};

static const char *find_replacement(uint32_t c)
{
    size_t low = 0, high = STK_COUNT(replacements);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (replacements[middle].character < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < STK_COUNT(replacements) && replacements[low].character == c ? replacements[low].text : NULL;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool within(uint32_t c, const range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

static bool is_blank(uint32_t c)
{
    static const range blanks[] = {{0x80, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                   {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    return within(c, blanks, STK_COUNT(blanks));
}

/* Soft hyphens, joiners, marks of direction: nothing to be said, and they do not part a word. */
static bool is_invisible(uint32_t c)
{
    static const range invisible[] = {{0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E}, {0x200B, 0x200F},
                                      {0x202A, 0x202E}, {0x2060, 0x2069}, {0xFEFF, 0xFEFF}};
    return within(c, invisible, STK_COUNT(invisible));
}

/* Belongs to the character before it. */
static bool is_combining(uint32_t c)
{
    static const range combining[] = {{0x300, 0x36F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
    return within(c, combining, STK_COUNT(combining));
}

static bool is_symbol(uint32_t c)
{
    static const range symbols[] = {{0xA1, 0xBF},       {0x2000, 0x2BFF},   {0x2E00, 0x2E7F}, {0x3000, 0x303F},
                                    {0xE000, 0xF8FF},   {0xFE00, 0xFE4F},   {0xFF01, 0xFF65}, {0xFFE0, 0xFFFF},
                                    {0x1F000, 0x1FAFF}, {0xE0000, 0x10FFFF}};
    return within(c, symbols, STK_COUNT(symbols));
}

/* Up to three bytes for a character, 0 for none. `last` is the byte before them. */
static size_t fold_character(uint32_t c, unsigned char last, char out[3])
{
    const char *pair = NULL;
    if (c >= 0xC0 && c < 0x250)
        pair = latin + 2 * (c - 0xC0);
    else if (c >= 0x1E00 && c < 0x1F00)
        pair = additional + 2 * (c - 0x1E00);
    if (pair && pair[0] != ' ') {
        memcpy(out, pair, 2);
        return pair[1] == ' ' ? 1 : 2;
    }
    const char *text = find_replacement(c);
    if (text) {
        const size_t size = strlen(text);
        memcpy(out, text, size);
        return size;
    }
    if (is_invisible(c) || (is_combining(c) && last > ' ' && last != 0x7F))
        return 0;
    if (c >= 0xFF01 && c <= 0xFF5E)
        out[0] = (char)(c - 0xFF01 + '!');
    else
        out[0] = is_blank(c) ? ' ' : (char)(is_symbol(c) ? STK__FOLD_SYMBOL : STK__FOLD_OTHER);
    const unsigned char code = (unsigned char)out[0];
    return (code == STK__FOLD_SYMBOL || code == STK__FOLD_OTHER) && last == code ? 0 : 1;
}

static uint32_t decode(const unsigned char *s, size_t length)
{
    static const unsigned char lead[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = s[0] & lead[length];
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3F);
    return c;
}

/* How many bytes there are before one that is not ASCII. */
static size_t ascii_run(const char *text, size_t size)
{
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t eight;
        memcpy(&eight, text + i, 8);
        if (eight & UINT64_C(0x8080808080808080))
            break;
    }
    while (i < size && !((unsigned char)text[i] & 0x80))
        i++;
    return i;
}

bool stk__fold_needed(const char *text, size_t size)
{
    return ascii_run(text, size) < size;
}

static bool add_break(stk__folded *f, size_t source)
{
    if (!f->break_count || f->breaks[f->break_count - 1].folded != f->size) {
        if (!stk__grow((void **)&f->breaks, &f->break_capacity, f->break_count + 1, sizeof *f->breaks))
            return false;
        f->break_count++;
    }
    f->breaks[f->break_count - 1] = (stk__fold_break){f->size, source};
    return true;
}

bool stk__fold(stk__folded *f, const char *text, size_t size)
{
    f->size = f->break_count = 0;
    if (!stk__grow((void **)&f->text, &f->capacity, size, 1))
        return false;
    for (size_t at = 0; at < size;) {
        const size_t plain = ascii_run(text + at, size - at);
        if (plain) {
            memcpy(f->text + f->size, text + at, plain);
            f->size += plain;
            at += plain;
            continue;
        }
        const unsigned char *s = (const unsigned char *)text + at;
        const size_t valid = stk__utf8_length(s, size - at), length = valid ? valid : 1;
        const unsigned char last = f->size ? (unsigned char)f->text[f->size - 1] : ' ';
        char out[3];
        size_t count;
        if (valid) {
            count = fold_character(decode(s, length), last, out);
        } else {
            out[0] = (char)STK__FOLD_OTHER;
            count = last != STK__FOLD_OTHER;
        }
        memcpy(f->text + f->size, out, count);
        f->size += count;
        at += length;
        if (count != length && !add_break(f, at))
            return false;
    }
    return true;
}

size_t stk__fold_source(const stk__folded *f, size_t at, size_t *cursor)
{
    while (*cursor < f->break_count && f->breaks[*cursor].folded <= at)
        ++*cursor;
    if (!*cursor)
        return at;
    const stk__fold_break *b = &f->breaks[*cursor - 1];
    return b->source + (at - b->folded);
}

void stk__folded_clear(stk__folded *f)
{
    stk__free(f->text);
    stk__free(f->breaks);
    *f = (stk__folded){0};
}
