# Made on demand or ahead: the same bytes.
p='range(1000) | shuffle(seed=7) | filter("value % 3 > 0") | batch(32) | repeat(2)'
"$STOKER" run -q -e "$p" --digest >a
"$STOKER" run -q -e "$p" --digest --on-demand >b
"$STOKER" run -q -e "$p" --digest --on-demand --threads 1 --step-time 10us >c
cmp a b && cmp a c && echo same
