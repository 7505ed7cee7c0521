/* What the parts of `stoker g2p` share: how pronunciations are written. */
#ifndef STK_CLI_G2P_H
#define STK_CLI_G2P_H

#include <stoker/g2p.h>

#include "cli.h"

typedef enum g2p_format { G2P_WORDS, G2P_LINES, G2P_JSON } g2p_format;

typedef struct g2p_counts {
    int64_t words, lexicon, common, predicted, spelled, oov, flagged;
} g2p_counts;

/* A symbol as it is written, with a blank behind. */
typedef struct g2p_name {
    char text[16];
    size_t size;
} g2p_name;

/* Set format, ids, variants and columns after g2p_output_init; the rest is its own. */
typedef struct g2p_output {
    const stk_g2p *g;
    g2p_format format;
    bool ids;       /* numbers in place of names */
    bool variants;  /* all pronunciations of the lexicon */
    bool columns;   /* for people: blanks in place of tabs */
    stk__text text; /* what is written so far; whoever takes it resets it */
    g2p_counts counts;
    g2p_name names[128];      /* by id */
    g2p_name json_names[128]; /* in quotes, with a comma behind */
    bool in_line;             /* a part of the line is written */
    bool after_token, after_word;
    int64_t line;
    size_t line_at; /* where the part that comes next starts in its line */
} g2p_output;

/* The names of symbols; the space is "|". */
void g2p_names(bool ids, g2p_name *names);
void g2p_output_init(g2p_output *o, const stk_g2p *g, bool ids);
void g2p_output_clear(g2p_output *o);
/* A line, or the next part of one, and its tokens. `ends`: no part follows. */
void g2p_output_line(g2p_output *o, const char *line, size_t size, const stk_g2p_token *tokens, size_t count,
                     bool ends);

#endif
