# Same seed, same bytes, for any number of threads, traced or not.
p='range(1000) | shuffle(seed=7) | batch(32) | repeat(2)'
"$STOKER" run -q -e "$p" --digest --threads 1 >a
"$STOKER" run -q -e "$p" --digest --threads 2 >b
"$STOKER" run -q -e "$p" --digest --threads=8 >c
"$STOKER" run -q -e "$p" --digest --threads 2 --trace t.pftrace >d
"$STOKER" run -q -e "${p/seed=7/seed=8}" --digest >e
grep -cE '^digest [0-9a-f]{32}$' a
cmp a b && cmp a c && cmp a d && echo same
cmp -s a e || echo another seed differs
test -s t.pftrace && echo traced
