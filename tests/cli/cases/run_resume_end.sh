# The checkpoint of a finished run leaves nothing to do.
"$STOKER" run -q -e 'range(10) | batch(4) | print' --checkpoint ck | wc -l
"$STOKER" run -q -e 'range(10) | batch(4) | print' --resume ck
