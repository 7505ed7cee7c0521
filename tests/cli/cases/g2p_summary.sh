# Standard input ends with a summary on standard error.
printf '%s\n' 'big B IH1 G' 'the DH AH0' >small.dict
printf 'the big the\nbig XML\n' | "$STOKER" g2p --lexicon small.dict
printf '' | "$STOKER" g2p --lexicon small.dict
