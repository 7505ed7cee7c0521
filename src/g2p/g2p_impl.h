/* What the parts of the public g2p calls share. */
#ifndef STK_G2P_IMPL_H
#define STK_G2P_IMPL_H

#include <stdatomic.h>

#include <stoker/g2p.h>

#include "g2p/lexicon.h"
#include "g2p/model.h"
#include "g2p/tokens.h"

struct stk_g2p {
    /* set by open, then const */
    stk__g2p_model *model;
    stk__lexicon *lexicon; /* NULL: none was given */
    stk__lexicon *common;  /* words that the library's own model reads wrong; NULL: not wanted */
    uint64_t fingerprint;
    /* Memory of stk_g2p_predict between its calls, taken out by one thread at a time. NULL: in use, or not made yet. */
    _Atomic(void *) spare;
};

/* ---- g2p_spell.c ---- */

/* Whether a word that was written in capitals is read; `shouted`: the words around it are in capitals too. */
bool stk__g2p_reads(const char *word, size_t size, bool shouted);
/* How many ids a word can take when it is spelled. */
size_t stk__g2p_spell_max(size_t size);
/* Writes the names of its letters; "'s" at the end is spoken as one sound. Returns how many ids. */
size_t stk__g2p_spell(const char *word, size_t size, uint8_t *out);

#endif
