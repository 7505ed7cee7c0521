# Stopped at any batch and resumed, with other threads: what comes out is the whole run.
p='range(50) | shuffle(seed=3) | batch(8) | repeat(2) | print'
"$STOKER" run -q -e "$p" >whole
for n in 1 2 7 8 13; do
    "$STOKER" run -q -e "$p" --steps $n --checkpoint ck --threads 1 >first
    "$STOKER" run -q -e "$p" --resume ck --threads 3 >second
    cat first second | cmp - whole && echo "after $n: same"
done
