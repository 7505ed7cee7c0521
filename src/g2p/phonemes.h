/* The phonemes and marks that results are made of, and the names of letters. */
#ifndef STK_G2P_PHONEMES_H
#define STK_G2P_PHONEMES_H

#include <stddef.h>
#include <stdint.h>

/* The number of a phoneme or mark ("AA1", ","), or -1. */
int stk__phoneme_find(const char *name, size_t size);
/* The name of a letter as spoken ("W": D AH1 B AH0 L Y UW0): ids, and how many; 0 for what is no letter a to z. */
size_t stk__letter_name(char letter, const uint8_t **out_ids);

#endif
