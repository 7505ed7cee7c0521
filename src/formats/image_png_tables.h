/* The look-up tables that inflating needs, made from the lengths of the codes.
 */
#ifndef STK_FORMATS_IMAGE_PNG_TABLES_H
#define STK_FORMATS_IMAGE_PNG_TABLES_H

#include "formats/image_png_inflate.h"

/*
 * An entry of the literals: bits 0-5 how many bits to take, bits 6-7 how many literals it holds, bits 8-31 those. If
 * its low byte is 0 it holds something else: bits 8-13 how many bits to take, bit 14 end of block, bit 15 the rest of
 * the code is looked up elsewhere, bits 16-28 the base of a length or where to look, bits 29-31 extra bits (which are
 * counted in bits 8-13 too). 0 stands for no code at all.
 *
 * In a merged table an entry may hold a short match as a whole, or up to two literals: bits 0-5 how many bits to take,
 * bit 6 whether they are literals, bits 24-31 how many bytes it stands for, and bits 8-23 the literals, or in bits
 * 8-15 how many bits come before the extra bits of the distance and in bits 16-23 its symbol. All else is as above,
 * and so are the tables for the rest of long codes.
 *
 * An entry of the distances: bits 0-5 how many bits to take, bits 8-11 extra bits (counted there too), bit 15
 * elsewhere, bits 16-31 the base or where to look.
 */
#define STK__INFLATE_TAKE 63u
#define STK__INFLATE_COUNT 192u
#define STK__INFLATE_END_OF_BLOCK (1u << 14)
#define STK__INFLATE_ELSEWHERE (1u << 15)
#define STK__INFLATE_IS_LITERAL (1u << 6)

/* The longest match that is merged. */
#define STK__INFLATE_MERGED_LENGTH 8
/* From this s->long_matches on, a block is done faster by itself than with another one, and without a merged table. */
#define STK__INFLATE_MANY (1u << 14)

/* Distances without their extra bits, by symbol; 0 for those that are none. */
extern const uint16_t stk__inflate_distance_base[256];

/* Each is false when there are fewer code words than codes, or, with more than
 * one code, more. */

/* s->literals from s->literal_codes; false too when there is no code for the end of a block. `may_merge`: merged with
 * s->distance_codes, of which s->distances are made, where matches are frequent. */
bool stk__inflate_build_literals(stk__inflate *s, bool may_merge);
/* Makes s->literals of the same codes again, merged with those of the distances. */
void stk__inflate_merge(stk__inflate *s);
/* s->distances from s->distance_codes. */
bool stk__inflate_build_distances(stk__inflate *s);
/* s->lengths for codes of these lengths, up to 7: bits 0-2 how many bits to
 * take, bits 3-7 the symbol. */
bool stk__inflate_build_lengths(stk__inflate *s, const uint8_t lengths[19]);

#endif
