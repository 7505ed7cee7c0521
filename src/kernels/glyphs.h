/* Letters of 5 x 7 dots, for captions. */
#ifndef STK_KERNELS_GLYPHS_H
#define STK_KERNELS_GLYPHS_H

#include "kernels/image.h"

enum { STK__GLYPH_WIDTH = 5, STK__GLYPH_HEIGHT = 7, STK__GLYPH_ADVANCE = 6 };

/* Writes ASCII text, its top left at (x, y), cut to the image; what has no letter is shown as '?'. */
void stk__glyphs_draw(const stk__pixels *image, int32_t x, int32_t y, const char *text, size_t length, const uint8_t *pixel);

#endif
