# A checkpoint that could not be written is refused before the run.
"$STOKER" run -e 'range(10) | print' --checkpoint nowhere/ck
