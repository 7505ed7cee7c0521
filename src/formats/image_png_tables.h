/* The look-up tables that inflating needs, made from the lengths of the codes.
 */
#ifndef STK_FORMATS_IMAGE_PNG_TABLES_H
#define STK_FORMATS_IMAGE_PNG_TABLES_H

#include "formats/image_png_inflate.h"

/*
 * An entry: bits 0-5 how many bits to take, bits 6-7 how many literals it
 * holds, bits 8-31 those. With none of them: bits 8-11 extra bits (which are
 * counted in bits 0-5 too), bit 12 end of block, bit 13 the rest of the code is
 * looked up elsewhere, bits 16-31 the base of a length or distance, or where to
 * look. 0 stands for no code at all.
 */
#define STK__INFLATE_TAKE 63u
#define STK__INFLATE_COUNT 192u
#define STK__INFLATE_END_OF_BLOCK (1u << 12)
#define STK__INFLATE_ELSEWHERE (1u << 13)

/* Each is false when there are fewer code words than codes, or, with more than
 * one code, more. */

/* s->literals from s->literal_codes; false too when there is no code for the
 * end of a block. */
bool stk__inflate_build_literals(stk__inflate *s);
/* s->distances from s->distance_codes. */
bool stk__inflate_build_distances(stk__inflate *s);
/* s->lengths for codes of these lengths, up to 7: bits 0-2 how many bits to
 * take, bits 3-7 the symbol. */
bool stk__inflate_build_lengths(stk__inflate *s, const uint8_t lengths[19]);

#endif
